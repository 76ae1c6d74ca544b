"""Compiling: two decorators for all compiled code of the package, and a cache on disk that follows the sources.

`kernel` is for functions that Python or other kernels call; `part` for pieces of kernels. There are two ways to machine
code: `somcot.compile.numba_internals`, which takes in pieces as plain code and is several times as fast, and Numba's
own. The environment variable ``SOMCOT_COMPILER`` chooses (``auto`` or ``numba``); results have the same bits.

Numba's own cache knows a function by the file it stands in. Here a compiled kernel is good only while every module of
the package that its module imports, directly or not, is unchanged. Damaged files are dropped; where no folder can be
written, kernels live in memory. Both are said, and so is every compilation that takes seconds.
"""
# mypy: disable-error-code="no-untyped-call, misc, attr-defined"

from __future__ import annotations

import functools
import hashlib
import logging
import os
import pickle
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias, overload

import numba

__all__ = ["FAST", "kernel", "n_compiled", "part"]

Function: TypeAlias = Callable[..., Any]
Dispatcher: TypeAlias = Any  # a compiled function: Numba has no types, and callers pass arrays of all kinds
Signature: TypeAlias = Any
Content: TypeAlias = Any  # what Numba keeps of a compiled function
Options: TypeAlias = Mapping[str, Any]

# --- The switch between both ways.


class Maker(Protocol):
    """Makes a compiled function of a plain one."""

    def __call__(self, function: Function, /, *, targetoptions: Options) -> Dispatcher: ...


class Way(NamedTuple):
    """A way to machine code."""

    name: str
    entry_point: Maker  # for Python and for kernels, which take it in
    linked: Maker  # for Python and for kernels, which call it as it is
    inlined: Maker  # for kernels
    stale: tuple[type[Exception], ...]  # raised where machine code on disk calls code that was compiled again
    sources: tuple[str, ...]  # modules that decide what the machine code is like


def _by_numba(function: Function, /, *, targetoptions: Options) -> Dispatcher:
    return numba.jit(**targetoptions)(function)


def _way() -> Way:
    """Numba's own way where ``SOMCOT_COMPILER`` wants it or Numba's inside is not known."""
    wanted = os.environ.get("SOMCOT_COMPILER", "").strip() or "auto"
    if wanted not in ("auto", "numba"):
        raise ValueError(
            f"SOMCOT_COMPILER: found {wanted!r}, expected 'auto' (the package's own compilation, where the "
            "release of Numba is known) or 'numba' (Numba's)"
        )
    release = tuple(map(int, re.findall(r"\d+", numba.__version__)[:2]))
    if wanted == "auto" and (0, 65) <= release < (0, 69):
        from somcot.compile.numba_internals import EntryPoint, Inlined, Linked, StaleError

        return Way("auto", EntryPoint, Linked, Inlined, (StaleError,), (__name__, EntryPoint.__module__))
    return Way("numba", _by_numba, _by_numba, _by_numba, (), (__name__,))


_WAY = _way()


# --- The decorators.

# Zeros have no sign and NaN never occurs; that is all. Sums keep their order, and products are fused with sums only
# where `fma` says so: under "reassoc" LLVM picks loops by the distance of addresses, under "contract" by the machine.
FAST = frozenset({"nsz", "nnan"})
OPTIONS = {"nopython": True, "nogil": True, "error_model": "numpy", "boundscheck": None}
PACKAGE = __name__.partition(".")[0]

logger = logging.getLogger(PACKAGE)


@overload
def kernel(function: Function) -> Dispatcher: ...
@overload
def kernel(*, name: str, seconds: int, shared: bool = False) -> Callable[[Function], Dispatcher]: ...
def kernel(function: Function | None = None, *, name: str = "", seconds: int = 0, shared: bool = False) -> Dispatcher:
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
    if numba.config.DISABLE_JIT:
        return function
    compiled = (_WAY.linked if shared else _WAY.entry_point)(function, targetoptions=OPTIONS)
    announcement = f"{name}, about {seconds} s" if name else ""
    try:
        compiled.enable_caching()
    except RuntimeError:  # Numba found no folder that can be written
        compiled._cache = _InMemory(announcement)
    else:
        compiled._cache = _OnDisk(compiled._cache, _stamp(function.__module__), announcement)
    return compiled


@overload
def part(function: Function) -> Dispatcher: ...
@overload
def part(*, nan: bool = False, inline: bool = True) -> Callable[[Function], Dispatcher]: ...
def part(function: Function | None = None, *, nan: bool = False, inline: bool = True) -> Dispatcher:
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
    if numba.config.DISABLE_JIT:
        return function
    options = OPTIONS | {"forceinline": inline, "fastmath": False if nan else set(FAST)}
    return _WAY.inlined(function, targetoptions=options)


def n_compiled() -> int:
    """How many kernels this process has compiled so far; those that came from the disk are not counted."""
    return len(_compiled)


# --- The cache on disk.

_compiled: list[str] = []


class _InMemory:
    """No cache: says so when a kernel has to be compiled."""

    cache_path = None

    def __init__(self, announcement: str) -> None:
        self.announcement = announcement

    def load_overload(self, signature: Signature, _context: object) -> None:
        _compiled.append(str(signature))
        if self.announcement:
            _say(f"compiling {self.announcement}, in every process: no folder can be written; set NUMBA_CACHE_DIR")

    def save_overload(self, signature: Signature, data: Content) -> None:
        """There is no place for it."""

    def flush(self) -> None:
        """There is nothing."""


class _OnDisk:
    """Numba's cache with another stamp, one file for each signature and machine, and no trust in what files hold."""

    def __init__(self, cache: Content, stamp: bytes, announcement: str) -> None:
        self.cache, self.announcement, self.cache_path = cache, announcement, cache.cache_path
        base = os.path.join(self.cache_path, cache._impl.filename_base)
        cache._cache_file = _Files(base, stamp, cache._cache_file._dump)

    def load_overload(self, signature: Signature, context: object) -> Content:
        try:
            known = self.cache.load_overload(signature, context)
        except _WAY.stale:  # what it calls was compiled again meanwhile
            known = None
        except Exception as error:  # whatever pickle and LLVM make of damaged bytes
            _say(f"dropped a damaged file of compiled code in {self.cache_path} ({type(error).__name__})")
            known = None
        if known is None:
            _compiled.append(str(signature))
            if self.announcement:
                _say(f"compiling {self.announcement}, once; kept in {self.cache_path}")
        return known

    def save_overload(self, signature: Signature, data: Content) -> None:
        try:
            self.cache.save_overload(signature, data)
        except OSError as error:
            _say(f"compiled code is not kept for the next process: {error}")

    def flush(self) -> None:
        """Files are good as long as their stamp is."""


class _Files:
    """Compiled code, one file for each signature and machine, with the stamp of its sources and a checksum."""

    def __init__(self, base: str, stamp: bytes, dump: Callable[[object], bytes]) -> None:
        self.base, self.stamp, self.dump = base, stamp, dump

    def path(self, key: Signature) -> str:
        """Both ways to machine code have files of their own, so that a change of mind costs nothing."""
        return f"{self.base}.{hashlib.sha256(repr((_WAY.name, key[:2])).encode()).hexdigest()[:16]}.nbc"

    def load(self, key: Signature) -> Content:
        try:
            with open(self.path(key), "rb") as file:
                checksum, content = file.read(32), file.read()
        except OSError:
            return None
        if hashlib.sha256(content).digest() != checksum:
            raise ValueError("checksum")
        stamp, known, data = pickle.loads(content)
        return data if (stamp, known) == (self.stamp, key) else None

    def save(self, key: Signature, data: Content) -> None:
        content = self.dump((self.stamp, key, data))
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
    sources: dict[str, bytes] = {}
    waiting = [module, *_WAY.sources]
    while waiting:
        name = waiting.pop()
        if name not in sources and getattr(sys.modules.get(name), "__file__", None):
            loaded = sys.modules[name]
            sources[name] = loaded.__loader__.get_data(loaded.__file__)  # type: ignore[union-attr]
            for source, names in _IMPORT.findall(sources[name].decode()):
                waiting += [source, *(f"{source}.{word}" for word in re.split(r"\W+", names))]
    digest = hashlib.sha256(f"{numba.__version__} {_WAY.name}".encode())
    for name in sorted(sources):
        digest.update(sources[name])
    return digest.digest()


_IMPORT = re.compile(rf"^(?:from|import) ({PACKAGE}[\w.]*)(?: import \(?([\w\s,]+))?", re.MULTILINE)


@functools.cache
def _say(text: str) -> None:
    """Log a line, once."""
    logger.warning(text)
