"""Many small problems in one compiled call: exact distances and all terms of the estimate from data.

Every task is a pair of supports with a cost. The computation is that of `solvers.policy_iteration.iterate` and
`inference.bias_correction`, on the same kernels, without Python in between:

1. The full problem is solved exactly for all requested pairs of initial distributions, with a bracket for each.
2. For data: the occupancy of pairs, the variance of the distance by the delta method and, from halves of the data, the
   gap, the distance of the halves and the cross-fitted value (`inference.bias_correction` has the formulas).
3. For pooled rows: the distance of the pooled kernels.

Each task owns its results and starts cold, so they do not depend on the other tasks of the call. A task that fails
sets `status`; `many.work.single_pair` then solves it again.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from somcot.chains import Support
from somcot.compile.jit import kernel
from somcot.core.transport import add_potentials, cross_gap
from somcot.many.small_solver import (
    iterate_small,
    mean_cost,
    new_bases,
    occupancy,
    rows_of,
    small_problem,
    start_value,
    unit_of,
    with_rows,
)
from somcot.plumbing.arrays import Array, Codes, Floats, Ints

__all__ = [
    "BatchValues",
    "Pack",
    "Tables",
    "Tasks",
    "compare",
    "pack",
    "tables",
]


# --- Supports laid end to end


class Pack(NamedTuple):
    """Supports stored one after the other.

    Attributes
    ----------
    n : ndarray, shape (k,)
        Number of states of each; all further rows of a support are initial distributions.
    pointers, entries : ndarray, shape (k + 1,)
        Support c has ``indptr[pointers[c]:pointers[c + 1]]``, counted from its own first entry, and the entries
        ``entries[c]:entries[c + 1]``.
    indptr, indices, probabilities : ndarray
    """

    n: Ints
    pointers: Ints
    entries: Ints
    indptr: Ints
    indices: Codes
    probabilities: Floats


class Tables(NamedTuple):
    """Tables of numbers, row by row, one after the other; table k begins at ``begin[k]``."""

    begin: Ints
    values: Floats


def pack(supports: Sequence[Support], n_starts: Sequence[int] | None = None) -> Pack:
    """Lay supports end to end; each has one initial row, or the number in `n_starts`.

    Examples
    --------
    >>> import somcot
    >>> two = pack([somcot.random_walk(2).support, somcot.random_walk(3).support])
    >>> two.n, two.entries
    (array([2, 3]), array([ 0,  5, 12]))
    """
    starts = [1] * len(supports) if n_starts is None else list(n_starts)
    rows = np.array([len(s.indptr) for s in supports], dtype=np.int64)
    return Pack(
        rows - 1 - np.array(starts, dtype=np.int64),
        _offsets(rows),
        _offsets(np.array([len(s.indices) for s in supports], dtype=np.int64)),
        _joined([s.indptr for s in supports], np.int64),
        _joined([s.indices for s in supports], np.int32),
        _joined([s.probabilities for s in supports], np.float64),
    )


def tables(arrays: Sequence[Floats]) -> Tables:
    """Lay tables end to end."""
    sizes = np.array([a.size for a in arrays], dtype=np.int64)
    return Tables(_offsets(sizes)[:-1], _joined([a.ravel() for a in arrays], np.float64))


def _offsets(sizes: Ints) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]).astype(np.int64)


def _joined(parts: Sequence[Array], kind: type) -> Array:
    return np.concatenate([np.asarray(p, dtype=kind) for p in parts]) if parts else np.empty(0, dtype=kind)


# --- Many small problems in one call

_TARGET = 1e-9  # width of a bracket, relative to the range of the cost, as for the exact solver
_TOLERANCE = 1e-7  # for halves and pooled kernels, as in cross-fitting
_NEGLIGIBLE = 1e-9  # occupancy below which a pair cannot move the gap


class Tasks(NamedTuple):
    """The comparisons to make.

    Attributes
    ----------
    x, y : ndarray of int64, shape (n_tasks,)
        Indices of supports in `whole`.
    cost : ndarray of int64, shape (n_tasks,)
        Indices of unit costs in `costs`.
    pooled : ndarray of int64, shape (n_tasks,)
        The first of two supports of `pooled_rows`; -1 where nothing was pooled.
    begin : ndarray of int64, shape (n_tasks,)
        Position of the result of the first pair of initial distributions; the others follow, y varying fastest.
    whole, halves, pooled_rows : Pack
        `halves` has 2 n_splits supports for each support of `whole`, all with the same entries.
    counts : ndarray of float64
        Observations behind each entry of `whole`; 0 where the row is known.
    costs : Tables
    """

    x: Ints
    y: Ints
    cost: Ints
    pooled: Ints
    begin: Ints
    whole: Pack
    halves: Pack
    pooled_rows: Pack
    counts: Floats
    costs: Tables


class BatchValues(NamedTuple):
    """Results on the unit-cost scale; one number for each pair of initial distributions of each task.

    Attributes
    ----------
    distance, low, high : ndarray
        The distance and its lower and upper bounds.
    status : ndarray
        0 for success.
    variance, gap, half, value, pooled : ndarray
        Terms of the estimate (`inference.bias_correction.Evidence`); NaN where not computed.
    """

    distance: Floats
    low: Floats
    high: Floats
    status: Floats
    variance: Floats
    gap: Floats
    half: Floats
    value: Floats
    pooled: Floats


@kernel(name="many distances", seconds=7)
def compare(lo, hi, tasks, discount, n_splits, careful, out):
    """Run tasks lo..hi-1; with `careful` the distance is the cost of the coupling, else (1 - discount) V(start)."""
    for t in range(lo, hi):
        c, d = tasks.x[t], tasks.y[t]
        n_x, n_y = tasks.whole.n[c], tasks.whole.n[d]
        first = tasks.costs.begin[tasks.cost[t]]
        cost = tasks.costs.values[first : first + n_x * n_y].reshape(n_x, n_y)
        unit = unit_of(c, tasks.whole)
        total = np.int64(1 << 61) // unit
        x, y = rows_of(c, tasks.whole, total), rows_of(d, tasks.whole, total)
        problem = small_problem(x, y, unit, n_x, n_y, cost, discount)
        n, n_starts = problem.n, problem.pair_x.size - problem.n
        bases = new_bases(problem)
        table = cost.copy()
        V = np.empty(n)
        low, high = np.zeros(n_starts), np.ones(n_starts)
        status, value, indptr, indices, data = iterate_small(problem, table, V, bases, bases, 0.0, low, high)
        law = np.zeros(n)
        for s in range(n_starts):
            k = tasks.begin[t] + s
            width = high[s] - low[s]
            out.low[k], out.high[k] = low[s], high[s]
            out.status[k] = status if width <= _TARGET else 2
            if careful or n_splits > 0:
                law[:] = 0.0
                occupancy(n, s, indptr, indices, data, discount, 0.0, law)
                out.distance[k] = mean_cost(law, problem)
            else:
                out.distance[k] = start_value(problem, s, indptr, indices, data, (1.0 - discount) * value[n + s])
            out.distance[k] = min(max(out.distance[k], low[s]), high[s])
        if n_splits == 0 or status != 0:
            continue
        k = tasks.begin[t]
        weight = _weights(law, discount, 0.0)
        slots_x, slots_y = np.zeros(x.indices.size), np.zeros(y.indices.size)
        add_potentials(table, problem.pair_x, problem.pair_y, x, y, bases, weight, slots_x, slots_y)
        out.variance[k] = _variance(c, tasks, x, slots_x) + _variance(d, tasks, y, slots_y)
        gap, half, crossed = 0.0, 0.0, 0.0
        for r in range(n_splits):
            e, f = 2 * (c * n_splits + r), 2 * (d * n_splits + r)
            xa, ya = rows_of(e, tasks.halves, total), rows_of(f, tasks.halves, total)
            xb, yb = rows_of(e + 1, tasks.halves, total), rows_of(f + 1, tasks.halves, total)
            a, b = with_rows(problem, xa, ya), with_rows(problem, xb, yb)
            ok_a, table_a, bases_a, weight_a, half_a, value_a = _half(a, V, law, bases, x, y)
            ok_b, table_b, bases_b, weight_b, half_b, value_b = _half(b, V, law, bases, x, y)
            gap += cross_gap(table_a, a.pair_x, a.pair_y, xa, ya, bases_a, bases_b, unit, weight_b)
            gap += cross_gap(table_b, b.pair_x, b.pair_y, xb, yb, bases_b, bases_a, unit, weight_a)
            half += half_a + half_b
            crossed += value_a + value_b
            if ok_a != 0 or ok_b != 0:
                out.status[k] = 3
        n_halves = 2.0 * n_splits
        out.gap[k], out.half[k], out.value[k] = gap / n_halves, half / n_halves, crossed / n_halves
        if tasks.pooled[t] >= 0:
            out.pooled[k] = _pooled(tasks, t, cost, table, V, problem, out, k)


@kernel
def _weights(law, discount, negligible):
    """Weight of each pair in a derivative; the weight of the initial distributions comes last."""
    weight = np.empty(law.size + 1)
    for k in range(law.size):
        weight[k] = discount * law[k] if law[k] > negligible else 0.0
    weight[law.size] = 1.0 - discount
    return weight


@kernel
def _variance(c, tasks, rows, slots):
    """Sum over estimated rows of Var_P[G(x, .)] / n_x, as in `inference.intervals`."""
    counts = tasks.counts[tasks.whole.entries[c] : tasks.whole.entries[c + 1]]
    total = 0.0
    for i in range(rows.indptr.size - 1):
        a, b = rows.indptr[i], rows.indptr[i + 1]
        mean, seen = 0.0, 0.0
        for t in range(a, b):
            mean += rows.probabilities[t] * slots[t]
            seen += counts[t]
        if seen > 0.0:
            for t in range(a, b):
                total += rows.probabilities[t] / seen * (slots[t] - mean) ** 2
    return total


@kernel
def _half(p, V, law, hints, x, y):
    """Solve one half, warm-started with the potential, occupancy and duals of the full problem.

    Returns its status, potential, bases, weights, distance and cross-fitted value.
    """
    table, own = p.cost.copy(), np.empty(p.n)
    for k in range(p.n):
        table[p.pair_x[k], p.pair_y[k]] = V[k]
    bases = new_bases(p)
    low, high = np.zeros(1), np.ones(1)
    status, value, indptr, indices, data = iterate_small(p, table, own, bases, hints, _TOLERANCE, low, high)
    own_law = law.copy()
    occupancy(p.n, 0, indptr, indices, data, p.discount, 0.1 * _TOLERANCE, own_law)
    weight = _weights(own_law, p.discount, _NEGLIGIBLE)
    slots_x, slots_y = np.zeros(x.indices.size), np.zeros(y.indices.size)
    add_potentials(table, p.pair_x, p.pair_y, p.x, p.y, bases, weight, slots_x, slots_y)
    change = 0.0
    for t in range(slots_x.size):
        change += slots_x[t] * (x.probabilities[t] - p.x.probabilities[t])
    for t in range(slots_y.size):
        change += slots_y[t] * (y.probabilities[t] - p.y.probabilities[t])
    distance = (1.0 - p.discount) * value[p.n]
    return status, table, bases, weight, distance, distance + 2.0 * change


@kernel
def _pooled(tasks, t, cost, table, V, whole, out, k):
    """Distance of the pooled kernels, from the potential of the full problem; unseen pairs start at the maximum."""
    c = tasks.pooled[t]
    n_x, n_y = cost.shape
    unit = unit_of(c, tasks.pooled_rows)
    total = np.int64(1 << 61) // unit
    x, y = rows_of(c, tasks.pooled_rows, total), rows_of(c + 1, tasks.pooled_rows, total)
    p = small_problem(x, y, unit, n_x, n_y, cost, whole.discount)
    top = V[0]
    for i in range(V.size):
        top = max(top, V[i])
    guess = np.full((n_x, n_y), top)
    for i in range(whole.n):
        guess[whole.pair_x[i], whole.pair_y[i]] = V[i]
    bases, own = new_bases(p), np.empty(p.n)
    low, high = np.zeros(1), np.ones(1)
    status, value, _, _, _ = iterate_small(p, guess, own, bases, bases, _TOLERANCE, low, high)
    if status != 0:
        out.status[k] = 4
    return (1.0 - whole.discount) * value[p.n]
