"""Schedule of products on sm_90: a TMA producer, wgmma consumers, persistent blocks, clusters that multicast."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod

from .....hardware import Hardware
from .....kernel_ir.kernel import KernelIR, MatmulKernel, TmaBox
from .....kernel_ir.launch_config import LaunchConfig
from .....kernel_ir.matmul_operands import MatmulOperands, matmul_operands, turned
from .....kernel_ir.phase import PANEL_COLUMNS
from ...mma.tile_sizes import ALIGNMENT, MBARRIER_BYTES, ROWS, SWIZZLE_BYTES, TMA_RANK, WARP_ROWS, WARPGROUP
from ...schedule_base import Extents, Schedule
from .clocks import clusters_of_tiles, predicted_clocks
from .tensor_maps import is_stored_by_tma, tma_axes, tma_box
from .wgmma_kinds import KINDS, WgmmaKind, wgmma_kind

PANEL = PANEL_COLUMNS  # columns that the epilogue finishes, folds and stores at a time
MOST_SUMS = 256  # columns of accumulators of a warpgroup, over all products
MOST_STAGES = 8
STAGING = 2  # panels of outputs that a warpgroup holds in shared memory
WORD_BYTES = 4  # of a warpgroup in shared memory, to share a flag
SPLITS = (2, 3, 4, 6, 8)
LEAST_SLICES = 8  # of a part of a tile
LEAD = 0  # see Sm90MatmulSchedule.lead
LONGEST = 1 << 31  # rows, columns and steps are int32
COLUMNS = (256, 192, 128, 64)  # of a tile, that are tried
SHAPES = ((2, 1, 1), (2, 1, 2), (1, 2, 1), (1, 2, 2), (1, 1, 1))  # warpgroups of a tile, tiles at once, cluster
CORE_LINES = 64  # lines of boxes along K: several, where blocks share them
GROUP_ROWS = 2048  # rows of tiles that are worked on together, so that the L2 holds their operands


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
    even: bool  # the columns of the result, in number: a thread stores pairs of them
    dtype: str = "bfloat16"  # of the operands
    turned: bool = False
    splits: int = 1  # warpgroups that sum parts of one tile, each over some of its K-slices
    lead: int = 0  # K-slices that the first warpgroup of a tile is ahead of the second: their epilogues alternate
    blocks: int = 1
    reason: str = field(default="", compare=False)
    registers: int = field(default=168, compare=False)
    multiprocessors: int = field(default=0, compare=False)  # blocks that loop over tiles
    width = 1
    multiplies = True
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
    def lefts(self) -> int:
        """Operands with the rows."""
        return 1 + max(left for left, _ in self.pairs)

    @property
    def kind(self) -> WgmmaKind:
        return KINDS[self.dtype]

    @property
    def by_registers(self) -> bool:
        """Whether threads load the rows' operands into registers: some are MN-major, and no descriptor may be."""
        return not self.kind.reads_mn_major and "mn" in self.majors[: self.lefts]

    def oriented(self, kernel: KernelIR) -> MatmulOperands:
        """The operands as this schedule multiplies them."""
        operands = matmul_operands(kernel)
        assert operands is not None
        return turned(operands) if self.turned else operands

    def lines(self, number: int) -> int:
        """Lines of an operand's tile along M or N."""
        return self.rows if number < self.lefts else self.columns

    def operand_bytes(self, number: int) -> int:
        """A K-slice of an operand in shared memory."""
        return self.lines(number) * SWIZZLE_BYTES

    @property
    def stage_bytes(self) -> int:
        return sum(map(self.operand_bytes, range(len(self.majors))))

    @property
    def panel(self) -> int:
        """Columns that the epilogue finishes at a time."""
        return min(PANEL, self.columns)

    @property
    def staging_bytes(self) -> int:
        """Shared memory of a warpgroup's outputs on their way."""
        return STAGING * ROWS * PANEL * 2 if self.tma_stores else 0

    @property
    def smem_bytes(self) -> int:
        barriers = 2 * MBARRIER_BYTES * self.stages + WORD_BYTES * self.consumers
        return ALIGNMENT + self.stages * self.stage_bytes + self.consumers * self.staging_bytes + barriers

    @property
    def part_bytes(self) -> int:
        """Partial sums of a tile in global memory."""
        return 4 * self.rows * self.columns * len(self.pairs)

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


def schedule_sm90(kernel: KernelIR, extents: Extents, hardware: Hardware) -> Sm90MatmulSchedule | None:
    """The schedule of products on sm_90; None if the card, the operands or their layouts do not allow it."""
    operands = matmul_operands(kernel)
    if hardware.cc[0] != 9 or operands is None or not _fits(kernel, operands, extents):
        return None
    possible = list(candidates(kernel, operands, extents, hardware))
    if not possible and not kernel.phases[0].panel_folds:
        operands = turned(operands)
        possible = [replace(s, turned=True) for s in candidates(kernel, operands, extents, hardware)]
    if not possible:
        return None
    possible += [part for s in possible for part in parts(s, operands, extents)]
    best = min(possible, key=lambda s: predicted_clocks(s, kernel, operands, extents, hardware))
    tiles = clusters_of_tiles(best, operands, extents) * best.cluster
    reason = (
        f"matrix product by wgmma: {tiles} tiles of {best.rows} × {best.columns}, {best.stages} K-slices of "
        f"{best.kind.slice} loaded ahead by TMA"
        f"{', turned, with the rows in registers' if best.turned else ''}"
        f"{f', clusters of {best.cluster} share what they load' if best.cluster > 1 else ''}"
        f"{f', {best.splits} parts of each sum are added in order' if best.splits > 1 else ''}"
    )
    return replace(best, reason=reason)


def _fits(kernel: KernelIR, operands: MatmulOperands, extents: Extents) -> bool:
    """Whether TMA and wgmma take these operands: a dtype that wgmma multiplies, one axis on each side."""
    axes, phase = operands.axes, kernel.phases[0]
    everyone = (*operands.left, *operands.right)
    return (
        kernel.column_axes == len(axes.rows) == len(axes.columns) == 1
        and not kernel.is_subkernel
        and kernel.batched is None
        and 0 not in extents
        and prod(extents) < LONGEST * LONGEST
        and max(extents) < LONGEST
        and wgmma_kind(kernel, everyone) is not None
        and all(kernel.operands[k].near_access == "vector" for k in everyone)
        and all(kernel.operands[k].near in (kernel.row_axes, *axes.rows, *axes.columns) for k in everyone)
        and all(len(tma_axes(kernel, k)) <= TMA_RANK for k in everyone)
        and (phase.panel_folds is None or (phase.panel_folds.axis,) == axes.columns)
    )


def candidates(
    kernel: KernelIR, operands: MatmulOperands, extents: Extents, hardware: Hardware
) -> Iterator[Sm90MatmulSchedule]:
    """The schedule for each size and form of a tile that the multiprocessors have room for."""
    lefts, rights = operands.left, operands.right
    kind = wgmma_kind(kernel, (*lefts, *rights))
    assert kind is not None
    pairs = tuple((lefts.index(a), len(lefts) + rights.index(b)) for a, b in operands.pairs)
    k_axis = kernel.row_axes
    majors = tuple("k" if kernel.operands[k].near == k_axis else "mn" for k in (*lefts, *rights))
    stores = tuple(
        store.operand for store in kernel.phases[0].row_stores if is_stored_by_tma(kernel, operands, store.operand)
    )
    even = extents[operands.axes.columns[0]] % 2 == 0
    for columns in COLUMNS:
        if columns * len(pairs) > MOST_SUMS:
            continue
        for warpgroups, pingpong, cluster in SHAPES:
            one = Sm90MatmulSchedule(
                *(warpgroups, pingpong, columns, MOST_STAGES, cluster, pairs, majors, stores, even, kind.dtype),
                multiprocessors=hardware.multiprocessors,
            )
            if one.by_registers:
                one = replace(one, tma_stores=())
            if not _is_loaded_in_boxes(one):
                continue
            room = hardware.block_shared - one.smem_bytes + MOST_STAGES * (one.stage_bytes + 2 * MBARRIER_BYTES)
            stages = min(MOST_STAGES, room // (one.stage_bytes + 2 * MBARRIER_BYTES))
            if stages >= 2:
                yield with_lead(replace(one, stages=stages), LEAD)


def with_lead(s: Sm90MatmulSchedule, lead: int) -> Sm90MatmulSchedule:
    """The schedule with this lead, as far as it has two warpgroups on a tile, and stages for what the second awaits."""
    return replace(s, lead=min(lead, s.stages - 1) if s.warpgroups == 2 else 0)


def _is_loaded_in_boxes(s: Sm90MatmulSchedule) -> bool:
    """Whether wgmma finds the operands where TMA brings them: whole boxes, of columns along K unless they are of 16
    bits."""
    for number, major in enumerate(s.majors):
        is_column = number >= s.lefts
        if major == "mn" and is_column and not s.kind.reads_mn_major:
            return False
        box = s.kind.slice if major == "mn" else CORE_LINES
        if s.lines(number) % (box * (s.cluster if is_column else 1)):
            return False
    return True


def parts(s: Sm90MatmulSchedule, operands: MatmulOperands, extents: Extents) -> Iterator[Sm90MatmulSchedule]:
    """The schedule with several parts of each tile, where there are few tiles."""
    slices = -(-extents[-1] // s.kind.slice)
    if s.cluster > 1 or s.pingpong > 1 or clusters_of_tiles(s, operands, extents) >= s.multiprocessors:
        return
    for splits in SPLITS:
        each = -(-slices // splits)
        if each >= LEAST_SLICES and (splits - 1) * each < slices:
            yield replace(s, splits=splits)


def tma_boxes(schedule: Sm90MatmulSchedule, kernel: KernelIR) -> tuple[TmaBox, ...]:
    """The boxes of the operands, in their order, then of the outputs: 128 bytes wide, as deep as one load takes."""
    operands, s = schedule.oriented(kernel), schedule
    boxes = []
    for number, k in enumerate((*operands.left, *operands.right)):
        own = operands.axes.rows[0] if number < s.lefts else operands.axes.columns[0]
        lines = s.rows if number < s.lefts else s.columns // s.cluster
        inner, across = (kernel.row_axes, own) if s.majors[number] == "k" else (own, kernel.row_axes)
        box = tma_box(kernel, k, inner, across, lines if s.majors[number] == "k" else s.kind.slice)
        boxes.append(replace(box, tf32=s.dtype == "float32"))
    for k in s.tma_stores:
        boxes.append(tma_box(kernel, k, operands.axes.columns[0], operands.axes.rows[0], WARP_ROWS))
    return tuple(boxes)
