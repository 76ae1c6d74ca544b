"""Finite horizons, with kernels and costs that may change with time: one backward pass, without iteration.

V_{T-1} = c_{T-1} and V_t = c_t + OT(P_t, Q_t; V_{t+1}); the distance is OT(initial distributions; V_0) / T. Every
sweep bounds its transport problems, and the errors accumulate from the end to the start:

    low_t = V_t - e_t,    e_t = e_{t+1} + max(V_t - c_t - low OT(V_{t+1})) + rounding,    and similarly above,

since OT is 1-Lipschitz in its costs. A forward pass then follows the plans, which the same sweeps compute again.
If kernels are constant, the coupling of the Result is the mean over the T times of (pair, next pair); the step
after the last time costs nothing, so any plan is optimal for it.
"""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from somcot.certificates import rounding
from somcot.chains import MarkovChain, Support
from somcot.clocks import Clock
from somcot.contributions import ContributionInputs
from somcot.core.pairs import Pairs, pairs_where, reachable_pairs
from somcot.core.sweep import Sweep
from somcot.couplings import Coupling, Residuals
from somcot.derivatives import Gradient, Margin, TimeGradient, row_gradient, rows_centred
from somcot.plumbing.arrays import Floats
from somcot.plumbing.linear_systems import Kernel
from somcot.plumbing.memory import require
from somcot.problem import UnitProblem
from somcot.result import Bounds, Details, Result, Status
from somcot.solvers.result_builder import judged, law_maps, trace_arrays
from somcot.timed import TimeChain

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["Finite", "metric", "solve"]

_KEPT = 2e8  # approximate maximum size in bytes of all bases, to keep them for the forward pass
Chain = MarkovChain | TimeChain


@dataclass(frozen=True, eq=False)
class Finite:
    """A problem with a horizon: two chains and a cost for each of the times 0, ..., T - 1."""

    x: Chain
    y: Chain
    costs: tuple[Floats, ...]

    @property
    def n_times(self) -> int:
        """The horizon T."""
        return len(self.costs)

    @cached_property
    def offset(self) -> float:
        """The smallest cost over all times."""
        return min(float(cost.min()) for cost in self.costs)

    @cached_property
    def scale(self) -> float:
        """The range of the costs; their magnitude if they are constant, or 1 if they are 0."""
        # One scale for all times, so that costs of different times stay comparable.
        most = max(float(cost.max()) for cost in self.costs)
        return most - self.offset or abs(most) or 1.0

    @property
    def repeats(self) -> bool:
        """Whether both kernels are constant."""
        return isinstance(self.x, MarkovChain) and isinstance(self.y, MarkovChain)

    def unit_cost(self, t: int) -> Floats:
        """The cost of time t, shifted and scaled to [0, 1]."""
        return np.ascontiguousarray((self.costs[t] - self.offset) / self.scale)

    def step(self, t: int) -> UnitProblem:
        """The transport problems of the step from t to t + 1."""
        # The horizon replaces discounting.
        return UnitProblem(_support(self.x, t), _support(self.y, t), self.unit_cost(t), 1.0)


@dataclass(eq=False)
class _Sweeps:
    """The sweep of each step; if nothing changes with time, a single sweep with its bases."""

    problem: Finite
    pairs: list[Pairs]
    threads: int | None
    known: dict[int, Sweep] = field(default_factory=dict)

    @cached_property
    def small(self) -> bool:
        """Whether the bases of all steps fit into memory."""
        chains = self.problem.x, self.problem.y
        entries = [
            len(pairs) * sum(_width(_support(chain, t)) for chain in chains) for t, pairs in enumerate(self.pairs[:-1])
        ]
        # About 100 bytes per arc.
        return 100.0 * sum(entries) <= _KEPT

    def sweep(self, t: int) -> Sweep:
        """The sweep of the step from time t."""
        # Bases of one step are the warm start of the next, since costs change little from one time to the next.
        place = 0 if self.problem.repeats else t
        if place not in self.known:
            if not self.problem.repeats and not self.small:
                self.known.clear()  # bases of many steps would fill the memory; recomputing takes one more sweep
            # After the last time any plan is optimal, so its steps may lead anywhere.
            following = self.pairs[min(t + 1, len(self.pairs) - 1)]
            self.known[place] = Sweep(self.problem.step(t), self.pairs[t], self.threads, targets=following)
        return self.known[place]


class _Backward(NamedTuple):
    """Result of the backward pass: V of every time, on the unit-cost scale, and its error bounds."""

    V: list[Floats]
    below: float
    above: float


def solve(x: Chain, y: Chain, costs: tuple[Floats, ...], *, threads: int | None = None) -> Result:
    """The minimum mean cost over the first T times, with its bracket, coupling and gradient."""
    began = time.perf_counter()
    problem = Finite(x, y, costs)
    steps = _Sweeps(problem, _reached(problem), threads)
    back = _backward(problem, steps)
    forward = _forward(problem, steps, back)
    T, scale, offset = problem.n_times, problem.scale, problem.offset
    low, high = (offset + scale * end / T for end in forward.ends)
    # Outward by one unit, for the rounding of the scaling itself.
    low, high = float(np.nextafter(low, -np.inf)), float(np.nextafter(high, np.inf))
    least, most = offset, max(float(cost.max()) for cost in costs)
    # The distance lies within the range of the cost whatever the rounding.
    bounds = Bounds(min(max(low, least), most), max(min(high, most), least))
    # The cost of the coupling itself: exact if it visits pairs of minimal cost only.
    value = float(sum((law * cost).sum() for law, cost in zip(forward.laws, costs, strict=True)) / T)
    labels = [_union(chain, T) for chain in (x, y)]
    law = _together(problem, forward.laws, labels) / T
    potential = np.full((len(labels[0]), len(labels[1])), np.nan)
    start = steps.pairs[0]
    V = start.table(back.V[0][start.x, start.y], np.nan) * scale + T * offset
    # States of time 0 come first among all labels, so the table is a corner.
    potential[: V.shape[0], : V.shape[1]] = V
    details = Details(
        bounds=bounds, maps=law_maps(law), potential=potential, state_law=law,
        residuals=_residuals(problem, forward.laws), trace=trace_arrays({"step": [float(T)]}), plan=forward.plan,
        gradient=_gradient(problem, forward, V / T) if problem.repeats else None, makeup=_makeup(problem),
    )  # fmt: skip
    width = (bounds.high - bounds.low) / scale
    return Result(
        distance=min(max(value, bounds.low), bounds.high),
        method="exact",
        status=judged(Status.CONVERGED, width),
        message=f"Solved exactly: the bracket is {width:.1g} of the cost range wide after {T} steps.",
        discount=1.0,
        n_steps=T,
        seconds=time.perf_counter() - began,
        states_x=labels[0],
        states_y=labels[1],
        time_gradient=None if problem.repeats else _time_gradient(problem, forward, V / T),
        clock=Clock("horizon", float(T)),
        details=details,
    )


def _makeup(problem: Finite) -> ContributionInputs | None:
    """Inputs of contributions; they sum to the distance if the cost is constant."""
    cost = problem.costs[0]
    if not (isinstance(problem.x, MarkovChain) and isinstance(problem.y, MarkovChain)):
        return None
    if any(other is not cost and not np.array_equal(other, cost) for other in problem.costs):
        return None
    return ContributionInputs.known(cost, problem.x.support, problem.y.support)


def metric(x: Chain, y: Chain, costs: tuple[Floats, ...], *, threads: int | None = None) -> tuple[Floats, float]:
    """The mean cost over the first T times from every pair of states at time 0, and its widest bracket per range."""
    problem = Finite(x, y, costs)
    # All pairs at every time: the table is requested for all of them.
    everything = [pairs_where(np.ones(cost.shape, dtype=np.bool_)) for cost in costs]
    back = _backward(problem, _Sweeps(problem, everything, threads))
    table = problem.offset + problem.scale * back.V[0] / problem.n_times
    width = (back.below + back.above) / problem.n_times
    return np.clip(table, problem.offset, max(float(cost.max()) for cost in costs)), width


def _backward(problem: Finite, steps: _Sweeps) -> _Backward:
    T = problem.n_times
    require(8.0 * sum(cost.size for cost in problem.costs), f"tables of {T} times", "choose a shorter horizon")
    V = [problem.unit_cost(t) for t in range(T)]
    # Each table of unit costs has one rounding of the subtraction and one of the division.
    below = above = 4.0 * np.finfo(np.float64).eps  # rounding of the unit cost
    for t in reversed(range(T - 1)):
        pairs, cost = steps.pairs[t], V[t][steps.pairs[t].x, steps.pairs[t].y]
        improvement = steps.sweep(t).improve(np.ascontiguousarray(V[t + 1]))
        now = cost + improvement.value[:-1]
        charged = rounding(now)
        # The worst pair of each step bounds the error of all pairs: errors add up over time, not over pairs.
        below += max(float((now - (cost + improvement.low[:-1])).max()), 0.0) + charged
        above += max(float((cost + improvement.high[:-1] - now).max()), 0.0) + charged
        V[t] = pairs.table(now)
    return _Backward(V, below, above)


class _Forward(NamedTuple):
    """Result of the forward pass: the distribution of pairs at every time, bounds of the total, kernel slopes."""

    laws: list[Floats]
    ends: tuple[float, float]
    slots_x: list[Floats]
    slots_y: list[Floats]
    margin: Margin
    plan: Coupling | None


def _forward(problem: Finite, steps: _Sweeps, back: _Backward) -> _Forward:
    """Follow the plans from the initial pairs; at discount 1 the weight of a pair is its probability."""
    T = problem.n_times
    start = _start(problem, steps, back)
    laws, slots_x, slots_y, margin = [start.law], [start.slots[0]], [start.slots[1]], start.margin
    joint = None
    for t in range(T - 1):
        pairs, sweep = steps.pairs[t], steps.sweep(t)
        V = np.ascontiguousarray(back.V[t + 1])
        # Solved again: one sweep serves all times if nothing changes, and bases of other times may have been dropped.
        sweep.improve(V)
        kernel, _ = sweep.kernel()
        now = laws[-1][pairs.x, pairs.y]
        sums = sweep.potential_sums(V, np.append(now, 0.0))
        margin = _least(margin, sweep.margins(V, np.append(now > 0.0, False)))
        slots_x.append(sums[0])
        slots_y.append(sums[1])
        # Joint mass of (pair, next pair) at time t.
        rows = np.repeat(now, np.diff(kernel.indptr)) * kernel.data
        following = np.bincount(kernel.indices, weights=rows, minlength=len(sweep.targets))
        laws.append(sweep.targets.table(np.asarray(following, dtype=np.float64)))
        if problem.repeats:
            joint = _added(joint, kernel, rows)
    plan = _coupling(problem, steps, back, joint, laws) if problem.repeats else None
    return _Forward(laws, start.ends, slots_x, slots_y, margin, plan)


def _added(joint: csr_array | None, kernel: Kernel, mass: Floats) -> csr_array:
    """Sum joint steps of several times."""
    from scipy.sparse import csr_array

    shape = (kernel.n, kernel.n)
    total = csr_array((mass, kernel.indices.copy(), kernel.indptr.copy()), shape=shape)
    return total if joint is None else csr_array(joint + total)


def _coupling(
    problem: Finite, steps: _Sweeps, back: _Backward, joint: csr_array | None, laws: list[Floats]
) -> Coupling:
    """The mean over time of (pair, next pair); after the last time with the plans of the preceding step."""
    pairs, sweep, T = steps.pairs[0], steps.sweep(0), problem.n_times
    if T == 1:
        # With a single time no step was solved yet.
        sweep.improve(np.ascontiguousarray(back.V[0]))
    kernel, _ = sweep.kernel()
    rows = np.repeat(laws[-1][pairs.x, pairs.y], np.diff(kernel.indptr)) * kernel.data
    entries = _added(joint, kernel, rows).tocoo()
    keep = entries.data > 0
    now, following, mass = entries.row[keep], entries.col[keep], entries.data[keep] / T
    return Coupling(
        problem.costs[0].shape, pairs.x[now], pairs.y[now], pairs.x[following], pairs.y[following], mass, laws[0]
    )


def _least(margin: Margin, minima: tuple[Floats, Floats]) -> Margin:
    """The smaller parts of two margins."""
    return Margin(min(margin.mass, float(minima[0].min())), min(margin.cost, max(float(minima[1].min()), 0.0)))


class _Start(NamedTuple):
    law: Floats
    ends: tuple[float, float]
    slots: tuple[Floats, Floats]
    margin: Margin


def _start(problem: Finite, steps: _Sweeps, back: _Backward) -> _Start:
    """The coupling of the initial distributions against V_0: one transport problem."""
    n_x, n_y = problem.costs[0].shape
    # The initial distributions are the only "row" of these supports, so one sweep solves a single problem.
    supports = [_start_only(chain.initial) for chain in (problem.x, problem.y)]
    unit = UnitProblem(supports[0], supports[1], np.zeros((1, 1)), 1.0)
    none = Pairs(np.zeros(0, np.int32), np.zeros(0, np.int32), np.full((1, 1), -1, np.int32))
    everything = pairs_where(np.ones((n_x, n_y), dtype=np.bool_))
    sweep = Sweep(unit, none, 1, targets=everything)
    V = np.ascontiguousarray(back.V[0])
    improvement = sweep.improve(V)
    charged = rounding(improvement.high)
    ends = float(improvement.low[-1]) - back.below - charged, float(improvement.high[-1]) + back.above + charged
    margin = _least(Margin(1.0, np.inf), sweep.margins(V, np.ones(1, dtype=np.bool_)))
    return _Start(everything.table(sweep.kernel()[1]), ends, sweep.potential_sums(V, np.ones(1)), margin)


def _start_only(initial: Floats) -> Support:
    """A support of one state with a self-loop, and the initial distribution as its last row."""
    first = np.flatnonzero(initial)
    return Support(
        np.array([0, 1, 1 + len(first)], dtype=np.int64),
        np.append(0, first).astype(np.int32),
        np.append(1.0, initial[first]),
    )


def _support(chain: Chain, t: int) -> Support:
    return chain.support if isinstance(chain, MarkovChain) else chain.support(t)


def _width(support: Support) -> float:
    """Mean number of successors."""
    return float(support.indptr[-2]) / (len(support.indptr) - 2)


def _reached(problem: Finite) -> list[Pairs]:
    """The pairs that any coupling can reach at each time (if nothing changes with time: at any time)."""
    if problem.repeats:
        # With constant kernels the union over time is enough, and one sweep serves all times.
        return [reachable_pairs(problem.step(0))] * problem.n_times
    mask = np.outer(problem.x.initial > 0, problem.y.initial > 0)
    reached = [pairs_where(mask)]
    for t in range(problem.n_times - 1):
        steps_x, steps_y = (_edges(chain, t) for chain in (problem.x, problem.y))
        # Reachability by Boolean products, computed with floats: counts stay far below 2^53.
        half = steps_x.T @ mask.astype(np.float64)
        mask = np.asarray((steps_y.T @ half.T).T) > 0
        reached.append(pairs_where(mask))
    return reached


def _edges(chain: Chain, t: int) -> csr_array:
    from scipy.sparse import csr_array

    kernel = csr_array(chain.transition if isinstance(chain, MarkovChain) else chain.transitions[t], copy=True)
    kernel.data = (kernel.data > 0).astype(np.float64)
    return kernel


def _union(chain: Chain, n_times: int) -> tuple[Hashable, ...]:
    """All labels of a chain up to the horizon, those of time 0 first."""
    if isinstance(chain, MarkovChain):
        return chain.states
    return tuple(dict.fromkeys(label for level in chain.states[:n_times] for label in level))


def _together(problem: Finite, tables: list[Floats], labels: list[tuple[Hashable, ...]]) -> Floats:
    """Sum tables of all times, each placed by its labels."""
    total = np.zeros((len(labels[0]), len(labels[1])))
    if problem.repeats:
        return np.asarray(np.sum(tables, axis=0))
    places = [{label: i for i, label in enumerate(side)} for side in labels]
    for t, table in enumerate(tables):
        at = [
            [place[label] for label in (chain.states if isinstance(chain, MarkovChain) else chain.states[t])]
            for place, chain in zip(places, (problem.x, problem.y), strict=True)
        ]
        total[np.ix_(at[0], at[1])] += table
    return total


def _residuals(problem: Finite, laws: list[Floats]) -> Residuals:
    """Mean absolute difference between the marginals of the coupling and the chains' distributions, time by time."""
    T = len(laws)
    chain_laws = [_own_laws(chain, T) for chain in (problem.x, problem.y)]
    gaps = [
        sum(
            float(np.abs(law.sum(axis=1 - axis) - side).sum()) for law, side in zip(laws, chain_laws[axis], strict=True)
        )
        / T
        for axis in range(2)
    ]
    return Residuals(sum(abs(float(law.sum()) - 1.0) for law in laws) / T, gaps[0], gaps[1])


def _own_laws(chain: Chain, n_times: int) -> list[Floats]:
    laws = [np.asarray(chain.initial)]
    for t in range(n_times - 1):
        kernel = chain.transition if isinstance(chain, MarkovChain) else chain.transitions[t]
        # The chain's own distribution at time t + 1, which the marginals of the coupling must equal.
        laws.append(np.asarray(kernel.T @ laws[-1]))
    return laws


def _gradient(problem: Finite, forward: _Forward, initial: Floats) -> Gradient:
    """If nothing changes with time: slopes summed over all steps, and of a cost that is added at every time."""
    T = problem.n_times
    sides = [
        # The first slots belong to the initial row only; the others to the rows of the kernel.
        row_gradient(chain, np.sum([_padded(chain.support, slots[0]), *slots[1:]], axis=0), problem.scale / T)
        for chain, slots in zip((problem.x, problem.y), (forward.slots_x, forward.slots_y), strict=True)
        if isinstance(chain, MarkovChain)
    ]
    margin = forward.margin._replace(cost=problem.scale * forward.margin.cost)
    return Gradient(sides[0], sides[1], np.asarray(np.sum(forward.laws, axis=0)) / T, initial, np.nan, margin)


def _padded(support: Support, slots: Floats) -> Floats:
    """Slopes of the initial row, padded to all rows."""
    return np.append(np.zeros(int(support.indptr[-2])), slots[1:])


def _time_gradient(problem: Finite, forward: _Forward, initial: Floats) -> TimeGradient:
    T = problem.n_times
    kernels, starts = [], []
    for axis, (chain, slots) in enumerate(((problem.x, forward.slots_x), (problem.y, forward.slots_y))):
        sizes = [cost.shape[axis] for cost in problem.costs]
        steps = [rows_centred(_support(chain, t), slots[t + 1], problem.scale / T) for t in range(T - 1)]
        kernels.append(tuple(_matrix(_support(chain, t), steps[t], sizes[t + 1]) for t in range(T - 1)))
        first = rows_centred(_start_only(chain.initial), slots[0], problem.scale / T)
        values = np.zeros(len(chain.initial))
        values[np.flatnonzero(chain.initial)] = first[1:]
        starts.append(values)
    return TimeGradient(
        kernels[0], kernels[1], tuple(values / T for values in forward.laws), initial, starts[0], starts[1]
    )


def _matrix(support: Support, values: Floats, n_columns: int) -> Floats:
    """Numbers per entry of one step, without the initial row, as a dense matrix."""
    from scipy.sparse import csr_array

    n = int(support.indptr[-2])
    shape = len(support.indptr) - 2, n_columns
    return np.asarray(csr_array((values[:n], support.indices[:n], support.indptr[:-1]), shape=shape).toarray())
