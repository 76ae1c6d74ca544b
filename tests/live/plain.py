"""The detector of sequences again, in plain Python and NumPy: sequences collected, scored, ranked and bet on."""

from __future__ import annotations

import bisect
import itertools
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from somcot.live.scores import N_BETS, TAIL_SHARES, TAILS, Tables
from somcot.live.sequences import CUT_OFF, ENDED, FULL, Cut, Units

__all__ = ["PlainRanks", "Stage", "plain_units", "uniform"]


@dataclass
class Stage:
    """A stage of a sequence, as the rules define it."""

    sequence: int
    stage: int
    before: int
    codes: list[int] = field(default_factory=list)
    how: int = FULL
    known_at: float = math.inf  # when the stage is closed


def plain_units(codes: Any, names: Any, times: Any, cut: Cut, terminal: Any, until: float) -> list[Stage]:
    """The stages of all sequences in the order of their starts, as far as they are closed before `until`."""
    sequences: list[tuple[list[int], list[float], float]] = []  # states, times, and when it was seen to end
    current: dict[int, int] = {}
    for code, name, moment in zip(codes, names, times, strict=True):
        k = current.get(name)
        if k is not None and moment - sequences[k][1][-1] > cut.timeout:
            k = None
        if k is None:
            k = current[name] = len(sequences)
            sequences.append(([], [], math.inf))
        sequences[k][0].append(code)
        sequences[k][1].append(moment)
        if terminal[min(code, len(terminal) - 1)]:
            sequences[k] = (*sequences[k][:2], moment)
            del current[name]
    found: list[Stage] = []
    n = 0
    for states, moments, end in sequences:
        stages = _cut(states, moments, end, cut)
        if len(stages[0].codes) < 2 or not stages[0].known_at < until:
            continue
        n += 1
        for stage in stages:
            stage.sequence = n
        found += [stage for stage in stages if stage.codes and stage.known_at < until]
    return found


def _cut(states: list[int], moments: list[float], end: float, cut: Cut) -> list[Stage]:
    """One sequence cut into stages."""
    if end == math.inf and cut.timeout < math.inf:
        end = moments[-1] + cut.timeout
        if cut.end >= 0:
            states, moments = [*states, cut.end], [*moments, end]
    stages = [Stage(0, 0, -1)]
    start, last = moments[0], -1
    for code, moment in zip(states, moments, strict=True):
        while moment > start + cut.age:
            start += cut.age
            stages[-1].how, stages[-1].known_at = CUT_OFF, start
            stages.append(Stage(0, len(stages), last))
        stages[-1].codes.append(code)
        last = code
        if len(stages[-1].codes) == cut.length:
            start = stages[-1].known_at = moment
            stages.append(Stage(0, len(stages), last))
    while end > start + cut.age and len(stages) <= cut.n_stages:
        start += cut.age
        stages[-1].how, stages[-1].known_at = CUT_OFF, start
        stages.append(Stage(0, len(stages), last))
    stages[-1].how, stages[-1].known_at = ENDED, end
    for stage, following in itertools.pairwise(stages):
        following.before = stage.codes[-1] if stage.codes else stage.before
    return stages[: cut.n_stages]


def uniform(seed: int, k: int, n: int) -> float:
    """The hash that breaks ties, in unbounded integers."""
    mask = 2**64 - 1
    x = (n * 0x9E3779B97F4A7C15 + k * 0xBF58476D1CE4E5B9 + seed) & mask
    for _ in range(2):
        x = ((x ^ (x >> 30)) * 0xD6E8FEB86659FD93) & mask
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
        x ^= x >> 31
    return ((x >> 11) + 0.5) / 2**53


class PlainRanks:
    """Scores, ranks and sums, one equation after the other; the tables are those learnt from A."""

    def __init__(self, tables: Tables, b: Units, seed: int) -> None:
        self.tables, self.seed = tables, seed
        self.bag: list[list[int]] = [[] for _ in tables.weights]
        self.R = np.zeros((len(tables.weights), N_BETS))
        self.last = np.zeros(len(tables.weights), np.int64)
        self.p: dict[int, list[float]] = {}
        for u in range(len(b.how)):
            for k, value in self.scores(b, u).items():
                self.bag[k].append(self.bin(k, value))

    def steps(self, units: Units, u: int) -> list[tuple[int, int]]:
        t = self.tables
        n = len(t.entropy) - 3

        def place(code: int) -> int:
            return int(t.place[code]) if code < len(t.place) else n

        codes = units.codes[units.offsets[u] : units.offsets[u + 1]].tolist()
        columns = [place(code) for code in codes]
        columns += {FULL: [], ENDED: [n + 1], CUT_OFF: [n + 2]}[int(units.how[u])]
        first = n + 1 if units.before[u] < 0 else place(int(units.before[u]))
        return list(zip([first, *columns], columns, strict=False))

    def scores(self, units: Units, u: int) -> dict[int, float]:
        """Every score of a unit."""
        t, steps = self.tables, self.steps(units, u)
        size, n_steps = len(t.entropy), len(t.target)
        n = size - 3
        rows, columns = Counter(i for i, _ in steps), Counter(j for _, j in steps)
        pairs = Counter(steps)
        loss = {(i, j): -math.log(t.p[i, j]) for i, j in steps}
        found = {
            0: sum(loss[step] - t.entropy[step[0]] for step in steps),
            1: sum(float(t.memory[h, i, j]) for (h, _), (i, j) in itertools.pairwise(steps)),
            2: sum(j <= n for _, j in steps),
            3: sum(j == n for _, j in steps),
            4: sum(t.odd[i, j] for i, j in steps if j != n and i != n),
        }
        for i in range(size):
            for s in range(t.pointer[i], t.pointer[i + 1]):
                if rows[i]:
                    j = int(t.target[s])
                    found[5 + s] = pairs[i, j] - t.p[i, j] * rows[i]
        for j in range(size):
            expected = sum(rows[i] * t.p[i, j] for i in rows)
            if expected > 0.02:
                found[5 + n_steps + j] = columns[j] - expected
        for i in rows:
            if t.entropy[i] > 0.05:
                found[5 + n_steps + size + i] = sum(loss[s] - t.entropy[i] for s in steps if s[0] == i)
        base = int(units.stage[u]) * t.per_stage
        return {base + k: float(value) for k, value in found.items()}

    def bin(self, k: int, value: float) -> int:
        return bisect.bisect_left(self.tables.edges[k, : self.tables.n_bins[k] - 1].tolist(), value)

    def take(self, units: Units, u: int) -> float:
        """Score a unit; the largest evidence."""
        t, number, largest = self.tables, int(units.number[u]), 0.0
        for k, value in self.scores(units, u).items():
            here = self.bin(k, value)
            bag = self.bag[k]
            bag.append(here)
            larger, equal = sum(b > here for b in bag), bag.count(here)
            p = (larger + uniform(self.seed, int(units.stage[u]), number) * equal) / len(bag)
            self.p.setdefault(k, []).append(p)
            if k % t.per_stage in (3, 4):
                f = np.array([1 - w + (w / e if p < e else 0.0) for w in TAIL_SHARES for e in TAILS])
            else:
                f = t.bets[k, bisect.bisect_left(t.ranks[k, : t.n_bins[k]].tolist(), p)]
            self.R[k] = (self.R[k] + number - self.last[k]) * f
            self.last[k] = number
            largest = max(largest, float(t.weights[k] * self.R[k].mean()))
        return largest
