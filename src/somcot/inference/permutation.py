"""Tests of "the same process?": whole episodes are permuted between groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from somcot import costs
from somcot.core.pairs import thread_count
from somcot.inference.pooled_episodes import AnyPool, PooledEpisodes, check_recordings, known_starts_differ, pool_of_two
from somcot.inference.statistics import Statistic, exact, loudest, main_pearson, pearson, slope
from somcot.plumbing.arrays import Floats, one_blas_thread
from somcot.plumbing.checks import check_count, check_discount, check_flag, check_rng
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.html import card, histogram
from somcot.plumbing.notes import Note
from somcot.plumbing.text import figure, meter
from somcot.problem import Data
from somcot.samples import Samples

__all__ = [
    "SameProcessResult",
    "known_starts_differ",
    "looks_identical",
    "permutation_test",
    "same_process",
    "sequential_pvalue",
]

MOST_PERMUTATIONS = 10_000_000  # all are kept in the result, and no p-value needs more
_LEVEL = 0.05  # significance level
_ENOUGH = 10  # smallest number of permutations as extreme as the data that ends the test
_ROUND = 20  # permutations between two progress updates; does not affect the result
_REFERENCE = 29  # permutations that standardise each statistic
_ALIKE = 999  # permutations that must all be farther apart for recordings to be suspiciously similar
_APART = 1 << 40  # first index of the permutations for these two; the test itself uses smaller ones
_MOST = 5_000_000  # transitions above which this check is skipped


def verdict(pvalue: float) -> str:
    """The conclusion of a test of "the same process", and no more than that.

    Examples
    --------
    >>> verdict(0.6)
    'No difference shown: two recordings of the same process may well differ this much.'
    """
    if pvalue <= 0.05:
        return "The recordings differ: two recordings of the same process would rarely differ this much."
    return "No difference shown: two recordings of the same process may well differ this much."


@dataclass(frozen=True)
class SameProcessResult:
    """Result of a permutation test.

    Attributes
    ----------
    statistic : float
        Distance between the two estimated chains; for more than two recordings, the squared distances to the pooled
        chain, weighted by numbers of episodes; or Pearson's chi-squared.
    pvalue : float
        Fraction of random permutations of the episodes at least as far apart, including the data themselves.
    n_permutations : int
        Number of permutations drawn.
    stopped_early : bool
        Whether the test stopped because enough permutations were as far apart as the data to settle the conclusion;
        the p-value is then that of Besag and Clifford's sequential test, which has exact level too.
    observed : float
        The value compared with the permutations: the larger of the first-order distance at the pooled process and
        chi-squared, both in standard deviations above their permutation means; or chi-squared itself.
    null_distribution : ndarray, shape (n_permutations,)
        The same for the permutations.
    """

    statistic: float
    pvalue: float
    n_permutations: int
    stopped_early: bool
    observed: float = field(repr=False)
    null_distribution: Floats = field(repr=False)

    def _repr_html_(self) -> str:
        early = "; more would not change the conclusion" if self.stopped_early else ""
        facts = [
            ("statistic", figure(self.statistic)),
            ("compared", f"with {self.n_permutations:,} random permutations of the episodes{early}"),
        ]
        picture = histogram(self.null_distribution, self.observed)
        return card(f"p = {self.pvalue:.3g}", facts, picture, sub=verdict(self.pvalue))

    def __str__(self) -> str:
        early = ", stopped early" if self.stopped_early else ""
        conclusion = verdict(self.pvalue).partition(":")[0].lower()
        figures = f"statistic {self.statistic:.4g}, {self.n_permutations} permutations{early}"
        return f"p = {self.pvalue:.3g}, {conclusion}, {figures}"


@one_blas_thread
def same_process(
    x: Samples | Sequence[Samples],
    y: Samples | None = None,
    cost: ArrayLike | str | Callable[[Samples, Samples], ArrayLike] = "labels",
    *,
    discount: float | None = None,
    statistic: str = "distance",
    n_permutations: int = 199,
    rng: int | np.random.Generator | None = None,
    threads: int | None = None,
    progress: bool = False,
) -> SameProcessResult:
    """Permute whole episodes between recordings; see `somcot.same_process`."""
    recordings = _recordings(x, y)
    if statistic not in ("distance", "pearson"):
        raise ValueError(f"statistic: found {statistic!r}, expected 'distance' or 'pearson'")
    n_permutations = check_count("n_permutations", n_permutations, at_most=MOST_PERMUTATIONS)
    check_flag("progress", progress)
    seed = int(check_rng(0 if rng is None else rng).integers(2**62))
    pool = PooledEpisodes.of(recordings)
    _warn_few(pool)
    _warn_of_names(recordings)
    measure: Statistic = pearson
    if statistic == "distance":
        if discount is None:
            raise TypeError("discount: needed for statistic='distance'; statistic='pearson' does without")
        discount = check_discount(discount)
        offset, scale, unit = _in_units(_table(cost, recordings, pool), pool.n_groups)
        value = offset + scale * exact(pool, unit, discount, threads)
        apart = [pool.shuffled(seed, _APART + b) for b in range(_REFERENCE)]
        measure = loudest(pool, [slope(pool, unit, discount, threads), pearson], apart)
    else:
        value = pearson(pool, pool.observed)
    outcome = _sequential(pool, measure, seed, n_permutations, threads, meter(n_permutations) if progress else None)
    if _too_alike(pool, seed):
        warn(Note("too-alike"), DataWarning)
    return SameProcessResult(value, outcome.pvalue, len(outcome.null), outcome.stopped, outcome.observed, outcome.null)


def permutation_test(
    x: Data, y: Data, cost: Floats, discount: float, n_permutations: int, rng: np.random.Generator
) -> tuple[float, Floats]:
    """The first-order distance of two recordings, and that of random permutations of their episodes.

    If one of the two is Counts, single transitions are permuted instead. `cost` is the unit cost between the states
    of `x`.
    """
    pool = pool_of_two(x, y)
    measure = slope(pool, cost, discount, threads=1)
    seed = int(rng.integers(2**62))
    null = [measure(pool, pool.shuffled(seed, b)) for b in range(n_permutations)]
    return measure(pool, pool.observed), np.array(null)


def sequential_pvalue(pool: AnyPool, measure: Statistic, n_permutations: int) -> float:
    """P-value of one statistic, with a fixed seed, in this thread."""
    return _sequential(pool, measure, 0, n_permutations, threads=1).pvalue


def looks_identical(x: Samples, y: Samples) -> Note | None:
    """A note for recordings more similar than independent ones can be, such as a log and a copy of it.

    Chi-squared of the main entries of the rows must be smaller than in 999 permutations of the episodes, so one
    valid comparison in a thousand is suspected. The search ends at the first permutation that is as similar: after
    seven on average.
    """
    if x.discount != y.discount or known_starts_differ(x, y) or x.n_transitions + y.n_transitions > _MOST:
        return None
    return Note("too-alike") if _too_alike(PooledEpisodes.of([x, y]), seed=0) else None


def _too_alike(pool: PooledEpisodes, seed: int) -> bool:
    rows = np.array([pool.support.row_sums(group) for group in pool.counts(pool.observed)])
    shares = rows / rows.sum(axis=1, keepdims=True)
    if shares.min(axis=0).sum() < 0.5:  # few rows in common: chi-squared has little to compare
        return False
    observed = main_pearson(pool, pool.observed)
    return all(main_pearson(pool, pool.shuffled(seed, b)) > observed for b in range(_APART, _APART + _ALIKE))


@dataclass(frozen=True)
class _Sequential:
    pvalue: float
    observed: float
    null: Floats
    stopped: bool


def _sequential(
    pool: AnyPool, measure: Statistic, seed: int, n: int, threads: int | None, report: Any = None
) -> _Sequential:
    """Besag and Clifford's sequential Monte-Carlo test.

    Stopping at the h-th permutation as far apart as the data gives p = h / (permutations so far), otherwise
    p = (1 + as far apart) / (n + 1): both have exact level. With h at least 5 % of n, a test that stops can no longer
    give a p-value below 5 %.
    """
    enough = max(_ENOUGH, int(np.ceil(_LEVEL * (n + 1))))
    observed = measure(pool, pool.observed)
    bar = observed - 1e-9 * max(abs(observed), 1e-3)  # the observed grouping drawn again counts, despite rounding
    values: list[float] = []
    with ThreadPoolExecutor(thread_count(threads)) as executor:
        for begin in range(0, n, _ROUND):
            indices = range(begin, min(begin + _ROUND, n))
            values += executor.map(lambda b: measure(pool, pool.shuffled(seed, b)), indices)
            if report is not None:
                report(len(values), n, observed)
            far = np.cumsum(np.array(values) >= bar)
            if far[-1] >= enough:
                stop = int(np.searchsorted(far, enough)) + 1
                return _Sequential(enough / stop, observed, np.array(values[:stop]), stop < n)
    return _Sequential((1 + int(far[-1])) / (n + 1), observed, np.array(values), False)


def _recordings(x: Any, y: Any) -> list[Samples]:
    many = isinstance(x, (list, tuple))
    if many and y is not None:
        raise TypeError("y: x is a list of recordings already; put y into it, and name cost= and discount=")
    if not many and y is None:
        raise TypeError("y: missing; pass two recordings, or a list of them as x")
    recordings = list(x) if many else [x, y]
    if len(recordings) < 2:
        raise ValueError(f"x: found a list of {len(recordings)} recording(s), expected at least 2")
    check_recordings(recordings, (lambda i: f"x[{i}]") if many else (lambda i: "xy"[i]))
    return recordings


def _warn_few(pool: PooledEpisodes) -> None:
    """Warn if there are too few distinct permutations of the episodes for a small p-value."""
    ways, left = 1, len(pool.observed)
    for size in np.bincount(pool.observed):
        ways *= comb(left, int(size))
        left -= int(size)
    if ways < 1 / _LEVEL:
        sizes = {"episodes": len(pool.observed), "groups": pool.n_groups, "ways": ways, "least": 1 / ways}
        warn(Note("few-permutations", **sizes), DataWarning)


def _warn_of_names(recordings: Sequence[Samples]) -> None:
    """Warn if the p-value reflects names: no episode of one recording could belong to another."""
    if all(set(x.states).isdisjoint(y.states) for x, y in combinations(recordings, 2)):
        warn(Note("no-shared-states"), DataWarning)


def _in_units(table: Floats, n_groups: int) -> tuple[float, float, Floats]:
    """Offset and scale that convert distances, or sums of squares, to the user's units; the cost in [0, 1]."""
    least, spread = float(table.min()), float(table.max() - table.min()) or 1.0
    offset, scale = (least, spread) if n_groups == 2 else (0.0, spread**2)
    return offset, scale, (table - least) / spread


def _table(cost: Any, recordings: Sequence[Samples], pool: PooledEpisodes) -> Floats:
    """The cost between all states of all recordings, in the order of the pooled states."""
    pooled = pool.pooled
    n, states = pooled.n_states, pooled.states
    if isinstance(cost, str) and cost != "features":
        return _named_cost(cost, pooled)
    if isinstance(cost, (str, costs.FeatureCost)):
        table = _named_cost("features", pooled)
        _doubt_features(cost, recordings)
        return table
    if callable(cost):
        return costs.check_cost(cost(pooled, pooled), n, n)
    array = np.asarray(cost)
    agree = all(set(recording.states) == set(states) for recording in recordings)
    if agree and len(recordings) == 2:
        order = [recordings[1].states.index(label) for label in states]
        return costs.check_cost(array, n, n)[:, order]
    if array.shape != (n, n):
        raise ValueError(
            f"cost: shape is {array.shape}; episodes are permuted, so it must have the cost between all states of all "
            f"recordings: shape {(n, n)}, states in the order in which they first occur, those of the "
            "first recording before new ones of the next; or pass cost='labels' or a function of two Samples"
        )
    return costs.check_cost(array, n, n)


def _doubt_features(cost: str | costs.FeatureCost, recordings: Sequence[Samples]) -> None:
    """Refuse costs that the test cannot see: rewards that differ in one state."""
    if isinstance(cost, str):
        if len(recordings) > 2:
            return
        cost = costs.from_features(*recordings)
    if cost.kept_apart:
        raise ValueError(
            "cost: pool=False counts rewards that differ in one state, but episodes are permuted by their states, "
            "and rewards are known for each state, not for each episode; somcot.distance(..., confidence=0.9) has an "
            "interval that counts them, and cost='features' tests the transitions alone"
        )
    note = cost.disagreement("features-differ-in-test")
    if note is not None:
        warn(note, DataWarning)


def _named_cost(cost: str, pooled: Samples) -> Floats:
    if cost == "labels":
        return 1.0 - np.eye(pooled.n_states)
    if cost != "features":
        raise ValueError(f"cost: found {cost!r}, expected 'labels', 'features', an array or a function of two Samples")
    if pooled.features is None or np.isnan(pooled.features).any():
        raise ValueError("cost: 'features' needs a reward for every state; pass rewards= when making the Samples")
    return costs.absolute(pooled.features, pooled.features)
