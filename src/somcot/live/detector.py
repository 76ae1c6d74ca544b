"""The e-detector: a Shiryaev-Roberts sum of bets against the reference, one bet for each of five memory lengths.

For an event i -> j and memory lengths h of 16, 64, 256, 1024 and infinitely many visits,

    p   = P(j | i)                        reference known
    p   = (C_ij + k / n) / (C_i + k)      reference recorded: its counts, then the stream's events too; k = 0.5 / n,
          (C_i. + 0.5) / (C_i + k)        and for all labels together that the recording lacks
    q_h = (N_ij + s p) / (N_i + s)        N: counts of the stream, forgetting 1 - 1/h per visit of the row; s = 8
    R_h <- (R_h + w_t) q_h / p            alarm when the mean of the five reaches the threshold

q_h is fixed before the event, and E[q_h / p | past] <= 1 under the reference: R minus the sum of the weights w is a
supermartingale. Counts are stored times a weight of the row that grows by 1 / (1 - 1/h) with each visit, so that an
event touches one entry and not a row. Entries are looked up by a hash of (row, column): memory is proportional to the
number of known or observed transitions. The largest term of the sum (CUSUM) is tracked too; its start estimates the
change point.
"""
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.compile.jit import kernel, part
from somcot.compile.simd_math import log
from somcot.live.sequences import Keys, find, forget
from somcot.live.sequences import place_all as place_names
from somcot.plumbing.arrays import Bools, Codes, Floats, Ints

__all__ = [
    "CROSSED",
    "DONE",
    "FULL",
    "IMPOSSIBLE",
    "Bets",
    "Open",
    "Rules",
    "Setting",
    "bets_on",
    "grown",
    "link",
    "opened",
    "steps_of",
    "watch",
    "with_room",
]

MEMORIES = (16.0, 64.0, 256.0, 1024.0, np.inf)
GROWTH = np.array([1.0 / (1.0 - 1.0 / h) for h in MEMORIES])
SHRINKAGE = 8.0
PRIOR_MASS = 0.5  # approximate total over all rows of a recorded reference
# Mass of all labels that the recorded reference lacks, in each row. It is given on top of the mass of the others: p
# then sums to more than 1, so that bets against it are smaller, whether or not there are such labels.
UNHEARD = 0.5
LARGEST = 1e250  # evidence is capped here
HEAVIEST = 1e100  # weight of a row above which the row is rescaled
DONE, CROSSED, FULL, IMPOSSIBLE = 0, 1, 2, 3
EVENTS, ENTRIES, STATUS = 0, 1, 2  # indices of `Bets.number`


class Setting(NamedTuple):
    """Constants: the threshold, the mass of a transition never seen, the number of states, the weights, new labels."""

    threshold: float
    prior: float
    n: int
    forever: bool
    unheard: float  # mass of labels that a recorded row lacks; 0 for detectors of a former version, which gave `prior`


class Bets(NamedTuple):
    """The state of the detector.

    Row and column n are for labels unknown to the reference, row n + 1 for first states.
    """

    keys: Ints  # (capacity,), row * (n + 1) + column, -1 if empty
    places: Codes  # (capacity,), the entry
    heads: Codes  # (n + 2,), first entry of each row
    nexts: Codes  # (n_entries,), the next entry of the same row
    columns: Codes  # (n_entries,)
    null: Floats  # (n_entries,), probability, or count with prior
    seen: Floats  # (n_entries, 5), N
    known: Bools  # (n + 2,), whether a row is known rather than recorded
    totals: Floats  # (n + 2,), 1, or C_i + k
    weights: Floats  # (n + 2, 5)
    sums: Floats  # (n + 2, 5), N_i
    R: Floats  # (5,)
    largest: Floats  # (5,), largest term of each sum
    since: Ints  # (5, 2), start of that term: scored transition and event
    number: Ints  # (3,), events scored, entries in use, reason why `watch` returned


@part
def _find(keys: Ints, places: Codes, key: int) -> int:
    """The entry of a key, or -1 - the slot where it belongs."""
    mask = len(keys) - 1
    at = ((key * 0x9E3779B1) >> 7) & mask
    while keys[at] != key:
        if keys[at] < 0:
            return -1 - at
        at = (at + 1) & mask
    return places[at]


@part
def _scale_back(entry: int, nexts: Codes, seen: Floats, weights: Floats, sums: Floats, h: int) -> None:
    """Divide the counts of a row by its weight, which is reset to 1."""
    factor = 1.0 / weights[h]
    while entry >= 0:
        seen[entry, h] *= factor
        entry = nexts[entry]
    sums[h] *= factor
    weights[h] = 1.0


@part
def _weight(n: int, forever: bool) -> float:
    """Weight of the possible change point n."""
    return 1.0 / (2.10975 * (n + 1.0) * log(n + 1.0) ** 2) if forever else 1.0


@kernel(name="the monitor", seconds=1)
def watch(
    bets: Bets, setting: Setting, growth: Floats, armed: bool, now: Codes, following: Codes, origin: Ints,
    begin: int, end: int,
) -> int:  # fmt: skip
    """Score the transitions from `begin` to `end`; return the stopping index, with the reason in ``bets.number[2]``.

    Parameters
    ----------
    bets : Bets
        Modified in place.
    setting : Setting
    growth : ndarray, shape (5,)
        Factor of a row's weights at each visit.
    armed : bool
        Stop at an event that reaches the threshold or is impossible. Otherwise score all.
    now, following : ndarray of int32
        States; -1 before a first state, n and above for labels unknown to the reference.
    origin : ndarray of int64
        Number of the event that gave each transition.

    Returns
    -------
    int
        `end`, or the transition that stopped the loop. It has been scored unless the table is full.
    """
    n, width = setting.n, setting.n + 1
    keys, places, nexts, null, seen = bets.keys, bets.places, bets.nexts, bets.null, bets.seen
    R, largest, number = bets.R, bets.largest, bets.number
    number[STATUS] = DONE
    for t in range(begin, end):
        i = n + 1 if now[t] < 0 else min(now[t], n)
        j = min(following[t], n)
        if i == n and not bets.known[i] and setting.unheard > 0.0:
            # A recording says nothing about steps from labels that it lacks: no bet.
            number[EVENTS] += 1
            weight = _weight(number[EVENTS], setting.forever)
            for h in range(5):
                R[h] = min(R[h] + weight, LARGEST)
            continue
        entry = _find(keys, places, i * width + j)
        if entry < 0:
            if bets.known[i]:
                number[EVENTS] += 1
                for h in range(5):
                    if R[h] < LARGEST:  # conclusive evidence; the change begins with this event
                        bets.since[h, 0], bets.since[h, 1] = number[EVENTS], origin[t]
                    R[h] = largest[h] = LARGEST
                if armed:
                    number[STATUS] = IMPOSSIBLE
                    return t
                continue
            made = number[ENTRIES]
            if made == len(nexts) or 2 * made >= len(keys):
                number[STATUS] = FULL
                return t
            at = -1 - entry
            keys[at], places[at] = i * width + j, made
            nexts[made], bets.heads[i] = bets.heads[i], made
            bets.columns[made], null[made] = j, setting.unheard if j == n and setting.unheard > 0.0 else setting.prior
            for h in range(5):
                seen[made, h] = 0.0
            number[ENTRIES] += 1
            entry = made
        number[EVENTS] += 1
        weight = _weight(number[EVENTS], setting.forever)
        odds = bets.totals[i] / null[entry]  # 1 / p
        mean = 0.0
        for h in range(5):
            grown = bets.weights[i, h]
            shrunk = SHRINKAGE * grown
            ratio = (seen[entry, h] * odds + shrunk) / (bets.sums[i, h] + shrunk)
            R[h] = min((R[h] + weight) * ratio, LARGEST)
            mean += R[h]
            if largest[h] <= 1.0:
                largest[h] = 1.0
                bets.since[h, 0], bets.since[h, 1] = number[EVENTS], origin[t]
            largest[h] = min(largest[h] * ratio, LARGEST)
            grown *= growth[h]
            bets.weights[i, h] = grown
            seen[entry, h] += grown
            bets.sums[i, h] += grown
            if grown > HEAVIEST:
                _scale_back(bets.heads[i], nexts, seen, bets.weights[i], bets.sums[i], h)
        if not bets.known[i]:
            null[entry] += 1.0
            bets.totals[i] += 1.0
        if armed and mean >= 5.0 * setting.threshold:
            number[STATUS] = CROSSED
            return t
    return end


def bets_on(rows: Ints, columns: NDArray[np.integer], null: Floats, known: Bools, n: int, prior_mass: float) -> Bets:
    """A detector before the first event.

    Parameters
    ----------
    rows, columns : ndarray, shape (n_entries,)
        Transitions of the reference; row n + 1 is for first states.
    null : ndarray, shape (n_entries,)
        Probabilities in known rows, counts in the others.
    known : ndarray of bool, shape (n + 2,)
    n : int
    prior_mass : float
        k, for every row that is not known.
    """
    n_entries = len(rows)
    counts = np.bincount(rows, weights=null, minlength=n + 2)
    totals = np.where(known, 1.0, counts + prior_mass)
    bets = _empty(max(64, n_entries + n_entries // 4), n)
    order = np.arange(n_entries, dtype=np.int32)
    last = np.full(n + 2, -1, dtype=np.int32)
    nexts = np.full(n_entries, -1, dtype=np.int32)
    for entry, row in enumerate(rows.tolist()):
        nexts[entry], last[row] = last[row], entry
    bets.columns[:n_entries] = columns
    bets.null[:n_entries] = np.where(known[rows], null, null + prior_mass / n)
    bets.nexts[:n_entries] = nexts
    bets.heads[:] = last
    bets.known[:] = known
    bets.totals[:] = totals
    bets.number[ENTRIES] = n_entries
    _place_entries(bets.keys, bets.places, rows * (n + 1) + columns, order)
    return bets


def grown(bets: Bets, n: int) -> Bets:
    """The same detector with room for twice as many transitions."""
    used = int(bets.number[ENTRIES])
    larger = _empty(2 * max(len(bets.nexts), 1), n)
    for name in ("columns", "null", "seen", "nexts"):
        getattr(larger, name)[:used] = getattr(bets, name)[:used]
    taken = bets.keys >= 0
    _place_entries(larger.keys, larger.places, bets.keys[taken], bets.places[taken])
    kept = ("heads", "known", "totals", "weights", "sums", "R", "largest", "since", "number")
    return larger._replace(**{name: getattr(bets, name) for name in kept})


@kernel
def _place_entries(keys: Ints, places: Codes, new: Ints, entries: Codes) -> None:
    """Insert new keys into the table."""
    for k in range(len(new)):
        at = -1 - _find(keys, places, new[k])
        keys[at], places[at] = new[k], entries[k]


def _empty(room: int, n: int) -> Bets:
    capacity = 1 << int(4 * room - 1).bit_length()  # load at most 1/4: almost every lookup takes one probe
    return Bets(
        keys=np.full(capacity, -1, dtype=np.int64),
        places=np.zeros(capacity, dtype=np.int32),
        heads=np.full(n + 2, -1, dtype=np.int32),
        nexts=np.full(room, -1, dtype=np.int32),
        columns=np.zeros(room, dtype=np.int32),
        null=np.zeros(room),
        seen=np.zeros((room, 5)),
        known=np.zeros(n + 2, dtype=np.bool_),
        totals=np.zeros(n + 2),
        weights=np.ones((n + 2, 5)),
        sums=np.zeros((n + 2, 5)),
        R=np.zeros(5),
        largest=np.zeros(5),
        since=np.zeros((5, 2), dtype=np.int64),
        number=np.zeros(3, dtype=np.int64),
    )


# --- Open sequences as transitions: their last states, time-outs and evictions
#
# Sequences are kept in a list ordered by their last event, so those that time out or are dropped are at its head. If
# sequences that time out enter an end state, a step is scored only after the time-out of the preceding event has
# passed, even if it occurred earlier. If steps were scored as they arrive, ordinary steps would be early and ends late,
# and a stream whose ends are all pending would look changed. In this mode the list holds events with pending steps.

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
                forget(known.keys, known.places, known.names[slot])
            _let_go(before, after, number, slot)
        at = find(known.keys, known.places, keys[t])
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
                forget(known.keys, known.places, keys[t])
                if not late:
                    _append(before, after, number, slot)
                    _let_go(before, after, number, slot)
            continue
        if fresh or late:
            if number[OPEN] == rules.most:
                oldest = number[HEAD]
                if known.step[oldest] >= 0:
                    now[made], following[made], origin[made] = known.last[oldest], known.step[oldest], first + t
                    made += 1
                else:
                    number[DROPPED] += 1
                    forget(known.keys, known.places, known.names[oldest])
                _let_go(before, after, number, oldest)
                at = find(known.keys, known.places, keys[t])
            slot = number[FREE]
            number[FREE] = after[slot]
            number[OPEN] += 1
            known.keys[at], known.places[at], known.names[slot], known.step[slot] = keys[t], slot, keys[t], -1
        known.last[slot], known.seen[slot] = codes[t], known.clock[0]
        _append(before, after, number, slot)
    return made


@part
def _let_go(before: Codes, after: Codes, number: Ints, slot: int) -> None:
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
    place_names(larger.keys, larger.places, known.keys[taken], known.places[taken])
    return larger


def steps_of(
    known: Open, last: int, rules: Rules, terminal: Bools, codes: Codes, keys: Keys | None, times: Floats, first: int
) -> tuple[Codes, Codes, Ints, Open, int]:
    """Transitions that result from events, with the numbers of their events; arguments as for `link`.

    `last` is the last state of a single sequence without name, -1 before it. Returns the open sequences and the last
    state too.
    """
    if keys is None and rules.timeout == np.inf and not terminal.any() and not rules.starts:  # it never ends
        now = np.empty_like(codes)
        now[1:], now[0] = codes[:-1], last
        skip = 1 if last < 0 else 0
        return now[skip:], codes[skip:], np.arange(first + skip, first + len(codes)), known, int(codes[-1])
    if keys is None:
        keys = np.zeros(len(codes), dtype=np.uint64)
    n_open = int(known.number[OPEN])
    known = with_room(known, min(n_open + len(codes), rules.most))
    room = 2 * len(codes) + (n_open + len(codes) if rules.end >= 0 else 0)
    now, following, origin = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int64)
    made = link(known, rules, terminal, codes, keys, times, first, now, following, origin)
    return now[:made], following[:made], origin[:made], known, last
