"""Skinny tile: products of a block with few rows by mma.sync, which takes the streamed elements as its 16 rows.

Which steps of a slot meet in one mma.sync is free, as long as both operands agree: lanes have those of their vectors
(thread_layout.py). PRMT pairs neighbouring steps where vectors lie across them.
"""

from __future__ import annotations

from ....ir.types import BFLOAT16, FLOAT32
from ..compiler.numba_backend import I32, Emitter, emitted, ir, types
from ..mma.fragment import INSTRUCTIONS, mma_sync
from ..tile.memory import ld_shared, st_shared
from .accumulators import SkinnyAccumulators
from .layout import LINE_BYTES, ROWS, VECTORS
from .thread_layout import lane_position, vector_offset, warp_k, warp_position

SUBTILES = ROWS // 16  # mma.sync along the streamed rows


class SkinnyTile(SkinnyAccumulators):
    """The intrinsics of a skinny layout."""

    @property
    def _columns(self) -> int:
        """mma.sync along a warp's narrow rows."""
        return self.narrow // 8 // self.warps_narrow

    @property
    def accumulator_types(self) -> types.UniTuple:
        return types.UniTuple(types.float32, 4 * SUBTILES * self._columns)

    def swizzled(self, e: Emitter, row: ir.Value, narrow: ir.Value) -> ir.Value:
        """Where a streamed row of a narrow row's accumulators stands: threads of a warp meet few banks."""
        b, half = e.builder, e.builder.lshr(narrow, I32(1))
        moved = b.shl(b.and_(half, I32(3)), I32(3)) if self.near == "k" else b.shl(b.and_(half, I32(1)), I32(2))
        return b.xor(row, moved)

    @emitted(lambda self: self.accumulator_types)
    def multiply(self, e, accumulators, streamed, narrow):
        """`multiply(accumulators, streamed, narrow)`: adds the products of a stage, at its two addresses."""
        form = INSTRUCTIONS[self.dtype]
        b, (wide, warp), (g, t) = e.builder, warp_position(self, e), lane_position(self, e)
        values = e.unpack(accumulators, len(self.accumulator_types))
        addresses = [b.add(streamed, vector_offset(self, e, warp, k)) for k in range(VECTORS)]
        words = [ld_shared(e, BFLOAT16, 8, address) for address in addresses]
        row = b.add(b.mul(wide, I32(8 * self._columns)), g)
        step = b.mul(warp_k(self, e, warp), I32(LINE_BYTES))
        step = b.add(step, b.shl(t, I32(4 if self.near == "k" else 3)))
        other = b.add(narrow, b.add(b.mul(row, I32(self.pitch)), step))
        for column in range(self._columns):
            right = _narrow_fragments(e, self.near, b.add(other, I32(8 * column * self.pitch)))
            for subtile in range(SUBTILES):
                at = 4 * (subtile * self._columns + column)
                for half in (0, 1):
                    left = _streamed_fragment(e, self.near, words, subtile, half)
                    values[at : at + 4] = mma_sync(e, form, left, right[half], values[at : at + 4])
        return e.pack(self.accumulator_types, values)

    @emitted(types.void)
    def store_accumulators(self, e, at, accumulators):
        """`store(at, accumulators)`: store a thread's accumulators to the block's shared memory."""
        b, (wide, warp), (g, t) = e.builder, warp_position(self, e), lane_position(self, e)
        values, k = e.unpack(accumulators, len(self.accumulator_types)), warp_k(self, e, warp)
        first = b.mul(b.udiv(warp, I32(self.warps_k)), I32(ROWS))
        line = b.add(b.mul(k, I32(self.narrow)), b.mul(wide, I32(8 * self._columns)))
        line = b.add(line, b.shl(t, I32(1)))  # an even number: `swizzled` is that of the next one too
        for subtile in range(SUBTILES):
            pair = _rows_of(e, self.near, subtile, g)
            for column in range(self._columns):
                four = values[4 * (subtile * self._columns + column) :][:4]
                for odd in (0, 1):
                    narrow = b.add(line, I32(8 * column + odd))
                    start = b.add(at, b.mul(narrow, I32(4 * self.streamed)))
                    for row, value in zip(pair, four[odd::2]):
                        offset = self.swizzled(e, b.add(first, row), narrow)
                        st_shared(e, FLOAT32, 1, b.add(start, b.shl(offset, I32(2))), [value])


def _streamed_fragment(e: Emitter, near: str, words: list[list[ir.Value]], subtile: int, half: int) -> list[ir.Value]:
    """The left operand of one mma.sync: rows g and g + 8, steps 2 t … of its first and of its second half."""
    if near == "k":
        low, high = words[2 * subtile], words[2 * subtile + 1]
        return [low[2 * half], high[2 * half], low[2 * half + 1], high[2 * half + 1]]
    lines = [words[4 * half + k][subtile] for k in range(4)]
    return [_halves(e, lines[k], lines[k + 1], which) for k in (0, 2) for which in ("0x5410", "0x7632")]


def _halves(e: Emitter, one: ir.Value, other: ir.Value, which: str) -> ir.Value:
    """prmt: the lower or the upper halves of two words as one."""
    return e.asm(I32, f"prmt.b32 $0, $1, $2, {which};", "=r,r,r", [one, other])


def _narrow_fragments(e: Emitter, near: str, at: ir.Value) -> list[list[ir.Value]]:
    """The right operands of both mma.sync of a slot."""
    if near == "k":
        four = ld_shared(e, BFLOAT16, 8, at)
        return [four[:2], four[2:]]
    return [ld_shared(e, BFLOAT16, 4, e.builder.add(at, I32(32 * half))) for half in (0, 1)]


def _rows_of(e: Emitter, near: str, subtile: int, g: ir.Value) -> list[ir.Value]:
    """The streamed rows of a lane's accumulators, within its warp's."""
    b = e.builder
    if near == "k":
        return [b.add(g, I32(16 * subtile + 8 * k)) for k in (0, 1)]
    return [b.add(b.shl(g, I32(3)), I32(2 * subtile + k)) for k in (0, 1)]
