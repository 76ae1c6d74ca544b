"""Distances between recordings of real vectors: against known truths, and what is said where they cannot be known."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import somcot
from somcot import Result, Trajectories, distance
from somcot.cli.application import app
from somcot.continuous import routes
from somcot.continuous.pair import Pair
from somcot.plumbing.arrays import Floats
from somcot.report.sentences import certainty, sentence
from somcot.result import Claim
from tests.continuous.held_out_systems import normal, phase, runs
from tests.continuous.systems import SYSTEMS, bent, closed_form_1d, grid_truth, moved, rotated, rotation
from tests.notes import codes, noted, notes_in


def answer(name: str, seed: int = 0, n: int = 250, **options: Any) -> Result:
    system = SYSTEMS[name]
    x, y = system.record(n, 40, np.random.default_rng(seed))
    given = {"discount": 0.95, "confidence": 0.9, "scale": 1.0, "threads": 1} | options
    return distance(x, y, system.cost, **given)


# Name, bar of the mean absolute error of 5 seeds at 10,000 transitions, route; a single fast run may be off by twice
# as much.
BARS = {
    "ar": 0.015, "bent": 0.015, "slow, shifted": 0.06, "well": 0.06, "ar, near": 0.03, "two rotations": 0.02,
    "rotation, shifted": 0.02, "linear 3": 0.03, "embedded": 0.02, "embedded, shifted": 0.02, "well x ar": 0.05,
    "well x ar x bent": 0.05, "ar, same": 0.02, "bent, same": 0.02, "well, same": 0.05, "rotation": 0.02,
    "embedded, same": 0.02,
}  # fmt: skip
FAST = {
    "ar": "linear", "bent": "pair", "ar, same": "map", "rotation, shifted": "map", "rotation": "map",
    "two rotations": "linear", "van der Pol, shifted": "map",
}  # fmt: skip


@pytest.mark.parametrize("name", FAST)
def test_near_the_truth_and_inside_the_interval(name: str) -> None:
    found, truth = answer(name, seed=1, n=150), SYSTEMS[name].truth
    assert found.distance == pytest.approx(truth, abs=2 * BARS.get(name, 0.02))
    assert found.continuous is not None
    assert found.continuous.route == FAST[name]
    assert found.claim is Claim.ESTIMATED
    assert found.converged
    assert found.confidence_interval is not None
    low, high, level = found.confidence_interval
    assert level == 0.9
    assert low <= found.distance <= high
    assert low <= truth <= high
    assert found.continuous.lower_bound is not None
    assert found.continuous.lower_bound <= truth
    if truth == 0.0:
        assert found.distance == low == 0.0


def test_a_map_is_told_in_words_numbers_and_tests() -> None:
    found = answer("rotation, shifted", n=120)
    assert found.continuous is not None
    seen = found.continuous.map
    assert seen is not None
    assert seen.verdict == "conjugate"
    assert seen.kind == "shift"
    assert seen.words in str(found)
    assert dict(seen.tests).keys() == {"starts", "places", "steps", "scatter"}
    assert seen.matrix is not None
    assert seen.shift is not None
    np.testing.assert_array_equal(seen.matrix, np.eye(2))
    assert float(np.sqrt(np.square(seen.shift).sum())) == pytest.approx(0.5, abs=0.1)
    assert found.estimate is not None
    assert 0.0 < found.estimate.standard_error < 0.05
    assert "\n" not in str(found)
    assert len(found.matches()) > 1


def test_a_scaling_about_a_point_is_the_sentence_of_the_report(tmp_path: Path) -> None:
    """In units of the file: scaled by 1.2 about (3, 3)."""
    run = runs(normal(2, 0.6, 0.5), lambda z, r: 0.6 * z + 0.3 * np.sin(z[:, ::-1]) + 0.3 * r.standard_normal(z.shape))
    rng = np.random.default_rng(0)
    x, y = (Trajectories.from_arrays(3.0 + 10.0 * a * run(150, 40, rng)) for a in (1.0, 1.2))
    found = distance(x, y, "sqeuclidean", discount=0.95, confidence=0.9)
    assert found.continuous is not None
    seen = found.continuous.map
    assert seen is not None
    assert seen.kind == "scale"
    assert seen.words.startswith("y behaves as x scaled by 1.")
    assert seen.matrix is not None
    assert seen.matrix[0, 0] == pytest.approx(1.2, abs=0.04)
    found.report(tmp_path / "r.html", names=("May", "June"))
    page = (tmp_path / "r.html").read_text()
    assert "June behaves as May scaled by 1." in page
    low, high, _ = found.confidence_interval or (0.0, 0.0, 0.0)
    assert f"[{low:.4f}, {high:.4f}]" in page


def test_a_scaling_costs_the_mean_distance_not_the_root_of_its_mean_square() -> None:
    run = runs(normal(2, 0.6), lambda z, r: 0.6 * z + 0.3 * np.sin(z[:, ::-1]) + 0.3 * r.standard_normal(z.shape))
    rng = np.random.default_rng(1)
    x, y = (Trajectories.from_arrays(a * run(60, 30, rng)) for a in (1.0, 1.5))
    found = distance(x, y, "euclidean", discount=0.9, confidence=0.9, scale=1.0)
    # Scaling about 0 is the best coupling: half of the mean length, from an independent recording.
    lengths = np.linalg.norm(run(2000, 60, rng), axis=2).mean(axis=0)
    truth = 0.5 * float(0.1 * 0.9 ** np.arange(len(lengths)) @ lengths)
    assert found.continuous is not None
    assert found.continuous.map is not None
    assert found.continuous.map.kind == "scale"
    low, high, _ = found.confidence_interval or (0.0, 0.0, 0.0)
    assert low <= truth <= high
    assert found.distance == pytest.approx(truth, rel=0.25)


def test_rotated_noise_is_used_only_where_it_costs_less(monkeypatch: pytest.MonkeyPatch) -> None:
    sides = [rotated(np.eye(2), bent(b), bent(b)) for b in (1.2, 0.3)]
    rng = np.random.default_rng(0)
    x, y = (side.record(60, 15, rng) for side in sides)
    found = []
    for angle in (0.0, 0.3):
        monkeypatch.setattr(Pair, "rotation", lambda _self, angle=angle: rotation(angle))
        found.append(distance(x, y, "sqeuclidean", discount=0.7, confidence=0.9, scale=1.0))
    for each in found:
        assert each.continuous is not None
        assert each.continuous.route == "pair"
    assert found[0].distance == found[1].distance


@pytest.fixture(scope="module")
def declined() -> Result:
    """Two phases with different speeds: no map, and common noise is far from the best coupling."""
    rng = np.random.default_rng(0)
    x, y = (Trajectories.from_arrays(phase(speed, 0.05)(60, 30, rng)) for speed in (0.5, 0.8))
    with pytest.warns(somcot.DataWarning, match="approximate"):
        return distance(x, y, discount=0.95, confidence=0.9, scale=1.0)


def test_an_approximation_claims_nothing_anywhere(declined: Result, tmp_path: Path) -> None:
    """Text, notebook, report and saved file agree: no bounds, no interval, no standard error."""
    assert declined.claim is Claim.APPROXIMATE
    assert getattr(declined, "bounds") is None  # noqa: B009 - its type is that of all other claims
    assert declined.confidence_interval is None
    assert declined.estimate is None
    assert declined.converged  # of the solver
    assert np.isfinite(declined.distance)
    assert declined.continuous is not None
    assert declined.continuous.reason
    assert declined.continuous.map is not None
    assert declined.continuous.map.verdict == "different"
    assert codes(declined.diagnose()) == ["approximate"]
    assert "approximate, no interval" in str(declined)
    assert "without an error bound" in certainty(declined)
    assert "there is no error bound" in sentence(declined)
    assert "without an error bound" in declined._repr_html_()
    declined.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "an approximation without an error bound" in page
    assert "proved to" not in page
    assert "% confidence interval" not in page
    assert "approximate, no interval" in somcot.plots.overview(declined).get_suptitle()
    assert somcot.plots.trace(declined).get_legend_handles_labels()[1][:1] != ["proved bounds of the estimated chains"]
    declined.save(tmp_path / "r.somcot")
    back = Result.load(tmp_path / "r.somcot")
    assert back.claim is Claim.APPROXIMATE
    assert getattr(back, "bounds") is None  # noqa: B009
    assert str(back) == str(declined)


def test_an_approximation_claims_nothing_on_the_command_line(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, speed in (("a", 0.5), ("b", 0.8)):
        np.save(tmp_path / f"{name}.npy", phase(speed, 0.05)(60, 30, rng))
    line = ["distance", str(tmp_path / "a.npy"), str(tmp_path / "b.npy"), "--cells", "8", "--scale", "1"]
    ran = CliRunner().invoke(app, [*line, "--discount", "0.95", "--confidence", "0.9", "--json"])
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    assert found["claim"] == "approximate"
    assert found["bounds"] is None
    assert found["confidence_interval"] is None
    assert found["before_correction"]["bounds"] is None
    assert found["estimate"] is None
    assert found["converged"] is True
    assert found["continuous"]["route"] == "approximate"
    assert found["continuous"]["reason"]
    shown = CliRunner().invoke(app, [*line, "--discount", "0.95", "--confidence", "0.9"], env={"COLUMNS": "200"})
    assert "approximation without an error bound" in shown.stdout
    assert "interval" not in shown.stdout.split("note")[0].replace("has no interval", "")


def test_the_same_recording_twice_is_at_distance_zero() -> None:
    x, _ = SYSTEMS["rotation"].record(50, 40, np.random.default_rng(0))
    with noted("same-recording"):
        found = distance(x, x, discount=0.95, confidence=0.9)
    assert found.distance == 0.0
    assert found.confidence_interval == (0.0, 0.0, 0.9)
    assert found.plugin == 0.0
    doubled = x.take(np.arange(50) // 2 * 2)
    with noted("too-alike"):
        distance(x, doubled, discount=0.95)


def test_former_fields_are_readable_and_deprecated() -> None:
    found = distance(*_pair(), discount=0.95)
    assert found.confidence_interval is None
    for name in ("twin", "resolution", "shift_check"):
        with pytest.warns(DeprecationWarning, match=name):
            getattr(found, name)
    with pytest.warns(DeprecationWarning, match="twin"):
        twin = found.twin
    assert twin is not None
    assert not twin.used
    assert found.cells is not None  # not deprecated


def _pair(n: int = 30) -> tuple[Trajectories, Trajectories]:
    return SYSTEMS["rotation, shifted"].record(n, 40, np.random.default_rng(4))


def test_equal_seeds_equal_answers_whatever_the_threads() -> None:
    x, y = _pair()
    one, other = (distance(x, y, discount=0.9, confidence=0.9, threads=n) for n in (1, 2))
    assert one.distance == other.distance
    assert one.confidence_interval == other.confidence_interval


def test_units_do_not_matter_when_coordinates_are_scaled() -> None:
    """A power of two is exact in floating point: the same numbers, the same answer."""
    x, y = _pair()
    large = [data.mapped(lambda points: points * [1024.0, 0.25]) for data in (x, y)]
    one = distance(x, y, discount=0.9)
    assert distance(large[0], large[1], discount=0.9).distance == one.distance
    assert distance(y, x, discount=0.9).distance == pytest.approx(one.distance, rel=0.1)
    assert float(one.cells.scale[0]) == pytest.approx(np.concatenate([x.points, y.points])[:, 0].std())  # type: ignore[union-attr]


# Costs of one's own


def city(a: Floats, b: Floats) -> Floats:
    return np.asarray(np.abs(a[:, None] - b[None]).sum(axis=2))


def test_a_cost_of_ones_own_gets_the_users_units_and_an_interval_if_its_map_is_optimal() -> None:
    """Shifted by (0.3, 0.4): 0.7 for the city-block metric, in the units of the file whatever the scale."""
    x, y = _pair(100)
    for scale in (1.0, "std"):
        found = distance(x, y, city, metric=True, discount=0.9, confidence=0.9, scale=scale)
        assert found.confidence_interval is not None
        low, high, _ = found.confidence_interval
        assert low < 0.7 < high
        assert high - low < 0.4


def test_a_cost_for_which_the_map_is_not_optimal_is_an_upper_bound() -> None:
    """The cost is the difference modulo 0.4: other pairs of points are nearer than x and x + (0.3, 0.4)."""
    x, y = _pair(60)

    def wrapped(a: Floats, b: Floats) -> Floats:
        gap = np.abs(a[:, None, 0] - b[None, :, 0]) % 0.4
        return np.minimum(gap, 0.4 - gap)

    with noted("approximate"):
        found = distance(x, y, wrapped, discount=0.9, confidence=0.9, scale=1.0)
    assert found.claim is Claim.APPROXIMATE
    assert found.distance == pytest.approx(0.1, abs=0.03)


def test_metric_is_for_functions_only() -> None:
    with pytest.raises(ValueError, match="metric: found True with cost 'euclidean'"):
        distance(*_pair(5), discount=0.9, metric=True)
    with pytest.raises(TypeError, match="metric"):
        distance(*_pair(5), city, discount=0.9, metric="yes")


def test_a_pair_without_a_map_needs_a_metric_for_an_interval() -> None:
    rng = np.random.default_rng(1)

    def bent(a: float) -> Trajectories:
        run = runs(normal(1, 0.5), lambda z, r: np.tanh(a * z) + 0.3 * r.standard_normal(z.shape))
        return Trajectories.from_arrays(run(80, 30, rng))

    x, y = bent(2.0), bent(0.7)
    with noted("approximate"):
        plain = distance(x, y, city, discount=0.9, confidence=0.9, scale=1.0)
    known = distance(x, y, city, metric=True, discount=0.9, confidence=0.9, scale=1.0)
    named = distance(x, y, discount=0.9, confidence=0.9, scale=1.0)
    assert plain.claim is Claim.APPROXIMATE
    assert known.claim is named.claim is Claim.ESTIMATED
    assert plain.distance == known.distance == pytest.approx(named.distance, rel=0.05)


# Periodic coordinates


def _turning(shift: float, seed: int, turns: int = 0) -> Trajectories:
    """A phase that is held near 0 and crosses the cut all the time, and a coordinate that it drives."""
    rng = np.random.default_rng(seed)

    def step(z: Floats, r: np.random.Generator) -> Floats:
        e = 0.25 * r.standard_normal(z.shape)
        return np.column_stack([z[:, 0] - 0.3 * np.sin(z[:, 0]), 0.7 * z[:, 1] + 0.4 * np.cos(z[:, 0])]) + e

    points = runs(normal(2, 0.3), step)(120, 30, rng)
    points[..., 0] = np.mod(points[..., 0] + shift, 2 * np.pi) + 2 * np.pi * turns
    return Trajectories.from_arrays(points, names=["phi", "x"], period={"phi": 2 * np.pi})


def test_periodic_coordinates_are_compared_the_short_way_round() -> None:
    """Without the period the values jump from 0 to 6.28, and the same system elsewhere looks different."""
    found = distance(_turning(0.0, 1), _turning(0.4, 2), discount=0.95, confidence=0.9, scale=1.0)
    assert found.claim is Claim.ESTIMATED
    assert found.distance == pytest.approx(0.4, abs=0.1)
    assert found.confidence_interval is not None
    assert found.confidence_interval.low < 0.4 < found.confidence_interval.high
    assert found.cells is not None
    assert found.plugin == pytest.approx(0.4, abs=0.25)
    around = distance(_turning(0.0, 1), _turning(0.4, 2, turns=3), discount=0.95, scale=1.0)
    assert around.distance == pytest.approx(found.distance, abs=0.03)


def test_a_period_belongs_to_both_recordings() -> None:
    x = _turning(0.0, 1)
    with pytest.raises(ValueError, match="y: the period of phi is inf"):
        distance(x, Trajectories.from_arrays(x.episodes, names=["phi", "x"]), discount=0.9)


# Few long runs, ends, few data


def test_few_long_runs_are_cut_into_blocks() -> None:
    rng = np.random.default_rng(5)
    run = runs(normal(1, 0.7), lambda z, r: 0.8 * z + 0.3 * r.standard_normal(z.shape), burn=30)
    x, y = (Trajectories.from_arrays(run(4, 1500, rng) + shift) for shift in (0.0, 0.3))
    found = distance(x, y, discount=0.95, confidence=0.9, scale=1.0)
    assert found.confidence_interval is not None
    low, high, _ = found.confidence_interval
    assert low < 0.3 < high
    assert high - low < 0.3
    assert found.continuous is not None
    assert found.continuous.map is not None
    assert "starts" not in dict(found.continuous.map.tests)


def test_too_few_episodes_are_declined_with_advice() -> None:
    x, y = _pair(12)
    with noted("approximate"):
        found = distance(x, y, discount=0.9, confidence=0.9)
    assert found.continuous is not None
    assert "12 episodes" in found.continuous.reason


@pytest.mark.filterwarnings("ignore::somcot.DataWarning")
def test_ends_for_good_stay_where_they_are() -> None:
    """Both move the same way and end at different places: all of the distance comes from after the ends."""
    rng = np.random.default_rng(0)
    sides = []
    for place in (1.0, 3.0):
        rows = [np.append(0.05 * rng.standard_normal(3), place) for _ in range(60)]
        sides.append(Trajectories.from_arrays(rows, terminated=True))
    found = distance(sides[0], sides[1], discount=0.9, scale=1.0)
    assert found.distance == pytest.approx(2.0 * 0.9**3, abs=0.1)


def test_flows_without_noise_are_matched_by_their_starts() -> None:
    """x' = 0.9 x and y' = 0.8 y from the same 150 starts in (0, 1), in any order: each is matched with itself."""
    rng = np.random.default_rng(6)
    powers = np.arange(41)
    starts = (np.arange(150.0) + 0.5) / 150.0
    x, y = (
        Trajectories.from_arrays(rng.permutation(starts)[:, None, None] * (a**powers)[None, :, None])
        for a in (0.9, 0.8)
    )
    found = distance(x, y, discount=0.9, confidence=0.9, scale=1.0)
    truth = 0.05 * float((0.9**powers * (0.9**powers - 0.8**powers)).sum())
    assert found.continuous is not None
    assert found.continuous.route == "deterministic"
    assert found.distance == pytest.approx(truth, rel=0.15)
    low, high, _ = found.confidence_interval or (0.0, 0.0, 0.0)
    assert low < truth < high


def test_results_are_kept_without_the_recordings(tmp_path: Path) -> None:
    found = distance(*_pair(), discount=0.9, confidence=0.9)
    found.save(tmp_path / "answer.somcot")
    back = Result.load(tmp_path / "answer.somcot")
    assert str(back) == str(found)
    assert back.continuous is not None
    assert found.continuous is not None
    assert str(back.continuous.map) == str(found.continuous.map)
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
    x, y = (data.mapped(lambda points: size * points) for data in _pair(20))
    found, plain = distance(x, y, discount=0.9), distance(*_pair(20), discount=0.9)
    assert found.distance == pytest.approx(plain.distance, rel=1e-6)
    assert np.isfinite(found.distance)


def test_recordings_far_apart_are_not_too_alike() -> None:
    """No place in common: there is nothing in which they could be alike, and no warning (which would be an error)."""
    x, y = _pair(20)
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


def test_a_shift_is_a_shift() -> None:
    """The oracle itself: common noise keeps the moved process at the same distance from the first."""
    process = SYSTEMS["van der Pol, shifted"].x
    m = np.array([0.3, 0.4])
    x = process.record(5, 30, np.random.default_rng(8))
    y = moved(process, m).record(5, 30, np.random.default_rng(8))
    np.testing.assert_allclose(y.points - x.points, np.broadcast_to(m, x.points.shape), atol=1e-9)


def test_it_is_public() -> None:
    assert {"Trajectories", "Cells", "discretise"} <= set(somcot.__all__)


def test_halves_that_cost_no_more_than_the_whole_show_no_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four of eight can always be matched at cost 1, two of eight cannot."""
    numbers = np.arange(8)
    table = 1.0 + ((numbers[:, None] - numbers) % 8 < 3)
    monkeypatch.setattr(routes, "_episode_costs", lambda question: table)
    question: Any = SimpleNamespace(rng=np.random.default_rng(0), z=1.6)
    found = routes._of_episodes(question)
    assert (found.value, found.interval) == (1.0, (1.0, 1.0))


def test_the_cost_of_a_map_is_that_of_its_pairs_from_both_sides() -> None:
    """Every pair of x -> 2 x costs |x|, whichever recording it is taken from."""
    sides = [
        SimpleNamespace(data=SimpleNamespace(points=k * np.arange(1.0, 4.0)[:, None]), weights=np.ones(3))
        for k in (1, 2)
    ]
    ground = SimpleNamespace(square=False, named=False, rows=lambda a, b: np.abs(a - b)[:, 0])
    question: Any = SimpleNamespace(ground=ground)
    found: Any = SimpleNamespace(sides=sides)
    double: Any = SimpleNamespace(apply=lambda points: 2.0 * points, inverse=lambda points: 0.5 * points)
    assert routes._mean_cost(question, found, double, 10) == 2.0
