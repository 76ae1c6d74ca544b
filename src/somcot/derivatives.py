"""Derivatives of the distance with respect to kernels, cost, initial distributions and discount.

With phi, psi the optimal transport potentials of a pair and occ the occupancy of pairs under the optimal coupling,

    dd / dP_X(x' | x)  = discount * sum_y occ(x, y) phi_xy(x'),     and similarly for Y,
    dd / dc(x, y)      = occ(x, y),
    dd / dnu_0(x, y)   = (1 - discount) V(x, y),
    dd / d discount    = (<occ, V> - d) / discount - d / (1 - discount).

A row of probabilities sums to 1, so a derivative along it is defined only up to a constant; rows are centred,
sum_x' P(x' | x) dd/dP(x' | x) = 0. If the optimum is not unique (distance 0 between sparse equal kernels, say) this
is one of several subgradients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.chains import MarkovChain, Support
from somcot.plumbing.arrays import Floats
from somcot.plumbing.text import brief_record

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["Gradient", "Margin", "RowGradient", "TimeGradient", "discount_slope", "row_gradient", "rows_centred"]


class Margin(NamedTuple):
    """How far the optimal coupling is from a tie, over the visited pairs.

    Attributes
    ----------
    mass : float
        The smallest probability on an arc of a coupling's basis. If positive, the derivatives in kernels and initial
        distributions are unique; at 0, as between kernels with equal or regular entries, they are one subgradient.
    cost : float
        Smallest excess cost of any other coupling of a pair, per unit of mass, in units of the cost summed over time.
        If positive, the derivative in the cost is unique. Costs such as abs(r - s) often have ties: the derivative is
        then one of several for a cost with free entries, while derivatives through r and s, which preserve the ties,
        remain correct.
    """

    mass: float
    cost: float


@dataclass(frozen=True, eq=False, repr=False)
class RowGradient:
    """Derivative along the rows of one chain, on the positive transition probabilities.

    Attributes
    ----------
    indptr, indices, values : ndarray
        CSR form, a row per state.
    initial : ndarray, shape (n,)
        Derivative with respect to the initial distribution, centred, 0 where the probability is 0.
    sparse : bool
        Whether the chain stores its kernel as a sparse matrix.

    Examples
    --------
    >>> import somcot
    >>> gradient = somcot.distance(somcot.random_walk(3), somcot.random_walk(3, 0.7), "labels", discount=0.9).gradient
    >>> bool((gradient.x.matrix() == gradient.transition_x).all())
    True
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: Floats
    initial: Floats
    sparse: bool

    def __repr__(self) -> str:
        return brief_record(self)

    def matrix(self) -> Floats | csr_array:
        """The derivative as a matrix of the same kind as the chain's; 0 where the transition does not occur."""
        from scipy.sparse import csr_array

        n = len(self.initial)
        # The structure of the chain's own kernel, so that the two can be added.
        csr = csr_array((self.values, self.indices, self.indptr), shape=(n, n))
        return csr if self.sparse else np.asarray(csr.toarray())


@dataclass(frozen=True, eq=False)
class Gradient:
    """Derivatives of the distance.

    Attributes
    ----------
    transition_x, transition_y : ndarray or csr_array, shape (n_x, n_x) and (n_y, n_y)
        With respect to the kernels, rows centred under the kernel. Entries of transitions that do not occur are 0:
        there the distance has only a one-sided derivative.
    cost : ndarray, shape (n_x, n_y)
        With respect to the cost: the occupancy of pairs.
    initial : ndarray, shape (n_x, n_y)
        With respect to the distribution of the initial pair; NaN for pairs that were not computed.
    initial_x, initial_y : ndarray, shape (n_x,) and (n_y,)
        With respect to each initial distribution, with an optimal coupling of the two.
    discount : float
        With respect to the discount (from below, at 1), or the rate; NaN for other clocks.
    margin : Margin
        Whether the derivatives are unique.

    Examples
    --------
    >>> import somcot
    >>> x, y = MarkovChain([[0.5, 0.5], [0.0, 1.0]]), MarkovChain([[0.4, 0.6], [0.0, 1.0]])
    >>> gradient = somcot.distance(x, y, "labels", discount=0.5).gradient
    >>> gradient
    Gradient(transition_x, transition_y, cost, initial, initial_x, initial_y, discount of 2 x 2 states)
    >>> gradient.transition_y.round(3)
    array([[-0.234,  0.156],
           [ 0.   ,  0.   ]])
    """

    x: RowGradient
    y: RowGradient
    cost: Floats
    initial: Floats
    discount: float
    margin: Margin

    def __repr__(self) -> str:
        n_x, n_y = self.cost.shape
        names = "transition_x, transition_y, cost, initial, initial_x, initial_y, discount"
        return f"Gradient({names} of {n_x} x {n_y} states)"

    @property
    def transition_x(self) -> Floats | csr_array:
        """With respect to the kernel of X."""
        return self.x.matrix()

    @property
    def transition_y(self) -> Floats | csr_array:
        """With respect to the kernel of Y."""
        return self.y.matrix()

    @property
    def initial_x(self) -> Floats:
        """With respect to the initial distribution of X."""
        return self.x.initial

    @property
    def initial_y(self) -> Floats:
        """With respect to the initial distribution of Y."""
        return self.y.initial


def discount_slope(occupancy: Floats, V: Floats, distance: float, discount: float) -> float:
    """Derivative in the discount, from the occupancy of pairs, their potentials and the distance, all in one unit."""
    # d = (1 - g) <start, V>: the product rule, with <occ, V> - d from differentiating the flow.
    # Both terms grow with 1 / (1 - discount) and nearly cancel for
    # discounts close to 1, where `relative` has its own formula.
    return (float((occupancy * V).sum()) - distance) / discount - distance / (1.0 - discount)


@dataclass(frozen=True, eq=False)
class TimeGradient:
    """Derivatives of a distance whose kernels change with time.

    Attributes
    ----------
    transition_x, transition_y : tuple of ndarray, shapes (n_t, n_{t+1})
        With respect to the kernel of each step, rows centred under it; 0 where a transition does not occur.
    cost : tuple of ndarray, shapes (n_t, m_t)
        With respect to the cost of each time.
    initial : ndarray, shape (n_0, m_0)
        With respect to the distribution of the initial pair; NaN for pairs that were not computed.
    initial_x, initial_y : ndarray, shape (n_0,) and (m_0,)
        With respect to each initial distribution, centred, 0 where the probability is 0.

    Examples
    --------
    >>> import somcot
    >>> tree = somcot.TimeChain([[[0.5, 0.5]], [[0.9, 0.1], [0.2, 0.8]]])
    >>> other = somcot.TimeChain([[[0.4, 0.6]], [[0.9, 0.1], [0.2, 0.8]]])
    >>> gradient = somcot.distance(tree, other, [[[0.0]], [[0.0, 1.0], [1.0, 0.0]]], horizon=2).time_gradient
    >>> gradient.transition_y[0].round(3)
    array([[-0.3,  0.2]])
    """

    transition_x: tuple[Floats, ...]
    transition_y: tuple[Floats, ...]
    cost: tuple[Floats, ...]
    initial: Floats
    initial_x: Floats
    initial_y: Floats


def rows_centred(support: Support, slots: Floats, scale: float) -> Floats:
    """Numbers per entry of a support, less the mean of their row, times `scale`."""
    # A constant per row does not change the distance, because rows sum to 1.
    means = support.row_sums(support.probabilities * slots)
    with np.errstate(over="ignore"):  # very large costs may overflow to infinity
        return np.asarray(scale * (slots - means[support.rows]))


def row_gradient(chain: MarkovChain, slots: Floats, scale: float) -> RowGradient:
    """Centre one number per entry of the chain's support (initial row last), defined up to a constant per row."""
    indptr, indices, _ = chain.support
    centred = rows_centred(chain.support, slots, scale)
    # The initial row comes last in the support.
    n_entries = int(indptr[-2])
    initial = np.zeros(chain.n_states)
    initial[indices[n_entries:]] = centred[n_entries:]
    return RowGradient(indptr[:-1], indices[:n_entries], centred[:n_entries], initial, chain.is_sparse)
