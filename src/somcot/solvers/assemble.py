"""From what a solver found to a Result."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from somcot.bellman.pairs import Pairs
from somcot.couplings import Coupling, Residuals, conditional, residuals
from somcot.plumbing.arrays import Floats
from somcot.plumbing.discounting import Kernel, discounted_occupancy
from somcot.problem import Problem
from somcot.result import Bounds, Maps, Result, Status

__all__ = ["Answer", "Ending", "Question", "assemble", "assemble_coupling", "occupancy_coupling"]


def occupancy_coupling(problem: Problem, pairs: Pairs, kernel: Kernel, start: Floats) -> Coupling:
    """The occupancy coupling that a transition coupling induces."""
    law = discounted_occupancy(kernel, start, problem.discount)
    now = np.repeat(np.arange(len(pairs)), np.diff(kernel.indptr))
    mass = law[now] * kernel.data
    keep = mass > 0
    now, following = now[keep], kernel.indices[keep]
    x, y, next_x, next_y = pairs.x[now], pairs.y[now], pairs.x[following], pairs.y[following]
    return Coupling(problem.shape, x, y, next_x, next_y, mass[keep], pairs.table(start))


class Question(NamedTuple):
    """What was asked, as far as a Result keeps it."""

    discount: float
    states_x: tuple[Hashable, ...]
    states_y: tuple[Hashable, ...]

    @classmethod
    def of(cls, problem: Problem) -> Question:
        """What a problem between known chains asks."""
        return cls(problem.discount, problem.x.states, problem.y.states)


class Answer(NamedTuple):
    """What a coupling says, in the unit of the user's cost."""

    distance: float
    bounds: Bounds
    maps: Maps
    potential: Floats
    state_law: Floats
    residuals: Residuals
    plan: Coupling | None


class Ending(NamedTuple):
    """How the work of a solver ended; `began` is when it started, by `time.perf_counter`."""

    method: str
    status: Status
    message: str
    n_steps: int
    began: float
    trace: Mapping[str, Sequence[float] | Floats]


def assemble(question: Question, answer: Answer, ending: Ending) -> Result:
    """Collect what every Result holds: the one place where one is made."""
    return Result(
        **question._asdict(),
        **answer._asdict(),
        method=ending.method,
        status=ending.status,
        message=ending.message,
        n_steps=ending.n_steps,
        seconds=time.perf_counter() - ending.began,
        trace={name: np.asarray(values, dtype=np.float64) for name, values in ending.trace.items()},
    )


def assemble_coupling(problem: Problem, coupling: Coupling, V: Floats, bounds: Bounds, ending: Ending) -> Result:
    """The Result of a solver that ends with a coupling: undo the scaling of the cost and read off the rest.

    `V` (n_x, n_y), `bounds` and the distances of the trace are in units of the unit cost. The distance is <mu, c>, the
    cost of the coupling itself, so it is exactly the least cost when the coupling only visits pairs of least cost;
    where rounding takes it out of its bracket, it is the nearest end.
    """
    law = coupling.state_law()
    visited = law > 0
    unit_distance = float((law[visited] * problem.unit_cost[visited]).sum())  # BLAS has other bits on other machines
    low, high = (float(end) for end in problem.bounds_to_user(*bounds))
    maps = Maps(conditional(law), conditional(law.T))
    nu_x, nu_y = problem.x.occupancy(problem.discount), problem.y.occupancy(problem.discount)
    answer = Answer(
        min(max(problem.to_user(unit_distance), low), high),
        Bounds(low, high),
        maps,
        problem.potential_to_user(V),
        law,
        residuals(coupling, nu_x, nu_y, problem.discount, maps.encoder, maps.decoder),
        coupling,
    )
    trace = dict(ending.trace)
    if "distance" in trace:
        trace["distance"] = problem.offset + problem.scale * np.asarray(trace["distance"], dtype=np.float64)
    return assemble(Question.of(problem), answer, ending._replace(trace=trace))
