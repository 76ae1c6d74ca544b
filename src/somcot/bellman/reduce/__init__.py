"""The smallest problem that has the same answer, or one within a bound that is carried along.

States that hardly occur are left out (`truncation`), states that behave alike are merged (`partition`, `quotient`), and
a chain with itself needs each pair of states once. `lift` maps what was found back to all states.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from somcot.bellman.pairs import PairChoice, Pairs, choose, folded
from somcot.bellman.reduce.partition import Labels
from somcot.bellman.reduce.quotient import Quotient, first_members, merged
from somcot.bellman.reduce.truncation import Cut, cut
from somcot.chains import Support
from somcot.plumbing.arrays import Floats
from somcot.problem import UnitProblem

__all__ = ["LEFT_OUT", "Reduced", "Side", "reduced", "whole"]

LEFT_OUT = 1e-13  # what leaving states out may add to a bracket, relative to the range of the cost
_SMALL = 500  # pairs below which nothing is looked for,
_QUICK = 6000  # ... and successors of all pairs together: looking may take 2 % of a solve
_FEW = 64  # states below which none are left out
_PATIENCE = 10.0  # transitions to look at for each pair of states before leaving out is given up


class Side(NamedTuple):
    """What became of one chain: some states left out, then some merged; None where nothing was."""

    n: int
    cut: Cut | None = None
    quotient: Quotient | None = None

    @property
    def untouched(self) -> bool:
        """Whether nothing was done."""
        return self.cut is None and self.quotient is None

    @property
    def slack(self) -> float:
        """How far rows may be off."""
        return (0.0 if self.cut is None else self.cut.slack) + (0.0 if self.quotient is None else self.quotient.slack)

    @property
    def lost(self) -> float:
        """What leaving states out may have lost."""
        return 0.0 if self.cut is None else self.cut.lost

    @property
    def kept(self) -> Labels:
        """The states that were not left out."""
        return np.arange(self.n) if self.cut is None else self.cut.kept

    @property
    def n_cut(self) -> int:
        """Number of states after leaving out, with the one that stands for those."""
        return self.n if self.cut is None else len(self.cut.kept) + 1

    @property
    def labels(self) -> Labels:
        """The block of each state that was not left out, and of the one that stands for those."""
        return np.arange(self.n_cut) if self.quotient is None else self.quotient.labels

    @property
    def arrival(self) -> Floats:
        """E discount^T from each state, T being when a state left out is reached."""
        found = np.zeros(self.n)
        if self.cut is not None:
            found[:] = 1.0
            found[self.cut.kept] = self.cut.arrival[:-1]
        return found


class Reduced(NamedTuple):
    """A smaller problem.

    Attributes
    ----------
    problem : UnitProblem
        To be solved.
    cut : UnitProblem
        The problem without the states left out, before others were merged.
    x, y : Side
        What became of the chains.
    mirrored : bool
        Whether the smaller problem compares a chain with itself, and the cost is symmetric.
    """

    problem: UnitProblem
    cut: UnitProblem
    x: Side
    y: Side
    mirrored: bool = False

    @property
    def lost(self) -> float:
        """The distance is at most this much above that of the smaller problem."""
        return self.x.lost + self.y.lost

    def pairs(self, choice: PairChoice) -> Pairs:
        """The pairs to work on: each once where a chain is compared with itself."""
        pairs = choose(self.problem, choice)
        return folded(pairs) if self.mirrored else pairs

    def spread(self, table: Floats) -> Floats:
        """A table of the smaller problem for all states, NaN where states were left out."""
        if self.x.untouched and self.y.untouched:
            return table
        found = np.full((self.x.n, self.y.n), np.nan)
        rows, columns = (side.labels[: len(side.kept)] for side in (self.x, self.y))
        found[np.ix_(self.x.kept, self.y.kept)] = table[np.ix_(rows, columns)]
        return found

    def words(self) -> str:
        """What was done, for people; empty where nothing was."""
        done = []
        if self.cut.shape != (self.x.n, self.y.n):
            done.append(f"left out rare states ({' x '.join(str(len(s.kept)) for s in (self.x, self.y))} stay)")
        if self.problem.shape != self.cut.shape:
            done.append(f"merged states that behave alike ({' x '.join(map(str, self.problem.shape))} blocks)")
        return " and ".join(done)


def reduced(problem: UnitProblem, left_out: float = 0.0) -> Reduced:
    """Look for a smaller problem.

    Parameters
    ----------
    problem : UnitProblem
    left_out : float
        What may be lost by leaving states out; 0 keeps all, which potentials of all pairs need.
    """
    (n_x, n_y), discount = problem.shape, problem.discount
    small, x, y = problem, Side(n_x), Side(n_y)
    successors = int(problem.support_x.indptr[-2]) * n_y + int(problem.support_y.indptr[-2]) * n_x
    if n_x * n_y < _SMALL or successors < _QUICK:
        return whole(problem)
    if left_out > 0.0:
        x, y = (
            Side(n, _cut(support, discount, left_out / 2.0, _PATIENCE * n_x * n_y))
            for n, support in ((n_x, problem.support_x), (n_y, problem.support_y))
        )
        small = _without(problem, x, y)
    before = small
    of_x = merged(small.support_x, small.cost)
    of_y = merged(small.support_y, np.ascontiguousarray(small.cost.T))
    x, y = x._replace(quotient=of_x), y._replace(quotient=of_y)
    if of_x is not None or of_y is not None:
        rows, columns = (first_members(side.labels, int(side.labels.max()) + 1) for side in (x, y))
        small = UnitProblem(
            small.support_x if of_x is None else of_x.support,
            small.support_y if of_y is None else of_y.support,
            np.ascontiguousarray(small.cost[np.ix_(rows, columns)]),
            discount,
            x.slack + y.slack,
        )
    return Reduced(small, before, x, y, _mirrored(small))


def whole(problem: UnitProblem) -> Reduced:
    """The problem as it is."""
    return Reduced(problem, problem, Side(problem.shape[0]), Side(problem.shape[1]))


def _cut(support: Support, discount: float, left_out: float, patience: float) -> Cut | None:
    return cut(support, discount, left_out, patience) if len(support.indptr) - 2 >= _FEW else None


def _without(problem: UnitProblem, x: Side, y: Side) -> UnitProblem:
    """The problem without the states left out; the least cost is 0."""
    if x.cut is None and y.cut is None:
        return problem
    cost = np.zeros((x.n_cut, y.n_cut))
    cost[: len(x.kept), : len(y.kept)] = problem.cost_between(x.kept, y.kept)
    return UnitProblem(
        problem.support_x if x.cut is None else x.cut.support,
        problem.support_y if y.cut is None else y.cut.support,
        cost,
        problem.discount,
        x.slack + y.slack,
    )


def _mirrored(problem: UnitProblem) -> bool:
    """Whether it compares a chain with itself, start laws apart, and the cost is symmetric."""
    x, y, (n_x, n_y) = problem.support_x, problem.support_y, problem.shape
    k = int(x.indptr[-2])
    if n_x != n_y or k != y.indptr[-2]:
        return False
    # What differs most often comes first: two chains of one kind have the same entries with other probabilities.
    same = (x.probabilities[:k], y.probabilities[:k]), (x.indices[:k], y.indices[:k]), (x.indptr[:-1], y.indptr[:-1])
    return all(np.array_equal(one, other) for one, other in (*same, (problem.cost, problem.cost.T)))
