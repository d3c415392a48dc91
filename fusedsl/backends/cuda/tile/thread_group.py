"""Thread groups: all-reduce over part of a warp, warps, a block or a cluster, always in the same order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..compiler.numba_backend import I1, I8, I32, Emitter, emitted, ir
from . import dsmem as cluster
from .reduce import ReduceOp, State, state_of
from .shuffle import WARP, shuffle

FEW_VALUES = 2  # of a state, of which a thread may read those of all warps at once


@dataclass(frozen=True)
class ThreadGroup:
    """The `threads` threads of a row: neighbours; up to a warp, several groups share one; more are a whole block.

    With `rows_across`, neighbours belong to different rows: thread t works on row t % rows_across. With a `cluster` of
    so many blocks, `threads` of each of them work on a row, and `reductions` is the number of all-reduces a row. If
    `dynamic`, the group is a line of the block (tid.y), of `threads` at most: part of a warp, or whole warps. If
    `persistent`, the group processes row after row, one of `groups` groups in such blocks.
    """

    threads: int
    rows_across: int = 0
    cluster: int = 1
    reductions: int = 0
    dynamic: bool = False
    groups: int = 1
    persistent: bool = False

    @property
    def barrier_slots(self) -> int:
        """Slots of shared memory per all-reduce; persistent groups alternate between two."""
        return 2 * self.groups if self.persistent else 1

    def cluster_init(self) -> Callable:
        """`cluster_init()`: initialise the mbarriers and arrive at the cluster barrier; does not wait."""
        return cluster.cluster_init(self.reductions * self.barrier_slots)

    @emitted(lambda rule_of: rule_of.merge.result, lambda self: 1 + (self.cluster > 1) + self.persistent)
    def all_reduce(self, e, *values, rule_of: ReduceOp):
        """`all_reduce(state)`: the states of all threads of the row combined, the same bits in each of them.

        In a cluster `all_reduce(number, state)`, with the number of the row's all-reduce; in a persistent group
        `all_reduce(number, iteration, state)`, with the number of rows done before.
        """
        state = state_of(e, rule_of, values[-1])
        if self.dynamic:
            along = self._along_part if self.threads < WARP else self._along_warps
            return along(e, rule_of, state)
        if self.rows_across:
            return self._through_shared(e, rule_of, state, self.rows_across)
        state = self._through_shuffles(e, rule_of, state)
        if self.cluster > 1:
            state = self._through_cluster(e, rule_of, state, values[0], values[1] if self.persistent else None)
        elif self.threads > WARP:
            state = self._through_shared(e, rule_of, state, 0)
        return state

    def _through_shuffles(self, e: Emitter, rule_of: ReduceOp, state: State) -> State:
        """Lane 0 of each segment merges all, in order; then its segment gets a copy."""
        lanes = min(self.threads, WARP)
        distance = lanes // 2
        while distance:
            state = rule_of.merge.emit(e, state + [shuffle(e, "down", part, distance, lanes) for part in state])
            distance //= 2
        if lanes == 1 or self.threads > WARP:  # a block takes lane 0's state from shared memory
            return state
        return [shuffle(e, "idx", part, 0, lanes) for part in state]

    def _through_shared(self, e: Emitter, rule_of: ReduceOp, state: State, across: int) -> State:
        """Groups of threads leave a state each in shared memory; then every thread merges them all, in order."""
        b, groups = e.builder, self.threads if across else self.threads // WARP
        if groups == 1:
            return state
        thread = e.special_register("tid.x")
        spread = across or 1
        arrays = [e.shared_array(shared_type(part), groups * spread) for part in state]
        if across:
            self._store_state(e, arrays, state, thread)
        else:
            with b.if_then(b.icmp_unsigned("==", b.and_(thread, I32(WARP - 1)), I32(0))):
                self._store_state(e, arrays, state, b.lshr(thread, I32(5)))
        e.barrier()
        if len(state) > FEW_VALUES and not across:  # each lane takes one state, and the lanes of every warp merge them
            slot = b.and_(thread, I32(groups - 1))
            values = [b.load(b.gep(array, [slot])) for array in arrays]
            own = [b.trunc(v, I1) if s.type == I1 else v for v, s in zip(values, state)]
            return ThreadGroup(groups)._through_shuffles(e, rule_of, own)
        lane = b.urem(thread, I32(across)) if across else I32(0)
        states = []
        for group in range(groups):
            slot = b.add(lane, I32(group * spread))
            states.append(self._left(e, arrays, state, slot))
        return rule_of.tree(e, states)

    def _along_part(self, e: Emitter, rule_of: ReduceOp, state: State) -> State:
        """The same where only the launch knows how many lanes a segment has."""
        b, side, distance = e.builder, e.special_register("ntid.x"), self.threads // 2
        while distance:
            others = [shuffle(e, "down", part, distance, side) for part in state]
            merged, more = rule_of.merge.emit(e, state + others), b.icmp_unsigned(">", side, I32(distance))
            state = [b.select(more, combined, part) for combined, part in zip(merged, state)]
            distance //= 2
        return [shuffle(e, "idx", part, 0, side) for part in state]

    def _along_warps(self, e: Emitter, rule_of: ReduceOp, state: State) -> State:
        """Where it knows how many warps there are: one has the state, of several each lane takes that of one."""
        b, side, thread = e.builder, e.special_register("ntid.x"), e.special_register("tid.x")
        groups = self.threads // WARP
        state = ThreadGroup(2 * WARP)._through_shuffles(e, rule_of, state)
        arrays = [e.shared_array(shared_type(part), groups) for part in state]
        lane = b.and_(thread, I32(WARP - 1))
        with b.if_else(b.icmp_unsigned(">", side, I32(WARP))) as (many_warps, one_warp):
            with many_warps:
                with b.if_then(b.icmp_unsigned("==", lane, I32(0))):
                    self._store_state(e, arrays, state, b.lshr(thread, I32(5)))
                e.barrier()
                slot, empty = b.and_(lane, I32(groups - 1)), rule_of.empty.emit(e, [])
                in_bounds = b.icmp_unsigned("<", slot, b.lshr(side, I32(5)))
                parts = self._left(e, arrays, state, b.select(in_bounds, slot, I32(0)))
                parts = [b.select(in_bounds, part, none) for part, none in zip(parts, empty)]
                merged, after_several = ThreadGroup(groups)._through_shuffles(e, rule_of, parts), b.block
            with one_warp:
                own, after_one = [shuffle(e, "idx", part, 0, WARP) for part in state], b.block
        return e.phi((merged, after_several), (own, after_one))

    def _through_cluster(
        self, e: Emitter, rule_of: ReduceOp, state: State, number: ir.Value, turn: ir.Value | None
    ) -> State:
        """Each warp leaves its state in the shared memory of all blocks; then each warp merges them all, in order.

        A fold has shared memory of its own, so nothing is written there again, and no block ends before it has what all
        others send: a block that is written to is still alive. Persistent groups write there in every other
        iteration: the states of the iteration between say that all have read it.
        """
        b, warps = e.builder, max(1, self.threads // WARP)
        thread, rank = e.special_register("tid.x"), b.and_(e.special_register("ctaid.x"), I32(self.cluster - 1))
        count, kinds = warps * self.cluster, [part.type for part in state]
        arrays = [e.shared_array(cluster.sent_type(kind), count * self.barrier_slots) for kind in kinds]
        parity, begin = None, None
        if turn is not None:
            turn = turn if turn.type == I32 else b.trunc(turn, I32)
            of_turn = b.and_(turn, I32(1))
            of_team = b.lshr(thread, I32(self.threads.bit_length() - 1))
            thread = b.and_(thread, I32(self.threads - 1))
            own = b.add(b.mul(of_team, I32(2)), of_turn)
            parity, begin = b.and_(b.lshr(turn, I32(1)), I32(1)), b.mul(own, I32(count))
            number = b.add(b.mul(number if number.type == I32 else b.trunc(number, I32), I32(self.barrier_slots)), own)
        lane, warp = b.and_(thread, I32(WARP - 1)), b.lshr(thread, I32(5))
        barrier = cluster.cluster_mbarrier(e, self.reductions * self.barrier_slots, number)
        state = [shuffle(e, "idx", part, 0, WARP) for part in state]
        slot = b.add(b.mul(rank, I32(warps)), warp)
        slot = slot if begin is None else b.add(begin, slot)
        with b.if_then(b.icmp_unsigned("==", thread, I32(0))):
            cluster.mbarrier_expect_tx(e, barrier, count * sum(map(cluster.sent_bytes, kinds)))
        with b.if_then(b.icmp_unsigned("<", lane, I32(self.cluster))):
            for array, part in zip(arrays, state):
                cluster.st_async(e, b.gep(array, [slot]), part, barrier, lane)
        cluster.mbarrier_wait(e, barrier, parity)
        lanes = min(count, WARP)
        each, first = count // lanes, b.mul(b.and_(lane, I32(lanes - 1)), I32(count // lanes))
        first = first if begin is None else b.add(begin, first)
        states = [self._left(e, arrays, state, b.add(first, I32(k))) for k in range(each)]
        return ThreadGroup(lanes)._through_shuffles(e, rule_of, rule_of.tree(e, states))

    def _left(self, e: Emitter, arrays: list[ir.Value], like: State, index: ir.Value) -> State:
        """The state at a place of shared memory."""
        b = e.builder
        values = [b.load(b.gep(array, [index])) for array in arrays]
        return [b.trunc(v, p.type) if p.type != v.type else v for v, p in zip(values, like)]

    def _store_state(self, e: Emitter, arrays: list[ir.Value], state: State, index: ir.Value) -> None:
        for array, part in zip(arrays, state):
            value = e.builder.zext(part, I8) if part.type == I1 else part
            e.builder.store(value, e.builder.gep(array, [index]))


def shared_type(part: ir.Value) -> ir.Type:
    return I8 if part.type == I1 else part.type
