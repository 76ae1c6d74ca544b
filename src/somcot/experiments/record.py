"""What an experiment is, what it leaves behind, and the figures it has to reach."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

import somcot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Check", "Experiment", "Record", "Report"]

Report = Callable[[int, int], None]
"""Called with (done, total) along a sweep."""


class Check(NamedTuple):
    """One acceptance figure: what was measured against what a correct implementation shows.

    Examples
    --------
    >>> print(Check("Spearman at K = 1,000", 0.58, ">=", 0.5))
    ok    Spearman at K = 1,000: 0.58, expected >= 0.5
    """

    name: str
    value: float
    relation: Literal[">=", "<="]
    limit: float

    @property
    def passed(self) -> bool:
        """Whether the value is on the right side of the limit; NaN never is."""
        return bool(self.value >= self.limit if self.relation == ">=" else self.value <= self.limit)

    def __str__(self) -> str:
        return (
            f"{'ok  ' if self.passed else 'MISS'}  {self.name}: {self.value:.3g}, "
            f"expected {self.relation} {self.limit:.3g}"
        )


@dataclass(frozen=True)
class Record:
    """Everything behind one figure: settings, seed, numbers, acceptance figures."""

    name: str
    settings: Any
    seed: int
    data: Mapping[str, Any]
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every acceptance figure was reached."""
        return all(check.passed for check in self.checks)

    def to_json(self) -> str:
        """The record as JSON, one line per part, arrays as nested lists with six significant digits."""
        checks = [check._asdict() | {"passed": check.passed} for check in self.checks]
        content = {
            "name": self.name,
            "version": somcot.__version__,
            "seed": self.seed,
            "settings": dataclasses.asdict(self.settings),
            "checks": checks,
            "data": self.data,
        }
        lines = (f" {json.dumps(key)}: {json.dumps(_plain(part))}" for key, part in content.items())
        return "{\n" + ",\n".join(lines) + "\n}"


@dataclass(frozen=True)
class Experiment:
    """A figure of the paper: two settings (the paper's and a quick one), how to compute it, how to draw it."""

    name: str
    title: str
    see: str
    full: Any
    quick: Any
    run: Callable[[Any, int, Report | None], Record]
    plot: Callable[[Record], Figure]


def _plain(value: Any) -> Any:
    """Arrays and numbers of NumPy as plain Python, floats rounded, NaN as null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return float(f"{value:.6g}") if np.isfinite(value) else None
    return value
