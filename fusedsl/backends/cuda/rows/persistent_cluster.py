"""Persistent clusters: each processes many rows, keeps weights in shared memory, prefetches the next row (cp.async)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ....hardware import Hardware, registers_for
from ....kernel_ir.kernel import KernelIR, Load
from ....kernel_ir.launch_config import LaunchConfig
from ....kernel_ir.register_pressure import Tiling, required_registers
from ..schedule_base import Extents
from ..split_heuristics import has_no_pass_after_reduction
from .schedule import LONG_CLASSES, LONG_ROW, RowSchedule, cluster_sizes, needs_whole_block
from .smem import COPY_BYTES, COPY_FROM
from .tile_shape import RowProblem, can_chunk_epilogue, epilogue_vectors_of

PAIR, SINGLE = (256, 2), (512, 1)  # threads of a row in each block, and rows that a block works on at once
LEAST_ROWS = 4  # rows per thread group
LEAST_HELD = 480 << 10  # bytes of operands that all rows read, from which on clusters are persistent
REREAD = 2  # multiple of a row's own bytes from which on LEAST_HELD counts, below it MUCH_HELD
MUCH_HELD = 960 << 10  # bytes of operands that all rows read, as LEAST_HELD
LEAST_LONG = 1280 << 10  # bytes of a row that no other schedule reads once
STATES = 16 << 10  # bytes of shared memory beside: the system's, and states that blocks exchange
LATE_PIECE = 4  # vectors of a chunk of the last phase, for 4-byte elements, if the rest of a row is loaded late
LATE_BELOW = 1 << 18  # columns below which the rest of a row is loaded late, as it is with a single reduction
SHORT, PIECE = 8, 2  # elements of a vector of 16 bits, for which half as many bytes suffice; vectors of a last phase
TURNING = 10  # registers more that a loop over rows takes


def smem_operands(kernel: KernelIR) -> list[int]:
    """Operands that are the same in all rows, element by element: they stay in shared memory."""
    operands = []
    for load in kernel.loads:
        strides = kernel.operands[load.operand].strides
        if strides[-1] == "1" and set(strides[:-1]) <= {"0"} and kernel.operands[load.operand].access == "vector":
            operands.append(load.operand)
    return operands


def prefetched_loads(kernel: KernelIR) -> list[Load]:
    """Loads of the first phase that differ from row to row: the next row's are prefetched."""
    in_smem = smem_operands(kernel)
    read = {value.name for part in kernel.phases[0].passes for value in part.reads}
    loads = [x for x in kernel.element_loads if x.value.name in read and x.operand not in in_smem]
    return [x for x in loads if "0" not in kernel.operands[x.operand].strides]


@dataclass(frozen=True)
class PersistentClusterSchedule(RowSchedule):
    """Clusters loop over rows that are in registers; operands that all rows read stay in shared memory."""

    epilogue_vectors: int = 0  # vectors of a chunk of the last phase; 0: all at once
    cluster: int = 1  # blocks of a cluster; `threads` of each work on the row
    prefetch_vectors: int = 0  # vectors of a thread's next row that cp.async copies meanwhile
    prefetch_rest: bool = False  # load the next row's tail into registers freed by the last phase
    max_clusters: int = field(default=0, compare=False)  # that are resident at once
    resident = True

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        launch = super().config(kernel, extents)
        blocks, shared = min(launch.blocks, self.max_clusters * self.cluster), persistent_smem_bytes(self, kernel)
        return replace(launch, blocks=blocks, shared=shared, grid_multiple=self.cluster, persistent=True)


def persistent_smem_bytes(schedule: PersistentClusterSchedule, kernel: KernelIR) -> int:
    """Bytes of dynamic shared memory of a block."""
    smem_bytes, prefetched_bytes = _element_bytes(kernel)
    return (
        schedule.width
        * schedule.threads
        * (schedule.vectors * smem_bytes + schedule.rows * schedule.prefetch_vectors * prefetched_bytes)
    )


def _element_bytes(kernel: KernelIR) -> tuple[int, int]:
    """Bytes per element of the operands in shared memory, and of the prefetched loads."""
    smem_bytes = sum(kernel.operands[k].dtype.itemsize for k in smem_operands(kernel))
    return smem_bytes, sum(kernel.operands[x.operand].dtype.itemsize for x in prefetched_loads(kernel))


def schedule_persistent_cluster(
    kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware, instead: RowSchedule | None
) -> PersistentClusterSchedule | None:
    """Rows in the registers of clusters that stay; None where another schedule is better `instead`, or they do not fit.

    `schedule_rows`, above, asks for it with the schedule that it has `instead`: that of `schedule_resident`, or
    None if no registers hold the row. `_persistent_clusters`, below, fits one cluster size.

    Measured on an H200: layer norm of rows of 65,536, 131,072 and 262,144 float32 is at 0.95, 0.97 and 0.97 of the
    speed of a copy, instead of 0.91, 0.84 and 0.75 where the weights come from the L2 for each row; RMS norm of the
    longest at 0.94 instead of 0.92. Two groups of a block are better than one, whose SM waits while blocks meet (0.80).
    Of 16 bits, layer norm of 65,536 takes 267 us instead of 278, RMS norm of 262,144 263 instead of 267. Where there is
    room for all of the next row, half of it in flight is better (RMS norm of 262,144 float32: 521 us instead of 534).
    The rest of the next row, which has no room in shared memory, comes into registers that the last phase has done with
    (layer norm of bfloat16 rows of 65,536: 264 us instead of 271, of float32 523 instead of 534; RMS norm of 262,144
    bfloat16 260 instead of 263), but for rows of 262,144 that are folded twice (271 instead of 268). Fetched to the L2
    ahead, it is slower (285), as are three groups that have all of it in shared memory (282).
    Softmax reads nothing that all rows share. It is faster this way only for rows that other schedules read twice:
    393,216 float32 take 3680 us instead of 4670.
    """
    row = RowProblem(kernel, extents, hardware)
    columns, width = row.columns, row.width
    if (
        kernel.column_axes != 1
        or columns <= LONG_ROW
        or needs_whole_block(kernel)
        or has_no_pass_after_reduction(kernel)
        or kernel.batch_invariant_width
    ):
        return None
    if any(len(phase.folds) > 1 for phase in kernel.phases):  # what several of them fold would be live beside the row
        return None
    loads, (smem_bytes, prefetched_bytes) = prefetched_loads(kernel), _element_bytes(kernel)
    least = (LEAST_HELD if smem_bytes >= REREAD * prefetched_bytes else MUCH_HELD) // (2 if width >= SHORT else 1)
    if instead is not None and (instead.cluster == 1 or smem_bytes * columns < least):
        return None
    if instead is None and (prefetched_bytes < 4 or prefetched_bytes * columns < LEAST_LONG):
        return None
    plain = all(kernel.operands[k].access == "vector" for k in kernel.element_operands)
    sizes = {width * kernel.operands[x.operand].dtype.itemsize for x in loads}
    if hardware.cc < COPY_FROM or not plain or not loads or not sizes <= set(COPY_BYTES):
        return None
    threads, groups = PAIR if instead is not None else SINGLE
    for cluster in cluster_sizes(hardware.cluster)[1:]:
        enough = row.rows * cluster >= LEAST_ROWS * groups * hardware.multiprocessors
        schedule = _persistent_clusters(row, cluster, threads, groups)
        if schedule and enough and cluster <= hardware.multiprocessors:
            return schedule
    return None


def _persistent_clusters(row: RowProblem, cluster: int, threads: int, groups: int) -> PersistentClusterSchedule | None:
    """Schedule of persistent clusters of this size; None if registers or shared memory do not suffice."""
    kernel, hardware, columns, width = row.kernel, row.hardware, row.columns, row.width
    step = width * threads * cluster
    vectors = next((v for v in LONG_CLASSES if v * step >= columns), 0)
    if not vectors:
        return None
    below = max((v for v in LONG_CLASSES if v < vectors and v * step <= columns), default=0)
    piece = epilogue_vectors_of(kernel, vectors, width)
    smem_bytes, prefetched_bytes = _element_bytes(kernel)
    if width >= SHORT and smem_bytes >= REREAD * prefetched_bytes:
        piece = min(piece, PIECE)
    bare = PersistentClusterSchedule(width, vectors, below, threads, groups, 1, piece, cluster)
    bare = replace(bare, max_clusters=hardware.multiprocessors // cluster)
    room = hardware.block_shared - STATES - persistent_smem_bytes(bare, kernel)
    each = persistent_smem_bytes(replace(bare, prefetch_vectors=1), kernel) - persistent_smem_bytes(bare, kernel)
    ahead = min(vectors, room // each)
    ahead = vectors // 2 if groups > 1 and ahead == vectors else ahead
    registers = registers_for(hardware, 1, bare.block_threads)
    least = vectors // 2 if groups == 1 else 1
    often = sum(bool(phase.folds) for phase in kernel.phases) > 1
    late = ahead < vectors and can_chunk_epilogue(kernel) and not (often and columns >= LATE_BELOW)
    piece = piece or LATE_PIECE * late
    tiling = Tiling(width, vectors, epilogue_vectors=piece)
    if ahead < least or required_registers(kernel, tiling) + TURNING > registers:
        return None
    reason = (
        f"rows of {columns} in registers, a cluster of {cluster} blocks of {threads} threads a row: {vectors} vectors "
        f"of {width} a thread, at most {registers} registers; persistent clusters loop over rows, {groups} at once, "
        f"and keep what all rows read; {ahead} of the next row's vectors are prefetched"
    )
    reason += ", the others after the last phase of this row" if late else ""
    return replace(
        bare, prefetch_vectors=ahead, epilogue_vectors=piece, prefetch_rest=late, reason=reason, registers=registers
    )
