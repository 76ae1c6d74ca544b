"""The alarm record, the guarantee on false alarms, and the settings of a monitor."""

from __future__ import annotations

import math
from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np

from somcot.live.reference import Reference, from_plain, to_plain
from somcot.plumbing.arrays import Codes
from somcot.plumbing.checks import check_count, check_discount, check_flag, check_number
from somcot.plumbing.text import label_text

__all__ = [
    "FIRST",
    "Alarm",
    "MonitorSettings",
    "Moved",
    "Promise",
    "choose",
    "moved",
]


# --- The guarantee on false alarms, and the threshold and weights that follow from it

DEFAULT = 1_000_000.0


class Promise(NamedTuple):
    """One of three guarantees on false alarms; the evidence has to reach `threshold`.

    Attributes
    ----------
    one_per : float or None
        On average at most one false alarm in this many events.
    level : float or None
        The probability of a false alarm is at most this, ...
    within : int or None
        ... within this many events; None: for as long as the monitor runs.
    """

    one_per: float | None = DEFAULT
    level: float | None = None
    within: int | None = None

    @property
    def threshold(self) -> float:
        """Level that the Shiryaev-Roberts sum must reach: A by optional stopping, T / a by Doob, 1 / a by Ville."""
        if self.level is None:
            return float(self.one_per or DEFAULT)
        return (self.within or 1) / self.level

    @property
    def forever(self) -> bool:
        """Whether possible change points are weighted with weights that sum to 1."""
        return self.level is not None and self.within is None

    def __str__(self) -> str:
        if self.level is None:
            return f"on average at most one false alarm in {self.one_per:,.0f} events"
        if self.within is None:
            return f"a false alarm ever with probability at most {self.level:g}"
        return f"a false alarm within {self.within:,} events with probability at most {self.level:g}"


def choose(one_per: float | None, level: float | None, within: int | None) -> Promise:
    """The guarantee for these arguments; contradicting arguments are refused.

    Examples
    --------
    >>> choose(None, 0.05, 20_000).threshold
    400000.0
    >>> print(choose(None, None, None))
    on average at most one false alarm in 1,000,000 events
    """
    if level is None:
        if within is not None:
            raise ValueError("within: needs false_alarm as well, the probability that is not to be exceeded")
        value = DEFAULT if one_per is None else check_number("one_false_alarm_per", one_per)
        if not 1.0 <= value < 1e200:
            raise ValueError(f"one_false_alarm_per: found {value:g}, expected a number of events of at least 1")
        return Promise(value)
    if one_per is not None:
        raise ValueError("false_alarm: found together with one_false_alarm_per; choose one of the two promises")
    share = check_number("false_alarm", level)
    if not 1e-100 < share < 1.0:
        raise ValueError(f"false_alarm: found {share:g}, expected a probability between 0 and 1, such as 0.05")
    return Promise(None, share, None if within is None else check_count("within", within))


# --- Settings of a monitor

_CONFIRM = 2000  # new transitions after an alarm that suffice to estimate the distance without earlier ones


class MonitorSettings(NamedTuple):
    """Options of a monitor, checked; an infinite time-out means none."""

    discount: float
    promise: Promise
    min_distance: float
    window: int
    starts: bool | None
    end: Hashable
    timeout: float
    timeout_dated: bool
    max_open: int

    def checked(self) -> MonitorSettings:
        """The same settings, or an error that names the option; used for arguments and for files."""
        settings = MonitorSettings(
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
        if not 0.0 <= settings.min_distance < math.inf:
            raise ValueError(f"min_distance: found {self.min_distance}, expected a number of at least 0")
        if not settings.timeout > 0.0:
            raise ValueError(f"timeout: found {self.timeout}, expected a time above 0")
        return settings

    @property
    def confirm(self) -> int:
        """Number of new transitions that replace those before the alarm."""
        return min(_CONFIRM, self.window)

    def to_plain(self) -> dict[str, Any]:
        """The record as JSON-compatible values."""
        return self._asdict() | {"promise": list(self.promise), "end": to_plain(self.end)}

    @classmethod
    def from_plain(cls, record: dict[str, Any]) -> MonitorSettings:
        """The inverse of `to_plain`."""
        held = {**record, "promise": Promise(*record["promise"]), "end": from_plain(record["end"])}
        return cls(**held).checked()


# --- The alarm

FIRST = "(start)"  # denotes the row of first states
_LISTED = 10


class Moved(NamedTuple):
    """A transition whose probability changed; `source` is ``"(start)"`` for first states.

    Attributes
    ----------
    source, target : label
    before, now : float
        Share of the steps from `source`, in the reference and since the change.
    n_seen : int
        Number of occurrences since the change.
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
    """Report of a monitor that the process no longer follows the reference.

    Attributes
    ----------
    id : str
        The same alarm has the same id in every run, so that receivers can drop duplicates.
    event : int
        Number of the event that raised the alarm, starting at 1.
    since : int
        Estimated event at which the change began.
    evidence : float
        The Shiryaev-Roberts sum at that event; at least `threshold`.
    threshold : float
    reason : str
        "evidence", or "impossible transition" for one that has probability 0 under a known reference.
    transitions : tuple of Moved
        Transitions that changed most between `since` and `event`, most surprising first. The alarm itself selects them,
        so their differences are somewhat too large.
    time : float or None
        Time of the event if times are used, in their unit (dates: microseconds since 1970).
    scored, began : int
        The same events as `event` and `since`, counted in scored transitions.
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
        """The date and time of the event, if times are dates (UTC for those with a time zone).

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
        """The record as JSON-compatible values."""
        rows = [[to_plain(m.source), to_plain(m.target), *m[2:]] for m in self.transitions]
        return self._asdict() | {"transitions": rows}

    @classmethod
    def from_plain(cls, record: dict[str, Any]) -> Alarm:
        """The inverse of `to_plain`."""
        rows = tuple(Moved(from_plain(a), from_plain(b), *rest) for a, b, *rest in record["transitions"])
        return cls(**{**record, "transitions": rows})


def moved(reference: Reference, now: Codes, following: Codes, states: list[Hashable]) -> tuple[Moved, ...]:
    """Transitions that differ most from the reference, in standard errors; -1 in `now` precedes a first state."""
    m = len(states)
    rows = np.where(now < 0, m, now).astype(np.int64)
    row_totals = np.bincount(rows, minlength=m + 1)
    seen = rows * m + following
    known = reference.chain.support
    n = reference.n
    sources = np.where(known.rows == n, m, known.rows).astype(np.int64)
    entries = np.union1d(seen, (sources * m + known.indices)[row_totals[sources] > 0])
    count = np.bincount(np.searchsorted(entries, seen), minlength=len(entries))
    row, column = entries // m, entries % m
    before = reference.shares(np.where(row == m, -1, row), column)
    n_row = row_totals[row]
    mixed = (count + 0.5 + 8.0 * before) / (n_row + 8.5)  # never 0 or 1, so the error is never 0
    surprise = (count - n_row * before) / np.sqrt(n_row * mixed * (1.0 - np.minimum(mixed, 0.999)))
    order = np.argsort(-np.abs(surprise), kind="stable")[:_LISTED]
    return tuple(
        Moved(
            FIRST if row[k] == m else states[row[k]], states[column[k]], float(before[k]), float(count[k] / n_row[k]),
            int(count[k]), float(surprise[k]),
        )
        for k in order.tolist()
    )  # fmt: skip
