"""Rewrite rules: small laws of arithmetic, each exact in the language's sense, each with its own test."""

from __future__ import annotations

import math

from ..ir.constant_folding import fold
from ..ir.graph import Node, Type, constant, is_literal, node, value_of
from ..ir.ops import CASTS, MIRRORED, OPS
from ..ir.types import BOOL, FLOAT32, FLOAT64, DType
from .engine import rule

POWERS = range(2, 9)  # x ** n by multiplication stays within pow's documented error up to here
DIGITS = {FLOAT32: 24, FLOAT64: 53}  # bits of the largest exact integers


def _same_shape(n: Node, x: Node) -> Node | None:
    """`x`, if it has the type of `n`."""
    return x if x.type == n.type else None


@rule("multiply", law="x * 1 = x")
def multiply_by_one(n: Node) -> Node | None:
    x, y = n.args
    if is_literal(y, 1):
        return _same_shape(n, x)
    return _same_shape(n, y) if is_literal(x, 1) else None


@rule("divide", law="x / 1 = x")
def divide_by_one(n: Node) -> Node | None:
    return _same_shape(n, n.args[0]) if is_literal(n.args[1], 1) else None


@rule("add", "subtract", law="i + 0 = i and i - 0 = i, for integers (a float -0.0 + 0 is 0.0)")
def add_nothing(n: Node) -> Node | None:
    if n.type.dtype.kind in "iu" and is_literal(n.args[1], 0):
        return _same_shape(n, n.args[0])
    return None


@rule("subtract", "multiply", "add", law="0 - i = -i, i * -1 = -i and ~i + 1 = -i, for integers")
def negated(n: Node) -> Node | None:
    (x, y), signed = n.args, n.type.dtype.kind == "i"
    if n.op == "subtract":
        operand = y if is_literal(x, 0) else None
    elif n.op == "multiply":
        operand = next((a for a, b in ((x, y), (y, x)) if is_literal(b, -1)), None)
    else:
        operand = next((a.args[0] for a, b in ((x, y), (y, x)) if a.op == "bitwise_invert" and is_literal(b, 1)), None)
    if not signed or operand is None or operand.type != n.type:
        return None
    return node("negative", (operand,), None, n.type)


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
    if is_literal(exponent, 1):
        return _same_shape(n, x)
    if x.type != n.type or n.type.dtype.kind != "f":
        return None
    if is_literal(exponent, 0.5):
        return node("sqrt", (x,), None, n.type)
    if is_literal(exponent, -1):
        return node("divide", (constant(1.0, n.type.dtype), x), None, n.type)
    return None


@rule("power", law="n ** -0.5 = rsqrt(n), for an extent n, which is no -0.0 and no -inf")
def root_of_an_extent(n: Node) -> Node | None:
    x, exponent = n.args
    while x.op in CASTS:
        x = x.args[0]
    return _same("rsqrt", n, n.args[0]) if x.op == "size" and is_literal(exponent, -0.5) else None


@rule("divide", law="a / 0 of literals is NaN or an infinity, which compilers may take for a number")
def literal_over_zero(n: Node) -> Node | None:
    top, bottom = n.args
    if top.op != "const" or n.type.dtype.kind != "f" or not is_literal(bottom, 0):
        return None
    quotient = fold(OPS["divide"], n.args)
    assert quotient is not None
    return _same_shape(n, constant(quotient, n.type.dtype))


@rule("divide", law="a / (1 + exp(-x)) = a logistic(x), one function with a bound of its own")
def logistic_quotient(n: Node) -> Node | None:
    top, bottom = n.args
    x = _minus_exponent(bottom)
    if x is None or x.type != bottom.type:
        return None
    logistic = node("logistic", (x,), None, x.type)
    return _same_shape(n, logistic) if is_literal(top, 1) else _same("multiply", n, top, logistic)


def _minus_exponent(n: Node) -> Node | None:
    """x, if `n` is 1 + exp(-x)."""
    if n.op != "add":
        return None
    for one, e in (n.args, n.args[::-1]):
        if is_literal(one, 1) and e.op == "exp" and e.args[0].op == "negative":
            return e.args[0].args[0]
    return None


@rule("add", law="1 + tanh(u) = 2 logistic(2 u), which does not cancel")
def logistic_tanh(n: Node) -> Node | None:
    for one, t in (n.args, n.args[::-1]):
        if is_literal(one, 1) and t.op == "tanh" and t.type == n.type:
            return _same("multiply", n, constant(2.0, n.type.dtype), _same("logistic", n, _doubled(t.args[0])))
    return None


def _doubled(u: Node) -> Node:
    """2 u; a literal factor of u is doubled, which is exact."""
    for c, x in (u.args, u.args[::-1]) if u.op == "multiply" else ():
        if c.op == "const":
            return _same("multiply", u, constant(2.0 * value_of(c), u.type.dtype), x)
    return _same("multiply", u, constant(2.0, u.type.dtype), u)


@rule("multiply", law="(0.5 x) (2 logistic(u)) = x logistic(u): halving and doubling round nothing")
def halved_and_doubled(n: Node) -> Node | None:
    for half, double in (n.args, n.args[::-1]):
        x, y = _times(half, 0.5), _times(double, 2.0)
        if x is not None and y is not None and y.op == "logistic":
            return _same("multiply", n, x, y)
    return None


def _times(n: Node, factor: float) -> Node | None:
    """x, if `n` is the literal factor times x."""
    if n.op != "multiply":
        return None
    return next((x for c, x in (n.args, n.args[::-1]) if is_literal(c, factor)), None)


@rule("floor_divide", "remainder", law="x // y and x % y of floats, from fmod (NumPy's npy_divmod)")
def float_division(n: Node) -> Node | None:
    if n.type.dtype.kind != "f":
        return None
    x, y = n.args
    zero, one, half = (constant(v, n.type.dtype) for v in (0.0, 1.0, 0.5))
    rest = _same("fmod", n, x, y)
    crossed = _truth("logical_xor", n, _truth("less", n, y, zero), _truth("less", n, rest, zero))
    adjust = _truth("logical_and", n, _truth("not_equal", n, rest, zero), crossed)
    if n.op == "remainder":
        whole = _same("where", n, _truth("equal", n, rest, zero), _same("copysign", n, zero, y), rest)
        return _same("where", n, adjust, _same("add", n, rest, y), whole)
    quotient = _same("divide", n, _same("subtract", n, x, rest), y)
    quotient = _same("where", n, adjust, _same("subtract", n, quotient, one), quotient)
    floored = _same("floor", n, quotient)
    high = _truth("greater", n, _same("subtract", n, quotient, floored), half)
    floored = _same("where", n, high, _same("add", n, floored, one), floored)
    plain = _same("divide", n, x, y)
    signed = _same("where", n, _truth("equal", n, quotient, zero), _same("copysign", n, zero, plain), floored)
    return _same("where", n, _truth("equal", n, y, zero), plain, signed)


@rule(*MIRRORED, law="k s < c is k < ceil(c / s), for the upper bits k of a word, a power of two s and one number c")
def scaled_bits(n: Node) -> Node | None:
    for (x, c), op in ((n.args, n.op), (n.args[::-1], MIRRORED[n.op])):
        k, s = _scaled_bits(x)
        if k is None or c.type.shape or c.type.dtype is not x.type.dtype or _is_nan(c):
            continue
        bound = _bound(c, s, op in ("less_equal", "greater"), k.type.dtype)
        if op in ("less", "less_equal"):
            return _truth("less", n, k, bound)
        condition = _truth("greater_equal", n, k, bound)
        return condition if c.op == "const" else _truth("logical_and", n, condition, _truth("equal", c, c, c))
    return None


def _scaled_bits(x: Node) -> tuple[Node | None, float]:
    """(k, s) if `x` is s * k: k is the upper bits of a word, in a float that represents them and the products
    exactly."""
    for y, s in (x.args, x.args[::-1]) if x.op == "multiply" and x.type.dtype in DIGITS else ():
        k = y.args[0] if y.op in CASTS else y
        if s.op != "const" or k.op != "right_shift" or k.type.dtype.kind != "u" or k.args[1].op != "const":
            continue
        scale, bits = float(value_of(s)), k.type.dtype.bits - int(value_of(k.args[1]))
        if 0 < bits <= DIGITS[x.type.dtype] and math.frexp(scale)[0] == 0.5 and 2.0**-100 <= scale <= 1:
            return k, scale
    return None, 0.0


def _is_nan(c: Node) -> bool:
    return c.op == "const" and math.isnan(value_of(c))


def _bound(c: Node, s: float, reached: bool, dtype: DType) -> Node:
    """The least k with k s >= c, or with k s > c if c may be `reached`; 0 for NaN."""
    if c.op == "const":
        least = min(max(value_of(c) / s, -1.0), 2.0 ** DIGITS[c.type.dtype])
        return constant(max(0, math.floor(least) + 1 if reached else math.ceil(least)), dtype)
    t = _same("multiply", c, c, constant(1 / s, c.type.dtype))
    t = _same("add", c, _same("floor", c, t), constant(1.0, c.type.dtype)) if reached else _same("ceil", c, t)
    return node("cast", (t,), None, Type(dtype))


def _same(op: str, n: Node, *args: Node) -> Node:
    return node(op, args, None, n.type)


def _truth(op: str, n: Node, *args: Node) -> Node:
    return node(op, args, None, Type(BOOL, n.type.shape))
