"""Sort methods: how a row is sorted or its top k found, with their sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Sort

BINS, WARP = 256, 32
STATIC_SHARED = 48 << 10  # bytes of shared memory that need not be dynamic
SCAN_WORDS = 8  # totals of the warps whose threads have bins
TAG_COLUMNS = 1 << 31  # columns whose tags have 32 bits: an entry of one word has a key of 32 bits above its tag


@dataclass(frozen=True)
class SortMethod:
    """How the order of a row is found; a thread holds `per_thread` ranks of it (0: they are looped over).

    "rounds": the best is taken out again and again. "network": a warp, or a part of one, sorts the row in registers.
    "digits": a block sorts it digit by digit, in `size` words of shared memory.
    "choose": what passes the last of the best so far is gathered behind `keep` slots, and sorted where it comes to
    more than `limit`. "merge": runs of `size` are sorted, then merged in global memory.
    """

    method: Literal["rounds", "network", "digits", "choose", "merge"]
    per_thread: int
    size: int = 0
    keep: int = 0
    limit: int = 0
    wide: bool = False  # entries have two words, as those of keys of 64 bits have anyhow


def block_radix_bytes(size: int, threads: int, wide: bool, positions: bool) -> int:
    """Shared memory of a block that sorts so many words, of 64 bits or 32: these, columns, counters, totals."""
    counters = threads // WARP * BINS + SCAN_WORDS
    return size * (8 if wide else 4) + 2 * positions * size + 4 * counters


def needs_wide_entries(sort: Sort, columns: int) -> bool:
    """Whether the tags of so many columns do not fit in a word beside the key, though that is short enough."""
    return sort.key.dtype.bits < 64 and columns > TAG_COLUMNS


def sort_of(kernel: KernelIR) -> Sort | None:
    """The order that a kernel finds."""
    return next((phase.sort for phase in kernel.phases if phase.sort), None)
