"""Matrix products in a fixed order: out(i, j) += a(i, 0) b(0, j), then a(i, 1) b(1, j), ..., each one fused.

BLAS adds up in an order that depends on the machine and the number of threads, so its bits do too. Here every output
is one chain of fused multiply-adds over the inner index, whatever the vectors' width: tiles of `ROWS` x 16 outputs are
kept in registers while the inner index runs. LLVM does not find that by itself, so the tile is written in its own
language, for several heights and widths. It keeps up with BLAS at the sizes of SOMCOT.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from somcot.plumbing.jit import part

__all__ = ["add_product"]

ROWS, LANES = 8, 8
COLUMNS = 2 * LANES
BYTES = 8
INT, LANE = ir.IntType(64), ir.IntType(32)
VECTOR = ir.VectorType(ir.DoubleType(), LANES)
MASK = ir.VectorType(ir.IntType(1), LANES)


class _Matrix:
    """Addresses in a two-dimensional array of Numba's."""

    def __init__(self, context: Any, builder: Any, kind: Any, value: Any) -> None:
        array = context.make_array(kind)(context, builder, value)
        self.builder = builder
        self.begin = builder.ptrtoint(array.data, INT)
        self.down, self.right = (builder.extract_value(array.strides, axis) for axis in (0, 1))
        self.n_columns = builder.extract_value(array.shape, 1)

    def address(self, row: Any, column: Any) -> Any:
        b = self.builder
        return b.add(self.begin, b.add(b.mul(row, self.down), b.mul(column, self.right)))


class _Tile:
    """Code that adds a(i : i + n_rows, :) b(:, j : j + width) to a tile of the output, at most `n_vectors` wide."""

    def __init__(self, builder: Any, n_vectors: int, width: Any) -> None:
        self.builder = builder
        pointer, align = VECTOR.as_pointer(), LANE
        self.load = self._declare("llvm.masked.load.v8f64.p0", VECTOR, [pointer, align, MASK, VECTOR])
        self.store = self._declare("llvm.masked.store.v8f64.p0", ir.VoidType(), [VECTOR, pointer, align, MASK])
        self.fma = self._declare("llvm.fma.v8f64", VECTOR, [VECTOR] * 3)
        lanes = ir.VectorType(INT, LANES)
        self.masks = []
        for v in range(n_vectors):
            left = self._everywhere(builder.sub(width, _int(v * LANES)), lanes)
            self.masks.append(builder.icmp_signed("<", ir.Constant(lanes, list(range(LANES))), left))

    def _declare(self, name: str, result: Any, arguments: list[Any]) -> Any:
        known = self.builder.module.globals.get(name)
        return known or ir.Function(self.builder.module, ir.FunctionType(result, arguments), name)

    def _everywhere(self, value: Any, kind: Any) -> Any:
        """A vector with the same number in all lanes."""
        empty, places = ir.Constant(kind, ir.Undefined), ir.VectorType(LANE, LANES)
        first = self.builder.insert_element(empty, value, LANE(0))
        return self.builder.shuffle_vector(first, empty, ir.Constant(places, [0] * LANES))

    def _vectors(self, begin: Any) -> list[Any]:
        """Pointers to the vectors of one row of a tile."""
        b = self.builder
        return [b.inttoptr(b.add(begin, _int(v * LANES * BYTES)), VECTOR.as_pointer()) for v in range(len(self.masks))]

    def read(self, begin: Any) -> list[Any]:
        """The vectors of one row; lanes beyond the width are 0 and not touched."""
        zero = ir.Constant(VECTOR, [0.0] * LANES)
        places = zip(self._vectors(begin), self.masks, strict=True)
        return [self.builder.call(self.load, [place, LANE(BYTES), mask, zero]) for place, mask in places]

    def write(self, begin: Any, values: list[Any]) -> None:
        """Store the vectors of one row."""
        for value, place, mask in zip(values, self._vectors(begin), self.masks, strict=True):
            self.builder.call(self.store, [value, place, LANE(BYTES), mask])

    def multiply(self, a: _Matrix, b: _Matrix, i: list[Any], j: Any, sums: list[list[Any]]) -> list[list[Any]]:
        """The loop over the inner index, which has at least one value."""
        code, before = self.builder, self.builder.block
        loop, after = code.append_basic_block("inner"), code.append_basic_block("done")
        code.branch(loop)
        code.position_at_end(loop)
        k = code.phi(INT)
        running = [[code.phi(VECTOR) for _ in row] for row in sums]
        right = self.read(b.address(k, j))
        following = []
        for row, own in zip(i, running, strict=True):
            number = code.load(code.inttoptr(a.address(row, k), ir.DoubleType().as_pointer()))
            left = self._everywhere(number, VECTOR)
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


def _int(value: int) -> Any:
    return ir.Constant(INT, value)


def _make_tile(n_rows: int, n_vectors: int) -> Any:
    def typed(_context: Any, out: Any, a: Any, b: Any, i: Any, j: Any, width: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            target, left, right = (
                _Matrix(context, builder, *pair) for pair in zip(signature.args[:3], args, strict=False)
            )
            i, j, width = args[3:]
            tile = _Tile(builder, n_vectors, width)
            rows = [builder.add(i, _int(r)) for r in range(n_rows)]
            places = [target.address(row, j) for row in rows]
            sums = tile.multiply(left, right, rows, j, [tile.read(place) for place in places])
            for place, values in zip(places, sums, strict=True):
                tile.write(place, values)
            return context.get_dummy_value()

        return types.void(out, a, b, types.int64, types.int64, types.int64), generate

    return intrinsic(typed)


_wide_tile, _wide_two, _wide_row = (_make_tile(n_rows, 2) for n_rows in (ROWS, 2, 1))
_tile, _row = (_make_tile(n_rows, 1) for n_rows in (ROWS, 1))


@part
def add_product(out, a, b):
    """Add a @ b to `out`; rows of `out` and `b` are contiguous, and the inner size is at least 1."""
    n, m = out.shape
    whole = n - n % ROWS
    even = n - n % 2
    for j in range(0, m, COLUMNS):
        width = min(COLUMNS, m - j)
        if width > LANES:
            for i in range(0, whole, ROWS):
                _wide_tile(out, a, b, i, j, width)
            for i in range(whole, even, 2):
                _wide_two(out, a, b, i, j, width)
            for i in range(even, n):
                _wide_row(out, a, b, i, j, width)
        else:
            for i in range(0, whole, ROWS):
                _tile(out, a, b, i, j, width)
            for i in range(whole, n):
                _row(out, a, b, i, j, width)
