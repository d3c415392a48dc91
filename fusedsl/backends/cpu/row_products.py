"""Which row kernels are sums of products of two contiguous rows: a microkernel computes these."""

from __future__ import annotations

from ...kernel_ir.kernel import KernelIR, Load
from .roles import ValueRoles, reassociable_merge
from .schedule import SEGMENT
from .source_text import step

BLOCK = 64  # rows of one call at most: their sums are stored to scratch
PRODUCT = "row_product"  # the word of the microkernel, per dtype
MOST_COLUMNS = SEGMENT  # longer rows are folded by segments


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
    types = {kernel.operands[x.operand].dtype for x in loads} | {fold.accumulators[0].dtype}
    contiguous = all(step(kernel, x.operand, last) == "1" for x in loads)
    if not is_product or not contiguous or len(types) != 1 or types.pop().storage:
        return None
    return a, b
