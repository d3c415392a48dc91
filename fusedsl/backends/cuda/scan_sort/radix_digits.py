"""Radix sort of rows that blocks share, pass by pass: counts of a digit, places of its bins, a stable scatter.

A least-significant-digit sort (Knuth 5.2.5) of 8-bit digits. The words of a row are the bits of its elements, in two
halves of global memory: a pass reads one half and writes the other. Each block has a share of the row, a tile after
the other; within a tile, warps rank their elements by match.any (Merrill and Grimshaw 2011; CUB: block radix rank), and
the tile is put in order in shared memory, so that neighbours of a bin are stored together.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ....ir.types import DType, dtype
from ..compiler.numba_backend import F32, F64, GLOBAL, I1, I32, I64, SHARED, VOID, Emitter, ir
from ..tile.element_registers import element_type
from ..tile.loops import repeated
from ..tile.shuffle import WARP

BINS = 256
THREADS = BINS  # of a block: each has a bin
WARPS = THREADS // WARP


@dataclass(frozen=True)
class RadixSorter:
    """The words of elements of a dtype, their digits, and where they are; `items` of a thread's tile at a time."""

    kind: DType
    descending: bool
    items: int
    positions: bool  # whether columns go along

    @property
    def bits(self) -> int:
        return 64 if self.kind.bits == 64 else 32

    @property
    def word(self) -> ir.IntType:
        return ir.IntType(self.bits)

    @property
    def tile(self) -> int:
        return THREADS * self.items

    # Words from elements, and back.

    def word_of(self, e: Emitter, value: ir.Value) -> ir.Value:
        """The bits of an element."""
        if self.kind.kind == "f":
            return e.builder.bitcast(value, self.word)
        return e.builder.zext(value, self.word) if value.type.width < self.bits else value

    def element(self, e: Emitter, word: ir.Value) -> ir.Value:
        """The inverse."""
        if self.kind.kind == "f":
            return e.builder.bitcast(word, F64 if self.bits == 64 else F32)
        kind = element_type(self.kind) if self.kind.kind != "b" else I1
        return e.builder.trunc(word, kind) if kind.width < self.bits else word

    def digit(self, e: Emitter, word: ir.Value, turn: ir.Value) -> ir.Value:
        """The digit of a word's key that a turn sorts by: an int32."""
        b = e.builder
        key = self._key(e, word)
        shift = b.shl(turn, I32(3))
        digit = b.and_(b.lshr(key, b.zext(shift, I64) if self.bits == 64 else shift), self.word(BINS - 1))
        return b.trunc(digit, I32) if self.bits == 64 else digit

    def _key(self, e: Emitter, word: ir.Value) -> ir.Value:
        """An unsigned number in the wanted order: -0.0 is 0.0, and NaN is larger than every number."""
        b, size = e.builder, self.word
        if self.kind.kind == "f":
            top = 1 << (self.bits - 1)
            raw = b.select(b.icmp_unsigned("==", word, size(top)), size(0), word)
            key = b.xor(raw, b.or_(b.ashr(raw, size(self.bits - 1)), size(top)))
            value = self.element(e, word)
            key = b.select(b.fcmp_unordered("uno", value, value), size(-1), key)
        else:
            key = b.xor(word, size(1 << (self.kind.bits - 1))) if self.kind.kind == "i" else word
        return b.not_(key) if self.descending else key

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


def radix_sorter(name: str, descending: bool, items: int, positions: bool) -> RadixSorter:
    """The sort of elements of this dtype."""
    return RadixSorter(dtype(name).compute, descending, items, positions)


def wide(e: Emitter, value: ir.Value) -> ir.Value:
    return value if value.type == I64 else e.builder.sext(value, I64)


def narrow(e: Emitter, value: ir.Value) -> ir.Value:
    return value if value.type == I32 else e.builder.trunc(value, I32)


def at(e: Emitter, base: ir.Value, index: ir.Value, kind: ir.IntType) -> ir.Value:
    """The address of an element of global memory."""
    b = e.builder
    place = b.add(base, b.mul(b.zext(index, I64), I64(kind.width // 8)))
    return b.inttoptr(place, kind.as_pointer(GLOBAL))


def load_if(e: Emitter, wanted: ir.Value, base: ir.Value, index: ir.Value, first: ir.Value, kind: ir.IntType):
    """The element at an index, or that at the `first` one where it is not wanted."""
    return e.builder.load(at(e, base, e.builder.select(wanted, index, first), kind))


def thread(e: Emitter) -> ir.Value:
    return e.special_register("tid.x")


def lane(e: Emitter) -> ir.Value:
    return e.builder.and_(thread(e), I32(WARP - 1))


def shared(e: Emitter, array: ir.Value, index: ir.Value) -> ir.Value:
    return e.builder.gep(array, [index])


def sync_warp(e: Emitter) -> None:
    e.call(VOID, "llvm.nvvm.bar.warp.sync", [I32(-1)])


@contextmanager
def tiles_of(e: Emitter, begin: ir.Value, end: ir.Value, tile: int) -> Iterator[ir.Value]:
    """The tiles of a block's share of a row."""
    b = e.builder
    more = lambda n: b.icmp_signed("<", n, end)  # noqa: E731
    with repeated(e, begin, more, lambda n: b.add(n, I32(tile))) as start:
        yield start


def shared_bytes(array: ir.Value, kind: ir.IntType, e: Emitter) -> ir.Value:
    """A shared array as one of another type."""
    return e.builder.bitcast(array, kind.as_pointer(SHARED))
