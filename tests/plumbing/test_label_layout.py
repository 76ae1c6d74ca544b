"""Labels of points: none covers another, a point, or the edge of the paper, where there is room."""

from __future__ import annotations

import numpy as np

from somcot.plumbing.arrays import Floats
from somcot.plumbing.html import place_labels

PAPER = np.array([0.0, 0.0, 500.0, 400.0])
SIZE = np.array([60.0, 10.0])  # of a label
N = 15


def apart(a: Floats, b: Floats) -> bool:
    """Whether two labels share nothing, from their lower left corners."""
    return bool((np.abs(a - b) >= SIZE - 1e-6).any())


def crowd(seed: int) -> tuple[Floats, Floats]:
    """Points in a fifth of the paper, at its right edge, and the corners of their labels."""
    points = np.array([350.0, 100.0]) + np.random.default_rng(seed).random((N, 2)) * [150.0, 200.0]
    return points, place_labels(points, list(range(N)), np.full(N, SIZE[0]), SIZE[1], PAPER)


def test_labels_of_a_crowd_do_not_cover_each_other() -> None:
    for seed in range(10):
        points, corners = crowd(seed)
        beside = points + SIZE[1] / 2
        pairs = [(i, j) for i in range(N) for j in range(i)]
        assert not all(apart(beside[i], beside[j]) for i, j in pairs)  # above to the right of each would not do
        assert all(apart(corners[i], corners[j]) for i, j in pairs)


def test_labels_stay_on_the_paper_and_off_the_points() -> None:
    for seed in range(10):
        points, corners = crowd(seed)
        assert (corners >= PAPER[:2]).all()
        assert (corners + SIZE <= PAPER[2:] + 1e-9).all()
        inside = (points[:, None] > corners) & (points[:, None] < corners + SIZE)
        assert not inside.all(axis=2).any()


def test_a_lone_point_has_its_label_above_to_the_right() -> None:
    corner = place_labels(np.array([[100.0, 100.0]]), [0], SIZE[:1], SIZE[1], PAPER)
    np.testing.assert_array_equal(corner, [[105.0, 105.0]])
