"""The arrays a run works on, and the updates that both kernels of Algorithm 2 share.

Compiled code sees named tuples of arrays. Numbers that change are arrays of length 1, because the fields of a tuple
cannot change. One list of their fields is what building, growing and saving go by.

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
from typing import Any, NamedTuple

import numpy as np

from somcot.compile.jit import part
from somcot.compile.simd_math import exp, log
from somcot.plumbing.arrays import Bools, Floats, Ints, Places

__all__ = [
    "PAIR_FIELDS", "SIDE_FIELDS", "Edges", "Field", "PairSide", "PairState", "Rates", "Row", "Sums", "TraceBuffer",
    "candidates", "lengths", "mostly", "normalise", "note", "update", "visit", "zeros",
]  # fmt: skip


# --- The arrays.


class Field(NamedTuple):
    """How an array of a record is laid out, and what becomes of it.

    Attributes
    ----------
    axes : str
        "edge": flat, one number for each pair of states and transition of this side's chain; "pair": one for each pair
        of states; "map": (own states, other states); "state": one for each own state; "one": a single number.
    saved : bool
        Whether the next step needs it; what is not saved is worked out anew in every step.
    kind : type
        Of the entries.
    """

    axes: str
    saved: bool = True
    kind: type = np.float64


# One row for each array of `PairSide` that starts as zeros or ones and changes; `offset` and the
# start entries stay fixed.
SIDE_FIELDS = {
    "alpha": Field("edge"),
    "log": Field("edge"),
    "tally": Field("edge"),
    "mass": Field("edge", saved=False),
    "top": Field("pair"),
    "log_lambda": Field("map"),
    "lambda_": Field("map"),
    "lambda_sum": Field("map"),
    "since": Field("state", kind=np.int64),
}

# The same for `PairState`; its cost and initial distribution stay fixed.
PAIR_FIELDS = {
    "V": Field("pair"),
    "W": Field("pair"),
    "U": Field("pair", saved=False),
    "p": Field("pair", saved=False),
    "q": Field("pair", saved=False),
    "p_sum": Field("pair"),
    "q_sum": Field("pair"),
    "bound": Field("pair"),
    "H_at": Field("pair"),
    "drift_at": Field("pair"),
    "height": Field("pair", saved=False),
    "active": Field("pair", saved=False, kind=np.int64),
    "H": Field("one"),
    "drift": Field("one"),
    "step": Field("one", kind=np.int64),
    "heavy": Field("one", kind=np.int64),
    "crowded": Field("one", kind=np.int64),
}


class PairSide(NamedTuple):
    """One chain's share of the iteration. Flat arrays hold row r = (x, y) in ``[offset[r], offset[r + 1])``."""

    offset: Places  # (n_rows + 1,)
    alpha: Floats  # flat: the multipliers of this chain's causality constraint
    log: Floats  # flat: A or B as stored
    tally: Floats  # flat: sampled terms so far, plus what the projection took; sum of m = tally - alpha / beta
    mass: Floats  # flat: this step's marginal of mu, before division by Z
    top: Floats  # (n_rows,) at least the largest alpha of the row
    log_lambda: Floats  # (own states, other states)
    lambda_: Floats
    lambda_sum: Floats  # sum over the iterates before `since`
    since: Ints  # (own states,)
    start_slot: Places  # where the extra start state may go, and with which weight; empty without it
    start_weight: Floats


class PairState(NamedTuple):
    """Arrays over pairs of states, flat with index x * n_y + y, and the clock."""

    cost: Floats
    start: Floats  # (1 - gamma) nu_0
    V: Floats
    W: Floats
    U: Floats
    p: Floats  # law of (x, y) in this step
    q: Floats  # law of (x', y') in this step
    p_sum: Floats
    q_sum: Floats
    bound: Floats  # at least max(A + B + W) of the row when it was last visited
    H_at: Floats  # H and drift when the row was last visited
    drift_at: Floats
    height: Floats  # bound of the row's log mass in this step
    active: Ints  # rows with mass in this step
    H: Floats  # sum of the primal rates so far
    drift: Floats  # sum of max(-eta gamma V): how much W can have grown
    step: Ints  # steps done
    heavy: Ints  # the row that was heaviest when last looked for
    crowded: Ints  # 1 while more than half of the rows have mass


class Rates(NamedTuple):
    """The step sizes and other numbers of a run, in units of the cost's range."""

    mu: float
    lambda_x: float
    lambda_y: float
    alpha_x: float
    alpha_y: float
    V: float
    decay: float
    discount: float
    radius_alpha: float
    radius_v: float
    weight: float  # of one sampled transition


class Edges(NamedTuple):
    """Transitions mu may use, sorted: those of state s are ``target[first[s]:first[s + 1]]``."""

    first: Ints
    target: Ints
    slot: Ints  # (n, n) place of a target among the state's edges, -1 when absent

    @classmethod
    def from_mask(cls, mask: Bools) -> Edges:
        """From an (n, n) array of allowed transitions."""
        first = np.concatenate([[0], np.cumsum(mask.sum(axis=1))]).astype(np.int64)
        slot = np.where(mask, np.cumsum(mask, axis=1) - 1, -1).astype(np.int64)
        return cls(first, np.nonzero(mask)[1].astype(np.int64), slot)

    @classmethod
    def full(cls, n: int) -> Edges:
        """All transitions among n states."""
        return cls.from_mask(np.ones((n, n), dtype=bool))

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.first) - 1

    @property
    def mask(self) -> Bools:
        """Which transitions are allowed, (n, n)."""
        return self.slot >= 0

    @property
    def degrees(self) -> Ints:
        """Number of edges of each state."""
        return np.diff(self.first)

    @property
    def source(self) -> Ints:
        """Where each edge starts."""
        return np.repeat(np.arange(self.n_states), self.degrees)


class Sums(NamedTuple):
    """Sums over the iterates 1, ..., k. Averages over any stretch are differences of two of these."""

    k: int
    H: float  # sum of the primal rates
    state_law: Floats  # flat (n_rows,)
    next_law: Floats
    encoder: Floats
    decoder: Floats
    marginal_x: Floats  # flat, as PairSide.alpha
    marginal_y: Floats
    A: Floats  # flat: sum of eta alpha_X
    B: Floats
    W: Floats  # - gamma times the sum of eta V
    mu: Floats


class TraceBuffer(NamedTuple):
    """Buffer for the sums of trace rows, so that kernels need not stop for them.

    A row holds k, H, state_law, next_law, encoder, marginal_x, decoder, marginal_y, as in `Sums`.
    """

    every: int  # a row after every so many steps
    skipped: int  # rows of the trace before the first one here
    table: Floats  # (rows, numbers of a row)


class Row(NamedTuple):
    """What a row of the trace is made of: sums then, those at the start of the averaged share, counts where needed."""

    now: Floats  # a row of a `TraceBuffer`
    mark: Sums | None
    counts_x: Ints | None
    counts_y: Ints | None


def lengths(offset: Places) -> Ints:
    """Numbers of entries of the rows."""
    signed = offset.astype(np.int64)
    return signed[1:] - signed[:-1]


def zeros(fields: dict[str, Field], shapes: dict[str, Any]) -> dict[str, Any]:
    """Fresh arrays for the fields of a record, given the shape that each kind of axes has."""
    return {name: np.zeros(shapes[field.axes], dtype=field.kind) for name, field in fields.items()}


# --- The updates of Algorithm 2.

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
            normalise(side.log_lambda[s], side.lambda_[s], side.lambda_sum[s], k + 1 - side.since[s])
            side.since[s] = k + 1


@part
def normalise(log_lambda: Floats, lambda_: Floats, lambda_sum: Floats, n_iterates: int) -> None:
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
    """Store the sums of a row of the trace, as `averages.snapshot` does."""
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


@part
def mostly(p: Floats, Z: float) -> int:
    """1 if more than half of the rows have mass, else 0."""
    n, line = 0, Z * exp(-NEGLIGIBLE)
    for r in range(p.shape[0]):
        n += p[r] > line
    return 1 if 2 * n > p.shape[0] else 0
