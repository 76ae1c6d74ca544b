"""The transportation simplex for wide supports, on a tree that lies in memory as its preorder.

The method is that of `bellman.tree`, with the same masses, the same tolerance and so the same proof of its end. What
differs is what a pivot costs where there are many rows and columns:

* Pricing looks at all rows at once, column by column, so that every lane of a vector register has a row of its own.
  The few most negative rows of one look are then pivoted on in turn, each looked at afresh.
* The tree is the list of its nodes in preorder: the subtree of a node is a stretch of the list, and parents stand
  before their children. Whether a node is below another is one comparison, a pivot moves stretches, and the new
  potentials of a subtree are one pass over it. As in `bellman.tree` each is taken from its parent's, so rounding does
  not pile up.
"""
# mypy: disable-error-code="no-untyped-def, assignment"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.arrays import Floats
from somcot.plumbing.jit import kernel, part

__all__ = ["Preorder", "new_preorder", "pivot_until_optimal", "plant_preorder", "row_minima", "write_basis"]

_NODE = np.uint32  # indices without a sign need no test for negative ones
_NONE = np.uint32(0xFFFFFFFF)
_ROWS = 4  # pivots after one look at all rows
_SHARE = 0.3  # ... as long as the reduced cost is at least this share of the worst
_ENDLESS = np.int64(0x7FFFFFFFFFFFFFFF)


class Preorder(NamedTuple):
    """Workspace: a rooted spanning tree over rows 0..n-1 and columns n..n+m-1."""

    parent: NDArray[np.uint32]
    order: NDArray[np.uint32]  # the nodes, every one before its children, subtrees in one piece
    place: NDArray[np.uint32]  # where a node stands in `order`
    size: NDArray[np.uint32]  # of the subtree of a node
    flow: NDArray[np.int64]  # on the arc to the parent
    potential: Floats
    moved: NDArray[np.uint32]
    least: Floats
    work: NDArray[np.uint32]


@kernel
def new_preorder(size):
    """Room for a tree over `size` rows and columns together."""
    return Preorder(
        np.empty(size, _NODE),
        np.empty(size, _NODE),
        np.empty(size, _NODE),
        np.empty(size, _NODE),
        np.empty(size, np.int64),
        np.empty(size),
        np.empty(size, _NODE),
        np.empty(size),
        np.empty(6 * size, _NODE),
    )


@part
def pivot_until_optimal(C, T, tolerance, tree):
    """Pivot on the planted tree until no reduced cost is below -tolerance; T is C transposed. Returns how often."""
    n, m = C.shape
    u, v, least = tree.potential[:n], tree.potential[n : n + m], tree.least[:n]
    pivots = 0
    while True:
        row_minima(T, v, least)
        worst = 0.0
        for i in range(n):
            least[i] -= u[i]
            worst = min(worst, least[i])
        if worst >= -tolerance:
            return pivots
        line = min(_SHARE * worst, -tolerance)
        for _ in range(_ROWS):
            i = _lowest(least)
            if least[i] >= line:
                break
            fresh = _row_minimum(C[i], v)
            if fresh - u[i] < line:
                j = 0
                while C[i, j] - v[j] > fresh:
                    j += 1
                _pivot(i, j, C, tree)
                pivots += 1
            least[i] = 0.0


@part(nan=True)
def row_minima(T, v, least):
    """least(i) = min_j C(i, j) - v(j), eight columns a pass over the rows.

    Adding 0.0 changes nothing, but without it LLVM stores through masks, which takes some processors ten times as long.
    """
    m, n = T.shape
    head = m % 8
    for i in range(n):
        least[i] = T[0, i] - v[0]
    for j in range(1, head):
        for i in range(n):
            least[i] = _smaller(T[j, i] - v[j], least[i]) + 0.0
    for j in range(head, m, 8):
        a, b, c, d, e, f, g, h = v[j], v[j + 1], v[j + 2], v[j + 3], v[j + 4], v[j + 5], v[j + 6], v[j + 7]
        for i in range(n):
            left = _smaller(_smaller(T[j, i] - a, T[j + 1, i] - b), _smaller(T[j + 2, i] - c, T[j + 3, i] - d))
            right = _smaller(_smaller(T[j + 4, i] - e, T[j + 5, i] - f), _smaller(T[j + 6, i] - g, T[j + 7, i] - h))
            least[i] = _smaller(_smaller(left, right), least[i]) + 0.0


@part(nan=True)
def _smaller(a, b):
    return a if a < b else b


@part
def _row_minimum(row, v):
    least = row[0] - v[0]
    for k in range(1, row.size):
        least = min(least, row[k] - v[k])
    return least


@part
def _lowest(values):
    """The first place of the least value."""
    least = values[0]
    for i in range(1, values.size):
        least = min(least, values[i])
    i = 0
    while values[i] > least:
        i += 1
    return i


@part
def _pivot(i, j, C, tree):
    """Bring cell (i, j) into the tree: send mass round its cycle until an arc empties, and drop that arc."""
    n = C.shape[0]
    parent, place, size, flow = tree.parent, tree.place, tree.size, tree.flow
    row, column = _NODE(i), _NODE(n + j)
    # Going up from the row, arcs that start at a row lose mass; going up from the column, those that start at a column.
    least, leaving, below_row = _ENDLESS, row, True
    node, target = row, place[column]
    while target - place[node] >= size[node]:  # also where the target stands before the node: the difference wraps
        if node < n and flow[node] < least:
            least, leaving = flow[node], node
        node = parent[node]
    join = node
    node = column
    while node != join:
        if node >= n and flow[node] < least:
            least, leaving, below_row = flow[node], node, False
        node = parent[node]
    node = row
    while node != join:
        flow[node] += -least if node < n else least
        node = parent[node]
    node = column
    while node != join:
        flow[node] += -least if node >= n else least
        node = parent[node]
    if below_row:
        _hang(row, column, leaving, join, least, C, tree)
    else:
        _hang(column, row, leaving, join, least, C, tree)


@kernel
def _hang(root, above, leaving, join, amount, C, tree):
    """Hang the part below the leaving arc onto `above` by its node `root`, turning the path between them over.

    Nodes and places are unsigned, and so must be all that is added to them.
    """
    one, rows = np.uint64(1), np.uint64(C.shape[0])
    parent, order, place, size, flow = tree.parent, tree.order, tree.place, tree.size, tree.flow
    moved, potential = tree.moved, tree.potential
    count, begin = np.uint64(size[leaving]), np.uint64(place[leaving])
    node = parent[leaving]
    while node != join:
        size[node] -= count
        node = parent[node]
    node = above
    while node != join:
        size[node] += count
        node = parent[node]
    # The new preorder: the subtree of the root, then what its parent had before and behind it, and so on upwards.
    first, filled = np.uint64(place[root]), np.uint64(0)
    last = first + size[root]
    filled = _append(order, first, last, moved, filled)
    node, up, inside = root, above, np.uint64(0)
    while True:
        old_parent, old_flow, old_size = parent[node], flow[node], np.uint64(size[node])
        parent[node], flow[node], size[node] = up, amount, count - inside
        if node == leaving:
            break
        before = np.uint64(place[old_parent])
        behind = before + size[old_parent]
        filled = _append(order, before, first, moved, filled)
        filled = _append(order, last, behind, moved, filled)
        first, last = before, behind
        node, up, amount, inside = old_parent, node, old_flow, old_size
    # Close the gap it leaves and open one right behind its new parent.
    at = np.uint64(place[above])
    if at < begin:
        t = begin - one
        while t > at:
            order[t + count] = order[t]
            place[order[t]] = t + count
            t -= one
        at += one
    else:
        for t in range(begin + count, at + one):
            order[t - count] = order[t]
            place[order[t]] = t - count
        at = at + one - count
    for t in range(count):
        node = moved[t]
        up = parent[node]
        order[at + t] = node
        place[node] = at + t
        potential[node] = C[min(node, up), max(node, up) - rows] - potential[up]  # no branch: rows come before columns


@part
def _append(order, first, last, moved, filled):
    """Copy a stretch of the preorder behind what was copied before; returns how much that is."""
    for t in range(first, last):
        moved[filled] = order[t]
        filled += np.uint64(1)
    return filled


@kernel
def plant_preorder(cells, flows, C, tree):
    """Turn basis arcs into a tree rooted at row 0 and set the potentials."""
    n, m = C.shape
    total = n + m
    parent, order, place, size = tree.parent, tree.order, tree.place, tree.size
    head, link = tree.work[:total], tree.work[total : 3 * total]
    ends, stack = tree.work[3 * total : 5 * total], tree.work[5 * total : 6 * total]
    for node in range(total):
        head[node] = _NONE
        size[node] = 1
    rows, width = np.uint64(n), np.uint64(m)
    for k in range(np.uint64(total - 1)):  # half-edge 2 k starts at the row of arc k, 2 k + 1 at its column
        cell = np.uint64(cells[k])
        i = cell // width
        j = rows + cell - i * width
        one, other = k + k, k + k + np.uint64(1)
        ends[one], ends[other] = i, j
        link[one], link[other] = head[i], head[j]
        head[i], head[j] = one, other
    parent[0] = 0
    tree.potential[0] = 0.0
    stack[0] = 0
    top = 1
    for t in range(total):
        top -= 1
        node = stack[top]
        order[t] = node
        place[node] = t
        edge = head[node]
        while edge != _NONE:
            other = ends[edge ^ np.uint64(1)]
            if t == 0 or other != parent[node]:
                parent[other] = node
                tree.flow[other] = flows[edge >> np.uint64(1)]
                tree.potential[other] = C[min(node, other), max(node, other) - rows] - tree.potential[node]
                stack[top] = other
                top += 1
            edge = link[edge]
    for t in range(total - 1, 0, -1):
        size[parent[order[t]]] += size[order[t]]


@part
def write_basis(tree, n, m, cells, flows):
    """The arcs of the tree, as local cells with their flows."""
    for node in range(1, n + m):
        above = np.int64(tree.parent[node])
        cells[node - 1] = node * m + above - n if node < n else above * m + node - n
        flows[node - 1] = tree.flow[node]
