"""Standard error of the plug-in by the delta method, and its bootstrap. Deprecated.

Estimates use the spread of half-samples instead: `Result.estimate.standard_error`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from somcot.core.pairs import reachable_pairs
from somcot.derivatives import Gradient, RowGradient
from somcot.inference.model import Model
from somcot.plumbing.arrays import Floats
from somcot.plumbing.errors import warn
from somcot.plumbing.memory import one_blas_thread
from somcot.plumbing.notes import Note
from somcot.problem import UnitProblem
from somcot.result import Bounds, Status
from somcot.samples import Samples
from somcot.solvers.policy_iteration import iterate

__all__ = ["bootstrap", "standard_error"]

_DENSE_INFORMATION = 1500  # largest number of parameters for a dense information matrix
_RESAMPLE_TOLERANCE = 1e-6


def standard_error(x: Model, y: Model, gradient: Gradient, scale: float = 1.0, *, by: str = "rows") -> float:
    """Standard error of the plug-in distance by the delta method, in units of `scale`. Deprecated.

    Estimates use the spread of half-samples instead: `Result.estimate.standard_error`.

    Parameters
    ----------
    x, y : Model
    gradient : Gradient
        Gradient of the distance at the plug-in.
    scale : float
        Unit of computation, such as the range of the cost, so that squares of huge or tiny costs do not overflow.
    by : {"rows", "episodes"}
        Treat transitions as independent given the current state (rows), or only whole episodes as independent, which
        is valid for non-Markov data too. Independent samples of the occupancy use a separate formula.
    """
    warn(Note("deprecated-function", "standard_error", instead="Result.estimate.standard_error"), DeprecationWarning)
    if by not in ("rows", "episodes"):
        raise ValueError(f"standard_error: found {by!r}, expected 'rows' or 'episodes'")
    total = 0.0
    for model, raw in ((x, gradient.x), (y, gradient.y)):
        if model.samples is None:
            continue
        slope = replace(raw, values=raw.values / scale, initial=raw.initial / scale)
        if model.samples.discount is not None:
            total += _occupancy_variance(model, slope, model.samples.discount)
        elif by == "episodes":
            total += _episode_variance(model, slope)
        else:
            total += _row_variance(model, slope)
    return float(np.sqrt(total))


def bootstrap(whole: Any, plugin: float, confidence: float, n_resamples: int, rng: np.random.Generator) -> Bounds:
    """Basic bootstrap interval of the plug-in, by resampling whole episodes or independent transitions. Deprecated.

    It fails near distance 0: the plug-in is biased upward there and its resamples more so; the interval covered the
    truth in 0 to 53 % of cases at nominal 90 %. Use it as a check for distances well above 0.

    `whole` is `Result.details` of an estimate; `plugin` and the bounds are in units of the range of the cost.
    """
    warn(Note("deprecated-function", "bootstrap", instead="Result.confidence_interval"), DeprecationWarning)
    problem, values = whole.problem, []
    for _ in range(n_resamples):
        supports = [
            model.chain.support
            if model.samples is None
            else with_episodes(model, "interval='bootstrap'").resample(rng).chain(check=False).support
            for model in whole.models
        ]
        task = UnitProblem(supports[0], supports[1], problem.unit_cost, problem.discount)
        solution = iterate(task, reachable_pairs(task), threads=1, tolerance=_RESAMPLE_TOLERANCE)
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        values.append(solution.distance(problem.discount))
    tail = 0.5 - 0.5 * confidence
    low, high = np.quantile(values, [tail, 1.0 - tail])
    return Bounds(max(0.0, 2.0 * plugin - float(high)), max(0.0, 2.0 * plugin - float(low)))


def with_episodes(model: Model, purpose: str) -> Samples:
    """The recording itself; counts do not keep episodes."""
    if not isinstance(model.samples, Samples):
        raise TypeError(Note("needs-episodes", purpose=purpose))
    return model.samples


def _row_variance(model: Model, slope: RowGradient) -> float:
    """Sum over rows of Var_P[G(x, .)] / n_x, including the initial row if it was estimated."""
    return float((_entry_slopes(model, slope) ** 2 * _weights(model)).sum())


def _weights(model: Model) -> Floats:
    """P(x' | x) / n_x for estimated rows, 0 for known ones, per entry of the support."""
    support = model.chain.support
    totals = model.totals[support.rows]
    return np.where(totals > 0, support.probabilities / np.maximum(totals, 1), 0.0)


def _entry_slopes(model: Model, slope: RowGradient) -> Floats:
    """Centred derivatives for every entry of the support, initial row last."""
    indptr, indices, _ = model.chain.support
    return np.concatenate([slope.values, slope.initial[indices[indptr[-2] :]]])


def _episode_variance(model: Model, slope: RowGradient) -> float:
    """Sum of squared influences of whole episodes."""
    samples, slopes = with_episodes(model, "standard_error='episodes'"), _entry_slopes(model, slope)
    slot = model.chain.support.locate(samples.now.astype(np.int64), samples.following)
    per_step = slopes[slot] / np.maximum(model.totals, 1)[samples.now]
    influence: Floats = np.bincount(samples.episode, weights=per_step, minlength=samples.n_episodes).astype(np.float64)
    if not samples.starts_known and samples.offsets is not None:
        influence = influence + slope.initial[samples.now[samples.offsets[:-1]]] / samples.n_episodes
    m = samples.n_episodes
    if m < 2:
        raise ValueError("standard_error: one episode does not show the variance between episodes; use 'rows'")
    return float((influence**2).sum() * m / (m - 1))


@one_blas_thread
def _occupancy_variance(model: Model, slope: RowGradient, discount: float) -> float:
    """Variance of the flow-constrained maximum-likelihood fit, from its information matrix.

    Parameters h are changes of the probabilities on the support with zero row sums (and of the initial distribution if
    that was fitted too); the score of a sample (x, x') is h(x, x') / P(x' | x) + dxi(x) / xi(x).
    """
    assert model.samples is not None
    support, n = model.chain.support, model.chain.n_states
    fitted_start = not model.samples.starts_known
    n_entries = int(support.indptr[-1] if fitted_start else support.indptr[-2])
    if n_entries > _DENSE_INFORMATION:
        return _row_variance(model, slope)  # ignores the information in state frequencies: conservative
    rows = support.rows[:n_entries]
    columns, P = support.indices[:n_entries], support.probabilities[:n_entries]
    xi = model.chain.state_occupancy(discount)
    inside = rows < n
    transition = np.zeros((n, n))
    transition[rows[inside], columns[inside]] = P[inside]
    effect = np.zeros((n, n_entries))  # effect of each parameter on the inflow of each state
    effect[columns, np.arange(n_entries)] = np.where(inside, discount * np.append(xi, 0.0)[rows], 1.0 - discount)
    dxi = np.linalg.solve(np.eye(n) - discount * transition.T, effect)
    visited = inside & (np.append(xi, 0.0)[rows] > 1e-12)
    entries = np.flatnonzero(visited)
    score = dxi[rows[entries]] / xi[rows[entries]][:, None]
    score[np.arange(len(entries)), entries] += 1.0 / P[entries]
    information = score.T @ ((xi[rows[entries]] * P[entries])[:, None] * score)
    sums = np.zeros((n + 1, n_entries))
    sums[rows, np.arange(n_entries)] = 1.0
    sums = sums[sums.any(axis=1)]
    system = np.block([[information, sums.T], [sums, np.zeros((len(sums), len(sums)))]])
    G = _entry_slopes(model, slope)[:n_entries]
    # Entries with very small occupancy make the system nearly singular.
    solution = np.linalg.lstsq(system, np.append(G, np.zeros(len(sums))), rcond=1e-12)[0]
    return max(float(G @ solution[:n_entries]) / model.samples.n_transitions, 0.0)
