"""Selects between a value and a literal (masks), and their propagation through operations.

A function of a select is a select of the function's values: logistic(where(c, x, -inf)) is where(c, logistic(x), 0). A
sum with a masking infinity, and a product with a masking 0, are masked too: s + where(c, 0, -inf) is where(c, s, -inf)
and w * c is where(c, w, 0), even if s or w is infinite or NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite, isinf

import numpy as np

from ..ir.constant_folding import convert, fold
from ..ir.folds import pick
from ..ir.graph import Node, constant, is_literal, node, resolve, value_of
from ..ir.interp import evaluate_node
from ..ir.ops import CASTS, OPS
from ..ir.types import BOOL, numpy_dtype
from .comparisons import simplify_comparison
from .intervals.three_valued_logic import both, either, invert
from .scalar_builder import is_positive
from .scalar_builder import scalar_op as op

PROPAGATING = (*CASTS, "add", "subtract", "multiply", "divide", "negative", "minimum", "maximum", "where")


@dataclass(frozen=True)
class Select:
    """`value` if `condition` holds, else the literal `other`."""

    condition: Node
    value: Node
    other: Node

    def with_other(self, number: float) -> Select | None:
        """The select with this number as the literal, if one side is this number."""
        if is_number(self.other, number):
            return self
        inverted = Select(negation(self.condition), self.other, self.value)
        return inverted if is_number(self.value, number) else None

    @property
    def infinite(self) -> Select | None:
        """The select with an infinity as the literal."""
        return self.with_other(-inf) or self.with_other(inf)


def negation(condition: Node) -> Node:
    """The opposite condition."""
    return simplify_comparison(invert(condition))


def select_node(c: Select) -> Node:
    """A select as a node."""
    return pick(c.condition, c.value, c.other)


class SelectAnalysis:
    """Values as selects between a value and a literal.

    `is_separate(n)`: which values may be NaN or infinite for a whole row, such as folds: masks are not hoisted from
    values computed with them, so that NaN and infinities propagate.
    """

    def __init__(self, is_separate: Callable[[Node], bool]):
        self.is_separate = is_separate
        self._known: dict[Node, Select | None] = {}

    def of(self, root: Node) -> Select | None:
        """The select that a value computes, or None."""
        return resolve(self._known, root, lambda n: n.args if n.op in OPS or n.op in CASTS else (), self._analyse)

    def condition(self, c: Node) -> Node:
        """A condition without selects of literals."""
        select = self.of(c)
        if select is None:
            return simplify_comparison(c)
        if not value_of(select.other):
            return both(select.condition, select.value)
        return either(negation(select.condition), select.value)

    def alike(self, n: Node) -> Select | None:
        """An operation on selects of one condition and on literals, as one exact select."""
        args = [literal(a) for a in n.args]
        selects = [self.of(a) for a in args]
        conditions = {c.condition for c in selects if c is not None}
        if len(conditions) != 1 or any(c is None and a.op != "const" for c, a in zip(selects, args)):
            return None
        values = tuple(a if c is None else c.value for c, a in zip(selects, args))
        other = _folded(n, tuple(a if c is None else c.other for c, a in zip(selects, args)))
        if other is None:
            return None
        value = _folded(n, values) if all(v.op == "const" for v in values) else None
        value = value if value is not None else node(n.op, values, n.attr, n.type)
        return None if value is other else Select(conditions.pop(), value, other)

    def may_be_infinite(self, n: Node) -> bool:
        """Whether a mask may make a value infinite, so that 0 times it, or its difference with an infinity, is NaN."""
        stack, seen = [(n, False)], set[tuple[Node, bool]]()
        while stack:
            visit = stack.pop()
            if visit in seen:
                continue
            seen.add(visit)
            x, under = visit
            select = self.of(x)
            if select is not None:
                if select.with_other(0.0) if under else not isfinite(value_of(select.other)):
                    return True
                stack.append((select.value, under))
            elif (x := literal(x)).op == "const" and (value_of(x) == 0 if under else not isfinite(value_of(x))):
                return True
            elif x.op in PROPAGATING:
                stack += [(a, under != (k == 1 and x.op == "divide")) for k, a in enumerate(x.args)]
        return False

    def finite(self, n: Node) -> bool:
        """Whether a value may be treated as finite where a mask excludes it."""
        return not self.is_separate(n) and not self.may_be_infinite(n)

    def _analyse(self, n: Node) -> Select | None:
        if n.op in CASTS:
            return self._cast(n)
        if n.op not in OPS:
            return None
        select = self.alike(n)
        if select is None and n.op in RULES:
            select = RULES[n.op](self, n)
        return select

    def _cast(self, n: Node) -> Select | None:
        """A condition is 1 or 0; float8 may have no infinity."""
        (x,), to = n.args, n.type.dtype
        if x.type.dtype is BOOL and to is not BOOL and x.op != "const":
            return Select(self.condition(x), constant(1, to), constant(0, to))
        exact = to.kind in "fb" and not to.storage and not x.type.dtype.storage
        return self.alike(n) if exact and x.type.dtype is not BOOL else None


def literal(n: Node) -> Node:
    """A cast literal as a literal; other nodes unchanged."""
    inner = n
    while inner.op in CASTS:
        (inner,) = inner.args
    to = n.type.dtype
    if inner is n or inner.op != "const" or to.kind != "f" or to.storage:
        return n
    return constant(convert(value_of(inner), to), to)


def is_number(n: Node, number: float) -> bool:
    """Whether a node is this number, cast or not."""
    return is_literal(literal(n), number)


def _folded(n: Node, args: tuple[Node, ...]) -> Node | None:
    """An operation on literals: integers in their dtype, floats unrounded."""
    if n.op in CASTS or all(a.type.dtype.kind != "f" for a in args):
        values = [np.asarray(value_of(a), numpy_dtype(a.type.dtype.compute)) for a in args]
        with np.errstate(all="ignore"):
            return constant(evaluate_node(n, values, (), {}).item(), n.type.dtype)
    value = fold(OPS[n.op], args)
    return None if value is None else constant(value, n.type.dtype)


# -- rules for operations whose operands are not all selects of one condition


def _where(analysis: SelectAnalysis, n: Node) -> Select | None:
    """An explicit select, or one between selects with the same literal."""
    c, yes, no = analysis.condition(n.args[0]), *map(literal, n.args[1:])
    if yes.op == no.op == "const":
        return Select(c, yes, no) if not isinf(value_of(yes)) or isinf(value_of(no)) else Select(negation(c), no, yes)
    if yes.op == "const":
        c, yes, no = negation(c), no, yes
    yes_select = analysis.of(yes)
    if no.op == "const":
        matching = yes_select is not None and yes_select.with_other(value_of(no))
        return Select(both(c, matching.condition), matching.value, no) if matching else Select(c, yes, no)
    no_select = analysis.of(no)
    if yes_select is None and no_select is None:
        return None
    if yes_select is None or no_select is None:
        return _nested_select(c, yes, no, yes_select, no_select)
    matching = no_select.with_other(value_of(yes_select.other))
    if matching is None:
        return None
    return Select(
        _select_of_conditions(c, yes_select.condition, matching.condition),
        _pick_unless_equal(c, yes_select.value, matching.value),
        yes_select.other,
    )


def _nested_select(c: Node, yes: Node, no: Node, inner: Select | None, outer: Select | None) -> Select:
    """A select one side of which is another select."""
    if inner is None:
        assert outer is not None
        return Select(either(c, outer.condition), _pick_unless_equal(c, yes, outer.value), outer.other)
    return Select(either(negation(c), inner.condition), _pick_unless_equal(c, inner.value, no), inner.other)


def _select_of_conditions(c: Node, yes: Node, no: Node) -> Node:
    return yes if yes is no else either(both(c, yes), both(negation(c), no))


def _pick_unless_equal(c: Node, yes: Node, no: Node) -> Node:
    return yes if yes is no else pick(c, yes, no)


def _sum(analysis: SelectAnalysis, n: Node) -> Select | None:
    """A sum with an infinite addend is infinite."""
    sides = [analysis.of(a) for a in n.args]
    sides = [None if c is None else c.infinite for c in sides]
    for k, select in enumerate(sides):
        if select is None:
            continue
        other = select.other if k == 0 or n.op == "add" else constant(-value_of(select.other), n.type.dtype)
        addend, condition = n.args[1 - k], select.condition
        other_side = sides[1 - k]
        if other_side is not None:
            if not is_number(other_side.other, value_of(other) if n.op == "add" else -value_of(other)):
                return None
            addend, condition = other_side.value, both(condition, other_side.condition)
        if not analysis.finite(addend) or analysis.may_be_infinite(select.value):
            return None
        values = (select.value, addend) if k == 0 else (addend, select.value)
        return Select(condition, _sum_without_zero(n, *values), other)
    return None


def _sum_without_zero(n: Node, x: Node, y: Node) -> Node:
    """A sum; an addend of 0 is dropped."""
    if is_number(y, 0.0) and x.type == n.type:
        return x
    if is_number(x, 0.0) and y.type == n.type:
        return y if n.op == "add" else op("negative", y)
    return node(n.op, (x, y), n.attr, n.type)


def _least(analysis: SelectAnalysis, n: Node) -> Select | None:
    """A minimum with -inf is -inf, a maximum with inf is inf."""
    number = -inf if n.op in ("minimum", "fmin") else inf
    for k, (x, y) in enumerate((n.args, n.args[::-1])):
        operand = analysis.of(x)
        select = None if operand is None else operand.with_other(number)
        if select is not None and analysis.finite(y):
            value = y if is_number(select.value, -number) else _binary(n, k, select.value, y)
            return Select(select.condition, value, select.other)
    return None


def _product(analysis: SelectAnalysis, n: Node) -> Select | None:
    """0 times a value is 0, 0 divided by it is 0, an infinity times a positive number is infinite."""
    if n.type.dtype.kind != "f":
        return None
    for k, (x, y) in enumerate((n.args, n.args[::-1])):
        operand = analysis.of(x) if k == 0 or n.op == "multiply" else None
        if operand is None:
            continue
        select = operand.infinite if is_positive(y) else None
        if select is None and analysis.finite(y):
            select = operand.with_other(0.0)
        if select is not None:
            is_mask = n.op == "multiply" and is_number(select.value, 1.0) and y.type == n.type
            return Select(select.condition, y if is_mask else _binary(n, k, select.value, y), select.other)
    return None


def _binary(n: Node, k: int, x: Node, y: Node) -> Node:
    """A binary operation, with x as operand k."""
    return node(n.op, (y, x) if k else (x, y), n.attr, n.type)


RULES: dict[str, Callable[[SelectAnalysis, Node], Select | None]] = {
    "where": _where,
    **dict.fromkeys(("add", "subtract"), _sum),
    **dict.fromkeys(("minimum", "fmin", "maximum", "fmax"), _least),
    **dict.fromkeys(("multiply", "divide"), _product),
}
