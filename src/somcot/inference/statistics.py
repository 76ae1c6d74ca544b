"""Statistics of groups of units: the distance to first order, and chi-squared; permutation tests; pooled rows.

With V the potential at the centre and occ the occupancy of its optimal coupling, the distance of two nearby kernels P
and Q with initial distributions p, q is to first order

    (1 - discount) OT(p, q; V) + sum_xy occ(x, y) [c(x, y) + discount OT(P(.|x), Q(.|y); V) - V(x, y)].

It takes one transport problem per pair that the coupling visits, and no iteration. The transport problems are solved
exactly, so the kink of the distance at equal rows is kept. At a pooled process, where the coupling is the diagonal (if
equal states have minimum cost), this is one transport problem per state; near equality, where a test has to decide, it
equals the distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from somcot.chains import Support
from somcot.compile.jit import kernel
from somcot.core.pairs import reachable_pairs, thread_count
from somcot.core.sweep import transport_values
from somcot.plumbing.arrays import Floats, Ints
from somcot.plumbing.linear_systems import Kernel, discounted_occupancy
from somcot.problem import UnitProblem
from somcot.result import Status
from somcot.solvers.policy_iteration import Solution, iterate

__all__ = [
    "FIRST_REFERENCE", "Expansion", "Homogeneity", "Kept", "Permuted", "Prior", "RowMoments", "RowTests", "Statistics",
    "Subject", "adjusted_pvalues", "against_known", "calibrated", "chi_squared", "design_effect", "drawn_rows",
    "kept_shares", "kept_shares_of_many", "main_entries", "permute", "row_tests",
]  # fmt: skip

_TOLERANCE = 1e-6  # of the solution at the centre, relative to the range of the cost; sampling noise is far larger
_NEGLIGIBLE = 1e-12  # occupancy below which a pair cannot move the value
_AT_ONCE = 200_000  # transport problems in one compiled call
_EXCLUDED = 1e6  # statistic of a row with a transition that a known chain excludes


@dataclass(frozen=True, eq=False)
class Expansion:
    """The first-order distance at a centre.

    Attributes
    ----------
    value : float
        The distance at the centre.
    V : ndarray, shape (n_x, n_y)
        Its potential, scaled so that the distance is (1 - discount) V(initial pair).
    x, y : ndarray of int32, shape (n_pairs,)
        Pairs that the coupling visits, with their occupancy `weight`.
    constant : float
        The sum of occ (c - V).
    """

    value: float
    discount: float
    V: Floats
    x: NDArray[np.int32]
    y: NDArray[np.int32]
    weight: Floats
    constant: float

    @classmethod
    def at(
        cls, x: Support, y: Support, cost: Floats, discount: float, *, left_out: float = 0.0, exact: bool = False
    ) -> Expansion:
        """Solve the distance of two kernels, to rounding if `exact`; the last `left_out` of the occupancy is left out.

        Leaving out is exact at the centre, because c - V + discount OT = 0 there for every pair.
        """
        problem = UnitProblem(_positive(x), _positive(y), cost, discount)
        solution = iterate(problem, reachable_pairs(problem), threads=1, tolerance=0.0 if exact else _TOLERANCE)
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return cls.of(solution, cost, discount, left_out=left_out)

    @classmethod
    def of(cls, solution: Solution, cost: Floats, discount: float, *, left_out: float = 0.0) -> Expansion:
        """The expansion at a problem that is solved already."""
        pairs = solution.pairs
        occupancy = discounted_occupancy(*solution.sweep.kernel(), discount)
        order = np.argsort(-occupancy, kind="stable")
        enough = int(np.searchsorted(np.cumsum(occupancy[order]), (1.0 - left_out) * occupancy.sum()))
        kept = np.sort(order[: enough + 1])
        kept = kept[occupancy[kept] > _NEGLIGIBLE]
        # Pairs that only resampled kernels reach have the largest potential, so that no plan is attracted to them.
        V = pairs.table(solution.V, missing=float(solution.V.max(initial=0.0)))
        return _expansion(
            solution.distance(discount), discount, V, (pairs.x[kept], pairs.y[kept]), occupancy[kept], cost
        )

    @classmethod
    def pooled(cls, support: Support, cost: Floats, discount: float) -> Expansion:
        """The expansion at a process compared with itself; the coupling is the diagonal if that costs least."""
        solved = cls.at(support, support, cost, discount)
        if cost.diagonal().max() > 0.0:
            return solved
        occupancy = _occupancy(support, discount)
        states = np.flatnonzero(occupancy > _NEGLIGIBLE).astype(np.int32)
        return _expansion(0.0, discount, solved.V, (states, states), occupancy[states], cost)

    def values(self, x: Support, p: Floats, y: Support, q: Floats) -> Floats:
        """First-order distances of many pairs of kernels: probabilities on the entries of `x` and `y`, one row each."""
        n_pairs = len(self.x) + 1
        step = max(_AT_ONCE // n_pairs, 1)
        return np.concatenate(
            [self._some(x, p[k : k + step], y, q[k : k + step]) for k in range(0, len(p), step)] or [np.empty(0)]
        )

    def _some(self, x: Support, p: Floats, y: Support, q: Floats) -> Floats:
        rows = [
            (np.append(pairs, len(side.indptr) - 2) + (len(side.indptr) - 1) * np.arange(len(p))[:, None])
            .ravel()
            .astype(np.int32)
            for pairs, side in ((self.x, x), (self.y, y))
        ]
        moved = transport_values(self.V, _stacked(x, p), _stacked(y, q), rows[0], rows[1]).reshape(len(p), -1)
        inner = (moved[:, :-1] * self.weight).sum(axis=1)
        return np.asarray(self.constant + self.discount * inner + (1.0 - self.discount) * moved[:, -1])

    def mean(self, tables: Floats) -> Floats:
        """Means of tables over pairs of states, (..., n_x, n_y), under the occupancy of the coupling."""
        means: Floats = tables[..., self.x, self.y] @ self.weight
        return means


def _expansion(
    value: float,
    discount: float,
    V: Floats,
    pairs: tuple[NDArray[np.int32], NDArray[np.int32]],
    weight: Floats,
    cost: Floats,
) -> Expansion:
    return Expansion(value, discount, V, *pairs, weight, float(weight @ (cost[pairs] - V[pairs])))


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
    return _stacked(support, support.probabilities[None, :])


# --- Chi-squared of the rows


@dataclass(frozen=True)
class RowTests:
    """Two-sample chi-squared of every row, for one grouping or many.

    Attributes
    ----------
    statistic : ndarray, shape (..., n_rows)
        Times (N - 1) / N, so that its mean under exchangeable transitions is exactly `df`.
    df : ndarray, shape (n_rows,)
    x, y : ndarray, shape (..., n_rows)
        Number of observations in each group.
    """

    statistic: Floats
    df: Floats
    x: Floats
    y: Floats


def row_tests(support: Support, x: Floats, y: Floats) -> RowTests:
    """Compare the rows of two groups; `x` and `y` are counts, (..., n_entries)."""

    def by_row(values: Floats) -> Floats:
        sums: Floats = np.add.reduceat(values, support.indptr[:-1], axis=-1)
        return sums

    both = x + y
    n, m = by_row(x), by_row(y)
    total = np.maximum(n + m, 1.0)
    terms = np.zeros(both.shape)
    for counts, size in ((x, n), (y, m)):
        expected = both * (size / total)[..., support.rows]
        terms += np.divide((counts - expected) ** 2, expected, out=np.zeros(both.shape), where=expected > 0)
    first = both if both.ndim == 1 else both.reshape(-1, both.shape[-1])[0]
    return RowTests(by_row(terms) * (total - 1.0) / total, by_row((first > 0).astype(np.float64)) - 1.0, n, m)


def chi_squared(support: Support, counts: Floats, entries: NDArray[np.bool_] | None = None) -> Floats:
    """Pearson's chi-squared of "every group has the same rows", for counts of shape (..., n_groups, n_entries).

    `entries` restricts it to some entries of the support.
    """
    if entries is not None:
        counts = counts * entries
    total = counts.sum(axis=-2)

    def spread(values: Floats) -> Floats:
        """Row sums, for every entry."""
        sums: Floats = np.add.reduceat(values, support.indptr[:-1], axis=-1)[..., support.rows]
        return sums

    shares = (total / np.maximum(spread(total), 1.0))[..., None, :]
    expected = spread(counts) * shares
    terms = np.divide((counts - expected) ** 2, expected, out=np.zeros(counts.shape), where=expected > 0)
    return np.asarray(terms.sum(axis=(-2, -1)))


def drawn_rows(support: Support, totals: Ints, rng: np.random.Generator) -> Floats:
    """Counts of independent draws of each row, as many as `totals`."""
    counts = np.zeros(len(support.indices))
    for row in np.flatnonzero(totals):
        entries = slice(support.indptr[row], support.indptr[row + 1])
        counts[entries] = rng.multinomial(totals[row], support.probabilities[entries])
    return counts


def against_known(support: Support, counts: Floats) -> Floats:
    """Chi-squared of each row against known probabilities, for counts of shape (n_draws, n_entries)."""
    totals = np.add.reduceat(counts, support.indptr[:-1], axis=-1)[..., support.rows]
    expected = totals * support.probabilities
    impossible = np.where(counts > 0, _EXCLUDED, 0.0)
    terms = np.divide((counts - expected) ** 2, expected, out=impossible, where=expected > 0)
    return np.minimum(np.add.reduceat(terms, support.indptr[:-1], axis=-1), _EXCLUDED)


def main_entries(support: Support) -> NDArray[np.bool_]:
    """The main entries of each row, those at least a twentieth as frequent as its largest.

    A copy of a recording with a few labels changed has new entries, all rare, and the same main entries.
    """
    largest = np.maximum.reduceat(support.probabilities, support.indptr[:-1])[support.rows]
    main: NDArray[np.bool_] = support.probabilities >= largest / 20.0
    return main


def adjusted_pvalues(pvalues: Floats, *, any_dependence: bool = False) -> Floats:
    """Benjamini and Hochberg's adjusted p-values; Benjamini and Yekutieli's hold for any dependence.

    Unknown p-values (NaN) stay unknown, and still count as tests.

    Examples
    --------
    >>> adjusted_pvalues(np.array([0.01, 0.04, 0.03]))
    array([0.03, 0.04, 0.04])
    """
    # Not scipy.stats.false_discovery_control: importing scipy.stats would be a quarter of the time of a test in CI.
    unknown = np.isnan(pvalues)
    known = np.where(unknown, 1.0, pvalues).ravel()
    if known.size and (known.min() < 0.0 or known.max() > 1.0):
        raise ValueError("pvalues: found numbers outside [0, 1]")
    rank = np.arange(1, known.size + 1)
    order = np.argsort(known, kind="stable")
    scaled = known[order] * (known.size / rank) * ((1.0 / rank).sum() if any_dependence else 1.0)
    adjusted = np.empty_like(known)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return np.where(unknown, np.nan, adjusted.reshape(pvalues.shape))


# --- Permutation tests

_LEVEL = 0.05  # significance level
_ENOUGH = 10  # smallest number of permutations as extreme as the data that ends the test
_ROUND, _CHUNK = 100, 25  # permutations between two checks, and in one task; neither affects the result
_REFERENCE = 29  # permutations that standardise each statistic
FIRST_REFERENCE = 1 << 40  # their first index; the test itself uses smaller ones


class Statistics(NamedTuple):
    """First-order distances and chi-squared of many groupings, and the statistics of each row, (n_draws, n_rows)."""

    distance: Floats
    chi_squared: Floats
    rows: Floats


class RowMoments(NamedTuple):
    """Mean and variance of each row's statistic over permutations."""

    mean: Floats
    variance: Floats


class Subject(Protocol):
    """What `permute` needs: the data, permutations of them, and statistics of both."""

    @property
    def counts(self) -> Floats:
        """The data."""
        ...

    def null(self, seed: int, indices: Sequence[int]) -> Floats:
        """Permutations, one array like `counts` each."""
        ...

    def statistics(self, counts: Floats) -> Statistics:
        """Statistics of many arrays of counts."""
        ...


class Permuted(NamedTuple):
    """A permutation test.

    Attributes
    ----------
    pvalue : float
    stopped : bool
        Whether the test stopped because the conclusion was settled.
    value : float
        The statistic of the data: the larger of distance and chi-squared, each in standard deviations above its mean
        over permutations; or one of them alone.
    values : ndarray
        The same for the permutations up to the end of the test.
    observed, null : Statistics
        All statistics of the data and of the permutations.
    rows : RowMoments
        Mean and variance of the statistic of each row over permutations.
    """

    pvalue: float
    stopped: bool
    value: float
    values: Floats
    observed: Statistics
    null: Statistics
    rows: RowMoments


def permute(
    subject: Subject, seed: int, n: int, *, both: bool = True, at_least: int = 0, threads: int | None = None,
    report: Any = None, chi_squared_only: bool = False,
) -> Permuted:  # fmt: skip
    """Besag and Clifford's sequential Monte-Carlo test.

    Stopping at the h-th permutation as far apart as the data gives p = h / (permutations so far), otherwise
    p = (1 + as far apart) / (n + 1): both have exact level. With h at least 5 % of n, a test that stops can no longer
    give a p-value below 5 %. `at_least` permutations are drawn even so. With `both`, distance and chi-squared are
    combined: the first is sensitive to differences that the cost weighs, the second to every difference.
    """
    observed = subject.statistics(subject.counts[None])
    centre = _standard(subject, seed) if both and not chi_squared_only else None

    def loudest(statistics: Statistics) -> Floats:
        if chi_squared_only:
            return statistics.chi_squared
        if centre is None:
            return statistics.distance
        standard = [(statistics[k] - centre[k][0]) / centre[k][1] for k in (0, 1)]
        return np.maximum(standard[0], standard[1])

    value = float(loudest(observed)[0])
    bar = value - 1e-9 * max(abs(value), 1e-3)  # the observed grouping drawn again counts, despite rounding
    enough = max(_ENOUGH, ceil(_LEVEL * (n + 1)))
    parts: list[Statistics] = []
    n_threads = thread_count(threads)
    with nullcontext() if n_threads == 1 else ThreadPoolExecutor(n_threads) as executor:
        for begin in range(0, n, _ROUND):
            end = min(begin + _ROUND, n)
            tasks = [range(k, min(k + _CHUNK, end)) for k in range(begin, end, _CHUNK)]
            run = map if executor is None else executor.map
            parts += run(lambda indices: subject.statistics(subject.null(seed, indices)), tasks)
            null = Statistics(*(np.concatenate(column) for column in zip(*parts, strict=True)))
            values = loudest(null)
            if report is not None:
                report(len(values), n, value)
            far = np.cumsum(values >= bar)
            if far[-1] >= enough and end >= at_least:
                break
    moments = RowMoments(null.rows.mean(axis=0), null.rows.var(axis=0))
    if far[-1] >= enough:
        stop = int(np.searchsorted(far, enough)) + 1
        return Permuted(enough / stop, stop < n, value, values[:stop], observed, null, moments)
    return Permuted((1 + int(far[-1])) / (n + 1), False, value, values, observed, null, moments)


def _standard(subject: Subject, seed: int) -> list[tuple[float, float]]:
    """Mean and deviation of distance and chi-squared over permutations that the test does not use: it stays exact."""
    apart = subject.statistics(subject.null(seed, range(FIRST_REFERENCE, FIRST_REFERENCE + _REFERENCE)))
    return [(float(v.mean()), float(v.std(ddof=1)) or 1.0) for v in apart[:2]]


# --- Pooled rows: an empirical-Bayes estimate that shrinks rows not distinguishable by the data towards each other:
# T ~ (1 + lam) chi2(df) with lam = tau^2 / noise, tau^2 = 0 or on a grid, weights by expectation-maximisation. A row
# keeps h = sum_k w_k sqrt(lam_k / (lam_k + 1 - f_k / df)) of its difference, f = lam / (1 + lam), the share that gives
# the right *size*: the distance is homogeneous of degree 1 near 0, so a posterior mean, which is smaller, is biased.

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
def _empirical_bayes(T, df, noise, variances, weights, rounds, change, shares, equal):  # type: ignore[no-untyped-def]
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
