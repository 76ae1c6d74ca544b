"""A chain with states merged, and by how much its rows may be off."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from somcot.bellman.reduce.partition import Labels, coarsest, equal_rows
from somcot.chains import Support
from somcot.plumbing.arrays import Floats

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["Quotient", "block_masses", "first_members", "merged"]

_EPS = float(np.finfo(np.float64).eps)
_ALIKE = 8.0 * _EPS  # probabilities that are no further apart are the same up to the rounding of their rows
_LIMIT = 64.0 * _EPS  # rows of one block that are further apart in total are not merged
_STEP = 2.0**-30


class Quotient(NamedTuple):
    """Blocks as states.

    Attributes
    ----------
    labels : ndarray, shape (n,)
        The block of each state.
    support : Support
        The row of each block's first member, and the start law, summed over blocks.
    slack : float
        Any member's row, summed over blocks, is at most this far from its block's (total absolute difference, the
        rounding of the sums included).
    """

    labels: Labels
    support: Support
    slack: float


def merged(support: Support, table: Floats) -> Quotient | None:
    """Merge the states that behave alike and have equal rows in a table of costs; None where there are none.

    Rows are compared up to rounding, whatever order their entries are in. Then every row is checked against the row of
    its block, and the difference is reported.
    """
    labels, n_blocks = equal_rows(table)
    if n_blocks == len(labels):
        return None
    for tolerance in (_ALIKE, 0.0):
        found, n_found = coarsest(support, labels, n_blocks, tolerance)
        if n_found == len(labels):
            return None
        quotient = _quotient(support, found, n_found)
        if quotient.slack <= _LIMIT:
            return quotient
    return None


def first_members(labels: Labels, n_blocks: int) -> Labels:
    """The first state of each block."""
    first = np.empty(n_blocks, dtype=np.int64)
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

    What is above multiples of 2^-30 is summed by itself, the multiples without error: the sums are right to a unit in
    the last place.
    """
    rows, columns = support.rows, labels[support.indices]
    coarse = np.rint(support.probabilities / _STEP) * _STEP
    fine = support.probabilities - coarse
    shape = len(labels) + 1, n_blocks
    if shape[0] * n_blocks <= 8 * len(columns) + 4096:
        place = rows * n_blocks + columns
        sums = [np.bincount(place, part, minlength=shape[0] * n_blocks) for part in (coarse, fine)]
        return (sums[0] + sums[1]).reshape(shape)
    from scipy.sparse import csr_array

    pieces = [csr_array((part, (rows, columns)), shape=shape) for part in (coarse, fine)]
    return pieces[0] + pieces[1]
