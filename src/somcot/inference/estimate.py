"""The default answer for data and streams: corrected distance, interval, warnings, and the plug-in.

An exact coupling of two estimated chains also follows their noise: wherever two rows differ by chance, matched pairs
separate and stay apart for a while. The paper's saddle point, solved only until the constraints hold to half the
sampling noise, follows the noise less. If the cost separates some pairs much better than others, it may stop too early
for the rest and be blurred too; therefore the sharper of the two is used (docs/statistics.md,
``python -m benchmarks.maps``).

The transitions of a stream are independent samples of the discounted occupancy, so their counts are ordinary data.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from somcot.chains import MarkovChain
from somcot.contributions import ContributionInputs
from somcot.core.pairs import PairChoice
from somcot.core.reduction import Reduced
from somcot.costs import FeatureCost
from somcot.derivatives import Gradient
from somcot.inference import bias_correction as crossfit
from somcot.inference import bias_correction as rules
from somcot.inference import intervals
from somcot.inference.bias_correction import SATURATED, Evidence, Plugin, corrected
from somcot.inference.model import Model, fit
from somcot.inference.order import has_memory
from somcot.inference.permutation import known_starts_differ, looks_identical, permutation_test
from somcot.inference.pooling import Pooled, pool, pooled_distance
from somcot.inference.row_tests import contribution_inputs
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_confidence, check_count, check_flag, check_positive, check_rng
from somcot.plumbing.errors import DataWarning, UnseenStateWarning, warn
from somcot.plumbing.memory import MemoryLimitError
from somcot.plumbing.notes import Note
from somcot.plumbing.records import option_names
from somcot.problem import ChainOrData, Data, Problem, Process
from somcot.recorded.counts import Counts
from somcot.result import Bounds, ConfidenceInterval, Estimate, Maps, Result, Status
from somcot.samples import Samples
from somcot.solvers import policy_iteration, somcot
from somcot.solvers import saddle as saddle_maps
from somcot.solvers import saddle as saddle_point

__all__ = [
    "DRAWING",
    "EstimateDetails",
    "estimate",
    "estimate_streams",
    "noise_level",
    "notes",
    "plugin",
    "saddle",
    "with_interval",
]


# --- The default estimate for data: corrected distance, interval, notes, and the underlying plug-in.

# --- Encoder and decoder for data, with less blur from sampling noise than an exact coupling

BLUR = 0.3  # rho above which the saddle point is tried
ENOUGH = 0.5  # target violation, in units of the sampling noise
TOLERABLE = 1.0  # acceptable violation when steps run out
MAX_STEPS = 32_000
WORK = 400_000_000  # steps times pairs of transitions: a few seconds


def noise_level(models: tuple[Model, Model], discount: float) -> float:
    """Expected l1 error of the occupancy frequencies, both sides added; 0 for known chains."""
    return sum(saddle_maps.noise_level(m.chain, m.n_transitions, discount) for m in models if m.samples is not None)


def _sharpest(problem: Problem, noise: float, coupling_maps: Maps, state_law: Floats) -> Maps:
    """The sharper of `coupling_maps`, of the estimated chains, and the maps of the saddle point stopped at noise."""
    best, to_beat = coupling_maps, _sharpness(coupling_maps, state_law)
    limit = min(MAX_STEPS, WORK // max(saddle_maps.n_cells(problem), 1))
    if limit < saddle_maps.FIRST_ROUND:
        return coupling_maps
    max_steps = saddle_maps.FIRST_ROUND << (limit // saddle_maps.FIRST_ROUND).bit_length() - 1  # whole rounds only
    try:
        for candidate in saddle_maps.rounds(problem, max_steps=max_steps):
            if candidate.violation <= TOLERABLE * noise and _sharpness(candidate.maps, state_law) > to_beat:
                best = candidate.maps._replace(at_noise_level=True)
                if candidate.violation <= ENOUGH * noise:
                    break
    except MemoryLimitError:
        return coupling_maps
    return best


def _sharpness(maps: Maps, state_law: Floats) -> float:
    """Mean probability that two draws for one state agree, weighted by the visits of states."""
    agree_x, agree_y = ((conditional**2).sum(axis=1) for conditional in maps[:2])
    return float(agree_x @ state_law.sum(axis=1) + agree_y @ state_law.sum(axis=0))


# --- Notes for the user, each with a remedy

_FEW_VISITS = 30
_LISTED = 3  # number of states named in a note
_HARDLY = 0.75  # rho above which the distance is not distinguishable from 0


def notes(plugin_problem: Plugin, evidence: Evidence, by: str = "rows", *, interval: bool = True) -> Iterator[Note]:
    """All notes about an estimate, most important first.

    `by` is the basis of the standard error, `interval` whether one was requested.
    """
    for name, model in zip("xy", plugin_problem.models, strict=True):
        if model.samples is not None:
            yield from _of_one_side(name, model, plugin_problem.problem.discount, by, interval)
    if isinstance(plugin_problem.x.samples, Samples) and isinstance(plugin_problem.y.samples, Samples):
        suspicion = looks_identical(plugin_problem.x.samples, plugin_problem.y.samples)
        if suspicion is not None:
            yield suspicion
    if plugin_problem.features is not None:
        apart = plugin_problem.features.disagreement("features-differ")
        if apart is not None:
            yield apart
    sat = evidence.saturation
    if sat > SATURATED:
        wider = "the interval is wider and " if interval else ""
        yield Note("too-few-data", saturation=float(sat), wider=wider, times=float((sat / SATURATED) ** 2))
    if evidence.rho > _HARDLY:
        x, y = plugin_problem.x.samples, plugin_problem.y.samples
        comparable = isinstance(x, Samples) and isinstance(y, Samples) and set(x.states) == set(y.states)
        comparable = comparable and not (plugin_problem.features is not None and plugin_problem.features.kept_apart)
        yield Note("near-minimum-testable") if comparable else Note("near-minimum")


def _of_one_side(name: str, model: Model, discount: float, by: str, interval: bool) -> Iterator[Note]:
    assert model.samples is not None
    narrow = "interval is too narrow" if interval else "standard error is too small"
    if model.samples.overlap > 1:
        yield Note("overlapping-steps", name, effect=narrow)
    elif isinstance(model.samples, Samples) and has_memory(model.samples):
        yield Note("memory", name, effect=narrow) if by == "rows" else Note("memory-episodes", name)
    visits, occupancy = model.totals[:-1], model.chain.state_occupancy(discount)
    estimated = ~model.samples.terminal
    few = np.flatnonzero((occupancy > 0.01) & (visits < _FEW_VISITS) & estimated & (visits > 0))
    if len(few):
        few = few[np.argsort(-occupancy[few], kind="stable")]
        numbers = [f"{visits[i]} transition(s) out of {model.chain.states[i]!r}" for i in few[:_LISTED]]
        more = f" and few out of {len(few) - _LISTED} more states" if len(few) > _LISTED else ""
        yield Note("few-visits", name, counts=f"{', '.join(numbers)}{more}", effect=narrow)


# --- The estimate

_GUARD_PERMUTATIONS = 39


def plugin(
    x: ChainOrData,
    y: ChainOrData,
    cost: ArrayLike,
    *,
    discount: float,
    pairs: PairChoice = "reachable",
    threads: int | None = None,
    max_sweeps: int = 200,
) -> Result:
    """Distance of the chains estimated from data, solved exactly and not corrected; biased upward near 0.

    Options as for `somcot.solvers.exact.solve`; ``method="exact"`` on data calls this function.
    """
    began = time.perf_counter()
    models = fit(x, "x"), fit(y, "y")
    problem = Problem(models[0].chain, models[1].chain, cost, discount)
    small, solution = policy_iteration.solution_of(problem, pairs=pairs, threads=threads, max_sweeps=max_sweeps)
    result = policy_iteration.result_of(
        EstimateDetails(problem, small, solution, models), solution, began, "plugin",
        samples=(models[0].n_transitions, models[1].n_transitions),
    )  # fmt: skip
    return replace(result, plugin=result.distance) if any(model.samples for model in models) else result


def saddle(
    x: ChainOrData,
    y: ChainOrData,
    cost: ArrayLike,
    *,
    discount: float,
    stop_at_noise: float | None = None,
    max_steps: int = 32_000,
    tolerance: float = 1e-3,
    primal_step: float = saddle_point.PRIMAL_STEP,
    dual_step: float = saddle_point.DUAL_STEP,
) -> Result:
    """Solve the paper's saddle point with the occupancies of known or estimated chains.

    Parameters
    ----------
    x, y : Samples or MarkovChain
    cost, discount
        As for `somcot.distance`.
    stop_at_noise : float, optional
        For data: stop once the constraints are violated by at most this multiple of the sampling noise (0.25 is
        sensible) instead of `tolerance`. That removes most of the upward bias near 0, and may bias downward elsewhere.
        The distance is then an estimate of the truth; the bounds are still those of the estimated chains.
    max_steps, tolerance, primal_step, dual_step
        See `somcot.solvers.saddle.solve`.
    """
    began = time.perf_counter()
    models = fit(x, "x"), fit(y, "y")
    problem = Problem(models[0].chain, models[1].chain, cost, discount)
    if stop_at_noise is not None:
        if not any(model.samples for model in models):
            raise ValueError("stop_at_noise: both processes are known chains without noise; use tolerance=")
        tolerance = check_positive("stop_at_noise", stop_at_noise) * noise_level(models, discount)
    solved = saddle_point.solve(
        problem, max_steps=max_steps, tolerance=tolerance, primal_step=primal_step, dual_step=dual_step
    )
    distance = solved.distance
    if stop_at_noise is not None:  # an estimate of the truth, not the distance of the estimated chains
        distance = float(solved.trace["distance"][-1])
    data = any(model.samples for model in models)
    return replace(
        solved,
        distance=distance,
        plugin=policy_iteration.solve(problem).distance if data else None,
        samples=(models[0].n_transitions, models[1].n_transitions),
        seconds=time.perf_counter() - began,
    )


def estimate(
    x: ChainOrData,
    y: ChainOrData,
    cost: ArrayLike,
    *,
    discount: float,
    confidence: float | None = None,
    rng: int | np.random.Generator | None = None,
    n_splits: int = 4,
    interval: str = "delta",
    standard_error: str = "rows",
    n_resamples: int = 200,
    threads: int | None = None,
    pool_rows: bool = True,
) -> Result:
    """Estimate a distance from data without the upward bias of the plug-in.

    Parameters
    ----------
    x, y : Samples or MarkovChain
        At least one is recorded; the other may be known.
    cost, discount
        As for `somcot.distance`.
    confidence : float, optional
        Level of the interval, such as 0.9; None for no interval.
    rng : None, int or numpy.random.Generator
        Seed of the random splits. None uses a fixed seed, so the same data give the same result.
    n_splits : int
        Number of splits into halves; each costs two solves. More splits make the result depend less on the seed. 0 is a
        fast mode for processes with the same states: pooled rows only, two solves, no test behind the lower end.
    interval : {"delta", "bootstrap"}
        The delta method with the gap on the lower side, or a basic bootstrap of whole episodes, which fails near 0.
    standard_error : {"rows", "episodes"}
        Transitions independent given the current state, or only whole episodes independent (non-Markov data).
    n_resamples : int
        Number of bootstrap resamples.
    threads : int, optional
        One per core by default; the result does not depend on it.
    pool_rows : bool
        If both have the same states, shrink rows that the data cannot distinguish towards each other. Pass False if the
        states are small cells of a continuous space, where many small differences in the same direction are common.
    """
    began = time.perf_counter()
    check_confidence(confidence)
    if interval not in ("delta", "bootstrap"):
        raise ValueError(f"interval: found {interval!r}, expected 'delta' or 'bootstrap'")
    generator = check_rng(0 if rng is None else rng)
    models = fit(x, "x"), fit(y, "y")
    problem = Problem(models[0].chain, models[1].chain, cost, discount)
    order = _matched(problem)
    shared = order if check_flag("pool_rows", pool_rows) and not _independent(models) else None
    n_splits = _check_splits(n_splits, shared)
    small, solution = policy_iteration.solution_of(problem, threads=threads, reduce=False)
    details = EstimateDetails(problem, small, solution, models)
    bare = policy_iteration.result_of(details, solution, began, "auto")
    assert bare.gradient is not None
    plugin_problem = Plugin(problem, *models, solution, cost if isinstance(cost, FeatureCost) else None)
    error = intervals.standard_error(*models, bare.gradient, problem.scale, by=standard_error)
    if plugin_problem.features is not None:
        error = math.hypot(error, math.sqrt(plugin_problem.features.variance(bare.gradient.cost)) / problem.scale)
    pooled = None if shared is None else pool(*models, shared)
    evidence = Evidence(
        (bare.distance - problem.offset) / problem.scale,
        error,
        intervals.saturation(models, problem.discount, float(np.ptp(solution.V))),
        crossfit.cross_fit(plugin_problem, n_splits=n_splits, rng=generator, threads=threads),
        None if pooled is None or shared is None else pooled_distance(plugin_problem, pooled, shared, threads),
    )
    distance = problem.to_user(corrected(evidence))
    details.blurred = evidence.rho > BLUR
    details.notes = tuple(notes(plugin_problem, evidence, standard_error, interval=confidence is not None))
    ends = None
    if confidence is not None:
        if interval == "bootstrap":
            n_resamples = check_count("n_resamples", n_resamples)
            ends = intervals.bootstrap(plugin_problem, evidence.plugin, confidence, n_resamples, generator)
        else:
            ends = _guarded(rules.interval(evidence, confidence), evidence, plugin_problem, order, generator)
    for note in details.notes:
        warn(note, DataWarning)
    return replace(
        bare,
        distance=distance,
        message=(
            f"Estimated from data: {bare.distance:.6g} for the estimated chains (solved exactly), minus "
            f"{bare.distance - distance:.2g} for the estimated bias."
        ),
        plugin=bare.distance,
        estimate=_record(evidence, pooled, problem, 2 * n_splits + 1),
        samples=(models[0].n_transitions, models[1].n_transitions),
        confidence_interval=_interval(problem, ends, confidence),
        seconds=time.perf_counter() - began,
    )


def _interval(problem: Problem, ends: Bounds | None, level: float | None) -> ConfidenceInterval | None:
    if ends is None or level is None:
        return None
    return ConfidenceInterval(problem.to_user(ends.low), problem.to_user(ends.high), level)


class EstimateDetails(policy_iteration.ExactDetails):
    """Details for two estimated chains: counts per row, initial distributions derived from rows, sharper maps."""

    blurred = False  # whether noise blurs the coupling, so that sharper maps are tried

    def __init__(
        self, problem: Problem, small: Reduced, solution: policy_iteration.Solution, models: tuple[Model, Model]
    ) -> None:
        super().__init__(problem, small, solution)
        self.models = models

    @cached_property
    def maps(self) -> Maps:
        """The maps of the coupling, or sharper ones at the level of the noise."""
        if not self.blurred:
            return self.coupling_maps
        noise = noise_level(self.models, self.problem.discount)
        return _sharpest(self.problem, noise, self.coupling_maps, self.state_law)

    @cached_property
    def gradient(self) -> Gradient | None:
        """The gradient, including the effect of rows on initial distributions derived from them."""
        plain = super().gradient
        if plain is None or not any(model.starts_in_the_long_run for model in self.models):
            return plain
        x, y = (model.in_full(side) for model, side in zip(self.models, (plain.x, plain.y), strict=True))
        return replace(plain, x=x, y=y)

    @cached_property
    def makeup(self) -> ContributionInputs | None:
        """Inputs of contributions, with the counts behind each row."""
        return contribution_inputs(self.problem, *self.models)


def _matched(problem: Problem) -> NDArray[np.int64] | None:
    """Position of each state of X among Y's, if both have the same states and equal states have minimum cost."""
    place = {label: j for j, label in enumerate(problem.y.states)}
    if len(problem.x.states) != len(place) or not all(label in place for label in problem.x.states):
        return None
    order = np.array([place[label] for label in problem.x.states], dtype=np.int64)
    return order if problem.unit_cost[np.arange(len(order)), order].max() == 0.0 else None


def _independent(models: tuple[Model, Model]) -> bool:
    """Whether one side is independent samples of the occupancy: state frequencies are then informative too."""
    return any(model.samples is not None and model.samples.discount is not None for model in models)


def _check_splits(n_splits: int, shared: NDArray[np.int64] | None) -> int:
    n_splits = check_count("n_splits", n_splits, at_least=0)
    if n_splits == 0 and shared is None:
        raise ValueError(
            "n_splits: 0 leaves the correction to rows that both processes share, which needs episodes with the same "
            "states on both sides and minimum cost for equal states; use 4"
        )
    return n_splits


def _record(evidence: Evidence, pooled: Pooled | None, problem: Problem, n_solves: int) -> Estimate:
    """The estimate in the units of the cost."""
    gap, error = problem.scale * evidence.gap, problem.scale * evidence.error
    record = Estimate(gap, evidence.rho, error, evidence.saturation, n_solves, problem.to_user(evidence.uncut))
    if pooled is None or evidence.pooled is None:
        return record
    return record._replace(
        n_solves=n_solves + 1,
        pooled=problem.to_user(evidence.pooled),
        equal_rows=pooled.equal,
        kept=tuple(pooled.kept.tolist()),
    )


def _guarded(
    bounds: Bounds,
    evidence: Evidence,
    plugin_problem: Plugin,
    order: NDArray[np.int64] | None,
    rng: np.random.Generator,
) -> Bounds:
    """Extend the interval to 0 if a permutation test does not distinguish the processes.

    This applies only if the states are shared, equal states cost nothing, and the lower end is near enough to 0 for the
    test to matter. It does not apply if known initial distributions differ: then the processes differ from the first
    state on. The fast mode skips it too, since the test takes time.
    """
    x, y = plugin_problem.x.samples, plugin_problem.y.samples
    if bounds.low <= 0.0 or evidence.plugin - 1.25 * evidence.gap - 6.0 * evidence.error > 0.0:
        return bounds
    if evidence.halves is None or order is None or x is None or y is None or x.discount != y.discount:
        return bounds
    if known_starts_differ(x, y):
        return bounds
    cost = np.ascontiguousarray(plugin_problem.problem.unit_cost[:, order])
    statistic, null = permutation_test(x, y, cost, plugin_problem.problem.discount, _GUARD_PERMUTATIONS, rng)
    p = (1 + int((null >= statistic - 1e-9).sum())) / (_GUARD_PERMUTATIONS + 1)
    return bounds if p <= 0.05 else Bounds(0.0, bounds.high)


# --- Streams as data: the corrected estimate from counted transitions, and its interval for SOMCOT's own answer.

# Options that say what to draw; the others of SOMCOT say how to solve.
DRAWING = ("n_steps", "batch_size", "max_seconds", "checkpoint", "checkpoint_every", "resume", "order")


def estimate_streams(
    x: Process, y: Process, cost: ArrayLike, *, discount: float, rng: Any = None, **options: Any
) -> Result:
    """Count transitions of the streams and estimate from the counts, corrected for bias.

    A chain or recorded data on the other side is used as it is. Options are those of `estimate` and of `DRAWING`.
    """
    drawing = {name: value for name, value in options.items() if name in DRAWING}
    others = {name: value for name, value in options.items() if name not in DRAWING}
    drawn = somcot.draw(x, y, cost, discount=discount, rng=rng, **drawing)
    result = _estimate(x, y, drawn, discount, others)
    ended = {Status.EXHAUSTED: "A stream ended", Status.INTERRUPTED: "Interrupted"}.get(drawn.status, "Done")
    message = f"{ended} after {drawn.n_steps:,} steps. {result.message}"
    status = drawn.status if drawn.status is Status.INTERRUPTED else result.status
    return replace(result, message=message, status=status, n_steps=drawn.n_steps)


def with_interval(
    x: Process, y: Process, cost: ArrayLike, *, discount: float, confidence: float, options: Mapping[str, Any]
) -> Result:
    """SOMCOT's answer with the interval that `estimate_streams` gives for the same transitions."""
    if options.get("half_life") is not None:
        raise ValueError(
            "confidence: found with half_life; transitions that count less than others give no interval; leave one out"
        )
    result, drawn = somcot.solve_and_count(x, y, cost, discount=discount, **options)
    data = _estimate(x, y, drawn, discount, {"confidence": confidence})
    return replace(result, confidence_interval=data.confidence_interval, estimate=data.estimate, plugin=data.plugin)


def _estimate(x: Process, y: Process, drawn: somcot.Drawn, discount: float, options: Mapping[str, Any]) -> Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenStateWarning)  # its advice is for recorded episodes
        return estimate(*_sides(x, y, drawn, discount), drawn.cost, discount=discount, **options)


def estimate_options() -> list[str]:
    """What `estimate_streams` takes."""
    return [*option_names(estimate), *DRAWING]


def _sides(x: Process, y: Process, drawn: somcot.Drawn, discount: float) -> tuple[ChainOrData, ChainOrData]:
    """Counts in place of streams; where both sides are known chains, what was drawn from them."""
    tables = (
        _counts(drawn.counts_x, drawn.initial_x, drawn.states_x, discount),
        _counts(drawn.counts_y, drawn.initial_y, drawn.states_y, discount),
    )
    if isinstance(x, MarkovChain) and isinstance(y, MarkovChain):
        return tables
    first, second = (
        process if isinstance(process, MarkovChain | Data) else table
        for process, table in zip((x, y), tables, strict=True)
    )
    return first, second


def _counts(table: Any, initial: Any, states: Any, discount: float) -> Counts:
    return replace(Counts.from_matrix(table, states=states, initial=initial), discount=discount)
