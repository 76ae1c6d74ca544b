"""The state pairs a computation works on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.arrays import Floats
from somcot.plumbing.jit import kernel
from somcot.plumbing.memory import require
from somcot.problem import UnitProblem

__all__ = ["PairChoice", "Pairs", "all_pairs", "choose", "folded", "pairs_where", "reachable_pairs"]

PairChoice = Literal["reachable", "all"]


@dataclass(frozen=True, eq=False)
class Pairs:
    """State pairs in increasing order, and the way back.

    Attributes
    ----------
    x, y : ndarray of int32, shape (n_pairs,)
        Pair k is (x[k], y[k]).
    index : ndarray of int32, shape (n_x, n_y)
        Position of each pair, -1 where it does not take part.
    folded : bool
        Whether a pair stands for its mirror image too: then x <= y and `index` is symmetric.
    """

    x: NDArray[np.int32]
    y: NDArray[np.int32]
    index: NDArray[np.int32]
    folded: bool = False

    def __len__(self) -> int:
        return len(self.x)

    def table(self, values: Floats, missing: float = 0.0) -> Floats:
        """Values of the pairs as an (n_x, n_y) table, `missing` where a pair does not take part."""
        table = np.full(self.index.shape, missing)
        self.put(table, values)
        return table

    def put(self, table: Floats, values: Floats) -> None:
        """Write the values of the pairs into an (n_x, n_y) table."""
        table[self.x, self.y] = values
        if self.folded:
            table[self.y, self.x] = values

    def unfolded(self) -> Pairs:
        """The same pairs, each for itself alone."""
        return pairs_where(self.index >= 0) if self.folded else self


def choose(problem: UnitProblem, pairs: PairChoice) -> Pairs:
    """All pairs, or those the start can reach."""
    if pairs not in ("reachable", "all"):
        raise ValueError(f"pairs: found {pairs!r}, expected 'reachable' or 'all'")
    n_x, n_y = problem.shape
    require(32.0 * n_x * n_y, f"a table of {n_x} x {n_y} state pairs", "merge states or compare smaller chains")
    return all_pairs(problem) if pairs == "all" else reachable_pairs(problem)


def all_pairs(problem: UnitProblem) -> Pairs:
    """Every pair of states."""
    n_x, n_y = problem.shape
    x, y = np.empty((n_x, n_y), dtype=np.int32), np.empty((n_x, n_y), dtype=np.int32)
    x[:] = np.arange(n_x, dtype=np.int32)[:, None]
    y[:] = np.arange(n_y, dtype=np.int32)
    return Pairs(x.ravel(), y.ravel(), np.arange(n_x * n_y, dtype=np.int32).reshape(n_x, n_y))


def reachable_pairs(problem: UnitProblem) -> Pairs:
    """The closure of the start pairs under products of supports.

    Every coupling stays inside this set, so its optimum is the optimum over all couplings. (The pairs reached by one
    particular coupling would not do: leaving pairs out can hide a cheaper coupling.)
    """
    n_x, n_y = problem.shape
    mask, half = np.zeros((n_x, n_y), dtype=np.bool_), np.zeros((n_x, n_y + 1), dtype=np.bool_)
    _close(*problem.support_x[:2], *problem.support_y[:2], mask, half, np.empty(n_x * n_y + 1, dtype=np.int64))
    return pairs_where(mask)


def folded(pairs: Pairs) -> Pairs:
    """Half of the pairs, where the two chains and both orders of their states are alike; all, where half are more."""
    mask = pairs.index >= 0
    x, y = np.nonzero(np.triu(mask | mask.T))
    if len(x) >= len(pairs):
        return pairs
    index = np.full(mask.shape, -1, dtype=np.int32)
    index[x, y] = index[y, x] = np.arange(len(x), dtype=np.int32)
    return Pairs(x.astype(np.int32), y.astype(np.int32), index, folded=True)


def pairs_where(mask: NDArray[np.bool_]) -> Pairs:
    """The pairs that an (n_x, n_y) table marks."""
    x, y = np.nonzero(mask)
    index = np.full(mask.shape, -1, dtype=np.int32)
    index[mask] = np.arange(len(x), dtype=np.int32)
    return Pairs(x.astype(np.int32), y.astype(np.int32), index)


@kernel
def _close(ptr_x, idx_x, ptr_y, idx_y, mask, half, stack):  # type: ignore[no-untyped-def]
    """Mark every pair reachable from the start rows.

    A step is taken in two halves, (x, y) -> (x', y) -> (x', y'), and each half-pair is expanded once: the work is
    n_x * n_y times the sum of the support sizes, not their product.
    """
    n_x, n_y = mask.shape
    stack[0] = n_x * (n_y + 1) + n_y
    top = 1
    while top > 0:
        top -= 1
        x = stack[top] // (n_y + 1)
        y = stack[top] % (n_y + 1)
        for i in range(ptr_x[x], ptr_x[x + 1]):
            following = idx_x[i]
            if half[following, y]:
                continue
            half[following, y] = True
            for j in range(ptr_y[y], ptr_y[y + 1]):
                if not mask[following, idx_y[j]]:
                    mask[following, idx_y[j]] = True
                    stack[top] = following * (n_y + 1) + idx_y[j]
                    top += 1
