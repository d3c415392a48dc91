"""Cooperative schedule: several blocks loop over one row and exchange partial reductions. For few or very long rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from ....hardware import Hardware, blocks_for, registers_for
from ....kernel_ir.instruction_cost import special_functions
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.launch_config import LaunchConfig
from ....kernel_ir.register_pressure import Tiling, folding_registers, predicted_registers
from ..schedule_base import Extents
from ..split_heuristics import choose_blocks_per_row, exchange_count, has_no_pass_after_reduction, row_length
from .looped import schedule_looped
from .schedule import RowSchedule, contiguous, row_width

THREADS = 512  # threads of a block
BLOCKS = 2  # blocks on an SM
PREFETCHING = (256, 3)  # (threads, blocks) for rows with special functions: the next tile is loaded meanwhile
SMALLER = (256, 3)  # (threads, blocks) for rows that are read twice, if registers do not suffice for THREADS and BLOCKS
SPARE_REGISTERS = 3  # registers of a thread beyond its need: after a spill resident blocks cannot be reduced
WIDE_REGISTERS = 16  # registers that offsets of 64 bits add
IN_FLIGHT = 64  # bytes of loads that a thread should have in flight
MOST_ELEMENTS = 32  # elements of a thread at most, to have IN_FLIGHT bytes; of one-byte elements as many as needed
GRID_SYNC_SECONDS = 8e-6  # seconds of a row for its grid barriers, beside its bytes
BUSY = 0.6  # share of the SMs that takes the whole bandwidth
FULL = 0.9  # share of the blocks that fit which takes the whole bandwidth if blocks wait for each other
FIXED_BLOCKS = (3, 6, 12, 24)  # blocks that share a row in persistent kernels: each number is a binary of its own
LEAST_MOVED = 16 << 20  # bytes of a row from which on persistent block groups may take it
ROUND_SECONDS = 10e-6  # seconds of a turn of all block groups, beside its bytes
ALIGNMENT = 8  # bytes, of each part of a state in a record


@dataclass(frozen=True)
class CooperativeSchedule(RowSchedule):
    """Cooperative reduction: `threads` threads of each of `blocks_per_row` blocks loop over a row.

    Every block stores its partial states in the workspace. Without `grid_sync`, the last block to arrive finishes a
    row. With it, all blocks are resident at once and pass a grid barrier after each reduction.
    """

    grid_sync: bool = False  # all blocks are resident and pass grid barriers; else the last one finishes the row
    # measured: H200, log-sum-exp of 100,000,000 bfloat16: 0.97 of read speed with prefetch, 0.93 without; no
    # difference with less work per element
    prefetch: bool = False  # a thread loads its next tile while it computes one
    fixed_blocks: int = 0  # compiled blocks per row, if groups of blocks loop over rows
    row_groups: int = field(default=0, compare=False)  # groups that loop over rows; 0: one per row
    blocks_per_row: int = field(default=1, compare=False)

    @property
    def elements_in_flight(self) -> int:
        return 0

    def holds_tables(self, kernel: KernelIR) -> bool:
        return True

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        rows = prod(extents[: kernel.row_axes])
        groups, workspace = self.row_groups or rows, workspace_bytes(self, kernel, rows)
        blocks, semaphores = groups * self.blocks_per_row, 2 * groups if self.grid_sync else groups
        launch = LaunchConfig(blocks, self.block_threads, cooperative=self.grid_sync, workspace=workspace)
        return replace(launch, semaphores=semaphores, grid_multiple=self.fixed_blocks or rows)


def schedule_cooperative(kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware) -> CooperativeSchedule | None:
    """The schedule of a kernel that is not `resident`; None if a block for each row is faster."""
    rows, columns = prod(extents[: kernel.row_axes]), row_length(kernel, extents)
    width = row_width(kernel)
    full = [k for k in kernel.element_operands if "0" not in kernel.operands[k].strides[kernel.row_axes :]]
    spare = SPARE_REGISTERS + (WIDE_REGISTERS if kernel.index64 else 0)
    together = not has_no_pass_after_reduction(kernel)
    expensive = any(special_functions(part.element.instructions) for phase in kernel.phases for part in phase.passes)
    ahead = not together and expensive and sum(k < kernel.inputs for k in full) == 1
    bytewise = bool(full) and not ahead and all(kernel.operands[k].dtype.itemsize == 1 for k in full)
    most = IN_FLIGHT if bytewise else MOST_ELEMENTS
    vectors = max(1, min(IN_FLIGHT // (_least_read(kernel, full) * width), most // width))
    moved = columns * sum(kernel.operands[k].dtype.itemsize for k in kernel.element_operands)
    in_turn = together and not _pays(rows, moved, hardware)
    if in_turn and (contiguous(kernel) or moved < LEAST_MOVED):  # rows that stay on the chip, as a rule, or too short
        return None
    threads, blocks = PREFETCHING if ahead else (THREADS, BLOCKS)
    need = folding_registers(kernel, Tiling(width, vectors, prefetch=ahead)) + spare
    if in_turn and registers_for(hardware, BLOCKS, THREADS) < need <= registers_for(hardware, SMALLER[1], SMALLER[0]):
        threads, blocks = SMALLER
    room = registers_for(hardware, blocks, threads)
    while vectors > 1 and folding_registers(kernel, Tiling(width, vectors, prefetch=ahead)) + spare > room:
        vectors //= 2
    steps = -(-columns // (width * vectors * threads))
    need = folding_registers(kernel, Tiling(width, vectors, prefetch=ahead)) + spare
    blocks = min(blocks, blocks_for(hardware, need, threads))
    registers = predicted_registers(kernel, hardware, need, blocks, threads)
    slots = hardware.multiprocessors * blocks
    row_groups = fixed = 0
    if in_turn:
        alone = hardware.multiprocessors * schedule_looped(kernel, extents, hardware).blocks
        parts = fixed = _in_turn(rows, moved, alone, slots, steps, hardware)
        row_groups = -(-rows // -(-rows // (slots // fixed))) if fixed else 0
        waiting = f"with a grid barrier after each reduction; {row_groups} rows at a time, as many in each turn"
    elif together:
        parts, waiting = min(slots // rows, steps), "with a grid barrier after each reduction"
    else:
        parts, waiting = choose_blocks_per_row(rows, steps, slots), "and the last one combines their states"
    if parts <= 1:
        return None
    reason = (
        f"rows of {columns} are streamed by several blocks of {threads} threads, {vectors} vectors of {width} a thread "
        f"in flight; {parts} blocks share a row, {waiting}"
    )
    schedule = CooperativeSchedule(width, vectors, 0, threads, 1, blocks, together, ahead, fixed, row_groups, parts)
    return replace(schedule, reason=reason, registers=registers)


def _least_read(kernel: KernelIR, full: list[int]) -> int:
    """Bytes of loads per element in the phase that loads fewest: it too needs enough bytes in flight."""
    sizes = []
    for phase in kernel.phases:
        read = {value.name for part in phase.passes for value in part.reads}
        loads = {x.operand for x in kernel.loads if x.value.name in read and x.operand in full}
        sizes.append(sum(kernel.operands[k].dtype.itemsize for k in loads))
    return min((size for size in sizes if size), default=1)


def record_bytes(kernel: KernelIR) -> int:
    """Bytes of the record that a block stores for the others after a phase."""
    return max(ALIGNMENT * sum(len(use.accumulators) for use in phase.folds) for phase in kernel.phases)


def workspace_bytes(schedule: CooperativeSchedule, kernel: KernelIR, rows: int) -> int:
    """Bytes of the records of all blocks, rows and phases with reductions: no record is written twice."""
    return exchange_count(kernel) * rows * schedule.blocks_per_row * record_bytes(kernel)


def _in_turn(rows: int, moved: int, alone: int, slots: int, most: int, hardware: Hardware) -> int:
    """Blocks of the fastest block groups that loop over rows, at most `most`; 0 if a block for each row is faster.

    With a block for each row, `alone` rows run at once, and the last wave may leave much of the machine idle. Block
    groups have equally many rows, and work on few at once: the ends of these are still in the L2 when they are read
    again. (measured: H200, 896 rows of 2,097,152 float32, read twice: a block a row 6.03 ms, 660 of them at once;
    groups of 3, 6, 12 and 24 blocks 5.51, 5.44, 5.36 and 5.36 ms; of 99, which the L2 holds, 6.15 ms.)
    """
    seconds = 1.5 * moved / hardware.bandwidth
    waves, rest = divmod(rows, alone)
    if not waves:
        return 0
    best, least = 0, (waves + (max(rest / alone, BUSY) if rest else 0)) * alone * seconds
    for parts in FIXED_BLOCKS:
        if parts > min(most, slots):
            break
        turns = -(-rows // (slots // parts))
        groups = -(-rows // turns)
        again = 1 - min(1.0, 2 * hardware.l2 / (groups * moved)) / 3  # of what is moved: two reads and a write
        time = turns * (groups * seconds * again / min(1.0, groups * parts / slots / FULL) + ROUND_SECONDS)
        if time < least:
            best, least = parts, time
    return best


def _pays(rows: int, moved: int, hardware: Hardware) -> bool:
    """Whether block groups are faster than a block for each row, where few blocks do not take the whole bandwidth.

    Measured on an H200 (float32 softmax, 264 rows of 600,000: groups 988 us, a block a row 470 us; batch norm, 64 rows
    of 16,777,216: groups at 0.97 of copy speed).
    """
    share = min(1.0, rows / (BUSY * hardware.multiprocessors))
    return rows * 1.5 * moved / hardware.bandwidth * (1 / share - 1) > GRID_SYNC_SECONDS
