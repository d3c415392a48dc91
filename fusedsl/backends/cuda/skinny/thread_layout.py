"""Thread layout of skinny products: which rows and steps a warp has, and which of them its lanes read.

- 16 bits, along steps ("k"): lane 4 g + t has steps 8 t … 8 t + 7 of rows g, g + 8, …, g + 56;
- 16 bits, across ("n"): steps 4 t … 4 t + 3, then 16 further on, of rows 8 g … 8 g + 7;
- 32 bits, along steps: lane 16 h + c has steps 4 h … 4 h + 3 and 8 further on, of rows c, c + 16, c + 32, c + 48;
- 32 bits, across: the same steps of rows 4 c … 4 c + 3.
"""

from __future__ import annotations

from ..compiler.numba_backend import I32, Emitter, ir
from .layout import VECTORS, SkinnyLayout


def lane_index(e: Emitter) -> ir.Value:
    return e.builder.and_(e.special_register("tid.x"), I32(31))


def warp_position(layout: SkinnyLayout, e: Emitter) -> tuple[ir.Value, ir.Value]:
    """(a warp's number along the narrow rows, its number among those that have the same narrow rows)"""
    b, warp = e.builder, e.builder.lshr(e.special_register("tid.x"), I32(5))
    others = I32(layout.warps_streamed * layout.warps_k)
    return b.udiv(warp, others), b.urem(warp, others)


def warp_k(layout: SkinnyLayout, e: Emitter, warp: ir.Value) -> ir.Value:
    """A warp's number along the steps."""
    return e.builder.urem(warp, I32(layout.warps_k))


def lane_position(layout: SkinnyLayout, e: Emitter) -> tuple[ir.Value, ir.Value]:
    """(g, t), or of 32 bits (c, h)"""
    b, lane = e.builder, lane_index(e)
    if layout.itemsize == 2:
        return b.lshr(lane, I32(2)), b.and_(lane, I32(3))
    return b.and_(lane, I32(15)), b.lshr(lane, I32(4))


def lane_row(layout: SkinnyLayout, e: Emitter) -> ir.Value:
    """The first row of a lane in its warp's slot."""
    row = lane_position(layout, e)[0]
    return row if layout.near == "k" else e.builder.mul(row, I32(16 // layout.itemsize))


def row_offset(layout: SkinnyLayout, k: int) -> int:
    """The row of a lane's k-th vector, from its first, where vectors lie along the steps."""
    return 8 * k if layout.itemsize == 2 else 16 * (k // 2)


def vector_offset(layout: SkinnyLayout, e: Emitter, slot: ir.Value, k: int) -> ir.Value:
    """Where the k-th vector of this lane stands in a stage, in bytes; `slot` is the number of its warp's."""
    b, (low, high) = e.builder, lane_position(layout, e)
    parity = b.and_(slot, I32(1)) if layout.warps_k > 1 else I32(0)
    which = b.add(b.mul(slot, I32(VECTORS)), I32(k))
    return _vector_offset(e, which, _moved(layout, e, (low, high), (I32(k), parity)))


def copied_offset(layout: SkinnyLayout, e: Emitter, line: ir.Value, chunk: ir.Value) -> ir.Value:
    """Where the vector stands that is so many in a line along the contiguous axis."""
    b, short = e.builder, layout.itemsize == 2

    def digits(number: ir.Value, *bases: int) -> list[ir.Value]:
        parts = []
        for base in bases:
            parts.append(b.urem(number, I32(base)))
            number = b.udiv(number, I32(base))
        return [*parts, number]

    if layout.near == "k" and short:
        low, k, streamed = digits(line, 8, 8)
        high, warp = digits(chunk, 4)
    elif layout.near == "k":
        low, own, streamed = digits(line, 16, 4)
        high, half, warp = digits(chunk, 2, 2)
        k = b.add(b.mul(own, I32(2)), half)
    elif short:
        within, high, half, warp = digits(line, 4, 4, 2)
        low, streamed = digits(chunk, 8)
        k = b.add(b.mul(half, I32(4)), within)
    else:
        within, high, half, warp = digits(line, 4, 2, 2)
        low, streamed = digits(chunk, 16)
        k = b.add(b.mul(half, I32(4)), within)
    slot = b.add(b.mul(streamed, I32(layout.warps_k)), warp)
    parity = b.and_(slot, I32(1)) if layout.warps_k > 1 else I32(0)
    return _vector_offset(e, b.add(b.mul(slot, I32(VECTORS)), k), _moved(layout, e, (low, high), (k, parity)))


def _vector_offset(e: Emitter, vector: ir.Value, lane: ir.Value) -> ir.Value:
    return e.builder.shl(e.builder.add(e.builder.shl(vector, I32(5)), lane), I32(4))


def _moved(
    layout: SkinnyLayout, e: Emitter, position: tuple[ir.Value, ir.Value], vector: tuple[ir.Value, ir.Value]
) -> ir.Value:
    """The number of a lane's vector among those of its slot and `k`: eight lanes that copy a line, and eight that read
    theirs, meet different banks. `vector` is (k, parity of the slot along the steps)."""
    b, (low, high), (k, parity) = e.builder, position, vector
    if layout.near == "n" and layout.itemsize == 2:
        return b.add(b.shl(high, I32(3)), b.xor(low, b.shl(high, I32(1))))
    if layout.near == "n":
        return b.add(b.shl(high, I32(4)), low)
    if layout.itemsize == 2:
        return b.xor(b.add(b.shl(low, I32(2)), high), b.shl(parity, I32(2)))
    flipped = b.add(high, b.add(b.shl(b.and_(k, I32(1)), I32(1)), b.shl(parity, I32(2))))
    return b.xor(b.add(b.shl(high, I32(4)), low), flipped)
