"""Tables of functions by their name in bodies."""

from __future__ import annotations

import operator
from collections.abc import Callable

from .. import llvm_values
from ..llvm_values import LLVMValue, intrinsic, select
from . import elementary, hyperbolic, integers, logarithm, power, remainder, roots, special, trigonometric
from .elementary import INF, ldexp

__all__ = ["BOTH", "FUNCTIONS", "PREDICATES", "ldexp"]


def maximum(x: LLVMValue, y: LLVMValue) -> LLVMValue:
    """The larger; NaN if either is NaN."""
    return intrinsic("maximum", x, y)


def minimum(x: LLVMValue, y: LLVMValue) -> LLVMValue:
    return intrinsic("minimum", x, y)


def fmax(x: LLVMValue, y: LLVMValue) -> LLVMValue:
    """The larger; if one is NaN, the other."""
    return select(y != y, x, select(x != x, y, maximum(x, y)))


def fmin(x: LLVMValue, y: LLVMValue) -> LLVMValue:
    """The smaller; if one is NaN, the other."""
    return select(y != y, x, select(x != x, y, minimum(x, y)))


def nextafter(x: LLVMValue, y: LLVMValue) -> LLVMValue:
    """The neighbour of x towards y: the next representation as an integer, outwards or inwards."""
    bits = x.bits()
    outwards = (x < y) ^ (bits < 0)
    step = select(outwards, bits + 1, bits - 1).reinterpret(x.dtype)
    tiny = llvm_values.copysign(bits.like(1).reinterpret(x.dtype), y)
    moved = select(x == 0, tiny, step)
    return select((x != x) | (y != y), x + y, select(x == y, y, moved))


FUNCTIONS = {
    name: getattr(module, name)
    for module, names in (
        (llvm_values, "sqrt rint copysign fma"),
        (elementary, "exp exp2 expm1"),
        (logarithm, "log log2 log10 log1p"),
        (hyperbolic, "sinh cosh tanh arcsinh arccosh arctanh"),
        (roots, "cbrt hypot"),
        (trigonometric, "sin cos tan sin_near cos_near tan_near arcsin arccos arctan arctan2"),
        (special, "erf erfc lgamma"),
        (power, "power_near"),
    )
    for name in names.split()
}
FUNCTIONS |= {
    "mul_rn": llvm_values.multiply_rounded,
    "rsqrt": lambda x: 1 / llvm_values.sqrt(x),
    "floor": lambda x: intrinsic("floor", x),
    "ceil": lambda x: intrinsic("ceil", x),
    "trunc": lambda x: intrinsic("trunc", x),
    "nextafter": nextafter,
    "logistic": lambda x: 1 / (1 + elementary.exp(-x)),
    "divisor_scale": lambda x: x.like(1),  # the CPU divides: see quotient
    "quotient": lambda x, divisor, scale, inverse: x / divisor,
}


def sign(x: LLVMValue) -> LLVMValue:
    """-1, 0 or 1; NaN stays, and a zero of either sign gives 0, as in NumPy."""
    return select(x > 0, 1, select(x < 0, -1, select(x == 0, 0, x)))


def fmod_beyond(x: LLVMValue, y: LLVMValue) -> LLVMValue:
    """False: integers are never beyond."""
    return remainder.beyond(x, y) if x.dtype.kind == "f" else x != x


PREDICATES: dict[str, Callable] = {
    "beyond": trigonometric.beyond,
    "power_beyond": power.beyond,
    "isnan": lambda x: x != x,
    "isinf": lambda x: llvm_values.absolute(x) == INF,
    "isfinite": lambda x: llvm_values.absolute(x) < INF,
    "signbit": lambda x: x.bits() < 0,
}
# words of both: (lowering for floats, lowering for integers)
BOTH = {
    "maximum": (maximum, integers.maximum),
    "minimum": (minimum, integers.minimum),
    "fmax": (fmax, integers.maximum),
    "fmin": (fmin, integers.minimum),
    "sign": (sign, integers.sign),
    "absolute": (llvm_values.absolute, integers.absolute),
    "negative": (operator.neg, operator.neg),
    "fmod": (remainder.fmod, integers.fmod),
    "fmod_near": (remainder.fmod_near, integers.fmod),
    "power": (power.power, integers.power),
}
