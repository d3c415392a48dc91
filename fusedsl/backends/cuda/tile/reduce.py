"""Reductions: combine functions, and the balanced tree over a thread's elements, always in the same order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....ir.types import DType, dtype
from ..compiler.numba_backend import F32, I32, Emitter, ScalarFunction, emitted, ir, types
from ..math.convert import widen
from .element import unpaired
from .scalar_functions import elements_of, scalar_function, scalar_types
from .tile import Tile
from .valid_elements import ValidElements

UNSIGNED = 0x7FFF7FFF  # the mask of a pair without its signs
XORSIGN_FROM = (8, 6)  # the compute capability from which min and max have .xorsign.abs
State = list[ir.Value]


@dataclass(frozen=True)
class ReduceOp:
    """Reduction operator: combine two states (`merge`), identity (`empty`), combine a later element (`follow`)."""

    merge: ScalarFunction
    empty: ScalarFunction
    follow: ScalarFunction | None = None

    @property
    def state(self) -> tuple[types.Type, ...]:
        return self.empty.results

    def tree(self, e: Emitter, states: list[State], ordered: bool = False) -> State:
        """Combine neighbours pairwise until one state is left; `ordered`: in element order, identities last."""
        merge = self.follow if ordered and self.follow else self.merge
        while len(states) > 1:
            merged = [merge.emit(e, a + b) for a, b in zip(states[::2], states[1::2])]
            states = merged + ([states[-1]] if len(states) % 2 else [])
        return states[0]


def reduction(state: str, merge: Callable, empty: Callable, follow: Callable | None = None) -> ReduceOp:
    """A fold over states of these types, e.g. "float32, int64"; merge(a…, b…), follow(a…, b…), empty() return one."""
    names = ", ".join(d.name for d in scalar_types(f"{state} -> {state}")[0])
    merging = f"{names}, {names} -> {names}"
    following = scalar_function(merging, follow) if follow else None
    return ReduceOp(scalar_function(merging, merge), scalar_function(f"-> {names}", empty), following)


@emitted(lambda rule_of: rule_of.merge.result, lambda rule_of: len(rule_of.state) + 2)
def reduce_tile(e, *values, kinds, tile: Tile, rule_of: ReduceOp):
    """`reduce_tile(lifted…, start, limit)`: the state of the valid elements of a thread's tile."""
    columns = [column_of(e, tile, v, k, w) for v, k, w in zip(values, kinds, rule_of.state)]
    rooms = tile.valid_of(e, kinds[-2], *values[-2:])
    empty = rule_of.empty.emit(e, []) if any(rooms) else []
    states = []
    for number, room in enumerate(rooms):
        elements = [[column[number * tile.width + k] for column in columns] for k in range(tile.width)]
        states.append(_vector(e, rule_of, elements, room, empty))
    return e.pack(rule_of.merge.result, rule_of.tree(e, states, from_first(rooms)))


def reduce_packed(tile: Tile, rule_of: ReduceOp, order: str, name: str, absolute: bool = False) -> Callable:
    """`reduce_packed(words, start, limit)`: the "max" or "min" of a tile of packed 16-bit floats.

    If `absolute`, it is that of their absolute values. Instructions f16x2 or bf16x2 compare two elements at a time.
    A vector of the tile exists as a whole or not at all.
    """
    kind = dtype(name)

    @emitted(rule_of.merge.result)
    def emit(e, tile_words, start, limit, *, kinds):
        words, per_vector = e.unpack(tile_words, tile.count // 2), tile.width // 2
        signed = absolute and e.cc >= XORSIGN_FROM
        if absolute and not signed:
            words = [e.builder.and_(word, I32(UNSIGNED)) for word in words]
        if e.cc < (8, 0):
            words_of_vectors = [[widen(e, half, name)] for half in unpaired(e, kind, words, tile.width)]
            step = tile.width
        else:
            words_of_vectors, step = [[word] for word in words], per_vector
        identity = _identity(e, kind, order, words_of_vectors[0][0], absolute)
        states = []
        for number, room in enumerate(tile.valid_of(e, kinds[-2], start, limit)):
            vector = words_of_vectors[number * step : (number + 1) * step]
            if room is not None:
                in_bounds = room.has(e.builder, 0)
                vector = [[e.builder.select(in_bounds, part, identity)] for (part,) in vector]
            states += vector
        if e.cc < (8, 0):
            return rule_of.tree(e, states)[0]
        how = f"{order}.NaN{'.xorsign.abs' * signed}"  # xorsign.abs compares absolute values; the sign is masked below
        text = f"{how}.{'bf16x2' if name == 'bfloat16' else 'f16x2'} $0, $1, $2;"
        pairs = [word for (word,) in states]
        while len(pairs) > 1:
            merged = [e.asm(I32, text, "=r,r,r", [a, b]) for a, b in zip(pairs[::2], pairs[1::2])]
            pairs = merged + ([pairs[-1]] if len(pairs) % 2 else [])
        pairs = [e.builder.and_(pairs[0], I32(UNSIGNED))] if signed else pairs
        halves = [[widen(e, half, name)] for half in unpaired(e, kind, pairs, 2)]
        return rule_of.tree(e, halves)[0]

    return emit


def _identity(e: Emitter, kind: DType, order: str, like: ir.Value, absolute: bool) -> ir.Value:
    """The identity: an infinity, or two of them in the halves of a word; 0 for the maximum of absolute values."""
    if absolute and order == "max":
        return like.type(0)
    if like.type == F32:
        return ir.Constant(F32, float("-inf") if order == "max" else float("inf"))
    half = (0x7F80 if kind.name == "bfloat16" else 0x7C00) | (0x8000 if order == "max" else 0)
    return I32(half << 16 | half)


def _vector(e: Emitter, rule_of: ReduceOp, elements: list[State], room: ValidElements | None, empty: State) -> State:
    """The state of a vector's elements that are there; one that is there or not as a whole is checked once."""

    def masked(state: State, element: int) -> State:
        assert room is not None
        in_bounds = room.has(e.builder, element)
        return [e.builder.select(in_bounds, part, none) for part, none in zip(state, empty)]

    if room is not None and room.partial:
        return rule_of.tree(e, [masked(state, k) for k, state in enumerate(elements)], room.skip is None)
    state = rule_of.tree(e, elements, ordered=True)
    return state if room is None else masked(state, 0)


def from_first(rooms: Sequence[ValidElements | None]) -> bool:
    """Is the first element of a tile there wherever any is?"""
    return all(room is None or room.skip is None for room in rooms)


def column_of(e: Emitter, tile: Tile, value: ir.Value, kind: types.Type, want: types.Type) -> State:
    return elements_of(e, value, kind, want, tile.count)


@emitted(lambda rule_of: rule_of.merge.result)
def identity_state(e, *, rule_of: ReduceOp):
    """`empty()`: the state of no elements."""
    return rule_of.empty.emit(e, [])


@emitted(lambda rule_of: rule_of.merge.result)
def combine_states(e, x, y, *, rule_of: ReduceOp):
    """`merge(a, b)`: two states as one."""
    return rule_of.merge.emit(e, state_of(e, rule_of, x) + state_of(e, rule_of, y))


def state_of(e: Emitter, rule_of: ReduceOp, value: ir.Value) -> State:
    """The parts of a state."""
    return [value] if len(rule_of.state) == 1 else e.unpack(value, len(rule_of.state))
