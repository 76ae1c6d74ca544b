"""Initial bases and initial prices for wide transport problems; prices come from entropic transport.

With the optimal prices of the columns, and rows priced by their cheapest cell, all arcs of the optimal basis have
reduced cost 0, the minimum. A basis that takes cheap cells in the order of the rows still misses most of those arcs,
because flows are determined from the leaves inwards. So Prim's algorithm builds the minimum spanning tree of the
reduced costs, and its leaves are closed one after the other, each over the arc to its parent. A line with too little
mass for its leaf closes first and leaves the leaf open; open lines are finally filled row by row, cheapest column
first.

Every arc closes exactly one line, because the perturbed masses never empty two lines simultaneously except the last
two. So there are n + m - 1 arcs without a cycle: a basis for any prices. Poor prices only cost additional pivots.

The entropic problems of all pairs share one kernel, exp(-V / eps), so a step of all of them is

    u = p / (K v),    v = q / (K^T u),

one row of u and v for each pair. eps is halved repeatedly, down to a small share of the range of the costs; the
prices are then g = eps log v. The mean of the prices over the pairs is moved into the kernel before eps changes, so
that u and v contain only the differences between pairs and stay within the range of float32.

Prices only determine where the simplex starts, so they need not be accurate. They are bit-identical on every machine:
sums have a fixed order, and exponentials and logarithms are the package's own (`compile.simd_math`).
"""
# mypy: disable-error-code="no-untyped-def, assignment"
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.compile.jit import kernel, part
from somcot.compile.simd_math import add_product, exp, log, short_bits
from somcot.core.transport.wide_simplex import LANES, filled_up, row_minima

__all__ = [
    "MOST",
    "Crash",
    "crash_basis",
    "entropic_prices",
    "new_crash",
]


# --- An initial basis from prices: the minimum spanning tree of the reduced costs, filled from its leaves.

MOST = 1 << 20  # rows and columns: their numbers have room in the last bits of a float32

_FAR = np.int32(0x7F000000)  # farther than any arc; its last bits are free for a number
_INSIDE = np.int32(0x7FFFFFFF)  # the distance of nodes that are already in the tree


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
    """Workspace for `size` rows and columns in total."""
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
def crash_basis(C, costs, T, a, b, unit, v, cells, flows, work):
    """Write a basis for the masses a and b (perturbed as in `narrow_simplex`) at column prices v.

    `costs` is the memory of C and T its transpose, as in `wide_simplex.pivot_until_optimal`.
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
    # In reverse order of joining: a node's children in the tree are closed before the node itself.
    for t in range(n + m - 1, 0, -1):
        node = np.int64(work.joined[t])
        above = np.int64(work.source[node])
        i, j = (node, above - first) if node < first else (above, node - first)
        # Skipped if one of the two lines is closed already: its arc would carry no mass.
        if left[i] > 0 and left[n + j] > 0:
            count = _fill(i, j, n, m, left, cells, flows, count)
    _fill_open(C, v, work, cells, flows, count)


@part(nan=True)
def _span(costs, T, n, v, work):
    """Prim's algorithm from row 0: `joined` and `source`.

    Distances are compared as integers, which have the order of the positive floats with the same bits. Their last bits
    are the number of the node, so that one minimum yields both. For any costs, every node joins once.
    """
    m, first = T.shape
    total = first + filled_up(m)
    prices, closed, distance, source = (
        work.prices[:total],
        work.closed[:total],
        work.distance[:total],
        work.source[:total],
    )
    # The smallest 2^k - 1 that holds every number: these low bits of a distance are replaced by the node.
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
        # Until an arc is offered, the source is a node of the other
        # side, so that even then the arc is a cell of the matrix.
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
    """Update the distances of the other side with the arcs of a node that has just joined."""
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
    """Assign as much mass as possible to cell (i, j)."""
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
        # The last arc empties its row and its column together, and `count` ends the loop.
        while left[i] > 0 and count < n + m - 1:
            best, k = np.inf, 0
            for c in range(n_columns):
                reduced = C[i, columns[c]] - v[columns[c]]
                if reduced < best:
                    best, k = reduced, c
            j = columns[k]
            count = _fill(i, j, n, m, left, cells, flows, count)
            # Removed by exchange with the last one; the order of open columns does not matter.
            if left[n + j] == 0:
                n_columns -= 1
                columns[k] = columns[n_columns]


# --- Initial prices from entropic transport, two matrix products per step for all pairs.

_FINAL = 8.0  # the last eps is the range of the costs divided by this times the number of columns
_FIRST = 50.0  # the first eps is at most the range divided by this
_STEPS = 10  # at each eps
_TINY = 1e-37  # about the smallest normal float32
_REACH = 35.0  # prices may differ by this many eps when eps is halved


@kernel(name="prices of wide transport problems", seconds=1)
def entropic_prices(V, p, q):
    """Column prices, (n_pairs, columns), for rows p and columns q of probabilities, one for each pair; all float32."""
    rows, columns = V.shape
    pairs = p.shape[0]
    common = np.empty(columns)
    scale = _reduce_costs(V, common)
    g, u, v = np.zeros((pairs, columns)), np.empty_like(p), np.empty_like(q)
    K, T = np.empty((rows, columns), np.float32), np.empty((columns, rows), np.float32)
    final = scale / (_FINAL * columns)
    level = 1
    # The number of halvings: eps starts at no more than range / 50 and ends at `final`.
    while _FIRST * 2.0 ** (level + 1) <= _FINAL * columns:
        level += 1
    while level >= 0 and scale > 0.0:
        eps = final * 2.0**level
        _fill_kernel(V, common, eps, K, T)
        for k in range(pairs):
            # Warm start from the prices of the previous eps; columns outside the support have no mass and weight 0.
            for j in range(columns):
                v[k, j] = np.float32(exp(g[k, j] / eps)) if q[k, j] > 0.0 else np.float32(0.0)
        for _ in range(_STEPS):
            _scale(p, v, T, u)
            _scale(q, u, K, v)
        _read_off(q, v, eps, g)
        if level > 0:
            _move_common(q, g, common, _REACH * eps)
        level -= 1
    prices = np.empty(q.shape, np.float32)
    for k in range(pairs):
        for j in range(columns):
            prices[k, j] = g[k, j] + common[j]
    return prices


@part
def _reduce_costs(V, common):
    """Prices that leave a 0 in every row and column of V where possible; returns the range of the remainder."""
    rows, columns = V.shape
    common[:] = np.inf
    scale = 0.0
    # As in the Hungarian method: subtract row minima, then column
    # minima. It makes exp(-V / eps) least prone to underflow.
    for i in range(rows):
        least = _least(V[i])
        for j in range(columns):
            common[j] = min(common[j], V[i, j] - least)
    for i in range(rows):
        least = _least(V[i])
        for j in range(columns):
            scale = max(scale, V[i, j] - least - common[j])
    return scale


@part
def _least(row):
    least = row[0]
    for j in range(1, row.size):
        least = min(least, row[j])
    return least


@part
def _fill_kernel(V, common, eps, K, T):
    """K = exp(-(V - common) / eps), each row relative to its largest entry, and its transpose."""
    rows, columns = V.shape
    for i in range(rows):
        least = V[i, 0] - common[0]
        for j in range(1, columns):
            least = min(least, V[i, j] - common[j])
        for j in range(columns):
            value = exp((least - V[i, j] + common[j]) / eps)
            # Denormals are slow on many processors and carry no information here.
            K[i, j] = value if value > _TINY else 0.0
        for j in range(columns):
            T[j, i] = K[i, j]


@part
def _scale(wanted, scaling, K, out):
    """Write wanted / (scaling K) to `out`."""
    tiny = np.float32(_TINY)
    out[:] = np.float32(0.0)
    add_product(out, scaling, K)
    for k in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[k, j] = wanted[k, j] / max(out[k, j], tiny)  # a row without any reachable column keeps a finite scaling


@part
def _read_off(q, v, eps, g):
    """Set g = eps log v, with mean 0 over the support of each pair."""
    for k in range(g.shape[0]):
        total, count = 0.0, 0
        for j in range(g.shape[1]):
            g[k, j] = eps * log(max(float(v[k, j]), _TINY))
            if q[k, j] > 0.0:
                total += g[k, j]
                count += 1
        mean = total / max(count, 1)
        # Prices are unique up to a constant per pair: without centring, `common` would collect the constants.
        for j in range(g.shape[1]):
            g[k, j] -= mean


@part
def _move_common(q, g, common, reach):
    """Move the mean over the pairs from g to `common`, and clip the remainder."""
    for j in range(g.shape[1]):
        total, count = 0.0, 0
        for k in range(g.shape[0]):
            if q[k, j] > 0.0:
                total += g[k, j]
                count += 1
        mean = total / max(count, 1)
        common[j] += mean
        for k in range(g.shape[0]):
            # Clipped so that exp(g / eps) stays within float32 after eps is halved (35 * 2 < 88).
            g[k, j] = min(max(g[k, j] - mean, -reach), reach)
