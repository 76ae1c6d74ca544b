"""Scores of whole sequences, and bets on their ranks, both learnt from part A of a reference.

A unit is a sequence, or one stage of a long sequence: its steps lead from rows to columns of a table of counts. Rows
and columns 0 to n - 1 are labels of A and n is any label that A does not have. Row n + 1 is the start; columns n + 1
and n + 2 are the end and the cut by age. With p the smoothed step probabilities of A and H_i the entropy of row i, a
unit has the scores

    0 surprise     sum of -log p - H_i                       5 ...  step i -> j: count - p_ij visits of i
    1 memory       sum of log p(j | the last two) / p        then   label j: count - number expected from the rows
    2 length       number of events                          then   row i: sum of -log p_ij - H_i over visits of i
    3 new labels   events whose label A does not have
    4 odd steps    sum of log(0.95 + 0.05 share of j / p_ij), where positive

Score 4 is the evidence that 5 % of the events are random: it counts steps that A does not have, the more the better A
knows their row, and rare ones. Scores of a step, label or row are those of units that visit the row, or expect the
label, only. Scores are put into at most 20 bins. A bet is a density on ranks in [0, 1]: an exponential tilt of A's
distribution over the bins, up or down, or, for scores 3 and 4, a step function that favours small ranks.
`somcot.live.conformal` places the bets.
"""
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.compile.jit import kernel, part
from somcot.compile.simd_math import exp, log
from somcot.live.sequences import CUT_OFF, FULL, Units
from somcot.plumbing.arrays import Bools, Codes, Floats, Ints

__all__ = ["GENERAL", "N_BETS", "ROOM", "Scratch", "Tables", "learn", "score", "scratch_for"]

GENERAL = 5  # scores of the unit as a whole
N_BINS = 20
ROOM = 32  # of every score for its bins, a few vectors of numbers; 20 and 24 were slower
INFORMATION = (0.004, 0.016, 0.06, 0.25, 1.0)  # nats per unit at which the tilts aim, upwards and downwards
TAILS = (0.0005, 0.002, 0.008, 0.03, 0.12)  # ranks favoured for new labels and odd steps, with these shares:
TAIL_SHARES = (0.03, 0.2)
N_BETS = 10
SAFE = 0.05  # part of every bet that stays on the null hypothesis
LABELS = 200  # labels with scores of their own; rarer ones share a column
STEPS = 400
VISITS = 4.0  # least count of a step with a score of its own
CERTAIN = 0.985  # steps with a larger probability have none
EXPECTED = 0.02  # least expected number of a label for which a unit is scored
SPREAD = 0.05  # least entropy of a row with a score of its own
NOISE = 0.05  # share of random events for which odd steps are evidence
MEMORY = 70  # largest number of rows for which the order of steps is scored
WEIGHTS = (0.08, 0.06, 0.06, 0.10, 0.08)  # of scores 0 to 4; steps, labels and rows share the following
SHARED = (0.30, 0.22, 0.10)
NEW_LABELS = (0.5, 1.5, 3.5)
ODD_STEPS = (0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 7.0)
FEWEST = 20  # sequences of A that reach a stage, for the stage to be scored


class Tables(NamedTuple):
    """What was learnt from A; nothing of it changes afterwards. S = n + 3, K scores per stage."""

    place: Codes  # (n_labels,), row of each label of the monitor
    p: Floats  # (S, S)
    surprise: Floats  # (S, S), -log p
    entropy: Floats  # (S,)
    memory: NDArray[np.float32]  # (S, S, S), log ratio of the probabilities given the last two and the last; or empty
    odd: Floats  # (S, S), score 4 of each step
    unseen: Bools  # (S, S)
    slot: Codes  # (S, S), the step's score, or the number of them
    target: Codes  # (n_steps,), columns of the steps with scores, by row
    pointer: Ints  # (S + 1,), the first of each row
    edges: Floats  # (n_stages K, ROOM), upper edges of the bins
    n_bins: Ints  # (n_stages K,)
    ranks: Floats  # (n_stages K, ROOM), A's distribution over the bins, from the largest score down
    bets: Floats  # (n_stages K, ROOM, N_BETS), densities in the same order
    weights: Floats  # (n_stages K,), sum at most 1

    @property
    def per_stage(self) -> int:
        """Number of scores of a stage."""
        return GENERAL + len(self.target) + 2 * len(self.entropy)

    @property
    def n_stages(self) -> int:
        """Number of stages that are scored."""
        return len(self.weights) // self.per_stage


class Scratch(NamedTuple):
    """Room for the scores of one unit."""

    rows: Codes
    columns: Codes
    visited: Codes
    visits: Floats
    counts: Floats
    expected: Floats
    excess: Floats
    steps: Floats
    which: Ints
    values: Floats
    bets: Ints


def scratch_for(n_rows: int, n_steps: int, longest: int) -> Scratch:
    """Room for units of at most `longest` steps."""
    k = GENERAL + n_steps + 2 * n_rows
    rows, columns, visited = np.zeros((3, longest), np.int32)
    visits, counts, expected, excess = np.zeros((4, n_rows))
    return Scratch(
        rows,
        columns,
        visited,
        visits,
        counts,
        expected,
        excess,
        np.zeros(n_steps + 1),
        np.zeros(k, np.int64),
        np.zeros(k),
        np.zeros(k, np.int64),
    )


@part
def _read(place: Codes, n: int, units: Units, u: int, rows: Codes, columns: Codes) -> int:
    """The steps of a unit; returns their number."""
    row = n + 1
    before = units.before[u]
    if before >= 0:
        row = place[before] if before < len(place) else n
    made = 0
    for t in range(units.offsets[u], units.offsets[u + 1]):
        code = units.codes[t]
        column = place[code] if code < len(place) else n
        rows[made], columns[made] = row, column
        row = column
        made += 1
    if units.how[u] != FULL:
        rows[made] = row
        columns[made] = n + 2 if units.how[u] == CUT_OFF else n + 1
        made += 1
    return made


@part
def score(tables: Tables, units: Units, u: int, scratch: Scratch) -> int:
    """All scores of a unit: ``which[:q]`` and ``values[:q]`` of the scratch room; returns q."""
    rows, columns, visited = scratch.rows, scratch.columns, scratch.visited
    visits, counts, expected, excess, steps = (
        scratch.visits, scratch.counts, scratch.expected, scratch.excess, scratch.steps,
    )  # fmt: skip
    which, values = scratch.which, scratch.values
    size = len(tables.entropy)
    n, n_steps, ordered = size - 3, len(tables.target), tables.memory.shape[0] > 1
    made = _read(tables.place, n, units, u, rows, columns)
    surprise, memory, length, new_labels, odd_steps = 0.0, 0.0, 0.0, 0.0, 0.0
    n_visited, before = 0, 0
    for t in range(made):
        i, j = rows[t], columns[t]
        loss = tables.surprise[i, j]
        surprise += loss - tables.entropy[i]
        if ordered and t > 0:
            memory += tables.memory[before, i, j]
        before = i
        if j <= n:
            length += 1.0
        if j == n:
            new_labels += 1.0
        elif i != n:
            odd_steps += tables.odd[i, j]
        if visits[i] == 0.0:
            visited[n_visited] = i
            n_visited += 1
        visits[i] += 1.0
        counts[j] += 1.0
        excess[i] += loss - tables.entropy[i]
        steps[tables.slot[i, j]] += 1.0
    for k in range(GENERAL):
        which[k] = k
    values[0], values[1], values[2], values[3], values[4] = surprise, memory, length, new_labels, odd_steps
    q = GENERAL
    for k in range(n_visited):
        i = visited[k]
        times = visits[i]
        for j in range(size):
            expected[j] += times * tables.p[i, j]
        for s in range(tables.pointer[i], tables.pointer[i + 1]):
            which[q], values[q] = GENERAL + s, steps[s] - times * tables.p[i, tables.target[s]]
            steps[s] = 0.0
            q += 1
        if tables.entropy[i] > SPREAD:
            which[q], values[q] = GENERAL + n_steps + size + i, excess[i]
            q += 1
        visits[i], excess[i] = 0.0, 0.0
    steps[n_steps] = 0.0
    for j in range(size):
        if expected[j] > EXPECTED:
            which[q], values[q] = GENERAL + n_steps + j, counts[j] - expected[j]
            q += 1
        counts[j], expected[j] = 0.0, 0.0
    return q


# --- Learning from A


@kernel
def _read_all(place: Codes, n: int, units: Units, rows: Codes, columns: Codes, offsets: Ints) -> None:
    at = 0
    for u in range(len(units.how)):
        at += _read(place, n, units, u, rows[at:], columns[at:])
        offsets[u + 1] = at


@kernel
def _logarithms(values: Floats) -> None:
    for i in range(len(values)):
        values[i] = log(values[i])


@kernel
def _thrice(rows: Codes, columns: Codes, offsets: Ints, counts: NDArray[np.float32]) -> None:
    for u in range(len(offsets) - 1):
        for t in range(offsets[u] + 1, offsets[u + 1]):
            counts[rows[t - 1], rows[t], columns[t]] += 1.0


@kernel
def _collect(tables: Tables, units: Units, scratch: Scratch, which: Ints, values: Floats) -> int:
    """The scores of all units, stage after stage in numbers; without room, only their number."""
    made = 0
    for u in range(len(units.how)):
        q = score(tables, units, u, scratch)
        for k in range(q):
            if len(which):
                which[made], values[made] = units.stage[u] * len(scratch.which) + scratch.which[k], scratch.values[k]
            made += 1
    return made


@part(inline=False)
def _tilt(shares: Floats, z: Floats, sign: float, target: float, out: Floats) -> None:
    """Exponential tilt of a distribution whose information is `target` nats, or as close as it gets, by bisection."""
    n, low, high = len(shares), 0.0, 1.0
    for step in range(60):
        slope = high if step < 12 else 0.5 * (low + high)
        top = -1e300
        for b in range(n):
            top = max(top, sign * slope * z[b])
        total = 0.0
        for b in range(n):
            out[b] = exp(sign * slope * z[b] - top)
            total += shares[b] * out[b]
        information = 0.0
        for b in range(n):
            out[b] /= total
            if out[b] > 1e-300:
                information += shares[b] * out[b] * log(out[b])
        if step < 12:
            if information < target:
                low, high = high, 2.0 * high
        elif information < target:
            low = slope
        else:
            high = slope
        if step >= 12 and abs(information - target) < 0.02 * target:
            break
    for b in range(n):
        out[b] = SAFE + (1.0 - SAFE) * out[b]


@part(inline=False)
def _edges(values: Floats, edges: Floats) -> int:
    """Edges between distinct sorted values, or at quantiles if there are too many; returns their number."""
    m, distinct = len(values), 1
    for x in range(1, m):
        if values[x] > values[x - 1] + 1e-9:
            distinct += 1
    made = 0
    if distinct <= N_BINS:
        for x in range(1, m):
            if values[x] > values[x - 1] + 1e-9:
                edges[made] = 0.5 * (values[x] + values[x - 1])
                made += 1
        return made
    for b in range(N_BINS - 1):
        level = 0.03 + 0.94 * (b - 2) / (N_BINS - 6)
        if b < 2:
            level = 0.002 if b == 0 else 0.01
        elif b > N_BINS - 4:
            level = 0.99 if b == N_BINS - 3 else 0.998
        edge = values[min(int(level * m), m - 1)] + 1e-9
        if (made == 0 or edge > edges[made - 1] + 1e-9) and edge < values[m - 1]:
            edges[made] = edge
            made += 1
    return made


@part(inline=False)
def _shape(values: Floats, edges: Floats, n_edges: int, ranks: Floats, bets: Floats) -> None:
    """A's distribution over the bins and the tilted bets, from the largest score down; `values` are sorted."""
    m, n = len(values), n_edges + 1
    counts, sums, shares, z, tilted = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    b = 0
    for x in range(m):
        while b < n_edges and values[x] > edges[b]:
            b += 1
        counts[b] += 1.0
        sums[b] += values[x]
    mean, spread, passed = 0.0, 0.0, 0.0
    for b in range(n):
        shares[b] = (counts[b] + 0.25) / (m + 0.25 * n)
        z[b] = sums[b] / counts[b] if counts[b] > 0.0 else edges[min(b, n_edges - 1)]
        mean += shares[b] * z[b]
    for b in range(n):
        spread += shares[b] * (z[b] - mean) ** 2
        passed += shares[n - 1 - b]
        ranks[b] = passed
    ranks[n - 1] = 2.0  # every rank is at most this
    if spread <= 1e-18 or n < 2 or m < 8:
        return
    for b in range(n):
        z[b] = (z[b] - mean) / np.sqrt(spread)
    for h in range(N_BETS):
        _tilt(shares, z, 1.0 if h < 5 else -1.0, INFORMATION[h % 5], tilted)
        for b in range(n):
            bets[b, h] = tilted[n - 1 - b]


@part(inline=False)
def _favour_tails(ranks: Floats, bets: Floats) -> None:
    """Bets on small ranks, whatever A's distribution: most units of A have no new label and no odd step."""
    for b in range(len(TAILS) + 1):
        if b < len(TAILS):
            ranks[b] = TAILS[b]
        for h in range(N_BETS):
            share, tail = TAIL_SHARES[h // 5], h % 5
            bets[b, h] = 1.0 - share + share / TAILS[tail] if b <= tail else 1.0 - share


@kernel
def _shape_all(order: Ints, which: Ints, values: Floats, per_stage: int, tables: Tables) -> None:
    at = 0
    for k in range(len(tables.weights)):
        begin = at
        while at < len(order) and which[order[at]] == k:
            at += 1
        general, n_edges = k % per_stage, 0
        if general == 3 or general == 4:
            n_edges = len(NEW_LABELS) if general == 3 else len(ODD_STEPS)
            for b in range(n_edges):
                tables.edges[k, b] = NEW_LABELS[b] if general == 3 else ODD_STEPS[b]
            _favour_tails(tables.ranks[k], tables.bets[k])
        elif at - begin >= 2:
            n_edges = _edges(values[order[begin:at]], tables.edges[k])
            _shape(values[order[begin:at]], tables.edges[k], n_edges, tables.ranks[k], tables.bets[k])
        tables.n_bins[k] = n_edges + 1


def learn(units: Units, n_labels: int, longest: int) -> Tables:
    """Tables from the units of A.

    Parameters
    ----------
    units : Units
        Of all stages; ``number`` is the sequence.
    n_labels : int
        Number of labels of the monitor's reference.
    longest : int
        Largest number of steps of a unit.
    """
    place, n = _places(units.codes, n_labels)
    size = n + 3
    offsets = np.zeros(len(units.how) + 1, np.int64)
    rows, columns = (np.zeros(len(units.codes) + len(units.how), np.int32) for _ in range(2))
    _read_all(place, n, units, rows, columns, offsets)
    rows, columns = rows[: offsets[-1]], columns[: offsets[-1]]
    pairs = np.bincount(rows.astype(np.int64) * size + columns, minlength=size * size)
    counts = pairs.astype(np.float64).reshape(size, size)
    p = _probabilities(counts, columns, np.repeat(units.number, np.diff(offsets)), n)
    logarithms = p.ravel().copy()
    _logarithms(logarithms)
    surprise = -logarithms.reshape(size, size)
    odd = (1.0 - NOISE + NOISE * (counts.sum(axis=0) / counts.sum()) / p).ravel()
    _logarithms(odd)
    odd = np.maximum(odd, 0.0).reshape(size, size)
    memory = np.zeros((1, 1, 1), np.float32)
    if size <= MEMORY:
        memory = np.zeros((size, size, size), np.float32)
        _thrice(rows, columns, offsets, memory)
        ratio = ((memory + 4.0 * p) / (memory.sum(axis=2, keepdims=True) + 4.0)).ravel()
        _logarithms(ratio)
        memory = (ratio.reshape(memory.shape) + surprise).astype(np.float32)
    step_rows, target, slot = _scored_steps(counts, p)
    n_stages = _n_stages(units)
    per_stage = GENERAL + len(target) + 2 * size
    total = n_stages * per_stage
    tables = Tables(
        place, p, surprise, (p * surprise).sum(axis=1), memory, odd, counts < 0.5, slot, target,
        np.concatenate([[0], np.cumsum(np.bincount(step_rows, minlength=size))]).astype(np.int64),
        np.full((total, ROOM), np.inf), np.ones(total, np.int64), np.full((total, ROOM), 2.0),
        np.ones((total, ROOM, N_BETS)), np.zeros(total),
    )  # fmt: skip
    scratch = scratch_for(size, len(target), longest)
    made = _collect(tables, units, scratch, np.zeros(0, np.int64), np.zeros(0))
    which, values = np.zeros(made, np.int64), np.zeros(made)
    _collect(tables, units, scratch, which, values)
    _shape_all(np.lexsort((values, which)), which, values, per_stage, tables)
    _weigh(tables, np.bincount(which, minlength=total)[:total])
    return tables


def _places(codes: Codes, n_labels: int) -> tuple[Codes, int]:
    """The row of each label, and the number n of rows: n for labels that A does not have."""
    counts = np.bincount(codes, minlength=n_labels)
    order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    n = min(len(order), LABELS)
    place = np.full(len(counts), n, np.int32)
    place[np.sort(order[:n])] = np.arange(n, dtype=np.int32)
    if len(order) > n:  # the rarer ones share row n, and new labels come after it
        place[counts == 0] = n + 1
        n += 1
    return place, n


def _probabilities(counts: Floats, columns: Codes, owner: Ints, n: int) -> Floats:
    """Step probabilities, shrunk towards the shares of the columns; new labels have Good and Turing's mass."""
    size = n + 3
    held = np.bincount(np.unique(owner * size + columns) % size, minlength=size)
    singles = int(np.count_nonzero(held[:n] == 1))
    new = (singles + 0.5) / (counts.sum() + 1.0)
    shares = counts.sum(axis=0) + 0.5
    shares[n] = 0.0
    shares *= (1.0 - new) / shares.sum()
    shares[n] = new
    p: Floats = (counts + shares) / (counts.sum(axis=1, keepdims=True) + 1.0)
    return p


def _scored_steps(counts: Floats, p: Floats) -> tuple[Ints, Codes, Codes]:
    """Rows and columns of the steps that have a score of their own, by row; and a table of their places."""
    rows, columns = np.nonzero((counts >= VISITS) & (p < CERTAIN))
    most = np.sort(np.argsort(-counts[rows, columns], kind="stable")[:STEPS])
    rows, columns = rows[most], columns[most]
    slot = np.full(counts.shape, len(rows), np.int32)
    slot[rows, columns] = np.arange(len(rows))
    return rows, columns.astype(np.int32), slot


def _n_stages(units: Units) -> int:
    """Number of stages that enough sequences of A reach."""
    reached = np.bincount(units.stage)
    few = np.flatnonzero(reached < FEWEST)
    return max(int(few[0]) if len(few) else len(reached), 1)


def _weigh(tables: Tables, n_units: Ints) -> None:
    """Weights that sum to at most 1: within a stage by group and by units, between stages 1/2, 1/4, ..."""
    n_stages, per_stage, size = tables.n_stages, tables.per_stage, len(tables.entropy)
    first_label, first_row = GENERAL + len(tables.target), GENERAL + len(tables.target) + size
    groups = (GENERAL, first_label), (first_label, first_row), (first_row, per_stage)
    halves = 0.5 ** np.arange(n_stages)
    for stage in range(n_stages):
        at = stage * per_stage
        weights = tables.weights[at : at + per_stage]
        weights[:GENERAL] = WEIGHTS
        for (begin, end), weight in zip(groups, SHARED, strict=True):
            share = n_units[at + begin : at + end] + 1.0
            weights[begin:end] = weight * share / share.sum() if end > begin else 0.0
        weights *= halves[stage] / halves.sum()
