"""Unbroadcasting: cotangents in the shape and dtype of their node: sums over broadcast axes, zeros, conversions."""

from __future__ import annotations

from ..ir import shapes
from ..ir.builder import GraphBuilder
from ..ir.dims import Dim
from ..ir.graph import Node, Type, is_literal
from ..ir.index_keys import basic_index, whole_axis
from ..ir.types import FLOAT32, DType


def cotangent_dtype(d: DType) -> DType:
    """The dtype of a cotangent: that of its node; float32 where that one only stores."""
    return FLOAT32 if d.storage else d


def fitted(b: GraphBuilder, g: Node, to: Type) -> Node:
    """A cotangent that was computed in a broadcast shape, for a node of type `to`."""
    return spread(b, summed(b, b.convert(g, cotangent_dtype(to.dtype)), to.shape), to.shape)


def summed(b: GraphBuilder, g: Node, shape: tuple[Dim, ...]) -> Node:
    """`g` summed over leading axes and axes of extent 1 of the shape that was broadcast."""
    lead = g.type.rank - len(shape)
    axes = [*range(max(lead, 0))]
    axes += [k for k in range(max(lead, 0), g.type.rank) if _widened(b, g.type.shape[k], shape[k - lead])]
    if not axes:
        return g
    g = _sum(b, g, tuple(axes))
    if lead <= 0:
        return g
    rest = g.type.shape[lead:]
    return basic_index(g, (("int", 0),) * lead + tuple(whole_axis(d) for d in rest))


def _sum(b: GraphBuilder, g: Node, axes: tuple[int, ...]) -> Node:
    """The sum over axes that stay as 1; a mask that is the same along them masks the sum instead."""
    if g.op == "where" and is_literal(g.args[2], 0):
        condition, x, _ = g.args
        extents = (*(1,) * (g.type.rank - condition.type.rank), *condition.type.shape)
        if all(b.is_unit(extents[k]) for k in axes):
            return masked(b, condition, _sum(b, spread(b, x, g.type.shape), axes))
    return shapes.reduce(b, "sum", g, axes, keepdims=True)


def _widened(b: GraphBuilder, wide: Dim, narrow: Dim) -> bool:
    return b.is_unit(narrow) and not b.is_unit(wide)


def spread(b: GraphBuilder, g: Node, shape: tuple[Dim, ...]) -> Node:
    """`g` broadcast to a shape that it may be smaller than."""
    wanted = tuple(map(b.canonical, shape))
    return g if tuple(map(b.canonical, g.type.shape)) == wanted else shapes.broadcast_to(b, g, shape)


def alike(b: GraphBuilder, x: Node, to: Type) -> Node:
    """A cotangent that is given for a node of type `to`, or a tangent; ShapeError for one of another shape."""
    return shapes.broadcast_to(b, b.convert(x, cotangent_dtype(to.dtype)), to.shape)


def zeros(b: GraphBuilder, to: Type) -> Node:
    """The cotangent of a value that does not affect the results."""
    return shapes.broadcast_to(b, b.convert(b.literal(0.0), cotangent_dtype(to.dtype)), to.shape)


def masked(b: GraphBuilder, condition: Node, g: Node) -> Node:
    """`g` where a condition holds, else 0."""
    return b.elementwise("where", condition, g, b.literal(0))
