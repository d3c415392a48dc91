"""Cotangents of scans: scans from the other end."""

from __future__ import annotations

from ..ir import scans_sorts, shapes
from ..ir.builder import GraphBuilder
from ..ir.gathers import INSIDE, gather
from ..ir.graph import Node, node
from ..ir.scans_sorts import ScanMode
from ..ir.types import INT64
from .gathers import of_gather
from .term import Term


def of_scan(b: GraphBuilder, n: Node, g: Node, operand: int) -> Node:
    """The cotangent of an operand of a scan.

    A product is the recurrence P[t] = x[t] P[t-1]. The logarithm of a sum is scaled by e^(out[t-1] - out[t]) <= 1.
    """
    fold, axis, exclusive = n.attr
    if fold == "sum":
        return scans_sorts.scan(b, "sum", g, axis, ScanMode(reverse=True, exclusive=exclusive))
    if fold in ("max", "min"):
        return _of_extrema(b, n, g)
    inclusive, before = (Term(b, node("scan", n.args, (fold, axis, e), n.type)) for e in (False, True))
    scale = Term(b, n.args[0])
    if fold == "logsumexp":
        x, scale = scale, _ratio(before, inclusive)
        return (_states(b, scale, Term(b, g), axis, exclusive) * _ratio(x, inclusive)).node
    states = _states(b, scale, Term(b, g), axis, exclusive)
    return states.node if operand else (states * before).node


def _states(b: GraphBuilder, scale: Term, g: Term, axis: int, exclusive: bool) -> Term:
    """The cotangents of h[t] = scale[t] h[t-1] + …: that of h[t] receives scale[t+1] times that of h[t+1]."""
    back = ScanMode(reverse=True, exclusive=True)
    shift = g if exclusive else scale * g
    later = Term(b, scans_sorts.linear_scan(b, scale.node, shift.node, axis, None, back))
    return later if exclusive else g + later


def _ratio(x: Term, y: Term) -> Term:
    """e^(x - y), and 1 where both are equal, if infinite."""
    return x.equals(y).then(1, (x - y).apply("exp"))


def _of_extrema(b: GraphBuilder, n: Node, g: Node) -> Node:
    """An extremum's cotangent goes to its last position so far, as in torch; that of no element goes nowhere."""
    fold, axis, exclusive = n.attr
    x, out = Term(b, n.args[0]), Term(b, node("scan", n.args, (fold, axis, False), n.type))
    line = Term(b, b.convert(shapes.iota_along(b, x.node, axis), INT64))
    last = scans_sorts.scan(b, "max", x.equals(out).then(line, 0).node, axis, ScanMode(exclusive=exclusive))
    if exclusive:
        last = b.elementwise("maximum", last, b.literal(0))
        g = line.equals(0).then(0, Term(b, g)).node
    read = gather(x.node, {axis: last}, range(x.node.type.rank), x.node.type.shape, INSIDE)
    return of_gather(b, read, g)
