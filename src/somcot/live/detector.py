"""The e-detector: a Shiryaev-Roberts sum of bets against the reference, one bet for each of five memory lengths.

For an event i -> j and memory lengths h of 16, 64, 256, 1024 and infinitely many visits,

    p   = P(j | i)                        reference known
    p   = (C_ij + k / n) / (C_i + k)      reference recorded: its counts, then the stream's events too; k = 0.5 / n
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
from somcot.plumbing.arrays import Bools, Codes, Floats, Ints

__all__ = ["CROSSED", "DONE", "FULL", "IMPOSSIBLE", "Bets", "Setting", "bets_on", "grown", "watch"]

MEMORIES = (16.0, 64.0, 256.0, 1024.0, np.inf)
GROWTH = np.array([1.0 / (1.0 - 1.0 / h) for h in MEMORIES])
SHRINKAGE = 8.0
PRIOR_MASS = 0.5  # approximate total over all rows of a recorded reference
LARGEST = 1e250  # evidence is capped here
HEAVIEST = 1e100  # weight of a row above which the row is rescaled
DONE, CROSSED, FULL, IMPOSSIBLE = 0, 1, 2, 3
EVENTS, ENTRIES, STATUS = 0, 1, 2  # indices of `Bets.number`


class Setting(NamedTuple):
    """Constants: the threshold, the mass of a transition never seen, the number of states, the weights."""

    threshold: float
    prior: float
    n: int
    forever: bool


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
            bets.columns[made], null[made] = j, setting.prior
            for h in range(5):
                seen[made, h] = 0.0
            number[ENTRIES] += 1
            entry = made
        number[EVENTS] += 1
        weight = 1.0
        if setting.forever:
            later = number[EVENTS] + 1.0
            weight = 1.0 / (2.10975 * later * log(later) ** 2)
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
    place_all(bets.keys, bets.places, rows * (n + 1) + columns, order)
    return bets


def grown(bets: Bets, n: int) -> Bets:
    """The same detector with room for twice as many transitions."""
    used = int(bets.number[ENTRIES])
    larger = _empty(2 * max(len(bets.nexts), 1), n)
    for name in ("columns", "null", "seen", "nexts"):
        getattr(larger, name)[:used] = getattr(bets, name)[:used]
    taken = bets.keys >= 0
    place_all(larger.keys, larger.places, bets.keys[taken], bets.places[taken])
    kept = ("heads", "known", "totals", "weights", "sums", "R", "largest", "since", "number")
    return larger._replace(**{name: getattr(bets, name) for name in kept})


@kernel
def place_all(keys: Ints, places: Codes, new: Ints, entries: Codes) -> None:
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
