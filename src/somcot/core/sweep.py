"""Bellman improvement: the optimal transition coupling of every state pair against a potential."""
# Records from the user's problem to compiled code, each built from the previous one:
#   Problem      two chains, a cost and a clock, in the user's units (`somcot.problem`)
#   UnitProblem  its supports, with the cost scaled to [0, 1] and the discount
#   Reduced      an equivalent UnitProblem with fewer states, and the mapping back (`core.reduction`)
#   Pairs        the numbered pairs of states (`core.pairs`)
#   Sweep        one transport problem per pair, each with its last basis: `improve(V)` solves all of them once
#   _Problems    these transport problems: slices of narrow ones and a list of wide ones, which other kernels solve
#   Task         all of them as arrays for the kernels (`core.transport.wide_pairs`)
# Solvers see the first five. `Solution` (policy_iteration) is a Sweep with the potential that it has reached.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.chains import Support
from somcot.core.pairs import Pairs, cut, in_slices, thread_count
from somcot.core.transport import Bases, Rows, add_potentials, balance, kernel_entries, optimise
from somcot.core.transport.repair import margins, move, repair
from somcot.core.transport.wide_pairs import WIDE, Task, WidePairs
from somcot.plumbing.arrays import Floats
from somcot.plumbing.linear_systems import Kernel
from somcot.plumbing.memory import require
from somcot.problem import UnitProblem

__all__ = ["Improvement", "Sweep", "integer_rows", "transport_values"]

# Work of one slice, in cells of cost matrices: about 30 ms, so that signals are handled in between.
_SLICE = 500_000


class Improvement(NamedTuple):
    """The result of one sweep.

    Attributes
    ----------
    low, high : ndarray, shape (n_pairs + 1,)
        Bounds of the optimal transport value of each pair, with the initial distributions last. They hold for the rows
        as floats divided by their exact sums (see `somcot.certificates`).
    value : ndarray, shape (n_pairs + 1,)
        Costs of the plans.
    changed : int
        Number of pairs whose plan changed.
    """

    low: Floats
    high: Floats
    value: Floats
    changed: int


class Sweep:
    """The transport problems of all pairs, each with its last optimal basis.

    Parameters
    ----------
    problem : UnitProblem
    pairs : Pairs
    threads : int, optional
        Number of threads, by default one per core. The result does not depend on it.
    hints : Sweep, optional
        A sweep on the same pairs and the same entries of the supports, whose bases provide initial prices.
    targets : Pairs, optional
        Pairs to which steps lead, by default the pairs themselves. They differ if only some pairs are to be solved, or
        if the states change from one time to the next.
    """

    def __init__(
        self,
        problem: UnitProblem,
        pairs: Pairs,
        threads: int | None = None,
        hints: Sweep | None = None,
        targets: Pairs | None = None,
    ) -> None:
        self.pairs = pairs
        self.targets = pairs if targets is None else targets
        self.threads = thread_count(threads)
        n_x, n_y = problem.shape
        # The initial distributions are the last "pair".
        self._pair_x, self._pair_y = _and_last(pairs.x, n_x), _and_last(pairs.y, n_y)
        hinted = None if hints is None else hints._bases
        what = f"the exact solution on {len(pairs):,} state pairs"
        tasks = _Problems(problem.support_x, problem.support_y, self._pair_x, self._pair_y, hinted, what)
        self._problems, self._unit, self._x, self._y = tasks, tasks.unit, tasks.x, tasks.y
        self._bases: Bases = tasks.bases
        # The work of one sweep, from which solvers decide how accurately to evaluate.
        self.cells = tasks.n_cells

    def improve(self, V: Floats) -> Improvement:
        """Compute the optimal transition coupling of every pair against the potential V, (n_x, n_y)."""
        low, high, value = (np.empty(len(self._pair_x)) for _ in range(3))
        changed = self._problems.improve(V, (low, high, value), self.threads)
        return Improvement(low, high, value, changed)

    def kernel(self) -> tuple[Kernel, Floats]:
        """The current transition coupling, (n_pairs, n_targets), and the initial distribution, (n_targets,)."""
        n, n_arcs = len(self.pairs), len(self._bases.cells)
        indptr = np.zeros(n + 2, dtype=np.int64)
        indices = np.empty(n_arcs, dtype=np.int32)
        data = np.empty(n_arcs)
        kernel_entries(
            self._pair_x, self._pair_y, self._x, self._y, self._unit, self._bases, self.targets.index,
            indptr, indices, data,
        )  # fmt: skip
        start = np.zeros(len(self.targets))
        begin, end = indptr[n], indptr[n + 1]
        start[indices[begin:end]] = data[begin:end]
        return Kernel(indptr[: n + 1], indices[:begin], data[:begin]), start

    def unfolded(self, problem: UnitProblem) -> Sweep:
        """The same plans on unfolded pairs; a mirror image has the transposed plan of its pair."""
        if not self.pairs.folded:
            return self
        full = Sweep(problem, self.pairs.unfolded(), self.threads)
        x, y = full.pairs.x, full.pairs.y
        source = np.append(self.pairs.index[x, y], len(self.pairs))
        lengths = np.diff(full._bases.ptr)
        # Positions of the source arcs, for pairs in a new order: ranges of different lengths without a loop.
        arcs = np.arange(lengths.sum()) + np.repeat(self._bases.ptr[source] - full._bases.ptr[:-1], lengths)
        cells = self._bases.cells[arcs]
        # A cell is i * columns + j; the transposed plan exchanges rows and columns.
        rows, columns = (np.diff(side.indptr) for side in (self._x, self._y))
        turned = np.repeat(np.append(x > y, False), lengths)
        n, m = (np.repeat(sizes[at], lengths) for sizes, at in ((rows, full._pair_x), (columns, full._pair_y)))
        full._bases.cells[:] = np.where(turned, cells % n * m + cells // n, cells)
        full._bases.flows[:] = self._bases.flows[arcs]
        full._bases.known[:] = self._bases.known[source]
        return full

    def potential_sums(self, V: Floats, weight: Floats) -> tuple[Floats, Floats]:
        """Transport potentials summed over pairs with weights, one number per entry of each chain's support.

        Parameters
        ----------
        V : ndarray, shape (n_x, n_y)
            The potential that the current bases are optimal for.
        weight : ndarray, shape (n_pairs + 1,)
            The weight of each pair, with that of the initial distributions last.
        """
        slots_x, slots_y = np.zeros(len(self._x.indices)), np.zeros(len(self._y.indices))
        add_potentials(V, self._pair_x, self._pair_y, self._x, self._y, self._bases, weight, slots_x, slots_y)
        return slots_x, slots_y

    def resume(self, V: Floats, last: Sweep) -> None:
        """Reuse the bases of a sweep on the same pairs, optimal for V, where possible (`core.transport.repair`)."""

        def run(lo: int, hi: int) -> int:
            taken: int = repair(
                lo, hi, V, self._pair_x, self._pair_y, self._x, self._y, self._unit, self._bases,
                last._x, last._y, last._bases,
            )  # fmt: skip
            return taken

        work = np.diff(self._bases.ptr) ** 2  # at least four times the cells of a pair
        in_slices(run, cut(work, 4 * _SLICE), self.threads)

    def margins(self, V: Floats, wanted: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Margins of the bases of the wanted pairs (initial distributions last): in mass and in reduced cost."""
        flow, cost = np.empty(len(self._pair_x)), np.empty(len(self._pair_x))
        margins(V, self._pair_x, self._pair_y, self._x, self._y, self._unit, self._bases, wanted, flow, cost)
        return flow, cost

    def change(self, slots_x: Floats, slots_y: Floats) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
        """The change of the transition coupling for a change of the probabilities, as triplets over pairs.

        Parameters
        ----------
        slots_x, slots_y : ndarray
            One number per entry of each chain's support; every row sums to 0.
        """
        change = np.empty(len(self._bases.cells))
        move(self._pair_x, self._pair_y, self._x, self._y, self._bases, slots_x, slots_y, change)
        row = np.repeat(np.arange(len(self._pair_x)), np.diff(self._bases.ptr))
        # The local cell of an arc, i * columns + j, mapped to the pair of successor states.
        x, y = self._pair_x[row], self._pair_y[row]
        columns = (self._y.indptr[y + 1] - self._y.indptr[y]).astype(np.int32)
        i, j = np.divmod(self._bases.cells, columns)
        following = self.pairs.index[self._x.indices[self._x.indptr[x] + i], self._y.indices[self._y.indptr[y] + j]]
        return row, following, change


def transport_values(V: Floats, x: Support, y: Support, pair_x: NDArray[np.int32], pair_y: NDArray[np.int32]) -> Floats:
    """Upper bounds of the optimal transport values of pairs of rows against the cost V, for arbitrary rows.

    Several kernels can be concatenated in `x` and `y`: pairs refer to rows, and entries to rows and columns of V.
    """
    low, high, value = (np.empty(len(pair_x)) for _ in range(3))
    _Problems(x, y, pair_x, pair_y).improve(V, (low, high, value), 1)
    return high


class _Problems:
    """Transport problems of pairs of rows, each with its basis: narrow ones in the input order, wide ones reordered.

    `hints` are bases of the same problems that provide initial prices; `what` needs the memory, in an error.
    """

    def __init__(
        self, x: Support, y: Support, pair_x: NDArray[np.int32], pair_y: NDArray[np.int32],
        hints: Bases | None = None, what: str = "",
    ) -> None:  # fmt: skip
        lengths_x, lengths_y = np.diff(x.indptr), np.diff(y.indptr)
        rows, columns = lengths_x[pair_x], lengths_y[pair_y]
        widest = int(lengths_x.max()), int(lengths_y.max())
        # A basis of an n-by-m problem has n + m - 1 arcs.
        ptr = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(rows + columns - 1, out=ptr[1:])
        n_arcs = int(ptr[-1])
        if what:
            require(
                36.0 * n_arcs + 1100.0 * len(rows),  # measured: bases, kernel, its solution and the coupling
                f"{what} with {n_arcs:,} arcs",
                "merge states, or use method='somcot' on samples",
            )
        # Orden's perturbation needs unit > 2 * rows (`narrow_simplex`); a power of two makes division a shift.
        self.unit = 1 << (2 * widest[0] + 1).bit_length()
        # Masses sum to 2^61 / unit, so that flows in parts of a unit
        # stay below 2^61 and sums of two of them fit into int64.
        self.x, self.y = integer_rows(x, 2**61 // self.unit), integer_rows(y, 2**61 // self.unit)
        known = np.zeros(len(rows), dtype=np.uint8)
        self.bases = Bases(ptr, np.zeros(n_arcs, dtype=np.int32), np.zeros(n_arcs, dtype=np.int64), known)
        # Without hints the argument is the bases themselves: compiled
        # code has one signature, and unknown bases are not read.
        self._task = Task(pair_x, pair_y, self.x, self.y, self.unit, self.bases, self.bases if hints is None else hints)
        cells = rows * columns
        self.n_cells = int(cells.sum())
        self.wide: WidePairs | None = None
        # The constant is the overhead of a pair, so that slices of tiny problems are bounded too.
        self._narrow, work = np.arange(len(cells)), cells + 16
        if min(widest) >= WIDE:
            wide = np.minimum(rows, columns) >= WIDE
            self._narrow, work = np.flatnonzero(~wide), work[~wide]
            self.wide = WidePairs(self._task, np.flatnonzero(wide)) if len(work) < len(wide) else None
        self._slices = cut(work, _SLICE)

    def improve(self, V: Floats, targets: tuple[Floats, Floats, Floats], threads: int) -> int:
        """Solve all problems; `targets` receives bounds and values. Returns the number of changed bases."""

        def run(lo: int, hi: int) -> int:
            changed: int = optimise(self._narrow[lo:hi], V, *self._task, *targets)
            return changed

        changed = sum(in_slices(run, self._slices, threads))
        return changed if self.wide is None else changed + self.wide.improve(V, targets, threads)


def _and_last(states: NDArray[np.int32], last: int) -> NDArray[np.int32]:
    """Append one state; `np.append` takes three times as long."""
    extended = np.empty(len(states) + 1, dtype=np.int32)
    extended[:-1], extended[-1] = states, last
    return extended


def integer_rows(support: Support, total: int) -> Rows:
    """Probabilities as integers of at least 1 that sum to `total` in every row; the largest takes the remainder."""
    # Every mass is at least 1: perturbed masses must be positive, also for probabilities below 2^-61.
    masses = np.maximum(np.floor(support.probabilities * float(total)), 1.0).astype(np.int64)
    excess, rounding = (np.empty(len(support.indptr) - 1) for _ in range(2))
    balance(support.indptr, support.probabilities, masses, total, excess, rounding)
    return Rows(*support, masses, excess, rounding)
