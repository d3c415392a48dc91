"""Row-and-column reductions: partial column states for blocks of rows, then a second stage that merges them.

The C function `rows` reduces parts of consecutive rows and stores a state per column for each part in a workspace of
the caller. The C function `columns` merges these states in a pairwise tree and stores the results. Two slots after the
kernel's own hold the address of the workspace and the number of parts.
"""

from __future__ import annotations

from ...kernel_ir.kernel import RowColumnKernel
from . import reduce
from .roles import ScratchArray, ValueRoles
from .rows import column_loop, fold_arrays, row_epilogue, row_prologue
from .scratch import free
from .source_text import address, header, indented, load_line, store_line, unravel_index
from .split_rows import prologue
from .workspace import row_column_arrays


def emit(kernel: RowColumnKernel) -> tuple[str, list[ScratchArray]]:
    """The source of a kernel that reduces rows and columns, and its scratch arrays."""
    roles, shared = ValueRoles(kernel), row_column_arrays(kernel)
    scratch = [ScratchArray(value.name, value.dtype, "columns") for _, value in roles.scratch_values]
    private = scratch + fold_arrays(kernel, range(len(kernel.phases)))
    trees = reduce.state_arrays(kernel.column_reductions, "tree", str(reduce.LEVELS))
    lines = header(kernel, "rows and columns")
    lines += ["", "", "def rows(slots, begin, end):", *indented(_rows(kernel, shared, private))]
    lines += ["", "", "def columns(slots, begin, end):", *indented(_columns(kernel, shared, trees))]
    return "\n".join([*lines, ""]), [*shared, *private, *trees]


def _rows(kernel: RowColumnKernel, shared: list[ScratchArray], private: list[ScratchArray]) -> list[str]:
    """Stage 1: all phases of the rows of a part; each element is merged into the state of its column."""
    nothing = [
        line
        for f in kernel.column_reductions
        for line in reduce.put_state(f, "line", "base + column", list(f.identity))
    ]
    roles, body = ValueRoles(kernel), []
    for p in range(len(kernel.phases)):
        body += ["", f"# phase {p}", *column_loop(roles, p, "0", "segments"), *row_epilogue(roles, p)]
    part = [
        "base = part * columns",
        "for column in range(columns):",
        *indented(nothing),
        "for row in range(part * each, smaller(part * each + each, rows)):",
        *indented([*row_prologue(roles, "row"), *body]),
    ]
    each = "each = (rows + parts - 1) // parts"
    return [*prologue(kernel, shared, private), each, "for part in range(begin, end):", *indented(part), *free(private)]


def _columns(kernel: RowColumnKernel, shared: list[ScratchArray], trees: list[ScratchArray]) -> list[str]:
    """Stage 2: merge the partial states of a column, finish, store."""
    finish, axes = kernel.column_epilogue, range(kernel.row_axes, kernel.axes)
    names = {a: f"i{a}" for a in axes}
    read = [
        f"{name} = {text}"
        for f in kernel.column_reductions
        for name, text in zip(reduce.state_names(f), reduce.get_state(f, "line", "part * columns + column"))
    ]
    body = ["for part in range(parts):", *indented([*read, *reduce.push_to_tree(kernel.column_reductions, "part")])]
    body += [
        *reduce.reduce_tree(kernel.column_reductions, "parts"),
        "left = column",
        *unravel_index("left", axes, names),
    ]
    wanted = {value.name for value in finish.body.args} if finish.body else set()
    for load in (x for x in kernel.loads if x.value.name in wanted):
        body += [address(kernel, load.operand, f"c{load.operand}", f"p{load.operand}", names)]
        body.append(load_line(load, f"c{load.operand}", "0"))
    for q in (x for x in kernel.positions if x.value.name in wanted):
        body.append(f"{q.value.name} = {q.value.dtype}(i{q.axis})")
    body += finish.body.lines if finish.body else []
    for store in finish.stores:
        body.append(address(kernel, store.operand, f"c{store.operand}", f"p{store.operand}", names))
        body.append(store_line(store, f"c{store.operand}", "0"))
    return [*prologue(kernel, shared, trees), "for column in range(begin, end):", *indented(body), *free(trees)]
