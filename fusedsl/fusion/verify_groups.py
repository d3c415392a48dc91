"""Rules of a partition's kernels: their axes, folds, imports and dependencies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import or_

from ..ir.graph import Node
from ..ir.verify import require
from ..rewrite.scalar_builder import bound_axes, free_axes, replace_nodes
from .coordinates import Axis
from .fusion_group import FusionGroup, load_of
from .online.score_products import reachable_reductions
from .scalar_program import ScalarStore

Stores = Mapping[int, Sequence[ScalarStore]]  # by temporary


def verify_group(g: FusionGroup, stores: Stores) -> dict[ScalarStore, Node]:
    """Value of each store in terms of loads; VerifyError if the kernel is not well formed."""
    _axes_are_distinct(g)
    _stores_run_over_its_axes(g)
    for f, load in g.imports.items():
        _is_the_load_of(f, load, stores)
    own = replace_nodes([*g.values, *g.folds, *g.column_folds], g.imports)
    _finds_what_it_computes(g)
    free = free_axes(own.values())
    if g.attention is None:
        _folds_run_along_columns(g, own, free)
    else:
        _is_its_pass(g)
    return {r: own[r.value] for r in g.all_stores}


def verify_groups_order(groups: Sequence[FusionGroup]) -> None:
    """VerifyError unless every kernel waits for the writers of its temporaries and runs after all that it waits for."""
    stored: dict[int, set[int]] = {}
    merged: dict[int, set[int]] = {}
    before: list[int] = []  # bit set of kernels that are complete when each begins
    for k, g in enumerate(groups):
        require(all(0 <= j < k for j in g.waits_for), "a kernel waits for kernels before it", k, g.waits_for)
        before.append(reduce(or_, (1 << j | before[j] for j in g.waits_for), 0))
        for r in g.all_stores:
            if r.kind == "temporary":
                (merged if r.is_scatter else stored).setdefault(r.index, set()).add(k)

    def late(k: int, writers: Iterable[int]) -> list[int]:
        return [j for j in writers if not before[k] >> j & 1]

    for t, scatters in merged.items():
        for k in scatters:
            complete = t in stored and not late(k, stored[t] | {j for j in scatters if j < k})
            require(complete, "a scatter waits for those whose elements it merges into", t, f"kernel {k}")
    for k, g in enumerate(groups):
        for t in g.temporaries_read:
            require(t in stored, "a temporary that is read is written by a kernel", t, k)
            missed = late(k, stored[t] | merged.get(t, set()))
            require(
                not missed, "a kernel waits for those whose temporaries it reads", t, f"kernel {k}, kernels {missed}"
            )


# -- one kernel


def _axes_are_distinct(g: FusionGroup) -> None:
    axes = (*g.rows, *g.columns)
    require(len(axes) == len(set(axes)), "a kernel runs along an axis once", g.rows, g.columns)
    require(not (g.is_elementwise and not g.column_folds and g.rows), "a map has columns alone", g.rows)


def _stores_run_over_its_axes(g: FusionGroup) -> None:
    rows, columns = frozenset(g.rows), frozenset(g.columns)
    own = frozenset() if g.attention is None else frozenset(g.attention.value_axes)
    sorted_axis = frozenset(() if g.sorted_axis is None else (g.sorted_axis,))
    kinds: list[tuple[list[ScalarStore], Callable[[frozenset[Axis]], bool]]] = [
        (g.stores, lambda axes: axes == rows | columns),
        (g.row_stores, lambda axes: axes == rows),
        (g.sorted_stores, lambda axes: bool(sorted_axis) and axes == rows | sorted_axis),
        (g.value_axis_stores, lambda axes: rows <= axes and len(axes - rows) == 1 and axes - rows <= own),
        (g.column_stores, lambda axes: axes == columns),
    ]
    for roots, fits in kinds:
        for r in roots:
            axes = frozenset(a for a in r.axes if a is not None)
            require(fits(axes), "a kernel stores along its axes", [str(a) for a in axes], g.rows, g.columns)


def _is_the_load_of(f: Node, load: Node, stores: Stores) -> None:
    """An import is the load of a temporary that holds the value it stands for."""
    require(
        load.op == "load" and load.attr[0].kind == "temporary", "what is imported is an element of a temporary", load
    )
    roots = stores.get(load.attr[0].index, ())
    same = len(roots) == 1 and roots[0].value is f and load_of(roots[0]) is load
    require(same, "what is imported is what another kernel stores of it", f, load)


def _finds_what_it_computes(g: FusionGroup) -> None:
    """Folds, scans and sorts that a kernel reads are its own or imported."""
    own = {*g.folds, *g.column_folds, *g.scans, *g.sorted}
    scores = [] if g.attention is None else [p.fold for p in g.attention.score_products]
    roots = [*g.values, *(p.args[0] for p in scores)]
    own.update(scores)
    for n in reachable_reductions(roots, g.imports.__contains__):
        require(n in own or n in g.imports, "what a kernel folds, it finds or imports", n)


def _folds_run_along_columns(g: FusionGroup, own: Mapping[Node, Node], free: Mapping[Node, frozenset]) -> None:
    rows, columns = frozenset(g.rows), frozenset(g.columns)
    sorted_axis = frozenset(() if g.sorted_axis is None else (g.sorted_axis,))
    for f in g.folds:
        along = frozenset(f.attr[1])
        require(along in (columns, sorted_axis), "a fold runs along the columns", f, g.columns)
        require(free[own[f]] <= rows, "a fold is a value of a row", f, g.rows)
    for f in g.column_folds:
        require(frozenset(f.attr[1]) == rows, "a fold the other way runs along the rows", f, g.rows)
        require(free[own[f]] <= columns, "a fold the other way is a value of a column", f, g.columns)
    for n in (*g.scans, *(r.args[0] for r in g.sorted)):
        require(bound_axes(n) == columns, "a scan or an order is along the columns", n, g.columns)


def _is_its_pass(g: FusionGroup) -> None:
    pattern = g.attention
    assert pattern is not None
    require(
        g.rows == pattern.rows and g.columns == pattern.reduction.axes,
        "an attention kernel has the rows of its pattern",
        g.rows,
        g.columns,
    )
    require(tuple(g.folds) == pattern.folds, "an attention kernel computes the folds of its pattern", *g.folds)
    require(not (g.scans or g.sorted or g.column_folds or g.stores), "an attention kernel has reductions only")
