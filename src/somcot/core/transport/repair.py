"""Bases of transport problems under changed masses: repair, sensitivity and margins.

All three traverse a basis, which is a spanning tree over rows 0..n-1 and columns n..n+m-1, from row 0 outwards:
potentials are computed from the root to the leaves, flows from the leaves to the root.

A basis that was optimal for V under old masses has potentials that are feasible for V under any masses. Under new ones
some of its flows may be negative, which the dual simplex repairs: the most negative flow leaves; of the cells that
carry mass the other way between the two halves of the tree, the one of minimal reduced cost enters. Masses are the
perturbed integers of `narrow_simplex`.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.compile.jit import kernel

__all__ = ["margins", "move", "repair"]


class Walk(NamedTuple):
    """Workspace: the nodes of a tree from the root outwards, each with its parent and the arc to it."""

    order: NDArray[np.int64]
    parent: NDArray[np.int64]
    arc: NDArray[np.int64]
    head: NDArray[np.int64]
    link: NDArray[np.int64]


@kernel
def _new_walk(size):
    return Walk(
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(2 * size, np.int64),
    )


@kernel
def _walk(cells, n, m, walk):
    """Order the nodes so that parents come before their children."""
    head, link = walk.head, walk.link
    head[: n + m] = -1
    for t in range(n + m - 1):
        i, j = cells[t] // m, n + cells[t] % m
        link[2 * t] = head[i]
        head[i] = 2 * t
        link[2 * t + 1] = head[j]
        head[j] = 2 * t + 1
    walk.order[0] = 0
    walk.parent[0] = -1
    walk.arc[0] = -1
    filled = 1
    for done in range(n + m):
        node = walk.order[done]
        edge = head[node]
        while edge >= 0:
            t = edge >> 1
            if t != walk.arc[node]:
                other = n + cells[t] % m if node < n else cells[t] // m
                walk.order[filled] = other
                walk.parent[other] = node
                walk.arc[other] = t
                filled += 1
            edge = link[edge]


@kernel
def _potentials(cells, C, walk, potential):
    """C(i, j) = u(i) + v(j) on the tree, u(0) = 0."""
    n, m = C.shape
    potential[0] = 0.0
    for s in range(1, n + m):
        node = walk.order[s]
        cell = cells[walk.arc[node]]
        potential[node] = C[cell // m, cell % m] - potential[walk.parent[node]]


@kernel
def _flows(size, walk, need, flow):
    """The flow on each arc that satisfies the demand of every node; `need` is overwritten."""
    # In reverse order of the walk every node's children are done, so `need` holds the demand of its whole subtree.
    for s in range(size - 1, 0, -1):
        node = walk.order[s]
        flow[walk.arc[node]] = need[node]
        need[walk.parent[node]] -= need[node]


@kernel
def _same_row(a_indptr, a_indices, b_indptr, b_indices, row):
    begin, other = a_indptr[row], b_indptr[row]
    length = a_indptr[row + 1] - begin
    if b_indptr[row + 1] - other != length:
        return False
    for t in range(length):  # noqa: SIM110 - compiled
        if a_indices[begin + t] != b_indices[other + t]:
            return False
    return True


@kernel
def _widest(pair, indptr):
    widest = 1
    for k in range(pair.size):
        widest = max(widest, indptr[pair[k] + 1] - indptr[pair[k]])
    return widest


@kernel(name="warm start", seconds=1)
def repair(lo, hi, V, pair_x, pair_y, x, y, unit, bases, old_x, old_y, old):
    """Reuse the bases `old` of pairs lo..hi-1, optimal for V under other masses, and make them optimal here.

    Pairs whose successors changed, pairs with closed forms and pairs that need too many pivots get no basis. Returns
    the number of pairs that got one.
    """
    wide_x, wide_y = _widest(pair_x[lo:hi], x.indptr), _widest(pair_y[lo:hi], y.indptr)
    walk, need = _new_walk(wide_x + wide_y), np.empty(wide_x + wide_y, np.int64)
    buffer, potential = np.empty(wide_x * wide_y), np.empty(wide_x + wide_y)
    inside, columns = np.empty(wide_x + wide_y, np.bool_), np.empty(wide_y, np.int64)
    taken = 0
    for k in range(lo, hi):
        x0, y0 = x.indptr[pair_x[k]], y.indptr[pair_y[k]]
        n, m = x.indptr[pair_x[k] + 1] - x0, y.indptr[pair_y[k] + 1] - y0
        # Closed forms cost less than a repair.
        if old.known[k] == 0 or n == 1 or m == 1 or (n == 2 and m == 2):
            continue
        if not (
            _same_row(x.indptr, x.indices, old_x.indptr, old_x.indices, pair_x[k])
            and _same_row(y.indptr, y.indices, old_y.indptr, old_y.indices, pair_y[k])
        ):
            continue
        cells = bases.cells[bases.ptr[k] : bases.ptr[k + 1]]
        flows = bases.flows[bases.ptr[k] : bases.ptr[k + 1]]
        # Only cells are taken over: flows follow from the new masses.
        for t in range(n + m - 1):
            cells[t] = old.cells[old.ptr[k] + t]
        C = buffer[: n * m].reshape(n, m)
        # A dual simplex may need many pivots if masses changed much; then a fresh start is faster.
        for pivots in range(4 * (n + m)):
            _walk(cells, n, m, walk)
            for i in range(n):
                need[i] = unit * x.masses[x0 + i] + 1
            for j in range(m):
                need[n + j] = unit * y.masses[y0 + j]
            need[n + m - 1] += n
            _flows(n + m, walk, need, flows)
            leaving = 0
            # Perturbed flows are never 0 (see `narrow_simplex`), so "positive" and "not negative" are the same.
            for t in range(1, n + m - 1):
                if flows[t] < flows[leaving]:
                    leaving = t
            if flows[leaving] > 0:
                bases.known[k] = 1
                taken += 1
                break
            # Costs are gathered only if a pivot is needed: most bases survive small changes of the masses.
            if pivots == 0:
                for i in range(n):
                    for j in range(m):
                        C[i, j] = V[x.indices[x0 + i], y.indices[y0 + j]]
            _potentials(cells, C, walk, potential)
            cell = _entering(cells, leaving, C, walk, potential, inside, columns)
            # No cell leads back: cannot happen with equal totals, and costs only the warm start if it does.
            if cell < 0:
                break
            cells[leaving] = cell
    return taken


@kernel
def _entering(cells, leaving, C, walk, potential, inside, columns):
    """The cell of minimal reduced cost from a row beyond the leaving arc into the half that contains the arc's row."""
    n, m = C.shape
    row = cells[leaving] // m
    for s in range(n + m):  # the half below the arc first
        node = walk.order[s]
        inside[node] = walk.arc[node] == leaving or (s > 0 and inside[walk.parent[node]])
    # The leaving arc carries negative flow from its row; its replacement has to lead into the half of that row.
    row_is_below = inside[row]
    count = 0
    for j in range(m):
        if inside[n + j] == row_is_below:
            columns[count] = j
            count += 1
    best = np.inf
    cell = np.int64(-1)
    for i in range(n):
        if inside[i] != row_is_below:
            for s in range(count):
                j = columns[s]
                reduced = C[i, j] - potential[i] - potential[n + j]
                if reduced < best:
                    best = reduced
                    cell = np.int64(i * m + j)
    return cell


@kernel
def move(pair_x, pair_y, x, y, bases, change_x, change_y, out):
    """Change of the flow on every arc for a change of the masses, which is linear for fixed bases."""
    size = _widest(pair_x, x.indptr) + _widest(pair_y, y.indptr)
    walk, need = _new_walk(size), np.empty(size)
    for k in range(pair_x.size):
        x0, y0 = x.indptr[pair_x[k]], y.indptr[pair_y[k]]
        n, m = x.indptr[pair_x[k] + 1] - x0, y.indptr[pair_y[k] + 1] - y0
        # Flows depend linearly on the masses for a fixed tree, so the same sweep over the tree gives the derivative.
        arcs = slice(bases.ptr[k], bases.ptr[k + 1])
        _walk(bases.cells[arcs], n, m, walk)
        for i in range(n):
            need[i] = change_x[x0 + i]
        for j in range(m):
            need[n + j] = change_y[y0 + j]
        _flows(n + m, walk, need, out[arcs])


@kernel
def margins(V, pair_x, pair_y, x, y, unit, bases, wanted, flow, cost):
    """The smallest mass on an arc of each wanted pair's basis, and the smallest reduced cost outside it.

    If the first is positive, the potentials are unique; if the second is, the plan is unique. Infinite if no such arc
    or cell exists.
    """
    wide_x, wide_y = _widest(pair_x, x.indptr), _widest(pair_y, y.indptr)
    walk, potential = _new_walk(wide_x + wide_y), np.empty(wide_x + wide_y)
    buffer, basic = np.empty(wide_x * wide_y), np.zeros(wide_x * wide_y, np.bool_)
    total = float((1 << 61) // unit)
    for k in range(pair_x.size):
        flow[k], cost[k] = np.inf, np.inf
        if not wanted[k]:
            continue
        x0, y0 = x.indptr[pair_x[k]], y.indptr[pair_y[k]]
        n, m = x.indptr[pair_x[k] + 1] - x0, y.indptr[pair_y[k] + 1] - y0
        cells = bases.cells[bases.ptr[k] : bases.ptr[k + 1]]
        C = buffer[: n * m].reshape(n, m)
        base = V[x.indices[x0], y.indices[y0]]
        for i in range(n):
            for j in range(m):
                C[i, j] = V[x.indices[x0 + i], y.indices[y0 + j]] - base
        _walk(cells, n, m, walk)
        _potentials(cells, C, walk, potential)
        for t in range(n + m - 1):
            # Rounded to whole units, which removes the perturbation: degenerate bases show mass 0 here.
            mass = (bases.flows[bases.ptr[k] + t] + unit // 2) // unit
            flow[k] = min(flow[k], mass / total)
            basic[cells[t]] = True
        for i in range(n):
            for j in range(m):
                if not basic[i * m + j]:
                    cost[k] = min(cost[k], C[i, j] - potential[i] - potential[n + j])
        # Only the touched marks are reset: clearing all n * m per pair would dominate.
        for t in range(n + m - 1):
            basic[cells[t]] = False
