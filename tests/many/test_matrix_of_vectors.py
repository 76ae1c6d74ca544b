"""Matrices of recordings of real vectors: each pair as `distance` does it, in units that all share."""

from pathlib import Path

import numpy as np
import pytest

import somcot
from somcot import Trajectories, distance_matrix
from somcot.plumbing.notes import Note, Share
from somcot.plumbing.records import CheckpointError
from tests.notes import notes_in

pytestmark = pytest.mark.filterwarnings("ignore::somcot.DataWarning")


def record(seed: int, shift: float = 0.0, *, d: int = 1, n: int = 20) -> Trajectories:
    """A process that forgets, around `shift` in every coordinate: two of them are the shift's norm apart."""
    rng = np.random.default_rng(seed)
    points = np.zeros((n, 61, d))
    points[:, 0] = rng.normal(size=(n, d))
    for t in range(60):
        points[:, t + 1] = 0.6 * points[:, t] + 0.8 * rng.normal(size=(n, d))
    return Trajectories.from_arrays(points + shift)


SHIFTS = {"still": 0.0, "half": 0.5, "one": 1.0}
RECORDED = {name: record(k, shift) for k, (name, shift) in enumerate(SHIFTS.items())}


def test_shifts_come_out_and_scales_are_shared() -> None:
    found = distance_matrix(RECORDED, discount=0.8, confidence=0.9, scale=1.0)
    shifts = np.array(list(SHIFTS.values()))
    truth = np.abs(shifts[:, None] - shifts)
    assert found.labels == tuple(SHIFTS)
    assert found.symmetric
    assert ((found.low <= truth) & (truth <= found.high)).all()
    assert (np.diag(found.values) == 0).all()
    pooled = np.concatenate([data.points for data in RECORDED.values()]).std()
    scaled = distance_matrix(
        {name: RECORDED[name] for name in ("still", "one")}, discount=0.8, others=[RECORDED["half"]]
    )
    assert scaled.values[:, 0] * pooled == pytest.approx(found.values[[0, 2], 1], abs=0.06)


def test_a_pair_is_what_distance_says() -> None:
    x, y = RECORDED["still"], RECORDED["one"]
    found = distance_matrix([x, y], "sqeuclidean", discount=0.8, scale=2.0, n_cells=8)
    alone = somcot.distance(x, y, "sqeuclidean", discount=0.8, scale=2.0, n_cells=8, rng=0)
    assert found.values[0, 1] == alone.distance
    assert found.plugin[0, 1] == alone.plugin


def test_columns_of_their_own_and_tests() -> None:
    found = distance_matrix(
        {"a": RECORDED["still"]}, discount=0.8, others={"b": record(7), "c": RECORDED["one"]}, tests="bh"
    )
    assert found.values.shape == (1, 2)
    assert found.pvalues[0, 0] > 0.05 > found.pvalues[0, 1]


def test_what_nothing_vouches_for_says_so() -> None:
    curved = [Trajectories.from_arrays([_orbit(k)]) for k in range(2)]
    found = distance_matrix(curved, discount=0.8, confidence=0.9)
    assert np.isnan(found.low[0, 1])
    assert np.isfinite(found.values[0, 1])
    assert notes_in([found.reasons[0].text])[0].code == "approximate-pair"
    assert found.notes == (Note("approximate-pairs", share=Share(1, 1)),)


def _orbit(seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """A noisy circle, in other directions for each seed."""
    rng = np.random.default_rng(seed)
    angle = np.cumsum((0.3 + 0.4 * seed) + 0.05 * rng.normal(size=40))
    return np.column_stack([np.cos(angle), (1 + seed) * np.sin(angle)])


def test_a_checkpoint_knows_its_recordings(tmp_path: Path) -> None:
    path = tmp_path / "d.ck"
    first = distance_matrix(RECORDED, discount=0.8, checkpoint=path)
    again = distance_matrix(RECORDED, discount=0.8, checkpoint=path)
    assert np.array_equal(first.values, again.values)
    for changed in ({"scale": 3.0}, {"n_cells": 9}, {"cost": "sqeuclidean"}):
        with pytest.raises(CheckpointError, match="other processes or options"):
            distance_matrix(RECORDED, discount=0.8, checkpoint=path, **changed)


def test_a_checkpoint_knows_what_cells_do_not(tmp_path: Path) -> None:
    """Whole numbers of which two in one cell change places: centres, counts and costs stay what they are."""
    path, asked = tmp_path / "d.ck", {"discount": 0.8, "scale": 1.0, "n_cells": 2}
    walk = np.array([[0.0, 1.0, 2.0, 1.0, 100.0, 101.0, 100.0, 102.0, 1.0, 0.0]] * 3)[:, :, None]
    other = walk.copy()
    other[:, [1, 2]] = other[:, [2, 1]]
    fixed = Trajectories.from_arrays(walk + 1.0)
    distance_matrix([Trajectories.from_arrays(walk), fixed], checkpoint=path, **asked)  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match="other processes or options"):
        distance_matrix([Trajectories.from_arrays(other), fixed], checkpoint=path, **asked)  # type: ignore[arg-type]


def test_what_cannot_be_compared() -> None:
    with pytest.raises(TypeError, match=r"processes\['b'\]: found MarkovChain, expected Trajectories"):
        distance_matrix({"a": RECORDED["one"], "b": somcot.random_walk(3)}, discount=0.8)
    with pytest.raises(ValueError, match=r"others\[0\]: has 2 coordinates, but processes\[0\] has 1"):
        distance_matrix([RECORDED["one"]], discount=0.8, others=[record(3, d=2)])
    with pytest.raises(ValueError, match="method: recordings of real vectors have a distance with method='auto'"):
        distance_matrix(RECORDED, discount=0.8, method="exact")
    with pytest.raises(TypeError, match="scale: only for Trajectories; leave it out"):
        distance_matrix([somcot.random_walk(3)] * 2, discount=0.8, scale=1.0)
    with pytest.raises(ValueError, match="cost: found 'features', expected 'euclidean'"):
        distance_matrix(RECORDED, "features", discount=0.8)
    with pytest.raises(TypeError, match="processes: found one Trajectories, expected several"):
        distance_matrix(RECORDED["one"], discount=0.8)  # type: ignore[arg-type]
