"""The roles of columns; columns collected batch by batch as codes and arrays, so that no batch is kept."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Protocol, TypeGuard
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.arrays import Floats
from somcot.plumbing.notes import Note
from somcot.readers.opening import Array, ArrowArray, ArrowType, Batch, Entry
from somcot.readers.xes import ACTIVITY, CASE, TIME

__all__ = [
    "NUMBERS_OR_TIMES",
    "USUAL",
    "ColumnNames",
    "ColumnRoles",
    "FlagColumn",
    "LabelColumn",
    "NumberColumn",
    "check_present",
    "day_first",
    "is_arrow",
    "is_whole",
    "time_types",
]


# --- The roles of columns: as named by the user, or by default names

USUAL = {  # default names of columns; the last ones are those of event logs
    "state": ("state", ACTIVITY),
    "sequence": ("sequence", "episode", "trajectory", CASE),
    "time": ("time", "timestamp", "step", TIME),
}
_IN_ORDER = "file"  # value of `time` that means the order of the rows


class ColumnNames(Protocol):
    """Something with named columns: a `Table`, or the `Header` of a CSV file."""

    @property
    def name(self) -> str:
        """Name of the source in messages."""

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""

    @property
    def complete(self) -> bool:
        """Whether `columns` is exhaustive."""


@dataclass(frozen=True)
class ColumnRoles:
    """The roles of columns: as named by the user, then, with `among`, as present in a table.

    Examples
    --------
    >>> from somcot.readers.tables.csv_stream import Header
    >>> ColumnRoles(("page",)).among(Header("log.csv", ["user", "step", "page"], ",")).time
    'step'
    """

    state: tuple[str, ...] = ()
    sequence: str | None = None
    time: str | None = None
    reward: str | None = None
    terminated: str | None = None

    @property
    def wanted(self) -> list[str]:
        """Every column that must be read, without repetition."""
        others = (self.sequence, self.time, self.reward, self.terminated)
        return list(dict.fromkeys([*self.state, *(name for name in others if name is not None)]))

    def among(self, header: ColumnNames) -> ColumnRoles:
        """The same roles with default names for columns that were not named; each must occur exactly once."""
        states = self.state
        if not states:
            state = _usual(header, "state") or (header.columns[0] if len(header.columns) == 1 else None)
            if state is None:
                raise ValueError(Note("no-state-column", header.name, columns=_listed(header.columns)))
            states = (state,)
        roles = replace(
            self,
            state=states,
            sequence=_usual(header, "sequence") if self.sequence is None else self.sequence,
            time=_usual(header, "time") if self.time is None else None if self.time == _IN_ORDER else self.time,
        )
        check_present(header, roles.wanted)
        return roles


def _usual(header: ColumnNames, role: str) -> str | None:
    return next((name for name in USUAL[role] if name in header.columns), None)


def check_present(header: ColumnNames, wanted: Sequence[str]) -> None:
    """Refuse columns that do not exist, or exist several times."""
    for name in wanted:
        if not isinstance(name, str):
            raise TypeError(f"column names: found {name!r}, expected text")
        if header.columns.count(name) != 1 and header.complete:
            problem = "there is no column" if name not in header.columns else "there are several columns called"
            remedy = (
                "rename all but one" if name in header.columns else "name one of them, or rename it where files differ"
            )
            if "," in name and name not in header.columns:
                raise ValueError(Note("several-columns", header.name, name=repr(name), columns=_listed(header.columns)))
            raise ValueError(f"{header.name}: {problem} {name!r}; {_listed(header.columns)}; {remedy}")


def _listed(columns: list[str]) -> str:
    shown = ", ".join(repr(name[:40]) for name in columns[:12])
    return f"the columns are {shown}" + (f" and {len(columns) - 12} more" if len(columns) > 12 else "")


# --- Columns collected batch by batch

NUMBERS_OR_TIMES = "numbers or times such as 2026-05-01T12:00:00"

_NUMBERS, _TIMES, _ZONED = "numbers", "times", "times with a zone"
_DOTTED = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})([ T].*)?", re.ASCII)
_MISSING_TEXTS = {"", "nan", "NaN", "null", "NULL", "<NA>"}
_TRUTH = {"true": True, "t": True, "yes": True, "1": True, "false": False, "f": False, "no": False, "0": False}


def is_arrow(values: object) -> TypeGuard[ArrowArray]:
    """Whether a batch is a pyarrow array rather than a list."""
    return hasattr(values, "null_count")


def plain(values: ArrowArray, *, times: bool = False) -> ArrowArray:
    """An Arrow array without extension types: a UUID as text, a bool8 as a truth value, others as stored.

    A pandas period is stored as a number that depends on its unit: it is replaced by its name, or its beginning.
    """
    import pyarrow as pa

    if isinstance(values, pa.ExtensionArray):
        name = values.type.extension_name
        if name == "arrow.uuid":
            return _texts([None if v is None else str(UUID(bytes=v)) for v in values.storage.to_pylist()])
        if name == "pandas.period":
            periods = values.to_pandas()
            names = periods.dt.start_time if times else periods.astype(str).where(periods.notna(), None)
            beginnings: ArrowArray = pa.array(names)
            return beginnings
        return values.storage.cast(pa.bool_()) if name == "arrow.bool8" else plain(values.storage)
    if pa.types.is_decimal(values.type):  # narrow decimals support few operations
        return values.cast(pa.decimal256(values.type.precision, values.type.scale))
    return values


def _as_text(values: ArrowArray) -> ArrowArray:
    """Times as formatted by Arrow; durations, which it would write as bare numbers, as formatted by Python."""
    import pyarrow as pa

    if not pa.types.is_duration(values.type):
        return values.cast(pa.string())
    spans = values.cast(pa.duration("us")).to_pylist()
    return _texts([None if span is None else str(span) for span in spans])


def _texts(texts: list[str | None]) -> ArrowArray:
    import pyarrow as pa

    array: ArrowArray = pa.array(texts, pa.string())
    return array


def time_types(units: Sequence[str]) -> list[tuple[ArrowType, str]]:
    """Arrow types of times as text, in the order in which they are tried, with their descriptions."""
    import pyarrow as pa

    zones = ((None, _TIMES), ("UTC", _ZONED))
    return [(pa.float64(), _NUMBERS), *((pa.timestamp(unit, zone), kind) for zone, kind in zones for unit in units)]


class LabelColumn:
    """A column of labels: each distinct label gets the next code, missing ones get -1."""

    def __init__(self, source: str, name: str, *, is_text: bool) -> None:
        self.source, self.name, self.is_text = source, name, is_text
        self.index: dict[Hashable, int] = {}
        self.parts: list[NDArray[np.int32]] = []

    def add(self, values: Batch) -> None:
        """Add one batch."""
        self.parts.append(self._from_arrow(values) if is_arrow(values) else self._from_list(values))

    def _from_list(self, values: Batch) -> NDArray[np.int32]:
        index = self.index
        try:
            codes = [index.setdefault(v, len(index)) for v in values]
        except TypeError:
            kind = next(type(v).__name__ for v in values if isinstance(v, (list, dict)))
            raise _nested(self.source, self.name, kind, f"a {kind}") from None
        return np.array(codes, dtype=np.int32)

    def _from_arrow(self, values: ArrowArray) -> NDArray[np.int32]:
        import pyarrow as pa

        values = plain(values)
        coded = values if pa.types.is_dictionary(values.type) else None
        kind = values.type if coded is None else values.type.value_type
        if pa.types.is_nested(kind):
            raise _nested(self.source, self.name, str(kind), str(kind))
        if coded is None:
            text = pa.types.is_temporal(kind) or pa.types.is_string_view(kind)
            coded = self._encoded(_as_text(values) if text else values)
        labels = coded.dictionary
        codes = self._from_list((_as_text(labels) if pa.types.is_temporal(labels.type) else labels).to_pylist())
        indices = coded.indices
        places = (indices.drop_null() if indices.null_count else indices).to_numpy(zero_copy_only=False)
        if len(places) and (places.max() >= len(codes) or places.min() < 0):
            raise ValueError(f"{self.source}: column {self.name!r} is damaged (codes without labels); write it again")
        if indices.null_count:
            codes = np.append(codes, self._from_list([None]))
            places = indices.cast(pa.int64()).fill_null(len(codes) - 1).to_numpy(zero_copy_only=False)
        row_codes: NDArray[np.int32] = codes[places]
        return row_codes

    def _encoded(self, values: ArrowArray) -> ArrowArray:
        import pyarrow as pa

        try:
            return values.dictionary_encode()
        except pa.ArrowNotImplementedError:
            raise ValueError(
                f"{self.source}: column {self.name!r} holds {values.type}, which cannot be labels; convert it to text"
            ) from None

    def finish(self) -> tuple[NDArray[np.int32], list[Hashable]]:
        """Codes of all rows, -1 if missing, and the labels, sorted if possible."""
        codes = np.concatenate(self.parts) if self.parts else np.empty(0, np.int32)
        self.parts = []
        labels = self._clean()
        kept = [label for label in labels if label is not None]
        try:
            order: list[Entry] = sorted(set(kept))
        except TypeError:
            order = list(dict.fromkeys(kept))
        rank = {label: i for i, label in enumerate(order)}
        table = np.array([-1 if label is None else rank[label] for label in labels] or [-1], dtype=np.int32)
        return table[codes], order

    def _clean(self) -> list[Entry]:
        """Missing labels become None; integers that were stored as text or floats become integers."""
        labels: list[Entry] = [None if _is_missing(label) else label for label in self.index]
        known = [label for label in labels if label is not None]
        if self.is_text and all(isinstance(v, str) for v in known):
            if known and all(is_whole(v) for v in known):
                return [None if v is None else int(v) for v in labels]
            self._refuse_fractions([v for v in known if _is_fraction(v)], len(known))
        floats = [v for v in known if isinstance(v, (float, Decimal))]
        if floats:
            self._refuse_fractions([v for v in floats if not math.isfinite(v) or v != int(v)], 0)
            labels = [int(v) if isinstance(v, (float, Decimal)) else v for v in labels]
        if len({bool for v in labels if isinstance(v, bool)} | {int for v in labels if type(v) is int}) == 2:
            raise ValueError(f"{self.source}: column {self.name!r} holds both truth values and numbers; use one kind")
        return self._one_type(labels)

    def _one_type(self, labels: list[Entry]) -> list[Entry]:
        texts = {v for v in labels if isinstance(v, str)}
        numbers = [v for v in labels if type(v) is int]
        if texts and numbers:
            raise ValueError(
                f"{self.source}: column {self.name!r} mixes text such as {min(texts)!r} with numbers such as "
                f"{numbers[0]!r}; write all states as text or all as numbers"
            )
        return labels

    def _refuse_fractions(self, fractions: list[Entry], n_labels: int) -> None:
        """Refuse measurements as labels: hundreds of distinct fractions would each become a state."""
        if fractions and len(fractions) >= n_labels // 2:
            raise ValueError(Note("measurements", self.source, column=self.name, example=str(fractions[0])))


class NumberColumn:
    """A column of numbers or times; integers and times stay exact."""

    def __init__(
        self, source: str, name: str, *, times: bool = False, place: Callable[[int], str] = "row {}".format
    ) -> None:
        self.source, self.name, self.times, self.place = source, name, times, place
        self.parts: list[Array] = []
        self.n_rows = 0
        self.kind: str | None = None  # of times: numbers, or times with or without a zone

    def add(self, values: Batch) -> None:
        """Add one batch."""
        part = self._from_arrow(plain(values, times=self.times)) if is_arrow(values) else self._from_list(values)
        infinite = np.isinf(part) if part.dtype.kind == "f" else np.zeros(0, dtype=np.bool_)
        if infinite.any():
            i = int(infinite.argmax())
            raise self._refused(i, f"found {part[i]}, expected finite numbers; correct or remove the row")
        self.parts.append(part)
        self.n_rows += len(part)

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
            return self._complete(values, values.cast(pa.int64()) if str(kind) != "uint64" else values)
        if pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind):
            return self._complete(values, values.cast(pa.float64(), safe=False))
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            return self._from_text(values.cast(pa.string()))
        raise ValueError(f"{self.source}: column {self.name!r} holds {kind}, expected {self._wanted}")

    def _from_text(self, values: ArrowArray) -> Array:
        import pyarrow as pa
        from pyarrow import compute

        kinds = [(pa.int64(), _NUMBERS), *time_types(("us",) if self.times else ())]
        if compute.any(compute.match_substring_regex(values, "^[+-]?0[xX]")).as_py():  # which Arrow takes for numbers
            kinds = []
        for kind, what in kinds:
            try:
                numbers = self._complete(values, values.cast(kind))
            except pa.ArrowInvalid:
                continue
            self._is_of_kind(0, what, values[0])
            return numbers
        texts = values.to_pylist()
        if self.times and (again := [text and day_first(text) for text in texts]) != texts:
            return self._from_text(_texts(again))
        return self._from_list(texts)

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
        array: Array = after.to_numpy(zero_copy_only=False)
        if self.times and array.dtype.kind == "f" and np.isnan(array).any():
            raise self._missing(int(np.isnan(array).argmax()), "NaN")
        return array

    def _from_list(self, values: Batch) -> Array:
        numbers = [self._number(i, v) for i, v in enumerate(values)]
        if all(type(v) is int and abs(v) < 2**63 for v in numbers):
            return np.array(numbers, dtype=np.int64)
        return np.array(numbers, dtype=np.float64)

    def _number(self, i: int, value: Entry) -> float:
        if value is None or (isinstance(value, str) and value in _MISSING_TEXTS) or value != value:
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
        entry = value
        if self.times and isinstance(value, str):
            value = day_first(value)
        for convert in (_integer, _float, *((_microseconds,) if self.times else ())):
            try:
                number = convert(value)
            except (TypeError, ValueError):
                continue
            zoned = convert is _microseconds and datetime.fromisoformat(value).tzinfo is not None
            self._is_of_kind(i, _NUMBERS if convert is not _microseconds else _ZONED if zoned else _TIMES, value)
            return float(number) if convert is _float else int(number)
        raise self._refused(i, f"found {_shown(entry)}, expected {self._wanted}{_ambiguous(entry)}")

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
        return self.kind in (_TIMES, _ZONED)

    @property
    def _wanted(self) -> str:
        return NUMBERS_OR_TIMES if self.times else "numbers; correct or remove the row"

    def _missing(self, i: int, value: Entry) -> ValueError:
        if self.times:
            values = {"place": self._place(i), "column": self.name, "value": _shown(value)}
            return ValueError(Note("missing-time", self.source, **values))
        return self._refused(i, f"the entry is missing ({_shown(value)}); fill it in or remove the row")

    def finish(self) -> Array:
        """All rows: int64 if every batch is, float64 otherwise."""
        parts, self.parts = self.parts, []
        return np.concatenate(parts) if parts else np.empty(0)

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


def day_first(text: str) -> str:
    """A date such as 1.5.2026, which is always day, month and year, as 2026-05-01; other texts unchanged.

    Examples
    --------
    >>> day_first("1.5.2026 12:30"), day_first("40.5.2026"), day_first("1.5")
    ('2026-05-01 12:30', '40.5.2026', '1.5')
    """
    match = _DOTTED.fullmatch(text)
    if match is None:
        return text
    try:
        return date(int(match[3]), int(match[2]), int(match[1])).isoformat() + (match[4] or "")
    except ValueError:
        return text


def _ambiguous(value: Entry) -> str:
    """A remedy for dates whose order of day and month is ambiguous."""
    if not isinstance(value, str) or re.match(r"\d+[/-]\d+[/-]\d{2,4}\b", value) is None:
        return ""
    return "; the order of day and month is ambiguous: use pandas.to_datetime(column, dayfirst=True)"


def _nested(source: str, column: str, kind: str, shown: str) -> ValueError:
    """Refuse a column of lists, which may be vectors, or of other values that are not labels."""
    if "list" in kind:
        return ValueError(Note("nested-column", source, column=column, kind=shown))
    return ValueError(f"{source}: column {column!r} holds {shown}, expected text or numbers; pick another column")


def _is_missing(label: object) -> bool:
    return label is None or label != label or (isinstance(label, str) and label.strip() in _MISSING_TEXTS)


def is_whole(text: str) -> bool:
    """Whether a label is an integer in standard form: 7 and -7, not 07 or 7.0."""
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and str(int(text)) == text if len(text) < 19 else False


def _is_fraction(text: str) -> bool:
    try:
        return not float(text).is_integer()
    except (ValueError, OverflowError):
        return False


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
    moment = datetime.fromisoformat(text)
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int(zoned.timestamp() * 1e6)


def _shown(value: Entry) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
