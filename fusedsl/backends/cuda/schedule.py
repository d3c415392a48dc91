"""Layer 5: how a kernel's iterations map on threads. Every choice is a pure function that returns its reason."""

from __future__ import annotations

from math import prod
from typing import Any

from ...hardware import Hardware
from ...kernel_ir.fast_division import divisors
from ...kernel_ir.kernel import KernelIR
from ...kernel_ir.launch_config import Geometry
from .attention.mma_schedule import MmaAttentionSchedule
from .attention.sm90_schedule import Sm90AttentionSchedule
from .batch_invariant import steady
from .columns.schedule import ColumnSchedule, schedule_column
from .elementwise.schedule import MapSchedule, schedule_map
from .elementwise.transpose_schedule import TransposeSchedule, schedule_transpose
from .launch_configs import geometry
from .matmul.schedule import ContractSchedule, schedule_contract
from .rows.choose import schedule_row
from .rows.cooperative import GangSchedule, schedule_gang
from .rows.schedule import RowSchedule
from .rows_and_columns.schedule import CrossSchedule, schedule_cross
from .scan_sort.scan_schedule import has_scans, schedule_scan
from .scan_sort.sort_method import selection
from .scan_sort.sort_schedule import schedule_select

Schedule = (
    MapSchedule
    | RowSchedule
    | ColumnSchedule
    | GangSchedule
    | TransposeSchedule
    | CrossSchedule
    | ContractSchedule
    | Sm90AttentionSchedule
    | MmaAttentionSchedule
)


def choose(kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware, flexible: bool = True) -> Schedule:
    """The schedule of a kernel. A row schedule that is not `resident` asks for a kernel that is not.

    A kernel that folds rows and columns has one only where it `can_cross`. Unless `flexible`, lanes
    and levels of columns are compiled.
    """
    if kernel.steady and kernel.row_axes:
        kernel, extents = steady(kernel, extents)
    if kernel.finish is not None:
        found = schedule_cross(kernel, extents, hardware)
        assert found is not None
        return found
    if selection(kernel):
        return schedule_select(kernel, extents, hardware)
    if has_scans(kernel):
        return schedule_scan(kernel, extents, hardware)
    products = schedule_contract(kernel, extents, hardware)
    if products is not None:
        return products
    if kernel.kept:
        return schedule_column(kernel, extents, hardware, flexible)
    if kernel.row_axes:
        row = schedule_row(kernel, extents, hardware, flexible)
        spread = prod(extents[: kernel.row_axes]) * row.cluster >= hardware.multiprocessors
        if row.resident or (row.shared and spread):
            return row
        return schedule_gang(kernel, extents, hardware) or row
    return schedule_transpose(kernel, extents, hardware) or schedule_map(kernel, hardware)


def can_cross(kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware) -> bool:
    """Whether a kernel that folds rows and columns has a schedule for these extents."""
    return schedule_cross(kernel, extents, hardware) is not None


def magic_divisors(schedule: Any, kernel: KernelIR, extents: tuple[int, ...]) -> tuple[int, ...]:
    """What the magics of axes 1 … of a kernel divide by; `schedule` is a Schedule, or the name of loops on a CPU."""
    if isinstance(schedule, TransposeSchedule):
        return schedule.counts(extents)[1:]
    return (
        divisors(kernel.along, getattr(schedule, "width", 1), extents, int(kernel.shifted)) if kernel.axes > 1 else ()
    )


__all__ = [
    "ColumnSchedule",
    "ContractSchedule",
    "CrossSchedule",
    "GangSchedule",
    "Geometry",
    "KernelIR",
    "MapSchedule",
    "MmaAttentionSchedule",
    "RowSchedule",
    "Schedule",
    "Sm90AttentionSchedule",
    "TransposeSchedule",
    "can_cross",
    "choose",
    "geometry",
    "magic_divisors",
    "schedule_map",
    "schedule_row",
    "schedule_transpose",
]
