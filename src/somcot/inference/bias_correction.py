"""Cross-fitting on random halves, and the rules that turn it into an estimate and its interval (docs/statistics.md).

The distance of estimated chains (the plug-in) is too high, because the optimal potentials fit the noise. Split the data
into halves A and B. By the performance-difference identity

    d_B = d_A + <occ_B, delta_AB> + gap(A -> B),      delta_AB = c + discount (P_B phi_A + Q_B psi_A) - V_A,

where phi_A, psi_A are A's transport potentials: the first two terms evaluate B with A's potentials held fixed, and
gap(A -> B) >= 0 is what B gains by fitting its noise. With A's occupancy in place of B's, the first two terms
are A's potentials evaluated on B to first order,

    C_A = d_A + discount sum_xy occ_A(x, y) [(P_B - P_A)(x) phi_A + (Q_B - Q_A)(y) psi_A] + the same for initial rows,

which is nearly unbiased where rows are equal. `corrected` and `interval` combine the two.

All values are on the unit-cost scale, where the smallest possible distance is 0. All constants were chosen once, on
separate families of problems; none depends on the discount or on the number of states.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.chains import Support
from somcot.core.pairs import thread_count
from somcot.costs import FeatureCost
from somcot.inference.model import Model, on_entries, split_rows
from somcot.plumbing.arrays import Floats
from somcot.plumbing.linear_systems import discounted_occupancy
from somcot.problem import Problem, UnitProblem
from somcot.recorded.counts import Counts
from somcot.result import Bounds, Status
from somcot.solvers.policy_iteration import Solution, iterate

__all__ = [
    "Evidence",
    "Half",
    "Halves",
    "Plugin",
    "corrected",
    "cross_fit",
    "cross_value",
    "gap",
    "half_supports",
    "interval",
]


# --- Random halves of the data: the cross-fit gap and the cross-fitted value

HALF_TOLERANCE = 1e-7  # of the cost range; sampling noise is far larger
_NEGLIGIBLE = 1e-9  # occupancy below which a pair cannot move the gap


class Plugin(NamedTuple):
    """The solved problem of the estimated chains, and the data behind it.

    Attributes
    ----------
    problem : Problem
    x, y : Model
    solution : Solution
    features : FeatureCost or None
        Source of the cost, if the cost is estimated too.
    """

    problem: Problem
    x: Model
    y: Model
    solution: Solution
    features: FeatureCost | None = None

    @property
    def models(self) -> tuple[Model, Model]:
        """Both sides."""
        return self.x, self.y


class Half(NamedTuple):
    """One half solved.

    Attributes
    ----------
    problem : UnitProblem
    solution : Solution
    weight : ndarray, shape (n_pairs + 1,)
        Weight of each pair under the coupling of this half, times the discount; that of the initial distributions last.
    signed : ndarray, shape (n_x, n_y), or None
        The differences of features whose absolute values are the cost, up to a constant; None for a known cost.
    """

    problem: UnitProblem
    solution: Solution
    weight: Floats
    signed: Floats | None = None

    @classmethod
    def solve(cls, problem: UnitProblem, signed: Floats | None, plugin: Solution, guess: Floats) -> Half:
        """Solve a half on the plug-in's pairs, warm-started with its potential and duals."""
        solution = iterate(problem, plugin.pairs, threads=1, guess=guess, tolerance=HALF_TOLERANCE, hints=plugin.sweep)
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return cls.of(problem, solution)._replace(signed=signed)

    @classmethod
    def of(cls, problem: UnitProblem, solution: Solution) -> Half:
        """A half with the occupancy of pairs under its coupling."""
        occupancy = discounted_occupancy(*solution.sweep.kernel(), problem.discount)
        occupancy = np.where(occupancy > _NEGLIGIBLE, occupancy, 0.0)
        return cls(problem, solution, np.append(problem.discount * occupancy, 1.0 - problem.discount))

    @property
    def V(self) -> Floats:  # noqa: N802 - the paper's letter
        """The potential as a table."""
        return self.solution.pairs.table(self.solution.V)

    def mean(self, table: Floats) -> float:
        """Mean of a table of pairs under the occupancy of this half."""
        pairs = self.solution.pairs
        return float(self.weight[:-1] @ table[pairs.x, pairs.y]) / self.problem.discount


def cross_fit(plugin: Plugin, *, n_splits: int, rng: np.random.Generator, threads: int | None = None) -> Halves | None:
    """Split the data `n_splits` times and compare the halves; None for no split.

    Each split costs two solves, warm-started with the plug-in's potential and restricted to its pairs. The result
    does not depend on the number of threads.
    """
    if n_splits == 0:
        return None
    tasks = _halves(plugin, n_splits, rng)
    guess = plugin.solution.pairs.table(plugin.solution.V)
    workers = min(thread_count(threads), len(tasks))
    if workers == 1 or len(plugin.solution.pairs) < 400:
        solved = [Half.solve(task, signed, plugin.solution, guess) for task, signed in tasks]
    else:
        with ThreadPoolExecutor(workers) as pool:
            solved = list(pool.map(lambda t: Half.solve(t[0], t[1], plugin.solution, guess), tasks))
    full_problem = plugin.problem.unit
    signed = None if plugin.features is None else plugin.features.signed / plugin.problem.scale
    gaps = [gap(solved[i], solved[i ^ 1]) for i in range(len(solved))]
    distances = [half.solution.distance(full_problem.discount) for half in solved]
    values = [cross_value(half, full_problem, signed) for half in solved]
    return Halves(*(float(np.mean(numbers)) for numbers in (gaps, distances, values)))


def _halves(plugin: Plugin, n_splits: int, rng: np.random.Generator) -> list[tuple[UnitProblem, Floats | None]]:
    """The problems of both halves of every split, in pairs, and the signed differences behind their costs."""
    problem, features = plugin.problem, plugin.features
    halves_x, halves_y = (half_supports(model, n_splits, rng) for model in plugin.models)
    tasks: list[tuple[UnitProblem, Floats | None]] = []
    noise = np.zeros(problem.shape)
    for k, (x, y) in enumerate(zip(halves_x, halves_y, strict=True)):
        if features is None:
            tasks.append((UnitProblem(x, y, problem.unit_cost, problem.discount), None))
            continue
        noise = features.noise(rng) / problem.scale if k % 2 == 0 else -noise  # the halves deviate in opposite ways
        signed = features.signed / problem.scale + noise
        tasks.append((UnitProblem(x, y, np.abs(signed) - problem.offset / problem.scale, problem.discount), signed))
    return tasks


def gap(a: Half, b: Half) -> float:
    """gap(A -> B): the mean loss of B's optimal coupling against A's potentials, at least 0.

    Both halves have the same pairs and supports with the same entries. With an estimated cost, B's fit of the signs
    is included.
    """
    loss = a.solution.sweep.gap_of(a.V, b.solution.sweep, b.weight)
    if a.signed is None or b.signed is None:
        return loss
    return loss + b.mean(np.abs(b.signed) - np.sign(a.signed) * b.signed)


def cross_value(half: Half, full_problem: UnitProblem, signed: Floats | None = None) -> float:
    """C: the potentials and occupancy of a half evaluated on the other half, to first order.

    The other half deviates from the full data as much in the other direction: P_other - P_half = 2 (P_whole - P_half).
    `signed` are the feature differences of the full data, if the cost is made of them; the half's signs stay.
    """
    problem = half.problem
    slots_x, slots_y = half.solution.sweep.potential_sums(half.V, half.weight)
    change = float(slots_x @ (full_problem.support_x.probabilities - problem.support_x.probabilities))
    change += float(slots_y @ (full_problem.support_y.probabilities - problem.support_y.probabilities))
    if signed is not None and half.signed is not None:
        change += half.mean(np.sign(half.signed) * (signed - half.signed))
    return half.solution.distance(problem.discount) + 2.0 * change


def half_supports(model: Model, n_splits: int, rng: np.random.Generator) -> list[Support]:
    """Supports of the halves of `n_splits` random splits, in pairs, all with the entries of the full data.

    Rows without observations in a half keep the probabilities of the full data.
    """
    if model.samples is not None and model.samples.discount is not None:
        return _refitted_halves(model, n_splits, rng)
    support = model.chain.support
    first = _split_rows(model.counts, support.indptr, n_splits, rng)
    halves = np.stack([first, model.counts - first], axis=1).reshape(2 * n_splits, -1)
    totals = np.add.reduceat(halves, support.indptr[:-1], axis=1)[:, support.rows]
    shares = np.where(totals > 0, halves / np.maximum(totals, 1), support.probabilities)
    return [model.with_start(Support(support.indptr, support.indices, row)) for row in shares]


def _split_rows(
    counts: NDArray[np.int64], indptr: NDArray[np.int64], n_splits: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Half of every row's observations, drawn without replacement, (n_splits, n_entries); odd ones at random."""
    totals = np.broadcast_to(np.add.reduceat(counts, indptr[:-1]), (n_splits, len(indptr) - 1))
    return split_rows(counts, indptr, totals // 2 + (totals % 2) * rng.integers(0, 2, size=totals.shape), rng)


def _refitted_halves(model: Model, n_splits: int, rng: np.random.Generator) -> list[Support]:
    """Random halves of independent samples, with the chain refitted to each."""
    assert model.samples is not None
    if isinstance(model.samples, Counts):
        parts = [half for _ in range(n_splits) for half in model.samples.halves(rng)]
        fitted = [half.chain(check=False) if half.n_transitions else model.chain for half in parts]
        return [on_entries(model.chain.support, chain) for chain in fitted]
    n = model.samples.n_transitions
    chains = []
    for _ in range(n_splits):
        order = rng.permutation(n)
        cut = n // 2 + int(rng.integers(0, 2)) * (n % 2)
        halves = (order[:cut], order[cut:])
        chains += [model.samples.take(half).chain(check=False) if len(half) else model.chain for half in halves]
    return [on_entries(model.chain.support, chain) for chain in chains]


# --- Rules for the estimate and its interval

HALF_SAMPLE = 2.0 + math.sqrt(2.0)  # converts the increase from full to half samples into units of the gap
SATURATED = 3.0  # accumulated error of the kernels above which there are too few data


class Halves(NamedTuple):
    """Statistics of random halves of the data, averaged over all halves.

    Attributes
    ----------
    gap : float
        Mean loss of one half's coupling against the other's potentials.
    distance : float
        Distance of a half.
    value : float
        Cross-fitted: one half's potentials evaluated on the other, to first order. May be negative.
    """

    gap: float
    distance: float
    value: float


class Evidence(NamedTuple):
    """All inputs of the rules.

    Attributes
    ----------
    plugin, error, saturation : float
        The distance of the estimated chains, its standard error, and the accumulated error of the kernels.
    halves : Halves or None
        None if the data were not split.
    pooled : float or None
        Distance of the pooled kernels; None if the states differ. At least one of `halves` and `pooled` is not None.
    """

    plugin: float
    error: float
    saturation: float
    halves: Halves | None
    pooled: float | None

    @property
    def gap(self) -> float:
        """The effective gap; without splits, its value at a kink: sqrt(2) times the reduction by pooling."""
        if self.halves is None:
            assert self.pooled is not None
            return math.sqrt(2.0) * max(self.plugin - self.pooled, 0.0)
        return max(self.halves.gap, HALF_SAMPLE * (self.halves.distance - self.plugin), 0.0)

    @property
    def rho(self) -> float:
        """The gap relative to the plug-in; 0 if the plug-in is 0."""
        return self.gap / self.plugin if self.plugin > 0.0 else 0.0

    @property
    def uncut(self) -> float:
        """The corrected value without truncation and switching, for ranking: it may be negative."""
        if self.halves is None:
            assert self.pooled is not None
            return self.pooled
        return self.halves.value


def corrected(evidence: Evidence) -> float:
    """The corrected estimate, between 0 and the plug-in.

    Examples
    --------
    >>> corrected(Evidence(0.2, 0.01, 0.1, Halves(0.0, 0.2, 0.2), None))  # the halves agree: nothing to correct
    0.2
    >>> corrected(Evidence(0.2, 0.01, 0.1, Halves(0.3, 0.28, 0.0), None))  # they do not agree at all
    0.0
    >>> corrected(Evidence(0.2, 0.01, 0.1, Halves(0.1, 0.22, 0.1), 0.15))  # same states: the pooled rows decide
    0.15
    """
    if evidence.plugin <= 0.0:
        return 0.0
    if evidence.pooled is None:
        return max(0.0, evidence.plugin - _taken_off(evidence))
    pooled = min(evidence.pooled, evidence.plugin)
    return pooled if evidence.halves is None else max(pooled, evidence.plugin - _most_taken_off(evidence), 0.0)


def interval(evidence: Evidence, confidence: float) -> Bounds:
    """Interval for the true distance, which contains the estimate.

    Examples
    --------
    >>> low, high = interval(Evidence(0.5, 0.1, 0.1, Halves(0.0, 0.5, 0.5), None), 0.9)
    >>> round(low, 4), round(high, 4)
    (0.3355, 0.6645)
    """
    from scipy.special import ndtri

    margin = float(ndtri(0.5 + 0.5 * confidence)) * evidence.error
    # A quarter of the gap is bias even for smooth distances; the upper end subtracts no more than that.
    plugin, quarter = evidence.plugin, evidence.gap / 4.0
    if evidence.pooled is None:
        return Bounds(_lowest(evidence, margin), max(0.0, plugin - quarter) + margin)
    estimate, pooled = corrected(evidence), min(evidence.pooled, plugin)
    high = estimate + (plugin - estimate) / 4.0
    if evidence.halves is None:  # a quarter of the correction is uncertain, in both directions
        return Bounds(max(0.0, pooled - (plugin - pooled) / 4.0 - margin), high + margin)
    low = min(max(0.0, pooled - margin), _lowest(evidence, margin))
    return Bounds(low, max(high, plugin - quarter) + margin)


def _ramp(x: float, a: float, b: float) -> float:
    return min(max((x - a) / (b - a), 0.0), 1.0)


def _shift(evidence: Evidence) -> float:
    """D: the difference between the plug-in and the cross-fitted value."""
    assert evidence.halves is not None
    return max(evidence.plugin - evidence.halves.value, 0.0)


def _is_kinked(evidence: Evidence) -> float:
    """Between 0 and 1: whether D is large enough relative to noise and gap to be the bias at a kink."""
    assert evidence.halves is not None
    shift, gap = _shift(evidence), evidence.halves.gap
    if shift <= 0.0 or gap <= 0.0:
        return 0.0
    against_noise = _ramp(shift / evidence.error, 0.5, 1.5) if evidence.error > 0.0 else 1.0
    return against_noise * _ramp(shift / gap, 0.5, 0.65)


def _taken_off(evidence: Evidence) -> float:
    """B, if the states differ: a quarter of the gap for a smooth distance, D at kinks, the gap near 0."""
    assert evidence.halves is not None
    gap, rho, shift = evidence.gap, evidence.rho, _shift(evidence)
    kinked = _is_kinked(evidence)
    if kinked > 0.0:
        # At a kink the distance also rises from full to half samples; without that, D counts only near 0.
        rise = (evidence.halves.distance - evidence.plugin) / shift
        kinked *= max(_ramp(rise, 0.30, 0.38), _ramp(rho, 0.6, 0.9))
    bias = kinked * shift + (1.0 - kinked) * gap / 4.0
    near_zero = 0.25 + 0.75 * _ramp(rho, 0.75, 1.25)
    return max(near_zero * gap, min(max(bias, gap / 4.0), gap))


def _lowest(evidence: Evidence, margin: float) -> float:
    """Lower end from the splits."""
    gap, rho, kinked = evidence.gap, evidence.rho, _is_kinked(evidence)
    bias = min(max(kinked * _shift(evidence) + (1.0 - kinked) * gap / 4.0, gap / 4.0), gap)
    off = 1.2 * bias
    most = 1.5 if evidence.saturation > SATURATED else 1.25
    off += _ramp(rho, 0.4, 0.8) * max(most * gap - off, 0.0)
    return max(0.0, evidence.plugin - off - margin)


def _most_taken_off(evidence: Evidence) -> float:
    """Largest reduction below the plug-in by pooled rows, for small shifts of many rows in the same direction."""
    assert evidence.halves is not None
    most = 1.2 + 0.8 * _ramp(evidence.rho, 0.6, 0.9)
    return most * max(evidence.plugin - evidence.halves.value, evidence.gap / 4.0)
