"""Matrix products of a graph: which nodes they are, their factors and their extents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..ir.contraction import Subscripts
from ..ir.dims import Dim, expression, product
from ..ir.graph import Node

SMALL = 4095  # elements of an operand: smaller products are computed where they are used


def is_product(n: Node) -> bool:
    """Whether a node is a matrix product: a contraction, or a sum of products of broadcast arrays."""
    return n.op == "contract" or bool(factors_of(n))


def factors_of(n: Node) -> tuple[Node, ...]:
    """The two factors of a matrix product; empty if one of them is as large as all products."""
    factors = summed_factors(n)
    if n.op != "contract" and any(free_rank(_widened(a)) >= free_rank(n.args[0]) for a in factors):
        return ()
    return factors


def summed_factors(n: Node) -> tuple[Node, ...]:
    """The two arrays whose products a node sums; empty if it sums something else."""
    if n.op == "contract":
        return n.args
    if n.op != "reduce" or n.attr[0] != "sum":
        return ()
    x = _widened(n.args[0])
    if x.op == "where":
        x = _widened(x.args[1])
    return x.args if x.op == "multiply" else ()


def _widened(n: Node) -> Node:
    while n.op in ("convert", "cast", "broadcast"):
        n = n.args[0]
    return n


def free_rank(n: Node) -> int:
    """Number of axes whose extent is not 1."""
    return sum(d != 1 for d in n.type.shape)


@dataclass(frozen=True)
class MatmulExtents:
    """Extents of a matrix product: those of one factor only, and those summed over."""

    alone: tuple[list[Dim], list[Dim]]
    summed: list[Dim]


def matmul_extents(n: Node) -> MatmulExtents:
    """The extents of a matrix product by the factors that have them."""
    if n.op == "contract":
        subscripts = Subscripts.parse(n.attr)
        extent = dict(zip(subscripts.left, n.args[0].type.shape)) | dict(zip(subscripts.right, n.args[1].type.shape))
        rows, columns, summed = (
            [extent[c] for c in part] for part in (subscripts.rows, subscripts.columns, subscripts.summed)
        )
        return MatmulExtents((rows, columns), summed)
    left, right = (_aligned(a, n.args[0]) for a in summed_factors(n))
    pairs = [(x, y) for k, (x, y) in enumerate(zip(left, right)) if k not in n.attr[1]]
    alone = [x for x, y in pairs if x != 1 == y], [y for x, y in pairs if x == 1 != y]
    return MatmulExtents(alone, [n.args[0].type.shape[k] for k in n.attr[1]])


def is_large(n: Node, fits: Callable[[Dim, int], bool]) -> bool:
    """Whether a product has two matrices large enough for a kernel that multiplies arrays in memory."""
    extents = matmul_extents(n)
    rows, columns, summed = (product(dims) for dims in (*extents.alone, extents.summed))
    return all(extents.alone) and exceeds_small(rows, columns, summed, fits)


def exceeds_small(rows: Dim, columns: Dim, summed: Dim, fits: Callable[[Dim, int], bool]) -> bool:
    """Whether the smaller operand of a product has more than SMALL elements."""
    return not fits(expression("*", expression("min", rows, columns), summed), SMALL)


def _aligned(a: Node, whole: Node) -> tuple[Dim, ...]:
    """Shape of an operand, padded to the rank of the product."""
    shape = _widened(a).type.shape
    return (1,) * (whole.type.rank - len(shape)) + shape
