"""Is a linear one-step model adequate? How much of what it leaves unexplained a curved one explains."""

from __future__ import annotations

import numpy as np

from somcot.continuous.clusters import kmeans
from somcot.plumbing.arrays import Floats
from somcot.trajectories import Trajectories

__all__ = ["curvature"]

_BUMPS = 60
_MOST_STEPS = 20_000
_RIDGE = 1e-4


def curvature(data: Trajectories, rng: np.random.Generator) -> float:
    """Share, between 0 and 1, of the residual of the linear model that bumps explain in steps not used for the fit.

    In the direction in which it is largest, so that no change of coordinates matters. Near 0: the rest is noise, and a
    linear model has all there is to know; near 1: a curved and nearly deterministic system.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> noise = Trajectories.from_arrays(rng.normal(size=(100, 21, 1)))
    >>> bent = Trajectories.from_arrays([np.sin(2.0 ** np.arange(9) * t) ** 2 for t in rng.uniform(0, 6, 300)])
    >>> curvature(noise, rng) < 0.05, curvature(bent, rng) > 0.5
    (True, True)
    """
    now, following = data.now, data.following
    if len(now) > _MOST_STEPS:
        kept = np.sort(rng.choice(len(now), _MOST_STEPS, replace=False))
        now, following = now[kept], following[kept]
    spread = now.std(axis=0)
    if not spread.any():  # it stays where it is, which is linear
        return 0.0
    now = (now - now.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    bumps = _bumps(now, rng)
    straight = np.column_stack([now, np.ones(len(now))])
    train = np.arange(len(now)) % 2 == 0
    left = [_residuals(features, following, train) for features in (straight, np.column_stack([straight, bumps]))]
    linear, curved = (residuals.T @ residuals for residuals in left)
    floor = 1e-9 * np.trace(linear) / len(linear) + np.finfo(float).tiny
    ratios = np.linalg.eigvals(
        np.linalg.solve(linear + floor * np.eye(len(linear)), curved + floor * np.eye(len(linear)))
    )
    return float(np.clip(1.0 - ratios.real.min(), 0.0, 1.0))


def _bumps(points: Floats, rng: np.random.Generator) -> Floats:
    """Gaussian bumps at cluster centres, as wide as it is to the next centres."""
    centres = kmeans(points[:: max(1, len(points) // 5000)], min(_BUMPS, max(2, len(points) // 20)), rng)
    squares = ((centres[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
    near = np.sort(squares, axis=1)[:, 1 : 2 + points.shape[1]]
    width = 2.0 * float(np.median(near)) or 1.0
    gaps = (points**2).sum(axis=1)[:, None] - 2.0 * points @ centres.T + (centres**2).sum(axis=1)
    return np.asarray(np.exp(-gaps / (2.0 * width)))


def _residuals(features: Floats, targets: Floats, train: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Floats:
    """Of a ridge fit on some rows, in the others."""
    F = features[train]
    gram = F.T @ F + _RIDGE * len(F) * np.eye(F.shape[1]) * 1e-2
    return np.asarray(targets[~train] - features[~train] @ np.linalg.solve(gram, F.T @ targets[train]))
