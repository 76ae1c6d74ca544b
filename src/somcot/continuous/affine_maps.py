"""Maps y = T(x) between two systems: identity, shift, scaling of coordinates, affine; fitted to one-step behaviour.

The mean of a step determines little near a fixed point, where any rescaling of a linear map fits equally well,
and nothing about a symmetry. So T must also carry the noise of a step and the initial points of x into those of y.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from somcot.continuous.onestep_models import OneStep
from somcot.plumbing.arrays import Floats
from somcot.trajectories import Trajectories

__all__ = [
    "KINDS",
    "Affine",
    "Fitted",
    "MapConstraints",
    "describe_map",
    "fit_map",
]


# --- Constraints on a map beyond the mean of a step: its noise, and the initial points

_FLOOR = 1e-3  # fraction of the variance below which initial points and noise do not constrain a map


class _Law(NamedTuple):
    """A distribution that T must carry from x to y, by its covariance: expected from x, with its precision in y."""

    covariance: Floats
    floor: Floats  # diagonal matrix
    n: int
    tails: float  # variance of a squared standardised coordinate: 2 for normal distributions

    @classmethod
    def of(cls, values: Floats, n: int, unit: Floats, inflated: float = 1.0) -> _Law:
        """From values of x about 0; `n` values of y will be compared with them."""
        covariance = inflated * values.T @ values / len(values)
        floor = _FLOOR * np.square(unit)
        standard = values @ np.linalg.inv(np.linalg.cholesky(covariance + np.diag(floor))).T
        return cls(covariance, floor, n, max(2.0, float(np.square(standard).var(axis=0).mean())))

    @property
    def white(self) -> Floats:
        """The whitening matrix."""
        return np.linalg.inv(np.linalg.cholesky(self.covariance + np.diag(self.floor)))

    def misfit(self, pulled: Floats) -> Floats:
        """Deviation of the covariance of the pulled-back y from that of x, in standard errors."""
        white = self.white
        S = white @ (pulled + np.diag(self.floor)) @ white.T - np.eye(len(pulled))
        i, j = np.triu_indices(len(S))
        return np.asarray(S[i, j] * np.sqrt(self.n / np.where(i == j, self.tails, 0.5 * self.tails)))


class MapConstraints(NamedTuple):
    """Constraints on T beyond the mean of a step: its noise, and the initial points."""

    noise: _Law
    starts: _Law
    start: Floats  # mean initial point of x
    of_y: tuple[Floats, Floats]  # mean and covariance of the initial points of y

    @classmethod
    def of(cls, x: Trajectories, y: Trajectories, step: OneStep) -> MapConstraints:
        """From both recordings and the one-step model of x."""
        n, free = x.n_transitions, min(step.freedom, 0.5 * x.n_transitions)
        left = x.following - step.mean(x.now)
        # The model was fitted to the steps of x: its residuals there are too small, and larger on other steps.
        moves = (x.following - x.now).std(axis=0) + 1e-12
        noise = _Law.of(left, y.n_transitions, moves, inflated=n / (n - free) * (1.0 + free / n))
        middle = y.starts.mean(axis=0)
        centred = y.starts - middle
        begin = x.starts.mean(axis=0)
        starts = _Law.of(x.starts - begin, y.n_episodes, x.points.std(axis=0) + 1e-12)
        return cls(noise, starts, begin, (middle, centred.T @ centred / len(centred)))

    def misfit(self, matrix: Floats, shift: Floats, left: Floats) -> Floats:
        """Misfit of y = matrix x + shift, in standard errors; `left` is the residual covariance of the steps of y."""
        back = np.linalg.inv(matrix)
        middle, spread = self.of_y
        off = self.starts.white @ (back @ (middle - shift) - self.start)
        return np.concatenate(
            [
                self.noise.misfit(back @ left @ back.T),
                self.starts.misfit(back @ spread @ back.T),
                np.sqrt(self.starts.n) * off,
            ]
        )


# --- Fitting a map

KINDS = ("identity", "shift", "scaling", "affine")
_POINTS = 3000  # steps of y for the first fit
_ROUNDS = 8
_CLOSE = 1e-5  # change of the parameters that ends the search; points are standardised
_NUDGE = 1e-6  # of the parameters, for finite differences
_TRUST = 3.0  # standard deviation of the prior about the first guess, times 1 / sqrt(episodes)


class Affine(NamedTuple):
    """T(x) = matrix x + shift."""

    matrix: Floats
    shift: Floats

    def apply(self, points: Floats) -> Floats:
        """The image y of each x."""
        return np.asarray(points @ self.matrix.T + self.shift)

    def inverse(self, points: Floats) -> Floats:
        """The preimage x of each y."""
        return np.asarray(np.linalg.solve(self.matrix, (points - self.shift).T).T, dtype=np.float64)

    def in_units(self, scale: Floats) -> Affine:
        """The same map in coordinates that were not divided by `scale`."""
        return Affine(scale[:, None] * self.matrix / scale, scale * self.shift)

    @property
    def sane(self) -> bool:
        """Whether the map is well conditioned: it neither collapses nor inflates any direction."""
        sizes = np.linalg.svd(self.matrix, compute_uv=False)
        return bool(np.isfinite(sizes).all() and sizes[-1] > 0.2 and sizes[0] < 5.0)


class Fitted(NamedTuple):
    """A map, its parameters, and their covariance."""

    kind: str
    map: Affine
    numbers: Floats
    covariance: Floats
    make: Callable[[Floats], Affine]


def fit_map(kind: str, x: Trajectories, y: Trajectories, step: OneStep, rng: np.random.Generator) -> Fitted:
    """Fit T so that y' = T(f(T^-1 y)) on average, with f the mean step of x: Gauss-Newton from matched moments.

    First on the means of some steps of y, then on all: the tests that follow would detect the error of a map fitted
    to some alone.
    """
    make, first = _family(kind, x, y)
    if not len(first):
        return Fitted(kind, make(first), first, np.zeros((0, 0)), make)
    prior = (_TRUST**2) * (1.0 / x.n_episodes + 1.0 / y.n_episodes)
    rows = rng.choice(y.n_transitions, min(_POINTS, y.n_transitions), replace=False)
    numbers, constraints = first, MapConstraints.of(x, y, step)
    for part, also in ((rows, None), (np.arange(y.n_transitions), constraints)):
        search = _Search(make, first, prior, step, also, y.now[part], y.following[part])
        numbers = search.best(numbers)
    spread = np.linalg.inv(search.quadratic(numbers)[0])
    # The model of x is as uncertain as the steps of x.
    covariance = np.asarray(spread * (1.0 + y.n_transitions / x.n_transitions), dtype=np.float64)
    return Fitted(kind, make(numbers), numbers, covariance, make)


class _Search(NamedTuple):
    """Least squares of the residuals of a map on the steps of y, with a prior about the first guess."""

    make: Callable[[Floats], Affine]
    first: Floats
    prior: float
    step: OneStep
    constraints: MapConstraints | None
    now: Floats
    following: Floats

    def best(self, numbers: Floats) -> Floats:
        """Gauss-Newton iterations, with each step halved until it improves the fit."""
        for _ in range(_ROUNDS):
            if not self.make(numbers).sane:
                break
            curvature, slope, white, worth = self.quadratic(numbers)
            towards = np.linalg.solve(curvature, slope)
            size = 1.0
            while size > 0.05 and not self._worth(numbers - size * towards, white) < worth:
                size /= 2.0
            if size <= 0.05:
                break
            numbers = numbers - size * towards
            if float(np.abs(size * towards).max()) < _CLOSE:
                break
        return numbers

    def quadratic(self, numbers: Floats) -> tuple[Floats, Floats, Floats, float]:
        """Curvature and gradient of half the sum of squares, the whitening matrix of errors, and the sum."""
        T, d = self.make(numbers), self.now.shape[1]
        before = T.inverse(self.now)
        after, slope = self.step.mean_and_slope(before)
        e = self.following - T.apply(after)
        left = e.T @ e / len(e)
        white = np.linalg.inv(np.linalg.cholesky(left + 1e-12 * (1.0 + np.trace(left)) * np.eye(d))).T
        back = np.linalg.inv(T.matrix)
        columns = []
        for axis in np.eye(len(numbers)):  # make is affine in the parameters
            one, none = self.make(axis), self.make(np.zeros(len(numbers)))
            M, s = one.matrix - none.matrix, one.shift - none.shift
            pulled = np.einsum("ikl,il->ik", slope, (before @ M.T + s) @ back.T)
            columns.append(((pulled @ T.matrix.T - after @ M.T - s) @ white).ravel())
        J = np.stack(columns, axis=1)
        also = self._also(numbers, left)
        nudged = [self._also(numbers + _NUDGE * axis, left) for axis in np.eye(len(numbers))]
        K = (np.stack(nudged, axis=1) - also[:, None]) / _NUDGE
        curvature = J.T @ J + K.T @ K + np.eye(len(numbers)) / self.prior
        towards = J.T @ (e @ white).ravel() + K.T @ also + (numbers - self.first) / self.prior
        return np.asarray(curvature), np.asarray(towards), white, self._sum(e, white, numbers)

    def _also(self, numbers: Floats, left: Floats) -> Floats:
        T = self.make(numbers)
        return np.zeros(0) if self.constraints is None else self.constraints.misfit(T.matrix, T.shift, left)

    def _worth(self, numbers: Floats, white: Floats) -> float:
        T = self.make(numbers)
        if not T.sane:
            return np.inf
        return self._sum(self.following - T.apply(self.step.mean(T.inverse(self.now))), white, numbers)

    def _sum(self, e: Floats, white: Floats, numbers: Floats) -> float:
        total = float(np.square(e @ white).sum() + np.square(numbers - self.first).sum() / self.prior)
        total += float(np.square(self._also(numbers, e.T @ e / len(e))).sum())
        return total if np.isfinite(total) else np.inf


def describe_map(kind: str, T: Affine, names: tuple[str, ...]) -> str:
    """The map as a sentence.

    Examples
    --------
    >>> describe_map("shift", Affine(np.eye(2), np.array([0.3, 0.4])), ("east", "north"))
    'y behaves as x shifted by (0.3, 0.4) in (east, north)'
    """
    shown = ", ".join(f"{s:.3g}" for s in T.shift)
    where = f"({', '.join(names)})"
    if kind == "identity":
        return "y behaves as x"
    if kind == "shift":
        return f"y behaves as x shifted by ({shown}) in {where}"
    if kind == "scaling":
        factors = ", ".join(f"{s:.3g}" for s in np.diag(T.matrix))
        return f"y behaves as x times ({factors}) plus ({shown}) in {where}"
    rows = "; ".join(", ".join(f"{a:.3g}" for a in row) for row in T.matrix)
    return f"y behaves as M x + ({shown}) in {where}, with M = [{rows}]"


def _family(kind: str, x: Trajectories, y: Trajectories) -> tuple[Callable[[Floats], Affine], Floats]:
    """The map as a function of parameters, and the parameters that match means and covariances."""
    d = x.d
    (mx, Cx), (my, Cy) = (_moments(data) for data in (x, y))
    if kind == "identity":
        return (lambda numbers: Affine(np.eye(d), np.zeros(d))), np.zeros(0)
    if kind == "shift":
        return (lambda numbers: Affine(np.eye(d), numbers)), my - mx
    # The shift is defined at the centre of x: there it is nearly uncorrelated with the matrix.
    if kind == "scaling":
        ratio = np.sqrt(np.diag(Cy) / np.diag(Cx))

        def scaled(numbers: Floats) -> Affine:
            return Affine(np.diag(numbers[:d]), mx + numbers[d:] - numbers[:d] * mx)

        return scaled, np.concatenate([ratio, my - mx])
    root = _root(Cx)
    inverse = np.linalg.inv(root)
    guess = inverse @ _root(root @ Cy @ root) @ inverse

    def affine(numbers: Floats) -> Affine:
        matrix = numbers[: d * d].reshape(d, d)
        return Affine(matrix, mx + numbers[d * d :] - matrix @ mx)

    return affine, np.concatenate([guess.ravel(), my - mx])


def _moments(data: Trajectories) -> tuple[Floats, Floats]:
    return data.points.mean(axis=0), np.atleast_2d(np.cov(data.points.T)) + 1e-12 * np.eye(data.d)


def _root(C: Floats) -> Floats:
    values, vectors = np.linalg.eigh(C)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 1e-12))) @ vectors.T)
