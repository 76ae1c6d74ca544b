"""Recorded data of a process: episodes, or independent samples of its discounted occupancy."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from somcot import costs
from somcot.chains import MarkovChain
from somcot.costs.features import StepRewards
from somcot.plumbing.arrays import Codes, Floats
from somcot.plumbing.checks import check_discount, check_rng
from somcot.recorded import recording
from somcot.recorded import transforms as changes
from somcot.recorded.counts import Counts, choose_start, counts_card
from somcot.recorded.labels import encode
from somcot.recorded.pair_counts import PairCounts, count_pairs
from somcot.recorded.recording import EventTimes, RewardSums

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["Samples"]

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Samples:
    """Recorded transitions of one process, in index form; created by `from_trajectories` or `from_transitions`.

    The fields hold indices into `states`, not labels. Episodes are stored consecutively.

    Attributes
    ----------
    states : tuple of hashable
        The n labels.
    now, following : ndarray of int32, shape (n_transitions,)
        Each transition goes from state ``now[t]`` to state ``following[t]``.
    offsets : ndarray of int64, shape (n_episodes + 1,), or None
        Episode e holds the transitions ``offsets[e]`` to ``offsets[e + 1]``; None for independent samples.
    terminated : ndarray of bool, shape (n_episodes,) or (n_transitions,), or None
        Which episodes, or which independent transitions, ended in termination of the process; None means none.
    initial : ndarray of float, shape (n,), or None
        The initial distribution if it is known; otherwise it is estimated from the data.
    discount : float or None
        Discount of the occupancy that was sampled; None for episodes.
    rewards : RewardSums or None
        Sum and number of the rewards recorded in each state.
    step_rewards : ndarray of float, shape (n_transitions,), or None
        The reward of each transition, NaN for none, if rewards were recorded step by step.
    stationary : bool
        The process is assumed to start in its stationary distribution, which is estimated from the transitions;
        `initial` is None then.
    n_gaps : int
        Number of steps that do not begin where the previous step ended, without a recorded reason.
    overlap : int
        Number of overlapping steps counted per time interval; above 1 they are not independent.
    episode_attributes : mapping of str to ndarray, shape (n_episodes,)
        What is known of each episode besides its states, such as its task; see `readers.from_table`.
    times : EventTimes or None
        When the states were entered, for `Monitor`; kept by readers with `keep_times`.
    lag : int or None
        Frames per step, if states are clusters of frames (`readers.from_dtrajs`).

    Examples
    --------
    >>> samples = Samples.from_trajectories([["home", "cart", "home"], ["home", "cart", "paid"]],
    ...                                     terminated=[False, True])
    >>> samples
    Samples(3 states, 4 transitions, 2 episodes)
    >>> samples.states
    ('cart', 'home', 'paid')
    >>> samples.chain().transition
    array([[0. , 0.5, 0.5],
           [1. , 0. , 0. ],
           [0. , 0. , 1. ]])
    >>> import os, tempfile
    >>> samples.counts().tolist()
    [[0, 1, 1], [2, 0, 0], [0, 0, 0]]
    >>> path = os.path.join(tempfile.mkdtemp(), "shop.samples")
    >>> samples.save(path)
    >>> Samples.load(path).states == samples.states
    True
    """

    states: tuple[Hashable, ...]
    now: Codes
    following: Codes
    offsets: Integers | None = None
    terminated: NDArray[np.bool_] | None = None
    initial: Floats | None = None
    discount: float | None = None
    rewards: RewardSums | None = None
    n_gaps: int = 0
    overlap: int = 1
    stationary: bool = False
    episode_attributes: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    times: EventTimes | None = None
    lag: int | None = None
    step_rewards: Floats | None = None

    def __post_init__(self) -> None:
        # Here rather than in the constructors: `replace` and files of `save` come this way too.
        for name, values in self.episode_attributes.items():
            if len(values) != self.n_units:
                raise ValueError(f"episode_attributes: {name!r} has {len(values)} values for {self.n_units} episodes")
        if self.step_rewards is not None and len(self.step_rewards) != len(self.now):
            raise ValueError(f"step_rewards: found {len(self.step_rewards)} for {len(self.now)} transitions")
        for name in ("now", "following"):
            # Kernels are compiled for contiguous int32.
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.int32))
        # Read-only, because `counted` is cached.
        for array in (self.now, self.following, self.offsets, self.terminated, self.initial, self.step_rewards):
            if array is not None:
                array.setflags(write=False)

    @classmethod
    def from_trajectories(
        cls,
        trajectories: Iterable[object],
        *,
        states: Iterable[Hashable] | None = None,
        terminated: bool | Sequence[bool] | NDArray[np.bool_] = False,
        initial: Hashable | ArrayLike | Mapping[Any, float] | None = None,
        rewards: object = None,
        end: Hashable | None = None,
    ) -> Samples:
        """Collect episodes given as sequences of states.

        Parameters
        ----------
        trajectories : iterable of sequences
            One sequence of labels per episode, including the last state: T + 1 labels for T steps. Sequences shorter
            than 2 contain no step; they are dropped with a `DataWarning`.
        states : iterable of hashable, optional
            All labels in order. By default the labels in the data, sorted if they are sortable.
        terminated : bool or sequence of bool, optional
            Whether the process terminated in the last state, for all episodes or for each. Such a state is
            absorbing. By default the recording stopped without termination.
        initial : label, mapping or array_like, shape (n,), optional
            The initial distribution if it is known: a label, label-probability pairs, or one probability per
            state. ``"stationary"``: the stationary distribution, which is estimated from the transitions, including
            its error; first states are then ignored. By default it is estimated from the first states.
        rewards : sequence of array_like or mapping, optional
            One array per trajectory, with one reward per state or per step (a step's reward belongs to the state
            it leaves); or the known reward of each label. Their means are `features`.
        end : hashable, optional
            An absorbing last state appended to every episode, such as "left"; trajectories of one state then have a
            step. If `terminated` is a sequence, it is appended to terminated episodes only.

        Examples
        --------
        >>> Samples.from_trajectories([[0, 1, 1, 0], [0, 0, 1]]).counts()
        array([[1, 2],
               [1, 1]])
        >>> Samples.from_trajectories([["home", "cart"], ["home"]], end="left").chain().transition
        array([[0. , 0. , 1. ],
               [0.5, 0. , 0.5],
               [0. , 0. , 1. ]])
        """
        episodes = recording.read_trajectories(trajectories, terminated, end=end)
        # All trajectories at once, so that they share one numbering of the states.
        (codes,), labels = encode([episodes.labels], states, episodes.place)
        if end is not None:
            episodes, codes, labels = episodes.with_end(end, codes, labels)
        first = episodes.boundaries[:-1]
        # Every state but the last of an episode begins a step, and every state but the first ends one.
        keep_now, keep_following = np.ones(len(codes), np.bool_), np.ones(len(codes), np.bool_)
        keep_now[episodes.boundaries[1:] - 1] = False
        keep_following[first] = False
        sums, earned = episodes.reward_sums(rewards, codes, labels)
        return cls(
            labels,
            codes[keep_now],
            codes[keep_following],
            # Boundaries count states, offsets steps: one fewer per episode.
            offsets=episodes.boundaries - np.arange(len(episodes.boundaries)),
            terminated=episodes.terminated,
            rewards=sums,
            step_rewards=None if earned is None else earned[keep_now],
            # Last, because "stationary" needs the finished recording.
        ).with_start(initial)

    @classmethod
    def from_transitions(
        cls,
        states_: Any,
        next_states: Any,
        *,
        discount: float | None = None,
        initial: Hashable | ArrayLike | Mapping[Any, float] | None = None,
        terminated: bool | ArrayLike | None = None,
        episode: Any = None,
        states: Iterable[Hashable] | None = None,
        truncated: ArrayLike | None = None,
        rewards: Any = None,
    ) -> Samples:
        """Collect single transitions: steps of episodes, or independent samples of the occupancy.

        Parameters
        ----------
        states_, next_states : sequence of labels, length T
            Where each transition begins and ends.
        discount : float, optional
            If set, the transitions are independent samples of the occupancy at this discount. Otherwise they are
            steps of episodes, in order of time within each episode.
        initial : label, mapping or array_like, shape (n,), optional
            The initial distribution if it is known, or ``"stationary"`` for the stationary distribution (episodes
            only). Otherwise it is estimated from the first steps of the episodes, or fitted to the occupancy.
        terminated : bool or array_like of bool, shape (T,), optional
            Transitions after which the process terminated; their end states are absorbing. True: after the last
            transition of every episode.
        episode : sequence of hashable, length T, optional
            The episode of each step. By default an episode ends after `terminated` or `truncated` steps and
            wherever the next step begins in another state.
        states : iterable of hashable, optional
            All labels in order. By default the labels in the data, sorted if they are sortable.
        truncated : array_like of bool, shape (T,), optional
            Steps after which the recording stopped although the process had not terminated.
        rewards : array_like, shape (T,), or mapping, optional
            Reward of each transition, which belongs to the state it leaves, or the known reward of each label.

        Examples
        --------
        >>> Samples.from_transitions([0, 1, 0], [1, 0, 0], terminated=[False, True, False]).n_episodes
        2
        >>> Samples.from_transitions([0, 0, 1], [0, 1, 1], discount=0.9, initial=0)
        Samples(2 states, 3 transitions, independent at discount 0.9)
        """
        columns = recording.read_pairs(states_, next_states)
        (now, following), labels = encode(columns, states, recording.place_of_pair)
        # Before sorting: rewards belong to states, and sums do not depend on the order.
        sums, earned = recording.step_reward_sums(rewards, now, labels)
        parts: dict[str, Any] = {"rewards": sums, "step_rewards": earned}
        if discount is not None:
            parts["discount"] = check_discount(discount)
            # Independent samples have no episodes, so flags are per transition.
            parts["terminated"] = recording.independent_ends(now, following, terminated, truncated, episode)
            return cls(labels, now, following, **parts).with_start(initial)
        steps = recording.cut_episodes(now, following, terminated, truncated, episode)
        if steps.order is not None:
            # Sorted by episode, in their order of time.
            now, following = now[steps.order], following[steps.order]
            parts["step_rewards"] = None if earned is None else earned[steps.order]
        samples = cls(
            labels, now, following, offsets=steps.offsets, terminated=steps.terminated, n_gaps=steps.n_gaps, **parts
        )
        return samples.with_start(initial)

    def with_start(self, initial: Hashable | ArrayLike | Mapping[Any, float] | None) -> Samples:
        """The same recording with another initial distribution.

        `initial` is specified as for `from_trajectories`; None estimates it from the first states.

        Examples
        --------
        >>> data = Samples.from_trajectories([[0, 1, 1, 1, 0, 1, 1]]).with_start("stationary")
        >>> data.chain().initial.round(3)
        array([0.2, 0.8])
        """
        # Nothing to change: the start is estimated already.
        if initial is None and not self.starts_known:
            return self
        # As a function: only "stationary" needs the terminal states, which take a pass over the data.
        distribution, stationary = choose_start(initial, self.states, self.discount, lambda: self.terminal)
        return replace(self, initial=distribution, stationary=stationary)

    @property
    def n_states(self) -> int:
        """Number of states, including states that do not occur in the data."""
        return len(self.states)

    @property
    def n_transitions(self) -> int:
        """Number of transitions recorded."""
        return len(self.now)

    @property
    def n_episodes(self) -> int:
        """Number of episodes; 0 for independent samples."""
        return 0 if self.offsets is None else len(self.offsets) - 1

    @property
    def n_units(self) -> int:
        """Number of independent units: episodes, or transitions if these are independent."""
        return self.n_transitions if self.offsets is None else self.n_episodes

    @property
    def episode(self) -> Codes:
        """Index of the independent unit of each transition, shape (n_transitions,)."""
        if self.offsets is None:
            return np.arange(self.n_transitions, dtype=np.int32)  # each is a unit of its own
        return np.repeat(np.arange(self.n_episodes, dtype=np.int32), np.diff(self.offsets))

    @cached_property
    def counted(self) -> Counts:
        """Transition counts of the recording, without its episodes; see `Counts`."""
        # First states count once per episode; independent samples have none.
        first = self.now[:0] if self.offsets is None else self.now[self.offsets[:-1]]
        ended = np.zeros(self.n_states, dtype=np.bool_)
        if self.terminated is not None:
            # The last state of each unit, where it may have terminated.
            last = self.following if self.offsets is None else self.following[self.offsets[1:] - 1]
            ended[last[self.terminated]] = True
        return Counts(
            self.states,
            count_pairs(self.now, self.following, self.n_states),
            np.bincount(first, minlength=self.n_states),
            ended,
            self.n_episodes,
            initial=self.initial,
            discount=self.discount,
            rewards=self.rewards,
            n_gaps=self.n_gaps,
            overlap=self.overlap,
            stationary=self.stationary,
        )

    @property
    def pair_counts(self) -> PairCounts:
        """Number of occurrences of each observed transition."""
        return self.counted.pair_counts

    def counts(self) -> Integers | csr_array:
        """Number of occurrences of each transition, shape (n, n); sparse for many states with few entries."""
        return self.counted.counts()

    @property
    def visits(self) -> Integers:
        """Number of transitions from each state, including those to itself, shape (n,)."""
        return self.counted.visits

    @property
    def start_counts(self) -> Integers:
        """Number of episodes that began in each state, shape (n,); zeros for independent samples."""
        return self.counted.start_counts

    @property
    def starts_known(self) -> bool:
        """Whether the initial distribution is known or stationary, rather than estimated from first states."""
        return self.initial is not None or self.stationary

    @property
    def terminal(self) -> NDArray[np.bool_]:
        """States known to be absorbing: episodes terminated there, and no transition leads to another state."""
        return self.counted.terminal

    @property
    def seen(self) -> NDArray[np.bool_]:
        """States that occur anywhere in the data."""
        return self.counted.seen

    @property
    def features(self) -> Floats | None:
        """Mean reward of each state, shape (n,); 0 in terminal states without one, NaN where none is known."""
        # Without rewards there is no need to count.
        return None if self.rewards is None else self.counted.features

    @property
    def feature_means(self) -> costs.FeatureMeans | None:
        """Mean rewards with the variances and numbers of the rewards, from which their standard errors follow."""
        means = None if self.rewards is None else self.counted.feature_means
        if means is None or self.step_rewards is None:
            return means
        steps = StepRewards.of(self.now, self.following, self.step_rewards, self.n_states)
        # A reward in a last state is of no step, so the means of steps are not those of states.
        whole = np.array_equal(np.bincount(steps.now, steps.number, self.n_states), means.numbers)
        return means._replace(steps=steps if whole else None)

    def chain(self, *, check: bool = True) -> MarkovChain:
        """Estimate the chain behind the data.

        For episodes, the kernel is the counts divided by their row sums, and the initial distribution the shares of
        the first states. For independent samples of the occupancy, it is the flow-constrained maximum-likelihood chain
        (`somcot.recorded.flow.flow_mle`). States without outgoing transitions are made absorbing.

        Parameters
        ----------
        check : bool, optional
            Warn about states whose behaviour had to be assumed and about contradictions in the data.

        Warns
        -----
        UnseenStateWarning
            States that do not occur in the data, or only as the last state of a recording.
        DataWarning
            Terminal states with outgoing transitions; steps that do not join; states that no recorded path reaches.
        """
        return self.counted.chain(check=check)

    def take(self, units: ArrayLike) -> Samples:
        """Select episodes, or transitions if these are independent; repeated indices count repeatedly.

        Parameters
        ----------
        units : array_like of int
            Indices below `n_units`.

        Examples
        --------
        >>> Samples.from_trajectories([[0, 1], [1, 1, 0]]).take([1, 1]).counts()
        array([[0, 0],
               [2, 2]])
        """
        try:
            chosen = np.asarray(units, dtype=np.int64)
        except (TypeError, ValueError, OverflowError):
            raise TypeError(f"units: found {type(units).__name__}, expected a list of numbers") from None
        if chosen.ndim != 1 or not chosen.size:
            raise ValueError(f"units: found shape {chosen.shape}, expected a list of at least one number")
        # NumPy would count negative numbers from the end.
        if chosen.min() < 0 or chosen.max() >= self.n_units:
            raise ValueError(f"units: found numbers from {chosen.min()} to {chosen.max()}, there are {self.n_units}")
        ends = None if self.terminated is None else self.terminated[chosen]
        about = {name: values[chosen] for name, values in self.episode_attributes.items()}
        if self.offsets is None:
            now, following, earned = self.now[chosen], self.following[chosen], self._earned_in(chosen)
            return replace(
                self, now=now, following=following, terminated=ends, episode_attributes=about, step_rewards=earned
            )
        lengths = np.diff(self.offsets)[chosen]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        # Positions of the steps of the chosen episodes, each a range, without a loop.
        steps = np.arange(offsets[-1]) + np.repeat(self.offsets[chosen] - offsets[:-1], lengths)
        now, following = self.now[steps], self.following[steps]
        # Times are only for `Monitor`, which reads whole recordings.
        return replace(
            self, now=now, following=following, offsets=offsets, terminated=ends, times=None, episode_attributes=about,
            step_rewards=self._earned_in(steps),
        )  # fmt: skip

    def _earned_in(self, steps: Integers) -> Floats | None:
        return None if self.step_rewards is None else self.step_rewards[steps]

    def with_order(self, k: int) -> Samples:
        """Make words of k consecutive states the states, for processes of higher Markov order (see `markov_order`).

        A step leads from the last k states to the next k. Episodes of fewer than k + 1 states contain no step and are
        dropped with a `DataWarning`. The initial distribution is estimated from the first words; rewards are those of
        the last state.

        Examples
        --------
        >>> words = Samples.from_trajectories([["a", "a", "b", "b", "a"]]).with_order(2)
        >>> words.states
        (('a', 'a'), ('a', 'b'), ('b', 'a'), ('b', 'b'))
        >>> words.n_transitions
        3

        A cost that depends on the last state only:

        >>> cost = [[float(v[-1] != w[-1]) for w in words.states] for v in words.states]
        """
        return changes.with_order(self, k)

    def relabel(self, names: Mapping[Any, Hashable] | Callable[[Any], Hashable]) -> Samples:
        """Relabel states; states with equal new labels are merged.

        Parameters
        ----------
        names : mapping or function
            From old labels to new ones; a mapping may omit labels that stay the same.

        Examples
        --------
        >>> Samples.from_trajectories([["home", "cart", "Cart", "home"]]).relabel(str.lower).counts()
        array([[1, 1],
               [1, 0]])
        """
        return changes.relabelled(self, names)

    def connected(self) -> Samples:
        """Restrict the data to the largest strongly connected set of states, as in Markov state models.

        Steps into and out of the set are dropped, and a `DataWarning` reports their number. A known initial
        distribution is dropped too.

        Examples
        --------
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore"):
        ...     Samples.from_trajectories([[3, 0, 1, 0, 1, 2]]).connected().counts()
        array([[0, 2],
               [1, 0]])
        """
        return changes.connected(self)

    def resample(self, rng: int | np.random.Generator | None = None) -> Samples:
        """Draw a bootstrap sample: episodes, or transitions if these are independent, with replacement.

        Examples
        --------
        >>> Samples.from_trajectories([[0, 1, 0], [1, 1, 1]]).resample(rng=0).n_episodes
        2
        """
        # Whole episodes: steps within one are dependent.
        return self.take(check_rng(rng).integers(self.n_units, size=self.n_units))

    def merge(self, other: Samples) -> Samples:
        """Merge two recordings of the same process; equal labels denote the same state.

        New states of `other` are appended. An initial distribution known to one side is used for both.

        Examples
        --------
        >>> both = Samples.from_trajectories([["a", "b"]]).merge(Samples.from_trajectories([["b", "c"]]))
        >>> both.states, both.counts().tolist()
        (('a', 'b', 'c'), [[0, 1, 0], [0, 0, 1], [0, 0, 0]])
        """
        if not isinstance(other, Samples):
            raise TypeError(f"other: found {type(other).__name__}, expected Samples")
        return changes.merged(self, other)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recording to a file, by convention ``NAME.somcot``: codes of states, their labels, and attributes.

        Examples
        --------
        >>> import tempfile
        >>> file = tempfile.mkdtemp() + "/baseline.somcot"
        >>> Samples.from_trajectories([["home", "cart", "home"]]).save(file)
        >>> Samples.load(file)
        Samples(2 states, 2 transitions, 1 episodes)
        """
        changes.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Samples:
        """Read a file written by `save`; it contains no executable code."""
        return changes.load(cls, path)

    def __repr__(self) -> str:
        # Independent samples have no episodes.
        kind = f"{self.n_episodes} episodes" if self.discount is None else f"independent at discount {self.discount}"
        return f"Samples({self.n_states} states, {self.n_transitions} transitions, {kind})"

    def _repr_html_(self) -> str:
        ended = 0 if self.terminated is None else int(self.terminated.sum())
        return counts_card("Samples", self.counted, ended)
