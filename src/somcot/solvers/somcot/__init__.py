"""SOMCOT, the paper's algorithm: a distance from two streams of transitions, one cheap step for each.

A run is a fold over transitions: `init` makes a state, `advance` feeds it any number of transitions, `finish` reads off
the result, and nothing in between draws a random number. `solve` does all three from chains, samples or streams, with
progress, interrupts and checkpoints.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from somcot.chains import MarkovChain
from somcot.costs import check_cost
from somcot.plumbing import records as files
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_discount, check_positive, check_rng, real_array
from somcot.plumbing.files import check_target, exclusive
from somcot.plumbing.records import takes
from somcot.plumbing.text import Report, meter
from somcot.problem import Process
from somcot.result import Result, Status
from somcot.samples import Samples
from somcot.solvers.somcot.fold import advance, finish, settle_trace
from somcot.solvers.somcot.phases import Phases, from_record, to_record
from somcot.solvers.somcot.run import Run, drive, restore
from somcot.solvers.somcot.run_options import Origin, SomcotOptions, begin, init, origin
from somcot.solvers.somcot.state import State
from somcot.streams import Source, StreamError, as_source

__all__ = ["SomcotOptions", "State", "advance", "finish", "init", "load", "save", "solve"]


@takes(SomcotOptions)
def solve(
    x: Process,
    y: Process,
    cost: ArrayLike,
    *,
    discount: float,
    order: str = "random",
    max_seconds: float | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float = 10.0,
    resume: str | os.PathLike[str] | bool | None = None,
    rng: int | np.random.Generator | None = None,
    progress: bool | Report = False,
    **options: Any,
) -> Result:
    """Estimate the distance with the paper's Algorithm 2.

    Parameters
    ----------
    x, y : MarkovChain, Samples or Stream
        Chains are sampled by geometric stopping, samples replayed (see `somcot.streams.from_samples`), each with a
        generator of its own made from `rng`.
    cost : array_like, shape (n_x, n_y)
    discount : float
    order : "random", "recorded" or "shuffled"
        How samples are replayed.
    max_seconds : float, optional
        In place of `n_steps`: run phases of 1024, 2048, 4096, ... steps until the time is up, and answer with the last
        that was finished; the first always is. How many phases there are depends on the clock, their numbers do not. A
        stream of unknown length without `n_steps` runs the same way, until it ends or someone interrupts.
    checkpoint : path, optional
        Write the state there every `checkpoint_every` seconds and at the end. The file belongs to one run at a time.
    resume : path or True, optional
        Go on from a checkpoint, with the same arguments as then; True means from `checkpoint` if that exists yet. The
        outcome has the same bits as if the run had never stopped.
    rng : None, int or Generator
    progress : bool or callable
        Show a line on standard error, or call ``progress(step, n_steps, distance)`` after each slice.
    **options
        Fields of `Options`: n_steps, primal_step, dual_step, decay, batch_size, steps, average, support, keep_coupling.

    Returns
    -------
    Result
        With status FINISHED, EXHAUSTED when a stream ended first, or INTERRUPTED after Ctrl-C; averages and
        residuals are those of the steps done, in phases those of the last finished one. `Result.counted` and `bounds`
        are the exact distance of the chains of the transitions that were fed, with its bracket.

    Examples
    --------
    >>> from somcot import costs, random_walk
    >>> reward = [1, 0, -1]
    >>> result = solve(random_walk(3), random_walk(3, 0.7), costs.absolute(reward, reward), discount=0.9,
    ...                n_steps=20_000, rng=0)
    >>> abs(result.distance - 0.1564) < 0.03
    True
    """
    began = time.perf_counter()
    discount, wanted = check_discount(discount), SomcotOptions(**options)
    _check_target(checkpoint, resume)
    given = zip("xy", (x, y), _children(rng), strict=True)
    source_x, source_y = (as_source(name, process, discount, own, order=order) for name, process, own in given)
    costs = _checked_cost(cost, source_x, source_y)
    start_x, start_y = _start("x", source_x, costs.shape[0]), _start("y", source_y, costs.shape[1])
    if _unplanned(wanted, max_seconds, (x, y), (source_x, source_y)):
        seconds = math.inf if max_seconds is None else check_positive("max_seconds", max_seconds)
        phases = Phases(wanted, costs, discount, start_x, start_y, seconds)
        state = phases.first()
    else:
        n_steps = wanted.n_steps or _default_steps(costs, source_x, source_y, wanted.batch_size)
        phases, state = None, begin(costs, discount, replace(wanted, n_steps=n_steps), start_x, start_y)
    state.known = (_occupancy(source_x, discount), _occupancy(source_y, discount))
    run = Run(state, source_x, source_y, checkpoint, checkpoint_every, phases=phases, began=time.monotonic())
    path = checkpoint if resume is True else resume
    with contextlib.nullcontext() if checkpoint is None else exclusive(checkpoint):
        if path and (resume is not True or os.path.exists(path)):
            restore(run, path)
        return _finished(run, progress, began)


def _unplanned(
    options: SomcotOptions, max_seconds: float | None, given: tuple[object, object], sources: tuple[Source, Source]
) -> bool:
    """Whether to run in phases: for a time, or because a stream comes without its length and without a plan."""
    if max_seconds is not None and options.n_steps is not None:
        raise ValueError("max_seconds: n_steps is given too; give one of them, the steps to take or the time to use")
    if max_seconds is not None or options.n_steps is not None:
        return max_seconds is not None
    live = any(not isinstance(process, (MarkovChain, Samples)) for process in given)
    return live and all(source.n_pairs is None for source in sources)


def save(state: State, path: str | os.PathLike[str]) -> None:
    """Write a state to a file that holds no code; `load` reads it back and the run goes on bit for bit."""
    settle_trace(state)
    arrays, record = to_record(state)
    files.write_arrays(path, arrays, record)


def load(path: str | os.PathLike[str]) -> State:
    """Read a state written by `save`, or the one inside a checkpoint."""
    arrays, record = files.read_arrays(path)
    try:
        return from_record(arrays, record)
    except files.CheckpointError as error:
        raise files.CheckpointError(f"{os.fspath(path)}: {error}") from None


def _finished(run: Run, progress: bool | Report, began: float) -> Result:
    """Drive the run and read off the result; an error, of a stream or of its source, carries what was reached."""
    if progress and progress is not True and not callable(progress):
        raise TypeError(f"progress: found {progress!r}, expected True, False or a function (step, n_steps, distance)")
    report = meter(run.state.settings.n_steps) if progress is True else progress or None
    n_x, n_y = run.state.cost.shape
    states: dict[str, Any] = {"states_x": _labels(run.x, n_x), "states_y": _labels(run.y, n_y)}

    def read_off(status: Status | None = None) -> Result:
        seconds = time.perf_counter() - began
        if run.phases is None:
            return finish(run.state, **states, status=status, seconds=seconds)
        state, earlier = run.phases.answer(run.state)
        return finish(state, **states, status=status, seconds=seconds, earlier=earlier)

    try:
        status = drive(run, report)
    except Exception as error:
        if run.has_answer:
            partial = read_off()
            error.partial = partial  # type: ignore[attr-defined]
            error.add_note(f"the result of the {partial.n_steps:,} steps before is in this error's attribute 'partial'")
        raise
    if not run.has_answer:
        raise StreamError("x, y: a stream ended before the first step; it must yield at least batch_size transitions")
    return read_off(status)


def _check_target(checkpoint: str | os.PathLike[str] | None, resume: Any) -> None:
    """Find out before the work, not after it, that checkpoints cannot be written."""
    if resume == "" or not isinstance(resume, (bool, str, os.PathLike, type(None))):
        raise TypeError(f"resume: found {resume!r}, expected the name of a file")
    if checkpoint is None and resume is True:
        raise ValueError("resume: True means 'from checkpoint', but no checkpoint was given; give its path")
    check_target("checkpoint", checkpoint)


def _children(rng: int | np.random.Generator | None) -> list[np.random.Generator]:
    """One independent generator for each chain."""
    generator = check_rng(rng)
    try:
        return generator.spawn(2)
    except TypeError:  # a bit generator without a seed sequence
        return [np.random.default_rng(generator.integers(2**63, size=4)) for _ in range(2)]


def _checked_cost(cost: ArrayLike, x: Source, y: Source) -> Floats:
    array = real_array("cost", cost, 2)
    n_x, n_y = (
        n if source.n_states is None else source.n_states for source, n in zip((x, y), array.shape, strict=True)
    )
    return check_cost(array, n_x, n_y)


def _start(name: str, source: Source, n: int) -> Origin:
    """The start law over n states, the first state when the stream does not say; and the transitions that can come."""
    law = np.array([1.0]) if source.initial is None else source.initial
    if len(law) > n:
        raise ValueError(f"{name}: the start law is about {len(law)} states, but the cost has {n}")
    return origin(name, np.concatenate([law, np.zeros(n - len(law))]), source.transitions, n)


def _default_steps(cost: Floats, x: Source, y: Source, batch_size: int) -> int:
    recorded = [n for n in (x.n_pairs, y.n_pairs) if n is not None]
    return max(1, min(recorded) // batch_size) if recorded else max(10_000, 200 * cost.size)


def _occupancy(source: Source, discount: float) -> Floats | None:
    if source.chain is None:
        return None
    nu = source.chain.occupancy(discount)
    return nu if isinstance(nu, np.ndarray) else nu.toarray()


def _labels(source: Source, n: int) -> tuple[Hashable, ...] | None:
    return source.states if source.states is not None and len(source.states) == n else None
