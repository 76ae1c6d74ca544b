"""The closed form, its optimal coupling, and simulation of that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from somcot.gaussian.model import Linear, factor
from somcot.gaussian.norms import euclidean_bounds
from somcot.plumbing.arrays import Floats
from somcot.plumbing.cards import card
from somcot.plumbing.validation import check_count, check_discount, check_rng
from somcot.result import Bounds

__all__ = ["COSTS", "GaussianDistance", "between", "distance"]

COSTS = ("sqeuclidean", "euclidean")
_MOST_DOUBLINGS = 64  # squares of a matrix until its power is nothing; 2^64 steps


class _Turned(NamedTuple):
    """The best joint law of two Gaussian vectors F e and G f: f = turn @ e."""

    left: Floats  # F, with columns of 0 so that both have the same number
    right: Floats  # G turn
    gain: float  # nuclear norm


@dataclass(frozen=True, eq=False, repr=False)
class GaussianDistance:
    """Distance of two linear-Gaussian processes.

    Attributes
    ----------
    distance : float
        For the squared cost the distance; for the Euclidean cost what the coupling costs, the upper bound.
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
    _start: _Turned
    _noise: _Turned

    def __float__(self) -> float:
        return self.distance

    @property
    def exact(self) -> bool:
        """Whether `distance` is the distance itself: always for the squared cost, else where the bounds meet."""
        return bool(self.bounds.high - self.bounds.low <= 1e-9 * max(self.bounds.high, 1e-300))

    def simulate(
        self, n_episodes: int, n_steps: int, rng: int | np.random.Generator | None = None
    ) -> tuple[Floats, Floats]:
        """Draw pairs of episodes from the coupling, each array (n_episodes, n_steps + 1, d).

        Examples
        --------
        >>> found = distance(0.6, 0.5, 0.3, 0.7, discount=0.9)
        >>> x, y = found.simulate(4000, 100, rng=0)
        >>> weights = 0.1 * 0.9 ** np.arange(101)
        >>> abs((weights * ((x - y) ** 2).sum(axis=-1)).sum(axis=1).mean() - found.distance) < 0.01
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
        found = f"{self.distance:.6g}" if self.exact else f"{self.bounds.low:.6g} to {self.bounds.high:.6g}"
        return f"GaussianDistance({found}, {self.cost}, discount {self.discount:g})"

    def _repr_html_(self) -> str:
        found = f"{self.distance:.6g}" if self.exact else f"{self.bounds.low:.6g} to {self.bounds.high:.6g}"
        facts = [("distance", found), ("cost", self.cost), ("discount", f"{self.discount:g}")]
        return card("GaussianDistance", [*facts, ("x", repr(self.x)), ("y", repr(self.y))])


def distance(
    A: Any,
    S: Any,
    B: Any,
    R: Any,
    *,
    discount: float,
    offset_x: Any = 0.0,
    offset_y: Any = 0.0,
    start_x: Any = None,
    start_y: Any = None,
    cost: str = "sqeuclidean",
) -> GaussianDistance:
    """Distance of x' = A x + offset_x + S e and y' = B y + offset_y + R f.

    Parameters
    ----------
    A, B : array_like, shape (d, d)
        Plain numbers will do in one dimension, here and below.
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
    """Distance of two linear models, given or fitted.

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
    if cost not in COSTS:
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
        if float(np.abs(step).max()) <= np.finfo(float).eps * float(np.abs(Q).max()) * 1e-3:
            break
        left, right = left @ left, right @ right
    return Q


def _squared(x: Linear, y: Linear, g: float, start_gain: float, noise_gain: float) -> float:
    P, W = cross(x.A, x.A, g), cross(y.A, y.A, g)
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
        H = H + power.T @ H @ power
        power = power @ power
        if float(np.abs(power).max()) < 1e-20:
            break
    z = np.concatenate([x.start_mean - y.start_mean, np.zeros(d), [1.0]])
    return float((1.0 - g) * (z @ H @ z))


def _turned(left: Floats, Q: Floats, right: Floats) -> _Turned:
    """The joint law of F e and G f with the largest E[(F e)'Q (G f)]."""
    k = max(left.shape[1], right.shape[1])
    left, right = (np.pad(root, ((0, 0), (0, k - root.shape[1]))) for root in (left, right))
    U, values, Zt = np.linalg.svd(left.T @ Q @ right)
    return _Turned(left, right @ Zt.T @ U.T, float(values.sum()))


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
