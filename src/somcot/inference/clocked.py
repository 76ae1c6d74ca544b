"""Questions with another clock than a discount below 1: who may ask them, and who answers."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from somcot import costs
from somcot.chains import MarkovChain
from somcot.clocks import Clock
from somcot.plumbing.arrays import Floats
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.lazy import amended
from somcot.problem import Data, Problem
from somcot.recorded.counts import Counts
from somcot.result import Result
from somcot.samples import Samples
from somcot.solvers import continuous, exact, horizon
from somcot.timed import ContinuousChain, TimeChain

__all__ = ["DATA_DISCOUNT", "check_clock", "distance", "metric", "settling_warning"]

DATA_DISCOUNT = 1.0 - 1e-4  # stands for the long run where kernels are estimated
_TAKEN = {
    "discount": (MarkovChain, Samples, Counts),
    "average": (MarkovChain, Samples, Counts),
    "total": (MarkovChain, Samples, Counts),
    "horizon": (MarkovChain, TimeChain, Samples, Counts),
    "rate": (ContinuousChain,),
}


def check_clock(clock: Clock, method: str, x: Any, y: Any) -> None:
    """Refuse processes and methods that the clock has no answer for."""
    for name, process in (("x", x), ("y", y)):
        if not isinstance(process, _TAKEN[clock.name]):
            _refuse(name, process, clock)
    if clock.name != "discount" and method not in ("auto", "exact", "plugin"):
        raise ValueError(
            f"method: found {method!r}, which needs a discount below 1; {clock.asked} is solved by 'exact'"
        )


def distance(x: Any, y: Any, cost: Any, clock: Clock, **options: Any) -> Result:
    """The distance at a horizon, rate or total, or in the long run, between chains; of data, their estimated chains."""
    if clock.name == "rate":
        return continuous.solve(x, y, costs.between(cost, x, y), clock.value, **options)
    chains, data = (_chain(x), _chain(y)), any(isinstance(process, Data) for process in (x, y))
    if clock.name == "horizon":
        found = horizon.solve(*chains, _costs(cost, clock, x, y), **options)
    else:
        found = exact.solve(Problem(*chains, costs.between(cost, x, y), clock), **options)
    if not data:
        return found
    warn(
        f"{clock.asked}: the distance of the estimated chains, neither corrected for bias (too high near 0) nor with "
        "an interval; a discount has both",
        DataWarning,
    )
    sizes = [process.n_transitions if isinstance(process, Data) else 0 for process in (x, y)]
    return amended(found, method="plugin", samples=(sizes[0], sizes[1]), plugin=found.distance)


def metric(x: Any, y: Any, cost: Any, clock: Clock, threads: int | None = None) -> Floats:
    """The same from every pair of states."""
    if clock.name == "rate":
        return continuous.metric(x, y, costs.between(cost, x, y), clock.value, threads=threads)
    chains = _chain(x), _chain(y)
    if clock.name == "horizon":
        return horizon.metric(*chains, _costs(cost, clock, x, y), threads=threads)
    return exact.metric(Problem(*chains, costs.between(cost, x, y), clock), threads=threads)


def settling_warning(result: Result) -> Result:
    """Say how long the estimated chains take to settle: the average may jump where the kernel hardly changes."""
    assert result.makeup is not None
    inside = np.isfinite(result.potential)
    spread = float(np.ptp(result.potential[inside])) / (float(np.ptp(result.makeup.cost)) or 1.0)
    warn(
        f"discount=1: estimated at discount {DATA_DISCOUNT:.4f}; the estimated chains take some {spread:.2g} steps to "
        "settle, and transitions that the data miss can change what comes after",
        DataWarning,
    )
    return amended(result, settling=spread, clock=Clock("average", 1.0))


def _refuse(name: str, process: Any, clock: Clock) -> NoReturn:
    kinds = " or ".join(kind.__name__ for kind in _TAKEN[clock.name])
    hint = ""
    if isinstance(process, ContinuousChain):
        hint = "; a chain in continuous time takes rate=r"
    elif isinstance(process, TimeChain):
        hint = "; a chain that changes with time takes horizon=T"
    elif clock.name == "rate":
        hint = "; rates are those of a ContinuousChain, steps take discount=, horizon= or total="
    elif callable(getattr(process, "draw", None)):
        hint = "; streams take a discount below 1"
    raise TypeError(f"{name}: found {type(process).__name__}, expected a {kinds} with {clock.asked}{hint}")


def _chain(process: Any) -> Any:
    return process.chain() if isinstance(process, Data) else process


def _costs(cost: Any, clock: Clock, x: Any, y: Any) -> tuple[Floats, ...]:
    """One cost for each of the times 0, ..., T - 1, of the shapes that the chains have then."""
    T, given = int(clock.value), cost
    cost = cost(x, y) if callable(cost) else cost
    for name, chain in (("x", x), ("y", y)):
        if isinstance(chain, TimeChain) and chain.n_steps + 1 < T:
            raise ValueError(
                f"horizon: found {T}, but {name} has {chain.n_steps} steps, so {chain.n_steps + 1} times; give it more "
                "steps, or choose a shorter horizon"
            )
    shapes = [(_size(x, t), _size(y, t)) for t in range(T)]
    several = np.ndim(cost) == 3 if isinstance(cost, np.ndarray) else _is_list_of_tables(cost)
    if several:
        if len(cost) != T:
            raise ValueError(f"cost: found {len(cost)} tables for {T} times; give one for each, or one for all")
        return tuple(costs.check_cost(table, *shape) for table, shape in zip(cost, shapes, strict=True))
    if len(set(shapes)) > 1:
        t = next(t for t in range(T) if shapes[t] != shapes[0])
        raise ValueError(
            f"cost: found one table, but the states change with time ({shapes[0]} at time 0, {shapes[t]} at time {t}); "
            f"give a list of {T} tables"
        )
    if any(isinstance(chain, TimeChain) for chain in (x, y)):
        labels = [chain.states[0] if isinstance(chain, TimeChain) else chain.states for chain in (x, y)]
        cost = costs.labels(*labels) if isinstance(given, str) and given == "labels" else costs.aligned(cost, *labels)
    else:
        cost = costs.between(cost, x, y)
    return (costs.check_cost(cost, *shapes[0]),) * T


def _size(chain: Any, t: int) -> int:
    return len(chain.states[t] if isinstance(chain, TimeChain) else chain.states)


def _is_list_of_tables(cost: Any) -> bool:
    return isinstance(cost, (list, tuple)) and len(cost) > 0 and np.ndim(cost[0]) == 2
