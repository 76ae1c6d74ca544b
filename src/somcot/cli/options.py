"""Options that several commands share. Nothing heavy is imported here: `somcot --help` must answer at once.

The command line, its help and the tests read this table. Which kind of file takes an option its reader's signature says
(`somcot.readers.formats`). Nothing heavy is imported here: `somcot --help` must answer at once.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Annotated, Any, get_type_hints

import typer

from somcot.readers.formats import FORMATS, KINDS
from somcot.solvers import METHODS

__all__ = [
    "CellNumber",
    "Cost",
    "FileA",
    "FileB",
    "Horizon",
    "Json",
    "Method",
    "Rate",
    "Reading",
    "Scale",
    "Seed",
    "Shell",
    "StartAtOnce",
    "SuggestedBelowOne",
    "SuggestedDiscount",
    "Total",
    "Yes",
    "flag",
    "listed",
    "one_of",
    "reads_files",
    "takers",
]


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
    """How files are to be read; None and False are what was not asked for."""

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

    def given(self) -> dict[str, Any]:
        """The options that were asked for, that for the choice of format aside."""
        everything = {row.name: getattr(self, row.name) for row in fields(self) if row.name != "format"}
        for name, value in everything.items():
            if value == "" or (isinstance(value, list) and "" in value):
                raise ValueError(f"{flag(name)}: found an empty text; name something, or leave the option out")
        return {name: value for name, value in everything.items() if value}

    def for_kind(self, kind: str) -> dict[str, Any]:
        """The options that one kind of file takes, in the words of its reader."""
        options = {name: value for name, value in self.given().items() if name in KINDS[kind].options()}
        if "initial" in options:
            text = options["initial"]
            options["initial"] = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else text
        if "terminated" in options:
            options["terminated"] = options["terminated"] == "all" or options["terminated"]
        return options


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


def takers(name: str) -> list[str]:
    """The kinds of files whose reader takes an option.

    Examples
    --------
    >>> takers("gap")
    ['table', 'log']
    """
    return [kind.name for kind in KINDS.values() if name in kind.options()]


# --- Options that several commands share. Nothing heavy is imported here: `somcot --help` must answer at once.


class Shell(enum.StrEnum):
    """Shells that can complete the command."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


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
CellNumber = Annotated[
    str | None,
    typer.Option(
        "--cells",
        metavar="auto|N",
        help="States are vectors of numbers, put into cells: --state x,y --cells auto. --cost is then euclidean or "
        "sqeuclidean.",
    ),
]
Scale = Annotated[
    str | None,
    typer.Option(
        metavar="std|NUMBER,...",
        help="With --cells: what coordinates are divided by. std, their standard deviations, by default; 1 leaves "
        "them as they are.",
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
Horizon = Annotated[
    int | None, typer.Option(metavar="T", help="Instead of a discount: the mean over the first T moments.")
]
Rate = Annotated[
    float | None,
    typer.Option(metavar="R", help="Instead of a discount: the rate at which time counts less, for files of rates."),
]
Total = Annotated[
    bool, typer.Option("--total", help="Instead of a discount: the total cost until both processes have ended.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Start even if a minute or 4 GB of memory will not do.")]
StartAtOnce = Annotated[bool, typer.Option("--yes", help="Start without asking, even if it takes more than 5 minutes.")]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Seed of everything random.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a panel.")]

Method = Annotated[str, one_of(METHODS, "{}; auto suits the data.")]


def reads_files(command: Callable[..., int]) -> Callable[..., int]:
    """Add the reading options to a command, whose last parameter is the record they become."""
    rows = fields(Reading)

    def run(**values: Any) -> int:
        return command(reading=Reading(**{row.name: values.pop(row.name) for row in rows}), **values)

    own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "reading"]
    shown = get_type_hints(Reading, include_extras=True)
    extra = [
        inspect.Parameter(row.name, inspect.Parameter.KEYWORD_ONLY, default=row.default, annotation=shown[row.name])
        for row in rows
    ]
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + extra
    run.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run
