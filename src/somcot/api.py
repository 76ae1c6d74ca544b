"""The front door: one call from two processes to an answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from somcot.chains import MarkovChain
from somcot.problem import Problem
from somcot.result import Result
from somcot.validation import Floats

__all__ = ["distance", "metric"]

# Solvers of problems with known chains. They are imported when used: compiled code takes a moment to load.
_EXACT_METHODS = {
    "exact": "somcot.solvers.policy_iteration",
    "sinkhorn": "somcot.solvers.sinkhorn",
    "lp": "somcot.solvers.linear_program",
}


def distance(
    x: MarkovChain,
    y: MarkovChain,
    cost: ArrayLike,
    *,
    discount: float,
    method: str = "auto",
    rng: int | np.random.Generator | None = None,
    **options: Any,
) -> Result:
    """How far apart two Markov processes are: the bisimulation metric.

    The least value of ``(1 - discount) * E[sum_t discount^t * cost(X_t, Y_t)]`` over all ways to run the two processes
    side by side without looking into the other's future (bicausal couplings).

    Parameters
    ----------
    x, y : MarkovChain
        The two processes.
    cost : array_like, shape (n_x, n_y)
        What it costs to be in state i of x and state j of y; any finite numbers. `somcot.costs` has the usual ones.
    discount : float
        Strictly between 0 and 1; 1 / (1 - discount) is the number of steps that matter.
    method : {"auto", "exact", "sinkhorn", "lp"}
        "auto" is "exact" for two chains: policy iteration with exact transport. "lp" is an independent check for small
        chains, "sinkhorn" the entropic upper bound.
    rng : None, int or numpy.random.Generator
        Seed of methods that sample.
    **options
        Options of the method: see ``somcot.solvers``.

    Returns
    -------
    Result
        With the distance, a certified bracket, the encoder and decoder, the coupling and the potential.

    Examples
    --------
    Two walks, one drifting; only the walls can be told apart:

    >>> import somcot
    >>> reward = [1, 0, 0, 0, -1]
    >>> result = somcot.distance(
    ...     somcot.random_walk(5, 0.5), somcot.random_walk(5, 0.7), somcot.costs.absolute(reward, reward), discount=0.95
    ... )
    >>> round(result.distance, 6)
    0.369631
    >>> result.converged, result.bounds.high - result.bounds.low < 1e-9
    (True, True)
    """
    name = _method_for(method)
    problem = Problem(_chain("x", x), _chain("y", y), cost, discount)
    solve = import_module(_EXACT_METHODS[name]).solve
    if options:
        _check_options(name, solve, options)
    result: Result = solve(problem, **options)
    return result


def metric(x: MarkovChain, y: MarkovChain, cost: ArrayLike, *, discount: float, threads: int | None = None) -> Floats:
    """Exact distance from every pair of states, whatever the chains' own start.

    Parameters
    ----------
    x, y, cost, discount
        As for `distance`.
    threads : int, optional
        Threads to use, by default one per core.

    Returns
    -------
    ndarray, shape (n_x, n_y)
        Entry (i, j) is the distance between x started in state i and y started in state j.

    Examples
    --------
    >>> import somcot
    >>> sticky = somcot.MarkovChain([[0.9, 0.1], [0.1, 0.9]], states=["heads", "tails"])
    >>> fair = somcot.MarkovChain([[0.5, 0.5], [0.5, 0.5]], states=["heads", "tails"])
    >>> somcot.metric(sticky, fair, somcot.costs.labels(sticky.states, fair.states), discount=0.5).round(6)
    array([[0.2, 0.7],
           [0.7, 0.2]])
    """
    from somcot.solvers import policy_iteration

    return policy_iteration.metric(Problem(_chain("x", x), _chain("y", y), cost, discount), threads=threads)


def _method_for(method: str) -> str:
    if method == "auto":
        return "exact"
    if method not in _EXACT_METHODS:
        known = ", ".join(repr(name) for name in ("auto", *_EXACT_METHODS))
        raise ValueError(f"method: found {method!r}, expected one of {known}")
    return method


def _chain(name: str, process: Any) -> MarkovChain:
    if isinstance(process, MarkovChain):
        return process
    hint = "; wrap the matrix: MarkovChain(matrix)" if hasattr(process, "shape") or isinstance(process, list) else ""
    raise TypeError(f"{name}: found {type(process).__name__}, expected a MarkovChain{hint}")


def _check_options(method: str, solve: Callable[..., Any], options: dict[str, Any]) -> None:
    allowed = [p.name for p in inspect.signature(solve).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for name in options:
        if name not in allowed:
            raise TypeError(f"{name}: not an option of method {method!r}, which takes {', '.join(allowed)}")
