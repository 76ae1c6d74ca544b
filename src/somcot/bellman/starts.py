"""Where the simplex of wide pairs starts from, sweep by sweep.

No start is best everywhere: the last bases are, once the potential has settled; entropic prices where costs have no
structure; the prices of the pair before where they have; and with many ties a plain greedy basis does as well. So a few
pairs are solved from each start first, and the one with the least work is taken. Work is counted in pivots, never in
seconds: equal problems take equal ways.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.bellman.prices import entropic_prices
from somcot.bellman.slices import cut, in_slices
from somcot.bellman.transport import Bases, Rows
from somcot.bellman.wide import GREEDY, LAST, PEEL, optimise_wide
from somcot.plumbing.arrays import Floats

__all__ = ["Task", "WidePairs"]

_SLICE = 1_500_000  # cells of cost matrices, about 30 ms
_SETTLED = 0.25  # pivots for each row and column, up to which the last bases are kept without asking
_PLACES = (0.13, 0.39, 0.61, 0.87)  # of the pairs to try on
_PROBES, _SHARE = 5, 64  # at each place; and not more than one pair in so many


class Task(NamedTuple):
    """The transport problems of all pairs, as `transport.optimise` takes them."""

    pair_x: NDArray[np.int32]
    pair_y: NDArray[np.int32]
    x: Rows
    y: Rows
    unit: int
    bases: Bases
    hints: Bases


class Start(NamedTuple):
    """A way to the first basis, and what making it costs: in pivots for each row and column, or, entropic, each state.

    Measured on supports of 20 to 90 (a pivot there takes 0.25 to 0.5 us).
    """

    basis: int
    entropic: bool
    cost: float


_LAST, _GREEDY = Start(LAST, False, 0.02), Start(GREEDY, False, 0.45)
_PEEL, _ENTROPIC = Start(PEEL, False, 0.28), Start(PEEL, True, 0.6)


class WidePairs:
    """The pairs of a sweep whose supports are wide, at least one, in an order that keeps y as long as possible."""

    def __init__(self, task: Task, pairs: NDArray[np.int64]) -> None:
        self._task = task
        order = np.lexsort((task.pair_x[pairs], task.pair_y[pairs]))
        self._todo = pairs[order]
        rows = np.diff(task.x.indptr)[task.pair_x[self._todo]]
        columns = np.diff(task.y.indptr)[task.pair_y[self._todo]]
        self._widths = float(rows.mean()), float(columns.mean())
        self._slices = cut(rows * columns, _SLICE)
        self._pivots: list[float] = []  # a pair, sweep by sweep

    def improve(self, V: Floats, found: tuple[Floats, Floats, Floats], threads: int) -> int:
        """Solve all of them; `found` receives bounds and values. Returns how many bases changed."""
        start = self._choose(V)

        def run(lo: int, hi: int) -> tuple[int, int]:
            return self._solve(self._task, self._todo[lo:hi], V, start, found)

        changed, pivots = np.sum(in_slices(run, self._slices, threads), axis=0)
        self._pivots.append(float(pivots) / len(self._todo))
        return int(changed)

    def _solve(
        self, task: Task, todo: NDArray[np.int64], V: Floats, start: Start, found: tuple[Floats, Floats, Floats]
    ) -> tuple[int, int]:
        prices = np.empty((0, 0), dtype=np.float32)
        if start.entropic:
            p = _dense(task.x, task.pair_x[todo], V.shape[0])
            q = _dense(task.y, task.pair_y[todo], V.shape[1])
            prices = entropic_prices(V, p, q)
        answer: tuple[int, int] = optimise_wide(todo, V, *task, start.basis, prices, *found)
        return answer

    def _choose(self, V: Floats) -> Start:
        """The start that takes the least work on a few pairs from two places."""
        first = not self._pivots
        if first and self._task.bases.known[self._todo].any():  # taken over from another sweep
            return _LAST
        # The first potential is often the cost itself, which says little about the second.
        if len(self._pivots) > 1 and self._pivots[-1] <= _SETTLED * sum(self._widths):
            return _LAST
        n_probes = min(_PROBES, len(self._todo) // (_SHARE * len(_PLACES)))
        if n_probes < 2 or (first and self._task.hints is not self._task.bases):
            return _PEEL if first else _LAST
        starts = [_GREEDY, _PEEL] if first else [_LAST, _GREEDY, _PEEL]
        # Entropic steps go over all states: where supports are a small part of them, most of the work is lost.
        if 2 * self._widths[0] >= V.shape[0] and 2 * self._widths[1] >= V.shape[1]:
            starts.append(_ENTROPIC)
        places = [int(share * len(self._todo)) for share in _PLACES]
        probes = [self._todo[place : place + n_probes] for place in places]
        return min(starts, key=lambda start: sum(self._work(V, few, start) for few in probes))

    def _work(self, V: Floats, probes: NDArray[np.int64], start: Start) -> float:
        """Pivots a pair and what the start costs; the first pair has nobody's prices to go by and does not count."""
        pivots = self._pivots_of(V, probes, start) - self._pivots_of(V, probes[:1], start)
        return pivots / (len(probes) - 1) + start.cost * (sum(V.shape) if start.entropic else sum(self._widths))

    def _pivots_of(self, V: Floats, pairs: NDArray[np.int64], start: Start) -> int:
        """Solve some pairs on copies of their bases."""
        task = self._task
        copy = task._replace(
            pair_x=task.pair_x[pairs], pair_y=task.pair_y[pairs],
            bases=_taken(task.bases, pairs), hints=_taken(task.hints, pairs),
        )  # fmt: skip
        room = np.empty(len(pairs)), np.empty(len(pairs)), np.empty(len(pairs))
        return self._solve(copy, np.arange(len(pairs)), V, start, room)[1]


def _taken(bases: Bases, pairs: NDArray[np.int64]) -> Bases:
    """The bases of some pairs, on their own."""
    begin, lengths = bases.ptr[pairs], (bases.ptr[1:] - bases.ptr[:-1])[pairs]
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    arcs = np.repeat(begin - ptr[:-1], lengths) + np.arange(ptr[-1])
    return Bases(ptr, bases.cells[arcs], bases.flows[arcs], bases.known[pairs])


def _dense(rows: Rows, which: NDArray[np.int32], n_states: int) -> NDArray[np.float32]:
    """Rows of probabilities over all states."""
    lengths = np.diff(rows.indptr)[which]
    ends = np.cumsum(lengths)
    entries = np.repeat(rows.indptr[which] - (ends - lengths), lengths) + np.arange(ends[-1])
    full = np.zeros((len(which), n_states), dtype=np.float32)
    full[np.repeat(np.arange(len(which)), lengths), rows.indices[entries]] = rows.probabilities[entries]
    return full
