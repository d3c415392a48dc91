"""Store-to-load forwarding: a row of where(i == k, a, b) is one of a or of b, where its number settles the condition.

An assignment to a row of an array is such a select. In a loop that writes rows, and reads what it has written, each
read would else ask all writes before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ir.constant_folding import PYTHON
from ..ir.dims import Dim
from ..ir.graph import Node, Type, node, value_of
from ..ir.ops import OPS
from .engine import rule
from .intervals.three_valued_logic import AND, NOT, OR

Known = Mapping[int, Dim]
"""The positions that are known, by axes counted from the last one, which is -1."""
DEEPEST = 16  # conditions in conditions that are looked through


@rule("index", law="a row of where(i == k, a, b) is one of a, or one of b")
def row_of_a_select(n: Node) -> Node | None:
    (x,) = n.args
    known = _positions(n)
    while x.op == "where" and known and (holds := settled(x.args[0], known)) is not None:
        chosen = x.args[1] if holds else x.args[2]
        if chosen.type.dtype is not n.type.dtype:
            return None
        if chosen.type.shape != x.type.shape:
            return _part(n, x, chosen)
        x = chosen
    return None if x is n.args[0] else node("index", (x,), n.attr, n.type)


@rule("index", law="x[None][0] = x")
def row_of_a_new_axis(n: Node) -> Node | None:
    """What is left of two indices where the outer one takes the first element of each new axis of the inner one."""
    (x,) = n.args
    if x.op != "index" or not any(entry[0] == "new" for entry in x.attr) or any(e[0] == "new" for e in n.attr):
        return None
    axis_entries = [entry for entry in x.attr if entry[0] != "int"]
    pairs = list(zip(axis_entries, n.attr, strict=True))
    taken = [outer == ("int", 0) for inner, outer in pairs if inner[0] == "new"]
    kept = [outer == ("slice", 0, 1, d) for (inner, outer), d in zip(pairs, x.type.shape) if inner[0] != "new"]
    if not all((*taken, *kept)):
        return None
    below = tuple(entry for entry in x.attr if entry[0] != "new")
    whole = below == tuple(("slice", 0, 1, d) for d in x.args[0].type.shape)
    return x.args[0] if whole else node("index", x.args, below, n.type)


def _positions(n: Node) -> dict[int, Dim]:
    """The positions of an index along the axes of its operand that it takes one element of."""
    below = [entry for entry in n.attr if entry[0] != "new"]
    return {k - len(below): entry[1] for k, entry in enumerate(below) if entry[0] == "int"}


def _part(n: Node, x: Node, chosen: Node) -> Node:
    """What an index takes of one operand of a select `x`, which that broadcasts."""
    missing = x.type.rank - chosen.type.rank
    key: list[tuple] = []
    axis = -missing  # of `chosen`
    for entry in n.attr:
        if entry[0] == "new":
            key += [entry] if axis > 0 else []
            continue
        if axis >= 0:
            one = chosen.type.shape[axis] != x.type.shape[missing + axis]
            key.append(entry if not one else ("int", 0) if entry[0] == "int" else ("slice", 0, 1, 1))
        axis += 1
    shape = tuple(1 if entry[0] == "new" else entry[3] for entry in key if entry[0] != "int")
    part = node("index", (chosen,), tuple(key), Type(n.type.dtype, shape, n.type.weak)) if key else chosen
    return part if shape == n.type.shape else node("broadcast", (part,), None, n.type)


def settled(condition: Node, known: Known, depth: int = DEEPEST) -> bool | None:
    """Whether a condition holds at these positions; None where they do not say."""
    known = _broadcast(condition, known)
    if condition.op in (*AND, *OR) and depth:
        ends = condition.op in OR  # what one operand decides
        sides = [settled(side, known, depth - 1) for side in condition.args]
        return ends if ends in sides else None if None in sides else not ends
    if condition.op in NOT and depth:
        holds = settled(condition.args[0], known, depth - 1)
        return None if holds is None else not holds
    if condition.op == "index" and depth:
        return settled(condition.args[0], _below(condition, known), depth - 1)
    if condition.op == "const":
        return bool(value_of(condition))
    if condition.op not in OPS or OPS[condition.op].rule != "compare":
        return None
    compare = PYTHON[condition.op]
    a, b = (_number(side, known) for side in condition.args)
    if isinstance(a, int) and isinstance(b, int):
        return compare(a, b)
    return compare(0, 0) if a is not None and a == b else None


def _number(n: Node, known: Known) -> Any:
    """An integer, or an extent, that a value is at these positions; None where they do not say."""
    if n.op == "iota":
        return _broadcast(n, known).get(-1)
    if n.op == "size":
        return n.attr
    return value_of(n) if n.op == "const" and n.type.dtype.kind in "iu" else None


def _broadcast(n: Node, known: Known) -> Known:
    """The positions in an operand, from those in what it is broadcast to: the first of an axis of one element."""
    return {axis: 0 if -axis <= n.type.rank and n.type.shape[axis] == 1 else known[axis] for axis in known}


def _below(view: Node, known: Known) -> dict[int, Dim]:
    """The positions in the operand of an index, from those in its result."""
    rank, inner = view.type.rank, view.args[0].type.rank
    positions: dict[int, Dim] = {}
    axis, at = -rank, -inner
    for entry in view.attr:
        if entry[0] == "int":
            positions[at] = entry[1]
        elif entry[0] == "slice":
            position = known.get(axis)
            if position is not None and entry[1:3] == (0, 1):
                positions[at] = position
            elif isinstance(position, int) and isinstance(entry[1], int):
                positions[at] = entry[1] + entry[2] * position
        at += entry[0] != "new"
        axis += entry[0] != "int"
    return positions
