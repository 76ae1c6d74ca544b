"""The command line: parses, calls, prints. What commands do is in `somcot.cli`, loaded when one runs."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from somcot import __version__
from somcot.cli import signals
from somcot.cli.help import WIDEST, Commands, Grouped
from somcot.cli.options import (
    CellNumber,
    Cost,
    FileA,
    FileB,
    Horizon,
    Json,
    Method,
    Rate,
    Scale,
    Seed,
    Shell,
    StartAtOnce,
    SuggestedBelowOne,
    SuggestedDiscount,
    Total,
    Yes,
    reads_files,
)
from somcot.plumbing.errors import NotSolvedError
from somcot.plumbing.text import label_text

__all__ = ["app", "main"]

TRYING, SETTING_UP = "Trying it out", "Setting up"  # groups in the list of commands
OK, FAILED, BAD_INPUT, NOT_CONVERGED, TOO_LARGE, CLOSED_PIPE = 0, 1, 2, 4, 5, 141

_NO_CELLS = (
    "--cells: only somcot distance, somcot test and somcot matrix compare vectors of numbers; elsewhere cut "
    "them into bins (--bins), or in Python into shared cells: somcot.discretise(*recordings)"
)

app = typer.Typer(
    name="somcot", pretty_exceptions_enable=False, rich_markup_mode=None, cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST},
)  # fmt: skip


def main() -> None:
    """Run the ``somcot`` command on the arguments of this process."""
    debug = "--debug" in sys.argv
    arguments = [a for a in sys.argv[1:] if a != "--debug"] or ["--help"]
    try:
        found = app(args=arguments, standalone_mode=False, prog_name="somcot")
        sys.stdout.flush()
        code = found if isinstance(found, int) else OK
        if code == signals.INTERRUPTED:
            code = _say(*signals.interruption())
    except BaseException as error:
        if debug and not isinstance(error, SystemExit):
            raise
        code = _explain(error)
    raise SystemExit(code)


def _explain(error: BaseException) -> int:
    """One line on standard error, and the exit code."""
    causes = _causes(error)
    if any(isinstance(cause, KeyboardInterrupt) for cause in causes):  # compiled code may turn it into something else
        return _say(*signals.interruption())
    if any(isinstance(cause, BrokenPipeError) and cause.filename is None for cause in causes):
        # Whoever reads our output has seen enough, as `head` has after ten lines: no reason to speak.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else FAILED
    if isinstance(error, MemoryError):
        return _say(f"error: {error or 'out of memory; use fewer states or a larger machine'}", TOO_LARGE)
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):
        if "No such option: --cells" in error.format_message():
            return _say(f"error: {_NO_CELLS}", BAD_INPUT)
        where = getattr(getattr(error, "ctx", None), "command_path", "somcot")
        return _say(f"error: {_with_value(' '.join(error.format_message().split()))}; see {where} --help", BAD_INPUT)
    if type(error).__name__ == "Abort":  # how typer takes an EOFError
        return _say("error: the data end too soon; copy or write the file again", BAD_INPUT)
    if isinstance(error, OSError) and error.filename is not None:
        remedy = "" if ";" in str(error.strerror) else "; check the name and the permissions"
        return _say(f"error: {error.filename}: {error.strerror}{remedy}", BAD_INPUT)
    if isinstance(error, (ValueError, TypeError, ImportError, OSError)):
        from somcot.cli.output import as_option

        return _say(f"error: {as_option(str(error))}", BAD_INPUT)
    if isinstance(error, NotSolvedError):
        return _say(f"error: {error}", NOT_CONVERGED)
    return _say(f"error: {type(error).__name__}: {error}; this is a defect of somcot, --debug shows where", FAILED)


def _causes(error: BaseException) -> list[BaseException]:
    """The error, and those it came from."""
    found: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in found:
        found.append(cause)
        cause = cause.__cause__ or cause.__context__
    return found


def _with_value(text: str) -> str:
    """Add what was found to a complaint about an option that leaves it out."""
    text = text.replace("Value error, ", "")
    option = re.match(r"Invalid value for '(--[a-z]+)'", text)
    places = [i for i, a in enumerate(sys.argv[:-1]) if option and a == option[1]]
    value = repr(sys.argv[places[-1] + 1]) if places else ""
    return text.rstrip(".") if value in text else f"{text.rstrip('.')} (found {value})"


def _say(text: str, code: int) -> int:
    print(label_text(" ".join(text.split()), 600), file=sys.stderr)
    return code


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", hidden=True)] = False,
) -> None:
    """How far apart are two Markov processes?"""


@app.command(cls=Grouped)
@reads_files
def distance(
    a: FileA,
    b: FileB,
    reading: Any,
    discount: SuggestedDiscount = None,
    horizon: Horizon = None,
    rate: Rate = None,
    total: Total = False,
    cost: Cost = "labels",
    method: Method = "auto",
    confidence: Annotated[float, typer.Option(metavar="LEVEL", help="Level of the interval.")] = 0.9,
    standard_error: Annotated[
        str, typer.Option(metavar="rows|episodes", help="From counts, or from whole episodes where memory is longer.")
    ] = "rows",
    cells: CellNumber = None,
    scale: Scale = None,
    seed: Seed = 0,
    json: Json = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a report, one HTML file.")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a figure: PNG, SVG or PDF.")] = None,
    yes: Yes = False,
) -> int:
    """How far apart two processes are, and who corresponds to whom."""
    from somcot.cli import distance as run

    return run.distance(
        a, b, reading, clock=run.ClockOptions(discount, horizon, rate, total), cost=cost, method=method,
        confidence=confidence, standard_error=standard_error, seed=seed, as_json=json, html=html, plot=plot, yes=yes,
        vectors=run.VectorOptions(cells, scale), command=shlex.join(["somcot", *sys.argv[1:]]),
    )  # fmt: skip


@app.command("test", cls=Grouped)
@reads_files
def same_process(
    a: FileA,
    b: FileB,
    reading: Any,
    discount: SuggestedBelowOne = None,
    cost: Cost = "labels",
    permutations: Annotated[
        int, typer.Option(min=1, max=10_000_000, metavar="N", help="Random regroupings to compare with.")
    ] = 199,
    cells: CellNumber = None,
    scale: Scale = None,
    seed: Seed = 0,
    json: Json = False,
) -> int:
    """Were two recordings made of the same process?"""
    from somcot.cli import distance as run

    return run.test(
        a, b, reading, cost=cost, discount=discount, permutations=permutations, seed=seed, as_json=json,
        vectors=run.VectorOptions(cells, scale),
    )  # fmt: skip


@app.command(cls=Grouped)
@reads_files
def metric(
    a: FileA,
    b: FileB,
    reading: Any,
    discount: SuggestedDiscount = None,
    horizon: Horizon = None,
    rate: Rate = None,
    total: Total = False,
    cost: Cost = "labels",
    json: Json = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the whole matrix: CSV with labels, or NPY.")
    ] = None,
    yes: Yes = False,
) -> int:
    """Distance from every pair of states."""
    from somcot.cli import distance as run

    asked = run.ClockOptions(discount, horizon, rate, total)
    return run.metric(a, b, reading, cost=cost, clock=asked, as_json=json, out=out, yes=yes)


@app.command(cls=Grouped)
@reads_files
def matrix(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Files with a process each, or one with --by.")],
    reading: Any,
    discount: SuggestedBelowOne = None,
    by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column that parts one table into processes: country, week.")
    ] = None,
    cells: CellNumber = None,
    scale: Scale = None,
    cost: Cost = "labels",
    method: Method = "auto",
    confidence: Annotated[float, typer.Option(metavar="LEVEL", help="Level of the intervals.")] = 0.9,
    simultaneous: Annotated[
        bool, typer.Option("--simultaneous", help="Let all intervals hold together at that level.")
    ] = False,
    tests: Annotated[
        str | None, typer.Option(metavar="bh|by", help="Corrected p-values of 'the same process' for every pair.")
    ] = None,
    out: Annotated[
        list[Path] | None,
        typer.Option("--out", "-o", metavar="FILE", help="Write .csv, .parquet, .json or .html; may be repeated."),
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep finished pairs there; the same command goes on.")
    ] = None,
    workers: Annotated[
        int, typer.Option(min=0, metavar="N", help="Processes to spread the work over (needs dask).")
    ] = 0,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 if any pair fails.")] = False,
    yes: StartAtOnce = False,
    seed: Seed = 0,
    json: Json = False,
) -> int:
    """Distances between many processes."""
    from somcot.cli import matrix as many

    return many.matrix(
        files, reading, many.MatrixOptions(cost, discount, confidence, simultaneous, tests, method, seed), by=by,
        vectors=many.VectorOptions(cells, scale), checkpoint=checkpoint, workers=workers, out=out or [], strict=strict,
        as_json=json, command=shlex.join(["somcot", *sys.argv[1:]]), yes=yes,
    )  # fmt: skip


@app.command(cls=Grouped)
@reads_files
def select(
    data: Annotated[str, typer.Argument(metavar="DATA", help="File with the recorded data.")],
    candidates: Annotated[list[str], typer.Argument(metavar="CANDIDATE", help="Files, known or recorded.")],
    reading: Any,
    discount: SuggestedBelowOne = None,
    cost: Cost = "labels",
    confidence: Annotated[float, typer.Option(metavar="LEVEL", help="Level of the intervals and of the set.")] = 0.9,
    yes: StartAtOnce = False,
    seed: Seed = 0,
    json: Json = False,
) -> int:
    """Which candidate explains the data, and which others may."""
    from somcot.cli import matrix as many

    return many.select(
        data, candidates, reading, cost=cost, discount=discount, confidence=confidence, seed=seed, as_json=json, yes=yes
    )


@app.command(cls=Grouped)
@reads_files
def drift(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Table over time, or - for standard input.")],
    reading: Any,
    by: Annotated[
        str, typer.Option(metavar="day|week|month|COLUMN", help="Periods: of the times in --time, or a column.")
    ],
    discount: SuggestedDiscount = None,
    cost: Cost = "labels",
    reference: Annotated[
        str | None, typer.Option(metavar="PERIOD", help="What to hold all others against; the first by default.")
    ] = None,
    confidence: Annotated[float, typer.Option(metavar="LEVEL", help="Level of each interval.")] = 0.9,
    level: Annotated[
        float, typer.Option(metavar="LEVEL", help="Corrected p-values up to this count as a change.")
    ] = 0.05,
    permutations: Annotated[
        int | None, typer.Option(min=1, max=10_000_000, metavar="N", help="Random regroupings for each test at most.")
    ] = None,
    alarm: Annotated[bool, typer.Option("--alarm", help="Exit code 3 if anything changed.")] = False,
    seed: Seed = 0,
    json: Json = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a report, one HTML file.")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a figure: PNG, SVG or PDF.")] = None,
) -> int:
    """Has a process changed over time? Period against period."""
    from somcot.cli import drift as drifting

    return drifting.run(
        file, reading, drifting.DriftOptions(by, reference, cost, discount, confidence, level, permutations, seed),
        html=html,
        plot=plot, alarm=alarm, as_json=json, command=shlex.join(["somcot", *sys.argv[1:]]),
    )  # fmt: skip


@app.command(cls=Grouped)
@reads_files
def watch(
    reading: Any,
    reference: Annotated[str, typer.Option(metavar="FILE", help="What the process should be: a recording or a chain.")],
    stream: Annotated[
        str, typer.Argument(metavar="FILE", help="CSV file with events; standard input by default.")
    ] = "-",
    discount: SuggestedDiscount = None,
    cost: Cost = "labels",
    one_false_alarm_per: Annotated[
        float | None, typer.Option(metavar="N", help="Events per false alarm on average, at least; 1e6 by default.")
    ] = None,
    false_alarm: Annotated[
        float | None, typer.Option(metavar="P", help="Instead: probability of a false alarm ever, or --within.")
    ] = None,
    within: Annotated[int | None, typer.Option(metavar="N", help="Events for which --false-alarm holds.")] = None,
    min_distance: Annotated[float, typer.Option(metavar="D", help="Stay quiet about changes that are smaller.")] = 0.0,
    window: Annotated[int, typer.Option(min=1, metavar="N", help="Events that a distance is computed from.")] = 20_000,
    starts: Annotated[bool, typer.Option(help="Whether first states of sequences count.")] = True,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for the file to grow.")] = False,
    broken: Annotated[
        str, typer.Option(metavar="stop|skip", help="What to do with lines that cannot be read.")
    ] = "stop",
    state_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the state there; the same command goes on.")
    ] = None,
    save_every: Annotated[
        float, typer.Option(min=0.0, metavar="SECONDS", help="How often --state-file is written.")
    ] = 5.0,
    exit_on_alarm: Annotated[
        bool, typer.Option("--exit-on-alarm", help="Leave at an alarm, with exit code 3.")
    ] = False,
    on_alarm: Annotated[
        str | None, typer.Option(metavar="CMD", help="Run this at an alarm, which comes as JSON on its input.")
    ] = None,
    every: Annotated[int, typer.Option(min=1, metavar="N", help="Events between two lines of --json.")] = 1_000_000,
    json: Annotated[bool, typer.Option("--json", help="Print lines of JSON instead.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep a status page there, one HTML file.")] = None,
) -> int:
    """Watch a stream: has the process changed, and by how much?"""
    from somcot.cli import watch as watching

    return watching.watch(
        stream, reading, watching.WatchOptions(
            reference, cost, discount, one_false_alarm_per, false_alarm, within, min_distance, window, starts, follow,
            every, broken, state_file, exit_on_alarm, on_alarm, html, json, save_every,
        ),
    )  # fmt: skip


@app.command(cls=Grouped)
@reads_files
def info(
    file: Annotated[str, typer.Argument(metavar="FILE", help="File to look into, or - for standard input.")],
    reading: Any,
    json: Json = False,
) -> int:
    """What a file holds, and what a distance would take."""
    from somcot.cli import distance as run

    return run.info(file, reading, as_json=json)


@app.command(cls=Grouped, rich_help_panel=TRYING)
def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for report and figure.")] = Path("out"),
) -> int:
    """The bundled example, start to finish."""
    from somcot.cli import demo as demonstration
    from somcot.cli.distance import console

    return demonstration.run(out, console())


@app.command("warm-up", cls=Grouped, rich_help_panel=SETTING_UP)
def warm_up() -> int:
    """Compile everything now, so that later answers need not wait."""
    from somcot.cli import warm_up as warming
    from somcot.cli.distance import console

    return warming.run(console())


@app.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    add_help_option=False,
    rich_help_panel=TRYING,
)
def reproduce(context: typer.Context) -> int:
    """Make the figures of the paper again."""
    from somcot.paper.command import register

    settings = {"help_option_names": ["-h", "--help"], "max_content_width": WIDEST}
    inner = typer.Typer(
        pretty_exceptions_enable=False, rich_markup_mode=None, add_completion=False, context_settings=settings
    )
    register(inner, Grouped)
    found = inner(args=context.args, standalone_mode=False, prog_name="somcot reproduce")
    return found if isinstance(found, int) else OK


@app.command(cls=Grouped, rich_help_panel=SETTING_UP)
def completion(shell: Annotated[Shell, typer.Argument(help="Which shell.")]) -> int:
    """Print a completion script for bash, zsh or fish."""
    from typer._completion_shared import get_completion_script

    print(get_completion_script(prog_name="somcot", complete_var="_SOMCOT_COMPLETE", shell=str(shell)))
    return OK
