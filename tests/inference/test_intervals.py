"""Standard errors, intervals and the permutation test."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import somcot
from somcot.inference import intervals
from somcot.inference.model import fit
from somcot.samples import Samples
from tests.data_instances import episodes, estimate, family, truth
from tests.instances import walks


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


@pytest.mark.parametrize("occupancy", [False, True])
def test_standard_error_matches_the_spread_of_the_plugin(occupancy: bool) -> None:
    name = "lazy"
    runs = [estimate(name, 3000, seed, occupancy=occupancy) for seed in range(80)]
    spread = np.std([run.plugin for run in runs if run.plugin is not None])
    errors = [run.estimate.standard_error for run in runs if run.estimate is not None]
    assert np.mean(errors) == pytest.approx(spread, rel=0.25)


def test_standard_error_by_rows_is_the_delta_method() -> None:
    """Against a parametric bootstrap of the linearised distance."""
    f = family("rw5_0.7@0.9")
    model = fit(f.x.sample(60, 50, rng=0))
    gradient = somcot.distance(model.chain, f.y, f.cost, discount=0.9).gradient
    assert gradient is not None
    found = intervals.standard_error(model, fit(f.y), gradient)
    rng = np.random.default_rng(0)
    kernel, slope = np.asarray(model.chain.transition), np.asarray(gradient.transition_x)
    draws = []
    for _ in range(4000):
        noisy = np.array([rng.multinomial(n, row) / n for n, row in zip(model.totals[:-1], kernel, strict=True)])
        draws.append(((noisy - kernel) * slope).sum())
    assert found == pytest.approx(np.std(draws), rel=0.06)


def test_episode_standard_error_agrees_on_markov_data() -> None:
    f = family("rw5_0.7@0.9")
    a, b = episodes(f.x, 20_000, 0), episodes(f.y, 20_000, 1)
    by_rows = somcot.distance(a, b, f.cost, discount=0.9)
    by_episodes = somcot.distance(a, b, f.cost, discount=0.9, standard_error="episodes")
    assert by_rows.estimate is not None
    assert by_episodes.estimate is not None
    assert by_episodes.estimate.standard_error == pytest.approx(by_rows.estimate.standard_error, rel=0.15)


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
    assert result.estimate.standard_error == pytest.approx(np.sqrt(share * (1 - share) / 500), rel=1e-6)
    known = Samples.from_trajectories([[0, 0, 0]] * 10, states=[0, 1], initial=[0.3, 0.7])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settled = somcot.distance(known, still, cost, discount=0.9)
    assert settled.estimate is not None
    assert settled.estimate.standard_error == 0.0


def test_bootstrap_interval_well_above_zero() -> None:
    f = family("lazy")
    a, b = f.x.sample(100, 50, rng=0), f.y.sample(100, 50, rng=1)
    result = somcot.distance(a, b, f.cost, discount=0.95, confidence=0.9, interval="bootstrap", n_resamples=60)
    delta = somcot.distance(a, b, f.cost, discount=0.95, confidence=0.9)
    assert result.confidence_interval is not None
    assert delta.confidence_interval is not None
    width = result.confidence_interval.high - result.confidence_interval.low
    assert width == pytest.approx(delta.confidence_interval.high - delta.confidence_interval.low, rel=0.4)


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
    a = x.sample(5, 20, rng=0)
    with pytest.raises(ValueError, match=r"cost: shape is \(5, 4\).*all states of all recordings"):
        somcot.same_process(a, somcot.random_walk(4).sample(5, 20, rng=0), cost[:, :4], discount=0.9)
    with pytest.raises(TypeError, match="y: found a MarkovChain"):
        somcot.same_process(a, x, cost, discount=0.9)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="n_permutations: found 0"):
        somcot.same_process(a, a, cost, discount=0.9, n_permutations=0)


def test_guard_lets_the_interval_reach_zero() -> None:
    """Where the states are shared, the lower end is above 0 only if a permutation test agrees."""
    x, _, cost = walks(5, 0.5)
    lows = []
    for seed in range(30):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = somcot.distance(
                x.sample(30, 50, rng=seed), x.sample(30, 50, rng=500 + seed), cost, discount=0.9, confidence=0.5
            )
        assert result.confidence_interval is not None
        lows.append(result.confidence_interval.low)
    assert np.mean(np.array(lows) > 0) <= 0.15
