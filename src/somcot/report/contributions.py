"""What a distance is made of: which pairs of states, and which joint steps."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from somcot.costs import check_cost
from somcot.plumbing.arrays import Floats
from somcot.plumbing.validation import check_flag
from somcot.result import Result

__all__ = ["Contribution", "contributions"]


@dataclass(frozen=True)
class Contribution:
    """A pair of states, or a joint step between pairs, and its share of the distance: mass times cost."""

    x: Hashable
    y: Hashable
    amount: float
    mass: float
    cost: float
    next_x: Hashable | None = None
    next_y: Hashable | None = None


def contributions(result: Result, cost: ArrayLike, *, steps: bool = False, most: int = 12) -> list[Contribution]:
    """What the distance is made of, largest first: pairs of states, or joint steps when `steps` is set.

    Parameters
    ----------
    result : Result
    cost : array_like, shape (n_x, n_y)
        The cost the result was computed with.
    steps : bool
        Split each pair by where the two go next; needs ``result.plan``.
    most : int
        How many to return; all of them sum to the distance of the problem that was solved.

    Examples
    --------
    >>> import somcot
    >>> cost = [[0.0, 1.0], [1.0, 0.0]]
    >>> result = somcot.distance(somcot.random_walk(2, stay=0.9), somcot.random_walk(2, stay=0.8), cost, discount=0.5)
    >>> [(c.x, c.y, round(c.amount, 4)) for c in contributions(result, cost)]
    [(0, 1, 0.0655), (1, 0, 0.006)]
    """
    check_flag("steps", steps)
    table = check_cost(cost, *result.state_law.shape)
    x, y = result.states_x, result.states_y
    if steps:
        if result.plan is None:
            return []
        plan = result.plan
        share = plan.mass * table[plan.x, plan.y]
        return [
            Contribution(
                x[plan.x[e]], y[plan.y[e]], float(share[e]), float(plan.mass[e]), float(table[plan.x[e], plan.y[e]]),
                x[plan.next_x[e]], y[plan.next_y[e]],
            )
            for e in _largest(share, most)
        ]  # fmt: skip
    share = result.state_law * table
    places = [np.unravel_index(k, share.shape) for k in _largest(share.ravel(), most)]
    return [
        Contribution(x[i], y[j], float(share[i, j]), float(result.state_law[i, j]), float(table[i, j]))
        for i, j in places
    ]


def _largest(values: Floats, most: int) -> list[int]:
    order = np.argsort(-values, kind="stable")[:most]
    return [int(k) for k in order if values[k] > 0]
