"""The roles of columns; columns of labels, collected batch by batch as codes, so that no batch is kept."""

from __future__ import annotations

import contextlib
import math
import unicodedata
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Protocol, TypeGuard
from uuid import UUID

import numpy as np

from somcot.plumbing.arrays import Ints
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note
from somcot.readers.tables import Array, ArrowArray, ArrowType, Batch, Entry, to_arrow, to_numpy
from somcot.readers.xes import ACTIVITY, CASE, TIME

__all__ = [
    "MISSING_TEXTS", "USUAL", "ColumnNames", "ColumnRoles", "Growing", "LabelColumn", "RunColumn", "check_present",
    "folded", "is_arrow", "is_whole", "plain", "texts_of", "usual_column",
]  # fmt: skip


# --- The roles of columns: as named by the user, or by default names

# Usual names of columns, compared as `folded`; the first in a table is used. Visitors come last: sessions are shorter.
USUAL = {
    "state": (
        "state", ACTIVITY, "activity", "activity_name", "activity_en", "event", "event_name", "event_type", "action",
        "page", "page_name", "screen_name", "activity_id", "zustand", "aktivität", "ereignis", "actividad", "evento",
        "activité", "événement", "atividade", "attività", "activiteit",
    ),
    "sequence": (
        "sequence", "episode", "trajectory", CASE, "case_id", "case_key", "case", "session_id", "session",
        "sequence_id", "trajectory_id", "episode_id", "visit_id", "trace_id", "conversation_id", "thread_id",
        "ticket_id", "incident_id", "order_id", "patient_id", "fall_id", "vorgang", "sitzung", "caso", "id_caso",
        "id_cas", "sesión", "sessão", "sessione", "visitor_id", "full_visitor_id", "user_pseudo_id",
    ),
    "time": (
        "time", "timestamp", "step", TIME, "start_timestamp", "complete_timestamp", "event_time", "event_timestamp",
        "datetime", "created_at", "occurred_at", "ts", "start_time", "date", "zeit", "zeitstempel", "zeitpunkt",
        "datum", "fecha", "fecha_hora", "horodatage", "data_hora", "tijdstip",
    ),
}  # fmt: skip
_SILENT = {"state", "sequence", "episode", "trajectory", "time", "timestamp", "step", ACTIVITY, CASE, TIME}
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
    time_format: str | None = None
    more: tuple[str, ...] = ()  # columns that form groups or attributes of sequences

    @property
    def wanted(self) -> list[str]:
        """Every column that must be read, without repetition."""
        others = (self.sequence, self.time, self.reward, self.terminated, *self.more)
        return list(dict.fromkeys([*self.state, *(name for name in others if name is not None)]))

    def among(self, header: ColumnNames) -> ColumnRoles:
        """The same roles with usual names for columns that were not named; each must occur exactly once."""
        states = self.state
        if not states:
            state = usual_column(header, "state") or (header.columns[0] if len(header.columns) == 1 else None)
            if state is None:
                graph = {"source", "target"} <= {name.lower() for name in header.columns}
                hint = "; for the edges of a graph, remove this line and let the name end in .edges" if graph else ""
                raise ValueError(Note("no-state-column", header.name, columns=_listed(header.columns) + hint))
            states = (state,)
        sequence = usual_column(header, "sequence") if self.sequence is None else self.sequence
        time = usual_column(header, "time") if self.time is None else self.time
        roles = replace(
            self,
            state=states,
            # A column that was chosen by its name must not have two roles.
            sequence=sequence if sequence not in states or self.sequence is not None else None,
            time=None if time == _IN_ORDER or (self.time is None and time in (*states, sequence)) else time,
        )
        check_present(header, roles.wanted)
        _tell(header, self, roles)
        return roles


def usual_column(header: ColumnNames, role: str) -> str | None:
    """The column of a table that has a usual name for a role, if any; formats may know it.

    Examples
    --------
    >>> from somcot.readers.tables.csv_stream import Header
    >>> usual_column(Header("log.csv", ["Case ID", "Activity"], ","), "sequence")
    'Case ID'
    """
    defaults: Mapping[str, str] = getattr(header, "defaults", {})
    if role in defaults:
        return defaults[role]
    exact = next((name for name in USUAL[role] if name in header.columns), None)
    # Reversed, so that of equal names the first wins.
    known = {folded(name): name for name in reversed(header.columns)}
    return exact or next((known[folded(name)] for name in USUAL[role] if folded(name) in known), None)


def folded(name: str) -> str:
    """The letters and digits of a name, regardless of case and accents."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKD", name.casefold())))


def _tell(header: ColumnNames, asked: ColumnRoles, roles: ColumnRoles) -> None:
    """Report the columns that were chosen by name, unless these are the names of the roles."""
    chosen = {
        "state": None if asked.state else roles.state[0],
        "sequence": None if asked.sequence else roles.sequence,
        "time": None if asked.time else roles.time,
    }
    named = {role: name for role, name in chosen.items() if name is not None}
    # Columns with the names of their roles need no report.
    if getattr(header, "defaults", None) or len(header.columns) == 1 or set(named.values()) <= _SILENT:
        return
    listed = ", ".join(f"{role} {name!r}" for role, name in named.items())
    warn(Note("columns-chosen", header.name, columns=listed), DataWarning)


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

MISSING_TEXTS = {"", "nan", "NaN", "null", "NULL", "<NA>"}


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
            return texts_of([None if v is None else str(UUID(bytes=v)) for v in values.storage.to_pylist()])
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
    return texts_of([None if span is None else str(span) for span in spans])


def texts_of(texts: list[str | None]) -> ArrowArray:
    """An Arrow array of texts."""
    import pyarrow as pa

    array: ArrowArray = pa.array(texts, pa.string())
    return array


class Growing:
    """An array that grows at its end; kept in one piece, since thousands of small ones would scatter over the memory.

    Integers are kept in the narrowest type that holds all of them.
    """

    def __init__(self) -> None:
        self._room: Array = np.empty(0, dtype=np.int8)
        self.n = 0

    def append(self, part: Array) -> None:
        """Add the numbers of a part."""
        kind = np.promote_types(self._room.dtype, _narrowest(part))
        if kind != self._room.dtype or self.n + len(part) > len(self._room):
            # Half as much again, so that copying takes linear time in total.
            room = np.empty(max(int(1.5 * self.n), self.n + len(part), 1 << 16), dtype=kind)
            room[: self.n] = self._room[: self.n]
            self._room = room
        self._room[self.n : self.n + len(part)] = part
        self.n += len(part)

    @property
    def values(self) -> Array:
        """The numbers so far."""
        return self._room[: self.n]


def _narrowest(part: Array) -> np.dtype[Any]:
    if part.dtype.kind != "i" or not len(part):
        return np.dtype(np.int8) if not len(part) else part.dtype
    low, high = int(part.min()), int(part.max())
    kinds = (np.int8, np.int16, np.int32)
    return np.dtype(next((k for k in kinds if np.iinfo(k).min <= low and high <= np.iinfo(k).max), np.int64))


class LabelColumn:
    """A column of labels: each distinct label gets the next code, missing ones get -1.

    Measurements are refused, unless the labels are no states (`is_state`).
    """

    def __init__(self, source: str, name: str, *, is_text: bool, is_state: bool = True) -> None:
        self.source, self.name, self.is_text, self.is_state = source, name, is_text, is_state
        self.index: dict[Hashable, int] = {}
        self._codes = Growing()

    def add(self, values: Batch) -> None:
        """Add one batch."""
        self._codes.append(self.coded(values))

    def coded(self, values: Batch) -> Array:
        """The codes of one batch, which is not kept; labels get codes in the order in which they come."""
        return self._from_arrow(values) if is_arrow(values) else self._from_list(values)

    def _from_list(self, values: Batch) -> Array:
        index = self.index
        try:
            # A code for every distinct label in one pass; sorting waits until all are known.
            codes = [index.setdefault(v, len(index)) for v in values]
        except TypeError:
            kind = next(type(v).__name__ for v in values if isinstance(v, (list, dict)))
            raise _nested(self.source, self.name, kind, f"a {kind}") from None
        return np.array(codes, dtype=_code_type(len(index)))

    def _from_arrow(self, values: ArrowArray) -> Array:
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
        places = to_numpy(indices.drop_null() if indices.null_count else indices)
        if len(places) and (places.max() >= len(codes) or places.min() < 0):
            raise ValueError(f"{self.source}: column {self.name!r} is damaged (codes without labels); write it again")
        if indices.null_count:
            # A missing entry is one more label, which `ranked` maps to -1.
            codes = np.append(codes, self._from_list([None]))
            places = to_numpy(indices.cast(pa.int64()).fill_null(len(codes) - 1))
        row_codes: Array = codes[places]
        return row_codes

    def _encoded(self, values: ArrowArray) -> ArrowArray:
        import pyarrow as pa

        try:
            return values.dictionary_encode()
        except pa.ArrowNotImplementedError:
            raise ValueError(
                f"{self.source}: column {self.name!r} holds {values.type}, which cannot be labels; convert it to text"
            ) from None

    def finish(self) -> tuple[Array, list[Hashable]]:
        """Codes of all rows, -1 if missing, and the labels, sorted if possible."""
        places, order = self.ranked()
        codes, self._codes = self._codes.values, Growing()
        return places[codes], order

    def ranked(self) -> tuple[Array, list[Hashable]]:
        """The final place of each code, -1 if it stands for a missing entry, and the labels."""
        labels = self._clean()
        kept = [label for label in labels if label is not None]
        try:
            order: list[Entry] = sorted(set(kept))
        except TypeError:
            order = list(dict.fromkeys(kept))
        rank = {label: i for i, label in enumerate(order)}
        places = [-1 if label is None else rank[label] for label in labels]
        return np.array(places or [-1], dtype=_code_type(len(order))), order

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
            # One fraction among floats is enough: floats as labels are integers with missing values.
            self._refuse_fractions([v for v in floats if not math.isfinite(v) or v != int(v)], 0)
            labels = [int(v) if isinstance(v, (float, Decimal)) and v == int(v) else v for v in labels]
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
        if self.is_state and fractions and len(fractions) >= n_labels // 2:
            raise ValueError(Note("measurements", self.source, column=self.name, example=str(fractions[0])))


def _code_type(n: int) -> type[np.signedinteger]:
    """The narrowest type for codes below n, one more for an added end, and -1."""
    return np.int8 if n < 127 else np.int16 if n < 32_767 else np.int32


class RunColumn:
    """A column that names the sequence of each row: every run of equal names is kept once, with its length.

    Sequences are usually recorded one after another, so there are far fewer runs than rows.
    """

    def __init__(self, source: str, name: str, *, is_text: bool, place: Callable[[int], str]) -> None:
        self.source, self.name, self.is_text, self.place = source, name, is_text, place
        self.n_rows = 0
        self._begins = Growing()
        self._numbers = Growing()  # names of runs, as long as they are integers
        self._texts: list[ArrowArray] | None = None  # otherwise, if they are text
        self._others: LabelColumn | None = None  # otherwise
        self._last: object = None  # name of the last run
        self._code = -1  # or its code among the others
        self._blank = 0, 0  # rows without a name: the first, counted from 1, and their number

    def add(self, values: Batch) -> None:
        """Add one batch."""
        n = len(values)
        if not n:
            return
        if is_arrow(values):
            values = plain(values)
        if self._others is None and is_arrow(values) and _is_name(values.type):
            begins = self._named(values)
        else:
            begins = self._other(values)
        self._begins.append(begins + self.n_rows)
        self.n_rows += n

    def _named(self, values: ArrowArray) -> Ints:
        import pyarrow as pa

        coded = pa.types.is_dictionary(values.type)
        keys = values.indices if coded else values
        if keys.null_count:
            raise self._missing(self.n_rows + keys.to_pylist().index(None), keys.null_count)
        begins = _run_begins(keys)
        places = to_arrow(begins)
        names = values.dictionary.take(values.indices.take(places)) if coded else values.take(places)
        first, last = names.slice(0, 1).to_pylist()[0], names.slice(len(names) - 1).to_pylist()[0]
        # A run may continue from one batch to the next.
        if self.n_rows and first == self._last:
            names, begins = names.slice(1), begins[1:]
        self._last = last
        self._keep(names)
        if self._texts is not None:
            self._note_blanks(names, begins, len(values))
        return begins

    def _keep(self, names: ArrowArray) -> None:
        """Names as integers if all of them are; 10 comes after 9."""
        import pyarrow as pa

        if self._texts is None:
            # Distinct numbers stay distinct, although large ones change their sign.
            if str(names.type) == "uint64":
                self._numbers.append(to_numpy(names).astype(np.int64))
                return
            with contextlib.suppress(pa.ArrowInvalid):
                numbers = names.cast(pa.int64())
                if pa.types.is_integer(names.type) or (self.is_text and numbers.cast(names.type).equals(names)):
                    self._numbers.append(to_numpy(numbers))
                    return
            before = self._numbers.values
            self._texts = [to_arrow(before.astype(np.int64)).cast(pa.string())] if len(before) else []
        self._texts.append(names.cast(pa.string()))

    def _note_blanks(self, names: ArrowArray, begins: Ints, n: int) -> None:
        import pyarrow as pa
        from pyarrow import compute

        kinds = pa.array(sorted(MISSING_TEXTS), names.type)
        blank = to_numpy(compute.is_in(compute.utf8_trim_whitespace(names), kinds))
        if blank.any():
            lengths = np.diff(begins, append=n)
            first = self._blank[0] or self.n_rows + int(begins[blank.argmax()]) + 1
            self._blank = first, self._blank[1] + int(lengths[blank].sum())

    def _other(self, values: Batch) -> Ints:
        if self._others is None:
            if self.n_rows:
                raise ValueError(f"{self.source}: column {self.name!r} changes its type between parts; use one type")
            self._others = LabelColumn(self.source, self.name, is_text=self.is_text)
        codes = self._others.coded(values)
        begins = np.flatnonzero(np.diff(codes.astype(np.int64), prepend=self._code))
        self._numbers.append(codes[begins])
        self._code = int(codes[-1])
        return begins

    def finish(self) -> tuple[Array, Array]:
        """For each run the rank of its name, and its first row."""
        begins, codes = self._begins.values, self._numbers.values
        if self._others is not None:
            codes = self._others.ranked()[0].astype(np.int64)[codes]
            missing = codes < 0
            if missing.any():
                lengths = np.diff(begins, append=self.n_rows)
                raise self._missing(int(begins[missing.argmax()]), int(lengths[missing].sum()))
        if self._blank[1]:
            raise self._missing(self._blank[0] - 1, self._blank[1])
        return (codes if self._texts is None else _ranks(self._texts)), begins

    def _missing(self, row: int, n: int) -> ValueError:
        return ValueError(
            f"{self.source}: {self.place(row + 1)}, column {self.name!r}: the entry is missing ({n} such rows); name "
            "the sequence of the row, or remove it"
        )


def _ranks(parts: list[ArrowArray]) -> Ints:
    """The ranks of texts among the distinct ones."""
    import pyarrow as pa
    from pyarrow import compute

    names = pa.concat_arrays(parts)
    # Ascending names are distinct, so no dictionary is needed.
    if len(names) < 2 or compute.all(compute.greater(names.slice(1), names.slice(0, len(names) - 1))).as_py():
        return np.arange(len(names))
    coded = names.dictionary_encode()
    order = to_numpy(compute.array_sort_indices(coded.dictionary))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    ranks: Ints = rank[to_numpy(coded.indices)]
    return ranks


def _is_name(kind: ArrowType) -> bool:
    import pyarrow as pa

    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value) or pa.types.is_integer(value))


def _run_begins(values: ArrowArray) -> Ints:
    """The rows at which a run of equal entries begins."""
    import pyarrow as pa
    from pyarrow import compute

    if pa.types.is_integer(values.type):
        numbers = to_numpy(values)
        changed = numbers[1:] != numbers[:-1]
    else:
        changed = to_numpy(compute.not_equal(values.slice(1), values.slice(0, len(values) - 1)))
    return np.append(0, np.flatnonzero(changed) + 1)


def _nested(source: str, column: str, kind: str, shown: str) -> ValueError:
    """Refuse a column of lists, which may be vectors, or of other values that are not labels."""
    if "list" in kind:
        return ValueError(Note("nested-column", source, column=column, kind=shown))
    return ValueError(f"{source}: column {column!r} holds {shown}, expected text or numbers; pick another column")


def _is_missing(label: object) -> bool:
    return label is None or label != label or (isinstance(label, str) and label.strip() in MISSING_TEXTS)


def is_whole(text: str) -> bool:
    """Whether a label is an integer in standard form: 7 and -7, not 07 or 7.0."""
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and str(int(text)) == text if len(text) < 19 else False


def _is_fraction(text: str) -> bool:
    try:
        return not float(text).is_integer()
    except (ValueError, OverflowError):
        return False
