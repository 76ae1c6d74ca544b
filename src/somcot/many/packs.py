"""Supports of many chains laid end to end, so that one compiled call can work on all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.chains import Support
from somcot.plumbing.arrays import Codes, Floats, Ints

__all__ = ["Pack", "Tables", "pack", "tables"]


class Pack(NamedTuple):
    """Supports one after the other.

    Attributes
    ----------
    n : ndarray, shape (k,)
        States of each; all further rows of a support are start laws.
    pointers, entries : ndarray, shape (k + 1,)
        Support c has ``indptr[pointers[c]:pointers[c + 1]]``, counted from its own first entry, and the entries
        ``entries[c]:entries[c + 1]``.
    indptr, indices, probabilities : ndarray
    """

    n: Ints
    pointers: Ints
    entries: Ints
    indptr: Ints
    indices: Codes
    probabilities: Floats


class Tables(NamedTuple):
    """Tables of numbers, row by row, one after the other; table k begins at ``begin[k]``."""

    begin: Ints
    values: Floats


def pack(supports: Sequence[Support], n_starts: Sequence[int] | None = None) -> Pack:
    """Lay supports end to end; each has one start row, or as many as `n_starts` says.

    Examples
    --------
    >>> import somcot
    >>> two = pack([somcot.random_walk(2).support, somcot.random_walk(3).support])
    >>> two.n, two.entries
    (array([2, 3]), array([ 0,  5, 12]))
    """
    starts = [1] * len(supports) if n_starts is None else list(n_starts)
    rows = np.array([len(s.indptr) for s in supports], dtype=np.int64)
    return Pack(
        rows - 1 - np.array(starts, dtype=np.int64),
        _offsets(rows),
        _offsets(np.array([len(s.indices) for s in supports], dtype=np.int64)),
        _joined([s.indptr for s in supports], np.int64),
        _joined([s.indices for s in supports], np.int32),
        _joined([s.probabilities for s in supports], np.float64),
    )


def tables(arrays: Sequence[Floats]) -> Tables:
    """Lay tables end to end."""
    sizes = np.array([a.size for a in arrays], dtype=np.int64)
    return Tables(_offsets(sizes)[:-1], _joined([a.ravel() for a in arrays], np.float64))


def _offsets(sizes: Ints) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]).astype(np.int64)


def _joined(parts: Sequence[NDArray[Any]], kind: type) -> NDArray[Any]:
    return np.concatenate([np.asarray(p, dtype=kind) for p in parts]) if parts else np.empty(0, dtype=kind)
