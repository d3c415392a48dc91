"""Divisions of many elements by one number: the reciprocal once, a few multiply-adds an element."""

from __future__ import annotations

import math

from ...fusion.coordinates import Axis
from ...ir.graph import Node, constant, node, rebuild, value_of
from ...ir.types import FLOAT32
from ...rewrite.scalar_builder import free_axes


def multiply_by_reciprocals(roots: list[Node], columns: set[Axis]) -> dict[Node, Node]:
    """Divisions of many elements by one number (a row value, a scalar, a literal) become `quotient`s: the reciprocal is
    taken once, and each element costs a few multiply-adds. The result is the correctly rounded quotient all the same
    (within 2 ulp where the remainder is subnormal: of numbers below 2**-102, and in subnormal quotients).
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
    """x / y by the reciprocal of y, which is first scaled by a power of two into the middle of the exponents."""
    scale = node("divisor_scale", (y,), None, y.type)
    divisor = node("multiply", (y, scale), None, y.type)
    inverse = node("divide", (constant(1.0, y.type.dtype), divisor), None, y.type)
    return node("quotient", (x, divisor, scale, inverse), y, x.type)
