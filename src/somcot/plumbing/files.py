"""Writing files so that nothing is lost: beside the target first, forced to disk, put in place in one move.

Whatever happens on the way, the target is either the old file or the new one, whole.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

try:
    import fcntl as _locks

    fcntl: Any = _locks
except ImportError:  # elsewhere open files cannot be removed, which protects those of others as well
    fcntl = None

__all__ = ["BusyError", "Path_", "check_target", "exclusive", "replacing", "write_bytes"]

Path_ = str | os.PathLike[str]


class BusyError(ValueError):
    """Another run holds the file."""


def write_bytes(path: Path_, content: bytes) -> None:
    """Write a whole file, replacing what is there in one move.

    Examples
    --------
    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.txt")
    >>> write_bytes(path, b"all of it")
    >>> Path(path).read_bytes()
    b'all of it'
    """
    with replacing(path) as stream:
        stream.write(content)


def check_target(name: str, path: Any) -> None:
    """Find out before the work, not after it, that a file cannot be written; None is fine."""
    if path is None:
        return
    if not (isinstance(path, (str, os.PathLike)) and os.fspath(path)):
        raise TypeError(f"{name}: found {path!r}, expected the name of a file")
    folder = os.path.dirname(os.path.abspath(os.fspath(path)))
    if os.path.isdir(path) or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise ValueError(f"{name}: cannot write {os.fspath(path)!r}; give a file in a folder that exists")


@contextlib.contextmanager
def replacing(path: Path_) -> Iterator[IO[bytes]]:
    """Open a new file for writing that takes the place of `path` when the block ends without an error.

    Links are followed, folders are made, and the mode is that of the old file or what the umask allows. Pipes,
    devices and open files such as ``/dev/stdout`` are written to directly. An `OSError` names `path`.
    """
    target = Path(os.path.realpath(path))
    try:
        handle = _open_file(path)
        if handle is not None or (target.exists() and not target.is_file()):
            with os.fdopen(os.open(path, os.O_WRONLY) if handle is None else os.dup(handle), "wb") as stream:
                yield stream
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(target)
        with _beside(target) as (stream, name):
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            os.replace(name, target)
        _sync_folder(target.parent)
    except OSError as error:
        what = f"could not be written ({error.strerror or error}); what was there before is kept"
        raise OSError(error.errno, what, os.fspath(path)) from error


def _open_file(path: Path_) -> int | None:
    """The number behind a name that means a file open already; to put another in its place would lose its content."""
    name = os.path.abspath(path)
    number = {"/dev/stdout": "1", "/dev/stderr": "2"}.get(name, name.removeprefix("/dev/fd/"))
    return int(number) if number.isdigit() else None


@contextlib.contextmanager
def exclusive(path: Path_) -> Iterator[None]:
    """Keep `path` to this run while the block lasts; raise `BusyError` when another run has it.

    A lock file beside it holds the number of the process. The system drops the lock when a process dies, however it
    dies, so that nobody waits for the dead.
    """
    if fcntl is None:
        yield
        return
    target = Path(os.path.realpath(path))
    name = target.parent / f"{_prefix(target)}lock"
    handle = _locked(path, name)
    try:
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode("ascii"))
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)
        os.close(handle)


def _locked(path: Path_, name: Path) -> int:
    """An open lock file that is ours."""
    while True:
        handle = os.open(name, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(handle, 20).decode("ascii", "replace") or "unknown"
            os.close(handle)
            raise BusyError(
                f"{os.fspath(path)}: in use by another run (process {owner}); wait for it, or name another file"
            ) from None
        except OSError:  # a file system without locks
            return handle
        if _is_still(handle, name):
            return handle
        os.close(handle)  # the run before removed it between our two calls


def _is_still(handle: int, name: str | Path) -> bool:
    """Whether an open file still has its name."""
    try:
        return os.path.samestat(os.stat(name), os.fstat(handle))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _beside(target: Path) -> Iterator[tuple[IO[bytes], str]]:
    """A new file in the target's folder, removed unless it was moved away."""
    handle, name = _created(target)
    try:
        with os.fdopen(handle, "wb") as stream:
            if target.exists():
                os.chmod(name, stat.S_IMODE(target.stat().st_mode))
            yield stream, name
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)


def _created(target: Path) -> tuple[int, str]:
    """A fresh temporary file, locked so that others know that its writer lives."""
    while True:
        name = str(target.parent / f"{_prefix(target)}{secrets.token_hex(4)}.part")
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        if fcntl is not None:
            with contextlib.suppress(OSError):  # there are file systems without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
            if not _is_still(handle, name):  # taken for a dead one's before it was locked
                os.close(handle)
                continue
        return handle, name


def _prefix(target: Path) -> str:
    """The beginning of the names beside the target: short, since names have a longest length."""
    digest = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:8]
    return f".{target.name[:40]}.{digest}."


def _remove_stale(target: Path) -> None:
    """Remove temporary files whose writers are dead, and only those."""
    for name in glob.iglob(str(Path(glob.escape(str(target.parent)), f"{glob.escape(_prefix(target))}*.part"))):
        with contextlib.suppress(OSError):
            _remove_abandoned(name)


def _remove_abandoned(name: str) -> None:
    """Remove a file that nobody has locked, with the lock in hand: its writer may just be about to take it."""
    handle = os.open(name, os.O_RDONLY)
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(name)
    finally:
        os.close(handle)
    if fcntl is None:
        os.unlink(name)


def _sync_folder(folder: Path) -> None:
    """Force the move itself to disk, where the system allows opening folders."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    with contextlib.suppress(OSError):  # the file is in place and whole; not every file system syncs folders
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
