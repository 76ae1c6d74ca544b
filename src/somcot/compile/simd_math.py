"""Exponentials, logarithms and matrix products with the same bits on every machine.

The exponential and the logarithm are implemented here, so that their bits do not depend on libraries or machines.

The order of summation of BLAS depends on the machine and the number of threads, and so do its bits. Here
out(i, j) += a(i, 0) b(0, j), then a(i, 1) b(1, j), ..., is one chain of fused multiply-adds over the inner index for
any vector width: tiles of a few rows and two vectors of outputs are kept in registers. LLVM does not generate such code
automatically, so the tile is written in LLVM IR, as large as the registers of the machine allow. It is as fast as BLAS
at the sizes of SOMCOT. Numbers are float64 or, at twice the speed, float32.
"""
# mypy: disable-error-code="no-any-return, no-untyped-def, attr-defined, no-untyped-call"

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numba
import numpy as np
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from somcot.compile.jit import part

if TYPE_CHECKING:
    from somcot.plumbing.arrays import Floats

Numba: TypeAlias = Any  # contexts, types and signatures as Numba hands them to intrinsics; not typed in all releases
Intrinsic: TypeAlias = Any  # called with numbers and arrays, from compiled code only

__all__ = [
    "CUT",
    "add_product",
    "bits",
    "copy_to",
    "exp",
    "exp_all",
    "fma",
    "log",
    "short_bits",
    "unbits",
]


# --- Vectorisable logarithms, exponentials and fused multiply-adds.

CUT = -350.0  # the exponential of smaller numbers is set to 0
TINY = 2.2250738585072014e-308  # the smallest normal float64
HALF_ROOT = 0x3FE6A09E667F3BCD  # the bits of the square root of 1/2


def _make_bits(_context: Numba, _value: Numba) -> Numba:
    """Read a float64 as an int64, bit for bit."""
    return types.int64(types.float64), lambda _c, builder, _s, args: builder.bitcast(args[0], ir.IntType(64))


def _make_unbits(_context: Numba, _value: Numba) -> Numba:
    """Read an int64 as a float64, bit for bit."""
    return types.float64(types.int64), lambda _c, builder, _s, args: builder.bitcast(args[0], ir.DoubleType())


def _make_short_bits(_context: Numba, _value: Numba) -> Numba:
    """Read a float32 as an int32, bit for bit."""
    return types.int32(types.float32), lambda _c, builder, _s, args: builder.bitcast(args[0], ir.IntType(32))


def _make_fma(_context: Numba, _a: Numba, _b: Numba, _c: Numba) -> Numba:
    """A * b + c, rounded once."""
    return types.float64(types.float64, types.float64, types.float64), lambda _c, builder, _s, args: builder.fma(*args)


bits: Intrinsic = intrinsic(_make_bits)
unbits: Intrinsic = intrinsic(_make_unbits)
short_bits: Intrinsic = intrinsic(_make_short_bits)
fma: Intrinsic = intrinsic(_make_fma)


@part
def exp(x: float) -> float:
    """e^x for x < 700 and 0 below -350, in vectorisable arithmetic (4 times the library's speed).

    x = k log 2 + r by adding and subtracting 1.5 * 2^52, a Taylor polynomial for e^r (|r| < 0.35), and k added to the
    exponent bits. Relative error below 4e-16.
    """
    y = max(x, CUT)
    # Adding 1.5 * 2^52 rounds to an integer, whose value is then in the low bits of `t`.
    t = fma(y, 1.4426950408889634, 6755399441055744.0)
    k = t - 6755399441055744.0
    # Two parts of log 2: k times the larger one is exact, so that r loses no digits.
    r = fma(k, -1.9082149292705877e-10, fma(k, -0.6931471803691238, y))
    p = 1.0 / 6227020800.0
    p = fma(p, r, 1.0 / 479001600.0)
    p = fma(p, r, 1.0 / 39916800.0)
    p = fma(p, r, 1.0 / 3628800.0)
    p = fma(p, r, 1.0 / 362880.0)
    p = fma(p, r, 1.0 / 40320.0)
    p = fma(p, r, 1.0 / 5040.0)
    p = fma(p, r, 1.0 / 720.0)
    p = fma(p, r, 1.0 / 120.0)
    p = fma(p, r, 1.0 / 24.0)
    p = fma(p, r, 1.0 / 6.0)
    p = fma(p, r, 0.5)
    p = fma(p, r, 1.0)
    p = fma(p, r, 1.0)
    # Adding k to the exponent field multiplies by 2^k.
    value = unbits(bits(p) + (bits(t) << 52))
    return value if x > CUT else 0.0


@part
def log(x: float) -> float:
    """The natural logarithm of a finite x >= 0, in vectorisable arithmetic. Relative error below 3e-16.

    x = 2^k (1 + f) with 1 + f between sqrt(1/2) and sqrt(2), s = f / (2 + f), and log(1 + f) = 2 s + 2 s^3 / 3 + ...
    with minimax coefficients (fdlibm's); log 2 is split into two parts, so that k log 2 is exact.
    """
    tiny = x < TINY
    # Denormals are scaled by 2^54 first.
    pattern = bits(x * 18014398509481984.0 if tiny else x)
    # Subtracting the bits of sqrt(1/2) puts 1 + f into [sqrt(1/2), sqrt(2)), where the series converges fastest.
    exponent = (pattern - HALF_ROOT) >> 52
    f = unbits(pattern - (exponent << 52)) - 1.0
    k = float(exponent - 54 if tiny else exponent)
    s = f / (2.0 + f)
    z = s * s
    p = 1.479819860511658591e-01
    p = fma(p, z, 1.531383769920937332e-01)
    p = fma(p, z, 1.818357216161805012e-01)
    p = fma(p, z, 2.222219843214978396e-01)
    p = fma(p, z, 2.857142874366239149e-01)
    p = fma(p, z, 3.999999999940941908e-01)
    p = fma(p, z, 6.666666666666735130e-01)
    half = 0.5 * f * f
    rest = fma(k, 1.9082149292705877e-10, s * fma(p, z, half))
    return fma(k, 0.6931471803691238, f - (half - rest)) if x > 0.0 else -np.inf


@part
def copy_to(target: Floats, source: Floats) -> None:
    """Copy an array into one of the same length. ``target[:] = source`` would add three seconds to the compilation."""
    for i in range(source.shape[0]):
        target[i] = source[i]


@part
def exp_all(values: Floats) -> None:
    """Replace values by their exponentials."""
    for i in range(values.shape[0]):
        values[i] = exp(values[i])


# --- Matrix products in a fixed order of fused multiply-adds.


def _has_wide_registers() -> bool:
    """Whether Numba compiles for a machine with 32 registers of 64 bytes; Numba's CPU settings take precedence."""
    if numba.config.CPU_NAME:
        return "+avx512f" in (numba.config.CPU_FEATURES or "")
    try:
        features = binding.get_host_cpu_features()
    except RuntimeError:  # LLVM does not know this architecture
        return False
    return bool(numba.config.ENABLE_AVX and features.get("avx512f"))


# A tile fills most of the registers with sums; machines without the wide ones have 16 of 32 bytes.
ROWS, VECTOR_BYTES = (8, 64) if _has_wide_registers() else (6, 32)
INT, LANE = ir.IntType(64), ir.IntType(32)


class _Matrix:
    """Addresses in a two-dimensional Numba array."""

    def __init__(self, context: Numba, builder: ir.IRBuilder, kind: Numba, value: ir.Value) -> None:
        array = context.make_array(kind)(context, builder, value)
        self.builder = builder
        self.begin = builder.ptrtoint(array.data, INT)
        self.down, self.right = (builder.extract_value(array.strides, axis) for axis in (0, 1))
        self.n_rows, self.n_columns = (builder.extract_value(array.shape, axis) for axis in (0, 1))

    def address(self, row: ir.Value, column: ir.Value) -> ir.Value:
        b = self.builder
        return b.add(self.begin, b.add(b.mul(row, self.down), b.mul(column, self.right)))


class _Tile:
    """Code that adds a(i : i + ROWS, :) b(:, j : j + width) to a tile of the output.

    It is `n_vectors` wide, or narrower if a `width` is passed.
    """

    def __init__(self, builder: ir.IRBuilder, number: Numba, n_vectors: int, width: ir.Value | None = None) -> None:
        self.builder = builder
        self.number = ir.FloatType() if number == types.float32 else ir.DoubleType()
        self.bytes = number.bitwidth // 8
        self.lanes = VECTOR_BYTES // self.bytes
        self.vector = ir.VectorType(self.number, self.lanes)
        mask, pointer, align = ir.VectorType(ir.IntType(1), self.lanes), self.vector.as_pointer(), LANE
        name = f"v{self.lanes}f{number.bitwidth}"
        self.load = self._declare(f"llvm.masked.load.{name}.p0", self.vector, [pointer, align, mask, self.vector])
        self.store = self._declare(f"llvm.masked.store.{name}.p0", ir.VoidType(), [self.vector, pointer, align, mask])
        self.fma = self._declare(f"llvm.fma.{name}", self.vector, [self.vector] * 3)
        lanes = ir.VectorType(INT, self.lanes)
        self.masks = [ir.Constant(mask, [1] * self.lanes)] * (n_vectors if width is None else 0)
        for v in range(0 if width is None else n_vectors):
            left = self._everywhere(builder.sub(width, _int(v * self.lanes)), lanes)
            self.masks.append(builder.icmp_signed("<", ir.Constant(lanes, list(range(self.lanes))), left))

    def _declare(self, name: str, result: ir.Type, arguments: list[ir.Type]) -> ir.Function:
        known = self.builder.module.globals.get(name)
        return known or ir.Function(self.builder.module, ir.FunctionType(result, arguments), name)

    def _everywhere(self, value: ir.Value, kind: ir.Type) -> ir.Value:
        """Broadcast a number to all lanes of a vector."""
        empty, places = ir.Constant(kind, ir.Undefined), ir.VectorType(LANE, self.lanes)
        first = self.builder.insert_element(empty, value, LANE(0))
        return self.builder.shuffle_vector(first, empty, ir.Constant(places, [0] * self.lanes))

    def _vectors(self, begin: ir.Value) -> list[ir.Value]:
        """Pointers to the vectors of one row of a tile."""
        b, pointer = self.builder, self.vector.as_pointer()
        return [b.inttoptr(b.add(begin, _int(v * VECTOR_BYTES)), pointer) for v in range(len(self.masks))]

    def read(self, begin: ir.Value) -> list[ir.Value]:
        """The vectors of one row; lanes beyond the width are 0 and not read from memory."""
        zero = ir.Constant(self.vector, [0.0] * self.lanes)
        places = zip(self._vectors(begin), self.masks, strict=True)
        return [self.builder.call(self.load, [place, LANE(self.bytes), mask, zero]) for place, mask in places]

    def write(self, begin: ir.Value, values: list[ir.Value]) -> None:
        """Store the vectors of one row."""
        for value, place, mask in zip(values, self._vectors(begin), self.masks, strict=True):
            self.builder.call(self.store, [value, place, LANE(self.bytes), mask])

    def multiply(
        self, a: _Matrix, b: _Matrix, i: list[ir.Value], j: ir.Value, sums: list[list[ir.Value]]
    ) -> list[list[ir.Value]]:
        """The loop over the inner index, which has at least one value."""
        code, before = self.builder, self.builder.block
        loop, after = code.append_basic_block("inner"), code.append_basic_block("done")
        code.branch(loop)
        code.position_at_end(loop)
        k = code.phi(INT)
        running = [[code.phi(self.vector) for _ in row] for row in sums]
        right = self.read(b.address(k, j))
        following = []
        for row, own in zip(i, running, strict=True):
            number = code.load(code.inttoptr(a.address(row, k), self.number.as_pointer()))
            left = self._everywhere(number, self.vector)
            following.append([code.call(self.fma, [left, r, s]) for r, s in zip(right, own, strict=True)])
        step = code.add(k, _int(1))
        k.add_incoming(_int(0), before)
        k.add_incoming(step, loop)
        for phis, first, later in zip(running, sums, following, strict=True):
            for phi, start, value in zip(phis, first, later, strict=True):
                phi.add_incoming(start, before)
                phi.add_incoming(value, loop)
        code.cbranch(code.icmp_signed("<", step, a.n_columns), loop, after)
        code.position_at_end(after)
        return following


def _int(value: int) -> ir.Value:
    return ir.Constant(INT, value)


def _make_tile(n_vectors: int, full: bool) -> Intrinsic:
    def typed(_context: Numba, out: Numba, a: Numba, b: Numba, _i: Numba, _j: Numba, _width: Numba) -> Numba:
        def generate(context: Numba, builder: ir.IRBuilder, signature: Numba, args: list[ir.Value]) -> ir.Value:
            target, left, right = (
                _Matrix(context, builder, *pair) for pair in zip(signature.args[:3], args, strict=False)
            )
            i, j, width = args[3:]
            tile = _Tile(builder, signature.args[0].dtype, n_vectors, None if full else width)
            # Rows beyond the last repeat the last one: they compute and store the same numbers.
            last = builder.sub(target.n_rows, _int(1))
            rows = [_least(builder, builder.add(i, _int(r)), last) for r in range(ROWS)]
            places = [target.address(row, j) for row in rows]
            sums = tile.multiply(left, right, rows, j, [tile.read(place) for place in places])
            for place, values in zip(places, sums, strict=True):
                tile.write(place, values)
            return context.get_dummy_value()

        return types.void(out, a, b, types.int64, types.int64, types.int64), generate

    return intrinsic(typed)


def _least(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_signed("<", a, b), a, b)


_whole, _wide, _narrow = _make_tile(2, True), _make_tile(2, False), _make_tile(1, False)


@part(inline=False)
def add_product(out, a, b):
    """Add a @ b to `out`; rows of `out` and `b` are contiguous, and no size is 0."""
    n, m = out.shape
    lanes = VECTOR_BYTES // out.itemsize
    # Columns outside, rows inside: the two vectors of `b` stay in the cache while all rows pass.
    for j in range(0, m, 2 * lanes):
        width = m - j
        for i in range(0, n, ROWS):
            if width >= 2 * lanes:
                _whole(out, a, b, i, j, width)
            elif width > lanes:
                _wide(out, a, b, i, j, width)
            else:
                _narrow(out, a, b, i, j, width)
