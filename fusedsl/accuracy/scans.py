"""Error bounds of scans: prefix sums, products, extremes, recurrences and logarithms of sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir.folds import SCANS
from ..ir.graph import Node
from ..ir.interp_scans import accumulate, empty, linear, shifted
from ..ir.interp_scans import scan as prefixes_of
from ..ir.types import DType, numpy_dtype
from .ball import LARGEST, MIN_SUBNORMAL, UNIT_ROUNDOFF, Ball, distance, endpoints, overflow_to_inf
from .reductions import product_bound


def scan(n: Node, args: Sequence[Ball]) -> Ball:
    """Bound of prefixes: a few hundred sequential additions, then those of whole tiles."""
    fold, axis, exclusive = n.attr
    total, bound = _recurrence(n, args) if fold == "linear" else _inclusive(n, *args[0])
    if not exclusive:
        return total, bound
    nothing = empty(fold, total.dtype, SCANS[fold].finish)
    return shifted(total, axis, nothing), shifted(bound, axis, np.float64(0))


def _inclusive(n: Node, value, bound) -> Ball:
    fold, axis, _ = n.attr
    unknown = np.logical_or.accumulate(np.isinf(bound), axis=axis)
    if fold == "logsumexp":
        total, passed = _logarithms(value, bound, axis, n.type.dtype.compute)
        return total, np.where(unknown, np.inf, passed)
    if n.type.dtype.kind != "f":
        total = accumulate(fold, value, axis, numpy_dtype(n.type.dtype))
        return total, np.where(unknown, np.inf, 0.0)
    total, compute = accumulate(fold, value, axis), n.type.dtype.compute
    if fold in ("max", "min"):
        moved = distance(total, *(accumulate(fold, v, axis) for v in endpoints(value, bound)))
        return total, np.where(unknown, np.inf, moved)
    count = _count(value, axis)
    if fold == "sum":
        passed = _prefix_sums(value, bound, total, compute, _serial(count), axis)
    else:
        passed = product_bound(value, bound, total, compute, count, lambda f, x: f.accumulate(x, axis=axis))
    total, passed = overflow_to_inf("add", (), total, passed, compute)
    return total, np.where(unknown, np.inf, passed)


def _count(value, axis: int):
    return np.arange(1, value.shape[axis] + 1).reshape([-1 if a == axis else 1 for a in range(value.ndim)])


def _serial(count):
    """Merges one after another: of a tile's elements, then of tiles."""
    return np.minimum(count, 256 + count // 1024)


def _prefix_sums(value, bound, total, compute: DType, serial, axis: int):
    size = np.add.accumulate(np.abs(np.where(np.isfinite(value), value, 0)), axis=axis)
    passed = np.add.accumulate(bound, axis=axis)
    whole = np.logical_and.accumulate(np.isfinite(value) & (value == np.trunc(value)), axis=axis)
    exact = (passed == 0) & whole & (size * UNIT_ROUNDOFF[compute.name] <= 1)
    result = passed + np.where(exact, 0.0, 2 * serial * UNIT_ROUNDOFF[compute.name] * size)
    return np.where(size + passed > LARGEST[compute.name], np.inf, np.where(np.isfinite(total), result, 0.0))


def _logarithms(value, bound, axis: int, compute: DType) -> Ball:
    """Bound of a running log-sum-exp: it moves no further than its terms; a merge scales by an exponential and adds."""
    value = value.astype(np.float64)
    total = prefixes_of("logsumexp", [value], axis, False, np.dtype(np.float64))
    moved = np.maximum.accumulate(bound, axis=axis)
    spread = np.abs(np.maximum.accumulate(np.where(np.isfinite(value), np.abs(value), 0), axis=axis))
    rounding = UNIT_ROUNDOFF[compute.name] * (8 * _serial(_count(value, axis)) + 4 * spread + 4 * np.abs(total))
    return total, np.where(np.isfinite(total), moved + rounding, 0.0)


def _recurrence(n: Node, args: Sequence[Ball]) -> Ball:
    """Bound of h[t] = a[t] h[t-1] + b[t], merged in any order.

    Products of neighbouring a are held: if one overflows, any result is right; if one underflows, the bound grows.
    """
    axis, compute = n.attr[1], n.type.dtype.compute
    (a, a_bound), (b, b_bound) = ([np.moveaxis(x, axis, 0) for x in arg] for arg in args)
    a, b, a_bound, b_bound = np.broadcast_arrays(a, b, a_bound, b_bound)
    unknown = np.logical_or.accumulate(np.isinf(a_bound) | np.isinf(b_bound), axis=0)
    if n.type.dtype.kind != "f":
        h = linear(a.astype(numpy_dtype(n.type.dtype)), b.astype(numpy_dtype(n.type.dtype)))
        return np.moveaxis(h, 0, axis), np.moveaxis(np.where(unknown, np.inf, 0.0), 0, axis)
    h, size = linear(a, b), np.abs(a) + a_bound
    magnitude = linear(size, np.abs(b) + b_bound)
    before = np.concatenate([np.zeros_like(h[:1]), np.abs(h[:-1])])
    count = _count(a, 0)
    lost = MIN_SUBNORMAL[compute.name] * (count + np.maximum.accumulate(np.abs(h), axis=0) * count)
    passed = linear(size, a_bound * before + b_bound + lost) + 4 * count * UNIT_ROUNDOFF[compute.name] * magnitude
    largest = np.maximum(_largest_product(size), magnitude)
    unsure = np.logical_or.accumulate(~(largest < LARGEST[compute.name]), axis=0)
    h, passed = overflow_to_inf("add", (), h, passed, compute)
    return np.moveaxis(h, 0, axis), np.moveaxis(np.where(unknown | unsure, np.inf, passed), 0, axis)


def _largest_product(size):
    """The largest product of neighbours that ends at each element."""
    result = np.array(size)
    for t in range(1, len(size)):
        result[t] *= np.maximum(result[t - 1], 1)
    return result
