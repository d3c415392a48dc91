"""Base of the schedules: blocks per SM, registers, reason, launch, and the fields that machine code depends on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from ...kernel_ir.kernel import KernelIR
from ...kernel_ir.launch_config import LaunchConfig

Extents = tuple[int, ...]


class ScheduledBlocks:
    """What every schedule has, as a field or for its whole class."""

    width: int  # elements of a vector
    blocks: int  # per SM


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule(ScheduledBlocks):
    """Base of the schedules, each a frozen dataclass: how a kernel's iterations map to threads.

    Its class attributes are what most schedules have; fields of that name replace them.
    """

    reason: str = dataclasses.field(default="", compare=False)
    registers: int = dataclasses.field(default=0, compare=False)  # a thread, by estimate
    max_threads = 0  # threads are a launch parameter, up to this; 0: compiled
    length_specialized = True  # a binary serves one class of lengths alone
    multiplies = False  # of a matrix product: machine code depends on the contiguous axes of operands
    prefetches = False  # of a kernel of several: it starts early, and loads arguments of the call before it waits
    grid_sync = False  # blocks pass grid barriers: all are resident at once

    @property
    def block_threads(self) -> int:
        """Threads of a block."""
        raise NotImplementedError

    @property
    def resident(self) -> bool:
        """True if a whole row stays on the chip; else the kernel is one that loops."""
        return True

    @property
    def independent(self) -> int:
        """Elements of a thread that are computed at once: none waits for another."""
        return 1

    @property
    def rows_at_once(self) -> int:
        """Rows that a block works on at once."""
        return 1

    @property
    def elements_in_flight(self) -> int:
        """Elements whose loads a thread issues before it uses any; 0 if unknown."""
        return 0

    def holds_tables(self, kernel: KernelIR) -> bool:
        """Whether blocks have shared memory for byte tables, and enough elements to pay for filling them."""
        return False

    @property
    def most_threads(self) -> int:
        """Threads of a block, at most."""
        return self.max_threads or self.block_threads

    def with_reason(self, reason: str) -> Any:
        """The schedule with another reason."""
        return dataclasses.replace(self, reason=reason)

    @property
    def compiled_form(self) -> Schedule:
        """The schedule without the fields that are launch parameters."""
        return self

    @property
    def compile_key(self) -> tuple:
        """The fields that machine code depends on: all but the reason, the estimate, and launch parameters."""
        form = self.compiled_form
        return (type(form).__name__, *(getattr(form, f.name) for f in dataclasses.fields(form) if f.compare))

    def config(self, kernel: Any, extents: Extents) -> LaunchConfig:
        """The launch over these extents, without the attributes that the kernel sets."""
        raise NotImplementedError

    def launch(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        """The launch of a scheduled kernel over these extents."""
        config = self.config(kernel, extents)
        early = self.starts_early(kernel)
        alone = config.cooperative or (config.exclusive and not early)
        if not kernel.pdl or alone:
            return config
        return dataclasses.replace(config, programmatic_launch=True, starts_early=early)

    def starts_early(self, kernel: KernelIR) -> bool:
        """Whether a kernel that follows another launch of its call starts, and loads, while that one ends."""
        return self.prefetches

    def magic_divisors(self, kernel: KernelIR, extents: Extents) -> Extents:
        """What the magics of axes 1 … of a kernel divide by."""
        return kernel.magic_divisors(self.width, extents)

    def with_parameters(self, kernel: Any, extents: Extents) -> Any:
        """The kernel with the parameters for its workspace and counters in global memory, if it needs them."""
        needs = self.config(kernel, extents)
        return dataclasses.replace(kernel, workspace=needs.workspace > 0, semaphores=needs.semaphores > 0)

    def lower_pressure(self, kernel: Any) -> Iterator[tuple[Any, Schedule]]:
        """(kernel, schedule) with fewer values in registers, for a kernel that spills; all else of the launch stays."""
        yield from ()
