"""Pooled rows: how much of the difference of each row is kept, learnt from all rows (empirical Bayes).

Rows that the data cannot tell apart are shrunk towards each other. A row keeps the share h of its difference that gives
it the right *size*: the distance is homogeneous of degree 1 near 0, so a posterior mean, which is smaller, is biased.

There are two priors. `kept_shares` takes differences to be normal, with variance tau^2, 0 or on a grid, so that the
test of a row is T ~ (1 + lam) chi2(df), lam = tau^2 / noise; then h = sum_k w_k sqrt(lam_k / (lam_k + 1 - f_k / df)),
f = lam / (1 + lam). `kept_sizes` has a prior of the size itself: T is noncentral chi-squared, and h the expected size
over the one observed. Normal differences vary more in size than rows that all changed a little, and the largest of them
over the actions of a decision process is too large. Weights of both priors are found by expectation-maximisation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from somcot.compile.jit import kernel, part
from somcot.inference.statistics import RowMoments, RowTests
from somcot.plumbing.arrays import Floats

__all__ = [
    "Homogeneity", "Kept", "Prior", "calibrated", "design_effect", "kept_shares", "kept_shares_of_many", "kept_sizes",
]  # fmt: skip

LEAST = 0.5  # smallest variance, or size, of a difference that is not 0, in units of the median noise of a row
RATIO = 2.0  # ratio of neighbouring variances on the grid
ROUNDS, CHANGE = 500, 1e-5  # stopping rule of expectation-maximisation
AGAIN, COARSE = 50, 1e-3  # the same for half-samples, which begin at the weights of all data
NEW = 0.01  # share of equal weights in that beginning
SIZES = 1.15  # ratio of neighbouring sizes
PLAIN = 100.0  # statistic, beyond its degrees of freedom, of differences that no prior would change
BEYOND = 10.0  # standard deviations between a statistic and a size that does not explain it


class Homogeneity(NamedTuple):
    """Test of each row, "the same in both processes?": chi-squared, its degrees of freedom (0: no test), 1/n + 1/m."""

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
    shares, equal = _fitted(*tests, variances, weights, ROUNDS, CHANGE)
    return Kept(shares, float(equal.mean()), Prior(variances, weights))


def kept_shares_of_many(tests: Homogeneity, prior: Prior) -> Floats:
    """Kept shares of many draws, (n_draws, n_rows), for tests of that shape; `prior` is that of all data."""
    # Expectation-maximisation cannot raise a weight of 0, and another draw may need a variance that the data do not.
    start = (1.0 - NEW) * prior.weights + NEW / len(prior.weights)
    draws = zip(*tests, strict=True)
    return np.stack([_fitted(*draw, prior.variances, start.copy(), AGAIN, COARSE)[0] for draw in draws])


def _fitted(
    statistic: Floats, df: Floats, noise: Floats, variances: Floats, weights: Floats, rounds: int, change: float
) -> tuple[Floats, Floats]:
    """Improve the weights of the variances in place; the share that each row keeps, and which tested rows are equal."""
    tested = df > 0
    kept, shares, equal = np.ones(len(tested)), np.empty(np.count_nonzero(tested)), np.empty(np.count_nonzero(tested))
    if len(shares) and len(weights) > 1:
        T, noise, df = statistic[tested], noise[tested], df[tested].astype(np.float64)
        _empirical_bayes(T, df, noise, variances, weights, rounds, change, shares, equal)
        kept[tested] = np.minimum(shares, 1.0)  # with less than one degree of freedom the formula may exceed 1
    return kept, equal


@kernel
def _empirical_bayes(T, df, noise, variances, weights, rounds, change, shares, equal):  # type: ignore[no-untyped-def]
    """Improve the weights of the variances, then find each row's kept share and probability of equality."""
    n, K = T.size, variances.size
    like = np.empty((n, K))
    for x in range(n):
        for k in range(K):
            lam = variances[k] / noise[x]
            like[x, k] = -0.5 * df[x] * np.log1p(lam) - 0.5 * T[x] / (1.0 + lam)
    _weigh(like, weights, rounds, change)
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


@part
def _weigh(like, weights, rounds, change):  # type: ignore[no-untyped-def]
    """Improve the weights in place; logarithms of likelihoods become likelihoods relative to the largest of a row."""
    n, K = like.shape
    for x in range(n):
        top = -np.inf
        for k in range(K):
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


def kept_sizes(tests: Homogeneity) -> Floats:
    """The share of each row's difference to keep, with a prior of sizes; rows that cannot be tested keep all of it.

    Examples
    --------
    Ten rows changed by as much as can be seen; chance, not change, makes their statistics differ.

    >>> T = np.array([1.1, 14.0, 9.0, 4.0, 20.0, 6.0, 12.0, 8.0, 5.0, 10.0])
    >>> kept_sizes(Homogeneity(T, np.full(10, 2), np.full(10, 0.01))).round(2)
    array([1.  , 0.71, 0.88, 1.  , 0.6 , 1.  , 0.77, 0.94, 1.  , 0.84])
    """
    kept = np.ones(len(tests.df))
    tested = np.flatnonzero(tests.df > 0)
    T, df, noise = (np.asarray(part, dtype=np.float64)[tested] for part in tests)
    # The mean of the size observed, given one that is large against the noise.
    kept[tested] = np.sqrt(np.clip(1.0 - (df - 1.0) / np.maximum(T, 1e-300), 0.0, 1.0))
    near = T - df <= PLAIN
    if not near.any():
        return kept
    T, df, noise = T[near], df[near], noise[near]
    seen = np.sqrt(T * noise)
    least = LEAST * float(np.sqrt(np.median(noise)))
    most = max(float(seen.max()), 2.0 * least)
    sizes = np.append(0.0, least * SIZES ** np.arange(np.ceil(np.log(most / least) / np.log(SIZES)) + 1))
    weights, expected = np.full(len(sizes), 0.5 / (len(sizes) - 1)), np.empty(len(T))
    weights[0] = 0.5
    _expected_sizes(T, df, noise, sizes, weights, expected)
    kept[tested[near]] = np.minimum(np.divide(expected, seen, out=np.ones(len(seen)), where=seen > 0), 1.0)
    return kept


@kernel
def _expected_sizes(T, df, noise, sizes, weights, expected):  # type: ignore[no-untyped-def]
    """Improve the weights of the sizes, then find the expected size of each row."""
    n, K = T.size, sizes.size
    like = np.empty((n, K))
    for x in range(n):
        for k in range(K):
            lam = sizes[k] * sizes[k] / noise[x]
            like[x, k] = -np.inf
            if np.sqrt(lam) <= np.sqrt(T[x]) + BEYOND:
                # Noncentral over central density: exp(-lam / 2) sum_j (lam T / 4)^j / ((df / 2)_j j!).
                q, term, total, shift, j = 0.25 * lam * T[x], 1.0, 1.0, 0.0, 0
                while term > 1e-17 * total:
                    term *= q / ((0.5 * df[x] + j) * (j + 1))
                    total += term
                    j += 1
                    if total > 1e200:
                        term, total, shift = term * 1e-200, total * 1e-200, shift + 200.0 * np.log(10.0)
                like[x, k] = np.log(total) + shift - 0.5 * lam
    _weigh(like, weights, ROUNDS, CHANGE)
    for x in range(n):
        total = 0.0
        mean = 0.0
        for k in range(K):
            weight = like[x, k] * weights[k]
            total += weight
            mean += weight * sizes[k]
        expected[x] = mean / total
