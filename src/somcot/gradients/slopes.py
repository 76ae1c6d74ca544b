"""First and second derivatives of solved problems.

With f the discounted flow through each unknown (occupancy; the start laws among them), phi and psi the transport
potentials of its basis and V the optimal potential, all for the unit cost,

    dd / dP_X(x' | x)  = discount * sum_y f(x, y) phi_xy(x'),    likewise for Y and for the start laws,
    dd / dc(x, y)      = f(x, y),
    dd / d discount    = (<f, V> - <f, c>) / discount - <w, V>,  w the first pairs, or the weights of a table.

Rows are centred, which is what dividing rows by their sums does to a derivative. The second derivatives are those of
the smooth piece: the bases stay, and flows on them and potentials along them are linear (`bellman.repair`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from somcot.chains import Support
from somcot.gradients.solution import ROUNDING, Solved
from somcot.plumbing.arrays import Floats

__all__ = ["Slopes", "distance_slopes", "margins", "metric_slopes", "second_slopes"]


class Slopes(NamedTuple):
    """Derivatives, or directions: one number per entry of the supports, per cost and per discount."""

    x: Floats
    y: Floats
    cost: Floats
    discount: Floats


@dataclass(frozen=True)
class _Flow:
    """What one asks of the solution, (n_problems, ...).

    ``total`` is the flow through the unknowns, ``moving`` the part of it that does not stem from a global minimum, and
    ``first`` is <w, V> for that part.
    """

    total: Floats
    moving: Floats
    first: Floats


def distance_slopes(solved: Solved) -> Slopes:
    """Of the distance of every problem."""
    return _slopes(solved, _distance_flow(solved))


def _distance_flow(solved: Solved) -> _Flow:
    # No distance is below the least cost: there 0 is a derivative in kernels and discount, and others are noise.
    above = (solved.unit_value > ROUNDING)[:, None]
    law = solved.occupancy
    first = solved.V.reshape(law.shape)[:, -1:] / solved.stack.discount[:, None]
    return _Flow(law, law * above, first * above)


def metric_slopes(solved: Solved, weight: Floats) -> Slopes:
    """Of the sum of the distances of all pairs times `weight`, (n_problems, n_x, n_y), of any sign."""
    stack = solved.stack
    rest = (1.0 - stack.discount)[:, None]
    table = weight.reshape(stack.shape[0], -1)
    above = solved.unit_metric.reshape(table.shape) > ROUNDING
    source = np.zeros((stack.shape[0], stack.block))
    source[:, :-1] = rest * table
    total = solved.adjoint(source)
    source[:, :-1] *= above
    moving = total if above.all() else solved.adjoint(source)
    values = solved.V.reshape(source.shape)[:, :-1]
    return _slopes(solved, _Flow(total, moving, (table * above * values).sum(axis=1, keepdims=True)))


def _slopes(solved: Solved, flow: _Flow) -> Slopes:
    stack = solved.stack
    n_problems = stack.shape[0]
    gamma = stack.discount[:, None]
    slots_x, slots_y = solved.sweep.potential_sums(stack.table(solved.V), np.append(gamma * flow.moving, 0.0))
    V, cost = solved.V.reshape(n_problems, -1), stack.extended_cost.reshape(n_problems, -1)
    visits = flow.moving[:, :-1]
    gained = ((visits * V[:, :-1]).sum(axis=1) - (visits * cost[:, :-1]).sum(axis=1)) / stack.discount
    return Slopes(
        stack.scale[stack.problem_x] * _centred(stack.support_x, slots_x),
        stack.scale[stack.problem_y] * _centred(stack.support_y, slots_y),
        flow.total[:, :-1].reshape(stack.shape),
        stack.scale * (gained - flow.first[:, 0]),
    )


def margins(solved: Solved, *, starts: bool = True) -> tuple[Floats, Floats]:
    """How far the couplings of visited pairs are from others: in mass and in cost, each (n_problems,).

    Masses of the start laws do not count when these are known to stay (``starts=False``).
    """
    stack = solved.stack
    visited = (solved.occupancy > 0.0).ravel()
    found = solved.sweep.margins(stack.table(solved.V), np.append(visited, False))
    mass, cost = (values[:-1].reshape(stack.shape[0], -1) for values in found)
    mass = mass if starts else mass[:, :-1]
    return mass.min(axis=1), stack.scale * np.maximum(cost.min(axis=1), 0.0)


def second_slopes(solved: Solved, along: Slopes) -> Slopes:
    """How the derivatives of the distance change along a direction (its rows sum to 0), the bases being kept.

    Of x and y the change before rows are centred is not returned but that after; nothing is known of the discount.
    """
    stack, sweep = solved.stack, solved.sweep
    n_problems, gamma = stack.shape[0], np.repeat(stack.discount, stack.block)
    row, following, change = sweep.change(along.x, along.y)
    real = row < len(gamma)  # the last pair is there twice
    row, following, change = row[real], following[real], change[real]
    flow, n = solved.occupancy.ravel(), len(gamma)
    extended = np.zeros((n_problems, stack.block))
    extended[:, :-1] = (along.cost / stack.scale[:, None, None]).reshape(n_problems, -1)
    moved_V = solved.forward(extended.ravel() + gamma * np.bincount(row, change * solved.V[following], minlength=n))
    source = np.bincount(following, change * (gamma * flow)[row], minlength=n).astype(np.float64)
    moved_flow = solved.adjoint(source.reshape(n_problems, -1))
    V = stack.table(solved.V)
    parts = [
        sweep.potential_sums(V, np.append(gamma * moved_flow.ravel(), 0.0)),
        sweep.potential_sums(stack.table(moved_V), np.append(gamma * flow, 0.0)),
    ]
    still = sweep.potential_sums(V, np.append(gamma * flow, 0.0))
    ends = []
    sides = ((stack.support_x, stack.problem_x, along.x), (stack.support_y, stack.problem_y, along.y))
    for side, (support, problem, direction) in enumerate(sides):
        centred = _centred(support, parts[0][side] + parts[1][side])
        centred -= support.row_sums(direction * still[side])[support.rows]  # the centre moves too
        ends.append(stack.scale[problem] * centred)
    return Slopes(ends[0], ends[1], moved_flow[:, :-1].reshape(stack.shape), np.full(n_problems, np.nan))


def _centred(support: Support, slots: Floats) -> Floats:
    """Less the mean under each row, so that a constant per row does not matter."""
    centred: Floats = slots - support.row_sums(support.probabilities * slots)[support.rows]
    return centred
