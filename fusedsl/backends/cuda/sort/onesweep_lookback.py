"""Onesweep: a radix sorter in memory, and the look-back of each bin over the tiles (Adinets and Merrill 2022).

A least-significant-digit sort (Knuth 5.2.5) of 8-bit digits. The words of a row are in two halves of global memory: a
pass reads one half and writes the other. All digits are counted as the words are made. In a pass a block takes tile
after tile of the row: it leaves how many words each bin has in the tile, adds up what the tiles before it left
(Merrill and Garland 2016: decoupled look-back), puts the tile in order in shared memory, and stores it bin by bin.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....ir.types import DType, dtype
from ..compiler.numba_backend import GLOBAL, I32, I64, SHARED, VOID, Emitter, ir
from ..tile.loops import looped
from ..tile.shuffle import WARP
from .block_radix_rank import BINS, DigitKeys

LOOKBACK = 4  # tiles whose counts a thread reads at once
PARTIAL, INCLUSIVE = 1 << 30, 2 << 30  # marks of a count: of the tile alone, of all tiles up to it
COUNT = PARTIAL - 1


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
        """The offset in the row of the first word of each bin."""
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
    return RadixSorter(dtype(name), descending, threads, items, positions)


def wide(e: Emitter, value: ir.Value) -> ir.Value:
    return value if value.type == I64 else e.builder.sext(value, I64)


def narrow(e: Emitter, value: ir.Value) -> ir.Value:
    return value if value.type == I32 else e.builder.trunc(value, I32)


def at(e: Emitter, base: ir.Value, index: ir.Value, kind: ir.IntType) -> ir.Value:
    """The address of an element of global memory."""
    b = e.builder
    address = b.add(base, b.mul(b.zext(index, I64), I64(kind.width // 8)))
    return b.inttoptr(address, kind.as_pointer(GLOBAL))


def thread(e: Emitter) -> ir.Value:
    return e.special_register("tid.x")


def shared(e: Emitter, array: ir.Value, index: ir.Value) -> ir.Value:
    return e.builder.gep(array, [index])


@dataclass
class BinLookback:
    """The counts that tiles leave of their bins, for the tiles behind them; those of the next pass are cleared."""

    e: Emitter
    states: ir.Value
    tiles: ir.Value
    moves: ir.Value  # passes whose words moved: these have one half of the states in turn
    blocks: ir.Value

    def _at(self, tile: ir.Value, other: bool = False) -> ir.Value:
        """The address of what a tile leaves of the thread's bin."""
        e, b = self.e, self.e.builder
        half = b.and_(b.xor(self.moves, I32(int(other))), I32(1))
        row = b.add(b.mul(half, self.tiles), tile)
        own = b.and_(thread(e), I32(BINS - 1))
        return b.ptrtoint(at(e, self.states, b.add(b.mul(row, I32(BINS)), own), I32), I64)

    def publish(self, tile: ir.Value, count: ir.Value, mark: ir.Value) -> None:
        """Store a count of the thread's bin, with what it counts, for the tiles behind this one."""
        text = "st.relaxed.gpu.global.b32 [$0], $1;"
        self.e.asm(VOID, text, "l,r", [self._at(tile), self.e.builder.or_(count, mark)], True)

    def publish_partial(self, tile: ir.Value, count: ir.Value) -> None:
        """The tile's own counts; nothing for the next pass."""
        e, b = self.e, self.e.builder
        with b.if_then(b.icmp_unsigned("<", thread(e), I32(BINS))):
            first = b.icmp_unsigned("==", tile, I32(0))
            self.publish(tile, count, b.select(first, I32(INCLUSIVE - (1 << 32)), I32(PARTIAL)))
            b.store(I32(0), b.inttoptr(self._at(tile, other=True), I32.as_pointer(1)))

    def before(self, tile: ir.Value, count: ir.Value, carried: ir.Value) -> ir.Value:
        """The words of the thread's bin in earlier tiles; those up to this one are left. `carried` are those of a
        block that is alone with its row."""
        e, b = self.e, self.e.builder
        alone = b.icmp_signed("==", self.blocks, I32(1))
        far = b.icmp_unsigned(">=", thread(e), I32(BINS))
        done = b.or_(b.or_(alone, far), b.icmp_unsigned("==", tile, I32(0)))
        start = [done, b.sub(tile, I32(1)), b.select(alone, carried, I32(0))]
        with looped(e, start, lambda done, *_: b.not_(done)) as (state, next_state):
            next_state += self._step(*state)
        inclusive = b.add(state[2], count)
        with b.if_then(b.not_(b.or_(alone, b.or_(far, b.icmp_unsigned("==", tile, I32(0)))))):
            self.publish(tile, inclusive, I32(INCLUSIVE - (1 << 32)))
        return state[2]

    def _step(self, done: ir.Value, last: ir.Value, total: ir.Value) -> list[ir.Value]:
        """Add what the next tiles before this one have left, as far as they have."""
        e, b = self.e, self.e.builder
        tiles = [b.sub(last, I32(k)) for k in range(LOOKBACK)]
        tiles = [b.select(b.icmp_signed(">=", tile, I32(0)), tile, I32(0)) for tile in tiles]
        text = "ld.relaxed.gpu.global.b32 $0, [$1];"
        seen = [e.asm(I32, text, "=r,l,~{memory}", [self._at(tile)], True) for tile in tiles]
        going = b.not_(done)
        for word in seen:
            taken = b.and_(going, b.icmp_unsigned(">=", word, I32(PARTIAL)))
            total = b.add(total, b.select(taken, b.and_(word, I32(COUNT)), I32(0)))
            last = b.sub(last, b.zext(taken, I32))
            ends = b.and_(taken, b.icmp_signed("<", word, I32(0)))
            done, going = b.or_(done, ends), b.and_(taken, b.not_(ends))
        return [done, last, total]
