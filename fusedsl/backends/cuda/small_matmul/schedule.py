"""Small matmul schedule: batches of small matrices, of which a block of threads multiplies several."""

from __future__ import annotations

from dataclasses import dataclass

from ....hardware import Hardware
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.launch_config import LaunchConfig
from ....kernel_ir.matmul_axes import MatmulAxes, extent, is_contiguous_along_sum, matmul_axes, worth_tiling
from ....kernel_ir.phase import Body
from ..schedule_base import Extents, Schedule
from .layout import EDGES, OWN, THREADS, SmallLayout

LONGEST = 256  # products that are added one after another
SIDES = ("row", "column")
SHARED_BYTES = 48 << 10  # that every GPU has for a block


@dataclass(frozen=True)
class SmallMatmulSchedule(Schedule):
    """Blocks of `layout` multiply whole matrices. `along`: of each factor's (left, right) arrays, whether they are
    contiguous along the steps; `near` is the contiguous axis of each operand, or -1."""

    layout: SmallLayout
    along: tuple[tuple[bool, bool], ...]
    near: tuple[int, ...]
    blocks: int
    width = 1
    multiplies = True
    length_specialized = False

    @property
    def block_threads(self) -> int:
        return self.layout.block

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        axes = matmul_axes(kernel)
        assert axes is not None
        blocks = -(-extent(axes.batch, extents) // self.layout.matrices)
        return LaunchConfig(blocks, self.block_threads, exclusive=True)


def schedule_small(kernel: KernelIR, extents: Extents, hardware: Hardware) -> SmallMatmulSchedule | None:
    """How products of small matrices run; None where matrices are large, or too few for blocks of several."""
    matmul = matmul_axes(kernel)
    if matmul is None or not kernel.resident or kernel.is_subkernel or not worth_tiling(kernel, matmul, extents):
        return None
    rows, columns, batches = (extent(axes, extents) for axes in (matmul.rows, matmul.columns, matmul.batch))
    steps = extent(tuple(range(kernel.row_axes, kernel.axes)), extents)
    if max(rows, columns) > EDGES[-1] or steps > LONGEST:
        return None
    edges = [next(edge for edge in EDGES if edge >= count) for count in (rows, columns)]
    depth = max(EDGES[0], min(*edges, next((edge for edge in EDGES if edge >= steps), EDGES[-1])))
    layouts = (SmallLayout(edges[0], edges[1], depth, threads) for threads in (THREADS, THREADS // 2))
    layout = next((one for one in layouts if _held_bytes(one, matmul) <= SHARED_BYTES), None)
    if layout is None or layout.matrices * hardware.multiprocessors > batches:
        return None
    flags = [(is_contiguous_along_sum(kernel, a), is_contiguous_along_sum(kernel, b)) for a, b in matmul.factors]
    near = tuple(operand.near for operand in kernel.operands)
    words = sum(max(1, use.accumulators[0].dtype.itemsize // 4) for use in kernel.phases[0].folds)
    registers = min(hardware.thread_registers, 64 + OWN * OWN * words)
    reason = (
        f"small matrices: {layout.matrices} a block, in tiles of {layout.rows} × {layout.columns} and {layout.depth} "
        f"steps; a thread sums {OWN} × {OWN} elements"
    )
    return SmallMatmulSchedule(layout, tuple(flags), near, 4 if words == 1 else 2, reason=reason, registers=registers)


def factor_bytes(layout: SmallLayout, side: str, body: Body) -> int:
    """Shared memory of a block for a factor."""
    return layout.matrices * layout.area(side) * body.results[0].dtype.itemsize


def _held_bytes(layout: SmallLayout, axes: MatmulAxes) -> int:
    """Shared memory of a block for all factors."""
    return sum(factor_bytes(layout, side, body) for pair in axes.factors for side, body in zip(SIDES, pair))
