"""Everything that makes large problems fast, forced on small nasty ones and held against exact arithmetic.

States left out and merged, mirror images, early policies evaluated roughly, the simplex for wide supports: each is
taken only where it pays, which is hardly ever where the oracle can follow. Here the thresholds are gone, but for the
width from which on there are enough columns for that simplex.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from somcot import MarkovChain, Problem
from somcot.core import reduction as reduce
from somcot.core.transport.wide_pairs import WIDE
from somcot.solvers import policy_iteration
from tests.campaign import families, oracle
from tests.instances import Floats

Made = tuple[MarkovChain, MarkovChain, Floats, float]


def nearly_lumpable(rng: np.random.Generator) -> Made:
    """Copies of two states that differ by up to a few units in the last place, or by a little more."""
    noise = float(rng.choice([0.0, 1e-16, 1e-15, 1e-13, 1e-9]))
    small, labels = rng.dirichlet(np.ones(2), size=2), rng.permutation([0, 0, 1, 1])
    P = np.array([[small[labels[i], labels[j]] / 2 for j in range(4)] for i in range(4)])
    P *= 1.0 + noise * rng.integers(-3, 4, size=P.shape)
    features = labels + 0.0
    other = families.chain(rng, 3, str(rng.choice(families.KERNELS)))
    cost = np.abs(features[:, None] - rng.integers(0, 2, size=3) / 2.0)
    return MarkovChain(P, rng.dirichlet(np.ones(4)), normalize=True), other, cost, 0.95


def rare(rng: np.random.Generator) -> Made:
    """States that are reached with probabilities around what may be left out, and lead back."""
    x, y = (_line(rng, int(rng.integers(3, 5))) for _ in range(2))
    return x, y, rng.random((x.n_states, y.n_states)), float(rng.choice([0.3, 0.9, 0.999]))


def _line(rng: np.random.Generator, n: int) -> MarkovChain:
    P = np.eye(n)
    for i in range(n - 1):
        P[i, i + 1] = 10.0 ** rng.uniform(-16, -2)
        P[i + 1, 0] += rng.random()
    return MarkovChain(P, np.eye(n)[0], normalize=True)


def parts(rng: np.random.Generator) -> Made:
    """Parts that never meet, some without a way in, some without a way out, with ties everywhere."""
    chains = []
    for _ in range(2):
        P = np.zeros((4, 4))
        P[:2, :2], P[2:, 2:] = rng.integers(1, 3, size=(2, 2)), np.eye(2)
        P[1, 3] = float(rng.integers(0, 2))
        start = np.array([1.0, 0.0, float(rng.integers(0, 2)), 0.0])
        chains.append(MarkovChain(P, start / start.sum(), normalize=True))
    return chains[0], chains[1], rng.integers(0, 2, size=(4, 4)).astype(float), 0.9


def itself(rng: np.random.Generator) -> Made:
    """A chain with itself from two starts, and a symmetric cost."""
    chain = families.chain(rng, 3, str(rng.choice(families.KERNELS)))
    features = rng.integers(0, 3, size=3).astype(float)
    other = MarkovChain(chain.transition, rng.dirichlet(np.ones(3)))
    return chain, other, np.abs(features[:, None] - features), 0.95


def long_rows(rng: np.random.Generator) -> Made:
    """Rows of a dozen entries over many orders of magnitude against rows of two."""
    P = 10.0 ** rng.uniform(-17, 0, size=(12, 12))
    x = MarkovChain(P, rng.dirichlet(np.ones(12)), normalize=True)
    return x, families.chain(rng, 2, "dense"), rng.integers(0, 3, size=(12, 2)).astype(float), 0.9


def wide_rows(rng: np.random.Generator) -> Made:
    """Rows that the simplex for wide supports takes, over many orders of magnitude."""
    x, y = (MarkovChain(10.0 ** rng.uniform(-17, 0, size=(WIDE, WIDE)), normalize=True) for _ in range(2))
    return x, y, rng.integers(0, 3, size=(WIDE, WIDE)).astype(float), 0.9


def nasty(rng: np.random.Generator) -> Made:
    """What the campaign has."""
    problem = families.nasty(int(rng.integers(10**6)))
    return problem.x, problem.y, problem.cost, problem.discount


KINDS: dict[str, Callable[[np.random.Generator], Made]] = {
    made.__name__: made for made in (nearly_lumpable, rare, parts, itself, long_rows, wide_rows, nasty)
}


@pytest.fixture(autouse=True)
def _without_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in (
        (reduce, "_SMALL", 1), (reduce, "_QUICK", 1), (reduce, "_FEW", 2), (policy_iteration, "_MANY", 1),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)


def judge(kind: str, seed: int) -> None:
    """The bracket holds the truth, with and without reductions, and both name the same number."""
    x, y, cost, discount = KINDS[kind](np.random.default_rng(seed))
    truth = oracle.distance(x, y, cost, discount)
    problem = Problem(x, y, cost, discount)
    width = float(np.ptp(cost)) or 1.0
    values = []
    choices: list[dict[str, Any]] = [{"reduce": False}, {"reduce": True}, {"tolerance": 1e-6}]
    for options in choices:
        found = policy_iteration.solve(problem, **options)
        assert truth.inside(*found.bounds), f"{kind} {seed}: {found.bounds} without {float(truth.low)}"
        values.append(found.distance)
    close = 1e-12 + 1e-15 / (1.0 - discount)
    assert abs(values[0] - values[1]) <= width * close
    assert truth.error(values[1]) <= width * close + 1e-15 * float(np.abs(cost).max())
    assert abs(values[0] - values[2]) <= width * (close + 1e-6)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", KINDS)
def test_brackets_hold_the_truth(kind: str, seed: int) -> None:
    judge(kind, seed)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_brackets_hold_the_truth_on_many(kind: str) -> None:
    for seed in range(1000, 1200):
        judge(kind, seed)


def test_a_bracket_that_leaves_out_what_was_lost_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduce.Reduced, "lost", 0.0)
    caught = []
    for seed in range(60):
        try:
            judge("rare", seed)
        except AssertionError as error:
            caught.append("without" in str(error))
    assert any(caught)
