"""Brackets hold for every potential, and close at the optimum."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import eye_array

import somcot
from somcot import ContinuousChain, MarkovChain, Problem, Status
from somcot.certificates import bracket, lower_bound, upper_bound
from somcot.couplings import Coupling
from somcot.plumbing.errors import ConvergenceWarning
from somcot.plumbing.notes import Note
from somcot.solvers.result_builder import PROMISED, sweeps_message
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


# --- What "converged" promises, and brackets of tables


def nearly_decomposable(leak: float, seed: int) -> MarkovChain:
    """Two halves of four states that are left with probability `leak`."""
    rng = np.random.default_rng(seed)
    halves = np.zeros((4, 4))
    halves[:2, :2], halves[2:, 2:] = rng.dirichlet(np.ones(2), 2), rng.dirichlet(np.ones(2), 2)
    return MarkovChain((1 - leak) * halves + leak * rng.dirichlet(np.ones(4), 4), 0, normalize=True)


@pytest.mark.parametrize("leak", [1e-3, 1e-6, 1e-9, 1e-11])
@pytest.mark.parametrize("discount", [1 - 1e-5, 1 - 1e-9])
def test_metrics_of_nearly_decomposable_chains_are_right_or_say_how_wrong(leak: float, discount: float) -> None:
    x, y = nearly_decomposable(leak, 1), nearly_decomposable(leak, 2)
    cost = np.random.default_rng(3).random((4, 4))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = somcot.metric(x, y, cost, discount=discount)
    notes = [entry.message.args[0] for entry in caught if isinstance(entry.message, ConvergenceWarning)]
    assert all(isinstance(note, Note) and note.code == "wide-metric" for note in notes)
    allowed = float(np.ptp(cost)) * (notes[0].values["width"] if notes else PROMISED)
    for i in range(4):
        for j in range(4):
            truth = oracle.distance(MarkovChain(x.transition, i), MarkovChain(y.transition, j), cost, discount)
            assert truth.error(float(table[i, j])) <= allowed
    result = somcot.distance(x, y, cost, discount=discount)
    assert oracle.distance(x, y, cost, discount).inside(*result.bounds)
    assert result.converged == (not notes)


@pytest.mark.parametrize("clock", [{"rate": 1e-9}, {"discount": 1}, {"total": True}])
def test_no_clock_calls_a_wide_bracket_converged(clock: dict[str, Any]) -> None:
    cost, x, y = 1.0 - np.eye(4), nearly_decomposable(1e-12, 1), nearly_decomposable(1e-12, 2)
    a: Any
    b: Any
    a, b = x, y
    if "rate" in clock:
        a, b = ContinuousChain([[-1e3, 1e3], [2e3, -2e3]]), ContinuousChain([[-1.0, 1], [1, -1]])
        cost = cost[:2, :2]
    if "total" in clock:
        a, b = (
            MarkovChain([[p, 1 - p - 1e-12, 1e-12], [0.5, 0.5 - 1e-12, 1e-12], [0, 0, 1]], 0, normalize=True)
            for p in (0.5, 0.3)
        )
        cost = cost[:3, :3]
    result = somcot.distance(a, b, cost, **clock)
    size = result.bounds.high - result.bounds.low
    assert size > PROMISED * max(1.0, result.distance)
    assert result.status is Status.ROUNDING
    assert "the bracket is" in result.message
    with pytest.warns(ConvergenceWarning, match="entries of the metric may be off by up to"):
        somcot.metric(a, b, cost, **clock)


@pytest.mark.parametrize("clock", [{"discount": 0.9}, {"discount": 0.9999}, {"discount": 1}, {"horizon": 5}])
def test_metrics_of_ordinary_chains_do_not_warn(clock: dict[str, Any]) -> None:
    x, y = somcot.random_walk(5), somcot.random_walk(5, 0.7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        somcot.metric(x, y, **clock)


def test_brackets_of_stopped_sweeps_hold_near_discount_one() -> None:
    """Below discount 1 a bracket belongs to the potential of its own sweep; bounds of several do not mix."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 5))
        x, y = (MarkovChain(rng.dirichlet(np.full(n, 0.3), n), int(rng.integers(n))) for _ in range(2))
        cost = rng.random((n, n))
        truth = somcot.distance(x, y, cost, discount=0.9996).bounds
        for sweeps in (1, 2):
            low, high = somcot.distance(x, y, cost, discount=0.9996, max_sweeps=sweeps).bounds
            assert low <= truth.high
            assert truth.low <= high


def test_totals_ignore_states_that_are_never_met() -> None:
    """An endless pair of states that nothing leads to has no part in the time until the end."""
    island = MarkovChain(np.array([[0.5, 0.5, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0.0]]))
    ends = MarkovChain([[0.5, 0.5], [0, 1]])
    result = somcot.distance(island, ends, np.ones((4, 2)), total=True)
    assert result.converged
    assert result.bounds.high - result.bounds.low < 1e-9


def test_interrupted_sweeps_near_discount_one_have_a_message() -> None:
    for status in (Status.CONVERGED, Status.INTERRUPTED, Status.ROUNDING, Status.STEP_LIMIT):
        assert "the bracket is 0.0003 of the cost range wide" in sweeps_message(status, 3e-4, 2)


def test_rates_up_to_rounding_are_the_largest_exit_rate() -> None:
    chain = ContinuousChain([[-3.0, 1, 2], [0, 0, 0], [1, 0, -1]])
    assert chain.uniformised(3.0 * (1 - 1e-15)).transition[0, 0] == 0.0
    with pytest.raises(ValueError, match=r"rate: found 2\.9999999, expected at least the largest exit rate, 3\.0"):
        chain.uniformised(2.9999999)
