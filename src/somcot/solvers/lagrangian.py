"""Primal-dual steps for the paper's Lagrangian with known occupancies, on the supports only.

L = <mu, c - alpha_X - alpha_Y + gamma V' - V> + <nu_X lambda_X, alpha_X> + <nu_Y lambda_Y, alpha_Y>
        + (1 - gamma) <nu_0, V>

with the signs of Algorithm 2 (the paper's printed Lagrangian has the opposite sign of alpha). All variables are full
arrays, for checking and teaching; SOMCOT itself never builds mu.

L = <mu, c - alpha_X - alpha_Y + g V' - V> + <nu_X lambda_X, alpha_X> + <nu_Y lambda_Y, alpha_Y> + (1 - g) <nu_0, V>

mu and lambda take entropic steps, in logs; lambda's step is divided by the mass of its state, which makes it an
entropic step on the joint distribution nu(x) lambda(y | x). The duals take gradient steps at the point 2 m_{k+1} - m_k.


At a feasible coupling and its maps no dual changes the value, which is the expected cost:

>>> import somcot
>>> x, y = somcot.MarkovChain([[0.5, 0.5], [0.0, 1.0]]), somcot.MarkovChain([[0.4, 0.6], [0.0, 1.0]])
>>> result = somcot.distance(x, y, "labels", discount=0.5)
>>> start = np.outer(x.initial, y.initial)
>>> instance = Instance(1.0 - np.eye(2), x.occupancy(0.5), y.occupancy(0.5), start, 0.5)
>>> primal = Primal(result.coupling(), result.encoder, result.decoder)
>>> worst = best_dual(instance, primal)
>>> round(result.distance, 6), round(value(instance, primal, worst), 6)
(0.041667, 0.041667)
>>> by_primal, by_dual = gradients(instance, primal, worst)
>>> bool(abs(by_dual.V).max() < 1e-12), round(duality_gap(instance, primal, worst, primal, worst), 12)
(True, 0.0)

Steps start from uniform variables and are taken in place, in slices of any length:

>>> from somcot.solvers.saddle import SaddleRun
>>> run = SaddleRun(somcot.Problem(x, y, instance.cost, 0.5))
>>> point = start_point(run.layout)
>>> advance(run.layout, point, 0.5, 0.3, 0.83, 500, False)
>>> point.state_law.round(3), float(result.state_law.max().round(3))
(array([0.627, 0.039, 0.   , 0.334]), 0.625)
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.compile.jit import kernel, part
from somcot.compile.simd_math import copy_to, exp, log
from somcot.plumbing.arrays import Floats, Places

__all__ = [
    "Dual",
    "Instance",
    "Layout",
    "Point",
    "Primal",
    "advance",
    "best_dual",
    "duality_gap",
    "gradients",
    "start_point",
    "value",
]


# --- The saddle point of SOMCOT as functions: Lagrangian, gradients, duality gap


class Instance(NamedTuple):
    """The data of the saddle point."""

    cost: Floats  # (n_x, n_y)
    nu_x: Floats  # (n_x, n_x)
    nu_y: Floats  # (n_y, n_y)
    start: Floats  # (n_x, n_y), distribution of the first pair
    discount: float


class Primal(NamedTuple):
    """The minimising player: mu(x, y, x', y'), lambda_X(y | x), lambda_Y(x | y)."""

    mu: Floats
    lambda_x: Floats
    lambda_y: Floats


class Dual(NamedTuple):
    """The maximising player: alpha_X(x, x', y), alpha_Y(x, y, y'), V(x, y)."""

    alpha_x: Floats
    alpha_y: Floats
    V: Floats


def value(instance: Instance, primal: Primal, dual: Dual) -> float:
    """The Lagrangian."""
    cost, nu_x, nu_y, start, discount = instance
    mu, lambda_x, lambda_y = primal
    penalty = (
        np.einsum("xu,xy,xuy->", nu_x, lambda_x, dual.alpha_x)
        + np.einsum("yv,yx,xyv->", nu_y, lambda_y, dual.alpha_y)
        + (1 - discount) * (start * dual.V).sum()
    )
    return float((mu * _reduced_cost(cost, discount, dual)).sum() + penalty)


def gradients(instance: Instance, primal: Primal, dual: Dual) -> tuple[Primal, Dual]:
    """Derivatives of the Lagrangian in its six variables (Eqs. 10-15 of the paper, in expectation).

    The dual part is the ascent direction; Algorithm 2 writes its negative.
    """
    cost, nu_x, nu_y, start, discount = instance
    mu, lambda_x, lambda_y = primal
    by_primal = Primal(
        _reduced_cost(cost, discount, dual),
        np.einsum("xu,xuy->xy", nu_x, dual.alpha_x),
        np.einsum("yv,xyv->yx", nu_y, dual.alpha_y),
    )
    by_dual = Dual(
        np.einsum("xu,xy->xuy", nu_x, lambda_x) - np.einsum("xyuv->xuy", mu),
        np.einsum("yv,yx->xyv", nu_y, lambda_y) - np.einsum("xyuv->xyv", mu),
        (1 - discount) * start + discount * mu.sum(axis=(0, 1)) - mu.sum(axis=(2, 3)),
    )
    return by_primal, by_dual


def duality_gap(instance: Instance, primal: Primal, dual: Dual, best_primal: Primal, best_dual: Dual) -> float:
    """The gap of averaged iterates against fixed comparators, G_K of the paper.

    L is linear in each player, so the mean over iterates is the value at their mean.
    """
    return value(instance, primal, best_dual) - value(instance, best_primal, dual)


def best_dual(instance: Instance, primal: Primal) -> Dual:
    """The comparator (alpha*, V*) of Lemma 1: the duals within the radii that penalise `primal` most."""
    # The radii of Lemma 1: 2 for V and 6 for alpha, in units of max |c| / (1 - gamma).
    radius = float(np.abs(instance.cost).max()) / (1 - instance.discount)
    # L is linear in the duals, so its slope does not depend on where it is taken.
    zero = Dual(*(np.zeros(shape) for shape in _dual_shapes(instance)))
    _, by_dual = gradients(instance, primal, zero)
    return Dual(
        6 * radius * np.sign(by_dual.alpha_x), 6 * radius * np.sign(by_dual.alpha_y), 2 * radius * np.sign(by_dual.V)
    )


def _dual_shapes(instance: Instance) -> tuple[tuple[int, ...], ...]:
    n_x, n_y = instance.cost.shape
    return (n_x, n_x, n_y), (n_x, n_y, n_y), (n_x, n_y)


def _reduced_cost(cost: Floats, discount: float, dual: Dual) -> Floats:
    """The gradient in mu, c - alpha_X - alpha_Y + gamma V' - V, (n_x, n_y, n_x, n_y)."""
    return np.asarray(
        (cost - dual.V)[:, :, None, None]
        - dual.alpha_x.transpose(0, 2, 1)[:, :, :, None]
        - dual.alpha_y[:, :, None, :]
        + discount * dual.V[None, None, :, :]
    )


# --- Primal-dual steps on the supports

Slots = NDArray[np.uint32]


class Layout(NamedTuple):
    """State pairs and their cells: offsets of the rows, columns and cells of each pair, and their states."""

    pair_x: NDArray[np.int32]
    pair_y: NDArray[np.int32]
    offset_x: Places
    offset_y: Places
    cells: NDArray[np.int64]
    row: Slots  # index of the row, the column and the next pair of each cell
    column: Slots
    following: Slots
    kernel_x: Floats  # P(x' | x) of each row of each pair
    kernel_y: Floats
    mass_x: Floats  # nu_X(x) of each pair's state
    mass_y: Floats
    cost: Floats
    start: Floats
    n_x: int
    n_y: int


class Point(NamedTuple):
    """State of the iteration: logs of the primal variables, duals, marginals of mu, and sums for averages."""

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
    mass: Floats  # mu before normalisation
    sum_mu: Floats
    sum_lambda_x: Floats
    sum_lambda_y: Floats
    sum_V: Floats


def start_point(layout: Layout) -> Point:
    """Uniform mu and lambda, zero duals."""
    n_cells, n = int(layout.cells[-1]), len(layout.cost)
    sizes = np.diff(layout.cells)
    rows, columns = (np.diff(offset).astype(np.int64) for offset in (layout.offset_x, layout.offset_y))
    per_x = np.bincount(layout.pair_x, minlength=layout.n_x)[layout.pair_x]
    per_y = np.bincount(layout.pair_y, minlength=layout.n_y)[layout.pair_y]
    return Point(
        np.full(n_cells, -math.log(n_cells)),
        -np.array([math.log(count) for count in per_x]),  # the bits of np.log depend on the machine
        -np.array([math.log(count) for count in per_y]),
        np.zeros(int(layout.offset_x[-1])),
        np.zeros(int(layout.offset_y[-1])),
        np.zeros(n),
        np.repeat(columns / n_cells, rows),
        np.repeat(rows / n_cells, columns),
        sizes / n_cells,
        np.bincount(layout.following, minlength=n) / n_cells,
        np.zeros(n_cells),
        np.zeros(n_cells),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
    )


@kernel(name="saddle-point steps", seconds=2)
def advance(layout, point, discount, primal_step, dual_step, n_steps, averaging):
    """Take `n_steps` steps; with `averaging`, add every point to the sums."""
    n = layout.cost.size
    old_x, old_y = np.empty_like(point.marginal_x), np.empty_like(point.marginal_y)
    old_state, old_next = np.empty(n), np.empty(n)
    lambda_x, lambda_y = np.empty(n), np.empty(n)
    _exponentials(point.log_lambda_x, 0.0, lambda_x)
    _exponentials(point.log_lambda_y, 0.0, lambda_y)
    # The radii of Lemma 1 for a cost of at most 1: 2 / (1 - discount) for V, three times that for alpha.
    radius = 2.0 / (1.0 - discount)
    shift, scale = 0.0, 0.0
    for _ in range(n_steps):
        copy_to(old_x, point.marginal_x)
        copy_to(old_y, point.marginal_y)
        copy_to(old_state, point.state_law)
        copy_to(old_next, point.next_law)
        # `mu` first: the duals below take their steps at 2 m_{k+1} - m_k, which needs the new and the old marginals.
        shift, scale = _move_mu(layout, point, discount, primal_step, shift, scale if averaging else 0.0)
        _move_lambda(
            layout.pair_x, layout.offset_x, layout.kernel_x, point.alpha_x, primal_step, point.log_lambda_x, layout.n_x
        )
        _move_lambda(
            layout.pair_y, layout.offset_y, layout.kernel_y, point.alpha_y, primal_step, point.log_lambda_y, layout.n_y
        )
        _move_alpha(
            layout.offset_x, layout.kernel_x, layout.mass_x, point.log_lambda_x, lambda_x,
            point.marginal_x, old_x, point.alpha_x, dual_step, 3.0 * radius,
        )  # fmt: skip
        _move_alpha(
            layout.offset_y, layout.kernel_y, layout.mass_y, point.log_lambda_y, lambda_y,
            point.marginal_y, old_y, point.alpha_y, dual_step, 3.0 * radius,
        )  # fmt: skip
        for k in range(n):
            # Minus the derivative in V: mass that leaves the pair minus mass that arrives.
            slope = 2.0 * point.state_law[k] - old_state[k] - (1.0 - discount) * layout.start[k]
            slope -= discount * (2.0 * point.next_law[k] - old_next[k])
            point.V[k] = min(max(point.V[k] - dual_step * slope, -radius), radius)
        if averaging:
            for k in range(n):
                point.sum_lambda_x[k] += lambda_x[k]
                point.sum_lambda_y[k] += lambda_y[k]
                point.sum_V[k] += point.V[k]
    for t in range(point.log_mu.size):
        point.log_mu[t] -= shift
    if averaging:
        _finish(point, scale)


@part
def _move_alpha(offset, kernel, mass, log_lambda, lambda_, marginal, old, alpha, step, radius):
    """Alpha -= step * (marginal of mu - nu lambda) at 2 new - old; updates `lambda_`, the old value."""
    for k in range(lambda_.size):
        # The extrapolation 2 m_{k+1} - m_k, with the old value still in `lambda_`.
        weight = exp(log_lambda[k])
        wanted = mass[k] * (2.0 * weight - lambda_[k])
        lambda_[k] = weight
        for t in range(offset[k], offset[k + 1]):
            slope = 2.0 * marginal[t] - old[t] - wanted * kernel[t]
            alpha[t] = min(max(alpha[t] - step * slope, -radius), radius)


@part
def _move_mu(layout, point, discount, step, shift, scale):
    """Log mu -= step * (c - alpha_X - alpha_Y + g V' - V); updates the marginals. Returns what normalises mu.

    Log mu and the sum of all mu still lack the `shift` and the `scale` of the step before, which are added in passing.
    """
    n = layout.cost.size
    up_x, up_y, down = np.empty(point.alpha_x.size), np.empty(point.alpha_y.size), np.empty(point.V.size)
    for t in range(up_y.size):
        up_y[t] = step * point.alpha_y[t]
    for k in range(down.size):
        down[k] = (step * discount) * point.V[k]
    for k in range(n):
        for t in range(layout.offset_x[k], layout.offset_x[k + 1]):
            # Everything that depends on the row only is added once per row, not once per cell.
            up_x[t] = step * (point.alpha_x[t] - layout.cost[k] + point.V[k])
    if scale > 0.0:
        _finish(point, scale)
    # Log mu is normalised afterwards; subtracting the maximum first keeps the exponentials from overflowing.
    largest = _add_terms(layout, point.log_mu, shift, up_x, up_y, down)
    total = _marginals(layout, point, largest)
    # log mu and the marginals are normalised together, so that both stay consistent.
    scale = 1.0 / total
    for law in (point.marginal_x, point.marginal_y, point.next_law, point.state_law):
        for t in range(law.size):
            law[t] *= scale
    return largest + log(total), scale


@part
def _finish(point, scale):
    """Add the normalised mu to the sum of all."""
    for t in range(point.mass.size):
        point.sum_mu[t] += point.mass[t] * scale


@part
def _add_terms(layout, logs, shift, up_x, up_y, down):
    """Subtract `shift` from every log and add the terms of its row, column and next pair; return the maximum."""
    largest, t = -np.inf, np.uint64(0)
    for k in range(layout.cost.size):
        begin, width = layout.offset_y[k], layout.offset_y[k + 1] - layout.offset_y[k]
        for i in range(layout.offset_x[k], layout.offset_x[k + 1]):
            up, first = up_x[i], np.uint64(layout.following[t])
            # Next pairs are numbered in the order of the columns, so the last one tells whether any is skipped.
            if layout.following[t + width - np.uint64(1)] - first == width - np.uint64(1):
                for j in range(width):
                    logs[t + j] = (logs[t + j] - shift) + (up + up_y[begin + j] - down[first + j])
            else:
                for j in range(width):
                    logs[t + j] = (logs[t + j] - shift) + (up + up_y[begin + j] - down[layout.following[t + j]])
            for j in range(width):
                largest = max(largest, logs[t + j])
            t += width
    return largest


@part
def _marginals(layout, point, largest):
    """Mu before its normalisation, and its sums in a fixed order, so that the bits do not depend on the machine."""
    mass, marginal_y, next_law = point.mass, point.marginal_y, point.next_law
    marginal_y[:], next_law[:] = 0.0, 0.0
    t, total = np.uint64(0), 0.0
    for k in range(layout.cost.size):
        here, begin, width = 0.0, layout.offset_y[k], layout.offset_y[k + 1] - layout.offset_y[k]
        # Pair by pair, while the cells are in the fastest memory.
        for c in range(np.uint64(layout.cells[k]), np.uint64(layout.cells[k + 1])):
            mass[c] = exp(point.log_mu[c] - largest)
        for i in range(layout.offset_x[k], layout.offset_x[k + 1]):
            row, first = 0.0, np.uint64(layout.following[t])
            for j in range(width):
                row += mass[t + j]
                marginal_y[begin + j] += mass[t + j]
            if layout.following[t + width - np.uint64(1)] - first == width - np.uint64(1):  # as above
                for j in range(width):
                    next_law[first + j] += mass[t + j]
            else:
                for j in range(width):
                    next_law[layout.following[t + j]] += mass[t + j]
            t += width
            point.marginal_x[i] = row
            here += row
        point.state_law[k] = here
        total += here
    return total


@part
def _exponentials(logs, largest, out):
    for t in range(logs.size):
        out[t] = exp(logs[t] - largest)


@part
def _move_lambda(states, offset, kernel, alpha, step, log_lambda, n_states):
    """Log lambda(. | x) -= step * sum_x' P(x' | x) alpha(x, x', .), normalised for every x."""
    largest, total = np.full(n_states, -np.inf), np.zeros(n_states)
    for k in range(states.size):
        slope = 0.0
        for t in range(offset[k], offset[k + 1]):
            slope += kernel[t] * alpha[t]
        # The division by nu(x) has been done: `kernel` is P(x' | x), not nu(x, x').
        log_lambda[k] -= step * slope
        largest[states[k]] = max(largest[states[k]], log_lambda[k])
    for k in range(states.size):
        total[states[k]] += exp(log_lambda[k] - largest[states[k]])
    for k in range(states.size):
        log_lambda[k] -= largest[states[k]] + log(total[states[k]])
