"""Atomic file writes: write a temporary file in the same folder, sync it to disk, and rename it.

After any interruption the target is either the complete old file or the complete new one. Symbolic links are not
followed, and the command line replaces only files that carry the mark of somcot (`check_replaceable`).
"""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

try:
    import fcntl as _locks

    fcntl: Any = _locks
except ImportError:  # Windows: open files cannot be removed, so no lock is needed
    fcntl = None

__all__ = [
    "FIGURE_MARKS",
    "BusyError",
    "Path_",
    "check_replaceable",
    "check_target",
    "exclusive",
    "replacing",
    "write_bytes",
]

Path_ = str | os.PathLike[str]
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)

# How each format of output says that somcot wrote it; the writers are elsewhere, a test runs every one of them.
# NumPy's .npy has no place for a mark.
_MARKS = re.compile(
    rb"somcot checkpoint |"  # checkpoints, monitors, results, baselines
    rb"<!doctype html>\s*<html[^>]*>\s*<head>.{0,200}?<title>somcot|"
    rb"\x89PNG.{0,100}?Software\0somcot|"
    rb"<\?xml.{0,4000}?<dc:title>somcot<|"  # SVG
    rb"%PDF.*/Creator \(somcot\)|"
    rb"\xff\xd8.{0,200}?\xff\xfe\0\x08somcot|"  # JPEG
    rb"<\?xml[^>]*>\s*<testsuite name=\"somcot\"|"
    rb"### .*\n<!-- somcot -->\n\Z|"  # Markdown
    rb"# HELP somcot_|"  # Prometheus
    rb"\{\s*\"somcot\":|"  # JSON
    rb"somcot metric,|x,y,distance,low,high,plugin,|"  # CSV
    rb"PAR1.*written by.{1,4}somcot",
    re.DOTALL | re.IGNORECASE,
)
# Arguments of Matplotlib's `savefig` that put the mark into a figure.
FIGURE_MARKS: dict[str, dict[str, Any]] = {
    "png": {"metadata": {"Software": "somcot"}},
    "svg": {"metadata": {"Creator": "somcot"}},
    "pdf": {"metadata": {"Creator": "somcot"}},
    "jpg": {"pil_kwargs": {"comment": b"somcot"}},
}
_END = 1 << 16  # bytes at each end of a file in which marks are searched


class BusyError(ValueError):
    """Another run has locked the file."""


def write_bytes(path: Path_, content: bytes) -> None:
    """Write a file, replacing an existing one atomically.

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
    """Check before a long computation that a file can be written."""
    if not (isinstance(path, (str, os.PathLike)) and os.fspath(path)):
        raise TypeError(f"{name}: found {path!r}, expected the name of a file")
    _refuse_link(f"{name}: ", path)
    folder = os.path.dirname(os.path.abspath(os.fspath(path)))
    if os.path.isdir(path) or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise ValueError(f"{name}: cannot write {os.fspath(path)!r}; give a file in a folder that exists")


def check_replaceable(option: str, path: Path_, *, force: bool = False) -> None:
    """Refuse a link as an output and, without `force`, a file that does not carry the mark of somcot.

    Empty files, pipes and devices are accepted: nothing would be lost.

    Examples
    --------
    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.html")
    >>> write_bytes(path, b"<html>three years of work</html>")
    >>> check_replaceable("--html", path)
    Traceback (most recent call last):
        ...
    ValueError: --html: ...a.html exists and has no mark of somcot; name another file, or pass --force to replace it
    """
    if _open_file(path) is not None:
        return
    _refuse_link(f"{option}: ", path)
    if not force and os.path.isfile(path) and not _marked(path):
        shown = os.fspath(path)
        raise ValueError(
            f"{option}: {shown} exists and has no mark of somcot; name another file, or pass --force to replace it"
        )


def _marked(path: Path_) -> bool:
    """Whether a file is empty or carries the mark of somcot; one that cannot be read does not."""
    try:
        with open(path, "rb") as stream:
            content = stream.read(_END)
            stream.seek(max(_END, os.fstat(stream.fileno()).st_size - _END))
            # Parquet and PDF have their metadata at the end.
            content += stream.read(_END)
    except OSError:
        return False
    return not content or _MARKS.match(content) is not None


def _refuse_link(where: str, path: Path_) -> None:
    if os.path.islink(path):
        shown = os.fspath(path)
        raise ValueError(f"{where}{shown} is a symbolic link, which is not followed; name the file it points to")


@contextlib.contextmanager
def replacing(path: Path_) -> Iterator[IO[bytes]]:
    """Open a new file for writing that replaces `path` if the block ends without an error.

    A symbolic link is refused, folders are created, and the mode is that of the old file or follows the umask. Pipes,
    devices and open files such as ``/dev/stdout`` are written to directly. An `OSError` names `path`.
    """
    target = _target(path)
    try:
        # /dev/stdout and pipes cannot be replaced by renaming.
        handle = _open_file(path)
        if handle is None and target.is_symlink():
            raise OSError(errno.ELOOP, "it is a symbolic link, which is not followed; name the file it points to")
        if handle is not None or (target.exists() and not target.is_file()):
            opened = os.open(path, os.O_WRONLY | _NO_LINK) if handle is None else os.dup(handle)
            with os.fdopen(opened, "wb") as stream:
                yield stream
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(target)
        with _temporary(target) as (stream, name):
            yield stream
            stream.flush()
            # The content must be on disk before the name points to
            # it: otherwise a power failure can leave an empty file.
            os.fsync(stream.fileno())
            os.replace(name, target)  # of a link made meanwhile, the link itself
        # ... and so must the rename itself.
        _sync_folder(target.parent)
    except OSError as error:
        what = f"could not be written ({error.strerror or error}); what was there before is kept"
        raise OSError(error.errno, what, os.fspath(path)) from error


def _target(path: Path_) -> Path:
    """The path with links to folders resolved, but not the last part."""
    folder, name = os.path.split(os.fspath(path))
    return Path(os.path.realpath(folder), name)


def _open_file(path: Path_) -> int | None:
    """The descriptor of a path such as ``/dev/stdout``, which must not be replaced by a new file."""
    name = os.path.abspath(path)
    number = {"/dev/stdout": "1", "/dev/stderr": "2"}.get(name, name.removeprefix("/dev/fd/"))
    return int(number) if number.isdigit() else None


@contextlib.contextmanager
def exclusive(path: Path_) -> Iterator[None]:
    """Lock `path` for this run during the block; raise `BusyError` if another run has locked it.

    A lock file in the same folder contains the process id. The system releases the lock when the process ends for any
    reason, so locks cannot become stale.
    """
    if fcntl is None:
        yield
        return
    target = _target(path)
    name = target.parent / f"{_prefix(target)}lock"
    handle = _locked(path, name)
    try:
        # The process id is only for the message to other processes; the lock is the system's.
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode("ascii"))
        yield
    finally:
        # Removed while still locked: a process that opens the name afterwards creates a new file.
        with contextlib.suppress(OSError):
            os.unlink(name)
        os.close(handle)


def _locked(path: Path_, name: Path) -> int:
    """Open and lock the lock file."""
    while True:
        # The file is truncated later, so the name must not lead to another one.
        handle = os.open(name, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o666)
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
        os.close(handle)  # the previous owner removed it between open and lock


def _is_still(handle: int, name: str | Path) -> bool:
    """Whether an open file still has this name."""
    try:
        return os.path.samestat(os.stat(name), os.fstat(handle))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _temporary(target: Path) -> Iterator[tuple[IO[bytes], str]]:
    """A temporary file in the target's folder, removed unless it was renamed."""
    handle, name = _created(target)
    try:
        with os.fdopen(handle, "wb") as stream:
            if target.exists():
                # Otherwise a private file would become readable by others when it is replaced.
                os.chmod(name, stat.S_IMODE(target.stat().st_mode))
            yield stream, name
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)


def _created(target: Path) -> tuple[int, str]:
    """A new temporary file, locked to show that its writer is alive."""
    while True:
        name = str(target.parent / f"{_prefix(target)}{secrets.token_hex(4)}.part")
        # O_EXCL: a name that exists already belongs to another writer.
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        if fcntl is not None:
            with contextlib.suppress(OSError):  # some file systems have no locks
                fcntl.flock(handle, fcntl.LOCK_EX)
            if not _is_still(handle, name):  # removed as stale before it was locked
                os.close(handle)
                continue
        return handle, name


def _prefix(target: Path) -> str:
    """Prefix of the temporary names; short, because file names have a maximal length."""
    digest = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:8]
    return f".{target.name[:40]}.{digest}."


def _remove_stale(target: Path) -> None:
    """Remove temporary files whose writers are no longer running."""
    for name in glob.iglob(str(Path(glob.escape(str(target.parent)), f"{glob.escape(_prefix(target))}*.part"))):
        with contextlib.suppress(OSError):
            _remove_abandoned(name)


def _remove_abandoned(name: str) -> None:
    """Remove an unlocked file while holding its lock, since its writer may be about to lock it."""
    # Neither a link nor a pipe under this name may lead elsewhere or make this wait.
    handle = os.open(name, os.O_RDONLY | _NO_LINK | getattr(os, "O_NONBLOCK", 0))
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(name)
    finally:
        os.close(handle)
    if fcntl is None:
        os.unlink(name)


def _sync_folder(folder: Path) -> None:
    """Sync the rename to disk, if the system allows opening folders."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    with contextlib.suppress(OSError):  # the file is complete; not every file system syncs folders
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
