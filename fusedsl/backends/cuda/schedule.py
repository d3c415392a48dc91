"""Layer 5: how a kernel's iterations map on threads. Every choice is a pure function that returns its reason."""

from __future__ import annotations

from math import prod
from typing import Any

from ...hardware import Hardware
from ...kernel_ir.fast_division import divisors
from ...kernel_ir.kernel import KernelIR, MixedReductionKernel
from ...kernel_ir.launch_config import LaunchConfig
from .attention.mma_schedule import MmaAttentionSchedule
from .attention.sm90_schedule import Sm90AttentionSchedule
from .batch_invariant import batch_invariant_form
from .columns.schedule import ColumnSchedule, schedule_columns
from .elementwise.schedule import ElementwiseSchedule, schedule_elementwise
from .elementwise.transpose_schedule import TransposeSchedule, schedule_transpose
from .launch_configs import launch_config
from .matmul.schedule import MatmulSchedule, schedule_matmul
from .rows.choose import schedule_rows
from .rows.cooperative import CooperativeSchedule, schedule_cooperative
from .rows.schedule import RowSchedule
from .rows_and_columns.schedule import MixedReductionSchedule, schedule_rows_and_columns
from .scan_sort.scan_schedule import has_scans, schedule_scan
from .scan_sort.sort_method import sort_of
from .scan_sort.sort_schedule import schedule_sort

Schedule = (
    ElementwiseSchedule
    | RowSchedule
    | ColumnSchedule
    | CooperativeSchedule
    | TransposeSchedule
    | MixedReductionSchedule
    | MatmulSchedule
    | Sm90AttentionSchedule
    | MmaAttentionSchedule
)


def choose(kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware, flexible: bool = True) -> Schedule:
    """The schedule of a kernel. A row schedule that is not `resident` asks for a kernel that is not.

    A kernel that folds rows and columns has one only where it `has_mixed_schedule`. Unless `flexible`, lanes
    and levels of columns are compiled.
    """
    if kernel.batch_invariant_width and kernel.row_axes:
        kernel, extents = batch_invariant_form(kernel, extents)
    if isinstance(kernel, MixedReductionKernel):
        found = schedule_rows_and_columns(kernel, extents, hardware)
        assert found is not None
        return found
    if sort_of(kernel):
        return schedule_sort(kernel, extents, hardware)
    if has_scans(kernel):
        return schedule_scan(kernel, extents, hardware)
    products = schedule_matmul(kernel, extents, hardware)
    if products is not None:
        return products
    if kernel.row_vector_width:
        return schedule_columns(kernel, extents, hardware, flexible)
    if kernel.row_axes:
        row = schedule_rows(kernel, extents, hardware, flexible)
        spread = prod(extents[: kernel.row_axes]) * row.cluster >= hardware.multiprocessors
        if row.resident or (row.smem and spread):
            return row
        return schedule_cooperative(kernel, extents, hardware) or row
    return schedule_transpose(kernel, extents, hardware) or schedule_elementwise(kernel, hardware)


def has_mixed_schedule(kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware) -> bool:
    """Whether a kernel that folds rows and columns has a schedule for these extents."""
    return schedule_rows_and_columns(kernel, extents, hardware) is not None


def magic_divisors(schedule: Any, kernel: KernelIR, extents: tuple[int, ...]) -> tuple[int, ...]:
    """What the magics of axes 1 … of a kernel divide by; `schedule` is a Schedule, or the name of loops on a CPU."""
    if isinstance(schedule, TransposeSchedule):
        return schedule.counts(extents)[1:]
    return (
        divisors(kernel.vector_axis, getattr(schedule, "width", 1), extents, int(kernel.shifted))
        if kernel.axes > 1
        else ()
    )


__all__ = [
    "ColumnSchedule",
    "CooperativeSchedule",
    "ElementwiseSchedule",
    "KernelIR",
    "LaunchConfig",
    "MatmulSchedule",
    "MixedReductionSchedule",
    "MmaAttentionSchedule",
    "RowSchedule",
    "Schedule",
    "Sm90AttentionSchedule",
    "TransposeSchedule",
    "choose",
    "has_mixed_schedule",
    "launch_config",
    "magic_divisors",
    "schedule_elementwise",
    "schedule_rows",
    "schedule_transpose",
]
