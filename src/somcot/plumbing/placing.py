"""Where labels of points go, so that they cover neither each other nor the points."""

from __future__ import annotations

import numpy as np

from somcot.plumbing.arrays import Floats

__all__ = ["place_labels"]

# Where a label stands beside its point, as readers expect it: above to the right first.
_SIDES = np.array([(1, 1), (1, 0), (1, -1), (-1, 1), (-1, 0), (-1, -1), (0, 1), (0, -1)], dtype=np.float64)
_RINGS = 6  # how many lines of text a label may move away


def place_labels(points: Floats, anchors: list[int], widths: Floats, height: float, frame: Floats) -> Floats:
    """Lower left corners of labels, one after the other, each at the nearest place where it covers least.

    Parameters
    ----------
    points : array, shape (n, 2)
        All points, in units of the paper; a dot of half a label's height is kept free around each.
    anchors : list of int, length k
        Which point each label belongs to.
    widths : array, shape (k,)
    height : float
        Of every label, in the same units.
    frame : array, shape (4,)
        Left, bottom, right and top of the paper; what hangs over counts as covered.

    Returns
    -------
    array, shape (k, 2)

    Examples
    --------
    Two points side by side; the label of the second goes where that of the first is not.

    >>> points, paper = np.array([[0.0, 0.0], [5.0, 0.0]]), np.array([-60.0, -60.0, 60.0, 60.0])
    >>> place_labels(points, [0, 1], np.array([40.0, 40.0]), 10.0, paper).tolist()
    [[5.0, 5.0], [10.0, -5.0]]
    """
    half = 0.25 * height
    taken = [*np.hstack([points - half, points + half])]  # boxes: left, bottom, right, top
    corners = np.empty((len(anchors), 2))
    for k, (anchor, width) in enumerate(zip(anchors, widths.tolist(), strict=True)):
        size = np.array([width, height])
        reach = height * np.repeat(0.5 + np.arange(_RINGS), len(_SIDES))
        sides = np.tile(_SIDES, (_RINGS, 1))
        places = points[anchor] + reach[:, None] * sides + 0.5 * (sides - 1.0) * size
        boxes = np.hstack([places, places + size])
        covered = _overlap(boxes, np.array(taken)) + size.prod() - _overlap(boxes, frame[None])
        # the first of the best, rounding aside: the nearest, on the side readers expect
        corners[k] = places[np.argmin(np.round(covered / height**2, 6))]
        taken.append(np.concatenate([corners[k], corners[k] + size]))
    return corners


def _overlap(boxes: Floats, others: Floats) -> Floats:
    """Area that each box shares with the others, shape (n,)."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    area: Floats = np.clip(high - low, 0.0, None).prod(axis=2).sum(axis=1)
    return area
