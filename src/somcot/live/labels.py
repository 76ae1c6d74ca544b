"""Labels of a stream as numbers: those of the reference first, then new ones in the order in which they come."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.arrays import Codes, Floats
from somcot.plumbing.validation import is_missing
from somcot.recorded.labels import column, refuse_lookalikes

__all__ = ["OTHER", "Labels", "from_plain", "times_of", "to_plain"]

MOST_NEW = 1000  # labels that the reference does not know and that are told apart: memory stays flat
OTHER = "(other new labels)"
_SPAN = 1 << 20  # whole numbers as labels are looked up in a table up to this size


class Labels:
    """From labels to numbers.

    Attributes
    ----------
    known : int
        Labels of the reference, which come first.
    states : list
        All labels.
    """

    def __init__(self, states: Sequence[Hashable], new: Iterable[Hashable] = ()) -> None:
        self.known = len(states)
        self.states: list[Hashable] = [*states, *new]
        self._code = {label: i for i, label in enumerate(self.states)}
        self._low, self._table = self._lookup()

    def _lookup(self) -> tuple[int, Codes | None]:
        """A table from whole numbers to codes, where labels are such numbers and close to each other."""
        numbers = [label for label in self.states if type(label) is int]
        if len(numbers) < len(self.states) or max(numbers) - min(numbers) >= _SPAN:
            return 0, None
        low = min(numbers)
        table = np.full(max(numbers) - low + 1, -1, dtype=np.int32)
        table[np.array(numbers) - low] = np.arange(len(numbers))
        return low, table

    @property
    def new(self) -> list[Hashable]:
        """Labels that the reference does not know."""
        return self.states[self.known :]

    def encode(self, values: Any) -> Codes:
        """The number of each label; labels never seen get new ones."""
        labels = column("states", values)
        if isinstance(labels, np.ndarray):
            return self._encode_integers(labels)
        return self.codes(labels)

    def codes(self, labels: Sequence[Hashable]) -> Codes:
        """The same for a list of labels."""
        code = self._code
        try:
            found = np.fromiter(map(code.get, labels, [-1] * len(labels)), np.int32, len(labels))
        except TypeError:
            bad = next(label for label in labels if not isinstance(label, Hashable))
            raise TypeError(f"states: label {bad!r} is not hashable; use a tuple or text") from None
        unknown = np.flatnonzero(found < 0)
        if len(unknown):
            self._admit({labels[i]: int(i) for i in unknown[::-1].tolist()})
            found[unknown] = [code.get(labels[i], self.known + MOST_NEW) for i in unknown.tolist()]
        return found

    def _encode_integers(self, labels: NDArray[np.int64]) -> Codes:
        if self._table is None or len(labels) == 0:
            return self.codes(labels.tolist())
        place = labels - self._low if self._low else labels
        if int(place.min()) >= 0 and int(place.max()) < len(self._table):
            found: Codes = self._table[place]
            if found.min() >= 0:
                return found
        return self.codes(labels.tolist())

    def _admit(self, found: dict[Hashable, int]) -> None:
        """Take in labels never seen before, in the order of the events that brought them."""
        refuse_lookalikes("states", [*self.states, *found], {type(label) for label in [*self.states, *found]})
        for label, i in sorted(found.items(), key=lambda item: item[1]):
            if is_missing(label):
                raise ValueError(f"states: event {i} has the label {label!r}; remove or name missing states")
            if len(self.states) - self.known == MOST_NEW:
                self.states.append(OTHER)
            if len(self.states) - self.known <= MOST_NEW:
                self._code[label] = len(self.states)
                self.states.append(label)


def times_of(times: Any, n: int) -> tuple[Floats, bool]:
    """Times as numbers (dates in microseconds), and whether they are dates."""
    array = np.asarray(times)
    if array.dtype.kind == "O":
        array = np.array(times, dtype="M8[us]")
    dated = array.dtype.kind == "M"
    if dated:
        missing = np.isnat(array)
        array = array.astype("M8[us]").astype(np.int64)
    elif array.dtype.kind not in "iuf":
        raise TypeError(f"times: found entries of type {array.dtype}, expected numbers or dates")
    else:
        missing = ~np.isfinite(array)
    if array.shape != (n,):
        raise ValueError(f"times: found shape {array.shape}, expected one time for each of the {n} states")
    if missing.any():
        raise ValueError(f"times: entry {int(missing.argmax())} is missing or not finite; give every event a time")
    return array.astype(np.float64), dated


def to_plain(label: Any) -> Any:
    """A label as JSON can hold it."""
    if isinstance(label, tuple):
        return {"tuple": [to_plain(part) for part in label]}
    if label is None or isinstance(label, (str, bool, int, float)):
        return label
    raise TypeError(f"states: the label {label!r} of type {type(label).__name__} cannot be saved; use text or numbers")


def from_plain(value: Any) -> Any:
    """The label that `to_plain` took apart."""
    return tuple(from_plain(part) for part in value["tuple"]) if isinstance(value, dict) else value
