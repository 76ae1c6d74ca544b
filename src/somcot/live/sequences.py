"""Open sequences of a stream, and a window of its most recent transitions.

Sequences are identified by 64-bit keys made from their names. They are kept in a list ordered by their last event, so
those that time out or are dropped are at its head: the outcome depends on the events alone, not on how they were split
into calls.

If sequences that time out enter an end state, a step is scored only after the time-out of the preceding event has
passed, even if it occurred earlier. If steps were scored as they arrive, ordinary steps would be early and ends late,
and a stream whose ends are all pending would look changed. In this mode the list holds the events with pending steps.
"""
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.compile.jit import kernel, part
from somcot.plumbing.arrays import Bools, Codes, Floats, Ints

__all__ = [
    "Open",
    "Rules",
    "Window",
    "empty",
    "keys_of",
    "link",
    "opened",
    "text_keys",
    "with_room",
]


# --- Open sequences: their last states, time-outs and evictions

Keys = NDArray[np.uint64]
HEAD, TAIL, OPEN, FREE, DROPPED, EXPIRED, BACKWARDS = range(7)  # indices of `Open.number`


class Rules(NamedTuple):
    """How sequences begin and end: the state after a time-out (-1: none), the time-out, and the maximum number open."""

    end: int
    timeout: float
    most: int
    starts: bool


class Open(NamedTuple):
    """The open sequences."""

    keys: Keys  # (capacity,)
    places: Codes  # (capacity,), slot, -1 if empty
    names: Keys  # (n_slots,)
    last: Codes  # (n_slots,), state
    step: Codes  # (n_slots,), next state, to be scored later; -1: none yet
    seen: Floats  # (n_slots,), time
    before: Codes  # (n_slots,), neighbours in the order of the last event
    after: Codes  # (n_slots,), for free slots: the next free one
    number: Ints  # (7,)
    clock: Floats  # (1,), the latest time so far


@part
def _hashed(key: int, mask: int) -> int:
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed >> np.uint64(20)) & np.uint64(mask))  # type: ignore[return-value]


@part
def _place(keys: Keys, places: Codes, key: int) -> int:
    """The slot of a key in the table, or the slot where it belongs."""
    mask = len(keys) - 1
    at = _hashed(key, mask)
    while places[at] >= 0 and keys[at] != key:
        at = (at + 1) & mask
    return at


@part
def _forget(keys: Keys, places: Codes, key: int) -> None:
    """Remove a key and move back the keys that it displaced."""
    mask = len(keys) - 1
    hole = _place(keys, places, key)
    at = (hole + 1) & mask
    while places[at] >= 0:
        home = _hashed(keys[at], mask)
        if ((at - home) & mask) >= ((at - hole) & mask):
            keys[hole], places[hole] = keys[at], places[at]
            hole = at
        at = (at + 1) & mask
    places[hole] = -1


@part
def _unlink(before: Codes, after: Codes, number: Ints, slot: int) -> None:
    left, right = before[slot], after[slot]
    if left >= 0:
        after[left] = right
    else:
        number[HEAD] = right
    if right >= 0:
        before[right] = left
    else:
        number[TAIL] = left


@part
def _append(before: Codes, after: Codes, number: Ints, slot: int) -> None:
    before[slot], after[slot] = number[TAIL], -1
    if number[TAIL] >= 0:
        after[number[TAIL]] = slot
    else:
        number[HEAD] = slot
    number[TAIL] = slot


@kernel
def link(
    known: Open, rules: Rules, terminal: Bools, codes: Codes, keys: Keys, times: Floats, first: int,
    now: Codes, following: Codes, origin: Ints,
) -> int:  # fmt: skip
    """Turn events of interleaved sequences into transitions; return their number.

    Parameters
    ----------
    known : Open
        Modified in place; must have room for all new sequences.
    rules : Rules
    terminal : ndarray of bool, shape (n + 1,)
        States that end a sequence; the last entry is for labels unknown to the reference.
    codes, keys, times : ndarray, shape (m,)
        State, sequence and time of each event; without times, events are counted instead.
    first : int
        Number of the first event.
    now, following, origin : ndarray
        Output: the transitions (-1 precedes a first state) and the numbers of their events.
    """
    before, after, number = known.before, known.after, known.number
    n, made, timed, late = len(terminal) - 1, 0, len(times) > 0, rules.end >= 0
    for t in range(len(codes)):
        moment = times[t] if timed else float(first + t)
        if moment < known.clock[0]:
            number[BACKWARDS] += 1
        known.clock[0] = max(known.clock[0], moment)
        while number[HEAD] >= 0 and known.clock[0] - known.seen[number[HEAD]] > rules.timeout:
            slot = number[HEAD]
            over = known.step[slot] < 0
            if late:
                now[made], origin[made] = known.last[slot], first + t
                following[made] = rules.end if over else known.step[slot]
                made += 1
            if over:
                number[EXPIRED] += 1
                _forget(known.keys, known.places, known.names[slot])
            _release(before, after, number, slot)
        at = _place(known.keys, known.places, keys[t])
        slot = known.places[at]
        fresh = slot < 0
        if not fresh:
            if late:
                known.step[slot] = codes[t]
            else:
                now[made], following[made], origin[made] = known.last[slot], codes[t], first + t
                made += 1
                _unlink(before, after, number, slot)
        elif rules.starts:
            now[made], following[made], origin[made] = -1, codes[t], first + t
            made += 1
        if terminal[min(codes[t], n)]:  # this sequence has ended
            if not fresh:
                _forget(known.keys, known.places, keys[t])
                if not late:
                    _append(before, after, number, slot)
                    _release(before, after, number, slot)
            continue
        if fresh or late:
            if number[OPEN] == rules.most:
                oldest = number[HEAD]
                if known.step[oldest] >= 0:
                    now[made], following[made], origin[made] = known.last[oldest], known.step[oldest], first + t
                    made += 1
                else:
                    number[DROPPED] += 1
                    _forget(known.keys, known.places, known.names[oldest])
                _release(before, after, number, oldest)
                at = _place(known.keys, known.places, keys[t])
            slot = number[FREE]
            number[FREE] = after[slot]
            number[OPEN] += 1
            known.keys[at], known.places[at], known.names[slot], known.step[slot] = keys[t], slot, keys[t], -1
        known.last[slot], known.seen[slot] = codes[t], known.clock[0]
        _append(before, after, number, slot)
    return made


@part
def _release(before: Codes, after: Codes, number: Ints, slot: int) -> None:
    _unlink(before, after, number, slot)
    after[slot], number[FREE] = number[FREE], slot
    number[OPEN] -= 1


def opened(n_slots: int = 64) -> Open:
    """A table without sequences, with room for some."""
    capacity = 1 << int(3 * n_slots).bit_length()
    number = np.array([-1, -1, 0, 0, 0, 0, 0], dtype=np.int64)
    return Open(
        keys=np.zeros(capacity, dtype=np.uint64),
        places=np.full(capacity, -1, dtype=np.int32),
        names=np.zeros(n_slots, dtype=np.uint64),
        last=np.zeros(n_slots, dtype=np.int32),
        step=np.full(n_slots, -1, dtype=np.int32),
        seen=np.zeros(n_slots),
        before=np.full(n_slots, -1, dtype=np.int32),
        after=np.append(np.arange(1, n_slots, dtype=np.int32), np.int32(-1)),
        number=number,
        clock=np.full(1, -np.inf),
    )


def with_room(known: Open, n_slots: int) -> Open:
    """The same table with room for at least this many sequences."""
    had = len(known.last)
    if n_slots <= had:
        return known
    larger = opened(1 << int(n_slots - 1).bit_length())
    for name in ("names", "last", "step", "seen", "before", "after"):
        getattr(larger, name)[:had] = getattr(known, name)
    larger.after[-1] = known.number[FREE]  # the new slots come first, then those that were free before
    larger.number[:], larger.clock[:] = known.number, known.clock
    larger.number[FREE] = had
    taken = known.places >= 0
    _place_all(larger.keys, larger.places, known.keys[taken], known.places[taken])
    return larger


@kernel
def _place_all(keys: Keys, places: Codes, new: Keys, slots: Codes) -> None:
    for k in range(len(new)):
        at = _place(keys, places, new[k])
        keys[at], places[at] = new[k], slots[k]


def keys_of(sequences: Any) -> Keys:
    """A 64-bit key for each name of a sequence: integers as they are, texts and other names hashed.

    Examples
    --------
    >>> a, b, c = keys_of(["ann", "bob", "ann"])
    >>> bool(a == c), bool(a == b)
    (True, False)
    """
    if not hasattr(sequences, "__len__"):
        sequences = list(sequences)
    if isinstance(sequences, (str, bytes)):
        raise TypeError(f"sequences: found the text {sequences!r}, expected one name per event")
    if isinstance(sequences, np.ndarray) and sequences.dtype.kind in "iu":
        return np.ascontiguousarray(sequences).astype(np.uint64)
    names = sequences.tolist() if isinstance(sequences, np.ndarray) else list(sequences)
    kinds = set(map(type, names))
    if kinds and all(issubclass(kind, (int, np.integer)) and kind is not bool for kind in kinds):
        return np.array([int(name) & (2**64 - 1) for name in names], dtype=np.uint64)
    if kinds == {str}:
        import pyarrow

        return text_keys(pyarrow.array(names, pyarrow.large_string()))
    for i, name in enumerate(names):
        if name is None or name != name:
            raise ValueError(f"sequences: entry {i} is {name!r}; name the sequence of every event")
    digests = [hashlib.blake2b(repr(name).encode(), digest_size=8).digest() for name in names]
    return np.frombuffer(b"".join(digests), dtype=np.uint64).copy()


def text_keys(texts: Any) -> Keys:
    """The same as `keys_of` for an Arrow array of texts without missing values."""
    _, offsets, data = texts.buffers()
    size = np.int64 if str(texts.type) == "large_string" else np.int32
    ends = np.frombuffer(offsets, dtype=size)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    content = np.frombuffer(data if data is not None and len(data) else b"-", dtype=np.uint8)
    keys = np.empty(len(texts), dtype=np.uint64)
    _hash_texts(ends, content, keys)
    return keys


@kernel
def _hash_texts(ends: Ints, content: NDArray[np.uint8], keys: Keys) -> None:
    """FNV-1a with a final mixing step, so that all bits depend on all characters."""
    for k in range(len(keys)):
        key = np.uint64(0xCBF29CE484222325)
        for at in range(ends[k], ends[k + 1]):
            key = (key ^ np.uint64(content[at])) * np.uint64(0x100000001B3)
        key = (key ^ (key >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
        keys[k] = key ^ (key >> np.uint64(33))


# --- A window of the most recent transitions


class Window(NamedTuple):
    """A ring buffer: transition number k, starting at 1, is at position (k - 1) modulo the size."""

    now: Codes
    following: Codes
    number: Ints  # (1,), transitions so far

    def push(self, now: Codes, following: Codes) -> None:
        """Add transitions."""
        size, n = len(self.now), len(now)
        keep = min(n, size)
        first = int(self.number[0]) + n - keep
        places = np.arange(first, first + keep) % size
        self.now[places], self.following[places] = now[n - keep :], following[n - keep :]
        self.number[0] += n

    def after(self, number: int) -> tuple[Codes, Codes]:
        """Transitions after this number that are still in the window."""
        last = int(self.number[0])
        places = np.arange(max(number, last - len(self.now), 0), last) % len(self.now)
        return self.now[places], self.following[places]


def empty(size: int) -> Window:
    """A window without transitions.

    Examples
    --------
    >>> window = empty(3)
    >>> window.push(np.array([0, 1, 2, 3], np.int32), np.array([1, 2, 3, 4], np.int32))
    >>> window.after(2)
    (array([2, 3], dtype=int32), array([3, 4], dtype=int32))
    """
    return Window(np.zeros(size, np.int32), np.zeros(size, np.int32), np.zeros(1, np.int64))
