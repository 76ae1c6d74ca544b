"""Recordings of real vectors: on cells that all share for what is counted and tested, as they are for distances."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from somcot.cells import PointCost
from somcot.inference.model import fit
from somcot.many.groups import Member
from somcot.plumbing.arrays import Floats
from somcot.samples import Samples
from somcot.trajectories import Trajectories

__all__ = ["APPROXIMATE", "Points", "Shared", "seconds_of", "shared"]

APPROXIMATE = "an approximation, which nothing vouches for"


class Points(NamedTuple):
    """How vectors are compared: what differences cost, what coordinates are divided by, and how many cells."""

    cost: PointCost
    scale: Floats
    n_cells: int | str


class Shared(NamedTuple):
    """Members on shared cells, the cost between these, and how their vectors are compared."""

    rows: list[Member]
    columns: list[Member]
    cost: Floats
    points: Points


def shared(
    given: Mapping[Hashable, Trajectories],
    across: Mapping[Hashable, Trajectories] | None,
    cost: PointCost,
    *,
    discount: float,
    seed: int,
    scale: Any = "std",
    n_cells: int | str = "auto",
) -> Shared:
    """Fit cells to all recordings together; `scale` and `n_cells` as for `somcot.discretise`."""
    from somcot.continuous.fitting import check_recordings, discretise, scale_of  # k-means, which chains do without

    sides = [("processes", given), *([] if across is None else [("others", across)])]
    data = [one for _, side in sides for one in side.values()]
    check_recordings(data, [f"{name}[{label!r}]" for name, side in sides for label in side])
    divisor = scale_of(scale, data)
    chosen: PointCost = "euclidean" if isinstance(cost, str) and cost == "labels" else cost
    cells = discretise(*data, n_cells=n_cells, scale=divisor, discount=discount, rng=seed)
    table = cells.cost(chosen)
    labels = [label for _, side in sides for label in side]
    found = [_member(*each) for each in zip(labels, cells.recordings, data, strict=True)]
    rows, columns = found[: len(given)], found[len(given) :]
    return Shared(rows, rows if across is None else columns, table, Points(chosen, divisor, n_cells))


def _member(label: Hashable, samples: Samples, data: Trajectories) -> Member:
    with warnings.catch_warnings():  # cells where this recording never is are nothing to speak of
        warnings.simplefilter("ignore")
        model = fit(samples)
    return Member(label, samples, model, np.empty((0, 0)), vectors=data)


def seconds_of(x: Trajectories, y: Trajectories) -> float:
    """About how long a pair takes on one core."""
    return 1.5 + 8e-6 * (x.n_transitions + y.n_transitions)
