"""Midpoint-radius interval arithmetic: exact values with bounds on the error of correct targets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ir.interp import cast
from ..ir.types import FLOAT64, DType, numpy_dtype

UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24}  # relative error of one rounding
HALF_ULP = {"float16": (2.0**-11, 2.0**-25), "bfloat16": (2.0**-8, 2.0**-134)}  # (relative, for subnormal numbers)
MIN_SUBNORMAL = {"float64": 2.0**-1074, "float32": 2.0**-149}
LARGEST = {"float64": np.finfo(np.float64).max, "float32": float(np.finfo(np.float32).max)}
MIN_NORMAL = {"float64": 2.0**-1022, "float32": 2.0**-126}

Ball = tuple[np.ndarray, np.ndarray]
"""(exact value, radius): a correct target is within the radius of the exact value"""


def stored(value: np.ndarray, radius: np.ndarray, d: DType) -> Ball:
    """A value cast to a dtype: casts are monotone, so the casts of the interval's endpoints bound the result."""
    if value.dtype.kind == "f" and d is FLOAT64:
        return value, radius
    middle = wide(cast(value, d), d)
    if not radius.any():
        return middle, np.zeros(middle.shape)
    stored_radius = distance(middle, *(wide(cast(v, d), d) for v in endpoints(value, radius)))
    if d.kind == "b" and value.dtype.kind == "f":  # only 0 is False
        stored_radius = np.where((radius > 0) & (np.abs(value) <= radius), np.inf, stored_radius)
    return middle, np.where(np.isinf(radius) & (value.dtype.kind != "b"), np.inf, stored_radius)


def distance(middle: np.ndarray, *others: np.ndarray) -> np.ndarray:
    """Largest distance of the others; infinity if only one is NaN, or if integers differ."""
    result = np.zeros(middle.shape)
    for other in others:
        if middle.dtype.kind != "f":
            change = np.where(middle == other, 0.0, np.inf)
        else:
            change = np.abs(other - middle)
            change = np.where(np.isnan(change), np.where(np.isnan(middle) == np.isnan(other), 0.0, np.inf), change)
            change = np.where((middle == other) | (np.isnan(middle) & np.isnan(other)), 0.0, change)
        result = np.maximum(result, change)
    return result


def wide(x: np.ndarray, d: DType) -> np.ndarray:
    """Floats as float64, other values in their own dtype."""
    return x.astype(np.float64) if d.kind == "f" else x.astype(numpy_dtype(d))


def any_unbounded(args: list[Ball], shape) -> np.ndarray:
    """Where an operand has an infinite radius."""
    return any_radius(args, shape, np.isinf)


def any_radius(args: list[Ball], shape, holds: Callable) -> np.ndarray:
    """Where the radius of an operand satisfies a condition."""
    result = np.zeros(shape, bool)
    for _, radius in args:
        result = result | holds(radius)
    return result


def endpoints(value, radius) -> tuple[np.ndarray, ...]:
    """The endpoints of an operand's interval; an unsure bool may have either value."""
    if value.dtype.kind == "f":
        finite = np.where(np.isfinite(radius), radius, 0.0)
        return (value - finite, value + finite) if finite.any() else (value,)
    return (value, value ^ (radius > 0)) if value.dtype.kind == "b" and radius.any() else (value,)


def overflow_to_inf(op: str, values, value, radius, compute: DType) -> Ball:
    """The ball after overflow to infinity; a product (or power) that is contracted into an FMA may escape it."""
    largest, size = LARGEST[compute.name], np.abs(value)
    beyond = np.isfinite(value) & (size - radius > largest)
    unsure = np.isfinite(value) & (size + radius > largest) & ~beyond
    if op == "multiply" or (op == "power" and (np.abs(values[1]) >= 2).all()):
        may_be_finite = np.isinf(value) & ((radius > 0) | (np.isfinite(values[0]) & np.isfinite(values[1])))
        unsure = unsure | beyond | may_be_finite
    return np.where(beyond, np.copysign(np.inf, value), value), np.where(unsure, np.inf, np.where(beyond, 0.0, radius))
