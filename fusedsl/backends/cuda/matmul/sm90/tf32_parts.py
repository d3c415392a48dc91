"""Products of float32 in two TF32 parts by wgmma: the parts of a K-slice, and exact products where a sum is not finite.

A float32 is a TF32 number and a smaller one, both rounded to nearest. What is left of an infinity is NaN, and some of
the largest numbers round to infinity: sums that are not finite are computed again by fused multiply-adds.
"""

from __future__ import annotations

from collections.abc import Callable

from .....ir.types import FLOAT32
from ...compiler.numba_backend import F32, I32, I64, Emitter, emitted, intrinsic, ir, types
from ...mma.tile_sizes import COPY_BYTES, WARPGROUP
from ...tile.loops import looped
from ...tile.memory import ld_shared, st_shared

PANEL = 64  # columns that a thread computes again at a time
i32, i64 = types.int32, types.int64


def tf32_parts(e: Emitter, word: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The bits of a float32 as those of a TF32 number, and of the rest."""
    b = e.builder
    large = e.asm(I32, "cvt.rna.tf32.f32 $0, $1;", "=r,r", [word])
    left = b.bitcast(b.fsub(b.bitcast(word, F32), b.bitcast(large, F32)), I32)
    return large, e.asm(I32, "cvt.rna.tf32.f32 $0, $1;", "=r,r", [left])


@emitted(types.void)
def split_columns(e, at, small_at, *, kinds, size: int, threads: int):
    """`split(at, small_at)`: both parts of the float32 of a tile of so many bytes: the larger ones in its place, the
    smaller ones to another tile. The threads are those behind the producer's."""
    b = e.builder
    own = b.shl(b.and_(e.special_register("tid.x"), I32(threads - 1)), I32(4))
    if threads > WARPGROUP:
        own = b.shl(b.sub(e.special_register("tid.x"), I32(WARPGROUP)), I32(4))
    addresses = [b.add(e.cast(x, kind, i32), own) for x, kind in zip((at, small_at), kinds)]
    for skipped in range(0, size, COPY_BYTES * threads):
        large_at, small = (b.add(address, I32(skipped)) for address in addresses)
        words = [b.bitcast(x, I32) for x in ld_shared(e, FLOAT32, 4, large_at)]
        parts = [tf32_parts(e, word) for word in words]
        for address, values in zip((large_at, small), zip(*parts)):
            st_shared(e, FLOAT32, 4, address, [b.bitcast(v, F32) for v in values])


def exact_products(columns: int, product: int) -> Callable:
    """`exact(accumulators, rows, row_step, column, column_step, step, valid, steps)`: the accumulators, those of one
    product computed by fused multiply-adds of float32 in memory.

    `rows` are the addresses of a thread's rows at the first step, `row_step` the bytes between their steps; `column` is
    the address of the tile's first column, of which `valid` exist, `column_step` and `step` the bytes between columns
    and steps.
    """
    width = min(PANEL, columns)

    def rule(*kinds):
        def emit(e, held, rows, *given):
            b, values, (column_step, valid) = e.builder, e.unpack(held, len(kinds[0])), (given[2], given[4])
            column_step, last = e.cast(column_step, kinds[4], i64), b.sub(e.cast(valid, kinds[6], i32), I32(1))
            own = b.shl(b.and_(e.special_register("tid.x"), I32(3)), I32(1))
            for panel in range(0, columns, width):
                offsets = []
                for k in range(width // 4):
                    number = b.add(own, I32(panel + k // 2 * 8 + k % 2))
                    number = b.select(b.icmp_signed("<", number, last), number, last)
                    offsets.append(b.mul(b.sext(number, I64), column_step))
                begin = (product * columns + panel) // 2
                start = [*e.unpack(rows, 2), e.cast(given[1], kinds[3], i64)]
                steps = [e.cast(given[k], kinds[2 + k], i64) for k in (0, 3, 5)]
                values[begin : begin + width // 2] = _exact_panel(e, start, steps, offsets)
            return e.pack(kinds[0], values)

        return kinds[0], emit

    return intrinsic(8)(rule)


def _exact_panel(e: Emitter, start: list[ir.Value], steps: list[ir.Value], offsets: list[ir.Value]) -> list[ir.Value]:
    """Sums of a thread's columns of a panel: from the addresses of both rows and of the columns, by the steps of both
    and their number."""
    b, (row_step, step, count) = e.builder, steps
    begin = [I64(0), *start, *[ir.Constant(F32, 0.0)] * (2 * len(offsets))]
    with looped(e, begin, lambda k, *_: b.icmp_signed("<", k, count)) as (now, next_state):
        k, upper, lower, column, *sums = now
        x = [_read(e, upper), _read(e, lower)]
        y = [_read(e, b.add(column, offset)) for offset in offsets]
        next_state += [b.add(k, I64(1)), b.add(upper, row_step), b.add(lower, row_step), b.add(column, step)]
        for index, value in enumerate(sums):  # pairs of columns of one row, then of the other
            row, number = index // 2 % 2, index // 4 * 2 + index % 2
            next_state.append(e.call(F32, "llvm.fma.f32", [x[row], y[number], value]))
    return sums


def _read(e: Emitter, address: ir.Value) -> ir.Value:
    return e.asm(F32, "ld.global.f32 $0, [$1];", "=f,l,~{memory}", [address], side_effect=True)
