"""SOMCOT without a planned number of steps: phases of 1024, 2048, 4096, ... steps, each planned in itself.

The automatic rates depend on the number of steps K: large early dual steps stay in log mu for good, so rates that
shrink on the way end up worse than rates planned for K. Each phase therefore starts afresh, with the rates of its
own length and fresh transitions, and the answer is that of the last phase that was finished: after K steps in all, the
automatic rule at more than K / 4 steps, and at K / 2 when a phase has just ended.

Nothing here depends on the clock but when to stop. What is remembered across phases: the transitions counted, the
transitions that can occur, and the trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_count, check_discount, check_number
from somcot.plumbing.records import CheckpointError
from somcot.solvers.somcot.fold import Earlier, settle_trace
from somcot.solvers.somcot.run_arrays import PAIR_FIELDS, SIDE_FIELDS, Sums, Transitions
from somcot.solvers.somcot.run_options import Origin, SomcotOptions, begin
from somcot.solvers.somcot.state import RunSettings, State, build
from somcot.steps import Steps

__all__ = [
    "FIRST_PHASE",
    "Phases",
    "from_record",
    "to_record",
]


# --- A SOMCOT state as arrays and a JSON record, and back.

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
    settings = RunSettings(**{**record["options"], "steps": Steps(*record["options"]["steps"])})
    edges_x, edges_y = Transitions.from_mask(arrays["edges_x"]), Transitions.from_mask(arrays["edges_y"])
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


# --- SOMCOT without a planned number of steps: phases of 1024, 2048, 4096, ... steps, each planned in itself.

FIRST_PHASE = 1024


@dataclass
class Phases:
    """What a run in phases knows beside the state of the present one.

    Attributes
    ----------
    options : Options
        As asked for, without a number of steps.
    cost, discount, x, y
        The problem: see `somcot.solvers.somcot.run_options.begin`.
    max_seconds : float
        When to stop; infinite for until the stream ends or someone interrupts.
    index : int
        Of the present phase, from 0 on.
    done : State or None
        The last finished phase.
    trace : list of rows
        Of the phases before `done`, with steps counted through.
    """

    options: SomcotOptions
    cost: Floats
    discount: float
    x: Origin
    y: Origin
    max_seconds: float
    index: int = 0
    done: State | None = None
    trace: list[tuple[float, ...]] = field(default_factory=list)

    @property
    def steps_before(self) -> int:
        """Steps of all phases before the present one."""
        return _steps(self.index)

    def first(self) -> State:
        """The state in which the first phase begins."""
        return begin(self.cost, self.discount, self._planned(), self.x, self.y)

    def settings(self) -> RunSettings:
        """What is fixed for the present phase."""
        return self._planned().settings(self.cost, self.discount)

    def next(self, state: State) -> State:
        """Keep a phase that has ended, and begin the next."""
        settle_trace(state)
        if self.done is not None:
            self.trace = self.rows_so_far()
        self.done, self.index = state, self.index + 1
        n_x, n_y = self.cost.shape
        x = self.x._replace(transitions=state.edges_x.mask[:n_x, :n_x])
        y = self.y._replace(transitions=state.edges_y.mask[:n_y, :n_y])
        fresh = begin(self.cost, self.discount, self._planned(), x, y)
        fresh.counts_x, fresh.counts_y = state.counts_x.copy(), state.counts_y.copy()
        fresh.known, fresh.pace = state.known, state.pace
        return fresh

    def rows_so_far(self) -> list[tuple[float, ...]]:
        """The trace up to the end of the last finished phase."""
        if self.done is None:
            return []
        before = _steps(self.index - 1)
        return self.trace + [(before + row[0], *row[1:]) for row in self.done.trace]

    def answer(self, present: State) -> tuple[State, Earlier]:
        """The state to read the answer off, and what came before it; the first phase stands in for itself."""
        all_steps = self.steps_before + present.k
        if self.done is None:
            return present, Earlier(0, [], all_steps)
        return self.done, Earlier(_steps(self.index - 1), self.trace, all_steps)

    def to_record(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and numbers for a checkpoint, beside those of the present phase."""
        record: dict[str, Any] = {"index": self.index}
        arrays: dict[str, NDArray[Any]] = {}
        if self.trace:
            arrays["phases.trace"] = np.array(self.trace, dtype=np.float64)
        if self.done is not None:
            own, record["done"] = to_record(self.done)
            arrays |= {f"phases.done.{name}": array for name, array in own.items()}
        return arrays, record

    def load(self, arrays: dict[str, NDArray[Any]], record: dict[str, Any]) -> None:
        """Take over what `to_record` wrote."""
        index = record["index"]
        if type(index) is not int or not 0 <= index < 48 or (index > 0) != ("done" in record):
            raise ValueError(f"phase {index!r}")
        self.index = index
        self.trace = [tuple(row) for row in arrays["phases.trace"].tolist()] if "phases.trace" in arrays else []
        if index:
            mark = "phases.done."
            own = {name.removeprefix(mark): array for name, array in arrays.items() if name.startswith(mark)}
            self.done = from_record(own, record["done"])
            if self.done.k != FIRST_PHASE << (index - 1) or self.done.k != self.done.settings.n_steps:
                raise ValueError(f"a finished phase of {self.done.k} steps")

    def _planned(self) -> SomcotOptions:
        return replace(self.options, n_steps=FIRST_PHASE << self.index)


def _steps(n_phases: int) -> int:
    """Steps of the first phases together."""
    return FIRST_PHASE * ((1 << n_phases) - 1)
