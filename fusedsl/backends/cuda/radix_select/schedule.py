"""Selection schedule: blocks share long rows, and count digits of keys until few candidates for the ranks are left."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from ....hardware import Hardware, blocks_for
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.launch_config import LaunchConfig
from ....kernel_ir.liveness import most_registers_with_arguments, register_count
from ....kernel_ir.phase import Sort, Value
from ....kernel_ir.register_pressure import predicted_registers
from ..rows.schedule import RowSchedule, row_width
from ..schedule_base import Extents
from ..sort.onesweep_schedule import RadixSortSchedule, can_radix_sort
from ..sort.schedule import SortSchedule
from ..sort.sort_method import sort_of

FIRST_BITS, BITS = 11, 8  # of the first digit, which is counted in the row itself, and of those of candidates
READINGS = 2  # of a row
BUFFERS = 3  # of counts of digits, in turn: one that is counted in, one that is read, one that is cleared
STATE_BYTES = 384  # of shared memory before the bins: prefixes, ranks, counts, counters, totals of warps
HEADER = 4  # counters of a row: two of the barrier, the next slot of all candidates and of those collected
THREADS, MORE_BLOCKS_THREADS = 512, 256  # of a block; of one whose threads take so many registers that few fit
ELEMENTS, BYTES = 8, 32  # of a thread in a tile, and of the widest array there, at most; but a vector at least
MOST_RANKS = 8
MOST_COUNT, LEAST_COUNT = 4096, 64  # of the first elements that are selected; fewer are gathered in one reading
LIMIT = 1024  # candidates, from which on the next digit costs less than to sort them
MOST_THREADS = 1024  # of an SM: each block adds its bins to those of the row
LEAST_COLUMNS = 1 << 15  # of a row whose first elements are selected by digits
RESERVED = 1024  # bytes of shared memory that a block leaves to the system
WIDE = 16  # registers more of keys of two words
REGISTERS = 32  # of a thread, beside its elements: addresses, counters, prefixes


@dataclass(frozen=True)
class SelectSchedule(RowSchedule):
    """A selection by digits: the blocks of a row count digits, meet, and gather candidates, which each puts in order.

    All blocks are resident at once. Where there are more rows than blocks, a block takes row after row.
    """

    limit: int  # candidates that a block sorts
    grid_sync = True
    grid: int = field(default=1, compare=False)  # blocks of the launch

    def groups(self, rows: int) -> int:
        """Rows that are worked on at once, at most."""
        return min(max(1, rows), self.grid)

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        sort, groups = sort_of(kernel), self.groups(prod(extents[: kernel.row_axes]))
        assert sort is not None
        workspace = groups * (extents[-1] + self.limit) * entry_bytes(sort)
        launch = LaunchConfig(self.grid, self.block_threads, cooperative=True, workspace=workspace)
        return replace(launch, semaphores=groups * counters(sort), shared=shared_bytes(sort, self.limit))


def rank_row_values(sort: Sort) -> tuple[int | Value, ...]:
    """The ranks whose elements are row values."""
    return tuple(dict.fromkeys(rank for _, rank, _ in sort.rank_reads))


def ranks(sort: Sort) -> tuple[int | Value, ...]:
    """The ranks that digits are searched for: of the first `count` the last, else those of the row values."""
    return (sort.count - 1,) if sort.count is not None else rank_row_values(sort)


def first_bins(sort: Sort) -> int:
    """Bins of the first digit."""
    return 1 << min(FIRST_BITS, sort.key.dtype.compute.bits)


def counters(sort: Sort) -> int:
    """Counters of a row that are 0 before a launch and after it."""
    return HEADER + first_bins(sort) + BUFFERS * len(ranks(sort)) * (1 << BITS)


def entry_bytes(sort: Sort) -> int:
    """Bytes of a key with its column."""
    return 16 if sort.key.dtype.bits == 64 else 8


def shared_bytes(sort: Sort, limit: int) -> int:
    """Shared memory of a block: its state, and bins, over which it sorts candidates."""
    bins = max(first_bins(sort), len(ranks(sort)) << BITS)
    return STATE_BYTES + max(4 * bins, limit * entry_bytes(sort))


def can_select(kernel: KernelIR, columns: int) -> bool:
    """Whether a kernel wants a few ranks of the order of rows, or its first elements, and nothing else needs a row."""
    sort = sort_of(kernel)
    if sort is None or not can_radix_sort(kernel, columns):
        return False
    if sort.count is not None:
        return sort.count <= MOST_COUNT
    return sort.values is None and sort.positions is None and 0 < len(ranks(sort)) <= MOST_RANKS


def schedule_selection(kernel: KernelIR, extents: Extents, hardware: Hardware, other: RowSchedule) -> RowSchedule:
    """A selection by digits where that is faster than the other schedule, which sorts or gathers."""
    sort, rows, columns = sort_of(kernel), max(1, prod(extents[: kernel.row_axes])), extents[-1]
    if sort is None or not can_select(kernel, columns):
        return other
    gathers = isinstance(other, SortSchedule) and other.sort_method.method == "choose"
    many = gathers and columns >= LEAST_COLUMNS and sort.count is not None and sort.count >= LEAST_COUNT
    if not many and not isinstance(other, RadixSortSchedule):
        return other
    width = row_width(kernel)
    read = [kernel.operands[x.operand].dtype for x in kernel.element_loads]
    vectors = max(1, min(ELEMENTS, BYTES // max([d.itemsize for d in read], default=1)) // width)
    ahead = 2 * width * vectors * register_count(read)  # a tile, and the next one
    need = round(REGISTERS + ahead + most_registers_with_arguments(kernel.phases))
    need += WIDE * (sort.key.dtype.bits == 64) + len(ranks(sort))
    limit = 1 << (max(LIMIT, sort.count or 0) - 1).bit_length()
    room = hardware.shared // (shared_bytes(sort, limit) + RESERVED)
    fits = blocks_for(hardware, need, THREADS) * THREADS >= MOST_THREADS
    threads = THREADS if fits else MORE_BLOCKS_THREADS
    blocks = max(1, min(blocks_for(hardware, need, threads), room, MOST_THREADS // threads))
    registers = predicted_registers(kernel, hardware, need, blocks, threads)
    slots = hardware.multiprocessors * blocks
    share = min(max(1, slots // rows), -(-max(1, columns) // (threads * width * vectors)))
    wanted = f"the first {sort.count}" if sort.count is not None else f"{len(ranks(sort))} ranks"
    reason = (
        f"{wanted} of {columns} columns are selected by digits of {FIRST_BITS} and {BITS} bits, without a sort; "
        f"{share} block{'s' * (share > 1)} a row"
    )
    schedule = SelectSchedule(width, vectors, 0, threads, 1, blocks, limit=limit, grid=min(slots, rows * share))
    return replace(schedule, reason=reason, registers=registers)
