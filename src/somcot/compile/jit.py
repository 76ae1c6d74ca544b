"""Compiling: two decorators for all compiled code of the package, and a cache on disk that follows the sources.

`kernel` is for functions that Python or other kernels call; `part` for pieces of kernels. Kernels take both in as plain
code (`pieces`), never what is on disk of them, or call shared ones as they are: a process that compiles a kernel runs
the same machine code as one that loads it.

Numba's own cache knows a function by the file it stands in. Here a compiled kernel is good only while every module of
the package that its module imports, directly or not, is unchanged. Damaged files are dropped; where no folder can be
written, kernels live in memory. Both are said, and so is every compilation that takes seconds.
"""
# mypy: disable-error-code="no-untyped-call, misc"
# mypy: disable-error-code="attr-defined, no-untyped-call, assignment"

from __future__ import annotations

import functools
import hashlib
import logging
import os
import pickle
import re
import sys
import tempfile
from collections.abc import Callable
from typing import Any, overload

import numba
from numba.core import config
from numba.core.caching import FunctionCache, NullCache
from numba.core.registry import CPUDispatcher
from numba.core.serialize import dumps

__all__ = [
    "FAST",
    "DefaultEntryPoint",
    "Inlined",
    "Linked",
    "StaleError",
    "kernel",
    "part",
]


# --- Compiled functions as Numba makes them by itself: for releases whose inside `pieces` does not know.


class DefaultEntryPoint(CPUDispatcher):
    """A function for Python and for other compiled functions."""

    def __init__(self, py_func: Any, targetoptions: Any = None) -> None:
        super().__init__(py_func, targetoptions=dict(targetoptions or {}))


Inlined = Linked = DefaultEntryPoint


class StaleError(Exception):
    """Never raised: here machine code on disk holds all that it calls."""


# --- Compiling: two decorators for all compiled code of the package, and a cache on disk that follows the sources.

# What `pieces` leaves out of Numba's work is known of these releases. With others compiling takes longer.
if (0, 65) <= tuple(map(int, re.findall(r"\d+", numba.__version__)[:2])) < (0, 69):
    from somcot.compile.numba_internals import EntryPoint as DefaultEntryPoint
    from somcot.compile.numba_internals import Inlined, Linked, StaleError
else:
    pass


# Zeros have no sign and NaN never occurs; that is all. Sums keep their order, and products are fused with sums only
# where `fma` says so: under "reassoc" LLVM picks loops by the distance of addresses, under "contract" by the machine.
FAST = frozenset({"nsz", "nnan"})
OPTIONS = {"nopython": True, "nogil": True, "error_model": "numpy", "boundscheck": None}
PACKAGE = __name__.partition(".")[0]

logger = logging.getLogger(PACKAGE)


Function = Callable[..., Any]


@overload
def kernel(function: Function) -> Any: ...
@overload
def kernel(*, name: str, seconds: int, shared: bool = False) -> Callable[[Function], Any]: ...
def kernel(function: Any = None, *, name: str = "", seconds: int = 0, shared: bool = False) -> Any:
    """Compile a function at its first call and keep it on disk; NaN and infinities are honoured.

    Parameters
    ----------
    function : callable
    name : str
        What to call it when a user has to wait. Without a name nothing is said.
    seconds : int
        How long that takes, about.
    shared : bool
        Other kernels call its machine code instead of taking it in.
    """
    if function is None:
        return functools.partial(kernel, name=name, seconds=seconds, shared=shared)
    if config.DISABLE_JIT:
        return function
    compiled = (Linked if shared else DefaultEntryPoint)(function, targetoptions=OPTIONS)
    compiled._cache = _cache(function, f"{name}, about {seconds} s" if name else "")
    return compiled


@overload
def part(function: Function) -> Any: ...
@overload
def part(*, nan: bool = False, inline: bool = True) -> Callable[[Function], Any]: ...
def part(function: Any = None, *, nan: bool = False, inline: bool = True) -> Any:
    """Compile a piece of kernels.

    Parameters
    ----------
    function : callable
    nan : bool
        NaN may occur in it.
    inline : bool
        Copy it to every place where it is called. Large pieces that do much in one call are better left alone: every
        copy has to be compiled.
    """
    if function is None:
        return functools.partial(part, nan=nan, inline=inline)
    if config.DISABLE_JIT:
        return function
    return Inlined(function, targetoptions=OPTIONS | {"forceinline": inline, "fastmath": False if nan else set(FAST)})


def _cache(function: Function, announcement: str) -> Any:
    try:
        return _OnDisk(function, announcement)
    except RuntimeError:  # Numba found no folder that can be written
        return _InMemory(announcement)


class _InMemory(NullCache):
    """No cache: says so when a kernel has to be compiled."""

    def __init__(self, announcement: str) -> None:
        self.announcement = announcement

    def load_overload(self, _signature: Any, _context: Any) -> None:
        if self.announcement:
            _say(f"compiling {self.announcement}, in every process: no folder can be written; set NUMBA_CACHE_DIR")


class _OnDisk(FunctionCache):
    """Numba's cache with another stamp, one file for each signature and machine, and no trust in what files hold."""

    def __init__(self, function: Function, announcement: str) -> None:
        super().__init__(function)
        self.announcement = announcement
        self._cache_file = _Files(os.path.join(self._cache_path, self._impl.filename_base), _stamp(function.__module__))

    def load_overload(self, signature: Any, context: Any) -> Any:
        try:
            found = super().load_overload(signature, context)
        except StaleError:  # what it calls was compiled again meanwhile
            found = None
        except Exception as error:  # whatever pickle and LLVM make of damaged bytes
            _say(f"dropped a damaged file of compiled code in {self._cache_path} ({type(error).__name__})")
            found = None
        if found is None and self.announcement:
            _say(f"compiling {self.announcement}, once; kept in {self._cache_path}")
        return found

    def save_overload(self, signature: Any, data: Any) -> None:
        try:
            super().save_overload(signature, data)
        except OSError as error:
            _say(f"compiled code is not kept for the next process: {error}")


class _Files:
    """Compiled code, one file for each signature and machine, with the stamp of its sources and a checksum."""

    def __init__(self, base: str, stamp: bytes) -> None:
        self.base, self.stamp = base, stamp

    def path(self, key: Any) -> str:
        return f"{self.base}.{hashlib.sha256(repr(key[:2]).encode()).hexdigest()[:16]}.nbc"

    def load(self, key: Any) -> Any:
        try:
            with open(self.path(key), "rb") as file:
                checksum, content = file.read(32), file.read()
        except OSError:
            return None
        if hashlib.sha256(content).digest() != checksum:
            raise ValueError("checksum")
        stamp, known, data = pickle.loads(content)
        return data if (stamp, known) == (self.stamp, key) else None

    def save(self, key: Any, data: Any) -> None:
        content = dumps((self.stamp, key, data))
        path = self.path(key)
        handle, name = tempfile.mkstemp(dir=os.path.dirname(path), suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            os.replace(name, path)
        except OSError:
            os.unlink(name)
            raise


@functools.cache
def _stamp(module: str) -> bytes:
    """A hash of the module and of every module of the package that it imports, directly or not."""
    found: dict[str, bytes] = {}
    waiting = [module, __name__, DefaultEntryPoint.__module__]
    while waiting:
        name = waiting.pop()
        if name not in found and getattr(sys.modules.get(name), "__file__", None):
            loaded = sys.modules[name]
            found[name] = loaded.__loader__.get_data(loaded.__file__)  # type: ignore[union-attr]
            for source, names in _IMPORT.findall(found[name].decode()):
                waiting += [source, *(f"{source}.{word}" for word in re.split(r"\W+", names))]
    digest = hashlib.sha256(numba.__version__.encode())
    for name in sorted(found):
        digest.update(found[name])
    return digest.digest()


_IMPORT = re.compile(rf"^(?:from|import) ({PACKAGE}[\w.]*)(?: import \(?([\w\s,]+))?", re.MULTILINE)


@functools.cache
def _say(text: str) -> None:
    """Log a line, once."""
    logger.warning(text)
