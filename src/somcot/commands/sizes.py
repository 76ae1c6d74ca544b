"""What a distance would cost in time and memory, before anyone waits for it."""

from __future__ import annotations

from typing import NamedTuple

from somcot.chains import MarkovChain

__all__ = ["Size", "estimate_size", "readable"]

_SWEEPS = 6


class Size(NamedTuple):
    """Rough figures for one exact solution, and for the several that an estimate from data takes."""

    state_pairs: int
    seconds: float
    n_bytes: float


def estimate_size(x: MarkovChain, y: MarkovChain, *, from_data: bool) -> Size:
    """Guess from the numbers of states and successors, within a factor of about three on a desktop machine.

    Examples
    --------
    >>> import somcot
    >>> walk = somcot.random_walk(100)
    >>> size = estimate_size(walk, walk, from_data=False)
    >>> size.state_pairs, size.seconds < 1
    (10000, True)
    """
    pairs = x.n_states * y.n_states
    # Mean numbers of successors; a transport problem between k and l of them takes about this many microseconds.
    k, m = (chain.support.indptr[-2] / chain.n_states for chain in (x, y))
    per_pair = 2e-6 + 0.3e-6 * (k + m) + 0.02e-6 * k * m
    solves = 4.0 if from_data else 1.0  # later solves begin near their end
    return Size(pairs, float(solves * _SWEEPS * pairs * per_pair), float(2.5 * pairs * (32.0 * (k + m) + 112.0)))


def readable(n_bytes: float) -> str:
    """A number of bytes for people.

    Examples
    --------
    >>> readable(2_500_000)
    '2.5 MB'
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= size:
            return f"{n_bytes / size:.2g} {unit}" if n_bytes < 100 * size else f"{n_bytes / size:.0f} {unit}"
    return f"{n_bytes / 1e3:.0f} kB"
