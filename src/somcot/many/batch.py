"""Many small problems in one compiled call: the exact distance, and all that an estimate from data is made of.

Every task is a pair of supports with a cost. What is done is what `solvers.policy_iteration.iterate` and
`inference.crossfit` do, on the kernels they use, without Python in between:

1. The whole problem is solved exactly, for all pairs of start laws asked for, with a bracket for each.
2. For data: the occupancy of pairs, the variance of the distance by the delta method, and from halves of the data the
   gap, their distance and the cross-fitted value (`inference.crossfit` has the formulas).
3. Where rows were pooled: the distance of the pooled kernels.

Each task owns its results and starts cold, so they do not depend on which others are in the call. A task that does not
end well says so in `status`, and the ordinary path takes it.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.bellman.pairs import _close
from somcot.bellman.transport import Bases, Rows, add_potentials, balance, cross_gap, kernel_entries, optimise
from somcot.many.packs import Pack, Tables
from somcot.plumbing.arrays import Codes, Floats, Ints
from somcot.plumbing.discounting import _fixed_point, _flood, _krylov, _transpose
from somcot.plumbing.jit import kernel

__all__ = ["Found", "Tasks", "compare"]

_EPS = float(np.finfo(np.float64).eps)
_TARGET = 1e-9  # width of a bracket, relative to the range of the cost, as for the exact solver
_TOLERANCE = 1e-7  # of halves and pooled kernels, as for cross-fitting
_NEGLIGIBLE = 1e-9  # occupancy below which a pair cannot move the gap
_SWEEPS = 200


class Tasks(NamedTuple):
    """What to compare.

    Attributes
    ----------
    x, y : ndarray of int64, shape (n_tasks,)
        Supports, as numbers of `whole`.
    cost : ndarray of int64, shape (n_tasks,)
        Their unit costs, as numbers of `costs`.
    pooled : ndarray of int64, shape (n_tasks,)
        The first of two supports of `pooled_rows`; -1 where nothing was pooled.
    begin : ndarray of int64, shape (n_tasks,)
        Where the results of the first pair of start laws go; those of the others follow, the laws of y running faster.
    whole, halves, pooled_rows : Pack
        `halves` has 2 n_splits supports for each of `whole`, all with its entries.
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


class Found(NamedTuple):
    """Results, in units of the unit cost; one number for each pair of start laws of each task.

    Attributes
    ----------
    distance, low, high : ndarray
        The distance and its bracket.
    status : ndarray
        0 where all went well.
    variance, gap, half, value, pooled : ndarray
        Of the estimate (`inference.rules.Evidence`); NaN where there is none.
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


class _Problem(NamedTuple):
    """One pair of kernels: rows, the pairs of states (start pairs last), their place, and the cost."""

    x: Rows
    y: Rows
    unit: int
    pair_x: Codes
    pair_y: Codes
    place: NDArray[np.int32]
    n: int
    cost: Floats
    discount: float


@kernel(name="many distances", seconds=20)
def compare(lo, hi, tasks, discount, n_splits, careful, found):
    """Do tasks lo..hi-1; with `careful` the distance is the cost of the coupling, else (1 - discount) V(start)."""
    for t in range(lo, hi):
        c, d = tasks.x[t], tasks.y[t]
        n_x, n_y = tasks.whole.n[c], tasks.whole.n[d]
        first = tasks.costs.begin[tasks.cost[t]]
        cost = tasks.costs.values[first : first + n_x * n_y].reshape(n_x, n_y)
        unit = _unit(c, tasks.whole)
        total = np.int64(1 << 61) // unit
        x, y = _rows(c, tasks.whole, total), _rows(d, tasks.whole, total)
        problem = _problem(x, y, unit, n_x, n_y, cost, discount)
        n, n_starts = problem.n, problem.pair_x.size - problem.n
        bases = _bases(problem)
        table = cost.copy()
        V = np.empty(n)
        low, high = np.zeros(n_starts), np.ones(n_starts)
        status, value, indptr, indices, data = _iterate(problem, table, V, bases, bases, 0.0, low, high)
        law = np.zeros(n)
        for s in range(n_starts):
            k = tasks.begin[t] + s
            width = high[s] - low[s]
            found.low[k], found.high[k] = low[s], high[s]
            found.status[k] = status if width <= _TARGET else 2
            if careful or n_splits > 0:
                _occupancy(n, s, indptr, indices, data, discount, law)
                found.distance[k] = _mean(law, problem)
            else:
                found.distance[k] = _value(problem, s, indptr, indices, data, (1.0 - discount) * value[n + s])
            found.distance[k] = min(max(found.distance[k], low[s]), high[s])
        if n_splits == 0 or status != 0:
            continue
        k = tasks.begin[t]
        weight = _weights(law, discount, 0.0)
        slots_x, slots_y = np.zeros(x.indices.size), np.zeros(y.indices.size)
        add_potentials(table, problem.pair_x, problem.pair_y, x, y, bases, weight, slots_x, slots_y)
        found.variance[k] = _variance(c, tasks, x, slots_x) + _variance(d, tasks, y, slots_y)
        gap, half, crossed = 0.0, 0.0, 0.0
        for r in range(n_splits):
            e, f = 2 * (c * n_splits + r), 2 * (d * n_splits + r)
            xa, ya = _rows(e, tasks.halves, total), _rows(f, tasks.halves, total)
            xb, yb = _rows(e + 1, tasks.halves, total), _rows(f + 1, tasks.halves, total)
            a, b = _with_rows(problem, xa, ya), _with_rows(problem, xb, yb)
            ok_a, table_a, bases_a, weight_a, half_a, value_a = _half(a, V, bases, x, y)
            ok_b, table_b, bases_b, weight_b, half_b, value_b = _half(b, V, bases, x, y)
            gap += cross_gap(table_a, a.pair_x, a.pair_y, xa, ya, bases_a, bases_b, unit, weight_b)
            gap += cross_gap(table_b, b.pair_x, b.pair_y, xb, yb, bases_b, bases_a, unit, weight_a)
            half += half_a + half_b
            crossed += value_a + value_b
            if ok_a != 0 or ok_b != 0:
                found.status[k] = 3
        n_halves = 2.0 * n_splits
        found.gap[k], found.half[k], found.value[k] = gap / n_halves, half / n_halves, crossed / n_halves
        if tasks.pooled[t] >= 0:
            found.pooled[k] = _pooled(tasks, t, cost, table, V, problem, found, k)


@kernel
def _unit(c, pack):
    """The unit of masses that the widest row asks for, as in `bellman.sweep`."""
    indptr = pack.indptr[pack.pointers[c] : pack.pointers[c + 1]]
    widest = np.int64(0)
    for i in range(indptr.size - 1):
        widest = max(widest, indptr[i + 1] - indptr[i])
    size, unit = 2 * widest + 1, np.int64(1)
    while size > 0:
        size >>= 1
        unit <<= 1
    return unit


@kernel
def _rows(c, pack, total):
    """The rows of one support with their integer masses, as in `bellman.sweep`."""
    indptr = pack.indptr[pack.pointers[c] : pack.pointers[c + 1]]
    probabilities = pack.probabilities[pack.entries[c] : pack.entries[c + 1]]
    masses = np.empty(probabilities.size, np.int64)
    for t in range(probabilities.size):
        masses[t] = np.int64(max(np.floor(probabilities[t] * float(total)), 1.0))
    excess, rounding = np.empty(indptr.size - 1), np.empty(indptr.size - 1)
    balance(indptr, probabilities, masses, total, excess, rounding)
    return Rows(indptr, pack.indices[pack.entries[c] : pack.entries[c + 1]], probabilities, masses, excess, rounding)


@kernel
def _problem(x, y, unit, n_x, n_y, cost, discount):
    """The pairs that the start can reach; with several start laws, all pairs."""
    starts_x, starts_y = x.indptr.size - 1 - n_x, y.indptr.size - 1 - n_y
    mask = np.zeros((n_x, n_y), np.bool_)
    if starts_x * starts_y == 1:
        half, stack = np.zeros((n_x, n_y + 1), np.bool_), np.empty(n_x * n_y + 1, np.int64)
        _close(x.indptr, x.indices, y.indptr, y.indices, mask, half, stack)
    else:
        mask[:] = True
    index = np.full((n_x, n_y), -1, np.int32)
    n = 0
    for i in range(n_x):
        for j in range(n_y):
            if mask[i, j]:
                index[i, j] = n
                n += 1
    pair_x, pair_y = np.empty(n + starts_x * starts_y, np.int32), np.empty(n + starts_x * starts_y, np.int32)
    for i in range(n_x):
        for j in range(n_y):
            if mask[i, j]:
                pair_x[index[i, j]], pair_y[index[i, j]] = i, j
    for s in range(starts_x * starts_y):
        pair_x[n + s], pair_y[n + s] = n_x + s // starts_y, n_y + s % starts_y
    return _Problem(x, y, unit, pair_x, pair_y, index, n, cost, discount)


@kernel
def _with_rows(p, x, y):
    """The same problem with other probabilities on the same entries."""
    return _Problem(x, y, p.unit, p.pair_x, p.pair_y, p.place, p.n, p.cost, p.discount)


@kernel
def _bases(p):
    ptr = np.zeros(p.pair_x.size + 1, np.int64)
    for k in range(p.pair_x.size):
        i, j = p.pair_x[k], p.pair_y[k]
        ptr[k + 1] = ptr[k] + p.x.indptr[i + 1] - p.x.indptr[i] + p.y.indptr[j + 1] - p.y.indptr[j] - 1
    size = ptr[p.pair_x.size]
    return Bases(ptr, np.zeros(size, np.int32), np.zeros(size, np.int64), np.zeros(p.pair_x.size, np.uint8))


@kernel
def _iterate(p, table, V, bases, hints, tolerance, low, high):
    """Policy iteration from the potential in `table`; V, bases and the brackets of the start pairs are filled in.

    Returns 0 if it converged, the transport values of the last sweep, and its kernel, start rows last.
    """
    n, size = p.n, p.pair_x.size
    below, above, value = np.empty(size), np.empty(size), np.empty(size)
    cost = np.empty(n)
    for k in range(n):
        cost[k] = p.cost[p.pair_x[k], p.pair_y[k]]
        V[k] = table[p.pair_x[k], p.pair_y[k]]
    todo = np.empty(size, np.int64)
    for k in range(size):
        todo[k] = k
    n_arcs = bases.cells.size
    indptr, indices, data = np.zeros(size + 1, np.int64), np.empty(n_arcs, np.int32), np.empty(n_arcs)
    accuracy = max(_EPS, 1e-3 * tolerance)
    for step in range(_SWEEPS):
        top, largest = -np.inf, 0.0
        for k in range(n):
            table[p.pair_x[k], p.pair_y[k]] = V[k]
            top, largest = max(top, V[k]), max(largest, abs(V[k]))
        changed = optimise(todo, table, p.pair_x, p.pair_y, p.x, p.y, p.unit, bases, hints, below, above, value)
        least, most, residual = np.inf, -np.inf, 0.0
        for k in range(n):
            least = min(least, cost[k] + p.discount * below[k] - V[k])
            most = max(most, cost[k] + p.discount * above[k] - V[k])
            residual = max(residual, abs(cost[k] + p.discount * value[k] - V[k]))
        rounding = 8.0 * _EPS * (1.0 + largest)
        for s in range(size - n):
            low[s] = max(low[s], min(max((1.0 - p.discount) * below[n + s] + least - rounding, 0.0), 1.0))
            high[s] = min(high[s], min(max((1.0 - p.discount) * above[n + s] + most + rounding, 0.0), 1.0))
        kernel_entries(p.pair_x, p.pair_y, p.x, p.y, p.unit, bases, p.place, indptr, indices, data)
        if step > 0 and (residual <= max(tolerance, 64.0 * _EPS * (1.0 + top)) or changed == 0):
            return 0, value, indptr, indices, data
        _evaluate(indptr[: n + 1], indices, data, p.discount, cost, V, accuracy)
    return 1, value, indptr, indices, data


@kernel
def _evaluate(indptr, indices, data, discount, b, x, accuracy):
    """Solve (I - discount P) x = b from x on; where the quick method fails, by plain steps, which always converge."""
    m = indptr[indptr.size - 1]
    if not _krylov(indptr, indices[:m], data[:m], discount, b, x, min(2000, 200 + b.size), accuracy):
        _fixed_point(indptr, indices[:m], data[:m], discount, b, x, np.int64(np.ceil(np.log(_EPS) / np.log(discount))))


@kernel
def _occupancy(n, s, indptr, indices, data, discount, law):
    """Discounted occupancy of pairs from start pair s; exactly 0 where it does not come."""
    m = indptr[n]
    b, seen = np.zeros(n), np.zeros(n, np.bool_)
    for t in range(indptr[n + s], indptr[n + s + 1]):
        b[indices[t]] += (1.0 - discount) * data[t]
        seen[indices[t]] = True
    turned, rows, values = np.zeros(n + 1, np.int64), np.empty(m, np.int32), np.empty(m)
    _transpose(indptr[: n + 1], indices[:m], data[:m], turned, rows, values)
    law[:] = 0.0
    _evaluate(turned, rows, values, discount, b, law, _EPS)
    _flood(indptr[: n + 1], indices[:m], seen, np.flatnonzero(seen))
    total = 0.0
    for k in range(n):
        law[k] = max(law[k], 0.0) if seen[k] else 0.0
        total += law[k]
    for k in range(n):
        law[k] /= total


@kernel
def _mean(law, p):
    total = 0.0
    for k in range(p.n):
        if law[k] > 0.0:
            total += law[k] * p.cost[p.pair_x[k], p.pair_y[k]]
    return total


@kernel
def _value(p, s, indptr, indices, data, value):
    """The value of a start pair; exactly 0 where the coupling comes through pairs of cost 0 only."""
    if value > 1e-9:
        return value
    seen = np.zeros(p.n, np.bool_)
    for t in range(indptr[p.n + s], indptr[p.n + s + 1]):
        seen[indices[t]] = True
    m = indptr[p.n]
    _flood(indptr[: p.n + 1], indices[:m], seen, np.flatnonzero(seen))
    for k in range(p.n):
        if seen[k] and p.cost[p.pair_x[k], p.pair_y[k]] > 0.0:
            return value
    return 0.0


@kernel
def _weights(law, discount, negligible):
    """Weight of each pair in a derivative, that of the start laws last."""
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
def _half(p, V, hints, x, y):
    """One half from the potential and prices of the whole.

    Returns its status, potential, bases, weights, distance and cross-fitted value.
    """
    table, own = p.cost.copy(), np.empty(p.n)
    for k in range(p.n):
        table[p.pair_x[k], p.pair_y[k]] = V[k]
    bases = _bases(p)
    low, high = np.zeros(1), np.ones(1)
    status, value, indptr, indices, data = _iterate(p, table, own, bases, hints, _TOLERANCE, low, high)
    law = np.zeros(p.n)
    _occupancy(p.n, 0, indptr, indices, data, p.discount, law)
    weight = _weights(law, p.discount, _NEGLIGIBLE)
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
def _pooled(tasks, t, cost, table, V, whole, found, k):
    """Distance of the pooled kernels, from the potential of the whole; new pairs look dear at first."""
    c = tasks.pooled[t]
    n_x, n_y = cost.shape
    unit = _unit(c, tasks.pooled_rows)
    total = np.int64(1 << 61) // unit
    x, y = _rows(c, tasks.pooled_rows, total), _rows(c + 1, tasks.pooled_rows, total)
    p = _problem(x, y, unit, n_x, n_y, cost, whole.discount)
    top = V[0]
    for i in range(V.size):
        top = max(top, V[i])
    guess = np.full((n_x, n_y), top)
    for i in range(whole.n):
        guess[whole.pair_x[i], whole.pair_y[i]] = V[i]
    bases, own = _bases(p), np.empty(p.n)
    low, high = np.zeros(1), np.ones(1)
    status, value, _, _, _ = _iterate(p, guess, own, bases, bases, _TOLERANCE, low, high)
    if status != 0:
        found.status[k] = 4
    return (1.0 - whole.discount) * value[p.n]
