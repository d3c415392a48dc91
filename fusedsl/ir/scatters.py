"""Builder of scatters: values written or combined at computed indices of an array, as a new array.

A `scatter` node is (base, indices, values): `values` are merged into a copy of `base` at flat `indices` (positions
in its C order), in the C order of the indices. Indices outside of the array are left out. The fold is sum, max, min or
last: the last value at an index stays. Rows are written by the last row that writes there, which the largest position
finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import DTypeError, ShapeError
from . import gathers, shapes
from .builder import GraphBuilder, fail
from .checks import shape_error
from .dims import Dim, product
from .folds import highest, lowest
from .graph import Check, Node, Type, node
from .types import BOOL, FLOAT32, FLOAT64, INT32, INT64, UINT32, DType, promote

NOWHERE = -1  # the index of a value that is written nowhere

# Treatment of indices outside of an axis.
CHECKED = gathers.CHECKED  # negative indices count from the end; an index out of range is a fault
DROPPED = gathers.GUARDED  # negative indices are out of range, too, and that is no fault
RUNS = "runs"  # likewise, and neighbours mostly have one index, as rows of a segment do
ORDERED = "ordered"  # likewise, and indices do not decrease, but for negative ones before and behind the others


@dataclass(frozen=True)
class Target:
    """The axis of an array that is written to; `mode` says which indices are out of range, and what these do."""

    axis: int
    mode: str = CHECKED


def held_dtype(d: DType) -> DType:
    """The dtype in which values of a dtype are merged in memory: one that all targets merge atomically."""
    if d.kind == "f":
        return FLOAT64 if d is FLOAT64 else FLOAT32
    if d.bits >= 32:
        return d
    return UINT32 if d.kind == "u" else INT32


def merged(b: GraphBuilder, base: Node, flat_indices: Node, values: Node, fold: str, mode: str = CHECKED) -> Node:
    """The array with values merged at flat indices in C order; float sums in one order unless bits may vary."""
    d = base.type.dtype
    held = d if fold == "last" else held_dtype(d)
    fold = "max" if d is BOOL and fold == "sum" else fold  # or
    parts = [b.convert(b.cast(x, held) if held.kind != d.kind else x, held) for x in (base, values)]
    result = node("scatter", (parts[0], flat_indices, parts[1]), (fold, mode), Type(held, base.type.shape))
    if d is BOOL and held is not BOOL:
        return b.truth(result)
    return result if held is d else b.convert(result, d) if d.kind == "f" else b.cast(result, d)


def flat_indices_along(b: GraphBuilder, shape: Sequence[Dim], indices: Node, target: Target) -> Node:
    """Indices in C order of the elements (before, indices, behind) of an array of `shape`, indexed along one axis."""
    a, rank = target.axis, indices.type.rank
    behind = len(shape) - a - 1
    counted = gathers.positions(b, indices)
    if target.mode == ORDERED and len(shape) == 1:  # they are indices, or NOWHERE
        return counted
    counted = counted if target.mode != CHECKED else gathers.from_start(b, counted, shape[a])
    flat_index = gathers.before_axes(b, counted, behind)
    for axis in range(a):
        line = gathers.before_axes(b, b.convert(b.iota(shape[axis]), INT64), a - 1 - axis + rank + behind)
        flat_index = _plus(b, flat_index, line, product(shape[axis + 1 : a + 1]))
    inner = product(shape[a + 1 :])
    if behind:
        flat_index = b.elementwise("multiply", flat_index, b.extent(inner))
    for axis in range(a + 1, len(shape)):
        line = gathers.before_axes(b, b.convert(b.iota(shape[axis]), INT64), len(shape) - 1 - axis)
        flat_index = _plus(b, flat_index, line, product(shape[axis + 1 :]))
    inside = gathers.before_axes(b, gathers.in_range(b, counted, shape[a]), behind)
    return b.elementwise("where", inside, flat_index, b.literal(NOWHERE))


def _plus(b: GraphBuilder, flat_index: Node, line: Node, step: Dim) -> Node:
    scaled = line if step == 1 else b.elementwise("multiply", line, b.extent(step))
    return b.elementwise("add", flat_index, scaled)


def scatter_fold(b: GraphBuilder, base: Node, indices: Node, values: Node, fold: str, target: Target) -> Node:
    """`base` with values merged at indices along an axis; values broadcast to the shape of base[indices]."""
    _refuse_storage(b, base, values)
    base, values = b.strong(base), _alike(b, base, values)
    flat_indices = flat_indices_along(b, base.type.shape, indices, target)
    return merged(b, base, flat_indices, _filling(b, values, flat_indices.type.shape, "scatter"), fold, target.mode)


def _alike(b: GraphBuilder, base: Node, values: Node) -> Node:
    """Values in the dtype of the array that they are written to."""
    d = base.type.dtype
    if values.type.weak:
        return b.coerce(values, d)
    return values if values.type.dtype is d else b.cast(values, d)


def promoted(b: GraphBuilder, base: Node, values: Node) -> tuple[Node, Node]:
    """Both in their common dtype."""
    if base.type.weak and values.type.weak:
        return b.strong(base), b.strong(values)
    if base.type.weak or values.type.weak:
        d = b.computed("where", b.literal(True), base, values)
    else:
        d = promote(base.type.dtype, values.type.dtype)
    return b.convert(base, d), b.convert(values, d)


def _filling(b: GraphBuilder, values: Node, shape: Sequence[Dim], what: str) -> Node:
    """Values, checked to broadcast to this shape of indexed elements."""
    indexed = Type(values.type.dtype, tuple(shape))
    check = Check("equal", (), what, (indexed, values.type), site=b.site)
    extra = values.type.rank - indexed.rank
    if extra > 0 and all(b.is_unit(d) for d in values.type.shape[:extra]):
        values = shapes.squeeze(b, values, range(extra))
    wide = b.broadcast([indexed.shape, values.type.shape], check)
    if len(wide) != indexed.rank or any(b.is_unit(d) and not b.is_unit(e) for d, e in zip(shape, wide)):
        message = f"{what} writes {b.describe(values.type)} to the elements {b.describe(indexed)}"
        help = "values broadcast to the shape of the indexed elements"
        raise fail(ShapeError(message, "shape.scatter", help=help), 2)
    return shapes.broadcast_to(b, values, shape)


def _refuse_storage(b: GraphBuilder, *arrays: Node) -> None:
    for x in arrays:
        if x.type.dtype.storage:
            what = f"no scatter of {b.describe(x.type)}"
            raise DTypeError(what, "dtype.storage", help="it only stores: cast it first, e.g. float32(x)")


def scatter_last(b: GraphBuilder, base: Node, indices: Node, values: Node, target: Target) -> Node:
    """`base` with values written at indices along an axis; of values at one index the last stays, in C order."""
    base, values = b.strong(base), _alike(b, base, values)
    a, shape = target.axis, base.type.shape
    written = (*shape[:a], *indices.type.shape, *shape[a + 1 :])
    values = _filling(b, values, written, "scatter")
    count = product(indices.type.shape)
    spread = shapes.reshape(b, values, (*shape[:a], count, *shape[a + 1 :]))
    flat = shapes.reshape(b, gathers.positions(b, indices), (count,))
    flat_indices = flat_indices_along(b, shape[a : a + 1], flat, Target(0, target.mode))
    if len(shape) == 1:
        return merged(b, base, flat_indices, spread, "last", target.mode)
    last = last_writer(b, shape[a], flat_indices, b.convert(b.iota(count), INT64), target.mode)
    read = gathers.at_position(b, spread, a, last, shape[a], gathers.GUARDED)
    there = b.elementwise("greater_equal", last, b.literal(0))
    return b.elementwise("where", gathers.before_axes(b, there, len(shape) - a - 1), read, base)


def last_writer(b: GraphBuilder, extent: Dim, flat_indices: Node, writers: Node, mode: str) -> Node:
    """The largest number that writes to each of `extent` indices; NOWHERE for none."""
    nothing = shapes.broadcast_to(b, b.convert(b.literal(NOWHERE), INT64), (extent,))
    return merged(b, nothing, flat_indices, writers, "max", mode)


def identity(b: GraphBuilder, fold: str, d: DType, shape: Sequence[Dim]) -> Node:
    """An array of the fold's identity."""
    if fold == "sum":
        return shapes.broadcast_to(b, b.convert(b.literal(False if d is BOOL else 0), d), shape)
    bound = (lowest if fold == "max" else highest)(d)
    return shapes.broadcast_to(b, bound, shape)


def require_index_axis(b: GraphBuilder, ids: Node, x: Node, what: str) -> None:
    """Check that there is an id for each row."""
    if ids.type.rank != 1:
        error = ShapeError(f"{what} takes ids of one axis, not {b.describe(ids.type)}", "shape.segment",
                           help="one id for each row of x")  # fmt: skip
        raise fail(error, 1)
    check = Check("equal", (ids.type.shape[0], x.type.shape[0], 0), what, (ids.type, x.type), site=b.site)
    if b.is_unit(ids.type.shape[0]) != b.is_unit(x.type.shape[0]):
        raise shape_error(check, b.extents)
    if not b.is_unit(x.type.shape[0]):
        b._require_equal(ids.type.shape[0], x.type.shape[0], check, 0)
