"""Builder of gathers: arrays read at computed indices, by NumPy's integer-array indexing, take and take_along_axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import ArgumentError, DTypeError, FusedslError, ShapeError
from . import index_keys
from .builder import GraphBuilder, fail
from .checks import shape_error
from .dims import Dim, expression, product
from .graph import Check, Node, Site, Type, node
from .index_keys import FULL_SLICE, basic_index, full_key, index_entries
from .shapes import expand_dims, normalize_axis, reshape
from .types import BOOL, INT64, UINT64

# Treatment of indices outside of an axis.
CHECKED = "checked"  # negative indices count from the end; out of range: NaN, 0 or False
WRAPPED = "wrapped"  # negative indices count from the end; in range by construction
GUARDED = "guarded"  # out-of-range elements are not read, and their value (0) is not used
INSIDE = "inside"  # in range by construction
COUNTING_BACK = (CHECKED, WRAPPED)  # in which negative positions count from the end


def gather(
    x: Node, at: Mapping[int, Node], result_axes: Sequence[int | None], shape: Sequence[Dim], mode: str = CHECKED
) -> Node:
    """The array of `shape` with elements of `x` at index arrays `at[axis]` along some axes.

    Along each other axis the index is that on axis `result_axes[axis]` of the result. Index arrays are int64 and
    broadcast to `shape`.
    """
    entries: list[tuple[str, int | None]] = []
    arrays: list[Node] = []
    for axis, result_axis in enumerate(result_axes):
        if axis in at:
            entries.append(("at", len(arrays)))
            arrays.append(at[axis])
        else:
            entries.append(("axis", result_axis))
    return node("gather", (x, *arrays), (mode, tuple(entries)), Type(x.type.dtype, tuple(shape), x.type.weak))


def positions(b: GraphBuilder, x: Node) -> Node:
    """An index array as int64; uint64 indices that int64 cannot hold remain out of range."""
    if x.type.dtype is BOOL:
        raise mask_fault()
    if x.type.dtype.kind == "f":
        raise DTypeError("an index is an integer, not a float", "dtype.index", help="divide with //")
    if x.type.dtype is UINT64 and not x.type.weak:
        x = b.elementwise("minimum", x, b.literal((1 << 63) - 1))
    return b.convert(x, INT64)


def from_start(b: GraphBuilder, positions: Node, extent: Dim) -> Node:
    """Positions along an axis, negative ones counted from its end."""
    negative = b.elementwise("less", positions, b.literal(0))
    return b.elementwise("where", negative, b.elementwise("add", positions, b.extent(extent)), positions)


def in_range(b: GraphBuilder, positions: Node, extent: Dim) -> Node:
    """Whether positions are those of elements of an axis."""
    at_least = b.elementwise("greater_equal", positions, b.literal(0))
    return b.elementwise("logical_and", at_least, b.elementwise("less", positions, b.extent(extent)))


def mask_fault() -> FusedslError:
    """The error for indexing with a mask."""
    return ArgumentError(
        "a mask cannot index: its result has no known shape",
        "argument.mask",
        help="where(mask, x, 0), or a reduction with where=mask",
    )


def index(b: GraphBuilder, x: Node, key: tuple, sites: Sequence[Site] | None = None) -> Node:
    """`x[key]`: slices, new axes and integers, or index arrays."""
    x, key, sites = _in_parts(b, x, key, sites)
    read = advanced_index if any(isinstance(part, Node) for part in key) else index_keys.index
    return read(b, x, key, sites)


def _in_parts(b: GraphBuilder, x: Node, key: tuple, sites: Sequence[Site] | None) -> tuple:
    """`x[key]`, with an axis that is indexed by a merged index read as two axes, so that no index is computed."""
    for item, part in enumerate(key):
        parts = b.merged.get(part) if isinstance(part, Node) else None
        plain = all(isinstance(k, (Node, slice)) for k in key[:item])
        if parts is None or not plain or item >= x.type.rank:
            continue
        shape, extents = x.type.shape, [max(p.type.shape, key=lambda d: d != 1) for p in parts]
        if b.canonical(shape[item]) != b.canonical(product(extents)):
            continue
        x = reshape(b, x, (*shape[:item], *extents, *shape[item + 1 :]))
        key = (*key[:item], *parts, *key[item + 1 :])
        sites = None if sites is None else (*sites[: item + 1], *sites[item:])
    return x, key, sites


def advanced_index(b: GraphBuilder, x: Node, key: tuple, sites: Sequence[Site] | None = None) -> Node:
    """`x[key]` with index arrays, as in NumPy: they broadcast.

    The broadcast axes replace the indexed ones if these are adjacent (integers count as arrays), else they come first.
    """
    full = full_key(b, x, key)
    array_parts = [item for item, part in full if part is not None and not isinstance(part, slice)]
    split = array_parts[-1] - array_parts[0] >= len(array_parts)  # an empty ... also separates them
    first = 0 if split else next(k for k, (item, _) in enumerate(full) if item == array_parts[0])
    entries = [entry for entry in full if not isinstance(entry[1], Dim)]
    indices = {axis: _located(b, entry) for axis, entry in enumerate(entries) if isinstance(entry[1], Node)}
    plain = [(item, FULL_SLICE if isinstance(part, Node) else part) for item, part in full]
    y = basic_index(x, index_entries(b, x, plain, sites))
    check = Check("equal", (), "index with", tuple(i.type for i in indices.values()))
    common = b.broadcast([i.type.shape for i in indices.values()], check)
    others = [axis for axis in range(y.type.rank) if axis not in indices]
    shape = [y.type.shape[axis] for axis in others]
    shape[first:first] = common
    result_axes: list[int | None] = [None] * y.type.rank
    for k, axis in enumerate(others):
        result_axes[axis] = k if k < first else k + len(common)
    at = {axis: before_axes(b, i, len(others) - first) for axis, i in indices.items()}
    return gather(y, at, result_axes, shape)


def _located(b: GraphBuilder, entry: tuple) -> Node:
    """An index array as positions; its errors point at its part of the subscript."""
    item, part = entry
    try:
        return positions(b, part)
    except FusedslError as error:
        raise fail(error, item) from None


def before_axes(b: GraphBuilder, x: Node, axes: int) -> Node:
    """`x` with so many trailing axes of extent 1 added."""
    rank = x.type.rank
    return expand_dims(b, x, list(range(rank, rank + axes))) if axes else x


def take(b: GraphBuilder, x: Node, indices: Node, axis: int | None = None) -> Node:
    """`x` at `indices` along an axis (None: of the flattened array), as numpy.take."""
    if axis is None:
        x, axis = reshape(b, x, (product(x.type.shape),)), 0
    a = normalize_axis(b, x, axis)
    return advanced_index(b, x, (*[FULL_SLICE] * a, _located(b, (1, indices))))


def take_along_axis(b: GraphBuilder, x: Node, indices: Node, axis: int | None = -1) -> Node:
    """out[…, i, …] = x[…, indices[…, i, …], …], as numpy.take_along_axis; the other axes broadcast."""
    if axis is None:
        x, axis = reshape(b, x, (product(x.type.shape),)), 0
    a = normalize_axis(b, x, axis)
    if indices.type.rank != x.type.rank:
        error = ShapeError(
            f"take_along_axis needs as many axes in {b.describe(indices.type)} as in {b.describe(x.type)}",
            "shape.gather",
            help="insert axes of extent 1: indices[:, None]",
        )
        raise fail(error, 1)
    located = _located(b, (1, indices))
    others = [1 if axis == a else d for axis, d in enumerate(x.type.shape)]
    check = Check("equal", (), "take_along_axis", (x.type, indices.type))
    shape = b.broadcast([tuple(others), indices.type.shape], check)
    return gather(x, {a: located}, range(x.type.rank), shape)


def at_position(b: GraphBuilder, x: Node, axis: int, position: Node, extent: Dim, mode: str) -> Node:
    """`x` read along one axis at `position`, a vector whose length is the new extent."""
    shape = tuple(extent if k == axis else d for k, d in enumerate(x.type.shape))
    line = before_axes(b, b.convert(position, INT64), x.type.rank - axis - 1)
    return gather(x, {axis: line}, range(x.type.rank), shape, mode)


def diagonal(b: GraphBuilder, x: Node, first: int, second: int, offset: int = 0) -> Node:
    """Elements whose index along the second axis is `offset` more than along the first, as a last axis."""
    rows, columns = (b.canonical(x.type.shape[a]) for a in (first, second))
    length = rows
    if rows != columns or offset:
        extents = expression("-", rows, max(-offset, 0)), expression("-", columns, max(offset, 0))
        length = expression("max", expression("min", *extents), 0)
    line = b.iota(length)
    at = {
        axis: b.convert(b.elementwise("add", line, b.literal(begin)) if begin else line, INT64)
        for axis, begin in ((first, max(-offset, 0)), (second, max(offset, 0)))
    }
    others = [axis for axis in range(x.type.rank) if axis not in at]
    axes_of_result = [others.index(axis) if axis in others else None for axis in range(x.type.rank)]
    return gather(x, at, axes_of_result, (*(x.type.shape[axis] for axis in others), length), INSIDE)


def require_same(b: GraphBuilder, what: str, x: Node, other: Node, axis: int | None = None) -> None:
    """Unify all axes but one of two arrays to be joined along it; None: all axes."""
    if x.type.rank != other.type.rank:
        raise ShapeError(
            f"{what} needs as many axes in {b.describe(other.type)} as in {b.describe(x.type)}",
            f"shape.{what}",
            help="full_like(x, number) makes an array of it"
            if not other.type.rank
            else "x[None] adds an axis, x[0] drops one",
        )
    for k, (d, e) in enumerate(zip(x.type.shape, other.type.shape)):
        if k == axis:
            continue
        check = Check("equal", (d, e, k - x.type.rank), what, (x.type, other.type), site=b.site)
        if b.is_unit(d) != b.is_unit(e):
            raise shape_error(check, b.extents)
        if not b.is_unit(d):
            b._require_equal(d, e, check, k - x.type.rank)


def total(extents: Sequence[Dim]) -> Dim:
    result: Dim = 0
    for d in extents:
        result = expression("+", d, result) if result != 0 else d
    return result
