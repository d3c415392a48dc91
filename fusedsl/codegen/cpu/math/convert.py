"""Conversions in integer code that vectorises everywhere: 16-bit floats, and floats to integers that saturate."""

from __future__ import annotations

from ....ir.types import BFLOAT16, FLOAT32, UINT16, UINT32, DType
from ..number import Number, absolute, intrinsic, select


def saturate(x: Number, d: DType) -> Number:
    """Truncated towards zero, limited to the range of `d`; NaN gives 0."""
    name = "fptosi.sat" if d.kind == "i" else "fptoui.sat"
    return intrinsic(name, x, result=d, suffixes=(d, x.dtype))


def unpack(word: Number, d: DType) -> Number:
    """The float32 that a float16 or bfloat16 word stands for, exactly; NaN keeps its payload."""
    wide = word.to(UINT32)
    if d is BFLOAT16:
        return (wide << 16).reinterpret(FLOAT32)
    magnitude = (wide & 0x7FFF) << 13
    scaled = magnitude.reinterpret(FLOAT32) * 2.0**112  # exponent 15 becomes 127; subnormals come out normal
    special = (scaled.reinterpret(UINT32)) | 0x7F800000
    value = select(magnitude >= (0x7C00 << 13), special, scaled.reinterpret(UINT32))
    return (value | ((wide & 0x8000) << 16)).reinterpret(FLOAT32)


def pack(x: Number, d: DType) -> Number:
    """The word of the nearest float16 or bfloat16 (ties to even); NaN stays NaN."""
    bits = x.reinterpret(UINT32)
    if d is BFLOAT16:
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        return select(x != x, (bits >> 16) | 0x40, rounded).to(UINT16)
    magnitude = bits & 0x7FFFFFFF
    normal = (magnitude + (0xFFF - (112 << 23)) + ((magnitude >> 13) & 1)) >> 13
    # adding 0.5 leaves the multiples of 2^-24 in the low bits, rounded by the addition itself
    subnormal = (absolute(x) + 0.5).reinterpret(UINT32) - 0x3F000000
    value = select(magnitude < (113 << 23), subnormal, normal)
    value = select(magnitude >= 0x477FF000, value.like(0x7C00), value)  # from 65520 up
    value = select(x != x, ((magnitude >> 13) & 0x3FF) | 0x7E00, value)
    return (value | ((bits >> 16) & 0x8000)).to(UINT16)
