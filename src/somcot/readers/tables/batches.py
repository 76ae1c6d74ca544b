"""Tables as batches of columns: CSV, TSV, JSON lines, Parquet and XES files, folders of them, frames."""

from __future__ import annotations

import contextlib
import csv
import importlib
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import IO

from somcot.plumbing.errors import DataWarning, warn
from somcot.plumbing.notes import Note
from somcot.readers.opening import (
    ArrowTable,
    Batch,
    Entry,
    Frame,
    Input,
    Rows,
    Table,
    as_utf8,
    identify,
    open_bytes,
    open_folder,
    whole,
)
from somcot.readers.tables.columns import is_arrow
from somcot.readers.tables.csv_stream import LONGEST_LINE, Header, csv_options, explain
from somcot.readers.xes import open_log

__all__ = [
    "arrow",
    "is_arrow_integer",
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
        return _chosen(name, columns, lambda wanted: _exportable(name, data.select(list(wanted)).collect()))
    if hasattr(data, "select") and type(data).__module__.startswith("polars"):
        return _chosen(name, list(data.columns), lambda wanted: _exportable(name, data.select(list(wanted))))
    if hasattr(data, "scanner") and hasattr(data, "schema"):  # an Arrow dataset
        return _chosen(name, list(data.schema.names), lambda wanted: data.scanner(columns=list(wanted)).to_reader())
    if hasattr(data, "iloc") and hasattr(data, "columns"):  # pandas: columns that are not requested may hold anything
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
            column = next((c for c in wanted if _fails(select([c]))), wanted[0])
            raise ValueError(f"{name}: column {column!r} {_words(error)}") from None
        for batch in _batches(name, reader, reader.schema.names, _object_columns(frame)):
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

_BLOCK = LONGEST_LINE  # bytes of CSV per read, hence the longest line
_ROWS = 1 << 16
_STDIN_LIMIT = 4e9


def arrow() -> ModuleType:
    """The pyarrow package, imported on use, since it takes a moment to load."""
    return importlib.import_module("pyarrow")


@contextlib.contextmanager
def open_table(
    data: object,
    *,
    format: str | None = None,  # noqa: A002
    encoding: str = "utf-8",
    delimiter: str | None = None,
    lifecycle: str | None = None,
) -> Iterator[Table]:
    """Open a file, a folder of files, a frame or any Arrow stream; an open table is returned unchanged."""
    if isinstance(data, Table):
        yield data
        return
    if isinstance(data, (str, os.PathLike)):
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

    @contextlib.contextmanager
    def opened(source: Input) -> Iterator[Table]:
        with _named_batches(source), open_bytes(source) as stream:
            yield _open_file(source, stream, encoding, delimiter, lifecycle)

    if data.path is not None and data.path.is_dir():
        yield open_folder(data.path, lambda path, kind: opened(Input(str(path), kind, path)))
        return
    with opened(data) as table:
        yield table


def is_arrow_integer(values: Batch) -> bool:
    """Whether a batch is an Arrow array of integers."""
    return is_arrow(values) and bool(arrow().types.is_integer(values.type))


def _open_file(source: Input, stream: IO[bytes], encoding: str, delimiter: str | None, lifecycle: str | None) -> Table:
    if source.format == "xes":
        return open_log(source, stream, lifecycle)
    if source.format == "parquet":
        return _parquet(source, stream)
    if source.format == "jsonl":
        return _json_lines(source, as_utf8(stream, encoding))
    if source.format in ("csv", "tsv"):
        return _csv(source, as_utf8(stream, encoding), delimiter)
    raise ValueError(
        f"{source.name}: a {source.format} file is not a table; expected CSV, TSV, Parquet, JSON lines or XES"
    )


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
    row, what = explain(text)
    if row is not None:
        return f"line {row + 1} has {what}; correct the line, or pass the right delimiter"
    if what.startswith("longer than"):
        return f"a line is {what}; is this really a CSV file? Check quotes and line ends"
    if what == "not valid UTF-8":
        return f"{_bad_line(source)} is {what}; pass the right encoding, such as latin-1 or cp1252"
    if source.format == "parquet":
        if "crypt" in text.lower():  # the file or some columns
            return f"an encrypted Parquet file ({what[:120]}); write it without encryption"
        return f"not a readable Parquet file ({what[:120]}); it may be cut short: write or copy it again"
    return f"cannot be read ({what}); check the file"


def _bad_line(source: Input) -> str:
    """Find the first line that is not UTF-8, if the file can be read again."""
    if source.path is not None:
        with open_bytes(source) as stream:
            for number, line in enumerate(iter(lambda: stream.readline(_BLOCK), b""), 1):
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError:
                    return f"line {number}"
    return "a line"


def _csv(source: Input, stream: IO[bytes], delimiter: str | None) -> Table:
    mark = delimiter or ("\t" if source.format == "tsv" else None)
    header = Header.read(stream.readline(LONGEST_LINE + 1), source.name, mark)
    return Table(source.name, header.columns, True, lambda wanted: _csv_batches(source, stream, header, wanted))


def _csv_batches(source: Input, stream: IO[bytes], header: Header, wanted: Sequence[str]) -> Iterator[Rows]:
    pa = arrow()
    from pyarrow import csv as pacsv

    head = stream.read(1)
    if not head:
        raise ValueError(f"{source.name}: only a header, no rows; check how the file was written")
    types = dict.fromkeys(wanted, pa.dictionary(pa.int32(), pa.string()))
    counted = _Prefixed(head, stream)
    with _named_batches(source):
        reader = pacsv.open_csv(pa.PythonFile(counted, mode="r"), **csv_options(header, types, _BLOCK))
        for batch in reader:
            yield {name: batch.column(k) for k, name in enumerate(wanted)}
    if counted.quotes % 2:
        _check_quotes(source, header.delimiter)


def _check_quotes(source: Input, mark: str) -> None:
    """Refuse a quotation mark that is never closed: all rows after it would silently become one field.

    Marks within a field, as in 5" pipe, are allowed, so an odd number of marks proves nothing.
    """
    if source.path is None:
        warn(Note("odd-quotes", source.name), DataWarning)
        return
    with open_bytes(source) as stream:
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


def _json_lines(source: Input, stream: IO[bytes]) -> Table:
    first = _json_row(source, 1, stream.readline(LONGEST_LINE + 1))
    rows = _json_rows(source, stream)
    return Table(source.name, list(first), False, lambda wanted: _json_batches(source, first, rows, wanted))


def _json_rows(source: Input, stream: IO[bytes]) -> Iterator[tuple[int, dict[str, Entry]]]:
    for number, line in enumerate(iter(lambda: stream.readline(LONGEST_LINE + 1), b""), 2):
        if line.strip():
            yield number, _json_row(source, number, line)


class _RepeatedError(Exception):
    """An object has a name twice."""


def _once(pairs: list[tuple[str, Entry]]) -> dict[str, Entry]:
    """A JSON object; duplicate names are refused, since one entry would be lost silently."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise _RepeatedError(next(name for k, (name, _) in enumerate(pairs) if name in dict(pairs[:k])))
    return entries


def _json_row(source: Input, number: int, line: bytes) -> dict[str, Entry]:
    place = f"{source.name}: line {number}"
    if len(line) > LONGEST_LINE:
        raise ValueError(f"{place} is longer than {LONGEST_LINE >> 20} MB; expected one small JSON object per line")
    try:
        row = json.loads(line, object_pairs_hook=_once)
    except _RepeatedError as error:
        raise ValueError(f"{place} has {str(error)!r} twice; remove one of them") from None
    except UnicodeDecodeError:
        raise ValueError(f"{place} is not valid UTF-8; pass the right encoding") from None
    except (ValueError, RecursionError) as error:
        deep = isinstance(error, RecursionError)
        what = getattr(error, "msg", "nested too deeply" if deep else "a number with too many digits")
        raise ValueError(f"{place} is not valid JSON ({what}); expected one object per line") from None
    if not isinstance(row, dict):
        raise ValueError(f"{place} holds a {type(row).__name__}, expected one JSON object per line")
    return row


def _json_batches(
    source: Input, first: dict[str, Entry], rows: Iterator[tuple[int, dict[str, Entry]]], wanted: Sequence[str]
) -> Iterator[Rows]:
    columns: dict[str, list[Entry]] = {name: [first.get(name)] for name in wanted}
    with _named_batches(source):
        for number, row in rows:
            for name in wanted:
                if name not in row:
                    raise ValueError(f"{source.name}: line {number} has no {name!r}; every line needs it")
                columns[name].append(row[name])
            if len(columns[wanted[0]]) >= _ROWS:
                yield columns
                columns = {name: [] for name in wanted}
    if columns[wanted[0]]:
        yield columns


def _parquet(source: Input, stream: IO[bytes]) -> Table:
    from pyarrow import parquet

    file = parquet.ParquetFile(stream if source.path is not None else whole(source, _STDIN_LIMIT))
    names = list(file.schema_arrow.names)

    def batches(wanted: Sequence[str]) -> Iterator[Rows]:
        with _named_batches(source):
            for batch in file.iter_batches(batch_size=4 * _ROWS, columns=list(wanted), use_threads=False):
                batch.validate(full=True)  # a damaged file may hold codes without labels
                yield {name: batch.column(name) for name in wanted}

    return Table(source.name, names, False, batches)
