"""Entropic transport for many pairs: Sinkhorn steps in the log domain, and rounding to exact marginals."""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from somcot.plumbing.jit import kernel, part
from somcot.plumbing.vector_code import exp, log

__all__ = ["round_entries", "rounded_plan", "sinkhorn_steps"]


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
            error = _scale_columns(C, f, g, q, scratch)
            if error <= tolerance:
                break
            _scale_columns(turned, g, f, p, scratch)
        _scale_columns(turned, g, f, p, scratch)  # however the loop ended, the rows are exact
        plan = np.empty_like(C)
        for i in range(f.size):
            for j in range(g.size):
                plan[i, j] = exp(min(f[i] + g[j] - C[i, j], 0.0))  # rows hold at most 1; rounding may say more
        # Rounded, the plan is feasible however few steps were taken: values never fall below the exact ones.
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
    """Set g so that column j of exp(f_i + g_j - C_ij) sums to q_j; returns the l1 error there was before.

    Rows are gone through one by one, across all columns: vector code in which every sum keeps its order.
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
    other = _rounded(_turned(plan), q, p)
    out = _rounded(plan, p, q)
    for i in range(p.size):
        for j in range(q.size):
            out[i, j] = (out[i, j] + other[j, i]) / 2.0
    return out


@kernel
def _turned(table):
    """The transpose, as an array of its own."""
    n, m = table.shape
    out = np.empty((m, n))
    for i in range(n):
        for j in range(m):
            out[j, i] = table[i, j]
    return out


@kernel
def _rounded(plan, p, q):
    """Shrink rows, then columns, that are too heavy; spread what is missing as a product.

    Loops, because a sum or product of slices takes the compiler longer than all of this.
    """
    n, m = plan.shape
    out, rows, columns = np.empty((n, m)), np.empty(n), np.empty(m)
    for i in range(n):
        total = 0.0
        for j in range(m):
            total += plan[i, j]
        factor = p[i] / total if total > p[i] else 1.0
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
