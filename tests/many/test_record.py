"""What one does with a matrix of distances."""

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import somcot
from somcot.many.record import DistanceMatrix, Reason


def of_points(points: Any, **more: Any) -> DistanceMatrix:
    d = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))
    nothing = np.full(d.shape, np.nan)
    labels = tuple(f"p{i}" for i in range(len(d)))
    others = ("plugin", "low", "high", "standard_error", "pvalues")
    fields: dict[str, Any] = {"values": d, "uncut": d, **dict.fromkeys(others, nothing)}
    return DistanceMatrix(labels, labels, **(fields | more), discount=0.9, method="exact", symmetric=True)


POINTS = np.random.default_rng(0).normal(size=(8, 2)) + np.array([[0, 0]] * 4 + [[20, 0]] * 4)


def test_the_map_has_the_distances() -> None:
    found = of_points(POINTS)
    points = found.embedding(2)
    again = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))
    assert again == pytest.approx(found.values, abs=1e-9)
    assert found.embedding(9).shape == (8, 9)


def test_clusters_are_those_of_scipy_and_scikit_learn() -> None:
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform
    from sklearn.cluster import DBSCAN, AgglomerativeClustering
    from sklearn.neighbors import KNeighborsClassifier

    found = of_points(POINTS)
    assert found.linkage("complete") == pytest.approx(linkage(squareform(found.values, checks=False), "complete"))
    assert found.clusters(2).tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert found.clusters(1).tolist() == [0] * 8
    theirs = AgglomerativeClustering(n_clusters=2, metric="precomputed", linkage="average").fit_predict(found.values)
    assert (theirs == theirs[0]).tolist() == [True] * 4 + [False] * 4
    walks = [somcot.random_walk(5, theta) for theta in (0.3, 0.32, 0.7, 0.72)]
    d = somcot.distance_matrix(walks, np.abs(np.subtract.outer(np.arange(5), np.arange(5))), discount=0.9)
    assert len(set(DBSCAN(eps=0.05, min_samples=2, metric="precomputed").fit_predict(d.values))) == 2
    near = KNeighborsClassifier(1, metric="precomputed").fit(d.values[:, ::2][::2], ["low", "high"])
    assert near.predict(d.values[:, ::2]).tolist() == ["low", "low", "high", "high"]


def test_negative_values_keep_their_order() -> None:
    d = of_points(POINTS)
    shifted = of_points(POINTS, values=np.maximum(d.uncut - 2.0, 0.0), uncut=d.uncut - 2.0)
    assert np.array_equal(shifted.linkage()[:, :2], d.linkage()[:, :2])
    assert (shifted.linkage()[:, 2] >= 0).all()


def test_files_and_frames(tmp_path: Path) -> None:
    found = of_points(POINTS, values=np.eye(8))
    found.save(tmp_path / "d.matrix")
    again = DistanceMatrix.load(tmp_path / "d.matrix")
    assert again.labels == found.labels
    assert np.array_equal(again.values, found.values)
    assert repr(again) == repr(found) == "DistanceMatrix(8 x 8, exact, discount 0.9)"
    somcot.distance(somcot.random_walk(2), somcot.random_walk(2), discount=0.5).save(tmp_path / "r")
    with pytest.raises(ValueError, match="not a somcot distance matrix file"):
        DistanceMatrix.load(tmp_path / "r")
    frame = found.to_pandas()
    assert frame.loc["p3", "p3"] == 1.0
    rows = list(found.rows())
    assert len(rows) == 28
    assert rows[0]["x"] == "p0"
    assert rows[0]["low"] is None


def test_labels_that_are_dates(tmp_path: Path) -> None:
    labels: list[Any] = [date(2026, 5, 1), datetime(2026, 5, 1, 12, tzinfo=UTC), np.datetime64("2026-05-03T01", "ns")]
    labels += [pd.Timestamp("2026-05-04"), (date(2026, 5, 5), 1), "p5", "p6", "p7"]
    found = replace(of_points(POINTS), labels=tuple(labels), other_labels=tuple(labels))
    found.save(tmp_path / "d.matrix")
    again = DistanceMatrix.load(tmp_path / "d.matrix").labels
    assert again == (*labels[:2], datetime(2026, 5, 3, 1), *labels[3:])


def test_what_has_no_clusters_says_so() -> None:
    d = of_points(POINTS)
    values = d.uncut.copy()
    values[0, 1] = values[1, 0] = np.nan
    holes = of_points(POINTS, uncut=values, values=values, reasons=(Reason(0, 1, "broken"), Reason(1, 0, "broken")))
    assert holes.n_failed == 2
    assert holes.status[0, 1] == "broken"
    with pytest.raises(ValueError, match=r"1 pair.s. have no distance .'p0', 'p1'.*see status"):
        holes.embedding()
    with pytest.raises(ValueError, match="k: found 9, expected at most 8"):
        d.clusters(9)
    with pytest.raises(ValueError, match="method: found 'ward'"):
        d.linkage("ward")
    across = somcot.distance_matrix([somcot.random_walk(2)], discount=0.5, others=[somcot.random_walk(2, stay=0.5)])
    with pytest.raises(ValueError, match="leave out others="):
        across.linkage()


def test_the_record_is_its_distances_to_whatever_takes_an_array() -> None:
    from sklearn.cluster import AgglomerativeClustering

    found = of_points(POINTS)
    assert np.asarray(found) is found.values
    assert np.array(found, dtype=np.float32).dtype == np.float32
    assert np.array(found, copy=True) is not found.values
    groups = AgglomerativeClustering(2, metric="precomputed", linkage="average").fit_predict(found)
    assert len(set(groups[:4])) == len(set(groups[4:])) == 1


def test_a_label_that_equals_nothing_is_refused() -> None:
    walk = somcot.random_walk(3)
    with pytest.raises(ValueError, match="processes: a label is nan, which does not equal itself"):
        somcot.distance_matrix({float("nan"): walk, "a": walk}, discount=0.9)
