"""Merged sums: a matrix product that sums over several axes of an operand sums over one axis of it as it is stored.

The product of `einsum("bhsk,hkd->bsd", o, w)` is that of reshape(swapaxes(o, 1, 2), …) and reshape(w, …): what computes
o stores it so, and tensor cores multiply along one axis.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir.contraction import Subscripts
from ..ir.dims import Dim, product
from ..ir.graph import Graph, Node, Type, node, rebuild_graph, with_arguments
from .demand_analysis import array_below_windows
from .graph_products import is_large


def merge_summed_axes(graph: Graph, fits: Callable[[Dim, int], bool]) -> Graph:
    """The graph whose large products sum over one axis, if one operand has all these axes together.

    `fits` answers whether a count is within a limit for this plan.
    """
    return rebuild_graph(graph, lambda old, args: _merged(old, args, fits))


def _merged(old: Node, args: tuple[Node, ...], fits: Callable[[Dim, int], bool]) -> Node:
    if old.op != "contract":
        return with_arguments(old, args)
    if any(map(array_below_windows, args)):  # stored in that order, windows take many times the bytes of their array
        return with_arguments(old, args)
    subscripts = Subscripts.parse(old.attr)
    for left in (True, False):
        scattered, other = args if left else args[::-1]
        own, others = (subscripts.left, subscripts.right) if left else (subscripts.right, subscripts.left)
        summed = "".join(c for c in others if c in subscripts.summed)
        if len(summed) < 2 or summed not in others or summed in own or not is_large(old, fits):
            continue
        remaining = "".join(c for c in own if c not in summed)
        rearranged = _transposed(scattered, own, remaining + summed)
        operands = [_joined(rearranged, remaining + summed, summed), _joined(other, others, summed)]
        left_right = [own.replace(summed, summed[0]) for own in (remaining + summed, others)]
        if not left:
            operands, left_right = operands[::-1], left_right[::-1]
        return node(
            "contract", tuple(operands), str(Subscripts(left_right[0], left_right[1], subscripts.result)), old.type
        )
    return with_arguments(old, args)


def _transposed(x: Node, subscripts: str, wanted: str) -> Node:
    """An array with its axes in the order of these subscripts."""
    order = tuple(subscripts.index(c) for c in wanted)
    return node("transpose", (x,), order, Type(x.type.dtype, tuple(x.type.shape[a] for a in order), x.type.weak))


def _joined(x: Node, subscripts: str, summed: str) -> Node:
    """An array with neighbouring axes as one."""
    first, dims = subscripts.index(summed), x.type.shape
    end = first + len(summed)
    shape = (*dims[:first], product(dims[first:end]), *dims[end:])
    return node("reshape", (x,), None, Type(x.type.dtype, shape, x.type.weak))
