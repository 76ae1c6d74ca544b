"""Distances on cells, and tests of "the same process?" for recordings of real vectors on pooled cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from somcot.cells import Cells, PointCost, apart, samples_of
from somcot.chains import Support
from somcot.continuous.discretise import check_recordings, discretise, scale_of
from somcot.core.pairs import reachable_pairs
from somcot.inference import permutation
from somcot.inference.permutation import Groups, SameProcessResult
from somcot.inference.statistics import permute
from somcot.inference.units import WholeSequences
from somcot.plumbing.arrays import Codes, Floats, one_blas_thread
from somcot.plumbing.checks import check_discount, check_rng
from somcot.problem import UnitProblem
from somcot.result import Status
from somcot.solvers.policy_iteration import iterate
from somcot.trajectories import Trajectories

__all__ = [
    "CellCounts",
    "null_distances",
    "pvalue",
    "raw",
    "same_process",
]


# --- The uncorrected distance of recordings on cells

_TOLERANCE = 1e-6  # relative to the range of the cost; sampling noise is far larger


@dataclass(frozen=True, eq=False)
class CellCounts:
    """Two recordings on fixed cells, with centres averaged over their points.

    Attributes
    ----------
    pool : WholeSequences
        Both recordings, episode by episode.
    cost : ndarray, shape (k, k)
        Cost between the centres.
    codes : tuple of ndarray
        Cells of all points.
    """

    pool: WholeSequences
    cost: Floats
    codes: tuple[Codes, Codes]

    @classmethod
    def of(cls, cells: Cells, x: Trajectories, y: Trajectories, cost: PointCost) -> CellCounts:
        """Count."""
        sides = (x, y)
        codes = (cells.codes(x), cells.codes(y))
        k, every = cells.n_cells, np.concatenate(codes)
        size = np.bincount(every, minlength=k)[:, None]
        points = np.concatenate([data.points for data in sides])
        sums = np.stack([np.bincount(every, column, k) for column in points.T], axis=1)
        centres = np.where(size > 0, sums / np.maximum(size, 1), cells.centres)
        samples = [samples_of(c, data, k, ends=bool(cells.n_ends)) for c, data in zip(codes, sides, strict=True)]
        return cls(WholeSequences.of(samples), apart(cost, centres, centres, cells.scale), codes)

    def observed(self, discount: float) -> float:
        """The distance of the two observed recordings."""
        return self.distance(_kernels(self.pool, self.pool.observed), discount)

    def shares(self) -> Floats:
        """Share of the points of each recording in each cell, (2, k)."""
        return np.stack([np.bincount(codes, minlength=len(self.cost)) / len(codes) for codes in self.codes])

    def distance(self, kernels: tuple[Support, Support], discount: float) -> float:
        """The distance of two kernels on the cells, in the units of the cost."""
        least, spread = float(self.cost.min()), float(np.ptp(self.cost)) or 1.0
        problem = UnitProblem(*kernels, (self.cost - least) / spread, discount)
        solution = iterate(problem, reachable_pairs(problem), threads=1, tolerance=_TOLERANCE)
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return least + spread * solution.distance(discount)


def raw(cells: Cells, x: Trajectories, y: Trajectories, cost: PointCost, discount: float) -> float:
    """The distance of the chains on the cells: biased upward by noise, and by the size of the cells."""
    return CellCounts.of(cells, x, y, cost).observed(discount)


def pvalue(
    cells: Cells,
    x: Trajectories,
    y: Trajectories,
    cost: PointCost,
    discount: float,
    *,
    n_permutations: int = 39,
    rng: np.random.Generator,
) -> float:
    """Permutation test of "the same process": whole episodes permuted, first-order distances.

    The level is exact if the cells do not depend on which recording an episode belongs to, as for cells fitted to both.
    """
    counted = CellCounts.of(cells, x, y, cost)
    pooled = counted.cost - counted.cost.min()
    unit = pooled / (pooled.max() or 1.0)
    sides = [cells.samples(data) for data in (x, y)]
    groups = Groups(WholeSequences.of(sides), unit, discount)
    return permute(groups, int(rng.integers(2**62)), n_permutations, both=False, threads=1).pvalue


def null_distances(
    cells: Cells, x: Trajectories, y: Trajectories, cost: PointCost, discount: float, *, n: int, seed: int
) -> Floats:
    """Distances of random permutations of the episodes: the distance on cells without any difference."""
    counted = CellCounts.of(cells, x, y, cost)
    pool = counted.pool
    return np.array([counted.distance(_kernels(pool, pool.grouping(seed, b)), discount) for b in range(n)])


def _kernels(pool: WholeSequences, labels: np.ndarray[tuple[int], np.dtype[np.int64]]) -> tuple[Support, Support]:
    """The two chains, without entries of probability 0, which only enlarge the transport problems."""
    supports = []
    for row in pool.kernels(pool.counts(labels), pool.support.probabilities):
        support = Support(pool.support.indptr, pool.support.indices, row)
        keep = row > 0
        lengths = support.row_sums(keep.astype(np.int64))
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        supports.append(Support(indptr, support.indices[keep], support.probabilities[keep]))
    return supports[0], supports[1]


# --- Tests of "the same process?" on pooled cells

_WITHOUT_DISCOUNT = 0.95  # for the number of cells, if the statistic has no discount


@one_blas_thread
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

    The cells, their number and the scale are fitted to all recordings pooled, so they are invariant under permutation
    of the episodes, and the level of the test is exact.
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
    # Episodes are sorted, so that not even the random numbers of k-means depend on their recordings.
    contents = [episode.tobytes() for episode in together.episodes]
    together = together.take(np.array(sorted(range(together.n_episodes), key=contents.__getitem__)))
    return discretise(together, n_cells=n_cells, scale=divisor, discount=discount, rng=seed)
