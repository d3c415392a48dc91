"""Division of float32 by a divisor of many elements: correctly rounded, or as exact as a narrow result needs."""

from __future__ import annotations

from ..compiler.numba_backend import ir, types
from .libdevice import libdevice_call

LARGEST = (2 - 2.0**-23) * 2.0**127  # of float32


def divisor_scale(kind):
    """1, or the power of two that brings a very small or very large divisor to where its reciprocal is normal."""

    def emit(e, x):
        b = e.builder
        size = libdevice_call(e, "fabs", kind, [x])
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
        rest = libdevice_call(e, "fma", types.float32, [minus, divisor, x])
        corrected = libdevice_call(e, "fma", types.float32, [rest, inverse, estimate])
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
        scale = libdevice_call(e, "copysign", types.float32, [scale, divisor])
        size, inverse = (libdevice_call(e, "fabs", types.float32, [value]) for value in (divisor, inverse))
        size = b.select(b.fcmp_ordered(">", size, largest), largest, size)
        x = b.fmul(x, scale)
        estimate = b.fmul(x, inverse)
        minus = b.fsub(ir.Constant(x.type, -0.0), x)
        excess = libdevice_call(e, "fma", types.float32, [estimate, size, minus])
        excess = b.fsub(ir.Constant(x.type, -0.0), excess)
        return libdevice_call(e, "fma", types.float32, [excess, inverse, estimate])

    same = all(kind == types.float32 for kind in (x, divisor, scale, inverse))
    return (types.float32, emit) if same else None


def div_for_bf16(x, scale, inverse):
    """(x scale) inverse: a `quotient` without its correction, where a rounding to bfloat16 follows."""
    same = all(kind == types.float32 for kind in (x, scale, inverse))
    return (types.float32, lambda e, a, b, c: e.builder.fmul(e.builder.fmul(a, b), c)) if same else None
