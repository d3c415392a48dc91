"""Split heuristics: how many blocks share a row or a strip if there are too few of them to fill the machine."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...kernel_ir.kernel import KernelIR
from ...kernel_ir.phase import Phase

BLOCK_OVERHEAD = 4  # a block's start, its joins and its end, in steps of its loop
WAVES = 24  # of blocks that are tried
MAX_BLOCKS_PER_ROW = 4096


def choose_blocks_per_row(items: int, steps: int, slots: int) -> int:
    """Blocks to an item, for `items` whose loops take one block `steps` each, on a machine that holds `slots` blocks.

    The time is waves of blocks times the steps of a block. Of equal times the fewest parts win.
    """

    def time(parts: int) -> int:
        return -(-items * parts // slots) * (-(-steps // parts) + BLOCK_OVERHEAD)

    most = max(1, min(steps, MAX_BLOCKS_PER_ROW))
    tried = {1} | {max(1, min(most, waves * slots // items)) for waves in range(1, WAVES + 1)}
    return min(sorted(tried), key=time)


def fold_bytes(kernel: KernelIR) -> int:
    """Bytes of the largest state of one fold."""
    uses = [use for phase in kernel.phases for use in phase.folds]
    return max(sum(value.dtype.itemsize for value in use.accumulators) for use in uses)


def state_words(phases: Sequence[Phase]) -> int:
    """32-bit registers of the states that a thread collects for one row, in the phase with most."""
    return max((sum(max(1, v.dtype.bits // 32) for u in p.folds for v in u.accumulators) for p in phases), default=0)


def has_no_pass_after_reduction(kernel: KernelIR) -> bool:
    """Is all work on elements over after the first folds? Then the last block of a row can finish it alone."""
    return all(not (phase.folds or phase.stores) for phase in kernel.phases[1:])


def exchange_count(kernel: KernelIR) -> int:
    """Phases after which blocks exchange states."""
    return sum(bool(phase.folds) for phase in kernel.phases)


def row_length(kernel: KernelIR, extents: tuple[int, ...]) -> int:
    """Elements that a row folds."""
    return prod(extents[kernel.row_axes :])
