"""Derivatives that are no operation of the table: digamma, from its asymptotic series."""

from __future__ import annotations

from math import pi

from .term import Term

SHIFT = 10  # from here on the series is exact to float64
# B(2k) / (2k) for k = 1 ... 7, B the Bernoulli numbers; Abramowitz and Stegun 6.3.18
SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


def digamma(x: Term) -> Term:
    """The derivative of ln |gamma(x)|; below 1/2 by the reflection psi(1 - x) - pi / tan(pi x)."""
    low = x < 0.5
    z = low.then(1 - x, x)
    tangent = low.then(x * pi, 1).apply("tan")
    return low.then(_of_positive(z) - pi / tangent, _of_positive(z))


def _of_positive(z: Term) -> Term:
    """psi(z + 10) less the sum of 1 / (z + k), k from 0 to 9."""
    terms = 1 / z
    for k in range(1, SHIFT):
        terms = terms + 1 / (z + k)
    y = z + SHIFT
    square = 1 / (y * y)
    series = square * SERIES[-1]
    for coefficient in reversed(SERIES[:-1]):
        series = square * (series + coefficient)
    return y.apply("log") - 0.5 / y - series - terms
