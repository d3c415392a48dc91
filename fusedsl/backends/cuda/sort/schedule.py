"""Sort schedule: in a warp's registers or a block's shared memory, top-k buffer, or merge sort in global memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from ....hardware import Hardware, blocks_for
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.launch_config import LaunchConfig
from ....kernel_ir.liveness import most_registers_with_arguments, register_count
from ....kernel_ir.phase import Sort, Value
from ....kernel_ir.register_pressure import predicted_registers
from ..rows.schedule import VECTOR_CLASSES, WARP, RowSchedule, row_width
from ..schedule_base import Extents
from .onesweep_schedule import can_radix_sort, schedule_radix_sort
from .sort_method import STATIC_SHARED, SortMethod, block_radix_bytes, needs_wide_entries, sort_of

MOST_DIGIT_THREADS = 512  # threads that sort a row by digits
LEAST_THREADS = 4  # of a row that is sorted in registers
PASS_REGISTERS = 30  # registers of a thread that ranks digits, beside its words and their slots
ADDRESSING = 20  # registers for addresses and counters
ROUNDS, ROUNDS_COLUMNS = 32, 1024  # most results and columns of a top-k by repeated extraction of the best
SHORTER = (32, 128, 256, 512)  # classes of lengths that share a binary
LONGER = (1024, 2048, 4096, 8192, 16384)  # the same where all of a row is sorted
NETWORK = 256  # most columns that a warp sorts in registers
NETWORK_ITEMS, DIGIT_ITEMS = 8, 16  # elements of a thread of a network; of one that sorts by digits, in 32-bit words
RESERVED = 1024  # bytes of shared memory that folds of the sorted row may take
ROUND_ELEMENTS = 8  # elements that a thread sorts in registers
WARPS = 4  # warps of a block if a row has a warp or less
ENTRIES_BYTES = 32 << 10  # shared memory for entries
BLOCK = 512  # threads that sort or merge
TOPK_BLOCK, FEW_ROWS_BLOCK = 256, 1024  # most threads that select the top-k of a long row; of few rows
BUSY = 512  # threads per SM that select while others wait at a barrier
TILE, LONG_TILE = 8, 16  # elements of a thread's tile; of one whose row has a single warp, which needs no barrier
MANY = 1 << 20  # columns: more than any tile has
SCARCE = 8  # columns per result, from which on warps select the top-k instead of sorting the row


@dataclass(frozen=True)
class SortSchedule(RowSchedule):
    """A row is sorted, or its best found: on the chip, or where elements stream by."""

    sort_method: SortMethod = field(kw_only=True)

    @property
    def resident(self) -> bool:  # type: ignore[override]
        return self.sort_method.method in ("rounds", "network", "digits")

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        launch, sort = super().config(kernel, extents), sort_of(kernel)
        if self.sort_method.method == "digits" and sort is not None:
            wide = sort.key.dtype.bits == 64
            size = block_radix_bytes(self.sort_method.size, self.threads, wide, sort.has_positions)
            return replace(launch, shared=size if size > STATIC_SHARED else 0)
        if self.sort_method.method != "merge":
            return launch
        size = runs(extents[-1], self.width, self.sort_method.size) * ENTRIES_BYTES  # two halves of whole runs a row
        return replace(launch, workspace=2 * prod(extents[: kernel.row_axes]) * size)


def schedule_sort(kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware) -> RowSchedule:
    """How a row kernel with an order runs. If a `resident` kernel does not fit, the schedule is not `resident`."""
    sort, columns = sort_of(kernel), extents[-1]
    assert sort is not None
    wide = needs_wide_entries(sort, columns)
    slots = _slots(wide or sort.key.dtype.bits == 64)
    width = row_width(kernel)
    reach = columns + (width - 1 if any(operand.access == "peeled" for operand in kernel.operands) else 0)
    if kernel.resident and has_few_best(sort) and reach <= ROUNDS_COLUMNS:
        return _rounds(kernel, columns, reach, width, hardware)
    keep = _power(sort.count or columns)
    chosen = sort.count is not None and keep <= slots // 4
    crowd = prod(extents[: kernel.row_axes]) * WARP >= hardware.multiprocessors * BUSY
    short = min(ROUNDS_COLUMNS, SCARCE * keep) if crowd else ROUNDS_COLUMNS
    if kernel.resident and reach <= (short if chosen else _longest(kernel, width, hardware)):
        return _sorted(kernel, columns, reach, width, hardware)
    if chosen:
        return _of_width(_chosen(kernel, extents, width, sort.count or 1, slots, hardware), wide)
    if can_radix_sort(kernel, columns):
        return schedule_radix_sort(kernel, extents, hardware)
    return _of_width(_merged(kernel, columns, width, slots, hardware), wide)


def generic_sort(
    held: KernelIR, streamed: KernelIR, extents: tuple[int, ...], hardware: Hardware
) -> tuple[KernelIR, RowSchedule]:
    """The kernel, resident or not, and how it runs, in few forms for all extents."""
    sort, columns, width = sort_of(held), extents[-1], row_width(held)
    assert sort is not None
    wide = needs_wide_entries(sort, columns)
    slots = _slots(wide or sort.key.dtype.bits == 64)
    keep, reach = _power(sort.count or columns), columns + width - 1
    chosen = sort.count is not None and _power(sort.count) <= slots // 4
    longest = _longest(held, width, hardware)
    for size in (*SHORTER, *([ROUNDS_COLUMNS] if chosen else (size for size in LONGER if size <= longest))):
        if reach <= size and keep <= size and has_few_best(sort):
            schedule = _rounds(held, 0, size, width, hardware)
            return held, replace(schedule, reason=schedule.reason.replace("of 0 columns", f"of {columns} columns"))
        if reach <= size and keep <= size:
            return held, _sorted(held, columns, size, width, hardware)
    if chosen:
        crowd = prod(extents[: held.row_axes]) * WARP >= hardware.multiprocessors * BUSY
        like = (MANY if crowd else hardware.multiprocessors, *(1,) * (held.row_axes - 1), MANY)
        schedule = _of_width(_chosen(streamed, like, width, sort.count or 1, slots, hardware), wide)
        return streamed, replace(schedule, reason=schedule.reason.replace(f"{MANY} columns", f"{columns} columns"))
    if can_radix_sort(streamed, columns):
        return streamed, schedule_radix_sort(streamed, extents, hardware)
    return streamed, _of_width(_merged(streamed, columns, width, slots, hardware), wide)


def has_few_best(sort: Sort) -> bool:
    """Whether the best are few, and at known ranks: what is taken out lies in registers, which have no addresses."""
    return sort.count is not None and sort.count <= ROUNDS and sort.ranks is None


def _slots(two_words: bool) -> int:
    """Entries that shared memory has room for."""
    return ENTRIES_BYTES // (16 if two_words else 8)


def _of_width(schedule: SortSchedule, wide: bool) -> SortSchedule:
    """The schedule, with entries of two words if they are to be `wide`."""
    return replace(schedule, sort_method=replace(schedule.sort_method, wide=True)) if wide else schedule


def _power(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def _with_registers(
    kernel: KernelIR, hardware: Hardware, reason: str, schedule: SortSchedule, need: float = 0
) -> SortSchedule:
    """The schedule with what a thread takes: its entries and what it loads, or what it is said to need."""
    entry = 4 if any(v.dtype.bits == 64 for v in _lifted(kernel)) else 2
    read = [kernel.operands[x.operand].dtype for x in kernel.element_loads]
    need = need or ADDRESSING + schedule.width * schedule.vectors * (entry + register_count(read))
    registers = round(need + most_registers_with_arguments(kernel.phases)) + (ADDRESSING if kernel.index64 else 0)
    blocks = blocks_for(hardware, min(registers, hardware.registers // schedule.block_threads), schedule.block_threads)
    registers = predicted_registers(kernel, hardware, registers, blocks, schedule.block_threads)
    return replace(schedule, blocks=blocks, reason=reason, registers=registers)


def _lifted(kernel: KernelIR) -> list[Value]:
    return [phase.sort.key for phase in kernel.phases if phase.sort]


def _rounds(kernel: KernelIR, columns: int, reach: int, width: int, hardware: Hardware) -> SortSchedule:
    sort, threads = sort_of(kernel), 8
    assert sort is not None and sort.count is not None
    while threads < WARP and reach > threads * max(width, ROUND_ELEMENTS):
        threads *= 2
    needed = -(-reach // (width * threads))
    vectors = next(v for v in VECTOR_CLASSES if v >= needed)
    below = max((v for v in VECTOR_CLASSES if v < vectors and v * width * threads <= columns), default=0)
    reason = (
        f"the best {sort.count} of {columns} columns are taken out one by one by {threads} threads, that hold the row"
    )
    rank = SortMethod("rounds", -(-sort.count // threads))
    rows = WARPS * WARP // threads
    return _with_registers(
        kernel, hardware, reason, SortSchedule(width, vectors, below, threads, rows, 1, sort_method=rank)
    )


def _sorted(kernel: KernelIR, columns: int, reach: int, width: int, hardware: Hardware) -> SortSchedule:
    """The schedule of rows that are sorted where they are held; of up to `reach` elements, with what precedes them."""
    sort = sort_of(kernel)
    assert sort is not None
    if reach <= NETWORK:
        return _network(kernel, columns, reach, width, hardware)
    threads = _digit_threads(kernel, reach, width)
    vectors = -(-reach // (threads * width))
    size = threads * width * vectors
    reason = f"{columns} columns are sorted by digits of 8 bits in shared memory by {threads} threads"
    rank = SortMethod("digits", -(-(sort.count or reach) // threads), size)
    schedule = SortSchedule(width, vectors, 0, threads, 1, 1, sort_method=rank)
    return _with_registers(kernel, hardware, reason, schedule, _digit_registers(kernel, schedule))


def _digit_registers(kernel: KernelIR, schedule: SortSchedule) -> float:
    """Registers of a thread that sorts by digits: its words and their slots, or what it loads; columns in pairs."""
    sort, elements = sort_of(kernel), schedule.width * schedule.vectors
    assert sort is not None
    word = 2 if sort.key.dtype.bits == 64 else 1
    read = [kernel.operands[x.operand].dtype for x in kernel.element_loads]
    passes = PASS_REGISTERS + elements * (word + 1 + sort.has_positions / 2)
    return max(passes, ADDRESSING + elements * (word + register_count(read)))


def _network(kernel: KernelIR, columns: int, reach: int, width: int, hardware: Hardware) -> SortSchedule:
    sort, size = sort_of(kernel), _power(reach)
    assert sort is not None
    threads = min(WARP, max(LEAST_THREADS, size // max(NETWORK_ITEMS, width)))
    size = max(size, threads * _power(width))
    vectors = -(-reach // (threads * width))
    reason = f"{columns} columns are sorted by a network of {size} entries in the registers of {threads} threads"
    rank = SortMethod("network", -(-(sort.count or reach) // threads), size)
    rows = WARPS * WARP // threads
    return _with_registers(
        kernel, hardware, reason, SortSchedule(width, vectors, 0, threads, rows, 1, sort_method=rank)
    )


def _digit_threads(kernel: KernelIR, reach: int, width: int) -> int:
    """Threads of a block that sorts a row by digits."""
    return max(WARP, min(MOST_DIGIT_THREADS, _power(-(-reach // max(_digit_items(kernel), width)))))


def _digit_items(kernel: KernelIR) -> int:
    return DIGIT_ITEMS // 2 if any(key.dtype.bits == 64 for key in _lifted(kernel)) else DIGIT_ITEMS


def _longest(kernel: KernelIR, width: int, hardware: Hardware) -> int:
    """The longest row that a block can hold and sort."""
    sort = sort_of(kernel)
    assert sort is not None
    wide = sort.key.dtype.bits == 64
    for reach in reversed(LONGER):
        threads = _digit_threads(kernel, reach, width)
        items = max(_digit_items(kernel), width)
        room = block_radix_bytes(reach, threads, wide, sort.has_positions) + RESERVED
        if reach <= 2 * threads * items and room <= hardware.block_shared:
            return reach
    return 0


def _chosen(
    kernel: KernelIR, extents: tuple[int, ...], width: int, count: int, slots: int, hardware: Hardware
) -> SortSchedule:
    rows, columns, keep = prod(extents[: kernel.row_axes]), extents[-1], _power(count)
    threads = FEW_ROWS_BLOCK if rows < hardware.multiprocessors and columns >= FEW_ROWS_BLOCK * TILE else TOPK_BLOCK
    while threads > WARP and threads <= TOPK_BLOCK and rows * threads // 2 >= hardware.multiprocessors * BUSY:
        threads //= 2
    threads = max(WARP, threads * slots * 8 // ENTRIES_BYTES)
    vectors = max(1, (TILE if threads > WARP else LONG_TILE) // width)
    slots = min(slots, max(4 * keep, 2 * _power(threads * vectors * width)))
    limit = slots // 4
    reason = (
        f"the best {count} of {columns} columns are gathered by {threads} threads, "
        f"a tile of {threads * width * vectors} at a time"
    )
    rank = SortMethod("choose", -(-count // threads), slots, keep, limit)
    return _with_registers(kernel, hardware, reason, SortSchedule(width, vectors, 0, threads, 1, 1, sort_method=rank))


def _merged(kernel: KernelIR, columns: int, width: int, slots: int, hardware: Hardware) -> SortSchedule:
    threads = min(BLOCK, slots // max(TILE, width))
    sort = sort_of(kernel)
    held = sort is not None and sort.count is not None and sort.count <= slots
    each = -(-sort.count // threads) if held and sort is not None and sort.count is not None else 0
    reason = f"{columns} columns are sorted in runs of {slots}, which {threads} threads merge in global memory"
    rank = SortMethod("merge", each, slots)
    vectors = slots // (threads * width)
    return _with_registers(kernel, hardware, reason, SortSchedule(width, vectors, 0, threads, 1, 1, sort_method=rank))


def runs(columns: int, width: int, size: int) -> int:
    """Runs of a row, which may begin up to a vector before it."""
    return -(-(columns + width - 1) // size)
