"""Schedule of attention on sm_90: TMA producer, wgmma consumers, persistent blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import prod
from typing import Protocol

from ....hardware import Hardware
from ....kernel_ir.attention_operands import ABSENT, AttentionOperands, loaded_operand, operands_of, scheduled_operands
from ....kernel_ir.kernel import AttentionKernel, TmaBox
from ....kernel_ir.launch_config import LaunchConfig
from ..mma.tile_sizes import ALIGNMENT, MBARRIER_BYTES, ROWS, SWIZZLE_ELEMENTS, TMA_RANK, WARP_ROWS, WARPGROUP
from ..schedule_base import Extents, Schedule
from .sm90_tile_shape import tile_shape

MOST_HEAD_DIM = 256  # columns of one wgmma
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
    persistent_blocks: int = field(default=0, compare=False)  # blocks that loop over work tiles; 0: one block a tile
    blocks = 1
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


def bias_operand(kernel: AttentionKernel, query_axis: int) -> int | None:
    """The bias: an operand with a 16-bit element for each score, which TMA can load."""
    for body in kernel.attention.mask_inputs:
        k = loaded_operand(kernel, body)
        loads_by_tma = k is not None and _tma_takes(kernel, k, kernel.kv_axis, query_axis)
        if k is not None and loads_by_tma and kernel.operands[k].strides[query_axis] == "s":
            return k
    return None


def tma_store_operand(kernel: AttentionKernel, query_axis: int) -> tuple[int, int] | None:
    """The 16-bit output operand that TMA can store, and the axis along its rows."""
    for epilogue in kernel.attention.epilogues:
        for k in (store.operand for store in epilogue.stores):
            if _tma_takes(kernel, k, epilogue.axis, query_axis) and kernel.operands[k].strides[query_axis] == "s":
                return k, epilogue.axis
    return None


def _operands_supported(kernel: AttentionKernel, operands: AttentionOperands) -> bool:
    """True if TMA and wgmma take these arrays."""
    score, output = kernel.attention.scores[0], kernel.attention.weighted_sums[0]
    inner = {operands.q: score.axis, operands.k: score.axis, operands.v: output.axis}
    outer = {operands.q: operands.query_axis}
    return (
        not operands.paged
        and kernel.operands[operands.q].strides[operands.query_axis] != "0"
        and len({kernel.operands[k].dtype for k in inner}) == 1
        and all(_tma_takes(kernel, k, axis, outer.get(k, kernel.kv_axis)) for k, axis in inner.items())
    )


def _tma_takes(kernel: AttentionKernel, k: int, inner: int, rows: int) -> bool:
    """True if TMA takes boxes of an operand with 16-bit elements: contiguous along `inner`, with rows along `rows`.

    Rows that are all the same, at a stride of 0, are no box.
    """
    operand = kernel.operands[k]
    aligned = operand.strides[inner] == "1" and operand.strides[rows] != "0" and operand.access == "vector"
    return (
        operand.dtype.name in ("float16", "bfloat16") and aligned and len(_tma_axes(kernel, k, inner, rows)) <= TMA_RANK
    )


def _tma_axes(kernel: AttentionKernel, k: int, inner: int, rows: int) -> tuple[int, ...]:
    """The axes of an operand's tensor map, from the innermost outwards; `rows` is that of a box's rows."""
    strides = kernel.operands[k].strides
    return (inner, *(a for a in reversed(range(kernel.axes)) if a != inner and (strides[a] != "0" or a == rows)))


def schedule_sm90(kernel: AttentionKernel, extents: Extents, hardware: Hardware) -> Sm90AttentionSchedule | None:
    """The schedule of attention on sm_90; None if the card, the operands or the shared memory do not allow it."""
    operands, body = operands_of(kernel), kernel.attention
    if operands is None or operands.v == ABSENT or hardware.cc[0] != 9 or not _operands_supported(kernel, operands):
        return None
    head_dim, head_dim_v = extents[body.scores[0].axis], extents[body.weighted_sums[0].axis]
    if head_dim % 8 or head_dim_v % 8 or max(head_dim, head_dim_v) > MOST_HEAD_DIM:
        return None
    if extents[kernel.kv_axis] // COLUMNS_AFTER_SPILL[-1] >= MOST_TILES:
        return None
    has_bias = bias_operand(kernel, operands.query_axis) is not None
    warpgroups, columns, stages = tile_shape(head_dim, head_dim_v, has_bias, kernel)
    lazy = warpgroups < 3 or body.block_mask is None  # three warpgroups have no registers for it beside a mask
    base = Sm90AttentionSchedule(
        columns, warpgroups, stages, head_dim, head_dim_v, pingpong=warpgroups > 1, lazy_rescale=lazy
    )
    staged = [replace(base, q_stages=n, bias_stages=m) for n, m in (STAGES if has_bias else STAGES_WITHOUT_BIAS)]
    # persistent blocks cache bounds in shared memory as 32-bit words
    bounds_are_32_bit = all(bounds.lower.dtype.bits <= 32 for bounds in kernel.kv_bounds)
    candidates = [replace(s, persistent_blocks=hardware.multiprocessors) for s in staged if bounds_are_32_bit]
    candidates += [s for s in staged if kernel.kv_bounds and s.q_stages == 1]  # not persistent: bounds are not cached

    def fits(schedule: Sm90AttentionSchedule) -> bool:
        return _most_smem_bytes(schedule, kernel, extents) <= hardware.block_shared

    schedule = next(filter(fits, candidates), None)
    if schedule is None:
        return None
    with_tma_store = replace(schedule, tma_store=tma_store_operand(kernel, operands.query_axis) is not None)
    schedule = with_tma_store if fits(with_tma_store) else schedule
    blocks = _work_tiles(schedule, kernel, extents)
    if blocks >= 1 << 31:
        return None
    reason = (
        f"scores stay in registers: {blocks} query tiles of {schedule.rows} rows, key tiles of {columns}; a producer "
        f"warpgroup loads {stages} tiles ahead, {warpgroups} consumer warpgroups share the tensor cores in ping-pong"
        f"{'; outputs are stored by TMA' if schedule.tma_store else ''}"
    )
    return replace(schedule, reason=reason, registers=hardware.registers // schedule.block_threads // 8 * 8)


def with_columns(
    kernel: AttentionKernel, schedule: Sm90AttentionSchedule, columns: int
) -> tuple[AttentionKernel, Sm90AttentionSchedule]:
    """The same kernel with key tiles of so many columns."""
    schedule = replace(schedule, columns=columns, after_spill=True)
    return replace(kernel, tma_boxes=tma_boxes(schedule, kernel)), schedule


def tma_boxes(schedule: Sm90AttentionSchedule, kernel: AttentionKernel) -> tuple[TmaBox, ...]:
    """TMA boxes of the operands, 64 elements wide: tiles of q, k, v and bias; the last, 16 output rows of a warp."""
    operands, body = scheduled_operands(kernel), kernel.attention
    query_axis, kv_axis = operands.query_axis, kernel.kv_axis
    boxes = [
        (operands.q, body.scores[0].axis, query_axis, schedule.rows),
        (operands.k, body.scores[0].axis, kv_axis, schedule.columns),
        (operands.v, body.weighted_sums[0].axis, kv_axis, schedule.columns),
    ]
    if schedule.bias_stages and (bias := bias_operand(kernel, query_axis)) is not None:
        boxes.append((bias, kv_axis, query_axis, schedule.rows))
    if schedule.tma_store and (output := tma_store_operand(kernel, query_axis)) is not None:
        boxes.append((*output, query_axis, WARP_ROWS))
    return tuple(_tma_box(kernel, *box) for box in boxes)


def _tma_box(kernel: AttentionKernel, k: int, inner: int, row_axis: int, rows: int) -> TmaBox:
    axes = _tma_axes(kernel, k, inner, row_axis)
    return TmaBox(k, axes, tuple({inner: SWIZZLE_ELEMENTS, row_axis: rows}.get(a, 1) for a in axes))


def block_mask_words(schedule: AttentionTiling, kernel: AttentionKernel, extents: Extents) -> int:
    """32-bit words of the block mask: as many for any active as for all active."""
    tiles = -(-extents[kernel.kv_axis] // schedule.columns)
    return -(-tiles // 32) if kernel.kv_bounds else 0


def bounds_bytes(schedule: AttentionTiling, kernel: AttentionKernel, extents: Extents) -> int:
    """Shared memory of the bounds along the kv axis."""
    tiles = -(-extents[kernel.kv_axis] // schedule.columns)
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


def sm90_smem_bytes(schedule: Sm90AttentionSchedule, kernel: AttentionKernel, extents: Extents) -> int:
    """Dynamic shared memory of a block, with the alignment of its start."""
    words = -(-extents[kernel.kv_axis] // (32 * schedule.columns)) if kernel.attention.block_mask else 0
    mask = 8 * words * (WORK_INFOS if schedule.persistent_blocks else 1)
    mask += bounds_bytes(schedule, kernel, extents) if schedule.persistent_blocks else 0
    return ALIGNMENT + smem_offsets(schedule, kernel)["block_mask_at"] + mask


def _most_smem_bytes(schedule: Sm90AttentionSchedule, kernel: AttentionKernel, extents: Extents) -> int:
    """Shared memory of a block, also for the narrower key tiles after a spill."""
    narrowest = min(schedule.columns, COLUMNS_AFTER_SPILL[-1])
    return max(sm90_smem_bytes(replace(schedule, columns=n), kernel, extents) for n in (schedule.columns, narrowest))


def _work_tiles(schedule: Sm90AttentionSchedule, kernel: AttentionKernel, extents: Extents) -> int:
    """The number of work tiles."""
    operands = scheduled_operands(kernel)
    outer = prod(n for a, n in enumerate(extents[: kernel.row_axes]) if a != operands.query_axis)
    return outer * -(-extents[operands.query_axis] // schedule.rows)
