"""Cells: where points go, what is counted on them, and that they do not depend on what they must not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from somcot import Cells, Trajectories, discretise, distance
from somcot.cells import ShiftCheck, kmeans
from somcot.continuous.discretise import lag_coordinates
from somcot.plumbing.arrays import Floats
from tests.continuous import systems
from tests.notes import noted


def pair(n: int = 60, shift: float = 0.0) -> tuple[Trajectories, Trajectories]:
    system = systems.SYSTEMS["rotation"]
    x, y = system.record(n, 40, np.random.default_rng(5))
    return x, y.mapped(lambda points: points + shift)


def brute_force(points: Floats, sites: Floats) -> Any:
    return ((points[:, None, :] - sites[None, :, :]) ** 2).sum(axis=2).argmin(axis=1)


def test_points_belong_to_the_nearest_site() -> None:
    x, y = pair()
    cells = discretise(x, y, n_cells=15)
    points = np.concatenate([x.points, y.points])
    codes = cells.assign(points)
    np.testing.assert_array_equal(codes, brute_force(points / cells.scale, cells.sites))
    for k in range(15):
        np.testing.assert_allclose(cells.centres[k], points[codes == k].mean(axis=0))
    np.testing.assert_array_equal(cells.visits.sum(axis=0), np.bincount(codes))
    np.testing.assert_allclose(cells.scale, points.std(axis=0))


def test_recordings_are_counted_step_by_step() -> None:
    x, y = pair(7)
    cells = discretise(x, y, n_cells=8)
    expected = np.zeros((8, 8), dtype=int)
    for episode in y.episodes:
        codes = cells.assign(episode)
        np.add.at(expected, (codes[:-1], codes[1:]), 1)
    np.testing.assert_array_equal(cells.y.counts(), expected)
    assert cells.x.states == cells.y.states == tuple(range(8))


def test_ends_have_absorbing_cells_at_their_place() -> None:
    """Half of the episodes end at -2 and half at 2: one cell for both would lie where none of them ended."""
    rng = np.random.default_rng(0)
    rows = [np.append(rng.normal(size=20) * 0.3, side * 2.0 + 0.01 * rng.normal()) for side in (-1, 1) * 30]
    stopped = Trajectories.from_arrays(rows, terminated=True)
    cells = discretise(stopped, n_cells=6)
    assert 2 <= cells.n_ends <= 6
    ends = cells.centres[-cells.n_ends :].ravel()
    assert np.abs(np.abs(ends) - 2.0).max() < 0.1
    chain = cells.x.chain()
    np.testing.assert_allclose(chain.transition[-cells.n_ends :, -cells.n_ends :], np.eye(cells.n_ends))
    assert discretise(Trajectories.from_arrays(rows), n_cells=6).n_ends == 0


def test_many_recordings_share_cells_and_new_ones_join() -> None:
    x, y = pair(30)
    cells = discretise(x, y, x.take(np.arange(10)), n_cells=9)
    assert len(cells.recordings) == 3
    np.testing.assert_array_equal(cells.samples(y).counts(), cells.y.counts())
    assert cells.share_outside(x.points) == 0.0
    assert cells.share_outside(x.points + 100.0) == 1.0


def test_equal_seeds_equal_cells_whatever_the_order_of_calls() -> None:
    x, y = pair(30)
    one, other = (discretise(x, y) for _ in range(2))
    np.testing.assert_array_equal(one.sites, other.sites)
    assert not np.array_equal(discretise(x, y, rng=1).sites, one.sites)


def test_the_number_of_cells_follows_the_data() -> None:
    few, many = (discretise(*pair(n)) for n in (10, 250))
    assert few.n_cells == 8
    assert many.n_cells == 24
    assert few.saturation > 3.0 >= many.saturation


def test_lag_coordinates_find_the_slow_direction() -> None:
    """One slow coordinate among four of white noise, rotated: the first direction is the slow one."""
    rng = np.random.default_rng(1)
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    states = rng.normal(size=(50, 101, 5))
    for t in range(100):
        states[:, t + 1, 0] = 0.95 * states[:, t, 0] + 0.3 * states[:, t + 1, 0]
    data = Trajectories.from_arrays(states @ turn.T)
    found = lag_coordinates([data])
    assert found is not None
    assert found.shape == (5, 1)
    seen = data.points @ found[:, 0]
    assert abs(np.corrcoef(seen, data.points @ turn[:, 0])[0, 1]) > 0.999
    assert discretise(data).projection is not None


def test_kmeans_is_as_good_as_lloyd_from_many_starts() -> None:
    rng = np.random.default_rng(2)
    points = rng.normal(size=(2000, 2))

    def inertia(centres: Floats) -> float:
        return float(((points[:, None] - centres) ** 2).sum(axis=2).min(axis=1).mean())

    found = [inertia(kmeans(points, 12, np.random.default_rng(s))) for s in range(6)]
    assert max(found) < 1.08 * min(found)
    assert max(found) < 0.6 * inertia(points[:12])


def test_the_plain_distance_is_that_of_the_counted_chains() -> None:
    """Against the solver for chains, which shares neither the dealing nor the centres."""
    from somcot import MarkovChain, costs, distance

    x, y = pair(40, shift=0.3)
    cells = discretise(x, y, n_cells=7)
    chains = []
    for data in (x, y):
        counts, first = np.zeros((7, 7)), np.zeros(7)
        for episode in data.episodes:
            codes = cells.assign(episode)
            np.add.at(counts, (codes[:-1], codes[1:]), 1)
            first[codes[0]] += 1
        chains.append(MarkovChain(counts, first, normalize=True))
    table = costs.euclidean(cells.centres / cells.scale, cells.centres / cells.scale)
    expected = distance(chains[0], chains[1], table, discount=0.9).distance
    found = distance(cells.x, cells.y, cells.cost(), discount=0.9, method="plugin").distance
    assert found == pytest.approx(expected, abs=1e-5)


def test_cells_of_a_circle_close() -> None:
    """Points of period 1 about 0: a cell on the cut holds points of both sides, and its centre is between them."""
    angle = np.mod(np.random.default_rng(0).uniform(-0.5, 0.5, (20, 50, 1)), 1.0)
    cells = discretise(Trajectories.from_arrays(angle, names=["phi"], period={"phi": 1.0}), n_cells=5, scale=1.0)
    assert cells.assign([[0.01]]).tolist() == cells.assign([[0.99]]).tolist() or (
        cells.assign([[0.2]]).tolist() == cells.assign([[1.2]]).tolist()
    )
    assert cells.assign([[0.3]]).tolist() == cells.assign([[7.3]]).tolist()
    assert cells.cost().max() <= 0.5
    near = cells.centres[cells.assign(angle[0])] - angle[0]
    assert np.abs(near - np.round(near)).max() < 0.25
    assert cells.scale.tolist() == [1.0]
    spread = discretise(Trajectories.from_arrays(angle, period={"x0": 1.0}), n_cells=5).scale
    assert spread[0] == pytest.approx(1 / np.sqrt(12), rel=0.05)


def test_labels_in_disguise_are_recognised() -> None:
    data = Trajectories.from_arrays(np.random.default_rng(0).integers(5, size=(20, 30)).astype(float)[:, :, None])
    with noted("few-distinct-points", n=5):
        cells = discretise(data)
    assert sorted(cells.centres.ravel().tolist()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_cells": "many"}, "n_cells: found 'many'"),
        ({"n_cells": 1}, "n_cells: found 1, expected at least 2"),
        ({"scale": "max"}, "scale: found 'max'"),
        ({"scale": [1.0, 2.0, 3.0]}, "one for each of 2 coordinates"),
        ({"scale": -1.0}, "a number above 0"),
        ({"lag_coordinates": "no"}, "lag_coordinates: found 'no'"),
        ({"discount": 1.0}, "discount: found 1.0"),
    ],
)
def test_refusals(change: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        discretise(*pair(5), **change)


def test_recordings_that_do_not_fit() -> None:
    x, _ = pair(5)
    flat = x.mapped(lambda points: points[:, :1])
    constant = x.mapped(lambda points: points * [1.0, 0.0] + 7.0)
    with pytest.raises(ValueError, match=r"recordings\[1\]: has 1 coordinates, but recordings\[0\] has 2"):
        discretise(x, flat)
    with pytest.raises(ValueError, match="x1 never changes"):
        discretise(constant)
    assert isinstance(discretise(constant, scale=1.0, n_cells=4), Cells)
    with pytest.raises(TypeError, match="found list, expected Trajectories"):
        discretise([x])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"points: found shape \(1, 3\), expected \(n, 2\)"):
        discretise(x, n_cells=4).assign([[1.0, 2.0, 3.0]])


def test_a_single_step_in_three_dimensions_has_cells() -> None:
    """Nothing can be learnt of directions from one step: coordinates stay as they are."""
    data = Trajectories.from_arrays([[[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]]])
    assert lag_coordinates([data]) is None
    with noted("few-distinct-points", n=2):
        assert discretise(data).x.n_transitions == 1


@pytest.mark.filterwarnings("ignore::somcot.DataWarning")
def test_recordings_of_one_point_are_compared() -> None:
    still, shorter = (Trajectories.from_arrays([np.zeros((n, 1))]) for n in (6, 4))  # each has two halves
    assert distance(still, shorter, "euclidean", discount=0.9, scale=1.0).distance == 0.0


@pytest.mark.filterwarnings("ignore::somcot.DataWarning")
@pytest.mark.parametrize("d", [1, 3])
def test_a_recording_that_never_moves_is_compared_with_one_that_does(d: int) -> None:
    """From one point, the distance is what the other is away from it: a plain discounted mean."""
    rng = np.random.default_rng(0)
    paths = rng.normal(size=(60, 21, d))
    still, moving = Trajectories.from_arrays([np.ones((300, d))]), Trajectories.from_arrays(paths)
    found = distance(still, moving, "euclidean", discount=0.5, scale=1.0)
    truth = float(np.linalg.norm(paths - 1.0, axis=2).mean(axis=0) @ (0.5 * 0.5 ** np.arange(21)))
    assert found.distance == pytest.approx(truth, rel=0.15)


@pytest.mark.parametrize(("worst", "passed"), [(0.2, True), (0.21, False)])
def test_a_shift_may_be_off_by_a_fifth(worst: float, passed: bool) -> None:
    assert ShiftCheck(1.0, 1.1, None, worst).passed is passed
