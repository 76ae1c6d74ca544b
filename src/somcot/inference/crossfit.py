"""Random halves of the data against each other: the cross-fit gap and the cross-fitted value.

The distance of estimated chains (the plug-in) is too high, because the optimal potentials fit the noise. Split the data
into halves A and B. By the performance-difference identity

    d_B = d_A + <occ_B, delta_AB> + gap(A -> B),      delta_AB = c + discount (P_B phi_A + Q_B psi_A) - V_A,

where phi_A, psi_A are A's transport potentials: the first two terms are B evaluated with A's frozen potentials, and
gap(A -> B) >= 0 is what B gains by fitting its own noise. With A's own occupancy in place of B's the first two terms
are A's potentials evaluated on B to first order,

    C_A = d_A + discount sum_xy occ_A(x, y) [(P_B - P_A)(x) phi_A + (Q_B - Q_A)(y) psi_A] + the same for the starts,

which is nearly unbiased where rows are equal. What is made of the two is in `somcot.inference.rules`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.bellman.slices import thread_count
from somcot.chains import Support
from somcot.inference.model import Model, on_entries
from somcot.inference.rules import Halves
from somcot.plumbing.arrays import Floats
from somcot.plumbing.discounting import discounted_occupancy
from somcot.problem import UnitProblem
from somcot.result import Status
from somcot.solvers.policy_iteration import Solution, iterate

__all__ = ["Half", "cross_fit", "cross_value", "gap", "half_supports"]

HALF_TOLERANCE = 1e-7  # of the cost range; sampling noise is far larger
_NEGLIGIBLE = 1e-9  # occupancy below which a pair cannot move the gap


class Half(NamedTuple):
    """One half solved: its problem, its solution, and the weight of each pair (the start laws last)."""

    problem: UnitProblem
    solution: Solution
    weight: Floats

    @classmethod
    def solve(cls, problem: UnitProblem, plugin: Solution) -> Half:
        """From the potential and the prices of the plug-in, on its pairs."""
        guess = plugin.pairs.table(plugin.V)
        found = iterate(problem, plugin.pairs, threads=1, guess=guess, tolerance=HALF_TOLERANCE, hints=plugin.sweep)
        if found.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return cls.of(problem, found)

    @classmethod
    def of(cls, problem: UnitProblem, found: Solution) -> Half:
        """With the occupancy of pairs under its own coupling."""
        occupancy = discounted_occupancy(*found.sweep.kernel(), problem.discount)
        occupancy = np.where(occupancy > _NEGLIGIBLE, occupancy, 0.0)
        return cls(problem, found, np.append(problem.discount * occupancy, 1.0 - problem.discount))

    @property
    def V(self) -> Floats:  # noqa: N802 - the paper's letter
        """Its potential as a table."""
        return self.solution.pairs.table(self.solution.V)


def cross_fit(
    problem: UnitProblem,
    x: Model,
    y: Model,
    solution: Solution,
    *,
    n_splits: int,
    rng: np.random.Generator,
    threads: int | None = None,
) -> Halves | None:
    """Split the data `n_splits` times and compare the halves; None for no split.

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
    if n_splits == 0:
        return None
    halves_x, halves_y = (half_supports(model, n_splits, rng) for model in (x, y))
    tasks = [UnitProblem(hx, hy, problem.cost, problem.discount) for hx, hy in zip(halves_x, halves_y, strict=True)]
    workers = min(thread_count(threads), len(tasks))
    if workers == 1 or len(solution.pairs) < 400:
        solved = [Half.solve(task, solution) for task in tasks]
    else:
        with ThreadPoolExecutor(workers) as pool:
            solved = list(pool.map(lambda task: Half.solve(task, solution), tasks))
    gaps = [gap(solved[i], solved[i ^ 1]) for i in range(len(solved))]
    distances = [half.solution.distance(problem.discount) for half in solved]
    values = [cross_value(half, problem) for half in solved]
    return Halves(*(float(np.mean(numbers)) for numbers in (gaps, distances, values)))


def gap(a: Half, b: Half) -> float:
    """gap(A -> B): the mean loss of B's optimal coupling against A's potentials, at least 0.

    Both on the same pairs, with supports of the same entries.
    """
    return a.solution.sweep.gap_of(a.V, b.solution.sweep, b.weight)


def cross_value(half: Half, whole: UnitProblem) -> float:
    """C: the half's potentials and occupancy evaluated on the other half, to first order.

    The other half is as far from the whole as this one, on the other side: P_other - P_half = 2 (P_whole - P_half).
    """
    own = half.problem
    slots_x, slots_y = half.solution.sweep.potential_sums(half.V, half.weight)
    change = slots_x @ (whole.support_x.probabilities - own.support_x.probabilities)
    change += slots_y @ (whole.support_y.probabilities - own.support_y.probabilities)
    return half.solution.distance(own.discount) + 2.0 * float(change)


def half_supports(model: Model, n_splits: int, rng: np.random.Generator) -> list[Support]:
    """Supports of the halves of `n_splits` random splits, two after two, all with the entries of the whole.

    Rows without observations of their own in a half keep the probabilities of the whole.
    """
    if model.samples is not None and model.samples.discount is not None:
        return _refitted_halves(model, n_splits, rng)
    support = model.chain.support
    halves = _split_rows(model.counts, support.indptr, n_splits, rng)
    return [model.with_start(_normalised(support, half)) for one in halves for half in (one, model.counts - one)]


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
