"""Error bounds of elementwise operations: half an ulp per rounding, plus the propagated bounds of the operands."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import numpy as np

from ..ir.graph import Node
from ..ir.ops import OPS
from ..ir.types import FLOAT32, FLOAT64, DType, numpy_dtype
from .ball import (
    MIN_NORMAL,
    MIN_SUBNORMAL,
    UNIT_ROUNDOFF,
    Ball,
    any_radius,
    any_unbounded,
    distance,
    endpoints,
    overflow_to_inf,
)

FUNCTION_ULPS = 4.0  # the largest in CUDA's single-precision table, except lgamma
EXACT = {"negative", "absolute", "sign", "maximum", "minimum", "fmax", "fmin", "where", "floor", "ceil", "trunc"}
EXACT |= {"rint", "copysign", "nextafter"}
ARITHMETIC = {"add", "subtract", "multiply", "divide", "sqrt", "fma", "fmod", "remainder"}
CORRECT = {"add", "subtract", "divide", "sqrt"}  # correctly rounded
SPLIT = 2.0**27 + 1

Roundings = Mapping[str, Callable[[list[np.ndarray], np.ndarray], np.ndarray]]
"""By operation: how far a float32 result may be from the exact one, of operands' values and the result's."""


def operation(n: Node, args: list[Ball], roundings: Roundings) -> Ball:
    """Value and bound of one operation of the table, from those of its operands."""
    values, compute = [v for v, _ in args], n.type.dtype.compute
    if n.op == "nextafter":
        values = [v.astype(numpy_dtype(compute)) for v in values]
    value = np.asarray(OPS[n.op].meaning(*values))
    value = value.astype(np.float64) if value.dtype.kind == "f" else value
    if n.op == "where":
        return value, _chosen(args, value)
    moved = any_radius(args, value.shape, lambda bound: bound > 0)
    bound = _passed_on(n.op, args, value) if moved.any() else np.zeros(value.shape)
    if n.op in ("signbit", "copysign"):  # the sign of a NaN is unspecified
        bound = np.where(np.isnan(values[-1]), np.inf, bound)
    if value.dtype.kind != "f":
        return value, np.where(bound > 0, np.inf, 0.0)
    if n.op in roundings and compute is FLOAT32:
        value, bound = value, bound + roundings[n.op](values, value)
    else:
        value, bound = _rounded(n.op, values, value, bound, ~moved, compute)
    value, bound = overflow_to_inf(n.op, values, value, bound, compute)
    return value, np.where(any_unbounded(args, value.shape), np.inf, bound)


def _chosen(args: list[Ball], value):
    """Where an unsure condition may select either value."""
    (condition, unsure), (a, ea), (b, eb) = args
    bound = np.where(condition, ea, eb)
    if not unsure.any():
        return bound
    if value.dtype.kind != "f":
        return np.where((unsure > 0) & ((a != b) | (ea + eb > 0)), np.inf, bound)
    either = distance(np.broadcast_to(a, value.shape), np.broadcast_to(b, value.shape)) + np.maximum(ea, eb)
    return np.where(unsure > 0, either, bound)


def _rounded(op: str, values, value, passed, sure, compute: DType) -> Ball:
    """The value, with its rounding error added to the propagated bound.

    Exact operands whose result is exact add nothing; small roundings may vanish in float64.
    """
    ulps = 0.0 if op in EXACT else 0.5 if op in ARITHMETIC else 8.0 if op == "lgamma" else FUNCTION_ULPS
    ulps *= 2 if compute is FLOAT64 else 1  # the reference itself is computed in float64
    size = np.abs(np.where(np.isfinite(value), value, 0))
    if op == "lgamma":  # its zeros are known to an absolute error only
        size = np.maximum(size, 1.0)
    bound = np.where(
        np.isfinite(value), 2 * ulps * (UNIT_ROUNDOFF[compute.name] * size + MIN_SUBNORMAL[compute.name]), 0.0
    )
    if op == "fma":  # the product may be rounded by itself
        product = np.abs(np.multiply(*values[:2]))
        bound = bound + UNIT_ROUNDOFF[compute.name] * np.where(np.isfinite(product), product, 0.0)
    if op == "divide":  # where the remainder is subnormal, 2 ulp
        near = (size < 4 * MIN_NORMAL[compute.name]) | (np.abs(values[0]) < 2.0**24 * MIN_NORMAL[compute.name])
        bound = np.where(near, 4 * bound, np.where(sure, 0.0, bound))
    elif op in CORRECT:
        bound = np.where(sure, 0.0, bound)
    elif op == "multiply":
        bound = np.where(sure & needs_no_rounding(values[0], values[1], value, compute), 0.0, bound)
    nearest = value.astype(np.float32).astype(np.float64) if compute is FLOAT32 and op in CORRECT else value
    return np.where(sure, nearest, value), passed + bound


def needs_no_rounding(a, b, product, compute: DType):
    """Whether a product is exact; otherwise it may be rounded together with the sum that reads it."""
    if compute is FLOAT32:
        return product == product.astype(np.float32)
    high_a, high_b = (x * SPLIT - (x * SPLIT - x) for x in (a, b))  # Dekker's exact product, 1971
    low_a, low_b = a - high_a, b - high_b
    exact = ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b == 0
    return exact & ((np.abs(product) >= 2.0**54 * MIN_NORMAL["float64"]) | (a == 0) | (b == 0))  # its parts are normal


def _passed_on(op: str, args: list[Ball], value):
    """Largest change of the result over the corners of the operands' bounds, if it is monotone between them."""
    with np.errstate(all="ignore"):
        corner_values = [np.asarray(OPS[op].meaning(*x)) for x in itertools.product(*(endpoints(*a) for a in args))]
        worst = distance(value, *corner_values)
        if op in WAVES:
            worst = WAVES[op](worst, corner_values, args, value)
    integers = [a for a in args if a[0].dtype.kind in "iu"]
    unknown = integers if args[0][0].dtype.kind == "b" else args
    return np.where(any_unbounded(unknown, value.shape), np.inf, worst)


def _wave(worst, corner_values, args, value):
    """A slope of at most 1."""
    return np.minimum(np.maximum(worst, args[0][1]), 2.0)


def _tangent(worst, corner_values, args, value):
    return np.where((args[0][1] > 0) & ((corner_values[-1] < corner_values[0]) | (args[0][1] > 1)), np.inf, worst)


def _quotient(worst, corner_values, args, value):
    (_, _), (b, eb) = args
    return np.where((eb > 0) & (np.abs(b) <= eb), np.inf, worst)


def _raised(worst, corner_values, args, value):
    """Powers of negative numbers exist for integer exponents only."""
    (a, ea), (_, eb) = args
    return np.where((eb > 0) & (a - ea < 0), np.inf, worst * 1.01)


def _whole_quotient(worst, corner_values, args, value):
    """The integer part of the quotient must be sure; a remainder jumps where it changes."""
    (a, ea), (b, eb) = args
    ends = [np.floor(x / y) for x in (a - ea, a, a + ea) for y in (b - eb, b, b + eb)]
    steady = np.all([end == ends[0] for end in ends], axis=0)
    return np.where((ea + eb > 0) & ~steady, np.inf, _quotient(worst, corner_values, args, value))


def _equality(worst, corner_values, args, value):
    (a, ea), (b, eb) = args
    slack = ea + eb
    return np.where((slack > 0) & (np.abs(np.subtract(a, b, dtype=np.float64)) <= slack), np.inf, worst)


def _gamma(worst, corner_values, args, value):
    """lgamma has poles at the non-positive integers and extrema between them."""
    return np.where((args[0][1] > 0) & (args[0][0] < 0), np.inf, worst * 1.1 + args[0][1])


WAVES = {"sin": _wave, "cos": _wave, "tan": _tangent, "divide": _quotient, "power": _raised}
WAVES |= {"remainder": _whole_quotient, "fmod": _whole_quotient, "floor_divide": _quotient, "lgamma": _gamma}
WAVES |= {"equal": _equality, "not_equal": _equality}
