"""Which state pairs can follow one another for ever: the classes of pairs that rule the long run.

Let x be recurrent, in a class of period p, and y in one of period q. Under the independent coupling the pairs of the
two classes fall into gcd(p, q) closed classes, told apart by (phase of x - phase of y) modulo gcd(p, q), and inside a
class every pair leads to every pair. The steps of any coupling are among those of the independent one, so no coupling
leaves a class. A pair with a transient member is left for good by every coupling, as that member is.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.chains import Support
from somcot.plumbing.anchoring import closed_sets
from somcot.plumbing.arrays import Floats
from somcot.plumbing.discounting import Kernel, discounted_value
from somcot.plumbing.jit import kernel

__all__ = [
    "ChainClasses",
    "Groups",
    "absorption_times",
    "chain_classes",
    "expected_time",
    "pair_classes",
    "transitions",
]

_EPS = float(np.finfo(np.float64).eps)
Integers = NDArray[np.int64]


class ChainClasses(NamedTuple):
    """Where the states of a chain belong, each an array of shape (n,).

    `component` numbers the recurrent classes, -1 for transient states; `period` and `phase` (below the period) are
    those of recurrent states, 1 and 0 elsewhere.
    """

    component: Integers
    period: Integers
    phase: Integers

    @property
    def recurrent(self) -> NDArray[np.bool_]:
        """Whether each state is come back to for ever."""
        return self.component >= 0


class Groups(NamedTuple):
    """Classes of pairs: the class of each one, an order that keeps them together and where each class begins in it."""

    label: Integers
    order: Integers
    begins: Integers

    @classmethod
    def of(cls, label: Integers) -> Groups:
        """Number the classes from 0 on.

        Examples
        --------
        >>> Groups.of(np.array([7, 3, 7])).largest(np.array([1.0, 2.0, 3.0]))
        array([2., 3.])
        """
        label = np.unique(label, return_inverse=True)[1].astype(np.int64)
        order = np.argsort(label, kind="stable")
        return cls(label, order, np.searchsorted(label[order], np.arange(int(label.max()) + 1)))

    def __len__(self) -> int:
        return len(self.begins)

    def largest(self, values: Floats) -> Floats:
        """The largest value of each class."""
        return np.asarray(np.maximum.reduceat(values[self.order], self.begins))

    def spread(self, values: Floats) -> Floats:
        """Largest less least value of each class."""
        return self.largest(values) + self.largest(-values)

    def centred(self, values: Floats) -> Floats:
        """Less the middle of its class."""
        middle = self.largest(values) / 2.0 - self.largest(-values) / 2.0
        return np.asarray(values - middle[self.label])


def transitions(support: Support) -> Kernel:
    """The kernel of a chain, without its start row."""
    n_entries = support.indptr[-2]
    return Kernel(support.indptr[:-1], support.indices[:n_entries], support.probabilities[:n_entries])


def chain_classes(chain: Kernel) -> ChainClasses:
    """Recurrent classes, periods and phases of a chain.

    Examples
    --------
    >>> found = chain_classes(Kernel.from_matrix(np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])))
    >>> found.recurrent.tolist(), found.period.tolist(), found.phase.tolist()
    ([False, True, True], [1, 2, 2], [0, 0, 1])
    """
    component = closed_sets(chain)
    period, phase = np.ones(chain.n, dtype=np.int64), np.zeros(chain.n, dtype=np.int64)
    _phases(chain.indptr, chain.indices, component >= 0, period, phase)
    return ChainClasses(component, period, phase)


def pair_classes(x: ChainClasses, y: ChainClasses) -> Integers:
    """The class of every pair of states, (n_x, n_y); -1 for pairs that are left for good."""
    common = np.gcd.outer(x.period, y.period)
    shift = (x.phase[:, None] - y.phase[None, :]) % common
    joint = x.component[:, None] * (int(y.component.max()) + 1) + y.component[None, :]
    labels: Integers = joint * int(common.max()) + shift
    labels[~(x.recurrent[:, None] & y.recurrent[None, :])] = -1
    return labels


def absorption_times(chain: Kernel, recurrent: NDArray[np.bool_], discount: float) -> Floats:
    """Upper bounds of the expected (discounted) number of steps before each state's chain is recurrent; 0 once it is.

    Any t with t - discount * P t >= 1 on the transient states and t = 0 elsewhere is one. So the solution found in
    floating point is divided by the least that its left side may be, all rounding charged; infinite where that is not
    positive.
    """
    times = np.zeros(chain.n)
    if recurrent.all():
        return times
    inside = ~recurrent
    data = chain.data * inside[chain.indices] * np.repeat(inside, np.diff(chain.indptr))
    alone = Kernel(chain.indptr, chain.indices, data)
    times = np.maximum(discounted_value(alone, inside.astype(np.float64), discount), 0.0)
    left = times - discount * (alone.to_scipy() @ times)
    width = int(np.diff(chain.indptr).max())
    least = float(left[inside].min()) - 4.0 * _EPS * (width + 8) * float(times.max())
    return times * ((1.0 + 4.0 * _EPS) / least) if least > 0.0 else np.where(inside, np.inf, 0.0)


def expected_time(support: Support, times: Floats) -> float:
    """An upper bound of the mean of `times` over the first state."""
    first = slice(support.indptr[-2], support.indptr[-1])
    start, law = times[support.indices[first]], support.probabilities[first]
    return float((start * law).sum()) * (1.0 + 1e-12)


@kernel
def _phases(indptr, indices, recurrent, period, phase):
    """Breadth first through every recurrent class; the period is what all detours have in common."""
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
                    a, b = common, abs(level[node] + 1 - level[following])
                    while b > 0:
                        a, b = b, a % b
                    common = a
        for k in range(size):
            period[queue[k]] = common
            phase[queue[k]] = level[queue[k]] % common
