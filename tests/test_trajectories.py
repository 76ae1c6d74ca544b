"""Recordings of real vectors: what is kept, what is cut, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from somcot import Trajectories
from tests.notes import noted


def walks() -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(3)
    return [rng.normal(size=(n, 2)) for n in (4, 2, 7)]


def test_steps_and_starts_are_those_of_the_episodes() -> None:
    given = walks()
    data = Trajectories.from_arrays(given, terminated=[True, False, True])
    assert (data.d, data.n_episodes, data.n_transitions, data.names) == (2, 3, 10, ("x0", "x1"))
    np.testing.assert_array_equal(data.now, np.concatenate([a[:-1] for a in given]))
    np.testing.assert_array_equal(data.following, np.concatenate([a[1:] for a in given]))
    np.testing.assert_array_equal(data.starts, [a[0] for a in given])
    np.testing.assert_array_equal(data.ends, [given[0][-1], given[2][-1]])
    for back, a in zip(data.episodes, given, strict=True):
        np.testing.assert_array_equal(back, a)
    np.testing.assert_array_equal(data.take(np.array([2, 0])).points, np.concatenate([given[2], given[0]]))
    assert data.take(np.array([1])).terminated.tolist() == [False]
    np.testing.assert_array_equal(data.mapped(lambda p: p[:, :1]).points, data.points[:, :1])


def test_one_coordinate_and_a_block_of_episodes() -> None:
    flat = Trajectories.from_arrays([[1, 2, 3], [4, 5]])
    assert flat.points.shape == (5, 1)
    assert flat.points.dtype == np.float64
    assert Trajectories.from_arrays(np.zeros((3, 5, 2)) + np.arange(2)).lengths.tolist() == [4, 4, 4]


def test_the_recording_does_not_change_with_what_was_given() -> None:
    given = walks()
    data = Trajectories.from_arrays(given)
    given[0][0] = 99
    assert data.points.max() < 99
    with pytest.raises(ValueError, match="read-only"):
        data.points[0] = 1


def test_gaps_are_cut() -> None:
    nan = float("nan")
    rows = [[0, 0], [1, 1], [nan, 2], [3, 3], [nan, nan], [5, 5], [6, 6], [7, 7]]
    with noted("short-pieces", share=(1, 3)):
        data = Trajectories.from_arrays([rows], terminated=True, gaps="cut")
    assert [piece[:, 0].tolist() for piece in data.episodes] == [[0, 1], [5, 6, 7]]
    assert data.terminated.tolist() == [False, True]
    cut_at_the_end = Trajectories.from_arrays([[0, 1, nan]], terminated=True, gaps="cut")
    assert cut_at_the_end.terminated.tolist() == [False]


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        (np.zeros((5, 2)), {}, r"one array of shape \(5, 2\).*pass \[array\]"),
        ("abc", {}, "found str, expected a list of arrays"),
        ([], {}, "found no episode"),
        ([[0.0]], {}, "none of the 1 episodes has a step"),
        ([np.zeros((3, 2)), np.zeros((3, 1))], {}, r"arrays\[1\]: found 1 coordinates, but arrays\[0\] has 2"),
        ([[0.0, 1.0], [0.0, float("nan")]], {}, r"arrays\[1\]: row 1, coordinate 0 is NaN; pass gaps='cut'"),
        ([[0.0, float("-inf")]], {"gaps": "cut"}, r"arrays\[0\]: row 1, coordinate 0 is infinite"),
        ([["a", "b"]], {}, r"arrays\[0\]: found entries that are not numbers"),
        ([[True, False]], {}, "Samples.from_trajectories"),
        ([np.zeros((2, 2, 2))], {}, r"found shape \(2, 2, 2\), expected \(T \+ 1, d\)"),
        ([[0.0, 1.0]], {"gaps": "fill"}, "gaps: found 'fill', expected 'refuse' or 'cut'"),
        ([[0.0, 1.0]], {"names": ["a", "b"]}, "names: found 2 labels for 1 coordinates"),
        ([[0.0, 1.0]], {"terminated": [True, False]}, r"terminated: found shape \(2,\) for 1"),
    ],
)
def test_refusals_name_the_place(arrays: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        Trajectories.from_arrays(arrays, **options)


def test_cards_are_shown_in_notebooks() -> None:
    data = Trajectories.from_arrays(walks(), names=["angle", "speed"])
    assert "angle" in data._repr_html_()
    assert repr(data) == "Trajectories(2 coordinates, 10 transitions, 3 episodes)"
