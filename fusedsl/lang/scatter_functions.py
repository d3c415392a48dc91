"""Built-in scatters, counts and histograms: values written or combined at computed indices of a new array.

The signature of each function is its signature in a program; `@function` gives the kinds that KIND_OF does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

from ..errors import ArgumentError, DTypeError, FusedslError, ShapeError
from ..ir import scatters, shapes
from ..ir.builder import GraphBuilder, fail
from ..ir.dims import Dim, expression, product
from ..ir.graph import Check, Node, node, value_of
from ..ir.ops import ROUNDED
from ..ir.scatters import DROPPED, Target
from ..ir.types import BOOL, FLOAT64, INT64, DType
from .array_functions import as_float
from .functions import function
from .parameter_kinds import dim_of, not_constant, show_value


def _base(b: GraphBuilder, base: Any, indices: Node, values: Node, fold: str, axis: int) -> tuple[Node, Node]:
    """(array to merge into, values) in one dtype; of a size, an array of the fold's identity."""
    dim = dim_of(base)
    if dim is None:
        if not isinstance(base, Node) or not base.type.rank:
            message = f"base is an array, or the size of one, not {show_value(base)}"
            fault = ArgumentError(message, "argument.kind", help="scatter_add(x, i, v), or scatter_add(10, i, v)")
            raise fail(not_constant(fault, base), 0)
        return scatters.promoted(b, base, values)
    if axis != 0:
        message = "a size makes an array whose first axis is indexed"
        raise fail(ArgumentError(message, "argument.axis", help="give the array to write to"), 3)
    values = b.strong(values)
    behind = values.type.shape[indices.type.rank :]
    return scatters.identity(b, fold, values.type.dtype, (dim, *behind)), values


def _scatter_function(name: str, fold: str, about: str) -> Callable[..., Node]:
    def build(b: GraphBuilder, base: Any, indices: Node, values: Node, axis: int = 0):
        base, values = _base(b, base, indices, values, fold, axis)
        return scatters.scatter_fold(b, base, indices, values, fold, Target(_axis(b, base, axis)))

    build.__name__, build.__doc__ = name, about
    return function(base="any", axis="plain axis")(build)


def _axis(b: GraphBuilder, base: Node, axis: int) -> int:
    try:
        return shapes.normalize_axis(b, base, axis)
    except ShapeError as error:
        raise fail(error, 3) from None


scatter_add = _scatter_function(
    "scatter_add",
    "sum",
    "`base` with values added at `indices` along an axis; an integer as `base`: that many zeros.",
)
scatter_max = _scatter_function(
    "scatter_max",
    "max",
    "`base` with the larger of its elements and the values at `indices`; "
    "an integer as `base`: that many of the least number.",
)
scatter_min = _scatter_function(
    "scatter_min",
    "min",
    "`base` with the smaller of its elements and the values at `indices`; "
    "an integer as `base`: that many of the largest number.",
)


@function(axis="plain axis")
def scatter(b: GraphBuilder, base: Node, indices: Node, values: Node, axis: int = 0):
    """`base` with values written at `indices` along an axis; of values at one index the last is kept."""
    base, values = scatters.promoted(b, base, values)
    return scatters.scatter_last(b, base, indices, values, Target(_axis(b, base, axis)))


@function(n="extent")
def bincount(b: GraphBuilder, x: Node, n: Dim, weights: Node | None = None):
    """How often each integer from 0 to n - 1 is in x, or the sums of its weights; other integers are left out."""
    return _counts(b, "bincount", x, n, weights)


def _counts(b: GraphBuilder, what: str, x: Node, n: Dim, weights: Node | None) -> Node:
    if weights is not None:
        shapes_of = [x.type.shape, weights.type.shape]
        b.broadcast(shapes_of, Check("equal", (), what, (x.type, weights.type), site=b.site))
    d = INT64 if weights is None else FLOAT64
    values = b.convert(b.literal(1), d) if weights is None else b.convert(b.strong(weights), d)
    return scatters.scatter_fold(b, scatters.identity(b, "sum", d, (n,)), x, values, "sum", Target(0, DROPPED))


@function(bins="any", range="any", density="flag")
def histogram(
    b: GraphBuilder, x: Node, bins: Any = 10, range: Any = None, density: bool = False, *, weights: Node | None = None
):
    """(counts, edges) of x in `bins` equal bins of a range (lo, hi); by default from its least to its largest."""
    count = dim_of(bins)
    if count is None or (isinstance(count, int) and count < 1):
        error: FusedslError = ArgumentError(f"bins is how many there are, not {show_value(bins)}", "argument.bins",
                                            help="histogram(x, 10, (0, 1))")  # fmt: skip
        raise fail(error, 1)
    if x.type.dtype is BOOL:
        raise fail(DTypeError("histogram of bools", "dtype.histogram", help="cast it first: int8(x)"), 0)
    flat = as_float(b, b.strong(x))
    low, high = _outer_edges(b, flat, range)
    bin_of = _bin_of(b, flat, low, high, count)
    hist = _counts(b, "histogram", bin_of, count, weights)
    edges = _edge(b, b.iota(expression("+", count, 1)), low, high, count, flat.type.dtype)
    if density:
        widths = b.elementwise("divide", b.elementwise("subtract", high, low), b.extent(count))
        total = b.elementwise("multiply", shapes.reduce(b, "sum", hist), widths)
        hist = b.elementwise("divide", hist, b.convert(total, FLOAT64))
    return hist, edges


def _outer_edges(b: GraphBuilder, x: Node, range: Any) -> tuple[Node, Node]:
    """The ends of the range, apart; numbers stay weak."""
    if range is None:
        ends = [shapes.reduce(b, fold, x, empty=True) for fold in ("min", "max")]
        some = b.elementwise("greater", b.extent(product(x.type.shape)), b.literal(0))
        low, high = (b.elementwise("where", some, end, b.literal(k)) for k, end in enumerate(ends))
    elif (
        isinstance(range, tuple)
        and len(range) == 2
        and all(isinstance(end, Node) and not end.type.rank for end in range)
    ):
        low, high = range
        given = [value_of(end) for end in range if end.op == "const"]
        if not all(map(isfinite, given)) or given != sorted(given):
            message = f"range is from {' to '.join(map(str, given))}"
            raise fail(ArgumentError(message, "argument.range", help="two finite numbers, the least first"), 2)
    else:
        message = f"range is two numbers, not {show_value(range)}"
        raise fail(ArgumentError(message, "argument.range", help="range=(lo, hi)"), 2)
    widening = b.elementwise("where", b.elementwise("equal", low, high), b.literal(0.5), b.literal(0.0))
    return b.elementwise("subtract", low, widening), b.elementwise("add", high, widening)


def _edge(b: GraphBuilder, number: Node, low: Node, high: Node, bins: Dim, d: DType) -> Node:
    """The edge of this number in a dtype, computed in float64, as numpy.linspace does."""
    first, last = (b.convert(end, FLOAT64) for end in (low, high))
    step = b.elementwise("divide", b.elementwise("subtract", last, first), b.extent(bins))
    scaled = b.elementwise("multiply", b.convert(number, FLOAT64), step)
    rounded = node("multiply", scaled.args, ROUNDED, scaled.type) if scaled.op == "multiply" else scaled
    edge = b.elementwise("add", rounded, first)
    return b.cast(b.elementwise("where", b.elementwise("equal", number, b.extent(bins)), last, edge), d)


def _bin_of(b: GraphBuilder, x: Node, low: Node, high: Node, bins: Dim) -> Node:
    """The bin of each element: the last one holds its upper edge; -1 out of range."""

    def op(name: str, *args: Node) -> Node:
        return b.elementwise(name, *args)

    d = x.type.dtype
    share = op("divide", op("subtract", x, low), op("subtract", high, low))
    position = b.cast(op("multiply", share, b.extent(bins)), INT64)
    last = b.extent(expression("-", bins, 1))
    position = op("minimum", op("maximum", position, b.literal(0)), last)
    below = op("less", x, _edge(b, position, low, high, bins, d))
    position = op("subtract", position, b.cast(below, INT64))
    after = op("add", position, b.literal(1))
    above = op("logical_and", op("greater_equal", x, _edge(b, after, low, high, bins, d)), op("less", position, last))
    position = op("add", position, b.cast(above, INT64))
    inside = op("logical_and", op("greater_equal", x, low), op("less_equal", x, high))
    return op("where", inside, position, b.literal(-1))
