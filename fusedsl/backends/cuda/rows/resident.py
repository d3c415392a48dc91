"""Resident schedule: a row in the registers of 1 to 1024 threads of a block."""

from __future__ import annotations

from ....hardware import Hardware, blocks_for, registers_for
from ....kernel_ir.kernel import KernelIR
from .cluster import schedule_cluster
from .schedule import (
    LONG_ROW,
    ResidentRowSchedule,
    has_expensive_elements,
    has_expensive_row_body,
    late_tile_registers,
    needs_whole_block,
)
from .smem import COPY_FROM
from .tile_shape import RowProblem, tiled_schedule

HELD_WORDS = {256: 80, 512: 72, 1024: 36}  # registers a thread that may hold a row, for groups up to this size
MOST_NEEDED = 168  # registers a thread, by estimate, beyond which a row gets more threads
FULL_WORDS, PACKED_WORDS = 64, 40  # words of a thread before a larger group is tried; packed ones, unpacked beside
FETCHING = 64  # registers a thread, beyond which rows with gathers, which hold addresses too, get more threads
FEW_THREADS, CROWDED = 8, 80  # rows of fewer threads get more of them if each needs more registers than the second
STREAMS_MUCH = 4  # registers an element of what a phase streams, with which a row should not be alone on an SM


def schedule_resident(kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware) -> ResidentRowSchedule | None:
    """A row in the registers of a block, or of a cluster's blocks where an SM would hold but one row."""
    row, lonely, single = RowProblem(kernel, extents, hardware), needs_whole_block(kernel), None
    addresses = {x.value.name for x in kernel.pointers}
    fetching = any(v.name in addresses for phase in kernel.phases for v in phase.element.args)
    threads = _threads(row)
    while threads is not None:
        cap = FETCHING if fetching else CROWDED if threads < FEW_THREADS else MOST_NEEDED
        schedule, need = tiled_schedule(row, threads)
        room = registers_for(hardware, 1, schedule.block_threads)
        if need <= min(cap, room) or (schedule.vectors == 1 and need <= min(MOST_NEEDED, room)):
            if lonely or overlaps(kernel, row.columns, schedule, need, hardware):
                return schedule
            single = schedule if row.width < 8 else None
            break
        threads = threads * 2 if threads < hardware.block_threads else None
    return single if lonely or fetching else schedule_cluster(row) or single


def most_threads(kernel: KernelIR, width: int) -> int:
    """Threads of a row, beyond which waiting for each other costs more than larger tiles."""
    return 512 if width < 8 and late_tile_registers(kernel) < 4 else 256


def overlaps(kernel: KernelIR, columns: int, schedule: ResidentRowSchedule, need: int, hardware: Hardware) -> bool:
    """True if an SM loads one row while it computes another; if not, a cluster or shared memory makes that possible.

    measured: H200, rows of 64 KB, one at a time in the registers of an SM: 0.98 of copy speed in float32 (0.87 if two
    arrays are streamed beside it), 0.73 in bfloat16, whose computation takes twice as long.
    """
    if hardware.cc < COPY_FROM or columns <= LONG_ROW or blocks_for(hardware, need, schedule.block_threads) > 1:
        return True
    return schedule.width < 8 and late_tile_registers(kernel) < STREAMS_MUCH


def _threads(row: RowProblem) -> int | None:
    """Threads a row; None if its registers do not hold it.

    Measured on an H200: four vectors a thread (16 float32, 32 16-bit elements) keep enough loads in flight and enough
    rows on an SM (of float32, two are 1-2 % faster in groups up to 64); groups beyond 256 (512 for 4-byte elements)
    wait for each other more than larger tiles cost; a phase that streams two arrays beside the row wants the registers
    of 256. Rows whose vectors are split at the ends want few, long threads, since each checks its first and last
    vector; so do 16-bit rows with long bodies, and all with much to do once a row, which every thread does.
    """
    width, reach, per_element, split = row.width, row.reach, row.per_element, row.is_split
    once, most = has_expensive_row_body(row.kernel), most_threads(row.kernel, width)
    aim = width * 8 if (split or once or has_expensive_elements(row.kernel, width)) else max(width * 4, 16)
    threads, slack = 1, (1.25 if split else 1)
    while threads < most and reach > slack * aim * threads:
        threads *= 2
    while threads < 64 and not (split or once) and width < 8 and reach > aim // 2 * threads:
        threads *= 2
    full = FULL_WORDS if per_element >= 1 else PACKED_WORDS
    while threads < 1024 and reach * per_element > slack * full * threads:
        threads *= 2
    held_words = -(-reach // (width * threads)) * width * per_element
    limit = next(words for size, words in HELD_WORDS.items() if threads <= size)
    return threads if held_words <= limit else None
