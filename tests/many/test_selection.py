"""Which candidate explains the data: the nearest, and a set that holds the truth."""

import warnings
from typing import Any

import numpy as np
import pytest

import somcot
from somcot import costs, select_model
from somcot.many.selection import _near
from somcot.plumbing.notes import Note

pytestmark = pytest.mark.filterwarnings("ignore:the distance is not distinguishable")
COST = costs.absolute([1, 0, 0, 0, -1], [1, 0, 0, 0, -1])
THETAS = np.round(np.arange(0.3, 0.71, 0.05), 2).tolist()
WALKS: dict[Any, Any] = {theta: somcot.random_walk(5, theta) for theta in THETAS}


def chosen(seed: int, truth: float = 0.5, n: int = 60, candidates: Any = None) -> somcot.Selection:
    data = somcot.random_walk(5, truth).sample(n, 50, rng=seed)
    return select_model(data, candidates or WALKS, COST, discount=0.9, confidence=0.9)


def test_the_table_has_distances_with_intervals() -> None:
    found = chosen(0)
    assert found.best in found.confidence_set
    assert [row.name for row in found.table] == THETAS
    data = somcot.random_walk(5, 0.5).sample(60, 50, rng=0)
    for row in found.table:
        alone = somcot.distance(data, WALKS[row.name], COST, discount=0.9)
        assert row.plugin == pytest.approx(alone.plugin, abs=1e-12)
        assert row.low <= row.distance <= row.high
        assert row.inside == (row.name in found.confidence_set)
    assert found.curve is not None
    assert found.curve[0].tolist() == THETAS
    assert repr(found).startswith("Selection(best 0.")


def test_all_candidates_are_compared_with_the_same_halves_of_the_data() -> None:
    """So a candidate given twice has no error of the difference, and nearby ones have less than either distance."""
    data = somcot.random_walk(5, 0.5).sample(60, 50, rng=1)
    walks = {"a": WALKS[0.3], "again": WALKS[0.3], "b": WALKS[0.35], "far": WALKS[0.7]}
    found = select_model(data, walks, COST, discount=0.9, confidence=0.9)
    rows = {row.name: row for row in found.table}
    assert rows["a"][1:] == rows["again"][1:]
    errors = {}
    for name, walk in walks.items():
        alone = somcot.distance(data, walk, COST, discount=0.9, confidence=0.9)
        assert alone.estimate is not None
        assert alone.confidence_interval is not None
        errors[name] = alone.estimate.standard_error
        assert (rows[name].distance, rows[name].low) == (alone.distance, alone.confidence_interval.low)
    best = found.best
    assert best == "b"
    assert rows["a"].difference_error < 0.7 * min(errors["a"], errors["b"])


def test_the_error_of_a_difference_is_its_spread_over_half_samples() -> None:
    rng = np.random.default_rng(0)
    halves = rng.normal(size=(3, 40)) * 0.1
    halves[2] = halves[0] + 1.0  # moves with the best
    error, inside = _near(halves, np.array([0.0, 0.05, 1.0]), 0, 0.9)
    np.testing.assert_allclose(error, [0.0, np.std(halves[1] - halves[0], ddof=1), 0.0], atol=1e-12)
    assert inside.tolist() == [True, True, False]
    assert _near(halves, np.array([0.0, 0.9, 1.0]), 0, 0.9)[1].tolist() == [True, False, False]


def test_recorded_candidates_add_their_own_noise() -> None:
    known, recorded = chosen(2), chosen(2, candidates={t: w.sample(60, 50, rng=7) for t, w in WALKS.items()})
    errors = [
        np.mean([row.difference_error for row in found.table if row.name != found.best]) for found in (known, recorded)
    ]
    assert errors[1] > errors[0]
    assert recorded.best in recorded.confidence_set


def test_names_that_are_no_numbers_have_no_curve() -> None:
    found = chosen(3, candidates={"low": WALKS[0.3], "fair": WALKS[0.5]})
    assert found.curve is None
    assert found.best == "fair"


def test_what_cannot_be_selected_from_is_refused() -> None:
    data = WALKS[0.5].sample(5, 5, rng=0)
    with pytest.raises(TypeError, match="data: found MarkovChain, expected Samples or Counts"):
        select_model(WALKS[0.5], WALKS, COST, discount=0.9)
    with pytest.raises(ValueError, match="candidates: empty"):
        select_model(data, {}, COST, discount=0.9)
    with pytest.raises(ValueError, match="confidence"):
        select_model(data, WALKS, COST, discount=0.9, confidence=90)


def test_the_set_has_no_holes() -> None:
    """Slopes of 0.60 and 0.62, on one side of these data, are nearly equal: 0.62 was left out and 0.64 kept."""
    reward = [1, *[0] * 8, -1]
    data = somcot.random_walk(10, 0.62).sample(60, 50, rng=3)
    walks = {theta: somcot.random_walk(10, theta) for theta in (0.56, 0.58, 0.60, 0.62, 0.64, 0.66)}
    found = select_model(data, walks, costs.absolute(reward, reward), discount=0.9)
    assert {0.60, 0.62, 0.64} <= set(found.confidence_set)
    farthest = max(row.plugin for row in found.table if row.inside)
    assert all(row.inside == (row.plugin <= farthest) for row in found.table)


@pytest.mark.statistical
@pytest.mark.parametrize("truth", [0.5, 0.52, 0.8])
def test_the_set_holds_the_nearest_candidate_and_is_small(truth: float) -> None:
    """100 seeds at nominal 90 %: covers, and is smaller than what overlapping intervals keep."""
    nearest = {t for t in THETAS if abs(abs(t - truth) - min(abs(s - truth) for s in THETAS)) < 1e-9}
    held, size, overlapping = 0, 0, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(100):
            found = chosen(seed, truth)
            held += bool(nearest & set(found.confidence_set))
            size += len(found.confidence_set)
            best = next(row for row in found.table if row.name == found.best)
            overlapping += sum(row.low <= best.high for row in found.table)
    assert held >= 84  # two standard errors below 90
    assert size < overlapping


def test_notes_name_the_data_and_the_candidate() -> None:
    few = {name: somcot.Samples.from_trajectories([[0, 1, 0, 2, 1], [0, 2, 2, 1, 0]] * 9) for name in ("a", "b")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = select_model(few["a"], few, discount=0.9, rng=0)
    about = {note.about for note in found.notes if isinstance(note, Note) and note.about}
    assert about
    assert not about & {"x", "y"}
