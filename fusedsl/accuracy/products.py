"""Error bounds of matrix products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..ir.contraction import Subscripts
from ..ir.dims import Symbol
from ..ir.graph import Node, resolve, walk
from ..ir.interp import RULES, sums_of_products
from ..ir.ops import OPS
from ..ir.types import FLOAT32
from .ball import EPS, HALF_ULP, LARGEST, TINY, Ball

SERIAL = 256  # products that are added sequentially at most; blocks are added pairwise
WITH_AXES = ("reduce", "scan", "sorted", "contract")


def contraction(n: Node, args: list[Ball], arguments: Sequence, extents: Mapping[Symbol, int]) -> Ball:
    """Bound of sums of products: a few hundred sequential additions, then those of blocks."""
    (x, ex), (y, ey) = (_rounded_factor(a, *ball) for a, ball in zip(n.args, args))
    unknown = _reads_any(n, x, y, np.isinf(ex), np.isinf(ey))
    if n.type.dtype.kind != "f":
        total = np.asarray(RULES["contract"](n, [x, y], arguments, extents))
        return total, np.where(np.broadcast_to(unknown, total.shape), np.inf, 0.0)
    total, compute = sums_of_products(n.attr, x, y), n.type.dtype.compute
    a, b, ea, eb = (np.where(np.isfinite(v), np.abs(v), 0) for v in (x, y, ex, ey))
    size, most = sums_of_products(n.attr, a, b), sums_of_products(n.attr, a + ea, b + eb)
    letters = Subscripts.parse(n.attr)
    count = max(1, int(np.prod([x.shape[letters.left.index(c)] for c in letters.summed])))
    serial = min(count, SERIAL) + count // SERIAL + 8
    subnormal = np.where(size > 0, count * TINY[compute.name], 0.0)  # products, each rounded or not
    bound = most - size + 2 * serial * EPS[compute.name] * size + subnormal
    unsure = (
        unknown | (most > LARGEST[compute.name]) | _multiplies_nonfinite(n, x, y) | _multiplies_nonfinite(n, y, x, 1)
    )
    return total, np.where(unsure, np.inf, np.where(np.isfinite(total), bound, 0.0))


def _reads_any(n: Node, x: np.ndarray, y: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Where a sum reads any of these elements of either operand."""
    if not (left.any() or right.any()):
        return np.zeros((), bool)
    counted = sums_of_products(n.attr, left.astype(float), np.ones(y.shape))
    return counted + sums_of_products(n.attr, np.ones(x.shape), right.astype(float)) > 0


def _multiplies_nonfinite(n: Node, weights: np.ndarray, others: np.ndarray, side: int = 0) -> np.ndarray:
    """Where a weight of 0 that a mask may have selected multiplies NaN or an infinity.

    A target may skip such an element, whose exact product is NaN.
    """
    if np.isfinite(others).all() or all(m.op != "where" for m in walk([n.args[side]])):
        return np.zeros((), bool)
    pair = [(weights == 0).astype(float), (~np.isfinite(others)).astype(float)]
    return sums_of_products(n.attr, *(pair[::-1] if side else pair)) > 0


def regrouped(n: Node, balls: Mapping[Node, Ball], arguments: Sequence, extents: Mapping[Symbol, int]) -> Ball:
    """Bound for operands that are products: a target may multiply some factors after the sum.

    Partial products may then overflow, or lose bits of subnormal numbers.
    """
    value, bound = balls[n]
    reaches: dict[Node, np.ndarray] = {}
    left, right = (_reach(a, reaches, balls, arguments, extents) for a in n.args)
    most, compute = sums_of_products(n.attr, left, right), n.type.dtype.compute.name
    return value, np.where(most > LARGEST[compute], np.inf, bound + np.where(bound > 0, most * TINY[compute], 0.0))


def _reach(root: Node, reaches: dict[Node, np.ndarray], balls, arguments, extents) -> np.ndarray:
    """The largest magnitude, at least 1, of a product of some of a value's factors."""

    def needs(n: Node) -> tuple[Node, ...]:
        if n.op in ("multiply", "divide") and n.type.dtype.kind == "f":
            return n.args if n.op == "multiply" else n.args[:1]
        through = n.args and n.op not in OPS and n.op not in WITH_AXES
        return n.args[:1] if through else ()

    def make(n: Node) -> np.ndarray:
        magnitudes = [reaches[a] for a in needs(n)]
        if not magnitudes:
            size = np.abs(np.asarray(balls[n][0], np.float64))
            return np.where(np.isfinite(size), np.maximum(size, 1.0), 1.0)
        if n.op in ("multiply", "divide"):
            other = magnitudes[1] if n.op == "multiply" else np.maximum(1 / np.abs(balls[n.args[1]][0]), 1.0)
            return magnitudes[0] * np.where(np.isfinite(other), other, 1.0)
        if n.op in ("cast", "convert"):
            return magnitudes[0]
        moved = np.asarray(RULES[n.op](n, [*magnitudes, *(balls[a][0] for a in n.args[1:])], arguments, extents))
        return np.where(np.isnan(moved), 1.0, moved)

    return resolve(reaches, root, needs, make)


def _rounded_factor(n: Node, value: np.ndarray, bound: np.ndarray) -> Ball:
    """A factor that was rounded to 16 bits: attention may round it before other factors, or never, so it may overflow
    or not."""
    half, least = HALF_ULP.get(n.type.dtype.name, (0.0, 0.0))
    if not half or n.op != "cast" or n.args[0].type.dtype.compute is not FLOAT32:
        return value, bound
    rounded = np.where(np.isfinite(value), half * np.abs(value) + least, 0.0)
    return value, bound + np.where(np.isinf(value), np.inf, rounded)
