"""Row-and-column reductions: several thread groups per block; deterministic combination over groups, blocks, grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..compiler.numba_backend import I1, I8, I32, I64, SHARED, VOID, Emitter, emitted, ir, types
from ..tile.cp_async import dynamic_shared
from ..tile.reduce import ReduceOp, State, state_of
from ..tile.shuffle import WARP, shuffle
from ..tile.tile import Tile


def stored(part: ir.Type) -> ir.Type:
    """How a part of a state stands in memory."""
    return I8 if part == I1 else part


def _bytes(part: ir.Type) -> int:
    if isinstance(part, ir.IntType):
        return max(1, part.width // 8)
    return 8 if isinstance(part, ir.DoubleType) else 4


def _narrow(e: Emitter, part: ir.Value) -> ir.Value:
    return e.builder.zext(part, I8) if part.type == I1 else part


def _wide(e: Emitter, part: ir.Value, kind: ir.Type) -> ir.Value:
    return e.builder.trunc(part, I1) if kind == I1 else part


@dataclass(frozen=True)
class RowGroups:
    """A block of `groups` groups of `threads` threads (whole warps); every group has rows of its own."""

    threads: int
    groups: int

    def all_reduce(self, *rules: ReduceOp) -> Callable:
        """`join(turn, states…)`: the states of all threads of the group merged, the same bits in each of them.

        `turn` is 0 and 1 in alternation: a warp may leave its next state where nobody reads its last one any more.
        """
        result = _together(rules)

        @emitted(result, 1 + len(rules))
        def emit(e, which, *values):
            states = self._through_shuffles(e, rules, [state_of(e, r, v) for r, v in zip(rules, values)])
            if self.threads > WARP:
                states = self._through_shared(e, rules, states, which)
            return e.pack(result, [part for state in states for part in state])

        return emit

    def _through_shuffles(self, e: Emitter, rules: Sequence[ReduceOp], states: list[State]) -> list[State]:
        """Lane 0 merges all of its warp, in order; every step is taken for all folds at once, which hides its latency.

        In a group of one warp all lanes get a copy.
        """
        distance = WARP // 2
        while distance:
            moved = [[shuffle(e, "down", part, distance, WARP) for part in state] for state in states]
            states = [r.merge.emit(e, state + other) for r, state, other in zip(rules, states, moved)]
            distance //= 2
        if self.threads > WARP:
            return states
        return [[shuffle(e, "idx", part, 0, WARP) for part in state] for state in states]

    def _through_shared(
        self, e: Emitter, rules: Sequence[ReduceOp], states: list[State], turn: ir.Value
    ) -> list[State]:
        b, warps = e.builder, self.threads // WARP
        thread = e.special_register("tid.x")
        group = b.udiv(thread, I32(self.threads))
        first = b.mul(b.add(b.mul(turn, I32(self.groups)), group), I32(warps))
        warp = b.urem(b.lshr(thread, I32(5)), I32(warps))
        arrays = [[e.shared_array(stored(p.type), 2 * self.groups * warps) for p in state] for state in states]
        with b.if_then(b.icmp_unsigned("==", b.and_(thread, I32(WARP - 1)), I32(0))):
            for own, state in zip(arrays, states):
                for array, part in zip(own, state):
                    b.store(_narrow(e, part), b.gep(array, [b.add(first, warp)]))
        if self.groups == 1:
            e.barrier()
        else:
            e.asm(
                VOID, "bar.sync $0, $1;", "r,n,~{memory}", [b.add(group, I32(1)), I32(self.threads)], side_effect=True
            )
        joined = []
        for r, own, state in zip(rules, arrays, states):
            by_warp = []
            for k in range(warps):
                read = [b.load(b.gep(array, [b.add(first, I32(k))])) for array in own]
                by_warp.append([_wide(e, v, p.type) for v, p in zip(read, state)])
            joined.append(r.tree(e, by_warp))
        return joined

    def reduce_block(self, tile: Tile, rule_of: ReduceOp) -> Callable:
        """`reduce_block(parts…)`: the merged tiles of states of the block's groups, for the threads of the first group.

        Takes groups · elements · threads states of dynamic shared memory; all threads of the block must come.
        """
        kinds = [types.UniTuple(part, tile.count) for part in rule_of.state]
        result = kinds[0] if len(kinds) == 1 else types.Tuple.from_types(kinds)

        @emitted(result, len(kinds))
        def emit(e, *values):
            tiles = [e.unpack(value, tile.count) for value in values]
            states = [list(parts) for parts in zip(*tiles)]
            if self.groups > 1:
                states = self._gathered(e, rule_of, states)
            packed = [e.pack(kind, [state[n] for state in states]) for n, kind in enumerate(kinds)]
            return packed[0] if len(packed) == 1 else e.pack(result, packed)

        return emit

    def _gathered(self, e: Emitter, rule_of: ReduceOp, states: list[State]) -> list[State]:
        b, thread = e.builder, e.special_register("tid.x")
        lane = b.urem(thread, I32(self.threads))
        group = b.udiv(thread, I32(self.threads))
        lines, begins = [], []  # bytes between groups, and where a group's states begin
        begin = 0
        for part in states[0]:
            lines.append(len(states) * self.threads * _bytes(part.type))
            begins.append(begin)
            begin += lines[-1] * (self.groups - 1)

        def pointer(which: ir.Value, element: int, n: int) -> ir.Value:
            kind = states[0][n].type
            offset = b.add(b.mul(which, I32(lines[n])), b.mul(lane, I32(_bytes(kind))))
            offset = b.add(offset, I32(begins[n] + element * self.threads * _bytes(kind)))
            return b.bitcast(b.gep(dynamic_shared(e), [offset]), stored(kind).as_pointer(SHARED))

        e.barrier()
        with b.if_then(b.icmp_signed(">", group, I32(0))):
            for k, state in enumerate(states):
                for n, part in enumerate(state):
                    b.store(_narrow(e, part), pointer(b.sub(group, I32(1)), k, n))
        e.barrier()
        for other in range(self.groups - 1):
            for k, state in enumerate(states):
                read = [_wide(e, b.load(pointer(I32(other), k, n)), part.type) for n, part in enumerate(state)]
                states[k] = rule_of.merge.emit(e, state + read)
        return states

    def reduce_blocks(self, *rules: ReduceOp, at_once: int) -> Callable:
        """`finish(addresses…, column, line, blocks)`: a column's states of all blocks merged, in the first warp.

        Lane l of each warp stands for column `column` + l. Each part of each state has an address; there is a line of
        `line` columns for each block. A warp has so many loads `at_once` in flight.
        """
        result, warps = _together(rules), self.threads * self.groups // WARP

        @emitted(result, sum(len(r.state) for r in rules) + 3)
        def emit(e, *values):
            addresses, (column, line, blocks) = list(values[:-3]), values[-3:]
            states = self._strip(e, rules, addresses, (column, line, blocks), warps, at_once)
            states = self._between_warps(e, rules, states, warps)
            return e.pack(result, [part for state in states for part in state])

        return emit

    def _strip(self, e: Emitter, rules, addresses, where, warps: int, at_once: int) -> list[State]:
        """Warp w merges blocks w, w + warps …, as they come."""
        b, (column, line, blocks) = e.builder, where
        thread = e.special_register("tid.x")
        warp, lane = b.lshr(thread, I32(5)), b.and_(thread, I32(WARP - 1))
        empty = [r.empty.emit(e, []) for r in rules]
        with b.goto_entry_block():
            variables = [[b.alloca(part.type) for part in state] for state in empty]
            counter = b.alloca(I32)
        for own, state in zip(variables, empty):
            for variable, part in zip(own, state):
                b.store(part, variable)
        b.store(warp, counter)
        head, body, done = (b.append_basic_block(name) for name in ("head", "body", "done"))
        b.branch(head)
        b.position_at_end(head)
        b.cbranch(b.icmp_signed("<", b.load(counter), blocks), body, done)
        b.position_at_end(body)
        first = b.load(counter)
        numbers = [b.add(first, I32(k * warps)) for k in range(at_once)]
        in_bounds = [b.icmp_signed("<", number, blocks) for number in numbers]
        rows = [b.select(ok, number, first) for ok, number in zip(in_bounds, numbers)]
        offsets = [b.add(b.mul(b.sext(row, I64), line), b.sext(b.add(column, lane), I64)) for row in rows]
        left = list(addresses)
        for r, own, nothing in zip(rules, variables, empty):
            at = [left.pop(0) for _ in nothing]
            loaded = []
            for ok, offset in zip(in_bounds, offsets):
                read = [_read(e, base, offset, part.type) for base, part in zip(at, nothing)]
                loaded.append([b.select(ok, value, none) for value, none in zip(read, nothing)])
            merged = r.merge.emit(e, [b.load(variable) for variable in own] + r.tree(e, loaded))
            for variable, part in zip(own, merged):
                b.store(part, variable)
        b.store(b.add(first, I32(at_once * warps)), counter)
        b.branch(head)
        b.position_at_end(done)
        return [[b.load(variable) for variable in own] for own in variables]

    def _between_warps(self, e: Emitter, rules, states: list[State], warps: int) -> list[State]:
        """The warps' states through dynamic shared memory: lane l merges those of lanes l, in order."""
        b, thread = e.builder, e.special_register("tid.x")
        arrays: list[list[ir.Value]] = []
        begin = 0
        for state in states:
            arrays.append([])
            for part in state:
                address = b.gep(dynamic_shared(e), [I32(begin)])
                arrays[-1].append(b.bitcast(address, stored(part.type).as_pointer(SHARED)))
                begin += warps * WARP * _bytes(part.type)
        e.barrier()  # the first warp may still read what the strip before left
        for own, state in zip(arrays, states):
            for array, part in zip(own, state):
                b.store(_narrow(e, part), b.gep(array, [thread]))
        e.barrier()
        lane, joined = b.and_(thread, I32(WARP - 1)), []
        for r, own, state in zip(rules, arrays, states):
            by_warp = []
            for warp in range(warps):
                read = [b.load(b.gep(array, [b.add(lane, I32(warp * WARP))])) for array in own]
                by_warp.append([_wide(e, v, p.type) for v, p in zip(read, state)])
            joined.append(r.tree(e, by_warp))
        return joined


def _read(e: Emitter, base: ir.Value, offset: ir.Value, kind: ir.Type) -> ir.Value:
    """An element that another block wrote in this launch: from the L2."""
    b, size = e.builder, _bytes(kind)
    word = ir.IntType(max(16, 8 * size))
    address = b.add(base, b.mul(offset, I64(size)))
    register = {1: "h", 2: "h", 4: "r", 8: "l"}[size]
    bits = e.asm(word, f"ld.global.cg.b{8 * size} $0, [$1];", f"={register},l,~{{memory}}", [address], side_effect=True)
    if isinstance(kind, ir.IntType):
        return b.trunc(bits, kind) if kind.width < word.width else bits
    return b.bitcast(bits, kind)


def _together(rules: Sequence[ReduceOp]) -> types.Type:
    """The parts of several states, one after another."""
    parts = [part for r in rules for part in r.state]
    return parts[0] if len(parts) == 1 else types.Tuple.from_types(parts)
