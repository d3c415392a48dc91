"""Candidates of a radix select: further digits narrow them, then a block sorts those that are left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..compiler.numba_backend import GLOBAL, I1, I32, I64, Emitter, emitted, ir, types
from ..sort.block_radix_rank import inclusive_sum, lane_of, warp_of
from ..sort.onesweep_lookback import at, thread
from ..tile.loops import repeated
from ..tile.shuffle import WARP, ballot_bits
from .digit_histogram import RankBin
from .schedule import BITS, BUFFERS
from .select_params import (
    BINS,
    COUNTS,
    PRECEDING,
    RANKS,
    Selector,
    block_strided,
    next_slot,
)

EACH = BINS // WARP


def digit_width(e: Emitter, shift: ir.Value) -> ir.Value:
    """The bits of the next digit, after so many bits that no prefix has yet."""
    b = e.builder
    return b.select(b.icmp_unsigned("<", shift, I32(BITS)), shift, I32(BITS))


@emitted(types.void)
def clear_digit_bins(e, *, chosen: Selector):
    """`clear()`: zero the bins of the block."""
    b = e.builder
    e.barrier()
    with block_strided(e, chosen, I32(BINS * chosen.ranks)) as index:
        b.store(I32(0), b.gep(chosen.bins(e), [index]))
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
                index = b.add(digit, I32(k * BINS))
                b.atomic_rmw("add", b.gep(bins, [index]), I32(1), "monotonic")


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
    """`add(counts, turn, block)`: add the block's counts to those of the row; zero those of the next turn."""
    count = BINS * chosen.ranks
    b, bins = e.builder, chosen.bins(e)
    e.barrier()
    here, coming = (_counts_at(e, chosen, counts, b.add(turn, I32(k))) for k in (0, 1))
    clears = b.icmp_unsigned("==", block, I32(0))
    with block_strided(e, chosen, I32(count)) as index:
        own = b.load(b.gep(bins, [index]))
        with b.if_then(b.icmp_unsigned("!=", own, I32(0))):
            b.atomic_rmw("add", at(e, here, index, I32), own, "monotonic")
        with b.if_then(clears):
            b.store(I32(0), at(e, coming, index, I32))


@emitted(types.int32)
def narrow_ranks(e, counts, turn, shift, *, chosen: Selector):
    """`narrow(counts, turn, shift)`: append the digits of ranks to their prefixes; the number of candidates left."""
    b, warp = e.builder, warp_of(e)
    here, width = _counts_at(e, chosen, counts, turn), digit_width(e, shift)
    with b.if_then(b.icmp_unsigned("<", warp, I32(chosen.ranks))):
        for k in range(chosen.ranks):
            with b.if_then(b.icmp_unsigned("==", warp, I32(k))):
                _narrow_rank(e, chosen, k, here, width)
    e.barrier()
    return chosen.candidate_count(e)


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
    preceding = b.load(chosen.word(e, PRECEDING)) if chosen.count else I32(0)
    e.call(ir.VoidType(), "llvm.nvvm.bar.warp.sync", [I32(-1)])  # all have read the state
    for n, count in enumerate(each):
        digit = b.zext(b.add(b.mul(own, I32(EACH)), I32(n)), chosen.code)
        RankBin(b.or_(prefix, digit), b.sub(rank, before), count, b.add(preceding, before)).store(e, chosen, k)
        before = b.add(before, count)


@emitted(types.int32)
def shift_of_next(e, shift, *, chosen: Selector):
    """`shift = following(shift)`: the bits that no prefix has yet, after one more digit."""
    return e.builder.sub(shift, digit_width(e, shift))


@emitted(types.void, 7)
def collect_candidates(e, *given, chosen: Selector):
    """`collect_kept(room, total, shift, target, cursor, block, blocks)`: copy the block's candidates that are left."""
    room, total, shift, target, cursor, block, blocks = given
    b, prefixes = e.builder, chosen.prefixes(e)
    with _share(e, chosen, total, block, blocks) as (slot, there):
        entry = chosen.order.get(e, room, b.select(there, slot, I32(0)), GLOBAL)
        begin = chosen.shifted(e, chosen.code_of(e, entry), shift)
        candidate = b.and_(there, chosen.is_candidate(e, begin, prefixes))
        lanes = ballot_bits(e, candidate)
        with b.if_then(b.icmp_unsigned("!=", lanes, I32(0))):
            slot = next_slot(e, candidate, lanes, cursor)
            with b.if_then(candidate):
                chosen.order.put(e, target, slot, entry, GLOBAL)


@emitted(types.int64)
def order_candidates(e, source, total, *, chosen: Selector):
    """`order(room, total)`: where in shared memory the candidates are, sorted by the block."""
    b, order, room = e.builder, chosen.order, chosen.room(e)
    e.barrier()
    with block_strided(e, chosen, total) as slot:
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
    mine, slot = b.load(own), b.load(chosen.word(e, RANKS + number))
    for k, (other, again) in enumerate(zip(chosen.prefixes(e), chosen.has_earlier_prefix(e))):
        lower = b.and_(b.icmp_unsigned("<", other, mine), b.not_(again))
        slot = b.add(slot, b.select(lower, b.load(chosen.word(e, COUNTS + k)), I32(0)))
    return chosen.order.packed(e, [chosen.order.get(e, room, slot)])
