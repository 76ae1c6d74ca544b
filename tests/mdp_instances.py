"""Decision processes to test on, and what policies truly earn in them."""

from __future__ import annotations

import numpy as np
import pytest

from somcot.mdp import MDP, aggregate
from somcot.plumbing.arrays import Floats
from somcot.readers import from_tabular


def random_mdp(rng: np.random.Generator, n: int, n_actions: int) -> MDP:
    """Sparse and dense rows, rewards of a few values or of many: ties and none."""
    table = rng.dirichlet(np.full(n, rng.choice([0.2, 1.0])), size=(n, n_actions))
    table = np.where(table < 0.02, 0.0, table)
    table /= table.sum(axis=2, keepdims=True)
    rewards = rng.random((n, n_actions)) if rng.random() < 0.5 else rng.integers(-1, 2, (n, n_actions)).astype(float)
    return MDP(table, rewards)


def lake() -> MDP:
    pytest.importorskip("gymnasium")
    return from_tabular("FrozenLake-v1")


def best_values(mdp: MDP, discount: float) -> Floats:
    """By value iteration, to rounding."""
    V = np.zeros(mdp.n_states)
    for _ in range(int(np.ceil(np.log(1e-17) / np.log(discount)))):
        V = (mdp.rewards + discount * np.einsum("sat,t->sa", mdp.transitions, V)).max(axis=1)
    return V


def shortfall_of_bounds(seed: int) -> float:
    """By how much the bounds of a random aggregation fall short of the truth, at the worst state."""
    rng = np.random.default_rng(seed)
    n, discount = int(rng.integers(3, 12)), float(rng.choice([0.5, 0.9, 0.97]))
    mdp = random_mdp(rng, n, int(rng.integers(1, 4)))
    merged = aggregate(mdp, discount=discount, n_classes=int(rng.integers(1, n)))
    chosen = np.arange(n), np.array(merged.policy)
    earned = np.linalg.solve(np.eye(n) - discount * mdp.transitions[chosen], mdp.rewards[chosen])
    V = best_values(mdp, discount)
    error = np.abs(V - best_values(merged.mdp, discount)[merged.labels])
    return float(max((error - merged.value_bounds).max(), (V - earned - merged.policy_bounds).max()))
