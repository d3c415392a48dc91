"""The vocabulary of generated bodies on CUDA: libdevice's documented ulp, NVVM operations, a little PTX."""

from __future__ import annotations

from functools import cache
from math import e as EULER
from math import inf, log2, nan
from typing import Any

from ....ir.types import DTYPES
from ..compiler.numba_backend import F32, Emitter, intrinsic, ir, types
from . import float64 as double
from . import integers
from .convert import round_through, saturate
from .half_precision import (
    erf_for_sum,
    exp_for_half,
    gelu_for_half,
    log_approx,
    logistic_for_half,
    tanh_for_half,
)
from .philox import SHARES, philox, shared_philox

LOG2_E = log2(EULER)
LARGEST = (2 - 2.0**-23) * 2.0**127  # of float32
CASTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
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


@cache
def vocabulary() -> dict[str, Any]:
    """Every name that a generated body may use."""
    names: dict[str, Any] = {name: getattr(types, name) for name in CASTS}
    names |= {name: _libdevice(name, target, 1) for name, target in LIBDEVICE_1.items()}
    names |= {name: _libdevice(name, target, 2) for name, target in LIBDEVICE_2.items()}
    names |= {f"saturate_{name}": saturate(name) for name in CASTS if "int" in name}
    names |= {f"{name}_round": round_through(name) for name, d in DTYPES.items() if d.compute is not d}
    names |= {"inf": inf, "nan": nan, "fma": _fma(), "mul_rn": _mul_rn(), "ldexp": _ldexp(), "float64": _float64()}
    names |= {"philox": philox(0), "philox_high": philox(2), **{name: shared_philox(name) for name in SHARES}}
    for rule, arity in _RULES.items():
        names[rule.__name__] = intrinsic(arity)(rule)
    return names


def narrowest(*kinds: types.Type) -> types.Type | None:
    """The type of an operation on operands of one type. Numba widens `a & b` of narrow integers: the least counts."""
    if all(kind == kinds[0] for kind in kinds):
        return kinds[0]
    if all(isinstance(kind, types.Integer) for kind in kinds):
        return min(kinds, key=lambda kind: kind.bitwidth)
    return None


def _is_float(kind: types.Type) -> bool:
    return isinstance(kind, types.Float)


def _libdevice(name: str, target: str, arity: int):
    return intrinsic(arity)(library_rule(name, target))


def library_rule(name: str, target: str):
    """The rule of a function of libdevice's, of float32 or float64."""

    def rule(*kinds):
        if not all(_is_float(kind) and kind == kinds[0] for kind in kinds):
            return None
        if kinds[0] == types.float64 and name in (*double.EVERYWHERE, *double.NEARBY):
            return kinds[0], lambda e, x: double.call(e, name, x)
        return kinds[0], lambda e, *values: _libdevice_call(e, target, kinds[0], values)

    rule.__name__ = name
    return rule


def _libdevice_call(emitter: Emitter, target: str, kind: types.Type, values) -> ir.Value:
    return emitter.call(values[0].type, f"__nv_{target}{'f' if kind.bitwidth == 32 else ''}", values)


def _fma():
    def fma(*kinds):
        same = _is_float(kinds[0]) and len(set(kinds)) == 1
        return (kinds[0], lambda e, *values: _libdevice_call(e, "fma", kinds[0], values)) if same else None

    return intrinsic(3)(fma)


def _mul_rn():
    def mul_rn(*kinds):
        """x * y, rounded before anything is added to it: PTX's mul.rn, which no compiler contracts."""
        if not _is_float(kinds[0]) or len(set(kinds)) != 1:
            return None
        name = f"__nv_{'f' if kinds[0].bitwidth == 32 else 'd'}mul_rn"
        return kinds[0], lambda e, x, y: e.call(x.type, name, [x, y])

    return intrinsic(2)(mul_rn)


def _float64():
    def float64(kind):
        def emit(e, x):
            if isinstance(kind, types.Integer) and kind.bitwidth <= 32:
                return double.from_integer(
                    e, e.cast(x, kind, types.int32 if kind.signed else types.uint32), kind.signed
                )
            return e.cast(x, kind, types.float64)

        return types.float64, emit

    return intrinsic(1)(float64)


def _ldexp():
    def ldexp(kind, exponent):
        def emit(e, x, n):
            return _libdevice_call(e, "ldexp", kind, [x, e.cast(n, exponent, types.int32)])

        return (kind, emit) if _is_float(kind) and isinstance(exponent, types.Integer) else None

    return intrinsic(2)(ldexp)


def bool_(kind):
    """bool_(x) = x != 0"""
    if kind == types.boolean:
        return kind, lambda e, x: x
    if _is_float(kind):
        return types.boolean, lambda e, x: e.builder.fcmp_unordered("!=", x, ir.Constant(x.type, 0.0))
    return types.boolean, lambda e, x: e.builder.icmp_unsigned("!=", x, x.type(0))


def select(condition, a, b):
    kind = narrowest(a, b)
    if kind is None or condition != types.boolean:
        return None
    return kind, lambda e, c, x, y: e.builder.select(c, e.cast(x, a, kind), e.cast(y, b, kind))


def _larger(e: Emitter, kind: types.Type, x: ir.Value, y: ir.Value, order: str) -> ir.Value:
    """The larger (order ">") or smaller of two, NaN where one is NaN."""
    b = e.builder
    if isinstance(kind, types.Boolean):
        return b.or_(x, y) if order == ">" else b.and_(x, y)
    if not _is_float(kind):
        return b.select((b.icmp_signed if kind.signed else b.icmp_unsigned)(order, x, y), x, y)
    if kind.bitwidth == 32 and e.cc >= (8, 0):
        name = "max" if order == ">" else "min"
        return e.asm(F32, f"{name}.NaN.f32 $0, $1, $2;", "=f,f,f", [x, y])
    first = b.or_(b.fcmp_ordered(order, x, y), b.fcmp_unordered("uno", x, x))
    bits = ir.IntType(kind.bitwidth)  # equal numbers have equal bits, but zeros: -0.0 is less than 0.0
    signed = (b.and_ if order == ">" else b.or_)(b.bitcast(x, bits), b.bitcast(y, bits))
    return b.select(b.fcmp_ordered("==", x, y), b.bitcast(signed, x.type), b.select(first, x, y))


def _pairwise(emit):
    """A rule for two operands of one type."""

    def rule(a, b):
        kind = narrowest(a, b)
        if kind is None:
            return None
        return kind, lambda e, x, y: emit(e, kind, e.cast(x, a, kind), e.cast(y, b, kind))

    rule.__name__ = emit.__name__
    return rule


@_pairwise
def maximum(e, kind, x, y):
    return _larger(e, kind, x, y, ">")


@_pairwise
def minimum(e, kind, x, y):
    return _larger(e, kind, x, y, "<")


@_pairwise
def fmax(e, kind, x, y):
    return _libdevice_call(e, "fmax", kind, [x, y]) if _is_float(kind) else _larger(e, kind, x, y, ">")


@_pairwise
def fmin(e, kind, x, y):
    return _libdevice_call(e, "fmin", kind, [x, y]) if _is_float(kind) else _larger(e, kind, x, y, "<")


@_pairwise
def fmod(e, kind, x, y):
    return _libdevice_call(e, "fmod", kind, [x, y]) if _is_float(kind) else integers.truncated(e, kind, x, y)[1]


@_pairwise
def power(e, kind, x, y):
    if kind == types.float64:
        return double.raised(e, x, y)
    if _is_float(kind):
        return _libdevice_call(e, "pow", kind, [x, y])
    return integers.power(e, kind, x, y)


def absolute(kind):
    if _is_float(kind):
        return kind, lambda e, x: _libdevice_call(e, "fabs", kind, [x])
    return kind, integers.size if kind.signed else lambda e, x: x


def negative(kind):
    return None if _is_float(kind) else (kind, integers.negative)


def _question(test):
    """A rule from a float to bool."""

    def rule(kind):
        return (types.boolean, lambda e, x: test(e, kind, x)) if _is_float(kind) else None

    rule.__name__ = test.__name__
    return rule


@_question
def isnan(e, kind, x):
    return e.builder.fcmp_unordered("uno", x, x)


@_question
def isinf(e, kind, x):
    return e.builder.fcmp_ordered("==", _libdevice_call(e, "fabs", kind, [x]), ir.Constant(x.type, inf))


@_question
def isfinite(e, kind, x):
    return e.builder.fcmp_ordered("<", _libdevice_call(e, "fabs", kind, [x]), ir.Constant(x.type, inf))


@_question
def signbit(e, kind, x):
    word = ir.IntType(kind.bitwidth)
    return e.builder.icmp_signed("<", e.builder.bitcast(x, word), word(0))


def not_(kind):
    return (types.boolean, lambda e, x: e.builder.not_(x)) if kind == types.boolean else None


def sign(kind):
    """-1, 0 or 1; NaN stays, and a zero of either sign gives 0."""

    def emit(e, x):
        b, zero, one = e.builder, ir.Constant(x.type, 0), ir.Constant(x.type, 1)
        if _is_float(kind):
            below = b.select(b.fcmp_ordered("<", x, zero), ir.Constant(x.type, -1), zero)
            known = b.select(b.fcmp_ordered(">", x, zero), one, below)
            return b.select(b.fcmp_unordered("uno", x, x), x, known)
        if not kind.signed:
            return b.select(b.icmp_unsigned("!=", x, zero), one, zero)
        below = b.select(b.icmp_signed("<", x, zero), ir.Constant(x.type, -1), zero)
        return b.select(b.icmp_signed(">", x, zero), one, below)

    return (kind, emit) if _is_float(kind) or isinstance(kind, types.Integer) else None


def divisor_scale(kind):
    """1, or the power of two that brings a very small or very large divisor to where its reciprocal is normal."""

    def emit(e, x):
        b = e.builder
        size = _libdevice_call(e, "fabs", kind, [x])
        up, same, down, low, high = (ir.Constant(x.type, 2.0**n) for n in (64, 0, -64, -100, 100))
        return b.select(b.fcmp_ordered("<", size, low), up, b.select(b.fcmp_ordered(">", size, high), down, same))

    return (kind, emit) if kind == types.float32 else None


def quotient(x, divisor, scale, inverse):
    """(x scale) / divisor, correctly rounded, from the correctly rounded inverse of the divisor (Markstein, IBM J. Res.
    Dev. 34, 1990): an estimate, its exact remainder, and one correction. Infinities and zeros keep the estimate."""

    def emit(e, x, divisor, scale, inverse):
        b = e.builder
        x = b.fmul(x, scale)
        estimate = b.fmul(x, inverse)
        minus = b.fsub(ir.Constant(x.type, -0.0), estimate)
        rest = _libdevice_call(e, "fma", types.float32, [minus, divisor, x])
        corrected = _libdevice_call(e, "fma", types.float32, [rest, inverse, estimate])
        useful = b.fcmp_ordered("!=", corrected, ir.Constant(x.type, 0))  # neither NaN nor a zero of the wrong sign
        return b.select(useful, corrected, estimate)

    same = all(kind == types.float32 for kind in (x, divisor, scale, inverse))
    return (types.float32, emit) if same else None


def div_for_fp8(x, divisor, scale, inverse):
    """A `quotient` that is NaN where it is infinite, as a rounding to float8_e4m3fn makes it.

    Of a positive divisor, and from the remainder with its sign turned, a corrected zero has the sign of the estimate;
    of one that is not infinite, it is no NaN.
    """

    def emit(e, x, divisor, scale, inverse):
        b, largest = e.builder, ir.Constant(x.type, LARGEST)
        scale = _libdevice_call(e, "copysign", types.float32, [scale, divisor])
        size, inverse = (_libdevice_call(e, "fabs", types.float32, [value]) for value in (divisor, inverse))
        size = b.select(b.fcmp_ordered(">", size, largest), largest, size)
        x = b.fmul(x, scale)
        estimate = b.fmul(x, inverse)
        minus = b.fsub(ir.Constant(x.type, -0.0), x)
        excess = _libdevice_call(e, "fma", types.float32, [estimate, size, minus])
        excess = b.fsub(ir.Constant(x.type, -0.0), excess)
        return _libdevice_call(e, "fma", types.float32, [excess, inverse, estimate])

    same = all(kind == types.float32 for kind in (x, divisor, scale, inverse))
    return (types.float32, emit) if same else None


def div_for_bf16(x, scale, inverse):
    """(x scale) inverse: a `quotient` without its correction, where a rounding to bfloat16 follows."""
    same = all(kind == types.float32 for kind in (x, scale, inverse))
    return (types.float32, lambda e, a, b, c: e.builder.fmul(e.builder.fmul(a, b), c)) if same else None


def exp_for_sum(kind):
    """2**(x log2 e) with a rounded product: enough where all is summed beside its largest (peephole/softmax_exp.py)."""

    def emit(e, x):
        scaled = e.builder.fmul(x, ir.Constant(x.type, LOG2_E))
        return e.asm(x.type, "ex2.approx.ftz.f32 $0, $1;", "=f,f", [scaled])

    return (kind, emit) if kind == types.float32 else None


def logistic(kind):
    """1 / (1 + exp(-x)); for float32 with the hardware's reciprocal, scaled so that tiny results are not flushed."""

    def emit(e, x):
        b, one = e.builder, ir.Constant(x.type, 1)
        minus = b.fsub(ir.Constant(x.type, -0.0), x)
        if kind.bitwidth == 64:
            return b.fdiv(one, b.fadd(one, double.call(e, "exp", minus)))
        grown = _libdevice_call(e, "exp", kind, [minus])
        tiny = ir.Constant(x.type, 2.0**-30)
        bottom = _libdevice_call(e, "fma", kind, [grown, tiny, tiny])
        return b.fmul(e.asm(x.type, "rcp.approx.ftz.f32 $0, $1;", "=f,f", [bottom]), tiny)

    return (kind, emit) if _is_float(kind) else None


_RULES = dict.fromkeys((bool_, not_, sign, logistic, divisor_scale, isnan, isinf, isfinite, signbit), 1)
_RULES |= dict.fromkeys((absolute, negative, exp_for_sum, exp_for_half, log_approx), 1)
_RULES |= dict.fromkeys((erf_for_sum, gelu_for_half, logistic_for_half, tanh_for_half), 1)
_RULES |= dict.fromkeys((maximum, minimum, fmax, fmin, fmod, power), 2)
_RULES |= {_pairwise(integers.floor_divide): 2, _pairwise(integers.remainder): 2}
_RULES |= {_pairwise(integers.shift_left): 2, _pairwise(integers.shift_right): 2}
_RULES |= {select: 3, div_for_bf16: 3, quotient: 4, div_for_fp8: 4}
