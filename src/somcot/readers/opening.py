"""Reading any supported file: recognised by extension or content, unpacked, alone or as one of many."""

from __future__ import annotations

import bisect
import contextlib
import glob
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, cast
from urllib.parse import unquote

from somcot.chains import MarkovChain
from somcot.plumbing.checks import not_sparse
from somcot.plumbing.memory import memory_limit
from somcot.plumbing.notes import Note, codes
from somcot.readers.compression import (
    ZIP,
    DamagedError,
    entries,
    is_packed,
    open_entry,
    preview,
    unpacked,
    without_packing,
)
from somcot.readers.formats import ENDINGS, FORMATS, MAGIC, kind_of
from somcot.readers.tables import Rows, Table
from somcot.samples import Samples
from somcot.timed import ContinuousChain

__all__ = ["Input", "Part", "format_of", "identify", "open_bytes", "open_parts", "read", "whole"]


# --- Inputs: a file, a stream, or several files that form one table

_STDIN = "standard input"
# The name that Hive and Spark give to a folder whose key has no value.
_NOTHING = "__HIVE_DEFAULT_PARTITION__"
_MANY = 1_000_000  # files
_TO_THE_END = 1 << 28  # bytes that are unpacked to check whether data are damaged
_HEAD = 1 << 16  # bytes that are searched for signs of a format
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_JSON = re.compile(rb"\s*([{\[])(?:\s*[\"{}\[\]]|\s*$)")  # log files may begin with a time in brackets
_BY_CONTENT = ("json", "jsonl", "sqlite")  # formats whose endings others share
_TOGETHER = ("table", "traces")  # kinds of files of which several form one recording


class Part(NamedTuple):
    """One of several files: its path, its entry if the path is an archive, and the keys in names of folders."""

    path: Path
    format: str
    keys: dict[str, str | None]
    entry: str | None = None

    @property
    def source(self) -> Input:
        """The part as an input of its own."""
        name = str(self.path) if self.entry is None else f"{self.path}: {self.entry}"
        return Input(name, self.format, self.path, entry=self.entry)


class Input(NamedTuple):
    """What is read: a file, an entry of an archive, a stream that can be read only once, or several files.

    Attributes
    ----------
    name : str
        Name in messages.
    format : str
    path : Path or None
        None for a stream.
    stream : file, optional
    parts : tuple of Part
        The files of a folder, a pattern, a list or an archive.
    entry : str, optional
        The file in the archive `path`.
    """

    name: str
    format: str
    path: Path | None
    stream: io.BufferedReader | None = None
    parts: tuple[Part, ...] = ()
    entry: str | None = None


Source = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def identify(path: Source, format: str | None = None) -> Input:  # noqa: A002
    """Determine the format of a file from `format`, its extension, or its content. Pipes are opened here, once.

    Parameters
    ----------
    path : path, "-", pattern, or sequence of paths
        A pattern such as ``logs/*.csv.gz`` names all files that match, in the order of their names.
    format : str, optional

    Examples
    --------
    >>> identify("log.csv.gz", "csv").format
    'csv'
    """
    if format is not None and format not in FORMATS:
        raise ValueError(f"format: found {format!r}, expected one of {', '.join(FORMATS)}")
    if not isinstance(path, (str, os.PathLike)):
        return _of_list([os.fspath(name) for name in not_sparse("path", path)], format)
    text = os.fspath(path)
    if text == "-":
        return _of_stream(_STDIN, _stdin(), format)
    _refuse_address(text)
    if "\0" in text or not text:  # an empty name, perhaps of a variable that is not set, would mean the folder
        raise ValueError(f"{text!r}: not a valid file name ({'a NUL character' if text else 'empty'}); check the name")
    file = _expanded(path)
    if file.is_dir():
        return _of_parts(str(file), file, _in_folder(file), format)
    # A file whose name contains such a sign is meant literally.
    if any(sign in text for sign in "*?[") and not file.exists():
        return _of_pattern(text, format)
    if file.exists() and not file.is_file():
        return _of_stream(str(file), _opened(file), format)
    return _of_file(file, format)


def format_of(path: Source) -> str | None:
    """The format implied by the extension of a name, if any.

    Examples
    --------
    >>> format_of("log.csv.gz"), format_of("/dev/stdin")
    ('csv', None)
    """
    if not isinstance(path, (str, os.PathLike)):
        return None
    return ENDINGS.get(Path(without_packing(Path(path).name)).suffix.lower())


def _of_file(file: Path, format: str | None) -> Input:  # noqa: A002
    """A file; archives are opened to see what is in them, and JSON to see whether it holds traces."""
    known = format or format_of(file)
    # JSON may hold a table or traces, .db one of two databases, and a .zip anything: only their content tells.
    if known is not None and known not in _BY_CONTENT and not file.name.lower().endswith(".zip"):
        return Input(str(file), known, file)
    with _opened(file) as stream:
        head = stream.peek(4)[:4]
        if head in ZIP and known not in ("npz", "xlsx"):
            names = _entries(str(file), stream)
            if format is None and (inner := _container(names)) is not None:
                return Input(str(file), inner, file)
            return _of_archive(file, names, format)
    if known is None or (format is None and known in _BY_CONTENT):
        known = _by_content(Input(str(file), known or "csv", file), known)
    return Input(str(file), known, file)


def _container(names: list[str]) -> str | None:
    """Formats that are archives themselves."""
    if "[Content_Types].xml" in names:
        return "xlsx"
    return "npz" if names and all(name.endswith(".npy") for name in names) else None


def _of_archive(file: Path, names: list[str], format: str | None) -> Input:  # noqa: A002
    formats = {name: format or format_of(name) for name in sorted(names)}
    inside = [Part(file, kind, {}, name) for name, kind in formats.items() if kind is not None]
    if not inside and len(names) == 1:  # an uninformative ending
        source = Input(f"{file}: {names[0]}", "csv", file, entry=names[0])
        return source._replace(format=_by_content(source, "csv"))
    if len(inside) == 1:
        source = inside[0].source
        known = _by_content(source, source.format) if format is None else source.format
        return source._replace(format=known)
    return _of_parts(str(file), file, inside, format)


def _of_list(names: list[str], format: str | None) -> Input:  # noqa: A002
    if not names:
        raise ValueError("data: an empty list of files; name at least one")
    parts: list[Part] = []
    for name in names:
        if name == "-":
            raise ValueError("standard input: cannot be one of several files; name files only")
        source = identify(name, format)
        parts += source.parts or [Part(_expanded(name), source.format, {}, source.entry)]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return _of_parts(f"{names[0]}{more}", None, parts, format)


def _of_pattern(text: str, format: str | None) -> Input:  # noqa: A002
    files = sorted(glob.glob(os.path.expanduser(text), recursive=True))
    if not files:
        raise ValueError(f"{text}: no file matches this pattern; check it (current folder: {Path.cwd()})")
    return _of_list(files, format)._replace(name=text)


def _in_folder(folder: Path) -> list[Part]:
    """All tables and traces below a folder, ordered by name, except hidden ones and those that begin with _."""
    parts: list[Part] = []
    for where, folders, files in os.walk(folder, onerror=_refuse):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        for name in sorted(files):
            format = format_of(name)  # noqa: A001
            if format is not None and not name.startswith((".", "_")) and FORMATS[format].kind in _TOGETHER:
                path = Path(where, name)
                parts.append(Part(path, format, _keys(path.parent.relative_to(folder))))
        if len(parts) > _MANY:
            raise ValueError(f"{folder}: holds more than {_MANY:,} files; name a folder further down")
    return sorted(parts, key=lambda part: part.path.parts)


def _refuse(error: OSError) -> None:
    raise ValueError(f"{error.filename}: cannot be listed ({error.strerror}); check its owner and mode")


def _keys(inner: Path) -> dict[str, str | None]:
    pairs = (part.partition("=") for part in inner.parts if "=" in part)
    return {unquote(key): None if value == _NOTHING else unquote(value) for key, _, value in pairs}


def _of_parts(name: str, path: Path | None, parts: list[Part], format: str | None) -> Input:  # noqa: A002
    """Several files as one input; all must have the same format, except that traces may come in several."""
    if not parts:
        known = ", ".join(end for row in FORMATS.values() if row.kind in _TOGETHER for end in row.endings)
        raise ValueError(f"{name}: a folder without tables; expected files ending in {known}, or name a file")
    in_json = [part for part in parts if part.format in ("json", "jsonl", "traces")]
    if format in (None, "traces") and in_json and _hold_traces(in_json):
        return Input(name, "traces", path, parts=tuple(parts))  # other files are counted when it is read
    other = next((part for part in parts if part.format != parts[0].format), None)
    if other is not None:
        first, second = (part.entry or part.path.name for part in (parts[0], other))
        raise ValueError(
            f"{name}: a folder with both {first} and {second}, but a table has one format; name the file that you "
            "mean, or a folder further down"
        )
    kind = parts[0].format
    if FORMATS[kind].kind not in _TOGETHER:
        raise ValueError(f"{name}: several .{kind} files; name them one by one")
    if format not in (None, kind):
        raise ValueError(f"{name}: a folder of {kind} files, but format is {format}; leave it out")
    return Input(name, kind, path, parts=tuple(parts))


def _hold_traces(parts: list[Part]) -> bool:
    """Whether any of the first files holds traces of an agent."""
    if any(part.format == "traces" for part in parts):
        return True
    for part in parts[:20]:
        with contextlib.suppress(ValueError):  # damaged files are reported when they are read
            if _by_content(part.source, part.format) == "traces":
                return True
    return False


def open_parts(source: Input, opened: Callable[[Input], AbstractContextManager[Table]]) -> Table:
    """Several files as one table; `opened` opens one of them. Folders named ``key=value`` add columns."""
    parts = source.parts
    begins: list[int] = []  # number of rows before each part
    with opened(parts[0].source) as first:
        columns, is_text, defaults = list(first.columns), first.is_text, first.defaults
    # A column inside the files wins over a folder's name, since it may vary from row to row.
    keys = [key for key in parts[0].keys if key not in columns]

    def batches(wanted: Sequence[str]) -> Iterator[Rows]:
        n_rows = 0
        for part in parts:
            begins.append(n_rows)
            with opened(part.source) as table:
                in_file = [name for name in wanted if name not in keys]
                _check_part(source.name, part, table, in_file, [name for name in wanted if name in keys])
                for batch in table.batches(in_file or table.columns[:1]):
                    n = len(next(iter(batch.values())))
                    n_rows += n
                    yield {name: batch[name] if name in in_file else [part.keys[name]] * n for name in wanted}

    def place(number: int) -> str:
        k = bisect.bisect_right(begins, number - 1) - 1
        part = parts[k]
        inside = source.path is not None and source.path.is_dir()
        name = part.entry or (part.path.relative_to(source.path or "") if inside else part.path)
        return f"{name}: row {number - begins[k]}"

    return Table(source.name, [*columns, *keys], is_text, batches, place, defaults=defaults)


def _check_part(folder: str, part: Part, table: Table, in_file: list[str], keys: list[str]) -> None:
    name = part.source.name
    for column in in_file:
        if table.columns.count(column) != 1 and table.complete:
            raise ValueError(
                f"{name}: there is no single column {column!r}, as in other files of {folder}; use the same columns"
            )
    for key in keys:
        if key not in part.keys:
            raise ValueError(f"{name}: no folder above it is called {key}=..., as with other files in {folder}")


# --- Content


def _entries(name: str, stream: IO[bytes]) -> list[str]:
    try:
        names = entries(name, stream)
    except DamagedError as error:
        raise ValueError(Note("gzip-damaged", name, packing=error.packing, where="", reason=error.reason)) from None
    if not names:
        raise ValueError(f"{name}: an archive without files; check how it was written")
    return names


def _by_content(source: Input, otherwise: str | None) -> str:
    """The format that the first bytes show."""
    with open_bytes(source) as stream:
        head = stream.read(_HEAD)
    return _sniff(source.name, head, otherwise)


def _sniff(name: str, head: bytes, otherwise: str | None) -> str:
    known = next((name_ for first, name_ in MAGIC.items() if head.startswith(first)), None)
    if known is not None or head[8:12] == b"DUCK":
        return known or "duckdb"
    if head[257:262] == b"ustar":
        raise ValueError(f"{name}: a tar archive, of which nothing is read; unpack it and name the folder, or use .zip")
    start = _JSON.match(head.removeprefix(b"\xef\xbb\xbf"))
    if start is not None and otherwise in (None, "csv", "json", "jsonl"):
        from somcot.readers.traces import is_trace

        if is_trace(head):
            return "traces"
        if otherwise in (None, "csv"):
            return "jsonl" if start[1] == b"{" else "json"
    if otherwise is not None:
        return otherwise
    raise ValueError(Note("unknown-ending", name, known=", ".join(ENDINGS)))


def _of_stream(name: str, stream: io.BufferedReader, format: str | None) -> Input:  # noqa: A002
    with contextlib.ExitStack() as stack:
        if name != _STDIN:
            stack.enter_context(stream)  # closed unless it is returned
        _peek(name, stream)
        head = preview(stream.peek(_HEAD))
        if head[:4] in ZIP and format not in ("npz", "xlsx"):
            return _of_piped_archive(name, stream, format)
        magic = () if format is None else FORMATS[format].magic
        if magic and not head.startswith(magic):  # an endless stream would be read until memory is full
            raise ValueError(f"{name}: does not begin like a .{format} file; check what comes through the pipe")
        source = Input(name, format or _sniff(name, head, "csv"), None, stream)
        stack.pop_all()
    return source


def _checked(name: str, action: Callable[[], Any]) -> Any:
    try:
        return action()
    except DamagedError as error:
        raise ValueError(Note("gzip-damaged", name, packing=error.packing, where="", reason=error.reason)) from None


def _of_piped_archive(name: str, stream: IO[bytes], format: str | None) -> Input:  # noqa: A002
    """The only table of an archive that comes through a pipe, which is kept in memory."""
    data = io.BytesIO(whole(Input(name, "csv", None, cast("io.BufferedReader", stream)), 1e9).getvalue())
    names = _entries(name, data)
    inner = _container(names) if format is None else None
    if inner is not None:
        data.seek(0)
        return Input(name, inner, None, io.BufferedReader(data))
    tables = [entry for entry in names if format or format_of(entry)] or names
    if len(tables) > 1:
        raise ValueError(f"{name}: an archive of {len(tables)} tables through a pipe; name the file instead")
    opened = _checked(name, lambda: open_entry(name, data, tables[0]))
    known = format or format_of(tables[0]) or "csv"
    return Input(name, format or _sniff(name, opened.peek(_HEAD), known), None, opened)


def _refuse_address(name: str) -> None:
    if _ADDRESS.match(name):
        raise ValueError(
            f"{name}: an address, but only files are read, so that no command loads anything from a network; download "
            "it first and name the file"
        )


def _expanded(path: str | os.PathLike[str]) -> Path:
    """The path with ~ replaced by the home folder, which shells do only at the beginning of a word."""
    file = Path(path)
    try:
        return file.expanduser() if not file.exists() else file
    except (OSError, RuntimeError, ValueError):
        return file


# --- Bytes, unpacked


@contextlib.contextmanager
def open_bytes(source: Input) -> Iterator[IO[bytes]]:
    """Open for reading, unpacked; missing, empty, damaged and unreadable files raise errors with their names."""
    with contextlib.ExitStack() as stack:
        opened = source.stream if source.path is None else _opened(source.path)
        assert opened is not None
        if source.name != _STDIN:
            stack.enter_context(opened)
        stream: IO[bytes] = opened
        try:
            if source.entry is not None:
                stream = unpacked(open_entry(source.name, opened, source.entry))
            elif source.path is not None and opened.peek(4)[:4] in ZIP and source.format not in ("npz", "xlsx"):
                stream = _only_entry(source, opened)
            else:
                stream = unpacked(opened)
            yield stream
        except DamagedError as error:
            where = Note("gzip-damaged", source.name, packing=error.packing, where="", reason=error.reason)
            raise ValueError(where) from None
        except ValueError as error:
            # Damaged data often look malformed before their checksum is reached; the damage is the better explanation.
            damage = _damage(stream) if is_packed(stream) and codes(error.args) != ["gzip-damaged"] else None
            if damage is not None:
                reason = {"packing": damage.packing, "where": "", "reason": damage.reason}
                raise ValueError(Note("gzip-damaged", source.name, **reason)) from None
            if str(error).startswith("unpacks to more"):
                raise ValueError(f"{source.name}: {error}") from None
            raise
        except OSError as error:
            if error.errno is None:  # raised by a package with its own message
                raise
            raise ValueError(f"{source.name}: cannot be read ({error.strerror}); check the disk") from None


def _only_entry(source: Input, opened: io.BufferedReader) -> IO[bytes]:
    names = _entries(source.name, opened)
    if len(names) > 1:
        shown = ", ".join(PurePosixPath(name).name for name in names[:3])
        raise ValueError(f"{source.name}: an archive of {len(names)} files ({shown}, ...); unpack the one you mean")
    return unpacked(open_entry(source.name, opened, names[0]))


def _damage(stream: IO[bytes]) -> DamagedError | None:
    """The damage of compressed data, if their end is near enough to check; damaged data look malformed earlier.

    Only the checksum at the end distinguishes them from malformed data that were compressed correctly.
    """
    try:
        left = _TO_THE_END
        while left > 0 and (data := stream.read(1 << 20)):
            left -= len(data)
    except DamagedError as error:
        return error
    except (OSError, ValueError):  # closed by the reader
        return None
    return None


def whole(source: Input, limit: float) -> io.BytesIO:
    """A file in memory with all bytes, for formats that must be read from the end."""
    # Half of the memory that is left: the bytes and what is parsed from them exist at the same time.
    limit = min(limit, 0.5 * memory_limit())
    with open_bytes(source) as stream:
        data = stream.read(int(limit) + 1)
    if len(data) > limit:
        raise ValueError(f"{source.name}: longer than {limit / 1e9:.1f} GB; write it to a file and name that")
    return io.BytesIO(data)


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


def _peek(name: str, stream: io.BufferedReader) -> None:
    try:
        head = stream.peek(4)[:4]
    except OSError:
        raise ValueError(f"{name}: closed; pipe data in, or name a file") from None
    if not head:
        raise ValueError(f"{name}: empty; the command before the pipe wrote nothing")


# --- Reading any file


def read(
    path: Source | Input,
    *,
    format: str | None = None,  # noqa: A002
    **options: object,
) -> Samples | MarkovChain | ContinuousChain:
    r"""Read a process from a file of any supported kind.

    Parameters
    ----------
    path : path, pattern, list of paths, or "-"
        Tables (.csv .tsv .jsonl .json .parquet .arrow .orc .avro .xlsx .sqlite .duckdb .seq), event logs (.xes), traces
        of AI agents (.traj) and any JSON with them, or several of these files (a folder, an archive, a pattern, a
        list), arrays (.npy .npz), graphs (.graphml .gml .edges), PRISM files (.tra) or baselines (.somcot); "-" is
        standard input. Files may be compressed: .gz, .bz2, .xz, .zst or .zip.
    format : str, optional
        One of csv, tsv, jsonl, json, parquet, arrow, orc, avro, xlsx, sqlite, duckdb, seq, xes, traces, npy, npz,
        graphml, gml, edges, tra, somcot, if the extension does not tell.
    **options
        Options of `from_table`, `from_xes`, `from_traces`, `read_arrays`, `read_graph`, `read_prism` or
        `read_baseline`, depending on the kind of file; options of other kinds are refused.

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
