"""Recordings of real vectors: tables with numeric columns, and arrays of floating-point numbers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from somcot.plumbing.arrays import Floats
from somcot.readers.batches import open_table
from somcot.readers.formats import kind_of
from somcot.readers.inputs import Input, identify
from somcot.readers.numpy_files import load_arrays
from somcot.readers.order import Order, Wishes
from somcot.readers.table import Table
from somcot.readers.tables import USUAL, collected, roles_of
from somcot.readers.unfolding import unfolded
from somcot.samples import Samples
from somcot.trajectories import Trajectories

__all__ = ["read_vectors"]


def read_vectors(
    data: Any,
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
) -> Trajectories:
    """Read recordings whose states are several numbers each.

    Parameters
    ----------
    data : path, frame, mapping of columns, Arrow table
        A table with a row for each moment; or an .npz with one array (T + 1, d) per episode, or an .npy of shape
        (n_episodes, T + 1, d).
    state : sequence of str, or str
        The columns that make up the state, all of them numbers, or lists of numbers of one length. Not for arrays.
    sequence, time, terminated, gap, format, encoding, delimiter
        As for `from_table`.
    missing : {"error", "cut"}
        Refuse rows in which a number is missing, or cut the sequence there.

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
    wishes = Wishes(terminated, gap=gap, missing=missing)
    source = data
    if isinstance(data, (str, Input)) or hasattr(data, "__fspath__"):
        source = data if isinstance(data, Input) else identify(data, format)
        if kind_of(source.format).name == "arrays":
            return _of_arrays(source, terminated, missing)
    with open_table(source, format=format, encoding=encoding, delimiter=delimiter) as table:
        roles = roles_of(table, _named(table, state, sequence, time), sequence, time, None, terminated)
        table, roles = unfolded(table, roles)
        columns = collected(table, roles, dict.fromkeys(roles.state, 2))
    values = np.column_stack([column.floats() for column in columns.state.values()])  # type: ignore[union-attr]
    # The rows themselves take the place of states, so that everything said about order and ends holds here too.
    codes = np.where(np.isnan(values).any(axis=1), -1, np.arange(len(values)))
    if not len(codes):
        raise ValueError(f"{columns.source}: no rows; check how the table was written")
    rows = Order(columns).samples(codes, tuple(range(len(codes))), wishes)
    return _by_rows(values, rows, roles.state)


def _named(table: Table, state: Any, *others: str | None) -> Any:
    """The columns of a state; several may be named in one text, "x,y", where no column is called so."""
    if state is None:
        taken = {*others, *USUAL["sequence"], *USUAL["time"]}
        free = [name for name in table.columns if name not in taken]
        if len(free) > 1 and not set(free) & set(USUAL["state"]):
            known = ", ".join(free[:12])
            raise ValueError(f"{table.name}: which columns are the state? Pass state (--state x,y), some of {known}")
        return free if len(free) == 1 else None
    given = [state] if isinstance(state, str) else list(state)
    names = [
        part
        for name in given
        for part in ([name] if not isinstance(name, str) or name in table.columns else name.split(","))
    ]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"state: the column {name!r} is named twice; name it once")
    return names


def _by_rows(values: Floats, rows: Samples, names: Sequence[str]) -> Trajectories:
    assert rows.offsets is not None
    episodes = [
        values[np.append(rows.now[begin:end], rows.following[end - 1])]
        for begin, end in zip(rows.offsets[:-1], rows.offsets[1:], strict=True)
    ]
    ended = False if rows.terminated is None else rows.terminated
    return Trajectories.from_arrays(episodes, terminated=ended, names=names)


def _of_arrays(source: Input, terminated: bool | str, missing: str) -> Trajectories:
    if isinstance(terminated, str):
        raise ValueError(f"{source.name}: terminated names a column, but arrays have none; pass True or False")
    arrays = load_arrays(source)
    episodes: list[Any] = []
    for name, array in arrays.items():
        what = f"{source.name}: array {name!r}" if name else source.name
        if array.dtype.kind not in "iuf" or array.ndim not in (1, 2, 3):
            raise ValueError(
                f"{what}: found {array.dtype} of shape {array.shape}, expected numbers of shape (T + 1, d), or "
                "(n_episodes, T + 1, d)"
            )
        episodes += [*array] if array.ndim == 3 else [array]
    try:
        return Trajectories.from_arrays(episodes, terminated=terminated, gaps="cut" if missing == "cut" else "refuse")
    except ValueError as error:
        raise ValueError(f"{source.name}: {error}") from None
