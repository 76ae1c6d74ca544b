"""A SOMCOT state as arrays and a JSON record, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.container import CheckpointError
from somcot.plumbing.validation import check_count, check_discount, check_number
from somcot.solvers.somcot.records import PAIR_FIELDS, SIDE_FIELDS, Edges, Sums
from somcot.solvers.somcot.state import Settings, State, build
from somcot.steps import Steps

__all__ = ["from_record", "to_record"]

FORMAT = "somcot.state/2"
WHOLE = ("cost", "initial_x", "initial_y", "counts_x", "counts_y", "mu_sum")
MARKED = tuple(name for name in Sums._fields if name not in ("k", "H"))


def to_record(state: State) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """All that a run needs to go on bit for bit."""
    arrays: dict[str, NDArray[Any]] = {name: getattr(state, name) for name in WHOLE}
    arrays |= {f"{part}.{name}": getattr(getattr(state, part), name) for part, name in _saved()}
    arrays |= {"edges_x": state.edges_x.mask, "edges_y": state.edges_y.mask}
    if state.trace:
        arrays["trace"] = np.array(state.trace, dtype=np.float64)
    if state.last is not None:
        arrays["last"] = state.last
    record: dict[str, Any] = {
        "format": FORMAT,
        "options": asdict(state.settings) | {"steps": list(state.settings.steps)},
    }
    if state.mark is not None:
        arrays |= {f"mark.{name}": getattr(state.mark, name) for name in MARKED}
        record |= {"mark_k": state.mark.k, "mark_H": state.mark.H}
    return arrays, record


def from_record(arrays: Mapping[str, NDArray[Any]], record: Mapping[str, Any]) -> State:
    """The state that `to_record` took apart; anything else is refused with a `CheckpointError`."""
    if record.get("format") != FORMAT:
        raise CheckpointError(f"found format {record.get('format')!r}, expected {FORMAT}")
    try:
        state = _put_together(arrays, record)
        _check(state)
    except MemoryError:
        raise
    except (ArithmeticError, AttributeError, LookupError, SystemError, TypeError, ValueError) as error:
        raise CheckpointError(f"the checkpoint does not hold together ({error}); go back to an older copy") from None
    return state


def _check(state: State) -> None:
    """Refuse what no run could have written, before a loop believes it."""
    settings = state.settings
    check_discount(settings.discount)
    check_count("n_steps", settings.n_steps)
    check_count("batch_size", settings.batch_size)
    if settings.support not in ("full", "observed") or not 0.0 < settings.average <= 1.0:
        raise ValueError(f"options are {settings}")
    if not 0 <= state.k <= settings.n_steps:
        raise ValueError(f"step {state.k} of {settings.n_steps}")


def _put_together(arrays: Mapping[str, NDArray[Any]], record: Mapping[str, Any]) -> State:
    settings = Settings(**{**record["options"], "steps": Steps(*record["options"]["steps"])})
    edges_x, edges_y = Edges.from_mask(arrays["edges_x"]), Edges.from_mask(arrays["edges_y"])
    state = build(settings, arrays["cost"], arrays["initial_x"], arrays["initial_y"], edges_x, edges_y)
    for part, name in _saved():
        getattr(getattr(state, part), name)[...] = arrays[f"{part}.{name}"]
    for name in ("counts_x", "counts_y", "mu_sum"):
        before, found = getattr(state, name), arrays[name]
        if (before.shape, before.dtype) != (found.shape, found.dtype):
            raise ValueError(f"{name} has shape {found.shape} of {found.dtype}")
        setattr(state, name, found)
    state.trace = [tuple(row) for row in arrays["trace"].tolist()] if "trace" in arrays else []
    state.last = arrays.get("last")
    if "mark_k" in record:
        sums = {name: arrays[f"mark.{name}"] for name in MARKED}
        k, H = check_count("mark_k", record["mark_k"], at_least=0), check_number("mark_H", record["mark_H"])
        state.mark = Sums(k=k, H=H, **sums)
    return state


def _saved() -> Iterator[tuple[str, str]]:
    """The parts of a state and the fields of each that the next step needs."""
    for part, fields in (("x", SIDE_FIELDS), ("y", SIDE_FIELDS), ("pairs", PAIR_FIELDS)):
        yield from ((part, name) for name, field in fields.items() if field.saved)
