"""Event tables: rows with a state, optionally a sequence and a time, become `Samples`."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_names, not_sparse
from somcot.readers.opening import Input, format_of, identify
from somcot.readers.tables import Table
from somcot.readers.tables.batches import open_table
from somcot.readers.tables.columns import ColumnRoles, check_present
from somcot.readers.tables.numbers_and_times import NumberColumn, check_time_format
from somcot.readers.tables.rows import BinSpec, Columns, TableOptions, finite
from somcot.readers.tables.state_labels import Bins, check_binning, fit_edges
from somcot.samples import Samples

__all__ = ["bin_specs", "classified", "collected", "fit_bins", "from_table", "from_xes", "roles_of"]


def from_table(
    data: object,
    *,
    state: str | Sequence[str] | None = None,
    sequence: str | None = None,
    time: str | None = None,
    reward: str | None = None,
    terminated: bool | str = False,
    end: Hashable | None = None,
    gap: str | float | timedelta | None = None,
    bins: int | Bins | Mapping[str, BinSpec] | None = None,
    binning: str = "quantile",
    missing: str = "error",
    tidy: bool = False,
    top: int | None = None,
    other: Hashable = "other",
    initial: Hashable | ArrayLike | Mapping[Hashable, float] | None = None,
    keep_times: bool = False,
    format: str | None = None,  # noqa: A002
    encoding: str = "utf-8",
    delimiter: str | None = None,
    time_format: str | None = None,
    table: str | None = None,
    query: str | None = None,
    wide: str | Sequence[str] | None = None,
    attributes: Sequence[str] = (),
) -> Samples:
    """Read a table of events.

    Only the required columns are read, in batches, and kept as codes: files may be larger than memory.

    Parameters
    ----------
    data : path, pattern, list of paths, "-", frame or Arrow table
        A file (see `read` for the formats), possibly compressed, a folder, a pattern such as ``logs/*.csv`` or a list
        of files, standard input, or an object with columns: a pandas or polars frame, a polars LazyFrame, a DuckDB
        relation, an Arrow table, reader or dataset, any object with an Arrow stream, or a mapping of column names to
        lists.
    state : str or sequence of str, optional
        Column with the state; several columns form states that are tuples. By default a column with a usual name
        (``state``, ``activity``, ``event``, ``page``, ``concept:name``, ...), or the only column. Fields of nested
        columns are named with dots: ``event.name``.
    sequence : str, optional
        Column that identifies sequences (users, sessions, episodes); by default one with a usual name (``sequence``,
        ``case_id``, ``session_id``, ...), otherwise all rows form one sequence.
    time : str, optional
        Column with numbers or times by which rows are sorted within a sequence; by default one with a usual name
        (``time``, ``timestamp``, ``step``, ...), otherwise (and with "file") the order of the rows is used. A note
        names the columns that were chosen.
    reward : str, optional
        Column with a reward for being in the row's state; their means are ``samples.features``.
    terminated : bool or str, optional
        Whether the process terminated with the last row of a sequence, or a column with that information. The last
        state is then absorbing; if it is left elsewhere, pass `end`.
    end : hashable, optional
        An additional last state for every sequence, such as "left", since logs seldom have a row for it; it is
        absorbing, and sequences of one row count. If `terminated` is a column, only for the sequences that terminated.
    gap : str, float or timedelta, optional
        Split a sequence wherever more time than this passes between two rows: "30m", "1.5h", "2d", "45s"; a number
        if times are numbers.
    bins : int, Bins or mapping of column to int or edges, optional
        Numeric state columns to divide into this many bins, or at these inner edges. Use `fit_bins` to get the same
        edges for two tables.
    binning : {"quantile", "uniform"}
        Bins with equal numbers of rows, or of equal width.
    missing : {"error", "cut"}
        How to treat a row without a state: refuse it, or remove it and split the sequence there.
    tidy : bool
        Merge labels that differ only in case or blanks; `tidy_labels` does so for two recordings together.
    top : int, optional
        Keep this many of the most frequent states; `join_rare` does so for two recordings together.
    other : hashable
        Label of the merged remaining states.
    initial : label, mapping, array_like or "stationary", optional
        The initial distribution, as for `Samples.from_trajectories`; by default from the first rows of the sequences.
    keep_times : bool
        Keep the times of the rows (their numbers, without a column of times) in ``samples.times``, for `Monitor`.
    format, encoding, delimiter : str, optional
        Format of a file, if its extension does not tell.
    time_format : str, optional
        Notation of the times, if it is not recognised: a pattern of `datetime.strptime`, "day-first" or "month-first"
        for dates such as 3/4/2026, or the unit of numbers since 1970 ("s", "ms", "us", "ns").
    table, query : str, optional
        Table of a database or sheet of a spreadsheet; or a SELECT statement, which is run read-only.
    wide : str or sequence of str, optional
        For tables with a row for each sequence: the columns with its states in order, as "FIRST:LAST" or a list.
    attributes : sequence of str, optional
        Columns that are constant in each sequence and describe it (task, model, country); they become
        ``samples.episode_attributes``.

    Returns
    -------
    Samples

    Warns
    -----
    DataWarning
        Rows out of order (sorted), rows of a sequence at the same time (kept in file order), sequences of one row,
        labels that differ only in case or blanks.

    Examples
    --------
    >>> visits = {"user": [1, 1, 2, 1, 2], "ts": [0, 1, 0, 2, 5], "page": ["home", "cart", "home", "paid", "cart"]}
    >>> samples = from_table(visits, sequence="user", time="ts", state="page")
    >>> samples
    Samples(3 states, 3 transitions, 2 episodes)
    >>> samples.states, samples.counts().tolist()
    (('cart', 'home', 'paid'), [[0, 0, 1], [2, 0, 0], [0, 0, 0]])

    With an end state, no sequence appears to stay forever in the state where its recording stops:

    >>> from_table(visits, sequence="user", time="ts", state="page", end="left").counts().tolist()
    [[0, 0, 1, 1], [2, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
    """
    # Checks its arguments, so that they fail before a file is opened.
    options = TableOptions(terminated, end, gap, missing, tidy, top, other, initial, keep_times)
    check_binning(binning)
    files = {"encoding": encoding, "delimiter": delimiter, "table": table, "query": query, "wide": wide}
    with open_table(data, format=format, **files) as rows:
        roles = roles_of(rows, state, sequence, time, reward, terminated, time_format, attributes)
        # Within the `with`: batches are read from the open file.
        return options.samples(collected(rows, roles, bin_specs(rows.name, roles.state, bins)), binning)


def from_xes(
    data: str | os.PathLike[str] | Input,
    *,
    state: str | Sequence[str] | None = None,
    sequence: str | None = None,
    time: str | None = None,
    reward: str | None = None,
    terminated: bool | str = False,
    end: Hashable | None = None,
    gap: str | float | timedelta | None = None,
    classifier: str | None = None,
    lifecycle: str | None = None,
    missing: str = "error",
    tidy: bool = False,
    top: int | None = None,
    other: Hashable = "other",
    initial: Hashable | ArrayLike | Mapping[Hashable, float] | None = None,
    keep_times: bool = False,
    format: str | None = None,  # noqa: A002
    attributes: Sequence[str] = (),
) -> Samples:
    """Read an event log in XES (.xes, .xes.gz): traces are sequences, and the names of events are states.

    The log becomes a table with the columns of pm4py: attributes of events by their keys, those of their traces
    as ``case:KEY``. It is read as a stream; a DOCTYPE, and therefore any entity, is refused.

    Parameters
    ----------
    data : path, "-"
    state : str or sequence of str, optional
        Attribute of the events; by default ``concept:name``.
    sequence, time : str, optional
        By default ``case:concept:name`` and ``time:timestamp``; ``time="file"`` keeps the order of the file.
    classifier : str, optional
        Name of a classifier of the log, whose attributes form the state instead.
    lifecycle : str, optional
        Which events to keep, by their ``lifecycle:transition``, case-insensitive: "complete" by default, since one
        activity is often several events (schedule, start, complete); events without a transition are kept; "all" keeps
        all. The default is "all" if the transition is part of the state.
    reward, terminated, end, gap, missing, tidy, top, other, initial, keep_times, format, attributes
        As for `from_table`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> event = '<event><string key="concept:name" value="{}"/><date key="time:timestamp" value="2026-05-0{}"/></event>'
    >>> trace = '<trace><string key="concept:name" value="case 7"/>{}{}</trace>'
    >>> file = pathlib.Path(tempfile.mkdtemp(), "orders.xes")
    >>> _ = file.write_text(f"<log>{trace.format(event.format('order', 1), event.format('pay', 2))}</log>")
    >>> from_xes(file, end="closed").states
    ('order', 'pay', 'closed')
    """
    options = TableOptions(terminated, end, gap, missing, tidy, top, other, initial, keep_times)
    # Typed as object: by its annotation the check would be redundant.
    transition: object = lifecycle
    if transition is not None and (not isinstance(transition, str) or not transition):
        raise TypeError(f"lifecycle: found {lifecycle!r}, expected a transition such as 'complete', or 'all'")
    if classifier is not None and state is not None:
        raise ValueError("classifier: both classifier and state define the state; leave one out")
    # A file without a known ending is taken as a log, the only format that this function reads.
    source = data if isinstance(data, Input) else identify(data, format or (None if format_of(data) else "xes"))
    if source.format != "xes":
        raise ValueError(f"{source.name}: a {source.format} file, expected an event log (.xes); see from_table")
    with open_table(source, lifecycle=lifecycle) as table:
        # A classifier is a name in the log for a list of columns.
        states = state if classifier is None else classified(table, classifier)
        roles = roles_of(table, states, sequence, time, reward, terminated, attributes=attributes)
        return options.samples(collected(table, roles, {}))


def classified(table: Table, classifier: str) -> list[str]:
    """The columns of a classifier of an event log."""
    if classifier not in table.classifiers:
        known = ", ".join(map(repr, table.classifiers)) or "none"
        raise ValueError(f"{table.name}: there is no classifier {classifier!r}; the log has {known}")
    return table.classifiers[classifier]


def collected(table: Table, roles: ColumnRoles, bins: Mapping[str, BinSpec]) -> Columns:
    """The required columns, read in batches; those with bins as numbers."""
    columns = Columns(table, roles, bins)
    # Only the required columns: a log may have hundreds.
    for batch in table.batches(roles.wanted):
        columns.add(batch)
    return columns


def fit_bins(
    tables: Iterable[object], bins: Mapping[str, int], *, binning: str = "quantile", **options: Any
) -> dict[str, Floats]:
    """Fit common bins to several tables, to be passed to `from_table` for each.

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
    values: dict[str, list[Floats]] = {name: [] for name in not_sparse("bins", bins)}
    sources = []
    for data in not_sparse("tables", tables):
        with open_table(data, **options) as table:
            check_present(table, list(bins))
            columns = {name: NumberColumn(table.name, name, place=table.place) for name in bins}
            for batch in table.batches(list(bins)):
                for name, column in columns.items():
                    column.add(batch[name])
        # Names for the error below, when the files are closed.
        sources.append(table.name)
        for name, column in columns.items():
            values[name].append(finite(table.name, name, column.floats()))
    # One table may lack numbers as long as others have some.
    for name, parts in values.items():
        if not any(part.size for part in parts):
            where = " and ".join(sources) or "tables"
            raise ValueError(f"{where}: column {name!r} holds no number to fit bins to; name another column")
    # Edges of all values together; the mean of separate edges would fit none of the tables.
    return {name: fit_edges(np.concatenate(parts), bins[name], binning) for name, parts in values.items()}


def roles_of(
    table: Table,
    state: str | Sequence[str] | None,
    sequence: str | None,
    time: str | None,
    reward: str | None,
    terminated: bool | str,
    time_format: str | None = None,
    attributes: Sequence[str] = (),
) -> ColumnRoles:
    """The roles of columns, checked against the columns of the table."""
    for role, name in (("sequence", sequence), ("time", time), ("reward", reward)):
        if name is not None and not isinstance(name, str):
            raise TypeError(f"{role}: found {name!r}, expected the name of a column")
    # A string is a sequence of letters, each of which would be taken as a column.
    if isinstance(attributes, str):
        raise TypeError(f"attributes: found {attributes!r}, expected a list of columns")
    states = (state,) if isinstance(state, str) else tuple(state or ())
    # A flag for all sequences is not a column.
    ended = terminated if isinstance(terminated, str) else None
    check_time_format(time_format)
    return ColumnRoles(states, sequence, time, reward, ended, time_format, check_names("attributes", attributes)).among(
        table
    )


def bin_specs(
    source: str, states: tuple[str, ...], bins: int | Bins | Mapping[str, BinSpec] | None
) -> dict[str, BinSpec]:
    """The bins of each state column that has any."""
    if bins is None:
        return {}
    # Fitted bins have one list of edges for each column, in their order.
    if isinstance(bins, Bins):
        if len(bins.edges) != len(states):
            raise ValueError(f"bins: made for {len(bins.edges)} columns, the state has {len(states)}")
        return dict(zip(states, bins.edges, strict=True))
    # One number for all columns, or one list of edges.
    if not isinstance(bins, Mapping):
        return dict.fromkeys(states, bins)
    unknown = [name for name in bins if name not in states]
    if unknown:
        raise ValueError(f"{source}: found bins for {unknown[0]!r}, which is not a state column; name it in state")
    return dict(bins)
