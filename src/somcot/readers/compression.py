"""Compressed files: gzip, bzip2, xz, zstandard and zip archives, unpacked as streams; nothing is written to disk.

Only what is read is unpacked. A stream that grows far beyond what any log does is refused, and so are archives whose
entries have unsafe names or claim impossible sizes.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any, cast

from somcot.plumbing.memory import memory_limit

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = [
    "PACKED",
    "ZIP",
    "DamagedError",
    "entries",
    "is_packed",
    "open_entry",
    "preview",
    "unpacked",
    "without_packing",
]

PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_FREE = 1 << 28  # bytes that any stream may unpack to
_MOST = 5_000  # and how many times its packed size after that; real logs shrink to a tenth or a hundredth
_DEFLATE = 1_100  # times that deflate can shrink data, about
_MANY = 1_000_000  # entries of an archive
_ARCHIVE = 1 << 30  # bytes of an archive that comes through a pipe
_BROKEN = (gzip.BadGzipFile, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError)
# What the standard library raises for a damaged table of contents: names that are no text, versions that do not exist.
_BROKEN_ARCHIVE = (zipfile.BadZipFile, NotImplementedError, ValueError, OverflowError, struct.error)


class DamagedError(ValueError):
    """Packed data that cannot be unpacked: how they are packed, and why they cannot."""

    def __init__(self, packing: str, reason: str) -> None:
        super().__init__(f"{packing} data are damaged ({reason})")
        self.packing, self.reason = packing, reason


def without_packing(name: str) -> str:
    """A file name without the ending of a compressed file.

    Examples
    --------
    >>> without_packing("log.csv.zst"), without_packing("log.csv")
    ('log.csv', 'log.csv')
    """
    ending = next((ending for ending in PACKED if name.lower().endswith(ending)), "")
    return name[: len(name) - len(ending)]


class _Counted(io.RawIOBase):
    """A stream that counts the bytes read from it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self.n_bytes = stream, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        # At most what the buffer holds, so that the count never runs far ahead of what was unpacked.
        data = self._stream.read(len(memoryview(buffer)))
        memoryview(buffer)[: len(data)] = data
        self.n_bytes += len(data)
        return len(data)


class _Unpacked(io.RawIOBase):
    """Unpacked bytes; every failure to unpack is a `DamagedError`, and a bomb is refused."""

    def __init__(self, packing: str, inner: IO[bytes], packed: Callable[[], int]) -> None:
        self.packing, self._inner, self._packed, self.n_bytes = packing, inner, packed, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        try:
            data = self._inner.read(len(view))
        except _BROKEN as error:
            raise DamagedError(self.packing, str(error)) from None
        except OSError as error:
            # Decompressors raise OSError without a number for bad data, and the system with one for bad disks.
            if error.errno is not None:  # the disk's, not the packing's
                raise
            raise DamagedError(self.packing, str(error)) from None
        view[: len(data)] = data
        self.n_bytes += len(data)
        # Measured while unpacking, since a header can lie about its size.
        if self.n_bytes > _FREE and self.n_bytes > _MOST * self._packed():
            raise ValueError(
                f"unpacks to more than {_MOST:,} times its size, which no log does; if it is genuine, unpack it first"
            )
        return len(data)


def unpacked(stream: io.BufferedReader[Any]) -> IO[bytes]:
    """The unpacked bytes of a stream, recognised by its first bytes; the stream itself if it is not compressed."""
    head = stream.peek(6)[:6]
    packing = next((name for first, name in _PACKINGS.items() if head.startswith(first)), None)
    if packing is None:
        return stream
    # Only now is the count wrapped around the stream: plain files keep their own, faster reads.
    counted = _Counted(stream)
    inner = _OPENED[packing](cast("IO[bytes]", io.BufferedReader(counted, 1 << 16)))
    return io.BufferedReader(_Unpacked(packing, inner, lambda: counted.n_bytes), 1 << 18)


def preview(head: bytes) -> bytes:
    """The first unpacked bytes of a stream whose first bytes are known; empty if these are too few to unpack any."""
    try:
        stream = unpacked(io.BufferedReader(io.BytesIO(head)))
        raw = getattr(stream, "raw", None)
        if not isinstance(raw, _Unpacked):
            return head
        # `raw.read` returns what one step unpacks; the buffered stream would ask for more than `head` has.
        return raw.read(4096) or b""
    except ValueError:
        return b""


def is_packed(stream: IO[bytes]) -> bool:
    """Whether a stream is unpacked on the fly, so that the size of the file is not that of the data."""
    return isinstance(getattr(stream, "raw", None), _Unpacked)


def _zstandard(stream: IO[bytes]) -> IO[bytes]:
    import pyarrow as pa

    # pyarrow is a dependency already and brings zstandard, which the standard library lacks before 3.14.
    inner: IO[bytes] = pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), "zstd")
    return inner


_PACKINGS = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstandard"}
_OPENED: dict[str, Callable[[IO[bytes]], IO[bytes]]] = {
    "gzip": lambda stream: cast("IO[bytes]", gzip.GzipFile(fileobj=stream)),
    "bzip2": lambda stream: cast("IO[bytes]", bz2.BZ2File(stream)),
    "xz": lambda stream: cast("IO[bytes]", lzma.LZMAFile(stream)),  # noqa: SIM115
    "zstandard": _zstandard,
}


# --- Archives


def _archive(name: str, stream: IO[bytes]) -> zipfile.ZipFile:
    # The table of contents is at the end of an archive, so a pipe must be kept whole.
    if not stream.seekable():
        data = stream.read(int(min(_ARCHIVE, 0.25 * memory_limit())) + 1)
        if len(data) > min(_ARCHIVE, 0.25 * memory_limit()):
            raise ValueError(f"{name}: an archive of more than {_ARCHIVE >> 30} GB from a pipe; name the file instead")
        stream = io.BytesIO(data)
    try:
        archive = zipfile.ZipFile(stream)
    except _BROKEN_ARCHIVE as error:
        raise DamagedError("zip", str(error)) from None
    if not all(row.filename for row in archive.infolist()):
        raise DamagedError("zip", "an entry has no name")
    return archive


def entries(name: str, stream: IO[bytes]) -> list[str]:
    """The names of the files in an archive, except hidden ones; unsafe archives are refused.

    Parameters
    ----------
    name : str
        Name of the archive in messages.
    stream : file
    """
    archive = _archive(name, stream)
    rows = [row for row in archive.infolist() if not row.is_dir()]
    if len(rows) > _MANY:
        raise ValueError(f"{name}: an archive of {len(rows):,} files, expected at most {_MANY:,}; unpack it first")
    for row in rows:
        # Some programs write backslashes, which would hide '..' on other systems.
        path = PurePosixPath(row.filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
            raise ValueError(
                f"{name}: the entry {row.filename[:80]!r} points out of the archive, so it is not read; make the "
                "archive anew, with relative names"
            )
        if row.flag_bits & 1:
            raise ValueError(f"{name}: the entry {row.filename[:80]!r} is encrypted; unpack it first")
    packed = sum(row.compress_size for row in rows)
    # Overlapping entries make a small archive claim any size; neither they nor deflate can pass both limits.
    if sum(row.file_size for row in rows) > _DEFLATE * packed + _FREE or packed > _size(archive):
        raise ValueError(f"{name}: the entries claim more bytes than the archive can hold; make the archive anew")
    return [
        row.filename
        for row in rows
        # macOS adds hidden twins of every file, which are no tables.
        if not any(part.startswith((".", "__MACOSX")) for part in PurePosixPath(row.filename).parts)
    ]


def _size(archive: zipfile.ZipFile) -> int:
    file = archive.fp
    assert file is not None
    return file.seek(0, io.SEEK_END)


def open_entry(name: str, stream: IO[bytes], entry: str) -> io.BufferedReader[Any]:
    """One file of an archive, unpacked while it is read; archives inside archives are not opened."""
    archive = _archive(name, stream)
    try:
        row = archive.getinfo(entry)
        inner = archive.open(row)
    except (*_BROKEN_ARCHIVE, KeyError, RuntimeError) as error:
        raise DamagedError("zip", str(error)) from None
    opened = io.BufferedReader(_Unpacked("zip", inner, lambda: row.compress_size), 1 << 18)
    # Spreadsheets and .npz are archives too, but they are read as such.
    if opened.peek(4)[:4] in ZIP and PurePosixPath(entry).suffix.lower() not in (".xlsx", ".npz"):
        raise ValueError(f"{name}: the entry {entry[:80]!r} is itself an archive; unpack the outer one first")
    return opened
