"""The command line as its users see it: commands, options and arguments, and the keys of the JSON that is printed."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import typer

import somcot
from somcot import cli

__all__ = ["commands", "json_keys", "run", "write_inputs"]

TABLE = ("--sequence", "session", "--time", "time", "--state", "page")
VECTORS = ("--sequence", "session", "--time", "time", "--state", "u,v", "--cells", "4", "--cost", "euclidean")
# Runs that print JSON, by their name in the snapshot. Together they show every part that an output can have.
RUNS: dict[str, tuple[str, ...]] = {
    "distance of recordings": ("distance", "a.csv", "b.csv", *TABLE, "--discount", "0.8"),
    "distance of recordings, with files": (
        "distance", "a.csv", "b.csv", *TABLE, "--discount", "0.8", "--html", "page.html",
    ),
    "distance of chains": ("distance", "a.npy", "b.npy", "--discount", "0.8"),
    "distance of chains, horizon": ("distance", "a.npy", "b.npy", "--horizon", "5"),
    "distance of vectors": ("distance", "u.csv", "v.csv", *VECTORS, "--discount", "0.8"),
    "test": ("test", "a.csv", "b.csv", *TABLE, "--discount", "0.8", "--permutations", "9"),
    "metric": ("metric", "a.npy", "b.npy", "--discount", "0.8", "--out", "metric.csv"),
    "matrix": ("matrix", "a.csv", "b.csv", "c.csv", *TABLE, "--discount", "0.8", "--tests", "bh"),
    "matrix with failed pairs": ("matrix", "a.csv", "b.csv", "a.npy", *TABLE, "--discount", "0.8", "--tests", "bh"),
    "select": ("select", "a.csv", "b.csv", "c.csv", *TABLE, "--discount", "0.8"),
    "drift": ("drift", "periods.csv", *TABLE, "--by", "month", "--discount", "0.8"),
    "watch": (
        "watch", "stream.csv", "--reference", "a.csv", "--sequence", "session", "--state", "page", "--discount", "0.8",
        "--one-false-alarm-per", "100", "--every", "1000",
    ),
    "info of a recording": ("info", "a.csv", *TABLE),
    "info of a chain": ("info", "a.npy"),
}  # fmt: skip
LABELS = ("home", "cart", "left")


def chain(stay: float) -> somcot.MarkovChain:
    """Three states that are kept with this probability."""
    rows = np.full((3, 3), (1 - stay) / 2)
    np.fill_diagonal(rows, stay)
    return somcot.MarkovChain(rows, states=LABELS)


def run(*arguments: str, folder: Path, expected: int = 0) -> str:
    """Run ``somcot ARGUMENTS`` in a folder, within this process; what it prints."""
    printed = io.StringIO()
    complaints = io.StringIO()
    with (
        contextlib.chdir(folder),
        mock.patch.object(sys, "argv", ["somcot", *arguments]),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(complaints),
    ):
        try:
            cli.main()
        except SystemExit as left:
            if left.code != expected:
                raise RuntimeError(f"somcot {' '.join(arguments)}: {left.code}, {complaints.getvalue()}") from None
    return printed.getvalue()


# Commands and options


def commands() -> dict[str, dict[str, str]]:
    """Every command, its options in all spellings and its arguments, and what they take."""
    root: Any = typer.main.get_command(cli.app)
    context = typer.Context(root, info_name="somcot", **root.context_settings)
    return dict(sorted(_described("somcot", root, context)))


def _described(name: str, command: Any, context: Any) -> Iterator[tuple[str, dict[str, str]]]:
    found: dict[str, str] = {}
    arguments = 0
    for parameter in command.get_params(context):
        arguments += parameter.param_type_name == "argument"
        for spelling in _spellings(parameter, arguments):
            found[spelling] = _takes(parameter, context)
    if command.context_settings.get("allow_extra_args"):  # a command that is built when it is called
        found |= _from_help(run(*name.split()[1:], "--help", folder=Path()))
    yield name, dict(sorted(found.items()))
    for sub in getattr(command, "commands", {}).values():
        below = typer.Context(sub, info_name=sub.name, parent=context, **sub.context_settings)
        yield from _described(f"{name} {sub.name}", sub, below)


def _spellings(parameter: Any, arguments: int) -> list[str]:
    """Options by their flags, arguments by their place."""
    if parameter.param_type_name == "argument":
        return [f"argument {arguments}"]
    return [*parameter.opts, *parameter.secondary_opts]


def _takes(parameter: Any, context: Any) -> str:
    what = "flag" if getattr(parameter, "is_flag", False) or getattr(parameter, "count", False) else "value"
    if getattr(parameter, "multiple", False) or parameter.nargs == -1:
        what = "values"
    choices = [c.value for c in parameter.shell_complete(context, "") if c.type == "plain"]
    required = "required " if parameter.required else ""
    return f"{required}{what}" + (f": {'|'.join(sorted(choices))}" if choices and what != "flag" else "")


def _from_help(text: str) -> dict[str, str]:
    """Options and arguments as the help page lists them."""
    text = text.partition("\nExamples:")[0]
    found: dict[str, str] = {}
    for short, long, metavar in re.findall(r"^\s+(-\w, )?(--[\w-]+)( [A-Z]\S*)?", text, re.MULTILINE):
        found[long] = "value" if metavar else "flag"
        if short:
            found[short.rstrip(", ")] = found[long]
    for i, choices in enumerate(re.findall(r"^\s+\w+ <([\w|]+)>", text, re.MULTILINE), start=1):
        found[f"argument {i}"] = f"required value: {'|'.join(sorted(choices.split('|')))}"
    return found


# What is printed for programs


def json_keys(folder: Path) -> dict[str, list[str]]:
    """The keys of every JSON output, as paths; ``[]`` stands for the members of a list."""
    write_inputs(folder)
    found: dict[str, list[str]] = {}
    for name, arguments in RUNS.items():
        lines = [json.loads(line) for line in run(*arguments, "--json", folder=folder).splitlines()]
        if name == "watch":
            for line in lines:
                keys = set(found.get(f"watch, line of type {line['type']}", ())) | set(_paths(line))
                found[f"watch, line of type {line['type']}"] = sorted(keys)
        else:
            (content,) = lines
            found[name] = sorted(set(_paths(content)))
    return dict(sorted(found.items()))


def _paths(value: Any, place: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, part in value.items():
            here = f"{place}.{key}" if place else str(key)
            yield here
            yield from _paths(part, here)
    elif isinstance(value, list):
        for part in value:
            yield from _paths(part, f"{place}[]")


def write_inputs(folder: Path) -> None:
    """Small files for all runs."""
    chains = {"a": chain(0.5), "b": chain(0.7), "c": chain(0.6)}
    for seed, (name, process) in enumerate(chains.items()):
        np.save(folder / f"{name}.npy", process.transition)
        _write(folder / f"{name}.csv", ("page",), _rows(process, 40, 12, seed))
    rng = np.random.default_rng(0)
    for name, slope in (("u", 0.5), ("v", 0.8)):
        points = (tuple(map(str, slope * t + rng.normal(size=2))) for t in np.tile(np.arange(10.0), 30))
        _write(folder / f"{name}.csv", ("u", "v"), ((i // 10, i % 10, *p) for i, p in enumerate(points)))
    both = [
        (100 * month + session, time, page, f"2026-0{month}")
        for month, process in ((1, chains["a"]), (2, chains["a"]), (3, chains["b"]))
        for session, time, page in _rows(process, 30, 12, month)
    ]
    _write(folder / "periods.csv", ("page", "month"), both)
    _write(folder / "stream.csv", ("page",), _rows(chain(0.95), 300, 40, 9))


def _rows(process: somcot.MarkovChain, n_episodes: int, n_steps: int, seed: int) -> Iterator[tuple[Any, ...]]:
    for session in range(n_episodes):
        recorded = process.sample(1, n_steps, rng=1000 * seed + session)
        for time, code in enumerate(recorded.now):
            yield session, time, LABELS[code]


def _write(path: Path, columns: tuple[str, ...], rows: Any) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("session", "time", *columns))
        writer.writerows(rows)
