"""torch's contractions on tracers: matmul and its variants, einsum, cross, scaled_dot_product_attention."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from ...errors import ArgumentError, DTypeError, ShapeError, kind_of
from ...ir.graph import Check
from ...ir.types import BOOL, FLOAT32
from ...lang.declared_signatures import declared
from ..numpy.contractions import subscripts_as_text
from ..tracer import Tracer
from .functions import TABLE, cast, dtype_of, language, recorder_of, torch_function
from .joins import outer
from .nn import dropout
from .numbers import checked_integer
from .reductions import total
from .shapes import reshape, transpose, unsqueeze


@torch_function("mm", "bmm", "mv", "dot", "vdot")
def matmul(input, other):
    return language("matmul", input, other)


@torch_function()
def linear(input, weight, bias=None):
    result = language("matmul", input, transpose(weight, 0, 1) if weight.ndim == 2 else weight)
    return result if bias is None else result + bias


def _scaled_sum(input: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """beta * input + alpha * product; a beta of 0 ignores NaN in input."""
    r, dtype = recorder_of(product), dtype_of(product)
    if dtype.kind != "f":
        beta, alpha = int(beta), int(alpha)
    scaled = product if alpha == 1 else product * r.tracer(checked_integer(r, alpha, dtype))
    return scaled if beta == 0 else (input if beta == 1 else input * r.tracer(checked_integer(r, beta, dtype))) + scaled


@torch_function("baddbmm")
def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    return _scaled_sum(input, matmul(mat1, mat2), beta, alpha)


@torch_function()
def addbmm(input, batch1, batch2, *, beta=1, alpha=1):
    return _scaled_sum(input, total(matmul(batch1, batch2), 0, dtype=batch1.dtype), beta, alpha)


@torch_function("linalg_multi_dot")
def chain_matmul(*matrices):
    parts = matrices[0] if isinstance(matrices[0], (tuple, list)) else matrices
    result = parts[0]
    for x in parts[1:]:
        result = matmul(result, x)
    return result


@torch_function()
def inner(input, other):
    """inner: the sum over the last dimension of both."""
    if not input.ndim or not other.ndim:
        return input * other
    return language("tensordot", input, other, ((input.ndim - 1,), (other.ndim - 1,)))


@torch_function()
def tensordot(a, b, dims=2, out=None):
    if not isinstance(dims, int):
        dims = tuple(tuple(side) if isinstance(side, (tuple, list)) else (side,) for side in dims)
    return language("tensordot", a, b, dims)


@torch_function()
def kron(input, other):
    rank = max(input.ndim, other.ndim)
    x, y = (reshape(v, (*[1] * (rank - v.ndim), *v.shape)) for v in (input, other))
    outer_ = reshape(x, tuple(e for n in x.shape for e in (n, 1))) * reshape(
        y, tuple(e for n in y.shape for e in (1, n))
    )
    return reshape(outer_, tuple(n * m for n, m in zip(x.shape, y.shape)))


@torch_function()
def linalg_cross(input, other, *, dim=-1):
    def part(x: Any, shift: int) -> Any:
        return language("roll", x, shift, dim)

    for x in (input, other):
        if int(x.shape[dim]) != 3:
            raise ShapeError(f"cross takes 3 elements along dimension {dim}", "shape.cross", help="pass dim=")
    return part(input, -1) * part(other, -2) - part(input, -2) * part(other, -1)


@torch_function()
def cross(input, other, dim=None):
    """cross; the default dim is the first one with 3 elements."""
    axes = [k for k, n in enumerate(input.shape) if int(n) == 3] if dim is None else [dim]
    if not axes:
        raise ShapeError("cross takes a dimension of 3 elements", "shape.cross", help="pass dim=")
    return linalg_cross(input, other, dim=axes[0])


@torch_function()
def einsum(equation, *operands):
    """einsum; unlike NumPy, torch sums over the axes of `...` if the result has no `...`."""
    if isinstance(equation, str) and len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = tuple(operands[0])
    equation, parts = subscripts_as_text(equation, operands)
    given, arrow, result = equation.replace(" ", "").partition("->")
    r = recorder_of(*parts)
    if not arrow or "..." in result or "..." not in given:
        return r.apply("einsum", equation, *parts)
    product = r.apply("einsum", f"{given}->...{result}", *parts)
    outer = tuple(range(product.ndim - len(result)))
    return total(product, outer, dtype=product.dtype) if outer else product


# -- attention


@torch_function()
@declared("query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False")
def scaled_dot_product_attention(query, key, value, dropout_p, enable_gqa, **score):
    """softmax(q k^T scale + mask) v; fully masked rows are 0, as in torch."""
    dropout(query, dropout_p)
    given = _Scores.of(query, **score)
    _check_types(query, key, value)
    if enable_gqa and query.ndim > 2 and int(query.shape[-3]) != int(key.shape[-3]):
        return _grouped_query_attention(query, key, value, given)
    for other in () if enable_gqa else (key, value):
        _check_heads(query, other)
    return _softmax_attention(query, key, value, given)


@dataclass(frozen=True)
class _Scores:
    """What becomes of the products of queries and keys: scaled, and masked."""

    scale: Any
    mask: Any
    is_causal: bool

    @classmethod
    def of(cls, query: Any, attn_mask: Any, is_causal: Any, scale: Any) -> _Scores:
        """torch's arguments, checked."""
        is_causal = recorder_of(query).specialized(is_causal)
        _check_options(query, attn_mask, is_causal, scale)
        return cls(query.shape[-1] ** -0.5 if scale is None else scale, attn_mask, is_causal)


def _check_options(query: Any, mask: Any, is_causal: Any, scale: Any) -> None:
    """Check the mask, is_causal and scale: a mask is bool, float32 or of query's dtype, and excludes is_causal."""
    if not isinstance(is_causal, bool):
        message = f"is_causal is True or False, not {is_causal!r}"
        raise ArgumentError(message, "argument.attention", help="write one of them")
    if getattr(scale, "ndim", 0):
        help = "scale is one number: multiply query by scales of its heads"
        raise ArgumentError("scale is a tensor with dimensions", "argument.attention", help=help)
    if mask is None:
        return
    if not isinstance(mask, Tracer):
        message = f"attn_mask is {kind_of(mask)}"
        raise ArgumentError(message, "argument.attention", help="pass a tensor")
    if is_causal:
        message = "attn_mask and is_causal=True do not go together"
        help = "put both in the mask: attn_mask & torch.ones(n, m, dtype=torch.bool).tril()"
        raise ArgumentError(message, "argument.attention", help=help)
    if dtype_of(mask) not in (BOOL, FLOAT32, dtype_of(query)):
        message = f"attn_mask is {dtype_of(mask)} beside a query of {dtype_of(query)}"
        help = "True keeps, numbers are added: cast it to bool, or to query's dtype"
        raise DTypeError(message, "dtype.attention", help=help)


def _check_types(query: Any, key: Any, value: Any) -> None:
    for name, x in (("query", query), ("key", key), ("value", value)):
        kind = dtype_of(x)
        if kind.kind != "f" or kind.storage:
            message, help = f"attention is of floats, and {name} is {kind}", f"cast it: {name}.to(torch.float32)"
            raise DTypeError(message, "dtype.attention", help=help)
        if kind is not dtype_of(query):
            message = f"query, key and value have one dtype, and {name} is {kind} beside {dtype_of(query)}"
            raise DTypeError(message, "dtype.attention", help=f"cast it: {name}.to(query.dtype)")


def _check_heads(query: Any, other: Any) -> None:
    """Check that query and key or value have the same number of heads, or 1; GQA needs enable_gqa."""
    if query.ndim > 2 and other.ndim > 2:
        types = (query.node.type, other.node.type)
        check = Check("equal", (), "scaled_dot_product_attention", types)
        recorder_of(query).builder.broadcast([(t.shape[-3], 1, 1) for t in types], check)


def _softmax_attention(query: Any, key: Any, value: Any, given: _Scores) -> Any:
    scores = language("matmul", query, transpose(key, -2, -1)) * given.scale
    keep, mask = None, given.mask
    if given.is_causal:
        r = recorder_of(query)
        keep = unsqueeze(r.apply("arange", query.shape[-2]), 1) >= r.apply("arange", key.shape[-2])
    if mask is not None:
        mask, is_mask = language("broadcast_to", mask, scores.shape), dtype_of(mask) is BOOL
        keep = mask if is_mask else mask != -math.inf
        scores = scores if is_mask else scores + mask
    weights = language("softmax", scores, -1) if keep is None else language("softmax", scores, -1, where=keep)
    return language("matmul", cast(weights, dtype_of(value)), value)  # beside float32 masks, weights are wider


def _grouped_query_attention(query: Any, key: Any, value: Any, given: _Scores) -> Any:
    """Grouped-query attention: query heads that share a key head become a separate dimension."""
    heads = key.shape[-3]
    shared = int(query.shape[-3]) // int(heads)
    if shared * int(heads) != int(query.shape[-3]):
        raise ShapeError("heads of keys do not divide those of queries", "shape.attention", help="repeat the keys")

    def split_heads(x: Any) -> Any:
        return reshape(x, (*x.shape[:-3], heads, shared, *x.shape[-2:]))

    if (mask := given.mask) is not None and mask.ndim > 2:
        given = replace(given, mask=split_heads(mask) if int(mask.shape[-3]) > 1 else unsqueeze(mask, -3))
    result = _softmax_attention(split_heads(query), unsqueeze(key, -3), unsqueeze(value, -3), given)
    return reshape(result, (*query.shape[:-1], value.shape[-1]))


# Formulas, and functions that are others with some of their arguments.
TABLE |= {
    "addmv": lambda input, mat, vec, *, beta=1, alpha=1: _scaled_sum(input, matmul(mat, vec), beta, alpha),
    "addr": lambda input, vec1, vec2, *, beta=1, alpha=1: _scaled_sum(input, outer(vec1, vec2), beta, alpha),
    **dict.fromkeys(("linalg_vecdot", "vecdot"), lambda input, other, *, dim=-1: total(input * other, dim)),
}
