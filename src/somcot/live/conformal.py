"""The detector for whole sequences: Shiryaev-Roberts sums of bets on conformal ranks.

Part A of the reference (40 % of its sequences) makes the scores and the bets (`somcot.live.scores`), part B and the
stream calibrate them. For every score k that unit n has,

    p    = (number of larger + U number of equal bins) / number,      among B and the stream so far, n included
    R_h <- (R_h + W(n) - W(last unit of k)) f_h(p)                    f_h: bets, integral 1; U: a hash of n
    E_k  = weight_k mean_h R_h                                        alarm when the largest reaches the threshold

with W(n) = n. If sequences are exchangeable, the p of one score are independent and uniform, whatever the memory, the
labels or the length of sequences, so P(alarm within n sequences) <= n / threshold (docs/live.md has the proof). For a
guarantee without end, W(n) = 1 - 1 / (1 + log(1 + n)) and the bound is 1 / threshold.
"""
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.compile.jit import kernel, part
from somcot.compile.simd_math import log
from somcot.live.scores import (
    N_BETS,
    ROOM,
    Scratch,
    Tables,
    learn,
    score,
    scratch_for,
)
from somcot.live.sequences import FULL, STAGES, Cut, Keys, Units, Waiting, collect, joined, room_for_units, waiting
from somcot.plumbing.arrays import Bools, Codes, Floats, Ints

__all__ = [
    "FEWEST",
    "Cycle",
    "Plan",
    "Ranks",
    "Recorded",
    "Rule",
    "SequenceDetector",
    "cycle",
    "cycles_in",
    "detector_from",
    "held_labels",
    "mixed",
    "rank",
    "room",
    "since",
    "teachers",
]

LARGEST = 1e250
SHARE_OF_A = 0.4
MOST_OF_A = 20_000  # sequences; more teach nothing that the bins could hold
SEED = 0x5EED


class Rule(NamedTuple):
    """When to raise an alarm: the threshold, whether the guarantee has no end, and the seed of the ties."""

    threshold: float
    forever: bool
    seed: int = SEED


class Ranks(NamedTuple):
    """The state of the detector, of fixed size."""

    below: Codes  # (K, ROOM), number of units in this bin or a lower one
    R: Floats  # (K, N_BETS)
    last: Ints  # (K,), number of the last sequence with the score

    def evidence(self, tables: Tables) -> Floats:
        """The evidence of each score."""
        return tables.weights * self.R.mean(axis=1)


@part
def mixed(seed: int, stage: int, n: int) -> float:
    """A number in (0, 1) from a hash of the seed, the stage and the sequence; the scores of a unit share it."""
    x = np.uint64(n) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(stage) * np.uint64(0xBF58476D1CE4E5B9)
    x = x + np.uint64(seed)
    for _ in range(2):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xD6E8FEB86659FD93)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    return (np.float64(x >> np.uint64(11)) + 0.5) * 1.1102230246251565e-16


@part
def _weight(n: int, forever: bool) -> float:
    return 1.0 - 1.0 / (1.0 + log(1.0 + n)) if forever else float(n)


@part
def _count(tables: Tables, below: Codes, k: int, value: float) -> int:
    """Put a value into the histogram; returns its bin."""
    n: Any = 0
    # All edges are compared, by vector instructions: bisection waits for each comparison before the next.
    for b in range(ROOM):
        inside = np.int32(value <= tables.edges[k, b])
        below[k, b] += inside
        n += inside
    return min(ROOM - n, ROOM - 1)


@part
def _bet(R: Floats, bets: Floats, k: int, at: int, fresh: float) -> float:
    """Multiply the sums of a score by its bets at a rank; return their sum.

    Written out, with all loads before the stores: the compiler then uses vector instructions, twice as fast as a loop.
    """
    r0, r1 = (R[k, 0] + fresh) * bets[k, at, 0], (R[k, 1] + fresh) * bets[k, at, 1]
    r2, r3 = (R[k, 2] + fresh) * bets[k, at, 2], (R[k, 3] + fresh) * bets[k, at, 3]
    r4, r5 = (R[k, 4] + fresh) * bets[k, at, 4], (R[k, 5] + fresh) * bets[k, at, 5]
    r6, r7 = (R[k, 6] + fresh) * bets[k, at, 6], (R[k, 7] + fresh) * bets[k, at, 7]
    r8, r9 = (R[k, 8] + fresh) * bets[k, at, 8], (R[k, 9] + fresh) * bets[k, at, 9]
    R[k, 0], R[k, 1], R[k, 2], R[k, 3], R[k, 4], R[k, 5], R[k, 6], R[k, 7] = r0, r1, r2, r3, r4, r5, r6, r7
    R[k, 8], R[k, 9] = r8, r9
    total = ((r0 + r1) + (r2 + r3)) + ((r4 + r5) + (r6 + r7)) + (r8 + r9)
    if total > LARGEST:
        for h in range(N_BETS):
            R[k, h] = min(R[k, h], LARGEST)
    return total


@kernel
def fill(tables: Tables, ranks: Ranks, scratch: Scratch, units: Units) -> None:
    """Count the units of B."""
    per_stage, n_scores = len(scratch.which), len(tables.weights)
    for u in range(len(units.how)):
        base = units.stage[u] * per_stage
        if base >= n_scores:
            continue
        for x in range(score(tables, units, u, scratch)):
            _count(tables, ranks.below, base + scratch.which[x], scratch.values[x])


@kernel(name="the detector of sequences", seconds=2)
def rank(
    tables: Tables, ranks: Ranks, scratch: Scratch, units: Units, rule: Rule, begin: int, end: int, armed: bool
) -> int:
    """Score the units from `begin` to `end`; return `end`, or the unit that raised an alarm, which has been scored."""
    per_stage, n_scores = len(scratch.which), len(tables.weights)
    for u in range(begin, end):
        base = units.stage[u] * per_stage
        if base >= n_scores:
            continue
        number, largest = units.number[u], 0.0
        now, tie = _weight(number, rule.forever), mixed(rule.seed, units.stage[u], number)
        n, below = score(tables, units, u, scratch), ranks.below
        # One loop for each operation, so that the processor overlaps those of different scores.
        for x in range(n):
            k = base + scratch.which[x]
            at = _count(tables, below, k, scratch.values[x])
            total = below[k, ROOM - 1]
            equal = below[k, at] - below[k, at - 1] if at > 0 else below[k, at]
            scratch.values[x] = (total - below[k, at] + tie * equal) / total
        for x in range(n):
            k, p = base + scratch.which[x], scratch.values[x]
            bet: Any = 0
            for b in range(ROOM):
                bet += int(p > tables.ranks[k, b])
            scratch.bets[x] = min(bet, ROOM - 1)
        for x in range(n):
            k = base + scratch.which[x]
            fresh = now - _weight(ranks.last[k], rule.forever)
            ranks.last[k] = number
            largest = max(largest, _bet(ranks.R, tables.bets, k, scratch.bets[x], fresh) * tables.weights[k] / N_BETS)
        if armed and largest >= rule.threshold:
            return u
    return end


def teachers(n: int, seed: int = SEED) -> Bools:
    """Which of n sequences of a reference are part A, by a seeded hash."""
    x = np.arange(1, n + 1).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    chosen = np.zeros(n, np.bool_)
    order = np.argsort(x ^ (x >> np.uint64(31)), kind="stable")
    chosen[order[: min(max(round(SHARE_OF_A * n), 1), MOST_OF_A)]] = True
    return chosen


def detector_from(a: Units, b: Units, n_labels: int, longest: int) -> tuple[Tables, Ranks]:
    """Scores, bets and the state before the first unit of a stream.

    Parameters
    ----------
    a, b : Units
        All stages of the sequences of both parts of the reference.
    n_labels : int
        Number of labels of the reference.
    longest : int
        Largest number of events of a unit.
    """
    tables = learn(a, n_labels, longest + 2)
    n = len(tables.weights)
    ranks = Ranks(np.zeros((n, ROOM), np.int32), np.zeros((n, N_BETS)), np.zeros(n, np.int64))
    fill(tables, ranks, room(tables, longest), b)
    return tables, ranks


def room(tables: Tables, longest: int) -> Scratch:
    """Scratch room for units of at most `longest` events."""
    return scratch_for(len(tables.entropy), len(tables.target), longest + 2)


@kernel
def _values(tables: Tables, scratch: Scratch, units: Units, k: int, values: Floats) -> None:
    """The value of one score in each unit; NaN where a unit does not have it."""
    for u in range(len(units.how)):
        values[u] = np.nan
        if units.stage[u] != k // len(scratch.which):
            continue
        for x in range(score(tables, units, u, scratch)):
            if scratch.which[x] == k % len(scratch.which):
                values[u] = scratch.values[x]


def since(tables: Tables, ranks: Ranks, units: Units, k: int, longest: int) -> tuple[int, NDArray[np.float64]]:
    """Index of the unit with which the change began, by CUSUM, and the score's values (NaN: none).

    The bet that gained most is followed backwards: the change began where the sum of its logarithms was lowest.
    """
    values = np.zeros(len(units.how))
    _values(tables, room(tables, longest), units, k, values)
    has = np.flatnonzero(~np.isnan(values))
    if not len(has):
        return max(len(units.how) - 1, 0), values
    at = np.searchsorted(tables.edges[k][: tables.n_bins[k] - 1], values[has])
    below = ranks.below[k][: tables.n_bins[k]]
    equal = np.diff(below, prepend=0.0)
    middle = (below[-1] - below + 0.5 * equal) / below[-1]
    h = int(ranks.R[k].argmax())
    gain = tables.bets[k, np.searchsorted(tables.ranks[k], middle), h]
    path = np.concatenate([[0.0], np.cumsum(np.log(gain[at]))])
    return int(has[min(int(path[:-1].argmin()), len(has) - 1)]), values


# --- Cycles of one endless sequence

SHORTEST, LONGEST = 16, 256  # steps of a cycle
INSIDE, STEPS_IN, BEGAN, N_CYCLES = range(4)  # `Cycle.number`


class Cycle(NamedTuple):
    """The present cycle: from a visit of the atom to the first return after at least 16 steps."""

    codes: Codes  # (LONGEST,)
    number: Ints  # (4,)


@kernel
def cycles(cycle: Cycle, atom: int, codes: Codes, first: int, out: Units) -> int:
    """Cut a sequence at visits of the atom, and after 256 steps, then wait for the atom; return how many there are."""
    number, made, at = cycle.number, 0, 0
    for t in range(len(codes)):
        if number[INSIDE] == 1:
            length = number[STEPS_IN]
            cycle.codes[length] = codes[t]
            number[STEPS_IN] = length + 1
            back = codes[t] == atom and length + 1 >= SHORTEST
            if back or length + 1 == LONGEST:
                for k in range(length + 1):
                    out.codes[at] = cycle.codes[k]
                    at += 1
                number[N_CYCLES] += 1
                out.offsets[made + 1] = at
                out.before[made], out.how[made], out.stage[made] = atom, FULL, 0
                out.number[made], out.began[made], out.event[made] = number[N_CYCLES], number[BEGAN], first + t
                made += 1
                number[INSIDE] = 0
        if number[INSIDE] == 0 and codes[t] == atom:
            number[INSIDE], number[STEPS_IN], number[BEGAN] = 1, 0, first + t
    return made


def cycle() -> Cycle:
    """No cycle yet."""
    return Cycle(np.zeros(LONGEST, np.int32), np.zeros(4, np.int64))


def cycles_in(state: Cycle, atom: int, codes: Codes, first: int) -> Units:
    """The cycles that the events complete; the state is modified in place."""
    out = room_for_units(len(codes) // SHORTEST + 2, len(codes) + LONGEST)
    made = cycles(state, atom, codes, first, out)
    rest: Any = (a[:made] for a in out[2:])
    return Units(out.codes[: out.offsets[made]], out.offsets[: made + 1], *rest)


# --- Recorded sequences, and how those of a stream are compared with them

FEWEST = 20  # sequences; with fewer long ones, steps are scored
LENGTH = 64  # events of a stage
_KEPT = 0.8  # share of the events that the age at which sequences are cut keeps


class Plan(NamedTuple):
    """What is scored, and how sequences are cut.

    Attributes
    ----------
    kind : {"sequences", "steps", "endless"}
        Whole sequences; single steps; or cycles and steps of one endless sequence, at half weight each.
    cut : Cut or None
    exact : bool
        Whether the guarantee on false alarms is proved.
    reason : str
        Why this was chosen, and what the guarantee needs.
    mean_length : float
        Events per sequence of the reference (per cycle of an endless one), which converts events to sequences.
    """

    kind: str
    cut: Cut | None
    exact: bool
    reason: str
    mean_length: float = 1.0


class Recorded(NamedTuple):
    """Whole sequences of a reference, in their order."""

    codes: Codes  # states, sequence after sequence
    offsets: Ints  # (n + 1,)
    ended: Bools  # (n,), whether the sequence terminated
    times: Floats | None  # one for each state
    kind: str  # of the times: "dates", "numbers" or "rows"; "" without

    @classmethod
    def of(cls, samples: Any) -> Recorded | None:
        """The episodes of a recording; None for independent transitions."""
        if samples.offsets is None:
            return None
        n = samples.n_episodes
        offsets = samples.offsets + np.arange(n + 1)
        codes = np.empty(samples.n_transitions + n, np.int32)
        first = np.zeros(len(codes), np.bool_)
        first[offsets[:-1]] = True
        codes[~first], codes[first] = samples.following, samples.now[samples.offsets[:-1]]
        ended = np.zeros(n, np.bool_) if samples.terminated is None else samples.terminated
        times = samples.times
        return cls(codes, offsets, ended, *((None, "") if times is None else times))

    @property
    def n(self) -> int:
        """Number of sequences."""
        return len(self.ended)

    def plan(
        self, terminal: Bools, named: bool, clock: str, timeout: float, end: int, most: int, starts: bool | None
    ) -> Plan:
        """How a stream is compared: `named` if its sequences have names, `clock` as `kind`."""
        last = self.codes[self.offsets[1:] - 1]
        ends = bool(terminal[last][self.ended].sum() >= 0.5 * self.n) or timeout < np.inf
        if not named and not ends and not terminal.any():
            return Plan("endless", None, False, "one endless sequence: cycles and steps, at half weight each; "
                        "holds if the next state depends on the last one alone")  # fmt: skip
        if self.n < 4 or (self.n < FEWEST and len(self.codes) >= LENGTH * self.n):
            return Plan("steps", None, False, f"steps, because the reference has {self.n} long sequences, fewer than "
                        f"{FEWEST}; holds if the next state depends on the last one alone")  # fmt: skip
        age, kept = np.inf, self._kept(end)
        if self.has_clock and self.kind == clock:
            age = self.age(kept)
        longest = max(timeout if timeout < np.inf else 0.0, age if age < np.inf else 0.0)
        if starts is False and longest == 0.0:
            return Plan("steps", None, False, "steps, because sequences may have been under way before and nothing "
                        "tells when those have ended; pass times or timeout")  # fmt: skip
        skip = longest if starts is False else -1.0
        mean = len(kept) / self.n
        cut = Cut(LENGTH, age, timeout, end, most, STAGES, True, skip)
        if age < np.inf and clock != "rows":
            return Plan("sequences", cut, True, "whole sequences, in the order of their starts; "
                        "holds for sequences that are independent of each other", mean)  # fmt: skip
        if age < np.inf:
            return Plan("sequences", cut, False, "whole sequences, cut after a number of rows because there are no "
                        "times; holds while as many sequences are open as in the reference", mean)  # fmt: skip
        if ends:
            return Plan("sequences", cut, True, "whole sequences, in the order of their starts; "
                        "holds for sequences that are independent of each other", mean)  # fmt: skip
        lengths = np.sort(np.diff(self.offsets)[teachers(self.n)])
        cut = cut._replace(length=int(np.clip(lengths[int((1.0 - _KEPT) * len(lengths))], 2, LENGTH)), ordered=False)
        return Plan("sequences", cut, False, f"the first {cut.length} events of sequences, because their ends cannot "
                    "be seen (mark ends as terminated, or pass times or timeout); holds if the pace of a sequence "
                    "tells nothing about it", mean)  # fmt: skip

    @property
    def has_clock(self) -> bool:
        """Whether times are those of one clock: not steps counted in each sequence, nor rows of one after the other."""
        if self.times is None:
            return False
        starts = self.times[self.offsets[:-1]]
        if self.kind != "rows":
            return bool(np.count_nonzero(starts == starts.min()) <= 0.5 * self.n)
        gaps = np.delete(np.diff(self.times), self.offsets[1:-1] - 1)
        return bool(np.count_nonzero(gaps > 1.0) > 0.2 * len(gaps))

    def _kept(self, end: int) -> Ints:
        """Places of the states that are events: not the end, which no event announces."""
        return np.flatnonzero(self.codes != end)

    def age(self, kept: Ints) -> float:
        """The shortest age that keeps most events of part A, or less if the recording is short."""
        assert self.times is not None
        lengths = np.diff(self.offsets)
        age = self.times - np.repeat(self.times[self.offsets[:-1]], lengths)
        chosen = np.repeat(teachers(self.n), lengths)
        chosen[np.setdiff1d(np.arange(len(age)), kept)] = False
        ages = np.sort(age[chosen])
        shortest = ages[min(int(_KEPT * len(ages)), len(ages) - 1)]
        shortest = shortest if shortest > 0.0 else ages[-1] if ages[-1] > 0.0 else 1.0
        # At this age, half of the sequences must have been over when the recording stopped.
        return float(min(shortest, np.median(self.times.max() - self.times[self.offsets[:-1]])))

    def units(self, cut: Cut, terminal: Bools) -> tuple[Units, Units]:
        """Parts A and B, cut like the sequences of a stream; those that were still open at the end are left out."""
        lengths = np.diff(self.offsets)
        owner = np.repeat(np.arange(self.n), lengths)
        codes, times = self.codes, self.times
        moments: Floats
        if cut.age == np.inf or times is None:
            if not cut.ordered or cut.timeout < np.inf:
                keep = np.ones(self.n, np.bool_)
            else:
                keep = self.ended & terminal[codes[self.offsets[1:] - 1]]
            chosen = keep[owner]
            codes, owner = codes[chosen], owner[chosen]
            pause = cut.timeout if cut.timeout < np.inf else 1.0
            moments = (owner * (2.0 * pause)).astype(np.float64)
        else:
            moments = times + np.where(codes == cut.end, cut.timeout, 0.0) if cut.end >= 0 else times
            order = np.argsort(moments, kind="stable")
            codes, owner, moments = codes[order], owner[order], moments[order]
        if cut.timeout < np.inf:  # one more event shows that the last sequences have ended
            codes, owner = np.append(codes, np.int32(0)), np.append(owner, self.n)
            moments = np.append(moments, moments[-1] + (3.0 * cut.timeout if cut.age == np.inf else 0.0))
        _, found = collect(waiting(), cut._replace(skip=-1.0), terminal, codes, owner.astype(np.uint64), moments, 1)
        a = teachers(self.n)[owner[found.began - 1]]
        return found.part(np.flatnonzero(a)), found.part(np.flatnonzero(~a))

    def cycles(self) -> tuple[int, Units, Units]:
        """The atom of one endless sequence, and cycles of its first 40 % and of the rest."""
        n = len(self.codes)
        first = max(int(0.4 * n), 1)
        atom = int(np.bincount(self.codes[:first]).argmax())
        parts = []
        for begin, end in itertools.pairwise(self.offsets.tolist()):
            found = cycles_in(cycle(), atom, self.codes[begin:end], begin + 1)
            parts.append(found._replace(number=found.began, began=found.began))
        found = joined(parts)
        early = found.event <= first
        return atom, found.part(np.flatnonzero(early)), found.part(np.flatnonzero(~early))


# --- The detector


class SequenceDetector:
    """Sequences of a stream, or cycles of an endless one, ranked against those of a reference.

    Parameters
    ----------
    a, b : Units
        The two parts of the reference.
    held : ndarray of int, shape (n_labels + 1, 2)
        From `held_labels`.
    cut : Cut or None
        How sequences are cut; None for cycles.
    atom : int
        Label at which cycles begin; -1 for sequences.
    threshold, forever : float, bool
        When to raise an alarm.
    """

    def __init__(
        self, a: Units, b: Units, held: Ints, *, cut: Cut | None, atom: int, threshold: float, forever: bool
    ) -> None:
        longest = LONGEST if cut is None else cut.length
        state = detector_from(a, b, len(held) - 1, longest)
        self.resume(*state, waiting(), cycle(), held, cut, atom, threshold, forever)

    def resume(
        self, tables: Tables, ranks: Ranks, waiting: Waiting, cycle: Cycle, held: Ints, cut: Cut | None, atom: int,
        threshold: float, forever: bool,
    ) -> None:  # fmt: skip
        """Take over a state; only the stages that are scored are kept open."""
        self.tables, self.ranks, self.waiting, self.cycle, self.held = tables, ranks, waiting, cycle, held
        self.cut = None if cut is None else cut._replace(n_stages=tables.n_stages)
        self.atom, self.rule = atom, Rule(threshold, forever)
        self.longest = LONGEST if cut is None else cut.length
        self.scratch = room(tables, self.longest)

    def restart(self, a: Units, b: Units, held: Ints, number: int) -> None:
        """Begin anew with another reference after this many sequences; those that are open stay so."""
        tables, ranks = detector_from(a, b, len(held) - 1, self.longest)
        ranks.last[:] = number
        self.resume(
            tables, ranks, self.waiting, self.cycle, held, self.cut, self.atom, self.rule.threshold, self.rule.forever
        )

    def take(self, codes: Codes, keys: Keys, times: Floats, first: int, terminal: Bools) -> Units:
        """The units that these events complete."""
        if self.cut is None:
            return cycles_in(self.cycle, self.atom, codes, first)
        self.waiting, units = collect(self.waiting, self.cut, terminal, codes, keys, times, first)
        return units

    def rank(self, units: Units, begin: int, end: int, *, armed: bool) -> int:
        """Score units; see `rank`."""
        at: int = rank(self.tables, self.ranks, self.scratch, units, self.rule, begin, end, armed)
        return at

    @property
    def level(self) -> float:
        """The largest evidence."""
        return float(self.ranks.evidence(self.tables).max())

    def change(self, units: Units) -> tuple[int, bool, int, Units]:
        """The leading score and its direction, the unit with which the change began, and those since with the score."""
        k = int(self.ranks.evidence(self.tables).argmax())
        first, values = since(self.tables, self.ranks, units, k, self.longest)
        later = np.flatnonzero(~np.isnan(values[first:])) + first
        up = k % self.tables.per_stage in (3, 4) or int(self.ranks.R[k].argmax()) < 5
        return k, up, first, units.part(later)


def held_labels(units: Units, n_labels: int) -> Ints:
    """Numbers of sequences that hold each label and of its occurrences; then of all sequences and events."""
    owner = np.repeat(units.number, np.diff(units.offsets))
    kept = units.codes < n_labels
    pairs = np.unique(owner[kept] * n_labels + units.codes[kept]) % max(n_labels, 1)
    total = len(np.unique(units.number)), len(units.codes)
    counts = np.bincount(pairs, minlength=n_labels), np.bincount(units.codes[kept], minlength=n_labels)
    return np.vstack([np.column_stack(counts), total])
