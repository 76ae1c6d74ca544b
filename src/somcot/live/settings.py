"""What a monitor was asked for."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any, NamedTuple

from somcot.live.labels import from_plain, to_plain
from somcot.live.promise import Promise, choose
from somcot.plumbing.validation import check_count, check_discount, check_flag, check_number

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

    def checked(self) -> Settings:
        """The same, or an error that names the option; from users and from files alike."""
        found = Settings(
            check_discount(self.discount),
            choose(*self.promise),
            check_number("min_distance", self.min_distance),
            check_count("window", self.window),
            None if self.starts is None else check_flag("starts", self.starts),
            self.end,
            check_number("timeout", self.timeout),
            check_flag("timeout_dated", self.timeout_dated),
            check_count("max_open", self.max_open, at_most=2**30),
        )
        if not 0.0 <= found.min_distance < math.inf:
            raise ValueError(f"min_distance: found {self.min_distance}, expected a number of at least 0")
        if not found.timeout > 0.0:
            raise ValueError(f"timeout: found {self.timeout}, expected a time above 0")
        return found

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
        held = {**record, "promise": Promise(*record["promise"]), "end": from_plain(record["end"])}
        return cls(**held).checked()
