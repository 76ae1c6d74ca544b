"""Total cost until both processes have been absorbed: no discount, no horizon.

On transient pairs V = c + discount * OT(V), with V fixed on all others. Every coupling leaves these pairs, so every
policy has a value, even at discount 1.

For the total cost V = c + OT(V), with V = 0 once both chains are absorbed. Every state leads to an absorbing one, so
every coupling ends; the bracket is that of transient pairs (`certificates`, 8).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.certificates import Settled, rounding, transient_bounds
from somcot.chains import MarkovChain
from somcot.contributions import ContributionInputs
from somcot.core.pairs import (
    PairChoice,
    Pairs,
    absorption_times,
    chain_classes,
    choose,
    expected_time,
    pairs_where,
    transitions,
)
from somcot.core.sweep import Sweep
from somcot.couplings import Coupling, Residuals, residuals
from somcot.derivatives import Gradient, Margin, row_gradient
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_count
from somcot.plumbing.linear_systems import Kernel, discounted_value, reachable
from somcot.plumbing.notes import Note
from somcot.problem import Problem
from somcot.result import Bounds, Details, Result, Status
from somcot.solvers.policy_iteration import TARGET
from somcot.solvers.result_builder import (
    PROMISED,
    coupling_of,
    law_maps,
    plain_result,
    sweeps_message,
    trace_arrays,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "absorb",
    "anywhere",
    "merged",
    "metric",
    "solve",
]


# --- Transient pairs: their value by policy iteration, and its bracket

_EPS = float(np.finfo(np.float64).eps)


def absorb(sweep: Sweep, V: Floats, cost: Floats, discount: float, first: Settled, max_sweeps: int) -> Settled:
    """Solve for V on the pairs of a sweep, whose steps lead to its targets; returns a bracket of the initial value.

    Parameters
    ----------
    sweep : Sweep
    V : ndarray, shape (n_x, n_y)
        Known on the targets that are not pairs of the sweep, a guess on the others; modified in place.
    cost : ndarray, shape (n_pairs,)
        Cost of a visit.
    discount : float
        At most 1.
    first : Settled
        Initial values: the bracket, the expected absorption time, and the error of `V` outside.
    max_sweeps : int
    """
    pairs, best = sweep.pairs, first
    for step in range(max_sweeps):
        improvement = sweep.improve(V)
        slack = first.slack + rounding(V)
        latest = transient_bounds(discount, cost, V[pairs.x, pairs.y], improvement, first._replace(slack=slack))
        best = best.tighter(latest)
        if len(pairs) == 0 or (step > 0 and improvement.changed == 0):
            break
        # Values decrease from policy to policy; when they no longer do, rounding only changes ties.
        if _evaluate(sweep, V, cost, discount) <= 64.0 * _EPS * (1.0 + float(np.abs(V).max())) and step > 0:
            break
    return best


def anywhere(sweep: Sweep, V: Floats, cost: Floats, discount: float, slack: float, longest: float) -> float:
    """Width of the bracket from the worst pair; `longest` bounds the time to absorption from every pair."""
    pairs = sweep.pairs
    known = Settled(Bounds(-np.inf, np.inf), longest, slack + rounding(V))
    return transient_bounds(discount, cost, V[pairs.x, pairs.y], sweep.improve(V), known).width


def merged(n: int, *parts: tuple[NDArray[np.int32], Kernel]) -> Kernel:
    """One square kernel from blocks of rows, each with the positions of its rows; all other rows are empty."""
    # Rows that belong to no block stay empty: their value is the right-hand side itself.
    lengths = np.zeros(n, dtype=np.int64)
    for places, block in parts:
        lengths[places] = np.diff(block.indptr)
    indptr = np.append(0, np.cumsum(lengths))
    indices, data = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1])
    for places, block in parts:
        sizes = np.diff(block.indptr)
        # The k-th entry of a block goes to the k-th place of its row, wherever that row is.
        spots = np.repeat(indptr[places] - block.indptr[:-1], sizes) + np.arange(len(block.indices))
        indices[spots], data[spots] = block.indices, block.data
    return Kernel(indptr, indices, data)


def _evaluate(sweep: Sweep, V: Floats, cost: Floats, discount: float) -> float:
    """Write the value of the current plans to V; return the largest change. Non-finite values are not written."""
    pairs, targets = sweep.pairs, sweep.targets
    places = targets.index[pairs.x, pairs.y]
    values = V[targets.x, targets.y]
    # On fixed pairs the equation reads V = value: their rows are empty.
    values[places] = cost
    kernel = merged(len(targets), (places, sweep.kernel()[0]))
    value = discounted_value(kernel, values, discount, V[targets.x, targets.y])[places]
    before = V[pairs.x, pairs.y]
    V[pairs.x, pairs.y] = np.where(np.isfinite(value), value, before)
    return float(np.abs(V[pairs.x, pairs.y] - before).max())


# --- Total cost

_EPS = float(np.finfo(np.float64).eps)


class _Total(NamedTuple):
    """The solution in units of the largest cost: V on all pairs, and the sweep of the transient pairs."""

    pairs: Pairs
    sweep: Sweep
    V: Floats
    settled: Settled
    longest: float  # time to absorption from the worst pair


def solve(
    problem: Problem, *, pairs: PairChoice = "reachable", threads: int | None = None, max_sweeps: int = 200
) -> Result:
    """The minimum expected total cost until both chains have been absorbed.

    The state law is the expected number of visits to each pair before that, the potential the total from each pair.

    Examples
    --------
    >>> import somcot
    >>> from somcot.clocks import Clock
    >>> x, y = (somcot.MarkovChain([[p, 1 - p], [0.0, 1.0]]) for p in (0.5, 0.75))
    >>> round(solve(Problem(x, y, [[0, 1], [1, 0]], Clock("total"))).distance, 6)
    2.0
    """
    began = time.perf_counter()
    solution = _solution(problem, pairs, threads, max_sweeps)
    kernel, start = solution.sweep.kernel()
    places = solution.pairs.index[solution.sweep.pairs.x, solution.sweep.pairs.y]
    full = merged(len(solution.pairs), (places, kernel))
    visits = np.zeros(len(solution.pairs))
    # Absorbing pairs are visited infinitely often, but their visits cost nothing and are not counted.
    visits[places] = _visits(full, start)[places]
    coupling = coupling_of(problem.shape, solution.pairs, full, visits, start)
    # A total has no offset, so scaling is the only operation to undo.
    low, high = (float(problem.scale * end) for end in solution.settled.bounds)
    visit_table = solution.pairs.table(visits)
    n_sweeps = solution.settled.n_sweeps
    details = Details(
        bounds=Bounds(float(np.nextafter(low, -np.inf)), float(np.nextafter(high, np.inf))),
        maps=law_maps(visit_table),
        potential=np.where(solution.pairs.index >= 0, problem.scale * solution.V, np.nan),
        state_law=visit_table,
        residuals=_residuals(problem, coupling, visit_table, solution),
        trace=trace_arrays({"step": np.arange(1.0, n_sweeps + 1)}),
        plan=coupling,
        gradient=_gradient(problem, solution, visits),
        makeup=ContributionInputs.known(problem.cost, problem.x.support, problem.y.support),
    )
    status, message = _ending(solution)
    return plain_result(
        problem, details, distance=min(max(float((visit_table * problem.cost).sum()), low), high), method="exact",
        status=status, message=message, n_steps=n_sweeps, began=began,
    )  # fmt: skip


def metric(problem: Problem, *, threads: int | None = None, max_sweeps: int = 200) -> tuple[Floats, float]:
    """The total cost from every pair of states, (n_x, n_y), and the widest bracket relative to the largest of them."""
    solution = _solution(problem, "all", threads, max_sweeps)
    rest, V = solution.sweep.pairs, solution.V
    width = anywhere(solution.sweep, V, problem.unit.cost[rest.x, rest.y], 1.0, 0.0, solution.longest)
    return problem.scale * V, width / _size(V)


def _solution(problem: Problem, choice: PairChoice, threads: int | None, max_sweeps: int) -> _Total:
    check_count("max_sweeps", max_sweeps)
    unit = problem.unit
    chains = [transitions(support) for support in (unit.support_x, unit.support_y)]
    ended, unmet = zip(
        *(
            _ended(name, chain, kernel, everywhere=choice == "all")
            for name, chain, kernel in zip("xy", (problem.x, problem.y), chains, strict=True)
        ),
        strict=True,
    )
    pairs = choose(unit, choice)
    # Pairs are done when both sides are absorbed, not when one is.
    rest = pairs_where((pairs.index >= 0) & ~(ended[0][:, None] & ended[1]))
    # States that are never met may never end; no time is spent in them.
    over = [done | never for done, never in zip(ended, unmet, strict=True)]
    times = [absorption_times(kernel, done, 1.0) for kernel, done in zip(chains, over, strict=True)]
    steps = expected_time(unit.support_x, times[0]) + expected_time(unit.support_y, times[1])
    sweep, V = Sweep(unit, rest, threads, targets=pairs), np.zeros(problem.shape)
    nothing = Settled(Bounds(-np.inf, np.inf), steps, 0.0)
    settled = absorb(sweep, V, unit.cost[rest.x, rest.y], 1.0, nothing, max_sweeps)
    return _Total(pairs, sweep, V, settled, float(times[0].max() + times[1].max()))


def _ended(
    name: str, chain: MarkovChain, kernel: Kernel, *, everywhere: bool
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which states are absorbing, and which are never met; refuses chains that may never be absorbed."""
    classes = chain_classes(kernel)
    stays = np.zeros(kernel.n)
    rows = np.repeat(np.arange(kernel.n), np.diff(kernel.indptr))
    np.add.at(stays, rows[rows == kernel.indices], kernel.data[rows == kernel.indices])
    # Absorbing: the only successor is the state itself. Larger recurrent classes never end.
    alone = classes.recurrent & (np.diff(kernel.indptr) == 1) & (stays > 0)
    met = np.ones(kernel.n, dtype=np.bool_) if everywhere else reachable(kernel, chain.initial)
    endless = np.flatnonzero(classes.recurrent & ~alone & met)
    if endless.size:
        state = chain.states[int(endless[0])]
        n = int((classes.component == classes.component[endless[0]]).sum())
        raise ValueError(Note("never-ends", name, state=repr(state), n=n))
    return np.asarray(alone), ~met


def _visits(kernel: Kernel, start: Floats) -> Floats:
    """Expected visits to each pair, except absorbing ones (their rows are empty)."""
    # Rows of absorbing pairs are empty, so the sum over time is finite.
    visits = np.maximum(discounted_value(kernel.transpose(), start, 1.0), 0.0)
    return np.where(reachable(kernel, start), visits, 0.0)


def _gradient(problem: Problem, solution: _Total, visits: Floats) -> Gradient:
    rest = solution.sweep.pairs
    weight = np.append(visits[solution.pairs.index[rest.x, rest.y]], 1.0)
    slots_x, slots_y = solution.sweep.potential_sums(solution.V, weight)
    mass, cost = solution.sweep.margins(solution.V, weight > 0.0)
    return Gradient(
        row_gradient(problem.x, slots_x, problem.scale),
        row_gradient(problem.y, slots_y, problem.scale),
        solution.pairs.table(visits),
        np.where(solution.pairs.index >= 0, problem.scale * solution.V, np.nan),
        np.nan,
        Margin(float(mass.min()), problem.scale * max(float(cost.min()), 0.0)),
    )


def _residuals(problem: Problem, coupling: Coupling, law: Floats, solution: _Total) -> Residuals:
    """Flow on the transient pairs; causality with the visits of this coupling, whose number it determines."""
    sides = (law.sum(axis=1), law.sum(axis=0))
    nu = [_weighted(chain, side) for chain, side in zip((problem.x, problem.y), sides, strict=True)]
    _, causal_x, causal_y = residuals(coupling, nu[0], nu[1], 1.0)
    goes_on = solution.sweep.pairs.index >= 0
    flow = np.abs(law - coupling.next_law() - coupling.start)[goes_on].sum()
    return Residuals(float(flow), causal_x, causal_y)


def _weighted(chain: MarkovChain, weight: Floats) -> Floats | csr_array:
    kernel = chain.transition
    if isinstance(kernel, np.ndarray):
        return np.asarray(weight[:, None] * kernel)
    rows: csr_array = kernel.copy()
    rows.data = rows.data * np.repeat(weight, np.diff(rows.indptr))
    return rows


def _ending(solution: _Total) -> tuple[Status, str]:
    width = solution.settled.width
    allowed = max(TARGET, min(PROMISED, 64.0 * _EPS * (1.0 + solution.settled.time)))
    status = Status.CONVERGED if width <= allowed * _size(solution.V) else Status.ROUNDING
    return status, sweeps_message(status, width, solution.settled.n_sweeps, "largest cost")


def _size(V: Floats) -> float:
    """What widths are relative to: totals have no fixed range."""
    return 1.0 + float(np.abs(V).max())
