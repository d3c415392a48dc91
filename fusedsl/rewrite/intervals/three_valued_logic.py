"""Three-valued logic on a tile: whether a condition may hold somewhere, and whether it holds everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...ir.graph import Node, constant
from ...ir.types import BOOL
from ..scalar_builder import scalar_op as op

Truth = tuple[Node, Node]
NOT, AND, OR = ("logical_not", "bitwise_invert"), ("logical_and", "bitwise_and"), ("logical_or", "bitwise_or")
YES, NO = constant(True, BOOL), constant(False, BOOL)
ALWAYS, NEVER, UNKNOWN = (YES, YES), (NO, NO), (YES, NO)


def invert(x: Node) -> Node:
    """not x"""
    if x in (YES, NO):
        return NO if x is YES else YES
    return x.args[0] if x.op == "logical_not" else op("logical_not", x, dtype=BOOL)


def both(x: Node, y: Node) -> Node:
    """x and y"""
    if NO in (x, y):
        return NO
    return y if x is YES or x is y else x if y is YES else op("logical_and", x, y, dtype=BOOL)


def either(x: Node, y: Node) -> Node:
    """x or y"""
    if YES in (x, y):
        return YES
    return y if x is NO or x is y else x if y is NO else op("logical_or", x, y, dtype=BOOL)


def all_hold(conditions: Iterable[Node]) -> Node:
    """Conjunction of conditions."""
    total = YES
    for c in conditions:
        total = both(total, c)
    return total


def opposite(a: Truth) -> Truth:
    """not a"""
    return invert(a[1]), invert(a[0])


def conjunction(a: Truth, b: Truth) -> Truth:
    """a and b"""
    return both(a[0], b[0]), both(a[1], b[1])


def disjunction(a: Truth, b: Truth) -> Truth:
    """a or b"""
    return either(a[0], b[0]), either(a[1], b[1])


def difference(a: Truth, b: Truth) -> Truth:
    """Exclusive or."""
    somewhere = either(both(a[0], invert(b[1])), both(invert(a[1]), b[0]))
    return somewhere, either(both(a[1], invert(b[0])), both(invert(a[0]), b[1]))


def choice(c: Truth, a: Truth, b: Truth) -> Truth:
    """a where c holds, else b."""
    for side, other, here, elsewhere in ((a, b, c, opposite(c)), (b, a, opposite(c), c)):
        if side in (ALWAYS, NEVER):
            return disjunction(here, other) if side == ALWAYS else conjunction(elsewhere, other)
    somewhere = either(both(c[0], a[0]), both(invert(c[1]), b[0]))
    everywhere = either(both(c[1], a[1]), both(invert(c[0]), b[1]))
    return somewhere, either(everywhere, both(a[1], b[1]))


LOGIC: dict[str, Callable[..., Truth]] = {
    **dict.fromkeys(("logical_and", "bitwise_and", "multiply", "minimum", "fmin"), conjunction),
    **dict.fromkeys(("logical_or", "bitwise_or", "add", "maximum", "fmax"), disjunction),
    **dict.fromkeys(("logical_xor", "bitwise_xor", "not_equal"), difference),
    **dict.fromkeys(("logical_not", "bitwise_invert"), opposite),
    "equal": lambda a, b: opposite(difference(a, b)),
    "less": lambda a, b: conjunction(opposite(a), b),
    "less_equal": lambda a, b: disjunction(opposite(a), b),
    "greater": lambda a, b: conjunction(a, opposite(b)),
    "greater_equal": lambda a, b: disjunction(a, opposite(b)),
    "fma": lambda a, b, c: disjunction(conjunction(a, b), c),
    "where": choice,
    **dict.fromkeys(("convert", "cast", "absolute"), lambda a: a),
}


def is_logic(n: Node) -> bool:
    """Whether a node is a logical operation."""
    return n.op in LOGIC and all(a.type.dtype is BOOL for a in (n, *n.args))
