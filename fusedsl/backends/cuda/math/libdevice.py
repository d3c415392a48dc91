"""Functions of libdevice: their names, the types that they take, and calls of them."""

from __future__ import annotations

from ..compiler.numba_backend import Emitter, intrinsic, ir, types
from . import float64 as double

# libdevice names, where they differ from ours; float32 functions end in f.
SAME_1: tuple[str, ...] = (
    "sqrt",
    "rsqrt",
    "cbrt",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
)
SAME_1 += ("sinh", "cosh", "tanh", "erf", "erfc", "lgamma", "floor", "ceil", "rint", "trunc")
LIBDEVICE_1 = {name: name for name in SAME_1}
LIBDEVICE_1 |= {f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")}
LIBDEVICE_2 = {"arctan2": "atan2", "copysign": "copysign", "nextafter": "nextafter", "hypot": "hypot"}


def narrowest(*kinds: types.Type) -> types.Type | None:
    """The type of an operation on operands of one type. Numba widens `a & b` of narrow integers: the least counts."""
    if all(kind == kinds[0] for kind in kinds):
        return kinds[0]
    if all(isinstance(kind, types.Integer) for kind in kinds):
        return min(kinds, key=lambda kind: kind.bitwidth)
    return None


def is_float(kind: types.Type) -> bool:
    return isinstance(kind, types.Float)


def libdevice_function(name: str, target: str, arity: int):
    return intrinsic(arity)(library_rule(name, target))


def library_rule(name: str, target: str):
    """The rule of a function of libdevice's, of float32 or float64."""

    def rule(*kinds):
        if not all(is_float(kind) and kind == kinds[0] for kind in kinds):
            return None
        if kinds[0] == types.float64 and name in (*double.EVERYWHERE, *double.NEARBY):
            return kinds[0], lambda e, x: double.call(e, name, x)
        return kinds[0], lambda e, *values: libdevice_call(e, target, kinds[0], values)

    rule.__name__ = name
    return rule


def libdevice_call(emitter: Emitter, target: str, kind: types.Type, values) -> ir.Value:
    return emitter.call(values[0].type, f"__nv_{target}{'f' if kind.bitwidth == 32 else ''}", values)


def fma_rule():
    def fma(*kinds):
        same = is_float(kinds[0]) and len(set(kinds)) == 1
        return (kinds[0], lambda e, *values: libdevice_call(e, "fma", kinds[0], values)) if same else None

    return intrinsic(3)(fma)


def mul_rn_rule():
    def mul_rn(*kinds):
        """x * y, rounded before anything is added to it: PTX's mul.rn, which no compiler contracts."""
        if not is_float(kinds[0]) or len(set(kinds)) != 1:
            return None
        name = f"__nv_{'f' if kinds[0].bitwidth == 32 else 'd'}mul_rn"
        return kinds[0], lambda e, x, y: e.call(x.type, name, [x, y])

    return intrinsic(2)(mul_rn)


def float64_rule():
    def float64(kind):
        def emit(e, x):
            if isinstance(kind, types.Integer) and kind.bitwidth <= 32:
                return double.from_integer(
                    e, e.cast(x, kind, types.int32 if kind.signed else types.uint32), kind.signed
                )
            return e.cast(x, kind, types.float64)

        return types.float64, emit

    return intrinsic(1)(float64)


def ldexp_rule():
    def ldexp(kind, exponent):
        def emit(e, x, n):
            return libdevice_call(e, "ldexp", kind, [x, e.cast(n, exponent, types.int32)])

        return (kind, emit) if is_float(kind) and isinstance(exponent, types.Integer) else None

    return intrinsic(2)(ldexp)
