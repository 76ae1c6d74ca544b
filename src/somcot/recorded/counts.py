"""Transition counts without episodes: sufficient for distances, in memory independent of the recording's length."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from somcot import costs
from somcot.chains import MarkovChain
from somcot.plumbing.arrays import Array, Bools, Codes, Floats, Ints
from somcot.plumbing.checks import check_flag, check_labels, check_rng, check_sequence
from somcot.plumbing.errors import DataWarning, UnseenStateWarning, warn
from somcot.plumbing.html import SHOWN, Table, card
from somcot.plumbing.notes import Note, Share
from somcot.plumbing.text import label_text, listing, percent
from somcot.recorded import recording
from somcot.recorded.flow import flow_mle
from somcot.recorded.labels import refuse_lookalikes
from somcot.recorded.pair_counts import PairCounts, SequenceEnds, added, count_pairs, from_matrix
from somcot.recorded.recording import RewardSums
from somcot.recorded.stationary import law_on, long_run_part

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from somcot.samples import Samples

__all__ = [
    "Counts",
    "choose_start",
    "counts_card",
    "disputed_ends",
    "joined_rewards",
    "joined_start",
    "known_starts_differ",
    "number_ended",
]


# --- Recordings and counts in notebooks


def counts_card(title: str, counts: Counts, ended: int | None = None) -> str:
    """A summary of the data and the most visited states; `ended` is the number of terminated episodes, if known."""
    visits = counts.visits
    rows = [
        (label_text(counts.states[k], 40), f"{visits[k]:,}", percent(visits[k] / max(counts.n_transitions, 1)))
        for k in np.argsort(-visits, kind="stable")[:SHOWN]
    ]
    facts = [("states", f"{counts.n_states:,}"), ("transitions", f"{counts.n_transitions:,}")]
    if counts.discount is not None:
        facts.append(("drawn", f"independently, at discount {counts.discount:g}"))
    else:
        of_them = "" if ended is None else f", of which {ended:,} terminated"
        facts.append(("episodes", f"{counts.n_episodes:,}{of_them}"))
    known = None if counts.rewards is None else counts.features
    if known is not None and np.isfinite(known).any():
        facts.append(("rewards", f"from {np.nanmin(known):.4g} to {np.nanmax(known):.4g}"))
    return card(title, facts, Table(("most visited", "steps from it", "share"), rows, "lrr"))


# --- Transition counts

Start = Hashable | ArrayLike | Mapping[Any, float] | None


@dataclass(frozen=True, eq=False, repr=False)
class Counts:
    """Transition counts of a process; made by `from_samples`, `from_matrix` or `readers.count_table`.

    They suffice for distances, bias correction, standard errors and intervals. Methods that need whole episodes, such
    as `same_process`, `markov_order` or the bootstrap, accept `Samples` only. Counts of parts of a recording
    are combined with `merge`, in order of time: if the parts know their sequences by name, the steps from one
    part to the next are counted too.

    Attributes
    ----------
    states : tuple of hashable
        The n labels.
    pair_counts : PairCounts
        Counts of the observed transitions.
    starts : ndarray of int64, shape (n,)
        Number of episodes that began in each state, without those of `edges`.
    ended : ndarray of bool, shape (n,)
        States in which an episode terminated, without those of `edges`.
    n_closed : int
        Number of episodes, without those of `edges`.
    initial, discount, rewards, n_gaps, overlap, stationary
        As for `Samples`.
    edges : SequenceEnds or None
        First and last states of the sequences that may continue in another part.

    Examples
    --------
    >>> import somcot
    >>> samples = somcot.Samples.from_trajectories([["home", "cart", "home"], ["home", "cart", "paid"]])
    >>> counts = Counts.from_samples(samples)
    >>> counts
    Counts(3 states, 4 transitions, 2 episodes)
    >>> counts.merge(counts).counts().tolist() == (2 * samples.counts()).tolist()
    True
    >>> counts.chain(check=False).n_states, counts.with_start("cart").chain(check=False).initial.tolist()
    (3, [1.0, 0.0, 0.0])
    >>> counts.closed(), [half.n_transitions for half in counts.halves(np.random.default_rng(0))]
    (Counts(3 states, 4 transitions, 2 episodes), [2, 2])
    """

    states: tuple[Hashable, ...]
    pair_counts: PairCounts
    starts: Ints
    ended: Bools
    n_closed: int = 0
    initial: Floats | None = None
    discount: float | None = None
    rewards: RewardSums | None = None
    n_gaps: int = 0
    overlap: int = 1
    stationary: bool = False
    edges: SequenceEnds | None = None

    @classmethod
    def from_samples(cls, samples: Samples) -> Counts:
        """Count the transitions of a recording, without its episodes.

        Examples
        --------
        >>> import somcot
        >>> Counts.from_samples(somcot.random_walk(3).sample(10, 20, rng=0)).n_transitions
        200
        """
        counted = getattr(samples, "counted", None)
        if not isinstance(counted, cls):
            raise TypeError(f"samples: found {type(samples).__name__}, expected Samples")
        return counted

    @classmethod
    def from_matrix(
        cls,
        counts: object,
        *,
        states: Iterable[Hashable] | None = None,
        initial: Start = None,
        terminated: Iterable[Hashable] = (),
    ) -> Counts:
        """Make counts from a matrix.

        Parameters
        ----------
        counts : array_like or scipy.sparse matrix of int, shape (n, n)
            Number of times that state i was followed by state j.
        states : iterable of hashable, optional
            Labels; by default 0, 1, ..., n - 1.
        initial : label, mapping, array_like or "stationary"
            The initial distribution, as for `Samples.from_trajectories`; required, since counts do not contain it.
        terminated : iterable of hashable
            States in which the process terminates.

        Examples
        --------
        >>> Counts.from_matrix([[5, 1], [2, 4]], states=["up", "down"], initial="up").chain().transition.round(2)
        array([[0.83, 0.17],
               [0.33, 0.67]])
        """
        pairs = from_matrix(counts)
        labels = tuple(range(pairs.n)) if states is None else check_labels("states", states, pairs.n)
        if initial is None:
            raise TypeError("initial: missing; counts do not contain it: pass a distribution, or 'stationary'")
        ends = set(check_sequence("terminated", terminated))
        # A misspelt state would silently not be terminal.
        unknown = [label for label in ends if label not in labels]
        if unknown:
            raise ValueError(f"terminated: {listing(unknown)} not among the states {listing(labels, 5)}")
        mask = np.array([label in ends for label in labels], dtype=np.bool_)
        return cls(labels, pairs, np.zeros(pairs.n, np.int64), mask).with_start(initial)

    def merge(self, other: Counts) -> Counts:
        """Append the counts of a later part of the same process; equal labels are the same state.

        Sequences whose names occur in both parts continue: the step across the border is counted, and they count once.
        Otherwise the episodes of the two parts are distinct. The order matters for such sequences only, and
        ``a.merge(b).merge(c)`` equals ``a.merge(b.merge(c))``.
        """
        if not isinstance(other, Counts):
            raise TypeError(f"other: found {type(other).__name__}, expected Counts; Counts.from_samples makes them")
        if self.discount != other.discount:
            raise ValueError(
                f"other: its discount is {other.discount}, this one's is {self.discount}; only episodes, or samples "
                "of the same discount, can be merged"
            )
        kinds = {type(label) for label in (*self.states, *other.states)}
        if len(kinds) > 1:  # labels of one type cannot be confused
            refuse_lookalikes("other", [*self.states, *other.states], kinds)
        union = tuple(dict.fromkeys([*self.states, *other.states]))
        index = {label: i for i, label in enumerate(union)}
        kept = np.arange(len(self.states), dtype=np.int32)
        moved = np.array([index[label] for label in other.states], dtype=np.int32)
        n = len(union)
        # Both parts in the numbering of the union, so that counts can be added.
        pairs = [self.pair_counts.at(kept, n), other.pair_counts.at(moved, n)]
        # Only sequences known by name on both sides continue; `then` returns the steps across the border.
        edges = self.edges
        if other.edges is not None:
            # Renumbered to the union before the ends are compared.
            edges = other.edges.moved(moved)
            if self.edges is not None:
                edges, now, following = self.edges.then(edges)
                pairs.append(count_pairs(now, following, n))
        start = joined_start(self.initial, kept, other.initial, moved, n)
        return Counts(
            union,
            added(pairs),
            _placed(self.starts, kept, n) + _placed(other.starts, moved, n),
            _placed(self.ended, kept, n) | _placed(other.ended, moved, n),
            self.n_closed + other.n_closed,
            initial=start,
            # A known distribution replaces the stationary one.
            stationary=start is None and (self.stationary or other.stationary),
            discount=self.discount,
            rewards=joined_rewards(self.rewards, kept, other.rewards, moved, n),
            n_gaps=self.n_gaps + other.n_gaps,
            overlap=max(self.overlap, other.overlap),
            edges=edges,
        )

    def closed(self) -> Counts:
        """The same counts with all sequences ended: sequences of another part are new, even if names are equal."""
        if self.edges is None:
            return self
        return replace(self, starts=self.start_counts, ended=self.all_ended, n_closed=self.n_episodes, edges=None)

    def staying(self, states: Iterable[Hashable], number: Ints | None = None) -> Counts:
        """The same counts with the ends in some states as steps from the state to itself.

        `number` is that of the sequences that terminated in each state. Counts do not tell them from those that were
        cut there, so by default all that did not go on count.

        Examples
        --------
        >>> from somcot import Samples
        >>> ended = Counts.from_samples(Samples.from_trajectories([["a", "end"], ["a", "a", "end"]], terminated=True))
        >>> ended.staying(["end"]).pair_counts.values
        array([1, 2, 2])
        """
        known, (_, columns, values, n) = set(check_labels("states", states)), self.pair_counts
        at = np.array([i for i in np.flatnonzero(self.all_ended) if self.states[i] in known], dtype=np.int64)
        if not len(at):
            return self
        entered = np.zeros(n, dtype=np.int64)
        np.add.at(entered, columns, values)
        # As often as sequences came there and did not go on; counts without their starts show at least one.
        ends = np.maximum((self.start_counts + entered - self.visits if number is None else number)[at], 1)
        return replace(self, pair_counts=added([self.pair_counts, PairCounts(at, at, ends, n)]))

    def with_start(self, initial: Start) -> Counts:
        """The same counts with another initial distribution, as for `Samples.from_trajectories`; None: as counted."""
        if initial is None and not self.starts_known:
            return self
        distribution, stationary = choose_start(initial, self.states, self.discount, lambda: self.terminal)
        return replace(self, initial=distribution, stationary=stationary)

    @property
    def n_states(self) -> int:
        """Number of states, including those never seen."""
        return len(self.states)

    @cached_property
    def n_transitions(self) -> int:
        """Number of transitions counted."""
        return int(self.pair_counts.values.sum())

    @property
    def n_episodes(self) -> int:
        """Number of episodes with at least one step; 0 for independent samples."""
        # Sequences with a single row have no step yet; they become episodes when another part continues them.
        return self.n_closed + (0 if self.edges is None else int((self.edges.rows > 1).sum()))

    def counts(self) -> Ints | csr_array:
        """Transition counts, shape (n, n); sparse if there are many states and few entries."""
        return self.pair_counts.matrix()

    @cached_property
    def visits(self) -> Ints:
        """Number of steps from each state, including steps to itself, shape (n,)."""
        return self.pair_counts.row_sums()

    @cached_property
    def visits_that_last(self) -> Ints | None:
        """Visits of each state, if parts of these data can have their stationary distributions on different states.

        If states are left for good, a recording that stayed there has its stationary distribution there, and that of
        all data is elsewhere. Parts of the data then start where they were, and go to their own recurrent class. None
        if there are no such states, or the initial distribution is not the stationary one.
        """
        part = long_run_part(self.pair_counts) if self.stationary else None
        return None if part is None or part.alone else np.where(part.lasting, self.visits, 0)

    @cached_property
    def start_counts(self) -> Ints:
        """Number of episodes that began in each state, shape (n,); zeros for independent samples."""
        if self.edges is None:
            return self.starts
        return self.starts + np.bincount(self.edges.first[self.edges.rows > 1], minlength=self.n_states)

    @property
    def starts_known(self) -> bool:
        """Whether the initial distribution is known or derived from the transitions rather than counted."""
        return self.initial is not None or self.stationary

    @cached_property
    def all_ended(self) -> Bools:
        """States in which any episode terminated."""
        mask = self.ended.copy()
        if self.edges is not None:
            mask[self.edges.last[self.edges.ended & (self.edges.rows > 1)]] = True
        return mask

    @cached_property
    def terminal(self) -> Bools:
        """States that terminated an episode and were never left for another: known to be absorbing."""
        # Steps to itself do not leave a state.
        never_left: Bools = self.visits == self.pair_counts.diagonal()
        return self.all_ended & never_left

    @cached_property
    def seen(self) -> Bools:
        """States that occur anywhere in the data."""
        mask = self.visits > 0
        mask[self.pair_counts.columns] = True
        return mask

    @property
    def features(self) -> Floats | None:
        """Mean reward of each state, shape (n,); 0 in terminal states without one, NaN if unknown."""
        return None if self.rewards is None else self.rewards.means(absorbing=self.terminal)

    @property
    def feature_means(self) -> costs.FeatureMeans | None:
        """The mean rewards with the variances and numbers of rewards, which determine their noise."""
        if self.rewards is None:
            return None
        means = self.rewards.means(absorbing=self.terminal)
        return costs.FeatureMeans(self.states, means, self.rewards.variances(), self.rewards.number)

    def chain(self, *, check: bool = True) -> MarkovChain:
        """Estimate the chain from the counts, as in `Samples.chain`."""
        if check_flag("check", check):
            self._warn()
        if self.discount is not None:
            return self._fitted_chain(self.discount, check=check)
        if self.stationary:
            return self._long_run_chain(check=check)
        # Empirical shares of the first states, unless the distribution is known.
        initial = self.start_counts / self.n_episodes if self.initial is None else self.initial
        return MarkovChain(self.pair_counts.kernel(), initial, states=self.states, normalize=True)

    def _long_run_chain(self, *, check: bool) -> MarkovChain:
        part = long_run_part(self.pair_counts)
        if check:
            part.report(self.states)
        kernel = self.pair_counts.kernel()
        # The kernel of all states, but the distribution lives on one recurrent class only.
        distribution = law_on(MarkovChain(kernel, normalize=True).support, part.members)
        return MarkovChain(kernel, distribution, states=self.states, normalize=True)

    def _fitted_chain(self, discount: float, *, check: bool) -> MarkovChain:
        fit = flow_mle(self.counts(), self.initial, discount, states=self.states)
        if check and len(fit.assumed):
            into = listing(self.states[j] for j in fit.assumed[:, 1])
            warn(Note("assumed-transitions", n=len(fit.assumed), states=into), DataWarning)
        return fit.chain

    def _warn(self) -> None:
        never_left = self.visits == 0
        started = self.initial if self.initial is not None else np.zeros(self.n_states)
        cases = [
            (~self.seen & (started == 0), UnseenStateWarning, "never-seen"),
            (~self.seen & (started > 0), UnseenStateWarning, "initial-never-seen"),
            (never_left & self.seen & ~self.terminal, UnseenStateWarning, self._never_left(never_left)),
            (self.all_ended & ~self.terminal, DataWarning, "ended-but-left"),
        ]
        for mask, category, code in cases:
            if mask.any():
                states = [self.states[i] for i in np.flatnonzero(mask)]
                warn(Note(code, n=len(states), states=listing(states)), category)
        if not self.starts_known and 2 * self.n_gaps > self.n_transitions:
            warn(Note("starts-guessed", share=Share(self.n_gaps, self.n_transitions)), DataWarning)

    def _never_left(self, never_left: Bools) -> str:
        """The code of the note: whether all episodes may have terminated consistently, or not."""
        entered = np.zeros(self.n_states, dtype=np.int64)
        np.add.at(entered, self.pair_counts.columns, self.pair_counts.values)
        # Every episode enters its first state once without a step: starts + entries - exits are the final states.
        last = self.start_counts + entered - self.visits  # number of episodes that stopped in each state
        if self.n_episodes == 0 or not last[~never_left].any():
            return "never-left"
        return "never-left-open"

    def halves(self, rng: np.random.Generator) -> tuple[Counts, Counts]:
        """A random half of the transitions and the rest, for independent samples, whose order is irrelevant."""
        values, rng = self.pair_counts.values, check_rng(rng)
        n = self.n_transitions
        # Hypergeometric: the same distribution as shuffling the transitions,
        # without storing them. An odd transition goes to either half.
        taken = rng.multivariate_hypergeometric(values, n // 2 + int(rng.integers(0, 2)) * (n % 2), method="marginals")
        one, other = (replace(self, pair_counts=self.pair_counts.with_values(v)) for v in (taken, values - taken))
        return one, other

    def __repr__(self) -> str:
        kind = f"{self.n_episodes} episodes" if self.discount is None else f"independent at discount {self.discount}"
        return f"Counts({self.n_states} states, {self.n_transitions} transitions, {kind})"

    def _repr_html_(self) -> str:
        return counts_card("Counts", self)


def choose_start(
    initial: Start, states: tuple[Hashable, ...], discount: float | None, terminal: Callable[[], Bools]
) -> tuple[Floats | None, bool]:
    """The initial distribution if it is known, and whether it is to be the stationary distribution."""
    if not isinstance(initial, str) or initial != "stationary" or "stationary" in states:
        return recording.initial_distribution(initial, states), False
    if discount is not None:
        raise ValueError(
            "initial: 'stationary' is for episodes; samples of the occupancy have their own initial distribution, "
            "which is fitted; leave initial out, or pass the distribution"
        )
    if terminal().any():
        ends = listing(states[i] for i in np.flatnonzero(terminal()))
        raise ValueError(
            f"initial: 'stationary' needs a process that does not terminate, but episodes terminate in {ends}; "
            "leave out terminated, or initial"
        )
    return None, True


def number_ended(data: Samples | Counts) -> Ints | None:
    """Number of sequences that terminated in each state; None if the data do not tell.

    Examples
    --------
    >>> import somcot
    >>> samples = somcot.Samples.from_trajectories([["a", "b"], ["b", "b"], ["a", "b"]], terminated=[True, False, True])
    >>> number_ended(samples), number_ended(samples.counted)
    (array([0, 2]), None)
    """
    if isinstance(data, Counts) or data.offsets is None or data.terminated is None:
        return None
    last = data.following[data.offsets[1:] - 1]
    return np.bincount(last[data.terminated], minlength=data.n_states).astype(np.int64)


def disputed_ends(data: Sequence[Samples | Counts], others: Sequence[MarkovChain] = ()) -> frozenset[Hashable]:
    """States where some sequences terminated, so they are absorbing there, and that other sequences or chains leave.

    Without the states that a sequence leaves although it terminates there later, which are not absorbing. All of this
    depends on the sequences alone, not on whose they are, so that tests that permute them keep their level. A single
    recording has no dispute: no row of it is taken from another process.

    Examples
    --------
    >>> import somcot
    >>> ended = somcot.Samples.from_trajectories([["a", "b"]], terminated=True)
    >>> goes_on = somcot.Samples.from_trajectories([["a", "b", "a", "c"]], terminated=True)
    >>> disputed_ends([ended, goes_on]), disputed_ends([ended, goes_on.merge(ended)])
    (frozenset({'b'}), frozenset({'b'}))
    >>> disputed_ends([ended, somcot.Samples.from_trajectories([["a", "b", "a", "b"]], terminated=True)])
    frozenset()
    """
    if len(data) + len(others) < 2:
        return frozenset()
    parts = [side if isinstance(side, Counts) else side.counted for side in data]
    ends = {part.states[i] for part in parts for i in np.flatnonzero(part.all_ended)}
    if not ends:
        return frozenset()
    left = {part.states[i] for part in parts for i in np.flatnonzero(part.visits != part.pair_counts.diagonal())}
    for known in others:
        rows, columns, probabilities = known.support.rows, known.support.indices, known.support.probabilities
        leaving = (rows != columns) & (probabilities > 0.0) & (rows < known.n_states)  # the initial row is the last
        left |= {known.states[i] for i in np.unique(rows[leaving])}
    return frozenset((ends & left).difference(*(_contradicted_ends(side) for side in data)))


def _contradicted_ends(data: Samples | Counts) -> set[Hashable]:
    """States that a sequence leaves although it terminates there later; of counts, states that were left and ended."""
    if isinstance(data, Counts) or data.offsets is None:
        counts = data if isinstance(data, Counts) else data.counted
        return {counts.states[i] for i in np.flatnonzero(counts.all_ended & ~counts.terminal)}
    if data.terminated is None:
        return set()
    last = np.where(data.terminated, data.following[data.offsets[1:] - 1], -1)
    returned = (data.now == np.repeat(last, np.diff(data.offsets))) & (data.following != data.now)
    return {data.states[i] for i in np.unique(data.now[returned])}


def joined_start(a: Floats | None, at_a: Codes, b: Floats | None, at_b: Codes, n: int) -> Floats | None:
    """The initial distribution known to either side, placed among n states; conflicting ones are refused."""
    laws = []
    for initial, places in ((a, at_a), (b, at_b)):
        if initial is not None:
            laws.append(np.zeros(n))
            laws[-1][places] = initial
    if len(laws) == 2 and np.abs(laws[0] - laws[1]).max() > 1e-12:
        raise ValueError("other: its known initial distribution differs; only the same process can be merged")
    return laws[0] if laws else None


def known_starts_differ(x: Samples | Counts, y: Samples | Counts) -> bool:
    """Whether both initial distributions are known and differ: then episodes cannot be permuted between the two."""
    if x.initial is None or y.initial is None:
        return False
    # By label, as the two recordings may list their states in different orders.
    laws = [dict(zip(data.states, initial, strict=True)) for data, initial in ((x, x.initial), (y, y.initial))]
    return any(abs(laws[0].get(state, 0.0) - laws[1].get(state, 0.0)) > 1e-12 for state in {*x.states, *y.states})


def joined_rewards(a: RewardSums | None, at_a: Codes, b: RewardSums | None, at_b: Codes, n: int) -> RewardSums | None:
    """Sum of the rewards of both sides, placed among n states."""
    if a is None and b is None:
        return None
    parts = [np.zeros((3, n)), np.zeros((3, n))]
    for part, sums, places in zip(parts, (a, b), (at_a, at_b), strict=True):
        if sums is not None:
            part[:, places] = sums
    total, number, squares = parts[0] + parts[1]
    (total_a, n_a, _), (total_b, n_b, _) = parts
    apart = np.where((n_a > 0) & (n_b > 0), total_a / np.maximum(n_a, 1) - total_b / np.maximum(n_b, 1), 0.0)
    # The parallel-axis formula for two groups.
    return RewardSums(total, number.astype(np.int64), squares + apart**2 * n_a * n_b / np.maximum(number, 1.0))


def _placed(values: Array, places: Array, n: int) -> Array:
    table = np.zeros(n, dtype=values.dtype)
    table[places] = values
    return table
