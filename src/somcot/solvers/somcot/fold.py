"""SOMCOT as a fold over transitions: a state, steps that change it, a result read off it."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.clocks import Clock
from somcot.couplings import conditional
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_labels
from somcot.plumbing.errors import ConvergenceWarning, warn
from somcot.result import Details, Maps, Result, Status
from somcot.solvers.somcot import averages, counted, sweeps
from somcot.solvers.somcot.averages import CountedDistance, notes
from somcot.solvers.somcot.state import CountState, Snapshot, State, grow, span
from somcot.solvers.somcot.updates import Row, TraceBuffer, Transitions
from somcot.streams import check_pairs

__all__ = ["Batch", "Earlier", "advance", "estimate", "finish", "run_kernel", "slices"]

SLICE_SECONDS = 0.025
COUNTED_SLICE = 1024  # steps of a run that counts
MOST_PENDING = 1_000_000  # numbers kept for trace rows that have not been read yet


class Batch(NamedTuple):
    """Transitions of both chains for whole steps, as index arrays (n_steps, batch_size)."""

    x: NDArray[np.int64]
    next_x: NDArray[np.int64]
    y: NDArray[np.int64]
    next_y: NDArray[np.int64]

    def part(self, first: int, last: int) -> Batch:
        """Steps first, ..., last - 1."""
        return Batch(*(array[first:last] for array in self))


def advance(state: Any, x: tuple[Any, Any], y: tuple[Any, Any]) -> Any:
    """Feed transitions of both chains, ``batch_size`` of each for one step, and return the state.

    Parameters
    ----------
    state : State or CountState
        Used up: go on with the one returned.
    x, y : pair of int array_like
        ``(states, next_states)`` of each chain, all of one length.
    """
    batch = _as_batch(state, x, y)
    for after in slices(state, batch):
        state = after
    return state


def slices(state: Any, batch: Batch) -> Iterator[Any]:
    """Run the steps of a batch in slices of some 25 ms; where they are cut changes no bit of the outcome."""
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
        if state.k == state.settings.window_start:
            state.mark = averages.snapshot(state)
        _take_over(state, sheet, now)
        done += most


class Earlier(NamedTuple):
    """What a run in phases did before the one that is read off."""

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
    """Read off the result; the state can go on afterwards.

    `status` is by default FINISHED once the planned steps are done, else INTERRUPTED. `earlier` is for Algorithm 2 in
    phases. A ConvergenceWarning follows when the distance is not that of the transitions that were fed.
    """
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
    if run.counted.is_off(distance, scale):
        note = verdict[0]
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
        return _message(state, status, mean.n, violation, earlier)

    trace = partial(_all_rows, state, *parts)
    return _FinishedRun(state, mean, averages.compare(fed), message, trace, state.k, sizes, before)


def _read_counts(state: CountState, status: Status) -> _FinishedRun:
    """Of a run that counts: the averages of the saddle iteration on the counted chains."""
    solution, n = counted.solve(state), state.n_transitions
    last = counted.row(state.k, solution)
    frozen = replace(state, solution=None, pending=[], trace=[])
    trace = partial(_counted_rows, frozen, tuple(state.trace), tuple(state.pending), last)

    def message(violation: float) -> str:
        planned = state.settings.n_steps
        work = f"{state.k:,} of {planned:,} steps" if planned is not None else f"{state.k:,} steps"
        forgot = ""
        if state.settings.half_life is not None:
            forgot = f" (worth {state.n_effective:,.0f}, with a half-life of {state.settings.half_life:,g})"
        ends = _ENDS | ({Status.FINISHED: "time is up"} if planned is None else {})
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
    return trace_columns([*earlier, last])


def trace_columns(rows: list[tuple[float, ...]]) -> dict[str, Floats]:
    """The rows of a trace by name."""
    return dict(zip(TRACE, np.array(rows).reshape(-1, len(TRACE)).T, strict=True))


def _labels(name: str, labels: Sequence[Hashable] | None, n: int) -> tuple[Hashable, ...]:
    return tuple(range(n)) if labels is None else check_labels(name, labels, n)


TRACE = ("step", "distance", "recent", "flow", "causal_x", "causal_y")
NO_ROWS = TraceBuffer(1 << 62, 0, np.zeros((0, 0)))


class Slots(NamedTuple):
    """Where the transitions of a batch stand among those of their states, as the kernels want it."""

    x: NDArray[np.uint64]
    y: NDArray[np.uint64]

    def part(self, first: int, last: int) -> Slots:
        """Steps first, ..., last - 1."""
        return Slots(self.x[first:last], self.y[first:last])


def run_kernel(state: State, batch: Batch, slots: Slots | None = None, sheet: TraceBuffer = NO_ROWS) -> None:
    """Take the steps of a batch, whose transitions the support must know; they are counted elsewhere."""
    kernel = sweeps.advance_full if state.settings.support == "full" else sweeps.advance_observed
    x, y = slots or _slots(state, batch)
    kernel(state.x, state.y, state.pairs, state.rates, state.work, state.mu_sum, sheet, batch.x, x, batch.y, y)


def _slots(state: State, batch: Batch) -> Slots:
    found = (state.edges_x.slot[batch.x, batch.next_x], state.edges_y.slot[batch.y, batch.next_y])
    return Slots(*(places.astype(np.uint64) for places in found))


def _count(counts: NDArray[np.int64], now: NDArray[np.int64], following: NDArray[np.int64]) -> None:
    """Add transitions to a table of counts; tables that are small are added whole, which takes a third of the time."""
    n = len(counts)
    if n * n <= 4096:
        counts += np.bincount((now * n + following).ravel(), minlength=n * n).reshape(n, n)
    else:
        np.add.at(counts, (now, following), 1)


def estimate(state: State) -> float:
    """The distance as it stands."""
    return averages.unit_distance(state, averages.averages(state).state_law)


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
            _count_steps(state, batch.part(counted, done))
            counted = done
            seen = [None if law is not None else counts.copy() for law, counts in
                    zip(state.known, (state.counts_x, state.counts_y), strict=True)]  # fmt: skip
        state.pending.append(Row(now, state.mark if now[0] >= state.settings.window_start else None, *seen))
    _count_steps(state, batch.part(counted, len(batch.x)))
    if len(state.pending) * averages.width(state) > MOST_PENDING:
        settle_trace(state)


def _count_steps(state: State, batch: Batch) -> None:
    _count(state.counts_x, batch.x, batch.next_x)
    _count(state.counts_y, batch.y, batch.next_y)


def settle_trace(state: State | CountState) -> None:
    """Work out the rows of the trace that are there as sums only; those of a run that counts may wait."""
    if isinstance(state, State) and state.pending:
        state.trace = [*state.trace, *rows_of(state, state.pending, state.last)]
        state.last = averages.noted(state, state.pending[-1].now).state_law
        state.pending = []


def rows_of(state: State, pending: Sequence[Row], last: Floats | None) -> list[tuple[float, ...]]:
    """Rows of the trace from their sums; of the state only what never changes is read."""
    rows = []
    for row in pending:
        now = averages.noted(state, row.now)
        mean = averages.averages(state, now, row.mark)
        recent = now.state_law if last is None else now.state_law - last
        laws = (mean.state_law, recent.reshape(mean.state_law.shape))
        values = (averages.unit_distance(state, law) for law in laws)
        rows.append((float(now.k), *values, *averages.residuals(state, mean, (row.counts_x, row.counts_y))))
        last = now.state_law
    return rows


def _all_rows(
    state: State, before: tuple[tuple[float, ...], ...], rows: tuple[tuple[float, ...], ...],
    pending: tuple[Row, ...], last: Floats | None, shift: int,
) -> dict[str, Floats]:  # fmt: skip
    """The whole trace, when it is first read."""
    own = [*rows, *rows_of(state, pending, last)]
    return trace_columns([*before, *((shift + row[0], *row[1:]) for row in own)])


def _learn(state: State, batch: Batch) -> tuple[State, int, Slots]:
    """Let a growing support take in the first step's transitions; count the steps that need no more growth."""
    places = state.edges_x.slot[batch.x, batch.next_x], state.edges_y.slot[batch.y, batch.next_y]
    late = np.flatnonzero(((places[0] < 0) | (places[1] < 0)).any(axis=1))
    if late.size and late[0] == 0:
        mask_x, mask_y = state.edges_x.mask, state.edges_y.mask
        mask_x[batch.x[0], batch.next_x[0]] = True
        mask_y[batch.y[0], batch.next_y[0]] = True
        settle_trace(state)
        state = grow(state, Transitions.from_mask(mask_x), Transitions.from_mask(mask_y))
        return _learn(state, batch)
    known = int(late[0]) if late.size else len(batch.x)
    return state, known, Slots(*(found[:known].astype(np.uint64) for found in places))


_ENDS = {
    Status.EXHAUSTED: "a stream ended",
    Status.INTERRUPTED: "interrupted",
    Status.FINISHED: "all planned steps done",
    Status.CONVERGED: "all planned steps done",
}


def _message(state: State, status: Status, n: int, violation: float, earlier: Earlier | None) -> str:
    which = "all" if n == state.k else f"the last {n:,}"
    ends = _ENDS if earlier is None else _ENDS | {Status.FINISHED: "time is up"}
    if earlier is None:
        work = f"{state.k:,} of {state.settings.n_steps:,} steps"
    else:
        whole = "the last finished phase" if state.k == state.settings.n_steps else "the first phase, cut short,"
        work = f"{earlier.all_steps:,} steps; the answer is that of {whole} of {state.k:,}"
    violated = f"averages over {which} iterates violate the constraints by {violation:.2g} in total"
    return f"{ends[status]} after {work}; {violated}"


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
