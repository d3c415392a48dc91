"""Integer functions that never trap: floored division, shifts of any distance, powers that wrap."""

from __future__ import annotations

from ..llvm_values import LLVMValue, frozen, integer_of_literal, intrinsic, select
from .magic_division import floor_divide_by


def safe_divisor(x: LLVMValue, y: LLVMValue) -> LLVMValue:
    """y, or 1 where dividing by y would trap (y = 0, and INT_MIN / -1)."""
    unsafe = y == 0
    if x.dtype.kind == "i":
        unsafe = unsafe | ((y == -1) & (x == -(1 << (x.dtype.bits - 1))))
    return select(unsafe, 1, y)


def floor_divide(x: LLVMValue, y: LLVMValue) -> LLVMValue:
    """⌊x / y⌋; 0 where y is 0; INT_MIN // -1 wraps."""
    if (known := integer_of_literal(y)) is not None and known > 0 and known & (known - 1) == 0:
        return x >> (known.bit_length() - 1)
    if known is not None and known > 0 and x.dtype.bits == 64:
        return floor_divide_by(x, known)
    divisor = safe_divisor(x, y)
    quotient = x // divisor
    if x.dtype.kind == "i":
        left = x - quotient * divisor
        quotient = quotient - ((left != 0) & ((left < 0) ^ (divisor < 0))).to(x.dtype)
    return select(y == 0, 0, quotient)


def remainder(x: LLVMValue, y: LLVMValue) -> LLVMValue:
    """x - ⌊x / y⌋ · y; 0 where y is 0."""
    return select(y == 0, 0, x - floor_divide(x, y) * y)


def fmod(x: LLVMValue, y: LLVMValue) -> LLVMValue:
    """The remainder of the truncated quotient; 0 where y is 0."""
    divisor = safe_divisor(x, y)
    return select(y == 0, 0, x % divisor)


def count_ones(x: LLVMValue) -> LLVMValue:
    """How many bits are 1."""
    return intrinsic("ctpop", x)


def shift_left(x: LLVMValue, n: LLVMValue) -> LLVMValue:
    """x << n; 0 where n is negative or at least the width."""
    return select(below_width(n), frozen(x << n), 0)


def shift_right(x: LLVMValue, n: LLVMValue) -> LLVMValue:
    """x >> n with the sign repeated; a distance outside the width gives 0, or -1 where x is negative."""
    beyond = select(x < 0, -1, x.like(0)) if x.dtype.kind == "i" else x.like(0)
    return select(below_width(n), frozen(x >> n), beyond)


def below_width(n: LLVMValue) -> LLVMValue:
    """0 <= n < width; at any other distance LLVM's shifts are poison."""
    return (n >= 0) & (n < n.dtype.bits)


def power(x: LLVMValue, y: LLVMValue) -> LLVMValue:
    """x ** y by squaring, wrapping; a negative exponent gives 0, and ±1 where x is ±1."""
    result, base = x.like(1), x
    for bit in range(x.dtype.bits):
        chosen = ((y >> bit) & 1) != 0
        result = select(chosen, result * base, result)
        base = base * base
    if x.dtype.kind == "u":
        return result
    negative = select(x == 1, 1, select(x == -1, select((y & 1) != 0, -1, x.like(1)), 0))
    return select(y < 0, negative, result)


def absolute(x: LLVMValue) -> LLVMValue:
    """|x|; INT_MIN wraps to itself."""
    return select(x < 0, -x, x) if x.dtype.kind == "i" else x


def sign(x: LLVMValue) -> LLVMValue:
    """-1, 0 or 1."""
    positive = select(x > 0, 1, x.like(0))
    return select(x < 0, -1, positive) if x.dtype.kind == "i" else positive


def maximum(x: LLVMValue, y: LLVMValue) -> LLVMValue:
    if x.dtype.bits == 1:
        return x | y
    return intrinsic("smax" if x.dtype.kind == "i" else "umax", x, y)


def minimum(x: LLVMValue, y: LLVMValue) -> LLVMValue:
    if x.dtype.bits == 1:
        return x & y
    return intrinsic("smin" if x.dtype.kind == "i" else "umin", x, y)
