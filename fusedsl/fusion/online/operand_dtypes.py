"""Dtypes of the operands of attention's products: 16 bits where they round neither an operand nor its weight.

Tensor cores multiply 16-bit numbers, so that a kernel rounds p to the dtype of v. A contraction of 16-bit floats rounds
its operands; a sum of products of them, as a program writes it, does not.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir.graph import Node, Type, node, rebuild, resolve, with_arguments
from ...ir.ops import WIDENED
from ...ir.rounded_values import is_number_of
from ...ir.types import BFLOAT16, FLOAT16, DType, promote
from ...rewrite.scalar_builder import free_axes
from ..coordinates import Axis
from ..scalar_program import ScalarProgram
from .score_products import factors_of, is_operand, scores

NARROW = (FLOAT16, BFLOAT16)


def operand_dtype(value: Node, d: DType) -> DType:
    """The dtype that an operand of a product of dtype `d` is stored in: the narrowest that rounds nothing."""
    own = _narrowest(value)
    if d in NARROW:
        return d if _has_numbers_of(d, own) else d.compute
    return own if own.bits == 16 and own.bits < d.bits and own.compute is d.compute else d


def widen_values(program: ScalarProgram) -> ScalarProgram:
    """The program, in which what unrounded weights multiply in a sum of 16-bit floats is read as float32."""
    free = free_axes([r.value for r in program.stores])

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        fold = with_arguments(old, args)
        if old.op != "fold" or old.attr[0] != "sum" or len(old.attr[1]) != 1 or old.type.dtype not in NARROW:
            return fold
        (axis,) = old.attr[1]
        free.update(free_axes([fold]))
        if not scores(fold.args[0], axis, free):
            return fold
        wide = {n: node("cast", (n,), WIDENED, Type(n.type.dtype.compute)) for n in _narrow_values(fold, axis, free)}
        if not wide:
            return fold
        new = rebuild(args, lambda x, args: wide.get(x) or with_arguments(x, args))
        return with_arguments(old, (new[args[0]],))

    new = rebuild([r.value for r in program.stores], change)
    return replace(program, stores=tuple(replace(r, value=new[r.value]) for r in program.stores))


def _narrow_values(fold: Node, kv_axis: Axis, free: dict[Node, frozenset]) -> list[Node]:
    """Factors of v, if v has 16 bits and p more."""
    value = fold.args[0]
    factors = factors_of(value, lambda n: is_operand(n) and not scores(n, kv_axis, free))
    free.update(free_axes(factors.all))
    weighing = [n for n in factors.all if scores(n, kv_axis, free)]
    own = free[value].difference({kv_axis}, *(free[n] for n in weighing))
    values = [n for n in factors.over if free[n] & own]
    v = factors.product(values)
    if v is None or (d := operand_dtype(v, fold.type.dtype)) not in NARROW:
        return []
    weights = [n for n in factors.over if n not in values]
    casts = {factors.casts.get(n) for n in (*weights, *factors.under)}
    rounded = len(casts) == 1 and None not in casts
    exact = not factors.under and len(weights) <= 1 and all(_has_numbers_of(d, _narrowest(n)) for n in weights)
    return [] if rounded or exact else values


def _has_numbers_of(d: DType, own: DType) -> bool:
    """Whether a 16-bit float has all numbers of a dtype."""
    return own is d or own.bits <= 8


def _narrowest(root: Node) -> DType:
    """The narrowest dtype that holds all values of an operand."""
    done: dict[Node, DType] = {}

    def value_operands(n: Node) -> tuple[Node, ...]:
        return n.args[1:] if n.op == "where" else n.args if n.op == "convert" else ()

    def make(n: Node) -> DType:
        d = n.type.dtype
        if n.op in ("load", "fetch"):
            return n.attr[0].stored_dtype(d)
        if n.op == "where":
            return promote(done[n.args[1]], done[n.args[2]])
        if n.op == "convert" and ((own := done[n.args[0]]).bits <= 8 or own.kind == d.kind == "f"):
            return own
        if n.op == "const":
            return d if is_number_of(n, d) else d.compute
        return d if n.op == "cast" else d.compute

    return resolve(done, root, value_operands, make)
