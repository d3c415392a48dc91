"""Built-in array creation: zeros, ones, full, eye, linspace, one_hot. Results are not stored, and weak without a dtype.

The signature of each function is its signature in a program; `@function` gives the kinds that KIND_OF does not have.
"""

from __future__ import annotations

from ..errors import ArgumentError, DTypeError
from ..ir import shapes
from ..ir.builder import GraphBuilder, fail
from ..ir.dims import Dim, expression
from ..ir.graph import Node
from ..ir.types import INT64, DType
from .functions import function

Dims = tuple[Dim, ...]


def _filled(b: GraphBuilder, value: Node, shape: Dims, dtype: DType | None) -> Node:
    return shapes.broadcast_to(b, value if dtype is None else b.cast(value, dtype), shape)


@function(blame="shape")
def zeros(b: GraphBuilder, shape: Dims, *, dtype: DType | None = None):
    """Zeros of a shape: floats, unless `dtype` says otherwise."""
    return _filled(b, b.literal(0.0), shape, dtype)


@function(blame="shape")
def ones(b: GraphBuilder, shape: Dims, *, dtype: DType | None = None):
    """Ones of a shape: floats, unless `dtype` says otherwise."""
    return _filled(b, b.literal(1.0), shape, dtype)


@function(blame="shape")
def full(b: GraphBuilder, shape: Dims, fill_value: Node, *, dtype: DType | None = None):
    """`fill_value` broadcast to a shape."""
    return _filled(b, fill_value, shape, dtype)


@function(N="extent", M="extent | None", k="int")
def eye(b: GraphBuilder, N: Dim, M: Dim | None = None, k: int = 0, *, dtype: DType | None = None):
    """1 on the k-th diagonal of N rows and M columns, else 0."""
    rows = shapes.expand_dims(b, b.iota(N), 1)
    columns = b.elementwise("subtract", b.iota(N if M is None else M), b.literal(k))
    matrix = b.elementwise("where", b.elementwise("equal", rows, columns), b.literal(1.0), b.literal(0.0))
    return matrix if dtype is None else b.cast(matrix, dtype)


@function(num="extent", endpoint="flag")
def linspace(
    b: GraphBuilder, start: Node, stop: Node, num: Dim = 50, endpoint: bool = True, *, dtype: DType | None = None
):
    """`num` numbers from start to stop, evenly apart; `stop` is the last of them unless `endpoint=False`."""
    for k, end in enumerate((start, stop)):
        if end.type.rank:
            message = f"linspace runs from number to number, not from {b.describe(end.type)}"
            help = "write a[..., None] + (b - a)[..., None] * linspace(0, 1, num)"
            raise fail(ArgumentError(message, "argument.range", help=help), k)
    steps = expression("max", expression("-", num, 1) if endpoint else num, 1)
    index = b.iota(num)
    step = b.elementwise("divide", b.elementwise("subtract", stop, start), b.extent(steps))
    result = b.elementwise("add", start, b.elementwise("multiply", index, step))
    if endpoint:  # as it was asked for, not as it comes out
        last = b.elementwise("equal", index, b.extent(steps))
        result = b.elementwise("where", last, b.elementwise("add", stop, b.literal(0.0)), result)
    return result if dtype is None else b.cast(result, dtype)


@function(num_classes="extent")
def one_hot(b: GraphBuilder, x: Node, num_classes: Dim, *, dtype: DType = INT64):
    """A new last axis of `num_classes`, 1 at the index that each integer names, else 0."""
    if x.type.dtype.kind not in "iu":
        error = DTypeError(f"one_hot of {b.describe(x.type)}", "dtype.index", help="cast it first: int64(x)")
        raise fail(error, 0)
    expanded = shapes.expand_dims(b, x, x.type.rank)
    return b.cast(b.elementwise("equal", expanded, b.iota(num_classes)), dtype)
