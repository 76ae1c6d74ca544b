"""Shared parts of the plots: axes, names, labels, bars and graphs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from somcot.plumbing.arrays import Array, Floats
from somcot.plumbing.text import label_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["NAMES", "axes", "bar_labels", "circle", "heat_map", "shown"]

NAMES = ("X", "Y")
_MAX_TICKS = 15  # more labels overlap at the usual size


def axes(ax: Axes | None) -> Axes:
    """`ax`, or the axes of a new figure."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def shown(label: Hashable, longest: int = 16) -> str:
    """A label for matplotlib: shortened, with formulas disabled and characters missing from its fonts replaced."""
    text = ",".join(map(str, label)) if isinstance(label, tuple) else str(label)
    # DejaVu Sans, the default font, has no CJK characters, and $ would start a formula.
    plain = "".join(c if c.isprintable() and ord(c) < 0x2E80 else "\u25a1" for c in label_text(text, longest))
    return plain.replace("$", r"\$")


def heat_map(values: Floats, rows: Sequence[Hashable], columns: Sequence[Hashable], ax: Axes | None) -> Axes:
    """Heat map with labelled rows and columns; larger values are darker."""
    ax = axes(ax)
    image = ax.imshow(values, vmin=0.0, vmax=max(float(values.max()), 1e-12), cmap="Blues", aspect="auto")
    ax.figure.colorbar(image, ax=ax, label="probability", shrink=0.9)
    _ticks(ax.yaxis, rows)
    _ticks(ax.xaxis, columns)
    ax.tick_params(axis="x", rotation=90 if max(len(shown(label)) for label in columns) > 2 else 0)
    return ax


def _ticks(axis: Any, labels: Sequence[Hashable]) -> None:
    """Label every state, or evenly spaced ones if there are too many."""
    step = -(-len(labels) // _MAX_TICKS)  # rounded up
    axis.set_ticks(np.arange(0, len(labels), step), [shown(label) for label in labels[::step]])


def bar_labels(ax: Axes, labels: Sequence[str]) -> None:
    """Label horizontal bars, the first on top."""
    ax.set_yticks(np.arange(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.spines[["top", "right"]].set_visible(False)


def circle(ax: Axes, weights: Floats, labels: Sequence[Hashable], shades: Array | str) -> None:
    """States on a circle: dots are sized by row sums, arrows by entries."""
    angle = np.pi / 2 - 2 * np.pi * np.arange(len(labels)) / max(len(labels), 1)
    place = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    # Steps to itself would hide all others: they often have most of the mass.
    between = weights - np.diag(np.diag(weights))
    top = float(between.max()) or 1.0
    # Rare steps are left out, since hundreds of pale lines hide the others.
    for i, j in np.argwhere(between > 0.02 * top).tolist():
        share = float(between[i, j]) / top
        ax.annotate(
            "", xy=tuple(place[j]), xytext=tuple(place[i]),
            arrowprops={"arrowstyle": "-|>", "connectionstyle": "arc3,rad=0.12", "shrinkA": 8, "shrinkB": 8,
                        "alpha": 0.2 + 0.6 * share, "linewidth": 0.5 + 3 * share, "color": "0.35"},
        )  # fmt: skip
    time = weights.sum(axis=1)
    ax.scatter(place[:, 0], place[:, 1], s=30 + 600 * time / max(float(time.max()), 1e-300), c=shades, zorder=3)
    for (x, y), label in zip(place.tolist(), labels, strict=True):
        side = "center" if abs(x) < 0.2 else "left" if x > 0 else "right"
        ax.text(1.17 * x, 1.17 * y, shown(label), ha=side, va="center", fontsize="small")
    ax.set(xlim=(-1.7, 1.7), ylim=(-1.45, 1.45), aspect="equal")
    ax.set_axis_off()
