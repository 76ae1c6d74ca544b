"""SOMCOT with mu on all quadruples of states: exactly Algorithm 2, in matrix products.

With row r = (x, y), a_r = max_x' (A + pm), pm(x') = max_y' W(x', y'), b_r = max_y' B and any number `ref`, let

    eW(x', y') = exp(W - pm(x')),  eA(r, x') = exp(A + pm - a_r),  eB(r, y') = exp(B - b_r + U + a_r + b_r - ref).

The marginals of mu that the dual step needs (Eqs. 13-15) are then, up to the factor 1 / Z,

    m_X = eA * (eB eW^T),    m_Y = eB * (eA eW),    q = eW * (eA^T eB),

6 n_x^2 n_y^2 flops and n_x n_y (n_x + n_y) exponentials. `ref` is a lower bound of log Z: the largest entry of the row
that was heaviest one step before. Three cases for each row, by s_r = U + a_r + b_r, which bounds all its entries:

* s_r < ref - 50: no mass worth counting;
* s_r < ref + 300: the products are safe, since what exp cuts off at e^-350 is below e^-50 of Z;
* otherwise the factors peak at different places: the entries are added up first and exponentials taken of those
  within e^-50 only. Should one of them exceed ref + 300, ref was too low, and the sweep is done again with a better
  one.
"""
# mypy: disable-error-code="no-any-return, misc"

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from somcot.compile.jit import kernel, part
from somcot.compile.simd_math import add_product, exp, exp_all, log
from somcot.plumbing.arrays import Floats, Ints, Places
from somcot.solvers.somcot.run_arrays import PairSide, PairState, Rates, TraceBuffer
from somcot.solvers.somcot.updates import NEGLIGIBLE, SAFE, candidates, note, update, visit

__all__ = ["DenseWorkspace", "advance", "workspace"]

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


def workspace(n_x: int, n_y: int) -> DenseWorkspace:
    """Allocate the scratch arrays."""
    shapes = [(n_x, n_y), (n_y, n_x), (n_x,), (BLOCK, n_x), (BLOCK, n_y), (BLOCK, n_x), (BLOCK, n_y)]
    arrays = [np.zeros(shape) for shape in [*shapes, (n_x, n_y)]]
    return DenseWorkspace._make([*arrays, np.zeros(BLOCK, dtype=np.int64)])


@kernel(name="SOMCOT on all transitions", seconds=5)
def advance(
    x: PairSide, y: PairSide, pairs: PairState, rates: Rates, work: DenseWorkspace, mu_sum: Floats, sheet: TraceBuffer,
    states_x: Ints, slots_x: Places, states_y: Ints, slots_y: Places,
) -> None:  # fmt: skip
    """One iteration for each row of the four sample arrays, (n_steps, batch_size)."""
    for i in range(states_x.shape[0]):
        ref = _factors(x, y, pairs, rates, work)
        n_active, over = 0, np.inf
        while over > ref:  # twice at most: the second time nothing is above ref
            ref = over if over < np.inf else ref
            n_active, over = _sweep(x, y, pairs, work, ref)
        Z = _pair_laws(pairs, work, n_active)
        if mu_sum.shape[0] > 0:
            _add_coupling(x, y, pairs, mu_sum, n_active, ref + log(Z))
        update(x, y, pairs, rates, n_active, False, Z, states_x[i], slots_x[i], states_y[i], slots_y[i])
        if pairs.step[0] % sheet.every == 0:
            note(x, y, pairs, rates, sheet)


@part
def _factors(x: PairSide, y: PairSide, pairs: PairState, rates: Rates, work: DenseWorkspace) -> float:
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
def _sweep(x: PairSide, y: PairSide, pairs: PairState, work: DenseWorkspace, ref: float) -> tuple[int, float]:
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
def _pair_laws(pairs: PairState, work: DenseWorkspace, n_active: int) -> float:
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
def _add_coupling(x: PairSide, y: PairSide, pairs: PairState, mu_sum: Floats, n_active: int, log_Z: float) -> None:
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
