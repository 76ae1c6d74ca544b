"""Which candidate explains the data: the nearest, and a set that holds the truth."""

import warnings
from typing import Any

import numpy as np
import pytest

import somcot
from somcot import costs, select_model
from somcot.many.selection import _Slopes

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


def test_slopes_are_those_of_finite_differences() -> None:
    """Move one count and look how far the plug-in distance goes."""
    data = somcot.random_walk(5, 0.5).sample(60, 50, rng=1)
    slopes = _Slopes.of(data, {"a": WALKS[0.4]}, COST, 0.9)
    chain = data.chain()
    step = 1e-6
    row = int(np.argmax(data.visits[1:4])) + 1
    for sign in (1, -1):
        moved = np.array(chain.transition)
        up, down = row + 1, row - 1
        moved[row, up] += sign * step
        moved[row, down] -= sign * step
        other = somcot.MarkovChain(moved, chain.initial, states=chain.states)
        change = somcot.distance(other, WALKS[0.4], COST, discount=0.9).distance
        change -= somcot.distance(chain, WALKS[0.4], COST, discount=0.9).distance
        entries = chain.support.locate(np.array([row, row]), np.array([up, down]))
        expected = sign * step * float(slopes.values[0, entries[0]] - slopes.values[0, entries[1]])
        assert change == pytest.approx(expected, rel=1e-3, abs=1e-12)


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
