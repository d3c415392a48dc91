"""Chooses the schedule of an attention kernel: split-KV, sm_90 (wgmma and TMA), or mma.sync, the first that fits."""

from __future__ import annotations

from ....hardware import Hardware
from ....kernel_ir.kernel import AttentionKernel
from ....kernel_ir.memory_access import LONGEST
from .mma_schedule import MmaAttentionSchedule, schedule_mma
from .sm90_schedule import Sm90AttentionSchedule, schedule_sm90
from .split_kv_schedule import schedule_split_kv

SCHEDULERS = (schedule_split_kv, schedule_sm90, schedule_mma)


def schedule_attention(
    kernel: AttentionKernel, extents: tuple[int, ...], hardware: Hardware
) -> Sm90AttentionSchedule | MmaAttentionSchedule | None:
    """The schedule of an attention kernel on this card; None if no kernel fits."""
    if 0 in extents or max(extents) >= LONGEST:
        return None
    schedules = (scheduler(kernel, extents, hardware) for scheduler in SCHEDULERS)
    return next((schedule for schedule in schedules if schedule is not None), None)
