"""Decoupled look-back: scans of rows that many blocks share, in one pass; tiles publish their states.

The look-back of Merrill and Garland (2016) in two levels, whose result does not depend on the order in which tiles
finish. A tile publishes its total. 32 tiles are a group: its total combines those of its tiles in a fixed tree. The
prefix of a group combines the totals of all groups before it one by one, from the first group or from the last one
whose prefix is published, with equal bits. A tile takes its number when it starts, so that earlier ones run or are
done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ..compiler.numba_backend import GLOBAL, I1, I32, I64, VOID, Emitter, emitted, ir, types
from ..tile.loops import looped, repeated, when
from ..tile.reduce import ReduceOp, State
from ..tile.shuffle import WARP, ballot_bits, shuffle
from ..tile.thread_group import ThreadGroup
from ..tile.tile import Tile
from .intrinsics import Scan, scanned
from .tile_states import TileStates

HEADER = 16  # bytes: the next tile's number, and how many are done
FENCE = "fence.acq_rel.gpu;"


@dataclass(frozen=True)
class Lookback:
    """The look-back of a tile by a block's first warp: `turn` is the tile's number in its row."""

    board: TileStates
    row: ir.Value
    turn: ir.Value
    tiles: ir.Value  # of a row
    base: ir.Value  # of the tiles' slots; those of the groups' totals and ends follow
    slots: ir.Value  # of all tiles

    def before(self, e: Emitter, total: State) -> State:
        """The state of the row's earlier tiles, in each lane, once they have left theirs."""
        b, board, rule = e.builder, self.board, self.board.rule
        lane = b.and_(e.special_register("tid.x"), I32(WARP - 1))
        first = b.icmp_unsigned("==", lane, I32(0))
        tile = b.add(b.mul(self.row, self.tiles), self.turn)
        with b.if_then(first):
            board.store(e, self.base, tile, total)
        turn, group = b.and_(self.turn, I32(WARP - 1)), b.lshr(self.turn, I32(5))
        groups = b.lshr(b.add(self.tiles, I32(WARP - 1)), I32(5))
        whole = b.add(self.base, b.mul(b.sext(self.slots, I64), I64(board.slot)))
        count = b.mul(b.udiv(self.slots, self.tiles), groups)
        ends = b.add(whole, b.mul(b.sext(count, I64), I64(board.slot)))
        own = b.add(b.mul(self.row, groups), group)
        there = b.icmp_unsigned("<", lane, group)
        theirs = b.select(there, b.sub(b.sub(own, lane), I32(1)), I32(0))
        probe = partial(self._probe, e, lane, there, theirs, whole, ends)
        early = probe()  # on its way while the group's own tiles are waited for
        near = self._within(e, lane, turn, b.sub(tile, turn))
        last = b.icmp_unsigned("==", turn, I32(WARP - 1))
        sums = rule.merge.emit(e, near + total)
        with b.if_then(b.and_(first, last)):
            board.store(e, whole, own, sums)
        far = self._groups(e, early, probe)
        with b.if_then(b.and_(first, last)):
            board.store(e, ends, own, rule.merge.emit(e, far + sums))
        return rule.merge.emit(e, far + near)

    def _within(self, e: Emitter, lane: ir.Value, slot: ir.Value, start: ir.Value) -> State:
        """The totals of the group's tiles before this one, in a fixed tree."""
        b, rule = e.builder, self.board.rule
        wanted = b.icmp_unsigned("<", lane, slot)
        totals = self._await(e, self.base, b.add(start, lane), wanted)
        empty = rule.empty.emit(e, [])
        state = [b.select(wanted, total, none) for total, none in zip(totals, empty)]
        distance = 1
        while distance < WARP:
            other = [shuffle(e, "down", part, distance, WARP) for part in state]
            merged = rule.merge.emit(e, state + other)
            in_bounds = b.icmp_unsigned("<", b.add(lane, I32(distance)), I32(WARP))
            state = [b.select(in_bounds, new, old) for new, old in zip(merged, state)]
            distance *= 2
        return [shuffle(e, "idx", part, 0, WARP) for part in state]

    def _await(self, e: Emitter, base: ir.Value, index: ir.Value, wanted: ir.Value) -> State:
        """Wait for the published state in the slot of each lane that wants one."""
        b, board = e.builder, self.board
        safe = b.select(wanted, index, I32(0))
        ready, state = board.load(e, base, safe)
        waiting = b.and_(wanted, b.not_(ready))
        with looped(e, [waiting, *state], lambda more, *_: _any(e, more)) as (held, next_state):
            again, seen = board.load(e, base, safe)
            late = b.and_(again, held[0])
            next_state += [b.and_(held[0], b.not_(again))]
            next_state += [b.select(late, new, old) for new, old in zip(seen, held[1:])]
        return held[1:]

    def _probe(self, e: Emitter, lane, there, index: ir.Value, whole: ir.Value, ends: ir.Value) -> list[ir.Value]:
        """(whether what is left of the groups before this one will do, the lane of the nearest whose end is known; for
        each lane's group its end, and its total)."""
        b, board = e.builder, self.board
        none = b.not_(there)  # before the first group there is nothing: its end is known
        end, after = board.load(e, ends, index)
        total, sums = board.load(e, whole, index)
        nearest = e.call(I32, "llvm.cttz.i32", [ballot_bits(e, b.or_(none, end)), ir.Constant(I1, 0)])
        missing = b.and_(b.icmp_unsigned("<", lane, nearest), b.not_(total))
        sufficient = b.and_(b.icmp_unsigned("<", nearest, I32(WARP)), b.not_(_any(e, missing)))
        empty = board.rule.empty.emit(e, [])
        return [sufficient, nearest, *(b.select(none, x, y) for x, y in zip(empty, after)), *sums]

    def _groups(self, e: Emitter, early: list[ir.Value], probe: Callable[[], list[ir.Value]]) -> State:
        """The groups before this one: from the nearest whose end is known, one by one."""
        b, rule = e.builder, self.board.rule
        parts = len(rule.state)
        with looped(e, early, lambda sufficient, *_: b.not_(sufficient)) as (state, next_state):
            next_state += probe()
        nearest, after, sums = state[1], state[2 : 2 + parts], state[2 + parts :]
        first = [_shuffle_from(e, part, nearest) for part in after]
        more = lambda at, *_: b.icmp_signed(">", at, I32(0))  # noqa: E731
        with looped(e, [nearest, *first], more) as (turn, next_state):
            at = b.sub(turn[0], I32(1))
            next_state += [at, *rule.merge.emit(e, turn[1:] + [_shuffle_from(e, part, at) for part in sums])]
        return turn[1:]


def _any(e: Emitter, value: ir.Value) -> ir.Value:
    return e.builder.icmp_unsigned("!=", ballot_bits(e, value), I32(0))


def _shuffle_from(e: Emitter, value: ir.Value, lane: ir.Value) -> ir.Value:
    """Another lane's value; the lane is the same number in all of them."""
    b, kind = e.builder, value.type
    text = "shfl.sync.idx.b32 $0, $1, $2, 31, 0xffffffff;"
    if isinstance(kind, ir.IntType) and kind.width < 32:
        return b.trunc(e.asm(I32, text, "=r,r,r", [b.zext(value, I32), lane], side_effect=True), kind)
    bits = 64 if kind in (I64, ir.DoubleType()) else 32
    word = b.bitcast(value, ir.IntType(bits))
    pieces = [word] if bits == 32 else [b.trunc(word, I32), b.trunc(b.lshr(word, I64(32)), I32)]
    moved = [e.asm(I32, text, "=r,r,r", [piece, lane], side_effect=True) for piece in pieces]
    if bits == 32:
        return b.bitcast(moved[0], kind)
    return b.bitcast(b.or_(b.zext(moved[0], I64), b.shl(b.zext(moved[1], I64), I64(32))), kind)


@emitted(types.int32)
def take_tile(e, semaphores):
    """`take_tile(semaphores)`: the number of the block's tile; blocks take them in order."""
    b = e.builder
    cell = e.shared_array(I32, 1)
    with b.if_then(b.icmp_unsigned("==", e.special_register("tid.x"), I32(0))):
        counter = b.inttoptr(semaphores, I32.as_pointer(GLOBAL))
        b.store(b.atomic_rmw("add", counter, I32(1), "monotonic"), cell)
    e.barrier()
    return b.load(cell)


@emitted(types.int32)
def tile_row(e, number, tiles):
    """`tile_row(number, tiles)`: the row of a tile, of so many in a row."""
    return e.builder.udiv(number, tiles)


@emitted(types.void)
def reset_lookback(e, semaphores, tiles, size):
    """`reset_lookback(semaphores, tiles, size)`: the first warp of the last block to call it clears `size` bytes.

    A block calls it before it stores its results: the fence would wait for them, and the next block for the fence.
    """
    b, thread = e.builder, e.special_register("tid.x")

    def arrive() -> list[ir.Value]:
        e.asm(VOID, FENCE, "~{memory}", [], side_effect=True)
        counter = b.inttoptr(b.add(semaphores, I64(4)), I32.as_pointer(GLOBAL))
        before = b.atomic_rmw("add", counter, I32(1), "monotonic")
        e.asm(VOID, FENCE, "~{memory}", [], side_effect=True)
        return [before]

    with b.if_then(b.icmp_unsigned("<", thread, I32(WARP))):
        (before,) = when(e, b.icmp_unsigned("==", thread, I32(0)), [I32(0)], arrive)
        before = shuffle(e, "idx", before, 0, WARP)
        e.call(VOID, "llvm.nvvm.bar.warp.sync", [I32(-1)])  # what the first lane's fence orders, it does for all
        with b.if_then(b.icmp_unsigned("==", before, b.sub(tiles, I32(1)))):
            more = lambda n: b.icmp_signed("<", n, size)  # noqa: E731
            first = b.mul(b.zext(thread, I64), I64(8))
            with repeated(e, first, more, lambda n: b.add(n, I64(8 * WARP))) as at:
                b.store(I64(0), b.inttoptr(b.add(semaphores, at), I64.as_pointer(GLOBAL)))


def scan_with_lookback(
    tile: Tile, thread_group: ThreadGroup, rule_of: ReduceOp, reverse: bool = False, exclusive: bool = False
) -> Callable:
    """`scan(lifted…, start, limit, semaphores, offset, row, turn, tiles, slots)`: the prefixes of a row's elements.

    The tile is number `turn` of `tiles` in its row, of `slots` in all; its states stand `offset` bytes behind the
    semaphores' header.
    """
    plan = Scan(tile, thread_group, rule_of, reverse, exclusive=exclusive)
    board, parts = TileStates(rule_of), len(rule_of.state)
    tiles_of = [types.UniTuple(kind, tile.count) for kind in rule_of.state]
    result = tiles_of[0] if parts == 1 else types.Tuple.from_types(tiles_of)

    @emitted(result, parts + 8)
    def emit(e, *values, kinds):
        b = e.builder
        semaphores, offset, row, turn, tiles, slots = values[parts + 2 :]
        base = b.add(b.add(semaphores, I64(HEADER)), offset)
        link = Lookback(board, row, turn, tiles, base, slots)
        elements = scanned(e, tile, rule_of, kinds, values[: parts + 2])
        prefixes, _ = plan.emit(e, elements, link.before)
        packed = [e.pack(kind, [state[n] for state in prefixes]) for n, kind in enumerate(tiles_of)]
        return packed[0] if parts == 1 else e.pack(result, packed)

    return emit
