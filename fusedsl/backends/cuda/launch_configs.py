"""The launch that a schedule asks for: its grid, and the memory that its blocks share, of each kind of schedule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

from ...kernel_ir.kernel import KernelIR
from ...kernel_ir.launch_config import Geometry
from .attention.mma_schedule import MmaAttentionSchedule, mma_grid, mma_smem_bytes
from .attention.sm90_schedule import Sm90AttentionSchedule, sm90_grid, sm90_smem_bytes
from .attention.split_kv_schedule import split_kv_workspace
from .columns.schedule import ColumnSchedule, left_bytes, strips
from .elementwise.schedule import MapSchedule, map_grid
from .elementwise.transpose_schedule import TransposeSchedule, transpose_grid
from .matmul.schedule import ContractSchedule, contract_grid
from .rows.cooperative import GangSchedule, gang_grid, gangs_of, workspace_bytes
from .rows.persistent_cluster import staying_bytes
from .rows.schedule import RowSchedule, row_grid
from .rows.smem import shared_bytes
from .rows_and_columns.schedule import CrossSchedule, cross_grid, cross_shared, cross_workspace
from .scan_sort.scan_schedule import tiles_of
from .scan_sort.sort_schedule import merge_bytes

Extents = tuple[int, ...]


def geometry(schedule: Any, kernel: KernelIR, extents: Extents) -> Geometry:
    """The launch of a scheduled kernel over these extents."""
    found = LAUNCHES[type(schedule)](schedule, kernel, extents)
    return replace(found, follows=True) if kernel.chained and not (found.cooperative or found.alone) else found


def _map(schedule: MapSchedule, kernel: KernelIR, extents: Extents) -> Geometry:
    return Geometry(map_grid(schedule, extents), schedule.threads)


def _transpose(schedule: TransposeSchedule, kernel: KernelIR, extents: Extents) -> Geometry:
    return Geometry(transpose_grid(schedule, extents), schedule.threads)


def _contract(schedule: ContractSchedule, kernel: KernelIR, extents: Extents) -> Geometry:
    return Geometry(contract_grid(kernel, extents), schedule.threads, alone=True)


def _attend(schedule: Sm90AttentionSchedule, kernel: KernelIR, extents: Extents) -> Geometry:
    blocks, shared = sm90_grid(schedule, kernel, extents), sm90_smem_bytes(schedule, kernel, extents)
    return Geometry(blocks, schedule.block, shared, alone=True)


def _warps(schedule: MmaAttentionSchedule, kernel: KernelIR, extents: Extents) -> Geometry:
    blocks, shared = mma_grid(schedule, kernel, extents), mma_smem_bytes(schedule, kernel, extents)
    found = Geometry(blocks, schedule.block, shared, alone=True)
    if not schedule.is_split_kv:
        return found
    return replace(found, workspace=split_kv_workspace(schedule, kernel, extents), tickets=blocks)


def _cross(schedule: CrossSchedule, kernel: KernelIR, extents: Extents) -> Geometry:
    blocks, shared = cross_grid(schedule, _rows(kernel, extents)), cross_shared(schedule, kernel)
    workspace = cross_workspace(kernel, blocks, extents[-1])
    return Geometry(blocks, schedule.block, shared, cooperative=True, workspace=workspace, tickets=2)


def _column(schedule: ColumnSchedule, kernel: KernelIR, extents: Extents) -> Geometry:
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


def _gang(schedule: GangSchedule, kernel: KernelIR, extents: Extents) -> Geometry:
    rows = _rows(kernel, extents)
    gangs, together = gangs_of(schedule, rows), schedule.together
    size, tickets = workspace_bytes(schedule, kernel, rows), 2 * gangs if together else gangs
    found = Geometry(gang_grid(schedule, rows), schedule.block, cooperative=together, workspace=size, tickets=tickets)
    return replace(found, unit=schedule.fixed or rows)


def _row(schedule: RowSchedule, kernel: KernelIR, extents: Extents) -> Geometry:
    if schedule.linked:
        tiles, tickets = tiles_of(kernel, schedule, extents)
        return Geometry(tiles, schedule.block, tickets=tickets)
    blocks, cluster = row_grid(schedule, _rows(kernel, extents)), schedule.cluster
    if schedule.stays:
        blocks, shared = min(blocks, schedule.clusters * cluster), staying_bytes(schedule, kernel)
        return Geometry(blocks, schedule.block, shared, cluster, unit=cluster, lasting=True)
    shared, workspace = shared_bytes(schedule, kernel, extents[-1]), merge_bytes(kernel, schedule, extents)
    lines = schedule.rows if schedule.room else 1
    return Geometry(blocks, schedule.block, shared, cluster, workspace=workspace, lines=lines)


def _rows(kernel: KernelIR, extents: Extents) -> int:
    return prod(extents[: kernel.row_axes])


LAUNCHES: dict[type, Callable[[Any, KernelIR, Extents], Geometry]] = {
    MapSchedule: _map,
    RowSchedule: _row,
    ColumnSchedule: _column,
    GangSchedule: _gang,
    TransposeSchedule: _transpose,
    CrossSchedule: _cross,
    ContractSchedule: _contract,
    Sm90AttentionSchedule: _attend,
    MmaAttentionSchedule: _warps,
}
