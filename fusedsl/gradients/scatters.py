"""Cotangents of scatters that add: that of the array itself, and for each value that of its place."""

from __future__ import annotations

from ..errors import Unsupported
from ..ir import gathers, shapes
from ..ir.builder import GraphBuilder
from ..ir.dims import product
from ..ir.graph import Node


def of_scatter(b: GraphBuilder, n: Node, g: Node, operand: int) -> Node:
    """The cotangent of the array, or of the values; those out of range receive 0."""
    fold, _ = n.attr
    if fold != "sum":
        message = f"a scatter of {'the last values' if fold == 'last' else f'a {fold}imum'} has no derivative yet"
        raise Unsupported(message, "unsupported.derivative", help="scatter_add has one")
    if operand == 0:
        return g
    places = n.args[1]
    flat = shapes.reshape(b, g, (product(g.type.shape),))
    return gathers.gather(flat, {0: places}, [0], places.type.shape, gathers.GUARDED)
