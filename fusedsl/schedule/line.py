"""Rows on lines of threads, whose length the launch says: a few binaries do for rows of all lengths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from ..hardware import Hardware, blocks_for, registers_for
from .clustered import schedule_clustered
from .kernel import Kernel
from .pressure import Tiling, needed, predicted
from .resident import FETCHING, HELD_WORDS, MOST_NEEDED, aim_of, most_threads, overlaps
from .row import (
    LOOP_BLOCK,
    WARP,
    RowSchedule,
    alone,
    contiguous,
    dear_rows,
    later_of,
    long_bodies,
    per_element_of,
    reach_of,
    row_width,
)
from .tiled import EARLY_WORDS, PIECE_FROM, piece_of

MOST = 512  # threads of a line
AMPLE = 0.9  # of the registers that there are, beyond which a need may turn out too low
DOUBLE = 8  # registers by which it may, where elements have 64 bits
COMMON_FROM = 512  # columns from which on a power of two is a length of its own


def schedule_line(kernel: Kernel, extents: tuple[int, ...], hardware: Hardware) -> RowSchedule | None:
    """How a `resident` row runs on a line of threads; None where its number of threads is compiled.

    That is so for lengths that are powers of two, which most models have: their binaries are shared by few others.
    Lines are part of a warp, or whole warps with tiles of three sizes. There are no classes of a single row, whose time
    is that of a launch.
    """
    width, columns = row_width(kernel), extents[-1]
    if not kernel.resident or not contiguous(kernel) or kernel.part:
        return None
    if columns >= COMMON_FROM and columns & (columns - 1) == 0:
        return None
    reach = reach_of(kernel, columns, width)
    longer = reach > columns or dear_rows(kernel) or long_bodies(kernel, width)
    vectors, single = aim_of(width, longer) // width, prod(extents[: kernel.row_axes]) == 1
    for count, below, longest, room in _sizes(kernel, width, vectors, single, hardware):
        if reach > longest * count * width:
            continue
        found, need = _on_line(kernel, columns, reach, width, count, (below, longest, room), hardware)
        if alone(kernel) or overlaps(kernel, columns, found, need, hardware):
            return found
        apart = schedule_clustered(kernel, extents, reach, per_element_of(kernel, width), hardware)
        return apart or (found if width < 8 else None)
    return None


def _sizes(
    kernel: Kernel, width: int, vectors: int, single: bool, hardware: Hardware
) -> Iterator[tuple[int, int, int, int]]:
    """From short rows to long ones: vectors of a thread, threads of the longest row that takes fewer of them, threads
    of the longest row, and threads that a block has room for; for a row that is `single` only those of long ones."""
    most = MOST if single else most_threads(kernel, width)
    rooms = {count: _room(kernel, width, count, hardware) for count in (vectors, 2 * vectors, 4 * vectors)}
    counts = [count for count, room in rooms.items() if room]
    if single:
        counts = counts[:2][-1:]
    reached = 0
    if counts and not single:
        reached = WARP // 2 * vectors
        yield vectors, 0, WARP // 2, LOOP_BLOCK
    for count in counts:
        longest = min(rooms[count], MOST if count == counts[-1] else most)
        yield count, reached // count, longest, longest
        reached = longest * count


def _room(kernel: Kernel, width: int, vectors: int, hardware: Hardware) -> int:
    """Threads of a block that leave each the registers for so many vectors, and some to spare; 0 where it is too much
    for any."""
    need, cap = needed(kernel, Tiling(width, vectors)), FETCHING if kernel.pointers else MOST_NEEDED
    if need > cap or vectors * width * per_element_of(kernel, width) > HELD_WORDS[MOST]:
        return 0
    need += DOUBLE * any(operand.dtype.bits == 64 for operand in kernel.operands)
    rooms = (MOST >> k for k in range((MOST // WARP).bit_length()))
    return next((n for n in rooms if need <= AMPLE * registers_for(hardware, 1, n)), 0)


def _on_line(
    kernel: Kernel,
    columns: int,
    reach: int,
    width: int,
    vectors: int,
    among: tuple[int, int, int],
    hardware: Hardware,
) -> tuple[RowSchedule, int]:
    """A row on as many threads as it takes, and the registers that each of them needs.

    `among` are the threads of the longest row that is worked on otherwise, of the longest one that is not, and those of
    a block.
    """
    below, longest, room = among
    each, skew = vectors * width, reach - columns
    threads = -(-reach // each)
    threads = 1 << (threads - 1).bit_length() if longest < WARP else -(-threads // WARP) * WARP
    shortest, fewest = max(1, below * each + 1 - skew), (below // WARP + 1) * WARP
    later = later_of(kernel) * vectors
    taken = (per_element_of(kernel, width) * vectors + later) * width
    early = later > 0 and not skew and taken <= next(words for size, words in EARLY_WORDS.items() if below <= size)
    piece = piece_of(kernel, vectors, width) if taken > PIECE_FROM else 0
    need = needed(kernel, Tiling(width, vectors, early, piece))
    blocks = blocks_for(hardware, need, room)
    registers = predicted(kernel, hardware, need, blocks, room)
    reason = (
        f"a row of {columns} fits {threads} threads: {vectors} vectors of {width} each, at most {registers} registers; "
        f"rows of {shortest} to {longest * each - skew} may share it, on more or fewer threads"
    )
    if early:
        reason += "; what later phases read is loaded with the row"
    rows = LOOP_BLOCK // threads if threads <= WARP else 1
    whole = shortest // (fewest * width)
    found = RowSchedule(True, width, vectors, whole, threads, rows, blocks, False, early, piece)
    return replace(found, room=room, reason=reason, registers=registers), need
