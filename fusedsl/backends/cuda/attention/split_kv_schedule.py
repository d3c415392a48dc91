"""Passes of few rows over long streams: a small block has all rows of an item, and several share its stream.

Keys and values are read once, and nothing else takes long: what counts is how many bytes are on their way. So blocks
are a warp or a few, as many as fit, each with a part of an item's stream. Each leaves its state in the workspace; the
last one of eight neighbours merges theirs, the last one of eight such these, and so on, always in the same order.
"""

from __future__ import annotations

from dataclasses import replace

from ....hardware import Hardware, registers_for
from ....kernel_ir.kernel import KernelIR
from .mma_schedule import ROWS, WarpSchedule, class_bytes, items_of, looked_up, of_shape
from .sm90_schedule import NOTHING, Operands, operands_of

COLUMNS = 64  # of the stream at a time
BEGIN = 1  # what a part takes beside its tiles, in tiles
TOGETHER = 8  # parts that one block merges, which takes as long as a tile
MOST_WARPS = 8  # on a multiprocessor, of 255 registers a thread
MOST_ROWS, MOST_PACKED = 64, 128  # of a lane, and with those of other heads that read the same keys
PACKED_WIDTH = 192  # results of more columns leave no registers for eight warps


def schedule_narrow(kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware) -> WarpSchedule | None:
    """How a pass of few rows runs on tensor cores; None for others."""
    found = operands_of(kernel)
    if found is None or found.weighed == NOTHING or kernel.stream is None or kernel.stream.parts is None:
        return None
    if extents[found.lane] > MOST_ROWS:
        return None
    if kernel.steady:  # a row's result may not depend on how many rows there are
        return None
    packed = _packed(kernel, extents, found)
    rows = extents[found.lane] * (1 if packed is None else extents[packed])
    warps = next(w for w in (1, 2, 4, 8) if rows <= w * ROWS)
    made = of_shape(kernel, extents, hardware, warps, COLUMNS)
    if made is None or not made.tensor or (packed is not None and not made.copied[0]):
        return None
    made = replace(made, packed=packed)
    items, tiles = items_of(made, kernel, extents), -(-extents[kernel.row_axes] // made.columns)
    alone = packed is None and extents[found.lane] > ROWS
    if items >= 1 << 31 or (alone and items >= hardware.multiprocessors):
        return None
    shared = made.places["classes_at"] + class_bytes(made, kernel, extents)
    slots = hardware.multiprocessors * max(1, min(MOST_WARPS // warps, hardware.shared // shared))
    parts = parts_of(items, tiles, slots)
    block = "warps" if warps == 1 else f"blocks of {warps} warps"
    told = f"{parts} {block} share each stream of {tiles} tiles" if parts > 1 else f"{block} have all of a stream"
    sizes = f"{items} times up to {made.rows} rows, {made.columns} scores of each at a time"
    sizes += f", {rows} rows of {extents[packed]} places beside each other" if packed is not None else ""
    reason = f"scores stay in registers: {sizes}; {told}{looked_up(found)}"
    registers = registers_for(hardware, made.blocks, made.block)
    return replace(made, parts=parts, split=parts > 1, registers=registers, reason=reason)


def _packed(kernel: KernelIR, extents: tuple[int, ...], found: Operands) -> int | None:
    """The axis whose rows share a stream with those of the lane, and a tile: heads with the same keys."""
    assert kernel.stream is not None
    most = MOST_PACKED if extents[kernel.stream.weighings[0].axis] <= PACKED_WIDTH else MOST_ROWS
    for axis in reversed(kernel.stream.lanes):
        if axis != found.lane and 1 < extents[axis] <= most // extents[found.lane]:
            return axis
    return None


def parts_of(items: int, tiles: int, slots: int) -> int:
    """Parts of each of so many streams of `tiles` tiles, where so many warps are there at once."""

    def time(parts: int) -> float:
        waves = -(-items * parts // slots)
        return waves * (-(-tiles // parts) + BEGIN) + levels(parts)

    most = max(1, min(tiles // 2, slots))
    tried = {1} | {max(1, min(most, waves * slots // items)) for waves in (1, 2, 3, 4)}
    return min(sorted(tried | {min(most, 1 << k) for k in range(12)}), key=time)


def levels(parts: int) -> int:
    """How often states of so many parts are merged until one is left."""
    return 0 if parts == 1 else 1 + levels(-(-parts // TOGETHER))


def part_bytes(schedule: WarpSchedule, kernel: KernelIR) -> int:
    """What one part leaves: of each thread its rows' states and its sums, 4 or 8 bytes each, in groups of 16 bytes."""
    stream = kernel.stream
    assert stream is not None and stream.parts is not None
    sums = -(-schedule.out_width // 16) * 16 // 2
    rows = sum(2 * max(1, v.dtype.itemsize // 4) for v in stream.parts.accumulators)
    words = rows + sums * max(1, stream.weighings[0].state.dtype.itemsize // 4)
    return schedule.block * 16 * -(-words // 4)


def narrow_workspace(schedule: WarpSchedule, kernel: KernelIR, extents: tuple[int, ...]) -> int:
    """Bytes of what all parts leave."""
    return items_of(schedule, kernel, extents) * schedule.parts * part_bytes(schedule, kernel)


__all__ = ["narrow_workspace", "part_bytes", "parts_of", "schedule_narrow"]
