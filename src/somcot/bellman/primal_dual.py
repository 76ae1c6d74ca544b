"""Primal-dual steps for the paper's Lagrangian with known occupancies, on the supports only.

    L = <mu, c - alpha_X - alpha_Y + g V' - V> + <nu_X lambda_X, alpha_X> + <nu_Y lambda_Y, alpha_Y> + (1 - g) <nu_0, V>

mu and lambda take entropic steps, in logs; lambda's step is divided by the mass of its state, which makes it an
entropic step on the joint law nu(x) lambda(y | x). The duals take gradient steps at the point 2 m_{k+1} - m_k.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from somcot.validation import Floats

__all__ = ["Layout", "Point", "advance", "start_point"]


class Layout(NamedTuple):
    """State pairs and their cells: where each pair's rows, columns and cells begin, and what they stand for."""

    pair_x: NDArray[np.int32]
    pair_y: NDArray[np.int32]
    offset_x: NDArray[np.int64]
    offset_y: NDArray[np.int64]
    cells: NDArray[np.int64]
    following: NDArray[np.int32]
    kernel_x: Floats  # P(x' | x) of each row of each pair
    kernel_y: Floats
    mass_x: Floats  # nu_X(x) of each pair's state
    mass_y: Floats
    cost: Floats
    start: Floats
    n_x: int
    n_y: int


class Point(NamedTuple):
    """Where the iteration stands: logs of the primal variables, duals, marginals of mu, and sums for averages."""

    log_mu: Floats
    log_lambda_x: Floats
    log_lambda_y: Floats
    alpha_x: Floats
    alpha_y: Floats
    V: Floats
    marginal_x: Floats
    marginal_y: Floats
    state_law: Floats
    next_law: Floats
    sum_mu: Floats
    sum_lambda_x: Floats
    sum_lambda_y: Floats
    sum_V: Floats


def start_point(layout: Layout) -> Point:
    """Uniform mu and lambda, zero duals."""
    n_cells, n = int(layout.cells[-1]), len(layout.cost)
    mu = np.full(n_cells, 1.0 / n_cells)
    sizes = np.diff(layout.cells)
    rows, columns = np.diff(layout.offset_x), np.diff(layout.offset_y)
    per_x = np.bincount(layout.pair_x, minlength=layout.n_x)[layout.pair_x]
    per_y = np.bincount(layout.pair_y, minlength=layout.n_y)[layout.pair_y]
    return Point(
        np.log(mu),
        -np.log(per_x),
        -np.log(per_y),
        np.zeros(int(layout.offset_x[-1])),
        np.zeros(int(layout.offset_y[-1])),
        np.zeros(n),
        np.repeat(columns / n_cells, rows),
        np.repeat(rows / n_cells, columns),
        sizes / n_cells,
        np.bincount(layout.following, minlength=n) / n_cells,
        np.zeros(n_cells),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
    )


@njit(cache=True, nogil=True)
def advance(layout, point, discount, primal_step, dual_step, n_steps, averaging):
    """Take `n_steps` steps; with `averaging`, add every point to the sums."""
    n = layout.cost.size
    log_lambda_x, log_lambda_y = point.log_lambda_x, point.log_lambda_y
    old_x, old_y = np.empty_like(point.marginal_x), np.empty_like(point.marginal_y)
    old_state, old_next = np.empty(n), np.empty(n)
    old_lambda_x, old_lambda_y = np.exp(log_lambda_x), np.exp(log_lambda_y)
    radius_alpha, radius_V = 6.0 / (1.0 - discount), 2.0 / (1.0 - discount)
    for _ in range(n_steps):
        old_x[:], old_y[:] = point.marginal_x, point.marginal_y
        old_state[:], old_next[:] = point.state_law, point.next_law
        _move_mu(layout, point, discount, primal_step, averaging)
        _move_lambda(
            layout.pair_x, layout.offset_x, layout.kernel_x, point.alpha_x, primal_step, log_lambda_x, layout.n_x
        )
        _move_lambda(
            layout.pair_y, layout.offset_y, layout.kernel_y, point.alpha_y, primal_step, log_lambda_y, layout.n_y
        )
        for k in range(n):
            lambda_x, lambda_y = np.exp(log_lambda_x[k]), np.exp(log_lambda_y[k])
            wanted = layout.mass_x[k] * (2.0 * lambda_x - old_lambda_x[k])
            for t in range(layout.offset_x[k], layout.offset_x[k + 1]):
                slope = 2.0 * point.marginal_x[t] - old_x[t] - wanted * layout.kernel_x[t]
                point.alpha_x[t] = min(max(point.alpha_x[t] - dual_step * slope, -radius_alpha), radius_alpha)
            wanted = layout.mass_y[k] * (2.0 * lambda_y - old_lambda_y[k])
            for t in range(layout.offset_y[k], layout.offset_y[k + 1]):
                slope = 2.0 * point.marginal_y[t] - old_y[t] - wanted * layout.kernel_y[t]
                point.alpha_y[t] = min(max(point.alpha_y[t] - dual_step * slope, -radius_alpha), radius_alpha)
            slope = 2.0 * point.state_law[k] - old_state[k] - (1.0 - discount) * layout.start[k]
            slope -= discount * (2.0 * point.next_law[k] - old_next[k])
            point.V[k] = min(max(point.V[k] - dual_step * slope, -radius_V), radius_V)
            old_lambda_x[k], old_lambda_y[k] = lambda_x, lambda_y
            if averaging:
                point.sum_lambda_x[k] += lambda_x
                point.sum_lambda_y[k] += lambda_y
                point.sum_V[k] += point.V[k]


@njit(cache=True, nogil=True)
def _move_mu(layout, point, discount, step, averaging):
    """Log mu -= step * (c - alpha_X - alpha_Y + g V' - V), normalised; refreshes the marginals."""
    n = layout.cost.size
    largest = -np.inf
    for k in range(n):
        m = layout.offset_y[k + 1] - layout.offset_y[k]
        for t in range(layout.cells[k], layout.cells[k + 1]):
            i, j = (t - layout.cells[k]) // m, (t - layout.cells[k]) % m
            slope = layout.cost[k] - point.alpha_x[layout.offset_x[k] + i] - point.alpha_y[layout.offset_y[k] + j]
            slope += discount * point.V[layout.following[t]] - point.V[k]
            point.log_mu[t] -= step * slope
            largest = max(largest, point.log_mu[t])
    point.marginal_x[:], point.marginal_y[:], point.next_law[:] = 0.0, 0.0, 0.0
    total = 0.0
    for k in range(n):
        m = layout.offset_y[k + 1] - layout.offset_y[k]
        here = 0.0
        for t in range(layout.cells[k], layout.cells[k + 1]):
            i, j = (t - layout.cells[k]) // m, (t - layout.cells[k]) % m
            mass = np.exp(point.log_mu[t] - largest)
            point.marginal_x[layout.offset_x[k] + i] += mass
            point.marginal_y[layout.offset_y[k] + j] += mass
            point.next_law[layout.following[t]] += mass
            here += mass
        point.state_law[k] = here
        total += here
    point.marginal_x[:] /= total
    point.marginal_y[:] /= total
    point.next_law[:] /= total
    point.state_law[:] /= total
    shift = largest + np.log(total)
    for t in range(point.log_mu.size):
        point.log_mu[t] -= shift
        if averaging:
            point.sum_mu[t] += np.exp(point.log_mu[t])


@njit(cache=True, nogil=True)
def _move_lambda(states, offset, kernel, alpha, step, log_lambda, n_states):
    """Log lambda(. | x) -= step * sum_x' P(x' | x) alpha(x, x', .), normalised for every x."""
    largest, total = np.full(n_states, -np.inf), np.zeros(n_states)
    for k in range(states.size):
        slope = 0.0
        for t in range(offset[k], offset[k + 1]):
            slope += kernel[t] * alpha[t]
        log_lambda[k] -= step * slope
        largest[states[k]] = max(largest[states[k]], log_lambda[k])
    for k in range(states.size):
        total[states[k]] += np.exp(log_lambda[k] - largest[states[k]])
    for k in range(states.size):
        log_lambda[k] -= largest[states[k]] + np.log(total[states[k]])
