"""Tests of "the same process?" for recordings of real vectors: on cells that do not know which episode is whose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from somcot.cells import Cells, PointCost
from somcot.continuous.fitting import check_recordings, discretise, scale_of
from somcot.inference import permutation
from somcot.inference.permutation import SameProcessResult
from somcot.plumbing.validation import check_discount, check_rng
from somcot.trajectories import Trajectories

__all__ = ["same_process"]

_WITHOUT_DISCOUNT = 0.95  # for the number of cells, where the statistic has none


def same_process(
    x: Any,
    y: Any,
    cost: PointCost = "euclidean",
    *,
    discount: float | None,
    scale: Any = "std",
    n_cells: int | str = "auto",
    rng: int | np.random.Generator | None = None,
    **options: Any,
) -> SameProcessResult:
    """See `somcot.same_process`; `scale` and `n_cells` as for `somcot.discretise`.

    Cells, their number and the scale are found for all recordings taken as one, so they would be the same however the
    episodes are dealt, and the level of the test is exact.
    """
    many = isinstance(x, (list, tuple))
    if many and y is not None:
        raise TypeError("y: x is a list of recordings already; put y into it, and name cost= and discount=")
    recordings = list(x) if many else [x, y]
    check_recordings(recordings, [f"x[{i}]" for i in range(len(recordings))] if many else ["x", "y"])
    if discount is not None:
        discount = check_discount(discount)
    generator = check_rng(0 if rng is None else rng)
    cells = _of_all(recordings, scale, n_cells, discount or _WITHOUT_DISCOUNT, int(generator.integers(2**31)))
    samples = [cells.samples(data) for data in recordings]
    first, second = (samples, None) if many else (samples[0], samples[1])
    return permutation.same_process(first, second, cells.cost(cost), discount=discount, rng=generator, **options)


def _of_all(recordings: Sequence[Trajectories], scale: Any, n_cells: int | str, discount: float, seed: int) -> Cells:
    divisor = scale_of(scale, recordings)
    ends = np.cumsum([0, *(data.boundaries[-1] for data in recordings)])
    together = Trajectories(
        np.concatenate([data.points for data in recordings]),
        np.concatenate([[0], *(data.boundaries[1:] + end for data, end in zip(recordings, ends[:-1], strict=True))]),
        np.concatenate([data.terminated for data in recordings]),
        recordings[0].names,
    )
    # In an order of their own, so that not even the random numbers of k-means tell whose an episode is.
    contents = [episode.tobytes() for episode in together.episodes]
    together = together.take(np.array(sorted(range(together.n_episodes), key=contents.__getitem__)))
    return discretise(together, n_cells=n_cells, scale=divisor, discount=discount, rng=seed)
