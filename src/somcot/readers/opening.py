"""Reading any supported file: table, event log, arrays or graph, recognised by extension or first bytes."""

from __future__ import annotations

import bisect
import contextlib
import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias
from urllib.parse import unquote

from numpy.typing import NDArray

from somcot.chains import MarkovChain
from somcot.plumbing.memory import memory_limit
from somcot.plumbing.notes import Note, codes
from somcot.readers.formats import ENDINGS, FORMATS, MAGIC, kind_of
from somcot.samples import Samples
from somcot.timed import ContinuousChain

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = [
    "Array",
    "ArrowArray",
    "ArrowTable",
    "ArrowType",
    "Batch",
    "Entry",
    "FolderPart",
    "Frame",
    "Input",
    "Rows",
    "Table",
    "as_utf8",
    "format_of",
    "format_of_folder",
    "identify",
    "is_zipped",
    "open_bytes",
    "open_folder",
    "parts_of",
    "read",
    "whole",
]


# --- Type aliases for pyarrow's objects and data frames

Array: TypeAlias = NDArray[Any]
ArrowType: TypeAlias = Any
ArrowTable: TypeAlias = Any
Frame: TypeAlias = Any  # of pandas, polars or any library with columns; its methods are found by duck typing


class ArrowArray(Protocol):
    """The methods used of an Arrow array or chunked array."""

    type: ArrowType
    null_count: int
    chunks: list[ArrowArray]
    dictionary: ArrowArray  # for dictionary-encoded arrays
    indices: ArrowArray
    cast: Callable[..., ArrowArray]
    combine_chunks: Callable[[], ArrowArray]
    dictionary_decode: Callable[[], ArrowArray]
    dictionary_encode: Callable[[], ArrowArray]
    drop_null: Callable[[], ArrowArray]
    fill_null: Callable[[float], ArrowArray]
    flatten: Callable[[], ArrowArray]
    take: Callable[[ArrowArray], ArrowArray]
    to_numpy: Callable[..., Array]
    to_pylist: Callable[[], list[Entry]]

    def __len__(self) -> int: ...
    def __getitem__(self, i: int, /) -> object: ...
    def __iter__(self) -> Iterator[Entry]: ...


Entry: TypeAlias = Any  # entry of a column: text, a number, a date, a list, None
Batch: TypeAlias = Sequence[Entry] | ArrowArray  # a batch of entries of a column
Rows: TypeAlias = Mapping[str, Batch]


# --- The common record of all sources of rows


def _row(number: int) -> str:
    return f"row {number}"


class Table(NamedTuple):
    """A table before reading: its columns by name, and a function that yields batches of some of them.

    Attributes
    ----------
    name : str
        Name of the table in messages.
    columns : list of str
    is_text : bool
        Whether entries are text that may represent numbers.
    batches : callable
        ``batches(wanted)`` yields mappings from the requested names to lists or Arrow arrays of one length.
    place : callable
        ``place(k)`` names the k-th row read, starting at 1, in a message.
    complete : bool
        Whether `columns` is exhaustive; otherwise `batches` reports columns that do not exist.
    classifiers : mapping
        Names for combinations of columns that form a state, as in event logs.
    """

    name: str
    columns: list[str]
    is_text: bool
    batches: Callable[[Sequence[str]], Iterator[Rows]]
    place: Callable[[int], str] = _row
    complete: bool = True
    classifiers: Mapping[str, list[str]] = MappingProxyType({})


# --- A folder of files as one table; folders named ``key=value`` add columns

_NOTHING = "__HIVE_DEFAULT_PARTITION__"
_MANY = 100_000


class FolderPart(NamedTuple):
    """One file of a folder, and the keys in the names of the folders above it."""

    path: Path
    format: str
    keys: dict[str, str | None]


def parts_of(folder: Path) -> list[FolderPart]:
    """All tables below a folder, ordered by name, except hidden ones and those that begin with _."""
    parts: list[FolderPart] = []
    for where, folders, files in os.walk(folder, onerror=_refuse):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        for name in sorted(files):
            format = ENDINGS.get(Path(name.removesuffix(".gz")).suffix.lower())  # noqa: A001
            if format is not None and not name.startswith((".", "_")) and FORMATS[format].kind == "table":
                path = Path(where, name)
                parts.append(FolderPart(path, format, _keys(path.parent.relative_to(folder))))
        if len(parts) > _MANY:
            raise ValueError(f"{folder}: holds more than {_MANY:,} tables; name a folder further down")
    return sorted(parts, key=lambda part: part.path.parts)


def _refuse(error: OSError) -> None:
    raise ValueError(f"{error.filename}: cannot be listed ({error.strerror}); check its owner and mode")


def _keys(inner: Path) -> dict[str, str | None]:
    pairs = (part.partition("=") for part in inner.parts if "=" in part)
    return {unquote(key): None if value == _NOTHING else unquote(value) for key, _, value in pairs}


def format_of_folder(folder: Path) -> str:
    """The format of the tables in a folder; all must have the same."""
    parts = parts_of(folder)
    if not parts:
        known = ", ".join(ending for row in FORMATS.values() if row.kind == "table" for ending in row.endings)
        raise ValueError(f"{folder}: a folder without tables; expected files ending in {known}, or name a file")
    other = next((part for part in parts if part.format != parts[0].format), None)
    if other is not None:
        raise ValueError(
            f"{folder}: a folder with both {parts[0].path.name} and {other.path.name}, but a table has one format; "
            "name the file that you mean, or a folder further down"
        )
    return parts[0].format


def open_folder(folder: Path, opened: Callable[[Path, str], AbstractContextManager[Table]]) -> Table:
    """All files below a folder as one table; `opened` opens one file."""
    parts = parts_of(folder)
    begins: list[int] = []  # number of rows before each part
    with opened(parts[0].path, parts[0].format) as first:
        columns, is_text = list(first.columns), first.is_text
    keys = [key for key in parts[0].keys if key not in columns]

    def batches(wanted: Sequence[str]) -> Iterator[Rows]:
        n_rows = 0
        for part in parts:
            begins.append(n_rows)
            with opened(part.path, part.format) as table:
                in_file = [name for name in wanted if name not in keys]
                _check_part(folder, part, table, in_file, [name for name in wanted if name in keys])
                for batch in table.batches(in_file or table.columns[:1]):
                    n = len(next(iter(batch.values())))
                    n_rows += n
                    yield {name: batch[name] if name in in_file else [part.keys[name]] * n for name in wanted}

    def place(number: int) -> str:
        k = bisect.bisect_right(begins, number - 1) - 1
        return f"{parts[k].path.relative_to(folder)}: row {number - begins[k]}"

    return Table(str(folder), [*columns, *keys], is_text, batches, place)


def _check_part(folder: Path, part: FolderPart, table: Table, in_file: list[str], keys: list[str]) -> None:
    for name in in_file:
        if table.columns.count(name) != 1:
            raise ValueError(
                f"{part.path}: there is no single column {name!r}, as in other files of {folder}; use the same columns"
            )
    for key in keys:
        if key not in part.keys:
            raise ValueError(f"{part.path}: no folder above it is called {key}=..., as with other files in {folder}")


# --- Opening files by extension or first bytes, gzip, standard input, text encodings

_STDIN = "standard input"
_GZIP = b"\x1f\x8b"
_TO_THE_END = 1 << 28  # bytes that are unpacked to check whether data are damaged
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


class Input(NamedTuple):
    """A file, or a stream that can be read only once if `path` is None: its name and its format."""

    name: str
    format: str
    path: Path | None
    stream: io.BufferedReader | None = None


def identify(path: str | os.PathLike[str], format: str | None = None) -> Input:  # noqa: A002
    """Determine the format of a file from `format`, its extension, or its first bytes. Pipes are opened here, once.

    Examples
    --------
    >>> identify("log.csv.gz", "csv").format
    'csv'
    """
    if format is not None and format not in FORMATS:
        raise ValueError(f"format: found {format!r}, expected one of {', '.join(FORMATS)}")
    if os.fspath(path) == "-":
        return _of_stream(_STDIN, _stdin(), format)
    _refuse_address(os.fspath(path))
    if "\0" in os.fspath(path):
        raise ValueError(f"{os.fspath(path)!r}: not a valid file name (it contains a NUL character); check the name")
    file = _expanded(path)
    if file.is_dir():
        return _of_folder(file, format)
    format = format or format_of(file)  # noqa: A001
    if file.exists() and not file.is_file() and not file.is_dir():
        return _of_stream(str(file), _opened(file), format)
    if format is None:
        with _opened(file) as stream:
            format = _sniff(str(file), stream.read(4), None)  # noqa: A001
    return Input(str(file), format, file)


def _of_folder(folder: Path, format: str | None) -> Input:  # noqa: A002
    """A folder of tables is one table; files of other kinds must be named one by one."""
    kind = format_of_folder(folder)
    if format not in (None, kind):
        raise ValueError(f"{folder}: a folder of {kind} files, but format is {format}; leave it out")
    return Input(str(folder), kind, folder)


def format_of(path: str | os.PathLike[str]) -> str | None:
    """The format implied by the extension of a name, if any.

    Examples
    --------
    >>> format_of("log.csv.gz"), format_of("/dev/stdin")
    ('csv', None)
    """
    return ENDINGS.get(Path(Path(path).name.removesuffix(".gz")).suffix.lower())


def _of_stream(name: str, stream: io.BufferedReader, format: str | None) -> Input:  # noqa: A002
    with contextlib.ExitStack() as stack:
        if name != _STDIN:
            stack.enter_context(stream)  # closed unless it is returned
        head = _peek(name, stream)
        magic = () if format is None else FORMATS[format].magic
        if magic and not head.startswith((_GZIP, *magic)):  # an endless stream would be read until memory is full
            raise ValueError(f"{name}: does not begin like a .{format} file; check what comes through the pipe")
        source = Input(name, format or _sniff(name, head, "csv"), None, stream)
        stack.pop_all()
    return source


def _refuse_address(name: str) -> None:
    if _ADDRESS.match(name):
        raise ValueError(f"{name}: an address, but only files are read; download it first and name the file")


def _expanded(path: str | os.PathLike[str]) -> Path:
    """The path with ~ replaced by the home folder, which shells do only at the beginning of a word."""
    file = Path(path)
    try:
        return file.expanduser() if not file.exists() else file
    except (OSError, RuntimeError, ValueError):
        return file


@contextlib.contextmanager
def open_bytes(source: Input) -> Iterator[IO[bytes]]:
    """Open for reading, decompressing gzip; missing, empty and unreadable files raise errors with their names."""
    with contextlib.ExitStack() as stack:
        opened = source.stream if source.path is None else _opened(source.path)
        assert opened is not None
        if source.name != _STDIN:
            stack.enter_context(opened)
        stream = _unzipped(opened)
        try:
            yield stream
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            if not is_zipped(stream):
                raise
            raise ValueError(Note("gzip-damaged", source.name, where="", reason=str(error))) from None
        except ValueError as error:
            damage = _damage(stream) if is_zipped(stream) else None
            if damage is None or codes(error.args) == ["gzip-damaged"]:
                raise
            raise ValueError(Note("gzip-damaged", source.name, where="", reason=str(damage))) from None
        except OSError as error:
            if error.errno is None:  # raised by a package with its own message
                raise
            raise ValueError(f"{source.name}: cannot be read ({error.strerror}); check the disk") from None


def _damage(stream: IO[bytes]) -> str | None:
    """The damage of compressed data, if their end is near enough to check; damaged data look malformed earlier.

    Only the checksum at the end distinguishes them from malformed data that were compressed correctly.
    """
    try:
        left = _TO_THE_END
        while left > 0 and (data := stream.read(1 << 20)):
            left -= len(data)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        return str(error)
    except (OSError, ValueError):  # closed by the reader
        return None
    return None


def is_zipped(stream: IO[bytes]) -> bool:
    """Whether a stream of `open_bytes` is compressed, so that the size of the file is not that of the data."""
    return isinstance(getattr(stream, "raw", None), gzip.GzipFile)


def whole(source: Input, limit: float) -> io.BytesIO:
    """All bytes, for formats that must be read from the end."""
    limit = min(limit, 0.5 * memory_limit())
    with open_bytes(source) as stream:
        data = stream.read(int(limit) + 1)
    if len(data) > limit:
        raise ValueError(f"{source.name}: longer than {limit / 1e9:.1f} GB; write it to a file and name that")
    return io.BytesIO(data)


def as_utf8(stream: IO[bytes], encoding: str) -> IO[bytes]:
    """The same text in UTF-8, converted from its encoding."""
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
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
            self._left = self._text.read(1 << 16).encode("utf-8")
        view = memoryview(buffer)
        n = min(len(view), len(self._left))
        view[:n], self._left = self._left[:n], self._left[n:]
        return n


def _opened(path: Path) -> io.BufferedReader:
    try:
        if path.is_dir():
            raise ValueError(f"{path}: a folder, expected a file; name the file inside it")
        if path.is_file() and not path.stat().st_size:
            raise ValueError(f"{path}: the file is empty; check how it was written")
        return path.open("rb")
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such file; check the name (current folder: {Path.cwd()})") from None
    except PermissionError:
        raise ValueError(f"{path}: reading it is not permitted; check its owner and mode (chmod +r)") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error}); check the disk and the name") from None


def _stdin() -> io.BufferedReader:
    stream = None if sys.stdin is None else getattr(sys.stdin, "buffer", None)
    if stream is None or stream.closed:
        raise ValueError("standard input: closed; pipe data in, or name a file instead of -")
    standard: io.BufferedReader = stream
    return standard


def _peek(name: str, stream: io.BufferedReader) -> bytes:
    try:
        head = stream.peek(4)[:4]
    except OSError:
        raise ValueError(f"{name}: closed; pipe data in, or name a file") from None
    if not head:
        raise ValueError(f"{name}: empty; the command before the pipe wrote nothing")
    return head


def _unzipped(stream: io.BufferedReader) -> io.BufferedReader:
    if stream.peek(2)[:2] != _GZIP:
        return stream
    return io.BufferedReader(gzip.GzipFile(fileobj=stream))


def _sniff(name: str, head: bytes, otherwise: str | None) -> str:
    if head in MAGIC:
        return MAGIC[head]
    if head[:1] == b"{":
        return "jsonl"
    if otherwise is not None:
        return otherwise
    known = ", ".join(ENDINGS)
    raise ValueError(Note("unknown-ending", name, known=known))


# --- Reading any file


def read(
    path: str | os.PathLike[str] | Input,
    *,
    format: str | None = None,  # noqa: A002
    **options: object,
) -> Samples | MarkovChain | ContinuousChain:
    r"""Read a process from a file of any supported kind.

    Parameters
    ----------
    path : path or "-"
        Tables (.csv .tsv .jsonl .parquet) or a folder of them, event logs (.xes), arrays (.npy .npz), graphs
        (.graphml .gml .edges) or PRISM files (.tra); "-" is standard input.
    format : str, optional
        One of csv, tsv, jsonl, parquet, xes, npy, npz, graphml, gml, edges, tra, if the extension does not tell.
    **options
        Options of `from_table`, `from_xes`, `read_arrays`, `read_graph` or `read_prism`, depending on the kind of file;
        options of other kinds are refused.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "clicks.csv")
    >>> _ = file.write_text("user,page\n1,home\n1,cart\n2,home\n2,home\n")
    >>> read(file, sequence="user", state="page")
    Samples(2 states, 2 transitions, 2 episodes)
    """
    source = path if isinstance(path, Input) else identify(path, format)
    kind = kind_of(source.format)
    allowed = kind.options()
    for option in options:
        if option not in allowed:
            raise ValueError(
                f"{source.name}: {option} is not for {kind.plural}, which take {', '.join(allowed)}; leave it out"
            )
    return kind.load()(source, **options)
