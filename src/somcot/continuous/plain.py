"""Cells alone: the distance of recordings counted on them, uncorrected, as often as it is needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from somcot.bellman.pairs import reachable_pairs
from somcot.cells import Cells, PointCost, apart, samples_of
from somcot.chains import Support
from somcot.inference.dealing import Deck
from somcot.inference.permutation import permutation_test
from somcot.plumbing.arrays import Codes, Floats
from somcot.problem import UnitProblem
from somcot.result import Status
from somcot.solvers.policy_iteration import iterate
from somcot.trajectories import Trajectories

__all__ = ["Counted", "null_distances", "pvalue", "raw"]

_TOLERANCE = 1e-6  # of the range of the cost; sampling noise is far larger


@dataclass(frozen=True, eq=False)
class Counted:
    """Two recordings on given cells, with centres averaged over their own points.

    Attributes
    ----------
    deck : Deck
        Both, episode by episode.
    cost : ndarray, shape (k, k)
        Between the centres.
    codes : tuple of ndarray
        Of all points.
    """

    deck: Deck
    cost: Floats
    codes: tuple[Codes, Codes]

    @classmethod
    def of(cls, cells: Cells, x: Trajectories, y: Trajectories, cost: PointCost) -> Counted:
        """Count."""
        sides = (x, y)
        codes = (cells.codes(x), cells.codes(y))
        k, every = cells.n_cells, np.concatenate(codes)
        size = np.bincount(every, minlength=k)[:, None]
        points = np.concatenate([data.points for data in sides])
        sums = np.stack([np.bincount(every, column, k) for column in points.T], axis=1)
        centres = np.where(size > 0, sums / np.maximum(size, 1), cells.centres)
        samples = [samples_of(c, data, k, ends=bool(cells.n_ends)) for c, data in zip(codes, sides, strict=True)]
        return cls(Deck.of(samples), apart(cost, centres, centres, cells.scale), codes)

    def observed(self, discount: float) -> float:
        """The distance of the two recordings as they are."""
        return self.distance(_kernels(self.deck, self.deck.observed), discount)

    def shares(self) -> Floats:
        """Share of the points of each recording in each cell, (2, k)."""
        return np.stack([np.bincount(codes, minlength=len(self.cost)) / len(codes) for codes in self.codes])

    def distance(self, kernels: tuple[Support, Support], discount: float) -> float:
        """Of two kernels on the cells, in the units of the cost."""
        least, spread = float(self.cost.min()), float(np.ptp(self.cost)) or 1.0
        problem = UnitProblem(*kernels, (self.cost - least) / spread, discount)
        found = iterate(problem, reachable_pairs(problem), threads=1, tolerance=_TOLERANCE)
        if found.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return least + spread * found.distance(discount)


def raw(cells: Cells, x: Trajectories, y: Trajectories, cost: PointCost, discount: float) -> float:
    """The distance of the chains that two recordings give on the cells: too high by noise, and off by the cells."""
    return Counted.of(cells, x, y, cost).observed(discount)


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
    """Permutation test of "the same process": whole episodes dealt anew, distances to first order.

    Exact level as long as the cells do not know which episode belongs to whom, as those fitted to both together do.
    """
    counted = Counted.of(cells, x, y, cost)
    pooled = counted.cost - counted.cost.min()
    unit = pooled / (pooled.max() or 1.0)
    sides = [cells.samples(data) for data in (x, y)]
    statistic, null = permutation_test(sides[0], sides[1], unit, discount, n_permutations, rng)
    return (1 + int((null >= statistic - 1e-9).sum())) / (n_permutations + 1)


def null_distances(
    cells: Cells, x: Trajectories, y: Trajectories, cost: PointCost, discount: float, *, n: int, seed: int
) -> Floats:
    """Distances of random regroupings of the episodes: what cells say where there is no difference at all."""
    counted = Counted.of(cells, x, y, cost)
    deck = counted.deck
    return np.array([counted.distance(_kernels(deck, deck.shuffled(seed, b)), discount) for b in range(n)])


def _kernels(deck: Deck, labels: np.ndarray[tuple[int], np.dtype[np.int64]]) -> tuple[Support, Support]:
    """The two chains, without the entries of probability 0, which only make the transport problems larger."""
    found = []
    for support in deck.kernels(labels):
        keep = support.probabilities > 0
        lengths = support.row_sums(keep.astype(np.int64))
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        found.append(Support(indptr, support.indices[keep], support.probabilities[keep]))
    return found[0], found[1]
