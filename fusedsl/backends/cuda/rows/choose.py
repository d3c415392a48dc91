"""Choice of a row schedule: a row in registers, in shared memory, in a cluster, in loops, or shared by blocks.

The cluster size is chosen by the schedule: cluster.py, smem.py and persistent_cluster.py, each among `cluster_sizes`.
"""

from __future__ import annotations

from math import prod

from ....hardware import Hardware
from ....kernel_ir.kernel import KernelIR
from ..split_heuristics import has_no_pass_after_reduction
from .cooperative import schedule_cooperative
from .dynamic_threads import schedule_dynamic_threads
from .looped import schedule_looped
from .persistent_cluster import schedule_persistent_cluster
from .resident import schedule_resident
from .schedule import RowSchedule, contiguous, spans_axes
from .smem import schedule_smem


def choose_rows(kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware, flexible: bool) -> RowSchedule:
    """Schedule of a row kernel: a cooperative one where rows do not fit the chip, or are too few for its SMs."""
    row = schedule_rows(kernel, extents, hardware, flexible)
    spread = prod(extents[: kernel.row_axes]) * row.cluster >= hardware.multiprocessors
    if row.resident or (row.smem and spread):
        return row
    return schedule_cooperative(kernel, extents, hardware) or row


def schedule_rows(
    kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware, flexible: bool = False
) -> RowSchedule:
    """Schedule of a row kernel whose rows no blocks share, but those of a cluster.

    If a `resident` kernel does not fit, the schedule is not `resident`: the caller builds the looped kernel instead.
    If `flexible`, the number of threads of a row may be a launch parameter.
    """
    if kernel.resident:
        schedule: RowSchedule | None = schedule_dynamic_threads(kernel, extents, hardware) if flexible else None
        held = contiguous(kernel) or (spans_axes(kernel) and not has_no_pass_after_reduction(kernel))
        if schedule is None and held:
            schedule = schedule_resident(kernel, extents, hardware)
        schedule = schedule_persistent_cluster(kernel, extents, hardware, schedule) or schedule
    else:
        schedule = schedule_smem(kernel, extents, hardware)
    return schedule or schedule_looped(kernel, extents, hardware)
