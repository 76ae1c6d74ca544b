"""Many small exact distances in one compiled call.

Every task is a pair of supports with a cost. The computation is that of `solvers.policy_iteration.iterate`, on the same
kernels, without Python in between: each problem is solved exactly for all requested pairs of initial distributions,
with a bracket for each.

Each task owns its results and starts cold, so they do not depend on the other tasks of the call. A task that fails
sets `status`; `many.work.single_pair` then solves it again.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.compile.jit import kernel
from somcot.core.pairs import _close
from somcot.core.transport import Bases, Rows, balance, kernel_entries, optimise
from somcot.core.transport.wide_pairs import LAST, WIDE, optimise_wide
from somcot.plumbing.arrays import Array, Codes, Floats, Ints
from somcot.plumbing.linear_systems import _fixed_point, _flood, _krylov, _transpose

if TYPE_CHECKING:
    from somcot.chains import Support  # only its type: a change of `chains` should not drop the compiled code

__all__ = [
    "BatchValues", "Pack", "PackedTables", "Recurrence", "Tasks", "compare", "compare_in_the_long_run", "pack",
    "recurrence", "tables",
]  # fmt: skip


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


class PackedTables(NamedTuple):
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


def tables(arrays: Sequence[Floats]) -> PackedTables:
    """Lay tables end to end."""
    sizes = np.array([a.size for a in arrays], dtype=np.int64)
    return PackedTables(_offsets(sizes)[:-1], _joined([a.ravel() for a in arrays], np.float64))


def _offsets(sizes: Ints) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]).astype(np.int64)


def _joined(parts: Sequence[Array], kind: type) -> Array:
    return np.concatenate([np.asarray(p, dtype=kind) for p in parts]) if parts else np.empty(0, dtype=kind)


# --- One small problem

_EPS = float(np.finfo(np.float64).eps)
_SWEEPS = 200
_LEFT = 1e-2  # fraction of the Bellman residual that early evaluations leave


class _Small(NamedTuple):
    """One pair of kernels: rows, the pairs of states (initial pairs last), their positions, and the cost."""

    x: Rows
    y: Rows
    unit: int
    pair_x: Codes
    pair_y: Codes
    place: NDArray[np.int32]
    n: int
    cost: Floats
    discount: float


@kernel
def _unit_of(c, pack):
    """The unit of masses that the widest row needs, as in `core.sweep`."""
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
def _rows_of(c, pack, total):
    """The rows of one support with their integer masses, as in `core.sweep`."""
    indptr = pack.indptr[pack.pointers[c] : pack.pointers[c + 1]]
    probabilities = pack.probabilities[pack.entries[c] : pack.entries[c + 1]]
    masses = np.empty(probabilities.size, np.int64)
    for t in range(probabilities.size):
        masses[t] = np.int64(max(np.floor(probabilities[t] * float(total)), 1.0))
    excess, rounding = np.empty(indptr.size - 1), np.empty(indptr.size - 1)
    balance(indptr, probabilities, masses, total, excess, rounding)
    return Rows(indptr, pack.indices[pack.entries[c] : pack.entries[c + 1]], probabilities, masses, excess, rounding)


@kernel
def _small_problem(x, y, unit, n_x, n_y, cost, discount):
    """The pairs reachable from the initial pair; with several initial distributions, all pairs."""
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
    return _Small(x, y, unit, pair_x, pair_y, index, n, cost, discount)


@kernel
def _new_bases(p):
    """An uninitialised basis for every pair."""
    ptr = np.zeros(p.pair_x.size + 1, np.int64)
    for k in range(p.pair_x.size):
        i, j = p.pair_x[k], p.pair_y[k]
        ptr[k + 1] = ptr[k] + p.x.indptr[i + 1] - p.x.indptr[i] + p.y.indptr[j + 1] - p.y.indptr[j] - 1
    size = ptr[p.pair_x.size]
    return Bases(ptr, np.zeros(size, np.int32), np.zeros(size, np.int64), np.zeros(p.pair_x.size, np.uint8))


@kernel
def _iterate_small(p, table, V, bases, hints, tolerance, low, high):
    """Policy iteration from the potential in `table`; fills in V, bases and the bounds of the initial pairs.

    Policies that will change anyway are evaluated up to a hundredth of the Bellman residual, as in
    `solvers.policy_iteration` on small supports; only a policy that does not change is evaluated to rounding.

    Returns 0 if it converged, the transport values of the last sweep, and its kernel, initial rows last.
    """
    n, size = p.n, p.pair_x.size
    below, above, value = np.empty(size), np.empty(size), np.empty(size)
    cost = np.empty(n)
    for k in range(n):
        cost[k] = p.cost[p.pair_x[k], p.pair_y[k]]
        V[k] = table[p.pair_x[k], p.pair_y[k]]
    narrow, wide = _by_width(p, 0, n)
    first_narrow, first_wide = _by_width(p, n, size)
    n_arcs = bases.cells.size
    indptr, indices, data = np.zeros(size + 1, np.int64), np.empty(n_arcs, np.int32), np.empty(n_arcs)
    accuracy, left = max(_EPS, 1e-3 * tolerance), 0.0
    for step in range(_SWEEPS):
        top, largest = -np.inf, 0.0
        for k in range(n):
            table[p.pair_x[k], p.pair_y[k]] = V[k]
            top, largest = max(top, V[k]), max(largest, abs(V[k]))
        changed = _improve(narrow, wide, p, table, bases, hints, below, above, value)
        least, most, residual = np.inf, -np.inf, 0.0
        for k in range(n):
            least = min(least, cost[k] + p.discount * below[k] - V[k])
            most = max(most, cost[k] + p.discount * above[k] - V[k])
            residual = max(residual, abs(cost[k] + p.discount * value[k] - V[k]))
        settled = residual <= max(tolerance, 64.0 * _EPS * (1.0 + top))
        done = step > 0 and (settled or (left == 0.0 and changed == 0))
        if done or step == _SWEEPS - 1:
            # Initial pairs have no effect on V, and their supports are the widest: they are solved once, at the end.
            _improve(first_narrow, first_wide, p, table, bases, hints, below, above, value)
            rounding = 8.0 * _EPS * (1.0 + largest)
            for s in range(size - n):
                low[s] = min(max((1.0 - p.discount) * below[n + s] + least - rounding, 0.0), 1.0)
                high[s] = min(max((1.0 - p.discount) * above[n + s] + most + rounding, 0.0), 1.0)
        kernel_entries(p.pair_x, p.pair_y, p.x, p.y, p.unit, bases, p.place, indptr, indices, data)
        if done:
            return 0, value, indptr, indices, data
        left = _LEFT * residual if step == 0 or (changed > 0 and residual > 4.0 * left) else 0.0
        # Relative to the next V, which is at most this large.
        highest = max(top, 0.0) + residual / (1.0 - p.discount)
        goal = max(accuracy, left / (4.0 * highest) if highest > 0.0 else 0.0)
        _evaluate(indptr[: n + 1], indices, data, p.discount, cost, V, goal)
    return 1, value, indptr, indices, data


@kernel
def _improve(narrow, wide, p, table, bases, hints, below, above, value):
    """Optimal plans of some pairs against `table`; returns the number that changed."""
    changed = optimise(narrow, table, p.pair_x, p.pair_y, p.x, p.y, p.unit, bases, hints, below, above, value)
    if wide.size > 0:
        given = np.empty((0, p.cost.shape[1]), np.float32)
        changed += optimise_wide(
            wide, table, p.pair_x, p.pair_y, p.x, p.y, p.unit, bases, hints, LAST, given, below, above, value
        )[0]
    return changed


@kernel
def _by_width(p, lo, hi):
    """Pairs lo..hi-1 for each simplex of `core.sweep`; wide pairs are ordered to keep y for as long as possible."""
    order = np.empty(hi - lo, np.int64)
    n_narrow, n_wide = 0, 0
    for k in range(lo, hi):
        if _is_wide(p, k):
            n_wide += 1
        else:
            order[n_narrow] = k
            n_narrow += 1
    narrow, wide = order[:n_narrow].copy(), np.empty(n_wide, np.int64)
    if n_wide > 0:
        counts = np.zeros(p.y.indptr.size, np.int64)
        for k in range(lo, hi):
            counts[p.pair_y[k] + 1] += _is_wide(p, k)
        counts = np.cumsum(counts)
        for k in range(lo, hi):
            if _is_wide(p, k):
                wide[counts[p.pair_y[k]]] = k
                counts[p.pair_y[k]] += 1
    return narrow, wide


@kernel
def _is_wide(p, k):
    i, j = p.pair_x[k], p.pair_y[k]
    return min(p.x.indptr[i + 1] - p.x.indptr[i], p.y.indptr[j + 1] - p.y.indptr[j]) >= WIDE


@kernel
def _evaluate(indptr, indices, data, discount, b, x, accuracy):
    """Solve (I - discount P) x = b starting from x; if BiCGSTAB fails, by fixed-point steps, which always converge."""
    m = indptr[indptr.size - 1]
    if not _krylov(indptr, indices[:m], data[:m], discount, b, x, min(2000, 200 + b.size), accuracy):
        _fixed_point(indptr, indices[:m], data[:m], discount, b, x, np.int64(np.ceil(np.log(_EPS) / np.log(discount))))


@kernel
def _occupancy(n, s, indptr, indices, data, discount, accuracy, law):
    """Discounted occupancy of pairs from initial pair s, starting from `law`; exactly 0 for unreachable pairs."""
    m = indptr[n]
    b, seen = np.zeros(n), np.zeros(n, np.bool_)
    for t in range(indptr[n + s], indptr[n + s + 1]):
        b[indices[t]] += (1.0 - discount) * data[t]
        seen[indices[t]] = True
    turned, rows, values = np.zeros(n + 1, np.int64), np.empty(m, np.int32), np.empty(m)
    _transpose(indptr[: n + 1], indices[:m], data[:m], turned, rows, values)
    _evaluate(turned, rows, values, discount, b, law, max(accuracy, _EPS))
    _flood(indptr[: n + 1], indices[:m], seen, np.flatnonzero(seen))
    total = 0.0
    for k in range(n):
        law[k] = max(law[k], 0.0) if seen[k] else 0.0
        total += law[k]
    for k in range(n):
        law[k] /= total


@kernel
def _mean_cost(law, p):
    """Mean cost under a distribution of pairs."""
    total = 0.0
    for k in range(p.n):
        if law[k] > 0.0:
            total += law[k] * p.cost[p.pair_x[k], p.pair_y[k]]
    return total


@kernel
def _start_value(p, s, indptr, indices, data, value):
    """The value of an initial pair; exactly 0 if the coupling visits only pairs of cost 0."""
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


# --- Many small problems in one call

_TARGET = 1e-9  # width of a bracket, relative to the range of the cost, as for the exact solver


class Tasks(NamedTuple):
    """The comparisons to make.

    Attributes
    ----------
    x, y : ndarray of int64, shape (n_tasks,)
        Indices of supports in `whole`.
    cost : ndarray of int64, shape (n_tasks,)
        Indices of unit costs in `costs`.
    begin : ndarray of int64, shape (n_tasks,)
        Position of the result of the first pair of initial distributions; the others follow, y varying fastest.
    whole : Pack
    costs : PackedTables
    """

    x: Ints
    y: Ints
    cost: Ints
    begin: Ints
    whole: Pack
    costs: PackedTables


class BatchValues(NamedTuple):
    """Results for each pair of initial distributions of each task, on the unit-cost scale; status 0 is success."""

    distance: Floats
    low: Floats
    high: Floats
    status: Floats


@kernel
def _prepared(t, tasks, discount):
    """One task as a problem, with its bases, the unit cost as the first potential, and room for V."""
    c, d = tasks.x[t], tasks.y[t]
    n_x, n_y = tasks.whole.n[c], tasks.whole.n[d]
    first = tasks.costs.begin[tasks.cost[t]]
    cost = tasks.costs.values[first : first + n_x * n_y].reshape(n_x, n_y)
    unit = _unit_of(c, tasks.whole)
    total = np.int64(1 << 61) // unit
    x, y = _rows_of(c, tasks.whole, total), _rows_of(d, tasks.whole, total)
    problem = _small_problem(x, y, unit, n_x, n_y, cost, discount)
    return problem, _new_bases(problem), cost.copy(), np.empty(problem.n)


@kernel(name="many distances", seconds=4)
def compare(lo, hi, tasks, discount, careful, out):
    """Run tasks lo..hi-1; with `careful` the distance is the cost of the coupling, else (1 - discount) V(start)."""
    for t in range(lo, hi):
        problem, bases, table, V = _prepared(t, tasks, discount)
        n, n_starts = problem.n, problem.pair_x.size - problem.n
        low, high = np.zeros(n_starts), np.ones(n_starts)
        status, value, indptr, indices, data = _iterate_small(problem, table, V, bases, bases, 0.0, low, high)
        law = np.zeros(n)
        for s in range(n_starts):
            k = tasks.begin[t] + s
            width = high[s] - low[s]
            out.low[k], out.high[k] = low[s], high[s]
            out.status[k] = status if width <= _TARGET else 2
            if careful:
                law[:] = 0.0
                _occupancy(n, s, indptr, indices, data, discount, 0.0, law)
                out.distance[k] = _mean_cost(law, problem)
            else:
                out.distance[k] = _start_value(problem, s, indptr, indices, data, (1.0 - discount) * value[n + s])
            out.distance[k] = min(max(out.distance[k], low[s]), high[s])


# --- The long run

_NEAR = 1.0 - 1e-5  # discount at which policies of the long-run average are evaluated, repeatedly
_WARM, _ROUGH = 0.99, 0.01  # discount and accuracy of the first policy, as in `solvers.relative`
_NARROW = 1e-12  # width of a bracket that ends the iteration
_PATIENCE = 8  # sweeps without a better bracket


class Recurrence(NamedTuple):
    """Recurrent class, period and phase of every state (`core.pairs.ChainClasses`), one support after the other."""

    begin: Ints
    component: Ints
    period: Ints
    phase: Ints


def recurrence(parts: Sequence[tuple[Ints, Ints, Ints]]) -> Recurrence:
    """Lay the classes of supports end to end."""
    sizes = np.array([len(part[0]) for part in parts], dtype=np.int64)
    return Recurrence(_offsets(sizes)[:-1], *(_joined([part[k] for part in parts], np.int64) for k in range(3)))


@kernel
def _pair_classes(p, first_x, first_y, known, label):
    """The class of each pair (`core.pairs.pair_classes`), from 0; returns their number, 0 if any pair is transient."""
    keys, n_classes = np.empty((p.n, 3), np.int64), 0
    for k in range(p.n):
        i, j = first_x + p.pair_x[k], first_y + p.pair_y[k]
        if known.component[i] < 0 or known.component[j] < 0:
            return 0
        a, b = known.period[i], known.period[j]
        while b > 0:
            a, b = b, a % b
        one, other, shift, c = known.component[i], known.component[j], (known.phase[i] - known.phase[j]) % a, 0
        while c < n_classes and (keys[c, 0] != one or keys[c, 1] != other or keys[c, 2] != shift):
            c += 1
        if c == n_classes:
            keys[c, 0], keys[c, 1], keys[c, 2] = one, other, shift
            n_classes += 1
        label[k] = c
    return n_classes


@kernel
def _gains(p, table, h, bases, label, low, high):
    """Policy iteration for the long-run average, as in `solvers.relative`, from the relative value h; 0 for success.

    Every h brackets the gain of each class. A policy is evaluated at a discount near 1, which leaves a small part of
    the residual, and this is evaluated again after the next sweep: no policy needs to have a single closed set.
    """
    n, size = p.n, p.pair_x.size
    below, above, value = np.empty(size), np.empty(size), np.empty(size)
    residual, more = np.empty(n), np.empty(n)
    least, most = np.empty(low.size), np.empty(low.size)
    narrow, wide = _by_width(p, 0, n)
    n_arcs = bases.cells.size
    indptr, indices, data = np.zeros(size + 1, np.int64), np.empty(n_arcs, np.int32), np.empty(n_arcs)
    width, waited = np.inf, 0
    for _ in range(_SWEEPS):
        _centre(h, label, least, most)
        largest = 0.0
        for k in range(n):
            table[p.pair_x[k], p.pair_y[k]] = h[k]
            largest = max(largest, abs(h[k]))
        _improve(narrow, wide, p, table, bases, bases, below, above, value)
        least[:], most[:] = np.inf, -np.inf
        for k in range(n):
            cost, c = p.cost[p.pair_x[k], p.pair_y[k]], label[k]
            least[c], most[c] = min(least[c], cost + below[k] - h[k]), max(most[c], cost + above[k] - h[k])
        before, width, rounding = width, 0.0, 8.0 * _EPS * (1.0 + largest)
        for c in range(low.size):
            low[c], high[c] = max(low[c], least[c] - rounding), min(high[c], most[c] + rounding)
            width = max(width, high[c] - low[c])
        waited = 0 if width < 0.9 * before else waited + 1
        kernel_entries(p.pair_x, p.pair_y, p.x, p.y, p.unit, bases, p.place, indptr, indices, data)
        if width <= max(_NARROW, 64.0 * _EPS * (1.0 + largest)) or waited >= _PATIENCE:
            _without_cost(p, indptr[: n + 1], indices, data, label, low, high)
            return 0
        for k in range(n):
            gain = low[label[k]] + (high[label[k]] - low[label[k]]) / 2.0
            residual[k], more[k] = p.cost[p.pair_x[k], p.pair_y[k]] + value[k] - h[k] - gain, 0.0
        m = indptr[n]
        if not _krylov(indptr[: n + 1], indices[:m], data[:m], _NEAR, residual, more, 200 + n, 1e-8):
            return 1
        for k in range(n):
            h[k] += more[k]
    return 1


@kernel
def _without_cost(p, indptr, indices, data, label, low, high):
    """The gain is exactly 0 where the policy can stay at pairs of cost 0: where no other pair can be reached."""
    n, m = p.n, indptr[p.n]
    seen = np.zeros(n, np.bool_)
    for k in range(n):
        seen[k] = p.cost[p.pair_x[k], p.pair_y[k]] > 0.0
    turned, rows, values = np.zeros(n + 1, np.int64), np.empty(m, np.int32), np.empty(m)
    _transpose(indptr, indices[:m], data[:m], turned, rows, values)
    _flood(turned, rows, seen, np.flatnonzero(seen))
    for k in range(n):
        if not seen[k]:
            low[label[k]], high[label[k]] = 0.0, 0.0


@kernel
def _centre(h, label, least, most):
    """Subtract the middle of its class from every value."""
    least[:], most[:] = np.inf, -np.inf
    for k in range(h.size):
        least[label[k]], most[label[k]] = min(least[label[k]], h[k]), max(most[label[k]], h[k])
    for k in range(h.size):
        h[k] -= least[label[k]] / 2.0 + most[label[k]] / 2.0


@kernel(name="many long-run distances", seconds=5)
def compare_in_the_long_run(lo, hi, tasks, known, out):
    """Run tasks lo..hi-1 at discount 1; those with transient pairs are left to others (status 3)."""
    for t in range(lo, hi):
        problem, bases, table, V = _prepared(t, tasks, _WARM)
        n, n_starts = problem.n, problem.pair_x.size - problem.n
        below, above, value = np.zeros(n + n_starts), np.ones(n + n_starts), np.zeros(n + n_starts)
        label = np.empty(n, np.int64)
        n_classes = _pair_classes(problem, known.begin[tasks.x[t]], known.begin[tasks.y[t]], known, label)
        low, high, status, error = np.zeros(n_classes), np.ones(n_classes), 3, 0.0
        if n_classes > 0:
            _iterate_small(problem, table, V, bases, bases, _ROUGH, below[n:], above[n:])
            status = _gains(problem, table, V, bases, label, low, high)
            # The initial pairs couple the gains of the classes they may enter.
            for k in range(n):
                table[problem.pair_x[k], problem.pair_y[k]] = low[label[k]] + (high[label[k]] - low[label[k]]) / 2.0
                error = max(error, (high[label[k]] - low[label[k]]) / 2.0)
            narrow, wide = _by_width(problem, n, n + n_starts)
            _improve(narrow, wide, problem, table, bases, bases, below, above, value)
        for s in range(n_starts):
            k = tasks.begin[t] + s
            out.low[k] = max(below[n + s] - error - 16.0 * _EPS, 0.0)
            out.high[k] = min(above[n + s] + error + 16.0 * _EPS, 1.0)
            out.status[k] = status if out.high[k] - out.low[k] <= _TARGET else 3
            out.distance[k] = min(max(value[n + s], out.low[k]), out.high[k])
