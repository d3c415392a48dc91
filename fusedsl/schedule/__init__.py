"""Layer 5: how a kernel's iterations map on threads. Every choice is a pure function that returns its reason."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from ..geometry import Geometry
from ..hardware import Hardware
from .attend import AttendSchedule, attend_grid, attend_shared
from .column import ColumnSchedule, left_bytes, schedule_column, strips
from .contract import ContractSchedule, contract_grid, schedule_contract
from .cross import CrossSchedule, cross_grid, cross_shared, cross_workspace, schedule_cross
from .division import divisors
from .gang import GangSchedule, gang_grid, gangs_of, schedule_gang, workspace_bytes
from .kernel import Kernel
from .map import MapSchedule, map_grid, schedule_map
from .narrow import narrow_workspace
from .ranking import selection
from .row import RowSchedule, row_grid
from .rows import schedule_row
from .scan import has_scans, schedule_scan, tiles_of
from .select import merge_bytes, schedule_select
from .shared import shared_bytes
from .staying import staying_bytes
from .steady import steady
from .transpose import TransposeSchedule, schedule_transpose, transpose_grid
from .warps import WarpSchedule, warp_grid, warp_shared

Schedule = (
    MapSchedule
    | RowSchedule
    | ColumnSchedule
    | GangSchedule
    | TransposeSchedule
    | CrossSchedule
    | ContractSchedule
    | AttendSchedule
    | WarpSchedule
)


def choose(kernel: Kernel, extents: tuple[int, ...], hardware: Hardware, flexible: bool = True) -> Schedule:
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


def can_cross(kernel: Kernel, extents: tuple[int, ...], hardware: Hardware) -> bool:
    """Whether a kernel that folds rows and columns has a schedule for these extents."""
    return schedule_cross(kernel, extents, hardware) is not None


def geometry(schedule: Schedule, kernel: Kernel, extents: tuple[int, ...]) -> Geometry:
    """The launch of a scheduled kernel over these extents."""
    found = _geometry(schedule, kernel, extents)
    return replace(found, follows=True) if kernel.chained and not (found.cooperative or found.alone) else found


def _geometry(schedule: Schedule, kernel: Kernel, extents: tuple[int, ...]) -> Geometry:
    if isinstance(schedule, MapSchedule):
        return Geometry(map_grid(schedule, extents), schedule.threads)
    if isinstance(schedule, TransposeSchedule):
        return Geometry(transpose_grid(schedule, extents), schedule.threads)
    if isinstance(schedule, AttendSchedule):
        blocks, shared = attend_grid(schedule, kernel, extents), attend_shared(schedule, kernel, extents)
        return Geometry(blocks, schedule.block, shared, alone=True)
    if isinstance(schedule, WarpSchedule):
        blocks, shared = warp_grid(schedule, kernel, extents), warp_shared(schedule, kernel, extents)
        found = Geometry(blocks, schedule.block, shared, alone=True)
        if not schedule.split:
            return found
        return replace(found, workspace=narrow_workspace(schedule, kernel, extents), tickets=blocks)
    if isinstance(schedule, ContractSchedule):
        return Geometry(contract_grid(kernel, extents), schedule.threads, alone=True)
    if isinstance(schedule, CrossSchedule):
        blocks = cross_grid(schedule, prod(extents[: kernel.row_axes]))
        workspace = cross_workspace(kernel, blocks, extents[-1])
        shared = cross_shared(schedule, kernel)
        return Geometry(blocks, schedule.block, shared, cooperative=True, workspace=workspace, tickets=2)
    if isinstance(schedule, ColumnSchedule):
        count, together = strips(schedule, kernel, extents), schedule.together
        blocks = count * schedule.parts
        if not schedule.split:
            return Geometry(blocks, schedule.block)
        lines = schedule.levels if schedule.room else 1
        if schedule.parts == 1:  # what is compiled does without, but takes it
            return Geometry(blocks, schedule.block, workspace=1, tickets=1, lines=lines)
        size, tickets = blocks * left_bytes(schedule, kernel), 2 * count if together else count
        found = Geometry(blocks, schedule.block, cooperative=together, workspace=size, tickets=tickets, unit=count)
        return replace(found, lines=lines)
    rows = prod(extents[: kernel.row_axes])
    if isinstance(schedule, GangSchedule):
        gangs, together = gangs_of(schedule, rows), schedule.together
        size, tickets = workspace_bytes(schedule, kernel, rows), 2 * gangs if together else gangs
        blocks = gang_grid(schedule, rows)
        return Geometry(
            blocks, schedule.block, cooperative=together, workspace=size, tickets=tickets, unit=schedule.fixed or rows
        )
    if schedule.linked:
        tiles, tickets = tiles_of(kernel, schedule, extents)
        return Geometry(tiles, schedule.block, tickets=tickets)
    if schedule.stays:
        blocks, cluster = min(row_grid(schedule, rows), schedule.clusters * schedule.cluster), schedule.cluster
        shared = staying_bytes(schedule, kernel)
        return Geometry(blocks, schedule.block, shared, cluster, unit=cluster, lasting=True)
    shared, workspace = shared_bytes(schedule, kernel, extents[-1]), merge_bytes(kernel, schedule, extents)
    lines = schedule.rows if schedule.room else 1
    blocks = row_grid(schedule, rows)
    return Geometry(blocks, schedule.block, shared, schedule.cluster, workspace=workspace, lines=lines)


def magic_divisors(schedule: Any, kernel: Kernel, extents: tuple[int, ...]) -> tuple[int, ...]:
    """What the magics of axes 1 … of a kernel divide by; `schedule` is a Schedule, or the name of loops on a CPU."""
    if isinstance(schedule, TransposeSchedule):
        return schedule.counts(extents)[1:]
    return (
        divisors(kernel.along, getattr(schedule, "width", 1), extents, int(kernel.shifted)) if kernel.axes > 1 else ()
    )


__all__ = [
    *("AttendSchedule", "ColumnSchedule", "ContractSchedule", "CrossSchedule", "GangSchedule", "Geometry", "Kernel"),
    *("MapSchedule", "RowSchedule", "Schedule", "TransposeSchedule", "WarpSchedule", "can_cross", "choose", "geometry"),
    *("magic_divisors", "schedule_map", "schedule_row", "schedule_transpose"),
]
