"""From what a solver found to a Result."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from somcot.clocks import Clock
from somcot.core.pairs import Pairs
from somcot.couplings import Coupling, Residuals, conditional, residuals
from somcot.plumbing.arrays import Floats
from somcot.plumbing.linear_systems import Kernel, discounted_occupancy
from somcot.plumbing.records import Later
from somcot.problem import Problem
from somcot.result import Bounds, DeferredMaps, Maps, Result, Status

__all__ = [
    "Answer", "Ending", "Joint", "Question", "assemble", "assemble_coupling", "assemble_value", "coupling_of", "joint",
    "occupancy_coupling",
]  # fmt: skip


def occupancy_coupling(problem: Problem, pairs: Pairs, kernel: Kernel, start: Floats) -> Coupling:
    """The occupancy coupling that a transition coupling induces."""
    return coupling_of(problem.shape, pairs, kernel, discounted_occupancy(kernel, start, problem.discount), start)


def coupling_of(shape: tuple[int, int], pairs: Pairs, kernel: Kernel, law: Floats, start: Floats) -> Coupling:
    """The occupancy coupling of a transition coupling whose occupancy of pairs is `law`."""
    now = np.repeat(np.arange(len(pairs)), np.diff(kernel.indptr))
    mass = law[now] * kernel.data
    keep = mass > 0
    now, following = now[keep], kernel.indices[keep]
    x, y, next_x, next_y = pairs.x[now], pairs.y[now], pairs.x[following], pairs.y[following]
    return Coupling(shape, x, y, next_x, next_y, mass[keep], pairs.table(start))


class Question(NamedTuple):
    """What was asked, as far as a Result keeps it."""

    discount: float
    states_x: tuple[Hashable, ...]
    states_y: tuple[Hashable, ...]
    clock: Clock | None = None

    @classmethod
    def of(cls, problem: Problem) -> Question:
        """What a problem between known chains asks."""
        return cls(problem.discount, problem.x.states, problem.y.states, problem.clock)


class Answer(NamedTuple):
    """What a coupling says, in the unit of the user's cost."""

    distance: float
    bounds: Bounds | Later[Bounds]
    maps: Maps | DeferredMaps
    potential: Floats | Later[Floats]
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
    trace: Mapping[str, Sequence[float] | Floats] | Later[dict[str, Floats]]


def assemble(question: Question, answer: Answer, ending: Ending, **more: Any) -> Result:
    """Collect what every Result holds, and `more` of its fields: the one place where one is made."""
    discount, states_x, states_y, clock = question
    return Result(
        discount=discount,
        states_x=states_x,
        states_y=states_y,
        clock=clock or Clock("discount", discount),
        **answer._asdict(),
        method=ending.method,
        status=ending.status,
        message=ending.message,
        n_steps=ending.n_steps,
        seconds=time.perf_counter() - ending.began,
        trace=_trace(ending.trace),
        **more,
    )


def _trace(given: Any) -> Any:
    """Columns of numbers, now or later."""
    if isinstance(given, Later):
        return given
    return {name: np.asarray(values, dtype=np.float64) for name, values in given.items()}


class Joint(NamedTuple):
    """What a coupling says about the joint process."""

    plan: Coupling
    state_law: Floats
    maps: Maps
    residuals: Later[Residuals]


def joint(problem: Problem, coupling: Coupling) -> Joint:
    """Read off the rest from a coupling."""
    law = coupling.state_law()
    maps = Maps(conditional(law), conditional(law.T))
    return Joint(coupling, law, maps, Later(partial(_residuals, problem, coupling, maps)))


def _residuals(problem: Problem, coupling: Coupling, maps: Maps) -> Residuals:
    nu_x, nu_y = problem.x.occupancy(problem.discount), problem.y.occupancy(problem.discount)
    return residuals(coupling, nu_x, nu_y, problem.discount, maps.encoder, maps.decoder)


def assemble_coupling(
    problem: Problem, coupling: Coupling, V: Floats | Later[Floats], bounds: Bounds, ending: Ending, **more: Any
) -> Result:
    """The Result of a solver that ends with a coupling: undo the scaling of the cost and read off the rest.

    `V` (n_x, n_y), `bounds` and the distances of the trace are in units of the unit cost. The distance is <mu, c>, the
    cost of the coupling itself, so it is exactly the least cost when the coupling only visits pairs of least cost.
    """
    found = joint(problem, coupling)
    visited = found.state_law > 0
    law, cost = found.state_law[visited], problem.unit_cost[visited]
    unit_distance = float((law * cost).sum())  # BLAS has other bits on other machines
    return assemble_value(problem, unit_distance, found, V, bounds, ending, **more)


def assemble_value(
    problem: Problem,
    unit_distance: float,
    found: Joint | Later[Joint],
    V: Floats | Later[Floats],
    bounds: Bounds,
    ending: Ending,
    **more: Any,
) -> Result:
    """The Result of a solver that knows the distance; coupling and potential may be computed when asked for.

    Where rounding takes the distance out of its bracket, it is the nearest end.
    """
    low, high = (float(end) for end in problem.bounds_to_user(*bounds))
    distance = min(max(problem.to_user(unit_distance), low), high)
    trace = dict(_trace(ending.trace))
    if "distance" in trace:
        trace["distance"] = problem.offset + problem.scale * np.asarray(trace["distance"], dtype=np.float64)
    maps, law, violations, plan = _parts(found)
    potential = Later(partial(_potential, problem, V)) if isinstance(V, Later) else problem.potential_to_user(V)
    answer = Answer(distance, Bounds(low, high), maps, potential, law, violations, plan)
    return assemble(Question.of(problem), answer, ending._replace(trace=trace), **more)


def _potential(problem: Problem, V: Later[Floats]) -> Floats:
    return problem.potential_to_user(V())


def _parts(found: Joint | Later[Joint]) -> tuple[Maps | DeferredMaps, Any, Any, Any]:
    """Maps, law, residuals and plan, now or later: the fields of a Result take both."""
    if isinstance(found, Joint):
        return found.maps, found.state_law, found.residuals, found.plan
    return DeferredMaps(found.part("maps")), found.part("state_law"), found.part("residuals"), found.part("plan")
