"""The default answer for data and streams: corrected distance, interval, warnings, and the plug-in.

An exact coupling of two estimated chains also follows their noise: wherever two rows differ by chance, matched pairs
separate and stay apart for a while. The paper's saddle point, solved only until the constraints hold to half the
sampling noise, follows the noise less. If the cost separates some pairs much better than others, it may stop too early
for the rest and be blurred too; therefore the sharper of the two is used (docs/statistics.md,
``python -m benchmarks.maps``).

The transitions of a stream are independent samples of the discounted occupancy, so their counts are ordinary data.

>>> import somcot
>>> x, y = (somcot.random_walk(4, theta).sample(100, 20, rng=k) for k, theta in enumerate((0.5, 0.7)))
>>> cost = 1.0 - np.eye(4)
>>> [round(solve(x, y, cost, discount=0.9).distance, 2) for solve in (estimate, plugin, saddle)]
[0.16, 0.17, 0.17]
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from somcot import costs
from somcot.chains import MarkovChain
from somcot.contributions import ContributionInputs
from somcot.core.pairs import PairChoice
from somcot.core.reduction import Reduced
from somcot.costs import FeatureCost
from somcot.derivatives import Gradient
from somcot.inference.comparison import Comparison, CostUnits, Exchangeable, Separate, compare, places_of
from somcot.inference.intervals import LEFT_OUT, PERMUTATIONS, Bar, Evidence, Gathered, correction, gather, interval_of
from somcot.inference.model import SATURATED, Model, fit, saturation
from somcot.inference.permutation import has_memory, looks_identical
from somcot.inference.row_tests import contribution_inputs
from somcot.inference.statistics import Expansion
from somcot.inference.step_rewards import source_of
from somcot.inference.strata import Strata, strata_of
from somcot.inference.units import Chosen, Engine, WholeSequences, choose_units
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_confidence, check_count, check_flag, check_positive, check_rng
from somcot.plumbing.errors import DataWarning, UnseenStateWarning, warn
from somcot.plumbing.memory import MemoryLimitError, one_blas_thread
from somcot.plumbing.notes import Note
from somcot.plumbing.records import option_names
from somcot.problem import ChainOrData, Data, Problem, Process
from somcot.recorded.counts import Counts
from somcot.recorded.stationary import note_apart
from somcot.result import ConfidenceInterval, Estimate, Maps, Result, Status
from somcot.samples import Samples
from somcot.solvers import policy_iteration, somcot
from somcot.solvers import saddle as saddle_point

__all__ = ["DRAWING", "EstimateDetails", "Joint", "estimate", "estimate_streams", "noise_level", "notes", "plugin",
           "saddle", "with_interval"]  # fmt: skip

# --- Encoder and decoder for data, with less blur from sampling noise than an exact coupling

BLUR, GAIN = 0.3, 0.01  # rho, and mean total variation to maps without any blur, above which the saddle point is tried
ENOUGH = 0.5  # target violation, in units of the sampling noise
TOLERABLE = 1.0  # acceptable violation when steps run out
MAX_STEPS = 32_000
WORK = 400_000_000  # steps times pairs of transitions: a few seconds


def noise_level(models: tuple[Model, Model], discount: float) -> float:
    """Expected l1 error of the occupancy frequencies, both sides added; 0 for known chains."""
    return sum(saddle_point.noise_level(m.chain, m.n_transitions, discount) for m in models if m.samples is not None)


def _sharpest(problem: Problem, noise: float, coupling_maps: Maps, state_law: Floats) -> Maps:
    """The sharper of `coupling_maps`, of the estimated chains, and the maps of the saddle point stopped at noise."""
    best, to_beat = coupling_maps, _sharpness(coupling_maps, state_law)
    limit = min(MAX_STEPS, WORK // max(saddle_point.n_cells(problem), 1))
    likeliest = sum(m.max(axis=1) @ state_law.sum(axis=k) for m, k in zip(coupling_maps[:2], (1, 0), strict=True)) / 2.0
    if limit < saddle_point.FIRST_ROUND or 1.0 - likeliest <= GAIN:
        return coupling_maps  # not even one round is affordable, or each state already goes to one other, nearly always
    max_steps = saddle_point.FIRST_ROUND << (limit // saddle_point.FIRST_ROUND).bit_length() - 1  # whole rounds only
    try:
        for candidate in saddle_point.rounds(problem, max_steps=max_steps):
            if candidate.violation <= TOLERABLE * noise and _sharpness(candidate.maps, state_law) > to_beat:
                best = candidate.maps._replace(at_noise_level=True)
                if candidate.violation <= ENOUGH * noise:
                    break
            # After the first round the violation falls as 1 / steps at best, so it is known when it stays too large.
            steps = candidate.n_steps
            if steps > saddle_point.FIRST_ROUND and candidate.violation * steps > TOLERABLE * noise * max_steps:
                break
    except MemoryLimitError:
        return coupling_maps  # the maps are an improvement, not a necessity
    return best


def _sharpness(maps: Maps, state_law: Floats) -> float:
    """Mean probability that two draws for one state agree, weighted by the visits of states."""
    agree_x, agree_y = ((conditional**2).sum(axis=1) for conditional in maps[:2])
    return float(agree_x @ state_law.sum(axis=1) + agree_y @ state_law.sum(axis=0))


# --- Notes for the user, each with a remedy

_FEW_VISITS, _LISTED = 30, 3  # transitions out of a state, and number of states named in a note
_HARDLY = 0.75  # share of noise above which a distance is not distinguishable from its minimum, if there is no test
_LEVEL = 0.05  # ... and the p-value above which it is not, if there is one


class Noted(NamedTuple):
    """What the notes about an estimate are made from."""

    models: tuple[Model, Model]
    problem: Problem
    evidence: Evidence
    saturation: float
    features: FeatureCost | None
    by_rows: bool  # whether single transitions were exchanged
    high: float | None  # upper end of the interval on the unit scale, if one was requested
    of_units: tuple[Note, ...]  # notes about the choice of units
    comparison: Comparison


def notes(about: Noted) -> Iterator[Note]:
    """All notes about an estimate, most important first."""
    yield from about.of_units
    for name, model in zip("xy", about.models, strict=True):
        if model.samples is not None:
            yield from _of_one_side(name, model, about)
    x, y = (model.samples for model in about.models)
    joint = about.comparison.engine if isinstance(about.comparison, Exchangeable) else None
    if isinstance(x, Samples) and isinstance(y, Samples):
        suspicion = looks_identical(x, y, joint)
        if suspicion is not None:
            yield suspicion
    if joint is not None and joint.visits is not None:
        yield from note_apart(*(model.chain for model in about.models))
    if about.features is not None:
        apart = about.features.disagreement("features-differ")
        if apart is not None:
            yield apart
    if about.saturation > SATURATED:
        wider = "the interval is wide and " if about.high is not None else ""
        times = (about.saturation / SATURATED) ** 2
        yield Note("too-few-data", saturation=about.saturation, wider=wider, times=times)
    p = about.evidence.pvalue
    if (about.evidence.noise_share > _HARDLY) if p is None else (p > _LEVEL):
        yield _near_minimum(about)


def _near_minimum(about: Noted) -> Note:
    """A note about a distance that may be noise, with the amount of data that would show a difference."""
    noise = about.evidence.factor * about.evidence.rise
    if about.evidence.null is not None:
        noise = about.evidence.scale * float(np.quantile(about.evidence.null, 0.95))
    if about.high is None or about.high <= 0.0:
        return Note("near-minimum")  # without an interval there is no size to report
    # The noise falls with the square root of the amount of data.
    size = about.problem.scale * about.high / 2.0
    return Note("near-minimum-data", size=size, times=max((2.0 * noise / about.high) ** 2, 1.0))


def _of_one_side(name: str, model: Model, about: Noted) -> Iterator[Note]:
    assert model.samples is not None
    narrow = "interval may be too narrow" if about.high is not None else "standard error may be too small"
    if model.samples.overlap > 1:
        yield Note("overlapping-steps", name, effect=narrow)
    elif isinstance(model.samples, Samples) and has_memory(model.samples):
        yield Note("memory", name, effect=narrow) if about.by_rows else Note("memory-episodes", name)
    visits, occupancy = model.totals[:-1], model.chain.state_occupancy(about.problem.discount)
    estimated = ~model.samples.terminal  # terminal states need no transitions
    few = np.flatnonzero((occupancy > 0.01) & (visits < _FEW_VISITS) & estimated & (visits > 0))
    if len(few):
        few = few[np.argsort(-occupancy[few], kind="stable")]
        numbers = [f"{model.chain.states[i]!r} ({visits[i]})" for i in few[:_LISTED]]
        more = f" and {len(few) - _LISTED} more states" if len(few) > _LISTED else ""
        yield Note("few-visits", name, counts=f"{', '.join(numbers)}{more}", effect=narrow)


# --- The estimate


def plugin(
    x: ChainOrData, y: ChainOrData, cost: ArrayLike, *, discount: float, pairs: PairChoice = "reachable",
    threads: int | None = None, max_sweeps: int = 200,
) -> Result:  # fmt: skip
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
    x: ChainOrData, y: ChainOrData, cost: ArrayLike, *, discount: float, stop_at_noise: float | None = None,
    max_steps: int = 32_000, tolerance: float = 1e-3, primal_step: float = saddle_point.PRIMAL_STEP,
    dual_step: float = saddle_point.DUAL_STEP,
) -> Result:  # fmt: skip
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
    # An estimate of the truth, not the distance of the estimated chains.
    distance = solved.distance if stop_at_noise is None else float(solved.trace["distance"][-1])
    data = any(model.samples for model in models)
    return replace(
        solved,
        distance=distance,
        plugin=policy_iteration.solve(problem).distance if data else None,
        samples=(models[0].n_transitions, models[1].n_transitions),
        seconds=time.perf_counter() - began,
    )


class Joint(NamedTuple):
    """The number of intervals that hold jointly, and what this distance must exceed; None to use its own test."""

    n: int
    bar: Bar | None


@one_blas_thread
def estimate(
    x: ChainOrData,
    y: ChainOrData,
    cost: ArrayLike | FeatureCost | Callable[[Any, Any], ArrayLike],
    *,
    discount: float,
    confidence: float | None = None,
    rng: int | np.random.Generator | None = None,
    units: str = "auto",
    strata: Any = None,
    paired_by: Any = None,
    threads: int | None = None,
    cautious: bool = False,
    n_splits: int | None = None,
    interval: str | None = None,
    standard_error: str | None = None,
    n_resamples: int | None = None,
    pool_rows: bool | None = None,
    joint: Joint | None = None,
) -> Result:
    """Estimate a distance from data without the upward bias of the plug-in.

    Two resamplings of whole sequences determine the estimate and its interval: permutations between the recordings, and
    random halves of each (`somcot.inference.intervals` has the formulas).

    Parameters
    ----------
    x, y : Samples, Counts or MarkovChain
        At least one is recorded; the other may be known.
    cost, discount
        As for `somcot.distance`.
    confidence : float, optional
        Level of the interval, such as 0.9; None for no interval.
    rng : None, int or numpy.random.Generator
        Seed of permutations and splits. None uses a fixed seed, so the same data give the same result.
    units : {"auto", "sequences", "blocks", "transitions"}
        What is permuted and halved. "sequences": whole sequences, valid for data with memory. "blocks": pieces of few
        long recordings. "transitions": single transitions from the same state, valid for Markov chains only. "auto":
        sequences if both recordings have at least 10, otherwise blocks; transitions for Counts and independent samples.
    strata : str, list of str or pair of sequences, optional
        The task of each sequence: an attribute, several to be combined, or labels ``(of_x, of_y)``. Sequences are
        permuted and halved within strata, and weighted so that both sides have the same mix.
    paired_by : str, list of str or pair of sequences, optional
        The same for tasks drawn at random and run on both sides; see `somcot.inference.strata`.
    threads : int, optional
        One per core by default; the result does not depend on it.
    cautious : bool
        Whether to claim closeness: the upper end is then that of `same_process` with a margin, which is higher.
    n_splits, interval, n_resamples, standard_error, pool_rows
        Deprecated. The first three are ignored; `units` replaces the fourth; False for the last pools no rows.
    joint : Joint, optional
        For several intervals that hold jointly, as in `distance_matrix`.
    """
    began = time.perf_counter()
    check_confidence(confidence)
    check_flag("cautious", cautious)
    units = _with_deprecated(units, standard_error, n_splits, interval, n_resamples, pool_rows)
    seed = int(check_rng(0 if rng is None else rng).integers(2**62))  # one number seeds permutations and half-samples
    tasks = None if strata is None and paired_by is None else strata_of((x, y), strata, paired_by)
    chosen = choose_units(x, y, units, tasks)
    weights = [None, None] if chosen.strata is None else [chosen.strata.of_sequences(k) for k in (0, 1)]
    models = fit(chosen.x, "x", weights[0]), fit(chosen.y, "y", weights[1])
    table = costs.between(cost, x, y) if callable(cost) else cost
    problem = Problem(models[0].chain, models[1].chain, table, discount)
    small, solution = policy_iteration.solution_of(problem, threads=threads, reduce=False)
    details = EstimateDetails(problem, small, solution, models, chosen.strata)
    bare = policy_iteration.result_of(details, solution, began, "auto")
    features = table if isinstance(table, FeatureCost) else None
    comparison, cost_units = compare(*models, problem, source_of(cost, table), length=chosen.length,
                                     rows=chosen.rows, strata=chosen.strata)  # fmt: skip
    (n_joint, bar), states = joint or (1, None), places_of(comparison, problem)
    own = states and Expansion.of(solution, comparison.cost, discount, left_out=LEFT_OUT, states=states)
    gathered = gather(
        comparison, seed, n_permutations=_n_permutations(confidence, n_joint), features=features,
        scale=cost_units.scale, pool=pool_rows is not False, own=own, cautious=cautious, threads=threads,
    )  # fmt: skip
    evidence = gathered.evidence
    answer = interval_of(evidence, 0.9 if confidence is None else confidence, n_joint=n_joint, bar=bar)
    distance, low, high = (_clipped(problem, cost_units.to_user(value)) for value in answer)
    details.half_values = cost_units.offset + cost_units.scale * gathered.halves
    details.evidence, details.blurred = (evidence, cost_units), evidence.noise_share > BLUR
    thin = saturation(models, discount, np.ptp(solution.V).item())
    about = Noted(models, problem, evidence, thin, features, chosen.rows, None if confidence is None else answer.high,
                  chosen.notes, comparison)  # fmt: skip
    details.notes = tuple(notes(about))
    for note in details.notes:
        warn(note, DataWarning)
    memory = any(getattr(note, "code", "").startswith("memory") for note in details.notes)
    record = _record(gathered, cost_units, problem, thin, comparison)
    if chosen.strata is not None:
        record = record._replace(mix=_mix(chosen, problem, bare.distance, threads), strata=len(chosen.strata.labels))
    return replace(
        bare,
        distance=distance,
        message=correction(bare.distance, cost_units.to_user(evidence.plugin), distance),
        plugin=bare.distance,
        estimate=record,
        samples=(models[0].n_transitions, models[1].n_transitions),
        confidence_interval=None if confidence is None else ConfidenceInterval(low, high, confidence),
        estimand="first-order projection" if memory else "process",
        seconds=time.perf_counter() - began,
    )


def _mix(chosen: Chosen, problem: Problem, weighted: float, threads: int | None) -> float:
    """How much larger the distance is without weights, where the mix of strata counts; 0 up to rounding errors."""
    chains = [side.chain(check=False) for side in (chosen.x, chosen.y) if isinstance(side, Samples)]
    plain = policy_iteration.solve(Problem(chains[0], chains[1], problem.cost, problem.discount), threads=threads)
    return 0.0 if abs(mix := plain.distance - weighted) <= 1e-9 * np.ptp(problem.cost).item() else mix


_MOST_PERMUTATIONS = 1999  # for intervals of high confidence, and for those that hold jointly


def _n_permutations(confidence: float | None, n_joint: int) -> int:
    """Enough permutations for a p-value of half the error outside the interval."""
    if confidence is None:
        return PERMUTATIONS  # the p-value is the same as that of `same_process`
    wanted = math.ceil(2.0 * n_joint / (0.5 - 0.5 * confidence)) - 1
    return max(PERMUTATIONS, min(wanted, _MOST_PERMUTATIONS))


def _clipped(problem: Problem, value: float) -> float:
    """A distance within the range of the cost; an estimated cost has no upper limit of its own."""
    return min(max(value, problem.offset), problem.most)


def _with_deprecated(units: str, standard_error: str | None, *others: object) -> str:
    """The units, after deprecated options have been checked and reported."""
    n_splits, interval, n_resamples, pool_rows = others
    if interval not in (None, "delta", "bootstrap"):
        raise ValueError(f"interval: found {interval!r}, expected 'delta' or 'bootstrap'; it is deprecated")
    if standard_error not in (None, "rows", "episodes"):
        raise ValueError(f"standard_error: found {standard_error!r}, expected 'rows' or 'episodes'; it is deprecated")
    for name, value, least in (("n_splits", n_splits, 0), ("n_resamples", n_resamples, 1)):
        if value is not None:
            check_count(name, value, at_least=least)
    for name, value in (("n_splits", n_splits), ("interval", interval), ("n_resamples", n_resamples)):
        if value is not None:
            warn(Note("ignored-option", name), DeprecationWarning)
    if pool_rows is not None:
        check_flag("pool_rows", pool_rows)
        warn(Note("deprecated-option", "pool_rows", instead="nothing"), DeprecationWarning)
    if standard_error is None:
        return units
    instead = "transitions" if standard_error == "rows" else "sequences"
    warn(Note("deprecated-option", "standard_error", instead=f"units={instead!r}"), DeprecationWarning)
    return instead


class EstimateDetails(policy_iteration.ExactDetails):
    """Details for two estimated chains: counts per row, initial distributions derived from rows, sharper maps."""

    blurred = False  # whether noise blurs the coupling, so that sharper maps are tried
    half_values: Floats | None = None  # distances of the half-samples, for comparisons of several estimates
    evidence: tuple[Evidence, CostUnits] | None = None

    def __init__(
        self, problem: Problem, small: Reduced, solution: policy_iteration.Solution, models: tuple[Model, Model],
        strata: Strata | None = None,
    ) -> None:  # fmt: skip
        super().__init__(problem, small, solution)
        self.models, self.strata = models, strata

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
        return contribution_inputs(self.problem, *self.models, self.strata)


def _record(gathered: Gathered, units: CostUnits, problem: Problem, thin: float, comparison: Comparison) -> Estimate:
    """The estimate in the units of the cost."""
    e, scale = gathered.evidence, units.scale
    gap = e.factor * e.rise
    middle = e.straight if e.pooled is None else min(e.pooled.distance, e.straight)
    return Estimate(
        gap=scale * gap,
        rho=gap / e.plugin if e.plugin > 0.0 else 0.0,
        standard_error=scale * e.error,
        saturation=thin,
        n_solves=gathered.n_solves + 1,
        uncut=units.to_user(0.5 * (e.kink + middle)),
        pooled=None if e.pooled is None else units.to_user(e.pooled.distance),
        equal_rows=gathered.equal,
        kept=_kept(gathered, problem, comparison),
        rise=scale * e.rise,
        factor=e.factor,
        expected=None if e.null is None else units.to_user(e.expected),
        pvalue=e.pvalue,
        design_effect=gathered.effect,
        units=_unit_name(comparison),
    )


def _kept(gathered: Gathered, problem: Problem, comparison: Comparison) -> tuple[float, ...] | None:
    """The kept shares in the order of X's states, the initial distribution last."""
    if gathered.kept is None or gathered.evidence.pooled is None or isinstance(comparison, Separate):
        return None
    place = {label: i for i, label in enumerate(comparison.states)}
    shares = gathered.kept.tolist()
    return (*(shares[place[label]] for label in problem.x.states), shares[-1])


def _unit_name(comparison: Comparison) -> str:
    engines = comparison.engines if isinstance(comparison, Separate) else (comparison.engine,)
    kinds = {_kind(engine) for engine in engines if engine is not None}
    return " and ".join(sorted(kinds))


def _kind(engine: Engine) -> str:
    if not isinstance(engine, WholeSequences):
        return "transitions"
    return "sequences" if len(engine.observed) <= engine.pooled.n_episodes else "blocks"


# --- Streams as data: the corrected estimate from counted transitions, and its interval for SOMCOT's own answer.

# Options for drawing; SOMCOT's other options are for solving.
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
        return tables  # otherwise nothing would be estimated
    first, second = (
        process if isinstance(process, MarkovChain | Data) else table
        for process, table in zip((x, y), tables, strict=True)
    )
    return first, second


def _counts(table: Any, initial: Any, states: Any, discount: float) -> Counts:
    return replace(Counts.from_matrix(table, states=states, initial=initial), discount=discount)
