"""Opening what a user points at: files by their ending or first bytes, gzip, standard input, text encodings."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from somcot.plumbing.memory import memory_limit
from somcot.readers.folders import format_of_folder
from somcot.readers.formats import ENDINGS, FORMATS, MAGIC

__all__ = ["Input", "as_utf8", "format_of", "identify", "is_zipped", "open_bytes", "whole"]

_STDIN = "standard input"
_GZIP = b"\x1f\x8b"
_TO_THE_END = 1 << 28  # bytes that are unpacked to find out whether data are damaged
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


class Input(NamedTuple):
    """A file, or a stream that can be read only once, when `path` is None: what to call it and what it holds."""

    name: str
    format: str
    path: Path | None
    stream: io.BufferedReader | None = None


def identify(path: str | os.PathLike[str], format: str | None = None) -> Input:  # noqa: A002
    """Find out what a file holds, from `format`, its ending, or its first bytes. Pipes are opened here, once.

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
        raise ValueError(f"{os.fspath(path)!r}: no file can be called so (it holds a NUL); check the name")
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
    """A folder of tables is one table; other kinds of files have to be named."""
    found = format_of_folder(folder)
    if format not in (None, found):
        raise ValueError(f"{folder}: a folder of {found} files, and format asks for {format}; leave it out")
    return Input(str(folder), found, folder)


def format_of(path: str | os.PathLike[str]) -> str | None:
    """The format that the ending of a name tells, if it does.

    Examples
    --------
    >>> format_of("log.csv.gz"), format_of("/dev/stdin")
    ('csv', None)
    """
    return ENDINGS.get(Path(Path(path).name.removesuffix(".gz")).suffix.lower())


def _of_stream(name: str, stream: io.BufferedReader, format: str | None) -> Input:  # noqa: A002
    with contextlib.ExitStack() as stack:
        if name != _STDIN:
            stack.enter_context(stream)  # closed unless it is handed over
        head = _peek(name, stream)
        wanted = () if format is None else FORMATS[format].magic
        if wanted and not head.startswith((_GZIP, *wanted)):  # an endless stream would be read until memory is full
            raise ValueError(f"{name}: does not begin like a .{format} file; check what comes through the pipe")
        source = Input(name, format or _sniff(name, head, "csv"), None, stream)
        stack.pop_all()
    return source


def _refuse_address(name: str) -> None:
    if _ADDRESS.match(name):
        raise ValueError(f"{name}: an address, but only files are read; download it first and name the file")


def _expanded(path: str | os.PathLike[str]) -> Path:
    """With ~ replaced by the home folder, as shells do only at the beginning of a word."""
    file = Path(path)
    try:
        return file.expanduser() if not file.exists() else file
    except (OSError, RuntimeError, ValueError):
        return file


@contextlib.contextmanager
def open_bytes(source: Input) -> Iterator[IO[bytes]]:
    """Open for reading, gunzipping on the way; what is missing, empty or unreadable is named."""
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
            raise ValueError(f"{source.name}: the gzip data are damaged ({error}); copy or compress it again") from None
        except ValueError as error:
            damage = _damage(stream) if is_zipped(stream) else None
            if damage is None or "gzip data are damaged" in str(error):
                raise
            raise ValueError(
                f"{source.name}: the gzip data are damaged ({damage}); copy or compress it again"
            ) from None
        except OSError as error:
            if error.errno is None:  # of a package, which says it in words of its own
                raise
            raise ValueError(f"{source.name}: cannot be read ({error.strerror}); check the disk") from None


def _damage(stream: IO[bytes]) -> str | None:
    """What is wrong with packed data, if their end is near enough to look; damaged ones are nonsense before they end.

    Only at the end a checksum tells them from nonsense that was packed as it is.
    """
    try:
        left = _TO_THE_END
        while left > 0 and (data := stream.read(1 << 20)):
            left -= len(data)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        return str(error)
    except (OSError, ValueError):  # closed by whoever read it
        return None
    return None


def is_zipped(stream: IO[bytes]) -> bool:
    """Whether a stream of `open_bytes` unpacks on the way, so that the size of the file says nothing."""
    return isinstance(getattr(stream, "raw", None), gzip.GzipFile)


def whole(source: Input, limit: float) -> io.BytesIO:
    """All bytes at once, for formats that must be read from their end."""
    limit = min(limit, 0.5 * memory_limit())
    with open_bytes(source) as stream:
        data = stream.read(int(limit) + 1)
    if len(data) > limit:
        raise ValueError(f"{source.name}: longer than {limit / 1e9:.1f} GB; write it to a file and name that")
    return io.BytesIO(data)


def as_utf8(stream: IO[bytes], encoding: str) -> IO[bytes]:
    """The same text in UTF-8, whatever its encoding."""
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

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            self._left = self._text.read(1 << 16).encode("utf-8")
        n = min(len(buffer), len(self._left))
        buffer[:n], self._left = self._left[:n], self._left[n:]
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
    found: io.BufferedReader = stream
    return found


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
    raise ValueError(
        f"{name}: cannot tell what it holds from its ending; pass format (--format), or use one of {known}"
    )
