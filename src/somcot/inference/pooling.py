"""Pooled rows: an empirical-Bayes estimate that shrinks rows not distinguishable by the data towards each other.

Row x of X is tested against row x of Y, states matched by label, the initial row last. The statistics of all rows
determine how many rows are equal and how large the other differences are: T ~ (1 + lam) chi2(df) with
lam = tau^2 / noise, tau^2 = 0 or on a grid, weights by expectation-maximisation. Each pair of rows then keeps a share h
of its difference,

    h = sum_k w_k sqrt(lam_k / (lam_k + 1 - f_k / df)),     f = lam / (1 + lam),

the share that gives differences of the right *size*: near 0 the distance is homogeneous of degree 1, so a posterior
mean, which is smaller, would be biased (docs/statistics.md, "Pooled rows").
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.chains import Support
from somcot.compile.jit import kernel
from somcot.core.pairs import reachable_pairs
from somcot.inference.bias_correction import HALF_TOLERANCE, Plugin
from somcot.inference.model import Model
from somcot.plumbing.arrays import Floats
from somcot.problem import UnitProblem
from somcot.result import Status
from somcot.solvers.policy_iteration import iterate

__all__ = ["Homogeneity", "Pooled", "homogeneity", "kept_shares", "pool", "pooled_distance"]

LEAST = 0.5  # the smallest non-zero variance of a difference, in units of the median noise of a row
RATIO = 2.0  # ratio of neighbouring variances on the grid
LARGEST = 1e6  # larger statistics are truncated: the known side excludes an observation
ROUNDS, CHANGE = 500, 1e-5  # stopping rule of expectation-maximisation


class Homogeneity(NamedTuple):
    """Test of "row x is the same in both processes", one number per row.

    Attributes
    ----------
    statistic, df : ndarray
        Chi-squared and its degrees of freedom; 0 for rows that cannot be tested.
    noise : ndarray
        1/n + 1/m, the variance of the difference for one observation on each side.
    """

    statistic: Floats
    df: NDArray[np.int64]
    noise: Floats


class Pooled(NamedTuple):
    """Both kernels shrunk towards each other, on the union of their entries, in the order of X's states.

    Attributes
    ----------
    x, y : Support
    kept : ndarray, shape (n + 1,)
        The share of each row's difference that is kept, initial row last; 1 for rows that cannot be tested.
    equal : float
        Share of the tested rows that are judged equal; 0 if none can be tested.
    """

    x: Support
    y: Support
    kept: Floats
    equal: float


class _PooledSide(NamedTuple):
    """One process on the union of entries: counts, probabilities, totals and known rows."""

    counts: Floats
    probabilities: Floats
    totals: Floats
    known: NDArray[np.bool_]


def pool(x: Model, y: Model, order: NDArray[np.int64]) -> Pooled:
    """Shrink the rows of two processes towards each other as far as the data cannot distinguish them.

    Parameters
    ----------
    x, y : Model
        With the same states, in any order.
    order : ndarray of int, shape (n,)
        ``order[i]`` is the position among Y's states of X's state i.
    """
    n = x.chain.n_states
    place = np.empty(n + 1, dtype=np.int64)
    place[order], place[n] = np.arange(n), n
    keys_x = _keys(x.chain.support, np.arange(n + 1))
    keys_y = _keys(y.chain.support, place)
    # A key is row * n + column, so the sorted union is in the order of a CSR matrix.
    union = np.union1d(keys_x, keys_y)
    rows = union // n
    indptr = np.searchsorted(rows, np.arange(n + 2)).astype(np.int64)
    one, other = (_side(m, np.searchsorted(union, k), len(union), rows, to) for m, k, to in (
        (x, keys_x, np.arange(n + 1)), (y, keys_y, place)))  # fmt: skip
    homogeneous = homogeneity(one, other, indptr)
    kept, equal = kept_shares(homogeneous)
    supports = [Support(indptr, (union % n).astype(np.int32), p) for p in _pulled(one, other, kept[rows], rows)]
    return Pooled(x.with_start(supports[0]), y.with_start(supports[1]), kept, equal)


def pooled_distance(plugin: Plugin, pooled: Pooled, order: NDArray[np.int64], threads: int | None = None) -> float:
    """Distance of the pooled kernels, from the potential of the plug-in."""
    problem, solution = plugin.problem, plugin.solution
    task = UnitProblem(pooled.x, pooled.y, np.ascontiguousarray(problem.unit_cost[:, order]), problem.discount)
    # Pairs that only the union reaches start at the maximum: cheap ones would attract the first policy.
    guess = solution.pairs.table(solution.V, missing=float(solution.V.max()))[:, order]
    solved = iterate(task, reachable_pairs(task), threads=threads, guess=guess, tolerance=HALF_TOLERANCE)
    if solved.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return solved.distance(problem.discount)


def _keys(support: Support, place: NDArray[np.int64]) -> NDArray[np.int64]:
    """Row and column of every entry as one number, states renamed by `place`."""
    n = len(place) - 1
    return place[support.rows] * n + place[support.indices]


def _side(
    model: Model, at: NDArray[np.int64], size: int, rows: NDArray[np.int64], place: NDArray[np.int64]
) -> _PooledSide:
    counts, probabilities = np.zeros(size), np.zeros(size)
    counts[at], probabilities[at] = model.counts, model.chain.support.probabilities
    known = np.zeros(len(place), dtype=np.bool_)
    known[place] = model.known_rows
    return _PooledSide(counts, probabilities, np.bincount(rows, counts, len(place)).astype(np.float64), known)


def homogeneity(x: _PooledSide, y: _PooledSide, indptr: NDArray[np.int64]) -> Homogeneity:
    """Two-sample chi-squared of every row, times (N - 1) / N so that its mean under equality is exactly df.

    A row known on one side is tested against the counts of the other side alone.
    """
    first = indptr[:-1]
    spread = np.diff(indptr)
    n, m = x.totals, y.totals
    both = x.counts + y.counts
    N = np.maximum(n + m, 1.0)
    terms = np.zeros(len(both))
    for side in (x, y):
        expected = both * np.repeat(side.totals / N, spread)
        terms += np.divide((side.counts - expected) ** 2, expected, out=np.zeros(len(both)), where=expected > 0)
    T = np.add.reduceat(terms, first) * (N - 1.0) / N
    df = np.add.reduceat(both > 0, first) - 1
    noise = 1.0 / np.maximum(n, 1.0) + 1.0 / np.maximum(m, 1.0)
    tested = (n > 0) & (m > 0) & (df > 0)
    for known, side in ((x, y), (y, x)):
        alone = known.known & ~side.known & (side.totals > 0)
        if alone.any():
            against, free = _against_known(side, known.probabilities, first, spread)
            T, df = np.where(alone, against, T), np.where(alone, free, df)
            noise = np.where(alone, 1.0 / np.maximum(side.totals, 1.0), noise)
            tested = np.where(alone, free > 0, tested)
    return Homogeneity(np.where(tested, T, 0.0), np.where(tested, df, 0), np.where(tested, noise, 1.0))


def _against_known(
    side: _PooledSide, probabilities: Floats, first: NDArray[np.int64], spread: NDArray[np.int64]
) -> tuple[Floats, NDArray[np.int64]]:
    expected = probabilities * np.repeat(side.totals, spread)
    impossible = np.where(side.counts > 0, np.inf, 0.0)
    terms = np.divide((side.counts - expected) ** 2, expected, out=impossible, where=expected > 0)
    df: NDArray[np.int64] = np.add.reduceat((probabilities > 0) | (side.counts > 0), first) - 1
    return np.minimum(np.add.reduceat(terms, first), LARGEST), df


def kept_shares(tests: Homogeneity) -> tuple[Floats, float]:
    """The share of each row's difference to keep, and the share of tested rows judged equal.

    Examples
    --------
    >>> one_apart = Homogeneity(np.array([1.1, 0.7, 90.0, 1.3]), np.array([1, 1, 1, 1]), np.full(4, 0.01))
    >>> kept, equal = kept_shares(one_apart)
    >>> kept.round(2), round(equal, 2)
    (array([0.09, 0.07, 1.  , 0.1 ]), 0.68)
    """
    tested = tests.df > 0
    kept = np.ones(len(tests.df))
    if not tested.any():
        return kept, 0.0
    T, noise = tests.statistic[tested], tests.noise[tested]
    df = tests.df[tested].astype(np.float64)
    least = LEAST * float(np.median(noise))
    most = max(2.0 * float((T * noise / df).max()), 4.0 * least)
    n_sizes = int(np.ceil(np.log(most / least) / np.log(RATIO))) + 1
    variances = np.append(0.0, least * RATIO ** np.arange(n_sizes))
    shares, equal = np.empty(len(T)), np.empty(len(T))
    _empirical_bayes(T, df, noise, variances, ROUNDS, CHANGE, shares, equal)
    kept[tested] = shares
    return kept, float(equal.mean())


@kernel
def _empirical_bayes(T, df, noise, variances, rounds, change, shares, equal):
    """Estimate the weights of the variances from all rows, then each row's kept share and probability of equality."""
    n, K = T.size, variances.size
    like = np.empty((n, K))
    for x in range(n):
        top = -np.inf
        for k in range(K):
            lam = variances[k] / noise[x]
            like[x, k] = -0.5 * df[x] * np.log1p(lam) - 0.5 * T[x] / (1.0 + lam)
            top = max(top, like[x, k])
        for k in range(K):
            like[x, k] = np.exp(like[x, k] - top)
    weights = np.full(K, 0.5 / (K - 1))
    weights[0] = 0.5
    new = np.empty(K)
    for _ in range(rounds):
        new[:] = 0.0
        for x in range(n):
            total = 0.0
            for k in range(K):
                total += like[x, k] * weights[k]
            for k in range(K):
                new[k] += like[x, k] * weights[k] / total
        moved = 0.0
        for k in range(K):
            moved = max(moved, abs(new[k] / n - weights[k]))
            weights[k] = new[k] / n
        if moved < change:
            break
    for x in range(n):
        total = 0.0
        share = 0.0
        for k in range(K):
            lam = variances[k] / noise[x]
            weight = like[x, k] * weights[k]
            total += weight
            share += weight * np.sqrt(lam / (lam + 1.0 - lam / (1.0 + lam) / df[x]))
        shares[x] = share / total
        equal[x] = like[x, 0] * weights[0] / total


def _pulled(x: _PooledSide, y: _PooledSide, kept: Floats, rows: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Probabilities with the difference of each row shrunk around the weighted mean of the two rows."""
    n, m = x.totals[rows], y.totals[rows]
    middle = (n * x.probabilities + m * y.probabilities) / np.maximum(n + m, 1.0)
    middle = np.where(x.known[rows], x.probabilities, np.where(y.known[rows], y.probabilities, middle))
    one, other = (
        np.where(kept < 1.0, middle + kept * (side.probabilities - middle), side.probabilities) for side in (x, y)
    )
    return one, other
