"""Smooth models of one step of a recording, and how much of a step they explain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from somcot.cells import embedded
from somcot.continuous.moments import Space
from somcot.plumbing.arrays import Bools, Floats, Ints

__all__ = ["OneStep", "RegressionSums", "curvature", "pairs_of", "residual_covariance", "ridge", "scatter_share"]

_MOST_BUMPS = 150
_WIDTHS = (0.6, 1.0, 1.8, 3.5)  # times the root of the dimension, in standard deviations
_PENALTIES = (1e-4, 1e-2, 0.1, 1.0, 10.0)
_CHARGE = 1.2  # of degrees of freedom, in generalised cross-validation: above 1 it seldom overfits
_TUNED = 3000  # steps used to choose the width of the bumps


class RegressionSums(NamedTuple):
    """Sums over steps for a fit: products of features with features, features with moves, and moves with moves."""

    n: int
    features: Floats
    mixed: Floats
    moves: Floats


@dataclass(frozen=True, eq=False)
class OneStep:
    """E[x' - x] as a function of x: affine terms and radial basis functions, by ridge regression.

    Periodic coordinates enter by their sine and cosine, and their moves are taken the short way round.

    Attributes
    ----------
    space : Space
    centre, scale : ndarray, shape (q,)
        Mean and scale of the embedded points, which are standardised.
    unit : ndarray, shape (d,)
        Scale of the moves.
    bumps : ndarray, shape (m, q)
        Centres of the radial basis functions ("bumps"), standardised.
    width : float
    weights : ndarray, shape (1 + q + m, d)
    """

    space: Space
    centre: Floats
    scale: Floats
    unit: Floats
    bumps: Floats
    width: float
    weights: Floats

    @classmethod
    def fit(cls, now: Floats, following: Floats, space: Space, rng: np.random.Generator) -> OneStep:
        """Choose width and penalty by generalised cross-validation, the width on some of the steps."""
        n = len(now)
        places = embedded(now, space.period)
        centre, scale = places.mean(axis=0), places.std(axis=0) + 1e-12
        q = len(centre)
        # About 15 steps for each bump, and at least five bumps.
        m = int(min(_MOST_BUMPS, max(5, n // 15), n))
        bumps = (places[rng.choice(n, m, replace=False)] - centre) / scale
        some = rng.choice(n, min(n, _TUNED), replace=False)
        unit = now.std(axis=0) + 1e-12
        # Width grows with the root of the dimension, as distances between points do.
        blanks = [cls(space, centre, scale, unit, bumps, w * np.sqrt(q), np.zeros((0, 0))) for w in _WIDTHS]
        scores = [ridge(blank.sums(now[some], following[some]), 1 + q)[0] for blank in blanks]
        return blanks[int(np.argmin(scores))].refitted(now, following)

    @property
    def n_affine(self) -> int:
        """Number of features that are not bumps."""
        return 1 + len(self.centre)

    def sums(self, now: Floats, following: Floats) -> RegressionSums:
        """Sums over steps, with moves in units of `unit`."""
        H, moves = self.features(now), self.space.wrap(following - now) / self.unit
        return RegressionSums(len(now), H.T @ H, H.T @ moves, moves.T @ moves)

    def refitted(self, now: Floats, following: Floats) -> OneStep:
        """A model with the same bumps for other steps."""
        weights = ridge(self.sums(now, following), self.n_affine)[1]
        return OneStep(self.space, self.centre, self.scale, self.unit, self.bumps, self.width, weights)

    def features(self, points: Floats, n_bumps: int | None = None) -> Floats:
        """1, the embedded coordinates and the bumps (or the first of them), (n, 1 + q + m)."""
        z = (embedded(points, self.space.period) - self.centre) / self.scale
        bumps = self.bumps if n_bumps is None else self.bumps[:n_bumps]
        H = np.empty((len(z), self.n_affine + len(bumps)))
        H[:, 0] = 1.0
        H[:, 1 : self.n_affine] = z
        # In place: this table is the largest of the fit.
        squares = z @ bumps.T
        squares *= -2.0
        squares += np.square(z).sum(axis=1)[:, None]
        squares += np.square(bumps).sum(axis=1)
        # Rounding may make a squared distance negative.
        np.maximum(squares, 0.0, out=squares)
        squares *= -0.5 / self.width**2
        np.exp(squares, out=H[:, self.n_affine :])
        return H

    def mean(self, points: Floats, features: Floats | None = None) -> Floats:
        """The mean of the next point from each point."""
        H = self.features(points) if features is None else features
        return np.asarray(points + H @ self.weights * self.unit)

    def mean_and_slope(self, points: Floats) -> tuple[Floats, Floats]:
        """`mean` and its derivative: entry (i, k, l) is that of coordinate k in coordinate l at point i."""
        d, a = points.shape[1], self.n_affine
        H = self.features(points)
        z, heights, bump_weights = H[:, 1:a], H[:, a:], self.weights[a:]
        # The derivative of a bump at b in direction l is (b_l - z_l) / width^2 times its height.
        drawn = heights @ (bump_weights[:, :, None] * self.bumps[:, None, :]).reshape(len(bump_weights), -1)
        slope = drawn.reshape(len(z), d, -1) - (heights @ bump_weights)[:, :, None] * z[:, None, :]
        slope = (self.weights[1:a].T + slope / self.width**2) / self.scale
        by_coordinate = np.einsum("nkq,nql->nkl", slope, _embedding_slope(points, self.space))
        return self.mean(points, H), np.asarray(np.eye(d) + self.unit[:, None] * by_coordinate)


def _embedding_slope(points: Floats, space: Space) -> Floats:
    """Derivative of the embedded coordinates, (n, q, d)."""
    which = space.periodic
    n, d = points.shape
    if not which.any():
        return np.broadcast_to(np.eye(d), (n, d, d))
    free, turning = np.flatnonzero(~which), np.flatnonzero(which)
    slope = np.zeros((n, len(free) + 2 * len(turning), d))
    slope[:, np.arange(len(free)), free] = 1.0
    for k, column in enumerate(turning):
        angle = points[:, column] * 2.0 * np.pi / space.period[column]
        slope[:, len(free) + k, column] = np.cos(angle)
        slope[:, len(free) + len(turning) + k, column] = -np.sin(angle)
    return slope


def ridge(sums: RegressionSums, n_affine: int) -> tuple[float, Floats]:
    """Score and weights of the best penalty, by generalised cross-validation; affine terms are not penalised."""
    n, K, r, moves = sums
    # A tiny penalty on affine terms only keeps the system solvable.
    penalty = np.concatenate([np.full(n_affine, 1e-9), np.ones(len(K) - n_affine)])
    best: tuple[float, Floats] | None = None
    for weight in _PENALTIES:
        inverse = np.linalg.inv(K + np.diag(weight * penalty + 1e-10 * n))
        weights = inverse @ r
        freedom = float(np.vdot(inverse, K))
        left = np.diag(moves) - 2.0 * (weights * r).sum(axis=0) + (weights * (K @ weights)).sum(axis=0)
        score = float(np.log(np.maximum(left / n, 1e-14)).mean())
        # Beyond the degrees of freedom the criterion has no meaning; the bound keeps it finite.
        score -= 2.0 * float(np.log(max(1.0 - _CHARGE * freedom / n, 1e-3)))
        if best is None or score < best[0]:
            best = (score, weights)
    assert best is not None
    return best


# --- Is a linear model with the same noise everywhere adequate?

_TESTED = 60  # bumps
_SCATTER = 24
_TAIL = 4.0  # standard deviations at which residuals are cut, so that single ones do not decide


def curvature(model: OneStep, now: Floats, following: Floats, unit_of: Ints) -> float:
    """Share of the residual of a linear model that bumps explain, in units that were not used for the fit.

    In the direction in which it is largest, so that it is invariant under linear maps. Near 0: the residual is noise,
    and a linear model is adequate; near 1: a curved and nearly deterministic system.
    """
    H = model.features(now, _TESTED)
    moves = model.space.wrap(following - now)
    # Every other unit: steps of one unit are dependent, so units are not divided.
    train = unit_of % 2 == 0
    if train.all() or not train.any():
        return 0.0
    left = [_held_out(F, moves, train) for F in (H[:, : model.n_affine], H)]
    linear, curved = (residuals.T @ residuals for residuals in left)
    # Scaled to the residuals, so that a deterministic process does not divide by 0.
    floor = (1e-9 * np.trace(linear) / len(linear) + np.finfo(float).tiny) * np.eye(len(linear))
    ratios = np.linalg.eigvals(np.linalg.solve(linear + floor, curved + floor))
    return float(np.clip(1.0 - ratios.real.min(), 0.0, 1.0))


def scatter_share(model: OneStep, now: Floats, residuals: Floats, unit_of: Ints) -> float:
    """Share of the squares and products of residuals that positions explain, in units not used for the fit."""
    d = residuals.shape[1]
    e = np.clip(residuals / (residuals.std(axis=0) + 1e-300), -_TAIL, _TAIL)
    i, j = pairs_of(d)
    products = e[:, i] * e[:, j]
    H = model.features(now, _SCATTER)
    z = H[:, 1 : min(model.n_affine, 7)]
    a, b = np.triu_indices(z.shape[1])
    H = np.column_stack([H, z[:, a] * z[:, b]])
    train = unit_of % 2 == 0
    if train.all() or not train.any():
        return 0.0
    products = products - products[train].mean(axis=0)
    left = _held_out(H, products, train)
    # About the mean of the training units, as a constant was fitted to them.
    spread = np.square(products[~train]).sum(axis=0)
    return float(max(0.0, (1.0 - np.square(left).sum(axis=0) / np.maximum(spread, 1e-300)).max()))


def pairs_of(d: int) -> tuple[Ints, Ints]:
    """Pairs of coordinates whose products are used: all, or squares only in more than six dimensions."""
    if d > 6:
        return np.arange(d), np.arange(d)
    i, j = np.triu_indices(d)
    return np.asarray(i, dtype=np.int64), np.asarray(j, dtype=np.int64)


def _held_out(features: Floats, targets: Floats, train: Bools) -> Floats:
    """Residuals of a ridge fit on some rows, in the other rows."""
    F = features[train]
    gram = F.T @ F + 1e-6 * len(F) * np.eye(F.shape[1])
    return np.asarray(targets[~train] - features[~train] @ np.linalg.solve(gram, F.T @ targets[train]))


def residual_covariance(residuals: Floats) -> Floats:
    """Covariance of residuals about 0, with a small floor so that it can be inverted."""
    S = residuals.T @ residuals / len(residuals)
    return np.asarray(S + (1e-12 * np.trace(S) / len(S) + 1e-300) * np.eye(len(S)))
