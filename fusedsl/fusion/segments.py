"""Segments: a program split at the arrays stored between kernels; each segment is planned separately.

A stored array is of a lower level than its readers. A segment has the results and stored arrays of one level, and reads
those of lower levels like arguments. Planning time so grows linearly with the number of segments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

from ..ir.graph import Graph, Node, Type, node, search, walk, with_arguments
from ..ir.ops import CASTS, LEAVES, OPS
from .demand_analysis import WORKS, array_below, cost
from .read_analysis import StoredArray
from .scalar_program import ReadableArrays

MOST_ROUNDS = 4  # of moving roots to later segments


@dataclass(frozen=True)
class StoreTarget:
    """Target of a segment's result: result or temporary `index`; a `rounded` temporary holds its own dtype."""

    kind: Literal["result", "temporary"]
    index: int
    rounded: bool = False


@dataclass(frozen=True)
class Segment:
    """Part of a program: a graph and the targets of its results. A `param` beyond the program's is a temporary."""

    graph: Graph
    targets: tuple[StoreTarget, ...]


def segments(graph: Graph, stored: Sequence[StoredArray]) -> list[Segment]:
    """Segments of a program in launch order; the stored arrays are the first temporaries, in their order."""
    if not stored:
        return [Segment(graph, tuple(StoreTarget("result", k) for k in range(len(graph.results))))]
    arguments = ReadableArrays(len(graph.parameters))
    index = {s.node: k for k, s in enumerate(stored)}
    level = _levels([*index, *graph.results], index, stored)
    leaf = {n: _leaf(n, len(graph.parameters) + k) for n, k in index.items()}
    parts = []
    of_result = [
        level[n] + (n.op == "scatter") for n in graph.results
    ]  # a scatter is merged in a temporary, then copied
    for number in sorted({*level.values(), *of_result}):
        targets = [
            (n, StoreTarget("temporary", k, arguments.rounds(n))) for n, k in index.items() if level[n] == number
        ]
        targets += [(n, StoreTarget("result", k)) for k, n in enumerate(graph.results) if of_result[k] == number]
        read = {n: x for n, x in leaf.items() if level[n] < number}
        roots = _reading([n for n, _ in targets], read)
        parts.append(Segment(Graph(graph.parameters, tuple(roots), ()), tuple(t for _, t in targets)))
    return parts


def add_shared_arrays(graph: Graph, stored: Sequence[StoredArray], instructions_per_byte: float) -> list[StoredArray]:
    """The stored arrays, plus values that several segments would compute.

    These are reductions, scans, sorts and products, and elementwise values that take longer to recompute than to store.
    """
    arrays = list(stored)
    while True:
        added = _shared(graph, arrays, instructions_per_byte) if arrays else []
        if not added:
            return arrays
        arrays += added


def _shared(graph: Graph, stored: Sequence[StoredArray], rate: float) -> list[StoredArray]:
    """Expensive values that several segments compute, as close to the results as possible."""
    index = {s.node: k for k, s in enumerate(stored)}
    roots = [*index, *graph.results]
    level = _levels(roots, index, stored)
    where: dict[Node, set[int]] = {}
    for root in roots:
        stack, here = [root], level[root]
        while stack:
            n = stack.pop()
            if here not in where.setdefault(n, set()) and not (n in index and level[n] < here):
                where[n].add(here)
                stack += n.args
    order = [n for n in walk(roots) if len(where.get(n, ())) > 1]
    works: set[Node] = set()
    ends: dict[Node, None] = {}
    for n in order:
        if n.op in WORKS or not works.isdisjoint(n.args):
            works.add(n)
    shared = set(order)
    for n in walk(roots):
        ends |= {array_below(a): None for a in n.args if a in shared and where.get(n, set()) != where[a]}
    expensive = _expensive_values({n: len(where[n]) for n in ends if n in where and n not in works}, roots, index, rate)
    return [
        StoredArray(n, "several segments of the program would compute it", False)
        for n in ends
        if n not in index and (n in works or n in expensive)
    ]


def _expensive_values(
    counts: Mapping[Node, int], roots: Sequence[Node], index: Mapping[Node, int], rate: float
) -> set[Node]:
    """Elementwise values that take longer to recompute than to store and load.

    `counts` says how many segments compute each. A load and a store take as long as `rate` instructions per byte.
    """
    expensive: set[Node] = set()
    inside: dict[Node, frozenset[Node]] = {}
    for n in walk(roots):
        leaf = n in index or n in expensive or n.op in LEAVES
        inside[n] = frozenset((n,)) if leaf else frozenset((n,)).union(*(inside[a] for a in n.args))
        again = counts.get(n, 1) - 1
        if again and n not in index and n.op not in LEAVES and n.type.shape and rate < inf:
            read = {m for m in inside[n] if m in index or m in expensive or m.op == "param"}
            issued = sum(map(cost, inside[n].difference(read)))
            moved = sum(m.type.dtype.itemsize for m in read if m.type.shape)
            stored = n.type.dtype.compute.itemsize * (1 + again)
            if again * (issued + rate * moved) > rate * stored:
                expensive.add(n)
                inside[n] = frozenset((n,))
    return expensive


def _levels(roots: Sequence[Node], index: dict[Node, int], stored: Sequence[StoredArray]) -> dict[Node, int]:
    """Segment of each root: one after the segments of all stored arrays that it reads.

    An elementwise epilogue of a product is in the product's segment, and the arrays of a cut are in one segment.
    """
    products, cuts = {s.node for s in stored if s.product}, {s.node: s.cut for s in stored if s.cut is not None}
    level: dict[Node, int] = {}
    readers: dict[Node, dict[Node, int]] = {}  # readers of each root, and their least distance in segments
    order = {n: k for k, n in enumerate(walk(roots))}
    for root in sorted(dict.fromkeys(roots), key=order.__getitem__):
        beside, elsewhere = _stored_below(root, index)
        together = products | {n for n in beside if n in cuts and cuts[n] == cuts.get(root)}
        later = {n: int(n in elsewhere or n not in together) for n in beside | elsewhere}
        level[root], readers[root] = max((level[n] + d for n, d in later.items()), default=0), {}
        for n, d in later.items():
            readers[n][root] = d
    return _raised(level, readers, index)


def _raised(level: dict[Node, int], readers: dict[Node, dict[Node, int]], index: dict[Node, int]) -> dict[Node, int]:
    """The levels with roots moved to a later segment that computes the same expensive nodes; readers follow."""
    if not any(level.values()):
        return level
    works_of = {root: _works_below(root, level, index) for root in level}
    sharing: dict[Node, list[Node]] = {}
    for root, works in works_of.items():
        for n in works:
            sharing.setdefault(n, []).append(root)
    levels = dict(level)
    for _ in range(MOST_ROUNDS):
        before = dict(levels)
        for root in reversed(levels):
            alike = {r for n in works_of[root] for r in sharing[n] if levels[r] > levels[root]}
            if alike and (alike := alike.difference(_reached(root, readers))):
                _raise(levels, readers, root, max(levels[r] for r in alike))
        if levels == before:
            break
    return levels


def _reached(root: Node, readers: dict[Node, dict[Node, int]]) -> set[Node]:
    """Roots that are computed from a root."""
    return set(search(readers[root], readers.__getitem__))


def _raise(levels: dict[Node, int], readers: dict[Node, dict[Node, int]], root: Node, level: int) -> None:
    """Move a root to this level, and its readers to the least level that this allows."""
    stack = [(root, level)]
    while stack:
        n, least = stack.pop()
        if levels[n] < least:
            levels[n] = least
            stack += [(r, least + d) for r, d in readers[n].items()]


def _works_below(root: Node, level: dict[Node, int], index: dict[Node, int]) -> list[Node]:
    """Reductions, scans, sorts and products that a root computes, down to stored arrays of earlier segments."""

    def is_earlier(n: Node) -> bool:
        return n in index and level[n] < level[root]

    return [n for n in search([root], lambda n: () if is_earlier(n) else n.args) if n.op in WORKS and not is_earlier(n)]


def _stored_below(root: Node, index: dict[Node, int]) -> tuple[set[Node], set[Node]]:
    """(stored arrays that a root reads elementwise, stored arrays that it reads otherwise)."""
    arrays: tuple[set[Node], set[Node]] = (set(), set())
    stack, seen = [(root, True)], set[tuple[Node, bool]]()
    while stack:
        n, beside = stack.pop()
        beside &= n.type.shape == root.type.shape
        if (n, beside) in seen:
            continue
        seen.add((n, beside))
        if n in index and n is not root:
            arrays[not beside].add(n)
        else:
            stack += [(a, beside and (n.op in OPS or n.op in CASTS)) for a in n.args]
    return arrays


def _leaf(n: Node, index: int) -> Node:
    return node("param", (), index, Type(n.type.dtype, n.type.shape, n.type.weak))


def _reading(roots: Sequence[Node], leaf: dict[Node, Node]) -> list[Node]:
    """The roots with some arrays replaced by parameters."""
    new: dict[Node, Node] = {}

    def parameter(n: Node) -> Node:
        args = tuple(leaf.get(a) or new[a] for a in n.args)
        return with_arguments(n, args)

    for root in roots:
        stack = [] if root in leaf else [root]
        while stack:
            n = stack[-1]
            missing = [] if n in new else [a for a in n.args if a not in new and a not in leaf]
            stack += missing
            if not missing:
                new.setdefault(n, parameter(n))
                stack.pop()
    return [leaf.get(r) or new[r] for r in roots]
