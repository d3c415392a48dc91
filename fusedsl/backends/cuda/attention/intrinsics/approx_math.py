"""Approximate float32 functions by PTX .approx instructions, within a few ulp; other types use the usual functions."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

from ...compiler.numba_backend import F32, Emitter, intrinsic, ir, types
from ...math import libdevice, vocabulary
from ...math.half_precision import tanh

TEXTS = {
    "exp2": "ex2.approx.ftz.f32 $0, $1;",
    "exp": "{ .reg .f32 x; mul.f32 x, $1, 0f3FB8AA3B; ex2.approx.ftz.f32 $0, x; }",
    "quotient": "{ .reg .f32 x; rcp.approx.ftz.f32 x, $2; mul.f32 $0, $1, x; }",
    "maximum": "max.NaN.f32 $0, $1, $2;",
    "minimum": "min.NaN.f32 $0, $1, $2;",
}
ARITY = {"exp": 1, "exp2": 1, "tanh": 1}


def approx(name: str) -> Callable:
    """`f(values…)`: exp, exp2, tanh, maximum, minimum or quotient."""

    def rule(*kinds):
        if any(kind != types.float32 for kind in kinds):
            return _usual(name, kinds)
        return types.float32, lambda e, *values: _approx(e, name, list(values))

    return intrinsic(ARITY.get(name, 2))(rule)


def _usual(name: str, kinds: tuple[types.Type, ...]):
    if name in ("maximum", "minimum"):
        return getattr(vocabulary, name)(*kinds)
    if name == "quotient":
        return kinds[0], lambda e, x, y: e.builder.fdiv(x, y)
    return libdevice.library_rule(name, name)(*kinds)


def _approx(e: Emitter, name: str, values: list[ir.Value]) -> ir.Value:
    if name == "tanh":
        return tanh(e, *values)
    if name == "quotient" and (inverse := _inverse(values[1])) is not None:
        return e.builder.fmul(values[0], inverse)
    return e.asm(F32, TEXTS[name], ",".join(["=f", *["f"] * len(values)]), values)


def _inverse(divisor: ir.Value) -> ir.Constant | None:
    """1 / divisor if the divisor is a constant whose inverse is a normal number; else None."""
    if not isinstance(divisor, ir.Constant) or not divisor.constant or not isfinite(divisor.constant):
        return None
    inverse = 1 / divisor.constant
    return ir.Constant(F32, inverse) if 2.0**-126 <= abs(inverse) < 2.0**127 else None
