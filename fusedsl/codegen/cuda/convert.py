"""Conversions on CUDA: floats to integers, 16-bit and 8-bit floats to and from float32."""

from __future__ import annotations

from ...ir.types import DTYPES
from .backend import F32, I8, I16, I32, Emitter, intrinsic, ir, numba_type, types


def saturate(name: str):
    target = numba_type(name)

    def rule(kind):
        return (target, lambda e, x: _float_to_integer(e, x, kind, target)) if isinstance(kind, types.Float) else None

    rule.__name__ = f"saturate_{name}"
    return intrinsic(1)(rule)


def _float_to_integer(e: Emitter, x: ir.Value, kind: types.Type, target: types.Type) -> ir.Value:
    """Truncate, saturate, NaN to 0. (PTX's cvt saturates; of NaN it makes 0 only where neither side has 64 bits.)"""
    b, wide = e.builder, 64 if target.bitwidth == 64 else 32
    word, sign = ir.IntType(wide), "s" if target.signed else "u"
    register = "l" if wide == 64 else "r"
    text = f"cvt.rzi.{sign}{wide}.f{kind.bitwidth} $0, $1;"
    found = e.asm(word, text, f"={register},{'f' if kind.bitwidth == 32 else 'd'}", [x])
    found = b.select(b.fcmp_unordered("uno", x, x), word(0), found)
    if target.bitwidth >= 32:
        return found
    low = -(1 << (target.bitwidth - 1)) if target.signed else 0
    high = (1 << (target.bitwidth - bool(target.signed))) - 1
    less = b.icmp_signed if target.signed else b.icmp_unsigned
    found = b.select(less("<", found, word(low)), word(low), found)
    found = b.select(less(">", found, word(high)), word(high), found)
    return b.trunc(found, ir.IntType(target.bitwidth))


def round_through(name: str):
    def rule(kind):
        if kind == types.float64 and name == "float16":
            return types.float32, lambda e, x: widen(e, e.asm(I16, "cvt.rn.f16.f64 $0, $1;", "=h,d", [x]), name)
        return (kind, lambda e, x: widen(e, narrow(e, x, name), name)) if kind == types.float32 else None

    rule.__name__ = f"{name}_round"
    return intrinsic(1)(rule)


def widen(e: Emitter, half: ir.Value, name: str) -> ir.Value:
    """The stored bits of a narrow float as float32."""
    if DTYPES[name].storage:
        return _widen_byte(e, half, name)
    if name == "bfloat16":
        return e.builder.bitcast(e.builder.shl(e.builder.zext(half, I32), I32(16)), F32)
    return e.asm(F32, "cvt.f32.f16 $0, $1;", "=f,h", [half])


def narrow(e: Emitter, x: ir.Value, name: str) -> ir.Value:
    """float32 rounded to nearest even into the bits of a narrow float."""
    if DTYPES[name].storage:
        return _narrow_byte(e, x, name)
    if name == "float16":
        return e.asm(I16, "cvt.rn.f16.f32 $0, $1;", "=h,f", [x])
    if e.cc >= (8, 0):
        return e.asm(I16, "cvt.rn.bf16.f32 $0, $1;", "=h,f", [x])
    b = e.builder  # before sm_80 there is no conversion: round the bits, keep NaN quiet
    bits = b.bitcast(x, I32)
    odd = b.and_(b.lshr(bits, I32(16)), I32(1))
    rounded = b.lshr(b.add(bits, b.add(odd, I32(0x7FFF))), I32(16))
    return b.trunc(b.select(b.fcmp_unordered("uno", x, x), I32(0x7FFF), rounded), I16)


# Of float8: bits of the fraction, exponent bias, the word from which on there is no finite number, and that of NaN.
_BYTES = {"float8_e4m3fn": (3, 7, 0x7F, 0x7F), "float8_e5m2": (2, 15, 0x7C, 0x7E)}
_LARGEST = {
    "float8_e4m3fn": 464.0,
    "float8_e5m2": 61440.0 - 2.0**-8,
}  # the largest float32 that rounds to a finite number


def _widen_byte(e: Emitter, byte: ir.Value, name: str) -> ir.Value:
    b, (fraction, bias, top, _) = e.builder, _BYTES[name]
    if e.cc >= (8, 9):
        kind = "e4m3x2" if name == "float8_e4m3fn" else "e5m2x2"
        pair = e.asm(I32, f"cvt.rn.f16x2.{kind} $0, $1;", "=r,h", [b.zext(byte, I16)])
        return widen(e, b.trunc(pair, I16), "float16")
    wide = b.zext(byte, I32)
    magnitude = b.and_(wide, I32(0x7F))
    scaled = b.bitcast(b.shl(magnitude, I32(23 - fraction)), F32)
    bits = b.bitcast(b.fmul(scaled, ir.Constant(F32, 2.0 ** (127 - bias))), I32)
    special = b.or_(bits, I32(0x7FC00000 if fraction == 3 else 0x7F800000))
    bits = b.select(b.icmp_unsigned(">=", magnitude, I32(top)), special, bits)
    return b.bitcast(b.or_(bits, b.shl(b.and_(wide, I32(0x80)), I32(24))), F32)


def _narrow_byte(e: Emitter, x: ir.Value, name: str) -> ir.Value:
    """Beyond the range is NaN in e4m3fn, which has no infinity, and infinity in e5m2: as ml_dtypes does."""
    b, (fraction, bias, top, nan_word) = e.builder, _BYTES[name]
    bits, size = b.bitcast(x, I32), e.call(F32, "__nv_fabsf", [x])
    sign = b.and_(b.lshr(bits, I32(24)), I32(0x80))
    beyond = b.fcmp_unordered(">", size, ir.Constant(F32, _LARGEST[name]))
    if e.cc >= (8, 9):
        kind = "e4m3x2" if name == "float8_e4m3fn" else "e5m2x2"
        pair = e.asm(I16, f"cvt.rn.satfinite.{kind}.f32 $0, $1, $2;", "=h,f,f", [ir.Constant(F32, 0.0), x])
        value = b.and_(b.zext(pair, I32), I32(0x7F))
    else:
        magnitude, shift, rebias = b.and_(bits, I32(0x7FFFFFFF)), 23 - fraction, 127 - bias
        odd = b.and_(b.lshr(magnitude, I32(shift)), I32(1))
        normal = b.add(b.add(magnitude, I32((1 << (shift - 1)) - 1 - (rebias << 23))), odd)
        step = 24 - bias - fraction  # 2**step has the least subnormal in its last place
        shifted = b.bitcast(b.fadd(size, ir.Constant(F32, 2.0**step)), I32)
        subnormal = b.sub(shifted, I32((127 + step) << 23))
        small = b.icmp_unsigned("<", magnitude, I32((rebias + 1) << 23))
        value = b.select(small, subnormal, b.lshr(normal, I32(shift)))
    value = b.select(beyond, I32(top), value)
    value = b.select(b.fcmp_unordered("uno", x, x), I32(nan_word), value)
    return b.trunc(b.or_(value, sign), I8)
