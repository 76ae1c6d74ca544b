"""Costs made of features that are estimated themselves: pooling, their noise, and what the interval makes of it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import somcot
from somcot import MarkovChain, Samples, costs
from somcot.recorded.recording import RewardSums
from tests.instances import Floats
from tests.notes import codes, noted, notes_in


def quiet(call: Any, *args: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args, **kwargs)


def noisy(chain: MarkovChain, means: Floats, spread: float, n_episodes: int, seed: int) -> Samples:
    """Episodes of 30 steps with a noisy reward in every state they pass."""
    rng = np.random.default_rng(seed)
    data = chain.sample(n_episodes, 30, rng=rng)
    paths = np.column_stack([data.now.reshape(n_episodes, 30), data.following.reshape(n_episodes, 30)[:, -1]])
    rewards = means[paths] + spread * rng.normal(size=paths.shape)
    return Samples.from_trajectories(np.array(chain.states)[paths], states=chain.states, rewards=list(rewards))


def process(seed: int, n: int = 6) -> tuple[MarkovChain, Floats]:
    rng = np.random.default_rng(seed)
    return MarkovChain(rng.dirichlet(np.full(n, 0.7), size=n)), rng.normal(size=n)


def same_process_coverage(spread: float, seeds: int, **options: Any) -> float:
    """How often the 90 % interval of one process recorded twice holds 0."""
    chain, means = process(0)
    hits = []
    for seed in range(seeds):
        a, b = (noisy(chain, means, spread, 40, 2 * seed + i) for i in range(2))
        cost = costs.from_features(a, b, **options)
        found = quiet(somcot.distance, a, b, cost, discount=0.9, confidence=0.9, threads=1)
        hits.append(found.confidence_interval.low <= 0.0 <= found.confidence_interval.high)
    return float(np.mean(hits))


@pytest.mark.parametrize("spread", [1.0, 5.0])
def test_one_process_recorded_twice_with_noisy_rewards(spread: float) -> None:
    assert same_process_coverage(spread, 25) >= 0.8


def test_a_plain_array_counts_as_known_and_does_not_cover() -> None:
    """Why the other way exists: the recipe before it held 0 in none of the runs."""
    chain, means = process(0)
    a, b = (noisy(chain, means, 1.0, 40, i) for i in range(2))
    assert a.features is not None
    assert b.features is not None
    found = quiet(somcot.distance, a, b, costs.absolute(a.features, b.features), discount=0.9, confidence=0.9)
    assert found.confidence_interval.low > 0.0


def test_the_standard_error_holds_the_noise_of_the_features() -> None:
    """Against the spread of the plug-in over recordings, where the rewards are what varies."""
    kernel = np.array([[0.5, 0.5], [0.5, 0.5]])
    x, y = MarkovChain(kernel), MarkovChain(kernel, states=[2, 3])
    means = np.array([0.0, 3.0])
    found = []
    for seed in range(60):
        a, b = noisy(x, means, 4.0, 20, 2 * seed), noisy(y, means + 2.0, 4.0, 20, 2 * seed + 1)
        found.append(quiet(somcot.distance, a, b, costs.from_features(a, b), discount=0.9))
    errors = [f.estimate.standard_error for f in found]
    assert np.mean(errors) == pytest.approx(np.std([f.plugin for f in found]), rel=0.3)
    plain = quiet(somcot.distance, a, b, np.asarray(costs.from_features(a, b)), discount=0.9)
    assert plain.estimate.standard_error < 0.5 * errors[-1]


@pytest.mark.parametrize("pool", [True, False])
def test_variance_is_that_of_draws_of_the_features(pool: bool) -> None:
    chain, means = process(1, 5)
    a, b = noisy(chain, means, 0.5, 60, 0), noisy(chain, means, 0.5, 30, 1)
    cost = costs.from_features(a, b, pool=pool)
    rng = np.random.default_rng(0)
    law = rng.dirichlet(np.ones(25)).reshape(5, 5)
    law[np.abs(cost.signed) < 0.3] = 0.0  # away from where the size has a kink
    draws = [(law * np.abs(cost.signed + cost.noise(rng))).sum() for _ in range(4000)]
    assert cost.variance(law) == pytest.approx(np.var(draws), rel=0.1)


def test_shared_states_have_one_feature_of_both_recordings() -> None:
    a = Samples.from_trajectories([["u", "v"]] * 4, rewards=[[1.0, 5.0]] * 4)
    b = Samples.from_trajectories([["v", "w"]] * 12, rewards=[[9.0, 2.0]] * 12)
    cost = costs.from_features(a, b)
    pooled = (4 * 5.0 + 12 * 9.0) / 16
    np.testing.assert_allclose(np.asarray(cost), [[pooled - 1, 1.0], [0.0, pooled - 2.0]])
    np.testing.assert_allclose(np.asarray(costs.from_features(a, b, pool=False)), [[8.0, 1.0], [4.0, 3.0]])
    assert cost.shape == (2, 2)


def test_known_rewards_have_no_noise_and_prevail() -> None:
    known = Samples.from_trajectories([["u", "v", "u"]] * 5, rewards={"u": 1.0, "v": 0.25})
    rng = np.random.default_rng(0)
    measured = Samples.from_trajectories([["u", "v", "u"]] * 5, rewards=list(rng.normal(size=(5, 3))))
    cost = costs.from_features(known, measured)
    np.testing.assert_allclose(np.asarray(cost), [[0.0, 0.75], [0.75, 0.0]], atol=1e-9)
    assert cost.variance(np.full((2, 2), 0.25)) == pytest.approx(0.0, abs=1e-12)
    numbers = costs.from_features([3.0, 1.0], known)
    np.testing.assert_allclose(np.asarray(numbers), [[2.0, 2.75], [0.0, 0.75]])


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6))
def test_sums_of_rewards_add_up(seed: int) -> None:
    rng = np.random.default_rng(seed)
    paths = [list(rng.integers(0, 4, size=rng.integers(2, 6))) for _ in range(8)]
    rewards = [10 + rng.normal(size=len(p)) for p in paths]
    states = range(4)
    one, other = (Samples.from_trajectories(paths[k], states=states, rewards=rewards[k]) for k in
                  (slice(0, 3), slice(3, 8)))  # fmt: skip
    joined, whole = one.merge(other).rewards, Samples.from_trajectories(paths, states=states, rewards=rewards).rewards
    assert joined is not None
    assert whole is not None
    for found, expected in zip(joined, whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    codes, values = np.concatenate(paths), np.concatenate(rewards)
    for s in states:
        if (codes == s).sum() > 1:
            assert whole.variances()[s] == pytest.approx(values[codes == s].var(ddof=1))


def test_a_single_reward_borrows_the_spread_of_the_others() -> None:
    sums = RewardSums.of(np.array([1.0, 3.0, 7.0, np.nan]), np.array([0, 0, 1, 2]), 4)
    np.testing.assert_allclose(sums.variances(), [2.0, 2.0, 0.0, 0.0])


def test_features_that_clearly_differ_are_noted() -> None:
    chain, means = process(2)
    a, b = noisy(chain, means, 0.1, 30, 0), noisy(chain, means + np.eye(6)[2], 0.1, 30, 1)
    found = quiet(somcot.distance, a, b, costs.from_features(a, b), discount=0.9)
    assert [note.values["n"] for note in notes_in(found.notes) if note.code == "features-differ"] == [1]
    alike = quiet(somcot.distance, a, noisy(chain, means, 0.1, 30, 2), costs.from_features(a, a), discount=0.9)
    assert "features-differ" not in codes(alike.notes)
    apart = quiet(somcot.distance, a, b, costs.from_features(a, b, pool=False), discount=0.9)
    assert apart.distance > 2 * found.distance


def test_few_values_that_happen_to_be_equal_are_no_difference() -> None:
    """One of five, and two of two: chance gives that in one case of seven."""
    a = Samples.from_trajectories([["u", "v"]] * 5, rewards=[[r, 0.0] for r in (1, 0, 0, 0, 0)])
    few = Samples.from_trajectories([["u", "v"]] * 2, rewards=[[1.0, 0.0]] * 2)
    many = Samples.from_trajectories([["u", "v"]] * 40, rewards=[[1.0, 0.0]] * 40)
    assert costs.from_features(a, few).disagreement() is None
    assert costs.from_features(a, many).disagreements().tolist() == [[0, 0]]
    known = [Samples.from_trajectories([["u", "v"]] * 2, rewards={"u": r, "v": 0.0}) for r in (1.0, 1.5)]
    assert costs.from_features(*known).disagreements().tolist() == [[0, 0]]


def test_disagreements_of_one_process_are_rare() -> None:
    """Rewards of 0 or 1 in 20 states, some with a few visits: at most one pair of recordings in 100 is doubted."""
    rng, doubted = np.random.default_rng(5), 0
    visits = np.repeat([2, 3, 5, 20], 5)
    states = np.repeat(np.arange(20), visits)
    for _ in range(100):
        a, b = (
            Samples.from_trajectories(
                [[s, "end"] for s in states], rewards=[[r, 0.0] for r in rng.random(len(states)) < 0.3]
            )
            for _ in range(2)
        )
        doubted += costs.from_features(a, b).disagreement() is not None
    assert doubted <= 4  # five or more of 100 at 1 % would happen once in 300 times


def test_a_test_of_the_steps_says_that_it_does_not_see_rewards() -> None:
    chain, means = process(2)
    a, b = noisy(chain, means, 0.1, 30, 0), noisy(chain, means + np.eye(6)[2], 0.1, 30, 1)
    with pytest.raises(ValueError, match=r"cost: pool=False counts rewards .* somcot.distance\(\.\.\., confidence"):
        somcot.same_process(a, b, costs.from_features(a, b, pool=False), discount=0.9)
    again = noisy(chain, means, 0.1, 30, 2)
    found = quiet(somcot.distance, a, again, costs.from_features(a, again), discount=0.9)
    assert "near-minimum" in codes(found.notes)
    for cost in ("features", costs.from_features(a, b)):
        with noted("features-differ-in-test", n=1):
            somcot.same_process(a, b, cost, discount=0.9)


def test_the_noise_of_features_is_part_of_the_error() -> None:
    chain, means = process(3)
    other = MarkovChain(np.roll(np.asarray(chain.transition), 1, axis=0))
    a, b = noisy(chain, means, 3.0, 30, 0), noisy(other, means, 3.0, 30, 1)
    cost = costs.from_features(a, b)
    wide, plain = (quiet(somcot.distance, a, b, c, discount=0.9, confidence=0.9) for c in (cost, np.asarray(cost)))
    assert wide.estimate.standard_error > plain.estimate.standard_error
    assert np.ptp(wide.confidence_interval[:2]) > np.ptp(plain.confidence_interval[:2])


def test_what_is_missing_is_named() -> None:
    bare = Samples.from_trajectories([["u", "v"]])
    with pytest.raises(ValueError, match="b: has no rewards; pass rewards="):
        costs.from_features([1.0, 2.0], bare)
    half = Samples.from_trajectories([["u", "v"]], rewards=[[1.0]])
    with pytest.raises(ValueError, match=r"a: no reward was recorded in 1 state\(s\), such as 'v'"):
        costs.from_features(half, [1.0])
