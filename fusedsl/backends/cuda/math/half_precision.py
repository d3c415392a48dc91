"""Functions whose results only reach 16-bit floats: shorter polynomials, the hardware's instructions, for float32.

Only two peephole passes may use them, because these know what becomes of a value: peephole/low_precision_stores.py in
rows, peephole/product_epilogues.py after matrix products. Attention of 16 bits uses `tanh` too.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import e as EULER
from math import log2

from ..compiler.numba_backend import F32, Emitter, ir, types
from . import float64 as double

LOG2_E = log2(EULER)
# tanh x = x P(x²) / Q(x²) for |x| <= 7.9, from the lowest power on; Q ends with x⁸. Its relative error is below 2⁻²⁰·⁹,
# and it is never above 1. (Fitted for the least relative error by weighted least squares, as Lawson 1961 weighs them.)
TANH = (4012012.75, 518930.1875, 11877.41796875, 46.26546096801758)
TANH_DIVISOR = (4012013.5, 1856263.75, 95702.734375, 962.9258422851562)
TANH_END = 7.9
# log2(erfc t) = t P(t) for t >= 0, from the lowest power on; 1 - 2^(t P(t)) is off by less than 2⁻²³. (Fitted so.)
ERFC = (
    *(-1.6279085874557495, -0.9184163808822632, -0.14848163723945618, 0.028253713622689247),
    *(-0.0007746577030047774, -0.0014894306659698486, 0.00044550650636665523, -4.535877815214917e-05),
)
# log2 of the normal distribution's share below -t, for t >= 0, from the lowest power on: off by less than 2⁻¹⁶·⁹ of the
# share up to t = 6.5, where it is 4e-11. (Fitted so.)
NORMAL = (
    *(-1.0, -1.1511940956115723, -0.45859792828559875, -0.053835492581129074, 0.008451055735349655),
    *(-0.0009170399280264974, 6.000148641760461e-05, -1.7603005062483135e-06),
)


def tanh(e: Emitter, x: ir.Value) -> ir.Value:
    """x P(x²) / Q(x²): off by 2**-20.9 of itself."""
    b, (low, high) = e.builder, (ir.Constant(F32, end) for end in (-TANH_END, TANH_END))
    x = _between(e, x, low, high)
    square = b.fmul(x, x)
    above = ir.Constant(F32, TANH[-1])
    below = b.fadd(square, ir.Constant(F32, TANH_DIVISOR[-1]))
    for p, q in zip(TANH[-2::-1], TANH_DIVISOR[-2::-1]):
        above, below = (
            e.call(F32, "llvm.fma.f32", [so_far, square, ir.Constant(F32, c)]) for so_far, c in ((above, p), (below, q))
        )
    return b.fmul(b.fmul(above, x), _asm(e, "rcp.approx.ftz.f32 $0, $1;", below))


def _asm(e: Emitter, text: str, x: ir.Value) -> ir.Value:
    return e.asm(F32, text, "=f,f", [x])


def _between(e: Emitter, x: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
    """x, or the end that it is beyond; NaN stays."""
    x = e.asm(F32, "min.NaN.f32 $0, $1, $2;", "=f,f,f", [x, high])
    return e.asm(F32, "max.NaN.f32 $0, $1, $2;", "=f,f,f", [x, low])


def _polynomial(e: Emitter, coefficients: Sequence[float], x: ir.Value) -> ir.Value:
    """From the lowest power on."""
    value = ir.Constant(F32, coefficients[-1])
    for c in coefficients[-2::-1]:
        value = e.call(F32, "llvm.fma.f32", [value, x, ir.Constant(F32, c)])
    return value


def exp_for_half(kind):
    """exp(x) as the square of the hardware's 2**y, which knows no subnormal numbers: off by 2**-24 |x| + 2**-21.
    The hardware knows no float64."""

    def emit(e, x):
        if kind.bitwidth == 64:
            return double.call(e, "exp", x)
        root = e.asm(x.type, "ex2.approx.ftz.f32 $0, $1;", "=f,f", [e.builder.fmul(x, ir.Constant(x.type, LOG2_E / 2))])
        return e.builder.fmul(root, root)

    return (kind, emit) if isinstance(kind, types.Float) else None


def log_approx(kind):
    """log2(x) / log2(e) by the hardware: off by 2**-22 where x is between 1/2 and 2, else by 2**-22 of itself.
    The hardware knows no float64."""

    def emit(e, x):
        if kind.bitwidth == 64:
            return double.call(e, "log", x)
        logarithm = e.asm(x.type, "lg2.approx.f32 $0, $1;", "=f,f", [x])
        return e.builder.fmul(logarithm, ir.Constant(x.type, 1 / LOG2_E))

    return (kind, emit) if isinstance(kind, types.Float) else None


def tanh_for_half(kind):
    """tanh(x), off by 2**-20.9 of itself; infinities give 1 and -1."""
    return (kind, tanh) if kind == types.float32 else None


def logistic_for_half(kind):
    """1 / (1 + exp(-x)) by the hardware, scaled so that tiny results are not flushed: off by 2**-24 |x| + 2**-21."""

    def emit(e, x):
        b, tiny = e.builder, ir.Constant(F32, 2.0**-30)
        grown = _asm(e, "ex2.approx.ftz.f32 $0, $1;", b.fmul(x, ir.Constant(F32, -LOG2_E)))
        bottom = e.call(F32, "llvm.fma.f32", [grown, tiny, tiny])
        return b.fmul(_asm(e, "rcp.approx.ftz.f32 $0, $1;", bottom), tiny)

    return (kind, emit) if kind == types.float32 else None


def erf_for_sum(kind):
    """erf(x), off by 2**-23 of 1: for sums with a number of at least 1/2."""

    def emit(e, x):
        size = e.call(F32, "__nv_fabsf", [x])
        value = _polynomial(e, ERFC, size)
        rest = _asm(e, "ex2.approx.ftz.f32 $0, $1;", e.builder.fmul(value, size))
        return e.call(F32, "__nv_copysignf", [e.builder.fsub(ir.Constant(F32, 1.0), rest), x])

    return (kind, emit) if kind == types.float32 else None


def gelu_for_half(kind):
    """x times the normal distribution's share below x: off by 2**-16 of itself; -inf gives NaN, as -inf * 0 does."""

    def emit(e, x):
        b, zero = e.builder, ir.Constant(F32, 0.0)
        tail = _asm(e, "ex2.approx.ftz.f32 $0, $1;", _polynomial(e, NORMAL, e.call(F32, "__nv_fabsf", [x])))
        share = b.select(b.fcmp_ordered("<", x, zero), tail, b.fsub(ir.Constant(F32, 1.0), tail))
        return b.fmul(x, share)

    return (kind, emit) if kind == types.float32 else None
