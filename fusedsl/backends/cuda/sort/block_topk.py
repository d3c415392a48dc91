"""Top-k buffer of looped rows: the best entries so far, in shared memory; sorted whenever it is full."""

from __future__ import annotations

from collections.abc import Callable

from ..compiler.numba_backend import I32, I64, SHARED, Emitter, emitted, ir, types
from ..tile.loops import when
from .sort_keys import ONES, Entry, KeyCodec, best_of_entries


class TopKBuffer:
    """The best `count` entries so far, sorted, in `size` slots; new candidates follow from slot `keep` on.

    Entries that do not beat the bound, the last of the best so far, are dropped. A counter follows the slots.
    """

    def __init__(self, order_of: KeyCodec, count: int, keep: int, size: int, limit: int) -> None:
        self.order, self.count, self.keep, self.size, self.limit = order_of, count, keep, size, limit

    def _groups(self, entries: list[Entry]) -> int:
        """Groups of a thread's entries: all threads have twice as many as are wanted, if their entries last for it."""
        wanted = -(-2 * self.count // self.order.threads)
        return min(1 << (wanted - 1).bit_length(), 1 << (len(entries).bit_length() - 1))

    def counter(self, e: Emitter, room: ir.Value) -> ir.Value:
        address = e.builder.add(room, I64(8 * self.order.words * self.size))
        return e.builder.inttoptr(address, I32.as_pointer(SHARED))

    def reset(self, e: Emitter, room: ir.Value) -> None:
        order = self.order
        order.clear(e, room, I32(0), I32(self.keep))
        with e.builder.if_then(e.builder.icmp_signed("==", order.lane(e), I32(0))):
            e.builder.store(I32(0), self.counter(e, room))
        order.wait(e)

    def insert(self, e: Emitter, room: ir.Value, entries: list[Entry], bound: Entry, first: ir.Value) -> Entry:
        """Append the entries that beat the bound; returns the new bound."""
        order = self.order
        if self.count <= self._groups(entries) * order.threads <= self.size:
            bound = when(e, first, bound, lambda: self._first_bound(e, room, entries))
        some = max(1, self.size // 2 // order.threads)  # entries of a thread for which there is always room
        for k in range(0, len(entries), some):
            bound = self._insert_some(e, room, entries[k : k + some], bound)
        return bound

    def _insert_some(self, e: Emitter, room: ir.Value, entries: list[Entry], bound: Entry) -> Entry:
        b, order, counter = e.builder, self.order, self.counter(e, room)
        for entry in entries:
            with b.if_then(order.less(e, entry, bound)):
                slot = b.atomic_rmw("add", counter, I32(1), "monotonic")
                order.put(e, room, b.add(slot, I32(self.keep)), entry)
        order.wait(e)
        held = b.load(counter)
        order.wait(e)
        return when(e, b.icmp_signed(">", held, I32(self.limit)), bound, lambda: self.flush(e, room, held))

    def _first_bound(self, e: Emitter, room: ir.Value, entries: list[Entry]) -> Entry:
        """What the best of as many groups of entries as are wanted do not exceed: so many are not worse."""
        b, order, groups = e.builder, self.order, self._groups(entries)
        for k in range(groups):
            slot = b.add(order.lane(e), I32(k * order.threads))
            order.put(e, room, slot, best_of_entries(e, order, entries[k::groups]))
        order.wait(e)
        order.sort(e, room, I32(groups * order.threads))
        last = order.get(e, room, I32(self.count - 1))
        order.wait(e)
        order.clear(e, room, I32(0), I32(max(self.keep, groups * order.threads)))
        order.wait(e)
        missing = b.icmp_unsigned("==", last[-1], ONES)  # no column has such a tag
        following = b.select(missing, ONES, b.add(last[-1], I64(1)))
        return [*last[:-1], following]

    def flush(self, e: Emitter, room: ir.Value, held: ir.Value) -> Entry:
        """Sort the buffer; returns the new bound."""
        b, order = e.builder, self.order
        total = b.add(held, I32(self.keep))
        zeros = e.call(I32, "llvm.ctlz.i32", [b.sub(total, I32(1)), ir.Constant(ir.IntType(1), 0)])
        size = b.shl(I32(1), b.sub(I32(32), zeros))
        order.clear(e, room, total, size)
        with b.if_then(b.icmp_signed("==", order.lane(e), I32(0))):
            b.store(I32(0), self.counter(e, room))
        order.wait(e)
        order.sort(e, room, size)
        return order.get(e, room, I32(self.count - 1))


def topk_buffer(order_of: KeyCodec, count: int, keep: int, size: int, limit: int) -> TopKBuffer:
    """The buffer of the best `count` entries of a row."""
    return TopKBuffer(order_of, count, keep, size, limit)


@emitted(lambda choice_of: choice_of.order.tuple_of(1))
def reset(e, room, *, choice_of: TopKBuffer):
    """`reset(room)`: clear the buffer; returns a bound that everything beats."""
    choice_of.reset(e, room)
    return choice_of.order.packed(e, [choice_of.order.empty()])


def insert(choice_of: TopKBuffer) -> Callable:
    """`insert(room, entries, bound, first)`: append a tile's entries that beat the bound; returns the new bound."""
    order = choice_of.order

    @emitted(order.tuple_of(1))
    def emit(e, room, entries, bound, first, *, kinds):
        held = order.entries(e, entries, order.tile.count)
        buffered = choice_of.insert(e, room, held, e.unpack(bound, order.words), e.cast(first, kinds[3], types.boolean))
        return order.packed(e, [buffered])

    return emit


@emitted(types.void)
def flush(e, room, *, choice_of: TopKBuffer):
    """`flush(room)`: the first slots hold the best entries, sorted."""
    held = e.builder.load(choice_of.counter(e, room))
    choice_of.order.wait(e)
    choice_of.flush(e, room, held)
