"""Continuous time: two chains seen at the jumps of one common clock.

From (x, y) a coupling chooses joint jump rates whose sides are those of the two chains; jumping alone and together are
both allowed. Uniformised at one rate L, a coupling of the rows I + Q_x / L and I + Q_y / L is such a choice divided by
L, with what is left over on (x, y) itself. That is never negative for L >= the largest exit rate of X plus that of Y,
since jumps that never coincide take place at the sum of both. From there on the distance does not depend on L. Below
(at the textbook's L, the larger of the two), some jumps are forced to coincide, and the distance is too large.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from somcot.bellman.pairs import PairChoice
from somcot.clocks import Clock
from somcot.derivatives import RowGradient
from somcot.plumbing.arrays import Floats
from somcot.problem import Problem
from somcot.result import Bounds, Result
from somcot.solvers import exact
from somcot.timed import ContinuousChain

__all__ = ["common_rate", "metric", "solve", "uniformised"]

_EPS = float(np.finfo(np.float64).eps)


def common_rate(x: ContinuousChain, y: ContinuousChain) -> float:
    """A rate for both chains at which no jumps are forced to coincide, and every state may stay.

    Examples
    --------
    >>> slow, fast = ContinuousChain([[-1, 1], [1, -1]]), ContinuousChain([[-5, 5], [5, -5]])
    >>> common_rate(slow, fast)
    6.0
    """
    rates = float(x.exits.max()), float(y.exits.max())
    return sum(rates) if min(rates) > 0.0 else 2.0 * max(rates) or 1.0


def uniformised(x: ContinuousChain, y: ContinuousChain, cost: ArrayLike, rate: float) -> tuple[Problem, float]:
    """The problem in discrete time, and the rate of its steps."""
    least = common_rate(x, y)
    discount = least / (least + rate)
    # The rate of the steps follows from the discount as rounded, so that both fit to the last digits.
    steps = _steps(discount, rate)
    if steps < least:
        discount = float(np.nextafter(discount, 1.0))
        steps = _steps(discount, rate)
    if not discount < 1.0:
        raise ValueError(
            f"rate: found {rate:g}, which is nothing against exit rates of up to {least:g} in floating point; compare "
            "x.uniformised(L) and y.uniformised(L) with discount=1 and an L of at least their sum"
        )
    smallest = float(np.finfo(np.float64).tiny)
    return Problem(x.uniformised(steps), y.uniformised(steps), cost, max(discount, smallest)), steps


def _steps(discount: float, rate: float) -> float:
    """L with discount = L / (L + rate); 1 - discount has no rounding from 1/2 on."""
    return rate * discount / (1.0 - discount) if discount < 1.0 else np.inf


def solve(
    x: ContinuousChain,
    y: ContinuousChain,
    cost: ArrayLike,
    rate: float,
    *,
    pairs: PairChoice = "reachable",
    threads: int | None = None,
    max_sweeps: int = 200,
) -> Result:
    """The least E[integral of r e^(-r t) c(X_t, Y_t) dt]; as `exact.solve`.

    The potential is the distance from each pair divided by the rate. Kernels of the gradient are those of rates: a
    derivative for every jump that occurs, with its time taken from staying.
    """
    problem, steps = uniformised(x, y, cost, rate)
    found = exact.solve(problem, pairs=pairs, threads=threads, max_sweeps=max_sweeps)
    assert found.gradient is not None
    sides = [_in_rates(side, steps) for side in (found.gradient.x, found.gradient.y)]
    return replace(
        found,
        bounds=_widened(found.bounds, problem, steps / rate),
        potential=found.potential * ((1.0 - problem.discount) / rate),
        gradient=replace(
            found.gradient, x=sides[0], y=sides[1], discount=-found.gradient.discount * problem.discount**2 / steps
        ),
        settling=None if found.settling is None else found.settling / steps,
        clock=Clock("rate", rate),
        makeup=None,  # rows of the uniformised chains: nobody asked about those
    )


def metric(
    x: ContinuousChain, y: ContinuousChain, cost: ArrayLike, rate: float, *, threads: int | None = None
) -> Floats:
    """The distance from every pair of states, (n_x, n_y)."""
    return exact.metric(uniformised(x, y, cost, rate)[0], threads=threads)


def _widened(bounds: Bounds, problem: Problem, jumps: float) -> Bounds:
    """Charge the rounding of the rows and of the discount.

    The rows solved are those of chains whose rates are off by a share e: L by at most three roundings (half an epsilon
    each) of the quotient that it is, an entry by one when divided by L, and by two when its row, whose diagonal is
    rounded too, is made to sum to 1 (what all entries of a row have in common the solver's own bracket covers): six
    roundings, charged as eight. Chains whose rates differ by a share e can be run together until a jump of one alone,
    which comes at a rate of at most e times the exit rates of both, that is e L; it comes before time runs out with
    probability at most e L / r, and `jumps` is L / r.
    """
    charge = 4.0 * _EPS * (1.0 + jumps) * problem.scale
    low, high = float(problem.cost.min()), float(problem.cost.max())
    return Bounds(min(max(bounds.low - charge, low), high), max(min(bounds.high + charge, high), low))


def _in_rates(side: RowGradient, steps: float) -> RowGradient:
    """Derivatives along rates: more of a jump is less of staying."""
    rows = np.repeat(np.arange(len(side.indptr) - 1), np.diff(side.indptr))
    own = rows == side.indices
    staying = np.zeros(len(side.indptr) - 1)
    staying[rows[own]] = side.values[own]
    return replace(side, values=np.where(own, 0.0, (side.values - staying[rows]) / steps))
