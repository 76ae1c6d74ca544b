"""Ground costs c(x, y): how much it matters to be in state x of one chain and state y of the other.

Any (n_x, n_y) array of finite numbers is a cost. These functions build the usual ones.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
from numpy.typing import ArrayLike

from somcot.plumbing.arrays import Floats
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.validation import check_labels, real_array

__all__ = ["absolute", "check_cost", "euclidean", "labels"]


def absolute(a: ArrayLike, b: ArrayLike) -> Floats:
    """Absolute difference of one number per state, such as rewards.

    Parameters
    ----------
    a, b : array_like, shape (n_x,) and (n_y,)
        A number for each state of X and of Y.

    Returns
    -------
    ndarray, shape (n_x, n_y)
        ``|a[i] - b[j]|``.

    Examples
    --------
    >>> absolute([1, 0], [1, 0, -1])
    array([[0., 1., 2.],
           [1., 0., 1.]])
    """
    with np.errstate(over="ignore"):
        return _finite(np.abs(np.subtract.outer(real_array("a", a, 1), real_array("b", b, 1))))


def labels(states_x: Iterable[Hashable], states_y: Iterable[Hashable]) -> Floats:
    """0 where the labels are equal, 1 elsewhere.

    Labels that only look equal, such as 1 and "1", are different; a warning says so when there are no equal ones.

    Examples
    --------
    >>> labels(["home", "cart"], ["cart", "home", "paid"])
    array([[1., 0., 1.],
           [0., 1., 1.]])
    """
    x, y = check_labels("states_x", states_x), check_labels("states_y", states_y)
    column = {label: j for j, label in enumerate(y)}
    cost = np.ones((len(x), len(y)))
    for i, label in enumerate(x):
        if label in column:
            cost[i, column[label]] = 0.0
    alike = {str(label) for label in x} & {str(label) for label in y}
    if cost.all() and alike:
        text = min(alike)
        one, other = (next(label for label in side if str(label) == text) for side in (x, y))
        warn(
            f"states_x, states_y: no label is shared, but {one!r} and {other!r} look alike; give both the same type",
            DataWarning,
        )
    return cost


def euclidean(a: ArrayLike, b: ArrayLike) -> Floats:
    """Euclidean distance of feature vectors, one row per state.

    Examples
    --------
    >>> euclidean([[0, 0]], [[3, 4], [0, 1]])
    array([[5., 1.]])
    """
    x, y = real_array("a", a, 2), real_array("b", b, 2)
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"b: rows have {y.shape[1]} features, those of a have {x.shape[1]}; they must agree")
    with np.errstate(over="ignore"):
        return _finite(np.sqrt(((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=2)))


def _finite(cost: Floats) -> Floats:
    if not np.isfinite(cost).all():
        raise ValueError("a, b: differences are too large for floating point; rescale")
    return cost


def check_cost(cost: ArrayLike, n_x: int, n_y: int) -> Floats:
    """Check that `cost` is an (n_x, n_y) array of finite numbers whose range is finite too."""
    array = real_array("cost", cost, 2)
    if array.shape != (n_x, n_y):
        hint = "; transpose it" if array.shape == (n_y, n_x) else ""
        raise ValueError(f"cost: shape is {array.shape}, expected {(n_x, n_y)}, a row per state of x{hint}")
    with np.errstate(over="ignore"):
        spread = array.max() - array.min()
    if not np.isfinite(spread):
        raise ValueError(
            f"cost: entries run from {array.min():.3g} to {array.max():.3g}, too wide for floating point; rescale"
        )
    return array
