"""Exact transport for pairs whose supports are wide: the loop over pairs, and what one pair hands to the next.

Pairs come in an order that keeps y for as long as possible, so the columns stay the same and their prices are worth
handing on; where both supports are the last pair's, so is the matrix of costs. Everything that is proved about a pair
is as in `bellman.transport`: the start of the simplex decides how many pivots it takes, not whether the end is optimal.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from somcot.bellman.peel import MOST, new_crash, peel
from somcot.bellman.preorder import (
    LANES,
    filled_up,
    new_preorder,
    pivot_until_optimal,
    plant_preorder,
    transpose,
    write_basis,
)
from somcot.bellman.transport import EPS, bounds_of_plan, gather, power_of, widest
from somcot.bellman.tree import greedy_basis
from somcot.plumbing.jit import kernel, part
from somcot.plumbing.vector_code import bits, unbits

__all__ = ["GREEDY", "LAST", "PEEL", "WIDE", "optimise_wide"]

WIDE = 8  # rows and columns from which on this simplex is the faster one; loops over eight columns rely on it
LAST, GREEDY, PEEL = 0, 1, 2  # start from the last basis where there is one (else peel), or from a new one


@kernel(name="exact transport between wide supports", seconds=4, shared=True)
def optimise_wide(todo, V, pair_x, pair_y, x, y, unit, bases, hints, start, given, low, high, values):
    """Solve the transport problems of the pairs `todo` against V; see `transport.optimise`.

    New bases are made from prices of the columns: those of the pair's basis in `hints`, else row t of `given` for pair
    ``todo[t]``, (len(todo), V.shape[1]) or empty, else those of the pair before. Returns how many bases changed, and
    the number of pivots.
    """
    rows, columns = widest(todo, pair_x, x), widest(todo, pair_y, y)
    tree, crash = new_preorder(rows + columns), new_crash(rows + columns)
    buffer, across = np.zeros(rows * columns + LANES), np.zeros((rows + LANES) * columns, np.float32)
    chosen = np.empty(V.shape[0] * columns)
    prices, column_prices = np.zeros(V.shape[1]), np.empty(columns)
    shift = power_of(unit)
    changed, pivots = 0, 0
    spread, turned, kept = 0.0, False, -1
    for t in range(todo.size):
        k = todo[t]
        x0, x1 = x.indptr[pair_x[k]], x.indptr[pair_x[k] + 1]
        y0, y1 = y.indptr[pair_y[k]], y.indptr[pair_y[k] + 1]
        n, m = x1 - x0, y1 - y0
        cells = bases.cells[bases.ptr[k] : bases.ptr[k + 1]]
        flows = bases.flows[bases.ptr[k] : bases.ptr[k + 1]]
        own, others = x.indices[x0:x1], y.indices[y0:y1]
        base = V[own[0], others[0]]
        length = filled_up(n)
        C, T = buffer[: n * m].reshape(n, m), across[: m * length].reshape(m, length)
        if t == 0 or not (_same(x, pair_x[todo[t - 1]], pair_x[k]) and _same(y, pair_y[todo[t - 1]], pair_y[k])):
            ahead = t + 2 * V.shape[0] // n
            if kept != pair_y[k] and ahead < todo.size and pair_y[todo[ahead]] == pair_y[k]:
                kept = pair_y[k]
                _choose_columns(V, others, chosen)
            near = kept == pair_y[k]
            spread = _gather(buffer, chosen, own, m, base) if near else gather(C, V, own, others, base)
            turned = False
        tolerance = EPS * (n + m + 8) * spread
        fresh = bases.known[k] == 0 or start != LAST
        if fresh:
            v = column_prices[:m]
            if hints.known[k] == 1 and bases.known[k] == 0:
                arcs = slice(hints.ptr[k], hints.ptr[k + 1])
                plant_preorder(hints.cells[arcs], hints.flows[arcs], C, tree)
                for j in range(m):
                    v[j] = tree.potential[n + j]
            else:
                for j in range(m):
                    v[j] = prices[others[j]] if given.shape[0] == 0 else given[t, others[j]]
            if start == GREEDY or n + m > MOST:
                greedy_basis(C, x.masses[x0:x1], y.masses[y0:y1], unit, v, cells, flows)
            else:
                if not turned:
                    transpose(C, T)
                    turned = True
                peel(C, buffer, T, x.masses[x0:x1], y.masses[y0:y1], unit, v, cells, flows, crash)
        plant_preorder(cells, flows, C, tree)
        count = pivot_until_optimal(C, buffer, T, turned, tolerance, tree)
        turned = turned or count > 0
        if count > 0:
            write_basis(tree, n, m, cells, flows)
        changed += count > 0 or fresh
        pivots += count
        bases.known[k] = 1
        for j in range(m):
            prices[others[j]] = tree.potential[n + j]
        low[k], high[k], values[k] = bounds_of_plan(
            C, cells, flows, shift, x, pair_x[k], y, pair_y[k], tree.potential, base, spread
        )
    return changed, pivots


@part
def _same(rows, before, now):
    """Whether two rows have the same support."""
    begin, other = rows.indptr[now], rows.indptr[before]
    length = rows.indptr[now + 1] - begin
    if rows.indptr[before + 1] - other != length:
        return False
    differing = 0
    for t in range(length):
        differing += rows.indices[begin + t] != rows.indices[other + t]
    return differing == 0


@part
def _choose_columns(V, columns, chosen):
    """Copy columns of V next to each other; worth it if many pairs follow that need rows of them."""
    m = columns.size
    for i in range(V.shape[0]):
        for j in range(m):
            chosen[i * m + j] = V[i, np.uint32(columns[j])]


@part(nan=True)
def _gather(costs, chosen, own, m, base):
    """As `transport.gather`, from chosen columns: the rows `own` less the base, into `costs`; returns their spread.

    The extremes are taken over whole numbers, as in `preorder`: positive floats have the order of their bits.
    """
    above, below = np.int64(0), np.int64(0)
    for i in range(own.size):
        row, begin = costs[i * m : i * m + m], np.int64(own[i]) * m
        for j in range(m):
            row[j] = chosen[begin + j] - base
        for j in range(m):
            above = max(above, bits(row[j]))
            below = max(below, bits(-row[j]))
    return unbits(above) + unbits(below)
