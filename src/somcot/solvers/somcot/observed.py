"""SOMCOT with mu on pairs of transitions that occur: a variant of Algorithm 2 for sparse chains.

mu(x, y, x', y') lives where x -> x' and y -> y' are both known transitions, and starts uniform there. In row (x, y)
every pair of an edge e of x and an edge f of y has

    log mu = A(r, e) + B(r, f) + W(x'(e), y'(f)) + U(r) - log Z,

|E_X| |E_Y| exponentials for a step. Logs of many entries are gathered in one buffer first, so that the exponential runs
over long vectors whatever the degrees. `ref`, rows without mass and the second sweep are as in the dense kernel.

There are two ways through the entries. `_sweep` goes row by row and leaves out rows without mass, which pays when there
are many. `_sweep_all` takes all: for one edge of X the edges of Y are one long vector, whatever their number for each
state. The second is used as long as more than half of the rows have mass.
"""
# mypy: disable-error-code="no-any-return, arg-type, assignment"

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from somcot.compile.jit import kernel, part
from somcot.compile.simd_math import exp, exp_all, log
from somcot.plumbing.arrays import Floats, Ints, Places
from somcot.solvers.somcot.run_arrays import PairSide, PairState, Rates, TraceBuffer, Transitions
from somcot.solvers.somcot.updates import NEGLIGIBLE, SAFE, candidates, note, update, visit

__all__ = ["ObservedWorkspace", "advance", "workspace"]

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


def workspace(x: Transitions, y: Transitions) -> ObservedWorkspace:
    """Allocate the scratch arrays for given edges."""
    n_x, n_y, m_y = x.n_states, y.n_states, len(y.target)
    places = (x.target * n_y, y.target, np.repeat(x.first[:-1], n_y), np.tile(y.first[:-1], n_x), y.source, y.first)
    logs = np.zeros(BUFFER + int(x.degrees.max(initial=0)) * m_y)
    scratch = (logs, np.zeros(BUFFER, dtype=np.int64), np.zeros((n_x, m_y)), np.zeros((n_x, m_y)), np.zeros(m_y))
    return ObservedWorkspace._make([*(array.astype(np.uint64) for array in places), x.first, x.target, *scratch])


@kernel(name="SOMCOT on transitions that occur", seconds=5)
def advance(
    x: PairSide, y: PairSide, pairs: PairState, rates: Rates, work: ObservedWorkspace, mu_sum: Floats,
    sheet: TraceBuffer,
    states_x: Ints, slots_x: Places, states_y: Ints, slots_y: Places,
) -> None:  # fmt: skip
    """One iteration for each row of the four sample arrays, (n_steps, batch_size)."""
    for i in range(states_x.shape[0]):
        ref = _reference(x, y, pairs, rates, work)
        everything = pairs.crowded[0] == 1
        sweep = 0
        n_active, over = 0, ref
        while over > -np.inf and sweep < 2:
            ref = over
            if everything:
                n_active, over = _sweep_all(x, y, pairs, work, ref)
            else:
                n_active, over = _sweep(x, y, pairs, work, ref)
            sweep += 1
        Z = pairs.p.sum()
        if mu_sum.shape[0] > 0:
            _add_coupling(x, y, pairs, work, mu_sum[0], n_active, ref + log(Z))
        pairs.crowded[0] = _mostly(pairs.p, Z)
        update(x, y, pairs, rates, n_active, everything, Z, states_x[i], slots_x[i], states_y[i], slots_y[i])
        if pairs.step[0] % sheet.every == 0:
            note(x, y, pairs, rates, sheet)


@part
def _mostly(p: Floats, Z: float) -> int:
    """1 if more than half of the rows have mass, else 0."""
    n, line = 0, Z * exp(-NEGLIGIBLE)
    for r in range(p.shape[0]):
        n += p[r] > line
    return 1 if 2 * n > p.shape[0] else 0


@part
def _reference(x: PairSide, y: PairSide, pairs: PairState, rates: Rates, work: ObservedWorkspace) -> float:
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
def _sweep(x: PairSide, y: PairSide, pairs: PairState, work: ObservedWorkspace, ref: float) -> tuple[int, float]:
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
def _sweep_all(x: PairSide, y: PairSide, pairs: PairState, work: ObservedWorkspace, ref: float) -> tuple[int, float]:
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
    """P and q from the marginals; rows get no bound, so each is looked at before it is next left out."""
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
def _add_coupling(
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
