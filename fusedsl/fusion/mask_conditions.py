"""Mask conditions of attention: when an element contributes, and which of these conditions hold for all rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..ir.folds import scalar
from ..ir.graph import Node, is_literal, rebuild, search, with_arguments
from ..ir.types import BOOL
from ..rewrite.intervals.three_valued_logic import AND, NOT, OR
from ..rewrite.online.components import Component
from ..rewrite.online.forms import unwidened
from ..rewrite.online.masks import IDENTITY
from ..rewrite.online.online_reduction import OnlineReduction
from ..rewrite.scalar_builder import free_axes
from .coordinates import Axis, all_of

Condition = tuple[Node, bool]  # (node, its value if an element contributes)


def conditions(reduction: OnlineReduction) -> list[list[Condition]] | None:
    """For each fold and component, the conditions under which an element changes it; None if unknown."""
    if reduction.means:
        return None
    by_part = [_of_value(f.args[0], IDENTITY.get(f.attr[0])) for f in reduction.folds]
    return by_part + [_of_component(c) for c in reduction.components]


def _of_component(c: Component) -> list[Condition]:
    conditions_ = [(c.guard, True)] if c.guard is not None else []
    if c.weight is not None:
        conditions_ += _of_value(c.weight, 0.0)
    if c.exponent is not None and c.skips:
        conditions_ += _of_value(c.exponent.reference.value, IDENTITY["max" if c.exponent.scale > 0 else "min"])
    return conditions_


def _of_value(value: Node, nothing: float | None) -> list[Condition]:
    """Conditions under which a value is not the identity."""
    necessary: list[Condition] = []
    stack, seen = [value], set[Node]()
    while stack:
        n = unwidened(stack.pop())
        if n in seen:
            continue
        seen.add(n)
        if nothing == 0.0 and n.op == "multiply":
            stack += n.args
        elif n.op == "where":
            condition, yes, no = n.args
            for wanted, branch, other in ((True, yes, no), (False, no, yes)):
                if nothing is not None and is_literal(other, nothing):
                    necessary.append((condition, wanted))
                    stack.append(branch)
                    break
    return necessary


def may_contribute(reductions: Iterable[OnlineReduction], axes: Iterable[Axis]) -> Node | None:
    """A condition of these axes only that every contributing element satisfies; None: always true."""
    each = [alternatives for reduction in reductions for alternatives in conditions(reduction) or [[]]]
    parts_of_each = [[part for condition in alternatives for part in conjuncts(condition)] for alternatives in each]
    first = parts_of_each[0] if parts_of_each else []
    common = [c for c in dict.fromkeys(first) if all(c in other for other in parts_of_each)]
    free, known = free_axes(c for c, _ in common), frozenset(axes)
    own = [(c, truth) for c, truth in common if free[c] <= known]
    return all_of(c if truth else scalar("logical_not", c, dtype=BOOL) for c, truth in own)


def conjuncts(condition: Condition, opens: Callable[[Condition], bool] = lambda _: True) -> list[Condition]:
    """Conditions that a condition implies, each once: itself, or its conjuncts if it `opens`."""

    def operands(part: Condition) -> list[Condition]:
        c, wanted = part
        if c.op in NOT:
            return [(c.args[0], not wanted)]
        return [(a, wanted) for a in reversed(c.args)] if c.op in (AND if wanted else OR) and opens(part) else []

    return [part for part in search([condition], operands) if not operands(part)]


def predicate_reads(condition: Node | None, value: Node) -> Node:
    """The value with its computed loads predicated by a condition; where it does not hold, the value is arbitrary."""

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old.op == "fetch" and condition is not None:
            args = (args[0], scalar("logical_and", condition, args[1], dtype=BOOL))
        return with_arguments(old, args)

    return rebuild([value], change)[value]
