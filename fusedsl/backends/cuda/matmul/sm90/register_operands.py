"""Operands of wgmma in registers: a warpgroup's fragments of a K-slice, of tiles that TMA brought in either order.

MN-major elements of other than 16 bits have no matrix descriptor. Threads load them, and the accumulators' rows are
permuted, so that no loads meet in a bank: both rows of a thread are neighbours.
"""

from __future__ import annotations

from collections.abc import Callable

from .....ir.types import FLOAT32
from ...compiler.numba_backend import I32, Emitter, emitted, ir, types
from ...mma.fragment import matrices
from ...mma.tile_sizes import ROWS, SWIZZLE_BYTES
from ...tile.memory import ld_shared
from ...tile.thread_index import thread_here
from .tf32_parts import tf32_parts
from .wgmma_kinds import STEP_BYTES, STEPS

WORDS = 16  # of a thread, in a K-slice: four for each instruction
WARP_CHUNKS = 4  # of 16 bytes in a swizzled row, that the rows of a warpgroup have of bytes
i32 = types.int32


def _pair_of(e: Emitter, lane_row: ir.Value, warp: ir.Value, itemsize: int) -> ir.Value:
    """The first of the two neighbouring rows among a warpgroup's 64 that are the rows g and g + 8 of a warp."""
    b = e.builder
    if itemsize == 1:
        return b.add(b.shl(warp, I32(4)), b.shl(lane_row, I32(1)))
    bit = [b.and_(b.lshr(lane_row, I32(k)), I32(1)) for k in range(3)]
    near = b.or_(b.shl(bit[0], I32(1)), b.or_(b.shl(bit[1], I32(4)), b.shl(bit[2], I32(2))))
    return b.or_(near, b.or_(b.shl(b.lshr(warp, I32(1)), I32(5)), b.shl(b.and_(warp, I32(1)), I32(3))))


@emitted(types.UniTuple(i32, 2))
def paired_row_positions(e, start, *, kinds, itemsize: int):
    """`rows(start)`: the indices of a thread's rows, which are neighbours; the first of the 64 has index `start`."""
    b, thread = e.builder, thread_here(e)
    lane_row, warp = b.and_(b.lshr(thread, I32(2)), I32(7)), b.and_(b.lshr(thread, I32(5)), I32(3))
    first = b.add(e.cast(start, kinds[0], i32), _pair_of(e, lane_row, warp, itemsize), flags=["nsw"])
    return [first, b.add(first, I32(1), flags=["nsw"])]


def register_operand(itemsize: int, major: str, paired: bool = True, parts: int = 1) -> Callable:
    """`load(at, warpgroup)`: the words of this thread's rows in a K-slice of an operand, whose tile is at an address.

    Elements have 1 or 4 bytes. The warpgroup's rows are its 64 of the tile, `paired` as `paired_row_positions` has
    them. Of two `parts` of float32, the larger ones come first.
    """
    result = types.UniTuple(i32, WORDS * parts)
    read = _in_order if not paired else _along_k if major == "k" else _bytes_across if itemsize == 1 else _floats_across

    @emitted(result)
    def emit(e, at, warpgroup, *, kinds):
        b, thread = e.builder, e.special_register("tid.x")
        lane, warp = b.and_(thread, I32(31)), b.and_(b.lshr(thread, I32(5)), I32(3))
        base = e.cast(at, kinds[0], i32), e.cast(warpgroup, kinds[1], i32)
        words = read(e, base, lane, warp, itemsize)
        if parts == 2:
            words = [word for part in zip(*(tf32_parts(e, word) for word in words)) for word in part]
        return e.pack(result, words)

    return emit


def _in_order(e: Emitter, base: tuple, lane: ir.Value, warp: ir.Value, itemsize: int) -> list[ir.Value]:
    """K-major lines in their order."""
    b = e.builder
    return _by_ldmatrix(e, base, b.or_(b.shl(warp, I32(4)), b.and_(lane, I32(15))), lane)


def _along_k(e: Emitter, base: tuple, lane: ir.Value, warp: ir.Value, itemsize: int) -> list[ir.Value]:
    """K-major lines: those of the thread rows g, then g + 8."""
    b = e.builder
    half = b.and_(b.lshr(lane, I32(3)), I32(1))
    return _by_ldmatrix(e, base, b.add(_pair_of(e, b.and_(lane, I32(7)), warp, itemsize), half), lane)


def _by_ldmatrix(e: Emitter, base: tuple, line: ir.Value, lane: ir.Value) -> list[ir.Value]:
    """The words of 16 K-major lines, of which each lane addresses one."""
    b, (at, warpgroup) = e.builder, base
    near = b.lshr(lane, I32(4))
    address = b.add(b.add(at, b.mul(warpgroup, I32(ROWS * SWIZZLE_BYTES))), b.shl(line, I32(7)))
    address = b.add(address, b.shl(b.xor(near, b.and_(line, I32(7))), I32(4)))
    return [word for step in range(STEPS) for word in matrices(e, b.xor(address, I32(STEP_BYTES * step)))]


def _floats_across(e: Emitter, base: tuple, lane: ir.Value, warp: ir.Value, itemsize: int) -> list[ir.Value]:
    """MN-major lines of float32, in panels of 32: pairs of neighbouring rows at the steps t and t + 4 of eight."""
    b, (at, warpgroup) = e.builder, base
    row, step = _pair_of(e, b.lshr(lane, I32(2)), warp, itemsize), b.and_(lane, I32(3))
    panel = b.add(b.shl(warpgroup, I32(1)), b.lshr(row, I32(5)))
    at = b.add(at, b.mul(panel, I32(STEPS * 8 * SWIZZLE_BYTES)))
    chunk, within = b.and_(b.lshr(row, I32(2)), I32(7)), b.shl(b.and_(row, I32(3)), I32(2))
    ends = []
    for half in range(2):
        line = b.add(step, I32(4 * half))
        ends.append(b.add(b.add(at, within), b.add(b.shl(line, I32(7)), b.shl(b.xor(chunk, line), I32(4)))))
    values = []
    for k in range(STEPS):
        for end in ends:
            values += ld_shared(e, FLOAT32, 2, b.add(end, I32(8 * SWIZZLE_BYTES * k)))
    return [b.bitcast(value, I32) for value in values]


def _bytes_across(e: Emitter, base: tuple, lane: ir.Value, warp: ir.Value, itemsize: int) -> list[ir.Value]:
    """MN-major lines of bytes, in panels of 128: ldmatrix of turned pairs of bytes, which byte permutations sort.

    A thread gets bytes of the lines 2 t and 2 t + 1 of a matrix. The lines of two matrices are such that it has four
    steps in a row, and that the lines of a matrix are in different banks; from t = 2 on, the second has the first ones.
    """
    b, (at, warpgroup) = e.builder, base
    matrix, number = b.lshr(lane, I32(3)), b.and_(lane, I32(7))
    later = b.xor(b.and_(matrix, I32(1)), b.lshr(number, I32(2)))  # of the four steps, the last two
    line = b.add(b.shl(b.lshr(number, I32(1)), I32(2)), b.add(b.and_(number, I32(1)), b.shl(later, I32(1))))
    line = b.add(line, b.shl(b.lshr(matrix, I32(1)), I32(4)))
    chunk = b.add(b.shl(b.and_(warpgroup, I32(1)), I32(2)), warp)
    at = b.add(at, b.mul(b.lshr(warpgroup, I32(1)), I32(SWIZZLE_BYTES * SWIZZLE_BYTES)))
    address = b.add(b.add(at, b.shl(line, I32(7))), b.shl(b.xor(chunk, b.and_(line, I32(7))), I32(4)))
    swapped = b.icmp_unsigned("!=", b.and_(lane, I32(2)), I32(0))
    selectors = [b.select(swapped, I32(a), I32(c)) for a, c in ((0x2064, 0x6420), (0x3175, 0x7531))]
    sorted_words = []
    for step in range(STEPS):
        words = matrices(e, b.add(address, I32(STEP_BYTES * SWIZZLE_BYTES * step)), True)
        for pair in (words[:2], words[2:]):
            sorted_words += [e.asm(I32, "prmt.b32 $0, $1, $2, $3;", "=r,r,r,r", [*pair, one]) for one in selectors]
    return sorted_words
