"""Long chains of operations: where they are cut, so that as few arrays as possible are stored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from ..ir.graph import Node
from ..ir.ops import LEAVES, OPS, VIEWS
from .demand_analysis import cost

RECOMPUTED = 8  # instructions of a value of positions alone that each kernel computes again


def narrowest_cut(
    order: Sequence[Node],
    chain: Collection[Node],
    index: Mapping[Node, int],
    last: Mapping[Node, int],
    weight: Callable[[Node], int] = cost,
) -> list[Node]:
    """The arrays that later nodes read of earlier ones, where these are fewest.

    `order` are the nodes of a program from the first to the last of a chain, `index` the places of nodes, `last` those
    of their last readers. At least half of the chain's weight is before the cut, its last node behind: the
    latest such cut of the fewest arrays, so that kernels are few. What else is computed from the chain counts, so that
    no other kernel computes the chain again.
    """
    total, passed = sum(map(weight, chain)), 0
    best: list[Node] = []
    live: list[Node] = []
    of_chain: set[Node] = set()
    positions = _positions(order)
    for n in order[:-1]:
        if n in chain:
            passed += weight(n)
        if n.op not in LEAVES and (n in chain or not of_chain.isdisjoint(n.args)):
            of_chain.add(n)
        live = [m for m in live if last[m] > index[n]]
        if n in of_chain and n not in positions and n.type.shape and last.get(n, 0) > index[n]:
            live.append(n)
        if live and 2 * passed >= total and (not best or len(live) <= len(best)):
            best = list(live)
    return best


def _positions(order: Sequence[Node]) -> set[Node]:
    """What a few instructions compute of positions and numbers alone, as the condition i == 3."""
    few: dict[Node, int] = {}
    for n in order:
        if n.op in OPS or n.op in (*VIEWS, "convert", "cast"):
            costs = [0 if a.op in LEAVES and a.op != "param" else few.get(a) for a in n.args]
            if None not in costs and (size := cost(n) + sum(costs)) <= RECOMPUTED:  # type: ignore[arg-type]
                few[n] = size
    return set(few)
