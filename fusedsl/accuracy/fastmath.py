"""How far the hardware's approximations are from the functions that they stand for, which fastmath=True asks for.

Source: CUDA C++ Programming Guide, "Intrinsic Functions", and PTX ISA (tanh.approx). An argument that is multiplied
first, as that of exp, is rounded. Sines of more than pi have no bound.
"""

from __future__ import annotations

import numpy as np

from .elementwise import Roundings

ULP = 2.0**-23  # relative


def _relative(ulps: float):
    return lambda values, value: ulps * ULP * _size(value)


def _exponential(values, value):
    """2 + |x| ulp; what is below the normal numbers is 0."""
    return (2 + 1.5 * np.abs(values[0])) * ULP * _size(value) + 2.0**-126


def _logarithm(values, value):
    """2^-21.4 around 1, where the result is small, and 3 ulp elsewhere."""
    return 4 * ULP * _size(value) + 2.0**-21


def _wave(values, value):
    return np.where(np.abs(values[0]) <= np.pi, 2.0**-20, np.inf)


def _size(value):
    return np.abs(np.where(np.isfinite(value), value, 0.0))


FASTMATH: Roundings = {
    **dict.fromkeys(("exp", "exp2"), _exponential),
    **dict.fromkeys(("log", "log2", "log10"), _logarithm),
    **dict.fromkeys(("sin", "cos"), _wave),
    "tanh": _relative(2.0**13),  # 2^-11, and an ulp for what is lost beside it
    "sqrt": lambda values, value: 2 * ULP * _size(value) + 2.0**-63,
    "logistic": lambda values, value: (4 + 1.5 * np.abs(values[0])) * ULP * _size(value) + 2.0**-126,
    "divide": lambda values, value: np.where(np.abs(values[1]) < 2.0**126, 3 * ULP * _size(value) + 2.0**-126, np.inf),
}
