"""Words of k states in episodes: where they are, and the steps between them."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.arrays import Codes

__all__ = ["Places", "Steps", "WordSteps", "find_words", "steps_between_words"]

Integers = NDArray[np.int64]


class Steps(NamedTuple):
    """Steps of episodes, as `Samples` keeps them."""

    now: Codes
    following: Codes
    offsets: Integers
    n_states: int

    def numbered(self, letters: list[Codes]) -> Integers:
        """One number per word, 0, 1, ... in lexicographic order; made letter by letter so that none overflows."""
        numbers = np.zeros(len(letters[0]), dtype=np.int64)
        for letter in letters:
            numbers = np.unique(numbers * self.n_states + letter, return_inverse=True)[1]
        return numbers


class Places(NamedTuple):
    """Where the words of k states that are followed by a state lie among the steps.

    Attributes
    ----------
    first, last : ndarray of int64
        The word's states are ``now[first]``, ..., ``now[last]``, and ``following[last]`` comes after it.
    before : ndarray of bool
        Whether the step into ``now[first]`` is recorded in the same episode.
    """

    first: Integers
    last: Integers
    before: NDArray[np.bool_]


class WordSteps(NamedTuple):
    """Steps from word to word.

    Attributes
    ----------
    words : ndarray of int32, shape (n_words, k)
        The words that occur, in lexicographic order.
    now, following : ndarray of int32
        Positions among `words`.
    offsets : ndarray of int64
        Where the episodes that have such a step begin.
    kept : ndarray of int64
        Which episodes those are.
    """

    words: Codes
    now: Codes
    following: Codes
    offsets: Integers
    kept: Integers


def find_words(steps: Steps, k: int) -> Places:
    """Find the words of k states; steps that do not begin where the one before ended make none together."""
    joined = np.zeros(len(steps.now), dtype=np.bool_)  # whether each step continues the one before it
    joined[1:] = steps.following[:-1] == steps.now[1:]
    joined[steps.offsets[:-1]] = False
    whole = np.ones(len(joined), dtype=np.bool_)  # whether k states end here
    for back in range(1, k):
        whole[:back] = False
        whole[back:] &= joined[1 : len(joined) - back + 1]
    last = np.flatnonzero(whole)
    first = last - (k - 1)
    return Places(first, last, joined[first])


def steps_between_words(steps: Steps, k: int) -> WordSteps:
    """Let words of k states be the states."""
    at = find_words(steps, k)
    letters = [steps.now[at.first + i] for i in range(k)] + [steps.following[at.last]]
    both = [np.concatenate(pair) for pair in pairwise(letters)]
    numbers = steps.numbered(both)
    spelled = np.column_stack(both)[np.unique(numbers, return_index=True)[1]]
    episode = np.searchsorted(steps.offsets, at.last, side="right") - 1
    begins = np.ones(len(episode) + 1, dtype=np.bool_)
    begins[1:-1] = episode[1:] != episode[:-1]
    offsets = np.flatnonzero(begins)
    codes = numbers.astype(np.int32)
    return WordSteps(spelled, codes[: len(episode)], codes[len(episode) :], offsets, episode[offsets[:-1]])
