"""A kernel, its schedule and the extents of a call: what a launch is priced by."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from ..hardware import Hardware, occupancy
from ..kernel_ir.launch_config import LaunchConfig
from ..runtime.bound_kernel import BoundKernel


@dataclass(frozen=True)
class KernelLaunch:
    """A scheduled kernel at the extents of a call; an AttentionKernel has an attention schedule."""

    kernel: Any  # KernelIR
    schedule: Any  # Schedule
    bound: BoundKernel

    @property
    def extents(self) -> tuple[int, ...]:
        return self.bound.extents

    @property
    def rows(self) -> int:
        return prod(self.extents[: self.kernel.row_axes])

    @property
    def columns(self) -> int:
        return prod(self.extents[self.kernel.row_axes :])

    @cached_property
    def config(self) -> LaunchConfig:
        """Its grid and its blocks."""
        return self.schedule.launch(self.kernel, self.extents)

    def blocks_per_sm(self, hardware: Hardware) -> int:
        """Blocks that fit on an SM, by the estimate of registers."""
        return occupancy(hardware, max(1, self.schedule.registers), self.config.threads, self.config.shared).blocks
