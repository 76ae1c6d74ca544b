"""A SOMCOT state as arrays and a JSON record, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.container import CheckpointError
from somcot.solvers.somcot.state import Edges, Options, State, Sums, build
from somcot.steps import Steps

__all__ = ["from_record", "to_record"]

FORMAT = "somcot.state/1"
SIDE = ("alpha", "log", "tally", "top", "log_lambda", "lambda_", "lambda_sum", "since")
PAIRS = ("V", "W", "p_sum", "q_sum", "bound", "H_at", "drift_at", "clock", "counter")
WHOLE = ("cost", "initial_x", "initial_y", "counts_x", "counts_y", "mu_sum")


def to_record(state: State) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """All that a run needs to go on bit for bit."""
    arrays: dict[str, NDArray[Any]] = {name: getattr(state, name) for name in WHOLE}
    arrays |= {f"x.{name}": getattr(state.x, name) for name in SIDE}
    arrays |= {f"y.{name}": getattr(state.y, name) for name in SIDE}
    arrays |= {f"pairs.{name}": getattr(state.pairs, name) for name in PAIRS}
    arrays |= {"edges_x": state.edges_x.mask, "edges_y": state.edges_y.mask}
    if state.trace:
        arrays["trace"] = np.array(state.trace, dtype=np.float64)
    if state.last is not None:
        arrays["last"] = state.last
    record: dict[str, Any] = {"format": FORMAT, "options": asdict(state.options) | {"steps": list(state.options.steps)}}
    if state.mark is not None:
        arrays |= {f"mark.{name}": value for name, value in state.mark._asdict().items() if name not in ("k", "H")}
        record |= {"mark_k": state.mark.k, "mark_H": state.mark.H}
    return arrays, record


def from_record(arrays: Mapping[str, NDArray[Any]], record: Mapping[str, Any]) -> State:
    """The state that `to_record` took apart."""
    if record.get("format") != FORMAT:
        raise CheckpointError(f"found format {record.get('format')!r}, expected {FORMAT}")
    options = Options(**{**record["options"], "steps": Steps(*record["options"]["steps"])})
    edges_x, edges_y = Edges.from_mask(arrays["edges_x"]), Edges.from_mask(arrays["edges_y"])
    state = build(options, arrays["cost"], arrays["initial_x"], arrays["initial_y"], edges_x, edges_y)
    for part in ("x", "y", "pairs"):
        for name in SIDE if part != "pairs" else PAIRS:
            getattr(getattr(state, part), name)[...] = arrays[f"{part}.{name}"]
    state.counts_x, state.counts_y, state.mu_sum = arrays["counts_x"], arrays["counts_y"], arrays["mu_sum"]
    state.trace = [tuple(row) for row in arrays["trace"].tolist()] if "trace" in arrays else []
    state.last = arrays.get("last")
    if "mark_k" in record:
        fields = {name: arrays[f"mark.{name}"] for name in Sums._fields if name not in ("k", "H")}
        state.mark = Sums(k=record["mark_k"], H=record["mark_H"], **fields)
    return state
