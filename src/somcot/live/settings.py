"""What a monitor was asked for."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from somcot.live.labels import from_plain, to_plain
from somcot.live.promise import Promise

__all__ = ["Settings"]

_CONFIRM = 2000  # fresh transitions after an alarm from which on they alone are used


class Settings(NamedTuple):
    """Options of a monitor, checked; the time-out is infinite where there is none."""

    discount: float
    promise: Promise
    min_distance: float
    window: int
    starts: bool | None
    end: Hashable
    timeout: float
    timeout_dated: bool
    max_open: int

    @property
    def confirm(self) -> int:
        """Fresh transitions that replace those before the alarm."""
        return min(_CONFIRM, self.window)

    def to_plain(self) -> dict[str, Any]:
        """The record as JSON can hold it."""
        return self._asdict() | {"promise": list(self.promise), "end": to_plain(self.end)}

    @classmethod
    def from_plain(cls, record: dict[str, Any]) -> Settings:
        """What `to_plain` wrote."""
        return cls(**{**record, "promise": Promise(*record["promise"]), "end": from_plain(record["end"])})
