"""x ** y for a literal y that is a small multiple of a half or a quarter: square roots and products, within 1 ulp.

The rounding error of a root is known to twice the digits by one fma; what it is worth is added to the result.
"""

from __future__ import annotations

from ....ir.types import FLOAT32
from ..number import Number, absolute, alone, constant_of, fma, select, sqrt

INF = float("inf")


def has_roots(y: Number) -> bool:
    """Whether y is such a literal."""
    return constant_of(y) in ROOTS


def root_power(x: Number, y: Number) -> Number:
    """x ** y as C's pow: of -inf as of inf, and of -0.0 as of 0.0, for no such y is whole."""
    value = constant_of(y)
    assert value is not None
    return ROOTS[value](select(x == -INF, INF, x) + 0.0)


def fourth_root(u: Number) -> Number:
    return sqrt(sqrt(u))


def three_halves(u: Number) -> Number:
    root, rest = root_and_rest(u)
    return fma(u, root, finite_or_zero(rest))


def five_halves(u: Number) -> Number:
    root, rest = root_and_rest(u)
    product = alone(u, root)
    return fma(product, u, finite_or_zero((fma(u, root, -product) + rest) * u))


def root_and_rest(u: Number) -> tuple[Number, Number]:
    """(s, c): u √u = u s + c. With e = u - s², √u = s + e / 2s, and u e / 2s is s e / 2."""
    root = sqrt(u)
    return root, fma(-root, root, u) * 0.5 * root


def inverse_root(u: Number) -> Number:
    inverse, error = inverse_and_error(u)
    return inverse + finite_or_zero(inverse * 0.5 * error)


def inverse_three_halves(u: Number) -> Number:
    """Of large numbers by way of smaller ones: what is added would be below the least number there is."""
    step = 2.0 ** (32 if u.dtype is FLOAT32 else 256)
    large = u > step * step
    inverse, error = inverse_and_error(select(large, u * step**-2, u))
    square = alone(inverse, inverse)
    cube = alone(square, inverse)
    rest = fma(square, inverse, -cube) + fma(inverse, inverse, -square) * inverse
    value = cube + finite_or_zero(fma(cube * error, 1.5, rest))
    return select(large, value * step**-3, value)


def inverse_and_error(u: Number) -> tuple[Number, Number]:
    """(r, d): r is near 1/√u, and d = 1 - u r², so that 1/√u = r (1 + d/2), and its cube r³ (1 + 3d/2)."""
    inverse = 1 / sqrt(u)
    product = alone(u, inverse)
    return inverse, fma(-product, inverse, 1) - fma(u, inverse, -product) * inverse


def finite_or_zero(rest: Number) -> Number:
    """What is added to a result: nothing beside an infinity."""
    return select(absolute(rest) < INF, rest, 0)


ROOTS = {
    0.25: fourth_root,
    1.5: three_halves,
    2.5: five_halves,
    -0.5: inverse_root,
    -1.5: inverse_three_halves,
}
