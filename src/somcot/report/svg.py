"""Pictures as SVG text for self-contained pages; every label is escaped here.

Colours are CSS variables of the page (`--accent`, `--other`, `--line`), so that pictures follow light and dark mode.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.cells import Cells
from somcot.contributions import Findings
from somcot.plumbing.arrays import Bools, Floats
from somcot.plumbing.html import escape, place_labels, pull
from somcot.plumbing.text import LONGEST, figure, fitting, label_text, label_texts, text_width
from somcot.samples import Samples

__all__ = [
    "bars",
    "cells_in_plane",
    "colours",
    "difference",
    "graph",
    "heat_map",
    "interval",
    "map_of",
    "opacity",
    "sequences",
    "shades",
    "svg",
    "trace",
    "tree",
]


# --- A distance: its scale, the run, heat maps, bars and graphs.

_SHADES = 12
_TESTED = 2  # the palest shade of a tested pair


def opacity(value: float, top: float) -> float:
    """Opacity of a tested cell, given the largest value of the map.

    Examples
    --------
    >>> opacity(0.3, top=0.3)
    1.0
    """
    return max(round(float(value) / top * _SHADES), _TESTED) / _SHADES if top > 0.0 else _TESTED / _SHADES


def heat_map(
    values: Floats, rows: Sequence[Hashable], columns: Sequence[Hashable], *, title: str, chance: Bools | None = None
) -> str:
    """A heat map with labels: darker cells for larger values, blank for almost zero, crossed for NaN.

    Cells of `chance`, which are not distinguishable from 0, are grey.

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
    parts = [_shade(values, cell, np.zeros(values.shape, np.bool_) if chance is None else chance)]
    size = min(cell - 2, 12)
    for i, label in enumerate(label_texts(rows)):
        parts.append(f'<text x="-6" y="{(i + 0.5) * cell:g}" dy=".35em" text-anchor="end">{escape(label)}</text>')
    for j, label in enumerate(label_texts(columns)):
        place = f"translate({(j + 0.5) * cell:g} {n * cell + 6}) rotate(-90)"
        parts.append(f'<text transform="{place}" dy=".35em" text-anchor="end">{escape(label)}</text>')
    frame = f'<rect width="{m * cell}" height="{n * cell}" class="frame"/>'
    body = f'<g transform="translate({left} 6)" font-size="{size}">{frame}{"".join(parts)}</g>'
    return svg(left + m * cell + 8, 6 + n * cell + below, body, title)


def _shade(values: Floats, cell: int, chance: Bools) -> str:
    """One path per shade and colour: far smaller than one element per cell."""
    missing = np.isnan(values)
    top = float(values[~missing].max(initial=0.0))
    paths = [_crosses(np.argwhere(missing), cell)] if missing.any() else []
    if top <= 0:
        return "".join(paths)
    # Rounding to twelve shades allows one path per shade.
    level = np.rint(np.where(missing, 0.0, values) / top * _SHADES).astype(int)  # values near zero stay blank
    level = np.where(chance & ~missing, np.maximum(level, _TESTED), level)  # ... unless they were tested
    for shade, kind in itertools.product(range(1, _SHADES + 1), ("cell", "chance")):
        places = np.argwhere((level == shade) & (chance == (kind == "chance"))).tolist()
        if places:
            d = "".join(f"M{j * cell} {i * cell}h{cell - 1}v{cell - 1}h{1 - cell}z" for i, j in places)
            paths.append(f'<path class="{kind}" fill-opacity="{shade / _SHADES:.2f}" d="{d}"/>')
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
        f'<text x="{middle:.1f}" y="16" text-anchor="middle" font-size="15" class="strong">{figure(distance)}</text>',
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
    for i, (label, value) in enumerate(zip(label_texts(labels), values.tolist(), strict=True)):
        y = i * row
        parts.append(
            f'<text x="{left - 6}" y="{y + 10}" dy=".35em" text-anchor="end">{escape(label)}</text>'
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
    """States on a circle, sized by visits, with arrows weighted by frequency."""
    between = weights - np.diag(np.diag(weights))
    top = float(between.max(initial=0.0)) or 1.0
    arrows = [  # arrows below 2 % of the largest are left out
        _Arrow(i, j, share, "edge", f'stroke-opacity="{0.15 + 0.6 * share:.2f}"')
        for i, j in np.argwhere(between > 0.02 * top).tolist()
        for share in (float(between[i, j]) / top,)
    ]
    return _ring(labels, weights.sum(axis=1), [f'fill="{fill}"' for fill in fills], arrows, title)


def difference(found: Findings, *, most: int, title: str) -> str:
    """Steps that are taken more and less often in the second process than in the first, as arrows between states.

    Width: difference of the weighted shares of steps. Dashed: not significant. States of one process only have a ring.
    """
    steps = found.largest(most)
    labels = list(dict.fromkeys(label for step in steps for label in (step.state, step.next_state)))
    times = {row.state: 0.5 * (row.time_x + row.time_y) for row in found.states}
    kinds = {row.state: row.kind for row in found.states}
    # Sorted by the time spent, so that the graphs of two comparisons are alike.
    labels.sort(key=lambda label: -times.get(label, 0.0))
    place = {label: i for i, label in enumerate(labels)}
    top = max((abs(step.change) for step in steps), default=0.0) or 1.0
    tested = found.sequences is not None
    arrows = [
        _Arrow(place[s.state], place[s.next_state], abs(s.change) / top, "more" if s.change > 0 else "less",
               'stroke-dasharray="5 3"' if tested and not s.marked else "")
        for s in reversed(steps)
    ]  # fmt: skip
    rings = {"new": 'fill="var(--ground)" class="more"', "vanished": 'fill="var(--ground)" class="less"'}
    looks = [rings.get(kinds.get(label, ""), 'fill="var(--soft)"') for label in labels]
    return _ring(labels, np.array([times.get(label, 0.0) for label in labels]), looks, arrows, title)


class _Arrow(NamedTuple):
    """From state `i` to state `j`; `share` of the largest width."""

    i: int
    j: int
    share: float
    kind: str
    style: str


def _ring(labels: Sequence[Hashable], times: Floats, looks: Sequence[str], arrows: Sequence[_Arrow], title: str) -> str:
    """States on a circle, their labels outside, and arrows between them; `looks` are attributes of the dots."""
    n = len(labels)
    radius = max(90.0, 8.0 * n)  # labels of neighbours are at least a line apart
    # About 640 pixels wide at most, so that labels are legible on phones, where the picture shrinks.
    names = fitting(labels, int(min(max((270.0 - radius) / 8.0, 8.0), 22.0)))
    loops = {arrow.i for arrow in arrows if arrow.i == arrow.j}
    room = (50.0 if loops else 26.0) + 13.0 * max(map(text_width, names), default=0.0)
    # Half a place from the top, where labels of two neighbours would meet.
    angle = 2 * math.pi * (np.arange(n) + 0.5) / max(n, 1) - math.pi / 2
    out = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    places = np.array([room + radius, 54.0 + radius]) + radius * out
    # Square roots: areas are proportional to time.
    sizes = 4 + 10 * np.sqrt(times / max(float(times.max(initial=0.0)), 1e-300))
    parts = [_arrow(arrow, places, sizes, out, radius) for arrow in arrows]
    for i, name in enumerate(names):
        (x, y), (across, down) = places[i].tolist(), out[i].tolist()
        reach = sizes[i] + (34 if i in loops else 8)
        anchor = "middle" if abs(across) < 0.1 else "start" if across > 0 else "end"
        dy = ".35em" if anchor != "middle" else "0" if down < 0 else ".8em"
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{sizes[i]:.1f}" {looks[i]}/><text x="{x + reach * across:.1f}" '
            f'y="{y + reach * down:.1f}" dy="{dy}" text-anchor="{anchor}">{escape(name)}</text>'
        )
    # As high as the states, their loops and labels: two states lie side by side.
    beyond = np.array([sizes[i] + (50.0 if i in loops else 24.0) for i in range(n)])
    ends = places[:, 1] + beyond * out[:, 1]
    above = float(np.min(ends, initial=radius + 54.0)) - 24.0
    height = float(np.max(ends, initial=radius + 54.0)) + 24.0 - above
    body = f'<g font-size="13" transform="translate(0 {-above:.1f})">{"".join(parts)}</g>'
    return svg(2 * (room + radius), height, body, title, fluid=True)


def _arrow(arrow: _Arrow, places: Floats, sizes: Floats, out: Floats, radius: float) -> str:
    """A curve, so that the two directions between two states do not overlap, and its head; a loop points outwards."""
    i, j, share, kind, style = arrow
    width = 0.8 + 4.2 * share
    head = 5.0 + 1.6 * width
    begin, end = places[i], places[j]
    if i == j:
        side = np.array([-out[i, 1], out[i, 0]])
        controls = [begin + (sizes[i] + 26) * out[i] + sign * 16 * side for sign in (-1, 1)]
    else:
        along, inwards = end - begin, -0.5 * radius * (out[i] + out[j])
        # Bent to the right of its direction, and away from the states between the two.
        controls = [(begin + end) / 2 + 0.16 * np.array([-along[1], along[0]]) + pull(i, j, len(out)) * inwards]
    first, last = controls[0] - begin, controls[-1] - end
    first, last = first / np.hypot(*first), last / np.hypot(*last)
    begin, tip = begin + sizes[i] * first, end + (sizes[j] + 1) * last
    base, across = tip + head * last, 0.42 * head * np.array([-last[1], last[0]])
    curve = f"M{_at(begin)}{' QC'[len(controls)]}{' '.join(map(_at, [*controls, base]))}"
    corners = f"M{_at(tip)}L{_at(base + across)}L{_at(base - across)}z"
    return (
        f'<path d="{curve}" class="{kind}" fill="none" stroke-width="{width:.1f}" {style}/>'
        f'<path d="{corners}" class="{kind} head" stroke="none"/>'
    )


def _at(point: Floats) -> str:
    return f"{point[0]:.1f} {point[1]:.1f}"


_WIDE, _TALL = 300, 5  # pixels of a picture and of a line


def shades(recordings: Sequence[Samples], n: int) -> dict[Hashable, str]:
    """Colours for the `n` states that are visited most in all recordings together."""
    total: Counter[Hashable] = Counter()
    for samples in recordings:
        total.update(dict(zip(samples.states, samples.visits.tolist(), strict=True)))
    labels = [label for label, _ in total.most_common(n)]
    return dict(zip(labels, colours(len(labels)), strict=True))


def sequences(samples: Samples, shades: Mapping[Hashable, str], *, lines: int, steps: int, title: str) -> str:
    """Sequences as lines of coloured steps, sorted, a sample of at most `lines`; states without a shade are grey."""
    assert samples.offsets is not None
    whole = [
        (*samples.now[a:b][: steps - 1].tolist(), *samples.following[b - 1 : b].tolist()[: max(steps - (b - a), 0)])
        for a, b in itertools.pairwise(samples.offsets.tolist())
    ]
    rows = sorted(whole)
    chosen = [rows[k][:steps] for k in np.unique(np.linspace(0, len(rows) - 1, lines).astype(int)).tolist()]
    longest = max(map(len, chosen), default=1)
    wide = max(_WIDE // longest, 4)
    cells: dict[str, list[str]] = {}
    for y, row in enumerate(chosen):
        for x, state in enumerate(row):
            shade = shades.get(samples.states[state], "var(--line)")
            cells.setdefault(shade, []).append(f"M{wide * x} {_TALL * y}h{wide}v{_TALL - 1}h-{wide}z")
    parts = [f'<path fill="{shade}" d="{"".join(d)}"/>' for shade, d in cells.items()]
    return svg(wide * longest, _TALL * len(chosen), "".join(parts), title, fit=True)


def svg(width: float, height: float, body: str, title: str, *, fluid: bool = False, fit: bool = False) -> str:
    """An SVG element; `fluid` fills the available width, `fit` shrinks to it."""
    # Small pictures are not blown up: letters would be larger than those of the page.
    fluid_size = f'class="fluid" style="max-width:{min(620.0, 1.2 * width):g}px"'
    size = fluid_size if fluid else f'width="{width:g}" height="{height:g}"' + (' class="fit"' if fit else "")
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" {size} role="img" aria-label="{escape(title)}" font-size="12">'
        f"{body}</svg>"
    )


def _label_room(labels: Sequence[Hashable], size: int = 12) -> int:
    return int(14 + size * max(map(text_width, label_texts(labels)), default=0.0))


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


# --- Many processes.


def tree(heights: list[list[float]], places: list[list[float]], labels: Sequence[Hashable], top: str) -> str:
    """A tree from `dcoord` and `icoord` of SciPy's ``dendrogram``; `top` is the value at the end of its axis."""
    names = fitting(labels, 30)
    step, width, room = 20, 300, 20 + 12 * max(map(text_width, names))
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
    return svg(room + width + 10, below + 18, "".join(parts), "tree of the processes", fit=True)


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
    return svg(520, height, "".join([*parts, *_names(spots, labels, height)]), "map of the processes", fit=True)


def _names(spots: Floats, labels: Sequence[Hashable], height: float) -> Iterator[str]:
    """Labels next to the points of the map, with a line to labels that were moved away."""
    from somcot.many.record import joint_labels

    names = [(k, fitting([text], 60)[0]) for k, text in joint_labels(spots, label_texts(labels), 0.04)]
    widths = np.array([12.0 * text_width(text) for _, text in names])
    corners = place_labels(spots, [k for k, _ in names], widths, 14.0, np.array([0.0, 0.0, 520.0, height]))
    for (k, text), width, (x, y) in zip(names, widths.tolist(), corners.tolist(), strict=True):
        at, up = spots[k].tolist()
        if abs(y + 7.0 - up) > 20.0:
            end = f'x2="{min(max(at, x), x + width):.1f}" y2="{height - y - (0 if y > up else 14):.1f}"'
            yield f'<line x1="{at:.1f}" y1="{height - up:.1f}" {end} stroke="var(--line)"/>'
        yield f'<text x="{x:.1f}" y="{height - y - 3:.1f}">{escape(text)}</text>'
