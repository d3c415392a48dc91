"""Radix sort of rows that blocks share, one sweep for each digit (Adinets and Merrill 2022: Onesweep).

A least-significant-digit sort (Knuth 5.2.5) of 8-bit digits. The words of a row are in two halves of global memory: a
pass reads one half and writes the other. All digits are counted as the words are made. In a pass a block takes tile
after tile of the row: it leaves how many words each bin has in the tile, adds up what the tiles before it left
(Merrill and Garland 2016: decoupled look-back), puts the tile in order in shared memory, and stores it bin by bin.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....ir.types import DType, dtype
from ..compiler.numba_backend import GLOBAL, I32, I64, SHARED, Emitter, ir
from ..tile.shuffle import WARP
from .digit_ranks import BINS, DigitKeys


@dataclass(frozen=True)
class RadixSorter:
    """The words of elements of a dtype, and where they are; each of a block's threads has `items` of a tile."""

    kind: DType
    descending: bool
    threads: int
    items: int
    positions: bool  # whether columns go along

    @property
    def keys(self) -> DigitKeys:
        return DigitKeys(self.kind, self.descending)

    @property
    def word(self) -> ir.IntType:
        return self.keys.word

    @property
    def bits(self) -> int:
        return self.word.width

    @property
    def tile(self) -> int:
        return self.threads * self.items

    # Shared memory: the tile's words and columns, counters of each warp (first of all digits), what bins are moved by,
    # where they begin, totals.

    def shared_words(self, e: Emitter) -> ir.Value:
        return e.builder.inttoptr(e.builder.zext(e.dynamic_shared(), I64), self.word.as_pointer(SHARED))

    def shared_columns(self, e: Emitter) -> ir.Value:
        behind = e.builder.gep(self.shared_words(e), [I32(self.tile)])
        return e.builder.bitcast(behind, I32.as_pointer(SHARED))

    def counters(self, e: Emitter) -> ir.Value:
        return e.builder.gep(self.shared_columns(e), [I32(self.tile if self.positions else 0)])

    def shifts(self, e: Emitter) -> ir.Value:
        return e.builder.gep(self.counters(e), [I32(self.threads // WARP * BINS)])

    def begins(self, e: Emitter) -> ir.Value:
        """The place in the row of the first word of each bin."""
        return e.builder.gep(self.shifts(e), [I32(BINS)])

    def totals(self, e: Emitter) -> ir.Value:
        return e.builder.gep(self.begins(e), [I32(BINS)])

    # Words and positions in global memory.

    def words_at(self, e: Emitter, room: ir.Value, padded: ir.Value, half: ir.Value) -> ir.Value:
        """Where the words of a half are."""
        b = e.builder
        return b.add(room, b.mul(b.zext(half, I64), b.mul(padded, I64(self.bits // 8))))

    def positions_at(self, e: Emitter, room: ir.Value, padded: ir.Value, half: ir.Value) -> ir.Value:
        """Where the columns of a half's words are: behind both halves of words."""
        b = e.builder
        first = b.mul(padded, I64(self.bits // 4))
        return b.add(b.add(room, first), b.mul(b.zext(half, I64), b.mul(padded, I64(4))))


def radix_sorter(name: str, descending: bool, threads: int, items: int, positions: bool) -> RadixSorter:
    """The sort of elements of this dtype."""
    return RadixSorter(dtype(name).compute, descending, threads, items, positions)


def wide(e: Emitter, value: ir.Value) -> ir.Value:
    return value if value.type == I64 else e.builder.sext(value, I64)


def narrow(e: Emitter, value: ir.Value) -> ir.Value:
    return value if value.type == I32 else e.builder.trunc(value, I32)


def at(e: Emitter, base: ir.Value, index: ir.Value, kind: ir.IntType) -> ir.Value:
    """The address of an element of global memory."""
    b = e.builder
    place = b.add(base, b.mul(b.zext(index, I64), I64(kind.width // 8)))
    return b.inttoptr(place, kind.as_pointer(GLOBAL))


def thread(e: Emitter) -> ir.Value:
    return e.special_register("tid.x")


def shared(e: Emitter, array: ir.Value, index: ir.Value) -> ir.Value:
    return e.builder.gep(array, [index])
