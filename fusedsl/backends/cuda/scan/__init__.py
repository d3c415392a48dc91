"""Prefix sums and other scans along rows: schedule, emitter, intrinsics."""

from ..emit.intrinsic import File

scan_tile = File("scan.intrinsics").maker(
    "scan_tile", "tile, group, op, reverse=False, blocked=False, exclusive=False", "*lifted, start, limit, before"
)

_FILE = File("scan.decoupled_lookback")
scan_with_lookback = _FILE.maker(
    "scan_with_lookback",
    "tile, group, op, reverse=False, exclusive=False",
    "*lifted, start, limit, semaphores, offset, row, turn, tiles, slots",
)
take_tile = _FILE.function("take_tile", "semaphores")
tile_row = _FILE.function("tile_row", "number, tiles")
reset_lookback = _FILE.function("reset_lookback", "semaphores, tiles, bytes")
