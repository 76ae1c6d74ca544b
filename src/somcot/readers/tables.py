"""Event tables: rows with a state, optionally a sequence and a time, become `Samples`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from somcot.plumbing.arrays import Floats
from somcot.readers.batches import Table, open_table
from somcot.readers.bins import Bins, check_binning, fit_edges
from somcot.readers.columns import NumberColumn
from somcot.readers.rows import BinSpec, Columns, Order, Roles, finite
from somcot.samples import Samples

__all__ = ["fit_bins", "from_table"]

_USUAL = {  # names looked for when a column is not named
    "state": ("state",),
    "sequence": ("sequence", "episode", "trajectory"),
    "time": ("time", "timestamp", "step"),
}


def from_table(
    data: Any,
    *,
    state: str | Sequence[str] | None = None,
    sequence: str | None = None,
    time: str | None = None,
    reward: str | None = None,
    terminated: bool | str = False,
    bins: int | Bins | Mapping[str, BinSpec] | None = None,
    binning: str = "quantile",
    missing: str = "error",
    initial: Hashable | ArrayLike | Mapping[Any, float] | None = None,
    format: str | None = None,  # noqa: A002
    encoding: str = "utf-8",
    delimiter: str | None = None,
) -> Samples:
    """Read a table of events.

    Only the columns needed are read, batch by batch, and kept as codes: files may be larger than memory.

    Parameters
    ----------
    data : path, "-", frame or Arrow table
        A CSV, TSV, Parquet or JSON-lines file (gzipped too), standard input, or anything with an Arrow stream: a
        pandas or polars frame, an Arrow table. A mapping of column names to lists will do.
    state : str or sequence of str, optional
        Column with the state; several make up states that are tuples. By default ``state``, or the only column.
    sequence : str, optional
        Column that tells sequences (users, sessions, episodes) apart; by default one called ``sequence``,
        ``episode`` or ``trajectory``, otherwise all rows are one sequence.
    time : str, optional
        Column with numbers or times by which rows are sorted within a sequence; by default one called ``time``,
        ``timestamp`` or ``step``, otherwise rows are in order.
    reward : str, optional
        Column with a reward for being in the row's state; their means are ``samples.features``.
    terminated : bool or str, optional
        Whether the process ended for good with the last row of a sequence, or the column that says so.
    bins : int, Bins or mapping of column to int or edges, optional
        Numeric state columns to cut into that many bins, or at these inner edges. Use `fit_bins` to get the same
        edges for two tables.
    binning : {"quantile", "uniform"}
        Bins with equal numbers of rows, or of equal width.
    missing : {"error", "cut"}
        What to do with a row without a state: refuse it, or leave it out and cut the sequence there.
    initial : label, mapping, array_like or "stationary", optional
        The start law, as for `Samples.from_trajectories`; by default from the first rows of the sequences.
    format, encoding, delimiter : str, optional
        Of a file, where its ending does not tell.

    Returns
    -------
    Samples

    Warns
    -----
    DataWarning
        Rows out of order (sorted), rows of a sequence at the same time (kept in file order), sequences of one row.

    Examples
    --------
    >>> visits = {"user": [1, 1, 2, 1, 2], "ts": [0, 1, 0, 2, 5], "page": ["home", "cart", "home", "paid", "cart"]}
    >>> samples = from_table(visits, sequence="user", time="ts", state="page")
    >>> samples
    Samples(3 states, 3 transitions, 2 episodes)
    >>> samples.states, samples.counts().tolist()
    (('cart', 'home', 'paid'), [[0, 0, 1], [2, 0, 0], [0, 0, 0]])
    """
    if missing not in ("error", "cut"):
        raise ValueError(f"missing: found {missing!r}, expected 'error' or 'cut'")
    if not isinstance(terminated, (bool, np.bool_, str)):
        raise TypeError(f"terminated: found {terminated!r}, expected True, False or the name of a column")
    check_binning(binning)
    with open_table(data, format=format, encoding=encoding, delimiter=delimiter) as table:
        roles = _roles(table, state, sequence, time, reward, terminated)
        columns = Columns(table, roles, _bin_specs(table.name, roles.state, bins))
        for batch in table.batches(roles.wanted):
            columns.add(batch)
    codes, states = columns.states(binning)
    order = Order(columns)
    found = order.samples(codes, states, bool(terminated) and roles.terminated is None, missing)
    return found.with_start(initial)


def fit_bins(
    tables: Iterable[Any], bins: Mapping[str, int], *, binning: str = "quantile", **options: Any
) -> dict[str, Floats]:
    """Find bins that suit several tables together, to be given to `from_table` for each.

    Parameters
    ----------
    tables : iterable
        Files, frames or Arrow tables, each with the columns of `bins`.
    bins : mapping of str to int
        Columns and their numbers of bins.
    binning : {"quantile", "uniform"}
    **options
        ``format``, ``encoding`` and ``delimiter`` as for `from_table`.

    Examples
    --------
    >>> fit_bins([{"speed": [0.0, 1.0]}, {"speed": [9.0, 10.0]}], {"speed": 2}, binning="uniform")
    {'speed': array([5.])}
    """
    values: dict[str, list[Floats]] = {name: [] for name in bins}
    sources = []
    for data in tables:
        with open_table(data, **options) as table:
            _check_present(table, list(bins))
            columns = {name: NumberColumn(table.name, name) for name in bins}
            for batch in table.batches(list(bins)):
                for name, column in columns.items():
                    column.add(batch[name])
        sources.append(table.name)
        for name, column in columns.items():
            values[name].append(finite(table.name, name, column.floats()))
    for name, parts in values.items():
        if not any(part.size for part in parts):
            where = " and ".join(sources) or "tables"
            raise ValueError(f"{where}: column {name!r} holds no number to fit bins to; name another column")
    return {name: fit_edges(np.concatenate(parts), bins[name], binning) for name, parts in values.items()}


def _roles(table: Table, state: Any, sequence: Any, time: Any, reward: Any, terminated: bool | str) -> Roles:
    for role, name in (("sequence", sequence), ("time", time), ("reward", reward)):
        if name is not None and not isinstance(name, str):
            raise TypeError(f"{role}: found {name!r}, expected the name of a column")
    states = (state,) if isinstance(state, str) else tuple(state or ())
    if not states:
        found = _usual(table, "state") or (table.columns[0] if len(table.columns) == 1 else None)
        if found is None:
            raise ValueError(
                f"{table.name}: which column is the state? Pass state (--state COLUMN); {_listed(table.columns)}"
            )
        states = (found,)
    roles = Roles(
        states,
        _usual(table, "sequence") if sequence is None else sequence,
        _usual(table, "time") if time is None else time,
        reward,
        terminated if isinstance(terminated, str) else None,
    )
    _check_present(table, roles.wanted)
    return roles


def _usual(table: Table, role: str) -> str | None:
    return next((name for name in _USUAL[role] if name in table.columns), None)


def _check_present(table: Table, wanted: Sequence[str]) -> None:
    for name in wanted:
        if not isinstance(name, str):
            raise TypeError(f"column names: found {name!r}, expected text")
        if table.columns.count(name) != 1:
            problem = "there is no column" if name not in table.columns else "there are several columns called"
            remedy = "rename all but one" if name in table.columns else "name one of them"
            raise ValueError(f"{table.name}: {problem} {name!r}; {_listed(table.columns)}; {remedy}")


def _listed(columns: list[str]) -> str:
    shown = ", ".join(repr(name[:40]) for name in columns[:12])
    return f"the columns are {shown}" + (f" and {len(columns) - 12} more" if len(columns) > 12 else "")


def _bin_specs(source: str, states: tuple[str, ...], bins: Any) -> dict[str, BinSpec]:
    if bins is None:
        return {}
    if isinstance(bins, Bins):
        if len(bins.edges) != len(states):
            raise ValueError(f"bins: made for {len(bins.edges)} columns, the state has {len(states)}")
        return dict(zip(states, bins.edges, strict=True))
    if not isinstance(bins, Mapping):
        return dict.fromkeys(states, bins)
    unknown = [name for name in bins if name not in states]
    if unknown:
        raise ValueError(f"{source}: bins are given for {unknown[0]!r}, which is no state column; name it in state")
    return dict(bins)
