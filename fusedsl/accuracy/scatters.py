"""Error bounds of scatters: values merged at computed indices, in any order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir.graph import Node
from ..ir.interp_scatter import merge_at
from .ball import LARGEST, UNIT_ROUNDOFF, Ball, distance, overflow_to_inf

FEW = 4  # roundings besides those of the additions: of scaled sums, and where they join the array


def scatter(n: Node, args: Sequence[Ball]) -> Ball:
    """Every order of additions is right; an unbounded index may change every element."""
    (base, base_bound), (flat_indices, index_bound), (values, bound) = args
    total = _merged(n.attr[0], base, flat_indices, values)
    if np.isinf(index_bound).any():
        return total, np.full(total.shape, np.inf)
    if n.type.dtype.kind != "f" or n.attr[0] != "sum":
        return total, _moved(n, args, total)
    compute = n.type.dtype.compute
    size = _merged("sum", _sizes(base), flat_indices, _sizes(values))
    passed = _merged("sum", base_bound, flat_indices, bound)
    count = FEW + _merged("sum", np.zeros(base.shape), flat_indices, np.ones(values.shape))
    whole = _merged("min", _is_whole(base), flat_indices, _is_whole(values)) > 0
    is_exact = (passed == 0) & whole & (size * UNIT_ROUNDOFF[compute.name] <= 1)
    rounding = np.where(is_exact, 0.0, 2 * count * UNIT_ROUNDOFF[compute.name] * size)
    beyond = size + passed > LARGEST[compute.name]
    passed = np.where(beyond, np.inf, np.where(np.isfinite(total), passed + rounding, 0.0))
    return overflow_to_inf("add", (), total, passed, compute)


def _sizes(x: np.ndarray) -> np.ndarray:
    return np.abs(np.where(np.isfinite(x), x, 0))


def _is_whole(x: np.ndarray) -> np.ndarray:
    return (np.isfinite(x) & (x == np.trunc(x))).astype(np.int8)


def _merged(fold: str, base: np.ndarray, flat_indices: np.ndarray, values: np.ndarray) -> np.ndarray:
    result = np.array(base, order="C")
    merge_at(fold, result, flat_indices, values)
    return result


def _moved(n: Node, args: Sequence[Ball], total: np.ndarray) -> np.ndarray:
    """How far an exact merge moves with its operands' bounds."""
    (base, base_bound), (flat_indices, _), (values, bound) = args
    if not base_bound.any() and not bound.any():
        return np.zeros(total.shape)
    bound = np.broadcast_to(bound, values.shape).astype(np.float64)
    if n.attr[0] == "last":
        return _merged("last", np.array(base_bound, np.float64), flat_indices, bound)
    widest = _merged("max", np.array(base_bound, np.float64), flat_indices, bound)
    if total.dtype.kind != "f":
        return np.where(widest > 0, np.inf, 0.0)
    steps = [np.where(np.isfinite(x), x, 0.0) for x in (base_bound, bound)]
    ends = ((base + sign * steps[0], values + sign * steps[1]) for sign in (-1, 1))
    moved = distance(total, *(_merged(n.attr[0], x, flat_indices, y) for x, y in ends))
    return np.where(np.isinf(widest), np.inf, moved)
