"""Units: groupings and halves against loops over episodes, what half-samples measure, and which unit is used."""

from __future__ import annotations

import warnings
from collections import Counter
from itertools import combinations, pairwise
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import somcot
from somcot import Counts, MarkovChain, Samples
from somcot.chains import Support
from somcot.inference import units as module
from somcot.inference.model import block_length, row_shares
from somcot.inference.units import (
    SingleTransitions,
    WholeSequences,
    choose_units,
    chosen_engine,
    engine_of,
)
from tests.instances import Floats, random_chain
from tests.notes import codes, notes_in

Path = list[Any]


def random_paths(rng: np.random.Generator, labels: str, n: int) -> list[Path]:
    return [[labels[i] for i in rng.integers(len(labels), size=int(rng.integers(2, 9)))] for _ in range(n)]


def counted(support: Support, states: tuple[Any, ...], paths: list[Path], *, starts: bool = True) -> Floats:
    """Counts on the entries of a support, one transition after the other."""
    numbers, n = {label: i for i, label in enumerate(states)}, len(states)
    found: Counter[tuple[int, int]] = Counter()
    for path in paths:
        found[n, numbers[path[0]]] += starts
        for now, following in pairwise(path):
            found[numbers[now], numbers[following]] += 1
    cells = list(zip(support.rows.tolist(), support.indices.tolist(), strict=True))
    assert set(found) <= set(cells)
    return np.array([found[cell] for cell in cells], dtype=np.float64)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4))
def test_counts_of_groupings_against_a_loop_over_episodes(seed: int, n_groups: int) -> None:
    rng = np.random.default_rng(seed)
    groups = [random_paths(rng, "abcd"[: int(rng.integers(2, 5))], int(rng.integers(1, 7))) for _ in range(n_groups)]
    engine = WholeSequences.of([Samples.from_trajectories(paths) for paths in groups])
    paths, states = [path for group in groups for path in group], engine.pooled.states
    assert engine.observed.tolist() == [g for g, group in enumerate(groups) for _ in group]
    drawn = engine.regroup(seed, [3, 0, 7])
    for k, grouping in ((-1, engine.observed), (0, engine.grouping(seed, 3)), (2, engine.grouping(seed, 7))):
        assert np.bincount(grouping, minlength=n_groups).tolist() == [len(group) for group in groups]
        members = [[path for path, g in zip(paths, grouping, strict=True) if g == own] for own in range(n_groups)]
        expected = np.array([counted(engine.support, states, own) for own in members])
        np.testing.assert_array_equal(engine.counts(grouping), expected)
        if k >= 0:
            np.testing.assert_array_equal(drawn[k], expected)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_halves_are_complementary_sets_of_whole_episodes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = [random_paths(rng, "abc", int(rng.integers(2, 7))) for _ in range(2)]
    engine = WholeSequences.of([Samples.from_trajectories(paths) for paths in groups])
    states = engine.pooled.states
    halves = engine.halve(seed, 5)
    assert halves.shape == (10, 2, len(engine.support.indices))
    for g, paths in enumerate(groups):
        sizes = {len(paths) // 2, len(paths) - len(paths) // 2}
        possible = {
            counted(engine.support, states, list(chosen)).tobytes()
            for size in sizes
            for chosen in combinations(paths, size)
        }
        for split in range(5):
            one, other = halves[2 * split, g], halves[2 * split + 1, g]
            assert one.tobytes() in possible
            np.testing.assert_array_equal(one + other, counted(engine.support, states, paths))


def test_halves_of_a_recording_do_not_depend_on_what_it_is_compared_with() -> None:
    x, y, z = (somcot.random_walk(5, theta).sample(11, 8, rng=k) for k, theta in enumerate((0.5, 0.6, 0.7)))
    for counts in (False, True):
        data = [Counts.from_samples(s) for s in (x, y, z)] if counts else [x, y, z]
        found = [engine_of([data[0], other]) for other in data[1:]]
        shares = [engine.kernels(engine.halve(3, 4)[:, 0], np.zeros(len(engine.support.indices))) for engine in found]
        tables = []
        for engine, values in zip(found, shares, strict=True):
            table = np.zeros((len(values), 6, 5))
            table[:, engine.support.rows, engine.support.indices] = values
            tables.append(table)
        if counts:  # entries that only the other recording has take random numbers
            assert np.allclose(tables[0].sum(axis=2), tables[1].sum(axis=2))
        else:
            np.testing.assert_array_equal(tables[0], tables[1])


@pytest.mark.parametrize("n", [6, 7])
def test_half_samples_have_the_sampling_variance_of_the_whole(n: int) -> None:
    """Over all splits, the variance of the mean over a half is S^2 / n for even n, and S^2 (n^2 + 1) / (n (n^2 - 1)).

    S^2 / n is the usual estimate of the variance of the mean over n units, so halves have twice the variance of the
    whole: that of the whole, and as much again around it.
    """
    values = np.random.default_rng(n).normal(size=n)
    sizes = (n // 2,) if n % 2 == 0 else (n // 2, n - n // 2)
    parts = [
        np.mean([(values[list(own)].mean() - values.mean()) ** 2 for own in combinations(range(n), size)])
        for size in sizes
    ]
    usual = values.var(ddof=1) / n
    assert np.mean(parts) == pytest.approx(usual if n % 2 == 0 else usual * (n * n + 1) / (n * n - 1), rel=1e-12)
    # The engine draws from exactly these sets, all sets of one size equally often.
    engine = WholeSequences.of([Samples.from_trajectories([["start", f"end {i}"] for i in range(n)])])
    n_splits = 3000
    start = engine.pooled.states.index("start")
    row = slice(engine.support.indptr[start], engine.support.indptr[start + 1])
    drawn = Counter(tuple(np.flatnonzero(half).tolist()) for half in engine.halve(1, n_splits)[0::2, 0, row])
    assert set(map(len, drawn)) == set(sizes)
    for size in sizes:
        share = 1.0 / len(sizes) / comb(n, size)
        bound = 5.0 * np.sqrt(n_splits * share)
        for own in combinations(range(n), size):
            assert abs(drawn[own] - n_splits * share) < bound, (own, drawn[own])


def test_halves_of_single_transitions_have_the_sampling_variance_of_each_row() -> None:
    """The variance of a share p over halves of N transitions is p (1 - p) / (N - 1)."""
    counts = np.array([[60, 30, 10], [2, 20, 18], [0, 0, 30]])
    engine = SingleTransitions.of([Counts.from_matrix(counts, states=["a", "b", "c"], initial="a")])
    halves = engine.halve(0, 4000)
    np.testing.assert_array_equal(halves[0::2] + halves[1::2], np.broadcast_to(engine.observed, halves[0::2].shape))
    shares = engine.kernels(halves[:, 0], engine.support.probabilities)
    p, rows = engine.support.probabilities, engine.support.rows
    totals = engine.support.row_sums(engine.observed[0])[rows]
    expected = np.where(totals > 0, p * (1 - p) / np.maximum(totals - 1, 1), 0.0)
    found = ((shares - p) ** 2).mean(axis=0)
    np.testing.assert_allclose(found, expected, rtol=0.12, atol=1e-12)
    assert np.abs(shares.mean(axis=0) - p).max() < 1e-12, "both halves are used"


def test_permutations_of_single_transitions_keep_the_rows_of_every_group() -> None:
    data = [somcot.random_walk(4, theta).sample(20, 7, rng=k) for k, theta in enumerate((0.3, 0.5, 0.8))]
    engine = SingleTransitions.of(data)
    for counts in engine.regroup(5, range(6)):
        np.testing.assert_array_equal(counts.sum(axis=0), engine.observed.sum(axis=0))
        for own, drawn in zip(engine.observed, counts, strict=True):
            np.testing.assert_array_equal(engine.support.row_sums(drawn), engine.support.row_sums(own))


def test_independent_samples_are_exchanged_whichever_state_they_leave() -> None:
    data = [somcot.random_walk(4, theta).sample_occupancy(60, 0.8, rng=k) for k, theta in enumerate((0.3, 0.8))]
    engine = engine_of(data)
    assert isinstance(engine, SingleTransitions)
    drawn = engine.regroup(5, range(20))
    assert (drawn.sum(axis=2) == 60).all()
    sums = np.add.reduceat(drawn[:, 0], engine.support.indptr[:-1], axis=1)
    assert (sums != engine.support.row_sums(engine.observed[0])).any()
    fitted = engine.kernels(drawn[0], engine.support.probabilities)
    np.testing.assert_allclose(np.add.reduceat(fitted, engine.support.indptr[:-1], axis=1), 1.0)


def test_many_sequences_are_exchanged_in_bundles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_UNITS", 25)
    rng = np.random.default_rng(0)
    groups = [random_paths(rng, "abc", 30), random_paths(rng, "abc", 31)]
    engine = WholeSequences.of([Samples.from_trajectories(paths) for paths in groups])
    assert np.bincount(engine.observed).tolist() == [10, 11]  # bundles of three, the last of one
    expected = [counted(engine.support, engine.pooled.states, paths) for paths in groups]
    np.testing.assert_array_equal(engine.counts(engine.observed), expected)
    sequences: Counter[int] = Counter(np.concatenate(engine.units).tolist())
    assert sorted(sequences.values()) == [1, *[3] * 20]


@pytest.mark.parametrize("length", [None, 4])
@pytest.mark.parametrize("stationary", [False, True])
def test_tables_do_not_depend_on_how_they_are_made(
    length: int | None, stationary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    data = [Samples.from_trajectories(random_paths(rng, labels, 9)) for labels in ("abc", "cbde")]
    if stationary:  # two recurrent classes, so that groups start in the states they visit
        paths = [[*"0110"], [*"01001"], [*"232"], [*"23323"]]
        data = [Samples.from_trajectories(paths[k:] * 3).with_start("stationary") for k in (0, 1)]
    usual = WholeSequences.of(data, length)
    draws = usual.regroup(0, range(5)), usual.halve(1, 3)
    monkeypatch.setattr(module, "_MOST_CELLS", 0)
    other = WholeSequences.of(data, length)
    np.testing.assert_array_equal(other.regroup(0, range(5)), draws[0])
    np.testing.assert_array_equal(other.halve(1, 3), draws[1])


def test_a_label_of_one_side_is_a_row_without_counts_of_the_other() -> None:
    x, y = Samples.from_trajectories([["a", "b", "a"]] * 3), Samples.from_trajectories([["a", "c", "c", "a"]] * 2)
    for engine in (WholeSequences.of([x, y]), SingleTransitions.of([x, y])):
        rows = np.add.reduceat(engine.counts(engine.observed), engine.support.indptr[:-1], axis=1)
        assert engine.pooled.states == ("a", "b", "c")
        assert rows.tolist() == [[3, 3, 0, 3], [2, 0, 4, 2]]
        shares = engine.kernels(engine.counts(engine.observed), engine.support.probabilities)
        np.testing.assert_allclose(np.add.reduceat(shares, engine.support.indptr[:-1], axis=1), 1.0)


def test_rows_without_counts_take_those_of_the_fallback() -> None:
    support = Support(
        np.array([0, 2, 3, 5]), np.array([0, 1, 1, 0, 1], dtype=np.int32), np.array([0.4, 0.6, 1, 0.5, 0.5])
    )
    found = row_shares(support, np.array([[3.0, 1, 0, 0, 0], [0, 0, 5, 2, 2]]), support.probabilities)
    np.testing.assert_allclose(found, [[0.75, 0.25, 1, 0.5, 0.5], [0.4, 0.6, 1, 0.5, 0.5]])


# --- Blocks


def regimes(stay: float, n: int, seed: int) -> Samples:
    """Two hidden regimes that prefer different states of six."""
    rng = np.random.default_rng(seed)
    regime = np.cumsum(rng.random(n) > stay) % 2
    law = np.array([[0.5, 0.3, 0.1, 0.05, 0.03, 0.02], [0.02, 0.03, 0.05, 0.1, 0.3, 0.5]])
    states = (rng.random(n)[:, None] > law.cumsum(axis=1)[regime]).sum(axis=1).clip(0, 5)
    return Samples.from_trajectories([states.tolist()], states=range(6))


def test_blocks_are_pieces_of_sequences_of_about_equal_length() -> None:
    x = Samples.from_trajectories([[i % 5 for i in range(101)], [0, 1, 2], [i % 3 for i in range(48)]])
    engine = WholeSequences.of([x], 20)
    assert np.diff(engine.bounds[0]).tolist() == [20, 20, 20, 20, 20, 2, 24, 23]
    counts = engine.counts(engine.observed)[0]
    begin = int(engine.support.indptr[-2])
    assert counts[:begin].sum() == 149
    assert counts[begin:].sum() == 3, "a block has a first state only if its sequence begins there"


def test_blocks_of_markov_chains_are_independent_however_slow() -> None:
    for chain in (MarkovChain(np.full((4, 4), 0.25)), MarkovChain([[0.98, 0.02], [0.02, 0.98]])):
        found = [
            block_length([chain.sample(1, 4800, rng=2 * k), chain.sample(1, 4800, rng=2 * k + 1)]) for k in range(20)
        ]
        assert sum(not independent for _, independent in found) <= 3, "about 5 % by chance"


def test_blocks_grow_with_the_memory_and_say_if_they_are_too_short() -> None:
    lengths = {
        stay: [block_length([regimes(stay, 9601, 10 * k), regimes(stay, 9601, 10 * k + 1)]) for k in range(3)]
        for stay in (0.5, 0.995, 0.9995)
    }
    assert lengths[0.5] == [(200, True)] * 3
    assert np.mean([length for length, _ in lengths[0.995]]) > 200
    assert not any(independent for _, independent in lengths[0.995]), "regimes as long as the shortest blocks"
    enough = [independent for _, independent in lengths[0.9995]]
    assert sum(enough) <= 1, "regimes of 2,000 steps, and 9,600 in all"


def test_a_rare_state_that_a_half_never_leaves_does_not_take_the_stationary_distribution() -> None:
    # State 2 is visited twice: it stays once in the first half, and is left in the second.
    walk = [0, 1] * 100 + [2, 2] + [0, 1] * 100
    x = Samples.from_trajectories([walk]).with_start("stationary")
    engine = WholeSequences.of([x], 201)
    own = engine.kernels(engine.counts(engine.observed)[0], engine.support.probabilities)
    halves = engine.kernels(engine.halve(0, 4)[:, 0], own)
    begin = int(engine.support.indptr[-2])
    staying = np.flatnonzero((engine.support.indices == 2) & (engine.support.rows == 2))
    assert (engine.halve(0, 4)[:, 0, staying] > 0).any()
    assert halves[:, begin:].max() < 0.55


def test_no_recording_has_fewer_than_eight_blocks() -> None:
    for n in (81, 200, 1000, 5000):
        length, _ = block_length([regimes(0.999, n, 0), regimes(0.999, 2 * n, 1)])
        assert 8 * length <= n or length == 10


# --- Which unit


def long(n_recordings: int, seed: int, n: int = 400, **options: Any) -> Samples:
    data = somcot.random_walk(4, 0.4).sample(n_recordings, n, rng=seed)
    return Samples(data.states, data.now, data.following, offsets=data.offsets, **options)


def test_sequences_if_both_have_enough() -> None:
    chosen = choose_units(long(10, 0, 20), long(12, 1, 20))
    assert (chosen.rows, chosen.length, chosen.notes) == (False, None, ())
    assert choose_units(long(3, 0), long(3, 1), "sequences").length is None
    assert choose_units(long(30, 0, 20), long(30, 1, 20), "transitions").rows


def _stuck(rng: np.random.Generator, n: int, steps: int, stuck: int) -> Samples:
    """Sequences that end in a state of their own."""
    return Samples.from_trajectories(
        [np.r_[rng.integers(2, size=steps), np.full(stuck, 2)] for _ in range(n)], initial="stationary"
    )


@pytest.mark.filterwarnings("ignore::somcot.DataWarning")
@pytest.mark.parametrize("kind", ["sequences", "blocks", "counts", "long"])
def test_recordings_that_get_stuck_and_others_that_do_not_differ(kind: str) -> None:
    """The stationary distribution of the one is on the state that it does not leave, where the other never was."""
    rng = np.random.default_rng(0)
    if kind == "long":
        x = Samples.from_trajectories([np.r_[rng.integers(3, size=3000), 3 + rng.integers(3, size=2000)]])
        y = Samples.from_trajectories([rng.integers(3, size=5000)])
        least = 0.01  # one recording went there once, which may be chance
    else:
        x, y, least = _stuck(rng, 12, 100, 30), _stuck(rng, 12, 130, 0), 0.5
    a, b = (Counts.from_samples(side) for side in (x, y)) if kind == "counts" else (x, y)
    units = "blocks" if kind == "blocks" else "auto"
    found = somcot.distance(a, b, discount=0.9, confidence=0.9, units=units, rng=0)
    assert "stationary-apart" in codes(found.notes)
    assert found.plugin == pytest.approx(1.0, abs=1e-9)
    assert found.distance == pytest.approx(1.0, abs=0.05)
    assert found.confidence_interval is not None
    assert found.confidence_interval.low > least
    assert found.confidence_interval.high == pytest.approx(1.0, abs=1e-9)
    turned = somcot.distance(b, a, discount=0.9, confidence=0.9, units=units, rng=0)
    assert turned.distance == pytest.approx(found.distance, abs=0.02)
    if kind != "counts":
        assert somcot.same_process(x, y, discount=0.9, margin=0.1, rng=0).verdict != "equivalent"


@pytest.mark.filterwarnings("ignore::somcot.DataWarning")
def test_recordings_that_both_get_stuck_are_alike() -> None:
    rng = np.random.default_rng(1)
    x, y = (_stuck(rng, 12, steps, 130 - steps) for steps in (100, 70))
    found = somcot.distance(x, y, discount=0.9, confidence=0.9, rng=0)
    assert found.distance == pytest.approx(0.0, abs=1e-9)
    assert found.confidence_interval is not None
    assert found.confidence_interval.low == 0.0


@pytest.mark.filterwarnings("ignore::somcot.DataWarning")
@pytest.mark.parametrize("kind", ["blocks", "counts"])
def test_when_states_are_left_for_good_is_chance(kind: str) -> None:
    """A single step decides it: blocks in the same states before and after it are no further evidence."""
    rng = np.random.default_rng(4)

    def left_at(*times: int) -> Samples:
        paths = [np.r_[rng.integers(3, size=t), 3 + rng.integers(3, size=2000 - t)] for t in times]
        return Samples.from_trajectories(paths, states=range(6), initial="stationary")

    x, y = left_at(300, 500), left_at(1500, 1300)
    a, b = (Counts.from_samples(side) for side in (x, y)) if kind == "counts" else (x, y)
    found = somcot.distance(a, b, discount=0.9, confidence=0.9, rng=0)
    assert found.distance == pytest.approx(0.0, abs=0.02)
    assert found.confidence_interval is not None
    assert found.confidence_interval.low == 0.0
    if kind != "counts":
        assert somcot.same_process(x, y, discount=0.9, rng=0).pvalue > 0.1


def test_few_long_recordings_start_in_their_stationary_distribution() -> None:
    chosen = choose_units(long(2, 0), long(3, 1))
    assert codes(chosen.notes) == ["few-long-recordings"]
    assert chosen.length == max(10, 800 // 48)
    assert isinstance(chosen.x, Samples)
    assert isinstance(chosen.y, Samples)
    assert chosen.x.stationary
    assert chosen.y.stationary


def test_few_short_recordings_keep_their_first_states_and_are_noted() -> None:
    chosen = choose_units(long(2, 0, 60), long(30, 1, 20))
    assert [(note.code, note.about) for note in notes_in(chosen.notes)] == [("few-sequences", "x")]
    assert isinstance(chosen.x, Samples)
    assert not chosen.x.stationary
    start = np.eye(4)[0]
    known = choose_units(long(2, 0, initial=start), long(2, 1, initial=start))
    assert (known.notes, known.length) == ((), 16)
    against = choose_units(long(2, 0), somcot.random_walk(4, 0.4))
    assert codes(against.notes) == ["few-sequences"]


def test_counts_and_independent_samples_have_transitions_only() -> None:
    walk = somcot.random_walk(4)
    for x in (Counts.from_samples(long(20, 0, 20)), walk.sample_occupancy(100, 0.9, rng=0)):
        assert choose_units(x, walk).rows
        with pytest.raises(TypeError, match="units='sequences'"):
            choose_units(x, walk, "sequences")
    with pytest.raises(ValueError, match="units: found 'rows', expected one of 'auto', 'sequences', 'blocks'"):
        choose_units(walk, long(3, 0), "rows")


def test_the_result_says_which_units_were_used() -> None:
    def used(x: Any, y: Any, **options: Any) -> tuple[str, list[str]]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = somcot.distance(x, y, discount=0.9, **options)
        assert result.estimate is not None
        return result.estimate.units, codes(result.notes)

    assert used(long(20, 0, 20), long(20, 1, 20))[0] == "sequences"
    assert used(long(20, 0, 20), long(20, 1, 20), units="transitions")[0] == "transitions"
    assert used(Counts.from_samples(long(20, 0, 20)), long(20, 1, 20))[0] == "transitions"
    units, told = used(long(2, 0), long(2, 1))
    assert units == "blocks"
    assert "few-long-recordings" in told
    assert used(long(20, 0, 100), long(20, 1, 100), units="blocks")[0] == "blocks"


def test_first_states_are_permuted_among_themselves() -> None:
    """Blocks of one long recording against twenty others: a permuted side has as many first states as the real one."""
    chain = random_chain(np.random.default_rng(3), 5, "dense")
    x = chain.sample(1, 2000, rng=1)
    y = chain.sample(20, 100, rng=2)
    engine, notes = chosen_engine([x, y])
    assert isinstance(engine, WholeSequences)
    assert [note.code for note in notes] == ["few-sequences"]
    counts = engine.regroup(0, range(30))
    begin = int(engine.support.indptr[-2])
    assert (counts[:, :, begin:].sum(axis=2) == [1, 20]).all()
    assert np.ptp(counts[:, 0, :begin], axis=0).max() > 0, "other blocks are permuted"
    # Multinomial coefficients of blocks and of first states.
    blocks = np.bincount(engine.observed) - [1, 20]
    assert engine.n_permutations == 21 * comb(int(blocks.sum()), int(blocks[0]))
    halves = engine.halve(0, 10)[:, :, begin:].sum(axis=2)
    assert (halves[0::2] + halves[1::2] == [1, 20]).all()
    assert (halves[:, 1] == 10).all()
    # Known or derived initial distributions count no first states: all blocks are alike.
    known, _ = chosen_engine([side.with_start(0) for side in (x, y)])
    assert isinstance(known, WholeSequences)
    assert known.n_permutations == comb(int(blocks.sum()), int(blocks[0]))


def test_rows_of_few_long_recordings_are_compared_with_those_of_many_short_ones() -> None:
    """Short sequences are one block each, with which all blocks of the long ones are exchanged."""
    x = random_chain(np.random.default_rng(5), 4, "dense")
    kernel = np.asarray(x.transition)
    y = MarkovChain(0.7 * kernel + 0.3 * np.roll(kernel, 1, axis=1), x.initial)
    for other, differ in ((x, False), (y, True)):
        sides = x.sample(3, 400, rng=1), other.sample(40, 25, rng=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert (somcot.same_process(*sides, discount=0.9, rng=0).pvalue < 0.02) is differ
