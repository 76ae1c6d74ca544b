"""Main functions: `distance`, `metric`, `same_process` and `markov_order`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
from somcot.plumbing.notes import Note, arranged
from somcot.problem import Data, Problem, Process
from somcot.recorded.recording import RewardSums
from somcot.result import Result
from somcot.samples import Samples
from somcot.solvers import METHODS, Method
from somcot.timed import ContinuousChain, TimeChain, Timed
from somcot.trajectories import Trajectories, needs_cells

if TYPE_CHECKING:
    from somcot.inference.permutation import MarkovOrder, SameProcessResult

__all__ = ["distance", "markov_order", "metric", "same_process"]

# Options that make sense for vectors only; elsewhere they get an error of their own instead of "not an argument".
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
    """Distance between two Markov processes (bisimulation metric).

    The minimum of ``(1 - discount) * E[sum_t discount^t * cost(X_t, Y_t)]`` over all bicausal couplings, the joint
    processes in which neither side depends on the other's future. Exactly one of `discount`, `horizon`, `rate` and
    `total` determines how costs are accumulated over time; see ``docs/clocks.md``.

    Parameters
    ----------
    x, y : MarkovChain, Samples, Counts or Stream
        The two processes: a known kernel, recorded data, or a source to draw from. Also TimeChain with `horizon`,
        ContinuousChain with `rate`, and Trajectories on both sides, recordings of real vectors: docs/continuous.md.
    cost : array_like, shape (n_x, n_y), str or function, optional
        Cost of being in state i of x and state j of y; finite numbers. The default "labels" is 0 for states with equal
        labels and 1 otherwise. "features" is the difference of mean rewards; `costs.between` lists the other names. A
        function takes x and y and returns the array. With `horizon`, a list with one table per time is also accepted.
        For Trajectories "euclidean" (the default) or "sqeuclidean", of coordinates divided by ``scale=`` ("std", their
        standard deviations, or numbers), or a function of two arrays of points; ``metric=True`` says that it is a
        metric.
    discount : float
        Discount factor between 0 and 1; 1 / (1 - discount) is the effective number of steps. 1 is the long-run average
        cost from the chains' initial distributions (to start from the stationary distributions, apply
        `MarkovChain.stationary` first). For data, 1 is approximated by 1 - 1e-4.
    horizon : int
        Number of steps T: the mean cost over the times 0, ..., T - 1.
    rate : float
        Discount rate r of chains in continuous time: ``E[integral of r e^(-r t) cost(X_t, Y_t) dt]``.
    total : bool
        Total cost until both processes have reached an absorbing state.
    method : {"auto", "exact", "plugin", "saddle", "somcot", "sinkhorn", "lp"}
        "auto" is "exact" for two chains and the bias-corrected estimate for data; from streams it draws transitions,
        counts them and estimates from the counts (options of SOMCOT's solver make it "somcot"). "plugin" is the
        distance of the estimated chains, "saddle" the paper's saddle point solved on them, "somcot" the paper's
        algorithm for streams; "exact", "sinkhorn" and "lp" solve for known or estimated chains.
    confidence : float, optional
        Level of a confidence interval for data and streams, such as 0.9; two chains have none.
    rng : None, int or numpy.random.Generator
        Seed of methods that sample or split.
    progress : bool
        Show a progress line on standard error (for long-running methods: "somcot").
    **options
        Options of the method: see ``docs/choosing.md``.

    Returns
    -------
    Result
        The distance with its bounds or confidence interval, the encoder and decoder, the coupling and the potential.

    Examples
    --------
    Two random walks, one of them with drift; the cost is the difference of the rewards at the walls:

    >>> import somcot
    >>> reward = [1, 0, 0, 0, -1]
    >>> cost = somcot.costs.absolute(reward, reward)
    >>> walk, drift = somcot.random_walk(5, 0.5), somcot.random_walk(5, 0.7)
    >>> result = somcot.distance(walk, drift, cost, discount=0.95)
    >>> round(result.distance, 6)
    0.369631
    >>> result.converged, result.bounds.high - result.bounds.low < 1e-9
    (True, True)

    The distance estimated from recorded episodes, with the same cost and a 90 % confidence interval:

    >>> data = somcot.distance(walk.sample(400, 50, rng=1), drift.sample(400, 50, rng=2), cost, discount=0.95,
    ...                        confidence=0.9)
    >>> low, high, level = data.confidence_interval
    >>> low < result.distance < high
    True
    """
    check_confidence(confidence)
    # SOMCOT also accepts a function, which it calls with its progress.
    if not callable(progress):
        check_flag("progress", progress)
    # The literature writes gamma, so this is the most likely wrong name.
    if "gamma" in options:
        raise TypeError("gamma: not an argument; did you mean discount?")
    clock = Clock.chosen(discount, horizon, rate, total)
    # Vectors come first: the table of methods below knows only processes with labelled states.
    if isinstance(x, Trajectories) or isinstance(y, Trajectories):
        return _of_vectors(x, y, cost, clock, method, {"confidence": confidence, "rng": rng, **options})
    # Looked up before the clock branches, so that a misspelled method is an error with every clock.
    chosen = _method_for(method, x, y)
    known = tuple(arranged(noted)) if (noted := list(_taken_as_known(x, y))) else ()
    for note in known:
        warn(note, DataWarning)
    shared = {"confidence": confidence, "rng": rng, "progress": progress}
    result = _by_method(chosen, x, y, cost, clock, method, shared, options)
    return replace(result, notes=(*known, *result.notes)) if known else result


def _taken_as_known(x: object, y: object) -> Iterator[Note]:
    """Notes on what a result does not contain: errors of fitted models, attributes of edges."""
    for name, side in (("x", x), ("y", y)):
        if isinstance(side, MarkovChain) and side.is_fitted:
            yield Note("fitted-model", name)
        if isinstance(side, MarkovChain) and side.unused_attributes:
            yield Note("edge-attributes-ignored", name, names=side.unused_attributes)


def _by_method(
    chosen: Method, x: Any, y: Any, cost: Any, clock: Clock, method: str, shared: dict[str, Any],
    options: dict[str, Any],
) -> Result:  # fmt: skip
    """`distance` of processes with labelled states."""
    confidence, rng = shared["confidence"], shared["rng"]
    data = any(isinstance(process, Data) for process in (x, y))
    _note_frames(x, y)
    if clock.name != "discount" or isinstance(x, Timed) or isinstance(y, Timed):
        return _other_clock(x, y, cost, clock, method, {"confidence": confidence, "rng": rng, **options})
    if chosen.takes == "streams" and (method == "auto" or confidence is not None):
        answer = _of_streams(x, y, cost, method, {"discount": clock.value, **shared}, options)
        if answer is not None:
            return answer
    # "exact" for data is the plug-in, which also keeps the counts behind the estimated rows.
    solver = METHODS["plugin"] if chosen.name == "exact" and data else chosen
    solve = solver.load()
    solver_options = _checked_options(solver.name, solver.options(), options, discount=clock.value, **shared)
    # A requested interval must not be dropped silently by a solver that has none.
    if confidence is not None and data and "confidence" not in solver_options:
        warn(Note("no-interval", "confidence", method=repr(chosen.name)), DataWarning)
    if solver.takes != "streams":
        _refuse_streams(chosen.name, x, y)
    result: Result
    # An estimate also calls a function for the cost between the states of one process.
    as_given = isinstance(cost, np.ndarray) or (callable(cost) and solver.name == "auto")
    table: Any = cost if as_given else costs.between(cost, x, y)
    if solver.takes != "chains":
        result = solve(x, y, table, **solver_options)
        # The result carries the method that the caller named, not the one that stands in for it.
        return result if result.method == chosen.name else replace(result, method=chosen.name)
    result = solve(Problem(_chain("x", x), _chain("y", y), table, clock), **solver_options)
    # Solvers of chains do not see the data, so the sample sizes are added here; 0 means a known chain.
    sizes = [process.n_transitions if isinstance(process, Data) else 0 for process in (x, y)]
    return replace(result, samples=(sizes[0], sizes[1]), plugin=result.distance) if data else result


def _note_frames(*recordings: Any) -> None:
    """Warn of recordings whose steps are different numbers of frames."""
    lags = [lag for recording in recordings if (lag := getattr(recording, "lag", None)) is not None]
    if len(set(lags)) > 1:
        warn(Note("different-lags", x=min(lags), y=max(lags)), DataWarning)


def _of_streams(
    x: Process, y: Process, cost: Any, method: str, shared: dict[str, Any], options: dict[str, Any]
) -> Result | None:
    """The estimate from counted transitions, or SOMCOT with its interval; None where plain SOMCOT is wanted."""
    from somcot.inference import estimate as from_data  # compiled code: keeps `import somcot` fast

    # Options of drawing and of checkpoints suit both methods; any other one selects SOMCOT.
    own = [name for name in options if name in METHODS["somcot"].options()]
    if method == "auto" and all(name in from_data.DRAWING for name in own):
        allowed = from_data.estimate_options()
        given = _checked_options("auto", allowed, options, **shared)
        return from_data.estimate_streams(x, y, costs.between(cost, x, y), **given)
    if shared["confidence"] is None:  # rates and the like are for SOMCOT
        return None
    # The interval passes discount and confidence itself; they are not options of the inner runs.
    rest = {name: value for name, value in shared.items() if name not in ("discount", "confidence")}
    given = _checked_options("somcot", METHODS["somcot"].options(), options, **rest)
    table, common = costs.between(cost, x, y), {name: shared[name] for name in ("discount", "confidence")}
    return from_data.with_interval(x, y, table, **common, options=given)


def _of_vectors(x: Any, y: Any, cost: Any, clock: Clock, method: str, arguments: dict[str, Any]) -> Result:
    """Distance between recordings of real vectors."""
    from somcot.continuous import distance as answer  # compiled code: keeps `import somcot` fast

    for name, side in (("x", x), ("y", y)):
        if not isinstance(side, Trajectories):
            raise TypeError(f"{name}: found {type(side).__name__}, expected Trajectories like the other side")
    if clock.name != "discount" or method != "auto":
        instead = f"method={method!r}" if method != "auto" else clock.asked
        raise ValueError(Note("vectors-need-auto", instead=instead))
    allowed = [*_OF_VECTORS, "metric", "threads"]
    options = {name: value for name, value in arguments.items() if name not in ("confidence", "rng")}
    # Called for its error only: the options are passed on unchanged below.
    _checked_options("auto", allowed, options)
    if isinstance(cost, str) and cost == "features":
        return _of_rewards(x, y, clock.value, arguments)
    return answer.distance(x, y, _without_labels(cost), discount=clock.value, **arguments)


def _of_rewards(x: Trajectories, y: Trajectories, discount: float, arguments: dict[str, Any]) -> Result:
    """Distance by the rewards of recorded vectors: both sides on shared cells, whose mean rewards are compared."""
    from somcot.continuous.discretise import discretise

    if x.rewards is None or y.rewards is None:
        raise ValueError(
            f"cost: 'features' compares rewards, and {'x' if x.rewards is None else 'y'} has none; pass rewards to "
            "Trajectories.from_arrays"
        )
    how = {name: arguments[name] for name in ("n_cells", "scale") if name in arguments}
    cells = discretise(x, y, discount=discount, rng=arguments["rng"], **how)
    one, other = (
        # A reward belongs to the cell in which its step begins.
        replace(side, rewards=RewardSums.of(rewards, side.now, side.n_states))
        for side, rewards in zip(cells.recordings, (x.rewards, y.rewards), strict=True)
    )
    # The options of the cells have been used up; the call with labelled states would refuse them.
    rest = {name: value for name, value in arguments.items() if name not in how}
    result = distance(one, other, "features", discount=discount, **rest)
    return replace(result, notes=(*result.notes, Note("rewards-of-cells", "cost", n=cells.n_cells)))


def _without_labels(cost: object) -> Any:
    """Replace the default cost "labels", as points have no labels."""
    return "euclidean" if isinstance(cost, str) and cost == "labels" else cost


def _refuse_unknown(options: dict[str, object], allowed: Sequence[str]) -> None:
    """Refuse options that `same_process` does not take."""
    for name in options:
        if name not in allowed:
            whose = ", only for Trajectories" if name in _OF_VECTORS else ""
            raise TypeError(f"{name}: not an argument of same_process{whose}; leave it out")


def _other_clock(x: Any, y: Any, cost: Any, clock: Clock, method: str, arguments: dict[str, Any]) -> Result:
    """Distance for every clock other than a discount below 1."""
    from somcot.solvers import other_clocks as clocked  # compiled code: keeps `import somcot` fast

    clocked.check_clock(clock, method, x, y)
    # There is no estimator of long-run averages: a discount near 1 takes their place, with a note on the
    # mixing time of the estimated chains.
    if clock.name == "average" and any(isinstance(process, Data) for process in (x, y)):
        shared = {name: arguments.pop(name, None) for name in ("confidence", "rng")} | {"progress": False}
        near_one = Clock.discounting(clocked.DATA_DISCOUNT)
        result = _by_method(_method_for(method, x, y), x, y, cost, near_one, method, shared, arguments)
        return clocked.settling_warning(result)
    # A horizon is solved by backward induction, where there are no sweeps to limit.
    allowed = ["threads"] if clock.name == "horizon" else ["pairs", "threads", "max_sweeps"]
    options = {name: value for name, value in arguments.items() if name not in ("confidence", "rng")}
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
    """Exact distance for every pair of initial states.

    The chains' own initial distributions are ignored.

    Parameters
    ----------
    x, y, cost, discount, horizon, rate, total
        As for `distance`.
    threads : int, optional
        Number of threads, by default one per core.

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
    from somcot.solvers import other_clocks as clocked  # compiled code: keeps `import somcot` fast

    clock = Clock.chosen(discount, horizon, rate, total)
    for note in arranged(note for note in _taken_as_known(x, y) if note.code == "edge-attributes-ignored"):
        warn(note, DataWarning)
    # Timed chains are left to check_clock, which knows the clock that each of them needs.
    if clock.name in ("discount", "average") and not (isinstance(x, Timed) or isinstance(y, Timed)):
        x, y = _noted_chain("x", x), _noted_chain("y", y)
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
    margin: float | None = None,
    strata: Any = None,
    paired_by: Any = None,
    **options: Any,
) -> SameProcessResult:
    """Test whether recordings come from the same process, or differ by less than a margin.

    A permutation test: episodes (or independent transitions) are pooled and assigned at random to groups of the
    original sizes. If all recordings come from one process, permuted groups and recordings have the same distribution,
    so the level of the test is exact. The recordings may have different states; the union is used.

    Parameters
    ----------
    x, y : Samples or Trajectories
        Two recordings; or a list of two or more as `x` alone. Real vectors are discretised into cells fitted to all
        recordings together.
    cost : {"labels", "features"}, array_like or function
        Cost between all states of all recordings (in order of first occurrence). For two recordings with the same
        states, a row per state of `x` and a column per state of `y`. "features" is the difference of the mean rewards
        of the pooled recordings; a function receives the pooled recordings as both arguments. For Trajectories
        "euclidean" (the default), "sqeuclidean" or a function of two arrays of points, as for `distance`.
    discount : float
        Discount factor of the distance; required by statistic "distance".
    statistic : {"distance", "pearson"}
        "distance": the distance of two recordings; for more than two, the squared distances to the pooled process.
        Permutations are compared by a first-order expansion of the distance and by Pearson's chi-squared of the rows,
        whichever is more extreme: the first is sensitive to differences that the cost weighs, the second to every
        difference. "pearson": Pearson's chi-squared alone, which takes milliseconds.
    n_permutations : int
        Maximal number of permutations; the smallest possible p-value is 1 / (n_permutations + 1). The test stops early
        when the outcome is clear (at least 10 permutations, and 5 %, are as extreme as the data).
    rng : None, int or numpy.random.Generator
        None uses a fixed seed, so that equal data give equal results.
    threads : int, optional
        By default one per core; the result does not depend on it.
    progress : bool
        Show a progress line on standard error.
    margin : float, optional
        Largest distance that counts as equal. The result then has a ``verdict`` ("changed", "equivalent" or
        "inconclusive"), an ``equivalence_pvalue`` and the estimated ``distance``. For two recordings; of Trajectories,
        the chains of their cells are compared.
    strata : str, list of str or sequence of labels for each recording, optional
        The task of each sequence: an attribute of the sequences, several of them to be combined, or ``(of_x, of_y)``.
        Sequences are permuted within their stratum and weighted so that all recordings have the same mix of strata.
    paired_by : str, list of str or sequence of labels for each recording, optional
        The same for tasks that were drawn at random and run on both sides.
    **options
        For Trajectories ``scale`` and ``n_cells``, as for `discretise`.

    Returns
    -------
    SameProcessResult
        With ``pvalue``, ``statistic`` (the distance of the estimated chains), ``stopped_early`` and
        ``null_distribution``; with `margin` also ``verdict``, ``equivalence_pvalue`` and ``distance``.

    Warns
    -----
    DataWarning
        The recordings are more alike than independent recordings can be, or the episodes are too few for a small
        p-value.

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
        from somcot.continuous.discretise import same_process as of_vectors

        _refuse_unknown(options, _OF_VECTORS)
        return of_vectors(
            # The cost is not aligned here: it compares points, which have no labels.
            x, y, _without_labels(cost), discount=discount, statistic=statistic, n_permutations=n_permutations, rng=rng,
            threads=threads, progress=progress, margin=margin, strata=strata, paired_by=paired_by, **options,
        )  # fmt: skip
    from somcot.inference.permutation import same_process as test  # compiled code too

    _refuse_unknown(options, ())
    _note_frames(*(x if isinstance(x, Sequence) else (x, y)))
    # Overlapping lagged steps share data, while permutations treat them as independent.
    if any(getattr(recording, "overlap", 1) > 1 for recording in ([*x] if isinstance(x, Sequence) else [x, y])):
        warn(Note("overlapping-steps", effect="p-value is too small"), DataWarning)
    return test(
        cast("Samples | Sequence[Samples]", x), cast("Samples | None", y), _aligned_to_all(cost, x, y),
        discount=discount, statistic=statistic, n_permutations=n_permutations,
        rng=rng, threads=threads, progress=progress, margin=margin, strata=strata, paired_by=paired_by,
    )  # fmt: skip


def markov_order(samples: Samples, *, max_order: int = 3, rng: int | np.random.Generator | None = None) -> MarkovOrder:
    """Test the Markov order: the number of past states on which the next state depends.

    For k = 1, 2, ... the next state is tested for independence of the state before the last k, by permutation within
    each word of k states. Distances are those of processes of order 1. If the data reject it, `Samples.with_order`
    makes words of k states the states; intervals and tests hold for whole sequences, whatever their order.

    Parameters
    ----------
    samples : Samples
        Recorded episodes.
    max_order : int
        The highest order to test.
    rng : None, int or numpy.random.Generator
        None uses a fixed seed.

    Returns
    -------
    MarkovOrder
        With ``order``, the lowest order not rejected at 5 %, and ``pvalues``, of order 1 against 2, 2 against 3, ...

    Examples
    --------
    >>> import somcot
    >>> print(markov_order(somcot.random_walk(5).sample(50, 40, rng=0), max_order=1))
    order 1 (1 against 2: p = 0.485)
    """
    from somcot.inference.permutation import markov_order as test

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
    return callable(getattr(process, "draw", None))  # matrix libraries may have a `draw` that is not callable


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
    """Reorder a labelled cost to match the states of x and y."""
    return costs.aligned(cost, getattr(x, "states", None), getattr(y, "states", None))


def _aligned_to_all(cost: object, x: object, y: object) -> Any:
    """Reorder a labelled cost to match the union of the states, in order of first occurrence."""
    recordings = [r for r in ([*x] if isinstance(x, Sequence) else [x, y]) if isinstance(r, Samples)]
    # With equal sets of states the cost may have rows in the order of x and columns in that of y.
    if len(recordings) == 2 and set(recordings[0].states) == set(recordings[1].states):
        return _aligned(cost, *recordings)
    states = tuple(dict.fromkeys(state for recording in recordings for state in recording.states))
    return costs.aligned(cost, states, states)


def _chain(name: str, process: Process) -> MarkovChain:
    if isinstance(process, Data):
        return process.chain()
    if not isinstance(process, MarkovChain):
        _refuse(name, process, "a MarkovChain, Samples or Counts", "exact")
    return process


def _noted_chain(name: str, process: Process) -> MarkovChain:
    """The chain, with a warning if it is estimated."""
    if isinstance(process, Data):
        warn(Note("plugin-states", name, n=process.n_transitions), DataWarning)
    return _chain(name, process)


def _checked_options(method: str, allowed: Sequence[str], options: dict[str, Any], **shared: Any) -> dict[str, Any]:
    """Check the options of a method and add the shared arguments that it takes."""
    for name in options:
        if name not in allowed:
            specific = [option for option in allowed if option not in shared]
            # Shared arguments are left out of the list: they are arguments of `distance`, not options of the method.
            hint = meant(name, specific) or ("; give it to Trajectories.from_arrays" if name == "period" else "")
            raise TypeError(f"{name}: not an option of method {method!r}, which takes {', '.join(specific)}{hint}")
    return {name: value for name, value in shared.items() if name in allowed} | options
