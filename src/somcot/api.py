"""The front door: one call from two processes to an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
from numpy.typing import ArrayLike

from somcot import costs
from somcot.chains import MarkovChain
from somcot.clocks import Clock
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_confidence, check_flag
from somcot.plumbing.errors import DataWarning, how_to_wrap, meant, warn
from somcot.plumbing.notes import Note
from somcot.problem import Data, Problem, Process
from somcot.result import Result
from somcot.samples import Samples
from somcot.solvers import METHODS, Method
from somcot.timed import ContinuousChain, TimeChain, Timed
from somcot.trajectories import Trajectories, needs_cells

if TYPE_CHECKING:
    from somcot.inference.order import MarkovOrder
    from somcot.inference.permutation import SameProcessResult

__all__ = ["distance", "markov_order", "metric", "same_process"]

_OF_VECTORS = ("scale", "n_cells")


def distance(
    x: Process | TimeChain | ContinuousChain | Trajectories,
    y: Process | TimeChain | ContinuousChain | Trajectories,
    cost: costs.Cost = "labels",
    *,
    discount: float | None = None,
    horizon: int | None = None,
    rate: float | None = None,
    total: bool = False,
    method: str = "auto",
    confidence: float | None = None,
    rng: int | np.random.Generator | None = None,
    progress: bool = False,
    **options: Any,
) -> Result:
    """How far apart two Markov processes are: the bisimulation metric.

    The least value of ``(1 - discount) * E[sum_t discount^t * cost(X_t, Y_t)]`` over all ways to run the two processes
    side by side without looking into the other's future (bicausal couplings). Exactly one of `discount`, `horizon`,
    `rate` and `total` says how the costs of single moments add up; ``docs/clocks.md`` helps to choose.

    Parameters
    ----------
    x, y : MarkovChain, Samples, Counts or Stream
        The two processes: a known kernel, recorded data, or a source to draw from. Also TimeChain with `horizon`,
        ContinuousChain with `rate`, and Trajectories on both sides, recordings of real vectors: docs/continuous.md.
    cost : array_like, shape (n_x, n_y), str or function, optional
        What it costs to be in state i of x and state j of y; finite numbers. By default "labels": 0 where states are
        called the same, 1 elsewhere. "features" is the difference of mean rewards; `costs.between` lists the other
        names; a function takes x and y and returns the array. With `horizon` also a list, one table for each time. For
        Trajectories "euclidean" (the default) or "sqeuclidean", of coordinates divided by ``scale=`` ("std", their
        standard deviations, or numbers), or a function of two arrays of points.
    discount : float
        Between 0 and 1; 1 / (1 - discount) is the number of steps that matter. 1 asks for the long-run average from the
        chains' starts (`MarkovChain.stationary` has the stationary one); data are estimated at 1 - 1e-4.
    horizon : int
        T: the mean cost of the times 0, ..., T - 1.
    rate : float
        r: ``E[integral of r e^(-r t) cost(X_t, Y_t) dt]``, for chains in continuous time.
    total : bool
        The total cost until both processes have ended (reached a state that is never left).
    method : {"auto", "exact", "plugin", "saddle", "somcot", "sinkhorn", "lp"}
        "auto" is "exact" for two chains and the bias-corrected estimate for data; from streams it draws transitions,
        counts them and estimates from the counts (options of SOMCOT's solver make it "somcot"). "plugin" is the
        distance of the estimated chains, "saddle" the paper's saddle point solved on them, "somcot" the paper's
        algorithm for streams; "exact", "sinkhorn" and "lp" solve for known or estimated chains.
    confidence : float, optional
        Level of a confidence interval for data and streams, such as 0.9.
    rng : None, int or numpy.random.Generator
        Seed of methods that sample or split.
    progress : bool
        Show a progress line on standard error (methods that take long: "somcot").
    **options
        Options of the method: see ``docs/choosing.md``.

    Returns
    -------
    Result
        With the distance, what is proved or estimated of it, the encoder and decoder, the coupling and the potential.

    Examples
    --------
    Two walks, one drifting; only the walls can be told apart:

    >>> import somcot
    >>> reward = [1, 0, 0, 0, -1]
    >>> cost = somcot.costs.absolute(reward, reward)
    >>> walk, drift = somcot.random_walk(5, 0.5), somcot.random_walk(5, 0.7)
    >>> result = somcot.distance(walk, drift, cost, discount=0.95)
    >>> round(result.distance, 6)
    0.369631
    >>> result.converged, result.bounds.high - result.bounds.low < 1e-9
    (True, True)

    The same from recorded episodes (and without a cost, labels are compared):

    >>> data = somcot.distance(walk.sample(400, 50, rng=1), drift.sample(400, 50, rng=2), cost, discount=0.95,
    ...                        confidence=0.9)
    >>> low, high, level = data.confidence_interval
    >>> low < result.distance < high
    True
    """
    check_confidence(confidence)
    if not callable(progress):
        check_flag("progress", progress)
    if "gamma" in options:
        raise TypeError("gamma: not an argument; did you mean discount?")
    clock = Clock.chosen(discount, horizon, rate, total)
    if isinstance(x, Trajectories) or isinstance(y, Trajectories):
        return _of_vectors(x, y, cost, clock, method, {"confidence": confidence, "rng": rng, **options})
    chosen = _method_for(method, x, y)
    data = any(isinstance(process, Data) for process in (x, y))
    if clock.name != "discount" or isinstance(x, Timed) or isinstance(y, Timed):
        return _other_clock(x, y, cost, clock, method, {"confidence": confidence, "rng": rng, **options})
    if chosen.takes == "streams" and (method == "auto" or confidence is not None):
        answer = _of_streams(x, y, cost, method, {"discount": clock.value, "confidence": confidence, "rng": rng,
                             "progress": progress}, options)  # fmt: skip
        if answer is not None:
            return answer
    solver = METHODS["plugin"] if chosen.name == "exact" and data else chosen
    solve = solver.load()
    given = _checked_options(
        solver.name, solver.options(), options,
        discount=clock.value, confidence=confidence, rng=rng, progress=progress,
    )  # fmt: skip
    if confidence is not None and data and "confidence" not in given:
        warn(Note("no-interval", "confidence", method=repr(chosen.name)), DataWarning)
    if solver.takes != "streams":
        _refuse_streams(chosen.name, x, y)
    found: Result
    table = cost if isinstance(cost, np.ndarray) else costs.between(cost, x, y)
    if solver.takes != "chains":
        found = solve(x, y, table, **given)
        return found if found.method == chosen.name else replace(found, method=chosen.name)
    found = solve(Problem(_chain("x", x), _chain("y", y), table, clock), **given)
    sizes = [process.n_transitions if isinstance(process, Data) else 0 for process in (x, y)]
    return replace(found, samples=(sizes[0], sizes[1]), plugin=found.distance) if data else found


def _of_streams(
    x: Process, y: Process, cost: Any, method: str, shared: dict[str, Any], options: dict[str, Any]
) -> Result | None:
    """The estimate from counted transitions, or SOMCOT with its interval; None where plain SOMCOT is wanted."""
    from somcot.inference import from_streams  # compiled code, which `import somcot` must not wait for

    own = [name for name in options if name in option_names(METHODS["somcot"].load())]
    if method == "auto" and all(name in from_streams.DRAWING for name in own):
        allowed = from_streams.estimate_options()
        given = _checked_options("auto", allowed, options, **shared)
        return from_streams.estimate_streams(x, y, costs.between(cost, x, y), **given)
    if shared["confidence"] is None:  # rates and the like are for SOMCOT
        return None
    solve = METHODS["somcot"].load()
    rest = {name: value for name, value in shared.items() if name not in ("discount", "confidence")}
    given = _checked_options("somcot", option_names(solve), options, **rest)
    table, common = costs.between(cost, x, y), {name: shared[name] for name in ("discount", "confidence")}
    return from_streams.with_interval(x, y, table, **common, options=given)


def _of_vectors(x: Any, y: Any, cost: Any, clock: Clock, method: str, given: dict[str, Any]) -> Result:
    """Recordings of real vectors."""
    from somcot.continuous import distance as answer  # compiled code, which `import somcot` must not wait for

    for name, side in (("x", x), ("y", y)):
        if not isinstance(side, Trajectories):
            raise TypeError(f"{name}: found {type(side).__name__}, expected Trajectories like the other side")
    if clock.name != "discount" or method != "auto":
        instead = f"method={method!r}" if method != "auto" else clock.asked
        raise ValueError(Note("vectors-need-auto", instead=instead))
    allowed = [*_OF_VECTORS, "threads"]
    options = {name: value for name, value in given.items() if name not in ("confidence", "rng")}
    _checked_options("auto", allowed, options)
    return answer.distance(x, y, _without_labels(cost), discount=clock.value, **given)


def _without_labels(cost: object) -> Any:
    """The default cost; points have no labels."""
    return "euclidean" if isinstance(cost, str) and cost == "labels" else cost


def _refuse_unknown(options: dict[str, object], allowed: Sequence[str]) -> None:
    """Of the test: what it does not take."""
    for name in options:
        if name not in allowed:
            whose = ", only for Trajectories" if name in _OF_VECTORS else ""
            raise TypeError(f"{name}: not an argument of same_process{whose}; leave it out")


def _other_clock(x: Any, y: Any, cost: Any, clock: Clock, method: str, given: dict[str, Any]) -> Result:
    """Everything but a discount below 1."""
    from somcot.solvers import other_clocks as clocked  # compiled code, which `import somcot` must not wait for

    clocked.check_clock(clock, method, x, y)
    if clock.name == "average" and any(isinstance(process, Data) for process in (x, y)):
        found = distance(x, y, cost, discount=clocked.DATA_DISCOUNT, method=method, **given)
        return clocked.settling_warning(found)
    allowed = ["threads"] if clock.name == "horizon" else ["pairs", "threads", "max_sweeps"]
    options = {name: value for name, value in given.items() if name not in ("confidence", "rng")}
    return clocked.distance_by_clock(x, y, cost, clock, **_checked_options("exact", allowed, options))


def metric(
    x: MarkovChain | TimeChain | ContinuousChain,
    y: MarkovChain | TimeChain | ContinuousChain,
    cost: costs.Cost = "labels",
    *,
    discount: float | None = None,
    horizon: int | None = None,
    rate: float | None = None,
    total: bool = False,
    threads: int | None = None,
) -> Floats:
    """Exact distance from every pair of states, whatever the chains' own start.

    Parameters
    ----------
    x, y, cost, discount, horizon, rate, total
        As for `distance`.
    threads : int, optional
        Threads to use, by default one per core.

    Returns
    -------
    ndarray, shape (n_x, n_y)
        Entry (i, j) is the distance between x started in state i and y started in state j.

    Examples
    --------
    >>> import somcot
    >>> sticky = somcot.MarkovChain([[0.9, 0.1], [0.1, 0.9]], states=["heads", "tails"])
    >>> fair = somcot.MarkovChain([[0.5, 0.5], [0.5, 0.5]], states=["heads", "tails"])
    >>> somcot.metric(sticky, fair, discount=0.5).round(6)
    array([[0.2, 0.7],
           [0.7, 0.2]])
    """
    from somcot.solvers import other_clocks as clocked  # compiled code, which `import somcot` must not wait for

    clock = Clock.chosen(discount, horizon, rate, total)
    if clock.name in ("discount", "average") and not (isinstance(x, Timed) or isinstance(y, Timed)):
        x, y = _chain("x", x), _chain("y", y)
    clocked.check_clock(clock, "exact", x, y)
    return clocked.metric_by_clock(x, y, cost, clock, threads)


def same_process(
    x: Samples | Trajectories | Sequence[Samples] | Sequence[Trajectories],
    y: Samples | Trajectories | None = None,
    cost: ArrayLike | str | Callable[..., ArrayLike] = "labels",
    *,
    discount: float | None = None,
    statistic: str = "distance",
    n_permutations: int = 199,
    rng: int | np.random.Generator | None = None,
    threads: int | None = None,
    progress: bool = False,
    **options: Any,
) -> SameProcessResult:
    """Test whether recordings come from the same process.

    Whole episodes (or independent transitions) are dealt to groups of the original sizes at random; if all recordings
    come from one process, the groups are as far apart as the recordings are, up to chance, so the level of the test is
    exact. States need not agree: the union is taken.

    Parameters
    ----------
    x, y : Samples or Trajectories
        Two recordings; or a list of two or more as `x` alone. Real vectors are put into cells, fitted to all recordings
        together.
    cost : {"labels", "features"}, array_like or function
        Between all states of all recordings (in the order in which they first occur). For two recordings with the same
        states, a row per state of `x` and a column per state of `y`. "features" is the difference of the mean rewards,
        all recordings together; a function takes all recordings together, twice. For Trajectories "euclidean" (the
        default), "sqeuclidean" or a function of two arrays of points, as for `distance`.
    discount : float
        Needed for the distance.
    statistic : {"distance", "pearson"}
        "distance": for two recordings their distance, for more the squared distances to the process of all together.
        Regroupings are compared by the distance to first order or by Pearson's chi-squared of the rows, whichever
        stands out more: the first sees what the cost sees, the second every difference. "pearson": the second alone;
        it takes milliseconds.
    n_permutations : int
        Regroupings to draw at most; the least possible p-value is 1 / (n_permutations + 1). Fewer are drawn when the
        answer is clear (at least 10, and 5 %, as far apart as the data).
    rng : None, int or numpy.random.Generator
        None uses a fixed seed, so that the same data give the same answer.
    threads : int, optional
        By default one per core; the result does not depend on it.
    progress : bool
        Show a progress line on standard error.
    **options
        For Trajectories ``scale`` and ``n_cells``, as for `discretise`.

    Returns
    -------
    SameProcessResult
        With ``pvalue``, ``statistic`` (the distance of the estimated chains), ``stopped_early`` and
        ``null_distribution``.

    Warns
    -----
    DataWarning
        Recordings more alike than independent ones can be; too few episodes for a small p-value.

    Examples
    --------
    >>> import somcot
    >>> walk, other = somcot.random_walk(5, 0.5), somcot.random_walk(5, 0.8)
    >>> cost = somcot.costs.absolute([1, 0, 0, 0, -1], [1, 0, 0, 0, -1])
    >>> a, b, c = walk.sample(40, 50, rng=1), walk.sample(40, 50, rng=2), other.sample(40, 50, rng=3)
    >>> same_process(a, b, cost, discount=0.9).pvalue > 0.1
    True
    >>> same_process(a, c, cost, discount=0.9).pvalue
    0.005
    >>> same_process([a, b, c], cost=cost, discount=0.9).pvalue
    0.005
    """
    if any(isinstance(recording, Trajectories) for recording in ([*x] if isinstance(x, Sequence) else [x, y])):
        from somcot.continuous.cell_distance import same_process as of_vectors

        _refuse_unknown(options, _OF_VECTORS)
        return of_vectors(
            x, y, _without_labels(cost), discount=discount, statistic=statistic, n_permutations=n_permutations, rng=rng,
            threads=threads, progress=progress, **options,
        )  # fmt: skip
    from somcot.inference.permutation import same_process as test  # compiled code too

    _refuse_unknown(options, ())
    if any(getattr(recording, "overlap", 1) > 1 for recording in ([*x] if isinstance(x, Sequence) else [x, y])):
        warn(Note("overlapping-steps", effect="p-value is too small"), DataWarning)
    return test(
        cast("Samples | Sequence[Samples]", x), cast("Samples | None", y), _aligned_to_all(cost, x, y),
        discount=discount, statistic=statistic, n_permutations=n_permutations,
        rng=rng, threads=threads, progress=progress,
    )  # fmt: skip


def markov_order(samples: Samples, *, max_order: int = 3, rng: int | np.random.Generator | None = None) -> MarkovOrder:
    """Test how many past states matter for the next one: does one state of memory suffice?

    For k = 1, 2, ... the next state is tested for independence of the state before the last k, by permutation within
    each word of k states. Distances take order 1 for granted; where it fails, `Samples.with_order` makes words of
    k states the states, and ``standard_error="episodes"`` gives intervals that do without it.

    Parameters
    ----------
    samples : Samples
        Episodes.
    max_order : int
        The last order to test.
    rng : None, int or numpy.random.Generator
        None uses a fixed seed.

    Returns
    -------
    MarkovOrder
        With ``order``, the least that is not rejected at 5 %, and ``pvalues``, of order 1 against 2, 2 against 3, ...

    Examples
    --------
    >>> import somcot
    >>> print(markov_order(somcot.random_walk(5).sample(50, 40, rng=0), max_order=1))
    order 1 (1 against 2: p = 0.485)
    """
    from somcot.inference.order import markov_order as test

    return test(samples, max_order=max_order, rng=rng)


def _method_for(name: object, x: object, y: object) -> Method:
    if not isinstance(name, str) or name not in METHODS:
        known = ", ".join(repr(row) for row in METHODS)
        raise ValueError(f"method: found {name!r}, expected one of {known}")
    if name != "auto":
        return METHODS[name]
    if any(_is_stream(process) for process in (x, y)):
        return METHODS["somcot"]
    return METHODS["auto" if any(isinstance(process, Data) for process in (x, y)) else "exact"]


def _is_stream(process: object) -> bool:
    return callable(getattr(process, "draw", None))  # a matrix library's object may have it as something else


def _refuse_streams(method: str, x: Process, y: Process) -> None:
    for name, process in (("x", x), ("y", y)):
        if not isinstance(process, MarkovChain | Data):
            _refuse(
                name,
                process,
                "a MarkovChain, Samples or Counts"
                if _is_stream(process)
                else "a MarkovChain, Samples, Counts or Stream",
                method,
            )


def _refuse(name: str, process: object, expected: str, method: str) -> NoReturn:
    hint = needs_cells(process) or how_to_wrap(process)
    if _is_stream(process):
        hint = f"; method {method!r} cannot draw from a stream, method='somcot' can"
    raise TypeError(f"{name}: found {type(process).__name__}, expected {expected}{hint}")


def _aligned(cost: object, x: object, y: object) -> Any:
    """The cost in the order of the states, where it has labels and they are known."""
    return costs.aligned(cost, getattr(x, "states", None), getattr(y, "states", None))


def _aligned_to_all(cost: object, x: object, y: object) -> Any:
    """The same between recordings, where other states than those of both stand in the order in which they occur."""
    given = [r for r in ([*x] if isinstance(x, Sequence) else [x, y]) if isinstance(r, Samples)]
    if len(given) == 2 and set(given[0].states) == set(given[1].states):
        return _aligned(cost, *given)
    states = tuple(dict.fromkeys(state for recording in given for state in recording.states))
    return costs.aligned(cost, states, states)


def _chain(name: str, process: Process) -> MarkovChain:
    if isinstance(process, Data):
        return process.chain()
    if not isinstance(process, MarkovChain):
        _refuse(name, process, "a MarkovChain, Samples or Counts", "exact")
    return process


def _checked_options(method: str, allowed: Sequence[str], options: dict[str, Any], **shared: Any) -> dict[str, Any]:
    """What to hand to a method: its options, and those of the shared arguments that it takes."""
    for name in options:
        if name not in allowed:
            own = [option for option in allowed if option not in shared]
            hint = meant(name, own)
            raise TypeError(f"{name}: not an option of method {method!r}, which takes {', '.join(own)}{hint}")
    return {name: value for name, value in shared.items() if name in allowed} | options
