"""Decision processes: the metric against value iteration with linear programs, bounds against true values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import somcot
from somcot.mdp import MDP, Aggregation, aggregate, bracket, metric, on_policy, optimal
from somcot.plumbing.arrays import Floats
from tests.mdp_instances import lake, random_mdp, shortfall_of_bounds

Transport = Callable[[Floats, Floats, Floats], float]


def linear_program(p: Floats, q: Floats, cost: Floats) -> float:
    n, m = cost.shape
    rows = np.vstack([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    found = linprog(cost.ravel(), A_eq=rows[:-1], b_eq=np.concatenate([p, q])[:-1], method="highs")
    assert found.status == 0
    return float(found.fun)


def bellman(x: MDP, y: MDP, d: Floats, discount: float, transport: Transport = linear_program) -> Floats:
    """The right-hand side of the equation of the metric, written out."""
    new = np.zeros_like(d)
    for s, t in np.ndindex(*d.shape):
        for a in range(x.n_actions):
            p, q = x.transitions[s, a], y.transitions[t, a]
            i, j = np.flatnonzero(p), np.flatnonzero(q)
            moved = transport(p[i], q[j], np.ascontiguousarray(d[np.ix_(i, j)]))
            reward = (1 - discount) * abs(x.rewards[s, a] - y.rewards[t, a])
            new[s, t] = max(new[s, t], reward + discount * moved)
    return new


def value_iteration(x: MDP, y: MDP, discount: float, transport: Transport = linear_program) -> Floats:
    d = np.zeros((x.n_states, y.n_states))
    while True:
        new = bellman(x, y, d, discount, transport)
        if np.abs(new - d).max() * discount / (1 - discount) < 1e-9:
            return new
        d = new


@pytest.mark.parametrize("seed", range(3))
def test_metric_is_that_of_value_iteration_with_linear_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = random_mdp(rng, 3, 2), random_mdp(rng, 2, 2)
    assert np.abs(metric(x, discount=0.5) - value_iteration(x, x, 0.5)).max() < 1e-7
    assert np.abs(metric(x, y, discount=0.5) - value_iteration(x, y, 0.5)).max() < 1e-7


def test_metric_of_the_lake_solves_its_equation() -> None:
    """One sweep of linear programs: a residual r leaves an error of at most r / (1 - discount)."""
    mdp = lake()
    d = metric(mdp, discount=0.9)
    assert np.abs(bellman(mdp, mdp, d, 0.9) - d).max() / 0.1 < 1e-7
    low, high = bracket(mdp, discount=0.9)
    assert (high - low).max() < 1e-12
    assert (low <= d).all()
    assert (d <= high).all()
    assert np.array_equal(d, d.T)
    assert not d.diagonal().any()


@pytest.mark.slow
def test_metric_of_the_lake_is_that_of_value_iteration() -> None:
    ot = pytest.importorskip("ot")
    mdp = lake()

    def network(p: Floats, q: Floats, cost: Floats) -> float:
        return float(p @ cost @ q) if 1 in cost.shape else float(ot.emd2(p, q, cost))

    assert np.abs(metric(mdp, discount=0.9) - value_iteration(mdp, mdp, 0.9, network)).max() < 1e-7


@pytest.mark.parametrize("discount", [0.3, 0.9, 0.99])
def test_the_bracket_is_as_narrow_as_rounding_allows(discount: float) -> None:
    rng = np.random.default_rng(5)
    low, high = bracket(random_mdp(rng, 8, 3), random_mdp(rng, 6, 3), discount=discount)
    assert (low <= high).all()
    assert (high - low).max() < 1e-12


def test_one_action_is_a_chain() -> None:
    mdp = random_mdp(np.random.default_rng(1), 6, 1)
    chain = on_policy(mdp, [0] * 6)
    assert chain.features is not None
    cost = somcot.costs.from_features(chain, chain)
    expected = somcot.metric(chain, chain, np.asarray(cost), discount=0.9)
    assert metric(mdp, discount=0.9) == pytest.approx(expected, abs=1e-12)


def test_another_process_is_as_good_as_more_states() -> None:
    """Both processes as parts of one: the metric between them is a block of its metric."""
    rng = np.random.default_rng(2)
    x, y = random_mdp(rng, 3, 2), random_mdp(rng, 4, 2)
    both = np.zeros((7, 2, 7))
    both[:3, :, :3], both[3:, :, 3:] = x.transitions, y.transitions
    whole = metric(MDP(both, np.vstack([x.rewards, y.rewards])), discount=0.9)
    assert metric(x, y, discount=0.9) == pytest.approx(whole[:3, 3:], abs=1e-12)


def test_actions_are_matched_by_their_labels() -> None:
    rng = np.random.default_rng(3)
    x, y = random_mdp(rng, 4, 3), random_mdp(rng, 4, 3)
    named = MDP(x.transitions, x.rewards, actions=[*"abc"]), MDP(y.transitions, y.rewards, actions=["a", "b", "c"])
    turned = MDP(y.transitions[:, [2, 0, 1]], y.rewards[:, [2, 0, 1]], actions=["c", "a", "b"])
    assert metric(named[0], turned, discount=0.8) == pytest.approx(metric(*named, discount=0.8), abs=1e-12)
    assert not np.allclose(metric(x, MDP(turned.transitions, turned.rewards), discount=0.8), metric(x, y, discount=0.8))


def test_equal_rewards_are_at_distance_0() -> None:
    mdp = random_mdp(np.random.default_rng(4), 4, 2)
    assert not metric(MDP(mdp.transitions, np.ones((4, 2))), discount=0.9).any()


def test_threads_change_no_bit() -> None:
    mdp = random_mdp(np.random.default_rng(6), 12, 3)
    assert np.array_equal(metric(mdp, discount=0.9, threads=1), metric(mdp, discount=0.9, threads=2))


def test_optimal_values_solve_their_equation() -> None:
    mdp = random_mdp(np.random.default_rng(7), 8, 3)
    values, policy = optimal(mdp, discount=0.95)
    assert values == pytest.approx((mdp.rewards + 0.95 * mdp.transitions @ values).max(axis=1), abs=1e-12)
    chain = on_policy(mdp, policy)
    assert chain.features is not None
    assert chain.features + 0.95 * chain.transition @ values == pytest.approx(values, abs=1e-12)


def test_on_policy_takes_labels_positions_and_probabilities() -> None:
    rng = np.random.default_rng(8)
    table = random_mdp(rng, 3, 2)
    mdp = MDP(table.transitions, table.rewards, initial=[0.2, 0.3, 0.5], states=["a", "b", "c"], actions=[("x", 1), 2])
    chain = on_policy(mdp, [("x", 1), 2, ("x", 1)])
    assert chain.transition == pytest.approx(table.transitions[[0, 1, 2], [0, 1, 0]])
    assert chain.features == pytest.approx(table.rewards[[0, 1, 2], [0, 1, 0]])
    assert chain.states == ("a", "b", "c")
    assert chain.initial.tolist() == [0.2, 0.3, 0.5]
    law = np.array([[0.25, 0.75], [1, 0], [0, 1]])
    mixed = on_policy(mdp, law)
    assert mixed.transition == pytest.approx(np.einsum("sa,sat->st", law, table.transitions))
    assert mixed.features == pytest.approx((law * table.rewards).sum(axis=1))
    assert on_policy(table, np.array([1, 1, 0])).features == pytest.approx(table.rewards[[0, 1, 2], [1, 1, 0]])
    named = MDP(table.transitions, table.rewards, actions=["left", "right"])
    assert on_policy(named, [1, 1, 0]).features == pytest.approx(table.rewards[[0, 1, 2], [1, 1, 0]])
    with pytest.raises(ValueError, match="policy: True in state"):
        on_policy(named, [True, False, True])


@pytest.mark.parametrize("seed", range(10))
def test_merged_states_cost_no_more_than_their_bounds(seed: int) -> None:
    assert shortfall_of_bounds(seed) <= 1e-9


def test_value_bounds_are_the_metric_to_the_own_class() -> None:
    mdp = random_mdp(np.random.default_rng(9), 4, 2)
    merged = aggregate(mdp, discount=0.5, n_classes=2)
    d = value_iteration(mdp, merged.mdp, 0.5)
    assert merged.value_bounds == pytest.approx(d[np.arange(4), merged.labels] / 0.5, abs=1e-7)
    assert merged.value_error == merged.value_bounds.max() > 0


def test_policy_bounds_add_the_metric_under_the_policy() -> None:
    mdp = random_mdp(np.random.default_rng(11), 6, 3)
    merged = aggregate(mdp, discount=0.9, n_classes=3)
    x = on_policy(mdp, merged.policy)
    y = on_policy(merged.mdp, optimal(merged.mdp, discount=0.9).policy)
    followed = somcot.metric(x, y, np.asarray(somcot.costs.from_features(x, y, pool=False)), discount=0.9)
    own = followed[np.arange(6), merged.labels] / (1 - 0.9)
    assert merged.policy_bounds == pytest.approx(merged.value_bounds + own, abs=1e-10)
    assert merged.policy_loss == merged.policy_bounds.max() > merged.value_error


def test_copies_of_states_are_merged_again() -> None:
    """Every state doubled, its probability split at random: epsilon=0 finds the original."""
    rng = np.random.default_rng(10)
    mdp = random_mdp(rng, 4, 2)
    share = rng.random((4, 2, 4, 1))
    split = (mdp.transitions[..., None] * np.concatenate([share, 1 - share], axis=3)).reshape(4, 2, 8)
    doubled = MDP(np.repeat(split, 2, axis=0), np.repeat(mdp.rewards, 2, axis=0))
    merged = aggregate(doubled, discount=0.9, epsilon=0)
    assert merged.labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert merged.mdp.transitions == pytest.approx(mdp.transitions)
    assert merged.value_error < 1e-10
    assert merged.policy_loss < 1e-10
    assert aggregate(doubled, discount=0.9, n_classes=6).mdp.n_states == 4


def test_epsilon_is_the_largest_distance_from_a_centre() -> None:
    mdp = lake()
    d = metric(mdp, discount=0.9)
    for epsilon in (0.0, 0.003, 0.01, 1.0):
        merged: Aggregation = aggregate(mdp, discount=0.9, epsilon=epsilon)
        centres = [mdp.states.index(state) for state in merged.mdp.states]
        assert d[np.arange(mdp.n_states), np.take(centres, merged.labels)].max() <= epsilon + 1e-12
    assert merged.mdp.n_states == 1
    assert [aggregate(mdp, discount=0.9, n_classes=k).mdp.n_states for k in (1, 5, 11)] == [1, 5, 11]


ROWS: Any = [[[0.5, 0.5]], [[0.0, 1.0]]]
REWARDS = [[0.0], [1.0]]
GOOD = MDP(ROWS, REWARDS)
BAD: dict[str, Callable[[], Any]] = {
    r"transitions: found 2 dimension\(s\)": lambda: MDP(np.eye(2), REWARDS),
    r"shape is \(3, 2, 2\).*transpose\(1, 0, 2\)": lambda: MDP(np.ones((3, 2, 2)) / 2, np.zeros((2, 3))),
    r"transitions: shape is \(0, 1, 0\)": lambda: MDP(np.zeros((0, 1, 0)), np.zeros((0, 1))),
    r"rewards: found 1 dimension": lambda: MDP(ROWS, [0.0, 1.0]),
    r"rewards: shape is \(1, 2\), expected .* = \(2, 1\); transpose": lambda: MDP(ROWS, [[0.0, 1.0]]),
    r"rewards: entry \(1, 0\) is nan": lambda: MDP(ROWS, [[0.0], [np.nan]]),
    r"transitions: entry \(0, 0, 1\) is inf": lambda: MDP(np.array([[[0.5, np.inf]], [[0, 1]]]), REWARDS),
    r"row of state 0 and action 0 sums to 0.9, expected 1": lambda: MDP(np.array([[[0.5, 0.4]], [[0, 1]]]), REWARDS),
    r"from state 'a' to 'b' under action 0 is -0.5": lambda: MDP(
        np.array([[[1.5, -0.5]], [[0, 1]]]), REWARDS, states=["a", "b"]
    ),
    r"actions: found 2 labels for 1 actions; give exactly one per action": lambda: MDP(ROWS, REWARDS, actions=[1, 2]),
    r"states: found 1 labels for 2 states": lambda: MDP(ROWS, REWARDS, states=["a"]),
    r"initial: 2 is not a state": lambda: MDP(ROWS, REWARDS, initial=2),
    r"discount: found 1.0": lambda: metric(GOOD, discount=1.0),
    r"y: its actions are not those of x .*0 is in only one": lambda: metric(
        GOOD, MDP(ROWS, REWARDS, actions=["go"]), discount=0.9
    ),
    r"rewards: differences are too large": lambda: metric(MDP(ROWS, [[-1e308], [1e308]]), discount=0.9),
    r"policy: shape is \(1,\), expected an action for each of the 2 states": lambda: on_policy(GOOD, [0]),
    r"policy: 1 in state 1 is not an action; the actions are 0": lambda: on_policy(GOOD, [0, 1]),
    r"policy: the actions in state 1 have probabilities \[0.9\]": lambda: on_policy(GOOD, [[1.0], [0.9]]),
    r"policy: shape is \(1, 1\)": lambda: on_policy(GOOD, [[1.0]]),
    r"rewards: found 3 dimensions, .* take the mean": lambda: MDP(np.ones((1, 1, 1)), np.ones((1, 1, 1))),
    r"epsilon, n_classes: give exactly one": lambda: aggregate(GOOD, discount=0.9),
    r"epsilon, n_classes: give exactly one of": lambda: aggregate(GOOD, discount=0.9, epsilon=0.1, n_classes=1),
    r"epsilon: found -1.0": lambda: aggregate(GOOD, discount=0.9, epsilon=-1),
    r"n_classes: found 3, expected at most 2, the number": lambda: aggregate(GOOD, discount=0.9, n_classes=3),
    r"discount: found 2.0": lambda: aggregate(GOOD, discount=2, n_classes=1),
}


@pytest.mark.parametrize("words", BAD)
def test_bad_input_is_refused_with_its_place(words: str) -> None:
    with pytest.raises(ValueError, match=words):
        BAD[words]()


@pytest.mark.parametrize(
    "ask",
    [
        lambda: metric(ROWS, discount=0.9),
        lambda: metric(GOOD, ROWS, discount=0.9),
        lambda: on_policy(ROWS, [0, 0]),
        lambda: aggregate(ROWS, discount=0.9, n_classes=1),
    ],
)
def test_what_is_no_mdp_is_refused(ask: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match="found list, expected an MDP"):
        ask()
