"""From the solution of a smaller problem to the Result for all states.

The distance and its bracket are there at once. The potential, the coupling and what follows from it (maps, residuals,
gradient) are computed when asked for: mapping them back can take longer than solving the smaller problem did.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from somcot.bellman.reduce import LEFT_OUT, Reduced, Side
from somcot.bellman.reduce.lift import embedded, lifted, potential_slots
from somcot.bellman.sweep import Sweep
from somcot.couplings import Coupling
from somcot.derivatives import Gradient, Margin, RowGradient, discount_slope, row_gradient
from somcot.makeup import Makeup, RowCounts
from somcot.plumbing.arrays import Floats
from somcot.plumbing.discounting import discounted_occupancy, reachable
from somcot.plumbing.lazy import Later
from somcot.problem import Problem
from somcot.result import Bounds, Result, Status
from somcot.solvers.assemble import Ending, Joint, assemble_coupling, assemble_value, joint

if TYPE_CHECKING:
    from somcot.chains import MarkovChain, Support
    from somcot.solvers.policy_iteration import Solution

__all__ = ["Solved", "coupling", "gradient", "result_of"]

_UNKNOWN = 1e4 * LEFT_OUT  # what leaving states out may change a potential by for it to be told, relative to the range


class Solved(NamedTuple):
    """A problem, the smaller one that was solved in its place, and the plans and the potential found."""

    problem: Problem
    small: Reduced
    sweep: Sweep
    V: Floats


def result_of(solved: Solved, solution: Solution, message: str, began: float) -> Result:
    """What was found as a Result."""
    problem, small = solved.problem, solved.small
    later = Later(partial(coupling, solved))
    bounds = Bounds(solution.bounds.low, min(solution.bounds.high + small.lost, 1.0))
    ending = Ending("exact", solution.status, message, solution.n_steps, began, solution.trace)
    more = {
        "gradient": Later(partial(_gradient, solved, later)),
        "makeup": Makeup(problem.cost, RowCounts.known(problem.x.support), RowCounts.known(problem.y.support)),
    }
    V = Later(partial(_potential, solved))
    if solution.status is not Status.CONVERGED:  # the coupling is what there is to show
        return assemble_coupling(problem, later(), V, bounds, ending, **more)
    found = Later(partial(_joint, problem, later))
    return assemble_value(problem, _unit_distance(solved, solution), found, V, bounds, ending, **more)


def _unit_distance(solved: Solved, solution: Solution) -> float:
    """What the potential says, or exactly 0 where the coupling never leaves the pairs of least cost."""
    if solution.bounds.low <= 0.0:
        pairs = solution.pairs
        seen = reachable(*solved.sweep.kernel())
        if not solved.small.problem.cost[pairs.x[seen], pairs.y[seen]].any():
            return 0.0
    return solution.trace["distance"][-1]


def _potential(solved: Solved) -> Floats:
    """The potential of all pairs, NaN where it is not known: not reached, left out, or next to what was left out."""
    small = solved.small
    table = small.spread(solved.sweep.pairs.table(solved.V, np.nan))
    if small.lost > 0.0:
        off = small.x.arrival[:, None] + small.y.arrival[None, :]  # (1 - discount) V may be this much too low
        table[off > max(_UNKNOWN, 1e4 * small.lost)] = np.nan
    return table


def coupling(solved: Solved) -> Coupling:
    """The occupancy coupling of all states."""
    problem, small = solved.problem, solved.small
    pairs, kernel, start = lifted(small, solved.sweep.unfolded(small.problem))
    law = discounted_occupancy(kernel, start, problem.discount)
    now = np.repeat(np.arange(len(pairs)), np.diff(kernel.indptr))
    mass = law[now] * kernel.data
    sides = (small.x, pairs.x), (small.y, pairs.y)
    (x, in_x), (y, in_y) = (embedded(side, states) for side, states in sides)
    inside = in_x & in_y
    keep = (mass > 0) & inside[now] & inside[kernel.indices]
    now, following = now[keep], kernel.indices[keep]
    table = np.zeros(problem.shape)
    table[x[inside], y[inside]] = start[inside]
    return Coupling(problem.shape, x[now], y[now], x[following], y[following], mass[keep], table)


def _joint(problem: Problem, later: Later[Coupling]) -> Joint:
    return joint(problem, later())


def _gradient(solved: Solved, later: Later[Coupling]) -> Gradient:
    return gradient(solved, later().state_law())


def gradient(solved: Solved, law: Floats) -> Gradient:
    """Derivatives of the distance at the solution, from the transport potentials of the last sweep.

    Parameters
    ----------
    solved : Solved
    law : ndarray, shape (n_x, n_y)
        Occupancy of pairs under the optimal coupling.
    """
    problem, small = solved.problem, solved.small
    sweep = solved.sweep.unfolded(small.problem)
    rest = 1.0 - problem.discount
    weight = np.zeros(small.cut.shape)
    weight[: len(small.x.kept), : len(small.y.kept)] = problem.discount * law[np.ix_(small.x.kept, small.y.kept)]
    slots = potential_slots(small, sweep, solved.sweep.pairs.table(solved.V), weight, rest)
    x, y = (
        _row_gradient(chain, side, support, slot, problem)
        for chain, side, support, slot in (
            (problem.x, small.x, small.cut.support_x, slots[0]),
            (problem.y, small.y, small.cut.support_y, slots[1]),
        )
    )
    visited = law > 0.0
    V = small.spread(solved.sweep.pairs.table(solved.V))[visited]
    unit_distance = float((law[visited] * problem.unit_cost[visited]).sum())
    return Gradient(
        x,
        y,
        law,
        problem.offset + problem.scale * (rest * _potential(solved)),
        problem.scale * discount_slope(law[visited], V, unit_distance, problem.discount),
        _margin(solved, sweep, law),
    )


def _margin(solved: Solved, sweep: Sweep, law: Floats) -> Margin:
    """How far the coupling is from another one; states that behave alike can always be exchanged."""
    small = solved.small
    if small.x.quotient is not None or small.y.quotient is not None:
        return Margin(0.0, 0.0)
    visited = np.zeros(small.cut.shape, dtype=np.bool_)
    visited[: len(small.x.kept), : len(small.y.kept)] = law[np.ix_(small.x.kept, small.y.kept)] > 0.0
    wanted = np.append(visited[sweep.pairs.x, sweep.pairs.y], True)
    mass, cost = (float(least.min()) for least in sweep.margins(solved.sweep.pairs.table(solved.V), wanted))
    return Margin(mass, solved.problem.scale * max(cost, 0.0))


def _row_gradient(chain: MarkovChain, side: Side, support: Support, slots: Floats, problem: Problem) -> RowGradient:
    """Derivatives along the rows of one chain; NaN where they hang on states left out, 0 in those states' own rows."""
    if side.cut is None:
        return row_gradient(chain, slots, problem.scale)
    n = len(side.kept)
    place = np.full(chain.n_states, n)
    place[side.kept] = np.arange(n)
    rows, columns = chain.support.rows, chain.support.indices
    known = np.append(place < n, True)[rows]
    whole = np.zeros(len(columns))
    where = support.locate(np.append(place, n + 1)[rows[known]], place[columns[known]])
    whole[known] = slots[where]
    found = row_gradient(chain, whole, problem.scale)
    # A potential is off by the chance of getting to a state left out, and weighs as much as its row is visited.
    visits = chain.state_occupancy(problem.discount)
    off = visits[rows[: len(found.values)]] * side.arrival[found.indices] / (1.0 - problem.discount)
    found.values[off > max(_UNKNOWN, 1e4 * side.lost)] = np.nan
    return found
