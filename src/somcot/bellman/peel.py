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

from somcot.bellman.preorder import row_minima
from somcot.plumbing.arrays import Floats
from somcot.plumbing.jit import kernel, part
from somcot.plumbing.vector_code import bits, unbits

__all__ = ["Crash", "new_crash", "peel"]

_FAR = 1e300  # the distance of what is out of reach
_OUTSIDE, _INSIDE = 1e-300, 1e305  # added to the distances of nodes, so that none is 0 and no offer reaches the tree


class Crash(NamedTuple):
    """Workspace, for rows 0..n-1 and columns n..n+m-1."""

    floor: Floats  # prices of the rows
    distance: Floats  # from the tree to a node outside; its last bits say which node
    added: Floats
    source: Floats  # ... and where from
    joined: NDArray[np.int64]  # nodes in the order they joined
    left: NDArray[np.int64]  # mass that is not assigned yet
    open: NDArray[np.int64]


@kernel
def new_crash(size):
    """Room for `size` rows and columns together."""
    return Crash(
        np.empty(size),
        np.empty(size),
        np.empty(size),
        np.empty(size),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
    )


@kernel
def peel(C, T, a, b, unit, v, cells, flows, work):
    """Write a basis for the masses a and b (perturbed as in `bellman.tree`) at column prices v; T is C transposed."""
    n, m = C.shape
    left = work.left
    for i in range(n):
        left[i] = unit * a[i] + 1
    for j in range(m):
        left[n + j] = unit * b[j]
    left[n + m - 1] += n
    row_minima(T, v, work.floor[:n])
    _span(C, T, v, work)
    count = 0
    for t in range(n + m - 1, 0, -1):
        node = work.joined[t]
        above = np.int64(work.source[node])
        if left[node] > 0 and left[above] > 0:
            i, j = (node, above - n) if node < n else (above, node - n)
            count = _fill(i, j, n, m, left, cells, flows, count)
    _fill_open(C, v, work, cells, flows, count)


@part
def _span(C, T, v, work):
    """Prim's algorithm from row 0: `joined` and `source`.

    The last bits of a distance are the number of its node, so that one minimum finds both.
    """
    n, m = C.shape
    total = n + m
    floor, distance, added, source = work.floor[:n], work.distance[:total], work.added[:total], work.source[:total]
    last_bits = np.int64(1)
    while last_bits < total:
        last_bits *= 2
    last_bits -= 1
    for node in range(total):
        distance[node] = _FAR
        added[node] = _OUTSIDE
        source[node] = 0.0
    node = np.int64(0)
    for t in range(total):
        work.joined[t] = node
        distance[node] = _FAR
        added[node] = _INSIDE
        if node < n:
            _offer(C[node], floor[node], v, added[n:], distance[n:], source[n:], node, n, last_bits)
        else:
            _offer(T[node - n], v[node - n], floor, added[:n], distance[:n], source[:n], node, 0, last_bits)
        node = bits(_least(distance)) & last_bits


@part(nan=True)
def _offer(costs, own, others, added, distance, source, node, first, last_bits):
    """Let a node that has just joined offer its arcs to the other side; for the zeros see `preorder.row_minima`."""
    name = float(node)
    for k in range(costs.size):
        reduced = costs[k] - own - others[k] + added[k]
        offered = unbits(bits(reduced) & ~last_bits | (first + k))
        before, origin = distance[k], source[k]
        distance[k] = (offered if offered < before else before) + 0.0
        source[k] = (name if offered < before else origin) + 0.0


@part
def _least(values):
    least = values[0]
    for k in range(1, values.size):
        least = min(least, values[k])
    return least


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
