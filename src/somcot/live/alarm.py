"""The alarm record, the guarantee on false alarms, and the settings of a monitor."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np

from somcot.live.conformal import Plan, SequenceDetector, cycle, cycles_in
from somcot.live.reference import Reference, Window, from_plain, to_plain
from somcot.live.scores import GENERAL, Tables
from somcot.live.sequences import CUT_OFF, FULL, Units
from somcot.plumbing.arrays import Codes, Ints
from somcot.plumbing.checks import check_count, check_discount, check_flag, check_number, check_text
from somcot.plumbing.text import check_duration, label_text

__all__ = [
    "FIRST",
    "Alarm",
    "Change",
    "Check",
    "MonitorSettings",
    "Moved",
    "Promise",
    "as_number",
    "changed",
    "check_times",
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
    unit : {"events", "sequences"}
        What `one_per` and `within` count.

    Examples
    --------
    >>> print(Promise(level=0.05, within=20_000))
    a false alarm within 20,000 events with probability at most 0.05
    >>> Promise(level=0.05, within=20_000).threshold
    400000.0
    >>> from somcot.live.conformal import Plan
    >>> plan = Plan("sequences", None, True, "sequences are ranked", 10.0)
    >>> Promise(5000).threshold_of(plan)
    1000.0
    >>> Promise(5000).in_full(plan)
    'on average at most one false alarm in 5,000 events (500 sequences of 10 events); exact: sequences are ranked'
    """

    one_per: float | None = DEFAULT
    level: float | None = None
    within: int | None = None
    unit: str = "events"

    @property
    def threshold(self) -> float:
        """Level that the sum of steps must reach: A by optional stopping, T / a by Doob, 1 / a by Ville."""
        if self.level is None:
            return float(self.one_per or DEFAULT)
        return (self.within or 1) / self.level

    def threshold_of(self, plan: Plan) -> float:
        """The same for whole sequences: P(alarm within n) <= n / threshold, hence a mean run length of half of it."""
        length = plan.mean_length if self.unit == "events" else 1.0
        if self.level is None:
            return 2.0 * float(self.one_per or DEFAULT) / length
        return 1.0 / self.level if self.within is None else self.within / (length * self.level)

    @property
    def forever(self) -> bool:
        """Whether possible change points are weighted with weights that sum to 1."""
        return self.level is not None and self.within is None

    def __str__(self) -> str:
        if self.level is None:
            return f"on average at most one false alarm in {self.one_per:,.0f} {self.unit}"
        if self.within is None:
            return f"a false alarm ever with probability at most {self.level:g}"
        return f"a false alarm within {self.within:,} {self.unit} with probability at most {self.level:g}"

    def in_full(self, plan: Plan) -> str:
        """The guarantee, what it is in sequences, and whether it is exact."""
        converted = ""
        if plan.kind != "steps" and not self.forever and self.unit == "events":
            n = (self.within if self.level is not None else self.one_per) or DEFAULT
            what = "sequences" if plan.kind == "sequences" else "cycles"
            converted = f" ({n / plan.mean_length:,.0f} {what} of {plan.mean_length:.3g} events)"
        return f"{self}{converted}; {'exact' if plan.exact else 'approximate'}: {plan.reason}"


def choose(one_per: float | None, level: float | None, within: int | None, unit: str = "events") -> Promise:
    """The guarantee for these arguments; contradicting arguments are refused.

    Examples
    --------
    >>> choose(None, 0.05, 20_000).threshold
    400000.0
    >>> print(choose(None, None, None))
    on average at most one false alarm in 1,000,000 events
    """
    check_text("unit", unit, "events", "sequences")
    if level is None:
        if within is not None:
            raise ValueError("within: needs false_alarm as well, the probability that is not to be exceeded")
        value = DEFAULT if one_per is None else check_number("one_false_alarm_per", one_per)
        if not 1.0 <= value < 1e200:
            raise ValueError(f"one_false_alarm_per: found {value:g}, expected a number of {unit} of at least 1")
        return Promise(value, unit=unit)
    if one_per is not None:
        raise ValueError("false_alarm: found together with one_false_alarm_per; choose one of the two promises")
    share = check_number("false_alarm", level)
    if not 1e-100 < share < 1.0:
        raise ValueError(f"false_alarm: found {share:g}, expected a probability between 0 and 1, such as 0.05")
    return Promise(None, share, None if within is None else check_count("within", within), unit)


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
            check_count("window", self.window, at_most=10**9),
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
        # Three entries where events are counted, as ever, so that the fingerprint of a monitor stays the same.
        promise = list(self.promise if self.promise.unit != "events" else self.promise[:3])
        return self._asdict() | {"promise": promise, "end": to_plain(self.end)}

    @classmethod
    def from_plain(cls, record: dict[str, Any]) -> MonitorSettings:
        """The inverse of `to_plain`."""
        held = {**record, "promise": Promise(*record["promise"]), "end": from_plain(record["end"])}
        return cls(**held).checked()


def as_number(timeout: object) -> tuple[Any, bool]:
    """The time-out as a number, and whether it is a time span, in microseconds."""
    if timeout is not None and not isinstance(timeout, (int, float)):
        timeout = check_duration("timeout", timeout)
    if isinstance(timeout, timedelta):
        return timeout / timedelta(microseconds=1), True
    return math.inf if timeout is None else timeout, False


def check_times(settings: MonitorSettings, before: bool | None, dated: bool | None, *, timed: bool) -> None:
    """Refuse times of another kind than those `before` (dates or not; None: no times), or than the time-out."""
    if timed and before is None:
        raise ValueError("times: earlier calls had none; pass times in every call or in none")
    if timed != (before is not None) or (timed and dated != before):
        raise ValueError("times: not of the same kind as in earlier calls; always pass dates, numbers or none")
    if settings.timeout == math.inf:
        return
    if timed and bool(dated) != settings.timeout_dated:
        kinds = ("numbers", "a number in their unit"), ("dates", "a time span, such as '1h'")
        what, how = kinds[bool(dated)]
        raise ValueError(f"timeout: times are {what}, so pass timeout as {how}")
    if not timed and settings.timeout_dated:
        raise ValueError("timeout: it is a time span, so pass times, as dates")


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
    what : str
        What changed, where whole sequences are scored: the score that reached the threshold, with counts before and
        after.
    sequence, since_sequence : int
        The sequence that raised the alarm and the one with which the change began; 0 where steps are scored.

    Examples
    --------
    >>> alarm = Alarm("a-7", 7, 5, 10.0, 9.0, "evidence", (Moved("cart", "paid", 0.5, 0.1, 40, 5.0),))
    >>> print(alarm)
    alarm at event 7, since about event 5, evidence 1.11 (alarm at 1)
    >>> Alarm.from_plain(alarm.to_plain()) == alarm
    True
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
    what: str = ""
    sequence: int = 0
    since_sequence: int = 0

    def __str__(self) -> str:
        why = self.reason
        if why == "evidence":  # as a share of the threshold, like `Monitor.evidence`
            why = f"evidence {self.evidence / self.threshold:.3g} (alarm at 1)"
        what = f": {self.what}" if self.what else ""
        return f"alarm at event {self.event:,}, since about event {self.since:,}, {why}{what}"

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


# --- What changed, in words


class Change(NamedTuple):
    """What reached the threshold: transition, event and sequence (0: none) with which it began, and what in words."""

    number: int
    since: int
    sequence: int
    evidence: float
    threshold: float
    what: str


def changed(
    whole: SequenceDetector, window: Window, crossing: Units, event: int, states: list[Hashable], mean: float
) -> Change:
    """The change that a unit, `crossing`, showed at an event; `mean` is the mean length of the reference's units."""
    last, by_cycle = int(window.number[0]), whole.cut is None
    if by_cycle:
        now, following = window.after(0)
        units = cycles_in(cycle(), whole.atom, np.append(now[:1], following), event - len(following))
        numbers = last - event + 1 + units.began
        if len(units.how):  # counted within the window so far
            units = units._replace(number=units.number + (crossing.number[0] - units.number[-1]))
    else:
        units, numbers = window.units()
    if not len(units.how):  # the window is shorter than the unit
        units, numbers = crossing, np.array([max(last - len(crossing.codes), 1)])
    k, up, at, later = whole.change(units)
    what = ""
    if len(later.how):  # a change that waited for `min_distance` may have left the window
        what = _explain(k, up, whole.tables, later, states, whole.held, mean, "cycle" if by_cycle else "sequence")
    level = max(whole.level, whole.rule.threshold)
    return Change(int(numbers[at]), int(units.began[at]), int(units.number[at]), level, whole.rule.threshold, what)


def _explain(
    k: int, up: bool, tables: Tables, units: Units, states: list[Hashable], held: Ints, mean: float, noun: str
) -> str:
    """The score that raised an alarm, as a sentence.

    Parameters
    ----------
    k, up : int, bool
        The score, and whether large values raised the alarm.
    units : Units
        Those since the change that have the score.
    states : list
        Labels of all codes.
    held : ndarray of int, shape (n + 1, 2)
        Number of sequences of the reference that hold each label, and of its occurrences; then those of all.
    mean : float
        Events per sequence of the reference.
    noun : str
        "sequence" or "cycle".
    """
    stage, k = divmod(k, tables.per_stage)
    size, n_steps = len(tables.entropy), len(tables.target)
    n, since = size - 3, f"since {noun} {int(units.number[0]):,}"
    later = f" (part {stage + 1} of long {noun}s)" if stage else ""
    place = np.append(tables.place, np.full(max(len(states) - len(tables.place), 0), n, np.int32))
    rows, columns = _steps(units, place, n)

    def name(row: int) -> str:
        labels = np.flatnonzero(place == row)
        return label_text(states[labels[0]], 30) if len(labels) == 1 else "new labels" if row == n else "rare labels"

    def share(row: int, column: int) -> str:
        visits = max(int(np.count_nonzero(rows == row)), 1)
        now = int(np.count_nonzero((rows == row) & (columns == column))) / visits
        shown_now, shown_before = _told_apart(now, float(tables.p[row, column]), "%", 0)
        return f"{shown_now} {since}, {shown_before} before"

    def held_by(codes: Codes) -> str:
        inside = np.isin(units.codes, codes).astype(np.int64)
        n_now = np.count_nonzero(np.add.reduceat(inside, units.offsets[:-1]))
        before = int(held[codes[codes < len(held) - 1], 0].sum())
        return f"in {n_now:,} of the last {len(units.how):,} {noun}s, in {before:,} of {int(held[-1, 0]):,} before"

    if k < GENERAL:
        if k == 3:
            codes = units.codes[place[units.codes] == n]
            code = int(np.bincount(codes).argmax()) if len(codes) else 0
            new = "" if code < len(held) - 1 and held[code, 0] else "new "
            return f"{new}label {label_text(states[code], 30)}: {held_by(np.array([code]))}{later}"
        if k == 4:
            odd = tables.odd[rows, columns] * ((rows != n) & (columns != n))
            i, j = divmod(int(np.bincount(rows * size + columns, weights=odd).argmax()), size)
            return f"{'new' if tables.unseen[i, j] else 'rare'} step {_step(name, n, i, j)}: {share(i, j)}{later}"
        length = f": {len(units.codes) / len(units.how):.3g} events {since}, {mean:.3g} before" if not stage else ""
        general = (
            f"{noun}s are {'less' if up else 'more'} predictable {since}",
            f"the order of steps changed {since}",
            f"{noun}s are {'longer' if up else 'shorter'}{length}",
        )
        return f"{general[k]}{later}"
    k -= GENERAL
    if k < n_steps:
        i = int(np.searchsorted(tables.pointer, k, side="right")) - 1
        j = int(tables.target[k])
        of = f"{noun}s" if i == n + 1 else f"the visits of {name(i)}"
        percent, _, rest = share(i, j).partition(" ")
        return f"step {_step(name, n, i, j)}: {percent} of {of} {rest}{later}"
    k -= n_steps
    if k < size:
        if k > n:
            more = "more" if up else "less"
            ends = "end" if k == n + 1 else "fall silent"
            return f"{noun}s {ends} {more} often than their steps explain {since}{later}"
        codes = np.flatnonzero(place == k)
        now = np.count_nonzero(np.isin(units.codes, codes)) / len(units.how)
        before = held[codes[codes < len(held) - 1], 1].sum() / held[-1, 0]
        shown_now, shown_before = _told_apart(now, float(before), "g", 2)
        return f"label {name(k)}: {shown_now} per {noun} {since}, {shown_before} before{later}"
    row = "the start" if k - size == n + 1 else name(k - size)
    return f"steps after {row} are {'less' if up else 'more'} predictable {since}{later}"


def _told_apart(now: float, before: float, kind: str, digits: int) -> tuple[str, str]:
    """Both numbers with as many digits as they need to differ, from `digits` on.

    Examples
    --------
    >>> _told_apart(1.13, 1.09, "g", 2), _told_apart(0.5, 0.25, "%", 0)
    (('1.13', '1.09'), ('50%', '25%'))
    """
    shown = f"{now:.{digits}{kind}}", f"{before:.{digits}{kind}}"
    alike = shown[0] == shown[1] and digits < 6
    return _told_apart(now, before, kind, digits + 1) if alike else shown


def _step(name: Callable[[int], str], n: int, i: int, j: int) -> str:
    source = FIRST if i == n + 1 else name(i)
    return f"{source} -> {'(end)' if j == n + 1 else '(nothing more)' if j == n + 2 else name(j)}"


def _steps(units: Units, place: Codes, n: int) -> tuple[Codes, Codes]:
    """Rows and columns of all steps of units."""
    closed = units.how != FULL
    lengths = np.diff(units.offsets) + closed
    first = np.cumsum(lengths) - lengths
    columns = np.empty(int(lengths.sum()), np.int32)
    closing = np.zeros(len(columns), np.bool_)
    closing[(first + lengths - 1)[closed]] = True
    columns[~closing] = place[units.codes]
    columns[closing] = np.where(units.how[closed] == CUT_OFF, n + 2, n + 1)
    rows = np.empty_like(columns)
    rows[1:] = columns[:-1]
    rows[first] = np.where(units.before < 0, n + 1, place[np.maximum(units.before, 0)])
    return rows, columns


@dataclass(frozen=True)
class Check:
    """Outcome of checking a recording against itself.

    Attributes
    ----------
    alarm : Alarm or None
        Raised by the later part of the recording against the earlier one; its events are those of the recording.
    n_transitions : int
        Number of transitions in the later part.
    evidence : float
        Evidence at the end; 1 with an alarm.
    reason : str
        What was scored, and why.
    """

    alarm: Alarm | None
    n_transitions: int
    evidence: float
    reason: str = ""

    @property
    def stationary(self) -> bool:
        """Whether no alarm speaks against the recording as a reference."""
        return self.alarm is None
