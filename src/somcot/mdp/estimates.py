"""The distance between two decision processes, known or recorded, from their initial distributions.

Recorded rows, one for each state and action, are noisy, which makes the distance of the counted tables too large. Rows
that the data cannot distinguish are pooled (`somcot.inference.pooling`, rows with a prior of sizes); mean rewards too.
Draws of equal processes calibrate the tests, since steps of an episode may vary together. Pooled rows differ by the
right size on average, but the largest over actions of noisy sizes is too large: recordings of the pooled processes are
drawn and pooled again, and by how much the mean of their distances exceeds that of the pooled processes is subtracted
(bootstrap bias correction).

The interval inverts the distribution of the pooled distance along the path from equal processes (t = 0) over the pooled
(t = 1) to the counted ones (t = 2): for each t, recordings are drawn, and their pooled distances have mean m(t) and
standard deviation s(t). The ends are the distances at those t where the observed one is z standard deviations above or
below m(t), or it minus or plus z s(1) where that is further. Every draw is pooled again: the bias is small for any t,
while that of the counted distance depends on differences too small to be seen, which no path through the data knows.

A row on the path is a mixture of the rows of both sides, and so is a recording of it: whole episodes of both are drawn
with replacement, and a step counts with the rate that gives its row the recorded number of visits and the right
mixture. What the steps of an episode share, such as a hidden state, is therefore in the draws as it is in the data.
Where the other side is known, as few next states as possible are exchanged in the episodes of the recorded one.

What a transition earns, on average over both sides, goes with the row: mean rewards are tested and pooled without it.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from somcot.clocks import Clock
from somcot.couplings import Residuals
from somcot.mdp.distances import ActionTables, Comparison, with_actions_of
from somcot.mdp.process import MDP, check_mdp, check_range, policy_law
from somcot.mdp.recorded import END, RecordedMDP, StepsByUnit, paid_of
from somcot.plumbing.arrays import Bools, Floats, Ints
from somcot.plumbing.checks import check_confidence, check_discount, check_rng
from somcot.plumbing.memory import require
from somcot.plumbing.notes import Note, Share
from somcot.result import Bounds, ConfidenceInterval, Details, Result, Status

__all__ = ["distance"]

_LARGEST = 1e6  # statistic of mean rewards that hardly vary
_ROUNDING = 1e-12  # relative error of a mean of equal rewards
_TESTS = 100  # draws of equal processes that calibrate the tests; they need no solve
_DRAWS = 20  # at each of the three points of the path
_PATH = (0.0, 1.0, 2.0)
_Test = tuple[Floats, Floats, Floats]  # statistic, degrees of freedom and noise of each row, as for `Homogeneity`


def distance(
    x: MDP,
    y: MDP,
    *,
    discount: float,
    policy: Any = None,
    confidence: float | None = None,
    reward_range: tuple[float, float] | None = None,
    rng: int | np.random.Generator | None = None,
    threads: int | None = None,
) -> Result:
    """Distance between two decision processes from their initial distributions.

    The metric of `mdp.metric`, coupled over the initial distributions: the largest over all actions, or under a policy.
    For recorded processes it is estimated: rows that the data cannot distinguish are pooled, and the bias that is left
    is found by drawing recordings of the pooled processes. It takes 23 solves.

    Parameters
    ----------
    x, y : MDP or RecordedMDP
        Processes with the same actions, in any order. States are matched by their labels. An action that one side never
        tried in a state is taken to do what it does on the other side; states are not compared by actions that neither
        tried. The upper end of an interval allows untried actions any value.
    discount : float
        Strictly between 0 and 1.
    policy : array_like, shape (n,) or (n, n_actions), optional
        An action, or the probability of each action, for each state of `x`. By default the largest distance over all
        actions, which bounds the difference of the optimal values by ``distance / (1 - discount)``.
    confidence : float, optional
        Level of a confidence interval for recorded processes, such as 0.9. It takes 63 solves.
        Episodes must be independent; their steps need not be. Fewer than ten are cut into blocks.
    reward_range : (float, float), optional
        Smallest and largest possible reward, for actions that were never tried and whatever follows them. By default
        the least and the largest reward recorded, or of a known process.
    rng : None, int or numpy.random.Generator
        Seed of the draws behind estimate and interval; None uses a fixed seed.
    threads : int, optional
        By default one per core; the result does not depend on it.

    Returns
    -------
    Result
        With ``plugin``, the distance of the counted tables. The encoder, the decoder and the coupling are under the
        actions that attain the maximum, which may differ from pair to pair of states.

    Examples
    --------
    >>> import numpy as np
    >>> from somcot import mdp
    >>> calm = mdp.MDP([[[0.9, 0.1], [0.1, 0.9]], [[0.9, 0.1], [0.1, 0.9]]], [[0, 0], [1, 1]])
    >>> windy = mdp.MDP([[[0.9, 0.1], [0.3, 0.7]], [[0.9, 0.1], [0.3, 0.7]]], [[0, 0], [1, 1]])
    >>> round(mdp.distance(calm, windy, discount=0.9).distance, 6)
    0.18
    >>> rng = np.random.default_rng(0)
    >>> s, a, u = rng.integers(2, size=2000), rng.integers(2, size=2000), rng.random(2000)
    >>> steps = mdp.RecordedMDP.from_transitions(s, a, s * 1.0, (u < windy.transitions[s, a, 1]) * 1, initial=0)
    >>> result = mdp.distance(calm, steps, discount=0.9, confidence=0.9)
    >>> result.confidence_interval.low < 0.18 < result.confidence_interval.high
    True
    """
    began = time.perf_counter()
    check_confidence(confidence)
    discount = check_discount(discount)
    # Actions of y in the order of x, so that rows of both sides correspond.
    y = with_actions_of(check_mdp("x", x), check_mdp("y", y))
    sizes = [side.n_transitions if isinstance(side, RecordedMDP) else 0 for side in (x, y)]
    pair, generator = _Pair.of(x, y, _policy(x, y, policy), discount, threads), check_rng(0 if rng is None else rng)
    if not any(sizes):
        return _result(pair, pair.counted, began, message="strategy iteration")
    pair, (low, high) = pair.calibrated(generator), _ends(x, y, reward_range)
    estimate, interval = pair.estimate(confidence, generator)
    if interval is not None:
        interval = pair.widened(interval, (low, high), generator)
    lone = [Share(int(side.missing.sum()), len(side.missing)) for side in (pair.x, pair.y)]
    notes = tuple(
        Note("untried-pairs", name, share=share, low=low, high=high)
        for name, share in zip("xy", lone, strict=True)
        if share[0]
    )
    return _result(pair, pair.counted, began, message="rows that the data cannot distinguish are pooled",
                   distance=estimate, method="auto", plugin=pair.counted.value, samples=(sizes[0], sizes[1]),
                   confidence_interval=interval, notes=notes)  # fmt: skip


class _Side(NamedTuple):
    """One process on the union of states.

    Attributes
    ----------
    tables : ActionTables
        Rows without data hold the process in place and earn nothing. Rewards are without what transitions earn.
    counts : ndarray, shape (n_rows + 1, n_states)
        0 for known rows.
    variance : ndarray, shape (n_rows,)
        Variance of a single reward.
    known : ndarray of bool, shape (n_rows + 1,)
        Rows without sampling error.
    """

    tables: ActionTables
    counts: Floats
    variance: Floats
    known: Bools
    steps: StepsByUnit | None = None

    @classmethod
    def of(cls, process: MDP, place: Ints, n: int, paid: Floats) -> _Side:
        """A process on n states; states that it does not have are known and absorbing."""
        m = process.n_actions
        at = (place[:, None] * m + np.arange(m)).ravel()
        law, reward, known = np.zeros((n * m + 1, n)), np.zeros(n * m), np.ones(n * m + 1, np.bool_)
        law[np.arange(n * m), np.arange(n * m) // m] = 1.0
        law[-1, place] = process.initial
        counts, variance = np.zeros_like(law), np.zeros(n * m)
        if not isinstance(process, RecordedMDP):
            law[np.ix_(at, place)] = process.transitions.reshape(len(at), -1)
            reward[at] = process.rewards.ravel()
            return cls(ActionTables(law, reward - (law[:-1] * paid).sum(axis=1)), counts, variance, known)
        known[at] = np.repeat(process.absorbing, m)
        known[-1] = process.start_known
        entries = process.outcomes
        rows, columns = at[entries.rows], place[entries.columns]
        counts[rows, columns], reward[at] = entries.number, process.rewards.ravel()
        if not process.start_known:
            # One observation per episode.
            counts[-1, place] = process.initial * process.n_episodes
        tried = counts.sum(axis=1) > 0
        law[tried] = counts[tried] / counts[tried].sum(axis=1, keepdims=True)
        reward -= (law[:-1] * paid).sum(axis=1)
        left = entries.squares + entries.number * (entries.reward - paid[rows, columns] - reward[rows]) ** 2
        squares, degrees = np.bincount(rows, left, n * m), np.maximum(counts[:-1].sum(axis=1) - 1.0, 0.0)
        shared = squares.sum() / max(float(degrees.sum()), 1.0)  # of rows with a single reward
        variance[at] = np.where(degrees > 0, squares / np.maximum(degrees, 1.0), shared)[at]
        side = cls(ActionTables(law, reward), counts, variance, known)
        return side._replace(steps=StepsByUnit.of(process, place, side.visits, reward, variance, paid))

    @property
    def visits(self) -> Floats:
        """Number of observations of each row."""
        visits: Floats = self.counts.sum(axis=1)
        return visits

    @property
    def missing(self) -> Bools:
        """Rows that are neither known nor tried."""
        none: Bools = (self.visits == 0) & ~self.known
        return none

    def filled_from(self, other: _Side) -> ActionTables:
        """Rows without data are those of the other side."""
        # Missing on both sides: each keeps its own absorbing row, and the two do not differ.
        take = self.missing & ~other.missing
        law = np.where(take[:, None], other.tables.law, self.tables.law)
        return ActionTables(law, np.where(take[:-1], other.tables.reward, self.tables.reward))

    def as_recorded(self, other: _Side) -> _Side:
        """Known rows of which the other side has steps are what they show."""
        take = self.known & (other.visits > 0)
        law = np.where(take[:, None], other.tables.law, self.tables.law)
        return self._replace(tables=ActionTables(law, np.where(take[:-1], other.tables.reward, self.tables.reward)))

    def drawn(self, other: _Side, own: Floats, tables: ActionTables, rng: np.random.Generator) -> _Side:
        """A recording of the process with these tables, whose rows are mixtures with the share `own` of this side.

        Episodes of both sides are drawn with replacement; each row has as many visits as were recorded, on average.
        A known side has none: next states of steps of this side are exchanged instead, as few as possible.
        """
        if self.steps is None:
            return self
        visits, rows = self.visits, (self.visits > 0) & ~self.known
        own, given, parts = np.where(other.known, 1.0, own), rows & other.known, []
        for side, share in ((self, own), (other, 1.0 - own)):
            if side.steps is not None:
                number = np.where(rows, share * visits, 0.0)
                rate = np.divide(number, side.visits, out=np.zeros_like(number), where=side.visits > 0)
                parts.append(side.steps.drawn(rate, self.counts.shape[1], rng))
        counts, total, squares = (sum(part) for part in zip(*parts, strict=True))
        counts[given] = _moved(counts[given], self.tables.law[given], tables.law[given], rng)
        n = counts.sum(axis=1)
        law, variance, mean = tables.law.copy(), self.variance.copy(), (total / np.maximum(n, 1.0))[:-1]
        law[n > 0] = counts[n > 0] / n[n > 0, None]
        several = n[:-1] > 1
        left = np.maximum(squares[:-1] - n[:-1] * mean**2, 0.0)
        variance[several] = left[several] / (n[:-1][several] - 1.0)
        return _Side(ActionTables(law, tables.reward + mean), counts, variance, self.known)


def _moved(counts: Floats, law: Floats, wanted: Floats, rng: np.random.Generator) -> Floats:
    """Counts of next states with this law, of which as few as possible are exchanged so that their law is `wanted`."""
    lacking = np.maximum(wanted - law, 0.0)
    apart = lacking.sum(axis=1)
    rate = np.minimum(np.divide(wanted, law, out=np.zeros_like(law), where=law > 0), 1.0)
    kept: Ints = rng.binomial(counts.astype(np.int64), rate)
    number = counts.sum(axis=1).astype(np.int64) - kept.sum(axis=1)
    new = rng.multinomial(number, lacking / np.where(apart > 0, apart, 1.0)[:, None])
    moved: Floats = np.where((apart > _ROUNDING)[:, None], kept + new, counts)
    return moved


class _Pair:
    """Two processes on the union of their states, those of x first."""

    def __init__(
        self, x: _Side, y: _Side, compared: Comparison, effects: tuple[Floats, Floats] | None = None
    ) -> None:  # fmt: skip
        self.x, self.y, self.compared = x, y, compared
        n_rows = len(x.counts)
        # Design effects of the tests of rows and of mean rewards.
        self.effects = (np.ones(n_rows), np.ones(n_rows - 1)) if effects is None else effects

    def calibrated(self, rng: np.random.Generator) -> _Pair:
        """The same pair; tests know how much steps of one episode vary together, from draws of equal processes."""
        equal, effects = self._equal(), []
        null = [equal.drawn(0.0, rng).tests for _ in range(_TESTS)]
        for k, spread in enumerate(self._spreads()):
            # Over the degrees of freedom of the draws: a draw may lack outcomes, visits or spread that the data have.
            # In units of rewards or shares, because few equal rewards would make a statistic as large as you like.
            T, df = (np.sum([tests[k][part] * tests[k][2] for tests in null], axis=0) for part in (0, 1))
            df *= spread
            effect = np.divide(T, df, out=np.ones(len(df)), where=df > 0)
            tested = self.tests[k][1]
            effect = np.maximum(effect, 0.5 * float(effect @ tested) / max(float(tested.sum()), 1.0))
            effects.append(np.where((df > 0) & (effect > 0), effect, 1.0))
        return _Pair(self.x, self.y, self.compared, (effects[0], effects[1]))

    def _equal(self) -> _Pair:
        """The same pair, where known rows are as recorded on the other side."""
        x, y = self.x.as_recorded(self.y), self.y.as_recorded(self.x)
        return _Pair(x, y, self.compared)

    def _spreads(self) -> tuple[Floats, Floats]:
        """Variances of draws of rows and of mean rewards, relative to those of recordings, if steps are independent.

        Units are drawn around a mean to which they contribute, and so are too near, as residuals of a fit are.
        """
        n, m = self.x.visits, self.y.visits
        parts = [
            side.steps.squares(len(n)) if side.steps is not None else np.zeros(len(n)) for side in (self.x, self.y)
        ]
        rows = _spread(n + m, parts[0] + parts[1])
        # Of mean rewards each side has its own.
        rewards = (n * _spread(n, parts[0]) + m * _spread(m, parts[1])) / np.maximum(n + m, 1.0)
        return rows, np.where(n + m > 0, rewards, 1.0)[:-1]

    @classmethod
    def of(cls, x: MDP, y: MDP, policy: Floats | None, discount: float, threads: int | None) -> _Pair:
        states = (*x.states, *(label for label in y.states if label not in set(x.states)))
        n, m = len(states), x.n_actions
        require(48.0 * n * m * n, f"tables of {n} states and {m} actions", "merge states or compare smaller processes")
        index = {label: i for i, label in enumerate(states)}
        places = [np.array([index[label] for label in side.states]) for side in (x, y)]
        paid = paid_of((x, y), places, n)
        one, other = (_Side.of(side, place, n, paid) for side, place in zip((x, y), places, strict=True))
        if policy is not None:
            # Only the end of episodes can be a state of y alone, where all actions do the same.
            policy = np.vstack([policy, np.full((n - len(policy), m), 1.0 / m)])
        untried = one.missing[:-1], other.missing[:-1]
        return cls(one, other, Comparison(states, policy, discount, threads, untried, paid=paid))

    @property
    def paid(self) -> Floats:
        """What each transition earns in addition to its row."""
        assert self.compared.paid is not None
        return self.compared.paid

    @cached_property
    def tables(self) -> tuple[ActionTables, ActionTables]:
        """Both processes, as known or counted."""
        return self.x.filled_from(self.y), self.y.filled_from(self.x)

    @cached_property
    def counted(self) -> Any:
        """The distance of both processes as known or counted."""
        return self.solve(*self.tables)

    @cached_property
    def pooled(self) -> float:
        """The distance of the pooled processes."""
        return float(self.solve(*self.between(1.0)).value)

    def solve(self, one: ActionTables, other: ActionTables) -> Any:
        """The exact distance of two processes."""
        return self.compared.solve(one, other)

    # --- From equal over pooled to counted

    def between(self, t: float) -> tuple[ActionTables, ActionTables]:
        """Both processes on the path from equal (t = 0) over pooled (t = 1) to counted (t = 2)."""
        rows, rewards = self._kept_at(t)
        middle = self.middle

        def pulled(tables: ActionTables) -> ActionTables:
            law = middle.law + rows[:, None] * (tables.law - middle.law)
            return ActionTables(law, middle.reward + rewards * (tables.reward - middle.reward))

        one, other = self.tables
        return pulled(one), pulled(other)

    def _kept_at(self, t: float) -> tuple[Floats, Floats]:
        # Piecewise linear in t: from 0 to h, then from h to 1. Equal processes do not depend on h.
        if t == 0.0:
            return np.zeros(len(self.x.counts)), np.zeros(len(self.x.counts) - 1)
        rows, rewards = (t * h if t <= 1.0 else h + (t - 1.0) * (1.0 - h) for h in self.kept)
        return rows, rewards

    @cached_property
    def share(self) -> Floats:
        """The share of x in the mean of both."""
        n, m = self.x.visits, self.y.visits
        share: Floats = np.where(self.x.known, 1.0, np.where(self.y.known, 0.0, n / np.maximum(n + m, 1.0)))
        share[self.x.missing & self.y.missing] = 1.0
        return share

    @cached_property
    def middle(self) -> ActionTables:
        """The mean of the two processes, row by row, weighted by visits; a known row is its own mean."""
        (a, b), share = self.tables, self.share
        law = share[:, None] * a.law + (1.0 - share)[:, None] * b.law
        return ActionTables(law, share[:-1] * a.reward + (1.0 - share)[:-1] * b.reward)

    @property
    def tests(self) -> tuple[_Test, _Test]:
        """Of every row and of every mean reward."""
        return self._row_tests(), self._reward_tests()

    @cached_property
    def kept(self) -> tuple[Floats, Floats]:
        """The share of the difference of each row, and of each mean reward, that is kept (empirical Bayes)."""
        from somcot.inference.pooling import Homogeneity, kept_shares, kept_sizes  # compiled code too

        rows, rewards = (
            Homogeneity(T / effect, df, noise * effect)
            for (T, df, noise), effect in zip(self.tests, self.effects, strict=True)
        )
        # Noise makes a row's difference larger in all directions, but that of two mean rewards larger or smaller.
        return kept_sizes(rows), kept_shares(rewards).shares

    def _row_tests(self) -> _Test:
        """Two-sample chi-squared of every row, times (N - 1) / N, or of one side where the other is known.

        Degrees of freedom are 0 where there is no test; the noise is 1/n + 1/m.
        """
        n, m = self.x.visits, self.y.visits
        both, N = self.x.counts + self.y.counts, np.maximum(n + m, 1.0)
        T = np.zeros(len(n))
        for side, visits in ((self.x, n), (self.y, m)):
            expected = both * (visits / N)[:, None]
            terms = np.divide((side.counts - expected) ** 2, expected, out=np.zeros_like(both), where=expected > 0)
            T += terms.sum(axis=1)
        # With fixed margins the expectation is df N / (N - 1); the factor makes it df.
        T *= (N - 1.0) / N
        df = np.where((n > 0) & (m > 0), (both > 0).sum(axis=1) - 1, 0)
        noise = 1.0 / np.maximum(n, 1.0) + 1.0 / np.maximum(m, 1.0)
        for known, side, visits in ((self.x, self.y, m), (self.y, self.x, n)):
            alone = known.known & (visits > 0)
            law, seen = known.tables.law, side.counts / np.maximum(visits, 1.0)[:, None]
            # Over the variance at the middle: an outcome that the known side excludes shows that the rows differ, but
            # the size of the difference is as noisy as the number of times that it was seen.
            middle = 0.5 * (law + seen)
            terms = np.divide((seen - law) ** 2, middle, out=np.zeros_like(law), where=middle > 0)
            T = np.where(alone, visits * terms.sum(axis=1), T)
            df = np.where(alone, (middle > 0).sum(axis=1) - 1, df)
            noise = np.where(alone, 1.0 / np.maximum(visits, 1.0), noise)
        return np.where(df > 0, T, 0.0), df.astype(np.float64), np.where(df > 0, noise, 1.0)

    def _reward_tests(self) -> _Test:
        """Squared differences of mean rewards over their variances; rewards without noise need no test."""
        n, m = self.x.visits[:-1], self.y.visits[:-1]
        variance = (n * self.x.variance + m * self.y.variance) / np.maximum(n + m, 1.0)
        noise, tested = np.zeros(len(n)), np.ones(len(n), np.bool_)
        for side, visits in ((self.x, n), (self.y, m)):
            noise += np.where(side.known[:-1], 0.0, variance / np.maximum(visits, 1.0))
            tested &= ~side.missing[:-1]
        one, other = self.tables  # means of one repeated number differ by rounding, which is no noise
        size = np.maximum(np.abs(one.reward), np.abs(other.reward)) + np.abs(self.paid).max(axis=1)
        tested &= noise > (_ROUNDING * size) ** 2
        T = np.divide((one.reward - other.reward) ** 2, noise, out=np.zeros(len(n)), where=tested)
        # Bounded, or nearly deterministic rewards would dominate the prior, which is fitted to all rows.
        return np.minimum(T, _LARGEST), tested.astype(np.float64), np.where(tested, noise, 1.0)

    # --- The estimate and its interval

    def estimate(self, confidence: float | None, rng: np.random.Generator) -> tuple[float, ConfidenceInterval | None]:
        """The estimate, and the distances on the path whose pooled distances are likely to be the one observed."""
        # First, so that the estimate does not depend on the confidence.
        drawn = {1.0: self._distances(1.0, rng)}
        # Where rows cannot be tested, processes pulled together need not be equal.
        at = np.array([self.solve(*self.between(0.0)).value, self.pooled, self.counted.value])
        # The bias of the pooled distance, if the pooled processes were the truth, is subtracted.
        estimate = min(max(2.0 * self.pooled - float(drawn[1.0].mean()), float(at[0])), self.counted.value)
        if confidence is None:
            return estimate, None
        from scipy.special import stdtrit

        drawn |= {t: self._distances(t, rng) for t in (0.0, 2.0)}
        # The observation and the draws are one sample: mean and standard deviation of so few are uncertain too.
        z = float(stdtrit(_DRAWS - 1, 0.5 + 0.5 * confidence)) * np.sqrt(1.0 + 1.0 / _DRAWS)
        m, s = np.array([(drawn[t].mean(), drawn[t].std(ddof=1)) for t in _PATH]).T
        low, high = (_inverted(self.pooled, m + side * z * s, at) for side in (1.0, -1.0))
        # Inversion also corrects the bias found on the path, where noise keeps a little of every difference. If truly
        # few rows differ, there is hardly any: the interval is that with the correction and that without it, together.
        half = float(z * s[1])
        low, high = min(low, max(self.pooled - half, float(at[0]))), max(high, self.pooled + half)
        # Means of few draws may cross.
        return estimate, ConfidenceInterval(min(low, estimate), max(low, high, estimate), float(confidence))

    def widened(
        self, interval: ConfidenceInterval, ends: tuple[float, float], rng: np.random.Generator
    ) -> ConfidenceInterval:
        """The interval up to the upper end for the largest distance that untried actions allow."""
        largest = _Pair(self.x, self.y, self.compared._replace(ends=ends), self.effects)
        if largest.pooled <= self.pooled * (1.0 + _ROUNDING):
            return interval
        upper = largest.estimate(interval.level, rng)[1]
        assert upper is not None
        return interval._replace(high=max(interval.high, upper.high))

    def _distances(self, t: float, rng: np.random.Generator) -> Floats:
        """Pooled distances of drawn recordings, (_DRAWS,)."""
        return np.array([self.drawn(t, rng).pooled for _ in range(_DRAWS)])

    def drawn(self, t: float, rng: np.random.Generator) -> _Pair:
        """New recordings of the two processes on the path."""
        one, other = self.between(t)
        kept = self._kept_at(t)[0]
        x = self.x.drawn(self.y, self.share + kept * (1.0 - self.share), one, rng)
        y = self.y.drawn(self.x, 1.0 - self.share + kept * self.share, other, rng)
        return _Pair(x, y, self.compared, self.effects)


def _spread(n: Floats, squares: Floats) -> Floats:
    """1 - sum of squared shares of n steps in each unit, relative to single steps; two units suffice to see a half."""
    single = np.maximum(1.0 - 1.0 / np.maximum(n, 1.0), 0.5)
    return np.where(n > 1, np.maximum((1.0 - squares / np.maximum(n, 1.0) ** 2) / single, 0.5), 1.0)


def _inverted(observed: float, expected: Floats, distances: Floats) -> float:
    """The distance where `observed` is expected on the path; linear between its points, and beyond the last."""
    # Means of few draws may fall along the path; inversion needs a monotone curve.
    rising = np.maximum.accumulate(expected)
    if observed >= rising[-1]:
        return float(distances[-1] + observed - rising[-1])
    return float(np.interp(np.interp(observed, rising, _PATH), _PATH, distances))


def _ends(x: MDP, y: MDP, reward_range: Any) -> tuple[float, float]:
    """The least and the largest reward of untried actions and of what follows them."""
    seen = [side.reward if isinstance(side, RecordedMDP) else side.rewards for side in (x, y)]
    # After the end of an episode rewards are 0.
    seen += [np.zeros(1)] if END in (*x.states, *y.states) else []
    least, most = min(float(part.min()) for part in seen), max(float(part.max()) for part in seen)
    if reward_range is None:
        return least, most
    low, high = check_range("reward_range", reward_range)
    if not low <= least <= most <= high:
        raise ValueError(f"reward_range: found ({low:g}, {high:g}), but there are rewards from {least:g} to {most:g}")
    return low, high


def _policy(x: MDP, y: MDP, policy: Any) -> Floats | None:
    """The probability of each action in each state of x; at the end of episodes all actions are equivalent."""
    if policy is None:
        return None
    law = policy_law(x, policy)
    lone = [label for label in y.states if label not in set(x.states) and label != END]
    if lone:
        raise ValueError(
            f"policy: it is for the states of x, and y has others, such as {lone[0]!r}; give both all states: "
            "RecordedMDP.from_transitions(..., n_states=...)"
        )
    return law


def _result(pair: _Pair, solution: Any, began: float, *, message: str, **more: Any) -> Result:
    """A result with the coupling of the solution."""
    values: dict[str, Any] = {"distance": solution.value, "method": "exact", **more}
    notes = values.pop("notes", ())
    law = solution.plan.state_law()
    from somcot.solvers.result_builder import law_maps

    compared, potential = pair.compared, solution.metric / (1.0 - pair.compared.discount)
    details = Details(
        bounds=Bounds(solution.low, solution.high), plan=solution.plan, state_law=law, maps=law_maps(law),
        potential=potential, residuals=Residuals(0.0, 0.0, 0.0), trace={}, notes=notes,
    )  # fmt: skip
    return Result(
        status=Status.CONVERGED, message=message, discount=compared.discount, n_steps=0, states_x=compared.states,
        states_y=compared.states, seconds=time.perf_counter() - began, clock=Clock("discount", compared.discount),
        details=details, **values,
    )  # fmt: skip
