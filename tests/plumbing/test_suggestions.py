"""Whoever hands in a graph, a model, a table or a file is told what to do with it, wherever a process is expected."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networkx
import numpy as np
import pandas as pd
import pytest

import somcot
from somcot import mdp
from somcot.plumbing.errors import how_to_wrap

COIN = mdp.MDP(np.full((2, 1, 2), 0.5), np.zeros((2, 1)))
THINGS: dict[str, Any] = {
    "from_graph": networkx.path_graph(3),
    "from_model": SimpleNamespace(transition_matrix=np.eye(2)),
    "from_table": pd.DataFrame({"state": ["a"]}),
    "readers.read": Path("may.csv"),
    "mdp.metric": COIN,
    "from_env": SimpleNamespace(reset=None, step=None),
    "Samples.from_trajectories": [np.array([0, 1])],
    "MarkovChain(matrix)": np.eye(2),
}


@pytest.mark.parametrize("remedy", THINGS)
def test_what_is_no_process_yet(remedy: str) -> None:
    thing, walk = THINGS[remedy], somcot.random_walk(3)
    for ask in (
        lambda: somcot.distance(walk, thing, discount=0.9),
        lambda: somcot.metric(thing, walk, discount=0.9),
        lambda: somcot.distance_matrix({"a": walk, "b": thing}, discount=0.9),
        lambda: somcot.Monitor(thing, discount=0.9),
        lambda: somcot.same_process(walk.sample(2, 3, rng=0), thing, discount=0.9),
        lambda: somcot.distance(walk, thing, np.zeros((3, 2)), discount=0.9, method="somcot"),
    ):
        with pytest.raises(
            TypeError, match=rf"found {type(thing).__name__}, expected .*{remedy.replace('(', '.')[:12]}"
        ):
            ask()


def test_options_that_are_nearly_right() -> None:
    walk = somcot.random_walk(3)
    for name, right in (("eta", "primal_step"), ("nsteps", "n_steps"), ("batchsize", "batch_size")):
        wrong: dict[str, Any] = {name: 1}
        with pytest.raises(TypeError, match=rf"{name}: not an option .*; did you mean {right}\?"):
            somcot.distance(walk, walk, discount=0.9, method="somcot", **wrong)
    with pytest.raises(TypeError, match=r"speed: not an option .*keep_coupling$"):
        somcot.distance(walk, walk, discount=0.9, method="somcot", speed=1)


def test_nothing_to_advise() -> None:
    assert how_to_wrap(None) == how_to_wrap(3.5) == ""
