"""Records of partial states of columns: their places, stores and loads."""

from __future__ import annotations

from ..compiler.numba_backend import I1, I8, Emitter, ir, types
from ..tile.reduce import State
from ..tile.tile import Tile


def slots_of(levels: int) -> int:
    """Slots of shared memory, each for one state of every kept element, that joining so many levels takes."""
    slots = levels
    while levels > DIRECT:
        levels //= min(ROUND, levels)
        slots += levels
    return slots


def write_part(e: Emitter, columns: list[ir.Value], index: ir.Value, state: State) -> None:
    b = e.builder
    for column, part in zip(columns, state):
        b.store(b.zext(part, I8) if part.type == I1 else part, b.gep(column, [index]))


def read_part(e: Emitter, columns: list[ir.Value], index: ir.Value, kinds: list[ir.Type]) -> State:
    b = e.builder
    values = [b.load(b.gep(column, [index])) for column in columns]
    return [b.trunc(value, I1) if kind == I1 else value for value, kind in zip(values, kinds)]


def tile_of(e: Emitter, tile: Tile, value: ir.Value, kind: types.Type, want: types.Type) -> list[ir.Value]:
    """An element for each place of a tile, from a tile, from one vector for all vectors, or from one value."""
    if not isinstance(kind, types.BaseTuple):
        return [e.cast(value, kind, want)] * tile.count
    elements = [e.cast(part, kind.dtype, want) for part in e.unpack(value, len(kind))]
    return elements * (tile.count // len(elements))


ROUND, DIRECT = 8, 2  # states that one thread merges for all; states that every thread merges itself
