"""Scatters: elements merged by atomics at computed places; schedule, emitter, intrinsics."""

from ..emit.intrinsic import File

merge_tile = File("scatter.intrinsics").maker("merge_tile", "tile, name, fold", "address, places, values, left")
