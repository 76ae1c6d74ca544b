"""The distance and its derivatives again and again, as in training: no Result, many problems at once, warm starts.

`somcot.torch` and `somcot.jax` are doors to this; without either, `value_and_gradient` serves loops of one's own.
"""

from __future__ import annotations

from somcot.derivatives import Gradient, Margin, row_gradient
from somcot.gradients.slopes import distance_slopes, margins
from somcot.gradients.solution import WarmStart, solve
from somcot.gradients.stack import Stack
from somcot.problem import Problem

__all__ = ["WarmStart", "value_and_gradient"]


def value_and_gradient(
    problem: Problem, warm: WarmStart | None = None, *, threads: int | None = None
) -> tuple[float, Gradient]:
    """The exact distance and its derivatives, and nothing else.

    Parameters
    ----------
    problem : Problem
    warm : WarmStart, optional
        Where the last call ended; this one begins there and leaves its own end behind.
    threads : int, optional
        By default one per core; the result does not depend on it.

    Returns
    -------
    value : float
    gradient : Gradient
        Where the distance is the least cost, and so cannot be lower, derivatives in kernels, start laws and discount
        are 0.

    Examples
    --------
    >>> import somcot
    >>> problem = somcot.Problem(somcot.random_walk(5), somcot.random_walk(5, 0.7),
    ...                          somcot.costs.absolute([1, 0, 0, 0, -1], [1, 0, 0, 0, -1]), 0.95)
    >>> value, gradient = value_and_gradient(problem)
    >>> round(value, 6), round(gradient.discount, 3)
    (0.369631, 4.239)
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem: found {type(problem).__name__}, expected a Problem; for tensors see somcot.torch")
    stack = Stack.from_problem(problem)
    solved = solve(stack, warm, threads)
    found = distance_slopes(solved)
    mass, cost = margins(solved)
    gradient = Gradient(
        row_gradient(problem.x, found.x, 1.0),
        row_gradient(problem.y, found.y, 1.0),
        found.cost[0],
        problem.offset + problem.scale * solved.unit_metric[0],
        float(found.discount[0]),
        Margin(float(mass[0]), float(cost[0])),
    )
    return problem.to_user(float(solved.unit_value[0])), gradient
