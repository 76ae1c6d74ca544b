"""`Monitor`: raises an alarm when events no longer come from the reference, and estimates the distance."""

from __future__ import annotations

import hashlib
import json
import math
import os
import warnings
from collections.abc import Hashable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from somcot import costs
from somcot.api import distance
from somcot.live import detector
from somcot.live import sequences as window
from somcot.live.alarm import Alarm, MonitorSettings, Promise, moved
from somcot.live.reference import Labels, Reference, times_of
from somcot.live.sequences import BACKWARDS, DROPPED, EXPIRED, OPEN, Keys, Rules, keys_of, link, opened, with_room
from somcot.plumbing.arrays import Codes, Floats, Ints
from somcot.plumbing.checks import check_confidence
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note, Share
from somcot.plumbing.text import check_duration
from somcot.problem import ChainOrData
from somcot.recorded.labels import listing
from somcot.result import Result

__all__ = ["Monitor"]

_PIECE = 1 << 18  # events per compiled call; no result depends on it
_NO_TIMES: Floats = np.zeros(0)


class Monitor:
    """Monitor a process online: has it changed since the reference, with how much evidence, and by how much?

    Parameters
    ----------
    reference : MarkovChain, Samples or Counts
        Known or recorded. The estimation error of a recorded reference is taken into account.
    cost : array_like, shape (n, n), str or function, optional
        Between states of the reference, as for `somcot.distance`; it need not be symmetric.
    discount : float
        For the distance; see `somcot.distance`.
    one_false_alarm_per : float, optional
        On average at most one false alarm in this many events. This is the default, with 1,000,000.
    false_alarm : float, optional
        Alternative guarantee: the probability of a false alarm is at most this, ...
    within : int, optional
        ... within this many events, with no guarantee afterwards. By default for as long as the monitor runs.
    min_distance : float
        Raise no alarm for changes whose estimated distance is smaller; `notice` reports them.
    window : int
        Maximum number of recent transitions that are kept; distances are computed from them.
    starts : bool, optional
        Whether first states of sequences are compared with the initial distribution of the reference. By default they
        are if sequences have names. Pass False if sequences were under way before the monitor started.
    end : label, optional
        State of the reference that a sequence enters when it times out, as for ``end=`` of the readers. A step is
        then scored only after the time-out has passed, so that steps and ends have the same delay.
    timeout : float, timedelta or text such as "30m", optional
        A sequence that is silent for longer has ended: a number in the unit of `times`, or of events without
        `times`; a time span if `times` are dates.
    max_open : int
        Maximum number of open sequences; beyond it, the one silent for longest is dropped.

    Examples
    --------
    >>> import somcot
    >>> walk, drift = somcot.random_walk(5, 0.5), somcot.random_walk(5, 0.7)
    >>> def path(chain, rng):
    ...     recorded = chain.sample(1, 5000, rng=rng)
    ...     return recorded.now
    >>> monitor = Monitor(walk.sample(1, 20_000, rng=0), discount=0.9, one_false_alarm_per=100_000)
    >>> monitor.update(path(walk, 1))
    []
    >>> monitor.update(path(drift, 2))[0].event
    5893
    >>> monitor.alarm.reason, monitor.evidence
    ('evidence', 1.0)
    """

    def __init__(
        self,
        reference: ChainOrData,
        cost: costs.Cost = "labels",
        *,
        discount: float,
        one_false_alarm_per: float | None = None,
        false_alarm: float | None = None,
        within: int | None = None,
        min_distance: float = 0.0,
        window: int = 20_000,
        starts: bool | None = None,
        end: Hashable = None,
        timeout: float | timedelta | str | None = None,
        max_open: int = 1_000_000,
    ) -> None:
        promise = Promise(one_false_alarm_per, false_alarm, within)
        after = _as_number(timeout)
        settings = MonitorSettings(discount, promise, min_distance, window, starts, end, *after, max_open).checked()
        self._set_up(Reference(reference, cost), settings)
        identity = [self.reference.digest(), settings.to_plain()]
        self.fingerprint = hashlib.sha256(json.dumps(identity).encode()).hexdigest()

    def _set_up(self, reference: Reference, settings: MonitorSettings) -> None:
        """Start with a reference: nothing observed, no open sequences."""
        self.reference, self.settings = reference, settings
        self._labels = Labels(reference.states)
        if settings.end is not None and settings.end not in self._labels.states:
            raise ValueError(f"end: {settings.end!r} is not a state of the reference; use the same end for both")
        if settings.end is not None and settings.timeout == math.inf:
            raise ValueError(f"end: {settings.end!r} is reached by time-out; pass timeout as well")
        self._end = -1 if settings.end is None else self._labels.states.index(settings.end)
        self._bets = reference.bets()
        self._setting = detector.Setting(
            settings.promise.threshold, reference.prior_mass / reference.n, reference.n, settings.promise.forever
        )
        self._window = window.empty(settings.window)
        self._open, self._last = opened(), -1
        self._dated: bool | None = None
        self._moment: float | None = None
        self._check_at = -1  # transition at which the size of a change is next computed
        self._checks = 0
        self._reason = "evidence"
        self.n_events = 0
        self.alarm: Alarm | None = None
        self.notice: str | None = None
        self.alarms: tuple[Alarm, ...] = ()
        self.position: Any = None

    # Current state

    @property
    def evidence(self) -> float:
        """Evidence as a fraction of the threshold, between 0 and 1; 1 after an alarm."""
        return 1.0 if self.alarm is not None else min(float(self._bets.R.mean()) / self._setting.threshold, 1.0)

    @property
    def dated(self) -> bool:
        """Whether times are dates."""
        return bool(self._dated)

    @property
    def since(self) -> int | None:
        """Estimated event at which the change began; None without an alarm."""
        return None if self.alarm is None else self.alarm.since

    @property
    def states(self) -> tuple[Hashable, ...]:
        """Labels of the reference, then new labels in order of appearance."""
        return tuple(self._labels.states)

    @property
    def new_labels(self) -> tuple[Hashable, ...]:
        """Labels unknown to the reference."""
        return tuple(self._labels.new)

    @property
    def n_scored(self) -> int:
        """Number of transitions, including first states, compared with the reference."""
        return int(self._bets.number[detector.EVENTS])

    @property
    def n_open(self) -> int:
        """Number of open sequences; with `end`, of events whose next step is pending."""
        return int(self._open.number[OPEN])

    @property
    def n_dropped(self) -> int:
        """Number of sequences dropped because too many were open."""
        return int(self._open.number[DROPPED])

    @property
    def n_expired(self) -> int:
        """Number of sequences that timed out."""
        return int(self._open.number[EXPIRED])

    @property
    def n_backwards(self) -> int:
        """Number of events with an earlier time than a preceding event; they are processed in order of arrival."""
        return int(self._open.number[BACKWARDS])

    @property
    def n_fresh(self) -> int:
        """Number of transitions since the alarm, 0 without one."""
        return 0 if self.alarm is None else self.n_scored - self.alarm.scored

    @property
    def provisional(self) -> bool:
        """Whether `distance` relies on events before the alarm, which selected them, or there is no alarm."""
        return self.alarm is None or self.n_fresh < self.settings.confirm

    # Events

    def update(self, states: Any, sequences: Any = None, *, times: ArrayLike | None = None) -> list[Alarm]:
        """Process events in order of arrival.

        Parameters
        ----------
        states : array_like of labels, shape (m,)
            The state after each event. Splitting events into several calls does not change the result.
        sequences : array_like of int, text or hashable, shape (m,), optional
            The sequence (user, machine) of each event; without it, all events form one sequence.
        times : array_like of numbers or dates, shape (m,), optional
            For time-outs.

        Returns
        -------
        list of Alarm
            The new alarm, if any. It stays in `alarm`, and no other is raised until `accept` is called.
        """
        n = len(states) if hasattr(states, "__len__") else -1
        if n < 0:
            states = list(states)
            n = len(states)
        keys = None if sequences is None else keys_of(sequences)
        if keys is not None and len(keys) != n:
            raise ValueError(f"sequences: found {len(keys)} names for {n} states; pass one for each")
        moments, dated = (_NO_TIMES, self._dated) if times is None else times_of(times, n)
        self._check_clock(dated, timed=times is not None, n=n)
        return self.take(self._labels.encode(states), keys, moments, dated=dated)

    def take(self, codes: Codes, keys: Keys | None, times: Floats, *, dated: bool | None = None) -> list[Alarm]:
        """`update` for states encoded by `codes`, names as 64-bit keys and times as numbers; inputs are not checked."""
        self._check_clock(dated, timed=len(times) > 0, n=len(codes))
        alarms: list[Alarm] = []
        for begin in range(0, len(codes), _PIECE):
            piece = slice(begin, begin + _PIECE)
            moments = times[piece]
            steps = self._steps(codes[piece], None if keys is None else keys[piece], moments)
            alarms += self._score(*steps, moments)
            self.n_events += len(codes[piece])
        return alarms

    def codes(self, labels: list[Hashable]) -> Codes:
        """Positions of labels in `states`; new labels are added."""
        return self._labels.codes(labels)

    def _check_clock(self, dated: bool | None, *, timed: bool, n: int) -> None:
        """Check that all times are of one kind, as time-outs need."""
        if n == 0:
            return
        if timed and self._dated is None:
            if self.n_events and self.settings.timeout < math.inf:
                raise ValueError("times: earlier calls had none; pass times in every call or in none")
            self._dated = dated
        if self.settings.timeout == math.inf:
            return
        if timed != (self._dated is not None) or (timed and dated != self._dated):
            raise ValueError("times: not of the same kind as in earlier calls; always pass dates, numbers or none")
        if timed and bool(dated) != self.settings.timeout_dated:
            kinds = ("numbers", "a number in their unit"), ("dates", "a time span, such as '1h'")
            what, how = kinds[bool(dated)]
            raise ValueError(f"timeout: times are {what}, so pass timeout as {how}")
        if not timed and self.settings.timeout_dated:
            raise ValueError("timeout: it is a time span, so pass times, as dates")

    def _steps(self, codes: Codes, keys: Keys | None, times: Floats) -> tuple[Codes, Codes, Ints]:
        """Transitions that result from a piece of events, with the numbers of the events."""
        terminal = self.reference.terminal
        ends = self.settings.timeout < math.inf or bool(terminal.any())
        if keys is None and not ends and not self.settings.starts:  # a single sequence that never ends
            now = np.empty_like(codes)
            now[1:], now[0] = codes[:-1], self._last
            skip = 1 if self._last < 0 else 0
            self._last = int(codes[-1])
            origin = np.arange(self.n_events + 1 + skip, self.n_events + 1 + len(codes))
            return now[skip:], codes[skip:], origin
        starts = keys is not None if self.settings.starts is None else self.settings.starts
        if keys is None:
            keys = np.zeros(len(codes), dtype=np.uint64)
        known = self._open = with_room(self._open, min(self.n_open + len(codes), self.settings.max_open))
        room = 2 * len(codes) + (self.n_open + len(codes) if self._end >= 0 else 0)
        now, following, origin = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int64)
        rules = Rules(self._end, self.settings.timeout, self.settings.max_open, starts)
        made = link(known, rules, terminal, codes, keys, times, self.n_events + 1, now, following, origin)
        return now[:made], following[:made], origin[:made]

    def _score(self, now: Codes, following: Codes, origin: Ints, times: Floats) -> list[Alarm]:
        begin, alarms = 0, []
        while begin < len(now):
            stop = len(now)
            if self._check_at >= 0:
                stop = min(stop, begin + max(self._check_at - self.n_scored, 1))
            armed = self.alarm is None and self._check_at < 0
            at = detector.watch(self._bets, self._setting, detector.GROWTH, armed, now, following, origin, begin, stop)
            status = int(self._bets.number[detector.STATUS])
            done = at if status in (detector.FULL, detector.DONE) else at + 1
            self._window.push(now[begin:done], following[begin:done])
            begin = done
            if status == detector.FULL:
                self._bets = detector.grown(self._bets, self.reference.n)
                continue
            if status == detector.DONE and self.n_scored != self._check_at:
                continue
            if status != detector.DONE:
                self._reason = "impossible transition" if status == detector.IMPOSSIBLE else "evidence"
            event = int(origin[done - 1])
            self._moment = float(times[event - self.n_events - 1]) if len(times) else None
            alarms += self._crossed(event)
        return alarms

    def _crossed(self, event: int) -> list[Alarm]:
        """Raise the alarm after the threshold was reached, unless the change is too small so far."""
        number, since = (int(k) for k in self._bets.since[int(self._bets.largest.argmax())])
        now, following = self._window.after(number - 1)
        if self.settings.min_distance > 0.0:
            size = self._sized(now, following, None)
            estimate = -math.inf if size is None else size.distance
            if estimate < self.settings.min_distance:
                self._checks += 1
                pause = min(self.settings.confirm << min(self._checks - 1, 30), self.settings.window)
                self._check_at = self.n_scored + pause
                self.notice = (
                    f"changed since about event {since:,}, but by less than {self.settings.min_distance:g} "
                    f"(estimated {max(estimate, 0.0):.3g})"
                )
                return []
        self.alarm = Alarm(
            f"{self.fingerprint[:12]}-{event}", event, since, float(self._bets.R.mean()), self._setting.threshold,
            self._reason, moved(self.reference, now, following, self._labels.states), self._moment, self.n_scored,
            number,
        )  # fmt: skip
        self.alarms += (self.alarm,)
        self._warn_of_ends()
        self._check_at, self.notice = -1, None
        return [self.alarm]

    def _warn_of_ends(self) -> None:
        """Warn if the stream never enters the final states of the reference: its ends may not be events."""
        terminal = self.reference.terminal
        following = self._window.after(0)[1]
        if not terminal.any() or terminal[following[following < len(terminal)]].any():
            return
        where = listing(self._labels.states[k] for k in np.flatnonzero(terminal))
        warn(Note("ends-not-in-stream", states=where), DataWarning)

    # Distance

    def distance(self, confidence: float | None = 0.9) -> Result:
        """The current distance of the stream from the reference, in the units of the cost.

        Both start from the states that the stream visited, and rows that it did not visit are taken from the reference.
        The events before an alarm were selected by it; as soon as there are enough new ones (2,000, or the window),
        only those are used. Before that, and without an alarm, the result is provisional and its first note says so.

        Parameters
        ----------
        confidence : float, optional
            Level of the interval; None for no interval.
        """
        check_confidence(confidence)
        now, following, note = self._present()
        result = self._sized(now, following, confidence)
        if result is None:
            only = ", only first states of sequences" if len(now) else ""
            raise ValueError(f"distance: no transitions yet{only}; feed events with update() first")
        return result if note is None else replace(result, notes=(note, *result.notes))

    def _present(self) -> tuple[Codes, Codes, Note | None]:
        """The transitions that describe the current process, and a note about them."""
        if self.alarm is None:
            now, following = self._window.after(0)
            return now, following, Note("provisional", n=len(now))
        if not self.provisional:
            return *self._window.after(self.alarm.scored), None
        now, following = self._window.after(self.alarm.began - 1)
        return now, following, Note("provisional-fresh", share=Share(self.n_fresh, self.settings.confirm))

    def _sized(self, now: Codes, following: Codes, confidence: float | None) -> Result | None:
        kept = now >= 0
        if not kept.any():
            return None
        x, y, cost = self.reference.sides(now[kept], following[kept], self._labels.states)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the notes say the same, and rows not visited are expected here
            return distance(x, y, cost, discount=self.settings.discount, confidence=confidence, rng=0)

    def accept(self) -> None:
        """Make the current process the reference, and monitor changes from it; open sequences and new labels are kept.

        The current process is what followed the alarm (or the change, as long as that is fewer than 2,000 transitions;
        without an alarm, the window). It is treated as recorded, not known; rows not visited keep the old reference.
        """
        now, following, _ = self._present()
        if not (now >= 0).any():
            raise ValueError("accept: no transitions yet to accept; feed events with update() first")
        if len(now) < 500:
            warn(Note("small-reference", "accept", n=len(now)), DataWarning)
        kept = self.n_events, self.alarms, self._open, self._last, self._dated, self.position, self.fingerprint
        self._set_up(self.reference.accepted(now, following, self._labels.states), self.settings)
        self.n_events, self.alarms, self._open, self._last, self._dated, self.position, self.fingerprint = kept

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the complete state to a file atomically; `load` continues bit for bit. The file holds no code."""
        from somcot.live.saving import save

        save(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Monitor:
        """Read a file written by `save`."""
        from somcot.live.saving import load

        return load(path)

    @staticmethod
    def check(reference: object, *, false_alarm: float = 0.05, warn: bool = True) -> Any:
        """Check a recording against itself: would its second half raise an alarm against its first?

        If so, it is not stationary, or its next state depends on more than the last one, and a monitor with this
        reference will raise alarms that are correct but expected. A `DataWarning` says so.

        Parameters
        ----------
        reference : Samples
            Episodes in order of time.
        false_alarm : float
            Maximum probability of an alarm if the recording is stationary and Markov.
        warn : bool
            Whether to warn.

        Returns
        -------
        Check
            With ``stationary``, ``alarm`` and ``n_transitions``.
        """
        from somcot.live.check import check

        return check(reference, false_alarm=false_alarm, say=warn)

    def __repr__(self) -> str:
        kind = "known" if self.reference.known else "recorded"
        what = str(self.alarm) if self.alarm is not None else f"evidence {self.evidence:.2g}"
        return f"Monitor({self.reference.n} states, {kind} reference, {self.n_events:,} events, {what})"


def _as_number(timeout: object) -> tuple[Any, bool]:
    """The time-out as a number, and whether it is a time span, in microseconds."""
    if timeout is not None and not isinstance(timeout, (int, float)):
        timeout = check_duration("timeout", timeout)
    if isinstance(timeout, timedelta):
        return timeout / timedelta(microseconds=1), True
    return math.inf if timeout is None else timeout, False
