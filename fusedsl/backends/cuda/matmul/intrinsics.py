"""Matmul intrinsics: K-slices of both factors in shared memory, an output tile in the threads' registers.

An output tile has TILE_MN x TILE_MN elements. Of the 16 x 16 threads, thread (r, c) accumulates rows 4 r … 4 r + 3 of
columns c, c + 16, c + 32 and c + 48; its 16 accumulators are ordered column by column.
"""

from __future__ import annotations

from collections.abc import Callable

from ....ir.types import DType, dtype
from ..compiler.numba_backend import F32, F64, I32, I64, Emitter, emitted, intrinsic, ir, numba_type, types
from ..tile.element import unpaired
from ..tile.element_registers import element_type
from ..tile.memory import ACCESS_BYTES, ld_shared, st_shared, store_vector
from ..tile.tile import Tile
from ..tile.valid_elements import ValidElements
from .schedule import ELEMENTS_PER_THREAD, SMEM_PITCH, THREADS, TILE_K, TILE_MN

TEAM, OWN = 16, 4  # threads along an edge, rows and columns of each


def _thread(e: Emitter) -> ir.Value:
    return e.special_register("tid.x")


def _digits(e: Emitter, base: int) -> tuple[ir.Value, ir.Value]:
    """(thread // base, thread % base) for a power of two."""
    b, shift = e.builder, base.bit_length() - 1
    return b.lshr(_thread(e), I32(shift)), b.and_(_thread(e), I32(base - 1))


def _own_elements(e: Emitter, along: bool) -> list[tuple[ir.Value, ir.Value]]:
    """(lane, step) of the elements of a K-slice that a thread loads; neighbouring threads are at neighbouring steps if
    K is contiguous (`along`), else at neighbouring lanes."""
    b = e.builder
    if along:
        lane, step = _digits(e, TILE_K)
        return [(b.add(lane, I32(k * (THREADS // TILE_K))), step) for k in range(ELEMENTS_PER_THREAD)]
    step, lane = _digits(e, TILE_MN)
    return [(lane, b.add(step, I32(k * (THREADS // TILE_MN)))) for k in range(ELEMENTS_PER_THREAD)]


@emitted(types.UniTuple(types.UniTuple(types.int64, ELEMENTS_PER_THREAD), 2))
def k_slice_coordinates(e, *, along: bool):
    """`coordinates()`: (lanes, steps) of the elements of a K-slice that this thread loads."""
    pairs = _own_elements(e, along)
    return [[e.builder.zext(pair[side], I64) for pair in pairs] for side in range(2)]


@emitted(types.UniTuple(types.UniTuple(types.int64, OWN), 2))
def output_coordinates(e, *, part: int):
    """`coordinates()`: (rows, columns) of the elements of the output tile that this thread sums in a column."""
    b, (row, column) = e.builder, _digits(e, TEAM)
    rows = [b.zext(b.add(b.mul(row, I32(OWN)), I32(k)), I64) for k in range(OWN)]
    return [rows, [b.zext(b.add(column, I32(part * TEAM)), I64)] * OWN]


@emitted(types.void)
def store_k_slice(e, base, tile, *, name: str, along: bool):
    """`put(at, values)`: this thread's elements of a K-slice into shared memory."""
    kind = dtype(name)
    b = e.builder
    for (lane, step), value in zip(_own_elements(e, along), e.unpack(tile, ELEMENTS_PER_THREAD)):
        index = b.add(b.mul(step, I32(SMEM_PITCH)), lane)
        st_shared(e, kind, 1, _at(e, base, index, kind), [value])


def zero_accumulators(name: str) -> Callable:
    """`zero()`: a thread's accumulators before the first product."""
    kind = dtype(name)
    result = types.UniTuple(numba_type(name), OWN * OWN)
    return intrinsic(0)(lambda: (result, lambda e: e.pack(result, [element_type(kind)(0)] * (OWN * OWN))))


@emitted(lambda name: types.UniTuple(numba_type(name), OWN * OWN))
def add_accumulators(e, first, second, *, name: str):
    """`add(one, other)`: two threads' worth of accumulators, one by one."""
    kind = dtype(name)
    add = e.builder.fadd if kind.kind == "f" else e.builder.add
    pairs = zip(e.unpack(first, OWN * OWN), e.unpack(second, OWN * OWN))
    return [add(x, y) for x, y in pairs]


@emitted(lambda name: types.UniTuple(numba_type(name), OWN * OWN))
def multiply_k_slices(e, a, c, accumulators_in, *, name: str):
    """`multiply(left, right, accumulators)`: the accumulators with the products of two K-slices added, step by step."""
    kind = dtype(name)
    accumulators = e.unpack(accumulators_in, OWN * OWN)
    row, column = _digits(e, TEAM)
    first = e.builder.mul(row, I32(OWN))
    for step in range(TILE_K):
        x = _neighbours(e, kind, a, first, step * SMEM_PITCH)
        y = [_read(e, kind, 1, c, column, step * SMEM_PITCH + part * TEAM)[0] for part in range(OWN)]
        pairs = [(x[k % OWN], y[k // OWN]) for k in range(OWN * OWN)]
        accumulators = [fused_multiply_add(e, kind, *pair, acc) for pair, acc in zip(pairs, accumulators)]
    return accumulators


def scatter(tile: Tile, name: str) -> Callable:
    """`scatter(addresses, values, in_bounds)`: a tile of single elements, each to its address, if it is in bounds."""
    kind = dtype(name)

    @emitted(types.void)
    def emit(e, addresses, values, flags, *, kinds):
        elements = tile.narrowed(e, kind, values, kinds[1])
        for address, value, flag in zip(e.unpack(addresses, tile.count), elements, e.unpack(flags, tile.count)):
            store_vector(e, kind, 1, address, [value], ValidElements(e.builder.zext(flag, I32)))

    return emit


def scatter_vectors(tile: Tile, name: str) -> Callable:
    """`scatter(addresses, values, in_bounds)`: the same; a vector whose elements turn out to be neighbours, aligned and
    all in bounds, is written as one."""
    kind = dtype(name)

    @emitted(types.void)
    def emit(e, addresses, values, flags, *, kinds):
        b, size = e.builder, kind.itemsize * tile.width
        elements = tile.narrowed(e, kind, values, kinds[1])
        addresses, flags = e.unpack(addresses, tile.count), e.unpack(flags, tile.count)
        per_vector = len(elements) // tile.vectors
        for number in range(tile.vectors):
            part = slice(number * tile.width, (number + 1) * tile.width)
            values = elements[number * per_vector : (number + 1) * per_vector]
            at, masks = addresses[part], flags[part]
            whole = b.icmp_unsigned("==", b.and_(at[0], I64(min(size, ACCESS_BYTES) - 1)), I64(0))
            for k, (address, one) in enumerate(zip(at, masks)):
                neighbour = b.icmp_unsigned("==", b.sub(address, at[0]), I64(k * kind.itemsize))
                whole = b.and_(whole, b.and_(one, neighbour))
            with b.if_else(whole) as (then, otherwise):
                with then:
                    store_vector(e, kind, tile.width, at[0], values, None)
                with otherwise:
                    for address, value, one in zip(at, unpaired(e, kind, values, tile.width), masks):
                        store_vector(e, kind, 1, address, [value], ValidElements(b.zext(one, I32)))

    return emit


@intrinsic(2)
def udiv64(number, divisor):
    """number // divisor of int64, neither below 0, in 32 bits where both have no more."""
    if number != types.int64:
        return None

    def emit(e, n, d):
        b = e.builder
        small = b.icmp_unsigned("<", b.or_(n, d), I64(1 << 32))

        def narrow() -> list[ir.Value]:
            return [b.zext(b.udiv(b.trunc(n, I32), b.trunc(d, I32)), I64)]

        return e.if_else(small, narrow, lambda: [b.udiv(n, d)])[0]

    return types.int64, emit


# -- shared memory


def _at(e: Emitter, base: ir.Value, index: ir.Value, kind: DType) -> ir.Value:
    b = e.builder
    return b.add(b.trunc(base, I32), b.mul(index, I32(kind.itemsize)))


def _read(e: Emitter, kind: DType, width: int, base: ir.Value, index: ir.Value, offset: int) -> list[ir.Value]:
    at = e.builder.add(_at(e, base, index, kind), I32(offset * kind.itemsize))
    return ld_shared(e, kind, width, at)


def _neighbours(e: Emitter, kind: DType, base: ir.Value, index: ir.Value, offset: int) -> list[ir.Value]:
    """OWN neighbouring elements, in as few reads as there can be."""
    width = min(OWN, ACCESS_BYTES // kind.itemsize)
    return [x for k in range(0, OWN, width) for x in _read(e, kind, width, base, index, offset + k)]


def fused_multiply_add(e: Emitter, kind: DType, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    """x * y + z, rounded once where they are floats."""
    if kind.kind != "f":
        return e.builder.add(e.builder.mul(x, y), z)
    wide = kind.bits == 64
    return e.call(F64 if wide else F32, f"llvm.fma.f{kind.bits}", [x, y, z])
