"""Statistics for groups of episodes: Pearson's chi-squared of the rows, and the first-order distance.

At the pooled process, with V its metric and occ the occupancy of its coupling with itself (the diagonal if equal
states have minimum cost), the distance of two nearby kernels P and Q with initial distributions p, q is to first order

    (1 - discount) OT(p, q; V) + sum_xy occ(x, y) [c(x, y) + discount OT(P(.|x), Q(.|y); V) - V(x, y)].

It takes one transport problem per state instead of one per pair of states and iteration, and near equality, where a
test has to decide, it equals the distance. `LargestDifference` uses the statistic that is least likely under the null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from somcot.chains import Support
from somcot.core.pairs import Pairs, reachable_pairs
from somcot.core.sweep import Sweep, transport_values
from somcot.inference.pooled_episodes import AnyPool
from somcot.plumbing.arrays import Floats
from somcot.plumbing.linear_systems import Kernel, discounted_occupancy
from somcot.problem import UnitProblem
from somcot.result import Status
from somcot.solvers.policy_iteration import Solution, iterate

__all__ = [
    "METRIC_TOLERANCE",
    "LargestDifference",
    "Slope",
    "Statistic",
    "adjusted_pvalues",
    "exact",
    "loudest",
    "main_pearson",
    "pearson",
    "slope",
    "slope_at",
]

Statistic = Callable[[AnyPool, NDArray[np.int64]], float]

_NEGLIGIBLE = 1e-12  # occupancy below which a pair cannot move the statistic
METRIC_TOLERANCE = 1e-6  # of the pooled metric; any metric gives an exact test


def pearson(pool: AnyPool, labels: NDArray[np.int64]) -> float:
    """Chi-squared of "every group has the same rows", including initial distributions if they are estimated."""
    return _chi_squared(pool.counts(labels), pool.support)


def main_pearson(pool: AnyPool, labels: NDArray[np.int64]) -> float:
    """Chi-squared of the main entries of each row, those at least a twentieth as frequent as its largest.

    A copy with a few labels changed has new entries, all rare, and the same main entries.
    """
    support = pool.support
    largest = np.maximum.reduceat(support.probabilities, support.indptr[:-1])[support.rows]
    return _chi_squared(pool.counts(labels) * (support.probabilities >= largest / 20.0), support)


def _chi_squared(counts: Floats, support: Support) -> float:
    total = counts.sum(axis=0)
    shares = total / np.maximum(support.row_sums(total), 1.0)[support.rows]
    value = 0.0
    for group in counts:
        expected = support.row_sums(group)[support.rows] * shares
        seen = expected > 0
        value += float(((group[seen] - expected[seen]) ** 2 / expected[seen]).sum())
    return value


@dataclass(frozen=True, eq=False)
class Slope:
    """The first-order distance at the pooled process, for any grouping.

    Attributes
    ----------
    cost : ndarray, shape (n, n)
        Unit cost between the states of all recordings.
    V : ndarray, shape (n, n)
        Metric of the pooled process, scaled so that the distance is (1 - discount) V(initial pair).
    pairs : Pairs
        Pairs that its coupling with itself visits, with their `weight`.
    constant : float
        The sum of occ (c - V).
    """

    cost: Floats
    discount: float
    V: Floats
    pairs: Pairs
    weight: Floats
    constant: float

    def between(self, p: Support, q: Support) -> float:
        """The first-order distance of two kernels."""
        task = UnitProblem(_positive(p), _positive(q), self.cost, self.discount)
        moved = Sweep(task, self.pairs, threads=1).improve(self.V).high
        inner = float(self.weight @ moved[:-1])
        return self.constant + self.discount * inner + (1.0 - self.discount) * float(moved[-1])

    def of_many(self, support: Support, p: Floats, q: Floats) -> Floats:
        """The distances of many pairs of kernels on one support, one row of probabilities each, in one call."""
        n_kernels, n_rows = len(p), len(support.indptr) - 1
        rows = np.append(self.pairs.x, n_rows - 1), np.append(self.pairs.y, n_rows - 1)
        shift = n_rows * np.arange(n_kernels)[:, None]
        pair_x, pair_y = ((pairs + shift).ravel().astype(np.int32) for pairs in rows)
        moved = transport_values(self.V, _stacked(support, p), _stacked(support, q), pair_x, pair_y)
        moved = moved.reshape(n_kernels, -1)
        inner = (moved[:, :-1] * self.weight).sum(axis=1)
        return np.asarray(self.constant + self.discount * inner + (1.0 - self.discount) * moved[:, -1])

    def __call__(self, pool: AnyPool, labels: NDArray[np.int64]) -> float:
        """Two groups: their distance. More: the squared distances to the pooled process, weighted by size."""
        kernels = pool.kernels(labels)
        if pool.n_groups == 2:
            return self.between(kernels[0], kernels[1])
        return float(pool.shares @ np.array([self.between(kernel, pool.support) for kernel in kernels]) ** 2)


def slope(pool: AnyPool, cost: Floats, discount: float, threads: int | None = None) -> Slope:
    """Solve the pooled process against itself."""
    problem = UnitProblem(pool.support, pool.support, cost, discount)
    solution = _solve(problem, reachable_pairs(problem), threads)
    V = solution.pairs.table(solution.V)
    if cost.diagonal().max() == 0.0:
        return slope_at(V, pool.support, cost, discount)
    return _slope(V, solution.pairs.table(discounted_occupancy(*solution.sweep.kernel(), discount)), cost, discount)


def slope_at(V: Floats, pooled: Support, cost: Floats, discount: float) -> Slope:
    """`slope` if the metric of the pooled process is known and equal states cost 0: the coupling is the diagonal."""
    return _slope(V, np.diag(_occupancy(pooled, discount)), cost, discount)


def _slope(V: Floats, occupancy: Floats, cost: Floats, discount: float) -> Slope:
    x, y = np.nonzero(occupancy > _NEGLIGIBLE)
    index = np.full(cost.shape, -1, dtype=np.int32)
    index[x, y] = np.arange(len(x))
    weight = occupancy[x, y]
    pairs = Pairs(x.astype(np.int32), y.astype(np.int32), index)
    return Slope(cost, discount, V, pairs, weight, float(weight @ (cost[x, y] - V[x, y])))


@dataclass(frozen=True, eq=False)
class LargestDifference:
    """The largest of several statistics, each in standard deviations above its mean over permutations."""

    measures: Sequence[Statistic]
    mean: Floats
    spread: Floats

    def __call__(self, pool: AnyPool, labels: NDArray[np.int64]) -> float:
        """The statistic of one grouping."""
        values = np.array([measure(pool, labels) for measure in self.measures])
        return float(((values - self.mean) / self.spread).max())


def loudest(pool: AnyPool, measures: Sequence[Statistic], groupings: Sequence[NDArray[np.int64]]) -> LargestDifference:
    """Estimate means and deviations from random groupings, independent of the observed one: the test stays exact."""
    values = np.array([[measure(pool, labels) for measure in measures] for labels in groupings])
    spread = values.std(axis=0, ddof=1)
    return LargestDifference(measures, values.mean(axis=0), np.where(spread > 0, spread, 1.0))


def exact(pool: AnyPool, cost: Floats, discount: float, threads: int | None = None) -> float:
    """The statistic of `Slope` for the observed groups, with distances solved exactly."""
    kernels = pool.kernels(pool.observed)
    sides = [(kernels[0], kernels[1])] if pool.n_groups == 2 else [(kernel, pool.support) for kernel in kernels]
    values = []
    for p, q in sides:
        task = UnitProblem(_positive(p), _positive(q), cost, discount)
        values.append(_solve(task, reachable_pairs(task), threads, tolerance=0.0).distance(discount))
    return values[0] if pool.n_groups == 2 else float(pool.shares @ np.array(values) ** 2)


def _solve(problem: UnitProblem, pairs: Pairs, threads: int | None, tolerance: float = METRIC_TOLERANCE) -> Solution:
    solution = iterate(problem, pairs, threads=threads, tolerance=tolerance)
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return solution


def _occupancy(support: Support, discount: float) -> Floats:
    """Discounted occupancy of the states of one chain."""
    n, end = len(support.indptr) - 2, int(support.indptr[-2])
    start = np.zeros(n)
    start[support.indices[end:]] = support.probabilities[end:]
    kernel = Kernel(support.indptr[:-1], support.indices[:end], support.probabilities[:end])
    return discounted_occupancy(kernel, start, discount)


def _stacked(support: Support, shares: Floats) -> Support:
    """Kernels with the entries of one support laid end to end, without entries of probability 0."""
    keep = shares > 0
    lengths = np.add.reduceat(keep.astype(np.int64), support.indptr[:-1], axis=1)
    indptr = np.concatenate([[0], np.cumsum(lengths.ravel())]).astype(np.int64)
    return Support(indptr, np.broadcast_to(support.indices, shares.shape)[keep], shares[keep])


def _positive(support: Support) -> Support:
    """The support without entries of probability 0, which only enlarge the transport problems."""
    keep = support.probabilities > 0
    lengths = support.row_sums(keep.astype(np.int64))
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Support(indptr, support.indices[keep], support.probabilities[keep])


def adjusted_pvalues(pvalues: Floats, *, any_dependence: bool = False) -> Floats:
    """Benjamini and Hochberg's adjusted p-values; Benjamini and Yekutieli's hold for any dependence.

    Unknown p-values (NaN) stay unknown, and still count as tests.

    Examples
    --------
    >>> adjusted_pvalues(np.array([0.01, 0.04, 0.03]))
    array([0.03, 0.04, 0.04])
    """
    from scipy.stats import false_discovery_control  # slow to import and rarely needed

    unknown = np.isnan(pvalues)
    adjusted = false_discovery_control(np.where(unknown, 1.0, pvalues), method="by" if any_dependence else "bh")
    return np.where(unknown, np.nan, adjusted)
