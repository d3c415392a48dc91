"""Error bounds of reductions and sorts."""

from __future__ import annotations

import numpy as np

from ..ir.graph import Node
from ..ir.interp import RULES
from ..ir.types import DType
from .ball import LARGEST, MIN_NORMAL, UNIT_ROUNDOFF, Ball, distance, endpoints, overflow_to_inf


def reduction(n: Node, value, bound, arguments, extents) -> Ball:
    fold, axes = n.attr
    unknown = np.isinf(bound).any(axis=axes, keepdims=True)
    if not value.size and fold in ("max", "min", "argmax", "argmin"):
        total = np.asarray(RULES["reduce"](n, [value], arguments, extents))
        return total, np.zeros(total.shape)
    if fold in ("sum", "prod") and n.type.dtype.kind == "f":  # in float64: sequential float32 sums are less exact
        total = np.asarray(getattr(np, fold)(value, axis=axes, keepdims=True))
        count = max(1, int(np.prod([value.shape[a] for a in axes])))
        rule = _sum if fold == "sum" else product_bound
        passed = rule(value, bound, total, n.type.dtype.compute, count, lambda f, x: f.reduce(x, axes, keepdims=True))
        total, passed = overflow_to_inf("add", (), total, passed, n.type.dtype.compute)
        return total, np.where(unknown, np.inf, passed)
    total = np.asarray(RULES["reduce"](n, [value], arguments, extents))
    if fold in ("argmax", "argmin"):
        return total, np.where(_may_be_best(fold, value, bound, axes[0]), np.inf, 0.0)
    if fold in ("sum", "prod"):
        return total, np.where(unknown, np.inf, 0.0)
    if value.dtype.kind == "b":
        either = [np.where(bound > 0, v, value) for v in (True, False)]
        return total, distance(total, *(RULES["reduce"](n, [v], arguments, extents) for v in either))
    moved = distance(total, *(RULES["reduce"](n, [v], arguments, extents) for v in endpoints(value, bound)))
    return total, np.where(unknown, np.inf, moved)


def _sum(value, bound, total, compute: DType, count: int, reduce_along):
    """Bound of a sum in chunks, combined in a tree; small integers are exact."""
    size = reduce_along(np.add, np.abs(np.where(np.isfinite(value), value, 0)))
    passed = reduce_along(np.add, bound)
    beyond = size + passed > LARGEST[compute.name]  # a partial sum may overflow in some order
    is_exact = reduce_along(np.logical_and, np.isfinite(value) & (value == np.trunc(value))) & (
        size * UNIT_ROUNDOFF[compute.name] <= 1
    )
    terms = min(count, 8 + 64 + np.log2(count))
    rounding = np.where((passed == 0) & is_exact, 0.0, 2 * terms * UNIT_ROUNDOFF[compute.name] * size)
    return np.where(beyond, np.inf, np.where(np.isfinite(total), passed + rounding, 0.0))


def product_bound(value, bound, total, compute: DType, count, reduce_along):
    """Bound with each factor at the end of its bound; partial products may overflow or underflow in some order."""
    size = np.where(np.isfinite(value), np.abs(value), 1.0)
    ends = reduce_along(np.multiply, size + np.where(np.isfinite(bound), bound, 0))
    passed = ends - reduce_along(np.multiply, size)
    high = reduce_along(np.multiply, np.maximum(size + bound, 1.0)) > LARGEST[compute.name]
    low = reduce_along(np.multiply, np.where(size == 0, 1.0, np.minimum(size, 1.0))) < MIN_NORMAL[compute.name]
    moved = reduce_along(np.logical_or, bound > 0)
    is_exact = (
        reduce_along(np.logical_and, value == np.trunc(value)) & (ends * UNIT_ROUNDOFF[compute.name] <= 1) & ~moved
    )
    rounding = np.where(is_exact, 0.0, 4 * count * UNIT_ROUNDOFF[compute.name] * ends)
    crossing = moved & ~np.isfinite(total)
    return np.where(high | low | crossing, np.inf, np.where(np.isfinite(total), passed * 1.001 + rounding, 0.0))


def _may_be_best(fold: str, value, bound, axis: int):
    """Whether another element than the best one may be the best within the bounds."""
    if not bound.any():
        return np.zeros([1 if a == axis else d for a, d in enumerate(value.shape)], bool)
    if value.dtype.kind != "f":
        return np.isinf(bound).any(axis=axis, keepdims=True)
    signed = value if fold == "argmax" else -value
    best = np.expand_dims(np.argmax(signed, axis=axis), axis)
    least = np.take_along_axis(signed - bound, best, axis)
    others = np.where(np.arange(value.shape[axis]).reshape([-1 if a == axis else 1 for a in range(value.ndim)]) == best,
                      -np.inf, np.where(np.isnan(signed), -np.inf, signed + bound))  # fmt: skip
    unsure = np.isinf(bound).any(axis=axis, keepdims=True)
    return unsure | ((np.max(others, axis=axis, keepdims=True) >= least) & (bound > 0).any(axis=axis, keepdims=True))


def sort(n: Node, value, bound, arguments, extents) -> Ball:
    """The k-th sorted value moves no further than that of the bounds' ends; close elements may swap positions."""
    result = np.asarray(RULES["sorted"](n, [value], arguments, extents))
    unknown = np.broadcast_to(np.isinf(bound).any(axis=-1, keepdims=True), result.shape)
    if not bound.any():
        return result, np.zeros(result.shape)
    if n.attr[0] == "values":
        moved = distance(result, *(RULES["sorted"](n, [v], arguments, extents) for v in endpoints(value, bound)))
        return result, np.where(unknown, np.inf, moved)
    ordered, slack = np.sort(value, axis=-1), np.max(bound, axis=-1, keepdims=True)
    near = ((np.diff(ordered, axis=-1) <= 2 * slack) & (slack > 0)).any(axis=-1, keepdims=True)
    return result, np.where(unknown | near, np.inf, 0.0)
