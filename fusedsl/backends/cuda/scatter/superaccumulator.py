"""Intrinsics of float sums at computed places: runs of one place are summed in order, then added as integers.

The elements of a warp are neighbours. Those of equal places beside each other are a run: a segmented scan (Blelloch
1990) sums each run as floats, in an order that positions alone decide. Where a run ends, its sum is added to the words
of a superaccumulator (ir/superaccumulators.py), and integers may be added in any order. So sorted places take few
atomics, and places in any order have the same bits from call to call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ....ir.superaccumulators import DOWN, GROUP, SUPERACCUMULATORS, UP, Superaccumulator
from ....ir.types import INT64, dtype
from ..compiler.numba_backend import I1, I32, I64, Emitter, emitted, ir, numba_type, types
from ..tile.shuffle import WARP, shuffle
from ..tile.tile import Tile
from .intrinsics import merge

LANES = WARP - 1  # bits of a thread's number that are its lane


@dataclass(frozen=True)
class Run:
    """The run that an element is in: its place, negative for none, its sum so far, and whether it ends there."""

    place: ir.Value
    total: ir.Value
    ends: ir.Value


def accumulate_tile(tile: Tile, name: str, fold: str) -> Callable:
    """`merge(address, places, values, left)`: add each element of which so many are left; negative places none.

    All threads of a warp take part.
    """
    kind = dtype(name)
    accumulator = SUPERACCUMULATORS[fold][kind]

    @emitted(types.void)
    def emit(e, address, places, values, left, *, kinds):
        b = e.builder
        own = tile.widened(e, INT64, places, kinds[1], types.int64)
        given = tile.widened(e, kind, values, kinds[2], numba_type(name))
        for vector in range(tile.vectors):
            begin = tile.offset_of(e, vector, left.type)
            part = range(vector * tile.width, (vector + 1) * tile.width)
            there = [b.icmp_signed("<", b.add(begin, left.type(k)), left) for k in range(tile.width)]
            where = [place_or_none(e, own[k], valid) for k, valid in zip(part, there)]
            for run in runs(e, where, [given[k] for k in part]):
                with b.if_then(b.and_(run.ends, b.icmp_signed(">=", run.place, I32(0)))):
                    for chunk, word in terms(e, accumulator, run.total):
                        with b.if_then(b.icmp_unsigned("!=", word, I64(0))):
                            merge(e, INT64, "sum", word_address(e, accumulator, address, run.place, chunk), word)

    return emit


def place_or_none(e: Emitter, place: ir.Value, valid: ir.Value) -> ir.Value:
    """A place in 32 bits, which hold all of them; -1 for none."""
    b = e.builder
    wanted = b.and_(valid, b.icmp_signed(">=", place, I64(0)))
    return b.select(wanted, b.trunc(place, I32), I32(-1))


def runs(e: Emitter, places: Sequence[ir.Value], values: Sequence[ir.Value]) -> list[Run]:
    """The runs of a warp's elements, of which each lane has some neighbours."""
    b = e.builder
    lane = b.and_(e.special_register("tid.x"), I32(LANES))
    same = [b.icmp_signed("==", x, y) for x, y in pairwise(places)]
    joins = b.icmp_signed("==", shuffle(e, "up", places[-1], 1), places[0])
    joins = b.and_(joins, b.icmp_signed("!=", lane, I32(0)))
    whole = I1(1)
    for equal in same:
        whole = b.and_(whole, equal)
    tail = _summed(e, values, same)[-1]
    open_ = b.and_(whole, joins)
    heads = b.and_(_ballot(e, b.not_(open_)), b.lshr(I32(-1), b.sub(I32(LANES), lane)))
    first = b.sub(I32(LANES), e.call(I32, "llvm.ctlz.i32", [heads, I1(1)]))
    reach = b.sub(lane, first)  # lanes before this one that its run goes on from
    for distance in (1, 2, 4, 8, 16):
        further = b.fadd(shuffle(e, "up", tail, distance), tail)
        tail = b.select(b.icmp_signed(">=", reach, I32(distance)), further, tail)
    before = shuffle(e, "up", tail, 1)
    totals = _summed(e, [b.select(joins, b.fadd(before, values[0]), values[0]), *values[1:]], same)
    following = b.lshr(b.lshr(_ballot(e, joins), I32(1)), lane)
    ends = [*(b.not_(equal) for equal in same), b.not_(b.trunc(following, I1))]
    return [Run(*run) for run in zip(places, totals, ends)]


def _summed(e: Emitter, values: Sequence[ir.Value], same: Sequence[ir.Value]) -> list[ir.Value]:
    """The sum of each run of a lane up to each element."""
    totals = [values[0]]
    for value, equal in zip(values[1:], same):
        totals.append(e.builder.select(equal, e.builder.fadd(totals[-1], value), value))
    return totals


def _ballot(e: Emitter, flag: ir.Value) -> ir.Value:
    text = "{ .reg .pred p; setp.ne.b32 p, $1, 0; vote.sync.ballot.b32 $0, p, 0xffffffff; }"
    return e.asm(I32, text, "=r,r", [e.builder.zext(flag, I32)], effect=True)


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
    found = []
    for shift, part in _parts(e, accumulator, mantissa):
        place = b.add(exponent, I32(shift))
        chunk = b.lshr(b.mul(place, I32(accumulator.reciprocal)), I32(16))
        within = b.sub(place, b.mul(chunk, I32(accumulator.width)))
        wide = b.shl(part if word == I64 else b.zext(part, I64), b.zext(within, I64))
        words = [wide]
        if accumulator.carries:
            words = [b.and_(wide, I64((1 << accumulator.width) - 1)), b.lshr(wide, I64(accumulator.width))]
        for further, part_of in enumerate(words):
            own = b.select(special, I32(accumulator.special), b.add(chunk, I32(further)))
            found.append((own, b.select(negative, b.neg(part_of), part_of)))
    signed = b.select(negative, I64(DOWN), I64(UP))
    counted = b.select(b.icmp_unsigned("==", fraction, word(0)), signed, I64(UP + DOWN))
    words = [b.select(special, counted if k == 0 else I64(0), w) for k, (_, w) in enumerate(found)]
    return [(chunk, w) for (chunk, _), w in zip(found, words)]


def _parts(e: Emitter, accumulator: Superaccumulator, mantissa: ir.Value) -> list[tuple[int, ir.Value]]:
    """(what its exponent is more than that of the lowest bit, the part) of a mantissa."""
    b, low, kind = e.builder, accumulator.low, mantissa.type
    if not low:
        return [(0, mantissa)]
    return [(low, b.lshr(mantissa, kind(low))), (0, b.and_(mantissa, kind((1 << low) - 1)))]


def word_address(
    e: Emitter, accumulator: Superaccumulator, address: ir.Value, place: ir.Value, chunk: ir.Value
) -> ir.Value:
    """Where the word of a chunk is, of a place that is not negative."""
    b = e.builder
    group = b.mul(b.zext(b.lshr(place, I32(GROUP.bit_length() - 1)), I64), I64(accumulator.chunks * GROUP))
    within = b.add(b.mul(chunk, I32(GROUP)), b.and_(place, I32(GROUP - 1)))
    return b.add(address, b.mul(b.add(group, b.zext(within, I64)), I64(INT64.itemsize)))
