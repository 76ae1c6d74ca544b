"""Recorded data of a process whose states are vectors of real numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.arrays import Bools, Floats, Ints
from somcot.plumbing.checks import check_indices, check_labels, check_text, not_sparse, real_array, refuse_masks
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.html import Table, card
from somcot.plumbing.notes import Note, Share
from somcot.recorded.recording import episode_flags

__all__ = ["Trajectories", "needs_cells"]

# There is no way to fill in values: an interpolated point would add transitions that were never observed.
_GAPS = ("refuse", "cut")


@dataclass(frozen=True, eq=False, repr=False)
class Trajectories:
    """Recorded episodes of real vectors, stored consecutively; created by `from_arrays`.

    Attributes
    ----------
    points : ndarray, shape (n_points, d)
        The states of all episodes.
    boundaries : ndarray of int64, shape (n_episodes + 1,)
        Episode e holds the points ``boundaries[e]`` to ``boundaries[e + 1]``, at least two.
    terminated : ndarray of bool, shape (n_episodes,)
        Which episodes ended in an absorbing state: the process stays there.
    names : tuple of str
        Names of the d coordinates.
    period : ndarray, shape (d,), or None
        Period of each coordinate, infinite for those without; None if no coordinate is periodic.
    rewards : ndarray, shape (n_transitions,), or None
        Reward of each step, in the order of `now`.
    actions : ndarray, shape (n_transitions, k), or None
        Action of each step.

    Examples
    --------
    >>> import numpy as np
    >>> walk = np.random.default_rng(0).normal(size=(3, 11, 2)).cumsum(axis=1)
    >>> data = Trajectories.from_arrays(walk, names=["east", "north"])
    >>> data
    Trajectories(2 coordinates, 30 transitions, 3 episodes)
    >>> data.starts.shape, data.now.shape, data.lengths.tolist()
    ((3, 2), (30, 2), [10, 10, 10])
    """

    points: Floats
    boundaries: Ints
    terminated: Bools
    names: tuple[str, ...]
    period: Floats | None = None
    rewards: Floats | None = None
    actions: Floats | None = None

    def __post_init__(self) -> None:
        # Frozen like the dataclass: `now` and `following` are cached and would otherwise go stale.
        for array in (self.points, self.boundaries, self.terminated, self.rewards, self.actions):
            if array is not None:
                array.setflags(write=False)

    @classmethod
    def from_arrays(
        cls,
        arrays: Iterable[object],
        *,
        terminated: bool | Sequence[bool] | NDArray[np.bool_] = False,
        names: Iterable[str] | None = None,
        gaps: str = "refuse",
        period: Mapping[str, float] | None = None,
        rewards: Iterable[object] | None = None,
        actions: Iterable[object] | None = None,
    ) -> Trajectories:
        """Collect episodes given as arrays of numbers.

        Parameters
        ----------
        arrays : iterable of array_like, shape (T + 1, d) or (T + 1,)
            One array per episode, including the last state. Arrays with fewer than two rows contain no step; they are
            dropped with a `DataWarning`. One array of shape (n_episodes, T + 1, d) is also accepted.
        terminated : bool or sequence of bool, optional
            Whether the process terminated in the last state, for all episodes or for each. By default the recording
            stopped without termination.
        names : iterable of str, optional
            Names of the coordinates, by default x0, x1, ...
        gaps : {"refuse", "cut"}
            Treatment of missing values (NaN): raise an error that names the position, or split the episode there. The
            parts are separate episodes, and their first points count as initial states.
        period : mapping of str to float, optional
            Periodic coordinates by name, such as ``{"phi": 2 * pi}``: values that differ by a period are the same
            place, and differences are taken the short way round.
        rewards, actions : iterable of array_like, shape (T,) and (T,) or (T, k), optional
            For each episode one reward, one action, for each step.

        Examples
        --------
        >>> turning = Trajectories.from_arrays([[0.1, 6.2, 0.05]], names=["phi"], period={"phi": 6.28})
        >>> turning.period.tolist()
        [6.28]
        >>> data = Trajectories.from_arrays([[0.1, 0.3, float("nan"), 0.2, 0.4]], gaps="cut")
        >>> [episode.ravel().tolist() for episode in data.episodes]
        [[0.1, 0.3], [0.2, 0.4]]
        """
        check_text("gaps", gaps, *_GAPS)
        rows = _checked(arrays)
        flags = episode_flags(terminated, len(rows))
        ended = np.zeros(len(rows), np.bool_) if flags is None else np.array(flags)
        # Every input is cut first and counted afterwards, so that the warning can say how much was lost.
        pieces = [piece for i, array in enumerate(rows) for piece in _pieces(i, array, bool(ended[i]), gaps)]
        # Rewards and actions are one per step: after a cut it is unclear to which part a step over the gap belongs.
        if gaps == "cut" and len(pieces) > len(rows) and (rewards is not None or actions is not None):
            raise ValueError("gaps: found missing values to cut at, with rewards or actions; split the episodes first")
        # A single point has no step and therefore no information about the dynamics.
        kept = [piece for piece in pieces if len(piece[0]) > 1]
        _report_dropped(len(rows), len(pieces), len(kept))
        d = kept[0][0].shape[1]
        labels = [f"x{k}" for k in range(d)] if names is None else list(not_sparse("names", names))
        lengths = [len(piece) for piece, _ in kept]
        coordinates = tuple(str(name) for name in check_labels("names", labels, d, "coordinate"))
        return cls(
            np.concatenate([piece for piece, _ in kept]),
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            np.array([end for _, end in kept]),
            coordinates,
            _periods(period, coordinates),
            # One value per step: the trailing dimension that `_numbers` adds is removed.
            None if rewards is None else _per_step("rewards", rewards, rows)[:, 0],
            None if actions is None else _per_step("actions", actions, rows),
        )

    @property
    def d(self) -> int:
        """Number of coordinates of a state."""
        return int(self.points.shape[1])

    @property
    def n_episodes(self) -> int:
        """Number of episodes."""
        return len(self.boundaries) - 1

    @property
    def n_transitions(self) -> int:
        """Number of recorded steps."""
        return len(self.points) - self.n_episodes

    @property
    def lengths(self) -> Ints:
        """Number of steps of each episode."""
        return np.diff(self.boundaries) - 1

    @property
    def episodes(self) -> list[Floats]:
        """Each episode's points, (T + 1, d)."""
        return np.split(self.points, self.boundaries[1:-1])

    @property
    def starts(self) -> Floats:
        """First points, (n_episodes, d)."""
        return self.points[self.boundaries[:-1]]

    @property
    def ends(self) -> Floats:
        """Last points of the terminated episodes."""
        return self.points[self.boundaries[1:][self.terminated] - 1]

    @cached_property
    def now(self) -> Floats:
        """Starting points of the steps, (n_transitions, d)."""
        # Points are stored once; the pairs of a step are the same points without each episode's last, or first, one.
        return np.delete(self.points, self.boundaries[1:] - 1, axis=0)

    @cached_property
    def following(self) -> Floats:
        """End points of the steps, in the order of `now`."""
        return np.delete(self.points, self.boundaries[:-1], axis=0)

    def take(self, episodes: Ints) -> Trajectories:
        """Select episodes by index, in that order; repeated indices count repeatedly.

        Examples
        --------
        >>> import numpy as np
        >>> data = Trajectories.from_arrays([[0.0, 1.0], [2.0, 3.0, 4.0]])
        >>> data.take(np.array([1, 1])).points.ravel().tolist()
        [2.0, 3.0, 4.0, 2.0, 3.0, 4.0]
        """
        episodes = check_indices("episodes", episodes, self.n_episodes)
        lengths = np.diff(self.boundaries)[episodes]
        boundaries = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        # Indices of all selected points at once: position within the new array plus the shift of its episode.
        rows = np.arange(boundaries[-1]) + np.repeat(self.boundaries[:-1][episodes] - boundaries[:-1], lengths)
        before = self.boundaries[:-1] - np.arange(self.n_episodes)  # first step of each episode
        # The same for steps, of which each episode has one fewer than points.
        ends = np.cumsum(lengths - 1)
        steps = np.arange(ends[-1] if len(ends) else 0) + np.repeat(
            before[episodes] - (ends - lengths + 1), lengths - 1
        )
        return Trajectories(
            self.points[rows], boundaries, self.terminated[episodes], self.names, self.period,
            None if self.rewards is None else self.rewards[steps],
            None if self.actions is None else self.actions[steps],
        )  # fmt: skip

    def mapped(self, function: Callable[[Floats], Floats]) -> Trajectories:
        """Apply a function to the points; it takes and returns all of them, (n_points, d).

        Periods are kept, so the function may shift periodic coordinates but not stretch them; if it changes the number
        of coordinates, none of the new ones is periodic.

        Examples
        --------
        >>> Trajectories.from_arrays([[0.0, 1.0]]).mapped(lambda points: points + 0.5).points.ravel().tolist()
        [0.5, 1.5]
        """
        points = np.ascontiguousarray(real_array("function", function(self.points), 2))
        # With another number of coordinates the old names and periods would refer to the wrong ones.
        if points.shape[1] == self.d:
            return replace(self, points=points)
        return replace(self, points=points, names=tuple(f"x{k}" for k in range(points.shape[1])), period=None)

    def __repr__(self) -> str:
        coordinates = "1 coordinate" if self.d == 1 else f"{self.d} coordinates"
        return f"Trajectories({coordinates}, {self.n_transitions} transitions, {self.n_episodes} episodes)"

    def _repr_html_(self) -> str:
        facts = [
            ("transitions", f"{self.n_transitions:,}"),
            ("episodes", f"{self.n_episodes:,}, of which {int(self.terminated.sum()):,} terminated"),
        ]
        rows = [
            (name, f"{column.mean():.4g}", f"{column.std():.4g}", f"{column.min():.4g}", f"{column.max():.4g}")
            for name, column in zip(self.names, self.points.T, strict=True)
        ]
        head = ("coordinate", "mean", "standard deviation", "least", "most")
        return card("Trajectories", facts, Table(head, rows, "lrrrr"))


def _periods(period: object, names: tuple[str, ...]) -> Floats | None:
    """Periods as an array, infinite for coordinates without one."""
    if period is None:
        return None
    if not isinstance(period, Mapping):
        raise TypeError(f"period: found {type(period).__name__}, expected a mapping such as {{{names[0]!r}: 6.28}}")
    # Infinity means "not periodic", so that one array describes all coordinates.
    periods = np.full(len(names), np.inf)
    for name, value in period.items():
        if name not in names:
            raise ValueError(f"period: found {name!r}, which is not a coordinate; these are {', '.join(names)}")
        # True would pass as the number 1.
        if isinstance(value, (bool, str)) or not (np.isscalar(value) and 0.0 < float(value) < np.inf):  # type: ignore[arg-type]
            raise ValueError(f"period[{name!r}]: found {value!r}, expected a finite number above 0")
        periods[names.index(name)] = value
    # An empty mapping is the same as none, so that non-periodic data take the faster path.
    return periods if period else None


def needs_cells(process: object) -> str:
    """Advice to append to an error message if `process` holds real vectors instead of labels; otherwise empty.

    Examples
    --------
    >>> needs_cells(Trajectories.from_arrays([[0.0, 1.0]]))
    '; somcot.discretise(*recordings) puts real vectors into shared cells: give its .recordings, cost=cells.cost()'
    """
    if not isinstance(process, Trajectories):
        return ""
    return (
        "; somcot.discretise(*recordings) puts real vectors into shared cells: give its .recordings, cost=cells.cost()"
    )


def _checked(arrays: object) -> list[Floats]:
    """Each episode as (T + 1, d) floats with a common d; missing values are kept."""
    if isinstance(arrays, (str, bytes, Mapping)) or not isinstance(arrays, Iterable):
        raise TypeError(f"arrays: found {type(arrays).__name__}, expected a list of arrays, one per episode")
    # A 2-D array would be read as episodes of one coordinate each, without an error but with a wrong meaning.
    if getattr(arrays, "ndim", 3) in (1, 2):
        raise ValueError(
            f"arrays: found one array of shape {arrays.shape}, expected a list with one per episode; "  # type: ignore[attr-defined]
            "for a single episode pass [array]"
        )
    rows = [_numbers(f"arrays[{i}]", array) for i, array in enumerate(arrays)]
    if not rows:
        raise ValueError("arrays: found no episode, expected at least one array of numbers")
    for i, array in enumerate(rows):
        if array.shape[1] != rows[0].shape[1]:
            raise ValueError(
                f"arrays[{i}]: found {array.shape[1]} coordinates, but arrays[0] has {rows[0].shape[1]}; "
                "all episodes must have the same"
            )
    return rows


def _numbers(name: str, values: object) -> Floats:
    refuse_masks(name, values)
    try:
        array = np.asarray(values)
        # Through objects: a direct cast would drop imaginary parts and turn dates into numbers.
        array = array if array.dtype.kind in "biuf" else np.asarray(array.astype(object), dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: found entries that are not numbers, or rows of different lengths") from None
    # Booleans would become 0.0 and 1.0, two points of the real line, although they name states.
    if array.dtype.kind == "b":
        raise TypeError(f"{name}: found True and False, which are labels; use Samples.from_trajectories")
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"{name}: found shape {array.shape}, expected (T + 1, d), or (T + 1,) for one coordinate")
    # A copy, as the array is made read-only and the caller's must stay writable.
    return np.array(array, dtype=np.float64, order="C")


def _per_step(name: str, values: Iterable[object], rows: list[Floats]) -> Floats:
    """One row of numbers for each step of all episodes that have one."""
    given = list(not_sparse(name, values))
    if len(given) != len(rows):
        raise ValueError(f"{name}: found {len(given)} arrays for {len(rows)} episodes; pass one for each")
    parts = []
    for i, (part, row) in enumerate(zip(given, rows, strict=True)):
        # Episodes without a step are dropped from the points too, so both stay aligned.
        if len(row) < 2:
            continue
        parts.append(array := _numbers(f"{name}[{i}]", part))
        if len(array) != len(row) - 1:
            raise ValueError(f"{name}[{i}]: found {len(array)} rows for {len(row) - 1} steps; pass one for each")
        if not np.isfinite(array).all():
            raise ValueError(
                f"{name}[{i}]: row {int(np.argwhere(~np.isfinite(array))[0, 0])} is not finite; replace it"
            )
    return np.concatenate(parts)


def _pieces(i: int, array: Floats, ended: bool, gaps: str) -> list[tuple[Floats, bool]]:
    """Split an episode at missing values; only the last part can be terminated."""
    missing = np.isnan(array)
    _refuse(i, np.isinf(array), "infinite; remove or replace it")
    if gaps == "refuse":
        for row, column in np.argwhere(missing)[:1].tolist():
            raise ValueError(Note("missing-values", f"arrays[{i}]", row=row, column=column))
    holes = np.flatnonzero(missing.any(axis=1))
    if not len(holes):
        return [(array, ended)]
    # Each missing row becomes a part of its own, which the next line removes.
    inner = np.split(array, np.unique(np.concatenate([holes, holes + 1])))
    parts = [part for part in inner if len(part) and not np.isnan(part).any()]
    last = ended and holes[-1] < len(array) - 1  # if the last point is missing, termination is unknown
    return [(part, last and part is parts[-1]) for part in parts] or [(array[:0], False)]


def _refuse(i: int, bad: Bools, finding: str) -> None:
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(f"arrays[{i}]: row {row}, coordinate {column} is {finding}")


def _report_dropped(n_given: int, n_pieces: int, n_kept: int) -> None:
    if not n_kept:
        raise ValueError(f"arrays: none of the {n_given} episodes has a step; at least two rows make one")
    if n_kept < n_pieces:
        n = n_pieces - n_kept
        warn(Note("short-pieces", "arrays", share=Share(n, n_pieces)), DataWarning)
