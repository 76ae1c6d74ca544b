"""Prices to start from for many wide transport problems at once: entropic transport in two matrix products a step.

The entropic problems of all pairs share one kernel, exp(-V / eps), so a step of all of them is

    u = p / (K v),    v = q / (K^T u),

one row of u and v for each pair. eps is halved again and again, down to a small share of the range of the costs; the
prices are then g = eps log v. What the prices of the pairs have in common is moved into the kernel before eps changes,
so that u and v hold only what differs between them and stay within the range of float32.

Prices only choose where a simplex starts, so they need not be good. They are the same to the last bit on every machine:
sums have a fixed order (`plumbing.product`), and exponentials and logarithms are the package's own.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from somcot.plumbing.jit import kernel, part
from somcot.plumbing.product import add_product
from somcot.plumbing.vector_code import exp, log

__all__ = ["entropic_prices"]

_FINAL = 8.0  # the last eps is the range of the costs by this times the number of columns
_FIRST = 50.0  # the first at most the range by this
_STEPS = 10  # at each eps
_TINY = 1e-37  # the least float32 with all its digits, about
_REACH = 35.0  # prices may differ by this many eps when eps is halved


@kernel(name="prices of wide transport problems", seconds=1)
def entropic_prices(V, p, q):
    """Column prices, (n_pairs, columns), for rows p and columns q of probabilities, one for each pair; all float32."""
    rows, columns = V.shape
    pairs = p.shape[0]
    common = np.empty(columns)
    scale = _reduce_costs(V, common)
    g, u, v = np.zeros((pairs, columns)), np.empty_like(p), np.empty_like(q)
    K, T = np.empty((rows, columns), np.float32), np.empty((columns, rows), np.float32)
    final = scale / (_FINAL * columns)
    level = 1
    while _FIRST * 2.0 ** (level + 1) <= _FINAL * columns:
        level += 1
    while level >= 0 and scale > 0.0:
        eps = final * 2.0**level
        _fill_kernel(V, common, eps, K, T)
        for k in range(pairs):
            for j in range(columns):
                v[k, j] = np.float32(exp(g[k, j] / eps)) if q[k, j] > 0.0 else np.float32(0.0)
        for _ in range(_STEPS):
            _scale(p, v, T, u)
            _scale(q, u, K, v)
        _read_off(q, v, eps, g)
        if level > 0:
            _move_common(q, g, common, _REACH * eps)
        level -= 1
    prices = np.empty(q.shape, np.float32)
    for k in range(pairs):
        for j in range(columns):
            prices[k, j] = g[k, j] + common[j]
    return prices


@part
def _reduce_costs(V, common):
    """Prices that leave a 0 in every row and column of V, as far as columns can; returns the range of what is left."""
    rows, columns = V.shape
    common[:] = np.inf
    scale = 0.0
    for i in range(rows):
        least = _least(V[i])
        for j in range(columns):
            common[j] = min(common[j], V[i, j] - least)
    for i in range(rows):
        least = _least(V[i])
        for j in range(columns):
            scale = max(scale, V[i, j] - least - common[j])
    return scale


@part
def _least(row):
    least = row[0]
    for j in range(1, row.size):
        least = min(least, row[j])
    return least


@part
def _fill_kernel(V, common, eps, K, T):
    """K = exp(-(V - common) / eps), each row relative to its largest entry, and its transpose."""
    rows, columns = V.shape
    for i in range(rows):
        least = V[i, 0] - common[0]
        for j in range(1, columns):
            least = min(least, V[i, j] - common[j])
        for j in range(columns):
            value = exp((least - V[i, j] + common[j]) / eps)
            K[i, j] = value if value > _TINY else 0.0
        for j in range(columns):
            T[j, i] = K[i, j]


@part
def _scale(wanted, scaling, K, out):
    """What is wanted / (scaling K), into `out`."""
    tiny = np.float32(_TINY)
    out[:] = np.float32(0.0)
    add_product(out, scaling, K)
    for k in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[k, j] = wanted[k, j] / max(out[k, j], tiny)


@part
def _read_off(q, v, eps, g):
    """Set g = eps log v, with mean 0 over the support of each pair."""
    for k in range(g.shape[0]):
        total, count = 0.0, 0
        for j in range(g.shape[1]):
            g[k, j] = eps * log(max(float(v[k, j]), _TINY))
            if q[k, j] > 0.0:
                total += g[k, j]
                count += 1
        mean = total / max(count, 1)
        for j in range(g.shape[1]):
            g[k, j] -= mean


@part
def _move_common(q, g, common, reach):
    """Take the mean over the pairs out of g into `common`, and clip what is left."""
    for j in range(g.shape[1]):
        total, count = 0.0, 0
        for k in range(g.shape[0]):
            if q[k, j] > 0.0:
                total += g[k, j]
                count += 1
        mean = total / max(count, 1)
        common[j] += mean
        for k in range(g.shape[0]):
            g[k, j] = min(max(g[k, j] - mean, -reach), reach)
