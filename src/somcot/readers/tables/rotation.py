"""A log file that grows and is rotated: renamed, or copied and emptied, while another file takes its name."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LogFile", "Place"]

_TAIL = 64  # bytes before the place that identify a file
_PACKED = (".gz", ".xz", ".bz2", ".zst")


@dataclass
class Place:
    """Position in the source at which the next block begins, and what was left out so far.

    ``inode`` and ``tail``, the last bytes before the position, identify the file after it was renamed or copied.
    """

    offset: int = 0
    line: int = 1
    broken: int = 0
    names: list[str] | None = None
    inode: int = 0
    tail: str = ""

    def advance(self, data: bytes) -> None:
        """Move behind some bytes."""
        self.offset += len(data)
        self.tail = (bytes.fromhex(self.tail) + data)[-_TAIL:].hex()


class LogFile:
    """An open log file at a place, or what has become of it.

    Parameters
    ----------
    path : Path
    place : Place
        Starting position; kept up to date with the file that is read.
    follow : bool
        Whether the file is read while it grows.
    note : callable
        Takes messages for the user.
    """

    def __init__(self, path: Path, place: Place, *, follow: bool, note: Callable[[str], None]) -> None:
        self.path, self.place, self.follow, self.note = path, place, follow, note
        self._idle = False  # whether there was nothing new since the file was seen to be rotated
        self.descriptor = os.open(path, os.O_RDONLY)
        known = place.inode in (0, os.fstat(self.descriptor).st_ino)
        if place.offset == 0 or (known and self._is_same(self.descriptor)):
            self._adopt(self.descriptor, place.offset)
        elif not self._found_again("was rotated"):
            self._begin_anew()

    def _begin_anew(self) -> None:
        """The file is not the one that was read, and that one is not there."""
        size = os.fstat(self.descriptor).st_size
        if self.place.line <= 2 and self.place.tail:  # no event of it was read
            self._adopt(self.descriptor, 0)
            return
        if not self.place.inode and size >= self.place.offset and self._is_same(self.descriptor):
            self._adopt(self.descriptor, self.place.offset)
            return
        if not self.follow or not self.place.tail:
            what = f"is shorter ({size:,} bytes) than what was read of it ({self.place.offset:,})"
            if size >= self.place.offset:
                what = "is not the file that was read"
            raise ValueError(f"{self.path}: {what}; it is another file, or was cut: use another --state-file")
        self.note(f"{self.path}: is another file, and the one that was read is gone: events may be missing")
        self._adopt(self.descriptor, 0)

    def _is_same(self, file: int) -> bool:
        """Whether a file has the last bytes that were read where they were read."""
        if os.fstat(file).st_size < self.place.offset:
            return False
        tail = bytes.fromhex(self.place.tail)
        return not tail or os.pread(file, len(tail), self.place.offset - len(tail)) == tail

    def _rotated(self) -> list[Path]:
        """Files that the source may have become, the oldest first."""
        name = self.path.name
        found = [p for p in self.path.parent.iterdir() if p.name.startswith((f"{name}.", f"{name}-")) and p.is_file()]
        return sorted((p for p in found if p.suffix not in _PACKED), key=lambda p: (p.stat().st_mtime_ns, p.name))

    def _found_again(self, what: str) -> bool:
        """Continue in the renamed file or the copy that contains the part already read, if there is one.

        A renamed file keeps its inode. A copy, or a file of the same name that begins with what was read,
        is known by the last bytes that were read, if these are more than the header, which all files have.
        """
        paths = self._rotated() if self.place.tail else []
        renamed = [p for p in paths if p.stat().st_ino == self.place.inode]
        copies = [self.path, *(p for p in paths if p not in renamed)] if self.place.line > 2 else []
        for path in [*renamed, *copies]:
            file = os.open(path, os.O_RDONLY)
            if self._is_same(file):
                if path != self.path:
                    self.note(f"{self.path}: {what}; going on in {path.name}")
                os.close(self.descriptor)
                self._adopt(file, self.place.offset)
                return True
            os.close(file)
        return False

    def _adopt(self, file: int, offset: int) -> None:
        """Read on from an open file."""
        self.descriptor, self._idle = file, False
        self.place.inode, self.place.offset = os.fstat(file).st_ino, offset
        if offset == 0:
            self.place.tail, self.place.line = "", 1
        os.lseek(file, offset, os.SEEK_SET)

    def check(self) -> bool:
        """Whether the file still contains the part already read; if it was truncated, another file is read."""
        if not self.follow or self._is_same(self.descriptor):
            return True
        if not self._found_again("was rotated (copied and emptied)"):
            self.note(f"{self.path}: was emptied while it was read; what was written just before may be missing")
            self._adopt(self.descriptor, 0)
        return False

    def is_over(self) -> bool:
        """At the end of the file: whether another one has taken its name, and this one has not grown since."""
        try:
            rotated = self.path.stat().st_ino != self.place.inode
        except FileNotFoundError:  # renamed, and the new file has not been made yet
            return False
        over = rotated and (self._idle or not self.follow)  # its writer may still hold it, so look twice
        self._idle = rotated
        return over

    def take_next(self) -> None:
        """Continue with the file that followed this one."""
        others = self._rotated()
        inodes = [p.stat().st_ino for p in others]
        later = others[inodes.index(self.place.inode) + 1 :] if self.place.inode in inodes else []
        following = later[0] if later else self.path
        self.note(f"{self.path}: was rotated; going on with {following.name if later else 'the new file'}")
        os.close(self.descriptor)
        self._adopt(os.open(following, os.O_RDONLY), 0)
