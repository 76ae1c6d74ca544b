"""A smooth model of one step, x' = x + f(x) + noise: affine terms and bumps, fitted by ridge regression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from somcot.plumbing.arrays import Floats

__all__ = ["OneStep"]

_MOST_BUMPS = 150
_WIDTHS = (0.6, 1.0, 1.8, 3.5)  # times the root of the dimension, in standard deviations
_PENALTIES = (1e-4, 1e-2, 0.1, 1.0, 10.0)
_CHARGE = 1.2  # of degrees of freedom, in generalised cross-validation: above 1 it seldom overfits


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
        """Choose width and penalty by generalised cross-validation."""
        n, d = now.shape
        centre, scale = now.mean(axis=0), now.std(axis=0) + 1e-12
        u, moves = (now - centre) / scale, (following - now) / scale
        m = int(min(_MOST_BUMPS, max(5, n // 15)))
        bumps = u[rng.choice(n, m, replace=False)]
        best = None
        for width in _WIDTHS:
            blank = cls(centre, scale, bumps, width * np.sqrt(d), np.zeros((0, 0)), 0.0)
            H = blank.features(now)
            K, r = H.T @ H, H.T @ moves
            penalty = np.concatenate([np.full(d + 1, 1e-9), np.ones(m)])
            for weight in _PENALTIES:
                inverse = np.linalg.inv(K + np.diag(weight * penalty + 1e-10 * n))
                W = inverse @ r
                freedom = float(np.vdot(inverse, K))
                left = np.square(moves).sum(axis=0) - 2.0 * (W * r).sum(axis=0) + (W * (K @ W)).sum(axis=0)
                score = np.log(np.maximum(left / n, 1e-14)).mean()
                score -= 2.0 * np.log(max(1.0 - _CHARGE * freedom / n, 1e-3))
                if best is None or score < best[0]:
                    best = (score, cls(centre, scale, bumps, blank.width, W, freedom))
        assert best is not None
        return best[1]

    def features(self, points: Floats) -> Floats:
        """1, the coordinates and the bumps, (n, 1 + d + m)."""
        u = (points - self.centre) / self.scale
        squares = np.square(u).sum(axis=1)[:, None] + np.square(self.bumps).sum(axis=1) - 2.0 * u @ self.bumps.T
        return np.hstack([np.ones((len(u), 1)), u, np.exp(-np.maximum(squares, 0.0) / (2.0 * self.width**2))])

    def mean(self, points: Floats) -> Floats:
        """Where a step from each point leads on average."""
        return np.asarray(points + self.features(points) @ self.weights * self.scale)
