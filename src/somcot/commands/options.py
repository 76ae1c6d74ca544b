"""Options that several commands share. Nothing heavy is imported here: `somcot --help` must answer at once."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Any, get_type_hints

import typer

from somcot.commands.choices import one_of
from somcot.commands.reading import Reading
from somcot.solvers.methods import METHODS

__all__ = [
    "CellNumber",
    "Cost",
    "FileA",
    "FileB",
    "Horizon",
    "Json",
    "Method",
    "Rate",
    "Scale",
    "Seed",
    "Shell",
    "StartAtOnce",
    "SuggestedBelowOne",
    "SuggestedDiscount",
    "Total",
    "Yes",
    "reads_files",
]


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
