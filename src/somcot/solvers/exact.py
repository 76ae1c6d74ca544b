"""Exact distances between known chains, whatever the clock: chooses the solver."""

from __future__ import annotations

from somcot.core.pairs import PairChoice
from somcot.core.reduction import LEFT_OUT
from somcot.plumbing.arrays import Floats
from somcot.plumbing.linear_systems import CLOSE
from somcot.problem import Problem
from somcot.result import Result
from somcot.solvers import policy_iteration, relative, total

__all__ = ["metric", "solve"]


def solve(
    problem: Problem,
    *,
    pairs: PairChoice = "reachable",
    threads: int | None = None,
    max_sweeps: int = 200,
    tolerance: float = LEFT_OUT,
    reduce: bool = True,
) -> Result:
    """Solve exactly.

    Parameters
    ----------
    problem : Problem
    pairs : {"reachable", "all"}
        Work on the pairs the start can reach (enough for the distance) or on all of them (the whole potential).
    threads : int, optional
        Threads for the transport problems, by default one per core; the result does not depend on it.
    max_sweeps : int
        Rounds of improvement to allow; a handful is normal.
    tolerance : float
        What leaving out states that hardly occur may add to the bracket, relative to the range of the cost. Larger
        values leave out more and are faster on local chains; 0 keeps all states. At discounts up to 0.9995; close to 1
        every state may count.
    reduce : bool
        Solve the smallest problem with the same answer: rare states left out, states that behave alike merged, each
        pair once where a chain is compared with itself. At discounts up to 0.9995.
    """
    if problem.clock.name == "discount" and problem.discount <= CLOSE:
        return policy_iteration.solve(
            problem, pairs=pairs, threads=threads, max_sweeps=max_sweeps, tolerance=tolerance, reduce=reduce
        )
    chosen = total.solve if problem.clock.name == "total" else relative.solve
    return chosen(problem, pairs=pairs, threads=threads, max_sweeps=max_sweeps)


def metric(problem: Problem, *, threads: int | None = None, max_sweeps: int = 200) -> Floats:
    """Exact distance from every pair of states, (n_x, n_y)."""
    if problem.clock.name == "total":
        return total.metric(problem, threads=threads, max_sweeps=max_sweeps)
    chosen = relative.metric if problem.discount > CLOSE else policy_iteration.metric
    return chosen(problem, threads=threads, max_sweeps=max_sweeps)
