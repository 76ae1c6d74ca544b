"""Sequences that may go on in the next part of a table: where each began and where it stands.

Parts of a table are counted on their own. What is lost between two of them is one step for each sequence that both
have, from its last state in the first part to its first state in the second; with the first and the last state of every
sequence at hand, it is found again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.arrays import Bools, Codes, Ints

__all__ = ["Edges"]


class Edges(NamedTuple):
    """First and last state of every sequence, in the order of their names.

    Attributes
    ----------
    ids : ndarray, shape (m,)
        Names of the sequences, sorted, each once: whole numbers or text.
    first, last : ndarray of int32, shape (m,)
        States, as positions.
    rows : ndarray of int64, shape (m,)
        How many rows each has; one row has no step yet.
    ended : ndarray of bool, shape (m,)
        Whether the last row ended the process for good.
    begin, finish : ndarray, shape (m,), or None
        Times of the first and the last row, where the table has times.
    """

    ids: NDArray[Any]
    first: Codes
    last: Codes
    rows: Ints
    ended: Bools
    begin: NDArray[Any] | None = None
    finish: NDArray[Any] | None = None

    def moved(self, places: Codes) -> Edges:
        """With states renamed: state i becomes ``places[i]``."""
        return self._replace(first=places[self.first], last=places[self.last])

    def then(self, later: Edges) -> tuple[Edges, Codes, Codes]:
        """Go on with a later part; also returns the steps across the border, where each begins and where it ends.

        Examples
        --------
        >>> one = np.ones(1, np.int64)
        >>> states = np.array([0], np.int32), np.array([1], np.int32)
        >>> a, b = (Edges(np.array([7]), state, state, one, one < 0) for state in states)
        >>> joined, now, following = a.then(b)
        >>> now, following, joined.rows
        (array([0], dtype=int32), array([1], dtype=int32), array([2]))
        """
        self._refuse_names(later)
        if np.array_equal(self.ids, later.ids):
            return self._all_go_on(later)
        _, i, j = np.intersect1d(self.ids, later.ids, assume_unique=True, return_indices=True)
        self._refuse_times(later, i, j)
        new = np.ones(len(later.ids), dtype=np.bool_)
        new[j] = False
        ids = np.concatenate([self.ids, later.ids[new]])
        order = np.argsort(ids, kind="stable")

        def joined(name: str, *, from_later: bool) -> NDArray[Any]:
            values = getattr(self, name).copy()
            if from_later:
                values[i] = getattr(later, name)[j]
            found: NDArray[Any] = np.concatenate([values, getattr(later, name)[new]])[order]
            return found

        rows = self.rows.copy()
        rows[i] += later.rows[j]
        timed = self.begin is not None
        return (
            Edges(
                ids[order],
                joined("first", from_later=False),
                joined("last", from_later=True),
                np.concatenate([rows, later.rows[new]])[order],
                joined("ended", from_later=True),
                joined("begin", from_later=False) if timed else None,
                joined("finish", from_later=True) if timed else None,
            ),
            self.last[i],
            later.first[j],
        )

    def _all_go_on(self, later: Edges) -> tuple[Edges, Codes, Codes]:
        """The same where both parts have the same sequences: there is nothing to look up."""
        everyone = np.arange(len(self.ids))
        self._refuse_times(later, everyone, everyone)
        rows = self.rows + later.rows
        joined = self._replace(last=later.last, rows=rows, ended=later.ended, finish=later.finish)
        return joined, self.last, later.first

    def _refuse_names(self, later: Edges) -> None:
        """Names of another type are no continuation."""
        if (self.ids.dtype.kind in "iu") != (later.ids.dtype.kind in "iu") and len(self.ids) and len(later.ids):
            raise ValueError(
                f"other: its sequences are called {later.ids[0].item()!r} and the like, these {self.ids[0].item()!r}: "
                "numbers on one side, text on the other; use one kind"
            )

    def _refuse_times(self, later: Edges, i: Ints, j: Ints) -> None:
        """Sequences that go back in time are none either; i and j are where those that both have stand."""
        if self.finish is None or later.begin is None:
            return
        back = np.flatnonzero(later.begin[j] < self.finish[i])
        if len(back):
            name = self.ids[i[back[0]]].item()
            raise ValueError(
                f"other: sequence {name!r} goes back in time there, from {self.finish[i[back[0]]]} "
                f"to {later.begin[j[back[0]]]} ({len(back)} of {len(i)} do); merge parts in order of time"
            )
