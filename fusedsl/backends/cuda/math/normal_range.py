"""Logarithms and square roots of positive normal float32: the same bits as of any float32, without special cases.

The logarithm is libdevice's, beyond its tests for subnormal numbers, zero, infinity and NaN; the square root is what
`sqrt.rn.f32` computes where neither its operand nor a residual is near the ends of the range.
"""

from __future__ import annotations

import struct

from ..compiler.numba_backend import F32, I32, Emitter, ir, types
from .libdevice import libdevice_call

TWO_THIRDS = 0x3F2AAAAB  # the bits from which a number's fraction is in [2/3, 4/3)
EXPONENT = -(1 << 23)  # the mask of sign and exponent
LN2 = 0.693147182464599609375
# log(1 + t) = t + t^2 times this polynomial of t, from the highest power on
SERIES = (-struct.unpack("<f", struct.pack("<I", 0x3E055027))[0], 0.14084610342979431152, -0.12148627638816833496,
          0.13980610668659210205, -0.16684235632419586182, 0.20012299716472625732, -0.24999669194221496582,
          0.33333182334899902344, -0.5)  # fmt: skip


def log_of_normal(kind):
    """ln x"""

    def emit(e, x):
        b = e.builder
        bits = b.bitcast(x, I32)
        exponent = b.and_(b.sub(bits, I32(TWO_THIRDS)), I32(EXPONENT))
        part = b.fadd(b.bitcast(b.sub(bits, exponent), F32), F32(-1.0))
        series = F32(SERIES[0])
        for c in SERIES[1:]:
            series = _fma(e, series, part, F32(c))
        whole = b.fmul(b.sitofp(exponent, F32), F32(2.0**-23))
        near = _fma(e, b.fmul(part, series), part, part)
        return _fma(e, whole, F32(LN2), near)

    return (kind, emit) if kind == types.float32 else None


def sqrt_of_normal(kind):
    """√x: the hardware's estimate of 1 / √x, one step of Newton's method, rounded once."""

    def emit(e, x):
        b = e.builder
        estimate = e.asm(F32, "rsqrt.approx.ftz.f32 $0, $1;", "=f,f", [x])
        root, half = b.fmul(x, estimate), b.fmul(estimate, F32(0.5))
        return _fma(e, _fma(e, b.fsub(F32(-0.0), root), root, x), half, root)

    return (kind, emit) if kind == types.float32 else None


def _fma(e: Emitter, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    return libdevice_call(e, "fma", types.float32, [x, y, z])
