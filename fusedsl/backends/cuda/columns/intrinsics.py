"""Column reducer: one state per vector element, combined over threads_y and blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..compiler.numba_backend import I1, I8, I32, I64, SHARED, Emitter, emitted, ir, types
from ..tile.grid_sync import ld_relaxed, size_of, st_global
from ..tile.loops import repeated, when
from ..tile.reduce import ReduceOp, State, from_first
from ..tile.tile import Tile
from .partial_records import DIRECT, ROUND, read_part, slots_of, tile_of, write_part

RECORD_ALIGNMENT = 8  # bytes: alignment of each component of a state in a record
States = list[State]  # one for each element of a vector of rows


@dataclass(frozen=True)
class ColumnReducer:
    """Threads of a strip: thread t is at x = t % threads_x, y = t / threads_x; each has `width` columns of states.

    `state` is the most bytes of a state in shared memory. With `max_threads`, x and y are the launch's tid.x and tid.y.
    """

    width: int
    state: int
    threads_x: int = 0
    threads_y: int = 0
    max_threads: int = 0

    @property
    def columns(self) -> int:
        """Kept elements of the strip."""
        return self.threads_x * self.width

    def _lane(self, e: Emitter) -> ir.Value:
        thread = e.special_register("tid.x")
        return thread if self.max_threads else e.builder.and_(thread, I32(self.threads_x - 1))

    def _level(self, e: Emitter) -> ir.Value:
        if self.max_threads:
            return e.special_register("tid.y")
        return e.builder.lshr(e.special_register("tid.x"), I32(self.threads_x.bit_length() - 1))

    def _side(self, e: Emitter) -> ir.Value:
        return e.special_register("ntid.x") if self.max_threads else I32(self.threads_x)

    def reduce_tile(self, tile: Tile, rule_of: ReduceOp) -> Callable:
        """`fold(lifted…, start, limit)`: the states of a thread's tile, whose vectors lie across what is folded."""
        kinds_of, result = rule_of.state, self.result(rule_of)

        @emitted(result, len(kinds_of) + 2)
        def emit(e, *values, kinds):
            columns = [tile_of(e, tile, v, k, w) for v, k, w in zip(values, kinds, kinds_of)]
            rooms = tile.valid_of(e, kinds[-2], *values[-2:])
            empty = rule_of.empty.emit(e, []) if any(rooms) else []
            reduced = []
            for k in range(self.width):
                states = []
                for number, room in enumerate(rooms):
                    state = [column[number * self.width + k] for column in columns]
                    if room is not None:
                        there = room.has(e.builder, 0)
                        state = [e.builder.select(there, part, none) for part, none in zip(state, empty)]
                    states.append(state)
                reduced.append(rule_of.tree(e, states, from_first(rooms)))
            return self._pack(e, rule_of, reduced)

        return emit

    @emitted(lambda self, rule_of: self.result(rule_of))
    def identity(self, e, *, rule_of: ReduceOp):
        """`empty()`: the states of no elements."""
        return self._pack(e, rule_of, [rule_of.empty.emit(e, [])] * self.width)

    @emitted(lambda self, rule_of: self.result(rule_of))
    def combine(self, e, x, y, *, rule_of: ReduceOp):
        """`merge(a, b)`: two vectors of states as one."""
        pairs = zip(self._unpack(e, rule_of, x), self._unpack(e, rule_of, y))
        return self._pack(e, rule_of, [rule_of.merge.emit(e, state + other_state) for state, other_state in pairs])

    @emitted(lambda self, rule_of: self.result(rule_of))
    def all_reduce(self, e, value, *, rule_of: ReduceOp):
        """`join(states)`: those of all levels merged, the same bits in each of them."""
        states = self._unpack(e, rule_of, value)
        if self.max_threads:
            return self._pack(e, rule_of, self._joined_lines(e, rule_of, states))
        return self._pack(e, rule_of, self._joined(e, rule_of, states) if self.threads_y > 1 else states)

    @emitted(lambda self, rule_of: self.result(rule_of))
    def align(self, e, value, shift, begins, ends, *, rule_of: ReduceOp):
        """`align(states, shift, begins, ends)`: the states of a vector that begins `shift` elements later, from this
        lane's and the next one's; where a line or the lanes end, nobody lends what is wanted, and it is of no use."""
        b, lane, level, side = e.builder, self._lane(e), self._level(e), self._side(e)
        states = self._unpack(e, rule_of, value)
        kinds = [part.type for part in states[0]]
        columns, first = self._pool(e, kinds), b.mul(level, side)
        threads = b.mul(side, e.special_register("ntid.y") if self.max_threads else I32(self.threads_y))
        first_lane = b.or_(begins, b.icmp_unsigned("==", lane, I32(0)))
        last_lane = b.or_(ends, b.icmp_unsigned("==", lane, b.sub(side, I32(1))))
        e.barrier()  # the results of an earlier fold have been read
        for k, state in enumerate(states):
            lent = b.icmp_signed("<", I32(k), shift)
            slot = b.and_(b.sub(I32(k), shift), I32(self.width - 1))
            owner = b.select(lent, b.sub(lane, I32(1)), lane)
            with b.if_then(b.not_(b.and_(lent, first_lane))):
                write_part(e, columns, b.add(b.mul(slot, threads), b.add(first, owner)), state)
        e.barrier()
        moved = []
        for k in range(self.width):
            lent = b.icmp_signed(">=", I32(k), b.sub(I32(self.width), shift))
            slot = b.select(b.and_(lent, last_lane), I32(0), I32(k))
            moved.append(read_part(e, columns, b.add(b.mul(slot, threads), b.add(first, lane)), kinds))
        return self._pack(e, rule_of, moved)

    @emitted(types.void)
    def store_partial(self, e, at, value, *, rule_of: ReduceOp, begin: int):
        """`store_partial(address, states)`: level 0 stores them to global memory, `begin` bytes into the record."""
        b, states = e.builder, self._unpack(e, rule_of, value)
        with b.if_then(b.icmp_unsigned("==", self._level(e), I32(0))):
            for address, state in zip(self._part_addresses(e, at, begin, self._lane(e), states[0]), zip(*states)):
                for k, part in enumerate(state):
                    st_global(e, b.add(address, I64(k * size_of(part.type))), part)

    def load_partials(self, rule_of: ReduceOp, begin: int, record: int, batch: int) -> Callable:
        """`load_partials(address, first, parts)`: the merged states of `batch` records: `first`, `first` + levels, ….

        Records from `parts` on do not exist.
        """

        @emitted(self.result(rule_of))
        def emit(e, at, number, limit):
            b = e.builder
            lane, levels = self._lane(e), e.special_register("ntid.y") if self.max_threads else I32(self.threads_y)
            empty, partials = rule_of.empty.emit(e, []), []
            number, limit = (v if v.type == I64 else b.sext(v, I64) for v in (number, limit))
            for step in range(batch):
                wanted = b.add(number, b.zext(b.mul(levels, I32(step)), I64))
                in_bounds = b.icmp_signed("<", wanted, limit)
                record_begin = b.add(at, b.mul(b.select(in_bounds, wanted, I64(0)), I64(record)))
                addresses = self._part_addresses(e, record_begin, begin, lane, empty)
                states = []
                for k in range(self.width):
                    parts_of = [
                        ld_relaxed(e, b.add(p, I64(k * size_of(none.type))), none.type)
                        for p, none in zip(addresses, empty)
                    ]
                    states.append([b.select(in_bounds, part, none) for part, none in zip(parts_of, empty)])
                partials.append(states)
            merged = [rule_of.tree(e, [states[k] for states in partials]) for k in range(self.width)]
            return self._pack(e, rule_of, merged)

        return emit

    def result(self, rule_of: ReduceOp) -> types.Type:
        """A tuple of `width` values for each part of the state; as itself where the state has one part."""
        tiles = [types.UniTuple(kind, self.width) for kind in rule_of.state]
        return tiles[0] if len(tiles) == 1 else types.Tuple.from_types(tiles)

    def _pack(self, e: Emitter, rule_of: ReduceOp, states: States) -> ir.Value:
        tiles = [types.UniTuple(kind, self.width) for kind in rule_of.state]
        packed = [e.pack(tile, [state[n] for state in states]) for n, tile in enumerate(tiles)]
        return packed[0] if len(packed) == 1 else e.pack(self.result(rule_of), packed)

    def _unpack(self, e: Emitter, rule_of: ReduceOp, value: ir.Value) -> States:
        parts = [value] if len(rule_of.state) == 1 else e.unpack(value, len(rule_of.state))
        columns = [e.unpack(part, self.width) for part in parts]
        return [[column[k] for column in columns] for k in range(self.width)]

    def _part_addresses(self, e: Emitter, at: ir.Value, begin: int, lane: ir.Value, state: State) -> list[ir.Value]:
        """Where each part of a lane's states begins in a record."""
        b, addresses = e.builder, []
        lane = b.zext(lane, I64)
        for part in state:
            size = size_of(part.type) * self.width
            addresses.append(b.add(at, b.add(b.mul(lane, I64(size)), I64(begin))))
            begin += -(-size * (self.max_threads or self.threads_x) // RECORD_ALIGNMENT) * RECORD_ALIGNMENT
        return addresses

    def _joined(self, e: Emitter, rule_of: ReduceOp, states: States) -> States:
        """Through shared memory: threads merge a few levels of one kept element each, until all can read the rest."""
        b, lane, level = e.builder, self._lane(e), self._level(e)
        kinds = [part.type for part in states[0]]
        columns = self._pool(e, kinds)
        e.barrier()  # the results of an earlier fold have been read
        first = b.add(b.mul(level, I32(self.columns)), lane)
        for k, state in enumerate(states):
            write_part(e, columns, b.add(first, I32(k * self.threads_x)), state)
        e.barrier()
        begin, count = 0, self.threads_y
        while count > DIRECT:
            groups = self._merge_levels(e, rule_of, columns, kinds, begin, count)
            e.barrier()
            begin, count = begin + count, groups
        slots = [b.add(lane, I32((begin + n) * self.columns)) for n in range(count)]
        return [
            rule_of.tree(e, [read_part(e, columns, b.add(slot, I32(k * self.threads_x)), kinds) for slot in slots])
            for k in range(self.width)
        ]

    def _joined_lines(self, e: Emitter, rule_of: ReduceOp, states: States) -> States:
        """The same where only the launch knows the levels: the upper half merges into the lower one, step by step."""
        b, lane, level = e.builder, self._lane(e), self._level(e)
        side, levels = e.special_register("ntid.x"), e.special_register("ntid.y")
        kinds = [part.type for part in states[0]]
        columns = self._pool(e, kinds)
        threads = b.mul(levels, side)
        first = b.add(b.mul(level, side), lane)

        def slot_of(of: ir.Value, k: int) -> ir.Value:
            return b.add(of, b.mul(threads, I32(k)))

        def several() -> list[ir.Value]:
            e.barrier()  # the results of an earlier fold have been read
            for k, state in enumerate(states):
                write_part(e, columns, slot_of(first, k), state)
            e.barrier()
            with repeated(e, b.lshr(levels, I32(1)), lambda half: b.icmp_unsigned(">", half, I32(0)), _half(b)) as half:
                with b.if_then(b.icmp_unsigned("<", level, half)):
                    distance = b.mul(half, side)
                    for k in range(self.width):
                        own = slot_of(first, k)
                        pair = read_part(e, columns, own, kinds) + read_part(e, columns, b.add(own, distance), kinds)
                        write_part(e, columns, own, rule_of.merge.emit(e, pair))
                e.barrier()
            return [part for k in range(self.width) for part in read_part(e, columns, slot_of(lane, k), kinds)]

        flat = when(e, b.icmp_unsigned(">", levels, I32(1)), [part for state in states for part in state], several)
        return [flat[k * len(kinds) : (k + 1) * len(kinds)] for k in range(self.width)]

    def _merge_levels(self, e: Emitter, rule_of: ReduceOp, columns, kinds, begin: int, count: int) -> int:
        """The states of each few of `count` levels from slot `begin` on as one, in slots behind them: how many."""
        merged_levels = min(ROUND, count)
        groups = count // merged_levels
        b, threads, items = e.builder, self.threads_x * self.threads_y, groups * self.columns
        thread = e.special_register("tid.x")

        def work(number: ir.Value) -> None:
            group, element = b.lshr(number, I32(self.columns.bit_length() - 1)), b.and_(number, I32(self.columns - 1))
            first = b.add(b.mul(b.add(b.mul(group, I32(merged_levels)), I32(begin)), I32(self.columns)), element)
            partials = [read_part(e, columns, b.add(first, I32(n * self.columns)), kinds) for n in range(merged_levels)]
            slot = b.add(number, I32((begin + groups * merged_levels) * self.columns))
            write_part(e, columns, slot, rule_of.tree(e, partials))

        if items < threads:
            with b.if_then(b.icmp_unsigned("<", thread, I32(items))):
                work(thread)
        else:
            for begin_item in range(0, items, threads):
                work(b.add(thread, I32(begin_item)))
        return groups

    def _pool(self, e: Emitter, kinds: list[ir.Type]) -> list[ir.Value]:
        """Shared memory of the kernel for each part of a state: all folds take turns in it."""
        slots = self.max_threads * self.width if self.max_threads else slots_of(self.threads_y) * self.columns
        size = slots * self.state
        module, kind, name = e.builder.module, ir.ArrayType(I8, size), f"pool_of_{size}"  # kernels may share a module
        pool = module.globals.get(name)
        if pool is None:
            pool = ir.GlobalVariable(module, kind, name, addrspace=SHARED)
            pool.linkage, pool.align = "internal", 16
            pool.initializer = ir.Constant(kind, ir.Undefined)
        columns, begin = [], 0
        for part in kinds:
            stored = I8 if part == I1 else part
            address = e.builder.gep(pool, [I32(0), I32(begin)])
            columns.append(e.builder.bitcast(address, ir.PointerType(stored, SHARED)))
            begin += slots * size_of(part)
        return columns


def _half(b: ir.IRBuilder) -> Callable[[ir.Value], ir.Value]:
    return lambda count: b.lshr(count, I32(1))
