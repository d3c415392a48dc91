"""Onesweep schedule: a radix sort of long rows that blocks share; grid barriers between the sweeps."""

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
from .sort_method import BINS, SCAN_WORDS, WARP, sort_of

THREADS, THREADS_WITH_COLUMNS = 512, 256  # of a block, where words go alone and where columns go along
WORDS = 16  # 32-bit words of a thread in a tile
MOST_COLUMNS = 1 << 30  # columns of a row: positions are int32, counts have two bits for marks
PASS_REGISTERS, COLUMN_REGISTERS = 64, 80  # registers of a thread that ranks and scatters a tile; with columns
ADDRESSING = 20  # registers for addresses, beside those of the bodies
READ_AHEAD = 8  # elements that a thread loads at once as it makes keys, and as it works on the ranks
STATE_BYTES = 4 * BINS  # bytes that a tile leaves: a count of each bin
RESERVED = 2048  # bytes of shared memory that a block leaves to the system, and to what is static
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
        tiles = -(-extents[-1] // self.tile)
        workspace = groups * (row_bytes(sort, extents[-1]) + 2 * tiles * STATE_BYTES)
        launch = LaunchConfig(self.grid, self.block_threads, cooperative=True, workspace=workspace)
        return replace(launch, semaphores=groups * counters(sort), shared=tile_bytes(sort, self.threads, self.tile))


def counters(sort: Sort) -> int:
    """Counters of a row that are 0 before a launch and after it: two of the barrier, and those of all digits."""
    return 2 + passes(sort) * BINS


def tile_bytes(sort: Sort, threads: int, tile: int) -> int:
    """Shared memory of a block: words and columns of a tile, counters of each warp, offsets of bins, totals."""
    return tile * (word_bytes(sort) + 4 * sort.has_positions) + 4 * (threads // WARP * BINS + 2 * BINS + SCAN_WORDS)


def word_bytes(sort: Sort) -> int:
    return 8 if sort.key.dtype.bits == 64 else 4


def row_bytes(sort: Sort, columns: int) -> int:
    """Bytes of both halves of a row: its words, and the columns that they come from."""
    padded = -(-columns // PADDING) * PADDING
    return 2 * padded * (word_bytes(sort) + 4 * sort.has_positions)


def passes(sort: Sort) -> int:
    """Digits of a key."""
    return -(-sort.key_dtype.bits // 8)


def pass_bytes(sort: Sort) -> tuple[int, int]:
    """Bytes that a pass reads, and writes, of an element: its word and its column."""
    size = word_bytes(sort) + 4 * sort.has_positions
    return size, size


def can_radix_sort(kernel: KernelIR, columns: int) -> bool:
    """Whether blocks may share the rows of a sorting kernel: nothing in it but the sort needs a whole row."""
    alone = not any(p.folds or p.scans or p.tile_phases or p.column_reductions for p in kernel.phases)
    return alone and not kernel.is_subkernel and columns <= MOST_COLUMNS


def schedule_radix_sort(kernel: KernelIR, extents: Extents, hardware: Hardware) -> RadixSortSchedule:
    """How blocks share the rows of a kernel that `can_radix_sort`."""
    sort, rows, columns = sort_of(kernel), max(1, prod(extents[: kernel.row_axes])), extents[-1]
    assert sort is not None
    threads, items = THREADS_WITH_COLUMNS if sort.has_positions else THREADS, WORDS * 4 // word_bytes(sort)
    read = [kernel.operands[x.operand].dtype for x in kernel.element_loads]
    bodies = ADDRESSING + READ_AHEAD * (2 + register_count(read)) + most_registers_with_arguments(kernel.phases)
    ranking = COLUMN_REGISTERS if sort.has_positions else PASS_REGISTERS
    need = round(max(ranking, bodies)) + (ADDRESSING if kernel.index64 else 0)
    room = hardware.shared // (tile_bytes(sort, threads, threads * items) + RESERVED)
    blocks = max(1, min(blocks_for(hardware, need, threads), room))
    registers = predicted_registers(kernel, hardware, need, blocks, threads)
    slots = hardware.multiprocessors * blocks
    share = min(max(1, slots // rows), -(-max(1, columns) // (threads * items)))
    sharing = f"{share} blocks share a row, and meet" if share > 1 else "a block sorts a row, and waits"
    reason = f"rows of {columns} are sorted by {passes(sort)} digits of 8 bits; {sharing} after each sweep"
    schedule = RadixSortSchedule(1, READ_AHEAD, 0, threads, 1, blocks, items=items, grid=min(slots, rows * share))
    return replace(schedule, reason=reason, registers=registers)
