"""Ground costs c(x, y): how much it matters to be in state x of one chain and state y of the other.

Any (n_x, n_y) array of finite numbers is a cost. These functions build the usual ones.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from somcot.plumbing.arrays import Floats
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.memory import require
from somcot.plumbing.surroundings import histograms, n_successors
from somcot.plumbing.text import brief_record
from somcot.plumbing.validation import check_count, check_flag, check_labels, real_array

__all__ = [
    "NAMED", "Cost", "FeatureCost", "FeatureMeans", "absolute", "aligned", "attribute", "between", "check_cost",
    "degree", "emissions", "euclidean", "from_features", "labels", "neighbourhood",
]  # fmt: skip

_ROUNDS = 1000  # steps around a state: by then every walk has forgotten where it began, or never will
Cost = ArrayLike | str | Callable[[Any, Any], ArrayLike]  # what `between` takes
# Costs with a name, and what they compare; those with a colon take something more.
NAMED = {
    "labels": "0 where the states are called the same, 1 elsewhere",
    "features": "difference of the mean rewards",
    "attribute:NAME": "difference of a number of the nodes; 0 or 1 where it is text",
    "degree": "difference of the numbers of neighbours",
    "neighbourhood[:ROUNDS]": "difference of the degrees met within two steps, or that many",
}


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
    _require_table(len(x), len(y), copies=2)
    with np.errstate(over="ignore"):
        return _finite(np.abs(np.subtract.outer(x, y)))


def _require_table(n_x: int, n_y: int, copies: int = 1) -> None:
    """Refuse a table that memory cannot hold before it is begun: asking for it may stall the machine."""
    require(8.0 * copies * n_x * n_y, f"a cost between {n_x:,} and {n_y:,} states", "merge states")


class FeatureMeans(NamedTuple):
    """A number per state of one recording, estimated as a mean.

    Attributes
    ----------
    states : tuple of hashable
    means, variances : ndarray, shape (n,)
        Of the single values recorded in each state.
    numbers : ndarray of int, shape (n,)
        How many there are; 0 where the value is known, or nothing is (NaN).
    """

    states: tuple[Hashable, ...]
    means: Floats
    variances: Floats
    numbers: NDArray[np.int64]

    def __repr__(self) -> str:
        return brief_record(self)

    @property
    def squared_errors(self) -> Floats:
        """Squared standard error of each mean."""
        return np.where(self.numbers > 0, self.variances / np.maximum(self.numbers, 1), 0.0)


@dataclass(frozen=True, eq=False)
class FeatureCost:
    """The cost ``|a_i - b_j|`` of features that were estimated, with what their noise follows from.

    Taken wherever a cost is; ``numpy.asarray`` makes it a plain array, which counts as known.

    Attributes
    ----------
    x, y : FeatureMeans
        As each side recorded them.
    shared : ndarray of int, shape (k, 2)
        Positions of the states whose features are pooled.
    """

    x: FeatureMeans
    y: FeatureMeans
    shared: NDArray[np.int64]

    def __repr__(self) -> str:
        n, m = self.shape
        return f"FeatureCost({n} x {m} states, {len(self.shared)} of them shared)"

    @cached_property
    def values(self) -> tuple[Floats, Floats]:
        """The features of both sides, those of shared states pooled."""
        known = [np.where(side.numbers > 0, side.means, 0.0) for side in (self.x, self.y)]
        a, b = self.pooled(known[0], known[1])
        i, j = self.shared.T
        n = self.x.numbers[i] + self.y.numbers[j]
        own = [side.means.copy() for side in (self.x, self.y)]
        own[0][i], own[1][j] = (np.where(n > 0, v, w) for v, w in ((a[i], self.x.means[i]), (b[j], self.y.means[j])))
        return own[0], own[1]

    @property
    def signed(self) -> Floats:
        """``a_i - b_j``."""
        return np.subtract.outer(*self.values)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of states (n_x, n_y)."""
        return len(self.x.means), len(self.y.means)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.abs(self.signed).astype(dtype or np.float64)

    def pooled(self, a: Floats, b: Floats) -> tuple[Floats, Floats]:
        """Numbers of both sides, in shared states replaced by their mean with the weights of the recordings."""
        a, b = a.copy(), b.copy()
        i, j = self.shared.T
        n, m = self.x.numbers[i], self.y.numbers[j]
        a[i] = b[j] = (n * a[i] + m * b[j]) / np.maximum(n + m, 1)
        return a, b

    def variance(self, law: Floats) -> float:
        """Variance that the noise of the features gives to sum law(x, y) |a_x - b_y|, to first order."""
        slopes = law * np.sign(self.signed)
        d_a, d_b = slopes.sum(axis=1), -slopes.sum(axis=0)
        i, j = self.shared.T
        n, m = self.x.numbers[i], self.y.numbers[j]
        both = (d_a[i] + d_b[j]) / np.maximum(n + m, 1)  # a shared state has one feature, on both sides
        d_a[i], d_b[j] = n * both, m * both
        return float(d_a**2 @ self.x.squared_errors + d_b**2 @ self.y.squared_errors)

    def disagreements(self) -> NDArray[np.int64]:
        """Shared states whose features differ by more than noise explains (1 in 100 over all states), worst first."""
        from scipy.special import ndtri

        i, j = self.shared.T
        recorded = (self.x.numbers[i] > 0) & (self.y.numbers[j] > 0)
        apart = np.where(recorded, np.abs(self.x.means[i] - self.y.means[j]), 0.0)
        noise = np.sqrt(self.x.squared_errors[i] + self.y.squared_errors[j])
        rounding = 1e-9 * (np.abs(self.x.means[i]) + np.abs(self.y.means[j]))
        limit = -ndtri(0.005 / max(len(i), 1)) * noise + rounding
        found = np.flatnonzero(apart > limit)
        return self.shared[found[np.argsort(-(apart - limit)[found], kind="stable")]]

    def noise(self, rng: np.random.Generator) -> Floats:
        """A draw of the error of `signed`: what features from another recording of the same size would differ by."""
        sides = (rng.normal(size=len(s.means)) * np.sqrt(s.squared_errors) for s in (self.x, self.y))
        return np.subtract.outer(*self.pooled(*sides))


def from_features(a: Any, b: Any, *, pool: bool = True) -> FeatureCost:
    """``|a_i - b_j|`` of the mean rewards of two recordings, which remembers that they are estimated.

    `somcot.distance` then adds the noise of the means to the standard error and lets the splits estimate them anew.
    ``costs.absolute(a.features, b.features)`` is a plain array and counts as known: its interval is too narrow.

    Parameters
    ----------
    a, b : Samples
        With rewards. Either side may have known numbers instead: a MarkovChain with features, or a sequence with one
        for each state.
    pool : bool, optional
        Whether a state that both recordings have is one state with one feature, estimated from both. With False, a
        difference of the features in the same state counts as a difference of the processes.

    Examples
    --------
    >>> import somcot
    >>> a = somcot.Samples.from_trajectories([["in", "out"]] * 2, rewards=[[1.0, 0.0], [2.0, 0.0]])
    >>> b = somcot.Samples.from_trajectories([["in", "out"]] * 2, rewards=[[2.0, 0.0], [3.0, 0.0]])
    >>> np.asarray(from_features(a, b))
    array([[0., 2.],
           [2., 0.]])
    >>> np.asarray(from_features(a, b, pool=False))
    array([[1. , 1.5],
           [2.5, 0. ]])
    """
    check_flag("pool", pool)
    x, y = _means("a", a), _means("b", b)
    place = {label: j for j, label in enumerate(y.states)} if pool else {}
    shared = [(i, place[label]) for i, label in enumerate(x.states) if label in place]
    cost = FeatureCost(x, y, np.array(shared, dtype=np.int64).reshape(-1, 2))
    for name, side, values in (("a", x, cost.values[0]), ("b", y, cost.values[1])):
        unknown = np.flatnonzero(np.isnan(values))
        if len(unknown):
            first = side.states[unknown[0]]
            raise ValueError(f"{name}: no reward was recorded in {len(unknown)} state(s), such as {first!r}; give it")
    with np.errstate(over="ignore"):
        _finite(np.abs(cost.signed))
    return cost


def _means(name: str, side: Any) -> FeatureMeans:
    found = getattr(side, "feature_means", None)
    if isinstance(found, FeatureMeans):
        return found
    known = getattr(side, "features", None)  # of a chain
    if known is None and hasattr(side, "states"):
        raise ValueError(f"{name}: has no rewards; pass rewards= (or the reward column) when it is read")
    values = real_array(name, side if known is None else known, 1)
    nobody = tuple(object() for _ in values)  # equal to no label: known numbers are not pooled
    return FeatureMeans(nobody, values, np.zeros(len(values)), np.zeros(len(values), dtype=np.int64))


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
    _require_table(len(x), len(y))
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


def between(cost: Cost, x: Any, y: Any) -> ArrayLike | FeatureCost:
    """The cost between the states of two processes: an array, a name, or a function of the two.

    Parameters
    ----------
    cost : array_like, str or function
        "labels", "features" (mean rewards), "attribute:NAME", "degree", "neighbourhood" or "neighbourhood:ROUNDS"; a
        function of x and y that returns an array, such as `degree`; or an array (the labels of a frame are honoured).
    x, y : MarkovChain, Samples or Stream

    Examples
    --------
    >>> from somcot import MarkovChain
    >>> chain = MarkovChain([[0, 1], [1, 0]], states=["a", "b"])
    >>> between("labels", chain, chain)
    array([[0., 1.],
           [1., 0.]])
    """
    if isinstance(cost, str):
        return _named(cost, x, y)
    found: Any = cost(x, y) if callable(cost) else cost
    if found is None:
        raise TypeError("cost: found None, expected an array, a name such as 'labels', or a function that returns one")
    return aligned(found, getattr(x, "states", None), getattr(y, "states", None))


def _named(text: str, x: Any, y: Any) -> ArrayLike | FeatureCost:
    name, _, rest = text.partition(":")
    if text == "labels":
        return _of_labels(x, y)
    if text == "features":
        return from_features(x, y)
    if name == "attribute" and rest:
        return attribute(x, y, rest)
    if text == "degree":
        return degree(x, y)
    if name == "neighbourhood" and (text == name or (rest.isascii() and rest.isdigit())):
        return neighbourhood(x, y) if text == name else neighbourhood(x, y, int(rest[:4000]))
    raise ValueError(f"cost: found {text!r}, expected an array, a function of x and y, or one of {', '.join(NAMED)}")


def _of_labels(x: Any, y: Any) -> Floats:
    states = [getattr(side, "states", None) for side in (x, y)]
    for name, found in zip("xy", states, strict=True):
        if found is None:
            raise ValueError(f"cost: {name} does not say what its states are called, so give the cost as an array")
    if all(_is_numbered_graph(side) for side in (x, y)):
        warn(
            "cost: both sides are graphs with numbered nodes, and 'labels' compares the numbers; unless equal numbers "
            "mean the same node, compare 'degree', 'neighbourhood' or an attribute of the nodes ('attribute:NAME')",
            DataWarning,
        )
    return labels(states[0], states[1])  # type: ignore[arg-type]


def _is_numbered_graph(side: Any) -> bool:
    """Whether a process is a walk on a graph (they alone have attributes) whose nodes are called 0, 1, 2, ..."""
    return getattr(side, "attributes", None) is not None and all(
        str(label).isascii() and str(label).isdigit() for label in side.states
    )


def attribute(x: Any, y: Any, name: str) -> Floats:
    """Difference of an attribute of the states, such as those of the nodes of a graph.

    Absolute difference of numbers; 0 where texts (or other labels) are equal and 1 elsewhere.

    Parameters
    ----------
    x, y : MarkovChain
        With ``attributes``, as `readers.from_graph` and `readers.read_graph` set them.
    name : str
        Which one.

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
    numbers = [all(isinstance(value, (int, float, np.number)) for value in side) for side in (a, b)]
    if all(numbers):
        return absolute(a, b)
    if any(numbers):
        text, number = (b, a) if numbers[0] else (a, b)
        found = next(value for value in text if not isinstance(value, (int, float, np.number)))
        raise ValueError(
            f"attribute: {name!r} is a number on one side, such as {number[0]!r}, and not on the other: {found!r}; "
            "write it in the same way"
        )
    return np.array([[float(v != w) for w in b] for v in a])


def _attribute(side: str, process: Any, name: str) -> tuple[Any, ...]:
    given = getattr(process, "attributes", None)
    if given is None:
        raise ValueError(f"{side}: has no attributes; read a graph, or make a chain: MarkovChain(..., attributes=...)")
    if name not in given:
        known = ", ".join(map(repr, given)) or "none"
        raise ValueError(f"{side}: there is no attribute {name!r}; the nodes have {known}")
    missing = [state for state, value in zip(process.states, given[name], strict=True) if value is None]
    if missing:
        shown = ", ".join(map(repr, missing[:5])) + (", ..." if len(missing) > 5 else "")
        raise ValueError(f"{side}: attribute {name!r} is missing in {len(missing)} state(s): {shown}; fill it in")
    found: tuple[Any, ...] = given[name]
    return found


def degree(x: Any, y: Any) -> Floats:
    """Difference of the numbers of other states that can follow: the degrees of a graph without attributes.

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


def neighbourhood(x: Any, y: Any, rounds: int = 2, *, attribute: str | None = None) -> Floats:
    """How differently the surroundings of two states look: labels met on the way, as in Weisfeiler and Lehman's test.

    For t = 0, ..., `rounds` the law of the label met t steps after a state is compared by total variation; the cost is
    the mean over t, between 0 and 1. Labels are the degrees (`degree`), so nodes need neither names nor attributes.

    Parameters
    ----------
    x, y : MarkovChain
    rounds : int
        How many steps to look around.
    attribute : str, optional
        The attribute whose values are the labels, instead of the degree.

    Examples
    --------
    The ends of a path of three are alike, the middle differs in every round:

    >>> from somcot import MarkovChain
    >>> path = MarkovChain([[0, 1, 0], [0.5, 0, 0.5], [0, 1, 0]])
    >>> neighbourhood(path, path)
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """
    from scipy.spatial.distance import cdist

    rounds = check_count("rounds", rounds, at_least=0, at_most=_ROUNDS)
    supports = _support("x", x), _support("y", y)
    if attribute is None:
        sides = [n_successors(support).tolist() for support in supports]
    else:
        sides = [list(_attribute(side, process, attribute)) for side, process in (("x", x), ("y", y))]
    known = {label: k for k, label in enumerate(dict.fromkeys([*sides[0], *sides[1]]))}
    a, b = (histograms(support, side, known, rounds) for support, side in zip(supports, sides, strict=True))
    _require_table(len(sides[0]), len(sides[1]), copies=2)
    total = np.zeros((len(sides[0]), len(sides[1])))
    for v, w in zip(a, b, strict=True):
        total += cdist(v, w, "cityblock")
    return np.minimum(total / (2.0 * (rounds + 1)), 1.0)


def _support(side: str, process: Any) -> Any:
    found = getattr(process, "support", None)
    if found is None:
        kind = type(process).__name__
        raise ValueError(f"{side}: found {kind}, but only known chains have neighbours; read a graph, or use .chain()")
    return found


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
