"""Intrinsics of float sums at computed indices: runs of one index are summed in order, then added as integers.

Positions alone decide in which order a run is summed. Its sum is added to the words of a superaccumulator
(ir/superaccumulators.py), and integers may be added in any order. So indices in any order have the same bits from call
to call.
"""

from __future__ import annotations

from collections.abc import Callable

from ....ir.superaccumulators import DOWN, SUPERACCUMULATORS, UP, Superaccumulator
from ....ir.types import INT64, dtype
from ..compiler.numba_backend import I32, I64, Emitter, emitted, ir, numba_type, types
from ..tile.tile import Tile
from .intrinsics import merge
from .runs import combine_of, thread_runs, tile_runs


def accumulate_tile(tile: Tile, name: str, fold: str, columns: bool) -> Callable:
    """`merge(address, indices, values, left)`: add each element of which so many are left; negative indices none.

    All threads of a warp take part; if lanes have `columns`, runs are those of a thread.
    """
    kind = dtype(name)
    accumulator = SUPERACCUMULATORS[fold][kind]

    @emitted(types.void)
    def emit(e, address, indices, values, left, *, kinds):
        b = e.builder
        own = tile.widened(e, INT64, indices, kinds[1], types.int64)
        given = tile.widened(e, kind, values, kinds[2], numba_type(name))
        for run in (thread_runs if columns else tile_runs)(e, tile, own, given, left, combine_of(kind, "sum")):
            with run.ended(e):
                for chunk, word in terms(e, accumulator, run.total):
                    with b.if_then(b.icmp_unsigned("!=", word, I64(0))):
                        merge(e, INT64, "sum", word_address(e, accumulator, address, run.index, chunk), word)

    return emit


def terms(e: Emitter, accumulator: Superaccumulator, value: ir.Value) -> list[tuple[ir.Value, ir.Value]]:
    """(chunk, 64-bit word) of what is added for a value."""
    b, word = e.builder, ir.IntType(accumulator.dtype.bits)
    bits = b.bitcast(value, word)
    field = b.lshr(bits, word(accumulator.mantissa - 1))
    field = b.and_(field if word == I32 else b.trunc(field, I32), I32((1 << accumulator.exponent_bits) - 1))
    fraction = b.and_(bits, word((1 << accumulator.mantissa - 1) - 1))
    normal = b.icmp_unsigned("!=", field, I32(0))
    mantissa = b.or_(fraction, b.select(normal, word(1 << accumulator.mantissa - 1), word(0)))
    exponent = b.select(normal, field, I32(1))
    negative = b.icmp_signed("<", bits, word(0))
    special = b.icmp_unsigned("==", field, I32((1 << accumulator.exponent_bits) - 1))
    parts = []
    for shift, part in _parts(e, accumulator, mantissa):
        bit = b.add(exponent, I32(shift))
        chunk = b.lshr(b.mul(bit, I32(accumulator.reciprocal)), I32(16))
        within = b.sub(bit, b.mul(chunk, I32(accumulator.width)))
        wide = b.shl(part if word == I64 else b.zext(part, I64), b.zext(within, I64))
        words = [wide]
        if accumulator.carries:
            words = [b.and_(wide, I64((1 << accumulator.width) - 1)), b.lshr(wide, I64(accumulator.width))]
        for further, part_of in enumerate(words):
            own = b.select(special, I32(accumulator.special), b.add(chunk, I32(further)))
            parts.append((own, b.select(negative, b.neg(part_of), part_of)))
    signed = b.select(negative, I64(DOWN), I64(UP))
    counted = b.select(b.icmp_unsigned("==", fraction, word(0)), signed, I64(UP + DOWN))
    words = [b.select(special, counted if k == 0 else I64(0), w) for k, (_, w) in enumerate(parts)]
    return [(chunk, w) for (chunk, _), w in zip(parts, words)]


def _parts(e: Emitter, accumulator: Superaccumulator, mantissa: ir.Value) -> list[tuple[int, ir.Value]]:
    """(what its exponent is more than that of the lowest bit, the part) of a mantissa."""
    b, low, kind = e.builder, accumulator.low, mantissa.type
    if not low:
        return [(0, mantissa)]
    return [(low, b.lshr(mantissa, kind(low))), (0, b.and_(mantissa, kind((1 << low) - 1)))]


def word_address(
    e: Emitter, accumulator: Superaccumulator, address: ir.Value, index: ir.Value, chunk: ir.Value
) -> ir.Value:
    """Where the word of a chunk is, of an index that is not negative."""
    b, size = e.builder, accumulator.group
    group = b.zext(b.lshr(index, I32(size.bit_length() - 1)), I64)
    within = b.add(b.mul(chunk, I32(size)), b.and_(index, I32(size - 1)))
    word = b.add(b.mul(group, I64(accumulator.chunks * size)), b.zext(within, I64))
    return b.add(address, b.mul(word, I64(INT64.itemsize)))
