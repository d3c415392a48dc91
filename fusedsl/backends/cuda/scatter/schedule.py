"""Scatter schedule: each thread computes a few elements, one block apart, and merges each by an atomic."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from ....hardware import Hardware, blocks_for
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.launch_config import LaunchConfig
from ....kernel_ir.register_pressure import Tiling, predicted_registers, required_registers
from ..schedule_base import Extents, Schedule

THREADS = 256
ELEMENTS = 4  # of a thread: their loads are in flight together
MOST_NEEDED = 64  # registers a thread, by estimate, beyond which it gets fewer elements


@dataclass(frozen=True)
class ScatterSchedule(Schedule):
    """Each thread merges `elements` elements; `blocks` of `threads` are to fit on an SM."""

    elements: int
    threads: int
    blocks: int
    width: int = 1
    reason: str = field(default="", compare=False)
    registers: int = field(default=0, compare=False)  # a thread, by estimate

    @property
    def block_threads(self) -> int:
        return self.threads

    @property
    def elements_in_flight(self) -> int:
        return self.elements

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        return LaunchConfig(max(1, -(-prod(extents) // (self.threads * self.elements))), self.threads)


def schedule_scatter(kernel: KernelIR, hardware: Hardware) -> ScatterSchedule:
    """How a scatter runs; it does not depend on the extents, so a new shape compiles nothing."""
    elements = ELEMENTS
    while elements > 1 and required_registers(kernel, Tiling(1, elements)) > MOST_NEEDED:
        elements //= 2
    need = required_registers(kernel, Tiling(1, elements))
    blocks = blocks_for(hardware, need, THREADS)
    registers = predicted_registers(kernel, hardware, need, blocks, THREADS)
    reason = (
        f"{elements} elements a thread, each merged by an atomic whose result no order changes; "
        f"at most {registers} registers let {blocks} blocks of {THREADS} on an SM"
    )
    return ScatterSchedule(elements, THREADS, blocks, 1, reason, registers)
