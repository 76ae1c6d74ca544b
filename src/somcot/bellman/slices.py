"""Running a compiled kernel over many pairs: in slices, so that signals get through, and on threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.validation import check_count

__all__ = ["Slice", "cut", "in_slices", "thread_count"]

Slice = tuple[int, int]
Answer = TypeVar("Answer")


def cut(work: NDArray[np.int64], limit: int) -> list[Slice]:
    """Cut items into consecutive slices of about `limit` units of work.

    The cuts depend on the work alone, never on the number of threads.

    Examples
    --------
    >>> cut(np.array([4, 4, 4, 4]), 8)
    [(0, 2), (2, 4)]
    """
    if len(work) == 0:
        return []
    done = np.cumsum(work)
    if done[-1] <= limit:
        return [(0, len(work))]
    marks = np.arange(limit, int(done[-1]), limit)
    ends = np.unique(np.concatenate([[0], np.searchsorted(done, marks) + 1, [len(work)]]))
    return list(pairwise(ends.tolist()))


def in_slices(run: Callable[[int, int], Answer], slices: Sequence[Slice], threads: int) -> list[Answer]:
    """Call ``run(lo, hi)`` on every slice; results come in the order of the slices."""
    if threads == 1 or len(slices) <= 1:
        return [run(lo, hi) for lo, hi in slices]
    pool = ThreadPoolExecutor(min(threads, len(slices)))
    try:
        return list(pool.map(lambda bounds: run(*bounds), slices))
    finally:
        pool.shutdown(cancel_futures=True)


def thread_count(threads: int | None) -> int:
    """The number asked for, or one per core that this process may use."""
    if threads is not None:
        return check_count("threads", threads)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
