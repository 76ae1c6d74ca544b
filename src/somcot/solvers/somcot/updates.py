"""What both SOMCOT kernels share: the dual and encoder steps of Algorithm 2, and rows that are put off.

`algorithm` has the same in plain NumPy. Equation numbers are the paper's.

mu is never stored. Its logarithm is kept in four factors,

    log mu(x, y, x', y') = A(x, y, x') + B(x, y, y') + W(x', y') + U(x, y) - log Z,

and a step with primal rate eta does A += eta alpha_X, B += eta alpha_Y, W -= eta gamma V, U -= eta (c - V). With H the
sum of the rates so far, U = -H c - W / gamma, so U needs no memory of its own.

A row r = (x, y) whose mass is below e^-50 changes its duals only where a sample falls. Between two visits its A and B
grow linearly in H, so the kernels leave it alone until an upper bound of its mass reaches e^-50 of the total. The
stored value then is A_stored with A = A_stored + (H - H_at) alpha_X.

The X side is written once; the Y side is the same code on the other record.
"""
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import math

import numpy as np

from somcot.compile.jit import part
from somcot.compile.simd_math import exp, log
from somcot.plumbing.arrays import Floats, Ints, Places
from somcot.solvers.somcot.run_arrays import PairSide, PairState, Rates, TraceBuffer

# Mass below e^-50 of the total, 2e-22, is lost in the rounding of any sum with the rest.
NEGLIGIBLE = 50.0
# Two factors of at most e^300 each multiply without overflow (e^709), with room for sums.
SAFE = 300.0
# The row that `ref`, the lower bound of log Z, is read off is kept while it has this share of the mass: looking for a
# heavier one costs a pass over the rows, and a bound too low by log(1000) = 7 is nothing against the 300 of SAFE.
HEAVY = 1e-3


@part
def catch_up(log: Floats, alpha: Floats, first: int, last: int, dH: float) -> None:
    """Bring the stored A or B of a row up to date."""
    if dH != 0.0:
        for e in range(first, last):
            log[e] += dH * alpha[e]


@part
def visit(x: PairSide, y: PairSide, pairs: PairState, r: int) -> None:
    """Bring one row up to date on both sides and note when."""
    dH = pairs.H[0] - pairs.H_at[r]
    catch_up(x.log, x.alpha, x.offset[r], x.offset[r + 1], dH)
    catch_up(y.log, y.alpha, y.offset[r], y.offset[r + 1], dH)
    pairs.H_at[r] = pairs.H[0]
    pairs.drift_at[r] = pairs.drift[0]


@part
def candidates(pairs: PairState, top_x: Floats, top_y: Floats, line: float) -> int:
    """List in `active` the rows whose mass may exceed e^line, judged by O(1) numbers for each."""
    U, bound, H_at, drift_at, active = pairs.U, pairs.bound, pairs.H_at, pairs.drift_at, pairs.active
    H, drift = pairs.H[0], pairs.drift[0]
    height, n = pairs.height, 0
    for r in range(U.shape[0]):
        height[r] = U[r] + bound[r] + (H - H_at[r]) * (top_x[r] + top_y[r]) + drift - drift_at[r]
    for r in range(U.shape[0]):
        if height[r] >= line:
            active[n] = r
            n += 1
    return n


@part
def _observe(side: PairSide, states: Ints, slots: Places, weight: float, own: int, other: int, eta: float) -> None:
    """Eqs. 11, 12 in 17, 18, in logs: log lambda(. | s) -= eta weight alpha(s, s', .) for the sampled transitions."""
    offset, alpha, log_lambda = side.offset, side.alpha, side.log_lambda
    n, extra = states.shape[0], log_lambda.shape[0] - 1
    for i in range(n + side.start_slot.shape[0]):
        s = states[i] if i < n else extra
        slot = slots[i] if i < n else side.start_slot[i - n]
        step = eta * (weight if i < n else side.start_weight[i - n])
        for j in range(log_lambda.shape[1]):
            log_lambda[s, j] -= step * alpha[offset[own * s + other * j] + slot]


@part
def _credit(
    side: PairSide,
    H_at: Floats,
    states: Ints,
    slots: Places,
    weight: float,
    own: int,
    other: int,
    beta: float,
    H: float,
) -> None:
    """Sampled term of Eqs. 13, 14 in 19, 20: alpha(s, s', .) += beta weight lambda(. | s), not yet projected.

    Rows wait with A for their next visit; what they would then gain too much is taken off here.
    """
    offset, alpha, log, tally, top, lambda_ = side.offset, side.alpha, side.log, side.tally, side.top, side.lambda_
    n, extra = states.shape[0], lambda_.shape[0] - 1
    for i in range(n + side.start_slot.shape[0]):
        s = states[i] if i < n else extra
        slot = slots[i] if i < n else side.start_slot[i - n]
        w = weight if i < n else side.start_weight[i - n]
        for j in range(lambda_.shape[1]):
            r = own * s + other * j
            e = offset[r] + slot
            term = w * lambda_[s, j]
            tally[e] += term
            alpha[e] += beta * term
            log[e] -= (H - H_at[r]) * beta * term
            top[r] = max(top[r], alpha[e])


@part
def _settle(
    side: PairSide,
    H_at: Floats,
    states: Ints,
    slots: Places,
    own: int,
    other: int,
    beta: float,
    H: float,
    R: float,
    k: int,
) -> None:
    """Project the sampled entries of rows without mass (19, 20), and normalise lambda(. | s) once per step (17, 18)."""
    offset, alpha, log, tally = side.offset, side.alpha, side.log, side.tally
    n, extra = states.shape[0], side.lambda_.shape[0] - 1
    for i in range(n + side.start_slot.shape[0]):
        s = states[i] if i < n else extra
        slot = slots[i] if i < n else side.start_slot[i - n]
        for j in range(side.lambda_.shape[1]):
            r = own * s + other * j
            e = offset[r] + slot
            value = alpha[e]
            if value > R:
                alpha[e] = R
                tally[e] += (R - value) / beta
                log[e] += (H - H_at[r]) * (value - R)
        if side.since[s] <= k:
            _normalise(side.log_lambda[s], side.lambda_[s], side.lambda_sum[s], k + 1 - side.since[s])
            side.since[s] = k + 1


@part
def _normalise(log_lambda: Floats, lambda_: Floats, lambda_sum: Floats, n_iterates: int) -> None:
    """Add the old row to the sum for the iterates it stood, then make the new one sum to 1."""
    highest = -np.inf
    for j in range(lambda_.shape[0]):
        lambda_sum[j] += n_iterates * lambda_[j]
        highest = max(highest, log_lambda[j])
    total = 0.0
    for j in range(lambda_.shape[0]):
        lambda_[j] = exp(log_lambda[j] - highest)
        total += lambda_[j]
    shift, scale = highest + log(total), 1.0 / total
    for j in range(lambda_.shape[0]):
        log_lambda[j] -= shift
        lambda_[j] *= scale


@part
def _ascend(side: PairSide, H_at: Floats, rows: Ints, H: float, beta: float, scale: float, R: float) -> None:
    """Rows with mass: A += eta alpha (16), then alpha = projection of alpha - beta m (19, 20; sampled terms are in)."""
    offset, alpha, log, mass, tally, top = side.offset, side.alpha, side.log, side.mass, side.tally, side.top
    step = beta * scale
    for i in range(rows.shape[0]):
        r = rows[i]
        first, last, eta = offset[r], offset[r + 1], H - H_at[r]
        highest, lowest = -np.inf, np.inf
        for e in range(first, last):
            log[e] += eta * alpha[e]
            value = alpha[e] - step * mass[e]
            alpha[e] = value
            highest = max(highest, value)
            lowest = min(lowest, value)
        if highest > R or lowest < -R:
            for e in range(first, last):
                value = alpha[e]
                alpha[e] = min(max(value, -R), R)
                tally[e] += (alpha[e] - value) / beta
            highest = min(highest, R)
        top[r] = highest


@part
def _ascend_all(side: PairSide, eta: float, beta: float, scale: float, R: float) -> None:
    """The same for all rows at once, in one long loop; `top` is left as it was."""
    alpha, log, mass, tally = side.alpha, side.log, side.mass, side.tally
    step, highest, lowest = beta * scale, -np.inf, np.inf
    for e in range(alpha.shape[0]):
        log[e] += eta * alpha[e]
        value = alpha[e] - step * mass[e]
        alpha[e] = value
        highest = max(highest, value)
        lowest = min(lowest, value)
    if highest > R or lowest < -R:
        for e in range(alpha.shape[0]):
            value = alpha[e]
            alpha[e] = min(max(value, -R), R)
            tally[e] += (alpha[e] - value) / beta


@part
def _pair_step(pairs: PairState, rates: Rates, eta: float, scale: float) -> None:
    """W -= eta gamma V (16), V = projection of V - beta (p - (1 - gamma) nu_0 - gamma q) (15, 21), and running sums."""
    V, W, p, q, start, p_sum, q_sum = pairs.V, pairs.W, pairs.p, pairs.q, pairs.start, pairs.p_sum, pairs.q_sum
    gamma, beta, R = rates.discount, rates.V, rates.radius_v
    step = eta * gamma
    lowest = V[0]
    for r in range(V.shape[0]):
        value, now, following = V[r], scale * p[r], scale * q[r]
        lowest = min(lowest, value)
        W[r] -= step * value
        p_sum[r] += now
        q_sum[r] += following
        V[r] = min(max(value - beta * (now - start[r] - gamma * following), -R), R)
    pairs.drift[0] -= step * lowest


@part
def update(
    x: PairSide, y: PairSide, pairs: PairState, rates: Rates, n_active: int, everything: bool, Z: float,
    states_x: Ints, slots_x: Places, states_y: Ints, slots_y: Places,
) -> None:  # fmt: skip
    """All six updates of Algorithm 2, once the marginals of mu are in `mass`, `p` and `q` (to be divided by Z)."""
    k, n_y = pairs.step[0], y.lambda_.shape[0]
    slow = 1.0 / math.sqrt(1.0 + rates.decay * (k + 1))
    eta, scale, H_at, rows = rates.mu * slow, 1.0 / Z, pairs.H_at, pairs.active[:n_active]
    H, R, w, beta_x, beta_y = pairs.H[0] + eta, rates.radius_alpha, rates.weight, rates.alpha_x, rates.alpha_y
    _observe(x, states_x, slots_x, w, n_y, 1, rates.lambda_x * slow)
    _observe(y, states_y, slots_y, w, 1, n_y, rates.lambda_y * slow)
    _credit(x, H_at, states_x, slots_x, w, n_y, 1, beta_x, H)
    _credit(y, H_at, states_y, slots_y, w, 1, n_y, beta_y, H)
    heavy = pairs.heavy[0]
    if everything:
        _ascend_all(x, eta, beta_x, scale, R)
        _ascend_all(y, eta, beta_y, scale, R)
        H_at[:] = H
    else:
        for i in range(n_active):
            r = rows[i]
            pairs.bound[r] += (H - H_at[r]) * (x.top[r] + y.top[r])
        _ascend(x, H_at, rows, H, beta_x, scale, R)
        _ascend(y, H_at, rows, H, beta_y, scale, R)
        for i in range(n_active):
            H_at[rows[i]] = H
    if pairs.p[heavy] * scale < HEAVY:
        for i in range(n_active):
            heavy = rows[i] if pairs.p[rows[i]] > pairs.p[heavy] else heavy
    _settle(x, H_at, states_x, slots_x, n_y, 1, beta_x, H, R, k)
    _settle(y, H_at, states_y, slots_y, 1, n_y, beta_y, H, R, k)
    _pair_step(pairs, rates, eta, scale)
    pairs.H[0] = H
    pairs.step[0] = k + 1
    pairs.heavy[0] = heavy


@part(inline=False)
def note(x: PairSide, y: PairSide, pairs: PairState, rates: Rates, sheet: TraceBuffer) -> None:
    """Put down the sums of a row of the trace, as `averages.snapshot` takes them."""
    k, n = pairs.step[0], pairs.p_sum.shape[0]
    row = sheet.table[k // sheet.every - sheet.skipped]
    row[0], row[1] = k, pairs.H[0]
    for r in range(n):
        row[2 + r] = pairs.p_sum[r]
        row[2 + n + r] = pairs.q_sum[r]
    place = _note_side(x, k, rates.alpha_x, row, 2 + 2 * n)
    _note_side(y, k, rates.alpha_y, row, place)


@part
def _note_side(side: PairSide, k: int, beta: float, row: Floats, place: int) -> int:
    n, m = side.lambda_.shape
    for s in range(n):
        n_iterates = k - side.since[s]
        for j in range(m):
            row[place + j] = side.lambda_sum[s, j] + n_iterates * side.lambda_[s, j]
        place += m
    for e in range(side.alpha.shape[0]):
        row[place + e] = side.tally[e] - side.alpha[e] / beta
    return place + side.alpha.shape[0]
