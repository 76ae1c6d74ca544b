"""A smooth model of one step, x' = x + f(x) + noise: affine terms and bumps, fitted by ridge regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from somcot.plumbing.arrays import Floats

__all__ = ["Moments", "OneStep"]

_MOST_BUMPS = 150
_WIDTHS = (0.6, 1.0, 1.8, 3.5)  # times the root of the dimension, in standard deviations
_PENALTIES = (1e-4, 1e-2, 0.1, 1.0, 10.0)
_CHARGE = 1.2  # of degrees of freedom, in generalised cross-validation: above 1 it seldom overfits
_TUNED = 3000  # steps that the width of the bumps is chosen on


class Moments(NamedTuple):
    """Sums over steps that a fit needs: of features with features, with moves, and of moves with moves."""

    n: int
    features: Floats
    mixed: Floats
    moves: Floats

    def plus(self, other: Moments) -> Moments:
        """Those of the steps of both."""
        n, features, mixed, moves = other
        return Moments(self.n + n, self.features + features, self.mixed + mixed, self.moves + moves)

    def left(self, weights: Floats) -> Floats:
        """Squares and products of what weights leave of the moves, (d, d), summed."""
        explained = weights.T @ self.mixed
        return np.asarray(self.moves - explained - explained.T + weights.T @ self.features @ weights)


@dataclass(frozen=True, eq=False)
class OneStep:
    """E[x' - x] as a function of x.

    Attributes
    ----------
    centre, scale : ndarray, shape (d,)
        Of the points, which are standardised.
    bumps : ndarray, shape (m, d)
        Where the bumps are, standardised.
    width : float
    weights : ndarray, shape (1 + d + m, d)
    freedom : float
        Degrees of freedom of the fit.
    """

    centre: Floats
    scale: Floats
    bumps: Floats
    width: float
    weights: Floats
    freedom: float

    @classmethod
    def fit(cls, now: Floats, following: Floats, rng: np.random.Generator) -> OneStep:
        """Choose width and penalty by generalised cross-validation, the width on some of the steps."""
        n, d = now.shape
        centre, scale = now.mean(axis=0), now.std(axis=0) + 1e-12
        m = int(min(_MOST_BUMPS, max(5, n // 15)))
        bumps = (now[rng.choice(n, m, replace=False)] - centre) / scale
        some = rng.choice(n, min(n, _TUNED), replace=False)
        blanks = [cls(centre, scale, bumps, width * np.sqrt(d), np.zeros((0, 0)), 0.0) for width in _WIDTHS]
        widths = [_ridge(blank.moments(now[some], following[some]), d)[0] for blank in blanks]
        return blanks[int(np.argmin(widths))].refitted(now, following)

    def moments(self, now: Floats, following: Floats) -> Moments:
        """Of steps, moves in units of `scale`."""
        H, moves = self.features(now), (following - now) / self.scale
        return Moments(len(now), H.T @ H, H.T @ moves, moves.T @ moves)

    def refitted(self, now: Floats, following: Floats) -> OneStep:
        """The same bumps, other steps."""
        return self.solved(self.moments(now, following))

    def solved(self, moments: Moments) -> OneStep:
        """The same bumps, weights by the moments of steps."""
        _, weights, freedom = _ridge(moments, len(self.centre))
        return OneStep(self.centre, self.scale, self.bumps, self.width, weights, freedom)

    def features(self, points: Floats) -> Floats:
        """1, the coordinates and the bumps, (n, 1 + d + m)."""
        u = (points - self.centre) / self.scale
        H = np.empty((len(u), 1 + u.shape[1] + len(self.bumps)))
        H[:, 0] = 1.0
        H[:, 1 : 1 + u.shape[1]] = u
        H[:, 1 + u.shape[1] :] = self._heights(u)
        return H

    def mean(self, points: Floats) -> Floats:
        """Where a step from each point leads on average."""
        return np.asarray(points + self.features(points) @ self.weights * self.scale)

    def mean_and_slope(self, points: Floats) -> tuple[Floats, Floats]:
        """The same, and its derivative: entry (i, k, l) is that of coordinate k by coordinate l at point i."""
        d = points.shape[1]
        H = self.features(points)
        u, heights, own = H[:, 1 : 1 + d], H[:, 1 + d :], self.weights[1 + d :]
        # d/du_l of a bump at b is (b_l - u_l) / width^2 times its height.
        drawn = heights @ (own[:, :, None] * self.bumps[:, None, :]).reshape(len(own), -1)
        slope = drawn.reshape(-1, d, d) - (heights @ own)[:, :, None] * u[:, None, :]
        slope = self.weights[1 : 1 + d].T + slope / self.width**2
        units = self.scale[:, None] / self.scale
        return np.asarray(points + H @ self.weights * self.scale), np.asarray(np.eye(d) + slope * units)

    def _heights(self, u: Floats) -> Floats:
        squares = u @ self.bumps.T
        squares *= -2.0
        squares += np.square(u).sum(axis=1)[:, None]
        squares += np.square(self.bumps).sum(axis=1)
        np.maximum(squares, 0.0, out=squares)
        squares *= -0.5 / self.width**2
        return np.asarray(np.exp(squares, out=squares))


def _ridge(moments: Moments, d: int) -> tuple[float, Floats, float]:
    """Score, weights and degrees of freedom of the best penalty."""
    n, K, r, moves = moments
    penalty = np.concatenate([np.full(d + 1, 1e-9), np.ones(len(K) - d - 1)])
    best: tuple[float, Floats, float] | None = None
    for weight in _PENALTIES:
        inverse = np.linalg.inv(K + np.diag(weight * penalty + 1e-10 * n))
        weights = inverse @ r
        freedom = float(np.vdot(inverse, K))
        left = np.diag(moves) - 2.0 * (weights * r).sum(axis=0) + (weights * (K @ weights)).sum(axis=0)
        score = float(np.log(np.maximum(left / n, 1e-14)).mean())
        score -= 2.0 * float(np.log(max(1.0 - _CHARGE * freedom / n, 1e-3)))
        if best is None or score < best[0]:
            best = (score, weights, freedom)
    assert best is not None
    return best
