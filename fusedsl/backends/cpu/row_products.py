"""Row-wise dot products of two contiguous arrays, for blocks of rows: a microkernel computes those of a segment.

The sums of segments are added in a pairwise tree, as in other reductions.
"""

from __future__ import annotations

from ...kernel_ir.kernel import KernelIR, Load
from ...kernel_ir.phase import Value
from . import reduce
from .roles import ScratchArray, ValueRoles, reassociable_merge
from .schedule import SEGMENT
from .source_text import address, indented, stride

BLOCK = 64  # rows of one call at most: their sums are stored to scratch
PRODUCT = "row_product"  # the word of the microkernel, per dtype


def operands(kernel: KernelIR) -> tuple[Load, Load] | None:
    """The two operands of a kernel that is a sum of products of contiguous rows; None for other kernels."""
    phase, last = kernel.phases[0], kernel.axes - 1
    if len(kernel.phases) > 1 or kernel.column_axes != 1 or not kernel.row_axes or kernel.pointers:
        return None
    if phase.stores or phase.column_reductions or phase.sort or phase.scans or len(phase.folds) != 1:
        return None
    roles, (fold,) = ValueRoles(kernel), phase.folds
    loads, instructions = roles.loads_of(0), phase.element.instructions
    if len(loads) != 2 or len(instructions) != 1 or len(fold.accumulators) != 1:
        return None
    if reassociable_merge(fold) != "accumulate_add":
        return None
    (a, b), (i,) = loads, instructions
    is_product = i.op == "multiply" and i.target == fold.inputs[0].name and set(i.args) == {a.value.name, b.value.name}
    dtypes = {kernel.operands[x.operand].dtype for x in loads} | {fold.accumulators[0].dtype}
    contiguous = all(stride(kernel, x.operand, last) == "1" for x in loads)
    if not is_product or not contiguous or len(dtypes) != 1 or dtypes.pop().storage:
        return None
    return a, b


def scratch_arrays(state: Value) -> list[ScratchArray]:
    """The sums of a block of rows, and their tree."""
    tree = ScratchArray(f"{state.name}_rows_tree", state.dtype, str(BLOCK * reduce.LEVELS))
    return [ScratchArray(f"{state.name}_rows", state.dtype, str(BLOCK)), tree]


def block_sums(kernel: KernelIR, state: Value, a: Load, b: Load) -> list[str]:
    """Sums of `rows` rows, segment by segment."""
    last, total = kernel.axes - 1, f"{state.name}_rows"
    strides = ", ".join(stride(kernel, x.operand, kernel.row_axes - 1) for x in (a, b))
    pointers = ", ".join(f"c{x.operand}" for x in (a, b))
    one = [f"first = segment * {SEGMENT}", f"count = smaller({SEGMENT}, n{last} - first)"]
    one += [address(kernel, k, f"c{k}", f"r{k}", {last: "first"}) for k in dict.fromkeys((a.operand, b.operand))]
    one.append(f"{PRODUCT}_{state.dtype}({total}_at, {pointers}, rows, count, {strides})")
    push = ["level = 0", "rest = segment", "while (rest & 1) != 0:"]
    push += indented([*_add_level(total), "level = level + 1", "rest = rest >> 1"])
    push += _each(reduce.put(f"{total}_tree", f"level * {BLOCK} + number", reduce.get(total, "number")))
    pop = [
        *_each(reduce.put(total, "number", f"{state.dtype}(0.0)")),
        "level = 0",
        "rest = segments",
        "while rest != 0:",
    ]
    pop += indented(["if (rest & 1) != 0:", *indented(_add_level(total)), "level = level + 1", "rest = rest >> 1"])
    one += ["if segments != 1:", *indented(push)]
    return ["for segment in range(segments):", *indented(one), "if segments != 1:", *indented(pop)]


def _add_level(total: str) -> list[str]:
    """Add a level of the tree to the sums."""
    below = reduce.get(f"{total}_tree", f"level * {BLOCK} + number")
    return _each(reduce.put(total, "number", f"{below} + {reduce.get(total, 'number')}"))


def _each(line: str) -> list[str]:
    return ["for number in range(rows):", *indented([line])]
