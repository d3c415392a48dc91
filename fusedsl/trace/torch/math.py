"""torch's elementwise functions, with torch's signatures and promotion."""

from __future__ import annotations

import math
from typing import Any

from ...errors import ArgumentError, DTypeError
from ...ir.types import BOOL, INT64
from ..tracer import Tracer
from ..views import View
from .clamps import clamp, where
from .functions import TABLE, cast, dtype_of, language, need_float, recorder_of, torch_function, torch_functions
from .numbers import checked_convert, checked_integer
from .promotion import common, default_float, operate

# torch's name, then what the language calls it, where that differs
UNARY = """
    exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin=arcsin acos=arccos atan=arctan arcsin arccos arctan
    sinh cosh tanh asinh=arcsinh acosh=arccosh atanh=arctanh arcsinh arccosh arctanh erf erfc lgamma gammaln=lgamma
    sigmoid expit=sigmoid reciprocal deg2rad rad2deg sinc neg=negative negative abs=absolute absolute
    bitwise_not=bitwise_invert invert=bitwise_invert
    floor ceil trunc fix=trunc isnan isinf isfinite signbit positive
    pos=positive
"""
BINARY = """
    mul=multiply multiply true_divide=divide minimum maximum fmin fmax remainder fmod floor_divide pow=power
    atan2=arctan2 arctan2 hypot copysign nextafter logaddexp logaddexp2 xlogy eq=equal ne=not_equal
    lt=less le=less_equal gt=greater ge=greater_equal less less_equal greater greater_equal not_equal
    bitwise_and bitwise_or bitwise_xor bitwise_left_shift=left_shift bitwise_right_shift=right_shift and=bitwise_and
    or=bitwise_or xor=bitwise_xor lshift=left_shift rshift=right_shift floordiv=floor_divide mod=remainder
    truediv=divide
"""


@torch_functions(UNARY)
def _unary(name, input):
    return operate(recorder_of(input), name, input)


@torch_functions(BINARY)
def _binary(name, input, other):
    return operate(recorder_of(input, other), name, input, other)


@torch_functions(" ".join(f"r{name}" if "=" in name else f"r{name}={name}" for name in BINARY.split()))
def _reversed(name, input, other):
    return _binary(name, other, input)


def _is_one(factor: Any) -> bool:
    return type(factor) in (int, float) and factor == 1


def _scaled(x: Any, factor: Any) -> Any:
    return x if _is_one(factor) else x * factor


@torch_functions("add sub=subtract subtract")
def _with_scaled(name, input, other, *, alpha=1):
    """add or subtract `alpha * other`, in the common dtype of `input` and `other`, without alpha's."""
    r = recorder_of(input, other)
    if _is_one(alpha):
        return operate(r, name, input, other)
    (_, scaled), dtype = common(r, input, other)
    if isinstance(alpha, float) and dtype.kind != "f":
        message = f"alpha is {alpha}, and the operands are no floats"
        raise DTypeError(message, "dtype.float", help="torch takes an integer: alpha=2")
    if isinstance(alpha, bool) and dtype is not BOOL:
        raise DTypeError("alpha is a bool, and the operands are not", "dtype.alpha", help="write alpha=1")
    if dtype is BOOL:
        operate(r, name, input, other)  # what torch refuses of bools is refused
        return operate(r, name, input, language("logical_and", r.tracer(scaled), bool(alpha)))
    if name == "subtract" and not isinstance(alpha, Tracer):  # torch adds -alpha times it
        name, alpha = "add", -alpha
    times: Any = r.tracer(checked_convert(r, alpha, dtype))
    return operate(r, name, input, r.tracer(scaled) * times)


@torch_function("divide")
def div(input, other, *, rounding_mode=None):
    r = recorder_of(input, other)
    if rounding_mode is None:
        return operate(r, "divide", input, other)
    if rounding_mode == "floor":
        return operate(r, "floor_divide", input, other)
    if rounding_mode != "trunc":
        raise ArgumentError(f"rounding_mode is {rounding_mode!r}", "argument.choice", help="floor, trunc or None")
    nodes, dtype = common(r, input, other)
    x, y = (r.wrap(n) for n in nodes)
    if dtype.kind == "f":
        return operate(r, "trunc", x / y)
    return operate(r, "floor_divide", x - operate(r, "fmod", x, y), y)


@torch_function()
def frac(input):
    need_float("frac", input)
    return input - operate(recorder_of(input), "trunc", input)


@torch_function("sgn")
def sign(input):
    """sign; that of NaN is 0 in torch."""
    if dtype_of(input) is BOOL:
        return input
    result = language("sign", input)
    return where(input == input, result, 0) if dtype_of(input).kind == "f" else result


@torch_function()
def round_(input, *, decimals=0):
    return input if dtype_of(input).kind != "f" else language("round", input, decimals=decimals)


@torch_function()
def angle(input):
    """angle: 0, pi for negative numbers, NaN for NaN."""
    x = cast(input, default_float()) if dtype_of(input).kind != "f" else input
    return language("where", x == x, language("where", x < 0, math.pi, 0.0), x)


@torch_functions("isposinf=greater isneginf=less")
def _is_infinity(compare, input):
    return operate(recorder_of(input), "isinf", input) & language(compare, input, 0)


@torch_function()
def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    return language("isclose", input, other, rtol=rtol, atol=atol, equal_nan=equal_nan)


@torch_function()
def special_xlog1py(input, other):
    product = input * operate(recorder_of(input, other), "log1p", other)
    return where((input == 0) & (other == other), 0, product)


@torch_function()
def special_entr(input):
    """entr: -x log x, 0 at 0, -inf for negative x."""
    return where(input < 0, -math.inf, -operate(recorder_of(input), "xlogy", input, input))


@torch_function()
def float_power(input, exponent):
    parts = [cast(x, "float64") if isinstance(x, Tracer) else x for x in (input, exponent)]
    return operate(recorder_of(input, exponent), "power", *parts)


@torch_function()
def heaviside(input, values):
    r = recorder_of(input, values)
    x, level = map(r.tracer, common(r, input, values)[0])
    above = cast(operate(r, "greater", x, 0), dtype_of(level))  # 0 of NaN
    return language("where", x == 0, level, above)


@torch_function()
def lerp(input, end, weight):
    need_float("lerp", input)
    result = language("lerp", input, end, weight)
    number = isinstance(weight, Tracer) and not weight.ndim  # has no part in the result's dtype
    return cast(result, common(recorder_of(input, end), input, end)[1]) if number else result


@torch_function()
def addcmul(input, tensor1, tensor2, *, value=1):
    r = recorder_of(input)
    dtype = common(r, input, tensor1, tensor2)[1]
    if dtype is BOOL:
        raise DTypeError("torch has no addcmul of bools", "dtype.addcmul", help="cast them first")
    product = tensor1 * tensor2
    return input + (product if _is_one(value) else product * r.tracer(checked_integer(r, value, dtype)))


@torch_function()
def logit(input, eps=None):
    x = input if dtype_of(input).kind == "f" else cast(input, default_float())
    x = x if eps is None else clamp(x, eps, 1 - eps)
    return operate(recorder_of(x), "log", x / (1 - x))


@torch_functions("logical_and logical_or logical_xor")
def _logical(name, input, other):
    return language(name, input, other)


@torch_function()
def detach(input):
    """A view of the same memory, which derivatives take as a constant."""
    return input.viewed(View(input.recorder.builder.stop_gradient, lambda base, value: value))


# Formulas, and functions that are others with some of their arguments.
TABLE |= {
    "radd": lambda input, other: TABLE["add"](other, input),
    "rdiv": lambda input, other: div(other, input),
    "rsub": lambda input, other, *, alpha=1: TABLE["sub"](other, input, alpha=alpha),
    "square": lambda input: cast(input, INT64) * 1 if dtype_of(input) is BOOL else input * input,
    "isreal": lambda input: language("ones_like", input, dtype="bool"),
    "special_ndtr": lambda input: 0.5 * operate(recorder_of(input), "erfc", input * -(0.5**0.5)),
    "ldexp": lambda input, other: input * operate(recorder_of(other), "exp2", other),
    "addcdiv": lambda input, tensor1, tensor2, *, value=1: input + _scaled(tensor1 / tensor2, value),
    "logical_not": lambda input: language("logical_not", input),
    "clone": lambda input, *, memory_format=None: language("copy", input),
    **dict.fromkeys(("resolve_conj", "resolve_neg", "conj", "conj_physical", "real", "alias"), lambda input: input),
    "contiguous": lambda input, memory_format=None: input.viewed(View(lambda x: x, certain=False)),
}
