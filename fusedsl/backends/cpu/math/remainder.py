"""fmod of floats: by the C library, or without a call if the quotient is an exact integer of the type."""

from __future__ import annotations

from ....ir.types import FLOAT32
from ..llvm_values import LLVMValue, absolute, call, copysign, fma, intrinsic, select
from .elementary import INF, MANTISSA


def fmod(x: LLVMValue, y: LLVMValue) -> LLVMValue:
    return call("fmodf" if x.dtype is FLOAT32 else "fmod", x, y)


def fmod_near(x: LLVMValue, y: LLVMValue) -> LLVMValue:
    """fmod for x and y that are not `beyond`.

    The rounded quotient may be one too large; the remainder is exact, and then has the other sign.
    """
    quotient = intrinsic("trunc", x / y)
    remainder = fma(-quotient, y, x)
    crossed = (remainder != 0) & ((remainder < 0) ^ (x < 0))
    return copysign(select(crossed, remainder + copysign(y, x), remainder), x)


def beyond(x: LLVMValue, y: LLVMValue) -> LLVMValue:
    """True if the quotient is 2^52 (2^23) or more, or the divisor is infinite."""
    return ~((absolute(x / y) < 2.0 ** MANTISSA[x.dtype]) & (absolute(y) < INF))
