"""Reductions over outer and middle axes: schedule, layout, intrinsics (ColumnReducer)."""

from ..emit.intrinsic import File, Method, Named


class ColumnReducerIntrinsics(Named):
    """Intrinsics of the threads of a strip: a state for each of a thread's rows."""

    reduce_tile = Method("tile, op", "*lifted, start, limit")
    all_reduce = Method("op", "states")
    identity = Method("op", "")
    combine = Method("op", "a, b")
    align = Method("op", "states, shift, begins, ends")
    store_partial = Method("op, begin", "address, states")
    load_partials = Method("op, begin, record, batch", "address, first, parts")


ColumnReducer = File("columns.intrinsics").type(
    "ColumnReducer", "width, state, threads_x=0, threads_y=0, max_threads=0", ColumnReducerIntrinsics
)
