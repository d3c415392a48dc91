"""Small laws of arithmetic, each exact in the sense of the language, each with its own test."""

from __future__ import annotations

from ..ir.graph import Node, constant, node, value_of
from .engine import rule

POWERS = range(2, 9)  # x ** n by multiplication stays within pow's documented error up to here


def _literal(n: Node, *values: float) -> bool:
    return n.op == "const" and value_of(n) in values


def _same_shape(n: Node, x: Node) -> Node | None:
    """`x`, where it already has the type that `n` has."""
    return x if x.type == n.type else None


@rule("multiply", law="x * 1 = x")
def multiply_by_one(n: Node) -> Node | None:
    x, y = n.args
    if _literal(y, 1):
        return _same_shape(n, x)
    return _same_shape(n, y) if _literal(x, 1) else None


@rule("divide", law="x / 1 = x")
def divide_by_one(n: Node) -> Node | None:
    return _same_shape(n, n.args[0]) if _literal(n.args[1], 1) else None


@rule("add", "subtract", law="i + 0 = i and i - 0 = i, for integers (a float -0.0 + 0 is 0.0)")
def add_nothing(n: Node) -> Node | None:
    if n.type.dtype.kind in "iu" and _literal(n.args[1], 0):
        return _same_shape(n, n.args[0])
    return None


@rule("negative", "bitwise_invert", "logical_not", law="-(-x) = x, ~~x = x, not not x = x")
def twice(n: Node) -> Node | None:
    (x,) = n.args
    return x.args[0] if x.op == n.op else None


@rule("convert", law="a value in the dtype that it has needs no conversion")
def convert_to_itself(n: Node) -> Node | None:
    return n.args[0] if n.args[0].type.dtype is n.type.dtype else None


@rule("where", law="where(True, a, b) = a, where(False, a, b) = b, where(c, a, a) = a")
def settled_condition(n: Node) -> Node | None:
    c, a, b = n.args
    if a is b:
        return _same_shape(n, a)
    if c.op == "const":
        return _same_shape(n, a if value_of(c) else b)
    return None


@rule("power", law="x ** n is a product, for a literal n from 2 to 8")
def small_power(n: Node) -> Node | None:
    x, exponent = n.args
    if exponent.op != "const" or value_of(exponent) not in POWERS:
        return None
    left = int(value_of(exponent))
    square, result = x, None
    while left:
        if left & 1:
            result = square if result is None else node("multiply", (result, square), None, n.type)
        left >>= 1
        if left:
            square = node("multiply", (square, square), None, n.type)
    return result


@rule("power", law="x ** 1 = x, x ** 0 = 1, and for floats x ** -1 = 1 / x, x ** 0.5 = sqrt(x) (as NumPy's ** does)")
def plain_power(n: Node) -> Node | None:
    x, exponent = n.args
    if _literal(exponent, 1):
        return _same_shape(n, x)
    if x.type != n.type or n.type.dtype.kind != "f":
        return None
    if _literal(exponent, 0.5):
        return node("sqrt", (x,), None, n.type)
    if _literal(exponent, -1):
        return node("divide", (constant(1.0, n.type.dtype), x), None, n.type)
    return None
