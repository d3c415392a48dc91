"""Warp shuffles (shfl.sync) and votes (vote.sync)."""

from __future__ import annotations

from ..compiler.numba_backend import I32, I64, VOID, Emitter, ir

WARP = 32


def shuffle(e: Emitter, mode: str, value: ir.Value, distance: int | ir.Value, lanes: int | ir.Value = WARP) -> ir.Value:
    """Another lane's value, within segments of `lanes` (an int32 where the launch says how many); which one's may be
    an int32 too, of a whole warp."""
    b, kind = e.builder, value.type
    bits = 64 if kind in (I64, ir.DoubleType()) else 32
    if isinstance(kind, ir.IntType) and kind.width < 32:
        word = b.zext(value, I32)
    else:
        word = b.bitcast(value, ir.IntType(bits))
    if not isinstance(distance, int):
        distance, clamp, known = "$2", str(WARP - 1), [distance]
    elif isinstance(lanes, int):
        clamp, known = str(((WARP - lanes) << 8) | (0 if mode == "up" else WARP - 1)), []
    else:
        first = b.shl(b.sub(I32(WARP), lanes), I32(8))
        clamp, known = "$2", [b.or_(first, I32(0 if mode == "up" else WARP - 1))]
    pieces = [word] if bits == 32 else [b.trunc(word, I32), b.trunc(b.lshr(word, I64(32)), I32)]
    text = f"shfl.sync.{mode}.b32 $0, $1, {distance}, {clamp}, 0xffffffff;"
    moved = [e.asm(I32, text, "=r,r" + ",r" * len(known), [piece, *known], side_effect=True) for piece in pieces]
    if bits == 64:
        return b.bitcast(b.or_(b.zext(moved[0], I64), b.shl(b.zext(moved[1], I64), I64(32))), kind)
    if isinstance(kind, ir.IntType) and kind.width < 32:
        return b.trunc(moved[0], kind)
    return b.bitcast(moved[0], kind)


def ballot_bits(e: Emitter, flag: ir.Value) -> ir.Value:
    """A word with a bit for each lane of the warp (vote.ballot)."""
    text = "{ .reg .pred p; setp.ne.b32 p, $1, 0; vote.sync.ballot.b32 $0, p, 0xffffffff; }"
    return e.asm(I32, text, "=r,r", [e.builder.zext(flag, I32)], side_effect=True)


def sync_warp(e: Emitter) -> None:
    """All lanes of the warp arrive; what they have written is there for all of them."""
    e.asm(VOID, "bar.warp.sync 0xffffffff;", "~{memory}", [], side_effect=True)
