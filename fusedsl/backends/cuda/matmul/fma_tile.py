"""Products on CUDA cores: a thread's fused multiply-adds over a K-slice, from padded operand tiles.

Of a warp's lanes, bit 0 is the lowest of the row and bit 1 of the column: threads that read the same 16 bytes are
neighbours, so that a warp's load of an operand takes two wavefronts, not four.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....ir.types import DType, dtype
from ..compiler.numba_backend import F32, F64, I32, Emitter, emitted, intrinsic, ir, numba_type, types
from ..mma.tile_sizes import COPY_BYTES
from ..tile.element_registers import element_type
from ..tile.memory import ld_shared, st_shared
from .tile_shapes import FmaTileShape

GROUP = 4  # neighbouring rows and columns of a thread
i32 = types.int32


@dataclass(frozen=True)
class FmaTile(FmaTileShape):
    """The accumulators of a block; a thread's are ordered row by row."""

    @property
    def kind(self) -> DType:
        return dtype(self.dtype)

    def _types(self) -> types.UniTuple:
        return types.UniTuple(numba_type(self.dtype), self.count)

    def _first_element(self, e: Emitter) -> tuple[ir.Value, ir.Value]:
        """The first row and column of a thread."""
        b, thread = e.builder, e.special_register("tid.x")
        lane, warp = b.and_(thread, I32(31)), b.lshr(thread, I32(5))
        row_bits, column_bits = (n.bit_length() - 1 for n in self.lanes)
        row, column = b.and_(lane, I32(1)), b.and_(b.lshr(lane, I32(1)), I32((1 << column_bits) - 1))
        row = b.or_(row, b.shl(b.lshr(lane, I32(1 + column_bits)), I32(1))) if row_bits > 1 else row
        warp_row, warp_column = b.urem(warp, I32(self.warps[0])), b.udiv(warp, I32(self.warps[0]))
        row = b.add(b.mul(warp_row, I32(self.rows // self.warps[0])), b.mul(row, I32(GROUP)))
        column = b.add(b.mul(warp_column, I32(self.columns // self.warps[1])), b.mul(column, I32(GROUP)))
        return row, column

    def _offsets(self, side: int) -> list[int]:
        """The distance of a thread's rows (side 0) or columns (1) from its first."""
        count = (self.thread_rows, self.thread_columns)[side]
        return [k // GROUP * GROUP * self.lanes[side] + k % GROUP for k in range(count)]

    def zeros(self) -> Callable:
        """`zeros()`: accumulators of 0."""
        zero = element_type(self.kind)(0)
        return intrinsic(0)(lambda: (self._types(), lambda e: e.pack(self._types(), [zero] * self.count)))

    def _fragment_types(self) -> types.UniTuple:
        return types.UniTuple(numba_type(self.dtype), self.thread_rows + self.thread_columns)

    def fragments(self, left_pitch: int, right_pitch: int, step: int) -> Callable:
        """`fragments(left, right)`: a thread's elements of a step of two padded tiles.

        The tiles have so many elements between steps.
        """

        @emitted(self._fragment_types(), 2)
        def emit(e, left, right, *, kinds):
            read = self._reader(e, (e.cast(left, kinds[0], i32), e.cast(right, kinds[1], i32)), left_pitch, right_pitch)
            return e.pack(self._fragment_types(), read(step))

        return emit

    def multiply(self, left_pitch: int, right_pitch: int) -> Callable:
        """`multiply(left, right, accumulators, fragments)`: adds the products of all steps of a K-slice but the last.

        The fragments of its first step are given; those of a step are read while the one before is multiplied.
        """

        @emitted(self._types(), 4)
        def emit(e, left, right, so_far, first, *, kinds):
            accumulators, ahead = e.unpack(so_far, self.count), e.unpack(first, self._fragment_types().count)
            read = self._reader(e, (e.cast(left, kinds[0], i32), e.cast(right, kinds[1], i32)), left_pitch, right_pitch)
            for step in range(self.block_k - 1):
                fragments, ahead = ahead, read(step + 1) if step + 2 < self.block_k else ahead
                self._add_products(e, fragments, accumulators)
            return e.pack(self._types(), accumulators)

        return emit

    @emitted(lambda self: self._types())
    def multiply_fragments(self, e, so_far, given):
        """`multiply_fragments(accumulators, fragments)`: adds the products of one step."""
        accumulators = e.unpack(so_far, self.count)
        self._add_products(e, e.unpack(given, self._fragment_types().count), accumulators)
        return e.pack(self._types(), accumulators)

    def _add_products(self, e: Emitter, fragments: list[ir.Value], accumulators: list[ir.Value]) -> None:
        """Column by column, in turns up and down: most registers come from the reuse cache, few from one bank."""
        x, y = fragments[: self.thread_rows], fragments[self.thread_rows :]
        for j in range(self.thread_columns):
            for i in range(self.thread_rows)[:: 1 if j % 2 == 0 else -1]:
                k = i * self.thread_columns + j
                accumulators[k] = _fma(e, self.kind, x[i], y[j], accumulators[k])

    def _reader(
        self, e: Emitter, tiles: tuple[ir.Value, ir.Value], left_pitch: int, right_pitch: int
    ) -> Callable[[int], list[ir.Value]]:
        """The function that reads the fragments of a step: a thread's rows, then its columns."""
        b, size = e.builder, self.kind.itemsize
        left, right = (b.add(at, b.mul(own, I32(size))) for at, own in zip(tiles, self._first_element(e)))
        return lambda step: self._read(e, left, step * left_pitch, 0) + self._read(e, right, step * right_pitch, 1)

    def _read(self, e: Emitter, at: ir.Value, skipped: int, side: int) -> list[ir.Value]:
        """A thread's elements of one step."""
        size, width = self.kind.itemsize, COPY_BYTES // self.kind.itemsize
        elements: list[ir.Value] = []
        for k in range(0, len(self._offsets(side)), width):
            address = e.builder.add(at, I32((skipped + self._offsets(side)[k]) * size))
            elements += ld_shared(e, self.kind, width, address)
        return elements

    @emitted(types.void)
    def add_accumulators(self, e, to, held, is_first, *, kinds):
        """`add(to, accumulators, is_first)`: adds them to those in shared memory; the first ones are stored."""
        b, accumulators, first = e.builder, e.unpack(held, self.count), e.cast(is_first, kinds[2], types.boolean)
        addresses = self._sum_addresses(e, e.cast(to, kinds[0], i32))
        with b.if_else(first) as (then, otherwise):
            with then:
                for address, own in addresses:
                    st_shared(e, self.kind, len(own), address, [accumulators[k] for k in own])
            with otherwise:
                for address, own in addresses:
                    before = ld_shared(e, self.kind, len(own), address)
                    st_shared(
                        e, self.kind, len(own), address, [b.fadd(x, accumulators[k]) for x, k in zip(before, own)]
                    )

    def _sum_addresses(self, e: Emitter, to: ir.Value) -> list[tuple[ir.Value, list[int]]]:
        """The address of each 16 bytes of a thread's accumulators in shared memory, and which they are."""
        b, size, width = e.builder, self.kind.itemsize, COPY_BYTES // self.kind.itemsize
        row, column = self._first_element(e)
        start = b.add(to, b.mul(b.add(b.mul(row, I32(self.pitch)), column), I32(size)))
        addresses = []
        for i, further in enumerate(self._offsets(0)):
            for j in range(0, self.thread_columns, width):
                address = b.add(start, I32((further * self.pitch + self._offsets(1)[j]) * size))
                addresses.append((address, [i * self.thread_columns + j + n for n in range(width)]))
        return addresses


def _fma(e: Emitter, kind: DType, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    return e.call(F64 if kind.bits == 64 else F32, f"llvm.fma.f{kind.bits}", [x, y, z])
