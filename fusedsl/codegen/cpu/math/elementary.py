"""exp, log and the functions made of them, without branches or calls, so that loops over them vectorise.

Reduction and coefficients: exp after Cody & Waite with Cephes' polynomial (float32) or Taylor's (float64);
log after fdlibm's e_log.c and musl's logf.c. float32 functions without their own polynomial compute in float64.
"""

from __future__ import annotations

from collections.abc import Callable

from ....ir.types import FLOAT32, FLOAT64, INT64
from ..number import Number, absolute, alone, call, copysign, fma, intrinsic, polynomial, select, sqrt

INF = float("inf")
NAN = float("nan")
LN2 = 0.6931471805599453
INV_LN2 = 1.4426950408889634
LOG10_2 = 0.30102999566398120
INV_LN10 = 0.43429448190325182
# ln 2 in two parts; the high part times any exponent is exact
LN2_PARTS = {FLOAT32: (0.693145751953125, 1.428606765330187e-06), FLOAT64: (0.6931471803691238, 1.9082149292705877e-10)}
# (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2
EXP = {
    FLOAT32: (5.0000001201e-1, 1.6666665459e-1, 4.1665795894e-2, 8.3334519073e-3, 1.3981999507e-3, 1.9875691500e-4),
    FLOAT64: tuple(
        1.0 / n
        for n in (2, 6, 24, 120, 720, 5040, 40320, 362880, 3628800, 39916800, 479001600, 6227020800, 87178291200)
    ),
}
EXP_RANGE = {FLOAT32: (-104.0, 89.0), FLOAT64: (-746.0, 710.0)}
# log(1 + f) = f - f^2/2 + s (f^2/2 + s^2 P(s^2)), s = f / (2 + f)
LOG = {
    FLOAT32: (0.66666662693, 0.40000972152, 0.28498786688, 0.24279078841),
    FLOAT64: (
        6.666666666666735130e-01,
        3.999999999940941908e-01,
        2.857142874366239149e-01,
        2.222219843214978396e-01,
        1.818357216161805012e-01,
        1.531383769920937332e-01,
        1.479819860511658591e-01,
    ),
}
MANTISSA = {FLOAT32: 23, FLOAT64: 52}
BIAS = {FLOAT32: 127, FLOAT64: 1023}
ROUNDER = {FLOAT32: 1.5 * 2.0**23, FLOAT64: 1.5 * 2.0**52}
SMALLEST_NORMAL = {FLOAT32: 2.0**-126, FLOAT64: 2.0**-1022}


def through_float64(function: Callable) -> Callable:
    """The function computed in float64 and rounded once to the arguments' type."""

    def widened(*args: Number) -> Number:
        return function(*(a.to(FLOAT64) for a in args)).to(args[0].dtype)

    return widened


def clamp(x: Number, low: float, high: float) -> Number:
    """x limited to [low, high]; NaN stays."""
    x = select(x < low, low, x)
    return select(x > high, high, x)


def round_to_integer(x: Number, scale: float) -> tuple[Number, Number]:
    """x · scale rounded, as a float and as an integer; |x · scale| is far below 2^22. NaN gives NaN and any integer."""
    shifted = fma(x, scale, ROUNDER[x.dtype])
    return shifted - ROUNDER[x.dtype], shifted.bits() - x.like(ROUNDER[x.dtype]).bits()


def power_of_two(n: Number, like: Number) -> Number:
    """2^n for an integer n in the range of normal numbers."""
    return ((n + BIAS[like.dtype]) << MANTISSA[like.dtype]).reinterpret(like.dtype)


def scale(x: Number, n: Number) -> Number:
    """x · 2^n, in two steps, so that results below the normal numbers are rounded once and overflow gives inf."""
    half = n >> 1
    return alone(x * power_of_two(half, x), power_of_two(n - half, x))


def reduced_exponential(r: Number) -> Number:
    """e^r - 1 for |r| <= ln 2 / 2."""
    return fma(polynomial(r, EXP[r.dtype]), r * r, r)


def reduce_by_ln2(x: Number) -> tuple[Number, Number]:
    """(r, n): x = n · ln 2 + r."""
    n, whole = round_to_integer(x, INV_LN2)
    high, low = LN2_PARTS[x.dtype]
    return fma(n, -low, fma(n, -high, x)), whole


def exp(x: Number) -> Number:
    r, n = reduce_by_ln2(clamp(x, *EXP_RANGE[x.dtype]))
    return scale(reduced_exponential(r) + 1, n)


def exp2(x: Number) -> Number:
    low, high = (-151.0, 129.0) if x.dtype is FLOAT32 else (-1076.0, 1025.0)
    x = clamp(x, low, high)
    n, whole = round_to_integer(x, 1.0)
    return scale(reduced_exponential((x - n) * LN2) + 1, whole)


def expm1(x: Number) -> Number:
    limited = clamp(x, -40.0, EXP_RANGE[x.dtype][1])
    r, n = reduce_by_ln2(limited)
    half = power_of_two(n - 1, x)  # 2^n itself may overflow
    value = fma(half, reduced_exponential(r), half - 0.5)
    return copysign(select(absolute(x) < SMALLEST_NORMAL[x.dtype], x, value + value), x)  # half of x may be nothing


def log(x: Number) -> Number:
    whole, f = split_exponent(x)
    high, low = LN2_PARTS[x.dtype]
    correction, square = log_of_one_plus(f)
    value = fma(whole, high, f - (square - fma(whole, low, correction)))
    return edges_of_log(x, value)


def split_exponent(x: Number) -> tuple[Number, Number]:
    """(n, f): x = 2^n · (1 + f), 1 + f in [√½, √2), for positive finite x."""
    d, width = x.dtype, MANTISSA[x.dtype]
    tiny = x < SMALLEST_NORMAL[d]
    bits = select(tiny, x * 2.0**width, x).bits()
    one, start = BIAS[d] << width, x.like(0.5**0.5).bits()
    shifted = bits + (one - start)
    exponent = (shifted >> width) - BIAS[d]
    fraction = ((shifted & ((1 << width) - 1)) + start).reinterpret(d) - 1
    return select(tiny, exponent - width, exponent).to(d), fraction


def log_of_one_plus(f: Number) -> tuple[Number, Number]:
    """(c, h): log(1 + f) = f - (h - c), h = f² / 2."""
    s = f / (f + 2)
    z = s * s
    half = f * f * 0.5
    return s * (half + z * polynomial(z, LOG[f.dtype])), half


def edges_of_log(x: Number, value: Number) -> Number:
    """`value`, but inf at inf, -inf at 0, NaN below 0 and at NaN."""
    value = select(x < INF, value, x)
    return select(x > 0, value, select(x == 0, -INF, select(x == x, x.like(NAN), x)))


def log2(x: Number) -> Number:
    whole, f = split_exponent(x)
    correction, square = log_of_one_plus(f)
    return edges_of_log(x, fma(f - (square - correction), INV_LN2, whole))


def log10(x: Number) -> Number:
    if x.dtype is FLOAT64:
        return call("log10", x)
    wide = x.to(FLOAT64)
    whole, f = split_exponent(wide)
    correction, square = log_of_one_plus(f)
    value = fma(whole, LOG10_2, (f - (square - correction)) * INV_LN10)
    return edges_of_log(wide, value).to(FLOAT32)


def log1p(x: Number) -> Number:
    """log(u) for u = 1 + x rounded, plus what the rounding lost over u."""
    u = x + 1
    lost = select(absolute(x) < 1, x - (u - 1), 1 - (u - x))
    fine = (u > 0) & (u < INF)
    return copysign_unless_nan(log(u) + select(fine, lost / u, 0), x)


def copysign_unless_nan(value: Number, x: Number) -> Number:
    return select(value == value, copysign(value, x), value)


def tanh(x: Number) -> Number:
    """(e^2|x| - 1) / (e^2|x| + 1)."""
    size = absolute(x)
    limited = select(size > 20, 20, size)
    r, n = reduce_by_ln2(limited * 2)
    power = power_of_two(n, x)
    grown = fma(power, reduced_exponential(r), power - 1)
    return copysign(grown / (grown + 2), x)


def sinh(x: Number) -> Number:
    """(e + e / (e + 1)) / 2 for e = e^|x| - 1; beyond overflow of e, in two factors."""
    if x.dtype is FLOAT32:
        return through_float64(sinh)(x)
    size = absolute(x)
    e = expm1(select(size > 709, 0, size))
    large = exp(size * 0.5)
    usual = select(size < SMALLEST_NORMAL[x.dtype], size, (e + e / (e + 1)) * 0.5)
    return copysign(select(size > 709, alone(large * 0.5, large), usual), x)


def cosh(x: Number) -> Number:
    if x.dtype is FLOAT32:
        return through_float64(cosh)(x)
    half = exp(absolute(x) * 0.5)
    e = exp(select(absolute(x) > 709, 0, absolute(x)))
    return select(absolute(x) > 709, alone(half * 0.5, half), e * 0.5 + 0.5 / e)


def arcsinh(x: Number) -> Number:
    """log1p(|x| + x² / (1 + √(1 + x²))); log|x| + ln 2 where x² overflows."""
    if x.dtype is FLOAT32:
        return through_float64(arcsinh)(x)
    size = absolute(x)
    large = size > 2.0**28
    limited = select(large, 1, size)
    square = limited * limited
    value = log1p(limited + square / (sqrt(square + 1) + 1))
    return copysign(select(large, log(size) + LN2, value), x)


def arccosh(x: Number) -> Number:
    if x.dtype is FLOAT32:
        return through_float64(arccosh)(x)
    large = x > 2.0**28
    t = select(large, 2, x) - 1
    value = select(large, log(x) + LN2, log1p(t + sqrt(t * 2 + t * t)))
    return select(x < 1, NAN, value)


def arctanh(x: Number) -> Number:
    if x.dtype is FLOAT32:
        return through_float64(arctanh)(x)
    size = absolute(x)
    return copysign_unless_nan(log1p((size + size) / (1 - size)) * 0.5, x)


def cbrt(x: Number) -> Number:
    if x.dtype is FLOAT64:
        return call("cbrt", x)
    wide = absolute(x).to(FLOAT64)
    root = exp(log(wide) * (1 / 3)).to(FLOAT32)
    return select((x == 0) | ~(absolute(x) < INF), x, copysign(root, x))


def power(x: Number, y: Number) -> Number:
    """C's pow: through float64 logarithms for float32, the C library's for float64."""
    if x.dtype is FLOAT64:
        return call("pow", x, y)
    size = absolute(x)
    value = exp(log(size.to(FLOAT64)) * y.to(FLOAT64)).to(FLOAT32)
    whole, odd = is_whole(y), is_odd(y)
    negative = x.bits() < 0
    value = select(negative & odd, -value, value)
    value = select((x < 0) & ~whole & (size < INF) & (absolute(y) < INF), NAN, value)
    at_one = (x == 1) | ((x == -1) & (absolute(y) == INF)) | (y == 0)
    return select(at_one, 1, value)


def is_whole(y: Number) -> Number:
    return intrinsic("trunc", y) == y


def is_odd(y: Number) -> Number:
    half = y * 0.5
    return is_whole(y) & (intrinsic("trunc", half) != half) & (absolute(y) < 2.0**24)


def ldexp(x: Number, n: Number) -> Number:
    """x · 2^n for any int32 n, rounded once: for float32 in float64, for float64 as in musl's scalbn.c."""
    if x.dtype is FLOAT32:
        n = limited(n, 300)
        return (x.to(FLOAT64) * power_of_two(n, x.like(0).to(FLOAT64))).to(FLOAT32)
    n = limited(n, 2200)
    for _ in range(2):  # what a small factor of 2^-969 rounds is too small for the rest to leave anything of it
        small, large = n < -1022, n > 1023
        x = x * select(small, 2.0**-969, select(large, 2.0**1023, x.like(1.0)))
        n = n - select(small, -969, select(large, 1023, n.like(0)))
    return alone(x, power_of_two(n, x))


def limited(n: Number, reach: int) -> Number:
    """An int32 within ±reach, as an int64."""
    n = select(n < -reach, -reach, n)
    return select(n > reach, reach, n).to(INT64)
