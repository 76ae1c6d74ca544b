"""From a transition coupling over pairs to a Result."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from somcot.bellman.pairs import Pairs
from somcot.couplings import Coupling, conditional, residuals
from somcot.derivatives import Gradient
from somcot.plumbing.arrays import Floats
from somcot.plumbing.discounting import Kernel, discounted_occupancy
from somcot.problem import Problem
from somcot.result import Bounds, Maps, Result, Status

__all__ = ["assemble", "occupancy_coupling"]


def occupancy_coupling(problem: Problem, pairs: Pairs, kernel: Kernel, start: Floats) -> Coupling:
    """The occupancy coupling that a transition coupling induces."""
    law = discounted_occupancy(kernel, start, problem.discount)
    now = np.repeat(np.arange(len(pairs)), np.diff(kernel.indptr))
    mass = law[now] * kernel.data
    keep = mass > 0
    now, following = now[keep], kernel.indices[keep]
    x, y, next_x, next_y = pairs.x[now], pairs.y[now], pairs.x[following], pairs.y[following]
    return Coupling(problem.shape, x, y, next_x, next_y, mass[keep], pairs.table(start))


def assemble(
    problem: Problem,
    coupling: Coupling,
    V: Floats,
    bounds: Bounds,
    *,
    method: str,
    status: Status,
    message: str,
    n_steps: int,
    began: float,
    trace: Mapping[str, Sequence[float]],
    gradient: Gradient | None = None,
) -> Result:
    """Undo the scaling of the cost and collect everything a Result holds.

    `V` (n_x, n_y) and `bounds` are in units of the unit cost. The distance is <mu, c>, the cost of the coupling
    itself, so it is exactly the least cost when the coupling only visits pairs of least cost.
    """
    law = coupling.state_law()
    visited = law > 0
    unit_distance = float(law[visited] @ problem.unit_cost[visited])
    low, high = min(bounds.low, unit_distance), max(bounds.high, unit_distance)
    maps = Maps(conditional(law), conditional(law.T))
    nu_x, nu_y = problem.x.occupancy(problem.discount), problem.y.occupancy(problem.discount)
    columns = {name: np.asarray(values, dtype=np.float64) for name, values in trace.items()}
    if "distance" in columns:
        columns["distance"] = problem.offset + problem.scale * columns["distance"]
    return Result(
        distance=problem.to_user(unit_distance),
        method=method,
        status=status,
        message=message,
        discount=problem.discount,
        n_steps=n_steps,
        seconds=time.perf_counter() - began,
        bounds=Bounds(problem.to_user(low), problem.to_user(high)),
        maps=maps,
        potential=problem.potential_to_user(V),
        state_law=law,
        residuals=residuals(coupling, nu_x, nu_y, problem.discount, maps.encoder, maps.decoder),
        states_x=problem.x.states,
        states_y=problem.y.states,
        plan=coupling,
        trace=columns,
        gradient=gradient,
    )
