"""Episodes as units, their discounted moments, and symmetric maps between two recordings.

For the squared cost the distance is the cost of the map that carries mean and covariance of x into those of y, plus
the distance of what is left after that map (docs/continuous.md). So moments come first: they are exact to the order
of the square root of the number of episodes, and need no model.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from somcot.cells import PointCost, apart, circular_mean, wrapped
from somcot.plumbing.arrays import Bools, Floats, Ints
from somcot.trajectories import Trajectories

__all__ = [
    "KINDS",
    "Ground",
    "Moments",
    "Registration",
    "Resampled",
    "Side",
    "Space",
    "blocks",
    "choose_kind",
    "directions",
    "kinds_in",
    "lower_bound",
    "map_between",
    "matrix_power",
    "resampled",
    "squared_cost",
]

KINDS = ("same", "shift", "scale", "stretch", "affine")
_TABLE = 16  # points of a table of a user's cost of which the diagonal is kept
_MOST_AFFINE = 6  # coordinates up to which full covariances are estimated


class Space(NamedTuple):
    """The coordinates after division by the scale: their periods, infinite where there is none."""

    period: Floats

    @property
    def periodic(self) -> Bools:
        """Which coordinates are periodic; these may be shifted by a map but not stretched."""
        return np.isfinite(self.period)

    def wrap(self, difference: Floats) -> Floats:
        """Differences of points, the short way round."""
        return wrapped(difference, self.period) if self.periodic.any() else difference

    def centre(self, points: Floats, weights: Floats) -> Floats:
        """The mean, and the circular mean of periodic coordinates."""
        return circular_mean(points, weights, self.period)


class Ground(NamedTuple):
    """The cost between points, in coordinates divided by `scale`; a function takes the original ones.

    `metric` tells whether the cost satisfies the triangle inequality, by the user's word for a function.
    """

    cost: PointCost
    space: Space
    scale: Floats
    metric: bool

    @property
    def named(self) -> bool:
        """Whether it is a norm of the difference or its square, not a function."""
        return not callable(self.cost)

    @property
    def square(self) -> bool:
        """Whether it is the squared norm."""
        return self.cost == "sqeuclidean"

    def table(self, a: Floats, b: Floats) -> Floats:
        """Cost of all pairs, (n, m)."""
        if callable(self.cost):
            # A function sees the original units, in which it was written.
            return apart(self.cost, a * self.scale, b * self.scale, self.scale)
        return apart(self.cost, a, b, np.ones(len(self.scale)), self.space.period)

    def rows(self, a: Floats, b: Floats) -> Floats:
        """Cost of the pairs (a[i], b[i]), (n,)."""
        if callable(self.cost):  # it returns tables: small ones, of which the diagonal is kept
            starts = range(0, len(a), _TABLE)
            return np.concatenate([np.diag(self.table(a[k : k + _TABLE], b[k : k + _TABLE])) for k in starts])
        squares = np.square(self.space.wrap(a - b)).sum(axis=1)
        return np.asarray(squares if self.square else np.sqrt(squares))


class Moments(NamedTuple):
    """Mean and covariance under the discounted occupancy."""

    mean: Floats
    covariance: Floats


@dataclass(frozen=True, eq=False)
class Side:
    """One recording: its units, weights of its points, and moments of each unit about a common centre.

    Attributes
    ----------
    data : Trajectories
        Its episodes are the units: whole episodes, or blocks of long runs.
    weights : ndarray, shape (n_points,)
        Discounted weight of each point; the sum is 1.
    centre : ndarray, shape (d,)
    first, second : ndarray, shape (n_units, d), (n_units, d, d)
        Moments of the deviations from the centre, in each unit.
    """

    data: Trajectories
    weights: Floats
    centre: Floats
    first: Floats
    second: Floats

    @classmethod
    def of(cls, data: Trajectories, space: Space, discount: float, *, stationary: bool) -> Side:
        """Weights (1 - g) g^t, or equal ones for blocks of a stationary run."""
        lengths = np.diff(data.boundaries)
        weights = np.concatenate(
            [
                np.full(n, 1.0 / n) if stationary else _weights(int(n), discount, bool(end))
                for n, end in zip(lengths, data.terminated, strict=True)
            ]
        )
        # Weights sum to 1 for each unit, hence to the number of units.
        centre = space.centre(data.points, weights / len(lengths))
        off = space.wrap(data.points - centre)
        weighted = off * weights[:, None]
        edges = data.boundaries[:-1]
        first = np.add.reduceat(weighted, edges, axis=0)
        # About the common centre: moments about 0 would lose their digits far from it.
        products = (weighted[:, :, None] * off[:, None, :]).reshape(len(off), -1)
        second = np.add.reduceat(products, edges, axis=0).reshape(len(lengths), data.d, data.d)
        return cls(data, weights / len(lengths), centre, first, second)

    @property
    def n(self) -> int:
        """Number of units."""
        return len(self.first)

    def moments(self, counts: Floats | None = None) -> Moments:
        """Moments with each unit counted as often as given."""
        share = np.full(self.n, 1.0 / self.n) if counts is None else counts / counts.sum()
        off = share @ self.first
        # The covariance about the mean of this draw, not about the centre.
        return Moments(self.centre + off, np.tensordot(share, self.second, 1) - np.outer(off, off))


def _weights(n: int, discount: float, ended: bool) -> Floats:
    """Weights of points; the time after a recording counts at its second half, after termination at the end."""
    weights = (1.0 - discount) * discount ** np.arange(n)
    rest = discount**n
    if ended:
        weights[-1] += rest
    else:
        # The first half still depends on the initial point, so it does not represent the future.
        weights[n // 2 :] += rest / (n - n // 2)
    return np.asarray(weights / weights.sum())


# --- Few long runs

_ENOUGH = 40  # episodes from which they are units themselves
_SHORTEST = 20  # steps of a block
_TIMES = 4.0  # integrated autocorrelation times that a block spans, so that blocks are nearly independent
_FIT = 3  # blocks that every run must hold


def blocks(sides: Sequence[Trajectories]) -> list[Trajectories] | None:
    """Both recordings cut into blocks if both consist of few long runs; otherwise None.

    Examples
    --------
    >>> noise = np.random.default_rng(0).normal(size=(2, 401, 1))
    >>> [side.n_episodes for side in blocks([Trajectories.from_arrays(noise)] * 2)]
    [40, 40]
    >>> blocks([Trajectories.from_arrays(noise[:, :50])] * 2) is None
    True
    """
    if any(side.n_episodes >= _ENOUGH or side.terminated.any() for side in sides):
        return None
    # One length for both sides, so that their units are comparable.
    length = max(_SHORTEST, *(int(np.ceil(_TIMES * _correlation_time(side))) for side in sides))
    if any(int(side.lengths.min()) < _FIT * length for side in sides):
        return None
    return [_cut(side, length) for side in sides]


def _cut(data: Trajectories, length: int) -> Trajectories:
    """Neighbouring blocks share a point, so that no step is lost."""
    runs = []
    for run in data.episodes:
        edges = np.linspace(0, len(run) - 1, (len(run) - 1) // length + 1).astype(int)
        runs += [run[a : b + 1] for a, b in itertools.pairwise(edges)]
    ends = np.cumsum([0, *(len(run) for run in runs)]).astype(np.int64)
    return Trajectories(np.concatenate(runs), ends, np.zeros(len(runs), np.bool_), data.names, data.period)


def _correlation_time(data: Trajectories) -> float:
    """Integrated autocorrelation time, the median over runs and coordinates."""
    times = []
    for run in data.episodes:
        n = len(run)
        for column in (run - run.mean(axis=0)).T:
            # Padded to twice the length: the transform is periodic.
            spectrum = np.fft.rfft(column, 2 * n)
            correlation = np.fft.irfft(spectrum * np.conj(spectrum))[:n]
            if correlation[0] <= 0.0:
                continue
            correlation = correlation / correlation[0]
            # Summed up to the first small value; the noise beyond would add up.
            below = int(np.argmax(correlation < 0.05)) or n // 2
            times.append(1.0 + 2.0 * float(correlation[1:below].sum()))
    return float(np.median(times)) if times else 1.0


# --- Maps

_LEVEL = 0.995  # of the chi-squared tests that choose the kind of map
_MANY = 15  # restrictions from which only the largest counts: their covariance is not known well


def matrix_power(M: Floats, power: float) -> Floats:
    """Power of a symmetric positive matrix."""
    # Symmetric up to rounding, which `eigh` would ignore on one side only.
    values, vectors = np.linalg.eigh((M + M.T) / 2.0)
    # Bounded below, so that negative powers stay finite.
    values = np.maximum(values, 1e-12 * max(float(values.max()), 1e-300))
    return np.asarray((vectors * values**power) @ vectors.T)


@dataclass(frozen=True, eq=False)
class Registration:
    """T(x) = A (x - mean_x) + mean_y with A symmetric positive; registered coordinates lie half-way.

    u = A^(1/2) (x - mean_x) and v = A^(-1/2) (y - mean_y) agree in distribution if y behaves as T(x).
    """

    A: Floats
    mean_x: Floats
    mean_y: Floats
    space: Space

    @cached_property
    def half(self) -> Floats:
        """A^(1/2)."""
        return matrix_power(self.A, 0.5)

    @cached_property
    def back(self) -> Floats:
        """A^(-1/2)."""
        return matrix_power(self.A, -0.5)

    @property
    def shift(self) -> Floats:
        """Displacement of the mean of x."""
        return self.space.wrap(self.mean_y - self.mean_x)

    def u(self, x: Floats) -> Floats:
        """Registered coordinates of points of x."""
        return np.asarray(self.space.wrap(x - self.mean_x) @ self.half)

    def v(self, y: Floats) -> Floats:
        """Registered coordinates of points of y."""
        return np.asarray(self.space.wrap(y - self.mean_y) @ self.back)

    def x(self, u: Floats) -> Floats:
        """The point of x with these registered coordinates."""
        return np.asarray(u @ self.back + self.mean_x)

    def y(self, v: Floats) -> Floats:
        """The point of y with these registered coordinates."""
        return np.asarray(v @ self.half + self.mean_y)

    def apply(self, x: Floats) -> Floats:
        """T(x)."""
        return np.asarray(self.space.wrap(x - self.mean_x) @ self.A + self.mean_y)

    def inverse(self, y: Floats) -> Floats:
        """The x with T(x) = y."""
        return np.asarray(self.space.wrap(y - self.mean_y) @ (self.back @ self.back) + self.mean_x)

    def moved(self, shift: Floats, M: Floats) -> Registration:
        """The map after v -> v + shift + M v."""
        # The symmetric part: a rotation would not be an optimal map.
        step = np.eye(len(M)) + (M + M.T) / 2.0
        return Registration(self.half @ step @ self.half, self.mean_x, self.mean_y + shift @ self.half, self.space)


def map_between(kind: str, x: Moments, y: Moments, space: Space) -> Registration:
    """The map of this kind that matches the moments; all are symmetric positive, hence optimal for the squared cost.

    Examples
    --------
    >>> one, two = Moments(np.zeros(2), np.eye(2)), Moments(np.ones(2), np.diag([1.0, 4.0]))
    >>> map_between("affine", one, two, Space(np.full(2, np.inf))).A.round(6).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    d = len(x.mean)
    free = ~space.periodic
    A = np.eye(d)
    variances = [np.maximum(np.diag(side.covariance), 1e-300) for side in (x, y)]
    if kind == "scale":
        A[free, free] = np.sqrt(variances[1][free].sum() / variances[0][free].sum())
    elif kind == "stretch":
        A[free, free] = np.sqrt(variances[1][free] / variances[0][free])
    elif kind == "affine":
        inner = np.ix_(free, free)
        root, inverse = (matrix_power(x.covariance[inner], power) for power in (0.5, -0.5))
        # The optimal map between Gaussian distributions.
        A[inner] = inverse @ matrix_power(root @ y.covariance[inner] @ root, 0.5) @ inverse
    return Registration(A, x.mean, x.mean if kind == "same" else y.mean, space)


def directions(kind: str, space: Space) -> tuple[int, list[Floats]]:
    """How a map of this kind may move: the number of shifts, and symmetric matrices."""
    free = ~space.periodic
    d = len(free)
    axes = [np.eye(d)[k] for k in np.flatnonzero(free)]
    if kind in ("same", "shift"):
        return (0 if kind == "same" else d), []
    if kind == "scale":
        return d, [np.diag(free.astype(np.float64))]
    if kind == "stretch":
        return d, [np.outer(e, e) for e in axes]
    pairs = [(i, j) for i in range(len(axes)) for j in range(i, len(axes))]
    sums = [np.outer(axes[i], axes[j]) + np.outer(axes[j], axes[i]) for i, j in pairs]
    return d, [M / (2.0 if i == j else 1.0) for M, (i, j) in zip(sums, pairs, strict=True)]


def kinds_in(space: Space) -> tuple[str, ...]:
    """The kinds of maps that differ in this space, from the simplest on."""
    n_free = int((~space.periodic).sum())
    if n_free == 0:
        return KINDS[:2]
    if n_free == 1:
        return KINDS[:3]
    return KINDS if n_free <= _MOST_AFFINE else KINDS[:4]


class Resampled(NamedTuple):
    """Units drawn with replacement: how often each was drawn, (n_draws, n_units) of x and of y, and the moments."""

    counts: tuple[Floats, Floats]
    moments: list[tuple[Moments, Moments]]

    def of_units(self, x: Ints, y: Ints) -> Resampled:
        """The same draws, with the counts of some units only."""
        return self._replace(counts=(self.counts[0][:, x], self.counts[1][:, y]))


def resampled(sides: tuple[Side, Side], n: int, rng: np.random.Generator) -> Resampled:
    """Moments of both sides with units drawn with replacement."""
    one, other = (rng.multinomial(side.n, np.full(side.n, 1.0 / side.n), size=n).astype(np.float64) for side in sides)
    moments = [(sides[0].moments(a), sides[1].moments(b)) for a, b in zip(one, other, strict=True)]
    return Resampled((one, other), moments)


def choose_kind(x: Moments, y: Moments, bootstrap: Resampled, n: int, space: Space) -> str:
    """The simplest kind of map whose restrictions on the moments are not rejected; `n` units on the smaller side."""
    d = len(x.mean)
    theta = _contrast(x, y, space)
    spread = np.atleast_2d(np.cov(np.array([_contrast(*pair, space) for pair in bootstrap.moments]).T))
    rows = np.eye(len(theta))
    mean, size, mixed = rows[:d], rows[d : 2 * d], rows[2 * d :]
    free = np.flatnonzero(~space.periodic)
    fixed = size[np.flatnonzero(space.periodic)]
    # One fewer than coordinates: equality of k sizes is k - 1 restrictions.
    even = np.array([size[k] - size[free].mean(axis=0) for k in free[:-1]]).reshape(-1, len(theta))
    restrictions = {
        "same": (mean, size, mixed),
        "shift": (size, mixed),
        "scale": (even, fixed, mixed),
        "stretch": (fixed, mixed),
        "affine": (),
    }
    kinds = kinds_in(space)
    for kind in kinds[:-1]:
        if not any(_rejected(R @ theta, R @ spread @ R.T, n) for R in restrictions[kind]):
            return kind
    return kinds[-1]


def _contrast(x: Moments, y: Moments, space: Space) -> Floats:
    """Differences of means, of logarithms of standard deviations, and of correlations."""
    sizes = [np.sqrt(np.maximum(np.diag(side.covariance), 1e-300)) for side in (x, y)]
    mixed = [side.covariance / np.outer(s, s) for side, s in zip((x, y), sizes, strict=True)]
    upper = np.triu_indices(len(x.mean), 1)
    # Logarithms of sizes and correlations are free of units and nearly normal.
    return np.concatenate([space.wrap(y.mean - x.mean), np.log(sizes[1] / sizes[0]), (mixed[1] - mixed[0])[upper]])


def _rejected(values: Floats, covariance: Floats, n: int) -> bool:
    from scipy.special import chdtri

    q = len(values)
    if q == 0:
        return False
    if q > _MANY:
        squares = np.square(values) / np.maximum(np.diag(covariance), 1e-300)
        return bool(squares.max() > 2.0 * np.log(q * n))
    eigenvalues, vectors = np.linalg.eigh(covariance)
    # Directions without variance carry no information, only rounding.
    kept = eigenvalues > 1e-10 * max(float(eigenvalues.max()), 1e-300)
    squares = np.square(vectors.T @ values)[kept] / eigenvalues[kept]
    return bool(squares.sum() > chdtri(int(kept.sum()), 1.0 - _LEVEL))


def squared_cost(T: Registration, x: Moments, y: Moments) -> float:
    """Mean squared length of x - T(x), over both recordings."""
    identity = np.eye(len(T.A))
    total = 0.0
    for B, shift, at, side in (
        (T.A - identity, T.shift, T.mean_x, x),
        (T.back @ T.back - identity, -T.shift, T.mean_y, y),
    ):
        off = shift + T.space.wrap(side.mean - at) @ B
        total += float(np.trace(B @ side.covariance @ B) + off @ off) / 2.0
    return total


def lower_bound(x: Moments, y: Moments, bootstrap: Resampled, space: Space, *, square: bool, z: float) -> float:
    """A lower confidence bound of the distance that needs no model, from means and, if `square`, covariances.

    Periodic coordinates contribute nothing: on a circle a shift of the mean does not bound the cost.
    """
    free = np.ix_(~space.periodic, ~space.periodic)
    if not (~space.periodic).any():
        return 0.0
    # Periodic coordinates have no map of moments, so the bound leaves them out.
    line = Space(space.period[~space.periodic])

    def part(side: Moments) -> Moments:
        return Moments(side.mean[~space.periodic], side.covariance[free])

    best = 0.0
    for kind in ("shift", kinds_in(line)[-1]) if square else ("shift",):
        values = np.array(
            [
                squared_cost(map_between(kind, part(a), part(b), line), part(a), part(b))
                for a, b in ((x, y), *bootstrap.moments)
            ]
        )
        value = max(2.0 * values[0] - values[1:].mean(), 0.0)  # less the bias that noise adds to squares
        if square:
            best = max(best, value - z * float(values[1:].std()))
        else:
            best = max(best, float(np.sqrt(value)) - z * float(np.sqrt(values[1:]).std()))
    return best
