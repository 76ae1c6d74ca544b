"""Cells of real vectors in the plane, as SVG text: where each recording is, and who goes with whom.

Colours are CSS variables of the page (`--accent`, `--other`, `--line`), so that pictures follow light and dark mode.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from html import escape
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.cells import Cells
from somcot.plumbing.arrays import Bools, Floats
from somcot.plumbing.text import LONGEST, figure, label_text

__all__ = [
    "bars",
    "cells_in_plane",
    "colours",
    "graph",
    "heat_map",
    "interval",
    "svg",
    "trace",
]


# --- Small pictures as SVG text, for pages that must hold everything themselves.

_SHADES = 12


def heat_map(values: Floats, rows: Sequence[Hashable], columns: Sequence[Hashable], *, title: str) -> str:
    """Cells darker for larger values, blank for next to nothing, crossed out for NaN, labels on both sides.

    Examples
    --------
    >>> picture = heat_map(np.eye(2), ["a", "b"], ["a", "<b>"], title="who is who")
    >>> picture.startswith("<svg"), "&lt;b&gt;" in picture
    (True, True)
    """
    n, m = values.shape
    cell = 22 if max(n, m) <= 16 else 18 if max(n, m) <= 30 else 13
    left, below = _label_room(rows), _label_room(columns)
    parts = [_shade(values, cell)]
    size = min(cell - 2, 12)
    for i, label in enumerate(rows):
        parts.append(f'<text x="-6" y="{(i + 0.5) * cell:g}" dy=".35em" text-anchor="end">{_shown(label)}</text>')
    for j, label in enumerate(columns):
        place = f"translate({(j + 0.5) * cell:g} {n * cell + 6}) rotate(-90)"
        parts.append(f'<text transform="{place}" dy=".35em" text-anchor="end">{_shown(label)}</text>')
    frame = f'<rect width="{m * cell}" height="{n * cell}" class="frame"/>'
    body = f'<g transform="translate({left} 6)" font-size="{size}">{frame}{"".join(parts)}</g>'
    return svg(left + m * cell + 8, 6 + n * cell + below, body, title)


def _shade(values: Floats, cell: int) -> str:
    """One path per shade: far smaller than one element per cell."""
    missing = np.isnan(values)
    top = float(values[~missing].max(initial=0.0))
    paths = [_crosses(np.argwhere(missing), cell)] if missing.any() else []
    if top <= 0:
        return "".join(paths)
    level = np.rint(np.where(missing, 0.0, values) / top * _SHADES).astype(int)  # next to nothing stays blank
    for shade in range(1, _SHADES + 1):
        found = np.argwhere(level == shade)
        if len(found):
            d = "".join(f"M{j * cell} {i * cell}h{cell - 1}v{cell - 1}h{1 - cell}z" for i, j in found.tolist())
            paths.append(f'<path class="cell" fill-opacity="{shade / _SHADES:.2f}" d="{d}"/>')
    return "".join(paths)


def _crosses(places: NDArray[np.int64], cell: int) -> str:
    """A cross in every cell that has no value."""
    k = cell - 8
    d = "".join(
        f"M{j * cell + 4} {i * cell + 4}l{k} {k}M{j * cell + 4 + k} {i * cell + 4}l{-k} {k}" for i, j in places.tolist()
    )
    return f'<path class="missing" stroke="var(--line)" stroke-width="1.5" fill="none" d="{d}"/>'


def interval(
    distance: float,
    *,
    low: float,
    high: float,
    ends: tuple[float, float],
    words: tuple[str, str] = ("", ""),
    ticks: Mapping[str, float],
) -> str:
    """A number on its scale with the interval around it, what the ends mean, and named places below the line."""
    width, room = 440.0, 24.0
    start, end = ends
    span = (end - start) or 1.0

    def at(value: float) -> float:
        return room + (min(max(value, start), end) - start) / span * (width - 2 * room)

    half = 5.0 * len(figure(distance))  # of the number's width: near an end it stays inside the picture
    middle = min(max(at(distance), half), width - half)
    said = [escape(f": {text}" if text else "") for text in words]
    parts = [
        f'<line x1="{room}" x2="{width - room}" y1="34" y2="34" class="axis"/>',
        f'<rect x="{at(low):.1f}" y="26" width="{max(at(high) - at(low), 2):.1f}" height="16" rx="4" class="band"/>',
        f'<line x1="{at(distance):.1f}" x2="{at(distance):.1f}" y1="20" y2="48" class="mark"/>',
        f'<text x="{middle:.1f}" y="13" text-anchor="middle" font-size="15" class="strong">{figure(distance)}</text>',
        f'<text x="{room}" y="64" font-size="12">{start:.3g}{said[0]}</text>',
        f'<text x="{width - room}" y="64" text-anchor="end" font-size="12">{end:.3g}{said[1]}</text>',
    ]
    for name, value in ticks.items():
        parts.append(
            f'<path d="M{at(value):.1f} 46l4 8h-8z" class="tick"/>'
            f'<text x="{min(max(at(value), 45.0), width - 45.0):.1f}" y="80" text-anchor="middle" font-size="12">'
            f"{escape(name)} {figure(value)}</text>"
        )
    return svg(width, 86 if ticks else 70, "".join(parts), "the distance on its scale", fluid=True)


def bars(values: Floats, labels: Sequence[Hashable], *, title: str, unit: str, classes: str = "bar") -> str:
    """Horizontal bars with a label and a number each."""
    left, width, row = _label_room(labels, 12), 300, 20
    top = float(values.max()) or 1.0
    parts = []
    for i, (label, value) in enumerate(zip(labels, values.tolist(), strict=True)):
        y = i * row
        parts.append(
            f'<text x="{left - 6}" y="{y + 10}" dy=".35em" text-anchor="end">{_shown(label)}</text>'
            f'<rect x="{left}" y="{y + 3}" width="{max(value / top * width, 0.5):.1f}" height="{row - 6}" '
            f'class="{classes}"/><text x="{left + value / top * width + 6:.1f}" y="{y + 10}" dy=".35em" '
            f'class="soft">{_number(value)}{unit}</text>'
        )
    return svg(left + width + 80, len(labels) * row + 4, f'<g font-size="12">{"".join(parts)}</g>', title)


def trace(steps: Floats, values: Floats, *, band: tuple[float, float] | None, title: str) -> str:
    """A number along the run, with the bracket it ended in, if there is one, as a band."""
    width, height, left, base = 440.0, 190.0, 56.0, 160.0
    known = np.isfinite(values)
    xs, ys = steps[known], values[known]
    ends = [*ys.tolist(), *(band or ())]
    bottom, top = float(min(ends)), float(max(ends))
    margin = 0.08 * (top - bottom) or 0.05 * abs(top) or 1.0
    bottom, top = bottom - margin, top + margin

    def across(x: Floats) -> Floats:
        span = float(xs[-1] - xs[0]) or 1.0
        placed: Floats = left + (x - xs[0]) / span * (width - left - 12)
        return placed

    def up(value: float) -> float:
        return base - (value - bottom) / (top - bottom) * (base - 12)

    points = " ".join(f"{x:.1f},{up(y):.1f}" for x, y in zip(across(xs), ys.tolist(), strict=True))
    shade = ""
    if band is not None:
        y, tall = up(band[1]), max(up(band[0]) - up(band[1]), 1.5)
        shade = f'<rect x="{left}" y="{y:.1f}" width="{width - left - 12}" height="{tall:.1f}" class="band"/>'
    body = (
        f'{shade}<path d="M{left} 12V{base}H{width - 12}" class="axis" fill="none"/>'
        f'<polyline points="{points}" class="curve"/>'
        + "".join(f'<circle cx="{p.split(",")[0]}" cy="{p.split(",")[1]}" r="3" class="dot"/>' for p in points.split())
        + f'<g font-size="12"><text x="{left - 6}" y="{up(bottom + margin):.1f}" text-anchor="end">'
        f'{bottom + margin:.4g}</text><text x="{left - 6}" y="{up(top - margin):.1f}" dy=".35em" text-anchor="end">'
        f'{top - margin:.4g}</text><text x="{left}" y="{height - 10}">step {xs[0]:g}</text>'
        f'<text x="{width - 12}" y="{height - 10}" text-anchor="end">step {xs[-1]:g}</text></g>'
    )
    return svg(width, height, body, title, fluid=True)


def colours(n: int) -> list[str]:
    """`n` colours that can be told apart and seen on light and dark ground.

    Examples
    --------
    >>> colours(2)
    ['hsl(210 60% 52%)', 'hsl(348 60% 52%)']
    """
    return [f"hsl({(210 + 137.5 * k) % 360:.0f} 60% 52%)" for k in range(n)]


def graph(law: Floats, labels: Sequence[Hashable], fills: Sequence[str], *, title: str) -> str:
    """States on a circle, larger when visited more; arrows stronger when taken more often."""
    n, radius = len(labels), 110.0
    room = 24.0 + 6.4 * max((len(label_text(label, 16)) for label in labels), default=0)
    angle = 2 * math.pi * np.arange(n) / max(n, 1) - math.pi / 2
    places = np.stack([room + radius + radius * np.cos(angle), 40 + radius + radius * np.sin(angle)], axis=1)
    visits = law.sum(axis=1)
    sizes = 4 + 16 * np.sqrt(visits / max(float(visits.max()), 1e-300))
    parts = [_arrows(law, places)]
    for i, label in enumerate(labels):
        x, y = places[i].tolist()
        out = sizes[i] + 5
        anchor = "middle" if abs(math.cos(angle[i])) < 0.2 else "start" if math.cos(angle[i]) > 0 else "end"
        tx, ty = x + out * math.cos(angle[i]), y + out * math.sin(angle[i])
        dy = ".35em" if anchor != "middle" else "0" if math.sin(angle[i]) < 0 else ".8em"
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{sizes[i]:.1f}" fill="{fills[i]}"/>'
            f'<text x="{tx:.1f}" y="{ty:.1f}" dy="{dy}" text-anchor="{anchor}">{_shown(label, 16)}</text>'
        )
    return svg(2 * (room + radius), 2 * radius + 80, f'<g font-size="12">{"".join(parts)}</g>', title)


def _arrows(law: Floats, places: NDArray[np.float64]) -> str:
    """Curved lines, so that the two directions between a pair of states stay apart."""
    top = float((law - np.diag(np.diag(law))).max())
    if top <= 0:
        return ""
    parts = []
    for i, j in np.argwhere(law > 0.02 * top).tolist():
        if i == j:
            continue
        (x0, y0), (x1, y1) = places[i].tolist(), places[j].tolist()
        cx, cy = (x0 + x1) / 2 - 0.12 * (y1 - y0), (y0 + y1) / 2 + 0.12 * (x1 - x0)
        share = float(law[i, j]) / top
        parts.append(
            f'<path d="M{x0:.1f} {y0:.1f}Q{cx:.1f} {cy:.1f} {x1:.1f} {y1:.1f}" class="edge" '
            f'stroke-width="{0.6 + 4.4 * share:.1f}" stroke-opacity="{0.15 + 0.6 * share:.2f}"/>'
        )
    return "".join(parts)


def svg(width: float, height: float, body: str, title: str, *, fluid: bool = False) -> str:
    """The whole picture; a fluid one is as wide as there is room."""
    size = 'class="fluid"' if fluid else f'width="{width:g}" height="{height:g}"'
    return f'<svg viewBox="0 0 {width:g} {height:g}" {size} role="img" aria-label="{escape(title)}">{body}</svg>'


def _label_room(labels: Sequence[Hashable], size: int = 12) -> int:
    longest = max((len(label_text(label)) for label in labels), default=0)
    return int(14 + 0.62 * size * longest)


def _shown(label: Hashable, longest: int = LONGEST) -> str:
    return escape(label_text(label, longest))


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


# --- Cells of real vectors in the plane, as SVG text: where each recording is, and who goes with whom.

_WIDTH, _HEIGHT, _LEFT, _BASE = 520.0, 360.0, 58.0, 310.0
_LARGEST = 15.0  # radius of the most visited cell


class _Frame(NamedTuple):
    """From coordinates to places in the picture."""

    low: Floats
    high: Floats

    def place(self, points: Floats) -> Floats:
        """Of points, (n, 2)."""
        share = (points - self.low) / np.where(self.high > self.low, self.high - self.low, 1.0)
        room = _LARGEST + 4.0
        across = _LEFT + room + share[:, 0] * (_WIDTH - _LEFT - 2 * room)
        return np.column_stack([across, _BASE - room - share[:, 1] * (_BASE - 2 * room)])


def cells_in_plane(cells: Cells, encoder: Floats, names: tuple[str, str]) -> str:
    """Discs where the first recording is, rings where the second is, lines to dots, the mean of each disc's partners.

    In one dimension the first recording is above and the second below.

    Parameters
    ----------
    cells : Cells
    encoder : ndarray, shape (k, k)
        How often each cell of the first goes with those of the second.
    names : (str, str)
        What to call the two.
    """
    flat = cells.centres.shape[1] == 1
    visited = cells.visits[:2] > 0
    here, there = (_planar(points, height) for points, height in ((cells.centres, 1.0), (cells.centres, 0.0)))
    partners = _planar(encoder @ cells.centres, 0.0)
    drawn = np.concatenate([here[visited[0]], there[visited[1]], partners[visited[0]]])
    frame = _Frame(drawn.min(axis=0), drawn.max(axis=0))
    shares = cells.visits[:2] / np.maximum(cells.visits[:2].sum(axis=1, keepdims=True), 1)
    radius = 3.0 + (_LARGEST - 3.0) * np.sqrt(shares / shares.max())
    parts = [
        _lines(frame.place(here[visited[0]]), frame.place(partners[visited[0]])),
        _circles(frame.place(here), radius[0], visited[0], 'class="cell" fill-opacity=".55"'),
        _circles(frame.place(there), radius[1], visited[1], 'fill="none" stroke="var(--other)" stroke-width="1.6"'),
        _axes(frame, cells.names, flat=flat),
        _legend(names),
    ]
    title = f"cells of {names[0]} and {names[1]} and who goes with whom"
    return svg(_WIDTH, _HEIGHT, "".join(parts), title, fluid=True)


def _planar(points: Floats, height: float) -> Floats:
    """The first two coordinates; of one, at a height of its own."""
    if points.shape[1] > 1:
        return points[:, :2]
    return np.column_stack([points[:, 0], np.full(len(points), height)])


def _lines(begin: Floats, end: Floats) -> str:
    d = "".join(
        f"M{a:.1f} {b:.1f}L{x:.1f} {y:.1f}" for (a, b), (x, y) in zip(begin.tolist(), end.tolist(), strict=True)
    )
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2"/>' for x, y in end.tolist())
    return f'<path d="{d}" class="edge" stroke-width="1.1" stroke-opacity=".55"/><g class="tick">{dots}</g>'


def _circles(places: Floats, radius: Floats, which: Bools, style: str) -> str:
    rows = zip(places[which].tolist(), radius[which].tolist(), strict=True)
    return f"<g {style}>" + "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}"/>' for (x, y), r in rows) + "</g>"


def _axes(frame: _Frame, names: tuple[str, ...], *, flat: bool) -> str:
    """Two lines, the ends of what they show, and what they are."""
    low, high = frame.place(np.stack([frame.low, frame.high])).tolist()
    below, aside = _BASE + 16, _LEFT - 6
    parts = [f'<path d="M{_LEFT} 8V{_BASE}H{_WIDTH - 4}" class="axis" fill="none"/><g font-size="12">']
    for place, values in ((low, frame.low), (high, frame.high)):
        parts.append(f'<text x="{place[0]:.1f}" y="{below}" text-anchor="middle">{values[0]:.3g}</text>')
        if not flat:
            parts.append(f'<text x="{aside}" y="{place[1]:.1f}" dy=".35em" text-anchor="end">{values[1]:.3g}</text>')
    across, up = (low[0] + high[0]) / 2, (low[1] + high[1]) / 2
    parts.append(f'<text x="{across:.1f}" y="{below}" text-anchor="middle" class="soft">{_name(names[0])}</text>')
    if not flat:
        turned = f'transform="translate({aside - 28} {up:.1f}) rotate(-90)"'
        parts.append(f'<text {turned} text-anchor="middle" class="soft">{_name(names[1])}</text>')
    return "".join(parts) + "</g>"


def _legend(names: tuple[str, str]) -> str:
    y = _HEIGHT - 12
    return (
        f'<g font-size="12"><circle cx="{_LEFT + 6}" cy="{y}" r="6" class="cell" fill-opacity=".55"/>'
        f'<text x="{_LEFT + 18}" y="{y}" dy=".35em">{_name(names[0])}</text>'
        f'<circle cx="{_LEFT + 226}" cy="{y}" r="6" fill="none" stroke="var(--other)" stroke-width="1.6"/>'
        f'<text x="{_LEFT + 238}" y="{y}" dy=".35em">{_name(names[1])}</text></g>'
    )


def _name(text: str) -> str:
    return escape(label_text(text, 28))
