"""Pooled rows: an empirical-Bayes estimate that shrinks rows not distinguishable by the data towards each other.

Row x of X is tested against row x of Y, states matched by label, the initial row last. The statistics of all rows
determine how many rows are equal and how large the other differences are: T ~ (1 + lam) chi2(df) with
lam = tau^2 / noise, tau^2 = 0 or on a grid, weights by expectation-maximisation. Each pair of rows then keeps a share h
of its difference,

    h = sum_k w_k sqrt(lam_k / (lam_k + 1 - f_k / df)),     f = lam / (1 + lam),

the share that gives differences of the right *size*: near 0 the distance is homogeneous of degree 1, so a posterior
mean, which is smaller, would be biased (docs/statistics.md).

In sequences with memory, the observations of a row are not independent. Mean and variance of each row's statistic over
permutations of whole sequences give its scale and its degrees of freedom, so no formula for the dependence is needed.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from somcot.compile.jit import kernel
from somcot.inference.statistics import RowMoments, RowTests
from somcot.plumbing.arrays import Floats

__all__ = ["Homogeneity", "Kept", "Prior", "calibrated", "design_effect", "kept_shares", "kept_shares_of_many"]

LEAST = 0.5  # the smallest non-zero variance of a difference, in units of the median noise of a row
RATIO = 2.0  # ratio of neighbouring variances on the grid
ROUNDS, CHANGE = 500, 1e-5  # stopping rule of expectation-maximisation
AGAIN, COARSE = 50, 1e-3  # the same for half-samples, which begin at the weights of all data
NEW = 0.01  # share of equal weights in that beginning


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
    df: Floats
    noise: Floats


class Prior(NamedTuple):
    """Variances of the differences of rows, 0 first, and the estimated share of the rows with each."""

    variances: Floats
    weights: Floats


class Kept(NamedTuple):
    """The share of each row's difference to keep, the share of tested rows judged equal, and the estimated prior."""

    shares: Floats
    equal: float
    prior: Prior


def design_effect(tests: RowTests, null: RowMoments) -> float:
    """Variance of the rows relative to independent transitions, all rows together; 1 for Markov chains.

    Also 1 if there is nothing to compare, or if no permutation differs from another.
    """
    tested = (tests.x > 0) & (tests.y > 0) & (tests.df > 0)
    total = float(null.mean[tested].sum())
    return total / float(tests.df[tested].sum()) if total > 0.0 else 1.0


def calibrated(tests: RowTests, null: RowMoments, effect: float) -> Homogeneity:
    """Row tests, of one draw or many, with scale and degrees of freedom from permutations: T / c ~ chi2(nu).

    `effect` is the design effect of all rows together.
    """
    tested = (tests.x > 0) & (tests.y > 0) & (tests.df > 0)
    mean = np.maximum(null.mean, 1e-9)
    scale = np.maximum(np.where(null.variance > 0, null.variance / (2.0 * mean), effect), 0.5 * effect)
    noise = scale * (1.0 / np.maximum(tests.x, 1.0) + 1.0 / np.maximum(tests.y, 1.0))
    return Homogeneity(
        np.where(tested, tests.statistic / scale, 0.0),
        np.where(tested, np.maximum(mean / scale, 0.5), 0.0),
        np.where(tested, noise, 1.0),
    )


def kept_shares(tests: Homogeneity) -> Kept:
    """The share of each row's difference to keep; rows that cannot be tested keep all of it.

    Examples
    --------
    >>> one_apart = Homogeneity(np.array([1.1, 0.7, 90.0, 1.3]), np.array([1, 1, 1, 1]), np.full(4, 0.01))
    >>> kept = kept_shares(one_apart)
    >>> kept.shares.round(2), round(kept.equal, 2)
    (array([0.09, 0.07, 1.  , 0.1 ]), 0.68)
    """
    tested = tests.df > 0
    if not tested.any():
        return Kept(np.ones(len(tests.df)), 0.0, Prior(np.zeros(1), np.ones(1)))
    T, noise, df = tests.statistic[tested], tests.noise[tested], tests.df[tested]
    least = LEAST * float(np.median(noise))
    most = max(2.0 * float((T * noise / df).max()), 4.0 * least)
    n_sizes = int(np.ceil(np.log(most / least) / np.log(RATIO))) + 1
    variances = np.append(0.0, least * RATIO ** np.arange(n_sizes))
    weights = np.full(n_sizes + 1, 0.5 / n_sizes)
    weights[0] = 0.5
    return _fitted(tests, Prior(variances, weights), ROUNDS, CHANGE)


def kept_shares_of_many(tests: Homogeneity, prior: Prior) -> Floats:
    """Kept shares of many draws, (n_draws, n_rows), for tests of that shape; `prior` is that of all data."""
    # Expectation-maximisation cannot raise a weight of 0, and another draw may need a variance that the data do not.
    start = prior._replace(weights=(1.0 - NEW) * prior.weights + NEW / len(prior.weights))
    draws = (Homogeneity(*row) for row in zip(*tests, strict=True))
    return np.stack([_fitted(draw, start, AGAIN, COARSE).shares for draw in draws])


def _fitted(tests: Homogeneity, start: Prior, rounds: int, change: float) -> Kept:
    """Estimate the weights of the variances, beginning at `start`, and the share that each row keeps."""
    tested = tests.df > 0
    T, noise, df = tests.statistic[tested], tests.noise[tested], tests.df[tested].astype(np.float64)
    kept, shares, equal, weights = np.ones(len(tested)), np.empty(len(T)), np.empty(len(T)), start.weights.copy()
    if len(T) and len(weights) > 1:
        _empirical_bayes(T, df, noise, start.variances, weights, rounds, change, shares, equal)
        kept[tested] = np.minimum(shares, 1.0)  # with less than one degree of freedom the formula may exceed 1
    return Kept(kept, float(equal.mean()) if len(T) else 0.0, start._replace(weights=weights))


@kernel
def _empirical_bayes(T, df, noise, variances, weights, rounds, change, shares, equal):
    """Improve the weights of the variances, then find each row's kept share and probability of equality."""
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
