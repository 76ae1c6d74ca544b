"""Building a Result from the output of a solver."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from somcot.core.pairs import Pairs
from somcot.couplings import Coupling, Residuals, conditional, residuals
from somcot.plumbing.arrays import Floats
from somcot.plumbing.errors import ConvergenceWarning, warn
from somcot.plumbing.linear_systems import Kernel, discounted_occupancy
from somcot.plumbing.notes import Note
from somcot.problem import Problem
from somcot.result import Bounds, Details, Maps, Result, Status

__all__ = [
    "PROMISED", "CouplingDetails", "build_result", "coupling_of", "judged", "law_maps", "metric_of",
    "occupancy_coupling", "plain_result", "sweeps_message", "trace_arrays",
]  # fmt: skip

PROMISED = 1e-6  # width of a bracket, relative to the range of the cost, up to which a result is called converged


def judged(status: Status, width: float) -> Status:
    """The status of a computation that ended with a bracket of this width: converged up to `PROMISED` only."""
    # Written with a negation, so that a width of NaN is not converged either.
    return Status.ROUNDING if status is Status.CONVERGED and not width <= PROMISED else status


def sweeps_message(status: Status, width: float, n_sweeps: int, unit: str = "cost range", limit: str = "") -> str:
    """How a solver by sweeps ended, always with the width of its bracket; `limit` explains a rounding limit."""
    proof = f"the bracket is {width:.1g} of the {unit} wide after {n_sweeps} sweeps"
    return {
        Status.CONVERGED: f"Solved exactly: {proof}.",
        Status.INTERRUPTED: f"Interrupted: {proof}; run again to finish.",
        Status.ROUNDING: f"Solved as far as floating point allows: {proof}{limit}.",
        Status.STEP_LIMIT: f"Stopped before the optimum was proved: {proof}; raise max_sweeps.",
    }[status]


def metric_of(table: Floats, width: float, unit: str = "range of the cost") -> Floats:
    """A table of distances; warns if the widest bracket of its entries is wider than promised."""
    if not width <= PROMISED:
        warn(Note("wide-metric", width=width, unit=unit), ConvergenceWarning)
    return table


def occupancy_coupling(problem: Problem, pairs: Pairs, kernel: Kernel, start: Floats) -> Coupling:
    """The occupancy coupling that a transition coupling induces."""
    return coupling_of(problem.shape, pairs, kernel, discounted_occupancy(kernel, start, problem.discount), start)


def coupling_of(shape: tuple[int, int], pairs: Pairs, kernel: Kernel, law: Floats, start: Floats) -> Coupling:
    """The occupancy coupling of a transition coupling whose occupancy of pairs is `law`."""
    # The pair of each kernel entry.
    now = np.repeat(np.arange(len(pairs)), np.diff(kernel.indptr))
    mass = law[now] * kernel.data
    keep = mass > 0  # zero mass would only enlarge the coupling
    now, following = now[keep], kernel.indices[keep]
    x, y, next_x, next_y = pairs.x[now], pairs.y[now], pairs.x[following], pairs.y[following]
    return Coupling(shape, x, y, next_x, next_y, mass[keep], pairs.table(start))


def law_maps(law: Floats) -> Maps:
    """Encoder and decoder of a distribution of state pairs."""
    # The decoder is the encoder of the exchanged problem.
    return Maps(conditional(law), conditional(law.T))


class CouplingDetails(Details):
    """Details derived from a coupling and a potential.

    Parameters
    ----------
    problem : Problem
    plan : Coupling
    V : ndarray, shape (n_x, n_y)
        The potential, on the unit-cost scale.
    **known
        Details that are known already, such as ``gradient=``.
    """

    def __init__(self, problem: Problem, plan: Coupling, V: Floats, **known: object) -> None:
        super().__init__(**known)
        self.problem, self.plan, self.V = problem, plan, V

    @cached_property
    def plan(self) -> Coupling:
        """The occupancy coupling: passed, or computed by a subclass."""
        # `plan` is an attribute or a cached property; instances that get it passed never come here.
        raise NotImplementedError

    @cached_property
    def state_law(self) -> Floats:
        """Discounted occupancy of state pairs."""
        return self.plan.state_law()

    @cached_property
    def coupling_maps(self) -> Maps:
        """Encoder and decoder of the coupling."""
        return law_maps(self.state_law)

    @cached_property
    def maps(self) -> Maps:
        """The encoder and decoder that are reported."""
        return self.coupling_maps

    @cached_property
    def residuals(self) -> Residuals:
        """Violations of the constraints by the coupling."""
        discount, maps = self.problem.discount, self.coupling_maps
        # From the chains themselves, not from the coupling: this is what it is checked against.
        nu_x, nu_y = self.problem.x.occupancy(discount), self.problem.y.occupancy(discount)
        return residuals(self.plan, nu_x, nu_y, discount, maps.encoder, maps.decoder)

    @cached_property
    def potential(self) -> Floats:
        """V in the units of the user's cost."""
        return self.problem.potential_to_user(self.V)


def build_result(
    problem: Problem,
    details: Details,
    *,
    unit_bounds: Bounds,
    method: str,
    status: Status,
    message: str,
    n_steps: int,
    began: float,
    unit_distance: float | None = None,
    trace: Mapping[str, Sequence[float] | Floats] | None = None,
    **more: Any,
) -> Result:
    """The Result of a solver: undo the scaling of the cost and measure the time.

    Parameters
    ----------
    problem : Problem
    details : Details
        Computed on access; its `bounds` and `trace` are set here.
    unit_bounds : Bounds
        The bracket, on the unit-cost scale, as are `unit_distance` and the distances of the trace.
    method, status, message, n_steps
        See `Result`.
    began : float
        Start time, by `time.perf_counter`.
    unit_distance : float, optional
        By default <mu, c>, the cost of the coupling, which is exactly the minimum cost if the coupling only
        visits pairs of minimum cost. If rounding moves it out of its bracket, it is the nearest end.
    trace : mapping of str to numbers, optional
    **more
        Further attributes of the Result.
    """
    if unit_distance is None:
        visited = details.state_law > 0
        law, cost = details.state_law[visited], problem.unit_cost[visited]
        unit_distance = float((law * cost).sum())  # the bits of BLAS depend on the machine
    low, high = (float(end) for end in problem.bounds_to_user(*unit_bounds))
    columns = trace_arrays(trace or {})
    if "distance" in columns:
        # The trace is on the unit-cost scale until here.
        columns["distance"] = problem.offset + problem.scale * columns["distance"]
    details.bounds, details.trace = Bounds(low, high), columns
    # Rounding may move the value out of the bracket, which would look like a contradiction.
    distance = min(max(problem.to_user(unit_distance), low), high)
    return plain_result(
        problem, details, distance=distance, method=method, status=status, message=message, n_steps=n_steps,
        began=began, **more,
    )  # fmt: skip


def plain_result(problem: Problem, details: Details, *, distance: float, began: float, **more: Any) -> Result:
    """The Result of a solver whose distance and details are already in the units of the user's cost."""
    return Result(
        distance=distance,
        discount=problem.discount,
        seconds=time.perf_counter() - began,
        states_x=problem.x.states,
        states_y=problem.y.states,
        clock=problem.clock,
        details=details,
        **more,
    )


def trace_arrays(columns: Mapping[str, Sequence[float] | Floats]) -> dict[str, Floats]:
    """Columns of a trace as arrays."""
    return {name: np.asarray(values, dtype=np.float64) for name, values in columns.items()}
