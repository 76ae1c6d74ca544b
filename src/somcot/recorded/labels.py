"""From state labels of any kind to indices 0, 1, ..., n-1, without loops over transitions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence, Set
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.arrays import Array, Codes
from somcot.plumbing.checks import check_labels, is_missing, not_sparse, refuse_masks
from somcot.plumbing.text import listing

__all__ = ["Column", "column", "encode", "refuse_lookalikes"]

Column: TypeAlias = "NDArray[np.int64] | list[Hashable]"
Place: TypeAlias = Callable[[int, int], str]  # (column, row) -> name of that entry in an error


def column(name: str, values: Any) -> Column:
    """Turn one sequence of labels into an integer array if that is lossless, otherwise into a list."""
    refuse_masks(name, values)
    if isinstance(values, np.ndarray):
        return _from_array(name, values)
    if isinstance(values, (str, bytes)):
        raise TypeError(
            f"{name}: found the text {values!r}, expected a sequence of labels; "
            "put a single sequence into a list, or use list(text) when every character is a state"
        )
    if isinstance(values, (Set, Mapping)):
        raise TypeError(f"{name}: found a {type(values).__name__}, which has no order; pass a list or an array")
    if hasattr(values, "__array__") and not isinstance(values, np.generic):
        return _from_array(name, np.asarray(values))
    try:
        items = list(not_sparse(name, values))
    except TypeError:
        raise TypeError(
            f"{name}: found {values!r}, expected a sequence of labels; put a single sequence into a list"
        ) from None
    return _from_list(name, items)


def _from_list(name: str, items: list[object]) -> Column:
    kinds = set(map(type, items))
    # Integers take the fast path: they are encoded without a dictionary.
    if all(issubclass(kind, (int, np.integer)) and kind is not bool for kind in kinds):
        try:
            return np.array(items, dtype=np.int64)
        except OverflowError:  # labels beyond 64 bits stay Python integers
            return items
    if all(issubclass(kind, (float, np.floating)) for kind in kinds):
        return _from_floats(name, np.array(items, dtype=np.float64))
    return items


def _from_array(name: str, array: Array) -> Column:
    if array.ndim != 1:
        raise ValueError(
            f"{name}: found {array.ndim} dimensions, shape {array.shape}, expected one label per time; "
            "bin measurements, or make each row a tuple"
        )
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    kind = array.dtype.kind
    # `uint64` beyond 2^63 would wrap in int64; such labels stay Python integers.
    if kind == "i" or (kind == "u" and int(array.max()) < 2**63):
        return array.astype(np.int64, copy=False)
    if kind == "f":
        return _from_floats(name, array)
    if kind == "O":
        return _from_list(name, array.tolist())
    if kind not in "buUST":
        raise TypeError(f"{name}: found entries of type {array.dtype}, expected integer or hashable labels")
    labels: list[Hashable] = array.tolist()
    return labels


def _from_floats(name: str, array: NDArray[np.floating[Any]]) -> Column:
    """Convert integers stored as floats to integers; others stay floats."""
    bad = ~np.isfinite(array)
    if bad.any():
        i = int(bad.argmax())
        raise ValueError(
            f"{name}: label {i} is {array[i]}, {int(bad.sum())} of {array.size} labels are not finite; "
            "remove or replace them"
        )
    # Floats from 2^53 on are all integers, but no longer distinct ones.
    if (np.abs(array) < 2**53).all() and (array == np.floor(array)).all():
        return array.astype(np.int64)
    labels: list[Hashable] = array.tolist()
    return labels


def encode(
    columns: Sequence[Column], states: Iterable[Hashable] | None, place: Place
) -> tuple[list[Codes], tuple[Hashable, ...]]:
    """Replace labels by their positions among the states.

    Parameters
    ----------
    columns : sequence of Column
        Labels as returned by `column`.
    states : iterable of hashable or None
        All labels in order; by default those in the data, sorted if possible.
    place : callable
        ``place(k, i)`` names entry i of column k in an error.

    Returns
    -------
    codes : list of ndarray of int32
        One array per column.
    labels : tuple
        One label per state.

    Examples
    --------
    >>> codes, labels = encode([["b", "a", "b"]], None, lambda k, i: f"entry {i}")
    >>> codes, labels
    ([array([1, 0, 1], dtype=int32)], ('a', 'b'))
    """
    known = None if states is None else check_labels("states", states)
    arrays = [c for c in columns if isinstance(c, np.ndarray)]
    if len(arrays) == len(columns):
        return _encode_integers(arrays, known, place)
    return _encode_objects([c.tolist() if isinstance(c, np.ndarray) else c for c in columns], known, place)


def _encode_integers(
    columns: list[NDArray[np.int64]], known: tuple[Hashable, ...] | None, place: Place
) -> tuple[list[Codes], tuple[Hashable, ...]]:
    low = min(int(c.min()) for c in columns)
    # A table over the whole range is fastest if labels are dense, as state numbers usually are.
    span = max(int(c.max()) for c in columns) - low + 1
    if span > 4 * sum(c.size for c in columns) + 1_000_000:  # a lookup table would be far larger than the data
        # Distinct values per column first: concatenating the columns would double the memory.
        values = np.unique(np.concatenate([np.unique(c) for c in columns]))
        positions, labels = _positions(values.tolist(), known, columns, place)
        return [positions[np.searchsorted(values, c)] for c in columns], labels
    shifted = [c - low if low else c for c in columns]
    seen = np.zeros(span, dtype=np.bool_)
    for c in shifted:
        seen[c] = True
    values = np.flatnonzero(seen)
    positions, labels = _positions((values + low).tolist(), known, columns, place)
    table = np.zeros(span, dtype=np.int32)
    table[values] = positions
    return [table[c] for c in shifted], labels


def _encode_objects(
    columns: list[list[Hashable]], known: tuple[Hashable, ...] | None, place: Place
) -> tuple[list[Codes], tuple[Hashable, ...]]:
    distinct: dict[Hashable, None] = {}
    for k, values in enumerate(columns):
        try:
            # A dict keeps the order of first appearance.
            distinct.update(dict.fromkeys(values))
        except TypeError:
            raise _unhashable(k, values, place) from None
    refuse_lookalikes("states", distinct, {kind for values in columns for kind in set(map(type, values))})
    for label in distinct:
        _refuse_unusable(label, columns, place, is_given=known is not None)
    try:
        # Sorted, so that the order of states does not depend on the order of the data.
        ordered = sorted(distinct)  # type: ignore[type-var]
    except TypeError:  # not comparable: order of first appearance
        ordered = list(distinct)
    positions, labels = _positions(ordered, known, columns, place)
    index = dict(zip(ordered, positions.tolist(), strict=True))
    return [np.fromiter(map(index.__getitem__, values), np.int32, len(values)) for values in columns], labels


def _positions(
    distinct: Sequence[object], known: tuple[Hashable, ...] | None, columns: Sequence[Column], place: Place
) -> tuple[Codes, tuple[Hashable, ...]]:
    """Position of each label of the data among the states."""
    if known is None:
        return np.arange(len(distinct), dtype=np.int32), check_labels("states", distinct)
    refuse_lookalikes("states", [*distinct, *known], {type(label) for label in [*distinct, *known]})
    index = {label: i for i, label in enumerate(known)}
    unknown = [label for label in distinct if label not in index]
    if unknown:
        raise ValueError(
            f"states: {len(unknown)} label(s) in the data are not among the {len(known)} states: "
            f"{listing(unknown)}, first at {_first(unknown[0], columns, place)}; "
            f"the states are {listing(known, 5)}; add the labels to states or correct the data"
        )
    return np.array([index[label] for label in distinct], dtype=np.int32), known


def refuse_lookalikes(name: str, labels: Collection[Hashable], kinds: set[type]) -> None:
    """Refuse labels that Python or a reader may confuse: True and 1, the text '1' and the number 1."""
    if any(issubclass(kind, (bool, np.bool_)) for kind in kinds) and any(
        issubclass(kind, (int, float, np.number)) and kind is not bool for kind in kinds
    ):
        raise TypeError(f"{name}: found both truth values and numbers, and True equals 1; use one kind of label")
    # Only if both kinds occur, since the comparison is a pass over all labels.
    texts = {label for label in labels if isinstance(label, str)} if str in kinds or np.str_ in kinds else set()
    twins = [label for label in labels if isinstance(label, int) and str(label) in texts] if texts else []
    if twins:
        raise TypeError(
            f"{name}: found {twins[0]!r} and {str(twins[0])!r}, a number and a text that look the same; "
            "convert the labels to one type"
        )


def _refuse_unusable(label: Hashable, columns: Sequence[Column], place: Place, *, is_given: bool) -> None:
    if is_missing(label):
        raise ValueError(f"{_first(label, columns, place)}: the label is {label!r}; remove or name missing states")
    if isinstance(label, float) and not is_given and not label.is_integer():
        raise TypeError(
            f"{_first(label, columns, place)}: found the number {label!r}, expected a label; bin "
            "measurements, or list the labels in states"
        )


def _first(label: Hashable, columns: Sequence[Column], place: Place) -> str:
    """Name the first entry with this label; compares identity, since NaN differs from itself."""
    for k, values in enumerate(columns):
        entries = values.tolist() if isinstance(values, np.ndarray) else values
        for i, entry in enumerate(entries):
            if entry is label or (type(entry) is type(label) and entry == label):
                return place(k, i)
    return "the data"


def _unhashable(k: int, values: list[Hashable], place: Place) -> TypeError:
    for i, label in enumerate(values):
        try:
            hash(label)
        except TypeError:
            return TypeError(f"{place(k, i)}: label {label!r} is not hashable; use a tuple or text")
    return TypeError(f"{place(k, 0)}: labels are not hashable; use tuples or text")
