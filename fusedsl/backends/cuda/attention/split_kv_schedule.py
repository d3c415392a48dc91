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
from .mma_schedule import ROWS, MmaAttentionSchedule, block_mask_bytes, mma_schedule, paged_reason, work_tiles

COLUMNS = 64  # keys of a tile
PROLOGUE_TILES = 1  # time of a split's prologue, in key tiles
COMBINE_FAN_IN = 8  # splits that one block combines, which takes as long as a key tile
MOST_WARPS = 8  # on an SM, of 255 registers a thread
MOST_ROWS, MOST_PACKED = 64, 128  # query rows of a head, and with those of other heads packed
PACKED_WIDTH = 192  # wider outputs leave no registers for eight warps


def schedule_split_kv(
    kernel: AttentionKernel, extents: tuple[int, ...], hardware: Hardware
) -> MmaAttentionSchedule | None:
    """The split-KV schedule of attention with few query rows on tensor cores; None for others."""
    found = operands_of(kernel)
    if found is None or found.v == ABSENT or kernel.attention.combine_splits is None:
        return None
    if extents[found.query_axis] > MOST_ROWS:
        return None
    if kernel.batch_invariant_width:  # batch-invariant: a row's result may not depend on the number of rows
        return None
    packed = _packed_gqa_axis(kernel, extents, found)
    rows = extents[found.query_axis] * (1 if packed is None else extents[packed])
    warps = next(w for w in (1, 2, 4, 8) if rows <= w * ROWS)
    made = mma_schedule(kernel, extents, hardware, warps, COLUMNS)
    if made is None or not made.tensor_cores or (packed is not None and not made.cp_async[0]):
        return None
    made = replace(made, packed_gqa_axis=packed)
    items, tiles = work_tiles(made, kernel, extents), -(-extents[kernel.row_axes] // made.columns)
    alone = packed is None and extents[found.query_axis] > ROWS
    if items >= 1 << 31 or (alone and items >= hardware.multiprocessors):
        return None
    shared = made.smem_offsets["block_mask_at"] + block_mask_bytes(made, kernel, extents)
    slots = hardware.multiprocessors * max(1, min(MOST_WARPS // warps, hardware.shared // shared))
    parts = num_splits(items, tiles, slots)
    block = "warps" if warps == 1 else f"blocks of {warps} warps"
    told = f"{parts} {block} share each stream of {tiles} tiles" if parts > 1 else f"{block} have all of a stream"
    sizes = f"{items} times up to {made.rows} rows, {made.columns} scores of each at a time"
    sizes += f", {rows} rows of {extents[packed]} places beside each other" if packed is not None else ""
    reason = f"scores stay in registers: {sizes}; {told}{paged_reason(found)}"
    registers = registers_for(hardware, made.blocks, made.block_threads)
    return replace(made, num_splits=parts, is_split_kv=parts > 1, registers=registers, reason=reason)


def _packed_gqa_axis(kernel: AttentionKernel, extents: tuple[int, ...], found: AttentionOperands) -> int | None:
    """The axis of query heads with the same keys, whose rows share a query tile (packed GQA)."""
    most = MOST_PACKED if extents[kernel.attention.weighted_sums[0].axis] <= PACKED_WIDTH else MOST_ROWS
    for axis in reversed(kernel.attention.query_axes):
        if axis != found.query_axis and 1 < extents[axis] <= most // extents[found.query_axis]:
            return axis
    return None


def num_splits(items: int, tiles: int, slots: int) -> int:
    """Parts of each of so many streams of `tiles` tiles, where so many warps are there at once."""

    def time(parts: int) -> float:
        waves = -(-items * parts // slots)
        return waves * (-(-tiles // parts) + PROLOGUE_TILES) + combine_levels(parts)

    most = max(1, min(tiles // 2, slots))
    tried = {1} | {max(1, min(most, waves * slots // items)) for waves in (1, 2, 3, 4)}
    return min(sorted(tried | {min(most, 1 << k) for k in range(12)}), key=time)


def combine_levels(parts: int) -> int:
    """How often states of so many parts are merged until one is left."""
    return 0 if parts == 1 else 1 + combine_levels(-(-parts // COMBINE_FAN_IN))
