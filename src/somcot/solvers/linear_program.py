"""The distance as a linear program, solved by SciPy's HiGHS: an independent check of the other solvers.

Both programs have a variable mu(x, y, x', y') >= 0 for every reachable pair and every pair of successors, a coupling of
the initial distributions, and the flow constraint. They differ in how they express that mu is causal:

* "lambda", Proposition 1 of the paper: sum_y' mu = nu_X(x, x') lambda_X(y | x), with the conditional distributions
  lambda as separate variables for X and for Y. No kernel appears, only occupancies. The column of lambda_X(y | x) is
  scaled by nu_X(x), because HiGHS reports the program infeasible if rarely visited states have tiny coefficients.
* "kernel", Calo et al. 2024: sum_y' mu = P_X(x' | x) s(x, y), with s(x, y) the mass of the pair.

HiGHS treats coefficients below 1e-9 as 0 and refuses those above 1e15: probabilities below 1e-18 are left out of the
program. Its solution is bracketed for the full problem, from its dual prices and its coupling alone.
"""

from __future__ import annotations

import time
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.certificates import bounds_from
from somcot.chains import MarkovChain
from somcot.core.pairs import Pairs, reachable_pairs
from somcot.core.sweep import Sweep
from somcot.couplings import Coupling, round_to_marginals
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_number
from somcot.plumbing.errors import NotSolvedError
from somcot.plumbing.linear_systems import Kernel, relative_value
from somcot.plumbing.memory import require
from somcot.problem import Problem
from somcot.result import Bounds, Result, Status
from somcot.solvers.result_builder import CouplingDetails, build_result, judged
from somcot.solvers.saddle import lower_bound, value_bound

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["MAX_VARIABLES", "solve"]

MAX_VARIABLES = 30_000
_NEGLIGIBLE = 1e-18  # smaller probabilities are left out of the program
_TOLERANCES = (1e-10, 1e-7)  # of HiGHS: its smallest and its default
_BYTES = 2000  # per variable, including HiGHS and its factorisation (1,700 to 1,900 measured)

Formulation = Literal["lambda", "kernel"]
Integers = NDArray[np.int64]


class _LpSide(NamedTuple):
    """One chain's part in each variable mu: its causality row, and its coefficient there."""

    row: Integers
    pair: Integers
    weight: Floats
    n_rows: int


class _Variables(NamedTuple):
    """One entry per variable mu: its pair, its next pair, and the positions of the two successors in the supports."""

    pair: Integers
    following: Integers
    slot_x: Integers
    slot_y: Integers


def solve(problem: Problem, *, formulation: Formulation = "lambda", time_limit: float = 60.0) -> Result:
    """Solve by linear programming.

    Parameters
    ----------
    problem : Problem
        Refused above `MAX_VARIABLES` variables.
    formulation : {"lambda", "kernel"}
        The paper's program without kernels, or the earlier one with kernels.
    time_limit : float
        Time limit of HiGHS in seconds.

    Examples
    --------
    >>> import somcot
    >>> x, y = somcot.MarkovChain([[0.5, 0.5], [0.0, 1.0]]), somcot.MarkovChain([[0.4, 0.6], [0.0, 1.0]])
    >>> round(solve(Problem(x, y, [[0, 1], [1, 0]], 0.5)).distance, 6)
    0.041667
    """
    began = time.perf_counter()
    if not check_number("time_limit", time_limit) > 0:
        raise ValueError(f"time_limit: found {time_limit}, expected a positive number of seconds")
    if formulation not in ("lambda", "kernel"):
        raise ValueError(f"formulation: found {formulation!r}, expected 'lambda' or 'kernel'")
    pairs = reachable_pairs(problem.unit)
    cells = _cells(problem, pairs)
    starts = np.argwhere(np.outer(problem.x.initial >= _NEGLIGIBLE, problem.y.initial >= _NEGLIGIBLE))
    objective, matrix, right = _program(problem, pairs, cells, starts, formulation)
    answer = _highs(objective, matrix, right, time_limit)
    # Duals of the flow rows, which come first in the matrix.
    # The cost is at least 0, so 0 is a lower bound of the potential, and so is the maximum of two lower bounds.
    V = np.maximum(np.asarray(answer.eqlin.marginals[: len(pairs)]), 0.0)
    coupling = _coupling(problem, pairs, cells, starts, np.maximum(answer.x, 0.0))
    bounds = _bounds(problem, pairs, V, cells, np.maximum(answer.x, 0.0))
    width = bounds.high - bounds.low
    status = judged(Status.CONVERGED, width)
    message = f"HiGHS on the {formulation} program with {len(objective):,} variables: {answer.message.strip()}"
    if status is not Status.CONVERGED:
        message += f" Its bracket is {width:.1g} of the cost range wide; method='exact' is more accurate."
    details = CouplingDetails(problem, coupling, pairs.table(V, np.nan))
    return build_result(
        problem, details, unit_bounds=bounds, method="lp", status=status, message=message, n_steps=int(answer.nit),
        began=began,
    )  # fmt: skip


def _highs(objective: Floats, matrix: csr_array, right: Floats, time_limit: float) -> Any:
    """Interior point for large programs, dual simplex for small ones and if interior point fails.

    If both fail at the tightest tolerance, they run at the default: the bracket shows the accuracy of the solution.
    """
    from scipy.optimize import linprog

    deadline = time.monotonic() + time_limit
    methods = ("highs-ipm", "highs-ds") if len(objective) > 3000 else ("highs-ds", "highs-ipm")
    # Every method at the tight tolerance before any at the loose one.
    for tolerance, method in product(_TOLERANCES, methods):
        options = {
            "time_limit": max(deadline - time.monotonic(), 0.1),
            "primal_feasibility_tolerance": tolerance,
            "dual_feasibility_tolerance": tolerance,
        }
        answer: Any = linprog(objective, A_eq=matrix, b_eq=right, bounds=(0, None), method=method, options=options)
        if answer.status == 0:
            return answer
        # A failure at the deadline is a timeout, not a property of the program.
        if time.monotonic() >= deadline:
            break
    why, remedy = answer.message.strip().removesuffix("."), "use method='exact'"
    if answer.status == 1 and time.monotonic() >= deadline:
        why, remedy = f"within {time_limit:g} s", "raise time_limit or use method='exact'"
    raise NotSolvedError(f"lp: HiGHS found no optimum of {len(objective):,} variables ({why}); {remedy}")


def _cells(problem: Problem, pairs: Pairs) -> _Variables:
    """Number the variables mu, without negligible transitions; refuse programs that are too large."""
    support_x, support_y = problem.x.support, problem.y.support
    rows, columns = np.diff(support_x.indptr)[pairs.x], np.diff(support_y.indptr)[pairs.y]
    size = rows * columns
    n_cells = int(size.sum())
    if n_cells > MAX_VARIABLES:
        raise ValueError(
            f"lp: the program has {n_cells:,} variables, the limit is {MAX_VARIABLES:,}; use method='exact'"
        )
    n_starts = int(np.prod([np.count_nonzero(chain.initial) for chain in (problem.x, problem.y)]))
    require(
        float(_BYTES) * (n_cells + n_starts + 2 * len(pairs)),
        f"a linear program of {n_cells:,} variables",
        "use method='exact'",
    )
    # One variable for every pair and every pair of successors.
    pair = np.repeat(np.arange(len(pairs)), size)
    # Position of a cell within its pair, row by row.
    place = np.arange(n_cells) - np.repeat(np.cumsum(size) - size, size)
    slot_x = support_x.indptr[pairs.x[pair]] + place // columns[pair]
    slot_y = support_y.indptr[pairs.y[pair]] + place % columns[pair]
    following = pairs.index[support_x.indices[slot_x], support_y.indices[slot_y]].astype(np.int64)
    least = np.minimum(support_x.probabilities[slot_x], support_y.probabilities[slot_y])
    kept = least >= _NEGLIGIBLE
    return _Variables(pair[kept], following[kept], slot_x[kept], slot_y[kept])


def _program(
    problem: Problem, pairs: Pairs, cells: _Variables, starts: NDArray[Any], formulation: Formulation
) -> tuple[Floats, csr_array, Floats]:
    """Objective, equality matrix and right-hand side; the flow rows come first, so their duals are V.

    Columns: mu, the initial coupling, then lambda_X and lambda_Y (or s) for every pair.
    """
    from scipy.sparse import block_array, coo_array

    n_pairs, n_cells, n_starts = len(pairs), len(cells.pair), len(starts)
    everything = np.arange(n_cells)

    def sparse(values: Any, rows: Any, columns: Any, shape: tuple[int, int]) -> Any:
        return coo_array((np.broadcast_to(values, np.shape(rows)), (rows, columns)), shape=shape)

    flow = sparse(1.0, cells.pair, everything, (n_pairs, n_cells)) - problem.discount * sparse(
        1.0, cells.following, everything, (n_pairs, n_cells)
    )
    # The coupling of the initial distributions enters the flow with weight 1 - discount.
    first = pairs.index[starts[:, 0], starts[:, 1]]
    flow_start = sparse(problem.discount - 1.0, first, np.arange(n_starts), (n_pairs, n_starts))
    sides = [
        _side(problem.x, pairs.x, cells.slot_x, cells.pair, problem.discount, formulation),
        _side(problem.y, pairs.y, cells.slot_y, cells.pair, problem.discount, formulation),
    ]
    # Rows are divided by the square root of their coefficient: HiGHS drops coefficients below 1e-9.
    roots = [np.sqrt(side.weight) for side in sides]
    causal = [
        sparse(1.0 / root[side.row], side.row, everything, (side.n_rows, n_cells))
        for side, root in zip(sides, roots, strict=True)
    ]
    lambdas = [
        sparse(-root, np.arange(side.n_rows), side.pair, (side.n_rows, n_pairs))
        for side, root in zip(sides, roots, strict=True)
    ]
    marginals = [
        # Rows of the initial marginals are numbered without gaps: states without initial mass have no row.
        sparse(1.0, np.unique(starts[:, axis], return_inverse=True)[1], np.arange(n_starts), (count, n_starts))
        for axis, count in enumerate(len(np.unique(starts[:, axis])) for axis in range(2))
    ]
    apart = formulation == "lambda"
    tail = [[lambdas[0], None], [None, lambdas[1]]] if apart else [[lambdas[0]], [lambdas[1]]]
    blank = [None] * len(tail[0])
    matrix = block_array(
        [
            [flow, flow_start, *blank],
            [causal[0], None, *tail[0]],
            [causal[1], None, *tail[1]],
            [None, marginals[0], *blank],
            [None, marginals[1], *blank],
        ],
        format="csr",
    )
    laws = [initial[initial >= _NEGLIGIBLE] for initial in (problem.x.initial, problem.y.initial)]
    right = np.concatenate([np.zeros(matrix.shape[0] - sum(map(len, laws))), *laws])
    objective = np.zeros(matrix.shape[1])
    objective[:n_cells] = problem.unit_cost[pairs.x, pairs.y][cells.pair]
    return objective, matrix, right


def _side(
    chain: MarkovChain,
    states: NDArray[np.int32],
    slot: Integers,
    pair: Integers,
    discount: float,
    formulation: Formulation,
) -> _LpSide:
    """Causality rows of one chain: one for every pair and successor of the chain's state."""
    probabilities = chain.support.probabilities
    # A causality row is identified by the pair and the successor of this chain.
    key = pair * len(probabilities) + slot
    kept, row = np.unique(key, return_inverse=True)
    row_pair, row_slot = kept // len(probabilities), kept % len(probabilities)
    weight = probabilities[row_slot]
    if formulation == "lambda":
        # A positive floor: unvisited states would have a column of zeros.
        occupancy = np.maximum(chain.state_occupancy(discount), np.finfo(np.float64).tiny)
        # nu_X(x, x') divided by the power of two nearest to nu_X(x): a column scaling without rounding.
        weight = weight * np.ldexp(occupancy, -np.frexp(occupancy)[1])[states[row_pair]]
    return _LpSide(row, row_pair, weight, len(kept))


def _coupling(problem: Problem, pairs: Pairs, cells: _Variables, starts: NDArray[Any], x: Floats) -> Coupling:
    n_cells = len(cells.pair)
    start = np.zeros(problem.shape)
    start[starts[:, 0], starts[:, 1]] = x[n_cells : n_cells + len(starts)]
    # Simplex solutions are sparse; interior-point ones keep tiny masses.
    keep = x[:n_cells] > 0
    now, following = cells.pair[keep], cells.following[keep]
    return Coupling(
        problem.shape, pairs.x[now], pairs.y[now], pairs.x[following], pairs.y[following], x[:n_cells][keep], start
    )


def _bounds(problem: Problem, pairs: Pairs, V: Floats, cells: _Variables, x: Floats) -> Bounds:
    """A lower bound from the dual prices; an upper bound from the coupling rounded to the exact marginals.

    (Dual prices of pairs that the optimum does not visit may lie below the potential, so they give no upper bound.)
    """
    cost = np.ascontiguousarray(problem.unit_cost[pairs.x, pairs.y])
    low = bounds_from(problem.discount, V, cost, Sweep(problem.unit, pairs).improve(pairs.table(V))).low
    # Any nonnegative V gives a lower bound; the better of two.
    low = max(low, lower_bound(problem, pairs, V))
    kernel = _rounded_kernel(problem, pairs, cells, x[: len(cells.pair)])
    value, _ = relative_value(kernel, cost, problem.discount, V)
    return Bounds(low, max(low, value_bound(problem, pairs, value)))


def _rounded_kernel(problem: Problem, pairs: Pairs, cells: _Variables, mu: Floats) -> Kernel:
    """The transition coupling of mu, rounded pair by pair; the product of the rows if mu has no mass."""
    x, y = problem.x.support, problem.y.support
    ends = np.searchsorted(cells.pair, np.arange(len(pairs) + 1))
    indices, data, lengths = [], [], []
    for k, (i, j) in enumerate(zip(pairs.x.tolist(), pairs.y.tolist(), strict=True)):
        row, column = slice(*x.indptr[i : i + 2]), slice(*y.indptr[j : j + 2])
        p, q = x.probabilities[row], y.probabilities[column]
        plan, mine = np.zeros((len(p), len(q))), slice(ends[k], ends[k + 1])
        plan[cells.slot_x[mine] - row.start, cells.slot_y[mine] - column.start] = mu[mine]
        total = plan.sum()
        # Infeasible only up to HiGHS's tolerance: rounding makes the plan a coupling, which the upper bound needs.
        plan = round_to_marginals(plan / total, p, q) if total > 0 else np.outer(p, q)
        indices.append(pairs.index[np.ix_(x.indices[row], y.indices[column])].ravel())
        data.append(plan.ravel())
        lengths.append(plan.size)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Kernel(indptr, np.concatenate(indices).astype(np.int32), np.concatenate(data))
