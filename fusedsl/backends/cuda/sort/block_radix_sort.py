"""Radix sort of a row that one block holds: its words go through shared memory once for each digit.

A thread holds the words that its warp's lanes take in turn, so that the order of the warps, of their turns and of the
lanes is that of the row (CUB: BlockRadixSort, warp-striped).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....ir.types import DType, dtype
from ..compiler.numba_backend import I16, I32, I64, SHARED, Emitter, emitted, ir, numba_type, types
from ..tile.loops import looped
from ..tile.shuffle import WARP
from .block_radix_rank import BINS, DIGIT_BITS, DigitKeys, DigitRanks, lane_of, opaque, warp_of
from .sort_keys import Entry, KeyCodec
from .sort_method import STATIC_SHARED, block_radix_bytes

AT_ONCE = 4  # slots that a thread computes before it stores to them


@dataclass(frozen=True)
class BlockRadix:
    """Words of elements in a codec's order, and where a block has them: `size` of them, and maybe their columns."""

    codec: KeyCodec
    size: int
    positions: bool
    kind: DType  # has all elements: narrower than that of the codec, where they are loaded

    @property
    def keys(self) -> DigitKeys:
        return DigitKeys(self.kind, self.codec.descending)

    @property
    def word(self) -> ir.IntType:
        return self.keys.word

    @property
    def bytes(self) -> int:
        """Shared memory: words, columns, counters of each warp, totals."""
        return block_radix_bytes(self.size, self.codec.threads, self.word == I64, self.positions)

    # Where they are.

    def words_at(self, e: Emitter, room: ir.Value) -> ir.Value:
        return e.builder.inttoptr(room, self.word.as_pointer(SHARED))

    def columns_at(self, e: Emitter, room: ir.Value) -> ir.Value:
        behind = e.builder.add(room, I64(self.size * self.word.width // 8))
        return e.builder.inttoptr(behind, I16.as_pointer(SHARED))

    def ranks(self, e: Emitter, room: ir.Value) -> DigitRanks:
        b, threads = e.builder, self.codec.threads
        begin = self.size * (self.word.width // 8 + 2 * self.positions)
        counters = b.inttoptr(b.add(room, I64(begin)), I32.as_pointer(SHARED))
        return DigitRanks(e, threads, counters, b.gep(counters, [I32(threads // WARP * BINS)]))


def block_radix(codec: KeyCodec, size: int, positions: bool, key_name: str = "") -> BlockRadix:
    """The sort of a block's rows of up to `size` elements, of a multiple of 64 elements."""
    return BlockRadix(codec, size, positions, dtype(key_name) if key_name else codec.kind)


@emitted(types.int64)
def radix_room(e, *, sorter: BlockRadix):
    """`room()`: the address in shared memory."""
    if sorter.bytes > STATIC_SHARED:
        return e.builder.zext(e.dynamic_shared(), I64)
    return e.builder.ptrtoint(e.shared_array(I64, -(-sorter.bytes // 8)), I64)


def sort_row(sorter: BlockRadix) -> Callable:
    """`sort(room, values, start, limit)`: the words of the block's tiles are put in the room, in order."""
    codec, kind = sorter.codec, numba_type(sorter.codec.kind.name)

    @emitted(types.void)
    def emit(e, room, held, first, last, *, kinds):
        tile = codec.tile
        if isinstance(kinds[1], types.BaseTuple):
            elements = [e.cast(v, kinds[1].dtype, kind) for v in e.unpack(held, tile.count)]
        else:
            elements = [e.cast(held, kinds[1], kind)] * tile.count
        rooms = tile.valid_of(e, kinds[2], first, last)
        _store_tile(e, sorter, room, elements, rooms, first)
        _sort_words(e, sorter, room)

    return emit


def _store_tile(e: Emitter, sorter: BlockRadix, room: ir.Value, elements: list, rooms: list, first: ir.Value) -> None:
    """Words to the slots of their columns; what precedes an unaligned row comes behind it, and is missing."""
    b, tile, words = e.builder, sorter.codec.tile, sorter.words_at(e, room)
    begin = first if first.type == I32 else b.trunc(first, I32)
    for number, element in enumerate(elements):
        vector, within = divmod(number, tile.width)
        column = b.add(begin, I32(vector * tile.step + within))
        slot = b.select(b.icmp_signed("<", column, I32(0)), b.add(column, I32(sorter.size)), column)
        word, valid = sorter.keys.word_of(e, element), rooms[vector]
        if valid is not None:
            word = b.select(valid.has(b, within), word, sorter.keys.missing)
        b.store(word, b.gep(words, [slot]))


def _sort_words(e: Emitter, sorter: BlockRadix, room: ir.Value) -> None:
    """A pass for each digit, from the lowest: words are taken in order, and put where their digit belongs."""
    b, items, ranks = e.builder, sorter.codec.tile.count, sorter.ranks(e, room)
    keys, words, columns = sorter.keys, sorter.words_at(e, room), sorter.columns_at(e, room)
    first = b.add(b.mul(warp_of(e), I32(WARP * items)), lane_of(e))
    turns = [I32(k * WARP) for k in range(items)]
    own_words, own_columns = b.gep(words, [first]), b.gep(columns, [first])
    ranks.wait()
    held = [b.load(b.gep(own_words, [turn])) for turn in turns]
    held += _pairs(e, [b.add(first, turn) for turn in turns]) if sorter.positions else []
    more = lambda shift, *_: b.icmp_unsigned("<", shift, I32(DIGIT_BITS * keys.passes))  # noqa: E731
    with looped(e, [I32(0), *held], more) as (state, next_state):
        shift, *held = state
        ranks.count([keys.digit(e, word, shift) for word in held[:items]])
        ranks.wait()
        ranks.offsets()
        ranks.wait()
        for k in range(0, items, AT_ONCE):
            some = held[:items][k : k + AT_ONCE]
            slots = ranks.slots([keys.digit(e, opaque(e, word), shift) for word in some])
            for slot, word in zip(slots, some):
                b.store(word, b.gep(words, [slot]))
            if sorter.positions:
                for number, slot in enumerate(slots, k):
                    b.store(_half(e, held[items + number // 2], number % 2), b.gep(columns, [slot]))
        ranks.wait()
        next_state += [b.add(shift, I32(DIGIT_BITS))]
        next_state += [b.load(b.gep(own_words, [turn])) for turn in turns]
        if sorter.positions:
            next_state += _pairs(e, [b.zext(b.load(b.gep(own_columns, [turn])), I32) for turn in turns])


def _pairs(e: Emitter, columns: list[ir.Value]) -> list[ir.Value]:
    """Columns of 16 bits, two in a word."""
    b, pairs = e.builder, [columns[k : k + 2] for k in range(0, len(columns), 2)]
    return [b.or_(pair[0], b.shl(pair[1], I32(16))) if len(pair) == 2 else pair[0] for pair in pairs]


def _half(e: Emitter, pair: ir.Value, number: int) -> ir.Value:
    return e.builder.trunc(e.builder.lshr(pair, I32(16 * number)), I16)


@emitted(lambda sorter, each: sorter.codec.tuple_of(each))
def load_sorted(e, room, first, limit, *, sorter: BlockRadix, each: int):
    """`load(room, first, limit)`: the entries in slots first, first + threads … below `limit`."""
    codec = sorter.codec
    return codec.entries_from(e, each, first, limit, lambda slot: _entry_at(e, sorter, room, slot))


@emitted(lambda sorter: sorter.codec.tuple_of(1))
def load_sorted_entry(e, room, *, sorter: BlockRadix, rank: int):
    """`load(room)`: the entry in one slot."""
    codec = sorter.codec
    return codec.packed(e, [_entry_at(e, sorter, room, I32(rank))])


@emitted(lambda sorter: sorter.codec.tuple_of(1))
def load_sorted_entry_at(e, room, slot, *, sorter: BlockRadix):
    """`load(room, slot)`: the entry in the slot of this number."""
    codec = sorter.codec
    return codec.packed(e, [_entry_at(e, sorter, room, slot)])


def _entry_at(e: Emitter, sorter: BlockRadix, room: ir.Value, slot: ir.Value) -> Entry:
    b = e.builder
    word = b.load(b.gep(sorter.words_at(e, room), [slot]))
    column = b.load(b.gep(sorter.columns_at(e, room), [slot])) if sorter.positions else I16(0)
    return sorter.codec.entry(e, sorter.keys.element(e, word), b.zext(column, I64), None)
