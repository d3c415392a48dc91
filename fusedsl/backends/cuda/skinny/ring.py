"""Skinny ring: how the stages of a product with few rows come into shared memory.

The `streamed` operand (the weights) is read once, the `narrow` one has few rows. A stage has the products' next `depth`
steps: a slot of 64 x 32 elements of the streamed operand for each warp along them, whose lanes read just the vectors of
16 bytes that they need (tile.py), and the rows of the narrow one.
"""

from __future__ import annotations

from collections.abc import Callable

from ....ir.types import UINT16
from ....kernel_ir.memory_access import ACCESS_BYTES
from ..compiler.numba_backend import I32, I64, VOID, Emitter, emitted, ir, types
from ..tile.memory import ValidElements, load_vector, st_shared
from .layout import ROWS, STEPS, VECTORS, SkinnyLayout
from .threads import lane_index, warp_k, warp_place


class SkinnyRing(SkinnyLayout):
    """The intrinsics that fill a skinny layout's stages."""

    # -- the streamed operand

    def copy_streamed(self) -> Callable:
        """`copy(slot, address, pitch, rows, steps)`: begin to copy the next steps of the block's rows, of which so many
        are left; 0 behind them. `pitch` is the distance of lines along the contiguous axis, in elements."""

        @emitted(types.void)
        def emit(e, slot, address, pitch, rows, steps):
            b, (wide, warp, g, t) = e.builder, warp_place(self, e)
            step, row = self._streamed_origin(e, wide, warp, g, t)
            line, near, lines, width = (row, step, rows, steps) if self.near == "k" else (step, row, steps, rows)
            there = b.icmp_signed("<", near, width)
            first = b.add(address, b.mul(b.add(b.mul(line, pitch), near), I64(2)))
            to = b.add(slot, b.shl(self._vector(e, warp, wide), I32(4)))
            for k in range(VECTORS // self.warps_narrow):
                apart = _line_of(self.near, k)
                own = b.and_(there, b.icmp_signed("<", b.add(line, I64(apart)), lines))
                source = b.add(first, b.mul(pitch, I64(2 * apart)))
                _copy(e, b.add(to, I32(k * 32 * ACCESS_BYTES)), source, own)

        return emit

    def _streamed_origin(self, e: Emitter, wide, warp, g, t) -> tuple[ir.Value, ir.Value]:
        """(the step, the row) of a thread's first vector, of those that its warp copies."""
        b, k = e.builder, warp_k(self, e, warp)
        row = b.mul(b.udiv(warp, I32(self.warps_k)), I32(ROWS))
        step = b.mul(k, I32(STEPS))
        further = b.mul(wide, I32(VECTORS // self.warps_narrow))  # its number among the slot's vectors
        if self.near == "k":
            row, step = b.add(row, b.add(g, b.shl(further, I32(3)))), b.add(step, b.shl(t, I32(3)))
        else:
            row, step = b.add(row, b.shl(g, I32(3))), b.add(step, b.add(b.shl(t, I32(2)), b.shl(further, I32(2))))
        return b.zext(step, I64), b.zext(row, I64)

    def _vector(self, e: Emitter, warp: ir.Value, wide: ir.Value) -> ir.Value:
        """The number of a thread's first vector in a stage."""
        b = e.builder
        number = b.add(b.mul(warp, I32(VECTORS)), b.mul(wide, I32(VECTORS // self.warps_narrow)))
        return b.add(b.shl(number, I32(5)), lane_index(e))

    # -- the narrow operand

    def copy_narrow(self) -> Callable:
        """`copy(slot, address, pitch, rows, steps)`: the same of a narrow operand that lies along the steps."""
        line = self.depth // 8

        @emitted(types.void)
        def emit(e, slot, address, pitch, rows, steps):
            b = e.builder

            def vector(number: ir.Value) -> None:
                row, at = b.udiv(number, I32(line)), b.urem(number, I32(line))
                near, far = b.zext(b.shl(at, I32(3)), I64), b.zext(row, I64)
                own = b.and_(b.icmp_signed("<", near, steps), b.icmp_signed("<", far, rows))
                source = b.add(address, b.mul(b.add(b.mul(far, pitch), near), I64(2)))
                to = b.add(slot, b.add(b.mul(row, I32(self.pitch)), b.shl(at, I32(4))))
                _copy(e, to, source, own)

            self._each(e, self.narrow * line, vector)

        return emit

    def load_narrow(self, near: str) -> Callable:
        """`load(address, row_stride, step_stride, rows, steps)`: this thread's elements of a narrow operand of any
        strides; neighbouring threads are at neighbouring steps ("k") or rows ("n")."""
        result = types.UniTuple(types.uint16, self._elements)

        @emitted(result)
        def emit(e, address, row_stride, step_stride, rows, steps):
            b, found = e.builder, []
            for k in range(self._elements):
                row, at = (b.zext(x, I64) for x in self._element(e, near, k))
                own = b.and_(b.icmp_signed("<", at, steps), b.icmp_signed("<", row, rows))
                place = b.add(address, b.mul(b.add(b.mul(row, row_stride), b.mul(at, step_stride)), I64(2)))
                found += load_vector(e, UINT16, 1, place, ValidElements(b.zext(own, I32)))
            return e.pack(result, found)

        return emit

    def store_narrow(self, near: str) -> Callable:
        """`store(slot, elements)`: put them into a stage."""

        @emitted(types.void)
        def emit(e, slot, elements):
            b = e.builder
            for k, value in enumerate(e.unpack(elements, self._elements)):
                row, at = self._element(e, near, k)
                st_shared(e, UINT16, 1, b.add(slot, b.add(b.mul(row, I32(self.pitch)), b.shl(at, I32(1)))), [value])

        return emit

    @property
    def _elements(self) -> int:
        """Narrow elements of a thread."""
        return self.narrow * self.depth // self.threads

    def _element(self, e: Emitter, near: str, k: int) -> tuple[ir.Value, ir.Value]:
        """(row, step) of a thread's k-th narrow element."""
        b = e.builder
        number = b.add(e.special_register("tid.x"), I32(k * self.threads))
        if near == "k":
            return b.udiv(number, I32(self.depth)), b.urem(number, I32(self.depth))
        return b.urem(number, I32(self.narrow)), b.udiv(number, I32(self.narrow))

    def _each(self, e: Emitter, count: int, work: Callable) -> None:
        """`work(number)` for numbers below `count`, shared by the threads."""
        b, thread = e.builder, e.special_register("tid.x")
        for begin in range(0, count, self.threads):
            number = b.add(thread, I32(begin))
            if begin + self.threads <= count:
                work(number)
            else:
                with b.if_then(b.icmp_unsigned("<", number, I32(count))):
                    work(number)


def _line_of(near: str, k: int) -> int:
    """How many lines a warp's k-th vectors are behind its first."""
    return 8 * k if near == "k" else 16 * (k // 4) + k % 4


def _copy(e: Emitter, to: ir.Value, source: ir.Value, wanted: ir.Value) -> None:
    """cp.async of 16 bytes past the L1; zeros where they are not wanted."""
    b = e.builder
    size = b.select(wanted, I32(ACCESS_BYTES), I32(0))
    text = f"cp.async.cg.shared.global [$0], [$1], {ACCESS_BYTES}, $2;"
    e.asm(VOID, text, "r,l,r,~{memory}", [to, source, size], effect=True)
