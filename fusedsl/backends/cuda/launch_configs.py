"""Launch configuration of each schedule class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

from ...kernel_ir.kernel import AttentionKernel, KernelIR
from ...kernel_ir.launch_config import LaunchConfig
from .attention.mma_schedule import MmaAttentionSchedule, mma_grid, mma_smem_bytes
from .attention.sm90_schedule import Sm90AttentionSchedule, sm90_grid, sm90_smem_bytes
from .attention.split_kv_schedule import split_kv_workspace
from .columns.schedule import ColumnSchedule, block_state_bytes, strip_count
from .elementwise.schedule import ElementwiseSchedule, elementwise_grid
from .elementwise.transpose_schedule import TransposeSchedule, transpose_grid
from .matmul.schedule import MatmulSchedule, matmul_grid
from .rows.cooperative import CooperativeSchedule, cooperative_grid, row_groups_of, workspace_bytes
from .rows.persistent_cluster import persistent_smem_bytes
from .rows.schedule import RowSchedule, row_grid
from .rows.smem import smem_bytes
from .rows_and_columns.schedule import MixedReductionSchedule, mixed_grid, mixed_smem_bytes, mixed_workspace_bytes
from .scan_sort.scan_schedule import tiles_of
from .scan_sort.sort_schedule import merge_bytes

Extents = tuple[int, ...]


def launch_config(schedule: Any, kernel: KernelIR, extents: Extents) -> LaunchConfig:
    """The launch of a scheduled kernel over these extents."""
    found = LAUNCHES[type(schedule)](schedule, kernel, extents)
    return (
        replace(found, programmatic_launch=True) if kernel.pdl and not (found.cooperative or found.exclusive) else found
    )


def _elementwise(schedule: ElementwiseSchedule, kernel: KernelIR, extents: Extents) -> LaunchConfig:
    return LaunchConfig(elementwise_grid(schedule, extents), schedule.threads)


def _transpose(schedule: TransposeSchedule, kernel: KernelIR, extents: Extents) -> LaunchConfig:
    return LaunchConfig(transpose_grid(schedule, extents), schedule.threads)


def _matmul(schedule: MatmulSchedule, kernel: KernelIR, extents: Extents) -> LaunchConfig:
    return LaunchConfig(matmul_grid(kernel, extents), schedule.threads, exclusive=True)


def _sm90_attention(schedule: Sm90AttentionSchedule, kernel: AttentionKernel, extents: Extents) -> LaunchConfig:
    blocks, shared = sm90_grid(schedule, kernel, extents), sm90_smem_bytes(schedule, kernel, extents)
    return LaunchConfig(blocks, schedule.block_threads, shared, exclusive=True)


def _mma_attention(schedule: MmaAttentionSchedule, kernel: AttentionKernel, extents: Extents) -> LaunchConfig:
    blocks, shared = mma_grid(schedule, kernel, extents), mma_smem_bytes(schedule, kernel, extents)
    found = LaunchConfig(blocks, schedule.block_threads, shared, exclusive=True)
    if not schedule.is_split_kv:
        return found
    return replace(found, workspace=split_kv_workspace(schedule, kernel, extents), semaphores=blocks)


def _rows_and_columns(schedule: MixedReductionSchedule, kernel: KernelIR, extents: Extents) -> LaunchConfig:
    blocks, shared = mixed_grid(schedule, _rows(kernel, extents)), mixed_smem_bytes(schedule, kernel)
    workspace = mixed_workspace_bytes(kernel, blocks, extents[-1])
    return LaunchConfig(blocks, schedule.block_threads, shared, cooperative=True, workspace=workspace, semaphores=2)


def _column(schedule: ColumnSchedule, kernel: KernelIR, extents: Extents) -> LaunchConfig:
    count, together = strip_count(schedule, kernel, extents), schedule.grid_sync
    blocks = count * schedule.blocks_per_strip
    if not schedule.is_split:
        return LaunchConfig(blocks, schedule.block_threads)
    lines = schedule.threads_y if schedule.max_threads else 1
    if schedule.blocks_per_strip == 1:  # what is compiled does without, but takes it
        return LaunchConfig(blocks, schedule.block_threads, workspace=1, semaphores=1, block_dim_y=lines)
    size, semaphores = blocks * block_state_bytes(schedule, kernel), 2 * count if together else count
    found = LaunchConfig(
        blocks, schedule.block_threads, cooperative=together, workspace=size, semaphores=semaphores, grid_multiple=count
    )
    return replace(found, block_dim_y=lines)


def _cooperative(schedule: CooperativeSchedule, kernel: KernelIR, extents: Extents) -> LaunchConfig:
    rows = _rows(kernel, extents)
    gangs, together = row_groups_of(schedule, rows), schedule.grid_sync
    size, semaphores = workspace_bytes(schedule, kernel, rows), 2 * gangs if together else gangs
    found = LaunchConfig(
        cooperative_grid(schedule, rows),
        schedule.block_threads,
        cooperative=together,
        workspace=size,
        semaphores=semaphores,
    )
    return replace(found, grid_multiple=schedule.fixed_blocks or rows)


def _row(schedule: RowSchedule, kernel: KernelIR, extents: Extents) -> LaunchConfig:
    if schedule.decoupled_lookback:
        tiles, semaphores = tiles_of(kernel, schedule, extents)
        return LaunchConfig(tiles, schedule.block_threads, semaphores=semaphores)
    blocks, cluster = row_grid(schedule, _rows(kernel, extents)), schedule.cluster
    if schedule.persistent:
        blocks, shared = min(blocks, schedule.max_clusters * cluster), persistent_smem_bytes(schedule, kernel)
        return LaunchConfig(blocks, schedule.block_threads, shared, cluster, grid_multiple=cluster, persistent=True)
    shared, workspace = smem_bytes(schedule, kernel, extents[-1]), merge_bytes(kernel, schedule, extents)
    lines = schedule.rows if schedule.max_threads else 1
    return LaunchConfig(blocks, schedule.block_threads, shared, cluster, workspace=workspace, block_dim_y=lines)


def _rows(kernel: KernelIR, extents: Extents) -> int:
    return prod(extents[: kernel.row_axes])


LAUNCHES: dict[type, Callable[[Any, Any, Extents], LaunchConfig]] = {
    ElementwiseSchedule: _elementwise,
    RowSchedule: _row,
    ColumnSchedule: _column,
    CooperativeSchedule: _cooperative,
    TransposeSchedule: _transpose,
    MixedReductionSchedule: _rows_and_columns,
    MatmulSchedule: _matmul,
    Sm90AttentionSchedule: _sm90_attention,
    MmaAttentionSchedule: _mma_attention,
}
