"""Copied operands: a large product multiplies a copy of an argument, from which 16 bytes at a time can be loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..ir.builder import GraphBuilder
from ..ir.dims import Dim, Symbol, expression
from ..ir.gathers import INSIDE, at_position
from ..ir.graph import Graph, Node, Type, node, rebuild_graph, with_arguments
from ..ir.ops import VIEWS
from .formulation import OperandCopy
from .graph_products import is_large

LINE_BYTES = 16  # of which lines of a copy have a whole number
COPY = "a matrix product multiplies a copy of it, whose lines are aligned"


def copy_operands(
    graph: Graph, copies: tuple[OperandCopy, ...], extents: Mapping[Symbol, int], fits: Callable[[Dim, int], bool]
) -> tuple[Graph, dict[Node, str]]:
    """The graph whose large products multiply copies of these arguments, and the copies, which are to be stored."""
    b, stored = GraphBuilder(graph.parameters, extents), dict[Node, str]()
    turned = {copy.argument: copy.turned for copy in copies}

    def aligned(n: Node) -> Node:
        """An operand, as a view of the copy of its argument."""
        return _with_aligned_lines(b, n, stored) if n.op == "param" else with_arguments(n, (aligned(n.args[0]),))

    def copied(operand: Node) -> Node:
        argument = _argument(operand)
        if argument not in turned:
            return operand
        if not turned[argument]:
            return aligned(operand)
        stored[operand] = COPY
        return operand

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        large = old.op == "contract" and is_large(old, fits)
        return with_arguments(old, tuple(map(copied, args)) if large else args)

    return rebuild_graph(graph, change), stored


def _argument(n: Node) -> int | None:
    """The argument that an operand views."""
    while n.op in VIEWS and n.op != "broadcast":
        n = n.args[0]
    return n.attr if n.op == "param" else None


def _with_aligned_lines(b: GraphBuilder, x: Node, stored: dict[Node, str]) -> Node:
    """A view of a copy of an argument whose lines are padded to whole numbers of 16 bytes."""
    axis, extent = x.type.rank - 1, x.type.shape[-1]
    unit = max(1, LINE_BYTES // x.type.dtype.itemsize)
    padded = expression("*", expression("//", expression("+", extent, unit - 1), unit), unit)
    last = b.elementwise("minimum", b.iota(padded), b.extent(expression("-", extent, 1)))
    copy = at_position(b, x, axis, last, padded, INSIDE)
    stored[copy] = COPY
    entries: list[tuple[str, Dim, int, Dim]] = [("slice", 0, 1, d) for d in x.type.shape]
    return node("index", (copy,), tuple(entries), Type(x.type.dtype, x.type.shape))
