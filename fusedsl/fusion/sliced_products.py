"""Sliced products: a matrix product that is read in equal slices is one product for each slice of its operand.

`h = x @ w; silu(h[:, :n]) * h[:, n:]` so is one kernel, as with two matrices: its slices meet where both are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ..ir.contraction import Subscripts
from ..ir.dims import Dim, expression
from ..ir.graph import Graph, Node, Type, node, rebuild_graph, users_of, walk, with_arguments
from ..ir.ops import OPS
from .equal_widths import MOST_SHARED_PRODUCTS

Same = Callable[[Dim, Dim], bool]
Slice = tuple[int, Dim, Dim]
"""The axis that a basic index slices, the start and the extent of the slice."""


def split_sliced_products(graph: Graph, same: Same) -> Graph:
    """The graph in which products are products of slices, if they are read by equal slices that meet in one value.

    `same` says whether extents are equal, and records its answers as guards.
    """
    users = users_of(walk(graph.results))
    read = {n: users[n] for n in users if n.op == "contract" and n not in graph.results}
    split = {n for n in read if _never_overlap(read[n], same) and _are_combined(read[n], users, graph.results)}
    if not split:
        return graph

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old.op == "index" and old.args[0] in split:
            return _product_of_slice(old, args[0])
        return with_arguments(old, args)

    return rebuild_graph(graph, change)


def _slice(n: Node) -> Slice | None:
    """What a basic index slices of one axis; None if it does anything else."""
    shape = n.args[0].type.shape
    if n.op != "index" or len(n.attr) != len(shape):
        return None
    parts = [k for k, (entry, d) in enumerate(zip(n.attr, shape)) if entry != ("slice", 0, 1, d)]
    if len(parts) != 1:
        return None
    kind, *bounds = n.attr[parts[0]]
    return (parts[0], bounds[0], bounds[2]) if kind == "slice" and bounds[1] == 1 else None


def _never_overlap(readers: list[Node], same: Same) -> bool:
    """Whether nodes are slices of one axis, of equal extents, one behind the other from its begin."""
    slices = [one for one in map(_slice, readers) if one is not None]
    if (
        not 2 <= len(readers) <= MOST_SHARED_PRODUCTS
        or len(slices) < len(readers)
        or len({(one[0], one[2]) for one in slices}) != 1
    ):
        return False
    end: Dim = 0
    while slices:
        behind = next((one for one in slices if same(one[1], end)), None)
        if behind is None:
            return False
        slices.remove(behind)
        end = expression("+", end, behind[2])
    return True


def _are_combined(slices: list[Node], users: dict[Node, list[Node]], results: Collection[Node]) -> bool:
    """Whether one value is computed from slices, element by element, and nothing else is (as in rotary embeddings)."""
    shape, inside = slices[0].type.shape, set(slices)
    stack = list(slices)
    while stack:
        for n in users[stack.pop()]:
            if n not in inside and n.type.shape == shape and (n.op in OPS or n.op in ("convert", "cast")):
                inside.add(n)
                stack.append(n)
    ends = [n for n in inside if n in results or not inside.issuperset(users[n])]
    return len(ends) == 1 and ends[0] not in slices


def _product_of_slice(n: Node, product: Node) -> Node:
    """A slice of a product as the product of a slice of one operand."""
    sliced = _slice(n)
    assert sliced is not None
    axis, start, extent = sliced
    subscripts = Subscripts.parse(product.attr)
    letter = subscripts.result[axis]
    args = list(product.args)
    for side, own in enumerate((subscripts.left, subscripts.right)):
        if letter in own:
            args[side] = _sliced(args[side], own.index(letter), start, extent)
    return node("contract", tuple(args), product.attr, n.type)


def _sliced(x: Node, axis: int, start: Dim, extent: Dim) -> Node:
    shape = list(x.type.shape)
    entries: list[tuple[str, Dim, int, Dim]] = [("slice", 0, 1, d) for d in shape]
    entries[axis], shape[axis] = ("slice", start, 1, extent), extent
    return node("index", (x,), tuple(entries), Type(x.type.dtype, tuple(shape), x.type.weak))
