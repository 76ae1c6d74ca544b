"""Finite Markov chains with known kernels, and standard example chains."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from somcot.clocks import Clock
from somcot.plumbing.arrays import Array, Floats
from somcot.plumbing.checks import (
    check_count,
    check_discount,
    check_flag,
    check_labels,
    check_number,
    check_rng,
    check_start_law,
    from_frame,
    real_array,
    square_matrix,
    state_index,
    stochastic,
)
from somcot.plumbing.html import SHOWN, card, grid
from somcot.plumbing.memory import require
from somcot.plumbing.text import label_text, percent

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from somcot.samples import Samples

__all__ = ["EDGES", "FITTED", "MarkovChain", "Support", "block_chain", "random_walk"]

FITTED = "recorded transitions"  # attribute of chains that were estimated: their number out of each state, if known
EDGES = "attributes of edges"  # attribute of walks on graphs whose edges have any: their names


class Support(NamedTuple):
    """The positive entries of a kernel, row by row (CSR), with the initial distribution as the last row.

    Row i holds the successors ``indices[indptr[i]:indptr[i + 1]]`` with their ``probabilities``; row n is the
    distribution of the first state.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    probabilities: Floats

    @classmethod
    def from_rows(cls, table: Floats) -> Support:
        """The positive entries of a full table whose last row is the initial distribution.

        Examples
        --------
        >>> Support.from_rows(np.array([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]])).indices
        array([1, 0, 1, 0], dtype=int32)
        """
        rows, columns = np.nonzero(table > 0)
        ends = np.cumsum(np.bincount(rows, minlength=len(table)))
        return cls(np.append(0, ends).astype(np.int64), columns.astype(np.int32), table[rows, columns])

    @property
    def max_row(self) -> int:
        """Length of the longest row."""
        return int(np.diff(self.indptr).max())

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row of each entry; row n is the initial distribution."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))

    def locate(self, rows: Array, columns: Array) -> NDArray[np.int64]:
        """Positions of the entries (row, column); for an absent entry, its insertion position."""
        n = np.int64(len(self.indptr) - 2)
        # Entries are sorted by row and column, so one key per entry can be searched.
        keys, wanted = self.rows * n + self.indices, rows * n + columns
        if (n + 1) * n <= len(wanted):  # a table of all keys is faster for many
            return np.asarray(np.searchsorted(keys, np.arange((n + 1) * n))[wanted])
        places: NDArray[np.int64] = np.searchsorted(keys, wanted)
        return places

    def row_sums(self, values: Array) -> Array:
        """Sums over the rows of one number per entry; no row may be empty."""
        return np.add.reduceat(values, self.indptr[:-1])


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MarkovChain:
    """A finite Markov chain: a transition kernel, an initial distribution and labels of the states.

    Parameters
    ----------
    transition : array_like or scipy.sparse matrix, shape (n, n)
        ``transition[i, j]`` is the probability of going from state i to state j. Rows sum to 1 within 1e-8 and are
        normalised.
    initial : state, array_like, shape (n,), or mapping of state to probability, optional
        The first state (a label if it is in `states`, otherwise an index) or its distribution.
    states : sequence of hashable, optional
        Labels; by default 0, 1, ..., n-1.
    normalize : bool, optional
        Divide rows and `initial` by their sums, without checking that these are 1.
    features : array_like, shape (n,), optional
        A known number for each state, such as its reward, from which `costs.from_features` builds a cost.
    attributes : mapping of str to sequence of length n, optional
        Further data of the states, such as node attributes of a graph, None where unknown; `costs.attribute` builds
        costs from them.

    Examples
    --------
    >>> chain = MarkovChain([[0.9, 0.1], [0.5, 0.5]], "sunny", states=["sunny", "rainy"])
    >>> chain
    MarkovChain(2 states, 4 transitions, starts in 'sunny')
    >>> chain.occupancy(0.5).round(3)
    array([[0.844, 0.094],
           [0.031, 0.031]])
    """

    transition: Floats | csr_array
    initial: Floats
    states: tuple[Hashable, ...]
    features: Floats | None
    attributes: Mapping[str, tuple[object, ...]] | None

    def __init__(
        self,
        transition: ArrayLike | object,
        initial: Hashable | ArrayLike | Mapping[Any, float] = 0,
        *,
        states: Iterable[Hashable] | None = None,
        normalize: bool = False,
        features: ArrayLike | None = None,
        attributes: Mapping[str, Sequence[object]] | None = None,
    ) -> None:
        if hasattr(transition, "columns") and hasattr(transition, "index"):
            # Before checking: a labelled frame determines the states.
            transition, states = from_frame(transition, states)
        check_flag("normalize", normalize)
        matrix = square_matrix(transition)
        n = int(matrix.shape[0])
        labels = tuple(range(n)) if states is None else check_labels("states", states, n)
        object.__setattr__(self, "transition", stochastic(matrix, labels, normalize=normalize))
        object.__setattr__(self, "states", labels)
        object.__setattr__(self, "initial", check_start_law(initial, labels, normalize=normalize))
        object.__setattr__(self, "features", None if features is None else _check_features(features, n))
        object.__setattr__(self, "attributes", None if attributes is None else _check_attributes(attributes, n))
        # Frozen: `support` is cached and would not notice a change.
        self.initial.setflags(write=False)

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.states)

    @property
    def is_sparse(self) -> bool:
        """Whether the kernel is stored as a sparse matrix."""
        return not isinstance(self.transition, np.ndarray)

    @cached_property
    def is_fitted(self) -> bool:
        """Whether the chain was estimated from data, such as a model of `somcot.readers.from_model`."""
        return FITTED in (self.attributes or {})

    @cached_property
    def unused_attributes(self) -> str:
        """Names of the attributes of a graph's edges, which its walk does not use; empty if there are none."""
        names = (self.attributes or {}).get(EDGES)
        return str(names[0]) if names else ""

    @cached_property
    def support(self) -> Support:
        """The positive transition probabilities, computed once and cached."""
        start = np.flatnonzero(self.initial)
        if isinstance(self.transition, np.ndarray):
            rows, columns = np.nonzero(self.transition)
            values = self.transition[rows, columns]
            lengths = np.bincount(rows, minlength=self.n_states)
        else:
            columns, values, lengths = self.transition.indices, self.transition.data, np.diff(self.transition.indptr)
        return Support(
            # The initial distribution is appended as the last row: solvers treat it like a state's row.
            np.concatenate([[0], np.cumsum(lengths), [len(columns) + len(start)]]).astype(np.int64),
            np.concatenate([columns, start]).astype(np.int32),
            np.concatenate([values, self.initial[start]]),
        )

    def index(self, state: Hashable) -> int:
        """Position of a label, or of an index when no label matches.

        Examples
        --------
        >>> MarkovChain([[0.5, 0.5], [0.0, 1.0]], states=["home", "cart"]).index("cart")
        1
        """
        return state_index("state", state, self.states)

    def state_occupancy(self, discount: float) -> Floats:
        """Discounted occupancy of states: the distribution of X_G with G geometric on 0, 1, 2, ...

        At discount 1 this is the long-run share of time spent in each state.

        Returns
        -------
        ndarray, shape (n,)
            ``(1 - discount) * sum_t discount^t P(X_t = x)``.

        Examples
        --------
        >>> MarkovChain([[0.0, 1.0], [0.0, 1.0]]).state_occupancy(0.75).tolist()
        [0.25, 0.75]
        """
        from somcot.plumbing.linear_systems import Kernel, occupancy_of

        indptr, indices, probabilities = self.support
        n_entries = indptr[-2]
        # Without the initial row.
        kernel = Kernel(indptr[:-1], indices[:n_entries], probabilities[:n_entries])
        return occupancy_of(kernel, self.initial, Clock.discounting(discount).discount)

    def occupancy(self, discount: float) -> Floats | csr_array:
        """Discounted occupancy of transitions, nu_X of the paper: the distribution of (X_G, X_{G+1}).

        Returns
        -------
        ndarray or scipy.sparse.csr_array, shape (n, n)
            Sparse if the kernel is sparse.
        """
        weight = self.state_occupancy(discount)
        if isinstance(self.transition, np.ndarray):
            return weight[:, None] * self.transition
        result = self.transition.copy()
        result.data = result.data * np.repeat(weight, np.diff(result.indptr))
        return result  # the transition matrix itself is shared and read-only

    def stationary(self) -> MarkovChain:
        """The same chain with its stationary distribution as the initial distribution.

        The stationary distribution is unique for irreducible chains. With several recurrent classes, each is weighted
        by the probability of reaching it from the chain's own initial distribution.

        Examples
        --------
        >>> MarkovChain([[0.9, 0.1], [0.3, 0.7]]).stationary().initial.round(12)
        array([0.75, 0.25])
        """
        # The long-run share of time from the chain's own start decides among recurrent classes.
        initial = self.state_occupancy(1.0)
        return MarkovChain(self.transition, initial, states=self.states, features=self.features, normalize=True)

    def jumps(self) -> MarkovChain:
        """The jump chain: its transition probabilities are those of the next different state.

        Absorbing states stay absorbing. Holding times are discarded.

        Examples
        --------
        >>> random_walk(3, 0.7).jumps().transition
        array([[0. , 1. , 0. ],
               [0.3, 0. , 0.7],
               [0. , 1. , 0. ]])
        """
        indptr, indices, probabilities = self.support
        n_entries, rows = int(indptr[-2]), self.support.rows
        # Only entries of the kernel: the initial row has index n, which is no state.
        is_loop = (indices == rows) & (np.arange(len(rows)) < n_entries)
        left = np.bincount(rows[:n_entries], weights=np.where(is_loop, 0.0, probabilities)[:n_entries])
        # Absorbing states keep their loop; all others lose it and are normalised again.
        data = np.where(is_loop, left[np.minimum(rows, self.n_states - 1)] == 0.0, probabilities)[:n_entries]
        return self._with_kernel(indptr[:-1], indices[:n_entries], data)

    def words(self, k: int) -> MarkovChain:
        """The chain whose states are words of k consecutive states; `Samples.with_order` does the same for data.

        The initial word consists of the first k states of the chain. A cost between words is usually a cost between
        their last letters.

        Examples
        --------
        >>> pairs = random_walk(3, 0.7).words(2)
        >>> pairs.states
        ((0, 0), (0, 1), (1, 0), (1, 2), (2, 1), (2, 2))
        >>> pairs.initial
        array([0.9, 0.1, 0. , 0. , 0. , 0. ])
        """
        from scipy.sparse import csr_array

        if check_count("k", k, at_most=1000) == 1:
            return self
        indptr, indices, probabilities = self.support
        letters, initial = np.arange(self.n_states)[:, None], self.initial
        # Append one letter at a time: words with positive probability only.
        for _ in range(k - 1):
            sizes = np.diff(indptr)[letters[:, -1]]
            require(16.0 * (letters.shape[1] + 2) * float(sizes.sum()), f"words of {k} states", "choose a smaller k")
            word = np.repeat(np.arange(len(letters)), sizes)
            spot = np.arange(len(word)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + indptr[letters[word, -1]]
            letters, initial = np.column_stack([letters[word], indices[spot]]), initial[word] * probabilities[spot]
        # A word's successors share its last k - 1 letters as a prefix, so they are contiguous in lexicographic order.
        number = {tuple(word): i for i, word in enumerate(letters.tolist())}
        rows, columns, data = [], [], []
        for i, word in enumerate(letters.tolist()):
            for t in range(indptr[word[-1]], indptr[word[-1] + 1]):
                rows.append(i)
                columns.append(number[(*word[1:], int(indices[t]))])
                data.append(probabilities[t])
        kernel = csr_array((data, (rows, columns)), shape=(len(letters), len(letters)))
        return MarkovChain(
            kernel if self.is_sparse else kernel.toarray(),
            initial,
            states=[tuple(self.states[i] for i in word) for word in letters.tolist()],
            normalize=True,
            features=None if self.features is None else self.features[letters[:, -1]],
        )

    def _with_kernel(self, indptr: NDArray[np.int64], indices: NDArray[np.int32], data: Floats) -> MarkovChain:
        from scipy.sparse import csr_array

        kernel = csr_array((data, indices, indptr), shape=(self.n_states, self.n_states))
        return MarkovChain(
            kernel if self.is_sparse else kernel.toarray(),
            self.initial,
            states=self.states,
            normalize=True,
            features=self.features,
        )

    def sample(self, n_episodes: int, n_steps: int, *, rng: int | np.random.Generator | None = None) -> Samples:
        """Draw episodes of `n_steps` transitions, starting from the initial distribution.

        Examples
        --------
        >>> random_walk(5).sample(3, 100, rng=0).n_transitions
        300
        """
        from somcot.samples import Samples  # imported late: samples imports chains

        n_episodes, n_steps = check_count("n_episodes", n_episodes), check_count("n_steps", n_steps)
        generator = check_rng(rng)
        paths = np.empty((n_episodes, n_steps + 1), dtype=np.int64)
        # Row n of the support is the initial distribution.
        paths[:, 0] = self._draw_next(np.full(n_episodes, self.n_states), generator)
        for t in range(n_steps):
            paths[:, t + 1] = self._draw_next(paths[:, t], generator)
        offsets = np.arange(n_episodes + 1, dtype=np.int64) * n_steps
        steps = paths.astype(np.int32)
        return Samples(self.states, steps[:, :-1].ravel(), steps[:, 1:].ravel(), offsets=offsets)

    def sample_occupancy(self, n: int, discount: float, *, rng: int | np.random.Generator | None = None) -> Samples:
        """Draw `n` independent pairs (X_G, X_{G+1}) from the occupancy, by geometric stopping.

        Examples
        --------
        >>> random_walk(5).sample_occupancy(1000, 0.9, rng=0).n_transitions
        1000
        """
        from somcot.samples import Samples  # imported late: samples imports chains

        n, discount = check_count("n", n), check_discount(discount)
        now, following = self.draw_occupancy(n, discount, check_rng(rng))
        codes = now.astype(np.int32), following.astype(np.int32)
        return Samples(self.states, *codes, initial=self.initial, discount=discount)

    def draw_occupancy(
        self, n: int, discount: float, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Indices of `n` independent transitions (X_G, X_{G+1}), G >= 0 geometric with P(G = t) = (1-g) g^t.

        Examples
        --------
        >>> now, following = random_walk(5).draw_occupancy(4, 0.99, np.random.default_rng(0))
        >>> now.tolist(), following.tolist()
        ([4, 0, 0, 0], [4, 1, 0, 0])
        """
        rng, n = check_rng(rng), check_count("n", n, at_least=0, at_most=10**15)
        require(40.0 * n, f"{n:.3g} transitions", "draw fewer")
        waiting = rng.geometric(1.0 - check_discount(discount), size=n) - 1
        # Sorted by waiting time, longest first: those still moving at time t are a prefix.
        order = np.argsort(-waiting, kind="stable")
        state = self._draw_next(np.full(n, self.n_states), rng)
        alive = waiting[order]
        for t in range(int(alive[0]) if n else 0):
            moving = order[: int(np.searchsorted(-alive, -t, side="left"))]
            state[moving] = self._draw_next(state[moving], rng)
        return state, self._draw_next(state, rng)

    def _draw_next(self, rows: Array, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw one successor for each row of the support (row n is the initial distribution)."""
        indptr, indices, _ = self.support
        # Row i owns the interval [i, i + 1], so i + u falls into the cumulative sums of its own row.
        place = np.searchsorted(self._cumulative, rows + rng.random(len(rows)), side="right")
        # Rounding of the sums may point one entry too far.
        return indices[np.clip(place, indptr[rows], indptr[rows + 1] - 1)].astype(np.int64)

    @cached_property
    def _cumulative(self) -> Floats:
        """Row number plus cumulative probability, sorted, so that one search serves all rows."""
        indptr, _, probabilities = self.support
        total = np.concatenate([[0.0], np.cumsum(probabilities)])
        rows = np.repeat(np.arange(self.n_states + 1), np.diff(indptr))
        # Rounding must not reach into the next row.
        cumulative: Floats = rows + np.minimum(total[1:] - total[indptr[rows]], 1.0)
        return cumulative

    def __repr__(self) -> str:
        starts = np.flatnonzero(self.initial)
        where = repr(self.states[starts[0]]) if len(starts) == 1 else f"{len(starts)} states"
        n_transitions = int(self.support.indptr[-2])
        return f"MarkovChain({self.n_states} states, {n_transitions} transitions, starts in {where})"

    def _repr_html_(self) -> str:
        starts = np.argsort(-self.initial, kind="stable")
        # The card names the most likely initial states only.
        starts = starts[self.initial[starts] > 0]
        where = ", ".join(f"{label_text(self.states[k], 24)} ({percent(self.initial[k])})" for k in starts[:3])
        facts = [("starts in", where + f" and {len(starts) - 3:,} more" * (len(starts) > 3))]
        if self.features is not None:
            facts.append(("features", f"from {self.features.min():.4g} to {self.features.max():.4g}"))
        corner: Any = self.transition[:SHOWN, :SHOWN]
        steps = grid(
            corner.toarray() if self.is_sparse else corner,
            self.states,
            self.states,
            shape=(self.n_states, self.n_states),
        )
        size = f"{self.n_states:,} states, {int(self.support.indptr[-2]):,} transitions"
        return card("MarkovChain", facts, steps, sub=size)


def _check_features(features: ArrayLike, n: int) -> Floats:
    """Check that there is one finite number per state."""
    values = real_array("features", features, 1)
    if len(values) != n:
        raise ValueError(f"features: found {len(values)} numbers for {n} states; give exactly one per state")
    values.setflags(write=False)
    return values


def _check_attributes(attributes: object, n: int) -> dict[str, tuple[Any, ...]]:
    """Check that each attribute has one value per state."""
    if not isinstance(attributes, Mapping):
        raise TypeError(f"attributes: found {type(attributes).__name__}, expected a mapping of names to sequences")
    checked = {str(name): tuple(values) for name, values in attributes.items()}
    for name, values in checked.items():
        if len(values) != n:
            raise ValueError(f"attributes: {name!r} has {len(values)} values for {n} states; give one for each")
    return checked


def random_walk(n: int, theta: float = 0.5, *, stay: float = 0.9, start: int = 0) -> MarkovChain:
    """Biased random walk on 0, ..., n-1 with sticky walls, the paper's test chain.

    Parameters
    ----------
    n : int
        Number of states.
    theta : float
        Probability of a step up in an interior state.
    stay : float
        Probability of staying at either wall.
    start : int
        First state.

    Examples
    --------
    >>> random_walk(3, 0.7).transition
    array([[0.9, 0.1, 0. ],
           [0.3, 0. , 0.7],
           [0. , 0.1, 0.9]])
    """
    n = check_count("n", n)
    for name, value in (("theta", theta), ("stay", stay)):
        if not 0.0 <= check_number(name, value) <= 1.0:
            raise ValueError(f"{name}: found {value}, expected a probability between 0 and 1")
    if n == 1:
        return MarkovChain([[1.0]], start)
    kernel = np.zeros((n, n))
    inside = np.arange(1, n - 1)
    kernel[inside, inside + 1] = theta
    kernel[inside, inside - 1] = 1.0 - theta
    kernel[0, :2] = kernel[-1, :-3:-1] = stay, 1.0 - stay  # the last row is the mirror image of the first
    return MarkovChain(kernel, start)


def block_chain(chain: MarkovChain, n_copies: int) -> MarkovChain:
    """Split every state into equally likely, indistinguishable copies.

    State (x, b) is at index ``x * n_copies + b``; b is uniform at every step, including the first. The chain has
    distance 0 from the original for every cost that ignores b.

    Examples
    --------
    >>> block_chain(random_walk(2), 2).transition
    array([[0.45, 0.45, 0.05, 0.05],
           [0.45, 0.45, 0.05, 0.05],
           [0.05, 0.05, 0.45, 0.45],
           [0.05, 0.05, 0.45, 0.45]])
    """
    b = check_count("n_copies", n_copies, at_most=10**9)
    if not isinstance(chain, MarkovChain):
        raise TypeError(
            f"chain: found {type(chain).__name__}, expected a MarkovChain; wrap a matrix in MarkovChain(...)"
        )
    n_entries = chain.n_states**2 if isinstance(chain.transition, np.ndarray) else chain.transition.nnz
    require(8.0 * n_entries * b**2, f"a chain with {b:.3g} copies of each state", "choose fewer copies")
    states = [(x, copy) for x in chain.states for copy in range(b)]
    initial = np.repeat(chain.initial / b, b)
    features = None if chain.features is None else np.repeat(chain.features, b)
    if isinstance(chain.transition, np.ndarray):
        # A step chooses the next state, then a copy uniformly.
        kernel = np.kron(chain.transition, np.full((b, b), 1.0 / b))
        return MarkovChain(kernel, initial, states=states, features=features)
    from scipy.sparse import kron

    sparse = kron(chain.transition, np.full((b, b), 1.0 / b), format="csr")
    return MarkovChain(sparse, initial, states=states, features=features)
