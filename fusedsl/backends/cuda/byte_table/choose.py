"""Which values of a kernel are looked up in byte tables on CUDA: those that take longer to compute than a lookup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....hardware import Hardware
from ....ir.types import FLOAT64, DType
from ....kernel_ir.byte_tables import MOST_TABLES, tables_of
from ....kernel_ir.instruction import Instruction
from ....kernel_ir.instruction_cost import double_instructions, instruction_cost
from ....kernel_ir.kernel import KernelIR

# Issue slots of a lookup: of 32 random bytes some three fall into one bank of shared memory, which answers one of them
# a clock, while an SM issues four instructions; then the address, and a part of filling the table.
LOOKUP = 24


def with_byte_tables(kernel: KernelIR, hardware: Hardware) -> KernelIR:
    """The kernel with the tables that are worth it on this hardware."""

    def pays(chain: Sequence[Instruction], d: DType) -> bool:
        return _slots(chain, hardware) > LOOKUP * max(1, d.itemsize // 4)

    names = dict.fromkeys(name for phase in kernel.phases for name in tables_of(kernel, phase.element, pays))
    return replace(kernel, tables=tuple(names)[:MOST_TABLES]) if names else kernel


def _slots(chain: Sequence[Instruction], hardware: Hardware) -> float:
    """Issue slots of a chain: a float64 instruction keeps its units busy for several."""
    wide = [i for i in chain if i.dtype is FLOAT64]
    narrow = sum(instruction_cost(i) for i in chain if i.dtype is not FLOAT64)
    return narrow + double_instructions(wide) * hardware.warp_issue * 32 / hardware.fp64
