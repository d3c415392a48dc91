"""Built-in row functions: scans, differences, trapezoid, sort and topk.

The signature of each function is its signature in a program; `@function` gives the kinds that KIND_OF does not have.
"""

from __future__ import annotations

from ..errors import ArgumentError, LimitError, ShapeError
from ..ir import index_keys, joins, scans_sorts, shapes
from ..ir.builder import GraphBuilder, fail
from ..ir.checks import shape_error
from ..ir.gathers import before_axes
from ..ir.graph import Check, Node
from ..ir.types import BOOL, DType
from .functions import function

MOST_DIFFERENCES = 1024


def _scan(
    b: GraphBuilder, fold: str, x: Node, axis: int | None, dtype: DType | None, mode: scans_sorts.ScanMode
) -> Node:
    """A sum or product scan in `dtype`, or in the dtype that reductions accumulate in."""
    if dtype is not None and x.type.dtype is not dtype:
        x = b.cast(x, dtype)
    scanned = scans_sorts.scan(b, fold, x, axis, mode)
    return scanned if dtype is None else b.cast(scanned, dtype)


@function(axis="axis", reverse="flag", exclusive="flag")
def cumsum(b: GraphBuilder, x: Node, axis: int | None = None, *, dtype: DType | None = None,
           reverse: bool = False, exclusive: bool = False):  # fmt: skip
    """The sum of each element and those before it (`reverse`: after it); `exclusive` leaves the element out."""
    return _scan(b, "sum", x, axis, dtype, scans_sorts.ScanMode(reverse, exclusive))


@function(axis="axis", reverse="flag", exclusive="flag")
def cumprod(b: GraphBuilder, x: Node, axis: int | None = None, *, dtype: DType | None = None,
            reverse: bool = False, exclusive: bool = False):  # fmt: skip
    """The product of each element and those before it (`reverse`: after it); `exclusive` leaves the element out."""
    return _scan(b, "prod", x, axis, dtype, scans_sorts.ScanMode(reverse, exclusive))


@function(axis="axis", include_initial="flag")
def cumulative_sum(b: GraphBuilder, x: Node, axis: int | None = None, *, dtype: DType | None = None,
                   include_initial: bool = False):  # fmt: skip
    """cumsum; with `include_initial` a 0 comes first."""
    return _cumulative(b, "sum", x, axis, dtype, include_initial)


@function(axis="axis", include_initial="flag")
def cumulative_prod(b: GraphBuilder, x: Node, axis: int | None = None, *, dtype: DType | None = None,
                    include_initial: bool = False):  # fmt: skip
    """cumprod; with `include_initial` a 1 comes first."""
    return _cumulative(b, "prod", x, axis, dtype, include_initial)


def _cumulative(
    b: GraphBuilder, fold: str, x: Node, axis: int | None, dtype: DType | None, include_initial: bool
) -> Node:
    """A scan; one that includes the initial value scans the elements behind a neutral one."""
    if not include_initial:
        return _scan(b, fold, x, axis, dtype, scans_sorts.FORWARD)
    if axis is None:
        x, axis = shapes.reshape(b, x, (-1,)), 0
    axis, neutral = shapes.normalize_axis(b, x, axis), {"sum": -0.0 if x.type.dtype.kind == "f" else 0, "prod": 1}[fold]
    longer = joins.pad(b, x, axis, joins.Padding(1, 0, "constant", b.literal(neutral)))
    scanned = _scan(b, fold, longer, axis, dtype, scans_sorts.FORWARD)
    if fold == "prod":
        return scanned
    first = b.elementwise("equal", b.iota(scanned.type.shape[axis]), b.literal(0))  # 0, though -0.0 is neutral
    return b.elementwise("where", before_axes(b, first, scanned.type.rank - axis - 1), b.literal(0), scanned)


@function(axis="axis", reverse="flag", exclusive="flag")
def cummax(b: GraphBuilder, x: Node, axis: int | None = None, *, reverse: bool = False, exclusive: bool = False):
    """The largest of each element and those before it (`reverse`: after it); `exclusive` leaves the element out.

    Where nothing is left the result is the lowest number.
    """
    return scans_sorts.scan(b, "max", x, axis, scans_sorts.ScanMode(reverse, exclusive))


@function(axis="axis", reverse="flag", exclusive="flag")
def cummin(b: GraphBuilder, x: Node, axis: int | None = None, *, reverse: bool = False, exclusive: bool = False):
    """The smallest of each element and those before it (`reverse`: after it); `exclusive` leaves the element out.

    Where nothing is left the result is the highest number.
    """
    return scans_sorts.scan(b, "min", x, axis, scans_sorts.ScanMode(reverse, exclusive))


@function(axis="axis", reverse="flag", exclusive="flag")
def logcumsumexp(b: GraphBuilder, x: Node, axis: int | None = None, *, reverse: bool = False, exclusive: bool = False):
    """log(cumsum(exp(x))) without overflow; `reverse` runs from the end, and `exclusive` leaves the element out."""
    x = b.convert(x, b.computed("exp", x))
    return scans_sorts.scan(b, "logsumexp", x, axis, scans_sorts.ScanMode(reverse, exclusive))


@function(a="array", b="array", axis="plain axis", initial="array | None", reverse="flag", exclusive="flag")
def linear_scan(builder: GraphBuilder, a: Node, b: Node, axis: int | None = -1, *, initial: Node | None = None,
                reverse: bool = False, exclusive: bool = False):  # fmt: skip
    """The recurrence h[t] = a[t] h[t-1] + b[t], from h[-1] = `initial`, or 0: moving averages, gates.

    It is a scan of the maps h -> a h + b: products of neighbouring a that overflow give inf or NaN. `reverse` runs
    from the end; `exclusive` gives h[t-1] for each t.
    """
    try:
        return scans_sorts.linear_scan(builder, a, b, axis, initial, scans_sorts.ScanMode(reverse, exclusive))
    except ShapeError as error:
        raise (fail(error, 2) if error.code == "shape.axis" else error) from None


@function(n="int", axis="int", prepend="array | None", append="array | None")
def diff(
    b: GraphBuilder, x: Node, n: int = 1, axis: int = -1, *, prepend: Node | None = None, append: Node | None = None
):
    """Each element less the one before it, `n` times over."""
    if n < 0:
        raise fail(ArgumentError(f"an order cannot be {n}", "argument.order", help="give 0 or more"), 1)
    if n > MOST_DIFFERENCES:
        message = f"differences of order {n} are beyond {MOST_DIFFERENCES}"
        raise fail(LimitError(message, "limit.operations", help="each order is an operation of its own"), 1)
    if x.type.rank == 0:
        message = f"{b.describe(x.type)} has no axis to take differences along"
        raise ShapeError(message, "shape.axis", help="give it an array with an axis")
    before = shapes.normalize_axis(b, x, axis)
    if prepend is not None or append is not None:
        parts = (_edge(b, prepend, x, before), x, _edge(b, append, x, before))
        x = joins.concat(b, [part for part in parts if part is not None], before, "diff")
    operation = "not_equal" if x.type.dtype is BOOL else "subtract"
    for _ in range(n):
        x = b.elementwise(operation, *_neighbours(b, x, before))
    return x


@function(x="array | None", axis="int")
def trapezoid(b: GraphBuilder, y: Node, x: Node | None = None, dx: Node | float = 1.0, axis: int = -1):
    """The integral of samples along an axis by the trapezoidal rule, at positions `x`, or with spacing `dx`."""
    if y.type.rank == 0:
        message = f"{b.describe(y.type)} has no axis to integrate along"
        raise ShapeError(message, "shape.axis", help="give it an array with an axis")
    before = shapes.normalize_axis(b, y, axis)
    later, earlier = _neighbours(b, y, before)
    height = b.elementwise("divide", b.elementwise("add", later, earlier), b.literal(2.0))
    if x is None:
        width = b.literal(dx) if isinstance(dx, float) else dx
    elif x.type.rank <= 1:
        behind = y.type.rank - before - 1
        width = b.elementwise("subtract", *_neighbours(b, x, 0)) if x.type.rank else b.literal(0.0)
        width = shapes.expand_dims(b, width, list(range(1, behind + 1))) if behind and x.type.rank else width
    else:
        width = b.elementwise("subtract", *_neighbours(b, x, shapes.normalize_axis(b, x, axis)))
    return shapes.reduce(b, "sum", b.elementwise("multiply", width, height), before)


def _neighbours(b: GraphBuilder, x: Node, axis: int) -> tuple[Node, Node]:
    """All elements but the first along an axis, and all but the last."""
    before = [slice(None)] * axis
    later, earlier = (index_keys.index(b, x, (*before, part)) for part in (slice(1, None), slice(None, -1)))
    return later, earlier


def _edge(b: GraphBuilder, edge: Node | None, x: Node, axis: int) -> Node | None:
    """The array to prepend or append: of the array's shape except for the axis; a number is broadcast to extent 1."""
    if edge is None or edge.type.rank:
        return edge
    shape = tuple(1 if a == axis else d for a, d in enumerate(x.type.shape))
    return shapes.broadcast_to(b, edge, shape)


@function(blame="k", k="int", axis="int")
def topk(b: GraphBuilder, x: Node, k: int, axis: int = -1):
    """Values and indices of the `k` largest elements along an axis; among equals the first comes first."""
    return _ordered(b, x, axis, True, k)


def _ordered(b: GraphBuilder, x: Node, axis: int, descending: bool, k: int | None = None) -> tuple[Node, Node]:
    """(values, positions) along an axis, which is moved last to be sorted, and back."""
    moved = shapes.normalize_axis(b, x, axis)
    axes = [*(a for a in range(x.type.rank) if a != moved), moved]
    if moved == x.type.rank - 1:
        return scans_sorts.sort_nodes(b, x, descending, k)
    values, positions = scans_sorts.sort_nodes(b, shapes.transpose(b, x, axes), descending, k)
    back = [axes.index(a) for a in range(x.type.rank)]
    return shapes.transpose(b, values, back), shapes.transpose(b, positions, back)


@function(axis="int", descending="flag", stable="flag")
def sort(b: GraphBuilder, x: Node, axis: int = -1, *, descending: bool = False, stable: bool = True):
    """An axis sorted, stable; NaN counts as the largest."""
    return _ordered(b, x, axis, descending)[0]


@function(axis="int", descending="flag", stable="flag")
def argsort(b: GraphBuilder, x: Node, axis: int = -1, *, descending: bool = False, stable: bool = True):
    """The indices that sort an axis, stable."""
    return _ordered(b, x, axis, descending)[1]


@function(blame="kth", kth="int", axis="int")
def partition(b: GraphBuilder, x: Node, kth: int, axis: int = -1):
    """The element at rank `kth` is that of the sorted axis, no larger one before it and no smaller one after it."""
    _check_position(b, x, kth, axis)
    return _ordered(b, x, axis, False)[0]


@function(blame="kth", kth="int", axis="int")
def argpartition(b: GraphBuilder, x: Node, kth: int, axis: int = -1):
    """The indices that partition an axis."""
    _check_position(b, x, kth, axis)
    return _ordered(b, x, axis, False)[1]


def _check_position(b: GraphBuilder, x: Node, kth: int, axis: int) -> None:
    """Raise, now or in a call, unless an axis has an element at a rank."""
    n = x.type.shape[shapes.normalize_axis(b, x, axis)]
    check = Check("index", (kth, n), "partition", (x.type,), site=b.site)
    if isinstance(n, int) and not -n <= kth < n:
        raise fail(shape_error(check, b.extents), 1)
    b.checks.append(check)
