"""Equal widths: matrix products of one operand whose other operands are equally wide share axes, so that one kernel
computes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..ir.dims import Dim, Symbol, substitute
from ..ir.graph import Graph, Node, resolve_dims, walk
from .graph_products import matmul_extents

MOST_SHARED_PRODUCTS = 4  # products of a kernel, whose sums a tile of 64 columns of each holds in registers
Widths = tuple[Dim, ...]


def unify_equal_widths(graph: Graph, same: Callable[[Dim, Dim], bool]) -> Graph:
    """The graph in which products of one operand have the same extents where `same` says that they are equal.

    `same` records its answers as guards: the plan is for calls in which these extents compare alike.
    """
    table: dict[Dim, Dim] = {}
    for widths in _products_by_operand(graph.results):
        _unify(widths, table, same)
    return resolve_dims(graph, table)


def _products_by_operand(results: Iterable[Node]) -> list[list[Widths]]:
    """For each operand that several products have in the same place, the widths of their other operands."""
    products: dict[tuple, list[Widths]] = {}
    for n in walk(results):
        if n.op == "contract":
            alone = matmul_extents(n).alone
            if all(alone):
                for side in (0, 1):
                    products.setdefault((n.attr, side, n.args[side]), []).append(tuple(alone[1 - side]))
    return [widths for widths in products.values() if len(widths) > 1]


def _unify(widths: list[Widths], table: dict[Dim, Dim], same: Callable[[Dim, Dim], bool]) -> None:
    """Add the symbols of equal widths to the table, in groups of at most MOST_SHARED_PRODUCTS."""
    count: dict[Widths, int] = {}
    for dims in widths:
        known: Widths = tuple(substitute(d, table) for d in dims)  # type: ignore[misc]
        count[known] = count.get(known, 0) + 1
    shared: dict[Widths, int] = {}
    for dims, products in count.items():
        other = next(
            (o for o, n in shared.items() if n + products <= MOST_SHARED_PRODUCTS and _are_equal(o, dims, same)), None
        )
        if other is not None:
            for o, d in zip(other, dims):
                renamed: Widths = (substitute(o, table), substitute(d, table))  # type: ignore[assignment]
                if renamed[0] != renamed[1]:  # else earlier pairs have made them equal
                    table[renamed[1]] = renamed[0]
        shared[other or dims] = shared.get(other or dims, 0) + products


def _are_equal(a: Widths, b: Widths, same: Callable[[Dim, Dim], bool]) -> bool:
    """Whether widths agree, of which those that differ in writing are extents of arguments."""
    differ = [(x, y) for x, y in zip(a, b) if x != y]
    arguments = all(isinstance(d, Symbol) for pair in differ for d in pair)
    return len(a) == len(b) and arguments and all(same(x, y) for x, y in differ)
