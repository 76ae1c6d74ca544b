"""Decision processes known from recorded transitions: the contents of a replay buffer, counted."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from somcot.costs.features import StepRewards
from somcot.inference.model import MANY
from somcot.inference.units import SEQUENCES
from somcot.mdp.process import MDP
from somcot.plumbing.arrays import Array, Bools, Codes, Floats, Ints
from somcot.plumbing.checks import check_count, check_start_law, real_array
from somcot.plumbing.errors import DataWarning, UnseenStateWarning, warn
from somcot.plumbing.html import card
from somcot.plumbing.memory import require
from somcot.plumbing.notes import Note, Share
from somcot.recorded.labels import Column, column, encode
from somcot.recorded.recording import cut_episodes

__all__ = ["END", "Outcomes", "RecordedMDP", "StepsByUnit", "paid_of", "plain"]

END: Hashable = "terminated"  # label of the state in which terminated episodes end
_SHORTEST = 10  # steps of a block of a recording with few episodes
_GUESSED = 0.5  # a larger share of steps that do not join leaves the initial states unknown


class Outcomes(NamedTuple):
    """What was seen to follow: one entry for each recorded (state, action, next state).

    Attributes
    ----------
    rows, columns : ndarray of int64
        ``state * n_actions + action``, ascending, and the next state.
    number : ndarray
        How often it happened.
    reward, squares : ndarray
        Mean reward, and the sum of squared deviations from it.
    """

    rows: Ints
    columns: Ints
    number: Floats
    reward: Floats
    squares: Floats


@dataclass(frozen=True, init=False, eq=False, repr=False)
class RecordedMDP(MDP):
    """Recorded transitions of a decision process; created by `from_transitions`.

    It can be used wherever an `MDP` can: ``transitions`` and ``rewards`` are then the estimated ones. `mdp.distance`
    and `mdp.transfer_bound` also use the counts, and so tell noise from differences.

    Steps that terminate lead to an additional last state, ``"terminated"``, which is absorbing and earns nothing. All
    readers follow this convention.

    Attributes
    ----------
    transitions, rewards : ndarray
        Relative frequencies, (n, n_actions, n), and mean rewards, (n, n_actions), computed on first access. Actions
        never tried in a state are assumed to stay there and earn nothing, with a warning.
    now, action, following : ndarray of int32, shape (T,)
        The recorded steps, as indices of `states` and `actions`.
    reward : ndarray, shape (T,)
    offsets : ndarray of int64, shape (n_episodes + 1,)
        Episode e holds the steps ``offsets[e]`` to ``offsets[e + 1]``.
    start_known : bool
        Whether `initial` was passed, not estimated from the first states of the episodes.
    """

    now: Codes
    action: Codes
    following: Codes
    reward: Floats
    offsets: Ints
    start_known: bool

    def __init__(
        self,
        states: tuple[Hashable, ...],
        actions: tuple[Hashable, ...],
        steps: tuple[Codes, Codes, Codes, Floats],
        offsets: Ints,
        initial: Floats | None,
    ) -> None:
        # Used unless `initial` is given: the first states of the recorded episodes.
        start = np.bincount(steps[0][offsets[:-1]], minlength=len(states)) / (len(offsets) - 1)
        fields: dict[str, object] = {
            "states": states, "actions": actions, "offsets": offsets, "start_known": initial is not None,
            "initial": start if initial is None else initial,
            **dict(zip(("now", "action", "following", "reward"), steps, strict=True)),
        }  # fmt: skip
        # The dataclass is frozen and its arrays read-only, because everything counted below is cached.
        for name, value in fields.items():
            object.__setattr__(self, name, value)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    @classmethod
    def from_transitions(
        cls,
        states: Any,
        actions: Any,
        rewards: ArrayLike,
        next_states: Any,
        *,
        terminated: ArrayLike | None = None,
        truncated: ArrayLike | None = None,
        initial: Any = None,
        n_states: int | None = None,
        n_actions: int | None = None,
    ) -> RecordedMDP:
        """Count recorded transitions, such as the contents of a replay buffer.

        Parameters
        ----------
        states, next_states : sequence of labels, length T, or array of int, shape (T, k)
            Where each step begins and ends; a row of several integers is one label, a tuple. Steps of one episode
            follow each other; wherever a step does not begin where the one before ended, a new episode begins.
        actions : sequence of labels, length T
        rewards : array_like, shape (T,)
        terminated : array_like of bool, shape (T,), optional
            Steps after which the process ended. They lead to the state "terminated", and their next state is ignored.
        truncated : array_like of bool, shape (T,), optional
            Steps after which the recording stopped although the process had not ended.
        initial : label, mapping or array_like, optional
            The initial distribution if it is known; by default that of the first states of the episodes.
        n_states, n_actions : int, optional
            Then states (actions) are the integers from 0 to n - 1, whether recorded or not; otherwise those recorded.

        Examples
        --------
        >>> data = RecordedMDP.from_transitions([0, 1, 0, 0], [1, 1, 0, 1], [0, 1, 0, 0], [1, 1, 0, 1],
        ...                                     terminated=[False, True, False, False])
        >>> data
        RecordedMDP(3 states, 2 actions, 4 transitions, 2 episodes)
        >>> data.visits
        array([[1, 2],
               [0, 1],
               [0, 0]])
        >>> data.states
        (0, 1, 'terminated')
        """
        named = {"states": states, "next_states": next_states, "actions": actions}
        columns = {name: _column(name, values) for name, values in named.items()}
        reward = real_array("rewards", rewards, 1)
        _check_lengths(columns, reward)
        (now, following), labels = _encode(columns, ("states", "next_states"), "state", n_states)
        (action,), choices = _encode(columns, ("actions",), "action", n_actions)
        # Cut before the next lines: steps join where one ends in the state in which the next begins, and the state
        # after a terminated step is about to be replaced.
        cut = cut_episodes(now, following, terminated, truncated, None)
        ended = np.zeros(len(now), np.bool_) if terminated is None else np.asarray(terminated).astype(np.bool_)
        labels, now, following = _with_end(labels, now, following, ended, n_states is not None)
        if len(labels) == 1 and n_states is None:
            raise ValueError(f"states: all transitions are in the one state {labels[0]!r}; at least two are needed")
        # Checked against the final labels, which include the end.
        start = None if initial is None else check_start_law(initial, labels, normalize=False)
        if start is None and cut.n_gaps > _GUESSED * len(now):
            warn(Note("starts-guessed", share=Share(cut.n_gaps, len(now))), DataWarning)
        return cls(labels, choices, (now, action, following, reward), cut.offsets, start)

    @property
    def n_transitions(self) -> int:
        """Number of recorded steps."""
        return len(self.now)

    @property
    def n_episodes(self) -> int:
        """Number of recorded episodes."""
        return len(self.offsets) - 1

    @property
    def absorbing(self) -> Bools:
        """The state "terminated", whose behaviour is known: shape (n,)."""
        return np.array([label == END and isinstance(label, str) for label in self.states])

    @cached_property
    def visits(self) -> Ints:
        """How often each action was tried in each state, (n, n_actions)."""
        # In 64 bits: codes have 32, and the product may not fit.
        rows = self.now.astype(np.int64) * self.n_actions + self.action
        return np.bincount(rows, minlength=self.n_states * self.n_actions).reshape(self.n_states, self.n_actions)

    @property
    def untried(self) -> Bools:
        """The actions never tried in a state, (n, n_actions)."""
        never: Bools = (self.visits == 0) & ~self.absorbing[:, None]
        return never

    @cached_property
    def outcomes(self) -> Outcomes:
        """The recorded outcomes of each action in each state, and the spread of their rewards."""
        n = self.n_states
        keys = (self.now.astype(np.int64) * self.n_actions + self.action) * n + self.following
        distinct, place = _ranked(keys, n * self.n_actions * n)
        number = np.bincount(place, minlength=len(distinct)).astype(np.float64)
        mean = np.bincount(place, self.reward, len(distinct)) / number
        # Around the mean of each outcome: sums of raw squares would lose their digits for rewards far from 0.
        squares: Floats = np.bincount(place, (self.reward - mean[place]) ** 2, len(distinct)).astype(np.float64)
        return Outcomes(distinct // n, distinct % n, number, mean, squares)

    def __getattr__(self, name: str) -> Floats:
        # `transitions` and `rewards` are fields of an MDP; here they are estimated when first read.
        if name not in ("transitions", "rewards"):
            raise AttributeError(f"RecordedMDP has no attribute {name!r}")
        table = self._frequencies() if name == "transitions" else self._mean_rewards()
        table.setflags(write=False)
        object.__setattr__(self, name, table)
        return table

    def _frequencies(self) -> Floats:
        """Relative frequencies of the next states; untried actions stay in place, with a warning."""
        n, m = self.n_states, self.n_actions
        # Before allocation: the table is dense, and numbers of states that come from data can be very large.
        require(8.0 * n * m * n, f"a table of {n} states and {m} actions", "use fewer states")
        untried = self.untried
        if untried.any():
            s, a = (int(k) for k in np.argwhere(untried)[0])
            share, state = Share(int(untried.sum()), untried.size), repr(self.states[s])
            note = Note("untried-actions", "recorded", share=share, state=state, action=self.actions[a])
            warn(note, UnseenStateWarning)
        table = np.zeros((n * m, n))
        entries = self.outcomes
        table[entries.rows, entries.columns] = entries.number / self.visits.ravel()[entries.rows]
        # An action that was never tried stays in its state, so that every row is a distribution.
        alone = np.flatnonzero(self.visits.ravel() == 0)
        table[alone, alone // m] = 1.0
        return table.reshape(n, m, n)

    def _mean_rewards(self) -> Floats:
        """Mean reward of each action in each state; 0 for untried actions."""
        entries, size = self.outcomes, self.visits.size
        total = np.bincount(entries.rows, entries.number * entries.reward, size).reshape(self.visits.shape)
        means: Floats = total / np.maximum(self.visits, 1)
        return means

    @cached_property
    def reward_variances(self) -> Floats:
        """Variance of the reward of each action in each state; the mean over all for those tried once, (n, n_actions).

        Actions never tried get it too: it is what one more trial would show.
        """
        entries, size = self.outcomes, self.visits.size
        apart = entries.reward - self.rewards.ravel()[entries.rows]
        # Variation within outcomes plus variation between them: both are part of the reward of an action.
        squares = np.bincount(entries.rows, entries.squares + entries.number * apart**2, size)
        degrees = np.maximum(self.visits.ravel() - 1, 0)
        # A single observation shows no variance, so it takes that of all rows together.
        shared = float(squares.sum()) / max(int(degrees.sum()), 1)
        return np.where(degrees > 0, squares / np.maximum(degrees, 1), shared).reshape(self.visits.shape)

    def mdp(self) -> MDP:
        """The estimated process: relative frequencies and mean rewards.

        Actions never tried in a state are assumed to stay there and earn nothing, with an `UnseenStateWarning`.

        Examples
        --------
        >>> data = RecordedMDP.from_transitions([0, 1, 0, 1], [0, 0, 0, 0], [0.0, 1.0, 0.0, 3.0], [1, 0, 1, 1])
        >>> data.mdp().transitions[1, 0], data.mdp().rewards[1]
        (array([0.5, 0.5]), array([2.]))
        """
        return MDP(self.transitions, self.rewards, initial=self.initial, states=self.states, actions=self.actions)

    def take(self, episodes: ArrayLike) -> RecordedMDP:
        """Select episodes by index; repeated indices count repeatedly. States and actions stay.

        Examples
        --------
        >>> data = RecordedMDP.from_transitions([0, 1, 0], [0, 0, 0], [0.0, 1.0, 2.0], [1, 1, 1])
        >>> data.take([1]).reward
        array([2.])
        """
        chosen = np.atleast_1d(np.asarray(episodes, dtype=np.int64))
        if not len(chosen):
            raise ValueError("episodes: found none, expected at least one")
        lengths = np.diff(self.offsets)[chosen]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        steps = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][chosen] - offsets[:-1], lengths)
        parts = (self.now[steps], self.action[steps], self.following[steps], self.reward[steps])
        # An estimated initial distribution follows the chosen episodes; a known one stays.
        return RecordedMDP(self.states, self.actions, parts, offsets, self.initial if self.start_known else None)

    def __repr__(self) -> str:
        sizes = f"{self.n_states} states, {self.n_actions} actions"
        return f"RecordedMDP({sizes}, {self.n_transitions} transitions, {self.n_episodes} episodes)"

    def _repr_html_(self) -> str:
        facts = [
            ("transitions", f"{self.n_transitions:,}"),
            ("episodes", f"{self.n_episodes:,}"),
            ("actions never tried", f"{int(self.untried.sum()):,} of {self.untried.size:,}"),
            ("rewards", f"{self.reward.min():.4g} to {self.reward.max():.4g}"),
        ]
        return card("RecordedMDP", facts, sub=f"{self.n_states:,} states, {self.n_actions:,} actions")


class StepSums(NamedTuple):
    """Sums over drawn steps: outcomes, deviations of rewards from the mean of their row, and their squares."""

    counts: Floats
    total: Floats
    squares: Floats


class StepsByUnit(NamedTuple):
    """Recorded steps, unit by unit: whole episodes, or blocks of few long ones. First states are steps of the last row.

    Attributes
    ----------
    row, column : ndarray of int64, shape (n_steps,)
    apart : ndarray, shape (n_steps,)
        The reward minus the mean of its row, scaled to have the variance of a single reward.
    alone : ndarray, shape (n_steps,)
        Standard deviation of the reward in rows with a single visit, which does not show it; 0 in others.
    offsets : ndarray of int64, shape (n_units + 1,)
    """

    row: Ints
    column: Ints
    apart: Floats
    alone: Floats
    offsets: Ints

    @classmethod
    def of(
        cls, process: RecordedMDP, place: Ints, visits: Floats, rewards: Floats, variances: Floats, paid: Floats
    ) -> StepsByUnit:
        """The steps of a recording, with states at these places; visits, mean rewards and variances are of rows.

        Rewards are without what is `paid` for each transition, (n_rows, n_states).
        """
        T, bounds = process.n_transitions, process.offsets
        row, column = place[process.now] * process.n_actions + process.action, place[process.following]
        n = visits[row]
        apart = (process.reward - paid[row, column] - rewards[row]) * np.sqrt(n / np.maximum(n - 1.0, 1.0))
        alone = np.where(n == 1, np.sqrt(variances[row]), 0.0)
        if process.n_episodes < SEQUENCES:
            bounds = np.union1d(bounds, np.arange(0, T, max(_SHORTEST, T // MANY)))
        if not process.start_known:
            first = process.offsets[:-1]
            row = np.insert(row, first, len(visits) - 1)
            column = np.insert(column, first, place[process.now[first]])
            apart, alone = np.insert(apart, first, 0.0), np.insert(alone, first, 0.0)
            bounds = bounds + np.searchsorted(first, bounds)
        return cls(row, column, apart, alone, bounds)

    def drawn(self, rate: Floats, n_states: int, rng: np.random.Generator) -> StepSums:
        """Random units, as many as there are: a step of row r is drawn Poisson(rate[r]) times, with its whole unit."""
        n_units = len(self.offsets) - 1
        units = rng.integers(n_units, size=rng.poisson(n_units))
        # A step counts if the time of its unit is below the rate of its row, so that rates may differ.
        times, lengths = rng.random(len(units)), np.diff(self.offsets)[units]
        before = np.cumsum(lengths) - lengths
        steps = np.arange(lengths.sum()) + np.repeat(self.offsets[units] - before, lengths)
        steps = steps[np.repeat(times, lengths) < rate[self.row[steps]]]
        row, n_rows = self.row[steps], len(rate)
        apart = self.apart[steps] + self.alone[steps] * rng.normal(size=len(steps))
        counts = np.bincount(row * n_states + self.column[steps], minlength=n_rows * n_states)
        total: Floats = np.bincount(row, apart, n_rows).astype(np.float64)
        squares: Floats = np.bincount(row, apart**2, n_rows).astype(np.float64)
        return StepSums(counts.reshape(n_rows, n_states).astype(np.float64), total, squares)

    def squares(self, n_rows: int) -> Floats:
        """Sum over units of the squared number of steps of each row."""
        unit = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        keys, number = np.unique(unit * n_rows + self.row, return_counts=True)
        squares: Floats = np.bincount(keys % n_rows, number.astype(np.float64) ** 2, n_rows).astype(np.float64)
        return squares


def paid_of(sides: tuple[MDP, MDP], places: list[Ints], n: int) -> Floats:
    """How much more than the mean of its row each transition earns, on either side, (n_rows, n)."""
    m, parts = sides[0].n_actions, []
    for side, place in zip(sides, places, strict=True):
        if isinstance(side, RecordedMDP):
            seen = side.outcomes
            rows = place[seen.rows // m] * m + seen.rows % m
            parts.append((rows * n + place[seen.columns], seen.number, seen.reward, seen.squares))
    paid = np.zeros((n * m, n))
    if parts:
        keys, number, mean, squares = (np.concatenate(part) for part in zip(*parts, strict=True))
        steps, _ = StepRewards.joined(keys, number, mean, squares, n)
        paid[steps.now, steps.following] = steps.deviations(n * m)
    return paid


def plain(name: str, value: MDP) -> MDP:
    """A recorded process as its estimate, with a warning that the noise of the counts is in whatever follows."""
    if not isinstance(value, RecordedMDP):
        return value
    warn(Note("plugin-metric", name, n=value.n_transitions), DataWarning)
    return value.mdp()


def _column(name: str, values: Any) -> Column:
    """Labels; a table of integers is a column of tuples."""
    # Tensors convert themselves. Lists stay lists, as NumPy would turn mixed labels into text.
    array = values if isinstance(values, np.ndarray) or not hasattr(values, "__array__") else np.asarray(values)
    # Replay buffers often store a column as a table of width 1.
    if isinstance(array, np.ndarray) and array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if isinstance(array, np.ndarray) and array.ndim == 2 and array.dtype.kind in "iu":
        return _tuples(array.astype(np.int64))
    return column(name, array)


def _tuples(table: Array) -> list[Hashable]:
    """The rows as tuples, equal ones one object: distinct rows are found by numbers, which sort fast."""
    low = table.min(axis=0) if len(table) else np.zeros(table.shape[1], np.int64)
    spans = (table.max(axis=0) - low + 1).tolist() if len(table) else [1] * table.shape[1]
    # As floats, because a product of integers could overflow unnoticed.
    if np.prod([float(span) for span in spans]) >= 2**62:
        return [tuple(row) for row in table.tolist()]
    keys = np.zeros(len(table), np.int64)
    for k, span in enumerate(spans):
        keys = keys * span + (table[:, k] - low[k])
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    # An empty object array first: `np.array` would turn tuples of equal length into a table.
    names = np.empty(len(first), dtype=object)
    names[:] = [tuple(row) for row in table[first].tolist()]
    rows: list[Hashable] = names[place].tolist()
    return rows


def _check_lengths(columns: dict[str, Column], reward: Floats) -> None:
    n = len(columns["states"])
    if not n:
        raise ValueError("states: found no transition; at least one is needed")
    for name, values in (*columns.items(), ("rewards", reward)):
        if len(values) != n:
            raise ValueError(f"{name}: found {len(values)} entries for the {n} of states; pass one for each")


def _encode(
    columns: dict[str, Column], names: tuple[str, ...], kind: str, n: int | None
) -> tuple[list[Codes], tuple[Hashable, ...]]:
    """Codes of labels; with a number n, the labels are 0, ..., n - 1."""

    def place(k: int, row: int) -> str:
        return f"{names[k]}[{row}]"

    if n is None:
        return encode([columns[name] for name in names], None, place)
    check_count(f"n_{kind}s", n, at_most=10**9)
    for name in names:
        values = columns[name]
        if not isinstance(values, np.ndarray):
            raise TypeError(
                f"{name}: found labels such as {values[0]!r}, but n_{kind}s={n} expects integers; leave it out"
            )
        outside = np.flatnonzero((values < 0) | (values >= n))
        if len(outside):
            i = int(outside[0])
            raise ValueError(f"{name}[{i}]: found {kind} {values[i]}, expected 0 to {n - 1} (n_{kind}s={n})")
    return [np.asarray(columns[name]).astype(np.int32) for name in names], tuple(range(n))


def _with_end(
    labels: tuple[Hashable, ...], now: Codes, following: Codes, ended: Bools, fixed: bool
) -> tuple[tuple[Hashable, ...], Codes, Codes]:
    """Lead terminated steps to the additional state; states that occurred only after them are dropped unless fixed."""
    if not ended.any():
        return labels, now, following
    if END in labels:
        raise ValueError(
            f"states: {END!r} is the label of the state after terminated steps; rename the one in the data"
        )
    # Whatever was recorded after the end, often the first observation of the next episode, is not a successor.
    following = np.where(ended, np.int32(len(labels)), following)
    names = (*labels, END)
    # With a given number of states all are kept, so that recordings of one environment have the same states.
    if fixed:
        return names, now, following
    seen = np.zeros(len(names), np.bool_)
    seen[now] = seen[following] = True
    place = (np.cumsum(seen) - 1).astype(np.int32)
    return tuple(name for name, kept in zip(names, seen, strict=True) if kept), place[now], place[following]


def _ranked(keys: Ints, bound: int) -> tuple[Ints, Ints]:
    """The distinct keys in order and the place of each key among them; with a table where that is smaller."""
    # Sorting pays off only if the table would be much larger than the data.
    if bound > 4 * len(keys) + 1_000_000:
        distinct, place = np.unique(keys, return_inverse=True)
        return distinct, place
    seen = np.zeros(bound, np.bool_)
    seen[keys] = True
    distinct = np.flatnonzero(seen)
    place = np.zeros(bound, np.int64)
    place[distinct] = np.arange(len(distinct))
    return distinct, place[keys]
