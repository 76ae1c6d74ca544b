"""Spans of time as people write them: 30m, 2 hours, a timedelta, or a plain number."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Any

__all__ = ["check_duration"]

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPELLED = {
    "sec": "s", "second": "s", "min": "m", "minute": "m", "hr": "h", "hour": "h", "day": "d",
}  # fmt: skip
_TEXT = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)", re.ASCII | re.IGNORECASE)
_EXPECTED = "expected a time such as '30m' (units s, m, h, d), or a number where times are plain numbers"


def check_duration(name: str, given: Any) -> float | timedelta:
    """A number, or a span of time; refused otherwise.

    Examples
    --------
    >>> check_duration("gap", "30m"), check_duration("gap", "1.5"), check_duration("gap", 7)
    (datetime.timedelta(seconds=1800), 1.5, 7.0)
    >>> check_duration("gap", "2 hours") == check_duration("gap", "120min")
    True
    """
    found: Any = given
    if isinstance(given, str):
        match = _TEXT.fullmatch(given.strip())
        unit = "" if match is None else _unit(match[2].lower())
        if match is None or unit is None:
            raise ValueError(f"{name}: found {given!r}, {_EXPECTED}")
        found = float(match[1])
        if unit:
            found *= _UNITS[unit]
            found = timedelta(seconds=found) if found < 1e13 else math.inf
    elif hasattr(given, "to_pytimedelta"):  # of pandas
        found = given.to_pytimedelta()
    elif hasattr(given, "astype") and getattr(given, "dtype", None) is not None and given.dtype.kind == "m":  # of NumPy
        found = given.astype("m8[us]").item()
    if isinstance(found, bool) or not isinstance(found, timedelta):
        found = _number(name, given, found)
    if not (found > timedelta(0) if isinstance(found, timedelta) else 0 < found < math.inf):
        raise ValueError(f"{name}: found {given!r}, expected a time above 0, such as '30m'")
    return found  # type: ignore[no-any-return]


def _unit(text: str) -> str | None:
    """Its letter, however it is spelled; None for what is no unit."""
    letter = _SPELLED.get(text.removesuffix("s") or text, text)
    return letter if not letter or letter in _UNITS else None


def _number(name: str, given: Any, found: Any) -> float:
    try:
        return math.nan if isinstance(found, bool) else float(found)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name}: found {given!r}, {_EXPECTED}") from None
