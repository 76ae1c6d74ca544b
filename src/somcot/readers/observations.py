"""Episodes of observations become `Samples`: labels or bins, and ends that are absorbing or not."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.arrays import Floats
from somcot.plumbing.validation import check_labels
from somcot.readers.bins import Bins
from somcot.readers.episodes import join
from somcot.recorded.labels import column, encode
from somcot.samples import Samples
from somcot.trajectories import Trajectories

__all__ = ["Episode", "Labelled", "label", "to_samples", "to_trajectories"]


@dataclass
class Episode:
    """T + 1 observations, T rewards, and how it ended."""

    observations: list[Any]
    rewards: list[float] = field(default_factory=list)
    terminated: bool = False
    actions: list[Any] = field(default_factory=list)


class Labelled(NamedTuple):
    """The states of all observations in a row: codes, where episodes begin, how long they are, whether they ended."""

    codes: NDArray[Any]
    labels: tuple[Hashable, ...]
    begins: NDArray[np.int64]
    lengths: NDArray[np.int64]
    ended: NDArray[np.bool_]


def to_samples(name: str, episodes: list[Episode], space: Any, bins: Any, transform: Any, terminal: Any) -> Samples:
    """Label the observations and join the episodes; arguments as for `from_env`."""
    episodes = [e for e in episodes if e.rewards]
    codes, labels, begins, _, ended = label(name, episodes, space, bins, transform, terminal)
    rewards = np.concatenate([[*e.rewards, np.nan] for e in episodes])
    return join(codes, begins, labels, terminated=ended, rewards=rewards, source=name)


def to_trajectories(name: str, episodes: list[Episode], transform: Any) -> Trajectories:
    """The observations as they are, flat, with the ends of terminated episodes marked."""
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
    return Trajectories.from_arrays(parts, terminated=[e.terminated for e in stepped])


def label(name: str, episodes: list[Episode], space: Any, bins: Any, transform: Any, terminal: Any) -> Labelled:
    """The state of each observation; arguments as for `from_env`."""
    if not episodes:
        raise ValueError(f"{name}: no episode has a step; record longer")
    lengths = np.array([len(e.observations) for e in episodes])
    begins = np.cumsum([0, *lengths[:-1]])
    ended = np.array([e.terminated for e in episodes])
    observations = _stacked(name, episodes)
    values = observations if transform is None else np.asarray(transform(observations))
    if values.shape[:1] != (len(observations),):
        raise ValueError(
            f"transform: returned shape {values.shape} for {len(observations)} observations, expected a row for each"
        )
    codes, labels = _states(name, values, space if transform is None else None, bins)
    if terminal is None and bins is not None:
        terminal = "terminated"
    if terminal is not None and ended.any():
        codes, labels = _mark_ends(codes, labels, (begins + lengths - 1)[ended], terminal)
    return Labelled(codes, labels, begins, lengths, ended)


def _stacked(name: str, episodes: list[Episode]) -> NDArray[Any]:
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
        stacked = np.empty(0, dtype=object)
    if stacked.dtype.kind not in "biufUS":
        raise ValueError(
            f"{name}: observations are {type(episodes[0].observations[0]).__name__} objects, not arrays of one shape; "
            "pick numbers out of them before: wrap the environment"
        )
    return stacked


def _states(name: str, values: NDArray[Any], space: Any, bins: Any) -> tuple[NDArray[Any], tuple[Hashable, ...]]:
    if bins is not None:
        table = values.reshape(len(values), -1).astype(np.float64)
        return _seen(bins if isinstance(bins, Bins) else _grid(table, space, bins), table)
    if values.dtype.kind == "f" and not (values == np.floor(values)).all():
        raise ValueError(
            f"{name}: observations are continuous; pass bins, such as bins=7, or vectors=True for Trajectories"
        )
    if values.ndim == 1:
        items: Any = values
    else:
        items = list(map(tuple, values.reshape(len(values), -1).tolist()))
    (codes,), labels = encode([column(name, items)], None, lambda _, i: f"{name}: observation {i}")
    return codes, labels


def _grid(table: Floats, space: Any, n: Any) -> Bins:
    """Equal bins over the bounds of the space, or the range of the data where it is unbounded."""
    low, high = table.min(axis=0), table.max(axis=0)
    if space is not None and getattr(space, "low", None) is not None:
        bounds = np.ravel(space.low).astype(np.float64), np.ravel(space.high).astype(np.float64)
        finite = (np.abs(bounds) < 1e30).all(axis=0)  # unbounded spaces may state the largest float
        low, high = np.where(finite, bounds[0], low), np.where(finite, bounds[1], high)
    return Bins.uniform(low, high, n)


def _seen(bins: Bins, table: Floats) -> tuple[NDArray[Any], tuple[Hashable, ...]]:
    """Codes among the bins that occur: a fine grid has far more than are ever visited."""
    found, codes = np.unique(bins.codes(table), return_inverse=True)
    return codes, bins.labels_of(found)


def _mark_ends(
    codes: NDArray[Any], labels: tuple[Hashable, ...], ends: NDArray[Any], terminal: Hashable
) -> tuple[NDArray[Any], tuple[Hashable, ...]]:
    """Give the ends of terminated episodes a state of their own, and drop states that only occurred there."""
    check_labels("terminal", [terminal])
    if terminal in labels:
        raise ValueError(f"terminal: {terminal!r} is a state of the data already; choose another label")
    marked = codes.astype(np.int64)
    marked[ends] = len(labels)
    found, compact = np.unique(marked, return_inverse=True)
    names = (*labels, terminal)
    return compact, tuple(names[i] for i in found)
