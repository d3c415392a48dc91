"""Row epilogues: per-row work on a reduction's result moves to the reducing kernel, so that maps load a finished
value."""

from __future__ import annotations

from ..ir.graph import Node
from ..ir.ops import OPS
from ..rewrite.scalar_builder import free_axes
from .cost_model import computed_nodes
from .fusion_group import FusionGroup, Partition, in_launch_order, load_of
from .scalar_program import temporary

PLAIN = ("const", "scalar", "size")  # available in every kernel


def compute_row_epilogues(cut: Partition, pinned: int) -> Partition:
    """The partition with row values stored by the reducing kernels, instead of computed by maps over rows and columns.

    The first `pinned` temporaries belong to the program and stay, because they may be read by address.
    """
    groups, temporaries = list(cut.groups), list(cut.temporaries)
    for user in groups:
        for producer in groups if user.is_elementwise and not user.scatters else ():
            folds = [f for f in user.imports if f in producer.folds]
            shared = any(f in g.imports for g in groups if g is not user for f in folds)
            of_rows = frozenset(user.columns) <= set(producer.rows)
            if folds and producer.rows and producer.is_plain and not shared and not of_rows:
                _move_row_values(producer, user, folds, temporaries, pinned)
    return in_launch_order(groups, temporaries, cut.decisions)


def _move_row_values(
    producer: FusionGroup, user: FusionGroup, folds: list[Node], temporaries: list, pinned: int
) -> None:
    """Let kernel `producer` store the row values that `user` reads, and only those folds that `user` reads directly."""
    work, rows = computed_nodes(user.values, frozenset(user.imports)), frozenset(producer.rows)
    free = free_axes(user.values)
    of_rows = {
        n
        for n in work
        if free[n] == rows and n.type.dtype is n.type.dtype.compute and _is_computed_from(n, folds, user)
    }
    read = [a for n in work if n not in of_rows for a in n.args] + user.values
    values = [n for n in dict.fromkeys(read) if n in of_rows]
    old = [r for r in producer.row_stores if r.kind == "temporary" and r.value in folds and r.value not in read]
    old = [r for r in old if r.index >= pinned]
    indices = [r.index for r in old] + list(range(len(temporaries), len(temporaries) + len(values)))
    if not values:
        return
    producer.row_stores = [r for r in producer.row_stores if r not in old]
    for r in old:
        del user.imports[r.value]
    for value, index in zip(values, indices):
        root = temporary(value, producer.rows, index)
        temporaries[index : index + 1] = [root.type]
        producer.row_stores.append(root)
        user.imports[value] = load_of(root)


def _is_computed_from(n: Node, folds: list[Node], user: FusionGroup) -> bool:
    """Whether a value is computed from these folds only."""
    inside = computed_nodes([n], frozenset(user.imports))
    read = {a for m in inside for a in m.args if a in user.imports}
    return bool(read) and read <= set(folds) and all(m.op in OPS or m.op in PLAIN for m in inside)
