"""The test of one process on recordings of real vectors: level, power, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import somcot
from somcot import Trajectories


def _record(rng: np.random.Generator, shift: float = 0.0, n: int = 12, d: int = 2) -> Trajectories:
    points = np.zeros((n, 16, d))
    for t in range(1, 16):
        points[:, t] = 0.7 * points[:, t - 1] + rng.normal(size=(n, d))
    return Trajectories.from_arrays(points + shift)


@pytest.mark.parametrize("d", [1, 2])
def test_level(d: int) -> None:
    """At 10 %, over 40 runs: 4 expected; 11 or more would happen by chance once in 600 times."""
    rng = np.random.default_rng(d)
    hits = 0
    for _ in range(40):
        found = somcot.same_process(_record(rng, d=d), _record(rng, d=d), discount=0.8, n_permutations=19, n_cells=6)
        hits += found.pvalue <= 0.1
    assert hits <= 10


def test_power_and_many_recordings() -> None:
    rng = np.random.default_rng(0)
    x, y, z = _record(rng), _record(rng, 1.0), _record(rng)
    assert somcot.same_process(x, y, discount=0.8).pvalue == 0.005
    assert somcot.same_process(x, y, "sqeuclidean", discount=0.8, scale=1.0).pvalue == 0.005
    assert somcot.same_process([x, y, z], discount=0.8).pvalue == 0.005
    assert somcot.same_process(x, y, statistic="pearson").pvalue == 0.005
    assert somcot.same_process(x, z, discount=0.8).pvalue > 0.05


def test_cells_do_not_know_whose_episodes_are_whose() -> None:
    rng = np.random.default_rng(3)
    x, y = _record(rng), _record(rng, 0.5)
    one, other = (somcot.same_process(*pair, discount=0.8, n_cells=6) for pair in ((x, y), (y, x)))
    assert one.statistic == pytest.approx(other.statistic, rel=1e-9)


def test_ends_are_compared_too() -> None:
    rng = np.random.default_rng(1)
    walks = [rng.normal(size=(n, 2)) for n in rng.integers(3, 9, 40)]
    left, right = ([*(np.vstack([walk, [end, 0.0]]) for walk in walks)] for end in (-4.0, 4.0))
    x, y = (Trajectories.from_arrays(part, terminated=True) for part in (left, right))
    assert somcot.same_process(x, y, discount=0.8, n_cells=6).pvalue == 0.005


def test_refusals() -> None:
    rng = np.random.default_rng(2)
    x, narrow = _record(rng), _record(rng, d=1)
    labels = somcot.random_walk(3).sample(5, 5, rng=0)
    with pytest.raises(ValueError, match="y: has 1 coordinates, but x has 2"):
        somcot.same_process(x, narrow, discount=0.8)
    with pytest.raises(TypeError, match="y: found Samples, expected Trajectories"):
        somcot.same_process(x, labels, discount=0.8)
    with pytest.raises(TypeError, match="y: x is a list of recordings already"):
        somcot.same_process([x, x], x, discount=0.8)
    with pytest.raises(ValueError, match="found a list of 1 recording"):
        somcot.same_process([x], discount=0.8)
    with pytest.raises(TypeError, match="scale: not an argument of same_process, only for Trajectories"):
        somcot.same_process(labels, labels, discount=0.8, scale=1.0)
    with pytest.raises(TypeError, match="n_bins: not an argument of same_process; leave it out"):
        somcot.same_process(x, x, discount=0.8, n_bins=3)
    with pytest.raises(ValueError, match="cost: found ndarray, expected 'euclidean'"):
        somcot.same_process(x, x, np.eye(2), discount=0.8)
    with pytest.raises(TypeError, match="discount: needed for statistic='distance'"):
        somcot.same_process(x, x)


def test_where_labels_are_needed_the_way_to_them_is_told() -> None:
    x = _record(np.random.default_rng(4))
    said = r"somcot\.discretise\(\*recordings\) puts real vectors into shared cells"
    with pytest.raises(TypeError, match=said):
        somcot.select_model(x, {"a": x}, discount=0.8)  # type: ignore[arg-type, dict-item]
    with pytest.raises(TypeError, match=said):
        somcot.Monitor(x, discount=0.8)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=said):
        somcot.metric(x, x, discount=0.8)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=said):
        somcot.markov_order(x)  # type: ignore[arg-type]


def test_many_recordings_on_shared_cells() -> None:
    """What the way leads to: a matrix of many recordings, and a monitor of a stream of points."""
    rng = np.random.default_rng(5)
    recordings = [_record(rng, shift, n=40, d=1) for shift in (0.0, 0.0, 1.0)]
    cells = somcot.discretise(*recordings, n_cells=8)
    found = somcot.distance_matrix(cells.recordings, cells.cost(), discount=0.8)
    assert found.values[0, 1] < 0.3 < found.values[0, 2]
    watch = somcot.Monitor(cells.x, cells.cost(), discount=0.8, one_false_alarm_per=10_000)
    for run in _record(rng, 0.0, n=20, d=1).episodes:
        assert not watch.update(cells.assign(run))
    for run in _record(rng, 2.0, n=40, d=1).episodes:
        watch.update(cells.assign(run))
    assert watch.alarm is not None
