"""The last transitions of a stream, as many as a window holds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from somcot.plumbing.arrays import Codes, Ints

__all__ = ["Window", "empty"]


class Window(NamedTuple):
    """A ring: transition number k, from 1 on, is at place (k - 1) modulo the size."""

    now: Codes
    following: Codes
    number: Ints  # (1,), transitions so far

    def push(self, now: Codes, following: Codes) -> None:
        """Add transitions."""
        size, n = len(self.now), len(now)
        keep = min(n, size)
        first = int(self.number[0]) + n - keep
        places = np.arange(first, first + keep) % size
        self.now[places], self.following[places] = now[n - keep :], following[n - keep :]
        self.number[0] += n

    def after(self, number: int) -> tuple[Codes, Codes]:
        """Transitions that came after the one of that number, as far as the window reaches back."""
        last = int(self.number[0])
        places = np.arange(max(number, last - len(self.now), 0), last) % len(self.now)
        return self.now[places], self.following[places]


def empty(size: int) -> Window:
    """A window without transitions.

    Examples
    --------
    >>> window = empty(3)
    >>> window.push(np.array([0, 1, 2, 3], np.int32), np.array([1, 2, 3, 4], np.int32))
    >>> window.after(2)
    (array([2, 3], dtype=int32), array([3, 4], dtype=int32))
    """
    return Window(np.zeros(size, np.int32), np.zeros(size, np.int32), np.zeros(1, np.int64))
