"""Stores of a fragment: elements and row values to global memory, contiguous or strided; float32 to swizzled boxes."""

from __future__ import annotations

from collections.abc import Callable

from ....ir.types import DType, dtype
from ..compiler.numba_backend import I32, I64, VOID, Emitter, emitted, intrinsic, ir, types
from ..tile.element import narrowed_value, pair, stored_elements
from ..tile.memory import st_shared, store_vector
from ..tile.shuffle import shuffle
from ..tile.thread_index import thread_here
from ..tile.valid_elements import ValidElements
from .fragment_layout import ROWS
from .smem_swizzle import start_of, swizzled
from .tile_sizes import SWIZZLE_BYTES, WARP_ROWS, WARPGROUP

WIDE_COLUMNS = SWIZZLE_BYTES // 4  # of float32 in a swizzled row


def store_row_values(name: str) -> Callable:
    """`store_row_values(addresses, values, rows, limit)`: row values, stored by one thread of each quad
    if the row is below the limit."""
    kind = dtype(name)

    def rule(addresses, values, rows, limit):
        def emit(e, bases, held, numbers, end):
            b = e.builder
            end = e.cast(end, limit, rows.dtype)
            writes = b.icmp_unsigned("==", b.and_(e.special_register("tid.x"), I32(3)), I32(0))
            for address, value, number in zip(e.unpack(bases, ROWS), e.unpack(held, ROWS), e.unpack(numbers, ROWS)):
                (element,) = stored_elements(e, kind, [narrowed_value(e, kind, value, values.dtype)])
                in_bounds = b.and_(writes, b.icmp_signed("<", number, end))
                store_vector(e, kind, 1, address, [element], ValidElements(b.zext(in_bounds, I32)))

        return types.void, emit

    return intrinsic(4)(rule)


@emitted(types.void)
def store_wide_box(e, at, values, *, kinds, first: int):
    """`store_wide_box(at, values)`: store float32 elements of 32 columns, from column `first` of a fragment on, to a
    warp's rows of a box of 64 swizzled rows in shared memory."""
    kind = dtype("float32")
    b, thread, elements = e.builder, thread_here(e), e.unpack(values, len(kinds[1]))
    box, lane = e.cast(at, kinds[0], types.int32), b.and_(thread, I32(3))
    line = b.and_(b.lshr(thread, I32(2)), I32(7))
    warp = b.lshr(b.and_(thread, I32(WARPGROUP - 1)), I32(5))
    line = b.add(line, b.mul(warp, I32(WARP_ROWS)))
    half = b.shl(b.and_(lane, I32(1)), I32(3))  # two threads share a chunk of 16 bytes
    for k in range(WIDE_COLUMNS // 8):
        chunk = b.add(b.lshr(lane, I32(1)), I32(2 * k))
        own = b.add(b.add(start_of(e, box, line), swizzled(e, line, chunk)), half)
        for row in range(ROWS):  # rows 8 apart: their chunks are permuted alike
            index = (first // 8 + k) * 4 + 2 * row
            st_shared(e, kind, 2, b.add(own, I32(row * 8 * SWIZZLE_BYTES)), elements[index : index + 2])


def scatter_fragment(width: int, name: str) -> Callable:
    """`scatter_fragment(addresses, values, rows, limit, step)`: store the first `width` columns of a fragment to rows.

    Rows are at these addresses, elements `step` apart; a row is stored if its index is below the limit.
    """
    kind = dtype(name)

    def rule(addresses, values, rows, limit, further):
        def emit(e, row_addresses, held, numbers, end, step):
            b, elements = e.builder, e.unpack(held, len(values))
            end, lane = e.cast(end, limit, rows.dtype), b.and_(e.special_register("tid.x"), I32(3))
            step = b.mul(e.cast(step, further, types.int64), I64(kind.itemsize))
            own, pair_step = b.mul(b.zext(b.shl(lane, I32(1)), I64), step), b.mul(step, I64(8))
            for row, (base, number) in enumerate(zip(e.unpack(row_addresses, ROWS), e.unpack(numbers, ROWS))):
                with b.if_then(b.icmp_signed("<", number, end)):
                    address = b.add(base, own)
                    for k in range(-(-width // 8)):
                        for p in (0, 1):
                            value = narrowed_value(e, kind, elements[4 * k + 2 * row + p], values.dtype)
                            (element,) = stored_elements(e, kind, [value])
                            there = b.icmp_unsigned("<", lane, I32((width - 8 * k - p + 1) // 2))
                            room = None if 8 * k + 8 <= width else ValidElements(b.zext(there, I32))
                            store_vector(e, kind, 1, b.add(address, step) if p else address, [element], room)
                        address = b.add(address, pair_step)

        return types.void, emit

    return intrinsic(5)(rule)


def store_fragment(width: int, name: str) -> Callable:
    """`store_fragment(addresses, values, rows, limit)`: the first `width` columns of a fragment to
    contiguous rows at these addresses, if the row index is below the limit; pairs of 16 bits, or two elements at a
    time."""
    kind = dtype(name)
    if kind.itemsize > 2:
        return _store_two(width, kind)

    def rule(addresses, values, rows, limit):
        def emit(e, row_addresses, held, numbers, end):
            b = e.builder
            elements = [narrowed_value(e, kind, v, values.dtype) for v in e.unpack(held, len(values))]
            bases, own = e.unpack(row_addresses, ROWS), e.unpack(numbers, ROWS)
            end = e.cast(end, limit, rows.dtype)
            lane = b.zext(b.and_(e.special_register("tid.x"), I32(3)), I64)
            for row in range(ROWS):
                words = [pair(e, kind, elements[k], elements[k + 1]) for k in range(2 * row, width // 2, 4)]
                quads = [_transposed(e, words[k : k + 4]) for k in range(0, len(words) - 3, 4)]
                with b.if_then(b.icmp_signed("<", own[row], end)):
                    for k, quad in enumerate(quads):
                        address = b.add(bases[row], b.add(b.shl(lane, I64(4)), I64(64 * k)))
                        text = "st.global.v4.b32 [$0], {$1, $2, $3, $4};"
                        e.asm(VOID, text, "l,r,r,r,r,~{memory}", [address, *quad], side_effect=True)
                    for k, word in enumerate(words[4 * len(quads) :], 4 * len(quads)):
                        address = b.add(bases[row], b.add(b.shl(lane, I64(2)), I64(16 * k)))
                        e.asm(VOID, "st.global.b32 [$0], $1;", "l,r,~{memory}", [address, word], side_effect=True)

        return types.void, emit

    return intrinsic(4)(rule)


def _store_two(width: int, kind: DType) -> Callable:
    def rule(addresses, values, rows, limit):
        def emit(e, row_addresses, held, numbers, end):
            b, elements = e.builder, e.unpack(held, len(values))
            end, lane = e.cast(end, limit, rows.dtype), b.and_(e.special_register("tid.x"), I32(3))
            own = b.mul(b.zext(lane, I64), I64(2 * kind.itemsize))
            for row, (base, number) in enumerate(zip(e.unpack(row_addresses, ROWS), e.unpack(numbers, ROWS))):
                with b.if_then(b.icmp_signed("<", number, end)):
                    for k in range(width // 8):
                        pair_of = elements[4 * k + 2 * row : 4 * k + 2 * row + 2]
                        pair_of = [narrowed_value(e, kind, v, values.dtype) for v in pair_of]
                        store_vector(e, kind, 2, b.add(b.add(base, own), I64(8 * k * kind.itemsize)), pair_of, None)

        return types.void, emit

    return intrinsic(4)(rule)


def _transposed(e: Emitter, words: list[ir.Value]) -> list[ir.Value]:
    """The transpose of four words in each of four lanes: lane t gets word t of all lanes, in their order."""
    b, thread = e.builder, e.special_register("tid.x")
    for distance in (1, 2):
        high = b.icmp_unsigned("!=", b.and_(thread, I32(distance)), I32(0))
        for k in (k for k in range(4) if not k & distance):
            low, up = words[k], words[k + distance]
            other = shuffle(e, "bfly", b.select(high, low, up), distance, 4)
            words[k], words[k + distance] = b.select(high, other, low), b.select(high, up, other)
    return words
