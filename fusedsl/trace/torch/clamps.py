"""torch's clamps and choices on tracers: clamp, where, masked_fill, nan_to_num."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from ...errors import ArgumentError, DTypeError
from ...ir.types import BOOL
from .functions import TABLE, dtype_of, language, recorder_of, torch_function
from .numbers import checked_convert, checked_integer
from .promotion import common


@torch_function("clip")
def clamp(input, min=None, max=None):
    given = [bound for bound in (min, max) if bound is not None]
    if not given:
        raise ArgumentError("clamp takes min, max or both", "argument.missing", help="torch.clamp(x, min=0)")
    if len(given) == 1 and type(given[0]) is float and math.isnan(given[0]) and not _nan_is_a_bound():
        return _clamped(input, min=None if min is None else -math.inf, max=None if max is None else math.inf)
    return _clamped(input, min, max)


@cache
def _nan_is_a_bound() -> bool:
    """True if clamp with NaN as its only bound gives NaN: some releases of torch ignore such a bound."""
    import torch

    return bool(torch.clamp(torch.zeros(1), min=math.nan).isnan())


def _clamped(input, min=None, max=None):
    given = [bound for bound in (min, max) if bound is not None]
    r = recorder_of(input, *given)
    (x, *bounds), dtype = common(r, input, *given)
    if dtype is BOOL:
        raise DTypeError("torch has no clamp of bools", "dtype.clamp", help="cast it first")
    bounds = [checked_convert(r, bound, dtype) if is_number(r, bound) else b for bound, b in zip(given, bounds)]
    low, high = (bounds[0], bounds[-1]) if len(given) == 2 else (bounds[0], None) if max is None else (None, bounds[0])
    result = r.tracer(x)
    for name, bound in (("maximum", low), ("minimum", high)):
        result = result if bound is None else language(name, result, r.tracer(bound))
    return result


TABLE["clamp_min"] = lambda input, min: _clamped(input, min=min)
TABLE["clamp_max"] = lambda input, max: _clamped(input, max=max)


@torch_function()
def where(condition, input=None, other=None):
    if input is None:
        raise ArgumentError("where with one argument has no known shape", "argument.missing", help="give all three")
    r = recorder_of(condition, input, other)
    nodes, dtype = common(r, input, other)
    numbers = (checked_integer(r, v, dtype) if is_number(r, v) else x for v, x in zip((input, other), nodes))
    return language("where", condition, *map(r.tracer, numbers))


TABLE["Tensor.where"] = lambda input, condition, other: where(condition, input, other)


def is_number(r: Any, x: Any) -> bool:
    """True for a Python number, traced or not."""
    node = r.node(x)
    return not node.type.shape and (node.type.weak or type(x) is bool)


@torch_function()
def masked_fill(input, mask, value):
    r, dtype = recorder_of(input), dtype_of(input)
    if r.node(value).type.dtype.kind == "f" and dtype.kind != "f" and not is_number(r, value):
        raise DTypeError(f"a float does not go into {dtype}", "dtype.write", help="cast it first: x.to")
    return language("where", mask, r.tracer(checked_convert(r, value, dtype)), input)


@torch_function()
def nan_to_num(input, nan=None, posinf=None, neginf=None):
    given = {"nan": nan, "posinf": posinf, "neginf": neginf}
    return language("nan_to_num", input, **{name: value for name, value in given.items() if value is not None})
