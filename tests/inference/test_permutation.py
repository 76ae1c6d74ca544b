"""The test of "the same process?": statistics against brute force, level, union of states, stop, refusals."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import somcot
from somcot import MarkovChain, Samples
from somcot.inference.permutation import looks_identical
from somcot.inference.statistics import chi_squared, main_entries
from somcot.inference.units import WholeSequences
from somcot.plumbing.errors import DataWarning
from somcot.plumbing.notes import Note
from tests.notes import codes, noted

LABELS = 1.0 - np.eye(5)


def walk(theta: float, seed: int, n: int = 40) -> Samples:
    return somcot.random_walk(5, theta).sample(n, 30, rng=seed)


def test_three_recordings_squared_distances_to_all_together() -> None:
    parts = [walk(0.5, 0), walk(0.7, 1, n=20), walk(0.9, 2, n=20)]
    pooled = parts[0].merge(parts[1]).merge(parts[2]).chain()
    plain = [somcot.distance(p.chain(), pooled, LABELS, discount=0.9).distance for p in parts]
    expected = float(np.array([0.5, 0.25, 0.25]) @ np.square(plain))
    found = somcot.same_process(parts, cost=3.0 * LABELS, discount=0.9, n_permutations=19)
    assert found.statistic == pytest.approx(9.0 * expected, rel=1e-9)
    assert found.pvalue == 0.05


@pytest.mark.parametrize("statistic", ["distance", "pearson"])
def test_level_and_power(statistic: str) -> None:
    same: list[bool] = []
    other: list[bool] = []
    for seed in range(60):
        a, b, c = walk(0.5, seed, 15), walk(0.5, 1000 + seed, 15), walk(0.75, 2000 + seed, 15)
        for second, found in ((b, same), (c, other)):
            test = somcot.same_process(a, second, discount=0.9, statistic=statistic, n_permutations=19, rng=seed)
            found.append(test.pvalue <= 0.1)
    assert np.mean(same) <= 0.25  # 0.1 and 3.9 standard errors
    assert np.mean(other) >= 0.75


def test_the_same_bits_for_any_number_of_threads() -> None:
    a, b = walk(0.5, 0), walk(0.55, 1)
    found = [somcot.same_process(a, b, discount=0.9, threads=t, rng=5) for t in (1, 3)]
    assert found[0].pvalue == found[1].pvalue
    assert found[0].null_distribution.tobytes() == found[1].null_distribution.tobytes()


def test_stops_early_when_the_answer_is_clear_and_says_so() -> None:
    found = somcot.same_process(walk(0.5, 0), walk(0.5, 1), discount=0.9)
    assert found.stopped_early
    assert found.n_permutations == len(found.null_distribution) < 199
    far = found.null_distribution >= found.observed
    assert far.sum() == 10
    assert far[-1], "it stops at the tenth"
    assert found.pvalue == pytest.approx(10 / found.n_permutations)
    assert "stopped early" in str(found)
    clear = somcot.same_process(walk(0.5, 0), walk(0.9, 1), discount=0.9)
    assert (clear.stopped_early, clear.n_permutations, clear.pvalue) == (False, 199, 0.005)
    assert len(repr(clear)) < 120


@pytest.mark.parametrize("seed", [0, 3, None])
def test_distance_and_tests_with_and_without_a_margin_draw_alike(seed: int | None) -> None:
    """One seed, one answer: the three resample in the same way, also from a generator in the same state."""
    x, y = (somcot.random_walk(4, stay=stay).sample(40, 30, rng=k) for k, stay in enumerate((0.3, 0.4)))
    for rng in (lambda: seed, lambda: np.random.default_rng(seed or 0)):
        result = somcot.distance(x, y, "labels", discount=0.9, confidence=0.9, rng=rng())
        plain = somcot.same_process(x, y, "labels", discount=0.9, rng=rng())
        decided = somcot.same_process(x, y, "labels", discount=0.9, margin=0.3, rng=rng())
        assert decided.distance is not None
        assert result.confidence_interval is not None
        assert decided.distance.confidence_interval is not None
        assert decided.distance.distance == result.distance
        assert decided.distance.confidence_interval.low == result.confidence_interval.low
        # The upper end for a claim of equality is never lower; see docs/gate.md.
        assert decided.distance.confidence_interval.high >= result.confidence_interval.high
        assert result.estimate is not None
        assert decided.pvalue == plain.pvalue == result.estimate.pvalue
        assert decided.n_permutations == plain.n_permutations


def test_states_need_not_agree() -> None:
    a = Samples.from_trajectories([["a", "b", "a", "b"]] * 10 + [["b", "b", "a"]] * 5)
    b = Samples.from_trajectories([["c", "a", "b", "c"]] * 10 + [["b", "a", "a"]] * 5)
    assert somcot.same_process(a, b, discount=0.9).pvalue == 0.005
    assert somcot.same_process(b, a, cost=LABELS[:3, :3], discount=0.9).pvalue == 0.005
    with pytest.raises(ValueError, match=r"cost: shape is \(2, 3\).*\(3, 3\)"):
        somcot.same_process(a, b, LABELS[:2, :3], discount=0.9)


def test_features_of_all_recordings_together() -> None:
    reward = {0: 1.0, 1: 0.0, 2: -1.0}
    paths = [[0, 1, 2, 1, 0], [1, 1, 2, 0, 0], [2, 1, 1, 0, 2]] * 5
    data = Samples.from_trajectories(paths, rewards=reward)
    other = Samples.from_trajectories([p[::-1] for p in paths], rewards=reward)
    table = somcot.costs.absolute([1, 0, -1], [1, 0, -1])
    named = somcot.same_process(data, other, "features", discount=0.9, n_permutations=19)
    assert named.statistic == pytest.approx(somcot.same_process(data, other, table, discount=0.9).statistic)
    estimated = somcot.costs.from_features(data, other)
    assert somcot.same_process(data, other, estimated, discount=0.9).statistic == pytest.approx(named.statistic)
    with pytest.raises(ValueError, match="cost: 'features' needs a reward for every state"):
        somcot.same_process(walk(0.5, 0), walk(0.5, 1), "features", discount=0.9)


def noisy_copy(samples: Samples, share: float, seed: int) -> Samples:
    rng = np.random.default_rng(seed)
    assert samples.offsets is not None
    episodes = []
    for begin, end in zip(samples.offsets[:-1], samples.offsets[1:], strict=True):
        path = np.append(samples.now[begin:end], samples.following[end - 1])
        changed = rng.random(len(path)) < share
        episodes.append(np.where(changed, rng.integers(5, size=len(path)), path).tolist())
    return Samples.from_trajectories(episodes, states=range(5))


def test_recordings_that_are_not_independent() -> None:
    a = walk(0.5, 0, n=100)
    assert looks_identical(a, a) == Note("too-alike")
    assert looks_identical(a, noisy_copy(a, 0.01, 1)) == Note("too-alike")
    with noted("too-alike"):
        somcot.same_process(a, noisy_copy(a, 0.01, 1), discount=0.9)
    assert not any(looks_identical(walk(0.5, s), walk(0.5, 1000 + s)) for s in range(100))


def test_copies_of_few_sequences_are_noted() -> None:
    """Of the orders of six pairs of copies, one in 10,395 has equal halves; of those of three, one in 15."""
    few = walk(0.5, 0, n=6)
    assert looks_identical(few, few) == Note("too-alike")
    with pytest.warns(DataWarning) as recorded:
        assert somcot.same_process(few, few, discount=0.9).pvalue == 1.0
    assert "too-alike" in codes(recorded)
    three = walk(0.5, 0, n=3)
    assert looks_identical(three, three) is None


def test_one_deterministic_path_is_not_suspicious() -> None:
    paths = Samples.from_trajectories([[0, 1, 2, 0]] * 10)
    assert looks_identical(paths, paths) is None, "there is only one way it can come out"


def test_recordings_without_a_state_in_common_are_not_alike() -> None:
    """Rows of which only one side has any are equal in every way that chi-squared knows."""
    a, b = (MarkovChain(np.full((6, 6), 1 / 6)).sample(5, 100, rng=seed) for seed in (0, 1))
    elsewhere = replace(b, states=tuple(range(10, 16)))
    engine = WholeSequences.of([a, elsewhere])
    counts = np.concatenate([engine.counts(engine.observed)[None], engine.regroup(0, range(20))])
    found = chi_squared(engine.support, counts, main_entries(engine.support))
    assert found[0] < found[1:].min()
    assert looks_identical(a, elsewhere) is None


@pytest.mark.parametrize("length", [5, 7])
def test_long_run_starts_of_recordings_without_a_state_in_common(length: int) -> None:
    """Two clusterings, say: there is no long run of all together, so every group starts where it is seen."""
    a, b = (somcot.random_walk(n, theta).sample(10, 200, rng=n) for n, theta in ((5, 0.5), (length, 0.7)))
    x, y = a.with_start("stationary"), replace(b.with_start("stationary"), states=tuple(range(10, 10 + length)))

    def place(one: Samples, other: Samples) -> Any:
        return somcot.costs.absolute(np.array(one.states) % 10, np.array(other.states) % 10)

    with noted("no-shared-states"):
        found = somcot.same_process(x, y, place, discount=0.9)
    assert found.pvalue == 0.005
    assert found.statistic == pytest.approx(somcot.distance(x, y, place, discount=0.9, method="plugin").distance)
    engine = WholeSequences.of([x, y])
    assert engine.counts(engine.observed)[:, engine.support.indptr[-2] :].sum(axis=1).tolist() == [2000, 2000]


def test_few_episodes_are_said_to_be_few() -> None:
    x, y = (somcot.random_walk(5).sample(1, 12, rng=k) for k in (0, 1))
    with noted("few-permutations", episodes=2, groups=2, ways=4, least=0.25), noted("few-sequences", n=1):
        assert somcot.same_process(x, y, discount=0.9, n_permutations=19).pvalue == 1.0


def test_few_long_recordings_are_permuted_in_blocks_as_for_an_interval() -> None:
    for theta, rejected in ((0.5, False), (0.9, True)):
        x, y = (somcot.random_walk(5, p).sample(2, 600, rng=k) for k, p in enumerate((0.5, theta)))
        with noted("few-long-recordings", n=2):
            test = somcot.same_process(x, y, discount=0.9, rng=3)
        with noted("few-long-recordings", n=2), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*not distinguishable")
            result = somcot.distance(x, y, discount=0.9, confidence=0.9, rng=3)
        assert result.estimate is not None
        assert result.confidence_interval is not None
        assert result.estimate.pvalue == test.pvalue
        assert (result.confidence_interval.low > 0.0) == (test.pvalue <= 0.05) == rejected
        marked = [share.marked for share in result.contributions().transitions]
        assert any(marked) == rejected


def test_what_is_refused() -> None:
    a = walk(0.5, 0)
    with pytest.raises(TypeError, match=r"y: found a MarkovChain, which is known.*somcot.distance"):
        somcot.same_process(a, somcot.random_walk(5), discount=0.9)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"x\[1\]: found list, expected Samples"):
        somcot.same_process([a, [0, 1]], discount=0.9)  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match=r"y: holds independent samples of the occupancy at discount 0\.9, x holds episodes"
    ):
        somcot.same_process(a, somcot.random_walk(5).sample_occupancy(50, 0.9, rng=0), discount=0.9)
    with pytest.raises(TypeError, match="discount: needed for statistic='distance'"):
        somcot.same_process(a, a)
    with pytest.raises(TypeError, match="y: missing"):
        somcot.same_process(a, discount=0.9)
    with pytest.raises(TypeError, match="y: x is a list of recordings already"):
        somcot.same_process([a, a], a, discount=0.9)
    with pytest.raises(ValueError, match="x: found a list of 1 recording"):
        somcot.same_process([a], discount=0.9)
    with pytest.raises(ValueError, match="statistic: found 'chi', expected 'distance' or 'pearson'"):
        somcot.same_process(a, a, statistic="chi")
    with pytest.raises(ValueError, match=r"cost: found 'label', expected an array, .* labels, features"):
        somcot.same_process(a, a, "label", discount=0.9)
    starts = [Samples.from_trajectories([[0, 1], [1, 0]], initial=i) for i in (0, 1)]
    with pytest.raises(ValueError, match=r"x\[1\]: its known initial distribution differs from that of x\[0\]"):
        somcot.same_process(starts, discount=0.9)


def test_occupancy_samples_and_pearson_need_no_cost() -> None:
    x, y = somcot.random_walk(5, 0.5), somcot.random_walk(5, 0.8)
    a, b = x.sample_occupancy(800, 0.9, rng=0), y.sample_occupancy(800, 0.9, rng=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert somcot.same_process(a, b, statistic="pearson", n_permutations=19).pvalue == 0.05
        assert somcot.same_process(a, b, discount=0.9, n_permutations=19).pvalue == 0.05


@pytest.mark.filterwarnings("ignore:the recordings are more alike")  # one pair in a thousand, and in these 40
def test_long_run_starts_keep_the_level_and_the_power() -> None:
    """The start law of each regrouping is estimated again; more than 6 of 40 null pairs below .05: 3 in a thousand."""
    chain = somcot.random_walk(5, 0.5)
    pvalues = []
    for seed in range(40):
        x, y = (chain.sample(20, 30, rng=2 * seed + side).with_start("stationary") for side in (0, 1))
        pvalues.append(somcot.same_process(x, y, LABELS, discount=0.9, n_permutations=39, rng=seed).pvalue)
    assert sum(p <= 0.05 for p in pvalues) <= 6
    x, y = (walk(theta, 7).with_start("stationary") for theta in (0.35, 0.65))
    assert somcot.same_process(x, y, LABELS, discount=0.9, n_permutations=99, rng=0).pvalue <= 0.05


def test_it_prints_what_it_says() -> None:
    a, b, c = (somcot.random_walk(5, p).sample(40, 50, rng=k) for k, p in enumerate((0.5, 0.5, 0.8)))
    cost = 1.0 - np.eye(5)
    assert re.fullmatch(
        r"p = [\d.]+, no difference shown, statistic [\d.]+, \d+ permutations, stopped early",
        str(somcot.same_process(a, b, cost, discount=0.9)),
    )
    assert str(somcot.same_process(a, c, cost, discount=0.9)).startswith("p = 0.005, the recordings differ, statistic ")


def test_a_further_named_cost_is_that_of_the_pooled_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with states that one side lacks."""
    x = somcot.random_walk(4, 0.5).sample(20, 20, rng=0)
    y = somcot.random_walk(3, 0.5).sample(20, 20, rng=1)
    assert x.n_states > y.n_states
    of_numbers = lambda _, a, b: somcot.costs.absolute(a.states, b.states)  # noqa: E731
    monkeypatch.setattr(somcot.costs, "_named", of_numbers)
    table = somcot.costs.absolute(range(4), range(4))
    named, given = (
        somcot.same_process(x, y, cost, discount=0.9, n_permutations=19, rng=0) for cost in ("numbers", table)
    )
    assert (named.statistic, named.pvalue) == (given.statistic, given.pvalue)
