"""Row-and-column schedule: rows and columns reduced from one read; column states stay in registers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod

from ....hardware import Hardware, registers_for
from ....ir.types import DType
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.launch_config import LaunchConfig
from ....kernel_ir.liveness import register_count
from ....kernel_ir.memory_access import ACCESS_BYTES, vector_width
from ....kernel_ir.register_pressure import predicted_registers
from ..schedule_base import Extents, Schedule
from ..split_heuristics import exchange_count

WARP = 32
ADDRESSING = 16  # registers beside those that hold elements, at least
WORK_WORDS = 1.5  # registers an element while a row is worked on
STATE_WORDS = 32  # registers a thread that keep states, if the row is long enough
FINISHING = 128  # registers that a thread may take where columns come to their results, whatever rows take
GROUP_THREADS = 512  # most threads of a row: larger groups leave a thread too few registers
BLOCK, BUSY_BLOCK = 512, 768  # threads of a block that are enough: of rows that are folded once or twice, or more often
NAMED_BARRIERS = 15  # of a block, beside the one of all its threads
IN_FLIGHT = 64 << 10  # bytes of loads that an SM should have in flight
STAGES = 8  # rows of a group in shared memory, at most
RESERVED = 1 << 10  # bytes of a block's shared memory that the system takes
LINE = 32  # columns of a strip, and what lines of states are padded to
MOST_LOADS_IN_FLIGHT = 12  # loads of states that a warp has in flight, at most


@dataclass(frozen=True)
class RowColumnSchedule(Schedule):
    """Row-and-column reduction: `threads` threads per row, `row_groups` rows at a time in a block, one block per SM.

    Every group loops over rows; a thread holds the states of its columns until the end.
    """

    width: int
    vectors: int
    full_vectors: int  # leading vectors that are always in bounds
    threads: int
    row_groups: int
    prefetched: tuple[int, ...]  # operands copied to shared memory `stages` rows ahead
    hoisted: tuple[int, ...]  # operands that are the same in all rows, loaded once
    stages: int
    loads_in_flight: int  # of a warp that combines the states of blocks
    multiprocessors: int = field(default=0, compare=False)
    blocks = 1

    @property
    def block_threads(self) -> int:
        return self.threads * self.row_groups

    @property
    def vector_stride(self) -> int:
        """Elements between one vector of a thread and its next."""
        return self.width * self.threads

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        blocks = max(1, min(self.multiprocessors, prod(extents[: kernel.row_axes])))
        shared, workspace = row_column_smem_bytes(self, kernel), row_column_workspace_bytes(kernel, blocks, extents[-1])
        return LaunchConfig(blocks, self.block_threads, shared, cooperative=True, workspace=workspace, semaphores=2)

    def lower_pressure(self, kernel: KernelIR) -> Iterator[tuple[KernelIR, Schedule]]:
        if self.hoisted:
            yield kernel, replace(self, hoisted=())


def schedule_rows_and_columns(
    kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware
) -> RowColumnSchedule | None:
    """How a kernel that folds rows and columns runs; None where two kernels have to do it.

    That is where columns are no one line of neighbours, where there is nothing to fold, and where a row's states do
    not stay in the registers of one SM beside the row.

    Measured on an H200 (layer-norm backward, bfloat16, 8192 × 4096, a copy of the same bytes 51 µs): 16 elements a
    thread take 63 µs, 32 take 71, 8 (a single group on an SM) take 93; two rows at a time in a group take 66;
    more than 64 KiB of loads in flight gain nothing. About 8 µs are the waiting of all blocks for the last one and
    what comes after it, whatever the number of rows. The rest is instructions, 42 an element: where phases of several
    rows shared one barrier, 4096 × 8192 took 80 instead of 82 µs, and shorter rows 3-5 % longer.
    """
    if 0 in extents or not _in_lines(kernel):
        return None
    columns, rows = extents[-1], prod(extents[: kernel.row_axes])
    per_element = register_count(value.dtype for use in kernel.column_reductions for value in use.accumulators)
    width = _width(kernel, columns)
    threads, vectors = _shape(columns, width, max(per_element, 2))
    prefetched = _prefetched(kernel, width, hardware)
    row_invariant = tuple(k for k in range(kernel.inputs) if _same_in_all_rows(kernel, k))
    packed = width > 1
    load = [kernel.operands[k].dtype for k in _varying(kernel) if k not in prefetched]
    own = register_count(_computed(kernel)) + 2 * register_count(load, packed)
    fixed = register_count((kernel.operands[k].dtype for k in row_invariant), packed)
    per_element += own + WORK_WORDS
    registers_needed = round(ADDRESSING + (per_element + fixed) * width * vectors)
    if row_invariant and registers_needed > registers_for(hardware, 1, threads):
        row_invariant, registers_needed = (), round(ADDRESSING + per_element * width * vectors)
    whole = columns // (width * threads) if columns % width == 0 else 0
    row = sum(_line(kernel.operands[k].dtype, width, vectors, threads) for k in prefetched)
    for groups in range(_row_groups(hardware, registers_needed, threads, exchange_count(kernel), width), 0, -1):
        stages = min(STAGES, max(2, 1 + -(-IN_FLIGHT // (row * groups)))) if prefetched else 1
        at_once = min(MOST_LOADS_IN_FLIGHT, -(-min(hardware.multiprocessors, rows) * WARP // (threads * groups)))
        schedule = RowColumnSchedule(width, vectors, whole, threads, groups, prefetched, row_invariant, stages, at_once)
        while schedule.stages > 2 and not _fits(schedule, kernel, hardware):
            schedule = replace(schedule, stages=schedule.stages - 1)
        if _fits(schedule, kernel, hardware):
            most = registers_for(hardware, 1, schedule.block_threads)
            registers = max(
                predicted_registers(kernel, hardware, registers_needed, 1, schedule.block_threads), min(most, FINISHING)
            )
            reason = (
                f"{threads} threads to a row of {columns} keep its columns' states in registers, {vectors} vectors of "
                f"{width} each; {groups} row groups on each of {hardware.multiprocessors} SMs loop over the rows, "
                f"{schedule.stages} rows deep, and their states are merged at the end; at most {registers} registers"
            )
            return replace(schedule, multiprocessors=hardware.multiprocessors, reason=reason, registers=registers)
    return None


def _shape(columns: int, width: int, words_each: float) -> tuple[int, int]:
    """(threads of a row, vectors of each): as many as keep so many words a column, and no more than have work."""
    threads = min(GROUP_THREADS, -(-columns * words_each // (STATE_WORDS * WARP)) * WARP)
    vectors = -(-columns // (width * int(threads)))
    return -(-columns // (width * vectors * WARP)) * WARP, vectors


def _fits(schedule: RowColumnSchedule, kernel: KernelIR, hardware: Hardware) -> bool:
    """Whether a block's shared memory holds what the schedule keeps there."""
    return row_column_smem_bytes(schedule, kernel) + _joined_bytes(schedule, kernel) <= hardware.block_shared - RESERVED


def _joined_bytes(schedule: RowColumnSchedule, kernel: KernelIR) -> int:
    """Static shared memory in which the warps of a group join the folds of a row, two rows in turn."""
    states = sum(value.dtype.itemsize for phase in kernel.phases for use in phase.folds for value in use.accumulators)
    return 2 * schedule.block_threads // WARP * states if schedule.threads > WARP else 0


def _in_lines(kernel: KernelIR) -> bool:
    """One column axis, along which every array that has rows and columns is contiguous."""
    return kernel.column_axes == 1 and all(kernel.operands[k].strides[-1] == "1" for k in _both_ways(kernel))


def _both_ways(kernel: KernelIR) -> list[int]:
    """The operands with an element for each row and column."""
    rows = kernel.row_operands
    return [k for k, o in enumerate(kernel.operands) if k not in rows and set(o.strides[: kernel.row_axes]) != {"0"}]


def _varying(kernel: KernelIR) -> list[int]:
    return [k for k in _both_ways(kernel) if k < kernel.inputs]


def _same_in_all_rows(kernel: KernelIR, k: int) -> bool:
    """Whether an input has an element for each column, the same in all rows, that the rows' phases read."""
    names = {x.value.name for x in kernel.loads if x.operand == k}
    read = any(value.name in names for phase in kernel.phases for value in phase.element.args)
    return read and k not in kernel.row_operands and k not in _both_ways(kernel)


def _width(kernel: KernelIR, columns: int) -> int:
    """Elements of a vector: 16 bytes where all rows begin at multiples of that, less where a warp would be idle."""
    full = [kernel.operands[k] for k in _both_ways(kernel)]
    if not full or any(operand.access != "vector" for operand in full):
        return 1
    width = vector_width([o.dtype for o in full], [o.strides for o in full])
    while width > 1 and columns <= width // 2 * WARP:
        width //= 2
    return width


def _computed(kernel: KernelIR) -> list[DType]:
    """Types of the element values that one phase computes and a later one reads."""
    results = {value.name: value.dtype for phase in kernel.phases for value in phase.element.results}
    read = {value.name for phase in kernel.phases for value in phase.element.args}
    loaded = {x.value.name for x in kernel.loads}
    return [dtype for name, dtype in results.items() if name in read and name not in loaded]


def _prefetched(kernel: KernelIR, width: int, hardware: Hardware) -> tuple[int, ...]:
    """The operands whose vectors an asynchronous copy can take: of 4, 8 or 16 bytes, from sm_80 on."""
    if hardware.cc < (8, 0):
        return ()
    return tuple(k for k in _varying(kernel) if kernel.operands[k].dtype.itemsize * width in (4, 8, ACCESS_BYTES))


def _line(dtype: DType, width: int, vectors: int, threads: int) -> int:
    """Bytes of shared memory for a row of one operand."""
    return dtype.itemsize * width * vectors * threads


def _row_groups(hardware: Hardware, registers_needed: int, threads: int, folds: int, width: int) -> int:
    """Teams of a block that has an SM for itself; 0 where a single one takes more registers than there are.

    A second one works while the first waits for its folds, where there is much work for the bytes. Measured on an
    H200, bfloat16: with two folds a row after each other (RMS-norm backward) 512 threads are better than 768 by 2-7 %,
    with three (layer-norm backward) 768 are better than 512 by 7-12 %.
    """
    busy = folds > 2
    most = max(2 if busy or width > 4 else 1, (BUSY_BLOCK if busy else BLOCK) // threads)
    if threads > WARP:
        most = min(most, NAMED_BARRIERS)
    fits = (n for n in range(most, 0, -1) if threads * n <= hardware.block_threads)
    return next((n for n in fits if registers_for(hardware, 1, threads * n) >= registers_needed), 0)


def padded_columns(columns: int) -> int:
    """Columns of a line of states."""
    return -(-columns // LINE) * LINE


def state_layout(kernel: KernelIR) -> tuple[tuple[str, DType], ...]:
    """The parts of all states over rows as they stand in the workspace, by name: widest first, so that each begins at a
    multiple of its size."""
    parts = [(value.name, value.dtype) for use in kernel.column_reductions for value in use.accumulators]
    return tuple(sorted(parts, key=lambda part: -part[1].itemsize))


def row_column_workspace_bytes(kernel: KernelIR, blocks: int, columns: int) -> int:
    """Bytes of what blocks leave for each other: a line of states each."""
    return blocks * padded_columns(columns) * sum(dtype.itemsize for _, dtype in state_layout(kernel))


def row_column_smem_bytes(schedule: RowColumnSchedule, kernel: KernelIR) -> int:
    """Bytes of dynamic shared memory: rows ahead, later the states of the block's groups, then those of its threads."""
    rings = smem_row_layout(schedule, kernel)[1] * schedule.stages
    states = [sum(value.dtype.itemsize for value in use.accumulators) for use in kernel.column_reductions]
    groups = (schedule.row_groups - 1) * schedule.threads * schedule.vectors * schedule.width * max(states)
    return max(rings, groups, schedule.block_threads * sum(states))


def smem_row_layout(schedule: RowColumnSchedule, kernel: KernelIR) -> tuple[list[int], int]:
    """Where each operand begins in a row of every group that is ahead, and the size of such rows."""
    begins, end = [], 0
    for k in schedule.prefetched:
        begins.append(end)
        line = _line(kernel.operands[k].dtype, schedule.width, schedule.vectors, schedule.threads)
        end += line * schedule.row_groups
    return begins, end
