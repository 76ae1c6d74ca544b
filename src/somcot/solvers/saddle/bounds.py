"""What a saddle point proves by itself: a lower bound from its potential, an upper bound from its coupling.

Lower. A coupling with state law m, whose marginals are the state occupancies nu_X and nu_Y whatever the coupling, costs

    <m, c> = <m, c + g E[V'] - V> + (1 - g) E[V(first pair)]  >=  OT(nu_X, nu_Y; T V - V) + (1 - g) OT(start laws; V)

for any V, by the flow constraint. Where V is the potential of a saddle point the right side is its value, even if
T V - V is far from 0 at pairs that no good coupling visits; the least residual of `certificates` would be ruined by
those.

Upper. The coupling, rounded pair by pair to the right marginals (the paper's r), is one that can be run; what it costs
is computed by a linear system.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from somcot.bellman.pairs import Pairs
from somcot.bellman.sweep import Sweep
from somcot.certificates import bounds_from, centred, rounding
from somcot.chains import MarkovChain
from somcot.plumbing.arrays import Floats
from somcot.plumbing.discounting import Kernel, discounted_value
from somcot.problem import Problem, UnitProblem
from somcot.solvers.saddle.kernel import Layout

__all__ = ["lower_bound", "upper_bound", "value_bound"]

_EPS = float(np.finfo(np.float64).eps)
_FORBIDDEN = 10.0  # cost of pairs that cannot be met, in units of the range of the others; any number keeps the bound


def lower_bound(problem: Problem, pairs: Pairs, V: Floats) -> float:
    """Lower bound of the distance from a potential on the reachable pairs, in units of the unit cost.

    Rounding is charged as in `certificates`; occupancies that are off by e in total cost at most e / 2 times the spread
    of what is transported between them.
    """
    g = problem.discount
    V = centred(V)
    found = Sweep(problem.unit, pairs).improve(pairs.table(V))
    residual = problem.unit_cost[pairs.x, pairs.y] + g * found.low[:-1] - V
    far = residual.max() + _FORBIDDEN * float(np.ptp(residual))
    occupancies = [MarkovChain(c.transition, c.state_occupancy(g), normalize=True) for c in (problem.x, problem.y)]
    support_x, support_y = (chain.support for chain in occupancies)
    nothing = np.empty(0, dtype=np.int32)
    no_pairs = Pairs(nothing, nothing, np.full(problem.shape, -1, dtype=np.int32))
    between = Sweep(UnitProblem(support_x, support_y, problem.unit_cost, g), no_pairs)
    least = between.improve(pairs.table(residual, far)).low[-1]
    off = sum(_occupancy_error(c, law.initial, g) for c, law in zip((problem.x, problem.y), occupancies, strict=True))
    low = float(least + (1.0 - g) * found.low[-1]) - 4.0 * rounding(V) - off / 2.0 * float(far - residual.min())
    return low if np.isfinite(low) else 0.0


def _occupancy_error(chain: MarkovChain, law: Floats, discount: float) -> float:
    """Bound of the l1 error of a computed state occupancy: its flow residual over 1 - discount, rounding included.

    Each entry of the residual sums as many terms as its column has, and rows sum to 1 up to a unit for each entry.
    """
    n, support = chain.n_states, chain.support
    moved = np.append(discount * law, 1.0 - discount)[support.rows] * support.probabilities
    flow = np.bincount(support.indices, moved, n) - law  # in order: BLAS has other bits on other machines
    longest = max(int(np.bincount(support.indices, minlength=n).max()), support.max_row)
    slack = 4.0 * _EPS * (longest + 2) + 4.0 * _EPS
    return (float(np.abs(flow).sum()) * (1.0 + n * _EPS) + slack) / (1.0 - discount)


def upper_bound(problem: Problem, pairs: Pairs, layout: Layout, mu: Floats) -> float:
    """Upper bound of the distance from an approximate coupling of the layout's cells, in units of the unit cost.

    The value V of the rounded coupling is one that T does not raise, so the sweep of `certificates` proves it.
    """
    kernel = Kernel(layout.cells, layout.following.astype(np.int32), rounded(layout, mu))
    V = discounted_value(kernel, layout.cost, problem.discount)[: len(pairs)]
    return value_bound(problem, pairs, V)


def value_bound(problem: Problem, pairs: Pairs, V: Floats) -> float:
    """Upper bound of the distance from the value of any coupling that can be run, in units of the unit cost."""
    V = centred(V)
    found = Sweep(problem.unit, pairs).improve(pairs.table(V))
    return bounds_from(problem.discount, V, problem.unit_cost[pairs.x, pairs.y], found).high


def rounded(layout: Layout, mu: Floats) -> Floats:
    """The transition coupling of `mu` with marginals P(.|x) and Q(.|y) at every pair (`couplings.round_to_marginals`).

    The product of the two where `mu` has no mass.
    """
    pair = np.repeat(np.arange(len(layout.cost)), np.diff(layout.cells))
    law = np.bincount(pair, mu, len(layout.cost))[pair]
    product = layout.kernel_x[layout.row] * layout.kernel_y[layout.column]
    plan = np.divide(mu, law, out=product, where=law > 0)
    for slot, wanted in ((layout.row, layout.kernel_x), (layout.column, layout.kernel_y)):
        found = _sums(slot, plan, wanted)
        with np.errstate(over="ignore"):  # more than 1 is 1
            plan *= np.minimum(np.divide(wanted, found, out=np.ones_like(found), where=found > 0), 1.0)[slot]
    missing_x = np.maximum(layout.kernel_x - _sums(layout.row, plan, layout.kernel_x), 0.0)
    missing_y = np.maximum(layout.kernel_y - _sums(layout.column, plan, layout.kernel_y), 0.0)
    total = np.add.reduceat(missing_x, layout.offset_x[:-1].astype(np.int64))[pair]
    missing = missing_x[layout.row] * missing_y[layout.column]
    filled: Floats = plan + np.divide(missing, total, out=np.zeros_like(plan), where=total > 0)
    return filled


def _sums(slot: NDArray[np.uint32], plan: Floats, like: Floats) -> Floats:
    sums: Floats = np.bincount(slot.astype(np.int64), plan, len(like)).astype(np.float64)
    return sums
