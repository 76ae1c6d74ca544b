"""Exact distances between known chains: Howard's policy iteration over state pairs.

A policy chooses, for every pair (x, y), a coupling of P(.|x) and Q(.|y). Improvement solves one exact transport problem
per pair (`bellman.transport`), evaluation one sparse linear system (`discounting`). Three to six rounds end at the
optimum, and the last sweep proves it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from somcot.bellman.pairs import PairChoice, Pairs, choose
from somcot.bellman.reduce import LEFT_OUT, Reduced, reduced, whole
from somcot.bellman.sweep import Improvement, Sweep
from somcot.certificates import bounds_from, rounding
from somcot.plumbing.arrays import Floats
from somcot.plumbing.discounting import discounted_value, relative_value
from somcot.plumbing.validation import check_count, check_flag, check_number
from somcot.problem import Problem, UnitProblem
from somcot.result import Bounds, Result, Status
from somcot.solvers.recovery import Solved, result_of

__all__ = ["Solution", "iterate", "metric", "solve", "solve_in_full"]

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
    small = whole(problem.unit)
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
    solved = Solved(problem, whole(problem.unit), solution.sweep, solution.V)
    return solution, result_of(solved, solution, _message(solution), began)


def metric(problem: Problem, *, threads: int | None = None, max_sweeps: int = 200, reduce: bool = True) -> Floats:
    """Exact distance from every pair of states, (n_x, n_y)."""
    small = reduced(problem.unit) if reduce else whole(problem.unit)
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
