"""How large the package is and how far a reader has to walk through it: ``python -m benchmarks.house [--before REV]``.

A table of two versions and what is aimed at. Walks are calls of which every file of the package that is entered counts,
traced the second time, when all is imported and compiled; each version in a process of its own.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import os
import subprocess
import sys
import tokenize
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from benchmarks.frontier import ROOT, taken_out

__all__ = ["House", "Walk", "measure", "report", "walk"]

BEFORE = "76ec534"
WALKS = {"exact": 16, "estimate": 28, "SOMCOT": 20, "CLI to screen": 45}  # and how many files are aimed at


class Walk(NamedTuple):
    """What one call goes through."""

    n_files: int
    n_records: int  # dataclasses and named tuples of the package that it makes


class House(NamedTuple):
    """What is counted of one version."""

    modules: int
    lines: int
    layers: int
    exceptions: int
    repeated_classes: int
    repeated_files: int
    any_per_1000: float
    comments_per_100: float
    largest: int
    walks: dict[str, Walk]


# --- What stands in the files.


def measure(root: Path) -> House:
    """Count what stands below `root`, which has ``src/somcot`` and ``pyproject.toml``, and walk through it."""
    files = sorted((root / "src" / "somcot").rglob("*.py"))
    texts = [file.read_text("utf-8") for file in files]
    lines = [text.count("\n") for text in texts]
    tokens = [token for text in texts for token in tokenize.generate_tokens(io.StringIO(text).readline)]
    classes = Counter(
        node.name for text in texts for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)
    )
    names = Counter(file.name for file in files if file.name != "__init__.py")
    n_any = sum(token.type == tokenize.NAME and token.string == "Any" for token in tokens)
    n_comments = sum(token.type == tokenize.COMMENT for token in tokens)
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return House(
        modules=len(files),
        lines=sum(lines),
        layers=max(len(contract.get("layers", ())) for contract in contracts),
        exceptions=sum(len(contract.get("ignore_imports", ())) for contract in contracts),
        repeated_classes=sum(n > 1 for n in classes.values()),
        repeated_files=sum(n > 1 for n in names.values()),
        any_per_1000=1000 * n_any / sum(lines),
        comments_per_100=100 * n_comments / sum(lines),
        largest=max(lines),
        walks={name: _in_its_process(root, name) for name in WALKS},
    )


# --- Walks.


def _in_its_process(root: Path, name: str) -> Walk:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.house", "--walk", name],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return Walk(*json.loads(done.stdout.splitlines()[-1]))


def walk(name: str) -> Walk:
    """Call twice and trace the second call; which version that is, is for PYTHONPATH to say."""
    import somcot

    source = os.path.dirname(somcot.__file__) + os.sep
    call = _call(name, Path(source))
    files: set[str] = set()
    n_records = 0

    def trace(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal n_records
        if event != "call":
            return
        code = frame.f_code
        if code.co_filename.startswith(source):
            files.add(code.co_filename)
        # What dataclasses and named tuples are made with has no file; their first argument says whose it is.
        elif code.co_name == "__init__" and code.co_filename == "<string>":
            n_records += type(frame.f_locals.get("self")).__module__.startswith("somcot")
        elif "_cls" in code.co_varnames:
            n_records += getattr(frame.f_locals.get("_cls"), "__module__", "").startswith("somcot")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call()
        sys.setprofile(trace)
        try:
            call()
        finally:
            sys.setprofile(None)
    return Walk(len(files), n_records)


def _call(name: str, source: Path) -> Callable[[], object]:
    import somcot

    reward = [1, 0, 0, 0, -1]
    cost = somcot.costs.absolute(reward, reward)
    x, y = somcot.random_walk(5, 0.5), somcot.random_walk(5, 0.7)
    if name == "exact":
        return lambda: somcot.distance(x, y, cost, discount=0.95)
    if name == "estimate":
        data = x.sample(400, 50, rng=1), y.sample(400, 50, rng=2)
        return lambda: somcot.distance(*data, cost, discount=0.95, confidence=0.9)
    if name == "SOMCOT":

        def solve() -> object:
            a, b = (somcot.streams.from_chain(chain, 0.95, rng=seed) for seed, chain in ((1, x), (2, y)))
            return somcot.distance(a, b, cost, discount=0.95, method="somcot", n_steps=2000)

        return solve
    months = [str(source / "data" / f"{month}.csv") for month in ("may", "june")]
    table = ["--sequence", "session", "--time", "time", "--state", "page", "--terminated", "all"]
    command = ["somcot", "distance", *months, *table, "--discount", "0.9"]

    def show() -> None:
        from somcot.__main__ import main

        sys.argv = list(command)
        with open(os.devnull, "w") as screen, contextlib.redirect_stdout(screen):
            try:
                main()
            except SystemExit as left:
                if left.code:
                    raise

    return show


# --- The table.


def report(before: House | None, now: House) -> str:
    """Markdown: both versions and the aims."""
    lines = ["| | before | now | aim |", "|---|---|---|---|"]
    rows: list[tuple[str, Callable[[House], float], str]] = [
        ("modules", lambda h: h.modules, "<= 200"),
        ("physical lines", lambda h: h.lines, ""),
        ("layers", lambda h: h.layers, "10"),
        ("exceptions to the layers", lambda h: h.exceptions, "0"),
        ("class names used more than once", lambda h: h.repeated_classes, "< 5"),
        ("file names used more than once", lambda h: h.repeated_files, ""),
        ("`Any` per 1,000 lines", lambda h: h.any_per_1000, "< 15"),
        ("lines with a comment per 100", lambda h: h.comments_per_100, ""),
        ("lines of the largest file", lambda h: h.largest, "<= 550"),
        *(
            (f"files of the walk: {name}", lambda h, name=name: h.walks[name].n_files, f"<= {aim}")
            for name, aim in WALKS.items()
        ),
        ("records made by one estimate", lambda h: h.walks["estimate"].n_records, ""),
    ]
    for name, count, aim in rows:
        numbers = [count(house) if house else None for house in (before, now)]
        cells = ["" if n is None else f"{n:,}" if isinstance(n, int) else f"{n:.1f}" for n in numbers]
        lines.append(f"| {name} | {' | '.join(cells)} | {aim} |")
    return "\n".join(lines)


def main() -> None:
    """Parse, count, print."""
    parser = argparse.ArgumentParser(prog="benchmarks.house", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--before", default=BEFORE, metavar="REV", help=f"the earlier version, by default {BEFORE}")
    parser.add_argument("--walk", choices=list(WALKS), help="walk through the package on PYTHONPATH, and no more")
    args = parser.parse_args()
    if args.walk:
        print(json.dumps(walk(args.walk)))
        return
    earlier = taken_out(args.before)
    if earlier is None:
        print(f"the history has no commit {args.before}: this version alone", file=sys.stderr)
    print(report(measure(earlier) if earlier else None, measure(ROOT)))


if __name__ == "__main__":
    main()
