"""Functions whose results only reach 16-bit floats: shorter polynomials, the hardware's instructions, for float32.

Only two peephole passes may use them, because these know what becomes of a value: peephole/low_precision_stores.py in
rows, peephole/epilogue_approximations.py after matrix products. Attention of 16 bits uses `tanh` too.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import e as EULER
from math import log2

from ..compiler.numba_backend import F32, Emitter, ir, types
from . import float64 as double

LOG2_E = log2(EULER)
# Minimax polynomials (fitted by Lawson's reweighted least squares, 1961), coefficients from the lowest power on.
# tanh x = x P(x²) / Q(x²) for |x| <= 7.9; Q ends with x⁸. Relative error below 2⁻²⁰·⁹; the result is never above 1.
TANH_NUMERATOR = (4012012.75, 518930.1875, 11877.41796875, 46.26546096801758)
TANH_DENOMINATOR = (4012013.5, 1856263.75, 95702.734375, 962.9258422851562)
TANH_END = 7.9
# log2(erfc t) = t P(t) for t >= 0; the absolute error of erf t = 1 - 2^(t P(t)) is below 2⁻²³.
LOG2_ERFC = (
    *(-1.6279085874557495, -0.9184163808822632, -0.14848163723945618, 0.028253713622689247),
    *(-0.0007746577030047774, -0.0014894306659698486, 0.00044550650636665523, -4.535877815214917e-05),
)
# log2 Φ(-t), the Gaussian tail probability, for t >= 0: relative error of Φ below 2⁻¹⁶·⁹ up to t = 6.5 (Φ = 4e-11)
LOG2_GAUSSIAN_TAIL = (
    *(-1.0, -1.1511940956115723, -0.45859792828559875, -0.053835492581129074, 0.008451055735349655),
    *(-0.0009170399280264974, 6.000148641760461e-05, -1.7603005062483135e-06),
)


def tanh(e: Emitter, x: ir.Value) -> ir.Value:
    """tanh x = x P(x²) / Q(x²), relative error 2**-20.9."""
    b, (low, high) = e.builder, (ir.Constant(F32, end) for end in (-TANH_END, TANH_END))
    x = _clamp(e, x, low, high)
    square = b.fmul(x, x)
    numerator = ir.Constant(F32, TANH_NUMERATOR[-1])
    denominator = b.fadd(square, ir.Constant(F32, TANH_DENOMINATOR[-1]))
    for p, q in zip(TANH_NUMERATOR[-2::-1], TANH_DENOMINATOR[-2::-1]):
        numerator = e.call(F32, "llvm.fma.f32", [numerator, square, ir.Constant(F32, p)])
        denominator = e.call(F32, "llvm.fma.f32", [denominator, square, ir.Constant(F32, q)])
    return b.fmul(b.fmul(numerator, x), _asm(e, "rcp.approx.ftz.f32 $0, $1;", denominator))


def _asm(e: Emitter, text: str, x: ir.Value) -> ir.Value:
    return e.asm(F32, text, "=f,f", [x])


def _clamp(e: Emitter, x: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
    """x clamped to [low, high]; NaN stays NaN."""
    x = e.asm(F32, "min.NaN.f32 $0, $1, $2;", "=f,f,f", [x, high])
    return e.asm(F32, "max.NaN.f32 $0, $1, $2;", "=f,f,f", [x, low])


def _polynomial(e: Emitter, coefficients: Sequence[float], x: ir.Value) -> ir.Value:
    """The polynomial at x by Horner's scheme, coefficients from the lowest power on."""
    value = ir.Constant(F32, coefficients[-1])
    for c in coefficients[-2::-1]:
        value = e.call(F32, "llvm.fma.f32", [value, x, ir.Constant(F32, c)])
    return value


def exp_for_half(kind):
    """exp(x) as the square of ex2.approx.ftz, which flushes subnormals: relative error 2**-24 |x| + 2**-21.

    There is no such instruction for f64: float64 calls the function of float64.py.
    """

    def emit(e, x):
        if kind.bitwidth == 64:
            return double.call(e, "exp", x)
        root = e.asm(x.type, "ex2.approx.ftz.f32 $0, $1;", "=f,f", [e.builder.fmul(x, ir.Constant(x.type, LOG2_E / 2))])
        return e.builder.fmul(root, root)

    return (kind, emit) if isinstance(kind, types.Float) else None


def log_approx(kind):
    """log2(x) / log2(e) by lg2.approx: absolute error 2**-22 for x between 1/2 and 2, else relative error 2**-22.

    There is no such instruction for f64: float64 calls the function of float64.py.
    """

    def emit(e, x):
        if kind.bitwidth == 64:
            return double.call(e, "log", x)
        logarithm = e.asm(x.type, "lg2.approx.f32 $0, $1;", "=f,f", [x])
        return e.builder.fmul(logarithm, ir.Constant(x.type, 1 / LOG2_E))

    return (kind, emit) if isinstance(kind, types.Float) else None


def tanh_for_half(kind):
    """tanh(x), relative error 2**-20.9; infinities give 1 and -1."""
    return (kind, tanh) if kind == types.float32 else None


def logistic_for_half(kind):
    """1 / (1 + exp(-x)), scaled so that no subnormal is flushed: relative error 2**-24 |x| + 2**-21."""

    def emit(e, x):
        b, tiny = e.builder, ir.Constant(F32, 2.0**-30)
        exp_neg_x = _asm(e, "ex2.approx.ftz.f32 $0, $1;", b.fmul(x, ir.Constant(F32, -LOG2_E)))
        denominator = e.call(F32, "llvm.fma.f32", [exp_neg_x, tiny, tiny])
        return b.fmul(_asm(e, "rcp.approx.ftz.f32 $0, $1;", denominator), tiny)

    return (kind, emit) if kind == types.float32 else None


def erf_approx(kind):
    """erf(x), absolute error 2**-23: for sums with a number of at least 1/2, such as 1 + erf(x)."""

    def emit(e, x):
        abs_x = e.call(F32, "__nv_fabsf", [x])
        value = _polynomial(e, LOG2_ERFC, abs_x)
        erfc = _asm(e, "ex2.approx.ftz.f32 $0, $1;", e.builder.fmul(value, abs_x))
        return e.call(F32, "__nv_copysignf", [e.builder.fsub(ir.Constant(F32, 1.0), erfc), x])

    return (kind, emit) if kind == types.float32 else None


def gelu_for_half(kind):
    """gelu(x) = x Φ(x), Φ the Gaussian CDF: relative error 2**-16; -inf gives NaN, as -inf * 0 does."""

    def emit(e, x):
        b, zero = e.builder, ir.Constant(F32, 0.0)
        tail = _asm(e, "ex2.approx.ftz.f32 $0, $1;", _polynomial(e, LOG2_GAUSSIAN_TAIL, e.call(F32, "__nv_fabsf", [x])))
        cdf = b.select(b.fcmp_ordered("<", x, zero), tail, b.fsub(ir.Constant(F32, 1.0), tail))
        return b.fmul(x, cdf)

    return (kind, emit) if kind == types.float32 else None
