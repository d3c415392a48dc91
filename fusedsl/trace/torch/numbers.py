"""Python numbers converted to a tensor's dtype: arithmetic with a tensor wraps them, other functions check the range.

Source: c10/core/Scalar.h (Scalar::to) and c10/util/TypeCast.h (overflows) of PyTorch.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes

from ...errors import DTypeError
from ...ir.graph import Node, constant, value_of
from ...ir.types import BOOL, DType, numpy_dtype
from ..recorder import Recorder

LOWEST, UPPER_BOUND = -(1 << 63), 1 << 64  # the range of torch's scalars: int64, and uint64 above; the bound excluded


def wrapped(value: int, to: DType) -> int:
    """An integer wrapped to a width in two's complement."""
    low = check_scalar(value) % (1 << to.bits)
    return low - (1 << to.bits) if to.kind == "i" and low >> (to.bits - 1) else low


def check_scalar(value: int) -> int:
    """The integer, if it is in the range of torch's scalars."""
    if not LOWEST <= value < UPPER_BOUND:
        raise _refused(value, "64 bits")
    return value


def checked_convert(r: Recorder, x: Any, to: DType) -> Node:
    """A number in the dtype of a tensor, for functions that check its range. Floats are truncated to integers; for
    unsigned dtypes, negative integers within the width wrap. Run-time numbers must fit."""
    number = x if isinstance(x, Node) else r.node(x)
    if not number.type.weak or number.type.shape:
        return r.builder.convert(number, to) if to.kind == "f" else r.builder.cast(number, to)
    if number.op != "const":
        narrows = number.type.dtype.kind == "f" and to.kind != "f"
        return r.builder.cast(number, to) if narrows else r.builder.coerce(number, to)
    value = value_of(number)
    if not _fits(value, to):
        raise _refused(value, str(to))
    if to is BOOL or to.kind == "f":
        return constant(bool(value) if to is BOOL else float(value), to)
    return constant(wrapped(int(value), to), to)


def checked_integer(r: Recorder, x: Any, to: DType) -> Node:
    """The same for functions that range-check integers only; overflowing floats become inf."""
    number = x if isinstance(x, Node) else r.node(x)
    if number.op == "const" and number.type.dtype.kind == "i":
        check_scalar(int(value_of(number)))
    return r.builder.coerce(number, to) if to.kind == "f" and number.type.weak else checked_convert(r, number, to)


def _fits(value: bool | int | float, to: DType) -> bool:
    if type(value) is int:
        check_scalar(value)
    if to is BOOL:
        return True
    if to.kind == "f":
        return not math.isfinite(value) or abs(value) <= _largest(to)
    if not math.isfinite(value):
        return False
    low, high = (0, (1 << to.bits) - 1) if to.kind == "u" else (-(1 << to.bits - 1), (1 << to.bits - 1) - 1)
    if to.kind == "u" and value < 0:
        return -value <= high if type(value) is int else value > -1
    return low <= value <= high


def _largest(to: DType) -> float:
    return float(ml_dtypes.finfo(numpy_dtype(to)).max)


def _refused(value: bool | int | float, where: str) -> DTypeError:
    return DTypeError(f"{value} does not fit {where}", "dtype.literal", help="torch refuses it, too: cast the tensor")
