"""The exact distance of the chains of the transitions a run was fed: what SOMCOT's own value is held against.

SOMCOT proves nothing about a single run, but it has seen its transitions, and the chains most likely to have sent them
can be solved exactly (`recorded.flow` fits them: the transitions are samples of the occupancy). Their bracket belongs
to those chains alone. SOMCOT's value may lie outside; if it does by more than chance explains, the run has
not converged.
"""

from __future__ import annotations

import math
import warnings
from functools import partial
from typing import NamedTuple

import numpy as np

from somcot.chains import MarkovChain
from somcot.derivatives import RowGradient
from somcot.plumbing.arrays import Floats, Ints
from somcot.plumbing.errors import ConvergenceWarning
from somcot.plumbing.lazy import Later
from somcot.problem import Problem
from somcot.result import Bounds
from somcot.solvers.somcot.state import State

__all__ = ["Counted", "counted_later"]

MOST_SECONDS = 2.0  # of forecast work
DIFFERENT = 0.03  # of the cost's range: what runs that went well stay below
N_ERRORS = 2.0
SWEEPS, NEWTON_STEPS, FLOPS = 6, 20, 5e9  # of the exact solver, of the fit, of a core in a second


class Fed(NamedTuple):
    """What a run was asked and fed."""

    cost: Floats
    discount: float
    initial_x: Floats
    initial_y: Floats
    counts_x: Ints
    counts_y: Ints


class Counted(NamedTuple):
    """The counted chains' distance with its bracket and standard error, and what is to be said about it.

    `distance` is None, and the bounds are the range of the cost, when the work would have taken too long.
    """

    distance: float | None
    bounds: Bounds
    standard_error: float
    remarks: tuple[str, ...] = ()

    def verdict(self, found: float, scale: float) -> tuple[str, ...]:
        """Whether `found`, SOMCOT's own distance, is what its transitions say; and the remarks."""
        if self.distance is None:
            return self.remarks
        difference = abs(found - self.distance)
        if difference > DIFFERENT * scale and difference > N_ERRORS * self.standard_error:
            low, high = sorted((found, self.distance))
            digits = max(0, 3 - math.ceil(math.log10(high - low) if high > low else 0.0))
            said = f"{found:.{digits}f}, while the transitions it was fed give {self.distance:.{digits}f}"
            return (f"has not converged: {said}", *self.remarks)
        return self.remarks


def counted_later(state: State) -> Later[Counted]:
    """The exact distance of the counted chains, when it is first asked for; the state may go on meanwhile."""
    fed = Fed(
        state.cost, state.settings.discount, state.initial_x, state.initial_y,
        state.counts_x.copy(), state.counts_y.copy(),
    )  # fmt: skip
    return Later(partial(_solved, fed))


def forecast(counts_x: Ints, counts_y: Ints) -> float:
    """Seconds that fitting and solving would take, roughly and from above; sizes alone decide, no clock."""
    sides = (counts_x, counts_y)
    sizes = [(int(np.count_nonzero(c.sum(axis=0) + c.sum(axis=1))), int(np.count_nonzero(c))) for c in sides]
    fit = sum(NEWTON_STEPS * n**3 / 3 / FLOPS for n, _ in sizes)
    k, m = (entries / max(1, n) for n, entries in sizes)
    per_pair = 2e-6 + 0.3e-6 * (k + m) + 0.02e-6 * k * m
    return fit + SWEEPS * sizes[0][0] * sizes[1][0] * per_pair


def _solved(fed: Fed) -> Counted:
    seconds = forecast(fed.counts_x, fed.counts_y)
    if seconds > MOST_SECONDS:
        said = (
            f"the chains of the transitions it was fed were not solved, which would take about {seconds:.0f} s; the "
            "bounds are the range of the cost"
        )
        return Counted(None, Bounds(float(fed.cost.min()), float(fed.cost.max())), math.inf, (said,))
    from somcot.recorded.flow import flow_mle  # the fit and the exact solver are loaded when they are needed
    from somcot.solvers.exact import solve

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x = flow_mle(fed.counts_x, fed.initial_x, fed.discount).chain
        y = flow_mle(fed.counts_y, fed.initial_y, fed.discount).chain
    failed = tuple(str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning))
    found = solve(Problem(x, y, fed.cost, fed.discount))
    error = math.inf
    if found.gradient is not None:
        sides = ((found.gradient.x, x, fed.counts_x), (found.gradient.y, y, fed.counts_y))
        error = math.sqrt(sum(_variance(slope, chain, fed.discount, int(n.sum())) for slope, chain, n in sides))
    return Counted(found.distance, found.bounds, error, failed)


def _variance(slope: RowGradient, chain: MarkovChain, discount: float, n: int) -> float:
    """Of the distance to first order in one chain's kernel, fitted to n samples of its occupancy.

    In terms of the occupancy nu the slope is h(x, x') = slope(x, x') / nu(x). Fits obey the flow constraints, which
    take the part of h away that is u(x) - discount u(x') for some u: what is left is a weighted least-squares problem.
    """
    rows = np.repeat(np.arange(chain.n_states), np.diff(slope.indptr))
    table = chain.occupancy(discount)
    nu = np.asarray(table[rows, slope.indices]).ravel()
    visits = np.asarray(table.sum(axis=1)).ravel()
    kept = nu > 0
    rows, columns, weight = rows[kept], slope.indices[kept], np.sqrt(nu[kept])
    h = slope.values[kept] / visits[rows]
    design = np.zeros((len(h), chain.n_states))
    np.add.at(design, (np.arange(len(h)), rows), weight)
    np.add.at(design, (np.arange(len(h)), columns), -discount * weight)
    left = weight * h
    left = left - design @ np.linalg.lstsq(design, left)[0]
    return float(left @ left) / n
