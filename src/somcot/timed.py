"""Time-inhomogeneous chains and chains in continuous time."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from somcot.chains import MarkovChain, Support
from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import (
    check_count,
    check_labels,
    check_positive,
    check_start_law,
    rectangular_matrix,
    square_matrix,
    stochastic,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["ContinuousChain", "TimeChain", "Timed"]

_SAME_RATE = 1e-12  # relative difference up to which a rate of a clock is taken as the largest exit rate
_TOLERANCE = 1e-8  # of the sum of a row of rates, relative to the largest rate of the row


@dataclass(frozen=True, init=False, eq=False, repr=False)
class TimeChain:
    """A time-inhomogeneous Markov chain: the kernel and the states may change from step to step.

    Parameters
    ----------
    transitions : sequence of array_like or scipy.sparse matrices
        ``transitions[t]`` has a row for every state of time t and a column for every state of time t + 1; rows sum
        to 1.
    initial : state or array_like, optional
        The first state, or a distribution over the states at time 0.
    states : sequence, optional
        Labels: one sequence for all times, or one sequence of labels for each of the ``len(transitions) + 1`` times.
    normalize : bool, optional
        Divide rows by their sums, without checking that these are 1.

    Examples
    --------
    >>> tree = TimeChain([[[0.5, 0.5]], [[0.9, 0.1, 0.0], [0.0, 0.2, 0.8]]])
    >>> tree
    TimeChain(2 steps, 1 to 3 states, starts in 0)
    >>> tree.support(1).probabilities.tolist()
    [0.9, 0.1, 0.2, 0.8, 1.0]
    """

    transitions: tuple[Floats | csr_array, ...]
    initial: Floats
    states: tuple[tuple[Hashable, ...], ...]

    def __init__(
        self,
        transitions: Sequence[object],
        initial: Hashable | ArrayLike = 0,
        *,
        states: Sequence[object] | None = None,
        normalize: bool = False,
    ) -> None:
        kernels = [rectangular_matrix(f"transitions[{t}]", kernel) for t, kernel in enumerate(_several(transitions))]
        for t, (now, following) in enumerate(pairwise(kernels)):
            # The states of time t + 1 are the columns of step t.
            if now.shape[1] != following.shape[0]:
                raise ValueError(
                    f"transitions: step {t} leads to {now.shape[1]} states, step {t + 1} leaves {following.shape[0]}; "
                    "the columns of each kernel are the rows of the next"
                )
        labels = _labels(states, [int(kernel.shape[0]) for kernel in kernels] + [int(kernels[-1].shape[1])])
        done = [
            stochastic(kernel, labels[t], normalize=normalize, name=f"transitions[{t}]", labels_to=labels[t + 1])
            for t, kernel in enumerate(kernels)
        ]
        object.__setattr__(self, "transitions", tuple(done))
        object.__setattr__(self, "states", labels)
        object.__setattr__(self, "initial", check_start_law(initial, labels[0], normalize=normalize))
        self.initial.setflags(write=False)

    @property
    def n_steps(self) -> int:
        """Number of steps, one less than the number of times."""
        return len(self.transitions)

    def support(self, t: int) -> Support:
        """The positive probabilities of step t; the last row (an initial distribution in other supports) is unused."""
        return self._supports[check_count("t", t, at_least=0, at_most=self.n_steps - 1)]

    @cached_property
    def _supports(self) -> tuple[Support, ...]:  # cached: every solver reads it several times
        return tuple(_entries(kernel) for kernel in self.transitions)

    def __repr__(self) -> str:
        sizes = [len(labels) for labels in self.states]
        shown = f"{min(sizes)} states" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)} states"
        starts = np.flatnonzero(self.initial)
        where = repr(self.states[0][starts[0]]) if len(starts) == 1 else f"{len(starts)} states"
        return f"TimeChain({self.n_steps} steps, {shown}, starts in {where})"


@dataclass(frozen=True, init=False, eq=False, repr=False)
class ContinuousChain:
    """A Markov chain in continuous time, defined by its rates.

    Parameters
    ----------
    rates : array_like or scipy.sparse matrix, shape (n, n)
        ``rates[i, j]`` is the rate of jumps from state i to state j, at least 0; the diagonal makes each row sum to 0.
    initial : state or array_like, shape (n,), optional
        The first state, or a distribution over the states.
    states : sequence of hashable, optional
        Labels; by default 0, 1, ..., n-1.

    Examples
    --------
    >>> queue = ContinuousChain([[-1, 1, 0], [2, -3, 1], [0, 2, -2]])
    >>> queue
    ContinuousChain(3 states, 4 jumps, rates up to 3, starts in 0)
    >>> queue.jumps().transition.round(3)
    array([[0.   , 1.   , 0.   ],
           [0.667, 0.   , 0.333],
           [0.   , 1.   , 0.   ]])
    """

    rates: Floats | csr_array
    initial: Floats
    states: tuple[Hashable, ...]

    def __init__(
        self,
        rates: ArrayLike | object,
        initial: Hashable | ArrayLike = 0,
        *,
        states: Iterable[Hashable] | None = None,
    ) -> None:
        matrix = square_matrix(rates, "rates")
        labels = tuple(range(matrix.shape[0])) if states is None else check_labels("states", states, matrix.shape[0])
        object.__setattr__(self, "rates", _generator(matrix, labels))
        object.__setattr__(self, "states", labels)
        object.__setattr__(self, "initial", check_start_law(initial, labels, normalize=False))
        self.initial.setflags(write=False)

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.states)

    @property
    def exits(self) -> Floats:
        """The exit rate of each state, (n,)."""
        return -np.asarray(self.rates.diagonal(), dtype=np.float64)

    def uniformised(self, rate: float) -> MarkovChain:
        """The uniformised chain: this chain at the jump times of a Poisson clock.

        The rate of the clock must be at least the largest exit rate, up to a relative rounding error of 1e-12.

        Examples
        --------
        >>> ContinuousChain([[-1, 1], [3, -3]]).uniformised(4).transition
        array([[0.75, 0.25],
               [0.75, 0.25]])
        """
        # Below the largest exit rate a probability of staying would be negative.
        rate, least = check_positive("rate", rate), float(self.exits.max())
        # A sum of rates in another order may be a few units in the last place lower; the largest exit rate is meant.
        if rate < least * (1.0 - _SAME_RATE):
            raise ValueError(f"rate: found {rate!r}, expected at least the largest exit rate, {least!r}")
        return MarkovChain(_plus_identity(self.rates, max(rate, least)), self.initial, states=self.states)

    def jumps(self) -> MarkovChain:
        """The jump chain: the sequence of states visited, regardless of holding times; absorbing states stay."""
        # At the largest exit rate some states never stay, and `jumps` removes the remaining loops.
        return self.uniformised(float(self.exits.max()) or 1.0).jumps()

    def __repr__(self) -> str:
        starts = np.flatnonzero(self.initial)
        where = repr(self.states[starts[0]]) if len(starts) == 1 else f"{len(starts)} states"
        n_jumps = int((self.rates > 0).sum())
        shown = f"{self.n_states} states, {n_jumps} jumps, rates up to {self.exits.max():g}"
        return f"ContinuousChain({shown}, starts in {where})"


Timed = TimeChain | ContinuousChain


def _entries(kernel: Floats | csr_array) -> Support:
    """The positive entries of a step, and an unused last row."""
    if isinstance(kernel, np.ndarray):
        rows, indices = np.nonzero(kernel)
        data, indptr = kernel[rows, indices], np.append(0, np.cumsum(np.bincount(rows, minlength=len(kernel))))
    else:
        data, indices, indptr = kernel.data, kernel.indices, kernel.indptr
    return Support(
        # A row with a single entry: solvers expect an initial row in every support.
        np.append(indptr, len(indices) + 1).astype(np.int64),
        np.append(indices, 0).astype(np.int32),
        np.append(data, 1.0),
    )


def _several(transitions: object) -> list[Any]:
    # A sparse matrix has a length and could pass as a sequence of rows.
    if hasattr(transitions, "tocsr") or not isinstance(transitions, (Sequence, np.ndarray)):
        raise TypeError("transitions: found one matrix, expected a sequence of them, one for each step")
    if len(transitions) == 0:
        raise ValueError("transitions: found no step, expected at least one kernel")
    if not hasattr(transitions[0], "tocsr") and np.ndim(transitions[0]) < 2:
        raise TypeError("transitions: found one matrix, expected a sequence of them, one for each step")
    return list(transitions)


def _labels(states: Sequence[Any] | None, sizes: list[int]) -> tuple[tuple[Hashable, ...], ...]:
    """Labels of the states at every time."""
    if states is None:
        return tuple(tuple(range(n)) for n in sizes)
    # One list for all times, or one list per time: their lengths distinguish the two.
    nested = len(states) == len(sizes) and all(
        isinstance(level, (Sequence, np.ndarray)) and not isinstance(level, str) and len(level) == n
        for level, n in zip(states, sizes, strict=True)
    )
    levels = list(states) if nested else [states] * len(sizes)
    return tuple(check_labels(f"states[{t}]", level, n) for t, (level, n) in enumerate(zip(levels, sizes, strict=True)))


def _generator(matrix: Floats | csr_array, labels: tuple[Hashable, ...]) -> Floats | csr_array:
    """Refuse negative rates and rows that do not sum to 0; then set the diagonal so that rows sum to 0 exactly."""
    from scipy.sparse import coo_array, csr_array, diags_array

    coo = coo_array(matrix)
    # The diagonal is minus the sum of the other rates; it is recomputed below.
    off = coo.row != coo.col
    row, column, rate = coo.row[off], coo.col[off], coo.data[off]
    if rate.size and rate.min() < 0.0:
        k = int(rate.argmin())
        raise ValueError(
            f"rates: the rate from state {labels[row[k]]!r} to {labels[column[k]]!r} is {rate[k]:.6g}, "
            "expected at least 0"
        )
    with np.errstate(over="ignore"):
        # The diagonal is ignored here and compared below.
        exits = np.bincount(row, weights=rate, minlength=len(labels)).astype(np.float64)
    if not np.isfinite(exits).all():
        raise ValueError("rates: the sum of a row is too large for floating point; rescale")
    sums = exits + np.asarray(matrix.diagonal())
    # Relative to the exit rate: rates may be in any unit.
    wrong = np.flatnonzero(~(np.abs(sums) <= _TOLERANCE * exits))
    if wrong.size:
        i = int(wrong[0])
        more = f" ({wrong.size} such rows)" if wrong.size > 1 else ""
        raise ValueError(
            f"rates: row of state {labels[i]!r} sums to {sums[i]:.6g}, expected 0{more}; the diagonal is minus the sum "
            f"of the other rates, here {-exits[i]:.6g}"
        )
    # The diagonal is recomputed, so that rows sum to 0 exactly although the input was rounded.
    fitted = csr_array((rate, (row, column)), shape=matrix.shape) - diags_array(exits)
    if isinstance(matrix, np.ndarray):
        dense: Floats = fitted.toarray()
        dense.setflags(write=False)
        return dense
    return csr_array(fitted)


def _plus_identity(rates: Floats | csr_array, rate: float) -> Floats | csr_array:
    """I + rates / rate, with negative entries clipped to 0."""
    if isinstance(rates, np.ndarray):
        # 1 - exit / rate may round to slightly below 0 at the largest exit rate.
        return np.maximum(np.eye(len(rates)) + rates / rate, 0.0)
    from scipy.sparse import csr_array, eye_array

    kernel = csr_array(eye_array(rates.shape[0]) + rates / rate)
    kernel.data = np.maximum(kernel.data, 0.0)
    return kernel
