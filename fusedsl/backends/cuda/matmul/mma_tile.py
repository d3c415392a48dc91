"""Products on tensor cores: a warp's mma.sync over a K-slice of two operand tiles, and its sums in shared memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....ir.types import DType, dtype
from ..compiler.numba_backend import F32, F64, I32, Emitter, emitted, intrinsic, ir, numba_type, types
from ..tile.memory import element_type, ld_shared, st_shared
from .operand_fragments import Fragments, PaddedFragments, halves
from .tile_shapes import MmaTileShape

INSTRUCTIONS = {
    "bfloat16": "m16n8k16.row.col.f32.bf16.bf16.f32",
    "float16": "m16n8k16.row.col.f32.f16.f16.f32",
    "float32": "m16n8k8.row.col.f32.tf32.tf32.f32",
    "int8": "m16n8k32.row.col.s32.s8.s8.s32",
    "uint8": "m16n8k32.row.col.s32.u8.u8.s32",
    "float64": "m16n8k16.row.col.f64.f64.f64.f64",
}
LETTERS = {F32: "f", I32: "r", F64: "d"}  # of registers, by their type
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

    def multiply(self, left: str, right: str) -> Callable:
        """`multiply(left, right, sums)`: adds the products of a K-slice of two tiles of these layouts to the sums."""

        @emitted(self._types(), 3)
        def emit(e, left_at, right_at, so_far, *, kinds):
            sums, (lane, row, column) = e.unpack(so_far, self.count), self._warp(e)
            places = (e.cast(left_at, kinds[0], i32), row), (e.cast(right_at, kinds[1], i32), column)
            a, b = (self._fragments(e, side, layout) for side, layout in (("left", left), ("right", right)))
            for fragments, place in zip((a, b), places):
                fragments.start(*place, lane)
            for step in range(self.depth * dtype(self.dtype).itemsize // a.step_bytes):
                x = [self._rounded(e, a.read(step, k)) for k in range(self.warp_rows // 16)]
                y = [self._rounded(e, half) for k in range(self.warp_columns // 16) for half in halves(b.read(step, k))]
                self._accumulate(e, x, y, sums)
            return e.pack(self._types(), sums)

        return emit

    def _fragments(self, e: Emitter, side: str, layout: str) -> Fragments | PaddedFragments:
        lanes = self.rows if side == "left" else self.columns
        if layout == "padded":
            return PaddedFragments(e, side, lanes, dtype(self.dtype))
        return Fragments(e, side, layout, self.depth)

    def _rounded(self, e: Emitter, words: list[ir.Value]) -> list[ir.Value]:
        """A fragment as the instruction takes it: float32 to TF32, to nearest."""
        if self.dtype != "float32":
            return words
        return [e.asm(I32, "cvt.rna.tf32.f32 $0, $1;", "=r,r", [word]) for word in words]

    def _accumulate(self, e: Emitter, x: list[list[ir.Value]], y: list[list[ir.Value]], sums: list[ir.Value]) -> None:
        """Add the products of all fragments of a step; neighbours in time share one."""
        for i, a in enumerate(x):
            for j in range(len(y))[:: 1 if i % 2 == 0 else -1]:
                own = slice(4 * (i * len(y) + j), 4 * (i * len(y) + j) + 4)
                sums[own] = self._mma(e, a, y[j], sums[own])

    def _mma(self, e: Emitter, a: list[ir.Value], b: list[ir.Value], c: list[ir.Value]) -> list[ir.Value]:
        if self.dtype == "float64" and e.cc < (9, 0):
            for k in range(4):
                for half in range(2):
                    own = slice(2 * half, 2 * half + 2)
                    c[own] = _mma(e, "m8n8k4.row.col.f64.f64.f64.f64", [a[2 * k + half]], [b[k]], c[own])
            return c
        return _mma(e, INSTRUCTIONS[self.dtype], a, b, c)

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


def _mma(e: Emitter, form: str, a: list[ir.Value], b: list[ir.Value], c: list[ir.Value]) -> list[ir.Value]:
    """mma.sync: the sums c plus the product of two fragments."""
    number = iter(range(2 * len(c) + len(a) + len(b)))
    lists = [", ".join(f"${next(number)}" for _ in part) for part in (c, a, b, c)]
    text = f"mma.sync.aligned.{form} {', '.join(f'{{{one}}}' for one in lists)};"
    letters = [LETTERS[v.type] for v in (*a, *b, *c)]
    constraints = ",".join([f"={LETTERS[c[0].type]}"] * len(c) + letters)
    kind = ir.LiteralStructType([v.type for v in c])
    return e.unpack(e.asm(kind, text, constraints, [*a, *b, *c], effect=True), len(c))
