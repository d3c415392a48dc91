"""Sort keys: row elements as unsigned words that ascend in the wanted order (CUB: twiddling), in registers and slots.

An entry is an element's key above its tag (its column, and whether it is -0.0): entries differ, and the lower column
comes first among equals. A missing element is all ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ....ir.types import DType, dtype
from ..compiler.numba_backend import F32, F64, I32, I64, SHARED, VOID, Emitter, ir, types
from ..tile.element_registers import element_type
from ..tile.loops import repeated
from ..tile.shuffle import WARP
from ..tile.thread_group import ThreadGroup
from ..tile.tile import Tile

Entry = list[ir.Value]  # one 64-bit word (key above tag), or two (64-bit keys)
ONES = I64(-1)


@dataclass(frozen=True)
class KeyCodec:
    """Encodes elements of a dtype as sort keys, and decodes them; loads, stores and sorts entries."""

    kind: DType
    descending: bool
    tile: Tile
    thread_group: ThreadGroup
    wide: bool = False  # tags do not fit in a word beside the key

    @property
    def words(self) -> int:
        return 2 if self.kind.bits == 64 or self.wide else 1

    def tuple_of(self, count: int) -> types.UniTuple:
        return types.UniTuple(types.uint64, count * self.words)

    def entries(self, e: Emitter, value: ir.Value, count: int) -> list[Entry]:
        words = e.unpack(value, count * self.words)
        return [words[k : k + self.words] for k in range(0, len(words), self.words)]

    def packed(self, e: Emitter, entries: Sequence[Entry]) -> ir.Value:
        return e.pack(self.tuple_of(len(entries)), [word for entry in entries for word in entry])

    def entries_from(
        self, e: Emitter, each: int, first: ir.Value, limit: ir.Value, entry_at: Callable[[ir.Value], Entry]
    ) -> ir.Value:
        """The entries in slots first, first + threads … below `limit`; ones beyond."""
        b, entries = e.builder, []
        for k in range(each):
            slot = b.add(first, first.type(k * self.threads))
            in_bounds = b.icmp_signed("<", slot, limit)
            entry = entry_at(b.select(in_bounds, slot, slot.type(0)))
            entries.append([b.select(in_bounds, word, ONES) for word in entry])
        return self.packed(e, entries)

    # Entries from elements, and back.

    def entry(self, e: Emitter, value: ir.Value, column: ir.Value, there: ir.Value | None) -> Entry:
        """The entry of an element in a column."""
        b = e.builder
        key, below = self.key_of(e, value)
        tag = b.or_(b.shl(column, I64(1)), b.zext(below, I64) if below is not None else I64(0))
        words = [key, tag] if self.words == 2 else [b.or_(b.shl(key, I64(32)), tag)]
        return words if there is None else [b.select(there, word, ONES) for word in words]

    def key_of(self, e: Emitter, value: ir.Value) -> tuple[ir.Value, ir.Value | None]:
        """(the value as an ascending unsigned number in 64 bits, whether it is -0.0).

        NaN is above every number, by the order that `sort_nodes` of ir/scans_sorts.py says.
        """
        b, kind = e.builder, self.kind
        bits = 64 if kind.bits == 64 else 32
        word, top = ir.IntType(bits), 1 << bits - 1
        below = None
        if kind.kind == "f":
            raw = b.bitcast(value, word)
            below = b.icmp_unsigned("==", raw, word(top))
            raw = b.select(below, word(0), raw)
            flipped = b.xor(raw, b.or_(b.ashr(raw, word(bits - 1)), word(top)))
            key = b.select(b.fcmp_unordered("uno", value, value), word(-1), flipped)
        elif kind.kind == "i":
            key = b.xor(b.sext(value, word) if value.type.width < bits else value, word(top))
        else:
            key = b.zext(value, word) if value.type.width < bits else value
        key = b.not_(key) if self.descending else key
        return (key if bits == 64 else b.zext(key, I64)), below

    def value(self, e: Emitter, entry: Entry) -> ir.Value:
        """The element of an entry."""
        b, kind = e.builder, self.kind
        bits = 64 if kind.bits == 64 else 32
        word, top = ir.IntType(bits), 1 << bits - 1
        key = b.lshr(entry[0], I64(32)) if self.words == 1 else entry[0]
        key = key if bits == 64 else b.trunc(key, I32)
        key = b.not_(key) if self.descending else key
        if kind.kind == "f":
            negative = b.icmp_signed(">=", key, word(0))
            raw = b.xor(key, b.select(negative, word(-1), word(top)))
            below = b.trunc(entry[-1], ir.IntType(1))
            return b.bitcast(b.select(below, word(top), raw), F64 if bits == 64 else F32)
        kind_of = element_type(kind) if kind.kind != "b" else ir.IntType(1)
        key = b.xor(key, word(top)) if kind.kind == "i" else key
        return b.trunc(key, kind_of) if kind_of.width < bits else key

    def column(self, e: Emitter, entry: Entry) -> ir.Value:
        """The column of an entry, as an int64."""
        b = e.builder
        tag = entry[1] if self.words == 2 else b.and_(entry[0], I64(0xFFFFFFFF))
        return b.lshr(tag, I64(1))

    def less(self, e: Emitter, x: Entry, y: Entry) -> ir.Value:
        b = e.builder
        less = b.icmp_unsigned("<", x[-1], y[-1])
        if self.words == 1:
            return less
        same = b.icmp_unsigned("==", x[0], y[0])
        return b.select(same, less, b.icmp_unsigned("<", x[0], y[0]))

    def first(self, e: Emitter, x: Entry, y: Entry) -> Entry:
        less = self.less(e, x, y)
        return [e.builder.select(less, a, c) for a, c in zip(x, y)]

    def empty(self) -> Entry:
        return [ONES] * self.words

    # Entries in memory: slot after slot.

    def at(self, e: Emitter, room: ir.Value, slot: ir.Value, space: int) -> ir.Value:
        b = e.builder
        slot = slot if slot.type == I64 else b.sext(slot, I64)
        return b.inttoptr(b.add(room, b.mul(slot, I64(8 * self.words))), I64.as_pointer(space))

    def get(self, e: Emitter, room: ir.Value, slot: ir.Value, space: int = SHARED) -> Entry:
        pointer = self.at(e, room, slot, space)
        return [e.builder.load(e.builder.gep(pointer, [I32(k)])) for k in range(self.words)]

    def put(self, e: Emitter, room: ir.Value, slot: ir.Value, entry: Entry, space: int = SHARED) -> None:
        pointer = self.at(e, room, slot, space)
        for k, word in enumerate(entry):
            e.builder.store(word, e.builder.gep(pointer, [I32(k)]))

    @property
    def threads(self) -> int:
        return self.thread_group.threads

    def lane(self, e: Emitter) -> ir.Value:
        return e.builder.and_(e.special_register("tid.x"), I32(self.threads - 1))

    def wait(self, e: Emitter) -> None:
        """The thread group's threads see what each other has written."""
        if self.threads > WARP:
            e.barrier()
        else:
            e.call(VOID, "llvm.nvvm.bar.warp.sync", [I32(-1)])

    def sort(self, e: Emitter, room: ir.Value, size: ir.Value) -> None:
        """A bitonic sort of the first `size` slots, a power of two; before and after it the thread group waits.

        While partners stand up to a warp apart, the pairs of a warp are in slots that no other warp touches.
        """
        b, lane, pairs = e.builder, self.lane(e), e.builder.lshr(size, I32(1))
        doubled, halved = partial(b.shl, rhs=I32(1)), partial(b.lshr, rhs=I32(1))
        with repeated(e, I32(1), lambda half: b.icmp_unsigned("<", half, size), doubled) as half:
            mask = b.sub(b.shl(half, I32(1)), I32(1))
            with self._pairs(e, lane, pairs) as pair:
                index = self._spread(e, pair, half)
                self._exchange(e, room, index, b.xor(index, mask))
            self._meet(e, b.icmp_unsigned(">", half, I32(WARP)))
            with repeated(e, halved(half), lambda gap: b.icmp_unsigned(">", gap, I32(0)), halved) as gap:
                with self._pairs(e, lane, pairs) as pair:
                    index = self._spread(e, pair, gap)
                    self._exchange(e, room, index, b.add(index, gap))
                self._meet(e, b.icmp_unsigned(">", gap, I32(WARP)))
            self._meet(e, b.icmp_unsigned(">=", half, I32(WARP)))
        self.wait(e)

    def _meet(self, e: Emitter, all_of_them: ir.Value) -> None:
        """Warps wait for each other where they must, else each for its own threads."""
        if self.threads <= WARP:
            self.wait(e)
            return
        with e.builder.if_else(all_of_them) as (then, otherwise):
            with then:
                e.barrier()
            with otherwise:
                e.call(VOID, "llvm.nvvm.bar.warp.sync", [I32(-1)])

    def _pairs(self, e: Emitter, lane: ir.Value, pairs: ir.Value):
        b = e.builder
        return repeated(e, lane, lambda n: b.icmp_unsigned("<", n, pairs), lambda n: b.add(n, I32(self.threads)))

    def _spread(self, e: Emitter, pair: ir.Value, gap: ir.Value) -> ir.Value:
        """The lower slot of a pair: its number with a 0 where its slots differ."""
        b = e.builder
        low = b.and_(pair, b.sub(gap, I32(1)))
        return b.or_(b.shl(b.xor(pair, low), I32(1)), low)

    def _exchange(self, e: Emitter, room: ir.Value, low: ir.Value, high: ir.Value) -> None:
        x, y = self.get(e, room, low), self.get(e, room, high)
        with e.builder.if_then(self.less(e, y, x)):
            self.put(e, room, low, y)
            self.put(e, room, high, x)

    def clear(self, e: Emitter, room: ir.Value, first: ir.Value, limit: ir.Value) -> None:
        """Nothing in the slots from `first` to below `limit`."""
        b = e.builder
        start = b.add(first, self.lane(e))
        with repeated(e, start, lambda n: b.icmp_signed("<", n, limit), lambda n: b.add(n, I32(self.threads))) as slot:
            self.put(e, room, slot, self.empty())


def key_codec(name: str, descending: bool, tile: Tile, thread_group: ThreadGroup, wide: bool = False) -> KeyCodec:
    """The order of elements of this dtype, which the tiles of a thread group hold."""
    return KeyCodec(dtype(name).compute, descending, tile, thread_group, wide)


def sort_in_registers(e: Emitter, order_of: KeyCodec, entries: list[Entry], count: int) -> list[Entry]:
    """The first `count` of a thread's entries, in order: Batcher's network, less what does not reach them."""
    if count == 1:
        return [best_of_entries(e, order_of, entries)]
    there, size, half = len(entries), 1 << (len(entries) - 1).bit_length(), 1  # what lacks to a power of two stays last
    entries = list(entries)
    while half < size:
        gap = half
        while gap:
            for low in range(gap % half, size - gap, 2 * gap):
                for k in range(low, min(low + gap, size - gap)):
                    if k // (2 * half) == (k + gap) // (2 * half) and k + gap < there:
                        entries[k], entries[k + gap] = in_order(e, order_of, entries[k], entries[k + gap])
            gap //= 2
        half *= 2
    return entries[:count]


def in_order(e: Emitter, order_of: KeyCodec, x: Entry, y: Entry) -> tuple[Entry, Entry]:
    less, b = order_of.less(e, y, x), e.builder
    first = [b.select(less, q, p) for p, q in zip(x, y)]
    return first, [b.select(less, p, q) for p, q in zip(x, y)]


def best_of_entries(e: Emitter, order_of: KeyCodec, entries: list[Entry]) -> Entry:
    """The first of a thread's entries."""
    while len(entries) > 1:
        merged = [order_of.first(e, x, y) for x, y in zip(entries[::2], entries[1::2])]
        entries = merged + ([entries[-1]] if len(entries) % 2 else [])
    return entries[0]
