"""Limits of a computation: memory, checked before allocation, and threads of BLAS."""

from __future__ import annotations

import functools
import math
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

__all__ = ["MemoryLimitError", "memory_limit", "one_blas_thread", "require"]

P = ParamSpec("P")
T = TypeVar("T")

_ALWAYS_FITS = 16e6  # bytes; querying the system takes longer than small problems
_UNITS = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_PROC, _CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")


class MemoryLimitError(MemoryError):
    """A computation was refused because it would not fit into memory.

    Examples
    --------
    >>> require(1e18, "a table", "merge states")
    Traceback (most recent call last):
        ...
    somcot.plumbing.memory.MemoryLimitError: ...
    """


def memory_limit() -> float:
    """Bytes that one computation may allocate.

    The environment variable ``SOMCOT_MEMORY_LIMIT`` (``"4G"``, ``"500M"`` or plain bytes) sets it. The default is 80 %
    of the memory available now: the minimum over the machine, the container (cgroup) and the address space of the
    process (``ulimit -v``).
    """
    setting = os.environ.get("SOMCOT_MEMORY_LIMIT", "").strip()
    # The rest is for the interpreter, other processes and temporary arrays.
    return _parse(setting) if setting else 0.8 * min(_available(), _container(), _address_space())


def require(n_bytes: float, what: str, remedy: str) -> None:
    """Raise a `MemoryLimitError` if `what` needs more than the limit."""
    # A set limit is always checked: tests and containers rely on it for small problems too.
    if n_bytes < _ALWAYS_FITS and not os.environ.get("SOMCOT_MEMORY_LIMIT"):
        return
    limit = memory_limit()
    if n_bytes > limit:
        raise MemoryLimitError(
            f"{what} needs about {_readable(n_bytes)}, the limit is {_readable(limit)}; {remedy} "
            "(SOMCOT_MEMORY_LIMIT sets the limit)"
        )


def _parse(text: str) -> float:
    # "4GiB", "4GB" and "4G" are read alike; the difference of 7 % does not matter for a limit.
    number = text.upper().removesuffix("B").removesuffix("I")
    unit = number[-1:] if number[-1:] in _UNITS else ""
    try:
        value = float(number.removesuffix(unit)) * _UNITS[unit]
    except ValueError:
        value = -1.0
    if not value > 0:
        raise ValueError(f"SOMCOT_MEMORY_LIMIT: found {text!r}, expected a size such as 4G, 500M or 2000000000")
    return value


def _available() -> float:
    try:
        with (_PROC / "meminfo").open(encoding="ascii") as lines:
            return next(float(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        try:
            return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        except (AttributeError, OSError, ValueError):  # unknown: assume a small machine
            return 4e9


def _address_space() -> float:
    """Remaining address space under ``ulimit -v``."""
    try:
        import resource
    except ImportError:
        return math.inf
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        return math.inf
    pages = _number(_PROC / "self/statm")
    return max(soft - (0.0 if pages is None else pages * os.sysconf("SC_PAGE_SIZE")), 0.0)


def _container() -> float:
    """Memory left in the control groups of this process and their parents; infinity without a limit."""
    left = math.inf
    for folder, limit, usage in _groups():
        most, used = _number(folder / limit), _number(folder / usage)
        if most is not None and used is not None:
            # The page cache counts as used memory of a container, but the system frees it on demand.
            left = min(left, max(most - used + _reclaimable(folder), 0.0))
    return left


def _groups() -> Iterator[tuple[Path, str, str]]:
    """Folders with memory limits, version 2 (``0::/path``) and version 1 (``7:memory:/path``), inner ones first."""
    try:
        lines = (_PROC / "self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0":
            root, names = _CGROUPS, ("memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            root, names = _CGROUPS / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            continue
        # Inside a container the path is often that of the host and does not exist: use the root instead.
        inner = root / path.strip("/")
        # Every level can have a limit of its own.
        for folder in dict.fromkeys([inner, *(p for p in inner.parents if p.is_relative_to(root)), root]):
            yield folder, *names


def _reclaimable(folder: Path) -> float:
    """Bytes counted as used that are only cached files and can be reclaimed."""
    try:
        lines = (folder / "memory.stat").read_text(encoding="ascii").split("\n")
        return next(
            float(line.split()[1]) for line in lines if line.split()[:1] in (["inactive_file"], ["total_inactive_file"])
        )
    except (OSError, StopIteration, ValueError, IndexError, UnicodeDecodeError):
        return 0.0


def _number(file: Path) -> float | None:
    """The first number in a system file; None for ``max`` or if there is no number."""
    try:
        return float(file.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return None


def _readable(n_bytes: float) -> str:
    power = min(max(int(math.log10(max(n_bytes, 1.0)) // 3), 0), 4)
    return f"{n_bytes / 1000**power:.4g} {('bytes', 'kB', 'MB', 'GB', 'TB')[power]}"


# --- Threads of BLAS


class _OneBlasThread:
    """BLAS on one thread, as a reentrant context or decorator.

    On matrices of a few hundred rows, BLAS threads spend most of their time waiting for each other, and the last bits
    of products depend on their number. The setting is global to the process: if several threads enter, the first one
    sets and restores it, and the others leave it unchanged.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None  # the thread that has changed the setting
        self._depth = 0
        self._before: list[int] = []

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """As a decorator; not `ContextDecorator`, whose frame warnings would mistake for the user's code."""

        @functools.wraps(function)
        def on_one_thread(*args: P.args, **kwargs: P.kwargs) -> T:
            with self:
                return function(*args, **kwargs)

        return on_one_thread

    def __enter__(self) -> None:
        with self._lock:
            if self._owner is None:
                # Only BLAS: OpenMP pools of other libraries are left alone.
                libraries = _blas().lib_controllers
                self._before = [library.num_threads for library in libraries]
                for library in libraries:
                    library.set_num_threads(1)
                self._owner = threading.get_ident()
            self._depth += self._owner == threading.get_ident()

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            # Threads that came second have changed nothing, so they restore nothing.
            if self._owner != threading.get_ident():
                return
            self._depth -= 1
            if self._depth == 0:
                self._owner = None
                for library, n_threads in zip(_blas().lib_controllers, self._before, strict=True):
                    library.set_num_threads(n_threads)


@functools.cache
def _blas() -> ThreadpoolController:
    """The loaded BLAS libraries; cached, because the search takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


one_blas_thread = _OneBlasThread()
