"""Dear values of a tile's scores that no mask changes: computed before tiles with masks and tiles without part ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...fusion.cost_model import computed
from ...ir.graph import Node, walk
from ...ir.types import FLOAT32
from .rematerialization import closure, dearness

WORTH_HOISTING = 16  # instructions that are worth standing in a kernel once


@dataclass(frozen=True)
class TileLeaves:
    """What elements of a tile are computed from: the scores, and what else has a name. `free` says on which axes a
    value depends; the tile lies along `stream`, and along `lanes`."""

    scores: frozenset[Node]
    known: frozenset[Node]
    free: Mapping[Node, frozenset]
    kv_axes: frozenset
    query_axes: frozenset


def hoistable(roots: Sequence[Node], leaves: TileLeaves) -> Node | None:
    """The one dear value of elements that is made of scores; None where there is none or are several, or where the
    scores themselves are read later too: registers hold one for each element. None too where it is dear by what is the
    same in all rows."""
    stop = set(leaves.scores | leaves.known)
    plain = _without_selects(roots, leaves)
    taken: dict[Node, None] = {}
    stack, seen = list(roots), set(stop)
    while stack:
        n = stack.pop()
        if n in seen or n.op == "const":
            continue
        seen.add(n)
        if n in plain and n.type.dtype.compute is FLOAT32 and dearness(n, stop) >= WORTH_HOISTING:
            taken[n] = None
        else:
            stack += n.args
    found = [n for n in taken if not any(m in taken for m in closure(n.args, stop))]
    if len(found) != 1 or not leaves.scores.isdisjoint(computed(roots, frozenset(found))):
        return None
    return None if _has_expensive_columns(found[0], leaves, stop) else found[0]


def _without_selects(roots: Sequence[Node], leaves: TileLeaves) -> set[Node]:
    """The nodes below the roots that are made of scores, places and numbers, without a choice between values."""
    found: set[Node] = set()
    for n in walk(roots):
        if n in leaves.scores or n.op == "const":
            found.add(n)
        elif n in leaves.known:
            if n.op == "position" or leaves.kv_axes.isdisjoint(leaves.free.get(n, ())):
                found.add(n)
        elif n.op not in ("where", "state", "load", "fetch") and n.args and found.issuperset(n.args):
            found.add(n)
    return found


def _has_expensive_columns(n: Node, leaves: TileLeaves, stop: set[Node]) -> bool:
    """Whether dear values below a node are the same in all rows."""
    axes = {m: leaves.free.get(m, leaves.query_axes) for m in closure([n], stop)}
    same = [m for m, free in axes.items() if leaves.query_axes.isdisjoint(free) and not leaves.kv_axes.isdisjoint(free)]
    return any(dearness(m, stop) >= WORTH_HOISTING for m in same)
