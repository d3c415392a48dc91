"""Power without branches or calls: 2^(y log2 |x|), with log2 |x| and the product as unevaluated sums of two floats.

The relative error of log2 x is multiplied by up to 2^10 (float32: 2^7), which is why one float is not enough. Results
are within 1 ulp.
"""

from __future__ import annotations

from ....ir.types import FLOAT32, FLOAT64
from ..llvm_values import (
    LLVMValue,
    absolute,
    constant_of,
    even_odd_polynomial,
    fma,
    intrinsic,
    multiply_rounded,
    polynomial,
    select,
)
from .elementary import INF, LN2, MANTISSA, NAN, ROUNDER, SMALLEST_NORMAL, clamp, scale
from .logarithm import Pair, log2_pair, split_exponent, split_normal
from .roots import has_roots, root_power

LN2_LOW = 2.3190468138462996e-17  # ln 2 - LN2
# (2^r - 1 - r ln 2) / r² for |r| <= 1/2
EXP2 = {
    FLOAT32: (
        0.24022647549283468,
        0.05550362248584318,
        0.00961852634512465,
        0.0013390163809336312,
        0.00015321149495830456,
    ),
    FLOAT64: (
        0.24022650695910122,
        0.05550410866482074,
        0.009618129107596986,
        0.0013333558146686097,
        0.00015403530454063922,
        1.5252733546884907e-05,
        1.3215436610223346e-06,
        1.0178184650732522e-07,
        7.073579165009119e-09,
        4.4363034993225355e-10,
    ),
}
LOWEST = {FLOAT32: -152.0, FLOAT64: -1077.0}  # exponents of results that are 0
HIGHEST = {FLOAT32: 130.0, FLOAT64: 1026.0}  # and infinite
LARGE = 2.0**70  # an exponent that makes 0 or infinity of everything but 1
COMMON = {FLOAT32: 87.0 * 2**23, FLOAT64: 708.0 * 2**52}  # e^±87 and e^±708 are normal numbers


def power(x: LLVMValue, y: LLVMValue) -> LLVMValue:
    """C's pow."""
    if has_roots(y):
        return root_power(x, y)
    size = absolute(x)
    finite = size < INF
    high, low = log2_pair(*split_exponent(size))
    high = select(size == 0, -INF, select(finite, high, size))
    value = exp2(*times(clamp(y, -LARGE, LARGE), high, low))
    is_integer = intrinsic("trunc", y) == y
    value = signed(value, x, is_integer & is_odd(y))
    value = select((x < 0) & finite & ~is_integer, NAN, value)
    return select((y == 0) | (x == 1), 1, value)


def power_near(x: LLVMValue, y: LLVMValue) -> LLVMValue:
    """The same where x and y are not `beyond`."""
    if has_roots(y):
        return root_power(x, y)
    value = near_exp2(*times(y, *log2_pair(*split_normal(usual_base(x, y)))))
    return signed(value, x, is_odd(y)) if is_whole_literal(y) else value


def beyond(x: LLVMValue, y: LLVMValue) -> LLVMValue:
    """True if x is not positive and normal (for a whole literal y: normal), or x ** y is not within e^±87 (e^±708).

    The bits of x as an integer are a piecewise linear interpolation of log2 x, at most 1/ln 2 times the logarithm.
    """
    if has_roots(y):
        return y != y  # False
    x = usual_base(x, y)
    line = (x.bits() - x.like(1.0).bits()).to(x.dtype)
    return ~((x >= SMALLEST_NORMAL[x.dtype]) & (x < INF) & (absolute(line * y) < COMMON[x.dtype]))


def usual_base(x: LLVMValue, y: LLVMValue) -> LLVMValue:
    return absolute(x) if is_whole_literal(y) else x


def is_whole_literal(y: LLVMValue) -> bool:
    value = constant_of(y)
    return value is not None and value.is_integer()


def is_odd(y: LLVMValue) -> LLVMValue:
    """True if a float is an odd integer; no float beyond 2^53 is odd."""
    half = y * 0.5
    return intrinsic("trunc", half) != half


def signed(value: LLVMValue, x: LLVMValue, odd: LLVMValue) -> LLVMValue:
    """`value`, with the sign of x where the exponent is odd."""
    sign = select(odd, x.bits(), 0) & (-1 << (x.dtype.bits - 1))
    return (value.bits() | sign).reinterpret(x.dtype)


def times(y: LLVMValue, high: LLVMValue, low: LLVMValue) -> Pair:
    product = multiply_rounded(y, high)
    return product, fma(y, low, fma(y, high, -product))


def exp2(high: LLVMValue, low: LLVMValue) -> LLVMValue:
    """2^(high + low), of infinities and NaN too; `low` is a rounding error of `high`."""
    d = high.dtype
    low = select(absolute(high) < -LOWEST[d], low, 0)
    value, n = fraction_exp2(clamp(high, LOWEST[d], HIGHEST[d]), low)
    return scale(value, n - high.like(ROUNDER[d]).bits())


def near_exp2(high: LLVMValue, low: LLVMValue) -> LLVMValue:
    """The same within the normal numbers: their exponents are added as integers."""
    value, n = fraction_exp2(high, low)
    return (value.bits() + (n << MANTISSA[high.dtype])).reinterpret(high.dtype)


def fraction_exp2(high: LLVMValue, low: LLVMValue) -> tuple[LLVMValue, LLVMValue]:
    """(2^r, n): high + low = n + r for an integer n, in the low bits of what is returned, and |r| <= 1/2."""
    d = high.dtype
    shifted = high + ROUNDER[d]
    rest = high - (shifted - ROUNDER[d])
    r = rest + low
    if d is FLOAT32:
        return fma(r, fma(r, polynomial(r, EXP2[d]), LN2), 1), shifted.bits()
    first = fma(rest, LN2, 1)
    first_low = fma(low, LN2, fma(rest, LN2, -first + 1))
    tail = fma(r, even_odd_polynomial(r, EXP2[d]), LN2_LOW)
    return first + fma(r, tail, first_low), shifted.bits()
