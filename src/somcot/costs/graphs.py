"""Costs between the nodes of two graphs: what is written at them, and how their surroundings look."""

from __future__ import annotations

from typing import Any

import numpy as np

from somcot.costs.tables import absolute, require_table
from somcot.plumbing.arrays import Floats
from somcot.plumbing.surroundings import histograms, n_successors
from somcot.plumbing.validation import check_count

_ROUNDS = 1000  # steps around a state: by then every walk has forgotten where it began, or never will


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
    require_table(len(a), len(b))
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
    require_table(len(sides[0]), len(sides[1]), copies=2)
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
