"""torch's sorting functions on tracers: sort, topk, kthvalue, median, quantile, searchsorted, bucketize."""

from __future__ import annotations

import math
from typing import Any

from ...errors import Unsupported
from ..sorting import has_nan, length_of, search, sorted_rows
from .functions import cast, language, need_float, recorder_of, torch_function, torch_functions
from .reductions import named_tuple


def _along(name: str, input: Any, dim: int, **named: Any) -> Any:
    """A row function of the language along any dimension."""
    if dim in (-1, input.ndim - 1):
        return language(name, input, -1, **named)
    swapped = language(name, language("swapaxes", input, dim, -1), -1, **named)
    return language("swapaxes", swapped, dim, -1)


@torch_function()
def sort(input, dim=-1, descending=False, stable=False):
    order = {"descending": descending}
    return named_tuple("sort", _along("sort", input, dim, **order), _along("argsort", input, dim, **order))


@torch_function()
def msort(input):
    return sort(input, 0)[0]


@torch_function()
def argsort(input, dim=-1, descending=False, stable=False):
    return _along("argsort", input, dim, descending=descending)


@torch_function()
def topk(input, k, dim=-1, largest=True, sorted=True):
    if largest and dim in (-1, input.ndim - 1):
        return named_tuple("topk", *language("topk", input, k))
    result = sort(input, dim, largest)
    cut = (*[slice(None)] * (dim % input.ndim), slice(None, k))
    return named_tuple("topk", result[0][cut], result[1][cut])


def _kth(input: Any, dim: Any, k: int, keepdim: bool, nan: bool) -> tuple[Any, Any]:
    """(k-th smallest element of each row, its index); with `nan`, the first NaN of a row that has one."""
    r = recorder_of(input)
    rows, indices = sorted_rows(r, input, dim), sorted_rows(r, input, dim, "argsort")
    value, index = rows[..., k], indices[..., k]
    if nan and (gone := has_nan(r, rows)) is not None:
        value = language("where", gone, math.nan, value)
        index = language("where", gone, language("argmax", input, dim), index)
    if not keepdim:
        return value, index
    shape = [1 if a == dim % input.ndim else n for a, n in enumerate(input.shape)]
    return value.reshape(shape), index.reshape(shape)


@torch_function()
def kthvalue(input, k, dim=-1, keepdim=False):
    return named_tuple("kthvalue", *_kth(input, dim, k - 1, keepdim, nan=False))


@torch_function()
def median(input, dim=None, keepdim=False):
    """median: the lower of the two middle elements."""
    if dim is None:
        return _kth(input.reshape(-1), 0, (length_of(input.reshape(-1), "a median") - 1) // 2, False, nan=True)[0]
    return named_tuple("median", *_kth(input, dim, (int(input.shape[dim]) - 1) // 2, keepdim, nan=True))


@torch_function()
def nanmedian(input, dim=None, keepdim=False):
    """nanmedian of all elements: the lower of the two middle ones."""
    need_float("nanmedian", input)
    if dim is not None:
        help = "torch.nanquantile(x, 0.5, dim, interpolation='lower') has its values"
        raise Unsupported("nanmedian along an axis, with indices, is not supported", "unsupported.order", help=help)
    return language("nanquantile", input, 0.5, method="lower")


@torch_functions("quantile nanquantile")
def _quantile(name, input, q, dim=None, keepdim=False, *, interpolation="linear"):
    need_float(name, input)
    return language(name, input, q, dim, method=interpolation, keepdims=keepdim)


@torch_function()
def searchsorted(sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None):
    if sorter is not None:
        raise Unsupported("searchsorted(sorter=) is not supported", "unsupported.order", help="pass x[sorter]")
    r = recorder_of(sorted_sequence, input)
    values = r.tracer(r.builder.strong(r.node(input)))
    result = search(r, sorted_sequence, values, right or side == "right")
    return cast(result, "int32") if out_int32 else result


@torch_function()
def bucketize(input, boundaries, *, out_int32=False, right=False):
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)
