"""Exact distances at discounts near 1 and for the long-run average: policy iteration relative to reference pairs.

Each recurrent class of pairs (`core.pairs`) has one long-run gain, so on it

    V = h + gain / (1 - discount),        h + gain = c + discount * OT(h),

and h is bounded by the mixing time, for any discount; at discount 1 the gain is the long-run average.
Transient pairs satisfy D = (1 - discount) c + discount * OT(D), where D = (1 - discount) V is the distance
from the pair. Both are solved by Howard's method, and each has its bracket (`certificates`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.certificates import Settled, class_gains
from somcot.contributions import ContributionInputs
from somcot.core.pairs import (
    PairChoice,
    PairGroups,
    Pairs,
    absorption_times,
    chain_classes,
    choose,
    expected_time,
    pair_classes,
    pairs_where,
    transitions,
)
from somcot.core.sweep import Sweep
from somcot.derivatives import Gradient, Margin, row_gradient
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_count
from somcot.plumbing.linear_systems import Anchored, Kernel, anchored, reference_rows
from somcot.problem import Problem, UnitProblem
from somcot.result import Bounds, Result, Status
from somcot.solvers.policy_iteration import TARGET, iterate
from somcot.solvers.result_builder import PROMISED, CouplingDetails, build_result, coupling_of, sweeps_message
from somcot.solvers.total import absorb, anywhere, merged

__all__ = ["Relative", "metric", "relative_solution", "solve"]

_EPS = float(np.finfo(np.float64).eps)
_WARM = 0.99  # discount of the approximate solution that initialises the policies
_ROUGH = 0.01  # ... and its accuracy
_PATIENCE = 8  # sweeps without a better bracket or another potential until rounding is assumed the limit
_FAR = 1e6  # at discount 1: steps that stand for infinity between closed sets of one class
Integers = NDArray[np.int64]


@dataclass(eq=False)
class Ergodic:
    """Policy iteration on the recurrent pairs, on the unit-cost scale.

    `low` and `high` bound the gain of each class, the middle of its distances: all sweeps together. `proved` is, for
    each class, the h of the sweep with the narrowest bracket, and `own` that bracket: below discount 1 it holds with
    this h only. `gap` is the duality gap of the last transport problems.
    """

    sweep: Sweep
    groups: PairGroups
    cost: Floats
    h: Floats
    low: Floats
    high: Floats
    proved: Floats
    own: tuple[Floats, Floats]
    policy: Anchored | None = None
    waited: int = 0
    gap: float = 0.0
    trace: dict[str, list[float]] = field(default_factory=lambda: {"step": [], "residual": []})

    @property
    def width(self) -> float:
        """Width of the widest bracket of a class."""
        return float((self.high - self.low).max())

    @property
    def is_single(self) -> bool:
        """Whether the policy has one closed set in each class."""
        return self.policy is not None and len(self.policy.references) == len(self.groups)

    @property
    def gain(self) -> Floats:
        """The midpoint of the bounds of each class."""
        return self.low + (self.high - self.low) / 2.0

    def distances(self, discount: float) -> tuple[Floats, float]:
        """The distance from each pair, and its largest error, on the unit-cost scale."""
        if discount == 1.0:
            return self.gain[self.groups.label], self.width / 2.0
        low, high = self.own
        middle = low + (high - low) / 2.0
        return (1.0 - discount) * self.proved + middle[self.groups.label], float((high - low).max()) / 2.0


class Relative(NamedTuple):
    """A solution relative to reference pairs.

    Attributes
    ----------
    pairs : Pairs
        All pairs that take part.
    ergodic : Ergodic
        On the recurrent pairs.
    passing : Sweep
        On the transient pairs and the initial pair; steps lead to `pairs`.
    D : ndarray, shape (n_x, n_y)
        The distance from each pair, on the unit-cost scale; 0 for pairs that take no part.
    settled : Settled
    status : Status
    longest : float
        Upper bound of the time from any pair until both sides are recurrent.
    """

    pairs: Pairs
    ergodic: Ergodic
    passing: Sweep
    D: Floats
    settled: Settled
    status: Status
    longest: float

    @property
    def settling(self) -> float:
        """Approximate mixing time in steps: the spread of h within a class, per range of the cost."""
        return float(self.ergodic.groups.spread(self.ergodic.h).max())

    def policy(self) -> tuple[Kernel, Floats]:
        """The transition coupling over all pairs, and the distribution of the first pair."""
        # Both sweeps number their own pairs, so the columns of the recurrent part are mapped to `pairs`.
        mine = self.ergodic.sweep.kernel()[0]
        here, pairs = self.ergodic.sweep.pairs, self.pairs
        theirs, start = self.passing.kernel()
        rest = self.passing.pairs
        return merged(
            len(pairs),
            (pairs.index[here.x, here.y], mine._replace(indices=pairs.index[here.x, here.y][mine.indices])),
            (pairs.index[rest.x, rest.y], theirs),
        ), start


def solve(
    problem: Problem, *, pairs: PairChoice = "reachable", threads: int | None = None, max_sweeps: int = 200
) -> Result:
    """Solve exactly; as `policy_iteration.solve`, for discounts near 1 and for the long-run average.

    Examples
    --------
    >>> import somcot
    >>> from somcot.clocks import Clock
    >>> x, y = somcot.MarkovChain([[0.5, 0.5], [0.5, 0.5]]), somcot.MarkovChain([[0.4, 0.6], [0.4, 0.6]])
    >>> round(solve(Problem(x, y, [[0, 1], [1, 0]], Clock.discounting(1))).distance, 6)
    0.1
    """
    began = time.perf_counter()
    solution = relative_solution(problem.unit, choose(problem.unit, pairs), threads=threads, max_sweeps=max_sweeps)
    kernel, start = solution.policy()
    weight = _usual(problem.unit, solution.pairs)
    occupancy, visits = anchored(kernel, problem.discount, weight).laws(start)
    coupling = coupling_of(problem.shape, solution.pairs, kernel, occupancy, start)
    trace = solution.ergodic.trace
    limit = f"; it takes about {solution.settling:.2g} steps to settle, and a smaller discount gives more digits"
    details = CouplingDetails(
        problem,
        coupling,
        _potential(problem, solution),
        gradient=_gradient(problem, solution, (kernel, start), occupancy, visits),
        makeup=ContributionInputs.known(problem.cost, problem.x.support, problem.y.support),
    )
    return build_result(
        problem, details, unit_bounds=solution.settled.bounds, method="exact", status=solution.status,
        message=sweeps_message(solution.status, solution.settled.width, len(trace["step"]), limit=limit),
        n_steps=len(trace["step"]), began=began, trace=trace, settling=solution.settling,
    )  # fmt: skip


def metric(problem: Problem, *, threads: int | None = None, max_sweeps: int = 200) -> tuple[Floats, float]:
    """Exact distance from every pair of states, (n_x, n_y), and the width of the widest bracket, per cost range."""
    solution = relative_solution(problem.unit, choose(problem.unit, "all"), threads=threads, max_sweeps=max_sweeps)
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    table = np.clip(problem.offset + problem.scale * solution.D, problem.cost.min(), problem.cost.max())
    rest = solution.passing.pairs
    cost = (1.0 - problem.discount) * problem.unit_cost[rest.x, rest.y]
    slack = solution.settled.slack
    return table, anywhere(solution.passing, solution.D, cost, problem.discount, slack, solution.longest)


def relative_solution(
    problem: UnitProblem, pairs: Pairs, *, threads: int | None = None, max_sweeps: int = 200
) -> Relative:
    """Solve on the recurrent classes of pairs, then on the pairs that lead to them."""
    check_count("max_sweeps", max_sweeps)
    chains = [transitions(support) for support in (problem.support_x, problem.support_y)]
    classes = [chain_classes(chain) for chain in chains]
    label = pair_classes(*classes)
    inside = pairs.index >= 0
    # Every coupling keeps recurrent pairs within their class, so they are solved first and independently.
    here, rest = pairs_where(inside & (label >= 0)), pairs_where(inside & (label < 0))
    ergodic, status = _ergodic(problem, here, label[here.x, here.y], threads, max_sweeps)
    D = np.zeros(problem.shape)
    # On recurrent pairs the distance is known now; it is the boundary condition of the transient ones.
    D[here.x, here.y], error = ergodic.distances(problem.discount)
    passing = Sweep(problem, rest, threads, targets=pairs)
    times = [absorption_times(k, c.recurrent, problem.discount) for k, c in zip(chains, classes, strict=True)]
    time = expected_time(problem.support_x, times[0]) + expected_time(problem.support_y, times[1])
    D[rest.x, rest.y] = problem.cost[rest.x, rest.y]
    # The error of the classes is carried into the transient pairs with probability at most 1.
    first = Settled(Bounds(0.0, 1.0), time, error)
    settled = absorb(passing, D, (1.0 - problem.discount) * D[rest.x, rest.y], problem.discount, first, max_sweeps)
    allowed = 64.0 * _EPS * (1.0 + float(np.abs(ergodic.h).max()) + time) + 4.0 * ergodic.gap
    close = settled.width <= max(TARGET, min(PROMISED, allowed))
    if status is Status.CONVERGED and not close:
        status = Status.ROUNDING
    return Relative(pairs, ergodic, passing, D, settled, status, float(times[0].max() + times[1].max()))


def _ergodic(
    problem: UnitProblem, pairs: Pairs, label: Integers, threads: int | None, max_sweeps: int
) -> tuple[Ergodic, Status]:
    """Improve and evaluate until no class has a better bracket."""
    groups, cost = PairGroups.of(label), np.ascontiguousarray(problem.cost[pairs.x, pairs.y])
    rough = replace(problem, discount=min(_WARM, problem.discount))
    # At discount 0.99 policy iteration converges in a few sweeps, and its plans are nearly optimal here.
    warm = iterate(rough, pairs, threads=threads, max_sweeps=max_sweeps, tolerance=_ROUGH)
    if warm.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    low, high = np.zeros(len(groups)), np.ones(len(groups))
    state = Ergodic(warm.sweep, groups, cost, warm.V, low, high, np.zeros(len(cost)), (low, high))
    # References must be visited often, or sums until a visit are large and cancel.
    weight, far = _usual(problem, pairs), _FAR
    try:
        for step in range(max_sweeps):
            changed = _improve(problem, state)
            limit = 64.0 * _EPS * (1.0 + float(np.abs(state.h).max()))
            if step > 0 and (state.width <= limit or state.waited >= _PATIENCE):
                return state, Status.CONVERGED
            # Unchanged plans with several closed sets at discount 1:
            # `far` may have been too small to leave the worse ones.
            if step > 0 and changed == 0:
                if state.is_single or problem.discount < 1.0 or far >= 1e15:
                    return state, Status.CONVERGED
                far *= 1e3
            state.policy = anchored(state.sweep.kernel()[0], problem.discount, weight)
            h = _evaluate(state, far)
            if not np.isfinite(h).all():
                return state, Status.ROUNDING
            # Rounding changes h by about its precision times the steps until a reference; that is no progress.
            noise = max(1e-9, 64.0 * _EPS * float(state.policy.length.max()))
            if np.abs(groups.centred(h) - state.h).max() > noise * (1.0 + np.abs(state.h).max()):
                state.waited = 0
            state.h = h
    except KeyboardInterrupt:
        if not state.trace["step"]:
            raise
        return state, Status.INTERRUPTED
    return state, Status.STEP_LIMIT


def _improve(problem: UnitProblem, state: Ergodic) -> int:
    """A sweep against h; returns the number of pairs whose plan changed."""
    pairs, groups = state.sweep.pairs, state.groups
    # `h` is defined up to a constant per class; centred it is smallest, and so is its rounding.
    state.h = groups.centred(state.h)
    improvement = state.sweep.improve(pairs.table(state.h))
    low, high = class_gains(problem.discount, state.h, state.cost, improvement, groups)
    before = state.width
    # A sweep bounds all distances of a class minus (1 - discount) h; h is centred, so the same bounds hold for the
    # middle of the distances, whichever h it was: the tightest bounds so far are valid.
    state.low, state.high = np.maximum(state.low, low), np.minimum(state.high, high)
    better = high - low < state.own[1] - state.own[0]
    state.own = np.where(better, low, state.own[0]), np.where(better, high, state.own[1])
    state.proved = np.where(better[groups.label], state.h, state.proved)
    state.waited = 0 if state.width < 0.9 * before else state.waited + 1
    residual = state.cost + problem.discount * improvement.value[:-1] - state.h - state.gain[groups.label]
    state.gap = float((improvement.high - improvement.low)[:-1].max())
    state.trace["step"].append(len(state.trace["step"]) + 1.0)
    state.trace["residual"].append(float(np.abs(residual).max()))
    return improvement.changed


def _evaluate(state: Ergodic, far: float) -> Floats:
    """The relative value of the current policy.

    A policy may have several closed sets inside one class of pairs, some better than others. The best one is the
    reference of its class; the value of the others is higher by their loss in gain, accumulated over the discounted
    horizon. So the next improvement leads from them to the best. At discount 1 that would be infinite; `far` steps
    replace it.
    """
    assert state.policy is not None
    policy, label = state.policy, state.groups.label
    references, length, discount = policy.references, policy.length, policy.discount
    until = policy.until(state.cost)
    # Renewal reward: cost of a cycle over its length.
    gains = until[references] / length[references]
    best = references[np.lexsort((gains, label[references]))]
    # `lexsort` orders by class, then by gain.
    best = best[np.append(True, label[best[1:]] != label[best[:-1]])]  # one for each class, in class order
    gain = until[best] / length[best]
    h = until - gain[label] * length
    if not state.is_single:
        level = np.zeros(len(h))
        level[references] = (gains - gain[label[references]]) * (1.0 / (1.0 - discount) if discount < 1.0 else far)
        h += policy.until(discount * policy.step(level))
        if discount == 1.0:
            return np.asarray(h)
    # One step of refinement: otherwise the rounding of `until` and `length`, which cancel, stays in h.
    more = policy.until(state.cost - gain[label] + discount * policy.step(h) - h)
    return np.asarray(h + more - (more[best] / length[best])[label] * length)


def _gradient(
    problem: Problem, solution: Relative, policy: tuple[Kernel, Floats], occupancy: Floats, visits: Floats
) -> Gradient:
    """Derivatives of the distance: long-run weights of recurrent pairs, visits of transient pairs."""
    pairs, here, rest = solution.pairs, solution.ergodic.sweep.pairs, solution.passing.pairs
    at, before = pairs.index[here.x, here.y], pairs.index[rest.x, rest.y]
    h = here.table(solution.ergodic.h)
    settled = solution.ergodic.sweep.potential_sums(h, np.append(problem.discount * occupancy[at], 0.0))
    passing = solution.passing.potential_sums(solution.D, np.append(problem.discount * visits[before], 1.0))
    side_x = row_gradient(problem.x, settled[0] + passing[0], problem.scale)
    side_y = row_gradient(problem.y, settled[1] + passing[1], problem.scale)
    D = np.where(pairs.index >= 0, solution.D, np.nan)
    slope = problem.scale * _discount_slope(problem, solution, policy, occupancy, visits)
    margin = _margin(problem, solution, occupancy[at] > 0.0, visits[before] > 0.0)
    return Gradient(side_x, side_y, pairs.table(occupancy), problem.offset + problem.scale * D, slope, margin)


def _discount_slope(
    problem: Problem, solution: Relative, policy: tuple[Kernel, Floats], occupancy: Floats, visits: Floats
) -> float:
    """Derivative in the discount g (from below, at 1).

    For recurrent pairs, D(s) = (1 - g) h(s) + gain has the slope (E h - h(s)) / g, E over the time from s on;
    for transient pairs, D = (1 - g) c + g K D gives K D - c for every visit.
    """
    pairs, here, rest = solution.pairs, solution.ergodic.sweep.pairs, solution.passing.pairs
    at, before = pairs.index[here.x, here.y], pairs.index[rest.x, rest.y]
    kernel, start = policy
    only = np.zeros(len(pairs))
    only[before] = visits[before]
    steps = kernel.to_scipy()
    # The distribution of the recurrent pair in which the process settles.
    entered = (start + problem.discount * (steps.T @ only))[at]
    settled = (
        float((occupancy[at] * solution.ergodic.h).sum() - (entered * solution.ergodic.h).sum()) / problem.discount
    )
    moved = (steps @ solution.D[pairs.x, pairs.y])[before] - problem.unit_cost[rest.x, rest.y]
    return settled + float((visits[before] * moved).sum())


def _margin(problem: Problem, solution: Relative, often: NDArray[np.bool_], passed: NDArray[np.bool_]) -> Margin:
    """Margin to another coupling, in masses and in costs summed over time; at discount 1 D has infinite weight."""
    h = solution.ergodic.sweep.pairs.table(solution.ergodic.h)
    mass, cost = solution.ergodic.sweep.margins(h, np.append(often, False))
    first_mass, first_cost = solution.passing.margins(solution.D, np.append(passed, True))
    # At discount 1 any difference in D outweighs finite costs, so only ties of D count.
    per_time = 1.0 / (1.0 - problem.discount) if problem.discount < 1.0 else np.inf
    before = max(float(first_cost.min()), 0.0)
    least = min(float(cost.min()), before * per_time if before > 0.0 else 0.0)
    return Margin(min(float(mass.min()), float(first_mass.min())), problem.scale * max(least, 0.0))


def _potential(problem: Problem, solution: Relative) -> Floats:
    """V of the unit problem; at discount 1 only h, where it is defined."""
    if problem.discount < 1.0:
        return np.where(solution.pairs.index >= 0, solution.D / (1.0 - problem.discount), np.nan)
    return solution.ergodic.sweep.pairs.table(solution.ergodic.h, np.nan)


def _usual(problem: UnitProblem, pairs: Pairs) -> Floats:
    """Upper bound of the frequency of each pair: references are chosen among frequent pairs."""
    x, y = (reference_rows(transitions(support)) for support in (problem.support_x, problem.support_y))
    return np.minimum(x[pairs.x], y[pairs.y])
