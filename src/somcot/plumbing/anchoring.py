"""Linear systems at discounts close to 1, and at 1 itself: values and occupancies relative to reference rows.

The value V = cost + discount * P V grows with 1 / (1 - discount), and its rounding with it. Split it into
V = h + gain / (1 - discount), h = 0 at a reference row. With P0 the kernel without the column of the reference (every
visit to it ends the sum),

    a = cost + discount * P0 a    expected cost until the reference is met again,
    b = 1 + discount * P0 b       expected time until then,
    gain = a(ref) / b(ref),       h = a - gain * b,

which is as well conditioned as the reference is easily met, and as good at discount 1. A kernel has one reference in
each of its closed sets of rows. Occupancies follow from the same systems, transposed: a cycle from reference to
reference, as often as it takes place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.arrays import Floats
from somcot.plumbing.discounting import Kernel, discounted_occupancy, discounted_value, reachable

__all__ = ["CLOSE", "Anchored", "anchored", "closed_sets", "law_over_time", "usual_rows"]

CLOSE = 0.9995  # above this discount rounding shows in brackets, and references pay
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Anchored:
    """A kernel with a reference row in each of its closed sets.

    Attributes
    ----------
    kernel : Kernel, shape (n, n)
    rest : Kernel, shape (n, n)
        Without the columns of the references.
    discount : float
        At most 1.
    references : ndarray, shape (k,)
    length : ndarray, shape (n,)
        Expected discounted time until a reference is met: b above.
    """

    kernel: Kernel
    rest: Kernel
    discount: float
    references: Integers
    length: Floats

    def until(self, cost: Floats) -> Floats:
        """Expected discounted cost until a reference is met: a above."""
        return discounted_value(self.rest, cost, self.discount)

    def step(self, values: Floats) -> Floats:
        """The kernel times `values`."""
        return np.asarray(self.kernel.to_scipy() @ values)

    def laws(self, start: Floats) -> tuple[Floats, Floats]:
        """The occupancy (1 - discount) sum_t discount^t start P^t, at 1 its limit; and the visits until a reference.

        The first sums to 1. The second is the expected discounted number of visits to each row before the first
        reference is met (its own row included when the start is one).
        """
        turned = self.rest.transpose()
        visits = np.maximum(discounted_value(turned, start, self.discount), 0.0)
        met = self.discount * (self.kernel.to_scipy().T @ visits)[self.references]
        cycles = np.zeros(len(start))
        cycles[self.references] = met / self.length[self.references]
        law = np.maximum(discounted_value(turned, cycles, self.discount), 0.0) + (1.0 - self.discount) * visits
        reached = reachable(self.kernel, start)
        law = np.where(reached, law, 0.0)
        return law / law.sum(), np.where(reached, visits, 0.0)


def anchored(kernel: Kernel, discount: float, weight: Floats) -> Anchored:
    """Choose in each closed set of rows the one with the most weight.

    It has to be a row that is often met: sums until a rare one are large and cancel.
    """
    references = _heaviest(closed_sets(kernel), weight)
    outside = np.ones(kernel.n)
    outside[references] = 0.0
    rest = Kernel(kernel.indptr, kernel.indices, kernel.data * outside[kernel.indices])
    return Anchored(kernel, rest, discount, references, discounted_value(rest, np.ones(kernel.n), discount))


def law_over_time(kernel: Kernel, start: Floats, discount: float) -> Floats:
    """The share of discounted time spent in each row; at discount 1 in the long run.

    Examples
    --------
    >>> kernel = Kernel.from_matrix(np.array([[0.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    >>> law_over_time(kernel, np.array([1.0, 0.0, 0.0]), 1.0)
    array([0. , 0.5, 0.5])
    """
    if discount <= CLOSE:
        return discounted_occupancy(kernel, start, discount)
    return anchored(kernel, discount, usual_rows(kernel)).laws(start)[0]


def usual_rows(kernel: Kernel) -> Floats:
    """How often each row occurs within its closed set, roughly: enough to choose references by."""
    return discounted_occupancy(kernel, np.full(kernel.n, 1.0 / kernel.n), 1.0 - 1e-6 / kernel.n)


def closed_sets(kernel: Kernel) -> Integers:
    """Number the closed sets of rows (strong components that are never left); -1 for all other rows."""
    from scipy.sparse.csgraph import connected_components

    component: Integers = connected_components(kernel.to_scipy(), connection="strong")[1].astype(np.int64)
    rows = np.repeat(np.arange(kernel.n), np.diff(kernel.indptr))
    component[np.isin(component, component[rows[component[rows] != component[kernel.indices]]])] = -1
    return component


def _heaviest(sets: Integers, weight: Floats) -> Integers:
    """In each set the row with the most weight, the first of equals."""
    rows = np.flatnonzero(sets >= 0)
    order = rows[np.lexsort((rows, -weight[rows], sets[rows]))]
    first = np.append(True, sets[order[1:]] != sets[order[:-1]])
    return np.asarray(np.sort(order[first]))
