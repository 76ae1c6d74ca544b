"""Cells of real vectors in the plane, as SVG text: where each recording is, and who goes with whom."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

import numpy as np

from somcot.cells import Cells
from somcot.plumbing.arrays import Bools, Floats
from somcot.plumbing.text import label_text
from somcot.report.drawings import svg

__all__ = ["cells_in_plane"]

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
