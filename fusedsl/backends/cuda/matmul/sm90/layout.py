"""A product on sm_90 as it is launched: tiles of warpgroups, stages in shared memory, the boxes that TMA moves."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field, replace

from .....kernel_ir.image_rows import ImageBox
from .....kernel_ir.kernel import KernelIR, MatmulKernel, TmaBox
from .....kernel_ir.launch_config import LaunchConfig
from .....kernel_ir.matmul_axes import extent
from .....kernel_ir.matmul_k_axes import KAxes
from .....kernel_ir.matmul_operands import MatmulOperands, matmul_operands, transposed
from .....kernel_ir.phase import PANEL_COLUMNS
from ...mma.tile_sizes import ALIGNMENT, MBARRIER_BYTES, ROWS, SWIZZLE_BYTES, TMA_RANK, WARP_ROWS, WARPGROUP
from ...schedule_base import Extents, Schedule
from .wgmma_kinds import KINDS, WgmmaKind

PANEL = PANEL_COLUMNS  # columns that the epilogue finishes, folds and stores at a time
CONSUMER_REGISTERS = 232  # of a thread
STAGING = 2  # panels of outputs that a warpgroup holds in shared memory
GROUP_ROWS = 2048  # rows of tiles that are worked on together, so that the L2 holds their operands
STAGED = ("float16", "bfloat16", "float32")  # dtypes of outputs that are stored by TMA
WORD_BYTES = 4  # of a warpgroup in shared memory, to share a flag


@dataclass(frozen=True)
class Sm90MatmulSchedule(Schedule):
    """Schedule of a warp-specialised product: a producer warpgroup, and consumer warpgroups of 64 rows each.

    Cooperative: the consumers work on one tile. Ping-pong: each has tiles of its own, and finishes one while another
    multiplies.

    Operands are numbered: those with the rows, then those with the columns. `pairs` are the operands of each product.
    If it is `turned`, rows are the columns of the result.
    """

    warpgroups: int  # consumers of a tile, which has 64 rows for each
    pingpong: int  # tiles that consumers of the block work on at once
    columns: int  # of a tile, and of each product
    stages: int  # K-slices of all operands in shared memory
    cluster: int  # blocks with neighbouring rows, which share the columns' operands
    pairs: tuple[tuple[int, int], ...]
    majors: tuple[str, ...]  # of each operand: "k" or "mn", its contiguous axis
    tma_stores: tuple[int, ...]  # outputs, as kernel operands, that are stored by TMA
    multiple: int  # what divides the number of the result's columns: 2 where threads store pairs; 64: whole panels
    k_axes: KAxes
    dtype: str = "bfloat16"  # of the operands
    turned: bool = False
    parts: int = 1  # of float32: 2 for 3xtf32
    even_rows: bool = False  # where a thread's rows are neighbours: it stores pairs of them
    staged_stores: tuple[int, ...] = ()  # outputs whose rows begin anywhere: threads store them through shared memory
    splits: int = 1  # warpgroups that sum parts of one tile, each over some of its K-slices
    tail_columns: int = 0  # of the tiles of the last wave, if these are narrower; else 0
    group: int = 0  # neighbouring columns that are folded and finished together, if there are such; a tile has all
    group_rows: int = GROUP_ROWS  # rows of tiles that are worked on together
    widest: int = 0  # of such a narrower tile: the columns of the others, for which the ring has room
    blocks = 1
    registers: int = field(default=168, compare=False, kw_only=True)
    multiprocessors: int = field(default=0, compare=False)  # blocks that loop over tiles
    width = 1
    multiplies = True
    prefetches = True
    length_specialized = False

    @property
    def block_threads(self) -> int:
        return WARPGROUP * (self.consumers + 1)

    @property
    def consumers(self) -> int:
        """Consumer warpgroups of a block."""
        return self.warpgroups * self.pingpong

    @property
    def rows(self) -> int:
        return ROWS * self.warpgroups

    @property
    def narrow(self) -> Sm90MatmulSchedule | None:
        """The tiles of the last wave, if they are narrower than the others."""
        return (
            replace(self, columns=self.tail_columns, tail_columns=0, widest=self.columns) if self.tail_columns else None
        )

    @property
    def narrow_tiles(self) -> int:
        """Narrower tiles in place of one."""
        return self.columns // self.tail_columns

    @property
    def lefts(self) -> int:
        """Operands with the rows."""
        return 1 + max(left for left, _ in self.pairs)

    @property
    def kind(self) -> WgmmaKind:
        return KINDS[self.dtype]

    @property
    def by_registers(self) -> bool:
        """Whether threads load the rows' operands into registers: to split them, or some are MN-major, and no
        descriptor may be."""
        return self.parts == 2 or self.pairs_rows

    @property
    def pairs_rows(self) -> bool:
        """Whether a thread's rows are neighbours, as loads of MN-major operands want them."""
        return not self.kind.reads_mn_major and "mn" in self.majors[: self.lefts]

    def oriented(self, kernel: KernelIR) -> MatmulOperands:
        """The operands as this schedule multiplies them."""
        operands = matmul_operands(kernel)
        assert operands is not None
        return transposed(operands) if self.turned else operands

    def lines(self, number: int) -> int:
        """Lines of an operand's tile along M or N."""
        return self.rows if number < self.lefts else self.columns

    def operand_bytes(self, number: int) -> int:
        """A K-slice of an operand in shared memory."""
        return self.lines(number) * SWIZZLE_BYTES

    @property
    def slice_bytes(self) -> int:
        """A K-slice of all operands."""
        return sum(map(self.operand_bytes, range(len(self.majors))))

    @property
    def stage_bytes(self) -> int:
        """A K-slice in the ring, which has room for that of any tile."""
        return replace(self, columns=self.widest, widest=0).slice_bytes if self.widest else self.slice_bytes

    def box_lines(self, number: int) -> int:
        """Lines of an operand that one TMA instruction loads."""
        if self.majors[number] == "mn":
            return self.kind.slice
        return self.rows if number < self.lefts else (self.tail_columns or self.columns) // self.cluster

    @property
    def panel(self) -> int:
        """Columns that the epilogue finishes at a time."""
        return min(PANEL, self.columns)

    @property
    def staging_bytes(self) -> int:
        """Shared memory of a warpgroup's outputs on their way."""
        return (STAGING if self.tma_stores else 1 if self.staged_stores else 0) * ROWS * PANEL * 2

    @property
    def smem_bytes(self) -> int:
        barriers = 2 * MBARRIER_BYTES * self.stages + WORD_BYTES * self.consumers
        tiles = self.stages * self.stage_bytes + 2 * self.small_bytes
        return ALIGNMENT + tiles + self.consumers * self.staging_bytes + barriers

    @property
    def small_bytes(self) -> int:
        """The smaller parts of a K-slice of the columns' operands; two slices have some."""
        return sum(map(self.operand_bytes, range(self.lefts, len(self.majors)))) if self.parts == 2 else 0

    @property
    def part_bytes(self) -> int:
        """Partial sums of a tile in global memory."""
        return 4 * self.rows * self.columns * len(self.pairs)

    def starts_early(self, kernel: KernelIR) -> bool:
        """Whether all that it multiplies are arguments of the call. Measured on H100 and H200: such products gain 1 to
        2 %, those of what the launch before computes lose 1 to 3 %."""
        operands = self.oriented(kernel)
        return self.prefetches and {*operands.left, *operands.right} <= set(kernel.given)

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        tiles = clusters_of_tiles(self, self.oriented(kernel), extents)
        blocks = min(tiles * self.splits, self.multiprocessors // self.cluster) * self.cluster
        return LaunchConfig(
            blocks,
            self.block_threads,
            self.smem_bytes,
            cluster=self.cluster,
            exclusive=True,
            workspace=tiles * self.splits * self.part_bytes if self.splits > 1 else 0,
            semaphores=tiles * self.warpgroups if self.splits > 1 else 0,
        )

    def with_parameters(self, kernel: KernelIR, extents: Extents) -> MatmulKernel:
        parts = {f.name: getattr(kernel, f.name) for f in dataclasses.fields(KernelIR)}
        parts |= dict.fromkeys(("workspace", "semaphores"), self.splits > 1)
        return MatmulKernel(**parts, tma_boxes=tma_boxes(self, kernel))


def clusters_of_tiles(schedule: Sm90MatmulSchedule, operands: MatmulOperands, extents: Extents) -> int:
    """The tiles of a call, or clusters of them."""
    tiles = row_units(schedule, operands, extents) * tiles_across(schedule, operands, extents)
    return tiles * extent(operands.axes.batch, extents)


def row_units(schedule: Sm90MatmulSchedule, operands: MatmulOperands, extents: Extents) -> int:
    """Tiles of a cluster, along the rows."""
    return -(-extent(operands.axes.rows, extents) // (schedule.rows * schedule.cluster))


def tiles_across(schedule: Sm90MatmulSchedule, operands: MatmulOperands, extents: Extents) -> int:
    """Tiles along the columns."""
    return -(-extent(operands.axes.columns, extents) // schedule.columns)


def k_slices(schedule: Sm90MatmulSchedule, extents: Extents) -> int:
    """The K-slices of a tile."""
    return -(-schedule.k_axes.steps(extents, schedule.kind.slice) // schedule.kind.slice)


def tma_boxes(schedule: Sm90MatmulSchedule, kernel: KernelIR) -> tuple[TmaBox | ImageBox, ...]:
    """The boxes of the operands, in their order, then of the outputs: 128 bytes wide, as deep as one load takes."""
    operands, s = schedule.oriented(kernel), schedule
    boxes: list[TmaBox | ImageBox] = []
    tf32, inner_k = s.dtype == "float32" and s.parts == 1, s.k_axes.inner
    for number, k in enumerate((*operands.left, *operands.right)):
        own = operands.axes.rows[0] if number < s.lefts else operands.axes.columns[0]
        if kernel.operands[k].image:
            boxes.append(ImageBox(k, s.kind.slice, s.box_lines(number), tf32))
            continue
        inner, across = (inner_k, own) if s.majors[number] == "k" else (own, inner_k)
        boxes.append(replace(tma_box(kernel, k, inner, across, s.box_lines(number)), tf32=tf32))
    for k in s.tma_stores:
        boxes.append(tma_box(kernel, k, operands.axes.columns[0], operands.axes.rows[0], WARP_ROWS))
    return tuple(boxes)


def tma_axes(kernel: KernelIR, k: int) -> tuple[int, ...]:
    """The axes of an operand's tensor map, from the contiguous one outwards: first those of a tile."""
    operand = kernel.operands[k]
    varying = [a for a, stride in enumerate(operand.strides) if stride != "0" and a != operand.near]
    return (operand.near, *reversed(varying))


def is_stored_by_tma(kernel: KernelIR, operands: MatmulOperands, k: int) -> bool:
    """Whether TMA stores panels of an output: floats of at most 32 bits, contiguous columns, every row aligned."""
    operand = kernel.operands[k]
    near = operand.near == operands.axes.columns[0] and operand.near_access == "vector"
    varies = operand.strides[operands.axes.rows[0]] != "0"
    return operand.dtype.name in STAGED and near and varies and len(tma_axes(kernel, k)) <= TMA_RANK


def is_staged(kernel: KernelIR, operands: MatmulOperands, k: int) -> bool:
    """Whether threads store an output through shared memory: 16 bits, contiguous columns, rows that begin anywhere."""
    operand = kernel.operands[k]
    near = operand.near == operands.axes.columns[0] and operand.near_access != "vector"
    return operand.dtype.name in ("float16", "bfloat16") and near and operand.strides[operands.axes.rows[0]] != "0"


def tma_box(kernel: KernelIR, k: int, inner: int, across: int, lines: int) -> TmaBox:
    """A box of so many lines, each a swizzled row."""
    axes, width = tma_axes(kernel, k), SWIZZLE_BYTES // kernel.operands[k].dtype.itemsize
    return TmaBox(k, axes, tuple({inner: width, across: lines}.get(a, 1) for a in axes))
