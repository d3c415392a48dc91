"""Merge sort of long rows in global memory: sorted runs, which every turn merges pairwise."""

from __future__ import annotations

from ..compiler.numba_backend import GLOBAL, I32, I64, Emitter, emitted, ir, types
from ..tile.loops import looped, repeated
from .sort_keys import KeyCodec


@emitted(types.void)
def store_run(e, room, work, at, *, order_of: KeyCodec, size: int):
    """`store_run(room, work, at)`: copy a sorted run of `size` entries to slots from `at` on in global memory."""
    b, lane = e.builder, order_of.lane(e)
    first = at if at.type == I64 else b.sext(at, I64)
    more = lambda n: b.icmp_signed("<", n, I32(size))  # noqa: E731
    with repeated(e, lane, more, lambda n: b.add(n, I32(order_of.threads))) as slot:
        index = b.add(first, b.sext(slot, I64))
        order_of.put(e, work, index, order_of.get(e, room, slot), GLOBAL)
    order_of.wait(e)


@emitted(types.int64)
def merge_runs(e, work, total, *, order_of: KeyCodec, size: int):
    """`merge(work, total)`: merge sorted runs of `size` entries into one; the address of its slots.

    The first `total` slots hold the runs, the `total` slots behind them are free. Every turn merges pairs of runs from
    one half into the other: the slot of an entry is its index in its own run, plus the number of entries of the other
    run that precede it.
    """
    b = e.builder
    total = total if total.type == I64 else b.sext(total, I64)
    half = b.mul(total, I64(8 * order_of.words))
    keep = lambda turn: b.icmp_signed("<", b.shl(I64(size), turn), total)  # noqa: E731
    with repeated(e, I64(0), keep, lambda turn: b.add(turn, I64(1))) as turn:
        here, there = _halves(e, work, half, turn)
        lane, run = b.sext(order_of.lane(e), I64), b.shl(I64(size), turn)
        more = lambda n: b.icmp_signed("<", n, total)  # noqa: E731
        with repeated(e, lane, more, lambda n: b.add(n, I64(order_of.threads))) as slot:
            entry, index = _merged_index(e, order_of, here, slot, run, total)
            order_of.put(e, there, index, entry, GLOBAL)
        order_of.wait(e)
    return _halves(e, work, half, turn)[0]


def _halves(e: Emitter, work: ir.Value, half: ir.Value, turn: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The addresses of the halves that a turn reads and writes."""
    b = e.builder
    odd = b.and_(turn, I64(1))
    return b.add(work, b.mul(half, odd)), b.add(work, b.mul(half, b.xor(odd, I64(1))))


def _merged_index(e: Emitter, order: KeyCodec, here, slot: ir.Value, run: ir.Value, total: ir.Value):
    """An entry and its slot: after the entries of both runs that precede it."""
    b = e.builder
    entry, own = order.get(e, here, slot, GLOBAL), b.and_(slot, b.sub(I64(0), run))
    other = b.xor(own, run)
    room = b.sub(total, other)
    room = b.select(b.icmp_signed("<", room, I64(0)), I64(0), b.select(b.icmp_signed("<", room, run), room, run))
    with looped(e, [run, I64(0)], lambda step, low: b.icmp_signed(">", step, I64(0))) as (state, following):
        step, low = state
        tried = b.add(low, step)
        inside = b.icmp_signed("<=", tried, room)
        probe = b.select(inside, b.add(other, b.sub(tried, I64(1))), slot)
        before = b.and_(inside, order.less(e, order.get(e, here, probe, GLOBAL), entry))
        following += [b.lshr(step, I64(1)), b.select(before, tried, low)]
    begin = b.select(b.icmp_signed("<", own, other), own, other)
    return entry, b.add(b.add(begin, b.sub(slot, own)), state[1])
