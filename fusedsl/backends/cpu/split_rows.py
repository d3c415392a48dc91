"""Row kernels of few long rows: each phase folds fixed parts of the rows, on all threads, then merges the parts.

Every phase is two C functions: `phase<p>` over (row, part) and `merge<p>` over rows. Row values, the parts' states
and held elements stand in a workspace that the caller gives, addressed by the two slots behind the kernel's own.
"""

from __future__ import annotations

from ...kernel_ir.kernel import KernelIR
from ...kernel_ir.parameters import kernel_params
from . import reduce
from .roles import Array, Roles
from .rows import claim, columns, extents, fold_arrays, row_part, row_start, unclaim
from .source_text import header, indented, parameters
from .workspace import split_arrays


def emit(kernel: KernelIR) -> tuple[str, list[Array]]:
    """The source of a split kernel, and the working memory that it names."""
    shared = split_arrays(kernel)
    lines, arrays = header(kernel, "split"), list(shared)
    for p in range(len(kernel.phases)):
        own = fold_arrays(kernel, [p])
        arrays += own
        lines += ["", "", f"def phase{p}(slots, begin, end):", *indented(part_function(kernel, p, shared, own))]
        lines += ["", "", f"def merge{p}(slots, begin, end):", *indented(merge_function(kernel, p, shared, own))]
    return "\n".join([*lines, ""]), arrays


def places(kernel: KernelIR, shared: list[Array]) -> list[str]:
    """Where the workspace's arrays are."""
    count = len(kernel_params(kernel))
    rows = " * ".join(f"n{axis}" for axis in range(kernel.row_axes)) or "1"
    lines = [f"workspace = pointer(slots, {count})", f"parts = slot(slots, {count + 1})", f"rows = {rows}", "place = 0"]
    for array in shared:
        lines += [f"{array.label}_at = offset(workspace, place)", f"place = place + {array.bytes}"]
    return lines


def begin(kernel: KernelIR, shared: list[Array], own: list[Array]) -> list[str]:
    return [*parameters(kernel), *extents(kernel), *places(kernel, shared), *claim(own)]


def row_values(roles: Roles, p: int) -> list[str]:
    """Read the row values that earlier phases left in the workspace."""
    made = dict.fromkeys(v for q in range(p) for v in roles.made_by_row(q))
    return [f"{v.name} = {reduce.get(f'{v.name}_row', 'row')}" for v in made]


def part_function(kernel: KernelIR, p: int, shared: list[Array], own: list[Array]) -> list[str]:
    """Fold the segments of one part of one row."""
    roles, phase = Roles(kernel), kernel.phases[p]
    body = ["row = unit // parts", "part = unit - row * parts", *row_start(roles, "row"), *row_values(roles, p)]
    body += [
        "each = (segments + parts - 1) // parts",
        "low = smaller(part * each, segments)",
        "high = smaller(low + each, segments)",
    ]
    body += columns(roles, p, "low", "high", "row * columns + ")
    for f in phase.folds:
        body += reduce.kept(f, "part", "unit", reduce.states(f))
    return [*begin(kernel, shared, own), "for unit in range(begin, end):", *indented(body), *unclaim(own)]


def merge_function(kernel: KernelIR, p: int, shared: list[Array], own: list[Array]) -> list[str]:
    """Merge the parts of a row, and do the row part of the phase."""
    roles, phase = Roles(kernel), kernel.phases[p]
    body = [*row_start(roles, "row"), *row_values(roles, p)]
    if phase.folds:
        read = [
            f"{n} = {t}"
            for f in phase.folds
            for n, t in zip(reduce.states(f), reduce.got(f, "part", "row * parts + part"))
        ]
        body += ["for part in range(parts):", *indented([*read, *reduce.push(phase.folds, "part")])]
        body += reduce.join_tree(phase.folds, "parts")
    body += row_part(roles, p)
    body += [reduce.put(f"{v.name}_row", "row", v.name) for v in roles.made_by_row(p)]
    return [
        *begin(kernel, shared, own),
        "for row in range(begin, end):",
        *indented(body or ["row = row"]),
        *unclaim(own),
    ]
