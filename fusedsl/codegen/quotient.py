"""Divisions of many elements by one number: the reciprocal once, a few multiply-adds an element."""

from __future__ import annotations

import math

from ..fusion.lower import Axis
from ..fusion.partition import free_axes
from ..ir.graph import Node, Type, constant, node, rebuild, value_of
from ..ir.types import BOOL, FLOAT32


def shared_divisors(roots: list[Node], columns: set[Axis]) -> dict[Node, Node]:
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
    """x / y by the reciprocal of y, which is scaled into the middle of the exponents first (codegen's `quotient`)."""
    t, truth = y.type, Type(BOOL)
    size = node("absolute", (y,), None, t)
    small = node("less", (size, constant(2.0**-100, t.dtype)), None, truth)
    large = node("greater", (size, constant(2.0**100, t.dtype)), None, truth)
    up, same, down = (constant(2.0**e, t.dtype) for e in (64, 0, -64))
    scale = node("where", (small, up, node("where", (large, down, same), None, t)), None, t)
    divisor = node("multiply", (y, scale), None, t)
    inverse = node("divide", (same, divisor), None, t)
    return node("quotient", (x, divisor, scale, inverse), y, x.type)
