"""The marginals of mu, the work of every iteration, and Algorithm 2 around them.

*On all quadruples of states.* With row r = (x, y), a_r = max_x' (A + pm), pm(x') = max_y' W(x', y'), b_r = max_y' B
and any number `ref`, let

    eW(x', y') = exp(W - pm(x')),  eA(r, x') = exp(A + pm - a_r),  eB(r, y') = exp(B - b_r + U + a_r + b_r - ref).

The marginals of mu that the dual step needs (Eqs. 13-15) are then, up to the factor 1 / Z,

    m_X = eA * (eB eW^T),    m_Y = eB * (eA eW),    q = eW * (eA^T eB),

6 n_x^2 n_y^2 flops and n_x n_y (n_x + n_y) exponentials. `ref` is a lower bound of log Z: the largest entry of the row
that was heaviest one step before. Three cases for each row, by s_r = U + a_r + b_r, which bounds all its entries:

* s_r < ref - 50: the mass is negligible;
* s_r < ref + 300: the products are safe, since what exp cuts off at e^-350 is below e^-50 of Z;
* otherwise entries within e^-50 are summed one by one; if one exceeds ref + 300, the sweep is repeated with a new ref.

*On pairs of transitions that occur.* mu(x, y, x', y') is defined where x -> x' and y -> y' are known transitions,
and is uniform at first. In row (x, y) every pair of an edge e of x and an edge f of y has

    log mu = A(r, e) + B(r, f) + W(x'(e), y'(f)) + U(r) - log Z,

|E_X| |E_Y| exponentials for a step, taken over a buffer of many entries. `ref` and repeated sweeps are as above.
`sweep_rows` skips rows without mass; `sweep_all`, with one long vector per edge of X, is for the case that most have.
"""
# mypy: disable-error-code="no-any-return, misc, arg-type, assignment"

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from somcot.compile.jit import kernel, part
from somcot.compile.simd_math import add_product, exp, exp_all, log
from somcot.plumbing.arrays import Floats, Ints, Places
from somcot.solvers.somcot.updates import (
    NEGLIGIBLE,
    SAFE,
    Edges,
    PairSide,
    PairState,
    Rates,
    TraceBuffer,
    candidates,
    mostly,
    note,
    update,
    visit,
)  # fmt: skip

__all__ = [
    "DenseWorkspace", "ObservedWorkspace", "advance_full", "advance_observed", "full_workspace", "observed_workspace",
]  # fmt: skip

# --- mu on all quadruples of states.

BLOCK = 128


class DenseWorkspace(NamedTuple):
    """Scratch arrays of one block of rows."""

    eW: Floats  # (n_x, n_y)
    eWT: Floats  # (n_y, n_x)
    pm: Floats  # (n_x,)
    eA: Floats  # (BLOCK, n_x)
    eB: Floats  # (BLOCK, n_y)
    product_x: Floats  # (BLOCK, n_x)
    product_y: Floats  # (BLOCK, n_y)
    Q: Floats  # (n_x, n_y)
    rows: Ints  # (BLOCK,)


def full_workspace(n_x: int, n_y: int) -> DenseWorkspace:
    """Allocate the scratch arrays."""
    shapes = [(n_x, n_y), (n_y, n_x), (n_x,), (BLOCK, n_x), (BLOCK, n_y), (BLOCK, n_x), (BLOCK, n_y)]
    arrays = [np.zeros(shape) for shape in [*shapes, (n_x, n_y)]]
    return DenseWorkspace._make([*arrays, np.zeros(BLOCK, dtype=np.int64)])


@kernel(name="SOMCOT on all transitions", seconds=5)
def advance_full(
    x: PairSide, y: PairSide, pairs: PairState, rates: Rates, work: DenseWorkspace, mu_sum: Floats, sheet: TraceBuffer,
    states_x: Ints, slots_x: Places, states_y: Ints, slots_y: Places,
) -> None:  # fmt: skip
    """One iteration for each row of the four sample arrays, (n_steps, batch_size)."""
    for i in range(states_x.shape[0]):
        ref = factors(x, y, pairs, rates, work)
        n_active, over = 0, np.inf
        while over > ref:  # twice at most: the second time nothing is above ref
            ref = over if over < np.inf else ref
            n_active, over = sweep_products(x, y, pairs, work, ref)
        Z = pair_laws(pairs, work, n_active)
        if mu_sum.shape[0] > 0:
            add_full_coupling(x, y, pairs, mu_sum, n_active, ref + log(Z))
        update(x, y, pairs, rates, n_active, False, Z, states_x[i], slots_x[i], states_y[i], slots_y[i])
        if pairs.step[0] % sheet.every == 0:
            note(x, y, pairs, rates, sheet)


@part
def factors(x: PairSide, y: PairSide, pairs: PairState, rates: Rates, work: DenseWorkspace) -> float:
    """Fill U, pm, eW and return a lower bound of log Z."""
    eW, eWT, pm, U, cost, flat = work.eW, work.eWT, work.pm, pairs.U, pairs.cost, pairs.W
    (n_x, n_y), W = eW.shape, flat.reshape(eW.shape)
    for i in range(n_x):
        top = -np.inf
        for j in range(n_y):
            top = max(top, W[i, j])
        pm[i] = top
        for j in range(n_y):
            eW[i, j] = exp(W[i, j] - top)
    for i in range(n_x):
        for j in range(n_y):
            eWT[j, i] = eW[i, j]
    inverse, H = 1.0 / rates.discount, pairs.H[0]
    for r in range(n_x * n_y):
        U[r] = -H * cost[r] - flat[r] * inverse
    heavy = pairs.heavy[0]
    visit(x, y, pairs, heavy)
    pairs.bound[heavy] = _largest(x.log.reshape(-1, n_x)[heavy], y.log.reshape(-1, n_y)[heavy], W)
    return U[heavy] + pairs.bound[heavy]


@part
def _largest(A: Floats, B: Floats, W: Floats) -> float:
    """max(A + B + W) of a row, exactly."""
    best = -np.inf
    for i in range(A.shape[0]):
        top = -np.inf
        for j in range(B.shape[0]):
            top = max(top, B[j] + W[i, j])
        best = max(best, A[i] + top)
    return best


@part
def sweep_products(x: PairSide, y: PairSide, pairs: PairState, work: DenseWorkspace, ref: float) -> tuple[int, float]:
    """Masses of all rows that matter; returns their number and the highest entry seen above ref + 300."""
    U, p, bound, active = pairs.U, pairs.p, pairs.bound, pairs.active
    H_at, drift_at, eA, eB, pm, rows = pairs.H_at, pairs.drift_at, work.eA, work.eB, work.pm, work.rows
    (n_x, n_y), H, drift = work.eW.shape, pairs.H[0], pairs.drift[0]
    W, q = pairs.W.reshape(n_x, n_y), pairs.q.reshape(n_x, n_y)
    A, alpha_x, mass_x = x.log.reshape(-1, n_x), x.alpha.reshape(-1, n_x), x.mass.reshape(-1, n_x)
    B, alpha_y, mass_y = y.log.reshape(-1, n_y), y.alpha.reshape(-1, n_y), y.mass.reshape(-1, n_y)
    p[:] = 0.0
    q[:] = 0.0
    work.Q[:] = 0.0
    over, n_active, n_block = -np.inf, 0, 0
    for c in range(candidates(pairs, x.top, y.top, ref - NEGLIGIBLE)):
        r = active[c]  # the list shrinks in place: n_active <= c
        dH, a, b = H - H_at[r], -np.inf, -np.inf
        if dH != 0.0:
            for i in range(n_x):
                A[r, i] += dH * alpha_x[r, i]
            for j in range(n_y):
                B[r, j] += dH * alpha_y[r, j]
        for i in range(n_x):
            a = max(a, A[r, i] + pm[i])
        for j in range(n_y):
            b = max(b, B[r, j])
        H_at[r], drift_at[r] = H, drift
        bound[r] = a + b
        height = U[r] + a + b - ref
        if height > SAFE:
            bound[r] = _largest(A[r], B[r], W)
            height = U[r] + bound[r] - ref
            if height > SAFE:
                over = max(over, height + ref)
            elif height > -NEGLIGIBLE and over <= ref:
                p[r] = _entries(A[r], B[r], W, q, mass_x[r], mass_y[r], U[r] - ref)
                active[n_active] = r
                n_active += 1
        elif height > -NEGLIGIBLE and over <= ref:
            for i in range(n_x):
                eA[n_block, i] = A[r, i] + pm[i] - a
            for j in range(n_y):
                eB[n_block, j] = B[r, j] - b + height
            active[n_active] = r
            n_active += 1
            rows[n_block] = r
            n_block += 1
            if n_block == rows.shape[0]:
                _products(mass_x, mass_y, p, work, n_block)
                n_block = 0
    if n_block > 0:
        _products(mass_x, mass_y, p, work, n_block)
    return n_active, over


@part
def _entries(A: Floats, B: Floats, W: Floats, q: Floats, mass_x: Floats, mass_y: Floats, base: float) -> float:
    """Masses of one row whose factors peak at different places; returns their sum."""
    n_x, n_y, total = A.shape[0], B.shape[0], 0.0
    mass_y[:] = 0.0
    for i in range(n_x):
        mass_x[i] = 0.0
        for j in range(n_y):
            height = base + A[i] + B[j] + W[i, j]
            if height > -NEGLIGIBLE:
                value = exp(height)
                mass_x[i] += value
                mass_y[j] += value
                q[i, j] += value
        total += mass_x[i]
    return total


@part(inline=False)
def _products(mass_x: Floats, mass_y: Floats, p: Floats, work: DenseWorkspace, n_block: int) -> None:
    """Masses of a block of rows."""
    n_x, n_y = work.eW.shape
    rows = work.rows
    eA, eB = work.eA[:n_block], work.eB[:n_block]
    product_x, product_y = work.product_x[:n_block], work.product_y[:n_block]
    exp_all(eA.reshape(-1))  # one long vector: rows may be short
    exp_all(eB.reshape(-1))
    product_x[:] = 0.0
    product_y[:] = 0.0
    add_product(product_x, eB, work.eWT)
    add_product(product_y, eA, work.eW)
    add_product(work.Q, eA.T, eB)
    for row in range(n_block):
        r = rows[row]
        total = 0.0
        for i in range(n_x):
            value = eA[row, i] * product_x[row, i]
            mass_x[r, i] = value
            total += value
        for j in range(n_y):
            mass_y[r, j] = eB[row, j] * product_y[row, j]
        p[r] = total


@part
def pair_laws(pairs: PairState, work: DenseWorkspace, n_active: int) -> float:
    """Complete q and return Z."""
    q, eW, Q = pairs.q.reshape(work.eW.shape), work.eW, work.Q
    for i in range(q.shape[0]):
        for j in range(q.shape[1]):
            q[i, j] += eW[i, j] * Q[i, j]
    Z = 0.0
    for i in range(n_active):
        Z += pairs.p[pairs.active[i]]
    return Z


@part
def add_full_coupling(x: PairSide, y: PairSide, pairs: PairState, mu_sum: Floats, n_active: int, log_Z: float) -> None:
    """Add this step's mu to a full (n_rows, n_rows) array."""
    n_x, n_y = x.lambda_.shape
    A, B, W = x.log.reshape(-1, n_x), y.log.reshape(-1, n_y), pairs.W.reshape(n_x, n_y)
    for i in range(n_active):
        r = pairs.active[i]
        row = mu_sum[r].reshape(n_x, n_y)
        for j in range(n_x):
            base = pairs.U[r] + A[r, j] - log_Z
            for m in range(n_y):
                row[j, m] += exp(base + B[r, m] + W[j, m])


# --- mu on pairs of transitions that occur.

BUFFER = 2048
ONE, FULL = np.uint64(1), np.uint64(BUFFER)


class ObservedWorkspace(NamedTuple):
    """Where edges lead, and scratch arrays of a group of rows."""

    next_x: Places  # n_y times the target of each edge of X, (|E_X|,)
    next_y: Places  # target of each edge of Y, (|E_Y|,)
    first_x: Places  # first edge of the row's state of X, (n_rows,)
    first_y: Places
    source_y: Places  # where each edge of Y starts, (|E_Y|,)
    edge_y: Places  # first edge of each state of Y, (n_y + 1,)
    first: Ints  # first edge of each state of X, (n_x + 1,)
    target: Ints  # target of each edge of X, (|E_X|,)
    logs: Floats  # (BUFFER + longest row or state,)
    rows: Ints  # (BUFFER,)
    W: Floats  # W(x', y'(f)), (n_x, |E_Y|)
    Q: Floats  # the same for q
    base: Floats  # (|E_Y|,)


def observed_workspace(x: Edges, y: Edges) -> ObservedWorkspace:
    """Allocate the scratch arrays for given edges."""
    n_x, n_y, m_y = x.n_states, y.n_states, len(y.target)
    places = (x.target * n_y, y.target, np.repeat(x.first[:-1], n_y), np.tile(y.first[:-1], n_x), y.source, y.first)
    logs = np.zeros(BUFFER + int(x.degrees.max(initial=0)) * m_y)
    scratch = (logs, np.zeros(BUFFER, dtype=np.int64), np.zeros((n_x, m_y)), np.zeros((n_x, m_y)), np.zeros(m_y))
    return ObservedWorkspace._make([*(array.astype(np.uint64) for array in places), x.first, x.target, *scratch])


@kernel(name="SOMCOT on transitions that occur", seconds=5)
def advance_observed(
    x: PairSide, y: PairSide, pairs: PairState, rates: Rates, work: ObservedWorkspace, mu_sum: Floats,
    sheet: TraceBuffer,
    states_x: Ints, slots_x: Places, states_y: Ints, slots_y: Places,
) -> None:  # fmt: skip
    """One iteration for each row of the four sample arrays, (n_steps, batch_size)."""
    for i in range(states_x.shape[0]):
        ref = reference(x, y, pairs, rates, work)
        everything = pairs.crowded[0] == 1
        sweep = 0
        n_active, over = 0, ref
        while over > -np.inf and sweep < 2:
            ref = over
            if everything:
                n_active, over = sweep_all(x, y, pairs, work, ref)
            else:
                n_active, over = sweep_rows(x, y, pairs, work, ref)
            sweep += 1
        Z = pairs.p.sum()
        if mu_sum.shape[0] > 0:
            add_observed_coupling(x, y, pairs, work, mu_sum[0], n_active, ref + log(Z))
        pairs.crowded[0] = mostly(pairs.p, Z)
        update(x, y, pairs, rates, n_active, everything, Z, states_x[i], slots_x[i], states_y[i], slots_y[i])
        if pairs.step[0] % sheet.every == 0:
            note(x, y, pairs, rates, sheet)


@part
def reference(x: PairSide, y: PairSide, pairs: PairState, rates: Rates, work: ObservedWorkspace) -> float:
    """Fill U and return a lower bound of log Z: the largest entry of a row that has any."""
    U, W, cost = pairs.U, pairs.W, pairs.cost
    inverse, H = 1.0 / rates.discount, pairs.H[0]
    for r in range(U.shape[0]):
        U[r] = -H * cost[r] - W[r] * inverse
    r = pairs.heavy[0]
    while x.offset[r + 1] == x.offset[r] or y.offset[r + 1] == y.offset[r]:
        r = (r + 1) % U.shape[0]
    pairs.heavy[0] = r
    visit(x, y, pairs, r)
    pairs.bound[r] = _gather(x, y, pairs, work, r)
    return U[r] + pairs.bound[r]


@part
def _gather(x: PairSide, y: PairSide, pairs: PairState, work: ObservedWorkspace, r: int) -> float:
    """Write A + B + W of a row's entries into the buffer; return their maximum."""
    e, best, n = work.first_x[r], -np.inf, 0
    for i in range(x.offset[r], x.offset[r + 1]):
        f = work.first_y[r]
        for j in range(y.offset[r], y.offset[r + 1]):
            work.logs[n] = x.log[i] + y.log[j] + pairs.W[work.next_x[e] + work.next_y[f]]
            best = max(best, work.logs[n])
            n += 1
            f += ONE
        e += ONE
    return best


@part
def sweep_rows(x: PairSide, y: PairSide, pairs: PairState, work: ObservedWorkspace, ref: float) -> tuple[int, float]:
    """Masses of all rows that matter; returns their number and the highest entry seen above ref + 300."""
    x_log, x_alpha, x_offset, y_log, y_alpha, y_offset = x.log, x.alpha, x.offset, y.log, y.alpha, y.offset
    U, W, bound, active, H_at, drift_at = pairs.U, pairs.W, pairs.bound, pairs.active, pairs.H_at, pairs.drift_at
    next_x, next_y, first_x, first_y = work.next_x, work.next_y, work.first_x, work.first_y
    logs, rows = work.logs, work.rows
    H, drift = pairs.H[0], pairs.drift[0]
    pairs.p[:] = 0.0
    pairs.q[:] = 0.0
    over, n_active, n_rows, n = -np.inf, 0, 0, np.uint64(0)
    for c in range(candidates(pairs, x.top, y.top, ref - NEGLIGIBLE)):
        r = active[c]  # the list shrinks in place: n_active <= c
        A, B, A_end, B_end, dH = x_offset[r], y_offset[r], x_offset[r + 1], y_offset[r + 1], H - H_at[r]
        if A_end == A or B_end == B:
            continue
        # The largest alpha is looked up again, because sweeps over everything do not keep it.
        top_x, top_y = -np.inf, -np.inf
        for i in range(A, A_end):
            x_log[i] += dH * x_alpha[i]
            top_x = max(top_x, x_alpha[i])
        for j in range(B, B_end):
            y_log[j] += dH * y_alpha[j]
            top_y = max(top_y, y_alpha[j])
        H_at[r], drift_at[r], x.top[r], y.top[r] = H, drift, top_x, top_y
        e, f, best, start, base = first_x[r], first_y[r] - B, -np.inf, n, U[r] - ref
        for i in range(A, A_end):
            a, row, shift = x_log[i] + base, next_x[e], n - B
            for j in range(B, B_end):
                value = a + y_log[j] + W[row + next_y[f + j]]
                logs[shift + j] = value
                best = max(best, value)
            n += B_end - B
            e += ONE
        bound[r] = best - base
        if best > SAFE:
            over = max(over, best + ref)
            n = start
        elif best > -NEGLIGIBLE and over <= ref:
            active[n_active] = r
            n_active += 1
            rows[n_rows] = r
            n_rows += 1
            if n >= FULL:
                _spread(x, y, pairs, work, n_rows, n)
                n_rows, n = 0, np.uint64(0)
        else:
            n = start
    _spread(x, y, pairs, work, n_rows, n)
    return n_active, over


@part
def _spread(x: PairSide, y: PairSide, pairs: PairState, work: ObservedWorkspace, n_rows: int, n: int) -> None:
    """Exponentials of the buffer, added up into the marginals of mu."""
    x_offset, x_mass, y_offset, y_mass, p, q = x.offset, x.mass, y.offset, y.mass, pairs.p, pairs.q
    next_x, next_y, first_x, first_y = work.next_x, work.next_y, work.first_x, work.first_y
    logs, rows = work.logs, work.rows
    for i in range(n):
        logs[i] = exp(logs[i])
    n = np.uint64(0)
    for row in range(n_rows):
        r = rows[row]
        A, B, A_end, B_end = x_offset[r], y_offset[r], x_offset[r + 1], y_offset[r + 1]
        e, f, mass = first_x[r], first_y[r] - B, 0.0
        for j in range(B, B_end):
            y_mass[j] = 0.0
        for i in range(A, A_end):
            place, shift, total = next_x[e], n - B, 0.0
            for j in range(B, B_end):
                value = logs[shift + j]
                total += value
                y_mass[j] += value
                q[place + next_y[f + j]] += value
            x_mass[i] = total
            mass += total
            n += B_end - B
            e += ONE
        p[r] = mass


@part
def sweep_all(x: PairSide, y: PairSide, pairs: PairState, work: ObservedWorkspace, ref: float) -> tuple[int, float]:
    """Masses of all rows; returns their number and the highest entry seen above ref + 300."""
    W, next_y, W_wide, Q_wide, first = pairs.W, work.next_y, work.W, work.Q, work.first
    n_x, m_y = W_wide.shape
    n_y = np.uint64(y.lambda_.shape[0])
    for r in range(pairs.U.shape[0]):
        if pairs.H_at[r] != pairs.H[0]:
            visit(x, y, pairs, r)
    for i in range(n_x):
        row = np.uint64(i) * n_y
        for f in range(m_y):
            W_wide[i, f] = W[row + next_y[f]]
            Q_wide[i, f] = 0.0
    y.mass[:] = 0.0
    highest, begin = -np.inf, 0
    while begin < n_x:
        end = begin + 1
        while end < n_x and (first[end + 1] - first[begin]) * m_y <= BUFFER:
            end += 1
        highest = max(highest, _fill(x, y, pairs, work, begin, end, ref))
        _collect(x, y, work, begin, end)
        begin = end
    _reduce(x, pairs, work)
    return pairs.U.shape[0], highest + ref if highest > SAFE else -np.inf


@part
def _fill(
    x: PairSide, y: PairSide, pairs: PairState, work: ObservedWorkspace, begin: int, end: int, ref: float
) -> float:
    """Exponentials of all entries of some states of X, edge by edge; returns the largest log."""
    A, U, W, source, target, first, logs = x.log, pairs.U, work.W, work.source_y, work.target, work.first, work.logs
    edge = work.edge_y
    n_x, m_y = W.shape
    B, n_y, n, highest, base = y.log.reshape(n_x, m_y), y.lambda_.shape[0], 0, -np.inf, work.base
    for s in range(begin, end):
        place, row, degree = x.offset[s * n_y], np.uint64(s * n_y), np.uint64(first[s + 1] - first[s])
        for f in range(m_y):
            base[f] = B[s, f] + U[row + source[f]] - ref
        for e in range(first[s], first[s + 1]):
            buffer, to = logs[n : n + m_y], target[e]
            a = place
            for j in range(n_y):
                for f in range(edge[j], edge[j + 1]):
                    buffer[f] = base[f] + W[to, f] + A[a]
                a += degree
            n += m_y
            place += ONE
    for i in range(n):
        highest = max(highest, logs[i])
    exp_all(logs[:n])
    return highest


@part
def _collect(x: PairSide, y: PairSide, work: ObservedWorkspace, begin: int, end: int) -> None:
    """Add the exponentials of some states of X up into the marginals."""
    Q, edge, target, first, logs, mass_x = work.Q, work.edge_y, work.target, work.first, work.logs, x.mass
    n_x, m_y = Q.shape
    mass_y, n_y, n = y.mass.reshape(n_x, m_y), y.lambda_.shape[0], 0
    for s in range(begin, end):
        place, degree = x.offset[s * n_y], np.uint64(first[s + 1] - first[s])
        for e in range(first[s], first[s + 1]):
            buffer, to = logs[n : n + m_y], target[e]
            for f in range(m_y):
                mass_y[s, f] += buffer[f]
                Q[to, f] += buffer[f]
            a = place
            for j in range(n_y):
                total = 0.0
                for f in range(edge[j], edge[j + 1]):
                    total += buffer[f]
                mass_x[a] = total
                a += degree
            n += m_y
            place += ONE


@part
def _reduce(x: PairSide, pairs: PairState, work: ObservedWorkspace) -> None:
    """P and q from the marginals; rows get no bound, so each is computed before it can be skipped again."""
    p, q, active, Q, next_y, mass, offset = pairs.p, pairs.q, pairs.active, work.Q, work.next_y, x.mass, x.offset
    n_x, m_y = Q.shape
    n_y = np.uint64(p.shape[0] // n_x)
    q[:] = 0.0
    pairs.bound[:] = np.inf
    for i in range(n_x):
        row = np.uint64(i) * n_y
        for f in range(m_y):
            q[row + next_y[f]] += Q[i, f]
    for r in range(p.shape[0]):
        total = 0.0
        for e in range(offset[r], offset[r + 1]):
            total += mass[e]
        p[r] = total
        active[r] = r


@part
def add_observed_coupling(
    x: PairSide, y: PairSide, pairs: PairState, work: ObservedWorkspace, mu_sum: Floats, n_active: int, log_Z: float
) -> None:
    """Add this step's mu, entry (e, f) at place e |E_Y| + f."""
    width = np.uint64(work.next_y.shape[0])
    for a in range(n_active):
        r, n = pairs.active[a], 0
        _gather(x, y, pairs, work, r)
        place = work.first_x[r] * width + work.first_y[r]
        for _ in range(x.offset[r], x.offset[r + 1]):
            for j in range(y.offset[r + 1] - y.offset[r]):
                mu_sum[place + j] += exp(work.logs[n] + pairs.U[r] - log_Z)
                n += 1
            place += width
