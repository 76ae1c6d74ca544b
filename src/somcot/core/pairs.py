"""State pairs of a computation, slices of work, and recurrent classes of pairs.

Let x be recurrent, in a class of period p, and y in one of period q. Under the independent coupling the pairs of the
two classes form gcd(p, q) closed classes, distinguished by (phase of x - phase of y) modulo gcd(p, q), and within a
class all pairs communicate. The steps of any coupling are also steps of the independent one, so no coupling leaves a
class. A pair with a transient member is transient under every coupling.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from somcot.chains import Support
from somcot.compile.jit import kernel
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_count
from somcot.plumbing.linear_systems import Kernel, closed_sets, discounted_value
from somcot.plumbing.memory import require
from somcot.problem import UnitProblem

__all__ = [
    "ChainClasses",
    "PairChoice",
    "PairGroups",
    "Pairs",
    "Slice",
    "absorption_times",
    "all_pairs",
    "chain_classes",
    "choose",
    "cut",
    "expected_time",
    "folded",
    "in_slices",
    "pair_classes",
    "pairs_where",
    "reachable_pairs",
    "thread_count",
    "transitions",
]


# --- The state pairs a computation works on.

PairChoice = Literal["reachable", "all"]


@dataclass(frozen=True, eq=False)
class Pairs:
    """State pairs in increasing order, with their inverse index.

    Attributes
    ----------
    x, y : ndarray of int32, shape (n_pairs,)
        Pair k is (x[k], y[k]).
    index : ndarray of int32, shape (n_x, n_y)
        Position of each pair, -1 for excluded pairs.
    folded : bool
        Whether a pair also represents its mirror image: then x <= y and `index` is symmetric.
    """

    x: NDArray[np.int32]
    y: NDArray[np.int32]
    index: NDArray[np.int32]
    folded: bool = False

    def __len__(self) -> int:
        return len(self.x)

    def table(self, values: Floats, missing: float = 0.0) -> Floats:
        """Values of the pairs as an (n_x, n_y) table, with `missing` for excluded pairs."""
        table = np.full(self.index.shape, missing)
        self.put(table, values)
        return table

    def put(self, table: Floats, values: Floats) -> None:
        """Write the values of the pairs into an (n_x, n_y) table."""
        table[self.x, self.y] = values
        if self.folded:
            table[self.y, self.x] = values

    def unfolded(self) -> Pairs:
        """The same pairs with mirror images listed separately."""
        return pairs_where(self.index >= 0) if self.folded else self


def choose(problem: UnitProblem, pairs: PairChoice) -> Pairs:
    """All pairs, or those reachable from the initial distributions."""
    if pairs not in ("reachable", "all"):
        raise ValueError(f"pairs: found {pairs!r}, expected 'reachable' or 'all'")
    n_x, n_y = problem.shape
    # Masks, the index and pair lists: 32 bytes per pair at the peak.
    require(32.0 * n_x * n_y, f"a table of {n_x} x {n_y} state pairs", "merge states or compare smaller chains")
    return all_pairs(problem) if pairs == "all" else reachable_pairs(problem)


def all_pairs(problem: UnitProblem) -> Pairs:
    """Every pair of states."""
    n_x, n_y = problem.shape
    # Broadcast assignment instead of `np.indices`, which would make int64 copies of twice the size.
    x, y = np.empty((n_x, n_y), dtype=np.int32), np.empty((n_x, n_y), dtype=np.int32)
    x[:] = np.arange(n_x, dtype=np.int32)[:, None]
    y[:] = np.arange(n_y, dtype=np.int32)
    return Pairs(x.ravel(), y.ravel(), np.arange(n_x * n_y, dtype=np.int32).reshape(n_x, n_y))


def reachable_pairs(problem: UnitProblem) -> Pairs:
    """The closure of the initial pairs under products of supports.

    Every coupling stays inside this set, so its optimum is the optimum over all couplings. (The pairs reached by one
    particular coupling are not enough: excluding pairs can hide a cheaper coupling.)
    """
    n_x, n_y = problem.shape
    mask, half = np.zeros((n_x, n_y), dtype=np.bool_), np.zeros((n_x, n_y + 1), dtype=np.bool_)
    _close(*problem.support_x[:2], *problem.support_y[:2], mask, half, np.empty(n_x * n_y + 1, dtype=np.int64))
    return pairs_where(mask)


def folded(pairs: Pairs) -> Pairs:
    """Half of the pairs if the set of pairs is symmetric; all pairs if folding does not save any."""
    mask = pairs.index >= 0
    x, y = np.nonzero(np.triu(mask | mask.T))
    if len(x) >= len(pairs):
        return pairs
    index = np.full(mask.shape, -1, dtype=np.int32)
    index[x, y] = index[y, x] = np.arange(len(x), dtype=np.int32)
    return Pairs(x.astype(np.int32), y.astype(np.int32), index, folded=True)


def pairs_where(mask: NDArray[np.bool_]) -> Pairs:
    """The pairs where an (n_x, n_y) mask is True."""
    x, y = np.nonzero(mask)
    index = np.full(mask.shape, -1, dtype=np.int32)
    index[mask] = np.arange(len(x), dtype=np.int32)
    return Pairs(x.astype(np.int32), y.astype(np.int32), index)


@kernel
def _close(ptr_x, idx_x, ptr_y, idx_y, mask, half, stack):
    """Mark every pair reachable from the start rows.

    A step is taken in two halves, (x, y) -> (x', y) -> (x', y'), and each half-pair is expanded once: the work is
    n_x * n_y times the sum of the support sizes, not their product.
    """
    n_x, n_y = mask.shape
    # The stack starts with the initial pair, numbered (n_x, n_y):
    # the support has the initial distributions as last rows.
    stack[0] = n_x * (n_y + 1) + n_y
    top = 1
    while top > 0:
        top -= 1
        x = stack[top] // (n_y + 1)
        y = stack[top] % (n_y + 1)
        for i in range(ptr_x[x], ptr_x[x + 1]):
            following = idx_x[i]
            if half[following, y]:
                continue
            half[following, y] = True
            for j in range(ptr_y[y], ptr_y[y + 1]):
                if not mask[following, idx_y[j]]:
                    mask[following, idx_y[j]] = True
                    stack[top] = following * (n_y + 1) + idx_y[j]
                    top += 1


# --- Slices of work for threads, short enough for signals such as Ctrl-C to be handled in between.

Slice = tuple[int, int]
Answer = TypeVar("Answer")


def cut(work: NDArray[np.int64], limit: int) -> list[Slice]:
    """Cut items into consecutive slices of about `limit` units of work.

    The cuts depend on the work alone, never on the number of threads.

    Examples
    --------
    >>> cut(np.array([4, 4, 4, 4]), 8)
    [(0, 2), (2, 4)]
    """
    if len(work) == 0:
        return []
    done = np.cumsum(work)
    if done[-1] <= limit:
        return [(0, len(work))]
    # Marks at fixed multiples of `limit`: an item that crosses a mark
    # ends its slice, so no slice has more than `limit` plus one item.
    marks = np.arange(limit, int(done[-1]), limit)
    ends = np.unique(np.concatenate([[0], np.searchsorted(done, marks) + 1, [len(work)]]))
    return list(pairwise(ends.tolist()))


def in_slices(run: Callable[[int, int], Answer], slices: Sequence[Slice], threads: int) -> list[Answer]:
    """Call ``run(lo, hi)`` on every slice and return the results in order."""
    if threads == 1 or len(slices) <= 1:
        return [run(lo, hi) for lo, hi in slices]
    pool = ThreadPoolExecutor(min(threads, len(slices)))
    try:
        return list(pool.map(lambda bounds: run(*bounds), slices))
    finally:
        # After Ctrl-C, slices that have not started are dropped; running ones end within tens of milliseconds.
        pool.shutdown(cancel_futures=True)


def thread_count(threads: int | None) -> int:
    """The requested number, or one per core that this process may use."""
    if threads is not None:
        return check_count("threads", threads)
    try:
        # Affinity rather than `cpu_count`: containers and batch systems often restrict a process to a few cores.
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


# --- Recurrent classes of states and of pairs.

_EPS = float(np.finfo(np.float64).eps)
Integers = NDArray[np.int64]


class ChainClasses(NamedTuple):
    """Recurrent classes, periods and phases of the states of a chain, each an array of shape (n,).

    `component` numbers the recurrent classes, -1 for transient states; `period` and `phase` (below the period) are
    those of recurrent states, 1 and 0 elsewhere.
    """

    component: Integers
    period: Integers
    phase: Integers

    @property
    def recurrent(self) -> NDArray[np.bool_]:
        """Whether each state is recurrent."""
        return self.component >= 0


class PairGroups(NamedTuple):
    """Classes of pairs: the class of each pair, an order grouped by class, and the first position of each class."""

    label: Integers
    order: Integers
    begins: Integers

    @classmethod
    def of(cls, label: Integers) -> PairGroups:
        """Number the classes from 0.

        Examples
        --------
        >>> PairGroups.of(np.array([7, 3, 7])).largest(np.array([1.0, 2.0, 3.0]))
        array([2., 3.])
        """
        label = np.unique(label, return_inverse=True)[1].astype(np.int64)
        order = np.argsort(label, kind="stable")
        # `reduceat` needs the first position of each class; every class is non-empty because labels are renumbered.
        return cls(label, order, np.searchsorted(label[order], np.arange(int(label.max()) + 1)))

    def __len__(self) -> int:
        return len(self.begins)

    def largest(self, values: Floats) -> Floats:
        """The largest value of each class."""
        return np.asarray(np.maximum.reduceat(values[self.order], self.begins))

    def spread(self, values: Floats) -> Floats:
        """Range of the values of each class."""
        # The range as max(v) + max(-v): one primitive instead of two.
        return self.largest(values) + self.largest(-values)

    def centred(self, values: Floats) -> Floats:
        """Values minus the middle of the range of their class."""
        # Halved before subtracting, so that the sum of two huge values cannot overflow.
        middle = self.largest(values) / 2.0 - self.largest(-values) / 2.0
        return np.asarray(values - middle[self.label])


def transitions(support: Support) -> Kernel:
    """The kernel of a chain, without its initial row."""
    # The last row of a support is the initial distribution.
    n_entries = support.indptr[-2]
    return Kernel(support.indptr[:-1], support.indices[:n_entries], support.probabilities[:n_entries])


def chain_classes(chain: Kernel) -> ChainClasses:
    """Recurrent classes, periods and phases of a chain.

    Examples
    --------
    >>> classes = chain_classes(Kernel.from_matrix(np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])))
    >>> classes.recurrent.tolist(), classes.period.tolist(), classes.phase.tolist()
    ([False, True, True], [1, 2, 2], [0, 0, 1])
    """
    component = closed_sets(chain)
    period, phase = np.ones(chain.n, dtype=np.int64), np.zeros(chain.n, dtype=np.int64)
    _phases(chain.indptr, chain.indices, component >= 0, period, phase)
    return ChainClasses(component, period, phase)


def pair_classes(x: ChainClasses, y: ChainClasses) -> Integers:
    """The class of every pair of states, (n_x, n_y); -1 for transient pairs."""
    common = np.gcd.outer(x.period, y.period)
    shift = (x.phase[:, None] - y.phase[None, :]) % common
    joint = x.component[:, None] * (int(y.component.max()) + 1) + y.component[None, :]
    # A unique label per (class of x, class of y, phase difference); labels need not be consecutive.
    labels: Integers = joint * int(common.max()) + shift
    labels[~(x.recurrent[:, None] & y.recurrent[None, :])] = -1
    return labels


def absorption_times(chain: Kernel, recurrent: NDArray[np.bool_], discount: float) -> Floats:
    """Upper bounds of the expected (discounted) number of steps until a recurrent state; 0 for recurrent states.

    Any t with t - discount * P t >= 1 on the transient states and t = 0 elsewhere is an upper bound. The floating-point
    solution is therefore divided by a lower bound of its left-hand side, including all rounding; infinite if that is
    not positive.
    """
    times = np.zeros(chain.n)
    if recurrent.all():
        return times
    inside = ~recurrent
    # Steps into recurrent states are removed, which leaves a substochastic matrix: time stops there.
    data = chain.data * inside[chain.indices] * np.repeat(inside, np.diff(chain.indptr))
    alone = Kernel(chain.indptr, chain.indices, data)
    times = np.maximum(discounted_value(alone, inside.astype(np.float64), discount), 0.0)
    left = times - discount * (alone.to_scipy() @ times)
    width = int(np.diff(chain.indptr).max())
    # The margin covers the rounding of the product (width + 8 operations) with a factor of safety of 4.
    least = float(left[inside].min()) - 4.0 * _EPS * (width + 8) * float(times.max())
    return times * ((1.0 + 4.0 * _EPS) / least) if least > 0.0 else np.where(inside, np.inf, 0.0)


def expected_time(support: Support, times: Floats) -> float:
    """An upper bound of the mean of `times` over the initial distribution."""
    first = slice(support.indptr[-2], support.indptr[-1])
    start, probabilities = times[support.indices[first]], support.probabilities[first]
    return float((start * probabilities).sum()) * (1.0 + 1e-12)  # covers the rounding of the sum


@kernel
def _phases(indptr, indices, recurrent, period, phase):
    """Breadth-first search through every recurrent class; the period is the gcd of all cycle lengths."""
    n = indptr.size - 1
    level = np.full(n, -1, dtype=np.int64)
    queue = np.empty(n, dtype=np.int64)
    for first in range(n):
        if not recurrent[first] or level[first] >= 0:
            continue
        level[first] = 0
        queue[0] = first
        size = 1
        done = 0
        common = np.int64(0)
        while done < size:
            node = queue[done]
            done += 1
            for t in range(indptr[node], indptr[node + 1]):
                following = indices[t]
                if level[following] < 0:
                    level[following] = level[node] + 1
                    queue[size] = following
                    size += 1
                else:
                    # An arc that closes a cycle: the difference of the levels is a
                    # multiple of the period. `common` = 0 at first, and gcd(0, b) = b.
                    a, b = common, abs(level[node] + 1 - level[following])
                    while b > 0:
                        a, b = b, a % b
                    common = a
        for k in range(size):
            # Every class has a cycle, so `common` is positive here.
            period[queue[k]] = common
            phase[queue[k]] = level[queue[k]] % common
