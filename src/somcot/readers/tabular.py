"""Gymnasium environments that know their own table of transitions, as decision processes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from somcot.mdp import MDP
from somcot.plumbing.arrays import Floats

__all__ = ["from_tabular"]


def from_tabular(
    env: Any, *, initial: Hashable | ArrayLike | None = None, env_options: Mapping[str, Any] | None = None
) -> MDP:
    """Read the table ``P`` of an environment such as FrozenLake, Taxi or CliffWalking.

    Parameters
    ----------
    env : str or gymnasium.Env
        An id, or an environment with a list ``P[s][a]`` of (probability, next state, reward, terminated).
    initial : state or array_like, optional
        Where it begins; by default as the environment says (``initial_state_distrib``), or else in state 0.
    env_options : mapping, optional
        For the environment that an id names: ``{"is_slippery": False}``.

    Returns
    -------
    MDP
        Rewards are those expected on leaving a state. Steps that terminate lead to one more state, called "terminated",
        which is never left and earns nothing.

    Examples
    --------
    >>> from_tabular("FrozenLake-v1")
    MDP(17 states, 4 actions)
    """
    own = isinstance(env, str)
    if env_options and not own:
        raise ValueError("env_options: an environment is given, which has its options already; pass its id with them")
    made = _make(env, dict(env_options or {})) if own else env
    try:
        bare = getattr(made, "unwrapped", made)
        table = getattr(bare, "P", None)
        if table is None:
            raise TypeError(
                f"env: {type(bare).__name__} has no table P of its transitions; roll it out with readers.from_env"
            )
        start = getattr(bare, "initial_state_distrib", None) if initial is None else initial
    finally:
        if own:
            made.close()
    transitions, rewards = _read(table)
    ends = transitions[:-1, :, -1].any()
    states: list[Hashable] = [*range(len(table)), "terminated"]
    law = _start(0 if start is None else start, len(table), bool(ends))
    if ends:
        return MDP(transitions, rewards, initial=law, states=states)
    return MDP(transitions[:-1, :, :-1], rewards[:-1], initial=law, states=states[:-1])


def _make(name: str, options: dict[str, Any]) -> Any:
    try:
        import gymnasium
    except ImportError:
        raise ImportError("environments need gymnasium: pip install gymnasium") from None
    try:
        return gymnasium.make(name, **options)
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        raise ValueError(f"env: {name!r} cannot be made ({error})") from None


def _read(table: Any) -> tuple[Floats, Floats]:
    """Transitions and expected rewards, with one last state for steps that terminate."""
    if not len(table):
        raise ValueError("env: its table P has no states")
    n, n_actions = len(table), len(table[0])
    transitions, rewards = np.zeros((n + 1, n_actions, n + 1)), np.zeros((n + 1, n_actions))
    transitions[n, :, n] = 1.0
    for s in range(n):
        if len(table[s]) != n_actions:
            raise ValueError(
                f"env: state {s} has {len(table[s])} actions and state 0 has {n_actions}, expected as many"
            )
        for a in range(n_actions):
            for probability, following, reward, terminated in table[s][a]:
                if not 0 <= following < n:
                    raise ValueError(f"env: P[{s}][{a}] leads to state {following}, expected one of 0 to {n - 1}")
                transitions[s, a, n if terminated else following] += probability
                rewards[s, a] += probability * reward
    return transitions, rewards


def _start(initial: Any, n: int, ends: bool) -> Any:
    """A law over the states of the table gets a 0 for the last one."""
    is_law = not isinstance(initial, (str, bytes)) and np.ndim(initial) == 1 and len(initial) == n
    return np.append(initial, 0.0) if is_law and ends else initial
