"""The content of reports on a matrix of distances, on drift and on a monitor."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from somcot.live.monitor import Monitor
from somcot.many.drift import Change, Drift, short, short_low
from somcot.many.record import DistanceMatrix
from somcot.plumbing.html import (
    Code,
    Fact,
    First,
    Item,
    Lead,
    Mark,
    Notes,
    Picture,
    Second,
    Section,
    Swatches,
    Table,
    card,
    escape,
)
from somcot.plumbing.notes import arranged, few_alike, in_words
from somcot.plumbing.text import decimals, label_text, percents
from somcot.report import page, svg, write_page
from somcot.report.sentences import findings_in_words
from somcot.result import Result

__all__ = [
    "causes",
    "changes",
    "drift_card",
    "drift_sections",
    "drift_states",
    "matrix_findings",
    "matrix_pairs",
    "matrix_sections",
    "metrics_text",
    "monitor_sections",
    "write_drift",
    "write_matrix",
    "write_status",
]


def _name(label: Hashable) -> str:
    return label_text(label, 30)


# --- A matrix of distances.

_LISTED = 500  # rows of the table
_OPEN = 30  # rows that are shown without unfolding
_FEW = 6  # processes and pairs that are named in a sentence
_DRAWN = 80  # largest number of processes in a picture


def matrix_sections(
    matrix: DistanceMatrix, *, notes: Iterable[str] = (), command: str | None = None, unit: str = "labels"
) -> list[Section]:
    """The report on a matrix of distances: nearest pairs, heat map, tree, map and numbers.

    Parameters
    ----------
    matrix : DistanceMatrix
    notes : iterable of str
        Shown after the notes of the matrix.
    command : str, optional
        The command that reproduces the matrix.
    unit : str
        The name of the cost.
    """
    # One list compared with itself, or two lists.
    title = f"Distances between {_listed(matrix.labels)}"
    if not matrix.square:
        title = f"Distances of {_listed(matrix.labels)} from {_listed(matrix.other_labels)}"
    table = matrix_pairs(matrix)
    cut = f"The nearest {_LISTED} of {len(table.rows)} pairs; a .csv file has all."
    return [
        Section("answer", title, [*map(Lead, matrix_findings(matrix)), *_extremes(matrix)]),
        *_matrix_pictures(matrix),
        _notes([*matrix.notes, *notes], 40),
        Section(
            "numbers",
            "The numbers",
            [*([cut] if len(table.rows) > _LISTED else []), table.first(_LISTED)],
            closed=len(table.rows) > _OPEN,
        ),
        Section("method", "How it was computed", [" ".join(_method(matrix, unit))], closed=True),
        *_again(command),
    ]


def _listed(labels: Sequence[Hashable]) -> str:
    """Few processes by name, many by their number."""
    if len(labels) > _FEW:
        return f"{len(labels)} processes"
    *most, last = map(_name, labels)
    return f"{', '.join(most)} and {last}" if most else last


def _scale(matrix: DistanceMatrix) -> list[Swatches]:
    """The key of the heat map, with its break at what chance alone would give."""
    chance = matrix.within_chance
    off = ~np.eye(*matrix.shape, dtype=bool) if matrix.square else np.ones(matrix.shape, dtype=bool)
    parts = ((chance, "soft", "as expected by chance"), (None if chance is None else ~chance, "accent",
             "larger than expected by chance"))  # fmt: skip
    rows = []
    for which, shade, words in parts:
        values = matrix.values[off & which & ~np.isnan(matrix.values)] if which is not None else np.empty(0)
        if len(values):
            top = float(np.nanmax(matrix.values))
            ends = dict.fromkeys(_rounded(float(end), top) for end in (values.min(), values.max()))
            colour = f"color-mix(in srgb,var(--{shade}) {100.0 * svg.opacity(values.max(), top):.0f}%,var(--ground))"
            rows.append((colour, f"{words}: {' to '.join(ends)}"))
    return [Swatches(rows)] if rows else []


def write_matrix(path: str | os.PathLike[str], matrix: DistanceMatrix, **more: Any) -> None:
    """Write a page about a matrix of distances; further arguments as for `matrix_sections`."""
    write_page(path, page(matrix_sections(matrix, **more)))


def matrix_findings(matrix: DistanceMatrix) -> list[str]:
    """The number of pairs that differ, by their intervals and by the tests."""
    findings = []
    if matrix.apart is not None:
        n, m = matrix.apart
        level = f"{100 * (matrix.confidence or 0.0):g} % {'simultaneous ' if matrix.simultaneous else ''}intervals"
        which = f"their {level} exclude 0" if n else f"all {level} include 0"
        findings.append(f"{n:,} of {m:,} pairs differ significantly: {which}.{_by_name(matrix, n, m)}")
        if n and m > 1 and not matrix.simultaneous:
            false = max(round((1.0 - (matrix.confidence or 0.0)) * m), 1)
            findings[-1] += f" Between equal processes, up to about {false:,} of {m:,} would do so by chance."
    if matrix.tests is not None:
        # Each pair once: a symmetric matrix has both.
        tested = matrix.adjusted[np.triu_indices(len(matrix.labels), 1)] if matrix.symmetric else matrix.adjusted
        known = tested[~np.isnan(tested)]
        rule = "Benjamini-Hochberg" if matrix.tests == "bh" else "Benjamini-Yekutieli"
        differ = f"{int((known <= 0.05).sum()):,} of {len(known):,} pairs differ"
        findings.append(f"{differ} at 5 % after adjustment ({rule}).")
    return findings


def _by_name(matrix: DistanceMatrix, n: int, m: int) -> str:
    """The pairs that differ or, if these are most, the pairs that do not; empty if both are many."""
    chance = matrix.within_chance
    if chance is None or min(n, m - n) > _FEW or n in (0, m):
        return ""
    which = ~chance if n <= m - n else chance
    pairs = [
        f"{_name(matrix.labels[i])} and {_name(matrix.other_labels[j])}"
        for i, j in np.argwhere(which & ~np.isnan(matrix.values)).tolist()
        if not matrix.square or i < j
    ]
    return f" {'These are' if n <= m - n else 'Not shown to differ:'} {'; '.join(pairs)}."


def _extremes(matrix: DistanceMatrix) -> Iterator[str]:
    """The nearest and the farthest pair."""
    # The diagonal, which is 0, is not the nearest pair.
    values = np.where(np.eye(*matrix.shape, dtype=bool) if matrix.square else False, np.nan, matrix.values)
    if np.isnan(values).all():
        yield "No pair has a distance; the table gives the reasons."
        return
    near, far = (np.unravel_index(best(values), values.shape) for best in (np.nanargmin, np.nanargmax))
    top = float(np.nanmax(values))
    nearest, farthest = (
        f"{_name(matrix.labels[i])} and {_name(matrix.other_labels[j])} ({_rounded(values[i, j], top)})"
        for i, j in (near, far)
    )
    yield f"Nearest: {nearest}; farthest: {farthest}."
    if matrix.n_failed:
        yield f"{matrix.n_failed} cell(s) have no distance."


def _method(matrix: DistanceMatrix, unit: str) -> Iterator[str]:
    """How the distances were computed."""
    yield f"The cost is {unit}, the {matrix.timing.removeprefix('the ')}, the method {matrix.method}."
    if matrix.confidence is not None:
        together = "simultaneously" if matrix.simultaneous else "individually"
        yield f"The intervals hold {together} with {100 * matrix.confidence:g} % confidence."


def _matrix_pictures(matrix: DistanceMatrix) -> list[Section]:
    if max(matrix.shape) > _DRAWN:
        few = f"Pictures are drawn for up to {_DRAWN} processes; these are {max(matrix.shape)}."
        # Labels in a larger picture are unreadable.
        return [Section("heat", "", [few])]
    chance = matrix.within_chance
    if not matrix.square or np.isnan(matrix.uncut).any() or len(matrix.labels) < 2:
        missing = " Crossed cells have no distance; the table gives the reasons." if matrix.n_failed else ""
        heat = partial(
            svg.heat_map, matrix.values, matrix.labels, matrix.other_labels, title="distances", chance=chance
        )
        darker = f"Stronger colour: larger distance.{missing}"
        return [Section("heat", "All distances", [darker, *_scale(matrix), Picture(heat)])]
    from scipy.cluster.hierarchy import dendrogram

    drawn = dendrogram(matrix.linkage(), no_plot=True)
    heights = np.maximum(np.array(drawn["dcoord"]) - matrix.shift, 0.0).tolist()  # of distances that are not shifted
    order, links = drawn["leaves"], (heights, drawn["icoord"])
    labels = [matrix.labels[i] for i in order]
    top = max(map(max, links[0])) or 1.0  # all distances may be 0
    circles = "" if matrix.confidence is None else " Circles show the uncertainty of the distances of a process."
    near = f"Distances in the plane approximate those above as closely as two dimensions allow.{circles}"
    grey = None if chance is None else chance[np.ix_(order, order)]
    heat = partial(svg.heat_map, matrix.values[np.ix_(order, order)], labels, labels, title="distances", chance=grey)
    tree = partial(svg.tree, *links, labels, _rounded(top, top))
    return [
        Section("heat", "All distances", [
            "Stronger colour: larger distance. Similar processes are adjacent.", *_scale(matrix), Picture(heat)]),
        Section("tree", "Hierarchical clustering", [
            "Branches join at the mean distance between their members.", Picture(tree)]),
        Section("map", "Map", [
            near, Picture(lambda: svg.map_of(matrix.embedding(2), matrix.uncertainty, matrix.labels))]),
    ]  # fmt: skip


def matrix_pairs(matrix: DistanceMatrix) -> Table:
    """Every pair, the nearest first."""
    names = {"distance": "distance", "low": "from", "high": "to", "plugin": "not corrected", "standard_error": "error",
             "adjusted_pvalue": "p (adjusted)"}  # fmt: skip
    # Pairs without a distance first: their reasons should be seen.
    rows = sorted(matrix.rows(), key=lambda row: -1.0 if row["distance"] is None else row["distance"])
    # Columns that are empty for every pair are left out.
    used = [key for key in names if any(row[key] is not None for row in rows)]
    top = max((row["distance"] for row in rows if row["distance"] is not None), default=1.0)
    cells = [
        (_name(row["x"]), _name(row["y"]),
         *("" if row[key] is None else _rounded(row[key], top, key) for key in used), label_text(row["status"], 120))
        for row in rows
    ]  # fmt: skip
    table = Table(("", "", *(names[key] for key in used), "why"), cells, f"ll{'r' * len(used)}l")
    return table if matrix.reasons else table.without("why")


def _rounded(value: float, top: float, key: str = "") -> str:
    """Four decimals for distances of ordinary size, so that columns align."""
    if key == "low" and 1e-3 <= top < 1e4:
        return short_low(value)
    return f"{value:.4f}" if 1e-3 <= top < 1e4 else f"{value:.4g}"


def _notes(messages: Iterable[str], most: int) -> Section:
    # Notes on single processes are joined, so that each is there once.
    every = arranged(messages, spelling=in_words)
    shown = [label_text(message, 2000) for message in few_alike(every)[:most]]
    more = [f"and {len(every) - len(shown)} more"] if len(every) > len(shown) else []
    return Section("notes", "", [Notes([*shown, *more])] if shown else [])


def _again(command: str | None) -> list[Section]:
    return [Section("again", "Command", [Code(command)])] if command else []


# --- Drift.

_CAUSES = 8


def drift_sections(
    drift: Drift, *, notes: Iterable[str] = (), command: str | None = None, unit: str = "labels", source: str = ""
) -> list[Section]:
    """The report on drift: whether the process has changed, a chart, causes and numbers.

    Parameters
    ----------
    drift : Drift
    notes, command, unit
        As for `matrix_sections`.
    source : str
        The name of the table.
    """
    reference = _name(drift.reference)
    method = (
        f"Each period is compared with {reference} and with the period before, at discount {drift.discount:g} and cost "
        f"{label_text(unit, 60)}. The intervals hold individually with {100 * drift.confidence:g} % confidence. A "
        "comparison counts as a change if its p-value, adjusted for the number of comparisons (Holm), is at most "
        f"{drift.level:g}. If nothing changed, the probability of any reported change is at most {drift.level:g}."
    )
    key = (First("Round"), f": distance from {reference}. ", Second("Square"), ": from the period before. "
           "Filled: changed. Lines: intervals.")  # fmt: skip
    after, before = _name(drift.largest.period), _name(drift.largest.against)
    why = (
        f"{after} against {before}: the transitions whose change contributes most to the distance. Significant ones "
        "are marked."
    )
    steps: list[Item] = [why, causes(drift, _CAUSES)] if drift.alarm and drift.result.makeup is not None else []
    return [
        Section("answer", f"Has {source or 'the process'} changed?", [Lead(drift.sentence())]),
        Section("chart", "Period by period", [Picture(partial(_chart, drift), key)]),
        Section("causes", "Where the largest change comes from", [*drift_states(drift), *steps]),
        _notes([*drift.notes, *notes], 20),
        Section("numbers", "All comparisons", [changes(drift)], closed=True),
        Section("method", "How it was computed", [method], closed=True),
        *_again(command),
    ]


def write_drift(path: str | os.PathLike[str], drift: Drift, **more: Any) -> None:
    """Write a page about drift; further arguments as for `drift_sections`."""
    write_page(path, page(drift_sections(drift, **more)))


def changes(drift: Drift) -> Table:
    """All comparisons; significant changes are marked."""
    sizes = dict(zip(drift.periods, drift.transitions, strict=True))
    rows = [
        (_name(c.period), f"{sizes[c.period]:,}", _name(c.against),
         short(c.distance), short_low(c.low), *map(short, (c.high, c.pvalue, c.adjusted)),
         Mark("changed") if c.adjusted <= drift.level else "")
        for c in drift.changes
    ]  # fmt: skip
    head = ("period", "transitions", "against", "distance", "from", "to", "p", "p (adjusted)", "")
    return Table(head, rows, "lrlrrrrrl")


def causes(drift: Drift, most: int) -> Table:
    """The transitions that contribute most to the largest change; empty if they are not known."""
    before, after = _name(drift.largest.against), _name(drift.largest.period)
    steps = () if drift.result.makeup is None else drift.result.contributions(most).transitions
    rows = [
        (_name(s.state), _name(s.next_state), Mark("significant") if s.marked else "",
         *percents(s.probability_x, s.probability_y), short(s.amount))
        for s in steps
    ]  # fmt: skip
    # Marks are next to the names, so that they are visible on a phone.
    return Table(("from", "to", "", f"in {before}", f"in {after}", "amount"), rows, "lllrrr")


_PERIODS = 16  # periods named below the chart
_PHONE = 500.0  # wider charts scroll, because shrunk text would be too small


def _chart(drift: Drift) -> str:
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
    for k in range(0, n, -(-n // _PERIODS)):
        x, y = across(k), down(0) + 14.0
        name = escape(label_text(drift.periods[k], 14))
        parts.append(f'<text x="{x}" y="{y}" text-anchor="end" transform="rotate(-40 {x} {y})">{name}</text>')
    return svg.svg(width, height + 90, "".join(parts), "distances over the periods", fit=width < _PHONE)


def _dot(change: Change, x: float, down: Callable[[float], float], level: float, colour: str) -> str:
    paint = f"var(--{colour})"
    fill = paint if change.adjusted <= level else "var(--ground)"
    y = down(change.distance)
    title = (
        f"<title>{escape(_name(change.period))} against {escape(_name(change.against))}: {change.distance:.4f}, "
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


def drift_states(drift: Drift) -> list[Item]:
    """What is new, has vanished or differs in the largest change; nothing if no change is significant."""
    if not drift.alarm:
        return []
    found, names = drift.result.findings(), (_name(drift.largest.against), _name(drift.largest.period))
    news = findings_in_words(found, names)
    body: list[Item] = [news, found.states_table(names, _CAUSES)]
    return body if news else []


def drift_card(drift: Drift) -> str:
    """The notebook card of drift."""
    table = changes(drift).without("transitions", "p")
    return card("Drift", (), table, *drift_states(drift), Notes(drift.notes), sub=drift.sentence())


# --- A monitor.


def monitor_sections(
    monitor: Monitor, *, source: str = "the stream", size: Result | None = None,
    curve: Sequence[tuple[int, float]] = (), facts: Sequence[tuple[str, str]] = (),
) -> list[Section]:  # fmt: skip
    """The report on a monitor: whether the stream has changed, since when, by how much, and which transitions.

    Parameters
    ----------
    monitor : Monitor
    source : str
        The name of the stream.
    size : Result, optional
        The distance, from `Monitor.distance`.
    curve : sequence of (event, evidence)
        Evidence over time.
    facts : sequence of (name, text)
        Further rows of the table.
    """
    alarm = monitor.alarm
    headline = f"{'No change detected' if alarm is None else 'Changed'}: {label_text(source, 80)}"
    evidence = "alarm threshold reached" if alarm else f"{monitor.evidence:.3g} of the alarm threshold"
    rows = [  # evidence is relative to the threshold
        ("events", f"{monitor.n_events:,}"),
        ("evidence", evidence),
        ("guarantee", str(monitor.settings.promise)),
        ("reference", f"{'known' if monitor.reference.known else 'recorded'}, {monitor.reference.n:,} states"),
    ]
    if monitor.new_labels:
        rows.append(("new labels", ", ".join(_name(s) for s in monitor.new_labels[:10])))
    chart = Picture(partial(_evidence, curve, None if alarm is None else alarm.event))
    moves = [
        (_name(m.source), _name(m.target), f"{m.before:.1%}", f"{m.now:.1%}", f"{m.n_seen:,}",
         f"{m.surprise:+.1f}")
        for m in (() if alarm is None else alarm.transitions)
    ]  # fmt: skip
    moved = Table(("from", "to", "reference", "since the change", "times", "surprise"), moves, "llrrrr")
    return [
        Section("answer", headline, [_status(monitor, size)]),
        Section("chart", "Evidence", [chart] if len(curve) > 1 else []),
        Section(
            "causes",
            "Transitions that changed",
            ["Shares of the steps from a state.", moved] if alarm is not None else [],
        ),
        Section("numbers", "The numbers", [Fact(name, name, text) for name, text in (*rows, *facts)]),
    ]


def _evidence(curve: Sequence[tuple[int, float]], alarm: int | None) -> str:
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
    return svg.svg(width, height, "".join(parts), "evidence over time", fluid=True)


def write_status(path: str | os.PathLike[str], monitor: Monitor, *, refresh: int | None = None, **more: Any) -> None:
    """Write a page about a monitor; further arguments as for `monitor_sections`."""
    write_page(path, page(monitor_sections(monitor, **more), refresh=refresh))


def metrics_text(monitor: Monitor, losses: Sequence[int], size: Result | None) -> str:
    """The state of a monitor in the text format of Prometheus; `losses` are lines, late events and sequences."""
    broken, backward, dropped = losses
    metrics: list[tuple[str, str, str, float]] = [
        ("events_total", "counter", "Events read.", monitor.n_events),
        ("sequences_total", "counter", "Whole sequences compared with the reference.", monitor.n_sequences),
        ("alarms_total", "counter", "Alarms raised.", len(monitor.alarms)),
        ("alarm", "gauge", "1 after an alarm, until the present is accepted.", float(monitor.alarm is not None)),
        ("evidence_ratio", "gauge", "Evidence of a change, as a share of the threshold.", monitor.evidence),
        ("open_sequences", "gauge", "Sequences that are open, or wait for an earlier one to end.", monitor.n_open),
        ("new_labels", "gauge", "Labels that the reference does not have.", len(monitor.new_labels)),
        ("broken_lines_total", "counter", "Broken lines skipped.", broken),
        ("backward_events_total", "counter", "Events with a time before their predecessor's.", backward),
        ("dropped_sequences_total", "counter",
         "Sequences given up: too many were open, or silent for too long.", dropped),
    ]  # fmt: skip
    if size is not None:
        metrics.append(("distance", "gauge", "Distance of the stream from the reference.", size.distance))
    # 17 digits represent a number exactly.
    return "".join(
        f"# HELP somcot_{name} {about}\n# TYPE somcot_{name} {kind}\nsomcot_{name} {value:.17g}\n"
        for name, kind, about, value in metrics
    )


def _status(monitor: Monitor, size: Result | None) -> str:
    alarm = monitor.alarm
    if alarm is None:
        status = f"After {monitor.n_events:,} events there is no evidence of a change."
        if monitor.notice is not None:
            status = f"The process {monitor.notice}."
    else:
        why = "an impossible transition" if alarm.reason != "evidence" else f"evidence {alarm.evidence:.3g}"
        when = f"{moment}, " if (moment := alarm.when(dated=monitor.dated)) else ""
        status = (
            f"The process differs from the reference: alarm at event {alarm.event:,} ({when}{why}); the change began "
            f"at about event {alarm.since:,}."
        )
    if size is None:
        return status
    status += f" Distance from the reference: {decimals(size.distance)}"
    if size.confidence_interval is not None:
        low, high, level = size.confidence_interval
        status += f" ({100 * level:g} % interval {decimals(low)} to {decimals(high)})"
    return status + (", provisional." if monitor.provisional else ".")
