"""Roots of a segment: what it stores, with the arrays that each is computed from; a scatter is of three."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.graph import Node
from ..ir.scatters import ORDERED
from .segments import StoreTarget


@dataclass(frozen=True)
class Root:
    """What a segment stores: the value `stored`, computed as `computed`, then the updates of a scatter."""

    target: StoreTarget
    stored: Node
    computed: Node
    fold: str = ""  # of a scatter
    updates: tuple[Node, ...] = ()  # of a scatter: its places and values
    ordered: bool = False  # whether these places do not decrease

    @property
    def nodes(self) -> tuple[Node, ...]:
        return (self.computed, *self.updates)


def parts_of(n: Node) -> tuple[Node, ...]:
    """The arrays that are computed for a result: base, places and values of a scatter, or itself."""
    return n.args if n.op == "scatter" else (n,)


def regrouped(
    targets: Sequence[StoreTarget], written: Sequence[Node], results: Sequence[Node], peeled: Sequence[Node]
) -> list[Root]:
    """The roots of results whose parts were rewritten."""
    roots, rest = [], iter(zip(results, peeled))
    for target, n in zip(targets, written):
        stored, computed = next(rest)
        updates = tuple(next(rest)[1] for _ in parts_of(n)[1:])
        fold, mode = n.attr if updates else ("", "")
        roots.append(Root(target, stored, computed, fold, updates, mode == ORDERED and updates[0].type.rank == 1))
    return roots
