"""Constant folding: arithmetic on literals at build time, in Python's integers and float64, within the language's
limits."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import copysign

import numpy as np

from ..errors import LimitError
from .graph import Node, value_of
from .ops import Op
from .types import BOOL, DType, numpy_dtype

EXPONENT_LIMIT = 1024


def _floor_divide(a, b):
    if b or (isinstance(a, int) and isinstance(b, int)):
        return a // b if b else 0
    with np.errstate(all="ignore"):
        return float(np.floor_divide(a, float(b)))


def _remainder(a, b):
    return a % b if b else (0 if isinstance(a, int) and isinstance(b, int) else float("nan"))


def _divide(a, b):
    with np.errstate(all="ignore"):
        return float(np.divide(float(a), float(b)))


def _limited(a, b):
    if isinstance(b, int) and abs(b) > EXPONENT_LIMIT:
        raise LimitError(
            f"exponent {b} of a literal is beyond {EXPONENT_LIMIT}",
            "limit.exponent",
            help="write the result as a float",
        )


def _power(a, b):
    if isinstance(a, int) and isinstance(b, int) and not isinstance(a, bool):
        _limited(a, b)
        return a**b
    with np.errstate(all="ignore"):
        return float(np.power(float(a), float(b)))


def _left_shift(a, b):
    _limited(a, b)
    return a << b if b >= 0 else 0


def _right_shift(a, b):
    return a >> b if b >= 0 else (-1 if a < 0 else 0)


def _is_minus_zero(a) -> bool:
    return a == 0 and copysign(1, a) < 0


PYTHON: dict[str, Callable] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": _divide,
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "power": _power,
    "negative": operator.neg,
    "absolute": abs,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "bitwise_invert": lambda a: not a if isinstance(a, bool) else ~a,
    "left_shift": _left_shift,
    "right_shift": _right_shift,
    "logical_and": lambda a, b: bool(a) and bool(b),
    "logical_or": lambda a, b: bool(a) or bool(b),
    "logical_not": lambda a: not a,
    "where": lambda c, a, b: a if c else b,
    "maximum": lambda a, b: a if a != a or a > b or (a == b and _is_minus_zero(b)) else b,
    "minimum": lambda a, b: a if a != a or a < b or (a == b and _is_minus_zero(a)) else b,
}


def fold(op: Op, args: tuple[Node, ...]) -> bool | int | float | None:
    """The value of an operation on literals; None if run time computes it."""
    values = [value_of(a) for a in args]
    operands = values[op.rule == "where" :]
    if _has_dtype(op, operands):
        return None
    if op.name in PYTHON:
        if op.rule in ("bits", "shift") and any(isinstance(v, float) for v in operands):
            return None
        if op.name in IN_ONE_TYPE and any(isinstance(v, float) for v in operands):
            values[-2:] = [float(v) for v in operands]
        return _checked(PYTHON[op.name](*values))
    if op.rule == "float":
        with np.errstate(all="ignore"):
            return float(op.meaning(*(np.float64(v) for v in values)))
    return None


# An integer that float64 cannot represent is rounded before it is compared, as at run time; Python compares exactly.
IN_ONE_TYPE = ("where", "minimum", "maximum", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal")


def _has_dtype(op: Op, operands: list) -> bool:
    """Whether a bool, which is never weak, determines the dtype of the result."""
    bools = [isinstance(v, bool) for v in operands]
    return any(bools) and op.rule not in ("logical", "compare") and not (op.rule == "bits" and all(bools))


def _checked(value):
    if isinstance(value, int) and not -(1 << 63) <= value < (1 << 64):
        raise LimitError(
            "this arithmetic on integer literals leaves 64 bits", "limit.constant", help="write a float, e.g. 1e20"
        )
    return value


def convert(value: bool | int | float, to: DType) -> bool | int | float:
    """A literal as a number of dtype `to` (rounded to it for float32; narrow floats are computed in float32)."""
    if to is BOOL:
        return bool(value)
    if to.kind == "f":
        with np.errstate(all="ignore"):
            return float(np.asarray(value, np.float64).astype(numpy_dtype(to.compute)))
    return int(value)
