"""Stages operands of attention: computed q, k or v are stored first, in the dtype of their product."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ...ir.folds import pick
from ...ir.graph import Node, Type, constant, rebuild, walk, with_arguments
from ...ir.types import DType
from ...rewrite.scalar_builder import free_axes, scalar_op
from ..coordinates import Axis, memory_order
from ..fusion_group import load_of
from ..mask_conditions import may_contribute, predicate_reads
from ..scalar_program import ScalarProgram, ScalarStore
from .find_attention import AttentionPattern
from .operand_dtypes import operand_dtype
from .score_products import is_rounding


@dataclass(frozen=True)
class StagedOperand:
    """Operand of a product, its dtype there, and the axis that the product sums over or keeps."""

    value: Node
    dtype: DType
    axis: Axis


def stage_operands(
    program: ScalarProgram, patterns: Sequence[AttentionPattern], computed: bool
) -> tuple[ScalarProgram, tuple[ScalarStore, ...]]:
    """(the program with operands of its patterns stored first, the added stores).

    Stored are `computed` operands, and arrays of a dtype that the tensor cores cannot multiply.
    """
    stored: dict[StagedOperand, ScalarStore] = {}

    def stored_load(operand: StagedOperand) -> Node:
        if operand not in stored:
            stored[operand] = _staged_store(operand, len(program.temporaries) + len(stored))
        return load_of(stored[operand])

    def left(operand: StagedOperand) -> Node:
        wanted = _is_converted(operand) or is_rounding(operand.value) or (computed and operand.value.op != "load")
        return stored_load(operand) if wanted else operand.value

    def right(operand: StagedOperand, users: Iterable[AttentionPattern]) -> Node:
        if not computed or operand.value.op == "load":
            return left(operand)
        return stored_load(replace(operand, value=_masked_load(operand.value, users)))

    products, weighed = {}, {}
    for pattern in patterns:
        for p in pattern.score_products:
            d, users = p.fold.type.dtype, [u for u in patterns if any(p.fold is x.fold for x in u.score_products)]
            sides = (left(StagedOperand(p.q, d, p.axis)), right(StagedOperand(p.k, d, p.axis), users))
            if sides != (p.q, p.k):
                products[p.fold] = scalar_op("multiply", *sides)
        for f, value, axis in _weighted_folds(pattern):
            weighed[f] = right(StagedOperand(value, f.type.dtype, axis), [pattern])

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old in products:
            args = (products[old],)
        if old in weighed:
            args = (scalar_op("multiply", args[0].args[0], weighed[old]),)
        return with_arguments(old, args)

    new = rebuild([r.value for r in program.stores], change)
    roots = [replace(r, value=new[r.value]) for r in program.stores]
    types = [r.type for r in stored.values()]
    staged = replace(program, stores=(*stored.values(), *roots), temporaries=(*program.temporaries, *types))
    return staged, tuple(stored.values())


def _weighted_folds(pattern: AttentionPattern) -> list[tuple[Node, Node, Axis]]:
    """(weighted sum, its v, the axis of v alone) of a pattern."""
    free, folds = free_axes(pattern.folds), []
    for f in pattern.folds:
        own = [a for a in pattern.value_axes if a in free[f]]
        if own and f.args[0].op == "multiply":
            folds.append((f, f.args[0].args[1], own[0]))
    return folds


def _is_converted(operand: StagedOperand) -> bool:
    """Whether a 16-bit product reads an array of another dtype, whose values are numbers of 16 bits."""
    n, d = operand.value, operand.dtype
    if n.op != "load" or d.kind != "f" or d.bits != 16 or n.attr[0].stored_dtype(n.type.dtype) is d:
        return False
    return operand_dtype(n, d) is d


def _masked_load(value: Node, users: Iterable[AttentionPattern]) -> Node:
    """An operand read at computed coordinates, predicated: 0, without a load, where all rows are masked."""
    if all(n.op != "fetch" for n in walk([value])):
        return value
    condition = may_contribute([pattern.reduction for pattern in users], free_axes([value])[value])
    if condition is None:
        return value
    return pick(condition, predicate_reads(condition, value), constant(0.0, value.type.dtype))


def _staged_store(operand: StagedOperand, index: int) -> ScalarStore:
    """The store of an operand, contiguous along the axis of its product."""
    axes = [a for a in free_axes([operand.value])[operand.value] if a != operand.axis]
    order = (*memory_order([operand.value], sorted(axes, key=str)), operand.axis)
    shape = tuple(a.extent for a in order)
    kind = Type(operand_dtype(operand.value, operand.dtype), shape)
    return ScalarStore("temporary", index, shape, shape, order, operand.value, kind, rounded=True)
