"""Exact optimal transport between two rows of probabilities, for many pairs of rows at once.

The problem of a pair (x, y) is to move P(.|x) onto Q(.|y) at the least cost, where going to x' and y' together costs
V(x', y'). Only successors with positive probability (the two supports) take part.

Method: the transportation simplex on a rooted spanning tree. With potentials such that C(i, j) = u(i) + v(j) on the
arcs of the tree, a cell with C(i, j) < u(i) + v(j) enters and the arc of its cycle that empties first leaves.

Masses are integers, at least 1 each. Row i carries ``unit * a[i] + 1``, column j carries ``unit * b[j]`` and the last
column the sum of the ones as well (Orden's perturbation; unit > 2 * rows). The surplus of a subtree is then
``unit * k + e`` with e between -rows and rows, and never 0, so no basis is degenerate: every pivot moves at least one
unit of mass and strictly lowers the cost, no basis comes back, and the method ends, ties and uniform rows included.
Rounding a flow to a multiple of ``unit`` removes the perturbation exactly. A reduced cost counts as negative below
``-tolerance``, which exceeds the rounding error of every path sum in the tree.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from somcot.validation import Floats

__all__ = ["Bases", "Rows", "add_potentials", "balance", "cross_gap", "kernel_entries", "optimise"]

_EPS = np.finfo(np.float64).eps


class Rows(NamedTuple):
    """Rows of probabilities on their supports (CSR), as floats and as integer masses."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    probabilities: Floats
    masses: NDArray[np.int64]


class Bases(NamedTuple):
    """A basis of the transport problem of every pair.

    Arcs ``ptr[k]:ptr[k + 1]`` belong to pair k: the local cell ``i * columns + j`` and its integer flow. Meaningful
    once ``known[k]`` is 1.
    """

    ptr: NDArray[np.int64]
    cells: NDArray[np.int32]
    flows: NDArray[np.int64]
    known: NDArray[np.uint8]


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


@njit(cache=True, nogil=True)
def optimise(lo, hi, V, pair_x, pair_y, x, y, unit, bases, low, high):
    """Solve the transport problems of pairs lo..hi-1 against the cost V, each from its last basis.

    ``low[k]`` and ``high[k]`` receive a dual lower and a primal upper bound of the optimal value, equal up to
    rounding. Returns how many bases changed.
    """
    tree, buffer = _workspace(pair_x[lo:hi], pair_y[lo:hi], x, y)
    prices = np.zeros(buffer.size)
    changed = 0
    for k in range(lo, hi):
        x0, x1 = x.indptr[pair_x[k]], x.indptr[pair_x[k] + 1]
        y0, y1 = y.indptr[pair_y[k]], y.indptr[pair_y[k] + 1]
        n, m = x1 - x0, y1 - y0
        cells = bases.cells[bases.ptr[k] : bases.ptr[k + 1]]
        flows = bases.flows[bases.ptr[k] : bases.ptr[k + 1]]
        # Costs relative to one entry: rounding then follows their spread, not the size of V.
        base = V[x.indices[x0], y.indices[y0]]
        C = buffer[: n * m].reshape(n, m)
        spread = _gather(C, V, x.indices[x0:x1], y.indices[y0:y1], base)
        tolerance = _EPS * (n + m + 8) * spread
        a, b = x.masses[x0:x1], y.masses[y0:y1]
        if n == 1 or m == 1:
            moved = _only_plan(a, b, unit, cells, flows) if bases.known[k] == 0 else 0
        elif n == 2 and m == 2:
            moved = _two_by_two(C, a, b, unit, tolerance, cells, flows, bases.known[k])
        else:
            moved = _simplex(C, a, b, unit, tolerance, cells, flows, bases.known[k], prices, tree)
        changed += moved > 0
        bases.known[k] = 1
        value = 0.0
        total = 0.0
        for t in range(n + m - 1):
            mass = (flows[t] + unit // 2) // unit
            value += mass * C[cells[t] // m, cells[t] % m]
            total += mass
        high[k] = base + value / total
        if (n > 2 and m > 1) or (m > 2 and n > 1):
            value = 0.0
            for i in range(n):
                value += x.probabilities[x0 + i] * tree.potential[i]
            for j in range(m):
                value += y.probabilities[y0 + j] * tree.potential[n + j]
            low[k] = base + value - tolerance
        else:
            low[k] = high[k] - tolerance
    return changed


@njit(cache=True, nogil=True)
def cross_gap(V, pair_x, pair_y, x, y, bases, plans, unit, weight):
    """What the plans of one set of bases lose against the potentials of another, summed over pairs with weights.

    The potentials belong to `bases`, which are optimal for V and the probabilities of `x` and `y`; where those are 0
    the potentials are extended as far as they go. Every term is at least 0.
    """
    tree, buffer = _workspace(pair_x, pair_y, x, y)
    gap = 0.0
    for k in range(pair_x.size):
        if weight[k] == 0.0:
            continue
        x0, x1 = x.indptr[pair_x[k]], x.indptr[pair_x[k] + 1]
        y0, y1 = y.indptr[pair_y[k]], y.indptr[pair_y[k] + 1]
        n, m = x1 - x0, y1 - y0
        C = buffer[: n * m].reshape(n, m)
        _gather(C, V, x.indices[x0:x1], y.indices[y0:y1], V[x.indices[x0], y.indices[y0]])
        arcs = slice(bases.ptr[k], bases.ptr[k + 1])
        _plant(bases.cells[arcs], bases.flows[arcs], C, tree)
        _extend(C, x.probabilities[x0:x1], y.probabilities[y0:y1], tree.potential)
        loss = 0.0
        total = 0.0
        for t in range(plans.ptr[k], plans.ptr[k + 1]):
            i, j = plans.cells[t] // m, plans.cells[t] % m
            mass = (plans.flows[t] + unit // 2) // unit
            loss += mass * max(C[i, j] - tree.potential[i] - tree.potential[n + j], 0.0)
            total += mass
        gap += weight[k] * loss / total
    return gap


@njit(cache=True, nogil=True)
def _extend(C, p, q, potential):
    """Potentials of rows without mass from the columns with mass, then of columns without mass from all rows."""
    n, m = C.shape
    for i in range(n):
        if p[i] == 0.0:
            least = np.inf
            for j in range(m):
                if q[j] > 0.0:
                    least = min(least, C[i, j] - potential[n + j])
            potential[i] = least
    for j in range(m):
        if q[j] == 0.0:
            least = np.inf
            for i in range(n):
                least = min(least, C[i, j] - potential[i])
            potential[n + j] = least


@njit(cache=True, nogil=True)
def _workspace(pair_x, pair_y, x, y):
    """A tree and a cost matrix large enough for every pair."""
    widest_x, widest_y = 1, 1
    for k in range(pair_x.size):
        widest_x = max(widest_x, x.indptr[pair_x[k] + 1] - x.indptr[pair_x[k]])
        widest_y = max(widest_y, y.indptr[pair_y[k] + 1] - y.indptr[pair_y[k]])
    return _new_tree(widest_x + widest_y), np.empty(widest_x * widest_y)


@njit(cache=True, nogil=True)
def kernel_entries(pair_x, pair_y, x, y, unit, bases, index, indptr, indices, data):
    """Write the transition coupling of every pair as CSR rows over pairs.

    Arcs with less mass than the rounding of the row are left out, which also keeps successors of probability 0 out.
    """
    rounding = np.int64((1 << 61) // unit * _EPS)
    filled = 0
    for k in range(pair_x.size):
        x0, y0 = x.indptr[pair_x[k]], y.indptr[pair_y[k]]
        m = y.indptr[pair_y[k] + 1] - y0
        begin = filled
        total = 0.0
        for t in range(bases.ptr[k], bases.ptr[k + 1]):
            mass = (bases.flows[t] + unit // 2) // unit
            if mass > rounding:
                i, j = bases.cells[t] // m, bases.cells[t] % m
                indices[filled] = index[x.indices[x0 + i], y.indices[y0 + j]]
                data[filled] = mass
                total += mass
                filled += 1
        for t in range(begin, filled):
            data[t] /= total
        indptr[k + 1] = filled


@njit(cache=True, nogil=True)
def add_potentials(V, pair_x, pair_y, x, y, bases, weight, slots_x, slots_y):
    """Add weight[k] times the transport potentials of pair k to the slots of its two rows."""
    tree, buffer = _workspace(pair_x, pair_y, x, y)
    for k in range(pair_x.size):
        if weight[k] == 0.0:
            continue
        x0, x1 = x.indptr[pair_x[k]], x.indptr[pair_x[k] + 1]
        y0, y1 = y.indptr[pair_y[k]], y.indptr[pair_y[k] + 1]
        n, m = x1 - x0, y1 - y0
        C = buffer[: n * m].reshape(n, m)
        _gather(C, V, x.indices[x0:x1], y.indices[y0:y1], V[x.indices[x0], y.indices[y0]])
        arcs = slice(bases.ptr[k], bases.ptr[k + 1])
        _plant(bases.cells[arcs], bases.flows[arcs], C, tree)
        for i in range(n):
            slots_x[x0 + i] += weight[k] * tree.potential[i]
        for j in range(m):
            slots_y[y0 + j] += weight[k] * tree.potential[n + j]


@njit(cache=True, nogil=True)
def balance(indptr, masses, total):
    """Let the largest mass of every row take what the row lacks of `total`."""
    for row in range(indptr.size - 1):
        left = total
        largest = indptr[row]
        for t in range(indptr[row], indptr[row + 1]):
            left -= masses[t]
            if masses[t] > masses[largest]:
                largest = t
        masses[largest] += left


@njit(cache=True, nogil=True)
def _new_tree(size):
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


@njit(cache=True, nogil=True)
def _gather(C, V, rows, columns, base):
    """C(i, j) = V(rows[i], columns[j]) - base; returns the spread of C."""
    smallest = 0.0
    largest = 0.0
    for i in range(rows.size):
        for j in range(columns.size):
            value = V[rows[i], columns[j]] - base
            C[i, j] = value
            smallest = min(smallest, value)
            largest = max(largest, value)
    return largest - smallest


@njit(cache=True, nogil=True)
def _only_plan(a, b, unit, cells, flows):
    """A single row or column: there is nothing to choose."""
    for t in range(cells.size):
        cells[t] = t
        flows[t] = unit * (a[t] if b.size == 1 else b[t])
    return 1


@njit(cache=True, nogil=True)
def _two_by_two(C, a, b, unit, tolerance, cells, flows, known):
    """The diagonal or the counter-diagonal takes all it can, whichever is cheaper; ties keep the last plan."""
    gain = C[0, 0] + C[1, 1] - C[0, 1] - C[1, 0]
    column = 0 if gain <= 0.0 else 1  # the column that row 0 prefers
    if known and (cells[0] == column or abs(gain) <= tolerance):
        return 0
    excess = a[0] - b[column]
    cells[0] = column
    cells[1] = 3 - column
    if excess >= 0:
        cells[2] = 1 - column
        flows[0] = unit * b[column]
        flows[1] = unit * a[1]
        flows[2] = unit * excess
    else:
        cells[2] = 2 + column
        flows[0] = unit * a[0]
        flows[1] = unit * b[1 - column]
        flows[2] = -unit * excess
    return 1


@njit(cache=True, nogil=True)
def _simplex(C, a, b, unit, tolerance, cells, flows, known, prices, tree):
    """The general case; returns the number of pivots, or 1 for a new basis that needed none."""
    n, m = C.shape
    if not known:
        _greedy_basis(C, a, b, unit, prices[:m], cells, flows)
    _plant(cells, flows, C, tree)
    pivots = 0
    clean = 0
    i = 0
    u, v = tree.potential[:n], tree.potential[n : n + m]
    while clean < n:
        least = _row_minimum(C[i], v)
        clean += 1
        if least - u[i] < -tolerance:
            j = 0
            while C[i, j] - v[j] > least:
                j += 1
            _pivot(i, j, C, tree)
            pivots += 1
            clean = 0
        i = i + 1 if i + 1 < n else 0
    # The next pair meets the same costs with other masses: its greedy start uses these prices.
    prices[:m] = v
    if pivots > 0 or not known:
        for node in range(1, n + m):
            above = tree.parent[node]
            cells[node - 1] = node * m + above - n if node < n else above * m + node - n
            flows[node - 1] = tree.flow[node]
        return max(pivots, 1)
    return 0


@njit(cache=True, nogil=True)
def _greedy_basis(C, a, b, unit, prices, cells, flows):
    """A first basis: each row in turn fills its cheapest open columns at the given prices."""
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
            # One of the two always has mass left, except at the very end: m + n - 1 arcs, a spanning tree.
            amount = min(have, need[j])
            cells[count] = i * m + j
            flows[count] = amount
            count += 1
            have -= amount
            need[j] -= amount


@njit(cache=True, nogil=True)
def _plant(cells, flows, C, tree):
    """Turn basis arcs into a tree rooted at row 0 and set the potentials."""
    n, m = C.shape
    size = n + m
    head = tree.work[:size]
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


@njit(cache=True, nogil=True)
def _attach(node, above, amount, tree):
    tree.parent[node] = above
    tree.flow[node] = amount
    tree.after[node] = tree.first[above]
    if tree.first[above] >= 0:
        tree.before[tree.first[above]] = node
    tree.before[node] = -1
    tree.first[above] = node


@njit(cache=True, nogil=True)
def _detach(node, tree):
    if tree.before[node] >= 0:
        tree.after[tree.before[node]] = tree.after[node]
    else:
        tree.first[tree.parent[node]] = tree.after[node]
    if tree.after[node] >= 0:
        tree.before[tree.after[node]] = tree.before[node]


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _row_minimum(row, v):
    least = row[0] - v[0]
    for k in range(1, row.size):
        value = row[k] - v[k]
        least = value if value < least else least
    return least


@njit(cache=True, nogil=True)
def _pivot(i, j, C, tree):
    """Bring cell (i, j) into the tree: send mass round its cycle until an arc empties, and drop that arc."""
    n = C.shape[0]
    parent, flow, depth = tree.parent, tree.flow, tree.depth
    # Going up from row i, arcs that start at a row lose mass; going up from column j, those that start at a column.
    least = np.int64(0x7FFFFFFFFFFFFFFF)
    leaving = -1
    below_row = True
    p, q = i, n + j
    while p != q:
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
        flow[p] += -least if p < n else least
        p = parent[p]
    while q != join:
        flow[q] += -least if q >= n else least
        q = parent[q]
    # Hang the part below the leaving arc onto the other end of the entering one, turning the path over.
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


@njit(cache=True, nogil=True)
def _refresh(root, C, tree):
    """Depths and potentials of a subtree, each from its parent's so that rounding does not pile up."""
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
