"""First and second derivatives of solved problems.

Problem b occupies rows ``b * (n_x + 1)`` to ``b * (n_x + 1) + n_x`` of the support of X, its initial distribution last;
similarly for Y. A pair of states is one unknown of a linear system, and so is the pair of initial distributions, which
has no predecessors and leads to the initial pair. Each problem is a block of ``n_x * n_y + 1`` unknowns; the blocks are
independent.

With f the discounted flow through each unknown (occupancy, including the initial distributions), phi and psi the
transport potentials of its basis and V the optimal potential, all for the unit cost,

    dd / dP_X(x' | x)  = discount * sum_y f(x, y) phi_xy(x'),    similarly for Y and for the initial distributions,
    dd / dc(x, y)      = f(x, y),
    dd / d discount    = (<f, V> - <f, c>) / discount - <w, V>,  w the first pairs, or the weights of a table.

Rows are centred, which is the effect of normalisation on a derivative. The second derivatives are those of the smooth
piece: the bases are fixed, and flows and potentials depend linearly on the data (`core.transport.repair`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.chains import Support
from somcot.core.pairs import Pairs
from somcot.core.sweep import Sweep
from somcot.plumbing.arrays import Floats
from somcot.plumbing.errors import ConvergenceWarning, warn
from somcot.plumbing.linear_systems import Kernel, discounted_blocks
from somcot.plumbing.notes import Note
from somcot.problem import Problem, UnitProblem

__all__ = [
    "ROUNDING",
    "Slopes",
    "Stack",
    "StackedSolution",
    "WarmStart",
    "distance_slopes",
    "margins",
    "metric_slopes",
    "second_slopes",
    "solve",
]


# --- Stacks of problems of equal shape, solved in one sweep.


@dataclass(frozen=True, eq=False)
class Stack:
    """Problems with equal numbers of states.

    Attributes
    ----------
    support_x, support_y : Support
        Rows of all problems, stored consecutively. Indices of X run through all problems, those of Y restart in each;
        together they index the potentials, which are stacked as (n_problems * n_x, n_y).
    cost : ndarray, shape (n_problems, n_x, n_y)
        Shifted and scaled to [0, 1].
    offset, scale, discount : ndarray, shape (n_problems,)
    """

    support_x: Support
    support_y: Support
    cost: Floats
    offset: Floats
    scale: Floats
    discount: Floats

    @classmethod
    def from_rows(cls, rows_x: Floats, rows_y: Floats, cost: Floats, discount: Floats) -> Stack:
        """From kernels with the initial distribution as last row, (n_problems, n + 1, n), costs and discounts."""
        offset = cost.min(axis=(1, 2))
        scale = cost.max(axis=(1, 2)) - offset
        scale[scale == 0.0] = 1.0  # a constant cost; any scale is correct
        unit = (cost - offset[:, None, None]) / scale[:, None, None]
        discounts = np.array(discount)  # a copy: read-only views are another type to compile for
        return cls(_support(rows_x, rows_x.shape[2]), _support(rows_y, 0), unit, offset, scale, discounts)

    @classmethod
    def from_problem(cls, problem: Problem) -> Stack:
        """A single problem."""
        single = (np.array([number]) for number in (problem.offset, problem.scale, problem.discount))
        return cls(problem.x.support, problem.y.support, problem.unit_cost[None], *single)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(n_problems, n_x, n_y)."""
        n_problems, n_x, n_y = self.cost.shape
        return n_problems, n_x, n_y

    @property
    def block(self) -> int:
        """Number of unknowns of one problem."""
        return self.shape[1] * self.shape[2] + 1

    @cached_property
    def extended_cost(self) -> Floats:
        """The cost of each unknown, 0 for the initial distributions."""
        n_problems, _, _ = self.shape
        extended = np.zeros((n_problems, self.block))
        extended[:, :-1] = self.cost.reshape(n_problems, -1)
        return extended.ravel()

    @cached_property
    def problem_x(self) -> NDArray[np.int64]:
        """The problem that each entry of the support of X belongs to."""
        return self.support_x.rows // (self.shape[1] + 1)

    @cached_property
    def problem_y(self) -> NDArray[np.int64]:
        """The problem that each entry of the support of Y belongs to."""
        return self.support_y.rows // (self.shape[2] + 1)

    def table(self, values: Floats) -> Floats:
        """Values of the unknowns without those of the initial distributions, (n_problems * n_x, n_y), for a sweep."""
        n_problems, n_x, n_y = self.shape
        return np.ascontiguousarray(values.reshape(n_problems, self.block)[:, :-1]).reshape(n_problems * n_x, n_y)

    def sweep(self, threads: int | None) -> Sweep:
        """The transport problems of all pairs of all problems; the last one is a duplicate to be ignored."""
        n_problems, n_x, n_y = self.shape
        x, y = (grid.ravel() for grid in np.indices((n_x, n_y)))
        first = np.arange(n_problems)[:, None]
        rows_x, rows_y = first * (n_x + 1) + np.append(x, n_x), first * (n_y + 1) + np.append(y, n_y)
        index = (first * self.block + np.arange(n_x * n_y)).reshape(n_problems * n_x, n_y)
        # Costs are added by the caller; `Sweep` uses the table for its shape only.
        no_cost = np.broadcast_to(0.0, (n_problems * (n_x + 1) - 1, n_problems * (n_y + 1) - 1))
        pairs = Pairs(rows_x.ravel().astype(np.int32), rows_y.ravel().astype(np.int32), index.astype(np.int32))
        # The discount is not used by sweeps.
        return Sweep(UnitProblem(self.support_x, self.support_y, no_cost, 0.5), pairs, threads)


def _support(rows: Floats, shift: int) -> Support:
    """Positive entries of stacked rows; the columns of problem b are moved by b times `shift`."""
    n_problems, n_rows, n = rows.shape
    table = rows.reshape(n_problems * n_rows, n)
    row, column = np.nonzero(table)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(table)))]).astype(np.int64)
    return Support(indptr, (column + row // n_rows * shift).astype(np.int32), table[row, column])


# --- Policy iteration on a stack of problems, with warm starts.

_EPS = float(np.finfo(np.float64).eps)
ROUNDING = 64.0 * _EPS
_MAX_SWEEPS = 200


@dataclass(frozen=True, eq=False)
class StackedSolution:
    """A stack of problems with the optimal potential V (unit cost, including the initial row) and its couplings."""

    stack: Stack
    sweep: Sweep
    V: Floats
    kernel: Kernel

    @property
    def threads(self) -> int:
        """Number of threads."""
        return self.sweep.threads

    @cached_property
    def occupancy(self) -> Floats:
        """Discounted occupancy of each pair, with sum 1 for each problem, (n_problems, n_x * n_y + 1).

        The last entry, of the initial distributions, is (1 - discount) / discount, the source of the initial pairs.
        """
        stack = self.stack
        source = np.zeros((stack.shape[0], stack.block))
        # Divided by the discount, because the step from the initial row is discounted like any other.
        source[:, -1] = (1.0 - stack.discount) / stack.discount
        flow = self.adjoint(source)
        # Rounding may leave tiny negative numbers.
        flow = np.maximum(flow, 0.0)  # unvisited pairs are exactly 0: the solver never reaches them
        flow[:, :-1] /= flow[:, :-1].sum(axis=1, keepdims=True)
        return flow

    @cached_property
    def unit_value(self) -> Floats:
        """Distances for the unit cost, (n_problems,)."""
        visits = self.occupancy[:, :-1]
        return np.asarray((visits * self.stack.cost.reshape(visits.shape)).sum(axis=1))

    @cached_property
    def unit_metric(self) -> Floats:
        """Distances of all pairs for the unit cost, (n_problems, n_x, n_y)."""
        stack = self.stack
        table = stack.table(self.V).reshape(stack.shape)
        return np.clip((1.0 - stack.discount)[:, None, None] * table, 0.0, 1.0)

    def adjoint(self, source: Floats) -> Floats:
        """Solve (I - discount * kernel') f = source in each problem, (n_problems, n_x * n_y + 1)."""
        b = np.ascontiguousarray(source.ravel())
        turned = self.kernel.transpose()
        return discounted_blocks(turned, b, self.stack.discount, np.zeros_like(b), self.threads).reshape(source.shape)

    def forward(self, source: Floats) -> Floats:
        """Solve (I - discount * kernel) v = source, (n_problems * (n_x * n_y + 1),)."""
        return discounted_blocks(self.kernel, source, self.stack.discount, np.zeros_like(source), self.threads)


class WarmStart:
    """Warm start: the solution of the previous call, from which the next one continues.

    Pass the same object to every call of a training loop, one for each loss term. The previous potential and couplings
    are repaired for the new kernels (dual simplex), which takes a fraction of the time of a cold start. Results do not
    depend on it. A different batch size causes a cold start; different numbers of states are an error. Copies and
    pickles of it are empty.

    Examples
    --------
    >>> warm = WarmStart()
    >>> warm.clear()
    >>> warm
    WarmStart(empty)
    """

    def __init__(self) -> None:
        self._last: StackedSolution | None = None

    def clear(self) -> None:
        """Discard the solution of the previous call."""
        self._last = None

    def __repr__(self) -> str:
        if self._last is None:
            return "WarmStart(empty)"
        n_problems, n_x, n_y = self._last.stack.shape
        return f"WarmStart({n_problems} problem{'s' * (n_problems != 1)} of {n_x} x {n_y} states)"

    def __reduce__(self) -> tuple[Any, ...]:
        return WarmStart, ()

    def _for(self, stack: Stack) -> StackedSolution | None:
        """The previous solution, if it has the same shape."""
        if self._last is None:
            return None
        known = self._last.stack.shape
        if known[1:] != stack.shape[1:]:
            raise ValueError(
                f"warm: holds a problem of {known[1]} x {known[2]} states, this one has {stack.shape[1]} x "
                f"{stack.shape[2]}; use a WarmStart for each problem, or clear() it"
            )
        return self._last if known == stack.shape else None


def solve(stack: Stack, warm: WarmStart | None = None, threads: int | None = None) -> StackedSolution:
    """Policy iteration until every problem is solved to rounding."""
    if warm is not None and not isinstance(warm, WarmStart):
        raise TypeError(f"warm: found {type(warm).__name__}, expected a WarmStart")
    last = None if warm is None else warm._for(stack)
    sweep = stack.sweep(threads)
    cost = stack.extended_cost
    V = cost.copy() if last is None else last.V.copy()  # a good guess either way: policy iteration corrects it
    if last is not None:
        # The old potential, not a better estimate: the old bases are dual feasible for it.
        sweep.resume(stack.table(V), last.sweep)
    gamma = np.repeat(stack.discount, stack.block)
    for step in range(_MAX_SWEEPS):
        improvement = sweep.improve(stack.table(V))
        residual = float(np.abs(cost + gamma * improvement.value[:-1] - V).max())
        kernel, _ = sweep.kernel()
        # Residuals are relative to V, which is up to 1 / (1 - discount).
        if (step > 0 and improvement.changed == 0) or residual <= ROUNDING * (1.0 + float(V.max())):
            break
        V = discounted_blocks(kernel, cost, stack.discount, V, sweep.threads)
    else:
        warn(Note("gradient-not-converged", sweeps=_MAX_SWEEPS, residual=float(residual)), ConvergenceWarning)
    solved = StackedSolution(stack, sweep, V, kernel)
    if warm is not None:
        warm._last = solved
    return solved


# --- First and second derivatives of solved problems.


class Slopes(NamedTuple):
    """Derivatives, or directions: one number per entry of the supports, per cost and per discount."""

    x: Floats
    y: Floats
    cost: Floats
    discount: Floats


@dataclass(frozen=True)
class _Flow:
    """The flow whose derivatives are computed, (n_problems, ...).

    ``total`` is the flow through the unknowns, ``moving`` the part of it that does not stem from a global minimum, and
    ``first`` is <w, V> for that part.
    """

    total: Floats
    moving: Floats
    first: Floats


def distance_slopes(solved: StackedSolution) -> Slopes:
    """Derivatives of the distance of every problem."""
    return _slopes(solved, _distance_flow(solved))


def _distance_flow(solved: StackedSolution) -> _Flow:
    # The minimal cost bounds all distances from below: there the derivative in kernels and discount is 0 up to noise.
    # At the minimum the true derivative in kernels is one-sided; 0 keeps optimisers there.
    above = (solved.unit_value > ROUNDING)[:, None]
    occupancy = solved.occupancy
    first = solved.V.reshape(occupancy.shape)[:, -1:] / solved.stack.discount[:, None]
    return _Flow(occupancy, occupancy * above, first * above)


def metric_slopes(solved: StackedSolution, weight: Floats) -> Slopes:
    """Derivatives of the sum of the distances of all pairs times `weight`, (n_problems, n_x, n_y), of any sign."""
    stack = solved.stack
    rest = (1.0 - stack.discount)[:, None]
    table = weight.reshape(stack.shape[0], -1)
    # Pairs at the minimal cost have derivative 0 in the kernels, one by one.
    above = solved.unit_metric.reshape(table.shape) > ROUNDING
    source = np.zeros((stack.shape[0], stack.block))
    source[:, :-1] = rest * table
    total = solved.adjoint(source)
    source[:, :-1] *= above
    # Two solves only if some pairs are at the minimum.
    moving = total if above.all() else solved.adjoint(source)
    values = solved.V.reshape(source.shape)[:, :-1]
    return _slopes(solved, _Flow(total, moving, (table * above * values).sum(axis=1, keepdims=True)))


def _slopes(solved: StackedSolution, flow: _Flow) -> Slopes:
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


def margins(solved: StackedSolution, *, starts: bool = True) -> tuple[Floats, Floats]:
    """How far the couplings of visited pairs are from ties: in mass and in cost, each (n_problems,).

    Masses of the initial distributions are ignored if these are fixed (``starts=False``).
    """
    stack = solved.stack
    visited = (solved.occupancy > 0.0).ravel()
    slack = solved.sweep.margins(stack.table(solved.V), np.append(visited, False))
    mass, cost = (values[:-1].reshape(stack.shape[0], -1) for values in slack)
    mass = mass if starts else mass[:, :-1]
    return mass.min(axis=1), stack.scale * np.maximum(cost.min(axis=1), 0.0)


def second_slopes(solved: StackedSolution, along: Slopes) -> Slopes:
    """Derivatives of the gradient of the distance along a direction (its rows sum to 0), with fixed bases.

    The changes for x and y are those of centred rows; that of the discount is not available.
    """
    stack, sweep = solved.stack, solved.sweep
    n_problems, gamma = stack.shape[0], np.repeat(stack.discount, stack.block)
    # Triplets (pair, next pair, change of mass) of the couplings along the direction.
    row, following, change = sweep.change(along.x, along.y)
    real = row < len(gamma)  # the last pair is a duplicate
    row, following, change = row[real], following[real], change[real]
    flow, n = solved.occupancy.ravel(), len(gamma)
    extended = np.zeros((n_problems, stack.block))
    extended[:, :-1] = (along.cost / stack.scale[:, None, None]).reshape(n_problems, -1)
    # V moves with the cost and with the coupling; the flow moves with the coupling only.
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
    """Subtract the mean under each row, so that a constant per row has no effect."""
    centred: Floats = slots - support.row_sums(support.probabilities * slots)[support.rows]
    return centred
