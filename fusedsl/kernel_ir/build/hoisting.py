"""Hoisting: expensive values of scores that no mask changes are computed before the branch on full tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...fusion.cost_model import computed_nodes
from ...ir.graph import Node, search, walk
from ...ir.types import FLOAT32
from .rematerialization import computed_below, recompute_cost

WORTH_HOISTING = 16  # instructions that are worth emitting only once


@dataclass(frozen=True)
class TileLeaves:
    """Leaves of a tile's elements: scores and other named values. `free` maps a value to the axes it depends on; the
    tile lies along `kv_axes` and `query_axes`."""

    scores: frozenset[Node]
    known: frozenset[Node]
    free: Mapping[Node, frozenset]
    kv_axes: frozenset
    query_axes: frozenset


def hoistable(roots: Sequence[Node], leaves: TileLeaves) -> Node | None:
    """The one expensive element value that is computed from scores and can be hoisted.

    None if there are several, if the scores are read later too (registers hold one value per element), or if its cost
    is that of a value which all rows share."""
    stop = set(leaves.scores | leaves.known)
    plain = _without_selects(roots, leaves)
    expensive: dict[Node, None] = {}
    for n in search(roots, lambda n: () if n in stop or n in expensive else n.args):
        costly = n in plain and n not in stop and n.op != "const" and n.type.dtype.compute is FLOAT32
        if costly and recompute_cost(n, stop) >= WORTH_HOISTING:
            expensive[n] = None
    lowest = [n for n in expensive if not any(m in expensive for m in computed_below(n.args, stop))]
    if len(lowest) != 1 or not leaves.scores.isdisjoint(computed_nodes(roots, frozenset(lowest))):
        return None
    return None if _has_expensive_columns(lowest[0], leaves, stop) else lowest[0]


def _without_selects(roots: Sequence[Node], leaves: TileLeaves) -> set[Node]:
    """The nodes below the roots that are computed from scores, indices and numbers without a select."""
    plain: set[Node] = set()
    for n in walk(roots):
        if n in leaves.scores or n.op == "const":
            plain.add(n)
        elif n in leaves.known:
            if n.op == "position" or leaves.kv_axes.isdisjoint(leaves.free.get(n, ())):
                plain.add(n)
        elif n.op not in ("where", "state", "load", "fetch") and n.args and plain.issuperset(n.args):
            plain.add(n)
    return plain


def _has_expensive_columns(n: Node, leaves: TileLeaves, stop: set[Node]) -> bool:
    """True if expensive values below a node are the same in all rows."""
    axes = {m: leaves.free.get(m, leaves.query_axes) for m in computed_below([n], stop)}
    same = [m for m, free in axes.items() if leaves.query_axes.isdisjoint(free) and not leaves.kv_axes.isdisjoint(free)]
    return any(recompute_cost(m, stop) >= WORTH_HOISTING for m in same)
