"""The labels of a cost are honoured or refused, never passed over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import somcot
from somcot import MarkovChain
from tests.notes import noted

pandas = pytest.importorskip("pandas")

CHAIN = MarkovChain([[0.9, 0.1], [0.3, 0.7]], states=["a", "b"])
DATA, MORE = CHAIN.sample(20, 20, rng=0), CHAIN.sample(20, 20, rng=1)
RIGHT = np.array([[0.0, 1.0], [3.0, 0.0]])  # rows and columns in the order a, b; not symmetric
SHUFFLED = pandas.DataFrame(RIGHT[::-1], index=["b", "a"], columns=["a", "b"])
ASKED: dict[str, Any] = {
    "exact": lambda cost: somcot.distance(CHAIN, CHAIN, cost, discount=0.5, method="exact").distance,
    "estimate": lambda cost: somcot.distance(DATA, DATA, cost, discount=0.5, rng=0).distance,
    "somcot": lambda cost: somcot.distance(
        CHAIN, CHAIN, cost, discount=0.5, method="somcot", n_steps=9, rng=0
    ).distance,
    "metric": lambda cost: somcot.metric(CHAIN, CHAIN, cost, discount=0.5).tolist(),
    "test": lambda cost: somcot.same_process(DATA, MORE, cost, discount=0.5, n_permutations=9, rng=0).statistic,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::somcot.DataWarning")  # the same recording twice is no clear difference
@pytest.mark.parametrize("name", ASKED)
def test_a_shuffled_frame_costs_the_same(name: str) -> None:
    assert ASKED[name](SHUFFLED) == ASKED[name](RIGHT)
    assert ASKED[name](SHUFFLED[["b", "a"]]) == ASKED[name](RIGHT)


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize(
    ("rows", "columns", "what"),
    [
        (["a", "c"], ["a", "b"], "rows"),
        (["a", "b"], ["a", "a"], "columns"),
        (["b", "a"], [0, 2], "columns"),
        ([1, 0], ["a", "b"], "rows"),
    ],
)
def test_other_labels_are_refused(name: str, rows: list[Any], columns: list[Any], what: str) -> None:
    with pytest.raises(ValueError, match=f"cost: its {what} are called"):
        ASKED[name](pandas.DataFrame(RIGHT, index=rows, columns=columns))


def test_a_frame_without_labels_is_an_array() -> None:
    assert ASKED["exact"](pandas.DataFrame(RIGHT)) == ASKED["exact"](RIGHT)


def test_numbers_are_labels_where_the_states_are_numbers() -> None:
    chain = MarkovChain([[0.9, 0.1], [0.3, 0.7]], states=[1, 0])
    frame = pandas.DataFrame(RIGHT, index=[0, 1], columns=[0, 1])  # that of state 0 first
    found = somcot.metric(chain, chain, frame, discount=0.5)
    np.testing.assert_array_equal(found, somcot.metric(chain, chain, RIGHT[::-1, ::-1], discount=0.5))


def test_columns_of_a_polars_frame() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"b": RIGHT[:, 1], "a": RIGHT[:, 0]})
    assert ASKED["exact"](frame) == ASKED["exact"](RIGHT)
    assert ASKED["exact"](polars.DataFrame(RIGHT)) == ASKED["exact"](RIGHT)
    with pytest.raises(ValueError, match="cost: its columns are called 'x', 'b'"):
        ASKED["exact"](frame.rename({"a": "x"}).select("x", "b"))


def test_a_frame_may_have_more_states_than_a_recording() -> None:
    pandas = pytest.importorskip("pandas")
    points = np.arange(4.0)
    frame = pandas.DataFrame(somcot.costs.euclidean(points, points), index=range(4), columns=range(4))
    x, y = MarkovChain(np.eye(2), [1, 0], states=[1, 3]), MarkovChain(np.eye(2), [0, 1], states=[0, 2])
    assert somcot.distance(x, y, frame, discount=0.5).distance == pytest.approx(1.0)  # from 1 to 2
    with pytest.raises(ValueError, match="states that a recording or model lacks are left out"):
        somcot.distance(x, y, frame.to_numpy(), discount=0.5)


def test_the_metric_of_recordings_warns_of_noise() -> None:
    x = somcot.random_walk(3)
    with noted("plugin-states"):
        somcot.metric(x.sample(20, 20, rng=0), x, discount=0.9)  # type: ignore[arg-type]
