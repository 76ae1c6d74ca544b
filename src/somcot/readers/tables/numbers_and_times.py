"""Columns of numbers, times and truth values; times in the notations that logs use, as microseconds since 1970."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.arrays import Floats
from somcot.plumbing.checks import check_text
from somcot.plumbing.notes import Note
from somcot.readers.tables import Array, ArrowArray, ArrowTable, ArrowType, Batch, Entry, to_numpy
from somcot.readers.tables.columns import MISSING_TEXTS, Growing, is_arrow, plain

__all__ = [
    "NUMBERS_OR_TIMES",
    "FlagColumn",
    "NumberColumn",
    "check_time_format",
    "epoch_unit",
    "micros",
    "moments",
    "time_types",
    "to_iso",
    "with_times",
]

NUMBERS_OR_TIMES = "numbers or times such as 2026-05-01T12:00:00"
_NUMBERS, _TIMES, _ZONED = "numbers", "times", "times with a zone"
_TRUTH = {"true": True, "t": True, "yes": True, "1": True, "false": False, "f": False, "no": False, "0": False}


# --- Notations of times

_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: k for k, name in enumerate(_NAMES, 1)}
_CLOCK = r"(?:[ T:,]\s*(?P<h>\d{1,2}):(?P<m>\d\d)(?::(?P<s>\d\d)(?:[.,](?P<f>\d+))?)?)?\s*(?P<p>[ap]\.?m\.?)?"
_ZONE = r"\s*(?P<z>UTC|GMT|Z|[+-]\d\d(?::?\d\d)?)?\]?"
_NOTATIONS = {
    "ymd": r"(?P<y>\d{4})[/.-](?P<a>\d{1,2})[/.-](?P<b>\d{1,2})",  # 2014/10/22 11:15:41.000, 2014-10-22 1:15 pm
    "named": r"\[?(?:[a-z]{3,9},?\s+)?(?P<b>\d{1,2})[/ -](?P<n>[a-z]{3})[a-z]*[/ -](?P<y>\d{4})",  # of web servers
    "spelled": r"(?:[a-z]{3,9},?\s+)?(?P<n>[a-z]{3})[a-z]*\.?\s+(?P<b>\d{1,2}),?\s+(?P<y>\d{4})",  # Oct 2, 2014 1:15 pm
    "dotted": r"(?P<b>\d{1,2})\.(?P<a>\d{1,2})\.(?P<y>\d{4})",  # always day, month, year
    "either": r"(?P<a>\d{1,2})[/-](?P<b>\d{1,2})[/-](?P<y>\d{4})",  # 10/22/2014 or 22/10/2014
}
_UNIX = (  # Wed Oct 22 11:15:41 2014, also with a zone before the year
    r"\[?(?:[a-z]{3},?\s+)?(?P<n>[a-z]{3})\s+(?P<b>\d{1,2})\s+(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d+))?"
    r"(?P<p>)(?:\s+(?P<z>UTC|GMT|[+-]\d{4}))?\s+(?P<y>\d{4})\]?"
)
_PATTERNS = {
    name: re.compile(text, re.ASCII | re.IGNORECASE)
    for name, text in ({name: text + _CLOCK + _ZONE for name, text in _NOTATIONS.items()} | {"unix": _UNIX}).items()
}
_CLOCK_ONLY = re.compile(r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?(?:\s*[AaPp][Mm])?")
_NAMED_ZONE = re.compile(r"\s+[A-Z]{3,5}|\s*\[?[A-Za-z]+/[A-Za-z_/]+\]?")
DAY_FIRST, MONTH_FIRST = "day-first", "month-first"
_UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 0.001}  # microseconds per unit of an epoch number


def check_time_format(text: str | None) -> str | None:
    """A pattern of `datetime.strptime`, an order of day and month, or the unit of numbers since 1970.

    Examples
    --------
    >>> check_time_format("%d/%m/%Y"), check_time_format("day-first"), check_time_format("ms")
    ('%d/%m/%Y', 'day-first', 'ms')
    """
    if text is None or "%" in str(text) or check_text("time_format", text) in (DAY_FIRST, MONTH_FIRST, *_UNITS):
        return text
    raise ValueError(
        f"time_format: found {text!r}, expected a pattern such as '%d/%m/%Y %H:%M', '{DAY_FIRST}', '{MONTH_FIRST}', or "
        f"the unit of numbers since 1970: {', '.join(_UNITS)}"
    )


class _Moment(NamedTuple):
    """A time as read: the year, two numbers that are day and month, the rest in ISO notation."""

    year: int
    month: int
    day: int
    either: bool  # whether day and month may be exchanged
    rest: str

    def iso(self, *, day_first: bool) -> str:
        """The time in ISO notation; raises an error for an impossible date."""
        month, day = (self.day, self.month) if self.either and day_first else (self.month, self.day)
        return date(self.year, month, day).isoformat() + self.rest


def _recognised(text: str) -> _Moment | None:
    for name, pattern in _PATTERNS.items():
        match = pattern.fullmatch(text.strip())
        if match is None:
            continue
        part = match.groupdict()
        month = _MONTHS.get(part["n"].lower(), 0) if "n" in part else int(part["a"])
        rest = ""
        if part["h"] is not None:
            hour = int(part["h"])
            if part["p"]:
                if not 1 <= hour <= 12:
                    return None
                hour = hour % 12 + 12 * (part["p"][0] in "pP")
            rest = f"T{hour:02d}:{part['m']}:{part['s'] or '00'}" + (f".{part['f'][:6]}" if part["f"] else "")
        elif part["p"] or part["z"]:
            return None
        zone = part["z"] or ""
        rest += "+00:00" if zone.upper() in ("UTC", "GMT", "Z") else zone
        return _Moment(int(part["y"]), month, int(part["b"]), name == "either", rest)
    return None


def to_iso(text: str, order: str | None = None) -> str | None:
    """A time in ISO notation; None if it is not a time, or if day and month could be exchanged and `order` is unknown.

    Examples
    --------
    >>> to_iso("2014/10/22 11:15:41.000"), to_iso("22/Oct/2014:11:15:41 +0200")
    ('2014-10-22T11:15:41.000', '2014-10-22T11:15:41+0200')
    >>> to_iso("10/22/2014 1:15 PM", "month-first"), to_iso("3/4/2014"), to_iso("1.5.2026 12:30 UTC")
    ('2014-10-22T13:15:00', None, '2026-05-01T12:30:00+00:00')
    """
    moment = _recognised(text)
    if moment is None or (moment.either and order is None):
        return None
    try:
        return moment.iso(day_first=order == DAY_FIRST)
    except ValueError:
        return None


def _order_of(texts: Sequence[str | None]) -> set[str]:
    """The orders of day and month that the dates prove: a number above 12 is a day."""
    orders = set()
    for text in texts:
        moment = None if text is None else _recognised(text)
        if moment is not None and moment.either and max(moment.month, moment.day) > 12:
            orders.add(DAY_FIRST if moment.month > 12 else MONTH_FIRST)
    return orders


def time_types(units: Sequence[str]) -> list[tuple[ArrowType, str]]:
    """Arrow types of times as text, in the order in which they are tried, with their descriptions."""
    import pyarrow as pa

    zones = ((None, _TIMES), ("UTC", _ZONED))
    return [(pa.float64(), _NUMBERS), *((pa.timestamp(unit, zone), kind) for zone, kind in zones for unit in units)]


# --- Columns collected batch by batch


class NumberColumn:
    """A column of numbers or times; integers and times stay exact.

    Parameters
    ----------
    source, name : str
        The table and the column, for messages.
    times : bool
        Whether entries may be times.
    place : callable
        Names a row, counted from 1, in a message.
    time_format : str, optional
        See `check_time_format`.
    """

    def __init__(
        self,
        source: str,
        name: str,
        *,
        times: bool = False,
        place: Callable[[int], str] = "row {}".format,
        time_format: str | None = None,
    ) -> None:
        self.source, self.name, self.times, self.place = source, name, times, place
        self.format = check_time_format(time_format) if times else None
        self.order = self.format if self.format in (DAY_FIRST, MONTH_FIRST) else None  # of day and month
        self._values = Growing()
        self._bases: list[tuple[int, int]] = []  # end of each batch and what its numbers are counted from
        self.n_rows = 0
        self.kind: str | None = None  # of times: numbers, or times with or without a zone
        self._waiting: list[tuple[int, list[str | None]]] = []  # batches whose order of day and month is unknown

    def add(self, values: Batch) -> None:
        """Add one batch."""
        part = self._from_arrow(plain(values, times=self.times)) if is_arrow(values) else self._from_list(values)
        infinite = np.isinf(part) if part.dtype.kind == "f" else np.zeros(0, dtype=np.bool_)
        if infinite.any():
            i = int(infinite.argmax())
            raise self._refused(i, f"found {part[i]}, expected finite numbers; correct or remove the row")
        if self.format in _UNITS and self.kind == _NUMBERS:
            part = self._scaled(part, _UNITS[self.format])
        base = int(part.min()) if part.dtype.kind == "i" and len(part) else 0  # differences are small numbers
        self._values.append(part - base if base else part)
        self.n_rows += len(part)
        self._bases.append((self.n_rows, base))

    def _scaled(self, part: Array, factor: float) -> NDArray[np.int64]:
        """Numbers since 1970 as microseconds."""
        if part.dtype.kind == "i" and factor >= 1:
            return part * int(factor)
        return np.round(part * factor).astype(np.int64)

    def _from_arrow(self, values: ArrowArray) -> Array:
        import pyarrow as pa

        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        kind = values.type
        if self.times and (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
            zone = getattr(kind, "tz", None)
            self._is_of_kind(0, _TIMES if zone is None else _ZONED, kind)
            return self._complete(values, values.cast(pa.timestamp("us", zone), safe=False))
        if self.times and (pa.types.is_time(kind) or pa.types.is_duration(kind)):
            self._is_of_kind(0, _TIMES, kind)
            unit = pa.duration("us") if pa.types.is_duration(kind) else pa.time64("us")
            return self._complete(values, values.cast(unit, safe=False))
        if pa.types.is_integer(kind):
            self._is_of_kind(0, _NUMBERS, kind)
            return self._complete(values, values.cast(pa.int64()) if str(kind) != "uint64" else values)
        if pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind):
            self._is_of_kind(0, _NUMBERS, kind)
            return self._complete(values, values.cast(pa.float64(), safe=False))
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            return self._from_text(values.cast(pa.string()))
        raise ValueError(f"{self.source}: column {self.name!r} holds {kind}, expected {self._wanted}")

    def _from_text(self, values: ArrowArray, original: ArrowArray | None = None) -> Array:
        import pyarrow as pa
        from pyarrow import compute

        if self.format is not None and "%" in self.format:
            return self._from_list(values.to_pylist())
        kinds = [(pa.int64(), _NUMBERS), *time_types(("us",) if self.times else ())]
        if _has_x(values) and compute.any(compute.match_substring_regex(values, "^[+-]?0[xX]")).as_py():
            kinds = []  # Arrow takes hexadecimal digits for numbers
        for kind, what in kinds:
            if self.kind not in (None, what):  # the kind of the first batch, to save failing casts
                continue
            try:
                numbers = self._complete(values, values.cast(kind))
            except pa.ArrowInvalid:
                continue
            self._is_of_kind(0, what, values[0])
            return numbers
        if self.times and (plainer := _plainer(values)) is not None and not plainer.equals(values):
            return self._from_text(plainer, values)
        return self._from_list((values if original is None else original).to_pylist())  # as messages show it

    def _complete(self, before: ArrowArray, after: ArrowArray) -> Array:
        """As an array; a missing entry is NaN where that is allowed, else an error with its row."""
        import pyarrow as pa

        if after.null_count:
            if self.times:
                row = next(i for i, v in enumerate(before.to_pylist()) if v is None)
                raise self._missing(row, None)
            after = after.cast(pa.float64(), safe=False).fill_null(math.nan)
        if pa.types.is_temporal(after.type):
            after = after.cast(pa.int64())
        array = to_numpy(after)
        if self.times and array.dtype.kind == "f" and np.isnan(array).any():
            raise self._missing(int(np.isnan(array).argmax()), "NaN")
        return array

    def _from_list(self, values: Batch) -> Array:
        texts = list(values)
        if self.times and self.order is None and not (self.format and "%" in self.format):
            orders = _order_of([text for text in texts if isinstance(text, str)])
            self.order = orders.pop() if len(orders) == 1 else None
            if self.order is None and any(_is_either(text) for text in texts):
                self._waiting.append((self.n_rows, texts))  # later rows may tell
                return np.zeros(len(texts), dtype=np.int64)
        numbers = [self._number(i, v) for i, v in enumerate(texts)]
        if all(type(v) is int and abs(v) < 2**63 for v in numbers):
            return np.array(numbers, dtype=np.int64)
        return np.array(numbers, dtype=np.float64)

    def _number(self, i: int, value: Entry) -> float:
        if value is None or (isinstance(value, str) and value in MISSING_TEXTS) or value != value:
            if self.times:
                raise self._missing(i, value)
            return math.nan
        if isinstance(value, (datetime, date)):
            value = value.isoformat()
        if isinstance(value, (int, float, Decimal)):
            self._is_of_kind(i, _NUMBERS, value)
            return value if isinstance(value, int) and abs(value) < 2**63 else _float(value)
        return self._parsed(i, value)

    def _parsed(self, i: int, value: Entry) -> float:
        if self.format is not None and "%" in self.format:
            return self._by_format(i, value)
        iso = to_iso(value, self.order) if self.times and isinstance(value, str) else None
        for convert in (_integer, _float, *((_microseconds,) if self.times else ())):
            try:
                number = convert(value if iso is None or convert is not _microseconds else iso)
            except (TypeError, ValueError):
                continue
            zoned = convert is _microseconds and datetime.fromisoformat(iso or value).tzinfo is not None
            self._is_of_kind(i, _NUMBERS if convert is not _microseconds else _ZONED if zoned else _TIMES, value)
            return float(number) if convert is _float else int(number)
        raise self._refused(i, f"found {_shown(value)}, expected {self._wanted}{self._remedy(value)}")

    def _by_format(self, i: int, value: Entry) -> int:
        assert self.format is not None
        try:
            moment = datetime.strptime(str(value), self.format)
        except ValueError:
            raise self._refused(i, f"found {_shown(value)}, expected a time of the form {self.format!r}") from None
        self._is_of_kind(i, _TIMES if moment.tzinfo is None else _ZONED, value)
        return _since_1970(moment)

    def _remedy(self, value: Entry) -> str:
        if _is_either(value):
            other = {DAY_FIRST: MONTH_FIRST, MONTH_FIRST: DAY_FIRST}.get(self.format or "")
            swapped = other is not None and to_iso(value, other) is not None
            remedy = f", or the column is {other}: time_format={other!r}" if swapped else ""
            return f": no such day and month in this order; correct the row{remedy}"
        if not self.times:
            return ""
        before = _NAMED_ZONE.split(str(value))[0]
        if before != str(value) and _recognised(before) is not None:
            return "; zones by name change with the season or stand for several: write an offset such as +01:00"
        if _CLOCK_ONLY.fullmatch(str(value)):
            return "; a time without its date: join both in one column, or keep the order of the file: time='file'"
        # No notation makes a time of text without digits.
        if not any(character.isdigit() for character in str(value)):
            return "; name the column of times: time='COLUMN', or keep the order of the file: time='file'"
        return "; name the notation: time_format='%d/%m/%Y %H:%M'"

    def _is_of_kind(self, i: int, kind: str, value: Entry) -> None:
        """Refuse a time of another kind than earlier ones, since they cannot be ordered."""
        if self.times and self.kind not in (None, kind):
            raise self._refused(i, f"found {_shown(value)} among {self.kind}; write all times in the same way")
        self.kind = kind

    def _refused(self, i: int, what: str) -> ValueError:
        return ValueError(f"{self.source}: {self._place(i)}, column {self.name!r}: {what}")

    def _place(self, i: int) -> str:
        return self.place(self.n_rows + i + 1)

    @property
    def holds_times(self) -> bool:
        """Whether its numbers are microseconds rather than the user's values."""
        return self.kind in (_TIMES, _ZONED) or (self.format in _UNITS and self.kind == _NUMBERS)

    @property
    def _wanted(self) -> str:
        return NUMBERS_OR_TIMES if self.times else "numbers; correct or remove the row"

    def _missing(self, i: int, value: Entry) -> ValueError:
        if self.times:
            values = {"place": self._place(i), "column": self.name, "value": _shown(value)}
            return ValueError(Note("missing-time", self.source, **values))
        return self._refused(i, f"the entry is missing ({_shown(value)}); fill it in or remove the row")

    def _settle(self) -> None:
        """Read the batches whose dates could be read in two ways, in the order that other rows prove."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        if self.order is None:
            orders = _order_of([text for _, texts in waiting for text in texts if isinstance(text, str)])
            if len(orders) != 1:
                shown = next(text for text in waiting[0][1] if _is_either(text))
                raise ValueError(Note("day-or-month", self.source, column=self.name, example=shown))
            (self.order,) = orders
        n_rows, settled = self.n_rows, {}
        for begin, texts in waiting:
            self.n_rows = begin
            settled[begin] = self._from_list(texts)
        self.n_rows = n_rows
        self.replace(np.concatenate([settled.get(begin, piece) for begin, piece in self._batches()]))

    def replace(self, values: Array) -> None:
        """Put others in the place of all rows."""
        self._values = Growing()
        self._values.append(values)
        self._bases = [(len(values), 0)]

    def _batches(self) -> Iterator[tuple[int, Array]]:
        begin = 0
        for end, base in self._bases:
            piece = self._values.values[begin:end]
            yield begin, piece.astype(np.int64) + base if piece.dtype.kind == "i" else piece + base
            begin = end

    def pieces(self) -> Iterator[Array]:
        """The rows, batch by batch."""
        self._settle()
        return (piece for _, piece in self._batches())

    def finish(self) -> Array:
        """All rows: int64 if every batch is, float64 otherwise; they are not kept."""
        pieces = list(self.pieces())
        self.release()
        return np.concatenate(pieces) if pieces else np.empty(0)

    def release(self) -> None:
        """Forget the rows."""
        self._values, self._bases = Growing(), []

    def floats(self) -> Floats:
        """All rows as floats."""
        return self.finish().astype(np.float64)


class FlagColumn(NumberColumn):
    """A column of truth values: booleans, 0 and 1, or yes and no."""

    def _from_arrow(self, values: ArrowArray) -> Array:
        return self._from_list(values.to_pylist())

    def _number(self, i: int, value: Entry) -> float:
        truth = _TRUTH.get(str(value).strip().lower().removesuffix(".0"))
        if truth is None:
            raise ValueError(
                f"{self.source}: {self._place(i)}, column {self.name!r}: found {_shown(value)}, expected true or false"
            )
        return int(truth)


def _has_x(values: ArrowArray) -> bool:
    """Whether there is an x in the texts, or in what is stored next to them."""
    data = values.buffers()[2]
    letters = np.frombuffer(b"" if data is None else data, dtype=np.uint8)
    return bool(((letters | 32) == ord("x")).any())


def _plainer(values: ArrowArray) -> ArrowArray | None:
    """Year first with slashes, and UTC in words, as Arrow reads them: converted without a loop over rows."""
    from pyarrow import compute

    if values.null_count or not compute.all(compute.match_substring_regex(values, r"^\d{4}[/-]\d\d[/-]\d\d")).as_py():
        return None
    dashed: ArrowArray = compute.replace_substring(values, "/", "-", max_replacements=2)
    return compute.replace_substring_regex(dashed, r"\s*(UTC|GMT)$", "Z")  # type: ignore[no-any-return]


def _is_either(text: Entry) -> bool:
    """Whether day and month could be exchanged in a date."""
    moment = _recognised(text) if isinstance(text, str) else None
    return moment is not None and moment.either


def _integer(text: str) -> int:
    number = int("" if "_" in text or len(text) > 30 else text)
    if abs(number) >= 2**63:
        raise ValueError
    return number


def _float(number: Entry) -> float:
    """As a float, infinity if it is too large; underscores are not accepted."""
    try:
        return float("" if isinstance(number, str) and "_" in number else number)
    except OverflowError:
        return math.inf


def _microseconds(text: str) -> float:
    return _since_1970(datetime.fromisoformat(text))


def _since_1970(moment: datetime) -> int:
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (zoned - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _shown(value: Entry) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


# --- Numbers since 1970, recognised by their size when periods are requested

_SINCE = (("s", 1e8, 1e10), ("ms", 1e11, 1e13), ("us", 1e14, 1e16), ("ns", 1e17, 1e19))


def epoch_unit(numbers: Array) -> str | None:
    """The unit of numbers since 1970, from 1973 to 2286; None if they are too small or too large for every unit.

    Examples
    --------
    >>> epoch_unit(np.array([1.7e9, 1.8e9])), epoch_unit(np.array([1_700_000_000_123])), epoch_unit(np.arange(3))
    ('s', 'ms', None)
    """
    if not len(numbers):
        return None
    low, high = float(numbers.min()), float(numbers.max())
    return next((unit for unit, least, most in _SINCE if least <= low and high < most), None)


def moments(column: NumberColumn, values: Array) -> tuple[NDArray[np.int64] | None, str | None]:
    """The rows of a column of times as microseconds, and the unit if they are numbers since 1970; None for others."""
    if column.holds_times:
        return np.asarray(values).astype(np.int64), None
    unit = epoch_unit(values)
    return (None, None) if unit is None else (column._scaled(values, _UNITS[unit]), unit)


def with_times(table: ArrowTable, source: str, name: str | None, time_format: str | None) -> ArrowTable:
    """A part of a stream with its column of times read, in this notation or a recognised one, if it is text.

    Each part is read by itself, so ``day-first`` or ``month-first`` has to say what single rows leave open.
    """
    import pyarrow as pa

    if name is None or not table.num_rows or table.schema.field(name).type != pa.string():
        return table
    column = NumberColumn(source, name, times=True, time_format=time_format)
    try:
        column.add(table.column(name).combine_chunks())
        values = column.floats()
    except ValueError as error:  # a broken line, which the caller finds and reports
        raise pa.ArrowInvalid(str(error).partition(": ")[2]) from None
    times = values.astype(np.int64) if column.holds_times else values
    kind = pa.timestamp("us") if column.holds_times else pa.float64()
    return table.set_column(table.schema.get_field_index(name), name, pa.array(times, kind))


def micros(time: object) -> int | None:
    """A time as microseconds since 1970, from ISO text or a number in s, ms, us or ns."""
    if isinstance(time, bool) or time is None:
        return None
    if isinstance(time, str) and not time.strip().isdigit():
        try:
            moment = datetime.fromisoformat(time)
        except ValueError:
            return None
        return _since_1970(moment)
    try:
        number = float(time)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    unit = next((name for name, low, high in _SINCE if low <= number < high), None)
    return None if unit is None else int(number * _UNITS[unit])
