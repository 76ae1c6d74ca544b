"""The labels of a cost are honoured or refused, never passed over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import somcot
from somcot import MarkovChain

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
