"""Conversions of narrow floats, and saturating conversions to integers, in integer code that vectorises."""

from __future__ import annotations

from ....ir.types import BFLOAT16, FLOAT8_E4M3FN, FLOAT32, FLOAT64, INT32, UINT8, UINT16, UINT32, DType
from ..llvm_values import LLVMValue, absolute, llvm_type, select
from . import half


def saturate(x: LLVMValue, d: DType) -> LLVMValue:
    """Truncate to an integer, saturated to the range of `d`; NaN gives 0. (LLVM's conversion does not vectorise.)"""
    signed, target = d.kind == "i", d if d.bits >= 32 else INT32
    least, end = (-(2.0 ** (d.bits - 1)), 2.0 ** (d.bits - 1)) if signed else (0.0, 2.0**d.bits)
    digits = 24 if x.dtype is FLOAT32 else 53
    largest = end - max(1.0, end * 2.0**-digits)  # the largest float, or integer, below the end
    limited = select(x > least, x, least)
    limited = select(limited < largest, limited, largest)
    value = truncated(limited, target).to(d)
    if largest != end - 1:
        value = select(x >= end, int(end) - 1, value)
    return select(x == x, value, 0)


def truncated(x: LLVMValue, d: DType) -> LLVMValue:
    """Truncate x that is in the range of `d`."""
    convert = x.builder.fptosi if d.kind == "i" else x.builder.fptoui
    return LLVMValue(x.builder, d, convert(x.value, llvm_type(d)))


def round_to(x: LLVMValue, d: DType) -> LLVMValue:
    """Round a float32 or float64 to a narrow float, as float32."""
    return unpack(pack(x if x.dtype is FLOAT32 else round_to_odd(x), d), d)


def round_to_odd(x: LLVMValue) -> LLVMValue:
    """Round float64 to odd float32, so that a second rounding is correct (Boldo & Melquiond, 2008)."""
    near = x.to(FLOAT32)
    back, bits = near.to(FLOAT64), near.reinterpret(INT32)
    even, size = (bits & 1) == 0, absolute(x)
    outwards = select(size > absolute(back), 1, bits.like(0))
    step = select(size < absolute(back), -1, outwards)
    return select(even, bits + step, bits).reinterpret(FLOAT32)


def unpack(word: LLVMValue, d: DType) -> LLVMValue:
    """Decode a narrow float to float32, exactly; a 16-bit NaN keeps its payload."""
    wide = word.to(UINT32)
    if d.storage:
        return unpack_byte(wide, d)
    if d is BFLOAT16:
        return (wide << 16).reinterpret(FLOAT32)
    return half.extend(word)


def pack(x: LLVMValue, d: DType) -> LLVMValue:
    """Encode the nearest narrow float (ties to even); NaN stays NaN."""
    bits = x.reinterpret(UINT32)
    if d.storage:
        return pack_byte(x, bits, d)
    if d is BFLOAT16:
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        return select(x != x, (bits >> 16) | 0x40, rounded).to(UINT16)
    return half.truncate(x)


# float8 formats (Micikevicius et al., arXiv 2209.05433), by whether they are e4m3fn: bits of the fraction, exponent
# bias, the largest word (e4m3fn: NaN, for it has no infinity; e5m2: infinity), and the word of NaN.
FRACTION, BIAS = {True: 3, False: 2}, {True: 7, False: 15}
TOP, NAN = {True: 0x7F, False: 0x7C}, {True: 0x7F, False: 0x7E}


def unpack_byte(wide: LLVMValue, d: DType) -> LLVMValue:
    """Decode a float8 byte (as uint32) to float32."""
    e4m3 = d is FLOAT8_E4M3FN
    magnitude = wide & 0x7F
    scaled = (magnitude << (23 - FRACTION[e4m3])).reinterpret(FLOAT32) * 2.0 ** (127 - BIAS[e4m3])
    bits = scaled.reinterpret(UINT32)
    bits = select(magnitude >= TOP[e4m3], bits | (0x7FC00000 if e4m3 else 0x7F800000), bits)
    return (bits | ((wide & 0x80) << 24)).reinterpret(FLOAT32)


def pack_byte(x: LLVMValue, bits: LLVMValue, d: DType) -> LLVMValue:
    """Encode the nearest float8; out of range gives NaN in e4m3fn, infinity in e5m2 (as ml_dtypes)."""
    e4m3 = d is FLOAT8_E4M3FN
    shift, rebias = 23 - FRACTION[e4m3], 127 - BIAS[e4m3]
    magnitude = bits & 0x7FFFFFFF
    normal = (magnitude + ((1 << (shift - 1)) - 1 - (rebias << 23)) + ((magnitude >> shift) & 1)) >> shift
    # adding a power of two whose last place is the least subnormal leaves the multiples of that in the low bits
    step = 23 + 1 - BIAS[e4m3] - FRACTION[e4m3]
    subnormal = (absolute(x) + 2.0**step).reinterpret(UINT32) - ((127 + step) << 23)
    value = select(magnitude < ((rebias + 1) << 23), subnormal, normal)
    value = select(value > TOP[e4m3], value.like(TOP[e4m3]), value)
    value = select(magnitude >= 0x7F800000, value.like(TOP[e4m3]), value)
    value = select(x != x, value.like(NAN[e4m3]), value)
    return (value | ((bits >> 24) & 0x80)).to(UINT8)
