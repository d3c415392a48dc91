"""Builder of gathers: arrays read at computed indices, by NumPy's integer-array indexing, take and take_along_axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import ArgumentError, DTypeError, FusedslError, ShapeError
from . import shapes
from .builder import GraphBuilder, fail
from .checks import explain
from .dims import Dim, expression, product
from .graph import Check, Node, Site, Type, node
from .shapes import WHOLE, basic_index, expand_dims, full_key, index_entries, normalize_axis, reshape
from .types import BOOL, INT64, UINT64

# What a gather does with a position outside of its axis.
CHECKED = "checked"  # negative indices count from the end; out of range: NaN, 0 or False
WRAPPED = "wrapped"  # negative indices count from the end; in range by construction
GUARDED = "guarded"  # out-of-range elements are not read, and their value (0) is not used
INSIDE = "inside"  # in range by construction


def gather(
    x: Node, at: Mapping[int, Node], places: Sequence[int | None], shape: Sequence[Dim], mode: str = CHECKED
) -> Node:
    """The array of `shape` whose element is `x` at the positions `at[axis]` along some axes, and along each other axis
    at the position on axis `places[axis]` of the result. Positions are int64 arrays that broadcast to `shape`."""
    entries: list[tuple[str, int | None]] = []
    arrays: list[Node] = []
    for axis, place in enumerate(places):
        if axis in at:
            entries.append(("at", len(arrays)))
            arrays.append(at[axis])
        else:
            entries.append(("axis", place))
    return node("gather", (x, *arrays), (mode, tuple(entries)), Type(x.type.dtype, tuple(shape), x.type.weak))


def positions(b: GraphBuilder, x: Node) -> Node:
    """An index array as int64; those of uint64 that int64 does not hold stay beyond any axis."""
    if x.type.dtype is BOOL:
        raise mask_fault()
    if x.type.dtype.kind == "f":
        raise DTypeError("an index is an integer, not a float", code="dtype.index", help="divide with //")
    if x.type.dtype is UINT64 and not x.type.weak:
        x = b.elementwise("minimum", x, b.literal((1 << 63) - 1))
    return b.convert(x, INT64)


def mask_fault() -> FusedslError:
    """The error of indexing with a mask."""
    return ArgumentError(
        "a mask cannot index: its result has no known shape",
        code="argument.mask",
        help="where(mask, x, 0), or a reduction with where=mask",
    )


def index(b: GraphBuilder, x: Node, key: tuple, sites: Sequence[Site] | None = None) -> Node:
    """`x[key]`: slices, new axes and single elements, or what integer arrays point at."""
    x, key, sites = _in_parts(b, x, key, sites)
    read = advanced_index if any(isinstance(part, Node) for part in key) else shapes.index
    return read(b, x, key, sites)


def _in_parts(b: GraphBuilder, x: Node, key: tuple, sites: Sequence[Site] | None) -> tuple:
    """The same with an axis that is read at all positions of two axes in turn as two axes: no position is computed."""
    for place, part in enumerate(key):
        parts = b.merged.get(part) if isinstance(part, Node) else None
        plain = all(isinstance(k, (Node, slice)) for k in key[:place])
        if parts is None or not plain or place >= x.type.rank:
            continue
        shape, extents = x.type.shape, [max(p.type.shape, key=lambda d: d != 1) for p in parts]
        if b.canonical(shape[place]) != b.canonical(product(extents)):
            continue
        x = reshape(b, x, (*shape[:place], *extents, *shape[place + 1 :]))
        key = (*key[:place], *parts, *key[place + 1 :])
        sites = None if sites is None else (*sites[: place + 1], *sites[place:])
    return x, key, sites


def advanced_index(b: GraphBuilder, x: Node, key: tuple, sites: Sequence[Site] | None = None) -> Node:
    """`x[key]` where some parts are integer arrays, as in NumPy: they broadcast, and what they broadcast to stands
    where they stand next to each other (integers count as such), else before all other axes."""
    full = full_key(b, x, key)
    pointed = [place for place, part in full if part is not None and not isinstance(part, slice)]
    split = pointed[-1] - pointed[0] >= len(pointed)  # by a ... that stands for no axis, too
    first = 0 if split else next(k for k, (place, _) in enumerate(full) if place == pointed[0])
    kept = [entry for entry in full if not isinstance(entry[1], Dim)]
    indices = {axis: _located(b, entry) for axis, entry in enumerate(kept) if isinstance(entry[1], Node)}
    plain = [(place, WHOLE if isinstance(part, Node) else part) for place, part in full]
    y = basic_index(x, index_entries(b, x, plain, sites))
    check = Check("equal", (), "index with", tuple(i.type for i in indices.values()))
    common = b.broadcast([i.type.shape for i in indices.values()], check)
    others = [axis for axis in range(y.type.rank) if axis not in indices]
    shape = [y.type.shape[axis] for axis in others]
    shape[first:first] = common
    places: list[int | None] = [None] * y.type.rank
    for k, axis in enumerate(others):
        places[axis] = k if k < first else k + len(common)
    at = {axis: before_axes(b, i, len(others) - first) for axis, i in indices.items()}
    return gather(y, at, places, shape)


def _located(b: GraphBuilder, entry: tuple) -> Node:
    """An index array as positions; its fault belongs to its place in the subscript."""
    place, part = entry
    try:
        return positions(b, part)
    except FusedslError as error:
        raise fail(error, place) from None


def before_axes(b: GraphBuilder, x: Node, axes: int) -> Node:
    """`x` with so many axes of extent 1 behind its own."""
    rank = x.type.rank
    return expand_dims(b, x, list(range(rank, rank + axes))) if axes else x


def take(b: GraphBuilder, x: Node, indices: Node, axis: int | None = None) -> Node:
    """`x` at `indices` along an axis (None: of the flattened array), as numpy.take."""
    if axis is None:
        x, axis = reshape(b, x, (product(x.type.shape),)), 0
    a = normalize_axis(b, x, axis)
    return advanced_index(b, x, (*[WHOLE] * a, _located(b, (1, indices))))


def take_along_axis(b: GraphBuilder, x: Node, indices: Node, axis: int | None = -1) -> Node:
    """out[…, i, …] = x[…, indices[…, i, …], …], as numpy.take_along_axis; the other axes broadcast."""
    if axis is None:
        x, axis = reshape(b, x, (product(x.type.shape),)), 0
    a = normalize_axis(b, x, axis)
    if indices.type.rank != x.type.rank:
        error = ShapeError(
            f"take_along_axis needs as many axes in {b.describe(indices.type)} as in {b.describe(x.type)}",
            code="shape.gather",
            help="insert axes of extent 1: indices[:, None]",
        )
        raise fail(error, 1)
    located = _located(b, (1, indices))
    others = [1 if axis == a else d for axis, d in enumerate(x.type.shape)]
    check = Check("equal", (), "take_along_axis", (x.type, indices.type))
    shape = b.broadcast([tuple(others), indices.type.shape], check)
    return gather(x, {a: located}, range(x.type.rank), shape)


def at_position(b: GraphBuilder, x: Node, axis: int, position: Node, extent: Dim, mode: str) -> Node:
    """`x` with one axis of a new extent, read there at `position` (a vector of that extent)."""
    shape = tuple(extent if k == axis else d for k, d in enumerate(x.type.shape))
    line = before_axes(b, b.convert(position, INT64), x.type.rank - axis - 1)
    return gather(x, {axis: line}, range(x.type.rank), shape, mode)


def diagonal(b: GraphBuilder, x: Node, first: int, second: int, offset: int = 0) -> Node:
    """The elements whose position along the second axis is `offset` beyond that along the first, as a last axis."""
    rows, columns = (b.canonical(x.type.shape[a]) for a in (first, second))
    length = rows
    if rows != columns or offset:
        rest = expression("-", rows, max(-offset, 0)), expression("-", columns, max(offset, 0))
        length = expression("max", expression("min", *rest), 0)
    line = b.iota(length)
    at = {
        axis: b.convert(b.elementwise("add", line, b.literal(begin)) if begin else line, INT64)
        for axis, begin in ((first, max(-offset, 0)), (second, max(offset, 0)))
    }
    others = [axis for axis in range(x.type.rank) if axis not in at]
    places = [others.index(axis) if axis in others else None for axis in range(x.type.rank)]
    return gather(x, at, places, (*(x.type.shape[axis] for axis in others), length), INSIDE)


def require_same(b: GraphBuilder, what: str, x: Node, other: Node, axis: int | None = None) -> None:
    """All axes but one agree: what two arrays that are joined along it need. None: all axes agree."""
    if x.type.rank != other.type.rank:
        raise ShapeError(
            f"{what} needs as many axes in {b.describe(other.type)} as in {b.describe(x.type)}",
            code=f"shape.{what}",
            help="full_like(x, number) makes an array of it"
            if not other.type.rank
            else "x[None] adds an axis, x[0] drops one",
        )
    for k, (d, e) in enumerate(zip(x.type.shape, other.type.shape)):
        if k == axis:
            continue
        check = Check("equal", (d, e, k - x.type.rank), what, (x.type, other.type), site=b.site)
        if b.is_unit(d) != b.is_unit(e):
            raise explain(check, b.extents)
        if not b.is_unit(d):
            b._require_equal(d, e, check, k - x.type.rank)


def total(extents: Sequence[Dim]) -> Dim:
    """The sum of extents."""
    result: Dim = 0
    for d in extents:
        result = expression("+", d, result) if result != 0 else d
    return result
