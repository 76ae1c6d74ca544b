"""From data to a distance without the upward bias of the plug-in: the cross-fit gap estimate.

The distance of estimated chains (the plug-in) is too high near 0, because the optimal potentials fit the noise. Split
the data into halves A and B. By the performance-difference identity

    d_B = d_A + <occ_B, delta_AB> + gap(A -> B),      delta_AB = c + discount (P_B phi_A + Q_B psi_A) - V_A,

where phi_A, psi_A are A's transport potentials: the first two terms are B evaluated with A's frozen potentials, which
is nearly unbiased, and gap(A -> B) >= 0 is what B gains by fitting its own noise. The gap is 0 when the halves agree on
the optimal potentials (distance well above 0) and of the size of the bias when they do not (distance 0). The estimate
is the plug-in minus a multiple of the gap: 1/4, which removes the second-order bias of a smooth functional, up to 1.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.bellman.slices import thread_count
from somcot.chains import Support
from somcot.inference.model import Model, on_entries
from somcot.plumbing.discounting import discounted_occupancy
from somcot.problem import UnitProblem
from somcot.result import Status
from somcot.solvers.policy_iteration import Solution, iterate

__all__ = ["CrossFit", "correct", "cross_fit", "gap", "half_supports"]

HALF_SAMPLE = 2.0 + math.sqrt(2.0)  # turns the rise from full to half samples into units of the gap
_HALF_TOLERANCE = 1e-7  # of the cost range; sampling noise is far larger
_NEGLIGIBLE = 1e-9  # occupancy below which a pair cannot move the gap


class CrossFit(NamedTuple):
    """What the halves say: the mean of their gaps, the mean of their distances, and the solves it took."""

    gap: float
    half_distance: float
    n_solves: int


def cross_fit(
    problem: UnitProblem,
    x: Model,
    y: Model,
    solution: Solution,
    *,
    n_splits: int,
    rng: np.random.Generator,
    threads: int | None = None,
) -> CrossFit:
    """Split the data `n_splits` times and compare the halves.

    Parameters
    ----------
    problem : UnitProblem
        The plug-in problem.
    x, y : Model
    solution : Solution
        Of the plug-in problem; the halves start from its potential and live on its pairs.
    n_splits : int
        Each split costs two solves.
    rng : numpy.random.Generator
    threads : int, optional
        Solves to run at once; the result does not depend on it.
    """
    halves_x, halves_y = (half_supports(model, problem.discount, n_splits, rng) for model in (x, y))
    guess = solution.pairs.table(solution.V)
    tasks = [UnitProblem(hx, hy, problem.cost, problem.discount) for hx, hy in zip(halves_x, halves_y, strict=True)]

    def solve(task: UnitProblem) -> Solution:
        found = iterate(task, solution.pairs, threads=1, guess=guess, tolerance=_HALF_TOLERANCE)
        if found.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return found

    workers = min(thread_count(threads), len(tasks))
    if workers == 1 or len(solution.pairs) < 400:
        solved = [solve(task) for task in tasks]
    else:
        with ThreadPoolExecutor(workers) as pool:
            solved = list(pool.map(solve, tasks))
    gaps = []
    for a in range(0, len(tasks), 2):
        for one, other in ((a, a + 1), (a + 1, a)):
            gaps.append(gap(tasks[one], solved[one], solved[other]))
    values = [found.distance(problem.discount) for found in solved]
    return CrossFit(float(np.mean(gaps)), float(np.mean(values)), len(tasks))


def gap(problem: UnitProblem, a: Solution, b: Solution) -> float:
    """gap(A -> B): the mean loss of B's optimal coupling against A's potentials, at least 0.

    Parameters
    ----------
    problem : UnitProblem
        A's problem.
    a, b : Solution
        On the same pairs, with supports of the same entries.
    """
    kernel, start = b.sweep.kernel()
    occupancy = discounted_occupancy(kernel, start, problem.discount)
    weight = np.append(problem.discount * np.where(occupancy > _NEGLIGIBLE, occupancy, 0.0), 1.0 - problem.discount)
    return a.sweep.gap_of(a.pairs.table(a.V), b.sweep, weight)


def correct(plugin: float, found: CrossFit) -> tuple[float, float, float]:
    """The corrected distance, the effective gap and rho = gap / plug-in (section "The estimate" of the docs).

    Examples
    --------
    >>> correct(0.2, CrossFit(0.0, 0.2, 8))[0]  # the halves agree: nothing to correct
    0.2
    >>> correct(0.2, CrossFit(0.3, 0.28, 8))[0]  # they do not agree at all
    0.0
    """
    effective = max(found.gap, HALF_SAMPLE * (found.half_distance - plugin), 0.0)
    if plugin <= 0.0:
        return 0.0, effective, 0.0
    rho = effective / plugin
    share = 0.25 + 0.75 * float(np.clip((rho - 0.75) / 0.5, 0.0, 1.0))
    return max(0.0, plugin - share * effective), effective, rho


def half_supports(model: Model, discount: float, n_splits: int, rng: np.random.Generator) -> list[Support]:
    """Supports of the halves of `n_splits` random splits, two after two, all with the entries of the whole.

    Rows without observations of their own in a half keep the probabilities of the whole.
    """
    if model.samples is not None and model.samples.discount is not None:
        return _refitted_halves(model, n_splits, rng)
    support = model.chain.support
    halves = _split_rows(model.counts, support.indptr, n_splits, rng)
    return [_normalised(support, half) for one in halves for half in (one, model.counts - one)]


def _split_rows(
    counts: NDArray[np.int64], indptr: NDArray[np.int64], n_splits: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Half of every row's observations, drawn without replacement, (n_splits, n_entries); odd ones go either way.

    All rows and splits at once, one entry of the row after the other (sequential hypergeometric draws).
    """
    totals = np.add.reduceat(counts, indptr[:-1])
    left = np.broadcast_to(totals, (n_splits, len(totals))).copy()
    need = left // 2 + (left % 2) * rng.integers(0, 2, size=left.shape)
    taken = np.zeros((n_splits, len(counts)), dtype=np.int64)
    lengths = np.diff(indptr)
    for j in range(int(lengths.max())):
        rows = np.flatnonzero(lengths > j)
        good = np.broadcast_to(counts[indptr[rows] + j], (n_splits, len(rows)))
        drawn = rng.hypergeometric(good, left[:, rows] - good, need[:, rows])
        taken[:, indptr[rows] + j] = drawn
        left[:, rows] -= good
        need[:, rows] -= drawn
    return taken


def _normalised(support: Support, counts: NDArray[np.int64]) -> Support:
    totals = support.row_sums(counts)[support.rows]
    shares = np.where(totals > 0, counts / np.maximum(totals, 1), support.probabilities)
    return Support(support.indptr, support.indices, shares)


def _refitted_halves(model: Model, n_splits: int, rng: np.random.Generator) -> list[Support]:
    """Random halves of independent samples, the chain fitted to each anew."""
    assert model.samples is not None
    n = model.samples.n_transitions
    chains = []
    for _ in range(n_splits):
        order = rng.permutation(n)
        cut = n // 2 + int(rng.integers(0, 2)) * (n % 2)
        halves = (order[:cut], order[cut:])
        chains += [model.samples.take(half).chain(check=False) if len(half) else model.chain for half in halves]
    return [on_entries(model.chain.support, chain) for chain in chains]
