"""Row epilogues: per-row work on a reduction's result moves to the reducing kernel; maps load the finished value."""

from __future__ import annotations

from ..ir.graph import Node
from ..ir.ops import OPS
from ..rewrite.scalar_builder import free_axes
from .cost_model import computed_nodes
from .fusion_group import FusionGroup, Partition, in_launch_order, load_of
from .scalar_program import temporary

PLAIN = ("const", "scalar", "size")  # available in every kernel


def compute_row_epilogues(partition: Partition, pinned: int) -> Partition:
    """The partition with row values stored by the reducing kernels, instead of computed by maps over rows and columns.

    The first `pinned` temporaries belong to the program and stay, because they may be read by address.
    """
    groups, temporaries = list(partition.groups), list(partition.temporaries)
    for user in groups:
        for producer in groups if user.is_elementwise and not user.scatters else ():
            folds = [f for f in user.imports if f in producer.folds]
            shared = any(f in g.imports for g in groups if g is not user for f in folds)
            is_per_row = frozenset(user.columns) <= set(producer.rows)
            if folds and producer.rows and producer.is_plain and not shared and not is_per_row:
                _move_row_values(producer, user, folds, temporaries, pinned)
    return in_launch_order(groups, temporaries, partition.decisions)


def _move_row_values(
    producer: FusionGroup, user: FusionGroup, folds: list[Node], temporaries: list, pinned: int
) -> None:
    """Let kernel `producer` store the row values that `user` reads, and only those folds that `user` reads directly."""
    work, rows = computed_nodes(user.values, frozenset(user.imports)), frozenset(producer.rows)
    free = free_axes(user.values)
    row_values = {
        n
        for n in work
        if free[n] == rows and n.type.dtype is n.type.dtype.compute and _is_computed_from(n, folds, user)
    }
    read = [a for n in work if n not in row_values for a in n.args] + user.values
    values = [n for n in dict.fromkeys(read) if n in row_values]
    stored_folds = [r for r in producer.row_stores if r.kind == "temporary" and r.value in folds]
    replaced_stores = [r for r in stored_folds if r.value not in read and r.index >= pinned]
    indices = [r.index for r in replaced_stores] + list(range(len(temporaries), len(temporaries) + len(values)))
    if not values:
        return
    producer.row_stores = [r for r in producer.row_stores if r not in replaced_stores]
    for r in replaced_stores:
        del user.imports[r.value]
    for value, index in zip(values, indices):
        store = temporary(value, producer.rows, index)
        temporaries[index : index + 1] = [store.type]  # replaces the type at `index`, or appends it at the end
        producer.row_stores.append(store)
        user.imports[value] = load_of(store)


def _is_computed_from(n: Node, folds: list[Node], user: FusionGroup) -> bool:
    """Whether a value is computed from these folds only."""
    inside = computed_nodes([n], frozenset(user.imports))
    read = {a for m in inside for a in m.args if a in user.imports}
    return bool(read) and read <= set(folds) and all(m.op in OPS or m.op in PLAIN for m in inside)
