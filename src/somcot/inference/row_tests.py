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
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.contributions import ContributionInputs, Contributions, PairShare, RowCounts, TransitionShare, names_count
from somcot.core.pairs import reachable_pairs
from somcot.core.sweep import Sweep
from somcot.inference.findings import count_visits, hypergeometric_pvalues, spread
from somcot.inference.model import Model
from somcot.inference.permutation import Groups
from somcot.inference.statistics import adjusted_pvalues, permute
from somcot.inference.strata import Strata
from somcot.inference.units import chosen_engine
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_count
from somcot.plumbing.linear_systems import discounted_occupancy, discounted_value
from somcot.problem import Data, Problem, UnitProblem
from somcot.recorded.counts import known_starts_differ
from somcot.result import Result

__all__ = ["benjamini_hochberg", "contribution_inputs", "contributions", "rows_pvalue", "same_rows"]

_LEVEL = 0.05
_PERMUTATIONS = 199
_TESTED = 30  # largest pairs that are tested: each takes the solution of a linear system
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
        if result.method in ("auto", "exact"):  # from mdp.distance
            raise ValueError(
                "contributions: not available between decision processes; compare them under a policy: "
                "somcot.distance(mdp.on_policy(x, policy), mdp.on_policy(y, policy), 'features', discount=...)"
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
    # The same pairs are tested whatever `n` is, so that a mark does not depend on how many rows are listed.
    most = _TESTED if result.n_samples else share.size
    order = np.argsort(-share.ravel(), kind="stable")[: max(n, most)]
    top = [(int(k) // share.shape[1], int(k) % share.shape[1]) for k in order if share.flat[k] > 0]
    tested = apart and _above_noise(result)  # otherwise no part is significant, whatever its own error
    errors = _errors(result, makeup, top if tested else top[:n])
    total = result.plugin or 0.0
    # The estimate is smaller than the plug-in, so its parts are tested after the same shrinkage.
    shrunk = result.distance / total if result.plugin is not None and total > 0.0 else 1.0
    marked = np.zeros(len(top), np.bool_)
    if tested:
        pvalues = [_upper_tail(shrunk * share[k], e) for k, e in zip(top[:most], errors, strict=False)]
        # All positive pairs count as tests, not only the largest.
        marked[:most] = benjamini_hochberg(np.array(pvalues), int((share > 0).sum()))
    return tuple(
        PairShare(
            result.states_x[i], result.states_y[j], float(share[i, j]), float(error), bool(mark),
            float(result.state_law[i, j]), float(makeup.cost[i, j]),
        )
        for (i, j), error, mark in zip(top[:n], errors[:n], marked[:n], strict=True)
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
    # Pairs that cannot be reached have no potential.
    V = np.where(np.isnan(result.potential), 0.0, result.potential) / scale
    sweep = Sweep(problem, pairs)
    sweep.improve(V)
    kernel, start = sweep.kernel()
    occupancy = discounted_occupancy(kernel, start, result.discount)
    # Rows of the kernel weigh discount times occupancy, the initial row 1 - discount.
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
    # Slopes are defined up to a constant for each row.
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
    if apart:  # otherwise nothing is marked
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
    slope = (spread(keys, x.keys, x.slopes) - spread(keys, y.keys, y.slopes)) / shown
    return _Entries(
        states, keys // n, keys % n, spread(keys, x.keys, x.shares), spread(keys, y.keys, y.shares), slope,
        spread(keys, x.keys, x.counts), x.totals[keys // n], spread(keys, y.keys, y.counts), y.totals[keys // n],
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


def _difference_pvalues(entries: _Entries) -> Floats:
    """Exact two-sided p-values of equal probabilities: Fisher's for two recordings, binomial against a known chain."""
    pvalues = np.ones(len(entries.p))
    two = (entries.rows_x > 0) & (entries.rows_y > 0)
    if two.any():
        a, b, m, k = entries.seen_x[two], entries.seen_y[two], entries.rows_x[two], entries.rows_y[two]
        # Twice the smaller tail: conservative, but valid for skewed distributions.
        pvalues[two] = hypergeometric_pvalues(a, m, k, a + b)
    for seen, rows, other_rows, truth in (
        (entries.seen_x, entries.rows_x, entries.rows_y, entries.q),
        (entries.seen_y, entries.rows_y, entries.rows_x, entries.p),
    ):
        one = (rows > 0) & (other_rows == 0)
        if one.any():
            from scipy.special import bdtr, bdtrc  # slow to import

            n = rows[one].astype(np.int64)
            tails = bdtr(seen[one], n, truth[one]), bdtrc(seen[one] - 1, n, truth[one])
            pvalues[one] = np.minimum(1.0, 2.0 * np.minimum(*tails))
    known = (entries.rows_x == 0) & (entries.rows_y == 0)
    # Between known chains every difference is certain.
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
    return 0.5 * math.erfc(value / error / math.sqrt(2.0)) if error > 0 else (0.0 if value > 0 else 1.0)


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
