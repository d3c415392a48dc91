"""Small tile: the intrinsics of small matrices, several a block: factors in shared memory, accumulators in registers.

Of a matrix's threads, thread (r, c) accumulators rows 4 r … 4 r + 3 of columns 4 c … 4 c + 3, row by row.
"""

from __future__ import annotations

from ....ir.types import DType, dtype
from ..compiler.numba_backend import I32, I64, Emitter, emitted, ir, numba_type, types
from ..matmul.intrinsics import fused_multiply_add
from ..tile.element_registers import element_type
from ..tile.memory import ACCESS_BYTES, ld_shared, st_shared
from .layout import OWN, SmallLayout


class SmallTile(SmallLayout):
    """The intrinsics of a small layout."""

    @emitted(lambda self, kind: types.UniTuple(types.UniTuple(types.int64, self.elements(kind)), 2))
    def factor_places(self, e, *, kind: str, along: bool):
        """`coordinates()`: (rows or columns, steps) of the elements of a factor that this thread loads, in vectors of
        OWN that lie `along` the steps, or across."""
        positions = [self._element(e, kind, along, k) for k in range(self.elements(kind))]
        return [[e.builder.zext(position[side], I64) for position in positions] for side in (0, 1)]

    @emitted(types.void)
    def store_factor(self, e, at, tile, *, kind: str, name: str, along: bool):
        """`put(at, values)`: this thread's elements of a factor into shared memory."""
        element, count = dtype(name), self.elements(kind)
        width = min(OWN, ACCESS_BYTES // element.itemsize)
        b, values = e.builder, e.unpack(tile, count)
        for k in range(0, count, 1 if along else width):
            lane, step = self._element(e, kind, along, k)
            index = b.add(self._matrix(e, kind), b.add(b.mul(step, I32(self.pitch(kind))), lane))
            part = values[k : k + (1 if along else width)]
            st_shared(e, element, len(part), _byte(e, at, index, element.itemsize), part)

    def _element(self, e: Emitter, kind: str, along: bool, k: int) -> tuple[ir.Value, ir.Value]:
        """(row or column, step) of a thread's k-th element of a factor."""
        b, (vector, within) = e.builder, divmod(k, OWN)
        number = b.add(self._thread(e), I32(vector * self.threads))
        line = (self.depth if along else self.edge(kind)) // OWN
        far, near = b.udiv(number, I32(line)), b.add(b.mul(b.urem(number, I32(line)), I32(OWN)), I32(within))
        return (far, near) if along else (near, far)

    @emitted(lambda name: types.UniTuple(numba_type(name), OWN * OWN))
    def zero(self, e, *, name: str):
        """`zero()`: a thread's accumulators before the first product."""
        return [element_type(dtype(name))(0)] * (OWN * OWN)

    @emitted(lambda name: types.UniTuple(numba_type(name), OWN * OWN))
    def multiply(self, e, left, right, accumulators_in, *, name: str):
        """`multiply(left, right, accumulators)`: the accumulators plus the products of two factors in shared memory."""
        kind = dtype(name)
        b, accumulators = e.builder, e.unpack(accumulators_in, OWN * OWN)
        row, column = self._sums(e)
        offsets = [b.add(self._matrix(e, side), first) for side, first in (("row", row), ("column", column))]
        for step in range(self.depth):
            x, y = (
                _neighbours(e, kind, at, b.add(offset, I32(step * self.pitch(side))))
                for at, offset, side in zip((left, right), offsets, ("row", "column"))
            )
            accumulators = [
                fused_multiply_add(e, kind, x[k // OWN], y[k % OWN], accumulators[k]) for k in range(OWN * OWN)
            ]
        return accumulators

    @emitted(types.UniTuple(types.UniTuple(types.int64, OWN), 2))
    def sum_places(self, e, *, part: int):
        """`coordinates()`: (rows, columns) of the elements that this thread sums, in one of its rows."""
        b, (row, column) = e.builder, self._sums(e)
        rows = [b.zext(b.add(row, I32(part)), I64)] * OWN
        return [rows, [b.zext(b.add(column, I32(k)), I64) for k in range(OWN)]]

    def _sums(self, e: Emitter) -> tuple[ir.Value, ir.Value]:
        """The first row and column that a thread sums."""
        b, line = e.builder, I32(self.columns // OWN)
        return tuple(b.mul(way(self._thread(e), line), I32(OWN)) for way in (b.udiv, b.urem))

    def _thread(self, e: Emitter) -> ir.Value:
        """A thread's number among those of its matrix."""
        return e.builder.urem(e.special_register("tid.x"), I32(self.threads))

    def _matrix(self, e: Emitter, kind: str) -> ir.Value:
        """Where a factor of the thread's matrix begins, in elements."""
        b = e.builder
        return b.mul(b.udiv(e.special_register("tid.x"), I32(self.threads)), I32(self.area(kind)))


def _byte(e: Emitter, base: ir.Value, index: ir.Value, size: int) -> ir.Value:
    b = e.builder
    return b.add(b.trunc(base, I32), b.mul(index, I32(size)))


def _neighbours(e: Emitter, kind: DType, base: ir.Value, index: ir.Value) -> list[ir.Value]:
    """OWN neighbouring elements, in as few reads as there can be."""
    width = min(OWN, ACCESS_BYTES // kind.itemsize)
    at = _byte(e, base, index, kind.itemsize)
    reads = (e.builder.add(at, I32(k * kind.itemsize)) for k in range(0, OWN, width))
    return [x for one in reads for x in ld_shared(e, kind, width, one)]
