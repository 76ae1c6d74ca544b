"""Whether an interval that ends near 0 may leave 0 out: transitions are dealt anew, row by row."""

from __future__ import annotations

import numpy as np

from somcot.inference.dealing import RowDeck, known_starts_differ
from somcot.inference.rules import Evidence
from somcot.inference.statistics import METRIC_TOLERANCE, Slope, slope, slope_at
from somcot.many.groups import Member
from somcot.many.packs import pack
from somcot.many.plan import Options
from somcot.many.small import iterate_small, new_bases, rows_of, small_problem, unit_of
from somcot.plumbing.arrays import Floats
from somcot.result import Bounds

__all__ = ["guarded", "needs_guard"]

_GUARD = 39  # regroupings behind the lower end of an interval, as for a single distance


def needs_guard(ends: Bounds, evidence: Evidence) -> bool:
    """Whether the lower end is above 0, but not so far that there could be no doubt."""
    return ends.low > 0.0 and evidence.plugin - 1.25 * evidence.gap - 6.0 * evidence.error <= 0.0


def guarded(ends: Bounds, x: Member, y: Member, cost: Floats, options: Options, where: tuple[int, int]) -> Bounds:
    """Let the interval reach down to 0 where regrouping transitions row by row cannot tell the processes apart.

    As for a single distance, with single transitions in place of whole episodes: what was counted once per data set is
    enough for that.
    """
    assert x.model is not None
    assert y.model is not None
    one, other = x.model.samples, y.model.samples
    if one is None or other is None or known_starts_differ(one, other):
        return ends
    deck = RowDeck.of(one, other)
    measure = _measure(deck, _in_order_of(deck, x, cost), options.discount)
    rng = np.random.default_rng([options.seed, 1 + where[0], 1 + where[1]])
    p, q = (deck.shares_of(counts[None, :]) for counts in (deck.observed, deck.total - deck.observed))
    first, second = deck.dealt(rng, _GUARD)
    values = measure.of_many(deck.support, np.concatenate([p, first]), np.concatenate([q, second]))
    as_far = int((values[1:] >= values[0] - 1e-9).sum())
    return ends if (1 + as_far) / (_GUARD + 1) <= 0.05 else Bounds(0.0, ends.high)


def _measure(deck: RowDeck, cost: Floats, discount: float) -> Slope:
    """As `statistics.slope`, but on the kernels of the batch, which are compiled already."""
    only, n = pack([deck.support]), len(cost)
    unit = unit_of(0, only)
    rows = rows_of(0, only, (1 << 61) // unit)
    problem = small_problem(rows, rows, unit, n, n, cost, discount)
    bases, V = new_bases(problem), np.empty(problem.n)
    found = iterate_small(
        problem, cost.copy(), V, bases, bases, METRIC_TOLERANCE, np.zeros(1), np.ones(1)
    )  # fmt: skip
    if found[0] != 0:
        return slope(deck, cost, discount, threads=1)
    table = np.zeros_like(cost)
    table[problem.pair_x[:-1], problem.pair_y[:-1]] = V
    return slope_at(table, deck.support, cost, discount)


def _in_order_of(deck: RowDeck, x: Member, cost: Floats) -> Floats:
    assert x.model is not None
    place = {label: i for i, label in enumerate(x.model.chain.states)}
    order = [place[label] for label in deck.pooled.states]
    return np.ascontiguousarray(cost[np.ix_(order, order)])
