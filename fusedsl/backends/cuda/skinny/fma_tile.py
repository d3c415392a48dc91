"""Skinny FMA tile: products of a block with few rows of float32 by fused multiply-adds.

A lane sums 4 streamed rows for each of its warp's narrow rows, over half of a stage's steps (thread_layout.py).
"""

from __future__ import annotations

from ....ir.types import FLOAT32
from ..compiler.numba_backend import F32, I32, Emitter, emitted, ir, types
from ..tile.memory import ld_shared, st_shared
from ..tile.shuffle import shuffle
from .accumulators import SkinnyAccumulators
from .layout import LINE_BYTES, ROWS, VECTORS
from .thread_layout import lane_index, lane_position, lane_row, row_offset, vector_offset, warp_k, warp_position

OWN = 4  # streamed rows of a lane
HALVES = 2  # vectors of steps of a lane, 8 steps apart


class SkinnyFmaTile(SkinnyAccumulators):
    """The intrinsics of float32 products."""

    @property
    def _rows(self) -> int:
        """A warp's narrow rows."""
        return self.narrow // self.warps_narrow

    @property
    def accumulator_types(self) -> types.UniTuple:
        return types.UniTuple(types.float32, OWN * self._rows)

    @emitted(lambda self: self.accumulator_types)
    def multiply(self, e, accumulators, streamed, narrow):
        """`multiply(accumulators, streamed, narrow)`: adds the products of a stage, at its two addresses."""
        b, (wide, warp), (_, h) = e.builder, warp_position(self, e), lane_position(self, e)
        values = e.unpack(accumulators, len(self.accumulator_types))
        addresses = [b.add(streamed, vector_offset(self, e, warp, k)) for k in range(VECTORS)]
        vectors = [ld_shared(e, FLOAT32, 4, address) for address in addresses]
        step = b.add(b.mul(warp_k(self, e, warp), I32(LINE_BYTES)), b.shl(h, I32(4)))
        other = b.add(narrow, b.add(b.mul(b.mul(wide, I32(self._rows)), I32(self.pitch)), step))
        for row in range(self._rows):
            for half in range(HALVES):
                x = ld_shared(e, FLOAT32, 4, b.add(other, I32(row * self.pitch + 32 * half)))
                for k in range(4):
                    for own in range(OWN):
                        y = vectors[HALVES * own + half][k] if self.near == "k" else vectors[4 * half + k][own]
                        k_sum = OWN * row + own
                        values[k_sum] = e.call(F32, "llvm.fma.f32", [x[k], y, values[k_sum]])
        return e.pack(self.accumulator_types, values)

    @emitted(types.void)
    def store_accumulators(self, e, at, accumulators):
        """`store(at, accumulators)`: store them to shared memory, added to those of the lane with the same rows."""
        b, (wide, warp) = e.builder, warp_position(self, e)
        values = [b.fadd(x, shuffle(e, "bfly", x, 16)) for x in e.unpack(accumulators, len(self.accumulator_types))]
        first = b.mul(b.udiv(warp, I32(self.warps_k)), I32(ROWS))
        line = b.add(b.mul(warp_k(self, e, warp), I32(self.narrow)), b.mul(wide, I32(self._rows)))
        start = b.add(b.mul(line, I32(self.streamed)), b.add(first, lane_row(self, e)))
        start = b.add(at, b.shl(start, I32(2)))
        with b.if_then(b.icmp_unsigned("<", lane_index(e), I32(16))):
            for row in range(self._rows):
                own, address = values[OWN * row : OWN * row + OWN], b.add(start, I32(4 * row * self.streamed))
                self._store_rows(e, address, own)

    def _store_rows(self, e: Emitter, address: ir.Value, values: list[ir.Value]) -> None:
        if self.near == "n":
            st_shared(e, FLOAT32, OWN, address, values)
            return
        for own, value in enumerate(values):
            row_bytes = 4 * row_offset(self, HALVES * own)
            st_shared(e, FLOAT32, 1, e.builder.add(address, I32(row_bytes)), [value])
