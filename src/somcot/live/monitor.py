"""`Monitor`: raises an alarm when events no longer come from the reference, and estimates the distance."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Hashable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from somcot import costs
from somcot.live import detector
from somcot.live.alarm import Alarm, Change, Check, MonitorSettings, Promise, as_number, changed, check_times, moved
from somcot.live.conformal import FEWEST, Plan, Recorded, SequenceDetector, held_labels, teachers
from somcot.live.detector import BACKWARDS, DROPPED, EXPIRED, OPEN, Rules, opened, steps_of
from somcot.live.reference import Labels, Reference, empty, times_of
from somcot.live.sequences import N_BACKWARDS, N_COUNTED, N_DROPPED, N_EXPIRED, N_OPEN, Keys, Units, keys_of
from somcot.plumbing.arrays import Codes, Floats, Ints
from somcot.plumbing.checks import check_confidence
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note, Share
from somcot.problem import ChainOrData
from somcot.result import Result

__all__ = ["Monitor"]

_PIECE = 1 << 18  # events per compiled call; no result depends on it
_KEPT = ("n_events", "alarms", "_open", "_last", "_dated", "position", "fingerprint")  # by `accept`


class Monitor:
    """Monitor a process online: has it changed since the reference, with how much evidence, and by how much?

    Parameters
    ----------
    reference : MarkovChain, Samples or Counts
        Known or recorded. The estimation error of a recorded reference is taken into account. Read a recording with
        ``keep_times=True``, as `somcot watch` does, if events have times: sequences are then cut at an age.
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
    unit : {"events", "sequences"}
        What `one_false_alarm_per` and `within` count. Where whole sequences are scored, events are converted by the
        mean length of the reference's sequences; `guarantee` says how.
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
    >>> import somcot, tempfile
    >>> walk, drift = somcot.random_walk(5, 0.5), somcot.random_walk(5, 0.7)
    >>> monitor = Monitor(walk.sample(1, 20_000, rng=0), discount=0.9, one_false_alarm_per=100_000)
    >>> monitor.update(walk.sample(1, 5000, rng=1).now)
    []
    >>> monitor.update(drift.sample(1, 5000, rng=2).now)[0].event
    5932
    >>> monitor.alarm.reason, monitor.evidence, round(monitor.distance().distance, 2)
    ('evidence', 1.0, 0.16)
    >>> path = os.path.join(tempfile.mkdtemp(), "walk.monitor")
    >>> monitor.save(path)
    >>> monitor.accept()
    >>> monitor.alarm is None, Monitor.load(path).alarm is None
    (True, False)
    >>> monitor.take(monitor.codes([0, 1, 2]), None, np.zeros(0))
    []
    >>> Monitor.check(walk.sample(100, 50, rng=3)).stationary
    True
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
        unit: str = "events",
        min_distance: float = 0.0,
        window: int = 20_000,
        starts: bool | None = None,
        end: Hashable = None,
        timeout: float | timedelta | str | None = None,
        max_open: int = 1_000_000,
    ) -> None:
        promise = Promise(one_false_alarm_per, false_alarm, within, unit)
        after = as_number(timeout)
        settings = MonitorSettings(discount, promise, min_distance, window, starts, end, *after, max_open).checked()
        self._set_up(Reference(reference, cost), settings)
        identity = [self.reference.digest(), settings.to_plain()]
        self.fingerprint = hashlib.sha256(json.dumps(identity).encode()).hexdigest()

    def _set_up(self, reference: Reference, settings: MonitorSettings) -> None:
        """Start with a reference: nothing observed, no open sequences."""
        self.reference, self.settings = reference, settings
        self._labels = Labels(reference.states)
        end: Any = settings.end  # whatever a user passed
        if end is not None and (not isinstance(end, Hashable) or end not in self._labels.states):
            raise ValueError(f"end: {settings.end!r} is not a state of the reference; use the same end for both")
        if settings.end is not None and settings.timeout == math.inf:
            raise ValueError(f"end: {settings.end!r} is reached by time-out; pass timeout as well")
        self._end = -1 if settings.end is None else self._labels.states.index(settings.end)
        self._plan: Plan | None = None  # follows from the first events
        self._whole: SequenceDetector | None = None
        self._use_steps(settings.promise.threshold)
        self._window = empty(settings.window)
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

    def _use_steps(self, threshold: float, unheard: float = detector.UNHEARD) -> None:
        """Start the detector of single steps."""
        reference, promise = self.reference, self.settings.promise
        self._bets = reference.bets()
        prior = reference.prior_mass / reference.n
        self._setting = detector.Setting(threshold, prior, reference.n, promise.forever, unheard)

    def _choose(self, *, named: bool, clock: str) -> None:
        """Choose what is scored, when the first events show whether sequences have names and times."""
        plan, whole, threshold = self.reference.choose(self.settings, self._end, named=named, clock=clock)
        self._plan, self._whole = plan, whole
        self._use_steps(threshold)
        recorded = self.reference.recorded
        n = 0 if recorded is None or plan.kind == "endless" else recorded.n if whole is None else int(whole.held[-1, 0])
        if recorded is not None and named and 0 < n < 50 and len(recorded.codes) < 64 * recorded.n:
            warn(Note("few-reference-sequences", "reference", n=n), DataWarning)

    # Current state

    @property
    def detector(self) -> str:
        """What is scored: "sequences", "steps" or "endless"; "" before the first event."""
        return "" if self._plan is None else self._plan.kind

    @property
    def guarantee(self) -> str:
        """The guarantee on false alarms, exact or approximate, and why; complete after the first event."""
        promise = self.settings.promise
        return str(promise) if self._plan is None else promise.in_full(self._plan)

    @property
    def evidence(self) -> float:
        """Evidence as a fraction of the threshold, between 0 and 1; 1 after an alarm."""
        if self.alarm is not None:
            return 1.0
        found = 0.0 if self._whole is None else self._whole.level / self._whole.rule.threshold
        if self.detector != "sequences":
            found = max(found, float(self._bets.R.mean()) / self._setting.threshold)
        return min(found, 1.0)

    @property
    def n_sequences(self) -> int:
        """Number of whole sequences scored so far; 0 where steps are scored."""
        return 0 if self._whole is None else int(self._whole.waiting.counts[N_COUNTED])

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
        return int(self._window.number[0])

    def _tally(self, of_steps: int, of_sequences: int) -> int:
        if self.detector == "sequences" and self._whole is not None:
            return int(self._whole.waiting.counts[of_sequences])
        return int(self._open.number[of_steps])

    @property
    def n_open(self) -> int:
        """Number of open sequences; with `end`, of events whose next step is pending."""
        return self._tally(OPEN, N_OPEN)

    @property
    def n_dropped(self) -> int:
        """Number of sequences dropped because too many were open."""
        return self._tally(DROPPED, N_DROPPED)

    @property
    def n_expired(self) -> int:
        """Number of sequences that timed out."""
        return self._tally(EXPIRED, N_EXPIRED)

    @property
    def n_backwards(self) -> int:
        """Number of events with an earlier time than a preceding event; they are processed in order of arrival."""
        return self._tally(BACKWARDS, N_BACKWARDS)

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
            For time-outs and, if the reference has times, for the age at which sequences are cut. Alarms differ from
            those of `somcot watch`, which always keeps the times, if either is left out.

        Returns
        -------
        list of Alarm
            The new alarm, if any. It stays in `alarm`, and no other is raised until `accept` is called.
        """
        states = states if hasattr(states, "__len__") else list(states)
        n = len(states)
        keys = None if sequences is None else keys_of(sequences)
        if keys is not None and len(keys) != n:
            raise ValueError(f"sequences: found {len(keys)} names for {n} states; pass one for each")
        moments, dated = (np.zeros(0), self._dated) if times is None else times_of(times, n)
        self._check_clock(dated, timed=times is not None, n=n)
        return self.take(self._labels.encode(states), keys, moments, dated=dated)

    def take(self, codes: Codes, keys: Keys | None, times: Floats, *, dated: bool | None = None) -> list[Alarm]:
        """`update` for states encoded by `codes`, names as 64-bit keys and times as numbers; inputs are not checked."""
        self._check_clock(dated, timed=len(times) > 0, n=len(codes))
        alarms: list[Alarm] = []
        if self._plan is None and len(codes):
            clock = "rows" if len(times) == 0 else "dates" if dated else "numbers"
            self._choose(named=keys is not None, clock=clock)
        for begin in range(0, len(codes), _PIECE):
            piece = slice(begin, begin + _PIECE)
            part, moments, names = codes[piece], times[piece], None if keys is None else keys[piece]
            units = None
            if self._whole is not None:
                owners = np.zeros(len(part), np.uint64) if names is None else names
                units = self._whole.take(part, owners, moments, self.n_events + 1, self.reference.terminal)
            if self.detector == "sequences":
                assert units is not None
                alarms += self.rank(units, moments)
                self._warn_of_open(len(part))
            else:
                alarms += self._score(*self._steps(part, names, moments), moments, units)
            self.n_events += len(part)
        return alarms

    def rank(self, units: Units, times: Floats) -> list[Alarm]:
        """`take` for whole sequences that have been collected; inputs are not checked."""
        assert self._whole is not None
        begin, alarms, n = 0, [], len(units.how)
        lengths = np.cumsum(np.diff(units.offsets) + (units.how != 0))
        while begin < n:
            stop = n
            if self._check_at >= 0:
                done = int(lengths[begin - 1]) if begin else 0
                stop = min(n, int(np.searchsorted(lengths, done + max(self._check_at - self.n_scored, 1))) + 1)
            armed = self.alarm is None and self._check_at < 0
            at = self._whole.rank(units, begin, stop, armed=armed)
            crossed, last = at < stop, min(at, stop - 1)
            self._window.push_units(units, begin, last + 1)
            begin = last + 1
            if crossed or (0 <= self._check_at <= self.n_scored):
                self._reason = "evidence"
                event = int(units.event[last])
                self._moment = float(times[event - self.n_events - 1]) if len(times) else None
                alarms += self._crossed(event, units.part(np.array([last])))
        return alarms

    def codes(self, labels: list[Hashable]) -> Codes:
        """Positions of labels in `states`; new labels are added."""
        return self._labels.codes(labels)

    def _check_clock(self, dated: bool | None, *, timed: bool, n: int) -> None:
        """Check that all times are of one kind, where anything is measured by them; the first ones decide."""
        if n == 0:
            return
        aged = self._plan is not None and self._plan.cut is not None and self._plan.cut.age < math.inf
        needed = self.settings.timeout < math.inf or aged
        if timed and self._dated is None and not (self.n_events and needed):
            self._dated = dated
        if needed:
            check_times(self.settings, self._dated, dated, timed=timed)

    def _steps(self, codes: Codes, keys: Keys | None, times: Floats) -> tuple[Codes, Codes, Ints]:
        """Transitions that result from a piece of events, with the numbers of the events."""
        starts = keys is not None if self.settings.starts is None else self.settings.starts
        rules = Rules(self._end, self.settings.timeout, self.settings.max_open, starts)
        now, following, origin, self._open, self._last = steps_of(
            self._open, self._last, rules, self.reference.terminal, codes, keys, times, self.n_events + 1
        )
        return now, following, origin

    def _score(
        self, now: Codes, following: Codes, origin: Ints, times: Floats, cycles: Units | None = None
    ) -> list[Alarm]:
        """Score steps, and the cycles of an endless sequence, whichever raises an alarm first."""
        begin, alarms, event_of_cycle, crossing, ranked = 0, [], math.inf, None, 0
        if self._whole is not None and cycles is not None:
            armed, n = self.alarm is None and self._check_at < 0, len(cycles.how)
            ranked = self._whole.rank(cycles, 0, n, armed=armed)
            if ranked < n:
                event_of_cycle, crossing = int(cycles.event[ranked]), cycles.part(np.array([ranked]))
        while begin < len(now):
            stop = len(now)
            if event_of_cycle < math.inf:
                stop = max(int(np.searchsorted(origin, event_of_cycle, side="right")), begin + 1)
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
            event, by_cycle = int(origin[done - 1]), None
            if status == detector.DONE:
                if event >= event_of_cycle and self.alarm is None and self._check_at < 0:
                    by_cycle = crossing
                if by_cycle is None and self.n_scored != self._check_at:
                    event_of_cycle = math.inf if event >= event_of_cycle else event_of_cycle
                    continue
            else:
                self._reason = "impossible transition" if status == detector.IMPOSSIBLE else "evidence"
            self._moment = float(times[event - self.n_events - 1]) if len(times) else None
            event_of_cycle = math.inf
            alarms += self._crossed(event, by_cycle)
        if self._whole is not None and cycles is not None:
            # The alarm shows the evidence at its own event, so later cycles come after it.
            self._whole.rank(cycles, min(ranked + 1, len(cycles.how)), len(cycles.how), armed=False)
        return alarms

    def _change(self, event: int, crossing: Units | None) -> Change:
        """What changed since when, by the step or the unit that reached the threshold."""
        if self._whole is not None and crossing is not None:
            mean = 1.0 if self._plan is None else self._plan.mean_length
            return changed(self._whole, self._window, crossing, event, self._labels.states, mean)
        number, since = (int(k) for k in self._bets.since[int(self._bets.largest.argmax())])
        limit = self.settings.promise.threshold  # half weight and the like are not shown
        return Change(number, since, 0, float(self._bets.R.mean()) * limit / self._setting.threshold, limit, "")

    def _crossed(self, event: int, crossing: Units | None = None) -> list[Alarm]:
        """Raise the alarm after a step or a unit reached the threshold, unless the change is too small so far."""
        number, since, since_sequence, level, threshold, what = self._change(event, crossing)
        sequence = 0 if crossing is None or self.detector == "endless" else int(crossing.number[0])
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
            f"{self.fingerprint[:12]}-{event}", event, since, level, threshold, self._reason,
            moved(self.reference, now, following, self._labels.states), self._moment, self.n_scored, number, what,
            sequence, since_sequence if sequence else 0,
        )  # fmt: skip
        self.alarms += (self.alarm,)
        self.reference.warn_of_ends(self._window.after(0)[1], self._labels.states)
        self._check_at, self.notice = -1, None
        return [self.alarm]

    def _warn_of_open(self, n: int) -> None:
        """Warn once if many events came and no sequence has ended: its ends may not be events."""
        assert self._plan is not None
        if self.n_sequences == 0 and self.n_events < round(100 * self._plan.mean_length) <= self.n_events + n:
            self.reference.warn_of_ends(self._window.following[:0], self._labels.states)

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
        return self.reference.distance_to(now, following, self._labels.states, self.settings.discount, confidence)

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
        whole, plan, kept = self._whole, self._plan, {name: getattr(self, name) for name in _KEPT}
        reference = self.reference.accepted(now, following, self._labels.states)
        if self.detector == "endless":
            n = len(now)
            reference.recorded = Recorded(
                np.append(now[:1], following), np.array([0, n + 1]), np.zeros(1, bool), None, ""
            )
        elif whole is not None:
            self._accept_sequences(whole, reference.n)
        self._set_up(reference, self.settings)
        if self.detector == "" and whole is not None and plan is not None and plan.kind == "sequences":
            self._whole, self._plan = whole, plan
        for name, value in kept.items():
            setattr(self, name, value)

    def _accept_sequences(self, whole: SequenceDetector, n: int) -> None:
        """Start the detector anew with the sequences of the present."""
        units, numbers = self._window.units()
        if self.alarm is not None:
            first = self.alarm.began if self.provisional else self.alarm.scored + 1
            units = units.part(np.flatnonzero(numbers >= first))
        names, place = np.unique(units.number, return_inverse=True)
        if len(names) < FEWEST:
            raise ValueError(f"accept: only {len(names)} sequences since, expected at least {FEWEST}; wait for more")
        chosen = teachers(len(names))[place]
        a, b = units.part(np.flatnonzero(chosen)), units.part(np.flatnonzero(~chosen))
        whole.restart(a, b, held_labels(units, n), self.n_sequences)

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
    def check(reference: object, *, false_alarm: float = 0.05, warn: bool = True) -> Check:
        """Check a recording against itself: do its later sequences raise an alarm against the earlier ones?

        If so, it is not stationary, and a monitor with this reference will raise alarms that are correct but expected.
        A `DataWarning` says so. Recordings of few sequences are split in two halves, whose steps are compared.

        Parameters
        ----------
        reference : Samples
            Episodes in order of time.
        false_alarm : float
            Maximum probability of an alarm if the order of the sequences is random (few long ones: if they are Markov).
        warn : bool
            Whether to warn.

        Returns
        -------
        Check
            With ``stationary``, ``alarm`` and ``n_transitions``.
        """
        from somcot.live.saving import check

        return check(reference, false_alarm=false_alarm, say=warn)

    def __repr__(self) -> str:
        kind = "known" if self.reference.known else "recorded"
        what = str(self.alarm) if self.alarm is not None else f"evidence {self.evidence:.2g}"
        return f"Monitor({self.reference.n} states, {kind} reference, {self.n_events:,} events, {what})"
