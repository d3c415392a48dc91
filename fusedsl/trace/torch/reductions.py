"""torch's reductions and scans on tracers, with torch's signatures, defaults and result types."""

from __future__ import annotations

from typing import Any

from ...ir.types import INT64, UINT8
from ...lang.declared_signatures import Refusal, declared
from .functions import TABLE, cast, dtype_of, language, need_float, recorder_of, torch_function, torch_functions
from .promotion import default_float, operate


def named_tuple(kind: str, *parts: Any) -> Any:
    """A named tuple of torch.return_types."""
    import torch

    return getattr(torch.return_types, kind)(parts)


def accumulation_dtype(input: Any, dtype: Any) -> Any:
    """The input of a sum or product: cast to `dtype`, or to int64 for integers and bools."""
    if dtype is not None:
        return cast(input, dtype)
    return input if dtype_of(input).kind == "f" else cast(input, INT64)


def axes_of(dim: Any) -> Any:
    """torch's dim as an axis of the language; an empty tuple means all dimensions."""
    return tuple(dim) if isinstance(dim, (tuple, list)) and dim else None if isinstance(dim, (tuple, list)) else dim


@torch_functions("sum nansum prod")
def _sum(name, input, dim=None, keepdim=False, *, dtype=None):
    return cast(language(name, accumulation_dtype(input, dtype), axes_of(dim), keepdims=keepdim), dtype)


@torch_functions("mean nanmean")
def _mean(name, input, dim=None, keepdim=False, *, dtype=None):
    input = cast(input, dtype)
    need_float(name, input)
    return language(name, input, axes_of(dim), keepdims=keepdim)


def ddof_of(unbiased: Any = None, correction: Any = None) -> Any:
    return correction if correction is not None else 1 if unbiased is None else int(unbiased)


@torch_functions("var std")
def _variance(name, input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """var or std; `var(x, False)` means unbiased=False over all elements."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    need_float(name, input)
    return language(name, input, axes_of(dim), ddof=ddof_of(unbiased, correction), keepdims=keepdim)


@torch_functions("var_mean=var std_mean=std")
def _variance_and_mean(name, input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    both = _variance(name, input, dim, unbiased, keepdim, correction=correction)
    return both, mean(input, None if isinstance(dim, bool) else dim, keepdim)


@torch_function()
@declared(
    "input, *, correction=1, fweights=None, aweights=None",
    Refusal("fweights aweights", "cov with weights is not supported", "cov(x, correction=)"),
)
def cov(input, correction):
    """cov, with rows as variables."""
    rows = input if dtype_of(input).kind == "f" else cast(input, default_float())
    rows = rows.reshape(1, -1) if input.ndim < 2 else rows
    centered = rows - mean(rows, 1, True)
    result = language("matmul", centered, centered.mT) / (rows.shape[1] - correction)
    return result if int(rows.shape[0]) > 1 else result[0, 0]


@torch_function()
def corrcoef(input):
    both = cov(input)
    if not both.ndim:
        return both / both
    r = recorder_of(input)
    lone = operate(r, "sqrt", TABLE["diagonal"](both))
    return language("clip", both / lone[:, None] / lone, -1, 1)


@torch_functions("max min")
def _extreme(name, input, dim=None, keepdim=False, *, other=None):
    """max or min: of all elements, of two tensors, or (values, indices) along a dimension."""
    if other is not None or (hasattr(dim, "ndim") and not dim.is_number):
        return operate(recorder_of(input), name + "imum", input, dim if other is None else other)
    if dim is None:
        return language(name, input)
    values = language(name, input, axis=dim, keepdims=keepdim)
    return named_tuple(name, values, language("arg" + name, input, dim, keepdims=keepdim))


@torch_functions("amax=max amin=min")
def _extreme_value(name, input, dim=(), keepdim=False):
    return language(name, input, axis=axes_of(dim), keepdims=keepdim)


@torch_function()
def aminmax(input, *, dim=None, keepdim=False):
    result = (language(name, input, axis=dim, keepdims=keepdim) for name in ("min", "max"))
    return named_tuple("aminmax", *result)


@torch_functions("argmax argmin")
def _extreme_index(name, input, dim=None, keepdim=False):
    return language(name, input, dim, keepdims=keepdim)


@torch_functions("any all")
def _any_all(name, input, dim=None, keepdim=False):
    result = language(name, input, axes_of(dim), keepdims=keepdim)
    return cast(result, UINT8) if dtype_of(input) is UINT8 else result


@torch_function()
def count_nonzero(input, dim=None):
    return language("count_nonzero", input, axes_of(dim))


@torch_function()
def logsumexp(input, dim, keepdim=False):
    input = input if dtype_of(input).kind == "f" else cast(input, default_float())
    return language("logsumexp", input, axes_of(dim), keepdims=keepdim)


total, mean, var, amax = (TABLE[name] for name in ("sum", "mean", "var", "amax"))  # as other files call them

# -- scans


@torch_functions("cumsum cumprod")
def _cumulative(name, input, dim, *, dtype=None):
    return cast(language(name, accumulation_dtype(input, dtype), dim), dtype)


@torch_function()
def logcumsumexp(input, dim):
    need_float("logcumsumexp", input)
    return language("logcumsumexp", input, dim)


@torch_functions("cummax cummin")
def _scan_with_indices(name, input, dim):
    """cummax or cummin, (values, indices): the last of equal values; after a NaN, the last NaN."""
    values = language(name, input, dim)
    is_extreme = (input == values) | (input != input)
    index = cast(recorder_of(input).apply("iota", input, dim), INT64)
    return named_tuple(name, values, language("cummax", language("where", is_extreme, index, 0), dim))


@torch_functions("trapezoid=sum trapz=sum cumulative_trapezoid=cumsum")
def _trapezoid(name, y, x=None, *, dx=1, dim=-1):
    """The sum or cumulative sum of the areas of trapezoids between neighbours."""
    step = dx if x is None else diff(x, dim=-1 if x.ndim == 1 else dim)
    if x is not None and x.ndim == 1 and y.ndim > 1:
        step = step.reshape(-1, *[1] * (y.ndim - 1 - dim % y.ndim))
    cut = [slice(None)] * (dim % y.ndim)
    twice = (y[(*cut, slice(1, None))] + y[(*cut, slice(None, -1))]) * step
    return language(name, twice, dim) * 0.5


@torch_function()
def diff(input, n=1, dim=-1, prepend=None, append=None):
    if n == 0:
        return input
    given = {name: edge for name, edge in (("prepend", prepend), ("append", append)) if edge is not None}
    return language("diff", input, n, dim, **given)
