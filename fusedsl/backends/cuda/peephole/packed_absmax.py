"""Packed absmax: the maximum of absolute values of 16-bit floats, two to a register; the reduction masks the signs."""

from __future__ import annotations

from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Body, Phase, Reduction
from .gathers import slice_of


def packed_absolute_values(kernel: KernelIR) -> dict[str, str]:
    """Absolute values of loaded 16-bit floats that only one max or min reduction reads -> what they are of."""
    packed = {}
    kinds = {x.value.name: kernel.operands[x.operand].dtype for x in kernel.element_loads}
    halves = {name for name, kind in kinds.items() if kind.kind == "f" and kind.bits == 16}
    for phase in kernel.phases:
        for i in phase.element.instructions:
            if i.op == "absolute" and not halves.isdisjoint(i.names):
                folds = [use for use in phase.folds if any(value.name == i.target for value in use.inputs)]
                if len(folds) == 1 and min_max_of(folds[0]) and i.target not in _read(kernel, phase):
                    packed[i.target] = i.names[0]
    return packed


def min_max_of(use: Reduction) -> str:
    """ "max" or "min" if a reduction is just that; else empty."""
    if not len(use.combine.instructions) == len(use.inputs) == 1:
        return ""
    (i,), (a, b) = use.combine.instructions, use.combine.args
    return {"maximum": "max", "minimum": "min"}.get(i.op, "") if i.args == (a.name, b.name) else ""


def without_values(body: Body, left_out: dict[str, str]) -> Body:
    """The body whose results are, instead of these absolute values, the values that they are of."""
    given = {value.name: value for value in body.args}
    results = (given[left_out[value.name]] if value.name in left_out else value for value in body.results)
    return slice_of(body.instructions, given, tuple(dict.fromkeys(results)))


def _read(kernel: KernelIR, phase: Phase) -> set[str]:
    """Names that anything else than a reduction along the row of this phase reads."""
    names = phase.names_read_inside | {store.value for other in kernel.phases for store in other.stores}
    return names.union(*(other.names_read for other in kernel.phases if other is not phase))
