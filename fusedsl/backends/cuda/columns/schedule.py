"""Column schedule: vectors along the last row axis across threads, threads_y along the reduced axes."""

from __future__ import annotations

from dataclasses import replace

from ....hardware import Hardware, blocks_for, registers_for
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.liveness import live_between_phases, register_count
from ....kernel_ir.memory_access import ACCESS_BYTES
from ....kernel_ir.register_pressure import Tiling, folding_registers, predicted_registers, required_registers
from ..split_heuristics import (
    BLOCK_OVERHEAD,
    choose_blocks_per_row,
    fold_bytes,
    has_no_pass_after_reduction,
    row_length,
    state_words,
)
from .layout import ColumnSchedule, LoopedColumnSchedule, strip_count, strips_of_lanes, vectors_of_row
from .pairs import schedule_pairs

WARP = 32
BLOCK = 256  # threads of a block
MOST_THREADS = 1024  # threads of a block that holds a long strip in registers
SECTOR_BYTES, LINE_BYTES = 32, 128  # granularity of DRAM and L2: lanes that do not fill it waste bandwidth
SEGMENT_BYTES, NARROW_SEGMENT_BYTES = 256, 1024  # width of a strip: for vectors of 16 bytes, for smaller ones
MERGED, LONG_PARTS = 100, 32  # blocks per strip, and iterations of each, from which on half as many blocks are used
# measured: H100, sums and extrema of 4096 x 14336 bfloat16 and 4096 x 8192 float32, and a row by such a matrix: 7 %
# less time by one block for each of 112 or 128 strips than by two or three
FEW_PARTS = 4  # blocks of a strip that one replaces, at most
LONG_ITERATIONS = 8  # of the loop of such a block, at least
UNROLL_ALONE = 4  # times as many bytes in flight as others has such a block
BUSY = 0.8  # of all SMs have a strip then, at least
MANY_PARTS = 160  # most blocks per strip; more strips, which are narrower, need fewer
STATE_BUDGET = 160  # most states times vectors of a looping thread
SYSTEM_SHARED = 1 << 10  # bytes of shared memory that the system takes of each block
HELD_AIM = 32  # registers per thread for elements of the strip: the aim
HELD_WORDS = {256: 64, 512: 64, 1024: 32}  # registers per thread for elements of the strip: the limit, by block size
IN_FLIGHT, MOST_VECTORS = 64, 16  # bytes of loads that a looping thread has in flight, and most vectors for them
SHIFTED, SHIFTED_BLOCKS = (128, 16), 2  # the same two for shifted vectors, and most blocks per multiprocessor
NARROW_SUMS, NARROW = (48, 16), (128, 32)  # the same two for vectors below 16 bytes: of sums, of other folds
STATES = 3  # states of several words that are live at once: the accumulator, a tile's state, their combination
ADDRESS_WORDS = 2  # further registers per vector if offsets have 64 bits
SHARED = 48 << 10  # bytes of static shared memory of a block
MANY = 1 << 15  # elements along an axis: more than any strip or tile has
HELD_CLASSES = (1, 2, 4, 8, 16, 32, 64)


def schedule_columns(
    kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware, dynamic_block: bool = True
) -> ColumnSchedule:
    """The schedule of a column reduction: resident if its tiles fit registers and the kernel allows it, else looped.

    Unless `dynamic_block`, lanes and levels are compiled.
    """
    if kernel.is_pairwise:
        return schedule_pairs(kernel, extents, hardware, dynamic_block)
    if not has_no_pass_after_reduction(kernel):
        resident = _resident(kernel, extents, hardware) if kernel.resident else None
        return resident or _looped(kernel, extents, hardware, 0)
    return _without_second_pass(kernel, extents, hardware, dynamic_block, 2)


def _without_second_pass(
    kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware, dynamic_block: bool, max_unroll: int
) -> LoopedColumnSchedule:
    """A loop over strips whose folds are all there is; of long ones up to `max_unroll` times as much is in flight."""
    max_threads = BLOCK
    while max_threads > WARP and not _fits_shared(kernel, max_threads):
        max_threads //= 2
    return _looped(kernel, extents, hardware, max_threads if dynamic_block else 0, max_unroll)


def schedule_dynamic_columns(
    kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware, listed: bool = False
) -> LoopedColumnSchedule:
    """How a kernel that is not `resident` runs, in few forms for all extents: strips that are looped over.

    Where it is `listed` and they are not long, no blocks share a strip.
    """
    if kernel.is_pairwise:
        return schedule_pairs(kernel, extents, hardware, not listed)
    listed = listed and row_length(kernel, extents) < MANY
    if has_no_pass_after_reduction(kernel) and not listed:
        return _without_second_pass(kernel, extents, hardware, True, 1)
    looped = _looped(kernel, (MANY,) * len(extents), hardware, 0)
    count, steps = strip_count(looped, kernel, extents), -(-row_length(kernel, extents) // looped.tile_reduced)
    parts = 1 if listed else max(1, min(hardware.multiprocessors * looped.blocks // count, steps))
    reason = (
        f"column reduction of {row_length(kernel, extents)} rows: blocks of {looped.threads_x} × {looped.threads_y} "
        f"threads, vectors of {looped.width} columns, loop over them"
    )
    if parts > 1:
        reason += f"; {parts} blocks share a strip of columns, with a grid barrier after each reduction"
    return replace(looped, is_split=parts > 1, grid_sync=parts > 1, blocks_per_strip=parts, reason=reason)


def _lanes(kernel: KernelIR, extents: tuple[int, ...], max_lanes: int) -> int:
    """Threads side by side: no more than there are vectors, to the next power of two."""
    vectors, lanes = vectors_of_row(kernel, extents), 1
    while lanes < max_lanes and lanes < vectors:
        lanes *= 2
    return lanes


def _fits_shared(kernel: KernelIR, threads: int) -> bool:
    return threads * kernel.row_vector_width * fold_bytes(kernel) <= SHARED * 3 // 4  # and a quarter for what is merged


def _resident(kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware) -> ColumnSchedule | None:
    width, reduced = kernel.row_vector_width, row_length(kernel, extents)
    full = kernel.element_operands
    itemsize = min(kernel.operands[k].dtype.itemsize for k in full)
    per_element = max(
        register_count(live_between_phases(kernel), packed=width > 1),
        register_count([kernel.operands[full[0]].dtype], packed=width > 1),
    )
    levels = 1
    while levels < MOST_THREADS and -(-reduced // levels) * width * per_element > HELD_AIM:
        levels *= 2
    lanes = _lanes(kernel, extents, WARP)
    while lanes * levels > BLOCK and lanes * width * itemsize > LINE_BYTES:
        lanes //= 2
    while (
        lanes * width * itemsize > SECTOR_BYTES
        and -(-vectors_of_row(kernel, extents) // lanes) < hardware.multiprocessors
    ):
        lanes //= 2
    while lanes * levels > MOST_THREADS:
        levels //= 2
    while lanes * levels < WARP:  # a block is a warp at least
        lanes *= 2
    least = -(-reduced // levels)
    vectors = next((v for v in HELD_CLASSES if v >= least), least)
    limit = next(words for threads, words in HELD_WORDS.items() if lanes * levels <= threads)
    if vectors * width * per_element > limit or not _fits_shared(kernel, lanes * levels):
        return None
    whole = max((v for v in HELD_CLASSES if v < vectors and v * levels <= reduced), default=0)
    threads = lanes * levels
    need = required_registers(kernel, Tiling(width, vectors)) + state_words(kernel.phases) * width
    if need > registers_for(hardware, 1, threads):
        return None
    blocks = blocks_for(hardware, need, threads)
    registers = predicted_registers(kernel, hardware, need, blocks, threads)
    reason = (
        f"column reduction of {reduced} rows in registers: blocks of {lanes} × {levels} threads, {vectors} vectors of "
        f"{width} columns a thread, at most {registers} registers; reused for {whole * levels + 1} to "
        f"{vectors * levels} rows"
    )
    return ColumnSchedule(width, vectors, whole, lanes, levels, blocks, reason=reason, registers=registers)


def _looped(
    kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware, max_threads: int, max_unroll: int = 2
) -> LoopedColumnSchedule:
    """A loop over strips as wide as memory likes them; narrower where a block would have to merge what many left.

    Measured on an H200: strips of 256 bytes are 1-3 % faster than those of 512 where vectors have 16 bytes (sums of
    16384 × 16384), while narrower vectors, which no line of memory begins with, want 1024. Over the middle axis of
    128 × 4096 × 4095 float32, sums take 2.51 ms with 128 bytes and 2.19 with 1024, with 48 bytes a thread in flight
    2.02; max, which the compiler gives more registers, 2.13, with 128 bytes a thread 2.11; but argmin wants strips of
    256 bytes (2.04). One block merges 100 parts in 4 µs: of long ones half as many, with twice as much in flight, take
    0.4 to 2 % less (sums of 1,048,576 × 256 and 4,194,304 × 64).
    """
    width, reduced = kernel.row_vector_width, row_length(kernel, extents)
    size = width * min(_element_bytes(kernel), default=4)
    narrow = size < ACCESS_BYTES and state_words(kernel.phases) == 1
    segment = NARROW_SEGMENT_BYTES if narrow or kernel.shifted else SEGMENT_BYTES
    schedule = _loop_over(segment // size, kernel, extents, hardware, max_threads)
    while schedule.blocks_per_strip > MANY_PARTS and schedule.threads_x * size > LINE_BYTES:
        schedule = _loop_over(schedule.threads_x // 2, kernel, extents, hardware, max_threads)
    if (
        max_unroll > 1
        and schedule.blocks_per_strip >= MERGED
        and reduced >= LONG_PARTS * schedule.blocks_per_strip * schedule.tile_reduced
    ):
        deeper = _loop_over(schedule.threads_x, kernel, extents, hardware, max_threads, max_unroll)
        schedule = deeper if deeper.blocks_per_strip < schedule.blocks_per_strip else schedule
    if max_unroll > 1 and state_words(kernel.phases) == 1 and 1 < schedule.blocks_per_strip <= FEW_PARTS:
        alone = _loop_over(schedule.threads_x, kernel, extents, hardware, max_threads, UNROLL_ALONE)
        busy = strip_count(alone, kernel, extents) / hardware.multiprocessors
        long = reduced >= LONG_ITERATIONS * alone.tile_reduced
        schedule = alone if long and alone.blocks_per_strip == 1 and BUSY <= busy <= 1 else schedule
    return _widened(schedule, kernel, extents, hardware, max_threads)


def _widened(
    schedule: LoopedColumnSchedule, kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware, max_threads: int
) -> LoopedColumnSchedule:
    """Strips that no blocks share, as wide as makes the fewest iterations: then fewer levels join, or none.

    Measured on an H200, sums of 16-bit elements with levels 16, 8, 4, 2 and 1 deep: of 256 × 1,048,576 129, 128, 125,
    123 and 122 us, of 16 × 16,777,216 with 4, 2 and 1 155, 133 and 132 us; of float32 243.5 … 239.5 and 269 … 259 us.
    """
    if kernel.shifted or not has_no_pass_after_reduction(kernel):
        return schedule
    tried = [schedule]
    while tried[-1].blocks_per_strip == 1 and tried[-1].threads_y > 1:
        wider = _loop_over(2 * tried[-1].threads_x, kernel, extents, hardware, max_threads)
        if wider.threads_x == tried[-1].threads_x:
            break
        tried.append(wider)

    def iterations(strip: LoopedColumnSchedule) -> int:
        parts, slots = strip.blocks_per_strip, hardware.multiprocessors * strip.blocks
        waves = -(-strip_count(strip, kernel, extents) * parts // slots)
        return waves * (-(-row_length(kernel, extents) // (strip.tile_reduced * parts)) + BLOCK_OVERHEAD)

    return min((strip for strip in tried if strip.blocks_per_strip == 1), key=iterations, default=schedule)


def _element_bytes(kernel: KernelIR) -> list[int]:
    """Bytes of an element of each array that is read for each column, in vectors: not of a column's one element."""
    read = [kernel.operands[k] for k in kernel.element_operands if k < kernel.inputs]
    vectors = [operand for operand in read if operand.strides[kernel.vector_axis] != "0"]
    return [operand.dtype.itemsize for operand in vectors or read]


def _states_at_once(kernel: KernelIR) -> int:
    """States of each element that a thread holds beside those of the tile that it works on."""
    lasting = has_no_pass_after_reduction(kernel) and all(
        phase.reuses_reference or not phase.folds for phase in kernel.phases
    )
    return 1 if lasting or state_words(kernel.phases) == 1 else STATES


def _loop_over(
    max_lanes: int, kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware, max_threads: int, unroll: int = 1
) -> LoopedColumnSchedule:
    """A loop over strips of so many vectors at most, where there is enough to fold for all threads of a block.

    A thread has `unroll` times as many bytes in flight as others, and an SM as many.
    """
    width, reduced = kernel.row_vector_width, row_length(kernel, extents)
    vector_bytes = max(1, sum(_element_bytes(kernel))) * width
    states = state_words(kernel.phases) * width
    narrow = vector_bytes < ACCESS_BYTES and state_words(kernel.phases) == 1
    sums = all(use.name == "sum" for phase in kernel.phases for use in phase.folds)
    in_flight, most_vectors = (NARROW_SUMS if sums else NARROW) if narrow else (IN_FLIGHT, MOST_VECTORS)
    if kernel.shifted:
        in_flight, most_vectors = SHIFTED
    vectors = max(1, min(most_vectors, unroll * in_flight // vector_bytes, STATE_BUDGET // max(states, 1)))
    lanes, levels = _block(max_lanes, vectors, kernel, extents, max_threads or BLOCK)
    threads = max_threads or lanes * levels
    need = folding_registers(kernel, Tiling(width, vectors)) + states * _states_at_once(kernel)
    need += ADDRESS_WORDS * vectors if kernel.index64 and not (narrow and sums) else 0
    block_shared = threads * width * fold_bytes(kernel) * 4 // 3 + SYSTEM_SHARED
    fits = min(hardware.threads // (1 if narrow and sums else 2) // (unroll * threads), hardware.shared // block_shared)
    blocks = min(blocks_for(hardware, need, threads), max(1, fits))
    blocks = min(blocks, SHIFTED_BLOCKS) if kernel.shifted else blocks
    count = strips_of_lanes(kernel, extents, lanes)
    slots, alone = hardware.multiprocessors * blocks, has_no_pass_after_reduction(kernel)
    registers = predicted_registers(kernel, hardware, need, blocks, threads)
    steps = -(-reduced // (levels * vectors))
    parts = choose_blocks_per_row(count, steps, slots) if alone else max(1, min(slots // count, steps))
    how = "and the last one combines their states" if alone else "with a grid barrier after each reduction"
    shared = f"; {parts} blocks share a strip of columns, {how}" if parts > 1 else ""
    reason = (
        f"column reduction of {reduced} rows: blocks of {lanes} × {levels} threads, vectors of {width} columns, loop "
        f"over them, {vectors} a thread in flight ({vector_bytes * vectors} bytes){shared}"
    )
    split, together = parts > 1 or max_threads > 0, parts > 1 and not alone
    shape = LoopedColumnSchedule(width, vectors, 0, lanes, levels, blocks, split, together, parts, max_threads)
    return replace(shape, reason=reason, registers=registers)


def _block(max_lanes: int, vectors: int, kernel: KernelIR, extents: tuple[int, ...], block: int) -> tuple[int, int]:
    """Threads side by side and levels of them in a block of so many threads, each with so many vectors in flight."""
    least = kernel.row_vector_width if kernel.shifted else 1  # levels: columns so far apart begin alike
    lanes = _lanes(kernel, extents, min(max_lanes, block // least))
    levels = least
    while lanes * levels < block and levels * vectors < row_length(kernel, extents):
        levels *= 2
    while lanes * levels < block and lanes < vectors_of_row(kernel, extents):
        lanes *= 2
    while levels > least and not _fits_shared(kernel, lanes * levels):
        levels //= 2
    while lanes * levels < WARP:
        lanes *= 2
    return lanes, levels
