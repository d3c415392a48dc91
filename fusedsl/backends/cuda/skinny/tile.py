"""Skinny tile: products of a block with few rows by mma.sync, and their sums.

mma.sync takes the streamed elements as its 16 rows and the narrow ones as its 8 columns. Which steps of a slot meet in
one mma.sync is free, as long as both operands agree:

- the streamed operand along steps ("k"): lane 4 g + t has steps 8 t … 8 t + 7 of rows g, g + 8, …, g + 56;
- across ("n"): steps 4 t … 4 t + 3, then 16 further on, of rows 8 g … 8 g + 7. PRMT pairs neighbouring steps.
"""

from __future__ import annotations

from collections.abc import Callable

from ....ir.types import BFLOAT16, FLOAT32
from ....kernel_ir.memory_access import ACCESS_BYTES
from ..compiler.numba_backend import F32, I32, I64, VOID, Emitter, emitted, ir, types
from ..tile.loops import looped
from ..tile.memory import ld_shared, st_shared
from .layout import PART, ROWS, STEPS, VECTORS, SkinnyLayout
from .threads import lane_index, warp_k, warp_place

SUBTILES = ROWS // 16  # mma.sync along the streamed rows
AT_ONCE = 8  # records whose loads are under way together
PTX_TYPES = {"bfloat16": "bf16", "float16": "f16"}


class SkinnyTile(SkinnyLayout):
    """The intrinsics of a skinny layout."""

    @property
    def _columns(self) -> int:
        """mma.sync along a warp's narrow rows."""
        return self.narrow // 8 // self.warps_narrow

    @property
    def sums(self) -> types.UniTuple:
        return types.UniTuple(types.float32, 4 * SUBTILES * self._columns)

    # -- products

    def zero(self) -> Callable:
        """`zero()`: a thread's sums before the first product."""

        @emitted(self.sums)
        def emit(e):
            return e.pack(self.sums, [ir.Constant(F32, 0.0)] * len(self.sums))

        return emit

    def multiply(self, name: str) -> Callable:
        """`multiply(sums, streamed, narrow)`: the sums with the products of a stage added, from its two addresses."""
        kind = PTX_TYPES[name]

        @emitted(self.sums)
        def emit(e, sums, streamed, narrow):
            b, (wide, warp, g, t) = e.builder, warp_place(self, e)
            held = e.unpack(sums, len(self.sums))
            at = b.add(streamed, b.shl(b.add(b.mul(warp, I32(32 * VECTORS)), lane_index(e)), I32(4)))
            words = [ld_shared(e, BFLOAT16, 8, b.add(at, I32(k * 32 * ACCESS_BYTES))) for k in range(VECTORS)]
            row = b.add(b.mul(wide, I32(8 * self._columns)), g)
            step = b.mul(warp_k(self, e, warp), I32(2 * STEPS))
            step = b.add(step, b.shl(t, I32(4 if self.near == "k" else 3)))
            other = b.add(narrow, b.add(b.mul(row, I32(self.pitch)), step))
            for column in range(self._columns):
                right = _narrow_fragments(e, self.near, b.add(other, I32(8 * column * self.pitch)))
                for subtile in range(SUBTILES):
                    at = 4 * (subtile * self._columns + column)
                    for half in (0, 1):
                        left = _streamed_fragment(e, self.near, words, subtile, half)
                        held[at : at + 4] = _mma(e, kind, left, right[half], held[at : at + 4])
            return e.pack(self.sums, held)

        return emit

    # -- sums of the block

    def store_sums(self) -> Callable:
        """`store(at, sums)`: a thread's sums to the block's shared memory."""

        @emitted(types.void)
        def emit(e, at, sums):
            b, (wide, warp, g, t) = e.builder, warp_place(self, e)
            held, k = e.unpack(sums, len(self.sums)), warp_k(self, e, warp)
            first = b.mul(b.udiv(warp, I32(self.warps_k)), I32(ROWS))
            line = b.add(b.mul(k, I32(self.narrow)), b.mul(wide, I32(8 * self._columns)))
            line = b.add(line, b.shl(t, I32(1)))  # an even number: `_swizzled` is that of the next one too
            for subtile in range(SUBTILES):
                pair = _rows_of(e, self.near, subtile, g)
                for column in range(self._columns):
                    four = held[4 * (subtile * self._columns + column) :][:4]
                    for odd in (0, 1):
                        narrow = b.add(line, I32(8 * column + odd))
                        start = b.add(at, b.mul(narrow, I32(4 * self.streamed)))
                        for row, value in zip(pair, four[odd::2]):
                            place = _swizzled(e, self.near, b.add(first, row), narrow)
                            st_shared(e, FLOAT32, 1, b.add(start, b.shl(place, I32(2))), [value])

        return emit

    def load_sums(self) -> Callable:
        """`load(at, part)`: PART neighbouring sums of the block, those of the warps along the steps added in order."""
        result = types.UniTuple(types.float32, PART)

        @emitted(result)
        def emit(e, at, part):
            b = e.builder
            narrow, row = self._result(e, part)
            place = b.add(b.mul(narrow, I32(self.streamed)), _swizzled(e, self.near, row, narrow))
            place = b.add(at, b.shl(place, I32(2)))
            total = ld_shared(e, FLOAT32, PART, place)
            for k in range(1, self.warps_k):
                found = ld_shared(e, FLOAT32, PART, b.add(place, I32(k * self.record_bytes)))
                total = [b.fadd(x, y) for x, y in zip(total, found)]
            return e.pack(result, total)

        return emit

    def numbers(self) -> Callable:
        """`numbers(part)`: (narrow rows, streamed rows) of these sums."""
        kind = types.UniTuple(types.int64, PART)
        result = types.Tuple.from_types((kind, kind))

        @emitted(result)
        def emit(e, part):
            b, (narrow, row) = e.builder, self._result(e, part)
            rows = [b.zext(b.add(row, I32(k)), I64) for k in range(PART)]
            return e.pack(result, [e.pack(kind, [b.zext(narrow, I64)] * PART), e.pack(kind, rows)])

        return emit

    def _result(self, e: Emitter, part: ir.Value) -> tuple[ir.Value, ir.Value]:
        """(narrow row, first streamed row) of a part of the block's results."""
        b, line = e.builder, I32(self.streamed // PART)
        return b.udiv(part, line), b.mul(b.urem(part, line), I32(PART))


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
    """The streamed rows of a lane's sums, within its warp's."""
    b = e.builder
    if near == "k":
        return [b.add(g, I32(16 * subtile + 8 * k)) for k in (0, 1)]
    return [b.add(b.shl(g, I32(3)), I32(2 * subtile + k)) for k in (0, 1)]


def _swizzled(e: Emitter, near: str, row: ir.Value, narrow: ir.Value) -> ir.Value:
    """Where a streamed row of a narrow row's sums stands: threads of a warp meet few banks."""
    b, half = e.builder, e.builder.lshr(narrow, I32(1))
    moved = b.shl(b.and_(half, I32(3)), I32(3)) if near == "k" else b.shl(b.and_(half, I32(1)), I32(2))
    return b.xor(row, moved)


def _mma(e: Emitter, kind: str, left: list[ir.Value], right: list[ir.Value], sums: list[ir.Value]) -> list[ir.Value]:
    text = (
        f"mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 "
        "{$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};"
    )
    constraints = ",".join(["=f"] * 4 + ["r"] * 6 + ["f"] * 4)
    return e.unpack(e.asm(ir.LiteralStructType([F32] * 4), text, constraints, [*left, *right, *sums], effect=True), 4)


def store_record() -> Callable:
    """`store(address, sums)`: PART sums of a block for the others of its tile."""

    @emitted(types.void)
    def emit(e, at, sums):
        text = "st.global.v4.f32 [$0], {$1, $2, $3, $4};"
        e.asm(VOID, text, "l,f,f,f,f,~{memory}", [at, *e.unpack(sums, PART)], effect=True)

    return emit


def load_records() -> Callable:
    """`load(address, record, splits)`: PART sums of as many blocks, whose records lie so many bytes apart, in order."""
    result = types.UniTuple(types.float32, PART)
    text = "ld.relaxed.gpu.global.v4.f32 {$0, $1, $2, $3}, [$4];"

    @emitted(result)
    def emit(e, at, record, splits, *, kinds):
        b, record = e.builder, e.cast(record, kinds[1], types.int64)
        none = [I64(0), *[ir.Constant(F32, 0.0)] * PART]
        with looped(e, none, lambda first, *_: b.icmp_signed("<", first, splits)) as (state, following):
            first, *sums = state
            numbers = [b.add(first, I64(k)) for k in range(AT_ONCE)]
            there = [b.icmp_signed("<", number, splits) for number in numbers]
            found = []
            for number, one in zip(numbers, there):
                place = b.add(at, b.mul(b.select(one, number, first), record))
                kind = ir.LiteralStructType([F32] * PART)
                found.append(e.unpack(e.asm(kind, text, "=f,=f,=f,=f,l,~{memory}", [place], effect=True), PART))
            for one, values in zip(there, found):
                sums = [b.select(one, b.fadd(x, y), x) for x, y in zip(sums, values)]
            following += [b.add(first, I64(AT_ONCE)), *sums]
        return e.pack(result, state[1:])

    return emit
