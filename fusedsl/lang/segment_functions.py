"""Built-in folds of segments: rows of one id, or between neighbouring offsets, along the first axis.

The signature of each function is its signature in a program; `@function` gives the kinds that KIND_OF does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..errors import ArgumentError, ShapeError
from ..ir import gathers, scatters, shapes
from ..ir.builder import GraphBuilder, fail
from ..ir.dims import Dim
from ..ir.graph import Node
from ..ir.ops import reduced_dtype
from ..ir.ragged_rows import RaggedRows, ragged_rows
from ..ir.scatters import ORDERED, RUNS, Target
from .array_functions import as_float
from .functions import function
from .parameter_kinds import CONSTANT_HELP
from .scatter_functions import bincount


@dataclass(frozen=True)
class Segments:
    """The segment of each row, and how many segments there are; by offsets, numbered without the empty ones."""

    ids: Node
    count: Dim
    ragged: RaggedRows | None = None


def _segments(b: GraphBuilder, what: str, x: Node, offsets: Node | None, ids: Node | None, n: Dim | None) -> Segments:
    """Segments by ids, or by offsets: segment k is the rows from offsets[k] up to offsets[k + 1]."""
    if not x.type.rank:
        error = ShapeError(f"{what} of a number", "shape.segment", help="its segments are rows of an array")
        raise fail(error, 0)
    if (offsets is None) == (ids is None):
        given = "none" if ids is None else "both"
        message = f"{what} takes offsets or ids, and {given} {'is' if ids is None else 'are'} given"
        raise ArgumentError(message, "argument.segments", help=f"{what}(x, offsets=o), or {what}(x, ids=i, n=10)")
    if ids is not None:
        if n is None:
            message = f"{what} by ids needs the number of segments"
            raise ArgumentError(message, "argument.missing", help=f"n=10; {CONSTANT_HELP}")
        scatters.require_index_axis(b, ids, x, what)
        return Segments(ids, n)
    assert offsets is not None
    if offsets.type.rank != 1:
        error = ShapeError(f"offsets have one axis, not {b.describe(offsets.type)}", "shape.segment",
                           help="segment k begins at offsets[k] and ends before offsets[k + 1]")  # fmt: skip
        raise fail(error, 1)
    shapes.require_elements(b, what, offsets, (0,))
    ragged = ragged_rows(b, b.strong(offsets), x.type.shape[0])
    return Segments(ragged.rank_of_row, ragged.count, ragged)


def _folded(b: GraphBuilder, fold: str, x: Node, s: Segments) -> Node:
    """The fold of each numbered segment."""
    x = b.strong(x)
    x = b.convert(x, reduced_dtype(fold, x.type.dtype))
    base = scatters.identity(b, fold, x.type.dtype, (s.count, *x.type.shape[1:]))
    return scatters.scatter_fold(b, base, s.ids, x, fold, Target(0, RUNS if s.ragged is None else ORDERED))


def _of_all(b: GraphBuilder, fold: str, folded: Node, s: Segments) -> Node:
    """The folds of all segments, the empty ones among them."""
    if s.ragged is None:
        return folded
    rank, behind = s.ragged.rank_of_segment, folded.type.rank - 1
    read = gathers.at_position(b, folded, 0, rank, s.count, gathers.GUARDED)
    is_full = gathers.before_axes(b, b.elementwise("greater_equal", rank, b.literal(0)), behind)
    return b.elementwise("where", is_full, read, scatters.identity(b, fold, folded.type.dtype, folded.type.shape))


def _spread(b: GraphBuilder, of_segments: Node, x: Node, s: Segments) -> Node:
    """For each row the value of its segment."""
    ids = gathers.before_axes(b, gathers.positions(b, s.ids), x.type.rank - 1)
    return gathers.gather(of_segments, {0: ids}, range(x.type.rank), x.type.shape, gathers.GUARDED)


def _segment_function(name: str, build_of: Callable[[GraphBuilder, Node, Segments], Node], about: str) -> Callable:
    def build(b: GraphBuilder, x: Node, *, offsets: Node | None = None, ids: Node | None = None, n: Dim | None = None):
        return build_of(b, x, _segments(b, name, x, offsets, ids, n))

    build.__name__, build.__doc__ = name, about
    return function(offsets="array | None", ids="array | None", n="extent | None")(build)


def _mean(b: GraphBuilder, x: Node, s: Segments) -> Node:
    x = as_float(b, b.strong(x))
    count = bincount(b, s.ids, s.count) if s.ragged is None else s.ragged.lengths
    count = gathers.before_axes(b, b.convert(count, x.type.dtype), x.type.rank - 1)
    return b.elementwise("divide", _of_all(b, "sum", _folded(b, "sum", x, s), s), count)


def _fold_of(fold: str) -> Callable[[GraphBuilder, Node, Segments], Node]:
    def build(b: GraphBuilder, x: Node, s: Segments) -> Node:
        return _of_all(b, fold, _folded(b, fold, x, s), s)

    return build


def _softmax(b: GraphBuilder, x: Node, s: Segments) -> Node:
    x = as_float(b, b.strong(x))
    moved = b.elementwise("subtract", x, _spread(b, _folded(b, "max", x, s), x, s))
    e = b.elementwise("exp", moved)
    share = b.elementwise("divide", e, _spread(b, _folded(b, "sum", e, s), x, s))
    inside = gathers.in_range(b, s.ids, s.count)
    return b.elementwise("where", gathers.before_axes(b, inside, x.type.rank - 1), share, b.literal(0.0))


segment_sum = _segment_function(
    "segment_sum", _fold_of("sum"), "The sum of each segment's rows: those of one id, or from one offset to the next."
)
segment_mean = _segment_function("segment_mean", _mean, "The mean of each segment's rows; NaN of an empty one.")
segment_max = _segment_function(
    "segment_max", _fold_of("max"), "The largest of each segment's rows; the least number of an empty one."
)
segment_min = _segment_function(
    "segment_min", _fold_of("min"), "The smallest of each segment's rows; the largest number of an empty one."
)
segment_softmax = _segment_function(
    "segment_softmax", _softmax, "softmax over the rows of each segment; 0 in rows of no segment."
)
