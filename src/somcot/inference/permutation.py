"""Permutation tests: are these recordings of the same process, and which order does a Markov process have?

**The same process?** Whole episodes are permuted between groups.

**Markov order.** Order k holds if, given the last k states, the next state does not depend on the state before them.
For every k-gram that occurs, the table of "state before" against "next state" is tested by Pearson's chi-squared. Its
null distribution comes from permuting the next states among the occurrences of each k-gram, which keeps both margins
and is therefore valid for tables far too sparse for the chi-squared distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from somcot import costs
from somcot.chains import Support
from somcot.compile.jit import kernel
from somcot.inference.statistics import FIRST_REFERENCE, Expansion, Statistics, chi_squared, main_entries, permute
from somcot.inference.step_rewards import Earnings, earnings_between
from somcot.inference.strata import Strata, pair_or_list, strata_of
from somcot.inference.units import Engine, WholeSequences, chosen_engine
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_count, check_discount, check_flag, check_rng, check_text
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.html import Table, card, histogram
from somcot.plumbing.memory import one_blas_thread
from somcot.plumbing.notes import Note
from somcot.plumbing.text import figure, lower_end, meter, shown_pvalue
from somcot.problem import Data
from somcot.recorded.counts import Counts, known_starts_differ
from somcot.recorded.transforms import EpisodeSteps, copied, find_words
from somcot.result import Result
from somcot.samples import Samples
from somcot.trajectories import needs_cells

__all__ = [
    "MarkovOrder",
    "SameProcessResult",
    "decision",
    "has_memory",
    "looks_identical",
    "markov_order",
    "pooled_cost",
    "same_process",
    "verdict",
]

# --- The same process?

MOST_PERMUTATIONS = 10_000_000  # all are kept in the result, and no p-value needs more
_LEVEL = 0.05  # significance level
_ALIKE = 999  # permutations that must all be farther apart for recordings to be suspiciously similar
_MOST = 5_000_000  # transitions above which this check is skipped


def verdict(pvalue: float) -> str:
    """The conclusion of a test of "the same process", and no more than that.

    Examples
    --------
    >>> verdict(0.6)
    'No difference shown: two recordings of the same process may well differ this much.'
    >>> verdict(0.05)
    'The recordings differ: two recordings of the same process would rarely differ this much.'
    """
    if pvalue <= 0.05:
        return "The recordings differ: two recordings of the same process would rarely differ this much."
    return "No difference shown: two recordings of the same process may well differ this much."


def decision(test: SameProcessResult) -> str:
    """The verdict of a test with a margin as a sentence, with the interval that it rests on."""
    assert test.distance is not None
    assert test.distance.confidence_interval is not None
    low, high, level = test.distance.confidence_interval
    made = test.distance.makeup
    least = figure(low) if made is None else lower_end(low, float(made.cost.min()), float(made.cost.max()))
    interval = f"{100 * level:g} % interval {least} to {figure(high)}, a cautious upper end"
    if test.verdict == "equivalent":
        return f"Equivalent: the distance is below the margin of {test.margin:g} ({interval})."
    if test.verdict == "changed":
        more = "by" if low >= (test.margin or 0.0) else "possibly by"
        return f"Changed: the recordings differ, {more} more than the margin of {test.margin:g} ({interval})."
    return (
        f"Inconclusive: neither a difference nor a distance below the margin of {test.margin:g} is shown ({interval}); "
        f"about {test.sequences_needed:,} sequences per side would probably decide."
    )


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
    margin : float or None
        Largest distance that counts as equal, if one was given; the fields below are None without it.
    verdict : str or None
        "equivalent": the upper end of the 90 % interval is below the margin. Otherwise "changed" if the p-value is at
        most 0.05, and "inconclusive" if not. Each of the first two is wrong in at most about 5 % of cases.
    equivalence_pvalue : float or None
        P-value of "the distance is at least `margin`"; at most 0.05 exactly if the verdict is "equivalent".
    sequences_needed : int or None
        If inconclusive: about how many sequences per side would probably lead to one of the other verdicts.
    distance : Result or None
        The estimated distance, with contributions and its 90 % interval, whose upper end does not pool similar rows.
    """

    statistic: float
    pvalue: float
    n_permutations: int
    stopped_early: bool
    observed: float = field(repr=False)
    null_distribution: Floats = field(repr=False)
    margin: float | None = field(default=None, repr=False)
    verdict: str | None = field(default=None, repr=False)
    equivalence_pvalue: float | None = field(default=None, repr=False)
    sequences_needed: int | None = field(default=None, repr=False)
    distance: Result | None = field(default=None, repr=False)

    def _repr_html_(self) -> str:
        early = "; more would not change the conclusion" if self.stopped_early else ""
        compared = f"with {self.n_permutations:,} random permutations of the episodes{early}"
        facts = [("statistic", figure(self.statistic)), ("compared", compared)]
        picture = histogram(self.null_distribution, self.observed)
        if self.verdict is None:
            return card(f"p = {self.pvalue:.3g}", facts, picture, sub=verdict(self.pvalue))
        more = f"{shown_pvalue(self.equivalence_pvalue)} for more than the margin of {self.margin:g}"
        facts = [("p-value", f"{self.pvalue:.3g} for no difference, {more}"), *facts]
        return card(self.verdict, facts, picture, sub=decision(self))

    def __str__(self) -> str:
        early = ", stopped early" if self.stopped_early else ""
        conclusion = verdict(self.pvalue).partition(":")[0].lower()
        figures = f"statistic {self.statistic:.4g}, {self.n_permutations} permutations{early}"
        if self.verdict is not None:
            p = shown_pvalue(self.equivalence_pvalue)
            figures += f"; {self.verdict} at margin {self.margin:g}, p-value {p} of a larger one"
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
    margin: float | None = None,
    strata: Any = None,
    paired_by: Any = None,
) -> SameProcessResult:
    """Permute whole episodes between recordings; see `somcot.same_process`."""
    recordings = pair_or_list(x, y)
    if margin is not None:
        from somcot.inference.decisions import test_with_margin  # which calls this function

        if len(recordings) != 2 or statistic != "distance" or discount is None:
            raise ValueError("margin: needs two recordings, statistic='distance' and a discount")
        return test_with_margin(
            recordings[0], recordings[1], cost, discount=check_discount(discount), margin=margin, rng=rng,
            n_permutations=n_permutations, threads=threads, progress=progress, strata=strata, paired_by=paired_by,
        )  # fmt: skip
    check_text("statistic", statistic, "distance", "pearson")
    n_permutations = check_count("n_permutations", n_permutations, at_most=MOST_PERMUTATIONS)
    check_flag("progress", progress)
    seed = int(check_rng(0 if rng is None else rng).integers(2**62))  # one number seeds all permutations
    names = ("x", "y") if y is not None else [f"x[{i}]" for i in range(len(recordings))]
    engine = _engine(recordings, strata_of(recordings, strata, paired_by, names))
    _warn_few(engine)
    _warn_of_names(recordings)
    report = meter(n_permutations) if progress else None
    if statistic == "distance":
        if discount is None:  # only the distance has a horizon
            raise TypeError("discount: needed for statistic='distance'; statistic='pearson' does without")
        discount = check_discount(discount)
        offset, scale, unit = _in_units(pooled_cost(cost, recordings, engine.pooled), engine.n_groups)
        subject = Groups(engine, unit, discount, earnings_between(cost, recordings, engine, scale))
        value = offset + scale * _exact(subject)
        outcome = permute(subject, seed, n_permutations, threads=threads, report=report)
    else:
        subject = Groups(engine)
        value = float(subject.statistics(subject.counts[None]).chi_squared[0])
        outcome = permute(subject, seed, n_permutations, chi_squared_only=True, threads=threads, report=report)
    if copied(*recordings[:2]) or _too_alike(engine, seed):
        warn(Note("too-alike"), DataWarning)
    return SameProcessResult(value, outcome.pvalue, len(outcome.values), outcome.stopped, outcome.value, outcome.values)


def _engine(recordings: Sequence[Samples], strata: Strata | None = None) -> Engine:
    """Units as for an interval."""
    engine, notes = chosen_engine(recordings, strata)
    for note in notes:
        warn(note, DataWarning)
    return engine


@dataclass(frozen=True, eq=False)
class Groups:
    """Two or more recordings whose units are permuted; without a cost, chi-squared only."""

    engine: Engine
    cost: Floats | None = None
    discount: float = 0.0
    earnings: Earnings | None = None

    @cached_property
    def counts(self) -> Floats:
        """Observed counts, (n_groups, n_entries)."""
        return self.engine.counts(self.engine.observed)

    def null(self, seed: int, indices: Sequence[int]) -> Floats:
        """Counts of permutations, (n_draws, n_groups, n_entries)."""
        return self.engine.regroup(seed, indices)  # each index has its own random stream

    @cached_property
    def centre(self) -> Floats:
        """Probabilities of the pooled process."""
        return self.engine.kernels(self.engine.total, self.engine.support.probabilities)

    @cached_property
    def _expansion(self) -> Expansion:
        return Expansion.pooled(self._at(self.centre), np.asarray(self.cost), self.discount)

    def statistics(self, counts: Floats) -> Statistics:
        """Two groups: their first-order distance. More: squared distances to the pooled process, weighted by size."""
        support = self.engine.support
        chi = chi_squared(support, counts, self.engine.tested)
        unused = np.empty((len(counts), 0))  # row statistics are for intervals only
        if self.cost is None:
            return Statistics(chi, chi, unused)
        kernels = self.engine.kernels(counts, self.centre)
        if self.engine.n_groups == 2:
            values = self._expansion.values(support, kernels[:, 0], support, kernels[:, 1])
            if self.earnings is not None:
                values += self.earnings.change(self._expansion, kernels[:, 0], kernels[:, 1])
            return Statistics(values, chi, unused)
        pooled = np.broadcast_to(self.centre, kernels[:, 0].shape)
        apart = [self._expansion.values(support, kernels[:, g], support, pooled) for g in range(self.engine.n_groups)]
        return Statistics(self.engine.shares @ np.array(apart) ** 2, chi, unused)

    def _at(self, probabilities: Floats) -> Support:
        return Support(self.engine.support.indptr, self.engine.support.indices, probabilities)


def _exact(groups: Groups) -> float:
    """The statistic of the observed groups, with distances solved exactly."""
    assert groups.cost is not None
    kernels = [groups._at(p) for p in groups.engine.kernels(groups.counts, groups.centre)]
    pooled = groups._at(groups.centre)
    sides = [(kernels[0], kernels[1])] if len(kernels) == 2 else [(kernel, pooled) for kernel in kernels]
    cost = groups.cost if groups.earnings is None else groups.earnings.cost(*(p.probabilities for p in sides[0]))
    values = [Expansion.at(p, q, cost, groups.discount, tolerance=0.0).value for p, q in sides]
    return values[0] if len(kernels) == 2 else float(groups.engine.shares @ np.array(values) ** 2)


def looks_identical(x: Samples, y: Samples, engine: Engine | None = None) -> Note | None:
    """A note for recordings more similar than independent ones can be, such as a log and a copy of it.

    Chi-squared of the main entries of the rows must be smaller than in 999 permutations of the episodes, so one
    valid comparison in a thousand is suspected. The search ends at the first permutation that is as similar: after
    seven on average. `engine` has both recordings, if it exists already.
    """
    if x.discount != y.discount or known_starts_differ(x, y) or x.n_transitions + y.n_transitions > _MOST:
        return None
    return Note("too-alike") if copied(x, y) or _too_alike(engine or chosen_engine([x, y])[0], seed=0) else None


def _too_alike(engine: Engine, seed: int) -> bool:
    support = engine.support
    observed = engine.counts(engine.observed)
    rows = np.add.reduceat(observed, support.indptr[:-1], axis=1)
    shares = rows / rows.sum(axis=1, keepdims=True)
    if shares.min(axis=0).sum() < 0.5:  # few rows in common: chi-squared has little to compare
        return False
    main = main_entries(support)
    least = chi_squared(support, observed, main)
    return all(
        chi_squared(support, engine.counts(engine.grouping(seed, FIRST_REFERENCE + b)), main) > least
        for b in range(_ALIKE)
    )


def _warn_few(engine: Engine) -> None:
    """Warn if there are too few distinct permutations of the episodes for a small p-value."""
    if not isinstance(engine, WholeSequences):
        return
    ways = engine.n_permutations
    if ways < 1 / _LEVEL:  # the smallest possible p-value exceeds the level
        sizes = {"episodes": engine.pooled.n_episodes, "groups": engine.n_groups, "ways": ways, "least": 1 / ways}
        warn(Note("few-permutations", **sizes), DataWarning)


def _warn_of_names(recordings: Sequence[Samples]) -> None:
    """Warn if the p-value reflects names: no episode of one recording could belong to another."""
    if all(set(x.states).isdisjoint(y.states) for x, y in combinations(recordings, 2)):
        warn(Note("no-shared-states"), DataWarning)


def _in_units(table: Floats, n_groups: int) -> tuple[float, float, Floats]:
    """Offset and scale that convert distances, or sums of squares, to the user's units; the cost in [0, 1]."""
    least, spread = float(table.min()), float(table.max() - table.min()) or 1.0
    offset, scale = (least, spread) if n_groups == 2 else (0.0, spread**2)  # squares have no offset
    return offset, scale, (table - least) / spread


def pooled_cost(cost: Any, recordings: Sequence[Samples], pooled: Samples | Counts) -> Floats:
    """The cost between all states of all recordings, in the order of the pooled states."""
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
        return costs.check_cost(array, n, n)[:, order]  # columns in the order of x
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
            return  # for more than two there is no pairwise cost
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


def _named_cost(cost: str, pooled: Samples | Counts) -> Floats:
    if cost == "labels":
        return 1.0 - np.eye(pooled.n_states)
    if cost != "features":  # of the pooled recording, which permutations leave as it is
        return costs.check_cost(costs.between(cost, pooled, pooled), pooled.n_states, pooled.n_states)
    if pooled.features is None or np.isnan(pooled.features).any():
        raise ValueError("cost: 'features' needs a reward for every state; pass rewards= when making the Samples")
    return costs.absolute(pooled.features, pooled.features)


# --- Markov order

_PERMUTATIONS = 399
_QUICK = 19  # permutations of the check made in every comparison of data
_CLEAR = 6.0  # standard deviations above chance
_STRONG = 0.02  # mean squared relative change of the next state's distribution, about 0.01 nats, per change of state
_LOOKED_AT = 10_000  # this check uses the first changes of state, up to this number, of ten times as many steps


class MarkovOrder(NamedTuple):
    """Result of `markov_order`.

    Attributes
    ----------
    order : int
        The smallest order not rejected at 5 %; one more than the last order tested if all are rejected.
    pvalues : tuple of float
        P-values of order 1 against 2, 2 against 3, and so on.
    """

    order: int
    pvalues: tuple[float, ...]

    def _repr_html_(self) -> str:
        more = " or more" if self.order > len(self.pvalues) else ""
        rows = [(f"{k} against {k + 1}", f"{p:.3g}") for k, p in enumerate(self.pvalues, 1)]
        subtitle = "the smallest order not rejected at 5 %"
        return card(f"order {self.order}{more}", (), Table(("tested", "p-value"), rows, "lr"), sub=subtitle)

    def __str__(self) -> str:
        tests = ", ".join(f"{k} against {k + 1}: p = {p:.3g}" for k, p in enumerate(self.pvalues, 1))
        more = " or more" if self.order > len(self.pvalues) else ""
        return f"order {self.order}{more} ({tests})"


def markov_order(samples: Data, *, max_order: int = 3, rng: int | np.random.Generator | None = None) -> MarkovOrder:
    """Test how many past states matter for the next state; see `somcot.markov_order`."""
    if isinstance(samples, Counts):
        raise TypeError("samples: found Counts, which do not keep episodes; pass the Samples to test the order")
    if not isinstance(samples, Samples):
        raise TypeError(f"samples: found {type(samples).__name__}, expected Samples{needs_cells(samples)}")
    if samples.offsets is None:
        raise ValueError(
            "samples: independent transitions have no past beyond one state; the order can only be tested on episodes"
        )
    max_order = check_count("max_order", max_order)
    generator = check_rng(0 if rng is None else rng)
    pvalues = tuple(_order_pvalue(Occurrences.of(_steps(samples), k), generator) for k in range(1, max_order + 1))
    accepted = [k for k, p in enumerate(pvalues, 1) if p > _LEVEL]  # orders that the test does not reject
    return MarkovOrder(min(accepted, default=max_order + 1), pvalues)


_KNOWN_MEMORY: WeakKeyDictionary[Samples, bool] = WeakKeyDictionary()  # read once per pair of a matrix


def has_memory(samples: Samples) -> bool:
    """Whether order 1 is clearly violated: significantly, and by a relevant amount."""
    if samples.offsets is not None and samples not in _KNOWN_MEMORY:
        _KNOWN_MEMORY[samples] = _violates_order_one(samples)  # weak keys: recordings are not kept alive
    return samples.offsets is not None and _KNOWN_MEMORY[samples]


def _violates_order_one(samples: Samples) -> bool:
    steps = _steps(samples, 10 * _LOOKED_AT)
    # Steps that stay are not counted: a finer clock adds them, and would dilute a memory whose effects add up.
    moves = np.flatnonzero(steps.now != steps.following)[:_LOOKED_AT]
    words = Occurrences.of(_steps(samples, int(moves.max(initial=0)) + 1), 1)
    if not len(words.next):
        return False
    values = _chi_squared_of_words(*words, samples.n_states, _QUICK, np.random.default_rng(0))
    return bool(values[0] - values[1:].mean() > max(_CLEAR * values[1:].std(ddof=1), _STRONG * len(moves)))


class Occurrences(NamedTuple):
    """Occurrences of k-grams with a preceding and a following state, sorted by k-gram, then by preceding state.

    Attributes
    ----------
    word : ndarray of int64
        K-gram w has the positions ``word[w]`` to ``word[w + 1]``.
    block : ndarray of int64
        The same for each pair of a k-gram and its preceding state.
    next : ndarray of int32
        The state after each occurrence.
    """

    word: NDArray[np.int64]
    block: NDArray[np.int64]
    next: NDArray[np.int32]

    @classmethod
    def of(cls, steps: EpisodeSteps, k: int) -> Occurrences:
        """Collect the occurrences in episodes."""
        at = find_words(steps, k)
        first, last = at.first[at.before], at.last[at.before]
        if not len(last):
            return cls(np.zeros(1, np.int64), np.zeros(1, np.int64), steps.now[:0])
        word = steps.numbered([steps.now[first + i] for i in range(k)])
        key = word * steps.n_states + steps.now[first - 1]
        order = np.argsort(key, kind="stable")  # stable, so that permutations do not depend on the platform
        return cls(_edges(word[order]), _edges(key[order]), steps.following[last[order]])


def _steps(samples: Samples, most: int | None = None) -> EpisodeSteps:
    """The first `most` steps, all by default."""
    assert samples.offsets is not None
    end = samples.n_transitions if most is None else min(most, samples.n_transitions)
    offsets = np.unique(np.minimum(samples.offsets, end))  # an episode that is cut keeps its beginning
    return EpisodeSteps(samples.now[:end], samples.following[:end], offsets, samples.n_states)


def _edges(sorted_keys: NDArray[np.int64]) -> NDArray[np.int64]:
    inner = np.flatnonzero(np.diff(sorted_keys)) + 1
    return np.concatenate([[0], inner, [len(sorted_keys)]]).astype(np.int64)


def _order_pvalue(words: Occurrences, rng: np.random.Generator) -> float:
    if not len(words.next):
        return 1.0
    values = _chi_squared_of_words(*words, int(words.next.max()) + 1, _PERMUTATIONS, rng)
    as_large = int((values[1:] >= values[0] * (1.0 - 1e-12)).sum())  # equal up to rounding counts as large
    return (1 + as_large) / (_PERMUTATIONS + 1)


def _chi_squared_of_words(
    word: NDArray[np.int64], block: NDArray[np.int64], following: NDArray[np.int32], n: int, n_permutations: int,
    rng: np.random.Generator,
) -> NDArray[np.float64]:  # fmt: skip
    """Chi-squared of the data, first, and of `n_permutations` permutations."""
    values: NDArray[np.float64] = _permuted(word, block, following.copy(), n, n_permutations, rng)
    return values


@kernel
def _permuted(word, block, following, n, n_permutations, rng):  # type: ignore[no-untyped-def]
    """Chi-squared, n_w counting occurrences of a k-gram: sum_w n_w sum_ab n_awb^2 / (n_aw n_wb), minus positions."""
    values = np.empty(n_permutations + 1)
    margin = np.zeros(n)
    cell = np.zeros(n)
    for trial in range(n_permutations + 1):
        total = -float(following.size)
        begin = 0
        for w in range(word.size - 1):
            lo, hi = word[w], word[w + 1]
            if trial > 0:
                for t in range(hi - 1, lo, -1):  # Fisher-Yates, within the k-gram only
                    other = lo + int(rng.random() * (t - lo + 1))
                    following[t], following[other] = following[other], following[t]
            for t in range(lo, hi):
                margin[following[t]] += 1.0
            while begin < block.size - 1 and block[begin] < hi:
                first, last = block[begin], block[begin + 1]
                for t in range(first, last):
                    b = following[t]
                    # (c + 1)^2 - c^2 more in the numerator of this cell
                    total += (hi - lo) * (2.0 * cell[b] + 1.0) / ((last - first) * margin[b])
                    cell[b] += 1.0
                for t in range(first, last):  # cleared entry by entry, as the table may be much larger
                    cell[following[t]] = 0.0
                begin += 1
            for t in range(lo, hi):
                margin[following[t]] = 0.0
        values[trial] = total
    return values
