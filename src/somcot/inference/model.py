"""A process estimated from data: a chain, the observations behind each row, draws of these; blocks of recordings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.chains import MarkovChain, Support
from somcot.core.pairs import reachable_pairs
from somcot.derivatives import Gradient, RowGradient
from somcot.plumbing.arrays import Floats, Ints
from somcot.plumbing.errors import warn
from somcot.plumbing.linear_systems import CLOSE
from somcot.plumbing.memory import one_blas_thread
from somcot.plumbing.notes import Note, relayed
from somcot.problem import ChainOrData, Data, UnitProblem
from somcot.recorded.stationary import slopes, with_long_run_start
from somcot.result import Bounds, Status
from somcot.samples import Samples
from somcot.solvers.policy_iteration import iterate

__all__ = [
    "MANY", "SATURATED", "Model", "block_length", "bootstrap", "fit", "half_sizes", "on_entries", "pieces",
    "row_shares", "saturation", "split_rows", "standard_error", "towards", "with_rows", "with_starts",
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


# --- Deprecated: the delta method and the bootstrap

_DENSE_INFORMATION = 1500  # largest number of parameters for a dense information matrix
_RESAMPLE_TOLERANCE = 1e-6


def standard_error(x: Model, y: Model, gradient: Gradient, scale: float = 1.0, *, by: str = "rows") -> float:
    """Standard error of the plug-in distance by the delta method, in units of `scale`. Deprecated.

    Estimates use the spread of half-samples instead: `Result.estimate.standard_error`.

    Parameters
    ----------
    x, y : Model
    gradient : Gradient
        Gradient of the distance at the plug-in.
    scale : float
        Unit of computation, such as the range of the cost, so that squares of huge or tiny costs do not overflow.
    by : {"rows", "episodes"}
        Treat transitions as independent given the current state (rows), or only whole episodes as independent, which
        is valid for non-Markov data too. Independent samples of the occupancy use a separate formula.
    """
    warn(Note("deprecated-function", "standard_error", instead="Result.estimate.standard_error"), DeprecationWarning)
    if by not in ("rows", "episodes"):
        raise ValueError(f"standard_error: found {by!r}, expected 'rows' or 'episodes'")
    total = 0.0
    for model, raw in ((x, gradient.x), (y, gradient.y)):
        if model.samples is None:
            continue
        slope = replace(raw, values=raw.values / scale, initial=raw.initial / scale)
        if model.samples.discount is not None:
            total += _occupancy_variance(model, slope, model.samples.discount)
        elif by == "episodes":
            total += _episode_variance(model, slope)
        else:
            total += _row_variance(model, slope)
    return float(np.sqrt(total))


def bootstrap(whole: Any, plugin: float, confidence: float, n_resamples: int, rng: np.random.Generator) -> Bounds:
    """Basic bootstrap interval of the plug-in, by resampling whole episodes or independent transitions. Deprecated.

    It fails near distance 0: the plug-in is biased upward there and its resamples more so; the interval covered the
    truth in 0 to 53 % of cases at nominal 90 %. Use it as a check for distances well above 0.

    `whole` is `Result.details` of an estimate; `plugin` and the bounds are in units of the range of the cost.
    """
    warn(Note("deprecated-function", "bootstrap", instead="Result.confidence_interval"), DeprecationWarning)
    problem, values = whole.problem, []
    for _ in range(n_resamples):
        supports = [
            model.chain.support
            if model.samples is None
            else with_episodes(model, "interval='bootstrap'").resample(rng).chain(check=False).support
            for model in whole.models
        ]
        task = UnitProblem(supports[0], supports[1], problem.unit_cost, problem.discount)
        solution = iterate(task, reachable_pairs(task), threads=1, tolerance=_RESAMPLE_TOLERANCE)
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        values.append(solution.distance(problem.discount))
    tail = 0.5 - 0.5 * confidence
    low, high = np.quantile(values, [tail, 1.0 - tail])
    return Bounds(max(0.0, 2.0 * plugin - float(high)), max(0.0, 2.0 * plugin - float(low)))


def with_episodes(model: Model, purpose: str) -> Samples:
    """The recording itself; counts do not keep episodes."""
    if not isinstance(model.samples, Samples):
        raise TypeError(Note("needs-episodes", purpose=purpose))
    return model.samples


def _row_variance(model: Model, slope: RowGradient) -> float:
    """Sum over rows of Var_P[G(x, .)] / n_x, including the initial row if it was estimated."""
    return float((_entry_slopes(model, slope) ** 2 * _weights(model)).sum())


def _weights(model: Model) -> Floats:
    """P(x' | x) / n_x for estimated rows, 0 for known ones, per entry of the support."""
    support = model.chain.support
    totals = model.totals[support.rows]
    return np.where(totals > 0, support.probabilities / np.maximum(totals, 1), 0.0)


def _entry_slopes(model: Model, slope: RowGradient) -> Floats:
    """Centred derivatives for every entry of the support, initial row last."""
    indptr, indices, _ = model.chain.support
    return np.concatenate([slope.values, slope.initial[indices[indptr[-2] :]]])


def _episode_variance(model: Model, slope: RowGradient) -> float:
    """Sum of squared influences of whole episodes."""
    samples, slopes = with_episodes(model, "standard_error='episodes'"), _entry_slopes(model, slope)
    slot = model.chain.support.locate(samples.now.astype(np.int64), samples.following)
    per_step = slopes[slot] / np.maximum(model.totals, 1)[samples.now]
    influence: Floats = np.bincount(samples.episode, weights=per_step, minlength=samples.n_episodes).astype(np.float64)
    if not samples.starts_known and samples.offsets is not None:
        influence = influence + slope.initial[samples.now[samples.offsets[:-1]]] / samples.n_episodes
    m = samples.n_episodes
    if m < 2:
        raise ValueError("standard_error: one episode does not show the variance between episodes; use 'rows'")
    return float((influence**2).sum() * m / (m - 1))


@one_blas_thread
def _occupancy_variance(model: Model, slope: RowGradient, discount: float) -> float:
    """Variance of the flow-constrained maximum-likelihood fit, from its information matrix.

    Parameters h are changes of the probabilities on the support with zero row sums (and of the initial distribution if
    that was fitted too); the score of a sample (x, x') is h(x, x') / P(x' | x) + dxi(x) / xi(x).
    """
    assert model.samples is not None
    support, n = model.chain.support, model.chain.n_states
    fitted_start = not model.samples.starts_known
    n_entries = int(support.indptr[-1] if fitted_start else support.indptr[-2])
    if n_entries > _DENSE_INFORMATION:
        return _row_variance(model, slope)  # ignores the information in state frequencies: conservative
    rows = support.rows[:n_entries]
    columns, P = support.indices[:n_entries], support.probabilities[:n_entries]
    xi = model.chain.state_occupancy(discount)
    inside = rows < n
    transition = np.zeros((n, n))
    transition[rows[inside], columns[inside]] = P[inside]
    effect = np.zeros((n, n_entries))  # effect of each parameter on the inflow of each state
    effect[columns, np.arange(n_entries)] = np.where(inside, discount * np.append(xi, 0.0)[rows], 1.0 - discount)
    dxi = np.linalg.solve(np.eye(n) - discount * transition.T, effect)
    visited = inside & (np.append(xi, 0.0)[rows] > 1e-12)
    entries = np.flatnonzero(visited)
    score = dxi[rows[entries]] / xi[rows[entries]][:, None]
    score[np.arange(len(entries)), entries] += 1.0 / P[entries]
    information = score.T @ ((xi[rows[entries]] * P[entries])[:, None] * score)
    sums = np.zeros((n + 1, n_entries))
    sums[rows, np.arange(n_entries)] = 1.0
    sums = sums[sums.any(axis=1)]
    system = np.block([[information, sums.T], [sums, np.zeros((len(sums), len(sums)))]])
    G = _entry_slopes(model, slope)[:n_entries]
    # Entries with very small occupancy make the system nearly singular.
    solution = np.linalg.lstsq(system, np.append(G, np.zeros(len(sums))), rcond=1e-12)[0]
    return max(float(G @ solution[:n_entries]) / model.samples.n_transitions, 0.0)
