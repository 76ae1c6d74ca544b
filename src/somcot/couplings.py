"""Occupancy couplings mu(x, y, x', y'): marginals, conditionals, constraint violations and rounding.

mu is the discounted distribution of (X_t, Y_t, X_{t+1}, Y_{t+1}) under a coupling of two chains. `Coupling` keeps only
the nonzero entries. The functions take a `Coupling` or its marginals, so that solvers which never build mu can use
them too.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_discount, check_kind, check_number, real_array
from somcot.plumbing.memory import require
from somcot.plumbing.text import brief_record

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from somcot.chains import MarkovChain
    from somcot.result import Result

__all__ = [
    "Aligned",
    "Coupling",
    "Duals",
    "Maps",
    "Match",
    "MatchInterval",
    "Residuals",
    "alignment",
    "conditional",
    "flow_residual",
    "residuals",
    "round_occupancy",
    "round_symmetric",
    "round_to_marginals",
]

Indices = NDArray[np.int32]


class Residuals(NamedTuple):
    """The paper's three total absolute constraint violations (l1)."""

    flow: float
    causal_x: float
    causal_y: float


class Duals(NamedTuple):
    """Averaged multipliers of the paper's Lagrangian: alpha_X(x, x', y), alpha_Y(x, y, y') and V(x, y)."""

    alpha_x: Floats
    alpha_y: Floats
    V: Floats

    def __repr__(self) -> str:
        return brief_record(self)


class Maps(NamedTuple):
    """The encoder lambda_X(y | x), (n_x, n_y), and the decoder lambda_Y(x | y), (n_y, n_x).

    `at_noise_level` is True for maps solved to the level of the sampling noise, False for those of the coupling.
    """

    encoder: Floats
    decoder: Floats
    at_noise_level: bool = False

    def __repr__(self) -> str:
        return brief_record(self)


class Match(NamedTuple):
    """A state of X, the state of Y it is most often coupled with, and the conditional probability."""

    x: Hashable
    y: Hashable
    probability: float
    occupancy: float


class Aligned(NamedTuple):
    """A state of X, the state of Y assigned to it, and the distance of the processes started in the two.

    `determined` is False where another assignment with the same total gives the state another partner, or none.
    """

    x: Hashable
    y: Hashable
    distance: float
    determined: bool


class MatchInterval(NamedTuple):
    """A `Match` with the ends of an interval for its probability, from `Result.matches(confidence=...)`.

    Optimal couplings need not be unique: the interval contains the probabilities in all of them. `determined` is False
    where another partner is as frequent as `y` in one of them, or may be within the noise.
    """

    x: Hashable
    y: Hashable
    probability: float
    occupancy: float
    low: float
    high: float
    determined: bool

    def __str__(self) -> str:
        if not self.determined:
            return f"{self.x}: not determined"
        return f"{self.x} corresponds to {self.y} with {self.probability:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True, eq=False)
class Coupling:
    """An occupancy coupling, stored as its nonzero entries.

    Attributes
    ----------
    shape : (n_x, n_y)
    x, y, next_x, next_y : ndarray of int32, shape (k,)
        Entry e is mu(x[e], y[e], next_x[e], next_y[e]).
    mass : ndarray, shape (k,)
    start : ndarray, shape (n_x, n_y)
        The distribution of the initial pair of states.

    Examples
    --------
    >>> import somcot
    >>> plan = somcot.distance(somcot.random_walk(3), somcot.random_walk(3, 0.7), "labels", discount=0.9).plan
    >>> plan
    Coupling(3 x 3 state pairs, 9 joint steps with mass)
    >>> plan.state_law().round(3)
    array([[0.644, 0.   , 0.078],
           [0.   , 0.083, 0.   ],
           [0.   , 0.   , 0.196]])
    >>> float(abs(plan.dense().sum(axis=(2, 3)) - plan.state_law()).max()), plan.next_law().shape
    (0.0, (3, 3))
    >>> plan.marginal_x().shape, plan.marginal_y().shape, plan.swap().shape
    ((3, 3), (3, 3), (3, 3))
    """

    shape: tuple[int, int]
    x: Indices
    y: Indices
    next_x: Indices
    next_y: Indices
    mass: Floats
    start: Floats

    def __repr__(self) -> str:
        return f"Coupling({self.shape[0]} x {self.shape[1]} state pairs, {len(self.mass):,} joint steps with mass)"

    @classmethod
    def from_dense(cls, mu: ArrayLike, start: ArrayLike) -> Coupling:
        """Build from a full (n_x, n_y, n_x, n_y) array.

        Examples
        --------
        >>> import somcot
        >>> plan = somcot.distance(somcot.random_walk(3), somcot.random_walk(3, 0.7), "labels", discount=0.9).plan
        >>> same = Coupling.from_dense(plan.dense(), plan.start)
        >>> bool(np.allclose(same.state_law(), plan.swap().state_law().T))
        True
        >>> bool(np.allclose(plan.marginal_x().sum(), plan.marginal_y().sum())), plan.next_law().shape
        (True, (3, 3))
        """
        dense = real_array("mu", mu, 4)
        first = real_array("start", start, 2)
        n_x, n_y = dense.shape[:2]
        if dense.shape[2:] != (n_x, n_y) or first.shape != (n_x, n_y):
            raise ValueError(f"mu: shape is {dense.shape}, start: shape is {first.shape}, expected (n_x, n_y) twice")
        # Exact zeros only: small masses may be rounding, but also rare transitions.
        where = np.nonzero(dense)
        x, y, next_x, next_y = (index.astype(np.int32) for index in where)
        return cls((n_x, n_y), x, y, next_x, next_y, dense[where], first)

    def dense(self) -> Floats:
        """The full array, (n_x, n_y, n_x, n_y); raises an error if it does not fit into memory."""
        n_x, n_y = self.shape
        require(
            8.0 * (n_x * n_y) ** 2,
            f"the full coupling of {n_x} x {n_y} states",
            "use result.plan, which keeps only the entries with mass",
        )
        mu = np.zeros((n_x, n_y, n_x, n_y))
        # `add.at`: an entry may be listed more than once.
        np.add.at(mu, (self.x, self.y, self.next_x, self.next_y), self.mass)
        return mu

    def state_law(self) -> Floats:
        """Distribution of the pair (X_t, Y_t): mu summed over the next states, (n_x, n_y)."""
        return _accumulate((self.x, self.y), self.mass, self.shape)

    def next_law(self) -> Floats:
        """Distribution of the pair (X_{t+1}, Y_{t+1}), (n_x, n_y)."""
        return _accumulate((self.next_x, self.next_y), self.mass, self.shape)

    def marginal_x(self) -> csr_array:
        """Distribution of (X_t, X_{t+1}), which is nu_X for a feasible coupling, (n_x, n_x)."""
        return _sparse_law(self.x, self.next_x, self.mass, self.shape[0])

    def marginal_y(self) -> csr_array:
        """Distribution of (Y_t, Y_{t+1}), which is nu_Y for a feasible coupling, (n_y, n_y)."""
        return _sparse_law(self.y, self.next_y, self.mass, self.shape[1])

    def swap(self) -> Coupling:
        """The same coupling with the roles of X and Y exchanged."""
        return Coupling(
            (self.shape[1], self.shape[0]), self.y, self.x, self.next_y, self.next_x, self.mass, self.start.T
        )


def conditional(state_law: Floats) -> Floats:
    """Encoder lambda_X(y | x) of a distribution over pairs; rows of unvisited states are uniform.

    The decoder is ``conditional(state_law.T)``.

    Examples
    --------
    >>> conditional(np.array([[0.3, 0.1], [0.0, 0.0]]))
    array([[0.75, 0.25],
           [0.5 , 0.5 ]])
    """
    given: Any = state_law
    # Solvers pass tables of floats, which may be as large as the memory allows: no copy of those.
    if not isinstance(given, np.ndarray) or given.ndim != 2 or given.dtype.kind != "f":
        state_law = real_array("state_law", given, 2)
    if state_law.shape[1] == 0:
        raise ValueError(f"state_law: shape is {state_law.shape}, expected at least one state of each process")
    rows = state_law.sum(axis=1, keepdims=True)
    # Division leaves unvisited rows at their initial value, the uniform distribution.
    uniform = np.full_like(state_law, 1.0 / state_law.shape[1])
    np.divide(state_law, rows, out=uniform, where=rows > 0)
    return uniform


def alignment(result: Result) -> list[Aligned]:
    """A one-to-one assignment of states with the smallest total distance, in the order of the states of X.

    The distance of two states is that of the processes started in them (`somcot.metric`). Such an assignment aligns
    the nodes of two graphs; `Result.matches` follows the coupling instead and may use a state several times. If the
    numbers of states differ, the surplus states of the larger side remain without a partner. Nodes with the same
    neighbours can be exchanged; `Aligned.determined` is False for these.

    Parameters
    ----------
    result : Result
        Of two known chains, with the discounted distance of all pairs: ``distance(..., discount=0.9, pairs="all")``.

    Examples
    --------
    >>> import somcot
    >>> x = somcot.MarkovChain([[0.9, 0.1], [0.5, 0.5]], states=["home", "cart"])
    >>> y = somcot.MarkovChain([[0.5, 0.5], [0.1, 0.9]], states=["Warenkorb", "Start"])
    >>> cost = [[0.2, 0.0], [0.0, 0.2]]
    >>> [(pair.x, pair.y) for pair in alignment(somcot.distance(x, y, cost, discount=0.9, pairs="all"))]
    [('home', 'Start'), ('cart', 'Warenkorb')]
    """
    from scipy.optimize import linear_sum_assignment

    from somcot.result import Result  # which imports this module

    check_kind("result", result, Result)
    if result.clock.name != "discount":
        raise ValueError(f"result: found a distance with {result.clock.asked}, expected a discount below 1")
    # NaN marks pairs that cannot be reached.
    V = np.asarray(result.potential)
    unknown = int(np.isnan(V).sum())
    if unknown:
        raise ValueError(
            f"result: {unknown} of {V.size} pairs of states cannot be reached and have no distance; pass pairs='all' "
            "to somcot.distance"
        )
    # From accumulated costs to the mean cost per step.
    metric = (1.0 - result.discount) * V
    metric[np.abs(metric) <= 1e-12 * np.abs(metric).max(initial=0.0)] = 0.0  # rounding
    # Surplus states have partners that do not exist, at no cost.
    square = np.zeros((max(metric.shape), max(metric.shape)))
    square[: metric.shape[0], : metric.shape[1]] = metric
    partner = linear_sum_assignment(square)[1]
    determined = ~_exchangeable(square, partner)
    return [
        Aligned(result.states_x[i], result.states_y[partner[i]], float(metric[i, partner[i]]), bool(determined[i]))
        for i in range(metric.shape[0])
        if partner[i] < metric.shape[1]
    ]


def _exchangeable(cost: Floats, partner: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Rows that have another partner in some other assignment of the same total, which is the smallest."""
    from scipy.sparse.csgraph import connected_components

    least = 1e-9 * float(np.abs(cost).max(initial=0.0))
    # What it costs if row i takes the partner of row k. Other optimal assignments are cycles of total 0.
    more = cost[:, partner] - cost[np.arange(len(cost)), partner][:, None]
    price = np.zeros(len(cost))
    for _ in range(len(cost)):  # Bellman and Ford; there is no negative cycle
        lower = (price[:, None] + more).min(axis=0)
        done = float((price - lower).max(initial=0.0)) <= 1e-3 * least
        price = lower
        if done:
            break
    # Relative to the prices no step is negative, so a cycle of total 0 has only steps of 0.
    free = price[:, None] + more - price <= least
    groups = connected_components(free, connection="strong")[1]
    return np.asarray(np.bincount(groups)[groups] > 1)


def flow_residual(state_law: Floats, next_law: Floats, start: Floats, discount: float) -> float:
    """Total absolute violation of the flow condition, Eq. 3 of the paper."""
    # state_law - discount * next_law - (1 - discount) * start, Eq. 3.
    left = discount * next_law
    # In place: the tables may be as large as the memory allows.
    np.subtract(state_law, left, out=left)
    left -= (1.0 - discount) * start
    return float(np.abs(left, out=left).sum())


def residuals(
    coupling: Coupling,
    nu_x: Floats | csr_array,
    nu_y: Floats | csr_array,
    discount: float,
    encoder: Floats | None = None,
    decoder: Floats | None = None,
) -> Residuals:
    """Constraint violations of Proposition 1: flow, and both causality conditions.

    Parameters
    ----------
    coupling : Coupling
    nu_x, nu_y : array or sparse matrix, shape (n_x, n_x) and (n_y, n_y)
        Occupancies of the two chains.
    discount : float
    encoder, decoder : ndarray, optional
        lambda_X (n_x, n_y) and lambda_Y (n_y, n_x); by default those of the coupling.

    Examples
    --------
    >>> import somcot
    >>> x, y = somcot.random_walk(3, 0.5), somcot.random_walk(3, 0.7)
    >>> plan = somcot.distance(x, y, 1.0 - np.eye(3), discount=0.9).plan
    >>> residuals(plan, x.occupancy(0.9), y.occupancy(0.9), 0.9).flow < 1e-12
    True
    """
    check_kind("coupling", coupling, Coupling)
    discount = check_number("discount", discount)
    n_x, n_y = coupling.shape
    nu_x, nu_y = _of_shape("nu_x", nu_x, (n_x, n_x)), _of_shape("nu_y", nu_y, (n_y, n_y))
    occupancy = coupling.state_law()
    encoder = conditional(occupancy) if encoder is None else _of_shape("encoder", encoder, (n_x, n_y))
    decoder = conditional(occupancy.T) if decoder is None else _of_shape("decoder", decoder, (n_y, n_x))
    return Residuals(
        flow_residual(occupancy, coupling.next_law(), coupling.start, discount),
        _causal_residual(coupling, nu_x, encoder),
        _causal_residual(coupling.swap(), nu_y, decoder),
    )


def _of_shape(name: str, values: Any, shape: tuple[int, int]) -> Any:
    """The values, if they are numbers in a table of this shape, or a sparse one."""
    found = values.tocsr() if hasattr(values, "tocsr") else real_array(name, values, 2)
    if found.shape != shape:
        raise ValueError(f"{name}: shape is {found.shape}, expected {shape}")
    return found


def round_to_marginals(plan: ArrayLike, p: ArrayLike, q: ArrayLike) -> Floats:
    """Turn any nonnegative matrix into a coupling of p and q (the paper's rounding procedure r).

    ``|r(F, p, q) - F|_1 <= 2 (|F 1 - p|_1 + |F^T 1 - q|_1)``.

    Examples
    --------
    >>> round_to_marginals([[0.5, 0.1], [0.0, 0.4]], [0.5, 0.5], [0.5, 0.5]).round(4)
    array([[0.4167, 0.0833],
           [0.0833, 0.4167]])
    """
    F, p, q = real_array("plan", plan, 2), real_array("p", p, 1), real_array("q", q, 1)
    for name, law in (("p", p), ("q", q)):
        if law.size == 0:
            raise ValueError(f"{name}: found no entry, expected masses")
    if F.shape != (p.size, q.size):
        raise ValueError(f"plan: shape is {F.shape}, expected {(p.size, q.size)}")
    # Rounding only shrinks and adds, so it needs masses.
    if min(F.min(), p.min(), q.min()) < 0:
        raise ValueError("plan, p, q: found a negative entry, expected masses of at least 0")
    # Equal up to rounding of the sums.
    if abs(p.sum() - q.sum()) > 1e-8 * max(p.sum(), q.sum()):
        raise ValueError(f"p, q: masses {p.sum():.10g} and {q.sum():.10g} differ; a coupling needs equal masses")
    # Rows first: shrinking never increases a column, so both marginals end at or below their targets.
    F *= _shrink(p, F.sum(axis=1))[:, None]
    F *= _shrink(q, F.sum(axis=0))[None, :]
    missing_p = np.maximum(p - F.sum(axis=1), 0.0)
    missing_q = np.maximum(q - F.sum(axis=0), 0.0)
    total = missing_p.sum()
    # Both sides miss the same total, so the product has the right marginals.
    return F if total == 0 else F + np.outer(missing_p, missing_q) / total


def round_symmetric(plan: ArrayLike, p: ArrayLike, q: ArrayLike) -> Floats:
    """The symmetric rounding: the mean of rounding rows first and columns first.

    ``|r_sym(F, p, q) - F|_1 <= 3/2 (|F 1 - p|_1 + |F^T 1 - q|_1)`` for a probability matrix F.

    Examples
    --------
    >>> round_symmetric([[0.5, 0.0], [0.0, 0.4]], [0.5, 0.5], [0.5, 0.5])
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    return (round_to_marginals(plan, p, q) + round_to_marginals(np.asarray(plan).T, q, p).T) / 2


def round_occupancy(mu: ArrayLike, x: MarkovChain, y: MarkovChain, start: ArrayLike, discount: float) -> Coupling:
    """Round an approximate occupancy coupling to a feasible one, r(mu) of the paper's appendix.

    The transition coupling of `mu` is rounded pair by pair (the product kernel where `mu` has no mass) and its
    occupancy computed, so <r(mu), c> is an upper bound of the distance for every cost.

    Parameters
    ----------
    mu : array_like, shape (n_x, n_y, n_x, n_y)
        Nonnegative.
    x, y : MarkovChain
    start : array_like, shape (n_x, n_y)
        Distribution of the initial pair, a coupling of the two initial distributions.
    discount : float

    Examples
    --------
    >>> import somcot
    >>> x, y = somcot.MarkovChain([[0.5, 0.5], [0.0, 1.0]]), somcot.MarkovChain([[0.4, 0.6], [0.0, 1.0]])
    >>> start = [[1.0, 0.0], [0.0, 0.0]]
    >>> rounded = round_occupancy(np.full((2, 2, 2, 2), 1 / 16), x, y, start, 0.5)
    >>> bool(np.allclose(rounded.marginal_x().toarray(), x.occupancy(0.5)))
    True
    """
    from somcot.chains import MarkovChain  # which imports this module
    from somcot.plumbing.linear_systems import Kernel, discounted_occupancy  # compiled code: loaded when used

    check_kind("x", x, MarkovChain)
    check_kind("y", y, MarkovChain)
    discount = check_discount(discount)
    dense = real_array("mu", mu, 4)
    n_x, n_y = dense.shape[:2]
    occupancy = dense.sum(axis=(2, 3))
    # Dense kernels, since `mu` is dense as well.
    p = x.transition if isinstance(x.transition, np.ndarray) else x.transition.toarray()
    q = y.transition if isinstance(y.transition, np.ndarray) else y.transition.toarray()
    kernel = np.empty_like(dense)
    for i in range(n_x):
        for j in range(n_y):
            # Conditioned on the pair, so that the plan has total mass 1.
            if occupancy[i, j] > 0:
                kernel[i, j] = round_symmetric(dense[i, j] / occupancy[i, j], p[i], q[j])
            else:
                # Nothing is known about a pair that was not visited; the product is a coupling, too.
                kernel[i, j] = np.outer(p[i], q[j])
    flat = Kernel.from_matrix(kernel.reshape(n_x * n_y, n_x * n_y))
    first = real_array("start", start, 2)
    weight = discounted_occupancy(flat, first.ravel(), discount).reshape(n_x, n_y)
    return Coupling.from_dense(weight[:, :, None, None] * kernel, first)


def _shrink(target: Floats, marginal: Floats) -> Floats:
    """min(target / marginal, 1), with 1 where the marginal is 0."""
    with np.errstate(over="ignore"):
        return np.minimum(np.divide(target, marginal, out=np.ones_like(marginal), where=marginal > 0), 1.0)


def _accumulate(index: tuple[Any, ...], mass: Floats, shape: tuple[int, ...]) -> Floats:
    # `bincount` is much faster than `add.at`, and adds in the same order.
    flat = np.ravel_multi_index(index, shape)
    return np.bincount(flat, weights=mass, minlength=int(np.prod(shape))).astype(np.float64, copy=False).reshape(shape)


def _sparse_law(now: Indices, following: Indices, mass: Floats, n: int) -> csr_array:
    from scipy.sparse import coo_array

    return coo_array((mass, (now, following)), shape=(n, n)).tocsr()


def _causal_residual(coupling: Coupling, nu_x: Floats | csr_array, encoder: Floats) -> float:
    """Sum over (x, x', y) of |sum_y' mu(x, y, x', y') - nu_X(x, x') lambda_X(y | x)|, on the entries that occur."""
    n_x, n_y = coupling.shape
    if isinstance(nu_x, np.ndarray):
        rows, columns = np.nonzero(nu_x)
        weights = nu_x[rows, columns]
    else:
        rows, columns, weights = np.repeat(np.arange(n_x), np.diff(nu_x.indptr)), nu_x.indices, nu_x.data
    visited = np.zeros(n_x, dtype=np.bool_)
    visited[coupling.x] = True
    seen = visited[rows]
    # Entries are compared by the key x * n_x + x'; unmatched coupling entries count in full below.
    # For unvisited x all of nu is missing, for every y. No BLAS product: its bits would depend on the machine.
    missing = (weights[~seen] * encoder.sum(axis=1)[rows[~seen]]).sum()
    step = rows.astype(np.int64) * n_x + columns
    order = np.flatnonzero(seen)[np.argsort(step[seen], kind="stable")]
    rows, weights, step = rows[order], weights[order], step[order]
    taken = coupling.x.astype(np.int64) * n_x + coupling.next_x
    place = np.searchsorted(step, taken)
    # The appended -1 stands for "beyond the last" and equals no key.
    known = np.append(step, -1)[place] == taken
    key = np.concatenate([np.arange(len(step) * n_y), place[known] * n_y + coupling.y[known]])
    value = np.concatenate([(-weights[:, None] * encoder[rows]).ravel(), coupling.mass[known]])
    off = np.abs(np.bincount(key, weights=value)).sum()
    return float(off + missing + coupling.mass[~known].sum())
