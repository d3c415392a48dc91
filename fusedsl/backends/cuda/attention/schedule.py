"""How a pass over scores runs on a GPU: the first way that takes its arrays, widths and card."""

from __future__ import annotations

from ....hardware import Hardware
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.memory_access import LONGEST
from .mma_schedule import MmaAttentionSchedule, schedule_mma
from .sm90_schedule import Sm90AttentionSchedule, schedule_sm90
from .split_kv_schedule import schedule_split_kv

SCHEDULERS = (schedule_split_kv, schedule_sm90, schedule_mma)


def schedule_attention(
    kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware
) -> Sm90AttentionSchedule | MmaAttentionSchedule | None:
    """How a pass over scores runs on this card; None where no kernel of it fits."""
    if 0 in extents or max(extents) >= LONGEST:
        return None
    for way in SCHEDULERS:
        found = way(kernel, extents, hardware)
        if found is not None:
            return found
    return None
