"""Layout of a column reduction: the threads on a strip of columns, and the records of partial states."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.launch_config import LaunchConfig
from ....kernel_ir.phase import Phase
from ..schedule_base import Extents, Schedule
from ..split_heuristics import exchange_count

ALIGNMENT = 8  # bytes: alignment of each component of a state in a record
MOST_INDEPENDENT = 4  # columns of a thread whose instructions hide each other's latency, by estimate


@dataclass(frozen=True)
class ColumnSchedule(Schedule):
    """Column reduction: `threads_x` threads on vectors along the row axis, `threads_y` along the reduced axes; a thread
    holds `vectors` vectors of its columns."""

    width: int
    vectors: int
    full_vectors: int  # leading vectors that are always in bounds
    threads_x: int
    threads_y: int
    blocks: int  # per SM
    is_split = False

    @property
    def block_threads(self) -> int:
        return self.threads_x * self.threads_y

    @property
    def tile_reduced(self) -> int:
        """Positions along the reduced axes that a block takes at a time."""
        return self.threads_y * self.vectors

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        return LaunchConfig(strip_count(self, kernel, extents), self.block_threads)


@dataclass(frozen=True)
class LoopedColumnSchedule(ColumnSchedule):
    """Column reduction whose threads loop over `vectors` vectors at a time.

    If `is_split`, several blocks share a strip: the last to arrive finishes it; with `grid_sync`, all pass a grid
    barrier per reduction.
    """

    is_split: bool = False
    grid_sync: bool = False
    blocks_per_strip: int = field(default=1, compare=False)
    max_threads: int = 0  # threads_x, threads_y and blocks_per_strip are launch parameters; 0: compiled
    resident = False

    @property
    def independent(self) -> int:
        return min(self.width, MOST_INDEPENDENT)

    def holds_tables(self, kernel: KernelIR) -> bool:
        return True

    @property
    def compiled_form(self) -> LoopedColumnSchedule:
        return replace(self, threads_x=0, threads_y=0) if self.max_threads else self

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        count, together = strip_count(self, kernel, extents), self.grid_sync
        blocks = count * self.blocks_per_strip
        if not self.is_split:
            return LaunchConfig(blocks, self.block_threads)
        lines = self.threads_y if self.max_threads else 1
        if self.blocks_per_strip == 1:  # the binary has the parameter, but does not use it
            return LaunchConfig(blocks, self.block_threads, workspace=1, semaphores=1, block_dim_y=lines)
        size, semaphores = blocks * block_state_bytes(self, kernel), 2 * count if together else count
        launch = LaunchConfig(blocks, self.block_threads, cooperative=together, workspace=size, semaphores=semaphores)
        return replace(launch, grid_multiple=count, block_dim_y=lines)


def strip_count(schedule: ColumnSchedule, kernel: KernelIR, extents: tuple[int, ...]) -> int:
    """Strips of `lanes` vectors in all rows."""
    return strips_of_lanes(kernel, extents, schedule.threads_x)


def record_offsets(schedule: ColumnSchedule, phase: Phase) -> list[int]:
    """Where the states of each fold begin in what a block of a split strip leaves, in bytes; at last, where it ends."""
    states, offsets = (schedule.max_threads or schedule.threads_x) * schedule.width, [0]
    for use in phase.folds:
        sizes = (-(-states * value.dtype.itemsize // ALIGNMENT) * ALIGNMENT for value in use.accumulators)
        offsets.append(offsets[-1] + sum(sizes))
    return offsets


def record_bytes(schedule: ColumnSchedule, kernel: KernelIR) -> int:
    """What a block of a split strip leaves for the others after a phase."""
    return max(record_offsets(schedule, phase)[-1] for phase in kernel.phases)


def block_state_bytes(schedule: ColumnSchedule, kernel: KernelIR) -> int:
    """What a block of a split strip leaves after all phases: nothing is written twice."""
    return exchange_count(kernel) * record_bytes(schedule, kernel)


def strips_of_lanes(kernel: KernelIR, extents: tuple[int, ...], lanes: int) -> int:
    return max(1, -(-vectors_of_row(kernel, extents) // (lanes - kernel.shifted)))


def vectors_of_row(kernel: KernelIR, extents: tuple[int, ...]) -> int:
    """Vectors of all rows; of those that are shifted, the last of each line lends its states to the one before."""
    return prod(extents[: kernel.row_axes - 1]) * (
        -(-extents[kernel.row_axes - 1] // kernel.row_vector_width) + kernel.shifted
    )
