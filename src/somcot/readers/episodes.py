"""Recorded episodes with actions, counted into a decision process."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from somcot.mdp import RecordedMDP
from somcot.mdp.recorded import END
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_labels
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note, Share
from somcot.readers.tables import Array
from somcot.readers.tables.state_labels import Bins
from somcot.recorded.labels import column, encode
from somcot.recorded.recording import EventTimes, RewardSums
from somcot.samples import Samples
from somcot.trajectories import Trajectories

__all__ = [
    "BinNumbers",
    "Episode",
    "Labelled",
    "Observations",
    "Space",
    "Transform",
    "check_actions",
    "join",
    "label",
    "to_mdp",
    "to_samples",
    "to_trajectories",
]


# --- From a column of state codes to `Samples`: the last step of every reader


def join(
    codes: Array,
    begins: Array,
    states: tuple[Hashable, ...],
    *,
    terminated: NDArray[np.bool_] | bool = False,
    rewards: Floats | None = None,
    times: EventTimes | None = None,
    source: str,
    sequence: str | None = None,
) -> Samples:
    """Turn concatenated sequences into episodes.

    Parameters
    ----------
    codes : ndarray of int, shape (n,)
        Indices of `states`, sequence after sequence.
    begins : ndarray of int, shape (m,)
        Start of each sequence, ascending, the first at 0.
    states : tuple of hashable
        Labels.
    terminated : bool or ndarray of bool, shape (m,)
        Which sequences terminated (reached an absorbing end).
    rewards : ndarray, shape (n,), optional
        Reward of each entry, which belongs to its state; NaN for no reward.
    times : EventTimes, optional
        Time of each entry.
    source : str
        Name of the data in messages.
    sequence : str, optional
        The column that identifies sequences, for messages.

    Examples
    --------
    >>> samples = join(np.array([0, 1, 1, 0, 0]), np.array([0, 3]), ("a", "b"), source="log.csv")
    >>> samples.counts().tolist(), samples.n_episodes
    ([[1, 1], [0, 1]], 2)
    """
    lengths = np.diff(begins, append=begins.dtype.type(len(codes)))
    # A sequence of one row has no step. It is counted and reported, not dropped silently.
    kept = lengths >= 2
    _report_short(source, len(lengths), int(np.count_nonzero(kept)), sequence)
    ends = np.full(len(lengths), terminated) if isinstance(terminated, bool) else terminated
    inside = np.ones(len(codes), dtype=np.bool_)
    # Everything but the last row of a sequence is a `now`, everything but the first a `following`; sequences of one row
    # are neither.
    inside[begins + lengths - 1] = False
    now, earned = codes[inside].astype(np.int32), None if rewards is None else rewards[inside]
    inside[:] = True
    inside[begins] = False
    return Samples(
        states,
        now,
        codes[inside].astype(np.int32),
        offsets=np.append(0, np.cumsum(lengths[kept] - 1, dtype=np.int64)),
        # None rather than all False, so that data without ends stay as small as before.
        terminated=ends[kept] if ends.any() else None,
        # Rewards belong to all rows, including those of sequences without a step.
        rewards=None if rewards is None else RewardSums.of(rewards, codes, len(states)),
        step_rewards=earned,
        times=None if times is None else times._replace(values=times.values[np.repeat(kept, lengths)]),
    )


def _report_short(source: str, n_given: int, n_kept: int, sequence: str | None) -> None:
    of = f" of column {sequence!r}" if sequence is not None else ""
    if n_kept == 0:
        raise ValueError(Note("no-step", source, sequences=f" (of {n_given} sequence(s){of})"))
    if n_kept >= n_given:
        return
    share = Share(n_given - n_kept, n_given)
    if sequence is None or 2 * share.n <= n_given:
        warn(Note("single-rows", source, share=share), DataWarning)
    else:
        warn(Note("mostly-single-rows", source, share=share, column=sequence), DataWarning)


# --- Episodes of observations as `Samples`: labels or bins, absorbing ends

Space: TypeAlias = Any  # a Gymnasium space
Observations: TypeAlias = Any  # an array, or a dictionary or tuple of them
Transform: TypeAlias = Callable[[Observations], ArrayLike] | None
BinNumbers: TypeAlias = int | Sequence[int] | Bins | None


@dataclass
class Episode:
    """T + 1 observations, T rewards, and how the episode ended."""

    observations: list[object]
    rewards: list[float] = field(default_factory=list)
    terminated: bool = False
    actions: list[object] = field(default_factory=list)


class Labelled(NamedTuple):
    """The states of all observations: codes, starts and lengths of episodes, and whether they terminated."""

    codes: Array
    labels: tuple[Hashable, ...]
    begins: NDArray[np.int64]
    lengths: NDArray[np.int64]
    ended: NDArray[np.bool_]


def to_samples(
    name: str, episodes: list[Episode], space: Space, bins: BinNumbers, transform: Transform, terminal: Hashable
) -> Samples:
    """Label the observations and join the episodes; arguments as for `from_env`."""
    # A reset without a step, as vectorised environments produce at the end of a recording.
    episodes = [e for e in episodes if e.rewards]
    codes, labels, begins, _, ended = label(name, episodes, space, bins, transform, terminal)
    # No reward is earned in the last observation; NaN is left out of the means.
    rewards = np.concatenate([[*e.rewards, np.nan] for e in episodes])
    return join(codes, begins, labels, terminated=ended, rewards=rewards, source=name)


def to_trajectories(name: str, episodes: list[Episode], transform: Transform, *, actions: bool = False) -> Trajectories:
    """The unchanged observations, flattened, with rewards, and actions if wanted; terminated episodes are marked."""
    stepped = [e for e in episodes if e.rewards]
    if not stepped:
        raise ValueError(f"{name}: no episode has a step; record longer")
    observations = _stacked(name, stepped)
    if observations.dtype.kind not in "biuf":
        raise ValueError(f"{name}: observations are text, not numbers; leave out vectors")
    values = np.asarray(observations if transform is None else transform(observations), dtype=np.float64)
    if values.shape[:1] != (len(observations),):
        raise ValueError(
            f"transform: returned shape {values.shape} for {len(observations)} observations, expected a row for each"
        )
    cuts = np.cumsum([len(e.observations) for e in stepped])[:-1]
    parts = np.split(values.reshape(len(values), -1), cuts)
    taken = [np.asarray(e.actions).reshape(len(e.actions), -1) for e in stepped] if actions else None
    return Trajectories.from_arrays(
        parts, terminated=[e.terminated for e in stepped], rewards=[e.rewards for e in stepped], actions=taken
    )


def label(
    name: str, episodes: list[Episode], space: Space, bins: BinNumbers, transform: Transform, terminal: Hashable
) -> Labelled:
    """The state of each observation; arguments as for `from_env`."""
    if not episodes:
        raise ValueError(f"{name}: no episode has a step; record longer")
    lengths = np.array([len(e.observations) for e in episodes])
    # Of all observations: an episode has one observation more than steps.
    begins = np.cumsum([0, *lengths[:-1]])
    ended = np.array([e.terminated for e in episodes])
    observations = _stacked(name, episodes)
    values = observations if transform is None else np.asarray(transform(observations))
    if values.shape[:1] != (len(observations),):
        raise ValueError(
            f"transform: returned shape {values.shape} for {len(observations)} observations, expected a row for each"
        )
    # A transform changes what the bounds of the space refer to, so they are no longer used.
    codes, labels = _states(name, values, space if transform is None else None, bins)
    if terminal is not False and ended.any():
        name_of_end = END if terminal is None else terminal
        codes, labels = _mark_ends(codes, labels, (begins + lengths - 1)[ended], name_of_end)
    return Labelled(codes, labels, begins, lengths, ended)


def _stacked(name: str, episodes: list[Episode]) -> Array:
    """All observations as one array, a row for each."""
    for i, episode in enumerate(episodes):
        if len(episode.observations) != len(episode.rewards) + 1:
            raise ValueError(
                f"{name}: episode {i} has {len(episode.observations)} observations and {len(episode.rewards)} rewards, "
                "expected one observation more than rewards"
            )
    try:
        stacked = np.stack([np.asarray(o) for e in episodes for o in e.observations])
    except ValueError:
        # Observations of different shapes fall through to the same error as objects.
        stacked = np.empty(0, dtype=object)
    if stacked.dtype.kind not in "biufUS":
        raise ValueError(
            f"{name}: observations are {type(episodes[0].observations[0]).__name__} objects, not arrays of one shape; "
            "wrap the environment so that it returns arrays"
        )
    return stacked


def _states(name: str, values: Array, space: Space, bins: BinNumbers) -> tuple[Array, tuple[Hashable, ...]]:
    if bins is not None:
        table = values.reshape(len(values), -1).astype(np.float64)
        return _seen(bins if isinstance(bins, Bins) else _grid(name, table, space, bins), table)
    # Floats that are all whole numbers are taken as labels.
    if values.dtype.kind == "f" and not (values == np.floor(values)).all():
        raise ValueError(
            f"{name}: observations are continuous; pass bins, such as bins=7, or vectors=True for Trajectories"
        )
    if values.ndim == 1:
        items: object = values
    else:
        items = list(map(tuple, values.reshape(len(values), -1).tolist()))
    (codes,), labels = encode([column(name, items)], None, lambda _, i: f"{name}: observation {i}")
    return codes, labels


def _grid(name: str, table: Floats, space: Space, n: int | Sequence[int]) -> Bins:
    """Equal bins over the bounds of the space; the range of the data would differ from recording to recording."""
    low = high = np.full(table.shape[1], np.inf)
    if space is not None and getattr(space, "low", None) is not None:
        low, high = np.ravel(space.low).astype(np.float64), np.ravel(space.high).astype(np.float64)
    bounded = (np.abs(low) < 1e30) & (np.abs(high) < 1e30)  # unbounded spaces may state the largest float
    if not bounded.all():
        ends = ([float(f"{v:.3g}") for v in side] for side in (table.min(axis=0), table.max(axis=0)))
        raise ValueError(
            f"bins: coordinate {int(np.argmin(bounded))} of the observations of {name} has no bounds, so {n} bins "
            "would depend on this recording, and two recordings would share no state; pass the same Bins for all, "
            f"such as Bins.uniform({', '.join(map(str, ends))}, {n}), the range of this one"
        )
    return Bins.uniform(low, high, n)


def _seen(bins: Bins, table: Floats) -> tuple[Array, tuple[Hashable, ...]]:
    """Codes among the bins that occur: a fine grid has far more bins than are visited."""
    cells, codes = np.unique(bins.codes(table), return_inverse=True)
    return codes, bins.labels_of(cells)


def _mark_ends(
    codes: Array, labels: tuple[Hashable, ...], ends: Array, terminal: Hashable
) -> tuple[Array, tuple[Hashable, ...]]:
    """Give the ends of terminated episodes a separate state, and drop states that occurred only there."""
    check_labels("terminal", [terminal])
    if terminal in labels:
        raise ValueError(f"terminal: {terminal!r} is a state of the data already; choose another label")
    marked = codes.astype(np.int64)
    marked[ends] = len(labels)
    # Renumbered, since a state that occurred only at ends has disappeared.
    kept, compact = np.unique(marked, return_inverse=True)
    names = (*labels, terminal)
    return compact, tuple(names[i] for i in kept)


# --- Recorded episodes with actions as a decision process


def check_actions(name: str, space: Space) -> int:
    """The number of actions of a discrete space."""
    n = getattr(space, "n", None)
    if n is None or getattr(space, "shape", ()) != ():
        raise ValueError(f"{name}: actions are {space}, expected a discrete space; wrap the environment")
    return int(n)


def to_mdp(name: str, episodes: list[Episode], labelled: Labelled, space: Space) -> RecordedMDP:
    """Every action in every state, counted; ends of terminated episodes are absorbing."""
    # Gymnasium's discrete spaces may begin at another number than 0.
    n_actions, first = check_actions(name, space), int(getattr(space, "start", 0))
    inner = np.ones(len(labelled.codes), dtype=np.bool_)
    inner[labelled.begins + labelled.lengths - 1] = False
    now = np.flatnonzero(inner)
    taken = np.concatenate([np.asarray(e.actions, dtype=np.int64) for e in episodes]) - first
    rewards = np.concatenate([np.asarray(e.rewards, dtype=np.float64) for e in episodes])
    s, t = (labelled.codes[k].astype(np.int32) for k in (now, now + 1))
    # Steps, not observations: an episode of n observations has n - 1.
    offsets = np.concatenate([[0], np.cumsum(labelled.lengths - 1)]).astype(np.int64)
    choices = tuple(range(first, first + n_actions))
    return RecordedMDP(labelled.labels, choices, (s, taken.astype(np.int32), t, rewards), offsets, None)
