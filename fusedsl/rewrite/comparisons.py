"""Comparisons with fewer operations: j < i + 1 and j - i < 1 become j <= i, not (j > i) becomes j <= i, c ^ True not c.

Indices, extents and literals are far from where integers wrap; numbers from memory may not be.
"""

from __future__ import annotations

from ..ir.graph import Node, resolve, value_of, walk
from ..ir.ops import CONTRARY, MIRRORED
from ..ir.types import BOOL
from .intervals.three_valued_logic import LOGIC, NOT, is_logic
from .scalar_builder import scalar_op as op

INDEX_OPS = ("position", "size", "const", "add", "subtract", "negative", "convert")
NO_WRAP_LIMIT = 2**32  # literals beyond this may wrap
WIDER = {("less", 1): "less_equal", ("greater_equal", 1): "greater"}  # of x, y + 1
WIDER |= {("less_equal", -1): "less", ("greater", -1): "greater_equal"}  # of x, y - 1


def simplify_comparison(condition: Node) -> Node:
    """The condition with simpler comparisons of indices, and without literal operands."""
    known: dict[Node, Node] = {}

    def simplified(c: Node) -> Node:
        if c.op in NOT and _compares_indices(x := known[c.args[0]]):
            return op(CONTRARY[x.op], *x.args, dtype=BOOL)
        if _compares_indices(c):
            return _without_one(_without_difference(c))
        args = tuple(known.get(a, a) for a in c.args)
        if is_logic(c) and any(a.op == "const" for a in args):
            return LOGIC[c.op](*((a, a) for a in args))[0]
        return c if args == c.args else op(c.op, *args, dtype=BOOL)

    return resolve(known, condition, lambda c: c.args if is_logic(c) else (), simplified)


def _compares_indices(c: Node) -> bool:
    """Whether a condition compares indices that cannot wrap."""
    if c.op not in CONTRARY or any(a.type.dtype.kind != "i" or a.type.dtype.bits < 64 for a in c.args):
        return False
    return all(n.op in INDEX_OPS and (n.op != "const" or abs(value_of(n)) < NO_WRAP_LIMIT) for n in walk(c.args))


def _without_difference(c: Node) -> Node:
    """x - y < k as x < y + k, for k of 0 or ±1.

    Other k stay, because kernels compute the difference of two indices once.
    """
    difference, k = c.args
    if difference.op != "subtract" or k.op != "const" or abs(value_of(k)) > 1:
        return c
    x, y = difference.args
    return op(c.op, x, op("add", y, k) if value_of(k) else y, dtype=BOOL)


def _without_one(c: Node) -> Node:
    """x < y + 1 as x <= y, with the 1 on either side."""
    for name, (x, y) in ((c.op, c.args), (MIRRORED[c.op], c.args[::-1])):
        x_of_y, number = _plus_one(y)
        if x_of_y is not None and (name, number) in WIDER:
            name = WIDER[name, number]
            return op(name, x, x_of_y, dtype=BOOL) if x is c.args[0] else op(MIRRORED[name], x_of_y, x, dtype=BOOL)
    return c


def _plus_one(y: Node) -> tuple[Node | None, int]:
    """(x, 1) of x + 1, (x, -1) of x - 1."""
    if y.op not in ("add", "subtract"):
        return None, 0
    for x, literal in (y.args, y.args[::-1]) if y.op == "add" else (y.args,):
        if literal.op == "const" and abs(value_of(literal)) == 1:
            return x, int(value_of(literal)) * (1 if y.op == "add" else -1)
    return None, 0
