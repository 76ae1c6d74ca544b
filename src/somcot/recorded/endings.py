"""The end of a sequence as a state of its own."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.validation import check_labels
from somcot.recorded.labels import refuse_lookalikes

__all__ = ["check_end", "insert_after"]


def check_end(end: Any, states: tuple[Hashable, ...]) -> None:
    """Refuse a label for the end that is none, or that the data have already."""
    check_labels("end", [end])
    if end in states:
        raise ValueError(
            f"end: {end!r} is a state of the data already; choose another label, or leave end out and pass "
            "terminated=True where sequences end there"
        )
    refuse_lookalikes("end", [*states, end], {type(label) for label in (*states, end)})


def insert_after(values: NDArray[Any], places: NDArray[Any], value: Any) -> NDArray[Any]:
    """The array with one more value after each of these places.

    Examples
    --------
    >>> insert_after(np.array([5, 6, 7]), np.array([0, 2]), 9).tolist()
    [5, 9, 6, 7, 9]
    """
    longer: NDArray[Any] = np.insert(values, places + 1, value)
    return longer
