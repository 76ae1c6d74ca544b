"""Maximum-likelihood estimate of a chain from independent samples of its discounted occupancy.

Such samples show how often states are visited, which counts divided by row sums ignore. Here the
occupancy nu is fitted: maximise sum_xx' n(x, x') log nu(x, x') over the occupancies that a chain with this
discount g can have,

    sum_x' nu(x, x') = g sum_x' nu(x', x) + (1 - g) nu_0(x)   for every x.

With w = n / N the dual is a smooth convex problem in one number z(x) per state,

    minimise  -sum w(x, x') log s(x, x') - (1 - g) <nu_0, z>,   s(x, x') = 1 - z(x) + g z(x'),   nu = w / s,

whose gradient is the violation of the flow constraint. (The multiplier of that constraint is u = 1/(1-g) - z;
working with z keeps s accurate when g is close to 1.) If nu_0 is unknown, it is part of the fit: the linear
term is replaced by the constraint z >= 0, with (1 - g) nu_0 as its multiplier.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from somcot.chains import MarkovChain
from somcot.plumbing.arrays import Array, Floats
from somcot.plumbing.checks import (
    DENSE_LIMIT,
    check_count,
    check_discount,
    check_finite,
    check_labels,
    is_sparse_enough,
    probability_vector,
    real_array,
)
from somcot.plumbing.errors import ConvergenceWarning, warn
from somcot.plumbing.linear_systems import solve_definite
from somcot.plumbing.memory import one_blas_thread
from somcot.plumbing.notes import Note

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "FlowEstimate",
    "FlowFit",
    "FlowStatus",
    "WeightedEdges",
    "fit_flow",
    "fit_flow_and_start",
    "flow_mle",
]


# --- Newton's method for the flow-constrained likelihood

TARGET = 1e-12  # flow violation at which the iteration stops, relative to the initial mass 1 - discount
ACCEPTED = 1e-7  # flow violation that rounding may leave behind when the data contradict the flow


class FlowStatus(enum.StrEnum):
    """How a fit ended."""

    CONVERGED = "converged"
    STEP_LIMIT = "step limit"
    STALLED = "stalled"


class WeightedEdges(NamedTuple):
    """Transitions between n states with their weights."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    weights: Floats
    n: int

    def slack(self, z: Floats, discount: float) -> Floats:
        """Return s = 1 - z(x) + discount * z(x') for each transition."""
        return 1.0 - z[self.rows] + discount * z[self.columns]

    def net_outflow(self, nu: Floats, discount: float) -> Floats:
        """Outflow minus discounted inflow of each state; the flow constraint requires (1 - discount) nu_0."""
        inflow = np.bincount(self.columns, nu, self.n)
        result: Floats = np.bincount(self.rows, nu, self.n) - discount * inflow
        return result

    def out_weight(self) -> Floats:
        """Weight of the transitions out of each state."""
        return np.asarray(np.bincount(self.rows, self.weights, self.n), dtype=np.float64)

    def has_exit(self) -> NDArray[np.bool_]:
        """Which states have an outgoing transition, including to themselves."""
        result: NDArray[np.bool_] = np.bincount(self.rows, minlength=self.n) > 0
        return result

    def extended(self, pairs: NDArray[np.int64], weight: float) -> WeightedEdges:
        """Add new transitions, all with the same weight."""
        return WeightedEdges(
            np.concatenate([self.rows, pairs[:, 0]]),
            np.concatenate([self.columns, pairs[:, 1]]),
            np.concatenate([self.weights, np.full(len(pairs), weight)]),
            self.n,
        )

    def restricted(self, kept: NDArray[np.bool_]) -> WeightedEdges:
        """Remove states and the transitions from them, and rescale the weights to sum 1."""
        position = np.cumsum(kept) - 1
        # Transitions into removed states are dropped with their rows: removed states have no exits.
        inside = kept[self.rows]
        weights = self.weights[inside]
        return WeightedEdges(
            position[self.rows[inside]],
            position[self.columns[inside]],
            weights / weights.sum(),
            int(kept.sum()),
        )

    def reachable(self, begin: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """States that are reachable from `begin`."""
        if self.n <= DENSE_LIMIT:
            return self._spread(begin)
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import breadth_first_order

        first = np.flatnonzero(begin)
        # One artificial source with an edge to every initial state: a single search.
        rows, columns = np.append(self.rows, np.full(len(first), self.n)), np.append(self.columns, first)
        graph = csr_array((np.ones(len(rows)), (rows, columns)), shape=(self.n + 1, self.n + 1))
        reached = np.zeros(self.n + 1, dtype=np.bool_)
        reached[breadth_first_order(graph, self.n, return_predecessors=False)] = True
        return reached[:-1]

    def _spread(self, begin: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """`reachable` step by step, which is faster on few states."""
        reached, n_before = begin.copy(), -1
        while (n_found := int(np.count_nonzero(reached))) > n_before:
            n_before = n_found
            reached[self.columns[reached[self.rows]]] = True
        return reached


class FlowFit(NamedTuple):
    """The end of a fit: multipliers z, source = (1 - discount) nu_0, and status."""

    z: Floats
    source: Floats
    status: FlowStatus
    residual: float
    iterations: int


def fit_flow(edges: WeightedEdges, start: Floats, discount: float, limit: int) -> FlowFit:
    """Damped Newton method from z = 0 with a known initial distribution."""
    source = (1.0 - discount) * start
    target = TARGET * (1.0 - discount)
    z, best = np.zeros(edges.n), np.inf

    def objective(z: Floats) -> float:
        s = edges.slack(z, discount)
        # The logarithm is a barrier: s <= 0 is outside of the domain.
        return np.inf if s.min() <= 0 else -_dot(edges.weights, np.log(s)) - _dot(source, z)

    for step in range(limit + 1):
        s = edges.slack(z, discount)
        gradient = edges.net_outflow(edges.weights / s, discount) - source
        residual = float(np.abs(gradient).sum())
        # Accept a small residual that no longer halves: rounding prevents further progress.
        # Data that contradict the flow leave a residual that rounding cannot remove.
        if residual <= target or (residual <= ACCEPTED and residual > 0.5 * best):
            return FlowFit(z, source, FlowStatus.CONVERGED, residual, step)
        best = min(best, residual)
        if step == limit:
            break
        move = _solve(edges, edges.weights / s**2, np.zeros(edges.n), -gradient, discount)
        moved = None if move is None else _line_search(objective, z, move, _dot(gradient, move))
        if moved is None:
            status = FlowStatus.CONVERGED if residual <= ACCEPTED else FlowStatus.STALLED
            return FlowFit(z, source, status, residual, step)
        z = moved
    return FlowFit(z, source, FlowStatus.STEP_LIMIT, residual, limit)


def _line_search(objective: Callable[[Floats], float], z: Floats, move: Floats, slope: float) -> Floats | None:
    """Halve the step until the objective decreases enough; None if it never does."""
    value = objective(z)
    rounding = 1e-14 * (1.0 + abs(value))  # near the optimum the decrease is below rounding
    length = 1.0
    # A positive slope is not a descent direction: rounding has taken over.
    while length > 1e-12 and slope <= 0:
        candidate: Floats = z + length * move
        if objective(candidate) <= value + 1e-4 * length * slope + rounding:
            return candidate
        length *= 0.5
    return None


def fit_flow_and_start(edges: WeightedEdges, discount: float, limit: int) -> FlowFit:
    """Primal-dual interior point method in (z, source) with z >= 0: the initial distribution is fitted too."""
    # An interior point: z > 0 and s = 1 - 0.5 + 0.5 g > 0.
    z, source = np.full(edges.n, 0.5), np.full(edges.n, 1.0 / edges.n)
    target, best = TARGET * (1.0 - discount), np.inf
    for step in range(limit + 1):
        s = edges.slack(z, discount)
        outflow = edges.net_outflow(edges.weights / s, discount)
        residual, gap = float(np.abs(outflow - source).sum()), _dot(z, source)
        if gap <= target and (residual <= target or (residual <= ACCEPTED and residual > 0.5 * best)):
            return FlowFit(z, source, FlowStatus.CONVERGED, residual, step)
        best = min(best, residual)
        if step == limit:
            break
        barrier = 0.1 * gap / edges.n  # a tenth of the present complementarity: a long-step method
        move = _solve(edges, edges.weights / s**2, source / z, barrier / z - outflow, discount)
        if move is None:
            return FlowFit(z, source, FlowStatus.STALLED, residual, step)
        source_move = (barrier - z * source - source * move) / z
        slack_move = edges.slack(z + move, discount) - s
        # Primal and dual steps have separate lengths, as usual in interior point methods; s must stay positive too.
        length = min(_room(z, move), _room(s, slack_move))
        z, source = z + length * move, source + _room(source, source_move) * source_move
    return FlowFit(z, source, FlowStatus.STEP_LIMIT, residual, limit)


def _room(values: Floats, move: Floats) -> float:
    """Longest step of at most 1 that keeps positive values positive."""
    shrinking = move < 0
    # 0.99 of the way to the boundary keeps the iterates in the interior.
    return min(1.0, 0.99 * float(np.min(-values[shrinking] / move[shrinking], initial=np.inf)))


def _solve(edges: WeightedEdges, curvature: Floats, diagonal: Floats, target: Floats, discount: float) -> Floats | None:
    """Solve (sum_e curvature_e a_e a_e' + diag) v = target with a_e = e_x - discount e_x' for e = (x, x').

    None when the matrix is singular to working precision.
    """
    r, c, n = edges.rows, edges.columns, edges.n
    # The outer products a_e a_e', entry by entry: (x, x), (x, x'), (x', x), (x', x').
    cross = -discount * curvature
    values = np.concatenate([curvature, cross, cross, discount**2 * curvature, diagonal])
    states = np.arange(n)
    rows, columns = np.concatenate([r, r, c, c, states]), np.concatenate([r, c, r, c, states])
    try:
        return (
            _solve_dense(rows, columns, values, target)
            if n <= DENSE_LIMIT
            else _solve_sparse(rows, columns, values, target)
        )
    except RuntimeError:  # SuperLU's error for singular matrices
        return None


def _dot(a: Floats, b: Floats) -> float:
    """Inner product with the same bits on every machine; BLAS has other kernels for other processors."""
    return float((a * b).sum())


def _solve_dense(rows: NDArray[np.int64], columns: NDArray[np.int64], values: Floats, target: Floats) -> Floats | None:
    n = len(target)
    matrix: Floats = np.bincount(rows * n + columns, values, n * n).astype(np.float64, copy=False).reshape(n, n)
    return solve_definite(matrix, target)


def _solve_sparse(rows: NDArray[np.int64], columns: NDArray[np.int64], values: Floats, target: Floats) -> Floats:
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import splu

    n = len(target)
    factor = splu(
        csc_array((values, (rows, columns)), shape=(n, n)),
        # The matrix is symmetric and positive definite: orderings for symmetric matrices, and no pivoting.
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    return np.asarray(factor.solve(target))


# --- The estimate

MOST_CANDIDATES = 20_000


@dataclass(frozen=True, eq=False)
class FlowEstimate:
    """The fitted chain and the status of the fit.

    Attributes
    ----------
    chain : MarkovChain
        The maximum-likelihood chain; counts divided by row sums if the fit failed.
    nu : ndarray or scipy.sparse.csr_array, shape (n, n)
        Fitted occupancy of transitions; its row sums are the occupancy of states.
    u : ndarray, shape (n,)
        Multipliers of the flow constraint; NaN for states that were never seen.
    assumed : ndarray of int, shape (k, 2)
        Unobserved transitions, added because no path of observed transitions led from the start to observed states.
    status : FlowStatus
        Whether the fit converged.
    residual : float
        Violation of the flow constraint at the last step, summed over the states.
    iterations : int
        Newton steps taken.
    """

    chain: MarkovChain
    nu: Floats | csr_array
    u: Floats
    assumed: NDArray[np.int64]
    status: FlowStatus
    residual: float
    iterations: int


@one_blas_thread
def flow_mle(
    counts: ArrayLike | object,
    initial: ArrayLike | None,
    discount: float,
    *,
    states: Iterable[Hashable] | None = None,
    max_iterations: int = 200,
) -> FlowEstimate:
    """Fit the maximum-likelihood chain to counts of independent samples of its discounted occupancy.

    Parameters
    ----------
    counts : array_like or scipy.sparse matrix, shape (n, n)
        Number of draws of each transition. States that are entered or have initial mass, but were never left, get one
        transition to themselves; states never seen are left out of the fit and get a self-loop.
    initial : array_like, shape (n,), or None
        The initial distribution. None fits it too, with an error that grows like 1 / (1 - discount).
    discount : float
        Discount of the sampled occupancy.
    states : sequence of hashable, optional
        Labels for the chain.
    max_iterations : int, optional
        Maximum number of Newton steps.

    Returns
    -------
    FlowEstimate
        The chain, its occupancy and the status. If the fit fails, the chain is the counts divided by their row
        sums, with a `ConvergenceWarning`.

    Examples
    --------
    Leaving once in six visits would put 60 % of the samples into the second state; the data have only 50 %:

    >>> fit = flow_mle([[5, 1], [0, 6]], [1, 0], 0.9)
    >>> fit.status.value
    'converged'
    >>> fit.chain.transition.round(3)
    array([[0.877, 0.123],
           [0.   , 1.   ]])
    """
    discount, limit = check_discount(discount), check_count("max_iterations", max_iterations)
    rows, columns, values, n = _transitions(counts)
    labels = tuple(range(n)) if states is None else check_labels("states", states, n)
    start = None if initial is None else probability_vector("initial", initial, labels, normalize=False)
    edges = _with_loops(WeightedEdges(rows, columns, values, n), start)
    # Without a known start every state may be initial, so none is unreachable.
    assumed = np.empty((0, 2), dtype=np.int64) if start is None else _missing_links(edges, start, discount, limit)
    edges = edges.extended(assumed, 1.0)
    seen = edges.has_exit()
    core = edges.restricted(seen)
    source = None if start is None else start[seen]
    fit = fit_flow(core, source, discount, limit) if source is not None else fit_flow_and_start(core, discount, limit)
    if fit.status is not FlowStatus.CONVERGED:
        fit = _raw_frequencies(core, fit, discount, start_known=start is not None)
    return _estimate(core, seen, fit, discount, labels, assumed)


def _transitions(counts: object) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats, int]:
    """Rows, columns and values of the positive counts, and the number of states."""
    if hasattr(counts, "tocsr"):
        from scipy.sparse import csr_array

        matrix = csr_array(counts, dtype=np.float64)
        matrix.sum_duplicates()
        shape, values = matrix.shape, matrix.data
        rows = np.repeat(np.arange(shape[0]), np.diff(matrix.indptr))
        columns = matrix.indices.astype(np.int64)
        check_finite("counts", values)
    else:
        table = real_array("counts", counts, 2)
        shape, (rows, columns) = table.shape, np.nonzero(table)
        values = table[rows, columns]
    if shape[0] != shape[1]:
        raise ValueError(f"counts: shape is {shape}, expected a square matrix")
    if not len(values):
        raise ValueError("counts: found no transition; at least one is needed")
    if values.min() < 0:
        i, j = int(rows[values.argmin()]), int(columns[values.argmin()])
        raise ValueError(f"counts: entry {(i, j)} is {values.min():.6g}, expected at least 0")
    kept = values > 0
    return rows[kept].astype(np.int64), columns[kept].astype(np.int64), values[kept], int(shape[0])


def _with_loops(edges: WeightedEdges, start: Floats | None) -> WeightedEdges:
    """Add one self-loop to states that are entered or started in but never left: else the fit is unbounded."""
    entered = np.bincount(edges.columns, minlength=edges.n) > 0
    if start is not None:
        entered |= start > 0
    loops = np.flatnonzero(entered & ~edges.has_exit())
    return edges.extended(np.column_stack([loops, loops]), 1.0)


def _missing_links(edges: WeightedEdges, start: Floats, discount: float, limit: int) -> NDArray[np.int64]:
    """Transitions to assume so that every observed state is reachable from the start, the most likely first.

    No distribution on the observed transitions has mass where they do not lead, so the likelihood has no maximum.
    One more sample, spread over all transitions into the unreachable part, lets the fit determine which of
    them is missing.
    """
    reached = edges.reachable(start > 0)
    cut_off = edges.has_exit() & ~reached
    if not cut_off.any():
        return np.empty((0, 2), dtype=np.int64)
    targets = np.flatnonzero(cut_off)
    sources = np.flatnonzero(reached)
    rarest = np.argsort(edges.out_weight()[sources], kind="stable")  # rarely observed rows miss most transitions
    sources = sources[rarest[: max(1, MOST_CANDIDATES // len(targets))]]
    pairs = np.stack(np.meshgrid(sources, targets, indexing="ij"), axis=-1).reshape(-1, 2)
    # The rarely observed rows first, if there are too many candidates.
    # One pseudo-sample in total: it must not outweigh the data.
    trial = edges.extended(pairs, 1.0 / len(pairs)).restricted(edges.has_exit())
    fit = fit_flow(trial, start[edges.has_exit()], discount, limit)
    likely = (trial.weights / trial.slack(fit.z, discount))[-len(pairs) :]
    chosen: list[NDArray[np.int64]] = []
    for x, following in pairs[np.argsort(-likely, kind="stable")]:
        if not reached[following]:
            chosen.append(np.array([x, following]))
            reached = edges.extended(np.array(chosen), 1.0).reachable(start > 0)
    return np.array(chosen)


def _raw_frequencies(core: WeightedEdges, fit: FlowFit, discount: float, *, start_known: bool) -> FlowFit:
    """Replace a failed fit by the frequencies themselves (z = 0), with a warning."""
    note = Note("flow-fit-failed", status=fit.status.value, iterations=fit.iterations, violation=float(fit.residual))
    warn(note, ConvergenceWarning)
    # (1 - g) nu_0 is the net outflow; noise can make it negative.
    source = fit.source if start_known else np.maximum(core.net_outflow(core.weights, discount), 0.0)
    return fit._replace(z=np.zeros(core.n), source=source)


def _estimate(
    core: WeightedEdges,
    seen: NDArray[np.bool_],
    fit: FlowFit,
    discount: float,
    labels: tuple[Hashable, ...],
    assumed: NDArray[np.int64],
) -> FlowEstimate:
    """Extend the fit to all states; those never seen get a self-loop."""
    n = len(seen)
    nu = core.weights / core.slack(fit.z, discount)
    initial, u = np.zeros(n), np.full(n, np.nan)
    initial[seen] = fit.source / fit.source.sum()
    u[seen] = 1.0 / (1.0 - discount) - fit.z
    place, alone = np.flatnonzero(seen), np.flatnonzero(~seen)
    rows, columns = place[core.rows], place[core.columns]
    kernel = _matrix(np.append(rows, alone), np.append(columns, alone), np.append(nu, np.ones(len(alone))), n)
    chain = MarkovChain(kernel, initial, states=labels, normalize=True)
    # Solved again from the kernel, because the fit satisfies the flow only to its tolerance.
    return FlowEstimate(chain, chain.occupancy(discount), u, assumed, fit.status, fit.residual, fit.iterations)


def _matrix(rows: Array, columns: Array, values: Floats, n: int) -> Floats | csr_array:
    if is_sparse_enough(n, len(values)):
        from scipy.sparse import csr_array

        return csr_array((values, (rows, columns)), shape=(n, n))
    matrix = np.zeros((n, n))
    matrix[rows, columns] = values
    return matrix
