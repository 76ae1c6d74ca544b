"""Reading recorded data: boundaries of episodes, first states and rewards."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.arrays import Array, Codes, Floats
from somcot.plumbing.checks import check_labels, check_start_law, not_sparse, real_array
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note, Share
from somcot.plumbing.text import listing
from somcot.recorded.labels import Column, column, encode, refuse_lookalikes

__all__ = [
    "check_end",
    "insert_after",
]


# --- The end of a sequence as a separate state


def check_end(end: object, states: tuple[Hashable, ...]) -> None:
    """Refuse a label for the end that is not valid, or that occurs in the data."""
    check_labels("end", [end])
    if end in states:
        raise ValueError(Note("end-is-a-state", "end", end=repr(end)))
    refuse_lookalikes("end", [*states, end], {type(label) for label in (*states, end)})


def insert_after(values: Array, places: Array, value: Any) -> Array:
    """The array with an additional value after each of these positions.

    Examples
    --------
    >>> insert_after(np.array([5, 6, 7]), np.array([0, 2]), 9).tolist()
    [5, 9, 6, 7, 9]
    """
    longer: Array = np.insert(values, places + 1, value)
    return longer


# --- Episodes, first states and rewards

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
KNOWN = 1 << 40  # count that represents a known reward: more than any recording has


class EventTimes(NamedTuple):
    """When the states of episodes were entered.

    Attributes
    ----------
    values : ndarray of float, shape (n_transitions + n_episodes,)
        One time per state, episode after episode.
    kind : {"dates", "numbers", "rows"}
        Microseconds since 1970, the table's own numbers, or the rows of a table without times.
    """

    values: Floats
    kind: str


class RewardSums(NamedTuple):
    """Sum, number and centred sum of squares of the rewards in each state, so that recordings can be added."""

    total: Floats
    number: Integers
    squares: Floats

    @classmethod
    def of(cls, rewards: Floats, codes: Array, n: int) -> RewardSums:
        """Add up one reward per code, NaN for none."""
        known = ~np.isnan(rewards)
        codes, rewards = codes[known], rewards[known]
        total: Floats = np.bincount(codes, rewards, n).astype(np.float64)
        number = np.bincount(codes, minlength=n).astype(np.int64)
        # Centred in a second pass: sums of squares minus squared sums cancel for large means.
        apart = rewards - (total / np.maximum(number, 1))[codes]
        return cls(total, number, np.bincount(codes, apart * apart, n).astype(np.float64))

    def joined(self, places: Codes, n: int) -> RewardSums:
        """The sums for n states, where state k is merged into state places[k]."""
        total: Floats = np.bincount(places, self.total, n).astype(np.float64)
        number = np.zeros(n, dtype=np.int64)
        np.add.at(number, places, self.number)
        apart = self.total / np.maximum(self.number, 1) - (total / np.maximum(number, 1))[places]
        # The parallel-axis formula: squares about the common mean.
        squares: Floats = np.bincount(places, self.squares + self.number * apart**2, n).astype(np.float64)
        return RewardSums(total, number, squares)

    def at(self, states: Codes) -> RewardSums:
        """The sums of some states, for states derived from these."""
        return RewardSums(self.total[states], self.number[states], self.squares[states])

    def means(self, absorbing: Flags) -> Floats:
        """Mean reward; 0 in absorbing states without any, NaN elsewhere."""
        nothing = np.where(absorbing, 0.0, np.nan)
        return np.where(self.number > 0, self.total / np.maximum(self.number, 1), nothing)

    def variances(self) -> Floats:
        """Variance of a reward in each state; the mean over states for states with fewer than two rewards."""
        degrees = np.maximum(self.number - 1, 0)
        # Known rewards count as KNOWN observations, which would swamp the degrees of freedom.
        shared = float(self.squares.sum() / max(int(degrees[self.number < KNOWN].sum()), 1))
        variances = np.where(degrees > 0, self.squares / np.maximum(degrees, 1), shared)
        return np.where(self.number > 0, variances, 0.0)


class Episodes(NamedTuple):
    """Concatenated trajectories; trajectory i of those kept is `source[i]` of the input."""

    labels: Column
    boundaries: Integers
    terminated: Flags | None
    source: Integers
    n_given: int

    def place(self, _: int, row: int) -> str:
        """Name an entry by the user's indices."""
        i = int(np.searchsorted(self.boundaries, row, side="right")) - 1
        return f"trajectories[{self.source[i]}][{row - self.boundaries[i]}]"

    def with_end(
        self, end: Hashable, codes: Codes, labels: tuple[Hashable, ...]
    ) -> tuple[Episodes, Codes, tuple[Hashable, ...]]:
        """Append the end state `end`, new or existing, to each terminated trajectory; return the codes with it too."""
        check_end(end, tuple(labels[k] for k in np.unique(codes)))
        states = labels if end in labels else (*labels, end)
        # Without flags every trajectory ends there: `end` was requested for all.
        where = self.boundaries[1:] - 1 if self.terminated is None else self.boundaries[1:][self.terminated] - 1
        # Behind the last state of each trajectory that terminated.
        longer = insert_after(codes, where, states.index(end))
        ended = np.ones(len(self.source), np.bool_) if self.terminated is None else self.terminated
        boundaries = self.boundaries + np.concatenate([[0], np.cumsum(ended)])
        return self._replace(boundaries=boundaries, terminated=ended), longer, states

    def reward_sums(
        self, rewards: Any, codes: Codes, labels: tuple[Hashable, ...]
    ) -> tuple[RewardSums | None, Floats | None]:
        """Sums of rewards passed per label, or per trajectory for each state or each step; and the latter."""
        if rewards is None or isinstance(rewards, Mapping):
            return _known_rewards(rewards, labels), None
        per_trajectory = list(not_sparse("rewards", rewards))
        if len(per_trajectory) != self.n_given:
            raise ValueError(
                f"rewards: found {len(per_trajectory)} arrays for {self.n_given} trajectories; pass one for each"
            )
        flat = np.full(len(codes), np.nan)
        for i, (begin, end) in enumerate(zip(self.boundaries[:-1], self.boundaries[1:], strict=True)):
            values = real_array(f"rewards[{self.source[i]}]", per_trajectory[self.source[i]], 1)
            # One reward per state, or one per step; in the latter case the last state has none.
            if len(values) not in (end - begin, end - begin - 1):
                raise ValueError(
                    f"rewards[{self.source[i]}]: found {len(values)} rewards for {end - begin} states; pass one for "
                    "each state or one for each step"
                )
            flat[begin : begin + len(values)] = values
        return RewardSums.of(flat, codes, len(labels)), flat


class RecordedSteps(NamedTuple):
    """Single steps split into episodes; `order` sorts them by episode, None if they are sorted."""

    order: Integers | None
    offsets: Integers
    terminated: Flags | None
    n_gaps: int


def read_trajectories(trajectories: Iterable[object], terminated: object, *, end: Hashable | None = None) -> Episodes:
    """Check trajectories, drop those without a step and concatenate the rest.

    With `end`, terminated trajectories get an additional state, so one state suffices for a step.
    """
    if isinstance(trajectories, (str, bytes, Mapping)):
        raise TypeError(f"trajectories: found a {type(trajectories).__name__}, expected a list of sequences")
    try:
        sequences = list(not_sparse("trajectories", trajectories))
    except TypeError:
        raise TypeError(f"trajectories: found {trajectories!r}, expected a list of sequences") from None
    columns = [column(f"trajectories[{i}]", values) for i, values in enumerate(sequences)]
    lengths = np.array([len(c) for c in columns], dtype=np.int64)
    ends = episode_flags(terminated, len(sequences))
    closed = np.ones(len(sequences), np.bool_) if ends is None or terminated is True else ends
    # Two states make a step; with `end` the final state is added, so one is enough, but not none.
    source = np.flatnonzero(lengths + (closed if end is not None else 0) >= np.where(lengths, 2, 3))
    _report_short(len(sequences), len(source))
    arrays = [c for c in (columns[i] for i in source) if isinstance(c, np.ndarray)]
    all_kept = len(arrays) == len(source)
    flat = np.concatenate(arrays) if all_kept else list(chain.from_iterable(_plain(columns[i]) for i in source))
    boundaries = np.concatenate([[0], np.cumsum(lengths[source])])
    return Episodes(flat, boundaries, None if ends is None else ends[source], source, len(sequences))


def _plain(values: Column) -> list[Hashable]:
    plain: list[Hashable] = values.tolist() if isinstance(values, np.ndarray) else values
    return plain


def _report_short(n_given: int, n_kept: int) -> None:
    if n_kept == 0:
        raise ValueError(
            f"trajectories: none of the {n_given} has a step; each needs at least two states, the last one included"
        )
    if n_kept < n_given:
        warn(Note("short-trajectories", share=Share(n_given - n_kept, n_given)), DataWarning)


def episode_flags(terminated: Any, n: int) -> Flags | None:
    """Which trajectories terminated, one flag for all or one for each; None if none did."""
    if terminated is None or (np.ndim(terminated) == 0 and terminated in (True, False)):
        return np.ones(n, dtype=np.bool_) if terminated else None
    return _flags("terminated", terminated, n, "trajectories")


def _flags(name: str, values: object, n: int, per: str) -> Flags:
    array = np.asarray(values)
    if array.shape != (n,):
        raise ValueError(f"{name}: found shape {array.shape} for {n} {per}; pass one truth value for each")
    if array.dtype.kind not in "bO" and not np.isin(array, (0, 1)).all():
        raise TypeError(f"{name}: found entries other than 0 and 1, expected truth values")
    if array.dtype.kind not in "biuf" and not all(isinstance(v, (bool, np.bool_)) for v in array.tolist()):
        raise TypeError(f"{name}: found entries of type {array.dtype}, expected truth values")
    return array.astype(np.bool_)


def read_pairs(states_: object, next_states: object) -> list[Column]:
    """Check two columns of labels of equal length."""
    columns = [column("states_", states_), column("next_states", next_states)]
    if len(columns[0]) != len(columns[1]):
        raise ValueError(
            f"next_states: found {len(columns[1])} labels for the {len(columns[0])} of states_; pass one for each"
        )
    if not len(columns[0]):
        raise ValueError("states_: found no transition; at least one is needed")
    return columns


def place_of_pair(k: int, row: int) -> str:
    """Name an entry of one of the two columns."""
    return f"{('states_', 'next_states')[k]}[{row}]"


def independent_ends(
    now: Codes, following: Codes, terminated: object, truncated: object, episode: object
) -> Flags | None:
    """Check the options of independent samples, and warn if they look like steps of a trajectory."""
    for name, value in (("episode", episode), ("truncated", truncated)):
        if value is not None:
            raise ValueError(f"{name}: independent samples have no episodes; leave out {name} or discount")
    n = len(now) - 1
    # Transitions that continue each other by chance: expected count, plus six standard deviations.
    joined = int(np.count_nonzero(following[:-1] == now[1:]))
    size = 1 + max(int(now.max()), int(following.max()))
    chance = float(np.bincount(now, minlength=size) @ np.bincount(following, minlength=size)) / len(now) ** 2
    if joined > 0.9 * n and joined > n * chance + 6.0 * np.sqrt(n * chance * (1.0 - chance)) + 1.0:
        warn(Note("samples-in-order", "discount", share=Share(joined, n)), DataWarning)
    return _step_flags("terminated", terminated, len(now))


def _step_flags(name: str, values: object, n: int) -> Flags | None:
    if values is None or values is False:
        return None
    if values is True:
        raise ValueError(f"{name}: found True; pass one truth value for each of the {n} transitions")
    return _flags(name, values, n, "transitions")


def cut_episodes(now: Codes, following: Codes, terminated: object, truncated: object, episode: object) -> RecordedSteps:
    """Split steps into episodes: by name, by flags, and without names wherever steps do not join."""
    n = len(now)
    # Numbers instead of names, so that sorting and comparing are fast.
    names = None if episode is None else _episode_numbers(episode, n)
    # Sorted by name only if needed; stable, so that the order of time within an episode is kept.
    order = None if names is None or (names[1:] >= names[:-1]).all() else np.argsort(names, kind="stable")
    ended = None if terminated is True else _step_flags("terminated", terminated, n)
    stopped = _step_flags("truncated", truncated, n)
    if order is not None:
        now, following, names = now[order], following[order], names[order] if names is not None else None
        ended, stopped = (None if f is None else f[order] for f in (ended, stopped))
    begins = np.ones(n + 1, dtype=np.bool_)  # the end of the data counts as a beginning
    inner = begins[1:-1]
    inner[:] = False
    for flags in (ended, stopped):
        if flags is not None:
            inner |= flags[:-1]
    if names is not None:
        inner |= names[1:] != names[:-1]
    # Steps that do not join, without a recorded reason: a new episode, unless names say otherwise.
    gap = (following[:-1] != now[1:]) & ~inner
    if names is None:
        inner |= gap
    offsets = np.flatnonzero(begins)
    # The flag of the last step of each episode.
    final = None if ended is None else ended[offsets[1:] - 1]
    if terminated is True:
        final = np.ones(len(offsets) - 1, dtype=np.bool_)
    return RecordedSteps(order, offsets, final, int(np.count_nonzero(gap)))


def _episode_numbers(episode: object, n: int) -> Codes:
    names = column("episode", episode)
    if len(names) != n:
        raise ValueError(f"episode: found {len(names)} names for {n} transitions; pass one for each")
    (numbers,), _ = encode([names], None, lambda _, i: f"episode[{i}]")
    return numbers


def initial_distribution(initial: Any, labels: tuple[Hashable, ...]) -> Floats | None:
    """Turn a label, label-probability pairs or probabilities into a distribution over the states."""
    if initial is None:
        return None
    is_integer = isinstance(initial, (int, np.integer))
    if is_integer and initial not in labels and any(isinstance(label, int) for label in labels):
        raise ValueError(
            f"initial: {initial!r} is not a state of the data, which has {listing(labels, 5)}; pass states to add it"
        )
    if np.ndim(initial) == 1 and not isinstance(initial, (str, tuple, Mapping)) and len(initial) != len(labels):
        raise ValueError(
            f"initial: found {len(initial)} probabilities for {len(labels)} states, {listing(labels, 5)}; pass states "
            "to fix which states there are and their order"
        )
    return check_start_law(initial, labels, normalize=False)


def _known_rewards(rewards: Mapping[Hashable, float] | None, labels: tuple[Hashable, ...]) -> RewardSums | None:
    if rewards is None:
        return None
    missing = [label for label in labels if label not in rewards]
    if missing:
        raise ValueError(f"rewards: no reward for {len(missing)} state(s): {listing(missing)}; pass one for each")
    values = real_array("rewards", [rewards[label] for label in labels], 1)
    # KNOWN observations of equal value: the mean is exact, and its error 0.
    return RewardSums(values * KNOWN, np.full(len(labels), KNOWN), np.zeros(len(labels)))


def step_reward_sums(
    rewards: object, now: Codes, labels: tuple[Hashable, ...]
) -> tuple[RewardSums | None, Floats | None]:
    """Sums of rewards passed per label, or one per transition, which belongs to the state left; and these."""
    if rewards is None or isinstance(rewards, Mapping):
        return _known_rewards(rewards, labels), None
    values = real_array("rewards", rewards, 1)
    if len(values) != len(now):
        raise ValueError(f"rewards: found {len(values)} rewards for {len(now)} transitions; pass one for each")
    return RewardSums.of(values, now, len(labels)), values


def joined_offsets(a: Integers | None, b: Integers | None) -> Integers | None:
    """Offsets of two concatenated recordings."""
    return None if a is None or b is None else np.concatenate([a, a[-1] + b[1:]])


def joined_flags(a: Flags | None, n_a: int, b: Flags | None, n_b: int) -> Flags | None:
    """Flags of two concatenated recordings; None means that none is set."""
    if a is None and b is None:
        return None
    parts = [np.zeros(n, dtype=np.bool_) if flags is None else flags for flags, n in ((a, n_a), (b, n_b))]
    return np.concatenate(parts)
