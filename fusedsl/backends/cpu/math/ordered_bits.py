"""Extrema of floats from those of their bits: the largest and smallest as signed integers, the largest as unsigned."""

from __future__ import annotations

from ....ir.types import DTYPES, DType
from ..llvm_values import LLVMValue, select
from .elementary import INF, NAN


def unsigned_bits(x: LLVMValue) -> LLVMValue:
    """The representation of a float as an unsigned integer."""
    return x.reinterpret(DTYPES[f"uint{x.dtype.bits}"])


def largest(d: DType, top: LLVMValue, low: LLVMValue, most: LLVMValue) -> LLVMValue:
    """The largest float: of the non-negative ones, if there are any; NaN if one of them is."""
    return _number(d, select(top >= 0, top, low), top, most)


def smallest(d: DType, top: LLVMValue, low: LLVMValue, most: LLVMValue) -> LLVMValue:
    """The smallest float: of the negative ones, if there are any; NaN if one of them is."""
    return _number(d, select(low < 0, most.reinterpret(low.dtype), low), top, most)


def _number(d: DType, bits: LLVMValue, top: LLVMValue, most: LLVMValue) -> LLVMValue:
    number = bits.reinterpret(d)
    positive_nan = top > number.like(INF).bits()
    negative_nan = most > unsigned_bits(number.like(-INF))
    return select(positive_nan | negative_nan, NAN, number)
