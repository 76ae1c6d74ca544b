"""Maps y = T(x) between two systems: identity, shift, scaling of coordinates, affine; found by what steps do."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from somcot.continuous.onestep import OneStep
from somcot.plumbing.arrays import Floats
from somcot.trajectories import Trajectories

__all__ = ["KINDS", "Affine", "Fitted", "fit_map", "in_words"]

KINDS = ("identity", "shift", "scaling", "affine")
_POINTS = 3000  # steps of y that the map is fitted to
_ROUNDS = 8
_NUDGE = 1e-5  # for derivatives by differences; points are standardised
_TRUST = 3.0  # standard deviation of the prior about the first guess, times 1 / sqrt(episodes)


class Affine(NamedTuple):
    """T(x) = matrix x + shift."""

    matrix: Floats
    shift: Floats

    def apply(self, points: Floats) -> Floats:
        """The y of each x."""
        return np.asarray(points @ self.matrix.T + self.shift)

    def inverse(self, points: Floats) -> Floats:
        """The x of each y."""
        return np.asarray(np.linalg.solve(self.matrix, (points - self.shift).T).T, dtype=np.float64)

    def in_units(self, scale: Floats) -> Affine:
        """The same map of coordinates that were not divided by `scale`."""
        return Affine(scale[:, None] * self.matrix / scale, scale * self.shift)

    @property
    def sane(self) -> bool:
        """Whether it neither flattens nor blows up any direction."""
        sizes = np.linalg.svd(self.matrix, compute_uv=False)
        return bool(np.isfinite(sizes).all() and sizes[-1] > 0.2 and sizes[0] < 5.0)


class Fitted(NamedTuple):
    """A map, its numbers, and their covariance."""

    kind: str
    map: Affine
    numbers: Floats
    covariance: Floats
    make: Callable[[Floats], Affine]


def fit_map(kind: str, x: Trajectories, y: Trajectories, step: OneStep, rng: np.random.Generator) -> Fitted:
    """Find T so that y' = T(f(T^-1 y)) on average, f being a step of x: Gauss-Newton from matched moments."""
    make, first = _family(kind, x, y)
    if not len(first):
        return Fitted(kind, make(first), first, np.zeros((0, 0)), make)
    rows = rng.choice(y.n_transitions, min(_POINTS, y.n_transitions), replace=False)
    now, following = y.now[rows], y.following[rows]
    prior = (_TRUST**2) * (1.0 / x.n_episodes + 1.0 / y.n_episodes)

    def errors(numbers: Floats) -> Floats:
        T = make(numbers)
        return following - T.apply(step.mean(T.inverse(now))) if T.sane else np.full_like(now, np.inf)

    numbers = first
    for _ in range(_ROUNDS):
        e = errors(numbers)
        if not np.isfinite(e).all():
            break
        white = np.linalg.inv(np.linalg.cholesky(e.T @ e / len(e) + 1e-12 * np.eye(x.d))).T
        J = np.stack([(errors(numbers + _NUDGE * axis) - e) @ white / _NUDGE for axis in np.eye(len(first))], axis=-1)
        J = J.reshape(-1, len(first))
        curvature = J.T @ J + np.eye(len(first)) / prior
        towards = np.linalg.solve(curvature, J.T @ (e @ white).ravel() + (numbers - first) / prior)
        size, better = 1.0, False
        worth = _worth(e @ white, numbers - first, prior)
        while size > 0.05 and not better:
            tried = numbers - size * towards
            better = _worth(errors(tried) @ white, tried - first, prior) < worth
            size /= 2.0
        if not better:
            break
        moved = float(np.abs(tried - numbers).max())
        numbers = tried
        if moved < 1e-5:
            break
    # All steps count, not only those used here; the model of x is as uncertain as its own steps.
    share = len(rows) / y.n_transitions
    spread = np.linalg.inv((curvature - np.eye(len(first)) / prior) / share + np.eye(len(first)) / prior)
    covariance = np.asarray(spread * (1.0 + y.n_transitions / x.n_transitions), dtype=np.float64)
    return Fitted(kind, make(numbers), numbers, covariance, make)


def in_words(kind: str, T: Affine, names: tuple[str, ...]) -> str:
    """The map as a sentence.

    Examples
    --------
    >>> in_words("shift", Affine(np.eye(2), np.array([0.3, 0.4])), ("east", "north"))
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


def _worth(e: Floats, off: Floats, prior: float) -> float:
    total = float(np.square(e).sum() + np.square(off).sum() / prior)
    return total if np.isfinite(total) else np.inf


def _family(kind: str, x: Trajectories, y: Trajectories) -> tuple[Callable[[Floats], Affine], Floats]:
    """How numbers make a map, and those that match means and covariances."""
    d = x.d
    (mx, Cx), (my, Cy) = (_moments(data) for data in (x, y))
    if kind == "identity":
        return (lambda numbers: Affine(np.eye(d), np.zeros(d))), np.zeros(0)
    if kind == "shift":
        return (lambda numbers: Affine(np.eye(d), numbers)), my - mx
    # The shift is told at the centre of x: there it and the matrix are nearly independent of each other.
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
