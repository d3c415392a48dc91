"""Matmul schedule: a block computes an output tile from K-slices of both factors."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ....hardware import Hardware
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.launch_config import LaunchConfig
from ....kernel_ir.matmul_axes import MatmulAxes, extent, is_contiguous_along_sum, matmul_axes, worth_tiling
from ....kernel_ir.phase import Body
from ..schedule_base import Extents, Schedule
from ..skinny.schedule import schedule_skinny
from ..small_matmul.schedule import schedule_small
from .mma_schedule import schedule_mma
from .sm90.schedule import schedule_sm90

TILE_MN, TILE_K, THREADS = 64, 16, 256  # rows and columns of a block's tile, steps of its K-slices, threads
SMEM_PITCH = TILE_MN + 4  # elements from a step to the next in shared memory: rows of 16 bytes, few bank conflicts
ELEMENTS_PER_THREAD = TILE_MN * TILE_K // THREADS  # elements of a K-slice that a thread loads
CHAIN = 256  # products that are added one after another before their sum joins the others
SHARED_BYTES = 48 << 10  # that every GPU has for a block


@dataclass(frozen=True)
class MatmulSchedule(Schedule):
    """A block of `threads` computes TILE_MN x TILE_MN elements, a thread 4 x 4 of them."""

    k_contiguous: tuple[bool, ...]  # of each of `unique_factors`: threads load neighbouring elements along K
    blocks: int  # per SM
    threads: int = THREADS
    width = 1
    multiplies = True
    length_specialized = False

    @property
    def block_threads(self) -> int:
        return self.threads

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        axes = matmul_axes(kernel)
        assert axes is not None
        return LaunchConfig(_tiles(axes, extents), self.threads, exclusive=True)


def unique_factors(matmul: MatmulAxes) -> list[tuple[str, Body]]:
    """The values that K-slices are made of, each once: ("row" or "column", what computes it)."""
    return list(dict.fromkeys((side, body) for pair in matmul.factors for side, body in zip(("row", "column"), pair)))


def schedule_matmul(kernel: KernelIR, extents: Extents, hardware: Hardware) -> Schedule | None:
    """How a kernel that sums products runs, the first way that fits; None where it is better run row by row."""
    if any(phase.panel_folds or phase.groups for phase in kernel.phases) or kernel.image_axes:
        return schedule_sm90(kernel, extents, hardware)
    schedules = (scheduler(kernel, extents, hardware) for scheduler in SCHEDULERS)
    return next((schedule for schedule in schedules if schedule is not None), None)


def schedule_smem_tiles(kernel: KernelIR, extents: Extents, hardware: Hardware) -> MatmulSchedule | None:
    """The schedule by K-slices of computed factors in shared memory, on CUDA cores; None where it does not fit."""
    matmul = matmul_axes(kernel)
    if matmul is None or not kernel.resident or kernel.is_subkernel or not worth_tiling(kernel, matmul, extents):
        return None
    factors = unique_factors(matmul)
    if sum(TILE_K * SMEM_PITCH * body.results[0].dtype.itemsize for _, body in factors) > SHARED_BYTES:
        return None
    k_contiguous = tuple(is_contiguous_along_sum(kernel, body) for _, body in factors)
    words = sum(use.accumulators[0].dtype.itemsize // 4 for use in kernel.phases[0].folds)
    blocks = 2 if words == 1 else 1
    registers = min(hardware.thread_registers, 64 + 48 * words)
    reason = (
        f"matrix product: {_tiles(matmul, extents)} tiles of {TILE_MN} × {TILE_MN}, K-slices of {TILE_K} staged in "
        "shared memory; a thread accumulates 4 × 4 elements"
    )
    return MatmulSchedule(k_contiguous, blocks, THREADS, reason=reason, registers=registers)


SCHEDULERS = (schedule_small, schedule_sm90, schedule_skinny, schedule_mma, schedule_smem_tiles)


def _tiles(matmul: MatmulAxes, extents: Extents) -> int:
    """Output tiles, each a block's."""
    return extent(matmul.batch, extents) * prod(
        -(-extent(axes, extents) // TILE_MN) for axes in (matmul.rows, matmul.columns)
    )
