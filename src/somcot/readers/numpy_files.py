"""NumPy files, held against what they claim before they are read: no pickles, no zip bombs, no header that lies."""

from __future__ import annotations

import ast
import io
import zipfile
import zlib
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from somcot.plumbing.memory import memory_limit, require
from somcot.readers.inputs import Input, is_zipped, open_bytes, whole

__all__ = ["load_arrays"]

_SUSPICIOUS = 100e6  # bytes: below this, a high compression ratio cannot hurt
_RATIO = 200


def load_arrays(source: Input) -> dict[str, NDArray[Any]]:
    """All arrays of a .npy or .npz file, checked before they are read."""
    try:
        if source.format == "npy":
            with open_bytes(source) as stream:
                size = None if source.path is None or is_zipped(stream) else source.path.stat().st_size
                return {"": _read_npy(source.name, stream, size)}
        with open_bytes(source) as stream:
            return _read_npz(source.name, stream if source.path is not None else whole(source, memory_limit()))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, UnicodeDecodeError, zlib.error) as error:
        raise ValueError(f"{source.name}: not a readable .npz archive ({error}); save or copy it again") from None
    except (EOFError, OSError) as error:
        raise ValueError(f"{source.name}: cut short or damaged ({error}); save or copy it again") from None


def _read_npz(name: str, stream: IO[bytes]) -> dict[str, NDArray[Any]]:
    with zipfile.ZipFile(stream) as archive:
        members = [m for m in archive.infolist() if m.filename.endswith(".npy")]
        if not members:
            raise ValueError(f"{name}: the archive holds no array; write it with numpy.savez")
        unpacked, packed = (float(sum(getattr(m, what) for m in members)) for what in ("file_size", "compress_size"))
        if unpacked > _SUSPICIOUS and unpacked > _RATIO * packed:
            raise ValueError(
                f"{name}: {packed / 1e6:.3g} MB claim to unpack into {unpacked / 1e6:,.0f} MB, which looks like a zip "
                "bomb; if it is yours, save it uncompressed with numpy.savez"
            )
        require(unpacked, name, "split the file")
        arrays = {}
        for member in members:
            with archive.open(member) as entry:
                label = member.filename.removesuffix(".npy")
                arrays[label] = _read_npy(f"{name}: array {label!r}", entry, member.file_size)
        return arrays


def _read_npy(name: str, stream: IO[bytes], size: int | None) -> NDArray[Any]:
    """One array, after its header has been held against the number of bytes there are."""
    try:
        head = stream.read(10)
        if head[:6] != b"\x93NUMPY":
            raise ValueError("it does not begin like a NumPy file")
        width = 2 if head[6] == 1 else 4
        prefix = head if width == 2 else head + stream.read(2)
        length = int.from_bytes(prefix[8 : 8 + width], "little")
        if length > 10_000:
            raise ValueError(f"its header claims {length:,} bytes")
        text = stream.read(length)
        header = ast.literal_eval(text.decode("latin-1").strip())
        dtype = np.lib.format.descr_to_dtype(header["descr"])
        n_bytes = int(np.prod([1.0, *header["shape"]])) * dtype.itemsize
        if n_bytes < 0:
            raise ValueError(f"its header claims the shape {header['shape']}")
    except (
        ValueError,
        SyntaxError,
        KeyError,
        TypeError,
        IndexError,
        OverflowError,
        RecursionError,
        MemoryError,
    ) as error:
        raise ValueError(f"{name}: not a readable NumPy file ({error}); write it with numpy.save") from None
    if dtype.hasobject:
        raise ValueError(
            f"{name}: holds pickled Python objects, which are never loaded; save lists of integer arrays "
            "with numpy.savez, one array each"
        )
    if size is not None and n_bytes > size:
        raise ValueError(f"{name}: its header claims {n_bytes:,} bytes, more than there are; save or copy it again")
    require(n_bytes, name, "split the file")
    data = stream.read(n_bytes)
    if len(data) < n_bytes:
        raise ValueError(f"{name}: cut short, {len(data):,} of {n_bytes:,} bytes; save or copy it again")
    try:
        return np.asarray(np.load(io.BytesIO(prefix + text + data), allow_pickle=False))
    except (ValueError, TypeError, OverflowError) as error:  # a shape such as (0, 10**30) needs no bytes
        raise ValueError(f"{name}: not a readable NumPy file ({error}); write it with numpy.save") from None
