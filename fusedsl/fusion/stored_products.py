"""Stored products: large matrix products that multiply arrays in memory, and those whose results are arrays too."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from ..ir.dims import Dim
from ..ir.graph import Node, users_of, walk
from ..ir.ops import LEAVES, VIEWS
from ..ir.types import DType
from .demand_analysis import array_below
from .formulation import AttentionMode, Formulation, ProductMode
from .graph_products import is_large

OPERAND = "it is an operand of a matrix product, which multiplies arrays in memory"
RESULT = "a kernel of its own computes the matrix product"


@dataclass(frozen=True)
class StoredProducts:
    """Arrays that are stored for products, with the reason, and those that are products `alone`."""

    arrays: dict[Node, str]
    alone: frozenset[Node] = frozenset()


def stored_products(
    results: Sequence[Node],
    stored: Collection[Node],
    attention: Collection[Node],
    fits: Callable[[Dim, int], bool],
    way: Formulation,
) -> StoredProducts:
    """The operands, and in `ALONE` the results, of large products that attention does not compute.

    `stored` are arrays that are stored anyway.
    """
    if way.products is ProductMode.FUSED:
        return StoredProducts({})
    arrays: dict[Node, str] = {}
    alone: set[Node] = set()
    order = list(walk(results))
    users = users_of(order)
    for n in order:
        if n.op != "contract" or n in attention or not is_large(n, fits):
            continue
        operands = [x for x in map(array_below, n.args) if x.op not in LEAVES and x.type.shape and x not in stored]
        arrays |= dict.fromkeys((x for x in operands if x not in arrays), OPERAND)
        same = all(x.type.dtype is n.type.dtype for x in n.args)
        if way.products is ProductMode.ALONE and same and is_multiplied_by_libraries(n.type.dtype, way):
            end = _rounded(n, users)
            if not _is_result_alone(end, users, results):
                arrays[end] = RESULT
            alone.add(end)
    return StoredProducts(arrays, frozenset(alone))


def is_multiplied_by_libraries(d: DType, way: Formulation) -> bool:
    """Whether libraries have a product of two arrays of a dtype: on CPUs not of 16-bit floats."""
    return d.kind == "f" and d.bits >= (32 if way.attention is AttentionMode.TILE_MAX else 16)


def _rounded(n: Node, users: dict[Node, list[Node]]) -> Node:
    """The rounded product, if only a rounding to its own dtype reads it; else the product."""
    readers = users[n]
    same = len(readers) == 1 and readers[0].op == "cast" and readers[0].type.dtype is n.type.dtype
    return readers[0] if same else n


def _is_result_alone(n: Node, users: dict[Node, list[Node]], results: Sequence[Node]) -> bool:
    """Whether the only use of an array is to be a result, through views."""
    while n not in results:
        readers = users[n]
        if len(readers) != 1 or readers[0].op not in VIEWS or readers[0].op == "broadcast":
            return False
        n = readers[0]
    return not users[n] and results.count(n) == 1
