"""Two decorators for all compiled code of the package, and a disk cache keyed by the sources.

`kernel` is for functions that Python or other kernels call; `part` is for pieces of kernels. There are two compilation
paths: `somcot.compile.numba_internals`, which inlines pieces before optimisation and compiles several times as fast,
and Numba's own. The environment variable ``SOMCOT_COMPILER`` selects one (``auto`` or ``numba``); results have the same
bits.

Numba's own cache identifies a function by its source file. Here a cached kernel is valid only while every module of
the package that its module imports, directly or indirectly, is unchanged. Damaged files are dropped; if no folder is
writable, kernels are kept in memory. Both are logged, and so is every compilation that takes seconds.
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
Content: TypeAlias = Any  # Numba's serialised form of a compiled function
Options: TypeAlias = Mapping[str, Any]

# --- The choice of the compilation path.


class Maker(Protocol):
    """Compiles a Python function."""

    def __call__(self, function: Function, /, *, targetoptions: Options) -> Dispatcher: ...


class Way(NamedTuple):
    """A compilation path."""

    name: str
    entry_point: Maker  # called by Python and inlined by kernels
    linked: Maker  # called by Python and by kernels
    inlined: Maker  # inlined by kernels
    stale: tuple[type[Exception], ...]  # raised if cached machine code calls code that was recompiled
    sources: tuple[str, ...]  # modules on which the machine code depends
    load: Callable[[Content, Signature, object], Content]  # compiled code from Numba's cache


def _by_numba(function: Function, /, *, targetoptions: Options) -> Dispatcher:
    return numba.jit(**targetoptions)(function)


def _loaded_by_numba(cache: Content, signature: Signature, context: object) -> Content:
    return cache.load_overload(signature, context)


def _way() -> Way:
    """Numba's own path if ``SOMCOT_COMPILER`` selects it or the Numba release is not supported."""
    choice = os.environ.get("SOMCOT_COMPILER", "").strip() or "auto"
    if choice not in ("auto", "numba"):
        raise ValueError(
            f"SOMCOT_COMPILER: found {choice!r}, expected 'auto' (the package's own compilation, where the "
            "release of Numba is known) or 'numba' (Numba's)"
        )
    # Only major and minor: patch releases have not changed the internals.
    release = tuple(map(int, re.findall(r"\d+", numba.__version__)[:2]))
    if choice == "auto" and (0, 65) <= release < (0, 69):
        from somcot.compile.numba_internals import EntryPoint, Inlined, Linked, StaleError, load

        return Way("auto", EntryPoint, Linked, Inlined, (StaleError,), (__name__, EntryPoint.__module__), load)
    return Way("numba", _by_numba, _by_numba, _by_numba, (), (__name__,), _loaded_by_numba)


_WAY = _way()


# --- The decorators.

# Only signed zeros and NaN are ignored. Sums keep their order, and products are fused with sums only by explicit `fma`:
# with "reassoc" the bits would depend on memory addresses, with "contract" on the machine.
FAST = frozenset({"nsz", "nnan"})
OPTIONS = {"nopython": True, "nogil": True, "error_model": "numpy", "boundscheck": None}
PACKAGE = __name__.partition(".")[0]

logger = logging.getLogger(PACKAGE)


@overload
def kernel(function: Function) -> Dispatcher: ...
@overload
def kernel(*, name: str, seconds: int, shared: bool = False) -> Callable[[Function], Dispatcher]: ...
def kernel(function: Function | None = None, *, name: str = "", seconds: int = 0, shared: bool = False) -> Dispatcher:
    """Compile a function at its first call and cache it on disk; NaN and infinities are respected.

    Parameters
    ----------
    function : callable
    name : str
        Name in the log message while a user waits. Without a name, nothing is logged.
    seconds : int
        Approximate compilation time.
    shared : bool
        Other kernels call its machine code instead of inlining it.
    """
    if function is None:
        return functools.partial(kernel, name=name, seconds=seconds, shared=shared)
    # With NUMBA_DISABLE_JIT=1 kernels run as Python, for debuggers and coverage.
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
        Inline it at every call. Large pieces that do much work per call are better not inlined, since every copy has
        to be compiled.
    """
    if function is None:
        return functools.partial(part, nan=nan, inline=inline)
    if numba.config.DISABLE_JIT:
        return function
    # Numba's `fastmath=True` would also reassociate sums; only the two flags of FAST are set.
    options = OPTIONS | {"forceinline": inline, "fastmath": False if nan else set(FAST)}
    return _WAY.inlined(function, targetoptions=options)


def n_compiled() -> int:
    """Number of kernels compiled by this process; those loaded from disk are not counted."""
    return len(_compiled)


# --- The cache on disk.

_compiled: list[str] = []


class _InMemory:
    """No disk cache; logs each compilation."""

    cache_path = None

    def __init__(self, announcement: str) -> None:
        self.announcement = announcement

    def load_overload(self, signature: Signature, _context: object) -> None:
        _compiled.append(str(signature))
        if self.announcement:
            _say(f"compiling {self.announcement}, in every process: no folder can be written; set NUMBA_CACHE_DIR")

    def save_overload(self, signature: Signature, data: Content) -> None:
        """Do nothing: there is no disk cache."""

    def flush(self) -> None:
        """Do nothing: there is no disk cache."""


class _OnDisk:
    """Numba's cache with another stamp, one verified file for each signature and machine."""

    def __init__(self, cache: Content, stamp: bytes, announcement: str) -> None:
        self.cache, self.announcement, self.cache_path = cache, announcement, cache.cache_path
        base = os.path.join(self.cache_path, cache._impl.filename_base)
        cache._cache_file = _Files(base, stamp, cache._cache_file._dump)

    def load_overload(self, signature: Signature, context: object) -> Content:
        try:
            known = _WAY.load(self.cache, signature, context)
        except _WAY.stale:  # a function it calls was recompiled in the meantime
            known = None
        except Exception as error:  # damaged bytes raise arbitrary errors in pickle and LLVM
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
        """Do nothing: files are valid as long as their stamp is."""


class _Files:
    """Compiled code, one file for each signature and machine, with the stamp of its sources and a checksum."""

    def __init__(self, base: str, stamp: bytes, dump: Callable[[object], bytes]) -> None:
        self.base, self.stamp, self.dump = base, stamp, dump

    def path(self, key: Signature) -> str:
        """Each compilation path has separate files, so that switching does not invalidate the other's."""
        return f"{self.base}.{hashlib.sha256(repr((_WAY.name, key[:2])).encode()).hexdigest()[:16]}.nbc"

    def load(self, key: Signature) -> Content:
        try:
            with open(self.path(key), "rb") as file:
                checksum, content = file.read(32), file.read()
        except OSError:
            return None
        # Checked before unpickling, which may do anything with damaged bytes.
        if hashlib.sha256(content).digest() != checksum:
            raise ValueError("checksum")
        stamp, known, data = pickle.loads(content)
        return data if (stamp, known) == (self.stamp, key) else None

    def save(self, key: Signature, data: Content) -> None:
        content = self.dump((self.stamp, key, data))
        path = self.path(key)
        # Written to a temporary file and renamed: another process sees the old file or the new one, never half of one.
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
    """A hash of the module and of every module of the package that it imports, directly or indirectly."""
    hashes: dict[str, bytes] = {}
    waiting = [module, *_WAY.sources]
    while waiting:
        name = waiting.pop()
        if name not in hashes and getattr(sys.modules.get(name), "__file__", None):
            hashes[name], imported = _source(name)
            waiting += imported
    digest = hashlib.sha256(f"{numba.__version__} {_WAY.name}".encode())
    for name in sorted(hashes):
        digest.update(hashes[name])
    return digest.digest()


@functools.cache
def _source(name: str) -> tuple[bytes, list[str]]:
    """A hash of a module's file, and what the module may import of the package."""
    loaded = sys.modules[name]
    content = loaded.__loader__.get_data(loaded.__file__)  # type: ignore[union-attr]
    imported = []
    # By regular expression, not by importing: dependencies must be known before the module has been fully executed.
    for source, names in _IMPORT.findall(content.decode()):
        imported += [source, *(f"{source}.{word}" for word in re.findall(r"\w+", names))]
    return hashlib.sha256(content).digest(), imported


# Names end with their line or their bracket: the next line may be another import.
_IMPORT = re.compile(rf"^(?:from|import) ({PACKAGE}[\w.]*)(?: import (\([^)]*\)|.*))?", re.MULTILINE)


@functools.cache
def _say(text: str) -> None:
    """Log a line, once."""
    logger.warning(text)
