"""Where rows are worked on: in registers, in shared memory, or in loops."""

from __future__ import annotations

from ....hardware import Hardware
from ....kernel_ir.kernel import KernelIR
from .dynamic_threads import schedule_line
from .looped import schedule_looped
from .persistent_cluster import schedule_staying
from .resident import schedule_resident
from .schedule import RowSchedule, contiguous
from .smem import schedule_shared


def schedule_row(kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware, flexible: bool = False) -> RowSchedule:
    """How a row kernel runs. If a `resident` kernel does not fit, the schedule is not `resident`: build it anew.

    Where `flexible`, how many threads work on a row need not be compiled.
    """
    if kernel.resident:
        found = schedule_line(kernel, extents, hardware) if flexible else None
        if found is None and contiguous(kernel):
            found = schedule_resident(kernel, extents, hardware)
        found = schedule_staying(kernel, extents, hardware, found) or found
    else:
        found = schedule_shared(kernel, extents, hardware)
    return found or schedule_looped(kernel, extents, hardware)
