"""Sums of factors distributed over products, so that each addend is one product of q and k."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.graph import Node, constant, is_literal, node, rebuild, with_arguments
from ...rewrite.scalar_builder import free_axes, product_of, scalar_op
from ..coordinates import Axis
from .score_products import MOST_ADDENDS, direct_reductions, factors_of, scores


def distribute_sums(roots: Sequence[Node]) -> list[Node]:
    """The values with sums along the kv axis distributed over addends that have weights of their own."""
    free = free_axes(roots)

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        n = with_arguments(old, args)
        if n not in free:
            free.update(free_axes([n]))
        if n.op != "fold" or n.attr[0] != "sum" or len(n.attr[1]) != 1:
            return n
        addends = _addends(n.args[0], n.attr[1][0], free)
        if len(addends) == 1:
            return n
        sums = [_sum_addend(x, n, free) for _, x in addends]
        total = sums[0]
        for (sign, _), x in zip(addends[1:], sums[1:]):
            total = scalar_op(sign, total, x, dtype=n.type.dtype)
        free.update(free_axes([total]))
        return total

    new = rebuild(roots, change)
    return [new[r] for r in roots]


def _addends(value: Node, kv_axis: Axis, free: dict[Node, frozenset]) -> list[tuple[str, Node]]:
    """An element as ("add" or "subtract", addend) pairs; as one addend if there are too many or they are no weights."""
    addends: list[tuple[str, Node]] = []
    stack = [("add", value)]
    while stack:
        sign, x = stack.pop()
        sides = _sides(x, kv_axis, free)
        if sides:
            stack += [(other if sign == "add" else _negated(other), y) for other, y in reversed(sides)]
        else:
            addends.append((sign, x))
        if len(stack) + len(addends) > MOST_ADDENDS:
            return [("add", value)]
    return addends


def _sides(value: Node, kv_axis: Axis, free: dict[Node, frozenset]) -> list[tuple[str, Node]]:
    """The two addends of an element, each times the other factors, if each is a weight; else empty."""
    if not scores(value, kv_axis, free):
        return []
    factors = factors_of(value)
    sums = [n for n in factors.over if n.op in ("add", "subtract") and scores(n, kv_axis, free)]
    if len(sums) != 1 or factors.where:
        return []
    has_other_axes = any(free[n] - free[sums[0]] for n in factors.over)
    separate = has_other_axes and _are_separate_weights(sums[0], kv_axis, free)
    if not (separate or _have_distinct_scores(sums[0], kv_axis, free)):
        return []
    sides: list[tuple[str, Node]] = []
    for sign, x in (("add", sums[0].args[0]), (sums[0].op, sums[0].args[1])):
        addend = product_of([x if n is sums[0] else n for n in factors.over])
        assert addend is not None
        for n in factors.under:
            addend = scalar_op("divide", addend, n)
        sides.append((sign, addend))
    free.update(free_axes([x for _, x in sides]))
    return sides


def _negated(sign: str) -> str:
    return "subtract" if sign == "add" else "add"


def _have_distinct_scores(total: Node, kv_axis: Axis, free: dict[Node, frozenset]) -> bool:
    """Whether both operands of a sum or difference read scores, and none in common."""
    sides = [set(scores(x, kv_axis, free)) for x in total.args]
    return all(sides) and not sides[0] & sides[1]


def _are_separate_weights(total: Node, kv_axis: Axis, free: dict[Node, frozenset]) -> bool:
    """Whether an operand of a sum or difference is a weight that reads a row reduction, of which a pass has only one.

    An operand without scores must be cheap to sum: it varies along the kv axis only, or not along it.
    """
    if not any(_reads_row_reduction(x, kv_axis, free) for x in total.args):
        return False
    return all(scores(x, kv_axis, free) or (kv_axis not in free[x] or free[x] == {kv_axis}) for x in total.args)


def _reads_row_reduction(x: Node, kv_axis: Axis, free: dict[Node, frozenset]) -> bool:
    """Whether a weight reads a fold of scores, as softmax does."""
    rows = [n for n in direct_reductions([x]) if n.op == "fold" and len(n.attr[1]) == 1 and kv_axis not in free[n]]
    return bool(scores(x, kv_axis, free)) and any(scores(n.args[0], n.attr[1][0], free) for n in rows)


def _sum_addend(x: Node, fold: Node, free: dict[Node, frozenset]) -> Node:
    """The sum of an addend; without scores, factors that are constant along the kv axis multiply the sum instead."""
    (kv_axis,) = fold.attr[1]
    outside: list[Node] = []
    if not scores(x, kv_axis, free):
        factors = factors_of(x)
        free.update(free_axes([*factors.over, *factors.under]))
        outside = [n for n in factors.over if kv_axis not in free[n] and not is_literal(n, 1)]
        inside = product_of([n for n in factors.over if kv_axis in free[n]])
        x = inside if inside is not None else constant(1.0, fold.type.dtype)
        for n in factors.under:
            x = scalar_op("divide", x, n)
        free.update(free_axes([x]))
    total = node("fold", (x,), fold.attr, fold.type)
    for n in outside:
        total = scalar_op("multiply", n, total, dtype=fold.type.dtype)
    return total
