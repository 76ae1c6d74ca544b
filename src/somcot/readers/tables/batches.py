"""Tables as batches of columns: frames, CSV files, wide tables, and other formats by the modules that know them."""

from __future__ import annotations

import contextlib
import csv
import importlib
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any, TypeGuard

from somcot.plumbing.checks import check_text, not_sparse
from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note
from somcot.readers.opening import Input, identify, open_bytes, open_parts
from somcot.readers.tables import LONGEST_LINE, ArrowTable, Batch, Entry, FileOptions, Frame, Rows, Table
from somcot.readers.tables.csv_stream import Header, csv_options, explain
from somcot.readers.tables.file_tables import open_file_table
from somcot.readers.xes import open_log

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = [
    "arrow",
    "as_utf8",
    "is_frame",
    "open_frame",
    "open_table",
]


# --- Tables in memory or lazy: pandas and polars frames, relations, any Arrow stream

_STREAMS = ("__arrow_c_stream__", "__arrow_c_array__", "scanner", "collect_schema")


def is_frame(data: object) -> bool:
    """Whether an object has columns: an Arrow stream, a mapping, an Arrow dataset or a lazy frame."""
    return isinstance(data, Mapping) or any(hasattr(data, name) for name in _STREAMS) or hasattr(data, "collect")


@contextlib.contextmanager
def open_frame(data: Frame) -> Iterator[Table]:
    """Open a frame; if columns can be selected, only the requested ones are converted."""
    name = f"{type(data).__module__.split('.')[0]} {type(data).__name__}"
    with _named(name):
        yield _table(name, data)


def _table(name: str, data: Frame) -> Table:
    import pyarrow as pa

    if hasattr(data, "collect_schema") and hasattr(data, "collect"):  # a polars LazyFrame
        columns = data.collect_schema().names()
        # Selected before it is collected, so that polars reads only these columns.
        return _chosen(name, columns, lambda wanted: _exportable(name, data.select(list(wanted)).collect()))
    if hasattr(data, "select") and type(data).__module__.startswith("polars"):
        return _chosen(name, list(data.columns), lambda wanted: _exportable(name, data.select(list(wanted))))
    if hasattr(data, "scanner") and hasattr(data, "schema"):  # an Arrow dataset
        return _chosen(name, list(data.schema.names), lambda wanted: data.scanner(columns=list(wanted)).to_reader())
    if hasattr(data, "iloc") and hasattr(data, "columns"):  # pandas: columns that are not requested may hold anything
        # Reversed, so that of equal names the first column is used.
        known = {str(column): column for column in reversed(list(data.columns))}
        return _chosen(name, [str(c) for c in data.columns], lambda wanted: data[[known[c] for c in wanted]])
    if isinstance(data, Mapping):
        data = pa.table(dict(data))
    elif not hasattr(data, "__arrow_c_stream__"):
        data = _collected(data) if hasattr(data, "collect") else pa.Table.from_batches([pa.record_batch(data)])
    reader = data.to_reader() if hasattr(data, "to_reader") else pa.RecordBatchReader.from_stream(data)
    objects = _object_columns(data)
    return Table(name, list(reader.schema.names), False, lambda wanted: _batches(name, reader, wanted, objects))


def _chosen(name: str, columns: list[str], select: Callable[[Sequence[str]], Frame]) -> Table:
    """A table whose columns can be selected individually."""

    def batches(wanted: Sequence[str]) -> Iterator[Rows]:
        import pyarrow as pa

        frame = select(wanted)
        try:
            reader = frame if isinstance(frame, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(frame)
        except (pa.ArrowException, TypeError) as error:
            # Arrow does not say which column failed, so each is tried alone.
            column = next((c for c in wanted if _fails(select([c]))), wanted[0])
            raise ValueError(f"{name}: column {column!r} {_words(error)}") from None
        for batch in _batches(name, reader, reader.schema.names, _object_columns(frame)):
            # By position: selection may have renamed columns to text.
            yield dict(zip(wanted, batch.values(), strict=False))

    return Table(name, columns, False, batches)


def _fails(frame: Frame) -> bool:
    """Whether Arrow cannot convert a frame; for polars' objects it would use the addresses."""
    import pyarrow as pa

    try:
        pa.RecordBatchReader.from_stream(frame)
    except (pa.ArrowException, TypeError):
        return True
    return False


def _words(error: Exception) -> str:
    first = str(error).strip().partition("\n")[0]
    return f"cannot be read ({first[:160]}); convert it to text or numbers"


def _exportable(name: str, frame: Frame) -> Frame:
    """A polars frame without 128-bit integers, which Arrow does not support: they become 64 bits wide."""
    for column, kind in dict(frame.schema).items():
        if str(kind) in ("Int128", "UInt128"):
            # `strict=False` gives nulls for numbers that do not fit, which are counted next.
            narrow = frame[column].cast(type(frame.schema[column]).from_python(int), strict=False)
            if narrow.null_count() > frame[column].null_count():
                raise ValueError(f"{name}: column {column!r} holds numbers beyond 64 bits; convert it to text")
            frame = frame.with_columns(narrow)
    return frame


def _collected(data: Frame) -> Frame:
    frame = data.collect()
    if not hasattr(frame, "__arrow_c_stream__"):
        raise TypeError(f"data: {type(data).__name__}.collect() gave {type(frame).__name__}, expected a frame")
    return frame


def _batches(name: str, reader: ArrowTable, wanted: Sequence[str], objects: set[str]) -> Iterator[Rows]:
    # Checked before the first batch; Arrow would not notice.
    for column in objects.intersection(wanted):
        raise ValueError(f"{name}: column {column!r} holds Python objects; convert it to text or numbers")
    places = {column: reader.schema.get_field_index(column) for column in wanted}
    for batch in reader:
        yield {column: batch.column(place) for column, place in places.items()}


def _object_columns(data: Frame) -> set[str]:
    """Columns of a polars frame with Python objects, which Arrow would read as the bytes of their addresses."""
    schema = getattr(data, "schema", None) if type(data).__module__.startswith("polars") else None
    return set() if schema is None else {column for column, kind in dict(schema).items() if str(kind) == "Object"}


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Add the name of the frame and a remedy to Arrow's errors about a frame in memory."""
    import pyarrow as pa

    try:
        yield
    except pa.ArrowException as error:
        raise ValueError(f"{name}: a column {_words(error)}") from None


# --- Files as batches of columns: CSV, TSV, JSON lines, Parquet, XES, and folders

_BLOCKS = (1 << 18, LONGEST_LINE)  # bytes of CSV per read, hence the longest line; more only if a line needs it
_NAMES = {"parquet": "Parquet", "arrow": "Arrow", "orc": "ORC"}


def arrow() -> ModuleType:
    """The pyarrow package, imported on use, since it takes a moment to load."""
    return importlib.import_module("pyarrow")


@contextlib.contextmanager
def open_table(data: object, *, format: str | None = None, **options: Any) -> Iterator[Table]:  # noqa: A002
    """Open a file, several files, a frame or any Arrow stream; an open table is returned unchanged.

    Parameters
    ----------
    data : Table, Input, path, sequence of paths, frame
    format : str, optional
    **options
        The fields of `FileOptions`.
    """
    chosen = FileOptions(**options)
    with contextlib.ExitStack() as stack:
        table = stack.enter_context(_opened(data, format, chosen))
        # On top of any format, since every reader returns the same kind of table.
        yield table if chosen.wide is None else widened(table, chosen.wide)


@contextlib.contextmanager
def _opened(data: object, format: str | None, options: FileOptions) -> Iterator[Table]:  # noqa: A002
    if isinstance(data, Table):
        yield data
        return
    if isinstance(data, (str, os.PathLike)) or _is_list_of_files(data):
        data = identify(data, format)
    if not isinstance(data, Input):
        if not is_frame(data):
            raise TypeError(
                f"data: found {type(data).__name__}, expected a file name, a pandas or polars frame, an Arrow table or "
                "a mapping of columns"
            )
        with open_frame(data) as table:
            yield table
        return
    if data.format == "traces":
        from somcot.readers.traces import open_traces

        # Traces open their files themselves.
        yield open_traces(data, options.state_rules)
        return

    @contextlib.contextmanager
    def opened(source: Input) -> Iterator[Table]:
        with _named_batches(source), open_bytes(source) as stream:
            yield _open_file(source, stream, options)

    if data.parts:
        yield open_parts(data, opened)
        return
    with opened(data) as table:
        yield table


def _is_list_of_files(data: object) -> TypeGuard[Sequence[str]]:
    return isinstance(data, (list, tuple)) and all(isinstance(name, (str, os.PathLike)) for name in data)


def _open_file(source: Input, stream: IO[bytes], options: FileOptions) -> Table:
    options.refuse_unused(source)
    if source.format == "xes":
        return open_log(source, stream, options.lifecycle)
    text = as_utf8(stream, options.encoding) if source.format in ("csv", "tsv", "json", "jsonl") else stream
    if source.format in ("csv", "tsv"):
        return _csv(source, text, options)
    table = _lines(source, stream, options) if source.format == "seq" else open_file_table(source, text, options)
    if table is None:
        raise ValueError(
            f"{source.name}: a {source.format} file is not a table; expected a table, an event log or traces"
        )
    batches = table.batches
    # Batches are read later, outside this function, and need their own translation of errors.
    return table._replace(batches=lambda wanted: _with_names(source, batches(wanted)))


def _with_names(source: Input, batches: Iterator[Rows]) -> Iterator[Rows]:
    with _named_batches(source):
        yield from batches


@contextlib.contextmanager
def _named_batches(source: Input) -> Iterator[None]:
    """Add the name of the file, the place and a remedy to errors of packages."""
    pa = arrow()
    try:
        yield
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{source.name}: not valid {error.encoding} at byte {error.start}; pass the right encoding"
        ) from None
    except UnicodeError as error:
        raise ValueError(f"{source.name}: not in this encoding ({error}); pass the right one") from None
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{source.name}: {_translated(source, str(error))}") from None


def _translated(source: Input, text: str) -> str:
    """Pyarrow's error in one line with a place and a remedy."""
    # Line numbers of pyarrow do not count the header.
    row, what = explain(text)
    if row is not None:
        return f"line {row + 1} has {what}; correct the line, or pass the right delimiter"
    if what.startswith("longer than"):
        return f"a line is {what}; is this really a CSV file? Check quotes and line ends"
    if what == "not valid UTF-8":
        return f"{_bad_line(source)} is {what}; pass the right encoding, such as latin-1 or cp1252"
    if source.format in _NAMES:
        name = _NAMES[source.format]
        if "crypt" in text.lower():  # the file or some columns
            return f"an encrypted {name} file ({what[:120]}); write it without encryption"
        return f"not a readable {name} file ({what[:120]}); it may be cut short: write or copy it again"
    return f"cannot be read ({what}); check the file"


def _bad_line(source: Input) -> str:
    """Find the first line that is not UTF-8, if the file can be read again."""
    # Standard input cannot be read a second time.
    if source.path is not None:
        with open_bytes(source) as stream:
            for number, line in enumerate(iter(lambda: stream.readline(LONGEST_LINE), b""), 1):
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError:
                    return f"line {number}"
    return "a line"


def _csv(source: Input, stream: IO[bytes], options: FileOptions) -> Table:
    # A .tsv file has tabs by definition; otherwise the header decides.
    mark = options.delimiter or ("\t" if source.format == "tsv" else None)
    header = Header.read(stream.readline(LONGEST_LINE + 1), source.name, mark)
    encoding = options.encoding
    return Table(source.name, header.columns, True, lambda w: _csv_batches(source, stream, header, w, encoding))


def _csv_batches(
    source: Input, stream: IO[bytes], header: Header, wanted: Sequence[str], encoding: str
) -> Iterator[Rows]:
    """All columns as text: what they hold is known only later, and converting text is fast."""
    # One byte shows whether there are any rows; it is put back in front.
    head = stream.read(1)
    if not head:
        raise ValueError(f"{source.name}: only a header, no rows; check how the file was written")
    counted, n_rows = _Prefixed(head, stream), 0
    try:
        # Standard input cannot be read again, so it gets the large block at once.
        for batch in _parsed(source, counted, header, wanted, _BLOCKS[source.path is None]):
            n_rows += batch.num_rows
            yield {name: batch.column(k) for k, name in enumerate(wanted)}
    except _LongLineError:
        with open_bytes(source) as again:
            text = as_utf8(again, encoding)
            text.readline(LONGEST_LINE + 1)
            counted = _Prefixed(b"", text)
            for batch in _parsed(source, counted, header, wanted, _BLOCKS[1]):
                # Rows that were already delivered are skipped.
                rest = batch.slice(min(n_rows, batch.num_rows))
                n_rows -= batch.num_rows - rest.num_rows
                if rest.num_rows:
                    yield {name: rest.column(k) for k, name in enumerate(wanted)}
    arrow().system_memory_pool().release_unused()
    # An odd number is possible in correct files, so it is only a reason to look closely.
    if counted.quotes % 2:
        _check_quotes(source, header.delimiter)


class _LongLineError(Exception):
    """A line is longer than a small block."""


def _parsed(
    source: Input, stream: _Prefixed, header: Header, wanted: Sequence[str], block: int
) -> Iterator[ArrowTable]:
    pa = arrow()
    from pyarrow import csv as pacsv

    options = csv_options(header, dict.fromkeys(wanted, pa.string()), block)
    with _named_batches(source):
        try:
            # The system's allocator returns memory at once, which keeps the peak low.
            pool = pa.system_memory_pool()
            yield from pacsv.open_csv(pa.PythonFile(stream, mode="r"), **options, memory_pool=pool)
        except pa.ArrowInvalid as error:
            if "straddl" in str(error) and block < LONGEST_LINE:
                raise _LongLineError from None
            raise


def _check_quotes(source: Input, mark: str) -> None:
    """Refuse a quotation mark that is never closed: all rows after it would silently become one field.

    Marks within a field, as in 5" pipe, are allowed, so an odd number of marks proves nothing.
    """
    if source.path is None:
        warn(Note("odd-quotes", source.name), DataWarning)
        return
    with open_bytes(source) as stream:
        # Undecodable bytes do not matter here: only quotation marks do.
        lines = io.TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="")
        rows = csv.reader(lines, delimiter=mark, strict=True)
        try:
            for _ in rows:
                pass
        except csv.Error as error:
            if "unexpected end of data" in str(error):
                last = rows.line_num
                raise ValueError(
                    f"{source.name}: a quotation mark is opened and never closed (line {last} is the last); correct it"
                ) from None
        finally:
            # Otherwise the wrapper would close the stream, which the `with` closes too.
            lines.detach()


class _Prefixed(io.RawIOBase):
    """A stream with a few bytes prepended, which counts quotation marks while reading."""

    def __init__(self, head: bytes, stream: IO[bytes]) -> None:
        self._head, self._stream, self.quotes = head, stream, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        head, self._head = self._head, b""
        data = head + self._stream.read(max(size - len(head), 0) if size >= 0 else -1)
        self.quotes += data.count(b'"')
        return data


def as_utf8(stream: IO[bytes], encoding: str) -> IO[bytes]:
    """The same text in UTF-8, converted from its encoding."""
    if check_text("encoding", encoding).lower().replace("_", "-") in ("utf-8", "utf8"):
        return stream
    try:
        text = io.TextIOWrapper(stream, encoding=encoding, newline="")
    except LookupError:
        raise ValueError(f"encoding: {encoding!r} is unknown; try utf-8, latin-1, cp1252 or utf-16") from None
    return io.BufferedReader(_Recoded(text))


class _Recoded(io.RawIOBase):
    def __init__(self, text: io.TextIOWrapper) -> None:
        self._text = text
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        if not self._left:
            # A multiple of characters may be more bytes than the buffer holds; the rest is kept.
            self._left = self._text.read(1 << 16).encode("utf-8")
        view = memoryview(buffer)
        n = min(len(view), len(self._left))
        view[:n], self._left = self._left[:n], self._left[n:]
        return n


# --- A sequence per line, and wide tables: a row for each sequence


def _lines(source: Input, stream: IO[bytes], options: FileOptions) -> Table:
    """A sequence per line, its states separated by blanks or a delimiter; lines that begin with % or # are comments."""

    def batches(wanted: Sequence[str]) -> Iterator[Rows]:
        sequence: list[int] = []
        state: list[str] = []
        for number, line in enumerate(iter(lambda: stream.readline(LONGEST_LINE + 1), b""), 1):
            if len(line) > LONGEST_LINE:
                raise ValueError(f"{source.name}: line {number} is longer than {LONGEST_LINE >> 20} MB")
            text = line.decode(options.encoding).strip()
            if not text or text[0] in "%#":
                continue
            # By line: a line of one state has no delimiter at all.
            mark = options.delimiter or next((sign for sign in "\t;," if sign in text), None)
            states = [part.strip() for part in text.split(mark)]
            sequence += [number] * len(states)
            state += states
            # Batches bound the memory, not the lengths of sequences.
            if len(state) >= 1 << 16:
                yield _of_lines(wanted, sequence, state)
                sequence, state = [], []
        if state:
            yield _of_lines(wanted, sequence, state)

    return Table(source.name, ["sequence", "state"], True, batches, defaults={"sequence": "sequence", "state": "state"})


def _of_lines(wanted: Sequence[str], sequence: list[int], state: list[str]) -> Rows:
    both: dict[str, list[Any]] = {"sequence": sequence, "state": state}
    return {name: both[name] for name in wanted}


_VOID = ("", "*", "%", "NA", "nan", "NaN")  # cells after the end of a sequence


def widened(table: Table, wide: str | Sequence[str]) -> Table:
    """A table with a row for each sequence as one with a row for each state.

    Parameters
    ----------
    table : Table
    wide : str or sequence of str
        The columns with the states in order: names, or "FIRST:LAST"; other columns are repeated.
    """
    columns = list(not_sparse("wide", wide)) if not isinstance(wide, str) else _range(table, wide)
    for name in columns:
        if name not in table.columns:
            raise ValueError(f"wide: {table.name} has no column {name!r}; name the first and the last: FIRST:LAST")
    others = [name for name in table.columns if name not in columns]
    clash = {"sequence", "state"} & set(others)
    if clash:
        raise ValueError(f"{table.name}: a wide table must not have a column {min(clash)!r} of its own; rename it")

    def batches(wanted: Sequence[str]) -> Iterator[Rows]:
        n = 0
        kept = [name for name in wanted if name in others]
        for batch in table.batches([*columns, *kept]):
            rows = list(zip(*(_entries_of(batch[name]) for name in columns), strict=True))
            # Empty cells within a sequence are missing states; only those at its end are not part of it.
            lengths = [max((k for k, v in enumerate(row, 1) if not _is_void(v)), default=0) for row in rows]
            long: dict[str, list[Entry]] = {
                "sequence": [n + i for i, m in enumerate(lengths, 1) for _ in range(m)],
                "state": [None if _is_void(v) else v for row, m in zip(rows, lengths, strict=True) for v in row[:m]],
            }
            for name in kept:
                pairs = zip(_entries_of(batch[name]), lengths, strict=True)
                long[name] = [v for v, m in pairs for _ in range(m)]
            n += len(rows)
            if long["state"]:
                yield {name: long[name] for name in wanted}

    # Cells of a row are in order, so there is no time column to look for.
    defaults = {"sequence": "sequence", "state": "state", "time": "file"}
    return Table(table.name, ["sequence", "state", *others], table.is_text, batches, defaults=defaults)


def _range(table: Table, text: str) -> list[str]:
    first, sign, last = text.partition(":")
    if not sign or first not in table.columns or last not in table.columns:
        raise ValueError(
            f"wide: found {text!r}, expected the first and the last column with states, FIRST:LAST, of "
            f"{', '.join(map(repr, table.columns[:12]))}"
        )
    begin, end = table.columns.index(first), table.columns.index(last)
    return table.columns[begin : end + 1]


def _entries_of(values: Batch) -> list[Entry]:
    return values.to_pylist() if hasattr(values, "to_pylist") else list(values)


def _is_void(value: Entry) -> bool:
    return value is None or value != value or (isinstance(value, str) and value.strip() in _VOID)
