"""Many problems of one shape side by side, solved in one sweep.

Problem b owns rows ``b * (n_x + 1)`` to ``b * (n_x + 1) + n_x`` of the support of X, its start law last, and the same
of Y. A pair of states is one unknown of a linear system, and so is the pair of start laws: nothing leads to it, and
what leaves it is the first pair. Each problem is a block of ``n_x * n_y + 1`` unknowns; no block leads to another.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from somcot.bellman.pairs import Pairs
from somcot.bellman.sweep import Sweep
from somcot.chains import Support
from somcot.plumbing.arrays import Floats
from somcot.problem import Problem, UnitProblem

__all__ = ["Stack"]


@dataclass(frozen=True, eq=False)
class Stack:
    """Problems with equal numbers of states.

    Attributes
    ----------
    support_x, support_y : Support
        Rows of all problems, one after the other. Indices of X count through all problems, those of Y start anew in
        each: together they are a place in the potentials, which are stacked as (n_problems * n_x, n_y).
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
        """From kernels with the start law as last row, (n_problems, n + 1, n), costs and discounts."""
        offset = cost.min(axis=(1, 2))
        scale = cost.max(axis=(1, 2)) - offset
        scale[scale == 0.0] = 1.0
        unit = (cost - offset[:, None, None]) / scale[:, None, None]
        own = np.array(discount)  # a view of what the caller holds may be read-only, another type to compile for
        return cls(_support(rows_x, rows_x.shape[2]), _support(rows_y, 0), unit, offset, scale, own)

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
        """Unknowns of one problem."""
        return self.shape[1] * self.shape[2] + 1

    @cached_property
    def extended_cost(self) -> Floats:
        """The cost of each unknown, 0 for the start laws."""
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
        """What a sweep takes: values of the unknowns without those of the start laws, (n_problems * n_x, n_y)."""
        n_problems, n_x, n_y = self.shape
        return np.ascontiguousarray(values.reshape(n_problems, self.block)[:, :-1]).reshape(n_problems * n_x, n_y)

    def sweep(self, threads: int | None) -> Sweep:
        """The transport problems of all pairs of all problems; the last one, twice there, is to be ignored."""
        n_problems, n_x, n_y = self.shape
        x, y = (grid.ravel() for grid in np.indices((n_x, n_y)))
        first = np.arange(n_problems)[:, None]
        rows_x, rows_y = first * (n_x + 1) + np.append(x, n_x), first * (n_y + 1) + np.append(y, n_y)
        index = (first * self.block + np.arange(n_x * n_y)).reshape(n_problems * n_x, n_y)
        no_cost = np.broadcast_to(0.0, (n_problems * (n_x + 1) - 1, n_problems * (n_y + 1) - 1))
        pairs = Pairs(rows_x.ravel().astype(np.int32), rows_y.ravel().astype(np.int32), index.astype(np.int32))
        return Sweep(UnitProblem(self.support_x, self.support_y, no_cost, 0.5), pairs, threads)


def _support(rows: Floats, shift: int) -> Support:
    """Positive entries of stacked rows; the columns of problem b are moved by b times `shift`."""
    n_problems, n_rows, n = rows.shape
    table = rows.reshape(n_problems * n_rows, n)
    row, column = np.nonzero(table)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(table)))]).astype(np.int64)
    return Support(indptr, (column + row // n_rows * shift).astype(np.int32), table[row, column])
