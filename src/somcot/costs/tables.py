"""Costs from numbers, vectors, labels and emissions, and between the nodes of two graphs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_count, check_labels, check_text, real_array
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.memory import require
from somcot.plumbing.notes import Note
from somcot.plumbing.records import view
from somcot.plumbing.text import listing

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "histograms",
    "n_successors",
]


# --- Costs from numbers, vectors, labels and emissions; validation.


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
    # The difference and its absolute value exist at the same time.
    require_table(len(x), len(y), copies=2)
    with np.errstate(over="ignore"):
        return finite(np.abs(np.subtract.outer(x, y)))


def euclidean(a: ArrayLike, b: ArrayLike) -> Floats:
    """Euclidean distance between feature vectors, one row (or one number) per state.

    Examples
    --------
    >>> euclidean([[0, 0]], [[3, 4], [0, 1]])
    array([[5., 1.]])
    """
    x, y = (
        real_array(name, np.reshape(values, (-1, 1)) if np.ndim(values) == 1 else values, 2)
        for name, values in (("a", a), ("b", b))
    )
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"b: rows have {y.shape[1]} features, those of a have {x.shape[1]}; they must agree")
    # Squares may overflow, which `finite` reports.
    with np.errstate(over="ignore"):
        return finite(np.sqrt(((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=2)))


def labels(states_x: Iterable[Hashable], states_y: Iterable[Hashable]) -> Floats:
    """0 where the labels are equal, 1 elsewhere.

    Labels that only look equal, such as 1 and "1", are different; a warning is issued if no labels are equal.

    Examples
    --------
    >>> labels(["home", "cart"], ["cart", "home", "paid"])
    array([[1., 0., 1.],
           [0., 1., 1.]])
    """
    x, y = check_labels("states_x", states_x), check_labels("states_y", states_y)
    # Labels are distinct, which `check_labels` has ensured.
    column = {label: j for j, label in enumerate(y)}
    require_table(len(x), len(y))
    cost = np.ones((len(x), len(y)))
    for i, label in enumerate(x):
        if label in column:
            cost[i, column[label]] = 0.0
    # Only if nothing matches: with shared labels, a few look-alikes are usually meant.
    alike = {str(label) for label in x} & {str(label) for label in y}
    if cost.all() and alike:
        text = min(alike)
        one, other = (next(label for label in side if str(label) == text) for side in (x, y))
        warn(Note("labels-look-alike", "states_x, states_y", one=repr(one), other=repr(other)), DataWarning)
    elif cost.all():
        shown = {"states_x": listing(x, 4), "states_y": listing(y, 4)}
        warn(Note("no-shared-labels", "cost", x="x", y="y", **shown), DataWarning)
    return cost


def emissions(emissions_x: ArrayLike, emissions_y: ArrayLike, cost: ArrayLike) -> Floats:
    """Cost between hidden states: the optimal transport cost between their emission distributions.

    The resulting distance between hidden chains couples hidden states first and emissions second. It is an upper bound
    of the distance between the chains of (state, emission); see `somcot.hidden` for the latter and the difference.

    Parameters
    ----------
    emissions_x, emissions_y : array_like, shape (n_x, m_x) and (n_y, m_y)
        ``emissions_x[i, o]`` is the probability that state i of X emits o.
    cost : array_like, shape (m_x, m_y)
        Cost between emissions.

    Returns
    -------
    ndarray, shape (n_x, n_y)

    Examples
    --------
    >>> emissions([[0.5, 0.5]], [[1.0, 0.0], [0.0, 1.0]], [[0, 1], [1, 0]])
    array([[0.5, 0.5]])
    """
    table: Floats = view("costs.emissions")(emissions_x, emissions_y, cost)
    return table


def aligned(cost: Any, states_x: Sequence[Hashable] | None, states_y: Sequence[Hashable] | None) -> ArrayLike:
    """Reorder a labelled cost, a pandas or polars frame, to match the states.

    A frame whose rows and columns are merely numbered, or any other array, is returned in its own order.

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
    rows = list(cost.index) if hasattr(cost, "index") else list(range(len(table)))  # polars frames have no row labels
    columns = list(cost.columns)
    if columns == [f"column_{k}" for k in range(len(columns))]:  # polars' default names
        columns = list(range(len(columns)))
    down, across = _places("rows", rows, states_x), _places("columns", columns, states_y)
    return table[np.ix_(down, across)]  # type: ignore[no-any-return]


def _places(what: str, known: list[Hashable], states: Sequence[Hashable] | None) -> list[int]:
    """Positions of the states among the labels of a frame; the identity if the labels are mere numbers."""
    place = {label: k for k, label in enumerate(known)}
    # Each label once: with repeated labels the order would be ambiguous.
    # Labels of further states are ignored: a recording need not contain all of them.
    if states is not None and len(place) == len(known) and all(state in place for state in states):
        return [place[state] for state in states]
    if known == list(range(len(known))):
        return list(range(len(known)))
    shown = "unknown" if states is None else ", ".join(map(repr, states[:5]))
    raise ValueError(
        f"cost: its {what} are called {', '.join(map(repr, known[:5]))}, the states are {shown}; give the frame the "
        "labels of the states, each once, or pass an array"
    )


def check_cost(cost: ArrayLike, n_x: int, n_y: int) -> Floats:
    """Check that `cost` is an (n_x, n_y) array of finite numbers whose range is finite too.

    Examples
    --------
    >>> check_cost([[0, 1], [1, 0]], 2, 2)
    array([[0., 1.],
           [1., 0.]])
    """
    array = real_array("cost", cost, 2)
    n_x, n_y = check_count("n_x", n_x, at_least=0), check_count("n_y", n_y, at_least=0)
    if array.shape != (n_x, n_y):
        hint = "; transpose it" if array.shape == (n_y, n_x) else ""
        if array.shape[0] >= n_x and array.shape[1] >= n_y:
            hint = (
                "; states that a recording or model lacks are left out: pass a DataFrame with labels, or a row for "
                "each of x.states and a column for each of y.states"
            )
        raise ValueError(f"cost: shape is {array.shape}, expected {(n_x, n_y)}, a row per state of x{hint}")
    with np.errstate(over="ignore"):
        spread = array.max() - array.min()
    if not np.isfinite(spread):
        raise ValueError(
            f"cost: entries run from {array.min():.3g} to {array.max():.3g}, too wide for floating point; rescale"
        )
    return array


def require_table(n_x: int, n_y: int, copies: int = 1) -> None:
    """Refuse a table that does not fit into memory before allocating it, which might stall the machine."""
    require(8.0 * copies * n_x * n_y, f"a cost between {n_x:,} and {n_y:,} states", "merge states")


def finite(cost: Floats) -> Floats:
    """Refuse differences that overflowed."""
    if not np.isfinite(cost).all():
        raise ValueError("a, b: differences are too large for floating point; rescale")
    return cost


# --- Structure around the states of a chain: numbers of successors and nearby labels.


def n_successors(support: Any) -> NDArray[np.int64]:
    """Number of other states that can follow each state; the initial distribution, the last row, is ignored.

    Examples
    --------
    >>> from somcot import MarkovChain
    >>> n_successors(MarkovChain([[0, 0.5, 0.5], [0, 1, 0], [1, 0, 0]]).support).tolist()
    [2, 0, 1]
    """
    n = len(support.indptr) - 2
    rows, columns = support.rows[: support.indptr[-2]], support.indices[: support.indptr[-2]]
    # Steps to itself do not count: self-loops are often added to graphs.
    return np.bincount(rows[rows != columns], minlength=n)


def histograms(support: object, labels: Sequence[Hashable], known: dict[Hashable, int], rounds: int) -> list[Floats]:
    """Distribution of the label after 0, 1, ..., `rounds` steps from each state, (n, number of known labels) each."""
    kernel = _kernel(support)
    first = np.zeros((len(labels), len(known)))
    first[np.arange(len(labels)), [known[label] for label in labels]] = 1.0
    distributions = [first]
    for _ in range(rounds):  # sparse times dense does not use BLAS: the same bits on every machine
        # Labels after t + 1 steps from x: one more step, then t.
        distributions.append(np.asarray(kernel @ distributions[-1]))
    return distributions


def _kernel(support: Any) -> csr_array:
    from scipy.sparse import csr_array

    n, end = len(support.indptr) - 2, support.indptr[-2]
    return csr_array((support.probabilities[:end], support.indices[:end], support.indptr[:-1]), shape=(n, n))


# --- Costs between the nodes of two graphs: attributes, degrees and neighbourhoods.

_ROUNDS = 1000  # maximal number of steps; walks that mix have done so by then


def attribute(x: object, y: object, name: str) -> Floats:
    """Difference of an attribute of the states, such as those of the nodes of a graph.

    Absolute difference of numbers, Euclidean distance of vectors (lists, tuples or arrays of numbers); for text (or
    other labels), 0 if equal and 1 otherwise.

    Parameters
    ----------
    x, y : MarkovChain
        With ``attributes``, as `readers.from_graph` and `readers.read_graph` set them.
    name : str
        Name of the attribute.

    Examples
    --------
    >>> from somcot import MarkovChain
    >>> chain = MarkovChain([[0, 1], [1, 0]], attributes={"size": [1.0, 3.5], "kind": ["hub", "leaf"]})
    >>> attribute(chain, chain, "size")
    array([[0. , 2.5],
           [2.5, 0. ]])
    >>> attribute(chain, chain, "kind")
    array([[0., 1.],
           [1., 0.]])
    """
    a, b = (_attribute(side, process, name) for side, process in (("x", x), ("y", y)))
    # Types once, instead of a check of every value for each kind.
    kinds = [set(map(type, side)) for side in (a, b)]
    if any(issubclass(kind, (list, tuple, np.ndarray)) for kind in kinds[0] | kinds[1]) and any(
        _is_vector(value) for value in (*a, *b)
    ):
        return euclidean(*_vectors(name, (x, a), (y, b)))
    numbers = [all(issubclass(kind, (int, float, np.number)) for kind in side) for side in kinds]
    if all(numbers):
        return absolute(a, b)
    if any(numbers):
        text, number = (b, a) if numbers[0] else (a, b)
        odd = next(value for value in text if not isinstance(value, (int, float, np.number)))
        raise ValueError(
            f"attribute: {name!r} is a number on one side, such as {number[0]!r}, and not on the other: {odd!r}; "
            "write it in the same way"
        )
    require_table(len(a), len(b))
    code: dict[Any, int] = {}
    try:
        # Codes make the comparison of all pairs one array operation.
        codes = [np.array([code.setdefault(value, len(code)) for value in side], dtype=np.int64) for side in (a, b)]
    except TypeError:
        odd = next(value for value in (*a, *b) if not isinstance(value, Hashable))
        raise _unusable(name, odd) from None
    apart: Floats = (codes[0][:, None] != codes[1][None, :]).astype(np.float64)
    return apart


def _is_vector(value: object) -> bool:
    """Whether an attribute is a vector: a list or an array, or a tuple of numbers, as positions are in networkx."""
    if isinstance(value, tuple):
        return bool(value) and all(isinstance(number, (int, float, np.number)) for number in value)
    return isinstance(value, (list, np.ndarray)) and np.ndim(value) > 0


def _vectors(name: str, *sides: tuple[Any, tuple[Any, ...]]) -> list[Floats]:
    """The attribute as one row per state; all must be vectors of the same length."""
    tables, length = [], None
    for process, values in sides:
        rows = []
        for state, value in zip(process.states, values, strict=True):
            try:
                row = np.asarray(value, dtype=np.float64)
            except (TypeError, ValueError):
                row = np.empty((0, 0))
            if not _is_vector(value) or row.ndim != 1 or not np.isfinite(row).all():
                raise _unusable(name, value, f" of state {state!r}")
            length = len(row) if length is None else length
            if len(row) != length:
                raise ValueError(
                    f"attribute: {name!r} of state {state!r} has {len(row)} numbers, that of others {length}; give "
                    "every state a vector of the same length"
                )
            rows.append(row)
        tables.append(np.array(rows))
    return tables


def _unusable(name: str, value: object, where: str = "") -> ValueError:
    return ValueError(
        f"attribute: {name!r}{where} is {value!r:.60}, expected numbers, text, or vectors of finite numbers; write it "
        "in one of these ways"
    )


def _attribute(side: str, process: Any, name: str) -> tuple[Any, ...]:
    check_text("attribute", name)
    attributes = getattr(process, "attributes", None)
    if attributes is None:
        raise ValueError(Note("no-attributes", side))
    if name not in attributes:
        known = ", ".join(map(repr, attributes)) or "none"
        raise ValueError(Note("unknown-attribute", side, name=name, known=known))
    missing = [state for state, value in zip(process.states, attributes[name], strict=True) if value is None]
    if missing:
        shown = ", ".join(map(repr, missing[:5])) + (", ..." if len(missing) > 5 else "")
        raise ValueError(Note("attribute-missing", side, name=name, n=len(missing), states=shown))
    values: tuple[Any, ...] = attributes[name]
    return values


def degree(x: object, y: object) -> Floats:
    """Difference of the numbers of possible successors: the degrees of the nodes of a graph.

    Examples
    --------
    >>> from somcot import MarkovChain
    >>> path, ring = MarkovChain([[0, 1, 0], [0.5, 0, 0.5], [0, 1, 0]]), MarkovChain([[0, 0.5, 0.5]] * 2 + [[1, 0, 0]])
    >>> degree(path, ring)
    array([[1., 0., 0.],
           [0., 1., 1.],
           [1., 0., 0.]])
    """
    return absolute(n_successors(_support("x", x)), n_successors(_support("y", y)))


def neighbourhood(x: object, y: object, rounds: int = 2, *, attribute: str | None = None) -> Floats:
    """Difference of the neighbourhoods of two states, in the spirit of the Weisfeiler-Lehman test.

    For t = 0, ..., `rounds` the distributions of the label t steps after each state are compared by total variation;
    the cost is the mean over t, between 0 and 1. Labels are degrees (`degree`), so nodes need no names or attributes.

    Parameters
    ----------
    x, y : MarkovChain
    rounds : int
        Number of steps.
    attribute : str, optional
        The attribute whose values are the labels, instead of the degree.

    Examples
    --------
    The two ends of a path with three nodes are alike, and the middle differs from them in every round:

    >>> from somcot import MarkovChain
    >>> path = MarkovChain([[0, 1, 0], [0.5, 0, 0.5], [0, 1, 0]])
    >>> neighbourhood(path, path)
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """
    from scipy.spatial.distance import cdist

    rounds = check_count("rounds", rounds, at_least=0, at_most=_ROUNDS)
    a, b = (_met(side, process, rounds, attribute) for side, process in (("x", x), ("y", y)))
    # One order for both directions: the cost from y to x is then the transpose, to the last bit.
    # By `repr`, as labels of different types have no order.
    known = {label: k for k, label in enumerate(sorted({*a[0], *b[0]}, key=repr))}
    places = [[known[label] for label in labels] for labels, _ in (a, b)]
    n_x, n_y = len(a[1][0]), len(b[1][0])
    require_table(n_x, n_y, copies=2)
    total = np.zeros((n_x, n_y))
    wide_x, wide_y = np.zeros((n_x, len(known))), np.zeros((n_y, len(known)))
    for v, w in zip(a[1], b[1], strict=True):
        wide_x[:, places[0]], wide_y[:, places[1]] = v, w
        total += cdist(wide_x, wide_y, "cityblock")
    # Total variation is half of the city-block distance; clipped for rounding.
    return np.minimum(total / (2.0 * (rounds + 1)), 1.0)


# Histograms of chains that are alive, by (rounds, attribute): a matrix compares each chain with all the others.
_MET: WeakKeyDictionary[Any, dict[tuple[int, str | None], tuple[list[Hashable], list[Floats]]]] = WeakKeyDictionary()


def _met(side: str, process: Any, rounds: int, attribute: str | None) -> tuple[list[Hashable], list[Floats]]:
    """The labels of a process in order of occurrence, and their `histograms`."""
    support = _support(side, process)
    # Weak keys: the cache must not keep chains alive.
    of_process = _MET.setdefault(process, {})
    if (rounds, attribute) not in of_process:
        each = n_successors(support).tolist() if attribute is None else list(_attribute(side, process, attribute))
        try:
            known = {label: k for k, label in enumerate(dict.fromkeys(each))}
        except TypeError:
            odd = next(value for value in each if not isinstance(value, Hashable))
            raise ValueError(
                f"attribute: {attribute!r} is {odd!r:.60}, expected labels that can be equal, such as text; compare "
                "vectors by costs.attribute"
            ) from None
        of_process[rounds, attribute] = list(known), histograms(support, each, known, rounds)
    return of_process[rounds, attribute]


def _support(side: str, process: object) -> Any:
    support = getattr(process, "support", None)
    if support is None:
        kind = type(process).__name__
        raise ValueError(Note("no-neighbours", side, kind=kind))
    return support
