"""The best policy of a decision process, and how far from the best rounding may have left it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.mdp.process import MDP, check_mdp
from somcot.plumbing.arrays import Floats
from somcot.plumbing.cards import record_card
from somcot.plumbing.text import brief_record
from somcot.plumbing.validation import check_discount

__all__ = ["Plan", "optimal"]

_EPS = float(np.finfo(np.float64).eps)


class Plan(NamedTuple):
    """The best one can do.

    Attributes
    ----------
    values : ndarray, shape (n,)
        V*, the largest expected sum of discounted rewards from each state.
    policy : tuple
        An action (its label) for each state that reaches it.
    """

    values: Floats
    policy: tuple[Hashable, ...]

    def __repr__(self) -> str:
        return brief_record(self)

    def _repr_html_(self) -> str:
        return record_card(self)


def optimal(mdp: MDP, *, discount: float) -> Plan:
    """The largest expected sum of discounted rewards and a policy that earns it, by policy iteration.

    Examples
    --------
    >>> from somcot.mdp import MDP
    >>> mdp = MDP([[[1, 0], [0, 1]], [[1, 0], [0, 1]]], [[0, 0], [1, 3]], actions=["left", "right"])
    >>> optimal(mdp, discount=0.5)
    Plan(values=array([3., 6.]), policy=('right', 'right'))
    """
    values, actions = best(check_mdp("mdp", mdp), check_discount(discount))
    return Plan(values, tuple(mdp.actions[a] for a in actions))


def best(mdp: MDP, discount: float) -> tuple[Floats, NDArray[np.int64]]:
    """Values and positions of the actions; an action is given up only for one that is better beyond rounding."""
    from somcot.plumbing.discounting import Kernel, discounted_value  # compiled code, loaded when used

    states = np.arange(mdp.n_states)
    actions = mdp.rewards.argmax(axis=1)
    V = np.zeros(mdp.n_states)
    size = float(np.abs(mdp.rewards).max()) / (1.0 - discount)
    before = -np.inf
    while True:
        kernel = Kernel.from_matrix(mdp.transitions[states, actions])
        V = discounted_value(kernel, mdp.rewards[states, actions], discount, V)
        worth = action_values(mdp, discount, V)
        better = worth.max(axis=1) > worth[states, actions] + 64.0 * _EPS * size
        if not better.any() or V.sum() <= before:  # values rise with every change, until rounding has the last word
            return V, actions
        before = V.sum()
        actions = np.where(better, worth.argmax(axis=1), actions)


def action_values(mdp: MDP, discount: float, V: Floats) -> Floats:
    """What each action is worth in each state when V comes after it, (n, n_actions)."""
    worth: Floats = mdp.rewards + discount * (mdp.transitions @ V)
    return worth


def shortfall(mdp: MDP, discount: float, V: Floats, actions: NDArray[np.int64]) -> float:
    """At most how much less than V* these actions earn, from any guess V of what they do.

    V* <= V + max(T V - V) / (1 - discount), and what they earn is at least V + min(T_actions V - V) / (1 - discount).
    """
    worth = action_values(mdp, discount, V)
    most = (worth.max(axis=1) - V).max()
    least = (worth[np.arange(mdp.n_states), actions] - V).min()
    return float(max(most - least, 0.0)) / (1.0 - discount)
