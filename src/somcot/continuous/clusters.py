"""Where cells are put: k-means, and coordinates that tell most about the next state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from somcot.plumbing.arrays import Floats
from somcot.trajectories import Trajectories

__all__ = ["kmeans", "lag_coordinates"]

_MOST_POINTS = 20_000  # more do not move the centres by anything that matters
_ROUNDS = 30
_KEPT = 0.1  # singular values kept, relative to the largest


def kmeans(points: Floats, k: int, rng: np.random.Generator) -> Floats:
    """Centres of `k` clusters, or of fewer where there are fewer distinct points; sorted along their main axis.

    k-means++ starts, then Lloyd's rounds, on a sample of the points.

    Examples
    --------
    >>> kmeans(np.array([[0.0], [0.1], [5.0], [5.1]]), 2, np.random.default_rng(0)).round(2).tolist()
    [[0.05], [5.05]]
    """
    from scipy.spatial import cKDTree

    if len(points) > _MOST_POINTS:
        points = points[np.sort(rng.choice(len(points), _MOST_POINTS, replace=False))]
    centres = _spread_out(points, k, rng)
    previous: Floats | None = None
    for _ in range(_ROUNDS):
        nearest = cKDTree(centres).query(points)[1]
        size = np.bincount(nearest, minlength=len(centres))
        sums = np.stack([np.bincount(nearest, column, len(centres)) for column in points.T], axis=1)
        centres = np.where(size[:, None] > 0, sums / np.maximum(size, 1)[:, None], centres)
        if previous is not None and np.array_equal(previous, centres):
            break
        previous = centres
    return _sorted(centres)


def _spread_out(points: Floats, k: int, rng: np.random.Generator) -> Floats:
    """First centres: each with probability proportional to its squared distance to those before."""
    chosen = [points[int(rng.integers(len(points)))]]
    squares = ((points - chosen[0]) ** 2).sum(axis=1)
    while len(chosen) < k and squares.max() > 0.0:
        heap = np.cumsum(squares)
        chosen.append(
            points[int(np.searchsorted(heap, rng.random() * heap[-1], side="right").clip(0, len(points) - 1))]
        )
        squares = np.minimum(squares, ((points - chosen[-1]) ** 2).sum(axis=1))
    return np.stack(chosen)


def _sorted(centres: Floats) -> Floats:
    """Along the first principal axis, whose direction is that of its largest entry, so that it does not flip."""
    axis = np.linalg.svd(centres - centres.mean(axis=0), full_matrices=False)[2][0]
    axis = axis * (1.0 if axis[np.abs(axis).argmax()] > 0 else -1.0)
    return centres[np.argsort(centres @ axis, kind="stable")]


def lag_coordinates(recordings: Sequence[Trajectories]) -> Floats | None:
    """VAMP: directions in which states tell most about the next ones, times how much, (d, q).

    Singular vectors of the correlation between states and their successors, both made white; those below a tenth of
    the largest singular value are left out. None where states tell nothing, as those of a single step.
    """
    now = np.concatenate([data.now for data in recordings])
    following = np.concatenate([data.following for data in recordings])
    now, following = now - now.mean(axis=0), following - following.mean(axis=0)
    if not (now.any() and following.any()):
        return None
    white = _whitening(now)
    U, s, _ = np.linalg.svd(white @ (now.T @ following / len(now)) @ _whitening(following))
    if s[0] < 1e-9:
        return None
    q = int((s > _KEPT * s[0]).sum())
    return np.ascontiguousarray(white @ U[:, :q] * s[:q])


def _whitening(points: Floats) -> Floats:
    values, vectors = np.linalg.eigh(points.T @ points / len(points))
    white: Floats = (vectors / np.sqrt(np.maximum(values, 1e-10 * values.max()))) @ vectors.T
    return white
