"""Transport problems with wide supports: the loop over pairs, and the choice of the simplex's starting basis.

Pairs are ordered such that y changes rarely, so the columns stay the same and their prices can be reused; if both
supports equal those of the previous pair, so does the cost matrix. All guarantees are as in `core.transport`: the
starting basis affects the number of pivots, not the optimality of the result.

No start is best everywhere: the last bases are best once the potential has converged, entropic prices for costs without
structure, the prices of the previous pair for costs with structure, and with many ties a greedy basis is as good. So a
few pairs are first solved from each start, and the one with the least work is chosen. Work is measured in pivots, not
in seconds, so that equal problems are solved in the same way.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.compile.jit import kernel, part
from somcot.compile.simd_math import bits, unbits
from somcot.core.pairs import cut, in_slices
from somcot.core.transport import EPS, Bases, Rows, bounds_of_plan, gather, power_of, widest
from somcot.core.transport.initial_basis import MOST, crash_basis, entropic_prices, new_crash
from somcot.core.transport.narrow_simplex import greedy_basis
from somcot.core.transport.wide_simplex import (
    LANES,
    filled_up,
    new_preorder,
    pivot_until_optimal,
    plant_preorder,
    transpose,
    write_basis,
)
from somcot.plumbing.arrays import Floats

__all__ = [
    "GREEDY",
    "LAST",
    "PEEL",
    "STARTS",
    "WIDE",
    "Task",
    "WidePairs",
    "optimise_wide",
]


# --- Exact transport between wide supports: the loop over pairs.

WIDE = 8  # rows and columns from which this simplex is faster; loops over eight columns rely on it
LAST, GREEDY, PEEL = 0, 1, 2  # start from the last basis where there is one (else peel), or from a new one


@kernel(name="exact transport between wide supports", seconds=4, shared=True)
def optimise_wide(todo, V, pair_x, pair_y, x, y, unit, bases, hints, start, given, low, high, values):
    """Solve the transport problems of the pairs `todo` against V; see `transport.optimise`.

    New bases are built from column prices: those of the pair's basis in `hints`, else row t of `given` for pair
    ``todo[t]``, (len(todo), V.shape[1]) or empty, else those of the previous pair. Returns the number of changed bases
    and the number of pivots.

    Consecutive pairs with equal supports share the cost matrix and its range (`spread`); `turned` says whether its
    transpose T is filled. The columns of one y are copied to `chosen` once (`kept` is that y) if the next pairs gather
    at least twice as many rows as V has. Buffers have `LANES` more entries, which vector loops may read but never use.
    Prices are stored by state, so that pairs with other columns can use them.
    """
    rows, columns = widest(todo, pair_x, x), widest(todo, pair_y, y)
    tree, crash = new_preorder(rows + columns), new_crash(rows + columns)
    buffer, across = np.zeros(rows * columns + LANES), np.zeros((rows + LANES) * columns, np.float32)
    chosen = np.empty(V.shape[0] * columns)
    prices, column_prices = np.zeros(V.shape[1]), np.empty(columns)
    shift = power_of(unit)
    changed, pivots = 0, 0
    spread, turned, kept = 0.0, False, -1
    for t in range(todo.size):
        k = todo[t]
        x0, x1 = x.indptr[pair_x[k]], x.indptr[pair_x[k] + 1]
        y0, y1 = y.indptr[pair_y[k]], y.indptr[pair_y[k] + 1]
        n, m = x1 - x0, y1 - y0
        cells = bases.cells[bases.ptr[k] : bases.ptr[k + 1]]
        flows = bases.flows[bases.ptr[k] : bases.ptr[k + 1]]
        own, others = x.indices[x0:x1], y.indices[y0:y1]
        base = V[own[0], others[0]]
        length = filled_up(n)
        C, T = buffer[: n * m].reshape(n, m), across[: m * length].reshape(m, length)
        if t == 0 or not (_same(x, pair_x[todo[t - 1]], pair_x[k]) and _same(y, pair_y[todo[t - 1]], pair_y[k])):
            ahead = t + 2 * V.shape[0] // n
            if kept != pair_y[k] and ahead < todo.size and pair_y[todo[ahead]] == pair_y[k]:
                kept = pair_y[k]
                _choose_columns(V, others, chosen)
            near = kept == pair_y[k]
            spread = _gather(buffer, chosen, own, m, base) if near else gather(C, V, own, others, base)
            turned = False
        tolerance = EPS * (n + m + 8) * spread
        fresh = bases.known[k] == 0 or start != LAST
        if fresh:
            v = column_prices[:m]
            if hints.known[k] == 1 and bases.known[k] == 0:
                arcs = slice(hints.ptr[k], hints.ptr[k + 1])
                plant_preorder(hints.cells[arcs], hints.flows[arcs], C, tree)
                for j in range(m):
                    v[j] = tree.potential[n + j]
            else:
                for j in range(m):
                    v[j] = prices[others[j]] if given.shape[0] == 0 else given[t, others[j]]
            if start == GREEDY or n + m > MOST:
                greedy_basis(C, x.masses[x0:x1], y.masses[y0:y1], unit, v, cells, flows)
            else:
                if not turned:
                    transpose(C, T)
                    turned = True
                crash_basis(C, buffer, T, x.masses[x0:x1], y.masses[y0:y1], unit, v, cells, flows, crash)
        plant_preorder(cells, flows, C, tree)
        count = pivot_until_optimal(C, buffer, T, turned, tolerance, tree)
        turned = turned or count > 0
        if count > 0:
            write_basis(tree, n, m, cells, flows)
        changed += count > 0 or fresh
        pivots += count
        bases.known[k] = 1
        for j in range(m):
            prices[others[j]] = tree.potential[n + j]
        low[k], high[k], values[k] = bounds_of_plan(
            C, cells, flows, shift, x, pair_x[k], y, pair_y[k], tree.potential, base, spread
        )
    return changed, pivots


@part
def _same(rows, before, now):
    """Whether two rows have the same support."""
    begin, other = rows.indptr[now], rows.indptr[before]
    length = rows.indptr[now + 1] - begin
    if rows.indptr[before + 1] - other != length:
        return False
    # No early exit: a loop without branches vectorises.
    differing = 0
    for t in range(length):
        differing += rows.indices[begin + t] != rows.indices[other + t]
    return differing == 0


@part
def _choose_columns(V, columns, chosen):
    """Copy columns of V to contiguous memory; worthwhile if many of the next pairs use them."""
    m = columns.size
    for i in range(V.shape[0]):
        for j in range(m):
            chosen[i * m + j] = V[i, np.uint32(columns[j])]


@part(nan=True)
def _gather(costs, chosen, own, m, base):
    """As `transport.gather`, from chosen columns: the rows `own` minus the base, to `costs`; returns their range.

    Extremes are computed over integers, as in `wide_simplex`: positive floats have the order of their bits.
    """
    above, below = np.int64(0), np.int64(0)
    for i in range(own.size):
        row, begin = costs[i * m : i * m + m], np.int64(own[i]) * m
        for j in range(m):
            row[j] = chosen[begin + j] - base
        for j in range(m):
            above = max(above, bits(row[j]))
            below = max(below, bits(-row[j]))
    return unbits(above) + unbits(below)


# --- The choice of the starting basis for each sweep.

_SLICE = 1_500_000  # cells of cost matrices, about 30 ms
_SETTLED = 0.25  # pivots per row and column up to which the last bases are kept without a trial
_PLACES = (0.13, 0.39, 0.61, 0.87)  # relative positions of the trial pairs
_PROBES, _SHARE = 5, 64  # trial pairs per position; at most one in 64 pairs overall


class Task(NamedTuple):
    """The transport problems of all pairs, as arguments of `transport.optimise`."""

    pair_x: NDArray[np.int32]
    pair_y: NDArray[np.int32]
    x: Rows
    y: Rows
    unit: int
    bases: Bases
    hints: Bases


class Start(NamedTuple):
    """A kind of starting basis and its cost: in pivots per row and column or, for entropic prices, per state.

    Measured on supports of 20 to 90 (a pivot there takes 0.25 to 0.5 us).
    """

    basis: int
    entropic: bool
    cost: float


STARTS = {
    "last": Start(LAST, False, 0.02),
    "greedy": Start(GREEDY, False, 0.45),
    "peel": Start(PEEL, False, 0.28),
    "entropic": Start(PEEL, True, 0.6),
}


class WidePairs:
    """The pairs of a sweep with wide supports, at least one, ordered such that y changes rarely."""

    def __init__(self, task: Task, pairs: NDArray[np.int64]) -> None:
        self._task = task
        # Sorted by y, then x. Results do not depend on the order, since every problem has its own basis.
        order = np.lexsort((task.pair_x[pairs], task.pair_y[pairs]))
        self._todo = pairs[order]
        rows = np.diff(task.x.indptr)[task.pair_x[self._todo]]
        columns = np.diff(task.y.indptr)[task.pair_y[self._todo]]
        self._widths = float(rows.mean()), float(columns.mean())
        self._slices = cut(rows * columns, _SLICE)
        self._pivots: list[float] = []  # per pair, for each sweep

    def improve(self, V: Floats, targets: tuple[Floats, Floats, Floats], threads: int) -> int:
        """Solve all pairs; `targets` receives bounds and values. Returns the number of changed bases."""
        start = self.choose_start(V)

        def run(lo: int, hi: int) -> tuple[int, int]:
            return self._solve(self._task, self._todo[lo:hi], V, start, targets)

        changed, pivots = np.sum(in_slices(run, self._slices, threads), axis=0)
        self._pivots.append(float(pivots) / len(self._todo))
        return int(changed)

    def _solve(
        self, task: Task, todo: NDArray[np.int64], V: Floats, start: Start, targets: tuple[Floats, Floats, Floats]
    ) -> tuple[int, int]:
        prices = np.empty((0, 0), dtype=np.float32)
        if start.entropic:
            p = _dense(task.x, task.pair_x[todo], V.shape[0])
            q = _dense(task.y, task.pair_y[todo], V.shape[1])
            prices = entropic_prices(V, p, q)
        answer: tuple[int, int] = optimise_wide(todo, V, *task, start.basis, prices, *targets)
        return answer

    def choose_start(self, V: Floats) -> Start:
        """The start that takes the least work on a few trial pairs."""
        first = not self._pivots
        if first and self._task.bases.known[self._todo].any():  # reused from another sweep
            return STARTS["last"]
        # The first potential is often the cost itself, which is hardly informative about the second.
        if len(self._pivots) > 1 and self._pivots[-1] <= _SETTLED * sum(self._widths):
            return STARTS["last"]
        n_probes = min(_PROBES, len(self._todo) // (_SHARE * len(_PLACES)))
        if n_probes < 2 or (first and self._task.hints is not self._task.bases):
            return STARTS["peel" if first else "last"]
        names = ["greedy", "peel"] if first else ["last", "greedy", "peel"]
        # Entropic steps run over all states: if supports are a small part of them, most of the work is wasted.
        if 2 * self._widths[0] >= V.shape[0] and 2 * self._widths[1] >= V.shape[1]:
            names.append("entropic")
        places = [int(share * len(self._todo)) for share in _PLACES]
        probes = [self._todo[place : place + n_probes] for place in places]
        return min((STARTS[name] for name in names), key=lambda start: sum(self._work(V, few, start) for few in probes))

    def _work(self, V: Floats, probes: NDArray[np.int64], start: Start) -> float:
        """Pivots per pair plus the cost of the start; the first trial pair has no warm start and is not counted."""
        # The first pair of the probes runs on cold prices; its pivots are counted and subtracted.
        pivots = self._pivots_of(V, probes, start) - self._pivots_of(V, probes[:1], start)
        return pivots / (len(probes) - 1) + start.cost * (sum(V.shape) if start.entropic else sum(self._widths))

    def _pivots_of(self, V: Floats, pairs: NDArray[np.int64], start: Start) -> int:
        """Solve some pairs on copies of their bases."""
        task = self._task
        # Copies, so that a trial leaves the bases of the sweep as they are.
        copy = task._replace(
            pair_x=task.pair_x[pairs], pair_y=task.pair_y[pairs],
            bases=_taken(task.bases, pairs), hints=_taken(task.hints, pairs),
        )  # fmt: skip
        room = np.empty(len(pairs)), np.empty(len(pairs)), np.empty(len(pairs))
        return self._solve(copy, np.arange(len(pairs)), V, start, room)[1]


def _taken(bases: Bases, pairs: NDArray[np.int64]) -> Bases:
    """A copy of the bases of some pairs."""
    begin, lengths = bases.ptr[pairs], (bases.ptr[1:] - bases.ptr[:-1])[pairs]
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    arcs = np.repeat(begin - ptr[:-1], lengths) + np.arange(ptr[-1])
    return Bases(ptr, bases.cells[arcs], bases.flows[arcs], bases.known[pairs])


def _dense(rows: Rows, which: NDArray[np.int32], n_states: int) -> NDArray[np.float32]:
    """Rows of probabilities over all states."""
    lengths = np.diff(rows.indptr)[which]
    ends = np.cumsum(lengths)
    entries = np.repeat(rows.indptr[which] - (ends - lengths), lengths) + np.arange(ends[-1])
    full = np.zeros((len(which), n_states), dtype=np.float32)
    full[np.repeat(np.arange(len(which)), lengths), rows.indices[entries]] = rows.probabilities[entries]
    return full
