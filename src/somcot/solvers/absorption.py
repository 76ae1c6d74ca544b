"""Pairs of states that are left for good: their value by policy iteration, and the bracket it gives.

V = c + discount * OT(V) on these pairs, with V given on all others. Every coupling leaves them, so every policy has a
value, at discount 1 too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from somcot.bellman.sweep import Sweep
from somcot.certificates import Settled, rounding, settled_bounds
from somcot.plumbing.arrays import Floats
from somcot.plumbing.discounting import Kernel, discounted_value

__all__ = ["absorb", "merged"]

_EPS = float(np.finfo(np.float64).eps)


def absorb(sweep: Sweep, V: Floats, cost: Floats, discount: float, first: Settled, max_sweeps: int) -> Settled:
    """Find V on the pairs of a sweep, whose steps lead to its targets; returns a bracket of the start's value.

    Parameters
    ----------
    sweep : Sweep
    V : ndarray, shape (n_x, n_y)
        Known on the targets that are no pairs of the sweep, a guess on those that are; written to.
    cost : ndarray, shape (n_pairs,)
        What a visit costs.
    discount : float
        At most 1.
    first : Settled
        What is known before: the bracket, the expected time of leaving, how far `V` may be off outside.
    max_sweeps : int
    """
    pairs, best = sweep.pairs, first
    for step in range(max_sweeps):
        found = sweep.improve(V)
        slack = first.slack + rounding(V)
        latest = settled_bounds(discount, cost, V[pairs.x, pairs.y], found, first._replace(slack=slack))
        best = best.tighter(latest)
        if len(pairs) == 0 or (step > 0 and found.changed == 0):
            break
        # Values fall from policy to policy; when they no longer do, ties are being turned over by rounding.
        if _evaluate(sweep, V, cost, discount) <= 64.0 * _EPS * (1.0 + float(np.abs(V).max())) and step > 0:
            break
    return best


def merged(n: int, *parts: tuple[NDArray[np.int32], Kernel]) -> Kernel:
    """One square kernel from blocks of rows, each with the places of its rows; all other rows are empty."""
    lengths = np.zeros(n, dtype=np.int64)
    for places, block in parts:
        lengths[places] = np.diff(block.indptr)
    indptr = np.append(0, np.cumsum(lengths))
    indices, data = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1])
    for places, block in parts:
        sizes = np.diff(block.indptr)
        spots = np.repeat(indptr[places] - block.indptr[:-1], sizes) + np.arange(len(block.indices))
        indices[spots], data[spots] = block.indices, block.data
    return Kernel(indptr, indices, data)


def _evaluate(sweep: Sweep, V: Floats, cost: Floats, discount: float) -> float:
    """Write the value of the current plans to V; returns the largest change. What is not finite is left as it was."""
    pairs, targets = sweep.pairs, sweep.targets
    places = targets.index[pairs.x, pairs.y]
    values = V[targets.x, targets.y]
    values[places] = cost
    kernel = merged(len(targets), (places, sweep.kernel()[0]))
    found = discounted_value(kernel, values, discount, V[targets.x, targets.y])[places]
    before = V[pairs.x, pairs.y]
    V[pairs.x, pairs.y] = np.where(np.isfinite(found), found, before)
    return float(np.abs(V[pairs.x, pairs.y] - before).max())
