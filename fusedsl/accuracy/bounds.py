"""Derived error bounds: a graph evaluated in float64, with a bound on the distance of a correct target.

Every rounding adds half an ulp (for functions, a documented number of ulps), and operations propagate the errors of
their operands: the bound is the largest change of the exact result when each operand moves by its own bound. An
infinite bound allows anything, NaN included: for a comparison of values within their bounds, or a value near the edge
of a function's domain or the largest float. Values of other dtypes than floats are exact or unbounded.

This is a running error analysis (Higham, Accuracy and Stability of Numerical Algorithms, 2002, 3.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..ir.dims import Symbol
from ..ir.graph import Graph, Node
from ..ir.interp import RULES, cast, extents_of
from ..ir.ops import OPS
from .ball import Ball, any_unbounded, stored, wide
from .elementwise import Roundings, operation
from .products import contraction, regrouped
from .reductions import reduction, sort
from .scans import scan
from .scatters import scatter

ALONG_AXES = {"reduce": reduction, "sorted": sort}


def evaluate(graph: Graph, arguments: Sequence, roundings: Roundings | None = None) -> list[Ball]:
    """(exact value, bound) of each result, stored in its dtype; other values than floats have bound 0 or infinity.

    `roundings` are bounds of functions that are less accurate than by default.
    """
    balls = evaluate_nodes(graph, arguments, roundings)
    with np.errstate(all="ignore"):
        return [stored(*balls[r], r.type.dtype) for r in graph.results]


def evaluate_nodes(graph: Graph, arguments: Sequence, roundings: Roundings | None = None) -> dict[Node, Ball]:
    """(exact value, bound) of every node, before it is stored."""
    extents, balls = extents_of(arguments), dict[Node, Ball]()
    with np.errstate(all="ignore"):
        for n in graph.nodes():
            balls[n] = of_node(n, [balls[a] for a in n.args], arguments, extents, roundings)
            if n.op == "contract" and n.type.dtype.kind == "f":
                balls[n] = regrouped(n, balls, arguments, extents)
    return balls


def of_node(
    n: Node, args: list[Ball], arguments: Sequence, extents: Mapping[Symbol, int], roundings: Roundings | None = None
) -> Ball:
    """(exact value, bound) of one node, given those of its arguments."""
    if n.op in OPS:
        return operation(n, args, roundings or {})
    if n.op in ALONG_AXES:
        return ALONG_AXES[n.op](n, *args[0], arguments, extents)
    if n.op == "scan":
        return scan(n, args)
    if n.op == "contract":
        return contraction(n, args, arguments, extents, roundings or {})
    if n.op == "scatter":
        return scatter(n, args)
    values = [v for v, _ in args]
    if n.op == "cast" or (n.op == "convert" and n.type.dtype.kind == "f"):
        return stored(*args[0], n.type.dtype if n.op == "cast" else n.type.dtype.compute)
    value = wide(np.asarray(RULES[n.op](n, values, arguments, extents)), n.type.dtype)
    if n.op == "scalar":
        return wide(cast(value, n.type.dtype.compute), n.type.dtype), np.zeros(value.shape)
    if not n.args:
        return value, np.zeros(value.shape)
    moved = np.asarray(RULES[n.op](n, [args[0][1], *values[1:]], arguments, extents))
    bound = np.where(np.isnan(moved), 0.0, moved)  # an element out of a gather's range is exactly NaN
    return value, np.where(any_unbounded(args[1:], value.shape), np.inf, bound)
