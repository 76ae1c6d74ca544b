"""One table over time: its rows parted by day, week or month, or by a column that says so already."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from somcot.readers.batches import open_table
from somcot.readers.columns import NumberColumn
from somcot.readers.groups import FILE_OPTIONS, LEAST, collected, parted
from somcot.readers.table import Table
from somcot.readers.tables import TIME_NAMES
from somcot.samples import Samples

__all__ = ["PERIODS", "split_periods"]

_OWN = "period of somcot"  # the column that is added; no table has one of that name


def _week(day: date) -> str:
    year, week, _ = day.isocalendar()
    return f"{year:04d}-W{week:02d}"


# What a time can be cut into, and what a day is then called: text that sorts in the order of time.
PERIODS: dict[str, Callable[[date], str]] = {
    "day": date.isoformat,
    "week": _week,
    "month": lambda day: f"{day.year:04d}-{day.month:02d}",
}


def split_periods(
    data: Any, by: str, *, time: str | None = None, least: int = LEAST, **options: Any
) -> dict[Hashable, Samples]:
    """Read a table over time: one recording for each period.

    Parameters
    ----------
    data : path, frame or Arrow table
        As for `from_table`. The columns needed are held in memory.
    by : str
        A column, or "day", "week" (from Monday on) or "month" of the times in the column `time`, in UTC where they have
        a zone. A column of that name goes first. Sequences are cut where a period ends.
    time : str, optional
        As for `from_table`.
    least : int
        Periods with fewer transitions are left out, with a `DataWarning` that lists them.
    **options
        Those of `from_table`.

    Returns
    -------
    dict of Samples
        In the order of time; all periods have the states of all.

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
        whole = collected(table, column, rest)
    if column != by or by not in whole.column_names:
        whole = whole.append_column(_OWN, [_buckets(table.name, column, whole[column], by)])
        return parted(table.name, whole, _OWN, rest, least, called=by)
    return parted(table.name, whole, by, rest, least)


def _time_column(table: Table, by: str, time: str | None) -> str:
    """The column with the times, for a period that is no column."""
    listed = ", ".join(table.columns[:12])
    if by not in PERIODS:
        raise ValueError(
            f"{table.name}: there is no column {by!r}, and it is none of {', '.join(PERIODS)}; the columns are {listed}"
        )
    if time is not None and time not in table.columns:
        raise ValueError(f"{table.name}: there is no column {time!r}; the columns are {listed}")
    found = time or next((name for name in TIME_NAMES if name in table.columns), None)
    if found is None:
        raise ValueError(
            f"{table.name}: a {by} is cut out of times, but no column is called {', '.join(TIME_NAMES)}; name it: "
            f"--time COLUMN (time=). The columns are {listed}"
        )
    return found


def _buckets(source: str, name: str, values: Any, by: str) -> Any:
    """The period of each row, as text."""
    import pyarrow as pa

    column = NumberColumn(source, name, times=True)
    for chunk in values.chunks:
        column.add(chunk)
    moments = column.finish()
    if not column.holds_times:
        raise ValueError(
            f"{source}: column {name!r} holds plain numbers such as {moments[0] if len(moments) else 0}, which have no "
            f"{by}; write times such as 2026-05-01T12:00:00, or name a column with the periods: --by COLUMN"
        )
    days: NDArray[np.int64] = np.floor_divide(np.asarray(moments).astype(np.int64), 86_400_000_000)
    known, place = np.unique(days, return_inverse=True)
    names = [PERIODS[by](date.fromordinal(date(1970, 1, 1).toordinal() + int(day))) for day in known.tolist()]
    return pa.DictionaryArray.from_arrays(pa.array(place.astype(np.int32)), pa.array(names)).dictionary_decode()
