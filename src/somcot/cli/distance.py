"""`somcot distance`, `metric` and `info`: read, compute, show. Each returns the exit code.

Slow modules are imported inside the functions, because `somcot --help` imports this module too.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import somcot
from somcot.cli import signals
from somcot.cli.options import (
    NOT_CONVERGED,
    By,
    ClockOptions,
    Cost,
    FileA,
    FileB,
    FileOrGroup,
    Force,
    Groups,
    Json,
    Method,
    OutputOptions,
    Reading,
    Seed,
    StrataOptions,
    VectorOptions,
    Yes,
    spelled,
)
from somcot.plumbing.text import label_text

__all__ = ["distance", "info", "metric"]

_FORECAST = ("auto", "exact", "plugin")  # methods whose time and memory are known beforehand


def distance(
    a: FileA,
    b: FileOrGroup = None,
    *,
    by: By = None,
    groups: Groups = None,
    clock: ClockOptions,
    cost: Cost = "labels",
    method: Method = "auto",
    confidence: Annotated[float, typer.Option(metavar="LEVEL", help="Level of the interval.")] = 0.9,
    units: Annotated[
        str,
        typer.Option(metavar="auto|sequences|blocks|transitions", help="What is permuted and halved for the interval."),
    ] = "auto",
    standard_error: Annotated[
        str | None, typer.Option(metavar="rows|episodes", help="Deprecated; use --units transitions or sequences.")
    ] = None,
    vectors: VectorOptions,
    grouping: StrataOptions,
    seed: Seed = 0,
    output: OutputOptions,
    yes: Yes = False,
    reading: Reading,
) -> int:
    """Compute the distance between two processes, and which states correspond."""
    import numpy as np

    from somcot.cli import screens
    from somcot.cli.cost_and_cells import in_cells, read_pair
    from somcot.cli.inputs import confirm_pair
    from somcot.cli.output import ShownResult, caught, command_line, console, deliver, print_json, to_json, write_files
    from somcot.result import Status

    # Options first: a mistake in them must not wait until a large file has been read.
    clock.check()
    options = _checked_options(confidence, units, standard_error, method, vectors, grouping)
    # A report that cannot be written is an error now, not after a long computation.
    output.check(a, *([b] if b else []), cost)
    # Notes of reading and of computing are collected and shown with the result.
    with caught() as messages:
        pair = read_pair(a, b, reading, cost, vectors, by, groups, grouping.columns)
        grouping.check(pair.x, pair.y)
        settled = clock.settled(pair.x, pair.y)
        more: dict[str, Any] = {"confidence": confidence} | pair.arguments
        if not vectors.wanted:
            # Other methods iterate until they converge, so their time is not known beforehand.
            if method in _FORECAST:
                confirm_pair(pair.x, pair.y, yes=yes)
            # Only the estimate has an interval; other methods would warn about a level that is merely the default.
            sampled = not all(
                isinstance(side.process, somcot.MarkovChain | somcot.ContinuousChain) for side in (pair.x, pair.y)
            )
            level = confidence if method == "auto" and sampled else None
            more = {"confidence": level, "progress": sys.stderr.isatty()}
            more |= options
        result = somcot.distance(
            pair.x.process, pair.y.process, pair.cost, **settled.arguments(), method=method, rng=seed, **more
        )
        # Cells are fitted by the computation, so they get their names afterwards.
        if vectors.wanted:
            result, pair = in_cells(result, pair)
    answer = ShownResult(
        result, pair.x, pair.y, np.asarray(pair.cost), pair.cost_name, seed, messages, command_line(),
        # One column provides a noun for the sentences, such as "page"; several do not.
        state_name=label_text(reading.state[0]) if reading.state is not None and len(reading.state) == 1 else None,
    )  # fmt: skip

    def show() -> None:
        if output.json:
            planned = {"report": output.html, "figure": output.plot}
            files = {what: str(path) for what, path in planned.items() if path is not None}
            print_json(to_json(answer) | {"files": files})
        else:
            screens.show_distance(console(), answer)

    deliver(show, partial(write_files, answer, output.html, output.plot))
    # Again after `deliver`, because the paths are known only once the files exist.
    if not output.json:
        screens.show_files(console(), answer)
    # Partial results are shown; the exit code is for scripts.
    if result.status is Status.INTERRUPTED:
        return signals.INTERRUPTED
    # Methods that draw a given number of steps finish without converging, which is not a failure.
    return 0 if result.status in (Status.CONVERGED, Status.FINISHED) else NOT_CONVERGED


def _checked_options(
    confidence: float, units: str, standard_error: str | None, method: str, vectors: VectorOptions,
    grouping: StrataOptions,
) -> dict[str, Any]:  # fmt: skip
    """Arguments for the estimate; options that do not go together are refused."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"--confidence: found {confidence:g}, expected a number strictly between 0 and 1, such as 0.9")
    options: dict[str, Any] = _interval_options(units, standard_error, method) | grouping.arguments(vectors.wanted)
    if grouping.columns and method != "auto":
        raise ValueError(f"{grouping.flag}: only the estimate (--method auto) uses strata, not {method}; leave it out")
    vectors.check()
    if vectors.wanted and options:
        raise ValueError(f"{spelled(*options)}: not together with --cells, which has its own interval; leave it out")
    return options


def _interval_options(units: str, standard_error: str | None, method: str) -> dict[str, str]:
    """Options of the estimate that were given, checked."""
    # Only options that differ from their defaults: all others are valid with every method.
    given = {"units": units} if units != "auto" else {}
    if standard_error is not None:
        given["standard_error"] = standard_error
    allowed = {"units": ("auto", "sequences", "blocks", "transitions"), "standard_error": ("rows", "episodes")}
    for name, value in given.items():
        if value not in allowed[name]:
            raise ValueError(f"{spelled(name)}: found {value!r}, expected {', '.join(allowed[name])}")
        if method != "auto":
            raise ValueError(f"{spelled(name)}: only the estimate (--method auto) has an interval, not {method}")
    return given


def metric(
    a: FileA,
    b: FileB,
    *,
    clock: ClockOptions,
    cost: Cost = "labels",
    json: Json = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the full matrix: CSV with labels, or NPY.")
    ] = None,
    force: Force = False,
    yes: Yes = False,
    reading: Reading,
) -> int:
    """Compute the distance from every pair of initial states."""
    from somcot.cli import screens
    from somcot.cli.cost_and_cells import read_pair
    from somcot.cli.inputs import confirm_pair
    from somcot.cli.output import (
        caught,
        chain_of,
        check_targets,
        console,
        deliver,
        notes_of,
        one_sided,
        print_json,
        process_facts,
        save_matrix,
    )

    clock.check()
    if out is not None and out.suffix.lower() not in (".csv", ".npy"):
        raise ValueError(f"--out: found {str(out)!r}, expected a file ending in .csv or .npy")
    check_targets({"--out": out}, (a, b, cost), force=force)
    with caught() as messages:
        x, y, table, _, _ = read_pair(a, b, reading, cost, VectorOptions())
        settled = clock.settled(x, y).arguments()
        confirm_pair(x, y, yes=yes)
        # A chain in continuous time is compared by its rates; its uniformised chain serves the tables only.
        values = somcot.metric(x.rates or chain_of(x), y.rates or chain_of(y), table, **settled)
    notes = notes_of(messages, x, y)

    def show() -> None:
        if not json:
            screens.show_metric(console(), x, y, values, notes)
            return
        only_x, only_y = one_sided(x, y)
        print_json({
            "somcot": somcot.__version__, "command": "metric", "discount": settled["discount"], "cost": cost,
            "horizon": settled["horizon"], "rate": settled["rate"], "total": settled["total"],
            "states_x": x.value.states, "states_y": y.value.states, "metric": values,
            "x": process_facts(x), "y": process_facts(y), "only_x": only_x, "only_y": only_y,
            "warnings": notes,
            "files": {} if out is None else {"matrix": str(out)},
        })  # fmt: skip

    deliver(show, lambda: None if out is None else save_matrix(out, values, x, y))
    return 0


def info(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Files to describe, or - for standard input.")],
    *,
    json: Json = False,
    reading: Reading,
) -> int:
    """Describe files, and estimate the time and memory of a distance."""
    for file in files:
        _describe(file, reading, json=json)
    return 0


def _describe(file: str, reading: Reading, *, json: bool) -> None:
    from somcot.cli import screens
    from somcot.cli.inputs import estimate_size, read_processes
    from somcot.cli.output import caught, chain_of, console, print_json, process_facts
    from somcot.samples import Samples

    with caught() as messages:
        (process,) = read_processes([file], reading)
        chain = chain_of(process)
        value = process.value
        # The forecast is for a process of the same size.
        size = estimate_size(chain, chain, from_data=isinstance(value, Samples))
    if not json:
        screens.show_info(console(), process, size, messages)
        return
    recorded = value if isinstance(value, Samples) else None
    content = process_facts(process) | {
        "somcot": somcot.__version__,
        "command": "info",
        "states": value.states,
        "visits": [] if recorded is None else recorded.visits,
        "n_terminated": 0 if recorded is None or recorded.terminated is None else int(recorded.terminated.sum()),
        "rewards": None if recorded is None else recorded.features,
        "expected": size._asdict(),
        "warnings": messages,
    }
    print_json(content)
