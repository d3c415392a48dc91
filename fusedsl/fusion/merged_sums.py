"""Merged sums: a matrix product that sums over several axes of an operand sums over one axis of it as it is stored.

The product of `einsum("bhsk,hkd->bsd", o, w)` is that of reshape(swapaxes(o, 1, 2), …) and reshape(w, …): what computes
o stores it so, and tensor cores multiply along one axis.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir.contraction import Subscripts
from ..ir.dims import Dim, product
from ..ir.graph import Graph, Node, Type, node, rebuild
from .graph_products import is_large


def merge_summed_axes(graph: Graph, fits: Callable[[Dim, int], bool]) -> Graph:
    """The graph whose large products sum over one axis, if one operand has all these axes together.

    `fits` answers whether a count is within a limit for this plan.
    """
    new = rebuild(graph.results, lambda old, args: _merged(old, args, fits))
    return Graph(graph.parameters, tuple(new[r] for r in graph.results), graph.checks)


def _merged(old: Node, args: tuple[Node, ...], fits: Callable[[Dim, int], bool]) -> Node:
    if old.op != "contract":
        return node(old.op, args, old.attr, old.type) if args != old.args else old
    letters = Subscripts.parse(old.attr)
    for left in (True, False):
        scattered, other = args if left else args[::-1]
        own, others = (letters.left, letters.right) if left else (letters.right, letters.left)
        summed = "".join(c for c in others if c in letters.summed)
        if len(summed) < 2 or summed not in others or summed in own or not is_large(old, fits):
            continue
        kept = "".join(c for c in own if c not in summed)
        turned = _transposed(scattered, own, kept + summed)
        operands = [_joined(turned, kept + summed, summed), _joined(other, others, summed)]
        words = [word.replace(summed, summed[0]) for word in (kept + summed, others)]
        if not left:
            operands, words = operands[::-1], words[::-1]
        return node("contract", tuple(operands), str(Subscripts(words[0], words[1], letters.result)), old.type)
    return node(old.op, args, old.attr, old.type) if args != old.args else old


def _transposed(x: Node, letters: str, wanted: str) -> Node:
    """An array with its axes in the order of these letters."""
    order = tuple(letters.index(c) for c in wanted)
    return node("transpose", (x,), order, Type(x.type.dtype, tuple(x.type.shape[a] for a in order), x.type.weak))


def _joined(x: Node, letters: str, summed: str) -> Node:
    """An array with neighbouring axes as one."""
    first, dims = letters.index(summed), x.type.shape
    end = first + len(summed)
    shape = (*dims[:first], product(dims[first:end]), *dims[end:])
    return node("reshape", (x,), None, Type(x.type.dtype, shape, x.type.weak))
