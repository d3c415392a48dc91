"""Arithmetic as PTX defines it where NumPy has no such operation: fused and directed roundings, wide products, bits.

Every function takes and returns NumPy arrays (or scalars) of the instruction's own type.
"""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np

F4, F8 = np.dtype(np.float32), np.dtype(np.float64)
U4, U8 = np.dtype(np.uint32), np.dtype(np.uint64)
BF16, F2 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)
ROUNDINGS = ("rn", "rz", "rm", "rp")
TINY = np.float32(2.0**-126)


def flushed(x):
    """Subnormal float32 numbers as zeros of their sign (.ftz)."""
    return np.where(np.abs(x) < TINY, np.copysign(F4.type(0), x), x)


def saturated(x):
    """Between 0 and 1; NaN becomes 0 (.sat)."""
    return np.where(np.isnan(x), x.dtype.type(0), np.clip(x, x.dtype.type(0), x.dtype.type(1)))


def _sum_error(p, c, s):
    """What the rounded float64 sum s of p and c lacks (Knuth's TwoSum); NaN where one of them is not finite."""
    back = s - p
    return (p - (s - back)) + (c - back)


def _odd(s, error):
    """The float64 sum rounded to odd: a second rounding then errs no more."""
    bits = s.view(U8)
    shift = (error != 0) & np.isfinite(error) & (bits & np.uint64(1) == 0)
    toward = np.where((error > 0) == (s > 0), np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF))
    return np.where(shift, bits + toward, bits).view(F8)


def narrowed(p, c, rounding="rn"):
    """The exact sum of two float64 numbers, rounded once to float32."""
    p, c = np.broadcast_arrays(np.asarray(p, F8), np.asarray(c, F8))
    s = p + c
    if rounding == "rn":
        halfway = (s.view(U8) & np.uint64(0x1FFFFFFF)) == np.uint64(0x10000000)
        if (halfway | (np.abs(s) < TINY)).any():
            s = _odd(s, _sum_error(p, c, s))
        return s.astype(F4)
    return directed(s, _sum_error(p, c, s), rounding)


def directed(s, error, rounding):
    """s + error, |error| less than half a unit of s, rounded to float32 towards zero (rz), down (rm) or up (rp)."""
    near = s.astype(F4)
    rest = s - near.astype(F8)
    sign = np.where(rest != 0, np.sign(rest), np.sign(error))
    down = {"rm": sign < 0, "rp": np.zeros_like(sign, bool), "rz": (sign < 0) & (s > 0)}[rounding]
    up = {"rm": np.zeros_like(sign, bool), "rp": sign > 0, "rz": (sign > 0) & (s < 0)}[rounding]
    near = np.where(down, np.nextafter(near, F4.type(-np.inf)), near)
    return np.where(up, np.nextafter(near, F4.type(np.inf)), near)


def add(a, b, rounding="rn"):
    return a + b if rounding == "rn" else narrowed(a, b, rounding)


def multiply(a, b, rounding="rn"):
    if rounding == "rn":
        return a * b
    product = np.asarray(a, F8) * np.asarray(b, F8)
    return directed(product, np.zeros_like(product), rounding)


def fma(a, b, c, rounding="rn"):
    """a * b + c, rounded once."""
    if a.dtype == F4:
        return narrowed(np.asarray(a, F8) * np.asarray(b, F8), c, rounding)
    if rounding != "rn":
        raise NotImplementedError(f"fma.{rounding}.f64")
    return _fma64(*(np.array(x) for x in np.broadcast_arrays(a, b, c)))


def _split(x):
    """x as a sum of two numbers of 26 bits (Veltkamp)."""
    big = x * 134217729.0
    high = big - (big - x)
    return high, x - high


def _fma64(a, b, c):
    """Boldo and Melquiond 2008; numbers near the ends of the exponents are computed with fractions."""
    p, s0 = a * b, a * b + c
    ah, al = _split(a)
    bh, bl = _split(b)
    low = ((ah * bh - p) + ah * bl + al * bh) + al * bl
    u = c + low
    t = p + u
    v = _odd(
        _sum_error(p, u, t) + (e := _sum_error(c, low, u)), _sum_error(_sum_error(p, u, t), e, _sum_error(p, u, t) + e)
    )
    result = t + v
    size = np.abs(p)
    plain = (size < 1e290) & (size > 1e-250) & (np.abs(a) < 1e290) & (np.abs(b) < 1e290) & (np.abs(c) < 1e300)
    zero = (a == 0) | (b == 0)
    special = ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c)) | zero
    result = np.where(special, s0, result)
    for k in np.flatnonzero(~(plain | special)):
        exact = Fraction(float(a[k])) * Fraction(float(b[k])) + Fraction(float(c[k]))
        try:
            result[k] = float(exact) if exact else s0[k]
        except OverflowError:
            result[k] = np.inf if exact > 0 else -np.inf
    return result


def high_product(a, b):
    """The upper half of the double-width product of integers."""
    size, signed = a.dtype.itemsize, a.dtype.kind == "i"
    if size < 8:
        wide = np.dtype(f"{a.dtype.kind}{2 * size}")
        return (np.asarray(a, wide) * np.asarray(b, wide) >> wide.type(8 * size)).astype(a.dtype)
    x, y = np.asarray(a).view(U8), np.asarray(b).view(U8)
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1, y0, y1 = x & mask, x >> half, y & mask, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    cross = x0 * y1 + (middle & mask)
    high = x1 * y1 + (middle >> half) + (cross >> half)
    if signed:
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
        return high.view(np.int64)
    return high


def divided(a, b):
    """Integer division towards zero; all ones for a divisor of 0."""
    safe = np.where(b == 0, b.dtype.type(1), b)
    if a.dtype.kind == "u":
        return np.where(b == 0, ~a.dtype.type(0), a // safe)
    overflow = safe == -1
    quotient = a // np.where(overflow, a.dtype.type(1), safe)
    quotient = quotient + ((quotient * safe != a) & ((a < 0) != (safe < 0)))
    return np.where(b == 0, a.dtype.type(-1), np.where(overflow, -a, quotient)).astype(a.dtype)


def remainder(a, b):
    """What integer division towards zero leaves."""
    return np.where(b == 0, a, a - divided(a, b) * b).astype(a.dtype)


def shifted(a, count, left: bool):
    """a << count or a >> count; a count of the width or more leaves zeros, or the sign."""
    bits = 8 * a.dtype.itemsize
    over = count >= bits
    count = np.where(over, 0, count).astype(a.dtype)
    if left:
        return np.where(over, a.dtype.type(0), a << count)
    gone = np.where(a < 0, a.dtype.type(-1), a.dtype.type(0)) if a.dtype.kind == "i" else a.dtype.type(0)
    return np.where(over, gone, a >> count)


def minimum(a, b, nan: bool = False):
    """min: NaN loses, unless `nan`; -0 is less than 0."""
    return _extreme(a, b, nan, np.minimum, np.fmin, a.dtype.type(1))


def maximum(a, b, nan: bool = False):
    return _extreme(a, b, nan, np.maximum, np.fmax, a.dtype.type(0))


def _extreme(a, b, nan, strict, loose, sign):
    if a.dtype.kind not in "f" and a.dtype != BF16:
        return strict(a, b)
    found = np.where(np.isnan(a) | np.isnan(b), a + b, strict(a, b)) if nan else loose(a, b)
    negative = (np.signbit(a) | np.signbit(b)) if sign else (np.signbit(a) & np.signbit(b))
    zero = (a == 0) & (b == 0)
    return np.where(zero, np.where(negative, -found.dtype.type(0), found.dtype.type(0)), found)


def permuted(a, b, selector):
    """prmt.b32: four bytes of {b, a}, each chosen by a nibble whose top bit asks for its sign."""
    pair = np.asarray(a, U8) | (np.asarray(b, U8) << np.uint64(32))
    found = np.zeros(np.broadcast_shapes(np.shape(pair), np.shape(selector)), U8)
    for k in range(4):
        nibble = (np.asarray(selector, U8) >> np.uint64(4 * k)) & np.uint64(15)
        byte = (pair >> ((nibble & np.uint64(7)) * np.uint64(8))) & np.uint64(255)
        byte = np.where(nibble & np.uint64(8), np.where(byte & np.uint64(128), np.uint64(255), np.uint64(0)), byte)
        found |= byte << np.uint64(8 * k)
    return found.astype(U4)


def funnel(low, high, count, left: bool, clamp: bool):
    """shf: 32 bits out of {high, low}."""
    count = np.minimum(count, 32) if clamp else count & np.uint32(31)
    pair = np.asarray(low, U8) | (np.asarray(high, U8) << np.uint64(32))
    count = np.asarray(count, U8)
    if left:
        return ((pair << count) >> np.uint64(32)).astype(U4)
    return (pair >> count).astype(U4)


def logic(a, b, c, table: int):
    """lop3: any function of three bits."""
    found = np.zeros_like(a | b | c)
    for k in range(8):
        if table >> k & 1:
            found |= (a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c)
    return found


def field(a, begin, length):
    """bfe: the bits [begin, begin + length), with the sign's bit beyond where the type is signed."""
    bits = 8 * a.dtype.itemsize
    begin, length = np.asarray(begin) & 255, np.asarray(length) & 255
    word = np.asarray(a).astype(object) if bits == 64 else np.asarray(a, np.int64)
    end = np.minimum(begin + length - 1, bits - 1)
    plain = (word & ((1 << bits) - 1)) >> np.minimum(begin, bits)
    mask = (np.ones_like(plain) << np.minimum(length, bits)) - 1
    plain = plain & mask
    if a.dtype.kind == "i":
        sign = np.where(length > 0, (word >> end) & 1, 0)
        plain = np.where(sign != 0, plain | ~mask, plain)
    return plain.astype(a.dtype) if bits < 64 else np.array(plain, object).astype(a.dtype)


def inserted(a, b, begin, length):
    """bfi: b with the low `length` bits of a in place of those from `begin` on."""
    bits = 8 * a.dtype.itemsize
    begin, length = (np.asarray(np.asarray(n) & 255, a.dtype) for n in (begin, length))
    ones = ~a.dtype.type(0)
    mask = shifted(np.where(length >= bits, ones, ~shifted(ones, length, True)), begin, True)
    return (b & ~mask) | (shifted(a, begin, True) & mask)


def leading_zeros(a):
    """clz."""
    bits = 8 * a.dtype.itemsize
    a, found = np.asarray(a).copy(), np.full(np.shape(a), bits, U4)
    for step in (32, 16, 8, 4, 2, 1):
        if step < bits:
            upper = a >> a.dtype.type(step)
            found = np.where(upper != 0, found - np.uint32(step), found)
            a = np.where(upper != 0, upper, a)
    return np.where(a != 0, found - np.uint32(1), found).astype(U4)


def reversed_bits(a):
    """brev."""
    octets = np.ascontiguousarray(a).reshape(-1, 1).view(np.uint8)
    mirrored = np.packbits(np.unpackbits(octets, axis=1, bitorder="little")[:, ::-1], axis=1, bitorder="little")
    return np.ascontiguousarray(mirrored).view(a.dtype).reshape(np.shape(a))
