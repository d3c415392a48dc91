"""Hyperbolic functions and their inverses without branches or calls.

e^|x| = 2^n (cosh r + sinh r) and e^-|x| = 2^-n (cosh r - sinh r) for |r| <= ln 2 / 2, where both have short
polynomials.
"""

from __future__ import annotations

from ....ir.types import FLOAT32, FLOAT64
from ..llvm_values import LLVMValue, absolute, copysign, fma, intrinsic, polynomial, select, sqrt
from .elementary import BIAS, LN2, NAN, SMALLEST_NORMAL, power_of_two, reduce_by_ln2, reduced_exponential
from .logarithm import copysign_unless_nan, log1p

# (sinh r - r) / r³ and (cosh r - 1) / r² as polynomials of r², minimax
SINH = {
    FLOAT32: (0.16666666754549883, 0.008333288954683755, 0.00019904960647681053),
    FLOAT64: (
        0.16666666666666677,
        0.008333333333321615,
        0.00019841269886160324,
        2.7557244180127927e-06,
        2.5109045509050345e-08,
    ),
}
COSH = {
    FLOAT32: (0.5000000079136946, 0.04166626707467161, 0.0013946230110535222),
    FLOAT64: (
        0.5,
        0.04166666666666671,
        0.0013888888888863931,
        2.4801587363405474e-05,
        2.7557241816604637e-07,
        2.0924427960012418e-09,
    ),
}
LARGEST = {FLOAT32: 89.5, FLOAT64: 710.5}  # beyond, sinh and cosh overflow
FAR = {FLOAT32: 2.0**30, FLOAT64: 2.0**60}  # x² + 1 is x², and x + 1 is x


def tanh(x: LLVMValue) -> LLVMValue:
    """(e^2|x| - 1) / (e^2|x| + 1)."""
    size = absolute(x)
    limited = select(size > 20, 20, size)
    r, n = reduce_by_ln2(limited * 2)
    power = power_of_two(n, x)
    grown = fma(power, reduced_exponential(r), power - 1)
    return copysign(grown / (grown + 2), x)


def sinh(x: LLVMValue) -> LLVMValue:
    size = absolute(x)
    even, odd, up, down = halves(size)
    value = fma(even, up - down, odd * (up + down))
    return copysign(select(size < SMALLEST_NORMAL[x.dtype], size, value + value), x)  # half of x may be nothing


def cosh(x: LLVMValue) -> LLVMValue:
    even, odd, up, down = halves(absolute(x))
    value = fma(even, up + down, odd * (up - down))
    return value + value


def halves(size: LLVMValue) -> tuple[LLVMValue, LLVMValue, LLVMValue, LLVMValue]:
    """(cosh r, sinh r, a, b): e^size / 4 = a (cosh r + sinh r), e^-size / 4 = b (cosh r - sinh r)."""
    d = size.dtype
    r, n = reduce_by_ln2(select(size > LARGEST[d], LARGEST[d], size))
    z = r * r
    odd = fma(r * z, polynomial(z, SINH[d]), r)
    even = fma(z, polynomial(z, COSH[d]), 1)
    lowest = intrinsic("smax", -n - 2, n.like(1 - BIAS[d]))  # there b does not count
    return even, odd, power_of_two(n - 2, size), power_of_two(lowest, size)


def arcsinh(x: LLVMValue) -> LLVMValue:
    """log1p(|x| + x² / (1 + √(1 + x²))); log |x| + ln 2 of large ones."""
    size = absolute(x)
    square = size * size
    return copysign_unless_nan(log1p_or_log(size, size + square / (sqrt(square + 1) + 1)), x)


def arccosh(x: LLVMValue) -> LLVMValue:
    """log1p(t + √(2t + t²)) for t = x - 1; log x + ln 2 of large ones."""
    t = x - 1
    return select(x < 1, NAN, log1p_or_log(x, t + sqrt(fma(t, t, t + t))))


def log1p_or_log(x: LLVMValue, value: LLVMValue) -> LLVMValue:
    """log1p of `value`, or log(2x) of an x that is large."""
    far = x > FAR[x.dtype]
    return log1p(select(far, x, value)) + select(far, x.like(LN2), 0)


def arctanh(x: LLVMValue) -> LLVMValue:
    size = absolute(x)
    return copysign_unless_nan(log1p((size + size) / (1 - size)) * 0.5, x)
