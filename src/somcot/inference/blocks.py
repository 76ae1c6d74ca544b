"""Blocks of few long recordings, which are permuted and halved in place of sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from somcot.plumbing.arrays import Ints
from somcot.samples import Samples

__all__ = ["MANY", "block_length", "pieces"]

MANY, FEWEST = 48, 8  # blocks of each recording: as many if steps are Markov, and never fewer
_GROWTH = 0.05  # share by which the design effect may grow with the length of the blocks, even if significantly
_SHORTEST = 10  # steps of a block


def block_length(recordings: Sequence[Samples]) -> tuple[int, bool]:
    """Length of the blocks, and whether blocks that long are nearly independent.

    Errors of the rows of a Markov chain are uncorrelated however slowly it mixes, so the blocks may be as long as a
    decent number of them allows. They are made longer while the variance of the rows by blocks, relative to single
    steps, still grows. If it grows even from half the shortest length on, memory lasts about as long as a block. The
    longest blocks then miss part of it: what is slow is a small part of the variance of all rows, and may be most of
    the distance's.
    """
    steps = min(recording.n_transitions for recording in recordings)
    lengths = [max(_SHORTEST, steps // MANY)]
    while lengths[-1] * 2 * FEWEST <= steps:
        lengths.append(lengths[-1] * 2)
    effects = [_design_effect(recordings, length) for length in (lengths[0] // 2, *lengths)]
    grows = [
        any(later.value > (1.0 + max(_GROWTH, 2.0 * later.error)) * effect.value for later in effects[i + 1 :])
        for i, effect in enumerate(effects)
    ]
    chosen = grows.index(False, 1)  # the last one always qualifies, as it has no successor
    return lengths[chosen - 1], not grows[0]


class _Effect(NamedTuple):
    """A design effect and its relative standard error."""

    value: float
    error: float


def _design_effect(recordings: Sequence[Samples], length: int) -> _Effect:
    """Variance of the rows by blocks relative to independent steps, from the residuals of each recording's own rows."""
    between = free = independent = 0.0
    for recording in recordings:
        bounds = pieces(recording, length)
        n, block = recording.n_states, np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
        now, following = recording.now.astype(np.int64), recording.following.astype(np.int64)
        cells, counts = np.unique(now * n + following, return_counts=True)
        visits = np.bincount(now, minlength=n)
        shares = counts / visits[cells // n]
        # sum over blocks of sum_c (C_b(r, c) - P(r, c) C_b(r))^2 / P(r, c)  =  sum C_b(r, c)^2 / P - sum C_b(r)^2
        inside, times = np.unique((block * n + now) * n + following, return_counts=True)
        rows, row_times = np.unique(block * n + now, return_counts=True)
        share = shares[np.searchsorted(cells, inside % (n * n))]
        squares = np.bincount(inside // n % n, times**2 / share, n) - np.bincount(rows % n, row_times**2.0, n)
        df = np.bincount(cells // n, minlength=n) - 1.0
        used = (df > 0) & (visits >= 5)
        n_blocks = int(block[-1]) + 1
        between += float((squares[used] / visits[used]).sum()) * n_blocks / max(n_blocks - 1, 1)
        free += float(df[used].sum())
        independent += float(df[used].sum()) * (n_blocks - 1)
    return _Effect(between / max(free, 1.0), float(np.sqrt(2.0 / max(independent, 1.0))))


def pieces(recording: Samples, length: int | None) -> Ints:
    """First transitions, and the end: of the sequences, or of blocks of about `length` steps inside them."""
    # Independent samples are units of one transition.
    if recording.offsets is None:
        return np.arange(recording.n_transitions + 1)
    if length is None:
        return recording.offsets
    steps = np.diff(recording.offsets)
    n_blocks = np.maximum(1, np.round(steps / length)).astype(np.int64)
    first = np.cumsum(n_blocks) - n_blocks
    place = np.arange(n_blocks.sum()) - np.repeat(first, n_blocks)
    n, size = np.repeat(n_blocks, n_blocks), np.repeat(steps, n_blocks)
    # Step t of a sequence is in block t n // size, so block k begins with the first t of at least k size / n.
    bounds: Ints = np.repeat(recording.offsets[:-1], n_blocks) - (-place * size // n)
    return np.append(bounds, recording.offsets[-1])
