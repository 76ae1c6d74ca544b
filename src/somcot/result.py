"""The one answer type of every solver and estimator."""

from __future__ import annotations

import enum
import json
import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from somcot.couplings import Coupling, Residuals
from somcot.validation import Floats

__all__ = ["Bounds", "ConfidenceInterval", "Duals", "Match", "Result", "Status"]

FORMAT = "somcot.result/1"


class Status(enum.StrEnum):
    """How a computation ended."""

    CONVERGED = "converged"
    STEP_LIMIT = "step limit"
    EXHAUSTED = "stream exhausted"
    INTERRUPTED = "interrupted"


class Bounds(NamedTuple):
    """A bracket that holds for certain, up to floating-point rounding, for the problem that was solved."""

    low: float
    high: float


class ConfidenceInterval(NamedTuple):
    """An interval for the true distance behind sampled data."""

    low: float
    high: float
    level: float


class Duals(NamedTuple):
    """Averaged multipliers of the paper's Lagrangian: alpha_X(x, x', y), alpha_Y(x, y, y') and V(x, y)."""

    alpha_x: Floats
    alpha_y: Floats
    V: Floats


class Match(NamedTuple):
    """A state of X, the state of Y it is most often paired with, and how often."""

    x: Hashable
    y: Hashable
    probability: float
    occupancy: float


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """A distance with everything that came with it.

    ``float(result)`` is the distance and ``print(result)`` a one-line summary.

    Attributes
    ----------
    distance : float
        (1 - discount) E[sum_t discount^t c(X_t, Y_t)], so min c <= distance <= max c.
    bounds : Bounds
        Certified bracket of the problem that was solved (known or estimated kernels).
    encoder, decoder : ndarray, shape (n_x, n_y) and (n_y, n_x)
        lambda_X(y | x) and lambda_Y(x | y); rows sum to 1, uniform for states that are never visited.
    potential : ndarray, shape (n_x, n_y)
        V, scaled so that distance = (1 - discount) * V(start pair); NaN for pairs the start cannot reach.
    state_law : ndarray, shape (n_x, n_y)
        Discounted occupancy of state pairs under the coupling.
    plan : Coupling or None
        The occupancy coupling, entry by entry.
    residuals : Residuals
        Violations of the flow and causality constraints.
    trace : mapping of str to ndarray
        Columns recorded along the way, among them "step" and "distance".
    confidence_interval : ConfidenceInterval or None
        For the true distance; None where nothing was sampled or asked.
    plugin : float or None
        Distance of the estimated chains, solved exactly; None for known chains.
    duals : Duals or None
        Multipliers of the constraints, from primal-dual methods only.
    notes : tuple of str
        What `diagnose` says.
    """

    distance: float
    method: str
    status: Status
    message: str
    discount: float
    n_steps: int
    seconds: float
    bounds: Bounds
    encoder: Floats
    decoder: Floats
    potential: Floats
    state_law: Floats
    residuals: Residuals
    states_x: tuple[Hashable, ...]
    states_y: tuple[Hashable, ...]
    plan: Coupling | None = None
    trace: Mapping[str, Floats] = field(default_factory=dict)
    samples: tuple[int, int] = (0, 0)
    confidence_interval: ConfidenceInterval | None = None
    plugin: float | None = None
    duals: Duals | None = None
    notes: tuple[str, ...] = ()

    @property
    def converged(self) -> bool:
        """Whether the method met its own accuracy target."""
        return self.status is Status.CONVERGED

    @property
    def n_samples(self) -> int:
        """Transitions used, both chains together; 0 for known chains."""
        return sum(self.samples)

    def __float__(self) -> float:
        return self.distance

    def coupling(self) -> Floats:
        """The occupancy coupling mu as a full array, (n_x, n_y, n_x, n_y).

        Refused with a clear error above the memory limit; `plan` holds the entries with mass whatever the size.
        """
        if self.plan is None:
            raise ValueError("coupling: this run did not keep its coupling; ask for it with keep_coupling=True")
        return self.plan.dense()

    def diagnose(self) -> list[str]:
        """Say in words what looks wrong with the run and what to do; empty when nothing does."""
        return list(self.notes)

    def matches(self) -> list[Match]:
        """For each visited state of X its most frequent partner in Y, the most visited states first."""
        visits = self.state_law.sum(axis=1)
        best = self.encoder.argmax(axis=1)
        order = [int(i) for i in np.argsort(-visits, kind="stable") if visits[i] > 0]
        return [
            Match(self.states_x[i], self.states_y[best[i]], float(self.encoder[i, best[i]]), float(visits[i]))
            for i in order
        ]

    def __str__(self) -> str:
        parts = [f"{self.distance:.6g}"]
        if self.confidence_interval is not None:
            low, high, level = self.confidence_interval
            parts[0] += f" [{low:.4g}, {high:.4g}] {100 * level:g} %"
        if self.n_samples:
            parts[0] += f" from {self.samples[0]:,} + {self.samples[1]:,} transitions"
        parts += [f"gap {self.bounds.high - self.bounds.low:.1g}", self.method, f"{self.seconds:.2g} s"]
        if not self.converged:
            parts.append(self.status.value)
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"<somcot.Result {self}>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result to a file that holds no code (safetensors); `Result.load` reads it back."""
        from safetensors.numpy import save

        arrays: dict[str, Floats] = {}
        header: dict[str, Any] = {"format": FORMAT}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, np.ndarray):
                arrays[f.name] = np.ascontiguousarray(value)
            elif isinstance(value, Coupling):
                arrays.update({f"plan.{g.name}": np.ascontiguousarray(getattr(value, g.name)) for g in fields(value)})
            elif isinstance(value, Duals):
                arrays.update({f"duals.{name}": np.ascontiguousarray(a) for name, a in value._asdict().items()})
            elif f.name == "trace":
                arrays.update({f"trace.{name}": np.ascontiguousarray(column) for name, column in value.items()})
            elif f.name in ("states_x", "states_y"):
                header[f.name] = [_label_to_json(f.name, label) for label in value]
            else:
                header[f.name] = value
        target = Path(path)
        partial = target.with_name(target.name + ".part")
        partial.write_bytes(save(arrays, metadata={"somcot": json.dumps(header)}))
        partial.replace(target)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Result:
        """Read a result written by `save`; refuse anything else."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(os.fspath(path), framework="numpy") as file:
                header = json.loads((file.metadata() or {}).get("somcot", "{}"))
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{os.fspath(path)}: not a somcot result file ({error})") from None
        if not isinstance(header, dict) or header.pop("format", None) != FORMAT:
            raise ValueError(f"{os.fspath(path)}: not a somcot result file (expected format {FORMAT})")
        try:
            return cls(**_fields_from(header, arrays))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{os.fspath(path)}: not a somcot result file (incomplete: {error})") from None


def _fields_from(header: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    values = dict(header)
    values["status"] = Status(header["status"])
    values["bounds"] = Bounds(*header["bounds"])
    values["residuals"] = Residuals(*header["residuals"])
    values["samples"] = tuple(header["samples"])
    values["notes"] = tuple(header.get("notes", ()))
    if header["confidence_interval"] is not None:
        values["confidence_interval"] = ConfidenceInterval(*header["confidence_interval"])
    for name in ("states_x", "states_y"):
        values[name] = tuple(_label_from_json(label) for label in header[name])
    groups: dict[str, dict[str, Any]] = {"plan": {}, "trace": {}, "duals": {}}
    for name, array in arrays.items():
        group, _, key = name.partition(".")
        (groups.get(group, values) if key else values)[key or name] = array
    plan, trace = groups["plan"], groups["trace"]
    if groups["duals"]:
        values["duals"] = Duals(**groups["duals"])
    if plan:
        plan["shape"] = tuple(int(n) for n in plan["shape"])
        values["plan"] = Coupling(**plan)
    values["trace"] = trace
    return values


def _label_to_json(name: str, label: Hashable) -> Any:
    if isinstance(label, tuple):
        return {"tuple": [_label_to_json(name, part) for part in label]}
    if label is None or isinstance(label, (str, int, float, bool)):
        return label
    raise TypeError(f"{name}: label {label!r} of type {type(label).__name__} cannot be saved; use text or numbers")


def _label_from_json(label: Any) -> Hashable:
    if isinstance(label, dict):
        return tuple(_label_from_json(part) for part in label["tuple"])
    return label  # type: ignore[no-any-return]


