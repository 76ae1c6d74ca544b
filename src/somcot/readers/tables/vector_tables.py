"""Recordings of real vectors: tables with numeric columns, and arrays of floating-point numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from typing import Any

import numpy as np

from somcot.plumbing.arrays import Floats, Ints
from somcot.plumbing.checks import check_sequence
from somcot.plumbing.notes import Note
from somcot.readers.array_files import load_arrays, note_removed
from somcot.readers.formats import kind_of
from somcot.readers.opening import Input, identify
from somcot.readers.tables import Array, ArrowArray, Batch, Rows, Table
from somcot.readers.tables.batches import open_table
from somcot.readers.tables.columns import USUAL, ColumnRoles, is_arrow, plain
from somcot.readers.tables.event_tables import collected, roles_of
from somcot.readers.tables.rows import Order, TableOptions
from somcot.samples import Samples
from somcot.trajectories import Trajectories

__all__ = [
    "read_vectors",
    "unfolded",
]


# --- Columns of lists of numbers (Parquet lists, tensors, JSON arrays), split into one column per component


def unfolded(table: Table, roles: ColumnRoles) -> tuple[Table, ColumnRoles]:
    """A table in which state columns of lists are split into columns called ``name[0]``, ``name[1]``, ...

    Examples
    --------
    >>> from somcot.readers.tables.batches import open_table
    >>> with open_table({"at": [[0.0, 1.0], [2.0, 3.0]], "t": [0, 1]}) as narrow:
    ...     table, roles = unfolded(narrow, ColumnRoles(("at",), None, "t", None, None))
    ...     roles.state, [column.to_pylist() for column in next(table.batches(roles.wanted)).values()]
    (('at[0]', 'at[1]'), [[0, 1], [0.0, 2.0], [1.0, 3.0]])
    """
    batches = table.batches(roles.wanted)
    # The first batch decides how wide lists are; it is put back in front.
    first = next(batches, None)
    if first is None:
        return table._replace(batches=lambda _: iter(())), roles
    widths = {name: _width(first[name]) for name in roles.state}
    names = {name: [f"{name}[{k}]" for k in range(n)] for name, n in widths.items() if n is not None}
    states = tuple(part for name in roles.state for part in names.get(name, [name]))
    all_batches = chain([first], batches)
    wide = table._replace(batches=lambda _: _unfold(table, all_batches, names))
    return wide, replace(roles, state=states)


def _unfold(table: Table, batches: Iterator[Rows], names: dict[str, list[str]]) -> Iterator[Rows]:
    n_rows = 0
    for batch in batches:
        columns: dict[str, Batch] = {name: values for name, values in batch.items() if name not in names}
        for name, parts in names.items():
            columns |= dict(zip(parts, _places(table, name, batch[name], len(parts), n_rows), strict=True))
        n_rows += len(next(iter(batch.values())))
        yield columns


def _width(values: Batch) -> int | None:
    """Length of the first entry that is a list; None if entries are not lists."""
    import pyarrow as pa

    if is_arrow(values):
        kind = plain(values).type
        if pa.types.is_fixed_size_list(kind):
            return int(kind.list_size)
        if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            return None
    lists = (entry for entry in (values.to_pylist() if is_arrow(values) else values) if isinstance(entry, list))
    first = next(lists, None)
    # An empty batch of lists still needs a width.
    return None if first is None and not is_arrow(values) else len(first or [0])


def _places(table: Table, name: str, values: Batch, width: int, before: int) -> list[ArrowArray]:
    """The entries at each index of the lists; missing for missing lists."""
    import pyarrow as pa

    lists = plain(values) if is_arrow(values) else pa.array(values)
    # Remains another type only if the column does not hold lists.
    fixed = pa.list_(lists.type.value_type, width) if hasattr(lists.type, "value_type") else lists.type
    lengths = _lengths(lists)
    odd = np.flatnonzero((lengths != width) & (lengths >= 0))
    if len(odd) or not pa.types.is_fixed_size_list(fixed):
        place = table.place(before + int(odd[0] if len(odd) else 0) + 1)
        what = f"{int(lengths[odd[0]])} numbers" if len(odd) else str(lists.type)
        raise ValueError(f"{table.name}: {place}, column {name!r}: found {what}, expected {width}, as in the first row")
    # Positions among the present lists; masked where a list is missing.
    rows = pa.array(np.cumsum(lengths >= 0) - 1, mask=lengths < 0)  # missing lists have no flat entries
    flat = lists.flatten()
    return [flat.take(pa.array(np.arange(k, len(flat), width))).take(rows) for k in range(width)]


def _lengths(lists: ArrowArray) -> Ints:
    """Length of each list, -1 if it is missing."""
    from pyarrow import compute

    lengths = compute.list_value_length(lists) if hasattr(lists.type, "value_type") else None
    if lengths is None:
        return np.zeros(len(lists), dtype=np.int64)
    return np.asarray(lengths.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)


# --- Recordings of real vectors


def read_vectors(
    data: object,
    *,
    state: str | Sequence[str] | None = None,
    sequence: str | None = None,
    time: str | None = None,
    terminated: bool | str = False,
    gap: str | float | timedelta | None = None,
    missing: str = "error",
    format: str | None = None,  # noqa: A002
    encoding: str = "utf-8",
    delimiter: str | None = None,
    period: Mapping[str, float] | None = None,
) -> Trajectories:
    """Read recordings whose states are vectors of numbers.

    Parameters
    ----------
    data : path, frame, mapping of columns, Arrow table
        A table with a row for each time; or an .npz with one array (T + 1, d) per episode, or an .npy of shape
        (n_episodes, T + 1, d).
    state : sequence of str, or str
        The columns that form the state, all numbers, or lists of numbers of one length. Not for arrays.
    sequence, time, terminated, gap, format, encoding, delimiter
        As for `from_table`.
    missing : {"error", "cut"}
        Refuse rows in which a number is missing, or split the sequence there.
    period : mapping of str to float, optional
        Periodic coordinates, such as ``{"heading": 360.0}``; those of arrays are called x0, x1, ...

    Returns
    -------
    Trajectories

    Examples
    --------
    >>> rows = {"run": [1, 1, 1, 2, 2], "t": [0, 1, 2, 0, 1], "x": [0.1, 0.4, 0.2, 1.0, 1.5], "v": [0.0, 1, 2, 3, 4]}
    >>> data = read_vectors(rows, state=["x", "v"], sequence="run", time="t")
    >>> data, data.names
    (Trajectories(2 coordinates, 3 transitions, 2 episodes), ('x', 'v'))
    """
    options = TableOptions(terminated, gap=gap, missing=missing)
    source = data
    if isinstance(data, (str, Input)) or hasattr(data, "__fspath__"):
        source = data if isinstance(data, Input) else identify(data, format)
        if kind_of(source.format).name == "arrays":
            return _of_arrays(source, terminated, missing, period)
    with open_table(source, format=format, encoding=encoding, delimiter=delimiter) as table:
        roles = roles_of(table, _named(table, state, sequence, time), sequence, time, None, terminated)
        table, roles = unfolded(table, roles)
        # Any number of bins makes the columns numeric; the bins themselves are not used.
        columns = collected(table, roles, dict.fromkeys(roles.state, 2))
    values = np.column_stack([column.floats() for column in columns.state.values()])  # type: ignore[union-attr]
    # The rows themselves serve as states, so that the rules about order and ends apply here too.
    codes = np.where(np.isnan(values).any(axis=1), -1, np.arange(len(values)))
    if not len(codes):
        raise ValueError(f"{columns.source}: no rows; check how the table was written")
    rows = Order(columns).samples(codes, tuple(range(len(codes))), options)
    return _by_rows(values, rows, roles.state, period)


def _named(table: Table, state: str | Sequence[str] | None, *others: str | None) -> list[str] | None:
    """The columns of a state; several may be named in one text, "x,y", if no column has that name."""
    if state is None:
        taken = {*others, *USUAL["sequence"], *USUAL["time"]}
        free = [name for name in table.columns if name not in taken]
        if len(free) > 1 and not set(free) & set(USUAL["state"]):
            known = ", ".join(free[:12])
            raise ValueError(Note("which-coordinates", table.name, columns=known))
        return free if len(free) == 1 else None
    columns: list[object] = [state] if isinstance(state, str) else list(check_sequence("state", state))
    names: list[Any] = [
        part
        for name in columns
        for part in ([name] if not isinstance(name, str) or name in table.columns else name.split(","))
    ]
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"state: the column {twice!r} is named twice; name it once")
    return names


def _by_rows(values: Floats, rows: Samples, names: Sequence[str], period: Mapping[str, float] | None) -> Trajectories:
    assert rows.offsets is not None
    episodes = [
        # The last state of an episode is in `following` only.
        values[np.append(rows.now[begin:end], rows.following[end - 1])]
        for begin, end in zip(rows.offsets[:-1], rows.offsets[1:], strict=True)
    ]
    ended = False if rows.terminated is None else rows.terminated
    return Trajectories.from_arrays(episodes, terminated=ended, names=names, period=period)


def _of_arrays(source: Input, terminated: bool | str, missing: str, period: Mapping[str, float] | None) -> Trajectories:
    if isinstance(terminated, str):
        raise ValueError(f"{source.name}: terminated names a column, but arrays have none; pass True or False")
    arrays = load_arrays(source)
    episodes: list[Array] = []
    for name, array in arrays.items():
        what = f"{source.name}: array {name!r}" if name else source.name
        if array.dtype.kind not in "iuf" or array.ndim not in (1, 2, 3):
            raise ValueError(
                f"{what}: found {array.dtype} of shape {array.shape}, expected numbers of shape (T + 1, d), or "
                "(n_episodes, T + 1, d)"
            )
        # Three dimensions are episodes of equal length.
        episodes += [*array] if array.ndim == 3 else [array]
    try:
        gaps = "cut" if missing == "cut" else "refuse"
        found = Trajectories.from_arrays(episodes, terminated=terminated, gaps=gaps, period=period)
        if gaps == "cut":
            note_removed(source.name, [np.any(np.isnan(one.reshape(len(one), -1)), axis=1) for one in episodes])
        return found
    except ValueError as error:
        note = error.args[0]
        # Errors about arrays name the file.
        raise ValueError(note.within(source.name) if isinstance(note, Note) else f"{source.name}: {error}") from None
