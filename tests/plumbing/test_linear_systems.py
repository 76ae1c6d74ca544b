"""Discounted linear systems against dense solves, on kernels that defeat one method or another."""

from __future__ import annotations

import numpy as np
import pytest

import somcot
from somcot.plumbing import linear_systems as discounting
from somcot.plumbing.linear_systems import Kernel, discounted_occupancy, discounted_value
from tests.instances import KINDS, Floats, dense_kernel, random_chain


def cycle(n: int) -> Floats:
    return np.roll(np.eye(n), 1, axis=1)


@pytest.mark.parametrize("discount", [0.1, 0.95, 0.9999])
@pytest.mark.parametrize("kind", KINDS)
def test_value_and_occupancy_match_dense_solves(kind: str, discount: float) -> None:
    rng = np.random.default_rng(7)
    chain = random_chain(rng, 30, kind)
    P, cost = dense_kernel(chain), rng.normal(size=30)
    kernel = Kernel.from_matrix(P)
    expected = np.linalg.solve(np.eye(30) - discount * P, cost)
    np.testing.assert_allclose(discounted_value(kernel, cost, discount), expected, rtol=1e-11, atol=1e-10)
    law = np.linalg.solve(np.eye(30) - discount * P.T, (1 - discount) * chain.initial)
    np.testing.assert_allclose(discounted_occupancy(kernel, chain.initial, discount), law, atol=1e-13)


@pytest.mark.parametrize("n", [50, 3000])
def test_long_cycles(n: int) -> None:
    """Krylov methods learn nothing from a cycle until they have gone all the way round."""
    cost = np.random.default_rng(0).random(n)
    V = discounted_value(Kernel.from_matrix(cycle(n)), cost, 0.9999)
    residual = cost + 0.9999 * np.roll(V, -1) - V
    assert np.abs(residual).max() <= 1e-11


def test_fixed_point_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where neither Krylov steps nor a factorisation will do, plain steps still get there."""
    monkeypatch.setattr(discounting, "_krylov", lambda *args: False)
    monkeypatch.setattr(discounting, "_FACTORISABLE", 0.0)
    cost = np.random.default_rng(0).random(40)
    V = discounted_value(Kernel.from_matrix(cycle(40)), cost, 0.99)
    np.testing.assert_allclose(V, np.linalg.solve(np.eye(40) - 0.99 * cycle(40), cost), rtol=1e-12)


def test_starts_that_are_not_come_back_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first residual is orthogonal to the next ones then; a factorisation would fill up on a random graph."""
    rng = np.random.default_rng(1)
    n = 3000
    targets = rng.integers(1, n, size=(n, 2))
    kernel = Kernel(np.arange(0, 2 * n + 1, 2), targets.astype(np.int32).ravel(), np.tile([0.4, 0.6], n))
    start = np.zeros(n)
    start[0] = 1.0

    def refuse(*args: object) -> None:
        raise AssertionError("factorised")

    monkeypatch.setattr(discounting, "_factorised", refuse)
    monkeypatch.setattr(discounting, "_fixed_point", refuse)
    law = discounted_occupancy(kernel, start, 0.95)
    flow = 0.05 * start
    np.add.at(flow, targets.ravel(), 0.95 * np.repeat(law, 2) * kernel.data)
    np.testing.assert_allclose(law, flow, atol=1e-15)


def test_unreachable_states_get_exactly_nothing() -> None:
    P = np.array([[0.5, 0.5, 0, 0], [0.3, 0.7, 0, 0], [0.25, 0.25, 0.25, 0.25], [0, 0, 0, 1.0]])
    law = discounted_occupancy(Kernel.from_matrix(P), np.array([1.0, 0, 0, 0]), 0.99)
    assert law[2] == law[3] == 0.0
    assert law.sum() == pytest.approx(1.0, abs=1e-15)


def test_transpose() -> None:
    rng = np.random.default_rng(1)
    P = dense_kernel(random_chain(rng, 12, "sparse"))
    np.testing.assert_array_equal(Kernel.from_matrix(P).transpose().to_scipy().toarray(), P.T)


def test_breakdown_of_the_krylov_method_is_survived() -> None:
    """On the coupling of these two walks the recurrence divides by rounding noise after convergence and blows up."""
    reward = np.array([1.0, 0.0, 0.0, 0.0, -1.0])
    counts = np.diag([793.0, 0, 0, 0, 1358]) + np.diag([98.0, 108, 134, 198], 1) + np.diag([39.0, 51, 77, 144], -1)
    walk, counted = somcot.random_walk(5), somcot.MarkovChain(counts, normalize=True)
    result = somcot.distance(walk, counted, somcot.costs.absolute(reward, reward), discount=0.9)
    assert result.residuals.flow <= 1e-12
    assert result.state_law.sum() == pytest.approx(1.0, abs=1e-12)


def test_unreachable_states_get_exactly_zero_whatever_the_solver_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discounting, "_solve", lambda *system: np.array([0.4, 0.6, 1e-17, -1e-17]))
    kernel = Kernel.from_matrix(np.array([[0.0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0.5, 0, 0, 0.5]]))
    law = discounting.discounted_occupancy(kernel, np.array([1.0, 0, 0, 0]), 0.9)
    assert law.tolist() == [0.4, 0.6, 0.0, 0.0]


@pytest.mark.parametrize("n", [1, 2, 7, 40, 200])
def test_definite_systems_are_those_of_lapack(n: int) -> None:
    root = np.random.default_rng(n).normal(size=(n, n + 3))
    matrix, target = root @ root.T, np.arange(1.0, n + 1.0)
    kept, solution = matrix.copy(), discounting.solve_definite(matrix, target)
    assert solution is not None
    np.testing.assert_allclose(solution, np.linalg.solve(kept, target), rtol=1e-6)
    np.testing.assert_array_equal(target, np.arange(1.0, n + 1.0))


def test_systems_that_are_not_definite_have_no_solution() -> None:
    assert discounting.solve_definite(np.array([[1.0, 2.0], [2.0, 1.0]]), np.ones(2)) is None
    assert discounting.solve_definite(np.array([[1.0, np.nan], [np.nan, 1.0]]), np.ones(2)) is None


def test_inner_products_of_any_length() -> None:
    """Whole numbers, so every order of the sum has the same value."""
    rng = np.random.default_rng(0)
    for n in range(40):
        a, b = rng.integers(-9, 10, (2, n)).astype(np.float64)
        assert discounting._dot(a, b) == a @ b
