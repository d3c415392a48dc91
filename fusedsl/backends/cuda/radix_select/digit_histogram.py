"""Digit histogram of a radix select: counts of the first digit, the digits of wanted ranks, the candidates."""

from __future__ import annotations

from dataclasses import dataclass

from ..compiler.numba_backend import GLOBAL, I32, I64, Emitter, emitted, ir, types
from ..sort.onesweep_lookback import at, narrow, thread, wide
from ..tile.shuffle import ballot_bits
from .schedule import STATE_BYTES
from .select_params import (
    COUNTS,
    CURSOR,
    OWN,
    PRECEDING,
    RANKS,
    Selector,
    bins_of_thread,
    block_exclusive_sum,
    block_strided,
    elements_of,
    next_slot,
)


@emitted(types.void)
def clear_selection(e, *, chosen: Selector):
    """`clear()`: zero the bins of the block, and the state of the ranks."""
    words = STATE_BYTES // 4 + (1 << chosen.first_bits)
    b = e.builder
    with block_strided(e, chosen, I32(words)) as index:
        b.store(I32(0), b.gep(chosen.word(e, 0), [index]))
    e.barrier()


@emitted(types.void)
def count_first_digits(e, held, first, last, *, kinds, chosen: Selector):
    """`count(values, start, limit)`: the block counts the first digits of a thread's tile."""
    b, bins = e.builder, chosen.bins(e)
    for value, _, there in elements_of(e, chosen, held, kinds, first, last):
        digit = chosen.first_digit(e, chosen.order.key_of(e, value)[0])
        with b.if_then(there):
            b.atomic_rmw("add", b.gep(bins, [digit]), I32(1), "monotonic")


@emitted(types.void)
def add_first_digits(e, counts, *, chosen: Selector):
    """`add(counts)`: add the block's counts to those of the row."""
    b, bins = e.builder, chosen.bins(e)
    e.barrier()
    with block_strided(e, chosen, I32(1 << chosen.first_bits)) as index:
        own = b.load(b.gep(bins, [index]))
        with b.if_then(b.icmp_unsigned("!=", own, I32(0))):
            b.atomic_rmw("add", at(e, counts, index, I32), own, "monotonic")


@emitted(types.void)
def clear_row_counters(e, counts, number, *, chosen: Selector):
    """`clear(counts, number)`: zero so many counters of the row."""
    b = e.builder
    with block_strided(e, chosen, narrow(e, number)) as index:
        b.store(I32(0), at(e, counts, index, I32))


@emitted(types.int32, lambda chosen: 3 + chosen.ranks)
def locate_ranks(e, counts, cursor, columns, *ranks, chosen: Selector):
    """`locate_ranks(counts, cursor, columns, *ranks)`: the number of candidates: elements with the digit of a rank.

    Stores the digit of each rank to the state, and reserves slots for the block's candidates.
    """
    size = 1 << chosen.first_bits
    b, own = e.builder, thread(e)
    with b.if_then(b.icmp_unsigned("==", own, I32(0))):
        b.store(I32(0), chosen.word(e, OWN))
    bins, each = list(bins_of_thread(e, chosen, own, size)), []
    for number, there in bins:
        each.append(b.select(there, b.load(at(e, counts, number, I32)), I32(0)))
    wanted = [_clamped(e, rank, columns) for rank in ranks]
    total = I32(0)
    for count in each:
        total = b.add(total, count)
    before = block_exclusive_sum(e, chosen, total)
    for (number, _), count in zip(bins, each):
        for k, rank in enumerate(wanted):
            rank_bin = RankBin(b.zext(number, chosen.code), b.sub(rank, before), count, before)
            rank_bin.store(e, chosen, k)
        before = b.add(before, count)
    e.barrier()
    _reserve(e, chosen, bins, cursor)
    return chosen.candidate_count(e)


@dataclass(frozen=True)
class RankBin:
    """The bin of a wanted rank: its prefix, the rank within it, its count, and how many elements precede it."""

    prefix: ir.Value
    rank: ir.Value
    count: ir.Value
    preceding: ir.Value

    def store(self, e: Emitter, chosen: Selector, number: int) -> None:
        """Store to the state of a rank, if the rank is in this bin."""
        b = e.builder
        with b.if_then(b.icmp_unsigned("<", self.rank, self.count)):  # unsigned: not if it is negative
            b.store(self.prefix, chosen.prefix(e, number))
            b.store(self.rank, chosen.word(e, RANKS + number))
            b.store(self.count, chosen.word(e, COUNTS + number))
            if chosen.count:
                b.store(self.preceding, chosen.word(e, PRECEDING))


def _clamped(e: Emitter, rank: ir.Value, columns: ir.Value) -> ir.Value:
    """A rank that the row has, as an int32."""
    b, rank = e.builder, wide(e, rank)
    last = b.sub(wide(e, columns), I64(1))
    rank = b.select(b.icmp_signed("<", rank, last), rank, last)
    return b.trunc(b.select(b.icmp_signed("<", rank, I64(0)), I64(0), rank), I32)


def _reserve(e: Emitter, chosen: Selector, bins: list, cursor: ir.Value) -> None:
    """Reserve slots among all candidates for those of the block, which its own bins count."""
    b, prefixes, own = e.builder, chosen.prefixes(e), I32(0)
    for number, there in bins:
        candidate = b.and_(there, chosen.is_candidate(e, b.zext(number, chosen.code), prefixes))
        own = b.add(own, b.select(candidate, b.load(b.gep(chosen.bins(e), [number])), I32(0)))
    with b.if_then(b.icmp_unsigned("!=", own, I32(0))):
        b.atomic_rmw("add", chosen.word(e, OWN), own, "monotonic")
    e.barrier()
    with b.if_then(b.icmp_unsigned("==", thread(e), I32(0))):
        counter = at(e, cursor, I32(0), I32)
        b.store(b.atomic_rmw("add", counter, b.load(chosen.word(e, OWN)), "monotonic"), chosen.word(e, CURSOR))
    e.barrier()


@emitted(types.void, 4)
def gather_candidates(e, *given, kinds, chosen: Selector):
    """`gather(values, start, limit, room)`: append to the candidates what has the digit of a rank."""
    held, first, last, room = given
    b = e.builder
    prefixes = [b.trunc(prefix, I32) for prefix in chosen.prefixes(e)]
    counter = b.ptrtoint(chosen.word(e, CURSOR), I32)
    for value, column, there in elements_of(e, chosen, held, kinds, first, last):
        digit = chosen.first_digit(e, chosen.order.key_of(e, value)[0])
        candidate = b.and_(there, chosen.is_candidate(e, digit, prefixes))
        lanes = ballot_bits(e, candidate)
        with b.if_then(b.icmp_unsigned("!=", lanes, I32(0))):
            slot = next_slot(e, candidate, lanes, counter)
            with b.if_then(candidate):
                entry = chosen.order.entry(e, value, column, None)
                chosen.order.put(e, room, slot, entry, GLOBAL)
