"""Exact distances between known chains, whatever the clock: chooses the solver."""

from __future__ import annotations

from somcot.bellman.pairs import PairChoice
from somcot.plumbing.anchoring import CLOSE
from somcot.plumbing.arrays import Floats
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
    """
    if problem.clock.name == "total":
        return total.solve(problem, pairs=pairs, threads=threads, max_sweeps=max_sweeps)
    chosen = relative.solve if problem.discount > CLOSE else policy_iteration.solve
    return chosen(problem, pairs=pairs, threads=threads, max_sweeps=max_sweeps)


def metric(problem: Problem, *, threads: int | None = None, max_sweeps: int = 200) -> Floats:
    """Exact distance from every pair of states, (n_x, n_y)."""
    if problem.clock.name == "total":
        return total.metric(problem, threads=threads, max_sweeps=max_sweeps)
    chosen = relative.metric if problem.discount > CLOSE else policy_iteration.metric
    return chosen(problem, threads=threads, max_sweeps=max_sweeps)
