"""Folding: the elements of a thread in a balanced tree, then the threads of a row, always in the same order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....ir.types import DType, dtype
from ..backend import F32, I1, I8, I32, I64, Emitter, ScalarFunction, intrinsic, ir, types
from ..convert import widen
from . import cluster
from .element import unpaired
from .memory import Room
from .scalar import scalar_function, scalar_types
from .tile import Tile

WARP = 32
UNSIGNED, SIGNED_FROM = 0x7FFF7FFF, (8, 6)  # a pair without its signs; what compares magnitudes of pairs as they are
FEW_VALUES = 2  # of a state, of which a thread may read those of all warps at once
State = list[ir.Value]


@dataclass(frozen=True)
class Fold:
    """How two states merge, and the state of no elements; how one of later elements merges, if there is a short way."""

    merge: ScalarFunction
    empty: ScalarFunction
    follow: ScalarFunction | None = None

    @property
    def state(self) -> tuple[types.Type, ...]:
        return self.empty.results

    def tree(self, e: Emitter, states: list[State], ordered: bool = False) -> State:
        """Neighbours merged pairwise until one is left; `ordered`: as the elements are, empty ones last."""
        merge = self.follow if ordered and self.follow else self.merge
        while len(states) > 1:
            merged = [merge.emit(e, a + b) for a, b in zip(states[::2], states[1::2])]
            states = merged + ([states[-1]] if len(states) % 2 else [])
        return states[0]


def fold(state: str, merge: Callable, empty: Callable, follow: Callable | None = None) -> Fold:
    """A fold over states of these types, e.g. "float32, int64"; merge(a…, b…), follow(a…, b…), empty() return one."""
    names = ", ".join(d.name for d in scalar_types(f"{state} -> {state}")[0])
    merging = f"{names}, {names} -> {names}"
    following = scalar_function(merging, follow) if follow else None
    return Fold(scalar_function(merging, merge), scalar_function(f"-> {names}", empty), following)


def fold_tile(tile: Tile, rule_of: Fold) -> Callable:
    """`fold(lifted…, start, limit)`: the state of the elements of a thread's tile that are there."""
    parts = len(rule_of.state)

    def rule(*kinds):
        def emit(e, *values):
            columns = [column_of(e, tile, v, k, w) for v, k, w in zip(values, kinds, rule_of.state)]
            rooms = tile.room_of(e, kinds[-2], *values[-2:])
            empty = rule_of.empty.emit(e, []) if any(rooms) else []
            states = []
            for number, room in enumerate(rooms):
                elements = [[column[number * tile.width + k] for column in columns] for k in range(tile.width)]
                states.append(_vector(e, rule_of, elements, room, empty))
            return e.pack(rule_of.merge.result, rule_of.tree(e, states, from_first(rooms)))

        return rule_of.merge.result, emit

    return intrinsic(parts + 2)(rule)


def fold_pairs(tile: Tile, rule_of: Fold, order: str, name: str, magnitudes: bool = False) -> Callable:
    """`fold(words, start, limit)`: the "max" or "min" of a tile of 16-bit floats, or of their `magnitudes`, compared in
    pairs as they are held.

    For tiles whose vectors are there or not as one.
    """
    kind = dtype(name)

    def rule(*kinds):
        def emit(e, tile_words, start, limit):
            words, per_vector = e.unpack(tile_words, tile.count // 2), tile.width // 2
            signed = magnitudes and e.cc >= SIGNED_FROM
            if magnitudes and not signed:
                words = [e.builder.and_(word, I32(UNSIGNED)) for word in words]
            if e.cc < (8, 0):
                found = [[widen(e, half, name)] for half in unpaired(e, kind, words, tile.width)]
                step = tile.width
            else:
                found, step = [[word] for word in words], per_vector
            none = _nothing(e, kind, order, found[0][0], magnitudes)
            states = []
            for number, room in enumerate(tile.room_of(e, kinds[-2], start, limit)):
                vector = found[number * step : (number + 1) * step]
                if room is not None:
                    there = room.holds(e.builder, 0)
                    vector = [[e.builder.select(there, one, none)] for (one,) in vector]
                states += vector
            if e.cc < (8, 0):
                return rule_of.tree(e, states)[0]
            how = f"{order}.NaN{'.xorsign.abs' * signed}"  # of magnitudes, with a sign that is of no use
            text = f"{how}.{'bf16x2' if name == 'bfloat16' else 'f16x2'} $0, $1, $2;"
            pairs = [word for (word,) in states]
            while len(pairs) > 1:
                merged = [e.asm(I32, text, "=r,r,r", [a, b]) for a, b in zip(pairs[::2], pairs[1::2])]
                pairs = merged + ([pairs[-1]] if len(pairs) % 2 else [])
            pairs = [e.builder.and_(pairs[0], I32(UNSIGNED))] if signed else pairs
            halves = [[widen(e, half, name)] for half in unpaired(e, kind, pairs, 2)]
            return rule_of.tree(e, halves)[0]

        return rule_of.merge.result, emit

    return intrinsic(3)(rule)


def _nothing(e: Emitter, kind: DType, order: str, like: ir.Value, magnitudes: bool) -> ir.Value:
    """What no element changes: an infinity, or two of them in the halves of a word; no magnitude is less than 0."""
    if magnitudes and order == "max":
        return like.type(0)
    if like.type == F32:
        return ir.Constant(F32, float("-inf") if order == "max" else float("inf"))
    half = (0x7F80 if kind.name == "bfloat16" else 0x7C00) | (0x8000 if order == "max" else 0)
    return I32(half << 16 | half)


def _vector(e: Emitter, rule_of: Fold, elements: list[State], room: Room | None, empty: State) -> State:
    """The state of a vector's elements that are there; one that is there or not as a whole is checked once."""

    def kept(state: State, element: int) -> State:
        assert room is not None
        there = room.holds(e.builder, element)
        return [e.builder.select(there, one, none) for one, none in zip(state, empty)]

    if room is not None and room.split:
        return rule_of.tree(e, [kept(state, k) for k, state in enumerate(elements)], room.skip is None)
    state = rule_of.tree(e, elements, ordered=True)
    return state if room is None else kept(state, 0)


def from_first(rooms: Sequence[Room | None]) -> bool:
    """Is the first element of a tile there wherever any is?"""
    return all(room is None or room.skip is None for room in rooms)


def column_of(e: Emitter, tile: Tile, value: ir.Value, kind: types.Type, want: types.Type) -> State:
    if isinstance(kind, types.BaseTuple):
        return [e.cast(part, kind.dtype, want) for part in e.unpack(value, tile.count)]
    return [e.cast(value, kind, want)] * tile.count


def empty_state(rule_of: Fold) -> Callable:
    """`empty()`: the state of no elements."""

    def rule():
        return rule_of.merge.result, lambda e: e.pack(rule_of.merge.result, rule_of.empty.emit(e, []))

    return intrinsic(0)(rule)


def merge_states(rule_of: Fold) -> Callable:
    """`merge(a, b)`: two states as one."""
    result = rule_of.merge.result

    def rule(a, b):
        def emit(e, x, y):
            return e.pack(result, rule_of.merge.emit(e, state_of(e, rule_of, x) + state_of(e, rule_of, y)))

        return result, emit

    return intrinsic(2)(rule)


def state_of(e: Emitter, rule_of: Fold, value: ir.Value) -> State:
    """The parts of a state."""
    return [value] if len(rule_of.state) == 1 else e.unpack(value, len(rule_of.state))


@dataclass(frozen=True)
class Team:
    """The threads of a row: `threads` neighbours (up to a warp share it with other rows; more are a block).

    Where `across`, neighbours belong to different rows instead, `across` to a block: thread t works on row t % across.
    Where there is a `cluster` of so many blocks, `threads` of each of them work on the row, and join `meetings` times.
    Where they are a `line` of the block, there are no more than `threads`: a part of a warp, or if that is more than a
    warp has, whole warps.
    Where it `stays`, it works on row after row, beside other teams of such blocks: `teams` in all.
    """

    threads: int
    across: int = 0
    cluster: int = 1
    meetings: int = 0
    line: bool = False
    teams: int = 1
    stays: bool = False

    @property
    def places(self) -> int:
        """Where the states of a meeting stand in a block; of teams that stay, those of two turns."""
        return 2 * self.teams if self.stays else 1

    def enter(self) -> Callable:
        """`enter()`: before anything else, tell the blocks of the cluster that this one runs."""
        return cluster.enter(self.meetings * self.places)

    def join(self, rule_of: Fold) -> Callable:
        """`join(state)`: the states of all threads of the row merged, the same bits in each of them.

        In a cluster `join(meeting, state)`, with the number of the row's meeting; `join(meeting, turn, state)` of a
        team that stays, with the number of rows that it has done.
        """
        result = rule_of.merge.result

        def rule(*kinds):
            def emit(e, *values):
                state = state_of(e, rule_of, values[-1])
                if self.line:
                    along = self._along_part if self.threads < WARP else self._along_warps
                    return e.pack(result, along(e, rule_of, state))
                if self.across:
                    return e.pack(result, self._through_shared(e, rule_of, state, self.across))
                state = self._through_shuffles(e, rule_of, state)
                if self.cluster > 1:
                    state = self._through_cluster(e, rule_of, state, values[0], values[1] if self.stays else None)
                elif self.threads > WARP:
                    state = self._through_shared(e, rule_of, state, 0)
                return e.pack(result, state)

            return result, emit

        return intrinsic(1 + (self.cluster > 1) + self.stays)(rule)

    def _through_shuffles(self, e: Emitter, rule_of: Fold, state: State) -> State:
        """Lane 0 of each segment merges all, in order; then its segment gets a copy."""
        lanes = min(self.threads, WARP)
        distance = lanes // 2
        while distance:
            state = rule_of.merge.emit(e, state + [shuffle(e, "down", part, distance, lanes) for part in state])
            distance //= 2
        if lanes == 1 or self.threads > WARP:  # a block takes lane 0's state from shared memory
            return state
        return [shuffle(e, "idx", part, 0, lanes) for part in state]

    def _through_shared(self, e: Emitter, rule_of: Fold, state: State, across: int) -> State:
        """Groups of threads leave a state each in shared memory; then every thread merges them all, in order."""
        b, groups = e.builder, self.threads if across else self.threads // WARP
        if groups == 1:
            return state
        thread = e.special_register("tid.x")
        spread = across or 1
        arrays = [e.shared_array(shared_type(part), groups * spread) for part in state]
        if across:
            self._leave(e, arrays, state, thread)
        else:
            with b.if_then(b.icmp_unsigned("==", b.and_(thread, I32(WARP - 1)), I32(0))):
                self._leave(e, arrays, state, b.lshr(thread, I32(5)))
        e.barrier()
        if len(state) > FEW_VALUES and not across:  # … or each lane takes one, and the lanes of every warp merge them
            place = b.and_(thread, I32(groups - 1))
            values = [b.load(b.gep(array, [place])) for array in arrays]
            mine = [b.trunc(v, I1) if s.type == I1 else v for v, s in zip(values, state)]
            return Team(groups)._through_shuffles(e, rule_of, mine)
        lane = b.urem(thread, I32(across)) if across else I32(0)
        found = []
        for group in range(groups):
            place = b.add(lane, I32(group * spread))
            found.append(self._left(e, arrays, state, place))
        return rule_of.tree(e, found)

    def _along_part(self, e: Emitter, rule_of: Fold, state: State) -> State:
        """The same where only the launch knows how many lanes a segment has."""
        b, side, distance = e.builder, e.special_register("ntid.x"), self.threads // 2
        while distance:
            others = [shuffle(e, "down", part, distance, side) for part in state]
            merged, more = rule_of.merge.emit(e, state + others), b.icmp_unsigned(">", side, I32(distance))
            state = [b.select(more, one, part) for one, part in zip(merged, state)]
            distance //= 2
        return [shuffle(e, "idx", part, 0, side) for part in state]

    def _along_warps(self, e: Emitter, rule_of: Fold, state: State) -> State:
        """Where it knows how many warps there are: one has the state, of several each lane takes that of one."""
        b, side, thread = e.builder, e.special_register("ntid.x"), e.special_register("tid.x")
        groups = self.threads // WARP
        state = Team(2 * WARP)._through_shuffles(e, rule_of, state)
        arrays = [e.shared_array(shared_type(part), groups) for part in state]
        lane = b.and_(thread, I32(WARP - 1))
        with b.if_else(b.icmp_unsigned(">", side, I32(WARP))) as (several, one):
            with several:
                with b.if_then(b.icmp_unsigned("==", lane, I32(0))):
                    self._leave(e, arrays, state, b.lshr(thread, I32(5)))
                e.barrier()
                place, empty = b.and_(lane, I32(groups - 1)), rule_of.empty.emit(e, [])
                there = b.icmp_unsigned("<", place, b.lshr(side, I32(5)))
                found = self._left(e, arrays, state, b.select(there, place, I32(0)))
                found = [b.select(there, part, none) for part, none in zip(found, empty)]
                merged, after_several = Team(groups)._through_shuffles(e, rule_of, found), b.block
            with one:
                own, after_one = [shuffle(e, "idx", part, 0, WARP) for part in state], b.block
        joined = []
        for part, other in zip(merged, own):
            either = b.phi(part.type)
            either.add_incoming(part, after_several)
            either.add_incoming(other, after_one)
            joined.append(either)
        return joined

    def _through_cluster(
        self, e: Emitter, rule_of: Fold, state: State, number: ir.Value, turn: ir.Value | None
    ) -> State:
        """Each warp leaves its state in the shared memory of all blocks; then each warp merges them all, in order.

        A fold has shared memory of its own, so nothing is written there again, and no block ends before it has what all
        others send: whoever writes into a block finds it alive. Teams that stay write there in every other turn: what
        comes in the turn between them says that all have read it.
        """
        b, warps = e.builder, max(1, self.threads // WARP)
        thread, rank = e.special_register("tid.x"), b.and_(e.special_register("ctaid.x"), I32(self.cluster - 1))
        count, kinds = warps * self.cluster, [part.type for part in state]
        arrays = [e.shared_array(cluster.sent_type(kind), count * self.places) for kind in kinds]
        parity, begin = None, None
        if turn is not None:
            turn = turn if turn.type == I32 else b.trunc(turn, I32)
            of_turn = b.and_(turn, I32(1))
            of_team = b.lshr(thread, I32(self.threads.bit_length() - 1))
            thread = b.and_(thread, I32(self.threads - 1))
            own = b.add(b.mul(of_team, I32(2)), of_turn)
            parity, begin = b.and_(b.lshr(turn, I32(1)), I32(1)), b.mul(own, I32(count))
            number = b.add(b.mul(number if number.type == I32 else b.trunc(number, I32), I32(self.places)), own)
        lane, warp = b.and_(thread, I32(WARP - 1)), b.lshr(thread, I32(5))
        barrier = cluster.meeting(e, self.meetings * self.places, number)
        state = [shuffle(e, "idx", part, 0, WARP) for part in state]
        place = b.add(b.mul(rank, I32(warps)), warp)
        place = place if begin is None else b.add(begin, place)
        with b.if_then(b.icmp_unsigned("==", thread, I32(0))):
            cluster.expect(e, barrier, count * sum(map(cluster.sent_bytes, kinds)))
        with b.if_then(b.icmp_unsigned("<", lane, I32(self.cluster))):
            for array, part in zip(arrays, state):
                cluster.send(e, b.gep(array, [place]), part, barrier, lane)
        cluster.wait(e, barrier, parity)
        lanes = min(count, WARP)
        each, first = count // lanes, b.mul(b.and_(lane, I32(lanes - 1)), I32(count // lanes))
        first = first if begin is None else b.add(begin, first)
        found = [self._left(e, arrays, state, b.add(first, I32(k))) for k in range(each)]
        return Team(lanes)._through_shuffles(e, rule_of, rule_of.tree(e, found))

    def _left(self, e: Emitter, arrays: list[ir.Value], like: State, place: ir.Value) -> State:
        """The state at a place of shared memory."""
        b = e.builder
        values = [b.load(b.gep(array, [place])) for array in arrays]
        return [b.trunc(v, p.type) if p.type != v.type else v for v, p in zip(values, like)]

    def _leave(self, e: Emitter, arrays: list[ir.Value], state: State, place: ir.Value) -> None:
        for array, part in zip(arrays, state):
            value = e.builder.zext(part, I8) if part.type == I1 else part
            e.builder.store(value, e.builder.gep(array, [place]))


def shared_type(part: ir.Value) -> ir.Type:
    return I8 if part.type == I1 else part.type


def shuffle(e: Emitter, mode: str, value: ir.Value, distance: int, lanes: int | ir.Value) -> ir.Value:
    """Another lane's value, within segments of `lanes` (an int32 where the launch says how many)."""
    b, kind = e.builder, value.type
    bits = 64 if kind in (I64, ir.DoubleType()) else 32
    if isinstance(kind, ir.IntType) and kind.width < 32:
        word = b.zext(value, I32)
    else:
        word = b.bitcast(value, ir.IntType(bits))
    if isinstance(lanes, int):
        clamp, known = str(((WARP - lanes) << 8) | (0 if mode == "up" else WARP - 1)), []
    else:
        first = b.shl(b.sub(I32(WARP), lanes), I32(8))
        clamp, known = "$2", [b.or_(first, I32(0 if mode == "up" else WARP - 1))]
    pieces = [word] if bits == 32 else [b.trunc(word, I32), b.trunc(b.lshr(word, I64(32)), I32)]
    text = f"shfl.sync.{mode}.b32 $0, $1, {distance}, {clamp}, 0xffffffff;"
    moved = [e.asm(I32, text, "=r,r" + ",r" * len(known), [piece, *known], effect=True) for piece in pieces]
    if bits == 64:
        return b.bitcast(b.or_(b.zext(moved[0], I64), b.shl(b.zext(moved[1], I64), I64(32))), kind)
    if isinstance(kind, ir.IntType) and kind.width < 32:
        return b.trunc(moved[0], kind)
    return b.bitcast(moved[0], kind)
