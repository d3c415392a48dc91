"""Schedule of products by warps: operand tiles come by cp.async into a ring of stages, warps multiply them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod

from ....hardware import Hardware, blocks_for, registers_for
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.launch_config import LaunchConfig
from ....kernel_ir.matmul_axes import extent, worth_tiling
from ....kernel_ir.matmul_operands import MatmulOperands, matmul_operands
from ..schedule_base import Extents, Schedule
from .tile_shapes import COPY_BYTES, BlockShape, FmaTileShape, OperandTileShape, RowVectorShape

LONGEST = 1 << 31  # rows, columns and steps are int32
MOST_SUMS = 128  # of a thread, over all products
CHAIN = 256  # products that a thread adds one after another before their sum joins the others
STAGES = 3
OTHER_REGISTERS = 64  # of a thread, for fragments and addresses
SYSTEM_BYTES = 1024  # of shared memory, that a block takes besides its own
ALIGNMENT = 128  # of the tiles in shared memory
GROUP_ROWS = 8  # rows of tiles that are computed side by side: they share columns in L2


FMA_SHAPES = (
    BlockShape(256, 128, 16, (4, 2), (4, 8), 0.78),
    BlockShape(128, 128, 8, (2, 2), (4, 8), 0.78),
    BlockShape(128, 128, 8, (2, 4), (8, 4), 0.74),
    BlockShape(128, 64, 16, (2, 2), (8, 4), 0.68),
    BlockShape(64, 64, 16, (2, 2), (8, 4), 0.60),
    BlockShape(32, 32, 16, (1, 2), (8, 4), 0.35),
)


@dataclass(frozen=True)
class MmaMatmulSchedule(Schedule):
    """Schedule of products: a block has the sums `tile` of each product, and `stages` K-slices of each operand.

    `operands` are the tiles of the kernel's unique operands, those with rows first; `pairs` their numbers for each
    product. `chain` steps are summed in registers, and chains in shared memory.
    """

    tile: FmaTileShape
    operands: tuple[OperandTileShape, ...]
    pairs: tuple[tuple[int, int], ...]
    vectors: RowVectorShape
    stages: int
    blocks: int  # per SM
    chain: int
    reason: str = field(default="", compare=False)
    registers: int = field(default=0, compare=False)  # a thread, by estimate
    width = 1
    length_specialized = False

    @property
    def block_threads(self) -> int:
        return self.tile.threads

    @property
    def stage_bytes(self) -> int:
        return sum(one.bytes for one in self.operands)

    @property
    def operand_offsets(self) -> tuple[int, ...]:
        """Offsets of the operands' tiles in a stage."""
        return tuple(sum(one.bytes for one in self.operands[:k]) for k in range(len(self.operands)))

    @property
    def sums_offset(self) -> int:
        """Offset of the sums in shared memory: behind the stages."""
        return self.stages * self.stage_bytes

    @property
    def smem_bytes(self) -> int:
        return self.sums_offset + len(self.pairs) * self.tile.bytes + ALIGNMENT

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        operands = matmul_operands(kernel)
        assert operands is not None
        return LaunchConfig(
            output_tiles(self.tile, operands, extents), self.block_threads, self.smem_bytes, exclusive=True
        )


def schedule_mma(kernel: KernelIR, extents: Extents, hardware: Hardware) -> MmaMatmulSchedule | None:
    """The schedule of products by warps: the predicted fastest of the shapes that fit; None if there is none."""
    operands = matmul_operands(kernel)
    if operands is None or hardware.cc < (8, 0) or not _takes(kernel, operands, extents):
        return None
    candidates = list(_schedules(kernel, operands, extents, hardware))
    if not candidates:
        return None
    _, best = min(candidates, key=lambda pair: _clocks(pair[1], pair[0], operands, extents, hardware))
    registers = registers_for(hardware, best.blocks, best.block_threads)
    return replace(best, registers=registers, reason=_reason(best, operands, extents))


def _takes(kernel: KernelIR, operands: MatmulOperands, extents: Extents) -> bool:
    """Whether warps multiply these operands: float32 throughout, and one axis to sum over."""
    everyone = {kernel.operands[k].dtype.name for k in (*operands.left, *operands.right)}
    return (
        kernel.resident
        and kernel.column_axes == 1
        and not kernel.is_subkernel
        and kernel.batched is None
        and worth_tiling(kernel, operands.axes, extents)
        and 0 not in extents
        and prod(extents) < LONGEST * LONGEST
        and max(extents) < LONGEST
        and everyone == {"float32"}
        and all(use.accumulators[0].dtype.name == "float32" for use in kernel.phases[0].folds)
    )


def _schedules(
    kernel: KernelIR, operands: MatmulOperands, extents: Extents, hardware: Hardware
) -> Iterator[tuple[float, MmaMatmulSchedule]]:
    """(share of the card's arithmetic, schedule) of each shape that fits."""
    lefts, rights = operands.left, operands.right
    pairs = tuple((lefts.index(a), len(lefts) + rights.index(b)) for a, b in operands.pairs)
    for one in FMA_SHAPES:
        tile = FmaTileShape("float32", one.rows, one.columns, one.depth, one.warps, one.lanes)
        if tile.count * len(pairs) > MOST_SUMS:
            continue
        tiles = tuple(
            [_operand_tile(kernel, k, operands.axes.rows, (one.rows, tile), extents) for k in lefts]
            + [_operand_tile(kernel, k, operands.axes.columns, (one.columns, tile), extents) for k in rights]
        )
        vectors = _row_vectors(kernel, operands, tile, extents)
        schedule = MmaMatmulSchedule(tile, tiles, pairs, vectors, STAGES, 1, CHAIN)
        if schedule.smem_bytes <= hardware.block_shared:
            needs = tile.count * len(pairs) + OTHER_REGISTERS
            blocks = blocks_for(hardware, needs, tile.threads)
            blocks = min(blocks, hardware.shared // (schedule.smem_bytes + SYSTEM_BYTES))
            yield one.rate, replace(schedule, blocks=max(1, blocks))


def _operand_tile(
    kernel: KernelIR, k: int, axes: tuple[int, ...], own: tuple[int, FmaTileShape], extents: Extents
) -> OperandTileShape:
    """The tile of an operand with these row or column axes: pieces along its contiguous axis, if that is one of them
    or that of the sum."""
    operand, (lanes, tile) = kernel.operands[k], own
    if operand.near == kernel.row_axes:
        return OperandTileShape(operand.dtype.name, lanes, tile.depth, "k", 1, tile.threads, "padded")
    piece = COPY_BYTES // operand.dtype.itemsize
    whole = operand.near == axes[-1] and operand.near_access == "vector"
    whole = whole and (len(axes) == 1 or extents[axes[-1]] % piece == 0)
    return OperandTileShape(operand.dtype.name, lanes, tile.depth, "mn", piece if whole else 1, tile.threads, "padded")


def _row_vectors(kernel: KernelIR, operands: MatmulOperands, tile: FmaTileShape, extents: Extents) -> RowVectorShape:
    """The vectors in which a tile is finished: 16 bytes of the narrowest output, four or eight elements."""
    sizes = [kernel.operands[store.operand].dtype.itemsize for store in kernel.phases[0].row_stores]
    width, last = (8 if min(sizes) <= 2 else 4), extents[operands.axes.columns[-1]]
    if len(operands.axes.columns) > 1 and last % width:
        width = 1
    across = tile.columns // width
    vectors = next(n for n in (4, 2, 1) if n * width <= 16 and tile.rows % (n * max(1, tile.threads // across)) == 0)
    return RowVectorShape(tile.columns, width, vectors, tile.threads, last % width != 0)


def output_tiles(tile: FmaTileShape, operands: MatmulOperands, extents: Extents) -> int:
    """Output tiles of all batches, each a block's."""
    axes = operands.axes
    rows, columns = -(-extent(axes.rows, extents) // tile.rows), -(-extent(axes.columns, extents) // tile.columns)
    return extent(axes.batch, extents) * rows * columns


def _clocks(s: MmaMatmulSchedule, rate: float, operands: MatmulOperands, extents: Extents, hardware: Hardware) -> float:
    """Clocks of an SM with the most tiles: its blocks share its arithmetic."""
    tiles = -(-output_tiles(s.tile, operands, extents) // hardware.multiprocessors)
    return tiles * s.tile.rows * s.tile.columns * extents[-1] * len(s.pairs) / (hardware.fp32 * rate)


def _reason(s: MmaMatmulSchedule, operands: MatmulOperands, extents: Extents) -> str:
    return (
        f"product of matrices: {output_tiles(s.tile, operands, extents)} tiles of {s.tile.rows} × {s.tile.columns}, "
        f"{s.stages} slices of {s.tile.depth} steps in flight; a thread sums {s.tile.thread_rows} × "
        f"{s.tile.thread_columns} elements by fused multiply-adds"
    )
