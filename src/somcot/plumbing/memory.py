"""How much memory a computation may take, asked before anything is allocated."""

from __future__ import annotations

import math
import os

__all__ = ["MemoryLimitError", "memory_limit", "require"]

_ALWAYS_FITS = 16e6  # bytes; asking the machine takes longer than small problems do
_UNITS = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


class MemoryLimitError(MemoryError):
    """A computation was refused because it would not fit into memory."""


def memory_limit() -> float:
    """Bytes that one computation may allocate.

    The environment variable ``SOMCOT_MEMORY_LIMIT`` (``"4G"``, ``"500M"`` or plain bytes) decides; without it,
    80 % of the memory that is free now, and never more than the process's own address-space limit.
    """
    wanted = os.environ.get("SOMCOT_MEMORY_LIMIT", "").strip()
    return _parse(wanted) if wanted else 0.8 * min(_available(), _address_space())


def require(n_bytes: float, what: str, remedy: str) -> None:
    """Refuse `what` with a clear error when it needs more than the limit."""
    if n_bytes < _ALWAYS_FITS and not os.environ.get("SOMCOT_MEMORY_LIMIT"):
        return
    limit = memory_limit()
    if n_bytes > limit:
        raise MemoryLimitError(
            f"{what} needs about {_readable(n_bytes)}, the limit is {_readable(limit)}; {remedy} "
            "(SOMCOT_MEMORY_LIMIT sets the limit)"
        )


def _parse(text: str) -> float:
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
        with open("/proc/meminfo", encoding="ascii") as lines:
            return next(float(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        try:
            return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        except (AttributeError, OSError, ValueError):  # no way to ask: assume a small machine
            return 4e9


def _address_space() -> float:
    try:
        import resource
    except ImportError:
        return float("inf")
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return float("inf") if soft == resource.RLIM_INFINITY else float(soft)


def _readable(n_bytes: float) -> str:
    power = min(max(int(math.log10(max(n_bytes, 1.0)) // 3), 0), 4)
    return f"{n_bytes / 1000**power:.4g} {('bytes', 'kB', 'MB', 'GB', 'TB')[power]}"
