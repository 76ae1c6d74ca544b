"""Files for work in progress: written whole or not at all, checked when read, and never holding code.

A file is one line of text with a SHA-256 sum, then a safetensors block whose metadata hold a JSON record. It is written
to a temporary file beside the target, forced to disk, and put in place in one move; whatever happens, the last complete
file stays readable.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CheckpointError", "read", "write"]

MAGIC = b"somcot checkpoint 1 sha256 "
HEAD = len(MAGIC) + 64 + 1

Path_ = str | os.PathLike[str]


class CheckpointError(ValueError):
    """A file is no checkpoint, is damaged, or belongs to another run."""


def write(path: Path_, arrays: Mapping[str, NDArray[Any]], record: Mapping[str, Any]) -> None:
    """Write arrays and a JSON record to `path`, replacing what is there in one move.

    Examples
    --------
    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "run.ck")
    >>> write(path, {"a": np.arange(3)}, {"step": 7})
    >>> arrays, record = read(path)
    >>> arrays["a"], record["step"]
    (array([0, 1, 2]), 7)
    """
    from safetensors.numpy import save

    target = Path(path)
    block = save(
        {name: np.ascontiguousarray(array) for name, array in arrays.items()}, metadata={"somcot": json.dumps(record)}
    )
    head = MAGIC + hashlib.sha256(block).hexdigest().encode("ascii") + b"\n"
    _remove_stale(target)
    handle, name = tempfile.mkstemp(prefix=_prefix(target), suffix=".part", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(head)
            file.write(block)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    _sync_folder(target.parent)


def read(path: Path_) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what `write` wrote; refuse anything else with a `CheckpointError`."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    data = Path(path).read_bytes()
    name = os.fspath(path)
    if not data.startswith(MAGIC) or data[HEAD - 1 : HEAD] != b"\n":
        raise CheckpointError(f"{name}: not a somcot checkpoint")
    block = data[HEAD:]
    if hashlib.sha256(block).hexdigest().encode("ascii") != data[len(MAGIC) : HEAD - 1]:
        raise CheckpointError(f"{name}: damaged (its SHA-256 sum does not fit); go back to an older copy")
    try:
        size = int.from_bytes(block[:8], "little")
        record = json.loads(json.loads(block[8 : 8 + size])["__metadata__"]["somcot"])
        arrays = {key: array.copy() for key, array in load(block).items()}
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{name}: not a somcot checkpoint ({error})") from None
    return arrays, record


def _prefix(target: Path) -> str:
    return f".{target.name}."


def _remove_stale(target: Path) -> None:
    """Remove temporary files that a killed run left beside the target."""
    for old in target.parent.glob(f"{_prefix(target)}*.part"):
        with contextlib.suppress(OSError):
            old.unlink()


def _sync_folder(folder: Path) -> None:
    """Force the move itself to disk, where the system allows opening folders."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
