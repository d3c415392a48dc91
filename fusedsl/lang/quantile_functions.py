"""Built-in order statistics: median, quantile, percentile, and their forms that leave NaN out, over any axes.

Each sorts the reduced axes as one row and reads the sorted row. The signature of each function is its signature in a
program; `@function` gives the kinds that KIND_OF does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import ArgumentError
from ..ir import gathers, index_keys, joins, scans_sorts, shapes
from ..ir.builder import GraphBuilder, fail
from ..ir.dims import expression, product
from ..ir.graph import Node, value_of
from ..ir.types import BOOL, FLOAT64, INT64
from .array_functions import as_float
from .data_movement_functions import check_choice
from .functions import function
from .parameter_kinds import show_value

Axes = int | tuple[int, ...] | None

# Positions of quantiles among n sorted elements: q (n - alpha - beta + 1) + alpha - 1 (Hyndman and Fan 1996).
PLOTTING = {
    "linear": (1.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
    "interpolated_inverted_cdf": (0.0, 1.0),
}
READ = {"lower": "floor", "higher": "ceil", "nearest": "rint"}  # no interpolation: integers stay integers
METHODS = (*PLOTTING, *READ, "midpoint")  # numpy.quantile's, except those that jump


@dataclass(frozen=True)
class SortedRows:
    """Rows in ascending order, along the last axis."""

    values: Node
    last: Node  # the position of the last element that counts: one for all rows, or one a row with the axis kept
    spoilt: Node | None  # rows with a NaN that is not left out, with the axis kept


def as_double(b: GraphBuilder, x: Node) -> Node:
    """Floats as they are, all else as float64."""
    return b.strong(x) if x.type.dtype.kind == "f" else b.convert(b.strong(x), FLOAT64)


def sorted_rows(b: GraphBuilder, name: str, x: Node, axis: Axes) -> SortedRows:
    """The reduced axes of `x` as one sorted row, for the function of this name: those with `nan` leave NaN out."""
    reduced = shapes.normalize_axes(b, x, axis)
    others = tuple(a for a in range(x.type.rank) if a not in reduced)
    extents = tuple(x.type.shape[a] for a in reduced)
    shapes.require_elements(b, name, x, reduced)
    if x.type.rank and (*others, *reduced) != tuple(range(x.type.rank)):
        x = shapes.transpose(b, x, (*others, *reduced))
    if len(reduced) != 1:
        x = shapes.reshape(b, x, (*x.type.shape[: len(others)], product(extents)))
    n = x.type.shape[-1]
    values = scans_sorts.sort_nodes(b, x, False)[0]
    last = b.extent(expression("-", n, 1))
    if x.type.dtype.kind != "f":
        return SortedRows(values, last, None)
    if name.startswith("nan"):
        there = b.elementwise("logical_not", b.elementwise("isnan", x))
        count = shapes.reduce(b, "sum", there, -1, keepdims=True)
        return SortedRows(values, b.elementwise("subtract", b.convert(count, INT64), b.literal(1)), None)
    largest = index_keys.index(b, values, (Ellipsis, slice(-1, None)))  # NaN is sorted last
    return SortedRows(values, last, b.elementwise("isnan", largest))


def _at(b: GraphBuilder, rows: SortedRows, position: Node) -> Node:
    """The elements at integer positions: one or several, the same for all rows or of each row."""
    position = b.convert(position, INT64)
    if position.type.rank == 0:
        position = shapes.expand_dims(b, position, 0)
    if position.type.rank < rows.values.type.rank or rows.values.type.rank == 1:
        return gathers.take(b, rows.values, position, -1)
    return gathers.take_along_axis(b, rows.values, position, -1)


def _finished(b: GraphBuilder, rows: SortedRows, result: Node) -> Node:
    """NaN for rows that a NaN spoils."""
    return result if rows.spoilt is None else b.elementwise("where", rows.spoilt, b.literal(float("nan")), result)


def _with_axes(b: GraphBuilder, result: Node, x: Node, axis: Axes, keepdims: bool) -> Node:
    """A result (…, 1) with the reduced axes kept as 1, or dropped."""
    dropped = shapes.squeeze(b, result, (result.type.rank - 1,))
    return shapes.expand_dims(b, dropped, shapes.normalize_axes(b, x, axis)) if keepdims and x.type.rank else dropped


def _median(b: GraphBuilder, name: str, x: Node, axis: Axes, keepdims: bool) -> Node:
    rows = sorted_rows(b, name, b.strong(x), axis)
    halves = (b.elementwise("floor_divide", n, b.literal(2)) for n in (rows.last, _next(b, rows.last)))
    lower, upper = (as_double(b, _at(b, rows, half)) for half in halves)
    middle = b.elementwise("multiply", b.elementwise("add", lower, upper), b.literal(0.5))
    return _with_axes(b, _finished(b, rows, middle), x, axis, keepdims)


def _next(b: GraphBuilder, n: Node) -> Node:
    return b.elementwise("add", n, b.literal(1))


@function()
def median(b: GraphBuilder, x: Node, axis: Axes = None, *, keepdims: bool = False):
    """The middle element, or the mean of the two middle ones; NaN if there is a NaN."""
    return _median(b, "median", x, axis, keepdims)


@function()
def nanmedian(b: GraphBuilder, x: Node, axis: Axes = None, *, keepdims: bool = False):
    """The median of what is not NaN."""
    return _median(b, "nanmedian", x, axis, keepdims)


# ---- quantiles


def _quantile_function(name: str, scale: float, about: str) -> Callable[..., Node]:
    """quantile or percentile: levels are divided by `scale`; names with `nan` leave NaN out."""

    def build(b: GraphBuilder, x: Node, q: Any, axis: Axes = None, *, method: Any = "linear", keepdims: bool = False):
        check_choice(f"method of {name}", method, METHODS, 3)
        rows = sorted_rows(b, name, b.strong(x), axis)

        def at(level: Any) -> Node:
            value = _finished(b, rows, _interpolated(b, rows, _level(b, name, level, scale), method))
            if isinstance(level, Node) and level.type.rank:  # the levels' axis comes first
                value = shapes.transpose(b, value, (value.type.rank - 1, *range(value.type.rank - 1)))
                reduced = shapes.normalize_axes(b, x, axis)
                return shapes.expand_dims(b, value, [a + 1 for a in reduced]) if keepdims and reduced else value
            return _with_axes(b, value, x, axis, keepdims)

        if isinstance(q, tuple):
            return joins.concat(b, [shapes.expand_dims(b, at(level), 0) for level in q], 0, name)
        return at(q)

    build.__name__, build.__doc__ = name, about
    return function(q="any", method="any")(build)


def _level(b: GraphBuilder, name: str, q: Any, scale: float) -> Node:
    """The level of a quantile, 0 to 1: a number, or an array of one axis."""
    if not isinstance(q, Node) or q.type.rank > 1 or q.type.dtype is BOOL:
        what = f"an array of {q.type.rank} axes" if isinstance(q, Node) and q.type.rank > 1 else show_value(q)
        error = ArgumentError(f"q of {name} is a number, or several on one axis, not {what}", "argument.kind",
                              help=f"write {name}(x, {0.5 * scale:g})")  # fmt: skip
        raise fail(error, 1)
    if q.op == "const" and not 0 <= value_of(q) <= scale:
        message, help = f"{name} has no level {value_of(q)}", f"levels are from 0 to {scale:g}"
        raise fail(ArgumentError(message, "argument.range", help=help), 1)
    return q if scale == 1 else b.elementwise("divide", as_float(b, q), b.literal(scale))


def _interpolated(b: GraphBuilder, rows: SortedRows, q: Node, method: str) -> Node:
    """The quantile of each row at levels q; NaN beyond 0 to 1. The last axis is that of the levels."""

    def op(name: str, *args: Node) -> Node:
        return b.elementwise(name, *args)

    level, last = b.convert(b.strong(as_float(b, q)), FLOAT64), b.convert(b.strong(rows.last), FLOAT64)
    alpha, beta = PLOTTING.get(method, (1.0, 1.0))
    # (n - alpha - beta + 1) q + alpha - 1, with n = last + 1
    position = op("multiply", op("add", last, b.literal(2 - alpha - beta)), level)
    position = op("add", position, b.literal(alpha - 1))
    position = op("minimum", op("maximum", position, b.literal(0.0)), last)
    if method in READ:
        return _valid(b, q, _at(b, rows, op(READ[method], position)))
    below = op("floor", position)
    above = op("minimum", op("add", below, b.literal(1.0)), last)
    low, high = (as_double(b, _at(b, rows, position)) for position in (below, above))
    part = op("subtract", position, below)
    if method == "midpoint":
        part = op("where", op("greater", part, b.literal(0.0)), b.literal(0.5), b.literal(0.0))
    dtype = low.type.dtype if q.type.weak else b.computed("add", low, q)
    part, rise = b.convert(part, dtype), op("subtract", high, low)
    upwards = op("add", low, op("multiply", rise, part))
    downwards = op("subtract", high, op("multiply", rise, op("subtract", b.literal(1.0), part)))
    return _valid(b, q, op("where", op("less", part, b.literal(0.5)), upwards, downwards))


def _valid(b: GraphBuilder, level: Node, value: Node) -> Node:
    """NaN for levels beyond 0 to 1, if the value can be; an integer is then that of the nearest level."""
    if level.op == "const" or value.type.dtype.kind != "f":
        return value
    above, below = b.elementwise("greater_equal", level, b.literal(0)), b.elementwise("less_equal", level, b.literal(1))
    return b.elementwise("where", b.elementwise("logical_and", above, below), value, b.literal(float("nan")))


quantile = _quantile_function(
    "quantile",
    1.0,
    "The `q`-quantile: the element at position q (n - 1) of the sorted elements, interpolated; NaN if there is a NaN.",
)
percentile = _quantile_function("percentile", 100.0, "quantile at q / 100.")
nanquantile = _quantile_function("nanquantile", 1.0, "The quantile of what is not NaN.")
nanpercentile = _quantile_function("nanpercentile", 100.0, "nanquantile at q / 100.")
