"""Cotangents of reductions and sorts."""

from __future__ import annotations

from ..ir import scans_sorts, shapes
from ..ir.builder import GraphBuilder
from ..ir.gathers import INSIDE, gather
from ..ir.graph import Node, Type, node
from ..ir.types import INT64
from .gathers import of_gather
from .term import Term


def of_reduction(b: GraphBuilder, n: Node, g: Node) -> Node:
    """The cotangent of a reduction's argument."""
    fold, axes = n.attr
    x, out, cotangent = (Term(b, v) for v in (n.args[0], n, g))
    if fold == "sum":
        return g
    if fold == "prod":
        return _of_product(b, x, out, cotangent, axes).node
    chosen = x.equals(out)  # the extremum's cotangent is shared by all elements that equal it
    count = shapes.reduce(b, "sum", b.convert(chosen.node, g.type.dtype), axes, keepdims=True)
    return chosen.then(cotangent / Term(b, count), 0).node


def _of_product(b: GraphBuilder, x: Term, out: Term, g: Term, axes: tuple[int, ...]) -> Term:
    """The product of the others: out / x; where one element is 0, it alone receives the product of the rest."""
    zero = x.equals(0)
    zeros = Term(b, shapes.reduce(b, "sum", b.convert(zero.node, INT64), axes, keepdims=True))
    rest = Term(b, shapes.reduce(b, "prod", zero.then(1, x).node, axes, keepdims=True))
    others = zero.then(zeros.equals(1).then(rest, 0), zeros.equals(0).then(rest / zero.then(1, x), 0))
    return g * others


def of_sorted(b: GraphBuilder, n: Node, g: Node) -> Node:
    """Each value's cotangent, at the position that it had before the sort."""
    x = n.args[0]
    axis = x.type.rank - 1
    positions = node("sorted", n.args, ("positions", n.attr[1]), Type(INT64, n.type.shape))
    if n.type.shape[axis] == x.type.shape[axis]:  # of a whole row: the inverse permutation
        _, inverse = scans_sorts.sort_nodes(b, positions, False)
        return gather(g, {axis: inverse}, range(x.type.rank), x.type.shape, INSIDE)
    read = gather(x, {axis: positions}, range(x.type.rank), n.type.shape, INSIDE)
    return of_gather(b, read, g)
