"""Warnings point at the line of the caller, from whatever depth of the package they come."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import somcot
from somcot import Samples, costs, random_walk, streams
from somcot.plumbing.errors import DataWarning, warn
from somcot.readers import from_table
from somcot.recorded.flow import flow_mle

HERE = Path(__file__)
COST = costs.absolute([1, 0, -1], [1, 0, -1])
WALK = random_walk(3)
CUT_OFF = Samples.from_trajectories([[0, 1, 0, 1, 2]] * 50, states=range(3), terminated=False)
FEW = WALK.sample(2, 12, rng=0)
TABLE = {"s": ["a", "a", "b"], "t": [0, 0, 0], "page": ["home", "cart", "home"]}

CASES: dict[str, Callable[[], Any]] = {
    "labels that look alike": lambda: costs.labels([0, 1], ["0", "1"]),
    "a short trajectory": lambda: Samples.from_trajectories([[0, 1], [1]]),
    "states entered and never left": lambda: CUT_OFF.chain(),
    "the same, found by the estimate": lambda: somcot.distance(CUT_OFF, WALK, COST, discount=0.5),
    "the same, found by the plug-in": lambda: somcot.distance(CUT_OFF, WALK, COST, discount=0.5, method="plugin"),
    "the same, found by a solver": lambda: somcot.distance(CUT_OFF, WALK, COST, discount=0.5, method="lp"),
    "notes of the estimate": lambda: somcot.distance(FEW, WALK, COST, discount=0.9),
    "no interval": lambda: somcot.distance(FEW, WALK, COST, discount=0.9, method="exact", confidence=0.9),
    "steps replayed": lambda: streams.from_samples(FEW, 0.9, order="recorded"),
    "a trajectory taken for samples": lambda: Samples.from_transitions(
        list(range(50)), list(range(1, 51)), discount=0.9
    ),
    "a table's single rows": lambda: from_table(TABLE, sequence="s", time="t", state="page"),
    "no flow fits": lambda: flow_mle(np.array([[1, 1], [1, 1]]), None, 0.9, max_iterations=1),
}


@pytest.mark.parametrize("case", CASES)
def test_points_at_the_caller(case: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CASES[case]()
    assert caught
    first = CASES[case].__code__.co_firstlineno
    assert {Path(w.filename) for w in caught} == {HERE}
    assert all(first <= w.lineno <= first + 1 for w in caught)


def test_can_be_silenced_for_a_module_and_shows_once_per_line() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            warn("told once", DataWarning)
        warnings.filterwarnings("ignore", module=__name__.replace(".", r"\."))
        warn("not told", DataWarning)
    assert [str(w.message) for w in caught] == ["told once"]


def test_a_package_of_a_similar_name_is_the_user() -> None:
    code = compile(
        "from somcot.plumbing.errors import DataWarning, warn\nwarn('here', DataWarning)", "theirs.py", "exec"
    )
    with pytest.warns(DataWarning) as caught:
        exec(code, {"__name__": "somcot_users.analysis"})
    assert [(w.filename, w.lineno) for w in caught] == [("theirs.py", 2)]
