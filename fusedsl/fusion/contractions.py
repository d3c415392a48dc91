"""Contractions: expanded to sums of products before lowering, and recognised as matrix products among folds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..ir.contraction import Subscripts
from ..ir.dims import Dim
from ..ir.graph import Node, Type, constant, node, rebuild
from ..ir.ops import OPERAND, VIEWS
from ..ir.types import BOOL, INT32, UINT32, DType
from .coordinates import Axis


def expand_contractions(results: Sequence[Node]) -> list[Node]:
    """The results with every contraction as a sum of broadcast products.

    The product array is as large as all axes together, but never in memory: it is lowered to a fold.
    """
    new = rebuild(results, lambda old, args: _spread(old, args) if old.op == "contract" else _with(old, args))
    return [new[r] for r in results]


def matmul_factors(f: Node, free: Mapping[Node, frozenset[Axis]], rows: Iterable[Axis]) -> tuple[Node, Node] | None:
    """The two factors of a fold that is a matrix product: each has row axes that the other lacks. Else None."""
    (x,) = f.args
    if f.op != "fold" or f.attr[0] != "sum" or x.op != "multiply" or x.type.dtype is BOOL:
        return None
    left, right = (free.get(a, frozenset()) & frozenset(rows) for a in x.args)
    return (x.args[0], x.args[1]) if left - right and right - left else None


def _with(old: Node, args: tuple[Node, ...]) -> Node:
    return old if args == old.args else node(old.op, args, old.attr, old.type)


def _spread(n: Node, args: tuple[Node, ...]) -> Node:
    subscripts = Subscripts.parse(n.attr)
    all_letters = subscripts.result + subscripts.summed
    extent = dict(zip(subscripts.left, n.args[0].type.shape)) | dict(zip(subscripts.right, n.args[1].type.shape))
    wide, d = _adds_in(n.type.dtype), n.type.dtype
    operands = [
        _converted(_aligned(_operand(x), own, all_letters), wide)
        for x, own in zip(args, (subscripts.left, subscripts.right))
    ]
    product = node("multiply", tuple(operands), None, Type(wide, tuple(extent[c] for c in all_letters)))
    axes = tuple(range(len(subscripts.result), len(all_letters)))
    reduced_shape = n.type.shape + (1,) * len(axes)
    total = node("reduce", (product,), ("sum", axes), Type(wide, reduced_shape))
    key = (*(_every(s) for s in n.type.shape), *(("int", 0) for _ in axes))
    result = node("index", (total,), key, Type(wide, n.type.shape))
    if d is BOOL:
        none = constant(0, wide)
        return node("not_equal", (result, none), None, n.type)
    return result if wide is d else node("cast", (result,), None, n.type)


def _operand(x: Node) -> Node:
    """An operand of a contraction, whose rounding to 16 bits is marked as such."""
    views = []
    while x.op in VIEWS:
        views.append(x)
        x = x.args[0]
    if x.op == "cast" and x.type.dtype.kind == "f" and x.type.dtype.bits == 16:
        x = node("cast", x.args, OPERAND, x.type)
    for view in reversed(views):
        x = _with(view, (x, *view.args[1:]))
    return x


def _adds_in(d: DType) -> DType:
    """Accumulation dtype of products: int32 or uint32 for narrower integers and bools."""
    if d.kind in "biu" and d.bits < 32:
        return INT32 if d.kind == "i" else UINT32
    return d


def _aligned(x: Node, subscripts: str, whole: str) -> Node:
    """`x` with its axes in the order of `whole`, and unit axes for subscripts that it lacks."""
    order = tuple(sorted(range(len(subscripts)), key=lambda a: whole.index(subscripts[a])))
    shape = tuple(x.type.shape[a] for a in order)
    if order != tuple(range(len(subscripts))):
        x = node("transpose", (x,), order, Type(x.type.dtype, shape))
    extents = iter(shape)
    key = tuple(_every(next(extents)) if c in subscripts else ("new",) for c in whole)
    if len(subscripts) == len(whole):
        return x
    return node("index", (x,), key, Type(x.type.dtype, tuple(1 if k[0] == "new" else k[3] for k in key)))


def _every(d: Dim) -> tuple:
    return ("slice", 0, 1, d)


def _converted(x: Node, to: DType) -> Node:
    return x if x.type.dtype is to else node("convert", (x,), None, Type(to, x.type.shape))
