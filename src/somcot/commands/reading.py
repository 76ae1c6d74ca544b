"""The table of reading options: what every command that reads files can be told about them, one field for each.

The command line, its help and the tests read this table. Which kind of file takes an option its reader's signature says
(`somcot.readers.formats`). Nothing heavy is imported here: `somcot --help` must answer at once.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any, get_type_hints

import typer

from somcot.commands.choices import one_of
from somcot.readers.formats import FORMATS, KINDS

__all__ = ["Reading", "flag", "takers"]


@dataclass(frozen=True)
class Reading:
    """How files are to be read; None and False are what was not asked for."""

    sequence: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column that tells sequences (users, episodes) apart.")
    ] = None
    time: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column that orders the rows of a sequence.")] = (
        None
    )
    state: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Column with the state; give it again for several.")
    ] = None
    terminated: Annotated[
        str | None, typer.Option(metavar="all|COLUMN", help="Sequences end for good, all or where true.")
    ] = None
    end: Annotated[
        str | None, typer.Option(metavar="LABEL", help="Add a last state of this name to every sequence.")
    ] = None
    gap: Annotated[
        str | None, typer.Option(metavar="TIME", help="Cut a sequence after a longer pause: 30m, 2h, 1d, 45s.")
    ] = None
    bins: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=N", help="Cut a numeric state column into bins.")
    ] = None
    binning: Annotated[
        str | None, typer.Option(metavar="quantile|uniform", help="Equally filled or equally wide bins.")
    ] = None
    missing: Annotated[
        str | None, typer.Option(metavar="error|cut", help="Refuse rows without a state, or cut there.")
    ] = None
    tidy: Annotated[bool, typer.Option("--tidy", help="Take labels that differ only in case or blanks as one.")] = False
    top: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Keep the N most frequent states of both, join the others.")
    ] = None
    other: Annotated[
        str | None, typer.Option(metavar="LABEL", help="What to call the joined ones; 'other' by default.")
    ] = None
    classifier: Annotated[
        str | None, typer.Option(metavar="NAME", help="Classifier of an event log that says what a state is.")
    ] = None
    lifecycle: Annotated[
        str | None, typer.Option(metavar="NAME|all", help="Events of a log to keep; 'complete' by default.")
    ] = None
    lag: Annotated[int | None, typer.Option(min=1, metavar="N", help="Frames per step of integer trajectories.")] = None
    sliding: Annotated[bool, typer.Option("--sliding", help="Count steps from every frame.")] = False
    directed: Annotated[bool, typer.Option("--directed", help="Edges of an edge list have a direction.")] = False
    weight: Annotated[
        str | None, typer.Option(metavar="NAME", help="Edge attribute with weights (GraphML); 'weight' by default.")
    ] = None
    dangling: Annotated[
        str | None, typer.Option(metavar="self-loop|restart|error", help="Nodes without a way out.")
    ] = None
    initial: Annotated[
        str | None,
        typer.Option(
            "--start", metavar="STATE", help="First state of a chain, walk or recording, or stationary: the long run."
        ),
    ] = None
    format: Annotated[str | None, one_of(FORMATS, "{}, where no ending tells.")] = None
    encoding: Annotated[str | None, typer.Option(metavar="NAME", help="Of text files; utf-8 by default.")] = None
    delimiter: Annotated[str | None, typer.Option(metavar="SIGN", help="Of CSV files; found out by default.")] = None

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
    >>> takers("initial")
    ['table', 'arrays', 'graph', 'prism']
    """
    return [kind.name for kind in KINDS.values() if name in kind.options()]
