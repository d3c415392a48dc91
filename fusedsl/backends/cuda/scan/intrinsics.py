"""Prefix scans: over a thread's elements, then over the threads of a row, always combined in the same order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..compiler.numba_backend import I1, I8, I32, Emitter, emitted, ir, types
from ..tile.reduce import ReduceOp, State, column_of, state_of
from ..tile.shuffle import WARP, shuffle
from ..tile.thread_group import ThreadGroup, shared_type
from ..tile.tile import Tile

Before = State | Callable[[Emitter, State], State]


@dataclass(frozen=True)
class Scan:
    """The prefixes of a row's elements: those of a tile of each thread of the thread group, and all that came before.

    Where `blocked`, a thread's elements are neighbours; else each of its vectors stands beside those of the other
    threads. Where `reverse`, the row begins at its end; an `exclusive` prefix is that before its element.
    """

    tile: Tile
    thread_group: ThreadGroup
    rule: ReduceOp
    reverse: bool = False
    blocked: bool = False
    exclusive: bool = False

    @property
    def lanes(self) -> int:
        return 1 if self.thread_group.rows_across else min(self.thread_group.threads, WARP)

    @property
    def parts(self) -> int:
        """Runs of neighbours that a thread scans by itself."""
        return 1 if self.blocked else self.tile.vectors

    @property
    def groups(self) -> int:
        """Groups of threads that leave a total each in shared memory."""
        return self.thread_group.threads if self.thread_group.rows_across else self.thread_group.threads // WARP

    def emit(self, e: Emitter, elements: list[State], before: Before) -> tuple[list[State], State]:
        """(prefixes of the elements, in the order of the tile; the state of them all, the same in each thread).

        `before` is the state of the row's earlier tiles. For a block it may be a function from the tile's state to that
        state, which one warp calls: decoupled look-back.
        """
        ordered = elements[::-1] if self.reverse else elements
        size = len(ordered) // self.parts
        runs = [self._run(e, ordered[k * size : (k + 1) * size]) for k in range(self.parts)]
        totals = [run[-1] for run in runs]
        inside = [self._lanes(e, total) for total in totals]
        ends = [self._last(e, inclusive) for _, inclusive in inside]
        if self.groups > 1 or callable(before):
            begins, after = self._groups(e, ends, before)
            if callable(before):  # found again, not held meanwhile: other blocks take the registers
                inside = [self._lanes(e, total) for total in totals]
        else:
            begins, after = [], before
            for end in ends:
                begins.append(after)
                after = self.rule.merge.emit(e, after + end)
        prefixes = []
        for run, (exclusive, _), begin in zip(runs, inside, begins):
            start = self.rule.merge.emit(e, begin + exclusive)
            merged = [self.rule.merge.emit(e, start + state) for state in (run[:-1] if self.exclusive else run)]
            prefixes += [start, *merged] if self.exclusive else merged
        return (prefixes[::-1] if self.reverse else prefixes), after

    def _run(self, e: Emitter, states: list[State]) -> list[State]:
        prefixes = [states[0]]
        for state in states[1:]:
            prefixes.append(self.rule.merge.emit(e, prefixes[-1] + state))
        return prefixes

    def _lanes(self, e: Emitter, total: State) -> tuple[State, State]:
        """(what lies before this lane, and with it) of the lanes that share a run; the state of nothing before all."""
        empty, b = self.rule.empty.emit(e, []), e.builder
        if self.lanes == 1:
            return empty, total
        lane = self._rank(e)
        mode, inclusive, distance = "down" if self.reverse else "up", total, 1
        while distance < self.lanes:
            other = [shuffle(e, mode, part, distance, self.lanes) for part in inclusive]
            merged = self.rule.merge.emit(e, other + inclusive)
            there = b.icmp_signed(">=", lane, I32(distance))
            inclusive = [b.select(there, new, old) for new, old in zip(merged, inclusive)]
            distance *= 2
        moved = [shuffle(e, mode, part, 1, self.lanes) for part in inclusive]
        first = b.icmp_signed("==", lane, I32(0))
        return [b.select(first, none, part) for none, part in zip(empty, moved)], inclusive

    def _rank(self, e: Emitter) -> ir.Value:
        """The number of this lane in the order of the scan."""
        lane = e.builder.and_(e.special_register("tid.x"), I32(self.lanes - 1))
        return e.builder.sub(I32(self.lanes - 1), lane) if self.reverse else lane

    def _last(self, e: Emitter, inclusive: State) -> State:
        """The state of all lanes of a run; behind a warp, the others read it in shared memory."""
        if self.lanes == 1 or self.groups > 1:
            return inclusive
        return [shuffle(e, "idx", part, 0 if self.reverse else self.lanes - 1, self.lanes) for part in inclusive]

    def _groups(self, e: Emitter, ends: list[State], before: Before) -> tuple[list[State], State]:
        """(what lies before each run of this group of threads, the state of all) through shared memory."""
        b, thread, spread = e.builder, e.special_register("tid.x"), self.thread_group.rows_across or 1
        count = self.groups * len(ends)
        arrays = [e.shared_array(shared_type(part), (count + 1) * spread) for part in ends[0]]
        row = b.and_(thread, I32(spread - 1))
        group = b.lshr(thread, I32((spread if spread > 1 else WARP).bit_length() - 1))
        group = b.sub(I32(self.groups - 1), group) if self.reverse else group
        pointers = [b.add(group, I32(k * self.groups)) for k in range(len(ends))]
        e.barrier()  # the tile before has been read
        leaves = None
        if not self.thread_group.rows_across:
            lane = b.and_(thread, I32(WARP - 1))
            leaves = b.icmp_unsigned("==", lane, I32(0 if self.reverse else WARP - 1))
        for end, pointer in zip(ends, pointers):
            self._store_state(e, arrays, end, self._at(e, pointer, row), leaves)
        e.barrier()
        first = b.icmp_unsigned("<", thread, I32(spread if spread > 1 else WARP))
        with b.if_then(first):
            if spread > 1 and not callable(before):
                self._walk(e, arrays, count, before, row)
            else:
                self._scan_warp(e, arrays, count, before)
        e.barrier()
        begins = [self._take(e, arrays, self._at(e, pointer, row)) for pointer in pointers]
        return begins, self._take(e, arrays, self._at(e, I32(count), row))

    def _walk(self, e: Emitter, arrays: Sequence[ir.Value], count: int, before: State, row: ir.Value) -> None:
        """One thread for each row replaces its totals by their exclusive prefixes."""
        state = before
        for k in range(count):
            pointer = self._at(e, I32(k), row)
            total = self._take(e, arrays, pointer)
            self._store_state(e, arrays, state, pointer, None)
            state = self.rule.merge.emit(e, state + total)
        self._store_state(e, arrays, state, self._at(e, I32(count), row), None)

    def _scan_warp(self, e: Emitter, arrays: Sequence[ir.Value], count: int, before: Before) -> None:
        """A warp scans the totals of a block: a few neighbours a lane, then the lanes."""
        b, each = e.builder, -(-count // WARP)
        lane = b.and_(e.special_register("tid.x"), I32(WARP - 1))
        empty = self.rule.empty.emit(e, [])
        pointers = [b.add(b.mul(lane, I32(each)), I32(k)) for k in range(each)]
        in_bounds = [b.icmp_unsigned("<", pointer, I32(count)) for pointer in pointers]
        held = [b.select(ok, pointer, I32(0)) for ok, pointer in zip(in_bounds, pointers)]
        totals = [
            [b.select(ok, part, none) for part, none in zip(self._take(e, arrays, pointer), empty)]
            for ok, pointer in zip(in_bounds, held)
        ]
        run = self._run(e, totals)
        warp = Scan(self.tile, ThreadGroup(WARP), self.rule)
        exclusive, inclusive = warp._lanes(e, run[-1])
        if callable(before):
            before = before(e, [shuffle(e, "idx", part, WARP - 1, WARP) for part in inclusive])
        start = self.rule.merge.emit(e, before + exclusive)
        begins = [start, *(self.rule.merge.emit(e, start + state) for state in run[:-1])]
        e.call(ir.VoidType(), "llvm.nvvm.bar.warp.sync", [I32(-1)])  # all totals are read
        for ok, pointer, begin in zip(in_bounds, pointers, begins):
            self._store_state(e, arrays, begin, pointer, ok)
        last = self.rule.merge.emit(e, before + inclusive)
        self._store_state(e, arrays, last, I32(count), b.icmp_unsigned("==", lane, I32(WARP - 1)))

    def _at(self, e: Emitter, pointer: ir.Value, row: ir.Value) -> ir.Value:
        spread = self.thread_group.rows_across or 1
        return e.builder.add(e.builder.mul(pointer, I32(spread)), row) if spread > 1 else pointer

    def _store_state(
        self, e: Emitter, arrays: Sequence[ir.Value], state: State, pointer, wanted: ir.Value | None
    ) -> None:
        def put():
            for array, part in zip(arrays, state):
                value = e.builder.zext(part, I8) if part.type == I1 else part
                e.builder.store(value, e.builder.gep(array, [pointer]))

        if wanted is None:
            put()
            return
        with e.builder.if_then(wanted):
            put()

    def _take(self, e: Emitter, arrays: Sequence[ir.Value], pointer: ir.Value) -> State:
        parts = [e.builder.load(e.builder.gep(array, [pointer])) for array in arrays]
        kinds = self.rule.state
        return [e.builder.trunc(v, I1) if k == types.boolean else v for v, k in zip(parts, kinds)]


def scan_tile(
    tile: Tile,
    thread_group: ThreadGroup,
    rule_of: ReduceOp,
    reverse: bool = False,
    blocked: bool = False,
    exclusive: bool = False,
) -> Callable:
    """`scan(lifted…, start, limit, before)`: (the prefixes of a row's elements as tiles, the state of all so far).

    Elements that are not there count for nothing; `before` is the state of the row's earlier tiles.
    """
    plan, parts = Scan(tile, thread_group, rule_of, reverse, blocked, exclusive), len(rule_of.state)
    tiles = [types.UniTuple(kind, tile.count) for kind in rule_of.state]
    result = types.Tuple.from_types([*tiles, rule_of.merge.result])

    @emitted(result, parts + 3)
    def emit(e, *values, kinds):
        elements = scanned(e, tile, rule_of, kinds, values)
        prefixes, after = plan.emit(e, elements, state_of(e, rule_of, values[-1]))
        packed = [e.pack(kind, [state[n] for state in prefixes]) for n, kind in enumerate(tiles)]
        return e.pack(result, [*packed, e.pack(rule_of.merge.result, after)])

    return emit


def scanned(e: Emitter, tile: Tile, rule_of: ReduceOp, kinds: Sequence, values: Sequence[ir.Value]) -> list[State]:
    """The states of a tile's elements (`values` are lifted…, start, limit); of those that are not there, nothing."""
    parts = len(rule_of.state)
    columns = [column_of(e, tile, v, k, w) for v, k, w in zip(values, kinds, rule_of.state)]
    rooms = tile.valid_of(e, kinds[parts], *values[parts : parts + 2])
    empty = rule_of.empty.emit(e, []) if any(rooms) else []
    elements = []
    for number in range(tile.count):
        state, room = [column[number] for column in columns], rooms[number // tile.width]
        if room is not None:
            in_bounds = room.has(e.builder, number % tile.width)
            state = [e.builder.select(in_bounds, part, none) for part, none in zip(state, empty)]
        elements.append(state)
    return elements
