"""Schedules with a launch-time number of threads per row: a few binaries serve rows of all lengths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import prod

from ....hardware import Hardware, blocks_for, registers_for
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.register_pressure import Tiling, predicted_registers, required_registers
from .resident import FETCHING, HELD_WORDS, MOST_NEEDED, most_threads, overlaps
from .schedule import (
    LOOP_BLOCK,
    WARP,
    ResidentRowSchedule,
    contiguous,
    covered_columns,
    has_expensive_elements,
    has_gathers,
    late_load_registers,
    needs_whole_block,
    registers_per_element,
    row_width,
)
from .tile_shape import EARLY_WORDS, PIECE_FROM, epilogue_vectors_of

WIDTHS = (4, 8)  # elements of a vector, of float32 and of 16 bits
MOST = 1024  # threads of a line
AMPLE = 0.9  # of the registers that there are, beyond which a need may turn out too low
DOUBLE = 8  # registers by which it may, where elements have 64 bits
COMMON_FROM = 512  # columns from which on a power of two is a length of its own
COUNTS = (8, 16)  # vectors of a thread
HELD, SHORT = 32, 256  # elements of a thread of a short row, and of a short row at most
SINGLES = 8  # elements of a thread where they are read one by one
FEWEST = 4  # threads of a row whose ends are apart
# Threads whose vectors fill a line of memory, and vectors that are enough for each. Measured on an H200: sums of rows
# of 64, 128 and 256 bfloat16 take 145, 129 and 125 us so, on half as many threads 162, 157 and 129.
LINE, AMPLE_VECTORS = 8, 4


def schedule_dynamic_threads(
    kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware
) -> ResidentRowSchedule | None:
    """How a `resident` row runs on a line of threads; None where its number of threads is compiled.

    Lines are for rows of which little is computed and nothing but that is stored, whose lengths then share a few
    binaries; and for short rows that are not aligned. Measured on an H200, both in one process: sums take as long as
    those compiled for their length (0.95 to 1.29 of the speed, but 0.82 in rows of 13 bfloat16); softmax of 13, 33 and
    65 columns is 1.4 to 3 times as fast. Longer rows that are stored are not: 0.83 to 1.08 in softmax, 0.6 to 1.1 in
    layer norm, whose weights are read element by element at distances that the compiler does not know.
    """
    width, columns = row_width(kernel), extents[-1]
    if not kernel.resident or not contiguous(kernel) or kernel.is_subkernel:
        return None
    if is_common_length(columns) or width not in WIDTHS:
        return None
    split, single = covered_columns(kernel, columns, width) > columns, prod(extents[: kernel.row_axes]) == 1
    if split and (needs_whole_block(kernel) or has_gathers(kernel)):
        return None
    sizes: Iterable[RowSizeClass] = ()
    if _folds_alone(kernel, width):
        sizes = _sizes(kernel, width, split, single, hardware)
    elif split and not single:
        sizes = _short(kernel, width, hardware)
    for size in sizes:
        if columns > size.longest_threads * size.vectors * size.width:
            continue
        schedule, need = _on_line(kernel, columns, split, size, hardware)
        return schedule if needs_whole_block(kernel) or overlaps(kernel, columns, schedule, need, hardware) else None
    return None


def generic_resident(kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware) -> ResidentRowSchedule | None:
    """How rows that are `resident` run in one of few forms for all lengths; None where none of these holds them.

    Measured on an H200 beside those compiled for their length (20 lengths to 23,899): softmax of float32 has 0.80 to
    1.08 of their speed, of bfloat16 0.67 to 1.0; RMS norm of bfloat16 0.5 to 0.8 below 600 columns where its length is
    a multiple of 8, which is not known here, else 0.8 to 1.8; layer norm of bfloat16 from 200 columns on 0.58 to 1.0.
    """
    width, columns = row_width(kernel), extents[-1]
    if width not in WIDTHS or needs_whole_block(kernel) or has_gathers(kernel):
        return None
    if not kernel.resident or not contiguous(kernel):
        return None
    split = any(operand.access == "peeled" for operand in kernel.operands)
    for size in _sizes(kernel, width, split, False, hardware, COUNTS[:1]):
        if columns <= size.longest_threads * size.vectors * size.width:
            return _on_line(kernel, columns, split, size, hardware)[0]
    return None


def _folds_alone(kernel: KernelIR, width: int) -> bool:
    """True if a row is only reduced, with little work per element, and one value of it is stored."""
    first, *others = kernel.phases
    plain = not others and not first.stores and not kernel.positions and not needs_whole_block(kernel)
    return plain and not has_expensive_elements(kernel, width)


def _short(kernel: KernelIR, width: int, hardware: Hardware) -> list[RowSizeClass]:
    """Size classes of short unaligned rows that are stored."""
    each, streams = HELD // width, late_load_registers(kernel) > 0
    if not _room(kernel, width, each, hardware):
        return []
    singles = [RowSizeClass(1, SINGLES, 0, WARP // 4, LOOP_BLOCK)] if width < 8 or not streams else []
    return singles if streams else [*singles, RowSizeClass(width, each, 0, SHORT // HELD, LOOP_BLOCK)]


def is_common_length(columns: int) -> bool:
    """True for lengths of many models: a power of two, one more than that (a class token), or a power of ten."""
    power = next(10**k for k in range(20) if 10**k >= columns)
    return columns >= COMMON_FROM and (
        columns & (columns - 1) == 0 or (columns - 1) & (columns - 2) == 0 or columns == power
    )


def has_common_length(kernel: KernelIR, extents: tuple[int, ...]) -> bool:
    """True if every column extent is a common length."""
    return kernel.row_axes > 0 and all(map(is_common_length, extents[kernel.row_axes :]))


@dataclass(frozen=True)
class RowSizeClass:
    """Class of row lengths that share a binary: the tile of a thread and the numbers of threads."""

    width: int
    vectors: int
    shorter_threads: int  # of the longest row of the class before
    longest_threads: int  # of the longest row
    max_threads: int  # of a block


def _sizes(
    kernel: KernelIR, width: int, split: bool, single: bool, hardware: Hardware, tried: tuple[int, ...] = COUNTS
) -> Iterator[RowSizeClass]:
    """From short rows to long ones; for a row that is `single` only those of long ones. Threads have up to as many
    vectors as are `tried`."""
    most = most_threads(kernel, width)
    rooms = {count: _room(kernel, width, count, hardware) for count in tried}
    counts = [count for count, room in rooms.items() if room]
    reached = 0
    if single:
        counts = counts[-1:]
    elif split:
        yield RowSizeClass(1, SINGLES, 0, WARP // 4, LOOP_BLOCK)
    if counts and not single:
        reached = WARP // 2 * counts[0]
        yield RowSizeClass(width, counts[0], 0, WARP // 2, LOOP_BLOCK)
    for count in counts:
        longest = min(rooms[count], most) if len(counts) > 1 and count == counts[0] else rooms[count]
        if longest * count > reached:
            yield RowSizeClass(width, count, reached // count, longest, longest)
            reached = longest * count


def _room(kernel: KernelIR, width: int, vectors: int, hardware: Hardware) -> int:
    """Most threads of a block with registers for so many vectors and a margin; 0 if no block has them."""
    need, cap = required_registers(kernel, Tiling(width, vectors)), FETCHING if kernel.pointers else MOST_NEEDED
    need += DOUBLE * any(operand.dtype.bits == 64 for operand in kernel.operands)
    words_needed = vectors * width * registers_per_element(kernel, width)
    for room in (MOST, MOST // 2, MOST // 4) if need <= cap else ():
        words = next(words for size, words in HELD_WORDS.items() if room <= size)
        if words_needed <= words and need <= AMPLE * registers_for(hardware, 1, room):
            return room
    return 0


def _on_line(
    kernel: KernelIR, columns: int, split: bool, size: RowSizeClass, hardware: Hardware
) -> tuple[ResidentRowSchedule, int]:
    """Schedule of a row on as many threads as it needs, and the registers of each."""
    width, vectors, room = size.width, size.vectors, size.max_threads
    each, unaligned = vectors * width, 2 * width - 2 if split else 0  # elements that are in no whole vector, at most
    threads = max(-(-columns // each), FEWEST if unaligned else 1)
    threads = 1 << (threads - 1).bit_length() if size.longest_threads < WARP else -(-threads // WARP) * WARP
    if not split:
        ample = columns // (AMPLE_VECTORS * width)
        threads = max(threads, min(LINE, 1 << max(0, ample.bit_length() - 1)))
    shortest, fewest = max(1, size.shorter_threads * each + 1 - unaligned), (size.shorter_threads // WARP + 1) * WARP
    later = late_load_registers(kernel) * vectors
    need_of_elements = (registers_per_element(kernel, width) * vectors + later) * width
    early = (
        later > 0
        and not split
        and need_of_elements <= next(words for n, words in EARLY_WORDS.items() if size.shorter_threads <= n)
    )
    piece = epilogue_vectors_of(kernel, vectors, width) if need_of_elements > PIECE_FROM else 0
    need = required_registers(kernel, Tiling(width, vectors, early, piece))
    blocks = blocks_for(hardware, need, room)
    registers = predicted_registers(kernel, hardware, need, blocks, room)
    reason = (
        f"rows of {columns} in registers, {threads} threads a row: {vectors} vectors of {width} a thread, at most "
        f"{registers} registers; reused for lengths up to {size.longest_threads * each}, on more or fewer threads"
    )
    if early:
        reason += "; operands of later phases are prefetched with the row"
    edges = -(-unaligned // (FEWEST if size.longest_threads < WARP else WARP))
    if unaligned:
        reason += f"; {edges} a thread of the elements before and after the aligned vectors"
    rows = LOOP_BLOCK // threads if threads <= WARP else 1
    whole = min(shortest // (fewest * width), vectors)
    schedule = ResidentRowSchedule(width, vectors, whole, threads, rows, blocks, early, piece, 1, room, edges)
    return replace(schedule, reason=reason, registers=registers), need
