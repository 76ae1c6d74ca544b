"""Exact distances between known chains: Howard's policy iteration over state pairs.

A policy chooses, for every pair (x, y), a coupling of P(.|x) and Q(.|y). Improvement solves one exact transport problem
per pair (`bellman.transport`), evaluation one sparse linear system (`discounting`). Three to six rounds end at the
optimum, and the last sweep proves it.

The distance and its bracket are there at once. The potential, the coupling and what follows from it (maps, residuals,
gradient) are computed when first read: mapping them back can take longer than solving the smaller problem did.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from somcot.certificates import bounds_from, rounding
from somcot.contributions import ContributionInputs
from somcot.core.lift import embedded, lifted, potential_slots
from somcot.core.pairs import PairChoice, Pairs
from somcot.core.reduction import LEFT_OUT, Reduced, ReducedSide, unreduced
from somcot.core.reduction import reduce as reduced
from somcot.core.sweep import Improvement, Sweep
from somcot.couplings import Coupling
from somcot.derivatives import Gradient, Margin, RowGradient, discount_slope, row_gradient
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_count, check_flag, check_number
from somcot.plumbing.linear_systems import discounted_occupancy, discounted_value, reachable, relative_value
from somcot.problem import Problem, UnitProblem
from somcot.result import Bounds, Result, Status
from somcot.solvers.result_builder import CouplingDetails, build_result

if TYPE_CHECKING:
    from somcot.chains import MarkovChain, Support

__all__ = ["ExactDetails", "Solution", "iterate", "metric", "result_of", "solution_of", "solve"]

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
    last: Improvement | None = None
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
        assert self.last is not None
        return (1.0 - discount) * float(self.last.value[-1])


def solve(
    problem: Problem,
    *,
    pairs: PairChoice = "reachable",
    threads: int | None = None,
    max_sweeps: int = 200,
    tolerance: float = LEFT_OUT,
    reduce: bool = True,
) -> Result:
    """Solve exactly, at discounts up to 0.9995.

    Parameters
    ----------
    problem, pairs, threads, max_sweeps, tolerance, reduce
        See `somcot.solvers.exact.solve`.
    """
    began = time.perf_counter()
    small, solution = solution_of(
        problem, pairs=pairs, threads=threads, max_sweeps=max_sweeps, tolerance=tolerance, reduce=reduce
    )
    return result_of(ExactDetails(problem, small, solution), solution, began)


def solution_of(
    problem: Problem,
    *,
    pairs: PairChoice = "reachable",
    threads: int | None = None,
    max_sweeps: int = 200,
    tolerance: float = LEFT_OUT,
    reduce: bool = True,
) -> tuple[Reduced, Solution]:
    """The smaller problem that is solved in place of this one, and its solution; options as for `solve`."""
    check_flag("reduce", reduce)
    if not 0.0 <= check_number("tolerance", tolerance) < 1.0:
        raise ValueError(f"tolerance: found {tolerance}, expected a share of the cost's range, at least 0 and below 1")
    small = unreduced(problem.unit)
    if reduce:
        small = reduced(problem.unit, tolerance if pairs == "reachable" else 0.0)
    return small, iterate(small.problem, small.pairs(pairs), threads=threads, max_sweeps=max_sweeps)


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
            improvement = solution.sweep.improve(table)
            solution.last = improvement
            residual = (_residual if rough else _record)(problem, solution, cost, solution.V, improvement)
            settled = step > 0 and residual <= max(tolerance, 64.0 * _EPS * (1.0 + float(solution.V.max())))
            if settled or (step > 0 and left == 0.0 and improvement.changed == 0):
                solution.status = Status.CONVERGED if rough else _polish(problem, solution, cost)
                break
            kernel, _ = solution.sweep.kernel()
            # Where few plans changed, or only what was left out of the last evaluation shows, this policy will do.
            early = thrifty and (step == 0 or (improvement.changed > _FEW * len(cost) and residual > 4.0 * left))
            left = _LEFT * residual if early else 0.0
            goal = max(accuracy, _relative(left, problem.discount, solution.V, residual))
            solution.V = discounted_value(kernel, cost, problem.discount, solution.V, goal)
            if step == 0 and left > 0.0 and _looks_solved(problem, solution, cost, left):
                thrifty, left = False, 0.0
                solution.V = discounted_value(kernel, cost, problem.discount, solution.V, accuracy)
            del kernel  # before the next one is made: on wide supports the two would be half of all memory
    except KeyboardInterrupt:
        if solution.last is None:
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
    improvement = Sweep(problem, sample, solution.sweep.threads).improve(pairs.table(solution.V))
    return _residual(problem, solution, cost[::_SAMPLE], solution.V[::_SAMPLE], improvement) <= 4.0 * left


def _polish(problem: UnitProblem, solution: Solution, cost: Floats) -> Status:
    """Go on in potentials without their constant part where rounding keeps the bracket above the target.

    V is about distance / (1 - discount), and so is its rounding. With V = W + gain / (1 - discount), W solves the same
    equation for the cost less the gain and is only as large as the spread of V. Where that is large too (processes that
    never meet), rounding sets the target.
    """
    if solution.width <= TARGET:
        return Status.CONVERGED
    W, gain, table, pairs = solution.V, 0.0, np.zeros(problem.shape), solution.pairs
    improvement = solution.last
    assert improvement is not None
    for _ in range(_POLISHES):
        if solution.width <= TARGET:
            break
        W, more = relative_value(solution.sweep.kernel()[0], cost - gain, problem.discount, W)
        gain += more
        pairs.put(table, W)
        improvement = solution.sweep.improve(table)
        _record(problem, solution, cost, W, improvement, gain)
        level = gain / (1.0 - problem.discount)
        solution.V = W + level
        solution.last = Improvement(
            improvement.low + level, improvement.high + level, improvement.value + level, improvement.changed
        )
    # Of the sweep itself: `solution.last` is at the level of V, whose rounding may swallow the difference.
    allowed = 8.0 * rounding(W) + 4.0 * float((improvement.high - improvement.low).max())
    return Status.CONVERGED if solution.width <= max(TARGET, min(WIDEST, allowed)) else Status.ROUNDING


def _record(
    problem: UnitProblem, solution: Solution, cost: Floats, V: Floats, improvement: Improvement, gain: float = 0.0
) -> float:
    """Take note of a sweep against V; returns the largest Bellman residual, the gain apart."""
    latest = bounds_from(problem.discount, V, cost, improvement, problem.slack)
    # Every sweep gives a valid bracket, so the tightest ends seen so far hold.
    solution.bounds = Bounds(max(solution.bounds.low, latest.low), min(solution.bounds.high, latest.high))
    residual = _residual(problem, solution, cost, V, improvement, gain)
    solution.trace["step"].append(solution.n_steps + 1)
    solution.trace["distance"].append((1.0 - problem.discount) * float(improvement.value[-1]) + gain)
    solution.trace["residual"].append(residual)
    return residual


def _residual(
    problem: UnitProblem, _: Solution, cost: Floats, V: Floats, improvement: Improvement, gain: float = 0.0
) -> float:
    return float(np.abs(cost - gain + problem.discount * improvement.value[:-1] - V).max())


def _message(solution: Solution, small: Reduced) -> str:
    words = small.words()
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


def result_of(details: ExactDetails, solution: Solution, began: float, method: str = "exact", **more: Any) -> Result:
    """The Result of a solution; `more` are further attributes."""
    unit_distance = None  # where it has not converged, the coupling is what there is to show
    if solution.status is Status.CONVERGED:
        unit_distance = _unit_distance(details.small.problem, solution)
    return build_result(
        details.problem,
        details,
        unit_bounds=Bounds(solution.bounds.low, min(solution.bounds.high + details.small.lost, 1.0)),
        unit_distance=unit_distance,
        method=method,
        status=solution.status,
        message=_message(solution, details.small),
        n_steps=solution.n_steps,
        began=began,
        trace=solution.trace,
        **more,
    )


def _unit_distance(problem: UnitProblem, solution: Solution) -> float:
    """What the potential says, or exactly 0 where the coupling never leaves the pairs of least cost."""
    if solution.bounds.low <= 0.0:
        pairs = solution.pairs
        seen = reachable(*solution.sweep.kernel())
        if not problem.cost[pairs.x[seen], pairs.y[seen]].any():
            return 0.0
    return solution.trace["distance"][-1]


class ExactDetails(CouplingDetails):
    """What the plans and the potential of a smaller problem say about all states.

    Parameters
    ----------
    problem : Problem
    small : Reduced
        The problem that was solved in its place.
    solution : Solution
    """

    def __init__(self, problem: Problem, small: Reduced, solution: Solution) -> None:
        self.problem, self.small, self.sweep, self.V = problem, small, solution.sweep, solution.V

    @cached_property
    def potential(self) -> Floats:
        """The potential of all pairs in the units of the user's cost."""
        return self.problem.potential_to_user(self._unit_potential())

    def _unit_potential(self) -> Floats:
        """The potential of all pairs, NaN where it is not known: not reached, left out, or next to such states."""
        small = self.small
        table = small.spread(self.sweep.pairs.table(self.V, np.nan))
        if small.lost > 0.0:
            off = small.x.arrival[:, None] + small.y.arrival[None, :]  # (1 - discount) V may be this much too low
            table[off > max(_UNKNOWN, 1e4 * small.lost)] = np.nan
        return table

    @cached_property
    def plan(self) -> Coupling:
        """The occupancy coupling of all states."""
        problem, small = self.problem, self.small
        pairs, kernel, start = lifted(small, self.sweep.unfolded(small.problem))
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

    @cached_property
    def makeup(self) -> ContributionInputs | None:
        """What contributions are computed from."""
        return ContributionInputs.known(self.problem.cost, self.problem.x.support, self.problem.y.support)

    @cached_property
    def gradient(self) -> Gradient | None:
        """Derivatives of the distance at the solution, from the transport potentials of the last sweep."""
        problem, small, law = self.problem, self.small, self.state_law
        sweep = self.sweep.unfolded(small.problem)
        rest = 1.0 - problem.discount
        weight = np.zeros(small.cut.shape)
        weight[: len(small.x.kept), : len(small.y.kept)] = problem.discount * law[np.ix_(small.x.kept, small.y.kept)]
        slots = potential_slots(small, sweep, self.sweep.pairs.table(self.V), weight, rest)
        x, y = (
            _row_gradient(chain, side, support, slot, problem)
            for chain, side, support, slot in (
                (problem.x, small.x, small.cut.support_x, slots[0]),
                (problem.y, small.y, small.cut.support_y, slots[1]),
            )
        )
        visited = law > 0.0
        V = small.spread(self.sweep.pairs.table(self.V))[visited]
        unit_distance = float((law[visited] * problem.unit_cost[visited]).sum())
        return Gradient(
            x,
            y,
            law,
            problem.offset + problem.scale * (rest * self._unit_potential()),
            problem.scale * discount_slope(law[visited], V, unit_distance, problem.discount),
            self._margin(sweep),
        )

    def _margin(self, sweep: Sweep) -> Margin:
        """How far the coupling is from another one; states that behave alike can always be exchanged."""
        small = self.small
        if small.x.quotient is not None or small.y.quotient is not None:
            return Margin(0.0, 0.0)
        visited = np.zeros(small.cut.shape, dtype=np.bool_)
        kept = np.ix_(small.x.kept, small.y.kept)
        visited[: len(small.x.kept), : len(small.y.kept)] = self.state_law[kept] > 0.0
        wanted = np.append(visited[sweep.pairs.x, sweep.pairs.y], True)
        mass, cost = (float(least.min()) for least in sweep.margins(self.sweep.pairs.table(self.V), wanted))
        return Margin(mass, self.problem.scale * max(cost, 0.0))


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
    gradient = row_gradient(chain, whole, problem.scale)
    # A potential is off by the chance of getting to a state left out, and weighs as much as its row is visited.
    visits = chain.state_occupancy(problem.discount)
    off = visits[rows[: len(gradient.values)]] * side.arrival[gradient.indices] / (1.0 - problem.discount)
    gradient.values[off > max(_UNKNOWN, 1e4 * side.lost)] = np.nan
    return gradient
