"""A first basis from prices: the least spanning tree of the reduced costs, filled from its leaves.

With the optimal prices of the columns, and rows priced by their cheapest cell, all arcs of the optimal basis cost 0
and no cell costs less. A basis that takes cheap cells in the order of the rows still misses most of those arcs: which
of them has which flow is decided from the leaves inwards. So Prim's algorithm builds the least spanning tree of the
reduced costs, and its leaves are closed one after the other, each over the arc to its parent. A line that has not
enough mass for its leaf closes first and leaves the other open; what is open in the end is filled row by row, cheapest
column first.

Every arc closes exactly one line, because the perturbed masses never empty two at once except the last two, so the arcs
are n + m - 1 and have no cycle: a basis, whatever the prices. Poor prices cost pivots later, nothing else.
"""
# mypy: disable-error-code="no-untyped-def, assignment"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.bellman.preorder import LANES, filled_up, row_minima
from somcot.plumbing.jit import kernel, part
from somcot.plumbing.vector_code import short_bits

__all__ = ["MOST", "Crash", "new_crash", "peel"]

MOST = 1 << 20  # rows and columns: their numbers have room in the last bits of a float32

_FAR = np.int32(0x7F000000)  # farther than any arc; its last bits are free for a number
_INSIDE = np.int32(0x7FFFFFFF)  # the distance of what is in the tree already


class Crash(NamedTuple):
    """Workspace: rows, then columns, both filled up to whole vectors."""

    prices: NDArray[np.float32]
    closed: NDArray[np.int32]  # `_INSIDE` for nodes that are in the tree or do not exist, else 0
    distance: NDArray[np.int32]  # from the tree to a node outside, as bits of a float; the last say which node
    source: NDArray[np.int32]  # ... and where from
    joined: NDArray[np.int32]  # nodes in the order they joined
    left: NDArray[np.int64]  # mass that is not assigned yet; no gap between rows and columns
    open: NDArray[np.int64]


@kernel
def new_crash(size):
    """Room for `size` rows and columns together."""
    padded = size + 2 * LANES
    return Crash(
        np.zeros(padded, np.float32),
        np.empty(padded, np.int32),
        np.empty(padded, np.int32),
        np.empty(padded, np.int32),
        np.empty(padded, np.int32),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
    )


@kernel
def peel(C, costs, T, a, b, unit, v, cells, flows, work):
    """Write a basis for the masses a and b (perturbed as in `bellman.tree`) at column prices v.

    `costs` is the memory of C and T its transpose, as in `preorder.pivot_until_optimal`.
    """
    n, m = C.shape
    left = work.left
    for i in range(n):
        left[i] = unit * a[i] + 1
    for j in range(m):
        left[n + j] = unit * b[j]
    left[n + m - 1] += n
    first = T.shape[1]
    _span(costs, T, n, v, work)
    count = 0
    for t in range(n + m - 1, 0, -1):
        node = np.int64(work.joined[t])
        above = np.int64(work.source[node])
        i, j = (node, above - first) if node < first else (above, node - first)
        if left[i] > 0 and left[n + j] > 0:
            count = _fill(i, j, n, m, left, cells, flows, count)
    _fill_open(C, v, work, cells, flows, count)


@part(nan=True)
def _span(costs, T, n, v, work):
    """Prim's algorithm from row 0: `joined` and `source`.

    Distances are compared as whole numbers, which have the order of the positive floats with the same bits, and their
    last bits are the number of the node, so that one minimum finds both. Whatever the costs, every node joins once.
    """
    m, first = T.shape
    total = first + filled_up(m)
    prices, closed, distance, source = (
        work.prices[:total],
        work.closed[:total],
        work.distance[:total],
        work.source[:total],
    )
    names = np.int32(1)
    while names < total:
        names = np.int32(2 * names)
    names = np.int32(names - 1)
    for j in range(m):
        prices[first + j] = v[j]
    row_minima(T, prices[first : first + m], prices[:first])
    for node in range(total):
        outside = node < n or first <= node < first + m
        distance[node] = np.int32(_FAR | np.int32(node)) if outside else _INSIDE
        closed[node] = np.int32(0) if outside else _INSIDE
        source[node] = np.int32(first if node < first else 0)
    node = np.int32(0)
    for t in range(n + m):
        work.joined[t] = node
        distance[node] = closed[node] = _INSIDE
        price = prices[node]
        if node < first:
            row = costs[node * m : node * m + total - first]
            _offer(row, price, prices[first:], closed[first:], distance[first:], source[first:], node, first, names)
        else:
            row = T[node - first]
            _offer(row, price, prices[:first], closed[:first], distance[:first], source[:first], node, 0, names)
        node = np.int32(_nearest(distance) & names)


@part(nan=True)
def _offer(costs, own, others, closed, distance, source, node, first, names):
    """Let a node that has just joined offer its arcs to the other side."""
    begin, front = np.int32(first), ~names
    for k in range(distance.size):
        reduced = short_bits(np.float32(costs[k]) - own - others[k])
        reduced = np.int32(max(reduced, np.int32(0)) & front)  # rounding can make it negative
        offered = np.int32(np.int32(reduced | np.int32(begin + np.int32(k))) | closed[k])
        before, origin = distance[k], source[k]
        distance[k] = offered if offered < before else before
        source[k] = node if offered < before else origin


@part
def _nearest(distance):
    nearest = distance[0]
    for k in range(distance.size):
        nearest = min(nearest, distance[k])
    return nearest


@part
def _fill(i, j, n, m, left, cells, flows, count):
    """Give cell (i, j) all it can take."""
    amount = min(left[i], left[n + j])
    left[i] -= amount
    left[n + j] -= amount
    cells[count] = i * m + j
    flows[count] = amount
    return count + 1


@part
def _fill_open(C, v, work, cells, flows, count):
    """Open rows in turn fill their cheapest open columns."""
    n, m = C.shape
    left, columns, n_columns = work.left, work.open, 0
    for j in range(m):
        if left[n + j] > 0:
            columns[n_columns] = j
            n_columns += 1
    for i in range(n):
        while left[i] > 0 and count < n + m - 1:
            best, k = np.inf, 0
            for c in range(n_columns):
                reduced = C[i, columns[c]] - v[columns[c]]
                if reduced < best:
                    best, k = reduced, c
            j = columns[k]
            count = _fill(i, j, n, m, left, cells, flows, count)
            if left[n + j] == 0:
                n_columns -= 1
                columns[k] = columns[n_columns]
