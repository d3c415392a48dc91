"""Reverse mode: the cotangents of some values of a graph, from those of its results, node by node from the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from ..errors import Unsupported
from ..ir.builder import STOPPED, GraphBuilder
from ..ir.graph import Node, Type, node, walk
from ..ir.ops import CASTS, OPS, VIEWS
from ..ir.types import promote
from .contractions import of_contraction
from .elementwise import NO_DERIVATIVE, RULES
from .gathers import of_gather
from .reductions import of_reduction, of_sorted
from .scans import of_scan
from .scatters import of_scatter
from .term import Term
from .unbroadcast import cotangent_dtype, fitted, zeros
from .views import of_view

FIRST_ARGUMENT: dict[str, Callable[[GraphBuilder, Node, Node], Node]] = {
    **dict.fromkeys(VIEWS, of_view),
    **dict.fromkeys(CASTS, lambda b, n, g: g),
    "reduce": of_reduction,
    "sorted": of_sorted,
    "gather": of_gather,
}


def vjp(b: GraphBuilder, results: Sequence[Node], cotangents: Sequence[Node], wrt: Sequence[Node]) -> list[Node]:
    """The cotangent of each value in `wrt`: the sum over the results of the cotangent times the derivative.

    Results are strong floats, with cotangents of their shapes and dtypes. Raises Unsupported for an operation on the
    way that has no derivative.
    """
    forms = [(w, *b.coerced_forms(w)) for w in wrt]
    leaves = {form for own in forms for form in own}
    order = list(walk(results))
    active = _active(order, leaves)
    given: dict[Node, list[Node]] = {}
    for r, cotangent in zip(results, cotangents):
        given.setdefault(r, []).append(cotangent)
    totals: dict[Node, Node] = {}
    for n in reversed(order):
        if n not in active or n not in given:
            continue
        totals[n] = g = reduce(lambda x, y: b.elementwise("add", x, y), given.pop(n))
        for operand, x in enumerate(n.args):
            if x in active and (part := _part(b, n, g, operand)) is not None:
                given.setdefault(x, []).append(fitted(b, part, x.type))
    return [_total(b, w, [totals[form] for form in own if form in totals]) for w, own in zip(wrt, forms)]


def _active(order: Sequence[Node], leaves: set[Node]) -> set[Node]:
    """The floats that depend on the leaves, up to a stop_gradient."""
    active: set[Node] = set()
    for n in order:
        passes = n.type.dtype.kind == "f" and n.attr != STOPPED
        if n in leaves or (passes and any(a in active for a in n.args)):
            active.add(n)
    return active


def _part(b: GraphBuilder, n: Node, g: Node, operand: int) -> Node | None:
    """The cotangent that an operand receives from a node with cotangent `g`, in any shape that broadcasts."""
    if n.op in RULES:
        rule = RULES[n.op][operand]
        return None if rule is None else rule(Term(b, g), *(Term(b, x) for x in (n, *n.args))).node
    if n.op == "contract":
        return of_contraction(b, n, g, operand)
    if n.op == "scan":
        return of_scan(b, n, g, operand)
    if n.op == "scatter":
        return of_scatter(b, n, g, operand)
    if n.op in FIRST_ARGUMENT:
        return FIRST_ARGUMENT[n.op](b, n, g)
    why = NO_DERIVATIVE.get(n.op, "no rule says what it is")
    name = OPS[n.op].name if n.op in OPS else n.op
    help = "stop_gradient(x) takes x as a constant"
    raise Unsupported(f"{name} has no derivative: {why}", "unsupported.derivative", help=help)


def _total(b: GraphBuilder, w: Node, parts: list[Node]) -> Node:
    """The cotangents of one value's forms in several dtypes as one, in its own dtype if that is strong."""
    if not parts:
        return zeros(b, w.type)
    dtype = cotangent_dtype(w.type.dtype)
    if w.type.weak:
        dtype = reduce(promote, (g.type.dtype for g in parts))
    return reduce(lambda x, y: b.elementwise("add", x, y), (b.convert(g, dtype) for g in parts))


def jvp(b: GraphBuilder, results: Sequence[Node], wrt: Sequence[Node], tangents: Sequence[Node]) -> list[Node]:
    """The derivative of each result in the direction of the tangents.

    A vjp is linear in its cotangents, so the derivative of a vjp by them is the jvp.
    """
    unknown = [_unknown(k, r.type) for k, r in enumerate(results)]
    return vjp(b, vjp(b, results, unknown, wrt), tangents, unknown)


def _unknown(k: int, type: Type) -> Node:
    """A cotangent that stands for any: no argument of the program, and in no result."""
    return node("param", (), -1 - k, Type(cotangent_dtype(type.dtype), type.shape))
