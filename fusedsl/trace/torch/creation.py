"""torch's casts and tensor creation on tracers, with torch's signatures and default dtypes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...errors import DTypeError, ShapeError, TraceError
from ...ir.types import BOOL, DTYPES, INT64
from ..tracer import Tracer
from .functions import TABLE, cast, dtype_of, language, recorder_of, torch_function, torch_functions
from .numbers import checked_convert, checked_integer
from .promotion import default_float, promoted_dtype

# -- casts

CASTS = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "int": "int32",
    "long": "int64", "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool",
}  # fmt: skip


TYPES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int32": "Int",
    "int64": "Long", "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool",
}  # fmt: skip


@torch_functions(" ".join(map("=".join, CASTS.items())))
def _cast(dtype, input):
    return cast(input, dtype)


@torch_function()
def to(input, *args, dtype=None, device=None, other=None, copy=False):
    for x in (*args, device, other):
        if hasattr(x, "dtype"):
            dtype = x.dtype
        elif type(x).__name__ == "dtype":
            dtype = x
        elif type(x).__name__ == "device" or isinstance(x, str):
            _same_device(input, x)
    if copy:
        input = language("copy", input)
    return input if dtype is None else cast(input, dtype)


def _same_device(input: Any, device: Any) -> None:
    """TraceError for a move to another device."""
    import torch

    wanted, current = torch.device(device), input.device
    if wanted.type != current.type or wanted.index not in (None, current.index):
        raise TraceError(f"a move from {current} to {wanted} inside a traced function", "trace.device",
                         help="move the tensor before the call")  # fmt: skip


@torch_function()
def cpu(input):
    _same_device(input, "cpu")
    return input


@torch_function()
def cuda(input, device=None):
    _same_device(input, "cuda" if device is None else device)
    return input


@torch_function()
def type_(input, dtype=None):
    """type(): the tensor type's name, or a cast to a dtype or tensor type name."""
    import torch

    prefix = "torch.cuda" if input.is_cuda else "torch"
    names = {getattr(torch, kind): f"{prefix}.{name}Tensor" for kind, name in TYPES.items()}
    if dtype is None:
        return names[input.dtype]
    named = {name: kind for kind, name in names.items()}
    if isinstance(dtype, str) and dtype not in named:
        raise DTypeError(f"there is no tensor type {dtype!r}", "dtype.unknown", help="pass torch.float32, ...")
    return cast(input, named.get(dtype, dtype))


# -- creators


def full_tensor(
    r: Any, shape: Any, value: Any, dtype: Any, device: Any = None, fitting: Callable = checked_convert
) -> Any:
    """A tensor filled with one value; a number must fit the dtype."""
    if device is not None and r.example is not None:
        _same_device(r.tracer(r.node(0)), device)
    given = r.node(value)
    if given.type.weak and dtype is not None:
        return r.apply("broadcast_to", r.tracer(fitting(r, value, r.dtype(dtype))), _shape(shape))
    to = r.dtype(dtype) if dtype is not None else default_float() if given.type.dtype.kind == "f" else given.type.dtype
    return r.apply("broadcast_to", r.apply("astype", value, to), _shape(shape))


def _shape(size: Any) -> tuple:
    """`(2, 3)`, `((2, 3),)` or `2` as a shape."""
    if isinstance(size, (tuple, list)):
        return tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else tuple(size)
    return (size,)


@torch_functions("zeros_like=0 ones_like=1 empty_like=0")
def _like(value, input, *, dtype=None, device=None):
    return full_tensor(recorder_of(input), input.shape, int(value), dtype or input.dtype)


@torch_functions("new_zeros=0 new_ones=1 new_empty=0")
def _new(value, input, *size, dtype=None, device=None):
    return full_tensor(recorder_of(input), _shape(size), int(value), dtype or input.dtype)


@torch_function()
def full_like(input, fill_value, *, dtype=None, device=None):
    return full_tensor(recorder_of(input), input.shape, fill_value, dtype or input.dtype)


@torch_function()
def new_full(input, size, fill_value, *, dtype=None, device=None):
    return full_tensor(recorder_of(input), size, fill_value, dtype or input.dtype)


@torch_function()
def new_tensor(input, data, *, dtype=None, device=None):
    return _tensor(recorder_of(input), data, dtype or input.dtype)


@torch_function()
def copy(input, src, non_blocking=False):
    r = recorder_of(input)
    if src.ndim > input.ndim:
        raise ShapeError("the source has more axes than the tensor", "shape.write", help="index or squeeze it first")
    return r.apply("broadcast_to", cast(r.tracer(r.node(src)), input.dtype), input.shape)


def create(r: Any, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """torch.zeros and other creation functions, whose extents may be tracers."""
    dtype, device = kwargs.pop("dtype", None), kwargs.pop("device", None)
    for needless in ("layout", "pin_memory", "requires_grad"):
        kwargs.pop(needless, None)
    if name == "arange":
        return _arange(r, args, kwargs, dtype)
    if name == "linspace":
        named = dict(zip(("start", "end", "steps"), args)) | kwargs
        return _linspace(r, named["start"], named["end"], named["steps"], dtype)
    if name == "eye":
        named = dict(zip(("n", "m"), args)) | kwargs
        return _eye(r, named["n"], named.get("m"), dtype)
    if name in ("scalar_tensor", "tensor"):
        return _tensor(r, args[0], dtype)
    if name == "as_tensor":
        data = args[0]
        return cast(data, dtype) if isinstance(data, Tracer) and not data.is_number else _tensor(r, data, dtype)
    if name == "full":
        size, value = kwargs.get("size", args[0] if args else ()), kwargs.get("fill_value", args[-1])
        return full_tensor(r, _shape(size), value, dtype, device)
    size = kwargs.get("size", args)
    return full_tensor(r, _shape(size), 1 if name == "ones" else 0, dtype or default_float(), device)


def _float_arange(r: Any, parts: list[float], dtype: Any) -> Any:
    """torch.arange of floats; the numbers are specialised, since they decide the length."""
    import math

    parts = [math.trunc(p) for p in parts] if dtype is not None and r.dtype(dtype).kind in "iu" else parts
    start, end = (0.0, parts[0]) if len(parts) == 1 else parts[:2]
    step = parts[2] if len(parts) > 2 else 1.0
    indices = r.apply("arange", max(0, math.ceil((end - start) / step)))
    exact = r.apply("astype", indices, DTYPES["float64"])
    return r.apply("astype", exact * step + start, r.dtype(dtype) if dtype is not None else default_float())


def _linspace(r: Any, start: Any, end: Any, steps: Any, dtype: Any) -> Any:
    """linspace, computed from both ends to the middle as in torch, so that both ends are exact."""
    to = r.dtype(dtype) if dtype is not None else default_float()
    index = r.apply("astype", r.apply("arange", steps), DTYPES["float64"])
    ends = (start, end) if to.kind == "f" else (r.apply("astype", x, to) for x in (start, end))
    first, last = (r.apply("astype", x, DTYPES["float64"]) for x in ends)
    gap = (last - first) / r.apply("maximum", r.apply("astype", steps - 1, DTYPES["float64"]), 1)
    back = last - gap * (r.apply("astype", steps, DTYPES["float64"]) - 1 - index)
    return r.apply("astype", r.apply("where", index < r.apply("maximum", steps // 2, 1), first + gap * index, back), to)


def _eye(r: Any, n: Any, m: Any, dtype: Any) -> Any:
    rows, columns = r.apply("arange", n), r.apply("arange", n if m is None else m)
    same = r.apply("equal", r.apply("expand_dims", rows, -1), columns)
    return r.apply("astype", same, r.dtype(dtype) if dtype is not None else default_float())


def _tensor(r: Any, data: Any, dtype: Any) -> Any:
    """A new tensor from a tensor, a number, or nested lists of them."""
    if isinstance(data, (list, tuple)):
        return _from_list(r, data, dtype)
    if isinstance(data, Tracer) and data.ndim:
        return cast(language("copy", data), dtype)
    if type(data) is int and dtype is not None and r.dtype(dtype).kind == "f":
        data = float(data)  # however large
    return full_tensor(r, (), data, dtype, fitting=checked_integer)


def _from_list(r: Any, data: Any, dtype: Any) -> Any:
    """A tensor from a list with tracers, in their common dtype."""
    if dtype is None:
        kinds = [dtype_of(full_tensor(r, (), part, None)) for part in _flat(data)]
        dtype = functools.reduce(promoted_dtype, kinds, BOOL) if kinds else default_float()
    parts = [_from_list(r, x, dtype) if isinstance(x, (list, tuple)) else _tensor(r, x, dtype) for x in data]
    return r.apply("stack", tuple(parts), 0)


def _flat(data: Any) -> list:
    return [leaf for part in data for leaf in _flat(part)] if isinstance(data, (list, tuple)) else [data]


def _arange(r: Any, args: tuple, kwargs: dict[str, Any], dtype: Any) -> Any:
    names = ("start", "end", "step")
    parts = [*args, *(kwargs[name] for name in names[len(args) :] if name in kwargs)]
    if any(dtype_of(r.tracer(r.node(x))).kind == "f" for x in parts):
        return _float_arange(r, [*map(float, parts)], dtype)
    result = r.apply("arange", *parts)
    return r.apply("astype", result, r.dtype(dtype) if dtype is not None else INT64)


# Formulas, and functions that are others with some of their arguments.
TABLE |= {
    "type_as": lambda input, other: cast(input, other.dtype),
    "fill": lambda input, value: full_tensor(recorder_of(input), input.shape, value, input.dtype),
    "zero": lambda input: full_tensor(recorder_of(input), input.shape, 0, input.dtype),
}
