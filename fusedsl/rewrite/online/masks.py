"""Hoists masks of elements outwards, to where they decide whether an element contributes: where(condition, value,
identity).

The identity is -inf for a maximum and for an exponent in a sum, inf for a minimum, 0 for a factor in a sum. A very
negative value contributes: in a row with no other value, all weights are equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import inf

from ...ir.folds import pick
from ...ir.graph import Node, constant, search, walk
from ...ir.ops import CASTS
from ..scalar_builder import is_positive, replace_nodes
from ..selects import Select, SelectAnalysis, is_number, literal, select_node

IDENTITY = {"max": -inf, "min": inf, "sum": 0.0}  # of a fold
EXPONENTIALS = ("exp", "exp2")
Masked = tuple[Node, float]  # (value, its identity)


class Masks:
    """Masks of a program's elements; `masked` are the values that have one, as selects."""

    def __init__(self, analysis: SelectAnalysis):
        self.analysis = analysis
        self.masked: dict[Node, Node] = {}

    def hoist_masks(self, value: Node, fold: str) -> Node:
        """A fold's element with its masks hoisted; masks of other elements inside it are reused."""
        if fold not in IDENTITY:
            return value
        while True:
            value = replace_nodes([value], self.masked)[value]
            new = self._masked(value, IDENTITY[fold])
            if not new:
                return value
            self.masked |= new

    def _masked(self, value: Node, identity: float) -> dict[Node, Node]:
        """The outermost values below an element whose mask can be hoisted, with their replacements."""
        new: dict[Node, Node] = {}
        hoisted = set[tuple[Node, float]]()

        def below(masked: tuple[Node, float]) -> Iterable[tuple[Node, float]]:
            ends = masked in hoisted or (masked[1] == 0 and self.analysis.may_be_infinite(masked[0]))
            return () if ends else _masked_operands(*masked)

        for masked in search([(value, identity)], below):
            if (replacements := self._at(*masked)) is not None:
                hoisted.add(masked)
                new |= replacements
        return new

    def _at(self, n: Node, identity: float) -> dict[Node, Node] | None:
        """Replacement of a value whose mask can be hoisted; None if there is none."""
        analysis = self.analysis
        if n.op == "where" and any(is_number(a, identity) for a in n.args[1:]):
            args = (analysis.condition(n.args[0]), *map(literal, n.args[1:]))
            return None if args == n.args else {n: pick(*args)}
        if n.args and n.args[0].type.dtype.kind == "f" and (n.op == "convert" or (n.op == "cast" and identity == 0)):
            return None  # remains an exponent, or a factor
        select = self._factor(n) if n.op == "multiply" and identity == 0 else analysis.of(n)
        select = None if select is None else select.with_other(identity)
        drawn = select is not None and is_number(select.value, 1.0) and _is_random_mask(select.condition)
        if select is None or select.condition.op == "const" or drawn:
            return None
        return {n: select_node(Select(select.condition, select.value, constant(identity, n.type.dtype)))}

    def _factor(self, n: Node) -> Select | None:
        """A product as a select, if its factors select alike or one factor is a 0/1 condition."""
        alike = self.analysis.alike(n)
        if alike is not None:
            return alike
        for x, y in (n.args, n.args[::-1]):
            factor = self.analysis.of(y)
            select = None if factor is None else factor.with_other(0.0)
            if select is None or not is_number(select.value, 1.0) or _is_random_mask(select.condition):
                continue
            if x.type == n.type and self.analysis.finite(x):
                return replace(select, value=x)
        return None


def _is_random_mask(condition: Node) -> bool:
    """Whether a condition depends on random numbers, which cannot be evaluated per tile."""
    return any(m.op.startswith("philox") for m in walk([condition]))


def _masked_operands(n: Node, identity: float) -> Iterable[Masked]:
    """Operands, each with its value for which this value is the `identity`."""
    if n.type.dtype.kind != "f":
        return ()
    if n.op == "where":
        return [(a, identity) for a in n.args[1:]]
    if n.op in CASTS:
        return [(a, identity) for a in n.args]
    return _factors(n) if identity == 0 else _addends(n, identity)


def _factors(n: Node) -> Iterable[Masked]:
    """Operands of a factor, or of an addend, of a sum's elements."""
    if n.op in EXPONENTIALS:
        return [(n.args[0], -inf)]
    if n.op in ("multiply", "add", "subtract", "negative"):
        return [(a, 0.0) for a in n.args]
    return [(n.args[0], 0.0)] if n.op == "divide" else ()


def _addends(n: Node, identity: float) -> Iterable[Masked]:
    """Operands of an exponent of a sum's elements, or of an extremum's elements."""
    if n.op == "add":
        return [(a, identity) for a in n.args]
    if n.op == "subtract":
        return [(n.args[0], identity), (n.args[1], -identity)]
    if n.op == "negative":
        return [(n.args[0], -identity)]
    if n.op in ("multiply", "divide") and is_positive(n.args[1]):
        return [(n.args[0], identity)]
    return [(n.args[1], identity)] if n.op == "multiply" and is_positive(n.args[0]) else ()
