"""Recorded data: labels, counts, episodes, merging and resampling."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from somcot.chains import MarkovChain, random_walk
from somcot.plumbing.arrays import Floats
from somcot.plumbing.errors import UnseenStateWarning
from somcot.samples import Samples
from tests.notes import noted

# untyped on purpose: many tests pass what the annotations forbid
from_trajectories: Callable[..., Samples] = Samples.from_trajectories
from_transitions: Callable[..., Samples] = Samples.from_transitions


def dense(matrix: object) -> Floats:
    return matrix.toarray() if isinstance(matrix, csr_array) else np.asarray(matrix)


def naive_counts(trajectories: list[list[Any]]) -> dict[tuple[Any, Any], int]:
    table: dict[tuple[Any, Any], int] = {}
    for trajectory in trajectories:
        for pair in pairwise(trajectory):
            table[pair] = table.get(pair, 0) + 1
    return table


def labelled_counts(samples: Samples) -> dict[tuple[Any, Any], int]:
    table = dense(samples.counts())
    return {(samples.states[i], samples.states[j]): int(table[i, j]) for i, j in np.argwhere(table)}


labels = st.one_of(
    st.sampled_from([0, 1, 2, 7, -3, 2**31, 2**40]), st.sampled_from(["a", "b"]), st.sampled_from([(0, 1), (1, 0)])
)
trajectories_of_labels = st.lists(st.lists(labels, min_size=2, max_size=6), min_size=1, max_size=5)


@given(trajectories_of_labels)
def test_counts_equal_a_plain_loop(trajectories: list[list[Any]]) -> None:
    samples = from_trajectories(trajectories)
    assert labelled_counts(samples) == naive_counts(trajectories)
    assert samples.n_transitions == sum(len(t) - 1 for t in trajectories)
    starts = {samples.states[i]: int(k) for i, k in enumerate(samples.start_counts) if k}
    assert starts == {t[0]: sum(u[0] == t[0] for u in trajectories) for t in trajectories}
    np.testing.assert_array_equal(samples.visits, dense(samples.counts()).sum(axis=1))


@given(st.integers(1, 400), st.integers(1, 3000), st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_table_and_sorted_counting_agree(n: int, length: int, seed: int) -> None:
    path = np.random.default_rng(seed).integers(0, n, length + 1)
    table = np.zeros((n, n), dtype=np.int64)
    np.add.at(table, (path[:-1], path[1:]), 1)
    samples = from_transitions(path[:-1], path[1:], states=range(n))
    np.testing.assert_array_equal(dense(samples.counts()), table)


def chunked(states: list[Any], terminated: bool) -> st.SearchStrategy[Samples]:
    path = st.lists(st.sampled_from(states), min_size=2, max_size=5)
    return st.lists(path, min_size=1, max_size=3).map(lambda t: from_trajectories(t, terminated=terminated))


@given(chunked([0, 1, 2], True), chunked([2, "x"], False), chunked(["x", (1,), 5], True))
def test_merging_adds_and_is_associative(a: Samples, b: Samples, c: Samples) -> None:
    left, right = a.merge(b).merge(c), a.merge(b.merge(c))
    assert left.states == right.states
    for name in ("now", "following", "offsets", "terminated", "start_counts", "visits", "episode"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))
    total: dict[tuple[Any, Any], int] = {}
    for part in (a, b, c):
        for pair, k in labelled_counts(part).items():
            total[pair] = total.get(pair, 0) + k
    assert labelled_counts(left) == total
    assert left.n_episodes == a.n_episodes + b.n_episodes + c.n_episodes


@given(chunked([0, 1, 2, 3], True), st.integers(0, 2**32 - 1))
def test_resampling_draws_whole_episodes(samples: Samples, seed: int) -> None:
    drawn = samples.resample(seed)
    assert samples.offsets is not None
    assert drawn.offsets is not None
    whole = {tuple(samples.now[i:j]) + tuple(samples.following[i:j]) for i, j in pairwise(samples.offsets)}
    again = [tuple(drawn.now[i:j]) + tuple(drawn.following[i:j]) for i, j in pairwise(drawn.offsets)]
    assert len(again) == samples.n_episodes
    assert set(again) <= whole
    np.testing.assert_array_equal(drawn.now, samples.resample(np.random.default_rng(seed)).now)


def test_resampling_differs_between_seeds_and_draws_single_independent_transitions() -> None:
    samples = from_transitions(np.arange(50) % 7, np.arange(50) % 5, discount=0.9, initial=0)
    first, second = samples.resample(1), samples.resample(2)
    assert first.n_transitions == samples.n_transitions == samples.n_units
    assert (first.counts() != second.counts()).any()
    pairs = set(zip(samples.now.tolist(), samples.following.tolist(), strict=True))
    assert set(zip(first.now.tolist(), first.following.tolist(), strict=True)) <= pairs


def test_pooled_episodes_can_be_dealt_out_again() -> None:
    x, y = from_trajectories([[0, 1, 2], [2, 2]]), from_trajectories([[1, 0, 1]])
    pooled = x.merge(y)
    np.testing.assert_array_equal(pooled.take([0, 1]).counts(), x.counts())
    np.testing.assert_array_equal(pooled.episode, [0, 0, 1, 2, 2])
    assert pooled.take([2]).start_counts.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    "given_labels",
    [
        np.array([3, 5, 3, 9], dtype=np.int8),
        np.array([3, 5, 3, 9], dtype=np.uint64),
        np.array([2**63 + 3, 2**63 + 5, 2**63 + 3, 2**63 + 9], dtype=np.uint64),
        np.array([2**31, 2**40, 2**31, 2**41]),
        np.array([-7, -1, -7, 3]),
        np.array([0.0, 1.0, 0.0, 2.0]),
        np.array([True, False, True, True]),
        np.array(["a", "b", "a", "c"]),
        np.array([b"a", b"b", b"a", b"c"]),
        np.array(["a", (1, 2), "a", frozenset([3])], dtype=object),
        [2**70, 1, 2**70, -(2**70)],
        [np.int64(4), np.int16(5), np.int64(4), 6],
        (("x", 1), ("x", 2), ("x", 1), ("y", 1)),
        iter(["up", "down", "up", "left"]),
    ],
    ids=lambda value: str(getattr(value, "dtype", type(value).__name__)),
)
def test_labels_of_any_kind(given_labels: Any) -> None:
    kept = list(given_labels)
    samples = from_trajectories([given_labels if not hasattr(given_labels, "__next__") else iter(kept)])
    path = [samples.states[i] for i in (*samples.now, samples.following[-1])]
    assert path == kept
    assert not any(isinstance(label, np.generic) for label in samples.states)


def test_given_states_fix_the_order_and_floats_may_be_labels() -> None:
    assert from_trajectories([["b", "a"]], states=["z", "b", "a"]).now.tolist() == [1]
    assert from_trajectories([[0, 1, 2]], states=[2, 0, 1]).now.tolist() == [1, 2]
    assert from_trajectories([[0.5, 1.5]], states=[1.5, 0.5]).now.tolist() == [1]
    assert from_trajectories([[10, 2**40]], states=[2**40, 10]).now.tolist() == [1]


def test_input_is_neither_changed_nor_shared() -> None:
    path = np.array([0, 1, 2, 1], dtype=np.int32)
    samples = from_transitions(path[:-1], path[1:])
    path[:] = 0
    assert samples.now.tolist() == [0, 1, 2]
    assert path.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        samples.now[0] = 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: from_trajectories([]), ValueError, "trajectories: none of the 0"),
        (lambda: from_trajectories([[], [3]]), ValueError, "trajectories: none of the 2 has a step"),
        (lambda: from_trajectories(3), TypeError, "trajectories: found 3"),
        (lambda: from_trajectories("abc"), TypeError, "trajectories: found a str"),
        (lambda: from_trajectories(["home", "cart"]), TypeError, r"trajectories\[0\]: found the text 'home'"),
        (lambda: from_trajectories(np.array([0, 1, 2])), TypeError, r"trajectories\[0\]: found .*0.* sequence"),
        (lambda: from_trajectories([{0, 1}]), TypeError, r"trajectories\[0\]: found a set"),
        (lambda: from_trajectories([np.zeros((3, 2))]), ValueError, r"trajectories\[0\]: found 2 dimensions"),
        (lambda: from_trajectories([[0, 1], [0.0, np.nan]]), ValueError, r"trajectories\[1\]: label 1 is nan"),
        (lambda: from_trajectories([[0, 1], np.array([np.inf, 1])]), ValueError, r"trajectories\[1\]: label 0 is inf"),
        (lambda: from_trajectories([[0, 1], ["a", float("nan")]]), ValueError, r"trajectories\[1\]\[1\]: .* nan"),
        (lambda: from_trajectories([["a", None]]), ValueError, r"trajectories\[0\]\[1\]: the label is None"),
        (
            lambda: from_trajectories([["a"] * 2, [0.25, 0.5]]),
            TypeError,
            r"trajectories\[1\]\[0\]: found the number 0.2",
        ),
        (lambda: from_trajectories([np.array([1j, 2])]), TypeError, r"trajectories\[0\]: .*complex128"),
        (lambda: from_trajectories([[[0], [1]]]), TypeError, r"trajectories\[0\]\[0\]: label \[0\] is not hashable"),
        (lambda: from_trajectories([[True, 1]]), TypeError, "truth values and numbers"),
        (lambda: from_trajectories([[1, "1"]]), TypeError, "found 1 and '1'"),
        (lambda: from_trajectories([[1, 0]], states=["1", "0"]), TypeError, "found 1 and '1'|found 0 and '0'"),
        (lambda: from_trajectories([[0, 1]], states=["a", "b"]), ValueError, r"2 label\(s\).*trajectories\[0\]\[0\]"),
        (lambda: from_trajectories([[0, 1, 7]], states=[0, 1]), ValueError, r"states: 1 label.* 7, first at .*\[2\]"),
        (lambda: from_trajectories([[0, 1]], states=[0, 1, 1]), ValueError, "states: label 1 appears more than once"),
        (lambda: from_trajectories([[0, 1]], states=[0, 1, np.nan]), ValueError, "states: label 2 is NaN"),
        (lambda: from_trajectories([[0, 1]], terminated=[True, False]), ValueError, "terminated: found shape"),
        (lambda: from_trajectories([[0, 1]], terminated=[2]), TypeError, "terminated: found entries other than"),
        (lambda: from_trajectories([[0, 1]], terminated=["yes"]), TypeError, "terminated: found entries"),
        (lambda: from_trajectories([[0, 1]], initial=5), ValueError, "initial: 5 is not a state"),
        (lambda: from_trajectories([["a", "b"]], initial="c"), ValueError, "initial: 'c' is not a state"),
        (lambda: from_trajectories([[0, 1]], initial=[1, 0, 0]), ValueError, "initial: found 3 probabilities for 2"),
        (lambda: from_trajectories([[0, 1]], initial=[0.5, 0.6]), ValueError, "initial: probabilities sum to 1.1"),
        (lambda: from_trajectories([[0, 1]], initial={4: 1.0}), ValueError, "initial: 4 not among"),
        (lambda: from_trajectories([[0, 1]], rewards=[[1.0, np.nan]]), ValueError, r"rewards\[0\]: entry 1 is nan"),
        (lambda: from_trajectories([[0, 1]], rewards=[[1, 2, 3]]), ValueError, r"rewards\[0\]: found 3 rewards"),
        (lambda: from_trajectories([[0, 1]], rewards=[]), ValueError, "rewards: found 0 arrays for 1"),
        (lambda: from_trajectories([[0, 1]], rewards={0: 1.0}), ValueError, "rewards: no reward for 1 state.*: 1"),
        (lambda: from_transitions([0, 1], [1]), ValueError, "next_states: found 1 labels for the 2"),
        (lambda: from_transitions([], []), ValueError, "states_: found no transition"),
        (lambda: from_transitions([0, 1], [1, 2], states=[0, 1]), ValueError, r"first at next_states\[1\]"),
        (lambda: from_transitions([0.5], [1.5]), TypeError, r"states_\[0\]: found the number 0.5"),
        (lambda: from_transitions([0], [1], discount=1.0), ValueError, "discount: found 1.0"),
        (lambda: from_transitions([0], [1], discount="high"), TypeError, "discount: found 'high'"),
        (lambda: from_transitions([0], [1], discount=0.9, episode=[0]), ValueError, "episode: independent samples"),
        (lambda: from_transitions([0], [1], discount=0.9, truncated=[0]), ValueError, "truncated: independent samples"),
        (lambda: from_transitions([0], [1], discount=0.9, terminated=True), ValueError, "terminated: found True"),
        (lambda: from_transitions([0], [1], terminated=[0, 1]), ValueError, "terminated: found shape"),
        (lambda: from_transitions([0], [1], episode=["a", "b"]), ValueError, "episode: found 2 names for 1"),
        (lambda: from_transitions([0, 1], [1, 0], rewards=[1.0]), ValueError, "rewards: found 1 rewards for 2"),
        (lambda: from_trajectories([[0, 1]]).merge(3), TypeError, "other: found int"),  # type: ignore[arg-type]
        (
            lambda: from_trajectories([[0, 1]]).merge(from_transitions([0], [1], discount=0.9)),
            ValueError,
            "other: its discount is 0.9",
        ),
        (
            lambda: from_trajectories([[0, 1]], initial=0).merge(from_trajectories([[0, 1]], initial=1)),
            ValueError,
            "other: its known initial distribution",
        ),
        (lambda: from_trajectories([[0, 1]]).merge(from_trajectories([["0", "1"]])), TypeError, "other: found 0 and"),
        (lambda: from_trajectories([[0, 1]]).merge(from_trajectories([[True, False]])), TypeError, "other: .*True"),
        (lambda: from_trajectories([[0, 1]]).take([1]), ValueError, "units: found numbers from 1 to 1"),
        (lambda: from_trajectories([[0, 1]]).take([]), ValueError, "units: found shape"),
    ],
)
def test_bad_input_is_named(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_short_trajectories_are_counted() -> None:
    with noted("short-trajectories", share=(2, 3)):
        samples = from_trajectories([[5], [0, 1, 0], []], terminated=[True, False, True], rewards=[[9], [1, 2], []])
    assert samples.states == (0, 1)
    assert samples.n_episodes == 1
    assert samples.features is not None
    np.testing.assert_array_equal(samples.features, [1.0, 2.0])


def test_terminated_end_is_absorbing_and_truncated_end_is_said() -> None:
    ended = from_trajectories([["a", "a", "goal"]], terminated=True)
    assert dense(ended.chain().transition).tolist() == [[0.5, 0.5], [0, 1]]
    assert ended.terminal.tolist() == [False, True]
    stopped = from_trajectories([["a", "a", "goal"]], terminated=False)
    with noted("never-left", UnseenStateWarning, n=1, states="'goal'"):
        chain = stopped.chain()
    assert dense(chain.transition).tolist() == [[0.5, 0.5], [0, 1]]
    assert not stopped.terminal.any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stopped.chain(check=False)


def test_other_episode_tells_what_happens_after_a_truncated_end() -> None:
    first, second = from_trajectories([["a", "b"]]), from_trajectories([["b", "a", "a"]])
    np.testing.assert_array_equal(first.merge(second).chain().transition, [[0.5, 0.5], [1, 0]])


def test_terminal_state_that_is_left_elsewhere_is_said() -> None:
    samples = from_trajectories([[0, 1], [1, 0, 1]], terminated=True)
    with noted("ended-but-left", states="1"):
        chain = samples.chain()
    np.testing.assert_array_equal(chain.transition, [[0, 1], [1, 0]])


@pytest.mark.parametrize("discount", [None, 0.9])
def test_unseen_states_are_listed_and_kept(discount: float | None) -> None:
    samples = from_transitions([0, 1], [1, 0], states=range(14), initial=0, discount=discount)
    with noted("never-seen", UnseenStateWarning, n=12):
        chain = samples.chain()
    assert chain.states == tuple(range(14))
    assert dense(chain.transition)[5, 5] == 1.0


def test_start_in_a_state_never_seen_is_said() -> None:
    samples = from_trajectories([[0, 1, 0]], states=[0, 1, 2], initial={2: 0.5, 0: 0.5})
    with noted("initial-never-seen", UnseenStateWarning, states="2"):
        assert samples.chain().initial.tolist() == [0.5, 0, 0.5]


def test_starts_are_observed_or_known() -> None:
    paths = [[0, 1, 0], [1, 0, 1], [0, 0, 1]]
    observed = from_trajectories(paths)
    np.testing.assert_allclose(observed.chain().initial, [2 / 3, 1 / 3])
    assert not observed.starts_known
    for initial in (1, [0.0, 1.0], {1: 1}):
        known = from_trajectories(paths, initial=initial)
        assert known.starts_known
        assert known.chain().initial.tolist() == [0.0, 1.0]
    assert observed.merge(known).chain().initial.tolist() == [0.0, 1.0]


def test_steps_are_cut_into_episodes() -> None:
    now, following = [0, 1, 0, 2, 0], [1, 0, 2, 0, 1]
    assert from_transitions(now, following).n_episodes == 1
    flagged = from_transitions(now, following, terminated=[0, 0, 1, 0, 0], truncated=[1, 0, 0, 0, 0])
    assert flagged.offsets is not None
    assert flagged.offsets.tolist() == [0, 1, 3, 5]
    assert flagged.terminated is not None
    assert flagged.terminated.tolist() == [False, True, False]
    jump = from_transitions([0, 2], [1, 2])
    assert jump.n_episodes == 2
    assert from_transitions(now, following, terminated=True).terminated is not None


def test_interleaved_episodes_are_sorted_by_name() -> None:
    samples = from_transitions([0, 5, 1, 6], [1, 6, 2, 5], episode=["x", "y", "x", "y"], terminated=[0, 0, 1, 0])
    straight = from_trajectories([[0, 1, 2], [5, 6, 5]], terminated=[True, False])
    for name in ("now", "following", "offsets", "terminated", "start_counts"):
        np.testing.assert_array_equal(getattr(samples, name), getattr(straight, name))
    assert samples.n_gaps == 0


def test_shuffled_steps_do_not_pass_for_episodes() -> None:
    rng = np.random.default_rng(0)
    now, following = rng.integers(0, 9, 400), rng.integers(0, 9, 400)
    with noted("starts-guessed"):
        from_transitions(now, following).chain()
    from_transitions(now, following, initial=0).chain()


def test_trajectory_passed_as_independent_samples_is_said() -> None:
    path = random_walk(5).sample(1, 300, rng=0)
    with noted("samples-in-order", share=(299, 299)):
        from_transitions(path.now, path.following, discount=0.9, initial=0)
    random_walk(5).sample_occupancy(3000, 0.9, rng=0)


def test_samples_that_continue_each_other_now_and_then_are_independent() -> None:
    """More often than by chance, but not nearly always: no note."""
    rng = np.random.default_rng(0)
    now, following = rng.integers(0, 50, 400), rng.integers(0, 50, 400)
    joined = np.flatnonzero(rng.random(399) < 0.6)
    now[joined + 1] = following[joined]
    assert from_transitions(now, following, discount=0.9, initial=0).n_transitions == 400


def test_rewards_become_features() -> None:
    per_state = from_trajectories([["a", "b", "a"], ["b", "a"]], rewards=[[1, 5, 3], [6, 2]])
    np.testing.assert_array_equal(per_state.features, [2.0, 5.5])
    per_step = from_trajectories([["a", "b", "end"]], rewards=[[1, 5]], terminated=True)
    np.testing.assert_array_equal(per_step.features, [1, 5, 0])
    table = from_transitions([0, 1, 0], [1, 0, 1], rewards=[1, 4, 2])
    np.testing.assert_array_equal(table.features, [1.5, 4])
    known = from_transitions([0, 1], [1, 2], rewards={0: 7.0, 1: 8.0, 2: 9.0})
    np.testing.assert_array_equal(known.features, [7, 8, 9])
    assert table.merge(from_transitions([0], [0])).features is not None
    np.testing.assert_array_equal(table.merge(table).features, [1.5, 4])
    unknown = from_trajectories([[0, 1]], rewards=[[3]]).features
    assert unknown is not None
    assert np.isnan(unknown[1])
    assert from_trajectories([[0, 1]]).features is None


def test_many_states_are_stored_sparsely() -> None:
    samples = random_walk(500, start=250).sample(20, 400, rng=1)
    counts = samples.counts()
    assert isinstance(counts, csr_array)
    assert counts.sum() == samples.n_transitions
    chain = samples.chain(check=False)
    assert chain.is_sparse
    np.testing.assert_allclose(chain.transition.sum(axis=1), 1.0)


@pytest.mark.parametrize("known", [True, False])
def test_occupancy_samples_lead_back_to_the_chain(known: bool) -> None:
    kernel = np.array([[0.6, 0.4, 0.0], [0.1, 0.5, 0.4], [0.3, 0.0, 0.7]])
    source = MarkovChain(kernel, [0.8, 0.2, 0.0], states=["u", "v", "w"])
    now, following = source.draw_occupancy(400_000, 0.8, np.random.default_rng(4))
    index = np.array(source.states)
    samples = from_transitions(
        index[now], index[following], discount=0.8, initial=source.initial if known else None, states=source.states
    )
    chain = samples.chain()
    assert chain.states == source.states
    np.testing.assert_allclose(chain.transition, kernel, atol=0.01)
    np.testing.assert_allclose(chain.initial, source.initial, atol=0.02)


def test_states_joined_by_assumption_are_said() -> None:
    samples = from_transitions([0, 2, 3, 2, 0] * 4, [0, 3, 2, 3, 0] * 4, discount=0.9, initial=0)
    with noted("assumed-transitions", n=1):
        samples.chain()
