"""States and steps before and after, tested by whole sequences; corresponding states with intervals.

Findings compare how many sequences have a state or a step. Their p-values are exact for exchangeable sequences, so they
need no design effect, and they find what is rare: a state that only 40 of 1,600 sequences reach hardly changes the
distance or the rows.

Intervals of corresponding states come from half-samples. The difference of a half-sample from the whole has the
variance of the whole from the truth. Noise blurs the coupling, so half-samples are blurred more than the whole, and the
whole more than the truth: the interval extends to the side of the truth by the bias that the half-samples show, which
falls as one over the square root of the size where the coupling is at a corner. Optimal couplings need not be unique,
and then the true probability is a range: the interval contains all of it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from somcot.contributions import Findings, RowCounts, StateChange, StepChange, Tally, Visits, names_count
from somcot.couplings import Match, MatchInterval
from somcot.inference.comparison import on_entries_of
from somcot.inference.model import Model
from somcot.inference.statistics import adjusted_pvalues
from somcot.inference.strata import Strata
from somcot.inference.units import Engine, WholeSequences, choose_units, chosen_engine, engine_of
from somcot.plumbing.arrays import Floats, Ints
from somcot.plumbing.checks import check_confidence
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note
from somcot.problem import Data, UnitProblem
from somcot.recorded.pair_counts import occurrences
from somcot.result import Result
from somcot.samples import Samples

if TYPE_CHECKING:
    from somcot.core.sweep import Sweep

__all__ = ["count_visits", "findings", "hypergeometric_pvalues", "log_factorial", "matches", "shown_matches", "spread"]

_LEVEL = 0.05
_AT_ONCE = 1 << 16  # transitions: arrays that stay in the cache
_NEGLIGIBLE = 1e-17  # of a tail


def spread(keys: Ints, side_keys: Ints, values: Floats) -> Floats:
    """Values of a side on all keys, 0 for keys that it does not have."""
    order = np.argsort(side_keys, kind="stable")
    # A key beyond the last one is clipped, and then found to be absent below.
    at = np.minimum(np.searchsorted(side_keys, keys, sorter=order), max(len(side_keys) - 1, 0))
    present = side_keys[order][at] == keys if len(side_keys) else np.zeros(len(keys), np.bool_)
    return np.where(present, values[order][at] if len(side_keys) else 0.0, 0.0)


# --- States and steps before and after, by whole sequences


def findings(result: Result) -> Findings:
    """States and steps of both processes, the most important first; see `somcot.Result.findings`."""
    makeup = result.makeup
    if makeup is None or not names_count(result.states_x, result.states_y, makeup.cost, result.state_law):
        return Findings((), (), None, clock=result.clock)
    states = tuple(dict.fromkeys((*result.states_x, *result.states_y)))
    place = {label: i for i, label in enumerate(states)}
    tallies = makeup.visits()
    sides = zip((result.states_x, result.states_y), (makeup.x, makeup.y), (1, 0), strict=True)
    times = [
        _times(np.array([place[label] for label in own]), rows, result.state_law.sum(axis=axis), len(states))
        for own, rows, axis in sides
    ]
    parts = []
    for k, tally in enumerate((None, None) if tallies is None else (tallies.states, tallies.steps)):
        keys = np.concatenate([times[0][k][0], times[1][k][0], *(() if tally is None else (tally.keys,))])
        keys = np.unique(keys)
        parts.append(_Changes.of(keys, [spread(keys, *side[k]) for side in times], tally))
    # States and steps are one family of tests, adjusted together.
    adjusted = _adjusted(np.concatenate([part.pvalues for part in parts]), np.concatenate([p.least for p in parts]))
    n, (of_states, of_steps), sizes = len(states), parts, None if tallies is None else tallies.sizes
    first, second = adjusted[: len(of_states.keys)], adjusted[len(of_states.keys) :]
    return Findings(
        tuple(StateChange(states[int(of_states.keys[k])], *row) for k, row in of_states.ordered(first, sizes)),
        tuple(
            StepChange(states[int(of_steps.keys[k]) // n], states[int(of_steps.keys[k]) % n], *row)
            for k, row in of_steps.ordered(second)
        ),
        sizes,
        "sequences" if tallies is None else tallies.units,
        result.clock,
    )


def _times(
    numbers: Ints, rows: RowCounts, occupancy: Floats, n: int
) -> tuple[tuple[Ints, Floats], tuple[Ints, Floats]]:
    """Weighted time of each state and of each step of one side, by keys in the union; staying at the end is no step."""
    size = int(rows.indptr[-2])
    now = np.repeat(np.arange(len(numbers)), np.diff(rows.indptr[:-1]))
    flow = occupancy[now] * rows.probabilities[:size]
    steps = (flow > 0.0) & ~rows.absorbing[now]
    visited = occupancy > 0.0
    keys = numbers[now[steps]] * n + numbers[rows.indices[:size][steps]]
    return (numbers[visited], occupancy[visited]), (keys, flow[steps] / max(float(flow[steps].sum()), 1e-300))


class _Changes(NamedTuple):
    """States or steps by key: events and units of both recordings (-1: unknown), weighted times, p-values."""

    keys: Ints
    events: Ints
    units: Ints
    times: Floats
    pvalues: Floats
    least: Floats

    @classmethod
    def of(cls, keys: Ints, times: Sequence[Floats], tally: Tally | None) -> _Changes:
        """Rows for `keys`, which include those of the tally."""
        events, units = np.full((2, len(keys)), -1), np.full((2, len(keys)), -1)
        pvalues, least = np.full(len(keys), np.nan), np.ones(len(keys))
        if tally is not None:
            # A known chain has no events on its side; other sides have none of what is not in their tally.
            events = np.broadcast_to(np.minimum(tally.events.min(axis=1, initial=0), 0)[:, None], events.shape).copy()
            units = np.broadcast_to(np.minimum(tally.units.min(axis=1, initial=0), 0)[:, None], units.shape).copy()
            at = np.searchsorted(keys, tally.keys)
            events[:, at], units[:, at] = tally.events, tally.units
            pvalues[at], least[at] = tally.pvalues, tally.least
        return cls(keys, events, units, np.stack(times), pvalues, least)

    def ordered(self, adjusted: Floats, sizes: tuple[int, int] | None = None) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Rows of a record: significant ones first, new and vanished ones before others, largest differences first.

        Differences are those of the weighted times or, with the `sizes` of both recordings, of the shares of units.
        """
        # Events decide what is new, if they are known; otherwise the chain does.
        present = np.where(self.events >= 0, self.events > 0, self.times > 0.0)
        alone, marked = present[0] != present[1], adjusted <= _LEVEL
        shares = self.times if sizes is None else self.units / np.array(sizes)[:, None]
        moves = change = shares[1] - shares[0]
        if sizes is not None:
            # What most units contain is tested by how often they do, as in `_tested`.
            often = (self.units.sum(axis=0) > sum(sizes) / 2) & (self.events >= 0).all(axis=0)
            moves = np.where(often, self.events[1] / sizes[1] - self.events[0] / sizes[0], change)
        # Keys come last, so that ties have a fixed order.
        for k in np.lexsort((self.keys, -np.abs(change), ~alone, ~marked)).tolist():
            kind = "vanished" if alone[k] and present[0, k] else "new" if alone[k] else ""
            # If means are equal but the test rejects, the share of the time says in which recording there is more.
            grows = np.sign(moves[k]) or marked[k] * np.sign(self.times[1, k] - self.times[0, k])
            counts = (None if c < 0 else int(c) for c in (*self.events[:, k], *self.units[:, k]))
            yield k, (
                *counts, *self.times[:, k].tolist(), float(self.pvalues[k]), float(adjusted[k]), bool(marked[k]),
                kind or ("more" if grows > 0 else "less" if grows < 0 else "equal"),
            )  # fmt: skip


def _adjusted(pvalues: Floats, least: Floats) -> Floats:
    """Adjusted p-values; what could not be significant, given how often it occurs at all, does not count (Tarone)."""
    known = ~np.isnan(pvalues) & (least <= _LEVEL)
    adjusted = np.where(np.isnan(pvalues), np.nan, 1.0)
    if known.any():
        adjusted[known] = adjusted_pvalues(pvalues[known])
    return adjusted


def count_visits(
    x: Data | None, y: Data | None, strata: Strata | None, states: tuple[Sequence[Hashable], Sequence[Hashable]]
) -> Visits:
    """Visits of states and steps in two recordings, with tests if both have exchangeable sequences.

    `states` are those of the two fitted chains; keys refer to their union. None stands for a known chain.
    """
    place = {label: i for i, label in enumerate(dict.fromkeys((*states[0], *states[1])))}
    n, data = len(place), (x, y)
    engine = None
    if isinstance(x, Samples) and isinstance(y, Samples) and x.n_episodes and y.n_episodes:
        engine = chosen_engine([x, y], strata)[0]
    if not isinstance(engine, WholeSequences):
        return Visits(_untested(data, place, n, steps=False), _untested(data, place, n, steps=True), None)
    sizes = len(engine.bounds[0]) - 1, len(engine.bounds[1]) - 1
    groups = np.zeros(sum(sizes), dtype=np.int64) if strata is None else strata.pooled
    sides = list(zip(engine.recordings, engine.bounds, strict=True))
    tables = [_tested([_cells(*side, place, steps=steps) for side in sides], sizes, groups) for steps in (False, True)]
    # Blocks are more numerous than the sequences they were cut from.
    whole = sum(sizes) == engine.pooled.n_episodes
    return Visits(tables[0], tables[1], sizes, "sequences" if whole else "blocks")


def _untested(data: tuple[Data | None, Data | None], place: dict[Hashable, int], n: int, *, steps: bool) -> Tally:
    """Events of recordings without sequences, or with only one recorded side."""
    sides: list[tuple[Ints, Floats]] = []
    for side in data:
        if side is None:
            sides.append((np.empty(0, np.int64), np.empty(0)))
            continue
        seen, numbers = side.pair_counts, np.array([place[label] for label in side.states], dtype=np.int64)
        keys = numbers[seen.rows] * n + numbers[seen.columns] if steps else numbers[seen.rows]
        own, which = np.unique(keys, return_inverse=True)
        sides.append((own, np.bincount(which, seen.values, len(own)).astype(np.float64)))
    keys = np.union1d(sides[0][0], sides[1][0])
    events = np.stack([
        np.full(len(keys), -1) if side is None else spread(keys, *own).astype(np.int64)
        for side, own in zip(data, sides, strict=True)
    ])  # fmt: skip
    return Tally(keys, events, np.full(events.shape, -1), np.full(len(keys), np.nan), np.ones(len(keys)))


class _Cells(NamedTuple):
    """How often what occurs does so in each unit: `units` and `counts` of key number k are from ``first[k]`` on."""

    keys: Ints
    first: Ints
    units: NDArray[np.int32]
    counts: NDArray[np.int32]

    @property
    def n_units(self) -> Ints:
        """Number of units with each key."""
        return np.diff(self.first)

    def sums(self, values: NDArray[Any]) -> Ints:
        """Sums over the units of each key."""
        return np.add.reduceat(values, self.first[:-1], dtype=np.int64)


def _cells(samples: Samples, bounds: Ints, place: dict[Hashable, int], *, steps: bool) -> _Cells:
    """How often each state or each step occurs in each unit."""
    assert samples.offsets is not None
    n, numbers = samples.n_states, np.array([place[label] for label in samples.states], dtype=np.int64)
    if steps:
        seen = samples.pair_counts
        last = np.full(len(bounds) - 1, -1, dtype=np.int32)
        keys = _numbered(samples, seen.rows * n + seen.columns)
        found = numbers[seen.rows] * len(place) + numbers[seen.columns]
    else:  # the last state of a sequence begins no step, but it is visited
        last = np.where(np.isin(bounds[1:], samples.offsets), samples.following[bounds[1:] - 1], np.int32(-1))
        keys, found = samples.now, numbers
    for array in (keys, bounds):
        array.setflags(write=False)  # as in recordings: arrays that can be written would trigger another compilation
    first, *cells = occurrences(keys, bounds, last, len(found))
    present = np.diff(first) > 0
    return _Cells(found[present], np.append(first[:-1][present], first[-1]), *cells)


def _numbered(samples: Samples, keys: Ints) -> NDArray[np.int32]:
    """The place of each transition among sorted `keys`."""
    n, places = samples.n_states, np.empty(samples.n_transitions, dtype=np.int32)
    table = np.searchsorted(keys, np.arange(n * n)).astype(np.int32) if n * n <= len(places) else None
    for begin in range(0, len(places), _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        wanted = samples.now[part].astype(np.int64) * n + samples.following[part]
        places[part] = np.searchsorted(keys, wanted) if table is None else table[wanted]
    return places


def _tested(sides: Sequence[_Cells], sizes: tuple[int, int], groups: Ints) -> Tally:
    """Counts of what occurs, and exact p-values of equal numbers of units above a threshold."""
    keys = np.union1d(sides[0].keys, sides[1].keys)
    at = [np.searchsorted(keys, side.keys) for side in sides]
    events, units = np.zeros((2, len(keys)), dtype=np.int64), np.zeros((2, len(keys)), dtype=np.int64)
    for k, (side, own) in enumerate(zip(sides, at, strict=True)):
        events[k, own], units[k, own] = side.sums(side.counts), side.n_units
    threshold = np.zeros(len(keys), dtype=np.int32)
    # What most units contain is compared by how often they do, at the threshold that divides the units most evenly.
    for k in np.flatnonzero(units.sum(axis=0) > sum(sizes) / 2).tolist():
        own_counts = [side.counts[np.repeat(own == k, side.n_units)] for side, own in zip(sides, at, strict=True)]
        times = np.bincount(np.concatenate(own_counts))
        levels = np.append(0, np.flatnonzero(times))
        more = times.sum() - np.cumsum(times)[levels]
        threshold[k] = levels[np.argmin(np.abs(more - sum(sizes) / 2))]
    n_groups, whose = int(groups.max()) + 1, (groups[: sizes[0]], groups[sizes[0] :])
    above = np.zeros((2, len(keys), n_groups), dtype=np.int64)
    for k, (side, own, group) in enumerate(zip(sides, at, whose, strict=True)):
        high = side.counts > np.repeat(threshold[own], side.n_units)
        if n_groups == 1:
            above[k, own, 0] = side.sums(high)
        else:
            cell = np.repeat(own * n_groups, side.n_units) + group[side.units]
            above[k] = np.bincount(cell[high], minlength=above[k].size).reshape(above[k].shape)
    members = np.stack([np.bincount(group, minlength=n_groups) for group in whose])
    return Tally(keys, events, units, *_exact_pvalues(above, members))


def _exact_pvalues(above: Ints, members: Ints) -> tuple[Floats, Floats]:
    """Two-sided p-values of the number of units above their threshold in the first recording, given all margins.

    `above` is (2, n_keys, n_groups), `members` (2, n_groups): units are exchangeable within groups. Also the least
    p-value that any outcome with these margins has.
    """
    total, (m, k) = above.sum(axis=0), members
    low, high = np.maximum(total - k, 0), np.minimum(total, m)
    if len(m) == 1:
        ends = [_hypergeometric(end[:, 0], m[0], k[0], total[:, 0]) for end in (low, high)]
        pvalues = hypergeometric_pvalues(above[0, :, 0], m[0], k[0], total[:, 0])
        return pvalues, np.minimum(2.0 * np.minimum(*ends), 1.0)
    pvalues, least = np.empty(len(total)), np.empty(len(total))
    for row, (seen, start, end) in enumerate(zip(total, low, high, strict=True)):
        law = np.ones(1)
        for g in np.flatnonzero(end > start).tolist():  # groups in which anything can differ
            law = np.convolve(law, _hypergeometric(np.arange(start[g], end[g] + 1), m[g], k[g], seen[g]))
        at = int(above[0, row].sum() - start.sum())
        pvalues[row] = min(2.0 * min(law[: at + 1].sum(), law[at:].sum()), 1.0)
        least[row] = min(2.0 * min(law[0], law[-1]), 1.0)
    return pvalues, least


def hypergeometric_pvalues(a: ArrayLike, m: ArrayLike, k: ArrayLike, drawn: ArrayLike) -> Floats:
    """Twice the smaller tail, at most 1, at `a` marked units of `drawn` ones from `m` marked and `k` others."""
    a, m, k, drawn = np.broadcast_arrays(*(np.asarray(number, dtype=np.float64) for number in (a, m, k, drawn)))
    here, right = _hypergeometric(a, m, k, drawn), a * (m + k) >= drawn * m
    # The tail away from the mean, whose terms fall; a lower tail is an upper one of the others.
    a, m, k = np.where(right, a, drawn - a), np.where(right, m, k), np.where(right, k, m)
    term, tail = np.ones(a.shape), np.ones(a.shape)
    while np.any(term > _NEGLIGIBLE * tail):
        term = term * ((m - a) * (drawn - a) / ((a + 1.0) * (k - drawn + a + 1.0)))
        tail, a = tail + term, a + 1.0
    tail = np.minimum(here * tail, 1.0)
    return np.minimum(2.0 * np.minimum(tail, 1.0 - tail + here), 1.0)


def _hypergeometric(a: ArrayLike, m: ArrayLike, k: ArrayLike, drawn: ArrayLike) -> Floats:
    """The probability of `a` marked units."""

    def ways(n: ArrayLike, r: ArrayLike) -> Floats:
        n, r = np.asarray(n, dtype=np.float64), np.asarray(r, dtype=np.float64)
        return log_factorial(n) - log_factorial(r) - log_factorial(n - r)

    return np.asarray(np.exp(ways(m, a) + ways(k, np.subtract(drawn, a)) - ways(np.add(m, k), drawn)))


_SMALL_FACTORIALS = np.array([math.lgamma(k + 1.0) for k in range(16)])


def log_factorial(n: Floats) -> Floats:
    """The logarithm of n! for integers, infinite below 0: Stirling's series from 16 on.

    SciPy's functions would take longer to import than a comparison of two small logs.

    Examples
    --------
    >>> np.exp(log_factorial(np.array([0.0, 4.0, 20.0]))).round(3).tolist()
    [1.0, 24.0, 2.43290200817664e+18]
    """
    x = np.maximum(n, 16.0) + 1.0
    square = 1.0 / (x * x)
    # Bernoulli numbers: 1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188; the next term is below 1e-16.
    rest = (((square / 1188.0 - 1.0 / 1680.0) * square + 1.0 / 1260.0) * square - 1.0 / 360.0) * square + 1.0 / 12.0
    large = (x - 0.5) * np.log(x) - x + 0.5 * math.log(2.0 * math.pi) + rest / x
    small = _SMALL_FACTORIALS[np.clip(n, 0, 15).astype(np.int64)]
    return np.where(n < 0, np.inf, np.where(n < 16, small, large))


# --- Corresponding states with intervals

_SPLITS = 20  # into halves
_FEW_PAIRS = 400  # pairs of states up to which all solves take a fraction of a second
_SMALL = 1e-7  # change of a cost of known chains, relative to the range of all costs
_SLOW = 1.0 / (np.sqrt(2.0) - 1.0)  # bias of the whole, in units of how much more biased its halves are


def matches(result: Result, confidence: float, most: int | None = None) -> list[MatchInterval]:
    """`Result.matches` with intervals, of the `most` most visited states; see there."""
    check_confidence(confidence)
    makeup = result.makeup
    if makeup is None or result.clock.name != "discount" or result.continuous is not None:
        raise ValueError(
            "confidence: intervals of matches exist for chains and recordings under a discount, by method 'auto', "
            "'exact' or 'plugin'; leave out confidence"
        )
    models: tuple[Model, Model] | None = getattr(result.details, "models", None)
    if result.n_samples and models is None:
        raise ValueError("confidence: a result that was loaded from a file has no recordings; compute it again")
    sides = makeup.x.probabilities, makeup.y.probabilities
    occupancy, best = result.state_law.sum(axis=1), result.encoder.argmax(axis=1)
    centre, halves = _optimal(result, *sides), []
    if models is not None and result.n_samples:
        pairs = zip(*_halves(result, models), strict=True)
        halves = [_optimal(result, *half)._replace(sweep=None) for half in pairs]  # their arrays are large
    noise = _Noise.of(centre, halves, result.discount, -NormalDist().inv_cdf(0.5 - 0.5 * confidence))
    for note in result.notes:
        if isinstance(note, Note) and note.code == "fitted-model":  # their errors are not in the intervals
            warn(note, DataWarning)
    rows = []
    for i in np.argsort(-occupancy, kind="stable")[:most].tolist():
        if occupancy[i] <= 0.0:
            continue
        j, own = int(best[i]), [centre.encoder[i]]
        for sign in (1.0, -1.0):  # the optimal couplings that have the fewest, and the most, of these two states
            change = np.zeros(makeup.cost.shape)
            change[i, j] = sign * noise.tilt[i, j]
            own.append(_optimal(result, *sides, change, centre).encoder[i])
        low, high, determined = noise.ends(i, j, np.stack(own))
        p = float(result.encoder[i, j])
        rows.append(
            MatchInterval(
                result.states_x[i], result.states_y[j], p, float(occupancy[i]), min(low, p), max(high, p), determined
            )
        )
    return rows


def shown_matches(result: Result, most: int) -> list[Match] | list[MatchInterval]:
    """The first matches of a report: with the intervals of the result's confidence if these take little time."""
    small, interval = len(result.states_x) * len(result.states_y) <= _FEW_PAIRS, result.confidence_interval
    if not small or interval is None or getattr(result.details, "models", None) is None:
        return result.matches()[:most]
    known = result.makeup is not None and result.clock.name == "discount" and result.continuous is None
    return matches(result, interval.level, most) if known else result.matches()[:most]


class _Plan(NamedTuple):
    """The encoder of an optimal coupling, and the potential of the pairs of states on the unit scale."""

    encoder: Floats
    V: Floats
    sweep: Sweep | None


class _Noise(NamedTuple):
    """How far a coupling may be from those of the true processes.

    Couplings that are optimal for the true processes are optimal, or nearly so, for the recorded ones. So the interval
    contains the probabilities of all that are optimal up to the noise: the extreme ones among these are optimal if the
    cost of the two states is larger, or smaller, by what the noise of the potential makes of it (`tilt`).
    """

    tilt: Floats
    halves: Floats
    centre: Floats
    quantile: float

    @classmethod
    def of(cls, centre: _Plan, halves: Sequence[_Plan], discount: float, quantile: float) -> _Noise:
        if not halves:
            small = np.full(centre.V.shape, _SMALL)
            return cls(small, centre.encoder[None], centre.encoder, quantile)
        # What rows and columns have in common changes no coupling. Another coupling exchanges partners of two pairs, so
        # its cost differs by four entries of the rest: these two states, those next to them and those across.
        change = discount * (np.stack([plan.V for plan in halves]) - centre.V)
        change -= change.mean(axis=1, keepdims=True)
        change -= change.mean(axis=2, keepdims=True)
        square = np.mean(change**2, axis=0)
        four = square + square.mean(axis=0) + square.mean(axis=1, keepdims=True) + square.mean()
        # Errors of this choice would add to those of the probability: at twice the quantile they hardly occur.
        tilt = np.maximum(2.0 * quantile * np.sqrt(four), _SMALL)
        return cls(tilt, np.stack([plan.encoder for plan in halves]), centre.encoder, quantile)

    def ends(self, i: int, j: int, rows: Floats) -> tuple[float, float, bool]:
        """The interval of the probability of `j` given `i`, and whether no other partner is as frequent.

        `rows` are the probabilities of all partners of `i` in optimal couplings.
        """
        halves, centre = self.halves[:, i], self.centre[i]
        reach = self.quantile * np.sqrt(np.mean((halves - centre)[:, j] ** 2))
        shift = float(centre[j] - halves[:, j].mean())  # towards the truth
        low = rows[:, j].min() - reach + _SLOW * min(shift, 0.0)
        high = rows[:, j].max() + reach + _SLOW * max(shift, 0.0)
        lead, leads = rows[:, j, None] - rows, halves[:, j, None] - halves - (centre[j] - centre)
        least = lead.min(axis=0) - self.quantile * np.sqrt(np.mean(leads**2, axis=0))
        determined = bool((np.delete(least, j) > _SMALL).all())
        return float(np.clip(low, 0.0, 1.0)), float(np.clip(high, 0.0, 1.0)), determined


def _optimal(result: Result, p: Floats, q: Floats, change: Floats | None = None, near: _Plan | None = None) -> _Plan:
    """An optimal coupling of two kernels on the entries of the result; rows of the result where unvisited.

    `change` is added to the unit cost, and `near` is a plan of the same kernels to start with.
    """
    from somcot.core.pairs import reachable_pairs
    from somcot.plumbing.linear_systems import discounted_occupancy
    from somcot.solvers.policy_iteration import iterate

    makeup = result.makeup
    assert makeup is not None
    unit = (makeup.cost - makeup.cost.min()) / (float(np.ptp(makeup.cost)) or 1.0)
    if change is not None:
        unit = unit + change
        unit = (unit - unit.min()) / (float(np.ptp(unit)) or 1.0)
    problem = UnitProblem(on_entries_of(makeup.x.support, p), on_entries_of(makeup.y.support, q), unit, result.discount)
    pairs = reachable_pairs(problem)
    guess, hints = (None, None) if near is None else (near.V, near.sweep)
    solution = iterate(problem, pairs, guess=guess, hints=hints)
    kernel, start = solution.sweep.kernel()
    law, V = np.zeros((2, *unit.shape))
    law[pairs.x, pairs.y] = discounted_occupancy(kernel, start, result.discount)
    V[pairs.x, pairs.y] = solution.V[: len(pairs.x)]
    total = law.sum(axis=1, keepdims=True)
    return _Plan(np.where(total > 0.0, law / np.where(total > 0.0, total, 1.0), result.encoder), V, solution.sweep)


def _halves(result: Result, models: tuple[Model, Model]) -> list[Floats]:
    """Kernels of half-samples of both recordings; those of a known chain are all the same."""
    recorded = [None if model.samples is None else model.samples for model in models]
    strata: Strata | None = getattr(result.details, "strata", None)
    draws = []
    for k, (side, model) in enumerate(zip(recorded, models, strict=True)):
        own, engine = model.chain.support.probabilities, _engine(side, k, recorded, strata)
        if engine is None:
            draws.append(np.broadcast_to(own, (2 * _SPLITS, len(own))))
        else:
            draws.append(engine.kernels(engine.halve(0, _SPLITS, first=k)[:, 0], own))
        del engine  # its table is large
    return draws


def _engine(side: Data | None, k: int, sides: Sequence[Data | None], strata: Strata | None) -> Engine | None:
    """One recording, cut into the units of the estimate; None for a known chain."""
    if side is None:
        return None
    known = [own for own in sides if own is not None]
    chosen = choose_units(known[0], known[-1], "auto", strata)
    return engine_of([side], chosen.length, rows=chosen.rows, strata=None if strata is None else strata.alone(k))
