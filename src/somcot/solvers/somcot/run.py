"""Driving SOMCOT from two streams: draws, slices, interrupts, checkpoints, progress."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from somcot.plumbing import container as checkpoint
from somcot.plumbing.arrays import Ints
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.progress import Report
from somcot.result import Status
from somcot.solvers.somcot.fold import Batch, estimate, run_kernel, slices
from somcot.solvers.somcot.saving import from_record, to_record
from somcot.solvers.somcot.state import State
from somcot.sources.base import Position, Source, Stream, StreamError, block_size, check_pairs

__all__ = ["Run", "drive", "restore"]


class Interrupts:
    """Ctrl-C, or a request to terminate, while steps run is noted and obeyed after the slice.

    While someone else's stream is asked, which may take for ever, it comes through at once (`open`). It must not come
    through in the midst of compiled code, which would turn it into a SystemError. Handlers that someone else has
    installed are left alone. A request to terminate ends the process after the checkpoint was written.
    """

    def __init__(self) -> None:
        self.requested = False
        self.open = False
        self._terminated = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
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
        if self.open or self.requested:
            raise KeyboardInterrupt
        self.requested = True


@dataclass
class Run:
    """A state, its two streams, and where the streams were when the current block was drawn."""

    state: State
    x: Source
    y: Source
    path: str | os.PathLike[str] | None = None
    every: float = 10.0
    block_k: int = 0
    block_x: Position | None = None
    block_y: Position | None = None

    def save(self) -> None:
        """Write the checkpoint, if one is wanted. A disk that fails costs the checkpoint, not the run."""
        if self.path is None:
            return
        try:
            self._write(self.path)
        except OSError as error:
            text = f"checkpoint: {error.filename}: {error.strerror}; the run goes on without it"
            warn(text, DataWarning)

    def _write(self, path: str | os.PathLike[str]) -> None:
        arrays, record = to_record(self.state)
        streams: dict[str, Any] = {"block_k": self.block_k, "block_x": self.block_x, "block_y": self.block_y}
        streams |= {"kernel_x": _fingerprint(self.x), "kernel_y": _fingerprint(self.y)}
        checkpoint.write(path, arrays, record | {"streams": streams})


def drive(run: Run, report: Report | None) -> Status:
    """Take steps until the planned number is done, a stream ends or someone interrupts."""
    _compile(run.state)
    with Interrupts() as interrupts:
        saved = time.monotonic()
        try:
            while run.state.k < run.state.settings.n_steps:
                batch, ended = _next_batch(run, interrupts)
                for state in slices(run.state, batch):
                    run.state = state
                    if report is not None:
                        report(state.k, state.settings.n_steps, _estimate(state))
                    if run.path is not None and time.monotonic() - saved > run.every:
                        run.save()
                        saved = time.monotonic()
                    if interrupts.requested:
                        raise KeyboardInterrupt
                if ended:
                    run.save()
                    return Status.EXHAUSTED
        except KeyboardInterrupt:
            if run.state.k == 0:
                raise
            run.save()
            return Status.INTERRUPTED
        except Exception:
            run.save()
            raise
        run.save()
    return Status.FINISHED


def restore(run: Run, path: str | os.PathLike[str]) -> None:
    """Put a run where a checkpoint left it; the problem and the options have to be the same."""
    if not Path(path).exists():
        raise FileNotFoundError(f"resume: {os.fspath(path)} does not exist; pass the checkpoint file of an earlier run")
    arrays, record = checkpoint.read(path)
    try:
        state, fresh = from_record(arrays, record), run.state
    except checkpoint.CheckpointError as error:
        raise checkpoint.CheckpointError(f"resume: {os.fspath(path)}: {error}") from None
    same = {
        "cost": np.array_equal(state.cost, fresh.cost),
        "initial_x": np.array_equal(state.initial_x, fresh.initial_x),
        "initial_y": np.array_equal(state.initial_y, fresh.initial_y),
        "options": state.settings == fresh.settings,
    }
    for name, agrees in same.items():
        if not agrees:
            raise checkpoint.CheckpointError(
                f"resume: {os.fspath(path)} belongs to a run with other {name}; pass the same arguments as then"
            )
    state.known = fresh.known
    try:
        _place_streams(run, state, record["streams"], os.fspath(path))
    except checkpoint.CheckpointError:
        raise
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
        raise checkpoint.CheckpointError(f"resume: {os.fspath(path)}: does not hold together ({error!r})") from None
    run.state = state


def _place_streams(run: Run, state: State, place: dict[str, Any], path: str) -> None:
    """Put both streams where they were when the checkpoint was written."""
    sources = {"x": run.x, "y": run.y}
    for name, source in sources.items():
        if place[f"kernel_{name}"] != _fingerprint(source):
            raise checkpoint.CheckpointError(
                f"resume: {path} belongs to a run with another process {name}; pass the same one as then"
            )
    block, b = place["block_k"], state.settings.batch_size
    if type(block) is not int or not 0 <= block <= state.k:
        raise checkpoint.CheckpointError(f"resume: {path}: a block from step {block!r} on, at step {state.k}")
    run.block_k = block
    for name, source in sources.items():
        before = place[f"block_{name}"]
        if before is not None:
            source.restore(before)
        _skip(source, (state.k - (0 if before is None else block)) * b)


def _fingerprint(source: Source) -> str | None:
    """A hash of the kernel behind a stream, where it is known: two sources of equal size are not the same."""
    if source.chain is None:
        return None
    digest = hashlib.sha256(repr(source.chain.states).encode())
    for array in source.chain.support:
        digest.update(array.tobytes())
    return digest.hexdigest()


def _compile(state: State) -> None:
    """Have the kernel compiled now, while nothing can be lost yet and Ctrl-C still comes through at once."""
    nothing = np.zeros((0, state.settings.batch_size), dtype=np.int64)
    try:
        run_kernel(state, Batch(nothing, nothing, nothing, nothing))
    except SystemError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise


def _next_batch(run: Run, interrupts: Interrupts) -> tuple[Batch, bool]:
    """Draw what the next steps need; say whether a stream ended."""
    state = run.state
    b = state.settings.batch_size
    steps = min(max(1, block_size(state.settings.discount) // b), state.settings.n_steps - state.k)
    block = state.k, run.x.state(), run.y.state()
    n_x, n_y = state.cost.shape
    drawn = []
    for name, source, n in (("x", run.x, n_x), ("y", run.y, n_y)):
        interrupts.open = not source.quick
        drawn.append(draw(name, source, steps * b, n))
        interrupts.open = False
    x, y = drawn
    run.block_k, run.block_x, run.block_y = block
    whole = min(len(x[0]), len(y[0])) // b
    parts = (array[: whole * b].reshape(-1, b) for array in (*x, *y))
    return Batch(*parts), whole < steps


def draw(name: str, stream: Stream, n: int, n_states: int) -> tuple[Ints, Ints]:
    """Ask a stream and check what it hands over."""
    try:
        pairs = stream.draw(n)
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


def _estimate(state: State) -> float:
    """The distance as of the last row of the trace, where there is one."""
    return state.trace[-1][1] if state.trace else estimate(state)
