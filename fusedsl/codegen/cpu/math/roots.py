"""Cube roots, hypot, and x ** y for a literal y that is a small multiple of a half or a quarter, within 1 ulp.

The rounding error of a root is known to twice the digits by one fma; what it is worth is added to the result.
"""

from __future__ import annotations

from ....ir.types import FLOAT32, FLOAT64
from ..number import Number, absolute, alone, constant_of, copysign, fma, polynomial, select, sqrt
from .elementary import INF, power_of_two, round_to_integer
from .logarithm import split_exponent

# (1 + f)^-1/3 for 1 + f in [√½, √2], minimax: right to 2^-12 and 2^-20
CUBE_ROOT = {
    FLOAT32: (0.9997786325725656, -0.3346699609748614, 0.23772129213678506, -0.1585397911036422),
    FLOAT64: (
        1.0000007542093374,
        -0.333343193566898,
        0.22207593055217456,
        -0.17207018754387737,
        0.14786579748976414,
        -0.1413424859972155,
        0.0932846806850782,
    ),
}
CUBE_ROOT_OF_2 = 1.2599210498948732


def cbrt(x: Number) -> Number:
    """|x| = 2^3n a, a = 2^j (1 + f) for j = -1, 0 or 1. t is near ∛a; with e = a / t³ - 1, ∛a is t (1 + e/3 - e²/9)."""
    size = absolute(x)
    k, f = split_exponent(size)
    exponent = k.to(x.dtype)
    third, n = round_to_integer(exponent, 1 / 3)
    j = exponent - third * 3
    one = x.like(1)
    a = (f + 1) * select(j > 0, 2, select(j < 0, 0.5, one))
    factor = select(j > 0, 1 / CUBE_ROOT_OF_2, select(j < 0, CUBE_ROOT_OF_2, one))
    inverse = polynomial(f, CUBE_ROOT[x.dtype]) * factor
    root = a * inverse * inverse
    square = alone(root, root)
    rest = fma(-square, root, a) - fma(root, root, -square) * root
    error = rest / (square * root)
    value = fma(root * error, fma(error, -1 / 9, 1 / 3), root)
    return select((x == 0) | ~(size < INF), x, copysign(alone(value, power_of_two(n, x)), x))


def hypot(x: Number, y: Number) -> Number:
    """√(x² + y²), of neither very large nor very small numbers; float32 in float64."""
    if x.dtype is FLOAT32:
        a, b = x.to(FLOAT64), y.to(FLOAT64)
        value = sqrt(a * a + b * b).to(FLOAT32)
    else:
        a, b = absolute(x), absolute(y)
        large, small = select(a > b, a, b), select(a > b, b, a)
        step = select(large > 2.0**500, 2.0**-600, select(large < 2.0**-400, 2.0**600, x.like(1)))
        back = select(large > 2.0**500, 2.0**600, select(large < 2.0**-400, 2.0**-600, x.like(1)))
        large, small = alone(large, step), alone(small, step)
        value = alone(sqrt(fma(large, large, small * small)), back)
    return select((absolute(x) == INF) | (absolute(y) == INF), INF, value)


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
