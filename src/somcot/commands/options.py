"""Options that several commands share. Nothing heavy is imported here: `somcot --help` must answer at once."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

__all__ = [
    "METHOD_HELP",
    "Cost",
    "Discount",
    "FileA",
    "FileB",
    "Format",
    "Json",
    "Method",
    "Seed",
    "Shell",
    "reads_files",
]


class Method(enum.StrEnum):
    """How to compute the distance."""

    AUTO = "auto"
    EXACT = "exact"
    PLUGIN = "plugin"
    SADDLE = "saddle"
    SOMCOT = "somcot"
    SINKHORN = "sinkhorn"
    LP = "lp"


class Format(enum.StrEnum):
    """What a file holds, where its ending does not tell."""

    CSV = "csv"
    TSV = "tsv"
    JSONL = "jsonl"
    PARQUET = "parquet"
    NPY = "npy"
    NPZ = "npz"
    GRAPHML = "graphml"
    EDGES = "edges"


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
        metavar="COST", help="labels (0 where labels are equal, 1 elsewhere), reward:COLUMN, or a CSV or NPY matrix."
    ),
]
Discount = Annotated[
    float,
    typer.Option(
        metavar="G", help="Between 0 and 1; 1 / (1 - discount) is the number of steps that matter. 0.95, say."
    ),
]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Seed of everything random.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a panel.")]

METHOD_HELP = "auto, exact, plugin, saddle, somcot, sinkhorn or lp; auto suits the data."

# Options of every command that reads files; gathered into a Reading and passed on as one argument.
_READING: dict[str, Any] = {
    "sequence": (
        str | None,
        typer.Option(metavar="COLUMN", help="Column that tells sequences (users, episodes) apart."),
    ),
    "time": (str | None, typer.Option(metavar="COLUMN", help="Column that orders the rows of a sequence.")),
    "state": (
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column with the state; give it again for several."),
    ),
    "terminated": (str | None, typer.Option(metavar="all|COLUMN", help="Sequences end for good, all or where true.")),
    "bins": (list[str] | None, typer.Option(metavar="COLUMN=N", help="Cut a numeric state column into bins.")),
    "binning": (str | None, typer.Option(metavar="quantile|uniform", help="Equally filled or equally wide bins.")),
    "missing": (str | None, typer.Option(metavar="error|cut", help="Refuse rows without a state, or cut there.")),
    "lag": (int | None, typer.Option(min=1, metavar="N", help="Frames per step of integer trajectories.")),
    "sliding": (bool, typer.Option("--sliding", help="Count steps from every frame.")),
    "directed": (bool, typer.Option("--directed", help="Edges of an edge list have a direction.")),
    "weight": (
        str | None,
        typer.Option(metavar="NAME", help="Edge attribute with weights (GraphML); 'weight' by default."),
    ),
    "dangling": (str | None, typer.Option(metavar="self-loop|restart|error", help="Nodes without a way out.")),
    "initial": (str | None, typer.Option("--start", metavar="STATE", help="State in which a chain or walk begins.")),
    "format": (
        Format | None,
        typer.Option(
            metavar="NAME", help="csv, tsv, jsonl, parquet, npy, npz, graphml or edges, where no ending tells."
        ),
    ),
    "encoding": (str | None, typer.Option(metavar="NAME", help="Of text files; utf-8 by default.")),
    "delimiter": (str | None, typer.Option(metavar="SIGN", help="Of CSV files; found out by default.")),
}


def reads_files(command: Callable[..., int]) -> Callable[..., int]:
    """Add the reading options to a command, whose last parameter is the record they become."""

    def run(**values: Any) -> int:
        from somcot.commands.inputs import Reading

        options = {name: values.pop(name) for name in _READING}
        options["format"] = None if options["format"] is None else str(options["format"])
        return command(reading=Reading(**options), **values)

    own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "reading"]
    extra = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False if kind is bool else None,
                          annotation=Annotated[kind, option])
        for name, (kind, option) in _READING.items()
    ]  # fmt: skip
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + extra
    run.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run
