"""Distances between linear-Gaussian processes in closed form, their optimal couplings, and simulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from somcot.gaussian.linear import Linear, factor
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_count, check_discount, check_rng, check_text
from somcot.plumbing.html import card
from somcot.result import Bounds

__all__ = [
    "COSTS",
    "GaussianDistance",
    "between",
    "distance",
    "euclidean_bounds",
    "expected_norm",
]


# --- Euclidean cost: the mean norm of a Gaussian vector, and bounds of the distance from it.

_SPACING = 0.25  # of the trapezoidal rule: its error is exp(-pi^2 / spacing) = 7e-18
_FIRST, _LAST = -28.0, 38.0  # where both ends are sums of geometric series to rounding
_MOST_STEPS = 20_000
_NEGLIGIBLE = 1e-13  # total weight of the omitted steps

Roots = tuple[tuple[Floats, Floats], tuple[Floats, Floats]]  # noise of x and of y, of the start and of a step


def expected_norm(mean: Floats, covariance: Floats) -> Floats:
    r"""E\|z\| of z ~ N(mean, covariance), shapes (n, d) and (n, d, d).

    With q = \|z\|^2, E sqrt(q) is the integral of (1 - E exp(-s q)) s^(-3/2) / (2 sqrt(pi)) over s > 0. In u = log s
    the integrand is analytic and bounded for \|Im u\| < pi / 2, where the real part of s is positive: the trapezoidal
    rule is exact to rounding.

    Examples
    --------
    >>> expected_norm(np.zeros((2, 2)), np.stack([np.eye(2), np.diag([1.0, 0.0])])) ** 2 / np.pi
    array([0.5       , 0.20264237])
    """
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, 0.0)  # rounding can make zero eigenvalues slightly negative
    # |z|^2 splits into independent terms in the eigenbasis of the covariance.
    squares = np.square(np.einsum("nij,ni->nj", vectors, mean))
    size = (values + squares).sum(axis=1)
    # Normalised to unit size, so that fixed integration limits fit every problem.
    unit = np.where(size > 0.0, size, 1.0)[:, None]
    u = np.arange(_FIRST, _LAST + _SPACING / 2, _SPACING)
    integral = np.concatenate(
        [
            _missing(values[part] / unit[part], squares[part] / unit[part], np.exp(u)) @ np.exp(-u / 2)
            # In parts, to bound the memory of the (n, d, len(u)) array.
            for part in _parts(len(size), values.shape[1] * len(u))
        ]
    )
    # Beyond the ends the integrand is exp(u / 2) on the left and exp(-u / 2) on the right.
    ratio = np.exp(-_SPACING / 2)
    integral += (np.exp(_FIRST / 2) + np.exp(-_LAST / 2)) * ratio / (1.0 - ratio)
    return np.asarray(np.where(size > 0.0, np.sqrt(size) * _SPACING * integral / (2.0 * np.sqrt(np.pi)), 0.0))


def euclidean_bounds(x: Linear, y: Linear, g: float, roots: Roots, squared: float) -> tuple[float, float]:
    """Lower and upper bound for the Euclidean cost; `squared` is the distance for the squared cost.

    Omitted steps count 0 in the lower bound. In the upper bound they count, by the Cauchy-Schwarz inequality, at most
    the square root of their weight times their share of the squared distance.
    """
    d = x.d
    n = min(_MOST_STEPS, 1 + int(np.ceil(np.log(_NEGLIGIBLE) / np.log(g))))
    mean, joint = _moments(x, y, roots, n)
    weight = (1.0 - g) * g ** np.arange(n)
    apart = joint[:, :d, :d]
    spread = expected_norm(mean, apart)
    # Squared distance of the omitted steps: what the sum so far leaves.
    rest = max(0.0, squared - float(weight @ (np.square(mean).sum(axis=1) + np.trace(apart, axis1=1, axis2=2))))
    high = min(float(weight @ spread) + float(np.sqrt(g**n * rest)), float(np.sqrt(squared)))
    if d == 1 and x.A[0, 0] * y.A[0, 0] >= 0.0:
        # In one dimension with A B >= 0 the coupling is optimal (see the package), so both bounds agree.
        return (high if g**n <= _NEGLIGIBLE else min(float(weight @ spread), high)), high
    return min(float(weight @ _projected(mean, joint)), high), high


def _moments(x: Linear, y: Linear, roots: Roots, n: int) -> tuple[Floats, Floats]:
    """Mean (n, d) of x_t - y_t and covariance (n, 2 d, 2 d) of (x_t - y_t, y_t) under the coupling, step by step.

    Differences are propagated directly, so that they remain exactly 0 for equal processes.
    """
    d = x.d
    M = np.zeros((2 * d, 2 * d))
    # The difference x - y moves by A (x - y) + (A - B) y: it stays exactly 0 for equal models.
    M[:d, :d], M[:d, d:], M[d:, d:] = x.A, x.A - y.A, y.A
    # Noise of (x - y, y) under the coupling: one source drives both.
    first, noise = (np.vstack([left - right, right]) for left, right in roots)
    drift = [model.offset + model.A @ y.start_mean - y.start_mean for model in (x, y)]
    step = np.concatenate([drift[0] - drift[1], drift[1]])
    centre = np.concatenate([x.start_mean - y.start_mean, np.zeros(d)])
    covariance, added = first @ first.T, noise @ noise.T
    means, joint = np.empty((n, d)), np.empty((n, 2 * d, 2 * d))
    for t in range(n):
        means[t], joint[t] = centre[:d], covariance
        centre, covariance = M @ centre + step, M @ covariance @ M.T + added
    return means, joint


def _projected(mean: Floats, joint: Floats) -> Floats:
    r"""At each time the largest transport cost \|u'x - u'y\| over a few directions u, each a lower bound.

    In one dimension the comonotone coupling of two normal distributions is optimal: the mean of \|m + (s_x - s_y) z\|.
    """
    d = mean.shape[1]
    of_y = joint[:, d:, d:]
    of_x = joint[:, :d, :d] + joint[:, :d, d:] + joint[:, d:, :d] + of_y
    length = np.linalg.norm(mean, axis=1, keepdims=True)
    along = mean / np.where(length > 0.0, length, 1.0)
    # The mean difference, and the directions in which the covariances differ most.
    directions = np.concatenate([along[:, :, None], np.linalg.eigh(of_x - of_y)[1]], axis=2)
    deviation = [
        np.sqrt(np.maximum(np.einsum("nik,nij,njk->nk", directions, part, directions), 0.0)) for part in (of_x, of_y)
    ]
    shift = np.einsum("nik,ni->nk", directions, mean).ravel()
    gap = (deviation[0] - deviation[1]).ravel()
    return np.asarray(expected_norm(shift[:, None], np.square(gap)[:, None, None]).reshape(-1, d + 1).max(axis=1))


def _missing(values: Floats, squares: Floats, s: Floats) -> Floats:
    """1 - E exp(-s q) for normalised eigenvalues and squared means, (n, d) each; returns (n, len(s))."""
    grown = 2.0 * values[:, :, None] * s
    # `log1p` and `expm1` keep small arguments accurate: s runs over 28 orders of magnitude.
    exponent = 0.5 * np.log1p(grown) + squares[:, :, None] * s / (1.0 + grown)
    return np.asarray(-np.expm1(-exponent.sum(axis=1)))


def _parts(n: int, width: int) -> list[slice]:
    size = max(1, 2_000_000 // width)
    return [slice(first, first + size) for first in range(0, n, size)]


# --- The closed form, its optimal coupling, and simulation.

COSTS = ("sqeuclidean", "euclidean")
_MOST_DOUBLINGS = 64  # squarings until the matrix power vanishes; 2^64 steps


class _Rotated(NamedTuple):
    """The optimal joint distribution of two Gaussian vectors F e and G f: f = turn @ e."""

    left: Floats  # F, padded with zero columns to the common width
    right: Floats  # G turn
    gain: float  # nuclear norm


@dataclass(frozen=True, eq=False, repr=False)
class GaussianDistance:
    """Distance between two linear-Gaussian processes.

    Attributes
    ----------
    distance : float
        For the squared cost the distance; for the Euclidean cost the cost of the coupling, the upper bound.
    bounds : Bounds
        A bracket, proved up to floating-point rounding.
    cost : {"sqeuclidean", "euclidean"}
    discount : float
    x, y : Linear
    """

    distance: float
    bounds: Bounds
    cost: str
    discount: float
    x: Linear
    y: Linear
    _start: _Rotated
    _noise: _Rotated

    def __float__(self) -> float:
        return self.distance

    @property
    def exact(self) -> bool:
        """Whether `distance` is exact: always for the squared cost, otherwise if the bounds coincide."""
        return bool(self.bounds.high - self.bounds.low <= 1e-9 * max(self.bounds.high, 1e-300))

    def simulate(
        self, n_episodes: int, n_steps: int, rng: int | np.random.Generator | None = None
    ) -> tuple[Floats, Floats]:
        """Draw pairs of episodes from the coupling, each array (n_episodes, n_steps + 1, d).

        Examples
        --------
        >>> result = distance(0.6, 0.5, 0.3, 0.7, discount=0.9)
        >>> x, y = result.simulate(4000, 100, rng=0)
        >>> weights = 0.1 * 0.9 ** np.arange(101)
        >>> abs((weights * ((x - y) ** 2).sum(axis=-1)).sum(axis=1).mean() - result.distance) < 0.01
        np.True_
        """
        n = check_count("n_episodes", n_episodes)
        n_steps = check_count("n_steps", n_steps, at_least=0)
        generator = check_rng(rng)
        e = generator.standard_normal((n, self._start.left.shape[1]))
        now = (self.x.start_mean + e @ self._start.left.T, self.y.start_mean + e @ self._start.right.T)
        out = (np.empty((n, n_steps + 1, self.x.d)), np.empty((n, n_steps + 1, self.x.d)))
        for t in range(n_steps + 1):
            e = generator.standard_normal((n, self._noise.left.shape[1]))
            for side, states in enumerate(now):
                out[side][:, t] = states
            now = (_move(self.x, now[0], e @ self._noise.left.T), _move(self.y, now[1], e @ self._noise.right.T))
        return out

    def __repr__(self) -> str:
        value = f"{self.distance:.6g}" if self.exact else f"{self.bounds.low:.6g} to {self.bounds.high:.6g}"
        return f"GaussianDistance({value}, {self.cost}, discount {self.discount:g})"

    def _repr_html_(self) -> str:
        value = f"{self.distance:.6g}" if self.exact else f"{self.bounds.low:.6g} to {self.bounds.high:.6g}"
        facts = [("distance", value), ("cost", self.cost), ("discount", f"{self.discount:g}")]
        return card("GaussianDistance", [*facts, ("x", repr(self.x)), ("y", repr(self.y))])


def distance(
    A: object,
    S: object,
    B: object,
    R: object,
    *,
    discount: float,
    offset_x: object = 0.0,
    offset_y: object = 0.0,
    start_x: object = None,
    start_y: object = None,
    cost: str = "sqeuclidean",
) -> GaussianDistance:
    """Distance between x' = A x + offset_x + S e and y' = B y + offset_y + R f.

    Parameters
    ----------
    A, B : array_like, shape (d, d)
        In one dimension scalars are accepted, here and below.
    S, R : array_like, shape (d, any)
        Noise: covariances S S' and R R'.
    discount : float
        ``discount * radius ** 2`` must be below 1 for the spectral radius of A and of B.
    offset_x, offset_y : array_like, shape (d,), or number
    start_x, start_y : array_like, shape (d,), or tuple of mean (d,) and covariance (d, d), optional
        By default both start in 0.
    cost : {"sqeuclidean", "euclidean"}

    Examples
    --------
    >>> starts = {"start_x": (0.0, 0.36), "start_y": (0.3, 0.36)}
    >>> distance(0.6, 0.5, 0.3, 0.7, discount=0.95, **starts)
    GaussianDistance(0.0763257, sqeuclidean, discount 0.95)
    >>> distance(0.6, 0.5, 0.3, 0.7, discount=0.95, cost="euclidean", **starts)
    GaussianDistance(0.223425, euclidean, discount 0.95)
    """
    x = Linear.of(A, S, offset=offset_x, start=start_x, names=("A", "S", "offset_x", "start_x"))
    y = Linear.of(B, R, offset=offset_y, start=start_y, names=("B", "R", "offset_y", "start_y"))
    return between(x, y, cost, discount=discount)


def between(x: Linear, y: Linear, cost: str = "sqeuclidean", *, discount: float) -> GaussianDistance:
    """Distance between two linear models.

    Parameters
    ----------
    x, y : Linear
    cost : {"sqeuclidean", "euclidean"}
    discount : float

    Examples
    --------
    >>> still = Linear.of(0.9 * np.eye(2), 0.3 * np.eye(2))
    >>> shifted = Linear.of(0.9 * np.eye(2), 0.3 * np.eye(2), offset=[0.03, 0.04], start=[0.3, 0.4])
    >>> between(still, shifted, "euclidean", discount=0.95)
    GaussianDistance(0.5, euclidean, discount 0.95)
    """
    g = check_discount(discount)
    if check_text("cost", cost) not in COSTS:
        raise ValueError(f"cost: found {cost!r}, expected one of {', '.join(map(repr, COSTS))}")
    _check_pair(x, y, g)
    Q = cross(x.A, y.A, g)
    start = _turned(factor(x.start_covariance), Q, factor(y.start_covariance))
    noise = _turned(x.S, Q, y.S)
    squared = 0.0 if x.equals(y) else max(0.0, _squared(x, y, g, start.gain, noise.gain))
    if cost == "sqeuclidean":
        return GaussianDistance(squared, Bounds(squared, squared), cost, g, x, y, start, noise)
    low, high = (0.0, 0.0) if x.equals(y) else euclidean_bounds(x, y, g, (start[:2], noise[:2]), squared)
    return GaussianDistance(high, Bounds(low, high), cost, g, x, y, start, noise)


def cross(A: Floats, B: Floats, g: float) -> Floats:
    """Solve Q = I + g A'Q B by doubling: after k rounds the sum of the first 2^k terms."""
    Q, left, right = np.eye(len(A)), np.sqrt(g) * A.T, np.sqrt(g) * B
    for _ in range(_MOST_DOUBLINGS):
        step = left @ Q @ right
        Q = Q + step
        # Relative to Q, with a margin, because the terms not yet added form a geometric series.
        if float(np.abs(step).max()) <= np.finfo(float).eps * float(np.abs(Q).max()) * 1e-3:
            break
        left, right = left @ left, right @ right
    return Q


def _squared(x: Linear, y: Linear, g: float, start_gain: float, noise_gain: float) -> float:
    P, W = cross(x.A, x.A, g), cross(y.A, y.A, g)
    # Each bracket is a squared distance, so negative values are rounding.
    starts = float(np.vdot(P, x.start_covariance) + np.vdot(W, y.start_covariance)) - 2.0 * start_gain
    steps = float(np.vdot(P, x.S @ x.S.T) + np.vdot(W, y.S @ y.S.T)) - 2.0 * noise_gain
    return float(_means(x, y, g) + (1.0 - g) * max(starts, 0.0) + g * max(steps, 0.0))


def _means(x: Linear, y: Linear, g: float) -> float:
    """(1 - g) sum_t g^t |E x_t - E y_t|^2, by doubling on (E x_t - E y_t, E y_t, 1), relative to the start of y."""
    d = x.d
    M = np.zeros((2 * d + 1, 2 * d + 1))
    M[:d, :d], M[:d, d : 2 * d], M[d : 2 * d, d : 2 * d] = x.A, x.A - y.A, y.A
    drift = [model.offset + model.A @ y.start_mean - y.start_mean for model in (x, y)]
    M[:d, -1], M[d : 2 * d, -1], M[-1, -1] = drift[0] - drift[1], drift[1], 1.0
    H = np.zeros_like(M)
    H[:d, :d] = np.eye(d)
    power = np.sqrt(g) * M
    for _ in range(_MOST_DOUBLINGS):
        # Doubling: after k rounds the sum of 2^k terms.
        H = H + power.T @ H @ power
        power = power @ power
        if float(np.abs(power).max()) < 1e-20:
            break
    z = np.concatenate([x.start_mean - y.start_mean, np.zeros(d), [1.0]])
    return float((1.0 - g) * (z @ H @ z))


def _turned(left: Floats, Q: Floats, right: Floats) -> _Rotated:
    """The joint distribution of F e and G f that maximises E[(F e)'Q (G f)]."""
    k = max(left.shape[1], right.shape[1])
    left, right = (np.pad(root, ((0, 0), (0, k - root.shape[1]))) for root in (left, right))
    # The optimal rotation of a Procrustes problem; its value is the nuclear norm.
    U, values, Zt = np.linalg.svd(left.T @ Q @ right)
    return _Rotated(left, right @ Zt.T @ U.T, float(values.sum()))


def _move(model: Linear, states: Floats, noise: Floats) -> Floats:
    return np.asarray(states @ model.A.T + model.offset + noise)


def _check_pair(x: Linear, y: Linear, g: float) -> None:
    for name, model in (("x", x), ("y", y)):
        if not isinstance(model, Linear):
            raise TypeError(f"{name}: found {type(model).__name__}, expected a Linear; gaussian.fit makes one")
        if g * model.radius**2 >= 1.0:
            raise ValueError(
                f"{'A' if name == 'x' else 'B'}: the spectral radius is {model.radius:.6g}, so discount * radius^2 = "
                f"{g * model.radius**2:.6g} and the discounted squares do not sum; use a discount below "
                f"{model.radius**-2:.6g}, or compare fewer steps"
            )
    if x.d != y.d:
        raise ValueError(f"y: found {y.d} coordinates, but x has {x.d}; |x - y| needs as many of both")
