"""Intrinsics of a pass of the radix sort: count digits of a share, find the places of bins, scatter tile by tile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..compiler.numba_backend import I1, I32, Emitter, emitted, ir, numba_type, types
from ..tile.loops import looped, when
from ..tile.shuffle import WARP, shuffle
from ..tile.tile import Tile
from .radix_digits import (
    BINS,
    THREADS,
    WARPS,
    RadixSorter,
    at,
    lane,
    load_if,
    narrow,
    shared,
    shared_bytes,
    sync_warp,
    thread,
    tiles_of,
    wide,
)

COUNTS_AHEAD = 16  # counts of other blocks that a thread loads at once


def store_words(sorter: RadixSorter, tile: Tile) -> Callable:
    """`store(room, values, start, limit)`: the words of a thread's tile go to their columns in the first half."""
    kind = numba_type(sorter.kind.name)

    @emitted(types.void)
    def emit(e, room, held, start, limit, *, kinds):
        if isinstance(kinds[1], types.BaseTuple):
            elements = [e.cast(v, kinds[1].dtype, kind) for v in e.unpack(held, tile.count)]
        else:
            elements = [e.cast(held, kinds[1], kind)] * tile.count
        first = narrow(e, start)
        for number, (element, room_of) in enumerate(zip(elements, tile.valid_of(e, kinds[2], start, limit))):
            column = e.builder.add(first, I32(number * tile.step))
            valid = room_of.has(e.builder, 0) if room_of is not None else I1(1)
            with e.builder.if_then(valid):
                e.builder.store(sorter.word_of(e, element), at(e, room, column, sorter.word))

    return emit


def count_digits(sorter: RadixSorter) -> Callable:
    """`count(room, padded, half, turn, begin, end, counts)`: how many words of a share each bin has."""

    @emitted(types.void, 7)
    def emit(e, *given):
        room, padded, half, turn, begin, end, counts = given
        b, own = e.builder, thread(e)
        bins = e.shared_array(I32, BINS)
        e.barrier()  # the last pass has read them
        b.store(I32(0), shared(e, bins, own))
        e.barrier()
        words = sorter.words_at(e, room, padded, half)
        with tiles_of(e, begin, end, sorter.tile) as start:
            places = [b.add(b.add(start, own), I32(k * THREADS)) for k in range(sorter.items)]
            there = [b.icmp_signed("<", place, end) for place in places]
            loaded = [load_if(e, w, words, p, begin, sorter.word) for w, p in zip(there, places)]
            for wanted, word in zip(there, loaded):
                with b.if_then(wanted):
                    b.atomic_rmw("add", shared(e, bins, sorter.digit(e, word, turn)), I32(1), "monotonic")
        e.barrier()
        b.store(b.load(shared(e, bins, own)), at(e, counts, own, I32))

    return emit


def scatter_digits(sorter: RadixSorter) -> Callable:
    """`scatter(room, padded, half, moves, columns, turn, begin, end, counts, block, blocks)`: whether words moved.

    A share's words go behind those of lower digits, and of earlier shares with the same digit, from one half to the
    other; where all words of the row have one digit they stay. `counts` are those of the row's blocks.
    """

    @emitted(types.int32, 11)
    def emit(e, *given):
        room, padded, half, moves, columns, turn, begin, end, counts, block, blocks = given
        b = e.builder
        scan = BlockScan(e)
        before, total = _totals(e, counts, block, blocks)
        alone = b.zext(b.icmp_signed("==", total, narrow(e, columns)), I32)
        stays = b.icmp_unsigned("!=", e.call(I32, "llvm.nvvm.barrier0.or", [alone]), I32(0))
        first = b.add(scan.exclusive(total), before)
        with b.if_then(b.not_(stays)):
            TileScatter(e, sorter, scan, (room, padded, half), turn).run(begin, end, first, moves)
        return b.select(stays, I32(0), I32(1))

    return emit


def _totals(e: Emitter, counts: ir.Value, block: ir.Value, blocks: ir.Value) -> tuple[ir.Value, ir.Value]:
    """(words of the thread's bin in earlier blocks of the row, in all blocks)."""
    b, own = e.builder, thread(e)
    more = lambda n, *_: b.icmp_signed("<", n, blocks)  # noqa: E731
    with looped(e, [I32(0), I32(0), I32(0)], more) as (state, following):
        number, before, total = state
        numbers = [b.add(number, I32(k)) for k in range(COUNTS_AHEAD)]
        places = [b.add(b.mul(n, I32(BINS)), own) for n in numbers]
        there = [b.icmp_signed("<", n, blocks) for n in numbers]
        loaded = [load_if(e, w, counts, place, own, I32) for w, place in zip(there, places)]
        for n, wanted, count in zip(numbers, there, loaded):
            count = b.select(wanted, count, I32(0))
            before = b.add(before, b.select(b.icmp_signed("<", n, block), count, I32(0)))
            total = b.add(total, count)
        following += [b.add(number, I32(COUNTS_AHEAD)), before, total]
    return state[1], state[2]


@dataclass
class BlockScan:
    """Sums of what all threads before a thread of the block have."""

    e: Emitter

    def __post_init__(self) -> None:
        self.totals = self.e.shared_array(I32, WARPS)  # here, where it dominates all calls

    def exclusive(self, value: ir.Value) -> ir.Value:
        """All threads of the block call it together."""
        e, b, own, sums = self.e, self.e.builder, lane(self.e), value
        for distance in (1, 2, 4, 8, 16):
            other = shuffle(e, "up", sums, distance, WARP)
            sums = b.select(b.icmp_unsigned(">=", own, I32(distance)), b.add(sums, other), sums)
        warp = b.lshr(thread(e), I32(5))
        e.barrier()  # an earlier call has read the totals
        with b.if_then(b.icmp_unsigned("==", own, I32(WARP - 1))):
            b.store(sums, shared(e, self.totals, warp))
        e.barrier()
        before = b.sub(sums, value)
        for other in range(WARPS - 1):
            total = b.load(shared(e, self.totals, I32(other)))
            before = b.add(before, b.select(b.icmp_unsigned("<", I32(other), warp), total, I32(0)))
        return before


class TileScatter:
    """Puts the tiles of a share in the order of a digit, and stores each bin's words behind those before it."""

    def __init__(self, e: Emitter, sorter: RadixSorter, scan: BlockScan, rooms: tuple, turn: ir.Value) -> None:
        room, padded, half = rooms
        other = e.builder.xor(half, I32(1))
        self.e, self.sorter, self.scan, self.turn = e, sorter, scan, turn
        self.source, self.target = (sorter.words_at(e, room, padded, h) for h in (half, other))
        self.columns, self.columns_out = (sorter.positions_at(e, room, padded, h) for h in (half, other))
        self.own, self.warp = thread(e), e.builder.lshr(thread(e), I32(5))
        self.ranks = e.shared_array(I32, WARPS * BINS)  # of each warp: words of each digit so far, then their places
        self.shifts = e.shared_array(I32, BINS)  # distance from a position in the tile to that in the row
        self.words = e.shared_array(sorter.word, sorter.tile)  # the tile in order

    def run(self, begin: ir.Value, end: ir.Value, first: ir.Value, moves: ir.Value) -> None:
        """All tiles of a share; `first` is the next place of the thread's bin."""
        e, b = self.e, self.e.builder
        more = lambda start, _: b.icmp_signed("<", start, end)  # noqa: E731
        with looped(e, [begin, first], more) as (state, following):
            start, place = state
            for warp in range(WARPS):
                b.store(I32(0), shared(e, self.ranks, b.add(self.own, I32(warp * BINS))))
            e.barrier()
            places, words = self._load(start, end)
            ranks = [self._rank(self._digit(p, word, end)) for p, word in zip(places, words)]
            e.barrier()
            count = self._find_places(place)
            e.barrier()
            slots = [self._slot(rank) for rank in ranks]
            left = self._store_words(slots, words, b.sub(end, start))
            if self.sorter.positions:
                self._store_positions(slots, self._columns(places, moves, start, end), left)
            e.barrier()
            following += [b.add(start, I32(self.sorter.tile)), b.add(place, count)]

    def _load(self, start: ir.Value, end: ir.Value) -> tuple[list[ir.Value], list[ir.Value]]:
        """(columns, words) of a thread: those of a warp are neighbours."""
        e, b, items = self.e, self.e.builder, self.sorter.items
        first = b.add(b.add(start, b.mul(self.warp, I32(WARP * items))), lane(e))
        places = [b.add(first, I32(k * WARP)) for k in range(items)]
        there = [b.icmp_signed("<", place, end) for place in places]
        return places, [load_if(e, w, self.source, p, start, self.sorter.word) for w, p in zip(there, places)]

    def _digit(self, place: ir.Value, word: ir.Value, end: ir.Value) -> ir.Value:
        """The digit of a word; what is missing comes last."""
        b = self.e.builder
        there = b.icmp_signed("<", place, end)
        return b.select(there, self.sorter.digit(self.e, word, self.turn), I32(BINS - 1))

    def _rank_of(self, digit: ir.Value) -> ir.Value:
        return shared(self.e, self.ranks, self.e.builder.add(self.e.builder.mul(self.warp, I32(BINS)), digit))

    def _rank(self, digit: ir.Value) -> ir.Value:
        """A digit, and above it how many words of the warp with it come before; they are counted."""
        e, b = self.e, self.e.builder
        mask = e.asm(I32, "match.any.sync.b32 $0, $1, 0xffffffff;", "=r,r", [digit], effect=True)
        below = b.and_(mask, b.sub(b.shl(I32(1), lane(e)), I32(1)))
        address = self._rank_of(digit)
        before = b.load(address)
        sync_warp(e)
        with b.if_then(b.icmp_unsigned("==", below, I32(0))):
            b.store(b.add(before, e.call(I32, "llvm.ctpop.i32", [mask])), address)
        sync_warp(e)
        rank = b.add(before, e.call(I32, "llvm.ctpop.i32", [below]))
        return b.or_(b.shl(rank, I32(8)), digit)

    def _slot(self, rank: ir.Value) -> ir.Value:
        """The place of a word in the tile."""
        b = self.e.builder
        begin = b.load(self._rank_of(b.and_(rank, I32(BINS - 1))))
        return b.add(begin, b.lshr(rank, I32(8)))

    def _find_places(self, place: ir.Value) -> ir.Value:
        """Where the words of each warp with the thread's digit begin in the tile; how many there are in all."""
        e, b = self.e, self.e.builder
        addresses = [shared(e, self.ranks, b.add(self.own, I32(warp * BINS))) for warp in range(WARPS)]
        counts = [b.load(address) for address in addresses]
        total = counts[0]
        for count in counts[1:]:
            total = b.add(total, count)
        begin = following = self.scan.exclusive(total)
        for address, count in zip(addresses, counts):
            b.store(following, address)
            following = b.add(following, count)
        b.store(b.sub(place, begin), shared(e, self.shifts, self.own))
        return total

    def _store_words(self, slots: list[ir.Value], words: list[ir.Value], room: ir.Value) -> list[tuple]:
        """Store the tile's words; the (slot, whether it is there, place in the row) of what the thread stored."""
        e, b, left = self.e, self.e.builder, []
        for slot, word in zip(slots, words):
            b.store(word, shared(e, self.words, slot))
        e.barrier()
        for k in range(self.sorter.items):
            slot = b.add(self.own, I32(k * THREADS))
            there = b.icmp_signed("<", slot, room)
            word = b.load(shared(e, self.words, slot))
            shift = b.load(shared(e, self.shifts, self.sorter.digit(e, word, self.turn)))
            left.append((slot, there, b.add(shift, slot)))
            with b.if_then(there):
                b.store(word, at(e, self.target, left[-1][2], self.sorter.word))
        return left

    def _columns(self, places: list[ir.Value], moves: ir.Value, start: ir.Value, end: ir.Value) -> list[ir.Value]:
        """The columns of a thread's words: where they are, until words have moved."""
        e, b = self.e, self.e.builder

        def load() -> list[ir.Value]:
            there = [b.icmp_signed("<", place, end) for place in places]
            return [load_if(e, w, self.columns, p, start, I32) for w, p in zip(there, places)]

        return when(e, b.icmp_signed("!=", moves, I32(0)), places, load)

    def _store_positions(self, slots: list[ir.Value], held: list[ir.Value], left: list[tuple]) -> None:
        """The columns of the words go where the words went."""
        e, b = self.e, self.e.builder
        columns = shared_bytes(self.words, I32, e)
        e.barrier()
        for slot, column in zip(slots, held):
            b.store(column, shared(e, columns, slot))
        e.barrier()
        for slot, there, place in left:
            with b.if_then(there):
                b.store(b.load(shared(e, columns, slot)), at(e, self.columns_out, place, I32))


def ranked(sorter: RadixSorter, part: str, count: int) -> Callable:
    """`ranked(room, padded, half, moves, first, limit)`: "values" or "positions" of ranks first, first + threads …

    A `count` of 0 stands for one, as it is and not as a tile.
    """
    kind = numba_type(sorter.kind.name) if part == "values" else types.int64
    result = types.UniTuple(kind, count) if count else kind

    @emitted(result, 6)
    def emit(e, *given):
        room, padded, half, moves, *span = given
        b, (first, limit) = e.builder, (narrow(e, value) for value in span)
        places = [b.add(first, I32(k * THREADS)) for k in range(max(count, 1))]
        places = [b.select(b.icmp_signed("<", place, limit), place, I32(0)) for place in places]
        if part == "values":
            words = sorter.words_at(e, room, padded, half)
            return e.pack(result, [sorter.element(e, b.load(at(e, words, p, sorter.word))) for p in places])
        columns = sorter.positions_at(e, room, padded, half)
        load = lambda: [b.load(at(e, columns, p, I32)) for p in places]  # noqa: E731
        return e.pack(result, [wide(e, p) for p in when(e, b.icmp_signed("!=", moves, I32(0)), places, load)])

    return emit
