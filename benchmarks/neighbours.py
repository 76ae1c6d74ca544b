"""What neighbouring fields use: trace variants in process mining, value iteration in reinforcement learning."""

from __future__ import annotations

import csv
import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import ot
from tests.instances import Floats, dense_kernel, walks

import somcot
from somcot.data import clickstream
from somcot.readers import from_table

VARIANTS = (100, 200)
LIMIT = 1800


def logs(python: str | None) -> str:
    """Two months of the bundled shop, and two halves of one of them, beside pm4py."""
    may, june = (str(clickstream.path(month)) for month in ("may", "june"))
    with tempfile.TemporaryDirectory() as folder:
        halves = _halves(may, Path(folder))
        pairs = {"May and June": (may, june), "two halves of May": halves}
        rows = ["| " + " | ".join(_log_row(name, a, b, python)) + " |" for name, (a, b) in pairs.items()]
    heads = [f"pm4py, {n} variants" for n in VARIANTS]
    return "\n".join(
        [
            "## Event logs",
            "",
            "5,000 sessions a month in the bundled shop, about 2,000 distinct ones. somcot: distance with labels at",
            "discount 0.9, 90 % interval, time including reading. pm4py 2.7.23: earth mover's distance of the most",
            "frequent variants by edit distance, time without reading, which grows much faster than their number. Two",
            "halves of one month have the same distribution.",
            "",
            "| logs | somcot | CPU s | " + " | ".join(f"{head} | CPU s" for head in heads) + " |",
            "|" + "---|" * (3 + 2 * len(heads)),
            *rows,
        ]
    )


def _halves(path: str, folder: Path) -> tuple[str, str]:
    """Every other session into one file, the rest into another."""
    with open(path, newline="") as file:
        head, *rows = list(csv.reader(file))
    sessions = {name: k % 2 for k, name in enumerate(dict.fromkeys(row[0] for row in rows))}
    for half in range(2):
        with (folder / f"{half}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([head, *(row for row in rows if sessions[row[0]] == half)])
    return str(folder / "0.csv"), str(folder / "1.csv")


def _log_row(name: str, a: str, b: str, python: str | None) -> list[str]:
    best, told = float("inf"), ""
    for _ in range(3):
        began = time.process_time()
        x, y = (from_table(path, sequence="session", time="time", state="page", terminated=True) for path in (a, b))
        result = somcot.distance(x, y, discount=0.9, confidence=0.9, threads=1)
        best = min(best, time.process_time() - began)
        interval = result.confidence_interval
        assert interval is not None
        told = f"{result.distance:.3f} [{interval.low:.3f}, {interval.high:.3f}]"
    cells = [name, told, f"{best:.2f}"]
    for n in VARIANTS:
        cells += _pm4py(python, a, b, n)
    return cells


def _pm4py(python: str | None, a: str, b: str, n: int) -> list[str]:
    if python is None:
        return ["not run", ""]
    command = [python, str(Path(__file__).with_name("log_peers.py")), a, b, str(n)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True)
    except subprocess.TimeoutExpired:
        return ["", f"> {LIMIT}"]
    except subprocess.CalledProcessError:
        return ["failed", ""]
    answer = json.loads(done.stdout.splitlines()[-1])
    return [f"{answer['value']:.3f}", f"{answer['seconds']:.1f}"]


def iteration() -> str:
    """The metric of all pairs beside value iteration, as published code for bisimulation metrics does it."""
    rng = np.random.default_rng(0)
    x, y = (somcot.MarkovChain(rng.random((10, 10)), normalize=True) for _ in range(2))
    cases = {"walk 5": walks(5, 0.3), "walk 10": walks(10, 0.3), "dense 10": (x, y, rng.random((10, 10)))}
    discount = 0.95
    lines = []
    for name, (x, y, cost) in cases.items():
        ours, exact = float("inf"), np.empty(0)
        for _ in range(5):
            began = time.process_time()
            exact = somcot.metric(x, y, cost, discount=discount, threads=1)
            ours = min(ours, time.process_time() - began)
        began = time.process_time()
        values, sweeps = _value_iteration(dense_kernel(x), dense_kernel(y), cost, discount)
        theirs = time.process_time() - began
        error = float(np.abs(values - exact).max())
        lines.append(f"| {name} | {1e3 * ours:.1f} | {theirs / ours:,.0f}x | {sweeps} | {error:.0e} |")
    return "\n".join(
        [
            "## Value iteration",
            "",
            "Bisimulation metrics are usually computed by value iteration, with an exact transport problem for",
            "every pair of states and sweep (Castro 2020). Here it is written with POT's `emd2`, with a tolerance",
            "of 1e-6, and compared with `somcot.metric`.",
            "",
            "| instance | somcot, CPU ms | value iteration | sweeps | its error |",
            "|---|---|---|---|---|",
            *lines,
        ]
    )


def _value_iteration(P: Floats, Q: Floats, cost: Floats, discount: float) -> tuple[Floats, int]:
    values, sweeps, change = np.zeros_like(cost), 0, float("inf")
    while change > 1e-6:
        following = np.array([[ot.emd2(p, q, values) for q in Q] for p in P])
        new = (1 - discount) * cost + discount * following
        change, values, sweeps = float(np.abs(new - values).max()), new, sweeps + 1
    return values, sweeps
