"""Sinkhorn value iteration: a true upper bound that says how far off it may be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import somcot
from somcot import Status
from somcot.couplings import round_symmetric
from somcot.solvers.sinkhorn import round_entries, rounded_plan, sinkhorn_steps
from tests.instances import blocks, random_problem, walks


@pytest.mark.parametrize("seed", range(30))
def test_upper_bound_within_its_bracket(seed: int) -> None:
    x, y, cost, discount = random_problem(seed, largest=5)
    exact = somcot.distance(x, y, cost, discount=discount).distance
    result = somcot.distance(x, y, cost, discount=discount, method="sinkhorn", epsilon=0.01)
    assert result.distance >= exact - 1e-11
    assert result.bounds.low <= exact + 1e-11
    assert result.distance <= result.bounds.high
    assert max(result.residuals) <= 1e-10
    assert "upper bound" in result.message


@pytest.mark.parametrize("discount", [0.95, 0.99])
def test_close_to_exact_on_the_walks(discount: float) -> None:
    for problem in (walks(5, 0.3), walks(10, 0.7), blocks(5, 3, 0.3)):
        exact = somcot.distance(*problem, discount=discount).distance
        result = somcot.distance(*problem, discount=discount, method="sinkhorn")
        assert result.converged
        assert exact - 1e-11 <= result.distance <= exact + 1e-3


def test_smaller_epsilon_is_closer() -> None:
    rng = np.random.default_rng(0)
    x, y = (somcot.MarkovChain(rng.random((8, 8)), normalize=True) for _ in range(2))
    cost = rng.random((8, 8))
    exact = somcot.distance(x, y, cost, discount=0.9).distance
    errors = [
        somcot.distance(x, y, cost, discount=0.9, method="sinkhorn", epsilon=epsilon).distance - exact
        for epsilon in (0.3, 0.03, 0.003)
    ]
    assert errors[0] > 3 * errors[1] > 9 * errors[2] > -1e-11


def test_compiled_rounding_matches_the_plain_one() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        n, m = rng.integers(1, 6, size=2)
        plan = rng.random((n, m))
        p, q = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(m))
        np.testing.assert_allclose(rounded_plan(plan, p, q), round_symmetric(plan, p, q), atol=1e-14)


def test_step_limit_is_reported() -> None:
    result = somcot.distance(*walks(10, 0.7), discount=0.99, method="sinkhorn", max_sweeps=3)
    assert result.status is Status.STEP_LIMIT
    assert "raise max_sweeps" in result.message
    exact = somcot.distance(*walks(10, 0.7), discount=0.99).distance
    assert result.bounds.low <= exact <= result.distance + 1e-11


@pytest.mark.parametrize("option", ["epsilon", "tolerance"])
def test_options_must_be_positive(option: str) -> None:
    x, y, cost = walks(3, 0.7)
    options: dict[str, Any] = {option: 0}
    with pytest.raises(ValueError, match=f"{option}: found 0"):
        somcot.distance(x, y, cost, discount=0.9, method="sinkhorn", **options)


def test_interrupt_keeps_a_feasible_coupling(monkeypatch: pytest.MonkeyPatch) -> None:
    """No polishing after Ctrl-C: what there is is rounded and evaluated."""
    from somcot.solvers import sinkhorn

    transport, calls = sinkhorn.SinkhornPlans.transport, []

    def impatient(self: Any, max_steps: int, tolerance: float) -> None:
        calls.append(max_steps)
        if len(calls) == 4:
            raise KeyboardInterrupt
        transport(self, max_steps, tolerance)

    monkeypatch.setattr(sinkhorn.SinkhornPlans, "transport", impatient)
    result = somcot.distance(*walks(5, 0.7), discount=0.9, method="sinkhorn")
    exact = somcot.distance(*walks(5, 0.7), discount=0.9).distance
    assert result.status is Status.INTERRUPTED
    assert len(calls) == 4
    assert result.bounds.low <= exact <= result.distance + 1e-11


@pytest.mark.parametrize("epsilon", [1e-30, 1e-300, 5e-324])
def test_vanishing_temperatures_keep_a_bracket(epsilon: float) -> None:
    """No NaN and no warning (warnings are errors here), whatever was reached."""
    x, y, cost = walks(4, 0.7)
    result = somcot.distance(x, y, cost, discount=0.9, method="sinkhorn", epsilon=epsilon, max_sweeps=5000)
    exact = somcot.distance(x, y, cost, discount=0.9).distance
    assert cost.min() <= result.bounds.low <= exact <= result.bounds.high <= cost.max()
    assert result.bounds.low <= result.distance <= result.bounds.high


def test_long_rows_take_few_steps_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C gets through between calls: no call does more than about fifty steps on 20,000 cells."""
    from somcot.solvers import sinkhorn

    work: list[int] = []

    def counted(lo: int, hi: int, *rest: Any) -> float:
        cells = int(np.diff(offsets)[lo:hi].sum())
        work.append(cells * rest[-3])
        return float(sinkhorn_steps(lo, hi, *rest))

    rng = np.random.default_rng(0)
    x, y = (somcot.MarkovChain(np.eye(300), rng.random(300), normalize=True) for _ in range(2))
    offsets = np.concatenate([np.arange(300 * 300 + 1), [300 * 300 + 300 * 300]])
    monkeypatch.setattr(sinkhorn, "sinkhorn_steps", counted)
    somcot.distance(x, y, rng.random((300, 300)), discount=0.5, method="sinkhorn", max_sweeps=2, epsilon=0.5)
    assert max(work) <= 2 * 50 * 20_000


def test_interrupt_of_a_large_problem_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounding and evaluating the plans would take longer than anyone who pressed Ctrl-C waits."""
    from somcot.solvers import sinkhorn

    def impatient(self: Any, max_steps: int, tolerance: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sinkhorn.SinkhornPlans, "transport", impatient)
    monkeypatch.setattr(sinkhorn, "_AT_ONCE", 10)
    with pytest.raises(KeyboardInterrupt):
        somcot.distance(*walks(5, 0.7), discount=0.9, method="sinkhorn")


def test_plans_hold_at_most_one_whatever_rounding_says() -> None:
    """Potentials too high, as rounding makes them at temperatures near 0: the diagonal counts as 1, not e^2."""
    chain = somcot.MarkovChain([[0.25, 0.75], [0.5, 0.5]])
    at, places = np.zeros(1, dtype=np.int32), np.array([0, 2], dtype=np.int64)
    indices, data = np.empty(4, dtype=np.int32), np.empty(4)
    round_entries(
        0, 1, 5.0 - 5.0 * np.eye(2), at, at, chain.support, chain.support, 1.0, places, places,
        np.ones(2), np.ones(2), np.array([0, 4], dtype=np.int64),
        np.arange(4, dtype=np.int32).reshape(2, 2), indices, data,
    )  # fmt: skip
    p = chain.support.probabilities[:2]
    expected = rounded_plan(np.array([[1.0, np.exp(-3.0)], [np.exp(-3.0), 1.0]]), p, p)
    np.testing.assert_allclose(data.reshape(2, 2), expected, atol=1e-14)


def test_sweeps_that_settle_without_a_bracket_have_not_converged(monkeypatch: pytest.MonkeyPatch) -> None:
    from somcot.solvers import sinkhorn

    x, y, cost = walks(5, 0.7)
    assert somcot.distance(x, y, cost, discount=0.9, method="sinkhorn").converged
    monkeypatch.setattr(sinkhorn, "_TARGET", 1e-6)
    wide = somcot.distance(x, y, cost, discount=0.9, method="sinkhorn")
    assert wide.status is Status.STEP_LIMIT
    assert "raise inner_steps" in wide.message
