"""Skinny ring: how the stages of a product with few rows come into shared memory.

The `streamed` operand (the weights) is read once, the `narrow` one has few rows. A stage has the products' next `depth`
steps: a slot of 64 x 64 bytes of the streamed operand for each warp along them, whose lanes read just the vectors of
16 bytes that they need (thread_layout.py), and the rows of the narrow one.
"""

from __future__ import annotations

from collections.abc import Callable

from ....ir.types import UINT16, UINT32, DType
from ....kernel_ir.memory_access import ACCESS_BYTES
from ..compiler.numba_backend import I32, I64, VOID, Emitter, emitted, ir, types
from ..tile.element_registers import stored_type
from ..tile.memory import load_vector, st_shared
from ..tile.valid_elements import ValidElements
from .layout import SkinnyLayout
from .thread_layout import copied_offset


class SkinnyRing(SkinnyLayout):
    """The intrinsics that fill a skinny layout's stages."""

    # -- the streamed operand

    @emitted(types.void)
    def copy_streamed(self, e, stage, address, pitch, rows, steps):
        """`copy(stage, address, pitch, rows, steps)`: begin to copy the next steps of the block's rows, of which so
        many are left; 0 behind them. `pitch` is the distance of lines along the contiguous axis, in elements."""
        chunk = ACCESS_BYTES // self.itemsize
        chunks = (self.depth if self.near == "k" else self.streamed) // chunk  # of a line
        count = self.streamed_bytes // ACCESS_BYTES // self.threads
        b, thread = e.builder, e.special_register("tid.x")
        lines, width = (rows, steps) if self.near == "k" else (steps, rows)
        for k in range(count):
            number = b.add(thread, I32(k * self.threads))
            line, which = b.udiv(number, I32(chunks)), b.urem(number, I32(chunks))
            far, near = b.zext(line, I64), b.zext(b.mul(which, I32(chunk)), I64)
            size = self._bytes_of(e, b.icmp_signed("<", far, lines), b.sub(width, near))
            source = b.add(address, b.mul(b.add(b.mul(far, pitch), near), I64(self.itemsize)))
            _copy(e, b.add(stage, copied_offset(self, e, line, which)), source, size)

    # -- the narrow operand

    @emitted(types.void)
    def copy_narrow(self, e, stage, address, pitch, rows, steps):
        """`copy(stage, address, pitch, rows, steps)`: the same of a narrow operand that lies along the steps."""
        width = ACCESS_BYTES // self.itemsize
        line = self.depth // width
        b = e.builder

        def vector(number: ir.Value) -> None:
            row, at = b.udiv(number, I32(line)), b.urem(number, I32(line))
            near, far = b.zext(b.mul(at, I32(width)), I64), b.zext(row, I64)
            size = self._bytes_of(e, b.icmp_signed("<", far, rows), b.sub(steps, near))
            source = b.add(address, b.mul(b.add(b.mul(far, pitch), near), I64(self.itemsize)))
            to = b.add(stage, b.add(b.mul(row, I32(self.pitch)), b.shl(at, I32(4))))
            _copy(e, to, source, size)

        self._each(e, self.narrow * line, vector)

    def load_narrow(self, near: str) -> Callable:
        """`load(address, row_stride, step_stride, rows, steps)`: this thread's elements of a narrow operand of any
        strides; neighbouring threads are at neighbouring steps ("k") or rows ("n")."""
        result = stored_type(self._bits, self._elements, 1)

        @emitted(result)
        def emit(e, address, row_stride, step_stride, rows, steps):
            b, loaded = e.builder, []
            for k in range(self._elements):
                row, at = (b.zext(x, I64) for x in self._element(e, near, k))
                own = b.and_(b.icmp_signed("<", at, steps), b.icmp_signed("<", row, rows))
                start = b.add(address, b.mul(b.add(b.mul(row, row_stride), b.mul(at, step_stride)), I64(self.itemsize)))
                loaded += load_vector(e, self._bits, 1, start, ValidElements(b.zext(own, I32)))
            return e.pack(result, loaded)

        return emit

    @emitted(types.void)
    def store_narrow(self, e, slot, elements, *, near: str):
        """`store(slot, elements)`: put them into a stage."""
        b = e.builder
        for k, value in enumerate(e.unpack(elements, self._elements)):
            row, at = self._element(e, near, k)
            offset = b.add(b.mul(row, I32(self.pitch)), b.mul(at, I32(self.itemsize)))
            st_shared(e, self._bits, 1, b.add(slot, offset), [value])

    def _bytes_of(self, e: Emitter, in_line: ir.Value, left: ir.Value) -> ir.Value:
        """The bytes of a vector of 16 that exist: lines may be parts of longer ones, or of one that all share."""
        b, width = e.builder, ACCESS_BYTES // self.itemsize
        some = b.and_(in_line, b.icmp_signed(">", left, I64(0)))
        whole = b.icmp_signed(">=", left, I64(width))
        count = b.select(whole, I32(ACCESS_BYTES), b.mul(b.trunc(left, I32), I32(self.itemsize)))
        return b.select(some, count, I32(0))

    @property
    def _bits(self) -> DType:
        """The type that elements are moved as."""
        return UINT16 if self.itemsize == 2 else UINT32

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


def _copy(e: Emitter, to: ir.Value, source: ir.Value, size: ir.Value) -> None:
    """cp.async of so many of 16 bytes past the L1; zeros for the others."""
    text = f"cp.async.cg.shared.global.L2::128B [$0], [$1], {ACCESS_BYTES}, $2;"
    e.asm(VOID, text, "r,l,r,~{memory}", [to, source, size], side_effect=True)
