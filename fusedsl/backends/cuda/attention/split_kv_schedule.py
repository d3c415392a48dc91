"""Split-KV schedule (flash decoding): few query rows over many keys; several small blocks share a work tile's keys.

Reading k and v once dominates: bytes in flight count. So blocks have one or a few warps, as many as fit, each with a
split of the keys. Each stores its partial state in the workspace; the last of eight neighbours combines theirs, the
last of eight such combines these, and so on, always in the same order.
"""

from __future__ import annotations

from dataclasses import replace

from ....hardware import Hardware, registers_for
from ....kernel_ir.attention_operands import ABSENT, AttentionOperands, operands_of
from ....kernel_ir.kernel import AttentionKernel
from ..schedule_base import Extents
from .mma_schedule import ROWS, MmaAttentionSchedule, block_mask_bytes, mma_schedule, paged_reason, work_tiles

COLUMNS = 64  # keys of a tile
PROLOGUE_TILES = 1  # time of a split's prologue, in key tiles
COMBINE_FAN_IN = 8  # splits that one block combines, which takes as long as a key tile
MOST_WARPS = 8  # on an SM, of 255 registers a thread
MOST_ROWS, MOST_PACKED = 64, 128  # query rows of a head, and with those of other heads packed
PACKED_WIDTH = 192  # wider outputs leave no registers for eight warps


def schedule_split_kv(kernel: AttentionKernel, extents: Extents, hardware: Hardware) -> MmaAttentionSchedule | None:
    """The split-KV schedule of attention with few query rows on tensor cores; None for others."""
    operands = operands_of(kernel)
    if operands is None or operands.v == ABSENT or kernel.attention.combine_splits is None:
        return None
    if extents[operands.query_axis] > MOST_ROWS:
        return None
    if kernel.batch_invariant_width:  # batch-invariant: a row's result may not depend on the number of rows
        return None
    packed = _packed_gqa_axis(kernel, extents, operands)
    rows = extents[operands.query_axis] * (1 if packed is None else extents[packed])
    warps = next(w for w in (1, 2, 4, 8) if rows <= w * ROWS)
    schedule = mma_schedule(kernel, extents, hardware, warps, COLUMNS)
    if schedule is None or not schedule.tensor_cores or (packed is not None and not schedule.cp_async[0]):
        return None
    schedule = replace(schedule, packed_gqa_axis=packed)
    work, tiles = work_tiles(schedule, kernel, extents), -(-extents[kernel.row_axes] // schedule.columns)
    unpacked = packed is None and extents[operands.query_axis] > ROWS
    if work >= 1 << 31 or (unpacked and work >= hardware.multiprocessors):
        return None
    shared = schedule.smem_offsets["block_mask_at"] + block_mask_bytes(schedule, kernel, extents)
    slots = hardware.multiprocessors * max(1, min(MOST_WARPS // warps, hardware.shared // shared))
    splits = num_splits(work, tiles, slots)
    block = "warps" if warps == 1 else f"blocks of {warps} warps"
    shares = (
        f"{splits} {block} share the {tiles} key tiles of each" if splits > 1 else f"{block}, all key tiles of one each"
    )
    sizes = f"{work} query tiles of up to {schedule.rows} rows, key tiles of {schedule.columns}"
    sizes += f", {rows} rows of {extents[packed]} query heads packed" if packed is not None else ""
    reason = f"scores stay in registers: {sizes}; {shares}{paged_reason(operands)}"
    registers = registers_for(hardware, schedule.blocks, schedule.block_threads)
    return replace(schedule, num_splits=splits, is_split_kv=splits > 1, registers=registers, reason=reason)


def _packed_gqa_axis(kernel: AttentionKernel, extents: Extents, operands: AttentionOperands) -> int | None:
    """The axis of query heads with the same keys, whose rows share a query tile (packed GQA)."""
    limit = MOST_PACKED if extents[kernel.attention.weighted_sums[0].axis] <= PACKED_WIDTH else MOST_ROWS
    for axis in reversed(kernel.attention.query_axes):
        if axis != operands.query_axis and 1 < extents[axis] <= limit // extents[operands.query_axis]:
            return axis
    return None


def num_splits(work: int, tiles: int, slots: int) -> int:
    """The number of splits of each of `work` work tiles of `tiles` key tiles; `slots` blocks run at once."""

    def time(splits: int) -> float:
        waves = -(-work * splits // slots)
        return waves * (-(-tiles // splits) + PROLOGUE_TILES) + combine_levels(splits)

    limit = max(1, min(tiles // 2, slots))
    candidates = {1} | {max(1, min(limit, waves * slots // work)) for waves in (1, 2, 3, 4)}
    return min(sorted(candidates | {min(limit, 1 << k) for k in range(12)}), key=time)


def combine_levels(splits: int) -> int:
    """How many levels combine the partial states of so many splits."""
    return 0 if splits == 1 else 1 + combine_levels(-(-splits // COMBINE_FAN_IN))
