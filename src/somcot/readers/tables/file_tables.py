"""Files as tables, except CSV: JSON, columnar files, spreadsheets and databases.

Packages that only some formats need are imported on use; an error names the one to install. Databases are opened
read-only, and nothing that they contain is executed.
"""

from __future__ import annotations

import codecs
import contextlib
import importlib
import itertools
import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from types import ModuleType
from typing import IO, Any
from urllib.parse import quote

from somcot.plumbing.memory import memory_limit
from somcot.readers.compression import DamagedError, entries, is_packed
from somcot.readers.opening import Input, whole
from somcot.readers.tables import LONGEST_LINE, ArrowArray, ArrowTable, Entry, FileOptions, Rows, Table

__all__ = ["json_items", "open_file_table"]

_ROWS = 1 << 16
_WHOLE = 4e9  # bytes of a file that must be in memory
_DOCUMENT = 1 << 30  # characters of a JSON document that is not an array


def open_file_table(source: Input, stream: IO[bytes], options: FileOptions) -> Table | None:
    """A file of one of the formats of this module as a table; None for others."""
    opened = _FORMATS.get(source.format)
    return None if opened is None else opened(source, stream, options)


def _needed(package: str, source: Input, install: str) -> ModuleType:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise ImportError(
            f"{source.name}: reading a .{source.format} file needs {install}: pip install {install}"
        ) from None


@contextlib.contextmanager
def _parsed(source: Input, what: str) -> Iterator[None]:
    """Errors of another library's parser, with the file.

    Such parsers raise whatever the damaged part leads to, from KeyError to NotImplementedError; a lack of memory and
    data that cannot be unpacked have messages of their own.
    """
    try:
        yield
    except (MemoryError, DamagedError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise ValueError(f"{source.name}: not a readable {what} ({reason}); write or copy it again") from None


def _seekable(source: Input, stream: IO[bytes]) -> IO[bytes]:
    """The file itself, or its unpacked content in memory, for formats that are not read from front to back."""
    # Packed files cannot seek, and these formats begin at their end.
    if source.path is not None and source.entry is None and not is_packed(stream):
        return stream
    return whole(source, _WHOLE)


# --- JSON: lines, arrays, and documents with one list; nested fields are named with dots


class _RepeatedError(Exception):
    """An object has a name twice."""


def _once(pairs: list[tuple[str, Entry]]) -> dict[str, Entry]:
    """A JSON object; duplicate names are refused, since one entry would be lost silently."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        # The first name that repeats an earlier one.
        raise _RepeatedError(next(name for k, (name, _) in enumerate(pairs) if name in dict(pairs[:k])))
    return fields


_DECODER = json.JSONDecoder(object_pairs_hook=_once)


@contextlib.contextmanager
def _as_json(place: str, expected: str = "one object per line") -> Iterator[None]:
    """Errors of the parser, with a place."""
    try:
        yield
    except _RepeatedError as error:
        raise ValueError(f"{place} has {str(error)!r} twice; remove one of them") from None
    except UnicodeDecodeError:
        raise ValueError(f"{place} is not valid UTF-8; pass the right encoding") from None
    except RecursionError:
        raise ValueError(f"{place} is not valid JSON (nested too deeply); expected {expected}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{place} is not valid JSON ({error.msg}); expected {expected}") from None
    except ValueError as error:
        # Python limits the digits of integers; other value errors are not about JSON.
        if "digits" not in str(error):
            raise
        raise ValueError(f"{place} is not valid JSON (a number with too many digits); expected {expected}") from None


def json_items(source: Input, stream: IO[bytes], longest: int = LONGEST_LINE) -> Iterator[tuple[str, Entry]]:
    """The values of a JSON file with their places: lines, elements of an array, the document, or one after another.

    Parameters
    ----------
    source : Input
    stream : file
        Unpacked, in UTF-8.
    longest : int
        Largest size of a line, or of an element, in bytes.
    """
    first = stream.readline(longest + 1)
    while first and not first.strip():
        first = stream.readline(longest + 1)
    text = first.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"["):
        yield from _elements(source, text, stream, longest)
        return
    second = stream.readline(longest + 1)
    # A document is one object: all of it on one line, or broken over lines.
    if source.format != "jsonl" and (not second or (second.strip() and not _is_complete(first))):
        yield from _documents(source, first + second, stream)
        return
    lines = itertools.chain([first, second], iter(lambda: stream.readline(longest + 1), b""))
    for number, line in enumerate(lines, 1):
        if line.strip():
            place = f"line {number}"
            if len(line) > longest:
                raise ValueError(
                    f"{source.name}: {place} is longer than {longest >> 20} MB; expected one small JSON object per line"
                )
            with _as_json(f"{source.name}: {place}"):
                # A byte-order mark may only be at the beginning.
                yield place, _DECODER.decode(line.decode("utf-8-sig" if number == 1 else "utf-8"))


def _is_complete(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _elements(source: Input, head: bytes, stream: IO[bytes], longest: int) -> Iterator[tuple[str, Entry]]:
    """The elements of an array, one after another; only one is in memory."""
    decode = codecs.getincrementaldecoder("utf-8")().decode
    with _as_json(f"{source.name}: the array"):
        text, at, ended = decode(head), 1, False
        for number in itertools.count(1):
            # Read more until one element is complete.
            while True:
                at = _after_blanks(text, at, "," if number > 1 else "")
                if text[at : at + 1] == "]":
                    return
                try:
                    value, end = _DECODER.raw_decode(text, at)
                    if end < len(text) or ended:  # a number at the end may go on
                        break
                except json.JSONDecodeError:
                    if ended:
                        raise ValueError(
                            f"{source.name}: element {number} of the array is cut short or not valid JSON; the file "
                            "may be truncated: write or copy it again"
                        ) from None
                data = stream.read(max(1 << 20, len(text) - at))
                text, at, ended = text[at:] + decode(data, final=not data), 0, not data
                if len(text) > longest + (1 << 21):
                    raise ValueError(f"{source.name}: element {number} is longer than {longest >> 20} MB")
            yield f"element {number}", value
            at = end


def _after_blanks(text: str, at: int, mark: str) -> int:
    match = re.compile(rf"\s*{mark}?\s*").match(text, at)
    return at if match is None else match.end()


def _documents(source: Input, head: bytes, stream: IO[bytes]) -> Iterator[tuple[str, Entry]]:
    """The only document of a file, or several that are broken over lines, as jq and OpenTelemetry's SDK print them."""
    limit = int(min(_DOCUMENT, 0.1 * memory_limit()))
    data = head + stream.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"{source.name}: a JSON document longer than {limit >> 20} MB; write one object per line")
    with _as_json(f"{source.name}: the document", "an array of objects, or one object per line"):
        text = data.decode("utf-8-sig").strip()
        value, end = _DECODER.raw_decode(text)
    if end == len(text):
        yield "the document", value
        return
    for number in itertools.count(1):
        yield f"object {number}", value
        if end == len(text):
            return
        with _as_json(f"{source.name}: object {number + 1}"):
            value, end = _DECODER.raw_decode(text, _after_blanks(text, end, ""))


def _objects(source: Input, stream: IO[bytes]) -> Iterator[tuple[str, dict[str, Entry]]]:
    for place, value in json_items(source, stream):
        if place == "the document":
            # Rows under one key, such as "data", are found; which of several lists is meant cannot be known.
            fields = list(value.values()) if isinstance(value, dict) else []
            lists = [v for v in fields if isinstance(v, list)]
            if fields and not any(isinstance(v, (dict, list)) for v in fields):
                lists = [[value]]  # a table of one row
            if len(lists) != 1:
                raise ValueError(
                    f"{source.name}: a JSON document without a single list of rows; expected an array of objects, or "
                    "one object per line (pandas: orient='records')"
                )
            items: Iterable[tuple[str, Entry]] = ((f"element {k}", v) for k, v in enumerate(lists[0], 1))
        else:
            items = ((place, value),)
        for at, row in items:
            if not isinstance(row, dict):
                expected = "one JSON object per line" if at.startswith("line") else "objects"
                raise ValueError(f"{source.name}: {at} holds a {type(row).__name__}, expected {expected}")
            yield at, row


def _json(source: Input, stream: IO[bytes], _: FileOptions) -> Table:
    rows = _objects(source, stream)
    first = next(rows, None)
    if first is None:
        raise ValueError(f"{source.name}: no rows; check how the table was written")
    return _of_objects(source, itertools.chain([first], rows), _flat(first[1]))


def _flat(row: dict[str, Entry], prefix: str = "") -> list[str]:
    """The names of the fields; those of inner objects with dots."""
    names: list[str] = []
    for name, value in row.items():
        names += _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else [f"{prefix}{name}"]
    return names


def _of_objects(source: Input, rows: Iterator[tuple[str, dict[str, Entry]]], columns: list[str]) -> Table:
    def batches(wanted: Sequence[str]) -> Iterator[Rows]:
        while part := list(itertools.islice(rows, _ROWS)):
            yield {name: [_field(source, place, row, name) for place, row in part] for name in wanted}

    return Table(source.name, columns, False, batches)


def _field(source: Input, place: str, row: dict[str, Entry], name: str) -> Entry:
    if name in row:
        return row[name]
    value: Entry = row
    for part in name.split("."):
        if value is None:
            return None
        if not isinstance(value, dict) or part not in value:
            raise ValueError(f"{source.name}: {place} has no {name!r}; every row needs it")
        value = value[part]
    return value


# --- Columnar files: Parquet, Arrow IPC, ORC


def _columnar(source: Input, names: list[str], read: Callable[[list[str]], Iterator[ArrowTable]]) -> Table:
    def batches(wanted: Sequence[str]) -> Iterator[Rows]:
        # A name with dots may be a column or a field of one.
        outer = list(dict.fromkeys(name if name in names else name.partition(".")[0] for name in wanted))
        for name in outer:
            if name not in names:
                listed = ", ".join(map(repr, names[:12]))
                raise ValueError(f"{source.name}: there is no column {name!r}; the columns are {listed}")
        for batch in read(outer):
            batch.validate(full=True)  # a damaged file may hold codes without labels
            yield {name: _inner(source, batch, name, names) for name in wanted}

    return Table(source.name, names, False, batches, complete=False)


def _inner(source: Input, batch: ArrowTable, name: str, names: list[str]) -> ArrowArray:
    """A column, or a field of a column of structures, named with dots."""
    import pyarrow as pa
    from pyarrow import compute

    at = name if name in batch.schema.names else name.partition(".")[0]
    try:
        column: ArrowArray = batch.column(at)
        for part in name.split(".")[1:] if at != name else ():
            column = compute.struct_field(column, part)
    except (KeyError, pa.ArrowException):
        listed = ", ".join(map(repr, names[:12]))
        raise ValueError(f"{source.name}: there is no column {name!r}; the columns are {listed}") from None
    return column


def _parquet(source: Input, stream: IO[bytes], _: FileOptions) -> Table:
    from pyarrow import parquet

    file = parquet.ParquetFile(_seekable(source, stream))
    names = list(file.schema_arrow.names)

    def read(wanted: list[str]) -> Iterator[ArrowTable]:
        return file.iter_batches(batch_size=_ROWS, columns=wanted, use_threads=False)  # type: ignore[no-any-return]

    return _columnar(source, names, read)._replace(complete=not _has_structures(file.schema_arrow))


def _has_structures(schema: Any) -> bool:
    import pyarrow as pa

    return any(pa.types.is_struct(field.type) for field in schema)


def _arrow(source: Input, stream: IO[bytes], _: FileOptions) -> Table:
    from pyarrow import ipc

    # Without `peek` the file format is assumed, whose reader reports anything else.
    head = stream.peek(6)[:6] if hasattr(stream, "peek") else b"ARROW1"
    if head == b"ARROW1":
        file = ipc.open_file(_seekable(source, stream))
        batches: Iterator[ArrowTable] = (file.get_batch(k) for k in range(file.num_record_batches))
        schema = file.schema
    else:  # the stream format, without an index at its end
        reader = ipc.open_stream(stream)
        batches, schema = iter(reader), reader.schema
    table = _columnar(source, list(schema.names), lambda _: batches)
    return table._replace(complete=not _has_structures(schema))


def _orc(source: Input, stream: IO[bytes], _: FileOptions) -> Table:
    from pyarrow import orc

    file = orc.ORCFile(_seekable(source, stream))
    names, parts = list(file.schema.names), range(file.nstripes)
    table = _columnar(source, names, lambda wanted: (file.read_stripe(part, columns=wanted) for part in parts))
    return table._replace(complete=not _has_structures(file.schema))


def _avro(source: Input, stream: IO[bytes], _: FileOptions) -> Table:
    fastavro = _needed("fastavro", source, "fastavro")
    with _parsed(source, "Avro file"):
        reader = fastavro.reader(stream)
        columns = [field["name"] for field in reader.writer_schema["fields"]]

    def rows() -> Iterator[tuple[str, dict[str, Entry]]]:
        with _parsed(source, "Avro file"):
            for number, row in enumerate(reader, 1):
                yield f"row {number}", row

    return _of_objects(source, rows(), columns)


# --- Spreadsheets


def _xlsx(source: Input, stream: IO[bytes], options: FileOptions) -> Table:
    file = _seekable(source, stream)
    entries(source.name, file)  # refuses archives that claim impossible sizes
    file.seek(0)
    names, rows = _sheets(source, file)
    wanted = options.table or names[0]
    if wanted not in names:
        raise ValueError(f"table: {source.name} has no sheet {wanted!r}; its sheets are {', '.join(map(repr, names))}")
    lines = _filled(source, rows, wanted)
    header = [str(name).strip() if name not in (None, "") else "" for name in next(lines, [])]
    if not any(header):
        raise ValueError(f"{source.name}: the sheet {wanted!r} is empty; name another one: table={names[-1]!r}")

    def batches(columns: Sequence[str]) -> Iterator[Rows]:
        places = [header.index(name) for name in columns]
        while part := list(itertools.islice(lines, _ROWS)):
            yield {
                # Spreadsheets leave out empty cells at the end of a row.
                name: [_cell(row[k]) if k < len(row) else None for row in part]
                for name, k in zip(columns, places, strict=True)
            }

    return Table(source.name, header, True, batches)


def _filled(source: Input, rows: Callable[[str], Iterator[Sequence[Entry]]], sheet: str) -> Iterator[Sequence[Entry]]:
    """The rows of a sheet that are not empty."""
    with _parsed(source, "spreadsheet"):
        yield from (row for row in rows(sheet) if any(cell not in (None, "") for cell in row))


def _cell(value: Entry) -> Entry:
    """Spreadsheets store whole numbers as floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _sheets(source: Input, file: IO[bytes]) -> tuple[list[str], Callable[[str], Iterator[Sequence[Entry]]]]:
    """The names of the sheets, and their rows: by python-calamine if it is installed, as it is faster."""
    with contextlib.suppress(ImportError):
        calamine = importlib.import_module("python_calamine")
        with _parsed(source, "spreadsheet"):
            book = calamine.load_workbook(file)
            return list(book.sheet_names), lambda name: iter(book.get_sheet_by_name(name).iter_rows())
    openpyxl = _needed("openpyxl", source, "openpyxl")
    with _parsed(source, "spreadsheet"):
        sheets = openpyxl.load_workbook(file, read_only=True, data_only=True)
        return list(sheets.sheetnames), lambda name: sheets[name].iter_rows(values_only=True)


# --- Databases, read-only

_HARMLESS = {20, 21, 31, 33}  # reading, selecting, functions, recursive queries; everything else is denied
_UNSAFE = {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"}
_INSTRUCTIONS = 100_000  # of SQLite's virtual machine, about a millisecond


def _sqlite(source: Input, stream: IO[bytes], options: FileOptions) -> Table:
    connection = _connected(source, stream)
    try:
        # The file comes from elsewhere: its schema may contain functions and triggers.
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA query_only = ON")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1 << 26)
        # A query or view may search endlessly without a row. Python handles signals only where it runs Python.
        connection.set_progress_handler(lambda: None, _INSTRUCTIONS)
        connection.set_authorizer(
            lambda action, _, name, *__: (
                sqlite3.SQLITE_OK if action in _HARMLESS and name not in _UNSAFE else sqlite3.SQLITE_DENY
            )
        )
        # In a damaged schema names may be of any type.
        listed = "SELECT name FROM sqlite_schema WHERE type = 'table' AND typeof(name) = 'text'"
        names = [name for (name,) in connection.execute(listed) if not name.startswith("sqlite_")]
        inner = _selection(source, options, names)
        columns = [row[0] for row in connection.execute(f"SELECT * FROM {inner} LIMIT 0").description]  # no rows
    except sqlite3.Error as error:
        connection.close()
        raise _sqlite_failure(source, error) from None

    def batches(wanted: Sequence[str]) -> Iterator[Rows]:
        # The connection stays open until the last batch.
        with contextlib.closing(connection):
            listed = ", ".join(map(_quoted, wanted))
            try:
                cursor = connection.execute(f"SELECT {listed} FROM {inner}")
                while part := cursor.fetchmany(_ROWS):
                    yield dict(zip(wanted, map(list, zip(*part, strict=True)), strict=True))
            except sqlite3.Error as error:
                raise _sqlite_failure(source, error) from None

    return Table(source.name, columns, True, batches)


def _connected(source: Input, stream: IO[bytes]) -> sqlite3.Connection:
    if source.path is not None and source.entry is None and not is_packed(stream):
        path = source.path.resolve()
        log = Path(f"{path}-wal")
        if log.exists() and log.stat().st_size:  # an immutable database is read without it
            raise ValueError(
                f"{source.name}: recent changes are still in {log.name}, so rows would be missing; close the program "
                "that writes it, or copy the database with VACUUM INTO"
            )
        return sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True, check_same_thread=False)
    connection = sqlite3.connect(":memory:")
    try:
        connection.deserialize(whole(source, _WHOLE).getvalue())
    except sqlite3.Error as error:
        raise _sqlite_failure(source, error) from None
    return connection


def _sqlite_failure(source: Input, error: sqlite3.Error) -> ValueError | KeyboardInterrupt:
    text = str(error)
    # What a signal raises in the progress handler, SQLite turns into this error.
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
        return KeyboardInterrupt()
    reason = f"not a readable SQLite database ({text}); copy it again"
    if "not authorized" in text or "prohibited" in text or "unsafe" in text:
        reason = "the query does more than read tables of this database, which is not permitted; use a plain SELECT"
    elif "no such" in text or "syntax" in text or "incomplete" in text:
        reason = f"the query failed ({text}); pass one SELECT of tables and columns that exist"
    return ValueError(f"{source.name}: {reason}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _selection(source: Input, options: FileOptions, tables: list[str]) -> str:
    """What to select from: the named table, the query, or the only table."""
    if options.query is not None:
        return f"({options.query.strip().rstrip(';')})"
    if options.table is not None:
        return _quoted(options.table)
    if len(tables) != 1:
        shown = ", ".join(map(repr, tables[:12])) or "none"
        raise ValueError(f"{source.name}: which table? It has {shown}; name one: table=NAME, or pass query=SELECT...")
    return _quoted(tables[0])


def _duckdb(source: Input, stream: IO[bytes], options: FileOptions) -> Table:
    duckdb = _needed("duckdb", source, "duckdb")
    if source.path is None or source.entry is not None or is_packed(stream):
        raise ValueError(f"{source.name}: a DuckDB database must be a file of its own; unpack it and name the file")
    # A query must not reach other files or the network.
    closed = dict.fromkeys(("enable_external_access", "autoinstall_known_extensions"), "false")
    closed["autoload_known_extensions"] = "false"
    try:
        connection = duckdb.connect(str(source.path), read_only=True, config=closed)
        tables = [row[0] for row in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        inner = _selection(source, options, tables)
        columns = [row[0] for row in connection.execute(f"SELECT * FROM {inner} LIMIT 0").description]
    except duckdb.Error as error:
        first = str(error).partition("\n")[0][:160]
        raise ValueError(f"{source.name}: the query failed ({first}); check the names, or copy it again") from None

    def batches(wanted: Sequence[str]) -> Iterator[Rows]:
        with contextlib.closing(connection), _parsed(source, "DuckDB database"):
            relation = connection.sql(f"SELECT {', '.join(map(_quoted, wanted))} FROM {inner}")
            begin = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader  # older releases
            reader = _interruptible(connection, lambda: begin(_ROWS))
            while (batch := _interruptible(connection, lambda: next(reader, None))) is not None:
                yield {name: batch.column(k) for k, name in enumerate(wanted)}

    return Table(source.name, columns, False, batches)


def _interruptible(connection: Any, query: Callable[[], Any]) -> Any:
    """The result of a query, run in a thread: DuckDB itself drops some signals, and sees none between batches."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(query)
        try:
            # Signals are handled here, also those that the other thread gets, so this one wakes up now and then.
            while not wait([running], 0.05).done:
                pass
        finally:
            while not running.done():  # until a query has begun, DuckDB ignores that it is interrupted
                connection.interrupt()
                wait([running], 0.05)
    return running.result()


_FORMATS: dict[str, Callable[[Input, IO[bytes], FileOptions], Table]] = {
    "json": _json, "jsonl": _json, "parquet": _parquet, "arrow": _arrow, "orc": _orc, "avro": _avro, "xlsx": _xlsx,
    "sqlite": _sqlite, "duckdb": _duckdb,
}  # fmt: skip
