"""Transition counts as pairs, and the ends of sequences that may continue in the next part of a table.

Parts of a table are counted separately. The step from the last state of a sequence in one part to its first state in
the next would be lost; it is reconstructed from the first and the last state of every sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.compile.jit import kernel, part
from somcot.plumbing.arrays import Array, Bools, Codes, Floats, Ints
from somcot.plumbing.checks import is_sparse_enough, real_array

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "PairCounts",
    "SequenceEnds",
    "add_entries",
    "added",
    "count_pairs",
    "from_matrix",
    "from_table",
    "locate_steps",
    "occurrences",
]


# --- Counting pairs of state indices in memory proportional to the data

CHUNK = 1 << 16  # pairs whose keys are in memory together: they stay in the cache


class PairCounts(NamedTuple):
    """Pairs of states with their counts, ordered by row, then column."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[np.int64]
    n: int

    def row_sums(self) -> NDArray[np.int64]:
        """Number of steps from each state."""
        return self._sum_by(self.rows, self.values)

    def diagonal(self) -> NDArray[np.int64]:
        """Number of steps from each state to itself."""
        loops = self.rows == self.columns
        return self._sum_by(self.rows[loops], self.values[loops])

    def matrix(self) -> NDArray[np.int64] | csr_array:
        """All counts as an (n, n) array, sparse if that is much smaller."""
        if is_sparse_enough(self.n, len(self.values)):
            from scipy.sparse import csr_array

            return csr_array((self.values, (self.rows, self.columns)), shape=(self.n, self.n))
        table = np.zeros((self.n, self.n), dtype=np.int64)
        table[self.rows, self.columns] = self.values
        return table

    def kernel(self) -> Floats | csr_array:
        """Counts divided by their row sums; states never left get a self-loop."""
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
        """The counts among n other states: state i becomes ``places[i]``; the order of the pairs may be lost."""
        return PairCounts(places[self.rows].astype(np.int64), places[self.columns].astype(np.int64), self.values, n)

    def with_values(self, values: NDArray[np.int64]) -> PairCounts:
        """The same pairs with other counts; pairs with count 0 are left out."""
        seen = values > 0
        return PairCounts(self.rows[seen], self.columns[seen], values[seen], self.n)

    def _sum_by(self, rows: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
        total = np.zeros(self.n, dtype=np.int64)
        np.add.at(total, rows, values)  # integers: bincount would convert to floats
        return total


def count_pairs(now: Codes, following: Codes, n: int) -> PairCounts:
    """Count the occurrences of each pair of indices below n.

    Examples
    --------
    >>> count_pairs(np.array([0, 0, 1], np.int32), np.array([1, 1, 0], np.int32), 2).matrix()
    array([[0, 2],
           [1, 0]])
    """
    if n * n <= max(len(now) // 4, 1 << 16):
        table = np.zeros(n * n, dtype=np.int64)
        chunk = max(CHUNK, n * n)  # adding tables must not cost more than counting
        for i in range(0, len(now), chunk):
            keys = now[i : i + chunk].astype(np.int64) * n + following[i : i + chunk]
            table += np.bincount(keys, minlength=n * n)
        return from_table(table, n)
    # A full table would take longer to fill than the pairs to sort.
    # One key per pair; int64 holds n^2 for up to 3e9 states.
    ordered = now.astype(np.int64) * n + following
    ordered.sort()
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    keys, values = ordered[first], np.diff(first, append=len(ordered))
    return PairCounts(keys // n, keys % n, values, n)


@kernel
def locate_steps(indptr: Ints, indices: Codes, places: Ints, now: Codes, following: Codes) -> Codes:
    """The entry of each step in a matrix whose rows are sorted by column; state i has row and column ``places[i]``."""
    entries = np.empty(now.size, np.int32)
    for t in range(now.size):
        row, column = np.uint64(places[np.uint64(now[t])]), places[np.uint64(following[t])]
        low = indptr[row]
        # At most `column` entries come before it, and exactly as many if none of them is missing.
        at = min(low + column, indptr[row + np.uint64(1)] - 1)
        while low < at and indices[np.uint64(at)] != column:
            middle = (low + at) // 2
            if indices[np.uint64(middle)] < column:
                low = middle + 1
            else:
                at = middle
        entries[t] = at
    return entries


@kernel
def add_entries(entries: Codes, bounds: Ints, units: Ints, table: Floats) -> None:
    """Add 1 to ``table[unit, entry]`` for each entry of each piece: piece k has those from ``bounds[k]`` on."""
    cells, width = table.ravel(), np.uint64(table.shape[1])  # a view; without signs, no index is checked for its own
    for k in range(units.size):
        begin = np.uint64(units[k]) * width
        for t in range(np.uint64(bounds[k]), np.uint64(bounds[k + 1])):
            cells[begin + np.uint64(entries[t])] += 1.0


@kernel
def occurrences(keys: Codes, bounds: Ints, last: Codes, n_keys: int) -> tuple[Ints, Codes, Codes]:
    """How often each unit has each key: units and counts of key k, from ``first[k]`` on.

    Unit u has the keys from ``bounds[u]`` to ``bounds[u + 1]`` and, unless negative, ``last[u]``.
    """
    first, latest = np.zeros(n_keys + 1, np.int64), np.full(n_keys, -1)
    # Twice, because it is not known beforehand how many units have a key. Sums instead of branches, which would be
    # predicted wrongly half of the time.
    for u in range(last.size):
        for t in range(bounds[u], bounds[u + 1]):
            first[keys[t] + 1] += latest[keys[t]] != u
            latest[keys[t]] = u
        if last[u] >= 0:
            first[last[u] + 1] += latest[last[u]] != u
            latest[last[u]] = u
    for k in range(n_keys):
        first[k + 1] += first[k]
    units, counts = np.zeros(first[n_keys], np.int32), np.zeros(first[n_keys], np.int32)
    place = np.empty(n_keys, np.int64)  # of the latest unit
    for k in range(n_keys):
        place[k], latest[k] = first[k] - 1, -1
    for u in range(last.size):
        for t in range(bounds[u], bounds[u + 1]):
            _add_to(keys[t], u, latest, place, units, counts)
        if last[u] >= 0:
            _add_to(last[u], u, latest, place, units, counts)
    return first, units, counts


@part
def _add_to(key, u, latest, place, units, counts):  # type: ignore[no-untyped-def]
    place[key] += latest[key] != u
    latest[key] = u
    units[place[key]] = u
    counts[place[key]] += 1


def from_table(table: NDArray[np.int64], n: int) -> PairCounts:
    """The pairs of a full table of counts, row by row, shape (n * n,)."""
    keys = np.flatnonzero(table)
    return PairCounts(keys // n, keys % n, table[keys], n)


def added(parts: Sequence[PairCounts]) -> PairCounts:
    """The sum of counts between the same states.

    Examples
    --------
    >>> one = count_pairs(np.array([0, 1], np.int32), np.array([1, 0], np.int32), 2)
    >>> added([one, one]).matrix().tolist()
    [[0, 2], [2, 0]]
    """
    n = parts[0].n
    keys = np.concatenate([part.rows * n + part.columns for part in parts])
    values = np.concatenate([part.values for part in parts])
    # Stable, so that equal keys keep the order of their parts.
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    total = np.add.reduceat(values, first) if len(first) else values
    return PairCounts(keys[first] // n, keys[first] % n, total, n)


def from_matrix(counts: object) -> PairCounts:
    """Counts from a square matrix of integers, dense or sparse.

    Examples
    --------
    >>> from_matrix([[0, 2], [1, 0]]).values
    array([2, 1])
    """
    from scipy.sparse import coo_array, issparse

    matrix = coo_array(counts if issparse(counts) else real_array("counts", counts, 2))
    matrix.sum_duplicates()
    if matrix.ndim != 2:
        raise ValueError(f"counts: shape is {matrix.shape}, expected as many columns as rows")
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"counts: shape is {matrix.shape}, expected as many columns as rows")
    values = np.asarray(matrix.data)
    # Counts as floats are accepted if they are whole numbers: many readers return floats.
    if not np.isfinite(values).all() or (values < 0).any() or (values != np.floor(values)).any():
        raise ValueError(
            "counts: found entries that are not whole numbers of at least 0; pass counts, not probabilities"
        )
    if not values.any():
        raise ValueError("counts: all are 0; at least one transition is needed")
    rows, columns = (np.asarray(c).astype(np.int64) for c in matrix.coords)
    order = np.lexsort((columns, rows))
    pairs = PairCounts(rows[order], columns[order], values[order].astype(np.int64), int(matrix.shape[0]))
    return pairs.with_values(pairs.values)


# --- Sequences that may continue in the next part of a table


class SequenceEnds(NamedTuple):
    """First and last state of every sequence, ordered by name.

    Attributes
    ----------
    ids : ndarray, shape (m,)
        Distinct names of the sequences, sorted: integers or text.
    first, last : ndarray of int32, shape (m,)
        Indices of states.
    rows : ndarray of int64, shape (m,)
        Number of rows of each sequence; a single row has no step yet.
    ended : ndarray of bool, shape (m,)
        Whether the last row terminated the process.
    begin, finish : ndarray, shape (m,), or None
        Times of the first and the last row, if the table has times.
    """

    ids: Array
    first: Codes
    last: Codes
    rows: Ints
    ended: Bools
    begin: Array | None = None
    finish: Array | None = None

    def moved(self, places: Codes) -> SequenceEnds:
        """The same sequences with renamed states: state i becomes ``places[i]``."""
        return self._replace(first=places[self.first], last=places[self.last])

    def then(self, later: SequenceEnds) -> tuple[SequenceEnds, Codes, Codes]:
        """Continue with a later part; also return the states before and after the steps across the border.

        Examples
        --------
        >>> one = np.ones(1, np.int64)
        >>> states = np.array([0], np.int32), np.array([1], np.int32)
        >>> a, b = (SequenceEnds(np.array([7]), state, state, one, one < 0) for state in states)
        >>> joined, now, following = a.then(b)
        >>> now, following, joined.rows
        (array([0], dtype=int32), array([1], dtype=int32), array([2]))
        """
        # Otherwise equal sequences would never be found, without any message.
        self._refuse_names(later)
        if np.array_equal(self.ids, later.ids):  # the common case for logs split by time
            return self._all_go_on(later)
        # Names are distinct and sorted in both, so a merge finds the common ones.
        _, i, j = np.intersect1d(self.ids, later.ids, assume_unique=True, return_indices=True)
        self._refuse_times(later, i, j)
        new = np.ones(len(later.ids), dtype=np.bool_)
        new[j] = False
        ids = np.concatenate([self.ids, later.ids[new]])
        order = np.argsort(ids, kind="stable")

        def joined(name: str, *, from_later: bool) -> Array:
            values = getattr(self, name).copy()
            if from_later:
                # The last state, the end and the time come from the later part; the first state stays.
                values[i] = getattr(later, name)[j]
            column: Array = np.concatenate([values, getattr(later, name)[new]])[order]
            return column

        rows = self.rows.copy()
        rows[i] += later.rows[j]
        timed = self.begin is not None
        return (
            SequenceEnds(
                ids[order],
                joined("first", from_later=False),
                joined("last", from_later=True),
                np.concatenate([rows, later.rows[new]])[order],
                joined("ended", from_later=True),
                joined("begin", from_later=False) if timed else None,
                joined("finish", from_later=True) if timed else None,
            ),
            self.last[i],
            later.first[j],
        )

    def _all_go_on(self, later: SequenceEnds) -> tuple[SequenceEnds, Codes, Codes]:
        """`then` for parts with the same sequences, without a lookup."""
        everyone = np.arange(len(self.ids))
        self._refuse_times(later, everyone, everyone)
        rows = self.rows + later.rows
        joined = self._replace(last=later.last, rows=rows, ended=later.ended, finish=later.finish)
        return joined, self.last, later.first

    def _refuse_names(self, later: SequenceEnds) -> None:
        """Refuse names of another type, which cannot be continuations."""
        if (self.ids.dtype.kind in "iu") != (later.ids.dtype.kind in "iu") and len(self.ids) and len(later.ids):
            raise ValueError(
                f"other: its sequences have names such as {later.ids[0].item()!r}, these {self.ids[0].item()!r}: "
                "numbers on one side, text on the other; use one kind"
            )

    def _refuse_times(self, later: SequenceEnds, i: Ints, j: Ints) -> None:
        """Refuse sequences that go back in time; i and j are the positions of the common sequences."""
        if self.finish is None or later.begin is None:
            return
        back = np.flatnonzero(later.begin[j] < self.finish[i])
        if len(back):
            name = self.ids[i[back[0]]].item()
            raise ValueError(
                f"other: sequence {name!r} goes back in time there, from {self.finish[i[back[0]]]} "
                f"to {later.begin[j[back[0]]]} ({len(back)} of {len(i)} do); merge parts in order of time"
            )
