"""Shared parts of the plots: axes, names, labels, bars and graphs."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from somcot.plumbing.arrays import Array, Floats
from somcot.plumbing.checks import check_kind, check_sequence
from somcot.plumbing.html import pull
from somcot.plumbing.text import fitting, text_width
from somcot.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "LESS", "MORE", "NAMES", "Arrow", "axes", "bar_labels", "check", "check_pair", "circle", "heat_map", "ring",
    "shown", "shown_all",
]  # fmt: skip

NAMES = ("X", "Y")
MORE, LESS = "#0072B2", "#D55E00"  # blue and vermilion of Okabe and Ito, which colour-blind people tell apart
_MAX_TICKS = 15  # more labels overlap at the usual size


def check(result: object, names: object = NAMES) -> None:
    """Check that a record is a Result, and that there are two names."""
    check_kind("result", result, Result)
    check_pair("names", names)


def check_pair(name: str, values: object) -> None:
    """Check that a value has two elements, such as the names of the processes."""
    check_kind(name, values, tuple, list)
    if len(check_sequence(name, values)) != 2:
        raise ValueError(f"{name}: found {values!r}, expected two of them")


def axes(ax: Axes | None, **options: Any) -> Axes:
    """`ax`, or the axes of a new figure."""
    import matplotlib.axes
    import matplotlib.pyplot as plt

    if ax is not None:
        check_kind("ax", ax, matplotlib.axes.Axes)
        return ax
    new: Axes = plt.subplots(layout="constrained", **options)[1]
    return new


def shown(label: Hashable, longest: int = 16) -> str:
    """A label for matplotlib: shortened, with formulas disabled and characters that its fonts lack replaced."""
    return shown_all([label], longest)[0]


def shown_all(labels: Iterable[Hashable], longest: int = 16) -> list[str]:
    """Labels for matplotlib that differ where the labels do."""
    texts = [",".join(map(str, label)) if isinstance(label, tuple) else str(label) for label in labels]
    import matplotlib

    settings = cast("dict[str, Any]", matplotlib.rcParams)
    # Generic families such as sans-serif have a list of fonts.
    known = _characters(*(font for name in settings["font.family"] for font in settings.get(f"font.{name}", [name])))
    # $ would start a formula.
    return [
        "".join(c if c.isprintable() and ord(c) in known else "\u25a1" for c in text).replace("$", r"\$")
        for text in fitting(texts, longest)
    ]


@functools.cache
def _characters(*families: str) -> frozenset[int]:
    """Characters that some font of these families has; DejaVu Sans, the default, has no Chinese or Thai ones."""
    from matplotlib import font_manager

    known: set[int] = set()
    for family in families:
        try:
            path = font_manager.findfont(family, fallback_to_default=False)
        except ValueError:
            continue  # not installed
        known.update(font_manager.get_font(path).get_charmap())
    return frozenset(known)


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
    axis.set_ticks(np.arange(0, len(labels), step), shown_all(labels[::step]))


def bar_labels(ax: Axes, labels: Sequence[str]) -> None:
    """Label horizontal bars, the first on top."""
    ax.set_yticks(np.arange(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.spines[["top", "right"]].set_visible(False)


def _room(ax: Axes, texts: Sequence[str], points: float, reach: float) -> tuple[float, float]:
    """Half of the width of axes in radii of a circle with labels at `reach`, and that radius in points.

    Labels stay within axes that fill their figure. Otherwise the layout makes room for them, and the circle shrinks.
    """
    figure, box = ax.figure, ax.get_window_extent()
    alone = len(figure.axes) == 1
    # Alone they fill the figure but for a title and a legend.
    sides = (figure.bbox.width, 0.86 * figure.bbox.height) if alone else (box.width, box.height)
    width, height = (72.0 * side / figure.dpi for side in sides)
    if not alone:  # of unknown size until the layout is made
        return 1.7, min(width / 3.4, height / 2.8) / 2.0
    room = points * max(map(text_width, texts), default=0.0)
    radius = max(min((width / 2.0 - room) / reach, height / 2.8), 0.15 * width)
    return max(width / radius / 2.0, 1.4), radius


def circle(ax: Axes, weights: Floats, time: Floats, labels: Sequence[Hashable], shades: Array | str) -> None:
    """States on a circle: dots are sized by `time`, arrows by entries."""
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
    texts = shown_all(labels)
    wide, radius = _room(ax, texts, 8.0, 1.17)
    largest = min(600.0, (0.8 * 2 * np.pi * radius / max(len(labels), 1)) ** 2)  # neighbours do not cover each other
    areas = 30 + largest * time / max(float(time.max()), 1e-300)
    ax.scatter(place[:, 0], place[:, 1], s=areas, c=shades, zorder=3)
    for (x, y), label in zip(place.tolist(), texts, strict=True):
        side = "center" if abs(x) < 0.2 else "left" if x > 0 else "right"
        ax.text(1.17 * x, 1.17 * y, label, ha=side, va="center", fontsize=8.0)
    ax.set(xlim=(-wide, wide), ylim=(-1.45, 1.45), aspect="equal")
    ax.set_axis_off()


class Arrow(NamedTuple):
    """From state `i` to state `j`; `share` of the largest width."""

    i: int
    j: int
    share: float
    colour: str
    dashed: bool


def ring(ax: Axes, labels: Sequence[Hashable], times: Floats, edges: Sequence[str], arrows: Sequence[Arrow]) -> None:
    """States on a circle, sized by time, their labels outside, and coloured arrows; grey dots are filled."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    n, texts = len(labels), shown_all(labels, 22)
    # Half a place from the top, where the labels of two neighbours would meet.
    angle = np.pi / 2 - 2 * np.pi * (np.arange(n) + 0.5) / max(n, 1)
    place = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    area = 40 + 360 * times / max(float(times.max(initial=0.0)), 1e-300)
    points = 10.0 if n <= 12 else 8.0
    wide, _ = _room(ax, texts, points, 1.3)
    for arrow in arrows:
        begin, end = place[arrow.i], place[arrow.j]
        if arrow.i != arrow.j:
            across = np.array([end[1] - begin[1], begin[0] - end[0]])
            # Bent to the right of its direction, and away from the states between the two.
            inwards = pull(arrow.i, arrow.j, len(labels)) * float(-0.5 * (begin + end) @ across / (across @ across))
            shrink = [2.0 + np.sqrt(area[k]) / 2.0 for k in (arrow.i, arrow.j)]
            route: dict[str, Any] = {
                "posA": tuple(begin), "posB": tuple(end), "connectionstyle": f"arc3,rad={0.2 + inwards}",
                "shrinkA": shrink[0], "shrinkB": shrink[1],
            }  # fmt: skip
        else:  # a loop outside of the circle
            side = np.array([-begin[1], begin[0]])
            corners = [1.04 * begin - 0.05 * side, 1.3 * begin - 0.16 * side, 1.3 * begin + 0.16 * side]
            route = {"path": Path([*corners, 1.05 * begin + 0.05 * side], [1, 4, 4, 4]), "shrinkA": 0, "shrinkB": 0}
        ax.add_patch(FancyArrowPatch(
            **route, arrowstyle="-|>", mutation_scale=9 + 9 * arrow.share, linewidth=0.8 + 4 * arrow.share,
            color=arrow.colour, linestyle=(0, (4, 2)) if arrow.dashed else "-", zorder=2,
        ))  # fmt: skip
    hollow = [colour if colour.replace(".", "").isdigit() else "white" for colour in edges]
    ax.scatter(place[:, 0], place[:, 1], s=area, c=hollow, edgecolors=list(edges), linewidths=2, zorder=3)
    loops = {arrow.i for arrow in arrows if arrow.i == arrow.j}
    for i, ((x, y), label) in enumerate(zip(place.tolist(), texts, strict=True)):
        out = 1.28 if i in loops else 1.14
        anchor = "center" if abs(x) < 0.1 else "left" if x > 0 else "right"
        ax.text(out * x, out * y, label, ha=anchor, va="center", fontsize=points)
    ax.set(xlim=(-wide, wide), ylim=(-1.4, 1.4), aspect="equal")
    ax.set_axis_off()
