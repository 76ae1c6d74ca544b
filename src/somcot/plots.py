"""Pictures of finished results. Each function takes a record and an optional `ax`, and returns the `ax`."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.arrays import Floats
from somcot.plumbing.text import label_text
from somcot.result import Result
from somcot.samples import Samples

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["coupling", "decoder", "encoder", "graph", "overview", "trace", "visits"]

_MAX_TICKS = 15
_GRAPH_STATES = 20


def encoder(result: Result, *, ax: Axes | None = None) -> Axes:
    """Heat map of the encoder lambda_X(y | x): where each state of X goes in Y.

    Parameters
    ----------
    result : Result
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    ax = _heat_map(result.encoder, result.states_x, result.states_y, ax)
    ax.set(xlabel="state y", ylabel="state x", title=r"encoder $\lambda_X(y \mid x)$")
    return ax


def decoder(result: Result, *, ax: Axes | None = None) -> Axes:
    """Heat map of the decoder lambda_Y(x | y): where each state of Y goes in X. Parameters as for `encoder`."""
    ax = _heat_map(result.decoder, result.states_y, result.states_x, ax)
    ax.set(xlabel="state x", ylabel="state y", title=r"decoder $\lambda_Y(x \mid y)$")
    return ax


def coupling(result: Result, *, ax: Axes | None = None) -> Axes:
    """Heat map of the law of pairs: the share of (discounted) time spent in x and y together.

    Parameters as for `encoder`.
    """
    ax = _heat_map(result.state_law, result.states_x, result.states_y, ax)
    ax.set(xlabel="state y", ylabel="state x", title="time spent together")
    return ax


def trace(result: Result, *, ax: Axes | None = None) -> Axes:
    """The estimate along the run, with the certified bracket it ended in as a band. Parameters as for `encoder`."""
    ax = _axes(ax)
    steps, values = np.asarray(result.trace.get("step", ())), np.asarray(result.trace.get("distance", ()))
    ax.axhspan(result.bounds.low, result.bounds.high, alpha=0.25, color="C0", label="certified bracket")
    ax.plot(steps, values, marker="o" if len(steps) <= 30 else None, color="C0", label="estimate")
    if result.confidence_interval is not None:
        low, high, level = result.confidence_interval
        ax.axhspan(low, high, alpha=0.15, color="C1", label=f"{100 * level:g} % interval")
    ax.set(xlabel="step", ylabel="distance", title="along the run")
    ax.legend(frameon=False, fontsize="small")
    return ax


def visits(samples: Samples, *, ax: Axes | None = None, most: int = 30) -> Axes:
    """How often each state was left, the most visited ones first.

    Parameters
    ----------
    samples : Samples
    ax : matplotlib Axes, optional
    most : int
        States to show.
    """
    ax = _axes(ax)
    order = np.argsort(-samples.visits, kind="stable")[:most]
    ax.barh(np.arange(len(order)), samples.visits[order], color="C0")
    ax.set_yticks(np.arange(len(order)), [_text(samples.states[k]) for k in order])
    ax.invert_yaxis()
    ax.set(xlabel="steps taken from the state", title="visits")
    return ax


def graph(result: Result, side: str = "x", *, ax: Axes | None = None) -> Axes:
    """One chain as a graph: dots grow with the time spent in a state, lines with how often a step is taken.

    A state of Y has the colour of the state of X it is most often paired with, so the two graphs match.

    Parameters
    ----------
    result : Result
        With its ``plan``.
    side : {"x", "y"}
    ax : matplotlib Axes, optional
    """
    if side not in ("x", "y"):
        raise ValueError(f"side: found {side!r}, expected 'x' or 'y'")
    if result.plan is None:
        raise ValueError("result: this run did not keep its coupling, so there are no occupancies to draw")
    ax = _axes(ax)
    states = result.states_x if side == "x" else result.states_y
    law = (result.plan.marginal_x() if side == "x" else result.plan.marginal_y()).toarray()
    chosen = np.sort(np.argsort(-law.sum(axis=1), kind="stable")[:_GRAPH_STATES])
    shades = _matched_colours(result)[0 if side == "x" else 1][chosen]
    _draw_graph(ax, law[np.ix_(chosen, chosen)], [states[k] for k in chosen], shades)
    ax.set_title(f"occupancy of {side.upper()}")
    return ax


def overview(result: Result) -> Figure:
    """Everything at a glance: encoder, decoder, pairs, the run, and both chains."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(16, 9.5), layout="constrained")
    encoder(result, ax=axes[0, 0])
    decoder(result, ax=axes[0, 1])
    coupling(result, ax=axes[0, 2])
    trace(result, ax=axes[1, 0])
    for ax, side in zip(axes[1, 1:], ("x", "y"), strict=True):
        if result.plan is None:
            ax.set_axis_off()
        else:
            graph(result, side, ax=ax)
    figure.suptitle(str(result).replace("$", r"\$"))
    return figure


def _matched_colours(result: Result) -> tuple[NDArray[Any], NDArray[Any]]:
    import matplotlib as mpl

    n = len(result.states_x)
    of_x = mpl.colormaps["turbo"](np.linspace(0.05, 0.95, n))
    return of_x, of_x[result.decoder.argmax(axis=1)]


def _draw_graph(ax: Axes, law: Floats, labels: list[Hashable], shades: NDArray[Any]) -> None:
    angle = np.pi / 2 - 2 * np.pi * np.arange(len(labels)) / max(len(labels), 1)
    place = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    between = law - np.diag(np.diag(law))
    top = float(between.max()) or 1.0
    for i, j in np.argwhere(between > 0.02 * top).tolist():
        share = float(between[i, j]) / top
        ax.annotate(
            "", xy=tuple(place[j]), xytext=tuple(place[i]),
            arrowprops={"arrowstyle": "-|>", "connectionstyle": "arc3,rad=0.12", "shrinkA": 8, "shrinkB": 8,
                        "alpha": 0.2 + 0.6 * share, "linewidth": 0.5 + 3 * share, "color": "0.35"},
        )  # fmt: skip
    time = law.sum(axis=1)
    ax.scatter(place[:, 0], place[:, 1], s=30 + 600 * time / max(float(time.max()), 1e-300), c=shades, zorder=3)
    for (x, y), label in zip(place.tolist(), labels, strict=True):
        side = "center" if abs(x) < 0.2 else "left" if x > 0 else "right"
        ax.text(1.17 * x, 1.17 * y, _text(label), ha=side, va="center", fontsize="small")
    ax.set(xlim=(-1.7, 1.7), ylim=(-1.45, 1.45), aspect="equal")
    ax.set_axis_off()


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def _heat_map(values: Floats, rows: tuple[Hashable, ...], columns: tuple[Hashable, ...], ax: Axes | None) -> Axes:
    ax = _axes(ax)
    image = ax.imshow(values, vmin=0.0, vmax=max(float(values.max()), 1e-12), cmap="Blues", aspect="auto")
    ax.figure.colorbar(image, ax=ax, label="probability", shrink=0.9)
    _ticks(ax.yaxis, rows)
    _ticks(ax.xaxis, columns)
    ax.tick_params(axis="x", rotation=90 if max(len(_text(label)) for label in columns) > 2 else 0)
    return ax


def _ticks(axis: Any, labels: tuple[Hashable, ...]) -> None:
    """Label every state, or evenly spaced ones when there are too many to read."""
    step = -(-len(labels) // _MAX_TICKS)
    places = np.arange(0, len(labels), step)
    axis.set_ticks(places, [_text(labels[i]) for i in places])


def _text(label: Hashable) -> str:
    """A label for matplotlib: short, without formulas, and without characters its fonts lack (they warn)."""
    text = ",".join(map(str, label)) if isinstance(label, tuple) else str(label)
    plain = "".join(c if c.isprintable() and ord(c) < 0x2E80 else "\u25a1" for c in label_text(text, 16))
    return plain.replace("$", r"\$")
