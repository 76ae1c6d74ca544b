"""Pictures of finished results. Each function takes a record and an optional `ax`, and returns the `ax`."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.arrays import Floats
from somcot.plumbing.text import figure, label_text
from somcot.result import Claim, Result
from somcot.samples import Samples

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["coupling", "decoder", "encoder", "graph", "overview", "trace", "visits"]

NAMES = ("X", "Y")
_MAX_TICKS = 15
_OF_CHAINS = ", estimated chains"
_GRAPH_STATES = 20


def encoder(result: Result, *, ax: Axes | None = None, names: tuple[str, str] = NAMES) -> Axes:
    """Heat map of the encoder lambda_X(y | x): where each state of X goes in Y.

    Parameters
    ----------
    result : Result
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    names : (str, str)
        What to call the two processes.
    """
    ax = _heat_map(result.encoder, result.states_x, result.states_y, ax)
    ax.set(xlabel=_state(names[1]), ylabel=_state(names[0]), title=r"encoder $\lambda_X(y \mid x)$")
    return ax


def decoder(result: Result, *, ax: Axes | None = None, names: tuple[str, str] = NAMES) -> Axes:
    """Heat map of the decoder lambda_Y(x | y): where each state of Y goes in X. Parameters as for `encoder`."""
    ax = _heat_map(result.decoder, result.states_y, result.states_x, ax)
    ax.set(xlabel=_state(names[0]), ylabel=_state(names[1]), title=r"decoder $\lambda_Y(x \mid y)$")
    return ax


def coupling(result: Result, *, ax: Axes | None = None, names: tuple[str, str] = NAMES) -> Axes:
    """Heat map of the law of pairs: the share of (discounted) time spent in x and y together.

    Parameters as for `encoder`.
    """
    ax = _heat_map(result.state_law, result.states_x, result.states_y, ax)
    ax.set(xlabel=_state(names[1]), ylabel=_state(names[0]), title="time spent together")
    return ax


def trace(result: Result, *, ax: Axes | None = None) -> Axes:
    """The distance along the run, with what is proved or estimated of it.

    The band is the proved bracket that the run ended in; a run on streams has none. For data the run is that of the
    estimated chains; the estimate itself is a line, and its interval a band of its own.

    Parameters
    ----------
    result : Result
    ax : matplotlib Axes, optional
    """
    ax = _axes(ax)
    steps, values = np.asarray(result.trace.get("step", ())), np.asarray(result.trace.get("distance", ()))
    estimated = result.claim is Claim.ESTIMATED
    if result.claim is not Claim.NOTHING:
        ax.axhspan(*result.bounds, alpha=0.25, color="C0", label="proved bracket" + _OF_CHAINS * estimated)
    marker = "o" if len(steps) <= 30 else None
    ax.plot(steps, values, marker=marker, color="C0", label="distance" + _OF_CHAINS * estimated)
    if estimated:
        ax.axhline(result.distance, color="C1", label="estimate")
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


def graph(result: Result, side: str = "x", *, ax: Axes | None = None, names: tuple[str, str] = NAMES) -> Axes:
    """One side of a result as a graph: dots grow with the time spent in a state, lines with how often a step is taken.

    A state of Y has the colour of the state of X it is most often paired with, so the two graphs match.

    Parameters
    ----------
    result : Result
        With its ``plan``; a chain alone has no partner to be coloured by and is refused.
    side : {"x", "y"}
    ax, names
        As for `encoder`.
    """
    if not isinstance(result, Result):
        raise TypeError(f"result: found {type(result).__name__}, expected a Result of distance(x, y, ...)")
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
    ax.set_title(f"occupancy of {_text(names[0 if side == 'x' else 1], 40)}")
    return ax


def overview(result: Result, *, names: tuple[str, str] = NAMES) -> Figure:
    """Everything at a glance: encoder, decoder, pairs, the run, and both chains.

    Parameters
    ----------
    result : Result
    names : (str, str)
        What to call the two processes.
    """
    import matplotlib.pyplot as plt

    picture, axes = plt.subplots(2, 3, figsize=(16, 9.5), layout="constrained")
    encoder(result, ax=axes[0, 0], names=names)
    decoder(result, ax=axes[0, 1], names=names)
    coupling(result, ax=axes[0, 2], names=names)
    trace(result, ax=axes[1, 0])
    for ax, side in zip(axes[1, 1:], ("x", "y"), strict=True):
        if result.plan is None:
            ax.set_axis_off()
        else:
            graph(result, side, ax=ax, names=names)
    picture.suptitle(_title(result, names))
    return picture


def _title(result: Result, names: tuple[str, str]) -> str:
    said = {
        Claim.PROVED: f"proved to {result.bounds.high - result.bounds.low:.1g}",
        Claim.ESTIMATED: "estimated",
        Claim.NOTHING: f"after {result.n_steps:,} steps, nothing proved",
    }[result.claim]
    if result.confidence_interval is not None:
        low, high, level = result.confidence_interval
        said += f", {100 * level:g} % interval {figure(low)} to {figure(high)}"
    return f"{_text(names[0], 40)} and {_text(names[1], 40)}: distance {figure(result.distance)} ({said})"


def _state(name: str) -> str:
    return f"state of {_text(name, 40)}"


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


def _text(label: Hashable, longest: int = 16) -> str:
    """A label for matplotlib: short, without formulas, and without characters its fonts lack (they warn)."""
    text = ",".join(map(str, label)) if isinstance(label, tuple) else str(label)
    plain = "".join(c if c.isprintable() and ord(c) < 0x2E80 else "\u25a1" for c in label_text(text, longest))
    return plain.replace("$", r"\$")
