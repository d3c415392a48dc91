"""Row kernels that fold their rows too: parts of the rows with a state for each column, then the parts merged.

`rows` works on parts of neighbouring rows and keeps a line of states for each in a workspace that the caller gives,
`columns` merges the lines as a pairwise tree and stores the results. The two slots behind the kernel's own say where
the workspace is and how many parts there are.
"""

from __future__ import annotations

from ...kernel_ir.kernel import KernelIR
from . import reduce
from .roles import Array, Roles
from .rows import columns, fold_arrays, row_part, row_start, unclaim
from .source_text import address, decode, header, indented, load_line, store_line
from .split_rows import begin
from .workspace import cross_arrays


def emit(kernel: KernelIR) -> tuple[str, list[Array]]:
    """The source of a kernel that folds both ways, and the working memory that it names."""
    roles, shared = Roles(kernel), cross_arrays(kernel)
    held = [Array(value.name, value.dtype, "columns") for _, value in roles.held]
    own = held + fold_arrays(kernel, range(len(kernel.phases)))
    trees = reduce.state_arrays(kernel.cross, "tree", str(reduce.LEVELS))
    lines = header(kernel, "cross")
    lines += ["", "", "def rows(slots, begin, end):", *indented(_rows(kernel, shared, own))]
    lines += ["", "", "def columns(slots, begin, end):", *indented(_columns(kernel, shared, trees))]
    return "\n".join([*lines, ""]), [*shared, *own, *trees]


def _rows(kernel: KernelIR, shared: list[Array], own: list[Array]) -> list[str]:
    """Every phase of the rows of a part; each element joins the state of its column."""
    nothing = [line for f in kernel.cross for line in reduce.kept(f, "line", "base + column", list(f.identity))]
    roles, body = Roles(kernel), []
    for p in range(len(kernel.phases)):
        body += ["", f"# phase {p}", *columns(roles, p, "0", "segments"), *row_part(roles, p)]
    part = [
        "base = part * columns",
        "for column in range(columns):",
        *indented(nothing),
        "for row in range(part * each, smaller(part * each + each, rows)):",
        *indented([*row_start(roles, "row"), *body]),
    ]
    each = "each = (rows + parts - 1) // parts"
    return [*begin(kernel, shared, own), each, "for part in range(begin, end):", *indented(part), *unclaim(own)]


def _columns(kernel: KernelIR, shared: list[Array], trees: list[Array]) -> list[str]:
    """Merge the lines of states of a column, and store what they come to."""
    finish, axes = kernel.finish, range(kernel.row_axes, kernel.axes)
    assert finish is not None
    names = {a: f"i{a}" for a in axes}
    read = [
        f"{name} = {text}"
        for f in kernel.cross
        for name, text in zip(reduce.states(f), reduce.got(f, "line", "part * columns + column"))
    ]
    body = ["for part in range(parts):", *indented([*read, *reduce.push(kernel.cross, "part")])]
    body += [*reduce.join_tree(kernel.cross, "parts"), "left = column", *decode("left", axes, names)]
    wanted = {value.name for value in finish.body.args} if finish.body else set()
    for load in (x for x in kernel.loads if x.value.name in wanted):
        body += [address(kernel, load.operand, f"c{load.operand}", f"p{load.operand}", names)]
        body.append(load_line(load, f"c{load.operand}", "0"))
    for q in (x for x in kernel.positions if x.value.name in wanted):
        body.append(f"{q.value.name} = {q.value.dtype}(i{q.axis})")
    body += finish.body.instructions if finish.body else []
    for store in finish.stores:
        body.append(address(kernel, store.operand, f"c{store.operand}", f"p{store.operand}", names))
        body.append(store_line(store, f"c{store.operand}", "0"))
    return [*begin(kernel, shared, trees), "for column in range(begin, end):", *indented(body), *unclaim(trees)]
