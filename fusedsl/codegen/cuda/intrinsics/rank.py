"""Orders of a row: entries that compare as unsigned words, the best of a team, sorting in shared and global memory.

An entry is an element's key (its value, mapped so that it ascends in the wanted order) above its tag (its column, and
whether it is -0.0): entries differ, and the lower column comes first among equals. What is not there is all ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ....ir.types import DType, dtype
from ..backend import F32, F64, I32, I64, SHARED, VOID, Emitter, intrinsic, ir, numba_type, types
from .fold import WARP, Team, shuffle
from .loops import repeated
from .memory import element_type
from .tile import Tile

Entry = list[ir.Value]  # one 64-bit word (key above tag), or two (64-bit keys)
ONES = I64(-1)


@dataclass(frozen=True)
class Order:
    """How elements of a dtype (as bodies compute with it) are put in order."""

    kind: DType
    descending: bool
    tile: Tile
    team: Team

    @property
    def words(self) -> int:
        return 2 if self.kind.bits == 64 else 1

    def tuple_of(self, count: int) -> types.UniTuple:
        return types.UniTuple(types.uint64, count * self.words)

    def entries(self, e: Emitter, value: ir.Value, count: int) -> list[Entry]:
        words = e.unpack(value, count * self.words)
        return [words[k : k + self.words] for k in range(0, len(words), self.words)]

    def packed(self, e: Emitter, found: Sequence[Entry]) -> ir.Value:
        return e.pack(self.tuple_of(len(found)), [word for entry in found for word in entry])

    # Entries from elements, and back.

    def entry(self, e: Emitter, value: ir.Value, column: ir.Value, there: ir.Value | None) -> Entry:
        """The entry of an element in a column."""
        b = e.builder
        key, below = self._key(e, value)
        tag = b.or_(b.shl(column, I64(1)), b.zext(below, I64) if below is not None else I64(0))
        words = [key, tag] if self.words == 2 else [b.or_(b.shl(key, I64(32)), tag)]
        return words if there is None else [b.select(there, word, ONES) for word in words]

    def _key(self, e: Emitter, value: ir.Value) -> tuple[ir.Value, ir.Value | None]:
        """(the value as an ascending unsigned number in 64 bits, whether it is -0.0)."""
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
        key = entry[0] if bits == 64 else b.trunc(b.lshr(entry[0], I64(32)), I32)
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
        found = b.icmp_unsigned("<", x[-1], y[-1])
        if self.words == 1:
            return found
        same = b.icmp_unsigned("==", x[0], y[0])
        return b.select(same, found, b.icmp_unsigned("<", x[0], y[0]))

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
        return self.team.threads

    def lane(self, e: Emitter) -> ir.Value:
        return e.builder.and_(e.special_register("tid.x"), I32(self.threads - 1))

    def wait(self, e: Emitter) -> None:
        """The team's threads see what each other has written."""
        if self.threads > WARP:
            e.barrier()
        else:
            e.call(VOID, "llvm.nvvm.bar.warp.sync", [I32(-1)])

    def sort(self, e: Emitter, room: ir.Value, size: ir.Value) -> None:
        """A bitonic sort of the first `size` slots, a power of two; before and after it the team waits.

        While partners stand up to a warp apart, the pairs of a warp are in slots that no other warp touches.
        """
        b, lane, pairs = e.builder, self.lane(e), e.builder.lshr(size, I32(1))
        doubled, halved = partial(b.shl, rhs=I32(1)), partial(b.lshr, rhs=I32(1))
        with repeated(e, I32(1), lambda half: b.icmp_unsigned("<", half, size), doubled) as half:
            mask = b.sub(b.shl(half, I32(1)), I32(1))
            with self._pairs(e, lane, pairs) as pair:
                place = self._spread(e, pair, half)
                self._exchange(e, room, place, b.xor(place, mask))
            self._meet(e, b.icmp_unsigned(">", half, I32(WARP)))
            with repeated(e, halved(half), lambda gap: b.icmp_unsigned(">", gap, I32(0)), halved) as gap:
                with self._pairs(e, lane, pairs) as pair:
                    place = self._spread(e, pair, gap)
                    self._exchange(e, room, place, b.add(place, gap))
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


def order(name: str, descending: bool, tile: Tile, team: Team) -> Order:
    """The order of elements of this dtype, which the tiles of a team hold."""
    return Order(dtype(name).compute, descending, tile, team)


def enter(order_of: Order) -> Callable:
    """`enter(values, start, limit)`: the entries of a thread's tile."""
    tile, kind = order_of.tile, numba_type(order_of.kind.name)

    def rule(values, start, limit):
        def emit(e, held, first, last):
            if isinstance(values, types.BaseTuple):
                elements = [e.cast(v, values.dtype, kind) for v in e.unpack(held, tile.count)]
            else:
                elements = [e.cast(held, values, kind)] * tile.count
            rooms, found = tile.room_of(e, start, first, last), []
            begin = first if first.type == I64 else e.builder.sext(first, I64)
            for number, value in enumerate(elements):
                vector, within = divmod(number, tile.width)
                room = rooms[vector]
                there = room.holds(e.builder, within) if room is not None else None
                column = e.builder.add(begin, I64(vector * tile.step + within))
                found.append(order_of.entry(e, value, column, there))
            return order_of.packed(e, found)

        return order_of.tuple_of(tile.count), emit

    return intrinsic(3)(rule)


def values_of(order_of: Order, count: int) -> Callable:
    """`values(entries)`: the elements of that many entries, as a tile; of one entry, the element."""
    kind = numba_type(order_of.kind.name)
    return _decoded(order_of, count, kind, order_of.value)


def columns_of(order_of: Order, count: int) -> Callable:
    """`columns(entries)`: the same for their columns, as int64."""
    return _decoded(order_of, count, types.int64, order_of.column)


def _decoded(order_of: Order, count: int, kind: types.Type, decode: Callable) -> Callable:
    result = types.UniTuple(kind, count) if count else kind

    def rule(_):
        def emit(e, held):
            entries = order_of.entries(e, held, max(count, 1))
            return e.pack(result, [decode(e, entry) for entry in entries])

        return result, emit

    return intrinsic(1)(rule)


def best(order_of: Order, count: int, each: int, places: tuple[int, ...] = ()) -> Callable:
    """`best(entries)`: (the places that the thread holds: lane, lane + threads …; then some places, for all threads).

    Each thread puts its own entries in order; then the best of their first entries is taken out `count` times. The
    team is a warp or a part of one.
    """
    held = order_of.tuple_of(each)
    result = types.Tuple.from_types([held, *[order_of.tuple_of(1)] * len(places)])

    def rule(_):
        def emit(e, value):
            b = e.builder
            left = local_order(e, order_of, order_of.entries(e, value, order_of.tile.count), count)
            kept, picked, lane = [order_of.empty() for _ in range(each)], {}, order_of.lane(e)
            for turn in range(count):
                winner, won = _team_first(e, order_of, left[0])
                mine = b.icmp_unsigned("==", lane, I32(turn % order_of.threads))
                slot = turn // order_of.threads
                kept[slot] = [b.select(mine, new, old) for new, old in zip(winner, kept[slot])]
                picked[turn] = winner
                following = [*left[1:], order_of.empty()]
                left = [[b.select(won, new, old) for new, old in zip(x, y)] for x, y in zip(following, left)]
                left = left[: max(1, count - turn - 1)]
            parts = [order_of.packed(e, kept), *(order_of.packed(e, [picked[p]]) for p in places)]
            return e.context.make_tuple(b, result, parts)

        return result, emit

    return intrinsic(1)(rule)


def local_order(e: Emitter, order_of: Order, entries: list[Entry], count: int) -> list[Entry]:
    """The first `count` of a thread's entries, in order: Batcher's network, less what does not reach them."""
    if count == 1:
        return [tree(e, order_of, entries)]
    there, size, half = len(entries), 1 << (len(entries) - 1).bit_length(), 1  # what lacks to a power of two stays last
    entries = list(entries)
    while half < size:
        gap = half
        while gap:
            for low in range(gap % half, size - gap, 2 * gap):
                for k in range(low, min(low + gap, size - gap)):
                    if k // (2 * half) == (k + gap) // (2 * half) and k + gap < there:
                        entries[k], entries[k + gap] = _in_order(e, order_of, entries[k], entries[k + gap])
            gap //= 2
        half *= 2
    return entries[:count]


def _in_order(e: Emitter, order_of: Order, x: Entry, y: Entry) -> tuple[Entry, Entry]:
    less, b = order_of.less(e, y, x), e.builder
    first = [b.select(less, q, p) for p, q in zip(x, y)]
    return first, [b.select(less, p, q) for p, q in zip(x, y)]


def tree(e: Emitter, order_of: Order, entries: list[Entry]) -> Entry:
    """The first of a thread's entries."""
    while len(entries) > 1:
        merged = [order_of.first(e, x, y) for x, y in zip(entries[::2], entries[1::2])]
        entries = merged + ([entries[-1]] if len(entries) % 2 else [])
    return entries[0]


def _team_first(e: Emitter, order_of: Order, entry: Entry) -> tuple[Entry, ir.Value]:
    """(the first of all threads of the team, in each of them; whether it is this thread's)."""
    b = e.builder
    if order_of.threads == WARP and order_of.words == 1 and e.cc >= (8, 0):
        key, tag = b.trunc(b.lshr(entry[0], I64(32)), I32), b.trunc(entry[0], I32)
        best_key = _warp_least(e, key)
        best_tag = _warp_least(e, b.select(b.icmp_unsigned("==", key, best_key), tag, I32(-1)))
        won = b.and_(b.icmp_unsigned("==", key, best_key), b.icmp_unsigned("==", tag, best_tag))
        return [b.or_(b.shl(b.zext(best_key, I64), I64(32)), b.zext(best_tag, I64))], won
    found, distance = entry, order_of.threads // 2
    while distance:
        other = [shuffle(e, "bfly", word, distance, order_of.threads) for word in found]
        found, distance = order_of.first(e, found, other), distance // 2
    won = b.icmp_unsigned("==", entry[-1], found[-1])
    if order_of.words == 2:
        won = b.and_(won, b.icmp_unsigned("==", entry[0], found[0]))
    return found, won


def _warp_least(e: Emitter, value: ir.Value) -> ir.Value:
    return e.asm(I32, "redux.sync.min.u32 $0, $1, 0xffffffff;", "=r,r", [value], effect=True)


def shared_room(order_of: Order, size: int, teams: int = 1) -> Callable:
    """`room()`: the address of `size` slots in shared memory for the thread's team, and of a counter behind them."""
    stride = size * order_of.words + 1

    def rule():
        def emit(e):
            b = e.builder
            start = b.ptrtoint(e.shared_array(I64, stride * teams), I64)
            if teams == 1:
                return start
            team = b.lshr(e.special_register("tid.x"), I32(order_of.threads.bit_length() - 1))
            return b.add(start, b.mul(b.zext(team, I64), I64(8 * stride)))

        return types.int64, emit

    return intrinsic(0)(rule)


def sort_tile(order_of: Order, size: int) -> Callable:
    """`sort(room, entries)`: the team's tiles in the room, in order; they have `size` slots together."""

    def rule(_, __):
        def emit(e, room, value):
            b, tile, lane = e.builder, order_of.tile, order_of.lane(e)
            for number, entry in enumerate(order_of.entries(e, value, tile.count)):
                vector, within = divmod(number, tile.width)
                slot = b.add(b.mul(lane, I32(tile.width)), I32(vector * tile.width * order_of.threads + within))
                order_of.put(e, room, slot, entry)
            order_of.clear(e, room, I32(tile.count * order_of.threads), I32(size))
            order_of.wait(e)
            order_of.sort(e, room, I32(size))

        return types.void, emit

    return intrinsic(2)(rule)


def take(order_of: Order, each: int, space: int = SHARED) -> Callable:
    """`take(room, first, limit)`: the entries in slots first, first + threads … below `limit`."""

    def rule(_, __, ___):
        def emit(e, room, first, limit):
            b, found = e.builder, []
            for k in range(each):
                slot = b.add(first, first.type(k * order_of.threads))
                there = b.icmp_signed("<", slot, limit)
                entry = order_of.get(e, room, b.select(there, slot, slot.type(0)), space)
                found.append([b.select(there, word, ONES) for word in entry])
            return order_of.packed(e, found)

        return order_of.tuple_of(each), emit

    return intrinsic(3)(rule)


def pick(order_of: Order, place: int, space: int = SHARED) -> Callable:
    """`pick(room)`: the entry in one slot."""

    def rule(_):
        return order_of.tuple_of(1), lambda e, room: order_of.packed(e, [order_of.get(e, room, I32(place), space)])

    return intrinsic(1)(rule)
