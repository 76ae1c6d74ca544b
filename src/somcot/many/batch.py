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
from typing import NamedTuple

import numpy as np

from somcot.chains import Support
from somcot.compile.jit import kernel
from somcot.many.small_solver import (
    iterate_small,
    mean_cost,
    new_bases,
    occupancy,
    rows_of,
    small_problem,
    start_value,
    unit_of,
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
    costs : Tables
    """

    x: Ints
    y: Ints
    cost: Ints
    begin: Ints
    whole: Pack
    costs: Tables


class BatchValues(NamedTuple):
    """Results on the unit-cost scale; one number for each pair of initial distributions of each task.

    Attributes
    ----------
    distance, low, high : ndarray
        The distance and its lower and upper bounds.
    status : ndarray
        0 for success.
    """

    distance: Floats
    low: Floats
    high: Floats
    status: Floats


@kernel(name="many distances", seconds=4)
def compare(lo, hi, tasks, discount, careful, out):
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
            if careful:
                law[:] = 0.0
                occupancy(n, s, indptr, indices, data, discount, 0.0, law)
                out.distance[k] = mean_cost(law, problem)
            else:
                out.distance[k] = start_value(problem, s, indptr, indices, data, (1.0 - discount) * value[n + s])
            out.distance[k] = min(max(out.distance[k], low[s]), high[s])
