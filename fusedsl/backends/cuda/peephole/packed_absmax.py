"""Max of magnitudes of 16-bit floats, two to a register: the sign bits are masked in the reduction."""

from __future__ import annotations

import re

from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.liveness import NAME, row_loads
from ....kernel_ir.phase import Body, Phase, Reduction
from .gathers import slice_of, target_of

MAGNITUDE = re.compile(r"(?P<name>\w+) = absolute\((?P<value>\w+)\)")


def packed_magnitudes(kernel: KernelIR) -> dict[str, str]:
    """Magnitudes of loaded 16-bit floats that one fold reads, a maximum or a minimum, and nothing else -> what they are
    of."""
    rows, found = row_loads(kernel), {}
    kinds = {x.value.name: kernel.operands[x.operand].dtype for x in kernel.loads if x.operand not in rows}
    halves = {name for name, kind in kinds.items() if kind.kind == "f" and kind.bits == 16}
    for phase in kernel.phases:
        for match in filter(None, map(MAGNITUDE.match, phase.element.instructions)):
            folds = [use for use in phase.folds if any(value.name == match["name"] for value in use.inputs)]
            alone = len(folds) == 1 and bool(min_max_of(folds[0])) and match["name"] not in _read(kernel, phase)
            if match["value"] in halves and alone:
                found[match["name"]] = match["value"]
    return found


def min_max_of(use: Reduction) -> str:
    """ "max" or "min" where a fold is nothing else."""
    a, b = use.combine.args[0].name, use.combine.args[-1].name
    expressions = [line.split("#", 1)[0].partition(" = ")[2].strip() for line in use.combine.instructions]
    orders = {f"maximum({a}, {b})": "max", f"minimum({a}, {b})": "min"}
    return orders.get(expressions[0], "") if len(expressions) == len(use.inputs) == 1 else ""


def without_values(body: Body, left_out: dict[str, str]) -> Body:
    """A body that gives what these magnitudes are of in their stead."""
    given = {value.name: value for value in body.args}
    results = (given[left_out[value.name]] if value.name in left_out else value for value in body.results)
    return slice_of(body.instructions, given, tuple(dict.fromkeys(results)))


def _read(kernel: KernelIR, phase: Phase) -> set[str]:
    """Names that anything but a fold along the row of this phase reads."""
    uses = [*phase.column_reductions, *(use for step in phase.scans for use in step.scans)]
    names = {value.name for use in uses for value in use.inputs} | {store.value for store in phase.stores}
    names |= {phase.select.key.name} if phase.select else set()
    for other in kernel.phases:
        names |= set() if other is phase else other.names_read | {store.value for store in other.stores}
    for line in (line for body in phase.bodies for line in body.instructions):
        names |= set(NAME.findall(line.split("#", 1)[0].removeprefix(f"{target_of(line)} = ")))
    return names
