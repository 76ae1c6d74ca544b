"""Rewards that depend on the next state: features follow the rows, in the plug-in, half-samples and permutations."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import earnings

import somcot
from somcot import MarkovChain, Samples, costs
from somcot.costs.features import StepRewards
from somcot.inference.comparison import Exchangeable, Separate, compare
from somcot.inference.intervals import _values
from somcot.inference.model import fit
from somcot.problem import Problem
from tests.notes import codes


def quiet(call: Any, *args: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args, **kwargs)


def paying(go: float, n: int, seed: int, noise: float = 0.0) -> Samples:
    """Two rooms; entering the second pays 1."""
    rng = np.random.default_rng(seed)
    P, episodes, rewards = np.array([[1 - go, go], [0.5, 0.5]]), [], []
    for _ in range(n):
        path = [0]
        for _ in range(20):
            path.append(int(rng.random() < P[path[-1], 1]))
        steps = np.array(path)
        episodes.append(steps.tolist())
        rewards.append((steps[:-1] == 0) * (steps[1:] == 1) + noise * rng.normal(size=20))
    return Samples.from_trajectories(episodes, rewards=rewards)


def test_features_follow_the_rows() -> None:
    a, b = paying(0.2, 40, 0), paying(0.6, 40, 1)
    assert a.features is not None
    assert b.features is not None
    # The reward is the next state's, so features are those of each recording although rewards are pooled.
    np.testing.assert_allclose(costs.from_features(a, b), np.abs(np.subtract.outer(a.features, b.features)), atol=1e-12)
    assert costs.from_features(a, b).disagreement() is None
    # Without steps they are means over both.
    kept_apart = costs.from_features(a.counted, b.counted)
    assert kept_apart.signed[0, 0] == 0.0
    assert kept_apart.disagreement() is not None


def test_noise_that_no_next_state_explains_is_pooled() -> None:
    rng, squares = np.random.default_rng(0), []
    for _ in range(20):
        sides = []
        for _ in range(2):
            data = MarkovChain(rng.dirichlet(np.ones(4), size=4)).sample(60, 40, rng=rng)
            paths = np.column_stack([data.now.reshape(60, 40), data.following.reshape(60, 40)[:, -1]])
            sides.append(Samples.from_trajectories(paths, rewards=list(paths[:, :-1] + rng.normal(size=(60, 40)))))
        own, pooled = (np.diag(costs.from_features(*sides, pool=pool).signed) for pool in (False, True))
        squares.append([(own**2).sum(), (pooled**2).sum()])
    unpooled, left = np.sum(squares, axis=0)
    assert left < 0.25 * unpooled


def test_deviations_are_those_of_a_loop() -> None:
    rng = np.random.default_rng(1)
    now, following, reward = rng.integers(4, size=500), rng.integers(3, size=500), rng.normal(size=500)
    reward += (now == 1) * following
    steps = StepRewards.of(now, following, reward, 4)
    found = dict(zip(zip(steps.now.tolist(), steps.following.tolist(), strict=True), steps.deviations(4), strict=True))
    for s in range(4):
        inside = now == s
        groups = [reward[inside & (following == t)] for t in range(3)]
        mean = reward[inside].mean()
        between = sum(len(g) * (g.mean() - mean) ** 2 for g in groups)
        within = sum(((g - g.mean()) ** 2).sum() for g in groups) / (inside.sum() - 3)
        share = max(0.0, 1.0 - 2.0 * within / between)
        for t, group in enumerate(groups):
            assert found[s, t] == pytest.approx(share * (group.mean() - mean), abs=1e-12)
    assert found[1, 2] > 0.5


def test_step_rewards_keep_to_their_steps(tmp_path: Path) -> None:
    data = paying(0.4, 6, 3)
    assert data.step_rewards is not None
    np.testing.assert_array_equal(data.step_rewards, (data.now == 0) & (data.following == 1))
    taken = data.take([4, 1, 1])
    np.testing.assert_array_equal(taken.step_rewards, (taken.now == 0) & (taken.following == 1))
    both = data.merge(taken.relabel({0: "a", 1: "b"}))
    np.testing.assert_array_equal(both.step_rewards, np.concatenate([data.step_rewards, taken.step_rewards]))
    data.save(tmp_path / "a.samples")
    np.testing.assert_array_equal(Samples.load(tmp_path / "a.samples").step_rewards, data.step_rewards)
    assert quiet(data.with_order, 2).step_rewards is None
    order = np.random.default_rng(0).permutation(data.n_transitions)
    mixed = Samples.from_transitions(
        data.now[order], data.following[order], episode=data.episode[order], rewards=data.step_rewards[order]
    )
    np.testing.assert_array_equal(mixed.step_rewards, (mixed.now == 0) & (mixed.following == 1))
    with pytest.raises(ValueError, match=r"step_rewards: found 3 for 2"):
        Samples((0, 1), np.array([0, 1]), np.array([1, 0]), step_rewards=np.zeros(3))


def test_rewards_of_last_states_belong_to_no_step() -> None:
    a, b = (Samples.from_trajectories([["u", "v"]] * 4, rewards=[[1.0, r]] * 4) for r in (2.0, 3.0))
    assert costs.from_features(a, b).deviations == (None, None)


@pytest.mark.parametrize("pool", [True, False])
def test_draws_have_the_rewards_of_their_rows(pool: bool) -> None:
    """First-order values at a draw, against exact distances of chains a little way from the data."""
    a, b = paying(0.3, 40, 0, 0.1), paying(0.5, 40, 1, 0.1)
    cost = costs.from_features(a, b, pool=pool)
    models = fit(a, "a"), fit(b, "b")
    problem = Problem(models[0].chain, models[1].chain, cost, 0.8)
    comparison, units = compare(*models, problem, cost)
    assert isinstance(comparison, Exchangeable if pool else Separate)
    assert comparison.earnings is not None
    from somcot.inference.intervals import _solved

    own = _solved(comparison, comparison.observed)
    plain = somcot.distance(models[0].chain, models[1].chain, np.asarray(cost), discount=0.8, method="exact").distance
    assert units.to_user(own.value) == pytest.approx(plain, abs=1e-9)
    halves = comparison.halves(0, 5).draws
    near = type(halves)(*(o + 0.01 * (h - o) for o, h in zip(comparison.observed, halves, strict=True)))
    for k, value in enumerate(_values(comparison, own, near)):
        draw = type(halves)(near.p[k], near.q[k])
        assert value == pytest.approx(_solved(comparison, draw).value, abs=2e-5)


def test_halves_have_the_noise_of_their_own_episodes() -> None:
    """All rewards of an episode are raised together, which steps on their own would not show."""
    rng = np.random.default_rng(0)
    paths = rng.integers(2, size=(40, 31))
    moods = rng.normal(size=(40, 1))
    a, b = (Samples.from_trajectories(paths, rewards=list(paths[:, :-1] + m)) for m in (moods, np.zeros((40, 1))))
    cost = costs.from_features(a, b, pool=False)
    models = fit(a, "a"), fit(b, "b")
    comparison, _ = compare(*models, Problem(models[0].chain, models[1].chain, cost, 0.8), cost)
    assert not isinstance(comparison, somcot.inference.comparison.AgainstKnown)
    assert comparison.earnings is not None
    noise = comparison.earnings.noise(0, 50)[0]
    np.testing.assert_allclose(noise[0::2].mean(axis=0), -noise[1::2].mean(axis=0), atol=0.02)
    assert noise.std(axis=0).mean() == pytest.approx(1 / np.sqrt(40), rel=0.3)


def test_interval_and_test_agree_about_equal_processes() -> None:
    a, b = paying(0.3, 30, 0, 0.3), paying(0.42, 30, 1, 0.3)
    result = quiet(somcot.distance, a, b, "features", discount=0.9, confidence=0.9, rng=0)
    assert result.estimate.pvalue == quiet(somcot.same_process, a, b, "features", discount=0.9, rng=0).pvalue


def test_a_change_that_pays_is_found() -> None:
    """The features of states that both have differ because their next states do; pooled means hid that."""
    a, b = paying(0.2, 60, 0), paying(0.6, 60, 1)
    result = quiet(somcot.distance, a, b, "features", discount=0.9)
    x, y = (MarkovChain([[1 - go, go], [0.5, 0.5]], initial=0) for go in (0.2, 0.6))
    pay = np.abs(np.subtract.outer([0.2, 0.0], [0.6, 0.0]))
    assert result.distance == pytest.approx(somcot.distance(x, y, pay, discount=0.9).distance, rel=0.15)
    assert "features-differ" not in codes(result.notes)


@pytest.mark.statistical
def test_intervals_of_rewards_by_next_state_hold() -> None:
    """28 of 60 in all of these together before rewards followed the rows."""
    found = []
    for family in earnings.families():
        if family.name in ("grid, pays at the goal, slips 0.1 and 0.4", "jumps cost, noisy", "hidden modes, moves pay"):
            (x, a), (y, b) = (side.shows(family.length) for side in (family.x, family.y))
            truth = somcot.distance(x, y, costs.absolute(a, b), discount=earnings.DISCOUNT).distance
            for k in range(20):
                _, _, low, high, _ = quiet(earnings.draw, family, 1000 + k, pool=True)
                found.append(low <= truth <= high)
    assert np.mean(found) >= 0.8
