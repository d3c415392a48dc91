"""torch's elementwise functions, casts and creators, with torch's signatures and promotion."""

from __future__ import annotations

from typing import Any

from ..errors import ArgumentError, DTypeError, ShapeError, TraceError
from ..ir.types import BOOL, INT64
from .torch_functions import TABLE, cast, dtype_of, language, need_float, recorder_of, torch_function
from .torch_types import common, converted, default_float, operate, result_type

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


def _pairs(names: str) -> list[tuple[str, str]]:
    return [(name, meant or name) for name, _, meant in (part.partition("=") for part in names.split())]


def _unary(name: str, meant: str) -> None:
    def function(input: Any) -> Any:
        return operate(recorder_of(input), meant, input)

    TABLE[name] = function


def _binary(name: str, meant: str) -> None:
    def function(input: Any, other: Any) -> Any:
        return operate(recorder_of(input, other), meant, input, other)

    TABLE[name] = function
    TABLE["r" + name] = lambda input, other: function(other, input)


for _name, _meant in _pairs(UNARY):
    _unary(_name, _meant)
for _name, _meant in _pairs(BINARY):
    _binary(_name, _meant)


@torch_function()
def add(input, other, *, alpha=1):
    return operate(recorder_of(input, other), "add", input, _scaled(other, alpha))


@torch_function("subtract")
def sub(input, other, *, alpha=1):
    return operate(recorder_of(input, other), "subtract", input, _scaled(other, alpha))


@torch_function()
def rsub(input, other, *, alpha=1):
    return sub(other, input, alpha=alpha)


TABLE["radd"] = lambda input, other: add(other, input)


def _scaled(x: Any, factor: Any) -> Any:
    return x if isinstance(factor, (int, float)) and factor == 1 else x * factor


@torch_function("divide")
def div(input, other, *, rounding_mode=None):
    r = recorder_of(input, other)
    if rounding_mode is None:
        return operate(r, "divide", input, other)
    if rounding_mode == "floor":
        return operate(r, "floor_divide", input, other)
    if rounding_mode != "trunc":
        raise ArgumentError(f"rounding_mode is {rounding_mode!r}", code="argument.choice", help="floor, trunc or None")
    nodes, dtype = common(r, input, other)
    x, y = (r.wrap(n) for n in nodes)
    if dtype.kind == "f":
        return operate(r, "trunc", x / y)
    return operate(r, "floor_divide", x - operate(r, "fmod", x, y), y)


@torch_function()
def square(input):
    return cast(input, INT64) * 1 if dtype_of(input) is BOOL else input * input


@torch_function()
def frac(input):
    need_float("frac", input)
    return input - operate(recorder_of(input), "trunc", input)


@torch_function("sgn")
def sign(input):
    return input if dtype_of(input) is BOOL else language("sign", input)


@torch_function()
def round_(input, *, decimals=0):
    return input if dtype_of(input).kind != "f" else language("round", input, decimals=decimals)


@torch_function()
def isposinf(input):
    return operate(recorder_of(input), "isinf", input) & (input > 0)


@torch_function()
def isneginf(input):
    return operate(recorder_of(input), "isinf", input) & (input < 0)


@torch_function("clip")
def clamp(input, min=None, max=None):
    given = [bound for bound in (min, max) if bound is not None]
    if not given:
        raise ArgumentError("clamp takes min, max or both", code="argument.missing")
    r = recorder_of(input, *given)
    (x, *bounds), _ = common(r, input, *given)
    low, high = (bounds[0], bounds[-1]) if len(given) == 2 else (bounds[0], None) if max is None else (None, bounds[0])
    found = r.tracer(x)
    for name, bound in (("maximum", low), ("minimum", high)):
        found = found if bound is None else language(name, found, r.tracer(bound))
    return found


@torch_function()
def clamp_min(input, min):
    return clamp(input, min)


@torch_function()
def clamp_max(input, max):
    return clamp(input, None, max)


@torch_function()
def where(condition, input=None, other=None):
    if input is None:
        raise ArgumentError(
            "where with one argument has no known shape", code="argument.missing", help="give all three"
        )
    r = recorder_of(condition, input, other)
    if _is_number(input) and _is_number(other):
        dtype = result_type([r.node(input), r.node(other)])
        x, y = (r.tracer(converted(r, r.node(v), dtype)) for v in (input, other))
    else:
        x, y = map(r.tracer, common(r, input, other)[0])
    return language("where", condition, x, y)


TABLE["Tensor.where"] = lambda input, condition, other: where(condition, input, other)


def _is_number(x: Any) -> bool:
    return isinstance(x, (bool, int, float))


@torch_function()
def masked_fill(input, mask, value):
    r = recorder_of(input)
    filled = r.tracer(converted(r, r.node(value), dtype_of(input))) if _fits(r, input, value) else None
    if filled is None:
        raise DTypeError(f"a float does not go into {dtype_of(input)}", code="dtype.write", help="cast it first: x.to")
    return language("where", mask, filled, input)


def _fits(r: Any, input: Any, value: Any) -> bool:
    node = r.node(value)
    return node.type.dtype.kind != "f" or dtype_of(input).kind == "f"


@torch_function()
def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    return language("isclose", input, other, rtol=rtol, atol=atol, equal_nan=equal_nan)


@torch_function()
def nan_to_num(input, nan=None, posinf=None, neginf=None):
    given = {"nan": nan, "posinf": posinf, "neginf": neginf}
    return language("nan_to_num", input, **{name: value for name, value in given.items() if value is not None})


@torch_function()
def ldexp(input, other):
    return input * operate(recorder_of(other), "exp2", other)


@torch_function()
def float_power(input, exponent):
    parts = [cast(x, "float64") if not _is_number(x) else x for x in (input, exponent)]
    return operate(recorder_of(input, exponent), "power", *parts)


@torch_function()
def heaviside(input, values):
    r = recorder_of(input, values)
    x, level = map(r.tracer, common(r, input, values)[0])
    found = cast(language("heaviside", input, level), dtype_of(level))
    return language("where", x == 0, level, found)


@torch_function()
def lerp(input, end, weight):
    need_float("lerp", input)
    return language("lerp", input, end, weight)


@torch_function()
def addcmul(input, tensor1, tensor2, *, value=1):
    return input + _scaled(tensor1 * tensor2, value)


@torch_function()
def addcdiv(input, tensor1, tensor2, *, value=1):
    return input + _scaled(tensor1 / tensor2, value)


@torch_function()
def logit(input, eps=None):
    x = input if eps is None else clamp(input, eps, 1 - eps)
    return operate(recorder_of(x), "log", x / (1 - x))


def _logical(name: str) -> None:
    TABLE[name] = lambda input, other: language(name, input, other)


for _name in ("logical_and", "logical_or", "logical_xor"):
    _logical(_name)


@torch_function()
def logical_not(input):
    return language("logical_not", input)


@torch_function("resolve_conj", "resolve_neg", "conj", "real", "detach", "contiguous")
def clone(input):
    return language("copy", input)


# -- casts

CASTS = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "int": "int32",
    "long": "int64", "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool",
}  # fmt: skip


def _cast(name: str, dtype: str) -> None:
    TABLE[name] = lambda input: cast(input, dtype)


for _name, _meant in CASTS.items():
    _cast(_name, _meant)


@torch_function()
def to(input, *args, dtype=None, device=None, other=None, copy=False):
    for x in (*args, device, other):
        if hasattr(x, "dtype"):
            dtype = x.dtype
        elif type(x).__name__ == "dtype":
            dtype = x
        elif type(x).__name__ == "device" or isinstance(x, str):
            _same_device(input, x)
    return language("copy", input) if dtype is None else cast(input, dtype)


def _same_device(input: Any, device: Any) -> None:
    """A kernel runs in one place."""
    import torch

    wanted, here = torch.device(device), input.device
    if wanted.type != here.type or wanted.index not in (None, here.index):
        raise TraceError(f"a move from {here} to {wanted} inside a traced function", code="trace.device",
                         help="move the tensor before the call")  # fmt: skip


@torch_function()
def cpu(input):
    _same_device(input, "cpu")
    return language("copy", input)


@torch_function()
def cuda(input, device=None):
    _same_device(input, "cuda" if device is None else device)
    return language("copy", input)


@torch_function()
def type_(input, dtype):
    return cast(input, dtype)


@torch_function()
def type_as(input, other):
    return cast(input, other.dtype)


# -- creators


def filled(r: Any, shape: Any, value: Any, dtype: Any, device: Any = None) -> Any:
    """A tensor of one value."""
    if device is not None and r.example is not None:
        _same_device(r.tracer(r.node(0)), device)
    given = r.node(value)
    to = r.dtype(dtype) if dtype is not None else default_float() if given.type.dtype.kind == "f" else given.type.dtype
    return r.apply("broadcast_to", r.apply("astype", value, to), _shape(shape))


def _shape(size: Any) -> tuple:
    """`(2, 3)`, `((2, 3),)` or `2` as a shape."""
    if isinstance(size, (tuple, list)):
        return tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else tuple(size)
    return (size,)


def _like(name: str, value: Any) -> None:
    def function(input, *, dtype=None, device=None):
        return filled(recorder_of(input), input.shape, value, dtype or input.dtype)

    TABLE[name] = function


def _new(name: str, value: Any) -> None:
    def function(input, *size, dtype=None, device=None):
        return filled(recorder_of(input), _shape(size), value, dtype or input.dtype)

    TABLE[name] = function


for _name, _value in (("zeros", 0), ("ones", 1), ("empty", 0)):
    _like(_name + "_like", _value)
    _new("new_" + _name, _value)


@torch_function()
def full_like(input, fill_value, *, dtype=None, device=None):
    return filled(recorder_of(input), input.shape, fill_value, dtype or input.dtype)


@torch_function()
def new_full(input, size, fill_value, *, dtype=None, device=None):
    return filled(recorder_of(input), size, fill_value, dtype or input.dtype)


@torch_function()
def new_tensor(input, data, *, dtype=None, device=None):
    import torch

    return recorder_of(input).lifted(torch.tensor(data, dtype=dtype or input.dtype, device=input.device))


@torch_function()
def fill(input, value):
    return filled(recorder_of(input), input.shape, value, input.dtype)


@torch_function()
def zero(input):
    return filled(recorder_of(input), input.shape, 0, input.dtype)


@torch_function()
def copy(input, src, non_blocking=False):
    r = recorder_of(input)
    if src.ndim > input.ndim:
        raise ShapeError("the source has more axes than the tensor", code="shape.write")
    return r.apply("broadcast_to", cast(r.tracer(r.node(src)), input.dtype), input.shape)


def create(r: Any, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """torch.zeros and its like, whose extents may be tracers."""
    dtype, device = kwargs.pop("dtype", None), kwargs.pop("device", None)
    for needless in ("layout", "pin_memory", "requires_grad"):
        kwargs.pop(needless, None)
    if name == "arange":
        return _arange(r, args, kwargs, dtype)
    if name in ("scalar_tensor", "tensor"):
        return _listed(r, args[0], dtype) if isinstance(args[0], (list, tuple)) else filled(r, (), args[0], dtype)
    if name == "full":
        size, value = kwargs.get("size", args[0] if args else ()), kwargs.get("fill_value", args[-1])
        return filled(r, _shape(size), value, dtype, device)
    size = kwargs.get("size", args)
    return filled(r, _shape(size), 1 if name == "ones" else 0, dtype or default_float(), device)


def _listed(r: Any, data: Any, dtype: Any) -> Any:
    """A tensor of a list that holds tracers."""
    parts = [
        _listed(r, part, dtype) if isinstance(part, (list, tuple)) else filled(r, (), part, dtype) for part in data
    ]
    return r.apply("stack", tuple(parts), 0)


def _arange(r: Any, args: tuple, kwargs: dict[str, Any], dtype: Any) -> Any:
    parts = [kwargs[name] for name in ("start", "end", "step") if name in kwargs] if kwargs else list(args)
    made = r.apply("arange", *parts)
    return r.apply("astype", made, r.dtype(dtype) if dtype is not None else INT64)
