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
    """The intrinsic of exp, exp2, tanh, maximum, minimum or quotient."""

    def rule(*kinds):
        if any(kind != types.float32 for kind in kinds):
            return _exact_rule(name, kinds)
        return types.float32, lambda e, *values: _approx(e, name, list(values))

    return intrinsic(ARITY.get(name, 2))(rule)


def _exact_rule(name: str, kinds: tuple[types.Type, ...]):
    """The typing rule of the function for types other than float32, which have no .approx instruction."""
    if name in ("maximum", "minimum"):
        return getattr(vocabulary, name)(*kinds)
    if name == "quotient":
        return kinds[0], lambda e, x, y: e.builder.fdiv(x, y)
    return libdevice.library_rule(name, name)(*kinds)


def _approx(e: Emitter, name: str, values: list[ir.Value]) -> ir.Value:
    if name == "tanh":
        return tanh(e, *values)
    if name == "quotient" and (reciprocal := _reciprocal(values[1])) is not None:
        return e.builder.fmul(values[0], reciprocal)
    return e.asm(F32, TEXTS[name], ",".join(["=f", *["f"] * len(values)]), values)


def _reciprocal(divisor: ir.Value) -> ir.Constant | None:
    """1 / divisor if the divisor is a constant whose reciprocal is a normal number; else None."""
    if not isinstance(divisor, ir.Constant) or not divisor.constant or not isfinite(divisor.constant):
        return None
    reciprocal = 1 / divisor.constant
    return ir.Constant(F32, reciprocal) if 2.0**-126 <= abs(reciprocal) < 2.0**127 else None
