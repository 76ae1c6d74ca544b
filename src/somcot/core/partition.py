"""The coarsest lumpable partition of a chain, and its quotient with bounds of rounding errors.

Refinement by splitters (Paige and Tarjan 1987; with weights Valmari and Franceschinis 2010), O(m log n) for m
transitions: after a block has been split, only its smaller parts are used as splitters again. Simple refinement may
need n rounds over all states, for example on walks.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.chains import Support
from somcot.compile.jit import kernel
from somcot.compile.simd_math import copy_to
from somcot.plumbing.arrays import Floats
from somcot.plumbing.linear_systems import Kernel

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "Labels",
    "Quotient",
    "block_masses",
    "coarsest",
    "equal_rows",
    "first_members",
    "merged",
    "merged_within",
    "renumbered",
]


# --- The coarsest lumpable partition: states of a block enter every block with equal probabilities.

Labels = NDArray[np.int64]


def equal_rows(table: Floats) -> tuple[Labels, int]:
    """Number the distinct rows of a table in order of first occurrence; equality is bitwise.

    Examples
    --------
    >>> equal_rows(np.array([[1.0, 2.0], [0.0, 1.0], [1.0, 2.0]]))
    (array([0, 1, 0]), 2)
    """
    labels = np.empty(len(table), dtype=np.int64)
    # Bit patterns: NaN equals itself, and 0.0 differs from -0.0, which only costs a merge.
    n_blocks: int = _number_rows(np.ascontiguousarray(table).view(np.int64), labels)
    return labels, n_blocks


def coarsest(support: Support, labels: Labels, n_blocks: int, tolerance: float) -> tuple[Labels, int]:
    """Refine a partition until all states of a block enter every block with the same probability.

    Parameters
    ----------
    support : Support
        The rows of the chain; the initial distribution is ignored.
    labels : ndarray, shape (n,)
        The partition to refine, blocks 0 .. n_blocks - 1.
    n_blocks : int
    tolerance : float
        Probabilities of entering a block that differ by at most this much count as equal.

    Returns
    -------
    labels : ndarray, shape (n,)
        Blocks numbered by their first members, which preserves the order of the states.
    n_blocks : int
    """
    n, n_entries = len(labels), int(support.indptr[-2])
    rows = Kernel(support.indptr[:-1], support.indices[:n_entries], support.probabilities[:n_entries])
    refined = labels.copy()
    n_refined: int = _refine(*rows.transpose(), refined, n_blocks, tolerance)
    # All blocks single: the identity, without sorting.
    return (np.arange(n), n) if n_refined == n else renumbered(refined)


def renumbered(labels: Labels) -> tuple[Labels, int]:
    """The same partition with its blocks numbered by their first members.

    Examples
    --------
    >>> renumbered(np.array([3, 1, 3, 0]))
    (array([0, 1, 0, 2]), 3)
    """
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    place = np.empty(len(first), dtype=np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    return place[inverse], len(first)


@kernel
def _number_rows(bits, labels):
    """Assign equal labels to equal rows, by hashing; returns the number of distinct rows."""
    n, m = bits.shape
    # Open addressing with at most half of the slots in use.
    size = 4
    while size < 2 * n:
        size *= 2
    slots = np.full(size, -1)
    hashes = np.empty(n, dtype=np.int64)
    n_kinds = 0
    for i in range(n):
        code = 0
        for j in range(m):
            # Knuth's MMIX multiplier and an xor-shift: costs such as 0, 0.5 and
            # 1 differ in their high bits only, and `place` uses the low ones.
            code = (code ^ bits[i, j]) * 0x5851F42D4C957F2D
            code ^= code >> 29
        hashes[i] = code
        place = code & (size - 1)
        while True:
            other = slots[place]
            if other < 0:
                slots[place] = i
                labels[i] = n_kinds
                n_kinds += 1
                break
            same = hashes[other] == code
            j = 0
            while same and j < m:
                same = bits[i, j] == bits[other, j]
                j += 1
            if same:
                labels[i] = labels[other]
                break
            place = (place + 1) & (size - 1)
    return n_kinds


@kernel(name="lumping", seconds=1)
def _refine(indptr, indices, data, label, n_blocks, tolerance):
    """Split blocks until they are stable; `indptr`, `indices`, `data` list the predecessors of each state.

    A block is a segment of `states`. For each splitter, the states that can enter it are moved to the front of their
    blocks; each block is then split by the probabilities of entering it.
    """
    n = label.size
    first, end, marked = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    for x in range(n):
        end[label[x]] += 1
    for b in range(1, n_blocks):
        first[b] = end[b - 1]
        end[b] += end[b - 1]
    states, place, fill = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), first.copy()
    for x in range(n):
        place[x] = fill[label[x]]
        states[place[x]] = x
        fill[label[x]] += 1
    # `lost` is the running compensation of `weight` (Kahan).
    weight, lost = np.empty(n), np.empty(n)
    # Every block of the initial partition is a splitter.
    waiting, members, touched = np.arange(n), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    top = n_blocks
    while top > 0 and n_blocks < n:
        top -= 1
        splitter = waiting[top]
        size = end[splitter] - first[splitter]
        # A copy, because splitting may permute the splitter's own segment while it is processed.
        copy_to(members[:size], states[first[splitter] : end[splitter]])
        n_touched = 0
        for k in range(size):
            for t in range(indptr[members[k]], indptr[members[k] + 1]):
                x = indices[t]
                b = label[x]
                # States that enter the splitter are the first `marked[b]` of their block's segment.
                front = first[b] + marked[b]
                if place[x] >= front:
                    if marked[b] == 0:
                        touched[n_touched] = b
                        n_touched += 1
                    marked[b] += 1
                    _swap(states, place, place[x], front)
                    weight[x] = 0.0
                    lost[x] = 0.0
                # Compensated sum: equivalent states may list their successors in a different order.
                term = data[t] - lost[x]
                total = weight[x] + term
                lost[x] = (total - weight[x]) - term
                weight[x] = total
        for k in range(n_touched):
            b = touched[k]
            n_marked = marked[b]
            marked[b] = 0
            # A block of one state cannot be split, and `weight` of untouched states is never read.
            if end[b] - first[b] > 1:
                _sort(states, place, weight, first[b], first[b] + n_marked)
                before = n_blocks
                n_blocks = _split(states, label, weight, first, end, b, n_marked, n_blocks, tolerance)
                # Only the new blocks become splitters. The part that keeps the number b is the largest, and its masses
                # follow from the others by subtraction: this gives the O(m log n) bound.
                for new in range(before, n_blocks):
                    waiting[top] = new
                    top += 1
    return n_blocks


@kernel
def _swap(states, place, i, j):
    states[i], states[j] = states[j], states[i]
    place[states[i]] = i
    place[states[j]] = j


@kernel
def _sort(states, place, weight, lo, hi):
    """Sort a segment by decreasing weight (shell sort, gaps of Ciura and on by 9/4)."""
    gap = 1
    while gap * 9 // 4 + 1 < hi - lo:
        gap = gap * 9 // 4 + 1
    while gap > 0:
        for i in range(lo + gap, hi):
            x = states[i]
            j = i
            while j >= lo + gap and weight[states[j - gap]] < weight[x]:
                states[j] = states[j - gap]
                j -= gap
            states[j] = x
        gap = 0 if gap == 1 else max(1, (gap - 1) * 4 // 9)
    for i in range(lo, hi):
        place[states[i]] = i


@kernel
def _split(states, label, weight, first, end, b, n_marked, n_blocks, tolerance):
    """Split a block at gaps between its weights; the largest part keeps its number, so that few states change.

    Unmarked states have weight 0 and come last. Returns the number of blocks; new blocks have the highest numbers.
    """
    lo, hi = first[b], end[b]
    begin = lo
    best_lo, best_hi = lo, lo
    for turn in range(2):  # the first pass finds the largest part, the second numbers the others
        begin = lo
        while begin < hi:
            # Compare with the first weight of the part, not with the previous
            # one: chains of small gaps must not merge different states.
            base = weight[states[begin]] if begin < lo + n_marked else 0.0
            stop = begin + 1
            while stop < hi and base - (weight[states[stop]] if stop < lo + n_marked else 0.0) <= tolerance:
                stop += 1
            if turn == 0:
                if stop - begin > best_hi - best_lo:
                    best_lo, best_hi = begin, stop
            elif begin != best_lo:
                for i in range(begin, stop):
                    label[states[i]] = n_blocks
                first[n_blocks], end[n_blocks] = begin, stop
                n_blocks += 1
            begin = stop
    first[b], end[b] = best_lo, best_hi
    return n_blocks


# --- The quotient, with bounds of its rounding errors.

_EPS = float(np.finfo(np.float64).eps)
_ALIKE = 8.0 * _EPS  # probabilities that differ by at most this are equal up to rounding
_LIMIT = 64.0 * _EPS  # rows with a larger total difference are not merged
_STEP = 2.0**-30  # probabilities are at most 1, so sums of up to 2^23 multiples are exact in float64


class Quotient(NamedTuple):
    """A chain whose states are blocks.

    Attributes
    ----------
    labels : ndarray, shape (n,)
        The block of each state.
    support : Support
        The row of each block's first member, and the initial distribution, summed over blocks.
    slack : float
        Bound of the total absolute difference between any member's row, summed over blocks, and that of its block,
        including the rounding of the sums.
    """

    labels: Labels
    support: Support
    slack: float


def merged(support: Support, table: Floats) -> Quotient | None:
    """Merge equivalent states with equal rows in a table of costs; None if there are none.

    Rows are compared up to rounding, regardless of the order of their entries. Then every row is checked against the
    row of its block, and the difference is reported.
    """
    return merged_within(support, *equal_rows(table))


def merged_within(support: Support, labels: Labels, n_blocks: int) -> Quotient | None:
    """Merge equivalent states of the same block of a partition; None if there are none."""
    if n_blocks == len(labels):
        return None
    # First with a tolerance for rounding; if that merges states that differ by too much in total, only exact equality.
    for tolerance in (_ALIKE, 0.0):
        blocks, n_found = coarsest(support, labels, n_blocks, tolerance)
        if n_found == len(labels):  # nothing to merge
            return None
        quotient = _quotient(support, blocks, n_found)
        if quotient.slack <= _LIMIT:
            return quotient
    return None


def first_members(labels: Labels, n_blocks: int) -> Labels:
    """The first state of each block."""
    first = np.empty(n_blocks, dtype=np.int64)
    # Written in reverse, so that the first member is written last.
    first[labels[::-1]] = np.arange(len(labels))[::-1]
    return first


def _quotient(support: Support, labels: Labels, n_blocks: int) -> Quotient:
    n = len(labels)
    table = block_masses(support, labels, n_blocks)
    chosen = np.append(first_members(labels, n_blocks), n)
    if isinstance(table, np.ndarray):
        apart = np.abs(table[:n] - table[chosen[labels]]).sum(axis=1).max()
        rows, columns = np.nonzero(table[chosen])
        values, lengths = table[chosen][rows, columns], np.bincount(rows, minlength=n_blocks + 1)
    else:
        apart = abs(table[:n] - table[chosen[labels]]).sum(axis=1).max()
        small = table[chosen]
        small.eliminate_zeros()
        small.sort_indices()
        columns, values, lengths = small.indices, small.data, np.diff(small.indptr)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    # Twice a unit in the last place for each of the two rows.
    return Quotient(labels, Support(indptr, columns.astype(np.int32), values), float(apart) + 2.0 * _EPS)


def block_masses(support: Support, labels: Labels, n_blocks: int) -> Floats | csr_array:
    """Probability of entering each block from each state, and of starting in it, (n + 1, n_blocks); sparse if large.

    Multiples of 2^-30 are summed exactly and the remainders separately, so the sums are accurate to one unit in the
    last place.
    """
    rows, columns = support.rows, labels[support.indices]
    coarse = np.rint(support.probabilities / _STEP) * _STEP
    fine = support.probabilities - coarse
    shape = len(labels) + 1, n_blocks
    # Dense unless the table would be much larger than the list of transitions.
    if shape[0] * n_blocks <= 8 * len(columns) + 4096:
        place = rows * n_blocks + columns
        sums = [np.bincount(place, part, minlength=shape[0] * n_blocks) for part in (coarse, fine)]
        return (sums[0] + sums[1]).reshape(shape)
    from scipy.sparse import csr_array

    pieces = [csr_array((part, (rows, columns)), shape=shape) for part in (coarse, fine)]
    return pieces[0] + pieces[1]
