"""Intrinsics that all families use: tiles, thread groups, reductions, element access, cp.async, grid barriers,
TMA, mbarriers, matrix descriptors."""

from ..emit.intrinsic import File, Method, Named

_FILE = File("tile.thread_index")
thread_idx, thread_idx_y = _FILE.function("thread_idx"), _FILE.function("thread_idx_y")
block_dim_x, block_dim_y = _FILE.function("block_dim_x"), _FILE.function("block_dim_y")
reread_thread_idx, block_idx = _FILE.function("reread_thread_idx"), _FILE.function("block_idx")
barrier, cluster_wait = _FILE.function("barrier"), _FILE.function("cluster_wait")
griddepcontrol = _FILE.function("griddepcontrol")
launch_dependents, wait_for_launches = _FILE.function("launch_dependents"), _FILE.function("wait_for_launches")
udiv, divide = _FILE.function("udiv", "number, divisor"), _FILE.function("divide", "number, divisor, magic")
word, half = _FILE.function("word", "words, number"), _FILE.function("half", "words, number")
scalar, subkernel = _FILE.maker("scalar", "name", "word"), _FILE.maker("subkernel", "work")

_FILE = File("tile.smem_address")
smem_base, cp_async_wait_all = _FILE.function("smem_base"), _FILE.function("cp_async_wait_all")

_FILE = File("tile.tile")


class TileIntrinsics(Named):
    """Intrinsics of a tile: the elements that a thread holds."""

    load = Method("name, stride_kind='1', displacement=0, alignment=0", "address, start, limit, stride=None")
    store = Method("name, stride_kind='1'", "address, begins, values, start, limit, stride=None")
    load_shared = Method("name, threads, offset", "at")
    copy_async = Method("name, threads, offset", "address, start, limit, at")
    elementwise = Method("signature")
    positions = Method("name, along=True", "start")
    gather = Method("name, run=1", "addresses, wanted")
    gather_alike = Method("name", "addresses, wanted")
    random = Method("name", "positions, seed, stream")
    slice = Method("first, vectors, rematerialize=False", "values")
    vectors_from = Method("", "first, limit")


Tile = _FILE.type("Tile", "width, vectors, checks, step=0, exact=True, along_y=False", TileIntrinsics)
uniform = File("tile.scalar_functions").maker("uniform", "signature")

_FILE = File("tile.shared_draws")
random_pairs = _FILE.maker("random_pairs", "tile, name", "positions, seed, stream")
in_pairs = _FILE.maker("in_pairs", "tile, signature")

_FILE = File("tile.element")
load_value = _FILE.maker("load_value", "name", "address")
store_value = _FILE.maker("store_value", "name", "address, value, wanted")
concat_tiles = _FILE.function("concat_tiles", "first, rest")


class ThreadGroupIntrinsics(Named):
    """Intrinsics of the threads that reduce a row."""

    all_reduce = Method("op")
    cluster_init = Method("", "")


ThreadGroup = File("tile.thread_group").type(
    "ThreadGroup",
    "threads, rows_across=0, cluster=1, reductions=0, dynamic=False, groups=1, persistent=False",
    ThreadGroupIntrinsics,
)

_FILE = File("tile.reduce")
reduction = _FILE.type("reduction", "state, merge, empty, follow=None", Named)
reduce_tile = _FILE.maker("reduce_tile", "tile, op", "*lifted, start, limit")
reduce_packed = _FILE.maker("reduce_packed", "tile, op, order, name, absolute=False", "words, start, limit")
combine_states = _FILE.maker("combine_states", "op", "a, b")
identity_state = _FILE.maker("identity_state", "op", "")


class CpAsyncRingIntrinsics(Named):
    """Intrinsics of the tiles of an operand in rows of shared memory."""

    copy_async = Method("", "address, start, limit, row")
    load = Method("", "row")


_FILE = File("tile.cp_async")
CpAsyncRing = _FILE.type("CpAsyncRing", "tile, name, begin, threads", CpAsyncRingIntrinsics)
wait_group, commit_group = _FILE.maker("wait_group", "groups", ""), _FILE.function("commit_group")
dynamic_smem_base = _FILE.function("dynamic_smem_base")

_FILE = File("tile.grid_sync")
is_last_block = _FILE.function("is_last_block", "semaphores, index, blocks")
grid_barrier_wait = _FILE.function("grid_barrier_wait", "semaphores, index, count")
grid_barrier_reset = _FILE.function("grid_barrier_reset", "semaphores, index, blocks")
store_partial = _FILE.maker("store_partial", "op, begin", "address, state")
store_lane_partial = _FILE.maker("store_lane_partial", "op", "address, state")
load_partial = _FILE.maker("load_partial", "op, begin", "address")

_FILE = File("tile.matrix_descriptor")
k_major_descriptor = _FILE.function("k_major_descriptor", "at")
mn_major_descriptor = _FILE.maker("mn_major_descriptor", "lines", "at")

_FILE = File("tile.sm90")
mbarrier_init = _FILE.function("mbarrier_init", "at, count")
fence_mbarrier_init = _FILE.function("fence_mbarrier_init")
mbarrier_expect_tx = _FILE.function("mbarrier_expect_tx", "at, bytes")
mbarrier_arrive = _FILE.function("mbarrier_arrive", "at")
mbarrier_wait_parity = _FILE.function("mbarrier_wait_parity", "at, parity")
bar_sync, bar_arrive = _FILE.function("bar_sync", "number, threads"), _FILE.function("bar_arrive", "number, threads")
setmaxnreg_inc, setmaxnreg_dec = _FILE.maker("setmaxnreg_inc", "count", ""), _FILE.maker("setmaxnreg_dec", "count", "")
tma_load = _FILE.maker("tma_load", "rank", "to, map, mbarrier, *coordinates")
tma_store = _FILE.maker("tma_store", "rank", "at, map, *coordinates")
fence_proxy_async, tma_store_commit = _FILE.function("fence_proxy_async"), _FILE.function("tma_store_commit")
tma_store_wait = _FILE.function("tma_store_wait")
tma_store_wait_read = _FILE.maker("tma_store_wait_read", "left", "")
param_address = _FILE.maker("param_address", "number", "")
dynamic_smem = _FILE.maker("dynamic_smem", "alignment", "")
wgmma_wait = _FILE.maker("wgmma_wait", "left", "sums")
st_shared, or_shared = _FILE.function("st_shared", "at, word"), _FILE.function("or_shared", "at, word")
ld_shared, warp_uniform = _FILE.function("ld_shared", "at"), _FILE.function("warp_uniform", "value")
wait_for_values, ballot = _FILE.function("wait_for_values", "values"), _FILE.function("ballot", "flag")
find_leading_one, popc = _FILE.function("find_leading_one", "word"), _FILE.function("popc", "word")
