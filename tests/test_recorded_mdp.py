"""Recorded decision processes: counts, ends, spreads of rewards, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import somcot
from somcot import mdp
from somcot.mdp import RecordedMDP
from tests.mdp_instances import random_mdp
from tests.notes import noted


def recorded(
    process: mdp.MDP, n: int, rng: np.random.Generator, *, length: int = 20, noise: float = 0.0
) -> RecordedMDP:
    """Episodes of random actions."""
    cumulative = process.transitions.cumsum(axis=2)
    episodes = n // length
    s = rng.choice(process.n_states, episodes, p=process.initial)
    steps = []
    for _ in range(length):
        a = rng.integers(process.n_actions, size=episodes)
        t = (cumulative[s, a] < rng.random(episodes)[:, None]).sum(axis=1).clip(0, process.n_states - 1)
        steps.append((s, a, process.rewards[s, a] + noise * rng.normal(size=episodes), t))
        s = t
    columns = [np.stack(part, axis=1).ravel() for part in zip(*steps, strict=True)]
    stop = np.tile(np.arange(length) == length - 1, episodes)
    sizes = {"n_states": process.n_states, "n_actions": process.n_actions}
    return RecordedMDP.from_transitions(*columns, truncated=stop, initial=process.initial, **sizes)


def test_counts_are_those_of_a_loop() -> None:
    rng = np.random.default_rng(0)
    s, a, t = rng.integers(4, size=(3, 300))
    r, ended = rng.normal(size=300), rng.random(300) < 0.1
    data = RecordedMDP.from_transitions(s, a, r, t, terminated=ended, initial=0, n_states=4, n_actions=4)
    counts, earned = np.zeros((5, 4, 5)), np.zeros((5, 4))
    for i in range(300):
        counts[s[i], a[i], 4 if ended[i] else t[i]] += 1
        earned[s[i], a[i]] += r[i]
    visits = counts.sum(axis=2)
    np.testing.assert_array_equal(data.visits, visits)
    process = data.mdp()
    np.testing.assert_allclose(process.transitions[:4], counts[:4] / visits[:4, :, None])
    np.testing.assert_allclose(process.rewards[:4], earned[:4] / visits[:4])
    assert (process.transitions[4, :, 4] == 1).all()
    one = r[(s == 2) & (a == 3)]
    assert data.reward_variances[2, 3] == pytest.approx(one.var(ddof=1))
    assert data.states == (0, 1, 2, 3, "terminated")


def test_labels_tuples_and_rows_of_integers_are_the_same_states() -> None:
    table = np.array([[0, 1], [2, 0], [0, 1], [2, 0]])
    tuples = [tuple(row) for row in table.tolist()]
    a, r = ["left", "right", "left"], [1.0, 0.0, 3.0]
    one = RecordedMDP.from_transitions(table[:-1], a, r, table[1:])
    other = RecordedMDP.from_transitions(tuples[:-1], a, r, tuples[1:])
    assert one.states == other.states == ((0, 1), (2, 0))
    assert one.actions == ("left", "right")
    np.testing.assert_array_equal(one.now, other.now)
    assert one.rewards[0, 0] == 2.0


def test_episodes_end_at_flags_and_where_steps_do_not_join() -> None:
    data = RecordedMDP.from_transitions([0, 1, 0, 1, 1], [0] * 5, [0.0] * 5, [1, 0, 1, 0, 1], truncated=[0, 1, 0, 0, 0])
    assert data.offsets.tolist() == [0, 2, 4, 5]
    assert data.initial.tolist() == [2 / 3, 1 / 3]
    assert data.take([2, 0]).now.tolist() == [1, 0, 1]
    with noted("starts-guessed"):
        RecordedMDP.from_transitions([0] * 8, [0] * 8, [0.0] * 8, [1] * 8)
    # What the note advises: any of the three.
    RecordedMDP.from_transitions([0] * 8, [0] * 8, [0.0] * 8, [1] * 8, terminated=[1] * 8)
    RecordedMDP.from_transitions([0] * 8, [0] * 8, [0.0] * 8, [1] * 8, truncated=[1] * 8)
    assert RecordedMDP.from_transitions([0] * 8, [0] * 8, [0.0] * 8, [1] * 8, initial=1).initial.tolist() == [0, 1]


def test_it_is_taken_wherever_a_process_is() -> None:
    rng = np.random.default_rng(1)
    true = random_mdp(rng, 4, 2)
    data = recorded(true, 4000, rng)
    known = data.mdp()
    assert mdp.optimal(data, discount=0.9).policy == mdp.optimal(known, discount=0.9).policy
    np.testing.assert_array_equal(
        mdp.on_policy(data, [0, 1, 0, 1]).transition, mdp.on_policy(known, [0, 1, 0, 1]).transition
    )
    with noted("plugin-metric", about="x", n=4000):
        found = mdp.metric(data, discount=0.9)
    np.testing.assert_array_equal(found, mdp.metric(known, discount=0.9))
    with noted("plugin-metric", about="mdp"):
        merged = mdp.aggregate(data, discount=0.9, n_classes=2)
    assert merged.value_error == mdp.aggregate(known, discount=0.9, n_classes=2).value_error


def test_untried_actions_are_said_once_and_stay_in_place() -> None:
    data = RecordedMDP.from_transitions([0, 1, 0], [0, 0, 1], [1.0, 1.0, 1.0], [1, 0, 1], initial=0)
    with noted("untried-actions", somcot.UnseenStateWarning, share=(1, 4), state="1", action=1):
        process = data.mdp()
    assert process.transitions[1, 1].tolist() == [0, 1]
    assert process.rewards[1, 1] == 0
    assert data.untried.tolist() == [[False, False], [False, True]]


GOOD: dict[str, Any] = {"states": [0, 1, 0], "actions": [0, 1, 0], "rewards": [0.0, 1.0, 0.5], "next_states": [1, 0, 1]}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (dict.fromkeys(GOOD, ()), ValueError, "states: found no transition"),
        ({"rewards": [0.0, np.nan, 0.0]}, ValueError, "rewards: entry 1 is nan"),
        ({"actions": [0, 1]}, ValueError, "actions: found 2 entries for the 3 of states"),
        ({"rewards": [0.0]}, ValueError, "rewards: found 1 entries"),
        ({"next_states": [1, 0]}, ValueError, "next_states: found 2"),
        ({"n_actions": 1}, ValueError, r"actions\[1\]: found action 1, expected 0 to 0"),
        ({"n_states": 1}, ValueError, r"states\[1\]: found state 1"),
        ({"states": [0.5, 1.0, 0.0]}, TypeError, r"states\[0\]: found the number 0.5"),
        ({"states": ["a", "b", "a"], "next_states": ["b", "a", "b"], "n_states": 2}, TypeError, "states: found labels"),
        ({"states": [0, 0, 0], "next_states": [0, 0, 0]}, ValueError, "states: all transitions are in the one state 0"),
        ({"terminated": [True]}, ValueError, "terminated: found shape"),
        ({"states": ["terminated", "b", "terminated"], "next_states": ["b", "b", "b"], "terminated": [0, 0, 1]},
         ValueError, "states: 'terminated' is the label"),
    ],
)  # fmt: skip
def test_refused(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        RecordedMDP.from_transitions(**{**GOOD, **change})


def test_a_bandit_is_a_process_when_said_so() -> None:
    data = RecordedMDP.from_transitions([0, 0], [0, 1], [1.0, 2.0], [0, 0], n_states=1)
    assert mdp.optimal(data, discount=0.5).policy == (1,)


def test_card() -> None:
    data = RecordedMDP.from_transitions(**GOOD)
    assert repr(data) == "RecordedMDP(2 states, 2 actions, 3 transitions, 1 episodes)"
    assert "never tried" in data._repr_html_()
