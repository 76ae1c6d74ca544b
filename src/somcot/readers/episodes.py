"""From one long column of state codes, cut into sequences, to `Samples`: the last step of every reader."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.arrays import Floats
from somcot.plumbing.errors import DataWarning, warn
from somcot.recorded.recording import RewardSums
from somcot.samples import Samples

__all__ = ["join"]


def join(
    codes: NDArray[Any],
    begins: NDArray[Any],
    states: tuple[Hashable, ...],
    *,
    terminated: NDArray[np.bool_] | bool = False,
    rewards: Floats | None = None,
    source: str,
) -> Samples:
    """Turn sequences laid end to end into episodes.

    Parameters
    ----------
    codes : ndarray of int, shape (n,)
        Positions among `states`, sequence after sequence.
    begins : ndarray of int, shape (m,)
        Where each sequence begins, ascending, the first at 0.
    states : tuple of hashable
        Labels.
    terminated : bool or ndarray of bool, shape (m,)
        Which sequences ended for good.
    rewards : ndarray, shape (n,), optional
        Reward of each entry, which belongs to its state; NaN where there is none.
    source : str
        What to call the data in messages.

    Examples
    --------
    >>> samples = join(np.array([0, 1, 1, 0, 0]), np.array([0, 3]), ("a", "b"), source="log.csv")
    >>> samples.counts().tolist(), samples.n_episodes
    ([[1, 1], [0, 1]], 2)
    """
    lengths = np.diff(np.append(begins, len(codes)))
    kept = lengths >= 2
    _report_short(source, len(lengths), int(np.count_nonzero(kept)))
    is_last = np.zeros(len(codes), dtype=np.bool_)
    is_last[begins + lengths - 1] = True
    is_first = np.zeros(len(codes), dtype=np.bool_)
    is_first[begins] = True
    ends = np.full(len(lengths), terminated) if isinstance(terminated, bool) else terminated
    return Samples(
        states,
        codes[~is_last].astype(np.int32, copy=False),
        codes[~is_first].astype(np.int32, copy=False),
        offsets=np.concatenate([[0], np.cumsum(lengths[kept] - 1)]).astype(np.int64),
        terminated=ends[kept] if ends.any() else None,
        rewards=None if rewards is None else RewardSums.of(rewards, codes, len(states)),
    )


def _report_short(source: str, n_given: int, n_kept: int) -> None:
    if n_kept == 0:
        raise ValueError(
            f"{source}: no sequence has two rows, so there is no step to count ({n_given} sequence(s) found); "
            "check the sequence column, or record longer sequences"
        )
    if n_kept < n_given:
        warn(
            f"{source}: {n_given - n_kept:,} of {n_given:,} sequences have a single row, hence no step; dropped",
            DataWarning,
        )
