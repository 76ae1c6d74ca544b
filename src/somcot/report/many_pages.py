"""One self-contained HTML page about periods compared with each other: the answer, a chart, causes, all numbers."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Iterator
from html import escape
from importlib.resources import files

import numpy as np

from somcot import __version__
from somcot.contributions import TransitionShare
from somcot.many.drift import Change, Drift, short
from somcot.many.record import DistanceMatrix, joint_labels
from somcot.plumbing.arrays import Floats
from somcot.plumbing.files import write_bytes
from somcot.plumbing.html import place_labels
from somcot.plumbing.text import label_text, percent
from somcot.report.svg import heat_map

__all__ = [
    "drift_page",
    "matrix_page",
    "write_drift",
    "write_matrix",
]


# --- One self-contained HTML page about a matrix of distances: heat map, tree, map and the table.

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


# --- One self-contained HTML page about periods compared with each other: the answer, a chart, causes, all numbers.

_CAUSES = 8
_NAMED = 16  # periods named below the chart
_FITTED, _PHONE = 'style="max-width:100%;height:auto"', 500.0  # wider charts are scrolled, or nobody could read them


def write_drift(path: str | os.PathLike[str], found: Drift, **more: object) -> None:
    """Write the page to a file, replacing what is there in one move; further arguments as for `drift_page`."""
    write_bytes(path, drift_page(found, **more).encode("utf-8", errors="replace"))  # type: ignore[arg-type]


def drift_page(
    found: Drift, *, notes: Iterable[str] = (), command: str | None = None, unit: str = "labels", source: str = ""
) -> str:
    """The page as text.

    Parameters
    ----------
    found : Drift
    notes : iterable of str
        Shown after what the record says about itself.
    command : str, optional
        How to get the same page again.
    unit : str
        The cost in words.
    source : str
        Where the periods come from.
    """
    title = f"Has {source} changed?" if source else "Has the process changed?"
    parts = [f"<h1>{escape(title)}</h1>", f'<p class="lead">{escape(found.sentence())}</p>', _meaning(found, unit)]
    parts += ["<h2>Period by period</h2>", _figure(found), _causes(found), _warnings([*found.notes, *notes])]
    parts += ["<h2>All comparisons</h2>", _table_drift(found)]
    if command:
        parts.append(f"<h2>The same again</h2><pre>{escape(command)}</pre>")
    parts.append(f'<p class="note">Written by somcot {escape(__version__)}.</p>')
    style = files("somcot").joinpath("data", "report.css").read_text(encoding="utf-8")
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>somcot: {escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head>'
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _meaning(found: Drift, unit: str) -> str:
    return (
        f"<p>Each period is held against {escape(_name_drift(found.reference))} and against the period before, at "
        f"discount {found.discount:g} and cost {escape(label_text(unit, 60))}. Intervals hold "
        f"{100 * found.confidence:g} % of the time, each on its own. A comparison counts as a change when its "
        f"p-value, corrected for the number of comparisons (Holm), is at most {found.level:g}: "
        "where nothing changed, the chance that any of them does is at most that.</p>"
    )


def _warnings(remarks: list[str]) -> str:
    if not remarks:
        return ""
    shown = "".join(f"<li>{escape(label_text(text, 400))}</li>" for text in remarks[:20])
    return f'<div class="warnings"><ul>{shown}</ul></div>'


def _figure(found: Drift) -> str:
    """Dots with intervals; two series that stand apart in colour and in shape."""
    n = len(found.periods)
    step, left, height, right = max(16.0, min(48.0, 420.0 / n)), 56.0, 220.0, 14.0
    width = left + step * n + right
    top = max((c.high for c in found.changes if c.high == c.high), default=0.0) or 1.0
    place = {label: k for k, label in enumerate(found.periods)}

    def down(value: float) -> float:
        return 12.0 + height * (1.0 - min(max(value, 0.0), top) / top)

    def across(k: int, shift: float) -> float:
        return left + step * (k + 0.5) + shift

    marks = [f'<line class="axis" x1="{left}" y1="{down(0)}" x2="{width - right}" y2="{down(0)}"/>']
    for share in (0.0, 0.5, 1.0):
        value = share * top
        marks.append(f'<text x="{left - 6}" y="{down(value)}" dy=".35em" text-anchor="end">{value:.3g}</text>')
    marks += [_dot(c, across(place[c.period], -3.5), down, found.level, "accent") for c in found.against_reference()]
    for change in found.against_before():
        later = max(place[change.period], place[change.against])
        marks.append(_dot(change, across(later, 3.5), down, found.level, "other"))
    every = -(-n // _NAMED)
    for k in range(0, n, every):
        x, y = across(k, 0.0), down(0) + 14.0
        name = escape(_name_drift(found.periods[k], 14))
        marks.append(f'<text x="{x}" y="{y}" text-anchor="end" transform="rotate(-40 {x} {y})">{name}</text>')
    key = (
        f'<figcaption><b style="color:var(--accent)">Round</b>: distance from {escape(_name_drift(found.reference))}. '
        '<b style="color:var(--other)">Square</b>: from the period before. Filled: changed. Lines: intervals.'
        "</figcaption>"
    )
    drawing = (
        f'<svg role="img" aria-label="distances over the periods" viewBox="0 0 {width:g} {height + 90:g}" '
        f'width="{width:g}" {_FITTED if width < _PHONE else ""} font-size="12">{"".join(marks)}</svg>'
    )
    return f'<figure>{key}<div class="scroll">{drawing}</div></figure>'


def _dot(change: Change, x: float, down: object, level: float, colour: str) -> str:
    assert callable(down)
    paint = f"var(--{colour})"
    fill = paint if change.adjusted <= level else "var(--ground)"
    y, said = down(change.distance), f"{_name_drift(change.period)} against {_name_drift(change.against)}"
    title = f"<title>{escape(said)}: {short(change.distance)}, corrected p {short(change.adjusted)}</title>"
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


def _causes(found: Drift) -> str:
    """What the largest change is made of."""
    top = found.largest
    if found.result.makeup is None:
        return ""
    steps = found.result.contributions(_CAUSES).transitions
    if not steps:
        return ""
    before, after = escape(_name_drift(top.against)), escape(_name_drift(top.period))
    numbers = "".join(f'<th class="n">{name}</th>' for name in (f"in {before}", f"in {after}", "contribution"))
    head = f"<th>from</th><th>to</th>{numbers}"
    rows = "".join(_cause(step) for step in steps)
    return (
        f"<h2>Where the largest change comes from</h2><p>{after} against {before}: the transitions whose change "
        "contributes most to the distance. Clear ones are no accident of the recordings.</p>"
        f'<div class="scroll"><table><thead><tr>{head}<th></th></tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _cause(step: TransitionShare) -> str:
    tag = '<span class="tag clear">clear</span>' if step.marked else ""
    return (
        f"<tr><td>{escape(_name_drift(step.state))}</td><td>{escape(_name_drift(step.next_state))}</td>"
        f'<td class="n">{percent(step.probability_x)}</td><td class="n">{percent(step.probability_y)}</td>'
        f'<td class="n">{short(step.amount)}</td><td>{tag}</td></tr>'
    )


def _table_drift(found: Drift) -> str:
    sizes = dict(zip(found.periods, found.transitions, strict=True))
    rows = []
    for c in found.changes:
        tag = '<span class="tag clear">changed</span>' if c.adjusted <= found.level else ""
        numbers = "".join(f'<td class="n">{short(v)}</td>' for v in (c.distance, c.low, c.high, c.pvalue, c.adjusted))
        rows.append(
            f'<tr><td>{escape(_name_drift(c.period))}</td><td class="n">{sizes[c.period]:,}</td>'
            f"<td>{escape(_name_drift(c.against))}</td>{numbers}<td>{tag}</td></tr>"
        )
    names = ("transitions", "against", "distance", "from", "to", "p", "p (corrected)", "")
    head = "".join(
        f"<th{'' if name in ('against', '') else ' class=' + chr(34) + 'n' + chr(34)}>{name}</th>" for name in names
    )
    return (
        f'<div class="scroll"><table><thead><tr><th>period</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _name_drift(label: Hashable, longest: int = 30) -> str:
    return label_text(label, longest)
