"""Smaller problems: the same answers with and without them, on chains with symmetries planted and without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import somcot
from somcot import MarkovChain, Problem
from somcot.core import reduction as reduce
from somcot.solvers import policy_iteration
from tests.instances import KINDS, Floats, dense_kernel, random_chain

seeds = st.integers(0, 10**6)
many = settings(max_examples=80)


@pytest.fixture(autouse=True)
def _small_problems_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reductions are not looked for where they cannot pay; here they are."""
    monkeypatch.setattr(reduce, "_SMALL", 1)
    monkeypatch.setattr(reduce, "_QUICK", 1)
    monkeypatch.setattr(reduce, "_FEW", 2)


def planted(rng: np.random.Generator, kind: str, noise: float = 0.0) -> tuple[MarkovChain, Floats, Floats]:
    """A chain whose states are copies of fewer, in random order; features of the copies are equal.

    Copies share out the probabilities of their original anew in every row, so rows are alike only block by block.
    """
    k = int(rng.integers(1, 5))
    small = random_chain(rng, k, kind)
    labels = rng.permutation(np.concatenate([np.arange(k), rng.integers(k, size=int(rng.integers(0, 7)))]))
    P, start = np.zeros((len(labels), len(labels))), np.zeros(len(labels))
    for block in range(k):
        members = np.flatnonzero(labels == block)
        for x in range(len(labels)):
            P[x, members] = dense_kernel(small)[labels[x], block] * rng.dirichlet(np.ones(len(members)))
        start[members] = small.initial[block] * rng.dirichlet(np.ones(len(members)))
    P = np.abs(P + noise * P * rng.normal(size=P.shape))
    P = P / P.sum(axis=1, keepdims=True)
    kernel: Any = csr_array(P) if rng.random() < 0.5 else P
    return MarkovChain(kernel, start, normalize=True), labels, rng.integers(0, 3, size=k).astype(float)[labels]


def problems(seed: int, noise: float = 0.0) -> tuple[Problem, Floats, Floats]:
    rng = np.random.default_rng(seed)
    x, labels_x, f = planted(rng, str(rng.choice(KINDS)), noise)
    y, labels_y, g = planted(rng, str(rng.choice(KINDS)), noise)
    cost = np.abs(f[:, None] - g) if rng.random() < 0.8 else np.zeros((len(f), len(g)))
    return Problem(x, y, cost, float(rng.choice([0.001, 0.5, 0.95, 0.999]))), labels_x, labels_y


def agree(problem: Problem, **options: Any) -> somcot.Result:
    """Solve with and without reductions and compare."""
    plain = policy_iteration.solve(problem, reduce=False)
    small = policy_iteration.solve(problem, **options)
    width = 1e-12 + (small.bounds.high - small.bounds.low)
    assert small.distance == pytest.approx(plain.distance, abs=width)
    assert small.bounds.low <= plain.bounds.high
    assert plain.bounds.low <= small.bounds.high
    assert small.bounds.low <= small.distance <= small.bounds.high
    assert small.converged
    return small


@many
@given(seeds)
def test_merged_states_change_nothing(seed: int) -> None:
    problem, labels_x, labels_y = problems(seed)
    found = agree(problem)
    table = policy_iteration.metric(problem)[0]
    np.testing.assert_allclose(table, policy_iteration.metric(problem, reduce=False)[0], atol=1e-12)
    reached = ~np.isnan(found.potential)
    np.testing.assert_allclose((1 - problem.discount) * found.potential[reached], table[reached], atol=1e-11)
    small = reduce.reduce(problem.unit)
    assert small.problem.shape[0] <= labels_x.max() + 1
    assert small.problem.shape[1] <= labels_y.max() + 1


@many
@given(seeds)
def test_couplings_of_merged_states_are_couplings_of_all(seed: int) -> None:
    problem, _, _ = problems(seed)
    found = policy_iteration.solve(problem)
    assert max(found.residuals) <= 1e-12 / (1 - problem.discount)
    assert float((found.state_law * problem.cost).sum()) == pytest.approx(found.distance, abs=1e-11)
    np.testing.assert_allclose(found.state_law.sum(axis=1), problem.x.state_occupancy(problem.discount), atol=1e-11)
    np.testing.assert_allclose(found.state_law.sum(axis=0), problem.y.state_occupancy(problem.discount), atol=1e-11)
    assert found.plan is not None
    np.testing.assert_allclose(found.plan.start.sum(axis=1), problem.x.initial, atol=1e-12)
    np.testing.assert_allclose(found.encoder.sum(axis=1), 1.0, atol=1e-12)


@settings(max_examples=40)
@given(seeds)
def test_gradients_of_merged_states_are_derivatives(seed: int) -> None:
    """Along changes of rows, which need not keep the states alike; where the optimum is unique they must agree."""
    rng = np.random.default_rng(seed)
    x, _, f = planted(rng, "dense")
    y, _, g = planted(rng, "dense")
    cost = np.abs(f[:, None] - g + 0.3)
    found = policy_iteration.solve(Problem(x, y, cost, 0.9)).gradient
    assert found is not None
    for side in (0, 1):
        chain = (x, y)[side]
        P = dense_kernel(chain)
        step = np.where(P > 0, rng.normal(size=P.shape) * P, 0.0)
        step -= P * step.sum(axis=1, keepdims=True)

        def moved(t: float, side: int = side, P: Floats = P, step: Floats = step) -> float:
            other = MarkovChain(P + t * step, (x, y)[side].initial, normalize=True)
            chains = (other, y) if side == 0 else (x, other)
            return policy_iteration.solve(Problem(*chains, cost, 0.9), reduce=False).distance

        slope = found.transition_x if side == 0 else found.transition_y
        slope = slope if isinstance(slope, np.ndarray) else slope.toarray()
        up, down = (moved(1e-5) - moved(0.0)) / 1e-5, (moved(0.0) - moved(-1e-5)) / 1e-5
        # The distance is neither convex nor concave along rows, but a kink has the two one-sided slopes around it.
        assert min(up, down) - 1e-4 <= float((slope * step).sum()) <= max(up, down) + 1e-4


@many
@given(seeds, st.sampled_from([1e-16, 1e-15, 1e-14, 1e-9]))
def test_rows_that_are_nearly_alike(seed: int, noise: float) -> None:
    """Whether they are merged or not, the brackets say what that may change."""
    problem, _, _ = problems(seed, noise)
    agree(problem)


@many
@given(seeds)
def test_a_chain_with_itself_needs_half_the_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    chain = random_chain(rng, int(rng.integers(2, 8)), str(rng.choice(KINDS)))
    features = rng.random(chain.n_states)
    cost = np.abs(features[:, None] - features)
    x, y = (MarkovChain(chain.transition, start) for start in (chain.initial, rng.dirichlet(np.ones(chain.n_states))))
    problem = Problem(x, y, cost, 0.9)
    small = reduce.reduce(problem.unit)
    n = chain.n_states
    assert len(small.pairs("all")) == n * (n + 1) // 2
    found = agree(problem, tolerance=0.0)
    table = policy_iteration.metric(problem)[0]
    np.testing.assert_array_equal(table, table.T)
    np.testing.assert_allclose(table, policy_iteration.metric(problem, reduce=False)[0], atol=1e-12)
    assert max(found.residuals) <= 1e-12
    plain = policy_iteration.solve(problem, reduce=False)
    assert found.gradient is not None
    assert plain.gradient is not None
    np.testing.assert_allclose(found.state_law.sum(axis=1), plain.state_law.sum(axis=1), atol=1e-12)


@many
@given(seeds, st.sampled_from([1e-13, 1e-9, 1e-4]))
def test_states_left_out_stay_within_the_bracket(seed: int, tolerance: float) -> None:
    rng = np.random.default_rng(seed)
    x, y = (_local(rng, int(rng.integers(4, 40))) for _ in range(2))
    cost = rng.random((x.n_states, y.n_states))
    problem = Problem(x, y, cost, float(rng.choice([0.1, 0.5, 0.9, 0.99])))
    plain = policy_iteration.solve(problem, reduce=False)
    found = policy_iteration.solve(problem, tolerance=tolerance)
    assert found.bounds.low <= plain.bounds.high
    assert plain.bounds.low <= found.bounds.high
    assert found.bounds.high - found.bounds.low <= tolerance + 1e-11
    assert found.distance == pytest.approx(plain.distance, abs=tolerance + 1e-12)
    known = ~np.isnan(found.potential)
    off = (1 - problem.discount) * np.abs(found.potential - plain.potential)[known]
    assert off.max() <= max(1e-9, 1e4 * tolerance) + 1e-12
    assert np.isfinite(found.state_law).all()
    assert max(found.residuals) <= 10 * tolerance / (1 - problem.discount) + 1e-11
    assert found.gradient is not None
    assert plain.gradient is not None
    for mine, whole in ((found.gradient.x, plain.gradient.x), (found.gradient.y, plain.gradient.y)):
        told = ~np.isnan(mine.values)
        assert told.any()
        if len(np.unique(np.round(whole.values, 12))) > 1 and tolerance <= 1e-9:
            assert np.abs(mine.values[told]).max() <= np.abs(whole.values).max() + 1e-6


def _local(rng: np.random.Generator, n: int) -> MarkovChain:
    """Steps to near-by states with probabilities of all sizes, rare far jumps, now and then back to the start."""
    P = np.zeros((n, n))
    for x in range(n):
        near = np.clip(x + rng.integers(-2, 3, size=3), 0, n - 1)
        P[x, near] += rng.random(3) + 0.01
        P[x, rng.integers(n)] += 10.0 ** rng.uniform(-18, -2)
        if rng.random() < 0.2:
            P[x, 0] += rng.random()
    start = np.zeros(n)
    start[: int(rng.integers(1, 4))] = 1.0
    return MarkovChain(P, start, normalize=True)


def test_what_was_done_is_said_and_left_out_states_are_unknown() -> None:
    n = 400
    reward = np.r_[1.0, np.zeros(n - 2), -1.0]
    x, y, cost = somcot.random_walk(n), somcot.random_walk(n, 0.3), somcot.costs.absolute(reward, reward)
    found = somcot.distance(x, y, cost, discount=0.95)
    assert "omitted rare states" in found.message
    assert np.isnan(found.potential[-1, -1])
    assert found.potential[0, 0] * 0.05 == pytest.approx(found.distance, abs=1e-12)
    whole = somcot.distance(x, y, cost, discount=0.95, pairs="all")
    assert not np.isnan(whole.potential).any()
    assert "left out" not in whole.message
    assert found.bounds.low <= whole.distance <= found.bounds.high
    assert "left out" not in somcot.distance(x, y, cost, discount=0.95, tolerance=0.0).message
    split = somcot.block_chain(somcot.random_walk(5), 30)
    features = np.repeat([1.0, 0.0, 0.0, 0.0, -1.0], 30)
    merged = somcot.distance(split, split, np.abs(features[:, None] - features), discount=0.9)
    assert "merged equivalent states (5 x 5 blocks)" in merged.message
    assert merged.distance == 0.0


def test_equal_states_are_merged_where_others_differ_by_too_much_rounding() -> None:
    """Two pairs of states with equal costs: one with equal rows, one whose rows differ a little in every entry."""
    P = np.tile(np.r_[np.full(20, 0.05), np.zeros(4)], (24, 1))
    P[:20, 20:] = 0.01 * np.arange(1.0, 21.0)[:, None]
    P[21, :20] += np.tile([8e-16, -8e-16], 10)
    cost = np.r_[np.arange(20.0), 20.0, 20.0, 21.0, 21.0]
    x = MarkovChain(P / P.sum(axis=1, keepdims=True), 0)
    found = somcot.distance(x, x, np.abs(cost[:, None] - cost), discount=0.9)
    assert "merged equivalent states (23 x 23 blocks)" in found.message
    assert found.distance < 1e-14


def test_a_state_that_is_left_and_entered_again_is_charged_for_what_follows() -> None:
    """The occupancy of a state left out is not what is lost: after it, the cut chain never comes back."""
    eps = 1e-10
    P = np.array([[1 - eps, eps, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    x, y = MarkovChain(P), MarkovChain(np.eye(3))
    cost = np.array([[1.0, 0.0, 0.5], [0.3, 0.2, 0.1], [0.0, 0.7, 0.9]])
    plain = policy_iteration.solve(Problem(x, y, cost, 0.99), reduce=False)
    for tolerance in (1e-13, 1e-9, 1e-7, 1e-5):
        found = policy_iteration.solve(Problem(x, y, cost, 0.99), tolerance=tolerance)
        assert found.bounds.low <= plain.bounds.high
        assert plain.bounds.low <= found.bounds.high


@pytest.mark.parametrize("tolerance", [-1e-9, 1.0, float("nan"), "much"])
def test_tolerances_that_are_none(tolerance: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="tolerance"):
        somcot.distance(somcot.random_walk(3), somcot.random_walk(3), np.eye(3), discount=0.5, tolerance=tolerance)
