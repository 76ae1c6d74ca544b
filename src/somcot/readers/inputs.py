"""Opening what a user points at: files by their ending or first bytes, gzip, standard input, text encodings."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from somcot.readers.formats import ENDINGS, FORMATS, MAGIC

__all__ = ["Input", "as_utf8", "identify", "open_bytes", "whole"]


class Input(NamedTuple):
    """A file, or standard input when `path` is None: what to call it and what it holds."""

    name: str
    format: str
    path: Path | None


def identify(path: str | os.PathLike[str], format: str | None = None) -> Input:  # noqa: A002
    """Find out what a file holds, from `format`, its ending, or its first bytes.

    Examples
    --------
    >>> identify("log.csv.gz", "csv").format
    'csv'
    """
    if format is not None and format not in FORMATS:
        raise ValueError(f"format: found {format!r}, expected one of {', '.join(FORMATS)}")
    if os.fspath(path) == "-":
        return Input("standard input", format or _sniff("standard input", _peek(_stdin())), None)
    file = Path(path)
    if format is None:
        format = ENDINGS.get(Path(file.name.removesuffix(".gz")).suffix.lower())  # noqa: A001
    if format is None:
        with _opened(file) as stream:
            format = _sniff(str(file), stream.read(4))  # noqa: A001
    return Input(str(file), format, file)


@contextlib.contextmanager
def open_bytes(source: Input) -> Iterator[IO[bytes]]:
    """Open for reading, gunzipping on the way; what is missing, empty or unreadable is named."""
    if source.path is None:
        yield _unzipped(_stdin(), source.name)
        return
    with _opened(source.path) as stream:
        yield _unzipped(stream, source.name)


def whole(source: Input, limit: float) -> io.BytesIO:
    """All bytes at once, for formats that must be read from their end."""
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


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    try:
        if path.is_dir():
            raise ValueError(f"{path}: a folder, expected a file; name the file inside it")
        with path.open("rb") as stream:
            if not path.stat().st_size and path.is_file():
                raise ValueError(f"{path}: the file is empty; check how it was written")
            yield stream
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


def _peek(stream: io.BufferedReader) -> bytes:
    try:
        head = stream.peek(4)[:4]
    except OSError:
        raise ValueError("standard input: closed; pipe data in, or name a file instead of -") from None
    if not head:
        raise ValueError("standard input: empty; the command before the pipe wrote nothing")
    return head


def _unzipped(stream: IO[bytes], name: str) -> IO[bytes]:
    buffered: Any = stream if hasattr(stream, "peek") else io.BufferedReader(stream)
    if name == "standard input":
        _peek(buffered)
    if buffered.peek(2)[:2] == b"\x1f\x8b":
        buffered = io.BufferedReader(gzip.GzipFile(fileobj=buffered))
    opened: IO[bytes] = buffered
    return opened


def _sniff(name: str, head: bytes) -> str:
    if head in MAGIC:
        return MAGIC[head]
    if head[:1] == b"{":
        return "jsonl"
    if name == "standard input":
        return "csv"
    known = ", ".join(ENDINGS)
    raise ValueError(
        f"{name}: cannot tell what it holds from its ending; pass format (--format), or use one of {known}"
    )
