"""Error bounds of matrix products.

A sum of K products in any order rounds at most K times what any of them is part of. Each rounding is half an ulp of a
partial sum, which is no more than the sum of magnitudes (Higham 2002, 3.1).

Tensor cores add a step of products to the accumulator at once: 8 on sm_80, 16 on sm_90. They align all to the largest,
cut off what lies 24 (sm_90: 25) bits below it, and cut the sum to float32 (Fasi, Higham, Mikaitis and Pranesh 2021,
Numerical behavior of NVIDIA tensor cores). A step of b products loses less than (b + 1) 2^-24 + 2^-23 of the sum of
magnitudes, which is 11/8 of half an ulp a product. Two halves of an ulp a product hold for both.

TF32 has 10 bits behind the leading one: the relative error of a factor, rounded or truncated, is below 2^-10. Three
products of parts (3xtf32) lose less than 2^-20 of a product, and on sm_90 three times 13/16 of half an ulp for it: less
than twice float32's own bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..ir.contraction import Subscripts
from ..ir.dims import Symbol
from ..ir.graph import Node, resolve, walk
from ..ir.interp import RULES, sums_of_products
from ..ir.ops import OPS, VIEWS
from ..ir.types import FLOAT32
from .ball import HALF_ULP, LARGEST, MIN_SUBNORMAL, UNIT_ROUNDOFF, Ball
from .elementwise import Roundings

AROUND = 8  # roundings of what follows the sum: of its blocks, of factors that leave it
WITH_AXES = ("reduce", "scan", "sorted", "contract")


TF32: dict[str, Roundings] = {
    "tf32": {"contract": lambda values, most: 2.0**-9 * (1 + 2.0**-10) * most},
    "3xtf32": {"contract": lambda values, most: values[0]},
}
"""By the option `matmul`: what sums of products of float32 lose more, given the bound of float32's own roundings, and
the sums of magnitudes."""


def contraction(
    n: Node, args: list[Ball], arguments: Sequence, extents: Mapping[Symbol, int], roundings: Roundings
) -> Ball:
    """Bound of sums of products in any order."""
    (x, ex), (y, ey) = (_rounded_factor(a, *ball) for a, ball in zip(n.args, args))
    loses = "contract" in roundings and n.type.dtype is FLOAT32
    most_factor = LARGEST["float32"] * (1 - 2.0**-11) if loses else np.inf  # what is more may round to infinity
    unsure_factors = [np.isinf(e) | (np.isfinite(v) & (np.abs(v) > most_factor)) for v, e in ((x, ex), (y, ey))]
    unknown = _reads_any(n, x, y, *unsure_factors)
    if n.type.dtype.kind != "f":
        total = np.asarray(RULES["contract"](n, [x, y], arguments, extents))
        return total, np.where(np.broadcast_to(unknown, total.shape), np.inf, 0.0)
    total, compute = sums_of_products(n.attr, x, y), n.type.dtype.compute
    a, b, ea, eb = (np.where(np.isfinite(v), np.abs(v), 0) for v in (x, y, ex, ey))
    size, most = sums_of_products(n.attr, a, b), sums_of_products(n.attr, a + ea, b + eb)
    subscripts = Subscripts.parse(n.attr)
    count = max(1, int(np.prod([x.shape[subscripts.left.index(c)] for c in subscripts.summed])))
    subnormal = np.where(size > 0, count * MIN_SUBNORMAL[compute.name], 0.0)  # products, each rounded or not
    rounded = 2 * (count + AROUND) * UNIT_ROUNDOFF[compute.name] * size + subnormal
    if loses:
        rounded = rounded + roundings["contract"]([rounded], most)
    bound = most - size + rounded
    unknown = unknown | _scales_an_infinity(n, (x, ex), (y, ey))
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


def _scales_an_infinity(n: Node, left: Ball, right: Ball) -> np.ndarray:
    """Where an infinity is multiplied by what may be 0 or not: the product is NaN or an infinity."""
    infinite = [np.isinf(value).astype(float) for value, _ in (left, right)]
    around_zero = [((np.abs(value) <= bound) & (bound > 0)).astype(float) for value, bound in (left, right)]
    if not (infinite[0].any() and around_zero[1].any()) and not (infinite[1].any() and around_zero[0].any()):
        return np.zeros((), bool)
    scaled = sums_of_products(n.attr, infinite[0], around_zero[1])
    return scaled + sums_of_products(n.attr, around_zero[0], infinite[1]) > 0


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
    return value, np.where(
        most > LARGEST[compute], np.inf, bound + np.where(bound > 0, most * MIN_SUBNORMAL[compute], 0.0)
    )


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
    while n.op in VIEWS:
        n = n.args[0]
    if not half or n.op != "cast" or n.args[0].type.dtype.compute is not FLOAT32:
        return value, bound
    rounded = np.where(np.isfinite(value), half * np.abs(value) + least, 0.0)
    return value, bound + np.where(np.isinf(value), np.inf, rounded)
