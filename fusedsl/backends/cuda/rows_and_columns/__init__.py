"""Rows and columns reduced in one reading: schedule, emitter, intrinsics (RowGroups)."""

from ..emit.intrinsic import File, Method, Named

_FILE = File("rows_and_columns.intrinsics")


class RowGroupsIntrinsics(Named):
    """Intrinsics of a block of several thread groups, each with rows of its own."""

    all_reduce = Method("*ops", "turn, *states")
    reduce_block = Method("tile, op")
    reduce_blocks = Method("*ops", "*addresses, column, line, blocks")


RowGroups = _FILE.type("RowGroups", "threads, groups", RowGroupsIntrinsics)

_FILE = File("rows_and_columns.grid_barrier_intrinsics")
grid_dim = _FILE.function("grid_dim")
grid_barrier = _FILE.function("grid_barrier", "semaphores, blocks")
grid_barrier_exit = _FILE.function("grid_barrier_exit", "semaphores, blocks")
