"""Counting pairs of state indices in memory proportional to the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.arrays import Codes, Floats
from somcot.plumbing.validation import real_array
from somcot.recorded.flow import is_sparse_enough

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["PairCounts", "added", "count_pairs", "from_matrix", "from_table"]

CHUNK = 1 << 20  # pairs whose keys are held at a time


class PairCounts(NamedTuple):
    """Pairs of states with how often they were seen, ordered by row, then column."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[np.int64]
    n: int

    def row_sums(self) -> NDArray[np.int64]:
        """How often each state was left."""
        return self._sum_by(self.rows, self.values)

    def diagonal(self) -> NDArray[np.int64]:
        """How often each state was followed by itself."""
        loops = self.rows == self.columns
        return self._sum_by(self.rows[loops], self.values[loops])

    def matrix(self) -> NDArray[np.int64] | csr_array:
        """All counts as an (n, n) array, sparse when that is smaller by far."""
        if is_sparse_enough(self.n, len(self.values)):
            from scipy.sparse import csr_array

            return csr_array((self.values, (self.rows, self.columns)), shape=(self.n, self.n))
        table = np.zeros((self.n, self.n), dtype=np.int64)
        table[self.rows, self.columns] = self.values
        return table

    def kernel(self) -> Floats | csr_array:
        """Counts divided by their row sums; states never left keep to themselves."""
        sums = self.row_sums()
        alone = np.flatnonzero(sums == 0)
        shares = np.append(self.values / sums[self.rows], np.ones(len(alone)))
        rows, columns = np.append(self.rows, alone), np.append(self.columns, alone)
        if is_sparse_enough(self.n, len(shares)):
            from scipy.sparse import csr_array

            return csr_array((shares, (rows, columns)), shape=(self.n, self.n))
        table = np.zeros((self.n, self.n))
        table[rows, columns] = shares
        return table

    def at(self, places: Codes, n: int) -> PairCounts:
        """Between other states, n of them: state i becomes ``places[i]``; the order of the pairs may be lost."""
        return PairCounts(places[self.rows].astype(np.int64), places[self.columns].astype(np.int64), self.values, n)

    def with_values(self, values: NDArray[np.int64]) -> PairCounts:
        """The same pairs seen as often as `values` says; those never seen are left out."""
        seen = values > 0
        return PairCounts(self.rows[seen], self.columns[seen], values[seen], self.n)

    def _sum_by(self, rows: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
        total = np.zeros(self.n, dtype=np.int64)
        np.add.at(total, rows, values)  # whole numbers: bincount would go through floats
        return total


def count_pairs(now: Codes, following: Codes, n: int) -> PairCounts:
    """Count how often each pair of indices below n occurs.

    Examples
    --------
    >>> count_pairs(np.array([0, 0, 1], np.int32), np.array([1, 1, 0], np.int32), 2).matrix()
    array([[0, 2],
           [1, 0]])
    """
    if n * n <= max(len(now) // 4, 1 << 16):
        table = np.zeros(n * n, dtype=np.int64)
        chunk = max(CHUNK, n * n)  # adding up tables must not cost more than counting
        for i in range(0, len(now), chunk):
            keys = now[i : i + chunk].astype(np.int64) * n + following[i : i + chunk]
            table += np.bincount(keys, minlength=n * n)
        return from_table(table, n)
    # A full table would be slower to fill than the pairs are to sort.
    ordered = now.astype(np.int64) * n + following
    ordered.sort()
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    keys, values = ordered[first], np.diff(first, append=len(ordered))
    return PairCounts(keys // n, keys % n, values, n)


def from_table(table: NDArray[np.int64], n: int) -> PairCounts:
    """The pairs of a full table of counts, row by row, shape (n * n,)."""
    keys = np.flatnonzero(table)
    return PairCounts(keys // n, keys % n, table[keys], n)


def added(parts: Sequence[PairCounts]) -> PairCounts:
    """Counts between the same states added up.

    Examples
    --------
    >>> one = count_pairs(np.array([0, 1], np.int32), np.array([1, 0], np.int32), 2)
    >>> added([one, one]).matrix().tolist()
    [[0, 2], [2, 0]]
    """
    n = parts[0].n
    keys = np.concatenate([part.rows * n + part.columns for part in parts])
    values = np.concatenate([part.values for part in parts])
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    total = np.add.reduceat(values, first) if len(first) else values
    return PairCounts(keys[first] // n, keys[first] % n, total, n)


def from_matrix(counts: Any) -> PairCounts:
    """Counts given as a square matrix of whole numbers, dense or sparse.

    Examples
    --------
    >>> from_matrix([[0, 2], [1, 0]]).values
    array([2, 1])
    """
    from scipy.sparse import coo_array, issparse

    matrix = coo_array(counts if issparse(counts) else real_array("counts", counts, 2))
    matrix.sum_duplicates()
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"counts: shape is {matrix.shape}, expected as many columns as rows")
    values = np.asarray(matrix.data)
    if not np.isfinite(values).all() or (values < 0).any() or (values != np.floor(values)).any():
        raise ValueError(
            "counts: found entries that are no whole numbers of at least 0; give how often, not how likely"
        )
    if not values.any():
        raise ValueError("counts: all are 0, so nothing was recorded")
    rows, columns = (np.asarray(c).astype(np.int64) for c in matrix.coords)
    order = np.lexsort((columns, rows))
    found = PairCounts(rows[order], columns[order], values[order].astype(np.int64), int(matrix.shape[0]))
    return found.with_values(found.values)
