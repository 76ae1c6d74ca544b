"""Lifting the solution of a reduced problem to all states."""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.chains import Support
from somcot.compile.jit import kernel
from somcot.core.pairs import Pairs, reachable_pairs
from somcot.core.partition import Labels
from somcot.core.reduction import Reduced, ReducedSide
from somcot.core.sweep import Sweep
from somcot.plumbing.arrays import Floats
from somcot.plumbing.linear_systems import Kernel
from somcot.plumbing.memory import require

__all__ = ["Lifted", "lifted", "potential_slots"]


class Lifted(NamedTuple):
    """A transition coupling of the states before merging: pairs, their kernel and the initial distribution."""

    pairs: Pairs
    kernel: Kernel
    start: Floats


class _Grouped(NamedTuple):
    """Rows with their entries ordered by block."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    probabilities: Floats
    blocks: NDArray[np.int64]


def lifted(small: Reduced, sweep: Sweep) -> Lifted:
    """Lift the transition coupling of merged states to all states.

    The mass of each step between blocks is distributed over members in proportion to their probabilities. Within a pair
    of blocks all couplings are equally good, since the potential is constant there; members are matched in order.
    """
    if small.x.quotient is None and small.y.quotient is None:
        return Lifted(sweep.pairs, *sweep.kernel())
    # Pairs of all kept states; those of blocks are in `sweep.pairs`.
    pairs = reachable_pairs(small.cut)
    blocks, first = sweep.kernel()
    pair_x, pair_y = np.append(pairs.x, np.int32(small.cut.shape[0])), np.append(pairs.y, np.int32(small.cut.shape[1]))
    labels_x, labels_y = (np.append(side.labels, side.labels.max() + 1) for side in (small.x, small.y))
    # The initial "pair" is one past the last on both sides, so
    # one kernel call lifts the rows and the initial distribution.
    of_pair = np.append(sweep.pairs.index[labels_x[pairs.x], labels_y[pairs.y]], len(sweep.pairs))
    arcs = _with_start(blocks, first)
    rows = _grouped(small.cut.support_x, labels_x), _grouped(small.cut.support_y, labels_y)
    arguments = (pair_x, pair_y, *rows, of_pair, *arcs, sweep.pairs.x, sweep.pairs.y, pairs.index)
    indptr = np.zeros(len(pairs) + 2, dtype=np.int64)
    # Two passes over the same code: the first only counts, so that the arrays have their exact size.
    _share(*arguments, indptr, np.empty(0, dtype=np.int32), np.empty(0))
    n = int(indptr[-1])
    # Twelve bytes per entry, and copies in the solvers.
    require(40.0 * n, f"a coupling of {len(pairs):,} state pairs with {n:,} joint steps", "merge states")
    indices, data = np.empty(n, dtype=np.int32), np.empty(n)
    _share(*arguments, indptr, indices, data)
    begin = indptr[-2]
    start = np.bincount(indices[begin:], data[begin:], minlength=len(pairs)).astype(np.float64)
    return Lifted(pairs, Kernel(indptr[:-1], indices[:begin], data[:begin]), start)


def potential_slots(small: Reduced, sweep: Sweep, V: Floats, weight: Floats, start: float) -> tuple[Floats, Floats]:
    """Transport potentials summed over pairs with weights, one number per entry of each chain's support.

    Parameters
    ----------
    V : ndarray
        The potential of the smaller problem.
    weight : ndarray, shape (n_x, n_y)
        Weights of the pairs of kept states.
    start : float
        Weight of the initial distributions.
    """
    return _slots(small, sweep, V, weight, start, 0), _slots(small, sweep, V, weight, start, 1)


def _slots(small: Reduced, sweep: Sweep, V: Floats, weights: Floats, start: float, axis: int) -> Floats:
    """`potential_slots` for one chain: members have the potentials of their block, weighted by their visits."""
    side, other = (small.x, small.y) if axis == 0 else (small.y, small.x)
    support, unmerged = _supports(small, axis)
    visits = weights if axis == 0 else weights.T
    n_blocks, n_others = small.problem.shape[axis], small.problem.shape[1 - axis]
    to_blocks = np.zeros((side.n_cut, n_others))
    # Visits summed over the members of the other chain's blocks: their potentials are equal, so only sums matter.
    np.add.at(to_blocks.T, other.labels, visits.T)
    rank = _ranks(side.labels, n_blocks)
    result = np.zeros(len(unmerged.indices))
    rows = unmerged.rows
    # One pass per rank: `potential_sums` accepts a single member of each block at a time.
    for r in range(int(rank.max()) + 1):
        member = np.full(n_blocks, -1)
        member[side.labels[rank == r]] = np.flatnonzero(rank == r)
        weight = np.where(member[:, None] >= 0, to_blocks[member], 0.0)
        weight = weight if axis == 0 else weight.T
        flat = np.append(weight[sweep.pairs.x, sweep.pairs.y], start if r == 0 else 0.0)
        slots = sweep.potential_sums(V, flat)[axis]
        mine = np.append(rank == r, r == 0)[rows]
        where = support.locate(np.append(side.labels, n_blocks)[rows[mine]], side.labels[unmerged.indices[mine]])
        # A member may lack an entry of its block's row (rows are equal up to rounding
        # only): the position is clamped, and the slot's weight is negligible.
        result[mine] = slots[np.minimum(where, len(slots) - 1)]
    return result


def _supports(small: Reduced, axis: int) -> tuple[Support, Support]:
    """The supports of one chain after and before merging."""
    if axis == 0:
        return small.problem.support_x, small.cut.support_x
    return small.problem.support_y, small.cut.support_y


def _ranks(labels: Labels, n_blocks: int) -> Labels:
    """Rank of each state within its block: 0 for the first member, 1 for the second, ..."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels, minlength=n_blocks)
    rank = np.empty(len(labels), dtype=np.int64)
    rank[order] = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return rank


def _with_start(rows: Kernel, start: Floats) -> Kernel:
    """The kernel with the distribution of the initial pair as an additional row."""
    first = np.flatnonzero(start)
    indptr = np.append(rows.indptr, len(rows.indices) + len(first))
    return Kernel(
        indptr, np.concatenate([rows.indices, first.astype(np.int32)]), np.concatenate([rows.data, start[first]])
    )


def _grouped(support: Support, labels: Labels) -> _Grouped:
    blocks = labels[support.indices]
    order = np.lexsort((support.indices, blocks, support.rows))
    return _Grouped(support.indptr, support.indices[order], support.probabilities[order], blocks[order])


@kernel
def _share(pair_x, pair_y, x, y, of_pair, arc_ptr, arcs, masses, block_x, block_y, index, indptr, indices, data):
    """Write the rows of the lifted coupling; with empty output arrays, only count the entries."""
    counting = data.size == 0
    filled = 0
    for k in range(pair_x.size):
        x0, x1 = x.indptr[pair_x[k]], x.indptr[pair_x[k] + 1]
        y0, y1 = y.indptr[pair_y[k]], y.indptr[pair_y[k] + 1]
        begin = filled
        total = 0.0
        for t in range(arc_ptr[of_pair[k]], arc_ptr[of_pair[k] + 1]):
            i, i1, mass_x = _members(x.blocks, x.probabilities, block_x[arcs[t]], x0, x1)
            j, j1, mass_y = _members(y.blocks, y.probabilities, block_y[arcs[t]], y0, y1)
            if i == i1 or j == j1:  # rows are equal up to rounding: absent entries have negligible mass
                continue
            if counting:
                # A north-west corner rule on k and l entries uses exactly k + l - 1 cells.
                filled += i1 - i + j1 - j - 1
                continue
            left_x, left_y = x.probabilities[i] / mass_x, y.probabilities[j] / mass_y
            while True:
                share = min(left_x, left_y)
                indices[filled] = index[x.indices[i], y.indices[j]]
                data[filled] = share * masses[t]
                total += data[filled]
                filled += 1
                left_x -= share
                left_y -= share
                # Advance the line that is exhausted. The last line of one side stays open until the other side ends,
                # whatever the rounding: the number of entries is the counted one.
                if (left_x <= left_y and i + 1 < i1) or j + 1 == j1:
                    i += 1
                    if i == i1:
                        break
                    left_x += x.probabilities[i] / mass_x
                else:
                    j += 1
                    left_y += y.probabilities[j] / mass_y
        # Renormalise: skipped arcs leave the row slightly short of 1.
        for t in range(begin, 0 if counting else filled):
            data[t] /= total
        indptr[k + 1] = filled


@kernel
def _members(blocks, probabilities, block, lo, hi):
    """First and last position of a block's entries in a row ordered by blocks, and their sum."""
    while lo < hi and blocks[lo] < block:
        lo += 1
    stop = lo
    total = 0.0
    while stop < hi and blocks[stop] == block:
        total += probabilities[stop]
        stop += 1
    return lo, stop, total


def embedded(side: ReducedSide, states: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Map states after truncation to states of the original chain, with a mask of valid ones."""
    if side.cut is None:
        return states, np.ones(len(states), dtype=np.bool_)
    table = np.append(side.kept, -1).astype(np.int32)
    position = table[states]
    return position, position >= 0
