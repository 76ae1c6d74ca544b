"""How the state of a run grows when transitions turn up that its support does not know yet."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from somcot.plumbing.arrays import Floats, Ints
from somcot.plumbing.memory import require
from somcot.solvers.somcot import dense, observed
from somcot.solvers.somcot.run_arrays import (
    PAIR_FIELDS,
    SIDE_FIELDS,
    PairSide,
    PairState,
    Rates,
    Row,
    Sums,
    Transitions,
    lengths,
    zeros,
)
from somcot.steps import Steps

__all__ = [
    "RunSettings",
    "State",
    "Support",
    "build",
    "grow",
    "span",
]


# --- The state of a SOMCOT run between two steps, and how a fresh one is made.

Support = Literal["full", "observed"]
FIRST_SLICE = 100_000  # entries of mu that the first slice computes: a millisecond at most


@dataclass(frozen=True)
class RunSettings:
    """What is fixed for a whole run. Steps and radii are in the unit of the user's cost."""

    discount: float
    n_steps: int
    steps: Steps
    max_cost: float
    batch_size: int = 1
    average: float = 0.5
    support: Support = "full"
    keep_coupling: bool = False

    @property
    def window_start(self) -> int:
        """Number of iterates before the share that is averaged."""
        return self.n_steps - max(1, math.ceil(self.average * self.n_steps))

    @property
    def trace_every(self) -> int:
        """Steps between two rows of the trace."""
        return min(self.n_steps, max(20, self.n_steps // 100))


@dataclass(eq=False)
class State:
    """A run between two steps. `advance` works on it in place."""

    settings: RunSettings
    rates: Rates
    cost: Floats
    initial_x: Floats
    initial_y: Floats
    extra: bool  # whether one start state was added to each chain
    edges_x: Transitions
    edges_y: Transitions
    x: PairSide
    y: PairSide
    pairs: PairState
    work: Any  # scratch arrays of the kernel in use
    mu_sum: Floats
    counts_x: Ints  # (n_x, n_x) transitions fed so far, without the extra state
    counts_y: Ints
    mark: Sums | None = None
    trace: list[tuple[float, ...]] = field(default_factory=list)
    last: Floats | None = None  # state-law sums at the last row of the trace
    pending: list[Row] = field(default_factory=list)  # rows of the trace after those, not worked out yet
    pace: int = 1  # steps that take about 25 ms
    known: tuple[Any, Any] = (None, None)  # occupancies of known chains, for the residuals

    @property
    def k(self) -> int:
        """Steps done."""
        return int(self.pairs.step[0])

    @property
    def n_rows(self) -> int:
        """Pairs of states, the extra ones included."""
        return len(self.pairs.V)


def span(cost: Floats) -> float:
    """The range of the cost, or 1 when it is constant."""
    return float(cost.max() - cost.min()) or 1.0


def build(
    settings: RunSettings,
    cost: Floats,
    initial_x: Floats,
    initial_y: Floats,
    edges_x: Transitions,
    edges_y: Transitions,
) -> State:
    """A fresh state: mu and lambda uniform, duals zero."""
    (n_x, n_y), m_x, m_y = cost.shape, edges_x.n_states, edges_y.n_states
    extra = m_x > n_x
    _check_memory(settings, edges_x, edges_y)
    degrees_x, degrees_y = np.repeat(edges_x.degrees, m_y), np.tile(edges_y.degrees, m_x)
    start_x, start_y = (law if extra else np.zeros(0) for law in (initial_x, initial_y))
    return State(
        settings,
        _unit_rates(settings, span(cost), extra),
        cost,
        initial_x,
        initial_y,
        extra,
        edges_x,
        edges_y,
        _side(edges_x, degrees_x, m_y, (1 - settings.discount) * start_x),
        _side(edges_y, degrees_y, m_x, (1 - settings.discount) * start_y),
        _pair_state(settings, cost, initial_x, initial_y, extra),
        dense.workspace(m_x, m_y) if settings.support == "full" else observed.workspace(edges_x, edges_y),
        _coupling_sum(settings, edges_x, edges_y),
        np.zeros((n_x, n_x), dtype=np.int64),
        np.zeros((n_y, n_y), dtype=np.int64),
        pace=max(1, FIRST_SLICE // int(1 + edges_x.degrees.sum() * edges_y.degrees.sum())),
    )


def _side(edges: Transitions, row_degrees: Ints, other: int, start: Floats) -> PairSide:
    """One chain's arrays; `start` holds the weights of the extra state's transitions, empty without it."""
    offset = np.concatenate([[0], np.cumsum(row_degrees)]).astype(np.uint64)
    own, starts = edges.n_states, np.flatnonzero(start)
    shapes = {"edge": int(offset[-1]), "pair": len(row_degrees), "map": (own, other), "state": own}
    arrays = zeros(SIDE_FIELDS, shapes)
    arrays["log_lambda"][:] = -math.log(other)
    arrays["lambda_"][:] = 1.0 / other
    slots = edges.slot[-1, starts].astype(np.uint64)
    return PairSide(offset=offset, start_slot=slots, start_weight=start[starts], **arrays)


def _pair_state(settings: RunSettings, cost: Floats, initial_x: Floats, initial_y: Floats, extra: bool) -> PairState:
    """Cost scaled to [0, 1] and start law; the extra pair costs nothing, all others with one extra state cost 1."""
    n_x, n_y = cost.shape
    unit, first = np.ones((n_x + extra, n_y + extra)), np.zeros((n_x + extra, n_y + extra))
    unit[:n_x, :n_y] = (cost - float(cost.min())) / span(cost)
    if extra:
        unit[-1, -1] = 0.0
        first[-1, -1] = 1.0
    else:
        first[:] = np.outer(initial_x, initial_y)
    arrays = zeros(PAIR_FIELDS, {"pair": unit.size, "one": 1})
    arrays["crowded"][:] = 1  # mu starts uniform
    return PairState(cost=unit.ravel(), start=(1 - settings.discount) * first.ravel(), **arrays)


def _unit_rates(settings: RunSettings, scale: float, extra: bool) -> Rates:
    """Rates for the cost (c - min c) / scale; the iterates are those of the user's cost and rates.

    The limits keep all logarithms finite whatever the cost's unit; no run that makes sense comes near them.
    """
    s, rest = settings.steps, 1.0 - settings.discount
    radius = max(settings.max_cost / scale, 1e-290)
    highest = 1e290 / (40 * radius / rest * (settings.n_steps + 1))
    primal = [min(rate * scale, highest) for rate in (s.mu, s.lambda_x, s.lambda_y)]
    dual = [min(max(rate / scale, 1e-280), 1e280) for rate in (s.alpha_x, s.alpha_y, s.V)]
    weight = (settings.discount if extra else 1.0) / settings.batch_size
    return Rates._make([*primal, *dual, s.decay, settings.discount, 6 * radius / rest, 2 * radius / rest, weight])


def _coupling_sum(settings: RunSettings, edges_x: Transitions, edges_y: Transitions) -> Floats:
    if not settings.keep_coupling:
        return np.zeros((0, 0))
    if settings.support == "full":
        n = edges_x.n_states * edges_y.n_states
        return np.zeros((n, n))
    return np.zeros((1, len(edges_x.target) * len(edges_y.target)))


def _check_memory(settings: RunSettings, edges_x: Transitions, edges_y: Transitions) -> None:
    n_x, n_y = edges_x.n_states, edges_y.n_states
    m_x, m_y = float(len(edges_x.target)), float(len(edges_y.target))
    flat = m_x * n_y + m_y * n_x
    require(
        8 * (12 * flat + 40 * n_x * n_y),
        f"SOMCOT on {n_x} x {n_y} states",
        "use support='observed' or merge states" if settings.support == "full" else "merge states",
    )
    if settings.keep_coupling:
        wanted = 8 * (12 * flat + 3 * m_x * m_y)
        require(wanted, f"the full coupling of {n_x} x {n_y} states", "leave out keep_coupling=True")


# --- How the state of a run grows when transitions turn up that its support does not know yet.


def grow(state: State, edges_x: Transitions, edges_y: Transitions) -> State:
    """The same run on larger sets of transitions; new entries start as if their duals had been zero so far."""
    bigger = build(state.settings, state.cost, state.initial_x, state.initial_y, edges_x, edges_y)
    n_y, rows = state.edges_y.n_states, np.arange(state.n_rows)
    place_x = _places(state.x, bigger.x, rows // n_y, state.edges_x, edges_x)
    place_y = _places(state.y, bigger.y, rows % n_y, state.edges_y, edges_y)
    _move(state.x, bigger.x, place_x)
    _move(state.y, bigger.y, place_y)
    for name, column in PAIR_FIELDS.items():
        if column.saved:
            getattr(bigger.pairs, name)[...] = getattr(state.pairs, name)
    # A new entry may be far above the old ones of its row: every row has to be looked at again.
    bigger.pairs.bound[:] = np.inf
    if state.mu_sum.size:
        bigger.mu_sum[0] = _spread_coupling(state.mu_sum[0], state, bigger)
    bigger.mark = None if state.mark is None else _grow_sums(state.mark, state, bigger, place_x, place_y)
    bigger.counts_x, bigger.counts_y = state.counts_x, state.counts_y
    bigger.trace, bigger.last, bigger.pace, bigger.known = state.trace, state.last, state.pace, state.known
    return bigger


def _move(old: PairSide, new: PairSide, place: Ints) -> None:
    for name, column in SIDE_FIELDS.items():
        if column.axes == "edge":
            getattr(new, name)[place] = getattr(old, name)
        else:
            getattr(new, name)[...] = getattr(old, name)
    np.maximum(new.top, 0.0, out=new.top)  # alpha is 0 at the new entries


def _places(old: PairSide, new: PairSide, own: Ints, before: Transitions, after: Transitions) -> Ints:
    """Where each flat entry of `old` lies in `new`; own[r] is the chain's state in row r."""
    old_offset, new_offset = old.offset.astype(np.int64), new.offset.astype(np.int64)
    row = np.repeat(np.arange(len(own)), lengths(old.offset))
    edge = np.arange(len(row)) - old_offset[row] + before.first[own[row]]
    places: Ints = new_offset[row] + after.slot[own[row], before.target[edge]]
    return places


def _spread_coupling(values: Floats, state: State, bigger: State) -> Floats:
    places = []
    for before, after in ((state.edges_x, bigger.edges_x), (state.edges_y, bigger.edges_y)):
        places.append(after.first[before.source] + after.slot[before.source, before.target])
    result = np.zeros((len(bigger.edges_x.target), len(bigger.edges_y.target)))
    result[np.ix_(places[0], places[1])] = values.reshape(len(places[0]), len(places[1]))
    return result.ravel()


def _grow_sums(mark: Sums, state: State, bigger: State, place_x: Ints, place_y: Ints) -> Sums:
    def spread(values: Floats, place: Ints, size: int) -> Floats:
        result = np.zeros(size)
        result[place] = values
        return result

    n_x, n_y = len(bigger.x.alpha), len(bigger.y.alpha)
    mu = _spread_coupling(mark.mu[0], state, bigger)[None, :] if mark.mu.size else mark.mu
    return mark._replace(
        marginal_x=spread(mark.marginal_x, place_x, n_x),
        marginal_y=spread(mark.marginal_y, place_y, n_y),
        A=spread(mark.A, place_x, n_x),
        B=spread(mark.B, place_y, n_y),
        mu=mu,
    )
