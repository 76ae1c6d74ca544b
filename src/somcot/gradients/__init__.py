"""Distances and derivatives of batches of arrays, the back end of loss functions.

`somcot.torch` and `somcot.jax` build on this module; `value_and_gradient` serves custom training loops without either.

Rows are normalised in float64, and derivatives include the normalisation: entries slightly off the simplex get
derivatives that agree with finite differences.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from somcot.derivatives import Gradient, Margin, row_gradient
from somcot.gradients import stacked as slopes
from somcot.gradients.stacked import Slopes, Stack, StackedSolution, WarmStart, distance_slopes, margins, solve
from somcot.plumbing.arrays import Array, Floats
from somcot.plumbing.checks import check_finite
from somcot.problem import Problem

__all__ = [
    "NAMES",
    "NDIMS",
    "ArraySolution",
    "Inputs",
    "WarmStart",
    "check_arrays",
    "check_shapes",
    "solve_arrays",
    "value_and_gradient",
]


# --- Repeated evaluation of the distance and its derivatives, with warm starts and without a Result.


def value_and_gradient(
    problem: Problem, warm: WarmStart | None = None, *, threads: int | None = None
) -> tuple[float, Gradient]:
    """The exact distance and its derivatives, without the other fields of a Result.

    Parameters
    ----------
    problem : Problem
    warm : WarmStart, optional
        Warm start from the previous call, updated by this one.
    threads : int, optional
        By default one per core; the result does not depend on it.

    Returns
    -------
    value : float
    gradient : Gradient
        If the distance equals the minimal cost, its lower bound, derivatives in kernels, initial distributions and
        discount are 0.

    Examples
    --------
    >>> import somcot
    >>> problem = somcot.Problem(somcot.random_walk(5), somcot.random_walk(5, 0.7),
    ...                          somcot.costs.absolute([1, 0, 0, 0, -1], [1, 0, 0, 0, -1]), 0.95)
    >>> value, gradient = value_and_gradient(problem)
    >>> round(value, 6), round(gradient.discount, 3)
    (0.369631, 4.239)
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem: found {type(problem).__name__}, expected a Problem; for tensors see somcot.torch")
    stack = Stack.from_problem(problem)
    solved = solve(stack, warm, threads)
    # In units of the user's cost already.
    slopes = distance_slopes(solved)
    mass, cost = margins(solved)
    gradient = Gradient(
        row_gradient(problem.x, slopes.x, 1.0),
        row_gradient(problem.y, slopes.y, 1.0),
        slopes.cost[0],
        problem.offset + problem.scale * solved.unit_metric[0],
        float(slopes.discount[0]),
        Margin(float(mass[0]), float(cost[0])),
    )
    # From the occupancy, not from the potential: exactly the minimal cost if only such pairs are visited.
    return problem.to_user(float(solved.unit_value[0])), gradient


# --- Batches: arrays with any number of leading axes.

NAMES = ("P_x", "P_y", "cost", "discount", "initial_x", "initial_y")
NDIMS = (2, 2, 2, 0, 1, 1)
_ROW_TOLERANCE = 1e-4  # float32 rows sum to 1 up to 1e-7 per entry; larger errors are mistakes
_SMOOTH = 1e-12  # margins below this are ties


class Inputs(NamedTuple):
    """One array for each name of `NAMES`, each with the same leading axes."""

    P_x: Floats
    P_y: Floats
    cost: Floats
    discount: Floats
    initial_x: Floats
    initial_y: Floats


@dataclass(frozen=True, eq=False)
class ArraySolution:
    """A solved stack of problems, with derivatives with respect to the input arrays.

    Attributes
    ----------
    solved : StackedSolution
    rows_x, rows_y : ndarray, shape (n_problems, n + 1, n)
        Kernels with the initial distributions as last rows, normalised.
    sums_x, sums_y : ndarray, shape (n_problems, n + 1, 1)
        Row sums before normalisation.
    lead : tuple of int
        Leading axes of the input arrays.
    """

    solved: StackedSolution
    rows_x: Floats
    rows_y: Floats
    sums_x: Floats
    sums_y: Floats
    lead: tuple[int, ...]

    @property
    def value(self) -> Floats:
        """The distances, one for each problem."""
        stack = self.solved.stack
        return np.asarray(stack.offset + stack.scale * self.solved.unit_value).reshape(self.lead)

    @property
    def metric(self) -> Floats:
        """The distances of all pairs of states, (..., n_x, n_y)."""
        stack = self.solved.stack
        table = stack.offset[:, None, None] + stack.scale[:, None, None] * self.solved.unit_metric
        return table.reshape(*self.lead, *stack.shape[1:])

    @cached_property
    def gradient(self) -> Inputs:
        """Derivatives of the distances."""
        return self._inputs(slopes.distance_slopes(self.solved))

    def metric_gradient(self, weight: Floats) -> Inputs:
        """Derivatives of the weighted sum of the distances of all pairs; 0 in the initial distributions."""
        shape = self.solved.stack.shape
        weights = np.broadcast_to(weight, (*self.lead, *shape[1:])).reshape(shape)
        return self._inputs(slopes.metric_slopes(self.solved, weights))

    def is_smooth(self, *, starts: bool = True) -> bool:
        """Whether second derivatives exist: the optimal coupling is unique and stable under small changes.

        Uniform initial distributions of equal size, the default of the loss functions, are maximally degenerate; if
        initial distributions are fixed (``starts=False``), this is harmless.
        """
        mass, cost = slopes.margins(self.solved, starts=starts)
        return bool((mass > _SMOOTH).all() and (cost > _SMOOTH * self.solved.stack.scale).all())

    def second(self, along: Inputs) -> Inputs:
        """Derivatives of the gradients of the distances along a direction, except that of the discount."""
        # A direction in the user's arrays, whose rows need not sum to 0.
        raw_x, raw_y = self._rows(along.P_x, along.initial_x), self._rows(along.P_y, along.initial_y)
        sums = [raw.sum(axis=2, keepdims=True) for raw in (raw_x, raw_y)]
        stack = self.solved.stack
        # Quotient rule: a change of the row sum moves all normalised entries.
        moved_x = (raw_x - self.rows_x * sums[0]) / self.sums_x
        moved_y = (raw_y - self.rows_y * sums[1]) / self.sums_y
        direction = Slopes(
            moved_x[self.rows_x > 0.0],
            moved_y[self.rows_y > 0.0],
            along.cost.reshape(stack.shape),
            np.zeros(stack.shape[0]),
        )
        first = slopes.distance_slopes(self.solved)
        derivatives = slopes.second_slopes(self.solved, direction)
        # The derivative is divided by the row sums, which change too: product rule.
        shift_x = np.broadcast_to(sums[0] / self.sums_x, raw_x.shape)[self.rows_x > 0.0] * first.x
        shift_y = np.broadcast_to(sums[1] / self.sums_y, raw_y.shape)[self.rows_y > 0.0] * first.y
        return self._inputs(derivatives._replace(x=derivatives.x - shift_x, y=derivatives.y - shift_y))

    def _rows(self, kernel: Floats, initial: Floats) -> Floats:
        n = kernel.shape[-1]
        return np.concatenate([kernel.reshape(-1, n, n), initial.reshape(-1, 1, n)], axis=1)

    def _inputs(self, derivatives: Slopes) -> Inputs:
        dense_x, dense_y = np.zeros_like(self.rows_x), np.zeros_like(self.rows_y)
        # Entries of probability 0 have no derivative here; they stay 0.
        dense_x[self.rows_x > 0.0] = derivatives.x
        dense_y[self.rows_y > 0.0] = derivatives.y
        # The chain rule of the normalisation: rows were divided by their sums.
        dense_x /= self.sums_x
        dense_y /= self.sums_y
        initial = dense_x[:, -1], dense_y[:, -1]
        parts = (dense_x[:, :-1], dense_y[:, :-1], derivatives.cost, derivatives.discount, *initial)
        return Inputs(*(part.reshape((*self.lead, *part.shape[1:])) for part in parts))


def solve_arrays(arrays: tuple[Array, ...], warm: WarmStart | None = None, threads: int | None = None) -> ArraySolution:
    """Check and solve: one array for each name of `NAMES`, leading axes broadcast against each other."""
    rows_x, rows_y, cost, discount, sums_x, sums_y, lead = check_arrays(arrays)
    stack = Stack.from_rows(rows_x, rows_y, cost, discount)
    return ArraySolution(solve(stack, warm, threads), rows_x, rows_y, sums_x, sums_y, lead)


class Checked(NamedTuple):
    """Output of `check_arrays`; all arrays have one leading axis."""

    rows_x: Floats
    rows_y: Floats
    cost: Floats
    discount: Floats
    sums_x: Floats
    sums_y: Floats
    lead: tuple[int, ...]


def check_arrays(inputs: tuple[Array, ...]) -> Checked:
    """Check and normalise the arrays; errors name the array and the position."""
    arrays = [np.asarray(a, dtype=np.float64) for a in inputs]
    lead = check_shapes([a.shape for a in arrays])
    for name, array in zip(NAMES, arrays, strict=True):
        check_finite(name, array)
    outside = (arrays[3] <= 0.0) | (arrays[3] >= 1.0)
    if outside.any():
        raise ValueError(f"discount: found {arrays[3][outside][0]}, expected numbers strictly between 0 and 1")
    flat = [
        # Broadcasting without copies, then one leading axis.
        np.broadcast_to(a, (*lead, *a.shape[a.ndim - k :])).reshape(-1, *a.shape[a.ndim - k :])
        for a, k in zip(arrays, NDIMS, strict=True)
    ]
    # Kernels and initial distributions are normalised together, as rows of one table.
    rows_x, sums_x = _normalised("x", flat[0], flat[4])
    rows_y, sums_y = _normalised("y", flat[1], flat[5])
    return Checked(rows_x, rows_y, flat[2], flat[3], sums_x, sums_y, lead)


def check_shapes(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Check that shapes are consistent and return the broadcast leading axes."""
    for name, shape, ndim in zip(NAMES, shapes, NDIMS, strict=True):
        if len(shape) < ndim:
            raise ValueError(f"{name}: shape is {shape}, expected {ndim} dimensions, or more of them for a batch")
    ends = [shape[len(shape) - ndim :] for shape, ndim in zip(shapes, NDIMS, strict=True)]
    for name, end in zip(NAMES[:2], ends[:2], strict=True):
        if end[0] != end[1] or 0 in end:
            raise ValueError(f"{name}: a kernel of shape {end}, expected as many rows as columns, at least 1")
    n_x, n_y = ends[0][0], ends[1][0]
    expected = ((n_x, n_x), (n_y, n_y), (n_x, n_y), (), (n_x,), (n_y,))
    for name, end, right in zip(NAMES, ends, expected, strict=True):
        if end != right:
            raise ValueError(f"{name}: shape is {end}, expected {right} for kernels of {n_x} and {n_y} states")
    leads = [shape[: len(shape) - ndim] for shape, ndim in zip(shapes, NDIMS, strict=True)]
    try:
        lead = np.broadcast_shapes(*leads)
    except ValueError:
        listed = ", ".join(f"{lead} of {name}" for name, lead in zip(NAMES, leads, strict=True) if lead)
        raise ValueError(f"leading axes do not fit together: {listed}") from None
    if 0 in lead:
        raise ValueError(f"leading axes are {lead}: an empty batch; leave the call out")
    return lead


def _normalised(side: str, kernel: Floats, initial: Floats) -> tuple[Floats, Floats]:
    """Kernel and initial distribution as normalised rows, (n_problems, n + 1, n), and their original sums."""
    rows = np.concatenate([kernel, initial[:, None, :]], axis=1)
    negative = np.argwhere(rows < 0.0)
    if len(negative):
        where = _place(side, rows, *negative[0][:2])
        raise ValueError(f"{where} has an entry of {rows[tuple(negative[0])]:.6g}, expected at least 0")
    sums = rows.sum(axis=2, keepdims=True)
    wrong = np.argwhere(np.abs(sums[:, :, 0] - 1.0) > _ROW_TOLERANCE)
    if len(wrong):
        where, more = _place(side, rows, *wrong[0]), f" ({len(wrong)} such rows)" if len(wrong) > 1 else ""
        raise ValueError(f"{where} sums to {sums[tuple(wrong[0])][0]:.6g}, expected 1{more}; take a softmax of logits")
    return rows / sums, sums


def _place(side: str, rows: Floats, problem: np.intp, row: np.intp) -> str:
    where = f" of problem {problem}" if len(rows) > 1 else ""
    return f"initial_{side}: the distribution{where}" if row == rows.shape[2] else f"P_{side}: row {row}{where}"
