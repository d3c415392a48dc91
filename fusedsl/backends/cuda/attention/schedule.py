"""How a pass over scores runs on a GPU: the first way that takes its arrays, widths and card."""

from __future__ import annotations

from ....hardware import Hardware
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.memory_access import LONGEST
from .mma_schedule import WarpSchedule, schedule_warps
from .sm90_schedule import AttendSchedule, schedule_attend
from .split_kv_schedule import schedule_narrow

WAYS = (schedule_narrow, schedule_attend, schedule_warps)


def schedule_scores(
    kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware
) -> AttendSchedule | WarpSchedule | None:
    """How a pass over scores runs on this card; None where no kernel of it fits."""
    if 0 in extents or max(extents) >= LONGEST:
        return None
    for way in WAYS:
        found = way(kernel, extents, hardware)
        if found is not None:
            return found
    return None
