"""Ground costs c(x, y) of being in state x of one chain and state y of the other.

Any (n_x, n_y) array of finite numbers is a cost. These functions build common ones: `tables` from numbers, vectors,
labels and the nodes of graphs, `features` from estimated mean rewards.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from somcot.chains import MarkovChain
from somcot.costs.features import FeatureCost, FeatureMeans, from_features
from somcot.costs.tables import (
    absolute,
    aligned,
    attribute,
    check_cost,
    degree,
    emissions,
    euclidean,
    labels,
    neighbourhood,
)
from somcot.plumbing.arrays import Floats
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note

__all__ = [
    "NAMED", "Cost", "FeatureCost", "FeatureMeans", "absolute", "aligned", "attribute", "between",
    "check_cost", "degree", "emissions", "euclidean", "from_features", "labels", "neighbourhood",
]  # fmt: skip

Cost = ArrayLike | str | Callable[[Any, Any], ArrayLike]  # accepted by `between`
# Costs with a name and their meaning; those with a colon take an argument.
NAMED = {
    "labels": "0 where the labels are equal, 1 elsewhere",
    "features": "difference of the mean rewards",
    "attribute:NAME": "difference of a numeric node attribute; 0 or 1 for text",
    "degree": "difference of the numbers of neighbours",
    "neighbourhood[:ROUNDS]": "difference of the degrees met within two steps, or within ROUNDS",
}


def between(cost: Cost, x: object, y: object) -> ArrayLike | FeatureCost:
    """The cost between the states of two processes, from an array, a name or a function of the processes.

    Parameters
    ----------
    cost : array_like, str or function
        "labels", "features" (mean rewards), "attribute:NAME", "degree", "neighbourhood" or "neighbourhood:ROUNDS"
        ("neighborhood" is the same). Of these, "degree" bears noise in the edges best; a "neighbourhood" with a few
        other edges is nearly as far away as an unrelated one. Or a function of x and y that returns an array, such as
        `degree`; or an array (data frames are aligned by label).
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
    if isinstance(cost, (list, tuple)) and cost and all(isinstance(name, str) for name in cost):
        raise TypeError(
            f"cost: found {len(cost)} names, expected one; add costs up in a function, such as "
            "lambda x, y: costs.attribute(x, y, 'a') + costs.degree(x, y)"
        )
    table: object = _called(cost, x, y) if callable(cost) else cost
    if table is None:
        raise TypeError("cost: found None, expected an array, a name such as 'labels', or a function that returns one")
    # Streams of unknown states have no labels; then the array is taken as it is.
    return aligned(table, getattr(x, "states", None), getattr(y, "states", None))


def _called(cost: Callable[[Any, Any], object], x: object, y: object) -> Any:
    try:
        return cost(x, y)
    except Exception as error:
        error.add_note(
            "cost: the function is called once, with the two processes, and returns an array; for a function f of two "
            "labels pass lambda x, y: [[f(a, b) for b in y.states] for a in x.states]"
        )
        raise


def _named(text: str, x: object, y: object) -> ArrayLike | FeatureCost:
    name, _, rest = text.partition(":")
    if text == "labels":
        return _of_labels(x, y)
    if text == "features":
        return from_features(x, y)
    if name == "attribute" and rest:
        return attribute(x, y, rest)
    if text == "degree":
        return degree(x, y)
    if name in ("neighbourhood", "neighborhood") and (text == name or (rest.isascii() and rest.isdigit())):
        # A number of thousands of digits is refused later, by its value.
        return neighbourhood(x, y) if text == name else neighbourhood(x, y, int(rest[:4000]))
    hint = "; mean rewards are 'features'" if name in ("reward", "rewards") else ""
    if name in ("neighbourhood", "neighborhood") and rest.isidentifier():
        hint = f"; for an attribute pass lambda x, y: costs.neighbourhood(x, y, attribute={rest!r})"
    if text in (getattr(x, "attributes", None) or {}):
        hint = f"; the attribute of that name is 'attribute:{text}'"
    raise ValueError(Note("unknown-cost", "cost", cost=text, known=", ".join(NAMED), hint=hint))


def _of_labels(x: Any, y: Any) -> Floats:
    states = [getattr(side, "states", None) for side in (x, y)]
    for name, side_states in zip("xy", states, strict=True):
        if side_states is None:
            raise ValueError(
                f"cost: {name} has no state labels; pass the cost as an array, or pass states= with the labels of a "
                "stream"
            )
    _note_ends(x, y)
    models = all("cluster" in (getattr(side, "attributes", None) or {}) for side in (x, y))  # of `from_model`
    if models or _are_clusterings(x, y):
        warn(Note("numbers-as-states", "cost", n_x=len(x.states), n_y=len(y.states)), DataWarning)
        return labels(x.states, y.states)
    # Only graphs and fitted models have attributes.
    graphs = all(
        getattr(side, "attributes", None) is not None and not getattr(side, "is_fitted", False) for side in (x, y)
    )
    if graphs and _is_numbered(x) and _is_numbered(y):
        warn(Note("numbered-nodes", "cost"), DataWarning)
    elif graphs and set(x.states).isdisjoint(y.states):
        warn(Note("no-shared-nodes", "cost"), DataWarning)
        return np.ones((len(x.states), len(y.states)))
    return labels(states[0], states[1])  # type: ignore[arg-type]


def _are_clusterings(x: Any, y: Any) -> bool:
    """Whether the numbers of frames' clusters differ by more than rare clusters that one recording may lack."""
    numbered = all(isinstance(label, int) for side in (x, y) for label in side.states)
    frames = all(getattr(side, "lag", None) is not None for side in (x, y))
    return frames and numbered and len({*x.states} ^ {*y.states}) > 0.1 * len({*x.states} | {*y.states})


def _is_numbered(graph: Any) -> bool:
    """Whether the nodes are labelled 0, 1, 2, ..."""
    return all(str(label).isascii() and str(label).isdigit() for label in graph.states)


def _note_ends(x: Any, y: Any) -> None:
    """Warn if one side ends in the state that readers of environments add, and the other in states of its own."""
    ends = [_ends(side) for side in (x, y)]
    for name, side, own, other in (("x", x, *ends), ("y", y, *ends[::-1])):
        if own and "terminated" in other and "terminated" not in side.states:
            warn(Note("other-ends", name, state=repr(own[0])), DataWarning)


def _ends(process: Any) -> list[Hashable]:
    """The states known to be absorbing."""
    if isinstance(process, MarkovChain):
        final = process.transition.diagonal() == 1.0
    else:
        final = getattr(process, "terminal", np.zeros(0, np.bool_))
    return [process.states[i] for i in np.flatnonzero(final)]
