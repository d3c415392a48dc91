"""Intrinsics of the candidates of a selection: further digits narrow them, then a block puts those kept in order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..compiler.numba_backend import GLOBAL, I1, I32, I64, Emitter, emitted, ir, types
from ..sort.block_radix_rank import inclusive_sum, lane_of, warp_of
from ..sort.onesweep_lookback import at, thread
from ..tile.loops import repeated
from ..tile.shuffle import WARP, ballot_bits
from .digit_histogram import Found
from .schedule import BITS, BUFFERS
from .select_params import (
    BELOW,
    BINS,
    COUNTS,
    RANKS,
    Selector,
    next_slot,
    numbers_below,
)

EACH = BINS // WARP


def digit_width(e: Emitter, shift: ir.Value) -> ir.Value:
    """The bits of the next digit, where so many bits are below the prefixes."""
    b = e.builder
    return b.select(b.icmp_unsigned("<", shift, I32(BITS)), shift, I32(BITS))


@emitted(types.void)
def clear_digit_bins(e, *, chosen: Selector):
    """`clear()`: the block has counted no digit of candidates."""
    b = e.builder
    e.barrier()
    with numbers_below(e, chosen, I32(BINS * chosen.ranks)) as place:
        b.store(I32(0), b.gep(chosen.bins(e), [place]))
    e.barrier()


@emitted(types.void, 5)
def count_next_digits(e, *given, chosen: Selector):
    """`count(room, total, shift, block, blocks)`: the block counts the next digits of its share of the candidates.

    Each rank has bins of its own, for candidates whose code begins with its prefix.
    """
    room, total, shift, block, blocks = given
    b, bins, prefixes = e.builder, chosen.bins(e), chosen.prefixes(e)
    width = digit_width(e, shift)
    mask = b.sub(b.shl(I32(1), width), I32(1))
    with _share(e, chosen, total, block, blocks) as (slot, there), b.if_then(there):
        code = chosen.code_of(e, chosen.order.get(e, room, slot, GLOBAL))
        begin = chosen.shifted(e, code, shift)
        digit = b.and_(b.trunc(chosen.shifted(e, code, b.sub(shift, width)), I32), mask)
        for k, prefix in enumerate(prefixes):
            with b.if_then(b.icmp_unsigned("==", begin, prefix)):
                place = b.add(digit, I32(k * BINS))
                b.atomic_rmw("add", b.gep(bins, [place]), I32(1), "monotonic")


@contextmanager
def _share(
    e: Emitter, chosen: Selector, total: ir.Value, block: ir.Value, blocks: ir.Value
) -> Iterator[tuple[ir.Value, ir.Value]]:
    """(a candidate's number, whether it is there) for a thread, as often for all lanes of its warp."""
    b = e.builder
    first, stride = b.mul(block, I32(chosen.threads)), b.mul(blocks, I32(chosen.threads))
    more = lambda begin: b.icmp_unsigned("<", begin, total)  # noqa: E731
    with repeated(e, first, more, lambda begin: b.add(begin, stride)) as begin:
        slot = b.add(begin, thread(e))
        yield slot, b.icmp_unsigned("<", slot, total)


def turn_bytes(chosen: Selector) -> int:
    """Bytes of the counts of all ranks."""
    return 4 * BINS * chosen.ranks


def _counts_at(e: Emitter, chosen: Selector, counts: ir.Value, turn: ir.Value) -> ir.Value:
    """Where the row's counts of a turn are."""
    b = e.builder
    return b.add(counts, b.mul(b.zext(b.urem(turn, I32(BUFFERS)), I64), I64(turn_bytes(chosen))))


@emitted(types.void)
def add_next_digits(e, counts, turn, block, *, chosen: Selector):
    """`add(counts, turn, block)`: the block's counts are added to those of the row; those of the next turn are 0."""
    count = BINS * chosen.ranks
    b, bins = e.builder, chosen.bins(e)
    e.barrier()
    here, coming = (_counts_at(e, chosen, counts, b.add(turn, I32(k))) for k in (0, 1))
    clears = b.icmp_unsigned("==", block, I32(0))
    with numbers_below(e, chosen, I32(count)) as place:
        own = b.load(b.gep(bins, [place]))
        with b.if_then(b.icmp_unsigned("!=", own, I32(0))):
            b.atomic_rmw("add", at(e, here, place, I32), own, "monotonic")
        with b.if_then(clears):
            b.store(I32(0), at(e, coming, place, I32))


@emitted(types.int32)
def narrow_ranks(e, counts, turn, shift, *, chosen: Selector):
    """`narrow(counts, turn, shift)`: the prefixes get the digits of their ranks; how many candidates are kept."""
    b, warp = e.builder, warp_of(e)
    here, width = _counts_at(e, chosen, counts, turn), digit_width(e, shift)
    with b.if_then(b.icmp_unsigned("<", warp, I32(chosen.ranks))):
        for k in range(chosen.ranks):
            with b.if_then(b.icmp_unsigned("==", warp, I32(k))):
                _narrow_rank(e, chosen, k, here, width)
    e.barrier()
    return chosen.kept(e)


def _narrow_rank(e: Emitter, chosen: Selector, k: int, counts: ir.Value, width: ir.Value) -> None:
    """A warp finds the bin of a rank."""
    b, own = e.builder, lane_of(e)
    first = b.add(b.mul(own, I32(EACH)), I32(k * BINS))
    each = [b.load(at(e, counts, b.add(first, I32(n)), I32)) for n in range(EACH)]
    total = I32(0)
    for count in each:
        total = b.add(total, count)
    before = b.sub(inclusive_sum(e, total), total)
    prefix, rank = b.load(chosen.prefix(e, k)), b.load(chosen.word(e, RANKS + k))
    prefix = b.shl(prefix, b.zext(width, chosen.code))
    below = b.load(chosen.word(e, BELOW)) if chosen.count else I32(0)
    e.call(ir.VoidType(), "llvm.nvvm.bar.warp.sync", [I32(-1)])  # all have read the state
    for n, count in enumerate(each):
        digit = b.zext(b.add(b.mul(own, I32(EACH)), I32(n)), chosen.code)
        Found(b.or_(prefix, digit), b.sub(rank, before), count, b.add(below, before)).store(e, chosen, k)
        before = b.add(before, count)


@emitted(types.int32)
def shift_of_next(e, shift, *, chosen: Selector):
    """`shift = following(shift)`: the bits below the prefixes, once they have one more digit."""
    return e.builder.sub(shift, digit_width(e, shift))


@emitted(types.void, 7)
def collect_candidates(e, *given, chosen: Selector):
    """`collect_kept(room, total, shift, target, cursor, block, blocks)`: copy the block's candidates that are kept."""
    room, total, shift, target, cursor, block, blocks = given
    b, prefixes = e.builder, chosen.prefixes(e)
    with _share(e, chosen, total, block, blocks) as (slot, there):
        entry = chosen.order.get(e, room, b.select(there, slot, I32(0)), GLOBAL)
        begin = chosen.shifted(e, chosen.code_of(e, entry), shift)
        kept = b.and_(there, chosen.keeps(e, begin, prefixes))
        lanes = ballot_bits(e, kept)
        with b.if_then(b.icmp_unsigned("!=", lanes, I32(0))):
            place = next_slot(e, kept, lanes, cursor)
            with b.if_then(kept):
                chosen.order.put(e, target, place, entry, GLOBAL)


@emitted(types.int64)
def order_candidates(e, source, total, *, chosen: Selector):
    """`order(room, total)`: where in shared memory the candidates are, sorted by the block."""
    b, order, room = e.builder, chosen.order, chosen.room(e)
    e.barrier()
    with numbers_below(e, chosen, total) as slot:
        order.put(e, room, slot, order.get(e, source, slot, GLOBAL))
    zeros = e.call(I32, "llvm.ctlz.i32", [b.sub(total, I32(1)), ir.Constant(I1, 0)])
    size = b.shl(I32(1), b.sub(I32(WARP), zeros))
    order.clear(e, room, total, size)
    e.barrier()
    order.sort(e, room, size)
    return room


@emitted(lambda chosen: chosen.order.tuple_of(1))
def entry_of_rank(e, room, *, chosen: Selector, number: int):
    """`entry(room)`: the entry of a wanted rank, among the candidates in order."""
    b, own = e.builder, chosen.prefix(e, number)
    mine, place = b.load(own), b.load(chosen.word(e, RANKS + number))
    for k, (other, again) in enumerate(zip(chosen.prefixes(e), chosen.repeats(e))):
        lower = b.and_(b.icmp_unsigned("<", other, mine), b.not_(again))
        place = b.add(place, b.select(lower, b.load(chosen.word(e, COUNTS + k)), I32(0)))
    return chosen.order.packed(e, [chosen.order.get(e, room, place)])
