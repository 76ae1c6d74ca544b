"""One self-contained HTML page about periods compared with each other: the answer, a chart, causes, all numbers."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable
from html import escape
from importlib.resources import files

from somcot import __version__
from somcot.makeup import TransitionShare
from somcot.many.drift import Change, Drift, short
from somcot.plumbing.files import write_bytes
from somcot.plumbing.text import label_text, percent

__all__ = ["drift_page", "write_drift"]

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
    parts += ["<h2>All comparisons</h2>", _table(found)]
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
        f"<p>Each period is held against {escape(_name(found.reference))} and against the period before, at discount "
        f"{found.discount:g} and cost {escape(label_text(unit, 60))}. Intervals hold {100 * found.confidence:g} % of "
        "the time, each on its own. A comparison counts as a change when its p-value, corrected for the number of "
        f"comparisons (Holm), is at most {found.level:g}: where nothing changed, the chance that any of them does is "
        "at most that.</p>"
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
        name = escape(_name(found.periods[k], 14))
        marks.append(f'<text x="{x}" y="{y}" text-anchor="end" transform="rotate(-40 {x} {y})">{name}</text>')
    key = (
        f'<figcaption><b style="color:var(--accent)">Round</b>: distance from {escape(_name(found.reference))}. '
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
    y, said = down(change.distance), f"{_name(change.period)} against {_name(change.against)}"
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
    before, after = escape(_name(top.against)), escape(_name(top.period))
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
        f"<tr><td>{escape(_name(step.state))}</td><td>{escape(_name(step.next_state))}</td>"
        f'<td class="n">{percent(step.probability_x)}</td><td class="n">{percent(step.probability_y)}</td>'
        f'<td class="n">{short(step.amount)}</td><td>{tag}</td></tr>'
    )


def _table(found: Drift) -> str:
    sizes = dict(zip(found.periods, found.transitions, strict=True))
    rows = []
    for c in found.changes:
        tag = '<span class="tag clear">changed</span>' if c.adjusted <= found.level else ""
        numbers = "".join(f'<td class="n">{short(v)}</td>' for v in (c.distance, c.low, c.high, c.pvalue, c.adjusted))
        rows.append(
            f'<tr><td>{escape(_name(c.period))}</td><td class="n">{sizes[c.period]:,}</td>'
            f"<td>{escape(_name(c.against))}</td>{numbers}<td>{tag}</td></tr>"
        )
    names = ("transitions", "against", "distance", "from", "to", "p", "p (corrected)", "")
    head = "".join(
        f"<th{'' if name in ('against', '') else ' class=' + chr(34) + 'n' + chr(34)}>{name}</th>" for name in names
    )
    return (
        f'<div class="scroll"><table><thead><tr><th>period</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _name(label: Hashable, longest: int = 30) -> str:
    return label_text(label, longest)
