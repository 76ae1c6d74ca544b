"""SOMCOT as a fold over transitions: a state, steps that change it, a result read off it."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.couplings import conditional
from somcot.plumbing.arrays import Floats
from somcot.plumbing.lazy import Later
from somcot.plumbing.validation import check_labels
from somcot.result import Bounds, Maps, Result, Status
from somcot.solvers.assemble import Answer, Ending, Question, assemble
from somcot.solvers.somcot import averages, dense, observed
from somcot.solvers.somcot.counted import Counted, counted_later
from somcot.solvers.somcot.diagnosis import notes
from somcot.solvers.somcot.growth import grow
from somcot.solvers.somcot.records import Edges
from somcot.solvers.somcot.state import State, span
from somcot.streams import check_pairs

__all__ = ["Batch", "Earlier", "advance", "estimate", "finish", "run_kernel", "slices"]

SLICE_SECONDS = 0.025


class Batch(NamedTuple):
    """Transitions of both chains for whole steps, as index arrays (n_steps, batch_size)."""

    x: NDArray[np.int64]
    next_x: NDArray[np.int64]
    y: NDArray[np.int64]
    next_y: NDArray[np.int64]

    def part(self, first: int, last: int) -> Batch:
        """Steps first, ..., last - 1."""
        return Batch(*(array[first:last] for array in self))


def advance(state: State, x: tuple[Any, Any], y: tuple[Any, Any]) -> State:
    """Feed transitions of both chains, ``batch_size`` of each for one step, and return the state.

    Parameters
    ----------
    state : State
        Used up: go on with the one returned.
    x, y : pair of int array_like
        ``(states, next_states)`` of each chain, all of one length.
    """
    batch = _as_batch(state, x, y)
    for after in slices(state, batch):
        state = after
    return state


def slices(state: State, batch: Batch) -> Iterator[State]:
    """Run the steps of a batch in slices of some 25 ms; where they are cut changes no bit of the outcome."""
    done, total = 0, len(batch.x)
    while done < total:
        stop = min(total, done + _until_event(state))
        state, known = _learn(state, batch.part(done, stop))
        n = min(known, state.pace)
        began = time.perf_counter()
        run_kernel(state, batch.part(done, done + n))
        seconds = time.perf_counter() - began
        if seconds > SLICE_SECONDS:
            state.pace = max(1, int(state.pace * max(0.25, SLICE_SECONDS / seconds)))
        elif n == state.pace and seconds < SLICE_SECONDS / 2:
            state.pace *= 2
        done += n
        _record(state)
        yield state


class Earlier(NamedTuple):
    """What a run in phases did before the one that is read off."""

    steps: int  # of the phases before
    trace: list[tuple[float, ...]]
    all_steps: int  # those after the phase included, which an unfinished one took


def finish(
    state: State,
    *,
    states_x: Sequence[Hashable] | None = None,
    states_y: Sequence[Hashable] | None = None,
    status: Status | None = None,
    seconds: float = 0.0,
    earlier: Earlier | None = None,
) -> Result:
    """Read off the result; the state can go on afterwards.

    `status` is by default FINISHED once the planned steps are done, else INTERRUPTED. `earlier` is for runs in phases.
    """
    if state.k == 0:
        raise ValueError("state: no step was done yet, so there is nothing to average; feed transitions with advance")
    n_x, n_y = state.cost.shape
    labels_x, labels_y = _labels("states_x", states_x, n_x), _labels("states_y", states_y, n_y)
    if status is None:
        status = Status.FINISHED if state.k >= state.settings.n_steps else Status.INTERRUPTED
    began = time.perf_counter() - seconds
    mean, counted = averages.averages(state), counted_later(state)
    answer = _answer(state, mean)._replace(bounds=counted.part("bounds"))
    message = _message(state, status, mean.n, sum(answer.residuals), earlier)
    before, rows = (0, []) if earlier is None else (earlier.steps, earlier.trace)
    rows = rows + [(before + row[0], *row[1:]) for row in state.trace]
    said = tuple(notes(state, answer.distance, answer.residuals, labels_x, labels_y))
    return assemble(
        Question(state.settings.discount, labels_x, labels_y),
        answer,
        Ending("somcot", status, message, before + state.k, began, trace_columns(rows)),
        samples=(int(state.counts_x.sum()), int(state.counts_y.sum())),
        duals=averages.duals(state, mean, span(state.cost)),
        counted=counted.part("distance"),
        notes=Later(partial(_all_notes, counted, answer.distance, span(state.cost), said)),
    )


def trace_columns(rows: list[tuple[float, ...]]) -> dict[str, Floats]:
    """The rows of a trace by name."""
    return dict(zip(TRACE, np.array(rows).reshape(-1, len(TRACE)).T, strict=True))


def _all_notes(counted: Later[Counted], distance: float, scale: float, said: tuple[str, ...]) -> tuple[str, ...]:
    """What the chains of the transitions say of the run, before what the run says of itself."""
    return *counted().verdict(distance, scale), *said


def _answer(state: State, mean: averages.Averages) -> Answer:
    """What the averaged iterates say, without the extra start state."""
    n_x, n_y = state.cost.shape
    law = ordinary(state, mean.state_law)
    distance = _distance(state, law)
    V = span(state.cost) * mean.V[:n_x, :n_y]
    start = float((averages.start_law(state, mean) * V).sum())
    return Answer(
        distance,
        Bounds(float(state.cost.min()), float(state.cost.max())),
        Maps(conditional(mean.encoder[:n_x, :n_y]), conditional(mean.decoder[:n_y, :n_x])),
        # V is free up to a constant; this one makes distance = (1 - discount) V(start).
        V + distance / (1 - state.settings.discount) - start,
        law,
        averages.residuals(state, mean),
        averages.coupling(state, mean, law),
    )


def _labels(name: str, labels: Sequence[Hashable] | None, n: int) -> tuple[Hashable, ...]:
    return tuple(range(n)) if labels is None else check_labels(name, labels, n)


TRACE = ("step", "distance", "recent", "flow", "causal_x", "causal_y")


def run_kernel(state: State, batch: Batch) -> None:
    """Take the steps of a batch, whose transitions the support must know."""
    kernel = dense.advance if state.settings.support == "full" else observed.advance
    slots_x = state.edges_x.slot[batch.x, batch.next_x].astype(np.uint64)
    slots_y = state.edges_y.slot[batch.y, batch.next_y].astype(np.uint64)
    kernel(state.x, state.y, state.pairs, state.rates, state.work, state.mu_sum, batch.x, slots_x, batch.y, slots_y)
    np.add.at(state.counts_x, (batch.x, batch.next_x), 1)
    np.add.at(state.counts_y, (batch.y, batch.next_y), 1)


def estimate(state: State) -> float:
    """The distance as it stands."""
    return _distance(state, ordinary(state, averages.averages(state).state_law))


def _until_event(state: State) -> int:
    """Steps until the trace gets a row or the averaged share begins."""
    k, every, window = state.k, state.settings.trace_every, state.settings.window_start
    until = every - k % every
    return min(until, window - k) if k < window else until


def _record(state: State) -> None:
    """Note the sums where the averaged share begins, and a row of the trace where one is due."""
    k = state.k
    if k == state.settings.window_start:
        state.mark = averages.snapshot(state)
    if k % state.settings.trace_every == 0:
        mean = averages.averages(state)
        total = state.pairs.p_sum.copy()
        recent = (total if state.last is None else total - state.last).reshape(mean.state_law.shape)
        values = (_distance(state, ordinary(state, law)) for law in (mean.state_law, recent))
        state.trace.append((float(k), *values, *averages.residuals(state, mean)))
        state.last = total


def _learn(state: State, batch: Batch) -> tuple[State, int]:
    """Let a growing support take in the first step's transitions; count the steps that need no more growth."""
    unknown = (state.edges_x.slot[batch.x, batch.next_x] < 0) | (state.edges_y.slot[batch.y, batch.next_y] < 0)
    late = np.flatnonzero(unknown.any(axis=1))
    if late.size == 0:
        return state, len(batch.x)
    if late[0] > 0:
        return state, int(late[0])
    mask_x, mask_y = state.edges_x.mask, state.edges_y.mask
    mask_x[batch.x[0], batch.next_x[0]] = True
    mask_y[batch.y[0], batch.next_y[0]] = True
    bigger = grow(state, Edges.from_mask(mask_x), Edges.from_mask(mask_y))
    return bigger, int(late[1]) if late.size > 1 else len(batch.x)


def ordinary(state: State, law: Floats) -> Floats:
    """A law over pairs without the extra start state; the product start law when nothing else has mass yet."""
    n_x, n_y = state.cost.shape
    part = law[:n_x, :n_y]
    total = part.sum()
    return np.asarray(part / total if total > 0 else np.outer(state.initial_x, state.initial_y))


def _distance(state: State, law: Floats) -> float:
    """<law, c>, computed so that shifting or scaling the cost shifts or scales it, and within its range."""
    low, high, scale = float(state.cost.min()), float(state.cost.max()), span(state.cost)
    return min(max(low + scale * float((law * ((state.cost - low) / scale)).sum()), low), high)


def _message(state: State, status: Status, n: int, violation: float, earlier: Earlier | None) -> str:
    which = "all" if n == state.k else f"the last {n:,}"
    ends = {
        Status.EXHAUSTED: "a stream ended",
        Status.INTERRUPTED: "interrupted",
        Status.FINISHED: "all planned steps done" if earlier is None else "time is up",
        Status.CONVERGED: "all planned steps done",
    }
    if earlier is None:
        work = f"{state.k:,} of {state.settings.n_steps:,} steps"
    else:
        whole = "the last finished phase" if state.k == state.settings.n_steps else "the first phase, cut short,"
        work = f"{earlier.all_steps:,} steps; the answer is that of {whole} of {state.k:,}"
    violated = f"averages over {which} iterates violate the constraints by {violation:.2g} in total"
    return f"{ends[status]} after {work}; {violated}"


def _as_batch(state: State, x: tuple[Any, Any], y: tuple[Any, Any]) -> Batch:
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
