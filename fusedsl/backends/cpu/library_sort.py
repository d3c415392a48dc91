"""Sorts whose rows NumPy's vectorised sort puts in order, as text: a stage that stores keys, and one that reads ranks.

Between them a stage of the launch sorts the rows in the workspace (runtime/row_sort.py). Where positions alone are
wanted, what is sorted are integers of keys and columns. What wants both, or has wide keys, is sorted by its digits
(radix_sort.py).
"""

from __future__ import annotations

from dataclasses import fields, replace

from ...kernel_ir.kernel import KernelIR
from ..cuda.sort.sort_method import sort_of
from . import sort
from .roles import ScratchArray, ValueRoles
from .rows import allocate, column_loop, extents, fold_arrays, free, row_epilogue, row_prologue, unsorted_loop
from .source_text import header, indented, parameters
from .split_rows import workspace_arrays
from .workspace import row_sort_arrays


def emit(kernel: KernelIR, operand: str) -> tuple[str, list[ScratchArray]]:
    """The source of a kernel whose rows are sorted in the workspace, in an operand of this number, or the "best" of
    which are selected; and its scratch arrays."""
    order, selects = sort_of(kernel), operand == "best"
    assert order is not None
    if sort.packs_pairs(order) and not selects:
        order = sort.PairSort(**{field.name: getattr(order, field.name) for field in fields(order)})
        kernel = replace(kernel, phases=(replace(kernel.phases[0], sort=order), *kernel.phases[1:]))
    shared, roles = row_sort_arrays(order, selects), ValueRoles(kernel)
    private = fold_arrays(kernel, range(1, len(kernel.phases)))
    where = [f"order_at = p{operand}"] if operand.isdigit() else workspace_arrays(kernel, shared)
    opening = [*parameters(kernel), *extents(kernel), *where]
    keys = [*row_prologue(roles, "row"), *unsorted_loop(roles, 0, "0", "segments", base="row * columns + ")]
    stride = order.count if selects else "columns"
    ranks = [*row_prologue(roles, "row"), f"source = row * {stride}", *sort.read_row_values(order)]
    ranks += row_epilogue(roles, 0)
    for p in range(1, len(kernel.phases)):
        ranks += [*column_loop(roles, p, "0", "segments"), *row_epilogue(roles, p)]
    rows = "for row in range(begin, end):"
    lines = ["", "", "def keys(slots, begin, end):", *indented([*opening, rows, *indented(keys)])]
    if operand.isdigit():
        return "\n".join([*header(kernel, "sorted"), *lines, ""]), shared
    opening += ["order_at = best_at"] if selects else []
    ranked = [*opening, *allocate(private), rows, *indented(ranks), *free(private)]
    lines += ["", "", "def ranks(slots, begin, end):", *indented(ranked)]
    return "\n".join([*header(kernel, "sorted"), *lines, ""]), [*shared, *private]
