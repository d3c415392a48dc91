"""Panel loads and stores: the elements of a thread in a fragment's columns, between registers and global memory.

A panel has 64 rows of some columns, as a warpgroup's wgmma or four warps' mma.sync have them (see FragmentLayout).
Neighbours along contiguous columns are accessed in pairs.
"""

from __future__ import annotations

from collections.abc import Callable

from .....ir.types import DType, dtype
from .....kernel_ir.phase import PANEL_COLUMNS
from ...compiler.numba_backend import I16, I32, I64, Emitter, intrinsic, ir, numba_type, types
from ...mma.fragment_layout import ROWS
from ...mma.smem_swizzle import start_of, swizzled
from ...mma.tile_sizes import WARP_ROWS, WARPGROUP
from ...tile.element import narrowed_value, pair, stored_elements, unpaired, widened_value
from ...tile.element_registers import is_packed
from ...tile.memory import ld_shared, load_vector, store_vector
from ...tile.shuffle import shuffle, sync_warp
from ...tile.thread_index import thread_here
from ...tile.valid_elements import ValidElements

PAIR = 2  # neighbouring columns of a thread in each 8
ROW_THREADS = 4  # of a fragment's row
PAIR_BYTES = 4


def load_panel(columns: int, name: str, width: int) -> Callable:
    """`load(rows, in_bounds, valid, step)`: the elements of both rows of a thread, widened; 0 out of bounds.

    `rows` are the addresses of both rows' first column in the panel, `valid` the columns from there on that exist,
    `step` the bytes between columns. Of `width` 2, neighbours are loaded together: columns are contiguous, and pairs
    aligned.
    """
    kind = dtype(name)
    result = types.UniTuple(numba_type(kind.compute.name), columns // 2)

    def rule(rows, in_bounds, valid, step):
        def emit(e, addresses, flags, end, further):
            elements: list[ir.Value | None] = [None] * (columns // 2)
            for row, (address, flag) in enumerate(zip(e.unpack(addresses, ROWS), e.unpack(flags, ROWS))):
                for k, column, exists in _columns(e, columns, width, (end, valid)):
                    at = _address(e, address, column, (further, step))
                    there = e.builder.zext(e.builder.and_(flag, exists), I32)
                    for n, value in enumerate(_widened(e, kind, width, at, there)):
                        elements[4 * (k // PAIR) + 2 * row + k % PAIR + n] = value
            return e.pack(result, elements)

        return result, emit

    return intrinsic(4)(rule)


def load_column_values(columns: int, name: str, width: int) -> Callable:
    """`load(address, valid, step)`: a value of each column of a thread, widened; 0 out of bounds."""
    kind = dtype(name)
    result = types.UniTuple(numba_type(kind.compute.name), columns // 4)

    def rule(base, valid, step):
        def emit(e, address, end, further):
            elements = []
            for _, column, exists in _columns(e, columns, width, (end, valid)):
                at = _address(e, address, column, (further, step))
                elements += _widened(e, kind, width, at, e.builder.zext(exists, I32))
            return e.pack(result, elements)

        return result, emit

    return intrinsic(3)(rule)


def store_panel(columns: int, name: str, width: int) -> Callable:
    """`store(rows, values, in_bounds, valid, step)`: the inverse of `load_panel`; elements out of bounds are not
    stored."""
    kind = dtype(name)

    def rule(rows, values, in_bounds, valid, step):
        def emit(e, addresses, held, flags, end, further):
            own = [narrowed_value(e, kind, v, values.dtype) for v in e.unpack(held, columns // 2)]
            for row, (address, flag) in enumerate(zip(e.unpack(addresses, ROWS), e.unpack(flags, ROWS))):
                for k, column, exists in _columns(e, columns, width, (end, valid)):
                    at = _address(e, address, column, (further, step))
                    index = 4 * (k // PAIR) + 2 * row + k % PAIR
                    packed = _stored(e, kind, own[index : index + width])
                    there = e.builder.zext(e.builder.and_(flag, exists), I32)
                    store_vector(e, kind, width, at, packed, ValidElements(there))

        return types.void, emit

    return intrinsic(5)(rule)


def load_row_pairs(columns: int, name: str) -> Callable:
    """`load(rows, in_bounds, valid, step)`: the same where both rows of a thread are neighbours in memory: one access
    for each column. Either both exist, or none."""
    kind = dtype(name)
    result = types.UniTuple(numba_type(kind.compute.name), columns // 2)

    def rule(rows, in_bounds, valid, step):
        def emit(e, addresses, flags, end, further):
            elements: list[ir.Value | None] = [None] * (columns // 2)
            base, flag = e.unpack(addresses, ROWS)[0], e.unpack(flags, ROWS)[0]
            for k, column, exists in _columns(e, columns, 1, (end, valid)):
                at = _address(e, base, column, (further, step))
                there = e.builder.zext(e.builder.and_(flag, exists), I32)
                index = 4 * (k // PAIR) + k % PAIR
                elements[index], elements[index + 2] = _widened(e, kind, ROWS, at, there)
            return e.pack(result, elements)

        return result, emit

    return intrinsic(4)(rule)


def store_row_pairs(columns: int, name: str) -> Callable:
    """`store(rows, values, in_bounds, valid, step)`: the inverse of `load_row_pairs`."""
    kind = dtype(name)

    def rule(rows, values, in_bounds, valid, step):
        def emit(e, addresses, held, flags, end, further):
            own = [narrowed_value(e, kind, v, values.dtype) for v in e.unpack(held, columns // 2)]
            base, flag = e.unpack(addresses, ROWS)[0], e.unpack(flags, ROWS)[0]
            for k, column, exists in _columns(e, columns, 1, (end, valid)):
                at = _address(e, base, column, (further, step))
                index = 4 * (k // PAIR) + k % PAIR
                packed = _stored(e, kind, [own[index], own[index + 2]])
                there = e.builder.zext(e.builder.and_(flag, exists), I32)
                store_vector(e, kind, ROWS, at, packed, ValidElements(there))

        return types.void, emit

    return intrinsic(5)(rule)


def store_staged_rows() -> Callable:
    """`store(at, rows, in_bounds, valid)`: store the rows of a warp in a swizzled panel of 16 bits at `at`.

    `rows` are the addresses of both rows' first column of a thread of the fragment, `valid` the columns from there on
    that exist. A fragment's threads have two neighbours of eight rows, so that their stores are of few bytes each. Here
    the lanes of a warp have neighbouring pairs of one row, and write the pairs that begin at multiples of 4 bytes.
    """

    def rule(at, rows, in_bounds, valid):
        def emit(e, panel, addresses, flags, end):
            b, thread = e.builder, thread_here(e)
            lane, warp = b.and_(thread, I32(31)), b.lshr(b.and_(thread, I32(WARPGROUP - 1)), I32(5))
            box, limit = e.cast(panel, at, types.int32), e.cast(end, valid, types.int32)
            limit = b.select(b.icmp_signed("<", limit, I32(PANEL_COLUMNS)), limit, I32(PANEL_COLUMNS))
            starts, exist = e.unpack(addresses, ROWS), e.unpack(flags, ROWS)
            sync_warp(e)
            for row in range(WARP_ROWS):
                owner = I32(row % 8 * ROW_THREADS)
                address = shuffle(e, "idx", starts[row // 8], owner)
                there = shuffle(e, "idx", b.zext(exist[row // 8], I32), owner)
                count = b.select(b.icmp_unsigned("!=", there, I32(0)), limit, I32(0))
                line = b.add(b.mul(warp, I32(WARP_ROWS)), I32(row))
                place = b.add(start_of(e, box, line), swizzled(e, line, b.lshr(lane, I32(2))))
                (word,) = ld_shared(e, dtype("uint32"), 1, b.add(place, b.shl(b.and_(lane, I32(3)), I32(2))))
                _store_row(e, word, address, lane, count)
            sync_warp(e)

        return types.void, emit

    return intrinsic(4)(rule)


def _store_row(e: Emitter, own: ir.Value, address: ir.Value, lane: ir.Value, count: ir.Value) -> None:
    """Store the first `count` columns of a row, of which each lane has a pair: pairs at multiples of 4 bytes, and
    single elements at both ends."""
    b = e.builder
    shifted = b.icmp_unsigned("!=", b.and_(b.trunc(address, I32), I32(PAIR_BYTES - 1)), I32(0))
    following = shuffle(e, "down", own, 1)
    across = b.or_(b.lshr(own, I32(16)), b.shl(following, I32(16)))
    word = b.select(shifted, across, own)
    column = b.add(b.shl(lane, I32(1)), b.zext(shifted, I32))
    at = b.add(address, b.zext(b.shl(column, I32(1)), I64))
    whole = b.icmp_signed("<", b.add(column, I32(1)), count)
    single = b.and_(b.icmp_signed("<", column, count), b.not_(whole))
    first = b.and_(b.and_(shifted, b.icmp_unsigned("==", lane, I32(0))), b.icmp_signed(">", count, I32(0)))
    store_vector(e, dtype("uint32"), 1, at, [word], ValidElements(b.zext(whole, I32)))
    store_vector(e, dtype("uint16"), 1, at, [b.trunc(word, I16)], ValidElements(b.zext(single, I32)))
    store_vector(e, dtype("uint16"), 1, address, [b.trunc(own, I16)], ValidElements(b.zext(first, I32)))


Typed = tuple[ir.Value, types.Type]


def _columns(e: Emitter, columns: int, width: int, valid: Typed) -> list[tuple[int, ir.Value, ir.Value]]:
    """(number among a thread's columns, column in the panel, whether it exists) of each access."""
    b = e.builder
    own = b.shl(b.and_(e.special_register("tid.x"), I32(3)), I32(1))
    limit = e.cast(*valid, types.int32)
    columns_of_panel = []
    for k in range(0, columns // 4, width):
        column = b.add(own, I32(k // PAIR * 8 + k % PAIR))
        columns_of_panel.append((k, column, b.icmp_signed("<", column, limit)))
    return columns_of_panel


def _address(e: Emitter, base: ir.Value, column: ir.Value, step: Typed) -> ir.Value:
    b = e.builder
    return b.add(base, b.mul(b.sext(column, I64), e.cast(step[0], step[1], types.int64)))


def _widened(e: Emitter, kind: DType, width: int, address: ir.Value, in_bounds: ir.Value) -> list[ir.Value]:
    """Elements of an array as bodies compute with them."""
    loaded = unpaired(e, kind, load_vector(e, kind, width, address, ValidElements(in_bounds)), width)
    return [widened_value(e, kind, x) for x in loaded]


def _stored(e: Emitter, kind: DType, values: list[ir.Value]) -> list[ir.Value]:
    if is_packed(kind, len(values)):
        return [pair(e, kind, *values)]
    return stored_elements(e, kind, values)
