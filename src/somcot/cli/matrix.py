"""`somcot matrix` and `somcot select`: read many, ask once, show, write."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

import somcot
from somcot.chains import MarkovChain
from somcot.cli import signals
from somcot.cli.cost_option import build_cost
from somcot.cli.distance import console, print_json
from somcot.cli.forecast import confirm, duration, suggested_discount
from somcot.cli.inputs import NamedProcess, read_processes
from somcot.cli.options import Reading
from somcot.cli.output import as_option, caught, check_targets, plain
from somcot.cli.screens import show_notes
from somcot.cli.vectors import VectorOptions, number_of_cells, read_all, scale_from
from somcot.many.matrix import compute, local_client
from somcot.many.plan import JobPlan, MatrixSettings, forecast, prepare
from somcot.many.record import DistanceMatrix
from somcot.many.selection import Selection, choose, prepare_selection
from somcot.plumbing.files import write_bytes
from somcot.plumbing.text import label_text
from somcot.problem import ChainOrData, Data
from somcot.readers.opening import format_of
from somcot.readers.tables.groups import split_table
from somcot.report.many_pages import write_matrix

__all__ = ["ENDINGS", "MatrixOptions", "VectorOptions", "matrix", "select"]

ENDINGS = (".csv", ".parquet", ".json", ".html")
_TABLES = ("values", "low", "high", "plugin", "standard_error", "uncut")
_SHOWN = 12  # processes whose matrix fits a screen
_PAIRS = 10  # pairs listed where it does not
_NOTES = 8  # notes shown
_WORTH_SAYING, _LONG = 2.0, 300.0  # seconds from which on the forecast is shown, and somebody at a terminal asked


class MatrixOptions(NamedTuple):
    """What was asked for on the command line."""

    cost: str
    discount: float | None
    confidence: float | None
    simultaneous: bool
    tests: str | None
    method: str
    seed: int


def matrix(
    files: Sequence[str], reading: Reading, asked: MatrixOptions, *, by: str | None, vectors: VectorOptions,
    checkpoint: Path | None, workers: int, out: Sequence[Path], strict: bool, as_json: bool, command: str, yes: bool,
) -> int:  # fmt: skip
    """`somcot matrix`."""
    for path in out:
        if path.suffix not in ENDINGS:
            raise ValueError(f"--out: found {str(path)!r}, expected a file ending in {', '.join(ENDINGS)}")
    targets: dict[str, Path | None] = {f"--out {path}": path for path in out}
    check_targets(targets | {"--checkpoint": checkpoint}, (*files, asked.cost))
    with caught() as messages:
        processes, cost, more = _compared(files, reading, asked.cost, by, vectors)
        if more:
            asked = asked._replace(cost=cost)
        discount = _discount(asked.discount, processes)
        asked = asked._replace(discount=discount)
        options = MatrixSettings(discount, asked.method, asked.confidence, asked.simultaneous, asked.tests, asked.seed)
        plan = prepare(processes, cost, options, **more)
        _announce(plan, workers, yes=yes)
        found = _compute(plan, checkpoint, workers)
    notes = [text for text in messages if "never seen in the data, kept as absorbing" not in text]
    found = replace(found, notes=_joint(n for n in found.notes if "kept as absorbing" not in n))
    try:
        if as_json:
            print_json(_as_json(found, asked, [*found.notes, *notes], out))
        else:
            _show(console(), found, [*found.notes, *notes])
        sys.stdout.flush()
    finally:
        for path in out:
            _write(path, found, asked, notes, command)
    if not as_json:
        for path in out:
            console().print(Text(f"written: {path}", style="cyan"))
    if found.n_failed and not found.interrupted:
        print_error(f"{found.n_failed} of {found.values.size} cells have no distance; --json lists the reasons")
    if found.interrupted:
        return signals.INTERRUPTED
    return 1 if strict and found.n_failed else 0


def select(
    data: str, candidates: Sequence[str], reading: Reading, *, cost: str, discount: float | None, confidence: float,
    seed: int, as_json: bool, yes: bool,
) -> int:  # fmt: skip
    """`somcot select`."""
    with caught() as messages:
        named = _read([data, *candidates], reading, cost, None)
        (name, first), *rest = named.items()
        if not isinstance(first, Data):
            raise ValueError(
                f"{name}: a known chain; the first file must hold recorded data, the candidates may be known"
            )
        table = _cost(cost, named)
        discount = _discount(discount, named)
        plan = prepare_selection(first, dict(rest), table, discount=discount, confidence=confidence, rng=seed)
        _announce(plan, 0, yes=yes)
        found = choose(plan, progress=sys.stderr.isatty())
    found = replace(
        found, notes=_joint(n.replace("data:", f"{name}:", 1) if n.startswith("data:") else n for n in found.notes)
    )
    if as_json:
        rows = [row._asdict() for row in found.table]
        print_json({
            "somcot": somcot.__version__, "command": "select", "data": name, "best": found.best,
            "confidence_set": list(found.confidence_set), "confidence": confidence, "discount": discount, "cost": cost,
            "seed": seed, "candidates": rows, "warnings": [*found.notes, *messages],
        })  # fmt: skip
    else:
        _show_selection(console(), name, found, [*found.notes, *messages])
    return 0


def _compared(
    files: Sequence[str], reading: Reading, cost: str, by: str | None, vectors: VectorOptions
) -> tuple[dict[Hashable, Any], Any, dict[str, Any]]:
    """Processes by name, what differences cost, and what only vectors have."""
    if not vectors:
        processes = _read(files, reading, cost, by)
        return processes, _cost(cost, processes), {}
    if by is not None:
        raise ValueError("--by: not together with --cells; name one file for each recording")
    if len(files) < 2:
        raise ValueError(f"{files[0]}: one file; name several")
    assert vectors.cells is not None
    found, price = read_all(files, reading, vectors, cost)
    named = _short_names(NamedProcess(path, cast("Any", data)) for path, data in zip(files, found, strict=True))
    return named, price, {"scale": scale_from(vectors.scale), "n_cells": number_of_cells(vectors.cells)}


def _discount(asked: float | None, processes: Mapping[Hashable, ChainOrData]) -> float:
    """As asked, or as the sequences of all recordings suggest."""
    if asked is not None:
        return asked
    return suggested_discount([NamedProcess(str(label), process) for label, process in processes.items()])


def _joint(notes: Iterable[str]) -> tuple[str, ...]:
    """Notes in the words of the command line; what holds for several processes is said once."""
    together: dict[str, list[str]] = {}
    for note in notes:
        label, _, text = note.partition(": ")
        together.setdefault(as_option(text), []).append(label)
    return tuple(f"{_listed(labels)}: {text}" for text, labels in together.items())


def _listed(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - 3} more" if len(labels) > 3 else ""
    return ", ".join(labels[:3]) + more


def print_error(text: str) -> None:
    """One line on standard error."""
    sys.stderr.write(f"note: {text}\n")


def _read(files: Sequence[str], reading: Reading, cost: str, by: str | None) -> dict[Hashable, ChainOrData]:
    reward = cost.removeprefix("reward:") if cost.startswith("reward:") else None
    if reward == "":
        raise ValueError("--cost reward:: which column? Write --cost reward:COLUMN")
    if by is None:
        if len(files) < 2:
            raise ValueError(f"{files[0]}: one file; name several, or say with --by COLUMN how to part it")
        processes = read_processes(files, reading, reward)
        for timed in (p for p in processes if p.rates is not None):
            raise ValueError(f"{timed.name}: holds rates of a chain in continuous time; somcot distance takes them")
        return _with_text_labels(_short_names(processes))
    if len(files) != 1:
        raise ValueError(f"--by: parts one file into groups, but {len(files)} files are named; name one")
    kind = "log" if (reading.format or format_of(files[0])) == "xes" else "table"
    options = {name: value for name, value in reading.for_kind(kind).items() if name != "bins"}
    if reading.bins:
        raise ValueError("--by: states cannot be binned at the same time; bin the column first")
    if reading.format:
        options["format"] = reading.format
    groups = split_table(files[0], by, reward=reward, **options) if reward else split_table(files[0], by, **options)
    if len(groups) < 2:
        raise ValueError(f"{files[0]}: column {by!r} has one group only; name another column")
    return dict(groups)


def _short_names(processes: Iterable[NamedProcess]) -> dict[Hashable, ChainOrData]:
    """Files by the end of their names, as long as needed to tell them apart."""
    given = list(processes)
    names = [Path(p.name) for p in given]
    for depth in range(1, 20):
        short = ["/".join(name.parts[-depth:]) for name in names]
        if len(set(short)) == len(short):
            return {name: p.value for name, p in zip(short, given, strict=True)}
    twice = next(str(name) for name in names if names.count(name) > 1)
    raise ValueError(f"{twice}: named twice; every process is compared with itself anyway")


def _with_text_labels(found: dict[Hashable, ChainOrData]) -> dict[Hashable, ChainOrData]:
    """Numbers become text where some files have numbers and others text."""
    kinds = {name: all(type(s) is int for s in p.states) for name, p in found.items()}
    if len(set(kinds.values())) == 1:
        return found
    return {name: _as_text(p) if kinds[name] else p for name, p in found.items()}


def _as_text(process: ChainOrData) -> ChainOrData:
    labels = tuple(map(str, process.states))
    if isinstance(process, Data):
        return replace(process, states=labels)
    return MarkovChain(process.transition, process.initial, states=labels, features=process.features)


def _cost(text: str, processes: Mapping[Hashable, ChainOrData]) -> Any:
    """A name stays one; a file is a matrix between the states that all share."""
    if text.startswith("reward:"):
        return "features"
    first = NamedProcess(*next((str(name), p) for name, p in processes.items()))
    table = build_cost(text, first, first)
    return np.asarray(table) if Path(text).expanduser().exists() else text


def _announce(plan: JobPlan, workers: int, *, yes: bool) -> None:
    """Say before a long computation how long it will be; where somebody sits at the terminal, ask."""
    seconds = forecast(plan, workers or None)
    if seconds > _WORTH_SAYING:
        n, m = plan.shape
        pairs = n * (n - 1) // 2 if plan.options.symmetric else n * m
        sys.stderr.write(f"{pairs:,} pairs of processes: about {duration(seconds)}\n")
        sys.stderr.flush()
    if seconds > _LONG and not yes:
        confirm("--checkpoint FILE keeps finished pairs, --yes starts without asking")


def _compute(plan: JobPlan, checkpoint: Path | None, workers: int) -> DistanceMatrix:
    client = local_client(workers) if workers else None
    try:
        return compute(plan, client=client, checkpoint=checkpoint, progress=sys.stderr.isatty())
    finally:
        if client is not None:
            client.close()
            client.cluster.close()


def _as_json(found: DistanceMatrix, asked: MatrixOptions, notes: Sequence[str], out: Sequence[Path]) -> dict[str, Any]:
    return {
        "somcot": somcot.__version__, "command": "matrix", **asked._asdict(),
        "labels": list(found.labels), "symmetric": found.symmetric, "interrupted": found.interrupted,
        **{name: _numbers(getattr(found, name)) for name in _TABLES},
        "pvalues": _numbers(found.pvalues), "adjusted_pvalues": _numbers(found.adjusted),
        "failed": [{"x": found.labels[i], "y": found.other_labels[j], "reason": text} for i, j, text in found.reasons],
        "warnings": list(notes), "seconds": found.seconds, "files": [str(path) for path in out],
    }  # fmt: skip


def _numbers(table: Any) -> list[list[float | None]]:
    return [[None if np.isnan(v) else float(v) for v in row] for row in table]


def _write(path: Path, found: DistanceMatrix, asked: MatrixOptions, notes: Sequence[str], command: str) -> None:
    if path.suffix == ".html":
        write_matrix(path, found, notes=notes, command=command, unit=asked.cost)
    elif path.suffix == ".json":
        content = plain(_as_json(found, asked, [*found.notes, *notes], [path]))
        write_bytes(path, json.dumps(content, allow_nan=False).encode())
    else:
        rows = [row | {"x": _text(row["x"]), "y": _text(row["y"])} for row in found.rows()]
        write_bytes(path, _csv(rows) if path.suffix == ".csv" else _parquet(rows))


def _csv(rows: list[dict[str, Any]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(
        {k: "" if v is None else repr(v) if isinstance(v, float) else v for k, v in row.items()} for row in rows
    )
    return text.getvalue().encode("utf-8", errors="replace")


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    kinds = {"x": pa.string(), "y": pa.string(), "status": pa.string()}
    columns = {name: pa.array([row[name] for row in rows], kinds.get(name, pa.float64())) for name in rows[0]}
    sink = io.BytesIO()
    parquet.write_table(pa.table(columns), sink)
    return sink.getvalue()


def _text(label: Hashable) -> str:
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def _number(value: float) -> str:
    """Four decimals: what is below is nothing to anyone who looks at a table."""
    return f"{value:.4f}" if abs(value) < 1e4 else f"{value:.5g}"


def _show(screen: Console, found: DistanceMatrix, notes: Sequence[str]) -> None:
    head = f"Distances between {len(found.labels)} processes ({found.method}, {duration(found.seconds)})"
    screen.print(Text(head, style="bold"))
    for text in _meaning(found):
        screen.print(Text(text))
    table = _matrix_table(found)
    wide = screen.measure(table, options=screen.options.update(width=1000)).maximum
    fits = len(found.labels) <= _SHOWN and wide <= screen.width
    screen.print(table if fits else _pair_table(found))
    show_notes(screen, (label_text(note, 300) for note in notes), most=_NOTES)


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
        table.add_column(Text(label_text(_text(label), 14)), justify="right")
    unclear = np.zeros(found.shape, dtype=bool) if found.confidence is None else ~(found.low > 0)
    for label, row, faint in zip(found.labels, found.values, unclear, strict=True):
        cells = [
            Text("-" if np.isnan(v) else _number(v), style="dim" if f else "") for v, f in zip(row, faint, strict=True)
        ]
        table.add_row(Text(label_text(_text(label), 24)), *cells)
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
            names = (Text(label_text(_text(row[side]), 28)) for side in "xy")
            chance = row["adjusted_pvalue"]
            table.add_row(*names, _number(row["distance"]), _ends(row), "" if chance is None else f"{chance:.3f}")
    return table


def _ends(row: Mapping[str, Any]) -> str:
    return "" if row["low"] is None else f"[{_number(row['low'])}, {_number(row['high'])}]"


def _show_selection(screen: Console, name: Hashable, found: Selection, notes: Sequence[str]) -> None:
    screen.print(Text(f"Which candidate explains {_text(name)}? {_text(found.best)}", style="bold"))
    table = Table(box=None, pad_edge=False)
    level = f"{100 * found.confidence:g} % interval"
    for title, side in (("candidate", "left"), ("distance", "right"), (level, "left"), ("", "left")):
        table.add_column(title, justify=side)  # type: ignore[arg-type]
    for row in sorted(found.table, key=lambda r: r.distance):
        mark = "nearest" if row.name == found.best else "may be as near" if row.inside else ""
        ends = f"[{_number(row.low)}, {_number(row.high)}]"
        table.add_row(Text(label_text(_text(row.name), 40)), _number(row.distance), ends, mark)
    screen.print(table)
    show_notes(screen, (label_text(note, 300) for note in notes), most=_NOTES)
