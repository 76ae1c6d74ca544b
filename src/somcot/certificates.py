"""Brackets that hold for certain: a lower and an upper bound of the distance from any potential.

Let T be the Bellman operator, (T V)(x, y) = c(x, y) + discount * OT(P(.|x), Q(.|y); V). If T V - V lies between l and h
on a set of pairs that no coupling leaves, the optimal V* lies between V + l / (1 - discount) and V + h / (1 - discount)
there, whatever V is. One exact sweep thus turns any guess into a certificate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from somcot.bellman.pairs import all_pairs
from somcot.bellman.sweep import Improvement, Sweep
from somcot.couplings import Coupling, residuals
from somcot.plumbing.arrays import Floats
from somcot.plumbing.validation import check_count, real_array
from somcot.problem import Problem
from somcot.result import Bounds

__all__ = ["Bracket", "bounds_from", "bracket", "lower_bound", "upper_bound"]

_EPS = float(np.finfo(np.float64).eps)


class Bracket(NamedTuple):
    """Bounds of the distance from every pair of states, each (n_x, n_y)."""

    low: Floats
    high: Floats


def bracket(problem: Problem, potential: ArrayLike, *, threads: int | None = None) -> Bracket:
    """Bound the distance from every pair of states, given any potential.

    Parameters
    ----------
    problem : Problem
    potential : array_like, shape (n_x, n_y)
        Any finite numbers; the closer to the optimal V, the tighter the bracket.

    Returns
    -------
    Bracket
        ``low <= (1 - discount) * V* <= high`` entry by entry.

    Examples
    --------
    >>> import somcot
    >>> walk = somcot.random_walk(4)
    >>> problem = Problem(walk, walk, somcot.costs.absolute([1, 0, 0, -1], [1, 0, 0, -1]), 0.9)
    >>> low, high = bracket(problem, problem.cost)
    >>> bool((low <= somcot.metric(walk, walk, problem.cost, discount=0.9)).all())
    True
    """
    V = real_array("potential", potential, 2)
    if V.shape != problem.shape:
        raise ValueError(f"potential: shape is {V.shape}, expected {problem.shape}")
    unit = (V - problem.offset / (1.0 - problem.discount)) / problem.scale
    pairs = all_pairs(problem.unit)
    found = Sweep(problem.unit, pairs, threads).improve(unit)
    least, most = _residual_range(problem.discount, unit.ravel(), problem.unit_cost.ravel(), found)
    scaled = (1.0 - problem.discount) * unit
    return Bracket(
        problem.offset + problem.scale * np.clip(scaled + least, 0.0, 1.0),
        problem.offset + problem.scale * np.clip(scaled + most, 0.0, 1.0),
    )


def lower_bound(problem: Problem, n_sweeps: int, *, threads: int | None = None) -> Floats:
    """Anytime lower bound: value iteration from 0 never exceeds the truth and rises with every sweep.

    Parameters
    ----------
    problem : Problem
    n_sweeps : int
        The gap is at most ``discount ** n_sweeps`` times the range of the cost.

    Returns
    -------
    ndarray, shape (n_x, n_y)
        Lower bounds of the distance from every pair of states.
    """
    pairs = all_pairs(problem.unit)
    sweep = Sweep(problem.unit, pairs, threads)
    V = np.zeros(problem.shape)
    for _ in range(check_count("n_sweeps", n_sweeps, at_least=0)):
        V = problem.unit_cost + problem.discount * sweep.improve(V).low[:-1].reshape(problem.shape)
    return problem.offset + problem.scale * np.maximum((1.0 - problem.discount) * V, 0.0)


def upper_bound(problem: Problem, coupling: Coupling) -> float:
    """Upper bound of the distance from a coupling that is nearly feasible, in units of the unit cost.

    Rounding the coupling to a feasible one moves at most (3 dC_X + 3 dC_Y + dF) / (1 - discount) of mass (the paper's
    rounding lemma), and no cost exceeds 1. What the start laws lack is charged in the same way.
    """
    nu_x, nu_y = problem.x.occupancy(problem.discount), problem.y.occupancy(problem.discount)
    flow, causal_x, causal_y = residuals(coupling, nu_x, nu_y, problem.discount)
    start = np.abs(coupling.start.sum(axis=1) - problem.x.initial).sum()
    start += np.abs(coupling.start.sum(axis=0) - problem.y.initial).sum()
    value = float((coupling.state_law() * problem.unit_cost).sum())
    return value + float(3.0 * causal_x + 3.0 * causal_y + flow) / (1.0 - problem.discount) + 2.0 * float(start)


def bounds_from(discount: float, V: Floats, cost: Floats, found: Improvement) -> Bounds:
    """Bounds of the distance between the start laws, in units of the unit cost.

    Parameters
    ----------
    discount : float
    V, cost : ndarray, shape (n_pairs,)
        Potential and unit cost on the pairs of the sweep.
    found : Improvement
        What the sweep found against V.
    """
    least, most = _residual_range(discount, V, cost, found)
    low = (1.0 - discount) * found.low[-1] + least
    high = (1.0 - discount) * found.high[-1] + most
    return Bounds(float(np.clip(low, 0.0, 1.0)), float(np.clip(high, 0.0, 1.0)))


def _residual_range(discount: float, V: Floats, cost: Floats, found: Improvement) -> tuple[float, float]:
    """Least and largest Bellman residual, widened by the rounding of the sweep itself."""
    rounding = 8.0 * _EPS * (1.0 + float(np.abs(V).max()))
    least = cost + discount * found.low[:-1] - V
    most = cost + discount * found.high[:-1] - V
    return float(least.min()) - rounding, float(most.max()) + rounding
