"""Schedules of pairs: threads hold several rows each, and all of them read the same columns."""

from __future__ import annotations

from dataclasses import replace

from ....hardware import Hardware, blocks_for, registers_for
from ....ir.ops import OPS
from ....kernel_ir.instruction_cost import instruction_cost
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.liveness import register_count
from ..split_heuristics import choose_blocks_per_row, fold_bytes, has_no_pass_after_reduction, row_length, state_words
from .layout import LoopedColumnSchedule, strips_of_lanes, vectors_of_row

WARP, BLOCK = 32, 128  # threads of a warp, of a block
SHARED = 36 << 10  # bytes of states that a block's threads exchange
WIDTHS = (8, 4, 2, 1)  # rows of a thread
MOST_REGISTERS = 232  # registers per thread: two blocks per SM, each of which hides the other's loads
BASE = 24  # registers for addresses and counters
TEMPORARIES = 3  # registers of each row while a pair is computed
LEAST_ITERATIONS = 8  # of a block that shares a strip: fewer do not pay for the combination of partial states
ELEMENTS = 16  # most pairs of a thread in an iteration
CODE = 1200  # instructions of costly functions in an iteration: ptxas takes seconds for more, and caches hold no more


def pair_width(kernel: KernelIR, rows: int) -> int:
    """Rows of a thread: as many as its registers hold, if there are enough for the threads of a warp."""
    most = most_pairs(kernel)
    width = next((w for w in WIDTHS if w <= most and pair_registers(kernel, w, 1) <= MOST_REGISTERS), 1)
    while width > 1 and rows < WARP * width:
        width //= 2
    return width


def most_pairs(kernel: KernelIR) -> int:
    """Pairs that a thread computes in an iteration, at most: each is code of its own, with its costly functions."""
    phases = [part for phase in kernel.phases for part in (phase, *phase.tile_phases)]
    codes = [i for phase in phases if phase.element for i in phase.element.instructions if i.op in OPS]
    costly = sum(instruction_cost(i) for i in codes if OPS[i.op].special)
    count = max(1, min(ELEMENTS, CODE // max(1, costly)))
    return 1 << count.bit_length() - 1


def pair_registers(kernel: KernelIR, width: int, vectors: int) -> int:
    """Registers of a thread with so many rows that reads so many columns at once."""
    read = {value.name for phase in kernel.phases for part in phase.passes for value in part.reads}
    loads = [load for load in kernel.loads if load.value.name in read]
    rows, columns = (
        register_count(load.value.dtype for load in loads if (load.operand in kernel.row_operands) is held)
        for held in (True, False)
    )
    rows += register_count(p.value.dtype for p in kernel.positions if p.axis < kernel.row_axes)
    tile = 2 if any(phase.tile_phases for phase in kernel.phases) else 1  # the states of a tile beside those so far
    return BASE + round(width * (rows + tile * state_words(kernel.phases) + TEMPORARIES) + vectors * columns)


def schedule_pairs(
    kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware, dynamic_block: bool = True
) -> LoopedColumnSchedule:
    """Loops of threads with several rows each over the columns; blocks share the columns of a strip if rows are few.

    An element of a column is read once for all rows of a thread, and the lanes of a warp read the same ones. Unless
    `dynamic_block`, lanes and levels are compiled.
    """
    width, columns, alone = kernel.row_vector_width, row_length(kernel, extents), has_no_pass_after_reduction(kernel)
    vectors = max(1, most_pairs(kernel) // width)
    while vectors > 1 and (pair_registers(kernel, width, vectors) > MOST_REGISTERS or vectors > columns):
        vectors //= 2
    threads = BLOCK
    while threads > WARP and threads * width * fold_bytes(kernel) > SHARED:
        threads //= 2
    lanes = threads
    while lanes > 1 and lanes >= 2 * vectors_of_row(kernel, extents):
        lanes //= 2
    levels, max_threads = threads // lanes, threads if dynamic_block and alone else 0
    need = pair_registers(kernel, width, vectors)
    blocks = max(1, blocks_for(hardware, need, threads))
    count, slots = strips_of_lanes(kernel, extents, lanes), hardware.multiprocessors * blocks
    steps = -(-columns // (levels * vectors * LEAST_ITERATIONS))
    parts = choose_blocks_per_row(count, steps, slots) if alone else max(1, min(slots // count, steps))
    how = "the last one finishes it" if alone else "they wait for each other after each fold"
    shared = f"; {parts} blocks share the columns of {lanes * width} rows, {how}" if parts > 1 else ""
    reason = f"pairs: {lanes} threads hold {width} rows each, and read {vectors} of {columns} columns at a time{shared}"
    split = parts > 1 or max_threads > 0
    together = parts > 1 and not alone
    schedule = LoopedColumnSchedule(width, vectors, 0, lanes, levels, blocks, split, together, parts, max_threads)
    return replace(schedule, reason=reason, registers=registers_for(hardware, blocks, threads))
