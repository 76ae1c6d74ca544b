"""The state of a run between two steps, of Algorithm 2 or with counts: created, extended, saved and restored."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.arrays import Floats, Ints
from somcot.plumbing.checks import check_count, check_discount, check_number
from somcot.plumbing.memory import require
from somcot.plumbing.records import CheckpointError
from somcot.solvers.somcot.sweeps import full_workspace, observed_workspace
from somcot.solvers.somcot.updates import (
    PAIR_FIELDS,
    SIDE_FIELDS,
    Edges,
    PairSide,
    PairState,
    Rates,
    Row,
    Sums,
    lengths,
    zeros,
)
from somcot.steps import Steps

__all__ = [
    "COUNT_FORMAT",
    "FIRST_SOLVE",
    "FORMAT",
    "CountSettings",
    "CountState",
    "RunSettings",
    "Snapshot",
    "State",
    "Support",
    "build",
    "counts_from_record",
    "counts_to_record",
    "from_record",
    "grow",
    "merge",
    "period_of",
    "span",
    "to_record",
]


# --- The state of a SOMCOT run between two steps, and how a fresh one is made.

Support = Literal["full", "observed"]
FIRST_SLICE = 100_000  # entries of mu that the first slice computes: a millisecond at most


@dataclass(frozen=True)
class RunSettings:
    """Settings of a whole run. Steps and radii are in the unit of the user's cost."""

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
    edges_x: Edges
    edges_y: Edges
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


def reach(cost: Floats) -> float:
    """The largest absolute cost, the unit of the paper's radii, or 1 when all costs are 0."""
    return float(np.abs(cost).max()) or 1.0


def build(
    settings: RunSettings,
    cost: Floats,
    initial_x: Floats,
    initial_y: Floats,
    edges_x: Edges,
    edges_y: Edges,
) -> State:
    """A fresh state: mu and lambda uniform, duals zero."""
    (n_x, n_y), m_x, m_y = cost.shape, edges_x.n_states, edges_y.n_states
    extra = m_x > n_x
    _check_memory(settings, edges_x, edges_y)  # before anything is allocated
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
        full_workspace(m_x, m_y) if settings.support == "full" else observed_workspace(edges_x, edges_y),
        _coupling_sum(settings, edges_x, edges_y),
        np.zeros((n_x, n_x), dtype=np.int64),
        np.zeros((n_y, n_y), dtype=np.int64),
        pace=max(1, FIRST_SLICE // int(1 + edges_x.degrees.sum() * edges_y.degrees.sum())),
    )


def _side(edges: Edges, row_degrees: Ints, other: int, start: Floats) -> PairSide:
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
    """Cost scaled to [0, 1] and initial distribution; the extra pair costs 0, all others with an extra state cost 1."""
    n_x, n_y = cost.shape
    unit, first = np.ones((n_x + extra, n_y + extra)), np.zeros((n_x + extra, n_y + extra))
    unit[:n_x, :n_y] = (cost - float(cost.min())) / span(cost)
    if extra:
        # Two random starts: one extra state in front of each, left in the first step.
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
    # Scaling here, once, keeps units out of the kernels.
    s, rest = settings.steps, 1.0 - settings.discount
    radius = max(settings.max_cost / scale, 1e-290)
    highest = 1e290 / (40 * radius / rest * (settings.n_steps + 1))
    primal = [min(rate * scale, highest) for rate in (s.mu, s.lambda_x, s.lambda_y)]
    dual = [min(max(rate / scale, 1e-280), 1e280) for rate in (s.alpha_x, s.alpha_y, s.V)]
    weight = (settings.discount if extra else 1.0) / settings.batch_size
    return Rates._make([*primal, *dual, s.decay, settings.discount, 6 * radius / rest, 2 * radius / rest, weight])


def _coupling_sum(settings: RunSettings, edges_x: Edges, edges_y: Edges) -> Floats:
    if not settings.keep_coupling:
        return np.zeros((0, 0))
    if settings.support == "full":
        n = edges_x.n_states * edges_y.n_states
        return np.zeros((n, n))
    return np.zeros((1, len(edges_x.target) * len(edges_y.target)))


def _check_memory(settings: RunSettings, edges_x: Edges, edges_y: Edges) -> None:
    n_x, n_y = edges_x.n_states, edges_y.n_states
    m_x, m_y = float(len(edges_x.target)), float(len(edges_y.target))
    # 12 flat arrays and 40 of pairs: those of the records, sums, and room to read them off.
    flat = m_x * n_y + m_y * n_x
    require(
        8 * (12 * flat + 40 * n_x * n_y),
        f"SOMCOT on {n_x} x {n_y} states",
        "use support='observed' or merge states" if settings.support == "full" else "merge states",
    )
    if settings.keep_coupling:
        wanted = 8 * (12 * flat + 3 * m_x * m_y)
        require(wanted, f"the full coupling of {n_x} x {n_y} states", "leave out keep_coupling=True")


# --- Growth of the state of a run when transitions outside its support are observed.


def grow(state: State, edges_x: Edges, edges_y: Edges) -> State:
    """The same run on larger sets of transitions; new entries start as if their duals had been zero so far."""
    bigger = build(state.settings, state.cost, state.initial_x, state.initial_y, edges_x, edges_y)
    n_y, rows = state.edges_y.n_states, np.arange(state.n_rows)
    place_x = _places(state.x, bigger.x, rows // n_y, state.edges_x, edges_x)
    place_y = _places(state.y, bigger.y, rows % n_y, state.edges_y, edges_y)
    _move(state.x, bigger.x, place_x)
    _move(state.y, bigger.y, place_y)
    # Arrays that are not saved are scratch, recomputed in every step.
    for name, column in PAIR_FIELDS.items():
        if column.saved:
            getattr(bigger.pairs, name)[...] = getattr(state.pairs, name)
    # A new entry may be far above the old ones of its row: the bounds of all rows are computed again.
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


def _places(old: PairSide, new: PairSide, own: Ints, before: Edges, after: Edges) -> Ints:
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


# --- A SOMCOT state as arrays and a JSON record, and back.

FORMAT = "somcot.state/2"
WHOLE = ("cost", "initial_x", "initial_y", "counts_x", "counts_y", "mu_sum")
MARKED = tuple(name for name in Sums._fields if name not in ("k", "H"))


def to_record(state: State) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Everything needed to continue a run bit for bit."""
    arrays: dict[str, NDArray[Any]] = {name: getattr(state, name) for name in WHOLE}
    arrays |= {f"{part}.{name}": getattr(getattr(state, part), name) for part, name in _saved()}
    arrays |= {"edges_x": state.edges_x.mask, "edges_y": state.edges_y.mask}
    if state.trace:
        arrays["trace"] = np.array(state.trace, dtype=np.float64)
    if state.last is not None:
        arrays["last"] = state.last
    record: dict[str, Any] = {
        "format": FORMAT,
        "options": asdict(state.settings) | {"steps": list(state.settings.steps)},
    }
    if state.mark is not None:
        arrays |= {f"mark.{name}": getattr(state.mark, name) for name in MARKED}
        record |= {"mark_k": state.mark.k, "mark_H": state.mark.H}
    return arrays, record


def from_record(arrays: Mapping[str, NDArray[Any]], record: Mapping[str, Any]) -> State:
    """The state of a record written by `to_record`; anything else is refused with a `CheckpointError`."""
    if record.get("format") != FORMAT:
        raise CheckpointError(f"found format {record.get('format')!r}, expected {FORMAT}")
    try:
        state = _put_together(arrays, record)
        _check(state)
    except MemoryError:
        raise
    except (ArithmeticError, AttributeError, LookupError, SystemError, TypeError, ValueError) as error:
        raise CheckpointError(f"the checkpoint does not hold together ({error}); go back to an older copy") from None
    return state


def _check(state: State) -> None:
    """Refuse values that no run could have written, before loops rely on them."""
    settings = state.settings
    check_discount(settings.discount)
    check_count("n_steps", settings.n_steps)
    check_count("batch_size", settings.batch_size)
    if settings.support not in ("full", "observed") or not 0.0 < settings.average <= 1.0:
        raise ValueError(f"options are {settings}")
    if not 0 <= state.k <= settings.n_steps:
        raise ValueError(f"step {state.k} of {settings.n_steps}")


def _put_together(arrays: Mapping[str, NDArray[Any]], record: Mapping[str, Any]) -> State:
    settings = RunSettings(**{**record["options"], "steps": Steps(*record["options"]["steps"])})
    edges_x, edges_y = Edges.from_mask(arrays["edges_x"]), Edges.from_mask(arrays["edges_y"])
    state = build(settings, arrays["cost"], arrays["initial_x"], arrays["initial_y"], edges_x, edges_y)
    for part, name in _saved():
        getattr(getattr(state, part), name)[...] = arrays[f"{part}.{name}"]
    for name in ("counts_x", "counts_y", "mu_sum"):
        before, found = getattr(state, name), arrays[name]
        if (before.shape, before.dtype) != (found.shape, found.dtype):
            raise ValueError(f"{name} has shape {found.shape} of {found.dtype}")
        setattr(state, name, found)
    state.trace = [tuple(row) for row in arrays["trace"].tolist()] if "trace" in arrays else []
    state.last = arrays.get("last")
    if "mark_k" in record:
        sums = {name: arrays[f"mark.{name}"] for name in MARKED}
        k, H = check_count("mark_k", record["mark_k"], at_least=0), check_number("mark_H", record["mark_H"])
        state.mark = Sums(k=k, H=H, **sums)
    return state


def _saved() -> Iterator[tuple[str, str]]:
    """The parts of a state and the fields of each that the next step needs."""
    for part, fields in (("x", SIDE_FIELDS), ("y", SIDE_FIELDS), ("pairs", PAIR_FIELDS)):
        yield from ((part, name) for name, field in fields.items() if field.saved)


# --- The state of a run that counts: see `counted`.

FIRST_SOLVE = 1024
FEWEST_STEPS = 64  # between two rows of the trace of a run that forgets: each takes an exact solution


@dataclass(frozen=True)
class CountSettings:
    """Settings of a whole run that counts; `n_steps` is None when the end is not known."""

    discount: float
    n_steps: int | None
    batch_size: int = 1
    average: float = 0.5
    support: Support = "observed"
    keep_coupling: bool = False
    half_life: float | None = None


class Snapshot(NamedTuple):
    """Counts after a number of steps."""

    k: int
    counts_x: NDArray[Any]
    counts_y: NDArray[Any]


@dataclass(eq=False)
class CountState:
    """The state of a run with counted transitions: the number of times that each was observed.

    With a half-life the counts are decayed sums: the newest transition weighs 2^(i / half_life), where i counts from
    the last multiple of the half-life, and at each such multiple all counts are halved. So the weights do not depend on
    how the transitions arrive.
    """

    settings: CountSettings
    cost: Floats
    initial_x: Floats
    initial_y: Floats
    counts_x: NDArray[Any]
    counts_y: NDArray[Any]
    k: int = 0
    pending: list[Snapshot] = field(default_factory=list)  # rows of the trace, not solved yet
    trace: list[tuple[float, ...]] = field(default_factory=list)
    known: tuple[Floats | None, Floats | None] = (None, None)  # occupancies of known chains, for the residuals
    solution: Any = None  # of the counts as they are, once worked out

    @classmethod
    def empty(cls, settings: CountSettings, cost: Floats, initial_x: Floats, initial_y: Floats) -> CountState:
        """Nothing counted yet."""
        kind: type = np.int64 if settings.half_life is None else np.float64
        n_x, n_y = cost.shape
        counts_x: NDArray[Any] = np.zeros((n_x, n_x), dtype=kind)
        counts_y: NDArray[Any] = np.zeros((n_y, n_y), dtype=kind)
        return cls(settings, cost, initial_x, initial_y, counts_x, counts_y)

    @property
    def n_transitions(self) -> int:
        """Transitions of each chain that were counted."""
        return self.k * self.settings.batch_size

    @property
    def n_eff(self) -> float:
        """(sum of weights)^2 / sum of squared weights: how many equal ones would be worth as much."""
        n, h = self.n_transitions, self.settings.half_life
        if h is None or n == 0 or h > 1e100:  # nothing is forgotten
            return float(n)
        d = math.log(2.0) / h
        return math.expm1(-n * d) ** 2 * math.expm1(-2 * d) / (math.expm1(-d) ** 2 * math.expm1(-2 * n * d))

    def counts(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Both tables, the newest transition weighing 1."""
        h = self.settings.half_life
        if h is None:
            return self.counts_x, self.counts_y
        newest = 2.0 ** (-(self.n_transitions % period_of(h)) / h)
        return newest * self.counts_x, newest * self.counts_y

    def next_row(self) -> int:
        """The step at which the next row of the trace is due."""
        h = self.settings.half_life
        if h is None:
            return FIRST_SOLVE << max(0, (self.k // FIRST_SOLVE).bit_length())
        every = max(FEWEST_STEPS, math.ceil(h / 2 / self.settings.batch_size))
        return (self.k // every + 1) * every


def add_counts(table: NDArray[Any], now: Ints, following: Ints) -> None:
    """Add transitions to a table of counts."""
    n = len(table)
    if n * n <= 4096:  # small tables are added whole, which takes a third of the time
        table += np.bincount((now * n + following).ravel(), minlength=n * n).reshape(n, n)
    else:
        np.add.at(table, (now, following), 1)


def period_of(half_life: float) -> int:
    """Transitions after which decayed counts are scaled back."""
    return max(1, round(half_life))


def merge(one: CountState, other: CountState) -> CountState:
    """The counts of two shards of one run, added up; both without decay and of the same problem."""
    if one.settings.half_life is not None or other.settings.half_life is not None:
        raise ValueError("half_life: found a state that forgets; shards of such runs have no common newest transition")
    same = all(np.array_equal(getattr(one, f), getattr(other, f)) for f in ("cost", "initial_x", "initial_y"))
    if not same or replace(one.settings, n_steps=None) != replace(other.settings, n_steps=None):
        raise ValueError("other: found a state with another cost, start or options; merge shards of one problem")
    counts = one.counts_x + other.counts_x, one.counts_y + other.counts_y
    planned = (one.settings.n_steps, other.settings.n_steps)
    n_steps = None if None in planned else sum(n for n in planned if n is not None)
    settings = replace(one.settings, n_steps=n_steps)
    return CountState(settings, one.cost, one.initial_x, one.initial_y, *counts, one.k + other.k, known=one.known)


COUNT_FORMAT = "somcot.counts/1"
TABLES = ("cost", "initial_x", "initial_y", "counts_x", "counts_y")


def counts_to_record(state: CountState) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Counts and settings as arrays and a JSON record."""
    arrays = {name: getattr(state, name) for name in TABLES}
    for place, snapshot in enumerate(state.pending):
        arrays |= {f"pending.{place}.x": snapshot.counts_x, f"pending.{place}.y": snapshot.counts_y}
    if state.trace:
        arrays["trace"] = np.array(state.trace, dtype=np.float64)
    steps = [snapshot.k for snapshot in state.pending]
    return arrays, {"format": COUNT_FORMAT, "options": asdict(state.settings), "k": state.k, "pending": steps}


def counts_from_record(arrays: dict[str, NDArray[Any]], record: dict[str, Any]) -> CountState:
    """The state of a record written by `counts_to_record`; a `CheckpointError` refuses anything else."""
    try:
        settings = CountSettings(**record["options"])
        check_discount(settings.discount)
        state = CountState.empty(settings, *(arrays[name] for name in TABLES[:3]))
        for name in TABLES[3:]:
            before, table = getattr(state, name), arrays[name]
            if (before.shape, before.dtype) != (table.shape, table.dtype) or table.min(initial=0) < 0:
                raise ValueError(f"{name} has shape {table.shape} of {table.dtype}")
            setattr(state, name, table)
        state.k = check_count("k", record["k"], at_least=0)
        if settings.n_steps is not None and state.k > check_count("n_steps", settings.n_steps):
            raise ValueError(f"step {state.k} of {settings.n_steps}")
        state.trace = [tuple(values) for values in arrays["trace"].tolist()] if "trace" in arrays else []
        state.pending = [
            Snapshot(check_count("pending", k), arrays[f"pending.{place}.x"], arrays[f"pending.{place}.y"])
            for place, k in enumerate(record["pending"])
        ]
    except MemoryError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(f"the checkpoint does not hold together ({error}); go back to an older copy") from None
    return state
