"""How long a pause ends a sequence, and what goes with which column of times."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from somcot.plumbing.durations import check_duration
from somcot.readers.columns import NumberColumn

__all__ = ["check_gap", "gap_in_column"]


def check_gap(gap: Any) -> float | timedelta | None:
    """A number, or a span of time; refused otherwise.

    Examples
    --------
    >>> check_gap("30m"), check_gap(7)
    (datetime.timedelta(seconds=1800), 7.0)
    """
    return None if gap is None else check_duration("gap", gap)


def gap_in_column(gap: float | timedelta, source: str, column: NumberColumn | None) -> float:
    """The gap in the units of a column of times: microseconds, or as it is where the column holds plain numbers."""
    if column is None:
        raise ValueError(f"{source}: gap cuts by time, but no column holds times; pass time (--time COLUMN)")
    if isinstance(gap, timedelta):
        if not column.holds_times:
            raise ValueError(
                f"{source}: column {column.name!r} holds plain numbers, and gap is a time; give it as a number in "
                f"their unit, such as {gap.total_seconds():g} where they are seconds"
            )
        return gap / timedelta(microseconds=1)
    if column.holds_times:
        raise ValueError(
            f"{source}: column {column.name!r} holds times, and gap is the plain number {gap:g}; give it with a unit: "
            f"{gap:g}s, {gap:g}m, {gap:g}h or {gap:g}d"
        )
    return gap
