"""Intrinsics of maps whose vectors cross the ends of rows."""

from __future__ import annotations

from ....ir.types import dtype
from ..compiler.numba_backend import I32, I64, Emitter, emitted, ir, types
from ..tile.element import paired
from ..tile.element_registers import stored_type
from ..tile.memory import load_vector
from ..tile.thread_index import quotient
from ..tile.tile import Tile


@emitted(lambda tile, name: stored_type(dtype(name), tile.count, tile.width))
def load_each(e, address, offsets, *, tile: Tile, name: str):
    """`load(address, offsets)`: an element at each of these offsets, in elements, all of which exist."""
    kind = dtype(name)
    b, elements = e.builder, []
    for offset in e.unpack(offsets, tile.count):
        at = b.add(address, b.mul(b.sext(offset, I64), I64(kind.itemsize)))
        elements += load_vector(e, kind, 1, at, None)
    vectors = [elements[k : k + tile.width] for k in range(0, tile.count, tile.width)]
    return [value for vector in vectors for value in paired(e, kind, vector)]


@emitted(
    lambda tile, axes: types.UniTuple(types.UniTuple(types.int32, tile.count), axes),
    lambda axes: 2 * axes,
)
def positions_in_order(e, start, *sizes, kinds, tile: Tile, axes: int):
    """`positions(start, n0, n1, magic1, n2, magic2, …)`: by axes, where the elements of a tile are among all in order.

    A vector's first element is found by division; the next one is one further, and begins a row where one ends. Beyond
    the last row is the last.
    """
    extents, magics = [sizes[0], *sizes[1::2]], [None, *sizes[2::2]]
    positions: list[list[ir.Value]] = []
    for first in tile.starts(e, kinds[0], start):
        position = _split(e, first, extents, magics)
        for _ in range(tile.width):
            positions.append([_at_most(e, position[0], extents[0]), *position[1:]])
            position = _next(e, position, extents)
    return [[position[axis] for position in positions] for axis in range(axes)]


def _split(e: Emitter, number: ir.Value, extents: list, magics: list) -> list[ir.Value]:
    """The position on each axis of the element with this number."""
    b, position, rest = e.builder, [], number
    for extent, magic in zip(extents[:0:-1], magics[:0:-1]):
        whole = quotient(b, rest, magic)
        position.append(b.sub(rest, b.mul(whole, extent)))
        rest = whole
    return [rest, *reversed(position)]


def _next(e: Emitter, position: list[ir.Value], extents: list) -> list[ir.Value]:
    """The position of the next element in order."""
    b, after, carry = e.builder, [], I32(1)
    for here, extent in zip(reversed(position[1:]), reversed(extents[1:])):
        further = b.add(here, carry)
        full = b.icmp_signed("==", further, extent)
        after.append(b.select(full, I32(0), further))
        carry = b.zext(full, I32)
    return [b.add(position[0], carry), *reversed(after)]


def _at_most(e: Emitter, position: ir.Value, extent: ir.Value) -> ir.Value:
    last = e.builder.sub(extent, I32(1))
    return e.builder.select(e.builder.icmp_signed("<", position, last), position, last)
