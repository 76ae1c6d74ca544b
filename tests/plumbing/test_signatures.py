"""SomcotOptions written once as a record are options of the functions that take them."""

import inspect
from dataclasses import fields

import numpy as np
import pytest

import somcot
from somcot.plumbing.records import option_names
from somcot.solvers.somcot import SomcotOptions, init, solve


def test_every_field_is_an_option_of_both_functions() -> None:
    names = {field.name for field in fields(SomcotOptions)}
    for function in (solve, init):
        assert names <= set(option_names(function))
        assert all(p.kind is not p.VAR_KEYWORD for p in inspect.signature(function).parameters.values())


def test_an_unknown_option_is_answered_with_the_known_ones() -> None:
    walk = somcot.random_walk(2)
    with pytest.raises(TypeError, match=r"n_step: not an option of method 'somcot', which takes .*n_steps.*support"):
        somcot.distance(walk, walk, np.eye(2), discount=0.9, method="somcot", n_step=5)
    turning = somcot.Trajectories.from_arrays([[0.1, 6.2]], names=["phi"], period={"phi": 6.28})
    for x, cost in ((walk, np.eye(2)), (turning, "euclidean")):
        with pytest.raises(TypeError, match=r"period: not an option .*; give it to Trajectories\.from_arrays"):
            somcot.distance(x, x, cost, discount=0.9, period={"phi": 6.28})
    with pytest.raises(TypeError, match="n_step"):
        solve(walk, walk, np.eye(2), discount=0.9, n_step=5)
