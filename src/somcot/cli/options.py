"""Options that several commands share, as types and as records of which each field is an option.

A command is one function: its parameters are its options, and a parameter whose type is a record of options stands for
all fields of the record (`expanded`). Which kind of file takes a reading option its reader's signature says
(`somcot.readers.formats`). Nothing heavy is imported here: `somcot --help` must answer at once.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from somcot.readers.formats import FORMATS, KINDS
from somcot.solvers import METHODS

if TYPE_CHECKING:
    from somcot.cli.inputs import NamedProcess

__all__ = [
    "ALARM",
    "NOT_CONVERGED",
    "ClockOptions",
    "Cost",
    "FileA",
    "FileB",
    "Json",
    "Method",
    "OutputOptions",
    "Reading",
    "Seed",
    "StartAtOnce",
    "SuggestedBelowOne",
    "SuggestedDiscount",
    "VectorOptions",
    "Yes",
    "can_draw",
    "expanded",
    "flag",
    "listed",
    "one_of",
    "spelled",
    "takers",
]

ALARM, NOT_CONVERGED = 3, 4  # exit codes of commands that answered


# --- Options whose value is one of the names of a table.


def one_of(names: Iterable[str], text: str) -> Any:
    """A typer option that takes one of the names; ``{}`` in its help becomes the list of them."""
    known = list(names)

    def checked(value: str | None) -> str | None:
        if value is not None and value not in known:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(map(repr, known))}")
        return value

    def completed(incomplete: str) -> list[str]:
        return [name for name in known if name.startswith(incomplete)]

    return typer.Option(metavar="NAME", callback=checked, autocompletion=completed, help=text.format(listed(known)))


def listed(names: Iterable[str]) -> str:
    """Names as a sentence has them.

    Examples
    --------
    >>> listed(["csv", "tsv", "npy"])
    'csv, tsv or npy'
    """
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


# --- The table of reading options: what every command that reads files can be told about them, one field for each.

# Groups of the help: by the files whose readers take an option, written down here since loading readers takes time.
TABLES, EVENTS, LOGS = "Reading tables", "Reading tables and event logs", "Reading event logs"
ARRAYS, GRAPHS, FILES = "Reading arrays", "Reading graphs", "Reading files"


@dataclass(frozen=True)
class Reading:
    """How files are to be read; None and False stand for options that are not used."""

    sequence: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column that tells sequences (users, episodes) apart.", rich_help_panel=EVENTS
        ),
    ] = None
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column that orders the rows of a sequence; file: as they stand.",
            rich_help_panel=EVENTS,
        ),
    ] = None
    state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="Column with the state; give it again for several.", rich_help_panel=EVENTS
        ),
    ] = None
    terminated: Annotated[
        str | None,
        typer.Option(metavar="all|COLUMN", help="Sequences end for good, all or where true.", rich_help_panel=EVENTS),
    ] = None
    end: Annotated[
        str | None,
        typer.Option(metavar="LABEL", help="Add a last state of this name to every sequence.", rich_help_panel=EVENTS),
    ] = None
    gap: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Cut a sequence after a longer pause: 30m, 2h, 1d, 45s.", rich_help_panel=EVENTS
        ),
    ] = None
    bins: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=N", help="Cut a numeric state column into bins.", rich_help_panel=TABLES),
    ] = None
    binning: Annotated[
        str | None,
        typer.Option(metavar="quantile|uniform", help="Equally filled or equally wide bins.", rich_help_panel=TABLES),
    ] = None
    missing: Annotated[
        str | None,
        typer.Option(metavar="error|cut", help="Refuse rows without a state, or cut there.", rich_help_panel=EVENTS),
    ] = None
    tidy: Annotated[
        bool,
        typer.Option("--tidy", help="Take labels that differ only in case or blanks as one.", rich_help_panel=EVENTS),
    ] = False
    top: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Keep the N most frequent states of both, join the others.", rich_help_panel=EVENTS
        ),
    ] = None
    other: Annotated[
        str | None,
        typer.Option(metavar="LABEL", help="What to call the joined ones; 'other' by default.", rich_help_panel=EVENTS),
    ] = None
    classifier: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Classifier of an event log that says what a state is.", rich_help_panel=LOGS
        ),
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
        bool, typer.Option("--sliding", help="Count steps from every frame.", rich_help_panel=ARRAYS)
    ] = False
    connected: Annotated[
        bool,
        typer.Option(
            "--connected", help="Keep the largest set of states that lead to each other.", rich_help_panel=ARRAYS
        ),
    ] = False
    directed: Annotated[
        bool, typer.Option("--directed", help="Edges of an edge list have a direction.", rich_help_panel=GRAPHS)
    ] = False
    weight: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Edge attribute with weights (GraphML); 'weight' by default.", rich_help_panel=GRAPHS
        ),
    ] = None
    dangling: Annotated[
        str | None,
        typer.Option(metavar="self-loop|restart|error", help="Nodes without a way out.", rich_help_panel=GRAPHS),
    ] = None
    initial: Annotated[
        str | None,
        typer.Option(
            "--start",
            metavar="STATE",
            help="First state of a chain, walk or recording, or stationary: the long run.",
            rich_help_panel=FILES,
        ),
    ] = None
    format: Annotated[str | None, one_of(FORMATS, "{}, where no ending tells.")] = None
    encoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of text files; utf-8 by default.", rich_help_panel=TABLES)
    ] = None
    delimiter: Annotated[
        str | None, typer.Option(metavar="SIGN", help="Of CSV files; found out by default.", rich_help_panel=TABLES)
    ] = None

    def chosen(self) -> dict[str, Any]:
        """The options that are used, that for the choice of format aside."""
        everything = {row.name: getattr(self, row.name) for row in fields(self) if row.name != "format"}
        for name, value in everything.items():
            if value == "" or (isinstance(value, list) and "" in value):
                raise ValueError(f"{flag(name)}: found an empty text; name something, or leave the option out")
        return {name: value for name, value in everything.items() if value}

    def for_kind(self, kind: str) -> dict[str, Any]:
        """The options that one kind of file takes, in the words of its reader."""
        options = {name: value for name, value in self.chosen().items() if name in KINDS[kind].options()}
        if "initial" in options:
            text = options["initial"]
            options["initial"] = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else text
        if "terminated" in options:
            options["terminated"] = options["terminated"] == "all" or options["terminated"]
        return options

    def for_parts(self, kind: str, reward: str | None) -> dict[str, Any]:
        """The options for one file that ``--by`` parts into several processes."""
        if self.bins:
            raise ValueError("--by: states cannot be binned at the same time; bin the column first")
        options = self.for_kind(kind)
        options |= {"format": self.format} if self.format else {}
        return options | ({"reward": reward} if reward else {})


def flag(name: str) -> str:
    """An option as it is typed.

    Examples
    --------
    >>> flag("lag"), flag("initial")
    ('--lag', '--start')
    """
    (option,) = get_type_hints(Reading, include_extras=True)[name].__metadata__
    # Inside Annotated, typer takes the first argument of Option for a spelling and keeps it where defaults are.
    return option.default if isinstance(option.default, str) else f"--{name}"


# Arguments of the library that are options of single commands, where the flag is not the argument's own name.
_FLAGS = {"gaps": "--missing", "n_cells": "--cells", "standard_error": "--standard-error"}
_ARGUMENTS = {"by", "confidence", "discount", "horizon", "method", "rate", "scale", "total", "workers"}
_COMMANDS = {
    "somcot.distance": "somcot distance",
    "somcot.same_process": "somcot test",
    "readers.read_vectors": "somcot distance --cells auto",
}


def spelled(name: str, value: str = "") -> str:
    """An option of the library, or a function, as it is typed in a terminal; see `somcot.plumbing.notes`.

    Examples
    --------
    >>> spelled("tidy", "True"), spelled("terminated", "True"), spelled("end", "'left'")
    ('--tidy', '--terminated all', '--end left')
    >>> spelled("bins", "{'size': 10}"), spelled("state", "['A', 'B']"), spelled("scale", "1.0")
    ('--bins size=10', '--state A --state B', '--scale 1')
    >>> spelled("somcot.same_process"), spelled("samples.with_order(2)")
    ('somcot test', 'samples.with_order(2) in Python')
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
    """A value as it is typed, once for each time that the option is; placeholders stay as they are."""
    try:
        literal = ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return [value]
    if literal is True:
        return ["all" if name == "terminated" else ""]
    if isinstance(literal, dict):
        return [f"{key}={number}" for key, number in literal.items()]
    if isinstance(literal, list):
        return [str(item) for item in literal]
    return [f"{literal:g}" if isinstance(literal, float) else str(literal)]


def takers(name: str) -> list[str]:
    """The kinds of files whose reader takes an option.

    Examples
    --------
    >>> takers("gap")
    ['table', 'log']
    """
    return [kind.name for kind in KINDS.values() if name in kind.options()]


# --- Options that several commands share.

FileA = Annotated[str, typer.Argument(metavar="A", help="File with the first process, or - for standard input.")]
FileB = Annotated[str, typer.Argument(metavar="B", help="File with the second process.")]
Cost = Annotated[
    str,
    typer.Option(
        metavar="COST",
        help="labels (0 where labels are equal, 1 elsewhere), reward:COLUMN, for graphs attribute:NAME, degree or "
        "neighbourhood[:ROUNDS], or a CSV or NPY matrix.",
    ),
]
SuggestedDiscount = Annotated[
    float | None,
    typer.Option(
        metavar="G",
        help="Between 0 and 1; 1 / (1 - discount) is the number of steps that matter; 1 asks for the long-run average. "
        "By default from the mean length of a sequence.",
    ),
]
SuggestedBelowOne = Annotated[
    float | None,
    typer.Option(
        metavar="G",
        help="Between 0 and 1; 1 / (1 - discount) is the number of steps that matter. By default from the mean length "
        "of a sequence.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Start even if a minute or 4 GB of memory will not do.")]
StartAtOnce = Annotated[bool, typer.Option("--yes", help="Start without asking, even if it takes more than 5 minutes.")]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Seed of everything random.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a panel.")]

Method = Annotated[str, one_of(METHODS, "{}; auto suits the data.")]


# --- Records of options that belong together.

_PICTURES = (".png", ".svg", ".pdf", ".jpg")


@dataclass(frozen=True)
class ClockOptions:
    """How time counts, at most one of them; none where the data are to suggest a discount."""

    discount: SuggestedDiscount = None
    horizon: Annotated[
        int | None, typer.Option(metavar="T", help="Instead of a discount: the mean over the first T moments.")
    ] = None
    rate: Annotated[
        float | None,
        typer.Option(
            metavar="R", help="Instead of a discount: the rate at which time counts less, for files of rates."
        ),
    ] = None
    total: Annotated[
        bool, typer.Option("--total", help="Instead of a discount: the total cost until both processes have ended.")
    ] = False

    def arguments(self) -> dict[str, Any]:
        """All four, as the library names them."""
        return {row.name: getattr(self, row.name) for row in fields(self)}

    def check(self) -> None:
        """Before anything is read: what is set must be one clock, and in range."""
        named = [f"--{name}" for name, value in self.arguments().items() if value is not None and value is not False]
        if len(named) > 1:
            raise ValueError(f"{' and '.join(named)}: each is a clock of its own; choose one, `--help` says which")
        if named:
            from somcot.clocks import Clock

            Clock.chosen(self.discount, self.horizon, self.rate, self.total)

    def settled(self, x: NamedProcess, y: NamedProcess) -> ClockOptions:
        """With a discount that the data suggest where no clock is set."""
        from somcot.cli.forecast import suggested_discount

        chains = [p for p in (x, y) if p.rates is not None]
        if chains and self.rate is None:
            raise ValueError(f"{chains[0].name}: holds rates of a chain in continuous time; pass --rate R, say 0.1")
        if self.rate is not None and len(chains) < 2:
            stepping = x if x.rates is None else y
            raise ValueError(f"--rate: {stepping.name} holds no rates but steps, which take --discount; leave it out")
        return replace(self, discount=suggested_discount([x, y])) if self == ClockOptions() else self


@dataclass(frozen=True)
class VectorOptions:
    """``--cells`` and ``--scale``, for states that are vectors of numbers; nothing where states are labels."""

    cells: Annotated[
        str | None,
        typer.Option(
            "--cells",
            metavar="auto|N",
            help="States are vectors of numbers, put into cells: --state x,y --cells auto. --cost is then euclidean or "
            "sqeuclidean.",
        ),
    ] = None
    scale: Annotated[
        str | None,
        typer.Option(
            metavar="std|NUMBER,...",
            help="With --cells: what coordinates are divided by. std, their standard deviations, by default; 1 leaves "
            "them as they are.",
        ),
    ] = None

    @property
    def wanted(self) -> bool:
        """Whether states are vectors."""
        return self.cells is not None

    def check(self) -> None:
        """Refuse ``--scale`` where nothing is scaled."""
        if self.cells is None and self.scale is not None:
            raise ValueError("--scale: only together with --cells, for states that are numbers; add --cells auto")


@dataclass(frozen=True)
class OutputOptions:
    """Where an answer goes: to people or programs, into a report, into a figure."""

    json: Json = False
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a report, one HTML file.")] = None
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a figure: PNG, SVG or PDF.")] = None

    def check(self, *inputs: str) -> None:
        """Before the work: whether the files can be written, and are none of the inputs."""
        if self.plot is not None and self.plot.suffix.lower() not in _PICTURES:
            raise ValueError(f"--plot: found {str(self.plot)!r}, expected a file ending in {', '.join(_PICTURES)}")
        if self.plot is not None and not can_draw():
            raise ImportError("--plot: drawing needs matplotlib: pip install matplotlib")
        from somcot.cli.output import check_targets

        check_targets({"--html": self.html, "--plot": self.plot}, inputs)


def can_draw() -> bool:
    """Whether matplotlib, which is optional, is there."""
    return find_spec("matplotlib") is not None


def expanded(function: Callable[..., int]) -> Callable[..., int]:
    """A command as typer is to see it: a parameter that is a record of options becomes one option for each field.

    typer reads the signature and the annotations of what it is handed, so they are all that changes. Options stand
    where the record stands.
    """
    hints = get_type_hints(function, include_extras=True)
    records = {name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for own in inspect.signature(function).parameters.values():
        if own.name in records:
            parameters += _options(records[own.name])
        else:
            parameters.append(own.replace(kind=own.KEYWORD_ONLY, annotation=hints[own.name]))

    def run(**values: Any) -> int:
        made = {
            name: record(**{row.name: values.pop(row.name) for row in fields(record)})
            for name, record in records.items()
        }
        return function(**values, **made)

    run.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return run


@functools.cache  # most commands read files, and the names of types are slow to look up
def _options(record: type) -> list[inspect.Parameter]:
    hints = get_type_hints(record, include_extras=True)
    return [
        inspect.Parameter(
            row.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if row.default is MISSING else row.default,
            annotation=hints[row.name],
        )
        for row in fields(record)
    ]
