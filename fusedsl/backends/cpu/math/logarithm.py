"""Logarithms without branches or calls, as one float or as an unevaluated sum of two.

x = 2^k (1 + f), 1 + f in [√½, √2). log(1 + f) is fdlibm's e_log.c and musl's logf.c. log2 of two parts is
2/ln 2 · artanh q for q = f / (2 + f), a polynomial of z = q²: q, z and the first two terms carry their rounding errors
along, each as the exact rest of an fma (Dekker, 1971; Muller et al., Handbook of Floating-Point Arithmetic, ch. 4), and
the rest of the polynomial is minimax. Its relative error is 2^-65 (float64) and 2^-33 (float32).
"""

from __future__ import annotations

from ....ir.types import FLOAT32, FLOAT64
from ..llvm_values import LLVMValue, copysign, fma, multiply_rounded, polynomial, select
from .elementary import BIAS, INF, INV_LN2, LN2_PARTS, MANTISSA, NAN, SMALLEST_NORMAL, power_of_two

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
# 2/ln 2, 2/(3 ln 2), log10 2 (whose high part times any exponent is exact) and log10 e, each in two parts
FIRST = {FLOAT32: (2.885390043258667, 3.851925982253235e-08), FLOAT64: (2.8853900817779268, 4.0710547481862066e-17)}
SECOND = {FLOAT32: (0.9617967009544373, -7.028461650952758e-09), FLOAT64: (0.9617966939259756, 5.0577616648125907e-17)}
LOG10_2 = {FLOAT32: (0.301025390625, 4.605038981195214e-06), FLOAT64: (0.30102999566406652, -8.532344317057107e-14)}
LOG10_E = {FLOAT32: (0.4342944920063019, -1.0103050052231683e-08), FLOAT64: (0.4342944819032518, 1.098319650216765e-17)}
# log2((1 + q) / (1 - q)) / q less the first two terms, over z², for z <= (√2 - 1)⁴
ARTANH = {
    FLOAT32: (0.577080212469179, 0.41184800970408925, 0.3378604222022571),
    FLOAT64: (
        0.577078016355618,
        0.4121985830919542,
        0.32059890227105253,
        0.2623077013424228,
        0.2219839879134412,
        0.19125538659554028,
        0.19038336683052368,
    ),
}
FAR = {FLOAT32: 2.0**40, FLOAT64: 2.0**70}  # 1 + x is x

Pair = tuple[LLVMValue, LLVMValue]  # an unevaluated sum


def split_exponent(x: LLVMValue) -> tuple[LLVMValue, LLVMValue]:
    """(k, f): x = 2^k (1 + f) for positive finite x; k is an integer."""
    d, width = x.dtype, MANTISSA[x.dtype]
    tiny = x < SMALLEST_NORMAL[d]
    exponent, fraction = split_normal(select(tiny, x * 2.0**width, x))
    return select(tiny, exponent - width, exponent), fraction


def split_normal(x: LLVMValue) -> tuple[LLVMValue, LLVMValue]:
    """`split_exponent` of a normal number."""
    d, width = x.dtype, MANTISSA[x.dtype]
    one, start = BIAS[d] << width, x.like(0.5**0.5).bits()
    shifted = x.bits() + (one - start)
    return (shifted >> width) - BIAS[d], ((shifted & ((1 << width) - 1)) + start).reinterpret(d) - 1


def log(x: LLVMValue) -> LLVMValue:
    return edges(x, natural(*split_exponent(x)))


def natural(k: LLVMValue, f: LLVMValue) -> LLVMValue:
    """log(2^k (1 + f))."""
    high, low = LN2_PARTS[f.dtype]
    exponent = k.to(f.dtype)
    correction, square = log_of_one_plus(f)
    return fma(exponent, high, f - (square - fma(exponent, low, correction)))


def log_of_one_plus(f: LLVMValue) -> tuple[LLVMValue, LLVMValue]:
    """(c, h): log(1 + f) = f - (h - c), h = f² / 2."""
    s = f / (f + 2)
    z = s * s
    half = f * f * 0.5
    return s * (half + z * polynomial(z, LOG[f.dtype])), half


def edges(x: LLVMValue, value: LLVMValue) -> LLVMValue:
    """`value`, but inf at inf, -inf at 0, NaN below 0 and at NaN."""
    return select(x > 0, select(x < INF, value, x), select(x == 0, -INF, x.like(NAN)))


def log2(x: LLVMValue) -> LLVMValue:
    k, f = split_exponent(x)
    correction, square = log_of_one_plus(f)
    return edges(x, fma(f - (square - correction), INV_LN2, k.to(x.dtype)))


def log10(x: LLVMValue) -> LLVMValue:
    """k log10 2 + log(1 + f) / ln 10, each term in two parts, so that log10 of a power of ten is an integer."""
    k, f = split_exponent(x)
    (log10_2, log10_2_low), (factor, factor_low) = LOG10_2[x.dtype], LOG10_E[x.dtype]
    correction, square = log_of_one_plus(f)
    high = f - square
    low = (f - high - square) + correction
    product = multiply_rounded(high, factor)
    product_low = fma(low, factor, fma(high, factor_low, fma(high, factor, -product)))
    whole = k.to(x.dtype)
    exponent = multiply_rounded(whole, log10_2)
    total = exponent + product
    return edges(x, total + ((exponent - total + product) + fma(whole, log10_2_low, product_low)))


def log1p(x: LLVMValue) -> LLVMValue:
    """1 + x = 2^k (1 + f), where f = 2^-k x + (2^-k - 1) loses nothing that 1 + x has lost."""
    u = x + 1
    k, rounded = split_normal(u)
    scale = power_of_two(-k, x)
    value = edges(u, natural(k, select(x > FAR[x.dtype], rounded, fma(x, scale, scale - 1))))
    return copysign_unless_nan(value, x)


def copysign_unless_nan(value: LLVMValue, x: LLVMValue) -> LLVMValue:
    return select(value == value, copysign(value, x), value)


def log2_pair(k: LLVMValue, f: LLVMValue) -> Pair:
    """log2(2^k (1 + f)) in two parts."""
    d = f.dtype
    exponent = k.to(d)
    inverse = 1 / (f + 2)
    q = multiply_rounded(f, inverse)
    doubled = q + q
    q_low = fma(-q, f, f - doubled) * inverse
    z = multiply_rounded(q, q)
    z_low = fma(doubled, q_low, fma(q, q, -z))
    (first, first_low), (second, second_low) = FIRST[d], SECOND[d]
    tail = fma(z, polynomial(z, ARTANH[d]), second_low)
    slope = tail + second
    total = fma(z, slope, first)
    total_low = fma(z, tail, fma(z, second, -total + first)) + fma(z_low, slope + tail, first_low)
    high = fma(q, total, exponent)
    return high, fma(q_low, total, fma(q, total_low, fma(q, total, exponent - high)))
