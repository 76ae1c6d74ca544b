"""Newton's method for the flow-constrained likelihood; `somcot.recorded.flow` states the problem."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.arrays import Floats

__all__ = ["Fit", "FlowStatus", "WeightedEdges", "fit_flow", "fit_flow_and_start"]

TARGET = 1e-12  # flow violation at which the iteration stops, relative to the start mass 1 - discount
ACCEPTED = 1e-7  # flow violation that rounding may leave behind when the data contradict the flow
DENSE_LIMIT = 200


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
        """Subtract the discounted inflow of each state from what leaves it; the flow wants (1 - discount) nu_0."""
        inflow = np.bincount(self.columns, nu, self.n)
        result: Floats = np.bincount(self.rows, nu, self.n) - discount * inflow
        return result

    def out_weight(self) -> Floats:
        """Weight of the transitions out of each state."""
        return np.asarray(np.bincount(self.rows, self.weights, self.n), dtype=np.float64)

    def has_exit(self) -> NDArray[np.bool_]:
        """Which states have a transition of their own, be it to themselves."""
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
        """Leave out states and the transitions out of them, and scale the weights to sum 1."""
        position = np.cumsum(kept) - 1
        inside = kept[self.rows]
        weights = self.weights[inside]
        return WeightedEdges(
            position[self.rows[inside]],
            position[self.columns[inside]],
            weights / weights.sum(),
            int(kept.sum()),
        )

    def reachable(self, begin: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """States that paths of transitions lead to from where they may begin."""
        if self.n <= DENSE_LIMIT:
            return self._spread(begin)
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import breadth_first_order

        first = np.flatnonzero(begin)
        rows, columns = np.append(self.rows, np.full(len(first), self.n)), np.append(self.columns, first)
        graph = csr_array((np.ones(len(rows)), (rows, columns)), shape=(self.n + 1, self.n + 1))
        found = np.zeros(self.n + 1, dtype=np.bool_)
        found[breadth_first_order(graph, self.n, return_predecessors=False)] = True
        return found[:-1]

    def _spread(self, begin: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Do the same step by step, which is faster on few states."""
        found, n_before = begin.copy(), -1
        while (n_found := int(np.count_nonzero(found))) > n_before:
            n_before = n_found
            found[self.columns[found[self.rows]]] = True
        return found


class Fit(NamedTuple):
    """Where a fit ended: multipliers z, source = (1 - discount) nu_0, and how."""

    z: Floats
    source: Floats
    status: FlowStatus
    residual: float
    iterations: int


def fit_flow(edges: WeightedEdges, start: Floats, discount: float, limit: int) -> Fit:
    """Damped Newton from z = 0 with a known start law."""
    source = (1.0 - discount) * start
    target = TARGET * (1.0 - discount)
    z, best = np.zeros(edges.n), np.inf

    def objective(z: Floats) -> float:
        s = edges.slack(z, discount)
        return np.inf if s.min() <= 0 else float(-(edges.weights @ np.log(s)) - source @ z)

    for step in range(limit + 1):
        s = edges.slack(z, discount)
        gradient = edges.net_outflow(edges.weights / s, discount) - source
        residual = float(np.abs(gradient).sum())
        if residual <= target or (residual <= ACCEPTED and residual > 0.5 * best):
            return Fit(z, source, FlowStatus.CONVERGED, residual, step)
        best = min(best, residual)
        if step == limit:
            break
        move = _solve(edges, edges.weights / s**2, np.zeros(edges.n), -gradient, discount)
        moved = None if move is None else _line_search(objective, z, move, float(gradient @ move))
        if moved is None:
            status = FlowStatus.CONVERGED if residual <= ACCEPTED else FlowStatus.STALLED
            return Fit(z, source, status, residual, step)
        z = moved
    return Fit(z, source, FlowStatus.STEP_LIMIT, residual, limit)


def _line_search(objective: Callable[[Floats], float], z: Floats, move: Floats, slope: float) -> Floats | None:
    """Halve the step until the objective falls enough; None when it never does."""
    value = objective(z)
    rounding = 1e-14 * (1.0 + abs(value))
    length = 1.0
    while length > 1e-12 and slope <= 0:
        candidate: Floats = z + length * move
        if objective(candidate) <= value + 1e-4 * length * slope + rounding:
            return candidate
        length *= 0.5
    return None


def fit_flow_and_start(edges: WeightedEdges, discount: float, limit: int) -> Fit:
    """Primal-dual interior point in (z, source) with z >= 0: the start law is fitted too."""
    z, source = np.full(edges.n, 0.5), np.full(edges.n, 1.0 / edges.n)
    target, best = TARGET * (1.0 - discount), np.inf
    for step in range(limit + 1):
        s = edges.slack(z, discount)
        outflow = edges.net_outflow(edges.weights / s, discount)
        residual, gap = float(np.abs(outflow - source).sum()), float(z @ source)
        if gap <= target and (residual <= target or (residual <= ACCEPTED and residual > 0.5 * best)):
            return Fit(z, source, FlowStatus.CONVERGED, residual, step)
        best = min(best, residual)
        if step == limit:
            break
        barrier = 0.1 * gap / edges.n
        move = _solve(edges, edges.weights / s**2, source / z, barrier / z - outflow, discount)
        if move is None:
            return Fit(z, source, FlowStatus.STALLED, residual, step)
        source_move = (barrier - z * source - source * move) / z
        slack_move = edges.slack(z + move, discount) - s
        length = min(_room(z, move), _room(s, slack_move))
        z, source = z + length * move, source + _room(source, source_move) * source_move
    return Fit(z, source, FlowStatus.STEP_LIMIT, residual, limit)


def _room(values: Floats, move: Floats) -> float:
    """Longest step of at most 1 that keeps positive values positive."""
    shrinking = move < 0
    return min(1.0, 0.99 * float(np.min(-values[shrinking] / move[shrinking], initial=np.inf)))


def _solve(edges: WeightedEdges, curvature: Floats, diagonal: Floats, target: Floats, discount: float) -> Floats | None:
    """Solve (sum_e curvature_e a_e a_e' + diag) v = target with a_e = e_x - discount e_x' for e = (x, x').

    None when the matrix is singular to working precision.
    """
    r, c, n = edges.rows, edges.columns, edges.n
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
    except (np.linalg.LinAlgError, RuntimeError):  # SuperLU reports singular matrices as RuntimeError
        return None


def _solve_dense(rows: NDArray[np.int64], columns: NDArray[np.int64], values: Floats, target: Floats) -> Floats:
    n = len(target)
    matrix = np.bincount(rows * n + columns, values, n * n).reshape(n, n)
    return np.asarray(np.linalg.solve(matrix, target))


def _solve_sparse(rows: NDArray[np.int64], columns: NDArray[np.int64], values: Floats, target: Floats) -> Floats:
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import splu

    n = len(target)
    factor = splu(
        csc_array((values, (rows, columns)), shape=(n, n)),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    return np.asarray(factor.solve(target))
