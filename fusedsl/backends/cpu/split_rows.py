"""Split reductions for few long rows: threads reduce fixed parts of a row, then a second stage merges the parts.

Each phase is two C functions: `phase<p>` over (row, part) and `merge<p>` over rows. Row values, partial states and
per-element scratch values are in a workspace of the caller. Two parameter slots follow the kernel's own: the workspace
address and the number of parts.
"""

from __future__ import annotations

from ...kernel_ir.kernel import KernelIR
from ...kernel_ir.parameter_layout import kernel_params
from . import reduce
from .roles import ScratchArray, ValueRoles
from .rows import column_loop, extents, fold_arrays, row_epilogue, row_prologue
from .scratch import allocate, free
from .source_text import header, indented, parameters
from .workspace import split_arrays


def emit(kernel: KernelIR) -> tuple[str, list[ScratchArray]]:
    """The source of a split kernel, and its scratch arrays."""
    shared = split_arrays(kernel)
    lines, arrays = header(kernel, "split"), list(shared)
    for p in range(len(kernel.phases)):
        private = fold_arrays(kernel, [p])
        arrays += private
        lines += ["", "", f"def phase{p}(slots, begin, end):", *indented(part_function(kernel, p, shared, private))]
        lines += ["", "", f"def merge{p}(slots, begin, end):", *indented(merge_function(kernel, p, shared, private))]
    return "\n".join([*lines, ""]), arrays


def workspace_arrays(kernel: KernelIR, shared: list[ScratchArray]) -> list[str]:
    """Addresses of the arrays in the workspace."""
    count = len(kernel_params(kernel))
    rows = " * ".join(f"n{axis}" for axis in range(kernel.row_axes)) or "1"
    lines = [
        f"workspace = pointer(slots, {count})",
        f"parts = slot(slots, {count + 1})",
        f"rows = {rows}",
        "byte_offset = 0",
    ]
    for array in shared:
        lines += [f"{array.label}_at = offset(workspace, byte_offset)", f"byte_offset = byte_offset + {array.bytes}"]
    return lines


def prologue(kernel: KernelIR, shared: list[ScratchArray], private: list[ScratchArray]) -> list[str]:
    return [*parameters(kernel), *extents(kernel), *workspace_arrays(kernel, shared), *allocate(private)]


def row_values(roles: ValueRoles, p: int) -> list[str]:
    """Load the row values of earlier phases from the workspace."""
    values = dict.fromkeys(v for q in range(p) for v in roles.row_results(q))
    return [f"{v.name} = {reduce.get(f'{v.name}_row', 'row')}" for v in values]


def part_bounds() -> list[str]:
    """The segments of a part: a power of two, so that parts are subtrees of the tree of all segments."""
    return [
        "each = 1",
        "while each * parts < segments:",
        "    each = each * 2",
        "low = smaller(part * each, segments)",
        "high = smaller(low + each, segments)",
    ]


def part_function(kernel: KernelIR, p: int, shared: list[ScratchArray], private: list[ScratchArray]) -> list[str]:
    """Stage 1: reduce the segments of one part of one row."""
    roles, phase = ValueRoles(kernel), kernel.phases[p]
    body = ["row = unit // parts", "part = unit - row * parts", *row_prologue(roles, "row"), *row_values(roles, p)]
    body += part_bounds()
    body += column_loop(roles, p, "low", "high", base="row * columns + ")
    for f in phase.folds:
        body += reduce.put_state(f, "part", "unit", reduce.state_names(f))
    return [*prologue(kernel, shared, private), "for unit in range(begin, end):", *indented(body), *free(private)]


def merge_function(kernel: KernelIR, p: int, shared: list[ScratchArray], private: list[ScratchArray]) -> list[str]:
    """Stage 2: merge the parts of a row, then the row body of the phase."""
    roles, phase = ValueRoles(kernel), kernel.phases[p]
    body = [*row_prologue(roles, "row"), *row_values(roles, p)]
    if phase.folds:
        read = [
            f"{n} = {t}"
            for f in phase.folds
            for n, t in zip(reduce.state_names(f), reduce.get_state(f, "part", "row * parts + part"))
        ]
        body += ["for part in range(parts):", *indented([*read, *reduce.push_to_tree(phase.folds, "part")])]
        body += reduce.reduce_tree(phase.folds, "parts")
    body += row_epilogue(roles, p)
    body += [reduce.put(f"{v.name}_row", "row", v.name) for v in roles.row_results(p)]
    loop = ["for row in range(begin, end):", *indented(body or ["row = row"])]
    return [*prologue(kernel, shared, private), *loop, *free(private)]
