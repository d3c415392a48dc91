"""Warp products of tiles in swizzled shared memory (mma/smem_swizzle.py): mma.sync, or fused multiply-adds.

A warp has 16 rows; its accumulators are fragments (mma/fragment.py): lane 4 g + t has rows g and g + 8, and of each 8
columns 2 t and 2 t + 1. Fragments of operands: PTX ISA, "Matrix Fragments for mma.m16n8k16".
"""

from __future__ import annotations

from collections.abc import Callable

from .....ir.types import DType, dtype
from ...compiler.numba_backend import F32, F64, I32, Emitter, emitted, intrinsic, ir, numba_type, types
from ...mma.fragment import matrices, mma_sync
from ...mma.fragment_layout import ROWS
from ...mma.smem_swizzle import CHUNKS, start_of, swizzled
from ...mma.tile_sizes import COPY_BYTES, SWIZZLE_BYTES
from ...tile.memory import ld_shared, st_shared
from ...tile.shuffle import sync_warp

PANEL = 64  # elements of 16 bits in a line of a panel
STEP = 16  # K of one mma.sync
i32 = types.int32


def _lane(e: Emitter) -> ir.Value:
    return e.builder.and_(e.special_register("tid.x"), I32(31))


def _first_line(e: Emitter) -> ir.Value:
    """The index of the warp's first row among the rows of its block."""
    b = e.builder
    return b.shl(b.lshr(e.special_register("tid.x"), I32(5)), I32(4))


# -- tensor cores


@emitted(lambda columns: types.UniTuple(types.float32, columns // 2), 2)
def mma_qk(e, *values, kinds, kind: str, rows: int, columns: int, width: int):
    """`mma_qk(q, k)`: a warp's 16 x columns accumulators over `width`, of K-major tiles."""
    b, lane = e.builder, _lane(e)
    left, right = (e.cast(v, k, i32) for v, k in zip(values, kinds))
    row = b.add(_first_line(e), b.and_(lane, I32(15)))
    left = b.add(start_of(e, left, row), swizzled(e, row, b.lshr(lane, I32(4))))
    column = b.add(b.shl(b.lshr(lane, I32(4)), I32(3)), b.and_(lane, I32(7)))
    half = b.and_(b.lshr(lane, I32(3)), I32(1))
    right = b.add(start_of(e, right, column), swizzled(e, column, half))
    sums = [ir.Constant(F32, 0.0)] * (columns // 2)
    for step in range(width // STEP):
        panel, further = divmod(step * STEP, PANEL)
        a, c = (b.xor(x, I32(2 * further)) for x in (left, right))
        fragment = matrices(e, b.add(a, I32(panel * rows * SWIZZLE_BYTES)), False)
        for k in range(columns // 16):
            at = b.add(c, I32((panel * columns + 16 * k) * SWIZZLE_BYTES))
            _accumulate_columns(e, kind, sums, k, fragment, matrices(e, at, False))
    return sums


def mma_pv(kind: str, columns: int, width: int) -> Callable:
    """`mma_pv(sums, p, v)`: a warp's 16 x width accumulators plus the product of p (packed in registers) and an
    MN-major tile of `columns` rows."""
    result = types.UniTuple(types.float32, width // 2)

    @emitted(result)
    def emit(e, so_far, pairs, tile, *, kinds):
        b, lane = e.builder, _lane(e)
        sums, fragments = e.unpack(so_far, width // 2), e.unpack(pairs, columns // 4)
        line = b.and_(lane, I32(15))
        right = b.add(start_of(e, e.cast(tile, kinds[2], i32), line), swizzled(e, line, b.lshr(lane, I32(4))))
        addresses = [b.xor(right, I32(32 * k)) for k in range(min(4, width // 16))]
        for step in range(columns // STEP):
            for k in range(width // 16):
                at = b.add(addresses[k % 4], I32((k // 4 * columns + step * STEP) * SWIZZLE_BYTES))
                _accumulate_columns(e, kind, sums, k, fragments[4 * step : 4 * step + 4], matrices(e, at, True))
        return e.pack(result, sums)

    return emit


def _accumulate_columns(
    e: Emitter, kind: str, sums: list[ir.Value], k: int, left: list[ir.Value], right: list[ir.Value]
) -> None:
    """Add the products of the k-th 16 columns to `sums`."""
    for half in (0, 1):
        own = slice(8 * k + 4 * half, 8 * k + 4 * half + 4)
        form = f"m16n8k16.row.col.f32.{kind}.{kind}.f32"
        sums[own] = mma_sync(e, form, left, right[2 * half : 2 * half + 2], sums[own])


# -- fused multiply-adds


def _fma(e: Emitter, kind: DType, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    return e.call(F64 if kind.bits == 64 else F32, f"llvm.fma.f{kind.bits}", [x, y, z])


def _chunk(e: Emitter, kind: DType, address: ir.Value) -> list[ir.Value]:
    return ld_shared(e, kind, COPY_BYTES // kind.itemsize, address)


def _own_row(e: Emitter) -> tuple[ir.Value, ir.Value]:
    """(the index of a lane's first row among those of its block, t)"""
    b, lane = e.builder, _lane(e)
    return b.add(_first_line(e), b.lshr(lane, I32(2))), b.and_(lane, I32(3))


def fma_qk(name: str, rows: int, columns: int) -> Callable:
    """`fma_qk(sums, left, right, step)`: adds to a warp's 16 x columns accumulators the products over the
    `step`-th 64 bytes of K of two K-major tiles."""
    kind, count = dtype(name), columns // 2
    result = types.UniTuple(numba_type(name), count)

    def rule(held, *kinds):
        def emit(e, so_far, *values):
            b, sums = e.builder, e.unpack(so_far, count)
            left, right, step = (e.cast(v, k, i32) for v, k in zip(values, kinds))
            panel, half = b.lshr(step, I32(1)), b.shl(b.and_(step, I32(1)), I32(2))
            row, t = _own_row(e)
            left = b.add(left, b.mul(panel, I32(rows * SWIZZLE_BYTES)))
            left = b.add(start_of(e, left, row), swizzled(e, row, half))
            right = b.add(right, b.mul(panel, I32(columns * SWIZZLE_BYTES)))
            lines = [b.add(b.shl(t, I32(1)), I32(p)) for p in (0, 1)]
            rights = [b.add(start_of(e, right, line), swizzled(e, line, half)) for line in lines]
            for c in range(CHUNKS // 2):
                q_at = b.xor(left, I32(COPY_BYTES * c))
                x = [_chunk(e, kind, b.add(q_at, I32(8 * SWIZZLE_BYTES * r))) for r in range(ROWS)]
                k_at = [b.xor(address, I32(COPY_BYTES * c)) for address in rights]
                for k in range(columns // 4):
                    y = _chunk(e, kind, b.add(k_at[k % 2], I32(8 * SWIZZLE_BYTES * (k // 2))))
                    for r in range(ROWS):
                        at = 4 * (k // 2) + 2 * r + k % 2
                        for q_value, k_value in zip(x[r], y):
                            sums[at] = _fma(e, kind, q_value, k_value, sums[at])
            return e.pack(result, sums)

        return result, emit

    return intrinsic(4)(rule)


def store_p(name: str, rows: int, columns: int) -> Callable:
    """`store_p(to, weights)`: a warp's 16 x columns elements to its rows of a tile, for all of its lanes to read."""
    kind, count = dtype(name), columns // 2

    @emitted(types.void)
    def emit(e, to, values, *, kinds):
        b = e.builder
        row, t = _own_row(e)
        start, elements = start_of(e, e.cast(to, kinds[0], i32), row), e.unpack(values, count)
        elements = [e.cast(v, kinds[1].dtype, numba_type(name)) for v in elements]
        sync_warp(e)
        for k in range(columns // 8):
            offset, panel = _pair_offset(e, kind, row, t, k)
            at = b.add(b.add(start, offset), I32(panel * rows * SWIZZLE_BYTES))
            for r in range(ROWS):
                own = elements[4 * k + 2 * r : 4 * k + 2 * r + 2]
                st_shared(e, kind, 2, b.add(at, I32(8 * SWIZZLE_BYTES * r)), own)
        sync_warp(e)

    return emit


def _pair_offset(e: Emitter, kind: DType, line: ir.Value, t: ir.Value, k: int) -> tuple[ir.Value, int]:
    """(the offset of columns 8 k + 2 t and the next in a row's bytes, their panel)"""
    b, size = e.builder, kind.itemsize
    panel, byte = divmod(8 * k * size, SWIZZLE_BYTES)
    if size == 8:
        return swizzled(e, line, b.add(t, I32(byte // COPY_BYTES))), panel
    chunk = b.add(b.lshr(t, I32(1)), I32(byte // COPY_BYTES))
    return b.add(swizzled(e, line, chunk), b.shl(b.and_(t, I32(1)), I32(3))), panel


def fma_pv(name: str, rows: int, columns: int, width: int) -> Callable:
    """`fma_pv(sums, weights, right, step)`: adds to a warp's 16 x width accumulators the products of 16 bytes per row
    of p (in a tile of `rows` rows) with the matching rows of v (in a tile of `columns` rows)."""
    kind, count = dtype(name), width // 2
    result = types.UniTuple(numba_type(name), count)
    each = COPY_BYTES // kind.itemsize

    def rule(held, *kinds):
        def emit(e, so_far, *values):
            b, sums = e.builder, e.unpack(so_far, count)
            weights, right, step = (e.cast(v, k, i32) for v, k in zip(values, kinds))
            row, t = _own_row(e)
            weights = b.add(weights, b.mul(b.lshr(step, I32(3)), I32(rows * SWIZZLE_BYTES)))
            p_at = b.add(start_of(e, weights, row), swizzled(e, row, b.and_(step, I32(CHUNKS - 1))))
            x = [_chunk(e, kind, b.add(p_at, I32(8 * SWIZZLE_BYTES * r))) for r in range(ROWS)]
            for i in range(each):
                line = b.add(b.mul(step, I32(each)), I32(i))
                start, first = start_of(e, right, line), _pair_offset(e, kind, line, t, 0)[0]
                first = b.add(start, first)
                for k in range(width // 8):
                    panel, byte = divmod(8 * k * kind.itemsize, SWIZZLE_BYTES)
                    at = b.add(b.xor(first, I32(byte)), I32(panel * columns * SWIZZLE_BYTES))
                    y = ld_shared(e, kind, 2, at)
                    for r in range(ROWS):
                        for p in (0, 1):
                            own = 4 * k + 2 * r + p
                            sums[own] = _fma(e, kind, x[r][i], y[p], sums[own])
            return e.pack(result, sums)

        return result, emit

    return intrinsic(4)(rule)
