"""The state of a SOMCOT run: what the kernels work on, and how it grows when new transitions turn up."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.arrays import Floats, Ints, Places
from somcot.plumbing.memory import require
from somcot.solvers.somcot.updates import Pairs, Rates, Side
from somcot.steps import Steps

__all__ = ["Edges", "Settings", "State", "Sums", "build", "full_edges", "grow", "lengths"]

Support = Literal["full", "observed"]


@dataclass(frozen=True)
class Settings:
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


class Edges(NamedTuple):
    """Transitions mu may use, sorted: those of state s are ``target[first[s]:first[s + 1]]``."""

    first: Ints
    target: Ints
    slot: Ints  # (n, n) place of a target among the state's edges, -1 when absent

    @classmethod
    def from_mask(cls, mask: NDArray[np.bool_]) -> Edges:
        """From an (n, n) array that says which transitions are allowed."""
        first = np.concatenate([[0], np.cumsum(mask.sum(axis=1))]).astype(np.int64)
        slot = np.where(mask, np.cumsum(mask, axis=1) - 1, -1).astype(np.int64)
        return cls(first, np.nonzero(mask)[1].astype(np.int64), slot)

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Which transitions are allowed, (n, n)."""
        return self.slot >= 0

    @property
    def degrees(self) -> Ints:
        """Number of edges of each state."""
        return np.diff(self.first)


class Sums(NamedTuple):
    """Sums over the iterates 1, ..., k. Averages over any stretch are differences of two of these."""

    k: int
    H: float  # sum of the primal rates
    state_law: Floats  # flat (n_rows,)
    next_law: Floats
    encoder: Floats
    decoder: Floats
    marginal_x: Floats  # flat, as Side.alpha
    marginal_y: Floats
    A: Floats  # flat: sum of eta alpha_X
    B: Floats
    W: Floats  # - gamma times the sum of eta V
    mu: Floats


@dataclass(eq=False)
class State:
    """A run between two steps. `advance` works on it in place."""

    settings: Settings
    rates: Rates
    cost: Floats
    initial_x: Floats
    initial_y: Floats
    extra: bool  # whether one start state was added to each chain
    edges_x: Edges
    edges_y: Edges
    x: Side
    y: Side
    pairs: Pairs
    work: Any
    mu_sum: Floats
    counts_x: Ints  # (n_x, n_x) transitions fed so far, without the extra state
    counts_y: Ints
    mark: Sums | None = None
    trace: list[tuple[float, ...]] = field(default_factory=list)
    last: Floats | None = None  # state-law sums at the last row of the trace
    pace: int = 1  # steps that take about 25 ms
    known: tuple[Any, Any] = (None, None)  # occupancies of known chains, for the residuals

    @property
    def k(self) -> int:
        """Steps done."""
        return int(self.pairs.counter[0])

    @property
    def n_rows(self) -> int:
        """Pairs of states, the extra ones included."""
        return len(self.pairs.V)


def lengths(offset: Places) -> Ints:
    """Numbers of entries of the rows."""
    signed = offset.astype(np.int64)
    return signed[1:] - signed[:-1]


def full_edges(n: int) -> Edges:
    """All transitions among n states."""
    return Edges.from_mask(np.ones((n, n), dtype=bool))


def build(
    settings: Settings, cost: Floats, initial_x: Floats, initial_y: Floats, edges_x: Edges, edges_y: Edges
) -> State:
    """A fresh state: mu and lambda uniform, duals zero."""
    n_x, n_y = cost.shape
    extra = len(edges_x.first) - 1 > n_x
    m_x, m_y = n_x + extra, n_y + extra
    _check_memory(settings, edges_x, edges_y)
    low, scale = float(cost.min()), float(cost.max() - cost.min()) or 1.0
    unit = np.ones((m_x, m_y))
    unit[:n_x, :n_y] = (cost - low) / scale
    first = np.zeros((m_x, m_y))
    if extra:
        unit[-1, -1] = 0.0
        first[-1, -1] = 1.0
    else:
        first[:] = np.outer(initial_x, initial_y)
    n = m_x * m_y
    laws = [unit.ravel(), (1 - settings.discount) * first.ravel()]
    rows = [np.zeros(n) for _ in range(11)]
    pairs = Pairs._make([*laws, *rows, np.zeros(n, dtype=np.int64), np.zeros(2), np.array([0, 0, 1])])
    x = _side(edges_x, np.repeat(edges_x.degrees, m_y), m_x, m_y, initial_x if extra else None, settings.discount)
    y = _side(edges_y, np.tile(edges_y.degrees, m_x), m_y, m_x, initial_y if extra else None, settings.discount)
    return State(
        settings,
        _unit_rates(settings, scale, extra),
        cost,
        initial_x,
        initial_y,
        extra,
        edges_x,
        edges_y,
        x,
        y,
        pairs,
        _workspace(settings, edges_x, edges_y),
        _coupling_sum(settings, edges_x, edges_y),
        np.zeros((n_x, n_x), dtype=np.int64),
        np.zeros((n_y, n_y), dtype=np.int64),
    )


def grow(state: State, edges_x: Edges, edges_y: Edges) -> State:
    """The same run on larger sets of transitions; new entries start as if their duals had been zero so far."""
    bigger = build(state.settings, state.cost, state.initial_x, state.initial_y, edges_x, edges_y)
    n_x, n_y = len(state.edges_x.first) - 1, len(state.edges_y.first) - 1
    rows = np.arange(n_x * n_y)
    place_x = _places(state.x, bigger.x, rows // n_y, state.edges_x, edges_x)
    place_y = _places(state.y, bigger.y, rows % n_y, state.edges_y, edges_y)
    for side, old, place in ((bigger.x, state.x, place_x), (bigger.y, state.y, place_y)):
        for name in ("alpha", "log", "tally"):
            getattr(side, name)[place] = getattr(old, name)
        for name in ("log_lambda", "lambda_", "lambda_sum", "since"):
            getattr(side, name)[...] = getattr(old, name)
        side.top[:] = np.maximum(old.top, 0.0)
    for name in ("V", "W", "p_sum", "q_sum", "H_at", "drift_at", "clock", "counter"):
        getattr(bigger.pairs, name)[...] = getattr(state.pairs, name)
    # A new entry may be far above the old ones of its row: every row has to be looked at again.
    bigger.pairs.bound[:] = np.inf
    _grow_coupling(state, bigger)
    bigger.mark = None if state.mark is None else _grow_sums(state.mark, state, bigger, place_x, place_y)
    bigger.counts_x, bigger.counts_y = state.counts_x, state.counts_y
    bigger.trace, bigger.last, bigger.pace, bigger.known = state.trace, state.last, state.pace, state.known
    return bigger


def _side(edges: Edges, row_degrees: Ints, own: int, other: int, initial: Floats | None, discount: float) -> Side:
    offset = np.concatenate([[0], np.cumsum(row_degrees)]).astype(np.uint64)
    size = int(offset[-1])
    starts = np.array([], dtype=np.int64) if initial is None else np.flatnonzero(initial)
    weights = np.array([]) if initial is None else (1 - discount) * initial[starts]
    alpha, log, tally, mass = (np.zeros(size) for _ in range(4))
    log_lambda, lambda_ = np.full((own, other), -math.log(other)), np.full((own, other), 1.0 / other)
    conditional = (log_lambda, lambda_, np.zeros((own, other)), np.zeros(own, dtype=np.int64))
    slots = edges.slot[-1, starts].astype(np.uint64)
    return Side(offset, alpha, log, tally, mass, np.zeros(len(row_degrees)), *conditional, slots, weights)


def _unit_rates(settings: Settings, scale: float, extra: bool) -> Rates:
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


def _workspace(settings: Settings, edges_x: Edges, edges_y: Edges) -> Any:
    from somcot.solvers.somcot import dense, observed

    if settings.support == "full":
        return dense.workspace(len(edges_x.first) - 1, len(edges_y.first) - 1)
    return observed.workspace(edges_x.target, edges_y.target, edges_x.first, edges_y.first)


def _coupling_sum(settings: Settings, edges_x: Edges, edges_y: Edges) -> Floats:
    if not settings.keep_coupling:
        return np.zeros((0, 0))
    if settings.support == "full":
        n = (len(edges_x.first) - 1) * (len(edges_y.first) - 1)
        return np.zeros((n, n))
    return np.zeros((1, len(edges_x.target) * len(edges_y.target)))


def _check_memory(settings: Settings, edges_x: Edges, edges_y: Edges) -> None:
    n_x, n_y = len(edges_x.first) - 1, len(edges_y.first) - 1
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


def _places(old: Side, new: Side, own: Ints, before: Edges, after: Edges) -> Ints:
    """Where each flat entry of `old` lies in `new`; own[r] is the chain's state in row r."""
    old_offset, new_offset = old.offset.astype(np.int64), new.offset.astype(np.int64)
    row = np.repeat(np.arange(len(own)), lengths(old.offset))
    edge = np.arange(len(row)) - old_offset[row] + before.first[own[row]]
    places: Ints = new_offset[row] + after.slot[own[row], before.target[edge]]
    return places


def _grow_coupling(state: State, bigger: State) -> None:
    if state.mu_sum.size:
        bigger.mu_sum[0] = _spread_coupling(state.mu_sum[0], state, bigger)


def _spread_coupling(values: Floats, state: State, bigger: State) -> Floats:
    places = []
    for before, after in ((state.edges_x, bigger.edges_x), (state.edges_y, bigger.edges_y)):
        own = np.repeat(np.arange(len(before.first) - 1), before.degrees)
        places.append(after.first[own] + after.slot[own, before.target])
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
