"""Brackets hold for every potential, and close at the optimum."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import eye_array

import somcot
from somcot import Problem
from somcot.certificates import bracket, lower_bound, upper_bound
from somcot.couplings import Coupling
from tests.campaign import oracle
from tests.campaign.families import long_row
from tests.campaign.test_differential import long_truth
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


@pytest.mark.parametrize("n", [1_000, 30_000, 1_000_000])
def test_long_rows_enter_the_bracket(n: int) -> None:
    """A uniform start over n frozen states, one of them free: the distance is 1 - 1/n."""
    x = somcot.MarkovChain(eye_array(n), np.full(n, 1.0 / n))
    cost = np.ones((n, 1))
    cost[0] = 0.0
    result = somcot.distance(x, somcot.MarkovChain([[1.0]]), cost, discount=0.5)
    low, high = result.bounds
    assert Fraction(low) <= 1 - Fraction(1, n) <= Fraction(high)
    assert low <= result.distance <= high
    assert high - low <= 1e-15 * n + 1e-13
    assert result.converged


@pytest.mark.parametrize("seed", range(8))
def test_long_rows_against_two_states(seed: int) -> None:
    problem = long_row(seed, 5_000)
    result = somcot.distance(problem.x, problem.y, problem.cost, discount=problem.discount)
    assert long_truth(problem).inside(*result.bounds)
    assert result.converged


def test_a_bracket_of_width_zero_is_never_next_to_the_truth() -> None:
    """Costs of 1e15 and a bit: the distance is no float, and both ends must stay clear of it."""
    x, y, cost, discount = random_problem(3)
    for shifted in (1e15 + np.round(3 * cost), 5e-324 * np.round(9 * np.abs(cost)), 1e300 * cost):
        truth = oracle.distance(x, y, shifted, discount)
        result = somcot.distance(x, y, shifted, discount=discount)
        assert truth.inside(*result.bounds)
        low, high = bracket(Problem(x, y, shifted, discount), result.potential)
        table = somcot.metric(x, y, shifted, discount=discount)
        assert (low <= table).all()
        assert (table <= high).all()


def test_the_way_back_to_the_user_goes_outwards() -> None:
    """offset + scale * d in rationals lies strictly inside, except at the ends of the cost range."""
    rng = np.random.default_rng(0)
    walk = somcot.random_walk(2)
    for _ in range(300):
        a, b = np.sort(rng.normal(size=2) * 10.0 ** rng.uniform(-12, 12, size=2))
        problem = Problem(walk, walk, [[a, b], [b, a]], 0.9)
        d = float(rng.random())
        exact = Fraction(problem.offset) + Fraction(problem.scale) * Fraction(d)
        low, high = problem.bounds_to_user(d, d)
        assert Fraction(float(low)) < exact < Fraction(float(high)) or a == b
        assert problem.bounds_to_user(0.0, 1.0) == (a, b)


def test_potentials_beyond_floating_point_prove_nothing_and_claim_nothing() -> None:
    walk = somcot.random_walk(3)
    cost = 1.0 - np.eye(3)
    V = np.where(np.eye(3) > 0, 1e308, -1e308)
    low, high = bracket(Problem(walk, walk, cost, 0.9), V)
    truth = somcot.metric(walk, walk, cost, discount=0.9)
    assert np.isfinite(low).all()
    assert np.isfinite(high).all()
    assert (low <= truth).all()
    assert (truth <= high).all()
