"""One self-contained HTML page about a matrix of distances: heat map, tree, map and the table."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Iterator
from html import escape
from importlib.resources import files

import numpy as np

from somcot import __version__
from somcot.many.record import DistanceMatrix, joint_labels
from somcot.plumbing.arrays import Floats
from somcot.plumbing.files import write_bytes
from somcot.plumbing.placing import place_labels
from somcot.plumbing.text import label_text
from somcot.report.drawings import heat_map

__all__ = ["matrix_page", "write_matrix"]

_LISTED = 500  # rows of the table
_DRAWN = 80  # processes that a picture can hold


def write_matrix(path: str | os.PathLike[str], found: DistanceMatrix, **more: object) -> None:
    """Write the page to a file, replacing what is there in one move; further arguments as for `matrix_page`."""
    write_bytes(path, matrix_page(found, **more).encode("utf-8", errors="replace"))  # type: ignore[arg-type]


def matrix_page(
    found: DistanceMatrix, *, notes: Iterable[str] = (), command: str | None = None, unit: str = "labels"
) -> str:
    """The page as text.

    Parameters
    ----------
    found : DistanceMatrix
    notes : iterable of str
        Shown after what the matrix says about itself.
    command : str, optional
        How to get the same matrix again.
    unit : str
        The cost in words.
    """
    n, m = found.shape
    title = f"Distances between {n} processes" if found.square else f"Distances of {n} from {m} processes"
    parts = [f"<h1>{title}</h1>", f"<p>{_sentence(found, unit)}</p>"]
    parts += [_pictures(found)]
    remarks = [*found.notes, *notes]
    if remarks:
        shown = "".join(f"<li>{escape(label_text(text, 400))}</li>" for text in remarks[:40])
        parts.append(f'<h2>Notes</h2><ul class="note">{shown}</ul>')
    parts.append(f"<h2>The numbers</h2>{_table(found)}")
    if command:
        parts.append(f"<h2>The same again</h2><pre>{escape(command)}</pre>")
    parts.append(f'<p class="note">Written by somcot {escape(__version__)}.</p>')
    style = files("somcot").joinpath("data", "report.css").read_text(encoding="utf-8")
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>somcot: {title}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head>'
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _sentence(found: DistanceMatrix, unit: str) -> str:
    values = np.where(np.eye(*found.shape, dtype=bool) if found.square else False, np.nan, found.values)
    if np.isnan(values).all():
        return "No pair has a distance; the table says why."
    near, far = (np.unravel_index(find(values), values.shape) for find in (np.nanargmin, np.nanargmax))
    top = float(np.nanmax(values))
    pairs = [
        f"{escape(_name(found.labels[i]))} and {escape(_name(found.other_labels[j]))} ({_number(values[i, j], top)})"
        for i, j in (near, far)
    ]
    level = (
        ""
        if found.confidence is None
        else f" Intervals hold {100 * found.confidence:g} % of the time"
        + (", all of them together." if found.simultaneous else ", each on its own.")
    )
    failed = f" {found.n_failed} cell(s) have no distance." if found.n_failed else ""
    apart = found.apart
    clear = "" if apart is None else f"{apart[0]:,} of {apart[1]:,} pairs are clearly apart: intervals leave 0 out. "
    return (
        f"{clear}Nearest: {pairs[0]}; farthest: {pairs[1]}. The cost is {escape(unit)}, the discount "
        f"{found.discount:g}, the method {escape(found.method)}.{level}{failed}"
    )


def _pictures(found: DistanceMatrix) -> str:
    if max(found.shape) > _DRAWN:
        return f"<p>Pictures are drawn for up to {_DRAWN} processes; these are {max(found.shape)}.</p>"
    if not found.square or np.isnan(found.uncut).any() or len(found.labels) < 2:
        picture = heat_map(found.values, found.labels, found.other_labels, title="distances")
        missing = " Crossed cells have no distance; the table says why." if found.n_failed else ""
        said = f"<p>Stronger colour: farther apart.{missing}</p>"
        return f'<h2>All distances</h2>{said}<figure class="scroll">{picture}</figure>'
    from scipy.cluster.hierarchy import dendrogram

    drawn = dendrogram(found.linkage(), no_plot=True)
    order = drawn["leaves"]
    labels = [found.labels[i] for i in order]
    heat = heat_map(found.values[np.ix_(order, order)], labels, labels, title="distances")
    return (
        "<h2>All distances</h2><p>Stronger colour: farther apart. Like processes stand side by side.</p>"
        f'<figure class="scroll">{heat}</figure>'
        f"<h2>Who is like whom</h2><p>Branches join at the mean distance between their members.</p>"
        f'<figure class="scroll">{_tree(drawn, labels)}</figure>'
        f"<h2>On a map</h2><p>Distances on paper are as near to those above as two dimensions allow."
        f"{_circles(found)}</p>"
        f'<figure class="scroll">{_map(found)}</figure>'
    )


def _circles(found: DistanceMatrix) -> str:
    return "" if found.confidence is None else " Circles are as wide as the distances of a process are uncertain."


def _tree(drawn: dict[str, list[list[float]]], labels: list[Hashable]) -> str:
    step, width, room = 20, 300, 20 + 7 * max(len(_name(label)) for label in labels)
    top = max(max(x) for x in drawn["dcoord"]) or 1.0
    lines = []
    for heights, places in zip(drawn["dcoord"], drawn["icoord"], strict=True):
        corners = " ".join(
            f"{room + width * h / top:.1f},{10 + step * (p - 5.0) / 10.0:.1f}"
            for h, p in zip(heights, places, strict=True)
        )
        lines.append(f'<polyline points="{corners}" fill="none" stroke="var(--accent)" stroke-width="1.5"/>')
    for k, label in enumerate(labels):
        lines.append(
            f'<text x="{room - 6}" y="{10 + step * k}" dy=".35em" text-anchor="end">{escape(_name(label))}</text>'
        )
    below = 10 + step * len(labels)
    lines += [
        f'<text x="{room}" y="{below + 10}">0</text>',
        f'<text x="{room + width}" y="{below + 10}" text-anchor="end">{_number(top, top)}</text>',
    ]
    return _svg(room + width + 10, below + 18, "".join(lines), "tree of the processes")


def _map(found: DistanceMatrix) -> str:
    points, wide = found.embedding(2), found.uncertainty
    low, high = (points - wide[:, None]).min(axis=0), (points + wide[:, None]).max(axis=0)
    scale = 360.0 / max(float((high - low).max()), 1e-300)
    spots = (points - low) * scale + 30.0
    height = float((high - low)[1]) * scale + 60.0
    marks = []
    for (x, y), radius in zip(spots.tolist(), wide * scale, strict=True):
        if radius > 0:
            disc = f'<circle cx="{x:.1f}" cy="{height - y:.1f}" r="{radius:.1f}" fill="var(--accent)" opacity=".12"/>'
            marks.append(disc)
        marks.append(f'<circle cx="{x:.1f}" cy="{height - y:.1f}" r="3.5" fill="var(--accent)"/>')
    return _svg(520, height, "".join([*marks, *_names(found, spots, height)]), "map of the processes")


def _names(found: DistanceMatrix, spots: Floats, height: float) -> Iterator[str]:
    """Labels beside the points of the map, with a line to those that had to move away."""
    labels = joint_labels(spots, [_name(label, 18) for label in found.labels], 0.04)
    widths = np.array([6.6 * len(text) for _, text in labels])
    corners = place_labels(spots, [k for k, _ in labels], widths, 14.0, np.array([0.0, 0.0, 520.0, height]))
    for (k, text), width, (x, y) in zip(labels, widths.tolist(), corners.tolist(), strict=True):
        at, up = spots[k].tolist()
        if abs(y + 7.0 - up) > 20.0:
            end = f'x2="{min(max(at, x), x + width):.1f}" y2="{height - y - (0 if y > up else 14):.1f}"'
            yield f'<line x1="{at:.1f}" y1="{height - up:.1f}" {end} stroke="var(--line)"/>'
        yield f'<text x="{x:.1f}" y="{height - y - 3:.1f}">{escape(text)}</text>'


def _svg(width: float, height: float, body: str, title: str) -> str:
    return (
        f'<svg role="img" aria-label="{escape(title)}" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'font-size="12" fill="currentColor">{body}</svg>'
    )


def _table(found: DistanceMatrix) -> str:
    names = {"distance": "distance", "low": "from", "high": "to", "plugin": "not corrected", "standard_error": "error",
             "adjusted_pvalue": "p (corrected)"}  # fmt: skip
    rows = list(found.rows())
    used = [key for key in names if any(row[key] is not None for row in rows)]
    rows.sort(key=lambda row: -1.0 if row["distance"] is None else row["distance"])
    head = "".join(f'<th class="n">{names[key]}</th>' for key in used)
    top = max((row["distance"] for row in rows if row["distance"] is not None), default=1.0)
    body = []
    for row in rows[:_LISTED]:
        cells = "".join(f'<td class="n">{"" if row[k] is None else _number(row[k], top)}</td>' for k in used)
        why = f"<td>{escape(label_text(row['status'], 120))}</td>" if found.reasons else ""
        body.append(f"<tr><td>{escape(_name(row['x']))}</td><td>{escape(_name(row['y']))}</td>{cells}{why}</tr>")
    more = f"<p>The nearest {_LISTED} of {len(rows)} pairs; a .csv file has all.</p>" if len(rows) > _LISTED else ""
    why = "<th>why</th>" if found.reasons else ""
    head = f"<thead><tr><th></th><th></th>{head}{why}</tr></thead>"
    return f'{more}<div class="scroll"><table>{head}<tbody>{"".join(body)}</tbody></table></div>'


def _number(value: float, top: float) -> str:
    """Four decimals where distances are of ordinary size: what is below is nothing to anyone who compares."""
    return f"{value:.4f}" if 1e-3 <= top < 1e4 else f"{value:.4g}"


def _name(label: Hashable, longest: int = 30) -> str:
    return label_text(", ".join(map(str, label)) if isinstance(label, tuple) else label, longest)
