"""The part of a recording whose states all lead to each other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.arrays import Codes
from somcot.recorded.counting import PairCounts

__all__ = ["Kept", "largest_connected", "restricted"]


class Kept(NamedTuple):
    """Steps between the states that are kept, renumbered, and which episodes are left and how long they are."""

    now: Codes
    following: Codes
    offsets: NDArray[np.int64]
    episodes: NDArray[np.int64]


def largest_connected(counts: PairCounts) -> NDArray[np.bool_]:
    """The largest set of states that were all seen to lead to each other; of equally large ones that with most steps.

    Examples
    --------
    >>> from somcot.recorded.counting import count_pairs
    >>> walk = np.array([3, 0, 1, 0, 1, 2], np.int32)
    >>> largest_connected(count_pairs(walk[:-1], walk[1:], 4)).tolist()
    [True, True, False, False]
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    graph = csr_array((np.ones(len(counts.values)), (counts.rows, counts.columns)), shape=(counts.n, counts.n))
    n_parts, part = connected_components(graph, connection="strong")
    inner = part[counts.rows] == part[counts.columns]
    steps = np.zeros(n_parts, dtype=np.int64)
    np.add.at(steps, part[counts.rows][inner], counts.values[inner])
    best = np.lexsort((steps, np.bincount(part, minlength=n_parts)))[-1]
    members: NDArray[np.bool_] = part == best
    return members


def restricted(now: Codes, following: Codes, offsets: NDArray[np.int64], members: NDArray[np.bool_]) -> Kept:
    """Steps inside of the set. An episode that leaves it does not come back, so it stays in one piece."""
    inside = members[now] & members[following]
    episode = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[inside]
    lengths = np.bincount(episode, minlength=len(offsets) - 1)
    episodes = np.flatnonzero(lengths)
    place = (np.cumsum(members) - 1).astype(np.int32)
    return Kept(
        place[now[inside]], place[following[inside]], np.concatenate([[0], np.cumsum(lengths[episodes])]), episodes
    )
