"""Decision processes whose actions need not correspond: the metric against value iteration with linear programs."""

from __future__ import annotations

import numpy as np
import pytest

from somcot.mdp import MDP, bracket, metric
from somcot.plumbing.arrays import Floats
from tests.mdp_instances import best_values, lake, random_mdp
from tests.test_mdp import linear_program


def hausdorff(x: MDP, y: MDP, d: Floats, discount: float) -> Floats:
    """The right-hand side of the equation, written out."""
    new = np.zeros_like(d)
    for s, t in np.ndindex(*d.shape):
        W = np.zeros((x.n_actions, y.n_actions))
        for a, b in np.ndindex(*W.shape):
            p, q = x.transitions[s, a], y.transitions[t, b]
            i, j = np.flatnonzero(p), np.flatnonzero(q)
            moved = linear_program(p[i], q[j], np.ascontiguousarray(d[np.ix_(i, j)]))
            W[a, b] = (1 - discount) * abs(x.rewards[s, a] - y.rewards[t, b]) + discount * moved
        new[s, t] = max(W.min(axis=1).max(), W.min(axis=0).max())
    return new


@pytest.mark.parametrize("seed", range(3))
def test_it_is_that_of_value_iteration_with_linear_programs(seed: int) -> None:
    """A sweep halves the distance to the only fixed point: what it hardly changes is hardly different from that."""
    rng = np.random.default_rng(seed)
    x, y = random_mdp(rng, 3, 2), random_mdp(rng, 2, 1 + seed)  # each has its own actions
    d = metric(x, y, discount=0.5, lax=True)
    assert np.abs(hausdorff(x, y, d, 0.5) - d).max() / (1 - 0.5) < 1e-8


def test_it_solves_its_equation_with_a_narrow_bracket() -> None:
    """One sweep of linear programs: a residual r leaves an error of at most r / (1 - discount)."""
    for seed in range(6):
        rng = np.random.default_rng(100 + seed)
        x, discount = random_mdp(rng, 4, 3), float(rng.choice([0.6, 0.9]))
        low, high = bracket(x, discount=discount, lax=True)
        d = metric(x, discount=discount, lax=True)
        assert (high - low).max() < 1e-12
        assert np.abs(hausdorff(x, x, d, discount) - d).max() / (1 - discount) < 1e-7
        np.testing.assert_array_equal(d, d.T)


def test_names_and_order_of_actions_do_not_matter() -> None:
    process = lake()
    turned = MDP(process.transitions[:, ::-1], process.rewards[:, ::-1], actions=["n", "e", "s", "w"])
    d = metric(process, turned, discount=0.9, lax=True)
    np.testing.assert_allclose(np.diag(d), 0.0, atol=1e-14)
    np.testing.assert_allclose(d, metric(process, discount=0.9, lax=True), atol=1e-13)
    doubled = MDP(np.repeat(process.transitions, 2, axis=1), np.repeat(process.rewards, 2, axis=1))
    np.testing.assert_allclose(np.diag(metric(process, doubled, discount=0.9, lax=True)), 0.0, atol=1e-14)


def test_it_lies_between_values_and_the_metric_of_equal_actions() -> None:
    smaller = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        x, y = random_mdp(rng, 5, 3), random_mdp(rng, 4, 3)
        loose, strict = metric(x, y, discount=0.8, lax=True), metric(x, y, discount=0.8)
        assert (loose <= strict + 1e-13).all()
        smaller += bool((loose < strict - 1e-6).any())
        apart = np.abs(best_values(x, 0.8)[:, None] - best_values(y, 0.8))
        assert (apart <= loose / 0.2 + 1e-11).all()
    assert smaller > 15


def test_bad_input() -> None:
    coin = MDP([[[0.5, 0.5]], [[0.5, 0.5]]], [[0], [1]])
    with pytest.raises(TypeError, match="lax: found 'yes', expected True or False"):
        metric(coin, discount=0.5, lax="yes")  # type: ignore[arg-type]
