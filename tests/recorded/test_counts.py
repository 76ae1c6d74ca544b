"""Counts: the same answers as from the recording, and merging parts exactly."""

import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import bsr_array

import somcot
from somcot import Counts, Samples, costs, streams
from somcot.inference.units import SingleTransitions, WholeSequences
from somcot.recorded.pair_counts import SequenceEnds, count_pairs

WALK, OTHER = somcot.random_walk(5, 0.5), somcot.random_walk(5, 0.7)
COST = costs.absolute([1, 0, 0, 0, -1], [1, 0, 0, 0, -1])


def part(rows: list[tuple[int, str]]) -> Counts:
    """What counting one part of a log gives: (sequence, state) rows in order of time; each row by the plain rule."""
    states = tuple(sorted({state for _, state in rows}))
    place = {state: i for i, state in enumerate(states)}
    paths: dict[int, list[int]] = {}
    for sequence, state in rows:
        paths.setdefault(sequence, []).append(place[state])
    ids = np.array(sorted(paths))
    steps = [(a, b) for path in paths.values() for a, b in pairwise(path)]
    now, following = np.array(steps, np.int32).reshape(-1, 2).T
    edges = SequenceEnds(
        ids,
        np.array([paths[i][0] for i in ids], np.int32),
        np.array([paths[i][-1] for i in ids], np.int32),
        np.array([len(paths[i]) for i in ids]),
        np.zeros(len(ids), np.bool_),
    )
    n = len(states)
    return Counts(states, count_pairs(now, following, n), np.zeros(n, np.int64), np.zeros(n, np.bool_), edges=edges)


def facts(counts: Counts) -> tuple[object, ...]:
    """All that a distance could see, in the order of the labels."""
    order = sorted(range(counts.n_states), key=lambda i: str(counts.states[i]))
    matrix = np.asarray(counts.counts())[np.ix_(order, order)]
    starts = counts.start_counts[order]
    return [counts.states[i] for i in order], matrix.tolist(), starts.tolist(), counts.n_episodes


rows = st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abcd")), min_size=2, max_size=30)


@given(rows, st.integers(0, 30), st.integers(0, 30))
def test_parts_of_a_log_merge_to_the_whole_however_it_is_cut(log: list[tuple[int, str]], i: int, j: int) -> None:
    cuts = sorted((min(i, len(log)), min(j, len(log))))
    parts = [part(p) for p in (log[: cuts[0]], log[cuts[0] : cuts[1]], log[cuts[1] :]) if p]
    whole = part(log)
    left = parts[0]
    for p in parts[1:]:
        left = left.merge(p)
    assert facts(left) == facts(whole)
    right = parts[-1]
    for p in reversed(parts[:-1]):
        right = p.merge(right)
    assert facts(right) == facts(whole)


def test_a_sequence_across_three_parts_is_one() -> None:
    parts = [part([(7, "a"), (8, "b")]), part([(7, "b")]), part([(7, "c"), (8, "b")])]
    whole = parts[0].merge(parts[1]).merge(parts[2])
    assert whole.n_episodes == 2
    assert dict(zip(whole.states, whole.start_counts.tolist(), strict=True)) == {"a": 1, "b": 1, "c": 0}
    assert whole.n_transitions == 3
    closed = parts[0].closed().merge(part([(7, "b"), (7, "c")]).closed())
    assert (closed.n_transitions, closed.n_episodes) == (1, 1)


def test_ends_and_rewards_are_those_of_the_last_row() -> None:
    a, b = part([(1, "x"), (1, "y")]), part([(1, "z"), (2, "y"), (2, "y")])
    assert a.edges is not None
    ended = a.edges._replace(ended=np.array([True]))
    alone = replace(a, edges=ended)
    went_on = alone.merge(b)
    assert not went_on.all_ended.any()  # the sequence went on in the next part, so nothing ended
    assert alone.terminal.tolist() == [False, True]


def test_states_that_stay_are_a_sequence_of_labels() -> None:
    """A matrix of blocks can be iterated by name only."""
    with pytest.raises(TypeError, match=r"states: found a sparse bsr_array"):
        part([(1, "x"), (1, "y")]).staying(bsr_array(np.eye(2)))


def test_parts_that_go_back_in_time_or_name_sequences_otherwise_are_refused() -> None:
    early, late = part([(1, "a"), (1, "b")]), part([(1, "b"), (1, "c")])
    assert early.edges is not None
    assert late.edges is not None
    early = replace(early, edges=early.edges._replace(begin=np.array([0]), finish=np.array([5])))
    late = replace(late, edges=late.edges._replace(begin=np.array([4]), finish=np.array([9])))
    with pytest.raises(ValueError, match=r"sequence 1 goes back in time.* 5 to 4"):
        early.merge(late)
    assert late.edges is not None
    text = replace(late, edges=late.edges._replace(ids=np.array(["one"]), begin=None, finish=None))
    with pytest.raises(ValueError, match=r"numbers .*text"):
        early.merge(text)
    with pytest.raises(TypeError, match="other: found Samples"):
        early.merge(WALK.sample(2, 2, rng=0))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["episodes", "occupancy", "stationary", "known start"])
def test_distances_are_those_of_the_recording(kind: str) -> None:
    if kind == "occupancy":
        x, y = (c.sample_occupancy(3000, 0.9, rng=i) for i, c in enumerate((WALK, OTHER)))
    else:
        x, y = (c.sample(100, 40, rng=i) for i, c in enumerate((WALK, OTHER)))
    if kind != "episodes" and kind != "occupancy":
        x, y = (s.with_start("stationary" if kind == "stationary" else 0) for s in (x, y))
    a = somcot.distance(x, y, COST, discount=0.9, confidence=0.9, units="transitions")
    b = somcot.distance(Counts.from_samples(x), Counts.from_samples(y), COST, discount=0.9, confidence=0.9)
    assert b.plugin == a.plugin
    assert b.n_samples == a.n_samples
    assert b.confidence_interval is not None
    assert (b.distance, b.estimate) == (a.distance, a.estimate)
    assert b.confidence_interval == a.confidence_interval
    assert b.confidence_interval.low < a.distance < b.confidence_interval.high
    assert somcot.distance(Counts.from_samples(x), OTHER, COST, discount=0.9, method="exact").plugin is not None


def test_merged_counts_are_those_of_merged_recordings() -> None:
    x, y = WALK.sample(20, 30, rng=0), OTHER.sample(20, 30, rng=1)
    both = Counts.from_samples(x).merge(Counts.from_samples(y))
    whole = Counts.from_samples(x.merge(y))
    assert facts(both) == facts(whole)
    assert np.array_equal(both.chain().transition, x.merge(y).chain().transition)


def test_what_needs_episodes_says_so() -> None:
    x, y = (Counts.from_samples(c.sample(30, 20, rng=0)) for c in (WALK, OTHER))
    for ask in (
        lambda: somcot.same_process(x, y, COST, discount=0.9),  # type: ignore[arg-type]
        lambda: somcot.markov_order(x),  # type: ignore[arg-type]
        lambda: somcot.distance(x, y, COST, discount=0.9, confidence=0.9, units="sequences"),
        lambda: somcot.distance(x, y, COST, discount=0.9, units="blocks"),
        lambda: streams.as_source("x", x, 0.9),
    ):
        with pytest.raises(TypeError, match=r"Counts.* (do not store|do not keep).*Samples"):
            ask()


def test_counts_given_as_a_matrix() -> None:
    counts = Counts.from_matrix([[8, 2], [0, 0]], states=["go", "done"], initial="go", terminated=["done"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chain = counts.chain()
    assert chain.transition.tolist() == [[0.8, 0.2], [0.0, 1.0]]
    for bad, message in (
        ([[0.5, 0.5], [0, 1]], "not whole numbers"),
        ([[1, -1], [0, 1]], "not whole numbers"),
        ([[0, 0], [0, 0]], "all are 0"),
        ([[1, 2, 3]], r"shape is \(1, 3\)"),
    ):
        with pytest.raises(ValueError, match=message):
            Counts.from_matrix(bad, initial=0)
    with pytest.raises(TypeError, match="initial: missing"):
        Counts.from_matrix([[1]])
    with pytest.raises(ValueError, match="terminated: 'x' not among"):
        Counts.from_matrix([[1]], initial=0, terminated=["x"])


def test_dealing_single_transitions_keeps_rows_and_totals() -> None:
    x, y = WALK.sample(40, 10, rng=0), OTHER.sample(30, 12, rng=1)
    engine, whole = SingleTransitions.of([x, Counts.from_samples(y)]), WholeSequences.of([x, y])
    assert np.array_equal(engine.counts(engine.observed), whole.counts(whole.observed))
    grouping = engine.grouping(3, 1)
    assert not np.array_equal(grouping, engine.observed)
    rows = engine.support.rows
    for drawn, own in zip(grouping, engine.observed, strict=True):
        assert np.array_equal(engine.support.row_sums(drawn), engine.support.row_sums(own))
    total = engine.observed.sum(axis=0)
    assert np.array_equal(grouping.sum(axis=0), total)
    assert (grouping >= 0).all()
    mean = engine.regroup(0, range(4000))[:, 0].mean(axis=0)
    expected = total * (engine.support.row_sums(engine.observed[0]) / engine.support.row_sums(total))[rows]
    assert np.abs(mean - expected).max() < 0.02 * total.max()


def test_names_of_states_decide() -> None:
    a = Counts.from_samples(Samples.from_trajectories([["x", "y"]]))
    b = Counts.from_samples(Samples.from_trajectories([["y", "z"]]))
    assert a.merge(b).states == ("x", "y", "z")
    with pytest.raises(TypeError, match="look the same"):
        a.merge(Counts.from_samples(Samples.from_trajectories([[1, 2]]))).merge(
            Counts.from_samples(Samples.from_trajectories([["1", "2"]]))
        )
    with pytest.raises(ValueError, match=r"its discount is 0\.5"):
        a.merge(Counts.from_samples(WALK.sample_occupancy(9, 0.5, rng=0)))
