"""Many processes at once against a loop over `distance`, in one run, as ratios."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import somcot
from somcot.chains import MarkovChain

__all__ = ["report"]

_LOOKED_AT = 30  # pairs of the loop that are timed; the rest would take the same each
_LARGE = 3000  # pairs from which on the matrix is timed once


def _cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _walks() -> list[MarkovChain]:
    return [somcot.random_walk(10, theta, start=s) for theta in np.linspace(0.3, 0.7, 9) for s in range(8)]


def _walk_data(n: int) -> list[Any]:
    return [somcot.random_walk(10, t).sample(60, 50, rng=k) for k, t in enumerate(np.linspace(0.3, 0.7, n))]


def _dense_data(n: int) -> list[Any]:
    rng = np.random.default_rng(0)
    base = rng.dirichlet(np.ones(10), 10)
    mixed = (0.8 * base + 0.2 * rng.dirichlet(np.ones(10), 10) for _ in range(n))
    return [MarkovChain(kernel, normalize=True).sample(60, 50, rng=k) for k, kernel in enumerate(mixed)]


def _row(name: str, processes: Sequence[Any], discount: float, confidence: float | None) -> str:
    cost = np.abs(np.subtract.outer(np.arange(10), np.arange(10))) / 9.0
    n = len(processes)
    pairs = [(i, j) for i in range(n) for j in range(i, n) if i < j or confidence is None]
    some = [pairs[k] for k in np.random.default_rng(1).choice(len(pairs), _LOOKED_AT, replace=False)]

    def one_by_one() -> None:
        for i, j in some:
            somcot.distance(processes[i], processes[j], cost, discount=discount, confidence=confidence)

    def at_once() -> None:
        somcot.distance_matrix(processes, cost, discount=discount, confidence=confidence, threads=1)

    somcot.distance_matrix(processes[:2], cost, discount=discount, confidence=confidence)
    one_by_one()
    loop = _cpu(one_by_one) / len(some) * len(pairs)
    whole = _cpu(at_once) if len(pairs) > _LARGE else min(_cpu(at_once) for _ in range(2))
    return f"| {name} | {len(pairs):,} | {loop:.2f} | {whole:.2f} | {loop / whole:.1f} |"


def report() -> str:
    """The section as Markdown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [
            _row("72 known walks of 10 states (9 kernels), discount 0.99", _walks(), 0.99, None),
            _row("recorded walks of 10 states, intervals, discount 0.9", _walk_data(101), 0.9, 0.9),
            _row("recorded dense chains of 10 states, intervals, discount 0.9", _dense_data(101), 0.9, 0.9),
        ]
    head = (
        "## Many processes\n\nSeconds of CPU on one core; the loop is timed on 30 pairs and scaled up.\n\n"
        "| processes | pairs | loop over distance | distance_matrix | ratio |\n|---|---|---|---|---|"
    )
    return "\n".join([head, *rows])


if __name__ == "__main__":
    print(report())
