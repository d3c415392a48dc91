"""Builder of scalar nodes, and their free and bound axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf, isinf
from typing import Any

from ..ir.graph import Node, Type, constant, node, resolve, value_of, walk, with_arguments
from ..ir.ops import CASTS, OPS
from ..ir.printer import show_literal
from ..ir.types import DType

LONGEST = 160  # characters of one formula


def free_axes(roots: Iterable[Node]) -> dict[Node, frozenset]:
    """Axes that each scalar depends on."""
    free: dict[Node, frozenset] = {}
    for n in walk(roots):
        if n.op == "load":
            free[n] = frozenset(c.axis for c in n.attr[1] if c.axis is not None)
        elif n.op == "position":
            free[n] = frozenset((n.attr,))
        else:
            below = frozenset().union(*(free[a] for a in n.args)) if n.args else frozenset()
            free[n] = (below - bound_axes(n)) | kept_axes(n)
    return free


def bound_axes(n: Node) -> frozenset:
    """Axes that a node folds, scans or sorts along."""
    return frozenset(n.attr[1] if n.op == "fold" else n.attr[1:2] if n.op in ("scan", "sort") else ())


def kept_axes(n: Node) -> frozenset:
    """Axes that a node binds and its value still depends on: of a scan, and of sorted elements."""
    ranked = n.op == "sorted" and len(n.args) == 1 and not isinstance(n.attr[1], int)
    axes = n.attr[1:2] if n.op == "scan" or ranked else ()
    return frozenset(axes)


def scalar_op(name: str, *args: Node, dtype: DType | None = None) -> Node:
    """An elementwise operation on scalars, in their compute dtype."""
    return node(name, args, None, Type(dtype or args[-1].type.dtype.compute))


def times(x: Node | None, y: Node | None) -> Node | None:
    """Product of values; None stands for 1."""
    if x is None or y is None:
        return x if y is None else y
    return scalar_op("multiply", x, y)


def product_of(factors: Iterable[Node]) -> Node | None:
    """Product of values from left to right; None if there are none."""
    total: Node | None = None
    for x in factors:
        total = times(total, x)
    return total


def total_of(addends: Sequence[Node]) -> Node:
    """Sum of values from left to right."""
    total = addends[0]
    for x in addends[1:]:
        total = scalar_op("subtract", total, x.args[0]) if x.op == "negative" else scalar_op("add", total, x)
    return total


def scaled(value: Node, scale: float, factor: Node | None) -> Node:
    """scale * factor * value"""
    if scale == -1.0:
        value = scalar_op("negative", value)
    elif scale != 1.0:
        value = scalar_op("multiply", value, constant(scale, value.type.dtype.compute))
    return value if factor is None else scalar_op("multiply", factor, value)


def positive_factor(value: Node) -> tuple[Node | None, Node]:
    """(positive factor or None, the other factor) of a product, or of a product masked with an infinity."""
    if value.op == "multiply" and value.type.dtype.kind == "f":
        for factor, rest in (value.args, value.args[::-1]):
            if is_positive(factor):
                return factor, rest
    if value.op == "where":
        condition, yes, no = value.args
        for infinite, other in ((yes, no), (no, yes)):
            factor_of_other, rest = positive_factor(other)
            if factor_of_other is not None and infinite.op == "const" and isinf(value_of(infinite)):
                sides = (infinite, rest) if infinite is yes else (rest, infinite)
                return factor_of_other, scalar_op("where", condition, *sides)
    return None, value


def is_positive(n: Node) -> bool:
    """Whether a number is known to be positive: a literal, or the root of an extent."""
    if n.op == "const":
        return 0 < value_of(n) < inf
    if n.op in ("rsqrt", "sqrt", "convert", "cast") and len(n.args) == 1:
        return is_positive(n.args[0])
    return n.op == "size"


def scaled_factor(value: Node, scale: float) -> Node:
    """scale * value, with the scale folded into a positive factor that the value already has."""
    factor, rest = positive_factor(value)
    if factor is None:
        return scaled(value, scale, None)
    if factor.op == "const":
        return scalar_op("multiply", rest, constant(scale * value_of(factor), factor.type.dtype.compute))
    return scalar_op("multiply", rest, scaled(factor, scale, None))


def replace_nodes(roots: Sequence[Node], done: Mapping[Node, Node]) -> dict[Node, Node]:
    """The roots with some nodes replaced; operands of replaced nodes are not visited."""
    new: dict[Node, Node] = {}

    def change(n: Node) -> Node:
        if n in done:
            return done[n]
        args = tuple(new[a] for a in n.args)
        return with_arguments(n, args)

    return {r: resolve(new, r, lambda n: () if n in done else n.args, change) for r in roots}


def format_scalar(root: Node, names: Mapping[Node, str]) -> str:
    """A scalar as a formula; `names` replaces values by names."""
    texts: dict[Node, str] = {}
    for n in walk([root]):
        args = [texts[a] for a in n.args]
        symbol = OPS[n.op].symbol if n.op in OPS else None
        if n in names:
            texts[n] = names[n]
        elif n.op == "const":
            texts[n] = show_literal(n)
        elif symbol and len(args) == 2:
            texts[n] = f"{_bracket(args[0])} {symbol} {_bracket(args[1])}"
        elif symbol:
            texts[n] = f"{symbol}{_bracket(args[0])}"
        elif n.op in CASTS:
            texts[n] = args[0]
        elif n.args:
            texts[n] = f"{n.attr[0] if n.op == 'fold' else n.op}({', '.join(args)})"
        else:
            texts[n] = _leaf(n)
        if len(texts[n]) > LONGEST:
            texts[n] = f"{n.op}(...)"
    return texts[root]


def _leaf(n: Node) -> str:
    def named(part: Any) -> str:
        return f"{part.kind} {part.index}" if hasattr(part, "index") and hasattr(part, "kind") else str(part)

    return named(n.attr[0]) if n.op == "load" else f"{n.op} {n.attr}"


def _bracket(text: str) -> str:
    depth = 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == " " and depth == 0:
            return f"({text})"
    return text
