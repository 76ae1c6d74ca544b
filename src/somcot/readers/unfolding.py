"""Columns whose entries are lists of numbers, one column for each place: Parquet lists, tensors, JSON arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from somcot.plumbing.arrays import Ints
from somcot.readers.columns import is_arrow, plain
from somcot.readers.rows import Roles
from somcot.readers.table import Table

__all__ = ["unfolded"]


def unfolded(table: Table, roles: Roles) -> tuple[Table, Roles]:
    """A table in which state columns that hold lists are columns of their own, called ``name[0]``, ``name[1]``, ...

    Examples
    --------
    >>> from somcot.readers.batches import open_table
    >>> with open_table({"at": [[0.0, 1.0], [2.0, 3.0]], "t": [0, 1]}) as found:
    ...     table, roles = unfolded(found, Roles(("at",), None, "t", None, None))
    ...     roles.state, [column.to_pylist() for column in next(table.batches(roles.wanted)).values()]
    (('at[0]', 'at[1]'), [[0, 1], [0.0, 2.0], [1.0, 3.0]])
    """
    batches = table.batches(roles.wanted)
    first = next(batches, None)
    if first is None:
        return table._replace(batches=lambda _: iter(())), roles
    widths = {name: _width(first[name]) for name in roles.state}
    names = {name: [f"{name}[{k}]" for k in range(n)] for name, n in widths.items() if n is not None}
    states = tuple(part for name in roles.state for part in names.get(name, [name]))
    whole = chain([first], batches)
    found = table._replace(batches=lambda _: _unfold(table, whole, names))
    return found, replace(roles, state=states)


def _unfold(table: Table, batches: Iterator[dict[str, Any]], names: dict[str, list[str]]) -> Iterator[dict[str, Any]]:
    n_rows = 0
    for batch in batches:
        found = {name: values for name, values in batch.items() if name not in names}
        for name, parts in names.items():
            found |= dict(zip(parts, _places(table, name, batch[name], len(parts), n_rows), strict=True))
        n_rows += len(next(iter(batch.values())))
        yield found


def _width(values: Any) -> int | None:
    """How many numbers the first entry that is a list holds; None where entries are no lists."""
    import pyarrow as pa

    if is_arrow(values):
        kind = plain(values).type
        if pa.types.is_fixed_size_list(kind):
            return int(kind.list_size)
        if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            return None
    lists = (entry for entry in (values.to_pylist() if is_arrow(values) else values) if isinstance(entry, list))
    found = next(lists, None)
    return None if found is None and not is_arrow(values) else len(found or [0])


def _places(table: Table, name: str, values: Any, width: int, before: int) -> list[Any]:
    """What stands at each place of the lists; nothing where a list is missing."""
    import pyarrow as pa

    lists = plain(values) if is_arrow(values) else pa.array(values)
    wanted = pa.list_(lists.type.value_type, width) if hasattr(lists.type, "value_type") else lists.type
    lengths = _lengths(lists)
    odd = np.flatnonzero((lengths != width) & (lengths >= 0))
    if len(odd) or not pa.types.is_fixed_size_list(wanted):
        place = table.place(before + int(odd[0] if len(odd) else 0) + 1)
        what = f"{int(lengths[odd[0]])} numbers" if len(odd) else str(lists.type)
        raise ValueError(f"{table.name}: {place}, column {name!r}: found {what}, expected {width}, as in the first row")
    rows = pa.array(np.cumsum(lengths >= 0) - 1, mask=lengths < 0)  # missing lists have no entries among the flat ones
    flat = lists.flatten()
    return [flat.take(pa.array(np.arange(k, len(flat), width))).take(rows) for k in range(width)]


def _lengths(lists: Any) -> Ints:
    """Entries of each list, -1 where it is missing."""
    from pyarrow import compute

    found = compute.list_value_length(lists) if hasattr(lists.type, "value_type") else None
    if found is None:
        return np.zeros(len(lists), dtype=np.int64)
    return np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)
