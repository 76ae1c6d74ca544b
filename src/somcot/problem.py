"""The input of every solver: two chains, a cost and a discount."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from somcot.chains import MarkovChain, Support
from somcot.clocks import Clock
from somcot.costs import FeatureCost, aligned, check_cost
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_discount, check_kind, check_number, real_numbers
from somcot.recorded.counts import Counts
from somcot.recorded.sources import Stream
from somcot.samples import Samples

__all__ = ["ChainOrData", "CostUnits", "Data", "Problem", "Process", "UnitProblem"]

Data = Samples | Counts  # kernels can be estimated from these
ChainOrData = MarkovChain | Data
Process = ChainOrData | Stream  # a known kernel, data or a source


@dataclass(frozen=True, eq=False)
class UnitProblem:
    """A problem for compiled code: supports, the cost scaled to [0, 1] and the discount.

    The supports may contain entries of probability 0. Rows may differ from the exact ones by at most `slack` (total
    absolute difference, summed over both chains), which widens brackets.
    """

    support_x: Support
    support_y: Support
    costs: Floats | Problem  # the table, or the problem to compute parts of it from
    discount: float
    slack: float = 0.0

    @property
    def cost(self) -> Floats:
        """The cost scaled to [0, 1], (n_x, n_y)."""
        return self.costs.unit_cost if isinstance(self.costs, Problem) else self.costs

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of states (n_x, n_y)."""
        n_x, n_y = self.costs.shape
        return n_x, n_y

    def cost_between(self, rows: NDArray[Any], columns: NDArray[Any]) -> Floats:
        """The cost between some states, bit-identical to the full table, which is not computed."""
        if isinstance(self.costs, Problem):
            # Scaled after selection: with few states kept, the full table is never scaled.
            return self.costs.in_units(self.costs.cost[np.ix_(rows, columns)])
        part: Floats = self.costs[np.ix_(rows, columns)]
        return part


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Problem:
    """Minimise the expected discounted cost over all bicausal couplings of two known chains.

    d = (1 - discount) * min E[sum_t discount^t cost(X_t, Y_t)]; the coupling of the initial states is optimised too.

    Examples
    --------
    >>> from somcot import random_walk
    >>> problem = Problem(random_walk(2), random_walk(2), [[3, 5], [5, 3]], 0.9)
    >>> problem.offset, problem.scale
    (3.0, 2.0)
    >>> problem.in_units(np.array([3.0, 5.0])), problem.to_user(0.5)
    (array([0., 1.]), 4.0)
    >>> problem.potential_to_user(np.array([5.0]))
    array([40.])
    """

    x: MarkovChain
    y: MarkovChain
    cost: Floats
    clock: Clock
    _least: float | None

    def __repr__(self) -> str:
        (n, m), cost = self.shape, f"cost from {self.cost.min():.4g} to {self.cost.max():.4g}"
        return f"Problem({n} x {m} states, {cost}, {self.clock})"

    def __init__(self, x: MarkovChain, y: MarkovChain, cost: ArrayLike, discount: float | Clock) -> None:
        check_kind("x", x, MarkovChain)
        check_kind("y", y, MarkovChain)
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "y", y)
        # Estimated features have a noisy minimum; 0 is the least possible difference.
        object.__setattr__(self, "_least", 0.0 if isinstance(cost, FeatureCost) else None)
        object.__setattr__(self, "cost", check_cost(aligned(cost, x.states, y.states), len(x.states), len(y.states)))
        # A number is the usual case; solvers of other clocks pass theirs.
        clock = discount if isinstance(discount, Clock) else Clock("discount", check_discount(discount))
        object.__setattr__(self, "clock", clock)
        self.cost.setflags(write=False)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of states (n_x, n_y)."""
        n_x, n_y = self.cost.shape
        return n_x, n_y

    @property
    def discount(self) -> float:
        """The discount factor per step; 1 for the long-run average and for totals."""
        return self.clock.discount

    @cached_property
    def offset(self) -> float:
        """The minimal cost; solvers work with ``(cost - offset) / scale``, which lies in [0, 1].

        For an estimated cost it is the minimal possible value, since the observed minimum is noisy. A total cannot be
        shifted, because the number of steps depends on the coupling.
        """
        if self.clock.name == "total":
            return 0.0
        return float(self.cost.min()) if self._least is None else self._least

    @cached_property
    def scale(self) -> float:
        """The range of the cost; its size if the cost is constant or for a total; 1 if the cost is 0."""
        if self.clock.name == "total":
            return float(np.abs(self.cost).max()) or 1.0
        return self.most - self.offset or abs(self.most) or 1.0

    @cached_property
    def most(self) -> float:
        """The largest cost."""
        return float(self.cost.max())

    @cached_property
    def unit_cost(self) -> Floats:
        """The cost shifted and scaled to [0, 1]: distances follow d = offset + scale * d_unit."""
        return self.in_units(self.cost)

    def in_units(self, cost: Floats) -> Floats:
        """Shift and scale some of the costs."""
        unit = real_numbers("cost", cost) - self.offset
        unit /= self.scale  # in place: costs may fill a large share of the memory
        return unit

    @cached_property
    def unit(self) -> UnitProblem:
        """The problem on the unit-cost scale."""
        return UnitProblem(self.x.support, self.y.support, self, self.discount)

    def to_user(self, unit_distance: float) -> float:
        """Undo the shift and the scale for a distance, clipped to the range of the cost."""
        unit_distance = check_number("unit_distance", unit_distance)
        return min(max(self.offset + self.scale * unit_distance, self.offset), self.most)

    def bounds_to_user(self, low: ArrayLike, high: ArrayLike) -> tuple[Floats, Floats]:
        """Undo the shift and the scale for brackets, widened by one unit in the last place per operation.

        Every distance lies in the range of the cost, so brackets are clipped to it.

        Examples
        --------
        >>> from somcot import random_walk
        >>> problem = Problem(random_walk(2), random_walk(2), [[1e15, 1e15 + 1], [1e15 + 1, 1e15]], 0.9)
        >>> low, high = problem.bounds_to_user(0.3, 0.3)
        >>> float(low), float(high)
        (1000000000000000.1, 1000000000000000.4)
        """
        with np.errstate(over="ignore", under="ignore"):
            below = np.nextafter(self.scale * real_numbers("low", low), -np.inf)
            above = np.nextafter(self.scale * real_numbers("high", high), np.inf)
            # Two operations, each correctly rounded: one unit in the last place each.
            below, above = np.nextafter(self.offset + below, -np.inf), np.nextafter(self.offset + above, np.inf)
        return np.maximum(below, self.offset), np.minimum(above, self.most)

    def potential_to_user(self, unit_potential: Floats) -> Floats:
        """Undo the shift and the scale for a potential V, with distance = (1 - discount) V(initial pair).

        Entries that overflow are infinite: V may be 1 / (1 - discount) times as large as the costs. At discount 1
        potentials are relative, or those of a total, and have no shift.
        """
        unit_potential = real_numbers("unit_potential", unit_potential)
        if self.discount == 1.0:
            return self.scale * unit_potential
        rest = 1.0 - self.discount
        with np.errstate(over="ignore", invalid="ignore"):
            V = self.scale * unit_potential + self.offset / rest
            # Where V overflows, the distance itself, (1 - g) V, may not.
            return np.where(np.isfinite(V), V, (self.offset + self.scale * (rest * unit_potential)) / rest)


class CostUnits(NamedTuple):
    """The unit of the cost in a comparison; the union of the states may have a wider range than the problem."""

    offset: float
    scale: float

    @classmethod
    def of(cls, table: Floats) -> CostUnits:
        """The range of a cost."""
        least, most = float(table.min()), float(table.max())
        # A constant cost has no range; its size, or 1, prevents a division by 0.
        return cls(least, most - least or abs(most) or 1.0)

    def unit(self, table: Floats) -> Floats:
        """The cost in [0, 1]."""
        return np.ascontiguousarray((table - self.offset) / self.scale)

    def to_user(self, value: float) -> float:
        """A distance in the units of the cost."""
        return self.offset + self.scale * value
