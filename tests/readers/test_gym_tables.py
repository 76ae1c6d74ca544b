"""Tables of Gymnasium environments become decision processes, and bad ones are refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from somcot import mdp
from somcot.readers import from_tabular

gym = pytest.importorskip("gymnasium")


SIZES = [("FrozenLake-v1", 17, 4), ("CliffWalking-v1", 49, 4), ("Taxi-v4", 501, 6)]


@pytest.mark.parametrize(("name", "n", "n_actions"), SIZES)
def test_environments_that_come_with_a_table(name: str, n: int, n_actions: int) -> None:
    process = from_tabular(name)
    assert process.transitions.shape == (n, n_actions, n)
    assert process.states[-1] == "terminated"
    assert process.transitions[-1, :, -1].tolist() == [1.0] * n_actions
    env = gym.make(name)
    assert process.initial[:-1] == pytest.approx(env.unwrapped.initial_state_distrib)
    for s, a in ((0, 0), (n - 3, 1), (14 % (n - 1), 2)):
        row = env.unwrapped.P[s][a]
        assert process.rewards[s, a] == pytest.approx(sum(p * r for p, _, r, _ in row))
        for t in range(n - 1):
            assert process.transitions[s, a, t] == pytest.approx(sum(p for p, u, _, end in row if u == t and not end))
    env.close()


def table(**changes: Any) -> SimpleNamespace:
    P = {0: {0: [(0.5, 0, 2.0, False), (0.5, 1, 4.0, False)]}, 1: {0: [(1.0, 1, 0.0, False)]}}
    return SimpleNamespace(**{"P": P} | changes)


def test_without_ends_there_is_no_state_for_them() -> None:
    mdp = from_tabular(table())
    assert mdp.transitions.tolist() == [[[0.5, 0.5]], [[0.0, 1.0]]]
    assert mdp.rewards.tolist() == [[3.0], [0.0]]
    assert mdp.initial.tolist() == [1.0, 0.0]
    assert from_tabular(table(), initial=1).initial.tolist() == [0.0, 1.0]
    assert from_tabular(table(initial_state_distrib=np.array([0.5, 0.5]))).initial.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("P", "words"),
    [
        ({0: {0: [(1.0, 7, 0.0, False)]}}, r"env: P\[0\]\[0\] leads to state 7, expected one of 0 to 0"),
        ({0: {0: [(0.5, 0, 0.0, False)]}}, r"transitions: row of state 0 and action 0 sums to 0.5"),
        ({0: {0: [(1.0, 0, float("nan"), False)]}}, r"rewards: entry \(0, 0\) is nan"),
        ({0: {0: [(1.0, 0, 0.0, False)]}, 1: {}}, r"env: state 1 has 0 actions and state 0 has 1"),
        ({}, r"env: its table P has no states"),
    ],
)
def test_bad_tables_are_refused(P: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        from_tabular(table(P=P))


def test_environments_without_a_table_are_refused() -> None:
    with pytest.raises(TypeError, match=r"env: CartPoleEnv has no table P"):
        from_tabular("CartPole-v1")
    with pytest.raises(ValueError, match=r"env: 'Pond-v1' cannot be made"):
        from_tabular("Pond-v1")


def test_options_of_an_environment_by_its_id() -> None:
    sure = from_tabular("FrozenLake-v1", env_options={"is_slippery": False})
    assert sure.transitions[0, 2].max() == 1.0
    assert from_tabular("FrozenLake-v1").transitions[0, 2].max() < 1.0
    with pytest.raises(ValueError, match="env_options: "):
        from_tabular(table(), env_options={"is_slippery": False})
    with pytest.raises(ValueError, match="cannot be made"):
        from_tabular("FrozenLake-v1", env_options={"slippery": False})


def test_a_policy_without_the_last_state_is_told_of_it() -> None:
    with pytest.raises(ValueError, match=r"17 states.*'terminated'"):
        mdp.on_policy(from_tabular("FrozenLake-v1"), [2] * 16)
