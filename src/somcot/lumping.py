"""Lumping states of a chain: exact quotients, and approximate ones with an error bound."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from somcot.chains import MarkovChain, Support
from somcot.core.partition import Labels, block_masses, coarsest, first_members, merged
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_discount, check_number, real_array
from somcot.plumbing.html import Markup, card

__all__ = ["Lumping", "lump"]

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False, repr=False)
class Lumping:
    """A chain with merged states and the resulting error bound.

    Attributes
    ----------
    labels : ndarray of int, shape (n,)
        The block of each state; blocks are numbered by their first members.
    chain : MarkovChain
        The chain of the blocks. Each has the label of its first member.
    features : ndarray, shape (n_blocks,) or (n_blocks, m)
        Features of each block: those of its members if they are equal, otherwise their mean.
    cost_error : float
        Bound of the difference between the features (or costs) of a state and of its block.
    row_error : float
        Bound of the difference between a row, summed over blocks, and that of its block (total variation).
    span : float
        Largest difference between the features (or costs) of two states.

    Examples
    --------
    >>> import somcot
    >>> lumped = lump(somcot.MarkovChain([[0.5, 0.3, 0.2], [0.0, 0.9, 0.1], [0.0, 0.1, 0.9]]), [1, 0, 0])
    >>> lumped.labels.tolist(), lumped.bound(0.9) < 1e-12
    ([0, 1, 1], True)
    """

    labels: NDArray[np.int64]
    chain: MarkovChain
    features: Floats
    cost_error: float
    row_error: float
    span: float

    @property
    def error(self) -> float:
        """One step's error: distances to any process change by at most ``error / (1 - discount)``."""
        # At discount g each later step contributes g row_error span, which the sum bounds by 1 / (1 - g).
        return self.cost_error + self.row_error * self.span

    def bound(self, discount: float) -> float:
        """Upper bound of the change of the distance to any process at this discount."""
        discount = check_discount(discount)
        return self.cost_error + discount / (1.0 - discount) * self.row_error * self.span

    def __repr__(self) -> str:
        return f"Lumping({len(self.labels)} states in {self.chain.n_states} blocks, error <= {self.error:.3g})"

    def _repr_html_(self) -> str:
        summary = f"{len(self.labels):,} states in {self.chain.n_states:,} blocks, error at most {self.error:.3g}"
        return card("Lumping", (), Markup(self.chain._repr_html_()), sub=summary)


def lump(chain: MarkovChain, cost_or_features: ArrayLike, *, tolerance: float = 0.0) -> Lumping:
    """Merge states with equal features and equal transition probabilities between blocks.

    Without tolerance this is the coarsest exact quotient: states of a block have equal features and enter every block
    with equal probabilities (up to rounding). Every distance to another process is the same for the quotient. With a
    tolerance, features and probabilities need only agree within it, and the error is bounded: for any process and any
    discount,

        abs(d(chain, other) - d(quotient, other)) <= cost_error + discount / (1 - discount) * row_error * span.

    (Lifted to all states, the quotient's potential has Bellman residuals of at most cost_error plus
    discount * row_error times its variation, which is at most span / (1 - discount).)

    Parameters
    ----------
    chain : MarkovChain
    cost_or_features : array_like, shape (n,) or (n, m)
        Observed features of each state: a number, a row of features or its costs against the states of another process.
        Rows are compared in the Euclidean norm, which bounds differences of Euclidean costs and of single costs.
    tolerance : float
        Features, and probabilities of entering a block, that differ by at most this much count as equal.

    Examples
    --------
    >>> import somcot
    >>> noisy = somcot.block_chain(somcot.random_walk(3, 0.7), 4)
    >>> lumped = lump(noisy, [1] * 4 + [0] * 4 + [-1] * 4)
    >>> lumped
    Lumping(12 states in 3 blocks, error <= 1.78e-15)
    >>> lumped.chain.transition.round(3)
    array([[0.9, 0.1, 0. ],
           [0.3, 0. , 0.7],
           [0. , 0.1, 0.9]])
    """
    if not isinstance(chain, MarkovChain):
        raise TypeError(f"chain: found {type(chain).__name__}, expected a MarkovChain; wrap a matrix: MarkovChain(...)")
    rows = _check_rows(cost_or_features, chain.n_states)
    tolerance = check_number("tolerance", tolerance)
    if not 0.0 <= tolerance < np.inf:
        raise ValueError(f"tolerance: found {tolerance}, expected a number of at least 0")
    labels = _exact(chain.support, rows) if tolerance == 0.0 else _close(chain.support, rows, tolerance)
    lumping = _lumping(chain, rows, labels, exact=tolerance == 0.0)
    return replace(lumping, features=lumping.features[:, 0]) if np.ndim(cost_or_features) == 1 else lumping


def _check_rows(features: object, n: int) -> Floats:
    """One row per state."""
    values = np.asarray(features)
    rows = real_array("cost_or_features", values, 1 if values.ndim == 1 else 2)
    if len(rows) != n:
        raise ValueError(f"cost_or_features: found {len(rows)} rows for {n} states; give exactly one per state")
    return np.ascontiguousarray(rows.reshape(n, -1)) + 0.0  # removes the sign of -0.0


def _exact(support: Support, rows: Floats) -> Labels:
    # None if no two states are equivalent.
    quotient = merged(support, rows)
    return np.arange(len(rows)) if quotient is None else quotient.labels


def _close(support: Support, rows: Floats, tolerance: float) -> Labels:
    """Each state joins the first earlier state that is close; then blocks are refined."""
    labels, leaders = np.empty(len(rows), dtype=np.int64), np.empty(0, dtype=np.int64)
    for state, row in enumerate(rows):
        # Compared with the leader only, so that a chain of small differences cannot join distant states.
        near = np.flatnonzero(np.sqrt(((rows[leaders] - row) ** 2).sum(axis=1)) <= tolerance)
        labels[state] = near[0] if len(near) else len(leaders)
        leaders = leaders if len(near) else np.append(leaders, state)
    return coarsest(support, labels, len(leaders), tolerance)[0]


def _lumping(chain: MarkovChain, rows: Floats, labels: Labels, *, exact: bool) -> Lumping:
    """The quotient: rows of the first members if lumping is exact, means over the members otherwise."""
    from scipy.sparse import csr_array

    n, n_blocks = len(labels), int(labels.max()) + 1
    first = first_members(labels, n_blocks)
    # Row n is the initial distribution.
    masses = csr_array(block_masses(chain.support, labels, n_blocks))
    members = csr_array((np.ones(n), (labels, np.arange(n))), shape=(n_blocks, n))
    sizes = np.bincount(labels, minlength=n_blocks).astype(np.float64)
    if exact:
        kernel, looks = masses[first], rows[first]
    else:
        kernel = csr_array(members @ masses[:n])
        kernel.data /= np.repeat(sizes, np.diff(kernel.indptr))
        # Means minimise the largest error of a block only approximately, but need no optimisation.
        looks = (members @ rows) / sizes[:, None]
    # Total variation is half of the absolute difference.
    apart = float(abs(masses[:n] - csr_array(kernel)[labels]).sum(axis=1).max()) / 2.0
    off = float(np.sqrt(((rows - looks[labels]) ** 2).sum(axis=1)).max())
    features = None if chain.features is None else np.asarray(members @ chain.features) / sizes
    quotient = MarkovChain(
        kernel if chain.is_sparse else kernel.toarray(),
        np.asarray(masses[[n]].toarray()).ravel(),
        states=[chain.states[k] for k in first],
        normalize=True,
        features=features,
    )
    # Rounding of the sums over blocks, of the means, and of normalising the rows of the quotient.
    # Without merging nothing was summed.
    row_error = apart + (4.0 * _EPS if n_blocks < n else 0.0)
    span = float(np.sqrt((np.ptp(rows, axis=0) ** 2).sum()))
    return Lumping(labels, quotient, np.asarray(looks), off * (1.0 + 8.0 * _EPS), row_error, span)
