"""Intrinsics of onesweep: words with counts of all digits, and the sweep of a digit over the tiles of a row."""

from __future__ import annotations

from collections.abc import Callable

from ..compiler.numba_backend import I1, I32, I64, Emitter, emitted, ir, numba_type, types
from ..tile.loops import looped, repeated, when
from ..tile.shuffle import WARP
from ..tile.tile import Tile
from .block_radix_rank import BINS, DIGIT_BITS, DigitRanks, lane_of, opaque, warp_of
from .onesweep_lookback import BinLookback, RadixSorter, at, narrow, shared, thread, wide

AT_ONCE, AT_ONCE_WITH_COLUMNS = 3, 2  # slots that a thread computes before it stores to them


def store_words(sorter: RadixSorter, tile: Tile) -> Callable:
    """`store(room, values, start, limit)`: the words of a thread's tile go to their columns in the first half.

    The block counts their digits (see `clear_counts`).
    """
    kind = numba_type(sorter.kind.compute.name)

    @emitted(types.void)
    def emit(e, room, held, start, limit, *, kinds):
        if isinstance(kinds[1], types.BaseTuple):
            elements = [e.cast(v, kinds[1].dtype, kind) for v in e.unpack(held, tile.count)]
        else:
            elements = [e.cast(held, kinds[1], kind)] * tile.count
        first, counters, keys = narrow(e, start), sorter.counters(e), sorter.keys
        for number, (element, room_of) in enumerate(zip(elements, tile.valid_of(e, kinds[2], start, limit))):
            column = e.builder.add(first, I32(number * tile.step))
            valid = room_of.has(e.builder, 0) if room_of is not None else I1(1)
            with e.builder.if_then(valid):
                word = keys.word_of(e, element)
                e.builder.store(word, at(e, room, column, sorter.word))
                for turn in range(keys.passes):
                    digit = keys.digit(e, word, I32(turn * DIGIT_BITS))
                    index = e.builder.add(digit, I32(turn * BINS))
                    e.builder.atomic_rmw("add", shared(e, counters, index), I32(1), "monotonic")

    return emit


@emitted(types.void)
def clear_counts(e, *, sorter: RadixSorter):
    """`clear()`: the block has counted no digit."""
    with _bins_of_all(e, sorter) as index:
        e.builder.store(I32(0), shared(e, sorter.counters(e), index))
    e.barrier()


@emitted(types.void)
def add_counts(e, counts, *, sorter: RadixSorter):
    """`add(counts)`: the block's counts of all digits are added to those of the row."""
    b = e.builder
    e.barrier()
    with _bins_of_all(e, sorter) as index:
        count = b.load(shared(e, sorter.counters(e), index))
        with b.if_then(b.icmp_unsigned("!=", count, I32(0))):
            b.atomic_rmw("add", at(e, counts, index, I32), count, "monotonic")


@emitted(types.void)
def clear_states(e, states, block, blocks, tiles, *, sorter: RadixSorter):
    """`clear(states, block, blocks, tiles)`: the block's tiles have left nothing in the first states of a row."""
    b, own = e.builder, thread(e)
    more = lambda tile: b.icmp_signed("<", tile, tiles)  # noqa: E731
    has_bin = b.icmp_unsigned("<", own, I32(BINS))
    with b.if_then(has_bin), repeated(e, block, more, lambda tile: b.add(tile, blocks)) as tile:
        b.store(I32(0), at(e, states, b.add(b.mul(tile, I32(BINS)), own), I32))


@emitted(types.void)
def clear_total(e, counts, turn, *, sorter: RadixSorter):
    """`clear(counts, turn)`: the row's counts of a digit are 0 again."""
    b, own = e.builder, thread(e)
    with b.if_then(b.icmp_unsigned("<", own, I32(BINS))):
        b.store(I32(0), at(e, counts, b.add(b.mul(turn, I32(BINS)), own), I32))


def _bins_of_all(e: Emitter, sorter: RadixSorter):
    """The bins of all digits, one for each thread at a time."""
    b, count = e.builder, sorter.keys.passes * BINS
    more = lambda n: b.icmp_unsigned("<", n, I32(count))  # noqa: E731
    return repeated(e, thread(e), more, lambda n: b.add(n, I32(sorter.threads)))


@emitted(types.int32, 11)
def sweep_digit(e, *given, sorter: RadixSorter):
    """`sweep(room, padded, half, moves, columns, turn, counts, states, tiles, block, blocks)`: whether words moved.

    The row's words go behind those of lower digits, and of earlier ones with the same digit, from one half to the
    other; where all have one digit they stay. `counts` are those of all the row's digits.
    """
    room, padded, half, moves, columns, turn, counts, states, tiles, block, blocks = given
    b, ranks = e.builder, DigitRanks(e, sorter.threads, sorter.counters(e), sorter.totals(e))
    own = b.add(b.mul(turn, I32(BINS)), ranks.first_bin())
    total = b.load(at(e, counts, own, I32))
    alone = b.zext(b.icmp_signed("==", total, narrow(e, columns)), I32)
    stays = b.icmp_unsigned("!=", e.call(I32, "llvm.nvvm.barrier0.or", [alone]), I32(0))
    with b.if_then(b.not_(stays)):
        has_bin = b.icmp_unsigned("<", thread(e), I32(BINS))
        first = ranks.before(total)
        with b.if_then(has_bin):  # threads store and load their own
            b.store(first, shared(e, sorter.begins(e), thread(e)))
        e.barrier()  # the totals have been read
        lookback = BinLookback(e, states, narrow(e, tiles), moves, blocks)
        sweep = Sweep(e, sorter, (room, padded, half), b.shl(turn, I32(3)), ranks, lookback)
        sweep.run(narrow(e, columns), moves, block)
    return b.select(stays, I32(0), I32(1))


class Sweep:
    """Puts the tiles of a row in the order of a digit, and stores each bin's words behind those before it."""

    def __init__(self, e: Emitter, sorter: RadixSorter, rooms: tuple, shift: ir.Value, ranks, lookback) -> None:
        room, padded, half = rooms
        other = e.builder.xor(half, I32(1))
        self.e, self.sorter, self.keys, self.shift = e, sorter, sorter.keys, shift
        self.ranks, self.lookback = ranks, lookback
        self.source, self.target = (sorter.words_at(e, room, padded, h) for h in (half, other))
        self.columns, self.columns_out = (sorter.positions_at(e, room, padded, h) for h in (half, other))
        self.own, self.words, self.shifts = thread(e), sorter.shared_words(e), sorter.shifts(e)

    def run(self, columns: ir.Value, moves: ir.Value, block: ir.Value) -> None:
        """The block's tiles."""
        e, b, tiles = self.e, self.e.builder, self.lookback.tiles
        more = lambda tile, _: b.icmp_signed("<", tile, tiles)  # noqa: E731
        with looped(e, [block, I32(0)], more) as (state, next_state):
            tile, carried = state
            start = b.mul(tile, I32(self.sorter.tile))
            room = b.sub(columns, start)
            words = self._load(self.source, self.sorter.word, start, room)
            self.ranks.count([self.keys.digit(e, word, self.shift) for word in words])
            e.barrier()
            begins, totals = self.ranks.offsets()
            self.lookback.publish_partial(tile, totals[0])
            held = self._columns(moves, start, room) if self.sorter.positions else []
            e.barrier()
            self._store_sorted_words(words, held)
            before = self.lookback.before(tile, totals[0], carried)
            with b.if_then(b.icmp_unsigned("<", self.own, I32(BINS))):
                first = b.load(shared(e, self.sorter.begins(e), self.own))
                b.store(b.sub(b.add(first, before), begins[0]), shared(e, self.shifts, self.own))
            e.barrier()
            self._store(room)
            e.barrier()
            next_state += [b.add(tile, self.lookback.blocks), b.add(before, totals[0])]

    def _first(self) -> ir.Value:
        """Where the thread's first word is in a tile: those of a warp are neighbours."""
        b = self.e.builder
        return b.add(b.mul(warp_of(self.e), I32(WARP * self.sorter.items)), lane_of(self.e))

    def _load(self, source: ir.Value, kind: ir.IntType, start: ir.Value, room: ir.Value) -> list[ir.Value]:
        """A thread's elements of a tile; what is missing is all ones."""
        e, b, first, size = self.e, self.e.builder, self._first(), kind.width // 8
        base, left = b.ptrtoint(at(e, source, b.add(start, first), kind), I64), b.sub(room, first)
        text = (
            "{{\n.reg .pred p;\nsetp.gt.s32 p, $2, {turn};\nmov.b{bits} $0, -1;\n"
            "@p ld.global.b{bits} $0, [$1+{bytes}];\n}}"
        )
        letter, loaded = "l" if kind == I64 else "r", []
        for turn in range(0, WARP * self.sorter.items, WARP):
            piece = text.format(turn=turn, bits=kind.width, bytes=turn * size)
            loaded.append(e.asm(kind, piece, f"={letter},l,r", [base, left], side_effect=True))
        return loaded

    def _store_sorted_words(self, words: list[ir.Value], columns: list[ir.Value]) -> None:
        """Put the words, and their columns, where they belong in the tile."""
        e, b, shared_columns = self.e, self.e.builder, self.sorter.shared_columns(self.e)
        at_once = AT_ONCE if not columns else AT_ONCE_WITH_COLUMNS if e.cc >= (9, 0) else 1  # as registers last
        for k in range(0, len(words), at_once):
            some = words[k : k + at_once]
            slots = self.ranks.slots([self.keys.digit(e, opaque(e, word), self.shift) for word in some])
            for slot, word in zip(slots, some):
                b.store(word, shared(e, self.words, slot))
            for slot, column in zip(slots, columns[k : k + at_once]):
                b.store(column, shared(e, shared_columns, slot))

    def _store(self, room: ir.Value) -> None:
        """The tile's words and columns are stored to their bins in the row."""
        e, b, threads, size = self.e, self.e.builder, self.sorter.threads, self.sorter.word
        words = shared(e, self.words, self.own)
        columns = shared(e, self.sorter.shared_columns(e), self.own)
        for k in range(self.sorter.items):
            slot, turn = b.add(self.own, I32(k * threads)), I32(k * threads)
            word = b.load(b.gep(words, [turn]))
            index = b.add(b.load(shared(e, self.shifts, self.keys.digit(e, word, self.shift))), slot)
            with b.if_then(b.icmp_signed("<", slot, room)):
                b.store(word, at(e, self.target, index, size))
                if self.sorter.positions:
                    b.store(b.load(b.gep(columns, [turn])), at(e, self.columns_out, index, I32))

    def _columns(self, moves: ir.Value, start: ir.Value, room: ir.Value) -> list[ir.Value]:
        """The columns of a thread's words: where they are, until words have moved."""
        b, first = self.e.builder, self.e.builder.add(start, self._first())
        slots = [b.add(first, I32(k * WARP)) for k in range(self.sorter.items)]
        moved = b.icmp_signed("!=", moves, I32(0))
        return when(self.e, moved, slots, lambda: self._load(self.columns, I32, start, room))


def ranked(sorter: RadixSorter, part: str, count: int) -> Callable:
    """`ranked(room, padded, half, moves, first, limit)`: "values" or "positions" of ranks first, first + threads …

    A `count` of 0 stands for one, as it is and not as a tile.
    """
    kind = numba_type(sorter.kind.compute.name) if part == "values" else types.int64
    result = types.UniTuple(kind, count) if count else kind

    @emitted(result, 6)
    def emit(e, *given):
        room, padded, half, moves, *span = given
        b, (first, limit) = e.builder, (narrow(e, value) for value in span)
        ranks = [b.add(first, I32(k * sorter.threads)) for k in range(max(count, 1))]
        ranks = [b.select(b.icmp_signed("<", rank, limit), rank, I32(0)) for rank in ranks]
        if part == "values":
            words = sorter.words_at(e, room, padded, half)
            return e.pack(result, [sorter.keys.element(e, b.load(at(e, words, p, sorter.word))) for p in ranks])
        columns = sorter.positions_at(e, room, padded, half)
        load = lambda: [b.load(at(e, columns, p, I32)) for p in ranks]  # noqa: E731
        return e.pack(result, [wide(e, p) for p in when(e, b.icmp_signed("!=", moves, I32(0)), ranks, load)])

    return emit
