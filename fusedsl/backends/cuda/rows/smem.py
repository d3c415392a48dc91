"""Shared-memory schedule: a row in the shared memory of a block or a cluster; every phase loops over it there."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ....hardware import Hardware, blocks_for, registers_for
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.launch_config import LaunchConfig
from ....kernel_ir.register_pressure import Tiling, predicted_registers, required_registers, row_share
from ..schedule_base import Extents
from .schedule import RowSchedule, cluster_sizes, contiguous, covered_columns, needs_whole_block, row_width

SHARED_BLOCK, SHARED_ELEMENTS = 256, 16  # threads of a block that keeps a row in shared memory, and a tile of each
SHARED_BLOCKS = 3  # of which so many share an SM
SHARED_RESERVE = 4 << 10  # bytes of shared memory beside the row: the system's, and states that blocks merge
COPY_BYTES, COPY_FROM = (4, 8, 16), (8, 0)  # what cp.async copies, and the architecture that has it


def smem_copied_operands(kernel: KernelIR) -> list[int]:
    """Operands that several phases read in vectors that cp.async can copy."""
    width, copied = row_width(kernel), []
    for load in kernel.loads:
        operand = kernel.operands[load.operand]
        readers = sum(any(load.value in part.reads for part in phase.passes) for phase in kernel.phases)
        whole = operand.access != "element" and "0" not in operand.strides and operand.strides[-1] == "1"
        if whole and readers > 1 and width * operand.dtype.itemsize in COPY_BYTES:
            copied.append(load.operand)
    return copied


@dataclass(frozen=True)
class SmemRowSchedule(RowSchedule):
    """Operands that several phases read are first copied to the shared memory of a block, or of a cluster."""

    cluster: int = 1  # blocks of a cluster; `threads` of each work on the row
    smem = True

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        return replace(super().config(kernel, extents), shared=smem_bytes(self, kernel, extents[-1]))


def smem_bytes(schedule: SmemRowSchedule, kernel: KernelIR, columns: int) -> int:
    """Bytes of dynamic shared memory of a block for its part of a row."""
    turns = -(-covered_columns(kernel, columns, schedule.width) // schedule.tile_elements)
    each = sum(kernel.operands[k].dtype.itemsize for k in smem_copied_operands(kernel))
    return turns * schedule.vectors * schedule.width * schedule.threads * each


def schedule_smem(kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware) -> SmemRowSchedule | None:
    """A row in the shared memory of a block, or of the smallest cluster of which two blocks fit on an SM.

    Measured on an H200: a row costs more the more blocks wait for each other (2 % with two, 6 % with four, 10 % with
    eight, 16 % with sixteen, of which an SM's group has no more than one or two), so the smallest cluster is best. Two
    blocks of the largest on an SM are slower than reading a row twice (softmax of 393,216 float32: 5398 and 4666 us).
    """
    columns, width = extents[-1], row_width(kernel)
    if (
        kernel.batch_invariant_width
    ):  # of a single row nothing says which arrays it shares with others, and which are copied
        return None
    if hardware.cc < COPY_FROM or needs_whole_block(kernel):
        return None
    if not contiguous(kernel) or not smem_copied_operands(kernel):
        return None
    schedules = [_shared_by(size, kernel, width, hardware) for size in cluster_sizes(hardware.cluster)]
    needs = [smem_bytes(schedule, kernel, columns) for schedule in schedules]
    fits = [schedule for schedule, need in zip(schedules, needs) if need <= hardware.block_shared - SHARED_RESERVE]
    if not fits:
        return None
    ample = [s for s, need in zip(schedules, needs) if need + SHARED_RESERVE <= hardware.shared // 2]
    chosen = (ample or fits[-1:])[0]
    crowded = chosen.cluster == schedules[-1].cluster > 1 and needs[-1] > hardware.shared // SHARED_BLOCKS
    if crowded and len(kernel.phases) <= 2:
        return None
    where = "a block" if chosen.cluster == 1 else f"each of a cluster of {chosen.cluster} blocks"
    need = smem_bytes(chosen, kernel, columns)
    reason = (
        f"rows of {columns} in shared memory, {need} bytes in {where}: too long for registers; each phase loops over "
        f"the row, {chosen.threads} threads a block"
    )
    return replace(chosen, reason=reason)


def _shared_by(cluster: int, kernel: KernelIR, width: int, hardware: Hardware) -> SmemRowSchedule:
    vectors, threads = max(1, SHARED_ELEMENTS // width), SHARED_BLOCK
    while vectors > 1 and row_share(required_registers(kernel, Tiling(width, vectors))) > registers_for(
        hardware, 1, threads
    ):
        vectors //= 2
    need = required_registers(kernel, Tiling(width, vectors))
    blocks = min(SHARED_BLOCKS, blocks_for(hardware, need, threads))
    registers = predicted_registers(kernel, hardware, need, blocks, threads)
    return SmemRowSchedule(width, vectors, 0, threads, 1, blocks, cluster, registers=registers)
