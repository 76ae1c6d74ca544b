"""SOMCOT, the paper's algorithm: a distance from two streams of transitions.

A run is a fold over transitions: `init` makes a state, `advance` feeds it any number of transitions, `finish` reads off
the result, and nothing in between draws a random number. `solve` does all three from chains, samples or streams, with
progress, interrupts and checkpoints.

By default transitions are counted and the saddle point is solved on the counted chains (`counted`); with rates of its
own, ``steps="paper"`` or ``steps="theorem"`` a run is the paper's Algorithm 2, one step for each transition.

>>> import somcot, tempfile
>>> x, y = somcot.random_walk(3, 0.5), somcot.random_walk(3, 0.7)
>>> state = init(1.0 - np.eye(3), discount=0.9, n_steps=400)
>>> a, b = (chain.sample_occupancy(400, 0.9, rng=seed) for seed, chain in enumerate((x, y)))
>>> state = advance(state, (a.now[:200], a.following[:200]), (b.now[:200], b.following[:200]))
>>> path = os.path.join(tempfile.mkdtemp(), "run.state")
>>> save(state, path)
>>> state = advance(load(path), (a.now[200:], a.following[200:]), (b.now[200:], b.following[200:]))
>>> finish(state).n_steps
400
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from somcot.chains import MarkovChain
from somcot.costs import check_cost
from somcot.plumbing import records as files
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import (
    check_count,
    check_discount,
    check_kind,
    check_positive,
    check_rng,
    probability_vector,
    real_array,
)  # fmt: skip
from somcot.plumbing.files import check_target, exclusive
from somcot.plumbing.records import takes
from somcot.plumbing.text import Report, meter
from somcot.problem import Process
from somcot.result import Result, Status
from somcot.samples import Samples
from somcot.solvers.somcot.averages import settle_trace
from somcot.solvers.somcot.fold import FORMER, Origin, SomcotOptions, advance, finish
from somcot.solvers.somcot.run import Phases, Run, drive, read_state, record_of, restore, state_record
from somcot.solvers.somcot.state import FORMAT, CountState, State, merge
from somcot.streams import Source, StreamError, as_source

__all__ = [
    "CountState", "Drawn", "SomcotOptions", "State", "advance", "draw", "finish", "init", "load", "merge", "save",
    "solve", "solve_and_count",
]  # fmt: skip


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
    """Estimate the distance from streams of transitions, by the paper's saddle point.

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
        In place of `n_steps`: take transitions until the time is up, 1024 at least. How many there are depends on the
        clock, what is made of them does not. A stream of unknown length without `n_steps` runs the same way, until it
        ends or someone interrupts. Algorithm 2 runs in phases of 1024, 2048, 4096, ... steps instead, and answers with
        the last that was finished.
    checkpoint : path, optional
        Write the state there every `checkpoint_every` seconds and at the end. The file belongs to one run at a time.
    resume : path or True, optional
        Continue from a checkpoint, with the same arguments as before; True means from `checkpoint` if it exists. The
        result has the same bits as that of an uninterrupted run.
    rng : None, int or Generator
    progress : bool or callable
        Show a line on standard error, or call ``progress(step, n_steps, distance)`` after each slice.
    **options
        Fields of `SomcotOptions`: n_steps, primal_step, dual_step, decay, batch_size, steps, average, support,
        keep_coupling, half_life.

    Returns
    -------
    Result
        With status FINISHED, EXHAUSTED when a stream ended first, or INTERRUPTED after Ctrl-C; averages and
        residuals are those of the steps done, in phases those of the last finished one. `Result.counted` and `bounds`
        are the exact distance of the chains of the transitions that were fed, with its bracket.

    Warns
    -----
    ConvergenceWarning
        The distance differs from `counted` by more than 0.01 of the cost's range.

    Examples
    --------
    >>> from somcot import costs, random_walk
    >>> reward = [1, 0, -1]
    >>> result = solve(random_walk(3), random_walk(3, 0.7), costs.absolute(reward, reward), discount=0.9,
    ...                n_steps=20_000, rng=0)
    >>> abs(result.distance - result.counted) < 0.01  # the exact distance of the transitions it counted
    True
    """
    own: dict[str, Any] = {"checkpoint": checkpoint, "checkpoint_every": checkpoint_every, "resume": resume}
    own |= {"order": order, "max_seconds": max_seconds, "rng": rng, "progress": progress}
    return solve_and_count(x, y, cost, discount=discount, **own, **options)[0]


def solve_and_count(
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
) -> tuple[Result, Drawn]:
    """The result of `solve`, and the transitions that it used."""
    began = time.perf_counter()
    opened = partial(_opened, x, y, cost, discount, order, rng, max_seconds)
    with _resumed(opened, SomcotOptions(**options), checkpoint, checkpoint_every, resume) as run:
        result = _finished(run, progress, began)
        return result, _drawn(run, result.status)


class Drawn(NamedTuple):
    """Transitions of two streams, counted."""

    counts_x: NDArray[Any]
    counts_y: NDArray[Any]
    initial_x: Floats
    initial_y: Floats
    states_x: tuple[Hashable, ...] | None
    states_y: tuple[Hashable, ...] | None
    cost: Floats
    n_steps: int
    status: Status


@takes(SomcotOptions)
def draw(
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
    **options: Any,
) -> Drawn:
    """Count the transitions that `solve` would take with the same arguments, and solve nothing."""
    wanted = SomcotOptions(**options)
    if not wanted.counts or wanted.half_life is not None:
        raise ValueError("steps, half_life: rates and forgetting belong to method='somcot'; leave them out")
    opened = partial(_opened, x, y, cost, discount, order, rng, max_seconds)
    with _resumed(opened, wanted, checkpoint, checkpoint_every, resume) as run:
        run.answers = False
        status = drive(run, None)
        if not run.has_answer:
            raise _too_short()
        return _drawn(run, status)


def _drawn(run: Run, status: Status) -> Drawn:
    state = run.state if run.phases is None or run.phases.done is None else run.phases.done
    states_x, states_y = _labels(run.x, state.cost.shape[0]), _labels(run.y, state.cost.shape[1])
    laws = state.initial_x, state.initial_y
    return Drawn(state.counts_x, state.counts_y, *laws, states_x, states_y, state.cost, state.k, status)


class _Opened(NamedTuple):
    """A problem with its streams, before anything is drawn."""

    x: Source
    y: Source
    cost: Floats
    discount: float
    start_x: Origin
    start_y: Origin
    options: SomcotOptions
    seconds: float | None  # how long to run; None with a planned number of steps

    def run(self) -> Run:
        """The first state of a run."""
        options = self.options
        origin = (self.cost, self.discount, self.start_x, self.start_y)
        known = (_occupancy(self.x, self.discount), _occupancy(self.y, self.discount))
        phases: Phases | None = None
        state: State | CountState
        if options.counts:
            state = options.begin_counting(*origin)
        elif self.seconds is None:
            state = options.begin(*origin)
        else:
            phases = Phases(options, *origin, self.seconds)
            state = phases.first()
        state.known = known
        seconds = math.inf if self.seconds is None else self.seconds
        return Run(state, self.x, self.y, phases=phases, began=time.monotonic(), max_seconds=seconds)


MOST_SECONDS = 1e9


def _opened(
    x: Process, y: Process, cost: ArrayLike, discount: float, order: str, rng: Any, max_seconds: float | None,
    wanted: SomcotOptions,
) -> _Opened:  # fmt: skip
    discount = check_discount(discount)
    sides = zip("xy", (x, y), _children(rng), strict=True)
    # Counting is fast, so drawing would dominate: known chains are drawn from the table of their occupancy.
    how: dict[str, Any] = {"order": order, "tabled": wanted.counts}
    source_x, source_y = (as_source(name, process, discount, own, **how) for name, process, own in sides)
    costs = _checked_cost(cost, source_x, source_y)
    start_x, start_y = _start("x", source_x, costs.shape[0]), _start("y", source_y, costs.shape[1])
    seconds = None
    if _unplanned(wanted, max_seconds, (x, y), (source_x, source_y)):
        seconds = math.inf if max_seconds is None else check_positive("max_seconds", max_seconds)
        if MOST_SECONDS < seconds < math.inf:
            raise ValueError(f"max_seconds: found {seconds:g}, expected at most {MOST_SECONDS:g}, 30 years")
    elif wanted.n_steps is None:
        wanted = replace(wanted, n_steps=_default_steps(costs, source_x, source_y, wanted.batch_size))
    return _Opened(source_x, source_y, costs, discount, start_x, start_y, wanted, seconds)


@contextlib.contextmanager
def _resumed(
    opened: Callable[[SomcotOptions], _Opened],
    options: SomcotOptions,
    checkpoint: str | os.PathLike[str] | None,
    checkpoint_every: float,
    resume: str | os.PathLike[str] | bool | None,
) -> Iterator[Run]:
    """The run, continued from a checkpoint if there is one, with a lock on its file."""
    # Paths are checked before the problem is built, which may take long.
    _check_target(checkpoint, resume)
    path = checkpoint if resume is True else resume
    with contextlib.nullcontext() if checkpoint is None else exclusive(checkpoint):
        old = None
        if isinstance(path, (str, os.PathLike)) and (resume is not True or os.path.exists(path)):
            old = path
        if old is not None and options.counts and record_of(old).get("format") == FORMAT:
            # A run of an earlier version, whose automatic rates were those of Algorithm 2: it keeps them.
            options = replace(options, steps=FORMER)
        run = opened(options).run()
        run.path, run.every = checkpoint, checkpoint_every
        if old is not None:
            restore(run, old)
        yield run


def _unplanned(
    options: SomcotOptions, max_seconds: float | None, given: tuple[object, object], sources: tuple[Source, Source]
) -> bool:
    """Whether to run in phases: for a given time, or if neither the length of a stream nor the steps are known."""
    if max_seconds is not None and options.n_steps is not None:
        raise ValueError("max_seconds: n_steps is given too; give one of them, the steps to take or the time to use")
    if max_seconds is not None or options.n_steps is not None:
        return max_seconds is not None
    # A chain has no length either, but has a default number of steps.
    live = any(not isinstance(process, (MarkovChain, Samples)) for process in given)
    return live and all(source.n_pairs is None for source in sources)


@takes(SomcotOptions)
def init(
    cost: ArrayLike,
    *,
    discount: float,
    n_steps: int,
    initial_x: int | ArrayLike = 0,
    initial_y: int | ArrayLike = 0,
    transitions_x: ArrayLike | None = None,
    transitions_y: ArrayLike | None = None,
    **options: Any,
) -> Any:
    """Start a run: nothing counted, or mu and both lambdas uniform and all duals zero.

    Parameters
    ----------
    cost : array_like, shape (n_x, n_y)
    discount : float
    n_steps : int
        Planned number of iterations K.
    initial_x, initial_y : state index or array_like
        First state of each chain, or its law.
    transitions_x, transitions_y : array_like of bool, shape (n, n), optional
        For Algorithm 2 with ``support="observed"``: which transitions can occur; without, they are learned from what is
        fed.
    **options
        The other fields of `Options`.

    Returns
    -------
    CountState or State
        The second for Algorithm 2.

    Examples
    --------
    >>> from somcot.solvers.somcot import advance, finish
    >>> state = init([[0, 1], [1, 0]], discount=0.9, n_steps=3)
    >>> state = advance(state, ([0, 0, 1], [0, 1, 1]), ([0, 1, 1], [1, 1, 1]))
    >>> finish(state).n_steps
    3
    """
    costs = real_array("cost", cost, 2)
    x = origin("x", initial_x, transitions_x, costs.shape[0])
    y = origin("y", initial_y, transitions_y, costs.shape[1])
    wanted = SomcotOptions(n_steps=n_steps, **options)
    return (wanted.begin_counting if wanted.counts else wanted.begin)(costs, check_discount(discount), x, y)


def origin(side: str, initial: int | ArrayLike, transitions: ArrayLike | None, n: int) -> Origin:
    """Check where chain `side` ("x" or "y") of n states starts and which transitions it can take."""
    law = _initial_law(f"initial_{side}", initial, n)
    if transitions is None:
        return Origin(law)
    allowed = np.asarray(transitions, dtype=bool)
    if allowed.shape != (n, n):
        raise ValueError(f"transitions_{side}: shape is {allowed.shape}, expected {(n, n)}")
    return Origin(law, allowed)


def _initial_law(name: str, initial: int | ArrayLike, n: int) -> Floats:
    if np.ndim(initial) == 0:
        i = check_count(name, initial, at_least=0)
        if i >= n:
            raise ValueError(f"{name}: found state {i}, expected one of 0, ..., {n - 1}")
        return np.asarray(np.eye(n)[i])
    return probability_vector(name, initial, tuple(range(n)), normalize=False)


def save(state: State | CountState, path: str | os.PathLike[str]) -> None:
    """Write a state to a file without executable code; `load` restores it, and the run continues bit for bit."""
    check_kind("state", state, State, CountState)
    settle_trace(state)
    arrays, record = state_record(state)
    files.write_arrays(path, arrays, record)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a state written by `save`, or the one inside a checkpoint."""
    arrays, record = files.read_arrays(path)
    try:
        return read_state(arrays, record)
    except files.CheckpointError as error:
        raise files.CheckpointError(f"{os.fspath(path)}: {error}") from None


def _finished(run: Run, progress: bool | Report, began: float) -> Result:
    """Carry out the run and return its result; errors of streams carry the partial result."""
    if progress and progress is not True and not callable(progress):
        raise TypeError(f"progress: found {progress!r}, expected True, False or a function (step, n_steps, distance)")
    report = meter(run.state.settings.n_steps or 0) if progress is True else progress or None
    n_x, n_y = run.state.cost.shape
    states: dict[str, Any] = {"states_x": _labels(run.x, n_x), "states_y": _labels(run.y, n_y)}

    def read_off(status: Status | None = None) -> Result:
        seconds = time.perf_counter() - began
        # An unfinished phase has no result; that of the previous phase is returned.
        if run.phases is None or isinstance(run.state, CountState):
            return finish(run.state, **states, status=status, seconds=seconds)
        state, earlier = run.phases.answer(run.state)
        return finish(state, **states, status=status, seconds=seconds, earlier=earlier)

    try:
        status = drive(run, report)
    except Exception as error:
        if run.has_answer:
            reached = read_off()
            error.partial = reached  # type: ignore[attr-defined]
            error.add_note(f"the result of the {reached.n_steps:,} steps before is in this error's attribute 'partial'")
        raise
    if not run.has_answer:
        raise _too_short()
    return read_off(status)


def _too_short() -> StreamError:
    return StreamError("x, y: a stream ended before the first step; it must yield at least batch_size transitions")


def _check_target(checkpoint: str | os.PathLike[str] | None, resume: Any) -> None:
    """Check that checkpoints can be written, before the computation begins."""
    if not isinstance(resume, (bool, str, os.PathLike, type(None))) or resume == "":
        raise TypeError(f"resume: found {resume!r}, expected the name of a file")
    if checkpoint is None and resume is True:
        raise ValueError("resume: True means 'from checkpoint', but no checkpoint was given; give its path")
    if checkpoint is not None:
        check_target("checkpoint", checkpoint)


def _children(rng: int | np.random.Generator | None) -> list[np.random.Generator]:
    """One independent generator for each chain."""
    # One for each side: with a common one, a change of x would change the draws of y.
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
    """The initial distribution over n states, by default the first state; and the possible transitions."""
    # A stream may have fewer states than the cost; the others have initial probability 0.
    law = np.array([1.0]) if source.initial is None else source.initial
    if len(law) > n:
        raise ValueError(f"{name}: the initial distribution has {len(law)} states, but the cost has {n}")
    return origin(name, np.concatenate([law, np.zeros(n - len(law))]), source.transitions, n)


def _default_steps(cost: Floats, x: Source, y: Source, batch_size: int) -> int:
    # Recorded samples are used once; replaying them again would count the same data twice.
    recorded = [n for n in (x.n_pairs, y.n_pairs) if n is not None]
    return max(1, min(recorded) // batch_size) if recorded else max(10_000, 200 * cost.size)


def _occupancy(source: Source, discount: float) -> Floats | None:
    if source.chain is None:
        return None
    # Dense, as the residuals are computed on whole tables.
    nu = source.chain.occupancy(discount)
    return nu if isinstance(nu, np.ndarray) else nu.toarray()


def _labels(source: Source, n: int) -> tuple[Hashable, ...] | None:
    return source.states if source.states is not None and len(source.states) == n else None
