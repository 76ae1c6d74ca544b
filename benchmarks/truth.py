"""How often do intervals contain the truth? ``python -m benchmarks.truth --rule NAME --source PATH/src``.

Runs the estimate with its interval and the test on every case of `benchmarks.recordings` and `benchmarks.logs`, and
writes a table with a judgement. Results are kept as JSON lines, one file per rule, and a later run continues; a rule is
a name for the version of somcot in PATH, so two versions can be compared on the same data::

    git worktree add --detach FORMER COMMIT
    python -m benchmarks.truth --rule former --source FORMER/src
    python -m benchmarks.truth --rule new --source src --only "shop|sparse 200" --seeds 20
    python -m benchmarks.truth --rule new --against former --table

Logs are read from clones in the folder --mirrors once, later from the cache; without them families alone are run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import somcot
from benchmarks import logs, recordings
from benchmarks.sources import Case
from benchmarks.truth_table import Line, report

TESTED = 40  # seeds with a test, which takes longer than the estimate
BLOCK = 10  # seeds of one case in a row: a run that is stopped early has as many seeds everywhere


def main() -> None:
    """Parse, run what is missing, write the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.truth", description=__doc__.split("\n")[0])
    parser.add_argument("--rule", default="present", help="name under which results are kept")
    parser.add_argument("--source", help="folder that contains the package somcot; by default the one Python finds")
    parser.add_argument("--only", metavar="PATTERN", default="", help="cases whose names match this regular expression")
    parser.add_argument("--seeds", type=int, help="at most so many seeds a case")
    parser.add_argument("--first", type=int, default=0, help="the first seed; others than before are fresh draws")
    parser.add_argument("--minutes", type=float, default=np.inf, help="stop after this time; the next run continues")
    parser.add_argument("--confidence", type=float, default=0.9)
    parser.add_argument("--cache", type=Path, default=Path("out/truth"))
    parser.add_argument("--mirrors", type=Path, help="clones of the repositories with logs, as owner+name")
    parser.add_argument("--against", default="former", help="the rule to compare with")
    parser.add_argument("--table", action="store_true", help="run nothing")
    parser.add_argument("--list", action="store_true", help="list the cases with their truths and run nothing")
    parser.add_argument("--out", type=Path, help="file for the table; by default RULE.md in the cache")
    args = parser.parse_args()
    if args.source:
        raise SystemExit(elsewhere(args.source))
    chosen = [case for case in all_cases(args.cache, args.mirrors) if re.search(args.only, case.name)]
    rule = args.rule if args.confidence == 0.9 else f"{args.rule}-{args.confidence}"
    if args.list:
        known = truths(chosen, args.cache)
        print("\n".join(f"{np.max(known[case.name]):.5f}  {case.seeds:3d} seeds  {case.name}" for case in chosen))
        return
    if not args.table:
        print(f"{rule}: {somcot.__file__}", file=sys.stderr)
        run(chosen, rule, args.cache, args.confidence, args.seeds, args.minutes, args.first)
    known = truths(chosen, args.cache)
    lines = {name: read(args.cache / f"{name}.jsonl") for name in dict.fromkeys((rule, args.against))}
    text = report(chosen, known, lines[rule], lines[args.against], rule, args.against, recordings.families())
    out = args.out or args.cache / f"{rule}.md"
    out.write_text(text)
    print(f"written to {out}")


def elsewhere(source: str) -> int:
    """Run the same command with another version of somcot."""
    arguments = list(sys.argv[1:])
    place = next(i for i, text in enumerate(arguments) if text.split("=")[0] == "--source")
    del arguments[place : place + 1 + ("=" not in arguments[place])]
    path = os.pathsep.join([os.path.abspath(source), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "benchmarks.truth", *arguments]
    return subprocess.run(command, check=False, env=os.environ | {"PYTHONPATH": path}).returncode


def all_cases(folder: Path, mirrors: Path | None) -> list[Case]:
    """The registry: families, and logs if they are there."""
    found = list(recordings.cases().values())
    try:
        found += logs.cases(folder / "logs", mirrors)
    except FileNotFoundError as error:
        print(f"without logs: {error}", file=sys.stderr)
    return found


def truths(cases: Iterable[Case], folder: Path) -> dict[str, Any]:
    """The true distances, each computed once."""
    stored = folder / "truths.json"
    known: dict[str, Any] = json.loads(stored.read_text()) if stored.exists() else {}
    missing = [case for case in cases if case.name not in known]
    for case in missing:
        known[case.name] = np.asarray(case.truth()).tolist()
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        stored.write_text(json.dumps(known, indent=0))
    return known


def read(path: Path) -> list[Line]:
    """Results of a rule; a line that was cut off is left out."""
    found = []
    for text in path.read_text().splitlines() if path.exists() else ():
        try:
            found.append(json.loads(text))
        except json.JSONDecodeError:
            print(f"{path}: a line is not complete and is computed again", file=sys.stderr)
    return found


def run(
    cases: list[Case],
    rule: str,
    folder: Path,
    confidence: float,
    seeds: int | None = None,
    minutes: float = np.inf,
    first: int = 0,
) -> None:
    """Measure what is missing, a block of seeds of every case at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{rule}.jsonl"
    done = {(line["case"], line["seed"]) for line in read(path)}
    began = time.monotonic()
    warm: set[str] = set()
    with path.open("a") as file, threadpool_limits(1):
        for case, number in _order(cases, seeds):
            seed, tested = first + number, number < TESTED
            if (case.name, seed) in done:
                continue
            if time.monotonic() - began > 60 * minutes:
                print(f"{rule}: stopped after {minutes:g} minutes; the next run continues", file=sys.stderr)
                return
            if case.name not in warm:
                measure(case, seed, confidence, tested)
                warm.add(case.name)
            line = {"case": case.name, "seed": seed, **measure(case, seed, confidence, tested)}
            file.write(json.dumps(line) + "\n")
            file.flush()


def _order(cases: list[Case], seeds: int | None) -> Iterator[tuple[Case, int]]:
    limits = {case.name: case.seeds if seeds is None else min(seeds, case.seeds) for case in cases}
    for first in range(0, max(limits.values(), default=0), BLOCK):
        for case in cases:
            yield from ((case, number) for number in range(first, min(first + BLOCK, limits[case.name])))


def measure(case: Case, seed: int, confidence: float, tested: bool) -> Line:
    """One repetition; an exception is recorded and counts as an interval that misses."""
    data = case.drawn(seed)
    sides = [side for side in data if not isinstance(side, somcot.MarkovChain)]
    line: Line = {
        "n": int(min(np.sum(side.visits) for side in sides)),
        "states": max(side.n_states for side in data),
        "sequences": max(side.n_episodes for side in sides),
    }
    work: Callable[..., Line] = partial(_pair, tested=tested and case.test) if case.kind == "pair" else _groups
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            line |= work(case, data, seed, confidence)
        line["codes"] = sorted({_code(warning) for warning in caught})
        line["warnings"] = len(caught)
    except Exception as error:  # whatever goes wrong is a result here
        line["error"] = f"{type(error).__name__}: {error}"[:300]
    return line


def _code(warning: warnings.WarningMessage) -> str:
    """The code of a note of somcot's, the class of other warnings."""
    said = warning.message.args[0] if isinstance(warning.message, Warning) else warning.message
    return str(getattr(said, "code", warning.category.__name__))


def _pair(case: Case, data: Any, seed: int, confidence: float, *, tested: bool) -> Line:
    x, y = data
    began = time.process_time()
    result = somcot.distance(x, y, case.cost, discount=case.discount, confidence=confidence, rng=seed, threads=1)
    cpu = time.process_time() - began
    interval = result.confidence_interval
    if interval is None or result.plugin is None:
        raise ValueError("no interval or no plug-in")
    line: Line = {"estimate": result.distance, "plugin": result.plugin, "low": interval.low, "high": interval.high}
    line = {key: float(value) for key, value in line.items()} | {"cpu": cpu}
    if tested:
        began = time.process_time()
        test = somcot.same_process(x, y, case.cost, discount=case.discount, n_permutations=199, rng=seed, threads=1)
        line |= {"pvalue": float(test.pvalue), "test_cpu": time.process_time() - began}
    return line


def _groups(case: Case, data: Any, seed: int, confidence: float) -> Line:
    truth = np.asarray(case.truth())
    pairs = np.triu_indices(len(data), 1)
    line: Line = {}
    for name, simultaneous in (("single", False), ("simultaneous", True)):
        began = time.process_time()
        found = somcot.distance_matrix(
            data,
            case.cost,
            discount=case.discount,
            confidence=confidence,
            simultaneous=simultaneous,
            rng=seed,
            threads=1,
        )
        line["cpu" if name == "single" else "cpu_simultaneous"] = time.process_time() - began
        low, high, true = found.low[pairs], found.high[pairs], truth[pairs]
        inside = (low <= true + 1e-9) & (true <= high + 1e-9)
        equal = true < 1e-12
        line |= {
            f"{name}_inside": float(inside.mean()),
            f"{name}_all": bool(inside.all()),
            f"{name}_apart": float((low > 1e-12)[equal].mean()) if equal.any() else None,
        }
    return line


if __name__ == "__main__":
    main()
