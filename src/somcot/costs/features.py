"""The cost of mean rewards, which remembers that they are estimated."""

from __future__ import annotations

from collections.abc import Hashable
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


class FeatureMeans(NamedTuple):
    """A number per state of one recording, estimated as a mean.

    Attributes
    ----------
    states : tuple of hashable
    means, variances : ndarray, shape (n,)
        Of the single values recorded in each state.
    numbers : ndarray of int, shape (n,)
        How many there are; 0 where the value is known, or nothing is (NaN).
    """

    states: tuple[Hashable, ...]
    means: Floats
    variances: Floats
    numbers: NDArray[np.int64]

    def __repr__(self) -> str:
        return brief_record(self)

    @property
    def squared_errors(self) -> Floats:
        """Squared standard error of each mean."""
        return np.where(self.numbers > 0, self.variances / np.maximum(self.numbers, 1), 0.0)


@dataclass(frozen=True, eq=False)
class FeatureCost:
    """The cost ``|a_i - b_j|`` of features that were estimated, with what their noise follows from.

    Taken wherever a cost is; ``numpy.asarray`` makes it a plain array, which counts as known.

    Attributes
    ----------
    x, y : FeatureMeans
        As each side recorded them.
    shared : ndarray of int, shape (k, 2)
        Positions of the states whose features are pooled.
    """

    x: FeatureMeans
    y: FeatureMeans
    shared: NDArray[np.int64]

    def __repr__(self) -> str:
        n, m = self.shape
        return f"FeatureCost({n} x {m} states, {len(self.shared)} of them shared)"

    @cached_property
    def values(self) -> tuple[Floats, Floats]:
        """The features of both sides, those of shared states pooled."""
        known = [np.where(side.numbers > 0, side.means, 0.0) for side in (self.x, self.y)]
        a, b = self.pooled(known[0], known[1])
        i, j = self.shared.T
        n = self.x.numbers[i] + self.y.numbers[j]
        own = [side.means.copy() for side in (self.x, self.y)]
        own[0][i], own[1][j] = (np.where(n > 0, v, w) for v, w in ((a[i], self.x.means[i]), (b[j], self.y.means[j])))
        return own[0], own[1]

    @property
    def signed(self) -> Floats:
        """``a_i - b_j``."""
        return np.subtract.outer(*self.values)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of states (n_x, n_y)."""
        return len(self.x.means), len(self.y.means)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.abs(self.signed).astype(dtype or np.float64)

    def pooled(self, a: Floats, b: Floats) -> tuple[Floats, Floats]:
        """Numbers of both sides, in shared states replaced by their mean with the weights of the recordings."""
        a, b = a.copy(), b.copy()
        i, j = self.shared.T
        n, m = self.x.numbers[i], self.y.numbers[j]
        a[i] = b[j] = (n * a[i] + m * b[j]) / np.maximum(n + m, 1)
        return a, b

    def variance(self, law: Floats) -> float:
        """Variance that the noise of the features gives to ``sum law(x, y) |a_x - b_y|``, to first order."""
        slopes = law * np.sign(self.signed)
        d_a, d_b = slopes.sum(axis=1), -slopes.sum(axis=0)
        i, j = self.shared.T
        n, m = self.x.numbers[i], self.y.numbers[j]
        both = (d_a[i] + d_b[j]) / np.maximum(n + m, 1)  # a shared state has one feature, on both sides
        d_a[i], d_b[j] = n * both, m * both
        return float(d_a**2 @ self.x.squared_errors + d_b**2 @ self.y.squared_errors)

    @property
    def kept_apart(self) -> bool:
        """Whether states that both recordings have are two states, each with a feature of its own: ``pool=False``."""
        return not len(self.shared) and not set(self.x.states).isdisjoint(self.y.states)

    def disagreements(self) -> NDArray[np.int64]:
        """Shared states whose features differ by more than noise explains (1 in 100 over all states), worst first."""
        from scipy.special import ndtri

        i, j = self.shared.T
        recorded = (self.x.numbers[i] > 0) & (self.y.numbers[j] > 0)
        apart = np.where(recorded, np.abs(self.x.means[i] - self.y.means[j]), 0.0)
        noise = np.sqrt(np.maximum(self.x.squared_errors[i] + self.y.squared_errors[j], self._if_equal()))
        rounding = 1e-9 * (np.abs(self.x.means[i]) + np.abs(self.y.means[j]))
        limit = -ndtri(0.005 / max(len(i), 1)) * noise + rounding
        states = np.flatnonzero(apart > limit)
        return self.shared[states[np.argsort(-(apart - limit)[states], kind="stable")]]

    def disagreement(self, code: str = "features-differ") -> Note | None:
        """The same as a note with one of the codes for it, None where there are none."""
        apart = self.disagreements()
        if not len(apart):
            return None
        i, j = apart[0]
        means = {"mean_x": float(self.x.means[i]), "mean_y": float(self.y.means[j])}
        return Note(code, n=len(apart), state=repr(self.x.states[i]), **means)

    def _if_equal(self) -> Floats:
        """Squared error of the differences in shared states, from the spread of the values of both sides together.

        A few values that happen to be equal have no spread of their own, and would differ from any other for certain.
        """
        i, j = self.shared.T
        n, m = (np.maximum(side.numbers[k], 1.0) for side, k in ((self.x, i), (self.y, j)))
        between = n * m / (n + m) * (self.x.means[i] - self.y.means[j]) ** 2
        spread = (n - 1) * self.x.variances[i] + (m - 1) * self.y.variances[j] + between
        return np.asarray(spread / (n + m) * (1.0 / n + 1.0 / m))

    def noise(self, rng: np.random.Generator) -> Floats:
        """A draw of the error of `signed`: what features from another recording of the same size would differ by."""
        sides = (rng.normal(size=len(s.means)) * np.sqrt(s.squared_errors) for s in (self.x, self.y))
        return np.subtract.outer(*self.pooled(*sides))


def from_features(a: object, b: object, *, pool: bool = True) -> FeatureCost:
    """``|a_i - b_j|`` of the mean rewards of two recordings, which remembers that they are estimated.

    `somcot.distance` then adds the noise of the means to the standard error and lets the splits estimate them anew.
    ``costs.absolute(a.features, b.features)`` is a plain array and counts as known: its interval is too narrow.

    Parameters
    ----------
    a, b : Samples
        With rewards. Either side may have known numbers instead: a MarkovChain with features, or a sequence with one
        for each state.
    pool : bool, optional
        Whether a state that both recordings have is one state with one feature, estimated from both. With False, a
        difference of the features in the same state counts as a difference of the processes.

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
    place = {label: j for j, label in enumerate(y.states)} if pool else {}
    shared = [(i, place[label]) for i, label in enumerate(x.states) if label in place]
    cost = FeatureCost(x, y, np.array(shared, dtype=np.int64).reshape(-1, 2))
    for name, side, values in (("a", x, cost.values[0]), ("b", y, cost.values[1])):
        unknown = np.flatnonzero(np.isnan(values))
        if len(unknown):
            first = side.states[unknown[0]]
            raise ValueError(f"{name}: no reward was recorded in {len(unknown)} state(s), such as {first!r}; give it")
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
    nobody = tuple(object() for _ in values)  # equal to no label: known numbers are not pooled
    return FeatureMeans(nobody, values, np.zeros(len(values)), np.zeros(len(values), dtype=np.int64))
