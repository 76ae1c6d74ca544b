"""`somcot matrix`, `select` and `drift`: read many processes, compare them, show and write the result."""

from __future__ import annotations

import io
import json as json_text
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

import somcot
from somcot.cli import signals
from somcot.cli.options import (
    ALARM,
    By,
    ClockOptions,
    Cost,
    Force,
    Json,
    Method,
    OutputOptions,
    Reading,
    Seed,
    StartAtOnce,
    StrataOptions,
    SuggestedBelowOne,
    SuggestedDiscount,
    VectorOptions,
    check_figure,
)

if TYPE_CHECKING:
    from somcot.cli.inputs import NamedProcess
    from somcot.many.drift import Drift
    from somcot.many.plan import JobPlan
    from somcot.many.record import DistanceMatrix
    from somcot.plumbing.arrays import Floats
    from somcot.problem import ChainOrData
    from somcot.samples import Samples

__all__ = ["ENDINGS", "draw", "drift", "matrix", "select"]

ENDINGS = (".csv", ".parquet", ".json", ".html")
_TABLES = ("values", "low", "high", "plugin", "standard_error", "uncut")
_WORTH_SAYING, _LONG = 2.0, 300.0  # seconds above which the forecast is shown, and has to be confirmed


def matrix(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="One file per process, or one file with --by.")],
    *,
    clock: ClockOptions,
    by: By = None,
    vectors: VectorOptions,
    grouping: StrataOptions,
    cost: Cost = "labels",
    method: Method = "auto",
    confidence: Annotated[float, typer.Option(metavar="LEVEL", help="Level of the intervals.")] = 0.9,
    simultaneous: Annotated[
        bool, typer.Option("--simultaneous", help="Make the intervals hold simultaneously at this level.")
    ] = False,
    tests: Annotated[
        str | None,
        typer.Option(metavar="bh|by", help="P-values of every pair, adjusted by Benjamini-Hochberg or -Yekutieli."),
    ] = None,
    out: Annotated[
        list[Path] | None,
        typer.Option("--out", "-o", metavar="FILE", help="Write .csv, .parquet, .json or .html; may be repeated."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the heat map: PNG, SVG or PDF.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save finished pairs here; the same command resumes.")
    ] = None,
    force: Force = False,
    workers: Annotated[int, typer.Option(min=0, metavar="N", help="Number of worker processes (needs dask).")] = 0,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 if any pair fails.")] = False,
    yes: StartAtOnce = False,
    seed: Seed = 0,
    json: Json = False,
    reading: Reading,
) -> int:
    """Compute the distances between many processes."""
    from somcot.cli.cost_and_cells import read_in_cells, shared_cost
    from somcot.cli.output import caught, check_targets, command_line, console, deliver, for_terminal, print_json
    from somcot.cli.screens import show_matrix, show_written
    from somcot.clocks import Clock
    from somcot.many.plan import MatrixSettings, prepare

    paths = out or []
    for path in paths:
        if path.suffix not in ENDINGS:
            raise ValueError(f"--out: found {str(path)!r}, expected a file ending in {', '.join(ENDINGS)}")
    targets: dict[str, Path | None] = {f"--out {path}": path for path in paths}
    check_figure(plot)
    check_targets(targets | {"--checkpoint": checkpoint, "--plot": plot}, (*files, cost), force=force)
    clock.check()
    vectors.check()
    if vectors.wanted and by is not None:
        raise ValueError("--by: not together with --cells; name one file for each recording")
    if vectors.wanted and len(files) < 2:
        raise ValueError(f"{files[0]}: one file; name several")
    with caught() as messages:
        processes: Mapping[Hashable, Any]
        if vectors.wanted:
            recordings = read_in_cells(files, reading, vectors, cost)
            # The labels of the matrix are the parts of the paths that differ.
            processes, more = _short_names(recordings.named()), recordings.arguments
            table: Any = recordings.cost
            cost = recordings.cost
        else:
            processes, more = _read(files, reading, cost, by, grouping.columns, clock.rate), {}
            # One cost for all pairs, so that the distances are comparable.
            table = shared_cost(cost, processes)
        # No clock was given: the lengths of all sequences together suggest a discount.
        if clock == ClockOptions():
            clock = replace(clock, discount=_discount(None, processes))
        chosen = Clock.chosen(**clock.arguments())
        settings = MatrixSettings(
            chosen.discount, method, confidence, simultaneous, tests, seed, clock=chosen,
            **grouping.arguments(vectors.wanted),
        )  # fmt: skip
        # Preparation and computation are separate, so that the forecast can come between them.
        plan = prepare(processes, table, settings, **more)
        _announce(plan, workers, yes=yes)
        distances = _compute(plan, checkpoint, workers)
    notes = [note for note in _without_unseen(messages) if note not in distances.notes]
    distances = replace(distances, notes=tuple(for_terminal(_without_unseen(distances.notes))))
    content = {
        "somcot": somcot.__version__, "command": "matrix", "cost": cost, **clock.arguments(), "confidence": confidence,
        "simultaneous": simultaneous, "tests": tests, "method": method, "seed": seed, **_as_json(distances),
        "warnings": [*distances.notes, *notes], "seconds": distances.seconds,
    }  # fmt: skip

    def show() -> None:
        if json:
            print_json(content | {"files": [str(path) for path in (*paths, plot) if path]})
        else:
            show_matrix(console(), distances, [*distances.notes, *notes])

    def write() -> None:
        for path in paths:
            _write(path, distances, content, notes, command_line())
        if plot is not None:
            # Larger for many processes, so that their labels do not overlap.
            size = min(max(4.5, 2.0 + 0.3 * max(distances.shape)), 14.0)
            draw(partial(somcot.plots.matrix, distances), plot, size + 1.0, size)

    deliver(show, write)
    if not json:
        show_written(console(), (*paths, plot))
    # Cells that an interruption left empty have not failed.
    if distances.n_failed and not distances.interrupted:
        failed = f"{distances.n_failed} of {distances.values.size} cells"
        sys.stderr.write(f"note: {failed} have no distance; --json lists the reasons\n")
    if distances.interrupted:
        return signals.INTERRUPTED
    return 1 if strict and distances.n_failed else 0


def select(
    data: Annotated[str, typer.Argument(metavar="DATA", help="File with the recorded data.")],
    candidates: Annotated[
        list[str] | None,
        typer.Argument(metavar="CANDIDATE", help="Files with known chains or recordings; none with --by."),
    ] = None,
    *,
    by: By = None,
    group: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --by: the group that is the data; the last by default.")
    ] = None,
    discount: SuggestedBelowOne = None,
    grouping: StrataOptions,
    cost: Cost = "labels",
    confidence: Annotated[float, typer.Option(metavar="LEVEL", help="Level of the intervals and of the set.")] = 0.9,
    yes: StartAtOnce = False,
    seed: Seed = 0,
    json: Json = False,
    reading: Reading,
) -> int:
    """Find the candidate nearest to the data, and those that cannot be excluded."""
    from somcot.cli.cost_and_cells import shared_cost
    from somcot.cli.output import caught, console, for_terminal, print_json
    from somcot.cli.screens import show_selection
    from somcot.many.selection import choose, prepare_selection
    from somcot.problem import Data

    with caught() as messages:
        named = _read([data, *(candidates or [])], reading, cost, by, grouping.columns)
        # With --by, one of the groups is the data, otherwise the first file.
        name = _chosen_group(named, group) if by is not None else next(iter(named))
        first, rest = named[name], [(label, process) for label, process in named.items() if label != name]
        # A known chain has no sampling error from which a confidence set could follow.
        if not isinstance(first, Data):
            raise ValueError(
                f"{name}: a known chain; the first file must hold recorded data, the candidates may be known chains"
            )
        table = shared_cost(cost, named)
        discount = _discount(discount, named)
        plan = prepare_selection(
            first, dict(rest), table, discount=discount, confidence=confidence, rng=seed, **grouping.arguments()
        )
        _announce(plan, 0, yes=yes)
        selection = choose(plan, progress=sys.stderr.isatty())
    about = selection.notes if by is None else _without_unseen(selection.notes)  # groups have the states of all
    notes = [*for_terminal(about, {"data": str(name)}), *messages]
    if json:
        print_json({
            "somcot": somcot.__version__, "command": "select", "data": name, "best": selection.best,
            "confidence_set": list(selection.confidence_set), "confidence": confidence, "discount": discount,
            "cost": cost, "seed": seed, "candidates": [row._asdict() for row in selection.table], "warnings": notes,
        })  # fmt: skip
    else:
        show_selection(console(), name, selection, notes)
    return 0


def _discount(discount: float | None, processes: Mapping[Hashable, ChainOrData]) -> float:
    """The discount, or the one that the sequences of all recordings suggest."""
    from somcot.cli.inputs import NamedProcess, suggested_discount

    if discount is not None:
        return discount
    return suggested_discount([NamedProcess(str(label), process) for label, process in processes.items()])


def _without_unseen(notes: Iterable[str]) -> list[str]:
    """Drop notes on unvisited states, which are expected: each process has the states of all processes."""
    from somcot.plumbing.notes import codes

    return [note for note in notes if codes([note]) != ["never-seen"]]


def _read(
    files: Sequence[str],
    reading: Reading,
    cost: str,
    by: str | None,
    attributes: Sequence[str] = (),
    rate: float | None = None,
) -> dict[Hashable, ChainOrData]:
    from somcot.cli.cost_and_cells import reward_column
    from somcot.cli.inputs import read_groups, read_processes

    reward = reward_column(cost)
    if by is None:
        if len(files) < 2:
            raise ValueError(f"{files[0]}: one file; name several, or split it with --by COLUMN")
        processes = read_processes(files, reading, reward, attributes=attributes)
        # Rates and steps need different clocks. Mixtures are refused here, where files have names.
        for timed in (p for p in processes if rate is None and p.rates is not None):
            raise ValueError(f"{timed.name}: holds rates of a chain in continuous time; pass --rate R, say 0.1")
        for stepping in (p for p in processes if rate is not None and p.rates is None):
            raise ValueError(f"--rate: {stepping.name} is a process in discrete time; use --discount instead")
        if rate is not None:
            return _short_names(processes)
        return _with_text_labels(_short_names(processes))
    if len(files) != 1:
        raise ValueError(f"--by: splits one file into groups, but {len(files)} files are named; name one")
    return dict(read_groups(files[0], by, reading, reward, attributes))


def _chosen_group(groups: Mapping[Hashable, ChainOrData], text: str | None) -> Hashable:
    labels = {str(label): label for label in groups}
    if text is not None and text not in labels:
        raise ValueError(f"--group: there is no group {text!r}; the groups are {', '.join(list(labels)[:12])}")
    # Groups by time are in order, so the last one is the present.
    return labels[text] if text is not None else list(groups)[-1]


def _short_names(processes: Iterable[NamedProcess]) -> dict[Hashable, Any]:
    """Processes by the shortest unique ends of their file names."""
    read = list(processes)
    names = [Path(p.name) for p in read]
    # Files of equal full paths end the loop without a result.
    for depth in range(1, 20):
        short = ["/".join(name.parts[-depth:]) for name in names]
        if len(set(short)) == len(short):
            return {name: p.process for name, p in zip(short, read, strict=True)}
    twice = next(str(name) for name in names if names.count(name) > 1)
    raise ValueError(f"{twice}: named twice; every process is compared with itself anyway")


def _with_text_labels(processes: dict[Hashable, ChainOrData]) -> dict[Hashable, ChainOrData]:
    """Convert numeric labels to text if some files have numeric labels and others text."""
    from somcot.cli.inputs import as_text

    # Not `isinstance`, for which True and False are integers.
    numbered = {name: all(type(s) is int for s in p.states) for name, p in processes.items()}
    if len(set(numbered.values())) == 1:
        return processes
    return {name: as_text(p) if numbered[name] else p for name, p in processes.items()}


def _announce(plan: JobPlan, workers: int, *, yes: bool) -> None:
    """Report the forecast of a long computation; on a terminal, ask before a very long one."""
    from somcot.cli.inputs import confirm, duration
    from somcot.many.plan import forecast

    seconds = forecast(plan, workers or None)
    if seconds > _WORTH_SAYING:
        n, m = plan.shape
        # Only one triangle of a symmetric matrix is computed.
        pairs = n * (n - 1) // 2 if plan.options.symmetric else n * m
        sys.stderr.write(f"{pairs:,} pairs of processes: about {duration(seconds)}\n")
        sys.stderr.flush()
    if seconds > _LONG and not yes:
        confirm("--checkpoint FILE saves finished pairs, --yes skips this question")


def _compute(plan: JobPlan, checkpoint: Path | None, workers: int) -> DistanceMatrix:
    from somcot.many.matrix import compute, local_client

    client = local_client(workers) if workers else None
    try:
        return compute(plan, client=client, checkpoint=checkpoint, progress=sys.stderr.isatty())
    finally:
        # Worker processes would outlive an exception.
        if client is not None:
            client.close()
            client.cluster.close()


def _as_json(distances: DistanceMatrix) -> dict[str, object]:
    return {
        "labels": list(distances.labels), "symmetric": distances.symmetric, "interrupted": distances.interrupted,
        **{name: _numbers(getattr(distances, name)) for name in _TABLES},
        "pvalues": _numbers(distances.pvalues), "adjusted_pvalues": _numbers(distances.adjusted),
        "failed": [
            {"x": distances.labels[i], "y": distances.other_labels[j], "reason": text}
            for i, j, text in distances.reasons
        ],
    }  # fmt: skip


def _numbers(table: Floats) -> list[list[float | None]]:
    # JSON has no NaN.
    return [[None if np.isnan(v) else float(v) for v in row] for row in table]


def _write(
    path: Path, distances: DistanceMatrix, content: dict[str, object], notes: Sequence[str], command: str
) -> None:
    from somcot.cli.inputs import csv_label, full_label
    from somcot.cli.output import plain
    from somcot.plumbing.files import write_bytes
    from somcot.report.many_facts import write_matrix

    if path.suffix == ".html":
        write_matrix(path, distances, notes=notes, command=command, unit=str(content["cost"]))
    elif path.suffix == ".json":
        write_bytes(path, json_text.dumps(plain(content | {"files": [str(path)]}), allow_nan=False).encode())
    else:
        shown, encoded = (csv_label, _csv) if path.suffix == ".csv" else (full_label, _parquet)
        write_bytes(path, encoded([row | {"x": shown(row["x"]), "y": shown(row["y"])} for row in distances.rows()]))


def _csv(rows: list[dict[str, Any]]) -> bytes:
    import csv

    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(rows[0]))
    writer.writeheader()
    # `repr` keeps all digits of a number; missing values are empty fields.
    writer.writerows(
        {k: "" if v is None else repr(v) if isinstance(v, float) else v for k, v in row.items()} for row in rows
    )
    return text.getvalue().encode("utf-8", errors="replace")


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    # Given types, because a column without any value would have the type null.
    kinds = {"x": pa.string(), "y": pa.string(), "status": pa.string()}
    columns = {name: pa.array([row[name] for row in rows], kinds.get(name, pa.float64())) for name in rows[0]}
    sink = io.BytesIO()
    parquet.write_table(pa.table(columns).replace_schema_metadata({"written by": "somcot"}), sink)
    return sink.getvalue()


# --- Drift

_CAUSES = 5


def drift(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Table over time, or - for standard input.")],
    *,
    by: Annotated[
        str,
        typer.Option(
            metavar="COLUMN|PERIOD",
            help="day, week, month, quarter, year, weekday or hour of the --time column, or a column of labels.",
        ),
    ],
    discount: SuggestedDiscount = None,
    grouping: StrataOptions,
    cost: Cost = "labels",
    reference: Annotated[
        str | None,
        typer.Option(metavar="PERIOD", help="Period to compare all others with; the first not small by default."),
    ] = None,
    confidence: Annotated[float, typer.Option(metavar="LEVEL", help="Level of each interval.")] = 0.9,
    level: Annotated[
        float, typer.Option(metavar="LEVEL", help="Adjusted p-values up to this level count as a change.")
    ] = 0.05,
    permutations: Annotated[
        int | None,
        typer.Option(min=1, max=10_000_000, metavar="N", help="Maximal number of permutations of each test."),
    ] = None,
    alarm: Annotated[bool, typer.Option("--alarm", help="Exit code 3 if anything changed.")] = False,
    seed: Seed = 0,
    output: OutputOptions,
    reading: Reading,
) -> int:
    """Test whether a process has changed over time, period by period."""
    from somcot.cli.cost_and_cells import reward_column, shared_cost
    from somcot.cli.inputs import NamedProcess, read_groups, suggested_discount
    from somcot.cli.output import caught, command_line, console, deliver, for_terminal, print_json
    from somcot.cli.screens import show_drift, show_written
    from somcot.plumbing.notes import codes

    for name, value in (("--confidence", confidence), ("--level", level)):
        if not 0.0 < value < 1.0:
            raise ValueError(f"{name}: found {value:g}, expected a number strictly between 0 and 1")
    output.check(file, cost)
    with caught() as messages:
        periods = read_groups(file, by, reading, reward_column(cost), grouping.columns)
        if discount is None:
            discount = suggested_discount([NamedProcess(str(label), samples) for label, samples in periods.items()])
        outcome = somcot.drift(
            periods, shared_cost(cost, periods), discount=discount, reference=_reference(reference, periods),
            confidence=confidence, level=level, n_permutations=permutations, rng=seed, progress=sys.stderr.isatty(),
            **grouping.arguments(),
        )  # fmt: skip
    # Every period has the states of all periods, so unvisited states are expected.
    notes = [note for note in messages if codes([note]) != ["never-seen"]]
    outcome = replace(outcome, notes=tuple(for_terminal(outcome.notes)))
    every_note = [*outcome.notes, *notes]

    def show() -> None:
        if output.json:
            files = [str(path) for path in (output.html, output.plot) if path]
            print_json(_drift_json(outcome, by, cost, seed, every_note) | {"files": files})
        else:
            show_drift(console(), outcome, every_note)

    def write() -> None:
        if output.html is not None:
            outcome.report(output.html, notes=notes, command=command_line(), unit=cost, source=Path(file).name)
        if output.plot is not None:
            # Wider for many periods, so that their labels do not overlap.
            draw(outcome.plot, output.plot, max(6.0, 0.32 * len(outcome.periods)))

    deliver(show, write)
    if not output.json:
        show_written(console(), (output.html, output.plot))
    return ALARM if alarm and outcome.alarm else 0


def _reference(text: str | None, periods: Mapping[Hashable, Samples]) -> Hashable | None:
    """The label of a period from its text; labels may be numbers or dates."""
    if text is None:
        return None
    for label in periods:
        if str(label) == text:
            return label
    known = ", ".join(str(label) for label in list(periods)[:12])
    raise ValueError(f"--reference: there is no period {text!r}; the periods are {known}")


def draw(plot: Callable[..., object], path: Path, width: float = 6.0, height: float = 4.2) -> None:
    """Write a plot, drawn by a function of the axes."""
    import matplotlib.pyplot as plt

    from somcot.cli.output import save_figure

    picture, ax = plt.subplots(figsize=(width, height), layout="constrained")
    plot(ax=ax)
    save_figure(picture, path, dpi=150)


def _drift_json(outcome: Drift, by: str, cost: str, seed: int, notes: Sequence[str]) -> dict[str, object]:
    top = outcome.largest
    shares = [] if outcome.result.makeup is None else outcome.result.contributions(_CAUSES).transitions
    counted = zip(outcome.periods, outcome.transitions, strict=True)
    return {
        "somcot": somcot.__version__, "command": "drift", "meaning": outcome.sentence(), "alarm": outcome.alarm,
        "by": by, "reference": outcome.reference, "cost": cost, "discount": outcome.discount,
        "confidence": outcome.confidence, "level": outcome.level, "seed": seed,
        "periods": [{"period": p, "transitions": n} for p, n in counted],
        "left_out": [{"period": p, "transitions": n} for p, n in outcome.left_out.items()],
        "changes": list(outcome.rows()),
        "largest": {"period": top.period, "against": top.against, "transitions": [s._asdict() for s in shares]},
        "warnings": list(notes), "seconds": outcome.seconds,
    }  # fmt: skip
