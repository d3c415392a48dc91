"""Exponentials without branches or calls: loops over them vectorise.

Reduction and coefficients: after Cody & Waite with Cephes' polynomial (float32) or a minimax one (float64).
"""

from __future__ import annotations

from collections.abc import Callable

from ....ir.types import FLOAT32, FLOAT64, INT64
from ..llvm_values import LLVMValue, absolute, copysign, even_odd_polynomial, fma, multiply_rounded, polynomial, select

INF = float("inf")
NAN = float("nan")
LN2 = 0.6931471805599453
INV_LN2 = 1.4426950408889634
# ln 2 in two parts; the high part times any exponent is exact
LN2_PARTS = {FLOAT32: (0.693145751953125, 1.428606765330187e-06), FLOAT64: (0.6931471803691238, 1.9082149292705877e-10)}
# (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2
EXP = {
    FLOAT32: (5.0000001201e-1, 1.6666665459e-1, 4.1665795894e-2, 8.3334519073e-3, 1.3981999507e-3, 1.9875691500e-4),
    FLOAT64: (
        0.5,
        0.16666666666666677,
        0.0416666666666667,
        0.008333333333321624,
        0.0013888888888866856,
        0.00019841269886134398,
        2.4801587360518538e-05,
        2.7557244208828974e-06,
        2.7557242792803374e-07,
        2.5109034677238967e-08,
        2.0924432935471095e-09,
    ),
}
EXP_RANGE = {FLOAT32: (-104.0, 89.0), FLOAT64: (-746.0, 710.0)}
MANTISSA = {FLOAT32: 23, FLOAT64: 52}
BIAS = {FLOAT32: 127, FLOAT64: 1023}
ROUNDER = {FLOAT32: 1.5 * 2.0**23, FLOAT64: 1.5 * 2.0**52}
SMALLEST_NORMAL = {FLOAT32: 2.0**-126, FLOAT64: 2.0**-1022}


def through_float64(function: Callable) -> Callable:
    """The function computed in float64 and rounded once to the arguments' type."""

    def widened(*args: LLVMValue) -> LLVMValue:
        return function(*(a.to(FLOAT64) for a in args)).to(args[0].dtype)

    return widened


def clamp(x: LLVMValue, low: float, high: float) -> LLVMValue:
    """Clamp x to [low, high]; NaN stays."""
    x = select(x < low, low, x)
    return select(x > high, high, x)


def round_to_integer(x: LLVMValue, scale: float) -> tuple[LLVMValue, LLVMValue]:
    """x · scale rounded, as a float and as an integer; |x · scale| is far below 2^22. NaN gives NaN and any integer."""
    shifted = fma(x, scale, ROUNDER[x.dtype])
    return shifted - ROUNDER[x.dtype], shifted.bits() - x.like(ROUNDER[x.dtype]).bits()


def power_of_two(n: LLVMValue, like: LLVMValue) -> LLVMValue:
    """2^n for an integer n in the range of normal numbers."""
    return ((n + BIAS[like.dtype]) << MANTISSA[like.dtype]).reinterpret(like.dtype)


def scale(x: LLVMValue, n: LLVMValue) -> LLVMValue:
    """x · 2^n, in two steps, so that results below the normal numbers are rounded once and overflow gives inf."""
    half = n >> 1
    return multiply_rounded(x * power_of_two(half, x), power_of_two(n - half, x))


def reduced_exponential(r: LLVMValue) -> LLVMValue:
    """e^r - 1 for |r| <= ln 2 / 2."""
    evaluate = even_odd_polynomial if r.dtype is FLOAT64 else polynomial
    return fma(evaluate(r, EXP[r.dtype]), r * r, r)


def reduce_by_ln2(x: LLVMValue) -> tuple[LLVMValue, LLVMValue]:
    """(r, n): x = n · ln 2 + r."""
    n, whole = round_to_integer(x, INV_LN2)
    high, low = LN2_PARTS[x.dtype]
    return fma(n, -low, fma(n, -high, x)), whole


def exp(x: LLVMValue) -> LLVMValue:
    r, n = reduce_by_ln2(clamp(x, *EXP_RANGE[x.dtype]))
    return scale(reduced_exponential(r) + 1, n)


def exp2(x: LLVMValue) -> LLVMValue:
    low, high = (-151.0, 129.0) if x.dtype is FLOAT32 else (-1076.0, 1025.0)
    x = clamp(x, low, high)
    n, whole = round_to_integer(x, 1.0)
    return scale(reduced_exponential((x - n) * LN2) + 1, whole)


def expm1(x: LLVMValue) -> LLVMValue:
    limited = clamp(x, -40.0, EXP_RANGE[x.dtype][1])
    r, n = reduce_by_ln2(limited)
    half = power_of_two(n - 1, x)  # 2^n itself may overflow
    value = fma(half, reduced_exponential(r), half - 0.5)
    return copysign(select(absolute(x) < SMALLEST_NORMAL[x.dtype], x, value + value), x)  # half of x may be nothing


def ldexp(x: LLVMValue, n: LLVMValue) -> LLVMValue:
    """x · 2^n for any int32 n, rounded once: for float32 in float64, for float64 as in musl's scalbn.c."""
    if x.dtype is FLOAT32:
        n = limited(n, 300)
        return (x.to(FLOAT64) * power_of_two(n, x.like(0).to(FLOAT64))).to(FLOAT32)
    n = limited(n, 2200)
    for _ in range(2):  # two steps: a rounding at 2^-969 is far below the result
        small, large = n < -1022, n > 1023
        x = x * select(small, 2.0**-969, select(large, 2.0**1023, x.like(1.0)))
        n = n - select(small, -969, select(large, 1023, n.like(0)))
    return multiply_rounded(x, power_of_two(n, x))


def limited(n: LLVMValue, reach: int) -> LLVMValue:
    """Clamp an int32 to ±reach, as an int64."""
    n = select(n < -reach, -reach, n)
    return select(n > reach, reach, n).to(INT64)
