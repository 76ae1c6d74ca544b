"""One table split into several recordings: by a column, or by day, week or month."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note
from somcot.readers.opening import ArrowArray, ArrowTable, Batch, Table
from somcot.readers.tables.batches import arrow, open_frame, open_table
from somcot.readers.tables.columns import USUAL, NumberColumn
from somcot.readers.tables.event_tables import classified, from_table, rows_of_sequences
from somcot.recorded.recording import RewardSums
from somcot.samples import Samples

__all__ = [
    "FILE_OPTIONS",
    "LEAST",
    "PERIODS",
    "collected",
    "parted",
    "split_periods",
    "split_table",
]


# --- One table with several processes, identified by a column

LEAST = 30  # transitions; smaller groups are left out
FILE_OPTIONS = ("format", "encoding", "delimiter", "lifecycle")


def split_table(data: object, by: str, *, least: int = LEAST, **options: Any) -> dict[Hashable, Samples]:
    """Read a table that contains several processes: one for each value of a column (country, week, version).

    Parameters
    ----------
    data : path, frame or Arrow table
        As for `from_table`, or an event log as for `from_xes`. The required columns are held in memory.
    by : str
        The column that identifies processes; in event logs, for example ``case:NAME``. Sequences do not continue from
        one process to another.
    least : int
        Groups with fewer transitions are left out, with a `DataWarning` that lists them.
    **options
        Options of `from_table` (of `from_xes` for event logs), the same for all groups.

    Returns
    -------
    dict of Samples
        In the order of the values; all groups share the states of all.

    Examples
    --------
    >>> log = {"week": [1, 1, 2, 2, 2], "user": [1, 1, 1, 1, 1], "page": ["a", "b", "a", "a", "b"]}
    >>> {week: samples.n_transitions for week, samples in split_table(log, "week", sequence="user", state="page",
    ...                                                               least=1).items()}
    {1: 1, 2: 2}
    """
    if not isinstance(by, str):
        raise TypeError(f"by: found {by!r}, expected the name of a column")
    source = {name: options[name] for name in FILE_OPTIONS if name in options}
    rest = {name: value for name, value in options.items() if name not in (*FILE_OPTIONS, "classifier")}
    with open_table(data, **source) as table:
        if by not in table.columns:
            close = f"; did you mean 'case:{by}'?" if f"case:{by}" in table.columns else ""
            raise ValueError(
                f"{table.name}: there is no column {by!r}; the columns are {', '.join(table.columns[:12])}{close}"
            )
        if options.get("classifier") is not None:
            rest["state"] = classified(table, options["classifier"])
        name, arrow_table = table.name, collected(table, by, rest)
    return parted(name, arrow_table, by, rest, least)


def parted(
    name: str, arrow_table: ArrowTable, by: str, rest: Mapping[str, Any], least: int, called: str | None = None
) -> dict[Hashable, Samples]:
    """The groups of an Arrow table by one of its columns, read with the options `rest` of `from_table`.

    Messages use the name of the column, or `called`.
    """
    if rest.get("state") in (by, [by], (by,)):
        raise ValueError(f"by: {by!r} is the state, so each group would have one state; name another column")
    groups, few = {}, {}
    for label, rows in _parts(name, arrow_table, by):
        try:
            with open_frame(rows.drop_columns([by]) if by not in _named(rest) else rows) as group:
                samples = from_table(group._replace(name=f"{name}, {called or by} {label!r}"), **rest)
        except ValueError as error:
            if not (isinstance(error.args[0], Note) and error.args[0].code == "no-step"):
                raise
            few[label] = 0
            continue
        if samples.n_transitions < least:
            few[label] = samples.n_transitions
        else:
            groups[label] = samples
    if few:
        shown = ", ".join(f"{label} ({n})" for label, n in list(few.items())[:10])
        more = f" and {len(few) - 10} more" if len(few) > 10 else ""
        warn(Note("groups-left-out", name, n=len(few), least=least, groups=f"{shown}{more}"), DataWarning)
    if not groups:
        raise ValueError(
            f"{name}: no value of {called or by!r} has {least} transitions; name another column, or record longer"
        )
    return _on_shared_states(groups)


def _named(options: Mapping[str, object]) -> set[str]:
    """Every text among the options: columns that may be needed."""
    names: set[str] = set()
    for value in options.values():
        names |= {value} if isinstance(value, str) else {v for v in value if isinstance(v, str)} if isinstance(
            value, (list, tuple, Mapping)) else set()  # fmt: skip
    return names


def collected(table: Table, by: str, options: Mapping[str, object]) -> ArrowTable:
    """The columns named by any option or by default, as one Arrow table."""
    pa = arrow()
    named, usual = _named(options), {name for names in USUAL.values() for name in names}
    wanted = [c for c in dict.fromkeys(table.columns) if c == by or c in named or c in usual]
    if "state" not in options and len(table.columns) == 2:
        wanted = list(table.columns)  # the other column is the state
    parts: dict[str, list[Batch]] = {column: [] for column in wanted}
    for batch in table.batches(wanted):
        for column in wanted:
            values = batch[column]
            parts[column].append(values if hasattr(values, "null_count") else pa.array(values))
    return pa.table({column: pa.chunked_array(values) for column, values in parts.items()})


def _parts(name: str, arrow_table: ArrowTable, by: str) -> list[tuple[Hashable, ArrowTable]]:
    """The rows of each group, in their order."""
    pa = arrow()
    column = arrow_table[by].combine_chunks()
    column = pa.concat_arrays(column.chunks) if hasattr(column, "chunks") else column
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    if len(codes) and codes.min() < 0:
        raise ValueError(f"{name}: row {int((codes < 0).argmax()) + 1} has no {by!r}; fill it in, or remove the row")
    labels = coded.dictionary.to_pylist()
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(labels)))
    ordered = arrow_table.take(pa.array(order))
    begins = np.append(0, ends[:-1])
    slices = {label: (int(a), int(b - a)) for label, a, b in zip(labels, begins, ends, strict=True) if b > a}
    try:
        names = sorted(slices)
    except TypeError:
        names = list(slices)
    return [(label, ordered.slice(*slices[label])) for label in names]


def _on_shared_states(groups: dict[Hashable, Samples]) -> dict[Hashable, Samples]:
    """Give all groups the states of all, so that rows of equal states can be compared."""
    every = dict.fromkeys(state for samples in groups.values() for state in samples.states)
    try:
        states = tuple(sorted(every))  # type: ignore[type-var]
    except TypeError:
        states = tuple(every)
    index = {state: i for i, state in enumerate(states)}
    return {label: _moved(samples, states, index) for label, samples in groups.items()}


def _moved(samples: Samples, states: tuple[Hashable, ...], index: dict[Hashable, int]) -> Samples:
    place = np.array([index[state] for state in samples.states], dtype=np.int32)
    initial = samples.initial
    if initial is not None:
        initial = np.zeros(len(states))
        initial[place] = samples.initial
    rewards = samples.rewards
    if rewards is not None:
        table = np.zeros((3, len(states)))
        table[:, place] = rewards
        rewards = RewardSums(table[0], table[1].astype(np.int64), table[2])
    return replace(
        samples, states=states, now=place[samples.now], following=place[samples.following], initial=initial,
        rewards=rewards,
    )  # fmt: skip


# --- One table split into periods

_OWN = "period of somcot"  # the added column; no table has a column of this name


def _week(day: date) -> str:
    year, week, _ = day.isocalendar()
    return f"{year:04d}-W{week:02d}"


# The periods, and the name of a day's period: text that sorts in the order of time.
PERIODS: dict[str, Callable[[date], str]] = {
    "day": date.isoformat,
    "week": _week,
    "month": lambda day: f"{day.year:04d}-{day.month:02d}",
}


def split_periods(
    data: object, by: str, *, time: str | None = None, least: int = LEAST, **options: Any
) -> dict[Hashable, Samples]:
    """Read a table over time: one recording for each period.

    Parameters
    ----------
    data : path, frame or Arrow table
        As for `from_table`. The required columns are held in memory.
    by : str
        A column, or "day", "week" (starting on Monday) or "month" of the times in the column `time`, in UTC if they
        have a time zone. A column of that name takes precedence. A sequence belongs to the period in which it
        starts; a table without sequences is one, which is cut where a period ends.
    time : str, optional
        As for `from_table`.
    least : int
        Periods with fewer transitions are left out, with a `DataWarning` that lists them.
    **options
        Options of `from_table`.

    Returns
    -------
    dict of Samples
        In the order of time; all periods share the states of all.

    Examples
    --------
    >>> log = {"time": ["2026-05-01", "2026-05-02", "2026-05-03", "2026-06-01", "2026-06-02"], "state": list("aabab")}
    >>> {month: samples.n_transitions for month, samples in split_periods(log, "month", least=1).items()}
    {'2026-05': 2, '2026-06': 1}
    """
    if not isinstance(by, str):
        raise TypeError(f"by: found {by!r}, expected the name of a column, or {', '.join(map(repr, PERIODS))}")
    source = {name: options[name] for name in FILE_OPTIONS if name in options}
    rest = {name: value for name, value in options.items() if name not in FILE_OPTIONS}
    with open_table(data, **source) as table:
        column = by if by in table.columns else _time_column(table, by, time)
        if time is not None:
            rest["time"] = time
        arrow_table = collected(table, column, rest)
    periods = arrow_table[by] if column == by else _buckets(table.name, column, arrow_table[column], by)
    arrow_table = arrow_table.append_column(_OWN, [_where_they_start(periods, arrow_table, rest)])
    if column == by and by not in _named(rest):
        arrow_table = arrow_table.drop_columns([by])
    return parted(table.name, arrow_table, _OWN, rest, least, called=by)


def _where_they_start(periods: ArrowArray, arrow_table: ArrowTable, rest: Mapping[str, Any]) -> ArrowArray:
    """The period of each row: that in which its sequence started."""
    with open_frame(arrow_table) as table, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the periods are read once more, one by one
        rows, first = rows_of_sequences(table, rest)
    origin = np.arange(len(arrow_table))
    origin[rows] = first
    return periods.take(arrow().array(origin)).combine_chunks() if hasattr(periods, "chunks") else periods.take(
        arrow().array(origin))  # fmt: skip


def _time_column(table: Table, by: str, time: str | None) -> str:
    """The column with the times, for a period that is not a column."""
    listed = ", ".join(table.columns[:12])
    if by not in PERIODS:
        raise ValueError(
            f"{table.name}: there is no column {by!r}, and it is none of {', '.join(PERIODS)}; the columns are {listed}"
        )
    if time is not None and time not in table.columns:
        raise ValueError(f"{table.name}: there is no column {time!r}; the columns are {listed}")
    column = time or next((name for name in USUAL["time"] if name in table.columns), None)
    if column is None:
        usual = ", ".join(USUAL["time"])
        raise ValueError(Note("period-without-times", table.name, period=by, usual=usual, columns=listed))
    return column


def _buckets(source: str, name: str, values: ArrowArray, by: str) -> ArrowArray:
    """The period of each row, as text."""
    import pyarrow as pa

    column = NumberColumn(source, name, times=True)
    for chunk in values.chunks:
        column.add(chunk)
    moments = column.finish()
    if not column.holds_times:
        example = str(moments[0] if len(moments) else 0)
        raise ValueError(Note("no-periods", source, column=name, example=example, period=by))
    days: NDArray[np.int64] = np.floor_divide(np.asarray(moments).astype(np.int64), 86_400_000_000)
    known, place = np.unique(days, return_inverse=True)
    names = [PERIODS[by](date.fromordinal(date(1970, 1, 1).toordinal() + int(day))) for day in known.tolist()]
    coded: ArrowArray = pa.DictionaryArray.from_arrays(pa.array(place.astype(np.int32)), pa.array(names))
    return coded.dictionary_decode()
