"""The primal-dual steps against the same iteration written with full arrays."""

from __future__ import annotations

import numpy as np
import pytest

from somcot import MarkovChain
from somcot.problem import Problem
from somcot.solvers import saddle
from tests.instances import Floats

PRIMAL, DUAL = 0.3, 0.83


def dense_steps(problem: Problem, n_steps: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Averages of mu, lambda_X(y | x), lambda_Y(x | y) and V over the steps; every pair and transition possible."""
    P, Q = (np.asarray(chain.transition) for chain in (problem.x, problem.y))
    g, c = problem.discount, problem.unit_cost
    n_x, n_y = problem.shape
    nu_x, nu_y = (chain.state_occupancy(g) for chain in (problem.x, problem.y))
    start = (1 - g) * np.outer(problem.x.initial, problem.y.initial)
    log_mu = np.full((n_x, n_y, n_x, n_y), -2 * np.log(n_x * n_y))
    log_x, log_y = np.full((n_x, n_y), -np.log(n_y)), np.full((n_x, n_y), -np.log(n_x))
    alpha_x, alpha_y, V = np.zeros((n_x, n_y, n_x)), np.zeros((n_x, n_y, n_y)), np.zeros((n_x, n_y))
    totals: list[Floats] = [np.zeros_like(part) for part in (log_mu, log_x, log_y, V)]
    for _ in range(n_steps):
        old = np.exp(log_mu), np.exp(log_x), np.exp(log_y)
        slope = c[:, :, None, None] - alpha_x[:, :, :, None] - alpha_y[:, :, None, :] + g * V - V[:, :, None, None]
        log_mu = log_mu - PRIMAL * slope
        log_mu -= np.log(np.exp(log_mu).sum())
        log_x = log_x - PRIMAL * np.einsum("ik,ijk->ij", P, alpha_x)
        log_x -= np.log(np.exp(log_x).sum(axis=1, keepdims=True))
        log_y = log_y - PRIMAL * np.einsum("jk,ijk->ij", Q, alpha_y)
        log_y -= np.log(np.exp(log_y).sum(axis=0, keepdims=True))
        new = np.exp(log_mu), np.exp(log_x), np.exp(log_y)
        mu, lambda_x, lambda_y = (2 * b - a for a, b in zip(old, new, strict=True))
        alpha_x = alpha_x - DUAL * (mu.sum(axis=3) - np.einsum("i,ij,ik->ijk", nu_x, lambda_x, P))
        alpha_y = alpha_y - DUAL * (mu.sum(axis=2) - np.einsum("j,ij,jk->ijk", nu_y, lambda_y, Q))
        V = V - DUAL * (mu.sum(axis=(2, 3)) - g * mu.sum(axis=(0, 1)) - start)
        for total, part in zip(totals, (*new, V), strict=True):
            total += part / n_steps
    return totals[0], totals[1], totals[2].T, totals[3]


@pytest.mark.parametrize("discount", [0.5, 0.95])
def test_steps_match_full_arrays(discount: float) -> None:
    rng = np.random.default_rng(4)
    x, y = (MarkovChain(rng.dirichlet(np.ones(n), size=n), 1) for n in (3, 4))
    problem = Problem(x, y, rng.random((3, 4)), discount)
    found = next(saddle.rounds(problem, max_steps=200, primal_step=PRIMAL, dual_step=DUAL))
    mu, encoder, decoder, V = dense_steps(problem, 200)
    np.testing.assert_allclose(found.coupling.dense(), mu, atol=1e-12)
    np.testing.assert_allclose(found.maps.encoder, encoder, atol=1e-12)
    np.testing.assert_allclose(found.maps.decoder, decoder, atol=1e-12)
    np.testing.assert_allclose(found.V, V, atol=1e-11)
