"""The cost of mean rewards, with the sampling error of the means."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from somcot.costs.tables import finite
from somcot.plumbing.arrays import Array, Floats
from somcot.plumbing.checks import check_flag, real_array
from somcot.plumbing.notes import Note
from somcot.plumbing.text import brief_record


class StepRewards(NamedTuple):
    """The rewards of one recording, one entry for each recorded transition.

    Attributes
    ----------
    now, following : ndarray of int64, shape (k,)
    number : ndarray
        How often the transition was recorded with a reward.
    mean, squares : ndarray
        Mean reward, and the sum of squared deviations from it.

    Examples
    --------
    >>> steps = StepRewards.of(np.array([0, 0, 0]), np.array([0, 1, 1]), np.array([0.0, 3.0, 3.0]), 2)
    >>> steps.mean, steps.deviations(2)
    (array([0., 3.]), array([-2.,  1.]))
    """

    now: NDArray[np.int64]
    following: NDArray[np.int64]
    number: Floats
    mean: Floats
    squares: Floats

    @classmethod
    def of(cls, now: Array, following: Array, rewards: Floats, n: int) -> StepRewards:
        """Count transitions between n states with their rewards; NaN is none."""
        known = ~np.isnan(rewards)
        keys = now[known].astype(np.int64) * n + following[known]
        return cls._of(keys, n, np.ones(len(keys)), rewards[known], np.zeros(len(keys)))[0]

    @classmethod
    def _of(
        cls, keys: NDArray[np.int64], n: int, number: Floats, mean: Floats, squares: Floats
    ) -> tuple[StepRewards, NDArray[np.int64]]:
        """Join entries with equal keys; also the entry of each."""
        distinct, place = np.unique(keys, return_inverse=True)
        total: Floats = np.bincount(place, number, len(distinct)).astype(np.float64)
        means = np.bincount(place, number * mean, len(distinct)) / np.maximum(total, 1.0)
        left = np.bincount(place, squares + number * (mean - means[place]) ** 2, len(distinct))
        return cls(distinct // n, distinct % n, total, means, left.astype(np.float64)), place

    def deviations(self, n: int) -> Floats:
        """How much more than the mean of its state each transition earns, as far as that is more than noise.

        The share that is kept is that of James and Stein: 0 where rewards differ between next states by no more than
        they do for one next state, 1 where the next state determines them.
        """
        visits = np.bincount(self.now, self.number, n)
        apart = self.mean - (np.bincount(self.now, self.number * self.mean, n) / np.maximum(visits, 1.0))[self.now]
        between, within = np.bincount(self.now, self.number * apart**2, n), np.bincount(self.now, self.squares, n)
        n_next = np.bincount(self.now, minlength=n)
        # A state whose transitions were recorded once each shows no noise, so it has that of all states.
        degrees, shared = visits - n_next, within.sum() / max(float((visits - n_next).sum()), 1.0)
        noise = np.where(degrees > 0, within / np.maximum(degrees, 1.0), shared)
        expected = np.maximum(n_next - 1, 0) * noise
        share = np.where(between > expected, 1.0 - expected / np.where(between > 0, between, 1.0), 0.0)
        kept: Floats = share[self.now] * apart
        return kept


class FeatureMeans(NamedTuple):
    """A mean per state of one recording, with the variances and numbers of its values.

    Attributes
    ----------
    states : tuple of hashable
    means, variances : ndarray, shape (n,)
        Mean and variance of the values recorded in each state.
    numbers : ndarray of int, shape (n,)
        Number of values; 0 where the mean is known exactly, or unknown (NaN).
    steps : StepRewards or None
        The rewards of each transition, if they are known and determine the means.

    Examples
    --------
    >>> FeatureMeans(("home", "cart"), np.array([0.0, 2.0]), np.array([0.0, 1.0]), np.array([50, 25])).squared_errors
    array([0.  , 0.04])
    """

    states: tuple[Hashable, ...]
    means: Floats
    variances: Floats
    numbers: NDArray[np.int64]
    steps: StepRewards | None = None

    def __repr__(self) -> str:
        return brief_record(self)

    @property
    def squared_errors(self) -> Floats:
        """Squared standard error of each mean."""
        return np.where(self.numbers > 0, self.variances / np.maximum(self.numbers, 1), 0.0)


@dataclass(frozen=True, eq=False)
class FeatureCost:
    """The cost ``|a_i - b_j|`` of estimated features, with the data needed for their standard errors.

    Accepted wherever a cost is; ``numpy.asarray`` converts it to a plain array, which is treated as known.

    Attributes
    ----------
    x, y : FeatureMeans
        The features recorded on each side.
    shared : ndarray of int, shape (k, 2)
        Indices of the states whose features are pooled: both recordings earn the same there, on average over the
        same next states.

    Examples
    --------
    >>> x = FeatureMeans(("home", "cart"), np.array([0.0, 2.0]), np.array([0.0, 1.0]), np.array([50, 25]))
    >>> cost = FeatureCost(x, x._replace(means=np.array([0.0, 3.0])), np.array([[0, 0]]))
    >>> np.asarray(cost)
    array([[0., 3.],
           [2., 1.]])
    >>> cost.variance(np.array([[0.5, 0.0], [0.0, 0.5]])), cost.noise(np.random.default_rng(0)).shape
    (0.02, (2, 2))
    >>> shared = FeatureCost(x, cost.y, np.array([[0, 0], [1, 1]]))
    >>> [side.tolist() for side in shared.pooled(x.means, cost.y.means)]
    [[0.0, 2.5], [0.0, 2.5]]
    >>> shared.disagreements().tolist(), shared.disagreement().code
    ([[1, 1]], 'features-differ')
    >>> shared.placed(shared.signed, ["cart", "home"])
    array([[ 0. ,  2.5],
           [-2.5,  0. ]])
    """

    x: FeatureMeans
    y: FeatureMeans
    shared: NDArray[np.int64]

    def __repr__(self) -> str:
        n, m = self.shape
        return f"FeatureCost({n} x {m} states, {len(self.shared)} of them shared)"

    @cached_property
    def values(self) -> tuple[Floats, Floats]:
        """The features of both sides: those of shared states pooled, then weighted by the next states of each side."""
        (a, b), (more_x, more_y) = self.pooled_values, self._explained
        return a + more_x, b + more_y

    @cached_property
    def pooled_values(self) -> tuple[Floats, Floats]:
        """The same for equal rows: one feature for each shared state."""
        # Unknown means are NaN, which would spread to the pooled value of the other side.
        known = [np.where(side.numbers > 0, side.means, 0.0) for side in (self.x, self.y)]
        a, b = self.pooled(known[0], known[1])
        i, j = self.shared.T
        n = self.x.numbers[i] + self.y.numbers[j]
        both = [side.means.copy() for side in (self.x, self.y)]
        # States recorded on neither side stay NaN, for the caller to report.
        both[0][i], both[1][j] = (np.where(n > 0, v, w) for v, w in ((a[i], self.x.means[i]), (b[j], self.y.means[j])))
        return both[0], both[1]

    def on_union(self, states: Sequence[Hashable]) -> Floats:
        """The pooled features of states of both sides."""
        a, b = self.pooled_values
        features = dict(zip(self.y.states, b, strict=True)) | dict(zip(self.x.states, a, strict=True))
        return np.array([features[label] for label in states])

    @cached_property
    def deviations(self) -> tuple[Floats | None, Floats | None]:
        """How much more than the mean of its state each transition earns; by the entries of `steps` of both sides.

        Shared states have one reward for each transition, from both recordings.
        """
        one, other = self.x.steps, self.y.steps
        if not len(self.shared):
            n, m = self.shape
            return None if one is None else one.deviations(n), None if other is None else other.deviations(m)
        if one is None or other is None:
            return None, None
        place = {label: i for i, label in enumerate(dict.fromkeys((*self.x.states, *self.y.states)))}
        at = [np.array([place[label] for label in side.states], dtype=np.int64) for side in (self.x, self.y)]
        keys = [where[s.now] * len(place) + where[s.following] for where, s in zip(at, (one, other), strict=True)]
        numbers, means, squares = (np.concatenate(p) for p in zip(one[2:], other[2:], strict=True))
        both, entry = StepRewards._of(np.concatenate(keys), len(place), numbers, means, squares)
        kept = both.deviations(len(place))[entry]
        return kept[: len(one.now)], kept[len(one.now) :]

    @cached_property
    def _explained(self) -> tuple[Floats, Floats]:
        """What the next states of each side add to the pooled features."""
        more = []
        for side, kept in zip((self.x, self.y), self.deviations, strict=True):
            n = len(side.states)
            if side.steps is None or kept is None:
                more.append(np.zeros(n))
            else:
                total = np.bincount(side.steps.now, side.steps.number * kept, n)
                more.append(total / np.maximum(np.bincount(side.steps.now, side.steps.number, n), 1.0))
        return more[0], more[1]

    @cached_property
    def unexplained(self) -> tuple[FeatureMeans, FeatureMeans]:
        """Both sides without what the next states explain: the noise that is left."""
        left = []
        for side, kept, more in zip((self.x, self.y), self.deviations, self._explained, strict=True):
            if side.steps is None or kept is None:
                left.append(side)
                continue
            now, _, number, mean, squares = side.steps
            means, degrees = side.means - more, np.maximum(side.numbers - 1, 0)
            spread = np.bincount(now, squares + number * (mean - kept - means[now]) ** 2, len(means))
            # A single value shows no variance; it keeps that of all states.
            variances = np.where(degrees > 0, spread / np.maximum(degrees, 1), side.variances)
            left.append(side._replace(means=means, variances=variances))
        return left[0], left[1]

    @property
    def signed(self) -> Floats:
        """``a_i - b_j``."""
        return np.subtract.outer(*self.values)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of states (n_x, n_y)."""
        return len(self.x.means), len(self.y.means)

    # NumPy may request a copy; this is a new array in any case.
    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.abs(self.signed).astype(dtype or np.float64)

    def pooled(self, a: Floats, b: Floats) -> tuple[Floats, Floats]:
        """Values of both sides, with those of shared states replaced by their weighted mean."""
        a, b = a.copy(), b.copy()
        i, j = self.shared.T
        n, m = self.x.numbers[i], self.y.numbers[j]
        a[i] = b[j] = (n * a[i] + m * b[j]) / np.maximum(n + m, 1)
        return a, b

    def variance(self, law: Floats) -> float:
        """First-order variance of ``sum law(x, y) |a_x - b_y|`` due to the noise of the features."""
        slopes = law * np.sign(self.signed)
        d_a, d_b = slopes.sum(axis=1), -slopes.sum(axis=0)
        i, j = self.shared.T
        n, m = self.x.numbers[i], self.y.numbers[j]
        both = (d_a[i] + d_b[j]) / np.maximum(n + m, 1)  # a shared state has one feature, on both sides
        d_a[i], d_b[j] = n * both, m * both
        return float(d_a**2 @ self.x.squared_errors + d_b**2 @ self.y.squared_errors)

    @property
    def kept_apart(self) -> bool:
        """Whether states with equal labels keep separate features: ``pool=False``."""
        return not len(self.shared) and not set(self.x.states).isdisjoint(self.y.states)

    def disagreements(self) -> NDArray[np.int64]:
        """Shared states whose features differ significantly (1 % level over all states), worst first.

        Differences that follow from other next states do not count.
        """
        from scipy.special import ndtri

        i, j = self.shared.T
        x, y = self.unexplained
        # A state recorded on one side only has nothing to disagree with.
        recorded = (x.numbers[i] > 0) & (y.numbers[j] > 0)
        apart = np.where(recorded, np.abs(x.means[i] - y.means[j]), 0.0)
        # The larger of two errors: equal values on one side would otherwise claim certainty.
        noise = np.sqrt(np.maximum(x.squared_errors[i] + y.squared_errors[j], self._if_equal()))
        # Means of equal values may differ by rounding, where there is no noise at all.
        rounding = 1e-9 * (np.abs(self.x.means[i]) + np.abs(self.y.means[j]))
        # Bonferroni over all shared states.
        limit = -ndtri(0.005 / max(len(i), 1)) * noise + rounding
        states = np.flatnonzero(apart > limit)
        return self.shared[states[np.argsort(-(apart - limit)[states], kind="stable")]]

    def disagreement(self, code: str = "features-differ") -> Note | None:
        """A note about the states in `disagreements`, or None."""
        apart = self.disagreements()
        if not len(apart):
            return None
        i, j = apart[0]
        means = {"mean_x": float(self.x.means[i]), "mean_y": float(self.y.means[j])}
        return Note(code, n=len(apart), state=repr(self.x.states[i]), **means)

    def _if_equal(self) -> Floats:
        """Squared standard error of the differences in shared states, from the pooled variance of both sides.

        Pooling is needed because a few values that happen to be equal have variance 0, which would make any difference
        significant.
        """
        i, j = self.shared.T
        x, y = self.unexplained
        n, m = (np.maximum(side.numbers[k], 1.0) for side, k in ((x, i), (y, j)))
        between = n * m / (n + m) * (x.means[i] - y.means[j]) ** 2
        spread = (n - 1) * x.variances[i] + (m - 1) * y.variances[j] + between
        return np.asarray(spread / (n + m) * (1.0 / n + 1.0 / m))

    def noise(self, rng: np.random.Generator) -> Floats:
        """Draw the error of `signed`: its difference from that of another recording of the same size."""
        return np.subtract.outer(*self.errors((self.x, self.y), rng))

    def errors(self, sides: tuple[FeatureMeans, FeatureMeans], rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw the errors of the features of both sides."""
        drawn = (rng.normal(size=len(s.means)) * np.sqrt(s.squared_errors) for s in sides)
        # Shared states err together, as their values are pooled.
        return self.pooled(*drawn)

    def placed(self, table: Floats, states: Sequence[Hashable] | None) -> Floats:
        """Differences ``a_i - b_j`` for all pairs of `states`, those of both sides; None: as they are."""
        if states is None:
            return table
        values = dict(zip(self.y.states, table[0, 0] - table[0], strict=True))  # relative to the first of y
        values |= dict(zip(self.x.states, table[:, 0], strict=True))
        each = np.array([values[label] for label in states])
        differences: Floats = np.subtract.outer(each, each)
        return differences


def from_features(a: object, b: object, *, pool: bool = True) -> FeatureCost:
    """The cost ``|a_i - b_j|`` of the mean rewards of two recordings, with their sampling error.

    `somcot.distance` then adds the noise of the means to the standard error and re-estimates them on each split.
    ``costs.absolute(a.features, b.features)`` is a plain array and is treated as known, so its interval is too narrow.

    Parameters
    ----------
    a, b : Samples
        Recordings with rewards. Either side may be known instead: a MarkovChain with features, or a sequence with one
        number per state.
    pool : bool, optional
        Whether the rewards of a state that both recordings share are estimated from both. If rewards were recorded
        step by step and depend on the next state, each transition then has one mean reward, and the features of both
        sides differ as their transitions do; otherwise the state has one feature. With False, different rewards in the
        same state count as a difference of the processes.

    Examples
    --------
    >>> import somcot
    >>> a = somcot.Samples.from_trajectories([["in", "out"]] * 2, rewards=[[1.0, 0.0], [2.0, 0.0]])
    >>> b = somcot.Samples.from_trajectories([["in", "out"]] * 2, rewards=[[2.0, 0.0], [3.0, 0.0]])
    >>> np.asarray(from_features(a, b))
    array([[0., 2.],
           [2., 0.]])
    >>> np.asarray(from_features(a, b, pool=False))
    array([[1. , 1.5],
           [2.5, 0. ]])
    """
    check_flag("pool", pool)
    x, y = _means("a", a), _means("b", b)
    # Without pooling, equal labels are as different as any others.
    place = {label: j for j, label in enumerate(y.states)} if pool else {}
    shared = [(i, place[label]) for i, label in enumerate(x.states) if label in place]
    cost = FeatureCost(x, y, np.array(shared, dtype=np.int64).reshape(-1, 2))
    for name, side, values in (("a", x, cost.values[0]), ("b", y, cost.values[1])):
        unknown = np.flatnonzero(np.isnan(values))
        if len(unknown):
            first = side.states[unknown[0]]
            raise ValueError(f"{name}: no reward was recorded in {len(unknown)} state(s), such as {first!r}; give it")
    # Checked once, so that later tables need no check.
    with np.errstate(over="ignore"):
        finite(np.abs(cost.signed))
    return cost


def _means(name: str, side: object) -> FeatureMeans:
    means = getattr(side, "feature_means", None)
    if isinstance(means, FeatureMeans):
        return means
    known = getattr(side, "features", None)  # of a chain
    if known is None and hasattr(side, "states"):
        raise ValueError(f"{name}: has no rewards; pass rewards= (or the reward column) when it is read")
    values = real_array(name, side if known is None else known, 1)
    unmatched = tuple(object() for _ in values)  # equal to no label: known numbers are not pooled
    return FeatureMeans(unmatched, values, np.zeros(len(values)), np.zeros(len(values), dtype=np.int64))
