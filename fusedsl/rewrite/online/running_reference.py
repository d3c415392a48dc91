"""Running references: powers are rewritten to powers of values whose extremum is a reference of the pass.

A power must be measured from a reference near its values, or digits cancel. A mean is near if each tile has its own. A
running extremum is near if the row values added to the power contain it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice, product

from ...ir.graph import Node, walk
from ..scalar_builder import scalar_op as op
from .algebra import MOST_TERMS
from .components import Reference, extrema
from .forms import ProductTerm, Terms, unwidened

MOST_PARTS = 8  # addends of a power of a sum
Power = tuple[Node, tuple[Node, ...]]


def measure_from_running_reference(terms: Terms, axes: tuple) -> Terms | None:
    """The terms with powers of such values only; None if impossible. Powers of sums are expanded."""
    expanded: list[ProductTerm] = []
    for t in terms:
        ways = [_addends(t, power, axes) for power in t.powers]
        if None in ways:
            return None
        for chosen in product(*(way for way in ways if way is not None)):
            scale = t.scale
            for sign, _ in chosen:
                scale *= sign
            expanded.append(replace(t, scale=scale, powers=tuple(power for _, power in chosen)))
    return tuple(expanded) if len(expanded) <= MOST_TERMS else None


def _addends(t: ProductTerm, power: Power, axes: tuple) -> list[tuple[float, Power]] | None:
    """A power of a sum as signed powers of its addends."""
    element, rows = power
    if _is_measured(t, power, axes):
        return [(1.0, power)]
    parts = list(islice(_parts(element), MOST_PARTS + 1))
    if len(parts) > MOST_PARTS:
        return None
    own: list[list[Node]] = [[] for _ in parts]
    for row in rows:
        below = set(walk([row]))
        holders = [k for k, (_, part) in enumerate(parts) if below.issuperset(_extremum(part, axes))]
        own[holders[0] if holders else 0].append(row)
    powers = [
        (sign, (part, tuple(row if sign > 0 else _negative(row) for row in added)))
        for (sign, part), added in zip(parts, own)
    ]
    return powers if all(_is_measured(t, p, axes) for _, p in powers) else None


def _is_measured(t: ProductTerm, power: Power, axes: tuple) -> bool:
    element, rows = power
    if t.exponential is not None and unwidened(t.exponential.element) is unwidened(element):
        return True
    return set(walk(rows)).issuperset(_extremum(element, axes))


def _extremum(element: Node, axes: tuple) -> list[Node]:
    return extrema(Reference(unwidened(element), "max"), axes)


def _parts(element: Node) -> Iterable[tuple[float, Node]]:
    """(sign, addend) of an element."""
    stack = [(1.0, element)]
    while stack:
        sign, n = stack.pop()
        if n.op in ("add", "subtract"):
            stack += [(sign if n.op == "add" else -sign, n.args[1]), (sign, n.args[0])]
        elif n.op == "negative":
            stack.append((-sign, n.args[0]))
        else:
            yield sign, n


def _negative(x: Node) -> Node:
    return x.args[0] if x.op == "negative" else op("negative", x)
