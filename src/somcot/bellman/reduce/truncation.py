"""Leaving out states that hardly occur.

Replace a set of states by one state that is never left and costs the least. Every coupling of the chains is one of the
cut chains that costs no more, so the distance can only fall. A coupling of the cut chains, continued somehow once a
state is left out, costs at most the range of the cost from then on: the distance falls by at most

    range * (E discount^T_x + E discount^T_y),

T being the first time at which a chain is in a state left out. (The discounted occupancy of these states alone would
not do: a chain may come back from them.) E discount^T is found by sending the start law along and counting what
arrives, sums of numbers of one sign, plus all that is still under way.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.chains import Support
from somcot.plumbing.arrays import Floats
from somcot.plumbing.discounting import Kernel, discounted_value, reachable
from somcot.plumbing.jit import kernel

__all__ = ["Cut", "cut"]

_EPS = float(np.finfo(np.float64).eps)
_WORTH = 0.9  # share of the states that may be left for it to be worth while


class Cut(NamedTuple):
    """What is left of a chain.

    Attributes
    ----------
    kept : ndarray
        The states that are left; the state that stands for all others comes after them.
    support : Support
        Their rows and the start law.
    slack : float
        How far the rows may be off by rounding (total absolute difference).
    lost : float
        Bound of E discount^T.
    arrival : ndarray
        E discount^T from each state that is left, and 1 for the last.
    """

    kept: NDArray[np.int64]
    support: Support
    slack: float
    lost: float
    arrival: Floats


def cut(support: Support, discount: float, left_out: float, patience: float) -> Cut | None:
    """Leave out what loses at most `left_out` (bound of E discount^T); None where that is not worth while.

    Parameters
    ----------
    support : Support
    discount, left_out : float
    patience : float
        Transitions to look at before giving up.
    """
    n, n_entries = len(support.indptr) - 2, int(support.indptr[-2])
    rows = Kernel(support.indptr[:-1], support.indices[:n_entries], support.probabilities[:n_entries])
    start = np.zeros(n)
    start[support.indices[n_entries:]] = support.probabilities[n_entries:]
    # Each visit weighs at least (1 - discount) discount^T, so an occupancy this small loses little enough.
    floor = (1.0 - discount) * left_out
    seen = reachable(rows, start)
    law = np.where(seen, 0.0, np.inf)
    steps = int(min(patience / max(n_entries, 1), 1e9))
    if not _send(*rows, discount, floor, law, start.copy(), steps):
        return None
    law[~seen] = 0.0
    order = np.argsort(law, kind="stable")
    out = np.zeros(n, dtype=np.bool_)
    out[order[: np.searchsorted(np.cumsum(law[order]), floor / 2.0, side="right")]] = True
    out[start > 0] = False
    if n - out.sum() > _WORTH * seen.sum():
        return None
    return _without(support, out, discount, floor, steps)


def _without(support: Support, out: NDArray[np.bool_], discount: float, floor: float, steps: int) -> Cut | None:
    """The chain without some states, if that loses no more than allowed."""
    kept = np.flatnonzero(~out)
    n = len(kept)
    place = np.full(len(out), n, dtype=np.int64)
    place[kept] = np.arange(n)
    row_place = np.append(place, n + 1)  # where each row of the support goes; those left out go nowhere
    row_place[:-1][out] = -1
    rows, columns = row_place[support.rows], place[support.indices]
    inside = (rows >= 0) & (columns < n)
    leaving = (rows >= 0) & (columns == n)
    lost = np.bincount(rows[leaving], support.probabilities[leaving], minlength=n + 2)
    exits = np.flatnonzero(lost)
    all_rows = np.concatenate([rows[inside], exits, [n]])
    order = np.argsort(all_rows, kind="stable")
    indices = np.concatenate([columns[inside], np.full(len(exits) + 1, n)])[order]
    values = np.concatenate([support.probabilities[inside], lost[exits], [1.0]])[order]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(all_rows, minlength=n + 2))]).astype(np.int64)
    small = Support(indptr, indices.astype(np.int32), values)
    start = np.zeros(n + 1)
    start[small.indices[indptr[-2] :]] = small.probabilities[indptr[-2] :]
    inner = int(indptr[n])  # the last state's own row is left out: what arrives there stays under the eyes
    open_rows = Kernel(np.append(indptr[: n + 1], inner), small.indices[:inner], small.probabilities[:inner])
    law, rest = np.zeros(n + 1), start
    if not _send(*open_rows, discount, floor, law, rest, steps):
        return None
    bound = (law[n] / (1.0 - discount) + float(rest.sum())) * (1.0 + 1e-9)
    to_last = np.zeros(n + 1)
    to_last[exits] = discount * lost[exits]
    arrival = discounted_value(open_rows, to_last, discount)
    arrival[n] = 1.0
    rounding = _EPS * float((np.bincount(rows[leaving], minlength=n + 2) * lost).max())
    return Cut(kept, small, 2.0 * _EPS + rounding, bound, arrival)


@kernel
def _send(indptr, indices, data, discount, floor, law, rest, max_steps):
    """Send `rest` along the rows, leaving (1 - discount) of it behind in `law` everywhere it comes through.

    True once at most an eighth of `floor` is under way; False as soon as every state has more than `floor`, so that
    none is negligible, or after `max_steps` rounds. Rows may be empty.
    """
    n = law.size
    least = 1e-3 * floor / n  # less than this stays where it is: it would only become smaller
    for _ in range(max_steps):
        for x in range(n):
            mass = rest[x]
            if mass > least:
                rest[x] = 0.0
                law[x] += (1.0 - discount) * mass
                for t in range(indptr[x], indptr[x + 1]):
                    rest[indices[t]] += discount * data[t] * mass
        smallest, moving = np.inf, 0.0
        for x in range(n):
            smallest = min(smallest, law[x])
            moving += rest[x]
        if smallest > floor:
            return False
        if moving <= 0.125 * floor:
            return True
    return False
