"""Sinkhorn value iteration: the paper's own ground truth (Calo et al. 2024), an upper bound with a stated error.

Every sweep replaces the exact transport problem of each pair by a few Sinkhorn steps at temperature epsilon, in the log
domain and from where the last sweep ended, and takes one Bellman step with the plans found. Epsilon falls geometrically
to its final value. At the end the plans are rounded to exact marginals (the paper's appendix) and evaluated exactly, so
the value is the cost of a feasible coupling: never below the distance. One exact Bellman sweep says how far above.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from somcot.bellman.pairs import PairChoice, Pairs, choose
from somcot.bellman.slices import cut, in_slices, thread_count
from somcot.bellman.sweep import Sweep
from somcot.certificates import bounds_from
from somcot.plumbing.arrays import Floats
from somcot.plumbing.discounting import Kernel, relative_value
from somcot.plumbing.memory import require
from somcot.plumbing.validation import check_count, check_positive
from somcot.problem import Problem
from somcot.result import Result, Status
from somcot.solvers.assemble import Ending, assemble_coupling, occupancy_coupling
from somcot.solvers.sinkhorn.kernel import round_entries, sinkhorn_steps

__all__ = ["solve"]

_SLICE = 20_000  # cells per slice, and
_STEPS = 50  # Sinkhorn steps at a time: about 50 ms, so that signals get through
_COOLING = 0.9
_POLISH = 40  # how many times more steps the last plans get
_COLDEST = 1e-200  # a temperature that is 0 for every difference of floats, and that no potential overflows by
_TARGET = 10.0  # width of the bracket, in units of epsilon + tolerance, that counts as converged
_AT_ONCE = 3_000_000  # cells of plans that are finished within half a second after Ctrl-C; larger ones are given up


def solve(
    problem: Problem,
    *,
    epsilon: float = 1e-3,
    tolerance: float = 1e-4,
    max_sweeps: int = 5000,
    inner_steps: int = 50,
    pairs: PairChoice = "reachable",
    threads: int | None = None,
) -> Result:
    """Solve by Sinkhorn value iteration.

    Parameters
    ----------
    problem : Problem
    epsilon : float
        Final temperature, relative to the range of the cost. Smaller is closer to the exact distance and slower.
    tolerance : float
        Stop when a sweep moves the potential by less than this, relative to the range of the cost (a constant shift
        does not count).
    max_sweeps : int
        Sweeps to allow.
    inner_steps : int
        Sinkhorn steps per pair and sweep, at most.
    pairs, threads
        As for the exact solver.
    """
    began = time.perf_counter()
    for name, number in (("epsilon", epsilon), ("tolerance", tolerance)):
        check_positive(name, number)
    inner_steps = check_count("inner_steps", inner_steps)
    plans = _Plans(problem, choose(problem.unit, pairs), thread_count(threads))
    status = Status.STEP_LIMIT
    try:
        for _ in range(check_count("max_sweeps", max_sweeps)):
            plans.temperature = max(plans.temperature * _COOLING, epsilon, _COLDEST)
            spread = plans.bellman_step(inner_steps, tolerance)
            if plans.temperature <= max(epsilon, _COLDEST) and spread <= tolerance:
                status = Status.CONVERGED
                break
        plans.transport(_POLISH * inner_steps, tolerance)
    except KeyboardInterrupt:
        if plans.cells[-1] > _AT_ONCE:
            raise
        status = Status.INTERRUPTED
    return _finish(problem, plans, status, _TARGET * (epsilon + tolerance), began)


@dataclass(eq=False)
class _Plans:
    """The entropic plans of all pairs, the start laws last: potentials F and G against the table V of costs."""

    problem: Problem
    pairs: Pairs
    threads: int
    temperature: float = 1.0
    trace: dict[str, list[float]] = field(
        default_factory=lambda: {"step": [], "distance": [], "change": [], "epsilon": []}
    )

    def __post_init__(self) -> None:
        n_x, n_y = self.problem.shape
        self.pair_x = np.append(self.pairs.x, np.int32(n_x))
        self.pair_y = np.append(self.pairs.y, np.int32(n_y))
        rows = np.diff(self.problem.x.support.indptr)[self.pair_x]
        columns = np.diff(self.problem.y.support.indptr)[self.pair_y]
        n_cells = int((rows * columns).sum())
        require(
            66.0 * n_cells,  # measured at the peak, when plans become a coupling
            f"Sinkhorn plans on {len(self.pairs):,} state pairs with {n_cells:,} entries",
            "use method='exact', whose plans are sparse",
        )
        self.offset_x, self.offset_y, self.cells = _offsets(rows), _offsets(columns), _offsets(rows * columns)
        self.slices = cut(rows * columns + 4, _SLICE)
        self.cost = np.ascontiguousarray(self.problem.unit_cost[self.pairs.x, self.pairs.y])
        self.V = np.zeros(self.problem.shape)
        self.V[self.pairs.x, self.pairs.y] = self.cost
        self.F, self.G = np.zeros(int(rows.sum())), np.zeros(int(columns.sum()))
        self.value = np.empty(len(rows))

    def transport(self, max_steps: int, tolerance: float) -> None:
        """Sinkhorn steps for every pair against V; leaves the values of the rounded plans in `value`."""
        # A pair of long rows is a slice of its own: fewer steps at a time then.
        at_once = max(1, min(_STEPS, _STEPS * _SLICE // int(np.diff(self.cells).max())))
        for begin in range(0, max_steps, at_once):
            run = partial(self._steps, steps=min(at_once, max_steps - begin), tolerance=tolerance)
            if max(in_slices(run, self.slices, self.threads)) <= tolerance:
                break

    def _steps(self, lo: int, hi: int, *, steps: int, tolerance: float) -> float:
        """A few steps for some pairs; returns their largest marginal error."""
        common = (self.V, self.pair_x, self.pair_y, self.problem.x.support, self.problem.y.support, self.temperature)
        potentials = (self.offset_x, self.offset_y, self.F, self.G)
        error: float = sinkhorn_steps(lo, hi, *common, *potentials, steps, tolerance, self.value)
        return error

    def bellman_step(self, inner_steps: int, tolerance: float) -> float:
        """One sweep; returns how unevenly it moved the potential."""
        self.transport(inner_steps, tolerance)
        discount = self.problem.discount
        V = self.V[self.pairs.x, self.pairs.y]
        change = self.cost + discount * self.value[:-1] - V
        spread = float(change.max() - change.min())
        # Most of a Bellman step is a constant shift that would go on for ever; take all of it at once.
        shift = discount / (1.0 - discount) * float(change.max() + change.min()) / 2.0
        self.V[self.pairs.x, self.pairs.y] = V + change + shift
        self.trace["step"].append(len(self.trace["step"]) + 1)
        self.trace["distance"].append((1.0 - discount) * float(self.value[-1]) + (1.0 / discount - 1.0) * shift)
        self.trace["change"].append(spread)
        self.trace["epsilon"].append(self.temperature)
        return spread

    def rounded_kernel(self) -> tuple[Kernel, Floats]:
        """The plans rounded to exact marginals: the transition coupling over pairs and the law of the first pair."""
        indices, data = np.empty(int(self.cells[-1]), dtype=np.int32), np.empty(int(self.cells[-1]))
        common = (self.V, self.pair_x, self.pair_y, self.problem.x.support, self.problem.y.support, self.temperature)
        potentials = (self.offset_x, self.offset_y, self.F, self.G)

        def run(lo: int, hi: int) -> float:
            round_entries(lo, hi, *common, *potentials, self.cells, self.pairs.index, indices, data)
            return 0.0

        in_slices(run, self.slices, self.threads)
        n = len(self.pairs)
        start = np.zeros(n)
        start[indices[self.cells[n] :]] = data[self.cells[n] :]
        return Kernel(self.cells[: n + 1], indices[: self.cells[n]], data[: self.cells[n]]), start


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _finish(problem: Problem, plans: _Plans, status: Status, target: float, began: float) -> Result:
    """Round the plans, evaluate them exactly, and bracket the truth by one exact Bellman sweep."""
    pairs, discount = plans.pairs, problem.discount
    kernel, start = plans.rounded_kernel()
    W, gain = relative_value(kernel, plans.cost, discount, plans.V[pairs.x, pairs.y])
    bounds = bounds_from(discount, W, plans.cost, Sweep(problem.unit, pairs, plans.threads).improve(pairs.table(W)))
    width = bounds.high - bounds.low
    wide = status is Status.CONVERGED and width > target
    ended = {
        Status.CONVERGED: f"Sinkhorn sweeps settled at epsilon {plans.temperature:.1g}"
        + (f", but prove the value to {width:.1g} of the cost range only; raise inner_steps" if wide else ""),
        Status.INTERRUPTED: f"Interrupted at epsilon {plans.temperature:.1g}",
        Status.STEP_LIMIT: f"The limit of sweeps was reached at epsilon {plans.temperature:.1g}; raise max_sweeps",
    }[status]
    message = f"{ended}. The value is an upper bound, at most {problem.scale * width:.2g} above the distance."
    status = Status.STEP_LIMIT if wide else status
    ending = Ending("sinkhorn", status, message, len(plans.trace["step"]), began, plans.trace)
    V = pairs.table(W + gain / (1.0 - discount), np.nan)
    return assemble_coupling(problem, occupancy_coupling(problem, pairs, kernel, start), V, bounds, ending)
