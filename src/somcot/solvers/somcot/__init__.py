"""SOMCOT, the paper's algorithm: a distance from two streams of transitions, one cheap step for each.

A run is a fold over transitions: `init` makes a state, `advance` feeds it any number of transitions, `finish` reads off
the result, and nothing in between draws a random number. `solve` does all three from chains, samples or streams, with
progress, interrupts and checkpoints.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from somcot import streams
from somcot.chains import MarkovChain
from somcot.costs import check_cost
from somcot.plumbing import container as files
from somcot.plumbing.arrays import Floats
from somcot.plumbing.files import exclusive
from somcot.plumbing.progress import Report, meter
from somcot.plumbing.validation import check_count, check_discount, check_rng, real_array
from somcot.result import Result
from somcot.solvers.somcot.fold import advance, finish
from somcot.solvers.somcot.options import init
from somcot.solvers.somcot.run import Run, drive, restore
from somcot.solvers.somcot.saving import from_record, to_record
from somcot.solvers.somcot.state import Options, State
from somcot.steps import Steps
from somcot.streams import Stream, StreamError

if TYPE_CHECKING:
    from somcot.samples import Samples

__all__ = ["Options", "State", "advance", "finish", "init", "load", "save", "solve"]


def solve(
    x: MarkovChain | Samples | Stream,
    y: MarkovChain | Samples | Stream,
    cost: ArrayLike,
    *,
    discount: float,
    n_steps: int | None = None,
    primal_step: float | Sequence[float] | None = None,
    dual_step: float | Sequence[float] | None = None,
    decay: float = 0.0,
    batch_size: int = 1,
    steps: str | Steps = "auto",
    average: float = 0.5,
    support: str = "full",
    keep_coupling: bool = False,
    order: str = "random",
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float = 10.0,
    resume: str | os.PathLike[str] | bool | None = None,
    rng: int | np.random.Generator | None = None,
    progress: bool | Report = False,
) -> Result:
    """Estimate the distance with the paper's Algorithm 2.

    Parameters
    ----------
    x, y : MarkovChain, Samples or Stream
        Chains are sampled by geometric stopping, samples replayed (see `somcot.streams.from_samples`), each with a
        generator of its own made from `rng`.
    cost : array_like, shape (n_x, n_y)
    discount : float
    n_steps : int, optional
        Number of iterations. By default one pass over recorded samples of the occupancy, otherwise
        max(10,000, 200 n_x n_y).
    primal_step, dual_step : float or three floats, optional
        Explicit rates in the unit of the cost, as in the paper's table: eta for (mu, lambda_X, lambda_Y), beta for
        (alpha_X, alpha_Y, V).
    decay : float
        a of eta_k = eta / sqrt(1 + a k).
    batch_size : int
        Transitions of each chain averaged in one step.
    steps : "auto", "theorem" or Steps
        Rule for the rates that are not given.
    average : float
        Last share of the iterates that is averaged; 1.0 = all, as in the paper.
    support : "full" or "observed"
        mu on all quadruples of states (Algorithm 2), or on pairs of transitions that occur (a faster variant for sparse
        chains).
    keep_coupling : bool
        Average the whole of mu for `Result.coupling`; costs (n_x n_y)^2 memory with full support.
    order : "random", "recorded" or "shuffled"
        How samples are replayed.
    checkpoint : path, optional
        Write the state there every `checkpoint_every` seconds and at the end. The file belongs to one run at a time.
    resume : path or True, optional
        Go on from a checkpoint, with the same arguments as then; True means from `checkpoint` if that exists yet. The
        outcome has the same bits as if the run had never stopped.
    rng : None, int or Generator
    progress : bool or callable
        Show a line on standard error, or call ``progress(step, n_steps, distance)`` after each slice.

    Returns
    -------
    Result
        With status FINISHED, EXHAUSTED when a stream ended first, or INTERRUPTED after Ctrl-C; averages and
        residuals are those of the steps done.

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
    discount = check_discount(discount)
    _check_target(checkpoint, resume)
    generators = _children(rng)
    source_x, source_y = (_stream(n, p, discount, g, order) for n, p, g in zip("xy", (x, y), generators, strict=True))
    costs = _checked_cost(cost, source_x, source_y)
    batch_size = check_count("batch_size", batch_size)
    n_steps = _default_steps(costs, source_x, source_y, batch_size) if n_steps is None else n_steps
    state = init(
        costs,
        discount=discount,
        n_steps=n_steps,
        initial_x=_start("x", source_x, costs.shape[0]),
        initial_y=_start("y", source_y, costs.shape[1]),
        primal_step=primal_step,
        dual_step=dual_step,
        decay=decay,
        batch_size=batch_size,
        steps=steps,
        average=average,
        support=support,
        transitions_x=getattr(source_x, "transitions", None),
        transitions_y=getattr(source_y, "transitions", None),
        keep_coupling=keep_coupling,
    )
    state.known = (_occupancy(source_x, discount), _occupancy(source_y, discount))
    run = Run(state, source_x, source_y, checkpoint, checkpoint_every)
    path = checkpoint if resume is True else resume
    with contextlib.nullcontext() if checkpoint is None else exclusive(checkpoint):
        if path and (resume is not True or os.path.exists(path)):
            restore(run, path)
        return _finished(run, progress, began)


def save(state: State, path: str | os.PathLike[str]) -> None:
    """Write a state to a file that holds no code; `load` reads it back and the run goes on bit for bit."""
    arrays, record = to_record(state)
    files.write(path, arrays, record)


def load(path: str | os.PathLike[str]) -> State:
    """Read a state written by `save`, or the one inside a checkpoint."""
    return from_record(*files.read(path))


def _finished(run: Run, progress: bool | Report, began: float) -> Result:
    """Drive the run and read off the result; an error, of a stream or of its source, carries what was reached."""
    if progress and progress is not True and not callable(progress):
        raise TypeError(f"progress: found {progress!r}, expected True, False or a function (step, n_steps, distance)")
    report = meter(run.state.options.n_steps) if progress is True else progress or None
    labels = {"states_x": _labels(run.x, run.state.cost.shape[0]), "states_y": _labels(run.y, run.state.cost.shape[1])}
    try:
        status = drive(run, report)
    except Exception as error:
        if run.state.k:
            partial = finish(run.state, **labels, seconds=time.perf_counter() - began)
            error.partial = partial  # type: ignore[attr-defined]
            error.add_note(f"the result of the {run.state.k:,} steps before is in this error's attribute 'partial'")
        raise
    if run.state.k == 0:
        raise StreamError("x, y: a stream ended before the first step; it must yield at least batch_size transitions")
    return finish(run.state, **labels, status=status, seconds=time.perf_counter() - began)


def _check_target(checkpoint: str | os.PathLike[str] | None, resume: Any) -> None:
    """Find out before the work, not after it, that checkpoints cannot be written."""
    for name, path in (("checkpoint", checkpoint), ("resume", None if isinstance(resume, bool) else resume)):
        if path is not None and not (isinstance(path, (str, os.PathLike)) and os.fspath(path)):
            raise TypeError(f"{name}: found {path!r}, expected the name of a file")
    if checkpoint is None:
        if resume is True:
            raise ValueError("resume: True means 'from checkpoint', but no checkpoint was given; give its path")
        return
    folder = os.path.dirname(os.path.abspath(os.fspath(checkpoint)))
    if os.path.isdir(checkpoint) or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise ValueError(f"checkpoint: cannot write {os.fspath(checkpoint)!r}; give a file in a folder that exists")


def _children(rng: int | np.random.Generator | None) -> list[np.random.Generator]:
    """One independent generator for each chain."""
    generator = check_rng(rng)
    try:
        return generator.spawn(2)
    except TypeError:  # a bit generator without a seed sequence
        return [np.random.default_rng(generator.integers(2**63, size=4)) for _ in range(2)]


def _stream(name: str, process: Any, discount: float, rng: np.random.Generator, order: str) -> Stream:
    streams.check_order(order)
    if isinstance(process, MarkovChain):
        return streams.from_chain(process, discount, rng)
    if isinstance(process, Stream):
        own = getattr(process, "discount", None)
        if own is not None and abs(own - discount) > 1e-12:
            raise ValueError(f"discount: found {discount}, but stream {name} draws at discount {own}")
        return process
    from somcot.samples import Samples

    if isinstance(process, Samples):
        return streams.from_samples(process, discount, rng, order=order)
    raise TypeError(f"{name}: found {type(process).__name__}, expected a MarkovChain, Samples or a Stream with draw(n)")


def _checked_cost(cost: ArrayLike, x: Any, y: Any) -> Floats:
    array = real_array("cost", cost, 2)
    n_x, n_y = getattr(x, "n_states", None), getattr(y, "n_states", None)
    return check_cost(array, array.shape[0] if n_x is None else n_x, array.shape[1] if n_y is None else n_y)


def _start(name: str, source: Any, n: int) -> Floats:
    """The start law over n states; the first state when the stream does not say."""
    law = getattr(source, "initial", None)
    law = np.array([1.0]) if law is None else real_array("initial", law, 1)
    if len(law) > n:
        raise ValueError(f"{name}: the start law is about {len(law)} states, but the cost has {n}")
    return np.concatenate([law, np.zeros(n - len(law))])


def _default_steps(cost: Floats, x: Any, y: Any, batch_size: int) -> int:
    recorded = [n for n in (getattr(x, "n_pairs", None), getattr(y, "n_pairs", None)) if n is not None]
    return max(1, min(recorded) // batch_size) if recorded else max(10_000, 200 * cost.size)


def _occupancy(source: Any, discount: float) -> Floats | None:
    chain = getattr(source, "chain", None)
    if chain is None:
        return None
    nu = chain.occupancy(discount)
    return nu if isinstance(nu, np.ndarray) else nu.toarray()


def _labels(source: Any, n: int) -> Any:
    labels = getattr(source, "states", None)
    return labels if labels is not None and len(labels) == n else None
