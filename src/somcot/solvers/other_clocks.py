"""Distances with other clocks than a discount below 1, and continuous time by uniformisation.

From (x, y) a coupling chooses joint jump rates whose marginals are those of the two chains; separate and simultaneous
jumps are both allowed. Uniformised at one rate L, a coupling of the rows I + Q_x / L and I + Q_y / L is such a choice
divided by L, with the remainder on (x, y) itself. The remainder is never negative for L >= the largest exit rate of X
plus that of Y, since jumps that never coincide occur at the sum of both rates. For such L the distance does not depend
on L. For smaller L (such as the textbook's, the larger of the two), some jumps are forced to coincide, and the distance
is too large.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from somcot import costs
from somcot.chains import MarkovChain
from somcot.clocks import Clock
from somcot.core.pairs import PairChoice
from somcot.derivatives import RowGradient
from somcot.plumbing.arrays import Floats
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note
from somcot.problem import Data, Problem
from somcot.recorded.counts import Counts
from somcot.result import Bounds, Result, Status
from somcot.samples import Samples
from somcot.solvers import exact, horizon
from somcot.solvers.result_builder import judged, metric_of
from somcot.timed import ContinuousChain, TimeChain

__all__ = [
    "DATA_DISCOUNT",
    "check_clock",
    "common_rate",
    "distance_by_clock",
    "metric",
    "metric_by_clock",
    "settling_warning",
    "solve",
    "uniformised",
]


# --- Clocks other than a discount below 1

DATA_DISCOUNT = 1.0 - 1e-4  # approximates the long-run average if kernels are estimated
# Streams are absent: they support a discount below 1 only.
_TAKEN = {
    "discount": (MarkovChain, Samples, Counts),
    "average": (MarkovChain, Samples, Counts),
    "total": (MarkovChain, Samples, Counts),
    "horizon": (MarkovChain, TimeChain, Samples, Counts),
    "rate": (ContinuousChain,),
}


def check_clock(clock: Clock, method: str, x: Any, y: Any, names: tuple[str, str] = ("x", "y")) -> None:
    """Refuse processes and methods that do not support the clock."""
    for name, process in zip(names, (x, y), strict=True):
        if not isinstance(process, _TAKEN[clock.name]):
            _refuse(name, process, clock)
    if clock.name != "discount" and method not in ("auto", "exact", "plugin"):
        raise ValueError(
            f"method: found {method!r}, which needs a discount below 1; {clock.asked} is solved by 'exact'"
        )


def distance_by_clock(x: Any, y: Any, cost: Any, clock: Clock, **options: Any) -> Result:
    """The distance for a horizon, rate, total or long-run average between chains; for data, of the estimated chains."""
    if clock.name == "rate":
        return solve(x, y, costs.between(cost, x, y), clock.value, **options)
    chains, data = (_chain(x), _chain(y)), any(isinstance(process, Data) for process in (x, y))
    if clock.name == "horizon":
        result = horizon.solve(*chains, _costs(cost, clock, x, y), **options)
    else:
        result = exact.solve(Problem(*chains, costs.between(cost, x, y), clock), **options)
    if not data:
        return result
    warn(Note("no-correction", clock=clock.asked), DataWarning)
    # Chains have no sample size; 0 stands for "known".
    sizes = [process.n_transitions if isinstance(process, Data) else 0 for process in (x, y)]
    return replace(result, method="plugin", samples=(sizes[0], sizes[1]), plugin=result.distance)


def metric_by_clock(x: Any, y: Any, cost: Any, clock: Clock, threads: int | None = None) -> Floats:
    """The same distance from every pair of states."""
    if clock.name == "rate":
        return metric(x, y, costs.between(cost, x, y), clock.value, threads=threads)
    chains = _chain(x), _chain(y)
    if clock.name == "horizon":
        return metric_of(*horizon.metric(*chains, _costs(cost, clock, x, y), threads=threads))
    return exact.metric(Problem(*chains, costs.between(cost, x, y), clock), threads=threads)


def settling_warning(result: Result) -> Result:
    """Note how long costs depend on the initial states: the average may jump under small changes of the kernel."""
    assert result.makeup is not None
    inside = np.isfinite(result.potential)
    # The potential over the range of the cost has the unit of steps.
    spread = float(np.ptp(result.potential[inside])) / (float(np.ptp(result.makeup.cost)) or 1.0)
    mixing = f"costs depend on the initial states for some {spread:.2g} steps, and "
    warn(Note("average-from-data", discount=DATA_DISCOUNT, mixing=mixing), DataWarning)
    return replace(result, settling=spread, clock=Clock("average", 1.0))


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
    """One cost for each of the times 0, ..., T - 1, with the shape of the chains at that time."""
    T, given = int(clock.value), cost
    cost = cost(x, y) if callable(cost) else cost
    for name, chain in (("x", x), ("y", y)):
        if isinstance(chain, TimeChain) and chain.n_steps + 1 < T:
            raise ValueError(
                f"horizon: found {T}, but {name} has {chain.n_steps} steps, so {chain.n_steps + 1} times; add "
                "steps, or choose a shorter horizon"
            )
    shapes = [(_size(x, t), _size(y, t)) for t in range(T)]
    # A list of lists is one table; a list of tables is one per time.
    several = np.ndim(cost) == 3 if isinstance(cost, np.ndarray) else _is_list_of_tables(cost)
    if several:
        if len(cost) != T:
            raise ValueError(f"cost: found {len(cost)} tables for {T} times; pass one for each, or one for all")
        return tuple(costs.check_cost(table, *shape) for table, shape in zip(cost, shapes, strict=True))
    if len(set(shapes)) > 1:
        t = next(t for t in range(T) if shapes[t] != shapes[0])
        raise ValueError(
            f"cost: found one table, but the states change with time ({shapes[0]} at time 0, {shapes[t]} at time {t}); "
            f"pass a list of {T} tables"
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


# --- Continuous time: two chains observed at the jumps of a common clock

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
    # If one chain never jumps, twice the other's rate: every state then keeps a positive probability of staying.
    return sum(rates) if min(rates) > 0.0 else 2.0 * max(rates) or 1.0


def uniformised(x: ContinuousChain, y: ContinuousChain, cost: ArrayLike, rate: float) -> tuple[Problem, float]:
    """The problem in discrete time, and the rate of its steps."""
    least = common_rate(x, y)
    discount = least / (least + rate)
    # The rate of the steps is computed from the rounded discount, so that both agree to the last digits.
    steps = _steps(discount, rate)
    # Rounding may have made the rate slightly too small, which would force jumps to coincide.
    while steps < least:
        discount = float(np.nextafter(discount, 1.0))
        steps = _steps(discount, rate)
    if not discount < 1.0:
        raise ValueError(
            f"rate: found {rate:g}, which is negligible relative to exit rates of up to {least:g} in floating point; "
            "compare x.uniformised(L) and y.uniformised(L) with discount=1 and an L of at least their sum"
        )
    smallest = float(np.finfo(np.float64).tiny)
    return Problem(x.uniformised(steps), y.uniformised(steps), cost, max(discount, smallest)), steps


def _steps(discount: float, rate: float) -> float:
    """L with discount = L / (L + rate); 1 - discount is exact for discounts of at least 1/2."""
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
    """The minimum of E[integral of r e^(-r t) c(X_t, Y_t) dt]; options as for `exact.solve`.

    The potential is the distance from each pair divided by the rate. Kernel gradients are with respect to rates: a
    derivative for every jump that occurs, compensated on the diagonal.

    Examples
    --------
    >>> x, y = ContinuousChain([[-1, 1], [2, -2]]), ContinuousChain([[-1, 1], [3, -3]])
    >>> round(solve(x, y, [[0, 1], [1, 0]], 0.5).distance, 6)
    0.063492
    """
    problem, steps = uniformised(x, y, cost, rate)
    result = exact.solve(problem, pairs=pairs, threads=threads, max_sweeps=max_sweeps)
    assert result.gradient is not None
    sides = [_in_rates(side, steps) for side in (result.gradient.x, result.gradient.y)]
    bounds = _widened(result.bounds, problem, steps / rate)
    width = (bounds.high - bounds.low) / problem.scale
    status = judged(result.status, width)
    # The solver's message is about the uniformised chains; what counts is the bracket with the rounding of the rates.
    wider = f" With the rounding of the rates it is {width:.1g} of the cost range wide."
    return replace(
        result,
        status=status,
        message=result.message if status is Status.CONVERGED else result.message + wider,
        bounds=bounds,
        potential=result.potential * ((1.0 - problem.discount) / rate),
        gradient=replace(
            # The chain rule, d/drate = d/ddiscount * ddiscount/drate, with discount = L / (L + rate).
            result.gradient,
            x=sides[0],
            y=sides[1],
            discount=-result.gradient.discount * problem.discount**2 / steps,
        ),
        settling=None if result.settling is None else result.settling / steps,
        clock=Clock("rate", rate),
        makeup=None,  # rows would be those of the uniformised chains
    )


def metric(
    x: ContinuousChain, y: ContinuousChain, cost: ArrayLike, rate: float, *, threads: int | None = None
) -> Floats:
    """The distance from every pair of states, (n_x, n_y)."""
    problem, steps = uniformised(x, y, cost, rate)
    return exact.metric(problem, threads=threads, charge=_charge(steps / rate))


def _widened(bounds: Bounds, problem: Problem, jumps: float) -> Bounds:
    """Widen the bounds by the rounding of the rows and of the discount.

    The rows solved are those of chains whose rates have a relative error e: L has at most three roundings (half an
    epsilon each) from its quotient, an entry one from the division by L, and two from normalising its row, whose
    diagonal is rounded too (the solver's bracket covers errors common to all entries of a row): six roundings, charged
    as eight. Chains whose rates differ by a relative error e can be coupled until one jumps alone, which happens at a
    rate of at most e times the exit rates of both, that is e L; the probability that this happens before the time ends
    is at most e L / r, and `jumps` is L / r.
    """
    charge = _charge(jumps) * problem.scale
    low, high = float(problem.cost.min()), float(problem.cost.max())
    return Bounds(min(max(bounds.low - charge, low), high), max(min(bounds.high + charge, high), low))


def _charge(jumps: float) -> float:
    return 4.0 * _EPS * (1.0 + jumps)


def _in_rates(side: RowGradient, steps: float) -> RowGradient:
    """Derivatives along rates: a higher jump rate lowers the diagonal."""
    rows = np.repeat(np.arange(len(side.indptr) - 1), np.diff(side.indptr))
    diagonal = rows == side.indices
    staying = np.zeros(len(side.indptr) - 1)
    staying[rows[diagonal]] = side.values[diagonal]
    # A jump probability is rate / L, hence the division by `steps`.
    return replace(side, values=np.where(diagonal, 0.0, (side.values - staying[rows]) / steps))
