"""Derivative rules of elementwise operations: for each operand, the cotangent that it receives.

A rule is a function of the result's cotangent, the result, and the operands, and linear in the cotangent. Where a
derivative is a choice it is torch's: 0 for sign(x) and |x| at 0, half to each of two equal operands of a maximum.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi, sqrt

from ..ir.graph import is_literal, value_of
from .special import digamma
from .term import Term

Rule = Callable[..., Term]
LN2, LN10 = log(2), log(10)


def _product(g: Term, other: Term) -> Term:
    """g times the other factor. A mask over a broadcast cotangent comes last: what is summed is then a masked product,
    and not the product of an array of its shape."""
    if g.node.op == "where" and g.node.args[1].op == "broadcast" and is_literal(g.node.args[2], 0):
        condition, given, _ = (Term(g.b, n) for n in g.node.args)
        return condition.then(Term(g.b, given.node.args[0]) * other, 0)
    return g * other


def _power_of_base(g: Term, out: Term, x: Term, y: Term) -> Term:
    """y x^(y - 1), and 0 for y = 0."""
    if y.node.op == "const":
        exponent = float(value_of(y.node))
        whole = int(exponent) if exponent.is_integer() else exponent
        if whole in (0, 1):
            return g * whole
        return g * (whole * (x if whole == 2 else x.apply("power", whole - 1)))
    return y.equals(0).then(0, g * (y * x.apply("power", y - 1)))


def _power_of_exponent(g: Term, out: Term, x: Term, y: Term) -> Term:
    """x^y ln x, and 0 for x = 0 with y >= 0."""
    return (x.equals(0) & (y >= 0)).then(0, g * (out * x.apply("log")))


def _extremum(op: str, first: bool) -> Rule:
    """The cotangent where an operand is the extremum; a half where both are, but all of it beside a literal bound.

    A maximum with the literal 0 passes nothing at 0, as relu does.
    """

    def rule(g: Term, out: Term, x: Term, y: Term) -> Term:
        own, other = (x, y) if first else (y, x)
        loses = own < other if op == "maximum" else own > other
        if other.node.op == "const":
            if op == "maximum" and value_of(other.node) == 0:
                return own.apply("less_equal", other).then(0, g)
            return loses.then(0, g)
        return loses.then(0, own.equals(other).then(g * 0.5, g))

    return rule


def _extremum_of_numbers(op: str, first: bool) -> Rule:
    """fmax and fmin: of two equal operands the first takes it all, and a number wins over NaN."""

    def rule(g: Term, out: Term, x: Term, y: Term) -> Term:
        wins = x.apply("greater_equal" if op == "fmax" else "less_equal", y) | y.apply("isnan")
        return wins.then(g, 0) if first else wins.then(0, g)

    return rule


def _hypot(k: int) -> Rule:
    return lambda g, out, *xs: g * (xs[k] / out)


def _rsqrt_of(x: Term) -> Term:
    return x.apply("rsqrt")


# A rule for each operand; None where the derivative is 0 or does not exist (conditions, integers).
RULES: dict[str, tuple[Rule | None, ...]] = {
    "add": (lambda g, out, x, y: g, lambda g, out, x, y: g),
    "subtract": (lambda g, out, x, y: g, lambda g, out, x, y: -g),
    "multiply": (lambda g, out, x, y: _product(g, y), lambda g, out, x, y: _product(g, x)),
    "divide": (lambda g, out, x, y: g / y, lambda g, out, x, y: -(g * (out / y))),
    "floor_divide": (None, None),
    "remainder": (lambda g, out, x, y: g, lambda g, out, x, y: -(g * x.apply("floor_divide", y))),
    "fmod": (lambda g, out, x, y: g, lambda g, out, x, y: -(g * (x / y).apply("trunc"))),
    "power": (_power_of_base, _power_of_exponent),
    "negative": (lambda g, out, x: -g,),
    "absolute": (lambda g, out, x: g * x.apply("sign"),),
    "sign": (None,),
    "fma": (lambda g, out, x, y, z: g * y, lambda g, out, x, y, z: g * x, lambda g, out, x, y, z: g),
    "maximum": (_extremum("maximum", True), _extremum("maximum", False)),
    "minimum": (_extremum("minimum", True), _extremum("minimum", False)),
    "fmax": (_extremum_of_numbers("fmax", True), _extremum_of_numbers("fmax", False)),
    "fmin": (_extremum_of_numbers("fmin", True), _extremum_of_numbers("fmin", False)),
    "where": (None, lambda g, out, c, x, y: c.then(g, 0), lambda g, out, c, x, y: c.then(0, g)),
    "floor": (None,),
    "ceil": (None,),
    "trunc": (None,),
    "rint": (None,),
    "sqrt": (lambda g, out, x: g / (2 * out),),
    "rsqrt": (lambda g, out, x: -0.5 * g * (out * out * out),),
    "cbrt": (lambda g, out, x: g / (3 * (out * out)),),
    "exp": (lambda g, out, x: g * out,),
    "exp2": (lambda g, out, x: g * (out * LN2),),
    "expm1": (lambda g, out, x: g * (out + 1),),
    "log": (lambda g, out, x: g / x,),
    "log2": (lambda g, out, x: g / (x * LN2),),
    "log10": (lambda g, out, x: g / (x * LN10),),
    "log1p": (lambda g, out, x: g / (x + 1),),
    "sin": (lambda g, out, x: g * x.apply("cos"),),
    "cos": (lambda g, out, x: -(g * x.apply("sin")),),
    "tan": (lambda g, out, x: g * (1 + out * out),),
    "arcsin": (lambda g, out, x: g * _rsqrt_of(1 - x * x),),
    "arccos": (lambda g, out, x: -(g * _rsqrt_of(1 - x * x)),),
    "arctan": (lambda g, out, x: g / (x * x + 1),),
    "arctan2": (lambda g, out, x, y: g * (y / (x * x + y * y)), lambda g, out, x, y: -(g * (x / (x * x + y * y)))),
    "sinh": (lambda g, out, x: g * x.apply("cosh"),),
    "cosh": (lambda g, out, x: g * x.apply("sinh"),),
    "tanh": (lambda g, out, x: g * (1 - out * out),),
    "arcsinh": (lambda g, out, x: g * _rsqrt_of(x * x + 1),),
    "arccosh": (lambda g, out, x: g * (_rsqrt_of(x - 1) * _rsqrt_of(x + 1)),),
    "arctanh": (lambda g, out, x: g / (1 - x * x),),
    "erf": (lambda g, out, x: g * (2 / sqrt(pi) * (-(x * x)).apply("exp")),),
    "erfc": (lambda g, out, x: g * (-2 / sqrt(pi) * (-(x * x)).apply("exp")),),
    "logistic": (lambda g, out, x: g * (out * (1 - out)),),
    "lgamma": (lambda g, out, x: g * digamma(x),),
    "hypot": (_hypot(0), _hypot(1)),
    "copysign": (lambda g, out, x, y: x.equals(0).then(0, g * (x.apply("sign") * out.apply("sign"))), None),
    "ldexp": (lambda g, out, x, e: g.apply("ldexp", e), None),
}
NO_DERIVATIVE = {"nextafter": "it steps from one number of a dtype to the next"}
