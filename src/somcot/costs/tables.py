"""Costs that are plain arrays: of numbers, of vectors, of labels, of emissions; and what every cost must be."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from somcot.plumbing.arrays import Floats
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.memory import require
from somcot.plumbing.validation import check_labels, real_array


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
    x, y = real_array("a", a, 1), real_array("b", b, 1)
    require_table(len(x), len(y), copies=2)
    with np.errstate(over="ignore"):
        return finite(np.abs(np.subtract.outer(x, y)))


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
        return finite(np.sqrt(((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=2)))


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
    require_table(len(x), len(y))
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


def emissions(emissions_x: ArrayLike, emissions_y: ArrayLike, cost: ArrayLike) -> Floats:
    """Cost between hidden states: the least cost between what they emit, each law on its own.

    With it the distance of hidden chains is that of "hidden state first, then emission", an upper bound of the distance
    of the chains of (state, emission); `somcot.hidden` has that, and says why the two differ.

    Parameters
    ----------
    emissions_x, emissions_y : array_like, shape (n_x, m_x) and (n_y, m_y)
        ``emissions_x[i, o]`` is the probability that state i of X emits o.
    cost : array_like, shape (m_x, m_y)
        Between emissions.

    Returns
    -------
    ndarray, shape (n_x, n_y)

    Examples
    --------
    >>> emissions([[0.5, 0.5]], [[1.0, 0.0], [0.0, 1.0]], [[0, 1], [1, 0]])
    array([[0.5, 0.5]])
    """
    from somcot.hidden import emission_cost  # optimal transport, layers above this one

    return emission_cost(emissions_x, emissions_y, cost)


def aligned(cost: Any, states_x: Sequence[Hashable] | None, states_y: Sequence[Hashable] | None) -> ArrayLike:
    """A cost in the order of the states: the labels of a pandas or polars frame are honoured.

    A frame that numbers its rows and columns has no labels and is taken as it stands; so is anything else.

    Examples
    --------
    >>> import pandas
    >>> frame = pandas.DataFrame([[1, 0], [0, 1]], index=["b", "a"], columns=["a", "b"])
    >>> aligned(frame, ["a", "b"], ["a", "b"])
    array([[0, 1],
           [1, 0]])
    """
    if not hasattr(cost, "columns") or not hasattr(cost, "to_numpy"):
        return cost  # type: ignore[no-any-return]
    table = cost.to_numpy()
    rows = list(cost.index) if hasattr(cost, "index") else list(range(len(table)))  # a polars frame names no rows
    columns = list(cost.columns)
    if columns == [f"column_{k}" for k in range(len(columns))]:
        columns = list(range(len(columns)))
    down, across = _places("rows", rows, states_x), _places("columns", columns, states_y)
    return table[np.ix_(down, across)]  # type: ignore[no-any-return]


def _places(what: str, found: list[Hashable], states: Sequence[Hashable] | None) -> list[int]:
    """Where the states stand among the labels found; as they stand when those are just numbers."""
    place = {label: k for k, label in enumerate(found)}
    if states is not None and len(place) == len(found) == len(states) and all(state in place for state in states):
        return [place[state] for state in states]
    if found == list(range(len(found))):
        return list(range(len(found)))
    shown = "unknown" if states is None else ", ".join(map(repr, states[:5]))
    raise ValueError(
        f"cost: its {what} are called {', '.join(map(repr, found[:5]))}, the states are {shown}; give the frame the "
        "labels of the states, each once, or pass an array"
    )


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


def require_table(n_x: int, n_y: int, copies: int = 1) -> None:
    """Refuse a table that memory cannot hold before it is begun: asking for it may stall the machine."""
    require(8.0 * copies * n_x * n_y, f"a cost between {n_x:,} and {n_y:,} states", "merge states")


def finite(cost: Floats) -> Floats:
    """Refuse differences that overflowed."""
    if not np.isfinite(cost).all():
        raise ValueError("a, b: differences are too large for floating point; rescale")
    return cost
