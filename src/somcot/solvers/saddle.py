"""The paper's saddle point with full occupancies: deterministic, between SOMCOT and the exact solution.

Lower bound. A coupling with pair distribution m, whose marginals are the state occupancies nu_X and nu_Y, costs

    <m, c> = <m, c + g E[V'] - V> + (1 - g) E[V(first pair)]  >=  OT(nu_X, nu_Y; T V - V) + (1 - g) OT(initial; V)

for any V, by the flow constraint. If V is the potential of a saddle point, the right side is its value, even if
T V - V is far from 0 at pairs that no good coupling visits; the smallest residual used by `certificates` would be
dominated by those.

Upper bound. The coupling, rounded pair by pair to the exact marginals (the paper's r), is feasible; a linear system
gives its cost.

SOMCOT takes stochastic steps on the Lagrangian of Proposition 1. With the occupancies of known or estimated chains the
gradients are exact, and primal-dual hybrid gradient steps (`solvers.lagrangian`) converge to the distance of those
chains. Stopped at the level of the sampling noise instead, they estimate the distance with less upward bias than
solving to the end, with a downward bias on some families.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.certificates import bounds_from, centred, rounding
from somcot.chains import MarkovChain
from somcot.core.pairs import Pairs, reachable_pairs
from somcot.core.sweep import Sweep
from somcot.couplings import Coupling, Residuals, conditional, residuals
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_count, check_positive
from somcot.plumbing.linear_systems import Kernel, discounted_value
from somcot.plumbing.memory import require
from somcot.problem import Problem, UnitProblem
from somcot.result import Bounds, Details, Maps, Result, Status
from somcot.solvers.lagrangian import Layout, advance, start_point
from somcot.solvers.result_builder import plain_result, trace_arrays

__all__ = [
    "Round",
    "SaddleRun",
    "lower_bound",
    "n_cells",
    "noise_level",
    "rounds",
    "solve",
    "upper_bound",
    "value_bound",
]


# --- Bounds from a saddle point: a lower bound from its potential, an upper bound from its coupling

_EPS = float(np.finfo(np.float64).eps)
_FORBIDDEN = 10.0  # cost of unreachable pairs, in units of the range of the others; the bound holds for any value


def lower_bound(problem: Problem, pairs: Pairs, V: Floats) -> float:
    """Lower bound of the distance from a potential on the reachable pairs, on the unit-cost scale.

    Rounding is charged as in `certificates`; occupancies with a total error e cost at most e / 2 times the spread
    of the cost transported between them.
    """
    g = problem.discount
    V = centred(V)  # bounds hold for V plus any constant; a centred V has the least rounding
    improvement = Sweep(problem.unit, pairs).improve(pairs.table(V))
    residual = problem.unit_cost[pairs.x, pairs.y] + g * improvement.low[:-1] - V
    far = residual.max() + _FORBIDDEN * float(np.ptp(residual))
    # The occupancies as initial distributions of chains, so that a sweep can couple them.
    occupancies = [MarkovChain(c.transition, c.state_occupancy(g), normalize=True) for c in (problem.x, problem.y)]
    support_x, support_y = (chain.support for chain in occupancies)
    nothing = np.empty(0, dtype=np.int32)
    no_pairs = Pairs(nothing, nothing, np.full(problem.shape, -1, dtype=np.int32))
    between = Sweep(UnitProblem(support_x, support_y, problem.unit_cost, g), no_pairs)
    # Pairs that no coupling reaches get a high cost instead of being excluded; the optimum still bounds from below.
    least = between.improve(pairs.table(residual, far)).low[-1]
    off = sum(
        _occupancy_error(c, occupancy.initial, g)
        for c, occupancy in zip((problem.x, problem.y), occupancies, strict=True)
    )
    low = float(least + (1.0 - g) * improvement.low[-1]) - 4.0 * rounding(V) - off / 2.0 * float(far - residual.min())
    # A potential with infinities proves nothing: 0 always holds.
    return low if np.isfinite(low) else 0.0


def _occupancy_error(chain: MarkovChain, occupancy: Floats, discount: float) -> float:
    """Bound of the l1 error of a computed state occupancy: its flow residual over 1 - discount, including rounding.

    Each entry of the residual sums the terms of its column, and rows sum to 1 up to one rounding unit per entry.
    """
    n, support = chain.n_states, chain.support
    moved = np.append(discount * occupancy, 1.0 - discount)[support.rows] * support.probabilities
    flow = np.bincount(support.indices, moved, n) - occupancy  # in order: the bits of BLAS depend on the machine
    longest = max(int(np.bincount(support.indices, minlength=n).max()), support.max_row)
    # One rounding per term of a row or column, with a factor of safety.
    slack = 4.0 * _EPS * (longest + 2) + 4.0 * _EPS
    return (float(np.abs(flow).sum()) * (1.0 + n * _EPS) + slack) / (1.0 - discount)


def upper_bound(problem: Problem, pairs: Pairs, layout: Layout, mu: Floats) -> float:
    """Upper bound of the distance from an approximate coupling of the layout's cells, on the unit-cost scale.

    T does not increase the value V of the rounded coupling, so the sweep of `certificates` proves it.
    """
    kernel = Kernel(layout.cells, layout.following.astype(np.int32), rounded(layout, mu))
    V = discounted_value(kernel, layout.cost, problem.discount)[: len(pairs)]
    return value_bound(problem, pairs, V)


def value_bound(problem: Problem, pairs: Pairs, V: Floats) -> float:
    """Upper bound of the distance from the value of any feasible coupling, on the unit-cost scale."""
    V = centred(V)
    improvement = Sweep(problem.unit, pairs).improve(pairs.table(V))
    return bounds_from(problem.discount, V, problem.unit_cost[pairs.x, pairs.y], improvement).high


def rounded(layout: Layout, mu: Floats) -> Floats:
    """The transition coupling of `mu` with marginals P(.|x) and Q(.|y) at every pair (`couplings.round_to_marginals`).

    The product of the two if `mu` has no mass.
    """
    pair = np.repeat(np.arange(len(layout.cost)), np.diff(layout.cells))
    pair_mass = np.bincount(pair, mu, len(layout.cost))[pair]
    product = layout.kernel_x[layout.row] * layout.kernel_y[layout.column]
    # Conditional on the pair; without mass the independent coupling is as good as any.
    plan = np.divide(mu, pair_mass, out=product, where=pair_mass > 0)
    for slot, marginal in ((layout.row, layout.kernel_x), (layout.column, layout.kernel_y)):
        sums = _sums(slot, plan, marginal)
        with np.errstate(over="ignore"):  # factors above 1 become 1
            plan *= np.minimum(np.divide(marginal, sums, out=np.ones_like(sums), where=sums > 0), 1.0)[slot]
    missing_x = np.maximum(layout.kernel_x - _sums(layout.row, plan, layout.kernel_x), 0.0)
    missing_y = np.maximum(layout.kernel_y - _sums(layout.column, plan, layout.kernel_y), 0.0)
    # By exact arithmetic both sides miss the same total, so one of them normalises the product.
    total = np.add.reduceat(missing_x, layout.offset_x[:-1].astype(np.int64))[pair]
    missing = missing_x[layout.row] * missing_y[layout.column]
    filled: Floats = plan + np.divide(missing, total, out=np.zeros_like(plan), where=total > 0)
    return filled


def _sums(slot: NDArray[np.uint32], plan: Floats, like: Floats) -> Floats:
    sums: Floats = np.bincount(slot.astype(np.int64), plan, len(like)).astype(np.float64)
    return sums


# --- The primal-dual iteration

PRIMAL_STEP = 0.3
DUAL_STEP = 0.83  # primal_step * dual_step = 1/4: columns of the constraints have norm at most 2
FIRST_ROUND = 500
_TARGET = 10.0  # width of the bracket, in units of the tolerance, that counts as converged
_WORK = 3_000_000  # cells per slice: about 50 ms


class Round(NamedTuple):
    """The average of one round of steps: total number of steps, its distance, its total violation (l1).

    `bounds` computes its bounds, by two exact sweeps and a linear system.
    """

    n_steps: int
    distance: float
    violation: float
    coupling: Coupling
    maps: Maps
    V: Floats
    residuals: Residuals
    bounds: Callable[[], Bounds]


def solve(
    problem: Problem,
    *,
    max_steps: int = 32_000,
    tolerance: float = 1e-3,
    primal_step: float = PRIMAL_STEP,
    dual_step: float = DUAL_STEP,
) -> Result:
    """Solve by deterministic primal-dual steps.

    Parameters
    ----------
    problem : Problem
    max_steps : int
        Maximum number of steps. Rounds of 500, 1000, 2000, ... steps are run, and the points of each are averaged.
    tolerance : float
        Stop after a round whose average violates the constraints by less than this in total (l1).
    primal_step, dual_step : float
        In units of the range of the cost; their product should be at most 1/4.

    Returns
    -------
    Result
        The bounds are proved by the averaged potential and coupling alone (`lower_bound`, `upper_bound`); the distance
        is the cost of the averaged coupling, moved to the nearer bound if constraint violation puts it outside.

    Examples
    --------
    >>> import somcot
    >>> x, y = somcot.MarkovChain([[0.5, 0.5], [0.0, 1.0]]), somcot.MarkovChain([[0.4, 0.6], [0.0, 1.0]])
    >>> result = solve(Problem(x, y, [[0, 1], [1, 0]], 0.5))
    >>> result.bounds.low <= result.distance <= result.bounds.high < result.bounds.low + 0.01
    True
    """
    began = time.perf_counter()
    max_steps = check_count("max_steps", max_steps)
    for name, value in (("tolerance", tolerance), ("primal_step", primal_step), ("dual_step", dual_step)):
        check_positive(name, value)
    trace: dict[str, list[float]] = {"step": [], "distance": [], "violation": []}
    last: Round | None = None
    status = Status.STEP_LIMIT
    try:
        for last in rounds(problem, max_steps=max_steps, primal_step=primal_step, dual_step=dual_step):
            trace["step"].append(last.n_steps)
            trace["distance"].append(last.distance)
            trace["violation"].append(last.violation)
            if last.violation <= tolerance:
                status = Status.CONVERGED
                break
    except KeyboardInterrupt:
        if last is None:
            raise
        status = Status.INTERRUPTED
    assert last is not None
    return _result(problem, last, trace, status, tolerance, began)


def rounds(
    problem: Problem, *, max_steps: int, primal_step: float = PRIMAL_STEP, dual_step: float = DUAL_STEP
) -> Iterator[Round]:
    """Rounds of 500, 500, 1000, 2000, ... steps, each as long as all before it together. Parameters as for `solve`."""
    run = SaddleRun(problem)
    n_steps = 0
    while n_steps < max_steps:
        # Doubling: the average of the last round forgets the first
        # half of the run, and the total work is at most doubled.
        length = min(max(n_steps, FIRST_ROUND), max_steps - n_steps)
        run.round(length, primal_step, dual_step)
        # Counted over all rounds, as users count them.
        n_steps += length
        yield run.average(n_steps)


def n_cells(problem: Problem) -> int:
    """Number of pairs of transitions that some coupling can use: the work of one step."""
    pairs = reachable_pairs(problem.unit)
    rows, columns = np.diff(problem.x.support.indptr), np.diff(problem.y.support.indptr)
    return int(rows[pairs.x] @ columns[pairs.y])


def noise_level(chain: MarkovChain, n_transitions: int, discount: float) -> float:
    """Expected l1 error of the occupancy frequencies of this many independent transitions."""
    nu = chain.occupancy(discount)
    values = nu if isinstance(nu, np.ndarray) else nu.data
    # The mean absolute value of a normal variable is sqrt(2 / pi) times its standard deviation.
    return float(np.sqrt(2.0 / np.pi) * np.sqrt(values * (1.0 - values) / max(n_transitions, 1)).sum())


class SaddleRun:
    """The iteration on one problem. General initial distributions use one extra initial state on each side."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        # A single initial pair needs no extra state.
        self.extra = int((problem.x.initial > 0).sum() * (problem.y.initial > 0).sum() > 1)
        self.pairs = reachable_pairs(problem.unit)
        self.layout = self._lay_out()
        self.point = start_point(self.layout)
        self.n_averaged = 0

    def _lay_out(self) -> Layout:
        problem, pairs, g = self.problem, self.pairs, self.problem.discount
        x, y = problem.x.support, problem.y.support
        n_x, n_y = problem.shape
        pair_x, pair_y = pairs.x, pairs.y
        if self.extra:
            pair_x, pair_y = np.append(pair_x, np.int32(n_x)), np.append(pair_y, np.int32(n_y))
        rows, columns = np.diff(x.indptr)[pair_x], np.diff(y.indptr)[pair_y]
        cells = _offsets(rows * columns)
        n_cells = int(cells[-1])
        require(
            120.0 * n_cells,  # measured peak, while the layout is built
            f"the saddle point on {len(pair_x):,} state pairs with {n_cells:,} pairs of transitions",
            "use method='exact'",
        )
        pair = np.repeat(np.arange(len(pair_x)), rows * columns)
        # Cells of a pair are numbered row by row.
        place = np.arange(n_cells) - cells[pair]
        slot_x = x.indptr[pair_x[pair]] + place // columns[pair]
        slot_y = y.indptr[pair_y[pair]] + place % columns[pair]
        weight = g if self.extra else 1.0  # the extra state takes the first step, which delays the rest by one step
        mass_x, mass_y = (weight * chain.state_occupancy(g) for chain in (problem.x, problem.y))
        start = np.zeros(len(pair_x))
        first = len(pairs) if self.extra else pairs.index[problem.x.initial.argmax(), problem.y.initial.argmax()]
        start[first] = 1.0
        return Layout(
            pair_x,
            pair_y,
            _offsets(rows).astype(np.uint64),
            _offsets(columns).astype(np.uint64),
            cells,
            (_offsets(rows)[pair] + place // columns[pair]).astype(np.uint32),
            (_offsets(columns)[pair] + place % columns[pair]).astype(np.uint32),
            pairs.index[x.indices[slot_x], y.indices[slot_y]].astype(np.uint32),
            _per_row(x.indptr, x.probabilities, pair_x),
            _per_row(y.indptr, y.probabilities, pair_y),
            np.append(mass_x, 1.0 - g)[pair_x],
            np.append(mass_y, 1.0 - g)[pair_y],
            np.append(problem.unit_cost[pairs.x, pairs.y], np.zeros(self.extra)),
            start,
            n_x + 1,
            n_y + 1,
        )

    def round(self, n_steps: int, primal_step: float, dual_step: float) -> None:
        """One round; the average contains only its points."""
        for total in (self.point.sum_mu, self.point.sum_lambda_x, self.point.sum_lambda_y, self.point.sum_V):
            total[:] = 0.0
        # Short calls, so that Ctrl-C is noticed between them.
        at_once = max(1, _WORK // max(int(self.layout.cells[-1]), 1))
        for begin in range(0, n_steps, at_once):
            steps = min(at_once, n_steps - begin)
            advance(self.layout, self.point, self.problem.discount, primal_step, dual_step, steps, True)
        self.n_averaged = n_steps

    def average(self, n_steps: int) -> Round:
        """The averaged point, without the extra state."""
        problem, pairs, n = self.problem, self.pairs, len(self.pairs)
        # The extra state holds mass 1 - discount.
        weight = self.problem.discount if self.extra else 1.0
        mu = self.point.sum_mu / self.n_averaged
        inside = int(self.layout.cells[n])
        now = np.repeat(np.arange(n), np.diff(self.layout.cells)[:n])
        following = self.layout.following[:inside]
        first = np.zeros(problem.shape)
        if self.extra:
            begin = mu[inside:] / max(mu[inside:].sum(), 1e-300)
            np.add.at(first, (pairs.x[self.layout.following[inside:]], pairs.y[self.layout.following[inside:]]), begin)
        else:
            first[problem.x.initial.argmax(), problem.y.initial.argmax()] = 1.0
        coupling = Coupling(
            problem.shape,
            pairs.x[now],
            pairs.y[now],
            pairs.x[following],
            pairs.y[following],
            # Without the step from the extra state the mass is discount; divided by it the coupling has mass 1.
            mu[:inside] / weight,
            first,
        )
        encoder, decoder = np.zeros(problem.shape), np.zeros(problem.shape)
        encoder[pairs.x, pairs.y] = self.point.sum_lambda_x[:n] / self.n_averaged
        decoder[pairs.x, pairs.y] = self.point.sum_lambda_y[:n] / self.n_averaged
        maps = Maps(conditional(encoder), conditional(decoder.T))
        nu_x, nu_y = problem.x.occupancy(problem.discount), problem.y.occupancy(problem.discount)
        # With the averaged maps, not those of the coupling: this is what the iteration violates.
        residual = residuals(coupling, nu_x, nu_y, problem.discount, maps.encoder, maps.decoder)
        potential = np.full(problem.shape, np.nan)
        potential[pairs.x, pairs.y] = self.point.sum_V[:n] / self.n_averaged
        value = problem.to_user(float((coupling.state_law() * problem.unit_cost).sum()))
        proved = partial(self._bounds, mu, potential[pairs.x, pairs.y])
        return Round(n_steps, value, float(sum(residual)), coupling, maps, potential, residual, proved)

    def _bounds(self, mu: Floats, V: Floats) -> Bounds:
        """Bounds from the averaged point, by its potential and coupling alone."""
        low = max(lower_bound(self.problem, self.pairs, V), 0.0)
        high = upper_bound(self.problem, self.pairs, self.layout, mu)
        return Bounds(*(float(end) for end in self.problem.bounds_to_user(low, max(low, high))))


def _result(
    problem: Problem, last: Round, trace: dict[str, list[float]], status: Status, tolerance: float, began: float
) -> Result:
    proved = last.bounds()
    width, rounding = proved.high - proved.low, 4.0 * float(np.spacing(np.abs(problem.cost).max()))
    # A small violation alone does not make a converged run: its bracket has to be narrow too.
    if status is Status.CONVERGED and width > _TARGET * tolerance * problem.scale + rounding:
        status = Status.STEP_LIMIT
    steps, violation = last.n_steps, last.violation
    bracket = f"the bracket is {width / problem.scale:.1g} of the cost range wide"
    ended = {
        Status.CONVERGED: f"violation {violation:.2g} after {steps} steps, tolerance {tolerance:.2g}",
        Status.STEP_LIMIT: f"violation {violation:.2g} after {steps} steps, tolerance {tolerance:.2g}; raise max_steps"
        + (" and lower tolerance, since the bounds are too wide" if violation <= tolerance else ""),
        Status.INTERRUPTED: f"interrupted at violation {violation:.2g} after {steps} steps",
    }[status]
    details = Details(
        bounds=proved, maps=last.maps, potential=problem.potential_to_user(last.V),
        state_law=last.coupling.state_law(), residuals=last.residuals, trace=trace_arrays(trace), plan=last.coupling,
    )  # fmt: skip
    return plain_result(
        problem, details, distance=min(max(last.distance, proved.low), proved.high), method="saddle", status=status,
        message=f"Primal-dual steps on the saddle point: {ended}; {bracket}.", n_steps=steps, began=began,
    )  # fmt: skip


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _per_row(indptr: NDArray[np.int64], values: Floats, rows: NDArray[np.int32]) -> Floats:
    """The entries of these rows, one row after the other."""
    lengths = np.diff(indptr)[rows]
    ends = np.cumsum(lengths)
    place = np.arange(int(ends[-1])) - np.repeat(ends - lengths, lengths) + np.repeat(indptr[rows], lengths)
    taken: Floats = values[place]
    return taken
