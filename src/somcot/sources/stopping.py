"""Geometric stopping in compiled code: many independent transitions (X_G, X_{G+1}) of a known chain."""

from __future__ import annotations

import numpy as np

from somcot.plumbing.arrays import Codes, Floats, Ints
from somcot.plumbing.jit import kernel

__all__ = ["stopped_transitions"]


@kernel
def stopped_transitions(
    indptr: Ints, indices: Codes, cumulative: Floats, waiting: Ints, uniform: Floats
) -> tuple[Ints, Ints]:
    """One transition for each waiting time G: from the start law (last row), G moves, then one more.

    Takes ``waiting[i] + 2`` of the uniform numbers for transition i, in order. `cumulative` holds the running sums of
    each row by itself.
    """
    n = len(waiting)
    states, following = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    used = 0
    for i in range(n):
        now = after = len(indptr) - 2
        for _ in range(waiting[i] + 2):
            now = after
            low, high = indptr[now], indptr[now + 1] - 1
            u = uniform[used]
            used += 1
            while low < high:
                middle = (low + high) // 2
                if cumulative[middle] > u:
                    high = middle
                else:
                    low = middle + 1
            after = indices[low]
        states[i], following[i] = now, after
    return states, following
