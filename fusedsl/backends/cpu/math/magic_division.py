"""Division of 64-bit integers by literals: a multiplication by a magic number, in vectors.

LLVM multiplies 64 bits to 128 bits with scalar instructions. Here the upper half is the sum of four products of 32
bits, which vector units have. Theorem 4.2 of Granlund and Montgomery, Division by Invariant Integers using
Multiplication (PLDI 1994): for d > 0, l = ⌈log2 d⌉ and n < 2**N, ⌊n / d⌋ = ⌊n · m / 2**(N + l)⌋ where
m = ⌈2**(N + l) / d⌉.
"""

from __future__ import annotations

from ....ir.types import UINT64
from ..llvm_values import LLVMValue

LOW = (1 << 32) - 1


def floor_divide_by(x: LLVMValue, d: int) -> LLVMValue:
    """⌊x / d⌋ of 64-bit integers for a literal d > 0 that is no power of two."""
    shift = (d - 1).bit_length()
    if x.dtype.kind == "i":  # ⌊x / d⌋ = ~⌊~x / d⌋ where x is negative
        sign = x >> 63
        quotient = upper_half((x ^ sign).to(UINT64), -(-(1 << (63 + shift)) // d)) >> (shift - 1)
        return quotient.to(x.dtype) ^ sign
    part = upper_half(x, -(-(1 << (64 + shift)) // d) - (1 << 64))  # the magic number has 65 bits
    return (((x - part) >> 1) + part) >> (shift - 1)


def upper_half(x: LLVMValue, m: int) -> LLVMValue:
    """⌊x · m / 2**64⌋ of unsigned integers."""
    low, high = x & LOW, x >> 32
    middle = high * (m & LOW) + ((low * (m & LOW)) >> 32)
    last = (middle & LOW) + low * (m >> 32)
    return high * (m >> 32) + (middle >> 32) + (last >> 32)
