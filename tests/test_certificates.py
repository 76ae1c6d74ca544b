"""Brackets hold for every potential, and close at the optimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import somcot
from somcot import Problem
from somcot.certificates import bracket, lower_bound, upper_bound
from somcot.couplings import Coupling
from tests.instances import random_problem


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 1e-3, 1.0, 100.0]))
def test_any_potential_gives_a_bracket(seed: int, noise: float) -> None:
    x, y, cost, discount = random_problem(seed, largest=5)
    truth = somcot.metric(x, y, cost, discount=discount)
    V = truth / (1 - discount) + noise * np.random.default_rng(seed).normal(size=cost.shape)
    low, high = bracket(Problem(x, y, cost, discount), V)
    assert (low <= truth + 1e-11).all()
    assert (high >= truth - 1e-11).all()
    if noise == 0.0:
        assert (high - low).max() <= 1e-9


@pytest.mark.parametrize("seed", range(15))
def test_value_iteration_from_zero_is_a_rising_lower_bound(seed: int) -> None:
    x, y, cost, discount = random_problem(seed, largest=5)
    problem = Problem(x, y, cost, discount)
    truth = somcot.metric(x, y, cost, discount=discount)
    last = lower_bound(problem, 0)
    np.testing.assert_allclose(last, cost.min(), atol=1e-15)
    for m in (1, 5, 30):
        bound = lower_bound(problem, m)
        assert (bound <= truth + 1e-12).all()
        assert (bound >= last - 1e-12).all()
        assert (truth - bound).max() <= discount**m * np.ptp(cost) + 1e-9
        last = bound


@pytest.mark.parametrize("seed", range(20))
def test_nearly_feasible_couplings_bound_from_above(seed: int) -> None:
    x, y, cost, discount = random_problem(seed, largest=4)
    problem = Problem(x, y, cost, discount)
    exact = somcot.distance(x, y, cost, discount=discount)
    assert exact.plan is not None
    assert problem.to_user(upper_bound(problem, exact.plan)) == pytest.approx(exact.distance, abs=1e-8)
    # Mass moved to the cheapest place costs less than the optimum; the bound must still hold.
    mu = 0.99 * exact.coupling()
    cheapest = np.unravel_index(cost.argmin(), cost.shape)
    mu[(*cheapest, *cheapest)] += 0.01
    cheap = Coupling.from_dense(mu, exact.plan.start)
    assert problem.to_user(upper_bound(problem, cheap)) >= exact.distance - 1e-12


def test_potential_of_the_wrong_shape_is_refused() -> None:
    walk = somcot.random_walk(3)
    with pytest.raises(ValueError, match=r"potential: shape is \(2, 3\), expected \(3, 3\)"):
        bracket(Problem(walk, walk, np.zeros((3, 3)), 0.9), np.zeros((2, 3)))
