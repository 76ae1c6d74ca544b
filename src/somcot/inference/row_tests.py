"""Contributions of pairs of states and transitions to a distance, with standard errors and significance marks.

A pair contributes its occupancy under the optimal coupling times its cost. With the optimal bases held fixed, the
occupancy of one pair is a smooth function of the rows; its derivative is that of a distance whose cost is 1 at that
pair and 0 elsewhere.

A transition contributes the derivative of the distance along it times the difference of its probability in the two
processes, half for each process. These contributions sum to the distance if it is proportional to the difference of
the rows, which holds near equality, and approximately otherwise. They are reported only if equal names mean the same
state: if equal names cost less than half of what two random states do. Node 3 of one graph is not node 3 of another.

Standard errors and p-values of single contributions assume independent transitions and are enlarged by the design
effect of the estimate, which is above 1 for sequences with memory. Marks control the false discovery rate (Benjamini
and Hochberg), and there are none if a permutation test of the rows (Pearson, whole episodes, 5 %) does not reject: two
recordings of one process get a mark in at most 5 % of all cases, whatever else is approximate here.

Findings compare how many sequences have a state or a step. Their p-values are exact for exchangeable sequences, so they
need no design effect, and they find what is rare: a state that only 40 of 1,600 sequences reach hardly changes the
distance or the rows.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.contributions import (
    ContributionInputs,
    Contributions,
    Findings,
    PairShare,
    RowCounts,
    StateChange,
    StepChange,
    Tally,
    TransitionShare,
    Visits,
    names_count,
)
from somcot.core.pairs import reachable_pairs
from somcot.core.sweep import Sweep
from somcot.inference.model import Model
from somcot.inference.permutation import Groups
from somcot.inference.statistics import adjusted_pvalues, permute
from somcot.inference.strata import Strata
from somcot.inference.units import WholeSequences, chosen_engine, known_starts_differ
from somcot.plumbing.arrays import Floats, Ints
from somcot.plumbing.checks import check_count
from somcot.plumbing.linear_systems import discounted_occupancy, discounted_value
from somcot.problem import Data, Problem, UnitProblem
from somcot.result import Result
from somcot.samples import Samples

__all__ = ["benjamini_hochberg", "contribution_inputs", "contributions", "count_visits", "findings", "rows_pvalue",
           "same_rows"]  # fmt: skip

_LEVEL = 0.05
_PERMUTATIONS = 199
_LOW_END = 1.645  # standard errors, in addition to the bias, by which the plug-in must exceed 0 without a test


def contributions(result: Result, n: int = 10) -> Contributions:
    """The `n` largest contributions of each kind; see `somcot.Result.contributions`."""
    n = check_count("n", n)
    makeup = result.makeup
    if makeup is None:
        if result.clock.name != "discount":
            raise ValueError(
                f"contributions: not available for {result.clock} if kernels or costs change with time or are rates; "
                "the contributions of pairs are result.state_law times the cost"
            )
        raise ValueError(
            f"contributions: method {result.method!r} keeps no rows and costs; use 'auto', 'exact' or 'plugin'"
        )
    apart = _rows_differ(result)
    return Contributions(_pairs(result, makeup, n, apart), _transitions(result, makeup, n, apart))


def contribution_inputs(problem: Problem, x: Model, y: Model, strata: Strata | None = None) -> ContributionInputs:
    """Inputs of contributions: the rows, the counts of each transition, and a test of the rows."""
    rows = [RowCounts(*model.chain.support, model.counts) for model in (x, y)]
    test = functools.partial(same_rows, x.samples, y.samples, strata)
    counted = functools.partial(count_visits, x.samples, y.samples, strata, (x.chain.states, y.chain.states))
    return ContributionInputs(problem.cost, rows[0], rows[1], test, counted)


def same_rows(x: Data | None, y: Data | None, strata: Strata | None = None) -> float | None:
    """P-value of "the same rows" by permutation of the same units as for an interval; None if not exchangeable."""
    if x is None or y is None or x.discount != y.discount or known_starts_differ(x, y):
        return None
    if set(x.states).isdisjoint(y.states):  # different names rather than rows, such as two clusterings
        return None
    return permute(Groups(chosen_engine([x, y], strata)[0]), 0, _PERMUTATIONS, chi_squared_only=True, threads=1).pvalue


def rows_pvalue(result: Result) -> float | None:
    """The p-value of "the same rows"; None if there is no test or names do not match rows."""
    makeup = result.makeup
    if makeup is None or not names_count(result.states_x, result.states_y, makeup.cost, result.state_law):
        return None
    return makeup.pvalue()


def _rows_differ(result: Result) -> bool:
    if not _judged(result):
        return False
    if result.n_samples == 0:
        return True
    pvalue = rows_pvalue(result)
    return pvalue is None or pvalue <= _LEVEL


def _pairs(result: Result, makeup: ContributionInputs, n: int, apart: bool) -> tuple[PairShare, ...]:
    share = result.state_law * makeup.cost
    order = np.argsort(-share.ravel(), kind="stable")[:n]
    top = [(int(k) // share.shape[1], int(k) % share.shape[1]) for k in order if share.flat[k] > 0]
    errors = _errors(result, makeup, top)
    total = result.plugin or 0.0
    shrunk = result.distance / total if result.plugin is not None and total > 0.0 else 1.0
    marked = np.zeros(len(top), np.bool_)
    if apart and _above_noise(result):
        pvalues = [_upper_tail(shrunk * share[k], e) for k, e in zip(top, errors, strict=True)]
        marked = benjamini_hochberg(np.array(pvalues), int((share > 0).sum()))
    return tuple(
        PairShare(
            result.states_x[i], result.states_y[j], float(share[i, j]), float(error), bool(mark),
            float(result.state_law[i, j]), float(makeup.cost[i, j]),
        )
        for (i, j), error, mark in zip(top, errors, marked, strict=True)
    )  # fmt: skip


def _errors(result: Result, makeup: ContributionInputs, top: list[tuple[int, int]]) -> Floats:
    if not _judged(result):
        return np.full(len(top), np.nan)
    return np.zeros(len(top)) if result.n_samples == 0 else _pair_errors(result, makeup, top)


def _judged(result: Result) -> bool:
    """Whether errors are defined: for known chains, and for data with a discount."""
    return result.n_samples == 0 or result.discount < 1.0


def _above_noise(result: Result) -> bool:
    """Whether the plug-in exceeds what fitting the noise gives; also valid for processes with different states."""
    estimate = result.estimate
    if estimate is None or result.plugin is None:
        return True
    if estimate.pvalue is not None:
        return estimate.pvalue <= _LEVEL
    return result.plugin - estimate.gap - _LOW_END * estimate.standard_error > 0.0


def _effect(result: Result) -> float:
    """Variance of the rows relative to independent transitions, at least 1; above 1 for sequences with memory."""
    return 1.0 if result.estimate is None else max(result.estimate.design_effect, 1.0)


def _pair_errors(result: Result, makeup: ContributionInputs, top: list[tuple[int, int]]) -> Floats:
    """Standard errors of the contributions of pairs, by the delta method with the optimal bases held fixed."""
    supports = makeup.x.support, makeup.y.support
    scale = float(np.abs(makeup.cost).max()) or 1.0
    problem = UnitProblem(*supports, makeup.cost / scale, result.discount)
    pairs = reachable_pairs(problem)
    V = np.where(np.isnan(result.potential), 0.0, result.potential) / scale
    sweep = Sweep(problem, pairs)
    sweep.improve(V)
    kernel, start = sweep.kernel()
    occupancy = discounted_occupancy(kernel, start, result.discount)
    weight = np.append(result.discount * occupancy, 1.0 - result.discount)
    errors = []
    for i, j in top:
        alone = np.zeros(len(pairs))
        alone[pairs.index[i, j]] = makeup.cost[i, j] / scale
        value = discounted_value(kernel, alone, result.discount, alone)
        slots = sweep.potential_sums(pairs.table(value), weight)
        errors.append(scale * np.sqrt(sum(map(_row_variance, (makeup.x, makeup.y), slots))))
    return np.asarray(np.sqrt(_effect(result)) * np.array(errors))


def _row_variance(rows: RowCounts, slopes: Floats) -> float:
    """Sum over rows of the variance of the slopes, divided by the observations of the row; 0 for known rows."""
    support = rows.support
    centred = slopes - support.row_sums(support.probabilities * slopes)[support.rows]
    totals = support.row_sums(rows.counts)[support.rows]
    return float((support.probabilities * centred**2 / np.where(totals > 0, totals, np.inf)).sum())


class _Entries(NamedTuple):
    """One number per transition, from a state that both processes have, that either process shows."""

    states: tuple[Hashable, ...]  # of X, then those that only Y has
    now: NDArray[np.int64]
    following: NDArray[np.int64]
    p: Floats  # in X
    q: Floats  # in Y
    slope: Floats
    seen_x: Floats  # counts, and the totals of their rows
    rows_x: Floats
    seen_y: Floats
    rows_y: Floats


def _transitions(result: Result, makeup: ContributionInputs, n: int, apart: bool) -> tuple[TransitionShare, ...]:
    named = names_count(result.states_x, result.states_y, makeup.cost, result.state_law)
    if result.gradient is None or not named:
        return ()
    entries = _shared_entries(result, makeup)
    amount = entries.slope * (entries.p - entries.q)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.where(entries.rows_x > 0, entries.p * (1 - entries.p) / entries.rows_x, 0.0)
        variance += np.where(entries.rows_y > 0, entries.q * (1 - entries.q) / entries.rows_y, 0.0)
    variance = _effect(result) * variance if _judged(result) else np.full_like(variance, np.nan)
    error = np.abs(entries.slope) * np.sqrt(variance)
    marked = np.zeros(len(amount), np.bool_)
    if apart:  # otherwise nothing is marked, and SciPy's distributions need not be imported
        pvalues = _with_effect(_difference_pvalues(entries), _effect(result))
        marked = benjamini_hochberg(pvalues, len(pvalues))
    order = [int(k) for k in np.argsort(-amount, kind="stable")[:n] if amount[k] > 0]
    return tuple(
        TransitionShare(
            entries.states[entries.now[k]], entries.states[entries.following[k]], float(amount[k]), float(error[k]),
            bool(marked[k]), float(entries.p[k]), float(entries.q[k]),
        )
        for k in order
    )  # fmt: skip


def _shared_entries(result: Result, makeup: ContributionInputs) -> _Entries:
    """Align the rows of both processes on the union of their states."""
    states = tuple(dict.fromkeys((*result.states_x, *result.states_y)))
    n, place = len(states), {label: i for i, label in enumerate(states)}
    numbers_x = np.arange(len(result.states_x))
    other = np.array([place[label] for label in result.states_y], dtype=np.int64)
    assert result.gradient is not None
    x = _RowErrors.of(makeup.x, result.gradient.x.values, numbers_x, n)
    y = _RowErrors.of(makeup.y, result.gradient.y.values, other, n)
    both = np.isin(np.arange(n), numbers_x) & np.isin(np.arange(n), other)
    keys = np.union1d(x.keys, y.keys)
    keys = keys[both[keys // n]]
    # A transition that one process never shows has no derivative there: the other process gets the full weight.
    shown = np.isin(keys, x.keys).astype(np.float64) + np.isin(keys, y.keys)
    slope = (_spread(keys, x.keys, x.slopes) - _spread(keys, y.keys, y.slopes)) / shown
    return _Entries(
        states, keys // n, keys % n, _spread(keys, x.keys, x.shares), _spread(keys, y.keys, y.shares), slope,
        _spread(keys, x.keys, x.counts), x.totals[keys // n], _spread(keys, y.keys, y.counts), y.totals[keys // n],
    )  # fmt: skip


class _RowErrors(NamedTuple):
    """Transitions of one process, keyed by the numbers of their states in the union; totals per state of the union."""

    keys: NDArray[np.int64]
    shares: Floats
    slopes: Floats
    counts: Floats
    totals: Floats

    @classmethod
    def of(cls, rows: RowCounts, slopes: Floats, numbers: NDArray[np.int64], n: int) -> _RowErrors:
        """The states of this process have `numbers` among `n` states."""
        support = rows.support
        size = int(support.indptr[-2])
        keys = numbers[support.rows[:size]] * n + numbers[support.indices[:size]]
        totals = np.zeros(n)
        totals[numbers] = support.row_sums(rows.counts)[:-1]
        return cls(keys, support.probabilities[:size], slopes[:size], rows.counts[:size].astype(np.float64), totals)


def _spread(keys: NDArray[np.int64], side_keys: NDArray[np.int64], values: Floats) -> Floats:
    """Values of a side on all keys, 0 for keys that it does not have."""
    order = np.argsort(side_keys, kind="stable")
    at = np.minimum(np.searchsorted(side_keys, keys, sorter=order), max(len(side_keys) - 1, 0))
    present = side_keys[order][at] == keys if len(side_keys) else np.zeros(len(keys), np.bool_)
    return np.where(present, values[order][at] if len(side_keys) else 0.0, 0.0)


def _difference_pvalues(entries: _Entries) -> Floats:
    """Exact two-sided p-values of equal probabilities: Fisher's for two recordings, binomial against a known chain."""
    from scipy.stats import binom, hypergeom  # slow to import and rarely needed

    pvalues = np.ones(len(entries.p))
    two = (entries.rows_x > 0) & (entries.rows_y > 0)
    if two.any():
        a, b, m, k = entries.seen_x[two], entries.seen_y[two], entries.rows_x[two], entries.rows_y[two]
        tails = hypergeom.cdf(a, m + k, a + b, m), hypergeom.sf(a - 1, m + k, a + b, m)
        pvalues[two] = np.minimum(1.0, 2.0 * np.minimum(*tails))
    for seen, rows, other_rows, truth in (
        (entries.seen_x, entries.rows_x, entries.rows_y, entries.q),
        (entries.seen_y, entries.rows_y, entries.rows_x, entries.p),
    ):
        one = (rows > 0) & (other_rows == 0)
        if one.any():
            tails = binom.cdf(seen[one], rows[one], truth[one]), binom.sf(seen[one] - 1, rows[one], truth[one])
            pvalues[one] = np.minimum(1.0, 2.0 * np.minimum(*tails))
    known = (entries.rows_x == 0) & (entries.rows_y == 0)
    pvalues[known & (entries.p != entries.q)] = 0.0
    return pvalues


def _with_effect(pvalues: Floats, effect: float) -> Floats:
    """Two-sided p-values if the variance is `effect` times that of independent transitions."""
    if effect <= 1.0:
        return pvalues
    from scipy.special import ndtr, ndtri  # as above

    z = ndtri(np.clip(pvalues, 1e-300, 1.0) / 2.0)
    return np.asarray(np.minimum(2.0 * ndtr(z / np.sqrt(effect)), 1.0))


def _upper_tail(value: float, error: float) -> float:
    from scipy.special import ndtr  # as above

    return float(ndtr(-value / error)) if error > 0 else (0.0 if value > 0 else 1.0)


def benjamini_hochberg(pvalues: Floats, n_tests: int, level: float = _LEVEL) -> NDArray[np.bool_]:
    """Which of `n_tests` hypotheses to reject, those not listed having p-value 1, at this false discovery rate.

    Examples
    --------
    >>> benjamini_hochberg(np.array([0.001, 0.2, 0.02, 0.9]), 4).tolist()
    [True, False, True, False]
    """
    others = np.ones(max(n_tests - len(pvalues), 0))
    rejected: NDArray[np.bool_] = adjusted_pvalues(np.append(pvalues, others))[: len(pvalues)] <= level
    return rejected


# --- States and steps before and after, by whole sequences


def findings(result: Result) -> Findings:
    """States and steps of both processes, the most important first; see `somcot.Result.findings`."""
    makeup = result.makeup
    if makeup is None or not names_count(result.states_x, result.states_y, makeup.cost, result.state_law):
        return Findings((), (), None)
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
        parts.append(_Changes.of(keys, [_spread(keys, *side[k]) for side in times], tally))
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
        # Events say what is new, where they are known; otherwise the chain does.
        present = np.where(self.events >= 0, self.events > 0, self.times > 0.0)
        alone, marked = present[0] != present[1], adjusted <= _LEVEL
        shares = self.times if sizes is None else self.units / np.array(sizes)[:, None]
        change = shares[1] - shares[0]
        for k in np.lexsort((self.keys, -np.abs(change), ~alone, ~marked)).tolist():
            kind = "vanished" if alone[k] and present[0, k] else "new" if alone[k] else ""
            grows = np.sign(change[k])
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
    kept = [_units(side, own, place, n) for side, own in zip(engine.recordings, engine.bounds, strict=True)]
    tables = [_tested([side[k] for side in kept], sizes, groups) for k in (0, 1)]
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
        np.full(len(keys), -1) if side is None else _spread(keys, *own).astype(np.int64)
        for side, own in zip(data, sides, strict=True)
    ])  # fmt: skip
    return Tally(keys, events, np.full(events.shape, -1), np.full(len(keys), np.nan), np.ones(len(keys)))


_Cells = tuple[Ints, Ints, Ints]  # keys, units and counts of what occurs


def _units(samples: Samples, bounds: Ints, place: dict[Hashable, int], n: int) -> tuple[_Cells, _Cells]:
    """How often each state and each step occurs in each unit: keys, units and counts."""
    assert samples.offsets is not None
    numbers = np.array([place[label] for label in samples.states], dtype=np.int64)
    now, following = numbers[samples.now], numbers[samples.following]
    unit = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    last = samples.offsets[1:] - 1  # the last state of a sequence begins no step, but it is visited
    events = np.append(now, following[last]), np.append(unit, unit[last])
    return _cells(*events, len(bounds) - 1), _cells(now * n + following, unit, len(bounds) - 1)


def _cells(keys: Ints, units: Ints, n_units: int) -> _Cells:
    own, which = np.unique(keys, return_inverse=True)
    cells, counts = np.unique(which * n_units + units, return_counts=True)
    return own[cells // n_units], cells % n_units, counts


def _tested(sides: Sequence[_Cells], sizes: tuple[int, int], groups: Ints) -> Tally:
    """Counts of what occurs, and exact p-values of equal numbers of units above a threshold."""
    keys = np.union1d(sides[0][0], sides[1][0])
    at = [np.searchsorted(keys, side[0]) for side in sides]
    events = np.stack([np.bincount(k, side[2], len(keys)).astype(np.int64) for k, side in zip(at, sides, strict=True)])
    units = np.stack([np.bincount(k, minlength=len(keys)) for k in at])
    threshold = np.zeros(len(keys), dtype=np.int64)
    often = np.flatnonzero(units.sum(axis=0) > sum(sizes) / 2)
    for k in often.tolist():
        counts = np.sort(np.concatenate([side[2][own == k] for side, own in zip(sides, at, strict=True)]))
        levels = np.append(0, np.unique(counts))
        above = len(counts) - np.searchsorted(counts, levels, side="right")
        threshold[k] = levels[np.argmin(np.abs(above - sum(sizes) / 2))]
    n_groups, whose = int(groups.max()) + 1, (groups[: sizes[0]], groups[sizes[0] :])
    above = np.stack([
        np.bincount((own * n_groups + group[side[1]])[side[2] > threshold[own]], minlength=len(keys) * n_groups)
        for side, own, group in zip(sides, at, whose, strict=True)
    ]).reshape(2, len(keys), n_groups)  # fmt: skip
    members = np.stack([np.bincount(group, minlength=n_groups) for group in whose])
    return Tally(keys, events, units, *_exact_pvalues(above, members))


def _exact_pvalues(above: Ints, members: Ints) -> tuple[Floats, Floats]:
    """Two-sided p-values of the number of units above their threshold in the first recording, given all margins.

    `above` is (2, n_keys, n_groups), `members` (2, n_groups): units are exchangeable within groups. Also the least
    p-value that any outcome with these margins has.
    """
    from scipy.stats import hypergeom  # slow to import and rarely needed

    total, (m, k) = above.sum(axis=0), members
    low, high = np.maximum(total - k, 0), np.minimum(total, m)
    if len(m) == 1:
        a, size = above[0, :, 0], int(m[0] + k[0])
        lower, upper = hypergeom.cdf(a, size, total[:, 0], m[0]), hypergeom.sf(a - 1, size, total[:, 0], m[0])
        ends = [hypergeom.pmf(end[:, 0], size, total[:, 0], m[0]) for end in (low, high)]
        return np.minimum(2.0 * np.minimum(lower, upper), 1.0), np.minimum(2.0 * np.minimum(*ends), 1.0)
    pvalues, least = np.empty(len(total)), np.empty(len(total))
    for row, (seen, start, end) in enumerate(zip(total, low, high, strict=True)):
        law = np.ones(1)
        for g in np.flatnonzero(end > start).tolist():  # groups in which anything can differ
            law = np.convolve(law, hypergeom.pmf(np.arange(start[g], end[g] + 1), m[g] + k[g], seen[g], m[g]))
        at = int(above[0, row].sum() - start.sum())
        pvalues[row] = min(2.0 * min(law[: at + 1].sum(), law[at:].sum()), 1.0)
        least[row] = min(2.0 * min(law[0], law[-1]), 1.0)
    return pvalues, least
