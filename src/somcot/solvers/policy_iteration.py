"""Exact distances between known chains: Howard's policy iteration over state pairs.

A policy chooses, for every pair (x, y), a coupling of P(.|x) and Q(.|y). Improvement solves one exact transport problem
per pair (`core.transport`), evaluation one sparse linear system (`plumbing.linear_systems`). Three to six iterations
reach the optimum, and the last sweep proves it.

The distance and its bracket are available immediately. The potential, the coupling and its derived quantities (maps,
residuals, gradient) are computed on first access: mapping them back can take longer than solving the smaller problem.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from somcot.certificates import bounds_from, rounding, widest
from somcot.contributions import ContributionInputs
from somcot.core.pairs import PairChoice, Pairs
from somcot.core.reduction import LEFT_OUT, Reduced, ReducedSide, embedded, lifted, potential_slots, unreduced
from somcot.core.reduction import reduce as reduced
from somcot.core.sweep import Improvement, Sweep
from somcot.couplings import Coupling
from somcot.derivatives import Gradient, Margin, RowGradient, discount_slope, row_gradient
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_count, check_flag, check_number
from somcot.plumbing.linear_systems import discounted_occupancy, discounted_value, reachable, relative_value
from somcot.problem import Problem, UnitProblem
from somcot.result import Bounds, Result, Status
from somcot.solvers.result_builder import PROMISED, CouplingDetails, build_result, sweeps_message

if TYPE_CHECKING:
    from somcot.chains import MarkovChain, Support

__all__ = ["ExactDetails", "Solution", "iterate", "metric", "result_of", "solution_of", "solve"]

_EPS = float(np.finfo(np.float64).eps)
TARGET = 1e-9  # width of the bracket, relative to the range of the cost, that counts as converged
_SMALL_SUPPORTS = 30.0  # mean cells per transport problem up to which evaluation is the costly part
_LEFT = 1e-2  # ... and the fraction of the Bellman residual that early evaluations then leave
_LEFT_WIDE = 1e-4  # ... and otherwise, where another sweep costs more than the digits that it would save
_FEW = 1e-4  # fraction of changed plans up to which the next evaluation is exact
_MANY = 10_000  # number of pairs above which that is considered
_SAMPLE = 61  # every 61st pair is sampled to check whether the first policy is optimal
_UNPROVED = Bounds(0.0, 1.0)  # of a unit cost, before the first sweep
_POLISHES = 8  # iterations in centred potentials, if the others end above the target


@dataclass(eq=False)
class Solution:
    """State of policy iteration: potential on the pairs, its last sweep and the trace.

    All values are on the unit-cost scale. `anywhere` is the width of the bracket from the worst pair, for the potential
    of the last sweep.
    """

    pairs: Pairs
    sweep: Sweep
    V: Floats
    last: Improvement | None = None
    bounds: Bounds = _UNPROVED
    status: Status = Status.STEP_LIMIT
    anywhere: float = 1.0
    trace: dict[str, list[float]] = field(default_factory=lambda: {"step": [], "distance": [], "residual": []})

    @property
    def n_steps(self) -> int:
        """Number of improvement sweeps."""
        return len(self.trace["step"])

    @property
    def width(self) -> float:
        """Current width of the bracket."""
        return self.bounds.high - self.bounds.low

    def distance(self, discount: float) -> float:
        """The distance after the last sweep: an upper bound up to its bracket."""
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

    Examples
    --------
    >>> import somcot
    >>> x, y = somcot.MarkovChain([[0.5, 0.5], [0.0, 1.0]]), somcot.MarkovChain([[0.4, 0.6], [0.0, 1.0]])
    >>> round(solve(Problem(x, y, [[0, 1], [1, 0]], 0.5)).distance, 6)
    0.041667
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
    """The reduced problem that is solved in place of this one, and its solution; options as for `solve`."""
    check_flag("reduce", reduce)
    if not 0.0 <= check_number("tolerance", tolerance) < 1.0:
        raise ValueError(f"tolerance: found {tolerance}, expected a share of the cost's range, at least 0 and below 1")
    small = unreduced(problem.unit)
    if reduce:
        small = reduced(problem.unit, tolerance if pairs == "reachable" else 0.0)
    return small, iterate(small.problem, small.pairs(pairs), threads=threads, max_sweeps=max_sweeps)


def metric(
    problem: Problem, *, threads: int | None = None, max_sweeps: int = 200, reduce: bool = True
) -> tuple[Floats, float]:
    """Exact distance from every pair of states, (n_x, n_y), and the width of the widest bracket, per cost range."""
    small = reduced(problem.unit) if reduce else unreduced(problem.unit)
    solution = iterate(small.problem, small.pairs("all"), threads=threads, max_sweeps=max_sweeps)
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    # All states of a block have its potential.
    V = small.spread(solution.pairs.table(solution.V))
    table = problem.offset + problem.scale * (1.0 - problem.discount) * V
    # At the limit of sweeps the potential is newer than its proof.
    width = 1.0 if solution.status is Status.STEP_LIMIT else solution.anywhere
    return np.clip(table, problem.cost.min(), problem.most), width


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

    With a tolerance nothing is proved: no bracket is kept, and potentials have a thousandth of it as their accuracy.
    `guess` is an initial potential and `hints` a sweep for it on the same entries, whose duals start the first sweep.

    Policies that will change anyway are not evaluated to rounding. On small supports, where a sweep costs less than an
    evaluation, a hundredth of the Bellman residual is left, which takes one or two more sweeps; otherwise less.
    """
    cost = np.ascontiguousarray(problem.cost[pairs.x, pairs.y])
    # The cost itself is a good first potential: its plans already prefer cheap next pairs.
    V = cost.copy() if guess is None else guess[pairs.x, pairs.y]
    solution = Solution(pairs, Sweep(problem, pairs, threads, hints), V)
    table = np.zeros(problem.shape)
    rough = tolerance > 0.0
    thrifty, fraction = len(cost) >= _MANY, _LEFT_WIDE
    if not rough and solution.sweep.cells <= _SMALL_SUPPORTS * len(cost):
        fraction = _LEFT
    accuracy = max(_EPS, 1e-3 * tolerance)
    left = 0.0
    try:
        for step in range(check_count("max_sweeps", max_sweeps)):
            pairs.put(table, solution.V)
            improvement = solution.sweep.improve(table)
            solution.last = improvement
            residual = (_residual if rough else _record)(problem, solution, cost, solution.V, improvement)
            # Relative to V: residuals below this are rounding of the sweep.
            settled = step > 0 and residual <= max(tolerance, 64.0 * _EPS * (1.0 + float(solution.V.max())))
            # The same plans after an exact evaluation: nothing will change any more.
            if settled or (step > 0 and left == 0.0 and improvement.changed == 0):
                solution.status = Status.CONVERGED if rough else _polish(problem, solution, cost)
                break
            kernel, _ = solution.sweep.kernel()
            # If few plans changed, or the residual is only that of the last evaluation, evaluate this policy exactly.
            early = thrifty and (step == 0 or (improvement.changed > _FEW * len(cost) and residual > 4.0 * left))
            left = fraction * residual if early else 0.0
            goal = max(accuracy, _relative(left, problem.discount, solution.V, residual))
            solution.V = discounted_value(kernel, cost, problem.discount, solution.V, goal)
            if step == 0 and left > 0.0 and _looks_solved(problem, solution, cost, left):
                thrifty, left = False, 0.0
                solution.V = discounted_value(kernel, cost, problem.discount, solution.V, accuracy)
            del kernel  # freed before the next is built: on wide supports two kernels would be half of all memory
    except KeyboardInterrupt:
        # Without a single sweep there is nothing to return.
        if solution.last is None:
            raise
        solution.status = Status.INTERRUPTED
    return solution


def _relative(left: float, discount: float, V: Floats, residual: float) -> float:
    """The residual to leave, relative to the next value as `discounted_value` expects it."""
    largest = float(V.max()) + residual / (1.0 - discount)
    return left / (4.0 * largest) if largest > 0.0 else 0.0


def _looks_solved(problem: UnitProblem, solution: Solution, cost: Floats, left: float) -> bool:
    """Whether a sample of the pairs shows no larger residual than the evaluation left: the first policy may be optimal.

    That is so on random walks, where a sweep against a rough potential would only mistake optimal plans for worse ones.
    """
    pairs = solution.pairs
    # Steps of the sampled pairs lead to all pairs, so they keep the whole index.
    sample = Pairs(pairs.x[::_SAMPLE], pairs.y[::_SAMPLE], pairs.index, pairs.folded)
    improvement = Sweep(problem, sample, solution.sweep.threads).improve(pairs.table(solution.V))
    return _residual(problem, solution, cost[::_SAMPLE], solution.V[::_SAMPLE], improvement) <= 4.0 * left


def _polish(problem: UnitProblem, solution: Solution, cost: Floats) -> Status:
    """Continue in centred potentials if rounding keeps the bracket above the target.

    V is about distance / (1 - discount), and its rounding is proportional to it. With V = W + gain / (1 - discount), W
    solves the same equation for the cost minus the gain and is only as large as the spread of V. If that is large too
    (processes that never meet), rounding sets the target.
    """
    # The usual case: no further sweep is needed.
    if solution.width <= TARGET:
        return Status.CONVERGED
    W, gain, table, pairs = solution.V, 0.0, np.zeros(problem.shape), solution.pairs
    improvement = solution.last
    assert improvement is not None
    for _ in range(_POLISHES):
        if solution.width <= TARGET:
            break
        # The gain is subtracted from the cost once more, so that W stays as small as possible.
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
    # The residual of the sweep itself: `solution.last` is at the level of V, whose rounding may hide the difference.
    allowed = 8.0 * rounding(W) + 4.0 * float((improvement.high - improvement.low).max())
    return Status.CONVERGED if solution.width <= max(TARGET, min(PROMISED, allowed)) else Status.ROUNDING


def _record(
    problem: UnitProblem, solution: Solution, cost: Floats, V: Floats, improvement: Improvement, gain: float = 0.0
) -> float:
    """Record a sweep against V; return the largest Bellman residual, excluding the gain."""
    latest = bounds_from(problem.discount, V, cost, improvement, problem.slack)
    # Every sweep gives a valid bracket, so the tightest bounds so far are valid.
    solution.bounds = Bounds(max(solution.bounds.low, latest.low), min(solution.bounds.high, latest.high))
    solution.anywhere = widest(problem.discount, V, cost, improvement, problem.slack)
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
    words, limit = small.words(), "; a smaller discount gives more digits"
    ended = sweeps_message(solution.status, solution.width, solution.n_steps, limit=limit)
    return ended + (f" Before that, {words}." if words else "")


# --- From the solution of a reduced problem to the Result for all states

_UNKNOWN = 1e4 * LEFT_OUT  # largest error from removed states for a potential to be reported, relative to the range


def result_of(details: ExactDetails, solution: Solution, began: float, method: str = "exact", **more: Any) -> Result:
    """The Result of a solution; `more` are further attributes."""
    unit_distance = None  # without convergence, report the cost of the coupling
    if solution.status is Status.CONVERGED:
        unit_distance = _unit_distance(details.small.problem, solution)
    return build_result(
        details.problem,
        details,
        # The lower bound needs no correction: truncation only decreases the distance.
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
    """The distance from the potential, or exactly 0 if the coupling stays in the pairs of minimum cost."""
    if solution.bounds.low <= 0.0:
        pairs = solution.pairs
        seen = reachable(*solution.sweep.kernel())
        # The exact 0 that users compare with, where summation would give 1e-17.
        if not problem.cost[pairs.x[seen], pairs.y[seen]].any():
            return 0.0
    return solution.trace["distance"][-1]


class ExactDetails(CouplingDetails):
    """Details for all states, computed from the plans and the potential of a reduced problem.

    Parameters
    ----------
    problem : Problem
    small : Reduced
        The reduced problem that was solved.
    solution : Solution
    """

    def __init__(self, problem: Problem, small: Reduced, solution: Solution) -> None:
        self.problem, self.small, self.sweep, self.V = problem, small, solution.sweep, solution.V

    @cached_property
    def potential(self) -> Floats:
        """The potential of all pairs in the units of the user's cost."""
        return self.problem.potential_to_user(self._unit_potential())

    def _unit_potential(self) -> Floats:
        """The potential of all pairs, NaN if unknown: for unreached and removed states and their neighbours."""
        small = self.small
        table = small.spread(self.sweep.pairs.table(self.V, np.nan))
        if small.lost > 0.0:
            # E discount^T from both states: an error of V where a removed state is likely to be reached.
            off = small.x.arrival[:, None] + small.y.arrival[None, :]  # (1 - discount) V may be this much too low
            table[off > max(_UNKNOWN, 1e4 * small.lost)] = np.nan
        return table

    @cached_property
    def plan(self) -> Coupling:
        """The occupancy coupling of all states."""
        problem, small = self.problem, self.small
        # Unfolded first: a pair and its mirror image have transposed plans.
        pairs, kernel, start = lifted(small, self.sweep.unfolded(small.problem))
        occupancy = discounted_occupancy(kernel, start, problem.discount)
        now = np.repeat(np.arange(len(pairs)), np.diff(kernel.indptr))
        mass = occupancy[now] * kernel.data
        sides = (small.x, pairs.x), (small.y, pairs.y)
        (x, in_x), (y, in_y) = (embedded(side, states) for side, states in sides)
        inside = in_x & in_y
        # Steps from or into removed states are left out of the coupling that users see.
        keep = (mass > 0) & inside[now] & inside[kernel.indices]
        now, following = now[keep], kernel.indices[keep]
        table = np.zeros(problem.shape)
        table[x[inside], y[inside]] = start[inside]
        return Coupling(problem.shape, x[now], y[now], x[following], y[following], mass[keep], table)

    @cached_property
    def makeup(self) -> ContributionInputs | None:
        """Inputs of contributions."""
        return ContributionInputs.known(self.problem.cost, self.problem.x.support, self.problem.y.support)

    @cached_property
    def gradient(self) -> Gradient | None:
        """Derivatives of the distance at the solution, from the transport potentials of the last sweep."""
        problem, small, occupancy = self.problem, self.small, self.state_law
        sweep = self.sweep.unfolded(small.problem)
        rest = 1.0 - problem.discount
        weight = np.zeros(small.cut.shape)
        weight[: len(small.x.kept), : len(small.y.kept)] = (
            # Envelope theorem: the derivative in a row is the transport potential of that row, weighted by visits.
            problem.discount * occupancy[np.ix_(small.x.kept, small.y.kept)]
        )
        slots = potential_slots(small, sweep, self.sweep.pairs.table(self.V), weight, rest)
        x, y = (
            _row_gradient(chain, side, support, slot, problem)
            for chain, side, support, slot in (
                (problem.x, small.x, small.cut.support_x, slots[0]),
                (problem.y, small.y, small.cut.support_y, slots[1]),
            )
        )
        visited = occupancy > 0.0
        V = small.spread(self.sweep.pairs.table(self.V))[visited]
        unit_distance = float((occupancy[visited] * problem.unit_cost[visited]).sum())
        return Gradient(
            x,
            y,
            occupancy,
            problem.offset + problem.scale * (rest * self._unit_potential()),
            problem.scale * discount_slope(occupancy[visited], V, unit_distance, problem.discount),
            self._margin(sweep),
        )

    def _margin(self, sweep: Sweep) -> Margin:
        """Margin to another coupling; equivalent states can always be exchanged."""
        small = self.small
        if small.x.quotient is not None or small.y.quotient is not None:
            return Margin(0.0, 0.0)
        visited = np.zeros(small.cut.shape, dtype=np.bool_)
        kept = np.ix_(small.x.kept, small.y.kept)
        visited[: len(small.x.kept), : len(small.y.kept)] = self.state_law[kept] > 0.0
        considered = np.append(visited[sweep.pairs.x, sweep.pairs.y], True)
        mass, cost = (float(least.min()) for least in sweep.margins(self.sweep.pairs.table(self.V), considered))
        return Margin(mass, self.problem.scale * max(cost, 0.0))


def _row_gradient(
    chain: MarkovChain, side: ReducedSide, support: Support, slots: Floats, problem: Problem
) -> RowGradient:
    """Derivatives along the rows of one chain; NaN if they depend on removed states, 0 in the rows of those."""
    if side.cut is None:
        return row_gradient(chain, slots, problem.scale)
    n = len(side.kept)
    place = np.full(chain.n_states, n)
    place[side.kept] = np.arange(n)
    rows, columns = chain.support.rows, chain.support.indices
    # The initial row comes last and is always known.
    known = np.append(place < n, True)[rows]
    values = np.zeros(len(columns))
    where = support.locate(np.append(place, n + 1)[rows[known]], place[columns[known]])
    values[known] = slots[where]
    gradient = row_gradient(chain, values, problem.scale)
    # The error of a potential is the probability of reaching a removed state, weighted by the visits of its row.
    visits = chain.state_occupancy(problem.discount)
    off = visits[rows[: len(gradient.values)]] * side.arrival[gradient.indices] / (1.0 - problem.discount)
    gradient.values[off > max(_UNKNOWN, 1e4 * side.lost)] = np.nan
    return gradient
