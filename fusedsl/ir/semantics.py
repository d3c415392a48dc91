"""Semantics of each operation as NumPy functions on arrays of one dtype: the definition that every target is tested
against."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

# Operations that NumPy defines alike.
subtract = np.subtract
divide = np.divide
negative = np.negative
absolute = np.absolute
sign = np.sign
less = np.less
less_equal = np.less_equal
greater = np.greater
greater_equal = np.greater_equal
equal = np.equal
not_equal = np.not_equal
bitwise_and = np.bitwise_and
bitwise_or = np.bitwise_or
bitwise_xor = np.bitwise_xor
logical_not = np.logical_not
isnan = np.isnan
isinf = np.isinf
isfinite = np.isfinite
signbit = np.signbit
floor = np.floor
ceil = np.ceil
trunc = np.trunc
rint = np.rint
sqrt = np.sqrt
cbrt = np.cbrt
exp = np.exp
exp2 = np.exp2
expm1 = np.expm1
log = np.log
log2 = np.log2
log10 = np.log10
log1p = np.log1p
sin = np.sin
cos = np.cos
tan = np.tan
arcsin = np.arcsin
arccos = np.arccos
arctan = np.arctan
arctan2 = np.arctan2
sinh = np.sinh
cosh = np.cosh
tanh = np.tanh
arcsinh = np.arcsinh
arccosh = np.arccosh
arctanh = np.arctanh
hypot = np.hypot
copysign = np.copysign
nextafter = np.nextafter
where = np.where
ldexp = np.ldexp
bitwise_invert = np.invert


def _whole(x) -> bool:
    return np.asarray(x).dtype.kind in "iu"


def _is_bool(x) -> bool:
    return np.asarray(x).dtype.kind == "b"


def add(a, b):
    return np.logical_or(a, b) if _is_bool(a) else np.add(a, b)


def multiply(a, b):
    return np.logical_and(a, b) if _is_bool(a) else np.multiply(a, b)


def fma(a, b, c):
    """a * b + c rounded once: float32 by way of a float64 rounded to odd (Boldo & Melquiond, 2008)."""
    if np.asarray(a).dtype != np.float32:
        product = multiply(a, b)
        if np.asarray(product).dtype != np.float64:
            return add(product, c)
        beyond = np.isinf(product) & np.isfinite(a) & np.isfinite(b)  # the sum may be in range
        return np.where(beyond, (a * 2.0**-4 * b + c * 2.0**-4) * 2.0**4, product + c)
    product, addend = np.multiply(a, b, dtype=np.float64), np.asarray(c, np.float64)
    total = product + addend
    other = total - product
    lost = (product - (total - other)) + (addend - other)
    even = (np.asarray(total).view(np.int64) & 1) == 0
    odd = np.nextafter(total, np.copysign(np.inf, lost))
    return np.where(even & (lost != 0) & np.isfinite(lost), odd, total).astype(np.float32)


def _extremum(function: Callable, both: Callable) -> Callable:
    """The larger or smaller of two, with -0.0 less than 0.0 (IEEE 754-2019, 9.6); NumPy's depends on the processor."""

    def extremum(a, b):
        result = function(a, b)
        if np.asarray(result).dtype.kind != "f":
            return result
        zero = np.zeros_like(result)
        return np.where((a == 0) & (b == 0), np.where(both(np.signbit(a), np.signbit(b)), -zero, zero), result)

    return extremum


maximum, minimum = _extremum(np.maximum, np.logical_and), _extremum(np.minimum, np.logical_or)  # NaN if either is NaN
fmax, fmin = _extremum(np.fmax, np.logical_and), _extremum(np.fmin, np.logical_or)  # the other one if one is NaN


def _division(function: Callable) -> Callable:
    """A quotient or a remainder; of an integer by zero it is 0."""

    def divided(a, b):
        if not _whole(a):
            return function(a, b)
        return np.where(b == 0, np.zeros_like(a), function(a, np.where(b == 0, np.ones_like(b), b)))

    return divided


floor_divide = _division(np.floor_divide)
remainder = _division(np.remainder)  # with the sign of the divisor
fmod = _division(np.fmod)  # with the sign of the dividend


def power(a, b):
    """Integers wrap; a negative exponent gives 0, or ±1 for a base of ±1."""
    if not _whole(a):
        return np.power(a, b)
    if a.dtype.kind == "u":
        return np.power(a, b)
    negative = b < 0
    result = np.power(a, np.where(negative, np.zeros_like(b), b))
    odd = (b & 1).astype(bool)
    inverse = np.where(a == 1, 1, np.where(a == -1, np.where(odd, -1, 1), 0)).astype(a.dtype)
    return np.where(negative, inverse, result)


def _out_of_range(b, width):
    return (b < 0) | (b >= width) if b.dtype.kind == "i" else b >= width


def count_ones(a):
    """How many bits are 1."""
    return np.bitwise_count(a.view(f"u{a.dtype.itemsize}")).astype(a.dtype)


def left_shift(a, b):
    """A shift by the width or more, or by a negative count, gives 0."""
    beyond = _out_of_range(b, a.dtype.itemsize * 8)
    return np.where(beyond, np.zeros_like(a), np.left_shift(a, np.where(beyond, np.zeros_like(b), b)))


def right_shift(a, b):
    """A shift by the width or more, or by a negative count, gives 0, or -1 for a negative number."""
    beyond = _out_of_range(b, a.dtype.itemsize * 8)
    all_sign = np.where(a < 0, np.full_like(a, -1), np.zeros_like(a)) if a.dtype.kind == "i" else np.zeros_like(a)
    return np.where(beyond, all_sign, np.right_shift(a, np.where(beyond, np.zeros_like(b), b)))


def rsqrt(a):
    return np.asarray(1, a.dtype) / np.sqrt(a)


def logistic(a):
    """1 / (1 + exp(-a)), within 4 ulp."""
    one = np.asarray(1, a.dtype)
    return one / (one + np.exp(-a))


def _each(function, a):
    """A function of the standard library on every element, in float64."""
    wide = np.asarray(a, np.float64)
    return np.array([function(v) for v in wide.ravel().tolist()], np.float64).reshape(wide.shape).astype(a.dtype)


def _lgamma(v: float) -> float:
    if math.isinf(v) or (v <= 0 and v == math.floor(v)):
        return math.inf
    try:
        return math.lgamma(v)
    except OverflowError:
        return math.inf


def erf(a):
    return _each(math.erf, a)


def erfc(a):
    return _each(math.erfc, a)


def lgamma(a):
    return _each(_lgamma, a)


PHILOX_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
PHILOX_KEYS = (0x9E3779B9, 0xBB67AE85)
PHILOX_ROUNDS = 10


def _philox_words(position, seed, stream):
    """Philox4x32-10 (Salmon et al., SC 2011): four 32-bit words of a counter (position, stream) and a key."""
    low, width = np.uint64(0xFFFFFFFF), np.uint64(32)
    words = [position & low, position >> width, stream & low, stream >> width]
    keys = [seed & low, seed >> width]
    first, second = (np.uint64(m) for m in PHILOX_MULTIPLIERS)
    for _ in range(PHILOX_ROUNDS):
        a, b = words[0] * first, words[2] * second
        words = [(b >> width) ^ words[1] ^ keys[0], b & low, (a >> width) ^ words[3] ^ keys[1], a & low]
        keys = [(key + np.uint64(step)) & low for key, step in zip(keys, PHILOX_KEYS)]
    return words


def philox(position, seed, stream):
    """64 random bits: the first two words."""
    words = _philox_words(position, seed, stream)
    return words[0] | words[1] << np.uint64(32)


def philox_high(position, seed, stream):
    """64 more: the last two words."""
    words = _philox_words(position, seed, stream)
    return words[2] | words[3] << np.uint64(32)


def philox_word(position, seed, stream):
    """32 random bits: the words of counter 0, then those of counter 1, and so on."""
    words = _philox_words(position >> np.uint64(2), seed, stream)
    return np.choose((position & np.uint64(3)).astype(np.intp), np.broadcast_arrays(*words))


def philox_pair(position, seed, stream):
    """64 random bits: two halves of counter 0, then those of counter 1, and so on."""
    words = _philox_words(position >> np.uint64(1), seed, stream)
    halves = [words[k] | words[k + 1] << np.uint64(32) for k in (0, 2)]
    return np.where((position & np.uint64(1)) == 0, *halves)
