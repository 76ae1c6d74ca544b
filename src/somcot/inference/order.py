"""The Markov order of a process: does the next state depend on more than the last k states?

Order k holds if, given the last k states, the next state does not depend on the state before them. For every k-gram
that occurs, the table of "state before" against "next state" is tested by Pearson's chi-squared. Its null distribution
comes from permuting the next states among the occurrences of each k-gram, which keeps both margins and is therefore
valid for tables far too sparse for the chi-squared distribution.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.compile.jit import kernel
from somcot.plumbing.checks import check_count, check_rng
from somcot.plumbing.html import Table, card
from somcot.problem import Data
from somcot.recorded.counts import Counts
from somcot.recorded.transforms import EpisodeSteps, find_words
from somcot.samples import Samples
from somcot.trajectories import needs_cells

__all__ = ["MarkovOrder", "has_memory", "markov_order"]

_PERMUTATIONS = 399
_LEVEL = 0.05
_QUICK = 19  # permutations of the check made in every comparison of data
_CLEAR = 6.0  # standard deviations above chance
_STRONG = 0.02  # mean squared relative change of the next state's distribution, about 0.01 nats
_LOOKED_AT = 10_000  # this check uses the first transitions of the recording, up to this number


class MarkovOrder(NamedTuple):
    """Result of `markov_order`.

    Attributes
    ----------
    order : int
        The smallest order not rejected at 5 %; one more than the last order tested if all are rejected.
    pvalues : tuple of float
        P-values of order 1 against 2, 2 against 3, and so on.
    """

    order: int
    pvalues: tuple[float, ...]

    def _repr_html_(self) -> str:
        more = " or more" if self.order > len(self.pvalues) else ""
        rows = [(f"{k} against {k + 1}", f"{p:.3g}") for k, p in enumerate(self.pvalues, 1)]
        subtitle = "the smallest order not rejected at 5 %"
        return card(f"order {self.order}{more}", (), Table(("tested", "p-value"), rows, "lr"), sub=subtitle)

    def __str__(self) -> str:
        tests = ", ".join(f"{k} against {k + 1}: p = {p:.3g}" for k, p in enumerate(self.pvalues, 1))
        more = " or more" if self.order > len(self.pvalues) else ""
        return f"order {self.order}{more} ({tests})"


def markov_order(samples: Data, *, max_order: int = 3, rng: int | np.random.Generator | None = None) -> MarkovOrder:
    """Test how many past states matter for the next state; see `somcot.markov_order`."""
    if isinstance(samples, Counts):
        raise TypeError("samples: found Counts, which do not keep episodes; pass the Samples to test the order")
    if not isinstance(samples, Samples):
        raise TypeError(f"samples: found {type(samples).__name__}, expected Samples{needs_cells(samples)}")
    if samples.offsets is None:
        raise ValueError(
            "samples: independent transitions have no past beyond one state; the order can only be tested on episodes"
        )
    max_order = check_count("max_order", max_order)
    generator = check_rng(0 if rng is None else rng)
    pvalues = tuple(_pvalue(Occurrences.of(_steps(samples), k), generator) for k in range(1, max_order + 1))
    accepted = [k for k, p in enumerate(pvalues, 1) if p > _LEVEL]
    return MarkovOrder(min(accepted, default=max_order + 1), pvalues)


def has_memory(samples: Samples) -> bool:
    """Whether order 1 is clearly violated: significantly, and by a relevant amount."""
    if samples.offsets is None:
        return False
    words = Occurrences.of(_steps(samples, _LOOKED_AT), 1)
    if not len(words.next):
        return False
    values = _chi_squared(*words, samples.n_states, _QUICK, np.random.default_rng(0))
    chance, spread = float(values[1:].mean()), float(values[1:].std(ddof=1))
    excess = float(values[0]) - chance
    return excess > max(_CLEAR * spread, _STRONG * len(words.next), 0.0)


class Occurrences(NamedTuple):
    """Occurrences of k-grams with a preceding and a following state, sorted by k-gram, then by preceding state.

    Attributes
    ----------
    word : ndarray of int64
        K-gram w has the positions ``word[w]`` to ``word[w + 1]``.
    block : ndarray of int64
        The same for each pair of a k-gram and its preceding state.
    next : ndarray of int32
        The state after each occurrence.
    """

    word: NDArray[np.int64]
    block: NDArray[np.int64]
    next: NDArray[np.int32]

    @classmethod
    def of(cls, steps: EpisodeSteps, k: int) -> Occurrences:
        """Collect the occurrences in episodes."""
        at = find_words(steps, k)
        first, last = at.first[at.before], at.last[at.before]
        if not len(last):
            return cls(np.zeros(1, np.int64), np.zeros(1, np.int64), steps.now[:0])
        word = steps.numbered([steps.now[first + i] for i in range(k)])
        key = word * steps.n_states + steps.now[first - 1]
        order = np.argsort(key, kind="stable")
        return cls(_edges(word[order]), _edges(key[order]), steps.following[last[order]])


def _steps(samples: Samples, most: int | None = None) -> EpisodeSteps:
    """The first `most` steps, all by default."""
    assert samples.offsets is not None
    end = samples.n_transitions if most is None else min(most, samples.n_transitions)
    offsets = np.unique(np.minimum(samples.offsets, end))
    return EpisodeSteps(samples.now[:end], samples.following[:end], offsets, samples.n_states)


def _edges(sorted_keys: NDArray[np.int64]) -> NDArray[np.int64]:
    inner = np.flatnonzero(np.diff(sorted_keys)) + 1
    return np.concatenate([[0], inner, [len(sorted_keys)]]).astype(np.int64)


def _pvalue(words: Occurrences, rng: np.random.Generator) -> float:
    if not len(words.next):
        return 1.0
    values = _chi_squared(*words, int(words.next.max()) + 1, _PERMUTATIONS, rng)
    as_large = int((values[1:] >= values[0] * (1.0 - 1e-12)).sum())
    return (1 + as_large) / (_PERMUTATIONS + 1)


def _chi_squared(
    word: NDArray[np.int64], block: NDArray[np.int64], following: NDArray[np.int32], n: int, n_permutations: int,
    rng: np.random.Generator,
) -> NDArray[np.float64]:  # fmt: skip
    """Chi-squared of the data, first, and of `n_permutations` permutations."""
    values: NDArray[np.float64] = _permuted(word, block, following.copy(), n, n_permutations, rng)
    return values


@kernel
def _permuted(word, block, following, n, n_permutations, rng):  # type: ignore[no-untyped-def]
    """Chi-squared, n_w counting occurrences of a k-gram: sum_w n_w sum_ab n_awb^2 / (n_aw n_wb), minus positions."""
    values = np.empty(n_permutations + 1)
    margin = np.zeros(n)
    cell = np.zeros(n)
    for trial in range(n_permutations + 1):
        total = -float(following.size)
        begin = 0
        for w in range(word.size - 1):
            lo, hi = word[w], word[w + 1]
            if trial > 0:
                for t in range(hi - 1, lo, -1):
                    other = lo + int(rng.random() * (t - lo + 1))
                    following[t], following[other] = following[other], following[t]
            for t in range(lo, hi):
                margin[following[t]] += 1.0
            while begin < block.size - 1 and block[begin] < hi:
                first, last = block[begin], block[begin + 1]
                for t in range(first, last):
                    b = following[t]
                    # (c + 1)^2 - c^2 more in the numerator of this cell
                    total += (hi - lo) * (2.0 * cell[b] + 1.0) / ((last - first) * margin[b])
                    cell[b] += 1.0
                for t in range(first, last):
                    cell[following[t]] = 0.0
                begin += 1
            for t in range(lo, hi):
                margin[following[t]] = 0.0
        values[trial] = total
    return values
