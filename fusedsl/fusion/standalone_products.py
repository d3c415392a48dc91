"""Standalone products: kernels that compute one matrix product of two arrays in memory, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..ir.dims import Dim
from ..ir.graph import Node
from ..ir.types import DType
from ..rewrite.scalar_builder import free_axes
from .contractions import matmul_factors
from .coordinates import memory_order
from .cost_model import computed_nodes, count_of
from .fusion_group import Decision, FusionGroup, Partition, in_launch_order, load_of
from .graph_products import exceeds_small
from .refusal_reasons import describe_fold
from .scalar_program import ScalarStore, temporary

Fits = Callable[[Dim, int], bool]
REASON = "a kernel of its own computes the matrix product, so that a library can"


def isolate_products(cut: Partition, fits: Fits, multiplies: Callable[[DType], bool]) -> Partition:
    """The partition with large products of arrays in memory in kernels of their own, and their epilogues in maps.

    `multiplies` answers whether libraries have a product of a dtype.
    """
    groups, temporaries, decisions = list(cut.groups), list(cut.temporaries), list(cut.decisions)
    for k, g in enumerate(cut.groups):
        if not _is_standalone(g) and _can_be_isolated(g, fits, multiplies):
            decisions += [Decision(False, (describe_fold(f),), REASON) for f in g.folds]
            _isolate(groups, k, temporaries)
    return in_launch_order(groups, temporaries, decisions)


def _is_standalone(g: FusionGroup) -> bool:
    """Whether a kernel stores one fold, rounded at most, and nothing else."""
    if len(g.folds) != 1 or len(g.all_stores) != 1 or len(g.row_stores) != 1:
        return False
    return _stores_only(g.row_stores[0], g.folds[0])


def _stores_only(r: ScalarStore, f: Node) -> bool:
    """Whether a store writes a fold, rounded at most."""
    return r.value is f or (r.value.op == "cast" and r.value.args[0] is f)


def _can_be_isolated(g: FusionGroup, fits: Fits, multiplies: Callable[[DType], bool]) -> bool:
    """Whether a kernel sums large products of arrays in memory, along whose rows it stores."""
    if not g.folds or not g.is_plain or g.stores:
        return False
    free = free_axes(g.values)
    for f in g.folds:
        pair = matmul_factors(f, free, g.rows)
        if pair is None or any(g.imports.get(x, x).op != "load" for x in pair):
            return False
        left, right = (count_of(a for a in g.rows if a in free[x] and a not in free[y]) for x, y in (pair, pair[::-1]))
        same = pair[0].type.dtype is pair[1].type.dtype and multiplies(pair[0].type.dtype)
        if not same or not exceeds_small(left, right, count_of(g.columns), fits):
            return False
    return True


def _isolate(groups: list[FusionGroup], k: int, temporaries: list) -> None:
    """Give each fold of a kernel a kernel of its own; the kernel itself keeps what reads them, as a map."""
    g = groups[k]
    products = [_product_kernel(g, f, temporaries) for f in g.folds]
    moved = [r for product in products for r in product.row_stores]
    left = [r for r in g.row_stores if r not in moved]
    if left:
        axes = tuple(a for a in left[0].axes if a is not None)
        groups[k] = FusionGroup((), axes, stores=left, waits_for=set(g.waits_for))
        computed = set(computed_nodes([r.value for r in left], frozenset((*g.imports, *g.folds))))
        read = {a for n in computed for a in n.args} | {r.value for r in left}
        loads = g.imports | {f: load_of(product.row_stores[0]) for f, product in zip(g.folds, products)}
        groups[k].imports = {f: load for f, load in loads.items() if f in read}
    else:
        groups[k] = products.pop(0)
    new = set(range(len(groups), len(groups) + len(products)))
    for group in groups:
        if k in group.waits_for or (left and group is groups[k]):
            group.waits_for |= new
    groups += products


def _product_kernel(g: FusionGroup, f: Node, temporaries: list) -> FusionGroup:
    """The kernel that stores a fold of another one."""
    readers = [r for r in g.row_stores if f in computed_nodes([r.value], frozenset(g.imports))]
    only = readers[0] if len(readers) == 1 and _stores_only(readers[0], f) else None
    stored = only or next((r for r in readers if r.value is f and r.keeps_value), None)
    if stored is None:
        stored = temporary(f, memory_order([f], g.rows), len(temporaries))
        temporaries.append(stored.type)
    product = replace(g, folds=[f], row_stores=[stored], imports={}, waits_for=set(g.waits_for))
    computed = set(computed_nodes([f], frozenset(g.imports)))
    product.imports = {n: load for n, load in g.imports.items() if any(n in m.args for m in computed)}
    return product
