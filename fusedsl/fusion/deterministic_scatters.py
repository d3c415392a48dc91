"""Deterministic scatters on CUDA: those whose result depends on an order become scatters that no order changes.

Atomics of integers, and of the largest float, give the same bits in any order. The last value at an index is that of
the largest position which writes there. A sum of floats is one of integers: multiples of a unit that the largest value
of its index decides, small enough that the sum of the roundings is far below one rounding of the float sum; or of
exact integers, in superaccumulators (superaccumulated_scatters.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ir import gathers, scatters, shapes
from ..ir.builder import GraphBuilder
from ..ir.dims import Symbol, product
from ..ir.graph import Graph, Node, node, rebuild_graph
from ..ir.superaccumulators import DOWN, UP
from ..ir.types import FLOAT64, INT32, INT64, MOST_INT32
from .superaccumulated_scatters import Fits, accumulated, added_to, sum_fold, sum_of_infinities

SUM_BITS = 62  # of the integers that are added
UNBOUNDED = -(1 << 16)  # the exponent of an index with an infinity or a NaN


def order_scatters(graph: Graph, extents: Mapping[Symbol, int], fits: Fits, unordered: bool = False) -> Graph:
    """The graph with scatters that atomics compute; `unordered` ones add floats as they come."""
    if not any(n.op == "scatter" for n in graph.nodes()):
        return graph
    b = GraphBuilder(graph.parameters, extents)

    def has_near_places(base: Node) -> bool:
        return fits(product(base.type.shape), MOST_INT32)

    def change(n: Node, args: tuple[Node, ...]) -> Node:
        new = node(n.op, args, n.attr, n.type) if args else n
        if n.op != "scatter":
            return new
        fold, mode = n.attr
        base, flat_indices, values = args
        match fold:
            case "last":
                return _last(b, base, flat_indices, values, mode, fits)
            case "sum" if mode == scatters.ORDERED and flat_indices.type.rank == 1 and has_near_places(base):
                return new  # runs are folded in order
            case "sum" if n.type.dtype.kind == "f" and not unordered:
                exact = sum_fold(b, base, flat_indices, mode, fits)
                if exact is None:
                    return _sum(b, base, flat_indices, values, mode)
                return accumulated(b, base, flat_indices, values, (exact, mode))
            case "max" if n.type.dtype.kind == "f":
                return _largest(b, base, flat_indices, values, mode)
            case "min" if n.type.dtype.kind == "f":
                minus = [b.elementwise("negative", x) for x in (base, values)]
                return b.elementwise("negative", _largest(b, minus[0], flat_indices, minus[1], mode))
        return new

    return rebuild_graph(graph, change)


def _node(fold: str, base: Node, flat_indices: Node, values: Node, mode: str) -> Node:
    return node("scatter", (base, flat_indices, values), (fold, mode), base.type)


def _largest(b: GraphBuilder, base: Node, flat_indices: Node, values: Node, mode: str) -> Node:
    """A maximum, where a NaN of the array is the one that atomics find largest."""
    nan = b.convert(b.literal(float("nan")), base.type.dtype)
    clean = b.elementwise("where", b.elementwise("isnan", base), nan, base)
    return _node("max", shapes.broadcast_to(b, clean, base.type.shape), flat_indices, values, mode)


def _last(b: GraphBuilder, base: Node, flat_indices: Node, values: Node, mode: str, fits: Fits) -> Node:
    """The value at the largest position that writes to each index of a vector."""
    (count,) = flat_indices.type.shape
    numbers = INT32 if fits(count, MOST_INT32) else INT64
    nothing = shapes.broadcast_to(b, b.convert(b.literal(scatters.NOWHERE), numbers), base.type.shape)
    last = _node("max", nothing, flat_indices, b.convert(b.iota(count), numbers), mode)
    read = gathers.gather(values, {0: b.convert(last, INT64)}, [0], base.type.shape, gathers.GUARDED)
    return b.elementwise("where", b.elementwise("greater_equal", last, b.literal(0)), read, base)


def _sum(b: GraphBuilder, base: Node, flat_indices: Node, values: Node, mode: str) -> Node:
    """A sum of floats in integers, as exact as if it were added up in float64."""
    d, count = base.type.dtype, product(flat_indices.type.shape)

    def op(name: str, *args: Node) -> Node:
        return b.elementwise(name, *args)

    wide = b.convert(values, FLOAT64)
    zeros = shapes.broadcast_to(b, b.convert(b.literal(0.0), d), base.type.shape)
    size = _node("max", zeros, flat_indices, op("absolute", values), mode)  # NaN if a value is
    # 2**power is more than the largest value of an index; its sum then stays below 2**62, whatever the count
    size = b.convert(size, FLOAT64)
    largest = op("floor", op("log2", size))
    bits = op("ceil", op("log2", op("maximum", b.convert(b.extent(count), FLOAT64), b.literal(1.0))))
    shift = op("subtract", op("subtract", b.literal(float(SUM_BITS - 3)), largest), bits)
    shift = op("where", op("greater", size, b.literal(0.0)), shift, b.literal(0.0))
    shift = b.cast(op("where", op("isfinite", size), shift, b.literal(float(UNBOUNDED))), INT32)
    own_shift = _read(b, shift, flat_indices, base)
    own_finite = op("not_equal", own_shift, b.literal(UNBOUNDED))
    scaled = op("ldexp", wide, own_shift)
    whole = op("rint", scaled)
    high = b.cast(whole, INT64)
    infinite = op("where", op("isinf", wide), op("where", op("greater", wide, b.literal(0.0)), b.literal(UP),
                  b.literal(DOWN)), b.literal(0))  # fmt: skip
    high = op("where", own_finite, high, infinite)
    none = shapes.broadcast_to(b, b.convert(b.literal(0), INT64), base.type.shape)
    spread = shapes.broadcast_to(b, high, flat_indices.type.shape)
    total = _node("sum", none, flat_indices, spread, mode)
    result = b.convert(total, FLOAT64)
    if d is FLOAT64:  # what the first integers leave
        rest = op("ldexp", op("subtract", scaled, whole), b.literal(SUM_BITS - 30))
        low = b.cast(op("where", own_finite, op("rint", rest), b.literal(0.0)), INT64)
        low_total = _node("sum", none, flat_indices, shapes.broadcast_to(b, low, flat_indices.type.shape), mode)
        result = op("add", result, op("ldexp", b.convert(low_total, FLOAT64), b.literal(30 - SUM_BITS)))
    result = op("ldexp", result, op("negative", shift))
    special = op("where", op("isnan", size), b.literal(float("nan")), sum_of_infinities(b, total))
    result = op("where", op("isfinite", size), result, special)
    return added_to(b, base, result)


def _read(b: GraphBuilder, x: Node, flat_indices: Node, base: Node) -> Node:
    """The elements of an array of the base's shape at indices of its C order."""
    flat = shapes.reshape(b, x, (product(base.type.shape),))
    return gathers.gather(flat, {0: flat_indices}, [0], flat_indices.type.shape, gathers.GUARDED)
