"""What the metric of every decision process must satisfy."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from somcot.mdp import MDP, metric
from tests.mdp_instances import best_values, random_mdp

seeds = st.integers(0, 10**6)
many = settings(max_examples=40, deadline=None)


def instance(seed: int) -> tuple[MDP, MDP, float]:
    rng = np.random.default_rng(seed)
    n_actions = int(rng.integers(1, 4))
    x, y = (random_mdp(rng, int(rng.integers(1, 7)), n_actions) for _ in range(2))
    return x, y, float(rng.choice([0.2, 0.7, 0.95]))


@many
@given(seeds)
def test_values_differ_by_no_more_than_the_metric(seed: int) -> None:
    x, y, discount = instance(seed)
    V, W = best_values(x, discount), best_values(y, discount)
    for d, gap in ((metric(x, discount=discount), V[:, None] - V), (metric(x, y, discount=discount), V[:, None] - W)):
        assert ((1 - discount) * np.abs(gap) <= d + 1e-11).all()


@many
@given(seeds)
def test_triangle_inequality_and_range(seed: int) -> None:
    x, y, discount = instance(seed)
    d, across = metric(x, discount=discount), metric(x, y, discount=discount)
    assert (across[:, None, :] <= d[:, :, None] + across[None, :, :] + 1e-11).all()
    assert (d >= 0).all()
    assert d.max() <= np.ptp(x.rewards, axis=0).max() + 1e-12


@many
@given(seeds)
def test_order_of_states_does_not_matter(seed: int) -> None:
    x, y, discount = instance(seed)
    order = np.random.default_rng(seed).permutation(x.n_states)
    turned = MDP(x.transitions[order][:, :, order], x.rewards[order])
    assert np.abs(metric(turned, y, discount=discount) - metric(x, y, discount=discount)[order]).max() < 1e-11
    assert np.abs(metric(y, x, discount=discount).T - metric(x, y, discount=discount)).max() < 1e-11
