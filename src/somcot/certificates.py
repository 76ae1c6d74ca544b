r"""Proved lower and upper bounds of the distance from any potential.

Let T be the Bellman operator, (T V)(x, y) = c(x, y) + discount * OT(P(.|x), Q(.|y); V). If T V - V lies between l and h
on a set of pairs that no coupling leaves, the optimal V* lies between V + l / (1 - discount) and V + h / (1 - discount)
there, for any V. One exact sweep thus turns any estimate into a certificate. With initial distributions p0 and q0,

    (1 - discount) OT(p0, q0; V) + l  <=  distance  <=  (1 - discount) OT(p0, q0; V) + h.

What is proved
--------------
The problem that was solved is the one in memory: cost and discount are the stored float64 numbers, and every row of a
kernel and every initial distribution is the stored float64 row divided by the exact sum of its entries (a rational; a
stored row sums to 1 only up to rounding). The bracket contains the distance of that problem in real arithmetic. With
u = 2^-53, round to nearest and no overflow, every rounding error is accounted for:

1. *Transport from below* (`core.transport`). Costs relative to one entry are C = fl(V - base), so errors scale with
   their range D, not the size of V. Potentials f, g whose every f_i + g_j - C_ij passed the float test of the simplex
   (at most ``tolerance`` = 2u (n + m + 8) D) give OT >= sum p f + sum q g - tolerance for the exact rows p, q. The
   recursive sum of n + m products errs by (n + m) u (F + G), with F, G <= R the largest potentials; the test itself
   and C by 2u R + u D; dividing by the exact row sums moves it by (excess_x + excess_y) R, where excess bounds
   \|sum - 1\| through a compensated sum. Charged: tolerance + (2u (n + m + 8) + excess_x + excess_y) R.
2. *Transport from above*. The computed plan is feasible for integer masses. By gluing, rows that differ by total
   variation t_x and t_y from those masses cost at most (t_x + t_y) D more. The sum of n + m - 1 products, the masses as
   floats, their total and C err by less than 2u (n + m + 8) D. Charged: (2u (n + m + 8) + t_x + t_y) D; t is computed
   row by row, with its own rounding.
3. *Closed forms*. One row or column: the value is sum p C, no masses enter; charged as in 1 with R = D. Two by two: the
   plan of 2, and from below `tolerance` more for ties.
4. *Residuals and the initial row*. The unit cost has error 2.01 u; the sums c + discount * OT - V, base + OT,
   (1 - discount) * OT + l together err by less than u (5 + 8 max \|V\|). Charged: 16 u (1 + max \|V\|). Only this term
   grows with 1 / (1 - discount), and only with the range of V once V is shifted to its middle, which changes
   nothing else in the inequality above (`centred`).
5. *Clipping and units*. Every distance lies between the minimal and the maximal cost, so clipping is allowed. The
   conversion back, offset + scale * d, is widened by one unit in the last place for each of its two operations and
   clipped again in the user's units (`Problem.bounds_to_user`): a bracket of width 0 that misses the distance cannot
   occur.
6. *Smaller problems* (`core.reduction`). Rows of merged states that differ by d_x and d_y (total absolute difference)
   change an optimal transport by at most (d_x + d_y) / 2 times the range of V, and so do the initial distributions;
   together less than slack = d_x + d_y times that range. The lifted V is constant on blocks, so its transport problems
   are those of the blocks. The charge for omitted states is derived in `core.reduction`.

Bounds that are not finite (potentials beyond floating point) are treated as unknown: 0 and 1.

Close to discount 1, and at 1
-----------------------------
V grows with 1 / (1 - discount), and so would 4. Instead (`class_gains`, `transient_bounds`):

7. *On a set of pairs that no coupling leaves*, let c + discount * OT(h) - h lie between l and h' for any h. Put
   V = h + gain / (1 - discount) into the inequality above: the distance from a pair s of the set lies in
   (1 - discount) h(s) + [l, h']. At discount 1 the long-run average lies in [l, h']: under any coupling
   E c(X_t, Y_t) >= l + E h(X_t, Y_t) - E h(X_{t+1}, Y_{t+1}), and the average of the right side over t < T tends to l;
   under the computed plans the same holds from above. Rounding is that of 4 with h for V.
8. *On transient pairs* (a member is transient), the distance solves D = (1 - discount) c + discount OT(D).
   Let t_x >= 1 + discount * P t_x on the transient states of X and 0 on all others, and t_y the same for Y. Let some D
   satisfy its equation there with residual at most r, and have error at most s on all other pairs. Then
   D + s + r (t_x + t_y) is at least as large as its own right-hand side: the added function is the sum of a function of
   x and a function of y, which every coupling transports at the same cost, and t_x + t_y decreases by at least 1 in a
   step from such a pair. So it is an upper bound of the distance, and D - s - r (t_x + t_y) a lower bound. (At discount
   1 because such pairs are transient under every coupling.) The initial distributions are one more such row: the
   bracket is OT(p0, q0; D) -+ (s + r E[t_x + t_y]). For total costs, c replaces (1 - discount) c. That t_x is
   large enough is checked in floating point, with its rounding charged (`core.pairs`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from somcot.core.pairs import PairGroups, all_pairs
from somcot.core.simulated_bound import SimulatedUpper, simulated_upper
from somcot.core.sweep import Improvement, Sweep
from somcot.couplings import Coupling, residuals
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_count, check_kind, real_array
from somcot.problem import Problem
from somcot.result import Bounds

__all__ = [
    "Bracket",
    "Settled",
    "SimulatedUpper",
    "bounds_from",
    "bracket",
    "centred",
    "class_gains",
    "lower_bound",
    "rounding",
    "simulated_upper",
    "transient_bounds",
    "upper_bound",
    "widest",
]  # fmt: skip

_EPS = float(np.finfo(np.float64).eps)


class Bracket(NamedTuple):
    """Bounds of the distance from every pair of states, each (n_x, n_y)."""

    low: Floats
    high: Floats


def bracket(problem: Problem, potential: ArrayLike, *, threads: int | None = None) -> Bracket:
    """Bounds of the distance from every pair of states, computed from any potential.

    Parameters
    ----------
    problem : Problem
    potential : array_like, shape (n_x, n_y)
        Any finite numbers; the closer to the optimal V, the tighter the bracket.

    Returns
    -------
    Bracket
        ``low <= (1 - discount) * V* <= high`` entry by entry.

    Examples
    --------
    >>> import somcot
    >>> walk = somcot.random_walk(4)
    >>> problem = Problem(walk, walk, somcot.costs.absolute([1, 0, 0, -1], [1, 0, 0, -1]), 0.9)
    >>> low, high = bracket(problem, problem.cost)
    >>> bool((low <= somcot.metric(walk, walk, problem.cost, discount=0.9)).all())
    True
    """
    check_kind("problem", problem, Problem)
    V = real_array("potential", potential, 2)
    if V.shape != problem.shape:
        raise ValueError(f"potential: shape is {V.shape}, expected {problem.shape}")
    with np.errstate(over="ignore", invalid="ignore"):
        # Subtract the shift of the user's scale, then scale; any
        # constant is allowed, and a centred V has the least rounding.
        unit = np.ascontiguousarray(centred((V - problem.offset / (1.0 - problem.discount)) / problem.scale))
        improvement = Sweep(problem.unit, all_pairs(problem.unit), threads).improve(unit)
        least, most = _residual_range(problem.discount, unit.ravel(), problem.unit_cost.ravel(), improvement)
        scaled = (1.0 - problem.discount) * unit
        return Bracket(*problem.bounds_to_user(_known(scaled + least, 0.0), _known(scaled + most, 1.0)))


def lower_bound(problem: Problem, n_sweeps: int, *, threads: int | None = None) -> Floats:
    """Anytime lower bound: value iteration from 0 never exceeds the distance and increases with every sweep.

    Parameters
    ----------
    problem : Problem
    n_sweeps : int
        The gap is at most ``discount ** n_sweeps`` times the range of the cost.

    Returns
    -------
    ndarray, shape (n_x, n_y)
        Lower bounds of the distance from every pair of states.

    Examples
    --------
    >>> import somcot
    >>> problem = somcot.Problem(somcot.random_walk(3, 0.5), somcot.random_walk(3, 0.7), 1.0 - np.eye(3), 0.9)
    >>> bool((lower_bound(problem, 5) <= lower_bound(problem, 50)).all())
    True
    """
    check_kind("problem", problem, Problem)
    # All pairs, since the bounds are reported for each of them.
    pairs = all_pairs(problem.unit)
    sweep = Sweep(problem.unit, pairs, threads)
    V = np.zeros(problem.shape)
    for _ in range(check_count("n_sweeps", n_sweeps, at_least=0)):
        # `low` of each sweep, so that every iterate is a lower bound in real arithmetic.
        before, V = V, problem.unit_cost + problem.discount * sweep.improve(V).low[:-1].reshape(problem.shape)
        # Further sweeps would repeat this one.
        if np.array_equal(V, before):
            break
    # Each sweep adds an error of at most `rounding`, which later sweeps discount: a geometric series.
    low = _known((1.0 - problem.discount) * V - rounding(V), 0.0)
    return problem.bounds_to_user(low, low)[0]


def upper_bound(problem: Problem, coupling: Coupling) -> float:
    """Upper bound of the distance from a coupling that is nearly feasible, in units of the unit cost.

    Rounding the coupling to a feasible one moves at most (3 dC_X + 3 dC_Y + dF) / (1 - discount) of mass (the paper's
    rounding lemma), and no cost exceeds 1. Violations of the initial distributions are charged in the same way.
    Unlike the brackets above, this bound holds only up to the rounding of its sums.

    Examples
    --------
    >>> import somcot
    >>> problem = somcot.Problem(somcot.random_walk(3, 0.5), somcot.random_walk(3, 0.7), 1.0 - np.eye(3), 0.9)
    >>> result = somcot.distance(problem.x, problem.y, problem.cost, discount=0.9)
    >>> upper_bound(problem, result.plan) >= result.bounds.low
    True
    """
    check_kind("problem", problem, Problem)
    check_kind("coupling", coupling, Coupling)
    nu_x, nu_y = problem.x.occupancy(problem.discount), problem.y.occupancy(problem.discount)
    flow, causal_x, causal_y = residuals(coupling, nu_x, nu_y, problem.discount)
    start = np.abs(coupling.start.sum(axis=1) - problem.x.initial).sum()
    start += np.abs(coupling.start.sum(axis=0) - problem.y.initial).sum()
    value = float((coupling.state_law() * problem.unit_cost).sum())
    # The factor 2 is that of `round_to_marginals`, for the coupling of the initial distributions.
    return value + float(3.0 * causal_x + 3.0 * causal_y + flow) / (1.0 - problem.discount) + 2.0 * float(start)


def bounds_from(discount: float, V: Floats, cost: Floats, improvement: Improvement, slack: float = 0.0) -> Bounds:
    """Bounds of the distance between the initial distributions, on the unit-cost scale.

    Parameters
    ----------
    discount : float
    V, cost : ndarray, shape (n_pairs,)
        Potential and unit cost on the pairs of the sweep.
    improvement : Improvement
        Result of the sweep against V.
    slack : float
        Maximal error of the rows, summed over both chains (6 above).
    """
    with np.errstate(over="ignore", invalid="ignore"):
        least, most = _residual_range(discount, V, cost, improvement)
        # Skipped without slack: V may be infinite, and 0 * inf is NaN.
        off = 0.0 if slack == 0.0 else slack * (float(V.max() - V.min()) + rounding(V))
        low = (1.0 - discount) * float(improvement.low[-1]) + least - off
        high = (1.0 - discount) * float(improvement.high[-1]) + most + off
    return Bounds(
        # Clipping is allowed (5 above): the distance lies in the range of the cost.
        min(max(low, 0.0), 1.0) if math.isfinite(low) else 0.0,
        min(max(high, 0.0), 1.0) if math.isfinite(high) else 1.0,
    )


def widest(discount: float, V: Floats, cost: Floats, improvement: Improvement, slack: float = 0.0) -> float:
    """Width of the bracket of the distance from any single pair, on the unit-cost scale; arguments of `bounds_from`."""
    with np.errstate(over="ignore", invalid="ignore"):
        least, most = _residual_range(discount, V, cost, improvement)
        width = most - least
        if slack > 0.0:
            width += 2.0 * slack * (float(V.max() - V.min()) + rounding(V))
    return min(width, 1.0) if math.isfinite(width) else 1.0


class Settled(NamedTuple):
    """A bracket from transient pairs (8 above).

    Attributes
    ----------
    bounds : Bounds
    time : float
        E[t_x + t_y] at the initial distributions: the factor of each unit of rounding.
    slack : float
        Maximal error of the value on all other pairs.
    n_sweeps : int
        Number of sweeps.
    """

    bounds: Bounds
    time: float
    slack: float
    n_sweeps: int = 0

    @property
    def width(self) -> float:
        """Width of the bracket."""
        return self.bounds.high - self.bounds.low

    def tighter(self, other: Settled) -> Settled:
        """The intersection of two brackets, both of which are valid."""
        low, high = max(self.bounds.low, other.bounds.low), min(self.bounds.high, other.bounds.high)
        return Settled(Bounds(low, high), self.time, self.slack, self.n_sweeps + 1)


def class_gains(
    discount: float, h: Floats, cost: Floats, improvement: Improvement, groups: PairGroups
) -> tuple[Floats, Floats]:
    """Bounds of the gain of each class of pairs, on the unit-cost scale (7 above).

    Parameters
    ----------
    discount : float
        At most 1.
    h, cost : ndarray, shape (n_pairs,)
        Relative potential and unit cost on the pairs of the sweep.
    improvement : Improvement
        Result of the sweep against h.
    groups : PairGroups
        The classes.
    """
    # 8 eps = 16 u, as in 4 above, with the classes' own h in place of V.
    charged = 8.0 * _EPS * (1.0 + groups.largest(np.abs(h)))
    # The smallest residual as minus the largest negative one, since classes offer `largest` only.
    low = -groups.largest(h - (cost + discount * improvement.low[:-1])) - charged
    high = groups.largest(cost + discount * improvement.high[:-1] - h) + charged
    return _known(low, 0.0), _known(high, 1.0)


def transient_bounds(discount: float, cost: Floats, D: Floats, improvement: Improvement, known: Settled) -> Settled:
    """Bounds of the minimal cost between the initial distributions if the pairs of a sweep are transient (8 above).

    Parameters
    ----------
    discount : float
        At most 1.
    cost, D : ndarray, shape (n_pairs,)
        Cost of a visit to each pair, and the value to be bounded.
    improvement : Improvement
        Result of the sweep against D.
    known : Settled
        Time and slack; its bounds are not used.
    """
    time, slack = known.time, known.slack
    charged = rounding(np.append(D, improvement.high[-1]))
    with np.errstate(over="ignore", invalid="ignore"):
        # `initial=0.0`: without pairs the maximum of nothing is 0.
        too_high = float((D - (cost + discount * improvement.low[:-1])).max(initial=0.0))
        too_low = float((cost + discount * improvement.high[:-1] - D).max(initial=0.0))
        below, above = (max(0.0, excess + charged) if len(D) else 0.0 for excess in (too_high, too_low))
        # 0 * inf is NaN: without residual the time does not matter.
        low = float(improvement.low[-1] - (slack + charged) - (below * time if below else 0.0))
        high = float(improvement.high[-1] + (slack + charged) + (above * time if above else 0.0))
    return Settled(Bounds(low, high), time, slack)


def centred(V: Floats) -> Floats:
    """A potential minus the middle of its range: an equivalent potential with the smallest rounding error."""
    middle: float = V.min() / 2.0 + V.max() / 2.0  # halved first: the sum may overflow
    return np.asarray(V - middle)


def rounding(V: Floats) -> float:
    """Error bound of a Bellman residual, apart from the transport itself (4 above)."""
    return 8.0 * _EPS * (1.0 + float(np.abs(V).max()))


def _residual_range(discount: float, V: Floats, cost: Floats, improvement: Improvement) -> tuple[float, float]:
    """Smallest and largest Bellman residual, widened by the rounding of the sweep."""
    least = cost + discount * improvement.low[:-1] - V
    most = cost + discount * improvement.high[:-1] - V
    charged = rounding(V)
    return float(least.min()) - charged, float(most.max()) + charged


def _known(ends: Floats, otherwise: float) -> Floats:
    """Bounds inside [0, 1]; `otherwise` where they are not finite."""
    return np.where(np.isfinite(ends), np.clip(ends, 0.0, 1.0), otherwise)
