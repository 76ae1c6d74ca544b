"""How long a pause ends a sequence: numbers, times with a unit, and what goes with which column of times."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Any

from somcot.readers.columns import NumberColumn

__all__ = ["check_gap", "gap_in_column"]

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPELLED = {
    "sec": "s", "second": "s", "min": "m", "minute": "m", "hr": "h", "hour": "h", "day": "d",
}  # fmt: skip
_TEXT = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)", re.ASCII | re.IGNORECASE)
_EXPECTED = "expected a time such as '30m' (units s, m, h, d), or a number where times are plain numbers"


def check_gap(gap: Any) -> float | timedelta | None:
    """A number, or a span of time; refused otherwise.

    Examples
    --------
    >>> check_gap("30m"), check_gap("1.5"), check_gap(7)
    (datetime.timedelta(seconds=1800), 1.5, 7.0)
    >>> check_gap("2 hours") == check_gap("120min")
    True
    """
    if gap is None:
        return None
    found: Any = gap
    if isinstance(gap, str):
        match = _TEXT.fullmatch(gap.strip())
        unit = "" if match is None else _unit(match[2].lower())
        if match is None or unit is None:
            raise ValueError(f"gap: found {gap!r}, {_EXPECTED}")
        found = float(match[1])
        if unit:
            found *= _UNITS[unit]
            found = timedelta(seconds=found) if found < 1e13 else math.inf
    elif hasattr(gap, "to_pytimedelta"):  # of pandas
        found = gap.to_pytimedelta()
    elif hasattr(gap, "astype") and getattr(gap, "dtype", None) is not None and gap.dtype.kind == "m":  # of NumPy
        found = gap.astype("m8[us]").item()
    if isinstance(found, bool) or not isinstance(found, timedelta):
        found = _number(gap, found)
    if not (found > timedelta(0) if isinstance(found, timedelta) else 0 < found < math.inf):
        raise ValueError(f"gap: found {gap!r}, expected a time above 0, such as '30m'")
    return found  # type: ignore[no-any-return]


def _unit(text: str) -> str | None:
    """Its letter, however it is spelled; None for what is no unit."""
    letter = _SPELLED.get(text.removesuffix("s") or text, text)
    return letter if not letter or letter in _UNITS else None


def _number(given: Any, found: Any) -> float:
    try:
        return math.nan if isinstance(found, bool) else float(found)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"gap: found {given!r}, {_EXPECTED}") from None


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
