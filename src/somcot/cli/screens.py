"""Answers for people: a panel, a few tables, warnings as lines."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.columns import Columns
from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from somcot.cli.cost_and_cells import compares_labels
from somcot.cli.forecast import Size, duration, readable
from somcot.cli.inputs import NamedProcess
from somcot.cli.output import ShownResult, names_of, one_sided, process_facts
from somcot.contributions import PairShare, TransitionShare
from somcot.inference.permutation import verdict
from somcot.many.drift import Drift, short
from somcot.many.record import DistanceMatrix
from somcot.many.selection import Selection
from somcot.plumbing.arrays import Floats
from somcot.plumbing.text import decimals, figure, label_text, listed_label, percent, seconds
from somcot.problem import Data
from somcot.report import before_correction, certainty, continuous_facts, sentence_of_test
from somcot.report.sentences import share_of_time
from somcot.result import Claim, Status
from somcot.samples import Samples
from somcot.solvers import describe

__all__ = [
    "duration",
    "file_name",
    "most_visited",
    "parts",
    "show_distance",
    "show_drift",
    "show_files",
    "show_info",
    "show_matrix",
    "show_metric",
    "show_notes",
    "show_selection",
    "show_test",
    "show_written",
]


# --- Tables for screens: steps that differ, pairs of states that contribute, who corresponds to whom, visits.

_TOP = 5
_MATCHES = 8
_LABEL = 28


def parts(answer: ShownResult) -> Columns:
    """Where the distance comes from and who corresponds to whom, side by side where the terminal is wide enough."""
    tables = [_matches(answer)]
    if answer.result.makeup is not None:
        found = answer.result.contributions(_TOP)
        pairs = (
            [_pairs(answer, found.pairs, "What comes of it, side by side" if found.transitions else "Side by side")]
            if found.pairs
            else []
        )
        tables = [*([_steps(answer, found.transitions)] if found.transitions else []), *pairs, *tables]
    return Columns(tables, padding=(1, 4))


def _steps(answer: ShownResult, steps: tuple[TransitionShare, ...]) -> Table:
    table = _titled("Steps that differ and matter most")
    table.add_column("from", overflow="fold")
    table.add_column("to", overflow="fold")
    for name in answer.names:
        table.add_column(Text(file_name(name, 14)), justify="right")
    table.add_column("adds", justify="right")
    if answer.result.n_samples:
        table.add_column("clear")
    for t, columns in zip(steps, _verdicts(answer, steps), strict=True):
        table.add_row(
            Text(label_text(t.state, _LABEL)), Text(label_text(t.next_state, _LABEL)), percent(t.probability_x),
            percent(t.probability_y), decimals(t.amount), *columns,
        )  # fmt: skip
    return table


def _pairs(answer: ShownResult, pairs: tuple[PairShare, ...], title: str) -> Table:
    table = _titled(title)
    first, second = (file_name(name, 14) for name in answer.names)
    table.add_column(Text(f"in {first}"), overflow="fold")
    table.add_column(Text(f"while in {second}"), overflow="fold")
    table.add_column("time", justify="right")
    table.add_column("adds", justify="right")
    if answer.result.n_samples:
        table.add_column("clear")
    for p, columns in zip(pairs, _verdicts(answer, pairs), strict=True):
        table.add_row(
            Text(label_text(p.x, _LABEL)), Text(label_text(p.y, _LABEL)),
            percent(share_of_time(answer.result, p.occupancy)), decimals(p.amount), *columns,
        )  # fmt: skip
    return table


def _verdicts(answer: ShownResult, shares: Sequence[PairShare | TransitionShare]) -> list[tuple[str, ...]]:
    """A last cell for each row: whether it is no accident. Of known chains nothing is, so nothing need be said."""
    if not answer.result.n_samples:
        return [()] * len(shares)
    if answer.result.discount == 1.0:
        return [("?",)] * len(shares)  # no errors with this clock
    return [("yes" if share.marked else "no",) for share in shares]


def _matches(answer: ShownResult) -> Table:
    table = _titled("Strongest correspondences")
    first, second = (file_name(name, 18) for name in answer.names)
    table.add_column(Text(f"state in {first}"), overflow="fold")
    table.add_column(Text(f"goes with, in {second}"), overflow="fold")
    table.add_column("how often", justify="right")
    table.add_column("time", justify="right")
    for match in answer.result.matches()[:_MATCHES]:
        table.add_row(
            Text(label_text(match.x, _LABEL)), Text(label_text(match.y, _LABEL)), percent(match.probability),
            percent(share_of_time(answer.result, match.occupancy)),
        )  # fmt: skip
    return table


def most_visited(data: Data) -> Table:
    """The states that were left most often."""
    table = _titled("Most visited")
    table.add_column("state")
    table.add_column("steps from it", justify="right")
    table.add_column("share", justify="right")
    for k in np.argsort(-data.visits, kind="stable")[:_MATCHES]:
        share = data.visits[k] / max(data.n_transitions, 1)
        table.add_row(Text(label_text(data.states[k], 30)), f"{data.visits[k]:,}", percent(share))
    return table


def _titled(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)


def file_name(name: str, longest: int = 36) -> str:
    """The end of a path, which tells more than its beginning."""
    shown = label_text(name, 4096)
    return shown if len(shown) <= longest else "\u2026" + shown[1 - longest :]


# --- Answers for people: a panel, a few tables, warnings as lines.

_MATRIX = 12


def show_distance(console: Console, answer: ShownResult, *, known: float | None = None) -> None:
    """What the number means, how sure it is, how it came about; notes; where it comes from and who goes with whom."""
    r = answer.result
    facts = _grid()
    facts.add_row(
        "distance", Text(figure(r.distance) if r.plugin is not None else f"{r.distance:.6g}", style="bold green")
    )
    if r.confidence_interval is not None:
        low, high, level = r.confidence_interval
        facts.add_row("interval", f"{figure(low)} to {figure(high)} ({100 * level:g} % confidence)")
    if known is not None:
        facts.add_row("truth", f"{figure(known)}, computed from the chains that made the data")
    if r.claim is Claim.PROVED:
        facts.add_row("proved", f"to {r.bounds.high - r.bounds.low:.1g}")
    if r.claim is Claim.NOTHING:
        facts.add_row("proved", f"nothing, after {r.n_steps:,} steps")
        if r.counted is not None:
            facts.add_row("its data", f"the chains of the transitions it was fed are at {figure(r.counted)}")
    if r.continuous is not None:
        for row in continuous_facts(r.continuous, r.plugin):
            facts.add_row(*row)
    else:
        if (before := before_correction(r)) is not None:
            facts.add_row(*before)
        facts.add_row("method", describe(r.method))
    facts.add_row("asked", f"cost {label_text(answer.cost_name, 60)}, {r.clock}")
    for name, process in zip(answer.names, (answer.x, answer.y), strict=True):
        described = _described(process)
        facts.add_row(
            Text(file_name(name, 24)), described if r.continuous is None else described.replace("states", "cells")
        )
    facts.add_row("time", f"{seconds(r.seconds)}, {r.n_steps:,} steps, {r.status.value}")
    title = Text(" and ".join(file_name(name, 30) for name in answer.names))
    said = " ".join(filter(None, (certainty(r, answer.cost), sentence_of_test(r, answer.cost))))
    words = Group(Text(answer.meaning, style="bold"), Text(said), Text(), facts)
    console.print(Panel(words, title=title, title_align="left", expand=False))
    _after(console, answer)
    console.print(parts(answer))


def _after(console: Console, answer: ShownResult) -> None:
    left_over = one_sided(answer.x, answer.y) if compares_labels(answer.cost_name) else ([], [])
    only = zip(answer.names, left_over, strict=True)
    show_notes(console, [*answer.notes, *(f"only in {name}: {_names(states)}" for name, states in only if states)])
    if not answer.result.converged:
        style = "yellow" if answer.result.status is Status.FINISHED else "bold red"
        console.print(Text(answer.result.message, style=style))
    show_files(console, answer)


def show_files(console: Console, answer: ShownResult) -> None:
    """Where the report and the figure are."""
    for what, path in answer.files.items():
        console.print(Text(f"{what}: {label_text(path, 4096)}", style="cyan"))


def show_notes(console: Console, messages: Iterable[str], *, most: int = 100) -> None:
    """What to know of the data; lines that go on are indented, and of very many only the first are shown."""
    found = list(dict.fromkeys(messages))
    shown = [*found[:most], *([f"and {len(found) - most} more (--json has all)"] if len(found) > most else [])]
    grid = Table.grid(padding=(0, 1))
    for message in shown:
        grid.add_row(Text("-", style="yellow"), Text(message, style="yellow"))
    if shown:
        console.print(Text("Notes", style="bold yellow"))
        console.print(grid)


def show_test(console: Console, found: dict[str, Any], names: tuple[str, str]) -> None:
    """The verdict of the same-process test in words."""
    p, n = found["pvalue"], found["n_permutations"]
    facts = _grid()
    facts.add_row("p-value", Text(f"{p:.3g}", style="bold green" if p <= 0.05 else "bold yellow"))
    facts.add_row("distance", f"{found['statistic']:.6g} between the estimated chains")
    if not found["stopped_early"] and abs(p - 0.05) < 2.0 * math.sqrt(0.05 * 0.95 / n):
        facts.add_row("", f"so near to 0.05 that chance decides; --permutations {10 * n + 9} would say more")
    early = "; more could not change the answer" if found["stopped_early"] else ""
    facts.add_row("compared", f"with {n:,} random regroupings of the recordings{early}")
    for name, key in zip(names, "xy", strict=True):
        facts.add_row(Text(file_name(name, 24)), _facts_line(found[key]))
    console.print(
        Panel(
            Group(Text(verdict(p), style="bold"), Text(), facts),
            title="same process?",
            title_align="left",
            expand=False,
        )
    )
    show_notes(console, found["warnings"])


def show_metric(console: Console, x: NamedProcess, y: NamedProcess, values: Floats, messages: Iterable[str]) -> None:
    """Distances from every pair of states, or the corner that fits on a screen."""
    n, m = min(values.shape[0], _MATRIX), _fitting(console.width - 20, y.value.states)
    first, second = (file_name(name, 30) for name in names_of(x, y))
    title = Text(f"Distance from each state of {first} (down) and of {second} (across)")
    table = Table(title=title, title_justify="left", box=None)
    table.add_column("")
    for label in y.value.states[:m]:
        table.add_column(Text(label_text(label, 10)), justify="right")
    for i in range(n):
        table.add_row(Text(label_text(x.value.states[i], 16)), *(f"{v:.4f}" for v in values[i, :m]))
    console.print(table)
    if (n, m) != values.shape:
        console.print(Text(f"the first {n} x {m} of {values.shape[0]} x {values.shape[1]}; --out FILE.csv writes all"))
    show_notes(console, messages)


def _fitting(room: int, labels: Sequence[Hashable]) -> int:
    """How many columns of numbers fit beside each other, at least four."""
    ends = np.cumsum([max(len(label_text(label, 10)), 6) + 2 for label in labels])
    return min(max(int(np.searchsorted(ends, room, side="right")), 4), len(labels))


def show_info(console: Console, process: NamedProcess, size: Size, messages: Sequence[str]) -> None:
    """What a file holds, and what a distance would take."""
    value = process.value
    facts = _grid()
    facts.add_row("holds", _described(process))
    if isinstance(value, Samples):
        visits = value.visits[value.visits > 0]
        facts.add_row("visits", f"{int(np.median(visits)):,} per state (median), least {int(visits.min()):,}")
        facts.add_row("ends", _ends(value))
        if value.features is not None:
            facts.add_row(
                "rewards", f"from {np.nanmin(value.features):.4g} to {np.nanmax(value.features):.4g} per state"
            )
    facts.add_row("states", Text(_names(value.states, 12)))
    if attributes := getattr(value, "attributes", None):
        facts.add_row("attributes", Text(f"{_names(list(attributes), 12)} (for --cost attribute:NAME)"))
    facts.add_row(
        "a distance", f"to a like process: about {duration(size.seconds)} and {readable(size.n_bytes)} of memory"
    )
    console.print(Panel(facts, title=Text(file_name(process.name, 60)), title_align="left", expand=False))
    if isinstance(value, Samples):
        console.print(most_visited(value))
    show_notes(console, messages)


def _ends(samples: Samples) -> str:
    n = 0 if samples.terminated is None else int(samples.terminated.sum())
    if n in (0, samples.n_episodes):
        return "all sequences ended for good" if n else "no sequence ended for good; their recordings just stopped"
    return f"{n:,} of {samples.n_episodes:,} sequences ended for good, the others just stopped"


def _described(process: NamedProcess) -> str:
    return _facts_line(process_facts(process))


def _facts_line(facts: dict[str, Any]) -> str:
    if facts["kind"] == "rates":
        return f"known rates, {facts['n_states']:,} states, {facts['n_transitions']:,} jumps"
    if facts["kind"] == "chain":
        return f"known chain, {facts['n_states']:,} states, {facts['n_transitions']:,} transitions"
    data = f"{facts['n_transitions']:,} transitions in {facts['n_episodes']:,} sequences"
    if facts["kind"] == "vectors":
        return f"{data}, {facts['n_coordinates']} coordinate{'' if facts['n_coordinates'] == 1 else 's'}"
    return f"{data}, {facts['n_states']:,} states"


def _grid() -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    return grid


def _names(labels: Sequence[Hashable], most: int = 10) -> str:
    more = f" and {len(labels) - most:,} more" if len(labels) > most else ""
    return ", ".join(listed_label(label, 30) for label in labels[:most]) + more


# --- Answers about many processes, and about periods of one.

_PROCESSES = 12  # whose matrix fits a screen
_PAIRS = 10  # pairs listed where it does not
_COMPARISONS = 40  # of periods
_FEW_NOTES = 8


def show_written(screen: Console, paths: Iterable[Path | None]) -> None:
    """The files that were written."""
    for path in filter(None, paths):
        screen.print(Text(f"written: {path}", style="cyan"))


def show_matrix(screen: Console, found: DistanceMatrix, notes: Sequence[str]) -> None:
    """Distances between many processes: as a matrix where it fits, else the nearest and the farthest pairs."""
    head = f"Distances between {len(found.labels)} processes ({found.method}, {duration(found.seconds)})"
    screen.print(Text(head, style="bold"))
    for text in _meaning(found):
        screen.print(Text(text))
    table = _matrix_table(found)
    wide = screen.measure(table, options=screen.options.update(width=1000)).maximum
    fits = len(found.labels) <= _PROCESSES and wide <= screen.width
    screen.print(table if fits else _pair_table(found))
    show_notes(screen, (label_text(note, 300) for note in notes), most=_FEW_NOTES)


def _meaning(found: DistanceMatrix) -> list[str]:
    """What can be said before looking at single numbers."""
    lines = []
    if found.apart is not None:
        together = " all together" if found.simultaneous else ""
        n, m = found.apart
        level = f"{100 * (found.confidence or 0.0):g} %"
        lines.append(f"{n:,} of {m:,} pairs are clearly apart: their {level} intervals{together} leave 0 out.")
    if found.tests is not None:
        tested = found.adjusted[np.triu_indices(len(found.labels), 1)] if found.symmetric else found.adjusted.ravel()
        known = tested[~np.isnan(tested)]
        name = "Benjamini-Hochberg" if found.tests == "bh" else "Benjamini-Yekutieli"
        lines.append(f"{int((known <= 0.05).sum()):,} of {len(known):,} pairs differ at 5 % after correction ({name}).")
    return lines


def _matrix_table(found: DistanceMatrix) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for label in found.other_labels:
        table.add_column(Text(label_text(label, 14)), justify="right")
    unclear = np.zeros(found.shape, dtype=bool) if found.confidence is None else ~(found.low > 0)
    for label, row, faint in zip(found.labels, found.values, unclear, strict=True):
        cells = [
            Text("-" if np.isnan(v) else short(v), style="dim" if f else "") for v, f in zip(row, faint, strict=True)
        ]
        table.add_row(Text(label_text(label, 24)), *cells)
    return table


def _pair_table(found: DistanceMatrix) -> Table:
    """Too many for a screen: the nearest pairs and the farthest."""
    rows = sorted((r for r in found.rows() if r["distance"] is not None), key=lambda r: r["distance"])
    between = len(rows) - 2 * _PAIRS
    table = Table(box=None, pad_edge=False)
    ends = "proved bracket" if found.confidence is None else f"{100 * found.confidence:g} % interval"
    tested = found.tests is not None
    for name, side in (
        ("", "left"),
        ("", "left"),
        ("distance", "right"),
        (ends, "left"),
        ("p" if tested else "", "right"),
    ):
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    for k, row in enumerate(rows):
        if between > 0 and k == _PAIRS:
            table.add_row(Text(f"({between:,} pairs between)", style="dim"), "", "", "", "")
        if between <= 0 or not _PAIRS <= k < _PAIRS + between:
            names = (Text(label_text(row[side], 28)) for side in "xy")
            chance = row["adjusted_pvalue"]
            table.add_row(
                *names, short(row["distance"]), _interval_ends(row), "" if chance is None else f"{chance:.3f}"
            )
    return table


def _interval_ends(row: Mapping[str, Any]) -> str:
    return "" if row["low"] is None else f"[{short(row['low'])}, {short(row['high'])}]"


def show_selection(screen: Console, name: Hashable, found: Selection, notes: Sequence[str]) -> None:
    """Which candidates explain the data."""
    screen.print(Text(f"Which candidate explains {name}? {found.best}", style="bold"))
    table = Table(box=None, pad_edge=False)
    level = f"{100 * found.confidence:g} % interval"
    for title, side in (("candidate", "left"), ("distance", "right"), (level, "left"), ("", "left")):
        table.add_column(title, justify=side)  # type: ignore[arg-type]
    for row in sorted(found.table, key=lambda r: r.distance):
        mark = "nearest" if row.name == found.best else "may be as near" if row.inside else ""
        ends = f"[{short(row.low)}, {short(row.high)}]"
        table.add_row(Text(label_text(row.name, 40)), short(row.distance), ends, mark)
    screen.print(table)
    show_notes(screen, (label_text(note, 300) for note in notes), most=_FEW_NOTES)


def show_drift(screen: Console, found: Drift, notes: Sequence[str]) -> None:
    """Period against period, and what changed most."""
    screen.print(Text(found.sentence(), style="bold"))
    table = Table(box=None, pad_edge=False)
    heads = (("period", "left"), ("against", "left"), ("distance", "right"), (f"{100 * found.confidence:g} % interval",
             "left"), ("p (corrected)", "right"), ("", "left"))  # fmt: skip
    for title, side in heads:
        table.add_column(title, justify=side)  # type: ignore[arg-type]
    for c in found.changes[-_COMPARISONS:]:
        changed = c.adjusted <= found.level
        ends = f"{short(c.low)} to {short(c.high)}"
        table.add_row(
            Text(label_text(c.period, 20)), Text(label_text(c.against, 20)), short(c.distance), ends,
            short(c.adjusted), Text("changed" if changed else "", style="bold red"),
        )  # fmt: skip
    screen.print(table)
    if len(found.changes) > _COMPARISONS:
        screen.print(Text(f"The last {_COMPARISONS} of {len(found.changes)} comparisons; --json and --html have all."))
    _show_causes(screen, found)
    show_notes(screen, (label_text(note, 300) for note in notes), most=_FEW_NOTES)


def _show_causes(screen: Console, found: Drift) -> None:
    if found.result.makeup is None or not found.alarm:
        return
    top = found.largest
    names = label_text(top.against, 20), label_text(top.period, 20)
    screen.print(Text(f"\nWhat changed most, {names[1]} against {names[0]}:", style="bold"))
    table = Table(box=None, pad_edge=False)
    for title, side in (("transition", "left"), *((name, "right") for name in names), ("contribution", "right")):
        table.add_column(Text(title), justify=side)  # type: ignore[arg-type]
    for s in found.result.contributions(_TOP).transitions:
        words = f"{label_text(s.state, 20)} \u2192 {label_text(s.next_state, 20)}"
        shares = (f"{100 * p:.0f} %" for p in (s.probability_x, s.probability_y))
        table.add_row(Text(words), *shares, f"{short(s.amount)}{' *' if s.marked else ''}")
    screen.print(table)
