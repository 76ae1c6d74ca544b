"""Policy iteration written plainly with POT's network simplex: slow, independent, used as an oracle and a baseline."""

from __future__ import annotations

from typing import Any

import numpy as np
import ot
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import spsolve

Floats = NDArray[np.float64]


def _plan(p: Floats, q: Floats, cost: Floats) -> Floats:
    """An optimal plan; POT goes wrong on badly scaled costs, so they are shifted and scaled first."""
    low, high = cost.min(), cost.max()
    scaled = (cost - low) / (high - low) if high > low else np.zeros_like(cost)
    plan, log = ot.emd(p, q, np.ascontiguousarray(scaled), numItermax=10_000_000, log=True)
    assert log["warning"] is None, log["warning"]
    return np.asarray(plan)


def solve(P: Floats, Q: Floats, cost: Floats, discount: float, max_rounds: int = 100) -> Floats:
    """The potential V of every pair of states, (n_x, n_y)."""
    n_x, n_y = cost.shape
    support_x = [np.flatnonzero(row) for row in P]
    support_y = [np.flatnonzero(row) for row in Q]
    V = cost.copy()
    for _ in range(max_rounds):
        rows: list[Any] = []
        columns: list[Any] = []
        data: list[Any] = []
        improved = np.empty_like(V)
        for x in range(n_x):
            for y in range(n_y):
                i, j = support_x[x], support_y[y]
                local = V[np.ix_(i, j)]
                plan = _plan(P[x, i], Q[y, j], local)
                improved[x, y] = cost[x, y] + discount * (plan * local).sum()
                a, b = np.nonzero(plan)
                rows.append(np.full(len(a), x * n_y + y))
                columns.append(i[a] * n_y + j[b])
                data.append(plan[a, b])
        if np.abs(improved - V).max() <= 1e-13 * max(1.0, np.abs(V).max()):
            break
        coupling = sp.csr_array(
            (np.concatenate(data), (np.concatenate(rows), np.concatenate(columns))), shape=(n_x * n_y, n_x * n_y)
        )
        # Iterative refinement would be overkill; dense solves are fastest at these sizes when the matrix is not sparse.
        system = sp.eye_array(n_x * n_y, format="csr") - discount * coupling
        dense = coupling.nnz > 20 * n_x * n_y
        V = (
            np.linalg.solve(system.toarray(), cost.ravel()) if dense else spsolve(system.tocsc(), cost.ravel())
        ).reshape(n_x, n_y)
    return V


def distance(P: Floats, Q: Floats, cost: Floats, discount: float, start_x: Floats, start_y: Floats) -> float:
    """The distance, the coupling of the first states optimised too."""
    V = solve(P, Q, cost, discount)
    i, j = np.flatnonzero(start_x), np.flatnonzero(start_y)
    local = V[np.ix_(i, j)]
    return float((1 - discount) * (_plan(start_x[i], start_y[j], local) * local).sum())
