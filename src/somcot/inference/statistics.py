"""Statistics of groups of units: the distance to first order, and chi-squared; permutation tests.

With V the potential at the centre and occ the occupancy of its optimal coupling, the distance of two nearby kernels P
and Q with initial distributions p, q is to first order

    (1 - discount) OT(p, q; V) + sum_xy occ(x, y) [c(x, y) + discount OT(P(.|x), Q(.|y); V) - V(x, y)].

It takes one transport problem per pair that the coupling visits, and no iteration. The transport problems are solved
exactly, so the kink of the distance at equal rows is kept. At a pooled process, where the coupling is the diagonal (if
equal states have minimum cost), this is one transport problem per state; near equality, where a test has to decide, it
equals the distance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from math import ceil, exp, pi, sqrt
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from somcot.chains import Support
from somcot.core.pairs import folded, reachable_pairs, thread_count
from somcot.core.sweep import transport_values
from somcot.plumbing.arrays import Floats, Ints
from somcot.plumbing.linear_systems import Kernel, discounted_occupancy
from somcot.problem import UnitProblem
from somcot.result import Status
from somcot.solvers.policy_iteration import Solution, iterate

__all__ = [
    "FIRST_REFERENCE", "Expansion", "Permuted", "PowerCurve", "PowerPoint", "RowMoments", "RowTests", "Statistics",
    "Subject", "adjusted_pvalues", "against_known", "bracketed", "chi_squared",
    "drawn_rows", "main_entries", "permute", "row_tests",
]  # fmt: skip

_TOLERANCE = 1e-6  # of the solution at the centre, relative to the range of the cost; sampling noise is far larger
_NEGLIGIBLE = 1e-12  # occupancy below which a pair cannot move the value
_AT_ONCE = 200_000  # transport problems in one compiled call
_MOST_PAIRS = 2048  # pairs of an expansion above which they are sampled
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
        cls, x: Support, y: Support, cost: Floats, discount: float, *, left_out: float = 0.0,
        tolerance: float = _TOLERANCE, guess: Floats | None = None,
    ) -> Expansion:  # fmt: skip
        """Solve the distance of two kernels, to rounding with tolerance 0; `guess` is a potential to begin with.

        The last `left_out` of the occupancy is left out.
        """
        return cls.of(_solved(x, y, cost, discount, tolerance, guess), cost, discount, left_out=left_out)

    @classmethod
    def of(
        cls, solution: Solution, cost: Floats, discount: float, *, left_out: float,
        states: tuple[Ints, Ints] | None = None,
    ) -> Expansion:  # fmt: skip
        """The expansion at a problem that is solved already; `states` are its states among those of `cost`.

        Leaving out pairs, or sampling them, is exact at the centre, because c - V + discount OT = 0 there for each.
        """
        pairs = solution.pairs
        occupancy = discounted_occupancy(*solution.sweep.kernel(), discount, accuracy=_NEGLIGIBLE)
        order = np.argsort(-occupancy, kind="stable")
        enough = int(np.searchsorted(np.cumsum(occupancy[order]), (1.0 - left_out) * occupancy.sum()))
        kept, weight = _sampled(order[: enough + 1], occupancy)
        # Pairs that only resampled kernels reach have the largest potential, so that no plan is attracted to them.
        most = float(solution.V.max(initial=0.0))
        V, x, y = pairs.table(solution.V, missing=most), pairs.x[kept], pairs.y[kept]
        if states is not None:
            inside, V = V, np.full(cost.shape, most)
            V[np.ix_(*states)] = inside
            x, y = states[0][x].astype(np.int32), states[1][y].astype(np.int32)
        return _expansion(solution.distance(discount), discount, V, (x, y), weight, cost)

    @classmethod
    def pooled(cls, support: Support, cost: Floats, discount: float) -> Expansion:
        """The expansion at a process compared with itself; the coupling is the diagonal if that costs least."""
        if cost.diagonal().max() > 0.0:
            return cls.at(support, support, cost, discount)
        solution = _solved(support, support, cost, discount, fold=np.array_equal(cost, cost.T))
        V = solution.pairs.table(solution.V, missing=float(solution.V.max(initial=0.0)))
        occupancy = _occupancy(support, discount)
        states = np.flatnonzero(occupancy > _NEGLIGIBLE).astype(np.int32)
        return _expansion(0.0, discount, V, (states, states), occupancy[states], cost)

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

    @property
    def mean_cost(self) -> float:
        """Mean cost at the centre under the occupancy of the coupling."""
        return self.constant + float(self.weight @ self.V[self.x, self.y])

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


def _solved(
    x: Support, y: Support, cost: Floats, discount: float, tolerance: float = _TOLERANCE, guess: Floats | None = None,
    fold: bool = False,
) -> Solution:  # fmt: skip
    problem = UnitProblem(_positive(x), _positive(y), cost, discount)
    pairs = reachable_pairs(problem)
    # A pair and its mirror image have the same distance if both processes are the same.
    pairs = folded(pairs) if fold else pairs
    solution = iterate(problem, pairs, threads=1, tolerance=tolerance, guess=guess)
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return solution


def _sampled(order: Ints, occupancy: Floats) -> tuple[Ints, Floats]:
    """Pairs in ascending order, and their weights: all of `order`, or a systematic sample if these are too many.

    A sampled pair stands for those next to it in the order of their occupancies. The probability of a pair is
    proportional to its occupancy, so all sampled pairs have the same weight and every weighted mean is unbiased.
    """
    order = order[occupancy[order] > _NEGLIGIBLE]
    mass = occupancy[order]
    if len(order) <= _MOST_PAIRS:
        return np.sort(order), occupancy[np.sort(order)]
    rest = np.cumsum(mass[::-1])[::-1]  # of each pair and all rarer ones
    # The `n` most frequent pairs are kept as they are: those above the weight that the sampled ones then have.
    weight = rest / (_MOST_PAIRS - np.minimum(np.arange(len(order)), _MOST_PAIRS - 1))
    n = int(np.argmax(mass <= weight))
    marks = weight[n] * (np.arange(_MOST_PAIRS - n) + 0.5)
    drawn = n + np.minimum(np.searchsorted(np.cumsum(mass[n:]), marks), len(order) - n - 1)
    kept = np.append(order[:n], order[drawn])
    weights = np.append(mass[:n], np.full(len(drawn), weight[n]))
    by_place = np.argsort(kept, kind="stable")
    return kept[by_place], weights[by_place]


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
    return support if support.probabilities.all() else _stacked(support, support.probabilities[None, :])


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


# --- Power


class PowerPoint(NamedTuple):
    """The simulated power of the test with `n` sequences per side."""

    n: int
    power: float
    n_simulations: int


class PowerCurve(NamedTuple):
    """Power as Phi(intercept + slope sqrt(n)), and the covariance of the two by the number of simulations."""

    intercept: float
    slope: float
    covariance: Floats

    def solved(self, power: float) -> int:
        """The number of sequences with this power."""
        from scipy.special import ndtri

        return ceil((max((float(ndtri(power)) - self.intercept) / self.slope, 0.0)) ** 2)

    def error(self, n: int) -> float:
        """Monte-Carlo standard error of the power with `n` sequences."""
        z, at = self.intercept + self.slope * sqrt(n), np.array([1.0, sqrt(n)])
        return exp(-0.5 * z * z) / sqrt(2.0 * pi) * sqrt(float(at @ self.covariance @ at))

    def steepness(self, n: int) -> float:
        """Change of the power with `n` sequences per relative change of the distance, which is worth twice that of n.

        Examples
        --------
        >>> round(PowerCurve(-1.64, 0.25, np.eye(2)).steepness(100), 2)
        0.69
        """
        z = self.intercept + self.slope * sqrt(n)
        return exp(-0.5 * z * z) / sqrt(2.0 * pi) * self.slope * sqrt(n)

    @classmethod
    def fitted(cls, points: Sequence[PowerPoint], power: float) -> PowerCurve:
        """Probit regression of the simulated rejections on sqrt(n), near the requested power: it rises with n."""
        from scipy.special import ndtr, ndtri

        # Far above, where a search may begin, all tests find the change: such shares would flatten the curve.
        enough = min((point.n for point in points if point.power >= power), default=np.inf)
        points = [point for point in points if point.n <= _STEP * enough]
        n, share, size = (np.array(column, dtype=np.float64) for column in zip(*points, strict=True))
        root = np.sqrt(n)
        inner = (size * share + 0.5) / (size + 1.0)  # never 0 or 1
        z = ndtri(inner)
        # Points far from the requested power say little about the curve there, which is only nearly a probit.
        weight = size / (1.0 + (z - ndtri(power)) ** 2)
        design = np.stack([np.ones_like(root), root], axis=1)
        for _ in range(20):
            density = np.exp(-0.5 * z**2) / sqrt(2.0 * pi)
            fitted = ndtr(z)
            information = weight * density**2 / (fitted * (1.0 - fitted))
            target = z + (inner - fitted) / density
            normal = design.T @ (information[:, None] * design)
            normal += 1e-9 * np.trace(normal) * np.eye(2)
            a, b = np.linalg.solve(normal, design.T @ (information * target))
            z = np.clip(a + b * root, -4.0, 4.0)
        if b <= 0 or len(points) == 1:  # one number of sequences: the power without data is the level
            a = float(ndtri(_LEVEL))
            b = (float(ndtri(inner.mean())) - a) / root.mean()
            return cls(a, float(max(b, 1e-6)), np.diag([0.0, 1.0 / float(information @ root**2)]))
        return cls(float(a), float(b), np.linalg.inv(normal))


_FIRST, _SIMULATIONS = 20, 60  # tests at a number of sequences, before and after the requested power is bracketed
_TESTS = 480  # tests in all
_STEP = 3  # ratio of numbers of sequences until the power is bracketed


def bracketed(
    found: Callable[[int, range], int], power: float, n: int, ends: tuple[int, int]
) -> tuple[PowerPoint, ...]:
    """Simulate a test at numbers of sequences from `ends`, `n` first, that approach the one with the requested power.

    `found` says how many tests, by their numbers, reject with that many sequences.
    """
    n = min(max(n, ends[0]), ends[1])
    rejected: dict[int, list[int]] = {}  # tests that found the change, and all tests
    points: tuple[PowerPoint, ...] = ()
    low = high = None
    while sum(point.n_simulations for point in points) < _TESTS:
        tests = _FIRST if low is None or high is None else _SIMULATIONS
        own = rejected.setdefault(n, [0, 0])
        own[0] += found(n, range(own[1], own[1] + tests))
        own[1] += tests
        points = tuple(PowerPoint(k, own[0] / own[1], own[1]) for k, own in sorted(rejected.items()))
        low = max((p.n for p in points if p.power < power), default=None)
        high = min((p.n for p in points if p.power >= power), default=None)
        if high is None or low is None:
            following = _STEP * n if high is None else n // _STEP
        else:
            following = PowerCurve.fitted(points, power).solved(power)
        following = min(max(following, ends[0]), ends[1])
        if following == n and (high is None or low is None):
            break
        n = following
    return points
