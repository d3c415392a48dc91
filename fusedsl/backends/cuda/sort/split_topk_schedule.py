"""Split top-k schedule: blocks find the top k of their chunks of a long row, and the last block merges these."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from math import isqrt, prod

from ....hardware import Hardware
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.launch_config import LaunchConfig
from ..rows.schedule import RowSchedule
from ..schedule_base import Extents
from .schedule import SortSchedule, generic_sort, schedule_sort
from .sort_method import sort_of

LEAST_COLUMNS = 1 << 15  # columns of a row that several blocks share
SHARING = 2  # least blocks per row


@dataclass(frozen=True)
class SplitTopKSchedule(SortSchedule):
    """Several blocks find the top k of a row: each stores the top k of its tiles to the workspace."""

    blocks_per_row: int = field(default=1, compare=False)

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        sort, rows = sort_of(kernel), prod(extents[: kernel.row_axes])
        assert sort is not None and sort.count is not None
        blocks = rows * self.blocks_per_row
        workspace = blocks * sort.count * entry_bytes(self, kernel)
        return LaunchConfig(blocks, self.block_threads, workspace=workspace, semaphores=rows)


def entry_bytes(schedule: SplitTopKSchedule, kernel: KernelIR) -> int:
    """Bytes of a key with its column."""
    sort = sort_of(kernel)
    assert sort is not None
    return 16 if sort.key.dtype.bits == 64 or schedule.sort_method.wide else 8


def schedule_order(kernel: KernelIR, extents: Extents, hardware: Hardware) -> RowSchedule:
    """The schedule of a row kernel that sorts (see `schedule_sort`): several blocks share a row if that is faster."""
    alone = schedule_sort(kernel, _with_rows(kernel, extents, SHARING * hardware.multiprocessors), hardware)
    return _shared(kernel, extents, hardware, alone) or schedule_sort(kernel, extents, hardware)


def generic_order(
    held: KernelIR, streamed: KernelIR, extents: Extents, hardware: Hardware
) -> tuple[KernelIR, RowSchedule]:
    """The kernel, resident or not, and a schedule of which few serve all extents (see `generic_sort`)."""
    many = _with_rows(held, extents, SHARING * hardware.multiprocessors)
    kernel, alone = generic_sort(held, streamed, many, hardware)
    shared = _shared(kernel, extents, hardware, alone)
    return generic_sort(held, streamed, extents, hardware) if shared is None else (kernel, shared)


def _with_rows(kernel: KernelIR, extents: Extents, rows: int) -> Extents:
    return (rows, *(1,) * (kernel.row_axes - 1), *extents[kernel.row_axes :])


def _shared(kernel: KernelIR, extents: Extents, hardware: Hardware, alone: RowSchedule) -> SplitTopKSchedule | None:
    """A schedule of one block a row with several of them; None if a block for each row is faster.

    With b blocks for a row, a chunk has columns / b elements, and the merge b * k: both take equally long if b is the
    square root of columns / k.
    """
    if not isinstance(alone, SortSchedule) or alone.sort_method.method != "choose" or not _is_alone(kernel):
        return None
    sort, rows, columns = sort_of(kernel), max(1, prod(extents[: kernel.row_axes])), extents[-1]
    assert sort is not None and sort.count is not None
    blocks = min(hardware.multiprocessors * alone.blocks // rows, isqrt(columns // max(1, sort.count)))
    if blocks < SHARING or columns < LEAST_COLUMNS:
        return None
    shared = SplitTopKSchedule(**{f.name: getattr(alone, f.name) for f in fields(alone)}, blocks_per_row=blocks)
    return replace(shared, reason=f"{alone.reason}; {blocks} blocks share a row, the last one merges what they found")


def _is_alone(kernel: KernelIR) -> bool:
    """Whether the order is found in the first phase, and all others are over it."""
    first, *others = kernel.phases
    folds = first.folds or first.scans or first.tile_phases or first.column_reductions
    return first.sort is not None and not folds and all(phase.ranks for phase in others) and not kernel.is_subkernel
