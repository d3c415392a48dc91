"""Products of matrices: schedule, emitter, intrinsics."""

from ..emit.intrinsic import File, Method, Named

_FILE = File("matmul.intrinsics")
k_slice_coordinates = _FILE.maker("k_slice_coordinates", "along", "")
output_coordinates = _FILE.maker("output_coordinates", "part", "")
store_k_slice = _FILE.maker("store_k_slice", "name, along", "at, values")
zero_accumulators = _FILE.maker("zero_accumulators", "name", "")
add_accumulators = _FILE.maker("add_accumulators", "name", "a, b")
multiply_k_slices = _FILE.maker("multiply_k_slices", "name", "left, right, sums")
scatter = _FILE.maker("scatter", "tile, name", "addresses, values, wanted")
scatter_vectors = _FILE.maker("scatter_vectors", "tile, name", "addresses, values, wanted")
udiv64 = _FILE.function("udiv64", "number, divisor")


class OperandTileIntrinsics(Named):
    """Intrinsics of an operand's tile in shared memory."""

    own_mn, own_k = Method("", ""), Method("", "")
    copy_async = Method("", "to, addresses, room, step_bytes, left")
    fetch, put = Method("", "addresses, room, step_bytes, left"), Method("", "to, elements")


_FILE = File("matmul.operand_tile")
OperandTile = _FILE.type(
    "OperandTile",
    "dtype, mn, block_k, major, vector, threads, layout, pad=4, through_registers=False",
    OperandTileIntrinsics,
)


class FmaTileIntrinsics(Named):
    """Intrinsics of a block's accumulators on CUDA cores."""

    zeros = Method("", "")
    multiply = Method("left_pitch, right_pitch", "left, right, sums")
    add_sums = Method("", "to, sums, is_first")


FmaTile = File("matmul.fma_tile").type("FmaTile", "dtype, rows, columns, block_k, warps, lanes", FmaTileIntrinsics)


class MmaTileIntrinsics(Named):
    """Intrinsics of a block's accumulators on tensor cores."""

    zeros = Method("", "")
    multiply = Method("left, right, parts=1, guarded=False", "left_at, right_at, sums")
    add_sums = Method("", "to, sums, is_first")
    any_nonfinite = Method("", "sums")


MmaTile = File("matmul.mma_tile").type("MmaTile", "dtype, sums, rows, columns, depth, warps", MmaTileIntrinsics)


_FILE = File("matmul.split_tile")
store_sums = _FILE.maker("store_sums", "name, shape, pitch, threads", "address, at")
add_split_sums = _FILE.maker("add_split_sums", "name, shape, pitch, threads, splits", "at, address")


class RowVectorIntrinsics(Named):
    """Intrinsics of the vectors in which a tile is finished."""

    first_row, first_column = Method("", ""), Method("", "")
    rows_from = Method("", "row")
    load = Method("name, letter='1'", "addresses, wanted, left, step=None")
    store = Method("name, letter='1'", "addresses, values, wanted, left, step=None")
    spread_rows = Method("name", "values")
    column_positions = Method("name", "first")
    read_sums = Method("name, pitch", "tile, row")


RowVectors = File("matmul.row_vectors").type(
    "RowVectors", "columns, width, vectors, threads, partial=True", RowVectorIntrinsics
)
_FILE = File("matmul.sm90.wgmma")
wgmma_slice = _FILE.maker("wgmma_slice", "kind, columns, pairs, majors", "sums, *descriptors")
wgmma_wait_group = _FILE.maker("wgmma_wait_group", "left", "")
cluster_rank, cluster_sync = _FILE.function("cluster_rank"), _FILE.function("cluster_sync")
mbarrier_arrive_cluster = _FILE.function("mbarrier_arrive_cluster", "at, block")
tma_load_multicast = _FILE.maker("tma_load_multicast", "rank, blocks", "to, map, mbarrier, *coordinates")
take_panel = _FILE.maker("take_panel", "first, columns", "sums")

_FILE = File("matmul.sm90.panel_memory")
load_panel = _FILE.maker("load_panel", "columns, name, width", "rows, wanted, room, step")
load_column_values = _FILE.maker("load_column_values", "columns, name, width", "address, room, step")
store_panel = _FILE.maker("store_panel", "columns, name, width", "rows, values, wanted, room, step")

_FILE = File("matmul.sm90.split_k")
store_partial_sums = _FILE.maker("store_partial_sums", "count", "address, sums")
add_partial_sums = _FILE.maker("add_partial_sums", "count", "address, sums")
is_last_warpgroup = _FILE.function("is_last_warpgroup", "semaphore, parts, word, barrier")
