"""A process estimated from data: a chain, the observations behind each row, draws and blocks of these; pooled rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.chains import MarkovChain, Support
from somcot.compile.jit import kernel, part
from somcot.derivatives import RowGradient
from somcot.inference.statistics import RowMoments, RowTests
from somcot.plumbing.arrays import Floats, Ints
from somcot.plumbing.linear_systems import CLOSE
from somcot.plumbing.notes import relayed
from somcot.problem import ChainOrData, Data
from somcot.recorded.stationary import slopes, with_long_run_start
from somcot.samples import Samples

__all__ = [
    "MANY", "SATURATED", "Homogeneity", "Kept", "Model", "Prior", "block_length", "calibrated", "design_effect", "fit",
    "half_sizes", "kept_shares", "kept_shares_of_many", "kept_sizes", "on_entries", "pieces", "row_shares",
    "saturation", "split_rows", "towards", "with_rows", "with_starts",
]  # fmt: skip

SATURATED = 3.0  # accumulated error of the kernels above which there are too few data


@dataclass(frozen=True, eq=False)
class Model:
    """An estimated process: a chain, and how often each of its transitions was observed.

    Attributes
    ----------
    chain : MarkovChain
    counts : ndarray of int64, shape (n_entries,)
        For every entry of the chain's support (initial row last); all 0 in rows that are known, not estimated.
    samples : Samples, Counts or None
        The data; None for a known chain.
    """

    chain: MarkovChain
    counts: NDArray[np.int64]
    samples: Data | None

    @property
    def totals(self) -> NDArray[np.int64]:
        """Number of observations of each row, initial row last; 0 for known rows."""
        return self.chain.support.row_sums(self.counts)

    def with_start(self, support: Support) -> Support:
        """The same kernel with its initial distribution, if that is derived from the kernel."""
        return with_long_run_start(support) if self.starts_in_the_long_run else support

    @property
    def starts_in_the_long_run(self) -> bool:
        """Whether the initial distribution is the stationary distribution of the kernel."""
        return self.samples is not None and self.samples.stationary

    def in_full(self, slope: RowGradient) -> RowGradient:
        """The derivative along the rows, including their effect on an initial distribution derived from them."""
        if not self.starts_in_the_long_run:
            return slope
        # The chain rule: the stationary distribution changes with the rows.
        added = slopes(self.chain.support, self.chain.initial, slope.initial)
        return replace(slope, values=slope.values + added)

    @property
    def n_transitions(self) -> int:
        """Number of observed transitions; 0 for a known chain."""
        return 0 if self.samples is None else self.samples.n_transitions


def fit(process: ChainOrData, name: str = "", weights: Floats | None = None) -> Model:
    """Estimate the chain behind a process, with the number of observations of each row.

    Warnings about the data are prefixed with `name`, the name of the argument. With positive `weights` of its
    sequences, counts are weighted, and rounded where a number of observations is needed.
    """
    if isinstance(process, MarkovChain):
        return Model(process, np.zeros(len(process.support.indices), dtype=np.int64), None)
    # Notes on the fit name the argument of the user.
    with relayed(name):
        chain = process.chain()
    indptr, indices, _ = chain.support
    n = chain.n_states
    seen = process.pair_counts
    place = chain.support.locate(seen.rows, seen.columns)
    if weights is not None:
        assert isinstance(process, Samples)
        return _weighted(chain, process, weights)
    counts = np.zeros(len(indices), dtype=np.int64)
    counts[place] = seen.values
    # Known starts were not observed, and samples of the occupancy have no first states.
    if not process.starts_known and process.discount is None:
        counts[indptr[n] :] = process.start_counts[indices[indptr[n] :]]
    return Model(chain, counts, process)


def _weighted(chain: MarkovChain, samples: Samples, weights: Floats) -> Model:
    """The chain of weighted sequences; the entries stay the same, because every weight is positive."""
    support, n = chain.support, chain.n_states
    assert samples.offsets is not None
    slots = support.locate(samples.now.astype(np.int64), samples.following)
    counts = np.bincount(slots, weights[samples.episode], len(support.indices))
    if not samples.starts_known:
        first = samples.now[samples.offsets[:-1]].astype(np.int64)
        counts += np.bincount(support.locate(np.full(len(first), n), first), weights, len(counts))
    totals = support.row_sums(counts)[support.rows]
    # Rows without observations keep the probabilities of the unweighted fit.
    shares = np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), support.probabilities)
    filled = Support(support.indptr, support.indices, shares)
    if samples.stationary:
        filled = with_long_run_start(filled)
    end = int(support.indptr[n])
    initial = np.zeros(n)
    initial[filled.indices[end:]] = filled.probabilities[end:]
    from scipy.sparse import csr_array  # slow to import

    kernel = csr_array((filled.probabilities[:end], support.indices[:end], support.indptr[:-1]), shape=(n, n))
    # Weighted sums are rounded, hence the normalisation.
    changed = MarkovChain(kernel, initial, states=chain.states, normalize=True)
    return Model(changed, np.rint(counts).astype(np.int64), samples)


def on_entries(support: Support, chain: MarkovChain) -> Support:
    """Another chain's probabilities on the entries of `support`; rows that it does not share keep theirs."""
    rows, chain_support = support.rows, chain.support
    place = np.minimum(chain_support.locate(rows, support.indices), len(chain_support.indices) - 1)
    present = (chain_support.rows[place] == rows) & (chain_support.indices[place] == support.indices)
    shares = np.where(present, chain_support.probabilities[place], 0.0)
    sums = support.row_sums(shares)[rows]
    # A row with most of its mass on other entries is a different row, so it is not replaced.
    shares = np.where(sums > 0.5, shares / np.maximum(sums, 0.5), support.probabilities)
    return Support(support.indptr, support.indices, shares)


def row_shares(support: Support, counts: Floats, fallback: Floats) -> Floats:
    """Counts, (..., n_entries), divided by their row sums; rows without counts take the probabilities of `fallback`."""
    totals = np.add.reduceat(counts, support.indptr[:-1], axis=-1)[..., support.rows]
    return np.where(totals > 0, counts / np.maximum(totals, 1.0), fallback)


def half_sizes(counts: Ints, support: Support, n_splits: int, rng: np.random.Generator) -> Ints:
    """Half of the observations of each row, (n_splits, n_rows); of an odd number, the larger or the smaller half."""
    totals = np.broadcast_to(support.row_sums(counts), (n_splits, len(support.indptr) - 1))
    sizes: Ints = totals // 2 + (totals % 2) * rng.integers(0, 2, size=totals.shape)
    return sizes


def with_starts(support: Support, shares: Floats, fallback: Floats) -> Floats:
    """The same kernels, (..., n_entries), with their own stationary distributions as initial rows.

    A rare state that a draw stays in and never leaves would take all the mass. Such a draw says as little about leaving
    the state as one without visits to it, so the row is that of `fallback`.
    """
    staying = np.flatnonzero(support.indices == support.rows)
    stuck = np.zeros((*shares.shape[:-1], len(support.indptr) - 1), dtype=np.bool_)
    # A row that was only seen to stay would absorb all stationary mass.
    stuck[..., support.rows[staying]] = shares[..., staying] >= 1.0
    filled = np.where(stuck[..., support.rows], fallback, shares)
    flat = filled.reshape(-1, shares.shape[-1])
    started = [with_long_run_start(Support(support.indptr, support.indices, row)).probabilities for row in flat]
    return np.stack(started).reshape(shares.shape)


def split_rows(
    counts: NDArray[np.int64], indptr: NDArray[np.int64], sizes: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw observations of every row without replacement, `sizes[k]` per row in draw k.

    All rows and draws together, one entry of the row after the other (sequential hypergeometric draws).

    Parameters
    ----------
    counts : ndarray, shape (n_entries,)
        Entries ``indptr[x]:indptr[x + 1]`` belong to row x.
    sizes : ndarray, shape (n_draws, n_rows)

    Returns
    -------
    ndarray, shape (n_draws, n_entries)
    """
    n_draws = len(sizes)
    left = np.broadcast_to(np.add.reduceat(counts, indptr[:-1]), sizes.shape).copy()
    need = sizes.copy()
    taken = np.zeros((n_draws, len(counts)), dtype=np.int64)
    lengths = np.diff(indptr)
    # One entry of all rows at a time: given what is left, each is hypergeometric.
    for j in range(int(lengths.max())):
        rows = np.flatnonzero(lengths > j)
        good = np.broadcast_to(counts[indptr[rows] + j], (n_draws, len(rows)))
        drawn = rng.hypergeometric(good, left[:, rows] - good, need[:, rows])
        taken[:, indptr[rows] + j] = drawn
        left[:, rows] -= good
        need[:, rows] -= drawn
    return taken


def saturation(models: tuple[Model, ...], discount: float, settling: float = np.inf) -> float:
    """Expected total-variation error of the kernels, accumulated over the horizon; above 3 there are too few data.

    Near discount 1, errors accumulate only until the processes mix, over `settling` steps.
    """
    steps = 1.0 / (1.0 - discount)
    # Near 1 the horizon is longer than the mixing time, after which errors no longer add up.
    steps = min(steps, settling) if discount > CLOSE else steps
    total = 0.0
    for model in models:
        support, visits = model.chain.support, model.totals[:-1]
        spread = support.row_sums(np.sqrt(support.probabilities * (1.0 - support.probabilities)))[:-1]
        # sqrt(2 / pi) standard errors is the mean absolute error, half of which is total variation.
        error = np.where(visits > 0, 0.5 * np.sqrt(2.0 / np.pi) * spread / np.sqrt(np.maximum(visits, 1)), 0.0)
        total += float(model.chain.state_occupancy(discount) @ error)
    return total * steps


def with_rows(samples: Samples, chain: MarkovChain, rng: np.random.Generator) -> Samples:
    """The same sequences with a few next states exchanged, so that their rows are those of `chain`.

    Every sequence of a pilot is special in some way. Where changed sequences are continued like others, those ways are
    weighted anew, and rows that were not to change differ by as much as the pilot errs. That would pass for an effect.
    """
    following = samples.following.copy()
    order = np.argsort(samples.now, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(samples.now[order])) + 1):
        row: Any = chain.transition[[samples.now[places[0]]]]
        wanted = np.asarray(row if isinstance(row, np.ndarray) else row.toarray(), dtype=np.float64).ravel()
        following[places] = towards(following[places], wanted, rng)
    return replace(samples, following=following, step_rewards=None)


def towards(codes: Any, wanted: Floats, rng: np.random.Generator) -> Ints:
    """Codes of which as few as possible are exchanged so that their shares are `wanted`, up to rounding.

    Examples
    --------
    >>> np.bincount(towards(np.array([0, 0, 0, 1, 2, 2]), np.array([0.5, 0.5, 0.0]), np.random.default_rng(0)))
    array([3, 3])
    """
    quota = np.diff(np.rint(np.cumsum(wanted) / wanted.sum() * len(codes)), prepend=0.0).astype(np.int64)
    counts = np.bincount(codes, minlength=len(quota))
    order = np.lexsort((rng.random(len(codes)), codes))
    beyond = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts) >= quota[codes[order]]
    exchanged: Ints = np.array(codes, dtype=np.int32)
    exchanged[order[beyond]] = rng.permutation(np.repeat(np.arange(len(quota)), np.maximum(quota - counts, 0)))
    return exchanged


# --- Blocks of few long recordings, which are permuted and halved in place of sequences

MANY, FEWEST = 48, 8  # blocks of each recording: as many if steps are Markov, and never fewer
_GROWTH = 0.05  # share by which the design effect may grow with the length of the blocks, even if significantly
_SHORTEST = 10  # steps of a block


def block_length(recordings: Sequence[Samples]) -> tuple[int, bool]:
    """Length of the blocks, and whether blocks that long are nearly independent.

    Errors of the rows of a Markov chain are uncorrelated however slowly it mixes, so the blocks may be as long as a
    decent number of them allows. They are made longer while the variance of the rows by blocks, relative to single
    steps, still grows. If it grows even from half the shortest length on, memory lasts about as long as a block. The
    longest blocks then miss part of it: what is slow is a small part of the variance of all rows, and may be most of
    the distance's.
    """
    steps = min(recording.n_transitions for recording in recordings)
    lengths = [max(_SHORTEST, steps // MANY)]
    while lengths[-1] * 2 * FEWEST <= steps:
        lengths.append(lengths[-1] * 2)
    effects = [_design_effect(recordings, length) for length in (lengths[0] // 2, *lengths)]
    grows = [
        any(later.value > (1.0 + max(_GROWTH, 2.0 * later.error)) * effect.value for later in effects[i + 1 :])
        for i, effect in enumerate(effects)
    ]
    chosen = grows.index(False, 1)  # the last one always qualifies, as it has no successor
    return lengths[chosen - 1], not grows[0]


class _Effect(NamedTuple):
    """A design effect and its relative standard error."""

    value: float
    error: float


def _design_effect(recordings: Sequence[Samples], length: int) -> _Effect:
    """Variance of the rows by blocks relative to independent steps, from the residuals of each recording's own rows."""
    between = free = independent = 0.0
    for recording in recordings:
        bounds = pieces(recording, length)
        n, block = recording.n_states, np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
        now, following = recording.now.astype(np.int64), recording.following.astype(np.int64)
        cells, counts = np.unique(now * n + following, return_counts=True)
        visits = np.bincount(now, minlength=n)
        shares = counts / visits[cells // n]
        # sum over blocks of sum_c (C_b(r, c) - P(r, c) C_b(r))^2 / P(r, c)  =  sum C_b(r, c)^2 / P - sum C_b(r)^2
        inside, times = np.unique((block * n + now) * n + following, return_counts=True)
        rows, row_times = np.unique(block * n + now, return_counts=True)
        share = shares[np.searchsorted(cells, inside % (n * n))]
        squares = np.bincount(inside // n % n, times**2 / share, n) - np.bincount(rows % n, row_times**2.0, n)
        df = np.bincount(cells // n, minlength=n) - 1.0
        used = (df > 0) & (visits >= 5)
        n_blocks = int(block[-1]) + 1
        between += float((squares[used] / visits[used]).sum()) * n_blocks / max(n_blocks - 1, 1)
        free += float(df[used].sum())
        independent += float(df[used].sum()) * (n_blocks - 1)
    return _Effect(between / max(free, 1.0), float(np.sqrt(2.0 / max(independent, 1.0))))


def pieces(recording: Samples, length: int | None) -> Ints:
    """First transitions, and the end: of the sequences, or of blocks of about `length` steps inside them."""
    # Independent samples are units of one transition.
    if recording.offsets is None:
        return np.arange(recording.n_transitions + 1)
    if length is None:
        return recording.offsets
    steps = np.diff(recording.offsets)
    n_blocks = np.maximum(1, np.round(steps / length)).astype(np.int64)
    first = np.cumsum(n_blocks) - n_blocks
    place = np.arange(n_blocks.sum()) - np.repeat(first, n_blocks)
    n, size = np.repeat(n_blocks, n_blocks), np.repeat(steps, n_blocks)
    # Step t of a sequence is in block t n // size, so block k begins with the first t of at least k size / n.
    bounds: Ints = np.repeat(recording.offsets[:-1], n_blocks) - (-place * size // n)
    return np.append(bounds, recording.offsets[-1])


# --- Pooled rows: how much of the difference of each row is kept, learnt from all rows (empirical Bayes)
#
# Rows that the data cannot tell apart are shrunk towards each other. A row keeps the share h of its difference that has
# the right *size*: the distance is homogeneous of degree 1 near 0, so a posterior mean, which is smaller, is biased.
#
# There are two priors. `kept_shares` takes differences to be normal, with variance tau^2, 0 or on a grid, so the test
# of a row is T ~ (1 + lam) chi2(df), lam = tau^2 / noise; then h = sum_k w_k sqrt(lam_k / (lam_k + 1 - f_k / df)),
# f = lam / (1 + lam). `kept_sizes` has a prior of the size itself: T is noncentral chi-squared, and h the expected size
# over the one observed. Normal differences vary more in size than rows that all changed a little, and the largest of
# them over the actions of a decision process is too large. Weights of priors are found by expectation-maximisation.

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
    >>> T = np.array([1.1, 14.0, 9.0, 4.0, 20.0, 6.0, 12.0, 8.0, 5.0, 10.0])
    >>> kept_sizes(Homogeneity(T, np.full(10, 2), np.full(10, 0.01))).round(2)
    array([1.  , 0.71, 0.88, 1.  , 0.6 , 1.  , 0.77, 0.94, 1.  , 0.84])
    """
    kept = np.ones(len(tests.df))
    tested = np.flatnonzero(tests.df > 0)
    T, df, noise = (np.asarray(values, dtype=np.float64)[tested] for values in tests)
    # The mean of the size observed, given one that is large against the noise.
    kept[tested] = np.sqrt(np.clip(1.0 - (df - 1.0) / np.maximum(T, 1e-300), 0.0, 1.0))
    near = T - df <= PLAIN
    if not near.any():
        return kept
    T, df, noise = T[near], df[near], noise[near]
    seen, least = np.sqrt(T * noise), LEAST * float(np.sqrt(np.median(noise)))
    most = max(float(seen.max()), 2.0 * least)
    n_sizes = math.ceil(math.log(most / least) / math.log(SIZES)) + 1
    sizes = np.append(0.0, least * np.cumprod(np.append(1.0, np.full(n_sizes - 1, SIZES))))
    weights, expected = np.append(0.5, np.full(n_sizes, 0.5 / n_sizes)), np.empty(len(T))
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
