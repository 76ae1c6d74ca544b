"""The stationary distribution of a kernel: its recurrent class, the distribution, and its derivatives.

With P the kernel on the class, pi its distribution and g any function, a change dP of the rows changes pi by

    d(pi g) = sum_x pi(x) sum_x' dP(x, x') h(x'),     h = sum_t P^t (g - pi g),

so pi(x) h(x') is added to the derivative along row x of any function that depends on pi through g.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.chains import MarkovChain, Support
from somcot.plumbing.arrays import Codes, Floats, Ints
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note
from somcot.recorded.labels import listing
from somcot.recorded.pair_counts import PairCounts

if TYPE_CHECKING:
    from somcot.plumbing.linear_systems import Kernel

__all__ = [
    "KeptSteps",
    "RecurrentPart",
    "is_stationary_start",
    "largest_connected",
    "law_of",
    "long_run_part",
    "note_apart",
    "restricted",
    "slopes",
    "starting_where_visited",
    "stationary_distribution",
    "with_long_run_start",
]


# --- The largest strongly connected set of a recording


class KeptSteps(NamedTuple):
    """Steps between the kept states, renumbered, and the remaining episodes with their lengths."""

    now: Codes
    following: Codes
    offsets: NDArray[np.int64]
    episodes: NDArray[np.int64]


def largest_connected(counts: PairCounts) -> NDArray[np.bool_]:
    """The largest strongly connected set of observed states; ties are resolved by the number of steps.

    Examples
    --------
    >>> from somcot.recorded.pair_counts import count_pairs
    >>> walk = np.array([3, 0, 1, 0, 1, 2], np.int32)
    >>> largest_connected(count_pairs(walk[:-1], walk[1:], 4)).tolist()
    [True, True, False, False]
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    graph = csr_array((np.ones(len(counts.values)), (counts.rows, counts.columns)), shape=(counts.n, counts.n))
    n_parts, part = connected_components(graph, connection="strong")
    # Steps between components cannot be repeated, so only inner ones count.
    inner = part[counts.rows] == part[counts.columns]
    steps = np.zeros(n_parts, dtype=np.int64)
    np.add.at(steps, part[counts.rows][inner], counts.values[inner])
    # The last of the sorted ones: most states, then most steps.
    best = np.lexsort((steps, np.bincount(part, minlength=n_parts)))[-1]
    members: NDArray[np.bool_] = part == best
    return members


def restricted(now: Codes, following: Codes, offsets: NDArray[np.int64], members: NDArray[np.bool_]) -> KeptSteps:
    """Steps inside the set. An episode that leaves it does not return, so it stays in one piece."""
    inside = members[now] & members[following]
    episode = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[inside]
    lengths = np.bincount(episode, minlength=len(offsets) - 1)
    episodes = np.flatnonzero(lengths)
    place = (np.cumsum(members) - 1).astype(np.int32)
    return KeptSteps(
        place[now[inside]], place[following[inside]], np.concatenate([[0], np.cumsum(lengths[episodes])]), episodes
    )


# --- The stationary distribution

_NEARLY_ONE = 1.0 - 1e-8  # discount at which the occupancy is the stationary distribution, for any period


class RecurrentPart(NamedTuple):
    """A recurrent class of the process, according to the data.

    Attributes
    ----------
    members : ndarray of bool, shape (n,)
    others : int
        Number of other recurrent classes; with any, the stationary distribution is not unique.
    share : float
        Share of the recorded transitions inside the class.
    lasting : ndarray of bool, shape (n,)
        States that were not only entered at the end of a recording.
    alone : bool
        Whether no transition stays inside another part of the process, recurrent or not, where a recording of a
        similar process may stay for good.
    """

    members: NDArray[np.bool_]
    others: int
    share: float
    lasting: NDArray[np.bool_]
    alone: bool

    def report(self, states: tuple[Hashable, ...]) -> None:
        """Warn if the choice of the class matters."""
        inside = listing(states[i] for i in np.flatnonzero(self.members))
        if self.others:
            kind = Note("stationary-not-unique", "initial", n=self.others + 1, percent=100 * self.share, states=inside)
            warn(kind, DataWarning)
        elif self.share < 0.5:
            warn(Note("stationary-rare", "initial", percent=100 * self.share, states=inside), DataWarning)


def long_run_part(counts: PairCounts) -> RecurrentPart:
    """The closed class with the most transitions; states that were entered but never left are ignored.

    Examples
    --------
    >>> from somcot.recorded.pair_counts import count_pairs
    >>> walk = np.array([3, 0, 1, 0, 1, 2], np.int32)
    >>> part = long_run_part(count_pairs(walk[:-1], walk[1:], 4))
    >>> part.members, part.others, part.share, part.lasting, part.alone
    (array([ True,  True, False, False]), 0, 0.6, array([ True,  True, False,  True]), True)
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    graph = csr_array((np.ones(len(counts.values)), (counts.rows, counts.columns)), shape=(counts.n, counts.n))
    n_parts, part = connected_components(graph, connection="strong")
    source, target = part[counts.rows], part[counts.columns]
    inner = np.zeros(n_parts, dtype=np.int64)
    np.add.at(inner, source[source == target], counts.values[source == target])
    kept = np.ones(n_parts, dtype=np.bool_)
    # A state that was entered but never left is no recurrent class,
    # only the end of a recording; removing it may uncover another.
    while True:
        left = np.zeros(n_parts, dtype=np.bool_)
        left[source[(source != target) & kept[target]]] = True
        dead = kept & ~left & (inner == 0)
        if not dead.any():
            break
        kept &= ~dead
    closed = np.flatnonzero(kept & ~left)
    if not len(closed):
        raise ValueError(
            "initial: the data contain no recurrent state, so no stationary distribution exists; record longer, or "
            "pass initial as a distribution"
        )
    best = closed[inner[closed].argmax()]
    share, alone = float(inner[best] / counts.values.sum()), bool(inner[best] == inner.sum())
    return RecurrentPart(part == best, len(closed) - 1, share, kept[part], alone)


def with_long_run_start(support: Support) -> Support:
    """Replace the initial distribution by the stationary distribution on the states where it is positive.

    If the kernel is reducible there, as for half of the data, use the distribution reached from the old one.
    """
    begin = int(support.indptr[-2])
    start = support.probabilities[begin:]
    inside = np.zeros(len(support.indptr) - 2, dtype=np.bool_)
    inside[support.indices[begin:][start > 0]] = True
    old = np.zeros(len(inside))
    old[support.indices[begin:]] = start
    new = np.zeros(len(inside))
    new[inside] = law_of(_restricted(support, inside)[0], old[inside])
    return Support(
        support.indptr,
        support.indices,
        np.concatenate([support.probabilities[:begin], new[support.indices[begin:]]]),
    )


def is_stationary_start(initial: object, states: Iterable[Hashable]) -> bool:
    """Whether `initial` is the word "stationary", and no state has that name."""
    return isinstance(initial, str) and initial == "stationary" and "stationary" not in states


def stationary_distribution(chain: MarkovChain) -> Floats:
    """The stationary distribution of a known chain; if it is not unique, that of the largest recurrent class.

    Examples
    --------
    >>> stationary_distribution(MarkovChain([[0.9, 0.1], [0.3, 0.7]])).round(12)
    array([0.75, 0.25])
    """
    support, n = chain.support, chain.n_states
    inner = slice(0, int(support.indptr[-2]))
    # Every transition counts once: only the classes are needed, not frequencies.
    once = np.ones(len(support.indices[inner]), dtype=np.int64)
    part = long_run_part(PairCounts(support.rows[inner], support.indices[inner].astype(np.int64), once, n))
    if part.others:
        part.report(chain.states)
    return law_on(support, part.members)


def law_on(support: Support, members: NDArray[np.bool_]) -> Floats:
    """The stationary distribution of the kernel on some of its states, as a vector over all states."""
    distribution = np.zeros(len(members))
    distribution[members] = law_of(_restricted(support, members)[0], np.ones(int(members.sum())))
    return distribution


def law_of(kernel: Kernel, first: Floats) -> Floats:
    """The stationary distribution of a kernel from an initial guess; exact to rounding, by one refinement."""
    from somcot.plumbing.linear_systems import discounted_occupancy

    # The second call starts from the first result, which squares the remaining error of about 1e-8 * (mixing time).
    return discounted_occupancy(kernel, discounted_occupancy(kernel, first / first.sum(), _NEARLY_ONE), _NEARLY_ONE)


def slopes(support: Support, law: Floats, g: Floats) -> Floats:
    """Effect of the initial distribution on the derivative along each row, per entry of the kernel (no initial row).

    Parameters
    ----------
    support : Support
        With the stationary distribution as its initial row.
    law, g : ndarray, shape (n,)
        The stationary distribution, and the derivative with respect to it.
    """
    from somcot.plumbing.linear_systems import discounted_value

    inside = law > 0
    kernel, mass = _restricted(support, inside)
    # Outside of the recurrent class the distribution is 0, and so is its derivative.
    pi = law[inside]
    h = np.zeros(len(law))
    # The Poisson equation at a discount near 1; the constant that remains is removed by centring.
    h[inside] = discounted_value(kernel, g[inside] - pi @ g[inside], _NEARLY_ONE)
    n_entries = int(support.indptr[-2])
    rows, columns, P = support.rows[:n_entries], support.indices[:n_entries], support.probabilities[:n_entries]
    taken = inside[rows] & inside[columns]
    # Centred per row, as all derivatives along rows.
    mean = np.bincount(rows[taken], P[taken] * h[columns[taken]], len(law)) / np.where(inside, mass, 1.0)
    derivative: Floats = np.where(taken, (law / np.where(inside, mass, 1.0))[rows] * (h[columns] - mean[rows]), 0.0)
    return derivative


def _restricted(support: Support, inside: NDArray[np.bool_]) -> tuple[Kernel, Floats]:
    """The kernel on some states, rows divided by the mass they keep, and that mass for every state."""
    from somcot.plumbing.linear_systems import Kernel

    n_entries = int(support.indptr[-2])
    rows, columns, P = support.rows[:n_entries], support.indices[:n_entries], support.probabilities[:n_entries]
    taken = inside[rows] & inside[columns]
    mass: Floats = np.bincount(rows[taken], P[taken], len(inside)).astype(np.float64)
    lost = np.flatnonzero(inside & (mass == 0.0))  # rows that lead only outside, in half of the data: add a self-loop
    place = np.cumsum(inside) - 1
    rows, columns, P = (
        np.append(rows[taken], lost),
        np.append(columns[taken], lost),
        np.append(P[taken], mass[lost] + 1),
    )
    mass[lost] = 1.0
    order = np.argsort(rows, kind="stable")
    rows, columns, P = rows[order], columns[order], P[order]
    indptr = np.searchsorted(place[rows], np.arange(int(inside.sum()) + 1)).astype(np.int64)
    return Kernel(indptr, place[columns].astype(np.int32), P / mass[rows]), mass


def starting_where_visited(support: Support, visits: Ints) -> Support:
    """The same chain with the visits of states as its initial distribution."""
    begin, seen = int(support.indptr[-2]), np.flatnonzero(visits)
    return Support(
        np.append(support.indptr[:-1], begin + len(seen)),
        np.append(support.indices[:begin], seen.astype(np.int32)),
        np.append(support.probabilities[:begin], visits[seen] / visits.sum()),
    )


def note_apart(x: MarkovChain, y: MarkovChain) -> Iterator[Note]:
    """A note if two stationary distributions are on different states, between which a recording has gone."""
    inside = [[label for label, p in zip(chain.states, chain.initial, strict=True) if p > 0] for chain in (x, y)]
    if set(inside[0]).isdisjoint(inside[1]):
        yield Note("stationary-apart", x=listing(inside[0]), y=listing(inside[1]))
