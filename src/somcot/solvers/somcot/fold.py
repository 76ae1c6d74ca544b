"""SOMCOT as a fold over transitions: options and an initial state, steps that update it, and its result."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot import steps as rules
from somcot.clocks import Clock
from somcot.couplings import conditional
from somcot.plumbing import checks
from somcot.plumbing.arrays import Floats
from somcot.plumbing.errors import ConvergenceWarning, warn
from somcot.plumbing.memory import require
from somcot.result import Details, Maps, Result, Status
from somcot.solvers.somcot import averages, counted, sweeps
from somcot.solvers.somcot.averages import CountedDistance, notes
from somcot.solvers.somcot.state import (
    CountSettings,
    CountState,
    RunSettings,
    Snapshot,
    State,
    Support,
    add_counts,
    build,
    grow,
    reach,
    span,
)  # fmt: skip
from somcot.solvers.somcot.updates import Edges, Row, TraceBuffer
from somcot.steps import Steps
from somcot.streams import check_pairs

__all__ = ["FORMER", "Batch", "Earlier", "Origin", "SomcotOptions", "advance", "finish", "run_kernel", "slices"]

SLICE_SECONDS, COUNTED_SLICE = 0.025, 1024  # steps of a run that counts
MOST_STEPS, MOST_BATCH = 10**12, 10**9  # months of computing, and gigabytes
MOST_PENDING = 1_000_000  # numbers kept for trace rows that have not been read yet


# --- Options, and from there to the first state.

_LEAST_DISCOUNT = 1e-100
# Bytes for each entry of the tables of states by states, for Algorithm 2 and with fitted chains (measured: 220).
ITERATED_BYTES, COUNTED_BYTES = 40.0, 240.0
FORMER = "former"  # the automatic rates of earlier versions: their checkpoints continue with them


@dataclass(frozen=True)
class SomcotOptions:
    """Options of SOMCOT, checked when made; `solve` and `init` take them as keywords.

    Parameters
    ----------
    n_steps : int, optional
        Planned number K of steps, each of `batch_size` transitions. By default one pass over recorded samples of the
        occupancy, otherwise max(10,000, 200 n_x n_y).
    primal_step, dual_step : float or three floats, optional
        Explicit rates in the unit of the cost, as in the paper's table: eta for (mu, lambda_X, lambda_Y), beta for
        (alpha_X, alpha_Y, V). What is left out comes from `steps`, or `somcot.steps.auto`.
    decay : float
        a of eta_k = eta / sqrt(1 + a k).
    batch_size : int
        Transitions of each chain in one step; Algorithm 2 averages their gradients.
    steps : "auto", "paper", "theorem" or Steps
        "auto" counts transitions and solves the saddle point on the counted chains. The others are the paper's
        Algorithm 2: with the rates of its table (`somcot.steps.paper`), of Theorem 1, or these.
    average : float
        Last share of the iterates that is averaged; 1.0 = all, as in the paper.
    support : "full" or "observed", optional
        mu on all quadruples of states, as in the paper and the default of Algorithm 2, or on pairs of transitions that
        occur, the default otherwise.
    half_life : float, optional
        Forget: after so many transitions of each chain one weighs half as much as a new one. With steps="auto" only.
    keep_coupling : bool
        Average the whole of mu for `Result.coupling`; costs (n_x n_y)^2 memory with full support.

    Examples
    --------
    >>> SomcotOptions(n_steps=1000, primal_step=40).primal_step
    (40.0, 40.0, 40.0)
    >>> SomcotOptions(average=2)
    Traceback (most recent call last):
    ValueError: average: found 2, expected a share above 0 and at most 1
    """

    n_steps: int | None = None
    primal_step: float | Sequence[float] | None = None
    dual_step: float | Sequence[float] | None = None
    decay: float = 0.0
    batch_size: int = 1
    steps: str | Steps = "auto"
    average: float = 0.5
    support: Support | None = None
    half_life: float | None = None
    keep_coupling: bool = False

    def __post_init__(self) -> None:
        given = self._given()
        checked = {
            "n_steps": None if (n := self.n_steps) is None else checks.check_count("n_steps", n, at_most=MOST_STEPS),
            "primal_step": None if self.primal_step is None else given[:3],
            "dual_step": None if self.dual_step is None else given[3:6],
            "decay": given.decay,
            "batch_size": checks.check_count("batch_size", self.batch_size, at_most=MOST_BATCH),
            "steps": _checked_rule(self.steps),
            "average": _checked_share(self.average),
            "keep_coupling": checks.check_flag("keep_coupling", self.keep_coupling),
            "half_life": None if self.half_life is None else checks.check_positive("half_life", self.half_life),
        }
        if self.half_life is not None and self.half_life < 1.0:
            raise ValueError(f"half_life: found {self.half_life!r}, expected at least 1 transition")
        if self.half_life is not None and not self.counts:
            raise ValueError("half_life: Algorithm 2 keeps no counts that could be forgotten; use steps='auto'")
        if isinstance(self.steps, Steps) and self.steps.decay and self.decay:
            raise ValueError(f"decay: found {self.decay}, and {self.steps.decay} in steps; give it once")
        if self.support is not None:
            checks.check_text("support", self.support, "full", "observed")
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def counts(self) -> bool:
        """Whether transitions are counted; explicit rates select Algorithm 2."""
        return self.steps == "auto" and self.primal_step is None and self.dual_step is None and not self.decay

    def begin(self, cost: Floats, discount: float, x: Origin, y: Origin) -> State:
        """The initial state of a run of Algorithm 2, from checked arguments."""
        settings = self.settings(cost, discount)
        _check_size(cost, discount)
        # A coupling of the first states has to be looked for only when both are random.
        extra = all(np.count_nonzero(side.initial) > 1 for side in (x, y))
        edges_x, edges_y = (side.edges(settings.support, extra) for side in (x, y))
        return build(settings, cost, x.initial, y.initial, edges_x, edges_y)

    def begin_counting(self, cost: Floats, discount: float, x: Origin, y: Origin) -> CountState:
        """The first state of a run that counts."""
        _check_size(cost, discount)
        n_x, n_y = cost.shape
        what = f"counting the transitions of {n_x} x {n_y} states, and fitting chains to them,"
        remedy = "only explicit rates are available: steps='paper' or primal_step=, dual_step= and support='observed'"
        require(COUNTED_BYTES * (n_x**2 + n_y**2), what, remedy)
        support: Support = self.support or "observed"
        own = (self.batch_size, self.average, support, self.keep_coupling, self.half_life)
        return CountState.empty(CountSettings(discount, self.n_steps, *own), cost, x.initial, y.initial)

    def settings(self, cost: Floats, discount: float) -> RunSettings:
        """Settings of a run of Algorithm 2 with this cost; `n_steps` must be known."""
        n_steps = checks.check_count("n_steps", self.n_steps)
        # Explicit rates and the paper's radii are in the unit of the cost, automatic ones in that of its range.
        own = self.steps == "paper" or isinstance(self.steps, Steps)
        own = own or self.primal_step is not None or self.dual_step is not None
        return RunSettings(
            discount,
            n_steps,
            self._rates(cost, discount, n_steps),
            reach(cost) if own else span(cost),
            self.batch_size,
            self.average,
            self.support or "full",
            self.keep_coupling,
        )

    def _rates(self, cost: Floats, discount: float, n_steps: int) -> Steps:
        """Rates in the unit of the cost; explicit values take precedence."""
        n_x, n_y = cost.shape
        if isinstance(self.steps, Steps):
            rule = self.steps
        elif self.steps == "paper":
            rule = rules.paper()
        elif self.steps in ("auto", FORMER):
            rule = rules.auto(n_x, n_y, n_steps, span(cost))
        else:
            rule = rules.theorem(n_x, n_y, discount, n_steps, span(cost))
        if self.primal_step is None and self.dual_step is None:
            return rule._replace(decay=rule.decay or self.decay)
        given = self._given()
        primal, dual = (rule if side is None else given for side in (self.primal_step, self.dual_step))
        return Steps(*primal[:3], *dual[3:6], given.decay)

    def _given(self) -> Steps:
        """The explicit rates, with 1 where there are none."""
        primal, dual = (1.0 if step is None else step for step in (self.primal_step, self.dual_step))
        return rules.explicit(primal, dual, self.decay)


class Origin(NamedTuple):
    """Where one chain starts, and which transitions it can take where that is known."""

    initial: Floats
    transitions: NDArray[np.bool_] | None = None

    def edges(self, support: Support, extra: bool) -> Edges:
        """The transitions mu may use, those out of an extra start state included."""
        n = len(self.initial)
        if support == "full":
            return Edges.full(n + extra)
        mask = np.zeros((n + extra, n + extra), dtype=bool)
        if self.transitions is not None:
            mask[:n, :n] = self.transitions
        if extra:
            mask[n, :n] = self.initial > 0
        return Edges.from_mask(mask)


def _check_size(cost: Floats, discount: float) -> None:
    if discount < _LEAST_DISCOUNT:
        raise ValueError(
            f"discount: found {discount!r}, expected at least {_LEAST_DISCOUNT:g} for SOMCOT, whose steps divide "
            "by it; use a larger discount, or method='exact' for known chains"
        )
    n_x, n_y = cost.shape
    # Counts, occupancies and the places of transitions are tables of states by states on each side.
    wanted, remedy = ITERATED_BYTES * (n_x**2 + n_y**2), "merge states, or use method='exact'"
    require(wanted, f"SOMCOT on {n_x} x {n_y} states", remedy)


def _checked_rule(steps: object) -> str | Steps:
    if isinstance(steps, Steps):
        return rules.explicit(steps[:3], steps[3:6], steps.decay)
    if not isinstance(steps, str) or steps not in ("auto", "paper", "theorem", FORMER):
        raise ValueError(f"steps: found {steps!r}, expected 'auto', 'theorem', 'paper' or a somcot.steps.Steps record")
    return steps


def _checked_share(average: object) -> float:
    if not checks.is_real(average) or not 0.0 < average <= 1.0:  # type: ignore[operator]
        raise ValueError(f"average: found {average!r}, expected a share above 0 and at most 1")
    return float(average)  # type: ignore[arg-type]


# --- Steps.


class Batch(NamedTuple):
    """Transitions of both chains for whole steps, as index arrays (n_steps, batch_size)."""

    x: NDArray[np.int64]
    next_x: NDArray[np.int64]
    y: NDArray[np.int64]
    next_y: NDArray[np.int64]

    def part(self, first: int, last: int) -> Batch:
        """Steps first, ..., last - 1."""
        return Batch(*(array[first:last] for array in self))

    def add_to(self, state: State) -> None:
        """Count the transitions."""
        add_counts(state.counts_x, self.x, self.next_x)
        add_counts(state.counts_y, self.y, self.next_y)


def advance(state: Any, x: tuple[Any, Any], y: tuple[Any, Any]) -> Any:
    """Feed transitions of both chains, ``batch_size`` of each for one step, and return the state.

    Parameters
    ----------
    state : State or CountState
        Changed in place: continue with the returned one.
    x, y : pair of int array_like
        ``(states, next_states)`` of each chain, all of one length.
    """
    checks.check_kind("state", state, State, CountState)
    batch = _as_batch(state, x, y)
    for after in slices(state, batch):
        state = after
    return state


def slices(state: Any, batch: Batch) -> Iterator[Any]:
    """Run the steps of a batch in slices of some 25 ms; the result does not depend on the slices."""
    if isinstance(state, CountState):
        for first in range(0, len(batch.x), COUNTED_SLICE):
            x, next_x, y, next_y = (array.ravel() for array in batch.part(first, first + COUNTED_SLICE))
            yield counted.count(state, (x, next_x), (y, next_y))
        return
    done, total = 0, len(batch.x)
    while done < total:
        state, known, slots = _learn(state, batch.part(done, total))
        begin, end = done, done + known
        while done < end:
            n = min(end - done, state.pace)
            began = time.perf_counter()
            _run(state, batch.part(done, done + n), slots.part(done - begin, done - begin + n))
            # The clock chooses how many steps make a slice, so that Ctrl-C takes effect soon; no number depends on it.
            seconds = time.perf_counter() - began
            if seconds > SLICE_SECONDS:
                state.pace = max(1, int(state.pace * max(0.25, SLICE_SECONDS / seconds)))
            elif n == state.pace and seconds < SLICE_SECONDS / 2:
                state.pace *= 2
            done += n
            yield state


def _run(state: State, batch: Batch, slots: Slots) -> None:
    """Take steps, and stop where the averaged share begins."""
    done, total = 0, len(batch.x)
    while done < total:
        sheet, most = _sheet(state, total - done)
        now = batch.part(done, done + most)
        run_kernel(state, now, slots.part(done, done + most), sheet)
        # Averages over the last share are differences of two sums: these are the first.
        if state.k == state.settings.window_start:
            state.mark = averages.snapshot(state)
        _take_over(state, sheet, now)
        done += most


class Earlier(NamedTuple):
    """The phases before the one whose result is returned."""

    steps: int  # of the phases before
    trace: list[tuple[float, ...]]
    all_steps: int  # those after the phase included, which an unfinished one took


def finish(
    state: State | CountState,
    *,
    states_x: Sequence[Hashable] | None = None,
    states_y: Sequence[Hashable] | None = None,
    status: Status | None = None,
    seconds: float = 0.0,
    earlier: Earlier | None = None,
) -> Result:
    """Return the result; the run can be continued afterwards.

    `status` is by default FINISHED once the planned steps are done, else INTERRUPTED. `earlier` is for Algorithm 2 in
    phases. A ConvergenceWarning follows when the distance is not that of the transitions that were fed.
    """
    checks.check_kind("state", state, State, CountState)
    checks.check_kind("status", status, Status, type(None))
    checks.check_number("seconds", seconds)
    checks.check_kind("earlier", earlier, Earlier, type(None))
    if state.k == 0:
        raise ValueError("state: no step was done yet, so there is nothing to average; feed transitions with advance")
    began = time.perf_counter()
    n_x, n_y = state.cost.shape
    labels_x, labels_y = _labels("states_x", states_x, n_x), _labels("states_y", states_y, n_y)
    if status is None:
        planned = state.settings.n_steps
        status = Status.FINISHED if planned is not None and state.k >= planned else Status.INTERRUPTED
    run = _read_counts(state, status) if isinstance(state, CountState) else _read_iterates(state, status, earlier)
    solved, mean, scale = run.state, run.mean, span(state.cost)
    distance, law = averages.unit_distance(solved, mean.state_law), averages.ordinary(solved, mean.state_law)
    V = scale * mean.V[:n_x, :n_y]
    start = float((averages.initial_distribution(solved, mean) * V).sum())
    residuals = averages.residuals(solved, mean)
    verdict = run.counted.verdict(distance, scale)
    for note in verdict:
        if note.code in ("not-converged", "iterations-cut"):
            warn(note, ConvergenceWarning)
    own_notes = notes(solved, distance, residuals, (labels_x, labels_y), run.n_steps, run.own_rates)
    details = RunDetails(
        run.rows,
        bounds=run.counted.bounds,
        counted=run.counted.distance,
        maps=Maps(conditional(mean.encoder[:n_x, :n_y]), conditional(mean.decoder[:n_y, :n_x])),
        # V is free up to a constant; this one makes distance = (1 - discount) V(start).
        potential=V + distance / (1 - state.settings.discount) - start,
        state_law=law,
        residuals=residuals,
        plan=averages.coupling(solved, mean, law),
        notes=(*verdict, *own_notes),
    )
    return Result(
        distance=distance,
        method="somcot",
        status=status,
        message=run.message(sum(residuals)),
        discount=state.settings.discount,
        n_steps=run.before + run.n_steps,
        seconds=seconds + (time.perf_counter() - began),
        states_x=labels_x,
        states_y=labels_y,
        samples=run.samples,
        duals=averages.duals(solved, mean, scale),
        clock=Clock("discount", state.settings.discount),
        n_eff=state.n_eff if isinstance(state, CountState) and state.settings.half_life is not None else None,
        details=details,
    )


class RunDetails(Details):
    """The details of a run; its trace is computed on first access."""

    def __init__(self, rows: Callable[[], dict[str, Floats]], **known: object) -> None:
        super().__init__(**known)
        self.rows = rows

    @cached_property
    def trace(self) -> Mapping[str, Floats]:
        """All rows of the trace, by column."""
        return self.rows()


class _FinishedRun(NamedTuple):
    """A run at its end, of either kind."""

    state: State
    mean: averages.Averages
    counted: CountedDistance
    message: Callable[[float], str]  # of the total constraint violation
    rows: Callable[[], dict[str, Floats]]
    n_steps: int
    samples: tuple[int, int]
    before: int = 0  # steps of earlier phases
    own_rates: bool = True  # whether the user chooses the step sizes


def _read_iterates(state: State, status: Status, earlier: Earlier | None) -> _FinishedRun:
    """Of Algorithm 2: the averages of its iterates."""
    mean = averages.averages(state)
    tables = state.counts_x, state.counts_y
    fed = averages.Fed(state.cost, state.settings.discount, state.initial_x, state.initial_y, *tables)
    before, rows = (0, []) if earlier is None else (earlier.steps, earlier.trace)
    parts = (tuple(rows), tuple(state.trace), tuple(state.pending), state.last, before)
    sizes = int(state.counts_x.sum()), int(state.counts_y.sum())

    def message(violation: float) -> str:
        return averages.message(state, status, mean.n, violation, None if earlier is None else earlier.all_steps)

    trace = partial(averages.all_rows, state, *parts)
    return _FinishedRun(state, mean, averages.compare(fed), message, trace, state.k, sizes, before)


def _read_counts(state: CountState, status: Status) -> _FinishedRun:
    """Of a run that counts: the averages of the saddle iteration on the counted chains."""
    solution, n = counted.solve(state), state.n_transitions
    last = counted.row(state.k, solution)
    # The trace is computed on first access, possibly after the run was continued, so the current state is kept.
    frozen = replace(state, solution=None, pending=[], trace=[])
    trace = partial(_counted_rows, frozen, tuple(state.trace), tuple(state.pending), last)

    def message(violation: float) -> str:
        planned = state.settings.n_steps
        work = f"{state.k:,} of {planned:,} steps" if planned is not None else f"{state.k:,} steps"
        forgot = ""
        if state.settings.half_life is not None:
            forgot = f" (n_eff {state.n_eff:,.0f}, with a half-life of {state.settings.half_life:,g})"
        ends = averages.ENDS | ({Status.FINISHED: "time is up"} if planned is None else {})
        return (
            f"{ends[status]} after {work}; {n:,} + {n:,} transitions counted{forgot}, and {solution.n_iterations:,} "
            "saddle iterations on the counted chains, whose averages violate the constraints by "
            f"{violation:.2g} in total"
        )

    return _FinishedRun(
        solution.state, solution.mean, solution.counted, message, trace, state.k, (n, n), own_rates=False
    )


def _counted_rows(
    state: CountState, trace: tuple[tuple[float, ...], ...], pending: tuple[Snapshot, ...], last: tuple[float, ...]
) -> dict[str, Floats]:
    """The trace of a run that counts, solved when it is first read."""
    earlier = [values for values in counted.rows(state, trace, pending) if values[0] < last[0]]
    return averages.trace_columns([*earlier, last])


def _labels(name: str, labels: Sequence[Hashable] | None, n: int) -> tuple[Hashable, ...]:
    return tuple(range(n)) if labels is None else checks.check_labels(name, labels, n)


NO_ROWS = TraceBuffer(1 << 62, 0, np.zeros((0, 0)))


class Slots(NamedTuple):
    """Positions of the transitions of a batch among those of their states, as required by the kernels."""

    x: NDArray[np.uint64]
    y: NDArray[np.uint64]

    def part(self, first: int, last: int) -> Slots:
        """Steps first, ..., last - 1."""
        return Slots(self.x[first:last], self.y[first:last])


def run_kernel(state: State, batch: Batch, slots: Slots | None = None, sheet: TraceBuffer = NO_ROWS) -> None:
    """Take the steps of a batch, whose transitions must be in the support; they are counted elsewhere."""
    kernel = sweeps.advance_full if state.settings.support == "full" else sweeps.advance_observed
    if slots is None:
        places = state.edges_x.slot[batch.x, batch.next_x], state.edges_y.slot[batch.y, batch.next_y]
        slots = Slots(*(place.astype(np.uint64) for place in places))
    x, y = slots
    kernel(state.x, state.y, state.pairs, state.rates, state.work, state.mu_sum, sheet, batch.x, x, batch.y, y)


def _sheet(state: State, most: int) -> tuple[TraceBuffer, int]:
    """Room for the rows of the trace in the next steps, and how many these are: `most`, or until something is due."""
    k, every, window, n = state.k, state.settings.trace_every, state.settings.window_start, averages.width(state)
    most = min(most, max(1, MOST_PENDING // n) * every - k % every)
    most = min(most, window - k) if k < window else most
    return TraceBuffer(every, k // every + 1, np.empty(((k + most) // every - k // every, n))), most


def _take_over(state: State, sheet: TraceBuffer, batch: Batch) -> None:
    """Count the transitions of a batch, and make its sheet rows of the trace.

    A row is kept as the sums it is made of as long as these are small: most rows are never read.
    """
    begin, counted = state.k - len(batch.x), 0
    for now in sheet.table:
        seen: list[Any] = [None, None]  # where the occupancy is not known, those who read the row need the counts then
        if any(law is None for law in state.known):
            done = int(now[0]) - begin
            batch.part(counted, done).add_to(state)
            counted = done
            seen = [None if law is not None else counts.copy() for law, counts in
                    zip(state.known, (state.counts_x, state.counts_y), strict=True)]  # fmt: skip
        state.pending.append(Row(now, state.mark if now[0] >= state.settings.window_start else None, *seen))
    batch.part(counted, len(batch.x)).add_to(state)
    if len(state.pending) * averages.width(state) > MOST_PENDING:
        averages.settle_trace(state)


def _learn(state: State, batch: Batch) -> tuple[State, int, Slots]:
    """Let a growing support take in the first step's transitions; count the steps that need no more growth."""
    places = state.edges_x.slot[batch.x, batch.next_x], state.edges_y.slot[batch.y, batch.next_y]
    late = np.flatnonzero(((places[0] < 0) | (places[1] < 0)).any(axis=1))
    if late.size and late[0] == 0:
        mask_x, mask_y = state.edges_x.mask, state.edges_y.mask
        mask_x[batch.x[0], batch.next_x[0]] = True
        mask_y[batch.y[0], batch.next_y[0]] = True
        averages.settle_trace(state)
        state = grow(state, Edges.from_mask(mask_x), Edges.from_mask(mask_y))
        return _learn(state, batch)
    known = int(late[0]) if late.size else len(batch.x)
    return state, known, Slots(*(found[:known].astype(np.uint64) for found in places))


def _as_batch(state: State | CountState, x: tuple[Any, Any], y: tuple[Any, Any]) -> Batch:
    """Check transitions and cut them into steps."""
    n_x, n_y = state.cost.shape
    now_x, then_x = check_pairs("x", x, n_x)
    now_y, then_y = check_pairs("y", y, n_y)
    b = state.settings.batch_size
    if len(now_x) != len(now_y) or len(now_x) % b:
        raise ValueError(
            f"x, y: found {len(now_x)} and {len(now_y)} transitions, expected equally many and a multiple of "
            f"batch_size = {b}"
        )
    return Batch(*(array.reshape(-1, b) for array in (now_x, then_x, now_y, then_y)))
