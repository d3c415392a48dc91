"""Cotangents of scatters: of the array that was written to, and of the values."""

from __future__ import annotations

from ..ir import gathers, scatters, shapes
from ..ir.builder import GraphBuilder
from ..ir.dims import product
from ..ir.graph import Node
from ..ir.types import INT64
from .term import Term
from .unbroadcast import masked, zeros


def of_scatter(b: GraphBuilder, n: Node, g: Node, operand: int) -> Node:
    """The cotangent of the array (operand 0), or of the values (2); those out of range receive 0."""
    fold, _ = n.attr
    if fold == "sum":
        return g if operand == 0 else _at_indices(b, n, g)
    return _of_last(b, n, g, operand) if fold == "last" else _of_extremum(b, n, g, operand)


def _at_indices(b: GraphBuilder, n: Node, x: Node) -> Node:
    """The elements of an array like the result where the values went; 0 for values that went nowhere."""
    flat_indices = n.args[1]
    flat = shapes.reshape(b, x, (product(x.type.shape),))
    read = gathers.gather(flat, {0: flat_indices}, [None], flat_indices.type.shape, gathers.GUARDED)
    return masked(b, gathers.in_range(b, flat_indices, product(n.type.shape)), read)


def _of_extremum(b: GraphBuilder, n: Node, g: Node, operand: int) -> Node:
    """The cotangent of an extremum is shared by all that equal it."""
    base, flat_indices, values = n.args
    kept = b.elementwise("equal", base, n)
    largest = b.elementwise("equal", values, _at_indices(b, n, n))
    largest = b.elementwise("logical_and", largest, gathers.in_range(b, flat_indices, product(n.type.shape)))
    counts = [b.convert(x, g.type.dtype) for x in (kept, largest)]
    count = scatters.merged(b, counts[0], flat_indices, counts[1], "sum", scatters.DROPPED)
    share = (Term(b, g) / Term(b, count)).node
    return masked(b, kept, share) if operand == 0 else masked(b, largest, _at_indices(b, n, share))


def _of_last(b: GraphBuilder, n: Node, g: Node, operand: int) -> Node:
    """What was written over receives nothing, neither the array nor an earlier value."""
    flat_indices = n.args[1]
    count = product(flat_indices.type.shape)
    flat, line = shapes.reshape(b, flat_indices, (count,)), b.convert(b.iota(count), INT64)
    last = scatters.last_writer(b, product(n.type.shape), flat, line, scatters.DROPPED)
    if operand == 0:
        untouched = b.elementwise("less", last, b.literal(0))
        return masked(b, shapes.reshape(b, untouched, n.type.shape), g)
    writer = _at_indices(b, n, shapes.reshape(b, last, n.type.shape))
    stays = b.elementwise("equal", writer, shapes.reshape(b, line, flat_indices.type.shape))
    return masked(b, stays, _at_indices(b, n, g))


def sum_at(b: GraphBuilder, x: Node, flat_indices: Node, g: Node) -> Node:
    """An array like `x` with the sums of `g` at flat indices in C order."""
    return scatters.merged(b, zeros(b, x.type), flat_indices, g, "sum", scatters.DROPPED)
