"""Schedule of attention on sm_90: TMA producer, wgmma consumers, persistent blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import prod
from typing import Protocol

from ....hardware import Hardware
from ....kernel_ir.attention import AttentionBody
from ....kernel_ir.attention_operands import ABSENT, AttentionOperands, loaded_operand, operands_of
from ....kernel_ir.kernel import AttentionKernel, TmaBox
from ....kernel_ir.launch_config import LaunchConfig
from ..schedule_base import Extents, Schedule
from .sm90_tile_shape import tile_shape

ROWS, WARP_ROWS = 64, 16  # query rows of a warpgroup, and of a warp
WARPGROUP = 128  # threads
SWIZZLE_ELEMENTS = 64  # of 16 bits in a swizzled row of 128 bytes
MOST_HEAD_DIM = 256  # columns of one wgmma
TMA_RANK = 5  # axes of a tensor map
ALIGNMENT = 1024
MBARRIER_BYTES = 8  # bytes of an mbarrier
SCHEDULER_BYTES = 16  # of the tile scheduler's state
WORK_INFOS, TILE_INFOS = 4, 8  # slots of work infos and tile infos, published by the producer
MOST_TILES = 1 << 23  # key tiles: a tile info has 23 bits for their index
COLUMNS_AFTER_SPILL = (96, 64, 48, 32)  # key tile widths to try if registers spilled
L2_GROUP_BYTES = 32 << 20  # k and v bytes of an L2 group of work tiles (measured on an H200)
STAGES_WITHOUT_BIAS = ((2, 0), (1, 0))  # (q stages, bias stages), the best first
STAGES = ((2, 2), (1, 2), (2, 1), (1, 1), *STAGES_WITHOUT_BIAS)


class AttentionTiling(Protocol):
    """Tiling of attention: a block of `block_threads` threads has `rows` queries, and key tiles of `columns`;
    `head_dim` is the length of a q·k sum, `head_dim_v` that of an output row."""

    @property
    def block_threads(self) -> int: ...

    @property
    def rows(self) -> int: ...

    @property
    def columns(self) -> int: ...

    @property
    def head_dim(self) -> int: ...

    @property
    def head_dim_v(self) -> int: ...


@dataclass(frozen=True)
class Sm90AttentionSchedule(Schedule):
    """Schedule of a warp-specialised kernel: a producer warpgroup, and consumer warpgroups of 64 query rows each."""

    columns: int  # keys of a tile
    consumer_warpgroups: int
    kv_stages: int  # tiles of k, and of v, in shared memory
    head_dim: int  # length of a q·k sum
    head_dim_v: int  # columns of the output
    q_stages: int = 1
    bias_stages: int = 0  # 0: no bias that is loaded by TMA
    tma_store: bool = False  # outputs are stored through shared memory by TMA
    pingpong: bool = True  # warpgroups start their products in turn
    lazy_rescale: bool = False  # references may stay below the row maximum, so that outputs are seldom rescaled
    after_spill: bool = False  # registers spilled with more columns
    reason: str = field(default="", compare=False)
    registers: int = field(default=0, compare=False)
    persistent_blocks: int = field(default=0, compare=False)  # blocks that loop over work tiles; 0: one block a tile
    blocks: int = 1
    width = 1
    tensor_cores = wgmma = True
    num_splits = 1
    packed_gqa_axis = None
    tile_unit = ROWS  # tiles are padded to so many query rows

    @property
    def block_threads(self) -> int:
        return WARPGROUP * (self.consumer_warpgroups + 1)

    @property
    def rows(self) -> int:
        return ROWS * self.consumer_warpgroups

    def tile_bytes(self, lines: int, width: int) -> int:
        """Shared memory of so many lines."""
        return -(-width // SWIZZLE_ELEMENTS) * SWIZZLE_ELEMENTS * 2 * lines

    def config(self, kernel: AttentionKernel, extents: Extents) -> LaunchConfig:
        blocks = _work_tiles(self, kernel, extents)
        blocks = min(blocks, self.persistent_blocks) if self.persistent_blocks else blocks
        return LaunchConfig(blocks, self.block_threads, sm90_smem_bytes(self, kernel, extents), exclusive=True)

    def with_parameters(self, kernel: AttentionKernel, extents: Extents) -> AttentionKernel:
        return replace(kernel, tma_boxes=tma_boxes(self, kernel))

    def lower_pressure(self, kernel: AttentionKernel) -> Iterator[tuple[AttentionKernel, Sm90AttentionSchedule]]:
        for columns in COLUMNS_AFTER_SPILL:
            if columns < self.columns:
                yield with_columns(kernel, self, columns)


def bias_operand(kernel: AttentionKernel, lane: int) -> int | None:
    """The bias: an operand with a 16-bit element for each score, which TMA can load."""
    for body in kernel.attention.mask_inputs:
        k = loaded_operand(kernel, body)
        if k is None or kernel.operands[k].dtype.name not in ("float16", "bfloat16"):
            continue
        operand, along = kernel.operands[k], kernel.row_axes
        near = operand.strides[along] == "1" and operand.strides[lane] == "s" and operand.access == "vector"
        if near and len(_tma_axes(kernel, k, along, lane)) <= TMA_RANK:
            return k
    return None


def tma_store_operand(kernel: AttentionKernel, lane: int) -> tuple[int, int] | None:
    """The 16-bit output operand that TMA can store, and the axis along its rows."""
    for ending in kernel.attention.epilogues:
        for store in ending.stores:
            operand, axis = kernel.operands[store.operand], ending.axis
            if operand.dtype.name not in ("float16", "bfloat16") or operand.access != "vector":
                continue
            near = operand.strides[axis] == "1" and operand.strides[lane] == "s"
            if near and len(_tma_axes(kernel, store.operand, axis, lane)) <= TMA_RANK:
                return store.operand, axis
    return None


def _fits(kernel: AttentionKernel, found: AttentionOperands, stream: AttentionBody) -> bool:
    """True if TMA and wgmma take these arrays."""
    score, weighing = stream.scores[0], stream.weighted_sums[0]
    inner = {found.q: score.axis, found.k: score.axis, found.v: weighing.axis}
    kinds = {kernel.operands[k].dtype for k in inner}
    if found.paged or kernel.operands[found.q].strides[found.query_axis] == "0":
        return False
    if len(kinds) != 1 or next(iter(kinds)).name not in ("float16", "bfloat16"):
        return False
    for k, axis in inner.items():
        operand = kernel.operands[k]
        if (
            operand.strides[axis] != "1"
            or operand.access != "vector"
            or len(_tma_axes(kernel, k, axis, found.query_axis if k == found.q else kernel.row_axes)) > TMA_RANK
        ):
            return False
    return True


def _tma_axes(kernel: AttentionKernel, operand: int, inner: int, along: int) -> tuple[int, ...]:
    """The axes of an operand's tensor map, from the innermost outwards; `along` is that of a box's rows."""
    letters = kernel.operands[operand].strides
    return (inner, *(a for a in reversed(range(kernel.axes)) if a != inner and (letters[a] != "0" or a == along)))


def schedule_sm90(
    kernel: AttentionKernel, extents: tuple[int, ...], hardware: Hardware
) -> Sm90AttentionSchedule | None:
    """The schedule of attention on sm_90; None if the card, the operands or the shared memory do not allow it."""
    found, stream = operands_of(kernel), kernel.attention
    if found is None or found.v == ABSENT:
        return None
    if hardware.cc[0] != 9 or not _fits(kernel, found, stream):
        return None
    width, out_width = extents[stream.scores[0].axis], extents[stream.weighted_sums[0].axis]
    if width % 8 or out_width % 8 or max(width, out_width) > MOST_HEAD_DIM:
        return None
    beside = bias_operand(kernel, found.query_axis) is not None
    groups, columns, stages = tile_shape(width, out_width, beside, kernel)
    if extents[kernel.row_axes] // COLUMNS_AFTER_SPILL[-1] >= MOST_TILES:
        return None
    lags = groups < 3 or stream.block_mask is None  # three warpgroups have no registers for it beside a mask
    least = Sm90AttentionSchedule(columns, groups, stages, width, out_width, pingpong=groups > 1, lazy_rescale=lags)
    ways = [replace(least, q_stages=n, bias_stages=m) for n, m in (STAGES if beside else STAGES_WITHOUT_BIAS)]
    fit = all(bounds.lower.dtype.bits <= 32 for bounds in kernel.kv_bounds)  # in words of shared memory
    staying = [replace(way, persistent_blocks=hardware.multiprocessors) for way in ways if fit]
    ways = [*staying, *(way for way in ways if kernel.kv_bounds and way.q_stages == 1)]
    made = next((way for way in ways if _most_smem_bytes(way, kernel, extents) <= hardware.block_shared), None)
    if made is None:
        return None
    through = replace(made, tma_store=tma_store_operand(kernel, found.query_axis) is not None)
    if _most_smem_bytes(through, kernel, extents) <= hardware.block_shared:
        made = through
    blocks = _work_tiles(made, kernel, extents)
    if blocks >= 1 << 31:
        return None
    reason = (
        f"scores stay in registers: {blocks} tiles of {made.rows} rows, {columns} scores of each at a time; a producer "
        f"warpgroup loads {stages} tiles offset_rows, {groups} take turns at products and exponentials"
        f"{'; outputs are stored by TMA' if made.tma_store else ''}"
    )
    return replace(made, reason=reason, registers=hardware.registers // made.block_threads // 8 * 8)


def with_columns(
    kernel: AttentionKernel, schedule: Sm90AttentionSchedule, columns: int
) -> tuple[AttentionKernel, Sm90AttentionSchedule]:
    """The same kernel with key tiles of so many columns."""
    schedule = replace(schedule, columns=columns, after_spill=True)
    return replace(kernel, tma_boxes=tma_boxes(schedule, kernel)), schedule


def tma_boxes(schedule: Sm90AttentionSchedule, kernel: AttentionKernel) -> tuple[TmaBox, ...]:
    """TMA boxes of the operands, 64 elements wide: tiles of q, k, v and bias; the last, 16 output rows of a warp."""
    found, stream = operands_of(kernel), kernel.attention
    assert found is not None
    made, beside = [], bias_operand(kernel, found.query_axis)
    boxes = [
        (found.q, stream.scores[0].axis, found.query_axis, schedule.rows),
        (found.k, stream.scores[0].axis, kernel.row_axes, schedule.columns),
        (found.v, stream.weighted_sums[0].axis, kernel.row_axes, schedule.columns),
    ]
    if schedule.bias_stages:
        assert beside is not None
        boxes.append((beside, kernel.row_axes, found.query_axis, schedule.rows))
    if schedule.tma_store:
        results = tma_store_operand(kernel, found.query_axis)
        assert results is not None
        boxes.append((*results, found.query_axis, WARP_ROWS))
    for operand, inner, along, lines in boxes:
        axes = _tma_axes(kernel, operand, inner, along)
        made.append(TmaBox(operand, axes, tuple({inner: SWIZZLE_ELEMENTS, along: lines}.get(a, 1) for a in axes)))
    return tuple(made)


def block_mask_words(schedule: AttentionTiling, kernel: AttentionKernel, extents: tuple[int, ...]) -> int:
    """32-bit words of the block mask: as many for any active as for all active."""
    tiles = -(-extents[kernel.row_axes] // schedule.columns)
    return -(-tiles // 32) if kernel.kv_bounds else 0


def bounds_bytes(schedule: AttentionTiling, kernel: AttentionKernel, extents: tuple[int, ...]) -> int:
    """Shared memory of the bounds along the kv axis."""
    tiles = -(-extents[kernel.row_axes] // schedule.columns)
    return 8 * len(kernel.kv_bounds) * tiles * prod(extents[a] for a in kernel.kv_bounds_axes)


def smem_offsets(schedule: Sm90AttentionSchedule, kernel: AttentionKernel) -> dict[str, int]:
    """Offsets in shared memory: tiles, their mbarriers, scheduler state, tile infos, work infos and block mask."""
    s, words = schedule, kernel.row_axes + 2  # of a work info
    sizes = {
        "q_at": s.q_stages * s.tile_bytes(s.rows, s.head_dim),
        "k_at": s.kv_stages * s.tile_bytes(s.columns, s.head_dim),
        "v_at": s.kv_stages * s.tile_bytes(s.columns, s.head_dim_v),
        "bias_at": s.bias_stages * s.tile_bytes(s.rows, s.columns),
        "output_at": s.tile_bytes(s.rows, s.head_dim_v) if s.tma_store else 0,
    }
    for name, stages in {"q": s.q_stages, "bias": s.bias_stages, "work": 1, "k": s.kv_stages, "v": s.kv_stages}.items():
        sizes |= dict.fromkeys((f"{name}_full", f"{name}_empty"), MBARRIER_BYTES * stages)
    sizes |= {"scheduler_at": SCHEDULER_BYTES, "tile_infos_at": 4 * TILE_INFOS, "work_infos_at": 4 * WORK_INFOS * words}
    offsets = dict(zip((*sizes, "block_mask_at"), accumulate(sizes.values(), initial=0)))
    return {name: offset for name, offset in offsets.items() if sizes.get(name, 1)}


def sm90_smem_bytes(schedule: Sm90AttentionSchedule, kernel: AttentionKernel, extents: tuple[int, ...]) -> int:
    """Dynamic shared memory of a block, with the alignment of its start."""
    words = -(-extents[kernel.row_axes] // (32 * schedule.columns)) if kernel.attention.block_mask else 0
    classes = 8 * words * (WORK_INFOS if schedule.persistent_blocks else 1)
    classes += bounds_bytes(schedule, kernel, extents) if schedule.persistent_blocks else 0
    return ALIGNMENT + smem_offsets(schedule, kernel)["block_mask_at"] + classes


def _most_smem_bytes(schedule: Sm90AttentionSchedule, kernel: AttentionKernel, extents: tuple[int, ...]) -> int:
    """Shared memory of a block, also for the narrower key tiles after a spill."""
    least = min(schedule.columns, COLUMNS_AFTER_SPILL[-1])
    return max(sm90_smem_bytes(replace(schedule, columns=n), kernel, extents) for n in (schedule.columns, least))


def _work_tiles(schedule: Sm90AttentionSchedule, kernel: AttentionKernel, extents: tuple[int, ...]) -> int:
    """The number of work tiles."""
    found = operands_of(kernel)
    assert found is not None
    others = prod(n for a, n in enumerate(extents[: kernel.row_axes]) if a != found.query_axis)
    return others * -(-extents[found.query_axis] // schedule.rows)
