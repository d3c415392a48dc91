"""Masks of elements of a stream, brought to where they say which elements count: where(condition, value, nothing).

What adds nothing is -inf for a maximum and for an exponent of a sum's elements, inf for a minimum, and 0 for a factor
of a sum's elements. What is only very negative does add something: in a row that has nothing else, all weighs alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import inf

from ...ir.folds import pick
from ...ir.graph import Node, constant, walk
from ...ir.ops import CASTS
from ..scalar_builder import is_positive, replace_nodes
from ..selects import Select, SelectAnalysis, is_number, literal, select_node

NOTHING = {"max": -inf, "min": inf, "sum": 0.0}  # what adds nothing to a fold
EXPONENTIALS = ("exp", "exp2")
Place = tuple[Node, float]  # a value, and what of it adds nothing


class Masks:
    """The masks of a program's elements; `found` are the values that have one, as choices."""

    def __init__(self, choices: SelectAnalysis):
        self.choices = choices
        self.found: dict[Node, Node] = {}

    def brought_out(self, value: Node, fold: str) -> Node:
        """A fold's element with its masks brought out; those of other elements that it holds are as there."""
        if fold not in NOTHING:
            return value
        while True:
            value = replace_nodes([value], self.found)[value]
            new = self._masked(value, NOTHING[fold])
            if not new:
                return value
            self.found |= new

    def _masked(self, value: Node, nothing: float) -> dict[Node, Node]:
        """The outermost values below an element that are masked otherwise than they might be."""
        new: dict[Node, Node] = {}
        stack, seen = [(value, nothing)], set()
        while stack:
            place = stack.pop()
            if place in seen:
                continue
            seen.add(place)
            made = self._at(*place)
            new |= made or {}
            if made is None and not (place[1] == 0 and self.choices.may_be_infinite(place[0])):
                stack += _parts(*place)
        return new

    def _at(self, n: Node, nothing: float) -> dict[Node, Node] | None:
        """What is replaced by what, for a value that is masked otherwise than it might be."""
        choices = self.choices
        if n.op == "where" and any(is_number(a, nothing) for a in n.args[1:]):
            args = (choices.condition(n.args[0]), *map(literal, n.args[1:]))
            return None if args == n.args else {n: pick(*args)}
        if n.args and n.args[0].type.dtype.kind == "f" and (n.op == "convert" or (n.op == "cast" and nothing == 0)):
            return None  # an exponent, or a factor, all the same
        found = self._factor(n) if n.op == "multiply" and nothing == 0 else choices.of(n)
        found = None if found is None else found.with_other(nothing)
        drawn = found is not None and is_number(found.value, 1.0) and _is_drawn(found.condition)
        if found is None or found.condition.op == "const" or drawn:
            return None
        return {n: select_node(Select(found.condition, found.value, constant(nothing, n.type.dtype)))}

    def _factor(self, n: Node) -> Select | None:
        """The choice that a product is, where it is one by what each factor is, or a condition is a factor: other
        factors have masks of their own."""
        alike = self.choices.alike(n)
        if alike is not None:
            return alike
        for x, y in (n.args, n.args[::-1]):
            one = self.choices.of(y)
            found = None if one is None else one.with_other(0.0)
            if found is None or not is_number(found.value, 1.0) or _is_drawn(found.condition):
                continue
            if x.type == n.type and self.choices.finite(x):
                return replace(found, value=x)
        return None


def _is_drawn(condition: Node) -> bool:
    """Whether a condition is of random numbers, of which no tile knows anything."""
    return any(m.op.startswith("philox") for m in walk([condition]))


def _parts(n: Node, nothing: float) -> Iterable[Place]:
    """The values below one that add nothing where they are these, as it does."""
    if n.type.dtype.kind != "f":
        return ()
    if n.op == "where":
        return [(a, nothing) for a in n.args[1:]]
    if n.op in CASTS:
        return [(a, nothing) for a in n.args]
    return _factors(n) if nothing == 0 else _addends(n, nothing)


def _factors(n: Node) -> Iterable[Place]:
    """Of a factor, or an addend, of a sum's elements."""
    if n.op in EXPONENTIALS:
        return [(n.args[0], -inf)]
    if n.op in ("multiply", "add", "subtract", "negative"):
        return [(a, 0.0) for a in n.args]
    return [(n.args[0], 0.0)] if n.op == "divide" else ()


def _addends(n: Node, nothing: float) -> Iterable[Place]:
    """Of an exponent of a sum's elements, or of what an extremum is taken of."""
    if n.op == "add":
        return [(a, nothing) for a in n.args]
    if n.op == "subtract":
        return [(n.args[0], nothing), (n.args[1], -nothing)]
    if n.op == "negative":
        return [(n.args[0], -nothing)]
    if n.op in ("multiply", "divide") and is_positive(n.args[1]):
        return [(n.args[0], nothing)]
    return [(n.args[1], nothing)] if n.op == "multiply" and is_positive(n.args[0]) else ()
