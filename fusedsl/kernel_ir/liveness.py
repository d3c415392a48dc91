"""Liveness: registers of a kernel's bodies, from live values in instruction order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..ir.types import DType
from .kernel import KernelIR
from .phase import Body, Phase


def register_count(kinds: Iterable[DType], packed: bool = False) -> float:
    """32-bit registers of one value of each type; 16-bit floats may stay packed in pairs."""
    return sum(0.5 if packed and d.kind == "f" and d.bits == 16 else max(1, d.bits // 32) for d in kinds)


def registers_with_arguments(body: Body) -> int:
    """The most names alive at once in a body, its arguments included; twice that if a type has 64 bits."""
    defined = {value.name for value in body.args}
    last_use = last_uses(body)
    alive, most = {name for name in defined if name in last_use}, len(defined)
    for number, i in enumerate(body.instructions):
        alive.add(i.target)
        most = max(most, len(alive))
        alive -= {name for name in (i.target, *i.names) if last_use.get(name, number) <= number}
    wide = any(value.dtype.bits == 64 for value in (*body.args, *body.results))
    return most * (2 if wide else 1)


def last_uses(body: Body) -> dict[str, int]:
    """The number of the last instruction that reads a name; of results, the number of instructions."""
    last = {name: number for number, i in enumerate(body.instructions) for name in i.names}
    return last | {value.name: len(body.instructions) for value in body.results}


def live_between_phases(kernel: KernelIR) -> tuple[DType, ...]:
    """Types of the element values live between two phases, at the maximum; loads as they are stored."""
    kinds = {x.value.name: kernel.operands[x.operand].dtype for x in kernel.element_loads}
    first_phase: dict[str, int] = {}
    used: dict[str, int] = {}
    for number, phase in enumerate(kernel.phases):
        if phase.ranks:
            continue
        for value in phase.reads:
            used[value.name] = number
            if value.name in kinds:
                first_phase.setdefault(value.name, number)
        for value in phase.results:
            if value.name not in first_phase:
                first_phase[value.name], kinds[value.name] = number, value.dtype
    between = [
        tuple(kinds[name] for name in first_phase if first_phase[name] < number <= used.get(name, -1))
        for number in range(1, len(kernel.phases))
    ]
    return max(between, key=lambda dtypes: register_count(dtypes, packed=True), default=())


def most_registers_with_arguments(phases: Sequence[Phase]) -> int:
    """The most registers of any body of the phases, its arguments included."""
    return max(
        (registers_with_arguments(body) for phase in phases for part in phase.passes for body in part.bodies), default=0
    )
