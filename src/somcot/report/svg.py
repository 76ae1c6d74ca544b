"""Pictures as SVG text for self-contained pages; every label is escaped here.

Colours are CSS variables of the page (`--accent`, `--other`, `--line`), so that pictures follow light and dark mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.cells import Cells
from somcot.plumbing.arrays import Bools, Floats
from somcot.plumbing.html import place_labels
from somcot.plumbing.text import LONGEST, figure, label_text

if TYPE_CHECKING:  # distances between two processes do not load those between many
    from somcot.many.drift import Change, Drift

__all__ = [
    "bars",
    "cells_in_plane",
    "changes",
    "colours",
    "evidence",
    "graph",
    "heat_map",
    "interval",
    "map_of",
    "svg",
    "trace",
    "tree",
]


# --- A distance: its scale, the run, heat maps, bars and graphs.

_SHADES = 12


def heat_map(values: Floats, rows: Sequence[Hashable], columns: Sequence[Hashable], *, title: str) -> str:
    """A heat map with labels: darker cells for larger values, blank for almost zero, crossed for NaN.

    Examples
    --------
    >>> picture = heat_map(np.eye(2), ["a", "b"], ["a", "<b>"], title="who is who")
    >>> picture.startswith("<svg"), "&lt;b&gt;" in picture
    (True, True)
    """
    n, m = values.shape
    cell = 22 if max(n, m) <= 16 else 18 if max(n, m) <= 30 else 13  # pixels: large maps get smaller cells
    left, below = _label_room(rows), _label_room(columns)
    # Cells first, so that labels are drawn on top.
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
    # Rounding to twelve shades allows one path per shade.
    level = np.rint(np.where(missing, 0.0, values) / top * _SHADES).astype(int)  # values near zero stay blank
    for shade in range(1, _SHADES + 1):
        places = np.argwhere(level == shade).tolist()
        if places:
            d = "".join(f"M{j * cell} {i * cell}h{cell - 1}v{cell - 1}h{1 - cell}z" for i, j in places)
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
    """A number on its scale with its interval, labels of both ends, and named ticks below the line."""
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
        f'<text x="{room}" y="64">{start:.3g}{said[0]}</text>',
        f'<text x="{width - room}" y="64" text-anchor="end">{end:.3g}{said[1]}</text>',
    ]
    for name, value in ticks.items():
        parts.append(
            f'<path d="M{at(value):.1f} 46l4 8h-8z" class="tick"/>'
            f'<text x="{min(max(at(value), 45.0), width - 45.0):.1f}" y="80" text-anchor="middle">'
            f"{escape(name)} {figure(value)}</text>"
        )
    return svg(width, 86 if ticks else 70, "".join(parts), "the distance on its scale", fluid=True)


def bars(values: Floats, labels: Sequence[Hashable], *, title: str, unit: str, classes: str = "bar") -> str:
    """Horizontal bars, each with a label and a number."""
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
    return svg(left + width + 80, len(labels) * row + 4, "".join(parts), title)


def trace(steps: Floats, values: Floats, *, band: tuple[float, float] | None, title: str) -> str:
    """A number over the steps of a run, with the final bounds, if any, as a band."""
    width, height, left, base = 440.0, 190.0, 56.0, 160.0
    known = np.isfinite(values)
    xs, ys = steps[known], values[known]
    ends = [*ys.tolist(), *(band or ())]
    bottom, top = float(min(ends)), float(max(ends))
    # A margin even if all values are equal.
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
        + f'<text x="{left - 6}" y="{up(bottom + margin):.1f}" text-anchor="end">'
        f'{bottom + margin:.4g}</text><text x="{left - 6}" y="{up(top - margin):.1f}" dy=".35em" text-anchor="end">'
        f'{top - margin:.4g}</text><text x="{left}" y="{height - 10}">step {xs[0]:g}</text>'
        f'<text x="{width - 12}" y="{height - 10}" text-anchor="end">step {xs[-1]:g}</text>'
    )
    return svg(width, height, body, title, fluid=True)


def colours(n: int) -> list[str]:
    """`n` distinct colours that are visible on light and dark backgrounds.

    Examples
    --------
    >>> colours(2)
    ['hsl(210 60% 52%)', 'hsl(348 60% 52%)']
    """
    return [f"hsl({(210 + 137.5 * k) % 360:.0f} 60% 52%)" for k in range(n)]


def graph(weights: Floats, labels: Sequence[Hashable], fills: Sequence[str], *, title: str) -> str:
    """States on a circle, sized by visits, with edges weighted by frequency."""
    n, radius = len(labels), 110.0
    room = 24.0 + 6.4 * max((len(label_text(label, 16)) for label in labels), default=0)
    angle = 2 * math.pi * np.arange(n) / max(n, 1) - math.pi / 2
    places = np.stack([room + radius + radius * np.cos(angle), 40 + radius + radius * np.sin(angle)], axis=1)
    visits = weights.sum(axis=1)
    # Square roots: areas are proportional to visits.
    sizes = 4 + 16 * np.sqrt(visits / max(float(visits.max()), 1e-300))
    parts = [_arrows(weights, places)]
    for i, label in enumerate(labels):
        x, y = places[i].tolist()
        out = sizes[i] + 5
        # Labels point away from the circle.
        anchor = "middle" if abs(math.cos(angle[i])) < 0.2 else "start" if math.cos(angle[i]) > 0 else "end"
        tx, ty = x + out * math.cos(angle[i]), y + out * math.sin(angle[i])
        dy = ".35em" if anchor != "middle" else "0" if math.sin(angle[i]) < 0 else ".8em"
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{sizes[i]:.1f}" fill="{fills[i]}"/>'
            f'<text x="{tx:.1f}" y="{ty:.1f}" dy="{dy}" text-anchor="{anchor}">{_shown(label, 16)}</text>'
        )
    return svg(2 * (room + radius), 2 * radius + 80, "".join(parts), title)


def _arrows(weights: Floats, places: NDArray[np.float64]) -> str:
    """Curved lines, so that the two directions between a pair of states do not overlap."""
    top = float((weights - np.diag(np.diag(weights))).max())
    if top <= 0:
        return ""
    parts = []
    for i, j in np.argwhere(weights > 0.02 * top).tolist():  # arcs below 2 % of the largest are left out
        if i == j:
            continue
        (x0, y0), (x1, y1) = places[i].tolist(), places[j].tolist()
        # A quadratic curve, bent to the right of its direction.
        cx, cy = (x0 + x1) / 2 - 0.12 * (y1 - y0), (y0 + y1) / 2 + 0.12 * (x1 - x0)
        share = float(weights[i, j]) / top
        parts.append(
            f'<path d="M{x0:.1f} {y0:.1f}Q{cx:.1f} {cy:.1f} {x1:.1f} {y1:.1f}" class="edge" '
            f'stroke-width="{0.6 + 4.4 * share:.1f}" stroke-opacity="{0.15 + 0.6 * share:.2f}"/>'
        )
    return "".join(parts)


def svg(width: float, height: float, body: str, title: str, *, fluid: bool = False, fit: bool = False) -> str:
    """An SVG element; `fluid` fills the available width, `fit` shrinks to it."""
    size = 'class="fluid"' if fluid else f'width="{width:g}" height="{height:g}"' + (' class="fit"' if fit else "")
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" {size} role="img" aria-label="{escape(title)}" font-size="12">'
        f"{body}</svg>"
    )


def _label_room(labels: Sequence[Hashable], size: int = 12) -> int:
    longest = max((len(label_text(label)) for label in labels), default=0)
    # 0.62 of the font size is the mean width of a character.
    return int(14 + 0.62 * size * longest)


def _shown(label: Hashable, longest: int = LONGEST) -> str:
    return escape(label_text(label, longest))


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


# --- Cells of numeric vectors in the plane.

_WIDTH, _HEIGHT, _LEFT, _BASE = 520.0, 360.0, 58.0, 310.0
_LARGEST = 15.0  # radius of the most visited cell


class _Frame(NamedTuple):
    """The map from coordinates to positions in the picture."""

    low: Floats
    high: Floats

    def place(self, points: Floats) -> Floats:
        """Positions of points, (n, 2)."""
        share = (points - self.low) / np.where(self.high > self.low, self.high - self.low, 1.0)
        room = _LARGEST + 4.0
        across = _LEFT + room + share[:, 0] * (_WIDTH - _LEFT - 2 * room)
        return np.column_stack([across, _BASE - room - share[:, 1] * (_BASE - 2 * room)])


def cells_in_plane(cells: Cells, encoder: Floats, names: tuple[str, str]) -> str:
    """Discs for the cells of the first recording, rings for the second, lines to the mean of corresponding cells.

    In one dimension the first recording is above and the second below.

    Parameters
    ----------
    cells : Cells
    encoder : ndarray, shape (k, k)
        Probabilities that a cell of the first corresponds to each cell of the second.
    names : (str, str)
        Names of the two recordings.
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
    title = f"cells of {names[0]} and {names[1]} and their correspondence"
    return svg(_WIDTH, _HEIGHT, "".join(parts), title, fluid=True)


def _planar(points: Floats, height: float) -> Floats:
    """The first two coordinates; a single coordinate is drawn at a constant height."""
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
    """Two axes with their end values and names."""
    low, high = frame.place(np.stack([frame.low, frame.high])).tolist()
    below, aside = _BASE + 16, _LEFT - 6
    parts = [f'<path d="M{_LEFT} 8V{_BASE}H{_WIDTH - 4}" class="axis" fill="none"/>']
    for place, values in ((low, frame.low), (high, frame.high)):
        parts.append(f'<text x="{place[0]:.1f}" y="{below}" text-anchor="middle">{values[0]:.3g}</text>')
        if not flat:
            parts.append(f'<text x="{aside}" y="{place[1]:.1f}" dy=".35em" text-anchor="end">{values[1]:.3g}</text>')
    across, up = (low[0] + high[0]) / 2, (low[1] + high[1]) / 2
    parts.append(f'<text x="{across:.1f}" y="{below}" text-anchor="middle" class="soft">{_shown(names[0], 28)}</text>')
    if not flat:
        turned = f'transform="translate({aside - 28} {up:.1f}) rotate(-90)"'
        parts.append(f'<text {turned} text-anchor="middle" class="soft">{_shown(names[1], 28)}</text>')
    return "".join(parts)


def _legend(names: tuple[str, str]) -> str:
    y = _HEIGHT - 12
    return (
        f'<circle cx="{_LEFT + 6}" cy="{y}" r="6" class="cell" fill-opacity=".55"/>'
        f'<text x="{_LEFT + 18}" y="{y}" dy=".35em">{_shown(names[0], 28)}</text>'
        f'<circle cx="{_LEFT + 226}" cy="{y}" r="6" fill="none" stroke="var(--other)" stroke-width="1.6"/>'
        f'<text x="{_LEFT + 238}" y="{y}" dy=".35em">{_shown(names[1], 28)}</text>'
    )


# --- Many processes, drift and monitors.


def tree(heights: list[list[float]], places: list[list[float]], labels: Sequence[Hashable], top: str) -> str:
    """A tree from `dcoord` and `icoord` of SciPy's ``dendrogram``; `top` is the value at the end of its axis."""
    names = [label_text(label, 30) for label in labels]
    step, width, room = 20, 300, 20 + 7 * max(map(len, names))
    largest = max(map(max, heights)) or 1.0
    parts = []
    for up, along in zip(heights, places, strict=True):
        corners = " ".join(
            f"{room + width * h / largest:.1f},{10 + step * (p - 5.0) / 10.0:.1f}"
            for h, p in zip(up, along, strict=True)
        )
        parts.append(f'<polyline points="{corners}" fill="none" stroke="var(--accent)" stroke-width="1.5"/>')
    for k, name in enumerate(names):
        parts.append(f'<text x="{room - 6}" y="{10 + step * k}" dy=".35em" text-anchor="end">{escape(name)}</text>')
    below = 10 + step * len(labels)
    parts.append(
        f'<text x="{room}" y="{below + 10}">0</text>'
        f'<text x="{room + width}" y="{below + 10}" text-anchor="end">{escape(top)}</text>'
    )
    return svg(room + width + 10, below + 18, "".join(parts), "tree of the processes")


def map_of(points: Floats, radius: Floats, labels: Sequence[Hashable]) -> str:
    """Processes as points, (n, 2), with circles for their uncertainty and labels that do not overlap."""
    low, high = (points - radius[:, None]).min(axis=0), (points + radius[:, None]).max(axis=0)
    # One scale for both axes, so that distances in the picture are distances of the map.
    scale = 360.0 / max(float((high - low).max()), 1e-300)
    spots = (points - low) * scale + 30.0
    # SVG counts downwards, so heights are subtracted from this below.
    height = float((high - low)[1]) * scale + 60.0
    parts = []
    for (x, y), wide in zip(spots.tolist(), radius * scale, strict=True):
        if wide > 0:
            disc = f'<circle cx="{x:.1f}" cy="{height - y:.1f}" r="{wide:.1f}" fill="var(--accent)" opacity=".12"/>'
            parts.append(disc)
        parts.append(f'<circle cx="{x:.1f}" cy="{height - y:.1f}" r="3.5" fill="var(--accent)"/>')
    return svg(520, height, "".join([*parts, *_names(spots, labels, height)]), "map of the processes")


def _names(spots: Floats, labels: Sequence[Hashable], height: float) -> Iterator[str]:
    """Labels next to the points of the map, with a line to labels that were moved away."""
    from somcot.many.record import joint_labels

    names = joint_labels(spots, [label_text(label, 18) for label in labels], 0.04)
    widths = np.array([6.6 * len(text) for _, text in names])
    corners = place_labels(spots, [k for k, _ in names], widths, 14.0, np.array([0.0, 0.0, 520.0, height]))
    for (k, text), width, (x, y) in zip(names, widths.tolist(), corners.tolist(), strict=True):
        at, up = spots[k].tolist()
        if abs(y + 7.0 - up) > 20.0:
            end = f'x2="{min(max(at, x), x + width):.1f}" y2="{height - y - (0 if y > up else 14):.1f}"'
            yield f'<line x1="{at:.1f}" y1="{height - up:.1f}" {end} stroke="var(--line)"/>'
        yield f'<text x="{x:.1f}" y="{height - y - 3:.1f}">{escape(text)}</text>'


_NAMED = 16  # periods named below the chart
_PHONE = 500.0  # wider charts scroll, because shrunk text would be too small


def changes(drift: Drift) -> str:
    """Distances over the periods with intervals: two series, distinguished by colour and shape."""
    n = len(drift.periods)
    # Narrow enough for a phone with few periods, wide enough to tell marks apart with many.
    step, left, height, right = max(16.0, min(48.0, 420.0 / n)), 56.0, 220.0, 14.0
    width = left + step * n + right
    top = max((c.high for c in drift.changes if c.high == c.high), default=0.0) or 1.0  # NaN differs from itself
    place = {label: k for k, label in enumerate(drift.periods)}

    def down(value: float) -> float:
        return 12.0 + height * (1.0 - min(max(value, 0.0), top) / top)

    def across(k: int, shift: float = 0.0) -> float:
        return left + step * (k + 0.5) + shift

    parts = [f'<line class="axis" x1="{left}" y1="{down(0)}" x2="{width - right}" y2="{down(0)}"/>']
    parts += [
        f'<text x="{left - 6}" y="{down(value)}" dy=".35em" text-anchor="end">{value:.3g}</text>'
        for value in (0.0, 0.5 * top, top)
    ]
    parts += [_dot(c, across(place[c.period], -3.5), down, drift.level, "accent") for c in drift.against_reference()]
    for change in drift.against_before():
        later = max(place[change.period], place[change.against])
        parts.append(_dot(change, across(later, 3.5), down, drift.level, "other"))
    for k in range(0, n, -(-n // _NAMED)):
        x, y = across(k), down(0) + 14.0
        name = _shown(drift.periods[k], 14)
        parts.append(f'<text x="{x}" y="{y}" text-anchor="end" transform="rotate(-40 {x} {y})">{name}</text>')
    return svg(width, height + 90, "".join(parts), "distances over the periods", fit=width < _PHONE)


def _dot(change: Change, x: float, down: Callable[[float], float], level: float, colour: str) -> str:
    paint = f"var(--{colour})"
    fill = paint if change.adjusted <= level else "var(--ground)"
    y = down(change.distance)
    title = (
        f"<title>{_shown(change.period, 30)} against {_shown(change.against, 30)}: {change.distance:.4f}, "
        f"adjusted p {change.adjusted:.4f}</title>"
    )
    line = (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{down(change.low):.1f}" y2="{down(change.high):.1f}" stroke="{paint}" '
        'stroke-width="1.5"/>'
        if change.low == change.low
        else ""
    )
    shape = (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"'
        if colour == "accent"
        else f'<rect x="{x - 3.6:.1f}" y="{y - 3.6:.1f}" width="7.2" height="7.2"'
    )
    return f'<g>{title}{line}{shape} fill="{fill}" stroke="{paint}" stroke-width="1.5"/></g>'


def evidence(curve: Sequence[tuple[int, float]], alarm: int | None) -> str:
    """Evidence for a change over the events on a logarithmic scale from 1e-7 to 1, and the event of the alarm."""
    width, height = 440.0, 130.0
    first, last = curve[0][0], max(curve[-1][0], curve[0][0] + 1)

    def across(event: float) -> float:
        return 50 + (width - 60) * (event - first) / (last - first)

    def down(share: float) -> float:
        # A logarithmic scale: evidence grows by factors.
        return 10 + (height - 30) * min(max(-math.log10(max(share, 1e-7)) / 7.0, 0.0), 1.0)

    line = " ".join(f"{across(event):.1f},{down(share):.1f}" for event, share in curve)
    parts = [
        f'<polyline points="{line}" class="curve"/><line x1="50" x2="{width - 10:g}" y1="{down(1):.1f}" '
        f'y2="{down(1):.1f}" stroke="currentColor" stroke-dasharray="4 3" opacity=".6"/>',
        f'<text x="4" y="{down(1) + 4:.1f}">alarm</text><text x="4" y="{down(0) + 4:.1f}">1e-7</text>',
        f'<text x="50" y="{height - 2:g}">{first:,}</text>',
        f'<text x="{width - 10:g}" y="{height - 2:g}" text-anchor="end">event {last:,}</text>',
    ]
    if alarm is not None and first <= alarm <= last:
        parts.append(f'<circle cx="{across(alarm):.1f}" cy="{down(1):.1f}" r="4" class="dot"/>')
    return svg(width, height, "".join(parts), "evidence over time", fluid=True)
