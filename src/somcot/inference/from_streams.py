"""Streams as data: the corrected estimate from counted transitions, and its interval for SOMCOT's own answer.

The transitions of a stream are independent samples of the discounted occupancy, so their counts are ordinary data.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from somcot.chains import MarkovChain
from somcot.inference.estimate import estimate
from somcot.plumbing.errors import UnseenStateWarning
from somcot.plumbing.records import option_names
from somcot.problem import ChainOrData, Data, Process
from somcot.recorded.counts import Counts
from somcot.result import Result, Status
from somcot.solvers import somcot

__all__ = ["DRAWING", "estimate_streams", "with_interval"]

# Options that say what to draw; the others of SOMCOT say how to solve.
DRAWING = ("n_steps", "batch_size", "max_seconds", "checkpoint", "checkpoint_every", "resume", "order")


def estimate_streams(
    x: Process, y: Process, cost: ArrayLike, *, discount: float, rng: Any = None, **options: Any
) -> Result:
    """Count transitions of the streams and estimate from the counts, corrected for bias.

    A chain or recorded data on the other side is used as it is. Options are those of `estimate` and of `DRAWING`.
    """
    drawing = {name: value for name, value in options.items() if name in DRAWING}
    others = {name: value for name, value in options.items() if name not in DRAWING}
    drawn = somcot.draw(x, y, cost, discount=discount, rng=rng, **drawing)
    result = _estimate(x, y, drawn, discount, others)
    ended = {Status.EXHAUSTED: "A stream ended", Status.INTERRUPTED: "Interrupted"}.get(drawn.status, "Done")
    message = f"{ended} after {drawn.n_steps:,} steps. {result.message}"
    status = drawn.status if drawn.status is Status.INTERRUPTED else result.status
    return replace(result, message=message, status=status, n_steps=drawn.n_steps)


def with_interval(
    x: Process, y: Process, cost: ArrayLike, *, discount: float, confidence: float, options: Mapping[str, Any]
) -> Result:
    """SOMCOT's answer with the interval that `estimate_streams` gives for the same transitions."""
    if options.get("half_life") is not None:
        raise ValueError(
            "confidence: found with half_life; transitions that count less than others give no interval; leave one out"
        )
    result, drawn = somcot.solve_and_count(x, y, cost, discount=discount, **options)
    data = _estimate(x, y, drawn, discount, {"confidence": confidence})
    return replace(result, confidence_interval=data.confidence_interval, estimate=data.estimate, plugin=data.plugin)


def _estimate(x: Process, y: Process, drawn: somcot.Drawn, discount: float, options: Mapping[str, Any]) -> Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenStateWarning)  # its advice is for recorded episodes
        return estimate(*_sides(x, y, drawn, discount), drawn.cost, discount=discount, **options)


def estimate_options() -> list[str]:
    """What `estimate_streams` takes."""
    return [*option_names(estimate), *DRAWING]


def _sides(x: Process, y: Process, drawn: somcot.Drawn, discount: float) -> tuple[ChainOrData, ChainOrData]:
    """Counts in place of streams; where both sides are known chains, what was drawn from them."""
    tables = (
        _counts(drawn.counts_x, drawn.initial_x, drawn.states_x, discount),
        _counts(drawn.counts_y, drawn.initial_y, drawn.states_y, discount),
    )
    if isinstance(x, MarkovChain) and isinstance(y, MarkovChain):
        return tables
    first, second = (
        process if isinstance(process, MarkovChain | Data) else table
        for process, table in zip((x, y), tables, strict=True)
    )
    return first, second


def _counts(table: Any, initial: Any, states: Any, discount: float) -> Counts:
    return replace(Counts.from_matrix(table, states=states, initial=initial), discount=discount)
