"""Exact distances between known chains for any clock: selects the solver."""

from __future__ import annotations

from somcot.core.pairs import PairChoice
from somcot.core.reduction import LEFT_OUT
from somcot.plumbing.arrays import Floats
from somcot.plumbing.linear_systems import CLOSE
from somcot.problem import Problem
from somcot.result import Result
from somcot.solvers import policy_iteration, relative, total
from somcot.solvers.result_builder import metric_of

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
        Solve on the pairs reachable from the initial pairs (enough for the distance), or on all pairs (full potential).
    threads : int, optional
        Threads for the transport problems, by default one per core; the result does not depend on it.
    max_sweeps : int
        Maximum number of improvement sweeps; a handful is normal.
    tolerance : float
        Maximum increase of the bracket by removing rare states, relative to the range of the cost. Larger values
        remove more states and are faster on local chains; 0 keeps all states. Applies at discounts up to 0.9995; closer
        to 1 every state may matter.
    reduce : bool
        Solve the smallest problem with the same solution: rare states removed, equivalent states merged, each
        pair once if a chain is compared with itself. Applies at discounts up to 0.9995.

    Examples
    --------
    >>> import somcot
    >>> walk, drift = somcot.random_walk(4), somcot.random_walk(4, 0.7)
    >>> round(solve(Problem(walk, drift, somcot.costs.absolute([1, 0, 0, -1], [1, 0, 0, -1]), 0.9)).distance, 6)
    0.207796
    """
    # Up to this discount rounding of V leaves enough digits; closer to 1, values relative to references are needed.
    if problem.clock.name == "discount" and problem.discount <= CLOSE:
        return policy_iteration.solve(
            problem, pairs=pairs, threads=threads, max_sweeps=max_sweeps, tolerance=tolerance, reduce=reduce
        )
    # Close to 1 and at 1, potentials are relative to reference pairs.
    chosen = total.solve if problem.clock.name == "total" else relative.solve
    return chosen(problem, pairs=pairs, threads=threads, max_sweeps=max_sweeps)


def metric(problem: Problem, *, threads: int | None = None, max_sweeps: int = 200, charge: float = 0.0) -> Floats:
    """Exact distance from every pair of states, (n_x, n_y).

    Warns if a bracket, widened by `charge` on either side, is wider than promised, relative to the range of the cost.
    """
    if problem.clock.name == "total":
        return metric_of(*total.metric(problem, threads=threads, max_sweeps=max_sweeps), "largest total")
    # As in `solve`.
    chosen = relative.metric if problem.discount > CLOSE else policy_iteration.metric
    table, width = chosen(problem, threads=threads, max_sweeps=max_sweeps)
    return metric_of(table, width + 2.0 * charge)
