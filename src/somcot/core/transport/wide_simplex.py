"""The transportation simplex for wide supports, on a tree stored in preorder.

The method is that of `narrow_simplex`, with the same masses, the same tolerance and so the same proof of termination.
Pivots are cheaper for many rows and columns:

* Pricing processes all rows together, column by column in float32, with one row per lane of a vector register. The few
  best rows of one pass are then pivoted on in turn, each priced again in full precision; when such passes yield no
  candidates, optimality is verified on the costs themselves.
* The tree is the list of its nodes in preorder: the subtree of a node is a segment of the list, and parents precede
  their children. A descendant test is one comparison, a pivot moves segments, and the new potentials of a subtree take
  one pass over it. As in `narrow_simplex` each is computed from its parent's, so rounding does not accumulate.
"""
# mypy: disable-error-code="no-untyped-def, assignment"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.compile.jit import kernel, part
from somcot.compile.simd_math import bits, copy_to, unbits
from somcot.plumbing.arrays import Floats

__all__ = [
    "LANES",
    "Preorder",
    "filled_up",
    "new_preorder",
    "pivot_until_optimal",
    "plant_preorder",
    "row_minima",
    "transpose",
    "write_basis",
]

_NODE = np.uint32  # unsigned indices need no test for negative values
_NONE = np.uint32(0xFFFFFFFF)
_ROWS = 6  # pivots after one pass over all rows
_SHARE = 0.3  # ... as long as the reduced cost is at least this share of the worst
LANES = 32  # maximal width of vector loops: arrays padded to a multiple need no scalar remainder loop
_ENDLESS = np.int64(0x7FFFFFFFFFFFFFFF)


class Preorder(NamedTuple):
    """Workspace: a rooted spanning tree over rows 0..n-1 and columns n..n+m-1."""

    parent: NDArray[np.uint32]
    order: NDArray[np.uint32]  # the nodes; parents precede children, subtrees are contiguous
    place: NDArray[np.uint32]  # position of a node in `order`
    size: NDArray[np.uint32]  # of the subtree of a node
    flow: NDArray[np.int64]  # on the arc to the parent
    potential: Floats
    moved: NDArray[np.uint32]
    gains: NDArray[np.int64]
    prices: Floats
    rough: NDArray[np.float32]
    work: NDArray[np.uint32]


@kernel
def new_preorder(size):
    """Workspace for a tree over `size` rows and columns in total."""
    return Preorder(
        np.empty(size, _NODE),
        np.empty(size, _NODE),
        np.empty(size, _NODE),
        np.empty(size, _NODE),
        np.empty(size, np.int64),
        np.empty(size + LANES),
        np.empty(size, _NODE),
        np.empty(size + LANES, np.int64),
        np.empty(size + LANES),
        np.empty(size + 2 * LANES, np.float32),
        np.empty(6 * size, _NODE),
    )


@part(nan=True)
def pivot_until_optimal(C, costs, T, turned, tolerance, tree):
    """Pivot on the tree until no cell gains more than the tolerance; returns the number of pivots.

    The gain of a cell is u(i) + v(j) - C(i, j). Candidates are found in T, which is C transposed, in float32: half the
    memory, twice the lanes. Every cell is priced again before it enters, and optimality is verified on C itself. T is
    filled when it is first needed, unless it is already `turned`; after a pivot it is always filled. `costs` is the
    memory of C as one row.
    """
    n, m = C.shape
    u, v = tree.potential[:n], tree.potential[n : n + m]
    gains, prices = tree.gains[: filled_up(n)], tree.prices[: filled_up(m)]
    names = np.int64(1)
    while names < max(n, m):
        names *= 2
    names -= 1
    # Padding never wins: a gain of 0 bits is the smallest key, and a price of -inf makes the gain negative.
    for i in range(n, gains.size):
        gains[i] = 0
    for j in range(m, prices.size):
        prices[j] = -np.inf
    copy_to(prices, v)
    pivots = 0
    exact = True
    while True:
        if exact:
            for i in range(n):
                gain = unbits(_best_of_row(costs, i, m, u[i], prices, names))
                # The last bits of a gain name its row. This costs
                # relative accuracy of names * eps, at most a few 1e-13.
                gains[i] = bits(gain) & ~names | i
        else:
            _rough_gains(T, n, names, tree, gains, prices)
        # Even a rough pass that finds nothing is followed by an exact one: only that may end the loop.
        best = unbits(_largest(gains))
        if exact and best <= tolerance:
            return pivots
        if not turned:
            transpose(C, T)
            turned = True
        # Rows whose gain is far below the best are left for the next pass, when prices have changed.
        line = max(_SHARE * best, tolerance)
        n_entering = 0
        for _ in range(_ROWS):
            key = _largest(gains)
            if unbits(key) <= line:
                break
            i = key & names
            j = _best_of_row(costs, i, m, u[i], prices, names) & names
            # Gains are outdated after a pivot, so each is priced again before it enters.
            if u[i] - (C[i, j] - v[j]) > line:
                _pivot(i, j, C, tree)
                copy_to(prices, v)
                n_entering += 1
            gains[i] = 0
        if exact and n_entering == 0:  # the last bits of a key can lift a gain just over the tolerance
            return pivots
        pivots += n_entering
        exact = n_entering == 0


@part
def filled_up(size):
    """The next multiple of the lanes."""
    return (size + LANES - 1) // LANES * LANES


@part(nan=True)
def _best_of_row(costs, i, m, own, prices, names):
    """The largest gain in row i, with its column in the last bits; padding behind the row is never chosen.

    Gains are compared as integers, because positive floats have the order of their bits and LLVM vectorises the
    maximum of integers.
    """
    row = costs[i * m : i * m + prices.size]
    best = np.int64(0)
    for j in range(prices.size):
        best = max(best, bits(own - (row[j] - prices[j])) & ~names | j)
    return best


@part
def _largest(keys):
    largest = np.int64(0)
    for k in range(keys.size):
        largest = max(largest, keys[k])
    return largest


@part(nan=True)
def _rough_gains(T, n, names, tree, gains, prices):
    """The largest gain of every row in float32 accuracy, with the row in the last bits."""
    rough, minima = tree.rough[: prices.size], tree.rough[prices.size : prices.size + T.shape[1]]
    for j in range(prices.size):
        rough[j] = prices[j]
    row_minima(T, rough, minima)
    own = tree.potential[: gains.size]
    for i in range(gains.size):
        gains[i] = bits(own[i] - minima[i]) & ~names | i
    for i in range(n, gains.size):
        gains[i] = 0


@part(nan=True)
def row_minima(T, v, least):
    """least(i) = min_j C(i, j) - v(j), eight columns per pass over the rows (there are at least eight).

    T is C transposed. The last eight columns may overlap with previous ones, which does not affect a minimum.
    """
    n, last = T.shape[1], np.uint64(T.shape[0] - 8)
    for i in range(n):
        least[i] = T[0, i] - v[0]
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    five, six, seven = np.uint64(5), np.uint64(6), np.uint64(7)
    for block in range(np.uint64(T.shape[0] + 7) >> three):
        j = min(block << three, last)
        a, b, c, d, e, f = v[j], v[j + one], v[j + two], v[j + three], v[j + four], v[j + five]
        g, h = v[j + six], v[j + seven]
        for i in range(n):
            first = _smaller(T[j, i] - a, T[j + one, i] - b)
            second = _smaller(T[j + two, i] - c, T[j + three, i] - d)
            third = _smaller(T[j + four, i] - e, T[j + five, i] - f)
            fourth = _smaller(T[j + six, i] - g, T[j + seven, i] - h)
            # Adding 0 has no effect, but without it LLVM uses masked stores, which are ten times slower on some
            # processors.
            together = _smaller(_smaller(first, second), _smaller(third, fourth))
            least[i] = _smaller(together, least[i]) + np.float32(0.0)


@part(nan=True)
def _smaller(a, b):
    return a if a < b else b


@part(nan=True)
def transpose(C, T):
    """T = C transposed, in float32, eight columns at a time (there are at least eight); the last eight may overlap."""
    last = np.uint64(C.shape[1] - 8)
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    five, six, seven = np.uint64(5), np.uint64(6), np.uint64(7)
    for block in range(np.uint64(C.shape[1] + 7) >> three):
        j = min(block << three, last)
        for i in range(np.uint64(C.shape[0])):
            T[j, i], T[j + one, i] = C[i, j], C[i, j + one]
            T[j + two, i], T[j + three, i] = C[i, j + two], C[i, j + three]
            T[j + four, i], T[j + five, i] = C[i, j + four], C[i, j + five]
            T[j + six, i], T[j + seven, i] = C[i, j + six], C[i, j + seven]


@part
def _pivot(i, j, C, tree):
    """Pivot: cell (i, j) enters the tree, mass moves along its cycle until an arc empties, and that arc leaves."""
    n = C.shape[0]
    parent, place, size, flow = tree.parent, tree.place, tree.size, tree.flow
    row, column = _NODE(i), _NODE(n + j)
    # Going up from the row, arcs that start at a row lose mass; going up from the column, those that start at a column.
    least, leaving, below_row = _ENDLESS, row, True
    node, target = row, place[column]
    while target - place[node] >= size[node]:  # also if the target precedes the node: the difference wraps
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
    """Attach the subtree below the leaving arc to `above` by its node `root`, reversing the path between them.

    Nodes and positions are unsigned, so everything that is added to them must be unsigned too.
    """
    one, rows = np.uint64(1), np.uint64(C.shape[0])
    parent, order, place, size, flow = tree.parent, tree.order, tree.place, tree.size, tree.flow
    moved, potential = tree.moved, tree.potential
    # `count` nodes move, from position `begin` on.
    count, begin = np.uint64(size[leaving]), np.uint64(place[leaving])
    # Sizes along both paths to the join change by the size of the subtree; above the join nothing changes.
    node = parent[leaving]
    while node != join:
        size[node] -= count
        node = parent[node]
    node = above
    while node != join:
        size[node] += count
        node = parent[node]
    # The new preorder: the subtree of the root, then the rest of its parent's subtree, and so on upwards.
    first, filled = np.uint64(place[root]), np.uint64(0)
    last = first + size[root]
    filled = _append(order, first, last, moved, filled)
    node, up, inside = root, above, np.uint64(0)
    while True:
        # Reversed path: each node takes its child as new parent,
        # with the child's old flow, and a size without that child's.
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
    # Close the old gap and open a new one directly behind the new parent.
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
    # In the new order parents come first, so one pass sets all potentials.
    for t in range(count):
        node = moved[t]
        up = parent[node]
        order[at + t] = node
        place[node] = at + t
        potential[node] = C[min(node, up), max(node, up) - rows] - potential[up]  # no branch: rows come before columns


@part
def _append(order, first, last, moved, filled):
    """Append a segment of the preorder to the copied ones; returns their total length."""
    for t in range(first, last):
        moved[filled] = order[t]
        filled += np.uint64(1)
    return filled


@kernel
def plant_preorder(cells, flows, C, tree):
    """Build a tree rooted at row 0 from basis arcs and set the potentials."""
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
            # The root is its own parent, hence the test for t == 0.
            if t == 0 or other != parent[node]:
                parent[other] = node
                tree.flow[other] = flows[edge >> np.uint64(1)]
                tree.potential[other] = C[min(node, other), max(node, other) - rows] - tree.potential[node]
                stack[top] = other
                top += 1
            edge = link[edge]
    # Sizes from the leaves: in reverse preorder children come before parents.
    for t in range(total - 1, 0, -1):
        size[parent[order[t]]] += size[order[t]]


@part
def write_basis(tree, n, m, cells, flows):
    """The arcs of the tree, as local cells with their flows."""
    for node in range(1, n + m):
        above = np.int64(tree.parent[node])
        cells[node - 1] = node * m + above - n if node < n else above * m + node - n
        flows[node - 1] = tree.flow[node]
