"""Built-in contractions: matmul, dot, inner, vdot, vecdot, tensordot.

The signature of each function is its signature in a program; `@function` gives the kinds that KIND_OF does not have.
"""

from __future__ import annotations

from typing import Any

from ..errors import ArgumentError, FusedslError, ShapeError
from ..ir import contraction, shapes
from ..ir.builder import GraphBuilder, fail
from ..ir.graph import Node
from .functions import function
from .parameter_kinds import integer

Axes = int | tuple[int, ...] | None


@function()
def matmul(b: GraphBuilder, x: Node, y: Node):
    """x @ y: Σ over the last axis of x and the last but one of y."""
    return contraction.matmul(b, x, y)


@function()
def dot(b: GraphBuilder, x: Node, y: Node):
    """As matmul for vectors and matrices; further axes do not broadcast, the result has all of them."""
    return contraction.dot(b, x, y)


@function()
def inner(b: GraphBuilder, x: Node, y: Node):
    """Σ over the last axis of both."""
    return contraction.inner(b, x, y)


@function()
def vdot(b: GraphBuilder, x: Node, y: Node):
    """Σ of the products of all elements."""
    return contraction.vdot(b, x, y)


@function(axis="int")
def vecdot(b: GraphBuilder, x: Node, y: Node, *, axis: int = -1):
    """Σ of products along one axis; the others broadcast."""
    if not x.type.shape or not y.type.shape:
        error = ShapeError("vecdot needs arrays, not numbers", "shape.vecdot", help="use * to scale")
        raise fail(error, 0 if not x.type.shape else 1)
    shortest = min(x.type.rank, y.type.rank)
    if x.type.rank != y.type.rank and axis >= 0:
        axis -= max(x.type.rank, y.type.rank)
    try:
        shapes.normalize_axis(b, x if x.type.rank == shortest else y, axis)
    except ShapeError as error:
        raise fail(error, 2) from None
    return contraction.vecdot(b, x, y, axis if axis < 0 else axis - shortest)


@function(axes="any")
def tensordot(b: GraphBuilder, x: Node, y: Node, axes: Any = 2):
    """Σ over so many axes, or over pairs of them."""
    try:
        left, right = _pairs(b, x, y, axes)
    except FusedslError as error:
        raise fail(error, 2) from None
    return contraction.tensordot(b, x, y, left, right)


def _pairs(b: GraphBuilder, x: Node, y: Node, axes: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The contracted axes of x and of y: the last `axes` of x and the first of y, or two lists of axes."""
    if not isinstance(axes, tuple):
        count = integer(b, "axes", axes)
        if not 0 <= count <= min(x.type.rank, y.type.rank):
            message = f"{count} axes of {b.describe(x.type)} and {b.describe(y.type)} cannot meet"
            raise ShapeError(message, "shape.tensordot", help="axes=1 is the matrix product")
        return tuple(range(x.type.rank - count, x.type.rank)), tuple(range(count))
    sides = [tuple(integer(b, "axes", a) for a in (side if isinstance(side, tuple) else (side,))) for side in axes]
    if len(sides) != 2 or len(sides[0]) != len(sides[1]):
        help = "axes=((1, 2), (0, 1)): those of x, then those of y, as many"
        raise ArgumentError("axes takes two lists of one length", "argument.axes", help=help)
    left, right = (tuple(shapes.normalize_axis(b, z, a) for a in side) for z, side in zip((x, y), sides))
    for side in (left, right):
        if len(set(side)) < len(side):
            raise ArgumentError("an axis is given twice", "argument.axis", help="name each axis once")
    return left, right
