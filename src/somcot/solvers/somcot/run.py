"""Driving SOMCOT from two streams: draws, slices, interrupts, checkpoints, progress."""

from __future__ import annotations

import hashlib
import math
import os
import signal
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing import records as checkpoint
from somcot.plumbing.arrays import Floats, Ints
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note
from somcot.plumbing.text import Report
from somcot.recorded.sources import Position, Source, Stream, StreamError, block_size, check_pairs
from somcot.result import Status
from somcot.solvers.somcot import counted
from somcot.solvers.somcot.averages import estimate, settle_trace
from somcot.solvers.somcot.fold import Batch, Earlier, Origin, SomcotOptions, run_kernel, slices
from somcot.solvers.somcot.state import (
    COUNT_FORMAT,
    FIRST_SOLVE,
    CountState,
    RunSettings,
    State,
    counts_from_record,
    counts_to_record,
    from_record,
    to_record,
)  # fmt: skip

__all__ = ["FIRST_PHASE", "Phases", "Run", "drive", "read_state", "record_of", "restore", "state_record"]


# --- Algorithm 2 without a planned number of steps: phases of 1024, 2048, 4096, ... steps, each planned in itself.
#
# Rates of Algorithm 2 belong to a number of steps: large early dual steps stay in log mu for good, so rates that shrink
# on the way end up worse than rates planned for K. Each phase therefore starts afresh, with the rates of its own
# length and fresh transitions, and the answer is that of the last phase that was finished.
#
# Nothing here depends on the clock but when to stop. What is remembered across phases: the transitions counted, the
# transitions that can occur, and the trace.

FIRST_PHASE = 1024


@dataclass
class Phases:
    """The state of a run in phases, except that of the current phase.

    Attributes
    ----------
    options : Options
        As requested, without a number of steps.
    cost, discount, x, y
        The problem, and where its chains start.
    max_seconds : float
        When to stop; infinite for until the stream ends or someone interrupts.
    index : int
        Of the present phase, from 0 on.
    done : State or None
        The last finished phase.
    trace : list of rows
        Of the phases before `done`, with steps counted through.
    """

    options: SomcotOptions
    cost: Floats
    discount: float
    x: Origin
    y: Origin
    max_seconds: float
    index: int = 0
    done: State | None = None
    trace: list[tuple[float, ...]] = field(default_factory=list)

    @property
    def steps_before(self) -> int:
        """Steps of all previous phases."""
        return _steps(self.index)

    def first(self) -> State:
        """The state in which the first phase begins."""
        return self._planned().begin(self.cost, self.discount, self.x, self.y)

    def settings(self) -> RunSettings:
        """Settings of the current phase."""
        return self._planned().settings(self.cost, self.discount)

    def next(self, state: State) -> State:
        """Keep a phase that has ended, and begin the next."""
        settle_trace(state)
        if self.done is not None:
            self.trace = self.rows_so_far()
        self.done, self.index = state, self.index + 1
        n_x, n_y = self.cost.shape
        # Transitions seen in earlier phases belong to the support from the start.
        x = self.x._replace(transitions=state.edges_x.mask[:n_x, :n_x])
        y = self.y._replace(transitions=state.edges_y.mask[:n_y, :n_y])
        fresh = self._planned().begin(self.cost, self.discount, x, y)
        fresh.counts_x, fresh.counts_y = state.counts_x.copy(), state.counts_y.copy()
        fresh.known, fresh.pace = state.known, state.pace  # the pace is that of this machine, not of the phase
        return fresh

    def rows_so_far(self) -> list[tuple[float, ...]]:
        """The trace up to the end of the last finished phase."""
        if self.done is None:
            return []
        before = _steps(self.index - 1)
        return self.trace + [(before + row[0], *row[1:]) for row in self.done.trace]

    def answer(self, present: State) -> tuple[State, Earlier]:
        """The state that has the result, and the phases before it; during the first phase, the current one."""
        all_steps = self.steps_before + present.k
        if self.done is None:
            return present, Earlier(0, [], all_steps)
        return self.done, Earlier(_steps(self.index - 1), self.trace, all_steps)

    def to_record(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and numbers for a checkpoint, in addition to those of the current phase."""
        record: dict[str, Any] = {"index": self.index}
        arrays: dict[str, NDArray[Any]] = {}
        if self.trace:
            arrays["phases.trace"] = np.array(self.trace, dtype=np.float64)
        if self.done is not None:
            own, record["done"] = to_record(self.done)
            arrays |= {f"phases.done.{name}": array for name, array in own.items()}
        return arrays, record

    def load(self, arrays: dict[str, NDArray[Any]], record: dict[str, Any]) -> None:
        """Restore the record written by `to_record`."""
        index = record["index"]
        # A damaged file may hold any number, and 2^48 phases would overflow before later checks.
        if type(index) is not int or not 0 <= index < 48 or (index > 0) != ("done" in record):
            raise ValueError(f"phase {index!r}")
        self.index = index
        self.trace = [tuple(row) for row in arrays["phases.trace"].tolist()] if "phases.trace" in arrays else []
        if index:
            mark = "phases.done."
            own = {name.removeprefix(mark): array for name, array in arrays.items() if name.startswith(mark)}
            self.done = from_record(own, record["done"])
            if self.done.k != FIRST_PHASE << (index - 1) or self.done.k != self.done.settings.n_steps:
                raise ValueError(f"a finished phase of {self.done.k} steps")

    def _planned(self) -> SomcotOptions:
        return replace(self.options, n_steps=FIRST_PHASE << self.index)


def _steps(n_phases: int) -> int:
    """Steps of the first phases together."""
    return FIRST_PHASE * ((1 << n_phases) - 1)


# --- Driving a run.


class Interrupts:
    """Ctrl-C, or a request to terminate, while steps run is noted and obeyed after the slice.

    While a user's stream is being read, which may block, an interrupt takes effect at once (`open`). It must not come
    through in the midst of compiled code, which would turn it into a SystemError. Handlers that someone else has
    installed are left alone. A request to terminate ends the process after the checkpoint was written.
    """

    def __init__(self) -> None:
        self.requested = False
        self.open = False
        self._terminated = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        # Python lets only the main thread install handlers; other threads are never interrupted by signals.
        if threading.current_thread() is threading.main_thread():
            for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
                # A host such as a notebook or a server has its own handlers, which are left in place.
                if signal.getsignal(number) is usual:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._terminated:
            signal.raise_signal(signal.SIGTERM)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._terminated |= number == signal.SIGTERM
        # A second Ctrl-C abandons the slice.
        if self.open or self.requested:
            raise KeyboardInterrupt
        self.requested = True


@dataclass
class Run:
    """A state, its two streams, and where the streams were when the current block was drawn.

    `phases` is there for runs of Algorithm 2 without a planned number of steps. Time counts from `began`.
    """

    state: State | CountState
    x: Source
    y: Source
    path: str | os.PathLike[str] | None = None
    every: float = 10.0
    block_k: int = 0
    block_x: Position | None = None
    block_y: Position | None = None
    phases: Phases | None = None
    began: float = 0.0
    max_seconds: float = math.inf
    answers: bool = True  # whether counts are solved at the end

    def save(self) -> None:
        """Write the checkpoint, if requested; a failure does not end the run."""
        if self.path is None:
            return
        try:
            self._write(self.path)
        except OSError as error:
            reason = error.strerror or str(error)
            warn(Note("checkpoint-not-written", "checkpoint", path=str(self.path), reason=reason), DataWarning)

    def _write(self, path: str | os.PathLike[str]) -> None:
        settle_trace(self.state)
        arrays, record = state_record(self.state)
        streams: dict[str, Any] = {"block_k": self.block_k, "block_x": self.block_x, "block_y": self.block_y}
        streams |= {"kernel_x": _fingerprint(self.x), "kernel_y": _fingerprint(self.y)}
        if self.phases is not None:
            more, record["phases"] = self.phases.to_record()
            arrays |= more
        checkpoint.write_arrays(path, arrays, record | {"streams": streams})

    @property
    def steps_before(self) -> int:
        """Steps of the previous phases."""
        return 0 if self.phases is None else self.phases.steps_before

    @property
    def has_answer(self) -> bool:
        """Whether there is a result."""
        return self.state.k > 0 or (self.phases is not None and self.phases.done is not None)


def drive(run: Run, report: Report | None) -> Status:
    """Take steps until the planned number is done, the time is up, a stream ends or the run is interrupted."""
    # Compiled first: an interruption while compiling must not lose transitions that were drawn.
    if run.answers:
        _compile(run.state)
    with Interrupts() as interrupts:
        try:
            status = _in_phases(run, report, Watch(interrupts, time.monotonic()))
        except KeyboardInterrupt:
            if not run.has_answer:
                raise
            status = Status.INTERRUPTED
        except Exception:
            run.save()
            raise
        run.save()
        if run.answers and run.has_answer and isinstance(run.state, CountState):
            counted.solve(run.state)  # here, where Ctrl-C cannot come in the midst of compiled code
    return status


@dataclass
class Watch:
    """State checked between slices: requests to stop, and the time of the last checkpoint."""

    interrupts: Interrupts
    saved: float


def _to_the_end(run: Run, report: Report | None, watch: Watch) -> Status | None:
    """Take the planned steps of a run or of a phase. Return its status, or None if the time limit was reached."""
    while _steps_left(run) > 0:
        batch, ended = _next_batch(run, watch.interrupts)
        for state in slices(run.state, batch):
            run.state = state
            if report is not None:
                before = run.steps_before
                report(before + state.k, before + _planned_end(state), _estimate(state))
            if run.path is not None and time.monotonic() - watch.saved > run.every:
                run.save()
                watch.saved = time.monotonic()
            if watch.interrupts.requested:
                raise KeyboardInterrupt
            if _late(run):
                return None
        if ended:
            return Status.EXHAUSTED
    return Status.FINISHED


def _in_phases(run: Run, report: Report | None, watch: Watch) -> Status:
    """Take phase after phase; a run with a plan is one phase.

    The clock decides only after which finished phase to stop; no number depends on it.
    """
    while not _late(run):
        began = time.monotonic()
        status = _to_the_end(run, report, watch)
        if status is Status.EXHAUSTED:
            return status
        # Counts need no phases: they are valid after any number of transitions.
        if status is None or run.phases is None or isinstance(run.state, CountState):
            break
        run.state = run.phases.next(run.state)
        run.block_k, run.block_x, run.block_y = 0, run.x.state(), run.y.state()
        # The next phase takes twice as long as this one. Without a checkpoint, what it cannot finish would be lost.
        now = time.monotonic()
        if run.path is None and now + 2.0 * (now - began) > run.began + run.phases.max_seconds:
            break
    return Status.FINISHED


def _late(run: Run) -> bool:
    """Whether the time is up and there is a finished phase with a result."""
    if isinstance(run.state, CountState):
        if run.max_seconds == math.inf or run.state.k < FIRST_SOLVE:
            return False
        # Computing the result takes time too, which is reserved.
        last = counted.forecast_solve(run.state) if run.answers else 0.0
        return time.monotonic() + last > run.began + run.max_seconds
    if run.phases is None or run.phases.done is None:
        return False
    return time.monotonic() > run.began + run.phases.max_seconds


def _planned_end(state: State | CountState) -> int:
    """The step at which a run or a phase ends, or the next that shows in the trace when that is not known."""
    n_steps = state.settings.n_steps
    return state.next_row() if n_steps is None and isinstance(state, CountState) else n_steps or 0


def _steps_left(run: Run) -> int:
    """Steps to take before anything else is due."""
    state = run.state
    if state.settings.n_steps is not None:
        return state.settings.n_steps - state.k
    return FIRST_SOLVE - state.k if state.k < FIRST_SOLVE else 1 << 62


def restore(run: Run, path: str | os.PathLike[str]) -> None:
    """Restore a run from a checkpoint; the problem and the options must be the same."""
    if not Path(path).exists():
        raise FileNotFoundError(f"resume: {os.fspath(path)} does not exist; pass the checkpoint file of an earlier run")
    arrays, record = checkpoint.read_arrays(path)
    # The number of steps decides the rates and the averaged share, so it cannot be added or removed later.
    if _is_planned(run) != _was_planned(record):
        was = "without" if _is_planned(run) else "with"
        raise checkpoint.CheckpointError(
            f"resume: {os.fspath(path)} belongs to a run {was} a planned number of steps; pass the same arguments as "
            "then"
        )
    try:
        state, fresh = read_state(arrays, record), run.state
    except checkpoint.CheckpointError as error:
        raise checkpoint.CheckpointError(f"resume: {os.fspath(path)}: {error}") from None
    try:
        settings = fresh.settings
        if run.phases is not None:
            run.phases.load(arrays, record["phases"])
            settings = run.phases.settings()
        _check_same(state, fresh, settings, os.fspath(path))
        # Occupancies of known chains are not in the file: they follow from the arguments.
        state.known = fresh.known
        if run.phases is not None and run.phases.done is not None:
            _check_same(run.phases.done, fresh, run.phases.done.settings, os.fspath(path))
            run.phases.done.known = fresh.known
        _place_streams(run, state, record["streams"], os.fspath(path))
    except checkpoint.CheckpointError:
        raise
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
        raise checkpoint.CheckpointError(f"resume: {os.fspath(path)}: does not hold together ({error!r})") from None
    run.state = state


def record_of(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The record of a checkpoint; empty if the file does not exist."""
    return checkpoint.read_arrays(path)[1] if Path(path).exists() else {}


def state_record(state: State | CountState) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Everything needed to continue a run bit for bit, as arrays and a JSON record."""
    return counts_to_record(state) if isinstance(state, CountState) else to_record(state)


def read_state(arrays: dict[str, NDArray[Any]], record: dict[str, Any]) -> State | CountState:
    """The state of a record written by `state_record`."""
    return (counts_from_record if record.get("format") == COUNT_FORMAT else from_record)(arrays, record)


def _is_planned(run: Run) -> bool:
    return run.phases is None and run.state.settings.n_steps is not None


def _was_planned(record: dict[str, Any]) -> bool:
    options = record.get("options")
    return "phases" not in record and not (isinstance(options, dict) and options.get("n_steps", 0) is None)


def _check_same(state: State | CountState, fresh: State | CountState, settings: Any, path: str) -> None:
    """Refuse the state of another problem."""
    same = {
        "cost": np.array_equal(state.cost, fresh.cost),
        "initial_x": np.array_equal(state.initial_x, fresh.initial_x),
        "initial_y": np.array_equal(state.initial_y, fresh.initial_y),
        "options": state.settings == settings,
    }
    for name, agrees in same.items():
        if not agrees:
            raise checkpoint.CheckpointError(
                f"resume: {path} belongs to a run with other {name}; pass the same arguments as then"
            )


def _place_streams(run: Run, state: State | CountState, place: dict[str, Any], path: str) -> None:
    """Restore the positions of both streams at the checkpoint."""
    sources = {"x": run.x, "y": run.y}
    for name, source in sources.items():
        if place[f"kernel_{name}"] != _fingerprint(source):
            raise checkpoint.CheckpointError(
                f"resume: {path} belongs to a run with another process {name}; pass the same one as then"
            )
    # To the beginning of the block, not to the step: the state of the generator is known only there.
    block, b = place["block_k"], state.settings.batch_size
    if type(block) is not int or not 0 <= block <= state.k:
        raise checkpoint.CheckpointError(f"resume: {path}: a block from step {block!r} on, at step {state.k}")
    run.block_k = block
    for name, source in sources.items():
        before = place[f"block_{name}"]
        if before is not None:
            source.restore(before)
        _skip(source, (run.steps_before + state.k if before is None else state.k - block) * b)


def _fingerprint(source: Source) -> str | None:
    """A hash of the kernel behind a stream, where it is known: two sources of equal size are not the same."""
    if source.chain is None:
        return None
    # With the labels: the same kernel under other labels is another process.
    digest = hashlib.sha256(repr(source.chain.states).encode())
    for array in source.chain.support:
        digest.update(array.tobytes())
    return digest.hexdigest()


def _compile(state: State | CountState) -> None:
    """Compile the kernel now, while Ctrl-C still takes effect at once and nothing can be lost."""
    nothing = np.zeros((0, state.settings.batch_size), dtype=np.int64)
    try:
        if isinstance(state, CountState):
            counted.compile_kernel(state.settings.support)
        else:
            run_kernel(state, Batch(nothing, nothing, nothing, nothing))
    # Numba turns Ctrl-C during compilation into an error of its own.
    except SystemError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise


def _next_batch(run: Run, interrupts: Interrupts) -> tuple[Batch, bool]:
    """Draw the transitions of the next steps, and return whether a stream ended."""
    state = run.state
    b = state.settings.batch_size
    steps = min(max(1, block_size(state.settings.discount) // b), _steps_left(run))
    block = state.k, run.x.state(), run.y.state()
    n_x, n_y = state.cost.shape
    drawn = []
    for name, source, n in (("x", run.x, n_x), ("y", run.y, n_y)):
        # Only a user's stream may block for long; ours must not be interrupted within compiled code.
        interrupts.open = not source.quick
        drawn.append(draw(name, source, steps * b, n))
        interrupts.open = False
    x, y = drawn
    run.block_k, run.block_x, run.block_y = block
    whole = min(len(x[0]), len(y[0])) // b
    parts = (array[: whole * b].reshape(-1, b) for array in (*x, *y))
    return Batch(*parts), whole < steps


def draw(name: str, stream: Stream, n: int, n_states: int) -> tuple[Ints, Ints]:
    """Draw from a stream and check the transitions."""
    try:
        pairs = stream.draw(n)
    # Python's sign of exhaustion; streams of this library return fewer transitions instead.
    except StopIteration:
        pairs = ([], [])
    states, following = check_pairs(name, pairs, n_states)
    if len(states) > n:
        raise StreamError(f"{name}: the stream was asked for {n} transitions and gave {len(states)}")
    return states, following


def _skip(stream: Stream, n: int) -> None:
    while n > 0:
        got = len(stream.draw(min(n, 4096))[0])
        if got == 0:
            raise checkpoint.CheckpointError("resume: the stream is shorter than the part that was used already")
        n -= got


def _estimate(state: State | CountState) -> float:
    """The distance as of the last row of the trace, where there is one."""
    if isinstance(state, CountState):
        counted.settle(state)
        if state.k == state.settings.n_steps or not state.trace:
            return counted.row(state.k, counted.solve(state))[1]
        return state.trace[-1][1]
    settle_trace(state)
    return state.trace[-1][1] if state.trace else estimate(state)
