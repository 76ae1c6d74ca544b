"""Results on a terminal: panels, tables and lines."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table as Grid
from rich.text import Text

from somcot.chains import EDGES, MarkovChain
from somcot.cli.inputs import NamedProcess, Size, duration, known_attributes, readable
from somcot.cli.output import ShownResult, names_of, one_sided, process_facts
from somcot.plumbing.arrays import Floats
from somcot.plumbing.html import Bullets, Fact, Item, Lead, Mark, Notes, Picture, Section, Table
from somcot.plumbing.notes import Note, few_alike
from somcot.plumbing.text import label_text, listed_label, number_of, percent, shown_pvalue
from somcot.result import Status
from somcot.samples import Samples

if TYPE_CHECKING:  # these load the solvers, which describing a file does not need
    from somcot.inference.decisions import SampleSize
    from somcot.many.drift import Drift
    from somcot.many.record import DistanceMatrix
    from somcot.many.selection import Selection
    from somcot.report.facts import ReportInput

__all__ = [
    "file_name",
    "show",
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

_TOP = 5
_MATCHES = 8
_MATRIX = 12
_LABEL = 40
# The facts about the computation that a terminal shows; the report has all.
_FACTS = (
    "distance", "interval", "before_end", "mix", "truth", "proved", "counted", "before", "method", "reason", "tests",
    "at least", "cost", "clock",
)  # fmt: skip


# --- Sections on a terminal.


def show(console: Console, sections: Iterable[Section]) -> None:
    """Print sections: the answer in a panel, notes as lines, tables side by side if they fit; no pictures."""
    for section in sections:
        # Neighbouring items of one kind form one grid, so that their columns align.
        body = [_shown(kind, list(items)) for kind, items in groupby(section.body, key=type) if kind is not Picture]
        # Closed sections can be unfolded in a report; a terminal has no such thing.
        if section.closed or not body:
            continue
        if section.key == "answer":
            title = Text(section.title) if section.title else None
            console.print(Panel(Group(*body), title=title, title_align="left", expand=False))
        else:
            for part in ([Text(section.title, style="bold")] if section.title else []) + body:
                console.print(part)


def _shown(kind: type[Item], items: list[Any]) -> RenderableType:
    """Consecutive items of one kind."""
    if kind is Fact:
        grid = Grid.grid(padding=(0, 2))
        grid.add_column(style="bold")
        grid.add_column(overflow="fold")
        for fact in items:
            grid.add_row(Text(fact.label), Text(fact.text, style="bold green" if fact.strong else ""))
        return grid
    if kind is Table:
        tables = [_table(table) for table in items]
        return tables[0] if len(tables) == 1 else Columns(tables, padding=(1, 4))
    if kind is Notes:
        return Group(*map(_notes, items))
    if kind is Bullets:
        return Group(*(Text(f"{k}. {''.join(line)}") for bullets in items for k, line in enumerate(bullets.items, 1)))
    return Text("\n".join("".join(item) for item in items), style="bold" if kind is Lead else "")


def _table(table: Table) -> Grid:
    grid = Grid(title=table.title or None, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for name, side in zip(table.head, table.align, strict=True):
        grid.add_column(Text(name), justify="right" if side == "r" else "left", overflow="fold")
    for row in table.rows:
        grid.add_row(*(Text(_cut(cell), style="bold" if isinstance(cell, Mark) else "") for cell in row))
    return grid


def _cut(text: str) -> str:
    # Not all cells are labels: an empty one stays empty.
    return text if len(text) <= _LABEL else label_text(text, _LABEL)


def _notes(notes: Notes) -> Group:
    """Notes as a list with hanging indents, with their codes for `somcot explain`."""
    grid = Grid.grid(padding=(0, 1))
    for note in notes.items:
        code = (f" [{note.code}]", "dim") if isinstance(note, Note) else ""
        grid.add_row(Text("-", style="yellow"), Text.assemble((note, "yellow"), code))
    return Group(Text("Notes", style="bold yellow"), grid)


def show_notes(console: Console, messages: Iterable[str], *, most: int = 100) -> None:
    """Print notes, at most `most` of them and two of a kind."""
    # Several parts of a computation may issue the same note.
    notes = list(dict.fromkeys(messages))
    kept = few_alike(notes)[:most]
    more = [f"and {len(notes) - len(kept)} more (--json has all)"] if len(notes) > len(kept) else []
    if notes:
        console.print(_notes(Notes([*kept, *more])))


def file_name(name: str, longest: int = 36) -> str:
    """The end of a path, its most informative part."""
    shown = label_text(name, 4096)
    return shown if len(shown) <= longest else "\u2026" + shown[1 - longest :]


# --- Screens of `somcot distance`, `test`, `metric` and `info`.


def show_distance(console: Console, answer: ShownResult, *, known: float | None = None) -> None:
    """The meaning of the distance, its certainty, the computation, notes, contributions and corresponding states."""
    from somcot.cli.cost_and_cells import compares_labels
    from somcot.report import certainty, sentence_of_test
    from somcot.report.facts import ReportInput, computation
    from somcot.report.sentences import findings_in_words

    result, cost = answer.result, answer.cost
    names = file_name(answer.names[0], 16), file_name(answer.names[1], 16)
    about = ReportInput(result, cost, names, answer.cost_name, answer.state_name, known)
    facts = {fact.key: fact for fact in computation(about)}
    evidence = " ".join(filter(None, (certainty(result, cost), sentence_of_test(result, cost))))
    chosen = [facts[key] for key in _FACTS if key in facts]
    body: list[Item] = [Lead(answer.meaning), evidence, "", *chosen, *_sides(answer), facts["work"]]
    title = " and ".join(file_name(name, 30) for name in answer.names)
    news = findings_in_words(about.found, names)
    show(console, [Section("answer", title, [Lead(news), *body] if news else body)])
    found, steps = about.found.states_table(names, _MATCHES), about.found.steps_table(names, _TOP)
    tables = [table for table in (found, steps) if table.rows]
    show(console, [Section("findings", "", tables)])
    if tables:
        console.print()
    # The table of findings already lists states of one side only.
    left_over = one_sided(answer.x, answer.y) if compares_labels(answer.cost_name) and not found.rows else ([], [])
    only = zip(answer.names, left_over, strict=True)
    show_notes(console, [*answer.notes, *(f"only in {name}: {_names(states)}" for name, states in only if states)])
    if not result.converged:
        style = "yellow" if result.status is Status.FINISHED else "bold red"
        console.print(Text(result.message, style=style))
    show_files(console, answer)
    *shares, partners = _parts(about)
    # Intervals make the last table wide; beside it no other would fit.
    show(console, [Section("parts", "", shares)])
    if shares:
        console.print()
    show(console, [Section("matches", "", [partners])])


def _sides(answer: ShownResult) -> Iterator[Fact]:
    for key, name, process in zip("xy", answer.names, (answer.x, answer.y), strict=True):
        text = _described(process_facts(process))
        cells = answer.result.continuous is not None
        # Discretised recordings have states, which users know as cells.
        yield Fact(key, file_name(name, 24), text.replace("states", "cells") if cells else text)


def _parts(about: ReportInput) -> Iterator[Table]:
    """The largest contributions and the corresponding states."""
    from somcot.report.facts import matches, pairs, transitions

    if about.result.makeup is not None:
        shares = about.result.contributions(_TOP)
        steps = transitions(about, shares).without("error")
        together = pairs(about, shares).first(_TOP).without("cost", "of the distance", "error")
        if steps.rows:
            title = steps.title.replace("By transition", "Transitions with the largest contributions", 1)
            yield steps._replace(title=title)
        if together.rows:
            yield together._replace(title="Pairs of states with the largest contributions")
    yield matches(about, about.partners(_MATCHES))._replace(title="Strongest correspondences")


def show_files(console: Console, answer: ShownResult) -> None:
    """Print the paths of the report and the figure."""
    for what, path in answer.files.items():
        console.print(Text(f"{what}: {label_text(path, 4096)}", style="cyan"))


def show_test(console: Console, content: dict[str, Any], names: tuple[str, str]) -> None:
    """The result of the same-process test, and the verdict if there is a margin."""
    from somcot.contributions import BeforeEnd
    from somcot.inference.permutation import verdict
    from somcot.report.sentences import mix_in_words

    p, n, early = content["pvalue"], content["n_permutations"], content["stopped_early"]
    decided = "verdict" in content
    facts = [Fact("pvalue", "p of 'no difference'" if decided else "p-value", f"{p:.3g}", strong=p <= 0.05)]
    if decided:
        within, equal = f"p of 'at least {content['margin']:g}'", content["verdict"] == "equivalent"
        facts.append(Fact("within", within, shown_pvalue(content["equivalence_pvalue"]), strong=equal))
        refers = "" if content["before_end"] is None else ", which is what the margin refers to"
        facts.append(Fact("distance", "distance", f"{content['distance']:.4f}{refers}"))
        if content["before_end"] is not None:
            text = BeforeEnd(**content["before_end"]).worded(content["active_share"])
            facts.append(Fact("before_end", "before the end", text))
        if content["mix"] is not None:
            facts.append(Fact("mix", "mix", mix_in_words(content["distance"], content["mix"])))
    else:
        text = f"{content['statistic']:.6g} between the estimated chains; `somcot distance` corrects it for bias"
        facts.append(Fact("distance", "before correction", text))
    if "compared_within" in content:
        facts.append(Fact("compared_within", "within", content["compared_within"]))
    # Within two standard errors of a simulated p-value, the decision at 0.05 may be due to chance.
    if not early and abs(p - 0.05) < 2.0 * math.sqrt(0.05 * 0.95 / n):
        more = f"too close to 0.05 for {n:,} permutations; use --permutations {10 * n + 9}"
        facts.append(Fact("near", "", more))
    enough = "; more could not change the conclusion" if early else ""
    facts.append(Fact("compared", "permutations", f"{n:,}{enough}"))
    facts.append(Fact("clock", "clock", f"discount {content['discount']:g}"))
    facts += [Fact(k, file_name(name, 24), _described(content[k])) for name, k in zip(names, "xy", strict=True)]
    items: list[Any] = [Lead(content["meaning"] if decided else verdict(p)), "", *facts]
    if decided and content["verdict"] == "changed" and content["contributions"]:
        rows = [
            (
                label_text(s["state"], 24),
                label_text(s["next_state"], 24),
                *(f"{s[f'probability_{k}']:.3f}" for k in "xy"),
            )
            for s in content["contributions"]
        ]
        head = ("from", "to", *(file_name(name, 16) for name in names))
        items += ["", Table(head, rows, "llrr", "Largest differences")]
    show(console, [Section("answer", "same process?", items)])
    show_notes(console, content["warnings"])


def show_plan(console: Console, plan: SampleSize, notes: Iterable[str]) -> None:
    """The number of sequences, and the simulated power around it."""
    show(console, [Section("answer", "how many sequences?", [Lead(f"{plan}."), "", plan.table()])])
    show_notes(console, notes)


def show_metric(console: Console, x: NamedProcess, y: NamedProcess, values: Floats, messages: Iterable[str]) -> None:
    """Distances from every pair of initial states, or the corner that fits on the screen."""
    # The row labels take 20 characters.
    n, m = min(values.shape[0], _MATRIX), _fitting(console.width - 20, y.value.states)
    first, second = (file_name(name, 30) for name in names_of(x, y))
    title = f"Distance from each state of {first} (down) and of {second} (across)"
    head = ("", *(label_text(label, 10) for label in y.value.states[:m]))
    rows = [(label_text(x.value.states[i], 16), *(f"{v:.4f}" for v in values[i, :m])) for i in range(n)]
    cut = f"the first {n} x {m} of {values.shape[0]} x {values.shape[1]}; --out FILE.csv writes all"
    table = Table(head, rows, "l" + "r" * m)
    show(console, [Section("metric", title, [table] if (n, m) == values.shape else [table, cut])])
    show_notes(console, messages)


def _fitting(room: int, labels: Sequence[Hashable]) -> int:
    """How many columns of numbers fit in `room` characters, at least four."""
    # Six characters for a number such as 0.1234, two between columns.
    ends = np.cumsum([max(len(label_text(label, 10)), 6) + 2 for label in labels])
    return min(max(int(np.searchsorted(ends, room, side="right")), 4), len(labels))


def show_info(console: Console, process: NamedProcess, size: Size, messages: Sequence[str]) -> None:
    """The content of a file, and the forecast for a distance."""
    value = process.value
    rows, tables = [("content", _described(process_facts(process)))], []
    if isinstance(value, Samples):
        # Unvisited states would make every minimum 0.
        visits, n = value.visits[value.visits > 0], max(value.n_transitions, 1)
        rows.append(("visits", f"{int(np.median(visits)):,} per state (median), minimum {int(visits.min()):,}"))
        rows.append(("ends", _ends(value)))
        if value.features is not None:
            # NaN stands for states without a reward.
            least, most = np.nanmin(value.features), np.nanmax(value.features)
            rows.append(("rewards", f"from {least:.4g} to {most:.4g} per state"))
        often = [
            (label_text(value.states[k], 30), f"{value.visits[k]:,}", percent(value.visits[k] / n))
            for k in np.argsort(-value.visits, kind="stable")[:_MATCHES]
        ]
        tables = [Table(("state", "steps from it", "share"), often, "lrr", "Most visited")]
    rows.append(("states", _names(value.states, 12)))
    if attributes := [name for name in getattr(value, "attributes", None) or () if name != EDGES]:
        rows.append(("attributes", f"{_names(attributes, 12)} (for --cost attribute:NAME)"))
    if isinstance(value, MarkovChain) and (unused := value.unused_attributes):
        rows.append(("edges", f"their attributes are not compared: {label_text(unused, 200)}"))
    if isinstance(value, Samples) and (known := known_attributes(value)):
        are = "are" if len(known) > 1 else "is"
        rows.append(("sessions", f"{_names(known, 12)} {are} known (for --by NAME and --strata NAME)"))
    cost = f"about {duration(size.seconds)} and {readable(size.n_bytes)} of memory"
    rows.append(("forecast", f"a distance to a similar process takes {cost}"))
    facts = [Fact(name, name, text) for name, text in rows]
    show(console, [Section("answer", file_name(process.name, 60), facts), Section("visits", "", tables)])
    show_notes(console, messages)


def _ends(samples: Samples) -> str:
    n = 0 if samples.terminated is None else int(samples.terminated.sum())
    if n in (0, samples.n_episodes):
        return "all sequences terminated" if n else "no sequence terminated; all are truncated"
    return f"{n:,} of {samples.n_episodes:,} sequences terminated, the others are truncated"


def _described(facts: dict[str, Any]) -> str:
    """The kind and sizes of a process, on one line."""
    if facts["kind"] == "rates":
        return f"known rates, {number_of(facts['n_states'], 'state')}, {number_of(facts['n_transitions'], 'jump')}"
    if facts["kind"] == "chain":
        sizes = f"{number_of(facts['n_states'], 'state')}, {number_of(facts['n_transitions'], 'transition')}"
        return f"known chain, {sizes}; start: {facts['start']}"
    data = f"{number_of(facts['n_transitions'], 'transition')} in {number_of(facts['n_episodes'], 'sequence')}"
    if facts["kind"] == "vectors":
        return f"{data}, {number_of(facts['n_coordinates'], 'coordinate')}"
    return f"{data}, {number_of(facts['n_states'], 'state')}"


def _names(labels: Sequence[Hashable], most: int = 10) -> str:
    more = f" and {len(labels) - most:,} more" if len(labels) > most else ""
    return ", ".join(listed_label(label, 30) for label in labels[:most]) + more


# --- Screens of `somcot matrix`, `select` and `drift`.

_PROCESSES = 12  # more processes are listed as pairs instead of a matrix
_PAIRS = 10  # nearest and farthest pairs listed
_COMPARISONS = 40  # comparisons of periods listed
_FEW_NOTES = 8


def show_written(screen: Console, paths: Iterable[Path | None]) -> None:
    """Print the paths of the files that were written."""
    for path in filter(None, paths):
        # Not wrapped: paths are copied.
        screen.print(Text(f"written: {label_text(str(path), 4096)}", style="cyan"), soft_wrap=True)


def show_matrix(screen: Console, matrix: DistanceMatrix, notes: Sequence[str]) -> None:
    """Distances between many processes: a matrix if it fits, otherwise the nearest and the farthest pairs."""
    head = f"Distances between {len(matrix.labels)} processes ({matrix.method}, {duration(matrix.seconds)})"
    screen.print(Text(head, style="bold"))
    from somcot.report.many_facts import matrix_findings  # other commands do not load it

    for text in matrix_findings(matrix):
        screen.print(Text(text))
    table = _matrix_table(matrix)
    # Measured without a limit: rich would fit columns to the screen by cutting numbers.
    wide = screen.measure(table, options=screen.options.update(width=1000)).maximum
    fits = len(matrix.labels) <= _PROCESSES and wide <= screen.width
    screen.print(table if fits else _pair_table(matrix))
    if matrix.square and 2 < len(matrix.labels) <= _PROCESSES and not np.isnan(matrix.uncut).any():
        screen.print(Text("\nHierarchical clustering, by the mean distance between members", style="bold"))
        screen.print(_joins(matrix))
    show_notes(screen, notes, most=_FEW_NOTES)


def _joins(matrix: DistanceMatrix) -> Grid:
    """The tree of the report as text: which groups are joined, and at which distance."""
    from somcot.many.drift import short

    table = Grid(box=None, pad_edge=False, show_header=False)
    groups = [label_text(label, 24) for label in matrix.labels]
    for i, j, height, _ in matrix.linkage().tolist():
        first, second = groups[int(i)], groups[int(j)]
        # Heights of the distances themselves: negative estimates are raised for the clustering.
        table.add_row(short(max(height - matrix.shift, 0.0)), Text(f"{first} + {second}"))
        groups.append(f"{first}, {second}")
    return table


def _matrix_table(matrix: DistanceMatrix) -> Grid:
    from somcot.many.drift import short

    table = Grid(box=None, pad_edge=False)
    table.add_column("")
    for label in matrix.other_labels:
        table.add_column(Text(label_text(label, 14)), justify="right")
    # A cell is dimmed if its interval contains 0; without intervals none is.
    unclear = np.zeros(matrix.shape, dtype=bool) if matrix.confidence is None else ~(matrix.low > 0)
    for label, row, faint in zip(matrix.labels, matrix.values, unclear, strict=True):
        cells = [
            Text("-" if np.isnan(v) else short(v), style="dim" if f else "") for v, f in zip(row, faint, strict=True)
        ]
        table.add_row(Text(label_text(label, 24)), *cells)
    return table


def _pair_table(matrix: DistanceMatrix) -> Grid:
    """The nearest and the farthest pairs."""
    from somcot.many.drift import short

    rows = sorted((r for r in matrix.rows() if r["distance"] is not None), key=lambda r: r["distance"])
    # Negative if all pairs fit.
    between = len(rows) - 2 * _PAIRS
    table = Grid(box=None, pad_edge=False)
    ends = "proved bracket" if matrix.confidence is None else f"{100 * matrix.confidence:g} % interval"
    tested = matrix.tests is not None
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
            pvalue = row["adjusted_pvalue"]
            table.add_row(
                *names, short(row["distance"]), _interval_ends(row), "" if pvalue is None else f"{pvalue:.3f}"
            )
    return table


def _interval_ends(row: Mapping[str, Any]) -> str:
    from somcot.many.drift import short, short_low

    return "" if row["low"] is None else f"[{short_low(row['low'])}, {short(row['high'])}]"


def show_selection(screen: Console, name: Hashable, selection: Selection, notes: Sequence[str]) -> None:
    """The candidates, the nearest first."""
    from somcot.many.drift import short

    data, best = label_text(name, 4096), label_text(selection.best, 4096)
    screen.print(Text(f"The candidate nearest to {data} is {best}", style="bold"))
    table = Grid(box=None, pad_edge=False)
    level = f"{100 * selection.confidence:g} % interval"
    for title, side in (("candidate", "left"), ("distance", "right"), (level, "left"), ("", "left")):
        table.add_column(title, justify=side)  # type: ignore[arg-type]
    for row in sorted(selection.table, key=lambda r: r.distance):
        mark = "nearest" if row.name == selection.best else "not excluded" if row.inside else ""
        ends = f"[{short(row.low)}, {short(row.high)}]"
        table.add_row(Text(label_text(row.name, 40)), short(row.distance), ends, mark)
    screen.print(table)
    show_notes(screen, notes, most=_FEW_NOTES)


def show_drift(console: Console, drift: Drift, notes: Iterable[str]) -> None:
    """Whether a process has changed, the latest comparisons, and the largest changes."""
    from somcot.report.many_facts import causes, changes, drift_states  # other commands do not load it

    table = changes(drift).without("transitions", "p")
    n = len(table.rows)
    # Comparisons are in order of time, and the latest matter most.
    cut = [f"The last {_COMPARISONS} of {n} comparisons; --json and --html have all."] if n > _COMPARISONS else []
    after, before = label_text(drift.largest.period, 20), label_text(drift.largest.against, 20)
    steps = [causes(drift, _TOP)] if drift.alarm else []
    show(
        console,
        [
            Section("sentence", "", [Lead(drift.sentence()), table._replace(rows=table.rows[-_COMPARISONS:]), *cut]),
            Section(
                "causes",
                f"\nLargest changes, {after} against {before}:",
                [*drift_states(drift), *(t for t in steps if t.rows)],
            ),
        ],
    )
    show_notes(console, notes, most=_FEW_NOTES)
