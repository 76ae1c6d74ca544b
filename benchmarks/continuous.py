"""Measure distances between recordings of real vectors where the truth is known: ``python -m benchmarks.continuous``.

Prints the tables of docs/continuous.md: errors of cells alone, of the library's estimate on them and of the answer,
coverage of both intervals at 90 %, and the CPU time of an answer. Takes some minutes.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from tests.continuous.further_systems import FURTHER
from tests.continuous.systems import SYSTEMS, System
from tests.continuous.unseen_systems import UNSEEN
from tests.continuous.without import WITHOUT

import somcot

FAMILIES = {"known": SYSTEMS, "unseen": UNSEEN, "further": FURTHER, "without": WITHOUT}
N_STEPS = 40


def run(system: System, n: int, seed: int) -> tuple[somcot.Result, float]:
    """One answer and its CPU seconds; coordinates as they are."""
    x, y = system.record(n // N_STEPS, N_STEPS, np.random.default_rng(seed))
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = somcot.distance(x, y, system.cost, discount=0.95, confidence=0.9, scale=1.0, threads=1)
    return found, time.process_time() - began


def row(name: str, system: System, n: int, seeds: range) -> str:
    """Mean absolute errors, coverage of the answer, how it was found."""
    found = [run(system, n, seed) for seed in seeds]
    results = [result for result, _ in found]
    d = system.truth
    raw, estimate, answer = (
        float(np.mean([abs(v - d) for v in values]))
        for values in (
            [float(r.plugin or 0.0) for r in results],
            [r.resolution.estimate[-1] for r in results if r.resolution is not None],
            [r.distance for r in results],
        )
    )
    intervals = [r.confidence_interval for r in results if r.confidence_interval is not None]
    held = f"{np.mean([low <= d <= high for low, high, _ in intervals]):.2f}" if intervals else "none"
    width = f"{np.mean([high - low for low, high, _ in intervals]):.3f}" if intervals else ""
    routes = [r.continuous.route for r in results if r.continuous is not None]
    ways = ", ".join(f"{way} {routes.count(way)}" for way in sorted(set(routes)))
    checks = [r.shift_check.passed for r in results if r.shift_check is not None]
    value = np.mean([r.distance for r in results])
    return (
        f"| {name} | {d:.3f} | {value:.3f} | {raw:.3f} | {estimate:.3f} | {answer:.3f} | {held} | {width} | {ways} | "
        f"{np.mean(checks):.2f} | {np.mean([seconds for _, seconds in found]):.1f} |"
    )


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("--n", type=int, default=10_000, help="transitions of each recording")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--only", default="", help="systems whose name contains this")
    given = parser.parse_args()
    columns = ("system", "truth", "answer", "error, cells", "error, estimate", "error, answer", "coverage", "width")
    print("| " + " | ".join((*columns, "way", "check passed", "CPU s")) + " |")
    print("|---" * (len(columns) + 3) + "|", flush=True)
    for name, system in FAMILIES[given.family].items():
        if given.only in name:
            print(row(name, system, given.n, range(given.first, given.first + given.seeds)), flush=True)


if __name__ == "__main__":
    main()
