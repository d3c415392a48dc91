"""Roots of a segment: what it stores, with the arrays that each is computed from; a scatter is of three."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.graph import Node
from .segments import StoreTarget


@dataclass(frozen=True)
class Root:
    """What a segment stores: the value `stored`, computed as `computed`, then the updates of a scatter."""

    target: StoreTarget
    stored: Node
    computed: Node
    fold: str = ""  # of a scatter
    updates: tuple[Node, ...] = ()  # of a scatter: its places and values

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
        roots.append(Root(target, stored, computed, n.attr[0] if updates else "", updates))
    return roots
