"""The vocabulary of generated bodies on CUDA: libdevice's documented ulp, NVVM operations, a little PTX."""

from __future__ import annotations

from functools import cache
from math import e as EULER
from math import inf, log2, nan
from typing import Any

from ...ir.types import DTYPES
from . import double
from .backend import F32, I1, Emitter, intrinsic, ir, types
from .convert import round_through, saturate
from .random import SHARES, philox, shared_philox

LOG2_E = log2(EULER)
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
    names |= {"inf": inf, "nan": nan, "fma": _fma(), "ldexp": _ldexp(), "float64": _float64()}
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
    return b.select(first, x, y)


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


def _divided(e: Emitter, kind: types.Type, x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """x / y truncated, its remainder, and the divisor used; total: by 0 and by -1 it divides by 1 instead."""
    b = e.builder
    special = b.icmp_unsigned("==", y, y.type(0))
    if kind.signed:
        special = b.or_(special, b.icmp_signed("==", y, y.type(-1)))
    divisor = b.select(special, y.type(1), y)
    quotient = (b.sdiv if kind.signed else b.udiv)(x, divisor)
    return quotient, b.sub(x, b.mul(quotient, divisor)), divisor


def _off_floor(b: ir.IRBuilder, kind: types.Type, rest: ir.Value, divisor: ir.Value) -> ir.Value:
    """Is a truncated quotient one more than the floored one?"""
    if not kind.signed:
        return I1(0)
    unlike = b.icmp_signed("<", b.xor(rest, divisor), rest.type(0))
    return b.and_(unlike, b.icmp_signed("!=", rest, rest.type(0)))


@_pairwise
def floor_divide(e, kind, x, y):
    b = e.builder
    quotient, rest, divisor = _divided(e, kind, x, y)
    quotient = b.select(_off_floor(b, kind, rest, divisor), b.sub(quotient, quotient.type(1)), quotient)
    if kind.signed:
        quotient = b.select(b.icmp_signed("==", y, y.type(-1)), b.neg(x), quotient)
    return b.select(b.icmp_unsigned("==", y, y.type(0)), x.type(0), quotient)


@_pairwise
def remainder(e, kind, x, y):
    b = e.builder  # a divisor of 0 or -1 was replaced by 1, whose remainder is the 0 that is wanted
    _, rest, divisor = _divided(e, kind, x, y)
    return b.select(_off_floor(b, kind, rest, divisor), b.add(rest, divisor), rest)


@_pairwise
def fmod(e, kind, x, y):
    return _libdevice_call(e, "fmod", kind, [x, y]) if _is_float(kind) else _divided(e, kind, x, y)[1]


@_pairwise
def power(e, kind, x, y):
    if kind == types.float64:
        return double.raised(e, x, y)
    if _is_float(kind):
        return _libdevice_call(e, "pow", kind, [x, y])
    b = e.builder
    result, square = x.type(1), x
    for bit in range(kind.bitwidth - bool(kind.signed)):
        chosen = b.trunc(b.lshr(y, y.type(bit)), I1)
        result = b.select(chosen, b.mul(result, square), result)
        square = b.mul(square, square)
    if not kind.signed:
        return result
    odd = b.trunc(y, I1)
    of_minus_one = b.select(odd, x.type(-1), x.type(1))
    inverse = b.select(b.icmp_signed("==", x, x.type(-1)), of_minus_one, x.type(0))
    inverse = b.select(b.icmp_signed("==", x, x.type(1)), x.type(1), inverse)
    return b.select(b.icmp_signed("<", y, y.type(0)), inverse, result)


@_pairwise
def shift_left(e, kind, x, y):
    b = e.builder
    inside = b.icmp_unsigned("<", y, y.type(kind.bitwidth))
    return b.select(inside, b.shl(x, b.select(inside, y, y.type(0))), x.type(0))


@_pairwise
def shift_right(e, kind, x, y):
    b = e.builder
    inside = b.icmp_unsigned("<", y, y.type(kind.bitwidth))
    if kind.signed:
        return b.ashr(x, b.select(inside, y, y.type(kind.bitwidth - 1)))
    return b.select(inside, b.lshr(x, b.select(inside, y, y.type(0))), x.type(0))


def absolute(kind):
    if _is_float(kind):
        return kind, lambda e, x: _libdevice_call(e, "fabs", kind, [x])
    if not kind.signed:
        return kind, lambda e, x: x
    return kind, _integer_size


def negative(kind):
    """-x of an integer, in 32 bits where it has 16: ptxas 13.0 takes -(-32768) of 16 bits for 32768 where that is
    compared or converted."""

    def emit(e, x):
        b, wide = e.builder, ir.IntType(32)
        if x.type.width != 16:
            return b.neg(x)
        return b.trunc(e.asm(wide, "neg.s32 $0, $1;", "=r,r", [b.sext(x, wide)]), x.type)

    return None if _is_float(kind) else (kind, emit)


def _integer_size(e: Emitter, x: ir.Value) -> ir.Value:
    """|x| as max(x, -x), in one piece that is not taken for an abs: ptxas (13.0 to 13.5) says that -abs(x) < c holds
    for every x, where c is a constant below 0."""
    b, bits = e.builder, max(x.type.width, 32)
    wide = ir.IntType(bits)
    text = f"{{ .reg .s{bits} other; neg.s{bits} other, $1; max.s{bits} $0, $1, other; }}"
    letter = "r" if bits == 32 else "l"
    made = e.asm(wide, text, f"={letter},{letter}", [x if x.type == wide else b.sext(x, wide)])
    return made if x.type == wide else b.trunc(made, x.type)


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


def near_quotient(x, scale, inverse):
    """(x scale) inverse: a `quotient` without its correction, where a rounding to bfloat16 follows."""
    same = all(kind == types.float32 for kind in (x, scale, inverse))
    return (types.float32, lambda e, a, b, c: e.builder.fmul(e.builder.fmul(a, b), c)) if same else None


def near_exp(kind):
    """2**(x log2 e) with a rounded product: what is summed beside its largest needs no more (see summands.py)."""

    def emit(e, x):
        scaled = e.builder.fmul(x, ir.Constant(x.type, LOG2_E))
        return e.asm(x.type, "ex2.approx.ftz.f32 $0, $1;", "=f,f", [scaled])

    return (kind, emit) if kind == types.float32 else None


def stored_exp(kind):
    """exp(x) as the square of the hardware's 2**y, which knows no subnormal numbers: off by 2**-24 |x| + 2**-21."""

    def emit(e, x):
        root = e.asm(x.type, "ex2.approx.ftz.f32 $0, $1;", "=f,f", [e.builder.fmul(x, ir.Constant(x.type, LOG2_E / 2))])
        return e.builder.fmul(root, root)

    return (kind, emit) if kind == types.float32 else None


def near_log(kind):
    """log2(x) / log2(e) by the hardware: off by 2**-22 where x is between 1/2 and 2, else by 2**-22 of itself."""

    def emit(e, x):
        made = e.asm(x.type, "lg2.approx.f32 $0, $1;", "=f,f", [x])
        return e.builder.fmul(made, ir.Constant(x.type, 1 / LOG2_E))

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
_RULES |= dict.fromkeys((absolute, negative, near_exp, stored_exp, near_log), 1)
_RULES |= dict.fromkeys((maximum, minimum, fmax, fmin, floor_divide, remainder, fmod, power), 2)
_RULES |= dict.fromkeys((shift_left, shift_right), 2)
_RULES |= {select: 3, near_quotient: 3, quotient: 4}
