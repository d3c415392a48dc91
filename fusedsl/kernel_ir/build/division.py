"""Division of many elements by one number: one reciprocal, then a few multiply-adds per element."""

from __future__ import annotations

import math

from ...fusion.coordinates import Axis
from ...ir.graph import Node, constant, node, rebuild, value_of
from ...ir.types import FLOAT32
from ...rewrite.scalar_builder import free_axes


def multiply_by_reciprocals(roots: list[Node], columns: set[Axis]) -> dict[Node, Node]:
    """Replace divisions of elements by a row value, a scalar or a literal by `quotient`s.

    The reciprocal is computed once; each element takes a few multiply-adds. The result is still the correctly rounded
    quotient. It is within 2 ulp if the remainder is subnormal: for numbers below 2**-102, and for subnormal quotients.
    """
    free = free_axes(roots)

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        many = old.op == "divide" and free[old] & columns and not free[old.args[1]] & columns
        if many and old.type.dtype.compute is FLOAT32 and not _power_of_two(args[1]):
            return _quotient(*args)
        return node(old.op, args, old.attr, old.type) if args else old

    return rebuild(roots, change)


def _power_of_two(n: Node) -> bool:
    return n.op == "const" and math.frexp(value_of(n))[0] in (0.5, -0.5)


def _quotient(x: Node, y: Node) -> Node:
    """x / y by the reciprocal of y, which is scaled first by a power of two to the middle of the exponent range."""
    scale = node("divisor_scale", (y,), None, y.type)
    divisor = node("multiply", (y, scale), None, y.type)
    inverse = node("divide", (constant(1.0, y.type.dtype), divisor), None, y.type)
    return node("quotient", (x, divisor, scale, inverse), y, x.type)
