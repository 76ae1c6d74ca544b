"""Options that several commands share, as types and as records in which each field is an option.

A command is one function whose parameters are its options. A parameter whose type is a record of options is replaced by
one option per field of the record (`somcot.cli.application`). The signature of a reader determines which reading
options its kind of file takes (`somcot.readers.formats`). Slow modules are not imported here, so that `somcot --help`
is fast.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from somcot.readers.formats import FORMATS, KINDS
from somcot.solvers import METHODS

if TYPE_CHECKING:
    from somcot.cli.inputs import NamedProcess

__all__ = [
    "ALARM", "NOT_CONVERGED", "By", "ClockOptions", "Cost", "FileA", "FileB", "FileOrGroup", "Force", "Groups",
    "Json", "Method", "OutputOptions", "Reading", "Seed", "StartAtOnce", "StrataOptions", "SuggestedBelowOne",
    "SuggestedDiscount", "VectorOptions", "Yes", "can_draw", "check_figure", "flag", "listed", "one_of", "spelled",
    "takers",
]  # fmt: skip

ALARM, NOT_CONVERGED = 3, 4  # exit codes of commands that printed a result


# --- Options with a fixed set of values.


def one_of(names: Iterable[str], text: str) -> Any:
    """A typer option that accepts one of the names; ``{}`` in its help is replaced by the list of names."""
    known = list(names)

    def checked(value: str | None) -> str | None:
        if value is not None and value not in known:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(map(repr, known))}")
        return value

    def completed(incomplete: str) -> list[str]:
        return [name for name in known if name.startswith(incomplete)]

    return typer.Option(metavar="NAME", callback=checked, autocompletion=completed, help=text.format(listed(known)))


def listed(names: Iterable[str]) -> str:
    """Names joined by commas and "or".

    Examples
    --------
    >>> listed(["csv", "tsv", "npy"])
    'csv, tsv or npy'
    """
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


# --- Reading options of all commands that read files, one field per option.

# Groups of the help, by the kind of file. They are listed here because importing the readers is slow.
TABLES, EVENTS, LOGS = "Reading tables", "Reading tables and event logs", "Reading event logs"
ARRAYS, GRAPHS, FILES, TRACES = "Reading arrays", "Reading graphs", "Reading files", "Reading traces of agents"


@dataclass(frozen=True)
class Reading:
    """How to read files; options that are not used are None or False."""

    sequence: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column that identifies the sequence: case, session, user.", rich_help_panel=EVENTS
        ),
    ] = None
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column that orders the rows of a sequence; 'file' keeps the order of the file.",
            rich_help_panel=EVENTS,
        ),
    ] = None
    state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Column with the state; repeat the option for several columns.",
            rich_help_panel=EVENTS,
        ),
    ] = None
    terminated: Annotated[
        str | None,
        typer.Option(
            metavar="all|COLUMN",
            help="Sequences that really ended, rather than being cut off: all, or a column that says which.",
            rich_help_panel=FILES,
        ),
    ] = None
    end: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL", help="Append a final state of this name to every sequence.", rich_help_panel=FILES
        ),
    ] = None
    gap: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Start a new sequence after a longer pause: 30m, 2h, 1d.", rich_help_panel=EVENTS
        ),
    ] = None
    bins: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=N", help="Bin a numeric state column.", rich_help_panel=TABLES),
    ] = None
    binning: Annotated[
        str | None,
        typer.Option(
            metavar="quantile|uniform",
            help="Bins of equal frequency (default) or of equal width.",
            rich_help_panel=TABLES,
        ),
    ] = None
    missing: Annotated[
        str | None,
        typer.Option(
            metavar="error|cut", help="Rows without a state: refuse (default), or split there.", rich_help_panel=EVENTS
        ),
    ] = None
    tidy: Annotated[
        bool,
        typer.Option("--tidy", help="Merge labels that differ only in case or spaces.", rich_help_panel=FILES),
    ] = False
    top: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Keep the N most frequent states, merge the others.", rich_help_panel=FILES
        ),
    ] = None
    other: Annotated[
        str | None,
        typer.Option(metavar="LABEL", help="Name of the merged state; 'other' by default.", rich_help_panel=FILES),
    ] = None
    classifier: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Classifier of an event log that defines the state.", rich_help_panel=LOGS),
    ] = None
    lifecycle: Annotated[
        str | None,
        typer.Option(metavar="NAME|all", help="Events of a log to keep; 'complete' by default.", rich_help_panel=LOGS),
    ] = None
    lag: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Frames per step of integer trajectories.", rich_help_panel=ARRAYS),
    ] = None
    sliding: Annotated[
        bool, typer.Option("--sliding", help="Count a step from every frame (sliding window).", rich_help_panel=ARRAYS)
    ] = False
    connected: Annotated[
        bool,
        typer.Option("--connected", help="Keep the largest strongly connected set of states.", rich_help_panel=ARRAYS),
    ] = False
    directed: Annotated[
        bool, typer.Option("--directed", help="Treat the edges of an edge list as directed.", rich_help_panel=GRAPHS)
    ] = False
    weight: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Edge attribute with weights (GraphML); 'weight' by default.", rich_help_panel=GRAPHS
        ),
    ] = None
    dangling: Annotated[
        str | None,
        typer.Option(
            metavar="self-loop|restart|error",
            help="Walks at nodes without outgoing edges; self-loop by default.",
            rich_help_panel=GRAPHS,
        ),
    ] = None
    initial: Annotated[
        str | None,
        typer.Option(
            "--start",
            metavar="STATE",
            help="Initial state, or 'stationary' for the stationary distribution.",
            rich_help_panel=FILES,
        ),
    ] = None
    format: Annotated[str | None, one_of(FORMATS, "Format of files without a known ending: {}.")] = None
    encoding: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Encoding of text files; utf-8 by default.", rich_help_panel=TABLES),
    ] = None
    delimiter: Annotated[
        str | None,
        typer.Option(metavar="SIGN", help="Separator of CSV files; detected by default.", rich_help_panel=TABLES),
    ] = None
    time_format: Annotated[
        str | None,
        typer.Option(
            metavar="FORM",
            help="Notation of times, if it is not recognised: '%d/%m/%Y %H:%M', day-first, month-first, s, ms, us, ns.",
            rich_help_panel=TABLES,
        ),
    ] = None
    table: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Table of a database, or sheet of a spreadsheet.", rich_help_panel=TABLES),
    ] = None
    query: Annotated[
        str | None,
        typer.Option(metavar="SELECT", help="Query of a database, run read-only.", rich_help_panel=TABLES),
    ] = None
    wide: Annotated[
        str | None,
        typer.Option(
            metavar="FIRST:LAST",
            help="A row is a sequence, and these columns are its states in order.",
            rich_help_panel=TABLES,
        ),
    ] = None
    state_rules: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|NAME",
            help="How tool calls become states: a TOML file of rules, or shell (default), coding or names.",
            rich_help_panel=TRACES,
        ),
    ] = None

    def chosen(self) -> dict[str, Any]:
        """The options in use, except `format`."""
        everything = {row.name: getattr(self, row.name) for row in fields(self) if row.name != "format"}
        for name, value in everything.items():
            if value == "" or (isinstance(value, list) and "" in value):
                raise ValueError(f"{flag(name)}: found an empty text; pass a value, or leave the option out")
        return {name: value for name, value in everything.items() if value}

    def for_kind(self, kind: str) -> dict[str, Any]:
        """The options that apply to one kind of file, as arguments of its reader."""
        options = {name: value for name, value in self.chosen().items() if name in KINDS[kind].options()}
        if "initial" in options:
            text = options["initial"]
            options["initial"] = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else text
        if "terminated" in options:
            options["terminated"] = options["terminated"] == "all" or options["terminated"]
        return options


def flag(name: str) -> str:
    """The command-line flag of a reading option.

    Examples
    --------
    >>> flag("lag"), flag("initial")
    ('--lag', '--start')
    """
    (option,) = get_type_hints(Reading, include_extras=True)[name].__metadata__
    # Inside Annotated, typer takes the first argument of Option for the flag and stores it as the default.
    return option.default if isinstance(option.default, str) else f"--{name.replace('_', '-')}"


# Arguments of the library whose flag has another name.
_FLAGS = {"gaps": "--missing", "n_cells": "--cells", "standard_error": "--standard-error"}
_ARGUMENTS = {"by", "confidence", "units", "discount", "horizon", "method", "rate", "scale", "total", "workers"}
_COMMANDS = {
    "somcot.distance": "somcot distance",
    "somcot.same_process": "somcot test",
    "readers.read_vectors": "somcot distance --cells auto",
}


def spelled(name: str, value: str = "") -> str:
    """The command-line spelling of an argument or a function of the library; see `somcot.plumbing.notes`.

    Examples
    --------
    >>> spelled("tidy", "True"), spelled("terminated", "True"), spelled("end", "'left'")
    ('--tidy', '--terminated all', '--end left')
    >>> spelled("bins", "{'size': 10}"), spelled("state", "['A', 'B']"), spelled("scale", "1.0")
    ('--bins size=10', '--state A --state B', '--scale 1')
    >>> spelled("somcot.same_process"), spelled("samples.with_order(2)"), spelled("initial", "...")
    ('somcot test', 'samples.with_order(2) in Python', '--start STATE')
    """
    if not name.isidentifier():
        return _COMMANDS.get(name, f"{name} in Python")
    if name in _FLAGS or name in _ARGUMENTS:
        option = _FLAGS.get(name, f"--{name}")
    elif name in (row.name for row in fields(Reading)):
        option = flag(name)
    else:
        return f"{name}={value} in Python" if value else f"{name} in Python"
    values = _typed(name, value)
    return " ".join(f"{option} {text}".rstrip() for text in values)


def _typed(name: str, value: str) -> list[str]:
    """The values to type, one per occurrence of the option; placeholders are kept."""
    try:
        literal = ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return [value]
    if literal is True or literal is ...:
        return [{("terminated", True): "all", ("initial", ...): "STATE"}.get((name, literal), "")]
    if isinstance(literal, dict):
        return [f"{key}={number}" for key, number in literal.items()]
    if isinstance(literal, list):
        return [str(item) for item in literal]
    return [f"{literal:g}" if isinstance(literal, float) else str(literal)]


def takers(name: str) -> list[str]:
    """The kinds of files that an option applies to.

    Examples
    --------
    >>> takers("gap")
    ['table', 'log']
    """
    return [kind.name for kind in KINDS.values() if name in kind.options()]


# --- Options of several commands.

FileA = Annotated[str, typer.Argument(metavar="A", help="File with the first process, or - for standard input.")]
FileB = Annotated[str, typer.Argument(metavar="B", help="File with the second process.")]
FileOrGroup = Annotated[
    str | None, typer.Argument(metavar="[B]", help="File with the second process; none if --by splits the first.")
]
By = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN|PERIOD",
        help="Split one file by a column, or by day, week, month, quarter, year, weekday or hour of --time.",
    ),
]
_TWO_GROUPS = "With --by: the two groups to compare; A,C B compares the values A and C together with B."
Groups = Annotated[tuple[str, str] | None, typer.Option(metavar="A B", help=_TWO_GROUPS)]
Cost = Annotated[
    str,
    typer.Option(
        metavar="COST",
        help="labels (0 for equal labels, 1 otherwise), reward:COLUMN, for graphs attribute:NAME, degree or "
        "neighbourhood[:ROUNDS], or a CSV or NPY file with a matrix.",
    ),
]
SuggestedDiscount = Annotated[
    float | None,
    typer.Option(
        metavar="G",
        help="Between 0 and 1; about 1 / (1 - G) steps matter; 1 means the long-run average. "
        "By default derived from the mean length of a sequence.",
    ),
]
SuggestedBelowOne = Annotated[
    float | None,
    typer.Option(
        metavar="G",
        help="Between 0 and 1; about 1 / (1 - G) steps matter. By default derived from the mean length of a sequence.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask before runs over 1 min or 4 GB.")]
StartAtOnce = Annotated[bool, typer.Option("--yes", help="Do not ask before runs over 5 min.")]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the random numbers.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a panel.")]
Force = Annotated[bool, typer.Option("--force", help="Replace output files that somcot did not write.")]

Method = Annotated[str, one_of(METHODS, "{}; auto chooses by the data.")]


# --- Groups of options.

_PICTURES = (".png", ".svg", ".pdf", ".jpg")


@dataclass(frozen=True)
class ClockOptions:
    """How time is weighted: at most one of these; without any, the data suggest a discount."""

    discount: SuggestedDiscount = None
    horizon: Annotated[
        int | None, typer.Option(metavar="T", help="Instead of a discount: the mean over the first T steps.")
    ] = None
    rate: Annotated[
        float | None,
        typer.Option(metavar="R", help="Instead of a discount: the discount rate, for chains in continuous time."),
    ] = None
    total: Annotated[
        bool, typer.Option("--total", help="Instead of a discount: the total cost until both processes terminate.")
    ] = False

    def arguments(self) -> dict[str, Any]:
        """All four, as arguments of the library."""
        return {row.name: getattr(self, row.name) for row in fields(self)}

    def check(self) -> None:
        """Check before reading that at most one clock is set, and that it is in range."""
        named = [f"--{name}" for name, value in self.arguments().items() if value is not None and value is not False]
        if len(named) > 1:
            raise ValueError(f"{' and '.join(named)}: only one clock can be used; choose one, see `--help`")
        if named:
            from somcot.clocks import Clock

            Clock.chosen(self.discount, self.horizon, self.rate, self.total)

    def settled(self, x: NamedProcess, y: NamedProcess) -> ClockOptions:
        """The options with a suggested discount if no clock is set."""
        from somcot.cli.inputs import suggested_discount

        chains = [p for p in (x, y) if p.rates is not None]
        if chains and self.rate is None:
            raise ValueError(f"{chains[0].name}: holds rates of a chain in continuous time; pass --rate R, say 0.1")
        if self.rate is not None and len(chains) < 2:
            stepping = x if x.rates is None else y
            raise ValueError(f"--rate: {stepping.name} is a process in discrete time; use --discount instead")
        return replace(self, discount=suggested_discount([x, y])) if self == ClockOptions() else self


@dataclass(frozen=True)
class VectorOptions:
    """``--cells``, ``--scale`` and ``--period``, for states that are numeric vectors; all None if states are labels."""

    cells: Annotated[
        str | None,
        typer.Option(
            "--cells",
            metavar="auto|N",
            help="Discretise states that are vectors: --state x,y --cells auto. --cost is euclidean or sqeuclidean.",
        ),
    ] = None
    scale: Annotated[
        str | None,
        typer.Option(
            metavar="std|NUMBER,...",
            help="With --cells: divisors of the coordinates; std, standard deviations, by default; 1 does not scale.",
        ),
    ] = None
    period: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=LENGTH", help="With --cells: a periodic coordinate and its period: heading=360."),
    ] = None

    @property
    def wanted(self) -> bool:
        """Whether states are vectors."""
        return self.cells is not None

    def check(self) -> None:
        """Refuse ``--scale`` and ``--period`` without ``--cells``."""
        for name, value in (("--scale", self.scale), ("--period", self.period)):
            if self.cells is None and value is not None:
                raise ValueError(f"{name}: only together with --cells, for states that are numbers; add --cells auto")


@dataclass(frozen=True)
class StrataOptions:
    """``--strata`` and ``--paired-by``: the columns with the task of each sequence."""

    strata: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Task, segment or the like of each sequence: compare within it, with the same mix on all sides; "
            "repeat the option to combine several columns.",
        ),
    ] = None
    paired_by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="Task of each sequence, if the same tasks were run on all sides; may be repeated."
        ),
    ] = None

    @property
    def columns(self) -> list[str]:
        """The columns that readers have to keep."""
        return list(dict.fromkeys([*(self.strata or ()), *(self.paired_by or ())]))

    @property
    def flag(self) -> str:
        """The option in use."""
        return "--strata" if self.strata else "--paired-by"

    def arguments(self, vectors: bool = False) -> dict[str, Any]:
        """Arguments of the library, those in use only."""
        if self.columns and vectors:
            raise ValueError(f"{self.flag}: not together with --cells; pass the labels in Python, or bin the columns")
        given = {"strata": self.strata, "paired_by": self.paired_by}
        return {name: columns[0] if len(columns) == 1 else tuple(columns) for name, columns in given.items() if columns}

    def check(self, x: NamedProcess, y: NamedProcess) -> dict[str, str]:
        """Refuse what the library would refuse, with the names of the files instead of x and y; else, what there is."""
        if not self.columns:
            return {}
        from somcot.cli.output import names_of
        from somcot.inference.strata import strata_of
        from somcot.samples import Samples

        for name, value in zip(names_of(x, y), (x.value, y.value), strict=True):
            if not name.endswith(".somcot") or not isinstance(value, Samples):
                continue
            for column in self.columns:
                if column not in value.episode_attributes:
                    known = ", ".join(value.episode_attributes) or "none"
                    raise ValueError(
                        f"{self.flag}: {name} was written without {column!r} (attributes: {known}); write the baseline "
                        f"with --attribute {column}"
                    )
        given = {"strata": None, "paired_by": None} | self.arguments()
        found = strata_of((x.value, y.value), **given, names=names_of(x, y))
        return {} if found is None else {"compared_within": found.described(names_of(x, y))}


@dataclass(frozen=True)
class OutputOptions:
    """Where the result is written: as JSON, to a report, to a figure."""

    json: Json = False
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a report, one HTML file.")] = None
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a figure: PNG, SVG or PDF.")] = None
    force: Force = False

    def check(self, *inputs: str) -> None:
        """Check before the computation that the files can be written and are not inputs."""
        check_figure(self.plot)
        from somcot.cli.output import check_targets

        check_targets({"--html": self.html, "--plot": self.plot}, inputs, force=self.force)


def check_figure(path: Path | None) -> None:
    """Check before the computation that a figure can be drawn."""
    if path is not None and path.suffix.lower() not in _PICTURES:
        raise ValueError(f"--plot: found {str(path)!r}, expected a file ending in {', '.join(_PICTURES)}")
    if path is not None and not can_draw():
        raise ImportError("--plot: drawing needs matplotlib: pip install matplotlib")


def can_draw() -> bool:
    """Whether matplotlib, which is optional, is installed."""
    return find_spec("matplotlib") is not None  # without importing it, which is slow
