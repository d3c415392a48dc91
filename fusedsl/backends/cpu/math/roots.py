"""Cube roots, hypot, and x ** y for a literal y that is a small multiple of a half or a quarter, within 1 ulp.

One fma gives the rounding error of a root in double precision; its effect is added to the result.
"""

from __future__ import annotations

from ....ir.types import DTYPES, FLOAT32, FLOAT64
from ..llvm_values import LLVMValue, absolute, constant_of, copysign, fma, multiply_rounded, select, sqrt
from .convert import truncated
from .elementary import INF

# the initial estimate of x^-1/3, linear in the bits of x, within 4 %
CUBE_LINE = {FLOAT32: float(0x54A21D2A), FLOAT64: float(0x553EF0FF289DD796)}
SCALED = {FLOAT32: (2.0**-60, 2.0**24), FLOAT64: (2.0**-500, 2.0**240)}  # below which numbers, by whose cube


def cbrt(x: LLVMValue) -> LLVMValue:
    """a y² for y near 1 / ∛a, which one or two steps of (1 - e)^-1/3 for e = 1 - a y³ improve; then one of Newton's."""
    d, size = x.dtype, absolute(x)
    least, factor = SCALED[d]
    small = size < least
    a = select(small, size * factor**3, size)
    y = truncated(fma(a.bits().to(d), -1 / 3, CUBE_LINE[d]), DTYPES[f"int{d.bits}"]).reinterpret(d)
    error = fma(-(a * y), y * y, 1)
    y = fma(y * error, fma(error, fma(error, 14 / 81, 2 / 9), 1 / 3), y)
    if d is FLOAT64:
        error = fma(-(a * y), y * y, 1)
        y = fma(y * error, fma(error, 2 / 9, 1 / 3), y)
    squared = y * y
    root = multiply_rounded(a, squared)
    twice = multiply_rounded(root, root)
    residual = fma(-twice, root, a) - fma(root, root, -twice) * root
    value = fma(residual, squared * (1 / 3), root)
    value = select(small, value * (1 / factor), value)
    return select((x == 0) | ~(size < INF), x, copysign(value, x))


def hypot(x: LLVMValue, y: LLVMValue) -> LLVMValue:
    """√(x² + y²), of neither very large nor very small numbers; float32 in float64."""
    if x.dtype is FLOAT32:
        a, b = x.to(FLOAT64), y.to(FLOAT64)
        value = sqrt(a * a + b * b).to(FLOAT32)
    else:
        a, b = absolute(x), absolute(y)
        large, small = select(a > b, a, b), select(a > b, b, a)
        step = select(large > 2.0**500, 2.0**-600, select(large < 2.0**-400, 2.0**600, x.like(1)))
        back = select(large > 2.0**500, 2.0**600, select(large < 2.0**-400, 2.0**-600, x.like(1)))
        large, small = multiply_rounded(large, step), multiply_rounded(small, step)
        value = multiply_rounded(sqrt(fma(large, large, small * small)), back)
    return select((absolute(x) == INF) | (absolute(y) == INF), INF, value)


def has_roots(y: LLVMValue) -> bool:
    """True if y is a literal for which a power is computed by roots."""
    return constant_of(y) in ROOTS


def root_power(x: LLVMValue, y: LLVMValue) -> LLVMValue:
    """x ** y as C's pow: of -inf as of inf, and of -0.0 as of 0.0, for no such y is whole."""
    value = constant_of(y)
    assert value is not None
    return ROOTS[value](select(x == -INF, INF, x) + 0.0)


def fourth_root(u: LLVMValue) -> LLVMValue:
    return sqrt(sqrt(u))


def three_halves(u: LLVMValue) -> LLVMValue:
    root, rest = root_and_residual(u)
    return fma(u, root, finite_or_zero(rest))


def five_halves(u: LLVMValue) -> LLVMValue:
    root, rest = root_and_residual(u)
    product = multiply_rounded(u, root)
    return fma(product, u, finite_or_zero((fma(u, root, -product) + rest) * u))


def root_and_residual(u: LLVMValue) -> tuple[LLVMValue, LLVMValue]:
    """(s, c): u √u = u s + c. With e = u - s², √u = s + e / 2s, and u e / 2s is s e / 2."""
    root = sqrt(u)
    return root, fma(-root, root, u) * 0.5 * root


def inverse_root(u: LLVMValue) -> LLVMValue:
    inverse, error = inverse_and_error(u)
    return inverse + finite_or_zero(inverse * 0.5 * error)


def inverse_three_halves(u: LLVMValue) -> LLVMValue:
    """Scale large numbers down: their correction would underflow."""
    step = 2.0 ** (32 if u.dtype is FLOAT32 else 256)
    large = u > step * step
    inverse, error = inverse_and_error(select(large, u * step**-2, u))
    square = multiply_rounded(inverse, inverse)
    cube = multiply_rounded(square, inverse)
    residual = fma(square, inverse, -cube) + fma(inverse, inverse, -square) * inverse
    value = cube + finite_or_zero(fma(cube * error, 1.5, residual))
    return select(large, value * step**-3, value)


def inverse_and_error(u: LLVMValue) -> tuple[LLVMValue, LLVMValue]:
    """(r, d): r is near 1/√u, and d = 1 - u r², so that 1/√u = r (1 + d/2), and its cube r³ (1 + 3d/2)."""
    inverse = 1 / sqrt(u)
    product = multiply_rounded(u, inverse)
    return inverse, fma(-product, inverse, 1) - fma(u, inverse, -product) * inverse


def finite_or_zero(correction: LLVMValue) -> LLVMValue:
    """The correction of a result: 0 for an infinity."""
    return select(absolute(correction) < INF, correction, 0)


ROOTS = {0.25: fourth_root, 1.5: three_halves, 2.5: five_halves, -0.5: inverse_root, -1.5: inverse_three_halves}
