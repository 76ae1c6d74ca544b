"""The alarm: when, since when, with how much evidence, and which transitions moved."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np

from somcot.live.labels import from_plain, to_plain
from somcot.live.reference import Reference
from somcot.plumbing.arrays import Codes
from somcot.plumbing.text import label_text

__all__ = ["FIRST", "Alarm", "Moved", "moved"]

FIRST = "(start)"  # stands for the row of first states
_LISTED = 10


class Moved(NamedTuple):
    """A transition whose share changed; `source` is ``"(start)"`` for first states.

    Attributes
    ----------
    source, target : label
    before, now : float
        Share of the steps from `source`, in the reference and since the change.
    n_seen : int
        How often it was seen since the change.
    surprise : float
        Difference in standard errors.
    """

    source: Hashable
    target: Hashable
    before: float
    now: float
    n_seen: int
    surprise: float

    def __str__(self) -> str:
        return f"{label_text(self.source, 30)} -> {label_text(self.target, 30)}: {self.before:.3g} -> {self.now:.3g}"


class Alarm(NamedTuple):
    """What a monitor reports when the process is no longer the reference.

    Attributes
    ----------
    id : str
        The same alarm has the same id in every run: whoever receives alarms drops repeats.
    event : int
        Number of the event that raised it, the first being 1.
    since : int
        Event with which the change began, estimated.
    evidence : float
        The Shiryaev-Roberts sum at that moment; `threshold` was enough.
    threshold : float
    reason : str
        "evidence", or "impossible transition" for one that the known reference excludes.
    transitions : tuple of Moved
        Those that changed most between `since` and `event`, most surprising first. They are chosen by the alarm itself,
        so their differences are somewhat too large.
    time : float or None
        Time of the event where times are given, in their unit (dates: microseconds since 1970).
    scored, began : int
        The same moments as `event` and `since`, counted in transitions that were scored.
    """

    id: str
    event: int
    since: int
    evidence: float
    threshold: float
    reason: str
    transitions: tuple[Moved, ...]
    time: float | None = None
    scored: int = 0
    began: int = 0

    def __str__(self) -> str:
        why = f"evidence {self.evidence:.3g} of {self.threshold:.3g}" if self.reason == "evidence" else self.reason
        return f"alarm at event {self.event:,}, since about event {self.since:,}, {why}"

    def when(self, *, dated: bool) -> str | None:
        """The date and time of the event, where times are dates (those with a zone: of UTC).

        Examples
        --------
        >>> Alarm("a-7", 7, 5, 10.0, 9.0, "evidence", (), 1775125313000000.0).when(dated=True)
        '2026-04-02T10:21:53'
        """
        if self.time is None or not dated:
            return None
        try:
            return (datetime(1970, 1, 1) + timedelta(microseconds=self.time)).isoformat(timespec="seconds")
        except OverflowError:  # beyond the calendar
            return None

    def to_plain(self) -> dict[str, Any]:
        """The record as JSON can hold it."""
        rows = [[to_plain(m.source), to_plain(m.target), *m[2:]] for m in self.transitions]
        return self._asdict() | {"transitions": rows}

    @classmethod
    def from_plain(cls, record: dict[str, Any]) -> Alarm:
        """What `to_plain` wrote."""
        rows = tuple(Moved(from_plain(a), from_plain(b), *rest) for a, b, *rest in record["transitions"])
        return cls(**{**record, "transitions": rows})


def moved(reference: Reference, now: Codes, following: Codes, states: list[Hashable]) -> tuple[Moved, ...]:
    """Transitions that differ most from the reference, in standard errors; -1 in `now` is before a first state."""
    m = len(states)
    rows = np.where(now < 0, m, now).astype(np.int64)
    own = np.bincount(rows, minlength=m + 1)
    seen = rows * m + following
    known = reference.chain.support
    n = reference.n
    sources = np.where(known.rows == n, m, known.rows).astype(np.int64)
    entries = np.union1d(seen, (sources * m + known.indices)[own[sources] > 0])
    count = np.bincount(np.searchsorted(entries, seen), minlength=len(entries))
    row, column = entries // m, entries % m
    before = reference.shares(np.where(row == m, -1, row), column)
    n_row = own[row]
    mixed = (count + 0.5 + 8.0 * before) / (n_row + 8.5)  # never 0 or 1, so that the error is never 0
    surprise = (count - n_row * before) / np.sqrt(n_row * mixed * (1.0 - np.minimum(mixed, 0.999)))
    order = np.argsort(-np.abs(surprise), kind="stable")[:_LISTED]
    return tuple(
        Moved(
            FIRST if row[k] == m else states[row[k]], states[column[k]], float(before[k]), float(count[k] / n_row[k]),
            int(count[k]), float(surprise[k]),
        )
        for k in order.tolist()
    )  # fmt: skip
