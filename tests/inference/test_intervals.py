"""The closed form of estimate and interval, its bracket on exact problems, and intervals of recordings."""

from __future__ import annotations

import math
import warnings
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multinomial, norm

import somcot
from somcot import MarkovChain, Problem
from somcot.core.pairs import reachable_pairs
from somcot.inference import intervals
from somcot.inference.intervals import KINK, Bar, Evidence, Pooled, interval_of
from somcot.inference.model import fit
from somcot.problem import UnitProblem
from somcot.samples import Samples
from somcot.solvers.policy_iteration import iterate
from tests.data_instances import episodes, estimate, family, truth
from tests.instances import Floats, walks
from tests.notes import noted

# --- The closed form


@st.composite
def pooled(draw: Any, d: float) -> Pooled:
    distance = d * draw(st.floats(0.0, 1.2))
    return Pooled(distance, d * draw(st.floats(0, 0.3)), d * draw(st.floats(-1, 1)))


@st.composite
def evidence(draw: Any, *, tested: bool = True) -> Evidence:
    d = draw(st.floats(1e-3, 1.0))
    found = Evidence(d, d * draw(st.floats(0.8, 2.0)), d * draw(st.floats(0.0, 0.5)))
    if not tested:
        return found
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    null = d * draw(st.floats(0.05, 1.5)) * rng.gamma(draw(st.floats(0.5, 50.0)), size=199)
    return found._replace(
        null=null / 10.0,
        observed=d * draw(st.floats(0.7, 2.0)),
        pvalue=draw(st.integers(1, 200)) / 200.0,
        pooled=draw(st.one_of(st.none(), pooled(d))),
        factor=KINK * draw(st.floats(1.0, 4.0)),
    )


LEVELS = (0.5, 0.8, 0.9, 0.95, 0.98)


@settings(max_examples=300, deadline=None)
@given(evidence(), st.sampled_from(LEVELS))
def test_the_interval_excludes_the_minimum_exactly_if_the_test_rejects(found: Evidence, confidence: float) -> None:
    assert found.pvalue is not None
    rejected = round(200 * found.pvalue) <= round(100 * (1 - confidence), 6)
    assert (interval_of(found, confidence).low > 0.0) == rejected


@settings(max_examples=300, deadline=None)
@given(st.one_of(evidence(), evidence(tested=False)), st.sampled_from(LEVELS), st.integers(1, 30))
def test_the_estimate_lies_in_its_interval(found: Evidence, confidence: float, n_joint: int) -> None:
    value, low, high = interval_of(found, confidence, n_joint=n_joint)
    assert 0.0 <= low <= value <= high <= 1.0
    assert value <= found.plugin
    assert found.kink <= found.straight <= found.plugin


@settings(max_examples=200, deadline=None)
@given(evidence(), st.floats(0.1, 0.9))
def test_the_interval_scales_with_the_distance(found: Evidence, scale: float) -> None:
    if found.plugin * (1 + 2 * 0.5 * 3) > 1.0:  # cut off at the largest cost
        found = found._replace(plugin=0.1 * found.plugin, half=0.1 * found.half, error=0.1 * found.error)
    assert found.null is not None
    smaller = Evidence(
        scale * found.plugin, scale * found.half, scale * found.error, scale * found.null, scale * found.observed,
        found.pvalue, None if found.pooled is None else Pooled(*(scale * v for v in found.pooled)), found.factor,
    )  # fmt: skip
    plain = [scale * end for end in interval_of(found)]
    assert interval_of(smaller) == pytest.approx(plain, rel=1e-9, abs=2 * intervals.LEAST)


@settings(max_examples=200, deadline=None)
@given(evidence())
def test_more_confidence_and_more_joint_intervals_never_raise_the_lower_end(found: Evidence) -> None:
    lows = [interval_of(found, confidence).low for confidence in LEVELS]
    assert lows == sorted(lows, reverse=True)
    joint = [interval_of(found, 0.9, n_joint=n).low for n in (1, 2, 10, 100)]
    assert joint == sorted(joint, reverse=True)


@settings(max_examples=200, deadline=None)
@given(evidence(tested=False), st.floats(1.0, 3.0))
def test_without_a_test_intervals_are_nested(found: Evidence, times: float) -> None:
    ends = [interval_of(found, confidence) for confidence in LEVELS]
    assert [e.low for e in ends] == sorted((e.low for e in ends), reverse=True)
    assert [e.high for e in ends] == sorted(e.high for e in ends)
    noisier = interval_of(found._replace(error=times * found.error), 0.9)
    assert noisier.low <= interval_of(found, 0.9).low
    assert noisier.high >= interval_of(found, 0.9).high
    assert noisier.estimate == interval_of(found, 0.9).estimate


@settings(max_examples=100, deadline=None)
@given(evidence(), st.booleans())
def test_a_joint_bar_takes_the_place_of_the_test(found: Evidence, exceeded: bool) -> None:
    low = interval_of(found, 0.9, n_joint=5, bar=Bar(0.3 * found.plugin, exceeded, found.plugin)).low
    assert (low > 0.0) == exceeded
    if exceeded:
        assert low >= 0.7 * found.plugin - 1e-12


def test_the_formulas_of_the_docs() -> None:
    z = float(norm.ppf(0.95))
    null = np.full(199, 0.1)
    outer = Evidence(0.4, 0.42, 0.03, null, 0.4, 0.005, None, KINK)
    kink, straight = 0.4 - KINK * 0.02, 0.38
    value, low, high = interval_of(outer)
    spread = math.sqrt(0.4**2 - 0.1**2)
    assert value == pytest.approx(0.5 * (kink + min(straight, spread)), rel=1e-12)
    assert low == pytest.approx(max(0.4 - 0.1, kink - (1 + 1.2 * 0.25) * z * 0.03), rel=1e-12)
    assert high == pytest.approx(0.38 + z * 0.03, rel=1e-12)
    # Pooling rows lowers the upper end: the plug-in is 0.002 above or 0.001 below its mean if the pooled processes were
    # the truth, and 0.02 below its mean if the data were.
    slack = z * math.hypot(0.003, 0.002)
    for misfit in (-0.001, 0.002):
        found = interval_of(outer._replace(error=0.003, pooled=Pooled(0.36, 0.002, misfit)))
        assert found.low == interval_of(outer._replace(error=0.003)).low
        assert found.high == pytest.approx(0.36 + 0.04 * (slack + misfit) / (0.02 + misfit), rel=1e-12)
        assert found.estimate == pytest.approx(0.36 + misfit, rel=1e-12)
    # Beyond the data the slope is 1: with a large error the upper end is that without pooled rows.
    assert interval_of(outer._replace(pooled=Pooled(0.36, 0.0, 0.0))).high == pytest.approx(high, rel=1e-12)
    rows = outer._replace(pooled=Pooled(0.36, 0.002, 0.0))
    assert interval_of(rows._replace(pvalue=0.2)).low == 0.0
    # The p-value may be the level itself: half of 1 - 0.9 is a little below 0.05 in floating point.
    for level, confidence in ((0.05, 0.9), (0.025, 0.95), (0.005, 0.99), (0.1, 0.8)):
        assert interval_of(outer._replace(pvalue=level), confidence).low > 0.0
        assert interval_of(outer._replace(pvalue=level + 0.001), confidence).low == 0.0
    assert interval_of(rows._replace(plugin=0.09, half=0.1, observed=0.09, pvalue=0.5)).estimate == 0.0
    # A rise above that of a kink is chance: it widens the interval.
    chance = Evidence(0.1, 0.2, 0.01)
    error = math.hypot(0.01, 0.1 - 0.1 / KINK)
    assert interval_of(chance).high == pytest.approx(0.1 - 0.1 / KINK + z * error, rel=1e-12)


# --- The bracket kink <= truth <= straight


def folded(m: float, v: float) -> float:
    """E |m + sqrt(v) Z|."""
    s = math.sqrt(v)
    return 2.0 * s * float(norm.pdf(m / s)) + m * (1.0 - 2.0 * float(norm.cdf(-m / s))) if v else abs(m)


# The largest excess of the truth over `straight` for |m + Z|, in standard errors: f is convex where the noise begins
# to reach the kink.
BEYOND = max(folded(m, 2.0) - 2.0 * folded(m, 1.0) + m for m in np.linspace(0.0, 5.0, 501))


def test_the_bracket_of_one_gaussian_difference() -> None:
    for m in np.linspace(0.0, 5.0, 101):
        one, two = folded(m, 1.0), folded(m, 2.0)
        assert one - KINK * (two - one) <= m + 1e-12
    assert folded(0.0, 1.0) == pytest.approx(KINK * (folded(0.0, 2.0) - folded(0.0, 1.0)), rel=1e-12)
    assert pytest.approx(0.0935, abs=0.0005) == BEYOND


def row_outcomes(n: int, law: Floats) -> tuple[Floats, Floats]:
    """All shares of n draws, and their probabilities."""
    k = len(law)
    counts = np.array([c for c in product(range(n + 1), repeat=k) if sum(c) == n])
    return counts / n, multinomial.pmf(counts, n, law)


def expected_distance(x: MarkovChain, y: MarkovChain, n: int, cost: Floats, discount: float) -> tuple[float, float]:
    """Mean and standard deviation of the distance if row 0 of both is estimated from n draws: every outcome."""
    sides, laws = [], []
    for chain in (x, y):
        kernel = np.asarray(chain.transition)
        seen = np.flatnonzero(kernel[0])
        shares, law = row_outcomes(n, kernel[0, seen])
        chains = []
        for share in shares:
            moved = kernel.copy()
            moved[0, seen] = share
            chains.append(MarkovChain(moved, 0))
        sides.append(chains)
        laws.append(law)
    values = somcot.distance_matrix(sides[0], cost, discount=discount, others=sides[1], threads=1).values
    mean = float(laws[0] @ values @ laws[1])
    return mean, math.sqrt(max(float(laws[0] @ values**2 @ laws[1]) - mean**2, 0.0))


def two_rows(seed: int, apart: float) -> tuple[MarkovChain, MarkovChain]:
    """Chains whose row 0 is to be estimated, with two entries, and differs by `apart` of a random difference."""
    rng = np.random.default_rng(seed)
    others = rng.dirichlet(np.ones(3), size=2)
    p, q = rng.dirichlet(np.full(2, 2.0), size=2)
    rows = [np.append(0.0, p), np.append(0.0, (1 - apart) * p + apart * q)]
    x, y = (MarkovChain(np.vstack([row, others]), 0) for row in rows)
    return x, y


def outside(x: MarkovChain, y: MarkovChain, n: int) -> tuple[float, float]:
    """By how many standard errors the truth is below `kink` and above `straight`, with n draws of each row.

    Half-samples of n draws are samples of n / 2, so their mean is known exactly as well.
    """
    cost = 1.0 - np.eye(3)
    exact = somcot.distance(x, y, cost, discount=0.8).distance
    (one, error), (two, _) = (expected_distance(x, y, size, cost, 0.8) for size in (n, n // 2))
    return (one - KINK * (two - one) - exact) / error, (exact - one + (two - one)) / error


@pytest.mark.parametrize(("seed", "apart"), [(2, 0.3), (3, 0.6), (4, 1.0)])
def test_the_bracket_of_estimated_rows_that_differ(seed: int, apart: float) -> None:
    """Straight may be below the truth, as for one Gaussian difference, and here by about as little."""
    below, above = outside(*two_rows(seed, apart), 28)
    assert below <= 0.0
    assert above <= 1.25 * BEYOND


@pytest.mark.parametrize("seed", [0, 1])
def test_the_bracket_of_equal_rows(seed: int) -> None:
    """Kink is exact for Gaussian noise; that few draws have discrete noise disappears in proportion to their number."""
    few, more = (outside(*two_rows(seed, 0.0), n) for n in (14, 56))
    assert max(few[1], more[1]) <= 0.0
    assert more[0] <= 0.5 * max(few[0], 0.02)
    assert more[0] <= 0.05


# --- Intervals of recordings


def coverage(name: str, n: int, seeds: int, **kwargs: Any) -> float:
    hits = []
    for seed in range(seeds):
        interval = estimate(name, n, seed, confidence=0.9, **kwargs).confidence_interval
        assert interval is not None
        hits.append(interval.low <= truth(name) <= interval.high)
    return float(np.mean(hits))


COVERAGE = [("rw5_0.7@0.9", 0.75), ("lazy", 0.75), ("rw5_0.5@0.9", 0.82), ("lazy0", 0.82)]


@pytest.mark.parametrize(("name", "least"), COVERAGE)
def test_coverage_at_ninety_percent(name: str, least: float) -> None:
    """60 seeds at 3,000 transitions; the slow suite has 200 and all families."""
    assert coverage(name, 3000, 60) >= least


@pytest.mark.statistical
@pytest.mark.parametrize("occupancy", [False, True])
def test_standard_error_matches_the_spread_of_the_plugin(occupancy: bool) -> None:
    name = "lazy"
    runs = [estimate(name, 3000, seed, occupancy=occupancy) for seed in range(30 if occupancy else 80)]
    spread = np.std([run.plugin for run in runs if run.plugin is not None])
    errors = [run.estimate.standard_error for run in runs if run.estimate is not None]
    assert np.mean(errors) == pytest.approx(spread, rel=0.4 if occupancy else 0.25)


def test_standard_error_by_rows_is_the_delta_method() -> None:
    """Against a parametric bootstrap of the linearised distance."""
    f = family("rw5_0.7@0.9")
    model = fit(f.x.sample(60, 50, rng=0))
    gradient = somcot.distance(model.chain, f.y, f.cost, discount=0.9).gradient
    assert gradient is not None
    with noted("deprecated-function", DeprecationWarning, about="standard_error"):
        found = intervals.standard_error(model, fit(f.y), gradient)
    rng = np.random.default_rng(0)
    kernel, slope = np.asarray(model.chain.transition), np.asarray(gradient.transition_x)
    draws = []
    for _ in range(4000):
        noisy = np.array([rng.multinomial(n, row) / n for n, row in zip(model.totals[:-1], kernel, strict=True)])
        draws.append(((noisy - kernel) * slope).sum())
    assert found == pytest.approx(np.std(draws), rel=0.06)


@pytest.mark.parametrize("estimated", [False, True], ids=["cost", "features"])
def test_the_bootstrap_reflects_the_distances_of_resampled_recordings(estimated: bool) -> None:
    """Recordings drawn again one by one, each solved by the public function, with quantiles by sorting."""
    f = family("rw5_0.7@0.9")
    models = fit(f.x.sample(20, 10, rng=0)), fit(f.y)
    cost = 3.0 + 2.0 * np.asarray(f.cost)
    problem = Problem(models[0].chain, models[1].chain, cost, 0.9)
    task = UnitProblem(problem.x.support, problem.y.support, problem.unit_cost, 0.9)
    solved = iterate(task, reachable_pairs(task))
    signed, spread = np.subtract.outer(np.arange(5.0), np.arange(5.0)), 0.01
    features = SimpleNamespace(signed=signed, noise=lambda rng: spread * rng.normal(size=(5, 5)))
    whole = SimpleNamespace(problem=problem, features=features if estimated else None, models=models, solution=solved)
    rng, drawn = np.random.default_rng(5), []
    for _ in range(21):
        again = models[0].samples.resample(rng).chain(check=False)  # type: ignore[union-attr]
        table = np.abs(signed + spread * rng.normal(size=(5, 5))) if estimated else cost
        shift = 3.0 * (table - problem.offset) / problem.scale  # any unit will do: distances follow
        drawn.append(somcot.distance(again, f.y, shift, discount=0.9).distance / 3.0)
    drawn.sort()
    plugin = float(np.median(drawn))
    with noted("deprecated-function", DeprecationWarning, about="bootstrap"):
        low, high = intervals.bootstrap(whole, plugin, 0.9, 21, np.random.default_rng(5))
    # With 21 draws the quantiles of 5 and 95 % are the second from either end.
    assert low == pytest.approx(max(0.0, 2.0 * plugin - drawn[19]), abs=1e-5)
    assert high == pytest.approx(max(0.0, 2.0 * plugin - drawn[1]), abs=1e-5)
    assert drawn[1] < drawn[19] - 1e-3


def test_episode_standard_error_agrees_on_markov_data() -> None:
    f = family("rw5_0.7@0.9")
    a, b = episodes(f.x, 20_000, 0), episodes(f.y, 20_000, 1)
    by_rows, by_episodes = (
        somcot.distance(a, b, f.cost, discount=0.9, units=units) for units in ("transitions", "sequences")
    )
    assert by_rows.estimate is not None
    assert by_episodes.estimate is not None
    assert by_episodes.estimate.standard_error == pytest.approx(
        by_rows.estimate.standard_error, rel=0.6
    )  # 40 half-samples each: 11 % either way


def test_unknown_start_laws_add_to_the_error() -> None:
    """With frozen chains all that varies is the start: the error is that of a mean over episodes."""
    frozen = somcot.MarkovChain(np.eye(2), [0.3, 0.7])
    still = somcot.MarkovChain(np.eye(2), 0)
    data = frozen.sample(500, 3, rng=0)
    cost = np.array([[0.0, 1.0], [1.0, 0.0]])
    result = somcot.distance(data, still, cost, discount=0.9)
    share = float(data.start_counts[1] / 500)
    assert result.distance == pytest.approx(share, abs=0.02)
    assert result.estimate is not None
    assert result.estimate.standard_error == pytest.approx(np.sqrt(share * (1 - share) / 500), rel=0.4)
    known = Samples.from_trajectories([[0, 0, 0]] * 10, states=[0, 1], initial=[0.3, 0.7])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settled = somcot.distance(known, still, cost, discount=0.9)
    assert settled.estimate is not None
    assert settled.estimate.standard_error == 0.0


def test_saturation_falls_with_the_data() -> None:
    f = family("rw5_0.7@0.99")
    levels = []
    for n in (20, 80, 320):
        models = fit(f.x.sample(n, 50, rng=0)), fit(f.y.sample(n, 50, rng=1))
        levels.append(intervals.saturation(models, 0.99))
    assert levels[0] > 1.5 * levels[1] > 2.25 * levels[2] > 0


def pvalues(theta: float, n_episodes: int, seeds: int) -> list[float]:
    x, y, cost = walks(5, theta)
    found = []
    for seed in range(seeds):
        a, b = x.sample(n_episodes, 50, rng=seed), y.sample(n_episodes, 50, rng=1000 + seed)
        found.append(somcot.same_process(a, b, cost, discount=0.9, n_permutations=19).pvalue)
    return found


def test_same_process_level_and_power() -> None:
    same = np.array(pvalues(0.5, 20, 60))
    assert (same <= 0.05).mean() <= 0.15
    assert same.mean() == pytest.approx(0.525, abs=0.15)
    assert (np.array(pvalues(0.7, 40, 10)) <= 0.05).mean() >= 0.8


def test_same_process_statistic_is_the_plugin_and_labels_may_be_in_any_order() -> None:
    x, y, cost = walks(5, 0.7)
    a, b = x.sample(30, 50, rng=0), y.sample(30, 50, rng=1)
    found = somcot.same_process(a, b, cost, discount=0.9, n_permutations=39)
    plugin = somcot.distance(a, b, cost, discount=0.9, method="plugin").distance
    assert found.statistic == pytest.approx(plugin, abs=1e-5)
    assert found.null_distribution.shape == (39,)
    order = [3, 1, 4, 0, 2]
    place = np.argsort(order).astype(np.int32)
    mixed = Samples(tuple(order), place[b.now], place[b.following], offsets=b.offsets)
    again = somcot.same_process(a, mixed, cost[:, order], discount=0.9, n_permutations=39)
    assert again.statistic == pytest.approx(found.statistic, abs=1e-5)
    assert again.pvalue == found.pvalue


def test_same_process_on_occupancy_samples() -> None:
    x, y, cost = walks(5, 0.8)
    a, b, c = (chain.sample_occupancy(2000, 0.9, rng=i) for i, chain in enumerate((x, x, y)))
    assert somcot.same_process(a, b, cost, discount=0.9, n_permutations=19).pvalue > 0.05
    assert somcot.same_process(a, c, cost, discount=0.9, n_permutations=19).pvalue == 0.05


def test_same_process_refuses_what_it_cannot_compare() -> None:
    x, _, cost = walks(5, 0.7)
    a = x.sample(10, 20, rng=0)
    with pytest.raises(ValueError, match=r"cost: shape is \(5, 4\).*all states of all recordings"):
        somcot.same_process(a, somcot.random_walk(4).sample(10, 20, rng=0), cost[:, :4], discount=0.9)
    with pytest.raises(TypeError, match="y: found a MarkovChain"):
        somcot.same_process(a, x, cost, discount=0.9)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="n_permutations: found 0"):
        somcot.same_process(a, a, cost, discount=0.9, n_permutations=0)
