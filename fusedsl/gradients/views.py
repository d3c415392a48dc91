"""Cotangents of views: a reshape back, the inverse transpose, sums of what was repeated, zeros around a slice."""

from __future__ import annotations

from ..ir import shapes
from ..ir.builder import GraphBuilder
from ..ir.dims import Dim
from ..ir.gathers import GUARDED, at_position, before_axes, in_range
from ..ir.graph import Node
from ..ir.index_keys import basic_index, whole_axis
from .unbroadcast import masked


def of_view(b: GraphBuilder, n: Node, g: Node) -> Node:
    """The cotangent of a view's argument; one of a broadcast is summed by its caller."""
    x = n.args[0]
    if n.op == "transpose":
        return shapes.transpose(b, g, tuple(n.attr.index(a) for a in range(len(n.attr))))
    if n.op == "reshape":
        return shapes.reshape(b, g, x.type.shape)
    return g if n.op == "broadcast" else _of_index(b, n, g)


def _of_index(b: GraphBuilder, n: Node, g: Node) -> Node:
    """Zeros, but for the elements that a basic index selects."""
    g = _with_all_axes(n, g)
    entries = [entry for entry in n.attr if entry[0] != "new"]
    for axis, (entry, extent) in enumerate(zip(entries, n.args[0].type.shape)):
        if entry[0] == "int" and not b.is_unit(extent):
            g = _at_one_index(b, g, axis, entry[1], extent)
        elif entry[0] == "slice" and entry != whole_axis(extent):
            g = _strided(b, g, axis, entry, extent)
    return g


def _with_all_axes(n: Node, g: Node) -> Node:
    """`g` without the index's new axes, and with an axis of extent 1 for each integer."""
    key: list[tuple] = []
    extents = iter(g.type.shape)
    for entry in n.attr:
        if entry[0] == "int":
            key.append(("new",))
        else:
            extent = next(extents)
            key.append(("int", 0) if entry[0] == "new" else whole_axis(extent))
    return basic_index(g, tuple(key))


def _at_one_index(b: GraphBuilder, g: Node, axis: int, position: Dim, extent: Dim) -> Node:
    here = b.elementwise("equal", b.iota(extent), b.extent(position))
    return masked(b, before_axes(b, here, g.type.rank - axis - 1), g)


def _strided(b: GraphBuilder, g: Node, axis: int, entry: tuple, extent: Dim) -> Node:
    """An axis of `extent` whose index start + step i holds g's element i, and 0 elsewhere."""
    _, start, step, count = entry
    offset = b.elementwise("subtract", b.iota(extent), b.extent(start))
    there = b.literal(True)
    if step in (1, -1):
        position = offset if step == 1 else b.elementwise("negative", offset)
    else:
        position = b.elementwise("floor_divide", offset, b.extent(step))
        there = b.elementwise("equal", b.elementwise("remainder", offset, b.extent(step)), b.literal(0))
    return at_indices(b, g, axis, (position, there), (count, extent))


def at_indices(b: GraphBuilder, g: Node, axis: int, at: tuple[Node, Node], extents: tuple[Dim, Dim]) -> Node:
    """`g` read along an axis at a vector of places, 0 beyond its extent or where the second vector is false.

    `extents` are those of the axis in g and in the result.
    """
    (position, there), (count, extent) = at, extents
    inside = in_range(b, position, count)
    if there.op != "const":
        inside = b.elementwise("logical_and", inside, there)
    moved = at_position(b, g, axis, position, extent, GUARDED)
    return masked(b, before_axes(b, inside, g.type.rank - axis - 1), moved)
