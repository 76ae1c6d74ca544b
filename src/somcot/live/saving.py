"""Saving a monitor as arrays and a JSON record, and loading it bit for bit; checking a recording against itself."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from somcot.live.alarm import Alarm, Check, MonitorSettings
from somcot.live.conformal import (
    FEWEST,
    INSIDE,
    LENGTH,
    STEPS_IN,
    Cycle,
    Plan,
    Ranks,
    Recorded,
    SequenceDetector,
    held_labels,
)
from somcot.live.detector import ENTRIES, Bets, Open
from somcot.live.monitor import Monitor
from somcot.live.reference import Labels, Reference, Window, empty, from_plain, to_plain
from somcot.live.scores import N_BETS, ROOM, Tables
from somcot.live.sequences import FREE_CHUNK, FREE_SLOT, STAGES, Cut, Waiting, joined
from somcot.plumbing import records as container
from somcot.plumbing.arrays import Array
from somcot.plumbing.checks import check_count, check_number
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note
from somcot.plumbing.records import CheckpointError
from somcot.samples import Samples

__all__ = ["alarm_record", "check", "load", "save"]

_FORMAT, _FORMER = "somcot.monitor/2", "somcot.monitor/1"
_STEPS: dict[str, Any] = {"bets": Bets, "open": Open}
_WHOLE: dict[str, Any] = {"tables": Tables, "ranks": Ranks, "waiting": Waiting, "cycle": Cycle}
_MOST = 2**62
_RANGES: dict[str, tuple[int, int | None]] = {  # None: below the number of states
    "_last": (-1, None), "_check_at": (-1, _MOST), "_checks": (0, _MOST), "n_events": (0, _MOST),
}  # fmt: skip
_PLAIN = ("_last", "_dated", "_check_at", "_checks", "_reason", "n_events", "notice", "position", "fingerprint")


def save(monitor: Monitor, path: str | os.PathLike[str]) -> None:
    """Write a monitor to a file, replacing an existing file atomically."""
    held, about = monitor.reference.parts()
    arrays: dict[str, Array] = {f"reference.{name}": array for name, array in held.items()}
    plan, whole, recorded = monitor._plan, monitor._whole, monitor.reference.recorded
    parts: list[tuple[str, Any]] = [("window", monitor._window)]
    if monitor.detector != "sequences":
        parts += [(name, getattr(monitor, f"_{name}")) for name in _STEPS]
    if whole is not None:
        parts += [(name, getattr(whole, name)) for name in _WHOLE]
        arrays["held"] = whole.held
    for part, record in parts:
        arrays |= {f"{part}.{name}": getattr(record, name) for name in record._fields}
    if plan is None and recorded is not None:  # the sequences are needed as soon as the first events come
        arrays |= {f"recorded.{name}": a for name, a in recorded._asdict().items() if isinstance(a, np.ndarray)}
    content = {name.removeprefix("_"): getattr(monitor, name) for name in _PLAIN} | {
        "format": _FORMAT,
        "settings": monitor.settings.to_plain(),
        "reference": about,
        "states": [to_plain(label) for label in monitor.reference.states],
        "new": [to_plain(label) for label in monitor.new_labels],
        "alarms": [alarm.to_plain() for alarm in monitor.alarms],
        "latched": monitor.alarm is not None,
        "plan": None if plan is None else plan._replace(cut=None)._asdict(),
        "cut": None if plan is None or plan.cut is None else list(plan.cut),
        # Needed with the sequences only, so that a monitor that was loaded saves the same bytes.
        "recorded": None if recorded is None or plan is not None else recorded.kind,
        "threshold": [monitor._setting.threshold, 0.0 if whole is None else whole.rule.threshold],
        "unheard": monitor._setting.unheard,
        "atom": -1 if whole is None else whole.atom,
    }
    container.write_arrays(path, arrays, content)


def load(path: str | os.PathLike[str]) -> Monitor:
    """Read a monitor; any other file is refused with a `CheckpointError`."""
    arrays, record = container.read_arrays(path)
    if record.get("format") not in (_FORMAT, _FORMER):
        raise CheckpointError(f"{os.fspath(path)}: not a monitor file; name another file")
    try:
        return _put_together(arrays, record)
    except MemoryError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(f"{os.fspath(path)}: is damaged ({error}); restore an older copy") from None


def _put_together(arrays: dict[str, Array], record: dict[str, Any]) -> Monitor:
    states = tuple(from_plain(label) for label in record["states"])
    if record["format"] == _FORMER:
        arrays, record = _from_former(arrays, record)
    held = {name.removeprefix("reference."): a for name, a in arrays.items() if name.startswith("reference.")}
    monitor = Monitor.__new__(Monitor)
    monitor._set_up(
        Reference.from_parts(held, record["reference"], states), MonitorSettings.from_plain(record["settings"])
    )
    monitor._labels = Labels(states, [from_plain(label) for label in record["new"]])
    if record["plan"] is not None:
        cut = None if record["cut"] is None else Cut(*record["cut"])
        monitor._plan = Plan(**{**record["plan"], "cut": cut})
    elif record["recorded"] is not None:
        monitor.reference.recorded = _recorded(arrays, record["recorded"], len(states))
    thresholds = [check_number("threshold", value) for value in record["threshold"]]
    monitor._use_steps(thresholds[0], check_number("unheard", record["unheard"]))
    parts: dict[str, Any] = {"window": Window} if monitor.detector == "sequences" else {"window": Window} | _STEPS
    for part, kind in parts.items():
        part_of_state = kind(**{name: arrays[f"{part}.{name}"] for name in kind._fields})
        _compare(part, getattr(monitor, f"_{part}"), part_of_state)
        setattr(monitor, f"_{part}", part_of_state)
    _check(monitor)
    if monitor._plan is not None and monitor._plan.kind != "steps":
        monitor._whole = _whole(monitor, arrays, thresholds[1], check_count("atom", record["atom"], at_least=-1))
    for name in _PLAIN:
        setattr(monitor, name, _plain(name, record[name.removeprefix("_")], len(monitor._labels.states)))
    monitor.alarms = tuple(_alarm(alarm) for alarm in record["alarms"])
    monitor.alarm = monitor.alarms[-1] if record["latched"] else None
    return monitor


def _from_former(arrays: dict[str, Array], record: dict[str, Any]) -> tuple[dict[str, Array], dict[str, Any]]:
    """A file of the former version: it scored steps, new labels included, and goes on so until `accept`."""
    promise = MonitorSettings.from_plain(record["settings"]).promise
    none = np.zeros(len(arrays["window.now"]), np.int64)
    known = record["reference"]["kind"] == "chain"
    why = "steps, as in the version that wrote the file; accept() changes to the present detector"
    plan = Plan("steps", None, known, f"{why}; holds if the next state depends on the last one alone")
    return arrays | {"window.unit": none, "window.began": none}, record | {
        "plan": plan._asdict(), "cut": None, "recorded": None, "threshold": [promise.threshold, 0.0],
        "unheard": 0.0, "atom": -1,
    }  # fmt: skip


def _recorded(arrays: dict[str, Array], kind: object, n: int) -> Recorded:
    """The sequences of a reference of which no event has been compared yet."""
    codes, offsets = arrays["recorded.codes"].astype(np.int32), arrays["recorded.offsets"].astype(np.int64)
    times = arrays.get("recorded.times")
    _within([(codes, 0, n)])
    if offsets[0] != 0 or offsets[-1] != len(codes) or (np.diff(offsets) < 1).any():
        raise ValueError("the sequences of the reference point outside its states")
    if times is not None and times.shape != codes.shape:
        raise ValueError("the sequences of the reference have times of another length")
    return Recorded(codes, offsets, arrays["recorded.ended"].astype(np.bool_), times, str(kind))


def _whole(monitor: Monitor, arrays: dict[str, Array], threshold: float, atom: int) -> SequenceDetector:
    """The detector of sequences or cycles, with its tables checked."""
    plan, n = monitor._plan, len(monitor._labels.states)
    assert plan is not None
    parts = {part: kind(**{name: arrays[f"{part}.{name}"] for name in kind._fields}) for part, kind in _WHOLE.items()}
    tables, ranks, waiting, cycle = parts.values()
    size, n_steps, total = len(tables.entropy), len(tables.target), len(tables.weights)
    per_stage = tables.per_stage
    shapes = [
        (tables.p, (size, size)), (tables.surprise, (size, size)), (tables.unseen, (size, size)),
        (tables.odd, (size, size)), (tables.slot, (size, size)), (tables.pointer, (size + 1,)),
        (tables.edges, (total, ROOM)), (tables.n_bins, (total,)), (tables.ranks, (total, ROOM)),
        (tables.bets, (total, ROOM, N_BETS)),
        (ranks.below, (total, ROOM)), (ranks.R, (total, N_BETS)), (ranks.last, (total,)),
        (waiting.first, (STAGES + 1,)), (waiting.final, (STAGES + 1,)), (waiting.counts, (12,)), (waiting.clock, (2,)),
    ]  # fmt: skip
    right = all(array.shape == shape for array, shape in shapes) and size >= 3 and total % per_stage == 0
    right &= tables.memory.shape in ((1, 1, 1), (size, size, size)) and 1 <= total // per_stage <= STAGES
    slots, chunks = len(waiting.names), len(waiting.chunks)
    right &= all(len(getattr(waiting, name)) == slots for name in Waiting._fields[3:17]) and slots > 0 < chunks
    capacity = len(waiting.keys)
    right &= capacity & (capacity - 1) == 0 < capacity == len(waiting.places) and bool((waiting.places < 0).any())
    held = arrays["held"]
    right &= held.ndim == 2 and held.shape[1] == 2 and len(held) > 1
    if not right:
        raise ValueError("the tables of its sequences are inconsistent")
    length = len(cycle.codes) if plan.cut is None else plan.cut.length
    _within([
        (tables.place, 0, size - 2), (tables.slot, 0, n_steps + 1), (tables.target, 0, size),
        (tables.pointer, 0, n_steps + 1), (tables.n_bins, 1, ROOM + 1), (waiting.places, -1, slots),
        (waiting.heads, -1, chunks), (waiting.tails, -1, chunks), (waiting.after, -1, slots),
        (waiting.first, -1, slots), (waiting.final, -1, slots), (waiting.chunks[:, -1], -1, chunks),
        (waiting.chunks[:, :-1], 0, max(n, 1)),
        (waiting.lengths, 0, length + 1), (waiting.stage, 0, STAGES + 1), (waiting.last, -1, max(n, 1)),
        (waiting.counts[FREE_SLOT : FREE_SLOT + 1], -1, slots),
        (waiting.counts[FREE_CHUNK : FREE_CHUNK + 1], -1, chunks),
        (cycle.codes, 0, max(n, 1)), (cycle.number[INSIDE : INSIDE + 1], 0, 2),
        # After a cycle that was cut at its greatest length, the number of its steps stays until the next one begins.
        (cycle.number[STEPS_IN : STEPS_IN + 1], 0, len(cycle.codes) + (cycle.number[INSIDE] == 0)),
        (np.diff(tables.pointer), 0, n_steps + 1),
    ])  # fmt: skip
    whole = SequenceDetector.__new__(SequenceDetector)
    whole.resume(tables, ranks, waiting, cycle, held, plan.cut, atom, threshold, monitor.settings.promise.forever)
    return whole


def _within(ranges: list[tuple[Array, int, int]]) -> None:
    """Refuse numbers outside their ranges, before compiled code uses them."""
    if not all(a.size == 0 or (a.min() >= low and a.max() < high) for a, low, high in ranges):
        raise ValueError("its tables are inconsistent")


def _plain(name: str, value: object, m: int) -> Any:
    """A number, text or flag of the expected kind."""
    if name in _RANGES:
        low, high = _RANGES[name]
        return check_count(name, value, at_least=low, at_most=m - 1 if high is None else high)
    kinds = {"_dated": (bool, type(None)), "notice": (str, type(None)), "_reason": (str,), "fingerprint": (str,)}
    if not isinstance(value, kinds.get(name, object)):
        raise TypeError(f"{name.removeprefix('_')} is {value!r}")
    return value


def _alarm(record: dict[str, object]) -> Alarm:
    alarm = Alarm.from_plain(record)
    for name in ("event", "since", "scored", "began", "sequence", "since_sequence"):
        check_count(name, getattr(alarm, name), at_least=0, at_most=_MOST)
    numbers = (alarm.evidence, alarm.threshold, *(() if alarm.time is None else (alarm.time,)))
    for value in (*numbers, *(number for row in alarm.transitions for number in row[2:])):
        check_number("alarms", value)
    texts: tuple[object, ...] = (alarm.id, alarm.reason, alarm.what)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("alarms: an id or a reason is not text")
    return alarm


def _compare(part: str, fresh: Any, saved: Any) -> None:
    """Check that types, dimensions and lengths match those of a new monitor with the same settings."""
    for name in fresh._fields:
        one, other = getattr(fresh, name), getattr(saved, name)
        if one.dtype != other.dtype or one.ndim != other.ndim:
            raise ValueError(f"{part}.{name} is an array of {other.dtype} with {other.ndim} dimensions")
        fixed = part == "window" or name in ("heads", "known", "totals", "weights", "sums", "R", "since", "number")
        if fixed and one.shape != other.shape:
            raise ValueError(f"{part}.{name} has shape {other.shape}")


def _check(monitor: Monitor) -> None:
    """Refuse a state that no monitor could have written, before compiled code uses it."""
    bets, known, n = monitor._bets, monitor._open, monitor.reference.n
    room, slots, m = len(bets.nexts), len(known.last), len(monitor._labels.states)
    powers = all(len(keys) & (len(keys) - 1) == 0 and len(keys) > 0 for keys in (bets.keys, known.keys))
    same = len(bets.places) == len(bets.keys) and len(known.places) == len(known.keys)
    lengths = all(len(a) == room for a in (bets.columns, bets.null, bets.seen)) and bets.seen.shape[1:] == (5,)
    lengths &= all(len(a) == slots for a in (known.names, known.step, known.seen, known.before, known.after))
    empty_slots = np.count_nonzero(bets.keys < 0) > 0 and np.count_nonzero(known.places < 0) > 0
    if not (powers and same and lengths and empty_slots):
        raise ValueError("its tables are inconsistent")
    _within([
        (bets.places, 0, room), (bets.heads, -1, room), (bets.nexts, -1, room), (bets.columns, 0, n + 1),
        (known.places, -1, slots), (known.before, -1, slots), (known.after, -1, slots),
        (known.number[:4], -1, slots + 1), (known.last, 0, max(m, 1)), (known.step, -1, max(m, 1)),
        (bets.number[ENTRIES : ENTRIES + 1], 0, room + 1),
        (monitor._window.now, -1, max(m, 1)), (monitor._window.following, -2, max(m, 1)),
    ])  # fmt: skip


# --- A recording checked against itself


def check(reference: object, *, false_alarm: float, say: bool) -> Check:
    """Monitor the later part of a recording against the earlier one; see `Monitor.check`."""
    if not isinstance(reference, Samples) or reference.offsets is None:
        raise TypeError(
            f"reference: found {type(reference).__name__}, expected Samples of episodes in order of time: only those "
            "can be split in two"
        )
    recorded = Recorded.of(reference)
    assert recorded is not None
    many = recorded.n >= 2 * FEWEST
    outcome = _of_sequences(reference, recorded, false_alarm) if many else _of_halves(reference, false_alarm)
    if say and outcome.alarm is not None:
        changed = outcome.alarm.what or "; ".join(str(m) for m in outcome.alarm.transitions[:3])
        warn(Note("reference-changes", "reference", since=outcome.alarm.since, moved=changed), DataWarning)
    return outcome


def _of_sequences(reference: Samples, recorded: Recorded, false_alarm: float) -> Check:
    """Part A of all sequences; of the rest, the first 20 % are part B and the others the stream."""
    age, timeout = math.inf, 1.0  # without a clock every sequence is complete: a time-out between two of them ends it
    if recorded.has_clock:
        age, timeout = recorded.age(np.arange(len(recorded.codes))), math.inf
    cut = Cut(LENGTH, age, timeout, -1, 1 << 30, STAGES, True, -1.0)
    monitor = Monitor(reference, discount=0.5, false_alarm=false_alarm)
    a, rest = recorded.units(cut, np.zeros(monitor.reference.n + 1, np.bool_))
    names, place = np.unique(rest.number, return_inverse=True)
    n_b = max(int(0.2 * len(names)), 1)
    b, stream = rest.part(np.flatnonzero(place < n_b)), rest.part(np.flatnonzero(place >= n_b))
    stream = stream._replace(number=place[place >= n_b] - n_b + 1)
    if min(len(a.how), len(b.how), len(stream.how)) == 0:
        return _of_halves(reference, false_alarm)
    monitor._plan = Plan("sequences", cut, True, "whole sequences, in the order of their starts")
    monitor._whole = SequenceDetector(
        a, b, held_labels(joined([a, b]), monitor.reference.n), cut=cut, atom=-1,
        threshold=(len(names) - n_b) / false_alarm, forever=False,
    )  # fmt: skip
    monitor._window = empty(int((np.diff(stream.offsets) + 1).sum()))
    monitor.rank(stream, np.zeros(0))
    return Check(monitor.alarm, len(stream.codes), monitor.evidence, monitor._plan.reason)


def _of_halves(reference: Samples, false_alarm: float) -> Check:
    """The second half of the steps against the first; an episode across the middle is split."""
    half, offsets = reference.n_transitions // 2, reference.offsets
    assert offsets is not None
    if half < 2:
        raise ValueError(f"reference: {reference.n_transitions} transitions are too few to be split in two")

    def part(begin: int, end: int) -> Samples:
        inside = offsets[(offsets > begin) & (offsets < end)]
        cut = np.concatenate([[begin], inside, [end]]) - begin
        return Samples(reference.states, reference.now[begin:end], reference.following[begin:end], offsets=cut)

    first, second = part(0, half), Recorded.of(part(half, reference.n_transitions))
    assert second is not None
    n = len(second.codes)
    monitor = Monitor(first, discount=0.5, false_alarm=false_alarm, within=n)
    names = np.repeat(np.arange(second.n, dtype=np.uint64), np.diff(second.offsets))
    monitor.take(second.codes, names if second.n > 1 else None, np.zeros(0))
    alarm = monitor.alarm
    if alarm is not None:
        alarm = alarm._replace(event=alarm.event + half, since=alarm.since + half)
    return Check(alarm, n - second.n, monitor.evidence, monitor.guarantee)


def alarm_record(alarm: Alarm) -> dict[str, Any]:
    """An alarm as JSON has it."""
    moved = [
        {
            "from": to_plain(m.source), "to": to_plain(m.target), "before": m.before, "now": m.now, "times": m.n_seen,
            "surprise": m.surprise,
        }
        for m in alarm.transitions
    ]  # fmt: skip
    return alarm._asdict() | {"transitions": moved}
