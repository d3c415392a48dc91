"""Layer 5: how a kernel's iterations map on threads. Every choice is a pure function that returns its reason."""

from __future__ import annotations

from math import prod

from ..hardware import Hardware
from .kernel import Kernel
from .map import MapSchedule, map_grid, schedule_map
from .row import RowSchedule, row_grid, schedule_row

Schedule = MapSchedule | RowSchedule


def choose(kernel: Kernel, extents: tuple[int, ...], hardware: Hardware) -> Schedule:
    """The schedule of a kernel. A row schedule that is not `resident` asks for a kernel that is not."""
    return schedule_row(kernel, extents, hardware) if kernel.row_axes else schedule_map(kernel, hardware)


def geometry(schedule: Schedule, row_axes: int, extents: tuple[int, ...]) -> tuple[int, int, int]:
    """Blocks, threads a block, and dynamic shared bytes of a launch over these extents."""
    if isinstance(schedule, MapSchedule):
        return map_grid(schedule, extents), schedule.threads, 0
    return row_grid(schedule, prod(extents[:row_axes])), schedule.block, 0


__all__ = ["Kernel", "MapSchedule", "RowSchedule", "Schedule", "choose", "geometry", "schedule_map", "schedule_row"]
