"""(a) Every solver against whole-number arithmetic on nasty problems: brackets must contain the truth."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import somcot
from tests.campaign import oracle
from tests.campaign.families import Nasty, long_row, nasty
from tests.campaign.table import SEED, Row

METHODS: dict[str, dict[str, Any]] = {
    "exact": {},
    "lp": {},
    "saddle": {"max_steps": 1000},
    "sinkhorn": {"epsilon": 0.02, "max_sweeps": 200},
}
LENGTHS = (100, 1_000, 10_000, 100_000)
SLICE, FULL = 60, 20_000
CHUNKS = 200


def long_truth(problem: Nasty) -> oracle.Truth:
    """Frozen chains: only the start laws are transported, onto one or two states, by a sort; all in whole numbers."""
    _, a = oracle.masses(problem.x.initial)
    _, b = oracle.masses(problem.y.initial)
    cost = [[Fraction(value) for value in row] for row in problem.cost[np.flatnonzero(problem.x.initial)].tolist()]
    unit = max(value.denominator for row in cost for value in row)
    table = [[int(value * unit) for value in row] for row in cost]
    total = sum(a) * sum(b)
    value = sum(row[0] * mass * sum(b) for row, mass in zip(table, a, strict=True))
    left = b[1] * sum(a) if len(b) == 2 else 0
    # All mass is on column 0; the second column takes what gains most from it.
    for gain, mass in sorted((row[-1] - row[0], mass) for row, mass in zip(table, a, strict=True)):
        moved = min(left, mass * sum(b))
        value += gain * moved
        left -= moved
    return oracle.Truth(Fraction(value, total * unit), Fraction(value, total * unit))


def judge(problem: Nasty, truth: oracle.Truth, method: str) -> tuple[list[str], float]:
    """What is wrong with an answer, and how far a converged one is off, relative to the range of the cost."""
    result = somcot.distance(
        problem.x, problem.y, problem.cost, discount=problem.discount, method=method, **METHODS[method]
    )
    low, high = result.bounds
    # Converged up to 1e-6 of the range; only rounding, for slow processes close to discount 1, may leave more.
    most = (1e-6 if result.converged else 1e-4) * float(np.ptp(problem.cost)) + 8.0 * np.spacing(
        abs(problem.cost).max()
    )
    stopped = not result.converged and result.status is not somcot.Status.ROUNDING
    faults = {
        f"misses {float(truth.low)!r}": not truth.inside(low, high),
        "does not hold the distance": not low <= result.distance <= high,
        "leaves the range of the cost": not problem.cost.min() <= low <= high <= problem.cost.max(),
        f"is not proved: {result.message}": method == "exact" and (stopped or high - low > most),
    }
    bracket = f"{method} on {problem.family}: bracket {low!r} to {high!r} of {result.distance!r}"
    span, unit = float(np.ptp(problem.cost)), 4.0 * float(np.spacing(np.abs(problem.cost).max()))
    error = max(truth.error(result.distance) - unit, 0.0) / span if result.converged and span > unit else 0.0
    return [f"{bracket} {fault}" for fault, occurs in faults.items() if occurs], error


def check(problems: Iterator[tuple[Nasty, oracle.Truth]], methods: Iterable[str], part: str) -> None:
    """Every problem by every method; one line of the table for each method."""
    rows = {method: Row(f"{part}: {method}", "of the cost range off") for method in methods}
    found = []
    for problem, truth in problems:
        for method, row in rows.items():
            faults, error = judge(problem, truth, method)
            found += faults
            row.cases, row.failures, row.worst = row.cases + 1, row.failures + bool(faults), max(row.worst, error)
    for row in rows.values():
        row.write()
    assert not found, "\n".join(found[:10])


def small(seeds: range) -> Iterator[tuple[Nasty, oracle.Truth]]:
    for seed in seeds:
        problem = nasty(seed)
        yield problem, oracle.distance(problem.x, problem.y, problem.cost, problem.discount)


def test_slice() -> None:
    check(small(range(SLICE)), METHODS, "differential, slice")


@pytest.mark.parametrize("n", LENGTHS[:3])
def test_long_rows(n: int) -> None:
    problems = (long_row(seed, n) for seed in range(6))
    check(((problem, long_truth(problem)) for problem in problems), ["exact"], "long rows, slice")


@pytest.mark.campaign
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_in_full(chunk: int) -> None:
    count = int(os.environ.get("SOMCOT_CAMPAIGN_PROBLEMS", FULL)) // CHUNKS
    begin = 1_000_000_000 * SEED + 1_000_000 + chunk * count
    check(small(range(begin, begin + count)), METHODS, "differential")


@pytest.mark.campaign
@pytest.mark.parametrize("n", LENGTHS)
def test_long_rows_in_full(n: int) -> None:
    problems = (long_row(1_000_000 * SEED + 1_000 + seed, n) for seed in range(40 if n < 100_000 else 8))
    check(((problem, long_truth(problem)) for problem in problems), ["exact"], "long rows")
