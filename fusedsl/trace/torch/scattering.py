"""torch's scatters, writes at indices, and counts on tracers; the forms with _ write the result to their tensor."""

from __future__ import annotations

from typing import Any

from ...errors import ArgumentError, DTypeError, Unsupported
from ...ir import scatters
from ...ir.graph import Node
from ...ir.scatters import Target
from ..scattered_writes import flat_indices_along, flat_indices_of, merged_at
from ..subscripts import positions
from .functions import cast, dtype_of, language, recorder_of, torch_function
from .shapes import axis_of, reshape

FOLDS = {"sum": "sum", "add": "sum", "mean": "sum", "amax": "max", "amin": "min"}


def _node(x: Any, other: Any) -> Node:
    """The node of a tensor or a number."""
    return recorder_of(x).node(other)


def _alike(input: Any, source: Any, what: str) -> None:
    """DTypeError for a source of another dtype, as in torch."""
    node = _node(input, source)
    if not node.type.weak and node.type.dtype is not dtype_of(input):
        message = f"{what} writes {node.type.dtype} to a tensor of {dtype_of(input)}"
        raise DTypeError(message, f"dtype.{what}", help="cast it first: src.to(x.dtype)")


@torch_function()
def index_add(input, dim, index, source, *, alpha=1):
    _alike(input, source, "index_add")
    source = source * alpha if alpha != 1 else source
    return _along(input, dim, index, source, "sum")


@torch_function()
def index_copy(input, dim, index, source):
    _alike(input, source, "index_copy")
    r, axis = recorder_of(input), axis_of(input, dim)
    target = Target(axis)
    return r.tracer(scatters.scatter_last(r.builder, input.node, reshape(index, (-1,)).node, source.node, target))


def _along(input: Any, dim: int, index: Any, source: Any, fold: str) -> Any:
    r = recorder_of(input)
    indices = reshape(index, (-1,)).node
    target = Target(axis_of(input, dim))
    return r.tracer(scatters.scatter_fold(r.builder, input.node, indices, _node(input, source), fold, target))


@torch_function()
def index_put(input, indices, values, accumulate=False):
    r = recorder_of(input)
    _alike(input, values, "index_put")
    key = tuple(slice(None) if i is None else i for i in indices)
    flat_indices = flat_indices_of(r.builder, input.node.type.shape, positions(r, key))
    return r.tracer(
        merged_at(r.builder, input.node, flat_indices, _node(input, values), "sum" if accumulate else "last")
    )


def _places(input: Any, dim: int, index: Any) -> Node:
    return flat_indices_along(recorder_of(input).builder, input.node.type.shape, index.node, axis_of(input, dim))


def _part(index: Any, src: Any) -> Any:
    """The part of the source that has an index; numbers stay."""
    return src[tuple(slice(None, n) for n in index.shape)] if getattr(src, "ndim", 0) else src


def _merged(input: Any, dim: int, index: Any, src: Any, fold: str) -> Any:
    r = recorder_of(input)
    node = _node(input, _part(index, src))
    return r.tracer(merged_at(r.builder, input.node, _places(input, dim, index), node, fold))


@torch_function()
def scatter(input, dim, index, src=None, *, value=None, reduce=None):
    given = value if src is None else src
    _alike(input, given, "scatter")
    if reduce not in (None, "add"):
        help = "scatter_reduce has sum, mean, amax and amin; or do it outside of the function"
        raise Unsupported(f"scatter with reduce={reduce!r} is not supported", "unsupported.scatter", help=help)
    return _merged(input, dim, index, given, "sum" if reduce else "last")


@torch_function()
def scatter_add(input, dim, index, src):
    _alike(input, src, "scatter_add")
    return _merged(input, dim, index, src, "sum")


@torch_function()
def scatter_reduce(input, dim, index, src, reduce, *, include_self=True):
    _alike(input, src, "scatter_reduce")
    if reduce not in FOLDS:
        message = f"scatter_reduce with reduce={reduce!r} is not supported"
        raise Unsupported(message, "unsupported.scatter", help="sum, mean, amax and amin are there; do others outside")
    fold = FOLDS[reduce]
    zero = language("zeros_like", language("astype", input, "int64"))
    count = _merged(zero, dim, index, 1, "sum")
    if not include_self:
        r = recorder_of(input)
        empty = r.tracer(scatters.identity(r.builder, fold, dtype_of(input), input.node.type.shape))
        input = language("where", count > 0, empty, input)
    result = _merged(input, dim, index, src, fold)
    if reduce != "mean":
        return result
    if dtype_of(input).kind != "f":
        raise Unsupported("a mean of integers is not supported", "unsupported.scatter", help="cast it: x.float()")
    members = count + 1 if include_self else language("maximum", count, 1)
    return cast(result / cast(members, dtype_of(input)), dtype_of(input))


@torch_function()
def bincount(input, weights=None, minlength=0):
    if not minlength:
        help = "torch.bincount(x, minlength=n) counts the numbers below n; or count outside of the function"
        raise Unsupported("bincount has a length that depends on values", "unsupported.function", help=help)
    if input.ndim != 1:
        raise ArgumentError("bincount takes a tensor of one axis", "argument.bins", help="x.reshape(-1)")
    if weights is None:
        return language("bincount", input, minlength)
    result = language("bincount", input, minlength, weights)
    return cast(result, "float32") if dtype_of(weights).name == "float32" else result
