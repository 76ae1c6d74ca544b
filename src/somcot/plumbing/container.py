"""Files for work in progress: written whole or not at all, checked when read, and never holding code.

A file is one line of text with a SHA-256 sum, then a safetensors block whose metadata hold a JSON record. It is put in
place in one move (`plumbing.files`); whatever happens, the last complete file stays readable.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.files import Path_, replacing
from somcot.plumbing.memory import require

__all__ = ["CheckpointError", "read", "write"]

MAGIC = b"somcot checkpoint 1 sha256 "
HEAD = len(MAGIC) + 64 + 1


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

    block = save(
        {name: np.ascontiguousarray(array) for name, array in arrays.items()}, metadata={"somcot": json.dumps(record)}
    )
    head = MAGIC + hashlib.sha256(block).hexdigest().encode("ascii") + b"\n"
    with replacing(path) as stream:
        stream.write(head)
        stream.write(block)


def read(path: Path_) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what `write` wrote; refuse anything else with a `CheckpointError`."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    name = os.fspath(path)
    require(2.0 * os.path.getsize(path), name, "use a larger machine")
    data = Path(path).read_bytes()
    if not data.startswith(MAGIC) or data[HEAD - 1 : HEAD] != b"\n":
        raise CheckpointError(f"{name}: not a somcot checkpoint")
    block = data[HEAD:]
    if hashlib.sha256(block).hexdigest().encode("ascii") != data[len(MAGIC) : HEAD - 1]:
        raise CheckpointError(f"{name}: damaged (its SHA-256 sum does not fit); go back to an older copy")
    try:
        size = int.from_bytes(block[:8], "little")
        record = json.loads(json.loads(block[8 : 8 + size])["__metadata__"]["somcot"])
        if not isinstance(record, dict):
            raise ValueError(f"its record is a {type(record).__name__}")
        arrays = {key: array.copy() for key, array in load(block).items()}
    except (SafetensorError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{name}: not a somcot checkpoint ({error})") from None
    return arrays, record
