"""Before anything is computed: what was asked is checked, every process fitted, the jobs listed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import count, islice
from typing import Any

from somcot.bellman.slices import thread_count
from somcot.many.groups import Member, check_cost_shape, members, named
from somcot.many.plan import Options, Plan, is_symmetric, make_plan
from somcot.many.vectors import shared
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.validation import check_confidence, check_discount, check_flag
from somcot.problem import ChainOrData, Data
from somcot.samples import Samples
from somcot.solvers.methods import METHODS
from somcot.trajectories import Trajectories

__all__ = ["forecast", "prepare"]

_SPLITS = 4


def forecast(plan: Plan, threads: int | None = None) -> float:
    """About how many seconds a plan takes, within a factor of about three."""
    return float(plan.seconds.sum()) / thread_count(threads)


def prepare(processes: Any, cost: Any, asked: Options, *, others: Any = None, **of_vectors: Any) -> Plan:
    """Check what was asked, fit every process, and list the jobs; `of_vectors` is for Trajectories."""
    discount = _checked(asked)
    if cost is None:
        raise TypeError("cost: found None, expected an array, a name such as 'labels', or a function")
    given = named("processes", processes, vectors=True)
    across = None if others is None else named("others", others, vectors=True)
    if across is None and len(given) < 2:
        raise ValueError("processes: found one, expected at least two; or give others= to compare it with")
    points = None
    if any(isinstance(p, Trajectories) for p in [*given.values(), *(across or {}).values()]):
        if asked.method != "auto":
            raise ValueError(
                f"method: found {asked.method!r}, but recordings of real vectors have a distance with 'auto' only; "
                "somcot.discretise makes Samples of them, which take the other methods"
            )
        rows, columns, cost, points = shared(given, across, cost, discount=discount, seed=asked.seed, **of_vectors)
    else:
        for name in of_vectors:
            raise TypeError(f"{name}: only for Trajectories; leave it out")
        rows, columns = _fitted(given, across, asked)
    asked = _fitting(asked, [m.process for m in (*rows, *columns)])
    check_cost_shape(cost, (rows, columns))
    symmetric = across is None and is_symmetric(cost, rows)
    n_cells = len(rows) * (len(rows) - 1) // 2 if symmetric else len(rows) * len(columns)
    level = asked.confidence
    if level is not None and asked.simultaneous:
        level = 1.0 - (1.0 - level) / max(n_cells, 1)
    asked = asked._replace(n_splits=_splits(asked), level=level, symmetric=symmetric)
    return make_plan(rows, columns, cost, asked, points)


def _splits(asked: Options) -> int:
    return _SPLITS if asked.method == "auto" else 0


def _fitted(
    given: dict[Hashable, ChainOrData], across: dict[Hashable, ChainOrData] | None, asked: Options
) -> tuple[list[Member], list[Member]]:
    """Rows and columns; the same list where processes are compared with each other."""
    orders: dict[frozenset[Hashable], tuple[Hashable, ...]] = {}
    n_splits = _splits(asked)
    seeds = ([asked.seed, i] for i in count())
    rows = members("processes", given, asked.discount, n_splits, islice(seeds, len(given)), orders)
    if across is None:
        return rows, rows
    return rows, members("others", across, asked.discount, n_splits, seeds, orders)


def _checked(asked: Options) -> float:
    discount = check_discount(asked.discount)
    check_confidence(asked.confidence)
    if check_flag("simultaneous", asked.simultaneous) and asked.confidence is None:
        raise ValueError("simultaneous: there are no intervals without a level; pass confidence=0.9, say")
    if not isinstance(asked.method, str) or asked.method not in METHODS:
        raise ValueError(f"method: found {asked.method!r}, expected one of {', '.join(map(repr, METHODS))}")
    if asked.tests not in (None, "bh", "by"):
        raise ValueError(f"tests: found {asked.tests!r}, expected None, 'bh' or 'by'")
    return discount


def _fitting(asked: Options, processes: Sequence[ChainOrData]) -> Options:
    """What can be had of these processes: intervals and p-values are for data."""
    if asked.tests is not None and sum(isinstance(p, Samples) for p in processes) < 2:
        raise ValueError("tests: whole episodes are dealt anew, but no two processes are Samples; leave it out")
    if asked.confidence is None:
        return asked
    data = any(isinstance(p, Data) for p in processes)
    if data and asked.method != "auto":
        warn(f"confidence: method {asked.method!r} gives no intervals; method='auto' does", DataWarning)
    return asked if data and asked.method == "auto" else asked._replace(confidence=None, simultaneous=False)
