"""Exact solves with wide supports, on families that were not tuned on, beside HiGHS and POT."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

import somcot
from tests.instances import Floats, dense_kernel
from tests.reference import pot_policy_iteration
from tests.wide_instances import WIDE_FAMILIES


def transport(cost: Floats, p: Floats, q: Floats) -> float:
    """The value of one transport problem, by HiGHS."""
    n, m = cost.shape
    A = np.vstack([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    found = linprog(cost.ravel(), A_eq=A[:-1], b_eq=np.r_[p, q][:-1], method="highs", options=tight)
    assert found.status == 0
    return float(found.fun)


@pytest.mark.parametrize("family", WIDE_FAMILIES)
def test_metric_solves_the_bellman_equation_of_highs(family: str) -> None:
    """Up to what HiGHS leaves; of 18 states every third one of x is looked at."""
    discount = 0.9
    x, y, cost = WIDE_FAMILIES[family](18 if family in ("band", "level") else 9, 0)
    P, Q = dense_kernel(x), dense_kernel(y)
    assert min((P > 0).sum(axis=1).max(), (Q > 0).sum(axis=1).max()) >= 8, "supports must be wide"
    V = somcot.metric(x, y, cost, discount=discount)
    for i in range(0, x.n_states, 1 if x.n_states < 10 else 3):
        for j in range(y.n_states):
            inside = np.ix_(P[i] > 0, Q[j] > 0)
            following = transport(V[inside], P[i][P[i] > 0], Q[j][Q[j] > 0])
            assert V[i, j] == pytest.approx((1 - discount) * cost[i, j] + discount * following, abs=1e-9)


@pytest.mark.parametrize("family", WIDE_FAMILIES)
def test_metric_is_that_of_policy_iteration_with_pot(family: str) -> None:
    x, y, cost = WIDE_FAMILIES[family](24, 1)
    found = somcot.metric(x, y, cost, discount=0.95)
    other = 0.05 * pot_policy_iteration.solve(dense_kernel(x), dense_kernel(y), cost, 0.95)
    np.testing.assert_allclose(found, other, rtol=0, atol=1e-9 * np.ptp(cost))
    result = somcot.distance(x, y, cost, discount=0.95)
    assert result.bounds.low - 1e-9 <= other[0, 0] <= result.bounds.high + 1e-9
