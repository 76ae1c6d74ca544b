"""The records a SOMCOT run works on, and one list of their fields that building, growing and saving go by.

Compiled code sees named tuples of arrays. Numbers that change are arrays of length 1, because the fields of a tuple
cannot change.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from somcot.plumbing.arrays import Bools, Floats, Ints, Places

__all__ = [
    "PAIR_FIELDS",
    "SIDE_FIELDS",
    "Field",
    "PairSide",
    "PairState",
    "Rates",
    "Row",
    "Sums",
    "TraceBuffer",
    "Transitions",
    "lengths",
]  # fmt: skip


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

# The same for `PairState`; its cost and start law stay fixed.
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
    """What belongs to pairs of states, flat with index x * n_y + y, and the clock."""

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


class Transitions(NamedTuple):
    """Transitions mu may use, sorted: those of state s are ``target[first[s]:first[s + 1]]``."""

    first: Ints
    target: Ints
    slot: Ints  # (n, n) place of a target among the state's edges, -1 when absent

    @classmethod
    def from_mask(cls, mask: Bools) -> Transitions:
        """From an (n, n) array that says which transitions are allowed."""
        first = np.concatenate([[0], np.cumsum(mask.sum(axis=1))]).astype(np.int64)
        slot = np.where(mask, np.cumsum(mask, axis=1) - 1, -1).astype(np.int64)
        return cls(first, np.nonzero(mask)[1].astype(np.int64), slot)

    @classmethod
    def full(cls, n: int) -> Transitions:
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
    """Where kernels put down the sums of rows of the trace, so that nobody has to stop them for that.

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
