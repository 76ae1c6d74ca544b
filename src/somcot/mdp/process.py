"""Markov decision processes, the chains induced by policies, and optimal policies with error bounds."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from somcot.chains import MarkovChain, Support
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import (
    ROW_TOLERANCE,
    check_discount,
    check_labels,
    check_number,
    check_start_law,
    real_array,
)
from somcot.plumbing.html import card, grid, record_card
from somcot.plumbing.text import brief_record

__all__ = [
    "MDP",
    "Plan",
    "check_mdp",
    "check_range",
    "on_policy",
    "optimal",
    "policy_law",
]


# --- Decision processes, and the chains induced by policies.


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MDP:
    """A finite Markov decision process: transition probabilities and expected rewards of each action.

    Parameters
    ----------
    transitions : array_like, shape (n, n_actions, n)
        ``transitions[s, a, t]`` is the probability of going from state s to state t under action a. Rows sum to 1
        within 1e-8 and are normalised.
    rewards : array_like, shape (n, n_actions)
        Expected reward of action a in state s.
    initial : state or array_like, shape (n,), optional
        The first state (a label if it is in `states`, otherwise an index) or its distribution.
    states, actions : sequence of hashable, optional
        Labels; by default 0, 1, 2, ...

    Examples
    --------
    >>> MDP([[[1, 0], [0, 1]], [[1, 0], [0, 1]]], [[0, 0], [1, 1]], actions=["left", "right"])
    MDP(2 states, 2 actions)
    """

    transitions: Floats
    rewards: Floats
    initial: Floats
    states: tuple[Hashable, ...]
    actions: tuple[Hashable, ...]

    def __init__(
        self,
        transitions: ArrayLike,
        rewards: ArrayLike,
        *,
        initial: Hashable | ArrayLike = 0,
        states: Iterable[Hashable] | None = None,
        actions: Iterable[Hashable] | None = None,
    ) -> None:
        if np.ndim(rewards) == 3:
            raise ValueError(
                "rewards: found 3 dimensions, expected (states, actions); take the mean over the next state: "
                "(transitions * rewards).sum(axis=2)"
            )
        table, earned = real_array("transitions", transitions, 3), real_array("rewards", rewards, 2)
        _check_shapes(table, earned)
        n, n_actions = earned.shape
        labels = tuple(range(n)) if states is None else check_labels("states", states, n)
        choices = tuple(range(n_actions)) if actions is None else check_labels("actions", actions, n_actions, "action")
        object.__setattr__(self, "states", labels)
        object.__setattr__(self, "actions", choices)
        object.__setattr__(self, "transitions", _stochastic(table, labels, choices))
        object.__setattr__(self, "rewards", earned)
        object.__setattr__(self, "initial", check_start_law(initial, labels, normalize=False))
        for array in (self.transitions, self.rewards, self.initial):
            array.setflags(write=False)

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.states)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return len(self.actions)

    @cached_property
    def support(self) -> Support:
        """The positive probabilities: row ``s * n_actions + a``, and the initial distribution last."""
        return Support.from_rows(np.vstack([self.transitions.reshape(-1, self.n_states), self.initial]))

    def __repr__(self) -> str:
        return f"MDP({self.n_states} states, {self.n_actions} actions)"

    def _repr_html_(self) -> str:
        size = f"{self.n_states:,} states, {self.n_actions:,} actions"
        return card("MDP", (), "Rewards", grid(self.rewards, self.states, self.actions), sub=size)


def on_policy(mdp: MDP, policy: ArrayLike | Sequence[Hashable]) -> MarkovChain:
    """The chain induced by a policy; its ``features`` are the expected rewards.

    Parameters
    ----------
    mdp : MDP
        A recorded process is estimated first, with a `DataWarning`, because distances of the chain contain its noise;
        ``mdp.distance(x, y, policy=...)`` corrects for it.
    policy : array_like, shape (n,) or (n, n_actions)
        An action for each state (a label, or an index if no label matches), or the probability of each action.

    Examples
    --------
    >>> mdp = MDP([[[1, 0], [0, 1]], [[1, 0], [0, 1]]], [[0, 0], [1, 3]], actions=["left", "right"])
    >>> chain = on_policy(mdp, ["right", "left"])
    >>> chain.transition, chain.features
    (array([[0., 1.],
           [1., 0.]]), array([0., 1.]))
    """
    from somcot.mdp.recorded import plain  # imports this module

    mdp = plain("mdp", check_mdp("mdp", mdp))
    probabilities = policy_law(mdp, policy)
    return MarkovChain(
        np.einsum("sa,sat->st", probabilities, mdp.transitions),
        mdp.initial,
        states=mdp.states,
        features=np.einsum("sa,sa->s", probabilities, mdp.rewards),
    )


def check_mdp(name: str, value: Any) -> MDP:
    """Check that a value is an MDP."""
    if not isinstance(value, MDP):
        raise TypeError(f"{name}: found {type(value).__name__}, expected an MDP; make one: MDP(transitions, rewards)")
    return value


def check_range(name: str, value: Any) -> tuple[float, float]:
    """Check a lower and an upper end."""
    if np.shape(value) != (2,):
        raise ValueError(f"{name}: found {value!r}, expected two numbers, the lower and the upper end")
    low, high = (check_number(name, end) for end in value)
    if not -np.inf < low <= high < np.inf:
        raise ValueError(f"{name}: found {value}, expected a finite lower and an upper end")
    return low, high


def _check_shapes(transitions: Floats, rewards: Floats) -> None:
    n, n_actions, n_next = transitions.shape
    if n != n_next or 0 in transitions.shape:
        # Many libraries put the actions first.
        hint = "; move the actions to the middle: transpose(1, 0, 2)" if n_actions == n_next else ""
        raise ValueError(f"transitions: shape is {transitions.shape}, expected (states, actions, states){hint}")
    if rewards.shape != (n, n_actions):
        hint = "; transpose it" if rewards.shape == (n_actions, n) else ""
        raise ValueError(f"rewards: shape is {rewards.shape}, expected (states, actions) = {(n, n_actions)}{hint}")


def _stochastic(table: Floats, states: tuple[Hashable, ...], actions: tuple[Hashable, ...]) -> Floats:
    """Refuse negative entries and rows that do not sum to 1, then divide each row by its sum."""
    negative = np.argwhere(table < 0)
    if len(negative):
        s, a, t = (int(k) for k in negative[0])
        raise ValueError(
            f"transitions: the probability of going from state {states[s]!r} to {states[t]!r} under action "
            f"{actions[a]!r} is {table[s, a, t]:.6g}, expected at least 0"
        )
    # Huge entries may sum to infinity, which the next check reports.
    with np.errstate(over="ignore"):
        sums = table.sum(axis=2)
    # Written as "not <=", so that NaN is refused too.
    wrong = np.argwhere(~(np.abs(sums - 1.0) <= ROW_TOLERANCE))
    if len(wrong):
        s, a = (int(k) for k in wrong[0])
        more = f" ({len(wrong)} such rows)" if len(wrong) > 1 else ""
        raise ValueError(
            f"transitions: row of state {states[s]!r} and action {actions[a]!r} sums to {sums[s, a]:.10g}, "
            f"expected 1{more}; rescale it, or add transitions, such as one to itself if the state is absorbing"
        )
    table /= sums[:, :, None]
    return table


def policy_law(mdp: MDP, policy: Any) -> Floats:
    """The probability of each action in each state, (n, n_actions)."""
    n, n_actions = mdp.rewards.shape
    # Labels are looked up first: an array would convert mixed labels to text and split tuples.
    named = isinstance(policy, Sequence) and all(isinstance(a, Hashable) and a in mdp.actions for a in policy)
    if not named and np.ndim(policy) == 2:
        return _check_law(mdp, real_array("policy", policy, 2))
    chosen = list(policy) if named else np.asarray(policy).tolist()
    if not isinstance(chosen, list) or len(chosen) != n:
        last = (
            # Readers add "terminated" as a last state, which policies of the original process do not include.
            f"; the last state is {mdp.states[-1]!r}, where any action will do"
            if mdp.states[-1] == "terminated"
            else ""
        )
        raise ValueError(
            f"policy: shape is {np.shape(policy)}, expected an action for each of the {n} states, or probabilities of "
            f"shape {(n, n_actions)}{last}"
        )
    return np.eye(n_actions)[[_action(mdp, s, action) for s, action in enumerate(chosen)]]


def _check_law(mdp: MDP, shares: Floats) -> Floats:
    if shares.shape != mdp.rewards.shape:
        raise ValueError(f"policy: shape is {shares.shape}, expected (states, actions) = {mdp.rewards.shape}")
    sums = shares.sum(axis=1, keepdims=True)
    wrong = np.flatnonzero((shares < 0).any(axis=1) | ~(np.abs(sums[:, 0] - 1.0) <= ROW_TOLERANCE))
    if len(wrong):
        s = int(wrong[0])
        raise ValueError(
            f"policy: the actions in state {mdp.states[s]!r} have probabilities {shares[s].tolist()}, expected at "
            "least 0 each and 1 together"
        )
    shares /= sums
    return shares


def _action(mdp: MDP, state: int, action: Any) -> int:
    """Position of an action: its label, or an index where no label matches."""
    # True equals 1 in Python; as an action it is a mistake.
    if action in mdp.actions and not isinstance(action, bool):
        return mdp.actions.index(action)
    if isinstance(action, int) and not isinstance(action, bool) and 0 <= action < mdp.n_actions:
        return action
    shown = ", ".join(map(repr, mdp.actions[:5])) + (", ..." if mdp.n_actions > 5 else "")
    raise ValueError(f"policy: {action!r} in state {mdp.states[state]!r} is not an action; the actions are {shown}")


# --- Optimal policies, and bounds of their rounding errors.

_EPS = float(np.finfo(np.float64).eps)


class Plan(NamedTuple):
    """Optimal values and an optimal policy.

    Attributes
    ----------
    values : ndarray, shape (n,)
        V*, the largest expected sum of discounted rewards from each state.
    policy : tuple
        An optimal action (its label) for each state.
    """

    values: Floats
    policy: tuple[Hashable, ...]

    def __repr__(self) -> str:
        return brief_record(self)

    def _repr_html_(self) -> str:
        return record_card(self)


def optimal(mdp: MDP, *, discount: float) -> Plan:
    """Optimal values and an optimal policy, by policy iteration.

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
    """Optimal values and action indices; an action is replaced only by one that is better by more than rounding."""
    from somcot.plumbing.linear_systems import Kernel, discounted_value  # compiled code, loaded when used

    states = np.arange(mdp.n_states)
    # Greedy in the immediate reward, a cheap start of policy iteration.
    actions = mdp.rewards.argmax(axis=1)
    V = np.zeros(mdp.n_states)
    # The largest possible value, which sets the scale of rounding.
    size = float(np.abs(mdp.rewards).max()) / (1.0 - discount)
    before = -np.inf
    while True:
        # Policy evaluation, exactly.
        kernel = Kernel.from_matrix(mdp.transitions[states, actions])
        V = discounted_value(kernel, mdp.rewards[states, actions], discount, V)
        worth = action_values(mdp, discount, V)
        better = worth.max(axis=1) > worth[states, actions] + 64.0 * _EPS * size
        if not better.any() or V.sum() <= before:  # values increase in exact arithmetic; stop when rounding prevails
            return V, actions
        before = V.sum()
        actions = np.where(better, worth.argmax(axis=1), actions)


def action_values(mdp: MDP, discount: float, V: Floats) -> Floats:
    """Value of each action in each state if V is the value of the next state, (n, n_actions)."""
    worth: Floats = mdp.rewards + discount * (mdp.transitions @ V)
    return worth


def shortfall(mdp: MDP, discount: float, V: Floats, actions: NDArray[np.int64]) -> float:
    """Upper bound of the loss of a policy relative to V*, from any estimate V of its value.

    V* <= V + max(T V - V) / (1 - discount), and the policy's value is at least
    V + min(T_actions V - V) / (1 - discount).
    """
    worth = action_values(mdp, discount, V)
    most = (worth.max(axis=1) - V).max()
    least = (worth[np.arange(mdp.n_states), actions] - V).min()
    return float(max(most - least, 0.0)) / (1.0 - discount)
