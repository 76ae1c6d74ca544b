"""Recorded episodes with actions, counted into a decision process."""

from __future__ import annotations

from typing import Any

import numpy as np

from somcot.mdp import MDP
from somcot.plumbing.errors import UnseenStateWarning, warn
from somcot.plumbing.memory import require
from somcot.readers.observations import Episode, Labelled

__all__ = ["check_actions", "to_mdp"]


def check_actions(name: str, space: Any) -> int:
    """The number of actions of a discrete space."""
    n = getattr(space, "n", None)
    if n is None or getattr(space, "shape", ()) != ():
        raise ValueError(f"{name}: actions are {space}, expected a discrete space; wrap the environment")
    return int(n)


def to_mdp(name: str, episodes: list[Episode], labelled: Labelled, space: Any) -> MDP:
    """Relative frequencies of successors and mean rewards, for every action in every state.

    What was never tried is assumed to stay in place and earn nothing, and that is said. Ends of terminated episodes are
    not left.
    """
    n, n_actions = len(labelled.labels), check_actions(name, space)
    require(24.0 * n * n_actions * n, f"{name}: a table of {n} states and {n_actions} actions", "use fewer bins")
    first = int(getattr(space, "start", 0))
    inner = np.ones(len(labelled.codes), dtype=np.bool_)
    inner[labelled.begins + labelled.lengths - 1] = False
    now = np.flatnonzero(inner)
    s, t = labelled.codes[now], labelled.codes[now + 1]
    a = np.concatenate([np.asarray(e.actions, dtype=np.int64) for e in episodes]) - first
    rewards = np.concatenate([np.asarray(e.rewards, dtype=np.float64) for e in episodes])
    counts, earned = np.zeros((n, n_actions, n)), np.zeros((n, n_actions))
    np.add.at(counts, (s, a, t), 1.0)
    np.add.at(earned, (s, a), rewards)
    visits = counts.sum(axis=2)
    final = np.zeros(n, dtype=np.bool_)
    final[labelled.codes[(labelled.begins + labelled.lengths - 1)[labelled.ended]]] = True
    untried = (visits == 0) & ~(final & (visits.sum(axis=1) == 0))[:, None]
    if untried.any():
        place = tuple(int(k) for k in np.argwhere(untried)[0])
        warn(
            f"{name}: {int(untried.sum())} of {n * n_actions} actions were never tried, the first in state "
            f"{labelled.labels[place[0]]!r} action {place[1] + first}; they are assumed to stay there and earn nothing",
            UnseenStateWarning,
        )
    stay = np.argwhere(visits == 0)
    counts[stay[:, 0], stay[:, 1], stay[:, 0]] = 1.0
    start = np.bincount(labelled.codes[labelled.begins], minlength=n) / len(labelled.begins)
    tried = np.maximum(visits, 1.0)
    return MDP(
        counts / counts.sum(axis=2, keepdims=True),
        earned / tried,
        initial=start,
        states=labelled.labels,
        actions=range(first, first + n_actions),
    )
