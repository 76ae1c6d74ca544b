"""Asking the library, with warnings caught, and the answers as plain data for programs."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import somcot
from somcot.cells import Continuous
from somcot.chains import MarkovChain
from somcot.commands.inputs import NamedProcess
from somcot.commands.wording import as_option
from somcot.plumbing.arrays import Floats
from somcot.plumbing.text import label_text
from somcot.problem import Data
from somcot.report import meaning, named
from somcot.result import Claim, Result
from somcot.samples import Samples
from somcot.trajectories import Trajectories

__all__ = [
    "Answer",
    "caught",
    "chain_of",
    "names_of",
    "notes_of",
    "one_sided",
    "plain",
    "process_facts",
    "to_json",
]  # fmt: skip

_MATCHES = 50
_SHARES = 20
_PARTS = ("resolution", "twin", "shift_check", "map")


@dataclass
class Answer:
    """A result and everything that is shown with it."""

    result: Result
    x: NamedProcess
    y: NamedProcess
    cost: Floats
    cost_name: str
    seed: int
    warnings: list[str]
    command: str
    files: dict[str, str] = field(default_factory=dict)
    state_name: str | None = None  # what a state is, such as "page"

    @property
    def names(self) -> tuple[str, str]:
        """What to call the two, on every screen and in every file."""
        return names_of(self.x, self.y)

    @property
    def meaning(self) -> str:
        """What the number means, in a sentence."""
        return meaning(self.result, self.cost, self.names, cost_name=self.cost_name, state_name=self.state_name)

    @property
    def notes(self) -> list[str]:
        """What to know before trusting the answer, what concerns the number first."""
        return notes_of([*self.result.diagnose(), *self.warnings], self.x, self.y)


def _continuous(found: Continuous) -> dict[str, Any]:
    """What a distance between recordings of real vectors has beside others."""
    parts = (found.resolution, found.twin, found.shift_check, found.map)
    records = {name: None if part is None else part._asdict() for name, part in zip(_PARTS, parts, strict=True)}
    cells = found.cells
    return {"route": found.route, "n_cells": cells.n_cells, "scale": cells.scale, "centres": cells.centres, **records}


@contextlib.contextmanager
def caught() -> Iterator[list[str]]:
    """Collect this library's warnings as one line each; those of other packages are not the user's business."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            yield messages
        finally:
            ours = [str(w.message) for w in found if w.category.__module__.startswith("somcot")]
            messages.extend(label_text(as_option(" ".join(text.split())), 2000) for text in dict.fromkeys(ours))


def names_of(x: NamedProcess, y: NamedProcess) -> tuple[str, str]:
    """File names without their folders, where that tells the two apart; else numbered.

    Examples
    --------
    >>> chain = somcot.random_walk(2)
    >>> names_of(NamedProcess("old/may.csv", chain), NamedProcess("june.csv", chain))
    ('may.csv', 'june.csv')
    >>> names_of(NamedProcess("may.csv", chain), NamedProcess("may.csv", chain))
    ('may.csv (1)', 'may.csv (2)')
    """
    short, full = (Path(x.name).name, Path(y.name).name), (x.name, y.name)
    for first, second in (short, full):
        if first != second:
            return first, second
    return f"{short[0]} (1)", f"{short[1]} (2)"


def notes_of(messages: Iterable[str], x: NamedProcess, y: NamedProcess) -> list[str]:
    """Messages in the names of the two files, each once."""
    short = names_of(x, y)
    known = {x.name: "x", y.name: "y"} if x.name != y.name else {}
    parts = ((message, *message.partition(": ")) for message in map(as_option, messages))
    return named([f"{known[a]}: {rest}" if a in known else whole for whole, a, _, rest in parts], short)


def chain_of(process: NamedProcess) -> MarkovChain:
    """The known chain, or the one estimated from the data."""
    return process.value.chain() if isinstance(process.value, Data) else process.value


def one_sided(x: NamedProcess, y: NamedProcess) -> tuple[list[Hashable], list[Hashable]]:
    """States that only one of the two has."""
    in_x, in_y = set(x.value.states), set(y.value.states)
    return [s for s in x.value.states if s not in in_y], [s for s in y.value.states if s not in in_x]


def process_facts(process: NamedProcess) -> dict[str, Any]:
    """What was read, in numbers."""
    value = process.value
    if isinstance(value, Trajectories):
        sizes = {"n_transitions": value.n_transitions, "n_episodes": value.n_episodes, "n_coordinates": value.d}
        return {"source": process.name, "kind": "vectors", **sizes}
    facts: dict[str, Any] = {"source": process.name, "n_states": value.n_states}
    if process.rates is not None:
        return facts | {"kind": "rates", "n_transitions": int((process.rates.rates > 0).sum()), "n_episodes": 0}
    if isinstance(value, Data):
        kind = "samples" if isinstance(value, Samples) else "counts"
        return facts | {"kind": kind, "n_transitions": value.n_transitions, "n_episodes": value.n_episodes}
    return facts | {"kind": "chain", "n_transitions": int(value.support.indptr[-2]), "n_episodes": 0}


def to_json(answer: Answer) -> dict[str, Any]:
    """The object that `somcot distance --json` prints; its keys are documented and stay."""
    r = answer.result
    only_x, only_y = one_sided(answer.x, answer.y)
    content: dict[str, Any] = plain(
        {
            "somcot": somcot.__version__,
            "command": "distance",
            "distance": r.distance,
            "meaning": answer.meaning,
            "confidence_interval": None if r.confidence_interval is None else r.confidence_interval._asdict(),
            "claim": r.claim.value,
            "bounds": r.bounds._asdict() if r.claim is Claim.PROVED else None,
            "plugin": r.plugin,
            "counted": r.counted,
            "before_correction": None if r.plugin is None else {"distance": r.plugin, "bounds": r.bounds._asdict()},
            "estimate": None if r.estimate is None else r.estimate._asdict(),
            **({} if r.continuous is None else {"continuous": _continuous(r.continuous)}),
            "method": r.method,
            "converged": r.converged,
            "status": r.status.value,
            "message": r.message,
            "discount": r.discount,
            "clock": {"name": r.clock.name, "value": r.clock.value or None, "settling": r.settling},
            "cost": answer.cost_name,
            "seed": answer.seed,
            "n_steps": r.n_steps,
            "n_samples": list(r.samples),
            "seconds": r.seconds,
            "x": process_facts(answer.x),
            "y": process_facts(answer.y),
            "only_x": only_x,
            "only_y": only_y,
            "matches": [m._asdict() for m in r.matches()[:_MATCHES]],
            "contributions": None if r.makeup is None else _shares(r),
            "warnings": answer.notes,
            "files": answer.files,
        }
    )
    return content


def _shares(result: Result) -> dict[str, Any]:
    found = result.contributions(_SHARES)
    return {name: [share._asdict() for share in getattr(found, name)] for name in found._fields}


def plain(value: Any) -> Any:
    """Only what JSON knows: NaN and infinity become null, tuples lists, other labels text.

    Examples
    --------
    >>> plain({"a": (1, float("nan")), "b": np.float64(0.5)})
    {'a': [1, None], 'b': 0.5}
    """
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)
