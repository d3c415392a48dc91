"""Dear values of a tile's scores that no mask changes: computed before tiles with masks and tiles without part ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...fusion.cost_model import computed_nodes
from ...ir.graph import Node, walk
from ...ir.types import FLOAT32
from .rematerialization import computed_below, recompute_cost

EARLY = 16  # instructions that are worth standing in a kernel once


@dataclass(frozen=True)
class Leaves:
    """What elements of a tile are computed from: the scores, and what else has a name. `free` says on which axes a
    value depends; the tile lies along `stream`, and along `lanes`."""

    scores: frozenset[Node]
    known: frozenset[Node]
    free: Mapping[Node, frozenset]
    stream: frozenset
    lanes: frozenset


def early(roots: Sequence[Node], leaves: Leaves) -> Node | None:
    """The one dear value of elements that is made of scores; None where there is none or are several, or where the
    scores themselves are read later too: registers hold one for each element. None too where it is dear by what is the
    same in all rows."""
    stop = set(leaves.scores | leaves.known)
    plain = _plain(roots, leaves)
    taken: dict[Node, None] = {}
    stack, seen = list(roots), set(stop)
    while stack:
        n = stack.pop()
        if n in seen or n.op == "const":
            continue
        seen.add(n)
        if n in plain and n.type.dtype.compute is FLOAT32 and recompute_cost(n, stop) >= EARLY:
            taken[n] = None
        else:
            stack += n.args
    found = [n for n in taken if not any(m in taken for m in computed_below(n.args, stop))]
    if len(found) != 1 or not leaves.scores.isdisjoint(computed_nodes(roots, frozenset(found))):
        return None
    return None if _has_dear_columns(found[0], leaves, stop) else found[0]


def _plain(roots: Sequence[Node], leaves: Leaves) -> set[Node]:
    """The nodes below the roots that are made of scores, places and numbers, without a choice between values."""
    found: set[Node] = set()
    for n in walk(roots):
        if n in leaves.scores or n.op == "const":
            found.add(n)
        elif n in leaves.known:
            if n.op == "position" or leaves.stream.isdisjoint(leaves.free.get(n, ())):
                found.add(n)
        elif n.op not in ("where", "state", "load", "fetch") and n.args and found.issuperset(n.args):
            found.add(n)
    return found


def _has_dear_columns(n: Node, leaves: Leaves, stop: set[Node]) -> bool:
    """Whether dear values below a node are the same in all rows."""
    axes = {m: leaves.free.get(m, leaves.lanes) for m in computed_below([n], stop)}
    same = [m for m, free in axes.items() if leaves.lanes.isdisjoint(free) and not leaves.stream.isdisjoint(free)]
    return any(recompute_cost(m, stop) >= EARLY for m in same)
