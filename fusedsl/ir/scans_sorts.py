"""Builder of prefix scans, sorts and top-k along an axis."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ArgumentError, ShapeError
from . import index_keys, shapes
from .builder import GraphBuilder
from .checks import shape_error
from .dims import Dim
from .graph import Check, Node, Type, node
from .ops import reduced_dtype
from .types import INT64


@dataclass(frozen=True)
class ScanMode:
    """How a scan runs: from the end of its axis, and without each element itself."""

    reverse: bool = False
    exclusive: bool = False


FORWARD = ScanMode()


def scan(b: GraphBuilder, fold: str, x: Node, axis: int | None, mode: ScanMode = FORWARD) -> Node:
    """The fold of all elements up to each one along an axis; None for the flattened array, as in NumPy."""
    if axis is None or x.type.rank == 0:
        x, axis = shapes.reshape(b, x, (-1,)), 0
    axis = shapes.normalize_axis(b, x, axis)
    result = reduced_dtype(fold, x.type.dtype)
    if not x.type.weak:
        x = b.convert(x, result)
    return _scan_node(b, fold, (x,), axis, mode)


def _scan_node(b: GraphBuilder, fold: str, args: tuple[Node, ...], axis: int, mode: ScanMode) -> Node:
    """The prefixes of operands of one type; a reverse scan is that of the flipped operands, flipped."""
    if mode.reverse:
        args = tuple(_flipped(b, x, axis) for x in args)
    type = args[0].type
    prefixes = node("scan", args, (fold, axis, mode.exclusive), type)
    if b.rounding == "op" and type.dtype.compute is not type.dtype:
        prefixes = b.cast(prefixes, type.dtype)
    return _flipped(b, prefixes, axis) if mode.reverse else prefixes


def _flipped(b: GraphBuilder, x: Node, axis: int) -> Node:
    return index_keys.index(b, x, (*[slice(None)] * axis, slice(None, None, -1)))


def linear_scan(
    b: GraphBuilder, scale: Node, shift: Node, axis: int | None, initial: Node | None, mode: ScanMode
) -> Node:
    """h[t] = scale[t] h[t-1] + shift[t] along an axis, from h[-1] = `initial`; integers are widened as in sums."""
    dtype = reduced_dtype("sum", b.computed("multiply", scale, shift))
    both = Check("equal", (), "linear_scan", (scale.type, shift.type), site=b.site)
    shape = b.broadcast([scale.type.shape, shift.type.shape], both)
    a, c = (shapes.broadcast_to(b, b.convert(x, dtype), shape) for x in (scale, shift))
    if axis is None:
        a, c, axis = shapes.reshape(b, a, (-1,)), shapes.reshape(b, c, (-1,)), 0
    axis = shapes.normalize_axis(b, a, axis)
    if initial is None:
        return _scan_node(b, "linear", (a, c), axis, mode)
    start = shapes.expand_dims(b, initial, [axis]) if initial.type.rank else initial
    start = b.convert(start, dtype)
    position = shapes.iota_along(b, a, axis)
    end = b.elementwise("subtract", b.extent(a.type.shape[axis]), b.literal(1)) if mode.reverse else b.literal(0)
    first = b.elementwise("equal", position, end)
    c = b.elementwise("where", first, b.elementwise("add", b.elementwise("multiply", a, start), c), c)
    states = _scan_node(b, "linear", (a, shapes.broadcast_to(b, c, a.type.shape)), axis, mode)
    return b.elementwise("where", first, start, states) if mode.exclusive else states


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
        raise shape_error(check, b.extents)
    if n != k:
        b.checks.append(check)
