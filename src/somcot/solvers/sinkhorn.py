"""Sinkhorn value iteration: the paper's ground truth (Calo et al. 2024), an upper bound with a proved error.

Every sweep replaces the exact transport problem of each pair by a few Sinkhorn steps at temperature epsilon, in the log
domain and warm-started from the last sweep, and takes one Bellman step with these plans. Epsilon falls geometrically
to its final value. At the end the plans are rounded to exact marginals (the paper's appendix) and evaluated exactly, so
the value is the cost of a feasible coupling: never below the distance. One exact Bellman sweep bounds the difference.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from somcot.certificates import bounds_from
from somcot.compile.jit import kernel, part
from somcot.compile.simd_math import exp, log
from somcot.core.pairs import PairChoice, Pairs, choose, cut, in_slices, thread_count
from somcot.core.sweep import Sweep
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_count, check_positive
from somcot.plumbing.linear_systems import Kernel, relative_value
from somcot.plumbing.memory import require
from somcot.problem import Problem
from somcot.result import Result, Status
from somcot.solvers.result_builder import CouplingDetails, build_result, occupancy_coupling

__all__ = [
    "SinkhornPlans",
    "round_entries",
    "rounded_plan",
    "sinkhorn_steps",
    "solve",
]


# --- Entropic transport for many pairs: Sinkhorn steps in the log domain, and rounding to exact marginals


@kernel(name="Sinkhorn steps", seconds=2)
def sinkhorn_steps(lo, hi, V, pair_x, pair_y, x, y, epsilon, offset_x, offset_y, F, G, max_steps, tolerance, value):
    """Up to `max_steps` Sinkhorn steps for pairs lo..hi-1 against the cost V at temperature epsilon.

    The plan of pair k is exp((F_i + G_j - V_ij) / epsilon); F and G (from ``offset_x[k]`` and ``offset_y[k]`` on) are
    the warm start and are updated. ``value[k]`` receives the mean cost of the plan. Returns the largest marginal error.
    """
    worst = 0.0
    for k in range(lo, hi):
        x0, x1 = x.indptr[pair_x[k]], x.indptr[pair_x[k] + 1]
        y0, y1 = y.indptr[pair_y[k]], y.indptr[pair_y[k] + 1]
        C = np.empty((x1 - x0, y1 - y0))
        for i in range(x1 - x0):
            for j in range(y1 - y0):
                # Everything is divided by epsilon once, so that the inner loops have no division.
                C[i, j] = V[x.indices[x0 + i], y.indices[y0 + j]] / epsilon
        f, g = np.empty(x1 - x0), np.empty(y1 - y0)
        for i in range(f.size):
            f[i] = F[offset_x[k] + i] / epsilon
        for j in range(g.size):
            g[j] = G[offset_y[k] + j] / epsilon
        p, q = x.probabilities[x0:x1], y.probabilities[y0:y1]
        turned, scratch = _turned(C), np.empty((2, max(x1 - x0, y1 - y0)))
        error = np.inf
        for _ in range(max_steps):
            # Columns before rows: the error of the columns is measured where the rows are exact.
            error = _scale_columns(C, f, g, q, scratch)
            if error <= tolerance:
                break
            _scale_columns(turned, g, f, p, scratch)
        _scale_columns(turned, g, f, p, scratch)  # the rows are exact, with or without convergence
        plan = np.empty_like(C)
        for i in range(f.size):
            for j in range(g.size):
                plan[i, j] = exp(min(f[i] + g[j] - C[i, j], 0.0))  # a row sums to at most 1, apart from rounding
        # The rounded plan is feasible after any number of steps: values are never below the exact ones.
        rounded, mean = rounded_plan(plan, p, q), 0.0
        for i in range(f.size):
            for j in range(g.size):
                mean += rounded[i, j] * C[i, j]
        value[k] = epsilon * mean
        for i in range(f.size):
            F[offset_x[k] + i] = f[i] * epsilon
        for j in range(g.size):
            G[offset_y[k] + j] = g[j] * epsilon
        worst = max(worst, error)
    return worst


@part
def _scale_columns(C, f, g, q, scratch):
    """Set g so that column j of exp(f_i + g_j - C_ij) sums to q_j; returns the previous l1 error.

    The loop is over rows, across all columns: vector code in which every sum keeps its order.
    """
    n, m = C.shape
    largest, total = scratch[0], scratch[1]
    for j in range(m):
        largest[j], total[j] = -np.inf, 0.0
    for i in range(n):
        for j in range(m):
            largest[j] = max(largest[j], f[i] - C[i, j])
    for i in range(n):
        for j in range(m):
            total[j] += exp(f[i] - C[i, j] - largest[j])
    error = 0.0
    for j in range(m):
        level = largest[j] + log(total[j])
        # 700 is just below the overflow of exp.
        error += abs(exp(min(g[j] + level, 700.0)) - q[j])
        g[j] = log(q[j]) - level
    return error


@kernel
def round_entries(lo, hi, V, pair_x, pair_y, x, y, epsilon, offset_x, offset_y, F, G, ptr, index, indices, data):
    """Write the plans of pairs lo..hi-1, rounded to their marginals, as rows over pairs from ``ptr[k]`` on."""
    for k in range(lo, hi):
        x0, x1 = x.indptr[pair_x[k]], x.indptr[pair_x[k] + 1]
        y0, y1 = y.indptr[pair_y[k]], y.indptr[pair_y[k] + 1]
        plan = np.empty((x1 - x0, y1 - y0))
        for i in range(x1 - x0):
            for j in range(y1 - y0):
                slack = F[offset_x[k] + i] + G[offset_y[k] + j] - V[x.indices[x0 + i], y.indices[y0 + j]]
                plan[i, j] = exp(min(slack / epsilon, 0.0))
        plan = rounded_plan(plan, x.probabilities[x0:x1], y.probabilities[y0:y1])
        t = ptr[k]
        for i in range(x1 - x0):
            for j in range(y1 - y0):
                indices[t] = index[x.indices[x0 + i], y.indices[y0 + j]]
                data[t] = plan[i, j]
                t += 1


@kernel
def rounded_plan(plan, p, q):
    """The symmetric rounding of the paper's appendix."""
    # Rows first and columns first, averaged: the rounding then treats X and Y alike.
    other = _rounded(_turned(plan), q, p)
    out = _rounded(plan, p, q)
    for i in range(p.size):
        for j in range(q.size):
            out[i, j] = (out[i, j] + other[j, i]) / 2.0
    return out


@kernel
def _turned(table):
    """The transpose, as a contiguous array."""
    n, m = table.shape
    out = np.empty((m, n))
    for i in range(n):
        for j in range(m):
            out[j, i] = table[i, j]
    return out


@kernel
def _rounded(plan, p, q):
    """Scale down rows, then columns, that exceed their marginals; add the missing mass as a product.

    Written as loops, because sums and products of slices take much longer to compile.
    """
    n, m = plan.shape
    out, rows, columns = np.empty((n, m)), np.empty(n), np.empty(m)
    for i in range(n):
        total = 0.0
        for j in range(m):
            total += plan[i, j]
        factor = p[i] / total if total > p[i] else 1.0  # only scaled down; what is missing is added below
        for j in range(m):
            out[i, j] = plan[i, j] * factor
    _sum_columns(out, columns)
    for j in range(m):
        columns[j] = q[j] / columns[j] if columns[j] > q[j] else 1.0
    for i in range(n):
        for j in range(m):
            out[i, j] *= columns[j]
    total = 0.0
    for i in range(n):
        rows[i] = 0.0
        for j in range(m):
            rows[i] += out[i, j]
        rows[i] = max(p[i] - rows[i], 0.0)
        total += rows[i]
    _sum_columns(out, columns)
    if total > 0.0:
        for i in range(n):
            for j in range(m):
                out[i, j] += rows[i] * max(q[j] - columns[j], 0.0) / total
    return out


@kernel
def _sum_columns(table, total):
    for j in range(total.size):
        total[j] = 0.0
    for i in range(table.shape[0]):
        for j in range(total.size):
            total[j] += table[i, j]


# --- Sinkhorn value iteration

_SLICE = 20_000  # cells per slice, and
_STEPS = 50  # Sinkhorn steps per call: about 50 ms, so that signals are handled
_COOLING = 0.9
_POLISH = 40  # factor by which the last plans get more steps
_COLDEST = 1e-200  # a temperature below every difference of floats at which no potential overflows
_TARGET = 10.0  # width of the bracket, in units of epsilon + tolerance, that counts as converged
_AT_ONCE = 3_000_000  # cells of plans that are finished (in half a second) after Ctrl-C; larger ones are not


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
        Final temperature, relative to the range of the cost. Smaller values are more accurate and slower.
    tolerance : float
        Stop when a sweep changes the potential by less than this, relative to the range of the cost (not counting a
        constant shift).
    max_sweeps : int
        Maximum number of sweeps.
    inner_steps : int
        Maximum number of Sinkhorn steps per pair and sweep.
    pairs, threads
        As for the exact solver.

    Examples
    --------
    >>> import somcot
    >>> x, y = somcot.MarkovChain([[0.5, 0.5], [0.0, 1.0]]), somcot.MarkovChain([[0.4, 0.6], [0.0, 1.0]])
    >>> result = solve(Problem(x, y, [[0, 1], [1, 0]], 0.5))
    >>> result.bounds.low <= result.distance <= result.bounds.high < result.bounds.low + 0.01
    True
    """
    began = time.perf_counter()
    for name, number in (("epsilon", epsilon), ("tolerance", tolerance)):
        check_positive(name, number)
    inner_steps = check_count("inner_steps", inner_steps)
    plans = SinkhornPlans(problem, choose(problem.unit, pairs), thread_count(threads))
    status = Status.STEP_LIMIT
    try:
        for _ in range(check_count("max_sweeps", max_sweeps)):
            # Slow cooling keeps the warm start of the previous temperature close.
            plans.temperature = max(plans.temperature * _COOLING, epsilon, _COLDEST)
            spread = plans.bellman_step(inner_steps, tolerance)
            if plans.temperature <= max(epsilon, _COLDEST) and spread <= tolerance:
                status = Status.CONVERGED
                break
        plans.transport(_POLISH * inner_steps, tolerance)
    except KeyboardInterrupt:
        # Rounding and evaluating very large plans takes minutes, too long after Ctrl-C.
        if plans.cells[-1] > _AT_ONCE:
            raise
        status = Status.INTERRUPTED
    return _finish(problem, plans, status, _TARGET * (epsilon + tolerance), began)


@dataclass(eq=False)
class SinkhornPlans:
    """The entropic plans of all pairs, the initial distributions last: potentials F and G against the costs V."""

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
            66.0 * n_cells,  # measured peak, when plans become a coupling
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
        """Sinkhorn steps for every pair against V; stores the values of the rounded plans in `value`."""
        # A pair of long rows is a separate slice: then with fewer steps per call.
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
        """One sweep; returns the change of the potential apart from a constant shift."""
        self.transport(inner_steps, tolerance)
        discount = self.problem.discount
        V = self.V[self.pairs.x, self.pairs.y]
        change = self.cost + discount * self.value[:-1] - V
        spread = float(change.max() - change.min())
        # Most of a Bellman step is a constant shift that would continue forever; take all of it in one step.
        shift = discount / (1.0 - discount) * float(change.max() + change.min()) / 2.0
        self.V[self.pairs.x, self.pairs.y] = V + change + shift
        self.trace["step"].append(len(self.trace["step"]) + 1)
        self.trace["distance"].append((1.0 - discount) * float(self.value[-1]) + (1.0 / discount - 1.0) * shift)
        self.trace["change"].append(spread)
        self.trace["epsilon"].append(self.temperature)
        return spread

    def rounded_kernel(self) -> tuple[Kernel, Floats]:
        """The plans rounded to exact marginals: the transition coupling over pairs and the initial distribution."""
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


def _finish(problem: Problem, plans: SinkhornPlans, status: Status, target: float, began: float) -> Result:
    """Round the plans, evaluate them exactly, and bracket the distance by one exact Bellman sweep."""
    pairs, discount = plans.pairs, problem.discount
    kernel, start = plans.rounded_kernel()
    W, gain = relative_value(kernel, plans.cost, discount, plans.V[pairs.x, pairs.y])
    # W is the value of a feasible coupling, so one exact sweep against it brackets the distance.
    bounds = bounds_from(discount, W, plans.cost, Sweep(problem.unit, pairs, plans.threads).improve(pairs.table(W)))
    width = bounds.high - bounds.low
    wide = status is Status.CONVERGED and width > target
    ended = {
        Status.CONVERGED: f"Sinkhorn sweeps converged at epsilon {plans.temperature:.1g}"
        + (f", but the bracket is {width:.1g} of the cost range wide; raise inner_steps" if wide else ""),
        Status.INTERRUPTED: f"Interrupted at epsilon {plans.temperature:.1g}",
        Status.STEP_LIMIT: f"The limit of sweeps was reached at epsilon {plans.temperature:.1g}; raise max_sweeps",
    }[status]
    message = f"{ended}. The value is an upper bound, at most {problem.scale * width:.2g} above the distance."
    status = Status.STEP_LIMIT if wide else status
    V = pairs.table(W + gain / (1.0 - discount), np.nan)
    details = CouplingDetails(problem, occupancy_coupling(problem, pairs, kernel, start), V)
    return build_result(
        problem, details, unit_bounds=bounds, method="sinkhorn", status=status, message=message,
        n_steps=len(plans.trace["step"]), began=began, trace=plans.trace,
    )  # fmt: skip
