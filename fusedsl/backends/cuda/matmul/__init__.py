"""Products of matrices: schedule, emitter, intrinsics."""

from ..emit.intrinsic import File, Method, Named

_FILE = File("matmul.intrinsics")
k_slice_coordinates = _FILE.maker("k_slice_coordinates", "along", "")
output_coordinates = _FILE.maker("output_coordinates", "part", "")
store_k_slice = _FILE.maker("store_k_slice", "name, along", "at, values")
zero_accumulators = _FILE.maker("zero_accumulators", "name", "")
add_accumulators = _FILE.maker("add_accumulators", "name", "a, b")
multiply_k_slices = _FILE.maker("multiply_k_slices", "name", "left, right, accumulators")
scatter = _FILE.maker("scatter", "tile, name", "addresses, values, in_bounds")
scatter_vectors = _FILE.maker("scatter_vectors", "tile, name", "addresses, values, in_bounds")
udiv64 = _FILE.function("udiv64", "number, divisor")


class OperandTileIntrinsics(Named):
    """Intrinsics of an operand's tile in shared memory."""

    own_mn, own_k = Method("", ""), Method("", "")
    copy_async = Method("", "to, addresses, valid_mn, step_bytes, valid_k")
    load, store = Method("", "addresses, valid_mn, step_bytes, valid_k"), Method("", "to, elements")


_FILE = File("matmul.operand_tile")
OperandTile = _FILE.type(
    "OperandTile",
    "dtype, mn, block_k, major, vector, threads, layout, pad=4, through_registers=False",
    OperandTileIntrinsics,
)


class FmaTileIntrinsics(Named):
    """Intrinsics of a block's accumulators on CUDA cores."""

    zeros = Method("", "")
    fragments = Method("left_pitch, right_pitch, step", "left, right")
    multiply = Method("left_pitch, right_pitch", "left, right, accumulators, fragments")
    multiply_fragments = Method("", "accumulators, fragments")
    add_accumulators = Method("", "to, accumulators, is_first")


FmaTile = File("matmul.fma_tile").type("FmaTile", "dtype, rows, columns, block_k, warps, lanes", FmaTileIntrinsics)


class MmaTileIntrinsics(Named):
    """Intrinsics of a block's accumulators on tensor cores."""

    zeros = Method("", "")
    fragments = Method("left, right, step", "left_at, right_at")
    multiply = Method("left, right, ahead=False, parts=1, guarded=False", "left_at, right_at, accumulators, fragments")
    multiply_fragments = Method("parts=1, guarded=False", "accumulators, fragments")
    add_accumulators = Method("", "to, accumulators, is_first")
    any_nonfinite = Method("", "accumulators")


MmaTile = File("matmul.mma_tile").type("MmaTile", "dtype, accumulators, rows, columns, depth, warps", MmaTileIntrinsics)


_FILE = File("matmul.split_k_blocks")
store_accumulators = _FILE.maker("store_accumulators", "name, shape, pitch, threads", "address, at")
add_split_accumulators = _FILE.maker("add_split_accumulators", "name, shape, pitch, threads, splits", "at, address")


class RowVectorIntrinsics(Named):
    """Intrinsics of the vectors in which a tile is finished."""

    first_row, first_column = Method("", ""), Method("", "")
    rows_from = Method("", "row")
    load = Method("name, stride_kind='1'", "addresses, in_bounds, valid, step=None")
    store = Method("name, stride_kind='1'", "addresses, values, in_bounds, valid, step=None")
    broadcast_rows = Method("name", "values")
    column_positions = Method("name", "first")
    load_accumulators = Method("name, pitch", "tile, row")


RowVectors = File("matmul.row_vectors").type(
    "RowVectors", "columns, width, vectors, threads, partial=True", RowVectorIntrinsics
)
_FILE = File("matmul.sm90.wgmma")
wgmma_slice = _FILE.maker("wgmma_slice", "kind, columns, pairs, majors", "accumulators, *descriptors")
wgmma_registers = _FILE.maker("wgmma_registers", "kind, columns, pairs, parts=1", "accumulators, *operands")
wgmma_wait_group = _FILE.maker("wgmma_wait_group", "left", "")
cluster_rank, cluster_sync = _FILE.function("cluster_rank"), _FILE.function("cluster_sync")
mbarrier_arrive_cluster = _FILE.function("mbarrier_arrive_cluster", "at, block")
tma_load_multicast = _FILE.maker("tma_load_multicast", "rank, blocks", "to, map, mbarrier, *coordinates")
tma_load_image = _FILE.maker("tma_load_image", "rank", "to, map, mbarrier, *coordinates")
take_panel = _FILE.maker("take_panel", "first, columns", "accumulators")

_FILE = File("matmul.sm90.register_operands")
register_operand = _FILE.maker("register_operand", "itemsize, major, paired=True, parts=1", "at, warpgroup")
paired_row_positions = _FILE.maker("paired_row_positions", "itemsize", "start")

_FILE = File("matmul.sm90.tf32_parts")
split_columns = _FILE.maker("split_columns", "size, threads", "at, small_at")
exact_products = _FILE.maker(
    "exact_products", "columns, product", "accumulators, rows, row_step, column, column_step, step, valid, steps"
)

_FILE = File("matmul.sm90.panel_memory")
load_panel = _FILE.maker("load_panel", "columns, name, width", "rows, in_bounds, valid, step")
load_column_values = _FILE.maker("load_column_values", "columns, name, width", "address, valid, step")
store_panel = _FILE.maker("store_panel", "columns, name, width", "rows, values, in_bounds, valid, step")
load_row_pairs = _FILE.maker("load_row_pairs", "columns, name", "rows, in_bounds, valid, step")
store_row_pairs = _FILE.maker("store_row_pairs", "columns, name", "rows, values, in_bounds, valid, step")
store_staged_rows = _FILE.maker("store_staged_rows", "", "at, rows, in_bounds, valid")

_FILE = File("matmul.sm90.split_k")
store_partial_sums = _FILE.maker("store_partial_sums", "count", "address, accumulators")
add_partial_sums = _FILE.maker("add_partial_sums", "count", "address, accumulators")
is_last_warpgroup = _FILE.function("is_last_warpgroup", "semaphore, parts, word, barrier")
