"""Bitonic sort, and selection of the first few in rounds, of a row that one thread group holds."""

from __future__ import annotations

from collections.abc import Callable

from ..compiler.numba_backend import I32, I64, SHARED, Emitter, emitted, intrinsic, ir, numba_type, types
from ..tile.shuffle import WARP, shuffle
from .sort_keys import Entry, KeyCodec, in_order, sort_in_registers


@emitted(lambda order_of: order_of.tuple_of(order_of.tile.count))
def make_entries(e, held, first, last, *, kinds, order_of: KeyCodec):
    """`make_entries(values, start, limit)`: the entries of a thread's tile."""
    tile, kind = order_of.tile, numba_type(order_of.kind.name)
    if isinstance(kinds[0], types.BaseTuple):
        elements = [e.cast(v, kinds[0].dtype, kind) for v in e.unpack(held, tile.count)]
    else:
        elements = [e.cast(held, kinds[0], kind)] * tile.count
    rooms, entries = tile.valid_of(e, kinds[1], first, last), []
    begin = first if first.type == I64 else e.builder.sext(first, I64)
    for number, value in enumerate(elements):
        vector, within = divmod(number, tile.width)
        room = rooms[vector]
        in_bounds = room.has(e.builder, within) if room is not None else None
        column = e.builder.add(begin, I64(vector * tile.step + within))
        entries.append(order_of.entry(e, value, column, in_bounds))
    return order_of.packed(e, entries)


def values_of(order_of: KeyCodec, count: int) -> Callable:
    """`values(entries)`: the elements of that many entries, as a tile; of one entry, the element."""
    kind = numba_type(order_of.kind.name)
    return _decoded(order_of, count, kind, order_of.value)


def columns_of(order_of: KeyCodec, count: int) -> Callable:
    """`columns(entries)`: the columns of that many entries as a tile of int64; of one entry, the column."""
    return _decoded(order_of, count, types.int64, order_of.column)


@emitted(lambda count, kind: types.UniTuple(kind, count) if count else kind)
def _decoded(e, held, *, order_of: KeyCodec, count: int, kind: types.Type, decode: Callable):
    entries = order_of.entries(e, held, max(count, 1))
    return [decode(e, entry) for entry in entries]


def select_best(order_of: KeyCodec, count: int, each: int, ranks: tuple[int, ...] = ()) -> Callable:
    """`best(entries)`: (the ranks that the thread holds: lane, lane + threads …; then some ranks, for all threads).

    Each thread sorts its own entries; then the best of the threads' first entries is taken out, `count` times. The
    thread group is a warp or a part of one.
    """
    held = order_of.tuple_of(each)
    result = types.Tuple.from_types([held, *[order_of.tuple_of(1)] * len(ranks)])

    def rule(_):
        def emit(e, value):
            b = e.builder
            left = sort_in_registers(e, order_of, order_of.entries(e, value, order_of.tile.count), count)
            best, picked, lane = [order_of.empty() for _ in range(each)], {}, order_of.lane(e)
            for turn in range(count):
                winner, won = _team_first(e, order_of, left[0])
                own = b.icmp_unsigned("==", lane, I32(turn % order_of.threads))
                slot = turn // order_of.threads
                best[slot] = [b.select(own, new, old) for new, old in zip(winner, best[slot])]
                picked[turn] = winner
                following = [*left[1:], order_of.empty()]
                left = [[b.select(won, new, old) for new, old in zip(x, y)] for x, y in zip(following, left)]
                left = left[: max(1, count - turn - 1)]
            parts = [order_of.packed(e, best), *(order_of.packed(e, [picked[p]]) for p in ranks)]
            return e.pack(result, parts)

        return result, emit

    return intrinsic(1)(rule)


def _team_first(e: Emitter, order_of: KeyCodec, entry: Entry) -> tuple[Entry, ir.Value]:
    """(the first entry of all threads of the group, in each of them; whether it is this thread's)."""
    b = e.builder
    if order_of.threads == WARP and order_of.words == 1 and e.cc >= (8, 0):
        key, tag = b.trunc(b.lshr(entry[0], I64(32)), I32), b.trunc(entry[0], I32)
        best_key = _warp_least(e, key)
        best_tag = _warp_least(e, b.select(b.icmp_unsigned("==", key, best_key), tag, I32(-1)))
        won = b.and_(b.icmp_unsigned("==", key, best_key), b.icmp_unsigned("==", tag, best_tag))
        return [b.or_(b.shl(b.zext(best_key, I64), I64(32)), b.zext(best_tag, I64))], won
    first, distance = entry, order_of.threads // 2
    while distance:
        other = [shuffle(e, "bfly", word, distance, order_of.threads) for word in first]
        first, distance = order_of.first(e, first, other), distance // 2
    won = b.icmp_unsigned("==", entry[-1], first[-1])
    if order_of.words == 2:
        won = b.and_(won, b.icmp_unsigned("==", entry[0], first[0]))
    return first, won


def _warp_least(e: Emitter, value: ir.Value) -> ir.Value:
    return e.asm(I32, "redux.sync.min.u32 $0, $1, 0xffffffff;", "=r,r", [value], side_effect=True)


@emitted(types.int64)
def sort_smem(e, *, order_of: KeyCodec, size: int, teams: int = 1):
    """`room()`: the address of `size` slots in shared memory for the thread group, and of a counter behind them."""
    stride = size * order_of.words + 1
    b = e.builder
    start = b.ptrtoint(e.shared_array(I64, stride * teams), I64)
    if teams == 1:
        return start
    thread_group = b.lshr(e.special_register("tid.x"), I32(order_of.threads.bit_length() - 1))
    return b.add(start, b.mul(b.zext(thread_group, I64), I64(8 * stride)))


@emitted(types.void)
def sort_tile(e, room, value, *, order_of: KeyCodec, size: int):
    """`sort(room, entries)`: sort the tiles of the thread group in `size` slots of shared memory from `room` on."""
    b, tile, lane = e.builder, order_of.tile, order_of.lane(e)
    for number, entry in enumerate(order_of.entries(e, value, tile.count)):
        vector, within = divmod(number, tile.width)
        slot = b.add(b.mul(lane, I32(tile.width)), I32(vector * tile.width * order_of.threads + within))
        order_of.put(e, room, slot, entry)
    order_of.clear(e, room, I32(tile.count * order_of.threads), I32(size))
    order_of.wait(e)
    order_of.sort(e, room, I32(size))


@emitted(types.void)
def sort_warp(e, room, value, *, codec: KeyCodec, size: int):
    """`sort(room, entries)`: sort the tiles of a warp by a bitonic network in registers, then store them to `room`.

    Entry i is held by thread i // items, as its entry i % items.
    The first step of each merge has partners mirrored, so that every step puts the lower entry first (Batcher 1968).
    """
    b, items = e.builder, size // codec.threads
    entries = codec.entries(e, value, codec.tile.count)
    entries += [codec.empty()] * (items - len(entries))
    first = b.mul(codec.lane(e), I32(items))
    for k, entry in enumerate(_sorted(e, codec, entries, size)):
        codec.put(e, room, b.add(first, I32(k)), entry)
    codec.wait(e)


def _sorted(e: Emitter, codec: KeyCodec, entries: list[Entry], size: int) -> list[Entry]:
    half = 1
    while half < size:
        entries, gap = _step(e, codec, entries, 2 * half - 1, half), half // 2
        while gap:
            entries, gap = _step(e, codec, entries, gap, gap), gap // 2
        half *= 2
    return entries


def _step(e: Emitter, codec: KeyCodec, entries: list[Entry], mask: int, high: int) -> list[Entry]:
    """One step: compare and exchange entries whose numbers differ in `mask`; the lower goes where bit `high` is 0."""
    items, entries = len(entries), list(entries)
    within, lanes = mask % items, mask // items
    if not lanes:
        for k in range(items):
            if not k & high:
                entries[k], entries[k ^ within] = in_order(e, codec, entries[k], entries[k ^ within])
        return entries
    b = e.builder
    lower = b.icmp_unsigned("==", b.and_(codec.lane(e), I32(high // items)), I32(0))
    others = [[shuffle(e, "bfly", word, lanes, codec.threads) for word in entries[k ^ within]] for k in range(items)]
    return [_compare_exchange(e, codec, lower, x, y) for x, y in zip(entries, others)]


def _compare_exchange(e: Emitter, codec: KeyCodec, lower: ir.Value, own: Entry, other: Entry) -> Entry:
    """The lower entry of two if `lower`, else the upper one."""
    b = e.builder
    keep = b.icmp_unsigned("==", codec.less(e, own, other), lower)
    return [b.select(keep, x, y) for x, y in zip(own, other)]


def load_entries(order_of: KeyCodec, each: int, space: int = SHARED) -> Callable:
    """`load_entries(room, first, limit)`: the entries in slots first, first + threads … below `limit`."""

    @emitted(order_of.tuple_of(each))
    def emit(e, room, first, limit):
        return order_of.entries_from(e, each, first, limit, lambda slot: order_of.get(e, room, slot, space))

    return emit


@emitted(lambda order_of: order_of.tuple_of(1))
def load_entry(e, room, *, order_of: KeyCodec, rank: int, space: int = SHARED):
    """`load_entry(room)`: the entry in one slot."""
    return order_of.packed(e, [order_of.get(e, room, I32(rank), space)])


@emitted(lambda order_of: order_of.tuple_of(1))
def load_entry_at(e, room, rank, *, order_of: KeyCodec, space: int = SHARED):
    """`load_entry(room, rank)`: the entry in the slot of this number."""
    return order_of.packed(e, [order_of.get(e, room, rank, space)])
