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
from .division import div_for_bf16, div_for_fp8, divisor_scale, quotient
from .half_precision import erf_approx, exp_for_half, gelu_for_half, log_approx, logistic_for_half, tanh_for_half
from .libdevice import (
    LIBDEVICE_1,
    LIBDEVICE_2,
    float64_rule,
    fma_rule,
    is_float,
    ldexp_rule,
    libdevice_call,
    libdevice_function,
    mul_rn_rule,
    narrowest,
)
from .normal_range import log_of_normal, sqrt_of_normal
from .philox import SHARES, philox, shared_philox

LOG2_E = log2(EULER)
CASTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")


@cache
def vocabulary() -> dict[str, Any]:
    """Every name that a generated body may use."""
    names: dict[str, Any] = {name: getattr(types, name) for name in CASTS}
    names |= {name: libdevice_function(name, target, 1) for name, target in LIBDEVICE_1.items()}
    names |= {name: libdevice_function(name, target, 2) for name, target in LIBDEVICE_2.items()}
    names |= {f"saturate_{name}": saturate(name) for name in CASTS if "int" in name}
    names |= {f"{name}_round": round_through(name) for name, d in DTYPES.items() if d.compute is not d}
    names |= {
        "inf": inf,
        "nan": nan,
        "fma": fma_rule(),
        "mul_rn": mul_rn_rule(),
        "ldexp": ldexp_rule(),
        "float64": float64_rule(),
    }
    names |= {"philox": philox(0), "philox_high": philox(2), **{name: shared_philox(name) for name in SHARES}}
    for rule, arity in _RULES.items():
        names[rule.__name__] = intrinsic(arity)(rule)
    return names


def bool_(kind):
    """bool_(x) = x != 0"""
    if kind == types.boolean:
        return kind, lambda e, x: x
    if is_float(kind):
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
    if not is_float(kind):
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
    return libdevice_call(e, "fmax", kind, [x, y]) if is_float(kind) else _larger(e, kind, x, y, ">")


@_pairwise
def fmin(e, kind, x, y):
    return libdevice_call(e, "fmin", kind, [x, y]) if is_float(kind) else _larger(e, kind, x, y, "<")


@_pairwise
def fmod(e, kind, x, y):
    return libdevice_call(e, "fmod", kind, [x, y]) if is_float(kind) else integers.truncated(e, kind, x, y)[1]


@_pairwise
def power(e, kind, x, y):
    if kind == types.float64:
        return double.raised(e, x, y)
    if is_float(kind):
        return libdevice_call(e, "pow", kind, [x, y])
    return integers.power(e, kind, x, y)


def absolute(kind):
    if is_float(kind):
        return kind, lambda e, x: libdevice_call(e, "fabs", kind, [x])
    return kind, integers.size if kind.signed else lambda e, x: x


def negative(kind):
    return None if is_float(kind) else (kind, integers.negative)


def _question(test):
    """A rule from a float to bool."""

    def rule(kind):
        return (types.boolean, lambda e, x: test(e, kind, x)) if is_float(kind) else None

    rule.__name__ = test.__name__
    return rule


@_question
def isnan(e, kind, x):
    return e.builder.fcmp_unordered("uno", x, x)


@_question
def isinf(e, kind, x):
    return e.builder.fcmp_ordered("==", libdevice_call(e, "fabs", kind, [x]), ir.Constant(x.type, inf))


@_question
def isfinite(e, kind, x):
    return e.builder.fcmp_ordered("<", libdevice_call(e, "fabs", kind, [x]), ir.Constant(x.type, inf))


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
        if is_float(kind):
            below = b.select(b.fcmp_ordered("<", x, zero), ir.Constant(x.type, -1), zero)
            known = b.select(b.fcmp_ordered(">", x, zero), one, below)
            return b.select(b.fcmp_unordered("uno", x, x), x, known)
        if not kind.signed:
            return b.select(b.icmp_unsigned("!=", x, zero), one, zero)
        below = b.select(b.icmp_signed("<", x, zero), ir.Constant(x.type, -1), zero)
        return b.select(b.icmp_signed(">", x, zero), one, below)

    return (kind, emit) if is_float(kind) or isinstance(kind, types.Integer) else None


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
        grown = libdevice_call(e, "exp", kind, [minus])
        tiny = ir.Constant(x.type, 2.0**-30)
        bottom = libdevice_call(e, "fma", kind, [grown, tiny, tiny])
        return b.fmul(e.asm(x.type, "rcp.approx.ftz.f32 $0, $1;", "=f,f", [bottom]), tiny)

    return (kind, emit) if is_float(kind) else None


def count_ones(kind):
    """How many bits of an integer are 1."""
    if not isinstance(kind, types.Integer):
        return None
    return kind, lambda e, x: e.call(x.type, f"llvm.ctpop.i{kind.bitwidth}", [x])


_RULES = dict.fromkeys((bool_, not_, sign, logistic, divisor_scale, isnan, isinf, isfinite, signbit), 1)
_RULES |= dict.fromkeys((log_of_normal, sqrt_of_normal, count_ones), 1)
_RULES |= dict.fromkeys((absolute, negative, exp_for_sum, exp_for_half, log_approx), 1)
_RULES |= dict.fromkeys((erf_approx, gelu_for_half, logistic_for_half, tanh_for_half), 1)
_RULES |= dict.fromkeys((maximum, minimum, fmax, fmin, fmod, power), 2)
_RULES |= {_pairwise(integers.floor_divide): 2, _pairwise(integers.remainder): 2}
_RULES |= {_pairwise(integers.word_floor_divide): 2, _pairwise(integers.word_remainder): 2}
_RULES |= {_pairwise(integers.shift_left): 2, _pairwise(integers.shift_right): 2}
_RULES |= {select: 3, div_for_bf16: 3, quotient: 4, div_for_fp8: 4}
