"""Distances between recordings of real vectors: against known truths, and what is said where they cannot be known."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import somcot
from somcot import Result, Trajectories, distance
from somcot.cells import ShiftCheck
from somcot.continuous import distance as answer_
from somcot.continuous.linear_twin import curvature
from somcot.plumbing.arrays import Floats
from tests.continuous.systems import SYSTEMS, closed_form_1d, grid_truth, moved
from tests.notes import codes, noted, notes_in


def answer(name: str, seed: int = 0, n: int = 250, **options: Any) -> Result:
    system = SYSTEMS[name]
    x, y = system.record(n, 40, np.random.default_rng(seed))
    given = {"discount": 0.95, "confidence": 0.9, "scale": 1.0, "threads": 1} | options
    return distance(x, y, system.cost, **given)


# Name, bar of the mean absolute error of 5 seeds at 10,000 transitions; a single fast run may be off by twice as much.
BARS = {
    "ar": 0.015, "bent": 0.01, "slow, shifted": 0.06, "well": 0.04, "ar, near": 0.03, "two rotations": 0.02,
    "rotation, shifted": 0.02, "linear 3": 0.03, "embedded": 0.02, "embedded, shifted": 0.02, "well x ar": 0.05,
    "well x ar x bent": 0.05, "ar, same": 0.05, "bent, same": 0.05, "well, same": 0.05, "rotation": 0.05,
    "embedded, same": 0.05,
}  # fmt: skip
FAST = ("ar", "bent", "ar, same", "rotation, shifted", "rotation", "embedded", "well x ar")


@pytest.mark.parametrize("name", FAST)
@pytest.mark.filterwarnings("ignore::somcot.DataWarning")
def test_near_the_truth_and_inside_the_interval(name: str) -> None:
    found, truth = answer(name, seed=1), SYSTEMS[name].truth
    assert found.distance == pytest.approx(truth, abs=2 * BARS[name])
    assert found.confidence_interval is not None
    low, high, level = found.confidence_interval
    assert level == 0.9
    assert low <= found.distance <= high
    if truth == 0.0:
        assert low == 0.0
        assert found.plugin is not None
        assert high <= 1.2 * found.plugin


def test_the_correction_is_what_makes_the_difference() -> None:
    """Where cells alone are off by a tenth: without the twin this test fails."""
    found, truth = answer("linear 3", seed=3), SYSTEMS["linear 3"].truth
    assert found.twin is not None
    assert found.twin.used
    assert found.plugin is not None
    assert abs(found.plugin - truth) > 2 * abs(found.distance - truth)
    assert found.distance == pytest.approx(found.plugin - (found.twin.bias or 0.0))
    assert found.twin.distance == pytest.approx(truth, abs=0.05)


@pytest.mark.parametrize("name", ["van der Pol, shifted", "pendulum, shifted"])
def test_what_linear_models_cannot_do_is_said(name: str) -> None:
    """Never a narrow interval around a wrong value: another way to the truth, or a warning and no interval."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = answer(name, n=100)
    assert found.twin is not None
    assert not found.twin.used
    assert "linear models do not fit" in found.twin.reason
    assert found.continuous is not None
    if found.continuous.route != "map":
        assert found.confidence_interval is None
        assert found.shift_check is not None
        assert not found.shift_check.passed
        assert "shift-check-failed" in codes(caught)
        (note,) = [note for note in notes_in(caught) if note.code == "approximate"]
        assert "linear models do not fit" in str(note.values["reason"])
        assert "approximate" in str(found)


@pytest.mark.parametrize(("final", "square"), [(0.65, False), (0.65, True), (0.3, False)])
def test_an_interval_reaches_as_far_as_the_check_is_wrong(final: float, square: bool) -> None:
    """A known shift of 0.5 that comes out as 0.65 or 0.3: the truth may be off by the same share, in that direction."""
    worst = abs(final / 0.5 - 1.0)
    check = ShiftCheck(0.5, final, final, worst)
    given = answer_._Answer(0.4, (0.38, 0.42), "twin")
    found = answer_._as_wrong_as(check, given, square=square).interval
    power = 2 if square else 1
    truth = 0.4 * (0.5 / final) ** power
    assert found is not None
    assert min(found) == pytest.approx(min(0.38, truth))
    assert max(found) == pytest.approx(max(0.42, truth))
    assert answer_._as_wrong_as(check._replace(worst=0.1), given, square=square) is given


def test_the_same_recording_twice_is_at_distance_zero() -> None:
    x, _ = SYSTEMS["rotation"].record(50, 40, np.random.default_rng(0))
    with noted("too-alike"):
        found = distance(x, x, discount=0.95, confidence=0.9)
    assert found.distance == 0.0
    assert found.plugin == 0.0


def test_the_answer_has_what_it_promises() -> None:
    found = answer("rotation, shifted", n=120)
    assert found.cells is not None
    assert found.resolution is not None
    assert found.shift_check is not None
    assert found.resolution.n_cells[-1] == found.cells.n_cells
    assert found.resolution.raw[-1] == found.plugin
    assert list(found.resolution.n_cells) == sorted(found.resolution.n_cells)
    assert found.shift_check.final == pytest.approx(found.shift_check.distance, rel=0.2)
    line = str(found)
    assert f"{found.cells.n_cells} cells" in line
    assert "bias" in line
    assert "shift check" in line
    assert "\n" not in line
    assert len(found.matches()) > 1
    assert distance(*_pair(), discount=0.95).confidence_interval is None


def _pair(n: int = 30) -> tuple[Trajectories, Trajectories]:
    return SYSTEMS["rotation, shifted"].record(n, 40, np.random.default_rng(4))


def test_equal_seeds_equal_answers_whatever_the_threads() -> None:
    x, y = _pair()
    one, other = (distance(x, y, discount=0.9, confidence=0.9, threads=n) for n in (1, 2))
    assert one.distance == other.distance
    assert one.confidence_interval == other.confidence_interval


def test_units_do_not_matter_when_coordinates_are_scaled() -> None:
    """A power of two is exact in floating point: the same cells, the same answer."""
    x, y = _pair()
    large = [data.mapped(lambda points: points * [1024.0, 0.25]) for data in (x, y)]
    one = distance(x, y, discount=0.9)
    assert distance(large[0], large[1], discount=0.9).distance == one.distance
    assert distance(y, x, discount=0.9).distance == pytest.approx(one.distance, rel=0.1)
    assert float(one.cells.scale[0]) == pytest.approx(np.concatenate([x.points, y.points])[:, 0].std())  # type: ignore[union-attr]


@pytest.mark.filterwarnings("ignore::somcot.DataWarning")
def test_a_cost_of_ones_own_is_asked_in_the_users_units() -> None:
    x, y = _pair()

    def first(a: Floats, b: Floats) -> Floats:
        assert np.abs(a).max() < 5
        return np.abs(a[:, None, 0] - b[None, :, 0])

    found = distance(x, y, first, discount=0.9, confidence=0.9)
    assert 0.1 < found.distance < 0.6
    assert found.twin is not None
    assert "user-defined cost" in found.twin.reason
    assert found.shift_check is None
    assert found.confidence_interval is None


@pytest.mark.filterwarnings("ignore::somcot.DataWarning")
def test_ends_for_good_stay_where_they_are() -> None:
    """Both move the same way and end at different places: all of the distance comes from after the ends."""
    rng = np.random.default_rng(0)
    sides = []
    for place in (1.0, 3.0):
        rows = [np.append(0.05 * rng.standard_normal(3), place) for _ in range(60)]
        sides.append(Trajectories.from_arrays(rows, terminated=True))
    found = distance(sides[0], sides[1], discount=0.9, scale=1.0)
    assert found.distance == pytest.approx(2.0 * 0.9**3, abs=0.05)


def test_results_are_kept_without_the_recordings(tmp_path: Path) -> None:
    found = distance(*_pair(), discount=0.9, confidence=0.9)
    found.save(tmp_path / "answer.somcot")
    back = Result.load(tmp_path / "answer.somcot")
    assert str(back) == str(found)
    assert back.twin == found.twin
    assert back.cells is not None
    assert found.cells is not None
    assert back.cells.recordings == ()
    np.testing.assert_array_equal(back.cells.assign(_pair()[0].points), found.cells.assign(_pair()[0].points))
    assert "cells" in found.cells._repr_html_()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cost": "manhattan"}, "cost: found 'manhattan', expected 'euclidean'"),
        ({"cost": lambda a, b: np.zeros(3)}, "cost: found 1 dimension"),
        ({"cost": lambda a, b: np.zeros((2, 2))}, r"cost: returned shape \(2, 2\)"),
        ({"discount": 1.5}, "discount"),
        ({"scale": 1e-150}, "scale: coordinates divided by 1e-150 reach .*, which cannot be squared"),
        ({"method": "exact"}, "somcot.discretise makes Samples"),
        ({"horizon": 5, "discount": None}, "somcot.discretise makes Samples"),
        ({"confidence": 2.0}, "confidence: found 2.0"),
        ({"n_splits": 3}, "n_splits: not an option"),
        ({"y": [[1.0, 2.0]]}, "y: found list, expected Trajectories like the other side"),
        ({"y": Trajectories.from_arrays([[0.0, 1.0, 2.0]])}, "y: has 1 coordinates, but x has 2"),
    ],
)
def test_refusals(change: dict[str, Any], message: str) -> None:
    x, y = _pair(5)
    given: dict[str, Any] = {"x": x, "y": y, "cost": "euclidean", "discount": 0.9} | change
    with pytest.raises((TypeError, ValueError), match=message):
        distance(given.pop("x"), given.pop("y"), given.pop("cost"), **given)


def test_one_step_of_each_is_too_few_for_an_interval() -> None:
    tiny = [Trajectories.from_arrays([np.random.default_rng(k).normal(size=(2, 2))]) for k in (0, 1)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = distance(tiny[0], tiny[1], discount=0.9, confidence=0.9)
    assert np.isfinite(found.distance)
    assert found.confidence_interval is None
    assert "approximate, no interval" in str(found)
    (note,) = [note for note in notes_in(caught) if note.code == "approximate"]
    assert str(note.values["reason"]).startswith("found 1 transition on one side, and 20 on each")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = distance(tiny[0], tiny[1], discount=0.9)  # no word of an interval that nobody asked for
    assert plain.notes[0].startswith("the distance is approximate: found 1 transition")  # no word of an interval


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_very_large_and_very_small_numbers_have_a_scale(size: float) -> None:
    x, y = (data.mapped(lambda points: size * points) for data in _pair(10))
    found, plain = distance(x, y, discount=0.9), distance(*_pair(10), discount=0.9)
    assert found.distance == pytest.approx(plain.distance, rel=1e-6)
    assert np.isfinite(found.distance)


def test_recordings_far_apart_are_not_too_alike() -> None:
    """No cell in common: there is nothing in which they could be alike, and no warning (which would be an error)."""
    x, y = _pair(10)
    found = distance(x, y.mapped(lambda points: points + 1000.0), discount=0.9, scale=1.0)
    assert found.distance == pytest.approx(1000.0 * np.sqrt(2.0), rel=0.001)


@pytest.mark.filterwarnings("ignore::somcot.DataWarning")
@pytest.mark.filterwarnings("ignore::somcot.UnseenStateWarning")
def test_hardly_any_data_get_an_answer_or_a_sentence() -> None:
    """Fifty coordinates; one long episode."""
    wide = [Trajectories.from_arrays(np.random.default_rng(k).normal(size=(30, 20, 50))) for k in (0, 1)]
    assert distance(wide[0], wide[1], discount=0.9, confidence=0.9).distance < 2.0
    long = [Trajectories.from_arrays([data.points]) for data in _pair(20)]
    assert distance(long[0], long[1], discount=0.9, confidence=0.9).distance > 0.1


def test_one_dimensional_truths_agree_with_grids() -> None:
    """The closed form against grids that know nothing of it; both against the table of systems."""
    sides = [(lambda x, a=a: a * x, s, m, f) for a, s, m, f in ((0.6, 0.5, 0.0, 0.6), (0.3, 0.7, 0.3, 0.6))]
    coarse, fine = grid_truth(sides[0], sides[1], "sqeuclidean", (41, 81))
    truth = closed_form_1d((0.6, 0.5, 0.0, 0.6), (0.3, 0.7, 0.3, 0.6))
    assert truth == pytest.approx(0.0764, abs=1e-4)
    assert 0.0 < fine - truth < 0.5 * (coarse - truth) < 0.01


def test_curvature_tells_wells_from_oscillators() -> None:
    rng = np.random.default_rng(0)
    found = {
        name: curvature(SYSTEMS[name].x.record(100, 40, rng), rng)
        for name in ("rotation", "well x ar", "van der Pol, shifted")
    }
    assert found["rotation"] < 0.05 < found["well x ar"] < 0.3 < found["van der Pol, shifted"]


def test_a_shift_is_a_shift() -> None:
    """The oracle itself: common noise keeps the moved process at the same distance from the first."""
    process = SYSTEMS["van der Pol, shifted"].x
    m = np.array([0.3, 0.4])
    x = process.record(5, 30, np.random.default_rng(8))
    y = moved(process, m).record(5, 30, np.random.default_rng(8))
    np.testing.assert_allclose(y.points - x.points, np.broadcast_to(m, x.points.shape), atol=1e-9)


def test_it_is_public() -> None:
    assert {"Trajectories", "Cells", "discretise"} <= set(somcot.__all__)
