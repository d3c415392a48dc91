"""Dispatch of torch's functions and methods on tracers: the function table, argument binding, out= and in-place forms.

The functions are in the other files of this folder, each with torch's own signature. Their tensor arguments are tracers
already.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from ...errors import ArgumentError, DTypeError, ShapeError, Unsupported, kind_of
from ..array_library import is_array
from ..recorder import Recorder
from ..tracer import Tracer
from ..unsupported import refusal
from ..views import View

TABLE: dict[str, Callable[..., Any]] = {}
ALIASES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}
NAMESPACES = ("special_", "linalg_")  # name prefixes of functions in torch.special and torch.linalg
# Arguments that decide the shape or meaning of the result: the trace is specialised on run-time numbers among them.
STATIC = frozenset([
    "dim", "dims", "dim0", "dim1", "dim2", "start_dim", "end_dim", "start", "length", "k", "n", "pad", "size",
    "shape", "sizes", "repeats", "shifts", "diagonal", "offset", "chunks", "sections", "split_size",
    "split_size_or_sections", "indices_or_sections", "num_classes", "num_groups", "groups", "source", "destination",
    "keepdim", "unbiased", "correction", "p", "ord", "decimals", "normalized_shape", "kernel_size", "stride",
    "padding", "scale_factor", "upscale_factor", "downscale_factor", "approximate", "reduction",
])  # fmt: skip
# Functions along a dimension; torch accepts dim 0 and -1 for tensors without dimensions.
DIM_FUNCTIONS = frozenset([
    "sum", "nansum", "prod", "mean", "nanmean", "var", "std", "var_mean", "std_mean", "max", "min", "amax", "amin",
    "aminmax", "argmax", "argmin", "any", "all", "count_nonzero", "logsumexp", "norm", "vector_norm", "cumsum",
    "cumprod", "cummax", "cummin", "logcumsumexp", "sort", "argsort", "topk", "softmax", "log_softmax", "softmin",
    "normalize",
])  # fmt: skip


def torch_function(*names: str) -> Callable[[Callable], Callable]:
    """Register a function under its name without a trailing `_`, and under aliases."""

    def put(function: Callable) -> Callable:
        for name in (function.__name__.rstrip("_"), *names):
            TABLE[name] = function
        return function

    return put


def torch_functions(names: str) -> Callable[[Callable], Callable]:
    """Register a function under several names, which it is passed first; of `name=meant`, `meant` is passed."""

    def put(function: Callable) -> Callable:
        for name, _, meant in (part.partition("=") for part in names.split()):
            named = partial(function, meant or name)
            named.__module__ = function.__module__
            TABLE[name] = named
        return function

    return put


@cache
def _loaded() -> dict[str, Callable[..., Any]]:
    from . import (  # noqa: F401
        clamps,
        contractions,
        convolutions,
        creation,
        interpolate,
        joins,
        margin_losses,
        math,
        nn,
        normalization,
        norms,
        pooling,
        reductions,
        scattering,
        shapes,
        sorting,
        splitting,
    )

    return TABLE


def name_of(function: Any) -> str:
    """The table's name of a torch function or method."""
    name = getattr(function, "__name__", str(function))
    if (getattr(function, "__module__", None) or "").startswith("torch.masked"):
        return f"masked.{name}"  # a function of another signature
    if type(function).__name__ in ("OpOverload", "OpOverloadPacket"):
        name = name.partition(".")[0]  # torch.ops.aten.add.Tensor
    if type(function).__name__ == "builtin_function_or_method" and _takes_reduction(name):
        return (
            f"{name} (torch.nn.functional.{name} is there)"  # the builtin's reduction is an enum, with another default
        )
    name = name.strip("_") if name.startswith("__") else name
    is_method = type(function).__name__ == "method_descriptor"
    return f"Tensor.{name}" if is_method and f"Tensor.{name}" in _loaded() else name


@cache
def _takes_reduction(name: str) -> bool:
    """True if torch.nn.functional has a function of this name with a `reduction` argument."""
    import torch

    function = getattr(torch.nn.functional, name, None)
    return inspect.isfunction(function) and "reduction" in inspect.signature(function).parameters


def method_name(name: str) -> str | None:
    """The table's name of a tensor method; None if there is no such method."""
    import torch

    if name.startswith("__") or not callable(getattr(torch.Tensor, name, None)):
        return None
    return f"Tensor.{name}" if f"Tensor.{name}" in _loaded() else name


def call(recorder: Recorder, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Call torch's function `name` on tracers."""
    table = _loaded()
    for prefix in NAMESPACES:
        plain = name.removeprefix(prefix)
        name = plain if name not in table and plain in table else name
    args, kwargs = _lift(recorder, args), _lift(recorder, kwargs)
    if name not in table and name.endswith("_copy") and name.removesuffix("_copy") in table:
        return _mapped(call(recorder, name.removesuffix("_copy"), args, kwargs), lambda x: language("copy", x))
    if name not in table and name.endswith("_") and name[:-1] in table:
        return _in_place(recorder, name, args, kwargs)
    if name not in table:
        raise refusal(name, f"torch.{name} cannot be traced")
    function = table[name]
    out = kwargs.pop("out", None)
    inplace = kwargs.pop("inplace", False)
    bound = _bound(function, name, args, kwargs)
    for key in STATIC & bound.arguments.keys():
        value = bound.arguments[key]
        bound.arguments[key] = (
            recorder.specialized(value) if not isinstance(value, Tracer) or value.is_number else value
        )
    with recorder.at_user_line():
        result = _single_operand(function, bound) if name in DIM_FUNCTIONS else function(*bound.args, **bound.kwargs)
        if inplace:
            out = bound.arguments["input"]
        return result if out is None else _write_back(out, result)


def _lift(recorder: Recorder, value: Any) -> Any:
    """Arguments with arrays lifted to tracers."""
    if isinstance(value, dict):
        return {name: _lift(recorder, part) for name, part in value.items()}
    if type(value) in (tuple, list):
        return type(value)(_lift(recorder, part) for part in value)
    return recorder.lifted(value) if is_array(value) and not isinstance(value, Tracer) else value


def _bound(function: Callable, name: str, args: tuple, kwargs: dict[str, Any]) -> inspect.BoundArguments:
    """Arguments bound by torch's names; NumPy's names are accepted as in torch."""
    signature = _signature(function)
    for given, meant in ALIASES.items():
        if given in kwargs and given not in signature.parameters and meant in signature.parameters:
            kwargs[meant] = kwargs.pop(given)
    for needless in ("_stacklevel", "memory_format", "non_blocking", "layout", "pin_memory", "requires_grad"):
        if needless not in signature.parameters:
            kwargs.pop(needless, None)
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL and (key := _name_with_reduction(parameter.name, kwargs)):
            args = (*args, kwargs.pop(key))
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentError(f"torch.{name}: {error}", "argument.binding", help="torch's own signature holds") from None


def _name_with_reduction(name: str, kwargs: dict[str, Any]) -> str | None:
    """The keyword that torch accepts in place of variadic arguments; None if the call has none."""
    return next((key for key in (name, "size", "shape", "dims") if key in kwargs), None)


_signature = cache(inspect.signature)


def _single_operand(function: Callable, bound: inspect.BoundArguments) -> Any:
    """A function along a dimension; a 0-d tensor is computed as a vector of one element."""
    input = bound.arguments["input"]
    dim = bound.arguments.get("dim", bound.signature.parameters["dim"].default)
    dims = dim if isinstance(dim, (tuple, list)) else (dim,)
    if input.ndim or not dims or any(type(d) is not int or d not in (0, -1) for d in dims):
        return function(*bound.args, **bound.kwargs)
    bound.arguments["input"] = as_vector(input)
    return _mapped(function(*bound.args, **bound.kwargs), lambda x: x.reshape(()))


def _mapped(result: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(result, tuple):
        parts = [_mapped(part, change) for part in result]
        return type(result)(parts) if type(result) is not tuple else tuple(parts)
    return change(result)


RESHAPED = ("squeeze_", "unsqueeze_", "transpose_", "swapaxes_", "swapdims_", "t_")


def _in_place(recorder: Recorder, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """An in-place method, `x.add_(y)`: writes the function's result to its first argument."""
    target = args[0]
    if name in RESHAPED:
        raise Unsupported(f"{name} changes the shape of its tensor", "unsupported.view",
                          help=f"x = x.{name[:-1]}(...) is a view")  # fmt: skip
    result = call(recorder, name[:-1], args, kwargs)
    with recorder.at_user_line():
        return _write_back(target, result)


def _write_back(target: Any, result: Any) -> Any:
    if isinstance(target, (tuple, list)):
        return type(result)([_write_back(t, r) for t, r in zip(target, result)])
    if not isinstance(target, Tracer):
        raise ArgumentError(f"out is {kind_of(target)}", "trace.out", help="pass a tensor")
    if result.ndim > target.ndim:
        raise ShapeError(
            "the result has more axes than the tensor that it goes to",
            "shape.write",
            help="index or squeeze the result, or pass a larger tensor",
        )
    target._write(result.node, "same_kind")
    return target


# -- helpers for the functions


def recorder_of(*values: Any) -> Recorder:
    """The recorder of the first tracer."""
    return next(v.recorder for v in values if isinstance(v, Tracer))


def language(name: str, *values: Any, **named: Any) -> Any:
    """Call a function of the language on tensors, without torch's promotion."""
    flat = [part for v in values for part in (v if isinstance(v, (tuple, list)) else (v,))]
    return recorder_of(*flat).apply(name, *values, **named)


def dtype_of(x: Any) -> Any:
    """The element type of a tracer."""
    return x.node.type.dtype


def cast(x: Any, dtype: Any) -> Any:
    """`x.to(dtype)`, for dtypes of torch or the language; a view if the dtype is the same."""
    if dtype is None:
        return x
    to = x.recorder.dtype(dtype)
    if to is dtype_of(x):
        return x.viewed(View(lambda node: x.recorder.builder.cast(node, to), lambda base, value: value))
    return x.recorder.apply("astype", x, to)


def as_vector(x: Any) -> Any:
    """The tensor; a 0-d tensor as a vector of one element."""
    return x if x.ndim else x.reshape(1)


def need_float(name: str, x: Any) -> None:
    """DTypeError for integers, if torch's function takes floats only."""
    if dtype_of(x).kind != "f":
        raise DTypeError(
            f"torch's {name} takes floats, not {dtype_of(x)}", f"dtype.{name}", help="cast it first: x.float()"
        )
