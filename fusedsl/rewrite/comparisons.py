"""Conditions in fewer operations: j < i + 1 and j - i < 1 are j <= i, not (j > i) is j <= i, and c ^ True is not c.

Positions, extents and literals are far from where integers wrap; numbers of memory may not be.
"""

from __future__ import annotations

from ..ir.graph import Node, resolve, value_of, walk
from ..ir.ops import CONTRARY, MIRRORED
from ..ir.types import BOOL
from .intervals.three_valued_logic import LOGIC, NOT, is_logic
from .scalar_builder import scalar_op as op

PLACES = ("position", "size", "const", "add", "subtract", "negative", "convert")
NEAR = 2**32  # literals beyond this may wrap
WIDER = {("less", 1): "less_equal", ("greater_equal", 1): "greater"}  # of x, y + 1
WIDER |= {("less_equal", -1): "less", ("greater", -1): "greater_equal"}  # of x, y - 1


def simplify_comparison(condition: Node) -> Node:
    """A condition in fewer operations, if it compares indices or has literals."""
    known: dict[Node, Node] = {}

    def made(c: Node) -> Node:
        if c.op in NOT and _is_order(x := known[c.args[0]]):
            return op(CONTRARY[x.op], *x.args, dtype=BOOL)
        if _is_order(c):
            return _compared(_moved(c))
        args = tuple(known.get(a, a) for a in c.args)
        if is_logic(c) and any(a.op == "const" for a in args):
            return LOGIC[c.op](*((a, a) for a in args))[0]
        return c if args == c.args else op(c.op, *args, dtype=BOOL)

    return resolve(known, condition, lambda c: c.args if is_logic(c) else (), made)


def _is_order(c: Node) -> bool:
    """Whether indices are compared."""
    if c.op not in CONTRARY or any(a.type.dtype.kind != "i" or a.type.dtype.bits < 64 for a in c.args):
        return False
    return all(n.op in PLACES and (n.op != "const" or abs(value_of(n)) < NEAR) for n in walk(c.args))


def _moved(c: Node) -> Node:
    """x - y < k as x < y + k, for k of 0 or ±1.

    Other k stay: kernels compute the difference of two indices once.
    """
    difference, k = c.args
    if difference.op != "subtract" or k.op != "const" or abs(value_of(k)) > 1:
        return c
    x, y = difference.args
    return op(c.op, x, op("add", y, k) if value_of(k) else y, dtype=BOOL)


def _compared(c: Node) -> Node:
    """x < y + 1 as x <= y, with the 1 on either side."""
    for name, (x, y) in ((c.op, c.args), (MIRRORED[c.op], c.args[::-1])):
        rest, number = _one_more(y)
        if rest is not None and (name, number) in WIDER:
            name = WIDER[name, number]
            return op(name, x, rest, dtype=BOOL) if x is c.args[0] else op(MIRRORED[name], rest, x, dtype=BOOL)
    return c


def _one_more(y: Node) -> tuple[Node | None, int]:
    """(x, 1) of x + 1, (x, -1) of x - 1"""
    if y.op not in ("add", "subtract"):
        return None, 0
    for x, one in (y.args, y.args[::-1]) if y.op == "add" else (y.args,):
        if one.op == "const" and abs(value_of(one)) == 1:
            return x, int(value_of(one)) * (1 if y.op == "add" else -1)
    return None, 0
