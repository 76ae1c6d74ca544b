"""Exact optimal transport between two rows of probabilities, for many pairs of rows.

The problem of a pair (x, y) is to transport P(.|x) to Q(.|y) at minimal cost, where the joint step to (x', y') costs
V(x', y'). Only successors with positive probability (the two supports) are included.

Single rows and columns and 2-by-2 problems have closed forms. All others are solved by the transportation simplex of
`narrow_simplex`, which starts from the pair's last basis and uses integer masses.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.compile.jit import kernel, part
from somcot.compile.simd_math import copy_to
from somcot.core.transport.narrow_simplex import build_tree, new_tree, simplex
from somcot.plumbing.arrays import Floats

__all__ = [
    "EPS", "Bases", "Rows", "add_potentials", "balance", "bounds_of_plan", "gather", "kernel_entries",
    "optimise", "power_of", "rounded", "widest",
]  # fmt: skip

EPS = np.finfo(np.float64).eps


class Rows(NamedTuple):
    """Rows of probabilities on their supports (CSR), as floats and as integer masses.

    The exact rows are the floats divided by their exact sums. For each row, ``excess`` bounds the difference of that
    sum from 1, and ``rounding`` bounds the total variation between the exact row and its integer masses.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    probabilities: Floats
    masses: NDArray[np.int64]
    excess: Floats
    rounding: Floats


class Bases(NamedTuple):
    """A basis of the transport problem of every pair.

    Arcs ``ptr[k]:ptr[k + 1]`` belong to pair k: the local cell ``i * columns + j`` and its integer flow. Valid once
    ``known[k]`` is 1.
    """

    ptr: NDArray[np.int64]
    cells: NDArray[np.int32]
    flows: NDArray[np.int64]
    known: NDArray[np.uint8]


@kernel(name="exact transport", seconds=3, shared=True)
def optimise(todo, V, pair_x, pair_y, x, y, unit, bases, hints, low, high, values):
    """Solve the transport problems of the pairs `todo` against the cost V, each from its last basis.

    A pair without a basis starts from the prices of its basis in `hints`, which has the same entries with other masses,
    or else from those of the previous pair. ``values[k]`` receives the cost of the plan, ``low[k]`` and ``high[k]``
    bounds of the optimal value that hold up to the rounding of one sum of the size of V (see `somcot.certificates`).
    Returns the number of changed bases.
    """
    rows, columns = widest(todo, pair_x, x), widest(todo, pair_y, y)
    work = new_tree(rows + columns), np.empty(rows * columns), np.zeros(columns)
    return _optimise_each(todo, V, pair_x, pair_y, x, y, unit, bases, hints, low, high, values, work)


@kernel
def _optimise_each(todo, V, pair_x, pair_y, x, y, unit, bases, hints, low, high, values, work):
    """`optimise` with given work arrays.

    A function that makes no arrays is compiled without reference counts, which took a quarter of the time of narrow
    problems.
    """
    tree, buffer, prices = work
    shift = power_of(unit)
    changed = 0
    for k in todo:
        x0, x1 = x.indptr[pair_x[k]], x.indptr[pair_x[k] + 1]
        y0, y1 = y.indptr[pair_y[k]], y.indptr[pair_y[k] + 1]
        n, m = x1 - x0, y1 - y0
        cells = bases.cells[bases.ptr[k] : bases.ptr[k + 1]]
        flows = bases.flows[bases.ptr[k] : bases.ptr[k + 1]]
        # Costs relative to one entry: rounding then scales with their range, not with the size of V.
        base = V[x.indices[x0], y.indices[y0]]
        C = buffer[: n * m].reshape(n, m)
        spread = gather(C, V, x.indices[x0:x1], y.indices[y0:y1], base)
        eps = EPS * (n + m + 8)
        a, b = x.masses[x0:x1], y.masses[y0:y1]
        # A single row or column has only one plan: the other row itself.
        if n == 1 or m == 1:
            p, q = x.probabilities[x0:x1], y.probabilities[y0:y1]
            excess = x.excess[pair_x[k]] + y.excess[pair_y[k]]
            # `known` stays 1 from the first sweep on, so later sweeps only compute the value.
            changed += _only_plan(a, b, unit, cells, flows) if bases.known[k] == 0 else 0
            bases.known[k] = 1
            value = 0.0
            for t in range(n + m - 1):
                value += (p[t] if m == 1 else q[t]) * buffer[t]
            values[k] = base + value
            low[k] = base + (value - (eps + excess) * spread)
            high[k] = base + (value + (eps + excess) * spread)
            continue
        if n == 2 and m == 2:
            moved = _two_by_two(C, a, b, unit, eps * spread, cells, flows, bases.known[k])
        else:
            if bases.known[k] == 0 and hints.known[k] == 1:
                # The prices of the hinted basis for the present costs;
                # its flows belong to other masses and are not used.
                arcs = slice(hints.ptr[k], hints.ptr[k + 1])
                build_tree(hints.cells[arcs], hints.flows[arcs], C, tree)
                copy_to(prices, tree.potential[n : n + m])
            moved = simplex(C, a, b, unit, eps * spread, cells, flows, bases.known[k], prices, tree)
        changed += moved > 0
        bases.known[k] = 1
        low[k], high[k], values[k] = bounds_of_plan(
            C, cells, flows, shift, x, pair_x[k], y, pair_y[k], tree.potential, base, spread
        )
    return changed


@part
def power_of(unit):
    """The exponent of a power of two: a shift replaces a division, in a tenth of the time."""
    shift = np.int64(0)
    while unit >> shift > 1:
        shift += 1
    return shift


@part
def rounded(flow, shift):
    """A flow in whole units of mass, without its perturbation."""
    return (flow + ((np.int64(1) << shift) >> 1)) >> shift


@part(nan=True)
def bounds_of_plan(C, cells, flows, shift, x, row, y, column, potential, base, spread):
    """Bounds of the optimal value and the cost of the plan, see `optimise`; 2 by 2 needs no potentials.

    Indices are unsigned: for signed ones Numba adds a test for negative values.
    """
    n, m = C.shape
    eps = EPS * (n + m + 8)
    width = np.uint64(m)
    value = 0.0
    total = 0.0
    for t in range(n + m - 1):
        mass = rounded(flows[t], shift)
        cell = np.uint64(cells[t])
        i = cell // width
        value += mass * C[i, cell - i * width]
        total += mass
    # Divided by the sum of the same floats, so that the weights sum to 1 although large masses are rounded.
    value /= total
    # Moving the total variation between integer masses and exact rows costs at most that mass times the range.
    width = (eps + x.rounding[row] + y.rounding[column]) * spread
    if n == 2 and m == 2:
        # The closed form is optimal by construction, so the value
        # itself bounds from below; otherwise weak duality does.
        below = value - width
    else:
        p = x.probabilities[x.indptr[row] : x.indptr[row + 1]]
        q = y.probabilities[y.indptr[column] : y.indptr[column + 1]]
        below = _dual_value(p, q, potential, eps + x.excess[row] + y.excess[column])
    # The lower bound comes from the dual and the upper from the
    # plan, so their difference also shows failures of the simplex.
    return base + (below - eps * spread), base + (value + width), base + value


@kernel
def _dual_value(p, q, potential, relative):
    """Dual value of the potentials for the marginals p and q, minus `relative` times the largest potential."""
    value = 0.0
    reach = 0.0
    for i in range(p.size):
        value += p[i] * potential[i]
        reach = max(reach, abs(potential[i]))
    for j in range(q.size):
        value += q[j] * potential[p.size + j]
        reach = max(reach, abs(potential[p.size + j]))
    return value - relative * reach


@kernel
def widest(todo, pair, rows):
    """The largest support among one side's rows of the pairs `todo`."""
    width = 1
    for k in todo:
        width = max(width, rows.indptr[pair[k] + 1] - rows.indptr[pair[k]])
    return width


@kernel
def _workspace(pair_x, pair_y, x, y):
    """A tree and a cost matrix large enough for every pair."""
    todo = range(pair_x.size)
    rows, columns = widest(todo, pair_x, x), widest(todo, pair_y, y)
    return new_tree(rows + columns), np.empty(rows * columns)


@kernel
def kernel_entries(pair_x, pair_y, x, y, unit, bases, index, indptr, indices, data):
    """Write the transition coupling of every pair as CSR rows over pairs.

    Arcs with less mass than the rounding of the row are omitted, which also excludes successors of probability 0.
    """
    # Masses are at most 2^61 / unit; arcs below eps of that are artefacts of masses rounded up to 1.
    rounding = np.int64((1 << 61) // unit * EPS)
    shift = power_of(unit)
    one = np.uint64(1)
    filled = np.uint64(0)
    for k in range(pair_x.size):
        x0, y0 = np.uint64(x.indptr[pair_x[k]]), np.uint64(y.indptr[pair_y[k]])
        m = np.uint64(y.indptr[pair_y[k] + 1]) - y0
        begin = filled
        total = 0.0
        for t in range(np.uint64(bases.ptr[k]), np.uint64(bases.ptr[k + 1])):
            mass = rounded(bases.flows[t], shift)
            if mass > rounding:
                cell = np.uint64(bases.cells[t])
                i = cell // m
                j = cell - i * m
                indices[filled] = index[np.uint32(x.indices[x0 + i]), np.uint32(y.indices[y0 + j])]
                data[filled] = mass
                total += mass
                filled += one
        for t in range(begin, filled):
            data[t] /= total
        indptr[k + 1] = filled


@kernel
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
        gather(C, V, x.indices[x0:x1], y.indices[y0:y1], V[x.indices[x0], y.indices[y0]])
        arcs = slice(bases.ptr[k], bases.ptr[k + 1])
        build_tree(bases.cells[arcs], bases.flows[arcs], C, tree)
        for i in range(n):
            slots_x[x0 + i] += weight[k] * tree.potential[i]
        for j in range(m):
            slots_y[y0 + j] += weight[k] * tree.potential[n + j]


@kernel
def balance(indptr, probabilities, masses, total, excess, rounding):
    """Add the remainder to `total` to the largest mass of every row, and bound the resulting error.

    ``excess[row]`` bounds the difference of the sum of the floats from 1 and ``rounding[row]`` the total variation
    between masses / total and floats / sum. The sum is compensated (Ogita, Rump, Oishi 2005, Sum2: error at most u sum
    + (n u)^2 sum, with u = eps / 2), so its error is negligible even in rows with millions of entries.
    """
    for row in range(indptr.size - 1):
        begin, end = indptr[row], indptr[row + 1]
        left = total
        largest = begin
        for t in range(begin, end):
            left -= masses[t]
            if masses[t] > masses[largest]:
                largest = t
        # At least 1 must remain (see `integer_rows`), also where many tiny masses were rounded up.
        taken = max(left, 1 - masses[largest])
        masses[largest] += taken
        left -= taken
        for t in range(begin, end):  # in rows with millions of entries the remainder may exceed the largest mass
            taken = max(left, 1 - masses[t])
            masses[t] += taken
            left -= taken
        summed = 0.0
        lost = 0.0
        apart = 0.0
        for t in range(begin, end):
            p = probabilities[t]
            following = summed + p
            # The rounding error of each addition, exactly (two-sum for ordered operands).
            lost += (summed - following) + p if summed >= p else (p - following) + summed
            summed = following
            apart += abs(p - masses[t] / total)
        length = end - begin
        excess[row] = abs((summed - 1.0) + lost) + 2.0 * EPS + (length * EPS) ** 2
        rounding[row] = 0.5 * (apart * (1.0 + length * EPS) + excess[row]) + EPS


@kernel
def gather(C, V, rows, columns, base):
    """C(i, j) = V(rows[i], columns[j]) - base; returns the range of C."""
    for i in range(rows.size):
        row = np.uint32(rows[i])
        for j in range(columns.size):
            C[i, j] = V[row, np.uint32(columns[j])] - base
    return _spread(C)


@part
def _spread(C):
    """The range of the entries and 0."""
    # Includes 0, which is the entry that serves as the base.
    smallest = 0.0
    largest = 0.0
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            smallest = min(smallest, C[i, j])
            largest = max(largest, C[i, j])
    return largest - smallest


@kernel
def _only_plan(a, b, unit, cells, flows):
    """The unique plan of a single row or column."""
    for t in range(cells.size):
        cells[t] = t
        flows[t] = unit * (a[t] if b.size == 1 else b[t])
    return 1


@kernel
def _two_by_two(C, a, b, unit, tolerance, cells, flows, known):
    """Fill the diagonal or the antidiagonal, whichever is cheaper; ties keep the last plan."""
    gain = C[0, 0] + C[1, 1] - C[0, 1] - C[1, 0]
    column = 0 if gain <= 0.0 else 1  # the column that row 0 prefers
    if known and (cells[0] == column or abs(gain) <= tolerance):
        return 0
    # The preferred cell takes as much as its row and column
    # allow; the rest goes into the other cell of the longer line.
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
