"""Rematerialisation: the last phase recomputes exponentials of long rows, so that more rows fit on an SM."""

from __future__ import annotations

from dataclasses import replace

from ....kernel_ir.instruction import Instruction
from ....kernel_ir.kernel import KernelIR
from .schedule import has_gathers


def with_recomputed_values(kernel: KernelIR) -> KernelIR | None:
    """The kernel whose last phase reads loads only and recomputes the values of earlier phases.

    None if its last phase cannot be chunked, or nothing is to be recomputed.
    """
    *earlier, last = kernel.phases
    made = {v.name for phase in earlier for v in phase.element.results}
    made -= {load.value.name for load in kernel.loads}
    if not made & {v.name for v in last.element.args} or last.folds or any(p.scans or p.select for p in kernel.phases):
        return None
    if not last.stores or has_gathers(kernel) or any(store.value in made for store in last.stores):
        return None
    instructions: list[Instruction] = []
    args = {v.name: v for v in last.element.args}
    for phase in earlier:
        if made & {v.name for v in phase.element.results}:
            instructions += [i for i in phase.element.instructions if i not in instructions]
            args |= {v.name: v for v in phase.element.args}
    instructions += [i for i in last.element.instructions if i not in instructions]
    if len({i.target for i in instructions}) < len(instructions):
        return None
    rest = tuple(v for name, v in args.items() if name not in made)
    known = {v.name for v in rest}
    if known & {p.value.name for p in kernel.positions} or any(store.value in known for store in last.stores):
        return None
    element = replace(last.element, args=rest, instructions=tuple(instructions))
    return replace(kernel, phases=(*earlier, replace(last, element=element)))
