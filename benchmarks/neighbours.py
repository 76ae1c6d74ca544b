"""What neighbouring fields use: variants of traces, the mix of labels, value iteration, spectra of operators."""

from __future__ import annotations

import csv
import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import ot
import pyarrow.csv
import scipy.linalg
from scipy.spatial.distance import jensenshannon
from tests.instances import Floats, dense_kernel, walks

import somcot
from somcot.data import clickstream
from somcot.readers import from_table

VARIANTS = (100, 200)
LIMIT = 1800


def logs(python: str | None) -> str:
    """Two months of the bundled shop, two halves of one of them, and one in another order, beside others."""
    may, june = (str(clickstream.path(month)) for month in ("may", "june"))
    with tempfile.TemporaryDirectory() as folder:
        halves = _halves(may, Path(folder))
        pairs = {
            "May and June": (may, june),
            "two halves of May": halves,
            "those, one with a tenth of neighbouring pages exchanged": (halves[0], _exchanged(halves[1], 0.1)),
        }
        rows = ["| " + " | ".join(_log_row(name, a, b, python)) + " |" for name, (a, b) in pairs.items()]
    heads = ["page mix", *(f"pm4py, {n} variants" for n in VARIANTS)]
    return "\n".join(
        [
            "## Event logs",
            "",
            "5,000 sessions a month in the bundled shop, about 2,000 distinct ones. somcot: distance with labels at",
            "discount 0.9, 90 % interval, time including reading. pm4py 2.7.23: earth mover's distance of the most",
            "frequent variants by edit distance, time without reading, which grows much faster than their number. Page",
            "mix: Jensen-Shannon distance (base 2) of the shares of the pages, as tools for drift compute it for",
            "categories, time including reading. Two halves of one month have the same distribution.",
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


def _exchanged(path: str, share: float) -> str:
    """The same sessions with some neighbouring pages exchanged: what is visited is the same, its order is not."""
    rng = np.random.default_rng(0)
    with open(path, newline="") as file:
        head, *rows = list(csv.reader(file))
    sequence, page = head.index("session"), head.index("page")
    rows.sort(key=lambda row: (row[sequence], row[head.index("time")]))
    for one, other in pairwise(rows):
        if one[sequence] == other[sequence] and rng.random() < share:
            one[page], other[page] = other[page], one[page]
    target = f"{path}.exchanged.csv"
    with open(target, "w", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    return target


def _mix(a: str, b: str) -> list[str]:
    """Jensen-Shannon distance of the shares of the pages, and CPU seconds."""
    best, value = float("inf"), float("nan")
    wanted = pyarrow.csv.ConvertOptions(include_columns=["page"])
    for _ in range(3):
        began = time.process_time()
        counts = []
        for path in (a, b):
            column = pyarrow.csv.read_csv(path, convert_options=wanted)["page"]
            counts.append({entry["values"]: entry["counts"] for entry in column.value_counts().to_pylist()})
        pages = sorted({*counts[0], *counts[1]})
        value = float(jensenshannon(*([c.get(page, 0) for page in pages] for c in counts), base=2))
        best = min(best, time.process_time() - began)
    return [f"{value:.3f}", f"{best:.2f}"]


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
    cells = [name, told, f"{best:.2f}", *_mix(a, b)]
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


def operators() -> str:
    """The distance of two known chains beside POT's metric of their spectra."""
    n, discount = 20, 0.95
    walk, other = somcot.random_walk(n, 0.5), somcot.random_walk(n, 0.55)
    places = np.arange(n) / (n - 1)
    between = np.abs(places[:, None] - places)
    start = np.zeros(n)
    start[-1] = 1.0
    order = np.random.default_rng(0).permutation(n)
    P = dense_kernel(walk)
    halves = np.repeat(np.repeat(P, 2, axis=0), 2, axis=1) / 2
    cases: dict[str, tuple[somcot.MarkovChain, Floats]] = {
        "the same walk": (walk, between),
        "to the right with probability 0.55, not 0.5": (other, between),
        "the other end as initial state": (somcot.MarkovChain(P, start), between),
        "states numbered otherwise": (
            somcot.MarkovChain(P[np.ix_(order, order)], walk.initial[order]), between[:, order]
        ),
        "each state as two equal ones": (
            somcot.MarkovChain(halves, np.repeat(walk.initial, 2) / 2), np.repeat(between, 2, axis=1)
        ),
    }  # fmt: skip
    lines = []
    for name, (y, cost) in cases.items():
        Q = dense_kernel(y)
        ours, result = _fastest(partial(somcot.distance, walk, y, cost, discount=discount, threads=1))
        cells = [name, f"{result.distance:.4f}", f"{1e3 * ours:.1f}"]
        if len(Q) == len(P):
            theirs, value = _fastest(partial(_spectral, P, Q))
            cells += [f"{value:.4f}", f"{theirs / ours:.1f}x"]
        else:
            cells += ["needs equal numbers of states", ""]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(
        [
            "## Spectra of operators",
            "",
            f"A random walk of {n} states and a variant of it; the cost is the distance of the places. POT's `ot.sgot`",
            "(Germain et al. 2025) compares eigenvalues and eigenspaces of linear operators, here of the transition",
            "matrices: without a cost, a discount or initial distributions, and for other operators too. Time as a",
            "multiple of somcot's, with the decomposition.",
            "",
            "| second chain | somcot | CPU ms | ot.sgot | time |",
            "|---|---|---|---|---|",
            *lines,
        ]
    )


def _fastest(call: Callable[[], Any]) -> tuple[float, Any]:
    best, answer = float("inf"), call()
    for _ in range(10):
        began = time.process_time()
        answer = call()
        best = min(best, time.process_time() - began)
    return best, answer


def _spectral(P: Floats, Q: Floats) -> float:
    atoms = []
    for kernel in (P, Q):
        values, left, right = scipy.linalg.eig(kernel, left=True, right=True)
        atoms += [values, right, left]
    return float(ot.sgot.sgot_metric(*atoms))
