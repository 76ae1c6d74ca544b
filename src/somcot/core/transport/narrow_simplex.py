"""The transportation simplex for one pair of rows, on a rooted spanning tree.

With potentials such that C(i, j) = u(i) + v(j) on the arcs of the tree, a cell with C(i, j) < u(i) + v(j) enters and
the arc of its cycle that empties first leaves.

Masses are integers, at least 1 each. Row i carries ``unit * a[i] + 1``, column j carries ``unit * b[j]`` and the last
column the sum of the ones as well (Orden's perturbation; unit > 2 * rows). The surplus of a subtree is then
``unit * k + e`` with e between -rows and rows, and never 0, so no basis is degenerate: every pivot moves at least one
unit of mass and strictly lowers the cost, no basis repeats, and the method terminates, even with ties and uniform rows.
Rounding a flow to a multiple of ``unit`` removes the perturbation exactly. A reduced cost counts as negative below
``-tolerance``, which exceeds the rounding error of every path sum in the tree.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.compile.jit import kernel, part
from somcot.compile.simd_math import copy_to
from somcot.plumbing.arrays import Floats

__all__ = ["Tree", "build_tree", "greedy_basis", "new_tree", "simplex"]


class Tree(NamedTuple):
    """Workspace: a rooted spanning tree over rows 0..n-1 and columns n..n+m-1, children in linked lists."""

    parent: NDArray[np.int64]
    flow: NDArray[np.int64]
    depth: NDArray[np.int64]
    first: NDArray[np.int64]
    after: NDArray[np.int64]
    before: NDArray[np.int64]
    potential: Floats
    work: NDArray[np.int64]


@kernel
def new_tree(size):
    """Workspace for a tree over `size` rows and columns in total."""
    return Tree(
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size),
        np.empty(4 * size, np.int64),
    )


@kernel
def simplex(C, a, b, unit, tolerance, cells, flows, known, prices, tree):
    """Solve the general case; returns the number of pivots, or 1 for a new basis that needed none."""
    n, m = C.shape
    # `known` bases belong to the same masses, so they are feasible; only the costs have changed since.
    if not known:
        greedy_basis(C, a, b, unit, prices[:m], cells, flows)
    build_tree(cells, flows, C, tree)
    # `clean` counts consecutive rows without a candidate: the loop ends after a full round of them.
    pivots = 0
    clean = 0
    i = np.int64(0)
    u, v = tree.potential[:n], tree.potential[n : n + m]
    while clean < n:
        least = _row_minimum(C[i], v)
        clean += 1
        if least - u[i] < -tolerance:
            # The minimum and its column in two loops: the first one
            # vectorises, the second runs only for rows that pivot.
            j = 0
            while C[i, j] - v[j] > least:
                j += 1
            _pivot(i, j, C, tree)
            pivots += 1
            clean = 0
        i = np.int64(i + 1 if i + 1 < n else 0)
    # The next pair has similar costs with other masses: its greedy start uses these prices.
    copy_to(prices, v)
    if pivots > 0 or not known:
        # Node 0 is the root; every other node stands for the arc to its parent.
        for node in range(1, n + m):
            above = tree.parent[node]
            cells[node - 1] = node * m + above - n if node < n else above * m + node - n
            flows[node - 1] = tree.flow[node]
        return max(pivots, 1)
    return 0


@kernel
def greedy_basis(C, a, b, unit, prices, cells, flows):
    """An initial basis: each row in turn fills its cheapest open columns at the current prices."""
    n, m = C.shape
    need = np.empty(m, np.int64)
    for j in range(m):
        need[j] = unit * b[j]
    need[m - 1] += n
    count = 0
    for i in range(n):
        have = unit * a[i] + 1
        while have > 0:
            best = np.inf
            j = -1
            for k in range(m):
                if need[k] > 0 and C[i, k] - prices[k] < best:
                    best = C[i, k] - prices[k]
                    j = k
            # Exactly one of the two is exhausted, except at the end: m + n - 1 arcs, a spanning tree.
            amount = min(have, need[j])
            cells[count] = i * m + j
            flows[count] = amount
            count += 1
            have -= amount
            need[j] -= amount


@kernel
def build_tree(cells, flows, C, tree):
    """Build a tree rooted at row 0 from basis arcs and set the potentials."""
    n, m = C.shape
    size = n + m
    head = tree.work[:size]
    # Adjacency lists of half-edges: 2 k belongs to the row of arc k and 2 k + 1 to its column.
    link = tree.work[size : 3 * size]
    queue = tree.work[3 * size : 4 * size]
    head[:] = -1
    for k in range(size - 1):
        i, j = cells[k] // m, n + cells[k] % m
        link[2 * k] = head[i]
        head[i] = 2 * k
        link[2 * k + 1] = head[j]
        head[j] = 2 * k + 1
    tree.first[:size] = -1
    tree.parent[0] = -1
    tree.depth[0] = 0
    tree.potential[0] = 0.0
    queue[0] = 0
    filled = 1
    # Breadth-first, so that potentials are set from the parent's, which is final.
    for done in range(size):
        node = queue[done]
        edge = head[node]
        while edge >= 0:
            i, j = cells[edge >> 1] // m, cells[edge >> 1] % m
            other = n + j if node < n else i
            if other != tree.parent[node]:
                _attach(other, node, flows[edge >> 1], tree)
                tree.depth[other] = tree.depth[node] + 1
                tree.potential[other] = C[i, j] - tree.potential[node]
                queue[filled] = other
                filled += 1
            edge = link[edge]


@part
def _row_minimum(row, v):
    least = row[0] - v[0]
    for k in range(1, row.size):
        value = row[k] - v[k]
        least = value if value < least else least
    return least


@kernel
def _pivot(i, j, C, tree):
    """Pivot: cell (i, j) enters the tree, mass moves along its cycle until an arc empties, and that arc leaves."""
    n = C.shape[0]
    parent, flow, depth = tree.parent, tree.flow, tree.depth
    # Going up from row i, arcs that start at a row lose mass; going up from column j, those that start at a column.
    least = np.int64(0x7FFFFFFFFFFFFFFF)
    leaving = -1
    below_row = True
    p, q = i, n + j
    while p != q:
        # The deeper end moves up, until both meet at the lowest common ancestor.
        if depth[p] >= depth[q]:
            if p < n and flow[p] < least:
                least, leaving, below_row = flow[p], p, True
            p = parent[p]
        else:
            if q >= n and flow[q] < least:
                least, leaving, below_row = flow[q], q, False
            q = parent[q]
    join = p
    p, q = i, n + j
    while p != join:
        # Arcs alternate around the cycle: gains and losses depend on whether the child node is a row or a column.
        flow[p] += -least if p < n else least
        p = parent[p]
    while q != join:
        flow[q] += -least if q >= n else least
        q = parent[q]
    # Attach the subtree below the leaving arc to the other end of the entering arc, reversing the path.
    # The end of the entering arc below the leaving one becomes the new root of the cut-off subtree.
    root = i if below_row else n + j
    node, above, amount = root, n + j if below_row else i, least
    while True:
        old_parent, old_flow = parent[node], flow[node]
        _detach(node, tree)
        _attach(node, above, amount, tree)
        if node == leaving:
            break
        node, above, amount = old_parent, node, old_flow
    _refresh(root, C, tree)


@kernel
def _attach(node, above, amount, tree):
    tree.parent[node] = above
    tree.flow[node] = amount
    tree.after[node] = tree.first[above]
    if tree.first[above] >= 0:
        tree.before[tree.first[above]] = node
    tree.before[node] = -1
    tree.first[above] = node


@kernel
def _detach(node, tree):
    if tree.before[node] >= 0:
        tree.after[tree.before[node]] = tree.after[node]
    else:
        tree.first[tree.parent[node]] = tree.after[node]
    if tree.after[node] >= 0:
        tree.before[tree.after[node]] = tree.before[node]


@kernel
def _refresh(root, C, tree):
    """Depths and potentials of a subtree, each from its parent's so that rounding does not accumulate."""
    n = C.shape[0]
    stack = tree.work
    stack[0] = root
    top = 1
    while top > 0:
        top -= 1
        node = stack[top]
        above = tree.parent[node]
        tree.depth[node] = tree.depth[above] + 1
        cost = C[node, above - n] if node < n else C[above, node - n]
        tree.potential[node] = cost - tree.potential[above]
        child = tree.first[node]
        while child >= 0:
            stack[top] = child
            top += 1
            child = tree.after[child]
