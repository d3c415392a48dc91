"""Radix sort schedule: blocks share long rows, and meet at grid barriers between the passes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from ....hardware import Hardware, blocks_for
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.launch_config import LaunchConfig
from ....kernel_ir.liveness import most_registers_with_arguments, register_count
from ....kernel_ir.phase import Sort
from ....kernel_ir.register_pressure import predicted_registers
from ..rows.schedule import RowSchedule
from ..schedule_base import Extents
from .sort_method import sort_of

THREADS, BLOCKS = 256, 2  # threads per block: one for each bin; blocks per SM: few, with many words in flight
STAGE = 16 << 10  # bytes of a tile of words that is sorted in shared memory
MOST_COLUMNS = 1 << 30  # columns of a row: positions are int32
PASS_REGISTERS = 110  # registers of a thread that ranks and scatters a tile
ADDRESSING = 20  # registers for addresses, beside those of the bodies
READ_AHEAD = 8  # elements that a thread loads at once as it makes keys, and as it works on the ranks
BINS_BYTES = 1024  # bytes of a block's histogram of a digit
PADDING = 64  # words: each of a row's two buffers is a multiple of it


@dataclass(frozen=True)
class RadixSortSchedule(RowSchedule):
    """A radix sort of whole rows: the blocks of a row count digits, meet, and scatter their shares of it.

    All blocks are resident at once. Where there are more rows than blocks, a block takes row after row.
    """

    items: int  # words of a thread in a tile
    grid_sync = True
    grid: int = field(default=1, compare=False)  # blocks of the launch

    @property
    def elements_in_flight(self) -> int:
        return 0

    @property
    def tile(self) -> int:
        """Words that a block puts in order at a time."""
        return self.threads * self.items

    def groups(self, rows: int) -> int:
        """Rows that are sorted at once, at most."""
        return min(max(1, rows), self.grid)

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        sort, groups = sort_of(kernel), self.groups(prod(extents[: kernel.row_axes]))
        assert sort is not None
        workspace = self.grid * BINS_BYTES + groups * row_bytes(sort, extents[-1])
        launch = LaunchConfig(self.grid, self.block_threads, cooperative=True, workspace=workspace)
        return replace(launch, semaphores=2 * groups)


def word_bytes(sort: Sort) -> int:
    return 8 if sort.key.dtype.bits == 64 else 4


def row_bytes(sort: Sort, columns: int) -> int:
    """Bytes of both halves of a row: its words, and the columns that they come from."""
    padded = -(-columns // PADDING) * PADDING
    return 2 * padded * (word_bytes(sort) + 4 * sort.has_positions)


def passes(sort: Sort) -> int:
    """Digits of a key."""
    return -(-sort.key.dtype.compute.bits // 8)


def pass_bytes(sort: Sort) -> tuple[int, int]:
    """Bytes that a pass reads, and writes, of an element: its word twice, and its column."""
    word, column = word_bytes(sort), 4 * sort.has_positions
    return 2 * word + column, word + column


def can_radix_sort(kernel: KernelIR, columns: int) -> bool:
    """Whether blocks may share the rows of a sorting kernel: nothing in it but the sort needs a whole row."""
    alone = not any(p.folds or p.scans or p.tile_phases or p.column_reductions for p in kernel.phases)
    return alone and not kernel.is_subkernel and columns <= MOST_COLUMNS


def schedule_radix_sort(kernel: KernelIR, extents: Extents, hardware: Hardware) -> RadixSortSchedule:
    """How blocks share the rows of a kernel that `can_radix_sort`."""
    sort, rows, columns = sort_of(kernel), max(1, prod(extents[: kernel.row_axes])), extents[-1]
    assert sort is not None
    items = STAGE // (THREADS * word_bytes(sort))
    read = [kernel.operands[x.operand].dtype for x in kernel.element_loads]
    bodies = ADDRESSING + READ_AHEAD * (2 + register_count(read)) + most_registers_with_arguments(kernel.phases)
    need = round(max(PASS_REGISTERS, bodies)) + (ADDRESSING if kernel.index64 else 0)
    blocks = min(BLOCKS, blocks_for(hardware, need, THREADS))
    registers = predicted_registers(kernel, hardware, need, blocks, THREADS)
    slots = hardware.multiprocessors * blocks
    share = min(max(1, slots // rows), -(-max(1, columns) // (THREADS * items)))
    sharing = f"{share} blocks share a row, and meet" if share > 1 else "a block sorts a row, and waits"
    reason = f"rows of {columns} are sorted by {passes(sort)} digits of 8 bits; {sharing} after each count and scatter"
    schedule = RadixSortSchedule(1, READ_AHEAD, 0, THREADS, 1, blocks, items=items, grid=min(slots, rows * share))
    return replace(schedule, reason=reason, registers=registers)
