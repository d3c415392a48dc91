"""Digits of sort keys: bits of an element as an unsigned number that ascends in the wanted order."""

from __future__ import annotations

from ....ir.types import INT64, UINT8, UINT16, UINT32, UINT64
from ..llvm_values import LLVMValue, select
from ..radix_sort import DIGIT_BITS
from ..sort import PAIR_BITS

UNSIGNED = {8: UINT8, 16: UINT16, 32: UINT32, 64: UINT64}


def ascending_digit(x: LLVMValue, shift: LLVMValue) -> LLVMValue:
    """Bits shift … shift + 7 of the key of x, as an int64."""
    return _digit(sort_key(x), shift)


def descending_digit(x: LLVMValue, shift: LLVMValue) -> LLVMValue:
    """The same digit where the largest element comes first."""
    return _digit(~sort_key(x), shift)


def ascending_pair(x: LLVMValue, column: LLVMValue) -> LLVMValue:
    """An int64 that ascends as x, then as the column; x has 32 bits at most."""
    return _pair(sort_key(x), column)


def descending_pair(x: LLVMValue, column: LLVMValue) -> LLVMValue:
    """An int64 that ascends as x descends, then as the column."""
    return _pair(~sort_key(x), column)


def _pair(key: LLVMValue, column: LLVMValue) -> LLVMValue:
    return ((key.to(INT64) - (1 << (key.dtype.bits - 1))) << PAIR_BITS) | column


def _digit(key: LLVMValue, shift: LLVMValue) -> LLVMValue:
    return ((key >> shift.to(key.dtype)) & ((1 << DIGIT_BITS) - 1)).to(INT64)


def sort_key(x: LLVMValue) -> LLVMValue:
    """An unsigned number of the same width in the order of x: -0.0 is 0.0, and NaN is larger than every number."""
    raw, top = x.reinterpret(UNSIGNED[x.dtype.bits]), 1 << (x.dtype.bits - 1)
    if x.dtype.kind != "f":
        return raw ^ top if x.dtype.kind == "i" else raw
    raw = select(raw == top, 0, raw)
    return select(x != x, -1, raw ^ select(raw >= top, -1, raw.like(top)))
