"""What the kernels need to become vector code: an exponential without calls, unsigned indices, sums in any order.

Parts of a kernel are forced inline. Otherwise a process that compiles them links the copies it optimised one by one,
one that loads the kernel from disk those optimised inside it, and sums in another order have other bits.

Numba's cache on disk does not follow calls into other files: after a change here, touch the kernel files too.
"""
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

from somcot.plumbing.arrays import Floats

__all__ = ["CUT", "FAST", "borrow", "copy_to", "exp", "exp_all"]

# Sums and maxima may be reordered (that is what makes them vector code); NaN never occurs, infinities may.
FAST = {"contract", "reassoc", "nsz", "nnan", "arcp"}
CUT = -350.0  # the exponential of less is 0


def _make_bits(_context: Any, _value: Any) -> Any:
    """Read a float64 as an int64, bit for bit."""
    return types.int64(types.float64), lambda _c, builder, _s, args: builder.bitcast(args[0], ir.IntType(64))


def _make_unbits(_context: Any, _value: Any) -> Any:
    """Read an int64 as a float64, bit for bit."""
    return types.float64(types.int64), lambda _c, builder, _s, args: builder.bitcast(args[0], ir.DoubleType())


def _make_borrowed(_context: Any, record: Any) -> Any:
    """The same record of arrays without its reference counts, which the caller keeps.

    Counting references whenever a record goes to a function would take longer than a step of a small problem.
    """

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        result = args[0]
        for i, kind in enumerate(record.types):
            if isinstance(kind, types.Array):
                array = context.make_array(kind)(context, builder, builder.extract_value(result, i))
                array.meminfo = array.meminfo.type(None)
                array.parent = array.parent.type(None)
                result = builder.insert_value(result, array._getvalue(), i)
        return result

    return record(record), generate


_bits: Any = intrinsic(_make_bits)
_unbits: Any = intrinsic(_make_unbits)
borrow: Any = intrinsic(_make_borrowed)


@njit(cache=True, nogil=True, fastmath={"contract"}, forceinline=True)
def exp(x: float) -> float:
    """e^x for x < 700 and 0 below -350, in arithmetic that vectorises (4 times the library's speed).

    x = k log 2 + r by adding and taking away 1.5 * 2^52, a Taylor polynomial for e^r (|r| < 0.35), and k added to the
    exponent bits. Relative error below 4e-16. No reordering is allowed here.
    """
    y = max(x, CUT)
    t = y * 1.4426950408889634 + 6755399441055744.0
    k = t - 6755399441055744.0
    r = y - k * 0.6931471803691238 - k * 1.9082149292705877e-10
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    value = _unbits(_bits(p) + (_bits(t) << 52))
    return value if x > CUT else 0.0


@njit(cache=True, nogil=True, forceinline=True)
def copy_to(target: Floats, source: Floats) -> None:
    """Copy an array into one of the same length. ``target[:] = source`` would add three seconds to the compilation."""
    for i in range(source.shape[0]):
        target[i] = source[i]


@njit(cache=True, nogil=True, forceinline=True)
def exp_all(values: Floats) -> None:
    """Replace values by their exponentials."""
    for i in range(values.shape[0]):
        values[i] = exp(values[i])
