"""Saving a monitor as arrays and a JSON record, and loading it bit for bit."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from somcot.live.alarm import Alarm, MonitorSettings
from somcot.live.detector import ENTRIES, Bets
from somcot.live.monitor import Monitor
from somcot.live.reference import Labels, Reference, from_plain, to_plain
from somcot.live.sequences import Open, Window
from somcot.plumbing import records as container
from somcot.plumbing.arrays import Array
from somcot.plumbing.checks import check_count, check_number
from somcot.plumbing.records import CheckpointError

__all__ = ["load", "save"]

_FORMAT = "somcot.monitor/1"
_PARTS: dict[str, type] = {"bets": Bets, "open": Open, "window": Window}
_MOST = 2**62
_RANGES: dict[str, tuple[int, int | None]] = {  # None: below the number of states
    "_last": (-1, None), "_check_at": (-1, _MOST), "_checks": (0, _MOST), "n_events": (0, _MOST),
}  # fmt: skip
_PLAIN = ("_last", "_dated", "_check_at", "_checks", "_reason", "n_events", "notice", "position", "fingerprint")


def save(monitor: Monitor, path: str | os.PathLike[str]) -> None:
    """Write a monitor to a file, replacing an existing file atomically."""
    held, about = monitor.reference.parts()
    arrays: dict[str, Array] = {f"reference.{name}": array for name, array in held.items()}
    for part, kind in _PARTS.items():
        record = getattr(monitor, f"_{part}")
        arrays |= {f"{part}.{name}": getattr(record, name) for name in kind._fields}  # type: ignore[attr-defined]
    content = {name.removeprefix("_"): getattr(monitor, name) for name in _PLAIN} | {
        "format": _FORMAT,
        "settings": monitor.settings.to_plain(),
        "reference": about,
        "states": [to_plain(label) for label in monitor.reference.states],
        "new": [to_plain(label) for label in monitor.new_labels],
        "alarms": [alarm.to_plain() for alarm in monitor.alarms],
        "latched": monitor.alarm is not None,
    }
    container.write_arrays(path, arrays, content)


def load(path: str | os.PathLike[str]) -> Monitor:
    """Read a monitor; any other file is refused with a `CheckpointError`."""
    arrays, record = container.read_arrays(path)
    if record.get("format") != _FORMAT:
        raise CheckpointError(f"{os.fspath(path)}: not a monitor file; name another file")
    try:
        return _put_together(arrays, record)
    except MemoryError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(f"{os.fspath(path)}: is damaged ({error}); restore an older copy") from None


def _put_together(arrays: dict[str, Array], record: dict[str, Any]) -> Monitor:
    states = tuple(from_plain(label) for label in record["states"])
    held = {name.removeprefix("reference."): a for name, a in arrays.items() if name.startswith("reference.")}
    monitor = Monitor.__new__(Monitor)
    monitor._set_up(
        Reference.from_parts(held, record["reference"], states), MonitorSettings.from_plain(record["settings"])
    )
    monitor._labels = Labels(states, [from_plain(label) for label in record["new"]])
    for part, kind in _PARTS.items():
        part_of_state = kind(**{name: arrays[f"{part}.{name}"] for name in kind._fields})  # type: ignore[attr-defined]
        _compare(part, getattr(monitor, f"_{part}"), part_of_state)
        setattr(monitor, f"_{part}", part_of_state)
    _check(monitor)
    for name in _PLAIN:
        setattr(monitor, name, _plain(name, record[name.removeprefix("_")], len(monitor._labels.states)))
    monitor.alarms = tuple(_alarm(alarm) for alarm in record["alarms"])
    monitor.alarm = monitor.alarms[-1] if record["latched"] else None
    return monitor


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
    for name in ("event", "since", "scored", "began"):
        check_count(name, getattr(alarm, name), at_least=0, at_most=_MOST)
    numbers = (alarm.evidence, alarm.threshold, *(() if alarm.time is None else (alarm.time,)))
    for value in (*numbers, *(number for row in alarm.transitions for number in row[2:])):
        check_number("alarms", value)
    texts: tuple[object, ...] = (alarm.id, alarm.reason)
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
    used = bets.number[ENTRIES : ENTRIES + 1]
    ranges: list[tuple[Array, int, int]] = [
        (bets.places, 0, room), (bets.heads, -1, room), (bets.nexts, -1, room), (bets.columns, 0, n + 1),
        (known.places, -1, slots), (known.before, -1, slots), (known.after, -1, slots),
        (known.number[:4], -1, slots + 1), (known.last, 0, max(m, 1)), (known.step, -1, max(m, 1)), (used, 0, room + 1),
        (monitor._window.now, -1, max(m, 1)), (monitor._window.following, 0, max(m, 1)),
    ]  # fmt: skip
    inside = all(len(a) == 0 or (a.min() >= low and a.max() < high) for a, low, high in ranges)
    empty = np.count_nonzero(bets.keys < 0) > 0 and np.count_nonzero(known.places < 0) > 0
    if not (powers and same and lengths and inside and empty):
        raise ValueError("its tables are inconsistent")
