"""torch's norms and distances on tracers, with torch's signatures and defaults."""

from __future__ import annotations

import math
from typing import Any

from ...errors import Unsupported
from .functions import cast, language, need_float, recorder_of, torch_function
from .reductions import accumulation_dtype, axes_of, ddof_of


@torch_function("vector_norm")
def norm(input, p="fro", dim=None, keepdim=False, dtype=None, *, ord=None):
    input = cast(input, dtype)
    need_float("norm", input)
    p = p if ord is None else ord
    return p_norm(input, 2 if p in ("fro", None) else p, axes_of(dim), keepdim)


@torch_function()
def frobenius_norm(input, dim=None, keepdim=False):
    return norm(input, 2, dim, keepdim)


@torch_function()
def linalg_norm(input, ord=None, dim=None, keepdim=False, *, dtype=None):
    """linalg.norm: a vector norm, a matrix norm for two dimensions; without ord and dim the 2-norm of all elements."""
    count = len(dim) if isinstance(dim, (tuple, list)) else 1 if dim is not None else input.ndim
    if ord is None or count == 1:
        return norm(input, 2 if ord is None else ord, dim, keepdim, dtype)
    return linalg_matrix_norm(input, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)


@torch_function()
def linalg_matrix_norm(input, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None):
    if ord == "fro":
        return norm(input, 2, dim, keepdim, dtype)
    if ord not in (1, -1, math.inf, -math.inf):
        raise Unsupported(
            f"the matrix norm {ord} is not supported", "unsupported.function", help="'fro', 1, inf and their like"
        )
    input = cast(input, dtype)
    need_float("norm", input)
    rows, columns = recorder_of(input).axes(input, dim)
    added, other_axis = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = language("sum", abs(input), added, keepdims=True)
    result = language("max" if ord > 0 else "min", sums, axis=other_axis, keepdims=True)
    return result if keepdim else language("squeeze", result, (rows, columns))


def p_norm(input: Any, p: Any, dim: Any, keepdim: bool) -> Any:
    """(sum |x|^p)^(1/p) and its limits."""
    if isinstance(p, str):
        raise Unsupported(f"the norm {p!r} is not supported", "unsupported.function", help="a number, or 'fro'")
    p = float(p)
    if p == 2:
        return language("norm", input, dim, keepdims=keepdim)
    size = abs(input)
    if p in (float("inf"), -float("inf")):
        return language("max" if p > 0 else "min", size, axis=dim, keepdims=keepdim)
    if p == 0:
        return cast(language("sum", size != 0, dim, keepdims=keepdim), input.dtype)
    total = language("sum", size if p == 1 else size**p, dim, keepdims=keepdim)
    return total if p == 1 else total ** (1 / p)


@torch_function()
def dist(input, other, p=2):
    return p_norm(input - other, p, None, False)


def reduced_where(name: str, input: Any, mask: Any, dim: Any, *, dtype: Any = None, **spread: Any) -> Any:
    """A reduction of the elements that a mask selects; `spread` is torch's unbiased= or correction=."""
    ddof = ddof_of(**spread)
    if name in ("sum", "prod"):
        return cast(language(name, accumulation_dtype(input, dtype), dim, where=mask), dtype)
    if name in ("mean", "var", "std"):
        need_float(name, input)
        return language(name, input, dim, where=mask, **({} if name == "mean" else {"ddof": ddof}))
    return language(name, input, axis=dim, where=mask)
