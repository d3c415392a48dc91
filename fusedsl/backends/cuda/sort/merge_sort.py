"""Merge sort of long rows in global memory: sorted runs, which every pass merges pairwise."""

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

    `size` is a power of two. The first `total` slots hold the runs, the `total` slots behind them are free. Every pass
    merges pairs of runs from one half into the other: the slot of an entry is its index in its own run, plus the number
    of entries of the partner run that precede it.
    """
    b = e.builder
    total = total if total.type == I64 else b.sext(total, I64)
    half = b.mul(total, I64(8 * order_of.words))
    keep = lambda pass_index: b.icmp_signed("<", b.shl(I64(size), pass_index), total)  # noqa: E731
    with repeated(e, I64(0), keep, lambda pass_index: b.add(pass_index, I64(1))) as pass_index:
        here, there = _halves(e, work, half, pass_index)
        lane, run = b.sext(order_of.lane(e), I64), b.shl(I64(size), pass_index)
        more = lambda n: b.icmp_signed("<", n, total)  # noqa: E731
        with repeated(e, lane, more, lambda n: b.add(n, I64(order_of.threads))) as slot:
            entry, index = _merge_rank(e, order_of, here, slot, run, total)
            order_of.put(e, there, index, entry, GLOBAL)
        order_of.wait(e)
    return _halves(e, work, half, pass_index)[0]


def _halves(e: Emitter, work: ir.Value, half: ir.Value, pass_index: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The addresses of the halves that a pass reads and writes."""
    b = e.builder
    odd = b.and_(pass_index, I64(1))
    return b.add(work, b.mul(half, odd)), b.add(work, b.mul(half, b.xor(odd, I64(1))))


def _merge_rank(e: Emitter, order: KeyCodec, here, slot: ir.Value, run: ir.Value, total: ir.Value):
    """An entry and its slot: after the entries of both runs that precede it. `run` is their length, a power of 2."""
    b = e.builder
    entry, run_begin = order.get(e, here, slot, GLOBAL), b.and_(slot, b.sub(I64(0), run))
    partner_begin = b.xor(run_begin, run)
    partner_length = b.sub(total, partner_begin)
    partner_length = b.select(
        b.icmp_signed("<", partner_length, I64(0)),
        I64(0),
        b.select(b.icmp_signed("<", partner_length, run), partner_length, run),
    )
    with looped(e, [run, I64(0)], lambda step, low: b.icmp_signed(">", step, I64(0))) as (state, next_state):
        step, low = state
        tried = b.add(low, step)
        inside = b.icmp_signed("<=", tried, partner_length)
        probe = b.select(inside, b.add(partner_begin, b.sub(tried, I64(1))), slot)
        before = b.and_(inside, order.less(e, order.get(e, here, probe, GLOBAL), entry))
        next_state += [b.lshr(step, I64(1)), b.select(before, tried, low)]
    begin = b.select(b.icmp_signed("<", run_begin, partner_begin), run_begin, partner_begin)
    return entry, b.add(b.add(begin, b.sub(slot, run_begin)), state[1])
