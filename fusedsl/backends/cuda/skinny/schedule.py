"""Skinny matmul schedule: products with few rows, whose time is that of reading the other operand once.

All blocks are resident at once where that can be, each with as many bytes of the streamed operand in flight as it has
room for. Few tiles are split along the steps; the last block of a tile to arrive adds their accumulators in order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ....hardware import Hardware, blocks_for
from ....kernel_ir.kernel import KernelIR, Operand
from ....kernel_ir.launch_config import LaunchConfig
from ....kernel_ir.matmul_axes import extent
from ....kernel_ir.matmul_operands import MatmulOperands, is_ragged, matmul_operands
from ..schedule_base import Extents, Schedule
from ..split_heuristics import choose_blocks_per_row
from .layout import ROWS, SkinnyLayout
from .problem import SkinnyProblem, skinny_problem

WIDE_TILE = 16  # narrow rows above which a block has two warps along the streamed rows: the narrow ones are read less
SYSTEM_SHARED = 1 << 10  # bytes of shared memory that the system takes of each block
OTHER_REGISTERS = 96  # of a thread: fragments and addresses
ACCUMULATORS = 128  # registers of a thread's accumulators, at most
MOST_ELEMENTS = 16  # of a few-row operand that a thread loads element by element: more spill beside an epilogue
STAGES = 3  # of a block's ring (measured: H100, 16 x 4096 x 14336 takes 44.3 us with 3, 45.5 with 4, 46 with 6)
SHORT_BLOCKS = 8  # per SM, where rings hold all steps


@dataclass(frozen=True)
class SkinnySchedule(Schedule):
    """Blocks of `layout` stream the operand with many rows through a ring of `stages` in shared memory.

    `swapped`: the streamed operand has the kernel's rows, and the narrow one its columns. `narrow_near` says of each
    narrow operand how it is brought: "copy" by cp.async, else element by element, neighbours along "k" or "n". If it
    `holds_all`, the ring has room for all steps. If it `is_split`, blocks share a tile, and the last one to arrive adds
    their accumulators. (measured: H100, 16 x 14336 x 4096: 49.1 us so; 52.3 by clusters, in distributed shared memory.)
    """

    layout: SkinnyLayout
    swapped: bool
    narrow_near: tuple[str, ...]
    stages: int
    is_split: bool
    holds_all: bool = False
    splits: int = field(default=1, compare=False)  # blocks of a tile
    length_specialized: bool = field(default=False, compare=False)  # an operand is ragged
    blocks: int = 1
    width = 1
    multiplies = True

    @property
    def block_threads(self) -> int:
        return self.layout.threads

    def sides(self, arrays: MatmulOperands) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(narrow operands, streamed operands)"""
        return (arrays.right, arrays.left) if self.swapped else (arrays.left, arrays.right)

    def stage_bytes(self, arrays: MatmulOperands) -> int:
        narrow, streamed = self.sides(arrays)
        return len(narrow) * self.layout.narrow_bytes + len(streamed) * self.layout.streamed_bytes

    def shared_bytes(self, arrays: MatmulOperands) -> int:
        """Bytes of shared memory of a block: the ring, and in its place later the accumulators of the warps."""
        return max(self.stages * self.stage_bytes(arrays), len(arrays.pairs) * self.layout.partial_bytes)

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        operands = matmul_operands(kernel)
        assert operands is not None
        tiles, shared = tile_count(operands, extents, self.swapped, self.layout), self.shared_bytes(operands)
        blocks = tiles * self.splits
        if not self.is_split:
            return LaunchConfig(blocks, self.block_threads, shared, exclusive=True)
        size = blocks * len(operands.pairs) * self.layout.record_bytes
        return LaunchConfig(blocks, self.block_threads, shared, workspace=size, semaphores=tiles, exclusive=True)


def schedule_skinny(kernel: KernelIR, extents: Extents, hardware: Hardware) -> SkinnySchedule | None:
    """How a product with few rows runs; None where it has many, or operands that mma.sync or cp.async do not take."""
    problem = skinny_problem(kernel, extents) if hardware.cc >= (8, 0) and not kernel.is_subkernel else None
    layout = problem and _layout(problem)
    if not problem or not layout:
        return None
    narrow = problem.arrays.right if problem.swapped else problem.arrays.left
    ways = tuple(_narrow_near(kernel.operands[k], kernel.axes - 1) for k in narrow)
    elements = [layout.narrow * layout.depth for way in ways if way != "copy"]
    if any(n % layout.threads or n // layout.threads > MOST_ELEMENTS for n in elements):
        return None
    plain = SkinnySchedule(layout, problem.swapped, ways, 0, False)
    short = problem.steps <= STAGES * layout.depth and layout.warps_k == 1
    stage, partial = plain.stage_bytes(problem.arrays), problem.products * layout.partial_bytes
    chunks = -(-problem.steps // layout.depth)
    ring = _ring_that_holds(chunks, stage, partial, hardware) if short else _ring(stage, partial, hardware)
    if ring is None:
        return None
    registers = OTHER_REGISTERS + layout.thread_sums * problem.products
    stages, blocks = ring[0], min(ring[1], blocks_for(hardware, registers, layout.threads))
    tiles = tile_count(problem.arrays, extents, problem.swapped, layout)
    rings = max(1, chunks // (STAGES - 1))  # a block begins with so many stages at once: fewer are no faster
    splits = choose_blocks_per_row(tiles, rings, hardware.multiprocessors * blocks)
    reason = (
        f"product with few rows: {tiles} tiles of {layout.streamed} rows of the other operand, {layout.depth} steps at "
        f"a time in {stages} stages of {stage / 1024:.1f} KiB"
    )
    if splits > 1:
        reason += f"; {splits} blocks share a tile, the last one adds their sums"
    schedule = replace(plain, stages=stages, is_split=splits > 1, holds_all=short, splits=splits, blocks=blocks)
    ragged = is_ragged(kernel, problem.arrays)
    return replace(schedule, reason=reason, registers=registers, length_specialized=ragged)


def _layout(problem: SkinnyProblem) -> SkinnyLayout | None:
    """The layout of a block; None if its accumulators do not fit a thread's registers.

    Short sums have blocks of few warps, of which many are resident, and no warps that share a sum.
    """
    layout = SkinnyLayout(problem.dtype, problem.near, -(-problem.few // 8) * 8)
    if problem.steps <= STAGES * layout.steps:
        layout = replace(layout, warps_k=1)
    halves = layout.thread_sums * problem.products > ACCUMULATORS or (layout.warps_k == 1 and layout.narrow > WIDE_TILE)
    if halves:
        layout = replace(layout, narrow=-(-problem.few // 16) * 16, warps_narrow=2)
    elif layout.narrow > WIDE_TILE and problem.many > ROWS:
        layout = replace(layout, warps_streamed=2)
    return layout if layout.thread_sums * problem.products <= ACCUMULATORS else None


def _ring(stage: int, partial: int, hardware: Hardware) -> tuple[int, int] | None:
    """(stages, blocks per SM) with most bytes in flight; None if not even a block with two stages fits."""
    for blocks, least in ((2, 3), (1, 2)):
        room = min(hardware.block_shared, hardware.shared // blocks - SYSTEM_SHARED)
        if room >= max(least * stage, partial):
            return min(STAGES, room // stage), blocks
    return None


def _ring_that_holds(stages: int, stage: int, partial: int, hardware: Hardware) -> tuple[int, int] | None:
    """The same where the ring holds all stages of a block."""
    size = max(stages * stage, partial)
    blocks = min(SHORT_BLOCKS, hardware.shared // (size + SYSTEM_SHARED))
    return (stages, blocks) if size <= hardware.block_shared and blocks else None


def _narrow_near(operand: Operand, steps: int) -> str:
    """How a narrow operand is brought (see SkinnySchedule)."""
    if operand.near == steps:
        return "copy" if operand.near_access == "vector" else "k"
    return "n"


def tile_count(arrays: MatmulOperands, extents: Extents, swapped: bool, layout: SkinnyLayout) -> int:
    """Tiles of streamed rows, in all batches."""
    many = arrays.axes.rows if swapped else arrays.axes.columns
    return extent(arrays.axes.batch, extents) * -(-extent(many, extents) // layout.streamed)
