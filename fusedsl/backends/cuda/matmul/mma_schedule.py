"""Schedule of products by warps: operand tiles come by cp.async into a ring of stages, warps multiply them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from ....hardware import Hardware, blocks_for, registers_for
from ....ir.types import dtype
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.launch_config import LaunchConfig
from ....kernel_ir.matmul_axes import extent, worth_tiling
from ....kernel_ir.matmul_k_axes import KAxes, k_axes
from ....kernel_ir.matmul_operands import MatmulOperands, is_ragged, matmul_operands
from ..mma.tile_sizes import COPY_BYTES
from ..schedule_base import Extents, Schedule
from .block_shapes import block_shapes, tile_shape
from .tile_shapes import (
    FRAGMENT_PADS,
    BlockShape,
    FmaTileShape,
    Major,
    MmaTileShape,
    OperandTileShape,
    RowVectorShape,
)

LONGEST = 1 << 31  # rows, columns and steps are int32
MOST_SUMS = 128  # words of a thread, over all products
CHAIN = 2048  # products that a thread adds one after another before their sum joins the others
MMA_CHAIN = 1 << 15  # products that a tensor core accumulates, several at a time, before the sum joins the others
STAGES = 3
OTHER_REGISTERS = 64  # of a thread, for fragments and addresses
MOST_ELEMENTS = 96  # of all operands, that a thread holds between a load and the store to shared memory
MOST_HELD = 160  # elements of these and of accumulators that a thread has live: with more, an epilogue spills
MOST_WORDS = 180  # of accumulators and of fragments of two steps
SYSTEM_BYTES = 1024  # of shared memory, that a block takes besides its own
ALIGNMENT = 128  # of the tiles in shared memory
SPLITS = (2, 3, 4, 6, 8, 12, 16)  # of the steps of a tile, that are tried
LEAST_SPLIT = 256  # steps of a split
SPLIT_CLOCKS, SPLIT_WORDS = 4000, 8  # of an SM: for the arrival of blocks, and accumulators that it adds in a clock
# measured: H100, float32 4096³: of the rate by fused multiply-adds, with fewer threads than these on an SM
LATENCY_THREADS, ALONE = 256, 0.68
# measured: H200, bfloat16 1024 × 1023 × 1021 and 128 × 2048 × 2047: of the rate where threads load single elements
SINGLE_ELEMENTS = 0.2
GROUP_ROWS = 8  # rows of tiles that are computed side by side: they share columns in L2

Tried = tuple[Sequence[BlockShape], Sequence[int]]
"""Shapes of blocks, and numbers of blocks that share a tile's steps."""


@dataclass(frozen=True)
class MmaMatmulSchedule(Schedule):
    """Schedule of products: a block has the accumulators `tile` of each product, and `stages` K-slices of each operand.

    `operands` are the tiles of the kernel's unique operands, those with rows first; `pairs` their numbers for each
    product. `chain` steps are summed in registers, and chains in shared memory; 0: all steps are one chain.
    """

    tile: FmaTileShape | MmaTileShape
    operands: tuple[OperandTileShape, ...]
    pairs: tuple[tuple[int, int], ...]
    vectors: RowVectorShape
    k_axes: KAxes
    stages: int
    blocks: int  # per SM
    chain: int
    parts: int = 1  # of each float32 on tensor cores: 2 for 3xtf32
    splits: int = 1  # blocks that share the steps of a tile, and add their accumulators in order
    length_specialized: bool = field(default=False, compare=False)  # an operand is ragged
    width = 1
    multiplies = True

    @property
    def block_threads(self) -> int:
        return self.tile.threads

    @property
    def reads_ahead(self) -> bool:
        """Whether a thread has registers for the fragments of two steps, beside accumulators and addresses."""
        size = dtype(self.tile.accumulator_dtype if isinstance(self.tile, MmaTileShape) else self.tile.dtype).itemsize
        words = len(self.pairs) * (self.tile.count * size // 4 + 2 * self.tile.fragment_words)
        return words <= MOST_WORDS and not any(one.through_registers for one in self.operands)

    @property
    def stage_bytes(self) -> int:
        return sum(one.size_bytes for one in self.operands)

    @property
    def operand_offsets(self) -> tuple[int, ...]:
        """Offsets of the operands' tiles in a stage."""
        return tuple(sum(one.size_bytes for one in self.operands[:k]) for k in range(len(self.operands)))

    @property
    def accumulators_offset(self) -> int:
        """Offset of the accumulators in shared memory: behind the stages, or in their place once all is summed."""
        return self.stages * self.stage_bytes if self.chain else 0

    @property
    def smem_bytes(self) -> int:
        accumulators = len(self.pairs) * self.tile.size_bytes
        return max(self.stages * self.stage_bytes, self.accumulators_offset + accumulators) + ALIGNMENT

    @property
    def split_bytes(self) -> int:
        """What a block leaves of a split tile: its accumulators, without gaps between rows."""
        size = dtype(self.tile.accumulator_dtype if isinstance(self.tile, MmaTileShape) else self.tile.dtype).itemsize
        return len(self.pairs) * self.tile.rows * self.tile.columns * size

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        operands = matmul_operands(kernel)
        assert operands is not None
        tiles = output_tiles(self.tile, operands, extents)
        config = LaunchConfig(tiles * self.splits, self.block_threads, self.smem_bytes, exclusive=True)
        if self.splits == 1:
            return config
        return replace(config, workspace=config.blocks * self.split_bytes, semaphores=tiles)


def schedule_mma(
    kernel: KernelIR, extents: Extents, hardware: Hardware, splits: Sequence[int] = SPLITS, general: bool = False
) -> MmaMatmulSchedule | None:
    """The schedule of products by warps: the predicted fastest of the shapes that fit; None if there is none."""
    operands = matmul_operands(kernel)
    if operands is None or hardware.cc < (8, 0) or not _fits(kernel, operands, extents):
        return None
    return fastest(kernel, operands, (block_shapes(kernel, operands), SPLITS), extents, hardware)


def fastest(
    kernel: KernelIR, operands: MatmulOperands, tried: Tried, extents: Extents, hardware: Hardware
) -> MmaMatmulSchedule | None:
    """The schedule that is predicted to be the fastest of those tried that fit."""
    scheduled = ((one, _schedule(kernel, operands, one, extents, hardware)) for one in tried[0])
    some = [
        (one, n) for one, s in scheduled if s is not None for n in _splits(s, operands, tried[1], extents, hardware)
    ]
    if not some:
        return None
    _, best = min(some, key=lambda pair: _clocks(pair[1], pair[0].peak_fraction, operands, extents, hardware))
    registers = registers_for(hardware, best.blocks, best.block_threads)
    return replace(best, registers=registers, reason=_reason(best, operands, extents))


def _splits(
    schedule: MmaMatmulSchedule, operands: MatmulOperands, tried: Sequence[int], extents: Extents, hardware: Hardware
) -> Iterator[MmaMatmulSchedule]:
    """The schedule, and where its tiles do not fill the card the same with their steps split over blocks."""
    yield schedule
    tiles, steps = output_tiles(schedule.tile, operands, extents), schedule.k_axes.steps(extents, schedule.tile.block_k)
    for splits in tried if 2 * tiles <= hardware.multiprocessors else ():
        each = -(-steps // (splits * schedule.tile.block_k)) * schedule.tile.block_k
        if each >= LEAST_SPLIT and (splits - 1) * each < steps and tiles * splits <= 2 * hardware.multiprocessors:
            yield replace(schedule, splits=splits)


def _fits(kernel: KernelIR, operands: MatmulOperands, extents: Extents) -> bool:
    """Whether int32 counts every axis, and K-slices are not empty for the most part."""
    return (
        kernel.resident
        and k_axes(kernel, operands, extents).fills_slices(extents)
        and not kernel.is_subkernel
        and kernel.batched is None
        and worth_tiling(kernel, operands.axes, extents)
        and 0 not in extents
        and prod(extents) < LONGEST * LONGEST
        and max(extents) < LONGEST
    )


def _schedule(
    kernel: KernelIR, operands: MatmulOperands, one: BlockShape, extents: Extents, hardware: Hardware
) -> MmaMatmulSchedule | None:
    """The schedule of a shape with as many stages as fit; None if two do not, or the accumulators are too many."""
    lefts, rights = operands.left, operands.right
    tile = tile_shape(kernel.operands[lefts[0]].dtype.name, one)
    pairs = tuple((lefts.index(a), len(lefts) + rights.index(b)) for a, b in operands.pairs)
    words = tile.count * len(pairs) * max(1, kernel.phases[0].folds[0].accumulators[0].dtype.itemsize // 4)
    parts = 2 if isinstance(tile, MmaTileShape) and tile.dtype == "float32" and kernel.matmul == "3xtf32" else 1
    if words > MOST_SUMS // parts:
        return None
    axes = k_axes(kernel, operands, extents)
    tiles = tuple(
        [_operand_tile(kernel, k, (operands.axes.rows, one.rows), axes.inner, tile, extents) for k in lefts]
        + [_operand_tile(kernel, k, (operands.axes.columns, one.columns), axes.inner, tile, extents) for k in rights]
    )
    loaded = [one.mn_vectors * one.k_vectors for one in tiles if one.through_registers]
    if sum(loaded) > MOST_ELEMENTS or (loaded and sum(loaded) + words > MOST_HELD):
        return None
    chain = CHAIN if isinstance(tile, FmaTileShape) else MMA_CHAIN
    chain = chain if axes.steps(extents, one.block_k) > chain and parts == 1 else 0
    vectors, ragged = _row_vectors(kernel, operands, tile, extents), is_ragged(kernel, operands)
    for stages in range(STAGES, 1, -1):
        schedule = MmaMatmulSchedule(
            tile, tiles, pairs, vectors, axes, stages, 1, chain, parts, length_specialized=ragged
        )
        if schedule.smem_bytes <= hardware.block_shared:
            blocks = blocks_for(hardware, words + OTHER_REGISTERS, tile.threads)
            blocks = min(blocks, hardware.shared // (schedule.smem_bytes + SYSTEM_BYTES))
            return replace(schedule, blocks=max(1, blocks))
    return None


def _operand_tile(
    kernel: KernelIR,
    k: int,
    own: tuple[tuple[int, ...], int],
    inner: int,
    tile: FmaTileShape | MmaTileShape,
    extents: Extents,
) -> OperandTileShape:
    """The tile of an operand with `own` (row or column axes, mn): vectors of 16 bytes along its contiguous axis, if
    that is the last of these axes or the inner axis of K; else single elements."""
    operand, (axes, mn) = kernel.operands[k], own
    major: Major = "k" if operand.near == inner else "mn"
    vector = COPY_BYTES // operand.dtype.itemsize
    whole = operand.near_access == "vector" and operand.near in (axes[-1], inner)
    whole = whole and (major == "k" or len(axes) == 1 or extents[axes[-1]] % vector == 0)
    name, block_k, threads, size = operand.dtype.name, tile.block_k, tile.threads, operand.dtype.itemsize
    if isinstance(tile, FmaTileShape):
        return OperandTileShape(name, mn, block_k, major, vector if whole and major == "mn" else 1, threads, "padded")
    if size == 8 or (size == 4 and major == "mn"):
        one = OperandTileShape(name, mn, block_k, major, vector if whole and major == "mn" else 1, threads, "padded")
        return replace(one, pad=FRAGMENT_PADS[size])
    layout: Major = major if size == 2 else "k"
    if whole and layout == major:
        return OperandTileShape(name, mn, block_k, major, vector, threads, layout)
    return OperandTileShape(name, mn, block_k, major, 1, threads, layout, through_registers=size < 4)


def _row_vectors(
    kernel: KernelIR, operands: MatmulOperands, tile: FmaTileShape | MmaTileShape, extents: Extents
) -> RowVectorShape:
    """The vectors in which a tile is finished: 16 bytes of the narrowest output, four or eight elements."""
    sizes = [kernel.operands[store.operand].dtype.itemsize for store in kernel.phases[0].row_stores]
    width, last = (8 if min(sizes) <= 2 else 4), extents[operands.axes.columns[-1]]
    if len(operands.axes.columns) > 1 and last % width:
        width = 1
    threads_per_row = tile.columns // width
    rows = max(1, tile.threads // threads_per_row)  # that the block covers with a vector of each thread
    vectors = next(n for n in (4, 2, 1) if n * width <= 16 and tile.rows % (n * rows) == 0)
    return RowVectorShape(tile.columns, width, vectors, tile.threads, last % width != 0)


def output_tiles(tile: FmaTileShape | MmaTileShape, operands: MatmulOperands, extents: Extents) -> int:
    """Output tiles of all batches, each a block's."""
    axes = operands.axes
    rows, columns = -(-extent(axes.rows, extents) // tile.rows), -(-extent(axes.columns, extents) // tile.columns)
    return extent(axes.batch, extents) * rows * columns


def mma_clocks(
    schedule: MmaMatmulSchedule, kernel: KernelIR, operands: MatmulOperands, extents: Extents, hardware: Hardware
) -> float:
    """Predicted clocks of an SM with the most tiles."""
    dtype = kernel.operands[operands.left[0]].dtype.name
    rates = (one.peak_fraction for one in block_shapes(kernel, operands) if tile_shape(dtype, one) == schedule.tile)
    return _clocks(schedule, next(rates), operands, extents, hardware)


def _clocks(s: MmaMatmulSchedule, rate: float, operands: MatmulOperands, extents: Extents, hardware: Hardware) -> float:
    """Clocks of an SM with the most tiles: its blocks share its arithmetic."""
    tiles = -(-output_tiles(s.tile, operands, extents) * s.splits // hardware.multiprocessors)
    double = hardware.fp64 * (2 if hardware.double_tensor_cores else 1)
    unit: float = {"float32": hardware.fp32, "float64": double}.get(s.tile.dtype, hardware.tensor)
    if isinstance(s.tile, MmaTileShape) and s.tile.dtype == "float32":
        unit = hardware.tensor / 2 / (1 if s.parts == 1 else 3)  # TF32, three products of two parts
    if isinstance(s.tile, FmaTileShape) and s.blocks * s.block_threads < LATENCY_THREADS:
        unit *= ALONE
    if any(one.through_registers for one in s.operands):
        unit *= SINGLE_ELEMENTS
    sums = s.tile.rows * s.tile.columns * len(s.pairs)
    combined = SPLIT_CLOCKS + sums * (s.splits + 1) / SPLIT_WORDS if s.splits > 1 else 0
    return tiles * sums * s.k_axes.steps(extents, s.tile.block_k) / s.splits / (unit * rate) + combined


def _reason(s: MmaMatmulSchedule, operands: MatmulOperands, extents: Extents) -> str:
    tile = s.tile
    how = (
        f"a thread sums {tile.thread_rows} × {tile.thread_columns} elements by fused multiply-adds"
        if isinstance(tile, FmaTileShape)
        else f"warps of {tile.warp_rows} × {tile.warp_columns} multiply {tile.dtype} on tensor cores"
        + (", in two parts of TF32 each" if s.parts == 2 else "")
    )
    split = f", the steps of each split over {s.splits} blocks" if s.splits > 1 else ""
    return (
        f"matrix product: {output_tiles(tile, operands, extents)} tiles of {tile.rows} × {tile.columns}{split}, "
        f"{s.stages} slices of {tile.block_k} steps in flight; {how}"
    )
