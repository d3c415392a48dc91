"""Looped schedule: every phase loops over the row. For rows that are too long, scattered, or read once."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ....hardware import Hardware, blocks_for, occupancy, registers_for
from ....kernel_ir.instruction_cost import special_functions
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.register_pressure import Tiling, predicted_registers, required_registers
from ..split_heuristics import has_no_pass_after_reduction
from .schedule import LOOP_BLOCK, WARP, LoopedRowSchedule, contiguous, needs_whole_block, row_width

LOOP_ELEMENTS = 8  # a thread's tile in a loop over single elements
STREAM_FROM = 12 << 10  # columns from which on rows that are read once are streamed, not resident
STREAM_ROWS = 4  # rows for each SM from which on they are streamed
MOST_REREADING = 512  # threads of a row that is read again
STREAMING, MOST_STREAMING = 768, 128  # threads of an SM that stream rows, and those of a row where there are many
FEWEST, FULLER = 0.75, 1.05  # of the blocks on an SM that stay, at least, where waves are so many times as full
TURNS = 8  # tiles of a row for each of its threads, at least
SHORT, MANY = 1 << 10, 1 << 20  # columns that a warp loops over, and a block, where lengths share what is compiled
LONG_TILE_NEED = 128  # registers, at most, with which a tile has 128 bytes


def schedule_looped(kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware) -> LoopedRowSchedule:
    columns, rows = prod(extents[kernel.row_axes :]), prod(extents[: kernel.row_axes])
    full = kernel.element_operands
    inner = full and all(kernel.operands[k].strides[-1] != "1" for k in full)
    if inner and rows >= WARP and not kernel.columns_nearer:
        width, threads, across = 1, _loop_threads(columns, 32), True
    else:
        width, across = row_width(kernel), False
        limit = MOST_STREAMING if has_no_pass_after_reduction(kernel) else MOST_REREADING
        threads = _team(columns, rows, width * _loop_vectors(kernel, width), limit, hardware)
    vectors = _loop_vectors(kernel, width)
    shared_rows = WARP if across else max(1, LOOP_BLOCK // threads) if threads <= WARP else 1
    need = required_registers(kernel, Tiling(width, vectors, prefetch=not across))
    while threads > WARP and (
        need > registers_for(hardware, 1, threads * shared_rows)
        or threads * blocks_for(hardware, need, threads) < threads // 2 * blocks_for(hardware, need, threads // 2)
    ):
        threads //= 2
    blocks = blocks_for(hardware, need, threads * shared_rows)
    most = blocks
    if not across and has_no_pass_after_reduction(kernel):
        blocks = _fuller(-(-rows // shared_rows), blocks, threads * shared_rows, hardware)
    registers = predicted_registers(kernel, hardware, need, blocks, threads * shared_rows)
    how = "neighbouring rows on neighbouring threads" if across else f"{threads} threads a row"
    if contiguous(kernel) and has_no_pass_after_reduction(kernel):
        reason = f"rows of {columns} are streamed once, {how}, with the next tile in flight"
        reason += f"; {blocks} blocks an SM rather than {most}: the last wave is fuller" if blocks < most else ""
    else:
        reason = f"{columns} columns do not stay in registers or are scattered: each phase loops over them, {how}"
    loop = LoopedRowSchedule(width, vectors, 0, threads, shared_rows, blocks, across)
    return replace(loop, reason=reason, registers=registers)


def _fuller(items: int, blocks: int, threads: int, hardware: Hardware) -> int:
    """Blocks on an SM, of so many `items`: fewer where that leaves the last wave fuller.

    Measured on an H200, cross-entropy of bfloat16: 1024 rows of 262,144 take 124 us with 4 blocks, 137 with 5; 2048 of
    131,072 124 and 132; 16,384 of 16,384 126 and 128; with 8 and 10 smaller blocks, 8192 of 32,768 127 and 129.
    """

    def fit(blocks: int) -> int:
        return occupancy(hardware, registers_for(hardware, blocks, threads), threads, 0).blocks

    def share(blocks: int) -> float:
        slots = hardware.multiprocessors * fit(blocks)
        return items / (-(-items // slots) * slots)

    least = next((b for b in range(blocks - 1, 0, -1) if fit(b) < fit(blocks)), blocks)
    return least if fit(least) >= FEWEST * fit(blocks) and share(least) > FULLER * share(blocks) else blocks


def generic_looped(
    kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware, warps: bool = True
) -> LoopedRowSchedule:
    """How a kernel that is not `resident` runs, in few forms for all extents: a block to a row, or a warp to a short
    one, where there are to be `warps`."""
    columns, rows = prod(extents[kernel.row_axes :]), prod(extents[: kernel.row_axes])
    like = SHORT if columns <= SHORT and rows > 1 and warps else MANY
    others = (1,) * (kernel.axes - 2)
    looped = schedule_looped(kernel, (MANY, *others, like), hardware)
    return replace(looped, reason=looped.reason.replace(f"{like} columns", f"{columns} columns"))


def prefers_looped(kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware) -> bool:
    """Whether a kernel that is not `resident` is better for these rows than one that is: it reads each element once as
    well, and its groups, which wait for nobody, are at different places of their rows.

    Measured on an H200 (cross-entropy in bfloat16): rows of 16,384 take 135 us instead of 170, rows of 8192 132 us
    instead of 130. Sums and variances, which take no special functions, are 2-4 % faster if they are held.
    """
    if not kernel.row_axes or kernel.row_vector_width or kernel.batch_invariant_width or extents[-1] < STREAM_FROM:
        return False
    many = prod(extents[: kernel.row_axes]) >= STREAM_ROWS * hardware.multiprocessors
    expensive = any(special_functions(part.element.instructions) for phase in kernel.phases for part in phase.passes)
    return (
        many
        and expensive
        and contiguous(kernel)
        and has_no_pass_after_reduction(kernel)
        and not needs_whole_block(kernel)
    )


def _loop_vectors(kernel: KernelIR, width: int) -> int:
    """Vectors of a tile: 64 bytes of loads a thread, and as many in flight, which keep an SM's memory busy; twice that
    of one 16-bit array, if there are registers for it (measured on an H200: 4 % for rows of 16,384)."""
    loads = len(kernel.element_loads)
    if width == 1:  # nearer columns: elements of one vector share lines, with those of other loads too
        return max(1, LOOP_ELEMENTS // max(1, loads)) if kernel.columns_nearer else LOOP_ELEMENTS
    if loads <= 1:
        long = width >= 8 and required_registers(kernel, Tiling(width, 8, prefetch=True)) <= LONG_TILE_NEED
        return 8 if long else 4
    return 2 if loads <= 3 else 1


def _team(columns: int, rows: int, tile: int, most: int, hardware: Hardware) -> int:
    """Threads that stream a row, `tile` elements of each at once; `most` for many rows. What is read again should be
    in few hands, so that part of it is still in L2.

    Many that read neighbouring places please the memory; few wait little for each other, and turn often (measured on
    an H200, bfloat16: rows of 16,384 take 136 us in warps, 138 in groups of 64, 144 of 128 and 182 of 256, which turn
    twice; two arrays of rows of 128,256 take 1037 us in warps and 960 in groups of 64; 4096 rows of 65,536 take 168 in
    warps, which come in little more than one wave, and 136 in groups of 128).
    """
    threads = 1
    while threads < WARP and columns > threads * tile:
        threads *= 2
    while threads >= WARP and threads < most and columns >= 2 * TURNS * threads * tile:
        threads *= 2
    resident = hardware.multiprocessors * STREAMING
    while threads >= WARP and threads < 1024 and rows * threads < 2 * resident and columns >= TURNS * threads * tile:
        threads *= 2
    return threads


def _loop_threads(pieces: int, most: int) -> int:
    threads = 1
    while threads < most and pieces >= 2 * LOOP_ELEMENTS * threads:
        threads *= 2
    return threads
