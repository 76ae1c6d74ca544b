"""Reduction to a smaller problem with the same distance, up to a known bound.

Replace a set of states by one absorbing state of minimal cost. Every coupling of the chains induces a coupling of the
truncated chains that costs no more, so the distance can only decrease. A coupling of the truncated chains, continued
arbitrarily after an omitted state is reached, costs at most the range of the cost from then on. So the distance
decreases by at most

    range * (E discount^T_x + E discount^T_y),

where T is the first time at which a chain is in an omitted state. (The discounted occupancy of these states would not
be enough, because a chain may return from them.) E discount^T is computed by propagating the initial distribution and
adding up the mass that arrives, which involves only nonnegative numbers, plus all mass not yet absorbed.

Rare states are omitted here, equivalent states are merged (`core.partition`), and a chain compared with itself needs
each pair of states only once. Solutions are then mapped back to all states.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.chains import Support
from somcot.compile.jit import kernel
from somcot.core.pairs import PairChoice, Pairs, choose, folded, reachable_pairs
from somcot.core.partition import Labels, Quotient, first_members, merged
from somcot.core.sweep import Sweep
from somcot.plumbing.arrays import Floats
from somcot.plumbing.linear_systems import Kernel, discounted_value, reachable
from somcot.plumbing.memory import require
from somcot.problem import UnitProblem

__all__ = [
    "LEFT_OUT", "CutSupport", "Lifted", "Reduced", "ReducedSide", "cut", "embedded", "lifted", "potential_slots",
    "reduce", "unreduced",
]  # fmt: skip


# --- Omitting rare states.

_EPS = float(np.finfo(np.float64).eps)
_WORTH = 0.9  # largest share of remaining states for which truncation is worthwhile


class CutSupport(NamedTuple):
    """A truncated chain.

    Attributes
    ----------
    kept : ndarray
        The remaining states; the state that represents all omitted ones comes after them.
    support : Support
        Their rows and the initial distribution.
    slack : float
        Bound of the rounding error of the rows (total absolute difference).
    lost : float
        Bound of E discount^T.
    arrival : ndarray
        E discount^T from each remaining state, and 1 for the last.
    """

    kept: NDArray[np.int64]
    support: Support
    slack: float
    lost: float
    arrival: Floats


def cut(support: Support, discount: float, left_out: float, patience: float) -> CutSupport | None:
    """Omit states with a loss of at most `left_out` (bound of E discount^T); None if this is not worthwhile.

    Parameters
    ----------
    support : Support
    discount, left_out : float
    patience : float
        Maximal number of transitions to process.
    """
    n, n_entries = len(support.indptr) - 2, int(support.indptr[-2])
    rows = Kernel(support.indptr[:-1], support.indices[:n_entries], support.probabilities[:n_entries])
    start = np.zeros(n)
    start[support.indices[n_entries:]] = support.probabilities[n_entries:]
    # A visit at time T has occupancy at least (1 - discount) discount^T, so a small occupancy bounds the loss.
    floor = (1.0 - discount) * left_out
    seen = reachable(rows, start)
    # Unreachable states get an infinite occupancy, so that they do not end the search with "every state is visited";
    # afterwards 0, so that they are omitted first.
    occupancy = np.where(seen, 0.0, np.inf)
    steps = int(min(patience / max(n_entries, 1), 1e9))
    if not _send(*rows, discount, floor, occupancy, start.copy(), steps):
        return None
    occupancy[~seen] = 0.0
    order = np.argsort(occupancy, kind="stable")
    out = np.zeros(n, dtype=np.bool_)
    # The rarest states, up to half of the budget: occupancies may be too low by the mass that was not propagated.
    out[order[: np.searchsorted(np.cumsum(occupancy[order]), floor / 2.0, side="right")]] = True
    # States of the initial distribution are always kept: T would be 0 for them.
    out[start > 0] = False
    # Compared with the reachable states: omitting unreachable ones
    # alone saves no pair, since pairs are reachable ones anyway.
    if n - out.sum() > _WORTH * seen.sum():
        return None
    return _without(support, out, discount, floor, steps)


def _without(support: Support, out: NDArray[np.bool_], discount: float, floor: float, steps: int) -> CutSupport | None:
    """The chain without some states, if the loss is within the limit."""
    kept = np.flatnonzero(~out)
    n = len(kept)
    place = np.full(len(out), n, dtype=np.int64)
    place[kept] = np.arange(n)
    row_place = np.append(place, n + 1)  # new position of each row of the support; omitted rows have none
    row_place[:-1][out] = -1
    rows, columns = row_place[support.rows], place[support.indices]
    inside = (rows >= 0) & (columns < n)
    leaving = (rows >= 0) & (columns == n)
    lost = np.bincount(rows[leaving], support.probabilities[leaving], minlength=n + 2)
    exits = np.flatnonzero(lost)
    all_rows = np.concatenate([rows[inside], exits, [n]])
    order = np.argsort(all_rows, kind="stable")
    indices = np.concatenate([columns[inside], np.full(len(exits) + 1, n)])[order]
    values = np.concatenate([support.probabilities[inside], lost[exits], [1.0]])[order]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(all_rows, minlength=n + 2))]).astype(np.int64)
    small = Support(indptr, indices.astype(np.int32), values)
    start = np.zeros(n + 1)
    start[small.indices[indptr[-2] :]] = small.probabilities[indptr[-2] :]
    inner = int(indptr[n])  # without the row of the last state, the mass that reaches it remains visible in `rest`
    open_rows = Kernel(np.append(indptr[: n + 1], inner), small.indices[:inner], small.probabilities[:inner])
    occupancy, rest = np.zeros(n + 1), start
    if not _send(*open_rows, discount, floor, occupancy, rest, steps):
        return None
    # Mass that has not arrived yet may still arrive: all of it counts as lost.
    bound = (occupancy[n] / (1.0 - discount) + float(rest.sum())) * (1.0 + 1e-9)
    to_last = np.zeros(n + 1)
    to_last[exits] = discount * lost[exits]
    # The same expectation from every state, by a linear solve; only derivatives and potentials use it, bounds do not.
    arrival = discounted_value(open_rows, to_last, discount)
    arrival[n] = 1.0
    # A row's omitted mass is a sum of several entries, each with its rounding.
    rounding = _EPS * float((np.bincount(rows[leaving], minlength=n + 2) * lost).max())
    return CutSupport(kept, small, 2.0 * _EPS + rounding, bound, arrival)


@kernel
def _send(indptr, indices, data, discount, floor, law, rest, max_steps):
    """Propagate `rest` along the rows, adding the share (1 - discount) of the mass at each state to `law`.

    True once the remaining mass is at most an eighth of `floor`; False as soon as every state has more than `floor`, so
    that none is negligible, or after `max_steps` rounds. Rows may be empty.
    """
    n = law.size
    # Keeps the number of processed entries bounded; the omitted mass stays in `rest`.
    least = 1e-3 * floor / n  # smaller masses are not propagated further
    for _ in range(max_steps):
        for x in range(n):
            mass = rest[x]
            if mass > least:
                rest[x] = 0.0
                law[x] += (1.0 - discount) * mass
                for t in range(indptr[x], indptr[x + 1]):
                    rest[indices[t]] += discount * data[t] * mass
        smallest, moving = np.inf, 0.0
        for x in range(n):
            smallest = min(smallest, law[x])
            moving += rest[x]
        if smallest > floor:
            return False
        if moving <= 0.125 * floor:
            return True
    return False


# --- The reduced problem.

LEFT_OUT = 1e-13  # maximal widening of brackets by truncation, relative to the range of the cost
_SMALL = 500  # no reduction below this number of pairs,
_QUICK = 6000  # ... or of successors of all pairs: the search may take 2 % of a solve
_FEW = 64  # no truncation below this number of states
_PATIENCE = 10.0  # maximal transitions per pair of states that truncation may process


class ReducedSide(NamedTuple):
    """The reductions of one chain: truncation, then merging; None for steps that were not applied."""

    n: int
    cut: CutSupport | None = None
    quotient: Quotient | None = None

    @property
    def untouched(self) -> bool:
        """Whether the chain was not reduced."""
        return self.cut is None and self.quotient is None

    @property
    def slack(self) -> float:
        """Bound of the error of the rows."""
        return (0.0 if self.cut is None else self.cut.slack) + (0.0 if self.quotient is None else self.quotient.slack)

    @property
    def lost(self) -> float:
        """Bound of the loss by truncation."""
        return 0.0 if self.cut is None else self.cut.lost

    @property
    def kept(self) -> Labels:
        """The states that were kept."""
        return np.arange(self.n) if self.cut is None else self.cut.kept

    @property
    def n_cut(self) -> int:
        """Number of states after truncation, including the one that represents omitted states."""
        return self.n if self.cut is None else len(self.cut.kept) + 1

    @property
    def labels(self) -> Labels:
        """The block of each kept state, and of the state that represents omitted ones."""
        return np.arange(self.n_cut) if self.quotient is None else self.quotient.labels

    @property
    def arrival(self) -> Floats:
        """E discount^T from each state, where T is the time at which an omitted state is reached."""
        probability = np.zeros(self.n)
        if self.cut is not None:
            probability[:] = 1.0
            probability[self.cut.kept] = self.cut.arrival[:-1]
        return probability


class Reduced(NamedTuple):
    """A smaller problem.

    Attributes
    ----------
    problem : UnitProblem
        The reduced problem.
    cut : UnitProblem
        The problem after truncation, before states were merged.
    x, y : ReducedSide
        The reductions of the chains.
    mirrored : bool
        Whether the smaller problem compares a chain with itself, and the cost is symmetric.
    """

    problem: UnitProblem
    cut: UnitProblem
    x: ReducedSide
    y: ReducedSide
    mirrored: bool = False

    @property
    def lost(self) -> float:
        """Bound of the difference between the distance and that of the smaller problem."""
        return self.x.lost + self.y.lost

    def pairs(self, choice: PairChoice) -> Pairs:
        """The pairs to solve; unordered pairs if a chain is compared with itself."""
        pairs = choose(self.problem, choice)
        return folded(pairs) if self.mirrored else pairs

    def spread(self, table: Floats) -> Floats:
        """Expand a table of the smaller problem to all states, NaN for omitted ones."""
        if self.x.untouched and self.y.untouched:
            return table
        full = np.full((self.x.n, self.y.n), np.nan)
        rows, columns = (side.labels[: len(side.kept)] for side in (self.x, self.y))
        full[np.ix_(self.x.kept, self.y.kept)] = table[np.ix_(rows, columns)]
        return full

    def words(self) -> str:
        """A description of the reduction; empty if there was none."""
        done = []
        if self.cut.shape != (self.x.n, self.y.n):
            done.append(f"omitted rare states ({' x '.join(str(len(s.kept)) for s in (self.x, self.y))} remain)")
        if self.problem.shape != self.cut.shape:
            done.append(f"merged equivalent states ({' x '.join(map(str, self.problem.shape))} blocks)")
        return " and ".join(done)


def reduce(problem: UnitProblem, left_out: float = 0.0) -> Reduced:
    """Reduce a problem if possible.

    Parameters
    ----------
    problem : UnitProblem
    left_out : float
        Maximal loss by truncation; 0 keeps all states, which is required for potentials of all pairs.
    """
    (n_x, n_y), discount = problem.shape, problem.discount
    small, x, y = problem, ReducedSide(n_x), ReducedSide(n_y)
    # Work is measured by successors of pairs: searching for equivalent states must not cost more than solving.
    successors = int(problem.support_x.indptr[-2]) * n_y + int(problem.support_y.indptr[-2]) * n_x
    if n_x * n_y < _SMALL or successors < _QUICK:
        return unreduced(problem)
    if left_out > 0.0:
        x, y = (
            ReducedSide(n, _cut(support, discount, left_out / 2.0, _PATIENCE * n_x * n_y))
            for n, support in ((n_x, problem.support_x), (n_y, problem.support_y))
        )
        # Half of the loss for each chain: the bounds of the two chains add up.
        small = _without_reduce(problem, x, y)
    # Kept for lifting: solutions are mapped back through the problem before merging.
    before = small
    of_x = merged(small.support_x, small.cost)
    of_y = merged(small.support_y, np.ascontiguousarray(small.cost.T))
    x, y = x._replace(quotient=of_x), y._replace(quotient=of_y)
    if of_x is not None or of_y is not None:
        rows, columns = (first_members(side.labels, int(side.labels.max()) + 1) for side in (x, y))
        small = UnitProblem(
            # Costs are those of first members; `merged` compares
            # whole rows of costs bitwise, so any member has the same.
            small.support_x if of_x is None else of_x.support,
            small.support_y if of_y is None else of_y.support,
            np.ascontiguousarray(small.cost[np.ix_(rows, columns)]),
            discount,
            x.slack + y.slack,
        )
    return Reduced(small, before, x, y, _mirrored(small))


def unreduced(problem: UnitProblem) -> Reduced:
    """The problem without any reduction."""
    return Reduced(problem, problem, ReducedSide(problem.shape[0]), ReducedSide(problem.shape[1]))


def _cut(support: Support, discount: float, left_out: float, patience: float) -> CutSupport | None:
    return cut(support, discount, left_out, patience) if len(support.indptr) - 2 >= _FEW else None


def _without_reduce(problem: UnitProblem, x: ReducedSide, y: ReducedSide) -> UnitProblem:
    """The problem after truncation; the minimal cost is 0."""
    if x.cut is None and y.cut is None:
        return problem
    cost = np.zeros((x.n_cut, y.n_cut))
    # The row and column of the state that represents omitted ones keep cost 0,
    # the minimum of the unit cost, which the bound of the module docstring needs.
    cost[: len(x.kept), : len(y.kept)] = problem.cost_between(x.kept, y.kept)
    return UnitProblem(
        problem.support_x if x.cut is None else x.cut.support,
        problem.support_y if y.cut is None else y.cut.support,
        cost,
        problem.discount,
        x.slack + y.slack,
    )


def _mirrored(problem: UnitProblem) -> bool:
    """Whether the two kernels are equal (initial distributions aside) and the cost is symmetric."""
    x, y, (n_x, n_y) = problem.support_x, problem.support_y, problem.shape
    k = int(x.indptr[-2])
    if n_x != n_y or k != y.indptr[-2]:
        return False
    # Probabilities are compared first: similar chains often have equal supports but different probabilities.
    same = (x.probabilities[:k], y.probabilities[:k]), (x.indices[:k], y.indices[:k]), (x.indptr[:-1], y.indptr[:-1])
    return all(np.array_equal(one, other) for one, other in (*same, (problem.cost, problem.cost.T)))


# --- From the solution of the reduced problem to all states.


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
    after, before = small.problem, small.cut
    support, unmerged = (after.support_x, before.support_x) if axis == 0 else (after.support_y, before.support_y)
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
