"""Other clocks: the long-run average beside pyotc, a finite horizon beside pnot."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tests.instances import Floats, dense_kernel

import somcot
from benchmarks.exact import cpu

PEER_SECONDS = 25  # of CPU


class Average(NamedTuple):
    """Two chains and a cost for the long run."""

    name: str
    x: somcot.MarkovChain
    y: somcot.MarkovChain
    cost: Floats


def averages() -> Iterator[Average]:
    rng = np.random.default_rng(0)
    for n in (5, 10, 20):
        reward = np.r_[1.0, np.zeros(n - 2), -1.0]
        cost = somcot.costs.absolute(reward, reward)
        yield Average(f"walk {n}", somcot.random_walk(n), somcot.random_walk(n, 0.7), cost)
    yield Average("walk 5, itself", somcot.random_walk(5), somcot.random_walk(5), 1.0 - np.eye(5))
    for n in (10, 20, 40):
        x, y = (somcot.MarkovChain(rng.random((n, n)), normalize=True) for _ in range(2))
        cost = rng.random((n, n))
        yield Average(f"dense {n}", x, y, cost)
        if n == 10:
            yield Average("dense 10, cost / 1000", x, y, cost / 1000)
    for n, k in ((10, 2), (20, 3), (50, 3)):
        x, y = (_sparse(rng, n, k) for _ in range(2))
        yield Average(f"sparse {n}, {k} successors", x, y, rng.random((n, n)))
    cycles = [np.roll(np.eye(n), 1, axis=1) for n in (4, 6)]
    yield Average("cycles 4 and 6", somcot.MarkovChain(cycles[0]), somcot.MarkovChain(cycles[1]), rng.random((4, 6)))
    yield Average(
        "two wells, 10",
        _wells(10, 1e-3),
        _wells(10, 1e-2),
        somcot.costs.absolute(np.arange(10) >= 5, np.arange(10) >= 5),
    )


def _sparse(rng: np.random.Generator, n: int, k: int) -> somcot.MarkovChain:
    kernel = np.zeros((n, n))
    for i in range(n):
        kernel[i, rng.choice(n, k, replace=False)] = rng.random(k) + 0.1
        kernel[i, (i + 1) % n] += 0.2
    return somcot.MarkovChain(kernel, normalize=True)


def _wells(n: int, p: float) -> somcot.MarkovChain:
    """Two halves that mix at once, and are left with probability p."""
    half = n // 2
    kernel = np.kron(np.array([[1 - p, p], [2 * p, 1 - 2 * p]]), np.full((half, half), 1 / half))
    return somcot.MarkovChain(kernel, normalize=True)


def run_peer(python: str, name: str, arrays: dict[str, Any]) -> str:
    """What another package finds, in a process of its own: JSON, or why not."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        np.savez(path, **arrays)
        try:
            done = subprocess.run(
                [python, str(Path(__file__).with_name("clock_peers.py")), name, str(path), str(PEER_SECONDS)],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
        except subprocess.CalledProcessError as error:
            if error.returncode == -signal.SIGXCPU:
                return f"> {PEER_SECONDS} s"
            return f"failed: {error.stderr.strip().splitlines()[-1][:60]}"
    printed: str = done.stdout
    return printed


def beside(python: str | None, name: str, arrays: dict[str, Any], value: float, seconds: float) -> str:
    """A cell: how many times longer, and how far off."""
    answer = "not run" if python is None else run_peer(python, name, arrays)
    if not answer.startswith("{"):
        return answer
    record = json.loads(answer)
    if record["value"] is None:
        return f"gave up, {_times(record['seconds'] / seconds)}"
    return f"{_times(record['seconds'] / seconds)}, {record['value'] - value:+.0e}"


def _times(ratio: float) -> str:
    return f"{ratio:.0f}x" if ratio >= 10 else f"{ratio:.2g}x"


def best(turns: int, **call: Any) -> tuple[float, somcot.Result]:
    found = [cpu(lambda: somcot.distance(threads=1, **call)) for _ in range(turns)]
    return min(seconds for seconds, _ in found), found[0][1]


def report(python: str | None) -> str:
    """The whole comparison as a Markdown section."""
    return "\n".join(
        [
            "## Other clocks",
            "",
            "One thread. Other packages: CPU time as a multiple of somcot's in this run, and their value less ours.",
            "pyotc 0.4.0 finds the long-run average from stationary starts; where it gives up after 100 rounds or does",
            f"not end within {PEER_SECONDS} s of CPU, the table says so.",
            "",
            *_table(["instance", "average", "bracket", "CPU s", "pyotc dense", "pyotc sparse"], _averages(python)),
            "",
            "pnot 1.0.0 finds the sum over a horizon between recorded paths; both work on the steps counted at each",
            "time, ours as `TimeChain`. Its time includes the counting.",
            "",
            *_table(["instance", "horizon mean", "bracket", "CPU s", "pnot"], _horizons(python)),
        ]
    )


def _table(head: list[str], rows: Iterator[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        lines.append("| " + " | ".join(row) + " |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def _averages(python: str | None) -> Iterator[list[str]]:
    for name, x, y, cost in averages():
        x, y = x.stationary(), y.stationary()
        somcot.distance(x, y, cost, discount=1)  # loads the kernels
        seconds, found = best(3, x=x, y=y, cost=cost, discount=1)
        arrays = {"P": dense_kernel(x), "Q": dense_kernel(y), "cost": cost}
        peers = [beside(python, f"pyotc {backend}", arrays, found.distance, seconds) for backend in ("dense", "sparse")]
        width = found.bounds.high - found.bounds.low
        yield [name, f"{found.distance:.6g}", f"{width:.0e}", f"{seconds:.4f}", *peers]


def _horizons(python: str | None) -> Iterator[list[str]]:
    rng = np.random.default_rng(1)
    for n, steps, n_paths in ((10, 20, 1000), (10, 150, 1000), (30, 30, 5000)):
        kernels = [rng.dirichlet(np.ones(n), n) for _ in range(2)]
        paths = [_paths(rng, kernel, n_paths, steps) for kernel in kernels]
        x, y = (_counted(p, n) for p in paths)
        cost = somcot.costs.absolute(range(n), range(n))
        somcot.distance(x, y, cost, horizon=2)
        seconds, found = best(2, x=x, y=y, cost=cost, horizon=steps + 1)
        arrays = {"paths_x": paths[0], "paths_y": paths[1]}
        peer = beside(python, "pnot", arrays, found.distance, seconds)
        width = found.bounds.high - found.bounds.low
        yield [f"{n} states, {steps} steps, {n_paths:,} paths", f"{found.distance:.6g}", f"{width:.0e}",
               f"{seconds:.4f}", peer]  # fmt: skip


def _paths(rng: np.random.Generator, kernel: Floats, n_paths: int, steps: int) -> Any:
    found = np.zeros((n_paths, steps + 1), dtype=np.int64)
    ladder = kernel.cumsum(axis=1)
    for t in range(steps):
        found[:, t + 1] = (rng.random(n_paths)[:, None] > ladder[found[:, t]]).sum(axis=1)
    return found


def _counted(paths: Any, n: int) -> somcot.TimeChain:
    """Steps counted at each time; states that were not there at that time stay."""
    kernels = []
    for t in range(paths.shape[1] - 1):
        counts = np.zeros((n, n))
        np.add.at(counts, (paths[:, t], paths[:, t + 1]), 1.0)
        empty = counts.sum(axis=1) == 0
        counts[empty, empty] = 1.0
        kernels.append(counts)
    return somcot.TimeChain(kernels, 0, normalize=True)
