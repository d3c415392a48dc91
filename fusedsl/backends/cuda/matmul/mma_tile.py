"""Products on tensor cores: a warp's mma.sync over a K-slice, from swizzled operand tiles.

Fragments: PTX ISA, "Matrix Fragments for mma.m16n8k16" and its neighbours. Their bytes are alike for all dtypes along
K: an ldmatrix brings 16 rows of 32 bytes of the left operand, or 16 columns of 32 bytes of the right one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....ir.types import DType, dtype
from ..attention.intrinsics.fragment import matrices
from ..compiler.numba_backend import F32, I32, Emitter, emitted, intrinsic, ir, numba_type, types
from ..tile.memory import element_type, ld_shared, st_shared
from .tile_shapes import SWIZZLE_BYTES, MmaTileShape

INSTRUCTIONS = {
    "bfloat16": "m16n8k16.row.col.f32.bf16.bf16.f32",
    "float16": "m16n8k16.row.col.f32.f16.f16.f32",
}
STEP_BYTES = 32  # of K in an instruction
i32 = types.int32


@dataclass(frozen=True)
class MmaTile(MmaTileShape):
    """The sums of a block. A thread has four of each 16 x 8 of its warp, row by row of these blocks: columns 2 t and
    2 t + 1 of row g, then of row g + 8, for lane 4 g + t."""

    @property
    def kind(self) -> DType:
        return dtype(self.sums)

    def _types(self) -> types.UniTuple:
        return types.UniTuple(numba_type(self.sums), self.count)

    def _warp(self, e: Emitter) -> tuple[ir.Value, ir.Value, ir.Value]:
        """(lane, the first row of the warp, its first column)"""
        b, thread = e.builder, e.special_register("tid.x")
        lane, warp = b.and_(thread, I32(31)), b.lshr(thread, I32(5))
        row, column = b.urem(warp, I32(self.warps[0])), b.udiv(warp, I32(self.warps[0]))
        return lane, b.mul(row, I32(self.warp_rows)), b.mul(column, I32(self.warp_columns))

    def zeros(self) -> Callable:
        """`zeros()`: sums of 0."""
        zero = element_type(self.kind)(0)
        return intrinsic(0)(lambda: (self._types(), lambda e: e.pack(self._types(), [zero] * self.count)))

    def multiply(self, left_layout: str, right_layout: str) -> Callable:
        """`multiply(left, right, sums)`: adds the products of a K-slice of two swizzled tiles to the sums."""

        @emitted(self._types(), 3)
        def emit(e, left, right, so_far, *, kinds):
            sums, (lane, row, column) = e.unpack(so_far, self.count), self._warp(e)
            left = Fragments(e, left_layout, self.depth, e.cast(left, kinds[0], i32), self.rows)
            right = Fragments(e, right_layout, self.depth, e.cast(right, kinds[1], i32), self.columns)
            left.start(row, lane, "left")
            right.start(column, lane, "right")
            for step in range(SWIZZLE_BYTES // STEP_BYTES):
                x = [left.read(step, k) for k in range(self.warp_rows // 16)]
                y = [half for k in range(self.warp_columns // 16) for half in _halves(right.read(step, k))]
                for i, a in enumerate(x):
                    for j in range(len(y))[:: 1 if i % 2 == 0 else -1]:
                        own = slice(4 * (i * len(y) + j), 4 * (i * len(y) + j) + 4)
                        sums[own] = self._mma(e, a, y[j], sums[own])
            return e.pack(self._types(), sums)

        return emit

    def _mma(self, e: Emitter, a: list[ir.Value], b: list[ir.Value], c: list[ir.Value]) -> list[ir.Value]:
        text = f"mma.sync.aligned.{INSTRUCTIONS[self.dtype]} {{$0, $1, $2, $3}}, {{$4, $5, $6, $7}}, {{$8, $9}}, "
        letter, result = ("f", F32) if self.kind.kind == "f" else ("r", I32)
        constraints = ",".join([f"={letter}"] * 4 + ["r"] * 6 + [letter] * 4)
        kind = ir.LiteralStructType([result] * 4)
        return e.unpack(e.asm(kind, text + "{$10, $11, $12, $13};", constraints, [*a, *b, *c], effect=True), 4)

    def add_sums(self) -> Callable:
        """`add_sums(to, sums, is_first)`: adds a thread's sums to those in shared memory; the first ones are stored."""

        @emitted(types.void)
        def emit(e, to, held, is_first, *, kinds):
            b, sums, first = e.builder, e.unpack(held, self.count), e.cast(is_first, kinds[2], types.boolean)
            add = b.fadd if self.kind.kind == "f" else b.add
            places = self._pairs(e, e.cast(to, kinds[0], i32))
            with b.if_else(first) as (then, otherwise):
                with then:
                    for place, k in places:
                        st_shared(e, self.kind, 2, place, sums[k : k + 2])
                with otherwise:
                    for place, k in places:
                        before = ld_shared(e, self.kind, 2, place)
                        st_shared(e, self.kind, 2, place, [add(x, y) for x, y in zip(before, sums[k : k + 2])])

        return emit

    def _pairs(self, e: Emitter, to: ir.Value) -> list[tuple[ir.Value, int]]:
        """The address of each pair of a thread's sums in shared memory, and the number of its first."""
        b, size, (lane, row, column) = e.builder, self.kind.itemsize, self._warp(e)
        row = b.add(row, b.lshr(lane, I32(2)))
        column = b.add(column, b.shl(b.and_(lane, I32(3)), I32(1)))
        start = b.add(to, b.mul(b.add(b.mul(row, I32(self.pitch)), column), I32(size)))
        across, places = self.warp_columns // 8, []
        for k in range(0, self.count, 2):
            block, half = divmod(k // 2, 2)
            i, j = divmod(block, across)
            places.append((b.add(start, I32(((16 * i + 8 * half) * self.pitch + 8 * j) * size)), k))
        return places


class Fragments:
    """Fragments of an operand tile: four matrices at a time, of 16 lanes and 32 bytes of K."""

    def __init__(self, e: Emitter, layout: str, depth: int, at: ir.Value, lanes: int):
        self.e, self.layout, self.depth, self.at, self.lanes = e, layout, depth, at, lanes

    def start(self, first: ir.Value, lane: ir.Value, side: str) -> None:
        """Find the address of a lane's row of its matrix, of the first fragment: of those from lane `first` on.

        The four matrices of the left operand are ordered by lanes, then K; those of the right one by K, then lanes.
        """
        b = self.e.builder
        near, far = b.and_(b.lshr(lane, I32(3)), I32(1)), b.lshr(lane, I32(4))
        lane_half, k_half = (near, far) if side == "left" else (far, near)
        if self.layout == "k":
            line, chunk = b.add(first, b.add(b.shl(lane_half, I32(3)), b.and_(lane, I32(7)))), k_half
            panel = I32(0)
        else:
            line = b.add(b.shl(k_half, I32(3)), b.and_(lane, I32(7)))
            chunk = b.add(b.and_(b.lshr(first, I32(3)), I32(7)), lane_half)
            panel = b.mul(b.lshr(first, I32(6)), I32(self.depth * SWIZZLE_BYTES))
        swizzled = b.shl(b.xor(chunk, b.and_(line, I32(7))), I32(4))
        self.place = b.add(b.add(self.at, panel), b.add(b.shl(line, I32(7)), swizzled))

    def read(self, step: int, k: int) -> list[ir.Value]:
        """The k-th fragment of a warp at a step."""
        b = self.e.builder
        if self.layout == "k":
            place = b.add(b.xor(self.place, I32(STEP_BYTES * step)), I32(16 * k * SWIZZLE_BYTES))
        else:
            panel, within = divmod(16 * k, 64)
            further = 16 * step * SWIZZLE_BYTES + panel * self.depth * SWIZZLE_BYTES
            place = b.add(b.xor(self.place, I32(2 * within)), I32(further))
        return matrices(self.e, place, self.layout == "mn")


def _halves(words: list[ir.Value]) -> tuple[list[ir.Value], list[ir.Value]]:
    return words[:2], words[2:]
