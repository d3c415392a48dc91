"""Builder of concat, stack, roll, repeat, tile and pad: selects among gathers by position, or views; nothing is
copied."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

from ..errors import ArgumentError, ShapeError
from .builder import GraphBuilder, fail
from .checks import shape_error
from .dims import Dim, expression
from .gathers import GUARDED, INSIDE, WRAPPED, at_position, before_axes, require_same, total
from .graph import Check, Node
from .index_keys import index
from .shapes import broadcast_to, expand_dims, normalize_axis, reshape
from .types import BOOL, FLOAT64, INT64, promote

GROUP = 16  # arrays that are joined at once: of more, groups are joined first
PADDINGS = ("constant", "edge", "reflect", "wrap")


def concat(b: GraphBuilder, arrays: Sequence[Node], axis: int, what: str = "concat") -> Node:
    """The arrays one after another along an axis."""
    if not arrays:
        raise ArgumentError(f"{what} needs an array", "argument.missing", help=f"{what}([x, y], axis=0)")
    if not arrays[0].type.rank:
        raise ShapeError(f"{what} of numbers", f"shape.{what}", help="stack them, or give them an axis: x[None]")
    try:
        a = normalize_axis(b, arrays[0], axis)
    except ShapeError as error:
        raise fail(error, 1) from None
    _require_alike(b, what, arrays, a)
    return _joined(b, promoted(b, arrays), a)


def _joined(b: GraphBuilder, parts: Sequence[Node], a: int) -> Node:
    """Arrays of one dtype joined along axis `a`: a chain of choices by position; of many arrays, groups first."""
    while len(parts) > GROUP:
        parts = [_joined(b, parts[k : k + GROUP], a) for k in range(0, len(parts), GROUP)]
    if len(parts) == 1:
        return parts[0]
    ends = [total([x.type.shape[a] for x in parts[: k + 1]]) for k in range(len(parts))]
    iota = b.iota(ends[-1])
    joined: Node | None = None
    for k in reversed(range(len(parts))):
        begin = ends[k - 1] if k else 0
        position = b.elementwise("subtract", iota, b.extent(begin)) if k else iota
        part = at_position(b, parts[k], a, position, ends[-1], GUARDED)
        if joined is None:
            joined = part
            continue
        first = b.elementwise("less", iota, b.extent(ends[k]))
        joined = b.elementwise("where", before_axes(b, first, part.type.rank - a - 1), part, joined)
    assert joined is not None
    return joined


def piece_axis(n: Node) -> int | None:
    """The axis along which a node reads a piece of a join; None for others, as gathers at places of any shape."""
    if n.op != "gather" or n.attr[0] != GUARDED or len(n.attr[1]) != n.type.rank:
        return None
    axes = [k for k, (kind, _) in enumerate(n.attr[1]) if kind == "at"]
    return axes[0] if len(axes) == 1 else None


def promoted(b: GraphBuilder, arrays: Sequence[Node]) -> list[Node]:
    """The arrays in their common dtype."""
    strong = [x.type.dtype for x in arrays if not x.type.weak]
    if not strong:
        return list(arrays)
    common = reduce(promote, strong)
    weak = {x.type.dtype.kind for x in arrays if x.type.weak}
    if common.kind != "f" and "f" in weak:
        common = FLOAT64
    elif common is BOOL and "i" in weak:
        common = INT64
    return [b.convert(x, common) for x in arrays]


def stack(b: GraphBuilder, arrays: Sequence[Node], axis: int) -> Node:
    """The arrays side by side along a new axis."""
    try:
        expanded = [expand_dims(b, x, axis) for x in arrays]
    except ShapeError as error:
        raise fail(error, 1) from None
    _require_alike(b, "stack", arrays)
    return concat(b, expanded, axis, "stack")


def _require_alike(b: GraphBuilder, what: str, arrays: Sequence[Node], axis: int | None = None) -> None:
    """Check that all arrays agree with the first one in all axes but the joined one; errors point at the array."""
    for k, other in enumerate(arrays[1:], 1):
        try:
            with b.pointing(0, k):
                require_same(b, what, arrays[0], other, axis)
        except ShapeError as error:
            raise error if error.span else fail(error, 0, k) from None


def flip(b: GraphBuilder, x: Node, axes: Sequence[int]) -> Node:
    """The order reversed along some axes: a view."""
    key = tuple(slice(None, None, -1) if a in axes else slice(None) for a in range(x.type.rank))
    return index(b, x, key)


def roll(b: GraphBuilder, x: Node, shift: Dim, axis: int) -> Node:
    """Elements moved by `shift` along an axis; those beyond its end wrap around."""
    n = x.type.shape[axis]
    position = b.elementwise("subtract", b.iota(n), b.extent(expression("%", shift, n)))
    return at_position(b, x, axis, position, n, WRAPPED)


def repeat(b: GraphBuilder, x: Node, count: Dim, axis: int) -> Node:
    """Each element `count` times along an axis."""
    shape = [*x.type.shape[: axis + 1], count, *x.type.shape[axis + 1 :]]
    repeated = broadcast_to(b, expand_dims(b, x, axis + 1), shape)
    merged = expression("*", x.type.shape[axis], count)
    return reshape(b, repeated, (*x.type.shape[:axis], merged, *x.type.shape[axis + 1 :]))


def tile(b: GraphBuilder, x: Node, counts: Sequence[Dim]) -> Node:
    """`x` itself repeated along each axis; leading axes are added where there are more counts."""
    rank = max(len(counts), x.type.rank)
    counts = [1] * (rank - len(counts)) + list(counts)
    shape = [1] * (rank - x.type.rank) + list(x.type.shape)
    key = [part for count in counts for part in ((None, slice(None)) if count != 1 else (slice(None),))]
    with_new_axes = index(b, reshape(b, x, shape) if rank > x.type.rank else x, tuple(key))
    broadcast_shape = [d for n, count in zip(shape, counts) for d in ((count, n) if count != 1 else (n,))]
    return reshape(
        b,
        broadcast_to(b, with_new_axes, broadcast_shape),
        [expression("*", n, count) for n, count in zip(shape, counts)],
    )


class Padding(NamedTuple):
    """Numbers of elements to add at both ends of an axis, with a `fill` value or as `mode` continues it."""

    before: Dim
    after: Dim
    mode: str
    fill: Node | None


def pad(b: GraphBuilder, x: Node, axis: int, padding: Padding) -> Node:
    """`x` with elements added at both ends of an axis."""
    n, (before, after, mode, fill) = x.type.shape[axis], padding
    extent = total([before, n, after])
    position = b.elementwise("subtract", b.iota(extent), b.extent(before))
    if mode != "constant":
        _require_elements(b, x, n)
        return at_position(b, x, axis, _continued(b, position, n, mode), extent, INSIDE)
    assert fill is not None
    padded = at_position(b, x, axis, position, extent, GUARDED)
    inside = b.elementwise(
        "logical_and",
        b.elementwise("greater_equal", position, b.literal(0)),
        b.elementwise("less", position, b.extent(n)),
    )
    inside = before_axes(b, inside, x.type.rank - axis - 1)
    if not x.type.weak or fill.type.weak:  # an infinity saturates in integers
        lossy = fill.type.dtype.kind == "f" and x.type.dtype.kind != "f"
        fill = (b.cast if lossy else b.convert)(fill, x.type.dtype)
    return b.elementwise("where", inside, padded, fill)


def _require_elements(b: GraphBuilder, x: Node, n: Dim) -> None:
    """Check that the axis has elements to continue."""
    check = Check("nonempty", (n,), "pad", (x.type,), site=b.site)
    if n == 0:
        raise shape_error(check, b.extents)
    if not isinstance(n, int):
        b.checks.append(check)


def _continued(b: GraphBuilder, position: Node, n: Dim, mode: str) -> Node:
    """The index in 0 … n - 1 whose element continues an axis."""
    last = b.extent(expression("-", n, 1))
    if mode == "edge":
        return b.elementwise("minimum", b.elementwise("maximum", position, b.literal(0)), last)
    if mode == "wrap":
        return b.elementwise("remainder", position, b.extent(n))
    period = b.extent(expression("*", expression("-", n, 1), 2))
    around = b.elementwise("remainder", position, period)
    return b.elementwise("minimum", around, b.elementwise("subtract", period, around))
