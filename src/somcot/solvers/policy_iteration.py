"""From the solution of a smaller problem to the Result for all states.

A policy chooses, for every pair (x, y), a coupling of P(.|x) and Q(.|y). Improvement solves one exact transport problem
per pair (`bellman.transport`), evaluation one sparse linear system (`discounting`). Three to six rounds end at the
optimum, and the last sweep proves it.

The distance and its bracket are there at once. The potential, the coupling and what follows from it (maps, residuals,
gradient) are computed when asked for: mapping them back can take longer than solving the smaller problem did.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from somcot.certificates import bounds_from, rounding
from somcot.contributions import ContributionInputs, RowCounts
from somcot.core.lift import embedded, lifted, potential_slots
from somcot.core.pairs import PairChoice, Pairs, choose
from somcot.core.reduction import LEFT_OUT, Reduced, ReducedSide, unreduced
from somcot.core.reduction import reduce as reduced
from somcot.core.sweep import Improvement, Sweep
from somcot.couplings import Coupling
from somcot.derivatives import Gradient, Margin, RowGradient, discount_slope, row_gradient
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_count, check_flag, check_number
from somcot.plumbing.linear_systems import discounted_occupancy, discounted_value, reachable, relative_value
from somcot.plumbing.records import Later
from somcot.problem import Problem, UnitProblem
from somcot.result import Bounds, Result, Status
from somcot.solvers.result_builder import Ending, Joint, assemble_coupling, assemble_value, joint

if TYPE_CHECKING:
    from somcot.chains import MarkovChain, Support

__all__ = [
    "Solution",
    "Solved",
    "coupling",
    "gradient",
    "iterate",
    "metric",
    "result_of",
    "solve",
    "solve_in_full",
]


# --- Exact distances between known chains: Howard's policy iteration over state pairs.

_EPS = float(np.finfo(np.float64).eps)
TARGET = 1e-9  # width of the bracket, relative to the range of the cost, that counts as converged
WIDEST = 1e-4  # ... and the most it may be where rounding allows no less
_SMALL_SUPPORTS = 30.0  # cells of the transport problem of a pair, on average, up to which evaluation is the dear part
_LEFT = 1e-2  # ... and the part of the Bellman residual that early evaluations leave
_FEW = 1e-4  # share of the plans that changed, up to which the next evaluation is in full
_MANY = 10_000  # pairs from which on that is worth a thought
_SAMPLE = 61  # one pair in so many tells whether the first policy is the last
_POLISHES = 8  # rounds in centred potentials, where the plain ones end above the target


@dataclass(eq=False)
class Solution:
    """Where policy iteration stands: potential on the pairs, its last sweep and the record of the rounds.

    Everything is in units of the unit cost.
    """

    pairs: Pairs
    sweep: Sweep
    V: Floats
    found: Improvement | None = None
    bounds: Bounds = field(default_factory=lambda: Bounds(0.0, 1.0))
    status: Status = Status.STEP_LIMIT
    trace: dict[str, list[float]] = field(default_factory=lambda: {"step": [], "distance": [], "residual": []})

    @property
    def n_steps(self) -> int:
        """Improvement sweeps done."""
        return len(self.trace["step"])

    @property
    def width(self) -> float:
        """Width of the bracket so far."""
        return self.bounds.high - self.bounds.low

    def distance(self, discount: float) -> float:
        """The distance as of the last sweep: an upper bound up to its bracket."""
        assert self.found is not None
        return (1.0 - discount) * float(self.found.value[-1])


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
        values leave out more and are faster on local chains; 0 keeps all states.
    reduce : bool
        Solve the smallest problem with the same answer: rare states left out, states that behave alike merged, each
        pair once where a chain is compared with itself.
    """
    began = time.perf_counter()
    check_flag("reduce", reduce)
    if not 0.0 <= check_number("tolerance", tolerance) < 1.0:
        raise ValueError(f"tolerance: found {tolerance}, expected a share of the cost's range, at least 0 and below 1")
    small = unreduced(problem.unit)
    if reduce:
        small = reduced(problem.unit, tolerance if pairs == "reachable" else 0.0)
    solution = iterate(small.problem, small.pairs(pairs), threads=threads, max_sweeps=max_sweeps)
    return result_of(Solved(problem, small, solution.sweep, solution.V), solution, _message(solution, small), began)


def solve_in_full(
    problem: Problem, *, pairs: PairChoice = "reachable", threads: int | None = None, max_sweeps: int = 200
) -> tuple[Solution, Result]:
    """Solve exactly on all states, keeping the bases and potentials for whoever goes on from there."""
    began = time.perf_counter()
    solution = iterate(problem.unit, choose(problem.unit, pairs), threads=threads, max_sweeps=max_sweeps)
    solved = Solved(problem, unreduced(problem.unit), solution.sweep, solution.V)
    return solution, result_of(solved, solution, _message(solution), began)


def metric(problem: Problem, *, threads: int | None = None, max_sweeps: int = 200, reduce: bool = True) -> Floats:
    """Exact distance from every pair of states, (n_x, n_y)."""
    small = reduced(problem.unit) if reduce else unreduced(problem.unit)
    solution = iterate(small.problem, small.pairs("all"), threads=threads, max_sweeps=max_sweeps)
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    V = small.spread(solution.pairs.table(solution.V))
    table = problem.offset + problem.scale * (1.0 - problem.discount) * V
    return np.clip(table, problem.cost.min(), problem.most)


def iterate(
    problem: UnitProblem,
    pairs: Pairs,
    *,
    threads: int | None = None,
    max_sweeps: int = 200,
    guess: Floats | None = None,
    tolerance: float = 0.0,
    hints: Sweep | None = None,
) -> Solution:
    """Improve and evaluate until the Bellman residual is at rounding level, or at most `tolerance`.

    With a tolerance nothing is proved: no bracket is kept, and potentials are a thousandth of it accurate. `guess` is a
    potential to start from and `hints` a sweep of it on the same entries, whose prices help the first one.

    Policies that will change anyway are not evaluated to rounding: a hundredth of the Bellman residual is left. This
    takes a sweep or two more, so it pays where a sweep costs less than an evaluation, which it does on small supports.
    """
    cost = np.ascontiguousarray(problem.cost[pairs.x, pairs.y])
    V = cost.copy() if guess is None else guess[pairs.x, pairs.y]
    solution = Solution(pairs, Sweep(problem, pairs, threads, hints), V)
    table = np.zeros(problem.shape)
    rough = tolerance > 0.0
    thrifty = not rough and len(cost) >= _MANY and solution.sweep.cells <= _SMALL_SUPPORTS * len(cost)
    accuracy = max(_EPS, 1e-3 * tolerance)
    left = 0.0
    try:
        for step in range(check_count("max_sweeps", max_sweeps)):
            pairs.put(table, solution.V)
            found = solution.sweep.improve(table)
            solution.found = found
            residual = (_residual if rough else _record)(problem, solution, cost, solution.V, found)
            settled = step > 0 and residual <= max(tolerance, 64.0 * _EPS * (1.0 + float(solution.V.max())))
            if settled or (step > 0 and left == 0.0 and found.changed == 0):
                solution.status = Status.CONVERGED if rough else _polish(problem, solution, cost)
                break
            kernel, _ = solution.sweep.kernel()
            # Where few plans changed, or only what was left out of the last evaluation shows, this policy will do.
            early = thrifty and (step == 0 or (found.changed > _FEW * len(cost) and residual > 4.0 * left))
            left = _LEFT * residual if early else 0.0
            goal = max(accuracy, _relative(left, problem.discount, solution.V, residual))
            solution.V = discounted_value(kernel, cost, problem.discount, solution.V, goal)
            if step == 0 and left > 0.0 and _looks_solved(problem, solution, cost, left):
                thrifty, left = False, 0.0
                solution.V = discounted_value(kernel, cost, problem.discount, solution.V, accuracy)
            del kernel  # before the next one is made: on wide supports the two would be half of all memory
    except KeyboardInterrupt:
        if solution.found is None:
            raise
        solution.status = Status.INTERRUPTED
    return solution


def _relative(left: float, discount: float, V: Floats, residual: float) -> float:
    """A residual to leave, relative to the value to come as `discounted_value` has it."""
    largest = float(V.max()) + residual / (1.0 - discount)
    return left / (4.0 * largest) if largest > 0.0 else 0.0


def _looks_solved(problem: UnitProblem, solution: Solution, cost: Floats, left: float) -> bool:
    """Whether a sample of the pairs shows no more than the residual that was left: the first policy may be the last.

    It is on walks, where a sweep against a rough potential would only take plans that are as good for worse ones.
    """
    pairs = solution.pairs
    sample = Pairs(pairs.x[::_SAMPLE], pairs.y[::_SAMPLE], pairs.index, pairs.folded)
    found = Sweep(problem, sample, solution.sweep.threads).improve(pairs.table(solution.V))
    return _residual(problem, solution, cost[::_SAMPLE], solution.V[::_SAMPLE], found) <= 4.0 * left


def _polish(problem: UnitProblem, solution: Solution, cost: Floats) -> Status:
    """Go on in potentials without their constant part where rounding keeps the bracket above the target.

    V is about distance / (1 - discount), and so is its rounding. With V = W + gain / (1 - discount), W solves the same
    equation for the cost less the gain and is only as large as the spread of V. Where that is large too (processes that
    never meet), rounding sets the target.
    """
    if solution.width <= TARGET:
        return Status.CONVERGED
    W, gain, table, pairs = solution.V, 0.0, np.zeros(problem.shape), solution.pairs
    found = solution.found
    assert found is not None
    for _ in range(_POLISHES):
        if solution.width <= TARGET:
            break
        W, more = relative_value(solution.sweep.kernel()[0], cost - gain, problem.discount, W)
        gain += more
        pairs.put(table, W)
        found = solution.sweep.improve(table)
        _record(problem, solution, cost, W, found, gain)
        level = gain / (1.0 - problem.discount)
        solution.V = W + level
        solution.found = Improvement(found.low + level, found.high + level, found.value + level, found.changed)
    # Of the sweep itself: `solution.found` is at the level of V, whose rounding may swallow the difference.
    allowed = 8.0 * rounding(W) + 4.0 * float((found.high - found.low).max())
    return Status.CONVERGED if solution.width <= max(TARGET, min(WIDEST, allowed)) else Status.ROUNDING


def _record(
    problem: UnitProblem, solution: Solution, cost: Floats, V: Floats, found: Improvement, gain: float = 0.0
) -> float:
    """Take note of a sweep against V; returns the largest Bellman residual, the gain apart."""
    latest = bounds_from(problem.discount, V, cost, found, problem.slack)
    # Every sweep gives a valid bracket, so the tightest ends seen so far hold.
    solution.bounds = Bounds(max(solution.bounds.low, latest.low), min(solution.bounds.high, latest.high))
    residual = _residual(problem, solution, cost, V, found, gain)
    solution.trace["step"].append(solution.n_steps + 1)
    solution.trace["distance"].append((1.0 - problem.discount) * float(found.value[-1]) + gain)
    solution.trace["residual"].append(residual)
    return residual


def _residual(
    problem: UnitProblem, _: Solution, cost: Floats, V: Floats, found: Improvement, gain: float = 0.0
) -> float:
    return float(np.abs(cost - gain + problem.discount * found.value[:-1] - V).max())


def _message(solution: Solution, small: Reduced | None = None) -> str:
    words = "" if small is None else small.words()
    return _ending(solution) + (f" Before that, {words}." if words else "")


def _ending(solution: Solution) -> str:
    proof = f"the bracket is {solution.width:.1g} of the cost range wide after {solution.n_steps} sweeps"
    return {
        Status.CONVERGED: f"Solved exactly: {proof}.",
        Status.INTERRUPTED: f"Interrupted: {proof}; run again to finish.",
        Status.ROUNDING: f"Solved as far as floating point allows: {proof}; a smaller discount gives more digits.",
        Status.STEP_LIMIT: f"Stopped before the optimum was proved: {proof}; raise max_sweeps.",
    }[solution.status]


# --- From the solution of a smaller problem to the Result for all states.

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
        "makeup": ContributionInputs(
            problem.cost, RowCounts.known(problem.x.support), RowCounts.known(problem.y.support)
        ),
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


def _row_gradient(
    chain: MarkovChain, side: ReducedSide, support: Support, slots: Floats, problem: Problem
) -> RowGradient:
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
