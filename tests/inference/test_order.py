"""Memory of a process: the table against brute force, level, power, and words as states."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.stats import chi2_contingency

import somcot
from somcot import Samples
from somcot.inference.permutation import Occurrences, _chi_squared_of_words, _steps, has_memory
from tests.notes import codes, noted, notes_in


def second_order(n: int, length: int, seed: int, memory: float) -> list[list[int]]:
    """The next of three states is the one before the last with probability `memory`, otherwise any."""
    rng = np.random.default_rng(seed)
    paths = []
    for _ in range(n):
        path = rng.integers(3, size=2).tolist()
        for _ in range(length):
            path.append(path[-2] if rng.random() < memory else int(rng.integers(3)))
        paths.append(path)
    return paths


@pytest.mark.parametrize("k", [1, 2])
def test_chi_squared_against_brute_force(k: int) -> None:
    paths = second_order(10, 20, 0, 0.4)
    words = Occurrences.of(_steps(Samples.from_trajectories(paths)), k)
    tables: dict[tuple[int, ...], np.ndarray] = {}
    for path in paths:
        for t in range(1, len(path) - k):
            table = tables.setdefault(tuple(path[t : t + k]), np.zeros((3, 3)))
            table[path[t - 1], path[t + k]] += 1
    expected = 0.0
    for table in tables.values():
        inner = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
        expected += chi2_contingency(inner, correction=False).statistic
    found = _chi_squared_of_words(*words, 3, 50, np.random.default_rng(0))
    assert found[0] == pytest.approx(expected)
    assert len(words.next) == sum(t.sum() for t in tables.values())
    assert len(np.unique(found.round(6))) > 10, "rearrangements differ"


def test_level_on_markov_data() -> None:
    chain = somcot.MarkovChain(np.random.default_rng(0).dirichlet(np.full(12, 0.3), size=12))
    found = [somcot.markov_order(chain.sample(15, 20, rng=s), max_order=2).pvalues for s in range(80)]
    assert (np.array(found) <= 0.05).mean(axis=0).max() <= 0.14  # 0.05 and 3.7 standard errors


def test_memory_of_two_states_is_found_and_repaired() -> None:
    data = Samples.from_trajectories(second_order(40, 50, 1, 0.3))
    found = somcot.markov_order(data)
    assert found.order == 2
    assert found.pvalues[0] == 1 / 400
    assert "order 2" in str(found)
    assert somcot.markov_order(data.with_order(2), max_order=1).order == 1
    assert has_memory(data)
    assert not has_memory(somcot.random_walk(5).sample(100, 50, rng=0))


def test_no_order_suffices() -> None:
    found = somcot.markov_order(Samples.from_trajectories(second_order(40, 50, 1, 0.5)), max_order=1)
    assert found.order == 2
    assert "order 2 or more" in str(found)


def test_words_against_brute_force() -> None:
    paths = [["a", "b", "c", "a", "b"], ["b", "b"], ["c", "a", "b", "b", "c", "c"]]
    reward = {"a": 1.0, "b": 2.0, "c": 3.0}
    data = Samples.from_trajectories(paths, terminated=[True, False, True], rewards=reward)
    with noted("too-short-for-order", share=(1, 3), least=3):
        words = data.with_order(2)
    spelled = [[tuple(p[t : t + 2]) for t in range(len(p) - 1)] for p in paths if len(p) > 2]
    expected = Samples.from_trajectories(spelled, terminated=True)
    assert words.states == expected.states
    assert np.array_equal(words.now, expected.now)
    assert np.array_equal(words.following, expected.following)
    assert words.n_episodes == expected.n_episodes == 2
    assert words.terminated is not None
    assert words.terminated.tolist() == [True, True]
    assert words.features is not None
    assert words.features.tolist() == [2.0, 2.0, 3.0, 1.0, 3.0]  # ab bb bc ca cc
    assert data.with_order(1) is data


def test_words_do_not_reach_over_gaps() -> None:
    data = Samples.from_transitions([0, 1, 2, 0], [1, 2, 0, 1], episode=[0, 0, 0, 0])
    broken = Samples.from_transitions([0, 1, 2, 0], [1, 2, 1, 1], episode=[0, 0, 0, 0])
    assert data.with_order(2).n_transitions == 3
    assert broken.with_order(2).n_transitions == 2


def test_what_is_refused() -> None:
    walk = somcot.random_walk(5)
    with pytest.raises(ValueError, match="samples: independent transitions have no past"):
        somcot.markov_order(walk.sample_occupancy(50, 0.9, rng=0))
    with pytest.raises(TypeError, match="samples: found MarkovChain, expected Samples"):
        somcot.markov_order(walk)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="k: independent transitions have no words"):
        walk.sample_occupancy(50, 0.9, rng=0).with_order(2)
    with pytest.raises(ValueError, match="k: no episode has the 4 states"):
        Samples.from_trajectories([[0, 1, 0]]).with_order(3)
    with pytest.raises(ValueError, match="k: the known initial distribution is over single states"):
        Samples.from_trajectories([[0, 1, 0]], initial=0).with_order(2)
    assert somcot.markov_order(Samples.from_trajectories([[0, 1]])).pvalues == (1.0, 1.0, 1.0)


def test_the_note_does_not_ask_for_what_was_done() -> None:
    x, y = (Samples.from_trajectories(second_order(40, 50, seed, 0.3)) for seed in (1, 2))
    said = {}
    for units in ("transitions", "sequences"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            notes = somcot.distance(x, y, discount=0.5, confidence=0.9, rng=0, units=units).diagnose()
        said[units] = [note.code for note in notes_in(notes) if note.about == "x"]
    assert said == {"transitions": ["memory"], "sequences": ["memory-episodes"]}


def test_no_note_speaks_of_an_interval_that_nobody_asked_for() -> None:
    x, y = (Samples.from_trajectories(second_order(40, 50, seed, 0.1)) for seed in (1, 2))
    said = {}
    for confidence in (None, 0.9):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            said[confidence] = somcot.distance(x, y, discount=0.998, confidence=confidence, rng=0).diagnose()
    assert len(said[None]) == len(said[0.9])
    assert "too-few-data" in codes(said[None])
    assert not any("the interval" in note for note in said[None])
    assert any("the interval" in note for note in said[0.9])
