"""Operands of products in passes over scores: those that no kernel multiplies as they are read are stored first, in the
dtype of their product, so that scores need not be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..ir.graph import Node, Type, node, rebuild
from ..ir.types import DType
from ..rewrite.scalars import free_axes, scalar_op
from .coordinates import Axis, memory_order
from .groups import loaded
from .lowered import Lowered, Root
from .streams import Streaming


@dataclass(frozen=True)
class Operand:
    """One side of a product, the dtype that it has there, and the axis that the product sums over or keeps."""

    value: Node
    dtype: DType
    axis: Axis


def store_operands(program: Lowered, passes: Sequence[Streaming], computed: bool) -> tuple[Lowered, tuple[Root, ...]]:
    """The program with operands of its passes stored by kernels of their own, and those stores: where operands are
    `computed`, and where arrays of another dtype would keep a product of 16 bits from the tensor cores."""
    stored: dict[Operand, Root] = {}

    def kept(operand: Operand) -> Node:
        if not (_is_converted(operand) or (computed and operand.value.op != "load")):
            return operand.value
        if operand not in stored:
            stored[operand] = _root(operand, len(program.temporaries) + len(stored))
        return loaded(stored[operand])

    products, weighed = {}, {}
    for one in passes:
        for p in one.products:
            sides = [kept(Operand(side, p.fold.type.dtype, p.axis)) for side in (p.left, p.right)]
            if sides != [p.left, p.right]:
                products[p.fold] = scalar_op("multiply", *sides)
        for f, value, axis in _weighed(one):
            weighed[f] = kept(Operand(value, f.type.dtype, axis))

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old in products:
            args = (products[old],)
        if old in weighed:
            args = (scalar_op("multiply", args[0].args[0], weighed[old]),)
        return node(old.op, args, old.attr, old.type) if args != old.args else old

    new = rebuild([r.value for r in program.roots], change)
    roots = [replace(r, value=new[r.value]) for r in program.roots]
    types = [r.type for r in stored.values()]
    made = replace(program, roots=(*stored.values(), *roots), temporaries=(*program.temporaries, *types))
    return made, tuple(stored.values())


def _weighed(one: Streaming) -> list[tuple[Node, Node, Axis]]:
    """The folds of a pass that have an axis of their own, what they weigh, and that axis."""
    free, found = free_axes(one.folds), []
    for f in one.folds:
        own = [a for a in one.own if a in free[f]]
        if own and f.args[0].op == "multiply":
            found.append((f, f.args[0].args[1], own[0]))
    return found


def _is_converted(operand: Operand) -> bool:
    """Whether an array holds other bits than the 16 that its product multiplies."""
    n, d = operand.value, operand.dtype
    return n.op == "load" and d.kind == "f" and d.bits == 16 and n.attr[0].holds(n.type.dtype) is not d


def _root(operand: Operand, index: int) -> Root:
    """The store of an operand: lines along the axis of its product."""
    axes = [a for a in free_axes([operand.value])[operand.value] if a != operand.axis]
    order = (*memory_order([operand.value], sorted(axes, key=str)), operand.axis)
    shape = tuple(a.extent for a in order)
    return Root("temporary", index, shape, shape, order, operand.value, Type(operand.dtype, shape), rounded=True)
