"""Builder of scans, sorts and top-k: operations that keep an axis and mix its elements."""

from __future__ import annotations

from ..errors import ArgumentError, ShapeError
from . import shapes
from .builder import GraphBuilder
from .checks import explain
from .dims import Dim
from .graph import Check, Node, Type, node
from .ops import reduced_dtype
from .types import INT64


def scan(b: GraphBuilder, fold: str, x: Node, axis: int | None) -> Node:
    """The fold of all elements up to each one along an axis; None for the flattened array, as in NumPy."""
    if axis is None or x.type.rank == 0:
        x, axis = shapes.reshape(b, x, (-1,)), 0
    axis = shapes.normalize_axis(b, x, axis)
    result = reduced_dtype(fold, x.type.dtype)
    if not x.type.weak:
        x = b.convert(x, result)
    prefixes = node("scan", (x,), (fold, axis), Type(result, x.type.shape, x.type.weak))
    return b.cast(prefixes, result) if b.rounding == "op" and result.compute is not result else prefixes


def sort_nodes(b: GraphBuilder, x: Node, descending: bool, k: Dim | None = None) -> tuple[Node, Node]:
    """(values, positions) of the last axis in stable order, or the first `k` of them.

    NaN is larger than every number, -0.0 equals 0.0, and the lower position precedes among equals.
    """
    if x.type.rank == 0:
        message = f"{b.describe(x.type)} has no axis to sort"
        raise ShapeError(message, "shape.axis", help="give it an array with an axis")
    n = x.type.shape[-1]
    if k is not None:
        _require(b, x, k, n)
    shape = (*x.type.shape[:-1], n if k is None else k)
    values = node("sorted", (x,), ("values", descending), Type(x.type.dtype, shape, x.type.weak))
    return values, node("sorted", (b.strong(x),), ("positions", descending), Type(INT64, shape))


def _require(b: GraphBuilder, x: Node, k: Dim, n: Dim) -> None:
    """Check that there are at least k elements."""
    if not isinstance(k, int) or k < 1:
        raise ArgumentError(f"topk takes a k of 1 or more, not {k}", "argument.topk", help="k is a literal")
    check = Check("enough", (n, k), "topk", (x.type,), site=b.site)
    if isinstance(n, int) and n < k:
        raise explain(check, b.extents)
    if n != k:
        b.checks.append(check)
