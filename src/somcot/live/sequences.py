"""Sequences of a stream: their names as keys, and whole sequences in the order of their starts.

Sequences are identified by 64-bit keys made from their names. A sequence is cut after a number of events and at an age,
and its parts are passed on in the order in which sequences began: the order in which they finish would put short ones
first, and a stream that has not changed would look changed. The outcome depends on the events alone, not on how they
were split into calls.
"""
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.compile.jit import kernel, part
from somcot.plumbing.arrays import Bools, Codes, Floats, Ints
from somcot.plumbing.checks import not_sparse

__all__ = [
    "CUT_OFF",
    "ENDED",
    "FULL",
    "STAGES",
    "Cut",
    "Keys",
    "Units",
    "Waiting",
    "find",
    "forget",
    "gather",
    "keys_of",
    "place_all",
    "text_keys",
]


# --- Names of sequences as keys, and a hash table of them

Keys = NDArray[np.uint64]


@part
def _hashed(key: int, mask: int) -> int:
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed >> np.uint64(20)) & np.uint64(mask))  # type: ignore[return-value]


@part
def find(keys: Keys, places: Codes, key: int) -> int:
    """The slot of a key in the table, or the slot where it belongs."""
    mask = len(keys) - 1
    at = _hashed(key, mask)
    while places[at] >= 0 and keys[at] != key:
        at = (at + 1) & mask
    return at


@part
def forget(keys: Keys, places: Codes, key: int) -> None:
    """Remove a key and move back the keys that it displaced."""
    mask = len(keys) - 1
    hole = find(keys, places, key)
    at = (hole + 1) & mask
    while places[at] >= 0:
        home = _hashed(keys[at], mask)
        if ((at - home) & mask) >= ((at - hole) & mask):
            keys[hole], places[hole] = keys[at], places[at]
            hole = at
        at = (at + 1) & mask
    places[hole] = -1


@kernel
def place_all(keys: Keys, places: Codes, new: Keys, slots: Codes) -> None:
    """Insert new keys into the table."""
    for k in range(len(new)):
        at = find(keys, places, new[k])
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
    names = sequences.tolist() if isinstance(sequences, np.ndarray) else list(not_sparse("sequences", sequences))
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


# --- Whole sequences in the order of their starts

FULL, ENDED, CUT_OFF = 0, 1, 2  # how a stage was closed: after the largest number of events, by an end, by its age
STAGES = 4
_CHUNK = 15  # codes per chunk, and the next chunk
_PATIENCE, _SILENCE = 100, 20  # without a clock, a sequence this many usual gaps silent is given up
FREE_SLOT, FREE_CHUNK, N_OPEN, N_ALIVE, N_DROPPED, N_EXPIRED, N_BACKWARDS, N_COUNTED = range(8)  # `Waiting.counts`
HALFWAY, NEEDS, N_UNITS, N_CODES = range(8, 12)
ROOM_FOR_SLOTS, ROOM_FOR_CHUNKS, ROOM_FOR_UNITS = 1, 2, 3  # values of NEEDS


class Cut(NamedTuple):
    """How sequences are cut into stages and closed; every rule looks at the sequence itself only.

    A stage is closed by `length` events, by `age` since its start, or by the end of the sequence: a final state, or
    a silence of `timeout`, after which it enters state `end` (-1: none). Unless `ordered`, stages are passed on when
    they are full, in that order, because ends cannot be seen.
    """

    length: int
    age: float
    timeout: float
    end: int
    most: int
    n_stages: int
    ordered: bool
    skip: float  # sequences that begin within this time of the first event were perhaps under way before


class Units(NamedTuple):
    """Sequences, or stages of them, in order; codes are labels of the monitor."""

    codes: Codes  # (n_codes,)
    offsets: Ints  # (n_units + 1,)
    before: Codes  # (n_units,), the label before, -1 at the start of the sequence
    how: Codes  # (n_units,), FULL, ENDED or CUT_OFF
    stage: Codes  # (n_units,)
    number: Ints  # (n_units,), of the sequence, starting at 1, in the order of starts
    began: Ints  # (n_units,), event with which the sequence began
    event: Ints  # (n_units,), event at which the unit was passed on

    def part(self, chosen: NDArray[Any]) -> Units:
        """Some units, by index."""
        lengths = np.diff(self.offsets)[chosen]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][chosen] - offsets[:-1], lengths)
        return Units(self.codes[places], offsets, *(a[chosen] for a in self[2:]))


class Waiting(NamedTuple):
    """Sequences that are open, or complete but later than one that is open; in one queue for each stage."""

    keys: Keys  # (capacity,), as in `Open`
    places: Codes  # (capacity,)
    names: Keys  # (n_slots,)
    began: Ints  # (n_slots,), first event
    touched: Ints  # (n_slots,), last event
    number: Ints  # (n_slots,), 0: not yet counted, -1: will not be
    start: Floats  # (n_slots,), start of the present stage
    seen: Floats  # (n_slots,), time of the last event
    last: Codes  # (n_slots,), label
    stage: Codes  # (n_slots,)
    closed: Codes  # (n_slots,)
    heads: Codes  # (n_slots, STAGES), first chunk
    tails: Codes  # (n_slots,), last chunk of the present stage
    lengths: Codes  # (n_slots, STAGES)
    before: Codes  # (n_slots, STAGES)
    how: Codes  # (n_slots, STAGES)
    after: Codes  # (n_slots,), next in the queue, or next free slot
    first: Codes  # (STAGES + 1,), heads of the queues; the last one is for sequences of which no more is scored
    final: Codes  # (STAGES + 1,), tails of the queues
    chunks: Codes  # (n_chunks, _CHUNK + 1)
    counts: Ints  # (12,)
    clock: Floats  # (2,), the latest and the first time


@part
def _push(w: Waiting, queue: int, slot: int) -> None:
    w.after[slot] = -1
    if w.final[queue] >= 0:
        w.after[w.final[queue]] = slot
    else:
        w.first[queue] = slot
    w.final[queue] = slot


@part
def _pop(w: Waiting, queue: int) -> int:
    slot = w.first[queue]
    w.first[queue] = w.after[slot]
    if w.first[queue] < 0:
        w.final[queue] = -1
    return slot


@part
def _free_chunks(w: Waiting, slot: int, stage: int) -> None:
    chunk = w.heads[slot, stage]
    while chunk >= 0:
        following = w.chunks[chunk, _CHUNK]
        w.chunks[chunk, _CHUNK] = w.counts[FREE_CHUNK]
        w.counts[FREE_CHUNK] = chunk
        chunk = following
    w.heads[slot, stage] = -1


@part(inline=False)
def _free(w: Waiting, slot: int) -> None:
    for s in range(STAGES):
        _free_chunks(w, slot, s)
    if w.closed[slot] == 0:
        forget(w.keys, w.places, w.names[slot])
        w.counts[N_ALIVE] -= 1
    w.after[slot] = w.counts[FREE_SLOT]
    w.counts[FREE_SLOT] = slot
    w.counts[N_OPEN] -= 1


@part
def _add(w: Waiting, cut: Cut, slot: int, code: int, moment: float) -> None:
    """Add an event to the present stage of a sequence."""
    s = w.stage[slot]
    if s < cut.n_stages:
        at = w.lengths[slot, s]
        if at % _CHUNK == 0:
            chunk = w.counts[FREE_CHUNK]
            w.counts[FREE_CHUNK] = w.chunks[chunk, _CHUNK]
            w.chunks[chunk, _CHUNK] = -1
            if at == 0:
                w.heads[slot, s] = chunk
                w.before[slot, s] = w.last[slot]
            else:
                w.chunks[w.tails[slot], _CHUNK] = chunk
            w.tails[slot] = chunk
        w.chunks[w.tails[slot], at % _CHUNK] = code
        w.lengths[slot, s] = at + 1
        if at + 1 == cut.length:
            w.how[slot, s] = FULL
            w.stage[slot] = s + 1
            w.start[slot] = moment
    w.last[slot] = code


@part
def _close(w: Waiting, cut: Cut, slot: int) -> None:
    if w.stage[slot] < cut.n_stages:
        w.how[slot, w.stage[slot]] = ENDED
    w.closed[slot] = 1
    w.counts[N_ALIVE] -= 1
    forget(w.keys, w.places, w.names[slot])


@part
def _settle(w: Waiting, cut: Cut, slot: int, moment: float) -> None:
    """Close what must be closed by now: stages that are too old, a sequence that was silent for too long."""
    while w.closed[slot] == 0:
        over = moment - w.seen[slot] > cut.timeout
        cut_at = w.start[slot] + cut.age if w.stage[slot] < cut.n_stages else np.inf
        if over and w.seen[slot] + cut.timeout <= cut_at:
            if cut.end >= 0:
                _add(w, cut, slot, cut.end, w.seen[slot] + cut.timeout)
            w.counts[N_EXPIRED] += 1
            _close(w, cut, slot)
        elif moment > cut_at:
            w.how[slot, w.stage[slot]] = CUT_OFF
            w.stage[slot] += 1
            w.start[slot] = cut_at
        else:
            break


@part
def _emit(w: Waiting, cut: Cut, slot: int, s: int, event: int, out: Units) -> None:
    """Pass on a closed stage, if it counts: two events at the start of a sequence, one in later stages."""
    length = w.lengths[slot, s]
    if s == 0 and w.number[slot] == 0:
        w.number[slot] = -1
        if length >= 2:
            w.counts[N_COUNTED] += 1
            w.number[slot] = w.counts[N_COUNTED]
    if w.number[slot] > 0 and length > 0:
        u, at = w.counts[N_UNITS], w.counts[N_CODES]
        chunk = w.heads[slot, s]
        for k in range(length):
            out.codes[at] = w.chunks[chunk, k % _CHUNK]
            at += 1
            if k % _CHUNK == _CHUNK - 1:
                chunk = w.chunks[chunk, _CHUNK]
        out.offsets[u + 1] = at
        out.before[u] = w.before[slot, s]
        out.how[u], out.stage[u], out.number[u] = w.how[slot, s], s, w.number[slot]
        out.began[u], out.event[u] = w.began[slot], event
        w.counts[N_UNITS], w.counts[N_CODES] = u + 1, at
    _free_chunks(w, slot, s)


@part
def _release(w: Waiting, cut: Cut, event: int, out: Units) -> int:
    """Pass on all stages that are closed and first in their queue; returns 0, or what is used up."""
    clockless = cut.age == np.inf and cut.timeout == np.inf
    for s in range(cut.n_stages):
        while w.first[s] >= 0:
            slot = w.first[s]
            if w.counts[FREE_CHUNK] < 0:
                return ROOM_FOR_CHUNKS
            _settle(w, cut, slot, w.clock[0])
            if w.closed[slot] == 0 and w.stage[slot] <= s:
                silent = event - w.touched[slot]
                if not clockless or silent <= _PATIENCE + _SILENCE * w.counts[N_ALIVE]:
                    break
                _free(w, _pop(w, s))
                w.counts[N_DROPPED] += 1
                continue
            if w.counts[N_UNITS] >= len(out.how) or w.counts[N_CODES] + cut.length + 1 > len(out.codes):
                return ROOM_FOR_UNITS
            _pop(w, s)
            _emit(w, cut, slot, s, event, out)
            if w.closed[slot] == 1 and w.stage[slot] <= s:
                _free(w, slot)
            else:
                _push(w, s + 1 if s + 1 < cut.n_stages else STAGES, slot)
    return 0


@part(inline=False)
def _drop(w: Waiting, cut: Cut) -> None:
    """Make room when too many are open: first those of which no more is scored, then those that began first."""
    for k in range(STAGES + 1):
        queue = STAGES - k
        if w.first[queue] >= 0:
            if queue < STAGES or not cut.ordered:
                w.counts[N_DROPPED] += 1
            _free(w, _pop(w, queue))
            return


@kernel(name="the monitor of sequences", seconds=2)
def gather(
    w: Waiting, cut: Cut, terminal: Bools, codes: Codes, keys: Keys, times: Floats, first: int, begin: int, out: Units,
) -> int:  # fmt: skip
    """Collect events into sequences, and pass on their stages in the order in which sequences began.

    Parameters
    ----------
    w : Waiting
        Modified in place.
    cut : Cut
    terminal, codes, keys, times, first
        As for `link`.
    begin : int
        Index of the event to go on with.
    out : Units
        Output; its numbers of units and codes are in ``w.counts``.

    Returns
    -------
    int
        The number of events, or the event that needs more room; ``w.counts[NEEDS]`` says of what.
    """
    n, timed, counts = len(terminal) - 1, len(times) > 0, w.counts
    slot, stage = -1, 0
    counts[NEEDS] = 0
    for t in range(begin, len(codes)):
        event = first + t
        if counts[HALFWAY] == 0:
            if counts[FREE_SLOT] < 0 and counts[N_OPEN] < cut.most:
                counts[NEEDS] = ROOM_FOR_SLOTS
                return t
            spare = counts[FREE_CHUNK]
            if spare < 0 or w.chunks[spare, _CHUNK] < 0:  # this event, and the end of a sequence that timed out
                counts[NEEDS] = ROOM_FOR_CHUNKS
                return t
            moment = times[t] if timed else float(event)
            if moment < w.clock[0]:
                counts[N_BACKWARDS] += 1
            w.clock[0] = max(w.clock[0], moment)
            w.clock[1] = min(w.clock[1], moment)
            moment = w.clock[0]
            slot = w.places[find(w.keys, w.places, keys[t])]
            if slot >= 0:
                _settle(w, cut, slot, moment)
                if w.closed[slot] == 1:
                    slot = -1
            if slot < 0:
                if counts[N_OPEN] >= cut.most:
                    _drop(w, cut)
                slot = counts[FREE_SLOT]
                counts[FREE_SLOT] = w.after[slot]
                counts[N_OPEN] += 1
                counts[N_ALIVE] += 1
                at = find(w.keys, w.places, keys[t])
                w.keys[at], w.places[at], w.names[slot] = keys[t], slot, keys[t]
                w.began[slot], w.start[slot], w.last[slot] = event, moment, -1
                w.number[slot] = -1 if moment - w.clock[1] <= cut.skip else 0
                w.stage[slot], w.closed[slot] = 0, 0
                for s in range(STAGES):
                    w.heads[slot, s], w.lengths[slot, s], w.how[slot, s] = -1, 0, FULL
                _push(w, 0 if cut.ordered else STAGES, slot)
            stage = w.stage[slot]
            _add(w, cut, slot, codes[t], moment)
            w.seen[slot], w.touched[slot] = moment, event
            if terminal[min(codes[t], n)]:
                _close(w, cut, slot)
            counts[HALFWAY] = 1
        if cut.ordered:
            counts[NEEDS] = _release(w, cut, event, out)
            if counts[NEEDS]:
                return t
        elif w.stage[slot] > stage:
            _emit(w, cut, slot, stage, event, out)
            if counts[N_UNITS] >= len(out.how) or counts[N_CODES] + cut.length + 1 > len(out.codes):
                counts[HALFWAY] = 0
                counts[NEEDS] = ROOM_FOR_UNITS
                return t + 1
        counts[HALFWAY] = 0
    return len(codes)


def waiting(n_slots: int = 64, n_chunks: int = 128) -> Waiting:
    """A table without sequences, with room for some."""
    capacity = 1 << int(3 * n_slots).bit_length()
    chunks = np.zeros((n_chunks, _CHUNK + 1), np.int32)
    chunks[:, _CHUNK] = np.append(np.arange(1, n_chunks), -1)

    def codes(value: int, *shape: int) -> Codes:
        return np.full((n_slots, *shape), value, np.int32)

    return Waiting(
        keys=np.zeros(capacity, np.uint64),
        places=np.full(capacity, -1, np.int32),
        names=np.zeros(n_slots, np.uint64),
        began=np.zeros(n_slots, np.int64),
        touched=np.zeros(n_slots, np.int64),
        number=np.zeros(n_slots, np.int64),
        start=np.zeros(n_slots),
        seen=np.zeros(n_slots),
        last=codes(0),
        stage=codes(0),
        closed=codes(0),
        heads=codes(-1, STAGES),
        tails=codes(-1),
        lengths=codes(0, STAGES),
        before=codes(-1, STAGES),
        how=codes(0, STAGES),
        after=np.append(np.arange(1, n_slots, dtype=np.int32), np.int32(-1)),
        first=np.full(STAGES + 1, -1, np.int32),
        final=np.full(STAGES + 1, -1, np.int32),
        chunks=chunks,
        counts=np.zeros(12, np.int64),
        clock=np.array([-np.inf, np.inf]),
    )


def enlarged(w: Waiting) -> Waiting:
    """The same table with twice the room for what it needs."""
    slots, chunks = len(w.names), len(w.chunks)
    if w.counts[NEEDS] == ROOM_FOR_CHUNKS:
        larger = waiting(1, 2 * chunks).chunks
        larger[:chunks] = w.chunks
        larger[-1, _CHUNK] = w.counts[FREE_CHUNK]  # the new ones come first
        w.counts[FREE_CHUNK] = chunks
        return w._replace(chunks=larger)
    new = waiting(2 * slots, 1)
    kept = {name: getattr(w, name) for name in ("first", "final", "chunks", "counts", "clock")}
    for name in Waiting._fields[2:17]:  # those with an entry for each slot
        getattr(new, name)[:slots] = getattr(w, name)
    new.after[-1] = w.counts[FREE_SLOT]
    w.counts[FREE_SLOT] = slots
    taken = w.places >= 0
    place_all(new.keys, new.places, w.keys[taken], w.places[taken])
    return new._replace(**kept)


def room_for_units(n_units: int, n_codes: int) -> Units:
    """Output of `gather` before it is filled."""
    codes, offsets = np.zeros(n_codes, np.int32), np.zeros(n_units + 1, np.int64)
    before, how, stage = np.zeros((3, n_units), np.int32)
    number, began, event = np.zeros((3, n_units), np.int64)
    return Units(codes, offsets, before, how, stage, number, began, event)


def collect(
    w: Waiting, cut: Cut, terminal: Bools, codes: Codes, keys: Keys, times: Floats, first: int
) -> tuple[Waiting, Units]:
    """`gather` with room as needed: the table afterwards and all units that were passed on."""
    begin, found = 0, []
    out = room_for_units(1 << 12, (1 << 16) + cut.length)
    while True:
        begin = gather(w, cut, terminal, codes, keys, times, first, begin, out)
        if w.counts[NEEDS] in (ROOM_FOR_SLOTS, ROOM_FOR_CHUNKS):
            w = enlarged(w)
            continue
        n_units, n_codes = int(w.counts[N_UNITS]), int(w.counts[N_CODES])
        rest: Any = (a[:n_units].copy() for a in out[2:])
        found.append(Units(out.codes[:n_codes].copy(), out.offsets[: n_units + 1].copy(), *rest))
        w.counts[N_UNITS] = w.counts[N_CODES] = 0
        if w.counts[NEEDS] == 0:
            return w, joined(found)


def joined(parts: list[Units]) -> Units:
    """Units one after the other."""
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    rest: Any = (np.concatenate([getattr(part, name) for part in parts]) for name in Units._fields[2:])
    codes = np.concatenate([part.codes for part in parts])
    return Units(codes, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), *rest)
